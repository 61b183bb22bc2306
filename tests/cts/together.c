// SPDX-License-Identifier: MIT
/*
 * Several tensors in one call: the brackets that the kernel sees, all or nothing,
 * and the ends in any order. And the fds to poll before an acquire.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "cts.h"

#define W 64u
#define H 32u
#define BYTES (W * H * 3 / 2)

/* The two planes of an NV12 frame in one dma-buf, and a buffer of its own. */
struct frame {
	int fd, other;
	struct dlbuf_device *dev;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];	/* three */
};

static unsigned int fired;	/* atomic */

static void fire(void *data)
{
	__atomic_add_fetch(&fired, 1, __ATOMIC_SEQ_CST);
}

static void open_frame(struct frame *f)
{
	struct dlbuf_frame frame = PICTURE(W, H, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 1, .modifier = DLBUF_MOD_LINEAR,
		.release = fire);
	uint32_t n = 0;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	frame.planes[0] = (struct dlbuf_plane){
		.fd = f->fd = cts_alloc("udmabuf", BYTES), .pitch = W };
	f->other = cts_alloc("udmabuf", BYTES);
	f->dev = cts_open();
	REQUIRE_OK(dlbuf_import_frame(f->dev, &frame, NULL, f->t, &n));
	CHECK_EQ(n, 2);
	f->t[2] = cts_import(f->dev, f->other, BYTES);
}

static void close_frame(struct frame *f)
{
	for (int i = 0; i < 3; i++)
		cts_delete(f->t[i]);
	CHECK_OK(dlbuf_device_drain(f->dev, 0));
	CHECK_EQ(__atomic_load_n(&fired, __ATOMIC_SEQ_CST), 1);
	dlbuf_device_close(f->dev);
	close(f->fd);
	close(f->other);
}

static void all_acquired(const struct frame *f, uint32_t access)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	for (int i = 0; i < 3; i++) {
		CHECK_OK(dlbuf_tensor_get_info(f->t[i], &info));
		CHECK_EQ(info.acquired, access);
	}
}

/* Each plane reads and writes only its own bytes. */
static void accesses(void *arg)
{
	unsigned char want[BYTES], got[BYTES];
	struct frame f;
	int fence = -2;

	(void)arg;
	open_frame(&f);
	cts_pattern(want, BYTES, 1);
	cts_poke(f.fd, 0, want, BYTES);
	for (int round = 0; round < 3; round++) {
		CHECK_OK(dlbuf_acquire_all(f.t, 3, DLBUF_RW, NULL, NULL));
		CHECK_OK(cts_access->read(f.t[1], 0, got, BYTES));
		CHECK(!memcmp(got, want, BYTES));
		cts_pattern(want, BYTES, 2 + round);
		CHECK_OK(cts_access->write(f.t[0], 0, want, BYTES));
		CHECK_OK(cts_access->write(f.t[2], 0, want, BYTES));
		CHECK_OK(dlbuf_release_all(f.t, 3, NULL, &fence));
		CHECK(fence == -1 || fence >= 3);
		CHECK_OK(dlbuf_fence_wait(fence, 0));
		if (fence != -1)
			close(fence);
		cts_peek(f.fd, 0, got, BYTES);
		CHECK(!memcmp(got, want, BYTES));
		cts_peek(f.other, 0, got, BYTES);
		CHECK(!memcmp(got, want, BYTES));
	}
	close_frame(&f);
}

/* A tensor that ends early ends nothing of the others. */
static void parts(void *arg)
{
	uint32_t value = 42, got = 0;
	struct frame f;
	int fence = -2;

	(void)arg;
	open_frame(&f);
	CHECK_OK(dlbuf_acquire_all(f.t, 3, DLBUF_RW, NULL, NULL));
	CHECK_ERR(dlbuf_acquire_all(f.t, 3, DLBUF_RW, NULL, NULL), -EBUSY);
	CHECK_ERR(dlbuf_release(f.t[0], NULL, &fence), -EBUSY);
	CHECK_ERR(dlbuf_release_all(f.t, 1, NULL, &fence), -EBUSY);
	all_acquired(&f, DLBUF_RW);
	CHECK_OK(dlbuf_release(f.t[0], NULL, NULL));
	CHECK_ERR(dlbuf_release_all(f.t, 3, NULL, &fence), -EINVAL);
	CHECK_EQ(fence, -2);
	cts_delete(f.t[0]);
	CHECK_OK(cts_access->write(f.t[1], 0, &value, sizeof(value)));
	CHECK_OK(dlbuf_release_all(&f.t[1], 2, NULL, &fence));
	CHECK_OK(dlbuf_fence_wait(fence, 0));
	if (fence != -1)
		close(fence);
	cts_peek(f.fd, 0, &got, sizeof(got));
	CHECK_EQ(got, value);
	/* Left acquired: the deletions release. */
	f.t[0] = f.t[2];
	f.t[2] = NULL;
	CHECK_OK(dlbuf_acquire_all(f.t, 2, DLBUF_READ, NULL, NULL));
	close_frame(&f);
}

