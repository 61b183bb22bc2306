// SPDX-License-Identifier: MIT
/*
 * frame: what it costs to find out where a frame's tensors are, and to have
 * them of a frame whose dma-buf has been seen before.
 *
 *	bench/frame		in the lab: tests/lab/lab --icount -- build/bench/frame
 */
#include <string.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#include "bench.h"

#define ROUNDS 65
#define CC DLBUF_FOURCC

/* The library's malloc is counted by the linker's --wrap. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
static unsigned long allocations;

void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

static const struct row {
	const char *what;
	enum dlbuf_code_space space;
	uint32_t code, nplanes;
	uint64_t pitch[3], offset[3];
	enum dlbuf_view view;
} rows[] = {
	{ "NV12, two planes given", DLBUF_CODE_DRM, CC('N', 'V', '1', '2'), 2,
	  { 1920, 1920 }, { 0, 1920 * 1080 }, DLBUF_VIEW_PLANES },
	{ "NV12, one given", DLBUF_CODE_V4L2, CC('N', 'V', '1', '2'), 1,
	  { 1920 }, { 0 }, DLBUF_VIEW_PLANES },
	{ "NV12 stacked", DLBUF_CODE_V4L2, CC('N', 'V', '1', '2'), 1,
	  { 1920 }, { 0 }, DLBUF_VIEW_STACKED },
	{ "YUYV", DLBUF_CODE_V4L2, CC('Y', 'U', 'Y', 'V'), 1,
	  { 3840 }, { 0 }, DLBUF_VIEW_PLANES },
	{ "YUV420, one given", DLBUF_CODE_V4L2, CC('Y', 'U', '1', '2'), 1,
	  { 1920 }, { 0 }, DLBUF_VIEW_PLANES },
	{ "XRGB8888", DLBUF_CODE_DRM, CC('X', 'R', '2', '4'), 1,
	  { 7680 }, { 0 }, DLBUF_VIEW_PLANES },
	{ "XRGB8888 as colour", DLBUF_CODE_DRM, CC('X', 'R', '2', '4'), 1,
	  { 7680 }, { 0 }, DLBUF_VIEW_COLOUR },
	{ "Bayer cells", DLBUF_CODE_V4L2, CC('R', 'G', '1', '0'), 1,
	  { 3840 }, { 0 }, DLBUF_VIEW_CFA },
	{ "Bayer of libcamera", DLBUF_CODE_LIBCAMERA, CC('R', 'G', '1', '0'), 1,
	  { 3840 }, { 0 }, DLBUF_VIEW_PLANES },
	{ "RAW10 as rows", DLBUF_CODE_V4L2, CC('p', 'R', 'A', 'A'), 1,
	  { 2400 }, { 0 }, DLBUF_VIEW_ROWS },
};

static struct dlbuf_frame frame_of(const struct row *r, int fd)
{
	struct dlbuf_frame f = {
		.size = sizeof(f), .width = 1920, .height = 1080,
		.code = r->code, .code_space = r->space,
		.nplanes = r->nplanes,
	};

	for (uint32_t i = 0; i < r->nplanes; i++)
		f.planes[i] = (struct dlbuf_plane){
			.fd = fd, .pitch = r->pitch[i], .offset = r->offset[i],
		};
	return f;
}

struct job {
	struct dlbuf_device *dev;
	struct dlbuf_frame frame;
	struct dlbuf_import_opts opts;
};

static void map(void *arg)
{
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	struct job *job = arg;
	uint32_t n;

	if (dlbuf_frame_layouts(&job->frame, &job->opts, l, &n))
		errx(1, "%s", dlbuf_last_error());
}

static void import_and_delete(void *arg)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct job *job = arg;
	uint32_t n;

	if (dlbuf_import_frame(job->dev, &job->frame, &job->opts, t, &n))
		errx(1, "%s", dlbuf_last_error());
	while (n--)
		t[n]->deleter(t[n]);
}

static uint64_t measure(void (*fn)(void *), struct job *job, uint64_t clock)
{
	static uint64_t times[ROUNDS];

	fn(job);
	fn(job);
	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t t = now();

		fn(job);
		times[i] = now() - t - clock;
	}
	return median(times, ROUNDS);
}

int main(int argc, char **argv)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	uint64_t clock;
	struct job job;
	int fd;

	(void)argc;
	fix_addresses(argv);
	clock = clock_cost();
	if (dlbuf_device_open("cpu", NULL, &job.dev) ||
	    dlbuf_alloc_fd(1920 * 1080 * 4, &opts, &fd))
		errx(1, "%s", dlbuf_last_error());
	printf("a frame of 1920x1080, medians in nanoseconds, under -icount that "
	       "is instructions\n%-26s %8s %8s %8s %8s %8s\n", "", "layouts",
	       "calls", "allocs", "import", "calls");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		uint64_t layouts, import;
		unsigned int calls;
		unsigned long before;

		job.frame = frame_of(r, fd);
		job.opts = (struct dlbuf_import_opts){
			.size = sizeof(job.opts), .view = r->view,
		};
		layouts = measure(map, &job, clock);
		before = allocations;
		map(&job);
		before = allocations - before;
		calls = count_syscalls(map, &job);
		import = measure(import_and_delete, &job, clock);
		printf("%-26s %8llu %8u %8lu %8llu %8u\n", r->what,
		       (unsigned long long)layouts, calls, before,
		       (unsigned long long)import,
		       count_syscalls(import_and_delete, &job));
	}
	close(fd);
	dlbuf_device_close(job.dev);
	return 0;
}
