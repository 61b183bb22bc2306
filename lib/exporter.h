/* SPDX-License-Identifier: MIT */
/*
 * An exporter makes new dma-bufs. Each exporter is a file under udmabuf/ that
 * defines one struct exporter, and lib/alloc.c calls it. An exporter includes
 * internal.h and sys.h of the library's other headers. The udmabuf exporter also
 * includes buffer.h and memory.h, because devices import its memfds.
 */
#ifndef DLBUF_EXPORTER_H
#define DLBUF_EXPORTER_H

#include <stddef.h>
#include <stdint.h>

#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

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

/* Used by the library. exporter: a name, or NULL for the first default that works. */

/* Uses a new dma-buf, borrowed. After a failure the next exporter is tried. */
typedef int (*exporter_try_fn)(int fd, void *data);

/*
 * Makes a dma-buf for which `try` succeeds. Otherwise the error text has the reason of
 * each exporter. *fd is new; if fd is NULL, it is closed.
 */
int exporter_try(const char *exporter, uint64_t bytes, const char *name,
		 exporter_try_fn try, void *data, int *fd);

/*
 * Makes a dma-buf that all devices import. tensors has room for ndevs, and is written
 * only on success. *fd is new; if fd is NULL, it is closed, and the tensors keep the
 * memory.
 */
int exporter_alloc(const char *exporter, struct dlbuf_device *const devs[],
		   size_t ndevs, const DLTensor *layout, uint64_t bytes,
		   const char *name, DLManagedTensorVersioned *tensors[],
		   int *fd);

#endif /* DLBUF_EXPORTER_H */
