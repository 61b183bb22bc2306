// SPDX-License-Identifier: MIT
/* Completion events: one thread, one epoll. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "event.h"
#include "fork.h"
#include "internal.h"
#include "sys.h"

struct event {
	int fd;
	void (*fn)(void *data);
	void *data;
	struct event *prev, *next;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;	/* running, or whether that is wanted */
	bool running;		/* there is a thread */
	bool stop;		/* it is to end whatever is pending */
	bool ended;		/* there was one, and it is to be joined */
	pthread_t thread;
	int epoll;
	int wake;		/* eventfd: look at the lists again */
	unsigned int users, pending;
	unsigned long wakeups;
	struct event *first;	/* those that the epoll has */
} events = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.epoll = -1,
	.wake = -1,
};

/*
 * For what has cancellation points inside, write(), close() and waiting: a
 * thread of the application's that ended there would keep the lock.
 */
static void lock_uncancelled(int *state)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, state);
	pthread_mutex_lock(&events.lock);
}

static void unlock_uncancelled(int state)
{
	pthread_mutex_unlock(&events.lock);
	pthread_setcancelstate(state, NULL);
}

/* Under the lock. */
static bool wanted(void)
{
	return !events.stop && (events.users || events.pending);
}

static void wake(void)
{
	uint64_t one = 1;
	ssize_t n;

	if (events.wake < 0)
		return;
	/* Cannot fail but by overflow, and then it is readable already. */
	n = write(events.wake, &one, sizeof(one));
	(void)n;
}

/* Under the lock. */
static void list_remove(struct event *e)
{
	if (e->prev)
		e->prev->next = e->next;
	else
		events.first = e->next;
	if (e->next)
		e->next->prev = e->prev;
}

/*
 * Until fn has returned the event is pending, but nobody else knows it any
 * more: a fork() meanwhile must not close what has the number of its fd next.
 * False when fn has forked and this is the child, where there is no thread.
 */
static bool fire(struct event *e)
{
	void (*fn)(void *data) = e->fn;
	void *data = e->data;
	unsigned int forks = fork_generation;
	bool here;

	pthread_mutex_lock(&events.lock);
	list_remove(e);
	epoll_ctl(events.epoll, EPOLL_CTL_DEL, e->fd, NULL);
	close(e->fd);
	free(e);
	pthread_mutex_unlock(&events.lock);
	fn(data);
	pthread_mutex_lock(&events.lock);
	here = forks == fork_generation;
	if (here)
		events.pending--;
	pthread_mutex_unlock(&events.lock);
	return here;
}

/* Under the lock: what the thread held goes with it. */
static void close_fds(void)
{
	close(events.epoll);
	close(events.wake);
	events.epoll = events.wake = -1;
}

static void *event_thread(void *arg)
{
	struct epoll_event got[16];

	(void)arg;
	for (;;) {
		int n = epoll_wait(events.epoll, got, ARRAY_SIZE(got), -1);

		__atomic_add_fetch(&events.wakeups, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < n; i++) {
			uint64_t count;
			ssize_t r;

			if (got[i].data.ptr) {
				if (!fire(got[i].data.ptr))
					return NULL;
				continue;
			}
			r = read(events.wake, &count, sizeof(count));
			(void)r;
		}
		pthread_mutex_lock(&events.lock);
		if (!wanted()) {
			close_fds();
			events.running = false;
			events.ended = true;
			pthread_cond_broadcast(&events.changed);
			pthread_mutex_unlock(&events.lock);
			return NULL;
		}
		pthread_mutex_unlock(&events.lock);
	}
}

/* Under the lock, with no thread: nobody will be told. */
static void forget_all(void)
{
	struct event *e;

	while ((e = events.first)) {
		list_remove(e);
		close(e->fd);
		free(e);
	}
	events.pending = 0;
}

/* fork() copies the lists but not the thread. */
void event_before_fork(void)
{
	pthread_mutex_lock(&events.lock);
}

void event_after_fork(void)
{
	pthread_mutex_unlock(&events.lock);
}

/* The events are the parent's, and so are their callbacks and the devices. */
void event_forked(void)
{
	forget_all();
	if (events.running)
		close_fds();
	events.running = false;
	events.ended = false;
	events.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	events.wakeups = 0;
	events.users = 0;
	pthread_mutex_unlock(&events.lock);
}

