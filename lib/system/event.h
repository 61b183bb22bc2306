/* SPDX-License-Identifier: MIT */
/*
 * Completion events: calls a function when an fd becomes readable. The fd is a sync_file
 * that signals, or an eventfd that a driver's callback writes to.
 *
 * There are at most two threads, each started when it is first needed. "dlbuf-words"
 * only stores words that streams wait for. It makes no driver call, runs no callback,
 * and takes no lock, so it works while a driver waits for a stream. "dlbuf-events" runs
 * everything else: leases, frees, callbacks, and calls that have to be repeated.
 *
 * The application may run the second loop itself with dlbuf_dispatch(). Then there is no
 * "dlbuf-events", and a timerfd becomes readable when a call has to be repeated.
 *
 * Both threads sleep in epoll_wait(). A child of fork() has none of the parent's events.
 *
 * The end. After the last dlbuf_device_close() these still run:
 *
 *   until the last event   a thread, while a lease, a dlbuf_fence_notify() or a free waits
 *                          for a fence
 *   after dlclose()        nothing. The library's destructor waits for the callback that
 *                          runs, joins both threads, and drops the events that have not
 *                          fired. No thread may be inside the library, and drivers must
 *                          have made the calls that event_promise() counts, as they have
 *                          after dlbuf_device_drain() of every device
 *   after exit()           the same, but the program's other threads and the drivers' go
 *                          on. A thread in dlbuf_dispatch() goes on with its callbacks; so
 *                          does one that has called exit() in a callback. A driver's thread
 *                          may call event_post(), but the call that it posts does not run.
 *                          The memory and the fds that these threads use are not freed
 */
#ifndef DLBUF_LIB_EVENT_H
#define DLBUF_LIB_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes exit() run the library's end before the end of all libraries that have been
 * loaded so far. One of these may be a driver: after its end, a call of it on
 * "dlbuf-events" would crash.
 */
void event_stop_before(void);

/*
 * Calls fn(data) once on "dlbuf-events", when fd is readable. If fd is the writing end
 * of a pipe, calls it when the pipe has no reader any more. fd is duplicated.
 *
 * On failure fn is not called.
 * -ENOMEM      no memory, or no thread could be started
 * -EMFILE
 * -EOPNOTSUPP  the library is being unloaded
 */
int event_add(int fd, void (*fn)(void *data), void *data);

/*
 * The same without a duplicate: fd is taken on success. owner is NULL or a device, which
 * is not accessed, for event_awaits(). If result is not NULL, result(fd) is called before fd
 * is closed, and event_result() is what it returned.
 */
int event_add_take(int fd, void (*fn)(void *data), void *data,
		   const void *owner, int (*result)(int fd));

/* Call it in a callback of an event of event_add_take(). */
int event_result(void);

/* The same, but when fd is writable, for example a dma-buf without pending fences. */
int event_add_writable(int fd, void (*fn)(void *data), void *data);

/* Whether an event of that owner has not fired yet, or its callback still runs. */
bool event_awaits(const void *owner);

/*
 * As event_add(); before fn is called, "dlbuf-words" stores value to *word. When fn is
 * called, word is not used any more.
 */
int event_add_word(int fd, uint32_t *word, uint32_t value,
		   void (*fn)(void *data), void *data);

/* A call on "dlbuf-events". It is embedded in the caller's struct. */
struct event_call {
	/*
	 * Returns true if it is finished; it may have freed `call`. Otherwise it is
	 * called again: after 1 to 8 milliseconds, or 250 if `slow` is set, and also
	 * whenever the loop wakes up for another event.
	 */
	bool (*fn)(struct event_call *call);
	bool slow;
	struct event_call *next;
};

/*
 * Promises one event_post(): the thread runs until then. On failure there is no thread:
 * -ENOMEM, -EMFILE, -EOPNOTSUPP.
 */
int event_promise(void);

/* Makes the loop call call->fn. Cannot fail, takes no lock. On any thread, also a driver's. */
void event_post(struct event_call *call);

/* Makes the loop, if it runs, repeat now the calls that are to be repeated. */
void event_kick(void);

/* Whether this thread is "dlbuf-events", which must not wait for its own calls. */
bool event_is_here(void);

/*
 * For code that waits for callbacks: calls dlbuf_dispatch() if the application runs the
 * loop, and otherwise does nothing. Returns 0 or a negative errno.
 */
int event_turn(void);

/* Counts devices. The threads end when there are no devices and no events. */
void event_user_add(void);
void event_user_remove(void);

/* For tests: the number of pending events, and how often the threads woke up. */
unsigned int event_pending(void);
unsigned long event_wakeups(void);

#endif /* DLBUF_LIB_EVENT_H */
