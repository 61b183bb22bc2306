// SPDX-License-Identifier: MIT
/*
 * Preparation of frames of dma-bufs: waits, leases, errors, and, for devices that compute,
 * the values, which must be the CPU's. tests/unit/prepare.c has those of the CPU.
 */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/prepare.h>

#include "import/backend.h"
#include "prepare/program.h"
#include "system/event.h"
#include "system/internal.h"
#include "system/sys.h"

#include "cts.h"

/* Options of one call. */
#define RUN_OPTS struct dlbuf_prepare_run_opts
#define RUN(...) (&(RUN_OPTS){ .size = sizeof(RUN_OPTS), __VA_ARGS__ })

#define W 64u
#define H 48u
#define PITCH 96u
#define SIDE 32
#define BYTES (PITCH * H * 3 / 2)
#define IMAGE (3 * SIDE * SIDE)

static const struct dlbuf_prepare_opts scene_opts = {
	.size = sizeof(scene_opts), .width = SIDE, .height = SIDE, .fit = DLBUF_FIT_LETTERBOX,
	.pad = { 114, 114, 114 },
};

struct scene {
	struct dlbuf_device *dev;
	int fd, out_fd;
	unsigned int fired;
	struct dlbuf_frame frame;
	struct dlbuf_prepare *plan;
	DLManagedTensorVersioned *out;	/* two images */
};

static void fire(void *data)
{
	__atomic_add_fetch((unsigned int *)data, 1, __ATOMIC_RELEASE);
}

static unsigned int fired(const struct scene *s)
{
	return __atomic_load_n(&s->fired, __ATOMIC_ACQUIRE);
}

static void nothing(DLManagedTensorVersioned *t)
{
}

static void scene_open(struct scene *s)
{
	int64_t shape[] = { 2, 3, SIDE, SIDE };
	DLTensor layout = { .ndim = 4, .dtype = { kDLFloat, 32, 1 }, .shape = shape };
	unsigned char bytes[BYTES];

	*s = (struct scene){ .dev = cts_open(), .fd = cts_alloc("udmabuf", BYTES),
		.out_fd = cts_alloc("udmabuf", 2 * IMAGE * sizeof(float)) };
	cts_pattern(bytes, sizeof(bytes), 7);
	cts_poke(s->fd, 0, bytes, sizeof(bytes));
	s->frame = (struct dlbuf_frame)PICTURE(W, H, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 1, .planes = { { .fd = s->fd, .pitch = PITCH } },
		.release = fire, .release_data = &s->fired);
	REQUIRE_OK(dlbuf_prepare_create(s->dev, &s->frame, &scene_opts, &s->plan));
	REQUIRE_OK(dlbuf_import(s->dev, s->out_fd, &layout, NULL, &s->out));
}

static void scene_close(struct scene *s)
{
	dlbuf_prepare_destroy(s->plan);
	cts_delete(s->out);
	dlbuf_device_close(s->dev);
	close(s->fd);
	close(s->out_fd);
}

/* The CPU's result for a frame, in plain memory. */
static void expected(const struct dlbuf_frame *frame, const struct dlbuf_prepare_opts *opts,
		     DLTensor layout, void *data, int64_t index)
{
	struct dlbuf_frame f = *frame;
	DLManagedTensorVersioned out = { .version = { DLPACK_MAJOR_VERSION, 0 },
		.deleter = nothing, .dl_tensor = layout };
	struct dlbuf_device *cpu;
	struct dlbuf_prepare *plan;

	out.dl_tensor.data = data;
	out.dl_tensor.device.device_type = kDLCPU;
	f.release = NULL;
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	REQUIRE_OK(dlbuf_prepare_create(cpu, &f, opts, &plan));
	REQUIRE_OK(dlbuf_prepare_frame(plan, &f, RUN(.index = index), &out));
	dlbuf_prepare_destroy(plan);
	dlbuf_device_close(cpu);
}

/* Whether an image of the scene's tensor equals the CPU's result for the frame. */
static bool is_prepared(struct scene *s, int64_t index, const struct dlbuf_prepare_opts *opts)
{
	static float want[2 * IMAGE], got[2 * IMAGE];
	DLTensor layout = { .ndim = 4, .dtype = { kDLFloat, 32, 1 },
		.shape = (int64_t[]){ 2, 3, SIDE, SIDE } };
	double worst = 0;

	if (!cts_computes)
		return true;
	expected(&s->frame, opts, layout, want, index);
	cts_peek(s->out_fd, 0, got, sizeof(got));
	for (int64_t i = index * IMAGE; i < (index + 1) * IMAGE; i++)
		worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
	return worst < 2e-5;
}

int cts_prepare_small(struct dlbuf_device *dev, int fd, int out_fd)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8, .dtype = { kDLUInt, 8, 1 });
	struct dlbuf_frame f = PICTURE(W, 16, DLBUF_FOURCC('G', 'R', 'E', 'Y'), DLBUF_CODE_V4L2, 1,
				       .planes = { { .fd = fd, .pitch = W } });
	DLTensor layout = { .ndim = 4, .dtype = { kDLUInt, 8, 1 }, .byte_offset = 4096,
		.shape = (int64_t[]){ 2, 3, 8, 8 } };
	const struct dlbuf_crop crops[] = { { .x = 0 }, { 8, 2, 9, 9 } };
	DLManagedTensorVersioned *out = NULL;
	struct dlbuf_prepare *plan = NULL;
	int ret;

	if (!dev->backend->program_load && dev->dl.device_type != kDLCPU)
		return 1;
	ret = dlbuf_prepare_create(dev, &f, &opts, &plan);
	if (!ret)
		ret = dlbuf_import(dev, out_fd, &layout, NULL, &out);
	if (!ret)
		ret = dlbuf_prepare_frame(plan, &f, NULL, out);
	if (!ret)
		ret = dlbuf_prepare_frame(plan, &f, RUN(.crops = crops, .ncrops = 2), out);
	dlbuf_prepare_destroy(plan);
	cts_delete(out);
	return ret;
}