/* Under the lock. */
static int open_fds(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ret;

	events.epoll = fault_hit() ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (events.epoll < 0)
		return fail_errno("epoll_create1()");
	events.wake = fault_hit() ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (events.wake < 0) {
		ret = fail_errno("eventfd()");
		goto err_epoll;
	}
	if (fault_hit() || epoll_ctl(events.epoll, EPOLL_CTL_ADD, events.wake,
				     &ev) < 0) {
		ret = fail_errno("epoll_ctl()");
		goto err_wake;
	}
	return 0;

err_wake:
	close(events.wake);
	events.wake = -1;
err_epoll:
	close(events.epoll);
	events.epoll = -1;
	return ret;
}

/*
 * Under the lock. A thread that has ended takes it no more, but may be on its
 * way out of our code yet.
 */
static void join_ended(void)
{
	if (events.ended)
		pthread_join(events.thread, NULL);
	events.ended = false;
}

/* Under the lock. Signals are the application's: the thread takes none. */
static int start_thread(void)
{
	sigset_t all, old;
	int ret;

	join_ended();
	ret = open_fds();
	if (ret)
		return ret;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = fault_hit() ? EAGAIN : pthread_create(&events.thread, NULL,
						    event_thread, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret) {
		close_fds();
		errno = ret;
		return fail_errno("pthread_create()");
	}
	pthread_setname_np(events.thread, "dlbuf-events");
	events.running = true;
	return 0;
}

/*
 * Under the lock: ends the thread if nobody wants it. It is waited for,
 * because the library may be unloaded next; but no longer than it takes
 * another user to come. On the thread itself, from a callback, it ends when it
 * comes back, and is joined by who comes next, the library's end if nobody.
 */
static void end_thread(void)
{
	if (events.running && pthread_equal(pthread_self(), events.thread))
		return;
	if (events.running && !wanted())
		wake();
	while (events.running && !wanted())
		pthread_cond_wait(&events.changed, &events.lock);
	join_ended();
}

int event_add_take(int fd, void (*fn)(void *data), void *data)
{
	struct event *e = sys_calloc(1, sizeof(*e));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = e };
	int ret = 0, state;

	if (!e)
		return fail(-ENOMEM, "no memory for an event");
	e->fn = fn;
	e->data = data;
	e->fd = fd;
	lock_uncancelled(&state);
	if (events.stop)
		ret = fail(-EOPNOTSUPP, "no events any more: the library ends");
	else if (!events.running)
		ret = start_thread();
	if (!ret && (fault_hit() || epoll_ctl(events.epoll, EPOLL_CTL_ADD,
					      e->fd, &ev) < 0))
		ret = fail_errno("fd %d: epoll_ctl()", fd);
	if (!ret) {
		/* Before the thread can take it off: it needs the lock too. */
		e->next = events.first;
		if (e->next)
			e->next->prev = e;
		events.first = e;
		events.pending++;
		pthread_cond_broadcast(&events.changed);
	} else {
		end_thread(); /* it may have been started for this */
	}
	unlock_uncancelled(state);
	if (ret)
		free(e);
	return ret;
}

int event_add(int fd, void (*fn)(void *data), void *data)
{
	int dup = sys_dup(fd), ret;

	if (dup < 0)
		return fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fd);
	ret = event_add_take(dup, fn, data);
	if (ret)
		close(dup);
	return ret;
}

bool event_is_here(void)
{
	bool here;

	pthread_mutex_lock(&events.lock);
	here = events.running && pthread_equal(pthread_self(), events.thread);
	pthread_mutex_unlock(&events.lock);
	return here;
}

void event_user_add(void)
{
	pthread_mutex_lock(&events.lock);
	events.users++;
	pthread_cond_broadcast(&events.changed);
	pthread_mutex_unlock(&events.lock);
}

void event_user_remove(void)
{
	int state;

	lock_uncancelled(&state);
	events.users--;
	end_thread();
	unlock_uncancelled(state);
}

/* The library goes: what is still pending will not be told. */
__attribute__((destructor))
static void event_stop(void)
{
	pthread_mutex_lock(&events.lock);
	events.stop = true;
	end_thread();
	if (!events.running)
		forget_all();
	pthread_mutex_unlock(&events.lock);
}

unsigned int event_pending(void)
{
	unsigned int n;

	pthread_mutex_lock(&events.lock);
	n = events.pending;
	pthread_mutex_unlock(&events.lock);
	return n;
}

unsigned long event_wakeups(void)
{
	return __atomic_load_n(&events.wakeups, __ATOMIC_RELAXED);
}
