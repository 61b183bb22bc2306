// SPDX-License-Identifier: MIT
/* Completion events: two loops, an epoll each. See event.h for their rules. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <dlbuf/device.h>

#include "event.h"
#include "fork.h"
#include "internal.h"
#include "sys.h"

#define MAX_PAUSE 8		/* milliseconds */

struct event {
	struct event_call call;
	struct loop *loop;
	int fd;
	uint32_t *word;		/* or NULL */
	uint32_t value;
	void (*fn)(void *data);
	void *data;
	const void *owner;
	bool writable;		/* else it waits until fd is readable */
	struct event *prev, *next;
};

/*
 * A thread and what it waits for. The fds and the thread do not change while
 * something is pending.
 */
struct loop {
	const char *name;
	bool running;		/* there is a thread */
	bool ended;		/* there was one, and it is to be joined */
	/* Of "dlbuf-events" only: the application is the thread, see dlbuf_dispatch(). */
	bool by_hand;		/* fds are open, `running` is not set */
	bool dispatching;	/* a call runs, on `thread` */
	pthread_t thread;
	int epoll;
	int wake;		/* eventfd: look again */
	unsigned int wakes;	/* atomic: those that it has not read yet */
	unsigned int pending;	/* events and promised calls */
	struct event_call *posted;	/* atomic, the last one first */
	struct event_call *later;	/* the thread's own: to be called again */
	int timer;		/* by hand: timerfd, to call `later` again */
	int nover;		/* calls that are over since dispatch() began */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;	/* running, or whether that is wanted */
	bool stop;		/* they are to end whatever is pending */
	unsigned int users;
	unsigned long wakeups;
	struct event *first;	/* those that have not been fired */
	const void *firing;	/* owner of the event whose callback runs */
	struct loop words, calls;
} events = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.words = { .name = "dlbuf-words", .epoll = -1, .wake = -1 },
	.calls = { .name = "dlbuf-events", .epoll = -1, .wake = -1 },
};

/* Under the lock. */
static bool wanted(const struct loop *l)
{
	return !events.stop && (events.users || l->pending);
}

static bool is_here(const struct loop *l)
{
	return l->running && pthread_equal(pthread_self(), l->thread);
}

/* Under the lock: a thread, or the application, waits for what is pending. */
static bool is_open(const struct loop *l)
{
	return l->epoll >= 0;
}

static void announce_wake(struct loop *l)
{
	__atomic_add_fetch(&l->wakes, 1, __ATOMIC_RELAXED);
}

/* It was announced: until the thread has read it the fds stay. */
static void wake(const struct loop *l)
{
	uint64_t one = 1;
	ssize_t n = write(l->wake, &one, sizeof(one));

	(void)n;
}