static void frame_is_prepared(void *arg)
{
	DLManagedTensorVersioned copy;
	DLTensor *t;
	struct dlbuf_frame other;
	struct scene s;
	float first;

	scene_open(&s);
	t = &s.out->dl_tensor;
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, RUN(.index = 1), s.out));
	CHECK(is_prepared(&s, 1, &scene_opts));
	cts_peek(s.out_fd, 0, &first, sizeof(first));
	CHECK(first == 0);
	UNTIL(fired(&s) == 1);
	/* One buffer, seen again: from the cache. */
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, NULL, s.out));
	CHECK(is_prepared(&s, 0, &scene_opts) && is_prepared(&s, 1, &scene_opts));
	UNTIL(fired(&s) == 2);
	/* A failure keeps the lease. */
	other = s.frame;
	other.width -= 2;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &other, NULL, s.out), -EINVAL);
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, RUN(.index = 2), s.out), -EINVAL);
	s.out->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, NULL, s.out), -EACCES);
	s.out->flags = 0;
	s.out->version.major++;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, NULL, s.out), -EPROTO);
	s.out->version.major--;
	t->dtype.bits = 16;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, NULL, s.out), -EOPNOTSUPP);
	t->dtype.bits = 32;
	t->device.device_type++;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, NULL, s.out), -EOPNOTSUPP);
	t->device.device_type--;
	other = s.frame;
	other.planes[0].fd = STDIN_FILENO;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &other, NULL, s.out), -EBADF);
	other = s.frame;
	other.planes[0].offset = PITCH * H + cts_more;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &other, NULL, s.out), -ERANGE);
	copy = *s.out;
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, NULL, &copy), -EINVAL);
	CHECK_SAYS("a copy of its struct");
	CHECK_EQ(fired(&s), 2);
	scene_close(&s);
}

/* An application may move the begin of a tensor, also to before its dma-buf. */
static void beyond_the_tensor(void *arg)
{
	static const struct {
		int64_t plane, index, move;	/* plane -1: of the result */
	} rows[] = {
		{ -1, 1, 4 }, { -1, 0, -4 }, { -1, 1, -4 - 4 * IMAGE }, { -1, 0, -4 * IMAGE },
		{ -1, 0, INT64_MIN }, { 0, 0, -(int)W }, { 0, 0, INT64_MIN }, { 0, 0, PITCH * H },
		{ 1, 0, -(int)(PITCH * H + W) }, { 1, 0, 1 }, { 1, 0, -1 },
	};
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ, .view = DLBUF_VIEW_PLANES);
	DLManagedTensorVersioned *planes[DLBUF_MAX_PLANES];
	uint32_t n = 0;
	struct scene s;

	scene_open(&s);
	s.frame.release = NULL;
	REQUIRE_OK(dlbuf_import_frame(s.dev, &s.frame, &opts, planes, &n));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		DLTensor *t = &(rows[i].plane < 0 ? s.out : planes[rows[i].plane])->dl_tensor;

		t->byte_offset += (uint64_t)rows[i].move;
		if (!CHECK_ERR(dlbuf_prepare_tensors(s.plan, planes, n,
						     RUN(.index = rows[i].index), s.out),
						     -EINVAL) || !CHECK_SAYS("reach beyond"))
			ktap_note(NULL, 0, "row %zu", i);
		t->byte_offset -= (uint64_t)rows[i].move;
	}
	CHECK_OK(dlbuf_prepare_tensors(s.plan, planes, n, NULL, s.out));
	while (n--)
		cts_delete(planes[n]);
	scene_close(&s);
}

/* A frame's crop is as one of the options, also of formats that an import shows in whole rows. */
static void cropped_frames(void *arg)
{
	static const struct {
		uint32_t code;
		enum dlbuf_code_space space;
		uint32_t nplanes, later;	/* pixels that the crop begins later */
	} rows[] = {
		{ DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2, 0 },
		{ DLBUF_FOURCC('Y', 'U', 'Y', 'V'), DLBUF_CODE_DRM, 1, 0 },
		{ DLBUF_FOURCC('R', 'G', '1', '6'), DLBUF_CODE_DRM, 1, 0 },
		{ DLBUF_FOURCC('R', '5', 'A', '8'), DLBUF_CODE_DRM, 2, 0 },
		{ DLBUF_FOURCC('R', 'G', 'B', 'R'), DLBUF_CODE_V4L2, 1, 0 },
		{ DLBUF_FOURCC('B', 'G', 'R', 'H'), DLBUF_CODE_V4L2, 1, 0 },
		{ DLBUF_FOURCC('Y', '1', '6', ' ') | 1u << 31, DLBUF_CODE_V4L2, 1, 0 },
		{ DLBUF_FOURCC('Y', '1', '0', 'P'), DLBUF_CODE_V4L2, 1, 3 },
		{ DLBUF_FOURCC('Y', '1', '2', 'P'), DLBUF_CODE_V4L2, 1, 1 },
	}, *row;
	static const struct dlbuf_rect rects[] = { { 0, 2, 16, 4 }, { 4, 0, 8, 8 }, { 12, 2, 4, 6 },
		{ 4, 2, 7, 5 } };
	static float got[2][IMAGE];
	struct dlbuf_prepare *plan;
	struct scene s;
	double worst;

	scene_open(&s);
	for (size_t i = 0; i < ARRAY_SIZE(rows) * ARRAY_SIZE(rects); i++) {
		struct dlbuf_rect r = rects[i % ARRAY_SIZE(rects)];
		struct dlbuf_frame f;
		int ret = 0;

		row = &rows[i / ARRAY_SIZE(rects)];
		r.x += row->later;
		r.width -= row->later;
		f = (struct dlbuf_frame)PICTURE(16, 8, row->code, row->space, row->nplanes,
						.planes = {
			{ .fd = s.fd, .pitch = 64 }, { .fd = s.fd, .offset = 2048, .pitch = 32 } });
		for (int k = 0; k < 2 && !ret; k++) {
			struct dlbuf_prepare_opts opts = scene_opts;

			if (k) {
				opts.crop_x = r.x;
				opts.crop_y = r.y;
				opts.crop_width = r.width;
				opts.crop_height = r.height;
			}
			f.crop = k ? (struct dlbuf_rect){ 0 } : r;
			/* Devices leave some to the CPU. */
			ret = dlbuf_prepare_create(s.dev, &f, &opts, &plan);
			if (ret && CHECK(ret == -EOPNOTSUPP && strcmp(cts_access->backend, "cpu")))
				break;
			REQUIRE_OK(ret);
			ret = dlbuf_prepare_frame(plan, &f, RUN(.index = k), s.out);
			dlbuf_prepare_destroy(plan);
			if (!CHECK_OK(ret))
				ktap_note(NULL, 0, "crop %zu: %s", i, dlbuf_last_error());
		}
		if (ret || !cts_computes)
			continue;
		cts_peek(s.out_fd, 0, got, sizeof(got));
		worst = 0;
		for (int k = 0; k < IMAGE; k++)
			worst = fmax(worst, fabs((double)got[0][k] - (double)got[1][k]));
		if (!CHECK(worst < 2e-5))
			ktap_note(NULL, 0, "crop %zu: off by %g", i, worst);
	}
	scene_close(&s);
}

