// SPDX-License-Identifier: MIT
/* The table of formats. */
#include "common.h"
#include "ktap.h"

#include <dlbuf/layout.h>

#include "frame/frame.h"
#include "system/internal.h"

static struct dlbuf_format_info formats[512];
static int nformats;

static int collect(const struct dlbuf_format_info *info, void *data)
{
	formats[nformats] = *info;
	return ++nformats == ARRAY_SIZE(formats) ? 1 : 0;
}

static const char *name(const struct dlbuf_format_info *f)
{
	return f->drm_name ? f->drm_name : f->v4l2_name;
}

static bool same_code(uint32_t a, uint32_t b)
{
	return a && a == b;
}

TEST(the_table_is_sound)
{
	CHECK_OK(dlbuf_format_each(collect, NULL));
	CHECK(nformats > 300);
	for (int i = 0; i < nformats; i++) {
		const struct dlbuf_format_info *f = &formats[i];
		unsigned int before = ktap.result->failures;

		CHECK_EQ(!f->drm_code, !f->drm_name);
		CHECK_EQ(!f->v4l2_code, !f->v4l2_name);
		CHECK_EQ(!f->v4l2_multi_code, !f->v4l2_multi_name);
		CHECK(f->drm_code || f->v4l2_code);
		CHECK(f->channels && f->channels[0]);
		CHECK(f->nplanes >= 1 && f->nplanes <= DLBUF_MAX_PLANES);
		CHECK(f->dtype.bits == 8 || f->dtype.bits == 16 ||
		      f->dtype.bits == 32);
		CHECK(f->depth + f->shift <= f->dtype.bits);
		/* Either it is planes or there is a reason, and never no way. */
		CHECK_EQ(f->views & 1u << DLBUF_VIEW_PLANES ? 1 : 0, !f->reason);
		CHECK(f->views & 1u << DLBUF_VIEW_BYTES);
		CHECK(!(f->views >> DLBUF_NVIEWS));
		for (uint32_t p = 0; p < f->nplanes; p++) {
			CHECK(f->planes[p].channels >= 1);
			CHECK_EQ(f->planes[p].bits, f->dtype.bits);
			CHECK(f->planes[p].hsub >= 1);
			CHECK(f->planes[p].vsub >= 1);
		}
		for (int j = 0; j < i; j++) {
			CHECK(!same_code(f->drm_code, formats[j].drm_code));
			CHECK(!same_code(f->v4l2_code, formats[j].v4l2_code));
			CHECK(!same_code(f->v4l2_code,
					 formats[j].v4l2_multi_code));
			CHECK(!same_code(f->v4l2_multi_code,
					 formats[j].v4l2_multi_code));
		}
		if (ktap.result->failures != before)
			ktap_note(__FILE__, __LINE__, "that was %s", name(f));
	}
}

/* Common codes are found before the table's rare ones. */
TEST(refused_ones_come_last)
{
	bool refused = false;

	CHECK_OK(dlbuf_format_each(collect, NULL));
	for (int i = 0; i < nformats; i++) {
		CHECK(!refused || formats[i].reason);
		refused |= !!formats[i].reason;
	}
	CHECK(refused);
}

static void found(uint32_t code, enum dlbuf_code_space space,
		  const char *with_name, const struct dlbuf_format_info *f)
{
	struct dlbuf_format_info got = { .size = sizeof(got) };

	if (!code)
		return;
	CHECK_OK(dlbuf_format_find(code, 0, space, &got));
	CHECK_STR(name(&got), name(f));
	CHECK_STR(dlbuf_format_channels(code, 0, space), f->channels);
	got = (struct dlbuf_format_info){ .size = sizeof(got) };
	CHECK_OK(dlbuf_format_find_name(with_name, space, &got));
	CHECK_STR(name(&got), name(f));
	CHECK_EQ(got.views, f->views);
}

TEST(every_format_is_found)
{
	CHECK_OK(dlbuf_format_each(collect, NULL));
	for (int i = 0; i < nformats; i++) {
		const struct dlbuf_format_info *f = &formats[i];

		found(f->drm_code, DLBUF_CODE_DRM, f->drm_name, f);
		found(f->v4l2_code, DLBUF_CODE_V4L2, f->v4l2_name, f);
		found(f->v4l2_multi_code, DLBUF_CODE_V4L2, f->v4l2_multi_name,
		      f);
	}
}