/* Under the lock. */
static void wake_to_end(struct loop *l)
{
	if (!l->running || wanted(l))
		return;
	announce_wake(l);
	wake(l);
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

static void push(struct event_call *call)
{
	struct event_call *first = __atomic_load_n(&events.calls.posted,
						   __ATOMIC_RELAXED);

	do
		call->next = first;
	while (!__atomic_compare_exchange_n(&events.calls.posted, &first, call,
					    true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED));
}

/* When the thread sees the call it may end at once: hence first the count. */
void event_post(struct event_call *call)
{
	announce_wake(&events.calls);
	push(call);
	wake(&events.calls);
}

/*
 * Until fn has returned the event is pending, but nobody else knows it any
 * more: a fork() meanwhile must not close what has the number of its fd next.
 */
static bool fire(struct event_call *call)
{
	struct event *e = container_of(call, struct event, call);
	void (*fn)(void *data) = e->fn;
	void *data = e->data;

	pthread_mutex_lock(&events.lock);
	list_remove(e);
	events.firing = e->owner;
	close(e->fd);
	if (e->loop == &events.words) {
		events.words.pending--;
		wake_to_end(&events.words);
	}
	pthread_mutex_unlock(&events.lock);
	free(e);
	fn(data);
	return true;
}

/* False when a callback has forked and this is the child, without a thread. */
static bool run(struct event_call *call)
{
	struct loop *l = &events.calls;
	unsigned int forks = fork_generation;
	bool over = call->fn(call);

	if (forks != fork_generation)
		return false;
	if (over) {
		pthread_mutex_lock(&events.lock);
		events.firing = NULL;
		l->pending--;
		l->nover++;
		pthread_mutex_unlock(&events.lock);
	} else {
		call->next = l->later;
		l->later = call;
	}
	return true;
}

static bool run_all(struct event_call *call)
{
	struct event_call *next;

	for (; call; call = next) {
		next = call->next;
		if (!run(call))
			return false;
	}
	return true;
}

/* In the order in which they were posted, after those that are due again. */
static bool run_posted(struct loop *l)
{
	struct event_call *call, *next, *again = l->later, *first = NULL;

	l->later = NULL;
	call = __atomic_exchange_n(&l->posted, NULL, __ATOMIC_ACQUIRE);
	for (; call; call = next) {
		next = call->next;
		call->next = first;
		first = call;
	}
	return run_all(again) && run_all(first);
}

/* Under the lock: what the thread held is closed with it. */
static void close_fds(struct loop *l)
{
	close(l->epoll);
	close(l->wake);
	if (l->by_hand)
		close(l->timer);
	l->epoll = l->wake = -1;
	l->by_hand = false;
}

/* Whether the thread is to end, which it then has, but for its last steps. */
static bool end_if_unwanted(struct loop *l)
{
	bool end;

	pthread_mutex_lock(&events.lock);
	end = !wanted(l) && !__atomic_load_n(&l->wakes, __ATOMIC_RELAXED);
	if (end) {
		close_fds(l);
		l->running = false;
		l->ended = true;
		pthread_cond_broadcast(&events.changed);
	}
	pthread_mutex_unlock(&events.lock);
	return end;
}

/* True: somebody has woken the thread. */
static bool take(struct loop *l, struct event *e)
{
	uint64_t count;
	ssize_t r;

	if (!e) {
		r = read(l->wake, &count, sizeof(count));
		__atomic_sub_fetch(&l->wakes, r > 0 ? count : 0,
				   __ATOMIC_RELAXED);
		return true;
	}
	if (e->word)
		__atomic_store_n(e->word, e->value, __ATOMIC_RELEASE);
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, e->fd, NULL);
	if (l == &events.calls)
		push(&e->call);
	else
		event_post(&e->call);
	return false;
}

/*
 * The application has closed the library's fds, or put others in their place: they
 * are not ours to close or to write to any more. What is pending is not told.
 */
static void break_off(struct loop *l)
{
	log_at(DLBUF_LOG_ERROR, "thread %s ends: epoll_wait(): %m; the application "
	       "has closed fd %d of the library's", l->name, l->epoll);
	pthread_mutex_lock(&events.lock);
	l->epoll = l->wake = -1;
	l->wakes = 0;
	l->running = false;
	l->ended = true;
	pthread_cond_broadcast(&events.changed);
	pthread_mutex_unlock(&events.lock);
}

/*
 * Waits for so many milliseconds at most, takes what is due, and runs what is
 * posted. How many fds were ready, or -1, with errno or in a child that a callback
 * has forked: then errno is 0.
 */
static int turn(struct loop *l, int timeout, bool *woken)
{
	struct epoll_event got[16];
	int n = epoll_wait(l->epoll, got, ARRAY_SIZE(got), timeout);

	*woken = l == &events.calls;
	if (n < 0 && errno != EINTR)
		return n;
	__atomic_add_fetch(&events.wakeups, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++)
		*woken |= take(l, got[i].data.ptr);
	if (l == &events.calls && !run_posted(l)) {
		errno = 0;
		return -1;
	}
	return n < 0 ? 0 : n;
}

