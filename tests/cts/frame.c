// SPDX-License-Identifier: MIT
/* Frames: planes, leases, refusals. The format table has its own unit test. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cts.h"

#define W 64u
#define H 48u
#define PITCH 96u
#define NV12 DLBUF_FOURCC('N', 'V', '1', '2')

struct counter {
	int fired;
};

static void fire(void *data)
{
	struct counter *c = data;

	c->fired++;
}

static struct dlbuf_frame nv12(int fd, struct counter *c)
{
	return (struct dlbuf_frame)PICTURE(W, H, NV12, DLBUF_CODE_V4L2, 1,
		.modifier = DLBUF_MOD_LINEAR,
		.planes = { { .fd = fd, .pitch = PITCH } },
		.release = c ? fire : NULL, .release_data = c);
}

static void two_planes(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", PITCH * H * 2);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dlbuf_frame f = nv12(fd, NULL);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	DLBUF_INFO(dlbuf_tensor_info, info);
	unsigned char want[128], got[128];
	uint32_t n = 0;

	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(t[0]->dl_tensor.ndim, 2);
	CHECK_EQ(t[0]->dl_tensor.shape[0], H);
	CHECK_EQ(t[0]->dl_tensor.shape[1], W);
	CHECK_EQ(t[0]->dl_tensor.strides[0], PITCH);
	CHECK_EQ(t[1]->dl_tensor.ndim, 3);
	CHECK_EQ(t[1]->dl_tensor.shape[0], H / 2);
	CHECK_EQ(t[1]->dl_tensor.shape[1], W / 2);
	CHECK_EQ(t[1]->dl_tensor.shape[2], 2);
	CHECK_EQ(t[1]->dl_tensor.strides[0], PITCH);
	CHECK_EQ(t[1]->dl_tensor.strides[1], 2);
	CHECK_EQ(dlbuf_tensor_get_info(t[1], &info), 0);
	CHECK_EQ(info.first, PITCH * H);
	cts_pattern(want, sizeof(want), 1);
	cts_poke(fd, PITCH * H, want, sizeof(want));
	cts_read(t[1], PITCH * H, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(t[0]);
	cts_delete(t[1]);

	/* Said plane by plane it is the same. */
	f.code_space = DLBUF_CODE_DRM;
	f.nplanes = 2;
	f.planes[1] = (struct dlbuf_plane){ .fd = fd, .offset = PITCH * H,
					    .pitch = PITCH };
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(dlbuf_tensor_get_info(t[1], &info), 0);
	CHECK_EQ(info.first, PITCH * H);
	cts_delete(t[0]);
	cts_delete(t[1]);
}

/* Exactly once, with the last tensor, shares included. */
static void lease(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", PITCH * H * 2);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct counter c = { 0 };
	struct dlbuf_frame f = nv12(fd, &c);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL }, *share = NULL;
	uint32_t n = 0;

	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	REQUIRE_OK(dlbuf_tensor_share(t[1], NULL, &share));
	CHECK_EQ(c.fired, 0);
	cts_delete(t[0]);
	CHECK_EQ(c.fired, 0);
	cts_delete(t[1]);
	CHECK_EQ(c.fired, 0);
	cts_delete(share);
	CHECK_EQ(c.fired, 1);
	/* The device has seen the buffer before; the lease is a new one. */
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	cts_delete(t[1]);
	cts_delete(t[0]);
	CHECK_EQ(c.fired, 2);
}

/* A frame that is refused keeps its lease and leaves nothing behind. unit/frame has the others. */
static void refused(struct dlbuf_device *dev, struct dlbuf_frame f, int err)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct counter c = { 0 };
	unsigned int fds;
	uint32_t n = 77;

	cts_settle();
	fds = cts_count_fds();
	f.release = fire;
	f.release_data = &c;
	CHECK_ERR(dlbuf_import_frame(dev, &f, NULL, t, &n), err);
	CHECK_EQ(n, 77);
	CHECK(!t[0] && !t[1]);
	CHECK_EQ(c.fired, 0);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_count_fds(), fds);
}

