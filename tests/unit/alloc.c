// SPDX-License-Identifier: MIT
/* Exporters that are asked wrongly or are not there. */
#include <fcntl.h>

#include "common.h"
#include "ktap.h"

#include <dlbuf/dlbuf.h>

#include "system/internal.h"

#ifdef CONFIG_EXPORTER_UDMABUF
#define HAVE_UDMABUF 1
#else
#define HAVE_UDMABUF 0
#endif
#ifdef CONFIG_EXPORTER_HEAP
#define HAVE_HEAP 1
#else
#define HAVE_HEAP 0
#endif

static int alloc_fd(const char *exporter, uint64_t bytes, const char *name)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter, .name = name);
	int fd = 77, ret = dlbuf_alloc_fd(bytes, &opts, &fd);

	if (ret)
		CHECK_EQ(fd, 77);
	else
		close(fd);
	return ret;
}

TEST(names_of_no_exporter)
{
	CHECK_ERR(alloc_fd(NULL, 4096, NULL), -EINVAL);
	CHECK_ERR(alloc_fd("", 4096, NULL), -EINVAL);
	CHECK_ERR_SAYS(alloc_fd("nope", 4096, NULL), -EINVAL, "nope");
	CHECK_ERR(alloc_fd("udmabufs", 4096, NULL), -EINVAL);
	CHECK_ERR(alloc_fd("UDMABUF", 4096, NULL), -EINVAL);
	CHECK_ERR(alloc_fd(":system", 4096, NULL), -EINVAL);
	CHECK_ERR(dlbuf_alloc_fd(4096, NULL, NULL), -EINVAL);
	/* These are made by parties, and here there are none. */
	CHECK_ERR(alloc_fd("device", 4096, NULL), -EINVAL);
	CHECK_ERR(alloc_fd("v4l2", 4096, NULL), -EINVAL);
}

#if HAVE_UDMABUF || HAVE_HEAP
TEST(selectors)
{
	if (HAVE_UDMABUF) {
		CHECK_ERR_SAYS(alloc_fd("udmabuf:4K", 4096, NULL), -EINVAL, "4K");
	}
	if (HAVE_HEAP) {
		CHECK_ERR(alloc_fd("heap:../udmabuf", 4096, NULL), -EINVAL);
		CHECK_ERR(alloc_fd("heap:a/b", 4096, NULL), -EINVAL);
		CHECK_ERR_SAYS(alloc_fd("heap:nope", 4096, NULL), -ENODEV, "/dev/dma_heap/nope");
	}
}
#endif

#if !HAVE_UDMABUF || !HAVE_HEAP
TEST(not_built)
{
	struct dlbuf_udmabuf buf = { .fd = 77 };
	int fd = 77;

	if (!HAVE_UDMABUF) {
		CHECK_ERR(dlbuf_udmabuf_create(4096, NULL, &buf), -ENOSYS);
		CHECK_ERR(alloc_fd("udmabuf", 4096, NULL), -ENOSYS);
		CHECK_ERR(alloc_fd("udmabuf:2M", 4096, NULL), -ENOSYS);
		dlbuf_udmabuf_close(NULL);
	}
	if (!HAVE_HEAP) {
		CHECK_ERR(alloc_fd("heap:system", 4096, NULL), -ENOSYS);
	}
	CHECK_EQ(buf.fd, 77);
	CHECK_EQ(fd, 77);
}
#endif

/* ---------------------------------------------------------------- absent */

#if HAVE_UDMABUF
TEST(udmabuf_absent)
{
	struct dlbuf_udmabuf buf = { .fd = 77, .memfd = 77 };

	if (!access("/dev/udmabuf", F_OK))
		SKIP("this machine has /dev/udmabuf");
	CHECK_ERR_SAYS(dlbuf_udmabuf_create(4096, NULL, &buf), -ENODEV, "/dev/udmabuf");
	CHECK_EQ(buf.fd, 77);
	CHECK_EQ(buf.memfd, 77);
	CHECK_ERR_SAYS(alloc_fd("udmabuf", 4096, NULL), -ENODEV, "/dev/udmabuf");
	CHECK_ERR(alloc_fd("udmabuf:2M", 4096, NULL), -ENODEV);
}

#endif

#if HAVE_HEAP
TEST(heaps_absent)
{
	if (!access("/dev/dma_heap/system", F_OK))
		SKIP("this machine has /dev/dma_heap/system");
	CHECK_ERR(alloc_fd("heap:system", 4096, NULL), -ENODEV);
	CHECK_ERR_SAYS(alloc_fd("heap", 4096, NULL), -ENODEV, "/dev/dma_heap/system");
}
#endif

#ifdef CONFIG_BACKEND_CPU
/* With no exporter named both are tried, and both causes are reported. */
TEST(every_exporter_absent)
{
	int64_t shape[] = { 4, 4 };
	DLTensor layout = LAYOUT8(2, shape);
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *cpu AUTO_DEV;

	if (!access("/dev/udmabuf", F_OK) || !access("/dev/dma_heap", F_OK))
		SKIP("this machine has an exporter");
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	if (HAVE_UDMABUF || HAVE_HEAP)
		CHECK_ERR(dlbuf_alloc(&cpu, 1, &layout, NULL, &t), -ENODEV);
	else
		CHECK_ERR(dlbuf_alloc(&cpu, 1, &layout, NULL, &t), -ENOSYS);
	if (HAVE_UDMABUF)
		CHECK_SAYS("/dev/udmabuf");
	if (HAVE_HEAP)
		CHECK_SAYS("/dev/dma_heap/system");
	CHECK(!t);
}