/* A tensor that its caller has acquired; one that is the frame itself. */
static void acquired_by_the_caller(void *arg)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8);
	DLTensor layout = { .ndim = 3, .dtype = { kDLFloat, 32, 1 },
		.shape = (int64_t[]){ 3, 8, 8 } };
	DLManagedTensorVersioned *self = NULL;
	struct dlbuf_prepare *plan;
	struct scene s;
	bool cpu = !strcmp(cts_access->backend, "cpu");

	scene_open(&s);
	REQUIRE_OK(dlbuf_acquire(s.out, DLBUF_WRITE, NULL, NULL));
	if (cpu)
		CHECK_OK(dlbuf_prepare_frame(s.plan, &s.frame, NULL, s.out));
	else
		CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame, NULL, s.out), -EBUSY);
	CHECK_OK(dlbuf_release(s.out, NULL, NULL));
	UNTIL(fired(&s) == cpu);
	REQUIRE_OK(dlbuf_prepare_create(s.dev, &s.frame, &opts, &plan));
	REQUIRE_OK(dlbuf_import(s.dev, s.fd, &layout, NULL, &self));
	/* Two mappings of a dma-buf have two addresses, and the CPU looks at these. */
	if (cpu)
		goto out;
	CHECK_ERR_SAYS(dlbuf_prepare_frame(plan, &s.frame, NULL, self), -EOPNOTSUPP, "overlaps");
	CHECK_EQ(fired(&s), 0);
out:
	cts_delete(self);
	dlbuf_prepare_destroy(plan);
	scene_close(&s);
}

/* A call on another thread: some drivers complete the work before they give its fence. */
struct call {
	struct scene *s;
	pthread_t thread;
	bool over;
	int ret;
};

static void *call_run(void *arg)
{
	struct call *c = arg;

	c->ret = dlbuf_prepare_frame(c->s->plan, &c->s->frame, NULL, c->s->out);
	__atomic_store_n(&c->over, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Whether the call waits for the frame, until its deadline. */
static bool blocks_at(struct dlbuf_device *dev)
{
	DLBUF_INFO(dlbuf_device_info, info);

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	return info.acquire != DLBUF_SYNC_FENCE || info.release != DLBUF_SYNC_FENCE;
}

/*
 * For the producer of the frame; the plan goes early; for a reader of the tensor on a stream of
 * the device.
 */
enum waits { PRODUCER, EARLY, READER };

static void waits_for_others(void *arg)
{
	bool early = *(enum waits *)arg == EARLY, reader = *(enum waits *)arg == READER;
	DLBUF_OPTS(dlbuf_acquire_opts, opts);
	struct cts_fence v;
	struct scene s;
	struct call c = { .s = &s };
	float first;
	bool blocks;

	scene_open(&s);
	if (cts_no_sync_file(s.fd))
		SKIP("this kernel has no sync_files");
	cts_fence_create(&v);
	if (reader) {
		opts.fence = v.sync_file;
		REQUIRE_OK(dlbuf_acquire(s.out, DLBUF_READ, NULL, &opts));
		REQUIRE_OK(dlbuf_release(s.out, NULL, NULL));
	} else {
		s.frame.order = DLBUF_ORDER_FENCE;
		s.frame.fence = v.sync_file;
	}
	blocks = blocks_at(s.dev);
	if (blocks)
		CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame,
					      RUN(.deadline_ns = 1), s.out), -ETIME);
	REQUIRE(!pthread_create(&c.thread, NULL, call_run, &c));
	cts_until_idle(&c.over);
	CHECK_EQ(fired(&s), 0);
	cts_peek_raw(s.out_fd, 0, &first, sizeof(first));
	CHECK(first == 0);
	/* The driver that computes completes work before it gives a fence; others do not wait. */
	CHECK(blocks || cts_computes || __atomic_load_n(&c.over, __ATOMIC_ACQUIRE));
	/* The plan may go while the work waits, and the device. */
	if (__atomic_load_n(&c.over, __ATOMIC_ACQUIRE)) {
		CHECK(!blocks);
		pthread_join(c.thread, NULL);
		if (early) {
			dlbuf_prepare_destroy(s.plan);
			dlbuf_device_close(s.dev);
		}
		cts_fence_signal(&v);
	} else {
		cts_fence_signal(&v);
		pthread_join(c.thread, NULL);
		if (early) {
			dlbuf_prepare_destroy(s.plan);
			dlbuf_device_close(s.dev);
		}
	}
	CHECK_EQ(c.ret, 0);
	UNTIL(fired(&s));
	s.frame.order = 0;
	CHECK(is_prepared(&s, 0, &scene_opts));
	cts_fence_destroy(&v);
	if (early) {
		cts_delete(s.out);
		close(s.fd);
		close(s.out_fd);
	} else {
		scene_close(&s);
	}
}

