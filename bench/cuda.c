// SPDX-License-Identifier: MIT
/*
 * The costs of CUDA on real hardware: imports, accesses, and whether a GPU
 * reads a dma-buf in place as fast as the link allows.
 *
 *	bench/cuda [--json FILE]
 *
 * Figures are medians in one run and depend on the machine; ratios depend less
 * on it, because both sides are measured in turn. Exit status 4 without a GPU.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <dlbuf/cuda.h>
#include <dlbuf/dlbuf.h>

#include "../tests/gpu/driver.h"
#include "bench.h"

#define MAX_ROUNDS 4000
#define FRAME (3840ull * 2160 * 3 / 2)
#define FRAMES 4
#define FRAME_PAGES ((FRAME + 4095) / 4096 * 4096)
#define ALL (FRAMES * FRAME_PAGES)

static struct driver cu;
static uint64_t took[MAX_ROUNDS];

/* ---------------------------------------------------------------- results */

static FILE *json;	/* lines of it, or NULL */

/*
 * A line with these members; more is the rest of it. The strings are ours or the library's
 * sentences: one line, no backslashes.
 */
static void put(const char *kind, const char *name, const char *more)
{
	if (!json)
		return;
	fprintf(json, "{\"kind\": \"%s\", \"name\": \"", kind);
	for (; *name; name++)
		fputc(*name == '"' || *name == '\\' ? '\'' : *name, json);
	fprintf(json, "\"%s}\n", more);
}

__attribute__((format(printf, 3, 4)))
static void figure(double value, const char *unit, const char *fmt, ...)
{
	char name[80], more[80];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	printf("%-70s %10.2f %s\n", name, value, unit);
	snprintf(more, sizeof(more), ", \"value\": %.3f, \"unit\": \"%s\"", value, unit);
	put("figures", name, more);
}

static void target(bool met, const char *name, double measured, const char *unit)
{
	char more[80];

	printf("%s: %s, %.3g %s\n", met ? "met" : "missed", name, measured, unit);
	snprintf(more, sizeof(more), ", \"met\": %s, \"measured\": \"%.3g %s\"",
		 met ? "true" : "false", measured, unit);
	put("targets", name, more);
}

/* Measurements that were left out, and the reasons. */
static void skip(const char *what, const char *why)
{
	char name[500];

	snprintf(name, sizeof(name), "%s: %s", what, why);
	printf("not measured: %s\n", name);
	put("skipped", name, "");
}

static void check(cuda_result result, const char *call)
{
	if (result)
		errx(1, "cu%s: %s", call, driver_says(&cu, result));
}

#define CALL(name, ...) check(cu.name(__VA_ARGS__), #name)

/* ---------------------------------------------------------------- memory */

/* Pages that the GPU reads in place, as a dma-buf if the machine has dma-bufs. */
struct source {
	const char *kind;
	struct dlbuf_udmabuf buf;
	uint8_t *map;			/* the CPU's */
	cuda_pointer p;			/* the GPU's, of all */
	DLManagedTensorVersioned *t;	/* or NULL */
};

static DLManagedTensorVersioned *import(struct dlbuf_device *dev, int fd,
					uint64_t bytes, uint32_t paths)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .paths = paths,
		   .flags = paths ? DLBUF_IMPORT_MAY_COPY : 0);
	int64_t shape[] = { bytes };
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
	};
	DLManagedTensorVersioned *t;

	return dlbuf_import(dev, fd, &layout, &opts, &t) ? NULL : t;
}

static cuda_pointer address(const DLManagedTensorVersioned *t)
{
	return (uintptr_t)t->dl_tensor.data + t->dl_tensor.byte_offset;
}

static uint8_t *map_memfd(int fd)
{
	uint8_t *map = mmap(NULL, ALL, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, fd, 0);

	if (map == MAP_FAILED)
		err(1, "mmap");
	for (size_t i = 0; i < ALL / 4; i++)
		((uint32_t *)map)[i] = i * 2654435761u;
	return map;
}

