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

TEST(export)
{
	struct dlbuf_exported out;
	struct dlbuf_device *dev;
	cuda_pointer p, before, small;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	CHECK_EQ(cu.MemsetD8Async(p, 0x11, EXPORT_BYTES, app.stream), 0);
	CHECK_EQ(cu.MemsetD8Async(p + 5000, 0x77, 1, app.stream), 0);
	drain(&app);
	/* All of it, since a memfd has no part of it. */
	REQUIRE_OK(export_at(dev, at(p), EXPORT_BYTES, kDLCUDA, 0,
			     &out));
	CHECK_EQ(out.offset, 0);
	CHECK_EQ(out.bytes, EXPORT_BYTES);
	CHECK(out.fd >= 3 && fcntl(out.fd, F_GETFD) == FD_CLOEXEC);
	CHECK_EQ(byte_at(&out, 5000), 0x77);
	close(out.fd);
	/* Whole pages around a part of a block, and where it is in them. */
	REQUIRE(!cu.MemAlloc(&before, 100) && !cu.MemAlloc(&small, 100));
	CHECK(small % sysconf(_SC_PAGESIZE));
	CHECK_EQ(cu.MemsetD8Async(small, 0x66, 1, app.stream), 0);
	drain(&app);
	watch("cuMemGetHandleForAddressRange");
	if (access("/dev/udmabuf", R_OK | W_OK)) {
		/* A memfd is a dma-buf from its begin to its end. */
		CHECK_ERR(export_at(dev, at(small), 100, kDLCUDA,
				    0, &out), -EOPNOTSUPP);
		CHECK_EQ(out.fd, 77);
	} else {
		CHECK_OK(export_at(dev, at(small), 100, kDLCUDA,
				   0, &out));
		CHECK_EQ(out.offset, small % sysconf(_SC_PAGESIZE));
		CHECK_EQ(out.bytes, sysconf(_SC_PAGESIZE));
		CHECK_EQ(byte_at(&out, out.offset), 0x66);
		close(out.fd);
	}
	CHECK_EQ(seen, 1);
	CHECK_EQ(cu.MemFree(small), 0);
	CHECK_EQ(cu.MemFree(before), 0);
	CHECK_EQ(cu.MemFree(p), 0);
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
	REFUSES(dev, p, 4096, kDLCPU, 0, -EINVAL, "type 1");
	REFUSES(dev, &byte, 1, kDLCUDA, 0, -EINVAL, "is not CUDA memory");
	REFUSES(dev, p, EXPORT_BYTES + 1, kDLCUDA, 0, -EINVAL,
		"ends 1 bytes after its allocation of 2097152");
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
	REFUSES(dev, p, 4096, kDLCUDA, 0, -EINVAL, "is not CUDA memory");
	CHECK_EQ(cu.MemFree(managed), 0);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	break_call("cuCtxPushCurrent_v2", CUABI_UNKNOWN, 0);
	REFUSES(dev, p, 4096, kDLCUDA, 0, -EIO, "cuCtxPushCurrent");
	heal();
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

/* What a mapping of the tensor's type and shape is, is the layout's to say. */
TEST(export_of_no_layout)
{
	int64_t shape = -1, strides = 1;
	struct dlbuf_exported out = { .size = sizeof(out) };
	DLTensor t = {
		.device = { kDLCUDA, 0 }, .ndim = 1, .shape = &shape,
		.dtype = { kDLUInt, 8, 1 }, .strides = &strides,
	};
	struct dlbuf_device *dev;
	cuda_pointer p;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	t.data = (void *)(uintptr_t)p;
	CHECK_ERR(dlbuf_export(dev, &t, NULL, &out), -EINVAL);
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
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
	CHECK_ERR(export_at(dev, at(p), EXPORT_BYTES, kDLCUDA,
			    DLBUF_EXPORT_PCIE, &out), -EOPNOTSUPP);
	fake->devices[0].pcie = true;
	CHECK_OK(export_at(dev, at(p), EXPORT_BYTES, kDLCUDA,
			   DLBUF_EXPORT_PCIE, &out));
	close(out.fd);
	CHECK_ERR(export_at(dev, at(p), EXPORT_BYTES, kDLCUDA, 2,
			    &out), -EINVAL);
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- alloc */

static DLManagedTensorVersioned *alloc_ok(struct dlbuf_device *dev,
					  int64_t bytes)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	DLManagedTensorVersioned *tensor = NULL;
	int64_t strides = 1;
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		.strides = &strides,
	};

	REQUIRE_OK(dlbuf_alloc(&dev, 1, &layout, &opts, &tensor));
	return tensor;
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

TEST(alloc)
{
	DLManagedTensorVersioned *tensor, *again = NULL;
	DLBUF_INFO(dlbuf_device_stats, stats);
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct dlbuf_device *dev;
	DLTensor layout;
	cuda_pointer p;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	/* So that what is given out next is not zero by itself. */
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	CHECK_EQ(cu.MemsetD8Async(p, 0x11, EXPORT_BYTES, app.stream), 0);
	drain(&app);
	CHECK_EQ(cu.MemFree(p), 0);
	watch("cuMemsetD8Async");
	tensor = alloc_ok(dev, IMPORT_BYTES);
	CHECK_EQ(seen, 1);
	CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 1);
	REQUIRE_OK(dlbuf_tensor_get_info(tensor, &info));
	CHECK_EQ(lseek(info.fd, 0, SEEK_END), EXPORT_BYTES);
	CHECK_EQ(info.path, DLBUF_PATH_DIRECT);
	memset(app.pinned, 7, IMPORT_BYTES);
	CHECK_EQ(cu.MemcpyDtoHAsync(app.pinned, (uintptr_t)
				    tensor->dl_tensor.data, IMPORT_BYTES,
				    app.stream), 0);
	drain(&app);
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		if (!CHECK_EQ(app.pinned[i], 0))
			break;
	/* By its own fd it is the same one, whatever the driver imports. */
	layout = tensor->dl_tensor;
	layout.data = NULL;
	CHECK_OK(dlbuf_import(dev, info.fd, &layout, NULL, &again));
	CHECK(!again || again->dl_tensor.data == tensor->dl_tensor.data);
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.hits, 1);
	CHECK_EQ(stats.misses, 0);
	if (again)
		again->deleter(again);
	/* Nobody would find it again. */
	tensor->deleter(tensor);
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.idle, 0);
	CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

