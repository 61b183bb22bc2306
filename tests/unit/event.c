// SPDX-License-Identifier: MIT
/*
 * The event thread: when it runs, which callbacks it calls, and its state after
 * a fork, a failure and the end. Eventfds and pipes replace sync_files.
 */
#include "event_loop.h"

static void begin_user(void)
{
	THREADS();
	event_user_add();
}

#define EVENT_CASE(name) TEST_BETWEEN(name, begin_user(), event_user_remove())

/* ---------------------------------------------------------------- firing */

EVENT_CASE(once)
{
	unsigned int told = 0, other = 0;
	int fd AUTO_FD = unsignalled(), next AUTO_FD = unsignalled();

	CHECK_OK(event_add(fd, add_one, &told));
	CHECK_OK(event_add(next, add_one, &other));
	CHECK_EQ(event_pending(), 2);
	CHECK_EQ(load(&told), 0);
	signal_fd(fd);
	wait_until(&told, 1);
	/* It is readable still, and the thread has been round again. */
	signal_fd(next);
	wait_until_all_told();
	CHECK_EQ(load(&told), 1);
	CHECK_EQ(load(&other), 1);
}

static unsigned int order[8], norder;

static void note_order(void *data)
{
	unsigned int n = norder;

	order[n] = *(unsigned int *)data;
	__atomic_store_n(&norder, n + 1, __ATOMIC_RELEASE);
}

EVENT_CASE(in_the_order_of_their_signals)
{
	static const unsigned int signals[8] = { 5, 0, 7, 3, 1, 6, 2, 4 };
	unsigned int numbers[8];
	int fd[8];

	for (unsigned int i = 0; i < 8; i++) {
		numbers[i] = i;
		fd[i] = unsignalled();
		CHECK_OK(event_add(fd[i], note_order, &numbers[i]));
	}
	for (unsigned int i = 0; i < 8; i++) {
		signal_fd(fd[signals[i]]);
		wait_until(&norder, i + 1);
		CHECK_EQ(order[i], signals[i]);
	}
	wait_until_all_told();
	for (unsigned int i = 0; i < 8; i++)
		close(fd[i]);
}

#define MANY 200

/* Eventfds, pipes that are written to, and pipes whose writer goes. */
EVENT_CASE(many_at_once)
{
	unsigned int told[MANY] = { 0 }, wrong = 0;
	int in[MANY], out[MANY];

	for (int i = 0; i < MANY; i++) {
		int pair[2];

		if (i % 3) {
			REQUIRE(!pipe2(pair, O_CLOEXEC));
			in[i] = pair[0];
			out[i] = pair[1];
		} else {
			in[i] = out[i] = unsignalled();
		}
		CHECK_OK(event_add(in[i], add_one, &told[i]));
		/* The caller's fd may go at once. */
		if (in[i] != out[i])
			close(in[i]);
	}
	CHECK_EQ(event_pending(), MANY);
	for (int n = 0, i; n < MANY; n++) {
		i = n * 77 % MANY;
		if (i % 3 < 2)
			signal_fd(out[i]);
		close(out[i]);
	}
	wait_until_all_told();
	for (int i = 0; i < MANY; i++)
		wrong += load(&told[i]) != 1;
	CHECK_EQ(wrong, 0);
}

/* The next file with the number does not affect the event. */
EVENT_CASE(the_callers_fd_goes)
{
	unsigned int told = 0, other = 0;
	int pair[2], next AUTO_FD = -1;

	REQUIRE(!pipe2(pair, O_CLOEXEC));
	CHECK_OK(event_add(pair[0], add_one, &told));
	close(pair[0]);
	next = unsignalled();
	CHECK_EQ(next, pair[0]);
	signal_fd(next);
	CHECK_OK(event_add(next, add_one, &other));
	wait_until(&other, 1);
	CHECK_EQ(load(&told), 0);
	signal_fd(pair[1]);
	wait_until_all_told();
	CHECK_EQ(load(&told), 1);
	close(pair[1]);
}

TEST(what_cannot_be_waited_for)
{
	int memfd AUTO_FD = memfd_create("a file", MFD_CLOEXEC);
	unsigned int told = 0;

	THREADS();
	CHECK_ERR(event_add(-1, add_one, &told), -EBADF);
	CHECK_ERR(event_add(9999, add_one, &told), -EBADF);
	/* epoll takes no regular files. No thread is left to wait for others. */
	CHECK_ERR(event_add(memfd, add_one, &told), -EPERM);
	wait_until_threads(0);
	CHECK_EQ(event_pending() + told, 0);
}

