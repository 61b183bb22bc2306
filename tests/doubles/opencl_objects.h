/* SPDX-License-Identifier: MIT */
/* Shared by the files of the double; see opencl.h. */
#ifndef FAKE_OPENCL_OBJECTS_H
#define FAKE_OPENCL_OBJECTS_H

/*
 * OpenCL's functions are exported, so that the double serves without a loader, too. An
 * application that links with the loader has functions of the same names.
 */
#pragma GCC visibility push(protected)
#include "opencl.h"
#pragma GCC visibility pop

#include "common/calls.h"
#include "common/fences.h"

#undef EXPORT
#define EXPORT __attribute__((visibility("protected")))

extern struct fake_opencl fake;

/* An object that an application retains and releases. */
struct counted {
	struct object object;
	unsigned int refs;
	struct context *context;
};

struct device {
	const void *dispatch;
	unsigned int number;
};

struct context {
	struct counted c;
	const struct device *devices[2];
	cl_uint ndevices;
};

struct queue {
	struct counted c;
	const struct device *device;
	cl_command_queue_properties properties;
	struct stream stream;
	struct event *head, **tail;	/* commands before the next flush */
	struct event *ready;		/* after it, of a queue that is out of order */
};

struct destructor {
	void (CL_CALLBACK *fn)(cl_mem memory, void *data);
	void *data;
};

struct memory {
	struct counted c;
	size_t size;
	cl_mem_flags flags;
	unsigned int users;		/* commands and sub-buffers */
	uint8_t *bytes;			/* the device's */
	uint8_t *host;			/* of CL_MEM_USE_HOST_PTR */
	uint8_t *dirty;			/* HOST_PTR_PINNED: bytes that a map brings */
	enum fake_host_ptr host_ptr;
	void *map;			/* for munmap(): of the fd, or its own */
	size_t mapped;
	int fd;
	ino_t inode;
	bool read_only;			/* the fd is */
	bool external, acquired;
	bool kernels_only;
	struct mapping {
		size_t offset, bytes;
		cl_map_flags flags;
		bool used, begun, ends;
	} maps[8];
	struct destructor destructors[4];
	unsigned int ndestructors;
};

struct semaphore {
	struct counted c;
	bool imports, exports;
	bool payload;			/* a signal without a wait */
	int fd;				/* the imported sync_file, or -1 */
	struct event *signal;		/* the command that gives the payload */
};

struct callback {
	void (CL_CALLBACK *fn)(cl_event event, cl_int status, void *data);
	void *data;
	cl_int type;
};

/* An event, and the command that it is of. */
struct event {
	struct counted c;
	struct queue *queue;		/* NULL: a user event */
	cl_command_type type;
	cl_int status;
	struct event *next;		/* in the queue, before the flush */
	struct event *waits[16];
	cl_uint nwaits;
	struct callback callbacks[4];
	unsigned int ncallbacks;

	enum progress (*run)(struct event *e);
	struct memory *memories[5];
	size_t offsets[3], bytes;
	uint8_t *host;
	uint8_t pattern[128];
	size_t pattern_bytes;
	struct mapping *mapping;
	int wait;			/* a sync_file that the command waits for */
	struct teller tell;		/* of one that waits for it */
};

/* ---------------------------------------------------------------- calls */

enum {
	BLOCKS = NEEDS_OWN,		/* so it is not for a callback */
	NEW_2_0 = NEEDS_OWN << 1,	/* not in OpenCL 1.2 */
};

/* The same for a call that makes an object. */
void *end_make(void *object, cl_int result, cl_int *errcode);

#define BEGIN_MAKE(flags)				\
	int result = begin(__func__, flags);		\
							\
	if (result)					\
		return end_make(NULL, result, errcode_ret);

/* The live object of a handle; or ends the call. */
#define LIVE(type, var, handle, kind, invalid)		\
	struct type *var = live(handle, kind);		\
							\
	if (!var)					\
		return end(refuse(invalid, "no live " #type));

/* The functions that count references; last() when the last one goes. */
#define COUNTED(name, handles, type, kind, invalid, last)		\
	cl_int CL_API_CALL clRetain##name(handles handle)		\
	{								\
		BEGIN(NEEDS_ALL)					\
		return end(retain(handle, kind, invalid));		\
	}								\
	cl_int CL_API_CALL clRelease##name(handles handle)		\
	{								\
		struct type *o;						\
									\
		BEGIN_FREE(NEEDS_ALL)					\
		if (release(handle, kind, invalid, &o, &result))	\
			last(&o->c.object);				\
		return end(result);					\
	}

/* Begins a command of a queue; or ends the call. */
#define COMMAND(e, queue, type, n, list)				\
	struct event *e = command(queue, type, n, list, &result);	\
									\
	if (!e)								\
		return end(result);

/* A function that asks about an object by get(). */
#define GETTER(name, type, handles, kind, invalid, infos, get)		\
	cl_int CL_API_CALL name(handles handle, infos info, size_t size, \
				void *out, size_t *size_ret)		\
	{								\
		BEGIN(NEEDS_ALL)					\
		LIVE(type, o, handle, kind, invalid)			\
		return end(get(o, info, size, out, size_ret));		\
	}

#define NEEDS_ALL (NEEDS_DEVICE | IN_FUNCTIONS)

/* Gives a value of a query. */
cl_int give(const void *value, size_t bytes, size_t size, void *out,
	    size_t *size_ret);

#define GIVE(type, value)						\
	do {								\
		type value_ = (value);					\
									\
		return give(&value_, sizeof(value_), size, out, size_ret); \
	} while (0)

/* ---------------------------------------------------------------- objects */

void *make_counted(enum fake_kind kind, size_t size, struct context *context);
/* A live object, or NULL. */
void *live(const void *handle, enum fake_kind kind);
cl_int retain(const void *handle, enum fake_kind kind, cl_int invalid);
/* True: that was the last reference, and *out is the object. */
bool release(const void *handle, enum fake_kind kind, cl_int invalid,
	     void *out, cl_int *result);

const struct device *device_of(const void *handle);
bool has_device(const struct context *context, const struct device *device);

/* ---------------------------------------------------------------- queues */

/* A command, for enqueue(); NULL: it is refused with *result. */
struct event *command(cl_command_queue queue, cl_command_type type, cl_uint n,
		      const cl_event *list, cl_int *result);
/* Drops one that is not enqueued. */
cl_int command_drop(struct event *e, cl_int result);
/* The command uses this buffer until its end. */
cl_int command_uses(struct event *e, unsigned int i, cl_mem memory);
/* Blocks until it is over if asked to. */
cl_int enqueue(struct event *e, cl_event *out, bool blocks);
void queue_flush(struct queue *q);
/* Waits for the end of a command. */
cl_int event_finish(struct event *e);
/* Runs a job on the driver's thread for callbacks. */
void call_later(enum progress (*run)(struct job *job), void *data);
void queue_free(struct object *o);
/* Until queues_reset(false), no function of the user is called. */
void queues_reset(bool begins);
extern bool resetting;

/* ---------------------------------------------------------------- memory */

void memory_put(struct memory *m);
/* Checks that the device may use the bytes of a buffer now. Returns them, or NULL. */
uint8_t *memory_bytes(struct memory *m, size_t offset, size_t bytes, bool writes);
void memory_free(struct object *o);

/* ---------------------------------------------------------------- semaphores */

void semaphore_free(struct object *o);

#endif /* FAKE_OPENCL_OBJECTS_H */
