/* SPDX-License-Identifier: MIT */
/* The data that queue_cases.h needs about a driver and its configuration. */
#ifndef UNIT_QUEUE_DRIVER_H
#define UNIT_QUEUE_DRIVER_H

#include "import/host.h"

#define DIRECT PATH_BIT(DLBUF_PATH_DIRECT)
#define HOST PATH_BIT(DLBUF_PATH_HOST)
#define COPY PATH_BIT(DLBUF_PATH_COPY)
#define SHARED (DIRECT | HOST)
#define BRIDGE PATH_BIT(DLBUF_PATH_BRIDGE)
#define EACH (SHARED | COPY)	/* but the bridge's acquires wait for earlier work */
#define ITSELF 0	/* runs once, and begins by itself */

/* The requirement of a case: a function of the driver's table, or a property. */
enum queue_call {
	NOTHING,
	ASK,
	ENTER,
	STREAM_WAIT,
	WAIT_FENCE,
	CALL_HOST,
	COPY_IN,
	COPY_OUT,
	RECORD,
	EVENT_CREATE,
	SECOND,		/* one of these is made after a failed call, to see if the device is lost */
	EVENT_QUERY,
	EVENT_WAIT,
	FINISH,
	UNREGISTER,
	REGISTER,
	ALLOC,
	ALLOC_HOST,
	FREE_HOST,
	ADDRESS,
	COUNT,
	NAME,
	STREAM_CREATE,
	TELL,
	CLEAR,
	EXPORT_FD,
	IMPORT_FD,
	MAP_FD,
	QUEUE_CALLS,
	WAITS,		/* streams wait for fences, not callers */
	NO_ORDER,
	LOSES,
	LOSES_COPIES,
	COMPARES,
	SELECTS,
	SAYS,
	OPENS,
	EXPORTS,
	STALE,
	SERVES,
};

/* A result after which the device is lost. */
struct queue_loss {
	int result, ret;
	const char *says;
};

/* The result of opening the device if a call fails. */
struct queue_failure {
	const char *call;
	int result, ret;
	const char *says;	/* beside the call */
};

/* A device's description of itself. */
struct queue_says {
	const char *words, *description, *driver;
	int64_t version;	/* of the driver's structure */
	uint8_t uuid;		/* its first byte */
	enum dlbuf_sync release;
	uint32_t offset_align, pitch_align;
};

/* The first path that serves, of the allowed ones. */
struct queue_first {
	const char *words, *broken;
	uint32_t paths;
	enum dlbuf_path path;
};

struct app;

struct queue_driver {
	const char *name;
	const char *library;	/* of the double; NULL: the usual one */
	const char *device;	/* of dlbuf_device_open() */
	/* Fields for a double that has the path. A path without words is refused: why. */
	const char *words[DLBUF_PATH_COPY + 1], *why_not[DLBUF_PATH_COPY + 1];
	const char *calls[QUEUE_CALLS];
	int unknown;		/* the result of calls that fail; its number is said */
	int no_memory;		/* and that of a lack of memory */
	uint32_t read_only;	/* paths of buffers that may not be written */
	bool blocks;		/* the caller waits for fences */
	int stale;		/* in a child, after a device was open; 2: or none found */
	bool lies;		/* also of foreign dma-bufs it says that it lacks memory */
	bool by_memfd;		/* path `host` needs the memfd behind a udmabuf */
	void *no_order;
	uint64_t properties;	/* of the application's stream */
	unsigned int reused;	/* objects of this kind serve again; 0: none ... */
	unsigned int renewed;	/* ... except for this many of each wait */
	const char *compares;	/* words with path `direct` to other pages than the CPU's */
	const char *two;	/* words with two devices */
	const char *const *selects;	/* the second of them, up to NULL */
	const struct queue_says *says;	/* up to one without words */
	/* The public function that gives the driver's handles; false: of no size. */
	int (*get)(struct dlbuf_device *dev, bool whole, int64_t *version);
	bool quiet;		/* calls no functions of the host */
	const struct queue_first *first;	/* up to one without words */
	unsigned int walks;	/* least number of calls that can fail */
	/* Words with exports; the application's memory for them. */
	const char *exports;
	void *(*alloc)(struct app *app, size_t bytes);
	void (*free)(struct app *app, void *p);
	unsigned int memory;	/* the kind of such objects */
	int least;		/* bytes of an allocation of dlbuf_alloc(); 0: EXPORT_BYTES */
	bool exports_all;	/* also for a part of an allocation: the dma-buf is all */
	const char *no_pcie;	/* why not over PCI Express */
	const struct queue_failure *opens;	/* up to one without a call */
	const struct queue_loss *losses;	/* up to one without an error */
};

/* The driver of the running case. */
static const struct queue_driver *on;

#endif /* UNIT_QUEUE_DRIVER_H */
