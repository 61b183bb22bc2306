// SPDX-License-Identifier: MIT
/* dlbuf_dispatch(): the application runs the loop of the events. */
#include "common.h"
#include "event_loop.h"

static unsigned int inside; /* atomic */
static pid_t forked;

static bool is_due(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1;
}

/* Until `ncalls` were over, of a caller that polls. */
static void dispatch(int fd, int ncalls)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (ncalls > 0) {
		int n;

		CHECK_EQ(poll(&p, 1, -1), 1);
		n = dlbuf_dispatch();
		if (!CHECK(n >= 0))
			break;
		ncalls -= n;
	}
	CHECK_EQ(ncalls, 0);
}

/* Also when an item has been posted and the wakeup is not read yet. */
static void end_dispatch(int fd)
{
	while (is_due(fd))
		CHECK_EQ(dlbuf_dispatch(), 0);
	CHECK_OK(dlbuf_dispatch_fd(NULL));
	close(fd);
}

static pthread_t ran_on;

static void note_where(void *data)
{
	ran_on = pthread_self();
	add_one(data);
}

TEST(callbacks_run_where_they_are_dispatched)
{
	int fd AUTO_FD = unsignalled(), word_fd AUTO_FD = unsignalled(), poll_fd, other;
	unsigned int nfds = fds(), told = 0;
	uint32_t word = 0;

	THREADS();
	CHECK_ERR(dlbuf_dispatch(), -EINVAL);
	CHECK_OK(dlbuf_dispatch_fd(NULL));
	CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
	CHECK_OK(dlbuf_dispatch_fd(&other));
	CHECK(poll_fd >= 3 && other > poll_fd);
	close(other);
	CHECK_OK(event_add(fd, note_where, &told));
	CHECK_EQ(threads(), 0);
	CHECK_EQ(dlbuf_dispatch(), 0);
	CHECK(!is_due(poll_fd));
	CHECK_ERR(dlbuf_dispatch_fd(NULL), -EBUSY);
	signal_fd(fd);
	CHECK(is_due(poll_fd));
	CHECK_EQ(load(&told), 0);
	CHECK_EQ(dlbuf_dispatch(), 1);
	CHECK_EQ(load(&told), 1);
	CHECK(pthread_equal(ran_on, pthread_self()));
	CHECK(!is_due(poll_fd));
	/* Words do not wait for the application. */
	CHECK_OK(event_add_word(word_fd, &word, 1, note_where, &told));
	signal_fd(word_fd);
	wait_until(&word, 1);
	CHECK_EQ(load(&told), 1);
	dispatch(poll_fd, 1);
	CHECK_EQ(load(&told), 2);
	end_dispatch(poll_fd);
	wait_until_threads(0);
	CHECK_EQ(fds(), nfds);
	/* And then there is the thread again. */
	CHECK_OK(event_add(fd, note_where, &told));
	wait_until(&told, 3);
	CHECK(!pthread_equal(ran_on, pthread_self()));
	wait_until_threads(0);
	CHECK_ERR(dlbuf_dispatch(), -EINVAL);
}

TEST(dispatch_beside_the_thread)
{
	int fd AUTO_FD = unsignalled(), poll_fd = 77;
	unsigned int told = 0;

	THREADS();
	CHECK_OK(event_add(fd, add_one, &told));
	CHECK_ERR_SAYS(dlbuf_dispatch_fd(&poll_fd), -EBUSY, "before the first device");
	CHECK_ERR(dlbuf_dispatch(), -EINVAL);
	CHECK_EQ(poll_fd, 77);
	signal_fd(fd);
	wait_until_all_told();
	/* It is on its way out, which is waited for. */
	CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
	event_user_add();
	CHECK_ERR(dlbuf_dispatch_fd(NULL), -EBUSY);
	event_user_remove();
	end_dispatch(poll_fd);
}

static bool repeat_by_hand(struct event_call *call)
{
	struct repeated *r = container_of(call, struct repeated, call);

	CHECK(event_is_here());
	CHECK_ERR(dlbuf_dispatch(), -EBUSY);
	CHECK_ERR(dlbuf_dispatch_fd(NULL), -EBUSY);
	return !r->left--;
}

/* A pause makes the fd readable as an event does. */
TEST(repeated_calls_are_dispatched)
{
	struct repeated calls[3] = { 0 };
	int poll_fd;

	CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
	for (int i = 0; i < 3; i++) {
		calls[i] = (struct repeated){ .call.fn = repeat_by_hand,
					      .left = 2 * i };
		CHECK_OK(event_promise());
		event_post(&calls[i].call);
	}
	CHECK_EQ(dlbuf_dispatch(), 1);
	CHECK(!event_is_here());
	dispatch(poll_fd, 2);
	end_dispatch(poll_fd);
}

static void *dispatch_too(void *ret)
{
	*(int *)ret = dlbuf_dispatch();
	return NULL;
}

/* Calls that become due meanwhile stay due. */
static int due_too = -1;

static void other_thread(void *data)
{
	pthread_t thread;

	signal_fd(due_too);
	REQUIRE(!pthread_create(&thread, NULL, dispatch_too, data));
	pthread_join(thread, NULL);
}

TEST(one_thread_dispatches)
{
	int fd AUTO_FD = unsignalled(), poll_fd, ret = 77;
	unsigned int told = 0;

	THREADS();
	due_too = unsignalled();
	CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
	CHECK_OK(event_add(fd, other_thread, &ret));
	CHECK_OK(event_add(due_too, add_one, &told));
	signal_fd(fd);
	CHECK_EQ(dlbuf_dispatch(), 1);
	CHECK_EQ(ret, 0);
	CHECK_EQ(dlbuf_dispatch(), 1);
	CHECK_EQ(told, 1);
	end_dispatch(poll_fd);
	close(due_too);
}

