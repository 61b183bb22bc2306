// SPDX-License-Identifier: MIT
/* Bad input: one errno, one sentence, nothing left behind, nothing written. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "cts.h"

#define BYTES 8192

/* Fails as told, and leaves fds and the result alone. */
static void refused(struct dlbuf_device *dev, int fd, const DLTensor *layout,
		    const struct dlbuf_import_opts *opts, int err)
{
	static DLManagedTensorVersioned poison;
	DLManagedTensorVersioned *t = &poison;
	unsigned int fds = cts_count_fds();

	CHECK_ERR(dlbuf_import(dev, fd, layout, opts, &t), err);
	CHECK(t == &poison);
	CHECK_EQ(cts_count_fds(), fds);
}

static int64_t one = 1;
static const DLTensor byte = LAYOUT8(1, &one);

static void not_a_dma_buf(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLBUF_OPTS(dlbuf_import_opts, rw, .access = DLBUF_RW);
	int pipes[2], sockets[2], fds[3], closed;

	CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
	fds[0] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	fds[1] = memfd_create("cts", MFD_CLOEXEC);
	fds[2] = eventfd(0, EFD_CLOEXEC);
	CHECK_EQ(ftruncate(fds[1], BYTES), 0);
	refused(dev, -1, &byte, NULL, -EBADF);
	refused(dev, INT_MIN, &byte, NULL, -EBADF);
	refused(dev, INT_MAX, &byte, NULL, -EBADF);
	closed = dup(fds[1]);
	close(closed);
	refused(dev, closed, &byte, NULL, -EBADF);
	refused(dev, pipes[0], &byte, NULL, -EBADF);
	refused(dev, pipes[1], &byte, &rw, -EBADF);
	refused(dev, sockets[0], &byte, NULL, -EBADF);
	for (int i = 0; i < 3; i++) {
		refused(dev, fds[i], &byte, NULL, -EBADF);
		close(fds[i]);
	}
	close(pipes[0]);
	close(pipes[1]);
	close(sockets[0]);
	close(sockets[1]);
}

static void sync_file(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dma_buf_export_sync_file export = { .flags = DMA_BUF_SYNC_RW };

	if (ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export))
		SKIP("the kernel has no DMA_BUF_IOCTL_EXPORT_SYNC_FILE");
	refused(dev, export.fd, &byte, NULL, -EBADF);
	CHECK(strstr(dlbuf_last_error(), "sync_file"));
	close(export.fd);
	close(fd);
}

struct bad_layout {
	const char *what;
	int err;
	int ndim;
	DLDataType dtype;
	int64_t shape[3], strides[3];
	uint64_t offset;
	bool compact;
};

#define U8 { kDLUInt, 8, 1 }
#define U16 { kDLUInt, 16, 1 }

static const struct bad_layout bad_layouts[] = {
	{ "one byte past the end", -ERANGE, 1, U8, { BYTES + 1 }, { 1 }, 0, 0 },
	{ "past the end by offset", -ERANGE, 1, U8, { BYTES }, { 1 }, 1, 0 },
	{ "last row past the end", -ERANGE, 2, U8, { 33, 1 }, { 256, 1 }, 0, 0 },
	{ "past the end by one stride", -ERANGE, 2, U8, { 2, 1 }, { BYTES, 1 },
	  0, 0 },
	{ "wide element past the end", -ERANGE, 1, U16, { BYTES / 2 }, { 1 },
	  2, 0 },
	{ "before the start", -ERANGE, 1, U8, { 3 }, { -1 }, 1, 0 },
	{ "far before the start", -ERANGE, 1, U8, { 2 }, { INT64_MIN }, 0, 0 },
	{ "offset behind the buffer", -ERANGE, 1, U8, { 1 }, { 1 }, BYTES, 0 },
	{ "negative shape", -EINVAL, 1, U8, { -1 }, { 1 }, 0, 0 },
	{ "most negative shape", -EINVAL, 1, U8, { INT64_MIN }, { 1 }, 0, 0 },
	{ "negative ndim", -EINVAL, -1, U8, { 1 }, { 1 }, 0, 0 },
	{ "huge ndim", -EINVAL, 65, U8, { 1 }, { 1 }, 0, 0 },
	{ "huge shape", -ERANGE, 1, U8, { INT64_MAX }, { 1 }, 0, 0 },
	{ "product of shapes", -EOVERFLOW, 3, U8,
	  { 1ll << 31, 1ll << 31, 1ll << 31 }, { 0 }, 0, true },
	{ "shape times stride", -EOVERFLOW, 1, U8, { 1ll << 40 },
	  { 1ll << 40 }, 0, 0 },
	{ "sum of reaches", -EOVERFLOW, 2, U8, { 2, 2 },
	  { INT64_MAX, INT64_MAX }, 0, 0 },
	{ "elements times bytes", -EOVERFLOW, 1, { kDLUInt, 64, 1 },
	  { 1ll << 61 }, { 1 }, 0, 0 },
	{ "offset plus size", -EOVERFLOW, 1, U8, { 2 }, { 1 }, UINT64_MAX, 0 },
	{ "no bits", -EINVAL, 1, { kDLUInt, 0, 1 }, { 1 }, { 1 }, 0, 0 },
	{ "no lanes", -EINVAL, 1, { kDLUInt, 8, 0 }, { 1 }, { 1 }, 0, 0 },
	{ "four bits", -EOPNOTSUPP, 1, { kDLUInt, 4, 1 }, { 1 }, { 1 }, 0, 0 },
	{ "one bit", -EOPNOTSUPP, 1, { kDLUInt, 1, 1 }, { 8 }, { 1 }, 0, 0 },
	{ "twelve bits", -EOPNOTSUPP, 1, { kDLUInt, 12, 1 }, { 8 }, { 1 }, 0,
	  0 },
	{ "odd offset of 16 bits", -EINVAL, 1, U16, { 1 }, { 1 }, 1, 0 },
};

