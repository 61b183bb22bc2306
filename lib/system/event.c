// SPDX-License-Identifier: MIT
/* Completion events: two loops, each with an epoll. The rules are in event.h. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <dlbuf/fence.h>

#include "event.h"
#include "fork.h"
#include "internal.h"
#include "sys.h"

#define MAX_PAUSE 8		/* milliseconds */
#define SLOW_PAUSE 250

struct event {
	struct event_call call;
	struct loop *loop;
	int fd;
	uint32_t *word;		/* or NULL */
	uint32_t value;
	void (*fn)(void *data);
	void *data;
	const void *owner;
	void (*ended)(int fd, void *data);	/* or NULL */
	bool writable;		/* wait until fd is writable, not readable */
	struct event *prev, *next;
};

/*
 * A loop: a thread and its epoll. The fds and the thread do not change while events are
 * pending.
 */
struct loop {
	const char *name;
	bool running;		/* the thread runs */
	bool ended;		/* the thread has ended and must be joined */
	/* Only for "dlbuf-events": the application runs the loop, see dlbuf_dispatch(). */
	bool by_hand;		/* the fds are open, and `running` is not set */
	bool dispatching;	/* `thread` is in dlbuf_dispatch() */
	pthread_t thread;
	int epoll;
	int wake;		/* eventfd that wakes the loop */
	unsigned int wakes;	/* atomic; wakes that the loop has not read yet */
	unsigned int pending;	/* number of events and promised calls */
	struct event_call *posted;	/* atomic; the last one first */
	struct event_call *later;	/* used only by the thread; to be called again */
	bool soon;		/* at least one of them is not slow */
	int timer;		/* by hand: timerfd, to call `later` again */
	int nover;		/* calls completed since dlbuf_dispatch() began */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;	/* `running`, or what wanted() returns, has changed */
	bool stop;		/* the library is unloaded: the loops must end */
	unsigned int users;
	unsigned long wakeups;
	struct event *first;	/* list of the events that have not fired */
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

/* Under the lock: whether a thread or the application runs the loop. */
static bool is_open(const struct loop *l)
{
	return l->epoll >= 0;
}

static void announce_wake(struct loop *l)
{
	__atomic_add_fetch(&l->wakes, 1, __ATOMIC_RELAXED);
}

/* Call announce_wake() before: the fds then stay until the loop has read the wake. */
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
static void event_unlist(struct event *e)
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

/* The count comes first, because the thread may end as soon as it sees the call. */
void event_post(struct event_call *call)
{
	announce_wake(&events.calls);
	push(call);
	wake(&events.calls);
}

/* Under the lock, because a wake that no loop reads would prevent the next loop from ending. */
void event_kick(void)
{
	struct loop *l = &events.calls;

	pthread_mutex_lock(&events.lock);
	if (is_open(l)) {
		announce_wake(l);
		wake(l);
	}
	pthread_mutex_unlock(&events.lock);
}

/*
 * The event counts as pending until fn has returned. It is removed from the list before,
 * because its fd is closed: a child of fork() must not close the number again.
 */
static bool fire_event(struct event_call *call)
{
	struct event *e = container_of(call, struct event, call);
	void (*fn)(void *data) = e->fn;
	void *data = e->data;

	if (e->ended)
		e->ended(e->fd, data);
	pthread_mutex_lock(&events.lock);
	event_unlist(e);
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

/* Returns false in the child, if a callback has called fork(). */
static bool run_call(struct event_call *call)
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
		l->soon |= !call->slow;
	}
	return true;
}

static bool run_calls(struct event_call *call)
{
	struct event_call *next;

	for (; call; call = next) {
		next = call->next;
		if (!run_call(call))
			return false;
	}
	return true;
}

/* Runs the calls that are due again, then the posted ones in their order. */
static bool run_posted(struct loop *l)
{
	struct event_call *call, *next, *again = l->later, *first = NULL;

	l->later = NULL;
	l->soon = false;
	call = __atomic_exchange_n(&l->posted, NULL, __ATOMIC_ACQUIRE);
	for (; call; call = next) {
		next = call->next;
		call->next = first;
		first = call;
	}
	return run_calls(again) && run_calls(first);
}

/* Under the lock. */
static void close_fds(struct loop *l)
{
	close(l->epoll);
	close(l->wake);
	if (l->by_hand)
		close(l->timer);
	l->epoll = l->wake = -1;
	l->by_hand = false;
}

/*
 * Ends the loop if nothing needs it. True: the thread must return. At the library's end the
 * fds stay open while calls are promised: see event_stop().
 */
static bool end_if_unwanted(struct loop *l)
{
	bool end;

	pthread_mutex_lock(&events.lock);
	end = !wanted(l) && !__atomic_load_n(&l->wakes, __ATOMIC_RELAXED);
	if (end) {
		if (!l->pending)
			close_fds(l);
		l->running = false;
		l->ended = true;
		pthread_cond_broadcast(&events.changed);
	}
	pthread_mutex_unlock(&events.lock);
	return end;
}

/* Handles a ready fd. Returns true if it was the wake fd. */
static bool take_event(struct loop *l, struct event *e)
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
 * Ends the loop after the application has closed the library's fds, or has put other
 * files in their place. So the library does not close them or write to them. Pending
 * events do not fire.
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
 * One turn of a loop: waits at most `timeout` milliseconds, handles the ready fds, and
 * runs the posted calls. Returns how many fds were ready, or -1: with errno, or with
 * errno 0 in a child, if a callback has called fork().
 */