#ifdef CONFIG_BACKEND_CPU
static void drain(void *dev)
{
	CHECK_ERR_SAYS(dlbuf_device_drain(dev, 0), -EBUSY, "in a callback");
	CHECK(event_awaits(dev));
	add_one(&inside);
}

/* A device's end that waits for callbacks runs them. */
TEST(drain_dispatches)
{
	struct dlbuf_device *dev;
	int fd AUTO_FD = unsignalled(), poll_fd;

	CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &dev));
	CHECK_OK(event_add_take(dup(fd), drain, dev, dev, NULL));
	CHECK_ERR(dlbuf_device_drain(dev, 1), -ETIME);
	signal_fd(fd);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_EQ(load(&inside), 1);
	dlbuf_device_close(dev);
	end_dispatch(poll_fd);
}
#endif

static void fork_by_hand(void *data)
{
	forked = fork();
	if (!forked) {
		CHECK_ERR(dlbuf_dispatch(), -EINVAL);
		inside = 1;
	}
}

/* A child has its own thread, and nothing of its parent's. */
TEST(a_child_is_not_dispatched)
{
	int fd AUTO_FD = unsignalled(), other AUTO_FD = unsignalled(), poll_fd;
	unsigned int told = 0;

	THREADS();
	CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
	CHECK_OK(event_add(other, add_one, &told));
	CHECK_OK(event_add(fd, fork_by_hand, NULL));
	signal_fd(fd);
	if (dlbuf_dispatch() == 0 && inside) {
		CHECK_EQ(event_pending(), 0);
		fire_one_in_child();
		_exit(0);
	}
	CHECK_EQ(status_of(forked), 0);
	signal_fd(other);
	CHECK_EQ(dlbuf_dispatch(), 1);
	CHECK_EQ(told, 1);
	end_dispatch(poll_fd);
}

/* ---------------------------------------------------------------- exit() */

static struct {
	struct event_call call;
	unsigned int inside, calls; /* atomic */
	unsigned int nfds;
	int gate;
	bool begun;
	pthread_t thread;
} at_exit;

static bool posted_late(struct event_call *call)
{
	return true;
}

static void block(void *data)
{
	struct pollfd p = { .fd = at_exit.gate, .events = POLLIN };

	add_one(&at_exit.inside);
	poll(&p, 1, -1);
}

static void *dispatch_once(void *data)
{
	dlbuf_dispatch();
	return NULL;
}

/* A destructor that runs after that of the library, whose constructor ran later. */
__attribute__((destructor))
static void after_the_library(void)
{
	if (!at_exit.begun)
		return;
	/* A driver's thread still calls back, which writes the library's eventfd. */
	if (fds() != at_exit.nfds)
		_exit(6);
	event_post(&at_exit.call);
	if (at_exit.inside) {
		signal_fd(at_exit.gate);
		pthread_join(at_exit.thread, NULL);
	}
	_exit(load(&at_exit.calls) == at_exit.inside ? 5 : 7);
}

/* The thread's first callback blocks, and the second is due. */
static void begin_dispatch(void)
{
	int fd[2] = { unsignalled(), unsignalled() };

	at_exit.gate = unsignalled();
	CHECK_OK(event_add(fd[0], block, NULL));
	CHECK_OK(event_add(fd[1], add_one, &at_exit.calls));
	for (int i = 0; i < 2; i++)
		signal_fd(fd[i]);
	REQUIRE(!pthread_create(&at_exit.thread, NULL, dispatch_once, NULL));
	wait_until(&at_exit.inside, 1);
}

/* Threads go on beside exit(): one of a driver, and one inside dlbuf_dispatch(). */
TEST(exit_beside_other_threads)
{
	int poll_fd;

	for (int way = 0; way < 3; way++) {
		pid_t pid = fork();

		if (!pid) {
			if (way)
				CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
			CHECK_OK(event_promise());
			at_exit.call.fn = posted_late;
			if (way > 1)
				begin_dispatch();
			at_exit.nfds = fds();
			at_exit.begun = true;
			exit(0);
		}
		CHECK_EQ(status_of(pid), 5);
	}
}

TEST(dispatch_without_the_librarys_fds)
{
	int poll_fd;
	pid_t pid = fork();

	if (!pid) {
		CHECK_OK(dlbuf_dispatch_fd(&poll_fd));
		for (int i = 3; i < poll_fd; i++)
			close(i);
		CHECK_ERR_SAYS(dlbuf_dispatch(), -EIO, "the application has closed");
		_exit(0);
	}
	CHECK_EQ(status_of(pid), 0);
}

#ifdef CONFIG_FAULT_INJECTION
TEST(each_call_of_dispatch_that_can_fail)
{
	unsigned int nfds = fds();
	int poll_fd, ret = -1;

	for (unsigned long n = 1; ret; n++) {
		fault_at(n);
		ret = dlbuf_dispatch_fd(&poll_fd);
		fault_at(0);
		CHECK(!ret || dlbuf_last_error()[0]);
		CHECK_EQ(fds(), ret ? nfds : nfds + 4);
		CHECK_EQ(n <= 6, !!ret);
	}
	end_dispatch(poll_fd);
	CHECK_EQ(fds(), nfds);
}
#endif

KTAP_MAIN()
