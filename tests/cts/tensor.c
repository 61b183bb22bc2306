// SPDX-License-Identifier: MIT
/* Sharing, deleting, and lifetimes. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cts.h"

#define BYTES 8192

/* A share has its own life, and the same bytes. */
static void share(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int64_t shape[] = { 7, 11 }, strides[] = { 32, 2 };
	DLTensor layout = {
		.ndim = 2,
		.dtype = { kDLUInt, 16, 1 },
		.shape = shape,
		.strides = strides,
		.byte_offset = 1234,
	};
	DLManagedTensorVersioned *a = NULL, *b = NULL, *c = NULL;
	DLBUF_INFO(dlbuf_tensor_info, ia);
	DLBUF_INFO(dlbuf_tensor_info, ib);
	unsigned char want[64], got[64];

	CHECK_EQ(dlbuf_import(dev, fd, &layout, NULL, &a), 0);
	CHECK_EQ(dlbuf_tensor_share(a, NULL, &b), 0);
	CHECK(a != b);
	CHECK(a->dl_tensor.data == b->dl_tensor.data);
	CHECK_EQ(a->dl_tensor.byte_offset, b->dl_tensor.byte_offset);
	CHECK(a->dl_tensor.shape != b->dl_tensor.shape);
	CHECK(!memcmp(b->dl_tensor.shape, shape, sizeof(shape)));
	CHECK(!memcmp(b->dl_tensor.strides, strides, sizeof(strides)));
	CHECK_EQ(a->flags, b->flags);
	CHECK_EQ(dlbuf_tensor_get_info(a, &ia), 0);
	CHECK_EQ(dlbuf_tensor_get_info(b, &ib), 0);
	CHECK_EQ(ia.first, ib.first);
	CHECK_EQ(ia.end, ib.end);
	CHECK_EQ(cts_stats(dev).tensors, 2);
	cts_delete(a);
	CHECK_EQ(dlbuf_tensor_share(b, NULL, &c), 0);
	cts_pattern(want, sizeof(want), 1);
	cts_poke(fd, 1234, want, sizeof(want));
	cts_read(c, 1234, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(c);
	CHECK_EQ(cts_stats(dev).live, 1);
	cts_delete(b);
	CHECK_EQ(cts_stats(dev).live, 0);
	CHECK_EQ(cts_stats(dev).tensors, 0);
}

#define PITCH 64

/* The last columns of a picture, as bytes, from the last row to the first. */
static int corner(const DLManagedTensorVersioned *t, uint64_t at,
		  DLManagedTensorVersioned **out)
{
	int64_t shape[] = { 3, 1, 8 }, strides[] = { -PITCH, INT64_MIN, 1 };
	const DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 },
				  .shape = shape, .strides = strides,
				  .byte_offset = at };

	return dlbuf_tensor_share(t, &layout, out);
}

/* The device finds element 0 at data, or at byte_offset from the handle. */
static void check_at(const DLManagedTensorVersioned *t,
		     const DLManagedTensorVersioned *whole, uint64_t at)
{
	DLBUF_INFO(dlbuf_device_info, dev);
	DLBUF_INFO(dlbuf_tensor_info, info);
	uintptr_t data = (uintptr_t)t->dl_tensor.data;

	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	CHECK_OK(dlbuf_device_get_info(info.device, &dev));
	if (dev.device.device_type == kDLVulkan ||
	    dev.device.device_type == kDLOpenCL) {
		CHECK(t->dl_tensor.data == whole->dl_tensor.data);
		CHECK_EQ(t->dl_tensor.byte_offset, at);
	} else {
		CHECK_EQ(data, (uintptr_t)whole->dl_tensor.data + at);
		CHECK_EQ(t->dl_tensor.byte_offset, 0);
	}
}