static void refusals(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", PITCH * H * 3 / 2);
	int small AUTO_FD = cts_alloc("udmabuf", 4096), pipes[2];
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame f;
	uint32_t n;

	f = nv12(fd, NULL);
	f.height = 4096; /* the second plane is outside, and the first */
	refused(dev, f, -ERANGE);
	CHECK_SAYS("plane 0, fd ");
	/* The first plane is fine, the second is not: all or none. */
	f = nv12(fd, NULL);
	f.nplanes = 2;
	f.planes[1] = (struct dlbuf_plane){ .fd = small, .offset = 4096,
					    .pitch = PITCH };
	refused(dev, f, -ERANGE);
	CHECK_EQ(pipe(pipes), 0);
	f.planes[1].fd = pipes[0];
	refused(dev, f, -EBADF);
	close(pipes[0]);
	close(pipes[1]);
	f = nv12(fd, NULL);
	f.orientation = 8;
	refused(dev, f, -EINVAL);
	/* Also where the layouts are those of the last frame. */
	f = nv12(fd, NULL);
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	while (n)
		cts_delete(t[--n]);
	dlbuf_device_trim(dev, 0);
	for (int i = -1; i <= 4; i += 5) {
		f.order = i;
		refused(dev, f, -EINVAL);
		CHECK_SAYS(cts_name("the frame's order is %d: 0 to 3 are possible", i));
	}
	f = nv12(fd, NULL);
	f.size = 0;
	refused(dev, f, -EINVAL);
}

/* Imports one view of a frame and checks that it is one tensor at first..end. */
static DLManagedTensorVersioned *view_of(struct dlbuf_device *dev,
					 const struct dlbuf_frame *f,
					 enum dlbuf_view view, uint64_t first,
					 uint64_t end)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .view = view);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	DLBUF_INFO(dlbuf_tensor_info, info);
	uint32_t n = 0;

	REQUIRE_OK(dlbuf_import_frame(dev, f, &opts, t, &n));
	REQUIRE(n == 1);
	CHECK_EQ(dlbuf_tensor_get_info(t[0], &info), 0);
	CHECK_EQ(info.first, first);
	CHECK_EQ(info.end, end);
	CHECK_EQ(t[0]->flags & DLPACK_FLAG_BITMASK_IS_COPIED, 0);
	return t[0];
}

/* Views are the same bytes, and of the crop only. */
static void views(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", PITCH * H * 2);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dlbuf_frame f = nv12(fd, NULL);
	unsigned char want[64], got[64];
	DLManagedTensorVersioned *t;

	cts_pattern(want, sizeof(want), 3);
	cts_poke(fd, PITCH * H, want, sizeof(want));
	t = view_of(dev, &f, DLBUF_VIEW_STACKED, 0,
		    PITCH * (H * 3 / 2 - 1) + W);
	CHECK_EQ(t->dl_tensor.shape[0], H * 3 / 2);
	cts_read(t, PITCH * H, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(t);

	f.crop = (struct dlbuf_rect){ 4, 2, 20, 10 };
	t = view_of(dev, &f, DLBUF_VIEW_LUMA, 2 * PITCH + 4,
		    (2 + 9) * PITCH + 4 + 20);
	CHECK_EQ(t->dl_tensor.shape[0], 10);
	CHECK_EQ(t->dl_tensor.shape[1], 20);
	cts_delete(t);

	/* Like a JPEG: a number of bytes and nothing else. */
	f = nv12(fd, NULL);
	f.code = DLBUF_FOURCC('M', 'J', 'P', 'G');
	f.planes[0].bytes = 4711;
	t = view_of(dev, &f, DLBUF_VIEW_BYTES, 0, 4711);
	CHECK_EQ(t->dl_tensor.ndim, 1);
	cts_delete(t);

	f = nv12(fd, NULL);
	f.code = DLBUF_FOURCC('R', 'G', 'B', 'P');
	f.planes[0].pitch = 2 * W;
	t = view_of(dev, &f, DLBUF_VIEW_WORDS, 0, 2 * W * H);
	CHECK_EQ(t->dl_tensor.dtype.bits, 16);
	cts_delete(t);
}

/* Every user waits for the frame's own fence, with dlbuf or without. */
/* As dlbuf_frame_layouts(), which keeps nothing, says. */
static void as_layouts(struct dlbuf_device *dev, const struct dlbuf_frame *f, uint32_t view)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .view = view);
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n = 0, want = 0;
	int ret = dlbuf_frame_layouts(f, &opts, l, &want);

	CHECK_EQ(dlbuf_import_frame(dev, f, &opts, t, &n), ret);
	CHECK_EQ(n, want);
	for (uint32_t i = 0; i < n; i++) {
		DLBUF_INFO(dlbuf_buffer_info, buffer);
		DLBUF_INFO(dlbuf_tensor_info, info);
		const DLTensor *dl = &t[i]->dl_tensor;
		size_t bytes = l[i].layout.ndim * sizeof(dl->shape[0]);

		CHECK_EQ(dl->ndim, l[i].layout.ndim);
		CHECK(!memcmp(&dl->dtype, &l[i].layout.dtype, sizeof(dl->dtype)));
		CHECK(!memcmp(dl->shape, l[i].shape, bytes));
		CHECK(!memcmp(dl->strides, l[i].strides, bytes));
		CHECK_OK(dlbuf_tensor_get_info(t[i], &info));
		CHECK_OK(dlbuf_buffer_query(l[i].fd, &buffer));
		CHECK_EQ(info.first, l[i].layout.byte_offset);
		CHECK_EQ(info.ino, buffer.ino);
		CHECK_EQ(info.access, f->flags & DLBUF_FRAME_READ_ONLY ? DLBUF_READ : DLBUF_RW);
		cts_delete(t[i]);
	}
}

