// SPDX-License-Identifier: MIT
/* Preparation of frames of dma-bufs: waits, leases, errors. tests/unit/prepare.c has the values. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/prepare.h>

#include "cts.h"

#define W 64u
#define H 48u
#define PITCH 96u
#define SIDE 32
#define BYTES (PITCH * H * 3 / 2)

struct scene {
	struct dlbuf_device *dev;
	int fd;
	unsigned int fired;
	struct dlbuf_frame frame;
	struct dlbuf_prepare *plan;
	float data[2 * 3 * SIDE * SIDE];
	int64_t shape[4];
	DLManagedTensorVersioned out;
};

static void fire(void *data)
{
	++*(unsigned int *)data;
}

static void nothing(DLManagedTensorVersioned *t)
{
}

static void scene_open(struct scene *s)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = SIDE, .height = SIDE,
		   .fit = DLBUF_FIT_LETTERBOX, .pad = { 114, 114, 114 });
	unsigned char bytes[BYTES];

	*s = (struct scene){ .dev = cts_open(), .fd = cts_alloc("udmabuf", BYTES),
		.shape = { 2, 3, SIDE, SIDE } };
	cts_pattern(bytes, sizeof(bytes), 7);
	cts_poke(s->fd, 0, bytes, sizeof(bytes));
	s->frame = (struct dlbuf_frame)PICTURE(W, H, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 1, .planes = { { .fd = s->fd, .pitch = PITCH } },
		.release = fire, .release_data = &s->fired);
	s->out = (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = nothing,
		.dl_tensor = { .data = s->data, .device = { kDLCPU, 0 }, .ndim = 4,
			.dtype = { kDLFloat, 32, 1 }, .shape = s->shape },
	};
	REQUIRE_OK(dlbuf_prepare_create(s->dev, &s->frame, &opts, &s->plan));
}

static void scene_close(struct scene *s)
{
	dlbuf_prepare_destroy(s->plan);
	dlbuf_device_close(s->dev);
	close(s->fd);
}

/* The same pixels in plain memory. */
static void expected(struct scene *s, float *data)
{
	unsigned char bytes[BYTES];
	int64_t luma[] = { H, W }, chroma[] = { H / 2, W / 2, 2 };
	int64_t luma_steps[] = { PITCH, 1 }, chroma_steps[] = { PITCH, 2, 1 };
	DLManagedTensorVersioned planes[2] = {
		{ .version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = nothing,
		  .dl_tensor = { .data = bytes, .device = { kDLCPU, 0 }, .ndim = 2,
			.dtype = { kDLUInt, 8, 1 }, .shape = luma, .strides = luma_steps } },
		{ .version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = nothing,
		  .dl_tensor = { .data = bytes + PITCH * H, .device = { kDLCPU, 0 }, .ndim = 3,
			.dtype = { kDLUInt, 8, 1 }, .shape = chroma, .strides = chroma_steps } },
	};
	DLManagedTensorVersioned *list[] = { &planes[0], &planes[1] }, out = s->out;

	cts_peek(s->fd, 0, bytes, sizeof(bytes));
	out.dl_tensor.data = data;
	REQUIRE_OK(dlbuf_prepare_tensors(s->plan, list, 2, &out, 0, 0));
}

static void frame_is_prepared(void *arg)
{
	static float want[2 * 3 * SIDE * SIDE];
	struct dlbuf_frame other;
	struct scene s;

	scene_open(&s);
	expected(&s, want);
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 1, 0));
	CHECK(!memcmp(s.data + 3 * SIDE * SIDE, want, sizeof(want) / 2));
	CHECK(s.data[0] == 0);
	CHECK_EQ(s.fired, 1);
	/* One buffer, seen again: from the cache. */
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 0));
	CHECK(!memcmp(s.data, want, sizeof(want) / 2));
	CHECK_EQ(s.fired, 2);
	/* A failure keeps the lease. */
	other = s.frame;
	other.width -= 2;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &other, &s.out, 0, 0), -EINVAL);
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 2, 0), -EINVAL);
	s.out.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 0), -EACCES);
	s.out.flags = 0;
	s.out.version.major++;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 0), -EPROTO);
	s.out.version.major--;
	s.out.dl_tensor.dtype.bits = 16;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 0), -EOPNOTSUPP);
	s.out.dl_tensor.dtype.bits = 32;
	other = s.frame;
	other.planes[0].fd = STDIN_FILENO;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &other, &s.out, 0, 0), -EBADF);
	other = s.frame;
	other.planes[0].offset = PITCH * H;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &other, &s.out, 0, 0), -ERANGE);
	CHECK_EQ(s.fired, 2);
	scene_close(&s);
}

/* The tensor may be a dma-buf, too; it must not be the frame's. */
static void into_a_dmabuf(void *arg)
{
	static float want[2 * 3 * SIDE * SIDE];
	int64_t shape[] = { 3, SIDE, SIDE };
	DLTensor layout = { .device = { kDLCPU, 0 }, .ndim = 3, .dtype = { kDLFloat, 32, 1 },
		.shape = shape };
	DLManagedTensorVersioned *out = NULL;
	struct scene s;
	int fd;

	scene_open(&s);
	fd = cts_alloc("udmabuf", sizeof(want) / 2);
	expected(&s, want);
	REQUIRE_OK(dlbuf_import(s.dev, fd, &layout, NULL, &out));
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, out, 0, 0));
	cts_peek(fd, 0, s.data, sizeof(want) / 2);
	CHECK(!memcmp(s.data, want, sizeof(want) / 2));
	/* Acquired by the caller, it stays so. */
	REQUIRE_OK(dlbuf_acquire(out, DLBUF_WRITE, NULL, NULL));
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, out, 0, 0));
	CHECK_OK(dlbuf_release(out, NULL, NULL));
	cts_delete(out);
	close(fd);
	scene_close(&s);
}