/* ---------------------------------------------------------------- callbacks */

struct chain {
	int fd;
	unsigned int left, done; /* done is atomic */
};

static void add_again(void *data)
{
	struct chain *c = data;

	if (!--c->left)
		add_one(&c->done);
	else
		CHECK_OK(event_add(c->fd, add_again, c));
}

EVENT_CASE(callbacks_add_events)
{
	struct chain c = { .fd = unsignalled(), .left = 100 };

	signal_fd(c.fd);
	CHECK_OK(event_add(c.fd, add_again, &c));
	wait_until(&c.done, 1);
	wait_until_all_told();
	close(c.fd);
}

#ifdef CONFIG_BACKEND_CPU
static unsigned int opened; /* atomic */

static void open_and_close(void *data)
{
	struct dlbuf_device *dev = NULL;

	CHECK_OK(dlbuf_device_open("cpu", NULL, &dev));
	dlbuf_device_close(dev);
	add_one(&opened);
}

TEST(callbacks_open_and_close_devices)
{
	int fd AUTO_FD = unsignalled();

	THREADS();
	signal_fd(fd);
	/* The device that is closed is the only one each time. */
	for (unsigned int i = 1; i <= 20; i++) {
		CHECK_OK(event_add(fd, open_and_close, NULL));
		wait_until(&opened, i);
		wait_until_all_told();
	}
	wait_until_threads(0);
}

static void close_device(void *data)
{
	dlbuf_device_close(data);
	add_one(&opened);
}

TEST(a_callback_closes_the_last_device)
{
	unsigned int nfds = fds();
	int fd AUTO_FD = unsignalled();

	THREADS();
	for (unsigned int i = 1; i <= 20; i++) {
		struct dlbuf_device *dev = NULL;

		REQUIRE_OK(dlbuf_device_open("cpu", NULL, &dev));
		signal_fd(fd);
		CHECK_OK(event_add(fd, close_device, dev));
		wait_until_threads(0);
		CHECK_EQ(load(&opened), i);
		CHECK_EQ(event_pending(), 0);
		CHECK_EQ(fds(), nfds + 1);
	}
}
#endif

/* ---------------------------------------------------------------- the thread */

/* A thread raises them itself, and their handlers are the application's. */
static const int own_signals[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };

/* The others, as far as the system lets one block them. */
static sigset_t all;

static void find_all_signals(void)
{
	sigset_t old;

	sigfillset(&all);
	for (size_t i = 0; i < ARRAY_SIZE(own_signals); i++)
		sigdelset(&all, own_signals[i]);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pthread_sigmask(SIG_SETMASK, &old, &all);
}

static pthread_t told_by[MANY];
static unsigned int ntold; /* atomic */

static void note_thread(void *data)
{
	char name[16] = "";
	sigset_t blocked;
	int open = 0;

	pthread_getname_np(pthread_self(), name, sizeof(name));
	CHECK_STR(name, "dlbuf-events");
	sigemptyset(&blocked);
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	for (int sig = 1; sig <= 64; sig++)
		open += sigismember(&blocked, sig) != sigismember(&all, sig);
	CHECK_EQ(open, 0);
	told_by[ntold] = pthread_self();
	add_one(&ntold);
}

static void *add_events(void *arg)
{
	int fd = *(int *)arg;

	for (int i = 0; i < MANY / 4; i++)
		CHECK_OK(event_add(fd, note_thread, NULL));
	return NULL;
}

TEST(one_quiet_thread_for_all)
{
	unsigned int nfds = fds(), others = 0;
	int fd AUTO_FD = unsignalled();
	sigset_t mine, after;
	pthread_t adders[3];

	THREADS();
	find_all_signals();
	CHECK(sigismember(&all, SIGINT) && !sigismember(&all, SIGSEGV));
	pthread_sigmask(SIG_BLOCK, NULL, &mine);
	/* No thread has anything to wait for yet. */
	event_user_add();
	CHECK_EQ(threads(), 0);
	CHECK_EQ(fds(), nfds + 1);
	/* It is started here, and serves the others as well. */
	add_events(&fd);
	for (int i = 0; i < 3; i++)
		REQUIRE(!pthread_create(&adders[i], NULL, add_events, &fd));
	for (int i = 0; i < 3; i++)
		pthread_join(adders[i], NULL);
	CHECK_EQ(threads(), 1);
	signal_fd(fd);
	wait_until_all_told();
	CHECK_EQ(load(&ntold), MANY);
	for (int i = 0; i < MANY; i++)
		others += !pthread_equal(told_by[i], told_by[0]) ||
			  pthread_equal(told_by[i], pthread_self());
	CHECK_EQ(others, 0);
	/* The caller's signals are as they were. */
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	for (int sig = 1; sig <= 64; sig++)
		CHECK_EQ(sigismember(&after, sig), sigismember(&mine, sig));
	event_user_remove();
}

