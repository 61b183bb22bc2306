// SPDX-License-Identifier: MIT
/*
 * The double of CUDA's driver (tests/fakes/cuda.h) itself, what it allows and
 * what it refuses: externals and exports. Tests of the backend lean on both.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include "cuda_double.h"

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
	/* It stays the caller's. */
	CHECK_EQ(close(fd), 0);
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

#else
TEST(cuda_double_shares)
{
	SKIP("the backend is not built");
}
#endif

KTAP_MAIN()