/* Without an exporter: the same pages without a dma-buf around them. */
static void plain_source(struct source *s)
{
	s->kind = "a plain memfd, registered (there is no dma-buf here)";
	s->buf.memfd = memfd_create("bench", MFD_CLOEXEC);
	if (s->buf.memfd < 0 || ftruncate(s->buf.memfd, ALL))
		err(1, "memfd");
	s->map = map_memfd(s->buf.memfd);
	CALL(MemHostRegister, s->map, ALL, CUABI_MEMHOSTREGISTER_DEVICEMAP);
	CALL(MemHostGetDevicePointer, &s->p, s->map, 0);
}

static void source_create(struct source *s)
{
	*s = (struct source){ .buf = { .fd = -1, .memfd = -1 } };
	if (dlbuf_udmabuf_create(ALL, NULL, &s->buf)) {
		skip("dma-bufs of host memory", dlbuf_last_error());
		s->buf.fd = s->buf.memfd = -1;
		plain_source(s);
		return;
	}
	s->kind = "a udmabuf, path host";
	s->map = map_memfd(s->buf.memfd);
}

static void source_import(struct source *s, struct dlbuf_device *dev)
{
	if (s->buf.fd < 0)
		return;
	s->t = import(dev, s->buf.fd, ALL, DLBUF_PATH_BIT(DLBUF_PATH_HOST));
	if (!s->t)
		errx(1, "%s", dlbuf_last_error());
	s->p = address(s->t);
}

static void source_destroy(struct source *s)
{
	if (s->t)
		s->t->deleter(s->t);
	else
		CALL(MemHostUnregister, s->map);
	munmap(s->map, ALL);
	if (s->buf.fd >= 0)
		dlbuf_udmabuf_close(&s->buf);
	else
		close(s->buf.memfd);
}

/* ---------------------------------------------------------------- imports */

static double first_import(struct dlbuf_device *dev, int fd,
			   enum dlbuf_path path)
{
	size_t n = 0;

	/* The first of all is the driver's own start. */
	for (int i = 0; i < 21; i++) {
		uint64_t begin = now();
		DLManagedTensorVersioned *t =
			import(dev, fd, ALL, DLBUF_PATH_BIT(path));

		if (!t)
			return -1;
		if (i)
			took[n++] = now() - begin;
		t->deleter(t);
	}
	return median(took, n);
}

static void first_imports(const struct source *s)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = DLBUF_DEVICE_NO_CACHE);
	struct dlbuf_device *dev;

	if (s->buf.fd < 0)
		return;
	if (dlbuf_device_open("cuda:0", &opts, &dev))
		errx(1, "%s", dlbuf_last_error());
	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++) {
		const char *name = dlbuf_path_name(path);
		double ns = first_import(dev, s->buf.fd, path);

		if (ns < 0)
			skip(name, dlbuf_last_error());
		else
			figure(ns / 1e3, "us", "first import of %.0f MB by "
			       "path %s", ALL / 1e6, name);
	}
	dlbuf_device_close(dev);
}

/* A dma-buf that the device knows: the source's, or memory of its own. */
static int known_fd(struct dlbuf_device *dev, const struct source *s,
		    DLManagedTensorVersioned **own)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	DLBUF_INFO(dlbuf_tensor_info, info);
	int64_t shape[] = { 4096 };
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
	};

	*own = NULL;
	if (s->buf.fd >= 0)
		return s->buf.fd;
	if (dlbuf_alloc(&dev, 1, &layout, &opts, own) ||
	    dlbuf_tensor_get_info(*own, &info))
		return -1;
	return info.fd;
}

