// SPDX-License-Identifier: MIT
/*
 * frame: the costs of computing the places of a frame's tensors, of importing a
 * frame whose dma-buf is in the cache, and of acquiring and releasing the
 * tensors.
 *
 *	bench/frame		in the lab: tests/guest/lab --icount -- build/bench/frame
 */
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>

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

#define TITLE "cpu: a frame of 1920x1080 in a dma-buf seen before"
#define BYTES (1920 * 1080 * 4)

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

static void map_by_hand(void *arg)
{
	struct job *job = arg;
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		       job->frame.planes[0].fd, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	munmap(p, BYTES);
}

/* ---- the two planes of NV12, acquired and released */

struct planes {
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	int fd;
};

static void check(int ret)
{
	if (ret)
		errx(1, "%s", dlbuf_last_error());
}

static void bare_bracket(void *arg)
{
	struct dma_buf_sync sync = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	struct planes *p = arg;

	if (ioctl(p->fd, DMA_BUF_IOCTL_SYNC, &sync))
		err(1, "DMA_BUF_IOCTL_SYNC");
	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	if (ioctl(p->fd, DMA_BUF_IOCTL_SYNC, &sync))
		err(1, "DMA_BUF_IOCTL_SYNC");
}

static void each(void *arg)
{
	struct planes *p = arg;

	check(dlbuf_acquire(p->t[0], DLBUF_RW, NULL, NULL));
	check(dlbuf_acquire(p->t[1], DLBUF_RW, NULL, NULL));
	check(dlbuf_release(p->t[0], NULL, NULL));
	check(dlbuf_release(p->t[1], NULL, NULL));
}

static void together(void *arg)
{
	struct planes *p = arg;

	check(dlbuf_acquire_all(p->t, 2, DLBUF_RW, NULL, NULL));
	check(dlbuf_release_all(p->t, 2, NULL, NULL));
}

static uint64_t measure(void (*fn)(void *), void *job, uint64_t clock)
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

static void acquire_planes(struct dlbuf_device *dev, int fd, uint64_t clock)
{
	static const struct {
		const char *what;
		void (*fn)(void *arg);
	} ways[] = {
		{ "bare bracket, one", bare_bracket },
		{ "acquire, release: each", each },
		{ "acquire_all, release_all", together },
	};
	struct dlbuf_frame frame = frame_of(&rows[0], fd);
	struct planes p = { .fd = fd };
	const char *title = "cpu: access to the two planes of an NV12 frame";
	uint64_t first = 0, ns;
	uint32_t n;

	check(dlbuf_import_frame(dev, &frame, NULL, p.t, &n));
	printf("\n%-26s %8s %8s %8s\n", "NV12, two planes", "", "calls",
	       "ratio");
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		ns = measure(ways[i].fn, &p, clock);
		first = first ? first : ns;
		record(i ? "dlbuf" : "hand", ns, title, "%s", ways[i].what);
		printf("%-26s %8llu %8u %8.2f\n", ways[i].what,
		       (unsigned long long)ns,
		       count_syscalls(ways[i].fn, &p), (double)ns / first);
	}
	while (n--)
		p.t[n]->deleter(p.t[n]);
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
	    dlbuf_alloc_fd(BYTES, &opts, &fd))
		errx(1, "%s", dlbuf_last_error());
	job.frame = frame_of(&rows[0], fd);
	record("hand", rounded(measure(map_by_hand, &job, clock)), TITLE,
	       "mmap() and munmap() of its dma-buf");
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
		record("dlbuf", import, TITLE, "tensors of %s", r->what);
		printf("%-26s %8llu %8u %8lu %8llu %8u\n", r->what,
		       (unsigned long long)layouts, calls, before,
		       (unsigned long long)import,
		       count_syscalls(import_and_delete, &job));
	}
	acquire_planes(job.dev, fd, clock);
	close(fd);
	dlbuf_device_close(job.dev);
	return 0;
}
