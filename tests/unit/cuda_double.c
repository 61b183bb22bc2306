// SPDX-License-Identifier: MIT
/*
 * The rules of the double of CUDA's driver (tests/doubles/cuda.h): its refusals of
 * calls, its memory, its imports and exports. The tests of the backend, which use
 * both, prove its correct use.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>

#include "cuda_double.h"

/* ---------------------------------------------------------------- calls */

TEST(nothing_before_init)
{
	int n;

	load("libcuda.so", "");
	WRONG(NOT_INITIALIZED, cu.DeviceGetCount(&n));
	WRONG(NOT_INITIALIZED, cu.DevicePrimaryCtxRetain(&primary, 0));
	WRONG(INVALID_VALUE, cu.Init(1));
	OK(cu.DriverGetVersion(&n));
	fake->ndevices = 0;
	FAILS(NO_DEVICE, cu.Init(0));
	end_cold();
}

DOUBLE_CASE(devices, "two")
{
	struct cuda_uuid uuid;
	char name[32];
	int n;

	WRONG(INVALID_DEVICE, cu.DeviceGet(&n, 2));
	WRONG(INVALID_DEVICE, cu.DeviceGetName(name, sizeof(name), -1));
	WRONG(INVALID_VALUE, cu.DeviceGetName(name, 0, 0));
	WRONG(INVALID_DEVICE, cu.DeviceGetUuid(&uuid, 2));
	WRONG(INVALID_DEVICE, cu.DeviceGetAttribute(&n, 18, -1));
	FAILS(INVALID_VALUE, cu.DeviceGetAttribute(&n, 9999, 0));
}

TEST(contexts)
{
	cuda_context a, b, c;
	cuda_pointer p;
	int dev;

	load("libcuda.so", "two");
	OK(cu.Init(0));
	WRONG(INVALID_CONTEXT, cu.MemAlloc(&p, 16));
	WRONG(INVALID_CONTEXT, cu.CtxGetDevice(&dev));
	WRONG(INVALID_CONTEXT, cu.CtxPopCurrent(&a));
	WRONG(INVALID_CONTEXT, cu.DevicePrimaryCtxRelease(0));
	WRONG(INVALID_DEVICE, cu.DevicePrimaryCtxRelease(2));
	WRONG(INVALID_DEVICE, cu.DevicePrimaryCtxRetain(&a, 2));
	WRONG(INVALID_DEVICE, cux.CtxCreate(&a, 0, 2));
	OK(cu.DevicePrimaryCtxRetain(&a, 1));
	OK(cu.DevicePrimaryCtxRetain(&b, 1));
	CHECK(a == b);
	CHECK_EQ(fake->live[FAKE_CONTEXT], 2);
	OK(cux.CtxCreate(&b, 0, 0));
	OK(cu.CtxPushCurrent(a));
	OK(cu.CtxGetDevice(&dev));
	CHECK_EQ(dev, 1);
	OK(cu.CtxPopCurrent(&c));
	CHECK(c == a);
	OK(cu.CtxGetCurrent(&c));
	CHECK(c == b);
	OK(cux.CtxSetCurrent(a));
	OK(cux.CtxDestroy(b));
	WRONG(INVALID_CONTEXT, cu.CtxPushCurrent(b));
	WRONG(INVALID_CONTEXT, cux.CtxDestroy(a));
	WRONG(INVALID_CONTEXT, cux.CtxSetCurrent(b));
	for (int i = 0; i < 31; i++)
		OK(cu.CtxPushCurrent(a));
	WRONG(OUT_OF_MEMORY, cu.CtxPushCurrent(a));
	for (int i = 0; i < 31; i++)
		OK(cu.CtxPopCurrent(NULL));
	OK(cu.DevicePrimaryCtxRelease(1));
	OK(cu.DevicePrimaryCtxRelease(1));
	WRONG(CONTEXT_IS_DESTROYED, cu.MemAlloc(&p, 16));
	WRONG(CONTEXT_IS_DESTROYED, cu.StreamGetCtx(NULL, &c));
	WRONG(INVALID_CONTEXT, cu.CtxPushCurrent(a));
	/* It is still on the stack, and comes to life with the next retain. */
	OK(cu.DevicePrimaryCtxRetain(&c, 1));
	OK(cu.MemAlloc(&p, 16));
	WRONG(SUCCESS, cu.DevicePrimaryCtxRelease(1));
	CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
	OK(cux.CtxSetCurrent(NULL));
	WRONG(INVALID_CONTEXT, cu.CtxPopCurrent(NULL));
	WRONG(INVALID_CONTEXT, cu.StreamGetCtx(NULL, &c));
	end_cold();
}

