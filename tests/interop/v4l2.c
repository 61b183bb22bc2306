// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/v4l2.h: V4L2's structs, member by member, and vivid's buffers
 * through it against the camera's own mapping of them.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/v4l2.h>

#include "interop/picture.h"

#define NBUFFERS 4u
#define SECOND 1000000000ll

/* ---- words */

/* The frame of nv12. */
static const struct dlbuf_frame frame = PICTURE(64, 32, V4L2_PIX_FMT_NV12,
	DLBUF_CODE_V4L2, 1, .planes = { { .fd = 7, .pitch = 128 } },
	.order = DLBUF_ORDER_COMPLETE, .field = DLBUF_FIELD_NONE, .fence = -1);

static const struct v4l2_format nv12 = {
	.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
	.fmt.pix = {
		.width = 64,
		.height = 32,
		.pixelformat = V4L2_PIX_FMT_NV12,
		.bytesperline = 128,
		.field = V4L2_FIELD_NONE,
	},
};

static struct v4l2_format multi(uint32_t code, uint32_t nplanes)
{
	struct v4l2_format fmt = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE };

	fmt.fmt.pix_mp.width = 64;
	fmt.fmt.pix_mp.height = 32;
	fmt.fmt.pix_mp.pixelformat = code;
	fmt.fmt.pix_mp.num_planes = nplanes;
	for (uint32_t i = 0; i < nplanes && i < VIDEO_MAX_PLANES; i++)
		fmt.fmt.pix_mp.plane_fmt[i].bytesperline = 128;
	return fmt;
}

TEST(without_a_buffer)
{
	const int fds[] = { 7 };
	struct dlbuf_frame f;

	CHECK_EQ(dlbuf_v4l2_frame(&nv12, NULL, fds, &f), 0);
	CHECK_FRAME(&f, frame);
	CHECK(!f.release);
}

TEST(buffer)
{
	static const struct {
		uint32_t flags;
		enum dlbuf_clock clock;
		uint32_t damaged;
		uint64_t bytes;
	} rows[] = {
		/* In error the filled part is unknown, so the tensor is all of the memory. */
		{ V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC | V4L2_BUF_FLAG_ERROR,
		  DLBUF_CLOCK_MONOTONIC, DLBUF_FRAME_DAMAGED, 8192 },
		{ V4L2_BUF_FLAG_TIMESTAMP_COPY, DLBUF_CLOCK_UNKNOWN, 0, 6000 },
		{ V4L2_BUF_FLAG_TIMESTAMP_UNKNOWN | V4L2_BUF_FLAG_LAST, DLBUF_CLOCK_UNKNOWN,
		  0, 6000 },
	};
	struct v4l2_buffer buf = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.bytesused = 6000,
		.length = 8192,
		.timestamp = { 3, 250000 },
		.sequence = 41,
		.field = V4L2_FIELD_BOTTOM,
	};
	const int fds[] = { 7 };
	struct dlbuf_frame f, want = frame;

	want.timestamp_ns = 3250000000;
	want.sequence = 41;
	want.field = DLBUF_FIELD_BOTTOM;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		buf.flags = rows[i].flags;
		want.planes[0].bytes = rows[i].bytes;
		want.clock = rows[i].clock;
		want.flags = DLBUF_FRAME_SEQUENCE | rows[i].damaged;
		CHECK_EQ(dlbuf_v4l2_frame(&nv12, &buf, fds, &f), 0);
		CHECK_FRAME(&f, want);
	}
}

/* No picture, or less than one. */
TEST(short_buffers)
{
	static const struct dlbuf_frame none;
	DLBUF_OPTS(dlbuf_import_opts, plain, .view = DLBUF_VIEW_PLANES);
	struct v4l2_buffer buf = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .length = 8192 };
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	const int fds[] = { 7 };
	struct dlbuf_frame f;
	uint32_t n;

	/* The last one of a stateful decoder, and one without a word. */
	for (int i = 0; i < 2; i++) {
		buf.flags = i ? 0 : V4L2_BUF_FLAG_LAST;
		f = frame;
		CHECK_ERR_SAYS(dlbuf_v4l2_frame(&nv12, &buf, fds, &f), -ENODATA, "is empty");
		CHECK(!memcmp(&f, &none, sizeof(f)));
	}
	/* 128 x 48 bytes, but for the padding of the last row. */
	buf.bytesused = 128 * 47 + 64;
	CHECK_OK(dlbuf_v4l2_frame(&nv12, &buf, fds, &f));
	CHECK_OK(dlbuf_frame_layouts(&f, &plain, l, &n));
	buf.bytesused--;
	CHECK_OK(dlbuf_v4l2_frame(&nv12, &buf, fds, &f));
	CHECK_ERR(dlbuf_frame_layouts(&f, &plain, l, &n), -ERANGE);
	buf.flags = V4L2_BUF_FLAG_ERROR;
	CHECK_OK(dlbuf_v4l2_frame(&nv12, &buf, fds, &f));
	CHECK_EQ(f.flags & DLBUF_FRAME_DAMAGED, DLBUF_FRAME_DAMAGED);
	CHECK_OK(dlbuf_frame_layouts(&f, &plain, l, &n));
	/* An application gives a codec the whole buffer. */
	buf = (struct v4l2_buffer){ .type = V4L2_BUF_TYPE_VIDEO_OUTPUT, .length = 8192 };
	{
		struct v4l2_format out = nv12;

		out.type = buf.type;
		CHECK_OK(dlbuf_v4l2_frame(&out, &buf, fds, &f));
		CHECK_EQ(f.planes[0].bytes, 8192);
	}
}

