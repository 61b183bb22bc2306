/* SPDX-License-Identifier: MIT */
/*
 * Shared by doubles of drivers: calls that can be made to fail, and objects whose use
 * is checked. No driver is named here. A double embeds these structs, checks arguments,
 * and chooses the result of a call.
 */
#ifndef FAKE_OBJECTS_H
#define FAKE_OBJECTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define EXPORT __attribute__((visibility("default")))

/* The double defines them. */
extern struct driver *const driver;
extern const char driver_name[];

/* ---------------------------------------------------------------- calls */

extern pthread_mutex_t lock;	/* of all of this */
extern pthread_cond_t changed;	/* a job came or went, or an object */
/*
 * In the static block: the thread sanitizer of GCC 12 dies in __tls_get_addr() if a
 * thread of a library that was opened later asks for such a variable first. musl
 * opens no library that wants this.
 */
#ifdef __GLIBC__
#define STATIC_TLS __thread __attribute__((tls_model("initial-exec")))
#else
#define STATIC_TLS __thread
#endif
extern STATIC_TLS bool in_host_function;
extern STATIC_TLS const char *call;	/* that is being made */
extern bool initialised;	/* which the double sets */
extern bool forked;		/* since then: the parent's threads are not here */
extern bool freeing;		/* a call frees memory, and keeps others waiting */

/* Against the rules: counted, and said. */
__attribute__((format(printf, 1, 2))) void wrong(const char *fmt, ...);
/* Takes the lock for a call. Returns whether the test makes the call fail. */
bool call_begin(const char *name);
/*
 * Call before a call waits for a stream. The library's thread may not wait, because
 * another stream may wait for that thread. A call that frees may wait on any thread.
 */
void begins_to_wait(void);
/* The driver is lost: all calls return this from now on, and jobs are dropped. */
void lose(int result);

/* ---------------------------------------------------------------- objects */

/*
 * An object is never given back to the allocator, so that a handle that was
 * destroyed is still known as one.
 */
#define OBJECT_FIELDS							\
	const void *dispatch; /* for a loader of drivers that looks there first */ \
	struct object *next;						\
	struct context *ctx;	/* the double's, or NULL */		\
	/* The CPU's side of it is there, which an application may unmap; or NULL. */ \
	bool (*is_there)(const struct object *o);			\
	unsigned int kind;						\
	bool live;							\
	bool ours;		/* made by the double, not counted */	\
	unsigned int pending;	/* jobs that use it */

struct object {
	OBJECT_FIELDS
};

void *make(unsigned int kind, size_t size, struct context *ctx, bool ours);
/* The object that it is, live, or NULL. */
void *object_of(const void *handle, unsigned int kind);
/* Whether the object was destroyed. */
bool was(const void *handle, unsigned int kind);
/* Marks the object as destroyed; reports it if a stream still uses it. */
void unmake(struct object *o);
/* Destroys all of a kind that live in a context (NULL: any), or only counts. */
unsigned int destroy_all(unsigned int kind, struct context *ctx,
			 void (*destroy)(struct object *o));
void objects_free(void);

#endif /* FAKE_OBJECTS_H */
