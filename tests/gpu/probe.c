// SPDX-License-Identifier: MIT
/*
 * A driver's answers about dma-bufs and fences. A refusal is an answer and no
 * failure; wrong bytes in memory, and answers that contradict each other, are
 * failures.
 *
 *	DLBUF_GPU_RECORDS=FILE probe [CASE...]
 */
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "../cts/cts.h"
#include "gpu.h"

#ifdef CONFIG_BACKEND_VULKAN
#include "backends/cuda/cuda.h"
#endif

#define PAGES 777
#define BYTES (PAGES * 4096ull)

const char *cts_device = "cuda:0";
const struct access *cts_access = &access_cuda;

static uint8_t want[BYTES], got[BYTES];

/* ---------------------------------------------------------------- attributes */

TEST(attributes)
{
	static const struct {
		int number;
		const char *name;
	} list[] = {
		{ 18, "INTEGRATED" },
		{ 75, "COMPUTE_CAPABILITY_MAJOR" },
		{ 76, "COMPUTE_CAPABILITY_MINOR" },
		{ 88, "PAGEABLE_MEMORY_ACCESS" },
		{ 91, "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM" },
		{ 99, "HOST_REGISTER_SUPPORTED" },
		{ 100, "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES" },
		{ 102, "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED" },
		{ 103, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED" },
		{ 113, "READ_ONLY_HOST_REGISTER_SUPPORTED" },
		{ 114, "TIMELINE_SEMAPHORE_INTEROP_SUPPORTED" },
		{ 116, "GPU_DIRECT_RDMA_SUPPORTED" },
		{ 122, "CAN_USE_64_BIT_STREAM_MEM_OPS" },
		{ 124, "DMA_BUF_SUPPORTED" },
		{ 146, "HOST_ALLOC_DMA_BUF_SUPPORTED" },
	};
	int version = 0;

	gpu_begin();
	GPU_OK(DriverGetVersion, &version);
	gpu_record("driver", "CUDA %d.%d", version / 1000, version % 1000 / 10);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		int value = -1, again = -1;
		cuda_result result;

		result = cu.DeviceGetAttribute(&value, list[i].number, gpu);
		if (result)
			gpu_record("attribute", "%d %s: %s", list[i].number,
				   list[i].name, driver_says(&cu, result));
		else
			gpu_record("attribute", "%d %s: %d", list[i].number,
				   list[i].name, value);
		CHECK_EQ(cu.DeviceGetAttribute(&again, list[i].number, gpu),
			 result);
		CHECK_EQ(again, value);
	}
	gpu_end();
}

static int record_device(const struct dlbuf_device_info *info, void *data)
{
	++*(int *)data;
	gpu_record("machine", "%s: %s %s%s", info->name, info->description,
		   info->driver, info->status ? info->reason : "");
	CHECK(!info->status == !info->reason[0]);
	return 0;
}

static int record_exporter(const struct dlbuf_exporter_info *info, void *data)
{
	++*(int *)data;
	gpu_record("machine", "%s: %s", info->name,
		   info->status ? info->reason : "yes");
	return 0;
}

/* Devices of all backends, exporters. */
TEST(machine)
{
	int n = 0;

	gpu_begin();
	CHECK_OK(dlbuf_device_each(record_device, &n));
	CHECK_OK(dlbuf_exporter_each(record_exporter, &n));
	CHECK(n > 2);
	gpu_end();
}

/* The library's view of the machine. */
TEST(device)
{
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev;

	gpu_begin();
	dev = gpu_open(0);
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	gpu_record("device", "%s, %s; acquire %d, release %d (%d blocks, %d "
		   "event, %d fence)", info.description, info.driver,
		   info.acquire, info.release, DLBUF_SYNC_BLOCKS,
		   DLBUF_SYNC_EVENT, DLBUF_SYNC_FENCE);
	CHECK(info.release != DLBUF_SYNC_BLOCKS);
#ifdef CONFIG_BACKEND_VULKAN
	gpu_record("device", "streams wait for memory: %d",
		   queue_device_of(dev)->waits_for_words);
	gpu_record("bridge", "buffers %d, fences in %d, fences out %d%s%s",
		   queue_device_of(dev)->caps.buffers, queue_device_of(dev)->caps.fences_in,
		   queue_device_of(dev)->caps.fences_out,
		   queue_device_of(dev)->caps.why_not[0] ? "; " : "",
		   queue_device_of(dev)->caps.why_not);
#endif
	dlbuf_device_close(dev);
	gpu_end();
}