static void cached_imports(struct dlbuf_device *dev, const struct source *s)
{
	DLManagedTensorVersioned *own, *t;
	int fd = known_fd(dev, s, &own);
	double us;

	if (fd < 0) {
		skip("cached import", dlbuf_last_error());
		return;
	}
	for (size_t i = 0; i < MAX_ROUNDS; i++) {
		uint64_t begin = now();

		t = import(dev, fd, 4096, 0);
		if (!t)
			errx(1, "%s", dlbuf_last_error());
		t->deleter(t);
		took[i] = now() - begin;
	}
	us = median(took, MAX_ROUNDS) / 1e3;
	figure(us, "us", "import of %s seen before, and its deletion",
	       own ? "the device's own dma-buf" : "a udmabuf");
	target(us < 5, "an import seen before takes less than 5 us", us, "us");
	if (own)
		own->deleter(own);
}

/* ---------------------------------------------------------------- accesses */

static double accesses(DLManagedTensorVersioned *t, cuda_stream stream,
		       void *said, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		uint64_t begin = now();

		if (dlbuf_acquire(t, DLBUF_READ, said, NULL) ||
		    dlbuf_release(t, said, NULL))
			errx(1, "%s", dlbuf_last_error());
		took[i] = now() - begin;
		if (i % 64 == 63)
			CALL(StreamSynchronize, stream);
	}
	CALL(StreamSynchronize, stream);
	return median(took, rounds);
}

/* The calls of an application without a library. */
static double by_hand(cuda_stream a, cuda_stream b, int rounds)
{
	cuda_event event;

	CALL(EventCreate, &event, CUABI_EVENT_DISABLE_TIMING);
	for (int i = 0; i < rounds; i++) {
		uint64_t begin = now();

		CALL(EventRecord, event, a);
		CALL(StreamWaitEvent, b, event, 0);
		took[i] = now() - begin;
		if (i % 64 == 63)
			CALL(StreamSynchronize, b);
	}
	CALL(StreamSynchronize, b);
	CALL(EventDestroy, event);
	return median(took, rounds);
}

static void access_costs(struct dlbuf_device *dev, const struct source *s,
			 cuda_stream a, cuda_stream b)
{
	double hand = by_hand(a, b, 2000);
	DLManagedTensorVersioned *own, *t;
	int fd = known_fd(dev, s, &own);

	figure(hand / 1e3, "us", "cuEventRecord() and cuStreamWaitEvent()");
	if (fd < 0)
		return;
	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++) {
		bool copies = path >= DLBUF_PATH_BRIDGE;
		double ns;

		t = import(dev, fd, copies || !own ? FRAME : 4096,
			   own ? 0 : DLBUF_PATH_BIT(path));
		if (!t || (own && copies)) {
			if (t)
				t->deleter(t);
			continue;
		}
		ns = accesses(t, a, a, copies ? 10 : 2000);
		figure(ns / 1e3, "us", "acquire and release, %s%s",
		       own ? "the device's own" : dlbuf_path_name(path),
		       copies ? ", 50 MB" : "");
		if (!copies)
			figure(ns / hand, "times", "... of an event by hand");
		t->deleter(t);
		if (own)
			break;
	}
	if (own)
		own->deleter(own);
}

/* ---------------------------------------------------------------- bandwidth */

/*
 * The xor of n times 16 bytes, which is what reading them all leaves behind;
 * each thread takes every total-th.
 */
