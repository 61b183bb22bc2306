// SPDX-License-Identifier: MIT
/*
 * The costs of an import and an access on OpenCL (PoCL), compared with the same calls by hand.
 *
 *	bench/opencl [DEVICE]		default: opencl:0
 */
#include <stdio.h>

#ifdef CONFIG_BACKEND_OPENCL
#include <dlfcn.h>
#include <err.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlbuf/dlbuf.h>

#include "bench.h"

#define ROUNDS 301
#define BYTES (1 << 20)

static uint64_t times[ROUNDS];

static struct {
	__typeof__(clCreateBuffer) *create;
	__typeof__(clReleaseMemObject) *release;
	__typeof__(clEnqueueMarkerWithWaitList) *marker;
	__typeof__(clFlush) *flush;
	__typeof__(clGetEventInfo) *query;
	__typeof__(clReleaseEvent) *release_event;
} cl;

/* The measurements, and the device that they use. */
static struct {
	struct dlbuf_device *dev;
	struct dlbuf_opencl_device cl;
	DLTensor layout;
	DLManagedTensorVersioned *t;
	const char *name;
	int fd;
	cl_event last;		/* by hand */
} b = { .cl.size = sizeof(b.cl) };

static void load(void)
{
	static const struct {
		const char *name;
		void *fn;
	} list[] = {
		{ "clCreateBuffer", &cl.create },
		{ "clReleaseMemObject", &cl.release },
		{ "clEnqueueMarkerWithWaitList", &cl.marker },
		{ "clFlush", &cl.flush },
		{ "clGetEventInfo", &cl.query },
		{ "clReleaseEvent", &cl.release_event },
	};
	void *lib = dlopen("libOpenCL.so.1", RTLD_NOW);

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		void *symbol = lib ? dlsym(lib, list[i].name) : NULL;

		if (!symbol)
			errx(1, "%s", dlerror());
		memcpy(list[i].fn, &symbol, sizeof(symbol));
	}
}

static void import(void)
{
	DLManagedTensorVersioned *t;

	if (dlbuf_import(b.dev, b.fd, &b.layout, NULL, &t))
		errx(1, "%s", dlbuf_last_error());
	t->deleter(t);
}

static void import_by_hand(void)
{
	void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
	cl_mem mem;

	if (map == MAP_FAILED)
		err(1, "mmap");
	mem = cl.create(b.cl.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
			BYTES, map, NULL);
	if (!mem)
		errx(1, "clCreateBuffer");
	cl.release(mem);
	munmap(map, BYTES);
}

static void bracket(uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	if (ioctl(b.fd, DMA_BUF_IOCTL_SYNC, &sync))
		err(1, "DMA_BUF_IOCTL_SYNC");
}

static void access_once(void)
{
	if (dlbuf_acquire(b.t, DLBUF_READ, NULL, NULL) ||
	    dlbuf_release(b.t, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
}

/*
 * Whether the work before is complete, which a program must know before it gives a buffer back.
 */
static void access_by_hand(void)
{
	cl_int status;

	bracket(DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	if (b.last) {
		cl.query(b.last, CL_EVENT_COMMAND_EXECUTION_STATUS,
			 sizeof(status), &status, NULL);
		cl.release_event(b.last);
	}
	if (cl.marker(b.cl.queue, 0, NULL, &b.last) || cl.flush(b.cl.queue))
		errx(1, "clEnqueueMarkerWithWaitList");
	bracket(DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
}

static uint64_t cost(void (*fn)(void), uint64_t clock)
{
	fn();
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t = now();

		fn();
		times[i] = now() - t - clock;
	}
	return minimum(times, ROUNDS);
}

static void row(const char *what, uint64_t ours, const char *hand,
		uint64_t by_hand)
{
	char title[96];

	printf("  %-28s %9llu %10llu %7.3fx\n", what, (unsigned long long)ours,
	       (unsigned long long)by_hand, (double)ours / by_hand);
	snprintf(title, sizeof(title), "%s: %s", b.name, what);
	record("hand", by_hand, title, "%s", hand);
	record("dlbuf", ours, title, "dlbuf");
}

int main(int argc, char **argv)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	struct dlbuf_device_info info = { .size = sizeof(info) };
	int64_t shape = BYTES;
	uint64_t clock = clock_cost();

	load();
	b.name = argc > 1 ? argv[1] : "opencl:0";
	b.layout = (DLTensor){ .ndim = 1, .dtype = { kDLUInt, 8, 1 },
			       .shape = &shape };
	if (dlbuf_device_open(b.name, NULL, &b.dev) ||
	    dlbuf_opencl_get_device(b.dev, &b.cl) ||
	    dlbuf_alloc_fd(BYTES, &opts, &b.fd) ||
	    dlbuf_import(b.dev, b.fd, &b.layout, NULL, &b.t))
		errx(1, "%s", dlbuf_last_error());
	dlbuf_device_get_info(b.dev, &info);
	record("about", 0, b.name, "%s, %s", info.description, info.driver);
	printf("1 MiB udmabuf\n  %-28s %9s %10s %8s\n", "", "dlbuf", "by hand",
	       "ratio");
	row("import, imported before", cost(import, clock),
	    "mmap() and clCreateBuffer(), and back", cost(import_by_hand, clock));
	row("acquire(READ), release", cost(access_once, clock),
	    "DMA_BUF_IOCTL_SYNC and a marker", cost(access_by_hand, clock));
	b.t->deleter(b.t);
	dlbuf_device_close(b.dev);
	return 0;
}
#else
int main(void)
{
	puts("this build has no OpenCL");
	return 0;
}
#endif