static char looked[64];

static void look(const char *symbol)
{
	strcpy(looked, symbol);
	CHECK(fake_fn(false) == fake);
}

DOUBLE_CASE(calls_fail_when_told, "")
{
	cuda_pointer p;
	void *h;

	fake->look = look;
	fake->failing = "cuMemAlloc_v2";
	fake->result = CUABI_OUT_OF_MEMORY;
	fake->spared = 1;
	OK(cu.MemAlloc(&p, 8));
	CHECK_STR(looked, "cuMemAlloc_v2");
	FAILS(OUT_OF_MEMORY, cu.MemAlloc(&p, 8));
	FAILS(OUT_OF_MEMORY, cu.MemAlloc(&p, 8));
	OK(cu.MemHostAlloc(&h, 8, 0));
	fake->failing = NULL;
	fake->fail_at = 2;
	fake->result = CUABI_LAUNCH_FAILED;
	fake->calls = 0;
	/* A call that frees has freed. */
	OK(cu.MemFree(p));
	FAILS(LAUNCH_FAILED, cu.MemFreeHost(h));
	CHECK_EQ(fake->live[FAKE_HOST_MEMORY], 1);
	CHECK_EQ(fake->calls, 2);
	CHECK_EQ(fake->made[FAKE_DEVICE_MEMORY], 2);
}

TEST(lost_for_good)
{
	cuda_pointer p;

	begin("");
	wait_for(s, 1);
	add(s, 'a');
	OK(cu.EventRecord(e, s));
	fake->lost = CUABI_ILLEGAL_ADDRESS;
	FAILS(ILLEGAL_ADDRESS, cu.StreamSynchronize(s));
	FAILS(ILLEGAL_ADDRESS, cu.MemAlloc(&p, 8));
	FAILS(ILLEGAL_ADDRESS, cu.EventQuery(e));
	FAILS(ILLEGAL_ADDRESS, cu.EventDestroy(e));
	FAILS(ILLEGAL_ADDRESS, cu.StreamDestroy(s));
	OK(cu.CtxPopCurrent(NULL));
	OK(cu.CtxPushCurrent(primary));
	CHECK_STR(told, "");
	FAILS(ILLEGAL_ADDRESS, cu.MemFree(d));
	FAILS(ILLEGAL_ADDRESS, cu.MemFreeHost((void *)flag));
	OK(cu.CtxPopCurrent(NULL));
	OK(cu.DevicePrimaryCtxRelease(0));
	nothing_left();
	CHECK_EQ(fake->wrong, 0);
	fake_fn(true);
	end_cold();
}

/* A reset ends waits that would never end. */
TEST(resets_end_everything)
{
	begin("");
	wait_for(s, 1);
	add(s, 'a');
	fake_fn(true);
	CHECK_STR(told, "");
	WRONG(NOT_INITIALIZED, cu.StreamDestroy(s));
	OK(cu.Init(0));
	WRONG(INVALID_CONTEXT, cu.StreamDestroy(s));
	end_cold();
}