/* ---------------------------------------------------------------- bytes */

static uint32_t seed;

/* The next pattern, in want. */
static const uint8_t *next(void)
{
	cts_pattern(want, BYTES, ++seed);
	return want;
}

/* Counts pages of got that are not want's, as a wrong mapping would have. */
static unsigned int wrong_pages(void)
{
	unsigned int n = 0;

	for (size_t i = 0; i < PAGES; i++)
		n += !!memcmp(got + i * 4096, want + i * 4096, 4096);
	return n;
}

static void check_bytes(const char *what, const char *way)
{
	unsigned int wrong = wrong_pages();

	gpu_record(what, "%s: %u of %d pages have other bytes", way, wrong,
		   PAGES);
	CHECK_MSG(!wrong, "%s, %s", what, way);
}

/*
 * p is the GPU's address of memory that `map` shows, too: both ways. other, if
 * any, is a dma-buf of the same pages.
 */
static void compare(const char *what, cuda_pointer p, uint8_t *map, int other)
{
	memcpy(map, next(), BYTES);
	GPU_OK(MemcpyDtoH, got, p, BYTES);
	check_bytes(what, "CPU to GPU");
	GPU_OK(MemcpyHtoD, p, next(), BYTES);
	GPU_OK(CtxSynchronize);
	memcpy(got, map, BYTES);
	check_bytes(what, "GPU to CPU");
	if (other < 0)
		return;
	cts_peek(other, 0, got, BYTES);
	check_bytes(what, "GPU to the dma-buf's mapping");
	cts_poke(other, 0, next(), BYTES);
	GPU_OK(MemcpyDtoH, got, p, BYTES);
	check_bytes(what, "the dma-buf's mapping to GPU");
}

