/* SPDX-License-Identifier: MIT */
/*
 * Accesses to memory by a device itself: access/NAME.c for each backend that can do it
 * without code of the application. dmabuf-test and the conformance suite use it.
 */
#ifndef DMABUF_TEST_ACCESS_H
#define DMABUF_TEST_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dlbuf/dlbuf.h>

struct access {
	const char *backend;
	/* The call that reads, for reports. */
	const char *reads_by;
	/*
	 * Reads or writes `bytes` bytes at `offset` of the dma-buf behind t,
	 * by work on the device itself, finished on return. The caller has
	 * acquired t. 0 or a negative errno.
	 */
	int (*read)(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		    size_t bytes);
	int (*write)(DLManagedTensorVersioned *t, uint64_t offset,
		     const void *src, size_t bytes);
	/*
	 * A read, or a write, that is only submitted, for devices that wait by
	 * themselves; NULL for others. job_done() checks without waiting whether the
	 * job has ended, also by an error; finish_read() waits, copies, frees the job
	 * and returns the error. For a write these are the bytes that were written.
	 */
	int (*submit_read)(DLManagedTensorVersioned *t, uint64_t offset,
			   size_t bytes, void **job);
	int (*submit_write)(DLManagedTensorVersioned *t, uint64_t offset,
			    const void *src, size_t bytes, void **job);
	bool (*job_done)(void *job);
	int (*finish_read)(void *job, void *dst, size_t bytes);
	/*
	 * Called in each process before its resources are counted; NULL: nothing to do.
	 * True: the driver keeps fds, mappings and memory from its first use on.
	 */
	bool (*prepare)(void);
	/*
	 * The device registers host memory: for a udmabuf the library must know
	 * the memfd, and buffers of other exporters may be refused.
	 */
	bool wants_memfds;
	/* The driver does not work in a child of a process that has used it. */
	bool no_children;
	/* The driver keeps fds from its first use on; not those of devices. */
	bool keeps_fds;
	/* The fence of a release exists before the work has begun. */
	bool fences_early;
	/*
	 * The program names the devices, and only one device of a name can be
	 * open at a time: this is another name. NULL: the driver names them.
	 */
	const char *second;
};

/* The access of devices of this name, or NULL if there is none. */
const struct access *access_find(const char *device);

#endif /* DMABUF_TEST_ACCESS_H */
