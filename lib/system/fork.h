/* SPDX-License-Identifier: MIT */
/*
 * After fork(), the child cannot use the parent's devices and tensors: see dlbuf/base.h.
 *
 * Each device has the generation of the process that opened it. Every call that gets a
 * device or a tensor compares the generation before it takes a lock or calls a driver,
 * because a lock of the device may be held by a thread that the child does not have.
 * Static locks are initialised again in the child. They are not taken before fork(),
 * because a thread may hold one while it is in a driver.
 */
#ifndef DLBUF_LIB_FORK_H
#define DLBUF_LIB_FORK_H

#include <stdbool.h>

/*
 * Installs the handlers of fork(), once. Called before the library makes anything that
 * a child must not use: a device, an event, a lease, a driver library, a remembered
 * memfd. The caller holds no lock of the library.
 */
void fork_watch(void);

/* Counts the fork()s between the first process and this one. */
extern unsigned int fork_generation;

/*
 * For backends whose drivers do not work in a child of a process that has used them,
 * because the child does not have the driver's threads. Called before each use; *used is
 * a static variable of the backend, at first 0.
 * -ESTALE  a parent of this process has used the driver
 */
int fork_use_driver(unsigned int *used, const char *backend);

/*
 * A file's handler of fork(). It is static, and added before the file's lock is first taken.
 * No handler relies on the order of the others.
 *
 * Most do something in the child only, which has one thread: they reset the file's static
 * variables and initialise their locks. Three lists are locked around fork(): the events and
 * the fds of owned_add() (socket.h), so that the child can close them, and the remembered
 * memfds (memory.h), which the child keeps. This is safe because no driver and no callback
 * runs under these locks, and nothing waits.
 */
enum fork_side { FORK_BEFORE, FORK_PARENT, FORK_CHILD };

struct fork_handler {
	void (*fn)(enum fork_side side);
	struct fork_handler *next;
	int added;			/* atomic */
};

/*
 * Adds the handler once, at the first call. The caller holds no lock of the library except a
 * device's.
 */
#define fork_handle(h)						\
	do {							\
		if (!__atomic_load_n(&(h)->added, __ATOMIC_ACQUIRE)) \
			fork_add(h);				\
	} while (0)
void fork_add(struct fork_handler *h);

#endif /* DLBUF_LIB_FORK_H */
