// SPDX-License-Identifier: MIT
/*
 * The rules of HIP's own in its double (tests/doubles/hip.h): the rest is CUDA's double.
 * With HIP_REAL, the name of a library, the driver's own, see contract@hip+kfd.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_HIP
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define DOUBLE_OF "HIP"
#include "cuda_load.h"
#include "rules.h"

#include "backends/hip/api.h"
#include "doubles/hip.h"

#define BYTES 4096

static struct fake_hip *hip;
static struct hip_api api;
static struct {
#define X(name, params) hip_result (*name) params;
	FAKE_HIP_FUNCTIONS(X)
#undef X
} apix;

static hsa_export_fn hsa_export;

static void begin(const char *words)
{
	void *hsa;

	if (getenv("HIP_REAL")) {
		KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "the driver is not closed");
		fake_lib = dlopen(getenv("HIP_REAL"), RTLD_NOW);
		hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_NOLOAD);
		REQUIRE(fake_lib && hsa);
	} else {
		load("libhip.so", words);
		hip = ((fake_hip_fn)dlsym(fake_lib, "fake_hip"))(true);
		fake = hip->cuda;
		hsa = fake_lib;
	}
	hsa_export = (hsa_export_fn)dlsym(hsa, "hsa_amd_portable_export_dmabuf");
#define X(name, ...) api.name = (__typeof__(api.name))dlsym(fake_lib, "hip" #name);
	HIP_FUNCTIONS(X)
#undef X
#define X(name, params) apix.name = (hip_result (*) params)dlsym(fake_lib, "hip" #name);
	FAKE_HIP_FUNCTIONS(X)
#undef X
	OK(api.Init(0));
}

static void end(void)
{
	if (!fake)
		return;
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
	dlclose(fake_lib);
}

#define WHOLE (4 << 20)

/* Memory that was imported, of p, which was allocated. */
static void *imported(void **p, hip_external_memory *m)
{
	struct hip_memory_desc desc = {
		.type = HIPABI_EXTERNAL_MEMORY_OPAQUE_FD, .size = WHOLE,
	};
	struct hip_buffer_desc whole = { .size = WHOLE };
	uint64_t offset;
	void *again;

	OK(api.Malloc(p, WHOLE));
	OK(hsa_export(*p, WHOLE, &desc.handle.fd, &offset));
	CHECK_EQ(offset, 0);
	OK(api.ImportExternalMemory(m, &desc));
	OK(api.ExternalMemoryGetMappedBuffer(&again, *m, &whole));
	OK(close(desc.handle.fd));
	return again;
}

static hip_stream gone_stream(void)
{
	hip_stream s;

	OK(api.StreamCreateWithFlags(&s, 0));
	OK(api.StreamDestroy(s));
	return s;
}

static hip_event gone_event(void)
{
	hip_event e;

	OK(api.EventCreateWithFlags(&e, 0));
	OK(api.EventDestroy(e));
	return e;
}

/* In a child, whose parent has not initialised it: the driver's own process would not survive. */
#define CALL(words, ends, call)						\
	do {								\
		int how_ = 0;						\
		pid_t pid_ = fork();					\
									\
		if (!pid_) {						\
			CHECK(freopen("/dev/null", "w", stderr));	\
			fake = NULL;					\
			begin(words);					\
			call;						\
			_exit(7);					\
		}							\
		CHECK_EQ(waitpid(pid_, &how_, 0), pid_);		\
		CHECK_MSG(ends(how_), "%s, %s: status %#x", words, #call, \
			  (unsigned int)how_);				\
	} while (0)

