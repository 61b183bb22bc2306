// SPDX-License-Identifier: MIT
/*
 * fork() with real dma-bufs: a child that deletes and closes everything
 * inherited does not affect its parent, and works on the same dma-buf with
 * devices of its own. Faults, too: no inherited object makes a call that could
 * fail.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cts.h"
#ifdef CONFIG_FAULT_INJECTION
#include "system/sys.h"
#endif

#define BYTES 8192

static unsigned int fired; /* atomic */

static void fire(void *data)
{
	__atomic_add_fetch(&fired, 1, __ATOMIC_SEQ_CST);
}

struct parent {
	struct dlbuf_device *dev;
	int fd;
	DLManagedTensorVersioned *t, *share, *alloc;
	DLManagedTensor *legacy;
	struct dlbuf_pool *pool;
};

static void parent_begin(struct parent *p)
{
	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = 64, .height = 32,
		   .code = DLBUF_FOURCC('R', '8', ' ', ' '),
		   .code_space = DLBUF_CODE_DRM, .buffers = 2);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	int64_t shape = BYTES;
	const DLTensor layout = LAYOUT8(1, &shape);
	struct dlbuf_frame f = PICTURE(BYTES, 1, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .modifier = DLBUF_MOD_LINEAR, .fence = -1,
		.release = fire);
	uint32_t n;

	p->fd = f.planes[0].fd = cts_alloc("udmabuf", BYTES);
	f.planes[0].pitch = BYTES;
	p->dev = cts_open();
	REQUIRE_OK(dlbuf_import_frame(p->dev, &f, NULL, t, &n));
	p->t = t[0];
	REQUIRE_OK(dlbuf_tensor_share(p->t, NULL, &p->share));
	REQUIRE_OK(dlbuf_tensor_share_legacy(p->t, &p->legacy));
	REQUIRE_OK(dlbuf_alloc(&p->dev, 1, &layout, NULL, &p->alloc));
	REQUIRE_OK(dlbuf_pool_create(&p->dev, 1, &opts, &p->pool));
	/* One that is idle, and one that is acquired. */
	cts_delete(cts_import(p->dev, p->fd, BYTES));
	REQUIRE_OK(dlbuf_acquire(p->share, DLBUF_RW, NULL, NULL));
}

/* Everything goes, in the parent as in the child. */
static void give_up(struct parent *p)
{
	cts_delete(p->t);
	cts_delete(p->share);
	cts_delete(p->alloc);
	p->legacy->deleter(p->legacy);
	dlbuf_pool_destroy(p->pool);
	dlbuf_device_trim(p->dev, 0);
	dlbuf_device_close(p->dev);
}

/* Opens a device in the child and reads and writes there. */
static void access_by(const char *name, int fd)
{
	unsigned char want[64], got[64];
	struct dlbuf_device *dev AUTO_DEV = NULL;
	DLManagedTensorVersioned *t;
	int ret = dlbuf_device_open(name, NULL, &dev);

	if (ret && cts_access->no_children)
		return;
	REQUIRE_OK(ret);
	t = cts_import(dev, fd, BYTES);
	cts_pattern(want, sizeof(want), 1);
	if (t->dl_tensor.device.device_type == kDLCPU) {
		CHECK_OK(dlbuf_acquire(t, DLBUF_RW, NULL, NULL));
		CHECK(!memcmp(t->dl_tensor.data, want, sizeof(want)));
		memset((char *)t->dl_tensor.data + 4096, 0x5a, 64);
		CHECK_OK(dlbuf_release(t, NULL, NULL));
	} else {
		cts_read(t, 0, got, sizeof(got));
		CHECK(!memcmp(got, want, sizeof(want)));
		memset(got, 0x5a, sizeof(got));
		cts_write(t, 4096, got, sizeof(got));
	}
	cts_delete(t);
}

