// SPDX-License-Identifier: MIT
/*
 * lib/queue on the trial backend (tests/trial): what CUDA's double does not show.
 * A driver that calls no functions, that takes and gives sync_files, and one of
 * which every call fails once. Memfds stand for dma-bufs, eventfds for sync_files.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_QUEUE
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/eventfd.h>

#include "../trial/trial.c"
#include "bracket.h"
#include "path.h"

#define BYTES 8192

struct fixture {
	struct queue_import qi;
	struct dlbuf_device *dev;
	uint8_t *bytes;		/* of the buffer */
};

static int open_with(const struct queue_ops *ops, struct dlbuf_device **dev)
{
	DLBUF_OPTS(dlbuf_device_opts, opts);
	int ret = queue_open(&trial_backend, ops, "", &opts, dev);

	if (!ret)
		device_init(*dev, &trial_backend, &opts);
	return ret;
}

/* quiet: of a driver that calls no functions. */
static int open_trial(bool quiet, struct dlbuf_device **dev)
{
	static const struct queue_ops quiet_ops = { OPS };

	return open_with(quiet ? &quiet_ops : &trial_ops, dev);
}

static int import(struct fixture *f, struct dlbuf_device *dev, uint32_t paths)
{
	struct import *imp = &f->qi.base;
	struct stat st;

	*f = (struct fixture){ .dev = dev };
	imp->dev = dev;
	imp->fd = memfd_create("a dma-buf", MFD_CLOEXEC);
	REQUIRE(imp->fd >= 0 && !ftruncate(imp->fd, BYTES) &&
		!fstat(imp->fd, &st));
	f->bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, imp->fd,
			0);
	REQUIRE(f->bytes != MAP_FAILED);
	memset(f->bytes, 7, BYTES);
	imp->id = (struct buffer_id){ .dev = st.st_dev, .ino = st.st_ino,
				      .access = DLBUF_RW };
	imp->paths = paths;
	imp->bytes = BYTES;
	return path_import(imp);
}

static void import_end(struct fixture *f, int ret)
{
	if (!ret)
		trial_backend.unimport(&f->qi.base);
	munmap(f->bytes, BYTES);
	close(f->qi.base.fd);
}

static void settle(void)
{
	while (event_pending())
		sched_yield();
	event_user_add();
	event_user_remove();
}

static bool signalled(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void until_signalled(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	CHECK_EQ(poll(&p, 1, -1), 1);
}

static sem_t gate;

static void pass_gate(void *data)
{
	sem_wait(&gate);
}

static void begin(void)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	sem_init(&gate, 0, 0);
}

/* Who asks is told all the same: by a thread of the library's, which polls. */
TEST(a_driver_that_calls_nobody)
{
	struct dlbuf_device *dev;
	struct fixture f;
	int ends[3];

	begin();
	REQUIRE_OK(open_trial(true, &dev));
	CHECK_ERR(import(&f, dev, PATH_BIT(DLBUF_PATH_COPY)), -EOPNOTSUPP);
	CHECK_SAYS("its streams cannot call host functions");
	import_end(&f, -1);
	CHECK_ERR(import(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT)), -EOPNOTSUPP);
	CHECK_SAYS("the driver does not import dma-bufs");
	import_end(&f, -1);
	REQUIRE_OK(import(&f, dev, PATH_BIT(DLBUF_PATH_HOST)));
	CHECK_OK(call_host(NULL, ((struct trial_device *)dev)->own, pass_gate, NULL));
	for (int i = 0; i < 3; i++) {
		CHECK_OK(trial_backend.acquire(&f.qi.base, DLBUF_RW, NULL, -1));
		CHECK_OK(trial_backend.release(&f.qi.base, DLBUF_RW, NULL,
					       &ends[i], NULL));
		CHECK(!signalled(ends[i]));
	}
	CHECK_ERR(trial_backend.wait(&f.qi.base, DLBUF_READ, 1), -ETIME);
	sem_post(&gate);
	CHECK_OK(trial_backend.wait(&f.qi.base, DLBUF_READ, 0));
	for (int i = 0; i < 3; i++) {
		until_signalled(ends[i]);
		close(ends[i]);
	}
	/* Nobody asks: nothing polls, and the end waits for it. */
	CHECK_OK(call_host(NULL, ((struct trial_device *)dev)->own, pass_gate, NULL));
	CHECK_OK(trial_backend.release(&f.qi.base, DLBUF_RW, NULL, NULL, NULL));
	import_end(&f, 0);
	dlbuf_device_close(dev);
	CHECK(event_pending());
	sem_post(&gate);
	settle();
}

/*
 * An fd for what wait() would wait for, whoever asks for it; and the end of all of
 * the device, its memory included.
 */
static void post(void *semaphore)
{
	sem_post(semaphore);
}

/* The library's thread has looked at what was posted to it before. */
static void let_the_thread_look(void)
{
	int fd AUTO_FD = eventfd(1, EFD_CLOEXEC);
	sem_t seen;

	sem_init(&seen, 0, 0);
	REQUIRE_OK(event_add(fd, post, &seen));
	sem_wait(&seen);
	sem_destroy(&seen);
}