/* The numbers that mean one thing to DRM and another to V4L2. */
TEST(colliding_codes)
{
	static const struct {
		uint32_t code;
		const char *drm, *v4l2;
	} both[] = {
		{ DLBUF_FOURCC('R', 'G', '1', '6'), "W", "RG/GB" },
		{ DLBUF_FOURCC('B', 'A', '1', '2'), "W", "GR/BG" },
		{ DLBUF_FOURCC('B', 'G', 'R', 'H'), "RGB", "W" },
		{ DLBUF_FOURCC('A', 'Y', 'U', 'V'), "VUYA", "AYUV" },
		{ DLBUF_FOURCC('X', 'Y', 'U', 'V'), "VUYX", "XYUV" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		struct dlbuf_format_info f = { .size = sizeof(f) };

		CHECK_OK(dlbuf_format_find(both[i].code, 0, DLBUF_CODE_DRM, &f));
		CHECK_STR(f.channels, both[i].drm);
		CHECK_OK(dlbuf_format_find(both[i].code, 0, DLBUF_CODE_V4L2, &f));
		CHECK_STR(f.channels, both[i].v4l2);
	}
}

/* libcamera's codes are DRM's but where its modifiers or Bayer come in. */
TEST(libcamera)
{
	const uint64_t csi2 = 11ull << 56 | 1;
	const uint32_t rg10 = DLBUF_FOURCC('R', 'G', '1', '0');
	struct dlbuf_format_info f = { .size = sizeof(f) };

	CHECK_OK(dlbuf_format_find(rg10, 0, DLBUF_CODE_LIBCAMERA, &f));
	CHECK_STR(f.v4l2_name, "SRGGB10");
	CHECK_OK(dlbuf_format_find(rg10, csi2, DLBUF_CODE_LIBCAMERA, &f));
	CHECK_STR(f.v4l2_name, "SRGGB10P");
	CHECK(f.reason);
	CHECK_OK(dlbuf_format_find(DLBUF_FOURCC('R', 'G', 'B', '6'), 0,
				   DLBUF_CODE_LIBCAMERA, &f));
	CHECK_STR(f.v4l2_name, "SRGGB16");
	CHECK_OK(dlbuf_format_find(DLBUF_FOURCC('R', 'G', '1', '6'), 0,
				   DLBUF_CODE_LIBCAMERA, &f));
	CHECK_STR(f.drm_name, "RGB565");
	CHECK_ERR(dlbuf_format_find(rg10, 0, DLBUF_CODE_DRM, &f), -EINVAL);
}

static int check_name(const char *with_name, enum dlbuf_code_space space,
		      const struct dlbuf_format_info *info, void *data)
{
	struct dlbuf_format_info got = { .size = sizeof(got) };
	unsigned int *n = data;

	n[space]++;
	CHECK_OK(dlbuf_format_find_name(with_name, space, &got));
	CHECK_STR(name(&got), name(info));
	return 0;
}

static int stop_at_nv12(const char *with_name, enum dlbuf_code_space space,
			const struct dlbuf_format_info *info, void *data)
{
	return !strcmp(with_name, "nv12") ? 7 : 0;
}

TEST(every_name)
{
	unsigned int n[DLBUF_CODE_FFMPEG + 1] = { 0 };

	CHECK_OK(dlbuf_format_names(check_name, n));
	CHECK(n[DLBUF_CODE_DRM] > 100 && n[DLBUF_CODE_V4L2] > 100);
	CHECK(n[DLBUF_CODE_GSTREAMER] > 80 && n[DLBUF_CODE_FFMPEG] > 60);
	CHECK_EQ(dlbuf_format_names(stop_at_nv12, NULL), 7);
	CHECK_ERR(dlbuf_format_names(NULL, NULL), -EINVAL);
}

TEST(names)
{
	struct dlbuf_format_info f = { .size = sizeof(f) };

	CHECK_OK(dlbuf_format_find_name("nv12", DLBUF_CODE_DRM, &f));
	CHECK_EQ(f.drm_code, DLBUF_FOURCC('N', 'V', '1', '2'));
	CHECK_OK(dlbuf_format_find_name("NV12M", DLBUF_CODE_V4L2, &f));
	CHECK_STR(f.drm_name, "NV12");
	CHECK_OK(dlbuf_format_find_name("YUV444", DLBUF_CODE_DRM, &f));
	CHECK_EQ(f.nplanes, 3);
	CHECK_OK(dlbuf_format_find_name("YUV444", DLBUF_CODE_V4L2, &f));
	CHECK_EQ(f.nplanes, 1);
	CHECK_ERR_SAYS(dlbuf_format_find_name("RGB24", DLBUF_CODE_DRM, &f), -EINVAL, "RGB24");
	CHECK_OK(dlbuf_format_find_name("I420", DLBUF_CODE_GSTREAMER, &f));
	CHECK_STR(f.drm_name, "YUV420");
	CHECK_OK(dlbuf_format_find_name("rggb10le", DLBUF_CODE_GSTREAMER, &f));
	CHECK_STR(f.v4l2_name, "SRGGB10");
	CHECK_OK(dlbuf_format_find_name("bayer_rggb16le", DLBUF_CODE_FFMPEG, &f));
	CHECK_STR(f.v4l2_name, "SRGGB16");
	CHECK_ERR(dlbuf_format_find_name("yuv420p", DLBUF_CODE_GSTREAMER, &f), -EINVAL);
	CHECK_ERR(dlbuf_format_find_name("NV12", DLBUF_CODE_FFMPEG + 1, &f), -EINVAL);
	CHECK_ERR(dlbuf_format_find(DLBUF_FOURCC('N', 'V', '1', '2'), 0,
				    DLBUF_CODE_GSTREAMER, &f), -EINVAL);
	CHECK_ERR(dlbuf_format_find_name("", DLBUF_CODE_DRM, &f), -EINVAL);
	CHECK_ERR(dlbuf_format_find_name(NULL, DLBUF_CODE_DRM, &f), -EINVAL);
	CHECK_ERR(dlbuf_format_find_name("NV12", DLBUF_CODE_LIBCAMERA, &f), -EINVAL);
	CHECK_ERR(dlbuf_format_find_name("NV12", 0, &f), -EINVAL);
	CHECK_STR(dlbuf_view_name(DLBUF_VIEW_CFA), "cfa");
	CHECK_STR(dlbuf_view_name(DLBUF_NVIEWS), "unknown");
}

/* A frame of a format, its planes one after another without padding. */
static uint64_t tight(const struct dlbuf_format_info *f, uint32_t width,
		      uint32_t height, struct dlbuf_frame *frame)
{
	uint64_t at = 0;

	*frame = (struct dlbuf_frame)PICTURE(width, height,
		f->drm_code ? f->drm_code : f->v4l2_code,
		f->drm_code ? DLBUF_CODE_DRM : DLBUF_CODE_V4L2, f->nplanes);
	for (uint32_t p = 0; p < f->nplanes; p++) {
		const struct dlbuf_format_plane *g = &f->planes[p];
		uint32_t columns = (width + g->hsub - 1) / g->hsub;
		uint64_t rows = (height + g->vsub - 1) / g->vsub;

		frame->planes[p] = (struct dlbuf_plane){
			.offset = at,
			.pitch = columns * g->channels * g->bits / 8,
		};
		frame->planes[p].bytes = frame->planes[p].pitch * rows;
		at += frame->planes[p].bytes;
	}
	return at;
}

/* Larger values are little-endian in memory, and a DLTensor's native. */
static bool foreign(const struct dlbuf_format_info *f, uint32_t view)
{
	uint32_t bits = f->planes[0].bits;

	if (view == DLBUF_VIEW_WORDS)
		bits *= f->planes[0].channels;
	/* BGR666 begins with its highest byte. */
	return __BYTE_ORDER == __BIG_ENDIAN && bits > 8 &&
	       f->v4l2_code != DLBUF_FOURCC('B', 'G', 'R', 'H') &&
	       view != DLBUF_VIEW_ROWS && view != DLBUF_VIEW_BYTES;
}

static void fills(const struct dlbuf_format_info *f, uint32_t width,
		  uint32_t height)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	struct dlbuf_frame_layout planes[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	uint64_t total = tight(f, width, height, &frame), first, end;
	uint32_t n;
	int ret = dlbuf_frame_layouts(&frame, &opts, planes, &n);

	if (f->reason) {
		CHECK_EQ(ret, -EOPNOTSUPP);
		CHECK_SAYS(f->reason);
		CHECK_SAYS(name(f));
		return;
	}
	if (width % f->planes[0].hsub) {
		CHECK_EQ(ret, -EINVAL);
		return;
	}
	if (foreign(f, DLBUF_VIEW_PLANES)) {
		CHECK_EQ(ret, -EOPNOTSUPP);
		return;
	}
	if (!CHECK_OK(ret) || !CHECK_EQ(n, f->nplanes))
		return;
	for (uint32_t p = 0; p < n; p++) {
		CHECK_OK(dlbuf_layout_extent(&planes[p].layout, &first, &end));
		CHECK_EQ(first, frame.planes[p].offset);
		CHECK_EQ(end, p + 1 < n ? frame.planes[p + 1].offset : total);
		CHECK_EQ(planes[p].plane, p);
	}
}

/* Each format: a frame of odd and even sizes, packed tightly. */
TEST(every_format_fills_its_frame)
{
	CHECK_OK(dlbuf_format_each(collect, NULL));
	for (int i = 0; i < nformats; i++) {
		unsigned int before = ktap.result->failures;

		for (uint32_t width = 1; width <= 9; width++)
			for (uint32_t height = 1; height <= 5; height++)
				fills(&formats[i], width, height);
		if (ktap.result->failures != before)
			ktap_note(__FILE__, __LINE__, "that was %s",
				  name(&formats[i]));
	}
}

/* Every view that a format says it has, and no other, stays in the frame. */
TEST(every_view_of_every_format)
{
	CHECK_OK(dlbuf_format_each(collect, NULL));
	for (int i = 0; i < nformats; i++)
	for (uint32_t view = 0; view < DLBUF_NVIEWS; view++) {
		struct dlbuf_import_opts opts = {
			.size = sizeof(opts), .view = view,
		};
		struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
		struct dlbuf_frame frame;
		uint64_t total = tight(&formats[i], 64, 16, &frame);
		uint64_t first, end, reach = 0;
		uint32_t n = 0;
		int ret = dlbuf_frame_layouts(&frame, &opts, l, &n);

		if (!(formats[i].views & 1u << view) ||
		    foreign(&formats[i], view)) {
			CHECK_EQ(ret, -EOPNOTSUPP);
			continue;
		}
		if (!CHECK_OK(ret))
			ktap_note(__FILE__, __LINE__, "that was view %s of %s",
				  dlbuf_view_name(view), name(&formats[i]));
		for (uint32_t j = 0; j < n; j++) {
			CHECK_OK(dlbuf_layout_extent(&l[j].layout, &first,
						     &end));
			reach = end > reach ? end : reach;
		}
		CHECK(n >= 1 && reach <= total);
		if (view == DLBUF_VIEW_ROWS || view == DLBUF_VIEW_BYTES ||
		    view == DLBUF_VIEW_STACKED)
			CHECK_EQ(reach, total);
	}
}

static int stop_at_two(const struct dlbuf_format_info *info, void *data)
{
	return ++*(int *)data == 2 ? -12345 : 0;
}

TEST(walks_end_when_told)
{
	int n = 0;

	CHECK_EQ(dlbuf_format_each(stop_at_two, &n), -12345);
	CHECK_EQ(n, 2);
	CHECK_ERR(dlbuf_format_each(NULL, NULL), -EINVAL);
}

TEST(formats_not_found)
{
	struct dlbuf_format_info info = { .size = sizeof(info), .nplanes = 9 };

	CHECK_ERR(dlbuf_format_find(0, 0, DLBUF_CODE_DRM, &info), -EINVAL);
	CHECK_ERR(dlbuf_format_find(0, 0, DLBUF_CODE_V4L2, &info), -EINVAL);
	CHECK_ERR(dlbuf_format_find(0, 0, DLBUF_CODE_LIBCAMERA, &info), -EINVAL);
	CHECK_ERR(dlbuf_format_find(DLBUF_FOURCC('R', 'G', 'B', '3'), 0,
				    DLBUF_CODE_DRM, &info), -EINVAL);
	CHECK_ERR(dlbuf_format_find(DLBUF_FOURCC('N', 'V', '1', '2'), 0, 0,
				    &info), -EINVAL);
	CHECK_ERR(dlbuf_format_find(DLBUF_FOURCC('N', 'V', '1', '2'), 0, 4,
				    &info), -EINVAL);
	CHECK_EQ(info.nplanes, 9);
	CHECK(!dlbuf_format_channels(0, 0, DLBUF_CODE_DRM));
	CHECK(!dlbuf_format_channels(DLBUF_FOURCC('R', 'G', 'B', '3'), 0,
				     DLBUF_CODE_DRM));
	for (int space = -1; space < 8; space++)
		CHECK(!dlbuf_format_channels(DLBUF_FOURCC('N', 'V', '1', '2'), 0, space) ==
		      (space < DLBUF_CODE_DRM || space > DLBUF_CODE_LIBCAMERA));
}

KTAP_MAIN()