TEST(fields)
{
	static const uint8_t want[][2] = {
		{ V4L2_FIELD_ANY, DLBUF_FIELD_UNKNOWN },
		{ V4L2_FIELD_NONE, DLBUF_FIELD_NONE },
		{ V4L2_FIELD_TOP, DLBUF_FIELD_TOP },
		{ V4L2_FIELD_BOTTOM, DLBUF_FIELD_BOTTOM },
		{ V4L2_FIELD_INTERLACED, DLBUF_FIELD_INTERLACED },
		{ V4L2_FIELD_SEQ_TB, DLBUF_FIELD_SEQ_TB },
		{ V4L2_FIELD_SEQ_BT, DLBUF_FIELD_SEQ_BT },
		/* Each buffer has its own field. */
		{ V4L2_FIELD_ALTERNATE, DLBUF_FIELD_UNKNOWN },
		{ V4L2_FIELD_INTERLACED_TB, DLBUF_FIELD_INTERLACED_TB },
		{ V4L2_FIELD_INTERLACED_BT, DLBUF_FIELD_INTERLACED_BT },
	};
	const int fds[] = { 7 };

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct v4l2_format fmt = nv12;
		struct v4l2_buffer buf = {
			.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
			.bytesused = 1,
			.field = want[i][0],
		};
		struct dlbuf_frame f;

		fmt.fmt.pix.field = want[i][0];
		CHECK_EQ(dlbuf_v4l2_frame(&fmt, NULL, fds, &f), 0);
		CHECK_EQ(f.field, want[i][1]);
		fmt.fmt.pix.field = V4L2_FIELD_ALTERNATE;
		CHECK_EQ(dlbuf_v4l2_frame(&fmt, &buf, fds, &f), 0);
		CHECK_EQ(f.field, want[i][1]);
	}
}