static uint8_t *map_fd(int fd, int prot)
{
	void *p = mmap(NULL, BYTES, prot, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ---------------------------------------------------------------- register */

static void try_register(const char *what, uint8_t *map, unsigned int flags,
			 int other)
{
	cuda_pointer p = 0;
	cuda_result result;

	flags |= CUABI_MEMHOSTREGISTER_PORTABLE |
		 CUABI_MEMHOSTREGISTER_DEVICEMAP;
	result = cu.MemHostRegister(map, BYTES, flags);
	if (!gpu_answer(what, "cuMemHostRegister", result))
		return;
	GPU_OK(MemHostGetDevicePointer, &p, map, 0);
	gpu_record(what, "the GPU's address is %sthe CPU's",
		   p == (uintptr_t)map ? "" : "not ");
	compare(what, p, map, other);
	GPU_OK(MemHostUnregister, map);
}

static int plain_memfd(void)
{
	int fd = memfd_create("gpu", MFD_CLOEXEC);

	REQUIRE(fd >= 0);
	REQUIRE(!ftruncate(fd, BYTES));
	return fd;
}

static void register_memfd(void *arg)
{
	int fd;
	uint8_t *map;

	gpu_begin();
	fd = plain_memfd();
	map = map_fd(fd, PROT_READ | PROT_WRITE);
	REQUIRE(map);
	try_register("register/memfd", map, 0, -1);
	munmap(map, BYTES);
	gpu_end();
}

static void register_read_only(void *arg)
{
	int fd;
	uint8_t *map, *rw;
	cuda_pointer p;
	cuda_result result;

	gpu_begin();
	fd = plain_memfd();
	rw = map_fd(fd, PROT_READ | PROT_WRITE);
	map = map_fd(fd, PROT_READ);
	REQUIRE(map && rw);
	result = cu.MemHostRegister(map, BYTES,
				    CUABI_MEMHOSTREGISTER_READ_ONLY |
				    CUABI_MEMHOSTREGISTER_DEVICEMAP);
	if (gpu_answer("register/read-only", "cuMemHostRegister", result)) {
		GPU_OK(MemHostGetDevicePointer, &p, map, 0);
		memcpy(rw, next(), BYTES);
		GPU_OK(MemcpyDtoH, got, p, BYTES);
		check_bytes("register/read-only", "CPU to GPU");
		GPU_OK(MemHostUnregister, map);
	}
	gpu_end();
}

/* The memfd behind it, which is how path host does it. */
static void register_behind(void *arg)
{
	struct dlbuf_udmabuf buf;
	uint8_t *map;

	gpu_begin();
	buf = gpu_udmabuf(BYTES);
	map = map_fd(buf.memfd, PROT_READ | PROT_WRITE);
	REQUIRE(map);
	try_register("register/memfd-behind-udmabuf", map, 0, buf.fd);
	munmap(map, BYTES);
	dlbuf_udmabuf_close(&buf);
	gpu_end();
}

struct mapping {
	const char *what, *exporter;
	unsigned int flags;
};

/* The dma-buf's own mapping. */
static void register_mapping(void *arg)
{
	const struct mapping *m = arg;
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = m->exporter);
	uint8_t *map;
	int fd, ret;

	gpu_begin();
	ret = dlbuf_alloc_fd(BYTES, &opts, &fd);
	if (ret)
		SKIP("%s", dlbuf_last_error());
	map = map_fd(fd, PROT_READ | PROT_WRITE);
	REQUIRE(map);
	/* Present before it is asked for. */
	memset(map, 0, BYTES);
	try_register(m->what, map, m->flags, fd);
	munmap(map, BYTES);
	close(fd);
	gpu_end();
}

/* ---------------------------------------------------------------- external */

/*
 * fill() writes want into the memory behind the dma-buf, by other means than
 * the import.
 */
static void try_external(const char *what, int type, int fd,
			 void (*fill)(void *data), void *data)
{
	struct cuda_memory_desc desc = { .type = type, .size = BYTES };
	struct cuda_buffer_desc whole = { .size = BYTES };
	cuda_external_memory memory;
	cuda_result result;
	cuda_pointer p;

	desc.handle.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	REQUIRE(desc.handle.fd >= 0);
	result = cu.ImportExternalMemory(&memory, &desc);
	if (!gpu_answer(what, "cuImportExternalMemory", result)) {
		gpu_record(what, "the refused fd is %s",
			   close(desc.handle.fd) ? "closed" : "open");
		return;
	}
	result = cu.ExternalMemoryGetMappedBuffer(&p, memory, &whole);
	if (gpu_answer(what, "cuExternalMemoryGetMappedBuffer", result)) {
		next();
		fill(data);
		GPU_OK(MemcpyDtoH, got, p, BYTES);
		check_bytes(what, "written elsewhere, read by the GPU");
		GPU_OK(MemFree, p);
	}
	GPU_OK(DestroyExternalMemory, memory);
}

static void fill_fd(void *data)
{
	cts_poke(*(int *)data, 0, want, BYTES);
}

static void fill_pointer(void *data)
{
	GPU_OK(MemcpyHtoD, *(cuda_pointer *)data, want, BYTES);
}

struct external {
	const char *what, *exporter;
	int type;
};

static void external(void *arg)
{
	const struct external *e = arg;
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = e->exporter);
	int fd;

	gpu_begin();
	if (dlbuf_alloc_fd(BYTES, &opts, &fd))
		SKIP("%s", dlbuf_last_error());
	try_external(e->what, e->type, fd, fill_fd, &fd);
	close(fd);
	gpu_end();
}

#define EXPORT_BYTES (4ull << 20)

/* A dma-buf of the driver's own. */
static int export_own(cuda_pointer *p)
{
	cuda_result result;
	int fd = -1;

	GPU_NEEDS(MemGetHandleForAddressRange);
	GPU_OK(MemAlloc, p, EXPORT_BYTES);
	result = cu.MemGetHandleForAddressRange(&fd, *p, EXPORT_BYTES,
		CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	if (result)
		SKIP("cuMemGetHandleForAddressRange: %s",
		     driver_says(&cu, result));
	return fd;
}

static void external_own(void *arg)
{
	const struct external *e = arg;
	cuda_pointer p;
	int fd;

	gpu_begin();
	fd = export_own(&p);
	try_external(e->what, e->type, fd, fill_pointer, &p);
	close(fd);
	GPU_OK(MemFree, p);
	gpu_end();
}

/* ---------------------------------------------------------------- export */

static void look_at_fdinfo(const char *what, int fd)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "exp_name", 8) || !strncmp(line, "size", 4) ||
		    !strncmp(line, "name", 4) || !strncmp(line, "count", 5))
			gpu_record(what, "fdinfo: %s", line);
	}
	if (f)
		fclose(f);
}