static void shared_lease(void *arg)
{
	struct scene s;

	scene_open(&s);
	s.frame.release = NULL;
	REQUIRE_OK(dlbuf_lease_create(fire, &s.fired, &s.frame.lease));
	CHECK_OK(dlbuf_prepare_frame(s.plan, &s.frame, NULL, s.out));
	CHECK_EQ(fired(&s), 0);
	dlbuf_lease_drop(s.frame.lease);
	UNTIL(fired(&s) == 1);
	scene_close(&s);
}

/* Tensors that are copies of their dma-bufs. */
static void copied_tensors(void *arg)
{
	const enum dlbuf_path *path = arg;
	DLBUF_OPTS(dlbuf_import_opts, opts, .flags = DLBUF_IMPORT_MAY_COPY,
		   .paths = DLBUF_PATH_BIT(*path));
	DLManagedTensorVersioned *planes[DLBUF_MAX_PLANES];
	DLTensor layout = { .ndim = 4, .dtype = { kDLFloat, 32, 1 },
		.shape = (int64_t[]){ 2, 3, SIDE, SIDE } };
	struct scene s;
	uint32_t n = 0;

	scene_open(&s);
	cts_delete(s.out);
	REQUIRE_OK(dlbuf_import(s.dev, s.out_fd, &layout, &opts, &s.out));
	opts.access = DLBUF_READ;
	opts.view = DLBUF_VIEW_PLANES;
	REQUIRE_OK(dlbuf_import_frame(s.dev, &s.frame, &opts, planes, &n));
	for (int i = 0; i < 2; i++)
		CHECK_OK(dlbuf_prepare_tensors(s.plan, planes, n, RUN(.index = i), s.out));
	CHECK_EQ(fired(&s), 0);
	while (n--)
		cts_delete(planes[n]);
	UNTIL(fired(&s) == 1);
	CHECK_OK(dlbuf_device_drain(s.dev, 0));
	CHECK(is_prepared(&s, 0, &scene_opts) && is_prepared(&s, 1, &scene_opts));
	scene_close(&s);
}

/* Plans of two threads, of one frame into one tensor. */
struct preparer {
	struct scene *s;
	pthread_t thread;
	int64_t index;
	int ret;
};

static void *prepare_often(void *arg)
{
	struct preparer *p = arg;
	struct dlbuf_frame frame = p->s->frame;
	DLManagedTensorVersioned *out = NULL;
	struct dlbuf_prepare *plan = NULL;

	frame.release = NULL;
	p->ret = dlbuf_tensor_share(p->s->out, NULL, &out);
	if (!p->ret)
		p->ret = dlbuf_prepare_create(p->s->dev, &frame, &scene_opts, &plan);
	for (int i = 0; i < 8 && !p->ret; i++)
		p->ret = dlbuf_prepare_frame(plan, &frame, RUN(.index = p->index), out);
	dlbuf_prepare_destroy(plan);
	cts_delete(out);
	return NULL;
}

static void two_threads(void *arg)
{
	struct preparer p[2];
	struct scene s;

	scene_open(&s);
	for (int i = 0; i < 2; i++) {
		p[i] = (struct preparer){ .s = &s, .index = i };
		REQUIRE(!pthread_create(&p[i].thread, NULL, prepare_often, &p[i]));
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(p[i].thread, NULL);
		CHECK_OK(p[i].ret);
	}
	CHECK(is_prepared(&s, 0, &scene_opts) && is_prepared(&s, 1, &scene_opts));
	scene_close(&s);
}

/* The tensor is a part of the frame's own buffer, in a mapping of its own. */
static void over_the_frame(void *arg)
{
	DLTensor layout = { .ndim = 4, .dtype = { kDLUInt, 8, 1 }, .byte_offset = PITCH * 20,
		.shape = (int64_t[]){ 1, 3, 8, 8 } };
	struct dlbuf_prepare_opts opts = { .size = sizeof(opts), .width = 8, .height = 8,
		.dtype = layout.dtype };
	DLManagedTensorVersioned *out = NULL;
	struct dlbuf_prepare *plan;
	struct scene s;

	scene_open(&s);
	REQUIRE_OK(dlbuf_prepare_create(s.dev, &s.frame, &opts, &plan));
	REQUIRE_OK(dlbuf_import(s.dev, s.fd, &layout, NULL, &out));
	CHECK_ERR_SAYS(dlbuf_prepare_frame(plan, &s.frame, NULL, out), -EOPNOTSUPP, "overlaps");
	CHECK_EQ(fired(&s), 0);
	cts_delete(out);
	dlbuf_prepare_destroy(plan);
	scene_close(&s);
}

