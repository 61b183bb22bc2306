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

static void *open_double(const char *name)
{
	char path[PATH_MAX], *slash;
	void *library;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 40);

	REQUIRE(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	snprintf(slash, 40, "/../fakes/%s", name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		ktap_note(NULL, 0, "%s", dlerror());
	REQUIRE(library);
	return library;
}

static void load(void)
{
	fake_lib = open_double("libcuda.so");
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

/* So many wrongs have been done, by streams too. */
static void forgive(unsigned int n)
{
	CHECK_EQ(fake->wrong, n);
	fake->wrong = 0;
}

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
	CHECK_WRONG(cu.DeviceGetName(name, 0, 0), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.DeviceGetUuid(&uuid, p->count), CUABI_INVALID_DEVICE);
	CHECK_WRONG(cu.DeviceGetAttribute(&n, 18, -1), CUABI_INVALID_DEVICE);
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
	CHECK_WRONG(cu.DevicePrimaryCtxRelease(2), CUABI_INVALID_DEVICE);
	CHECK_WRONG(cu.DevicePrimaryCtxRetain(&a, 2), CUABI_INVALID_DEVICE);
	CHECK_WRONG(cux.CtxCreate(&a, 0, 2), CUABI_INVALID_DEVICE);
	CHECK_EQ(cu.CtxGetCurrent(&c), 0);
	CHECK(!c);
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&a, 1), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&b, 1), 0);
	CHECK(a == b);
	CHECK_EQ(fake->live[FAKE_CONTEXT], 2);
	CHECK_EQ(fake->made[FAKE_CONTEXT], 2);
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
	CHECK_WRONG(cux.CtxSetCurrent(b), CUABI_INVALID_CONTEXT);
	for (int i = 0; i < 31; i++)
		CHECK_EQ(cu.CtxPushCurrent(a), 0);
	CHECK_WRONG(cu.CtxPushCurrent(a), CUABI_OUT_OF_MEMORY);
	for (int i = 0; i < 31; i++)
		CHECK_EQ(cu.CtxPopCurrent(NULL), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(1), 0);
	CHECK_EQ(cu.MemAlloc(&p, 16), 0);
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(1), 0);
	CHECK_WRONG(cu.MemAlloc(&p, 16), CUABI_CONTEXT_IS_DESTROYED);
	CHECK_WRONG(cu.StreamGetCtx(NULL, &c), CUABI_CONTEXT_IS_DESTROYED);
	CHECK_WRONG(cu.CtxPushCurrent(a), CUABI_INVALID_CONTEXT);
	/* It is still on the stack, and comes to life with the next retain. */
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&c, 1), 0);
	CHECK_EQ(cu.MemAlloc(&p, 16), 0);
	CHECK_WRONG(cu.DevicePrimaryCtxRelease(1), 0);
	CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
	CHECK_EQ(cux.CtxSetCurrent(NULL), 0);
	CHECK_WRONG(cu.CtxPopCurrent(NULL), CUABI_INVALID_CONTEXT);
	CHECK_WRONG(cu.StreamGetCtx(NULL, &c), CUABI_INVALID_CONTEXT);
	end_cold();
}

TEST(no_devices)
{
	begin_cold(NULL);
	fake->ndevices = 0;
	CHECK_REFUSED(cu.Init(0), CUABI_NO_DEVICE);
	end_cold();
}

