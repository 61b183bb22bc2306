// SPDX-License-Identifier: MIT
/*
 * A producer that writes late: a reader that waits reads the new bytes, a
 * reader that does not wait reads the old ones. Both, so that it is the wait
 * that did it.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "../cts/cts.h"
#include "system/event.h"
#include "gpu.h"

#define PAGES 61
#define BYTES (PAGES * 4096ull)

enum { EARLY = 1, LATE = 2 };

const char *cts_device = "cuda:0";
const struct access *cts_access = &access_cuda;

static uint8_t want[BYTES], got[BYTES];

static bool is(uint32_t pattern)
{
	cts_pattern(want, BYTES, pattern);
	return !memcmp(got, want, BYTES);
}

/* The old bytes, for a reader that does not wait. */
static bool there_is(int fd, uint32_t pattern)
{
	uint8_t *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	REQUIRE(map != MAP_FAILED);
	memcpy(got, map, BYTES);
	munmap(map, BYTES);
	return is(pattern);
}

static bool is_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* ---------------------------------------------------------------- a producer */

static cuda_pointer address(DLManagedTensorVersioned *t)
{
	return (uintptr_t)t->dl_tensor.data + t->dl_tensor.byte_offset;
}

struct producer {
	struct dlbuf_udmabuf buf;	/* -1, -1: memory of the device's own */
	struct dlbuf_device *dev;
	DLManagedTensorVersioned *t;
	struct gpu_hold hold;
	uint8_t *late;		/* pinned */
	cuda_stream idler;	/* waits for nothing */
	uint8_t *scratch;	/* pinned */
	int fence;		/* of its release */
	unsigned int released;	/* atomic: its lease */
};

static void count(void *data)
{
	__atomic_add_fetch((unsigned int *)data, 1, __ATOMIC_SEQ_CST);
}

static void until(const unsigned int *n, unsigned int want_n)
{
	time_t end = time(NULL) + 60;

	while (__atomic_load_n(n, __ATOMIC_SEQ_CST) != want_n &&
	       time(NULL) < end)
		sched_yield();
	CHECK_EQ(__atomic_load_n(n, __ATOMIC_SEQ_CST), want_n);
}

/*
 * Waits for one callback on the event thread: events that were ready before have run their
 * callbacks.
 */
static void settle(void)
{
	unsigned int told = 0;
	int p[2];

	REQUIRE(!pipe(p));
	CHECK_OK(dlbuf_fence_notify(p[0], count, &told));
	CHECK_EQ(write(p[1], "", 1), 1);
	until(&told, 1);
	close(p[0]);
	close(p[1]);
}

/* A frame with a lease, over the udmabuf, by one path. */
static void import_leased(struct producer *p, enum dlbuf_path path)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .paths = DLBUF_PATH_BIT(path),
		   .flags = DLBUF_IMPORT_MAY_COPY);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame = {
		.size = sizeof(frame),
		.width = 4096,
		.height = PAGES,
		.code = DLBUF_FOURCC('G', 'R', 'E', 'Y'),
		.code_space = DLBUF_CODE_V4L2,
		.modifier = DLBUF_MOD_LINEAR,
		.nplanes = 1,
		.planes = { { .fd = p->buf.fd, .pitch = 4096 } },
		.release = count,
		.release_data = &p->released,
	};
	uint32_t n = 0;

	if (dlbuf_import_frame(p->dev, &frame, &opts, t, &n))
		SKIP("%s", dlbuf_last_error());
	CHECK_EQ(n, 1);
	p->t = t[0];
}

/*
 * Without fences from Vulkan the bridge has written back when a release returns:
 * a producer that is held would hold the test.
 */
static void need_late_release(struct dlbuf_device *dev, enum dlbuf_path path)
{
	DLBUF_INFO(dlbuf_device_info, info);

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	if (path == DLBUF_PATH_BRIDGE && info.release != DLBUF_SYNC_FENCE)
		SKIP("releases of the bridge wait: the driver gives no fences");
}

static void producer_create(struct producer *p, enum dlbuf_path path)
{
	gpu_begin();
	*p = (struct producer){ .buf = { .fd = -1, .memfd = -1 }, .fence = -1 };
	p->dev = gpu_open(0);
	p->buf = gpu_udmabuf(BYTES);
	cts_pattern(want, BYTES, EARLY);
	cts_poke(p->buf.fd, 0, want, BYTES);
	import_leased(p, path);
	need_late_release(p->dev, path);
	gpu_hold_create(&p->hold);
	GPU_OK(MemHostAlloc, (void **)&p->late, BYTES, 0);
	cts_pattern(p->late, BYTES, LATE);
	GPU_OK(StreamCreate, &p->idler, CUABI_STREAM_NON_BLOCKING);
	GPU_OK(MemHostAlloc, (void **)&p->scratch, BYTES, 0);
}

