// SPDX-License-Identifier: MIT
/* Bad input: one errno, one sentence, nothing left behind, nothing written. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "cts.h"

#define BYTES 8192

/* Checks that the call fails as expected, and does not change fds and the result. */
static void refused(struct dlbuf_device *dev, int fd, const DLTensor *layout, int err)
{
	static DLManagedTensorVersioned poison;
	DLManagedTensorVersioned *t = &poison;
	unsigned int fds = cts_count_fds();

	CHECK_ERR(dlbuf_import(dev, fd, layout, NULL, &t), err);
	CHECK(t == &poison);
	CHECK_EQ(cts_count_fds(), fds);
}

static int64_t one = 1;
static const DLTensor byte = LAYOUT8(1, &one);

static void sync_file(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dma_buf_export_sync_file export = { .flags = DMA_BUF_SYNC_RW };

	if (ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export))
		SKIP("the kernel has no DMA_BUF_IOCTL_EXPORT_SYNC_FILE");
	refused(dev, export.fd, &byte, -EBADF);
	CHECK(strstr(dlbuf_last_error(), "sync_file"));
	close(export.fd);
}

/* unit/layout has the others; a buffer that the cache knows makes no difference. */
static void layouts(void *arg)
{
	static const struct {
		int err;
		int64_t shape, stride;
		uint64_t offset;
	} rows[] = {
		{ -ERANGE, BYTES + 1, 1, 0 },
		{ -ERANGE, BYTES, 1, 1 },
		{ -ERANGE, 1, 1, BYTES },
		{ -ERANGE, 3, -1, 1 },
		{ -ERANGE, 2, INT64_MIN, 0 },
		{ -EINVAL, -1, 1, 0 },
		{ -EOVERFLOW, 2, 1, UINT64_MAX },
	};
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();

	for (int known = 0; known < 2; known++) {
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			int64_t shape = rows[i].shape, stride = rows[i].stride;
			const DLTensor layout = LAYOUT8(1, &shape,
				.strides = &stride, .byte_offset = rows[i].offset);

			refused(dev, fd, &layout, rows[i].err);
		}
		cts_delete(cts_import(dev, fd, BYTES));
	}
}

/*
 * All of these can be polled, and most are never readable. No thread waits for one, no
 * driver gets one, and no message has one.
 */
static void fences(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), one_way[2], sock[2];
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { cts_import(dev, fd, BYTES),
							  cts_import(dev, fd, BYTES) };
	struct dlbuf_frame f = PICTURE(64, 64, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .modifier = DLBUF_MOD_LINEAR,
		.planes = { { .fd = fd, .pitch = 64 } }, .order = DLBUF_ORDER_FENCE);
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = 1);
	DLManagedTensorVersioned *none[DLBUF_MAX_PLANES] = { NULL };
	uint32_t n = 77;

	REQUIRE(!pipe(one_way) && !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	const struct {
		int fd, err;
	} files[] = {
		{ eventfd(0, EFD_CLOEXEC), -EINVAL },
		{ timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), -EINVAL },
		{ memfd_create("no fence", MFD_CLOEXEC), -EINVAL },
		{ open("/dev/zero", O_RDWR | O_CLOEXEC), -EINVAL },
		{ one_way[0], -EINVAL },
		{ sock[0], -EINVAL },
		{ fd, -EINVAL },
		{ 4711, -EBADF },
		{ -5, -EBADF },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		f.fence = opts.fence = files[i].fd;
		CHECK_ERR(dlbuf_acquire(t[0], DLBUF_READ, NULL, &opts), files[i].err);
		CHECK_ERR(dlbuf_acquire_all(t, 2, DLBUF_RW, NULL, &opts), files[i].err);
		CHECK_ERR(dlbuf_import_frame(dev, &f, NULL, none, &n), files[i].err);
		CHECK_ERR(dlbuf_send_frame(sock[1], &f, NULL), files[i].err);
		CHECK_ERR(dlbuf_recv(dev, sock[0], &(struct dlbuf_socket_opts){
			.size = sizeof(struct dlbuf_socket_opts),
			.flags = DLBUF_SOCKET_DONTWAIT }, none, &n, NULL), -EAGAIN);
		if (i < 4)
			close(files[i].fd);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_OK(dlbuf_acquire(t[i], DLBUF_RW, NULL, NULL));
		CHECK_OK(dlbuf_release(t[i], NULL, NULL));
		cts_delete(t[i]);
		close(one_way[i]);
		close(sock[i]);
	}
	CHECK(!none[0]);
	CHECK_EQ(n, 77);
}

