// SPDX-License-Identifier: MIT
/*
 * calls: the cost of a call of preparation besides its pixels; the frame has only a few.
 * bench/media/prepare.c has the pixels.
 */
#include <dlbuf/dlbuf.h>
#include <dlbuf/prepare.h>

#include "bench.h"

#define FRAMES 5
#define NV12 DLBUF_FOURCC('N', 'V', '1', '2')
#define TABLE "cpu: a model's input of 16x16, NV12, to 8x8: the calls"

struct calls {
	struct dlbuf_device *dev;
	struct dlbuf_frame frame;
	struct dlbuf_prepare_opts opts;
	struct dlbuf_prepare *plan;
	DLManagedTensorVersioned *planes[DLBUF_MAX_PLANES], out;
};

static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void by_call(void (*fn)(struct calls *c), struct calls *c, const char *who, const char *what)
{
	uint64_t times[FRAMES], value;

	/* An acquire looks at the fences the first 32 times. */
	for (int i = -40; i < FRAMES; i++) {
		uint64_t t = cpu_time();

		fn(c);
		t = cpu_time() - t;
		if (i >= 0)
			times[i] = t;
	}
	value = median(times, FRAMES);
	printf("%-12llu %s (" TABLE ")\n", (unsigned long long)value, what);
	record(who, value, TABLE, "%s", what);
}

static void call_tensors(struct calls *c)
{
	if (dlbuf_prepare_tensors(c->plan, c->planes, 2, NULL, &c->out))
		errx(1, "%s", dlbuf_last_error());
}

static void call_frame(struct calls *c)
{
	if (dlbuf_prepare_frame(c->plan, &c->frame, NULL, &c->out))
		errx(1, "%s", dlbuf_last_error());
}

int main(int argc, char **argv)
{
	static float values[3 * 8 * 8];
	struct calls c = {
		.frame = { .size = sizeof(c.frame), .width = 16, .height = 16, .code = NV12,
			   .code_space = DLBUF_CODE_DRM, .nplanes = 2 },
		.opts = { .size = sizeof(c.opts), .width = 8, .height = 8 },
		.out = { .version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
			 .dl_tensor = { .data = values, .device = { kDLCPU, 0 }, .ndim = 3,
					.dtype = { kDLFloat, 32, 1 },
					.shape = (int64_t[]){ 3, 8, 8 } } },
	};
	DLBUF_OPTS(dlbuf_import_opts, import, .access = DLBUF_READ);
	DLBUF_OPTS(dlbuf_alloc_opts, alloc, .exporter = "udmabuf");
	uint32_t n = 2;
	int fd;

	(void)argc;
	fix_addresses(argv);
	if (dlbuf_device_open("cpu", NULL, &c.dev) || dlbuf_alloc_fd(4096, &alloc, &fd))
		errx(1, "%s", dlbuf_last_error());
	for (uint64_t i = 0; i < 2; i++)
		c.frame.planes[i] =
			(struct dlbuf_plane){ .fd = fd, .pitch = 16, .offset = i * 256 };
	if (dlbuf_import_frame(c.dev, &c.frame, &import, c.planes, &n) ||
	    dlbuf_prepare_create(c.dev, &c.frame, &c.opts, &c.plan))
		errx(1, "%s", dlbuf_last_error());
	by_call(call_tensors, &c, "floor", "dlbuf_prepare_tensors(), imported before");
	by_call(call_frame, &c, "dlbuf", "dlbuf_prepare_frame()");
	while (n--)
		c.planes[n]->deleter(c.planes[n]);
	dlbuf_prepare_destroy(c.plan);
	dlbuf_device_close(c.dev);
	close(fd);
	return 0;
}
