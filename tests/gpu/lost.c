// SPDX-License-Identifier: MIT
/*
 * Which calls of the driver wait for a stream; and a lost context: the driver's treatment
 * of pending host functions, and the results of dlbuf's calls, fds and leases. The context
 * is lost by a kernel that ends in a trap. Each case is a process.
 */
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "../cts/cts.h"
#include "gpu.h"

#define BYTES (1ull << 20)

const char *cts_device = "cuda:0";
const struct access *cts_access = &access_cuda;

/* ---------------------------------------------------------------- a call that may wait */

struct attempt {
	const char *call;
	cuda_result (*fn)(void *data);
	void *data;
	bool no_context;
	cuda_result result;
};

static void *try_call(void *data)
{
	struct attempt *a = data;

	if (!a->no_context)
		cu.CtxPushCurrent(gpu_context);
	a->result = a->fn(a->data);
	return NULL;
}

/* The result within a second; if the call waits, let_go() makes it return. */
static void attempt(const char *what, struct attempt *a, void (*let_go)(void *data),
		    void *data)
{
	pthread_t thread;
	struct timespec end;
	bool waits;

	REQUIRE(!pthread_create(&thread, NULL, try_call, a));
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec++;
	waits = pthread_timedjoin_np(thread, NULL, &end);
	if (waits) {
		let_go(data);
		pthread_join(thread, NULL);
	}
	gpu_record(what, "%s: %s, %s", a->call, driver_says(&cu, a->result),
		   waits ? "when the work was over" : "at once");
}

static struct {
	cuda_pointer memory;
	void *host, *map;
	cuda_event event;
	cuda_stream stream;
} made;

#define CALL(name, ...)							\
	static cuda_result do_##name(void *data)			\
	{								\
		return cu.name(__VA_ARGS__);				\
	}
CALL(MemAlloc, &made.memory, BYTES)
CALL(MemFree, made.memory)
CALL(MemHostAlloc, &made.host, BYTES, CUABI_MEMHOSTALLOC_PORTABLE)
CALL(MemFreeHost, made.host)
CALL(MemHostRegister, made.map, BYTES, CUABI_MEMHOSTREGISTER_PORTABLE)
CALL(MemHostUnregister, made.map)
CALL(EventCreate, &made.event, 2)
CALL(EventDestroy, made.event)
CALL(StreamCreate, &made.stream, CUABI_STREAM_NON_BLOCKING)
CALL(StreamDestroy, made.stream)
CALL(DevicePrimaryCtxRelease, gpu)
#define ATTEMPT(name) { .call = "cu" #name "()", .fn = do_##name }

static void map_memory(void)
{
	made.map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(made.map != MAP_FAILED);
}

static void let_go(void *hold)
{
	gpu_let_go(hold);
}

/* dlbuf holds frees back while a stream waits for what this process signals. */
TEST(frees)
{
	struct attempt calls[] = {
		ATTEMPT(MemAlloc), ATTEMPT(MemFree), ATTEMPT(MemHostAlloc),
		ATTEMPT(MemFreeHost), ATTEMPT(MemHostRegister),
		ATTEMPT(MemHostUnregister), ATTEMPT(EventCreate),
		ATTEMPT(EventDestroy), ATTEMPT(StreamCreate), ATTEMPT(StreamDestroy),
	};
	struct gpu_hold h;

	gpu_begin();
	gpu_hold_create(&h);
	map_memory();
	/* Once before, because the first call makes objects that stay. */
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
			if (round) {
				gpu_hold(&h);
				attempt("frees", &calls[i], let_go, &h);
				gpu_let_go(&h);
				GPU_OK(StreamSynchronize, h.stream);
			} else {
				calls[i].fn(NULL);
			}
			CHECK_MSG(!calls[i].result, "%s", calls[i].call);
		}
	munmap(made.map, BYTES);
	gpu_hold_destroy(&h);
	gpu_end();
}

/* ---------------------------------------------------------------- a loss */

static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry fail()\n{\n\ttrap;\n\tret;\n}\n";

struct loss {
	struct gpu_hold hold;
	cuda_stream stream;	/* of the kernel */
	cuda_module module;
	cuda_function kernel;
};

