// SPDX-License-Identifier: MIT
/*
 * FastRPC's own library on a machine without a DSP: it has all functions, dlbuf's error
 * is right, and the library has those rules of the double that need no session. With
 * DLBUF_HEXAGON_LIBRARY the same of the double. tests/abi/hexagon builds and runs this.
 */
#include "ktap.h"

#include <dlfcn.h>

#include "backends/hexagon/hexagon.h"
#include "common.h"
#include "import/host.h"

#define BYTES 12288

static const char *file;	/* of the double */

static void *library(const char *name)
{
	void *lib = dlopen(file ? file : name, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		ktap_note(NULL, 0, "%s", dlerror());
	REQUIRE(lib);
	KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "the library's");
	return lib;
}

TEST(functions)
{
	static const char *const names[] = {
		"libcdsprpc.so.1", "libadsprpc.so.1", "libsdsprpc.so.1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		void *lib = library(names[i]);

#define X(name, needed, result, params)					\
		CHECK_MSG(dlsym(lib, #name), "%s has no " #name, names[i]);
		HEXAGON_FUNCTIONS(X)
#undef X
	}
}

static int report(const struct dlbuf_device_info *info, void *n)
{
	if (strcmp(info->backend, "hexagon"))
		return 0;
	++*(int *)n;
	CHECK_STR(info->name, "hexagon");
	CHECK_EQ(info->status, -ENODEV);
	CHECK_MSG(strstr(info->reason, "no DSP that FastRPC reaches"), "%s",
		  info->reason);
	return 0;
}

TEST(no_dsp)
{
	struct dlbuf_device *dev;
	int n = 0;

	if (file)
		SKIP("the double has one");
	library("libcdsprpc.so.1");
	CHECK_ERR(dlbuf_device_open("hexagon:cdsp", NULL, &dev), -ENODEV);
	CHECK_SAYS("hexagon: this machine has no cdsp");
	CHECK_ERR(dlbuf_device_open("hexagon:adsp", NULL, &dev), -ENODEV);
	CHECK_SAYS("hexagon: this machine has no adsp");
	CHECK_ERR(dlbuf_device_open("hexagon", NULL, &dev), -ENODEV);
	CHECK_SAYS("no DSP that FastRPC reaches");
	CHECK_OK(dlbuf_device_each(report, &n));
	CHECK_EQ(n, 1);
}

struct buffer {
	int fd;
	void *p;
};

static struct buffer new_buffer(void)
{
	struct buffer b = { memfd_create("a dma-buf", MFD_CLOEXEC), NULL };

	REQUIRE(b.fd >= 0 && !ftruncate(b.fd, BYTES));
	b.p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
	REQUIRE(b.p != MAP_FAILED);
	return b;
}

TEST(results_without_a_session)
{
	struct buffer b = new_buffer();
	struct hexagon_api api;

	library("libcdsprpc.so.1");
	REQUIRE_OK(hexagon_load(HEXAGON_CDSP, &api));
#define MAP(domain, fd, offset, flags) \
	api.fastrpc_mmap(domain, fd, b.p, offset, BYTES, flags)
	CHECK_EQ(MAP(3, -1, 0, HEXAGON_MAP_FD), AEE_EBADPARM);
	CHECK_EQ(MAP(3, b.fd, 4096, HEXAGON_MAP_FD), AEE_EBADPARM);
	CHECK_EQ(MAP(3, b.fd, 0, 1), AEE_EBADPARM);
	CHECK_EQ(MAP(32, b.fd, 0, HEXAGON_MAP_FD), AEE_EBADPARM);
	CHECK_EQ(MAP(3, b.fd, 0, HEXAGON_MAP_FD), AEE_ENOTINITIALIZED);
	CHECK_EQ(api.fastrpc_munmap(3, -1, b.p, BYTES), AEE_EBADPARM);
	CHECK_EQ(api.fastrpc_munmap(3, b.fd, b.p, BYTES), AEE_ENOTINITIALIZED);
	close(b.fd);
	munmap(b.p, BYTES);
}

/* The rule that ends the process. */
TEST(a_registration_ends_with_its_size_or_aborts)
{
	static const int signals[] = { 0, SIGABRT };
	struct buffer b = new_buffer();
	struct hexagon_api api;

	library("libcdsprpc.so.1");
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		int status;
		pid_t pid = fork();

		REQUIRE(pid >= 0);
		if (!pid) {
			if (hexagon_load(HEXAGON_CDSP, &api))
				_exit(1);
			api.remote_register_buf_attr2(b.p, BYTES, b.fd, 0);
			api.remote_register_buf_attr2(b.p, BYTES - i, -1, 0);
			_exit(0);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signals[i]);
	}
	close(b.fd);
	munmap(b.p, BYTES);
}

/*
 * dlbuf's import with that library: it says that there is no session; a registration by
 * itself begins and ends with the same size.
 */
TEST(imports)
{
	static const bool maps[] = { true, false };
	struct buffer b = new_buffer();

	library("libcdsprpc.so.1");
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		struct hexagon_device *dev = hexagon_device_new("cdsp", 3);
		struct hexagon_import hi = { .base = {
			.dev = &dev->base, .fd = b.fd, .bytes = BYTES,
			.id.access = DLBUF_RW, .paths = PATH_BIT(DLBUF_PATH_DIRECT),
		} };

		REQUIRE(dev);
		dev->base.backend = &hexagon_backend;
		REQUIRE_OK(hexagon_load(HEXAGON_CDSP, &dev->api));
		if (maps[i]) {
			CHECK_ERR(hexagon_import(&hi.base), -EOPNOTSUPP);
			CHECK_SAYS("the process has no FastRPC session with this DSP");
		} else {
			dev->api.fastrpc_mmap = NULL;
			REQUIRE_OK(hexagon_import(&hi.base));
			CHECK(hi.registered && hi.base.data);
			hexagon_unimport(&hi.base, false);
		}
		free(dev);
	}
	close(b.fd);
	munmap(b.p, BYTES);
}

int main(int argc, char **argv)
{
	file = getenv("DLBUF_HEXAGON_LIBRARY");
	return ktap_run(argc, argv);
}