TEST(calls_that_end_the_process)
{
	hip_device_ordinal dev;
	hip_external_memory m;
	uint64_t offset;
	int fd = 3;
	void *out;

	CALL("6.4", returned, api.StreamIsCapturing(gone_stream(), &fd));
	CALL("7", aborted, api.StreamIsCapturing(gone_stream(), &fd));
	CALL("6.4", aborted, api.StreamGetDevice((hip_stream)1, &dev));
	CALL("6.4", aborted, api.EventQuery(gone_event()));
	CALL("6.4,memfds", aborted, hsa_export(imported(&out, &m), BYTES, &fd, &offset));
	CALL("6.4", aborted, apix.ImportExternalSemaphore(&out, NULL));
	/* The fd by pointer, or since 7.1 by value. */
	CALL("7", returned, apix.MemImportFromShareableHandle(&out, &fd, 1));
	CALL("7", aborted, apix.MemImportFromShareableHandle(&out, (void *)3, 1));
	CALL("7.1", aborted, apix.MemImportFromShareableHandle(&out, &fd, 1));
	CALL("7.1", returned, apix.MemImportFromShareableHandle(&out, (void *)3, 1));
}

/* A version's answers about host memory and device memory. */
TEST(memory_types)
{
	static const struct {
		const char *words;
		unsigned int host, device;
	} cases[] = {
		{ "5.7", HIPABI_MEMORY_TYPE_HOST_5, HIPABI_MEMORY_TYPE_DEVICE_5 },
		{ "6.4", HIPABI_MEMORY_TYPE_HOST, HIPABI_MEMORY_TYPE_DEVICE },
		{ "7.1", HIPABI_MEMORY_TYPE_HOST, HIPABI_MEMORY_TYPE_DEVICE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		unsigned int type = 99;
		void *d, *h;

		begin(cases[i].words);
		OK(api.Malloc(&d, BYTES));
		OK(api.HostMalloc(&h, BYTES, 0));
		OK(api.PointerGetAttribute(&type, HIPABI_POINTER_MEMORY_TYPE, d));
		CHECK_EQ(type, cases[i].device);
		OK(api.PointerGetAttribute(&type, HIPABI_POINTER_MEMORY_TYPE, h));
		CHECK_EQ(type, cases[i].host);
		OK(api.HostFree(h));
		OK(api.Free(d));
		end();
	}
}

/* Dma-bufs of others are refused as no memory. The fd stays the caller's in every case. */
TEST(imports)
{
	static const struct {
		const char *words;
		hip_result result;
	} cases[] = {
		{ "7.1,memfds", HIPABI_OUT_OF_MEMORY },
		{ "7.1,memfds,amdgpu", HIPABI_SUCCESS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct hip_memory_desc desc = {
			.type = HIPABI_EXTERNAL_MEMORY_OPAQUE_FD,
			.handle.fd = memfd_create("a dma-buf", MFD_CLOEXEC),
			.size = BYTES,
		};
		hip_external_memory m, again;

		begin(cases[i].words);
		REQUIRE(!ftruncate(desc.handle.fd, BYTES));
		CHECK_EQ(api.ImportExternalMemory(&m, &desc), cases[i].result);
		if (!cases[i].result) {
			desc.reserved[3] = 1;
			BREAKS(1, 0, api.ImportExternalMemory(&again, &desc));
			OK(api.DestroyExternalMemory(m));
			OK(api.DestroyExternalMemory(again));
		}
		OK(close(desc.handle.fd));
		end();
	}
}

/*
 * Freed parts of a block are given out again; more than a block goes to the kernel. The
 * driver gives a whole block back, too, but does not promise to.
 */
TEST(blocks)
{
	static const struct {
		size_t bytes;
		bool again;
	} cases[] = {
		{ BYTES, true }, { (2 << 20) + BYTES, false }, { 2 << 20, true },
	};
	uint64_t offset;
	struct stat st[2];
	void *p;
	int fd;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin("6.4,memfds");
		if (!fake && i == 2)
			break;
		for (int j = 0; j < 2; j++) {
			OK(api.Malloc(&p, cases[i].bytes));
			OK(hsa_export(p, cases[i].bytes, &fd, &offset));
			REQUIRE(!fstat(fd, &st[j]));
			CHECK_EQ(st[j].st_size, cases[i].again ? 2 << 20 : 4 << 20);
			OK(close(fd));
			OK(api.Free(p));
		}
		CHECK_EQ(st[0].st_ino == st[1].st_ino, cases[i].again);
		end();
	}
}

/* The base of memory that the driver has not allocated is NULL. */
DOUBLE_CASE(memory_of_others, "6.4,memfds")
{
	hip_external_memory m;
	void *pages, *p, *base, *of_import;
	size_t bytes;

	of_import = imported(&p, &m);
	OK(api.MemGetAddressRange(&base, &bytes, (char *)p + 1));
	CHECK(base == p && bytes == WHOLE);
	OK(api.MemGetAddressRange(&base, &bytes, of_import));
	CHECK(!base && bytes == WHOLE);
	OK(api.Free(of_import));
	OK(api.DestroyExternalMemory(m));
	OK(api.Free(p));
	pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	OK(api.HostRegister(pages, BYTES, HIPABI_HOST_REGISTER_MAPPED));
	OK(api.HostGetDevicePointer(&p, pages, 0));
	CHECK(p != pages);
	OK(api.MemGetAddressRange(&base, &bytes, p));
	CHECK(!base);
	/* Twice is once: the second time has nothing to undo it. */
	BREAKS(1, 0, api.HostRegister(pages, BYTES, HIPABI_HOST_REGISTER_MAPPED));
	OK(api.HostUnregister(pages));
	BREAKS(1, 713, api.HostUnregister(pages));
	munmap(pages, BYTES);
}

DOUBLE_CASE(destroyed_streams, "6.4")
{
	hip_stream s;
	int status;

	OK(api.StreamCreateWithFlags(&s, 0));
	OK(api.StreamDestroy(s));
	CHECK_EQ(api.StreamIsCapturing(s, &status), HIPABI_CONTEXT_IS_DESTROYED);
	CHECK_EQ(api.StreamSynchronize(s), HIPABI_CONTEXT_IS_DESTROYED);
	CHECK_EQ(api.StreamDestroy(s), HIPABI_CONTEXT_IS_DESTROYED);
}

/* A wait for all streams ends the captures, in every mode. */
DOUBLE_CASE(captures, "6.4")
{
	int mode = HIPABI_STREAM_CAPTURE_MODE_RELAXED;
	hip_stream s;
	void *graph;

	OK(api.StreamCreateWithFlags(&s, 0));
	OK(apix.StreamBeginCapture(s, mode));
	OK(api.ThreadExchangeStreamCaptureMode(&mode));
	CHECK_EQ(api.DeviceSynchronize(), HIPABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_EQ(apix.StreamEndCapture(s, &graph), 901);
	OK(api.DeviceSynchronize());
	OK(api.StreamDestroy(s));
}

/* Since 7.0 a success does not take an error away. */
TEST(last_errors)
{
	int dev, version, keeps;

	for (int i = 0; i < 2; i++) {
		begin(i ? "7" : "6.4");
		OK(api.RuntimeGetVersion(&version));
		keeps = version >= 70000000 ? HIPABI_INVALID_DEVICE : 0;
		BREAKS(1, HIPABI_INVALID_DEVICE, api.SetDevice(7));
		OK(api.GetDevice(&dev));
		CHECK_EQ(api.PeekAtLastError(), keeps);
		CHECK_EQ(api.GetLastError(), keeps);
		OK(api.GetLastError());
		end();
	}
}

/* A stream waits for words in coherent memory only, which the CPU's stores reach. */
TEST(words)
{
	static const struct {
		unsigned int flags, wrongs;
		uint32_t mask;
	} cases[] = {
		{ HIPABI_HOST_MALLOC_COHERENT, 0, UINT32_MAX },
		{ HIPABI_HOST_MALLOC_COHERENT, 1, 0xff },
		{ HIPABI_HOST_MALLOC_MAPPED, 1, UINT32_MAX },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		void *h, *d;

		begin("7.1");
		OK(api.HostMalloc(&h, BYTES, HIPABI_HOST_MALLOC_MAPPED |
					     cases[i].flags));
		OK(api.HostGetDevicePointer(&d, h, 0));
		BREAKS(cases[i].wrongs, 0,
		       api.StreamWaitValue32(NULL, d, 0, 0, cases[i].mask));
		OK(api.DeviceSynchronize());
		OK(api.HostFree(h));
		end();
	}
}
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
