// SPDX-License-Identifier: MIT
/* The rules of HIP's own in its double (tests/doubles/hip.h): the rest is CUDA's double. */
#include "ktap.h"

#ifdef CONFIG_BACKEND_HIP
#include <stdio.h>
#include <sys/mman.h>

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

static void begin(const char *words)
{
	load("libhip.so", words);
	hip = ((fake_hip_fn)dlsym(fake_lib, "fake_hip"))(true);
	fake = hip->cuda;
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
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
	dlclose(fake_lib);
}

static void query_a_destroyed_stream(void)
{
	hip_stream s;
	int status;

	OK(api.StreamCreateWithFlags(&s, 0));
	OK(api.StreamDestroy(s));
	api.StreamIsCapturing(s, &status);
}

static void import_a_semaphore(void)
{
	void *out;

	apix.ImportExternalSemaphore(&out, NULL);
}

static void import_by_value(void)
{
	void *out;

	apix.MemImportFromShareableHandle(&out, (void *)3, 1);
}

static void import_by_pointer(void)
{
	int fd = 3;
	void *out;

	apix.MemImportFromShareableHandle(&out, &fd, 1);
}

/* The driver's own process would not survive them. */
static const struct {
	const char *words;
	void (*fn)(void);
	bool crashes;
} crashes[] = {
	{ "6.4", query_a_destroyed_stream, false },
	{ "7", query_a_destroyed_stream, true },
	{ "6.4", import_a_semaphore, true },
	{ "7", import_by_pointer, false },
	{ "7", import_by_value, true },
	{ "7.1", import_by_pointer, true },
	{ "7.1", import_by_value, false },
};
static size_t row;

/* In a child, whose parent has not initialised it. */
static void make_call(void)
{
	CHECK(freopen("/dev/null", "w", stderr));
	begin(crashes[row].words);
	crashes[row].fn();
}

TEST(calls_that_end_the_process)
{
	for (row = 0; row < sizeof(crashes) / sizeof(*crashes); row++) {
		int status = child(make_call);

		CHECK_MSG(crashes[row].crashes ? aborted(status) : returned(status),
			  "row %zu: status %#x", row, (unsigned int)status);
	}
}

/* What a version says of host memory and of the device's. */
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
