// SPDX-License-Identifier: MIT
/*
 * The way back to V4L2: a camera's frames, changed by a device in the camera's own
 * buffers, on vivid's HDMI output, which another vivid shows on its HDMI input. Each byte
 * is compared; each buffer goes camera, device, output, and back to the camera.
 *
 *	tests/guest/nodes output [CASE...]
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <linux/videodev2.h>

#include <dlbuf/interop/v4l2.h>

#include "../cts/cts.h"

#define NV12 DLBUF_FOURCC('N', 'V', '1', '2')
#define WIDTH 1280u		/* the HDMI output's */
#define HEIGHT 720u
#define NFRAMES 3u
#define NBUFFERS 4u

const char *cts_device = "cpu";
const struct access *cts_access;

/* A camera and an output with this queue, and a capture with the other to look at it. */
struct kind {
	const char *name, *device;
	const struct access *access;
	int node;
	bool multi;
};

struct chain {
	const struct kind *kind;
	char cam_node[32], out_node[32], sink_node[32];
	struct dlbuf_device *dev;
	struct dlbuf_camera *cam, *sink;
	struct dlbuf_frame frames[NBUFFERS];	/* frames that the output holds */
	struct v4l2_format fmt;
	int out;
};

static void run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void run(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	CHECK_EQ(system(line), 0);
}

static void find_nodes(struct chain *c)
{
	const char *cams = getenv("CAMERAS"), *outs = getenv("OUTPUTS");
	char cam[2][32], out[2][32];
	int n = c->kind->node;

	if (!cams || !outs || sscanf(cams, "%31s %31s", cam[0], cam[1]) != 2 ||
	    sscanf(outs, "%31s %31s", out[0], out[1]) != 2)
		SKIP("run it behind tests/guest/nodes");
	snprintf(c->cam_node, sizeof(c->cam_node), "%s", cam[n]);
	snprintf(c->sink_node, sizeof(c->sink_node), "%s", cam[!n]);
	snprintf(c->out_node, sizeof(c->out_node), "%s", out[n]);
	/* 0 and 1 in this menu are the test pattern and nothing, then each output. */
	run("v4l2-ctl -d %s -i 3 -c hdmi_00%d_0_is_connected_to=%d > /dev/null", c->sink_node,
	    !n, 2 + n);
	run("v4l2-ctl -d %s -o 1 > /dev/null", c->out_node);
}

static void set_output(struct chain *c)
{
	struct v4l2_requestbuffers req = { .count = NBUFFERS, .memory = V4L2_MEMORY_DMABUF };
	struct v4l2_format *f = &c->fmt;

	c->out = open(c->out_node, O_RDWR | O_CLOEXEC);
	REQUIRE(c->out >= 0);
	f->type = req.type = c->kind->multi ? V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE :
					      V4L2_BUF_TYPE_VIDEO_OUTPUT;
	if (c->kind->multi) {
		f->fmt.pix_mp.width = WIDTH;
		f->fmt.pix_mp.height = HEIGHT;
		f->fmt.pix_mp.pixelformat = NV12;
		f->fmt.pix_mp.field = V4L2_FIELD_NONE;
	} else {
		f->fmt.pix.width = WIDTH;
		f->fmt.pix.height = HEIGHT;
		f->fmt.pix.pixelformat = NV12;
		f->fmt.pix.field = V4L2_FIELD_NONE;
	}
	REQUIRE(!ioctl(c->out, VIDIOC_S_FMT, f));
	REQUIRE(!ioctl(c->out, VIDIOC_REQBUFS, &req));
	REQUIRE(req.count == NBUFFERS);
}

