// SPDX-License-Identifier: MIT
/*
 * The double of CUDA's driver (tests/fakes/cuda.h) itself: what it allows and
 * what it refuses. Tests of the backend lean on both.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <linux/udmabuf.h>

#include "backends/cuda/api.h"
#include "fakes/cuda.h"

static struct fake_cuda *fake;
static fake_cuda_fn fake_fn;
static void *fake_lib;
static struct cuda_api cu;
static struct {
#define X(name, symbol, params) cuda_result (*name) params;
	FAKE_CUDA_FUNCTIONS(X)
#undef X
} cux;

static void load(void)
{
	char path[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 40);

	REQUIRE(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	strcpy(slash, "/../fakes/libcuda.so");
	fake_lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!fake_lib)
		ktap_note(NULL, 0, "%s", dlerror());
	REQUIRE(fake_lib);
	fake_fn = (fake_cuda_fn)dlsym(fake_lib, "fake_cuda");
	REQUIRE(fake_fn);
#define X(name, symbol, needed, params)				\
	cu.name = (cuda_result (*)params)dlsym(fake_lib, #symbol);	\
	REQUIRE(cu.name);
	CUDA_FUNCTIONS(X)
#undef X
#define X(name, symbol, params)					\
	cux.name = (cuda_result (*)params)dlsym(fake_lib, #symbol);	\
	REQUIRE(cux.name);
	FAKE_CUDA_FUNCTIONS(X)
#undef X
}

/* Loaded, with these presets, and not initialised. */
static void begin_cold(const char *words)
{
	if (words)
		setenv("FAKE_CUDA", words, 1);
	else
		unsetenv("FAKE_CUDA");
	load();
	fake = fake_fn(true);
}

static cuda_context primary;

/* The primary context of device 0 is current. */
static void begin(const char *words)
{
	begin_cold(words);
	CHECK_EQ(cu.Init(0), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&primary, 0), 0);
	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	CHECK_EQ(fake->wrong, 0);
}

static void end_cold(void)
{
	CHECK_EQ(fake->wrong, 0);
	for (int kind = 0; kind < FAKE_KINDS; kind++)
		CHECK_MSG(!fake->live[kind], "%u of kind %d",
			  fake->live[kind], kind);
	CHECK_EQ(fake->pending, 0);
	fake_fn(true);
	dlclose(fake_lib);
}

static void end(void)
{
	CHECK_EQ(cu.CtxPopCurrent(NULL), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(0), 0);
	end_cold();
}

/* Refused with this code, and counted as against the rules. */
#define CHECK_WRONG(call, code)						\
	do {								\
		unsigned int wrong_ = fake->wrong;			\
									\
		CHECK_EQ(call, code);					\
		CHECK_EQ(fake->wrong, wrong_ + 1);			\
		fake->wrong = wrong_;					\
	} while (0)

/* Refused with this code, as it may happen to anybody. */
#define CHECK_REFUSED(call, code)					\
	do {								\
		unsigned int wrong_ = fake->wrong;			\
									\
		CHECK_EQ(call, code);					\
		CHECK_EQ(fake->wrong, wrong_);				\
	} while (0)

/* ---------------------------------------------------------------- devices */

TEST(nothing_before_init)
{
	cuda_context ctx;
	int n;

	begin_cold(NULL);
	CHECK_WRONG(cu.DeviceGetCount(&n), CUABI_NOT_INITIALIZED);
	CHECK_WRONG(cu.DevicePrimaryCtxRetain(&ctx, 0), CUABI_NOT_INITIALIZED);
	CHECK_WRONG(cu.Init(1), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.DriverGetVersion(&n), 0);
	CHECK_EQ(n, 13000);
	CHECK_EQ(cu.Init(0), 0);
	CHECK_EQ(cu.DeviceGetCount(&n), 0);
	CHECK_EQ(n, 1);
	end_cold();
}

struct preset {
	const char *words;
	cuda_result init;
	int count, uuid;
	const char *name;
	int attributes[12][2];
};