/* Parts of a tensor: same memory, own shape, and never a byte outside. */
static void view(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int64_t shape[] = { 4, 16 }, strides[] = { PITCH / 2, 1 };
	DLTensor layout = { .ndim = 2, .dtype = { kDLUInt, 16, 1 },
			    .shape = shape, .strides = strides,
			    .byte_offset = 1024 };
	DLManagedTensorVersioned *all AUTO_TENSOR = cts_import(dev, fd, BYTES);
	DLManagedTensorVersioned *t = NULL, *u = NULL, *v = NULL, *got = NULL;
	DLManagedTensorVersioned *none = NULL, *arrived[DLBUF_MAX_PLANES], copy;
	const uint64_t end = 1024 + 3 * PITCH + 32;
	unsigned char want[8], bytes[8];
	DLBUF_INFO(dlbuf_tensor_info, info);
	int sock[2];
	uint32_t n;

	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &t));
	REQUIRE_OK(corner(t, 2 * PITCH + 24, &u));
	check_at(u, all, 1024 + 2 * PITCH + 24);
	CHECK_EQ(u->dl_tensor.ndim, 3);
	CHECK_EQ(u->dl_tensor.strides[0], -PITCH);
	CHECK_OK(dlbuf_tensor_get_info(u, &info));
	CHECK_EQ(info.first, 1024 + 24);
	CHECK_EQ(info.end, 1024 + 2 * PITCH + 32);
	CHECK_EQ(cts_stats(dev).tensors, 3);
	/* Byte 0 of a view with negative strides is not its first element. */
	layout.ndim = 1;
	layout.byte_offset = PITCH;
	shape[0] = 4;
	strides[0] = 1;
	REQUIRE_OK(dlbuf_tensor_share(u, &layout, &v));
	check_at(v, all, 1024 + 24 + PITCH);
	/* The first and the last byte, and no other. */
	CHECK_ERR(corner(t, 2 * PITCH - 1, &got), -ERANGE);
	CHECK_ERR_SAYS(corner(t, end - 1024 - 7, &got), -ERANGE, "the tensor only 1024 to 1248");
	CHECK_ERR(corner(t, UINT64_MAX, &got), -EOVERFLOW);
	CHECK_ERR(corner(t, -(uint64_t)1024 - 1, &got), -EOVERFLOW);
	layout.byte_offset = 1;
	CHECK_ERR(dlbuf_tensor_share(t, &layout, &got), -EINVAL);
	CHECK_ERR(dlbuf_tensor_share(t, &layout, NULL), -EINVAL);
	CHECK(!got);
	/* No elements; and of these, none. */
	shape[0] = 0;
	layout.byte_offset = end - 1024;
	REQUIRE_OK(dlbuf_tensor_share(t, &layout, &got));
	CHECK(!got->dl_tensor.data);
	CHECK_ERR(corner(got, 0, &none), -ERANGE);
	CHECK(!none);
	/* A copy of the struct is no tensor that calls take, but its deleter works. */
	copy = *got;
	CHECK_ERR(dlbuf_acquire(&copy, DLBUF_READ, NULL, NULL), -EINVAL);
	CHECK_SAYS("a copy of its struct");
	copy.deleter(&copy);
	/* One bracket for all three, which outlive t's own end. */
	CHECK_OK(dlbuf_acquire_all((DLManagedTensorVersioned *[]){ t, u, v }, 3,
				   DLBUF_RW, NULL, NULL));
	CHECK_OK(dlbuf_release_all((DLManagedTensorVersioned *[]){ t, u, v }, 3,
				   NULL, NULL));
	cts_delete(t);
	cts_pattern(want, sizeof(want), 6);
	cts_poke(fd, 1024 + 24 + PITCH, want, sizeof(want));
	cts_read(v, 1024 + 24 + PITCH, bytes, sizeof(bytes));
	CHECK(!memcmp(want, bytes, sizeof(want)));
	cts_pattern(want, sizeof(want), 7);
	cts_write(v, 1024 + 24 + PITCH, want, sizeof(want));
	cts_peek(fd, 1024 + 24 + PITCH, bytes, sizeof(bytes));
	CHECK(!memcmp(want, bytes, sizeof(want)));
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	CHECK_OK(dlbuf_send(sock[0], &u, 1, NULL));
	REQUIRE_OK(dlbuf_recv(dev, sock[1], NULL, arrived, &n, NULL));
	check_at(arrived[0], all, 1024 + 2 * PITCH + 24);
	CHECK_EQ(arrived[0]->dl_tensor.strides[1], INT64_MIN);
	close(sock[0]);
	close(sock[1]);
	cts_delete(arrived[0]);
	cts_delete(u);
	cts_delete(v);
}

static void count(void *data)
{
	++*(unsigned int *)data;
}

/* A view of a plane keeps the frame's lease, and has no byte of another plane. */
static void view_of_frame(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	static unsigned int fired;	/* on this thread or, at the latest, by drain */
	struct dlbuf_frame f = PICTURE(PITCH, 4, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 1, .modifier = DLBUF_MOD_LINEAR,
		.planes = { { .fd = fd, .pitch = PITCH } }, .release = count,
		.release_data = &fired);
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES], *y = NULL;
	uint32_t n;

	fired = 0;
	REQUIRE_OK(dlbuf_import_frame(dev, &f, &opts, t, &n));
	CHECK_ERR(corner(t[0], 3 * PITCH + PITCH, &y), -ERANGE);
	REQUIRE_OK(corner(t[0], 3 * PITCH, &y));
	CHECK_EQ(y->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
	while (n)
		cts_delete(t[--n]);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_EQ(fired, 0);
	cts_delete(y);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_EQ(fired, 1);
}

