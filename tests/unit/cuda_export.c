// SPDX-License-Identifier: MIT
/*
 * The CUDA backend against a double of the driver (tests/doubles/cuda.h): memory
 * that becomes a dma-buf.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include "cuda_backend.h"
#include "cuda_memfds.h"

/* ---------------------------------------------------------------- export */

#define EXPORT_BYTES (2 << 20)

static void *at(cuda_pointer p)
{
	return (void *)(uintptr_t)p;
}

/* Whole pages around a part of a block, and where it is in them. */
TEST(export)
{
	cuda_pointer before, small;
	struct dlbuf_exported out;
	struct dlbuf_device *dev;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&before, 100) && !cu.MemAlloc(&small, 100));
	CHECK(small % sysconf(_SC_PAGESIZE));
	CHECK_EQ(cu.MemsetD8Async(small, 0x66, 1, app.stream), 0);
	drain(&app);
	watch("cuMemGetHandleForAddressRange");
	if (access("/dev/udmabuf", R_OK | W_OK)) {
		/* A memfd is a dma-buf from its begin to its end. */
		REFUSES(dev, small, 100, kDLCUDA, 0, -EOPNOTSUPP, "");
	} else {
		CHECK_OK(export_at(dev, at(small), 100, kDLCUDA, 0, &out));
		CHECK_EQ(out.offset, small % sysconf(_SC_PAGESIZE));
		CHECK_EQ(out.bytes, sysconf(_SC_PAGESIZE));
		CHECK_EQ(byte_at(&out, out.offset), 0x66);
		close(out.fd);
	}
	CHECK_EQ(seen, 1);
	CHECK_EQ(cu.MemFree(small), 0);
	CHECK_EQ(cu.MemFree(before), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

TEST(every_refusal_of_an_export)
{
	struct dlbuf_exported out;
	struct dlbuf_device *dev;
	cuda_pointer p, managed, other;
	cuda_context second;
	struct app app;
	void *host;
	char byte;

	begin("two,memfds");
	CHECK_EQ(cu.Init(0), 0);
	REQUIRE(!cux.CtxCreate(&second, 0, 1));
	REQUIRE(!cu.MemAlloc(&other, EXPORT_BYTES));
	dev = open_as("cuda:0");
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	REQUIRE(!cux.MemAllocManaged(&managed, 4096, CUABI_MEM_ATTACH_GLOBAL));
	REQUIRE(!cu.MemHostAlloc(&host, 4096, CUABI_MEMHOSTALLOC_PORTABLE));
	REFUSES(dev, &byte, 1, kDLCUDA, 0, -EINVAL, "is not CUDA memory");
	REFUSES(dev, managed, 4096, kDLCUDA, 0, -EOPNOTSUPP,
		"managed memory has no dma-buf");
	REFUSES(dev, other, 4096, kDLCUDA, 0, -EINVAL,
		"the memory is of cuda:1, not of cuda:0");
	REFUSES(dev, host, 4096, kDLCUDAHost, 0, -EOPNOTSUPP,
		"exports no host memory (attribute 146)");
	break_call("cuPointerGetAttribute", CUABI_INVALID_VALUE, 3);
	/* There are two ways to ask, one of them for memory of any kind. */
	CHECK_OK(export_at(dev, at(p), EXPORT_BYTES, kDLCUDA, 0,
			   &out));
	close(out.fd);
	out.fd = 77;
	break_call("cuMemGetHandleForAddressRange", CUABI_UNKNOWN, 0);
	REFUSES(dev, p, 4096, kDLCUDA, 0, -EIO, "cuMemGetHandleForAddressRange: "
		"CUDA_ERROR_UNKNOWN (999)");
	break_call("cuCtxGetDevice", CUABI_UNKNOWN, 0);
	break_call("cuPointerGetAttribute", CUABI_INVALID_VALUE, 1);
	REFUSES(dev, p, 4096, kDLCUDA, 0, -EINVAL, "is not CUDA memory");
	heal();
	CHECK_EQ(cu.MemFree(p), 0);
	CHECK_EQ(cu.MemFree(managed), 0);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	CHECK_EQ(cu.MemFree(other), 0);
	CHECK_EQ(cux.CtxDestroy(second), 0);
	end();
}

/* PyTorch's expandable segments: one range of addresses, many handles. */
TEST(export_of_memory_mapped_in_pieces)
{
	struct dlbuf_device *dev;
	struct dlbuf_exported out;
	cuda_pointer p;
	struct app app;

	begin("memfds");
	fake->piece = EXPORT_BYTES / 4;
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	REQUIRE_OK(export_at(dev, at(p), EXPORT_BYTES, kDLCUDA, 0,
			     &out));
	CHECK_EQ(out.bytes, EXPORT_BYTES);
	close(out.fd);
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

static int alloc_of(struct dlbuf_device *dev, uint64_t bytes)
{
	struct queue_import ci = { .base.dev = dev, .base.bytes = bytes };
	int ret = cuda_backend.alloc(&ci.base);

	if (ret)
		return ret;
	cuda_backend.unimport(&ci.base);
	close(ci.base.fd);
	return 0;
}

TEST(export_where_there_is_none)
{
	struct dlbuf_device *dev;
	struct dlbuf_exported out;
	cuda_pointer p;
	struct app app;

	begin("noexport");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	CHECK_ERR(export_at(dev, at(p), 1, kDLCUDA, 0, &out),
		  -EOPNOTSUPP);
	CHECK_SAYS("CUDA 13.0 exports no device memory (attribute 124)");
	CHECK_ERR(alloc_of(dev, 4096), -EOPNOTSUPP);
	CHECK_SAYS("attribute 124");
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* Before 13.0 nobody knows whether the host's memory can be exported: tries. */
TEST(export_of_host_memory)
{
	struct dlbuf_device *dev;
	struct dlbuf_exported out;
	struct app app;
	void *host;

	begin("memfds");
	fake->devices[0].host_export = true;
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemHostAlloc(&host, 8192, CUABI_MEMHOSTALLOC_PORTABLE));
	REQUIRE_OK(export_at(dev, (uint8_t *)host + 10, 5000, kDLCUDAHost, 0,
			     &out));
	CHECK_EQ(out.offset, 10);
	CHECK_EQ(out.bytes, 8192);
	close(out.fd);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
	begin("memfds");
	fake->version = 12040;
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemHostAlloc(&host, 8192, CUABI_MEMHOSTALLOC_PORTABLE));
	watch("cuMemGetHandleForAddressRange");
	CHECK_ERR(export_at(dev, host, 8192, kDLCUDAHost, 0, &out),
		  -EOPNOTSUPP);
	CHECK_SAYS("cuMemGetHandleForAddressRange");
	CHECK_EQ(seen, 1);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* The flag is the driver's to take: only a machine with C2C does. */
TEST(export_over_pcie)
{
	struct dlbuf_device *dev;
	struct dlbuf_exported out;
	cuda_pointer p;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	fake->devices[0].pcie = true;
	CHECK_OK(export_at(dev, at(p), EXPORT_BYTES, kDLCUDA,
			   DLBUF_EXPORT_PCIE, &out));
	close(out.fd);
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- alloc */

TEST(an_old_driver_allocates_nothing)
{
	struct dlbuf_device *dev;

	begin_with("libcuda-old.so", "");
	dev = open_ok();
	CHECK_ERR(alloc_of(dev, 4096), -EOPNOTSUPP);
	CHECK_SAYS("cuMemGetHandleForAddressRange");
	dlbuf_device_close(dev);
	end();
}

/* What another device has written is seen by work behind the acquire. */
TEST(peers_writes_are_flushed)
{
	struct queue_import ci = { .base.bytes = EXPORT_BYTES };
	int fence, flushes = 0;

	for (int unordered = 0; unordered < 2; unordered++) {
		begin("memfds");
		fake->devices[0].unordered = unordered;
		ci.base.dev = open_ok();
		REQUIRE_OK(cuda_backend.alloc(&ci.base));
		watch("cuFlushGPUDirectRDMAWrites");
		CHECK_OK(cuda_backend.acquire(&ci.base, DLBUF_READ, NULL, -1));
		flushes += unordered;
		CHECK_EQ(seen, flushes);
		fence = pending_fence();
		signal_fence(fence);
		CHECK_OK(cuda_backend.acquire(&ci.base, DLBUF_READ, NULL, fence));
		flushes += unordered;
		CHECK_EQ(seen, flushes);
		close(fence);
		break_call("cuFlushGPUDirectRDMAWrites", CUABI_UNKNOWN, 0);
		CHECK_EQ(cuda_backend.acquire(&ci.base, DLBUF_READ, NULL, -1),
			 unordered ? -EIO : 0);
		heal();
		cuda_backend.unimport(&ci.base);
		close(ci.base.fd);
		dlbuf_device_close(ci.base.dev);
		end();
		ci.base.bytes = EXPORT_BYTES;
	}
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
