/* SPDX-License-Identifier: MIT */
/*
 * Completion events: what is to happen when an fd becomes readable, a
 * sync_file that signals or an eventfd that a driver's callback writes to.
 *
 * One thread for the whole library waits for all of them in epoll. It is
 * started by the first event, sleeps without a timeout, and ends with the last
 * device and with the library. In a child after fork() there is none of the
 * parent's events.
 */
#ifndef DLBUF_LIB_EVENT_H
#define DLBUF_LIB_EVENT_H

#include <stdbool.h>

/*
 * Calls fn(data) once on the event thread, when fd is readable; when fd is the
 * writing end of a pipe, when the pipe has no reader any more. fd is duplicated.
 *
 * On failure fn is not called: -ENOMEM (a thread that cannot be started, too),
 * -EMFILE, -EOPNOTSUPP (the library ends).
 */
int event_add(int fd, void (*fn)(void *data), void *data);

/* The same without a duplicate: fd is taken on success. */
int event_add_take(int fd, void (*fn)(void *data), void *data);

/*
 * Whether this is the event thread, which must not wait for what only an event
 * can bring about.
 */
bool event_is_here(void);

/* One device more or less; without any, and without events, the thread ends. */
void event_user_add(void);
void event_user_remove(void);

/* For tests: events not yet fired, and how often the thread has woken up. */
unsigned int event_pending(void);
unsigned long event_wakeups(void);

#endif /* DLBUF_LIB_EVENT_H */