TEST(children_have_no_cuda)
{
	int status = 0;
	pid_t child;

	begin(NULL);
	CHECK_EQ(cu.LaunchHostFunc(NULL, free, NULL), 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	child = fork();
	REQUIRE(child >= 0);
	if (!child) {
		CHECK_WRONG(cu.CtxSynchronize(), CUABI_NOT_INITIALIZED);
		CHECK_WRONG(cu.Init(0), CUABI_NOT_INITIALIZED);
		fake_fn(true);
		CHECK_EQ(cu.Init(0), 0);
		dlclose(fake_lib);
		_exit(7);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 7);
	end();
}

/* ---------------------------------------------------------------- memory */

static sigjmp_buf touched;

static void on_touch(int sig)
{
	(void)sig;
	siglongjmp(touched, 1);
}

/* Nobody has taken the address meanwhile. */
static bool is_mapped(cuda_pointer p)
{
	unsigned char seen;

	return !mincore((void *)(uintptr_t)(p & ~(cuda_pointer)4095), 1, &seen);
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
	CHECK_EQ(cu.MemGetAddressRange(NULL, NULL, p[0]), 0);
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
	CHECK(!is_mapped(p[0]));
	CHECK(!is_mapped(p[2]));
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

#define NOWHERE ((void *)4096)

/* Unmaps memory, and keeps others from its address. */
static void replace(void *p)
{
	CHECK(mmap(p, REGISTER_BYTES, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
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
	CHECK_EQ(cu.MemAlloc(&d, 128), 0);
	CHECK_WRONG(cux.MemcpyDtoH(read_only, d, 10), CUABI_INVALID_VALUE);
	CHECK_EQ(cux.MemcpyHtoD(d, read_only, 10), 0);
	/* Half pinned is neither. */
	CHECK_WRONG(cux.MemcpyHtoD(d, read_only + 90, 20), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemHostRegister(p + 64, 64, 0), 0);
	CHECK_WRONG(cux.MemcpyHtoD(d, p, 65), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemHostUnregister(p + 64), 0);
	CHECK_EQ(cu.MemFree(d), 0);
	CHECK_EQ(cu.MemHostUnregister(read_only), 0);
	/* There is nothing, or nothing to be seen. */
	CHECK_WRONG(cu.MemHostRegister(NOWHERE, 8, flags), CUABI_INVALID_VALUE);
	replace(p);
	CHECK_WRONG(cu.MemHostRegister(p, REGISTER_BYTES, flags),
		    CUABI_INVALID_VALUE);
	munmap(p, REGISTER_BYTES);
	munmap(read_only, REGISTER_BYTES);
	end();
}

TEST(alias_is_another_address)
{
	unsigned int flags = CUABI_MEMHOSTREGISTER_DEVICEMAP;
	char *p, out[8];
	cuda_pointer d, same;
	void *host;

	begin("alias");
	p = map_memory(PROT_READ | PROT_WRITE);
	CHECK_EQ(cu.MemHostRegister(p + 16, 4096, flags), 0);
	CHECK_EQ(cu.MemHostGetDevicePointer(&d, p + 20, 0), 0);
	CHECK(d != (uintptr_t)p + 20);
	CHECK_EQ(d % 4096, ((uintptr_t)p + 20) % 4096);
	CHECK(!cpu_can_read(d));
	strcpy(p + 20, "here");
	CHECK_EQ(cux.MemcpyDtoH(out, d, 5), 0);
	CHECK_STR(out, "here");
	CHECK_WRONG(cux.MemcpyDtoH(out, (uintptr_t)p + 20, 5),
		    CUABI_INVALID_VALUE);
	/* Either address leads to the other. */
	CHECK_EQ(cu.PointerGetAttribute(&host, CUABI_POINTER_HOST_POINTER, d), 0);
	CHECK(host == p + 20);
	CHECK_EQ(cu.PointerGetAttribute(&same, CUABI_POINTER_DEVICE_POINTER,
					(uintptr_t)p + 20), 0);
	CHECK_EQ(same, d);
	CHECK_EQ(cu.MemHostUnregister(p + 16), 0);
	CHECK(!is_mapped(d));
	munmap(p, REGISTER_BYTES);
	end();
}

TEST(registration_that_a_device_lacks)
{
	char *p;

	begin("noregister");
	p = map_memory(PROT_READ | PROT_WRITE);
	CHECK_REFUSED(cu.MemHostRegister(p, 8, 0), CUABI_NOT_SUPPORTED);
	end();
	begin("noreadonly");
	CHECK_WRONG(cu.MemHostRegister(p, 8, CUABI_MEMHOSTREGISTER_READ_ONLY),
		    CUABI_NOT_SUPPORTED);
	CHECK_REFUSED(cu.MemHostRegister(p, 8, CUABI_MEMHOSTREGISTER_IOMEMORY),
		      CUABI_NOT_PERMITTED);
	fake->privileged = true;
	/* It is memory. */
	CHECK_REFUSED(cu.MemHostRegister(p, 8, CUABI_MEMHOSTREGISTER_IOMEMORY),
		      CUABI_INVALID_VALUE);
	munmap(p, REGISTER_BYTES);
	end();
}

/* A udmabuf's mapping has no pages that can be pinned; its memfd's has. */
TEST(pfn_mappings_are_not_pinned)
{
	struct udmabuf_create create = {
		.flags = UDMABUF_FLAGS_CLOEXEC, .size = REGISTER_BYTES,
	};
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), memfd, fd;
	unsigned int io = CUABI_MEMHOSTREGISTER_IOMEMORY;
	char *of_memfd, *of_udmabuf;

	if (dev < 0)
		SKIP("no /dev/udmabuf");
	memfd = memfd_create("pages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	REQUIRE(memfd >= 0 && !ftruncate(memfd, REGISTER_BYTES));
	REQUIRE(!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	create.memfd = (unsigned int)memfd;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	REQUIRE(fd >= 0);
	of_memfd = mmap(NULL, REGISTER_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED, memfd, 0);
	of_udmabuf = mmap(NULL, REGISTER_BYTES, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	REQUIRE(of_memfd != MAP_FAILED && of_udmabuf != MAP_FAILED);
	begin(NULL);
	CHECK_EQ(cu.MemHostRegister(of_memfd, REGISTER_BYTES, 0), 0);
	CHECK_REFUSED(cu.MemHostRegister(of_udmabuf, REGISTER_BYTES, 0),
		      CUABI_INVALID_VALUE);
	CHECK_REFUSED(cu.MemHostRegister(of_udmabuf, REGISTER_BYTES, io),
		      CUABI_NOT_PERMITTED);
	fake->privileged = true;
	CHECK_EQ(cu.MemHostRegister(of_udmabuf, REGISTER_BYTES, io), 0);
	CHECK_EQ(cu.MemHostUnregister(of_udmabuf), 0);
	CHECK_EQ(cu.MemHostUnregister(of_memfd), 0);
	end();
	munmap(of_memfd, REGISTER_BYTES);
	munmap(of_udmabuf, REGISTER_BYTES);
	close(memfd);
	close(fd);
	close(dev);
}

TEST(any_memory_is_the_devices_on_grace)
{
	char in[8] = "pages", *out = map_memory(PROT_READ | PROT_WRITE);
	char *read_only = map_memory(PROT_READ);

	begin("grace");
	CHECK_EQ(cu.MemcpyDtoHAsync(out, (uintptr_t)in, 6, NULL), 0);
	CHECK_EQ(cu.MemsetD8Async((uintptr_t)out + 5, '!', 1, NULL), 0);
	CHECK_EQ(fake->pageable_copies, 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	CHECK_STR(out, "pages!");
	CHECK_EQ(cu.MemHostRegister(read_only, 8, 0), 0);
	CHECK_EQ(cu.MemHostUnregister(read_only), 0);
	munmap(out, REGISTER_BYTES);
	CHECK_WRONG(cu.MemsetD8Async((uintptr_t)NOWHERE, 0, 1, NULL),
		    CUABI_INVALID_VALUE);
	munmap(read_only, REGISTER_BYTES);
	end();
	begin("pc");
	CHECK_WRONG(cu.MemsetD8Async((uintptr_t)in, 0, 1, NULL),
		    CUABI_INVALID_VALUE);
	end();
}

TEST(pointer_attributes)
{
	cuda_pointer d, m, q;
	unsigned int type;
	cuda_context ctx;
	size_t bytes;
	int ordinal;
	void *h, *v;

	begin(NULL);
	CHECK_EQ(cu.MemAlloc(&d, 100), 0);
	CHECK_EQ(cu.MemHostAlloc(&h, 100, 0), 0);
	CHECK_WRONG(cux.MemAllocManaged(&m, 100, 2), CUABI_INVALID_VALUE);
	CHECK_EQ(cux.MemAllocManaged(&m, 100, CUABI_MEM_ATTACH_GLOBAL), 0);
	CHECK(cpu_can_read(m));
	CHECK_EQ(cu.PointerGetAttribute(&ctx, CUABI_POINTER_CONTEXT, d), 0);
	CHECK(ctx == primary);
	CHECK_EQ(cu.PointerGetAttribute(&type, CUABI_POINTER_MEMORY_TYPE, d), 0);
	CHECK_EQ(type, CUABI_MEMORYTYPE_DEVICE);
	CHECK_EQ(cu.PointerGetAttribute(&type, CUABI_POINTER_MEMORY_TYPE,
					(uintptr_t)h), 0);
	CHECK_EQ(type, CUABI_MEMORYTYPE_HOST);
	CHECK_EQ(cu.PointerGetAttribute(&q, CUABI_POINTER_DEVICE_POINTER,
					d + 9), 0);
	CHECK_EQ(q, d + 9);
	CHECK_REFUSED(cu.PointerGetAttribute(&v, CUABI_POINTER_HOST_POINTER, d),
		      CUABI_INVALID_VALUE);
	CHECK_EQ(cu.PointerGetAttribute(&v, CUABI_POINTER_HOST_POINTER,
					(uintptr_t)h + 9), 0);
	CHECK(v == (char *)h + 9);
	CHECK_EQ(cu.PointerGetAttribute(&type, CUABI_POINTER_IS_MANAGED, d), 0);
	CHECK_EQ(type, 0);
	CHECK_EQ(cu.PointerGetAttribute(&type, CUABI_POINTER_IS_MANAGED, m), 0);
	CHECK_EQ(type, 1);
	CHECK_EQ(cu.PointerGetAttribute(&ordinal, CUABI_POINTER_DEVICE_ORDINAL,
					m), 0);
	CHECK_EQ(ordinal, 0);
	CHECK_EQ(cu.PointerGetAttribute(&q, CUABI_POINTER_RANGE_START_ADDR,
					d + 99), 0);
	CHECK_EQ(q, d);
	CHECK_EQ(cu.PointerGetAttribute(&bytes, CUABI_POINTER_RANGE_SIZE, d), 0);
	CHECK_EQ(bytes, 100);
	v = &v;
	CHECK_EQ(cu.PointerGetAttribute(&v, CUABI_POINTER_MEMPOOL_HANDLE, d), 0);
	CHECK(!v);
	CHECK_WRONG(cu.PointerGetAttribute(&v, 99, d), CUABI_INVALID_VALUE);
	CHECK_REFUSED(cu.PointerGetAttribute(&type, CUABI_POINTER_MEMORY_TYPE,
					     (uintptr_t)&type),
		      CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemFree(d), 0);
	CHECK_EQ(cu.MemFree(m), 0);
	CHECK_EQ(cu.MemFreeHost(h), 0);
	end();
}

TEST(memory_of_another_device)
{
	unsigned int portable = CUABI_MEMHOSTREGISTER_PORTABLE |
				CUABI_MEMHOSTREGISTER_DEVICEMAP;
	char *p = map_memory(PROT_READ | PROT_WRITE);
	cuda_context other;
	cuda_pointer d;
	void *h;

	begin("two");
	CHECK_EQ(cu.MemAlloc(&d, 64), 0);
	CHECK_EQ(cu.MemHostAlloc(&h, 64, 0), 0);
	CHECK_EQ(cu.MemHostRegister(p, 64, 2), 0);
	CHECK_EQ(cu.MemHostRegister(p + 64, 64, portable), 0);
	CHECK_EQ(cux.CtxCreate(&other, 0, 1), 0);
	CHECK_WRONG(cu.MemsetD8Async(d, 0, 64, NULL), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemsetD8Async((uintptr_t)p, 0, 64, NULL),
		    CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemsetD8Async((uintptr_t)p + 64, 5, 64, NULL), 0);
	CHECK_EQ(cu.MemsetD8Async((uintptr_t)h, 6, 64, NULL), 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	CHECK_EQ(p[64], 5);
	CHECK_EQ(((char *)h)[63], 6);
	CHECK_EQ(cux.CtxDestroy(other), 0);
	CHECK_EQ(cu.MemFree(d), 0);
	CHECK_EQ(cu.MemFreeHost(h), 0);
	CHECK_EQ(cu.MemHostUnregister(p), 0);
	CHECK_EQ(cu.MemHostUnregister(p + 64), 0);
	munmap(p, REGISTER_BYTES);
	end();
}

/* ---------------------------------------------------------------- streams */

/* Host memory that streams wait for, and the calls that count. */
struct gate {
	_Atomic(uint32_t) *flag;
	cuda_pointer address;
};

static struct gate gate_make(void)
{
	struct gate g;
	void *p;

	CHECK_EQ(cu.MemHostAlloc(&p, 64, CUABI_MEMHOSTALLOC_DEVICEMAP), 0);
	g.flag = p;
	CHECK_EQ(cu.MemHostGetDevicePointer(&g.address, p, 0), 0);
	return g;
}

static void gate_free(struct gate *g)
{
	CHECK_EQ(cu.MemFreeHost((void *)g->flag), 0);
}

static char told[64];

static void tell(void *data)
{
	char text[] = { (char)(uintptr_t)data, '\0' };

	strcat(told, text);
}

#define TELL(stream, letter) \
	CHECK_EQ(cu.LaunchHostFunc(stream, tell, (void *)(uintptr_t)letter), 0)

static cuda_stream stream_make(unsigned int flags)
{
	cuda_stream s = NULL;

	CHECK_EQ(cu.StreamCreate(&s, flags), 0);
	return s;
}

TEST(streams_are_queues)
{
	struct gate g;
	cuda_stream s, other;

	begin(NULL);
	g = gate_make();
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	other = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_WRONG(cu.StreamCreate(&s, 2), CUABI_INVALID_VALUE);
	CHECK_EQ(cux.StreamQuery(s), 0);
	told[0] = '\0';
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 3, 0), 0);
	TELL(s, 'c');
	TELL(s, 'd');
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	TELL(other, 'a');
	CHECK_EQ(cu.StreamSynchronize(other), 0);
	strcat(told, "b");
	atomic_store(g.flag, 2);
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	atomic_store(g.flag, 4);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_STR(told, "abcd");
	CHECK_EQ(cux.StreamQuery(s), 0);
	CHECK_EQ(fake->host_functions, 3);
	/* The comparison is cyclic. */
	atomic_store(g.flag, 0);
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 0xfffffff0, 0), 0);
	CHECK_EQ(cux.StreamWriteValue32(s, g.address, 7, 0), 0);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_EQ(*g.flag, 7);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	CHECK_EQ(cu.StreamDestroy(other), 0);
	CHECK_WRONG(cu.StreamDestroy(s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.StreamSynchronize(s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.LaunchHostFunc(NULL, NULL, NULL), CUABI_INVALID_VALUE);
	gate_free(&g);
	end();
}

TEST(waits_for_values_have_rules)
{
	cuda_pointer m;
	struct gate g;

	begin(NULL);
	g = gate_make();
	CHECK_EQ(cux.MemAllocManaged(&m, 4, CUABI_MEM_ATTACH_GLOBAL), 0);
	CHECK_WRONG(cu.StreamWaitValue32(NULL, g.address + 2, 0, 0),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.StreamWaitValue32(NULL, g.address, 0, 9),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.StreamWaitValue32(NULL, g.address + 64, 0, 0),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.StreamWaitValue32(NULL, m, 0, 0), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemFree(m), 0);
	gate_free(&g);
	end();
	begin("nomemops");
	g = gate_make();
	CHECK_REFUSED(cu.StreamWaitValue32(NULL, g.address, 0, 0),
		      CUABI_NOT_SUPPORTED);
	gate_free(&g);
	end();
}

/* The legacy stream waits for blocking streams, and they for it. */
TEST(legacy_stream)
{
	cuda_stream blocking, free_one;
	struct gate g;

	begin(NULL);
	g = gate_make();
	blocking = stream_make(0);
	free_one = stream_make(CUABI_STREAM_NON_BLOCKING);
	told[0] = '\0';
	CHECK_EQ(cu.StreamWaitValue32(blocking, g.address, 1, 0), 0);
	TELL(blocking, 'b');
	TELL(NULL, 'c');
	TELL(CUABI_STREAM_PER_THREAD, 'd');
	TELL(free_one, 'a');
	CHECK_EQ(cu.StreamSynchronize(free_one), 0);
	CHECK_STR(told, "a");
	CHECK_EQ(cux.StreamQuery(CUABI_STREAM_LEGACY), CUABI_NOT_READY);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(CUABI_STREAM_PER_THREAD), 0);
	CHECK_STR(told, "abcd");
	/* Nothing is in it, but what it would wait for is not over. */
	CHECK_EQ(cu.StreamWaitValue32(blocking, g.address, 2, 0), 0);
	CHECK_EQ(cux.StreamQuery(NULL), CUABI_NOT_READY);
	atomic_store(g.flag, 2);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	CHECK_EQ(cux.StreamQuery(blocking), 0);
	CHECK_EQ(cu.StreamDestroy(blocking), 0);
	CHECK_EQ(cu.StreamDestroy(free_one), 0);
	gate_free(&g);
	end();
}

static void *thread_streams(void *data)
{
	struct gate *g = data;

	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	CHECK_EQ(cux.StreamQuery(CUABI_STREAM_PER_THREAD), 0);
	CHECK_EQ(cu.StreamWaitValue32(CUABI_STREAM_PER_THREAD, g->address, 2,
				      0), 0);
	CHECK_EQ(cux.StreamQuery(CUABI_STREAM_PER_THREAD), CUABI_NOT_READY);
	return NULL;
}

TEST(each_thread_has_a_stream)
{
	pthread_t thread;
	struct gate g;

	begin(NULL);
	g = gate_make();
	CHECK_EQ(cu.StreamWaitValue32(CUABI_STREAM_PER_THREAD, g.address, 1,
				      0), 0);
	REQUIRE(!pthread_create(&thread, NULL, thread_streams, &g));
	pthread_join(thread, NULL);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(CUABI_STREAM_PER_THREAD), 0);
	CHECK_EQ(fake->pending, 1);
	atomic_store(g.flag, 2);
	CHECK_EQ(cu.CtxSynchronize(), 0);
	CHECK_EQ(fake->pending, 0);
	gate_free(&g);
	end();
}

TEST(pageable_copies_wait)
{
	char in[16] = "pageable", out[16];
	cuda_pointer d, other;
	cuda_stream s;
	void *h;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.MemAlloc(&d, 16), 0);
	CHECK_EQ(cu.MemsetD8Async(d, 0, 16, s), 0);
	CHECK_EQ(fake->synchronising, 0);
	CHECK_EQ(cu.MemcpyHtoDAsync(d, in, 9, s), 0);
	memset(in, 0, sizeof(in));
	CHECK_EQ(cu.MemcpyDtoHAsync(out, d, 16, s), 0);
	CHECK_STR(out, "pageable");
	CHECK_EQ(cu.MemcpyHtoDAsync(d, in, 0, s), 0);
	CHECK_EQ(cu.MemcpyDtoHAsync(out, d, 0, s), 0);
	CHECK_EQ(fake->pageable_copies, 2);
	CHECK_EQ(fake->synchronising, 2);
	CHECK_EQ(cu.MemHostAlloc(&h, 16, 0), 0);
	CHECK_EQ(cu.MemFreeHost(h), 0);
	CHECK_EQ(cu.MemAlloc(&other, 16), 0);
	CHECK_EQ(cu.MemFree(other), 0);
	CHECK_EQ(fake->synchronising, 2);
	CHECK_WRONG(cu.MemcpyHtoDAsync(d, (void *)(uintptr_t)16, 9, s),
		    CUABI_INVALID_VALUE);
	CHECK_EQ(cu.MemFree(d), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

TEST(freed_under_the_device)
{
	cuda_stream s;
	struct gate g;
	cuda_pointer d;
	void *h;
	char *p;

	begin(NULL);
	g = gate_make();
	p = map_memory(PROT_READ | PROT_WRITE);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.MemAlloc(&d, 64), 0);
	CHECK_EQ(cu.MemHostRegister(p, 64, 2), 0);
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 1, 0), 0);
	CHECK_EQ(cu.MemcpyHtoDAsync(d, p, 64, s), 0);
	CHECK_WRONG(cu.MemHostUnregister(p), 0);
	munmap(p, REGISTER_BYTES);
	CHECK_EQ(fake->synchronising, 0);
	CHECK_WRONG(cu.MemFree(d), 0);
	CHECK_EQ(fake->synchronising, 1);
	CHECK_EQ(cu.MemHostAlloc(&h, 64, 0), 0);
	CHECK_EQ(cu.MemFreeHost(h), 0);
	CHECK_EQ(fake->synchronising, 2);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	gate_free(&g);
	end();
}

static int memfd_of(size_t bytes)
{
	int fd = memfd_create("external", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	return fd;
}

/* Memory may go without a word to CUDA, which is found when it is used. */
TEST(unmapped_under_the_device)
{
	int fd = memfd_of(REGISTER_BYTES);
	cuda_pointer d;
	struct gate g;
	char *p;

	begin(NULL);
	g = gate_make();
	p = mmap(NULL, REGISTER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	REQUIRE(p != MAP_FAILED);
	CHECK_EQ(cu.MemAlloc(&d, 64), 0);
	CHECK_EQ(cu.MemHostRegister(p, 64, 2), 0);
	CHECK_EQ(cu.StreamWaitValue32(NULL, g.address, 1, 0), 0);
	CHECK_EQ(cu.MemsetD8Async((uintptr_t)p, 1, 64, NULL), 0);
	CHECK_EQ(cu.MemcpyHtoDAsync(d, p, 64, NULL), 0);
	CHECK_EQ(cux.StreamWriteValue32(NULL, (uintptr_t)p, 1, 0), 0);
	CHECK_EQ(cu.StreamWaitValue32(NULL, (uintptr_t)p, 1, 0), 0);
	replace(p);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	forgive(4);
	CHECK_WRONG(cu.MemHostUnregister(p), 0);
	CHECK_EQ(cu.MemFree(d), 0);
	gate_free(&g);
	munmap(p, REGISTER_BYTES);
	close(fd);
	end();
}

TEST(events)
{
	cuda_event e, early, foreign;
	cuda_stream a, b;
	cuda_context other;
	struct gate g;

	begin(NULL);
	g = gate_make();
	a = stream_make(CUABI_STREAM_NON_BLOCKING);
	b = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.EventCreate(&e, CUABI_EVENT_DISABLE_TIMING), 0);
	CHECK_EQ(cu.EventCreate(&early, 0), 0);
	CHECK_WRONG(cu.EventCreate(&foreign, 8), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.EventQuery(e), 0);
	CHECK_EQ(cu.StreamWaitEvent(b, e, 0), 0);
	told[0] = '\0';
	CHECK_EQ(cu.EventRecord(early, a), 0);
	CHECK_EQ(fake->synchronising, 0);
	CHECK_EQ(cu.EventSynchronize(early), 0);
	CHECK_EQ(fake->synchronising, 1);
	CHECK_EQ(cu.StreamWaitValue32(a, g.address, 1, 0), 0);
	TELL(a, 'a');
	CHECK_EQ(cu.EventRecord(e, a), 0);
	CHECK_EQ(cu.EventQuery(e), CUABI_NOT_READY);
	CHECK_EQ(cu.EventQuery(early), 0);
	CHECK_EQ(cu.StreamWaitEvent(b, e, 0), 0);
	TELL(b, 'b');
	/* b waits for what e was, whatever becomes of e. */
	CHECK_EQ(cu.EventRecord(e, NULL), 0);
	CHECK_EQ(cu.EventSynchronize(e), 0);
	CHECK_EQ(cux.StreamQuery(b), CUABI_NOT_READY);
	CHECK_EQ(cu.EventRecord(e, a), 0);
	CHECK_EQ(cu.EventDestroy(e), 0);
	CHECK_WRONG(cu.EventQuery(e), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.EventDestroy(e), CUABI_INVALID_HANDLE);
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.StreamSynchronize(b), 0);
	CHECK_STR(told, "ab");
	/* Events are recorded in their own context, and waited for in any. */
	CHECK_EQ(cux.CtxCreate(&other, 0, 0), 0);
	CHECK_EQ(cu.EventCreate(&foreign, 0), 0);
	CHECK_WRONG(cu.EventRecord(foreign, a), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.EventRecord(early, NULL), CUABI_INVALID_HANDLE);
	CHECK_EQ(cu.EventRecord(foreign, NULL), 0);
	CHECK_EQ(cu.StreamWaitEvent(a, foreign, 0), 0);
	CHECK_WRONG(cu.StreamWaitEvent(a, foreign, 4), CUABI_INVALID_VALUE);
	CHECK_EQ(cu.EventDestroy(foreign), 0);
	CHECK_EQ(cux.CtxDestroy(other), 0);
	CHECK_EQ(cu.StreamSynchronize(a), 0);
	CHECK_EQ(cu.EventDestroy(early), 0);
	CHECK_EQ(cu.StreamDestroy(a), 0);
	CHECK_EQ(cu.StreamDestroy(b), 0);
	gate_free(&g);
	end();
}

/* A stream that is destroyed goes when its work is over. */
TEST(streams_end_later)
{
	struct gate g;
	cuda_stream s;

	begin(NULL);
	g = gate_make();
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	told[0] = '\0';
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 1, 0), 0);
	TELL(s, 'a');
	CHECK_EQ(cu.StreamDestroy(s), 0);
	CHECK_EQ(fake->live[FAKE_STREAM], 0);
	CHECK_STR(told, "");
	atomic_store(g.flag, 1);
	CHECK_EQ(cu.CtxSynchronize(), 0);
	CHECK_STR(told, "a");
	gate_free(&g);
	end();
}

