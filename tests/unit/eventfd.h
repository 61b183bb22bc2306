/* SPDX-License-Identifier: MIT */
/* An eventfd in place of a sync_file: it has signalled once it is not 0. */
#ifndef UNIT_EVENTFD_H
#define UNIT_EVENTFD_H

#include <sys/eventfd.h>

#include "ktap.h"

static inline int new_event(unsigned int value)
{
	int fd = eventfd(value, EFD_CLOEXEC);

	REQUIRE(fd >= 0);
	return fd;
}

static inline void signal_event(int fd)
{
	CHECK_EQ(eventfd_write(fd, 1), 0);
}

#endif /* UNIT_EVENTFD_H */
