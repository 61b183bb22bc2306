/* SPDX-License-Identifier: MIT */
/*
 * Completion events: what happens when an fd becomes readable, a sync_file that
 * signals or an eventfd that a driver's callback writes to.
 *
 * Two threads at most, each started when it is first needed. "dlbuf-words"
 * stores words for which streams wait, and does nothing else: it makes no call
 * of a driver, runs no callback and takes no lock, so that it goes on while a
 * driver waits for a stream. "dlbuf-events" runs everything else: leases, frees,
 * callbacks, and calls that have to be repeated.
 *
 * The application may run the second loop itself (dlbuf_dispatch()): then there is
 * no "dlbuf-events", and a timerfd tells when a call has to be repeated.
 *
 * Both sleep in epoll and end with the last device and with the library. A child
 * after fork() has none of the parent's events.
 */
#ifndef DLBUF_LIB_EVENT_H
#define DLBUF_LIB_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls fn(data) once on "dlbuf-events", when fd is readable; when fd is the
 * writing end of a pipe, when the pipe has no reader any more. fd is duplicated.
 *
 * On failure fn is not called: -ENOMEM (a thread that cannot be started, too),
 * -EMFILE, -EOPNOTSUPP (the library ends).
 */
int event_add(int fd, void (*fn)(void *data), void *data);

/*
 * The same without a duplicate: fd is taken on success. owner: NULL, or a device,
 * which is not looked into, for event_awaits().
 */
int event_add_take(int fd, void (*fn)(void *data), void *data,
		   const void *owner);

/* The same, when fd is writable: a dma-buf without any fence, for example. */
int event_add_writable(int fd, void (*fn)(void *data), void *data);

/* Whether an event of that owner has not fired, or its callback has not returned. */
bool event_awaits(const void *owner);

/*
 * As event_add(), and before fn "dlbuf-words" stores value to *word. word is not used
 * any more when fn is called.
 */
int event_add_word(int fd, uint32_t *word, uint32_t value,
		   void (*fn)(void *data), void *data);

/* A call for "dlbuf-events", embedded in what it is about. */
struct event_call {
	/*
	 * Returns true when it is over; then call may be gone. Otherwise it is
	 * called again after a pause, of 1 to 8 milliseconds.
	 */
	bool (*fn)(struct event_call *call);
	struct event_call *next;
};

/*
 * Promises one event_post(), for which the thread stays. -ENOMEM, -EMFILE,
 * -EOPNOTSUPP: there is no thread.
 */
int event_promise(void);

/* Has call->fn run. From any thread, a driver's too: cannot fail, no lock. */
void event_post(struct event_call *call);

/* Whether this is "dlbuf-events", which must not wait for what only it does. */
bool event_is_here(void);

/*
 * For loops that wait for callbacks: dlbuf_dispatch() where the application has
 * taken the place of "dlbuf-events", else nothing. A negative errno.
 */
int event_turn(void);

/* One device more or less; without any, and without events, the threads end. */
void event_user_add(void);
void event_user_remove(void);

/* For tests: what is not over, and how often the threads have woken up. */
unsigned int event_pending(void);
unsigned long event_wakeups(void);

#endif /* DLBUF_LIB_EVENT_H */