static const char *outcome(int ret)
{
	return ret < 0 ? strerror(errno) : "yes";
}

static void look_at_ioctls(const char *what, int fd)
{
	struct dma_buf_sync sync = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };
	int fence = -1, status = -1, ret;

	ret = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
	gpu_record(what, "DMA_BUF_IOCTL_SYNC: %s", outcome(ret));
	ret = dlbuf_fence_export(fd, DLBUF_RW, &fence);
	if (ret) {
		gpu_record(what, "EXPORT_SYNC_FILE: %s", dlbuf_last_error());
		return;
	}
	if (fence >= 0) {
		CHECK_OK(dlbuf_fence_status(fence, &status));
		close(fence);
	}
	gpu_record(what, "EXPORT_SYNC_FILE: %s", fence < 0 || status == 1 ?
		   "signalled: no fences" : "pending");
}

/* If the CPU can map the memory, it must read the same bytes. */
static void look_at_mapping(const char *what, int fd, cuda_pointer p,
			    size_t bytes)
{
	uint8_t *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	size_t n = bytes < BYTES ? bytes : BYTES;

	gpu_record(what, "mmap(): %s", outcome(map == MAP_FAILED ? -1 : 0));
	if (map == MAP_FAILED)
		return;
	GPU_OK(MemcpyHtoD, p, next(), n);
	GPU_OK(CtxSynchronize);
	CHECK_MSG(!memcmp(map, want, n), "%s: other bytes in its mapping", what);
	munmap(map, bytes);
}

static void look_at_fd(const char *what, int fd, cuda_pointer p, size_t bytes)
{
	off_t size = lseek(fd, 0, SEEK_END);
	struct stat st;

	gpu_record(what, "lseek(SEEK_END): %lld of %zu", (long long)size, bytes);
	CHECK_EQ(size, (off_t)bytes);
	CHECK(!fstat(fd, &st));
	gpu_record(what, "fstat(): inode %llu, size %lld; F_GETFL %#x; "
		   "close-on-exec %d", (unsigned long long)st.st_ino,
		   (long long)st.st_size, fcntl(fd, F_GETFL),
		   fcntl(fd, F_GETFD) & FD_CLOEXEC);
	look_at_fdinfo(what, fd);
	look_at_ioctls(what, fd);
	look_at_mapping(what, fd, p, bytes);
}