static void loss_create(struct loss *l)
{
	cuda_result result = CUABI_NOT_SUPPORTED;
	char text[sizeof(ptx)];

	gpu_begin();
	memcpy(text, ptx, sizeof(ptx));
	for (int i = 0; i < 2 && result; i++) {
		memcpy(strstr(text, "sm_"), i ? "sm_50" : "sm_75", 5);
		result = cu.ModuleLoadData(&l->module, text);
	}
	if (result == CUABI_INVALID_PTX)
		SKIP("the driver has no such kernels");
	REQUIRE(!result);
	GPU_OK(ModuleGetFunction, &l->kernel, l->module, "fail");
	GPU_OK(StreamCreate, &l->stream, CUABI_STREAM_NON_BLOCKING);
	gpu_hold_create(&l->hold);
}

static void lose(struct loss *l)
{
	cuda_result result;

	GPU_OK(LaunchKernel, l->kernel, 1, 1, 1, 1, 1, 1, 0, l->stream, NULL, NULL);
	do
		result = cu.StreamQuery(l->stream);
	while (result == CUABI_NOT_READY);
	CHECK(result);
	gpu_record("lost", "the kernel's stream: %s", driver_says(&cu, result));
}

static bool within(const unsigned int *n, unsigned int want, int seconds)
{
	uint64_t end = gpu_now() + seconds * 1000000000ull;

	while (__atomic_load_n(n, __ATOMIC_SEQ_CST) != want)
		if (gpu_now() > end)
			return false;
	return true;
}

static void count(void *data)
{
	__atomic_add_fetch((unsigned int *)data, 1, __ATOMIC_SEQ_CST);
}

struct blocker {
	unsigned int begun, goes, ended;	/* atomic */
};

static void block(void *data)
{
	struct blocker *b = data;

	count(&b->begun);
	within(&b->goes, 1, 30);
	count(&b->ended);
}

static void unblock(void *data)
{
	__atomic_store_n(&((struct blocker *)data)->goes, 1, __ATOMIC_SEQ_CST);
}

/* The driver itself: functions that run and that have not begun, and frees. */
TEST(lost_driver)
{
	struct attempt frees[] = {
		ATTEMPT(MemFree), ATTEMPT(MemFreeHost), ATTEMPT(MemHostUnregister),
		ATTEMPT(EventDestroy), ATTEMPT(StreamDestroy),
	};
	struct attempt leave = { "cuDevicePrimaryCtxRelease()",
				 do_DevicePrimaryCtxRelease, .no_context = true };
	static struct blocker running;
	static unsigned int behind;
	cuda_context again;
	cuda_stream other;
	struct loss l;

	loss_create(&l);
	map_memory();
	GPU_OK(MemAlloc, &made.memory, BYTES);
	GPU_OK(MemHostAlloc, &made.host, BYTES, 0);
	GPU_OK(MemHostRegister, made.map, BYTES, CUABI_MEMHOSTREGISTER_PORTABLE);
	GPU_OK(EventCreate, &made.event, 2);
	GPU_OK(StreamCreate, &made.stream, CUABI_STREAM_NON_BLOCKING);
	GPU_OK(StreamCreate, &other, CUABI_STREAM_NON_BLOCKING);
	GPU_OK(LaunchHostFunc, other, block, &running);
	CHECK(within(&running.begun, 1, 60));
	gpu_hold(&l.hold);
	GPU_OK(LaunchHostFunc, l.hold.stream, count, &behind);
	lose(&l);
	gpu_record("lost", "a held stream: %s",
		   driver_says(&cu, cu.StreamQuery(l.hold.stream)));
	gpu_record("lost", "the stream of a function that runs: %s",
		   driver_says(&cu, cu.StreamQuery(other)));
	gpu_record("lost", "a function behind a held stream is called: %s",
		   within(&behind, 1, 1) ? "yes" : "not within a second");
	gpu_let_go(&l.hold);
	gpu_record("lost", "... after the stream was let go: %s",
		   within(&behind, 1, 1) ? "yes" : "not within a second");
	gpu_record("lost", "LaunchHostFunc: %s",
		   driver_says(&cu, cu.LaunchHostFunc(made.stream, count, &behind)));
	for (size_t i = 0; i < sizeof(frees) / sizeof(frees[0]); i++)
		attempt("lost", &frees[i], unblock, &running);
	/*
	 * The function has to return first: driver 580 ends the process by SIGSEGV if
	 * the last reference to the context goes while one runs.
	 */
	unblock(&running);
	CHECK(within(&running.ended, 1, 60));
	attempt("lost", &leave, unblock, &running);
	gpu_record("lost", "functions called at last: %u", behind);
	gpu_record("lost", "cuDevicePrimaryCtxRetain() again: %s",
		   driver_says(&cu, cu.DevicePrimaryCtxRetain(&again, gpu)));
}

