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

/* Only HSA's call reports where in the dma-buf memory is that is a part of it. */
TEST(export_of_a_part_of_a_block)
{
	for (int by_hsa = 0; by_hsa < 2; by_hsa++) {
		struct dlbuf_exported out;
		struct dlbuf_device *dev;
		struct app app;
		void *p;

		begin_with(by_hsa ? OLD : NEW, by_hsa ? "memfds,6.4,block" :
						"memfds,7,block");
		dev = open_hip();
		app_begin(&app, dev);
		p = alloc_device(100);
		CHECK_EQ(cu.MemsetD8Async((uintptr_t)p, 0x77, 1, app.stream), 0);
		drain(&app);
		if (by_hsa) {
			REQUIRE_OK(export_at(dev, p, 100, kDLROCM, 0, &out));
			CHECK_EQ(out.offset, 0);
			CHECK_EQ(out.bytes, EXPORT_BYTES);
			CHECK_EQ(byte_at(&out, 0), 0x77);
			close(out.fd);
		} else {
			REFUSES(dev, p, 100, kDLROCM, 0, -EOPNOTSUPP,
				"exports 2097152 bytes and does not report which");
		}
		free_device(p);
		app_end(&app);
		dlbuf_device_close(dev);
		end();
	}
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
	REFUSES(dev, &byte, 1, kDLROCM, 0, -EINVAL, "is not HIP memory");
	REFUSES(dev, managed, 4096, kDLROCM, 0, -EOPNOTSUPP,
		"managed memory has no dma-buf");
	REFUSES(dev, other, 4096, kDLROCM, 0, -EINVAL,
		"the memory is of hip:1, not of hip:0");
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

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