/* A range, and whether the GPU's address of it takes copies. */
static void try_export(const char *what, cuda_pointer p, size_t bytes,
		       unsigned long long flags)
{
	cuda_result result;
	int fd = -1, again = -1;
	struct stat a, b;

	GPU_NEEDS(MemGetHandleForAddressRange);
	result = cu.MemGetHandleForAddressRange(&fd, p, bytes,
		CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
	if (!gpu_answer(what, "cuMemGetHandleForAddressRange", result))
		return;
	look_at_fd(what, fd, p, bytes);
	/* A second one of the same range: another dma-buf? */
	result = cu.MemGetHandleForAddressRange(&again, p, bytes,
		CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
	if (!result) {
		CHECK(!fstat(fd, &a) && !fstat(again, &b));
		gpu_record(what, "a second export is %s dma-buf",
			   a.st_ino == b.st_ino ? "the same" : "another");
		close(again);
	}
	close(fd);
}

struct range {
	const char *what;
	size_t at, bytes;
	unsigned long long flags;
};

static void export_alloc(void *arg)
{
	const struct range *r = arg;
	cuda_pointer p;

	gpu_begin();
	GPU_OK(MemAlloc, &p, EXPORT_BYTES);
	try_export(r->what, p + r->at, r->bytes, r->flags);
	GPU_OK(MemFree, p);
	gpu_end();
}

TEST(export_host)
{
	cuda_pointer p;
	void *host;

	gpu_begin();
	GPU_OK(MemHostAlloc, &host, EXPORT_BYTES,
	       CUABI_MEMHOSTALLOC_PORTABLE | CUABI_MEMHOSTALLOC_DEVICEMAP);
	GPU_OK(MemHostGetDevicePointer, &p, host, 0);
	try_export("export/host", p, EXPORT_BYTES, 0);
	GPU_OK(MemFreeHost, host);
	gpu_end();
}

TEST(export_managed)
{
	cuda_pointer p;

	gpu_begin();
	GPU_NEEDS(MemAllocManaged);
	GPU_OK(MemAllocManaged, &p, EXPORT_BYTES, DRIVER_MANAGED_GLOBAL);
	try_export("export/managed", p, EXPORT_BYTES, 0);
	GPU_OK(MemFree, p);
	gpu_end();
}

/* Memory that is mapped into a range of addresses. */
TEST(export_vmm)
{
	struct driver_prop prop = {
		.type = DRIVER_PINNED, .location = { DRIVER_DEVICE, 0 },
	};
	struct driver_access access = {
		{ DRIVER_DEVICE, 0 }, DRIVER_READ_WRITE,
	};
	unsigned long long handle;
	size_t unit, bytes;
	cuda_pointer p;

	gpu_begin();
	GPU_NEEDS(MemCreate);
	GPU_OK(MemGetAllocationGranularity, &unit, &prop, 0);
	bytes = (EXPORT_BYTES + unit - 1) / unit * unit;
	gpu_record("export/vmm", "granularity %zu", unit);
	GPU_OK(MemCreate, &handle, bytes, &prop, 0);
	GPU_OK(MemAddressReserve, &p, bytes, 0, 0, 0);
	GPU_OK(MemMap, p, bytes, 0, handle, 0);
	GPU_OK(MemSetAccess, p, bytes, &access, 1);
	try_export("export/vmm", p, bytes, 0);
	try_export("export/vmm-page", p + 4096, 4096, 0);
	GPU_OK(MemUnmap, p, bytes);
	GPU_OK(MemRelease, handle);
	GPU_OK(MemAddressFree, p, bytes);
	gpu_end();
}

/* ---------------------------------------------------------------- paths */

static int record_path(const struct dlbuf_path_info *info, void *data)
{
	gpu_record(data, "%s: %s", dlbuf_path_name(info->path),
		   info->status ? info->reason : "yes");
	CHECK(!info->status == !info->reason[0]);
	return 0;
}

/* Records the library's answer for each path; tests/cts/path.c compares the bytes. */
static void paths(void *arg)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = arg);
	struct dlbuf_device *dev;
	char what[64];
	int fd;

	gpu_begin();
	if (dlbuf_alloc_fd(BYTES, &opts, &fd))
		SKIP("%s", dlbuf_last_error());
	dev = gpu_open(DLBUF_DEVICE_NO_CACHE);
	snprintf(what, sizeof(what), "path/%s", opts.exporter);
	CHECK_OK(dlbuf_probe(dev, fd, DLBUF_RW, record_path, what));
	dlbuf_device_close(dev);
	close(fd);
	gpu_end();
}

/* dlbuf_alloc() of the device's own memory, and dlbuf_export() of it. */
TEST(own_memory)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	DLBUF_INFO(dlbuf_exported, out);
	DLBUF_INFO(dlbuf_tensor_info, info);
	int64_t shape[] = { BYTES };
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
	};
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	int ret;

	gpu_begin();
	dev = gpu_open(0);
	ret = dlbuf_alloc(&dev, 1, &layout, &opts, &t);
	gpu_record("own-memory", "dlbuf_alloc(): %s",
		   ret ? dlbuf_last_error() : "yes");
	if (ret) {
		CHECK(dlbuf_last_error()[0]);
		dlbuf_device_close(dev);
		gpu_end();
		return;
	}
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	gpu_record("own-memory", "a dma-buf of %llu bytes",
		   (unsigned long long)info.bytes);
	ret = dlbuf_export(dev, &t->dl_tensor, NULL, &out);
	gpu_record("own-memory", "dlbuf_export(): %s",
		   ret ? dlbuf_last_error() : "yes");
	if (!ret)
		close(out.fd);
	cts_delete(t);
	dlbuf_device_close(dev);
	gpu_end();
}