static void bad_layout(void *arg)
{
	const struct bad_layout *b = arg;
	int fd = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev = cts_open();
	int64_t shape[3], strides[3];
	DLTensor layout = {
		.ndim = b->ndim,
		.dtype = b->dtype,
		.shape = shape,
		.strides = b->compact ? NULL : strides,
		.byte_offset = b->offset,
	};

	memcpy(shape, b->shape, sizeof(shape));
	memcpy(strides, b->strides, sizeof(strides));
	refused(dev, fd, &layout, NULL, b->err);
	/* Known to the cache or not makes no difference. */
	cts_delete(cts_import(dev, fd, BYTES));
	refused(dev, fd, &layout, NULL, b->err);
	close(fd);
	dlbuf_device_close(dev);
}

static void null_arguments(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), x = 0;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLTensor no_shape = { .ndim = 1, .dtype = U8 };
	DLTensor with_data = byte;

	with_data.data = &x;
	refused(NULL, fd, &byte, NULL, -EINVAL);
	refused(dev, fd, NULL, NULL, -EINVAL);
	refused(dev, fd, &no_shape, NULL, -EINVAL);
	refused(dev, fd, &with_data, NULL, -EINVAL);
	CHECK_ERR(dlbuf_import(dev, fd, &byte, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_tensor_get_info(NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_acquire(NULL, DLBUF_READ, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_release(NULL, NULL, NULL), -EINVAL);
}

static void options(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLBUF_OPTS(dlbuf_import_opts, flags, .flags = 8);
	DLBUF_OPTS(dlbuf_import_opts, frame, .flags = DLBUF_IMPORT_UNCROPPED);
	DLBUF_OPTS(dlbuf_import_opts, paths, .paths = 1);
	DLBUF_OPTS(dlbuf_import_opts, copies,
		   .paths = DLBUF_PATH_BIT(DLBUF_PATH_COPY));
	DLBUF_OPTS(dlbuf_import_opts, access, .access = 4);
	struct dlbuf_import_opts no_size = { .access = DLBUF_READ };
	struct {
		struct dlbuf_import_opts known;
		uint64_t newer;
	} longer = { .known.size = sizeof(longer) };
	DLManagedTensorVersioned *t = NULL;

	refused(dev, fd, &byte, &flags, -EINVAL);
	refused(dev, fd, &byte, &access, -EINVAL);
	refused(dev, fd, &byte, &frame, -EINVAL);
	refused(dev, fd, &byte, &paths, -EINVAL);
	refused(dev, fd, &byte, &copies, -EINVAL);
	refused(dev, fd, &byte, &no_size, -EINVAL);
	CHECK_EQ(dlbuf_import(dev, fd, &byte, &longer.known, &t), 0);
	cts_delete(t);
	longer.newer = 1;
	refused(dev, fd, &byte, &longer.known, -EINVAL);
}

/* Tensors that are not ours, and one from a future DLPack. */
static void foreign_tensor(void *arg)
{
	DLManagedTensorVersioned foreign = { .version = { 1, 0 } }, *out = NULL;
	DLManagedTensorVersioned future = { .version = { 2, 0 } };
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK_ERR(dlbuf_tensor_share(&foreign, &out), -EINVAL);
	CHECK_ERR(dlbuf_acquire(&foreign, DLBUF_READ, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_tensor_get_info(&foreign, &info), -EINVAL);
	CHECK_ERR(dlbuf_tensor_share(&future, &out), -EPROTO);
	CHECK_ERR(dlbuf_release(&future, NULL, NULL), -EPROTO);
	CHECK(!out);
}

static void device_names(void *arg)
{
	struct dlbuf_device *dev = NULL;
	char name[64];

	CHECK_ERR(dlbuf_device_open("no-such", NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_open("", NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_open(NULL, NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_open(cts_device, NULL, NULL), -EINVAL);
	CHECK(!dev);
	if (cts_access->second)
		return;
	snprintf(name, sizeof(name), "%s:4711", cts_access->backend);
	CHECK_ERR(dlbuf_device_open(name, NULL, &dev), -ENODEV);
	snprintf(name, sizeof(name), "%s:no such device", cts_access->backend);
	CHECK_ERR(dlbuf_device_open(name, NULL, &dev), -ENODEV);
	CHECK(!dev);
}

void cts_cases_input(void)
{
	ktap_case("input/not-a-dma-buf", not_a_dma_buf, NULL);
	ktap_case("input/sync-file", sync_file, NULL);
	for (size_t i = 0; i < sizeof(bad_layouts) / sizeof(bad_layouts[0]); i++)
		ktap_case(cts_name("input/layout/%s", bad_layouts[i].what),
			  bad_layout, (void *)&bad_layouts[i]);
	ktap_case("input/null-arguments", null_arguments, NULL);
	ktap_case("input/options", options, NULL);
	ktap_case("input/foreign-tensor", foreign_tensor, NULL);
	ktap_case("input/device-names", device_names, NULL);
}