static const char ptx[] =
	".version 6.3\n"
	".target %s\n"
	".address_size 64\n"
	".visible .entry gather(.param .u64 from, .param .u64 n,\n"
	"	.param .u64 out)\n"
	"{\n"
	"	.reg .u64 %%from, %%n, %%out, %%i, %%total, %%at;\n"
	"	.reg .u32 %%block, %%size, %%thread, %%blocks, %%sum;\n"
	"	.reg .u32 %%a, %%b, %%c, %%d;\n"
	"	.reg .pred %%more;\n"
	"	ld.param.u64 %%from, [from];\n"
	"	ld.param.u64 %%n, [n];\n"
	"	ld.param.u64 %%out, [out];\n"
	"	cvta.to.global.u64 %%from, %%from;\n"
	"	cvta.to.global.u64 %%out, %%out;\n"
	"	mov.u32 %%block, %%ctaid.x;\n"
	"	mov.u32 %%size, %%ntid.x;\n"
	"	mov.u32 %%thread, %%tid.x;\n"
	"	mov.u32 %%blocks, %%nctaid.x;\n"
	"	cvt.u64.u32 %%i, %%thread;\n"
	"	mad.wide.u32 %%i, %%block, %%size, %%i;\n"
	"	mul.wide.u32 %%total, %%blocks, %%size;\n"
	"	mov.u32 %%sum, 0;\n"
	"	setp.lt.u64 %%more, %%i, %%n;\n"
	"	@!%%more bra done;\n"
	"next:\n"
	"	shl.b64 %%at, %%i, 4;\n"
	"	add.u64 %%at, %%at, %%from;\n"
	"	ld.global.v4.u32 {%%a, %%b, %%c, %%d}, [%%at];\n"
	"	xor.b32 %%a, %%a, %%b;\n"
	"	xor.b32 %%c, %%c, %%d;\n"
	"	xor.b32 %%a, %%a, %%c;\n"
	"	xor.b32 %%sum, %%sum, %%a;\n"
	"	add.u64 %%i, %%i, %%total;\n"
	"	setp.lt.u64 %%more, %%i, %%n;\n"
	"	@%%more bra next;\n"
	"done:\n"
	"	red.global.xor.b32 [%%out], %%sum;\n"
	"	ret;\n"
	"}\n";

struct reader {
	cuda_module module;
	cuda_function kernel;
	cuda_pointer out;
	cuda_stream stream;
};

static const char *reader_create(struct reader *r, cuda_stream stream)
{
	static const char *const machines[] = { "sm_75", "sm_50" };
	cuda_result result = CUABI_NOT_SUPPORTED;
	char text[sizeof(ptx) + 16];

	*r = (struct reader){ .stream = stream };
	for (int i = 0; i < 2 && result; i++) {
		snprintf(text, sizeof(text), ptx, machines[i]);
		result = cu.ModuleLoadData(&r->module, text);
	}
	if (result)
		return driver_says(&cu, result);
	CALL(ModuleGetFunction, &r->kernel, r->module, "gather");
	CALL(MemAlloc, &r->out, 4);
	return NULL;
}

static void reader_destroy(struct reader *r)
{
	CALL(MemFree, r->out);
	CALL(ModuleUnload, r->module);
}

static void launch(struct reader *r, cuda_pointer from, uint64_t bytes)
{
	unsigned long long n = bytes / 16;
	void *params[] = { &from, &n, &r->out };

	CALL(LaunchKernel, r->kernel, 1024, 1, 1, 256, 1, 1, 0, r->stream, params,
	   NULL);
}

static uint32_t xor_of(const uint8_t *p, uint64_t bytes)
{
	const uint32_t *words = (const uint32_t *)p;
	uint32_t sum = 0;

	for (uint64_t i = 0; i < bytes / 4; i++)
		sum ^= words[i];
	return sum;
}

/* The kernel has read the bytes that the CPU has written. */
static void check_reader(struct reader *r, const struct source *s)
{
	uint32_t sum = 0;

	CALL(MemcpyHtoD, r->out, &sum, 4);
	launch(r, s->p, ALL);
	CALL(StreamSynchronize, r->stream);
	CALL(MemcpyDtoH, &sum, r->out, 4);
	if (sum != xor_of(s->map, ALL))
		errx(1, "the kernel has read other bytes: %#x, not %#x", sum,
		     xor_of(s->map, ALL));
}

struct job {
	enum { TO_DEVICE, FROM_DEVICE, FROM_SOURCE, READ_IN_PLACE } kind;
	cuda_pointer device;
	void *host;		/* of copies */
	cuda_pointer source;	/* of what is not copied by the host */
	struct reader *reader;
	cuda_stream stream;
	uint64_t bytes, step;	/* from one round to the next, in ALL */
};