TEST(bad_arguments_of_alloc)
{
	DLBUF_OPTS(dlbuf_alloc_opts, nobody, .exporter = "no-such");
	DLBUF_OPTS(dlbuf_alloc_opts, no_heap, .exporter = "heap:no-such");
	int64_t shape[] = { 4, -4 };
	DLTensor layout = LAYOUT8(2, shape);
	DLManagedTensorVersioned *t[2] = { NULL };
	struct dlbuf_device *devs[2] = { NULL };

	CHECK_ERR_SAYS(dlbuf_alloc(devs, 1, &layout, NULL, t), -EINVAL, "devs[0]");
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &devs[0]));
	CHECK_ERR_SAYS(dlbuf_alloc(devs, 2, &layout, NULL, t), -EINVAL, "devs[1]");
	CHECK_ERR(dlbuf_alloc(devs, 0, &layout, NULL, t), -EINVAL);
	CHECK_ERR(dlbuf_alloc(NULL, 1, &layout, NULL, t), -EINVAL);
	CHECK_ERR(dlbuf_alloc(devs, 1, &layout, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_alloc(devs, 1, NULL, NULL, t), -EINVAL);
	CHECK_ERR_SAYS(dlbuf_alloc(devs, 1, &layout, NULL, t), -EINVAL, "shape[1]");
	shape[0] = shape[1] = INT64_MAX;
	CHECK_ERR(dlbuf_alloc(devs, 1, &layout, NULL, t), -EOVERFLOW);
	shape[0] = shape[1] = 4;
	CHECK_ERR(dlbuf_alloc(devs, 1, &layout, &nobody, t), -EINVAL);
	if (HAVE_HEAP)
		CHECK_ERR(dlbuf_alloc(devs, 1, &layout, &no_heap, t), -ENODEV);
	CHECK(!t[0] && !t[1]);
	dlbuf_device_close(devs[0]);
}
#endif

static int see(const struct dlbuf_exporter_info *info, void *data)
{
	CHECK_EQ(info->size, sizeof(*info));
	CHECK(!strncmp(info->name, "udmabuf", 7) ||
	      !strncmp(info->name, "heap", 4));
	CHECK(!strncmp(info->node, "/dev/", 5));
	CHECK(!info->status == !info->reason[0]);
	CHECK(!strchr(info->reason, '\n'));
	if (access(info->node, F_OK))
		CHECK_EQ(info->status, -ENODEV);
	++*(int *)data;
	return 0;
}

static int stop(const struct dlbuf_exporter_info *info, void *data)
{
	++*(int *)data;
	return -4321;
}

TEST(each)
{
	int n = 0;

	CHECK_OK(dlbuf_exporter_each(see, &n));
	CHECK(n >= 2 * HAVE_UDMABUF + HAVE_HEAP);
	CHECK_ERR(dlbuf_exporter_each(NULL, NULL), -EINVAL);
	if (!HAVE_UDMABUF && !HAVE_HEAP)
		return;
	n = 0;
	CHECK_EQ(dlbuf_exporter_each(stop, &n), -4321);
	CHECK_EQ(n, 1);
}

/* ---------------------------------------------------------------- arguments */

#define NAME31 "0123456789012345678901234567890"

TEST(sizes_and_names)
{
	DLBUF_OPTS(dlbuf_udmabuf_opts, huge, .flags = DLBUF_UDMABUF_2M);
	DLBUF_OPTS(dlbuf_udmabuf_opts, flags, .flags = 2);
	DLBUF_OPTS(dlbuf_udmabuf_opts, name, .name = NAME31 "x");
	struct dlbuf_udmabuf buf = { .fd = 77 };
	int fd = 77;

	CHECK_ERR_SAYS(alloc_fd("udmabuf", 4096, NAME31 "x"), -EINVAL, "31 bytes");
	if (HAVE_UDMABUF) {
		CHECK_ERR(dlbuf_udmabuf_create(0, NULL, &buf), -EINVAL);
		CHECK_ERR(dlbuf_udmabuf_create(4096, NULL, NULL), -EINVAL);
		CHECK_ERR(dlbuf_udmabuf_create(4096, &flags, &buf), -EINVAL);
		CHECK_ERR(dlbuf_udmabuf_create(4096, &name, &buf), -EINVAL);
		CHECK_ERR(dlbuf_udmabuf_create(UINT64_MAX, NULL, &buf), -ENOMEM);
		CHECK_ERR(dlbuf_udmabuf_create(UINT64_MAX - 4095, &huge, &buf), -ENOMEM);
	}
	if (HAVE_HEAP) {
		CHECK_ERR(alloc_fd("heap:system", 0, NULL), -EINVAL);
		CHECK_ERR(alloc_fd("heap:..", 1, NULL), -EINVAL);
		CHECK_ERR(alloc_fd("heap:../zero", 1, NULL), -EINVAL);
		CHECK_ERR(alloc_fd("heap:" NAME31 NAME31 "012", 1, NULL), -EINVAL);
	}
	CHECK_EQ(buf.fd, 77);
	CHECK_EQ(fd, 77);
}

#ifdef CONFIG_EXPORTER_UDMABUF
TEST(closing_twice)
{
	struct dlbuf_udmabuf buf = { -1, -1, 0 };

	dlbuf_udmabuf_close(NULL);
	dlbuf_udmabuf_close(&buf);
	buf.fd = memfd_create("a", MFD_CLOEXEC);
	buf.memfd = memfd_create("b", MFD_CLOEXEC);
	dlbuf_udmabuf_close(&buf);
	CHECK_EQ(buf.fd, -1);
	CHECK_EQ(buf.memfd, -1);
	dlbuf_udmabuf_close(&buf);
}
#endif

KTAP_MAIN()