/* The device has the layouts of the last frame: each difference is noticed. */
static void differences(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", PITCH * H * 4);
	int other AUTO_FD = cts_alloc("udmabuf", PITCH * H * 4);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	const struct dlbuf_frame base = nv12(fd, NULL);
	struct dlbuf_frame f[] = {
		base, base, base, base, base, base, base, base, base, base,
		base, base, base, base, base, base, base, base, base, base,
	};
	static const uint32_t views[] = { DLBUF_VIEW_LUMA, DLBUF_VIEW_BYTES, DLBUF_VIEW_STACKED };
	const size_t changes = sizeof(f) / sizeof(f[0]);
	size_t i = 0;

	f[i++].width -= 2;
	f[i++].height -= 2;
	f[i++].code = DLBUF_FOURCC('N', 'V', '1', '6');
	f[i++].modifier = DLBUF_MOD_INVALID;
	f[i++].crop = (struct dlbuf_rect){ 0, 0, W - 2, H };
	f[i++].crop = (struct dlbuf_rect){ 2, 0, W - 2, H };
	f[i++].crop = (struct dlbuf_rect){ 0, 0, W, H - 2 };
	f[i++].crop = (struct dlbuf_rect){ 0, 2, W, H - 2 };
	f[i++].planes[0].pitch += 32;
	f[i++].planes[0].offset = 64;
	f[i++].planes[0].bytes = PITCH * H;
	f[i++].planes[0].fd = other;
	f[i++].nplanes = 0;
	f[i++].orientation = 8;
	f[i++].reserved = 1;
	f[i++].flags = 1u << 3;
	f[i++].colour.reserved[1] = 1;
	f[i++].planes[0].reserved = 1;
	f[i++].flags = DLBUF_FRAME_READ_ONLY;
	f[i].code_space = DLBUF_CODE_DRM;
	f[i].nplanes = 2;
	f[i++].planes[1] = (struct dlbuf_plane){ .fd = other, .pitch = PITCH };
	REQUIRE(i == changes);
	for (i = 0; i < changes; i++)
		as_layouts(dev, &f[i], DLBUF_VIEW_PLANES);
	for (i = 0; i < changes; i++) {
		as_layouts(dev, &base, DLBUF_VIEW_PLANES);
		as_layouts(dev, &f[i], DLBUF_VIEW_PLANES);
		as_layouts(dev, &f[i], DLBUF_VIEW_PLANES);
	}
	for (i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		as_layouts(dev, &base, DLBUF_VIEW_PLANES);
		as_layouts(dev, &base, views[i]);
	}
	/* Planes in turn in one dma-buf, which the view needs, and in two. */
	f[0] = f[changes - 1];
	f[0].planes[1] = (struct dlbuf_plane){ .fd = fd, .offset = PITCH * H, .pitch = PITCH };
	for (i = 0; i < 4; i++) {
		f[0].planes[1].fd = i % 2 ? other : fd;
		f[0].width = PITCH;
		as_layouts(dev, &f[0], DLBUF_VIEW_STACKED);
	}
}

