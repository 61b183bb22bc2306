/* SPDX-License-Identifier: MIT */
/*
 * memfds that behave as dma-bufs, and eventfds as sync_files, for programs that run on machines
 * without dma-bufs: the stress test and the fuzz targets. The program's symbols come before those
 * of shared objects, so the library, the doubles and real drivers call these, too.
 *
 * DMA_BUF_IOCTL_SYNC, EXPORT and IMPORT_SYNC_FILE, SYNC_IOC_MERGE and poll() of a dma-buf treat
 * fences as the kernel does. A "kernel" thread signals the merged ones. UDMABUF_CREATE gives the
 * memfd itself.
 */
#ifndef TESTS_MEMFDS_H
#define TESTS_MEMFDS_H

#include <dlfcn.h>
#include <stdbool.h>

/* Whether memfds stand in. */
extern bool memfds_stand_in;

/* Begins; before other threads. */
void memfds_begin(void);
/* Fences of dma-bufs and merged fences that have not signalled. */
unsigned int memfds_pending(void);

#define SEAM __attribute__((visibility("default")))
/* The next definition: a sanitizer's, or the C library's. */
#define REAL(name)								\
	({									\
		static __typeof__(&name) real;	/* atomic */			\
		__typeof__(&name) fn = __atomic_load_n(&real, __ATOMIC_RELAXED);\
										\
		if (!fn) {							\
			fn = (__typeof__(&name))dlsym(RTLD_NEXT, #name);	\
			__atomic_store_n(&real, fn, __ATOMIC_RELAXED);		\
		}								\
		fn;								\
	})

#endif /* TESTS_MEMFDS_H */