/* ---------------------------------------------------------------- memops */

#define ROUNDS 200

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* From the store to the stream that is through with its wait. */
TEST(memops)
{
	uint64_t took[ROUNDS];
	struct gpu_hold h;

	gpu_begin();
	gpu_hold_create(&h);
	gpu_record("memops", "cuStreamWaitValue32() holds a stream: %s",
		   h.by_word ? "yes" : "no");
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t;

		gpu_hold(&h);
		CHECK(!gpu_idle(h.stream));
		t = gpu_now();
		gpu_let_go(&h);
		while (!gpu_idle(h.stream))
			;
		took[i] = gpu_now() - t;
	}
	qsort(took, ROUNDS, sizeof(*took), compare_times);
	gpu_record("memops", "let go to idle: median %llu ns, least %llu ns",
		   (unsigned long long)took[ROUNDS / 2],
		   (unsigned long long)took[0]);
	gpu_hold_destroy(&h);
	gpu_end();
}

/* ---------------------------------------------------------------- fences */

/* A hold that another thread releases if this thread is stuck. */
struct guard {
	struct gpu_hold *hold;
	pthread_t thread;
	int done[2];
	bool stuck;
};

static void *watch(void *data)
{
	struct guard *g = data;
	struct pollfd p = { .fd = g->done[0], .events = POLLIN };

	g->stuck = !poll(&p, 1, 3000);
	if (g->stuck)
		gpu_let_go(g->hold);
	return NULL;
}

static void guard_begin(struct guard *g, struct gpu_hold *h)
{
	*g = (struct guard){ .hold = h };
	REQUIRE(!pipe2(g->done, O_CLOEXEC));
	REQUIRE(!pthread_create(&g->thread, NULL, watch, g));
}

/* True: the thread was stuck, and the hold was released. */
static bool guard_end(struct guard *g)
{
	CHECK_EQ(write(g->done[1], "", 1), 1);
	pthread_join(g->thread, NULL);
	close(g->done[0]);
	close(g->done[1]);
	return g->stuck;
}

static bool is_ready(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* A fence of work that is not done for longer than drivers let one last. */
static void note_cap(struct gpu_hold *h, int fence)
{
	uint64_t begin = gpu_now();
	bool ready = is_ready(fence, 7000);
	double s = (gpu_now() - begin) / 1e9;

	CHECK(!gpu_idle(h->stream));
	if (ready)
		gpu_record("fence-out", "signalled after %.1f s, the work not "
			   "done", s);
	else
		gpu_record("fence-out", "pending after %.1f s", s);
}

static bool is_eventfd(int fd)
{
	char path[64], target[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	target[n < 0 ? 0 : n] = '\0';
	return strstr(target, "eventfd");
}

/* The fence of a release while the stream's work is pending. */
TEST(fence_out)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	int64_t shape[] = { 4096 };
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
	};
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_udmabuf buf = { .fd = -1, .memfd = -1 };
	struct dlbuf_device *dev;
	struct gpu_hold h;
	int fence = -1;
	struct guard g;
	uint64_t begin;

	gpu_begin();
	dev = gpu_open(0);
	if (!dlbuf_udmabuf_create(4096, NULL, &buf))
		t = gpu_import(dev, buf.fd, 4096, 0);
	if (!t && dlbuf_alloc(&dev, 1, &layout, &opts, &t))
		SKIP("no dma-buf to release: %s", dlbuf_last_error());
	gpu_hold_create(&h);
	/* Once before, because the first call makes objects that stay. */
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, h.stream, NULL));
	CHECK_OK(dlbuf_release(t, h.stream, &fence));
	if (fence >= 0)
		close(fence);
	GPU_OK(StreamSynchronize, h.stream);

	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, h.stream, NULL));
	gpu_hold(&h);
	guard_begin(&g, &h);
	begin = gpu_now();
	CHECK_OK(dlbuf_release(t, h.stream, &fence));
	begin = gpu_now() - begin;
	if (guard_end(&g)) {
		gpu_record("fence-out", "dlbuf_release() blocks until the work "
			   "is done");
	} else {
		gpu_record("fence-out", "dlbuf_release() returns after %llu us "
			   "with %s", (unsigned long long)begin / 1000,
			   fence < 0 ? "nothing" : is_eventfd(fence) ?
			   "an eventfd" : "a sync_file");
		CHECK(fence >= 0 && !is_ready(fence, 0));
		/* An eventfd has no cap. */
		if (fence >= 0 && !is_eventfd(fence))
			note_cap(&h, fence);
		gpu_let_go(&h);
	}
	GPU_OK(StreamSynchronize, h.stream);
	if (fence >= 0) {
		CHECK(is_ready(fence, 60000));
		close(fence);
	}
	cts_delete(t);
	gpu_hold_destroy(&h);
	dlbuf_device_close(dev);
	dlbuf_udmabuf_close(&buf);
	gpu_end();
}