static void fence(void *arg)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	int fd AUTO_FD = cts_alloc("udmabuf", PITCH * H * 2), pending = -1, status;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct dlbuf_frame f = nv12(fd, NULL);
	DLBUF_INFO(dlbuf_device_info, info);
	struct cts_fence v;
	uint32_t n = 0;

	if (cts_no_sync_file(fd))
		SKIP("this kernel has no sync_files");
	cts_fence_create(&v);
	f.order = DLBUF_ORDER_FENCE;
	f.fence = v.sync_file;
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	REQUIRE_OK(dlbuf_fence_export(fd, DLBUF_READ, &pending));
	CHECK_EQ(dlbuf_fence_status(pending, &status), 0);
	CHECK_EQ(status, 0);
	CHECK_EQ(dlbuf_device_get_info(dev, &info), 0);
	if (info.acquire == DLBUF_SYNC_BLOCKS)
		CHECK_ERR(dlbuf_acquire(t[0], DLBUF_READ, NULL, &past), -ETIME);
	cts_fence_signal(&v);
	CHECK_EQ(dlbuf_fence_status(pending, &status), 0);
	CHECK_EQ(status, 1);
	CHECK_OK(dlbuf_acquire(t[1], DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_release(t[1], NULL, NULL));
	cts_delete(t[0]);
	cts_delete(t[1]);

	/* A signalled fence adds nothing; an fd that is no fence is refused. */
	for (f.fence = -1; f.fence <= 0; f.fence++) {
		REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
		cts_delete(t[0]);
		cts_delete(t[1]);
	}
	f.fence = fd;
	/* A driver closes the fences of its waits on a thread of its own. */
	dlbuf_device_close(dev);
	dev = cts_open();
	refused(dev, f, -EINVAL);
	f.fence = -5;
	refused(dev, f, -EBADF);
	CHECK_SAYS("fd -5 is not open");
	f.fence = 999;
	refused(dev, f, -EBADF);
	CHECK_SAYS("fd 999 is not open");
	close(pending);
	cts_fence_destroy(&v);
}

/* ---- the way back */

#define OUT_W 33
#define OUT_H 17
#define OUT_PITCH 48
#define OUT_UV (OUT_PITCH * OUT_H)
#define OUT_BYTES (OUT_UV + OUT_PITCH * ((OUT_H + 1) / 2))

/* NV12 of an odd size in one dma-buf, and its tensors. */
static struct dlbuf_frame out_frame(int fd)
{
	struct dlbuf_frame f = {
		.size = sizeof(f), .width = OUT_W, .height = OUT_H,
		.code = DLBUF_FOURCC('N', 'V', '1', '2'), .code_space = DLBUF_CODE_DRM,
		.nplanes = 2, .planes = { { .fd = fd, .pitch = OUT_PITCH },
			{ .fd = fd, .offset = OUT_UV, .pitch = OUT_PITCH } },
		.fence = -1,
	};

	return f;
}

static struct dlbuf_frame asked(void)
{
	struct dlbuf_frame f = {
		.size = sizeof(f), .width = OUT_W, .height = OUT_H, .sequence = 7,
		.code = DLBUF_FOURCC('N', 'V', '1', '2'), .code_space = DLBUF_CODE_DRM,
	};

	return f;
}