/* NV12 of a multi-planar queue is one plane, NV12M two. */
TEST(memory_planes)
{
	struct v4l2_plane planes[2] = {
		{ .bytesused = 6144 + 64, .data_offset = 64 },
		{ .bytesused = 10, .data_offset = 32 },
	};
	struct v4l2_buffer buf = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE,
		.length = 2,
		.m.planes = planes,
	};
	struct v4l2_format fmt = multi(V4L2_PIX_FMT_NV12, 1);
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	const int fds[] = { 7, 8 };
	struct dlbuf_frame f;
	uint32_t n = 0;

	CHECK_EQ(dlbuf_v4l2_frame(&fmt, &buf, fds, &f), 0);
	CHECK_EQ(f.nplanes, 1);
	CHECK_EQ(f.planes[0].offset, 64);
	CHECK_EQ(f.planes[0].bytes, 6144);
	CHECK_OK(dlbuf_frame_layouts(&f, NULL, layouts, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(layouts[1].fd, 7);
	CHECK_EQ(layouts[1].layout.byte_offset, 64 + 32 * 128);

	fmt = multi(V4L2_PIX_FMT_NV12M, 2);
	fmt.fmt.pix_mp.plane_fmt[1].bytesperline = 256;
	CHECK_EQ(dlbuf_v4l2_frame(&fmt, &buf, fds, &f), 0);
	CHECK_EQ(f.nplanes, 2);
	CHECK_EQ(f.planes[1].fd, 8);
	CHECK_EQ(f.planes[1].offset, 32);
	CHECK_EQ(f.planes[1].pitch, 256);
	/* Less than its own offset: ignored. */
	CHECK_EQ(f.planes[1].bytes, 0);
	CHECK_OK(dlbuf_frame_layouts(&f, NULL, layouts, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(layouts[1].fd, 8);
	CHECK_EQ(layouts[1].strides[0], 256);
}

TEST(refused)
{
	struct v4l2_format fmt = nv12;
	struct v4l2_buffer buf = { .type = V4L2_BUF_TYPE_VIDEO_OUTPUT };
	struct dlbuf_frame f = { .width = 1 };
	const int fds[DLBUF_MAX_PLANES] = { 7, 7, 7, 7 };

	fmt.type = V4L2_BUF_TYPE_VBI_CAPTURE;
	CHECK_EQ(dlbuf_v4l2_frame(&fmt, NULL, fds, &f), -EINVAL);
	CHECK_EQ(dlbuf_v4l2_frame(&nv12, &buf, fds, &f), -EINVAL);
	fmt = multi(V4L2_PIX_FMT_NV12M, 0);
	CHECK_EQ(dlbuf_v4l2_frame(&fmt, NULL, fds, &f), -EINVAL);
	fmt = multi(V4L2_PIX_FMT_NV12M, DLBUF_MAX_PLANES + 1);
	CHECK_EQ(dlbuf_v4l2_frame(&fmt, NULL, fds, &f), -EINVAL);
	fmt = multi(V4L2_PIX_FMT_NV12M, 2);
	buf.type = fmt.type;
	buf.length = 2;
	CHECK_EQ(dlbuf_v4l2_frame(&fmt, &buf, fds, &f), -EINVAL);
	buf.m.planes = (struct v4l2_plane[2]){ { .bytesused = 1 } };
	buf.length = 1;
	CHECK_EQ(dlbuf_v4l2_frame(&fmt, &buf, fds, &f), -EINVAL);
	CHECK_EQ(f.width, 0);
	buf.length = 2;
	CHECK_EQ(dlbuf_v4l2_frame(&fmt, &buf, fds, &f), 0);
}

/* Formats, buffers and frames of no driver, both ways. */
TEST(random)
{
	static const uint32_t codes[] = { V4L2_PIX_FMT_NV12, V4L2_PIX_FMT_NV12M,
		V4L2_PIX_FMT_YUV420, V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_SRGGB8, V4L2_PIX_FMT_RGB565,
		V4L2_PIX_FMT_MJPEG, V4L2_PIX_FMT_SRGGB10P, 0 };
	int fds[DLBUF_MAX_PLANES] = { 7, 8, 9, 10 };
	struct dlbuf_udmabuf u AUTO_UDMABUF = udmabuf_of(1 << 20);
	unsigned int frames = 0, outs = 0;

	for (unsigned int i = 0; i < random_rounds(); i++) {
		uint32_t code = codes[dice(sizeof(codes) / sizeof(codes[0]))];
		struct v4l2_format fmt = nv12, mp = multi(code, dice(4));
		struct v4l2_plane planes[VIDEO_MAX_PLANES];
		struct v4l2_buffer buf = { .bytesused = edge(), .length = edge(),
			.flags = dice(4) ? 0 : edge(), .field = dice(12), .sequence = edge(),
			.timestamp = { (int32_t)edge(), (int32_t)edge() } };
		struct dlbuf_frame f;

		fmt.fmt.pix.sizeimage = 128 * 48;
		MAY_CHANGE(fmt.fmt.pix.pixelformat, code);
		MAY_CHANGE(fmt.fmt.pix.width, edge());
		MAY_CHANGE(fmt.fmt.pix.height, edge());
		MAY_CHANGE(fmt.fmt.pix.bytesperline, edge());
		MAY_CHANGE(fmt.fmt.pix.sizeimage, edge());
		MAY_CHANGE(fmt.fmt.pix.colorspace, dice(14));
		MAY_CHANGE(fmt.fmt.pix.ycbcr_enc, edge());
		MAY_CHANGE(fmt.fmt.pix.quantization, edge());
		for (int p = 0; p < VIDEO_MAX_PLANES; p++) {
			planes[p] = (struct v4l2_plane){ .bytesused = edge(),
				.data_offset = dice(2) ? 0 : edge(), .length = edge() };
			MAY_CHANGE(mp.fmt.pix_mp.plane_fmt[p].bytesperline, edge());
			mp.fmt.pix_mp.plane_fmt[p].sizeimage = edge();
		}
		if (dice(2)) {
			fmt = mp;
			buf.m.planes = dice(8) ? planes : NULL;
			buf.length = dice(VIDEO_MAX_PLANES + 1);
		}
		if (!dice(8))
			fmt.type = dice(16);
		buf.type = dice(8) ? fmt.type : dice(16);
		memset(&f, 0xff, sizeof(f));
		frames += check_random(dlbuf_v4l2_frame(&fmt, dice(4) ? &buf : NULL, fds, &f), &f);
		f = (struct dlbuf_frame)PICTURE(64, 32, V4L2_PIX_FMT_NV12, DLBUF_CODE_V4L2, 2,
			.fence = -1, .planes = { { .fd = u.fd, .pitch = 128 },
				{ .fd = u.fd, .offset = 4096, .pitch = 128 } });
		if (dice(2))
			spoil(&f, u.fd);
		fmt.type = fmt.type == mp.type ? V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE :
						 V4L2_BUF_TYPE_VIDEO_OUTPUT;
		outs += !dlbuf_v4l2_output(&fmt, &f, &buf);
	}
	CHECK_MSG(frames > random_rounds() / 20 && outs > random_rounds() / 200, "%u, %u", frames,
		  outs);
}

TEST(crop)
{
	struct dlbuf_frame f = { .width = 1920, .height = 1088 };

	CHECK_EQ(dlbuf_v4l2_crop(&(struct v4l2_rect){ -1, 0, 2, 2 }, &f),
		 -EINVAL);
	CHECK_EQ(dlbuf_v4l2_crop(&(struct v4l2_rect){ 0, -2, 2, 2 }, &f),
		 -EINVAL);
	CHECK_EQ(f.crop.width, 0);
	CHECK_EQ(dlbuf_v4l2_crop(&(struct v4l2_rect){ 2, 4, 1918, 1080 }, &f),
		 0);
	CHECK(!memcmp(&f.crop, &(struct dlbuf_rect){ 2, 4, 1918, 1080 },
		      sizeof(f.crop)));
}

/*
 * The sensor sees the scene turned, flips its picture, and stores that. Turned by this
 * result, the stored picture is upright, and mirrored if one flip was asked for.
 */
TEST(orientations)
{
	struct {
		int x, y;
	} corner, from;

	for (int rotation = 90; rotation < 360; rotation += 90) {
		for (int flips = 0; flips < 4; flips++) {
			bool hflip = flips & 1, vflip = flips & 2;
			enum dlbuf_orientation o = dlbuf_v4l2_orientation(rotation, hflip, vflip);

			for (int i = 0; i < 4; i++) {
				/* A corner of the scene, from -1,-1 to 1,1, y downwards. */
				from.x = corner.x = i & 1 ? 1 : -1;
				from.y = corner.y = i & 2 ? 1 : -1;
				/* To be corrected counter-clockwise, so seen turned clockwise. */
				for (int k = 0; k < rotation / 90; k++) {
					int x = corner.x;

					corner.x = -corner.y;
					corner.y = x;
				}
				corner.x *= hflip ? -1 : 1;
				corner.y *= vflip ? -1 : 1;
				for (unsigned int k = 0; k < (o & 3); k++) {
					int x = corner.x;

					corner.x = -corner.y;
					corner.y = x;
				}
				CHECK(!(o & 4));
				CHECK_MSG(corner.x == (hflip != vflip ? -from.x : from.x) &&
					  corner.y == from.y, "rotation %d, flips %d: %d", rotation,
					  flips, o);
			}
		}
	}
	CHECK_EQ(dlbuf_v4l2_orientation(90, 0, 0), DLBUF_ORIENTATION_TURN_270);
	CHECK_EQ(dlbuf_v4l2_orientation(180, 1, 1), DLBUF_ORIENTATION_NONE);
	/* Flips alone are a wish; an angle other than 90, 180 and 270 is ignored. */
	for (int flips = 0; flips < 4; flips++) {
		CHECK_EQ(dlbuf_v4l2_orientation(0, flips & 1, flips & 2), DLBUF_ORIENTATION_NONE);
		for (const int *r = (int[]){ -90, 45, 89, 360, 450, INT32_MAX, INT32_MIN, 0 };
		     *r; r++)
			CHECK_EQ(dlbuf_v4l2_orientation(*r, flips & 1, flips & 2),
				 DLBUF_ORIENTATION_NONE);
	}
}

/* ---- colour: H.273's numbers, matrix by its own plus one */

TEST(colour)
{
	/* V4L2's names, and the colour that they mean. */
#define ROW(format, space, enc, quantization, xfer, p, t, m, r, ...)		\
	{ V4L2_PIX_FMT_##format, V4L2_COLORSPACE_##space, V4L2_##enc,		\
	  V4L2_QUANTIZATION_##quantization, V4L2_XFER_FUNC_##xfer,		\
	  { .primaries = (p), .transfer = (t), .matrix = (m),			\
	    .range = DLBUF_RANGE_##r, ##__VA_ARGS__ } }
#define SPACE(format, space, ...) \
	ROW(format, space, YCBCR_ENC_DEFAULT, DEFAULT, DEFAULT, __VA_ARGS__)
	static const struct {
		uint32_t code;
		uint8_t colorspace, enc, quantization, xfer;
		struct dlbuf_colour want;
	} cases[] = {
		/* All said. */
		ROW(NV12, BT2020, YCBCR_ENC_BT2020, FULL_RANGE, SMPTE2084, 9, 16, 10, FULL),
		ROW(NV12, SRGB, YCBCR_ENC_601, LIM_RANGE, SRGB, 1, 13, 7, LIMITED),
		ROW(NV12, REC709, YCBCR_ENC_XV709, LIM_RANGE, 709, 1, 11, 2, LIMITED),
		ROW(NV12, SMPTE170M, YCBCR_ENC_XV601, LIM_RANGE, NONE, 6, 8, 6, LIMITED),
		ROW(NV12, 470_SYSTEM_BG, YCBCR_ENC_BT2020_CONST_LUM, LIM_RANGE, 709, 5, 1, 11,
		    LIMITED),
		/* V4L2's defaults of a colorspace. */
		SPACE(NV12, SMPTE170M, 6, 1, 7, LIMITED),
		SPACE(NV12, REC709, 1, 1, 2, LIMITED),
		SPACE(NV12, SMPTE240M, 7, 7, 8, LIMITED),
		SPACE(NV12, BT2020, 9, 1, 10, LIMITED),
		SPACE(NV12, DCI_P3, 11, 17, 2, LIMITED),
		SPACE(YUYV, SRGB, 1, 13, 7, LIMITED),
		/* Luma alone is no YCbCr. */
		SPACE(GREY, SRGB, 1, 13, 7, FULL),
		SPACE(YUYV, JPEG, 1, 13, 7, FULL),
		/* RGB has no encoding, and the full range. */
		SPACE(RGB24, SRGB, 1, 13, 1, FULL),
		ROW(XBGR32, REC709, YCBCR_ENC_709, LIM_RANGE, DEFAULT, 1, 1, 1, LIMITED),
		SPACE(RGB565, SRGB, 1, 13, 1, FULL),
		SPACE(YUV565, REC709, 1, 1, 2, LIMITED),
		SPACE(SRGGB10, RAW, 0, 8, 1, FULL),
		ROW(HSV24, SRGB, HSV_ENC_256, DEFAULT, DEFAULT, 1, 13, 0, FULL,
		    .hue = DLBUF_HUE_256),
		ROW(HSV32, SRGB, HSV_ENC_180, DEFAULT, DEFAULT, 1, 13, 0, FULL,
		    .hue = DLBUF_HUE_180),
		SPACE(HSV32, SRGB, 1, 13, 0, FULL),
		/* HSV's encoding is in the field of YCbCr's, and no other format's. */
		ROW(RGB24, SRGB, HSV_ENC_180, DEFAULT, DEFAULT, 1, 13, 1, FULL),
		/* No code point: Adobe's. */
		SPACE(RGB24, OPRGB, 0, 0, 1, FULL),
		/* Neither RGB nor YUV by itself: only explicit values. */
		SPACE(MJPEG, JPEG, 1, 13, 0, UNKNOWN),
		/* No value. */
		SPACE(NV12, DEFAULT, 0, 0, 0, UNKNOWN),
		ROW(NV12, DEFAULT, YCBCR_ENC_709, FULL_RANGE, DEFAULT, 0, 0, 2, FULL),
	};
#undef ROW
#undef SPACE

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dlbuf_colour got = dlbuf_v4l2_colour(cases[i].code,
			cases[i].colorspace, cases[i].enc,
			cases[i].quantization, cases[i].xfer);

		CHECK_COLOUR(i, &got, cases[i].want);
	}
}

/* ---- vivid */

struct cam {
	int fd;
	struct v4l2_format fmt;
	uint32_t nplanes;	/* of memory */
	int fds[NBUFFERS][DLBUF_MAX_PLANES];
	uint8_t *map[NBUFFERS][DLBUF_MAX_PLANES];
	size_t bytes[DLBUF_MAX_PLANES];
	struct v4l2_plane planes[VIDEO_MAX_PLANES];
	unsigned int queued;
};

static bool is_multi(const struct cam *c)
{
	return c->fmt.type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
}

static void cam_ioctl(struct cam *c, unsigned long request, void *arg,
		      const char *name)
{
	if (!ktap_check(__FILE__, __LINE__, !ioctl(c->fd, request, arg),
			"%s: %s", name, strerror(errno)))
		ktap_leave();
}
#define IOCTL(c, request, arg) cam_ioctl(c, request, arg, #request)

static int cam_node(uint32_t want)
{
	for (int i = 0; i < 16; i++) {
		struct v4l2_capability cap = { 0 };
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/video%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!ioctl(fd, VIDIOC_QUERYCAP, &cap) &&
		    !strcmp((char *)cap.driver, "vivid") &&
		    (cap.device_caps & (want | V4L2_CAP_STREAMING)) ==
		    (want | V4L2_CAP_STREAMING))
			return fd;
		close(fd);
	}
	return -1;
}

/* Controls by name, as vivid makes them up at run time. */
static void control(struct cam *c, const char *name, int value)
{
	struct v4l2_queryctrl q = { .id = V4L2_CTRL_FLAG_NEXT_CTRL };

	for (; !ioctl(c->fd, VIDIOC_QUERYCTRL, &q);
	     q.id |= V4L2_CTRL_FLAG_NEXT_CTRL) {
		struct v4l2_control set = { .id = q.id, .value = value };

		if (strcmp((char *)q.name, name))
			continue;
		IOCTL(c, VIDIOC_S_CTRL, &set);
		return;
	}
	CHECK_MSG(false, "vivid has no control '%s'", name);
}

/* HDMI, which takes any size, composes and has noise for a picture. */
static void cam_open(struct cam *c, uint32_t cap)
{
	int hdmi = 3;

	*c = (struct cam){ .fd = cam_node(cap) };
	if (c->fd < 0)
		SKIP("there is no vivid of this kind here");
	c->fmt.type = cap == V4L2_CAP_VIDEO_CAPTURE ?
		      V4L2_BUF_TYPE_VIDEO_CAPTURE :
		      V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
	IOCTL(c, VIDIOC_S_INPUT, &hdmi);
	control(c, "Test Pattern", 21);
	control(c, "OSD Text Mode", 2);
}

static void set_format(struct cam *c, uint32_t code, uint32_t width,
		       uint32_t height)
{
	uint32_t got;

	if (is_multi(c)) {
		c->fmt.fmt.pix_mp.pixelformat = code;
		c->fmt.fmt.pix_mp.width = width;
		c->fmt.fmt.pix_mp.height = height;
		c->fmt.fmt.pix_mp.field = V4L2_FIELD_NONE;
	} else {
		c->fmt.fmt.pix.pixelformat = code;
		c->fmt.fmt.pix.width = width;
		c->fmt.fmt.pix.height = height;
		c->fmt.fmt.pix.field = V4L2_FIELD_NONE;
	}
	IOCTL(c, VIDIOC_S_FMT, &c->fmt);
	got = is_multi(c) ? c->fmt.fmt.pix_mp.pixelformat :
			    c->fmt.fmt.pix.pixelformat;
	REQUIRE(got == code);
	c->nplanes = is_multi(c) ? c->fmt.fmt.pix_mp.num_planes : 1;
}

static struct v4l2_buffer buffer(struct cam *c, uint32_t index)
{
	struct v4l2_buffer buf = {
		.type = c->fmt.type,
		.memory = V4L2_MEMORY_MMAP,
		.index = index,
	};

	memset(c->planes, 0, sizeof(c->planes));
	if (is_multi(c)) {
		buf.m.planes = c->planes;
		buf.length = c->nplanes;
	}
	return buf;
}

static void queue(struct cam *c, uint32_t index)
{
	struct v4l2_buffer buf = buffer(c, index);

	IOCTL(c, VIDIOC_QBUF, &buf);
	c->queued++;
}

static void start(struct cam *c)
{
	struct v4l2_requestbuffers req = {
		.count = NBUFFERS,
		.type = c->fmt.type,
		.memory = V4L2_MEMORY_MMAP,
	};
	int type = c->fmt.type;

	IOCTL(c, VIDIOC_REQBUFS, &req);
	REQUIRE(req.count == NBUFFERS);
	for (uint32_t i = 0; i < NBUFFERS; i++) {
		struct v4l2_buffer buf = buffer(c, i);

		IOCTL(c, VIDIOC_QUERYBUF, &buf);
		for (uint32_t p = 0; p < c->nplanes; p++) {
			struct v4l2_exportbuffer exp = {
				.type = c->fmt.type,
				.index = i,
				.plane = p,
				.flags = O_RDWR | O_CLOEXEC,
			};

			c->bytes[p] = is_multi(c) ? c->planes[p].length :
						    buf.length;
			IOCTL(c, VIDIOC_EXPBUF, &exp);
			c->fds[i][p] = exp.fd;
			/* The camera's mapping, not that of the dma-buf. */
			c->map[i][p] = mmap(NULL, c->bytes[p], PROT_READ,
					    MAP_SHARED, c->fd, is_multi(c) ?
					    c->planes[p].m.mem_offset :
					    buf.m.offset);
			REQUIRE(c->map[i][p] != MAP_FAILED);
		}
		queue(c, i);
	}
	IOCTL(c, VIDIOC_STREAMON, &type);
}

static void stop(struct cam *c)
{
	int type = c->fmt.type;

	IOCTL(c, VIDIOC_STREAMOFF, &type);
	for (uint32_t i = 0; i < NBUFFERS; i++) {
		for (uint32_t p = 0; p < c->nplanes; p++) {
			munmap(c->map[i][p], c->bytes[p]);
			close(c->fds[i][p]);
		}
	}
	close(c->fd);
}

struct lease {
	struct cam *cam;
	uint32_t index;
	unsigned int fired;
};

static void on_release(void *data)
{
	struct lease *l = data;

	l->fired++;
	queue(l->cam, l->index);
}

static int64_t monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

/* One frame in, its planes compared, and its buffer back. */
static void one_frame(struct cam *c, struct dlbuf_device *dev,
		      uint32_t ntensors, int64_t before)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer(c, 0);
	struct dlbuf_frame f;
	struct lease lease;
	uint32_t n = 0;
	uint64_t end;

	IOCTL(c, VIDIOC_DQBUF, &buf);
	REQUIRE(!dlbuf_v4l2_frame(&c->fmt, &buf, c->fds[buf.index], &f));
	CHECK_EQ(f.nplanes, c->nplanes);
	CHECK_EQ(f.clock, DLBUF_CLOCK_MONOTONIC);
	/* vivid's timestamps are those of its exact rate, not of the capture. */
	CHECK_MSG(f.timestamp_ns > before - SECOND &&
		  f.timestamp_ns < monotonic() + SECOND,
		  "%lld", (long long)f.timestamp_ns);
	CHECK(f.flags & DLBUF_FRAME_SEQUENCE);
	CHECK_EQ(f.sequence, buf.sequence);
	CHECK_EQ(f.field, DLBUF_FIELD_NONE);
	for (uint32_t p = 0; p < c->nplanes; p++)
		CHECK(f.planes[p].bytes > 0 &&
		      f.planes[p].bytes <= c->bytes[p]);
	lease = (struct lease){ .cam = c, .index = buf.index };
	f.release = on_release;
	f.release_data = &lease;
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	CHECK_EQ(n, ntensors);
	end = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t p = c->nplanes == 1 ? 0 : i;

		CHECK_OK(dlbuf_acquire(t[i], DLBUF_READ, NULL, NULL));
		check_rows(&t[i]->dl_tensor, c->map[buf.index][p] +
			   f.planes[p].offset + end, f.planes[p].pitch);
		/* In semi-planar formats all planes have one pitch. */
		if (c->nplanes == 1)
			end += t[i]->dl_tensor.shape[0] * f.planes[p].pitch;
		CHECK_OK(dlbuf_release(t[i], NULL, NULL));
	}
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(lease.fired, 0);
		t[i]->deleter(t[i]);
	}
	CHECK_EQ(lease.fired, 1);
}

