/* SPDX-License-Identifier: MIT */
/* Shared by the files of the double; see cuda.h. */
#ifndef FAKE_CUDA_OBJECTS_H
#define FAKE_CUDA_OBJECTS_H

#include <sys/types.h>

#include "backends/cuda/api.h"
#include "cuda.h"
#include "common/calls.h"

/* The compiler compares the definitions with dlbuf's declarations. */
#define X(name, symbol, needed, params) EXPORT cuda_result symbol params;
CUDA_FUNCTIONS(X)
#undef X
#define X(name, symbol, params) EXPORT cuda_result symbol params;
FAKE_CUDA_FUNCTIONS(X)
#undef X

extern struct fake_cuda fake;

struct context {
	struct object object;
	int device;
	bool primary;
	unsigned int retained;
	struct cuda_queue *legacy;
	struct context *of;	/* of a green one: the primary one, which has all objects */
};

/* Memory that a stream may use. */
struct range {
	struct object object;
	struct range *next;	/* of those that are live */
	uintptr_t address;	/* the device's */
	size_t bytes;
	uint8_t *host;		/* where the double finds it */
	void *pointer;		/* where the CPU does, or NULL */
	struct block *block;	/* the block of which this is a part */
	struct external *external; /* the import that it maps */
	size_t reserved;	/* bytes of addresses at address */
	int fd;			/* of host memory */
	ino_t inode;		/* of what was registered */
	unsigned int flags;
	bool managed;
	bool read_only;
};

/* A stream, and its capture. */
struct cuda_queue {
	struct object object;
	struct stream stream;
	unsigned int thread;	/* whose per-thread default stream it is */
	struct context *green;	/* that it was made for, or NULL */
	bool capturing, invalidated;
	int mode;
	unsigned int captor;	/* the thread that began it */
};

struct event {
	struct object object;
	struct record *record;	/* by cuEventRecord(), or NULL */
	bool captured;		/* by a graph, so never done */
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

/* ---------------------------------------------------------------- calls */

enum {
	NEEDS_CONTEXT = NEEDS_OWN,
	UNSAFE = NEEDS_OWN << 1,	/* while a stream captures */
};

#define NEEDS_ALL (NEEDS_INIT | NEEDS_DEVICE | NEEDS_CONTEXT)

unsigned int this_thread(void);
int *capture_mode(void);
/* Whether a stream's capture forbids a call, which ends the capture. */
bool capture_forbids(void);
/* Ends all captures of any mode, if there are any. */
bool captures_end(void);

/* ---------------------------------------------------------------- objects */

/* The current context or NULL. */
/* The context that owns new objects; and the current context, which may be a green one. */
struct context *current(void);
struct context *top(void);
/* For an API without contexts: the primary one of the device. Needs the lock. */
void be_current(int dev);
const struct fake_device *device_of(const struct context *ctx);

/* ---------------------------------------------------------------- memory */

extern struct range *ranges;

struct range *range_of_device(uintptr_t address);
struct range *range_of_host(uintptr_t pointer);
struct range *range_make(enum fake_kind kind, uintptr_t address, size_t bytes);
void range_free(struct object *o);
/* The block that has the memory at p: its address, 0 for memory without one. */
cuda_pointer block_around(cuda_pointer p, size_t *bytes);
/* Frees the blocks that nothing is in. */
void blocks_drop(void);
/* Whether the CPU's mapping still exists and is the same file. */
bool range_is_mapped(const struct object *o);

/*
 * The device's memory at an address: sets its range (NULL for pageable memory
 * that the device can use) and the bytes.
 */
cuda_result device_bytes(struct context *ctx, cuda_pointer p, size_t bytes,
			 bool write, struct range **range, uint8_t **host);

/* ---------------------------------------------------------------- streams */

cuda_result stream_of(cuda_stream handle, struct cuda_queue **out);
struct cuda_queue *queue_make(struct context *ctx, bool legacy, bool blocking,
			      bool ours);
void queue_free(struct object *o);
void event_free(struct object *o);
/* Adds a job to the stream, unless that captures. */
cuda_result enqueue(struct cuda_queue *q, const struct job *job);

/* ---------------------------------------------------------------- externals */

void external_free(struct object *o);
/* In the flags of a description: a dma-buf that HIP cannot handle. */
#define FAKE_FOREIGN ~0u

#endif /* FAKE_CUDA_OBJECTS_H */
