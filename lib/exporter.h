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

/* One that is not built in has its name only. */
struct exporter {
	const char *name;	/* the word before the colon */
	/*
	 * Makes a dma-buf; selector is what follows the colon, "" without
	 * one. name may be NULL. *fd is new, 3 or higher, O_RDWR. *memfd is new
	 * too, the memory behind it, or stays -1: closed when the devices that
	 * want it have imported it.
	 */
	int (*alloc)(const char *selector, uint64_t bytes, const char *name,
		     int *fd, int *memfd);
	/* Calls fn with each full name and node there may be on this machine. */
	int (*each)(int (*fn)(const char *name, const char *node, void *data),
		    void *data);
};

/* For the exporters: */

int exporter_check_name(const char *name);
int exporter_set_name(int fd, const char *name);
/*
 * -ENOMEM for more than the machine has: the kernel would try, and kill
 * processes on its way.
 */
int exporter_check_size(uint64_t bytes);

/* For the library, by an exporter's name; NULL: the first usual one to serve. */

/* Does what a new dma-buf, borrowed, is for; a failure asks for another. */
typedef int (*exporter_try_fn)(int fd, void *data);

/*
 * Makes a dma-buf for which try succeeds. The sentence says why no exporter
 * served. *fd is new; NULL closes it.
 */
int exporter_try(const char *exporter, uint64_t bytes, const char *name,
		 exporter_try_fn try, void *data, int *fd);

/*
 * Makes a dma-buf that each of the devices imports. tensors has room for ndevs
 * and is written on success only. *fd is new; NULL closes it, and the tensors
 * keep the memory.
 */
int exporter_alloc(const char *exporter, struct dlbuf_device *const devs[],
		   size_t ndevs, const DLTensor *layout, uint64_t bytes,
		   const char *name, DLManagedTensorVersioned *tensors[],
		   int *fd);

#endif /* DLBUF_EXPORTER_H */