static const struct preset presets[] = {
	{ "", 0, 1, 0xc0, "Fake PC",
	  { { 18, 0 }, { 88, 0 }, { 91, 1 }, { 99, 1 }, { 100, 0 }, { 113, 1 },
	    { 114, 1 }, { 124, 1 }, { 146, 0 }, { 41, 1 }, { 19, 1 } } },
	{ "pc,two,uuid=a7", 0, 2, 0xa7, "Fake PC", { { 18, 0 } } },
	{ "thor", 0, 1, 0xc0, "Fake Thor", { { 18, 1 } } },
	{ "grace", 0, 1, 0xc0, "Fake Grace", { { 88, 1 }, { 100, 1 } } },
	{ "noregister,alias", 0, 1, 0xc0, "Fake PC", { { 99, 0 }, { 91, 0 } } },
	{ "noreadonly,noexport,notimeline", 0, 1, 0xc0, "Fake PC",
	  { { 113, 0 }, { 124, 0 }, { 114, 0 } } },
	{ "none", CUABI_NO_DEVICE, 0, 0, NULL, { { 0, 0 } } },
	{ "mismatch", CUABI_SYSTEM_DRIVER_MISMATCH, 0, 0, NULL, { { 0, 0 } } },
};

static void check_preset(const struct preset *p)
{
	struct cuda_uuid uuid;
	char name[32];
	int n;

	CHECK_EQ(cu.Init(0), p->init);
	if (p->init)
		return;
	CHECK_EQ(cu.DeviceGetCount(&n), 0);
	CHECK_EQ(n, p->count);
	CHECK_EQ(cu.DeviceGetName(name, sizeof(name), 0), 0);
	CHECK_STR(name, p->name);
	CHECK_EQ(cu.DeviceGetUuid_v2(&uuid, 0), 0);
	CHECK_EQ((uint8_t)uuid.bytes[0], p->uuid);
	CHECK_EQ(uuid.bytes[1], 0);
	for (int i = 0; p->attributes[i][0]; i++) {
		CHECK_EQ(cu.DeviceGetAttribute(&n, p->attributes[i][0], 0), 0);
		CHECK_MSG(n == p->attributes[i][1], "%s: %d is %d", p->words,
			  p->attributes[i][0], n);
	}
	CHECK_REFUSED(cu.DeviceGetAttribute(&n, 9999, 0), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.DeviceGet(&n, p->count), CUABI_INVALID_DEVICE);
	CHECK_WRONG(cu.DeviceGetName(name, sizeof(name), -1),
		    CUABI_INVALID_DEVICE);
	CHECK_EQ(cu.DeviceGet(&n, p->count - 1), 0);
	CHECK_EQ(n, p->count - 1);
}

TEST(presets_are_devices)
{
	for (size_t i = 0; i < ARRAY_SIZE(presets); i++) {
		begin_cold(presets[i].words);
		check_preset(&presets[i]);
		end_cold();
	}
}

TEST(results_have_names)
{
	const char *s;

	begin_cold(NULL);
	CHECK_EQ(cu.GetErrorName(CUABI_ILLEGAL_ADDRESS, &s), 0);
	CHECK_STR(s, "CUDA_ERROR_ILLEGAL_ADDRESS");
	CHECK_EQ(cu.GetErrorString(CUABI_OUT_OF_MEMORY, &s), 0);
	CHECK_STR(s, "out of memory");
	CHECK_EQ(cu.GetErrorName(12345, &s), CUABI_INVALID_VALUE);
	CHECK(!s);
	end_cold();
}