static void waits_for_the_producer(void *arg)
{
	struct cts_fence v;
	struct scene s;

	scene_open(&s);
	if (cts_no_sync_file(s.fd))
		SKIP("this kernel has no sync_files");
	cts_fence_create(&v);
	s.frame.order = DLBUF_ORDER_FENCE;
	s.frame.fence = v.sync_file;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 1), -ETIME);
	CHECK_EQ(s.fired, 0);
	CHECK(s.data[0] == 0);
	cts_fence_signal(&v);
	CHECK_OK(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 1));
	CHECK_EQ(s.fired, 1);
	cts_fence_destroy(&v);
	scene_close(&s);
}

static void shared_lease(void *arg)
{
	struct scene s;

	scene_open(&s);
	s.frame.release = NULL;
	REQUIRE_OK(dlbuf_lease_create(fire, &s.fired, &s.frame.lease));
	CHECK_OK(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 0));
	CHECK_EQ(s.fired, 0);
	dlbuf_lease_drop(s.frame.lease);
	CHECK_EQ(s.fired, 1);
	scene_close(&s);
}

/* Crops have their values from tests/unit/prepare.c; the frame is one. */
static void crops_of_a_frame(void *arg)
{
	static const struct dlbuf_crop crops[] = { { .x = 0 }, { 5, 3, 20.5, 30 }, { 60, 0, 5, 5 } };
	struct dlbuf_prepare_info infos[2] = { { .size = sizeof(infos[0]) } };
	static float want[3 * SIDE * SIDE];
	double x, y;
	struct scene s;

	scene_open(&s);
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 0));
	memcpy(want, s.data, sizeof(want));
	memset(s.data, 0, sizeof(s.data));
	CHECK_ERR(dlbuf_prepare_crops(s.plan, &s.frame, crops, 3, &s.out, 0, 0, NULL), -EINVAL);
	CHECK_ERR(dlbuf_prepare_crops(s.plan, &s.frame, crops, 2, &s.out, 1, 0, NULL), -EINVAL);
	CHECK_ERR(dlbuf_prepare_crops(s.plan, &s.frame, NULL, 1, &s.out, 0, 0, NULL), -EINVAL);
	CHECK(s.data[0] == 0 && s.data[3 * SIDE * SIDE] == 0);
	CHECK_EQ(s.fired, 1);
	REQUIRE_OK(dlbuf_prepare_crops(s.plan, &s.frame, crops, 2, &s.out, 0, 0, infos));
	CHECK_EQ(s.fired, 2);
	CHECK(!memcmp(s.data, want, sizeof(want)));
	CHECK(memcmp(s.data + 3 * SIDE * SIDE, want, sizeof(want)));
	dlbuf_prepare_map(&infos[1], infos[1].left, infos[1].top, &x, &y);
	CHECK(x == 5 && y == 3 && infos[0].scaled_height == 24 && infos[1].scaled_height == SIDE);
	scene_close(&s);
}

/* The same without a plan, by one that the device keeps. */
static void without_a_plan(void *arg)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = SIDE, .height = SIDE,
		   .fit = DLBUF_FIT_LETTERBOX, .pad = { 114, 114, 114 });
	DLBUF_INFO(dlbuf_prepare_info, info);
	static float want[3 * SIDE * SIDE];
	struct dlbuf_frame other;
	struct scene s;

	scene_open(&s);
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, &s.out, 0, 0));
	memcpy(want, s.data, sizeof(want));
	for (int i = 0; i < 2; i++) {
		memset(s.data, 0, sizeof(s.data));
		REQUIRE_OK(dlbuf_prepare_once(s.dev, &s.frame, &opts, &s.out, i, 0, &info));
		CHECK(!memcmp(s.data + i * 3 * SIDE * SIDE, want, sizeof(want)));
		CHECK(info.scaled_height == 24 && info.top == 4);
	}
	opts.pad[0] = 0;
	REQUIRE_OK(dlbuf_prepare_once(s.dev, &s.frame, &opts, &s.out, 0, 0, NULL));
	CHECK(s.data[0] == 0);
	CHECK_EQ(s.fired, 4);
	CHECK_ERR(dlbuf_prepare_once(NULL, &s.frame, &opts, &s.out, 0, 0, NULL), -EINVAL);
	other = s.frame;
	other.code = DLBUF_FOURCC('M', 'J', 'P', 'G');
	CHECK_ERR(dlbuf_prepare_once(s.dev, &other, &opts, &s.out, 0, 0, NULL), -EOPNOTSUPP);
	CHECK_EQ(s.fired, 4);
	scene_close(&s);
}

void cts_cases_prepare(void)
{
	/* Other devices refuse a plan: tests/unit/prepare.c. */
	if (strcmp(cts_access->backend, "cpu"))
		return;
	ktap_case("prepare/frame", frame_is_prepared, NULL);
	ktap_case("prepare/into-dmabuf", into_a_dmabuf, NULL);
	ktap_case("prepare/crops", crops_of_a_frame, NULL);
	ktap_case("prepare/without-plan", without_a_plan, NULL);
	ktap_case("prepare/waits", waits_for_the_producer, NULL);
	ktap_case("prepare/lease", shared_lease, NULL);
}