static void *loop_thread(void *arg)
{
	struct loop *l = arg;
	int pause = 1, n;
	bool woken;

	for (;;) {
		n = turn(l, l->later ? pause : -1, &woken);
		if (n < 0) {
			if (errno)
				break_off(l);
			return NULL;
		}
		pause = n || pause == MAX_PAUSE ? pause : 2 * pause;
		pause = l->later ? pause : 1;
		/* The words' thread takes the lock only when it is asked to. */
		if (woken && end_if_unwanted(l))
			return NULL;
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
	events.words.pending = events.calls.pending = 0;
	events.calls.posted = events.calls.later = NULL;
}

/* fork() copies the lists but not the threads. */
void event_before_fork(void)
{
	pthread_mutex_lock(&events.lock);
}

void event_after_fork(void)
{
	pthread_mutex_unlock(&events.lock);
}

static void forget_thread(struct loop *l)
{
	if (is_open(l))
		close_fds(l);
	l->running = l->ended = l->by_hand = l->dispatching = false;
	l->wakes = 0;
}

/* The events are the parent's, and so are their callbacks and the devices. */
void event_forked(void)
{
	forget_all();
	forget_thread(&events.words);
	forget_thread(&events.calls);
	events.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	events.wakeups = 0;
	events.users = 0;
	pthread_mutex_unlock(&events.lock);
}

/* Under the lock. */
static int open_fds(struct loop *l)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ret;

	l->epoll = sys_epoll();
	if (l->epoll < 0)
		return fail_errno("epoll_create1()");
	l->wake = sys_eventfd(EFD_NONBLOCK);
	if (l->wake < 0)
		ret = fail_errno("eventfd()");
	else if (fault_hit() || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake,
					  &ev) < 0)
		ret = fail_errno("epoll_ctl()");
	else
		return 0;
	close(l->epoll);
	if (l->wake >= 0)
		close(l->wake);
	l->epoll = l->wake = -1;
	return ret;
}

/*
 * Under the lock. A thread that has ended takes it no more, but may be on its
 * way out of our code yet.
 */
static void join_ended(struct loop *l)
{
	if (l->ended)
		pthread_join(l->thread, NULL);
	l->ended = false;
}

/* Under the lock: there is one. */
static int start_thread(struct loop *l)
{
	int ret;

	if (events.stop)
		return fail(-EOPNOTSUPP, "the library is being unloaded");
	if (is_open(l))
		return 0;
	join_ended(l);
	ret = open_fds(l);
	if (ret)
		return ret;
	ret = sys_thread(&l->thread, loop_thread, l);
	if (ret) {
		close_fds(l);
		return ret;
	}
	pthread_setname_np(l->thread, l->name);
	l->running = true;
	return 0;
}

/*
 * Under the lock: ends the thread if nobody wants it. It is waited for,
 * because the library may be unloaded next; but no longer than it takes
 * somebody else to want it again. The thread itself, in a callback, ends when it
 * comes back, and is joined by who comes next, the library's end if nobody.
 */
static void end_thread(struct loop *l)
{
	if (is_here(l))
		return;
	wake_to_end(l);
	while (l->running && !wanted(l))
		pthread_cond_wait(&events.changed, &events.lock);
	join_ended(l);
}

static void end_threads(void)
{
	end_thread(&events.words);
	end_thread(&events.calls);
}

/* Under the lock. */
static int promise(void)
{
	int ret = start_thread(&events.calls);

	if (ret)
		return ret;
	events.calls.pending++;
	pthread_cond_broadcast(&events.changed);
	return 0;
}

/* Under the lock. */
static int insert(struct event *e, int fd)
{
	struct epoll_event ev = { .events = e->writable ? EPOLLOUT : EPOLLIN,
				  .data.ptr = e };
	int ret = promise();

	if (ret)
		return ret;
	ret = start_thread(e->loop);
	if (!ret && (fault_hit() || epoll_ctl(e->loop->epoll, EPOLL_CTL_ADD,
					      e->fd, &ev) < 0))
		ret = fail_errno("fd %d: epoll_ctl()", fd);
	if (ret) {
		events.calls.pending--;
		return ret;
	}
	/* Before it can be fired, which takes the lock. */
	e->next = events.first;
	if (e->next)
		e->next->prev = e;
	events.first = e;
	events.words.pending += e->loop == &events.words;
	return 0;
}