static void frames(struct cam *c, uint32_t ntensors)
{
	int64_t before = monotonic();
	struct dlbuf_device *dev AUTO_DEV = open_cpu();

	start(c);
	for (int i = 0; i < 8; i++)
		one_frame(c, dev, ntensors, before);
	CHECK_EQ(c->queued, NBUFFERS + 8);
	stop(c);
}

TEST(vivid)
{
	static const struct {
		uint32_t code, ntensors;
	} formats[] = {
		{ V4L2_PIX_FMT_NV12, 2 }, { V4L2_PIX_FMT_YUYV, 1 },
		{ V4L2_PIX_FMT_GREY, 1 }, { V4L2_PIX_FMT_RGB24, 1 },
		{ V4L2_PIX_FMT_XBGR32, 1 }, { V4L2_PIX_FMT_NV16, 2 },
		{ V4L2_PIX_FMT_Y16, 1 }, { V4L2_PIX_FMT_SRGGB10, 1 },
	};
	struct cam c;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		cam_open(&c, V4L2_CAP_VIDEO_CAPTURE);
		set_format(&c, formats[i].code, 322, 180);
		frames(&c, formats[i].ntensors);
	}
}

/* ---- the way back */

/* Frames that a queue refuses: an error text each, and the buffer is unchanged. */
TEST(output_refused)
{
	struct v4l2_format fmt = nv12, mp = multi(V4L2_PIX_FMT_NV12M, 2);
	struct v4l2_plane planes[2] = { { .length = 1 } };
	struct v4l2_buffer buf = { .index = 3 }, before = buf;
	struct dlbuf_udmabuf u AUTO_UDMABUF = udmabuf_of(16384);
	struct dlbuf_frame f;
	static const struct {
		uint32_t width, code, nplanes;
		uint64_t offset[2];
		int64_t pitch[2];
		int single, multi;
	} cases[] = {
		{ 64, V4L2_PIX_FMT_NV12, 2, { 0, 4096 }, { 128, 128 }, 0, 0 },
		{ 66, V4L2_PIX_FMT_NV12, 2, { 0, 4096 }, { 128, 128 }, -EINVAL, -EINVAL },
		{ 64, V4L2_PIX_FMT_NV21, 2, { 0, 4096 }, { 128, 128 }, -EINVAL, -EINVAL },
		{ 64, V4L2_PIX_FMT_NV12, 1, { 0, 4096 }, { 128 }, 0, 0 },
		{ 64, V4L2_PIX_FMT_NV12, 2, { 0, 4096 }, { 64, 64 }, -EOPNOTSUPP, -EINVAL },
		{ 64, V4L2_PIX_FMT_NV12, 2, { 0, 4224 }, { 128, 128 }, -EOPNOTSUPP, 0 },
		{ 64, V4L2_PIX_FMT_NV12, 2, { 128, 4224 }, { 128, 128 }, -EOPNOTSUPP, 0 },
		{ 64, V4L2_PIX_FMT_NV12, 2, { 0, 4096 }, { 128, 256 }, -EOPNOTSUPP, -EINVAL },
		{ 64, V4L2_PIX_FMT_NV12, 2, { 0, 1 << 20 }, { 128, 128 }, -ERANGE, -ERANGE },
		{ 64, V4L2_PIX_FMT_NV12, 2, { 3968, 8064 }, { -128, -128 }, -EOPNOTSUPP,
		  -EINVAL },
	};

	fmt.type = V4L2_BUF_TYPE_VIDEO_OUTPUT;
	fmt.fmt.pix.sizeimage = 128 * 48;
	f = (struct dlbuf_frame)PICTURE(64, 32, V4L2_PIX_FMT_NV12, DLBUF_CODE_V4L2, 1, .fence = -1,
		.planes = { { .fd = u.fd, .pitch = 128 } },
		.orientation = DLBUF_ORIENTATION_FLIP_X);
	CHECK_ERR(dlbuf_v4l2_output(&fmt, &f, &buf), -EOPNOTSUPP);
	CHECK_SAYS("orientation 4: turn the output");
	mp.type = V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE;
	mp.fmt.pix_mp.plane_fmt[0].sizeimage = 4096;
	mp.fmt.pix_mp.plane_fmt[1].sizeimage = 2048;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = (struct dlbuf_frame)PICTURE(cases[i].width, 32, cases[i].code, DLBUF_CODE_V4L2,
			    cases[i].nplanes, .fence = -1, .timestamp_ns = 3250000000);
		for (int p = 0; p < 2; p++)
			f.planes[p] = (struct dlbuf_plane){ .fd = u.fd,
				.offset = cases[i].offset[p], .pitch = cases[i].pitch[p] };
		buf = before;
		CHECK_MSG(dlbuf_v4l2_output(&fmt, &f, &buf) == cases[i].single, "case %zu: %s", i,
			  dlbuf_last_error());
		if (cases[i].single)
			CHECK(!memcmp(&buf, &before, sizeof(buf)));
		else
			CHECK(buf.m.fd == u.fd && buf.bytesused == 128 * 48 && buf.index == 3 &&
			      buf.timestamp.tv_sec == 3 && buf.timestamp.tv_usec == 250000);
		buf = before;
		if (!cases[i].multi)
			CHECK_ERR(dlbuf_v4l2_output(&mp, &f, &buf), -EINVAL);
		buf.m.planes = planes;
		buf.length = 2;
		CHECK_MSG(dlbuf_v4l2_output(&mp, &f, &buf) == cases[i].multi, "case %zu: %s", i,
			  dlbuf_last_error());
		if (!cases[i].multi)
			CHECK(planes[1].m.fd == u.fd &&
			      planes[1].data_offset == cases[i].offset[1] &&
			      planes[1].bytesused == cases[i].offset[1] + 2048);
	}
	CHECK_ERR(dlbuf_v4l2_output(&nv12, &f, &buf), -EINVAL);
	fmt.fmt.pix.sizeimage = 16385;
	f = (struct dlbuf_frame)PICTURE(64, 32, V4L2_PIX_FMT_NV12, DLBUF_CODE_V4L2, 1, .fence = -1,
		    .planes = { { .fd = u.fd, .pitch = 128 } });
	CHECK_ERR(dlbuf_v4l2_output(&fmt, &f, &buf), -ERANGE);
	fmt.fmt.pix.sizeimage = 128 * 48;
	f.crop = (struct dlbuf_rect){ 0, 0, 62, 32 };
	CHECK_ERR(dlbuf_v4l2_output(&fmt, &f, &buf), -EOPNOTSUPP);
	CHECK_SAYS("no crop, and the frame one of 62x32");
	f.crop.width = 64;
	CHECK_OK(dlbuf_v4l2_output(&fmt, &f, &buf));
	/* The queue's field, unless the frame has one; of an alternating queue it must. */
	fmt.fmt.pix.field = V4L2_FIELD_INTERLACED;
	CHECK_OK(dlbuf_v4l2_output(&fmt, &f, &buf));
	CHECK_EQ(buf.field, V4L2_FIELD_INTERLACED);
	fmt.fmt.pix.field = V4L2_FIELD_ALTERNATE;
	CHECK_ERR(dlbuf_v4l2_output(&fmt, &f, &buf), -EINVAL);
	f.field = DLBUF_FIELD_BOTTOM;
	CHECK_OK(dlbuf_v4l2_output(&fmt, &f, &buf));
	CHECK_EQ(buf.field, V4L2_FIELD_BOTTOM);
	f.modifier = 0x0100000000000001;
	CHECK_ERR_SAYS(dlbuf_v4l2_output(&fmt, &f, &buf), -EOPNOTSUPP, "no modifiers");
	f.modifier = DLBUF_MOD_LINEAR;
	f.planes[0].fd = -1;
	CHECK_ERR(dlbuf_v4l2_output(&fmt, &f, &buf), -EBADF);
}