/* A frame of tensors has their bytes, after their work, and keeps them. */
static void out(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", OUT_BYTES);
	uint8_t want[OUT_PITCH], got[OUT_PITCH];
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES], *u[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = out_frame(fd), o = asked(), again = asked();
	struct counter c = { 0 };
	uint32_t n;

	f.release = fire;
	f.release_data = &c;
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	cts_pattern(want, sizeof(want), 41);
	CHECK_OK(dlbuf_acquire(t[1], DLBUF_WRITE, NULL, NULL));
	CHECK_ERR(dlbuf_frame_from_tensors(t, 2, 0, &o), -EBUSY);
	CHECK_EQ(cts_access->write(t[1], OUT_UV, want, 34), 0);
	CHECK_OK(dlbuf_release(t[1], NULL, NULL));
	REQUIRE_OK(dlbuf_frame_from_tensors(t, 2, 0, &o));
	CHECK_EQ(o.nplanes, 2);
	CHECK_EQ(o.planes[0].offset, 0);
	CHECK_EQ(o.planes[0].bytes, OUT_PITCH * (OUT_H - 1) + OUT_W);
	CHECK_EQ(o.planes[1].offset, OUT_UV);
	CHECK_EQ(o.planes[1].pitch, OUT_PITCH);
	CHECK_EQ(o.planes[1].bytes, OUT_PITCH * 8 + OUT_W + 1);
	CHECK_EQ(o.sequence, 7);
	CHECK_OK(dlbuf_fence_wait(o.fence, 0));
	cts_peek(fd, OUT_UV, got, 34);
	CHECK(!memcmp(got, want, 34));
	cts_delete(t[0]);
	cts_delete(t[1]);
	CHECK_EQ(c.fired, 0);
	/* It is a frame as any other; one of read-only tensors is read-only. */
	CHECK(!(o.flags & DLBUF_FRAME_READ_ONLY));
	o.flags |= DLBUF_FRAME_READ_ONLY;
	REQUIRE_OK(dlbuf_import_frame(dev, &o, NULL, u, &n));
	REQUIRE_OK(dlbuf_frame_from_tensors(u, 2, 0, &again));
	CHECK(again.flags & DLBUF_FRAME_READ_ONLY);
	dlbuf_frame_drop(&again);
	CHECK_EQ(u[1]->dl_tensor.shape[1], OUT_W / 2 + 1);
	CHECK_EQ(c.fired, 0);
	cts_delete(u[0]);
	cts_delete(u[1]);
	cts_settle();
	CHECK_EQ(c.fired, 1);
}

/* The frame's fence contains the fences of the dma-buf. */
static void out_fence(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", OUT_BYTES), status;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = out_frame(fd), o = asked();
	struct cts_fence v;
	uint32_t n;

	if (cts_no_sync_file(fd))
		SKIP("this kernel has no sync_files");
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	cts_fence_create(&v);
	REQUIRE_OK(dlbuf_fence_import(fd, DLBUF_WRITE, v.sync_file));
	REQUIRE_OK(dlbuf_frame_from_tensors(t, 2, 0, &o));
	CHECK_EQ(o.order, DLBUF_ORDER_FENCE);
	CHECK_OK(dlbuf_fence_status(o.fence, &status));
	CHECK_EQ(status, 0);
	cts_fence_signal(&v);
	CHECK_OK(dlbuf_fence_wait(o.fence, 0));
	dlbuf_frame_drop(&o);
	o = asked();
	REQUIRE_OK(dlbuf_frame_from_tensors(t, 2, 0, &o));
	CHECK_EQ(o.order, DLBUF_ORDER_COMPLETE);
	CHECK_EQ(o.fence, -1);
	dlbuf_frame_drop(&o);
	cts_delete(t[0]);
	cts_delete(t[1]);
	cts_fence_destroy(&v);
}