static int loop_turn(struct loop *l, int timeout, bool *woken)
{
	struct epoll_event got[16];
	int n = epoll_wait(l->epoll, got, ARRAY_SIZE(got), timeout);

	*woken = l == &events.calls;
	if (n < 0 && errno != EINTR)
		return n;
	__atomic_add_fetch(&events.wakeups, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++)
		*woken |= take_event(l, got[i].data.ptr);
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
		n = loop_turn(l, l->soon ? pause : l->later ? SLOW_PAUSE : -1, &woken);
		if (n < 0) {
			if (errno)
				break_off(l);
			return NULL;
		}
		pause = n || pause == MAX_PAUSE ? pause : 2 * pause;
		pause = l->soon ? pause : 1;
		/* "dlbuf-words" takes the lock only after it was woken. */
		if (woken && end_if_unwanted(l))
			return NULL;
	}
}

/* Under the lock, without a thread: frees all events, which do not fire. */
static void forget_all(void)
{
	struct event *e;

	while ((e = events.first)) {
		event_unlist(e);
		events.calls.pending--;
		close(e->fd);
		free(e);
	}
	events.words.pending = 0;
	events.calls.posted = events.calls.later = NULL;
}

static void forget_thread(struct loop *l)
{
	if (is_open(l))
		close_fds(l);
	l->running = l->ended = l->by_hand = l->dispatching = false;
	l->wakes = 0;
}

/*
 * Around fork(), which copies the lists but not the threads. The child forgets the parent's
 * events, with their callbacks and devices.
 */
static void forked(enum fork_side side)
{
	if (side == FORK_BEFORE) {
		pthread_mutex_lock(&events.lock);
		return;
	}
	if (side == FORK_CHILD) {
		forget_all();
		events.calls.pending = 0;
		forget_thread(&events.words);
		forget_thread(&events.calls);
		events.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
		events.wakeups = 0;
		events.users = 0;
	}
	pthread_mutex_unlock(&events.lock);
}

static struct fork_handler fork_handler = { .fn = forked };

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
 * Under the lock, which a thread that has ended does not take any more. Such a thread
 * may still run its last instructions in this library.
 */
static void join_ended(struct loop *l)
{
	if (l->ended)
		pthread_join(l->thread, NULL);
	l->ended = false;
}

/* Under the lock: starts the thread if it does not run. */
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
 * Under the lock: ends the thread if nothing needs it, and waits for its end, because
 * the library may be unloaded next. Stops waiting if the thread is needed again. If a
 * callback on that thread calls this, the thread ends after the callback; the next
 * caller joins it, or the library's destructor.
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
static int insert_event(struct event *e, int fd)
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
	/* Before the event fires, which needs the lock. */
	e->next = events.first;
	if (e->next)
		e->next->prev = e;
	events.first = e;
	events.words.pending += e->loop == &events.words;
	return 0;
}

/* Takes fd on success. */
static int add(const struct event *model, int fd)
{
	struct event *e = sys_calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return -ENOMEM;
	fork_handle(&fork_handler);
	*e = *model;
	e->fd = fd;
	NOT_CANCELLED;
	pthread_mutex_lock(&events.lock);
	ret = insert_event(e, fd);
	if (ret)
		end_threads(); /* which this call may have started */
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
	return add_duplicate(&(struct event){ .call.fn = fire_event,
					      .loop = &events.calls,
					      .fn = fn, .data = data }, fd);
}

int event_add_take(int fd, void (*fn)(void *data), void *data,
		   const void *owner, void (*ended)(int fd, void *data))
{
	return add(&(struct event){ .call.fn = fire_event, .loop = &events.calls, .fn = fn,
				    .data = data, .owner = owner, .ended = ended }, fd);
}

int event_add_writable(int fd, void (*fn)(void *data), void *data)
{
	return add(&(struct event){ .call.fn = fire_event, .loop = &events.calls,
				    .fn = fn, .data = data, .writable = true },
		   fd);
}

int event_add_word(int fd, uint32_t *word, uint32_t value,
		   void (*fn)(void *data), void *data)
{
	return add_duplicate(&(struct event){ .call.fn = fire_event,
					      .loop = &events.words,
					      .word = word, .value = value,
					      .fn = fn, .data = data }, fd);
}

int event_promise(void)
{
	int ret;

	fork_handle(&fork_handler);
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
	/* If no loop runs, no event will fire. */
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

	fork_handle(&fork_handler);
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

/* Returns 1 if this thread dispatches now, 0 if another one does. */
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
	err = loop_turn(l, 0, &woken) < 0 ? errno : -1;
	/* A callback has called fork(), and this is the child. */
	if (!err)
		return 0;
	/* Makes the timer unreadable until the calls are due again. */
	again.it_value.tv_nsec = l->soon ? PAUSE_BY_HAND :
				 l->later ? SLOW_PAUSE * 1000000 : 0;
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
	fork_handle(&fork_handler);
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

/*
 * The library's end, see event.h. If exit() was called in a callback, or while a thread is
 * in dlbuf_dispatch(), nothing is freed: that thread continues until the process ends. The
 * fds also stay while calls are promised: a driver's thread may still write to `wake`.
 */
__attribute__((destructor))
static void event_stop(void)
{
	pthread_mutex_lock(&events.lock);
	events.stop = true;
	end_threads();
	if (!events.calls.running && !events.calls.dispatching) {
		forget_all();
		forget_thread(&events.words);
		if (!events.calls.pending)
			forget_thread(&events.calls);
	}
	pthread_mutex_unlock(&events.lock);
}

void event_stop_before(void)
{
	static unsigned int once; /* atomic */

	if (!__atomic_exchange_n(&once, 1, __ATOMIC_RELAXED))
		atexit(event_stop);
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