TEST(vivid_damaged)
{
	struct v4l2_buffer buf;
	struct dlbuf_frame f = { 0 };
	struct cam c;

	cam_open(&c, V4L2_CAP_VIDEO_CAPTURE);
	set_format(&c, V4L2_PIX_FMT_NV12, 64, 32);
	start(&c);
	for (int i = 0; i < 8 && !(f.flags & DLBUF_FRAME_DAMAGED); i++) {
		buf = buffer(&c, 0);
		IOCTL(&c, VIDIOC_DQBUF, &buf);
		REQUIRE(!dlbuf_v4l2_frame(&c.fmt, &buf, c.fds[buf.index], &f));
		/* The first ones are whole. */
		if (i == 1)
			control(&c, "Inject V4L2_BUF_FLAG_ERROR", 1);
		if (i <= 1)
			CHECK(!(f.flags & DLBUF_FRAME_DAMAGED));
		queue(&c, buf.index);
	}
	CHECK(f.flags & DLBUF_FRAME_DAMAGED);
	stop(&c);
}

/* vivid reports the values that it was set to. */
TEST(vivid_colour)
{
	struct dlbuf_frame f;
	struct cam c;
	const int fds[] = { 0 };

	cam_open(&c, V4L2_CAP_VIDEO_CAPTURE);
	/* Its menus: BT.2020 is the fifth of the colorspaces. */
	control(&c, "Colorspace", 4);
	control(&c, "Transfer Function", 0);
	control(&c, "Y'CbCr Encoding", 0);
	control(&c, "Quantization", 0);
	set_format(&c, V4L2_PIX_FMT_NV12, 64, 32);
	CHECK_EQ(c.fmt.fmt.pix.colorspace, V4L2_COLORSPACE_BT2020);
	REQUIRE(!dlbuf_v4l2_frame(&c.fmt, NULL, fds, &f));
	CHECK_COLOUR(0, &f.colour,
		     (struct dlbuf_colour)COLOUR(9, 1, 9 + 1, DLBUF_RANGE_LIMITED, 0));
	control(&c, "Colorspace", 2);
	close(c.fd);
}