/* Tensors that are no picture are refused: nothing is kept, and the frame is unchanged. */
static void out_refused(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", OUT_BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES], *odd[2], *flat;
	struct dlbuf_frame f = out_frame(fd), o = asked(), before = o;
	int64_t shape[] = { OUT_H, OUT_W }, strides[] = { OUT_PITCH, 1 };
	int64_t yuyv[] = { OUT_H, 5, 4 }, yuyv_strides[] = { OUT_PITCH, 4, 1 };
	DLTensor layout = { .ndim = 2, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
			    .strides = strides };
	uint32_t n;

	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	CHECK_ERR_SAYS(dlbuf_frame_from_tensors(t, 1, 0, &o), -EINVAL, "2 planes");
	odd[0] = t[1];
	odd[1] = t[0];
	CHECK_ERR(dlbuf_frame_from_tensors(odd, 2, 0, &o), -EINVAL);
	odd[0] = t[0];
	CHECK_ERR_SAYS(dlbuf_frame_from_tensors(odd, 2, 0, &o), -EINVAL, "[rows, columns, 2]");
	o.width = before.width = OUT_W + 2;
	CHECK_ERR_SAYS(dlbuf_frame_from_tensors(t, 2, 0, &o), -EINVAL, "35x17 pixels");
	/* Every second pixel; and values of another type. */
	o.code = before.code = DLBUF_FOURCC('R', '8', ' ', ' ');
	o.width = o.height = before.width = before.height = 0;
	shape[1] = OUT_W / 2;
	strides[1] = 2;
	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &flat));
	CHECK_ERR(dlbuf_frame_from_tensors(&flat, 1, 0, &o), -EOPNOTSUPP);
	CHECK_SAYS("no rows of a picture");
	cts_delete(flat);
	layout.dtype.code = kDLInt;
	strides[1] = 1;
	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &flat));
	CHECK_ERR(dlbuf_frame_from_tensors(&flat, 1, 0, &o), -EINVAL);
	cts_delete(flat);
	/* From the bottom up. */
	layout.dtype.code = kDLUInt;
	layout.byte_offset = OUT_PITCH * (OUT_H - 1);
	strides[0] = -OUT_PITCH;
	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &flat));
	CHECK_ERR(dlbuf_frame_from_tensors(&flat, 1, 0, &o), -EOPNOTSUPP);
	cts_delete(flat);
	CHECK(!memcmp(&o, &before, sizeof(o)));
	o.code = DLBUF_FOURCC('R', 'G', '1', '6');
	CHECK_ERR(dlbuf_frame_from_tensors(t, 1, 0, &o), -EOPNOTSUPP);
	o.code = DLBUF_FOURCC('!', '!', '!', '!');
	CHECK_ERR(dlbuf_frame_from_tensors(t, 1, 0, &o), -EINVAL);
	o.orientation = -1;
	CHECK_ERR_SAYS(dlbuf_frame_from_tensors(t, 1, 0, &o), -EINVAL, "orientation is -1");
	o.orientation = 0;
	/* Half a group of pixels. */
	layout = (DLTensor){ .ndim = 3, .dtype = { kDLUInt, 8, 1 }, .shape = yuyv,
			     .strides = yuyv_strides };
	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &flat));
	o.code = DLBUF_FOURCC('Y', 'U', 'Y', 'V');
	o.width = 2 * yuyv[1] - 1;
	o.height = OUT_H;
	CHECK_ERR_SAYS(dlbuf_frame_from_tensors(&flat, 1, 0, &o), -EINVAL, "not a multiple of 2");
	o.width = 0;
	REQUIRE_OK(dlbuf_frame_from_tensors(&flat, 1, 0, &o));
	dlbuf_frame_drop(&o);
	cts_delete(flat);
	o = asked();
	o.modifier = 1;
	CHECK_ERR(dlbuf_frame_from_tensors(t, 2, 0, &o), -EINVAL);
	CHECK_ERR(dlbuf_frame_from_tensors(NULL, 2, 0, &o), -EINVAL);
	CHECK_ERR(dlbuf_frame_from_tensors(t, 2, 0, NULL), -EINVAL);
	cts_delete(t[0]);
	cts_delete(t[1]);
}

/* A small picture keeps its pitches; planes with fds of their own are of one dma-buf. */
static void out_small(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", 4096), other AUTO_FD = dup(fd);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = out_frame(fd), o = asked();
	uint32_t n;

	f.width = o.width = 2;
	f.height = o.height = 2;
	f.planes[1] = (struct dlbuf_plane){ .fd = other, .offset = 2 * OUT_PITCH,
					    .pitch = OUT_PITCH };
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	o.crop = (struct dlbuf_rect){ 0, 0, 3, 2 };
	CHECK_ERR_SAYS(dlbuf_frame_from_tensors(t, 2, 0, &o), -EINVAL, "crop of 3x2");
	o.crop.width = 2;
	REQUIRE_OK(dlbuf_frame_from_tensors(t, 2, 0, &o));
	CHECK_EQ(o.planes[1].pitch, OUT_PITCH);
	CHECK_EQ(o.planes[1].fd, o.planes[0].fd);
	dlbuf_frame_drop(&o);
	cts_delete(t[0]);
	cts_delete(t[1]);
}