/* Crops have their values from tests/unit/prepare.c; the frame is one. */
static void crops_of_a_frame(void *arg)
{
	static const struct dlbuf_crop crops[] = { { .x = 0 }, { 5, 3, 20.5, 30 },
		{ 60, 0, 5, 5 } };
	struct dlbuf_prepare_info infos[2] = { { .size = sizeof(infos[0]) } };
	struct dlbuf_prepare_opts second = scene_opts;
	DLBUF_INFO(dlbuf_prepare_info, info);
	double x, y;
	struct scene s;

	second.crop_x = 5;
	second.crop_y = 3;
	second.crop_width = 20.5;
	second.crop_height = 30;
	scene_open(&s);
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame,
				      RUN(.crops = crops, .ncrops = 3), s.out), -EINVAL);
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame,
				      RUN(.crops = crops, .ncrops = 2, .index = 1), s.out),
				      -EINVAL);
	CHECK_ERR(dlbuf_prepare_frame(s.plan, &s.frame,
				      RUN(.crops = NULL, .ncrops = 1), s.out), -EINVAL);
	CHECK_EQ(fired(&s), 0);
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame,
				       RUN(.crops = crops, .ncrops = 2, .infos = infos), s.out));
	CHECK(is_prepared(&s, 0, &scene_opts) && is_prepared(&s, 1, &second));
	UNTIL(fired(&s) == 1);
	/* The plan's own again. */
	REQUIRE_OK(dlbuf_prepare_frame(s.plan, &s.frame, RUN(.index = 1, .infos = &info), s.out));
	CHECK(is_prepared(&s, 1, &scene_opts) && info.scaled_height == 24 && info.top == 4);
	UNTIL(fired(&s) == 2);
	dlbuf_prepare_map(&infos[1], infos[1].left, infos[1].top, &x, &y);
	CHECK(x == 5 && y == 3 && infos[0].scaled_height == 24 && infos[1].scaled_height == SIDE);
	scene_close(&s);
}

static const struct backend *real_backend;
static unsigned int submits;

static int counted(struct dlbuf_device *dev, const struct program_job *jobs, uint32_t n, int fence,
		   int *done)
{
	submits++;
	return real_backend->program_run_all(dev, jobs, n, fence, done);
}

/* More crops than a device gets at once are two pieces of work, one behind the other. */
static void many_crops(void *arg)
{
	enum { N = 70, SMALL = 3 * 8 * 8 };
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8, .dtype = { kDLUInt, 8, 1 },
		   .fit = DLBUF_FIT_LETTERBOX, .filter = DLBUF_FILTER_TRIANGLE);
	DLTensor layout = { .ndim = 4, .dtype = opts.dtype, .shape = (int64_t[]){ N, 3, 8, 8 } };
	static uint8_t want[N * SMALL], got[N * SMALL];
	DLManagedTensorVersioned plain = { .version = { DLPACK_MAJOR_VERSION, 0 },
		.deleter = nothing, .dl_tensor = layout }, *out;
	int fd = cts_alloc("udmabuf", N * SMALL);
	struct dlbuf_crop crops[N];
	struct dlbuf_device *cpu;
	struct dlbuf_prepare *plan;
	struct backend backend;
	uint32_t other = 0;
	struct scene s;

	scene_open(&s);
	for (uint32_t i = 0; i < N; i++)
		crops[i] = (struct dlbuf_crop){ i % 30 * 1.25, i % 20, 1 + i % 24,
			4 + i % 20 / 2. };
	plain.dl_tensor.data = want;
	plain.dl_tensor.device.device_type = kDLCPU;
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	REQUIRE_OK(dlbuf_prepare_create(cpu, &s.frame, &opts, &plan));
	REQUIRE_OK(dlbuf_prepare_frame(plan, &s.frame, RUN(.crops = crops, .ncrops = N), &plain));
	dlbuf_prepare_destroy(plan);
	dlbuf_device_close(cpu);
	real_backend = s.dev->backend;
	backend = *real_backend;
	backend.program_run_all = counted;
	s.dev->backend = &backend;
	REQUIRE_OK(dlbuf_import(s.dev, fd, &layout, NULL, &out));
	REQUIRE_OK(dlbuf_prepare_create(s.dev, &s.frame, &opts, &plan));
	REQUIRE_OK(dlbuf_prepare_frame(plan, &s.frame, RUN(.crops = crops, .ncrops = N), out));
	CHECK_EQ(submits, 2);
	/* Their tables stay until they have been read. */
	dlbuf_prepare_destroy(plan);
	cts_peek(fd, 0, got, sizeof(got));
	UNTIL(fired(&s) == 2);
	for (uint32_t i = 0; i < N * SMALL && cts_computes; i++) {
		CHECK(abs(got[i] - want[i]) <= 1);
		other += got[i] != want[i];
	}
	CHECK(other <= 2 + N * SMALL / 100);
	cts_delete(out);
	s.dev->backend = real_backend;
	scene_close(&s);
	close(fd);
}

/* ---- values of a device and of the CPU */

static const struct {
	char code[5];
	int bits;
} formats[] = {
	{ "NV12", 8 }, { "NV21", 8 }, { "NV16", 8 }, { "NV24", 8 },
	{ "YU12", 8 }, { "YVU9", 8 }, { "P010", 16 }, { "YUYV", 8 },
	{ "VYUY", 8 }, { "AYUV", 8 }, { "RGB3", 8 }, { "XR24", 8 },
	{ "GREY", 8 }, { "Y10 ", 16 }, { "RGBP", 16 }, { "RGB1", 8 }, { "YUVO", 16 },
	{ "AR30", 32 },
};

static const DLDataType types[] = {
	{ kDLUInt, 8, 1 }, { kDLInt, 8, 1 }, { kDLFloat, 16, 1 }, { kDLBfloat, 16, 1 },
	{ kDLFloat, 32, 1 },
};

static uint32_t seed;

static uint32_t pick(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 16) % n;
}

/* An element, and the distance that is allowed from it. */
static double element(const void *data, size_t i, int type, double *near)
{
	uint16_t half = type == 2 || type == 3 ? ((const uint16_t *)data)[i] : 0;
	uint32_t bits = (uint32_t)half << 16;
	float f;
	double v;

	*near = 1;
	if (type < 2)
		return type ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
	memcpy(&f, type == 3 ? (void *)&bits : (void *)((const float *)data + i), 4);
	v = (double)f;
	if (type == 2)
		v = (half >> 15 ? -1 : 1) *
		    (half & 0x7c00 ? ldexp(1024 + (half & 1023), (half >> 10 & 31) - 25) :
				     ldexp(half & 1023, -24));
	*near = 2e-5 + fabs(v) * (type == 2 ? 0x1p-10 : type == 3 ? 0x1p-7 : 0);
	return v;
}

