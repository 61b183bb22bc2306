// SPDX-License-Identifier: MIT
/*
 * dlbuf_lease: one callback for several imports. Memfds replace dma-bufs, so
 * nothing is acquired here; accesses and fences are in tests/cts/lease.c.
 */
#include <pthread.h>

#include "common.h"
#include "ktap.h"

#include "emulated.h"
#include "system/internal.h"

static unsigned int released;	/* atomic */

static void count(void *n)
{
	__atomic_add_fetch((unsigned int *)n, 1, __ATOMIC_SEQ_CST);
}

static unsigned int releases(void)
{
	return __atomic_load_n(&released, __ATOMIC_SEQ_CST);
}

TEST(arguments)
{
	struct dlbuf_lease *lease = (void *)&released;

	CHECK_ERR_SAYS(dlbuf_lease_create(NULL, NULL, &lease), -EINVAL, "release is NULL");
	CHECK(lease == (void *)&released);
	CHECK_ERR_SAYS(dlbuf_lease_create(count, &released, NULL), -EINVAL, "lease is NULL");
	dlbuf_lease_drop(NULL);
	REQUIRE_OK(dlbuf_lease_create(count, &released, &lease));
	CHECK_EQ(releases(), 0);
	dlbuf_lease_drop(lease);
	CHECK_EQ(releases(), 1);
}

#ifdef CONFIG_BACKEND_CPU
#include "cuda_memfds.h"

#define BYTES 8192

/* A picture with two planes in a memfd. */
static struct dlbuf_frame picture(struct dlbuf_lease *lease)
{
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC);

	need_machine();
	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	return (struct dlbuf_frame)PICTURE(64, 64,
		DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_V4L2, 1,
		.planes = { { .fd = fd, .pitch = 64 } }, .lease = lease);
}

struct imported {
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;
};

static void delete(struct imported *i)
{
	while (i->n)
		i->n--, i->t[i->n]->deleter(i->t[i->n]);
}

/* A failed import holds nothing, and older callers have no such member. */
TEST(refusals)
{
	struct dlbuf_device *dev AUTO_DEV = NULL;
	struct dlbuf_lease *lease;
	struct imported in = { 0 };
	struct dlbuf_frame f;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &dev));
	REQUIRE_OK(dlbuf_lease_create(count, &released, &lease));
	f = picture(lease);
	f.release = count;
	f.release_data = &released;
	CHECK_ERR(dlbuf_import_frame(dev, &f, NULL, in.t, &in.n), -EINVAL);
	CHECK_SAYS("both a lease and a release");
	CHECK_ERR_SAYS(dlbuf_send_frame(-1, &f, NULL), -EINVAL, "both a lease and a release");
	f.release = NULL;
	CHECK_ERR(dlbuf_send_frame(-1, &f, NULL), -EBADF);
	f.height = 4096;
	CHECK_ERR(dlbuf_import_frame(dev, &f, NULL, in.t, &in.n), -ERANGE);
	f.height = 64;
	f.size = offsetof(struct dlbuf_frame, lease);
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, in.t, &in.n));
	CHECK_EQ(releases(), 0);
	dlbuf_lease_drop(lease);
	CHECK_EQ(releases(), 1);
	delete(&in);
	CHECK_EQ(releases(), 1);
	close(f.planes[0].fd);
}

#define NTHREADS 4
#define ROUNDS 200

struct worker {
	struct dlbuf_device *dev;
	struct dlbuf_frame *f;
	pthread_barrier_t *barrier;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct imported in;

	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(w->barrier);
		CHECK_OK(dlbuf_import_frame(w->dev, w->f, NULL, in.t, &in.n));
		pthread_barrier_wait(w->barrier);
		delete(&in);
		pthread_barrier_wait(w->barrier);
	}
	return NULL;
}

/* Imports begin at the same time, and end at the same time as the creator. */
TEST(threads)
{
	struct dlbuf_device *dev AUTO_DEV = NULL;
	pthread_barrier_t barrier;
	pthread_t threads[NTHREADS];
	struct dlbuf_frame f;
	struct worker w = { .f = &f, .barrier = &barrier };

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &dev));
	w.dev = dev;
	f = picture(NULL);
	pthread_barrier_init(&barrier, NULL, NTHREADS + 1);
	for (int i = 0; i < NTHREADS; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, work, &w));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		CHECK_OK(dlbuf_lease_create(count, &released, &f.lease));
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		CHECK_EQ(releases(), i);
		dlbuf_lease_drop(f.lease);
		pthread_barrier_wait(&barrier);
		CHECK_EQ(releases(), i + 1);
	}
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	close(f.planes[0].fd);
}
#endif

KTAP_MAIN()