/* fd is taken on success. */
static int add(const struct event *model, int fd)
{
	struct event *e = sys_calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return -ENOMEM;
	fork_watch();
	*e = *model;
	e->fd = fd;
	NOT_CANCELLED;
	pthread_mutex_lock(&events.lock);
	ret = insert(e, fd);
	if (ret)
		end_threads(); /* they may have been started for this */
	pthread_mutex_unlock(&events.lock);
	if (ret)
		free(e);
	return ret;
}

static int add_duplicate(const struct event *model, int fd)
{
	int dup = sys_dup(fd), ret;

	if (dup < 0)
		return fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fd);
	ret = add(model, dup);
	if (ret)
		close(dup);
	return ret;
}

int event_add(int fd, void (*fn)(void *data), void *data)
{
	return add_duplicate(&(struct event){ .call.fn = fire,
					      .loop = &events.calls,
					      .fn = fn, .data = data }, fd);
}

int event_add_take(int fd, void (*fn)(void *data), void *data,
		   const void *owner)
{
	return add(&(struct event){ .call.fn = fire, .loop = &events.calls,
				    .fn = fn, .data = data, .owner = owner }, fd);
}

int event_add_writable(int fd, void (*fn)(void *data), void *data)
{
	return add(&(struct event){ .call.fn = fire, .loop = &events.calls,
				    .fn = fn, .data = data, .writable = true },
		   fd);
}

int event_add_word(int fd, uint32_t *word, uint32_t value,
		   void (*fn)(void *data), void *data)
{
	return add_duplicate(&(struct event){ .call.fn = fire,
					      .loop = &events.words,
					      .word = word, .value = value,
					      .fn = fn, .data = data }, fd);
}

int event_promise(void)
{
	int ret;

	fork_watch();
	NOT_CANCELLED;
	pthread_mutex_lock(&events.lock);
	ret = promise();
	pthread_mutex_unlock(&events.lock);
	return ret;
}

bool event_awaits(const void *owner)
{
	bool awaits;

	pthread_mutex_lock(&events.lock);
	awaits = events.firing == owner;
	/* Without a thread nothing is going to fire. */
	if (is_open(&events.calls))
		for (struct event *e = events.first; e; e = e->next)
			awaits |= e->owner == owner;
	pthread_mutex_unlock(&events.lock);
	return awaits;
}

/* Under the lock. */
static bool calls_here(void)
{
	const struct loop *l = &events.calls;

	return is_here(l) || (l->dispatching &&
			      pthread_equal(pthread_self(), l->thread));
}

bool event_is_here(void)
{
	bool here;

	pthread_mutex_lock(&events.lock);
	here = calls_here();
	pthread_mutex_unlock(&events.lock);
	return here;
}

/* ---------------------------------------------------------------- by hand */

#define PAUSE_BY_HAND 2000000	/* nanoseconds */

/* Under the lock. */
static int open_timer(struct loop *l)
{
	struct epoll_event ev = { .events = EPOLLIN };

	l->timer = sys_timerfd();
	if (l->timer < 0)
		return fail_errno("timerfd_create()");
	if (!fault_hit() && !epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &ev))
		return 0;
	fail_errno("epoll_ctl()");
	close(l->timer);
	return -ENOMEM;
}

/* Under the lock. */
static int begin_by_hand(struct loop *l)
{
	int ret;

	end_thread(l);
	if (l->running)
		return fail(-EBUSY, "thread %s runs: call dlbuf_dispatch_fd() "
			    "before the first device is opened", l->name);
	ret = open_fds(l);
	if (ret)
		return ret;
	ret = open_timer(l);
	l->by_hand = !ret;
	if (ret)
		close_fds(l);
	return ret;
}

