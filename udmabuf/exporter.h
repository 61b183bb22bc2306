/* SPDX-License-Identifier: MIT */
/* What an exporter is: one maker of new dma-bufs. */
#ifndef DLBUF_EXPORTER_H
#define DLBUF_EXPORTER_H

#include <stdint.h>

struct exporter {
	const char *name;	/* the word before the colon */
	/*
	 * Makes a dma-buf; selector is what follows the colon, "" without
	 * one. name may be NULL. *fd is new, 3 or higher, O_RDWR.
	 */
	int (*alloc)(const char *selector, uint64_t bytes, const char *name,
		     int *fd);
	/* Calls fn with each full name and node there may be on this machine. */
	int (*each)(int (*fn)(const char *name, const char *node, void *data),
		    void *data);
};

/* Shared by the exporters. */
int exporter_check_name(const char *name);
int exporter_set_name(int fd, const char *name);
/*
 * -ENOMEM for more than the machine has: the kernel would try, and kill
 * processes on its way.
 */
int exporter_check_size(uint64_t bytes);

/*
 * Moves a new fd (taken; -1 passes through) to 3 or higher. -1 with errno on
 * failure.
 */
int exporter_fd(int fd);

#endif /* DLBUF_EXPORTER_H */
