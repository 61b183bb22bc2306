/* SPDX-License-Identifier: MIT */
/* What the files of the double share; see cuda.h. */
#ifndef FAKE_CUDA_OBJECTS_H
#define FAKE_CUDA_OBJECTS_H

#include <pthread.h>
#include <sys/types.h>

#include "backends/cuda/api.h"
#include "cuda.h"

#define EXPORT __attribute__((visibility("default")))

/* The compiler compares the definitions with what dlbuf will call. */
#define X(name, symbol, needed, params) EXPORT cuda_result symbol params;
CUDA_FUNCTIONS(X)
#undef X
#define X(name, symbol, params) EXPORT cuda_result symbol params;
FAKE_CUDA_FUNCTIONS(X)
#undef X

extern struct fake_cuda fake;
extern pthread_mutex_t lock;	/* of all of this */
extern pthread_cond_t changed;	/* an operation came or went */
extern bool initialised;

/*
 * An object is never given back to the allocator, so that a handle that was
 * destroyed is still known as one.
 */
struct object {
	struct object *next;
	struct context *ctx;
	enum fake_kind kind;
	bool live;
	bool ours;		/* made by the double, not counted */
	unsigned int pending;	/* operations that use it */
};

struct context {
	struct object object;
	int device;
	bool primary;
	unsigned int retained;
	struct stream *legacy;
};

/* Memory that a stream may use. */
struct range {
	struct object object;
	struct range *next;	/* of those that are live */
	uintptr_t address;	/* the device's */
	size_t bytes;
	uint8_t *host;		/* where the double finds it */
	void *pointer;		/* where the CPU does, or NULL */
	struct block *block;	/* what it is a part of */
	struct external *external; /* what it maps */
	size_t reserved;	/* bytes of addresses at address */
	int fd;			/* of host memory */
	ino_t inode;		/* of what was registered */
	unsigned int flags;
	bool managed;
	bool read_only;
};

struct stream {
	struct object object;
	struct stream *next;	/* of those that have a thread */
	bool legacy, blocking;
	unsigned int thread;	/* whose per-thread default stream it is */
	struct operation *head, **tail;
	pthread_t worker;
	bool started, closing, exited;
	/* A capture. */
	bool capturing, invalidated;
	int mode;
	unsigned int captor;	/* the thread that began it */
	struct operation *recorded;
};

/* What cuEventRecord() has captured: done when the stream is there. */
struct record {
	unsigned int refs;
	bool done;
	bool captured;		/* by a graph, so never */
};

struct event {
	struct object object;
	struct record *record;
};

/* External memory or an external semaphore. */
struct external {
	struct object object;
	int fd, type;
	ino_t inode;
	uint8_t *map;
	size_t mapped;
	size_t bytes;
	unsigned int nbuffers;
};

enum operation_kind {
	OP_COPY,
	OP_SET,
	OP_WAIT_VALUE,
	OP_WRITE_VALUE,
	OP_HOST_FUNCTION,
	OP_RECORD,
	OP_WAIT_RECORD,
	OP_SIGNAL,
	OP_WAIT,
};

struct operation {
	struct operation *next;
	enum operation_kind kind;
	uint64_t sequence;	/* among those of all streams */
	struct object *uses[2];
	uint8_t *to;
	const uint8_t *from;
	size_t bytes;
	uint64_t value;
	struct record *record;
	struct external *semaphore;
	cuda_host_fn fn;
	void *data;
};

/* ---------------------------------------------------------------- calls */

/* What a call needs before it is looked at any further. */
enum {
	NEEDS_INIT = 1,
	NEEDS_DEVICE = 2,	/* that is not lost */
	NEEDS_CONTEXT = 4,
	UNSAFE = 8,		/* while a stream captures */
};

#define NEEDS_ALL (NEEDS_INIT | NEEDS_DEVICE | NEEDS_CONTEXT)

/* Against the rules: counted, and said. */
__attribute__((format(printf, 1, 2))) void wrong(const char *fmt, ...);
/* The same, for the call that is being made, and what it is to return. */
cuda_result refuse(cuda_result result, const char *why);

/* Takes the lock. Why the call fails, or 0. */
cuda_result begin(const char *name, unsigned int needs);
/* Gives it back. */
cuda_result end(cuda_result result);

/* Begins a call that does nothing if it fails. */
#define BEGIN(needs)					\
	cuda_result result = begin(__func__, needs);	\
							\
	if (result)					\
		return end(result);

/* Begins one that frees: it does so whatever it returns, unless it is refused. */
#define BEGIN_FREE(needs)				\
	cuda_result result = begin(__func__, needs);	\
							\
	if (refused)					\
		return end(result);

extern __thread bool refused;
extern __thread bool in_host_function;
extern __thread const char *call;	/* that is being made */
unsigned int this_thread(void);
int *capture_mode(void);
/* Whether a stream's capture forbids a call, which ends the capture. */
bool capture_forbids(void);

/* ---------------------------------------------------------------- objects */

void *make(enum fake_kind kind, size_t size, struct context *ctx, bool ours);
/* The object that it is, live, or NULL. */
void *object_of(const void *handle, enum fake_kind kind);
/* Whether it is one that is gone. */
bool was(const void *handle, enum fake_kind kind);
/* It is gone; said if the device still uses it. */
void unmake(struct object *o);
/* Everything that lives in a context; how many. */
unsigned int destroy_all_of(struct context *ctx, bool count_only);
void free_objects(void);

/* The current context or NULL. */
struct context *current(void);
const struct fake_device *device_of(const struct context *ctx);
void contexts_reset(void);

/* ---------------------------------------------------------------- memory */

extern struct range *ranges;

size_t page_up(size_t bytes);
/* Addresses that nobody can touch, or NULL. */
void *reserve(size_t bytes, size_t align);
struct range *range_of_device(uintptr_t address);
struct range *range_of_host(uintptr_t pointer);
struct range *range_make(enum fake_kind kind, uintptr_t address, size_t bytes);
void range_free(struct range *r);
/* All of it is mapped. */
bool is_mapped(const void *p, size_t bytes);
/* What the CPU sees of it is still there, and still the same file. */
bool range_is_mapped(const struct range *r);

/*
 * The device's memory at an address: sets its range (NULL for pageable memory
 * that the device can use) and the bytes.
 */
cuda_result device_bytes(struct context *ctx, cuda_pointer p, size_t bytes,
			 bool write, struct range **range, uint8_t **host);

/* ---------------------------------------------------------------- streams */

extern struct stream *streams;

cuda_result stream_of(cuda_stream handle, struct stream **out);
struct stream *stream_make(struct context *ctx, bool legacy, bool blocking,
			   bool ours);
void stream_free(struct stream *s);
/* Puts a copy of an operation into the queue, or into the graph. */
cuda_result enqueue(struct stream *s, const struct operation *model);
/* Waits for what is in it; the caller's thread. */
cuda_result drain(struct stream *s);
/*
 * Waits for what the streams of the object's context were given, as calls that
 * free do: with the driver's own lock, so that every other call waits meanwhile.
 * Not where they use the object itself: unmake() says so.
 */
void wait_to_free(const struct object *o);
extern bool freeing;		/* somebody is in there */
void event_free(struct event *e);
void graph_free(struct object *graph);
void streams_reset(void);

/* ---------------------------------------------------------------- externals */

void external_free(struct external *e);
bool is_memfd(int fd);
bool is_dma_buf(int fd);
ino_t inode_of(int fd);

#endif /* FAKE_CUDA_OBJECTS_H */
