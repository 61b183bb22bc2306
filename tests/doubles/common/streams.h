/* SPDX-License-Identifier: MIT */
/*
 * Streams that run, for the doubles of drivers that have such.
 *
 * One lock is held by each call and by streams. It is free while a call waits
 * for a stream, and while a stream calls a function of the user. A call that
 * frees memory keeps all other calls waiting, as drivers do.
 */
#ifndef FAKE_STREAMS_H
#define FAKE_STREAMS_H

#include "memory.h"
#include "objects.h"
#include "prepare.h"

/* ---------------------------------------------------------------- streams */

struct stream {
	struct stream *next;	/* of those that have a thread */
	const struct context *ctx;
	/* A legacy stream and the blocking ones of its context are in order. */
	bool legacy, blocking;
	struct job *head, **tail;
	pthread_t worker;
	bool started, closing, exited;
};

/* A moment in a stream, for events: done when the stream is there. */
struct record {
	unsigned int refs;
	bool done;
};

enum progress {
	JOB_DONE,
	JOB_WAITS,		/* until something changes */
	JOB_POLLS,		/* for memory, which changes without a word */
};

/* A launch of lib/prepare/kernel.h, as prepare.h has it. */
struct kernel_job {
	uint8_t *buffers[PREPARE_BUFFERS];
	size_t bytes[PREPARE_BUFFERS];
	uint8_t run[PREPARE_RUN_BYTES];
	uint32_t across, down, images;	/* items */
};

/* It works on live objects only: unmake() reports an object that is freed too early. */
struct job {
	struct job *next;
	uint64_t sequence;	/* among those of all streams */
	enum progress (*run)(struct job *job);
	struct object *uses[PREPARE_BUFFERS];
	uint8_t *to;
	const uint8_t *from;
	size_t bytes;
	uint64_t value;
	struct record *record;
	void (*fn)(void *data);
	void *data;
	struct kernel_job *kernel;	/* from malloc() */
	bool ends_lost;		/* run() is called on a lost device, too, to end it */
};

enum progress job_copy(struct job *job);	/* to, from, bytes */
enum progress job_set(struct job *job);		/* to, bytes: value */
/* 32 bits at `to`: waits until they are value or more, cyclically; stores. */
enum progress job_wait_word(struct job *job);
enum progress job_write_word(struct job *job);
enum progress job_call(struct job *job);	/* fn(data), without the lock */
enum progress job_kernel(struct job *job);	/* kernel */
enum progress job_record(struct job *job);	/* record */
enum progress job_wait_record(struct job *job);

struct record *record_make(void);
struct record *record_get(struct record *record);
void record_put(struct record *record);
/* NULL, of an event that was never recorded, is done. */
bool record_is_done(const struct record *record);

/*
 * The thread begins with the first job. 0 or an errno. stream_start() may let the lock go while
 * it joins another thread; after it stream_add() does not.
 */
int stream_start(struct stream *s);
int stream_add(struct stream *s, const struct job *model);
void stream_init(struct stream *s, const struct context *ctx, bool legacy,
		 bool blocking);
/* It ends when its jobs are done; `now`: waits for that, for a call that frees it. */
void stream_end(struct stream *s, bool now);
/* Ends all of them, and drops their jobs. Objects go with objects_free(). */
void streams_reset(void);

/* Whether one is legacy and the other one blocking, so that each waits. */
bool stream_waits_for(const struct stream *s, const struct stream *other);
bool stream_is_idle(const struct stream *s);
/* Wait for what has been added so far. Return driver->lost. */
int stream_finish(const struct stream *s);
int context_finish(const struct context *ctx);
int record_finish(struct record *record);
/*
 * Waits for all streams of the object's context as a call that frees does. Not
 * if a stream uses the object itself, which unmake() reports.
 */
void wait_to_free(const struct object *o);

#endif /* FAKE_STREAMS_H */