TEST(contexts)
{
	cuda_context a, b, c;
	cuda_pointer p;
	int dev;

	begin_cold("two");
	CHECK_EQ(cu.Init(0), 0);
	CHECK_WRONG(cu.MemAlloc(&p, 16), CUABI_INVALID_CONTEXT);
	CHECK_WRONG(cu.CtxGetDevice(&dev), CUABI_INVALID_CONTEXT);
	CHECK_WRONG(cu.CtxPopCurrent(&a), CUABI_INVALID_CONTEXT);
	CHECK_WRONG(cu.DevicePrimaryCtxRelease(0), CUABI_INVALID_CONTEXT);
	CHECK_EQ(cu.CtxGetCurrent(&c), 0);
	CHECK(!c);
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&a, 1), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&b, 1), 0);
	CHECK(a == b);
	CHECK_EQ(fake->live[FAKE_CONTEXT], 2);
	CHECK_EQ(cux.CtxCreate(&b, 0, 0), 0);
	CHECK(a != b);
	CHECK_EQ(cu.CtxPushCurrent(a), 0);
	CHECK_EQ(cu.CtxGetDevice(&dev), 0);
	CHECK_EQ(dev, 1);
	CHECK_EQ(cu.CtxPopCurrent(&c), 0);
	CHECK(c == a);
	CHECK_EQ(cu.CtxGetCurrent(&c), 0);
	CHECK(c == b);
	CHECK_EQ(cux.CtxSetCurrent(a), 0);
	CHECK_EQ(cux.CtxDestroy(b), 0);
	CHECK_WRONG(cu.CtxPushCurrent(b), CUABI_INVALID_CONTEXT);
	CHECK_WRONG(cux.CtxDestroy(a), CUABI_INVALID_CONTEXT);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(1), 0);
	CHECK_EQ(cu.MemAlloc(&p, 16), 0);
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(1), 0);
	CHECK_WRONG(cu.MemAlloc(&p, 16), CUABI_CONTEXT_IS_DESTROYED);
	/* It is still on the stack, and comes to life with the next retain. */
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&c, 1), 0);
	CHECK_EQ(cu.MemAlloc(&p, 16), 0);
	CHECK_WRONG(cu.DevicePrimaryCtxRelease(1), 0);
	CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
	end_cold();
}

/* ---------------------------------------------------------------- memory */

static sigjmp_buf touched;

static void on_touch(int sig)
{
	(void)sig;
	siglongjmp(touched, 1);
}

static bool cpu_can_read(cuda_pointer p)
{
	struct sigaction act = { .sa_handler = on_touch }, old;
	volatile bool can = false;

	sigaction(SIGSEGV, &act, &old);
	if (!sigsetjmp(touched, 1)) {
		(void)*(volatile char *)(uintptr_t)p;
		can = true;
	}
	sigaction(SIGSEGV, &old, NULL);
	return can;
}

TEST(device_memory)
{
	cuda_pointer p[3], base;
	char in[64], out[64];
	size_t bytes;

	begin(NULL);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(cu.MemAlloc(&p[i], i == 2 ? 5 << 20 : 1000), 0);
	/* Small ones share a block, 512 bytes apart; large ones do not. */
	CHECK_EQ(p[1], p[0] + 1024);
	CHECK_EQ(p[0] >> 21, p[1] >> 21);
	CHECK_EQ(p[2] % (2 << 20), 0);
	CHECK(!cpu_can_read(p[0]));
	CHECK_EQ(cu.MemGetAddressRange(&base, &bytes, p[1] + 999), 0);
	CHECK_EQ(base, p[1]);
	CHECK_EQ(bytes, 1000);
	CHECK_REFUSED(cu.MemGetAddressRange(&base, NULL, p[1] + 1000),
		      CUABI_NOT_FOUND);
	memset(in, 7, sizeof(in));
	CHECK_EQ(cux.MemcpyHtoD(p[1] + 900, in, sizeof(in)), 0);
	CHECK_EQ(cux.MemcpyDtoH(out, p[1] + 900, sizeof(out)), 0);
	CHECK(!memcmp(in, out, sizeof(in)));
	CHECK_WRONG(cux.MemcpyHtoD(p[1] + 990, in, 11), CUABI_INVALID_VALUE);
	CHECK_WRONG(cux.MemcpyHtoD(p[1], (void *)(uintptr_t)p[0], 11),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemAlloc(&base, 0), CUABI_INVALID_VALUE);
	CHECK_REFUSED(cu.MemAlloc(&base, SIZE_MAX), CUABI_OUT_OF_MEMORY);
	CHECK_WRONG(cu.MemFree(p[1] + 512), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemFree((uintptr_t)in), CUABI_INVALID_VALUE);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(cu.MemFree(p[i]), 0);
	CHECK_WRONG(cu.MemFree(p[0]), CUABI_INVALID_VALUE);
	CHECK_WRONG(cux.MemcpyHtoD(p[0], in, 4), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemFree(0), 0);
	end();
}