struct trial {
	uint32_t w, h;
	struct dlbuf_frame frame;
	struct dlbuf_prepare_opts opts;
	int type;
	DLTensor layout;
	int64_t shape[4], strides[4];
	uint64_t bytes;
	char text[192];
};

/* The rest by chance. */
static void make_trial(struct trial *t, uint32_t format, int type, uint32_t filter)
{
	bool nhwc = pick(2), apart = pick(3) == 0;
	const char *code = formats[format].code;
	int64_t c, gap = apart ? pick(4) : 0, w, h;

	*t = (struct trial){ .w = 2 + pick(40), .h = 2 + pick(30), .type = type };
	t->frame = (struct dlbuf_frame)PICTURE(t->w, t->h,
		DLBUF_FOURCC(code[0], code[1], code[2], code[3]), DLBUF_CODE_V4L2, 1, .planes = {
			{ .offset = pick(5) * formats[format].bits / 8,
			  .pitch = 4 * (t->w + pick(9)) } });
	t->opts = (struct dlbuf_prepare_opts){ .size = sizeof(t->opts),
		.width = pick(2) ? 4 * (1 + pick(12)) : 1 + pick(45), .height = 1 + pick(40),
		.fit = pick(3), .filter = filter, .turn = pick(4), .channels = pick(3),
		.flags = (nhwc ? DLBUF_PREPARE_NHWC : 0) | pick(4) * DLBUF_PREPARE_FLIP_X,
		.pad = { 114, 3, 250 }, .dtype = types[type],
		.mean = { type < 4 ? 0 : .3 }, .std = { type < 2 ? 0 : .5 },
		.zero_point = type == 1 ? -100 : 0 };
	t->frame.orientation = pick(8);
	if (pick(2)) {
		t->opts.crop_x = t->w * .25;
		t->opts.crop_y = t->h * .125;
		t->opts.crop_width = t->w * .6;
		t->opts.crop_height = t->h * .7;
	}
	/* As devices compute. */
	t->opts.flags |= DLBUF_PREPARE_EXACT;
	c = t->opts.channels == DLBUF_CHANNELS_GREY ? 1 : 3;
	w = t->opts.width;
	h = t->opts.height;
	t->shape[0] = 2;
	t->shape[1] = nhwc ? h : c;
	t->shape[2] = nhwc ? w : h;
	t->shape[3] = nhwc ? c : w;
	t->strides[3] = 1;
	t->strides[2] = pick(3) ? t->shape[3] + (nhwc ? pick(2) * gap : gap) :
		(t->shape[3] + 3) & ~3;
	t->strides[1] = t->strides[2] * t->shape[2] + gap;
	t->strides[0] = t->strides[1] * t->shape[1] + gap;
	t->layout = (DLTensor){ .ndim = 4, .dtype = types[type], .shape = t->shape,
		.strides = t->strides, .byte_offset = pick(3) * types[type].bits / 8 };
	t->bytes = (2 * t->strides[0] * types[type].bits / 8 + 64) & ~(uint64_t)3;
	snprintf(t->text, sizeof(t->text),
		 "%s, type %d, filter %u, %ux%u to %ux%u, fit %d, orientation %d, turn %u, "
		 "flags %u, channels %d, crop %g, gap %d", code, type, filter, t->w, t->h,
		 t->opts.width, t->opts.height, t->opts.fit, t->frame.orientation, t->opts.turn,
		 t->opts.flags, t->opts.channels, t->opts.crop_x, (int)gap);
}

#define MOST (1 << 17)

/* Bytes that are not the image's stay as they were. */
static void values(void *arg)
{
	struct dlbuf_device *dev = cts_open();
	char *want = malloc(MOST), *got = malloc(MOST);
	int fd = cts_alloc("udmabuf", MOST), out_fd = cts_alloc("udmabuf", MOST);
	/* Each format with each filter twice, of two types. */
	const uint32_t rounds = ARRAY_SIZE(formats) * 6 * 2;

	seed = 1;
	cts_pattern(got, 1 << 16, 3);
	cts_poke(fd, 0, got, 1 << 16);
	for (uint32_t i = 0; i < rounds; i++) {
		DLManagedTensorVersioned *out = NULL;
		struct dlbuf_prepare *plan;
		struct trial t;
		double worst = 0, a, b, near;
		size_t n, other = 0;

		make_trial(&t, i / 12, i % ARRAY_SIZE(types), i % 6);
		t.frame.planes[0].fd = fd;
		REQUIRE(t.bytes + t.layout.byte_offset <= MOST);
		memset(want, 0xa5, t.bytes);
		cts_poke(out_fd, 0, want, t.bytes);
		REQUIRE_OK(dlbuf_import(dev, out_fd, &t.layout, NULL, &out));
		REQUIRE_OK(dlbuf_prepare_create(dev, &t.frame, &t.opts, &plan));
		REQUIRE_OK(dlbuf_prepare_frame(plan, &t.frame, RUN(.index = 1), out));
		dlbuf_prepare_destroy(plan);
		cts_delete(out);
		if (!cts_computes)
			continue;
		expected(&t.frame, &t.opts, t.layout, want, 1);
		cts_peek(out_fd, 0, got, t.bytes);
		n = t.bytes / (types[t.type].bits / 8);
		for (size_t k = 0; k < n; k++) {
			a = element(want, k, t.type, &near);
			b = element(got, k, t.type, &near);
			/* No number is near to NaN. */
			if (!(fabs(a - b) <= near) && memcmp(&a, &b, sizeof(a)))
				worst = fmax(worst, fabs(a - b));
			other += t.type < 2 && fabs(a - b) > 0;
		}
		/* Sums near a half round to another integer. */
		if (!CHECK(!(worst > 0) && other <= 2 + n / 100))
			ktap_note(NULL, 0, "%s: off by %g, %zu others", t.text, worst, other);
	}
	dlbuf_device_close(dev);
	free(want);
	free(got);
	close(fd);
	close(out_fd);
}