TEST(it_ends_with_the_last_user)
{
	unsigned int nfds = fds();

	THREADS();
	for (int i = 0; i < 50; i++) {
		event_user_add();
		event_user_add();
		fire_one();
		event_user_remove();
		CHECK_EQ(threads(), 1);
		event_user_remove();
		/* A joined thread may be in the list for a moment. */
		wait_until_threads(0);
		CHECK_EQ(fds(), nfds);
	}
}

static void *remove_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	event_user_remove();
	pthread_testcancel();
	return arg;
}

/* It waits for the thread, and a cancelled one does not leave with the lock. */
EVENT_CASE(the_last_user_is_cancelled)
{
	unsigned int nfds = fds();
	pthread_t thread;
	void *end = NULL;

	fire_one();
	REQUIRE(!pthread_create(&thread, NULL, remove_cancelled, NULL));
	pthread_join(thread, &end);
	CHECK(end == PTHREAD_CANCELED);
	wait_until_threads(0);
	CHECK_EQ(fds(), nfds);
	event_user_add();
	fire_one();
}

/* Events outlive the devices. */
TEST(it_does_not_end_before_the_last_event)
{
	unsigned int told = 0;
	int fd AUTO_FD = unsignalled();

	THREADS();
	event_user_add();
	CHECK_OK(event_add(fd, add_one, &told));
	event_user_remove();
	CHECK_EQ(event_pending(), 1);
	signal_fd(fd);
	wait_until_threads(0);
	CHECK_EQ(load(&told), 1);
}

/*
 * The thread that removes the last user does not wait for the thread that
 * becomes the next one: the loser of the race between the two.
 */
static pthread_barrier_t meet;
static unsigned int removed; /* atomic */

#define ROUNDS 2000

static void *remove_user(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		event_user_add();
		fire_one();
		pthread_barrier_wait(&meet);
		event_user_remove();
		add_one(&removed);
		pthread_barrier_wait(&meet);
	}
	return NULL;
}

TEST(a_user_comes_as_the_last_one_goes)
{
	pthread_t thread;

	THREADS();
	pthread_barrier_init(&meet, NULL, 2);
	REQUIRE(!pthread_create(&thread, NULL, remove_user, NULL));
	for (unsigned int i = 1; i <= ROUNDS; i++) {
		pthread_barrier_wait(&meet);
		for (unsigned int j = 0; j < i % 64 * 8; j++)
			load(&removed);
		event_user_add();
		wait_until(&removed, i);
		event_user_remove();
		pthread_barrier_wait(&meet);
	}
	pthread_join(thread, NULL);
	CHECK_EQ(event_pending(), 0);
	pthread_barrier_destroy(&meet);
}

TEST(it_sleeps)
{
	unsigned int told = 0;
	unsigned long wakeups;
	int fd[100];

	THREADS();
	event_user_add();
	fire_one();
	wakeups = event_wakeups();
	CHECK(wakeups > 0);
	for (int i = 0; i < 5000; i++) {
		struct dlbuf_device *dev = NULL;
		int *f = &fd[i / 50], status = -1;

		if (i % 50 == 0) {
			*f = unsignalled();
			CHECK_OK(event_add(*f, add_one, &told));
			sched_yield(); /* let it run if it can */
		}
		event_user_add();
		event_user_remove();
		if (!dlbuf_device_open("cpu", NULL, &dev))
			dlbuf_device_close(dev);
		CHECK_OK(dlbuf_fence_status(*f, &status));
		CHECK_EQ(status, 0);
		CHECK_OK(dlbuf_fence_notify(-1, add_one, &told));
		CHECK_ERR(dlbuf_fence_wait(*f, 1), -ETIME);
		CHECK_ERR(event_add(-1, add_one, &told), -EBADF);
	}
	CHECK_EQ(event_wakeups(), wakeups);
	CHECK_EQ(load(&told), 5000);
	/* And it wakes up for each that is signalled, no more often. */
	for (unsigned int i = 0; i < 100; i++) {
		signal_fd(fd[i]);
		wait_until(&told, 5001 + i);
		close(fd[i]);
	}
	wait_until_all_told();
	CHECK_EQ(event_wakeups(), wakeups + 100);
	event_user_remove();
}

