/* SPDX-License-Identifier: MIT */
/*
 * What the doubles of drivers share: calls that can be made to fail, objects
 * whose use is watched, and streams that run. No driver is named here. A double
 * embeds these structs, checks arguments, and says what a call returns.
 *
 * One lock is held by each call and by streams. It is free while a call waits
 * for a stream, and while a stream calls a function of the user. A call that
 * frees memory keeps all other calls waiting, as drivers do.
 */
#ifndef FAKE_STREAMS_H
#define FAKE_STREAMS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "driver.h"

/* The double defines them. */
extern struct driver *const driver;
extern const char driver_name[];

/* ---------------------------------------------------------------- calls */

extern pthread_mutex_t lock;	/* of all of this */
extern pthread_cond_t changed;	/* a job came or went, or an object */
/*
 * In the static block: the thread sanitizer of GCC 12 dies in __tls_get_addr() if a
 * thread of a library that was opened later asks for such a variable first.
 */
#define STATIC_TLS __thread __attribute__((tls_model("initial-exec")))
extern STATIC_TLS bool in_host_function;
extern STATIC_TLS const char *call;	/* that is being made */
extern bool initialised;	/* which the double sets */
extern bool forked;		/* since then: the parent's threads are not here */

/* Against the rules: counted, and said. */
__attribute__((format(printf, 1, 2))) void wrong(const char *fmt, ...);
/* Takes the lock for a call. Whether the test wants it to fail. */
bool call_begin(const char *name);
/* The driver is lost: all calls return this from now on, and jobs are dropped. */
void lose(int result);

/* ---------------------------------------------------------------- objects */

/*
 * An object is never given back to the allocator, so that a handle that was
 * destroyed is still known as one.
 */
struct object {
	const void *dispatch;	/* for a loader of drivers that looks there first */
	struct object *next;
	struct context *ctx;	/* the double's, or NULL */
	/* The CPU's side of it is there, which an application may unmap; or NULL. */
	bool (*is_there)(const struct object *o);
	unsigned int kind;
	bool live;
	bool ours;		/* made by the double, not counted */
	unsigned int pending;	/* jobs that use it */
};

void *make(unsigned int kind, size_t size, struct context *ctx, bool ours);
/* The object that it is, live, or NULL. */
void *object_of(const void *handle, unsigned int kind);
/* Whether it is one that is gone. */
bool was(const void *handle, unsigned int kind);
/* It is gone; said if a stream still uses it. */
void unmake(struct object *o);
/* Destroys all of a kind that live in a context (NULL: any), or only counts. */
unsigned int destroy_all(unsigned int kind, struct context *ctx,
			 void (*destroy)(struct object *o));
void objects_free(void);
/* All of it is mapped. */
bool is_mapped(const void *p, size_t bytes);
/* Whether the kernel pins the page of an address: 1, 0, or -1 for not known. */
int is_pinned(uintptr_t p);

bool is_memfd(int fd);
bool is_dma_buf(int fd);
ino_t inode_of(int fd);
/* Counts an fd as wrong that a driver must not keep: not CLOEXEC, or one of 0 to 2. */
void look_at_fd(int fd);

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

/* It works on live objects only: what is freed too early is said by unmake(). */
struct job {
	struct job *next;
	uint64_t sequence;	/* among those of all streams */
	enum progress (*run)(struct job *job);
	struct object *uses[2];
	uint8_t *to;
	const uint8_t *from;
	size_t bytes;
	uint64_t value;
	struct record *record;
	void (*fn)(void *data);
	void *data;
	bool ends_lost;		/* run() is called on a lost device, too, to end it */
};

enum progress job_copy(struct job *job);	/* to, from, bytes */
enum progress job_set(struct job *job);		/* to, bytes: value */
/* 32 bits at `to`: waits until they are value or more, cyclically; stores. */
enum progress job_wait_word(struct job *job);
enum progress job_write_word(struct job *job);
enum progress job_call(struct job *job);	/* fn(data), without the lock */
enum progress job_record(struct job *job);	/* record */
enum progress job_wait_record(struct job *job);

struct record *record_make(void);
struct record *record_get(struct record *record);
void record_put(struct record *record);
/* NULL, of an event that was never recorded, is done. */
bool record_is_done(const struct record *record);

/* The thread begins with the first job. 0 or an errno. */
int stream_add(struct stream *s, const struct job *model);
void stream_init(struct stream *s, const struct context *ctx, bool legacy,
		 bool blocking);
/* It ends when its jobs are done; `now`: waits for that, for who frees it. */
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
 * where a stream uses the object itself, which unmake() says.
 */
void wait_to_free(const struct object *o);

#endif /* FAKE_STREAMS_H */