TEST(every_failure_of_an_alloc)
{
	static const char *const calls[] = {
		"cuMemAlloc_v2", "cuStreamCreate", "cuMemsetD8Async",
		"cuStreamSynchronize", "cuMemGetHandleForAddressRange",
		"cuCtxPushCurrent_v2",
	};
	struct dlbuf_device *dev;

	begin("memfds");
	dev = open_ok();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		break_call(calls[i], CUABI_UNKNOWN, 0);
		CHECK_ERR(alloc_of(dev, 4096), -EIO);
		CHECK_SAYS("(999)");
		heal();
		CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
		CHECK_EQ(fake->live[FAKE_STREAM], 0);
	}
	CHECK_ERR(alloc_of(dev, UINT64_MAX - 1), -EOVERFLOW);
	CHECK_ERR(alloc_of(dev, (uint64_t)INT64_MAX), -ENOMEM);
	CHECK_OK(alloc_of(dev, EXPORT_BYTES + 1));
	dlbuf_device_close(dev);
	end();
	begin("noexport");
	dev = open_ok();
	CHECK_ERR(alloc_of(dev, 4096), -EOPNOTSUPP);
	CHECK_SAYS("attribute 124");
	dlbuf_device_close(dev);
	end();
}

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

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static int walk_export(void)
{
	struct dlbuf_device *dev = NULL;
	struct dlbuf_exported out;
	DLManagedTensorVersioned *tensor;
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	int64_t bytes = 4096, strides = 1;
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		.strides = &strides,
	};
	int ret;

	ret = dlbuf_device_open("cuda", NULL, &dev);
	if (ret)
		return ret;
	ret = dlbuf_alloc(&dev, 1, &layout, &opts, &tensor);
	if (!ret) {
		ret = export_at(dev, tensor->dl_tensor.data, EXPORT_BYTES,
				kDLCUDA, 0, &out);
		if (!ret)
			close(out.fd);
		tensor->deleter(tensor);
	}
	dlbuf_device_close(dev);
	return ret;
}

TEST(every_call_of_an_export_fails_once)
{
	begin("memfds");
	check_walks(walk_export);
	end();
}
#endif
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