static void device_names(void *arg)
{
	struct dlbuf_device *dev = NULL;
	char name[64];

	snprintf(name, sizeof(name), "%s:4711", cts_access->backend);
	CHECK_ERR(dlbuf_device_open(name, NULL, &dev), -ENODEV);
	snprintf(name, sizeof(name), "%s:no such device", cts_access->backend);
	CHECK_ERR(dlbuf_device_open(name, NULL, &dev), -ENODEV);
	CHECK(!dev);
}

static int count(const struct dlbuf_path_info *info, void *data)
{
	return ++*(int *)data, 0;
}

/* Errors that no other case provokes; see tests/abi/errors. */
static void errors(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), ro AUTO_FD, got = -7, n = 0;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int memfd AUTO_FD = memfd_create("another size", 0), sock AUTO_FD;
	DLBUF_OPTS(dlbuf_alloc_opts, heap, .exporter = "heap:system");
	DLBUF_OPTS(dlbuf_import_opts, read, .access = DLBUF_READ);
	DLBUF_OPTS(dlbuf_import_opts, copy, .flags = DLBUF_IMPORT_MAY_COPY,
		   .paths = DLBUF_PATH_BIT(DLBUF_PATH_COPY));
	DLBUF_OPTS(dlbuf_import_opts, rw, .access = DLBUF_RW);
	DLManagedTensorVersioned *t = NULL, *u[DLBUF_MAX_PLANES] = { NULL };
	DLTensor half = byte;
	uint32_t nu = 0;
	struct dlbuf_frame f = {
		.size = sizeof(f), .width = 8, .height = 8, .nplanes = 1,
		.code = DLBUF_FOURCC('R', '8', ' ', ' '), .code_space = DLBUF_CODE_DRM,
		.flags = DLBUF_FRAME_READ_ONLY, .planes = { { .fd = fd, .pitch = 8 } },
	};

	half.dtype.bits = 4;
	ro = cts_alloc_read_only(BYTES);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	REQUIRE(sock >= 0 && memfd >= 0);
	REQUIRE_OK(dlbuf_import(dev, fd, &byte, &read, &t));
	CHECK_ERR(dlbuf_buffer_query(fd, NULL), -EINVAL);
	CHECK_ERR(dlbuf_device_forget(NULL, fd), -EINVAL);
	CHECK_ERR(dlbuf_probe(dev, ro, DLBUF_RW, count, &n), -EACCES);
	CHECK_ERR(dlbuf_import_frame(dev, &f, &rw, u, &nu), -EACCES);
	CHECK_ERR(dlbuf_tensor_share(t, &half, u), -EOPNOTSUPP);
	CHECK_ERR(dlbuf_tensor_import(dev, t, &copy, u), -EOPNOTSUPP);
	CHECK_ERR(dlbuf_pending(t, 0, &got), -EINVAL);
	CHECK_ERR(dlbuf_pending(t, DLBUF_WRITE, &got), -EACCES);
	CHECK_ERR(dlbuf_udmabuf_remember(memfd, memfd), -EBADF);
	CHECK_ERR(dlbuf_udmabuf_remember(fd, fd), -EBADF);
	CHECK_ERR(dlbuf_udmabuf_remember(fd, memfd), -EINVAL);
	CHECK_ERR(dlbuf_alloc_fd(UINT64_MAX, &heap, &got), -ENOMEM);
	CHECK_ERR(dlbuf_send(-1, &t, 1, NULL), -EBADF);
	CHECK_ERR(dlbuf_send(sock, &t, 1, NULL), -ENOTCONN);
	CHECK(!u[0] && got == -7 && !n);
	cts_delete(t);
}

void cts_cases_input(void)
{
	if (!strcmp(cts_access->backend, "cpu"))
		ktap_case("input/errors", errors, NULL);
	ktap_case("input/sync-file", sync_file, NULL);
	ktap_case("input/layouts", layouts, NULL);
	ktap_case("input/fences", fences, NULL);
	/* A simulator has any name that a program waits for. */
	if (!cts_access->second)
		ktap_case("input/device-names", device_names, NULL);
}