/* The bytes of a plane on another device, with the frame's lease. */
static void elsewhere(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open(), *cpu AUTO_DEV = NULL;
	static unsigned int fired;
	struct dlbuf_frame f = PICTURE(PITCH, 4, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 1, .modifier = DLBUF_MOD_LINEAR,
		.planes = { { .fd = fd, .pitch = PITCH } }, .release = count,
		.release_data = &fired);
	DLBUF_OPTS(dlbuf_import_opts, ro, .access = DLBUF_READ);
	DLBUF_OPTS(dlbuf_import_opts, rw, .access = DLBUF_RW);
	DLBUF_OPTS(dlbuf_import_opts, viewed, .view = DLBUF_VIEW_LUMA);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES], *uv = NULL, *no = NULL;
	DLBUF_INFO(dlbuf_tensor_info, info);
	unsigned char want[PITCH];
	uint32_t n;

	fired = 0;
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	REQUIRE_OK(dlbuf_import_frame(dev, &f, &ro, t, &n));
	CHECK_ERR(dlbuf_tensor_import(cpu, t[1], &rw, &no), -EACCES);
	CHECK_ERR(dlbuf_tensor_import(cpu, t[1], &viewed, &no), -EINVAL);
	CHECK_ERR(dlbuf_tensor_import(NULL, t[1], NULL, &no), -EINVAL);
	CHECK_ERR(dlbuf_tensor_import(cpu, NULL, NULL, &no), -EINVAL);
	CHECK_ERR(dlbuf_tensor_import(cpu, t[1], NULL, NULL), -EINVAL);
	CHECK(!no);
	REQUIRE_OK(dlbuf_tensor_import(cpu, t[1], NULL, &uv));
	CHECK_OK(dlbuf_tensor_get_info(uv, &info));
	CHECK(info.device == cpu);
	CHECK_EQ(info.access, DLBUF_READ);
	CHECK_EQ(info.first, 4 * PITCH);
	CHECK_EQ(uv->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
	CHECK_EQ(uv->dl_tensor.shape[2], 2);
	while (n)
		cts_delete(t[--n]);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_EQ(fired, 0);
	cts_pattern(want, sizeof(want), 8);
	cts_poke(fd, 4 * PITCH, want, sizeof(want));
	CHECK_OK(dlbuf_acquire(uv, DLBUF_READ, NULL, NULL));
	CHECK(!memcmp(want, uv->dl_tensor.data, sizeof(want)));
	CHECK_OK(dlbuf_release(uv, NULL, NULL));
	cts_delete(uv);
	CHECK_OK(dlbuf_device_drain(cpu, 0));
	CHECK_EQ(fired, 1);
}

static void every_ndim(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", 16384);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *all AUTO_TENSOR = cts_import(dev, fd, 16384);
	int64_t dims[2 * DLBUF_MAX_NDIM], narrow[2 * DLBUF_MAX_NDIM];
	unsigned char want[16384], got[16384];
	DLBUF_INFO(dlbuf_tensor_info, info);

	cts_pattern(want, sizeof(want), 5);
	cts_poke(fd, 0, want, sizeof(want));
	for (unsigned int i = 0; i <= DLBUF_MAX_NDIM * CTS_FORMS; i++) {
		unsigned int ndim = i / CTS_FORMS, form = i % CTS_FORMS;
		DLManagedTensorVersioned *t, *u;
		DLManagedTensor *old;
		DLTensor l, part;

		cts_layout(ndim, form, &l, dims);
		REQUIRE_OK(dlbuf_import(dev, fd, &l, NULL, &t));
		cts_check_layout(t, &l);
		CHECK_OK(dlbuf_tensor_get_info(t, &info));
		if (info.first < info.end)
			check_at(t, all, l.byte_offset);
		REQUIRE_OK(dlbuf_tensor_share(t, NULL, &u));
		cts_check_layout(u, &l);
		cts_delete(t);
		REQUIRE_OK(dlbuf_tensor_import(dev, u, NULL, &t));
		cts_check_layout(t, &l);
		cts_delete(u);
		REQUIRE_OK(dlbuf_tensor_share_legacy(t, &old));
		CHECK_EQ(old->dl_tensor.ndim, l.ndim);
		CHECK(!l.ndim || !memcmp(old->dl_tensor.strides, t->dl_tensor.strides, l.ndim * 8));
		old->deleter(old);
		/* A view has dimensions of its own. */
		cts_layout(DLBUF_MAX_NDIM - ndim, 4, &part, narrow);
		part.byte_offset = 0;
		part.dtype = l.dtype;
		for (int k = 0; k < part.ndim; k++)
			part.shape[k] = info.first < info.end;
		REQUIRE_OK(dlbuf_tensor_share(t, &part, &u));
		part.byte_offset = info.first;
		cts_check_layout(u, &part);
		/* The bytes are found from element 0; now and then, as a device takes long. */
		if (!(i % 31) && info.first < info.end && info.first == l.byte_offset) {
			cts_read(t, info.first, got, info.end - info.first);
			CHECK(!memcmp(got, want + info.first, info.end - info.first));
		}
		cts_delete(u);
		cts_delete(t);
	}
}