/* ---------------------------------------------------------------- Vulkan */

#ifdef CONFIG_BACKEND_VULKAN

static struct dlbuf_device *open_same_vulkan(struct dlbuf_device *dev)
{
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *vk = NULL;
	char name[64] = "vulkan:uuid=";
	int ret;

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	for (int i = 0; i < 16; i++)
		sprintf(name + 12 + 2 * i, "%02x", info.uuid[i]);
	ret = dlbuf_device_open(name, NULL, &vk);
	if (ret)
		SKIP("%s", dlbuf_last_error());
	CHECK_OK(dlbuf_device_get_info(vk, &info));
	gpu_record("vulkan", "%s, %s", info.description, info.driver);
	return vk;
}

/*
 * A dma-buf in the GPU's Vulkan. Only there: a dma-buf of NVIDIA's must never
 * be attached to a device that is not on PCI.
 */
static void compare_vulkan(const char *what, struct dlbuf_device *vk, int fd,
			   void (*fill)(void *data), void *data)
{
	DLManagedTensorVersioned *t = gpu_import(vk, fd, BYTES, 0);

	gpu_record(what, "dlbuf_import(): %s", t ? "yes" : dlbuf_last_error());
	CHECK(t || dlbuf_last_error()[0]);
	if (!t)
		return;
	/* A double of the loader has no copies but dlbuf's. */
	if (access_vulkan.read(t, 0, got, 4) == -ENOENT)
		SKIP("the driver has no commands to read it with");
	next();
	fill(data);
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	CHECK_OK(access_vulkan.read(t, 0, got, BYTES));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	check_bytes(what, "written elsewhere, read by Vulkan");
	cts_delete(t);
}

TEST(vulkan_import_udmabuf)
{
	struct dlbuf_device *dev, *vk;
	struct dlbuf_udmabuf buf;

	gpu_begin();
	dev = gpu_open(DLBUF_DEVICE_NO_BRIDGE);
	vk = open_same_vulkan(dev);
	buf = gpu_udmabuf(BYTES);
	compare_vulkan("vulkan/udmabuf", vk, buf.fd, fill_fd, &buf.fd);
	dlbuf_udmabuf_close(&buf);
	dlbuf_device_close(vk);
	dlbuf_device_close(dev);
	gpu_end();
}

TEST(vulkan_import_own)
{
	struct dlbuf_device *dev, *vk;
	cuda_pointer p;
	int fd;

	gpu_begin();
	dev = gpu_open(DLBUF_DEVICE_NO_BRIDGE);
	vk = open_same_vulkan(dev);
	fd = export_own(&p);
	compare_vulkan("vulkan/own", vk, fd, fill_pointer, &p);
	close(fd);
	GPU_OK(MemFree, p);
	dlbuf_device_close(vk);
	dlbuf_device_close(dev);
	gpu_end();
}

/*
 * Out and in again: a stream's work as a sync_file by Vulkan's timelines, for
 * which another stream waits by the same way.
 */
