// SPDX-License-Identifier: MIT
/*
 * The HIP backend against a double of the driver (tests/doubles/hip.h): memory that
 * becomes a dma-buf, by HIP's call or by HSA's.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_HIP
#include "hip_backend.h"
#include "cuda_memfds.h"

#define EXPORT_BYTES (2 << 20)

static void *alloc_device(size_t bytes)
{
	cuda_pointer p;

	REQUIRE(!cu.MemAlloc(&p, bytes));
	return (void *)(uintptr_t)p;
}

static void free_device(void *p)
{
	CHECK_EQ(cu.MemFree((uintptr_t)p), 0);
}

/* Once it is loaded, the old one is HSA's library, also for the other one. */
#define OLD "libhip-old.so"
#define NEW "libhip.so"

static void exports(const char *library)
{
	static const struct {
		const char *library, *words;
		size_t bytes;
		int64_t first, n;	/* of the tensor */
		int ret;
		uint64_t offset, size;
	} cases[] = {
		{ OLD, "memfds,5.7", EXPORT_BYTES, 0, EXPORT_BYTES,
		  0, 0, EXPORT_BYTES },
		{ OLD, "memfds,6.4,block", EXPORT_BYTES, 5000, 100,
		  0, 5000, EXPORT_BYTES },
		{ OLD, "memfds,6.4,block", 100, 0, 100, 0, 0, EXPORT_BYTES },
		{ NEW, "memfds,7", EXPORT_BYTES, 0, EXPORT_BYTES,
		  0, 0, EXPORT_BYTES },
		{ NEW, "memfds,7,block", EXPORT_BYTES, 5000, 100,
		  0, 5000, EXPORT_BYTES },
		{ NEW, "memfds,7,block", 100, 0, 100, -EOPNOTSUPP, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_exported out;
		struct dlbuf_device *dev;
		struct app app;
		char *p;

		if (strcmp(cases[i].library, library))
			continue;
		begin_with(library, cases[i].words);
		dev = open_hip();
		app_begin(&app, dev);
		p = alloc_device(cases[i].bytes);
		p += cases[i].first;
		CHECK_EQ(cu.MemsetD8Async((uintptr_t)p, 0x77, 1, app.stream), 0);
		drain(&app);
		CHECK_EQ(export_at(dev, p, cases[i].n, kDLROCM, 0, &out),
			 cases[i].ret);
		if (cases[i].ret) {
			CHECK_SAYS("exports 2097152 bytes and does not report which");
			CHECK_EQ(out.fd, 77);
		} else {
			CHECK_EQ(out.offset, cases[i].offset);
			CHECK_EQ(out.bytes, cases[i].size);
			CHECK_EQ(byte_at(&out, out.offset), 0x77);
			close(out.fd);
		}
		free_device(p - cases[i].first);
		app_end(&app);
		dlbuf_device_close(dev);
		end();
	}
}

/* HSA's call reports where in the dma-buf the memory is. */
TEST(export_by_hsa)
{
	exports(OLD);
}

/* HIP's call does not, and the size has to show it. */
TEST(export_by_hip)
{
	exports(NEW);
}

/* The numbers of memory types are others since HIP 6: host memory is known as that. */
TEST(trap_renumbered_memory_types)
{
	static const char *const words[] = { "memfds,5.7", "memfds,6.4", "memfds,7" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct dlbuf_exported out;
		struct dlbuf_device *dev;
		struct app app;
		void *host, *p;

		begin_with(OLD, words[i]);
		dev = open_hip();
		app_begin(&app, dev);
		p = alloc_device(EXPORT_BYTES);
		REQUIRE(!cu.MemHostAlloc(&host, 8192, CUABI_MEMHOSTALLOC_PORTABLE));
		CHECK_ERR(export_at(dev, host, 8192, kDLROCMHost, 0, &out),
			  -EOPNOTSUPP);
		CHECK_SAYS("exports no host memory");
		CHECK_OK(export_at(dev, p, EXPORT_BYTES, kDLROCM, 0, &out));
		close(out.fd);
		CHECK_EQ(cu.MemFreeHost(host), 0);
		free_device(p);
		app_end(&app);
		dlbuf_device_close(dev);
		end();
	}
}

TEST(export_of_host_memory)
{
	struct dlbuf_exported out;
	struct dlbuf_device *dev;
	struct app app;
	void *host;

	begin("memfds,7.1");
	fake->devices[0].host_export = true;
	dev = open_hip();
	app_begin(&app, dev);
	REQUIRE(!cu.MemHostAlloc(&host, 8192, CUABI_MEMHOSTALLOC_PORTABLE));
	REQUIRE_OK(export_at(dev, (char *)host + 10, 5000, kDLROCMHost, 0, &out));
	CHECK_EQ(out.offset, 10);
	CHECK_EQ(out.bytes, 8192);
	close(out.fd);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

TEST(every_refusal_of_an_export)
{
	struct dlbuf_exported out;
	struct dlbuf_device *dev;
	cuda_context second;
	cuda_pointer other;
	struct app app;
	void *managed, *p;
	char byte;

	begin("two,memfds,7");
	dev = open_hip();
	REQUIRE(!cux.CtxCreate(&second, 0, 1));
	REQUIRE(!cu.MemAlloc(&other, EXPORT_BYTES));
	app_begin(&app, dev);
	p = alloc_device(EXPORT_BYTES);
	REQUIRE(!hipx.MallocManaged(&managed, 4096, HIPABI_MEM_ATTACH_GLOBAL));
	REFUSES(dev, p, 1, kDLCPU, 0, -EINVAL, "type 1");
	REFUSES(dev, &byte, 1, kDLROCM, 0, -EINVAL, "is not HIP memory");
	REFUSES(dev, p, EXPORT_BYTES + 1, kDLROCM, 0, -EINVAL,
		"ends 1 bytes after its allocation of 2097152");
	REFUSES(dev, managed, 4096, kDLROCM, 0, -EOPNOTSUPP,
		"managed memory has no dma-buf");
	REFUSES(dev, other, 4096, kDLROCM, 0, -EINVAL,
		"the memory is of hip:1, not of hip:0");
	REFUSES(dev, p, 4096, kDLROCM, DLBUF_EXPORT_PCIE, -EOPNOTSUPP,
		"hipMemGetHandleForAddressRange: hipErrorNotSupported (801)");
	break_call("hipMemGetHandleForAddressRange", HIPABI_UNKNOWN, 0);
	REFUSES(dev, p, 4096, kDLROCM, 0, -EIO, "hipMemGetHandleForAddressRange: "
		"hipErrorUnknown (999), unknown error");
	heal();
	free_device(managed);
	free_device(p);
	app_end(&app);
	dlbuf_device_close(dev);
	CHECK_EQ(cu.MemFree(other), 0);
	CHECK_EQ(cux.CtxDestroy(second), 0);
	end();
	/* HSA's code, and what HSA cannot do. */
	begin_with(OLD, "memfds,6.4,noexport");
	dev = open_hip();
	app_begin(&app, dev);
	p = alloc_device(EXPORT_BYTES);
	REFUSES(dev, p, EXPORT_BYTES, kDLROCM, 0, -EOPNOTSUPP,
		"hip: hsa_amd_portable_export_dmabuf: 0x1000");
	REFUSES(dev, p, EXPORT_BYTES, kDLROCM, DLBUF_EXPORT_PCIE, -EOPNOTSUPP,
		"hip: HIP 6.4 exports no device memory over PCI Express");
	free_device(p);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

static int alloc_of(struct dlbuf_device *dev, struct queue_import *ci)
{
	*ci = (struct queue_import){ .base.dev = dev, .base.bytes = 4096 };
	return dev->backend->alloc(&ci->base);
}

/* What is exported is amdgpu's, so that another device imports it. */
static void allocs(const char *library)
{
	struct dlbuf_device *dev, *second;
	struct queue_import ci;
	struct fixture f;

	begin_with(library, "two,memfds");
	dev = open_hip();
	second = open_as("hip:1");
	REQUIRE_OK(alloc_of(dev, &ci));
	CHECK_EQ(ci.base.bytes, EXPORT_BYTES);
	CHECK_EQ(lseek(ci.base.fd, 0, SEEK_END), EXPORT_BYTES);
	fixture_make(&f, second, PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW);
	CHECK_EQ(dup2(ci.base.fd, f.ci.base.fd), f.ci.base.fd);
	f.ci.base.bytes = EXPORT_BYTES;
	CHECK_OK(path_import(&f.ci.base));
	import_finish(&f, 0);
	dev->backend->unimport(&ci.base);
	close(ci.base.fd);
	dlbuf_device_close(second);
	dlbuf_device_close(dev);
	end();
}

TEST(alloc_by_hsa)
{
	allocs(OLD);
}

TEST(alloc_by_hip)
{
	allocs(NEW);
}

/* Memory that shares its dma-buf with other memory is not given out. */
TEST(alloc_within_a_block)
{
	struct queue_import ci;
	struct dlbuf_device *dev;

	begin_with(OLD, "memfds");
	dev = open_hip();
	hip->before = 4096;
	CHECK_ERR(alloc_of(dev, &ci), -EOPNOTSUPP);
	CHECK_SAYS("hip:0: the driver exports memory before the allocation, too");
	dlbuf_device_close(dev);
	end();
}

TEST(every_failure_of_an_alloc)
{
	static const char *const calls[] = {
		"hipMalloc", "hipStreamCreateWithFlags", "hipMemsetD8Async",
		"hipStreamSynchronize", "hipMemGetHandleForAddressRange",
		"hipGetDevice",
	};
	struct queue_import ci;
	struct dlbuf_device *dev;

	begin("memfds,7");
	dev = open_hip();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		break_call(calls[i], HIPABI_UNKNOWN, 0);
		CHECK_ERR(alloc_of(dev, &ci), -EIO);
		CHECK_SAYS("(999)");
		heal();
		CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
	}
	dlbuf_device_close(dev);
	end();
}

#ifdef CONFIG_FAULT_INJECTION
static int walk_alloc(void)
{
	struct dlbuf_device *dev = NULL;
	struct queue_import ci;
	int ret;

	ret = dlbuf_device_open("hip", NULL, &dev);
	if (ret)
		return ret;
	ret = alloc_of(dev, &ci);
	if (!ret) {
		dev->backend->unimport(&ci.base);
		close(ci.base.fd);
	}
	dlbuf_device_close(dev);
	return ret;
}

TEST(every_call_fails_once_by_hsa)
{
	begin_with(OLD, "memfds");
	check_walks(walk_alloc);
	end();
}

TEST(every_call_fails_once_by_hip)
{
	begin_with(NEW, "memfds");
	check_walks(walk_alloc);
	end();
}
#endif
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