/* If not all can be acquired, none is. */
static void nothing(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_INFO(dlbuf_device_info, info);
	struct cts_fence fence;
	struct frame f;

	(void)arg;
	open_frame(&f);
	CHECK_OK(dlbuf_device_get_info(f.dev, &info));
	if (info.acquire != DLBUF_SYNC_FENCE && !cts_no_sync_file(f.other)) {
		/* The second dma-buf is not ready. */
		cts_fence_create(&fence);
		CHECK_OK(dlbuf_fence_import(f.other, DLBUF_WRITE,
					    fence.sync_file));
		CHECK_ERR(dlbuf_acquire_all(f.t, 3, DLBUF_READ, NULL, &past),
			  -ETIME);
		all_acquired(&f, 0);
		cts_fence_signal(&fence);
		CHECK_OK(dlbuf_acquire_all(f.t, 3, DLBUF_READ, NULL, &past));
		CHECK_OK(dlbuf_release_all(f.t, 3, NULL, NULL));
		cts_fence_destroy(&fence);
	}
	close_frame(&f);
}

/* ---- the bracket */

static void bracket_before(void *arg)
{
	open_frame(arg);
}

static void bracket_traced(void *arg)
{
	struct frame *f = arg;

	dlbuf_acquire_all(f->t, 3, DLBUF_READ, NULL, NULL);
	dlbuf_release_all(f->t, 3, NULL, NULL);
	dlbuf_acquire_all(f->t, 2, DLBUF_RW, NULL, NULL);
	dlbuf_release(f->t[1], NULL, NULL);
	f->t[0]->deleter(f->t[0]);
}

/* On the CPU one per dma-buf. */
static void bracket(void *arg)
{
	static const uint64_t want[] = {
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ,
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ,
		DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW,
		DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW,
	};
	struct frame f;

	(void)arg;
	if (strcmp(cts_access->backend, "cpu"))
		SKIP("the bracket is the CPU's");
	cts_check_brackets(bracket_before, bracket_traced, &f, want);
}

/* ---- work of this process that has no fence */

static void need_unfenced(struct dlbuf_device *dev)
{
	DLBUF_INFO(dlbuf_device_info, info);

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	if (info.acquire == DLBUF_SYNC_FENCE && info.release == DLBUF_SYNC_EVENT)
		return;
	dlbuf_device_close(dev);
	SKIP("the device's work has fences, or it does not wait");
}

/*
 * The device waits for a fence that is on no dma-buf, and its release gives an
 * event: only the library can tell another device that work is pending.
 */
static void unfenced(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_acquire_opts, behind);
	struct dlbuf_device *cpu AUTO_DEV = NULL;
	DLManagedTensorVersioned *t, *u;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct pollfd p = { .events = POLLIN };
	struct dlbuf_frame picture = {
		.size = sizeof(picture), .code = DLBUF_FOURCC('R', '8', ' ', ' '),
		.code_space = DLBUF_CODE_DRM,
	};
	int64_t shape[] = { 16, BYTES / 16 };
	const DLTensor rows = LAYOUT8(2, shape);
	struct cts_fence f;
	int fd;

	(void)arg;
	need_unfenced(dev);
	fd = cts_alloc("udmabuf", BYTES);
	cts_fence_create(&f);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	t = cts_import(dev, fd, BYTES);
	REQUIRE_OK(dlbuf_import(cpu, fd, &rows, NULL, &u));
	CHECK_OK(dlbuf_pending(u, DLBUF_RW, &p.fd));
	CHECK_EQ(p.fd, -1);
	behind.fence = f.sync_file;
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, &behind));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	CHECK_ERR(dlbuf_acquire(u, DLBUF_WRITE, NULL, &past), -ETIME);
	CHECK_OK(dlbuf_pending(u, DLBUF_READ, &p.fd));
	CHECK_EQ(p.fd, -1);
	CHECK_OK(dlbuf_pending(u, DLBUF_WRITE, &p.fd));
	CHECK(p.fd >= 3);
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK_ERR(dlbuf_device_drain(dev, 1), -ETIME);
	CHECK_OK(dlbuf_device_drain(cpu, 1));
	CHECK_OK(dlbuf_acquire(t, DLBUF_WRITE, NULL, &behind));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	CHECK_ERR(dlbuf_frame_from_tensors(&u, 1, 1, &picture), -ETIME);
	cts_fence_signal(&f);
	CHECK_EQ(poll(&p, 1, -1), 1);
	close(p.fd);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_OK(dlbuf_acquire(u, DLBUF_WRITE, NULL, &past));
	CHECK_OK(dlbuf_release(u, NULL, NULL));
	cts_delete(t);
	cts_delete(u);
	cts_fence_destroy(&f);
	close(fd);
}

