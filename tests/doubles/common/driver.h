/* SPDX-License-Identifier: MIT */
/* The controls that all doubles of drivers have; see streams.h. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* The fields that a test sets, and then those that the double counts. */
#define DRIVER_FIELDS							\
	const char *failing;	/* this function returns .result */	\
	int result;							\
	unsigned int spared;	/* number of calls before that */	\
	unsigned long fail_at;	/* the n-th call from now does ... */	\
	pid_t fail_thread;	/* ... of this thread; 0: of all */	\
	_Atomic(int) lost;	/* the result of all calls from now on */	\
	void (*lose)(int result);	/* loses the device, or NULL */	\
	bool strict;		/* the first wrong call is the last */	\
	/* Called as each call begins, without the lock. */		\
	void (*look)(const char *call);					\
									\
	_Atomic(unsigned int) wrong;	/* calls against the rules */	\
	unsigned long calls;		/* that can fail */		\
	unsigned int synchronising;	/* that made the caller wait */	\
	unsigned int host_functions;	/* that were called */		\
	unsigned int pending;		/* jobs that are not over */	\
	_Atomic(unsigned int) live[16];	/* objects, by their kind */	\
	unsigned int made[16];

struct driver {
	DRIVER_FIELDS
};

/* Embedded: its fields are the double's own, too. */
#define DRIVER								\
	union {								\
		struct driver driver;					\
		struct {						\
			DRIVER_FIELDS					\
		};							\
	}

#endif /* FAKE_DRIVER_H */