static void begin_job(const struct job *j, uint64_t at)
{
	if (j->kind == TO_DEVICE)
		CALL(MemcpyHtoDAsync, j->device + at, (char *)j->host + at,
		   j->bytes, j->stream);
	else if (j->kind == FROM_DEVICE)
		CALL(MemcpyDtoHAsync, (char *)j->host + at, j->device + at,
		   j->bytes, j->stream);
	else if (j->kind == FROM_SOURCE)
		CALL(MemcpyAsync, j->device + at, j->source + at, j->bytes,
		   j->stream);
	else
		launch(j->reader, j->source + at, j->bytes);
}

/* Nanoseconds, from the call to the end. */
static double time_job(const struct job *j, int rounds)
{
	for (int i = -2; i < rounds; i++) {
		uint64_t at = j->step ? (i + 2) % (ALL / j->step) * j->step : 0;
		uint64_t begin = now();

		begin_job(j, at);
		CALL(StreamSynchronize, j->stream);
		if (i >= 0)
			took[i] = now() - begin;
	}
	return median(took, rounds);
}

static double gb_per_s(uint64_t bytes, double ns)
{
	return bytes / ns;
}

struct memory {
	cuda_pointer device;
	void *pinned, *pageable;
};

static void memory_create(struct memory *m)
{
	CALL(MemAlloc, &m->device, ALL);
	CALL(MemHostAlloc, &m->pinned, ALL, 0);
	m->pageable = malloc(ALL);
	if (!m->pageable)
		err(1, "malloc");
	memset(m->pinned, 1, ALL);
	memset(m->pageable, 2, ALL);
}

static void memory_destroy(struct memory *m)
{
	CALL(MemFree, m->device);
	CALL(MemFreeHost, m->pinned);
	free(m->pageable);
}

/* The same number of bytes, big and a frame's, one way after another. */
static void bandwidth(const struct source *s, struct memory *m,
		      struct reader *r, cuda_stream stream)
{
	struct job j = { .stream = stream, .device = m->device,
			 .host = m->pinned, .reader = r, .bytes = ALL };
	double link, in_place, copy;

	link = time_job(&j, 15);
	figure(gb_per_s(ALL, link), "GB/s", "link: %.0f MB of pinned memory to "
	       "the GPU", ALL / 1e6);
	j.kind = FROM_DEVICE;
	figure(gb_per_s(ALL, time_job(&j, 15)), "GB/s", "link: back");
	j.source = s->p;
	if (cu.MemcpyAsync) {
		j.kind = FROM_SOURCE;
		copy = time_job(&j, 15);
		figure(gb_per_s(ALL, copy), "GB/s", "copy of %s", s->kind);
		figure(link / copy, "times", "... of the link");
	}
	if (!r)
		return;
	j.kind = READ_IN_PLACE;
	in_place = time_job(&j, 15);
	figure(gb_per_s(ALL, in_place), "GB/s", "a kernel reads %s", s->kind);
	figure(link / in_place, "times", "... of the link");
	target(link / in_place >= .9, "reading in place has 90 % of the link's "
	       "bandwidth", 100 * link / in_place, "%");
}

