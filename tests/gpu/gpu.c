// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <time.h>

#include "gpu.h"

struct driver cu;
cuda_device gpu;

cuda_context gpu_context;

void gpu_begin(void)
{
	const char *why = driver_load(&cu);
	cuda_result result;

	KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "the driver's own");
	if (why)
		SKIP("%s", why);
	result = cu.Init(0);
	if (!result)
		result = cu.DeviceGet(&gpu, 0);
	if (result)
		SKIP("%s", driver_says(&cu, result));
	GPU_OK(DevicePrimaryCtxRetain, &gpu_context, gpu);
	GPU_OK(CtxPushCurrent, gpu_context);
}

void gpu_end(void)
{
	cuda_context popped;

	GPU_OK(CtxPopCurrent, &popped);
	CHECK(popped == gpu_context);
	GPU_OK(DevicePrimaryCtxRelease, gpu);
}

void gpu_ok(const char *file, int line, cuda_result result, const char *call)
{
	if (!ktap_check(file, line, !result, "%s: %s", call,
			driver_says(&cu, result)))
		ktap_leave();
}

/* ---------------------------------------------------------------- records */

/* As a JSON string, which has no control characters. */
static void put_string(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		fputc((unsigned char)*s < ' ' ? ' ' : *s, f);
	}
	fputc('"', f);
}

void gpu_record(const char *what, const char *fmt, ...)
{
	const char *file = getenv("DLBUF_GPU_RECORDS");
	char said[700];
	va_list ap;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
	ktap_note(NULL, 0, "%s: %s", what, said);
	f = file && *file ? fopen(file, "ae") : NULL;
	if (!f)
		return;
	fputs("{\"what\": ", f);
	put_string(f, what);
	fputs(", \"said\": ", f);
	put_string(f, said);
	fputs("}\n", f);
	fclose(f);
}

bool gpu_answer(const char *what, const char *call, cuda_result result)
{
	gpu_record(what, "%s: %s", call, driver_says(&cu, result));
	CHECK(!strstr(driver_says(&cu, result), "no code of this driver's"));
	return !result;
}

uint64_t gpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---------------------------------------------------------------- dlbuf's */

struct dlbuf_device *gpu_open(uint32_t flags)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = flags);
	struct dlbuf_device *dev = NULL;
	int ret = dlbuf_device_open("cuda:0", &opts, &dev);

	if (ret == -ENODEV || ret == -ENOSYS)
		SKIP("%s", dlbuf_last_error());
	REQUIRE_OK(ret);
	return dev;
}

struct dlbuf_udmabuf gpu_udmabuf(uint64_t bytes)
{
	struct dlbuf_udmabuf buf;
	int ret = dlbuf_udmabuf_create(bytes, NULL, &buf);

	if (ret == -ENODEV || ret == -EACCES || ret == -ENOSYS)
		SKIP("%s", dlbuf_last_error());
	REQUIRE_OK(ret);
	return buf;
}

DLManagedTensorVersioned *gpu_import(struct dlbuf_device *dev, int fd,
				     uint64_t bytes, uint32_t paths)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .paths = paths,
		   .flags = DLBUF_IMPORT_MAY_COPY);
	int64_t shape[] = { bytes };
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
	};
	DLManagedTensorVersioned *t = NULL;

	return dlbuf_import(dev, fd, &layout, &opts, &t) ? NULL : t;
}

/* ---------------------------------------------------------------- held */

void gpu_hold_create(struct gpu_hold *h)
{
	*h = (struct gpu_hold){ .pipe = { -1, -1 } };
	GPU_OK(StreamCreate, &h->stream, CUABI_STREAM_NON_BLOCKING);
	GPU_OK(MemHostAlloc, (void **)&h->word, sizeof(*h->word),
	       CUABI_MEMHOSTALLOC_PORTABLE | CUABI_MEMHOSTALLOC_DEVICEMAP);
	GPU_OK(MemHostGetDevicePointer, &h->pointer, h->word, 0);
	*h->word = 1;
	h->by_word = cu.StreamWaitValue32 &&
		     !cu.StreamWaitValue32(h->stream, h->pointer, 1,
					   CUABI_STREAM_WAIT_VALUE_GEQ);
	GPU_OK(StreamSynchronize, h->stream);
	if (!h->by_word)
		REQUIRE(!pipe2(h->pipe, O_CLOEXEC));
}

static void read_one(void *data)
{
	struct gpu_hold *h = data;
	char c;

	while (read(h->pipe[0], &c, 1) < 0 && errno == EINTR)
		;
}

void gpu_hold(struct gpu_hold *h)
{
	__atomic_store_n(h->word, 0, __ATOMIC_SEQ_CST);
	if (h->by_word)
		GPU_OK(StreamWaitValue32, h->stream, h->pointer, 1,
		       CUABI_STREAM_WAIT_VALUE_GEQ);
	else
		GPU_OK(LaunchHostFunc, h->stream, read_one, h);
}

void gpu_let_go(struct gpu_hold *h)
{
	if (h->by_word)
		__atomic_store_n(h->word, 1, __ATOMIC_SEQ_CST);
	else
		CHECK_EQ(write(h->pipe[1], "", 1), 1);
}

void gpu_hold_destroy(struct gpu_hold *h)
{
	GPU_OK(StreamSynchronize, h->stream);
	GPU_OK(StreamDestroy, h->stream);
	GPU_OK(MemFreeHost, h->word);
	if (!h->by_word) {
		close(h->pipe[0]);
		close(h->pipe[1]);
	}
}

bool gpu_idle(cuda_stream stream)
{
	cuda_result result = cu.StreamQuery(stream);

	CHECK_MSG(!result || result == CUABI_NOT_READY, "%s",
		  driver_says(&cu, result));
	return !result;
}
