/* SPDX-License-Identifier: MIT */
/* Shared by the files of the Level Zero backend. */
#ifndef DLBUF_LEVELZERO_BACKEND_H
#define DLBUF_LEVELZERO_BACKEND_H

#include <dlbuf/levelzero.h>

#include "../../queue/queue.h"
#include "api.h"

#define LEVELZERO_MAX_DEVICES 64

struct levelzero_device {
	struct queue_device queue;
	struct queue_ops ops;	/* without the functions that the driver lacks */
	struct levelzero_api lz;
	struct {
		ze_driver_handle_t driver;
		ze_device_handle_t device;
	} list[LEVELZERO_MAX_DEVICES];	/* of all drivers, in order */
	ze_driver_handle_t driver;
	ze_device_handle_t handle;
	ze_api_version_t version;	/* of the driver */
	uint32_t group;		/* of command queues: the first for compute */
	ze_context_handle_t context;
	ze_command_list_handle_t own;	/* the stream NULL */
	ze_module_handle_t module;	/* atomic; of prepare.c, or NULL */
	pthread_mutex_t appending;	/* held while commands are appended to `own` */

	/* events.c */
	pthread_mutex_t lock;	/* protects what follows */
	struct moment *free, *ended;
	struct moments *pools;
	struct event_call ending;
	bool over;		/* destroy(): `own` can be destroyed when no moment is left */
};

static inline struct levelzero_device *to_levelzero(struct queue_device *dev)
{
	return container_of(dev, struct levelzero_device, queue);
}

static inline struct levelzero_device *
levelzero_device_of(struct dlbuf_device *dev)
{
	return to_levelzero(queue_device_of(dev));
}

BACKEND_DECLARE(levelzero);
extern const struct queue_ops levelzero_ops;

/* backend.c */
int levelzero_count(struct queue_device *dev, unsigned int *n);
int levelzero_probe(struct queue_device *dev, unsigned int n);
int levelzero_start(struct queue_device *dev, uint32_t flags);

/* As levelzero_check(); marks the device as lost if it is. */
int levelzero_done(struct queue_device *dev, ze_result_t result,
		   size_t function);

#define LZ_DO(dev, name, ...) \
	levelzero_done(dev, LZ_RESULT(&to_levelzero(dev)->lz, name, __VA_ARGS__), \
		       LZ_FUNCTION(name))

/* ---------------------------------------------------------------- events.c */

/* Around a call that appends to a stream. The application locks its own lists. */
static inline void levelzero_append_begin(struct levelzero_device *dev, void *stream)
{
	if (stream == dev->own)
		pthread_mutex_lock(&dev->appending);
}

static inline void levelzero_append_end(struct levelzero_device *dev, void *stream)
{
	if (stream == dev->own)
		pthread_mutex_unlock(&dev->appending);
}

/*
 * A barrier on a stream: commands after it wait for `wait`. With NULL it waits for
 * the commands before it. Then it signals `signal`; both may be NULL.
 */
int levelzero_barrier(struct queue_device *dev, void *stream,
		      ze_event_handle_t signal, ze_event_handle_t wait);

/*
 * Appends a command between barriers, because a list may run its commands in any order.
 */
#define LZ_APPEND(base, s, name, ...)					\
	({								\
		struct levelzero_device *dev_ = to_levelzero(base);	\
		int ret_ = levelzero_barrier(base, s, NULL, NULL);	\
									\
		levelzero_append_begin(dev_, s);			\
		if (!ret_)						\
			ret_ = LZ_DO(base, name, s, __VA_ARGS__);	\
		levelzero_append_end(dev_, s);				\
		ret_ ? ret_ : levelzero_barrier(base, s, NULL, NULL);	\
	})

/* The events of queue_ops, and its user events. */
int levelzero_event_record(struct queue_device *dev, void **event, void *stream);
int levelzero_event_query(struct queue_device *dev, void *event);
int levelzero_event_wait(struct queue_device *dev, void *event);
int levelzero_stream_wait(struct queue_device *dev, void *stream, void *event);
void levelzero_event_destroy(struct queue_device *dev, void *event);
int levelzero_user_event_create(struct queue_device *dev, void **event);
void levelzero_user_event_set(struct queue_device *dev, void *event);

int levelzero_finish(struct queue_device *dev, void *stream);
int levelzero_finish_all(struct queue_device *dev);
void levelzero_drained(struct queue_device *dev);
/* Waits for the list's commands first, as the driver requires. */
void levelzero_list_destroy(struct queue_device *dev, void *list);

/* queue_ops.destroy(). If streams still wait, frees the device when all waits have ended. */
void levelzero_destroy(struct queue_device *dev);

/* ---------------------------------------------------------------- export.c */

int levelzero_range(struct queue_device *dev, DLDeviceType on, uintptr_t p,
		    struct queue_range *r);
int levelzero_export(struct queue_device *dev, struct queue_range *pages,
		     uint32_t flags, int *fd);

/* ---------------------------------------------------------------- prepare.c */

int levelzero_kernel_create(struct queue_device *dev, void **kernel);
void levelzero_kernel_destroy(struct queue_device *dev, void *kernel);
int levelzero_kernel_launch(struct queue_device *dev, void *kernel, void *stream,
			    const struct queue_launch *launch);

#endif /* DLBUF_LEVELZERO_BACKEND_H */
