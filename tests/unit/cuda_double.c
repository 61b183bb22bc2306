// SPDX-License-Identifier: MIT
/*
 * The double of CUDA's driver (tests/fakes/cuda.h) itself, what it allows and
 * what it refuses: devices, memory, failures. Tests of the backend lean on both.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include "cuda_double.h"

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

#define NOWHERE ((void *)4096)

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
