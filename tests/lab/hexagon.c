// SPDX-License-Identifier: MIT
/*
 * A Hexagon DSP and real dma-bufs: FastRPC's mappings of them, allocation, and the order
 * of accesses. The DSP is the double of FastRPC's library (tests/doubles/hexagon.h).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>

#include <dlbuf/interop/hexagon.h>

#include "../cts/cts.h"
#include "doubles/hexagon.h"

#define BYTES 65536

const char *cts_device = "hexagon:cdsp";
const struct access *cts_access = &access_hexagon;

static struct fake_hexagon *fake(void)
{
	void *lib = dlopen(getenv("DLBUF_HEXAGON_LIBRARY"), RTLD_NOW);
	fake_hexagon_fn fn = lib ? (fake_hexagon_fn)dlsym(lib, "fake_hexagon") : NULL;

	if (!fn)
		SKIP("DLBUF_HEXAGON_LIBRARY is not the double");
	return fn(false);
}

/* Also where the standard input is closed: fd 0 is none in a remote call. */
static void one_map(void *arg)
{
	struct fake_hexagon *dsp = fake();
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int fd AUTO_FD = cts_alloc("heap:system", BYTES), again AUTO_FD = dup(fd);
	DLBUF_INFO(dlbuf_hexagon_buffer, b);
	DLManagedTensorVersioned *one, *two;
	int in = dup(0);

	close(0);
	one = cts_import(dev, fd, BYTES);
	two = cts_import(dev, again, BYTES);
	CHECK_OK(dlbuf_hexagon_get_buffer(two, &b));
	CHECK_EQ(dsp->made[FAKE_MAP], 1);
	CHECK_EQ(dsp->made[FAKE_REGISTRATION], 1);
	CHECK(b.fd > 2 && b.fd == dsp->map.fd);
	CHECK_EQ(b.bytes, BYTES);
	CHECK(b.address == dsp->map.p && one->dl_tensor.data == b.address);
	dup2(in, 0);
	close(in);
	cts_delete(one);
	cts_delete(two);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(dsp->live[FAKE_MAP], 0);
	CHECK_EQ(dsp->live[FAKE_REGISTRATION], 0);
	CHECK_EQ(dsp->wrong, 0);
}

static bool is_heap(int fd)
{
	char path[40], line[80];
	bool heap = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		heap |= !strcmp(line, "exp_name:\tsystem\n");
	if (f)
		fclose(f);
	return heap;
}

/* The dma-heap comes first for a DSP, alone or with others. */
static void allocations(void *arg)
{
	static const struct {
		size_t ndevs;
		const char *exporter;
		bool heap;
	} cases[] = {
		{ 1, NULL, true },
		{ 2, NULL, true },
		{ 1, "udmabuf", false },
	};
	struct fake_hexagon *dsp = fake();

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = cases[i].exporter);
		DLBUF_INFO(dlbuf_tensor_info, info);
		struct dlbuf_device *devs[2] = { NULL, NULL };
		DLManagedTensorVersioned *t[2] = { NULL, NULL };
		int64_t shape = 5000;
		DLTensor layout = LAYOUT8(1, &shape);
		unsigned char got[64], want[64];

		REQUIRE_OK(dlbuf_device_open(cts_device, NULL, &devs[0]));
		REQUIRE_OK(dlbuf_device_open("cpu", NULL, &devs[1]));
		REQUIRE_OK(dlbuf_alloc(devs, cases[i].ndevs, &layout, &opts, t));
		CHECK_OK(dlbuf_tensor_get_info(t[0], &info));
		CHECK_EQ(is_heap(info.fd), cases[i].heap);
		cts_pattern(want, sizeof(want), i);
		cts_write(t[0], 100, want, sizeof(want));
		cts_peek(info.fd, 100, got, sizeof(got));
		CHECK(!memcmp(got, want, sizeof(got)));
		cts_delete(t[0]);
		cts_delete(t[1]);
		dlbuf_device_close(devs[0]);
		dlbuf_device_close(devs[1]);
	}
	CHECK_EQ(dsp->wrong, 0);
}

/*
 * Another writer's fence arrives during the access. A release does not wait for it, and
 * the next acquire does.
 */
static void a_release_waits_for_nobody(void *arg)
{
	struct cts_fence later AUTO_FENCE;
	struct dlbuf_device *dev AUTO_DEV = (fake(), cts_open());
	int fd AUTO_FD = cts_alloc("heap:system", BYTES);
	DLBUF_OPTS(dlbuf_acquire_opts, at_once, .deadline_ns = 1);
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);

	cts_fence_create(&later);
	CHECK_OK(dlbuf_acquire(t, DLBUF_RW, NULL, NULL));
	REQUIRE_OK(dlbuf_fence_import(fd, DLBUF_WRITE, later.sync_file));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, &at_once), -ETIME);
	cts_fence_signal(&later);
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	cts_delete(t);
}

int main(int argc, char **argv)
{
	ktap_case("one-map", one_map, NULL);
	ktap_case("allocations", allocations, NULL);
	ktap_case("a-release-waits-for-nobody", a_release_waits_for_nobody, NULL);
	return ktap_run(argc, argv);
}
