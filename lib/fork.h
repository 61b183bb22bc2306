/* SPDX-License-Identifier: MIT */
/*
 * After fork() the library is inert in the child for everything that came from
 * the parent: see dlbuf/base.h.
 *
 * Each device has the generation of the process that opened it. Whatever takes
 * a device or a tensor compares it before it takes a lock or calls a driver: a
 * lock of the device may be held by a thread that the child does not have.
 * Statics have locks, too: these are made anew in the child and not taken before
 * fork(), which would wait for whoever holds one, in a driver for instance.
 */
#ifndef DLBUF_LIB_FORK_H
#define DLBUF_LIB_FORK_H

/*
 * From the first call on the library notices a fork(). Called, without a lock of
 * the library's, before there is anything that a child must not inherit: a
 * device, an event, a lease, a driver library, a memfd that is known.
 */
void fork_watch(void);

/* How many fork()s this process is away from the first. */
extern unsigned int fork_generation;

/*
 * In the child, which has one thread: a file's statics forget the parent, and
 * their locks are made anew.
 */
void device_forked(void);
void event_forked(void);
void error_forked(void);

/*
 * Two lists are locked around fork(), because no driver and no callback runs
 * under their locks: the events', so that the child can close its duplicates of
 * the fds, and that of known memfds (memory.h), which the child keeps.
 */
void event_before_fork(void);
void event_after_fork(void);

#endif /* DLBUF_LIB_FORK_H */