/* ---------------------------------------------------------------- fork */

TEST(the_childs_events_are_its_own)
{
	unsigned int nfds = fds(), told = 0;
	int fd AUTO_FD = unsignalled(), other AUTO_FD = unsignalled();
	pid_t pid;

	THREADS();
	event_user_add();
	CHECK_OK(event_add(fd, add_one, &told));
	CHECK_OK(event_add(other, add_one, &told));
	pid = fork();
	if (!pid) {
		wait_until_threads(0);
		CHECK_EQ(fds(), nfds + 2);
		CHECK_EQ(event_pending(), 0);
		CHECK_EQ(event_wakeups(), 0);
		/* Its devices, too: without one the thread ends with the event. */
		fire_one_in_child();
		wait_until_threads(0);
		event_user_add();
		fire_one_in_child();
		/* It gets no callback for the parent's events, although they have signalled. */
		signal_fd(fd);
		fire_one_in_child();
		CHECK_EQ(load(&told), 0);
		CHECK_EQ(threads(), child_may_have_threads() ? 1 : 0);
		event_user_remove();
		wait_until_threads(0);
		CHECK_EQ(fds(), nfds + 2);
		_exit(0);
	}
	CHECK_EQ(status_of(pid), 0);
	wait_until(&told, 1);
	/* It is pending until its callback has returned. */
	UNTIL(event_pending() <= 1);
	CHECK_EQ(event_pending(), 1);
	signal_fd(other);
	wait_until_all_told();
	CHECK_EQ(load(&told), 2);
	event_user_remove();
}

static unsigned int inside, let_go; /* atomic */

static void stay(void *data)
{
	add_one(&inside);
	wait_until(&let_go, 1);
}

/* Its thread does nothing else, and has ended when no event needs it any more. */
TEST(words_are_stored_while_a_callback_runs)
{
	unsigned int nfds = fds(), told = 0;
	int stays = unsignalled(), fd[2];
	uint32_t words[2] = { 0, 3 };

	THREADS();
	CHECK_OK(event_add(stays, stay, NULL));
	for (int i = 0; i < 2; i++) {
		fd[i] = unsignalled();
		CHECK_OK(event_add_word(fd[i], &words[i], 7 + i, add_one,
					&told));
	}
	CHECK_EQ(threads(), 2);
	CHECK_EQ(event_pending(), 3);
	signal_fd(stays);
	wait_until(&inside, 1);
	for (int i = 2; i--;) {
		signal_fd(fd[i]);
		wait_until(&words[i], 7 + i);
		close(fd[i]);
	}
	CHECK_EQ(load(&told), 0);
	add_one(&let_go);
	wait_until(&told, 2);
	wait_until_threads(0);
	close(stays);
	CHECK_EQ(fds(), nfds);
}

static void *post(void *call)
{
	event_post(call);
	return NULL;
}

TEST(calls_are_repeated_until_they_are_over)
{
	struct repeated calls[4] = { 0 };
	pthread_t posters[4];
	unsigned int nfds = fds();

	THREADS();
	for (unsigned int round = 0; round < 50; round++) {
		for (unsigned int i = 0; i < 4; i++) {
			calls[i] = (struct repeated){
				.call.fn = repeat, .left = round % 4 * i,
			};
			CHECK_OK(event_promise());
		}
		for (int i = 0; i < 4; i++)
			REQUIRE(!pthread_create(&posters[i], NULL, post,
						&calls[i].call));
		for (int i = 0; i < 4; i++) {
			pthread_join(posters[i], NULL);
			wait_until(&calls[i].done, 1);
		}
	}
	wait_until_threads(0);
	CHECK_EQ(fds(), nfds);
}

