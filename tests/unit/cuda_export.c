// SPDX-License-Identifier: MIT
/*
 * The CUDA backend against a double of the driver (tests/doubles/cuda.h): memory
 * that becomes a dma-buf. cuda_queue.c has the cases of lib/queue.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include "cuda_backend.h"
#include "cuda_exports.h"

/* Whole pages of the allocation around a part of it, and the part's offset in them. */
EXPORT_CASE(export_of_a_part, "memfds")
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	cuda_pointer before, small, large;

	exports_begin("cuda");
	REQUIRE(!cu.MemAlloc(&before, 100) && !cu.MemAlloc(&small, 100) &&
		!cu.MemAlloc(&large, 3 * page));
	CHECK(small % page && !(large % page));
	watch("cuMemGetHandleForAddressRange");
	/* The rest of the page is the other allocation's. */
	REFUSES(dev, small, 100, kDLCUDA, 0, -EOPNOTSUPP, "allocate whole pages");
	CHECK_EQ(seen, 0);
	CHECK_EQ(cu.MemsetD8Async(large + page + 100, 0x66, 1, app.stream), 0);
	drain(&app);
	if (access("/dev/udmabuf", R_OK | W_OK)) {
		/* A memfd is a dma-buf from its begin to its end. */
		REFUSES(dev, large + page + 100, 100, kDLCUDA, 0, -EOPNOTSUPP, "");
	} else {
		CHECK_OK(export_at(dev, (void *)(uintptr_t)(large + page + 100), 100, kDLCUDA,
				   0, &out));
		CHECK_EQ(out.offset, 100);
		CHECK_EQ(out.bytes, page);
		CHECK_EQ(byte_at(&out, out.offset), 0x66);
		close(out.fd);
	}
	CHECK_EQ(seen, 1);
	CHECK_EQ(cu.MemFree(large), 0);
	CHECK_EQ(cu.MemFree(small), 0);
	CHECK_EQ(cu.MemFree(before), 0);
}

EXPORT_CASE(every_refusal_of_an_export, "two,memfds")
{
	cuda_context second;
	cuda_pointer managed;
	char byte;
	void *other;

	exports_begin("cuda:0");
	other = alloc_on_the_second(&second);
	REQUIRE(!cux.MemAllocManaged(&managed, 4096, CUABI_MEM_ATTACH_GLOBAL));
	REFUSES(dev, &byte, 1, kDLCUDA, 0, -EINVAL, "is not CUDA memory");
	REFUSES(dev, managed, 4096, kDLCUDA, 0, -EOPNOTSUPP,
		"managed memory has no dma-buf");
	REFUSES(dev, other, 4096, kDLCUDA, 0, -EINVAL,
		"the memory is of cuda:1, not of cuda:0");
	REFUSES(dev, host, 4096, kDLCUDAHost, 0, -EOPNOTSUPP,
		"exports no host memory (attribute 146)");
	break_call("cuPointerGetAttribute", CUABI_INVALID_VALUE, 3);
	/* There are two ways to ask, one of them for memory of any kind. */
	CHECK_OK(export_at(dev, p, EXPORT_BYTES, kDLCUDA, 0, &out));
	close(out.fd);
	break_call("cuMemGetHandleForAddressRange", CUABI_UNKNOWN, 0);
	REFUSES(dev, p, 4096, kDLCUDA, 0, -EIO, "cuMemGetHandleForAddressRange: "
		"CUDA_ERROR_UNKNOWN (999)");
	break_call("cuPointerGetAttribute", CUABI_INVALID_VALUE, 1);
	REFUSES(dev, p, 4096, kDLCUDA, 0, -EINVAL, "is not CUDA memory");
	heal();
	CHECK_EQ(cu.MemFree(managed), 0);
	app_free(&app, other);
	CHECK_EQ(cux.CtxDestroy(second), 0);
}

/* PyTorch's expandable segments: one range of addresses, many handles. */
EXPORT_CASE(export_of_memory_mapped_in_pieces, "memfds")
{
	fake->piece = EXPORT_BYTES / 4;
	exports_begin("cuda");
	REQUIRE_OK(export_at(dev, p, EXPORT_BYTES, kDLCUDA, 0, &out));
	CHECK_EQ(out.bytes, EXPORT_BYTES);
	close(out.fd);
}

EXPORT_CASE(export_where_there_is_none, "noexport")
{
	struct import *imp;

	exports_begin("cuda");
	REFUSES(dev, p, 1, kDLCUDA, 0, -EOPNOTSUPP,
		"CUDA 13.0 exports no device memory (attribute 124)");
	CHECK_ERR_SAYS(alloc_import(dev, 4096, &imp), -EOPNOTSUPP, "attribute 124");
	exports_end();
	begin_with("libcuda-old.so", "");
	exports_begin("cuda");
	CHECK_ERR_SAYS(alloc_import(dev, 4096, &imp), -EOPNOTSUPP, "cuMemGetHandleForAddressRange");
}

/* Before 13.0 no attribute shows whether host memory can be exported, so this tries. */
EXPORT_CASE(export_of_host_memory, "memfds")
{
	fake->devices[0].host_export = true;
	exports_begin("cuda");
	check_host_export(kDLCUDAHost);
	exports_end();
	begin("memfds");
	fake->version = 12040;
	exports_begin("cuda");
	watch("cuMemGetHandleForAddressRange");
	REFUSES(dev, host, HOST_BYTES, kDLCUDAHost, 0, -EOPNOTSUPP,
		"cuMemGetHandleForAddressRange");
	CHECK_EQ(seen, 1);
}

/* The flag is the driver's to take: only a machine with C2C does. */
EXPORT_CASE(export_over_pcie, "memfds")
{
	fake->devices[0].pcie = true;
	exports_begin("cuda");
	CHECK_OK(export_at(dev, p, EXPORT_BYTES, kDLCUDA, DLBUF_EXPORT_PCIE, &out));
	close(out.fd);
}

/* Work after the acquire reads the bytes that another device has written. */
TEST(peers_writes_are_flushed)
{
	static const struct dlbuf_acquire_opts none;
	struct import *imp = NULL;
	int fence, flushes = 0, ret;

	for (int unordered = 0; unordered < 2; unordered++) {
		begin("memfds");
		fake->devices[0].unordered = unordered;
		exports_begin("cuda");
		REQUIRE_OK(alloc_import(dev, EXPORT_BYTES, &imp));
		watch("cuFlushGPUDirectRDMAWrites");
		CHECK_OK(cuda_backend.acquire(imp, DLBUF_READ, ON(NULL), -1));
		flushes += unordered;
		CHECK_EQ(seen, flushes);
		fence = pending_fence();
		signal_fence(fence);
		/* The core waits for the fence, if the device asks for it, and calls again. */
		ret = sync_begin(imp, DLBUF_READ, ON(NULL), fence, &none);
		CHECK_OK(ret != -EAGAIN ? ret :
			 sync_begin(imp, DLBUF_READ, ON(NULL), -1, &none));
		flushes += unordered;
		CHECK_EQ(seen, flushes);
		close(fence);
		break_call("cuFlushGPUDirectRDMAWrites", CUABI_UNKNOWN, 0);
		CHECK_EQ(cuda_backend.acquire(imp, DLBUF_READ, ON(NULL), -1),
			 unordered ? -EIO : 0);
		heal();
		import_destroy(imp);
		exports_end();
	}
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