static void open_chain(struct chain *c)
{
	DLBUF_OPTS(dlbuf_camera_opts, cam, .code = NV12, .width = WIDTH, .height = HEIGHT,
		   .buffers = NBUFFERS, .exporter = "udmabuf");
	DLBUF_OPTS(dlbuf_camera_opts, sink, .code = NV12, .width = WIDTH, .height = HEIGHT);

	find_nodes(c);
	REQUIRE_OK(dlbuf_device_open(c->kind->device, NULL, &c->dev));
	REQUIRE_OK(dlbuf_camera_open(c->cam_node, &cam, &c->cam));
	set_output(c);
	REQUIRE_OK(dlbuf_camera_open(c->sink_node, &sink, &c->sink));
}

static uint8_t *map_frame(const struct dlbuf_frame *f)
{
	void *p = mmap(NULL, WIDTH * HEIGHT * 3 / 2, PROT_READ, MAP_SHARED, f->planes[0].fd, 0);

	REQUIRE(p != MAP_FAILED);
	return p;
}

/* The device inverts some rows of each plane, and `want`, a copy of the frame, has them. */
static void change(const struct chain *c, DLManagedTensorVersioned *const t[2], uint32_t number,
		   uint8_t *want)
{
	static uint8_t rows[32 * WIDTH];

	for (uint32_t p = 0; p < 2; p++) {
		uint64_t at = WIDTH * (p ? HEIGHT + 16 * number : 32 * number);

		CHECK_OK(dlbuf_acquire(t[p], DLBUF_RW, NULL, NULL));
		CHECK_OK(c->kind->access->read(t[p], at, rows, sizeof(rows)));
		CHECK(!memcmp(rows, want + at, sizeof(rows)));
		for (size_t i = 0; i < sizeof(rows); i++)
			rows[i] = want[at + i] = ~rows[i];
		CHECK_OK(c->kind->access->write(t[p], at, rows, sizeof(rows)));
		CHECK_OK(dlbuf_release(t[p], NULL, NULL));
	}
}

static void put_out(struct chain *c, struct dlbuf_frame *f, uint32_t index)
{
	struct v4l2_plane planes[1] = { { .length = 0 } };
	struct v4l2_buffer buf = { .index = index };
	int type = c->fmt.type;

	if (c->kind->multi) {
		buf.m.planes = planes;
		buf.length = 1;
	}
	REQUIRE_OK(dlbuf_v4l2_output(&c->fmt, f, &buf));
	c->frames[index] = *f;
	REQUIRE(!ioctl(c->out, VIDIOC_QBUF, &buf));
	if (!index)
		REQUIRE(!ioctl(c->out, VIDIOC_STREAMON, &type));
}

/* The output shows the last one until there is another. */
static bool is_shown(struct chain *c, const uint8_t *want)
{
	for (int i = 0; i < 100; i++) {
		DLBUF_INFO(dlbuf_frame, f);
		uint8_t *got;
		bool same;

		REQUIRE_OK(dlbuf_camera_frame(c->sink, 0, &f));
		got = map_frame(&f);
		same = !memcmp(got, want, WIDTH * HEIGHT * 3 / 2);
		munmap(got, WIDTH * HEIGHT * 3 / 2);
		dlbuf_frame_drop(&f);
		if (same)
			return true;
	}
	return false;
}