struct trials {
	char first[32], fastest[32];
	uint64_t ns;
	bool own;		/* the device under test was not excluded */
};

static void see_trial(const struct dlbuf_prepare_trial *trial, void *data)
{
	struct trials *t = data;

	CHECK(!trial->status == !trial->reason[0] && !trial->status == !!trial->ns);
	if (!t->first[0])
		strcpy(t->first, trial->name);
	if (trial->status)
		return;
	t->own |= !strncmp(trial->name, cts_access->backend, strlen(cts_access->backend));
	if (!t->fastest[0] || trial->ns < t->ns)
		strcpy(t->fastest, trial->name);
	if (!t->ns || trial->ns < t->ns)
		t->ns = trial->ns;
}

void cts_few_drivers(void)
{
	static const char *const others[] = { "DLBUF_CUDA_LIBRARY", "DLBUF_HIP_LIBRARY",
		"DLBUF_LEVELZERO_LIBRARY", "DLBUF_OPENCL_LIBRARY", "DLBUF_VULKAN_LIBRARY" };
	struct dlbuf_device *dev;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		REQUIRE(!setenv(others[i], "none", 1));
	if (strcmp(cts_access->backend, "gles")) {
		REQUIRE(!setenv("DLBUF_GLES_LIBRARY", "none", 1));
		return;
	}
	KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "EGL's other devices, which are refused");
	if (!dlbuf_device_open("gles:0", NULL, &dev))
		dlbuf_device_close(dev);
	ktap_look(&ktap.before);
}

/* Finds the device with the least time of those that it reports, whatever the times are. */
static void fastest(void *arg)
{
	struct dlbuf_prepare_opts small = { .size = 1 }, none = { .size = sizeof(none) };
	DLBUF_INFO(dlbuf_device_info, info);
	struct trials trials = { .ns = 0 };
	struct dlbuf_device *dev = NULL;
	struct dlbuf_prepare *plan;
	struct dlbuf_frame other;
	struct cts_fence v;
	struct scene s;
	const struct {
		const struct dlbuf_frame *frame;
		const struct dlbuf_prepare_opts *opts;
		struct dlbuf_device **dev;
		int err;
	} refused[] = {
		{ NULL, &scene_opts, &dev, -EINVAL },
		{ &s.frame, &scene_opts, NULL, -EINVAL },
		{ &s.frame, &small, &dev, -EINVAL },
		{ &s.frame, &none, &dev, -EINVAL },
		{ &other, &scene_opts, &dev, -EBADF },
	};

	cts_few_drivers();
	scene_open(&s);
	other = s.frame;
	other.planes[0].fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	REQUIRE_OK(dlbuf_prepare_fastest(&s.frame, &scene_opts, 0, see_trial, &trials, &dev));
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_MSG(!strcmp(info.name, trials.fastest), "%s is not %s", info.name, trials.fastest);
	CHECK(!strcmp(trials.first, "cpu"));
	CHECK(trials.own);
	CHECK_EQ(fired(&s), 0);
	CHECK_OK(dlbuf_prepare_create(dev, &s.frame, &scene_opts, &plan));
	dlbuf_prepare_destroy(plan);
	dlbuf_device_close(dev);
	dev = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		CHECK_ERR(dlbuf_prepare_fastest(refused[i].frame, refused[i].opts, 0, NULL, NULL,
						refused[i].dev), refused[i].err);
	if (!cts_no_sync_file(s.fd)) {
		cts_fence_create(&v);
		s.frame.order = DLBUF_ORDER_FENCE;
		s.frame.fence = v.sync_file;
		CHECK_ERR(dlbuf_prepare_fastest(&s.frame, &scene_opts, 1, NULL, NULL, &dev), -ETIME);
		cts_fence_signal(&v);
		cts_fence_destroy(&v);
	}
	CHECK(!dev);
	CHECK_EQ(fired(&s), 0);
	close(other.planes[0].fd);
	scene_close(&s);
}

static void refused(void *arg)
{
	static const struct {
		const char *code, *why;
		uint32_t w, h;
		enum dlbuf_code_space space;
	} rows[] = {
		{ "RGGB", "mosaics", 64, 48, DLBUF_CODE_V4L2 },
		{ "NV12", "samples", 512, 512, DLBUF_CODE_V4L2 },
		{ "HSV3", "HSV", 64, 48, DLBUF_CODE_V4L2 },
		{ "TD08", "signed values", 64, 48, DLBUF_CODE_V4L2 },
		{ "Y41P", "unevenly spaced values", 64, 48, DLBUF_CODE_V4L2 },
		{ "YYUV", "unevenly spaced values", 64, 48, DLBUF_CODE_V4L2 },
		{ "RGBR", "big-endian words", 64, 48, DLBUF_CODE_V4L2 },
		{ "BGRH", "big-endian words", 64, 48, DLBUF_CODE_V4L2 },
		{ "pRAA", "mosaics", 64, 48, DLBUF_CODE_V4L2 },
		{ "Y10P", "samples that share bytes", 64, 48, DLBUF_CODE_V4L2 },
		{ "R5A8", "words with a plane of alpha", 64, 48, DLBUF_CODE_DRM },
		{ "R  H", "floats", 64, 48, DLBUF_CODE_DRM },
	};
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 1, .height = 1, .filter = DLBUF_FILTER_AREA);
	struct dlbuf_device *dev = cts_open();
	struct dlbuf_prepare *plan = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *c = rows[i].code;
		struct dlbuf_frame f = PICTURE(rows[i].w, rows[i].h,
					       DLBUF_FOURCC(c[0], c[1], c[2], c[3]),
					       rows[i].space, 1);

		CHECK_ERR(dlbuf_prepare_create(dev, &f, &opts, &plan), -EOPNOTSUPP);
		CHECK_SAYS(rows[i].why);
	}
	dlbuf_device_close(dev);
}