TEST(host_memory)
{
	cuda_pointer p, d;
	void *h, *other;

	begin(NULL);
	CHECK_EQ(cu.MemHostAlloc(&h, 100, CUABI_MEMHOSTALLOC_DEVICEMAP), 0);
	CHECK_EQ(cu.MemHostAlloc(&other, 100, 0), 0);
	CHECK_EQ(cu.MemHostGetDevicePointer(&d, (char *)h + 8, 0), 0);
	CHECK_EQ(d, (uintptr_t)h + 8);
	CHECK_WRONG(cu.MemHostGetDevicePointer(&d, other, 0),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemHostGetDevicePointer(&d, h, 1), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemHostGetDevicePointer(&d, &p, 0), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemAlloc(&p, 100), 0);
	strcpy(h, "pinned");
	CHECK_EQ(cu.MemcpyHtoDAsync(p, h, 7, NULL), 0);
	CHECK_EQ(cu.MemcpyDtoHAsync(other, p, 7, NULL), 0);
	CHECK_EQ(fake->synchronising, 0);
	CHECK_EQ(fake->pageable_copies, 0);
	CHECK_EQ(cu.CtxSynchronize(), 0);
	CHECK_EQ(fake->synchronising, 1);
	CHECK_STR(other, "pinned");
	CHECK_WRONG(cu.MemHostAlloc(&h, 0, 0), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemHostAlloc(&h, 1, 8), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemFreeHost((char *)h + 1), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemFree((uintptr_t)h), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemHostUnregister(h), CUABI_HOST_MEMORY_NOT_REGISTERED);
	CHECK_EQ(cu.MemFreeHost(h), 0);
	CHECK_EQ(cu.MemFreeHost(other), 0);
	CHECK_WRONG(cu.MemFreeHost(h), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemFree(p), 0);
	end();
}

#define REGISTER_BYTES 8192

static void *map_memory(int access)
{
	void *p = mmap(NULL, REGISTER_BYTES, access,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(p != MAP_FAILED);
	return p;
}

TEST(registration)
{
	unsigned int flags = CUABI_MEMHOSTREGISTER_DEVICEMAP;
	char *p, *read_only;
	cuda_pointer d;

	begin(NULL);
	p = map_memory(PROT_READ | PROT_WRITE);
	read_only = map_memory(PROT_READ);
	CHECK_WRONG(cu.MemHostRegister(NULL, 8, flags), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemHostRegister(p, 0, flags), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemHostRegister(p, 8, 16), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemHostRegister(p + 100, 4000, flags), 0);
	CHECK_REFUSED(cu.MemHostRegister(p, 101, flags),
		      CUABI_HOST_MEMORY_ALREADY_REGISTERED);
	CHECK_EQ(cu.MemHostRegister(p, 100, 0), 0);
	CHECK_WRONG(cu.MemHostGetDevicePointer(&d, p, 0), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemHostGetDevicePointer(&d, p + 100, 0), 0);
	CHECK_EQ(d, (uintptr_t)p + 100);
	CHECK_WRONG(cu.MemHostUnregister(p + 101),
		    CUABI_HOST_MEMORY_NOT_REGISTERED);
	CHECK_EQ(cu.MemHostUnregister(p), 0);
	CHECK_EQ(cu.MemHostUnregister(p + 100), 0);
	/* What may not be written is registered as such, and not written. */
	CHECK_REFUSED(cu.MemHostRegister(read_only, 100, flags),
		      CUABI_INVALID_VALUE);
	flags |= CUABI_MEMHOSTREGISTER_READ_ONLY;
	CHECK_EQ(cu.MemHostRegister(read_only, 100, flags), 0);
	CHECK_WRONG(cu.MemsetD8Async((uintptr_t)read_only, 1, 10, NULL),
		    CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemHostUnregister(read_only), 0);
	/* There is nothing, or it goes too early. */
	CHECK_EQ(cu.MemHostRegister(p, REGISTER_BYTES, flags), 0);
	munmap(p, REGISTER_BYTES);
	CHECK_WRONG(cu.MemHostUnregister(p), 0);
	CHECK_WRONG(cu.MemHostRegister(p, REGISTER_BYTES, flags),
		    CUABI_INVALID_VALUE);
	munmap(read_only, REGISTER_BYTES);
	end();
}
#endif

KTAP_MAIN()