/* A file that has the number of an event's fd by then stays open in the child. */
EVENT_CASE(a_fork_while_a_callback_runs)
{
	int fd AUTO_FD = unsignalled(), spare, next AUTO_FD = -1;
	pid_t pid;

	/* The event's own fd becomes the lowest number that is free. */
	spare = unsignalled();
	fire_one();
	close(spare);
	CHECK_OK(event_add(fd, stay, NULL));
	signal_fd(fd);
	wait_until(&inside, 1);
	next = unsignalled();
	CHECK_EQ(next, spare);
	pid = fork();
	if (!pid) {
		CHECK(fcntl(next, F_GETFD) == FD_CLOEXEC);
		CHECK_EQ(event_pending(), 0);
		fire_one_in_child();
		_exit(0);
	}
	CHECK_EQ(status_of(pid), 0);
	add_one(&let_go);
	wait_until_all_told();
}

static pid_t forked;

static void fork_here(void *data)
{
	pid_t pid = fork();

	/* The last thread's end runs destructors, which TSan's threads do not survive. */
	if (!pid && KTAP_TSAN)
		_exit(0);
	if (!pid)
		return; /* there is no thread of ours to go back to */
	forked = pid;
	add_one(&inside);
}

EVENT_CASE(a_callback_forks)
{
	int fd AUTO_FD = unsignalled(), other AUTO_FD = unsignalled();
	unsigned int told = 0;

	CHECK_OK(event_add(other, add_one, &told));
	CHECK_OK(event_add(fd, fork_here, NULL));
	signal_fd(fd);
	wait_until(&inside, 1);
	CHECK_EQ(status_of(forked), 0);
	signal_fd(other);
	wait_until_all_told();
	CHECK_EQ(load(&told), 1);
}

/* ---------------------------------------------------------------- the end */

TEST(exit_with_events_pending)
{
	unsigned int told = 0;
	int fd AUTO_FD = unsignalled();

	for (int users = 0; users < 2; users++) {
		pid_t pid = fork();

		if (!pid) {
			if (users)
				event_user_add();
			for (int i = 0; i < 20; i++)
				CHECK_OK(event_add(fd, add_one, &told));
			exit(7);
		}
		CHECK_EQ(status_of(pid), 7);
	}
}

static void leave(void *data)
{
	exit(*(int *)data);
}

TEST(a_callback_exits)
{
	int fd AUTO_FD = unsignalled(), code = 9;
	pid_t pid = fork();

	if (!pid) {
		signal_fd(fd);
		CHECK_OK(event_add(fd, leave, &code));
		for (;;)
			pause();
	}
	CHECK_EQ(status_of(pid), 9);
}

/* A program that was started without them, and opens its own later. */
TEST(standard_fds_stay_free)
{
	int fd AUTO_FD = unsignalled();
	unsigned int told = 0, word = 0;
	bool free = true;
	int std[3];

	if (KTAP_TSAN)
		SKIP("TSan does not follow an fd that fcntl() has duplicated");
	ktap_forget();
	for (int i = 0; i < 3; i++)
		std[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < 3; i++)
		close(i);
	CHECK_OK(event_add_word(fd, &word, 1, add_one, &told));
	for (int i = 0; i < 3; i++)
		free &= fcntl(i, F_GETFD) < 0;
	signal_fd(fd);
	wait_until_all_told();
	wait_until_threads(0);
	for (int i = 0; i < 3; i++)
		free &= fcntl(i, F_GETFD) < 0;
	for (int i = 0; i < 3; i++) {
		dup2(std[i], i);
		close(std[i]);
	}
	CHECK(free);
}

/* The thread that waits with it ends, and does not use the other file. */
TEST(the_epoll_s_number_is_taken)
{
	int fd AUTO_FD = unsignalled();
	unsigned int told = 0;
	char path[64], target[64];
	pid_t pid;

	if (KTAP_TSAN)
		SKIP("TSan calls the application's dup2() a race, which it is");
	pid = fork();
	if (!pid) {
		dlbuf_log_set(NULL, NULL, DLBUF_LOG_NONE);
		event_add(fd, add_one, &told);
		for (int i = 3; i < 64; i++) {
			ssize_t n;

			snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
			n = readlink(path, target, sizeof(target) - 1);
			if (n > 0 && !strncmp(target, "anon_inode:[eventpoll]", n))
				dup2(0, i);
		}
		signal_fd(fd);
		wait_until_threads(0);
		_exit(5);
	}
	CHECK_EQ(status_of(pid), 5);
}

