// SPDX-License-Identifier: MIT
/*
 * The HIP backend against a double of the driver (tests/doubles/hip.h): memory that
 * becomes a dma-buf, by HIP's call or by HSA's. hip_queue.c has the cases of lib/queue.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_HIP
#include "hip_backend.h"
#include "cuda_exports.h"

/* Once it is loaded, the old one is HSA's library, also for the other one. */
#define OLD "libhip-old.so"
#define NEW "libhip.so"

/* The driver exports the block that small memory shares with other memory. */
TEST(trap_export_of_a_part_of_a_block)
{
	for (int by_hsa = 0; by_hsa < 2; by_hsa++) {
		cuda_pointer small[2];

		begin_with(by_hsa ? OLD : NEW, by_hsa ? "memfds,6.4" :
							"memfds,7");
		exports_begin("hip");
		for (int i = 0; i < 2; i++) {
			REQUIRE(!cu.MemAlloc(&small[i], 4096));
			REFUSES(dev, small[i], 100, kDLROCM, 0, -EOPNOTSUPP,
				by_hsa ? "exports 2097152 bytes around an allocation "
					 "of 4096, which would show memory of others" :
				"exports 2097152 bytes and does not report which");
		}
		for (int i = 0; i < 2; i++)
			CHECK_EQ(cu.MemFree(small[i]), 0);
		exports_end();
	}
}

/* Small memory that is freed is given out again, in the same dma-buf. */
EXPORT_CASE(trap_no_second_owner, "memfds")
{
	struct import *imp[2];
	int fd[2];

	exports_begin("hip");
	for (int i = 0; i < 2; i++) {
		REQUIRE_OK(alloc_import(dev, 4096, &imp[i]));
		fd[i] = dup(imp[i]->fd);
		import_destroy(imp[i]);
	}
	CHECK(!buffer_same_file(fd[0], fd[1]));
	for (int i = 0; i < 2; i++)
		close(fd[i]);
}

/* The driver crashes. */
TEST(trap_export_of_an_import)
{
	for (int by_hsa = 0; by_hsa < 2; by_hsa++) {
		struct fixture f;

		begin_with(by_hsa ? OLD : NEW, "memfds,amdgpu");
		exports_begin("hip");
		import_ok(&f, dev, DLBUF_PATH_DIRECT);
		REFUSES(dev, f.imp->data, 100, kDLROCM, 0, -EOPNOTSUPP,
			"hip: the memory is of another dma-buf, or of the host, and "
			"only registered");
		import_finish(&f, 0);
		exports_end();
	}
}

/* The numbers of memory types are others since HIP 6: host memory is known as that. */
TEST(trap_renumbered_memory_types)
{
	static const char *const words[] = { "memfds,5.7", "memfds,6.4", "memfds,7" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		begin_with(OLD, words[i]);
		exports_begin("hip");
		REFUSES(dev, host, HOST_BYTES, kDLROCMHost, 0, -EOPNOTSUPP,
			"exports no host memory");
		CHECK_OK(export_at(dev, p, EXPORT_BYTES, kDLROCM, 0, &out));
		close(out.fd);
		exports_end();
	}
}

EXPORT_CASE(export_of_host_memory, "memfds,7.1")
{
	fake->devices[0].host_export = true;
	exports_begin("hip");
	check_host_export(kDLROCMHost);
}

EXPORT_CASE(every_refusal_of_an_export, "two,memfds,7")
{
	cuda_context second;
	void *managed, *other;
	char byte;

	exports_begin("hip:0");
	other = alloc_on_the_second(&second);
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
	app_free(&app, managed);
	app_free(&app, other);
	CHECK_EQ(cux.CtxDestroy(second), 0);
	exports_end();
	begin_with(OLD, "memfds,6.4,noexport");
	exports_begin("hip");
	REFUSES(dev, p, EXPORT_BYTES, kDLROCM, 0, -EOPNOTSUPP,
		"hip: hsa_amd_portable_export_dmabuf: 0x1000");
}

/* The exported dma-buf is amdgpu's, so that another device imports it. */
static void allocs(const char *library)
{
	struct dlbuf_device *second;
	struct import *imp = NULL;
	struct fixture f;

	begin_with(library, "two,memfds");
	exports_begin("hip:0");
	second = open_as("hip:1");
	REQUIRE_OK(alloc_import(dev, 4096, &imp));
	CHECK_EQ(imp->bytes, 2 * EXPORT_BYTES);
	CHECK_EQ(lseek(imp->fd, 0, SEEK_END), 2 * EXPORT_BYTES);
	fixture_make(&f, second, PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW);
	CHECK_EQ(dup3(imp->fd, f.imp->fd, O_CLOEXEC), f.imp->fd);
	f.imp->bytes = 2 * EXPORT_BYTES;
	CHECK_OK(import_now(&f));
	import_finish(&f, 0);
	import_destroy(imp);
	dlbuf_device_close(second);
	exports_end();
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
	struct import *imp;

	begin_with(OLD, "memfds");
	exports_begin("hip");
	hip->before = 4096;
	CHECK_ERR(alloc_import(dev, 4096, &imp), -EOPNOTSUPP);
	CHECK_SAYS("hip:0: the driver exports memory before the allocation, too");
	exports_end();
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