static void through(void *arg)
{
	uint8_t *want = malloc(WIDTH * HEIGHT * 3 / 2), *map;
	struct chain c = { .kind = arg };
	DLBUF_INFO(dlbuf_camera_info, info);
	int type;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	open_chain(&c);
	type = c.fmt.type;
	for (uint32_t i = 0; i < NFRAMES; i++) {
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		DLBUF_INFO(dlbuf_frame, f);
		DLBUF_INFO(dlbuf_frame, out);
		uint32_t n;

		REQUIRE_OK(dlbuf_camera_frame(c.cam, 0, &f));
		map = map_frame(&f);
		memcpy(want, map, WIDTH * HEIGHT * 3 / 2);
		munmap(map, WIDTH * HEIGHT * 3 / 2);
		REQUIRE_OK(dlbuf_import_frame(c.dev, &f, NULL, t, &n));
		change(&c, t, i, want);
		out.code = NV12;
		out.code_space = DLBUF_CODE_V4L2;
		REQUIRE_OK(dlbuf_frame_from_tensors(t, n, 0, &out));
		while (n)
			cts_delete(t[--n]);
		put_out(&c, &out, i);
		CHECK_MSG(is_shown(&c, want), "frame %u is not shown", i);
		CHECK_OK(dlbuf_camera_get_info(c.cam, &info));
		CHECK(info.held > 0);
	}
	/* With STREAMOFF the output has none any more, and the camera all. */
	REQUIRE(!ioctl(c.out, VIDIOC_STREAMOFF, &type));
	for (uint32_t i = 0; i < NFRAMES; i++)
		dlbuf_frame_drop(&c.frames[i]);
	CHECK_OK(dlbuf_device_drain(c.dev, 0));
	CHECK_OK(dlbuf_camera_get_info(c.cam, &info));
	CHECK_EQ(info.held, 0);
	dlbuf_camera_close(c.sink);
	dlbuf_camera_close(c.cam);
	dlbuf_device_close(c.dev);
	close(c.out);
	free(want);
}

/* A producer with its own fences: the output has none, so the call waits. */
struct waiting {
	pid_t tid;		/* atomic */
	bool over;		/* atomic */
	struct v4l2_format fmt;
	struct dlbuf_frame f;
	struct v4l2_buffer buf;
	int ret;
};

static void *put_waiting(void *data)
{
	struct waiting *w = data;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	w->ret = dlbuf_v4l2_output(&w->fmt, &w->f, &w->buf);
	__atomic_store_n(&w->over, true, __ATOMIC_RELEASE);
	return NULL;
}

static void waits(void *arg)
{
	enum dlbuf_order orders[] = { DLBUF_ORDER_UNKNOWN, DLBUF_ORDER_IMPLICIT,
				      DLBUF_ORDER_FENCE, DLBUF_ORDER_COMPLETE };
	int fd AUTO_FD = cts_alloc("udmabuf", 64 * 48);

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		bool complete = orders[i] == DLBUF_ORDER_COMPLETE;
		struct waiting w = { .fmt = { .type = V4L2_BUF_TYPE_VIDEO_OUTPUT } };
		struct cts_fence fence;
		pthread_t thread;

		w.fmt.fmt.pix = (struct v4l2_pix_format){ .width = 64, .height = 32,
			.pixelformat = NV12, .bytesperline = 64, .sizeimage = 64 * 48 };
		w.f = (struct dlbuf_frame){ .size = sizeof(w.f), .width = 64, .height = 32,
			.code = NV12, .code_space = DLBUF_CODE_V4L2, .nplanes = 1,
			.planes = { { .fd = fd, .pitch = 64 } }, .order = orders[i] };
		cts_fence_create(&fence);
		REQUIRE_OK(dlbuf_fence_import(fd, DLBUF_WRITE, fence.sync_file));
		w.f.fence = fence.sync_file;
		CHECK_EQ(pthread_create(&thread, NULL, put_waiting, &w), 0);
		cts_until_polls(&w.tid, &w.over);
		if (complete)
			CHECK_EQ(pthread_join(thread, NULL), 0);
		CHECK_EQ(__atomic_load_n(&w.over, __ATOMIC_ACQUIRE), complete);
		cts_fence_signal(&fence);
		if (!complete)
			CHECK_EQ(pthread_join(thread, NULL), 0);
		CHECK_EQ(w.ret, 0);
		cts_fence_destroy(&fence);
	}
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {
		{ "cpu/single", "cpu", &access_cpu, 0, false },
		{ "cpu/multi", "cpu", &access_cpu, 1, true },
		{ "vulkan/single", "vulkan:0", &access_vulkan, 0, false },
		{ "vulkan/multi", "vulkan:0", &access_vulkan, 1, true },
	};

	ktap_prefix("%s", "output");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		ktap_case(kinds[i].name, through, (void *)&kinds[i]);
	ktap_case("waits", waits, NULL);
	return ktap_run(argc, argv);
}
