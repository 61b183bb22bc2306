/* SPDX-License-Identifier: MIT */
/* Shared by the files of the double; see levelzero.h. */
#ifndef FAKE_LEVELZERO_OBJECTS_H
#define FAKE_LEVELZERO_OBJECTS_H

#include <level_zero/ze_ddi.h>

#include "backends/levelzero/api.h"
#include "levelzero.h"
#include "common/calls.h"

/* The compiler compares the definitions with dlbuf's declarations. */
#define X(name, needed, type) \
	extern EXPORT __typeof__(*(__typeof__(type))0) ze##name;
LEVELZERO_FUNCTIONS(X)
#undef X

extern struct fake_levelzero fake;

struct device {
	unsigned int number;
	struct device *parts;	/* two, or NULL */
};

extern struct device devices[2];

struct context {
	struct object object;
};

/* An allocation. */
struct range {
	struct object object;
	struct range *next;	/* of those that are live */
	struct device *device;	/* NULL: of the host */
	uint8_t *at;
	size_t bytes;
	size_t mapped;		/* bytes that are the double's to unmap */
	int fd;			/* behind it, or -1 */
	int exported;		/* that stays the driver's, or -1 */
	bool exportable, imported, read_only;
	struct range *pool;	/* the pool of which this is a part */
	unsigned int parts;
	size_t used;		/* of a pool, by parts that live or not */
};

struct list {
	struct object object;
	struct stream stream;
	struct device *device;
	struct job held[16];	/* since the last barrier */
	unsigned int nheld;
	struct object *kernel;	/* the last that it has run */
	unsigned int unasked;	/* events that it signals, until they are asked */
};

struct pool {
	struct object object;
	struct event *events[256];
	uint32_t n;
};

struct event {
	struct object object;
	struct pool *pool;
	uint32_t index;
	bool signalled;
	struct list *list;	/* that signals it, until it is asked */
};

#define NEEDS_ALL (NEEDS_INIT | NEEDS_DEVICE)
#define LIVE(type, var, handle, kind) \
	OBJECT(type, var, handle, kind, ZE_RESULT_ERROR_INVALID_NULL_HANDLE)

struct device *device_of(ze_device_handle_t handle);

extern struct range *ranges;
void range_free(struct object *o);
struct range *range_of(const void *p);

void list_free(struct object *o);
/* Memory that a command of the list may use, at p; or NULL. */
struct range *list_uses(const struct list *l, const void *p, bool write);
/* A command, until the next barrier. */
ze_result_t list_hold(struct list *l, const struct job *job);
void kernel_free(struct object *o);
void event_free(struct object *o);

#endif /* FAKE_LEVELZERO_OBJECTS_H */