static void legacy(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES), *ro = NULL;
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ);
	int64_t shape = 16;
	DLTensor layout = LAYOUT8(1, &shape);
	DLManagedTensor *old = NULL, *none = NULL;

	CHECK_EQ(dlbuf_tensor_share_legacy(t, &old), 0);
	CHECK(old->dl_tensor.data == t->dl_tensor.data);
	CHECK_EQ(old->dl_tensor.shape[0], BYTES);
	CHECK_EQ(old->dl_tensor.strides[0], 1);
	CHECK(old->deleter != NULL);
	cts_delete(t);
	CHECK_EQ(cts_stats(dev).live, 1);
	old->deleter(old);
	CHECK_EQ(cts_stats(dev).live, 0);
	/* It has no flag for read-only. */
	CHECK_EQ(dlbuf_import(dev, fd, &layout, &opts, &ro), 0);
	CHECK_ERR(dlbuf_tensor_share_legacy(ro, &none), -EOPNOTSUPP);
	CHECK(!none);
	cts_delete(ro);
}

/* The deleter gives back everything that the import took. */
static void deleter(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t;
	unsigned int fds = cts_count_fds();

	/* Runs once, so that the driver has allocated the resources that it keeps. */
	cts_delete(cts_import(dev, fd, BYTES));
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_count_fds(), fds);
	t = cts_import(dev, fd, BYTES);
	CHECK(cts_count_fds() > fds);
	CHECK_EQ(cts_stats(dev).live, 1);
	CHECK_EQ(cts_stats(dev).live_bytes, BYTES);
	t->deleter(t);
	CHECK_EQ(cts_stats(dev).live, 0);
	CHECK_EQ(cts_stats(dev).live_bytes, 0);
	CHECK_EQ(cts_stats(dev).tensors, 0);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_count_fds(), fds);
}

/* A tensor outlives its device's handle, and the exporter's fd. */
static void outlives_device(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES), keep AUTO_FD = dup(fd);
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);
	DLManagedTensorVersioned *u AUTO_TENSOR = NULL;
	unsigned char want[64], got[64];

	close(fd);
	dlbuf_device_close(dev);
	if (!strncmp(cts_device, "vpi", 3)) {
		cts_delete(t);
		SKIP("a closed device sends nothing, so that its simulator learns of the end");
	}
	cts_pattern(want, sizeof(want), 1);
	cts_poke(keep, 0, want, sizeof(want));
	cts_read(t, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	CHECK_EQ(dlbuf_tensor_share(t, NULL, &u), 0);
	cts_delete(t);
	cts_read(u, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
}

static void *delete_it(void *t)
{
	cts_delete(t);
	return NULL;
}

static void deleted_elsewhere(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);
	pthread_t thread;

	/* Still acquired, and the device's handle gone. */
	CHECK_EQ(dlbuf_acquire(t, DLBUF_RW, NULL, NULL), 0);
	dlbuf_device_close(dev);
	CHECK_EQ(pthread_create(&thread, NULL, delete_it, t), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

void cts_cases_tensor(void)
{
	ktap_case("tensor/share", share, NULL);
	/* These belong to the group that every device runs. */
	ktap_case("import/view", view, NULL);
	ktap_case("import/view-of-a-frame", view_of_frame, NULL);
	ktap_case("import/tensor-elsewhere", elsewhere, NULL);
	ktap_case("tensor/every-ndim", every_ndim, NULL);
	ktap_case("tensor/legacy", legacy, NULL);
	ktap_case("tensor/deleter", deleter, NULL);
	ktap_case("tensor/outlives-device", outlives_device, NULL);
	ktap_case("tensor/deleted-on-another-thread", deleted_elsewhere, NULL);
}