/*
 * A stream that was given a copy before this and waits for nothing has done it
 * when this returns: another one has done as much many times since.
 */
static bool still_waits(struct producer *p, cuda_stream stream)
{
	for (int i = 0; i < 8; i++) {
		GPU_OK(MemcpyDtoHAsync, p->scratch, address(p->t), BYTES,
		       p->idler);
		GPU_OK(StreamSynchronize, p->idler);
	}
	return !gpu_idle(stream);
}

/* The work is with the GPU, which has not begun, and the access is over. */
static void produce(struct producer *p)
{
	CHECK_OK(dlbuf_acquire(p->t, DLBUF_RW, p->hold.stream, NULL));
	gpu_hold(&p->hold);
	GPU_OK(MemcpyHtoDAsync, address(p->t), p->late, BYTES, p->hold.stream);
	CHECK_OK(dlbuf_release(p->t, p->hold.stream, &p->fence));
	CHECK(!gpu_idle(p->hold.stream));
}

static void producer_destroy(struct producer *p)
{
	if (p->scratch) {
		GPU_OK(StreamDestroy, p->idler);
		GPU_OK(MemFreeHost, p->scratch);
	}
	if (p->fence >= 0)
		close(p->fence);
	gpu_hold_destroy(&p->hold);
	GPU_OK(MemFreeHost, p->late);
	dlbuf_device_close(p->dev);
	dlbuf_udmabuf_close(&p->buf);
	gpu_end();
}

/* ---------------------------------------------------------------- the CPU */

struct reader {
	DLManagedTensorVersioned *t;
	unsigned int begun;	/* atomic */
	int ret;
	uint8_t saw[BYTES];
};

static void *read_all(void *data)
{
	struct reader *r = data;

	count(&r->begun);
	r->ret = dlbuf_acquire(r->t, DLBUF_READ, NULL, NULL);
	if (r->ret)
		return NULL;
	memcpy(r->saw, r->t->dl_tensor.data, BYTES);
	r->ret = dlbuf_release(r->t, NULL, NULL);
	return NULL;
}

/* A reader on the CPU, at a moment when the producer has not written. */
static void read_by_cpu(struct producer *p)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	static struct reader r;
	struct dlbuf_device *cpu;
	pthread_t thread;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	r = (struct reader){ .t = gpu_import(cpu, p->buf.fd, BYTES, 0) };
	REQUIRE(r.t);
	CHECK_ERR(dlbuf_acquire(r.t, DLBUF_READ, NULL, &past), -ETIME);
	REQUIRE(!pthread_create(&thread, NULL, read_all, &r));
	until(&r.begun, 1);
	/* Without the wait it would see the early bytes. */
	CHECK(there_is(p->buf.fd, EARLY));
	CHECK(!gpu_idle(p->hold.stream));
	gpu_let_go(&p->hold);
	pthread_join(thread, NULL);
	CHECK_EQ(r.ret, 0);
	memcpy(got, r.saw, BYTES);
	CHECK(is(LATE));
	cts_delete(r.t);
	dlbuf_device_close(cpu);
}

static enum dlbuf_path path_of(void *arg)
{
	return *(const enum dlbuf_path *)arg;
}

static void cpu_waits(void *arg)
{
	struct producer p;

	producer_create(&p, path_of(arg));
	produce(&p);
	CHECK(p.fence >= 0 && !is_ready(p.fence));
	read_by_cpu(&p);
	CHECK(is_ready(p.fence));
	CHECK(there_is(p.buf.fd, LATE));
	cts_delete(p.t);
	until(&p.released, 1);
	producer_destroy(&p);
}

/* ---------------------------------------------------------------- the lease */

