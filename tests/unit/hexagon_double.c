// SPDX-License-Identifier: MIT
/*
 * The rules of the double of FastRPC's library (tests/doubles/hexagon.h): the results of
 * its calls, and its reports of calls that break something later.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_HEXAGON
#include <fcntl.h>
#include <sys/mman.h>

#include "backends/hexagon/api.h"
#include "double.h"
#include "doubles/hexagon.h"
#include "rules.h"

#define BYTES 8192
#define CDSP 3

static struct fake_hexagon *fake;
#include "counts.h"
static fake_hexagon_fn fake_fn;
static void *fake_lib;
static struct hexagon_api rpc;
static int fd;
static char *p;

static void begin(const char *words)
{
	LOAD(hexagon, "HEXAGON", words);
#define X(name, ...) rpc.name = (__typeof__(rpc.name))dlsym(fake_lib, #name);
	HEXAGON_FUNCTIONS(X)
#undef X
	fd = memfd_create("a dma-buf", MFD_CLOEXEC);
	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(p != MAP_FAILED);
}

static void end(void)
{
	munmap(p, BYTES);
	close(fd);
	UNLOAD();
}

static int map(int domain, void *at, int offset, size_t size, int flags)
{
	return rpc.fastrpc_mmap(domain, fd, at, offset, size, (uint32_t)flags);
}

TEST(maps)
{
	static const struct {
		const char *words;
		int domain, at, offset, flags;
		size_t size;
		unsigned int wrongs;
		int aee;
	} cases[] = {
		{ "", CDSP, 0, 0, HEXAGON_MAP_FD, BYTES, 0, 0 },
		{ "", CDSP, 0, 0, HEXAGON_MAP_STATIC, BYTES, 0, 0 },
		/* All of a buffer, from its beginning. */
		{ "", CDSP, 4096, 0, HEXAGON_MAP_FD, 4096, 1, 0 },
		{ "", CDSP, 0, 4096, HEXAGON_MAP_FD, 4096, 1, AEE_EBADPARM },
		{ "", CDSP, 0, 0, 99, BYTES, 1, AEE_EBADPARM },
		{ "", CDSP, 0, 0, HEXAGON_MAP_FD, BYTES + 4096, 1, AEE_EFAILED },
		{ "", 99, 0, 0, HEXAGON_MAP_FD, BYTES, 0, AEE_EBADPARM },
		{ "unsupported", CDSP, 0, 0, HEXAGON_MAP_FD, BYTES, 0,
		  AEE_EUNSUPPORTED },
		{ "nosession", CDSP, 0, 0, HEXAGON_MAP_FD, BYTES, 0,
		  AEE_ENOTINITIALIZED },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool maps = !cases[i].aee;

		begin(cases[i].words);
		BREAKS(cases[i].wrongs, cases[i].aee,
		       map(cases[i].domain, p + cases[i].at, cases[i].offset,
			   cases[i].size, cases[i].flags));
		CHECK_EQ(fake->live[FAKE_MAP], maps);
		if (maps) {
			CHECK_EQ(map(CDSP, p, 0, BYTES, HEXAGON_MAP_FD),
				 AEE_EALREADY);
			BREAKS(cases[i].wrongs, 0,
			       rpc.fastrpc_munmap(CDSP, fd, p + cases[i].at,
						  cases[i].size));
			CHECK_EQ(rpc.fastrpc_munmap(CDSP, fd, p, BYTES),
				 AEE_ENOSUCHMAP);
		}
		end();
	}
}

/* The fd and the mapping are there until the map ends, which is of the same bytes. */
DOUBLE_CASE(ends_of_maps, "")
{
	int other;

	OK(map(CDSP, p, 0, BYTES, HEXAGON_MAP_FD));
	BREAKS(1, 0, rpc.fastrpc_munmap(CDSP, fd, p, BYTES - 1));
	OK(map(CDSP, p, 0, BYTES, HEXAGON_MAP_FD));
	/* Another file has the number. */
	other = dup(fd);
	REQUIRE(other > fd);
	close(fd);
	REQUIRE(memfd_create("another", MFD_CLOEXEC) == fd);
	BREAKS(1, 0, rpc.fastrpc_munmap(CDSP, fd, p, BYTES));
	close(fd);
	fd = fcntl(other, F_DUPFD_CLOEXEC, 3);
	close(other);
	OK(map(CDSP, p, 0, BYTES, HEXAGON_MAP_FD));
	munmap(p, BYTES);
	BREAKS(1, 0, rpc.fastrpc_munmap(CDSP, fd, p, BYTES));
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void end_with_another_size(void)
{
	CHECK(freopen("/dev/null", "w", stderr));
	rpc.remote_register_buf_attr2(p, BYTES - 4096, -1, 0);
}

DOUBLE_CASE(registrations, "")
{
	rpc.remote_register_buf_attr2(p, BYTES, fd, 0);
	rpc.remote_register_buf_attr2(p, BYTES, fd, 0);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 1);
	CHECK_EQ(fake->registrations, 2);
	CHECK(aborted(child(end_with_another_size)));
	/* As often as it began. */
	rpc.remote_register_buf(p, BYTES, -1);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 1);
	rpc.remote_register_buf(p, BYTES, -1);
	CHECK_EQ(fake->wrong, 0);
	rpc.remote_register_buf(p, BYTES, -1);
	CHECK_EQ(fake->wrong, 1);
	fake->wrong = 0;
}
#else
KTAP_SKIPPED("Hexagon is not built")
#endif

KTAP_MAIN()
