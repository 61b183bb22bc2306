// SPDX-License-Identifier: MIT
/*
 * The rules that dlbuf relies on, for the double of a driver and for Intel's own (with
 * LEVELZERO_CONTRACT=driver, see tests/drivers): memory that comes back, memory that is a part of
 * other memory, refusals and their codes.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_LEVELZERO
#include <stdlib.h>
#include <sys/mman.h>

#include "levelzero_backend.h"
#include "dmabuf/memory.h"

static struct dlbuf_device *dev;
static struct app app;

static void contract_begin(const char *words)
{
	if (getenv("LEVELZERO_CONTRACT")) {
		KTAP_KEEPS(KTAP_HEAP | KTAP_FDS | KTAP_MAPS, "a driver keeps its own");
		REQUIRE_OK(levelzero_load(&lz));
	} else {
		begin(words);
	}
	dev = open_ok();
	app = (struct app){ .dev.size = sizeof(app.dev) };
	REQUIRE_OK(dlbuf_levelzero_get_device(dev, &app.dev));
}

static void contract_end(void)
{
	dlbuf_device_close(dev);
	if (!getenv("LEVELZERO_CONTRACT"))
		end();
}

/* On the double such a call is against the rules, too. */
#define REFUSED(code, ...)						\
	do {								\
		CHECK_EQ((uint32_t)(__VA_ARGS__), (uint32_t)(code));	\
		if (fake)						\
			fake->wrong = 0;				\
	} while (0)

static void *host(size_t bytes)
{
	const ze_host_mem_alloc_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC,
	};
	void *p = NULL;

	REQUIRE(!lz.MemAllocHost(app.dev.context, &desc, bytes, 4096, &p));
	return p;
}

static void drop(void *p)
{
	CHECK_EQ(lz.MemFree(app.dev.context, p), 0);
}

/* The mapping has ended then, and an access to it crashes. */
TEST(registered_memory_does_not_come_back)
{
	struct fixture f;
	void *later;
	int memfd;

	contract_begin("memfds");
	for (int i = 0; i < 2; i++) {
		memfd = memfd_create("behind it", MFD_CLOEXEC);
		REQUIRE(memfd >= 0 && !ftruncate(memfd, 4 << 20));
		fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW);
		f.imp->bytes = 4 << 20;
		memory_remember(f.imp->fd, memfd);
		REQUIRE_OK(import_now(&f));
		import_finish(&f, 0);
		later = host(4 << 20);
		CHECK(memset(later, 1, 4 << 20) == later);
		drop(later);
		memory_forget(memfd);
		close(memfd);
	}
	contract_end();
}

TEST(what_is_exported_is_whole)
{
	static const size_t sizes[][2] = {
		{ 4096, 64 << 10 }, { 100000, 128 << 10 }, { 2 << 20, 2 << 20 },
		{ (2 << 20) + 4096, 4 << 20 },
	};
	struct dlbuf_exported out;
	void *p;

	contract_begin("memfds,pools");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		p = usm(&app, sizes[i][0], true);
		CHECK_OK(export_at(dev, p, 1, kDLOneAPI, 0, &out));
		CHECK_EQ(lseek(out.fd, 0, SEEK_END), out.bytes);
		CHECK(out.bytes == sizes[i][1] && !out.offset);
		close(out.fd);
		drop(p);
	}
	/* The first part of a pool, at its beginning. */
	p = usm(&app, 4096, false);
	REFUSES(dev, p, 1, kDLOneAPI, 0, -EOPNOTSUPP, "it is a part of another one");
	drop(p);
	contract_end();
}

/* An application's own mapping, which it registers. */
TEST(registered_memory_is_not_exported)
{
	struct lzabi_memmap_sysmem map = {
		.stype = (ze_structure_type_t)LZABI_STYPE_EXTERNAL_MEMMAP_SYSMEM,
		.bytes = 4096,
	};
	const ze_host_mem_alloc_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, .pNext = &map,
	};
	struct dlbuf_exported out = { .fd = 77 };
	void *p = NULL;

	contract_begin("memfds");
	map.memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(map.memory != MAP_FAILED);
	REQUIRE(!lz.MemAllocHost(app.dev.context, &desc, 4096, 4096, &p));
	CHECK(p == map.memory);
	REFUSES(dev, p, 4096, kDLOneAPI, 0, -EOPNOTSUPP, "exports no such memory");
	drop(p);
	munmap(map.memory, 4096);
	contract_end();
}

TEST(codes)
{
	ze_external_memory_import_fd_t fd = {
		.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD, .fd = -1,
	};
	ze_memory_allocation_properties_t props = {
		.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES,
	};
	ze_device_mem_alloc_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
	};
	ze_device_handle_t of;
	int pipes[2];
	size_t bytes;
	void *p;

	contract_begin("memfds");
	/* Memory that was not allocated. */
	CHECK_EQ(lz.MemGetAllocProperties(app.dev.context, &fd, &props, &of), 0);
	CHECK_EQ(props.type, ZE_MEMORY_TYPE_UNKNOWN);
	REFUSED(LZABI_RESULT_ADDRESS_NOT_FOUND,
		lz.MemGetAddressRange(app.dev.context, &fd, &p, &bytes));
	REFUSED(ZE_RESULT_ERROR_INVALID_ARGUMENT, lz.MemFree(app.dev.context, &fd));
	REFUSED(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
		lz.MemAllocDevice(app.dev.context, &desc, 0, 4096, app.dev.device, &p));
	/* An fd that is none, or no dma-buf, stays open. */
	desc.pNext = &fd;
	REQUIRE(!pipe(pipes));
	for (int i = 0; i < 4; i++) {
		fd.fd = i == 1 ? -1 : pipes[0];
		fd.flags = i < 2 ? ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF : i == 2 ? 0 :
			   ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF |
			   ZE_EXTERNAL_MEMORY_TYPE_FLAG_OPAQUE_FD;
		REFUSED(i < 2 ? ZE_RESULT_ERROR_INVALID_ARGUMENT :
				ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION,
			lz.MemAllocDevice(app.dev.context, &desc, 4096, 4096,
					  app.dev.device, &p));
		CHECK(fcntl(pipes[0], F_GETFD) >= 0);
	}
	close(pipes[0]);
	close(pipes[1]);
	contract_end();
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
