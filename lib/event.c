// SPDX-License-Identifier: MIT
/* Completion events: two threads, an epoll each. See event.h for their rules. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

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
	pthread_t thread;
	int epoll;
	int wake;		/* eventfd: look again */
	unsigned int wakes;	/* atomic: those that it has not read yet */
	unsigned int pending;	/* events and promised calls */
	struct event_call *posted;	/* atomic, the last one first */
	struct event_call *later;	/* the thread's own: to be called again */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;	/* running, or whether that is wanted */
	bool stop;		/* they are to end whatever is pending */
	unsigned int users;
	unsigned long wakeups;
	struct event *first;	/* those that have not been fired */
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
		l->pending--;
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
	l->epoll = l->wake = -1;
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

static void *loop_thread(void *arg)
{
	struct epoll_event got[16];
	struct loop *l = arg;
	int pause = 1, n;
	bool woken;

	for (;;) {
		n = epoll_wait(l->epoll, got, ARRAY_SIZE(got),
			       l->later ? pause : -1);
		if (n < 0 && errno != EINTR) {
			break_off(l);
			return NULL;
		}
		__atomic_add_fetch(&events.wakeups, 1, __ATOMIC_RELAXED);
		pause = n || pause == MAX_PAUSE ? pause : 2 * pause;
		woken = false;
		for (int i = 0; i < n; i++)
			woken |= take(l, got[i].data.ptr);
		if (l == &events.calls) {
			if (!run_posted(l))
				return NULL;
			woken = true;
		}
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
	if (l->running)
		close_fds(l);
	l->running = l->ended = false;
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
		return fail(-EOPNOTSUPP, "no events any more: the library ends");
	if (l->running)
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
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = e };
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

int event_add_take(int fd, void (*fn)(void *data), void *data)
{
	return add(&(struct event){ .call.fn = fire, .loop = &events.calls,
				    .fn = fn, .data = data }, fd);
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

bool event_is_here(void)
{
	bool here;

	pthread_mutex_lock(&events.lock);
	here = is_here(&events.calls);
	pthread_mutex_unlock(&events.lock);
	return here;
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
	if (!events.calls.running)
		forget_all();
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