#ifdef CONFIG_FAULT_INJECTION
/* A device of the child's, with each call of it that can fail failing once. */
static void fail_each(const char *name, int fd)
{
	int64_t shape = BYTES;
	const DLTensor layout = LAYOUT8(1, &shape);
	unsigned long n = 0, failed = 0;
	int ret;

	do {
		struct dlbuf_device *dev = NULL;
		DLManagedTensorVersioned *t = NULL;

		fault_at(++n);
		ret = dlbuf_device_open(name, NULL, &dev);
		if (!ret)
			ret = dlbuf_import(dev, fd, &layout, NULL, &t);
		cts_delete(t);
		dlbuf_device_close(dev);
		failed += !!ret;
	} while (fault_count() >= n);
	fault_at(0);
	CHECK_OK(ret);
	CHECK(failed > 3);
}
#endif

static void child(struct parent *p, const char *own)
{
	DLManagedTensorVersioned *t = NULL;
	DLBUF_INFO(dlbuf_tensor_info, info);
	int fd, ret;

#ifdef CONFIG_FAULT_INJECTION
	fault_at(0);
#endif
	CHECK_ERR(dlbuf_acquire(p->t, DLBUF_READ, NULL, NULL), -ESTALE);
	CHECK_ERR(dlbuf_release(p->share, NULL, NULL), -ESTALE);
	CHECK_ERR(dlbuf_acquire_all(&p->t, 1, DLBUF_READ, NULL, NULL), -ESTALE);
	CHECK_ERR(dlbuf_release_all(&p->share, 1, NULL, NULL), -ESTALE);
	CHECK_ERR(dlbuf_pending(p->t, DLBUF_READ, &fd), -ESTALE);
	CHECK_ERR(dlbuf_device_drain(p->dev, 0), -ESTALE);
	ret = cts_prepare_small(p->dev, p->fd, p->fd);
	CHECK(ret == 1 || ret == -ESTALE);
	CHECK_ERR(dlbuf_tensor_get_info(p->t, &info), -ESTALE);
	CHECK_ERR(dlbuf_tensor_share(p->t, NULL, &t), -ESTALE);
	CHECK_SAYS("belongs to the process that forked this one");
	give_up(p);
#ifdef CONFIG_FAULT_INJECTION
	CHECK_EQ(fault_count(), 0);
	if (!strcmp(own, "cpu"))
		fail_each(own, p->fd);
#endif
	CHECK_EQ(__atomic_load_n(&fired, __ATOMIC_SEQ_CST), 0);
	access_by(own, p->fd);
}

/* own: the device that the child opens; NULL: the one under test. */
static void check_child(void *own)
{
	unsigned char want[64], got[64];
	struct dlbuf_device_stats before = { .size = sizeof(before) }, after;
	struct parent p;
	int status = -1;
	pid_t pid;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	parent_begin(&p);
	cts_pattern(want, sizeof(want), 1);
	cts_poke(p.fd, 0, want, sizeof(want));
	CHECK_OK(dlbuf_device_get_stats(p.dev, &before));
	after = before;
	fflush(stdout);
	pid = fork();
	REQUIRE(pid >= 0);
	if (!pid) {
		child(&p, own ? own : cts_second_device());
		fflush(stdout);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_OK(dlbuf_device_get_stats(p.dev, &after));
	CHECK(!memcmp(&before, &after, sizeof(after)));
	CHECK_EQ(__atomic_load_n(&fired, __ATOMIC_SEQ_CST), 0);
	/* The parent's access goes on, on the imports that it had. */
	CHECK_OK(dlbuf_release(p.share, NULL, NULL));
	cts_read(p.t, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(want)));
	cts_write(p.alloc, 0, want, sizeof(want));
	cts_read(p.alloc, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(want)));
	if (own || !cts_access->no_children) {
		memset(want, 0x5a, sizeof(want));
		cts_peek(p.fd, 4096, got, sizeof(got));
		CHECK(!memcmp(want, got, sizeof(want)));
	}
	give_up(&p);
	UNTIL(__atomic_load_n(&fired, __ATOMIC_SEQ_CST));
	CHECK_EQ(fired, 1);
	/* The device ends behind the lease, and the driver may not outlive main(). */
	cts_settle();
	close(p.fd);
}

void cts_cases_fork(void)
{
	static char cpu[] = "cpu";

	ktap_case("fork/child", check_child, NULL);
	ktap_case("fork/child-cpu", check_child, cpu);
#ifdef CONFIG_FAULT_INJECTION
	ktap_case("fault/fork", check_child, cpu);
#endif
}