/* Each plane by itself, checked, for a consumer. */
static void expand(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", OUT_BYTES), other AUTO_FD = dup(fd);
	uint64_t bytes = (OUT_BYTES + 4095) / 4096 * 4096;
	struct dlbuf_frame f = out_frame(fd), e, no_size = { 0 };
	struct dlbuf_lease *lease;
	struct counter c = { 0 };

	/* V4L2's one plane for two; the lease is shared, a release stays where it is. */
	f.code_space = DLBUF_CODE_V4L2;
	f.nplanes = 1;
	f.sequence = 7;
	f.orientation = DLBUF_ORIENTATION_TURN_90;
	f.release = fire;
	f.release_data = &c;
	e = (struct dlbuf_frame){ .size = sizeof(e) };
	REQUIRE_OK(dlbuf_frame_expand(&f, 0, &e));
	CHECK_EQ(e.nplanes, 2);
	CHECK_EQ(e.planes[1].offset, OUT_UV);
	CHECK_EQ(e.planes[1].pitch, OUT_PITCH);
	CHECK_EQ(e.planes[1].bytes, bytes - OUT_UV);
	CHECK(e.sequence == 7 && e.orientation == 1 && e.width == OUT_W && !e.crop.width &&
	      !e.flags);
	CHECK(!e.release && f.release);
	f.release = NULL;
	REQUIRE_OK(dlbuf_lease_create(fire, &c, &lease));
	f.lease = lease;
	REQUIRE_OK(dlbuf_frame_expand(&f, 0, &e));
	CHECK(e.release && !e.lease);
	dlbuf_lease_drop(lease);
	CHECK_EQ(c.fired, 0);
	dlbuf_frame_drop(&e);
	CHECK_EQ(c.fired, 1);

	/* The crop, and one fd for a dma-buf. */
	f = out_frame(fd);
	f.planes[1].fd = other;
	f.crop = (struct dlbuf_rect){ 2, 4, 20, 9 };
	REQUIRE_OK(dlbuf_frame_expand(&f, 0, &e));
	CHECK(e.width == OUT_W && e.crop.width == 20 && e.planes[1].offset == OUT_UV);
	CHECK(e.planes[0].fd == fd && e.planes[1].fd == fd);
	REQUIRE_OK(dlbuf_frame_expand(&f, DLBUF_EXPAND_CROPPED, &e));
	CHECK(e.width == 20 && e.height == 9 && !e.crop.width);
	CHECK_EQ(e.planes[0].offset, 4 * OUT_PITCH + 2);
	CHECK_EQ(e.planes[1].offset, OUT_UV + 2 * OUT_PITCH + 2);

	/* Formats whose tensors are words, or rows of bits. */
	f = out_frame(fd);
	f.nplanes = 1;
	f.code = DLBUF_FOURCC('R', 'G', '1', '6');
	f.width = 16;
	REQUIRE_OK(dlbuf_frame_expand(&f, 0, &e));
	CHECK_EQ(e.planes[0].pitch, OUT_PITCH);
	f.code = DLBUF_FOURCC('p', 'R', 'A', 'A');
	f.code_space = DLBUF_CODE_V4L2;
	REQUIRE_OK(dlbuf_frame_expand(&f, 0, &e));
	CHECK_EQ(e.planes[0].pitch, OUT_PITCH);
	CHECK_ERR(dlbuf_frame_expand(&f, 0, &no_size), -EINVAL);
	CHECK_ERR(dlbuf_frame_expand(NULL, 0, &e), -EINVAL);
	CHECK_ERR(dlbuf_frame_expand(&f, 0, NULL), -EINVAL);
	CHECK_ERR(dlbuf_frame_expand(&f, 2, &e), -EINVAL);
}