#ifdef CONFIG_FAULT_INJECTION
static bool is_over(struct event_call *call)
{
	return true;
}

/* The first load makes the device's shader; when this has worked once, the others follow. */
static void every_call(void *arg)
{
	struct dlbuf_device *dev = cts_open();
	struct event_call call = { .fn = is_over };
	int fd = cts_alloc("udmabuf", 8192), out_fd = cts_alloc("udmabuf", 8192), ret;
	unsigned long n = 0, calls = ~0ul, failed = 0;
	unsigned int fds = 0;
	bool over = false;

	dlbuf_log_set(NULL, NULL, DLBUF_LOG_NONE);
	/* The event thread, which a failure may start, keeps its fds while a device is open. */
	REQUIRE_OK(event_promise());
	event_post(&call);
	while (++n <= calls) {
		fault_at(n);
		ret = cts_prepare_small(dev, fd, out_fd);
		if (!ret && calls == ~0ul) {
			fault_at(0);
			REQUIRE_OK(cts_prepare_small(dev, fd, out_fd));
			calls = fault_count();
			n = 0;
		}
		fault_at(0);
		CHECK(!ret || (ret < 0 && dlbuf_last_error()[0]));
		failed += ret < 0;
		/* Running work holds fds, and a driver's thread closes its own a little later. */
		CHECK_OK(dlbuf_device_drain(dev, 0));
		cts_until_idle(&over);
		cts_settle();
		if (fds && !CHECK_EQ(cts_count_fds(), fds))
			ktap_note(NULL, 0, "after the failure of call %lu of %lu: %d, %s", n, calls,
				  ret, dlbuf_last_error());
		if (!n)
			fds = cts_count_fds();
	}
	ktap_note(NULL, 0, "%lu calls, %lu failures", calls, failed);
	CHECK(failed > 20);
	dlbuf_device_close(dev);
	close(fd);
	close(out_fd);
}
#endif

/* A device that is not in the list below. */
static void takes_no_plan(void *arg)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8, .dtype = { kDLUInt, 8, 1 });
	struct dlbuf_frame f = PICTURE(W, 16, DLBUF_FOURCC('G', 'R', 'E', 'Y'), DLBUF_CODE_V4L2, 1,
				       .planes = { { .pitch = W } });
	struct dlbuf_device *dev = cts_open();
	struct dlbuf_prepare *plan = NULL;
	int ret = dlbuf_prepare_create(dev, &f, &opts, &plan);

	CHECK_MSG(ret == -EOPNOTSUPP, "%s takes plans (%d): it belongs to backends[] of "
		  "tests/cts/prepare.c", cts_access->backend, ret);
	if (!ret)
		dlbuf_prepare_destroy(plan);
	dlbuf_device_close(dev);
}

void cts_cases_prepare(void)
{
	/* A machine may lack the compiler for a device's kernel. */
	static const char *const backends[] = {
		"cpu",
#ifdef CONFIG_BACKEND_GLES
		"gles",
#endif
#ifdef CONFIG_PREPARE_VULKAN
		"vulkan",
#endif
#ifdef CONFIG_PREPARE_CUDA
		"cuda",
#endif
#ifdef CONFIG_PREPARE_HIP
		"hip",
#endif
#ifdef CONFIG_PREPARE_LEVELZERO
		"levelzero",
#endif
#ifdef CONFIG_PREPARE_OPENCL
		"opencl",
#endif
	};
	static const enum dlbuf_path copies[] = { DLBUF_PATH_BRIDGE, DLBUF_PATH_COPY };
	static const enum waits waits[] = { PRODUCER, EARLY, READER };
	size_t i = 0;

	while (i < ARRAY_SIZE(backends) && strcmp(cts_access->backend, backends[i]))
		i++;
	if (i == ARRAY_SIZE(backends)) {
		ktap_case("prepare/none", takes_no_plan, NULL);
		return;
	}
	ktap_case("prepare/frame", frame_is_prepared, NULL);
	ktap_case("prepare/acquired", acquired_by_the_caller, NULL);
	ktap_case("prepare/overlap", over_the_frame, NULL);
	ktap_case("prepare/crops", crops_of_a_frame, NULL);
	ktap_case("prepare/cropped", cropped_frames, NULL);
	ktap_case("prepare/waits", waits_for_others, (void *)&waits[0]);
	ktap_case("prepare/lease", shared_lease, NULL);
	/* Doubles of other drivers are not what a program finds beside them. */
	if (!strcmp(cts_access->backend, "cpu") || !strcmp(cts_access->backend, "gles"))
		ktap_case("prepare/fastest", fastest, NULL);
	if (!strcmp(cts_access->backend, "cpu"))
		return;
	/* The CPU trusts fields of DLPack. */
	ktap_case("prepare/beyond", beyond_the_tensor, NULL);
	ktap_case("prepare/early", waits_for_others, (void *)&waits[1]);
	/*
	 * Vulkan's driver that computes gives a reader's fence when it is complete. A reader of GLES
	 * is the CPU, and waits itself.
	 */
	if (strcmp(cts_access->backend, "vulkan") && strcmp(cts_access->backend, "gles"))
		ktap_case("prepare/reader", waits_for_others, (void *)&waits[2]);
	ktap_case("prepare/threads", two_threads, NULL);
	for (size_t k = 0; k < ARRAY_SIZE(copies); k++)
		if (cts_paths & DLBUF_PATH_BIT(copies[k]))
			ktap_case(k ? "prepare/copy" : "prepare/bridge", copied_tensors,
				  (void *)&copies[k]);
	ktap_case("prepare/values", values, NULL);
	ktap_case("prepare/refused", refused, NULL);
	ktap_case("prepare/many-crops", many_crops, NULL);
#ifdef CONFIG_FAULT_INJECTION
	ktap_case("fault/prepare", every_call, NULL);
#endif
}