/* An old driver lacks exactly the OPTIONAL functions. */
TEST(old_drivers_lack_functions)
{
	enum { NEEDED, OPTIONAL };

	load("libcuda-old.so", "");
#define X(name, symbol, needed, params)					\
	CHECK_MSG((cu.name == NULL) == ((needed) == OPTIONAL), "%s", #symbol);
	CUDA_FUNCTIONS(X)
#undef X
	dlclose(fake_lib);
}

static void use_cuda(void)
{
	WRONG(NOT_INITIALIZED, cu.CtxSynchronize());
	WRONG(NOT_INITIALIZED, cu.Init(0));
	fake_fn(true);
	OK(cu.Init(0));
	dlclose(fake_lib);
}

static void do_wrong(void)
{
	freopen("/dev/null", "w", stderr);
	fake->strict = true;
	cu.Init(1);
}

DOUBLE_CASE(children, "")
{
	add(NULL, 'a');
	OK(cu.StreamSynchronize(NULL));
	CHECK(returned(child(use_cuda)));
	CHECK(aborted(child(do_wrong)));
}

/* ---------------------------------------------------------------- memory */

DOUBLE_CASE(device_memory, "")
{
	cuda_pointer p[3], base;
	char in[64] = { 7 };

	for (int i = 0; i < 3; i++)
		OK(cu.MemAlloc(&p[i], i == 2 ? 5 << 20 : 1000));
	/* Small ones share a block, 512 bytes apart; large ones do not. */
	CHECK_EQ(p[1], p[0] + 1024);
	CHECK_EQ(p[0] >> 21, p[1] >> 21);
	CHECK_EQ(p[2] % (2 << 20), 0);
	CHECK(!cpu_can_read(p[0]));
	FAILS(NOT_FOUND, cu.MemGetAddressRange(&base, NULL, p[1] + 1000));
	OK(cux.MemcpyHtoD(p[1] + 936, in, sizeof(in)));
	WRONG(INVALID_VALUE, cux.MemcpyHtoD(p[1] + 990, in, 11));
	WRONG(INVALID_VALUE, cux.MemcpyHtoD(p[1], (void *)(uintptr_t)p[0], 11));
	WRONG(INVALID_VALUE, cux.MemcpyHtoD(p[1], NOWHERE, 11));
	WRONG(INVALID_VALUE, cu.MemAlloc(&base, 0));
	FAILS(OUT_OF_MEMORY, cu.MemAlloc(&base, SIZE_MAX));
	WRONG(INVALID_VALUE, cu.MemFree(p[1] + 512));
	WRONG(INVALID_VALUE, cu.MemFree((uintptr_t)in));
	for (int i = 0; i < 3; i++)
		OK(cu.MemFree(p[i]));
	CHECK(!is_mapped(p[2]));
	WRONG(INVALID_VALUE, cu.MemFree(p[0]));
	WRONG(INVALID_VALUE, cux.MemcpyHtoD(p[0], in, 4));
	OK(cu.MemFree(0));
}

DOUBLE_CASE(host_memory, "")
{
	cuda_pointer p;
	void *h;

	OK(cu.MemHostAlloc(&h, 100, 0));
	WRONG(INVALID_VALUE, cu.MemHostGetDevicePointer(&p, h, 0));
	WRONG(INVALID_VALUE, cu.MemHostGetDevicePointer(&p, (void *)flag, 1));
	WRONG(INVALID_VALUE, cu.MemHostGetDevicePointer(&p, &p, 0));
	WRONG(INVALID_VALUE, cu.MemHostAlloc(&h, 0, 0));
	WRONG(INVALID_VALUE, cu.MemHostAlloc(&h, 1, 8));
	WRONG(INVALID_VALUE, cu.MemFreeHost((char *)h + 1));
	WRONG(INVALID_VALUE, cu.MemFree((uintptr_t)h));
	WRONG(HOST_MEMORY_NOT_REGISTERED, cu.MemHostUnregister(h));
	OK(cu.MemFreeHost(h));
	WRONG(INVALID_VALUE, cu.MemFreeHost(h));
}

DOUBLE_CASE(registration, "")
{
	unsigned int flags = CUABI_MEMHOSTREGISTER_DEVICEMAP;
	char *p = map(PROT_READ | PROT_WRITE, -1), *read_only = map(PROT_READ, -1);
	cuda_pointer q;

	WRONG(INVALID_VALUE, cu.MemHostRegister(NULL, 8, flags));
	WRONG(INVALID_VALUE, cu.MemHostRegister(p, 0, flags));
	WRONG(INVALID_VALUE, cu.MemHostRegister(p, 8, 16));
	OK(cu.MemHostRegister(p + 100, 4000, flags));
	FAILS(HOST_MEMORY_ALREADY_REGISTERED, cu.MemHostRegister(p, 101, flags));
	OK(cu.MemHostRegister(p, 100, 0));
	WRONG(INVALID_VALUE, cu.MemHostGetDevicePointer(&q, p, 0));
	WRONG(HOST_MEMORY_NOT_REGISTERED, cu.MemHostUnregister(p + 101));
	OK(cu.MemHostUnregister(p));
	OK(cu.MemHostUnregister(p + 100));
	/* Read-only memory is registered as read-only, and not written. */
	FAILS(INVALID_VALUE, cu.MemHostRegister(read_only, 100, flags));
	flags |= CUABI_MEMHOSTREGISTER_READ_ONLY;
	OK(cu.MemHostRegister(read_only, 100, flags));
	q = (uintptr_t)read_only;
	WRONG(INVALID_VALUE, cu.MemsetD8Async(q, 1, 10, NULL));
	WRONG(INVALID_VALUE, cux.MemcpyDtoH(read_only, d, 10));
	OK(cux.MemcpyHtoD(d, read_only, 10));
	/* Half pinned is neither. */
	WRONG(INVALID_VALUE, cux.MemcpyHtoD(d, read_only + 90, 20));
	OK(cu.MemHostRegister(p + 32, 32, 0));
	WRONG(INVALID_VALUE, cux.MemcpyHtoD(d, p, 33));
	OK(cu.MemHostUnregister(p + 32));
	OK(cu.MemHostUnregister(read_only));
	/* There is nothing, or nothing to be seen. */
	WRONG(INVALID_VALUE, cu.MemHostRegister(NOWHERE, 8, flags));
	replace(p);
	WRONG(INVALID_VALUE, cu.MemHostRegister(p, BYTES, flags));
	munmap(p, BYTES);
	munmap(read_only, BYTES);
}

/* If the device has another address, the CPU's address is not valid there. */
DOUBLE_CASE(aliases, "alias")
{
	char *p = map(PROT_READ | PROT_WRITE, -1), out[8];
	cuda_pointer q;

	OK(cu.MemHostRegister(p + 16, 4096, CUABI_MEMHOSTREGISTER_DEVICEMAP));
	OK(cu.MemHostGetDevicePointer(&q, p + 20, 0));
	CHECK(q != (uintptr_t)p + 20);
	CHECK(!cpu_can_read(q));
	WRONG(INVALID_VALUE, cux.MemcpyDtoH(out, (uintptr_t)p + 20, 5));
	OK(cu.MemHostUnregister(p + 16));
	CHECK(!is_mapped(q));
	munmap(p, BYTES);
}

DOUBLE_CASE(registration_that_a_device_lacks, "noregister")
{
	char *p = map(PROT_READ | PROT_WRITE, -1);

	FAILS(NOT_SUPPORTED, cu.MemHostRegister(p, 8, 0));
	end();
	begin("noreadonly");
	WRONG(NOT_SUPPORTED, cu.MemHostRegister(p, 8, CUABI_MEMHOSTREGISTER_READ_ONLY));
	FAILS(NOT_PERMITTED, cu.MemHostRegister(p, 8, CUABI_MEMHOSTREGISTER_IOMEMORY));
	fake->privileged = true;
	/* It is memory. */
	FAILS(INVALID_VALUE, cu.MemHostRegister(p, 8, CUABI_MEMHOSTREGISTER_IOMEMORY));
	munmap(p, BYTES);
}

/* A udmabuf's mapping has no pages that can be pinned; its memfd's has. */
TEST(pfn_mappings_are_not_pinned)
{
	struct udmabuf_create create = {
		.flags = UDMABUF_FLAGS_CLOEXEC, .size = BYTES,
	};
	int dev AUTO_FD = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int memfd AUTO_FD = -1, fd AUTO_FD = -1;
	unsigned int io = CUABI_MEMHOSTREGISTER_IOMEMORY;
	char *of_memfd, *of_udmabuf;

	if (dev < 0)
		SKIP("no /dev/udmabuf");
	memfd = memfd_create("pages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	REQUIRE(memfd >= 0 && !ftruncate(memfd, BYTES));
	REQUIRE(!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	create.memfd = (unsigned int)memfd;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	REQUIRE(fd >= 0);
	of_memfd = map(PROT_READ | PROT_WRITE, memfd);
	of_udmabuf = map(PROT_READ | PROT_WRITE, fd);
	begin("");
	OK(cu.MemHostRegister(of_memfd, BYTES, 0));
	FAILS(INVALID_VALUE, cu.MemHostRegister(of_udmabuf, BYTES, 0));
	FAILS(NOT_PERMITTED, cu.MemHostRegister(of_udmabuf, BYTES, io));
	fake->privileged = true;
	OK(cu.MemHostRegister(of_udmabuf, BYTES, io));
	OK(cu.MemHostUnregister(of_udmabuf));
	OK(cu.MemHostUnregister(of_memfd));
	end();
	munmap(of_memfd, BYTES);
	munmap(of_udmabuf, BYTES);
}

TEST(any_memory_is_the_devices_on_grace)
{
	char *p = map(PROT_READ | PROT_WRITE, -1), *read_only = map(PROT_READ, -1);
	cuda_pointer q = (uintptr_t)p;

	begin("grace");
	strcpy(p, "pages");
	OK(cu.MemcpyDtoHAsync(p + 8, q, 6, NULL));
	OK(cu.MemsetD8Async(q + 13, '!', 1, NULL));
	CHECK_EQ(fake->pageable_copies, 0);
	OK(cu.StreamSynchronize(NULL));
	CHECK_STR(p + 8, "pages!");
	OK(cu.MemHostRegister(read_only, 8, 0));
	OK(cu.MemHostUnregister(read_only));
	WRONG(INVALID_VALUE, cu.MemsetD8Async((uintptr_t)NOWHERE, 0, 1, NULL));
	end();
	begin("pc");
	WRONG(INVALID_VALUE, cu.MemsetD8Async(q, 0, 1, NULL));
	end();
	munmap(p, BYTES);
	munmap(read_only, BYTES);
}

DOUBLE_CASE(pointers, "")
{
	cuda_pointer m, q;
	unsigned int is;
	void *v;

	WRONG(INVALID_VALUE, cux.MemAllocManaged(&m, 100, 2));
	OK(cux.MemAllocManaged(&m, 100, CUABI_MEM_ATTACH_GLOBAL));
	CHECK(cpu_can_read(m));
	OK(cu.PointerGetAttribute(&is, CUABI_POINTER_IS_MANAGED, d));
	CHECK_EQ(is, 0);
	OK(cu.PointerGetAttribute(&is, CUABI_POINTER_IS_MANAGED, m));
	CHECK_EQ(is, 1);
	OK(cu.PointerGetAttribute(&q, CUABI_POINTER_DEVICE_POINTER, d + 9));
	CHECK_EQ(q, d + 9);
	OK(cu.PointerGetAttribute(&v, CUABI_POINTER_HOST_POINTER, word + 9));
	CHECK(v == (char *)flag + 9);
	FAILS(INVALID_VALUE, cu.PointerGetAttribute(&v, CUABI_POINTER_HOST_POINTER, d));
	WRONG(INVALID_VALUE, cu.PointerGetAttribute(&v, 99, d));
	FAILS(INVALID_VALUE, cu.PointerGetAttribute(&v, CUABI_POINTER_CONTEXT, (uintptr_t)&v));
	OK(cu.MemFree(m));
}

DOUBLE_CASE(memory_of_another_device, "two")
{
	unsigned int portable = CUABI_MEMHOSTREGISTER_PORTABLE | CUABI_MEMHOSTREGISTER_DEVICEMAP;
	char *p = map(PROT_READ | PROT_WRITE, -1);
	cuda_pointer q = (uintptr_t)p;
	cuda_context other;

	OK(cu.MemHostRegister(p, 64, 2));
	OK(cu.MemHostRegister(p + 64, 64, portable));
	OK(cux.CtxCreate(&other, 0, 1));
	WRONG(INVALID_VALUE, cu.MemsetD8Async(d, 0, 64, NULL));
	WRONG(INVALID_VALUE, cu.MemsetD8Async(q, 0, 64, NULL));
	OK(cu.MemsetD8Async(q + 64, 5, 64, NULL));
	OK(cu.MemsetD8Async(word, 6, 64, NULL));
	OK(cu.StreamSynchronize(NULL));
	CHECK_EQ(p[64], 5);
	CHECK_EQ(*flag, 0x06060606);
	OK(cux.CtxDestroy(other));
	OK(cu.MemHostUnregister(p));
	OK(cu.MemHostUnregister(p + 64));
	munmap(p, BYTES);
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
	int fd AUTO_FD = memfd_of(BYTES), same = dup(fd), type = CUABI_MEMORY_OPAQUE_FD;
	cuda_external_memory m;
	cuda_pointer p, whole;
	int pipes[2];

	begin("");
	REQUIRE(!pipe(pipes));
	WRONG(INVALID_VALUE, import(2, fd, BYTES, 0, &m));
	WRONG(INVALID_VALUE, import(type, fd, BYTES + 1, 0, &m));
	WRONG(INVALID_VALUE, import(type, fd, 0, 0, &m));
	WRONG(INVALID_VALUE, import(type, fd, BYTES, 2, &m));
	WRONG(INVALID_VALUE, import(type, pipes[0], 1, 0, &m));
	/* dup() does not set the flag. */
	WRONG(SUCCESS, import(type, same, BYTES, 0, &m));
	OK(cu.DestroyExternalMemory(m));
	CHECK_EQ(fcntl(same, F_GETFD), -1);
	same = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	OK(import(type, same, BYTES, CUABI_EXTERNAL_MEMORY_DEDICATED, &m));
	WRONG(INVALID_VALUE, map_buffer(m, 4096, 4097, 0, &p));
	WRONG(INVALID_VALUE, map_buffer(m, SIZE_MAX, 2, 0, &p));
	WRONG(INVALID_VALUE, map_buffer(m, 0, 0, 0, &p));
	WRONG(INVALID_VALUE, map_buffer(m, 0, BYTES, 1, &p));
	OK(map_buffer(m, 4096, 4096, 0, &p));
	OK(map_buffer(m, 0, BYTES, 0, &whole));
	CHECK(!cpu_can_read(p));
	OK(cu.MemFree(p));
	CHECK(!is_mapped(p));
	WRONG(SUCCESS, cu.DestroyExternalMemory(m));
	WRONG(INVALID_VALUE, cu.MemFree(whole));
	WRONG(INVALID_HANDLE, cu.DestroyExternalMemory(m));
	WRONG(INVALID_HANDLE, map_buffer(m, 0, 8, 0, &p));
	/* An fd that was given is not the giver's any more. */
	same = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	OK(import(type, same, BYTES, 0, &m));
	close(same);
	WRONG(SUCCESS, cu.DestroyExternalMemory(m));
	end();
	close(pipes[0]);
	close(pipes[1]);
}

DOUBLE_CASE(dma_bufs_in, "memfds")
{
	int fd = memfd_of(BYTES), type = CUABI_MEMORY_DMABUF_FD;
	cuda_external_memory m;

	FAILS(NOT_SUPPORTED, import(type, fd, BYTES, 0, &m));
	fake->dmabuf_result = CUABI_INVALID_VALUE;
	FAILS(INVALID_VALUE, import(type, fd, BYTES, 0, &m));
	end();
	begin("thor");
	WRONG(INVALID_VALUE, import(type, fd, BYTES, 0, &m));
	end();
	begin("thor,memfds");
	WRONG(INVALID_VALUE, import(type, fd, BYTES, 1, &m));
	WRONG(INVALID_VALUE, import(type, fd, BYTES + 1, 0, &m));
	OK(import(type, fd, BYTES, 0, &m));
	OK(cu.DestroyExternalMemory(m));
	/* It stays the caller's. */
	OK(close(fd));
}

static cuda_result import_semaphore(int type, int fd, unsigned int flags,
				    cuda_external_semaphore *semaphore)
{
	struct cuda_semaphore_desc desc = {
		.type = type, .handle.fd = fd, .flags = flags,
	};

	return cu.ImportExternalSemaphore(semaphore, &desc);
}

TEST(timelines)
{
	struct cuda_semaphore_params at = { .value = 5 };
	int type = CUABI_SEMAPHORE_TIMELINE_FD, fd AUTO_FD = memfd_of(BYTES);
	int small AUTO_FD = memfd_of(8), mine = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	struct fake_timeline *t = map(PROT_READ | PROT_WRITE, fd);
	cuda_external_semaphore x;

	begin("notimeline");
	FAILS(NOT_SUPPORTED, import_semaphore(type, mine, 0, &x));
	end();
	begin("");
	WRONG(INVALID_VALUE, import_semaphore(7, mine, 0, &x));
	WRONG(INVALID_VALUE, import_semaphore(type, mine, 1, &x));
	FAILS(NOT_SUPPORTED, import_semaphore(1, mine, 0, &x));
	FAILS(INVALID_VALUE, import_semaphore(type, small, 0, &x));
	OK(import_semaphore(type, mine, 0, &x));
	OK(cu.WaitExternalSemaphoresAsync(&x, &at, 1, s));
	CHECK_EQ(cux.StreamQuery(s), CUABI_NOT_READY);
	t->value = 6;
	OK(cu.StreamSynchronize(s));
	at.value = 9;
	OK(cu.SignalExternalSemaphoresAsync(&x, &at, 1, s));
	OK(cu.StreamSynchronize(s));
	CHECK_EQ(t->value, 9);
	/* A timeline goes up. */
	OK(cu.SignalExternalSemaphoresAsync(&x, &at, 1, s));
	OK(cu.StreamSynchronize(s));
	forgive(1);
	at.flags = 1;
	WRONG(INVALID_VALUE, cu.WaitExternalSemaphoresAsync(&x, &at, 1, s));
	/* It is not destroyed while a stream waits for it. */
	at = (struct cuda_semaphore_params){ .value = 10 };
	OK(cu.WaitExternalSemaphoresAsync(&x, &at, 1, s));
	WRONG(SUCCESS, cu.DestroyExternalSemaphore(x));
	WRONG(INVALID_HANDLE, cu.DestroyExternalSemaphore(x));
	WRONG(INVALID_HANDLE, cu.SignalExternalSemaphoresAsync(&x, &at, 1, s));
	CHECK_EQ(fcntl(mine, F_GETFD), -1);
	end();
	munmap(t, BYTES);
}

/* ---------------------------------------------------------------- exports */

static cuda_result export(cuda_pointer p, size_t bytes, unsigned int flags,
			  int *fd)
{
	return cu.MemGetHandleForAddressRange(fd, p, bytes,
				CUABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

/* The exported memory and the device's are the same. */
static void check_export(cuda_pointer p, size_t at, int fd)
{
	char *m = map(PROT_READ | PROT_WRITE, fd);

	CHECK_EQ(lseek(fd, 0, SEEK_END), BYTES);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	OK(cu.MemsetD8Async(p, 0x5a, 16, NULL));
	OK(cu.StreamSynchronize(NULL));
	CHECK_EQ(m[at], 0x5a);
	CHECK_EQ(m[at + 15], 0x5a);
	munmap(m, BYTES);
	close(fd);
}

static bool has_udmabuf(void)
{
	return !access("/dev/udmabuf", R_OK | W_OK);
}

DOUBLE_CASE(dma_bufs_out, "memfds")
{
	cuda_pointer p, h;
	int fd = -1;
	void *host;

	OK(cu.MemAlloc(&p, BYTES));
	OK(cu.MemHostAlloc(&host, BYTES, 0));
	h = (uintptr_t)host;
	WRONG(INVALID_VALUE, export(p + 1, 4096, 0, &fd));
	WRONG(INVALID_VALUE, export(p, 100, 0, &fd));
	WRONG(INVALID_VALUE, export(p, 0, 0, &fd));
	WRONG(INVALID_VALUE, export(p, BYTES, 2, &fd));
	WRONG(INVALID_VALUE, export(p, 4 << 20, 0, &fd));
	WRONG(INVALID_VALUE, export((uintptr_t)&p & -4096ul, 4096, 0, &fd));
	WRONG(INVALID_VALUE, cu.MemGetHandleForAddressRange(&fd, p, BYTES, 2, 0));
	FAILS(NOT_SUPPORTED, export(p, BYTES, 1, &fd));
	FAILS(INVALID_VALUE, export(h, BYTES, 0, &fd));
	CHECK_EQ(fd, -1);
	OK(export(p, BYTES, 0, &fd));
	check_export(p, 0, fd);
	/* A memfd is exported whole, if the allocation allows it. */
	if (!has_udmabuf()) {
		FAILS(NOT_SUPPORTED, export(p + 4096, 4096, 0, &fd));
		FAILS(NOT_SUPPORTED, export(p, 4096, 0, &fd));
		fake->memfd_exports = false;
		FAILS(NOT_SUPPORTED, export(p, BYTES, 0, &fd));
		fake->memfd_exports = true;
	}
	fake->devices[0].pcie = fake->devices[0].host_export = true;
	OK(export(p, BYTES, 1, &fd));
	close(fd);
	OK(export(h, BYTES, 0, &fd));
	check_export(h, 0, fd);
	OK(cu.MemFree(p));
	OK(cu.MemFreeHost(host));
	end();
	begin("noexport");
	FAILS(NOT_SUPPORTED, export(d & -4096ul, 4096, 0, &fd));
}

/* Real udmabufs, if there are any: the pages around a small allocation. */
TEST(udmabufs_out_and_in)
{
	cuda_external_memory m;
	size_t at = 0;
	cuda_pointer p;
	int fd, same;

	if (!has_udmabuf())
		SKIP("no /dev/udmabuf");
	begin("thor");
	OK(cu.MemAlloc(&p, 600));
	at = p % 4096;
	CHECK(at);
	OK(export(p - at, BYTES, 0, &fd));
	same = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	FAILS(UNKNOWN, import(CUABI_MEMORY_OPAQUE_FD, same, BYTES, 0, &m));
	CHECK_EQ(fcntl(same, F_GETFD), -1); /* refused, and closed */
	OK(import(CUABI_MEMORY_DMABUF_FD, fd, BYTES, 0, &m));
	OK(cu.DestroyExternalMemory(m));
	check_export(p, at, fd);
	OK(cu.MemFree(p));
	end();
}
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