/* The way in which the import of the work ends, and the reader. */
static const struct way {
	const char *name, *reader;
	uint32_t flags;		/* of the device */
	bool alloc, trim, forget, another, close;
} ways[] = {
	{ "no-cache", "cpu", .flags = DLBUF_DEVICE_NO_CACHE },
	{ "alloc", "cpu", .alloc = true },
	{ "trim", "cpu", .trim = true },
	{ "forget", "cpu", .forget = true },
	{ "evict", "cpu", .another = true },
	{ "close", "cpu", .close = true },
	{ "vulkan", "vulkan", .trim = true },
};

/* Work without a fence is found although its import has gone. */
static void unfenced_gone(void *arg)
{
	const struct way *way = arg;
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = way->flags,
		   .cache_max_idle = way->another);
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_acquire_opts, behind);
	DLBUF_OPTS(dlbuf_import_opts, may_copy, .flags = DLBUF_IMPORT_MAY_COPY);
	int64_t shape[] = { BYTES };
	const DLTensor bytes = LAYOUT8(1, shape);
	struct dlbuf_device *devs[2] = { 0 };
	DLManagedTensorVersioned *t[2];
	struct cts_fence f;
	uint64_t misses;
	int fd, other, later;

	REQUIRE_OK(dlbuf_device_open(cts_device, &opts, &devs[0]));
	need_unfenced(devs[0]);
	REQUIRE_OK(dlbuf_device_open(way->reader, NULL, &devs[1]));
	fd = cts_alloc("udmabuf", BYTES);
	other = cts_alloc("udmabuf", BYTES);
	cts_fence_create(&f);
	if (way->alloc)
		REQUIRE_OK(dlbuf_alloc(devs, 2, &bytes, NULL, t));
	for (int i = 0; i < 2 && !way->alloc; i++)
		REQUIRE_OK(dlbuf_import(devs[i], fd, &bytes, &may_copy, &t[i]));
	behind.fence = f.sync_file;
	CHECK_OK(dlbuf_acquire(t[0], DLBUF_WRITE, NULL, &behind));
	CHECK_OK(dlbuf_release(t[0], NULL, NULL));
	if (way->forget)
		CHECK_OK(dlbuf_device_forget(devs[0], fd));
	cts_delete(t[0]);
	if (way->trim)
		dlbuf_device_trim(devs[0], 0);
	if (way->another)
		cts_delete(cts_import(devs[0], other, BYTES));
	if (way->close)
		dlbuf_device_close(devs[0]);
	else
		CHECK_EQ(cts_stats(devs[0]).live, 0);
	CHECK_ERR(dlbuf_acquire(t[1], DLBUF_READ, NULL, &past), -ETIME);
	CHECK_OK(dlbuf_pending(t[1], DLBUF_READ, &later));
	CHECK_ERR(dlbuf_fence_wait(later, 1), -ETIME);
	if (!way->close) {
		CHECK_ERR(dlbuf_device_drain(devs[0], 1), -ETIME);
		/* A new import of the dma-buf misses the cache. */
		misses = cts_stats(devs[0]).misses;
		REQUIRE_OK(dlbuf_import(devs[0], fd, &bytes, &may_copy, &t[0]));
		CHECK_EQ(cts_stats(devs[0]).misses, misses + 1);
		CHECK_EQ(cts_stats(devs[0]).live, 1);
		cts_delete(t[0]);
	}
	cts_fence_signal(&f);
	CHECK_OK(dlbuf_fence_wait(later, 0));
	if (later != -1)
		close(later);
	CHECK_OK(dlbuf_acquire(t[1], DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_release(t[1], NULL, NULL));
	if (!way->close) {
		CHECK_OK(dlbuf_device_drain(devs[0], 0));
		dlbuf_device_close(devs[0]);
	}
	cts_settle();
	CHECK_OK(dlbuf_pending(t[1], DLBUF_RW, &later));
	CHECK_EQ(later, -1);
	cts_delete(t[1]);
	dlbuf_device_close(devs[1]);
	cts_fence_destroy(&f);
	close(fd);
	close(other);
}

void cts_cases_together(void)
{
	bool opencl = !strcmp(cts_access->backend, "opencl");

	ktap_case("together/accesses", accesses, NULL);
	ktap_case("together/parts", parts, NULL);
	ktap_case("together/nothing", nothing, NULL);
	ktap_case("together/bracket", bracket, NULL);
	ktap_case("pending/unfenced", unfenced, NULL);
	for (const struct way *w = ways; w < ways + sizeof(ways) / sizeof(ways[0]); w++)
		if (!strcmp(w->reader, "cpu") || opencl)
			ktap_case(cts_name("pending/gone/%s", w->name),
				  unfenced_gone, (void *)w);
}