static void lease_waits(void *arg)
{
	struct producer p;

	producer_create(&p, path_of(arg));
	produce(&p);
	/* A caller that requires order must also get the buffer back. */
	cts_delete(p.t);
	settle();
	CHECK_EQ(__atomic_load_n(&p.released, __ATOMIC_SEQ_CST), 0);
	CHECK(!is_ready(p.fence));
	CHECK(there_is(p.buf.fd, EARLY));
	gpu_let_go(&p.hold);
	until(&p.released, 1);
	/* The lease follows the device's event, and the fence is another's. */
	CHECK_OK(dlbuf_fence_wait(p.fence, 0));
	CHECK(there_is(p.buf.fd, LATE));
	settle();
	CHECK_EQ(p.released, 1);
	producer_destroy(&p);
}

/* Without order no call waits, and the lease fires with the tensor. */
static void lease_without_order(void *arg)
{
	struct producer p;

	producer_create(&p, path_of(arg));
	CHECK_OK(dlbuf_acquire(p.t, DLBUF_RW, DLBUF_STREAM_NO_ORDER, NULL));
	gpu_hold(&p.hold);
	GPU_OK(MemcpyHtoDAsync, address(p.t), p.late, BYTES, p.hold.stream);
	CHECK_OK(dlbuf_release(p.t, DLBUF_STREAM_NO_ORDER, &p.fence));
	CHECK_EQ(p.fence, -1);
	CHECK(!gpu_idle(p.hold.stream));
	CHECK(there_is(p.buf.fd, EARLY));
	gpu_let_go(&p.hold);
	/* A program that works without order waits before it deletes the tensor. */
	GPU_OK(StreamSynchronize, p.hold.stream);
	CHECK(there_is(p.buf.fd, LATE));
	cts_delete(p.t);
	CHECK_EQ(p.released, 1);
	producer_destroy(&p);
}

/* ---------------------------------------------------------------- a stream */

/*
 * Another device of the same GPU, so that it is not streams of one device that
 * order themselves.
 */
static void stream_waits(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLManagedTensorVersioned *t;
	struct dlbuf_device *other;
	cuda_stream stream;
	struct producer p;
	void *pinned;
	int ret;

	producer_create(&p, path_of(arg));
	other = gpu_open(0);
	t = gpu_import(other, p.buf.fd, BYTES, DLBUF_PATH_BIT(DLBUF_PATH_HOST));
	if (!t)
		SKIP("%s", dlbuf_last_error());
	GPU_OK(StreamCreate, &stream, CUABI_STREAM_NON_BLOCKING);
	GPU_OK(MemHostAlloc, &pinned, BYTES, 0);
	produce(&p);

	/* Without order nothing waits. */
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, DLBUF_STREAM_NO_ORDER, NULL));
	GPU_OK(MemcpyDtoHAsync, pinned, address(t), BYTES, stream);
	GPU_OK(StreamSynchronize, stream);
	memcpy(got, pinned, BYTES);
	CHECK(is(EARLY));
	CHECK_OK(dlbuf_release(t, DLBUF_STREAM_NO_ORDER, NULL));

	/* A device that waits for a fence does not wait here, others do. */
	ret = dlbuf_acquire(t, DLBUF_READ, stream, &past);
	CHECK_MSG(!ret || ret == -ETIME, "%d: %s", ret, dlbuf_last_error());
	gpu_record("order/stream", "an acquire behind a GPU's work: %s",
		   ret ? "the caller waits" : "the stream waits");
	if (ret) {
		gpu_let_go(&p.hold);
		CHECK_OK(dlbuf_acquire(t, DLBUF_READ, stream, NULL));
	}
	GPU_OK(MemcpyDtoHAsync, pinned, address(t), BYTES, stream);
	if (!ret) {
		CHECK(still_waits(&p, stream));
		gpu_let_go(&p.hold);
	}
	GPU_OK(StreamSynchronize, stream);
	memcpy(got, pinned, BYTES);
	CHECK(is(LATE));
	CHECK_OK(dlbuf_release(t, stream, NULL));
	cts_delete(t);
	cts_delete(p.t);
	GPU_OK(StreamDestroy, stream);
	GPU_OK(MemFreeHost, pinned);
	dlbuf_device_close(other);
	producer_destroy(&p);
}

/* ---------------------------------------------------------------- the kernel's */