/* -EAGAIN is "would block", after which a caller would repeat the call without end. */
TEST(no_thread_can_be_started)
{
	int fd AUTO_FD = unsignalled();
	unsigned int told = 0;
	pid_t pid = fork();

	if (!pid) {
		const struct rlimit none = { 0, 0 };

		/* The limit does not bind root. */
		if ((!getuid() && setuid(65534)) ||
		    setrlimit(RLIMIT_NPROC, &none))
			_exit(2);
		_exit(event_add(fd, add_one, &told) == -ENOMEM &&
		      strstr(dlbuf_last_error(), "pthread_create()") ? 5 : 6);
	}
	CHECK_EQ(status_of(pid), 5);
}

static int too_late = -1;

/* A destructor that runs after that of the library, whose constructor ran later. */
__attribute__((destructor))
static void add_too_late(void)
{
	unsigned int told = 0;

	/* The list of memfds was given back, and is used all the same. */
	if (too_late >= 0) {
		memory_remember(too_late, too_late);
		memory_forget(too_late);
	}
	if (too_late >= 0)
		_exit(event_add(too_late, add_one, &told) == -EOPNOTSUPP &&
		      strstr(dlbuf_last_error(), "is being unloaded") ? 5 : 6);
}

TEST(events_after_the_end)
{
	int fd AUTO_FD = unsignalled();
	pid_t pid = fork();

	if (!pid) {
		/* So many that the list is allocated. */
		for (int i = 0; i < 100; i++)
			memory_remember(fd, fd);
		too_late = fd;
		exit(0);
	}
	CHECK_EQ(status_of(pid), 5);
}

/* build/libdlbuf.so of build/tests/unit/event. */
TEST(unloading_with_events_pending)
{
	unsigned int nfds, told = 0;
	int (*notify)(int fence, void (*fn)(void *data), void *data);
	char exe[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int fd AUTO_FD = unsignalled();
	void *lib;
	pid_t pid;

#ifndef __GLIBC__
	SKIP("musl unloads no library");
#endif
	KTAP_KEEPS(KTAP_HEAP, "the dynamic loader's own");
	REQUIRE(n > 0);
	exe[n] = '\0';
	snprintf(path, sizeof(path), "%s/../../libdlbuf.so", dirname(exe));
	nfds = fds();
	for (int i = 0; i < 20; i++) {
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		REQUIRE(lib);
		notify = (int (*)(int, void (*)(void *), void *))
			 dlsym(lib, "dlbuf_fence_notify");
		REQUIRE(notify);
		CHECK_EQ(notify(fd, add_one, &told), 0);
		CHECK_EQ(notify(fd, add_one, &told), 0);
		CHECK_EQ(threads(), 1);
		dlclose(lib);
		wait_until_threads(0);
		CHECK_EQ(fds(), nfds);
	}
	CHECK_EQ(load(&told), 0);
	/* Its handlers of fork() have gone with it. */
	pid = fork();
	if (!pid)
		exit(0);
	CHECK_EQ(status_of(pid), 0);
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
/* In a child, because some of the calls are made once in a process. */
static int add_with_fault(unsigned long n)
{
	unsigned int nfds, told = 0, word = 0;
	int fd = unsignalled(), ret;

	nfds = fds();
	fault_at(n);
	ktap_forget();
	ret = event_add_word(fd, &word, 1, add_one, &told);
	fault_at(0);
	if (ret) {
		CHECK(ret < 0 && dlbuf_last_error()[0]);
		CHECK_EQ(event_pending(), 0);
		wait_until_threads(0);
		CHECK_EQ(fds(), nfds);
	}
	signal_fd(fd);
	wait_until_all_told();
	CHECK_EQ(load(&told), ret ? 0 : 1);
	CHECK_EQ(word, load(&told));
	/* And the next one comes through. */
	fire_one();
	wait_until_threads(0);
	CHECK_EQ(fds(), nfds);
	close(fd);
	return ret ? 1 : 0;
}

TEST(each_call_that_can_fail)
{
	unsigned long n = 0;
	int status;

	do {
		pid_t pid = fork();

		n++;
		if (!pid)
			exit(add_with_fault(n));
		status = status_of(pid);
	} while (status == 1 && n < 100);
	CHECK_EQ(status, 0);
	CHECK_EQ(n, 12);
}

#endif

KTAP_MAIN()
