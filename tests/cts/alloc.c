// SPDX-License-Identifier: MIT
/* New dma-bufs, for one device and for several. unit/alloc tests the refusals. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/backend.h"
#include "cts.h"

static int64_t shape_1m[] = { 1024, 1024 };
static const DLTensor layout_1m = LAYOUT8(2, shape_1m);

/* Skips if there is no exporter; with several devices each has given its reason. */
static void alloc_ok(int ret)
{
	if (ret == -ENODEV || ret == -EOPNOTSUPP)
		ABSENT("%s", dlbuf_last_error());
	REQUIRE_OK(ret);
}

static void one_device(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = NULL;
	unsigned char zero[4096] = { 0 }, got[4096];
	DLBUF_INFO(dlbuf_tensor_info, info);

	alloc_ok(dlbuf_alloc(&dev, 1, &layout_1m, NULL, &t));
	CHECK_EQ(dlbuf_tensor_get_info(t, &info), 0);
	/* Memory of a device's own comes in blocks. */
	CHECK(info.bytes >= 1 << 20 && info.bytes <= 4 << 20);
	CHECK_EQ(info.access, DLBUF_RW);
	memset(got, 1, sizeof(got));
	cts_read(t, 4096 * 100, got, sizeof(got));
	CHECK(!memcmp(got, zero, sizeof(got)));
}

/* A layout of any dimensions and strides, and of a size that is no whole number of pages. */
static void every_layout(void *arg)
{
	static const unsigned int ndims[] = { 0, 1, 2, 3, 4, 5, 6, 17, 32, 63, 64 };
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int64_t dims[2 * DLBUF_MAX_NDIM];
	DLManagedTensorVersioned *t;
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLTensor l;

	for (unsigned int i = 0; i < sizeof(ndims) / sizeof(ndims[0]); i++) {
		cts_layout(ndims[i], i % CTS_FORMS, &l, dims);
		alloc_ok(dlbuf_alloc(&dev, 1, &l, NULL, &t));
		cts_check_layout(t, &l);
		CHECK_OK(dlbuf_tensor_get_info(t, &info));
		CHECK(info.bytes >= info.end && info.access == DLBUF_RW);
		cts_delete(t);
	}
}

/* Each device reads the bytes that the other writes. */
static void two_devices(void *arg)
{
	struct dlbuf_device *devs[2] = { cts_open(), NULL };
	DLManagedTensorVersioned *t[2] = { NULL };
	unsigned char want[4096], got[4096];
	DLBUF_INFO(dlbuf_tensor_info, info);

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &devs[1]));
	alloc_ok(dlbuf_alloc(devs, 2, &layout_1m, NULL, t));
	cts_pattern(want, sizeof(want), 9);
	cts_write(t[0], 8192, want, sizeof(want));
	CHECK_EQ(dlbuf_acquire(t[1], DLBUF_READ, NULL, NULL), 0);
	CHECK(!memcmp((char *)t[1]->dl_tensor.data + 8192, want, sizeof(want)));
	CHECK_EQ(dlbuf_release(t[1], NULL, NULL), 0);
	cts_pattern(want, sizeof(want), 10);
	CHECK_EQ(dlbuf_acquire(t[1], DLBUF_WRITE, NULL, NULL), 0);
	memcpy((char *)t[1]->dl_tensor.data + 8192, want, sizeof(want));
	CHECK_EQ(dlbuf_release(t[1], NULL, NULL), 0);
	cts_read(t[0], 8192, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(t[0]);
	cts_delete(t[1]);
	/* A device that requires bytes behind a buffer; the exporters round to pages. */
	devs[1]->slack = 64;
	alloc_ok(dlbuf_alloc(devs, 2, &layout_1m, NULL, t));
	CHECK_OK(dlbuf_tensor_get_info(t[1], &info));
	CHECK_EQ(info.bytes, (1 << 20) + 4096);
	cts_delete(t[0]);
	cts_delete(t[1]);
	dlbuf_device_close(devs[0]);
	dlbuf_device_close(devs[1]);
}

/* An allocation is freed with its tensor, because it will not be imported again. */
static void nothing_stays(void *arg)
{
	struct dlbuf_device_stats stats = { .size = sizeof(stats) };
	int64_t bytes = 16 << 20;
	const DLTensor layout = LAYOUT8(1, &bytes);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = NULL;
	DLBUF_OPTS(dlbuf_alloc_opts, udmabuf, .exporter = "udmabuf");
	DLBUF_INFO(dlbuf_tensor_info, info);
	unsigned int fds;

	alloc_ok(dlbuf_alloc(&dev, 1, &layout, NULL, &t));
	cts_delete(t);
	fds = cts_count_fds();
	for (int i = 0; i < 60; i++) {
		REQUIRE_OK(dlbuf_alloc(&dev, 1, &layout, NULL, &t));
		cts_delete(t);
	}
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.live + stats.idle, 0);
	CHECK_EQ(stats.idle_bytes, 0);
	CHECK_EQ(cts_count_fds(), fds);
	/* Another device imports it like any dma-buf. */
	alloc_ok(dlbuf_alloc(&dev, 1, &layout, &udmabuf, &t));
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	cts_delete(cts_import(dev, info.fd, 4096));
	cts_delete(t);
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.idle, 1);
}

/* The memfd shows the dma-buf's pages, and may go first. */
static void memfd(void *arg)
{
	DLBUF_OPTS(dlbuf_udmabuf_opts, opts, .name = "cts memfd");
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dlbuf_udmabuf buf = { .fd = -1, .memfd = -1 };
	DLManagedTensorVersioned *t AUTO_TENSOR;
	unsigned char want[256], got[256];

	alloc_ok(dlbuf_udmabuf_create(5000, &opts, &buf));
	CHECK_EQ(buf.bytes, 8192);
	CHECK(buf.fd >= 3 && buf.memfd >= 3);
	CHECK(fcntl(buf.fd, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(buf.memfd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(fcntl(buf.memfd, F_GET_SEALS),
		 F_SEAL_SHRINK | F_SEAL_GROW);
	t = cts_import(dev, buf.fd, buf.bytes);
	cts_pattern(want, sizeof(want), 1);
	CHECK_EQ(pwrite(buf.memfd, want, sizeof(want), 4096), sizeof(want));
	cts_read(t, 4096, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_pattern(want, sizeof(want), 2);
	cts_write(t, 0, want, sizeof(want));
	CHECK_EQ(pread(buf.memfd, got, sizeof(got), 0), sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	dlbuf_udmabuf_close(&buf);
	CHECK_EQ(buf.fd, -1);
	CHECK_EQ(buf.memfd, -1);
	dlbuf_udmabuf_close(&buf);
	dlbuf_udmabuf_close(NULL);
	cts_read(t, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	/* More than any size_limit_mb, and than the machine has. */
	CHECK(dlbuf_udmabuf_create(1ull << 50, NULL, &buf) < 0 && dlbuf_last_error()[0]);
	CHECK_EQ(buf.fd, -1);
}

void cts_cases_alloc(void)
{
	ktap_case("alloc/one-device", one_device, NULL);
	ktap_case("alloc/every-layout", every_layout, NULL);
	ktap_case("alloc/nothing-stays", nothing_stays, NULL);
	ktap_case("alloc/two-devices", two_devices, NULL);
	ktap_case("alloc/memfd", memfd, NULL);
}