/* Under the lock. */
static int end_by_hand(struct loop *l)
{
	if (!l->by_hand)
		return 0;
	if (l->dispatching || wanted(l) ||
	    __atomic_load_n(&l->wakes, __ATOMIC_RELAXED))
		return fail(-EBUSY, "a device is open, or callbacks are to be "
			    "dispatched");
	close_fds(l);
	return 0;
}

int dlbuf_dispatch_fd(int *fd)
{
	NOT_CANCELLED;
	struct loop *l = &events.calls;
	bool begun;
	int ret = 0, dup;

	fork_watch();
	pthread_mutex_lock(&events.lock);
	if (!fd) {
		ret = end_by_hand(l);
	} else {
		begun = !l->by_hand;
		if (begun)
			ret = begin_by_hand(l);
		if (!ret) {
			dup = sys_dup(l->epoll);
			if (dup < 0)
				ret = fail_errno("fcntl(F_DUPFD_CLOEXEC)");
			else
				*fd = dup;
			if (ret && begun)
				close_fds(l);
		}
	}
	pthread_mutex_unlock(&events.lock);
	return ret;
}

/* 1: this thread is the one that dispatches now. */
static int begin_dispatch(struct loop *l)
{
	int ret = 1;

	pthread_mutex_lock(&events.lock);
	if (!l->by_hand)
		ret = fail(-EINVAL, "dlbuf_dispatch_fd() was not called");
	else if (calls_here())
		ret = fail(-EBUSY, "dlbuf_dispatch() in a callback of itself");
	else if (l->dispatching)
		ret = 0;
	if (ret == 1) {
		l->dispatching = true;
		l->thread = pthread_self();
	}
	pthread_mutex_unlock(&events.lock);
	return ret;
}

int dlbuf_dispatch(void)
{
	NOT_CANCELLED;
	struct itimerspec again = { 0 };
	struct loop *l = &events.calls;
	int ret = begin_dispatch(l), err;
	bool woken;

	if (ret <= 0)
		return ret;
	l->nover = 0;
	err = turn(l, 0, &woken) < 0 ? errno : -1;
	/* In a child that a callback has forked there is nothing to do. */
	if (!err)
		return 0;
	/* Not readable any more, before it is due again. */
	again.it_value.tv_nsec = l->later ? PAUSE_BY_HAND : 0;
	timerfd_settime(l->timer, 0, &again, NULL);
	ret = err < 0 ? l->nover :
	      fail(-EIO, "epoll_wait(): %s; the application has closed fd %d of "
		   "the library's", strerror(err), l->epoll);
	pthread_mutex_lock(&events.lock);
	l->dispatching = false;
	pthread_mutex_unlock(&events.lock);
	return ret;
}

int event_turn(void)
{
	bool by_hand;
	int ret;

	pthread_mutex_lock(&events.lock);
	by_hand = events.calls.by_hand;
	pthread_mutex_unlock(&events.lock);
	ret = by_hand ? dlbuf_dispatch() : 0;
	return ret < 0 ? ret : 0;
}

void event_user_add(void)
{
	fork_watch();
	pthread_mutex_lock(&events.lock);
	events.users++;
	pthread_cond_broadcast(&events.changed);
	pthread_mutex_unlock(&events.lock);
}

void event_user_remove(void)
{
	NOT_CANCELLED;

	pthread_mutex_lock(&events.lock);
	events.users--;
	end_threads();
	pthread_mutex_unlock(&events.lock);
}

/* The library goes: what is still pending will not be told. */
__attribute__((destructor))
static void event_stop(void)
{
	pthread_mutex_lock(&events.lock);
	events.stop = true;
	end_threads();
	if (!events.calls.running) {
		forget_all();
		forget_thread(&events.calls);
	}
	pthread_mutex_unlock(&events.lock);
}

unsigned int event_pending(void)
{
	unsigned int n;

	pthread_mutex_lock(&events.lock);
	n = events.calls.pending;
	pthread_mutex_unlock(&events.lock);
	return n;
}

unsigned long event_wakeups(void)
{
	return __atomic_load_n(&events.wakeups, __ATOMIC_RELAXED);
}