static cuda_result in_function;

static void call_cuda(void *data)
{
	in_function = cu.EventQuery(data);
}

TEST(host_functions_call_nothing)
{
	cuda_event e;

	begin(NULL);
	CHECK_EQ(cu.EventCreate(&e, 0), 0);
	CHECK_EQ(cu.LaunchHostFunc(NULL, call_cuda, e), 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	forgive(1);
	CHECK_EQ(in_function, CUABI_NOT_PERMITTED);
	CHECK_EQ(cu.EventDestroy(e), 0);
	end();
}

TEST(streams_have_contexts)
{
	cuda_context ctx, other;
	cuda_stream s;

	begin(NULL);
	s = stream_make(0);
	CHECK_EQ(cux.CtxCreate(&other, 0, 0), 0);
	CHECK_EQ(cu.StreamGetCtx(s, &ctx), 0);
	CHECK(ctx == primary);
	CHECK_EQ(cu.StreamGetCtx(NULL, &ctx), 0);
	CHECK(ctx == other);
	CHECK_EQ(cu.StreamGetCtx(CUABI_STREAM_PER_THREAD, &ctx), 0);
	CHECK(ctx == other);
	CHECK_WRONG(cu.StreamGetCtx((cuda_stream)&ctx, &ctx),
		    CUABI_INVALID_HANDLE);
	CHECK_EQ(cux.CtxDestroy(other), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

/* ---------------------------------------------------------------- captures */

static int capture_status(cuda_stream s)
{
	int status = -1;

	CHECK_EQ(cu.StreamIsCapturing(s, &status), 0);
	return status;
}

TEST(captures_record)
{
	void *graph;
	cuda_stream s;
	cuda_event e;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.EventCreate(&e, 0), 0);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_NONE);
	CHECK_WRONG(cux.StreamEndCapture(s, &graph), CUABI_INVALID_VALUE);
	CHECK_WRONG(cux.StreamBeginCapture(NULL, 0), CUABI_INVALID_VALUE);
	CHECK_WRONG(cux.StreamBeginCapture(s, 3), CUABI_INVALID_VALUE);
	CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
	CHECK_WRONG(cux.StreamBeginCapture(s, 0), CUABI_INVALID_VALUE);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_ACTIVE);
	told[0] = '\0';
	TELL(s, 'a');
	CHECK_EQ(cu.EventRecord(e, s), 0);
	CHECK_EQ(fake->pending, 0);
	CHECK_EQ(cux.StreamEndCapture(s, &graph), 0);
	CHECK(graph);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_NONE);
	/* The event is the graph's. */
	CHECK_WRONG(cu.EventQuery(e), CUABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_WRONG(cu.EventSynchronize(e), CUABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_WRONG(cu.StreamWaitEvent(NULL, e, 0), CUABI_NOT_SUPPORTED);
	CHECK_EQ(cu.StreamSynchronize(s), 0);
	CHECK_STR(told, "");
	CHECK_EQ(cu.EventRecord(e, s), 0);
	CHECK_EQ(cu.EventSynchronize(e), 0);
	CHECK_EQ(cux.GraphDestroy(graph), 0);
	CHECK_WRONG(cux.GraphDestroy(graph), CUABI_INVALID_VALUE);
	/* A stream may go while it captures. */
	CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
	TELL(s, 'b');
	CHECK_EQ(cu.StreamDestroy(s), 0);
	CHECK_EQ(cu.EventDestroy(e), 0);
	end();
}

/* One call of each kind that a capture may forbid. */
static cuda_result unsafe(int which, cuda_event e, void *p)
{
	cuda_pointer d;
	cuda_result ret;
	void *h;

	switch (which) {
	case 0:
		ret = cu.MemAlloc(&d, 8);
		return ret ? ret : cu.MemFree(d);
	case 1:
		ret = cu.MemHostAlloc(&h, 8, 0);
		return ret ? ret : cu.MemFreeHost(h);
	case 2:
		ret = cu.MemHostRegister(p, 8, 0);
		return ret ? ret : cu.MemHostUnregister(p);
	case 3:
		return cu.EventQuery(e);
	case 4:
		return cu.StreamSynchronize(NULL);
	case 5:
		return cu.CtxSynchronize();
	case 6:
		return cu.EventSynchronize(e);
	default:
		return -1;
	}
}

static int other_mode;
static cuda_result other_result;

static void *other_thread(void *data)
{
	int mode = other_mode;
	cuda_pointer d;

	(void)data;
	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	CHECK_EQ(cu.ThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(mode, CUABI_STREAM_CAPTURE_MODE_GLOBAL);
	other_result = cu.MemAlloc(&d, 8);
	if (!other_result)
		CHECK_EQ(cu.MemFree(d), 0);
	return NULL;
}

static cuda_result in_other_thread(int mode)
{
	pthread_t thread;

	other_mode = mode;
	REQUIRE(!pthread_create(&thread, NULL, other_thread, NULL));
	pthread_join(thread, NULL);
	return other_result;
}

TEST(captures_forbid)
{
	void *graph, *p = map_memory(PROT_READ | PROT_WRITE);
	int mode = CUABI_STREAM_CAPTURE_MODE_RELAXED;
	cuda_stream s;
	cuda_event e;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.EventCreate(&e, 0), 0);
	for (int i = 0; i < 7; i++) {
		CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
		CHECK_WRONG(unsafe(i, e, p), CUABI_STREAM_CAPTURE_UNSUPPORTED);
		CHECK_EQ(capture_status(s),
			 CUABI_STREAM_CAPTURE_STATUS_INVALIDATED);
		CHECK_WRONG(cu.EventRecord(e, s),
			    CUABI_STREAM_CAPTURE_INVALIDATED);
		CHECK_REFUSED(cux.StreamEndCapture(s, &graph),
			      CUABI_STREAM_CAPTURE_INVALIDATED);
		CHECK(!graph);
	}
	/* A thread that says it knows is not stopped, and stops nothing. */
	CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
	CHECK_EQ(cu.ThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(mode, CUABI_STREAM_CAPTURE_MODE_GLOBAL);
	for (int i = 0; i < 7; i++)
		CHECK_EQ(unsafe(i, e, p), 0);
	CHECK_WRONG(cux.StreamQuery(s), CUABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_REFUSED(cux.StreamEndCapture(s, &graph),
		      CUABI_STREAM_CAPTURE_INVALIDATED);
	CHECK_EQ(cu.ThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(mode, CUABI_STREAM_CAPTURE_MODE_RELAXED);
	mode = 3;
	CHECK_WRONG(cu.ThreadExchangeStreamCaptureMode(&mode),
		    CUABI_INVALID_VALUE);
	CHECK_EQ(cu.EventDestroy(e), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	munmap(p, REGISTER_BYTES);
	end();
}

static void *end_elsewhere(void *data)
{
	void *graph;

	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	other_result = cux.StreamEndCapture(data, &graph);
	CHECK(!graph == !!other_result);
	if (graph)
		CHECK_EQ(cux.GraphDestroy(graph), 0);
	return NULL;
}

/* Two at once; who has begun one ends it, unless it is relaxed. */
TEST(captures_end_where_they_began)
{
	cuda_stream relaxed, s;
	pthread_t thread;
	void *graph;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	relaxed = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cux.StreamBeginCapture(s, 0), 0);
	CHECK_EQ(cux.StreamBeginCapture(relaxed,
				CUABI_STREAM_CAPTURE_MODE_RELAXED), 0);
	REQUIRE(!pthread_create(&thread, NULL, end_elsewhere, s));
	pthread_join(thread, NULL);
	CHECK_EQ(other_result, CUABI_STREAM_CAPTURE_WRONG_THREAD);
	forgive(1);
	REQUIRE(!pthread_create(&thread, NULL, end_elsewhere, relaxed));
	pthread_join(thread, NULL);
	CHECK_EQ(other_result, 0);
	/* The other one is not over, and still forbids. */
	CHECK_WRONG(cu.CtxSynchronize(), CUABI_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_REFUSED(cux.StreamEndCapture(s, &graph),
		      CUABI_STREAM_CAPTURE_INVALIDATED);
	CHECK_EQ(cu.StreamDestroy(relaxed), 0);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	CHECK_WRONG(cux.StreamBeginCapture(s, 0), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cux.StreamEndCapture(s, &graph), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cux.StreamQuery(s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.MemsetD8Async(0, 0, 1, s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.MemcpyHtoDAsync(0, &s, 1, s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.MemcpyDtoHAsync(&s, 0, 1, s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.StreamWaitValue32(s, 0, 0, 0), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.LaunchHostFunc(s, tell, NULL), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.StreamWaitEvent(s, NULL, 0), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.StreamWaitEvent(NULL, NULL, 0), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.EventRecord(NULL, NULL), CUABI_INVALID_HANDLE);
	end();
}

TEST(captures_and_threads)
{
	static const struct {
		int capture, thread;
		bool forbidden;
	} cases[] = {
		{ 0, 0, true }, { 0, 1, false }, { 0, 2, false },
		{ 1, 0, false }, { 2, 0, false },
	};
	void *graph;
	cuda_stream s;

	begin(NULL);
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cuda_result ret;

		CHECK_EQ(cux.StreamBeginCapture(s, cases[i].capture), 0);
		ret = in_other_thread(cases[i].thread);
		CHECK_EQ(!!ret, cases[i].forbidden);
		CHECK_EQ(fake->wrong, cases[i].forbidden);
		fake->wrong = 0;
		CHECK_EQ(!!cux.StreamEndCapture(s, &graph), cases[i].forbidden);
		if (graph)
			CHECK_EQ(cux.GraphDestroy(graph), 0);
	}
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

TEST(legacy_stream_and_captures)
{
	void *graph;
	cuda_stream s;
	int status;

	begin(NULL);
	s = stream_make(0);
	CHECK_EQ(cux.StreamBeginCapture(s, 2), 0);
	CHECK_REFUSED(cu.StreamIsCapturing(NULL, &status),
		      CUABI_STREAM_CAPTURE_IMPLICIT);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_ACTIVE);
	CHECK_WRONG(cu.LaunchHostFunc(NULL, tell, NULL),
		    CUABI_STREAM_CAPTURE_IMPLICIT);
	CHECK_EQ(capture_status(s), CUABI_STREAM_CAPTURE_STATUS_INVALIDATED);
	CHECK_REFUSED(cux.StreamEndCapture(s, &graph),
		      CUABI_STREAM_CAPTURE_INVALIDATED);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	/* One that does not block is none of its business. */
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cux.StreamBeginCapture(s, 2), 0);
	CHECK_EQ(capture_status(NULL), CUABI_STREAM_CAPTURE_STATUS_NONE);
	CHECK_EQ(cu.StreamDestroy(s), 0);
	end();
}

/* ---------------------------------------------------------------- externals */

static cuda_result import(int type, int fd, size_t bytes, unsigned int flags,
			  cuda_external_memory *memory)
{
	struct cuda_memory_desc desc = {
		.type = type, .handle.fd = fd, .size = bytes, .flags = flags,
	};

	return cu.ImportExternalMemory(memory, &desc);
}

static cuda_result map_buffer(cuda_external_memory memory, size_t offset,
			      size_t bytes, unsigned int flags, cuda_pointer *p)
{
	struct cuda_buffer_desc desc = {
		.offset = offset, .size = bytes, .flags = flags,
	};

	return cu.ExternalMemoryGetMappedBuffer(p, memory, &desc);
}

TEST(opaque_memory)
{
	int fd = memfd_of(8192), same = dup(fd), type = CUABI_MEMORY_OPAQUE_FD;
	cuda_external_memory m;
	cuda_pointer p, whole;
	char out[8];
	int pipes[2];

	begin(NULL);
	REQUIRE(!pipe(pipes));
	CHECK_WRONG(import(2, fd, 8192, 0, &m), CUABI_INVALID_VALUE);
	CHECK_WRONG(import(type, fd, 8193, 0, &m), CUABI_INVALID_VALUE);
	CHECK_WRONG(import(type, fd, 0, 0, &m), CUABI_INVALID_VALUE);
	CHECK_WRONG(import(type, fd, 8192, 2, &m), CUABI_INVALID_VALUE);
	CHECK_WRONG(import(type, pipes[0], 1, 0, &m), CUABI_INVALID_VALUE);
	/* dup() does not set the flag. */
	CHECK_WRONG(import(type, same, 8192, 0, &m), 0);
	CHECK_EQ(cu.DestroyExternalMemory(m), 0);
	CHECK_EQ(fcntl(same, F_GETFD), -1);
	same = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	CHECK_EQ(import(type, same, 8192, CUABI_EXTERNAL_MEMORY_DEDICATED, &m),
		 0);
	CHECK_WRONG(map_buffer(m, 4096, 4097, 0, &p), CUABI_INVALID_VALUE);
	CHECK_WRONG(map_buffer(m, SIZE_MAX, 2, 0, &p), CUABI_INVALID_VALUE);
	CHECK_WRONG(map_buffer(m, 0, 0, 0, &p), CUABI_INVALID_VALUE);
	CHECK_WRONG(map_buffer(m, 0, 8192, 1, &p), CUABI_INVALID_VALUE);
	CHECK_EQ(map_buffer(m, 4096, 4096, 0, &p), 0);
	CHECK_EQ(map_buffer(m, 0, 8192, 0, &whole), 0);
	CHECK(!cpu_can_read(p));
	CHECK_EQ(pwrite(fd, "shared", 7, 4096), 7);
	CHECK_EQ(cux.MemcpyDtoH(out, p, 7), 0);
	CHECK_STR(out, "shared");
	CHECK_EQ(cux.MemcpyDtoH(out, whole + 4098, 5), 0);
	CHECK_STR(out, "ared");
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK(!is_mapped(p));
	CHECK_WRONG(cu.DestroyExternalMemory(m), 0);
	CHECK_WRONG(cu.MemFree(whole), CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.DestroyExternalMemory(m), CUABI_INVALID_HANDLE);
	CHECK_WRONG(map_buffer(m, 0, 8, 0, &p), CUABI_INVALID_HANDLE);
	/* An fd that was given is not the giver's any more. */
	same = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	CHECK_EQ(import(type, same, 8192, 0, &m), 0);
	close(same);
	CHECK_WRONG(cu.DestroyExternalMemory(m), 0);
	end();
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

TEST(dma_bufs_in)
{
	int fd = memfd_of(8192), type = CUABI_MEMORY_DMABUF_FD;
	cuda_external_memory m;
	cuda_pointer p;

	begin("memfds");
	CHECK_REFUSED(import(type, fd, 8192, 0, &m), CUABI_NOT_SUPPORTED);
	fake->dmabuf_result = CUABI_INVALID_VALUE;
	CHECK_REFUSED(import(type, fd, 8192, 0, &m), CUABI_INVALID_VALUE);
	end();
	begin("thor");
	CHECK_WRONG(import(type, fd, 8192, 0, &m), CUABI_INVALID_VALUE);
	end();
	begin("thor,memfds");
	CHECK_WRONG(import(type, fd, 8192, 1, &m), CUABI_INVALID_VALUE);
	CHECK_WRONG(import(type, fd, 9000, 0, &m), CUABI_INVALID_VALUE);
	CHECK_EQ(import(type, fd, 8192, 0, &m), 0);
	CHECK_EQ(map_buffer(m, 0, 8192, 0, &p), 0);
	CHECK_EQ(cu.MemsetD8Async(p, 1, 8192, NULL), 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK_EQ(cu.DestroyExternalMemory(m), 0);
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
	end();
}

static cuda_result import_semaphore(int type, int fd, unsigned int flags,
				    cuda_external_semaphore *s)
{
	struct cuda_semaphore_desc desc = {
		.type = type, .handle.fd = fd, .flags = flags,
	};

	return cu.ImportExternalSemaphore(s, &desc);
}

TEST(timelines)
{
	struct cuda_semaphore_params at = { .value = 5 };
	int type = CUABI_SEMAPHORE_TIMELINE_FD, fd = memfd_of(4096);
	int small = memfd_of(8), mine = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	struct fake_timeline *t;
	cuda_external_semaphore s;

	t = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(t != MAP_FAILED);
	begin("notimeline");
	CHECK_REFUSED(import_semaphore(type, mine, 0, &s), CUABI_NOT_SUPPORTED);
	end();
	begin(NULL);
	CHECK_WRONG(import_semaphore(7, mine, 0, &s), CUABI_INVALID_VALUE);
	CHECK_WRONG(import_semaphore(type, mine, 1, &s), CUABI_INVALID_VALUE);
	CHECK_REFUSED(import_semaphore(1, mine, 0, &s), CUABI_NOT_SUPPORTED);
	CHECK_REFUSED(import_semaphore(type, small, 0, &s),
		      CUABI_INVALID_VALUE);
	CHECK_EQ(import_semaphore(type, mine, 0, &s), 0);
	told[0] = '\0';
	CHECK_EQ(cu.WaitExternalSemaphoresAsync(&s, &at, 1, NULL), 0);
	TELL(NULL, 'a');
	CHECK_EQ(cux.StreamQuery(NULL), CUABI_NOT_READY);
	t->value = 6;
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	CHECK_STR(told, "a");
	at.value = 9;
	CHECK_EQ(cu.SignalExternalSemaphoresAsync(&s, &at, 1, NULL), 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	CHECK_EQ(t->value, 9);
	/* A timeline goes up. */
	CHECK_EQ(cu.SignalExternalSemaphoresAsync(&s, &at, 1, NULL), 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	forgive(1);
	at.flags = 1;
	CHECK_WRONG(cu.WaitExternalSemaphoresAsync(&s, &at, 1, NULL),
		    CUABI_INVALID_VALUE);
	/* It is not destroyed while a stream waits for it. */
	at = (struct cuda_semaphore_params){ .value = 10 };
	CHECK_EQ(cu.WaitExternalSemaphoresAsync(&s, &at, 1, NULL), 0);
	CHECK_WRONG(cu.DestroyExternalSemaphore(s), 0);
	CHECK_WRONG(cu.DestroyExternalSemaphore(s), CUABI_INVALID_HANDLE);
	CHECK_WRONG(cu.SignalExternalSemaphoresAsync(&s, &at, 1, NULL),
		    CUABI_INVALID_HANDLE);
	CHECK_EQ(fcntl(mine, F_GETFD), -1);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	end();
	munmap(t, 4096);
	close(fd);
	close(small);
}

/* ---------------------------------------------------------------- exports */

static cuda_result export(cuda_pointer p, size_t bytes, unsigned int flags,
			  int *fd)
{
	return cu.MemGetHandleForAddressRange(fd, p, bytes,
				CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

static bool has_udmabuf(void)
{
	return !access("/dev/udmabuf", R_OK | W_OK);
}

/* The exported memory and the device's are the same. */
static void check_export(cuda_pointer p, size_t at, int fd, size_t bytes)
{
	char *m;

	CHECK_EQ(lseek(fd, 0, SEEK_END), bytes);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(m != MAP_FAILED);
	CHECK_EQ(cu.MemsetD8Async(p, 0x5a, 16, NULL), 0);
	CHECK_EQ(cu.StreamSynchronize(NULL), 0);
	CHECK_EQ(m[at], 0x5a);
	CHECK_EQ(m[at + 15], 0x5a);
	munmap(m, bytes);
}

TEST(dma_bufs_out)
{
	cuda_pointer p, odd;
	int fd = -1;
	void *h;

	begin("memfds");
	CHECK_EQ(cu.MemAlloc(&odd, 512), 0);
	CHECK_EQ(cu.MemAlloc(&p, 8192), 0);
	CHECK_EQ(cu.MemHostAlloc(&h, 8192, 0), 0);
	CHECK_WRONG(export(p + 1, 4096, 0, &fd), CUABI_INVALID_VALUE);
	CHECK_WRONG(export(p, 100, 0, &fd), CUABI_INVALID_VALUE);
	CHECK_WRONG(export(p, 0, 0, &fd), CUABI_INVALID_VALUE);
	CHECK_WRONG(export(p, 8192, 2, &fd), CUABI_INVALID_VALUE);
	CHECK_WRONG(export(p, 4 << 20, 0, &fd), CUABI_INVALID_VALUE);
	CHECK_WRONG(export((uintptr_t)&p & -4096ul, 4096, 0, &fd),
		    CUABI_INVALID_VALUE);
	CHECK_WRONG(cu.MemGetHandleForAddressRange(&fd, p, 8192, 2, 0),
		    CUABI_INVALID_VALUE);
	CHECK_REFUSED(export(p, 8192, 1, &fd), CUABI_NOT_SUPPORTED);
	CHECK_REFUSED(export((uintptr_t)h, 8192, 0, &fd), CUABI_NOT_SUPPORTED);
	CHECK_EQ(fd, -1);
	CHECK_EQ(export(p, 8192, 0, &fd), 0);
	check_export(p, 0, fd, 8192);
	close(fd);
	/* A memfd stands for all of itself, if it may. */
	if (!has_udmabuf()) {
		CHECK_REFUSED(export(p + 4096, 4096, 0, &fd),
			      CUABI_NOT_SUPPORTED);
		CHECK_REFUSED(export(p, 4096, 0, &fd), CUABI_NOT_SUPPORTED);
		fake->memfd_exports = false;
		CHECK_REFUSED(export(p, 8192, 0, &fd), CUABI_NOT_SUPPORTED);
		fake->memfd_exports = true;
	}
	fake->devices[0].pcie = fake->devices[0].host_export = true;
	CHECK_EQ(export(p, 8192, 1, &fd), 0);
	close(fd);
	CHECK_EQ(export((uintptr_t)h, 8192, 0, &fd), 0);
	check_export((uintptr_t)h, 0, fd, 8192);
	close(fd);
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK_EQ(cu.MemFree(odd), 0);
	CHECK_EQ(cu.MemFreeHost(h), 0);
	end();
	begin("noexport");
	CHECK_EQ(cu.MemAlloc(&p, 4096), 0);
	CHECK_REFUSED(export(p, 4096, 0, &fd), CUABI_NOT_SUPPORTED);
	CHECK_EQ(cu.MemFree(p), 0);
	end();
}

/* Real ones, where there are: the pages around a small allocation. */
TEST(udmabufs_out_and_in)
{
	cuda_external_memory m;
	cuda_pointer p[2];
	size_t at;
	int fd;

	if (!has_udmabuf())
		SKIP("no /dev/udmabuf");
	begin("thor");
	CHECK_EQ(cu.MemAlloc(&p[0], 4096), 0);
	CHECK_EQ(cu.MemAlloc(&p[1], 600), 0);
	CHECK_EQ(cu.MemFree(p[0]), 0);
	CHECK_EQ(cu.MemAlloc(&p[0], 600), 0);
	at = p[0] % 4096;
	CHECK(at);
	CHECK_EQ(export(p[0] - at, 8192, 0, &fd), 0);
	check_export(p[0], at, fd, 8192);
	CHECK_REFUSED(import(CUABI_MEMORY_OPAQUE_FD, fd, 8192, 0, &m),
		      CUABI_UNKNOWN);
	CHECK_EQ(import(CUABI_MEMORY_DMABUF_FD, fd, 8192, 0, &m), 0);
	CHECK_EQ(cu.DestroyExternalMemory(m), 0);
	CHECK_EQ(cu.MemFree(p[0]), 0);
	CHECK_EQ(cu.MemFree(p[1]), 0);
	end();
}

/* ---------------------------------------------------------------- failures */

TEST(calls_fail_when_told)
{
	cuda_pointer p;
	void *h;

	begin(NULL);
	fake->failing = "cuMemAlloc_v2";
	fake->result = CUABI_OUT_OF_MEMORY;
	fake->spared = 1;
	CHECK_EQ(cu.MemAlloc(&p, 8), 0);
	CHECK_REFUSED(cu.MemAlloc(&p, 8), CUABI_OUT_OF_MEMORY);
	CHECK_REFUSED(cu.MemAlloc(&p, 8), CUABI_OUT_OF_MEMORY);
	CHECK_EQ(cu.MemHostAlloc(&h, 8, 0), 0);
	fake->failing = NULL;
	fake->fail_at = 2;
	fake->result = CUABI_LAUNCH_FAILED;
	fake->calls = 0;
	/* What frees has freed. */
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK_REFUSED(cu.MemFreeHost(h), CUABI_LAUNCH_FAILED);
	CHECK_EQ(fake->live[FAKE_HOST_MEMORY], 0);
	CHECK_EQ(cu.MemAlloc(&p, 8), 0);
	CHECK_EQ(fake->calls, 3);
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK_EQ(fake->made[FAKE_DEVICE_MEMORY], 2);
	end();
}

TEST(lost_for_good)
{
	struct gate g;
	cuda_stream s;
	cuda_event e;
	cuda_pointer p;

	begin(NULL);
	g = gate_make();
	s = stream_make(CUABI_STREAM_NON_BLOCKING);
	CHECK_EQ(cu.EventCreate(&e, 0), 0);
	told[0] = '\0';
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 1, 0), 0);
	TELL(s, 'a');
	CHECK_EQ(cu.EventRecord(e, s), 0);
	fake->lost = CUABI_ILLEGAL_ADDRESS;
	CHECK_REFUSED(cu.StreamSynchronize(s), CUABI_ILLEGAL_ADDRESS);
	CHECK_REFUSED(cu.MemAlloc(&p, 8), CUABI_ILLEGAL_ADDRESS);
	CHECK_REFUSED(cu.EventQuery(e), CUABI_ILLEGAL_ADDRESS);
	CHECK_REFUSED(cu.EventDestroy(e), CUABI_ILLEGAL_ADDRESS);
	CHECK_REFUSED(cu.StreamDestroy(s), CUABI_ILLEGAL_ADDRESS);
	for (int kind = FAKE_STREAM; kind < FAKE_KINDS; kind++)
		CHECK_EQ(fake->live[kind], 0);
	CHECK_EQ(cu.CtxPopCurrent(NULL), 0);
	CHECK_EQ(cu.CtxPushCurrent(primary), 0);
	CHECK_STR(told, "");
	CHECK_REFUSED(cu.MemFreeHost((void *)g.flag), CUABI_ILLEGAL_ADDRESS);
	CHECK_EQ(fake->live[FAKE_HOST_MEMORY], 0);
	CHECK_EQ(cu.CtxPopCurrent(NULL), 0);
	CHECK_REFUSED(cu.DevicePrimaryCtxRelease(0), CUABI_ILLEGAL_ADDRESS);
	CHECK_EQ(fake->live[FAKE_CONTEXT], 0);
	fake_fn(true);
	CHECK_EQ(fake->lost, 0);
	dlclose(fake_lib);
}

static char looked[64];

static void look(const char *call)
{
	strcpy(looked, call);
	CHECK(fake_fn(false) == fake);
}

TEST(calls_are_seen)
{
	cuda_pointer p;

	begin(NULL);
	fake->look = look;
	CHECK_EQ(cu.MemAlloc(&p, 8), 0);
	CHECK_STR(looked, "cuMemAlloc_v2");
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK_STR(looked, "cuMemFree_v2");
	end();
}

/* A reset ends what would wait for ever. */
TEST(resets_end_everything)
{
	struct gate g;
	cuda_stream s;

	begin(NULL);
	g = gate_make();
	s = stream_make(0);
	CHECK_EQ(cu.StreamWaitValue32(s, g.address, 1, 0), 0);
	told[0] = '\0';
	TELL(s, 'a');
	fake_fn(true);
	CHECK_STR(told, "");
	CHECK_EQ(fake->pending, 0);
	CHECK_EQ(fake->live[FAKE_STREAM], 0);
	CHECK_WRONG(cu.StreamDestroy(s), CUABI_NOT_INITIALIZED);
	CHECK_EQ(cu.Init(0), 0);
	CHECK_WRONG(cu.StreamDestroy(s), CUABI_INVALID_CONTEXT);
	dlclose(fake_lib);
}

/* An old driver lacks what is OPTIONAL, and nothing else. */
TEST(old_drivers_lack_functions)
{
	enum { NEEDED, OPTIONAL };
	static const struct {
		const char *symbol;
		int optional;
	} symbols[] = {
#define X(name, symbol, needed, params) { #symbol, needed },
		CUDA_FUNCTIONS(X)
		CUDA_EGL_FUNCTIONS(X)
#undef X
	};
	void *old = open_double("libcuda-old.so");

	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		CHECK_MSG(!dlsym(old, symbols[i].symbol) ==
			  (symbols[i].optional == OPTIONAL), "%s",
			  symbols[i].symbol);
	CHECK(dlsym(old, "fake_cuda"));
	dlclose(old);
}

TEST(strict_ones_end_the_process)
{
	int status = 0;
	pid_t child;

	begin_cold("strict");
	child = fork();
	REQUIRE(child >= 0);
	if (!child) {
		freopen("/dev/null", "w", stderr);
		cu.Init(1);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGABRT);
	end_cold();
}
#else
TEST(cuda_double)
{
	SKIP("the backend is not built");
}
#endif

KTAP_MAIN()