/* The picture's position in the buffer, as a decoder reports it. */
TEST(vivid_composed)
{
	struct v4l2_selection sel = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.target = V4L2_SEL_TGT_COMPOSE,
		.r = { 16, 8, 128, 64 },
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_device *dev AUTO_DEV = open_cpu();
	struct v4l2_buffer buf;
	struct dlbuf_frame f;
	struct cam c;
	uint32_t n = 0;

	cam_open(&c, V4L2_CAP_VIDEO_CAPTURE);
	control(&c, "Enable Capture Composing", 1);
	control(&c, "Enable Capture Scaler", 1);
	control(&c, "Enable Capture Cropping", 1);
	set_format(&c, V4L2_PIX_FMT_NV12, 320, 180);
	IOCTL(&c, VIDIOC_S_SELECTION, &sel);
	IOCTL(&c, VIDIOC_G_FMT, &c.fmt);
	start(&c);
	buf = buffer(&c, 0);
	IOCTL(&c, VIDIOC_DQBUF, &buf);
	sel.r = (struct v4l2_rect){ 0 };
	IOCTL(&c, VIDIOC_G_SELECTION, &sel);
	CHECK_EQ(sel.r.left, 16);
	REQUIRE(!dlbuf_v4l2_frame(&c.fmt, &buf, c.fds[buf.index], &f));
	CHECK_EQ(dlbuf_v4l2_crop(&sel.r, &f), 0);
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	REQUIRE(n == 2);
	CHECK_EQ(t[0]->dl_tensor.shape[0], sel.r.height);
	CHECK_EQ(t[0]->dl_tensor.shape[1], sel.r.width);
	CHECK_EQ(t[1]->dl_tensor.shape[0], sel.r.height / 2);
	check_rows(&t[0]->dl_tensor, c.map[buf.index][0] +
		   sel.r.top * f.planes[0].pitch + sel.r.left, f.planes[0].pitch);
	check_rows(&t[1]->dl_tensor, c.map[buf.index][0] +
		   (c.fmt.fmt.pix.height + sel.r.top / 2) * f.planes[0].pitch +
		   sel.r.left, f.planes[0].pitch);
	delete_tensors(t, n);
	stop(&c);
}

/* The last one: it loads vivid anew, as the other API's. */
TEST(vivid_multiplanar)
{
	static const struct {
		uint32_t code, nplanes, ntensors;
	} formats[] = {
		{ V4L2_PIX_FMT_NV12, 1, 2 }, { V4L2_PIX_FMT_NV16M, 2, 2 },
		{ V4L2_PIX_FMT_YUYV, 1, 1 }, { V4L2_PIX_FMT_YUV420M, 3, 3 },
	};
	const char *lab = getenv("DLBUF_LAB");
	struct cam c;

	if (!lab || strcmp(lab, "1"))
		SKIP("it loads vivid anew, and this machine is not the lab's");
	REQUIRE(!system("rmmod vivid && modprobe vivid n_devs=1 multiplanar=2"));
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		cam_open(&c, V4L2_CAP_VIDEO_CAPTURE_MPLANE);
		set_format(&c, formats[i].code, 322, 180);
		CHECK_EQ(c.nplanes, formats[i].nplanes);
		frames(&c, formats[i].ntensors);
	}
	CHECK(!system("rmmod vivid && modprobe vivid"));
}

int main(int argc, char **argv)
{
	ktap_prefix("%s", "v4l2");
	return ktap_run(argc, argv);
}