TEST(vulkan_fence_both_ways)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .fence = -1);
	DLManagedTensorVersioned *out, *in;
	struct dlbuf_udmabuf a, b;
	struct dlbuf_device *dev;
	cuda_stream stream;
	struct gpu_hold h;
	struct guard g;
	int fence = -1;

	gpu_begin();
	dev = gpu_open(0);
	if (!queue_device_of(dev)->caps.fences_out || !queue_device_of(dev)->caps.fences_in)
		SKIP("%s", queue_device_of(dev)->caps.why_not);
	a = gpu_udmabuf(4096);
	b = gpu_udmabuf(4096);
	out = gpu_import(dev, a.fd, 4096, 0);
	in = gpu_import(dev, b.fd, 4096, 0);
	REQUIRE(out && in);
	gpu_hold_create(&h);
	GPU_OK(StreamCreate, &stream, CUABI_STREAM_NON_BLOCKING);
	CHECK_OK(dlbuf_acquire(out, DLBUF_READ, h.stream, NULL));
	gpu_hold(&h);
	guard_begin(&g, &h);
	CHECK_OK(dlbuf_release(out, h.stream, &fence));
	opts.fence = fence;
	CHECK_OK(dlbuf_acquire(in, DLBUF_READ, stream, &opts));
	if (guard_end(&g)) {
		gpu_record("fence-both-ways", "blocks until the work is done");
	} else {
		CHECK(!gpu_idle(stream));
		CHECK(!is_ready(fence, 0));
		gpu_let_go(&h);
		gpu_record("fence-both-ways", "a stream waits for a stream by "
			   "a sync_file");
	}
	GPU_OK(StreamSynchronize, stream);
	CHECK(is_ready(fence, 60000));
	close(fence);
	CHECK_OK(dlbuf_release(in, stream, NULL));
	cts_delete(in);
	cts_delete(out);
	gpu_hold_destroy(&h);
	GPU_OK(StreamDestroy, stream);
	dlbuf_device_close(dev);
	dlbuf_udmabuf_close(&a);
	dlbuf_udmabuf_close(&b);
	gpu_end();
}

#else

TEST(vulkan)
{
	SKIP("backend vulkan is not built into this library");
}

#endif

int main(int argc, char **argv)
{
	static const struct mapping mappings[] = {
		{ "register/udmabuf", "udmabuf", 0 },
		{ "register/heap", "heap:system", 0 },
		{ "register/udmabuf-iomemory", "udmabuf",
		  CUABI_MEMHOSTREGISTER_IOMEMORY },
		{ "register/heap-iomemory", "heap:system",
		  CUABI_MEMHOSTREGISTER_IOMEMORY },
	};
	static const struct external externals[] = {
		{ "external/dmabuf-fd/udmabuf", "udmabuf",
		  CUABI_MEMORY_DMABUF_FD },
		{ "external/dmabuf-fd/heap", "heap:system",
		  CUABI_MEMORY_DMABUF_FD },
		{ "external/opaque-fd/udmabuf", "udmabuf",
		  CUABI_MEMORY_OPAQUE_FD },
		{ "external/dmabuf-fd/own", NULL, CUABI_MEMORY_DMABUF_FD },
		{ "external/opaque-fd/own", NULL, CUABI_MEMORY_OPAQUE_FD },
	};
	static const struct range ranges[] = {
		{ "export/alloc", 0, EXPORT_BYTES, 0 },
		{ "export/alloc-at-page", 4096, EXPORT_BYTES / 2, 0 },
		{ "export/alloc-at-64k", 65536, EXPORT_BYTES / 2, 0 },
		{ "export/alloc-unaligned", 100, 4096, 0 },
		{ "export/alloc-pcie", 0, EXPORT_BYTES,
		  CUABI_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE },
	};

	ktap_prefix("%s", "probe");
	ktap_case("register/memfd", register_memfd, NULL);
	ktap_case("register/read-only", register_read_only, NULL);
	ktap_case("register/memfd-behind-udmabuf", register_behind, NULL);
	for (size_t i = 0; i < sizeof(mappings) / sizeof(mappings[0]); i++)
		ktap_case(mappings[i].what, register_mapping,
			  (void *)&mappings[i]);
	for (size_t i = 0; i < sizeof(externals) / sizeof(externals[0]); i++)
		ktap_case(externals[i].what,
			  externals[i].exporter ? external : external_own,
			  (void *)&externals[i]);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		ktap_case(ranges[i].what, export_alloc, (void *)&ranges[i]);
	ktap_case("path/udmabuf", paths, (void *)"udmabuf");
	ktap_case("path/heap", paths, (void *)"heap:system");
	return ktap_run(argc, argv);
}