/* A frame over the device's own memory, so that there is a lease. */
static DLManagedTensorVersioned *leased(struct dlbuf_device *dev, int fd,
					void (*release)(void *data), void *data)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = 1024, .height = 1024, .nplanes = 1,
		.code = DLBUF_FOURCC('G', 'R', 'E', 'Y'),
		.code_space = DLBUF_CODE_V4L2, .modifier = DLBUF_MOD_LINEAR,
		.planes = { { .fd = fd, .pitch = 1024 } },
		.release = release, .release_data = data,
	};
	uint32_t n;

	REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, t, &n));
	return t[0];
}

/* No thread calls the library: it notices the loss by itself. */
TEST(lost_while_all_wait)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	DLBUF_INFO(dlbuf_tensor_info, info);
	int64_t bytes = BYTES;
	const DLTensor layout = LAYOUT8(1, &bytes);
	DLManagedTensorVersioned *t = NULL, *frame;
	static unsigned int released;
	struct dlbuf_device *dev = NULL;
	int fence = -1, ret;
	struct pollfd p;
	uint64_t begin;
	struct loss l;

	loss_create(&l);
	dev = gpu_open(0);
	if (dlbuf_alloc(&dev, 1, &layout, &opts, &t))
		SKIP("%s", dlbuf_last_error());
	REQUIRE_OK(dlbuf_tensor_get_info(t, &info));
	frame = leased(dev, info.fd, count, &released);
	CHECK_OK(dlbuf_acquire(t, DLBUF_WRITE, l.hold.stream, NULL));
	CHECK_OK(dlbuf_acquire(frame, DLBUF_READ, l.hold.stream, NULL));
	gpu_hold(&l.hold);
	CHECK_OK(dlbuf_release(t, l.hold.stream, &fence));
	CHECK_OK(dlbuf_release(frame, l.hold.stream, NULL));
	cts_delete(frame);
	p = (struct pollfd){ .fd = fence, .events = POLLIN };
	REQUIRE(fence >= 0);
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK_EQ(released, 0);
	lose(&l);
	begin = gpu_now();
	CHECK_EQ(poll(&p, 1, 60000), 1);
	gpu_record("lost", "an eventfd is readable after %.0f ms",
		   (gpu_now() - begin) / 1e6);
	CHECK(within(&released, 1, 60));
	gpu_record("lost", "a lease is given back after %.0f ms",
		   (gpu_now() - begin) / 1e6);
	close(fence);
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, l.hold.stream, NULL), -EIO);
	gpu_record("lost", "dlbuf_acquire(): %s", dlbuf_last_error());
	ret = dlbuf_alloc(&dev, 1, &layout, &opts, &frame);
	gpu_record("lost", "dlbuf_alloc(): %s", ret ? dlbuf_last_error() : "works");
	CHECK(ret);
	cts_delete(t);
	CHECK_OK(dlbuf_device_drain(dev, gpu_now() + 30000000000ull));
	dlbuf_device_close(dev);
	ret = dlbuf_device_open("cuda:0", NULL, &dev);
	gpu_record("lost", "dlbuf_device_open(): %s",
		   ret ? dlbuf_last_error() : "works");
	if (!ret)
		dlbuf_device_close(dev);
}

/* A release finds out. */
TEST(lost_in_an_access)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	int64_t bytes = BYTES;
	const DLTensor layout = LAYOUT8(1, &bytes);
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	int fence = -1;
	struct loss l;

	loss_create(&l);
	dev = gpu_open(0);
	if (dlbuf_alloc(&dev, 1, &layout, &opts, &t))
		SKIP("%s", dlbuf_last_error());
	CHECK_OK(dlbuf_acquire(t, DLBUF_WRITE, l.hold.stream, NULL));
	lose(&l);
	CHECK_ERR(dlbuf_release(t, l.hold.stream, &fence), -EIO);
	gpu_record("lost", "dlbuf_release(): %s", dlbuf_last_error());
	CHECK_EQ(fence, -1);
	CHECK_ERR(dlbuf_release(t, l.hold.stream, NULL), -EINVAL);
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, l.hold.stream, NULL), -EIO);
	cts_delete(t);
	dlbuf_device_close(dev);
}

int main(int argc, char **argv)
{
	ktap_prefix("%s", "lost");
	return ktap_run(argc, argv);
}