/* Frames that a consumer cannot have: an error text each, and *out unchanged. */
static void expand_refused(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", OUT_BYTES), memfd AUTO_FD = memfd_create("m", 0);
	struct dlbuf_frame good = out_frame(fd), f, e = { .size = sizeof(e) }, before = e;
	uint32_t flags = DLBUF_EXPAND_CROPPED;

#define REFUSED(err, text, ...)							\
	do {									\
		f = good;							\
		__VA_ARGS__;							\
		CHECK_ERR(dlbuf_frame_expand(&f, flags, &e), err);		\
		CHECK_SAYS(text);						\
		CHECK(!memcmp(&e, &before, sizeof(e)));				\
	} while (0)
	REFUSED(-EINVAL, "no format", f.code = DLBUF_FOURCC('!', '!', '!', '!'));
	REFUSED(-EINVAL, "code space", f.code_space = DLBUF_CODE_GSTREAMER);
	REFUSED(-EINVAL, "orientation is 8: 0 to 7 are possible", f.orientation = 8);
	REFUSED(-EINVAL, "reserved is 0x1: it must be 0", f.reserved = 1);
	REFUSED(-EINVAL, "0x17 pixels", f.width = 0);
	REFUSED(-EINVAL, "0 planes", f.nplanes = 0);
	REFUSED(-EINVAL, "255 planes", f.nplanes = 255);
	REFUSED(-EINVAL, "has 2 planes, the frame has 1", f.nplanes = 1);
	REFUSED(-EINVAL, "is less than", f.planes[0].pitch = OUT_W - 1);
	REFUSED(-ERANGE, "its dma-buf at", f.planes[1].offset = 4096);
	REFUSED(-EOVERFLOW, "64 bits", f.planes[1].offset = UINT64_MAX - 64);
	REFUSED(-ERANGE, "", f.planes[0].pitch = 1ll << 40);
	REFUSED(-ERANGE, "the frame's bytes at", f.planes[0].bytes = OUT_UV - OUT_PITCH);
	REFUSED(-ERANGE, "its dma-buf at", f.width = f.height = 100; f.planes[0].pitch =
		f.planes[1].pitch = 100);
	REFUSED(-EBADF, "fd -1", f.planes[1].fd = -1);
	REFUSED(-EBADF, "not a dma-buf but '/memfd:m", f.planes[1].fd = memfd);
	REFUSED(-EINVAL, "not inside", f.crop.width = OUT_W + 1; f.crop.height = 1);
	REFUSED(-EOPNOTSUPP, "inside a sample", f.crop = (struct dlbuf_rect){ 1, 0, 4, 4 });
	REFUSED(-EOPNOTSUPP, "INVALID", f.modifier = DLBUF_MOD_INVALID);
	REFUSED(-EOPNOTSUPP, "no rows", f.code = DLBUF_FOURCC('M', 'J', 'P', 'G');
		f.code_space = DLBUF_CODE_V4L2; f.nplanes = 1);
	REFUSED(-EINVAL, "", f.order = DLBUF_ORDER_FENCE; f.fence = memfd);
	REFUSED(-EBADF, "", f.order = DLBUF_ORDER_FENCE; f.fence = 999);
	/* Tiles are looked at only where they begin. */
	good.modifier = 0x0100000000000001;
	good.planes[0].pitch = 512;
	REFUSED(-ERANGE, "begins at byte 4096", f.planes[1].offset = 4096);
	REFUSED(-EOPNOTSUPP, "cannot be cropped", f.crop = (struct dlbuf_rect){ 0, 0, 4, 4 });
	REFUSED(-EBADF, "not a dma-buf", f.planes[1].fd = memfd);
	CHECK_OK(dlbuf_frame_expand(&good, flags, &e));
	CHECK(e.nplanes == 2 && e.planes[0].pitch == 512);
#undef REFUSED
}

void cts_cases_frame(void)
{
	ktap_case("frame/two-planes", two_planes, NULL);
	ktap_case("frame/lease", lease, NULL);
	ktap_case("frame/refusals", refusals, NULL);
	ktap_case("frame/views", views, NULL);
	ktap_case("frame/differences", differences, NULL);
	ktap_case("frame/fence", fence, NULL);
	ktap_case("frame/out", out, NULL);
	ktap_case("frame/out/fence", out_fence, NULL);
	ktap_case("frame/out/refused", out_refused, NULL);
	ktap_case("frame/out/small", out_small, NULL);
	ktap_case("frame/expand", expand, NULL);
	ktap_case("frame/expand/refused", expand_refused, NULL);
}