TEST(what_is_under_way)
{
	struct dlbuf_device *dev;
	struct fixture f;
	int reader, writer, fd = 77;
	struct import *imp = &f.qi.base;

	begin();
	REQUIRE_OK(open_trial(false, &dev));
	REQUIRE_OK(import(&f, dev, PATH_BIT(DLBUF_PATH_HOST)));
	CHECK_OK(trial_backend.pending(imp, DLBUF_RW, &fd));
	CHECK_EQ(fd, -1);
	CHECK_OK(call_host(NULL, ((struct trial_device *)dev)->own, pass_gate, NULL));
	for (int i = 0; i < 2; i++)
		CHECK_OK(trial_backend.release(imp, DLBUF_READ, NULL, NULL,
					       NULL));
	CHECK_OK(trial_backend.pending(imp, DLBUF_READ, &reader));
	CHECK_EQ(reader, -1);
	CHECK_OK(trial_backend.pending(imp, DLBUF_WRITE, &writer));
	let_the_thread_look();
	CHECK(writer >= 3 && !signalled(writer));
	CHECK_ERR(dlbuf_device_drain(dev, 1), -ETIME);
	CHECK_SAYS("not complete at the deadline");
#ifdef CONFIG_FAULT_INJECTION
	reader = -1;
	for (unsigned long n = 1; reader; n++) {
		fault_at(n);
		reader = trial_backend.pending(imp, DLBUF_WRITE, &fd);
		fault_at(0);
		CHECK_EQ(!reader, fd >= 3);
		CHECK_EQ(!reader, n > 5);
	}
	close(fd);
#endif
	/* Work that comes later is not in it. */
	CHECK_OK(call_host(NULL, ((struct trial_device *)dev)->own, pass_gate, NULL));
	CHECK_OK(trial_backend.release(imp, DLBUF_RW, NULL, NULL, NULL));
	CHECK_OK(trial_backend.pending(imp, DLBUF_READ, &reader));
	sem_post(&gate);
	until_signalled(writer);
	CHECK(!signalled(reader));
	CHECK_ERR(dlbuf_device_drain(dev, 1), -ETIME);
	/* Its memory has to wait for it, and is drained, too. */
	import_end(&f, 0);
	CHECK_ERR(dlbuf_device_drain(dev, 1), -ETIME);
	sem_post(&gate);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_EQ(queue_device_of(dev)->leftovers, 0);
	until_signalled(reader);
	close(reader);
	close(writer);
	CHECK_OK(dlbuf_device_drain(dev, 1));
	dlbuf_device_close(dev);
	settle();
}

/* ---------------------------------------------------------------- fences */

static int waited, given;

static int wait_fence(struct queue_device *dev, void *s, int fence)
{
	waited = fence;
	return 0;
}

static int export_fence(struct queue_device *dev, void *s, int *fence)
{
	*fence = given = eventfd(0, EFD_CLOEXEC);
	return given < 0 ? fail_errno("eventfd()") : 0;
}

static int start_with_fences(struct queue_device *dev, uint32_t flags)
{
	dev->takes_fences = dev->gives_fences = true;
	return start(dev, flags);
}

/* Fences go to the driver and come from it; a lease has the device's event. */
TEST(a_driver_with_fences)
{
	struct queue_ops with = { OPS, .call_host = call_host,
		.wait_fence = wait_fence, .export_fence = export_fence };
	struct dlbuf_device *dev;
	struct fixture f;
	int fence, end = -1;

	begin();
	with.start = start_with_fences;
	REQUIRE_OK(open_with(&with, &dev));
	CHECK_EQ(dev->acquire_sync, DLBUF_SYNC_FENCE);
	CHECK_EQ(dev->release_sync, DLBUF_SYNC_FENCE);
	REQUIRE_OK(import(&f, dev, PATH_BIT(DLBUF_PATH_HOST)));
	CHECK_OK(trial_backend.acquire(&f.qi.base, DLBUF_RW, NULL, f.qi.base.fd));
	CHECK_EQ(waited, f.qi.base.fd);
	CHECK_OK(trial_backend.release(&f.qi.base, DLBUF_RW, NULL, &fence, &end));
	CHECK_EQ(fence, given);
	CHECK(end >= 3);
	until_signalled(end);
	close(fence);
	close(end);
	import_end(&f, 0);
	dlbuf_device_close(dev);
	settle();
}

/* ---------------------------------------------------------------- faults */

static int walk(bool quiet, enum dlbuf_path path)
{
	struct dlbuf_device *dev;
	struct fixture f;
	int fence = -1, ret = open_trial(quiet, &dev);

	if (ret)
		return ret;
	ret = import(&f, dev, PATH_BIT(path));
	if (!ret) {
		ret = trial_backend.acquire(&f.qi.base, DLBUF_RW, NULL, -1);
		if (!ret)
			ret = trial_backend.release(&f.qi.base, DLBUF_RW, NULL,
						    &fence, NULL);
		if (fence != -1) {
			until_signalled(fence);
			close(fence);
		}
		import_end(&f, 0);
	} else {
		import_end(&f, ret);
	}
	dlbuf_device_close(dev);
	settle();
	return ret;
}

TEST(each_path)
{
	begin();
	CHECK_OK(walk(false, DLBUF_PATH_HOST));
	CHECK_OK(walk(false, DLBUF_PATH_COPY));
	CHECK_OK(walk(true, DLBUF_PATH_HOST));
}

#ifdef CONFIG_FAULT_INJECTION
static void check_walks(bool quiet, enum dlbuf_path path)
{
	unsigned long calls;

	fault_at(0);
	CHECK_OK(walk(quiet, path));
	calls = fault_count();
	CHECK(calls > 5);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		ktap_forget();
		fault_at(n);
		ret = walk(quiet, path);
		fault_at(0);
		CHECK(!ret || dlbuf_last_error()[0]);
	}
}

TEST(every_call_fails_once)
{
	begin();
	check_walks(false, DLBUF_PATH_HOST);
	check_walks(false, DLBUF_PATH_COPY);
	check_walks(true, DLBUF_PATH_HOST);
}
#endif
#else
KTAP_SKIPPED("no device with queues is built")
#endif

KTAP_MAIN()