/* A frame, from where it is to a result on the GPU. */
static void frame(const struct source *s, struct memory *m, struct reader *r,
		  cuda_stream stream)
{
	struct job j = { .stream = stream, .device = m->device,
			 .host = m->pinned, .reader = r, .bytes = FRAME,
			 .step = FRAME_PAGES };
	double pinned = time_job(&j, 60), ns;

	figure(pinned / 1e3, "us", "4K NV12 from pinned memory to the GPU");
	j.host = m->pageable;
	ns = time_job(&j, 30);
	figure(ns / 1e3, "us", "4K NV12 from pageable memory to the GPU");
	figure(ns / pinned, "times", "... of pinned memory");
	j.source = s->p;
	if (cu.MemcpyAsync) {
		j.kind = FROM_SOURCE;
		ns = time_job(&j, 60);
		figure(ns / 1e3, "us", "4K NV12, a copy from %s", s->kind);
		figure(ns / pinned, "times", "... of pinned memory");
	}
	if (!r)
		return;
	j.kind = READ_IN_PLACE;
	ns = time_job(&j, 60);
	figure(ns / 1e3, "us", "4K NV12, read in place by a kernel");
	figure(ns / pinned, "times", "... of pinned memory");
}

/* ---------------------------------------------------------------- exports */

static void exports(struct dlbuf_device *dev)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	DLBUF_INFO(dlbuf_exported, out);
	int64_t shape[] = { FRAME };
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
	};
	DLManagedTensorVersioned *t;

	for (int i = 0; i < 20; i++) {
		uint64_t begin = now();

		if (dlbuf_alloc(&dev, 1, &layout, &opts, &t)) {
			skip("export", dlbuf_last_error());
			return;
		}
		took[i] = now() - begin;
		if (i < 19)
			t->deleter(t);
	}
	figure(median(took, 20) / 1e3, "us", "dlbuf_alloc() of 12 MB on the GPU");
	for (int i = 0; i < 200; i++) {
		uint64_t begin = now();

		if (dlbuf_export(dev, &t->dl_tensor, NULL, &out))
			errx(1, "%s", dlbuf_last_error());
		took[i] = now() - begin;
		close(out.fd);
	}
	figure(median(took, 200) / 1e3, "us", "dlbuf_export() of 12 MB");
	t->deleter(t);
}

/* ---------------------------------------------------------------- all of it */

static void measure(struct source *s, struct dlbuf_device *dev)
{
	cuda_stream a, b;
	struct memory m;
	struct reader r;
	const char *why;

	CALL(StreamCreate, &a, CUABI_STREAM_NON_BLOCKING);
	CALL(StreamCreate, &b, CUABI_STREAM_NON_BLOCKING);
	cached_imports(dev, s);
	access_costs(dev, s, a, b);
	exports(dev);
	why = reader_create(&r, a);
	if (why)
		skip("kernels", why);
	else
		check_reader(&r, s);
	memory_create(&m);
	bandwidth(s, &m, why ? NULL : &r, a);
	frame(s, &m, why ? NULL : &r, a);
	memory_destroy(&m);
	if (!why)
		reader_destroy(&r);
	CALL(StreamDestroy, a);
	CALL(StreamDestroy, b);
}

static int no_gpu(const char *why)
{
	fprintf(stderr, "bench/cuda: %s\n", why);
	return 4;
}

int main(int argc, char **argv)
{
	const char *file = argc == 3 && !strcmp(argv[1], "--json") ? argv[2] :
								     NULL;
	struct dlbuf_device *dev;
	struct source s;
	cuda_context context;
	cuda_device gpu;
	const char *why;

	if (argc > 1 && !file)
		errx(2, "usage: bench/cuda [--json FILE]");
	why = driver_load(&cu);
	if (why)
		return no_gpu(why);
	if (cu.Init(0) || cu.DeviceGet(&gpu, 0))
		return no_gpu("the driver has no device");
	json = file ? fopen(file, "we") : NULL;
	if (file && !json)
		err(1, "%s", file);
	CALL(DevicePrimaryCtxRetain, &context, gpu);
	CALL(CtxPushCurrent, context);
	source_create(&s);
	first_imports(&s);
	if (dlbuf_device_open("cuda:0", NULL, &dev))
		return no_gpu(dlbuf_last_error());
	source_import(&s, dev);
	measure(&s, dev);
	source_destroy(&s);
	dlbuf_device_close(dev);
	if (json && fclose(json))
		err(1, "%s", file);
	return 0;
}