/* A stream waits for a fence of another driver, on the dma-buf. */
static void fence_waits(void *arg)
{
	DLBUF_INFO(dlbuf_device_info, info);
	cuda_stream stream;
	struct producer p;
	struct cts_fence f;
	void *pinned;

	producer_create(&p, path_of(arg));
	CHECK_OK(dlbuf_device_get_info(p.dev, &info));
	if (info.acquire != DLBUF_SYNC_FENCE)
		SKIP("the device's streams wait for no fence: the caller does");
	cts_fence_create(&f);
	GPU_OK(StreamCreate, &stream, CUABI_STREAM_NON_BLOCKING);
	GPU_OK(MemHostAlloc, &pinned, BYTES, 0);
	REQUIRE_OK(dlbuf_fence_import(p.buf.fd, DLBUF_WRITE, f.sync_file));

	CHECK_OK(dlbuf_acquire(p.t, DLBUF_READ, DLBUF_STREAM_NO_ORDER,
			       NULL));
	GPU_OK(MemcpyDtoHAsync, pinned, address(p.t), BYTES, stream);
	GPU_OK(StreamSynchronize, stream);
	memcpy(got, pinned, BYTES);
	CHECK(is(EARLY));
	CHECK_OK(dlbuf_release(p.t, DLBUF_STREAM_NO_ORDER, NULL));

	CHECK_OK(dlbuf_acquire(p.t, DLBUF_READ, stream, NULL));
	GPU_OK(MemcpyDtoHAsync, pinned, address(p.t), BYTES, stream);
	CHECK(still_waits(&p, stream));
	cts_poke_raw(p.buf.fd, 0, p.late, BYTES);
	CHECK(still_waits(&p, stream));
	cts_fence_signal(&f);
	GPU_OK(StreamSynchronize, stream);
	memcpy(got, pinned, BYTES);
	CHECK(is(LATE));
	CHECK_OK(dlbuf_release(p.t, stream, NULL));

	cts_delete(p.t);
	cts_fence_destroy(&f);
	GPU_OK(StreamDestroy, stream);
	GPU_OK(MemFreeHost, pinned);
	producer_destroy(&p);
}

/* ---------------------------------------------------------------- own memory */

/* Memory that only the GPU sees: a late release signals late. */
TEST(own_memory)
{
	DLBUF_OPTS(dlbuf_alloc_opts, alloc, .exporter = "device");
	int64_t shape[] = { BYTES };
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
	};
	struct producer p = { .fence = -1, .buf = { .fd = -1, .memfd = -1 } };
	cuda_stream stream;
	void *pinned;

	gpu_begin();
	p.dev = gpu_open(0);
	if (dlbuf_alloc(&p.dev, 1, &layout, &alloc, &p.t))
		SKIP("%s", dlbuf_last_error());
	gpu_hold_create(&p.hold);
	GPU_OK(StreamCreate, &stream, CUABI_STREAM_NON_BLOCKING);
	GPU_OK(MemHostAlloc, &pinned, BYTES, 0);
	GPU_OK(MemHostAlloc, (void **)&p.late, BYTES, 0);
	cts_pattern(want, BYTES, EARLY);
	cts_write(p.t, 0, want, BYTES);
	cts_pattern(p.late, BYTES, LATE);
	produce(&p);
	CHECK(p.fence >= 0 && !is_ready(p.fence));
	GPU_OK(MemcpyDtoHAsync, pinned, address(p.t), BYTES, stream);
	GPU_OK(StreamSynchronize, stream);
	memcpy(got, pinned, BYTES);
	CHECK(is(EARLY));
	CHECK(!is_ready(p.fence));
	gpu_let_go(&p.hold);
	CHECK_OK(dlbuf_fence_notify(p.fence, count, &p.released));
	until(&p.released, 1);
	cts_read(p.t, 0, got, BYTES);
	CHECK(is(LATE));
	cts_delete(p.t);
	GPU_OK(StreamDestroy, stream);
	GPU_OK(MemFreeHost, pinned);
	producer_destroy(&p);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum dlbuf_path path;
	} paths[] = {
		{ "host", DLBUF_PATH_HOST },
		{ "bridge", DLBUF_PATH_BRIDGE },
		{ "copy", DLBUF_PATH_COPY },
	};

	ktap_prefix("%s", "order");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		void *path = (void *)&paths[i].path;

		ktap_case(cts_name("cpu-waits@%s", paths[i].name), cpu_waits,
			  path);
		ktap_case(cts_name("lease-waits@%s", paths[i].name),
			  lease_waits, path);
		ktap_case(cts_name("stream-waits@%s", paths[i].name),
			  stream_waits, path);
	}
	ktap_case("no-order", lease_without_order, (void *)&paths[0].path);
	ktap_case("fence-waits", fence_waits, (void *)&paths[0].path);
	return ktap_run(argc, argv);
}
