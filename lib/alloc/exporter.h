/* SPDX-License-Identifier: MIT */
/*
 * An exporter makes new dma-bufs. Each exporter is a file under udmabuf/ that
 * defines one struct exporter, and lib/alloc/alloc.c calls it. An exporter
 * includes only internal.h and sys.h of the library's other headers. The udmabuf
 * exporter also includes buffer.h and memory.h, because devices import its memfds.
 */
#ifndef DLBUF_EXPORTER_H
#define DLBUF_EXPORTER_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dlbuf/alloc.h>
#include <dlbuf/frame.h>

struct node;

/* An exporter that is not built has only its name. */
struct exporter {
	const char *name;	/* the word before the colon */
	/*
	 * Makes a dma-buf. selector is the part after the colon, or "". name may be
	 * NULL. *fd is new, 3 or above, O_RDWR. *memfd is -1, or is new: the memfd of
	 * the dma-buf's memory, which the caller closes after the devices' imports.
	 */
	int (*alloc)(const char *selector, uint64_t bytes, const char *name,
		     int *fd, int *memfd);
	/* Calls fn with each name and node that may exist on this machine. */
	int (*each)(int (*fn)(const char *name, const char *node, void *data),
		    void *data);
};

/* Used by the exporters: */

int exporter_check_name(const char *name);
int exporter_set_name(int fd, const char *name);
/*
 * Returns -ENOMEM if the size is more than the machine's memory. Otherwise the kernel
 * would try to allocate it, and would kill processes for that.
 */
int exporter_check_size(uint64_t bytes);

/* Used by the library: */

/* Tries to use a new dma-buf, borrowed. After a failure the next exporter is tried. */
typedef int (*exporter_try_fn)(int fd, void *data);

/*
 * Makes a dma-buf for which `try` succeeds, for a device that will import it, and closes
 * its fd. Otherwise the error text has the reason of each exporter.
 */
int exporter_try(struct dlbuf_device *dev, uint64_t bytes, const char *name,
		 exporter_try_fn try, void *data);

/* A buffer, of one or several dma-bufs, that all parties must import. */
struct request {
	struct dlbuf_device *const *devs;
	size_t ndevs;
	struct node *nodes;		/* V4L2 nodes that are idle, see v4l2.h */
	size_t nnodes;
	dlbuf_alloc_fn report;		/* NULL: none */
	void *report_data;
	const char *name;		/* for the kernel's lists, or NULL */
	bool own;			/* a device of devs may be the exporter */
	bool later;			/* not the first buffer: report failures only */
	uint32_t n;			/* dma-bufs */
	const DLTensor *layouts;	/* layout of each dma-buf's tensors */
	uint64_t bytes[DLBUF_MAX_PLANES];
	exporter_try_fn try;		/* used instead of the parties, for one dma-buf */
	void *data;
	/*
	 * Results. tensors has room for n * ndevs, zeroed: that of dma-buf i on
	 * device d is at i * ndevs + d. The fds are new.
	 */
	DLManagedTensorVersioned **tensors;
	int fds[DLBUF_MAX_PLANES];
	char exporter[64];
	const char *who;		/* the party that refused, or NULL */
};

/*
 * Makes the buffer by that exporter, or with NULL by the first exporter that all
 * parties accept. After a failure tensors and fds are unchanged.
 */
int exporter_alloc(struct request *r, const char *exporter);

/*
 * Whether an error is a lack of resources, after which the next try may succeed. Such a
 * failure is not remembered.
 */
static inline bool exporter_transient(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE ||
	       err == -EBUSY;
}

#endif /* DLBUF_EXPORTER_H */
