// SPDX-License-Identifier: MIT
/* The positions of the rows of each V4L2 format. */
#include <string.h>

#include "rows.h"
#include "tool.h"

/* Rows of bytes: ceil(width / hdiv) * bytes, and ceil(height / vdiv) of them. */
struct plane_size {
	uint8_t bytes, hdiv, vdiv;
};

/* The formats of videodev2.h by the size of their planes, codes in a row. */
static const struct layout {
	uint32_t nplanes;
	struct plane_size planes[3];
	const char *codes;
} layouts[] = {
	{ 1, { { 1, 1, 1 } },
	  "GREY" "PAL8" "HI24" "TD08" "TU08" "RGB1" "UV8 "
	  "BA81" "GBRG" "GRBG" "RGGB" "aBA8" "aGA8" "agA8" "aRA8" },
	{ 1, { { 2, 1, 1 } },
	  "Y10 " "Y12 " "Y012" "Y14 " "Y16 " "Z16 " "TD16" "TU16" "Y8I "
	  "R444" "AR12" "XR12" "RA12" "RX12" "AB12" "XB12" "GA12" "BX12"
	  "RGBO" "AR15" "XR15" "RA15" "RX15" "AB15" "XB15" "BA15" "BX15"
	  "RGBP" "Y444" "YUVO" "YUVP"
	  "BG10" "GB10" "BA10" "RG10" "BG12" "GB12" "BA12" "RG12"
	  "BG14" "GB14" "GR14" "RG14" "BYR2" "GB16" "GR16" "RG16" },
	{ 1, { { 3, 1, 1 } }, "RGB3" "BGR3" "YUV3" "HSV3" },
	{ 1, { { 4, 1, 1 } },
	  "RGB4" "BGR4" "BGRH" "AR24" "XR24" "RA24" "RX24" "AB24" "XB24"
	  "BA24" "BX24" "RX30" "RA30" "AR30" "HSV4" "Y16I"
	  "YUV4" "AYUV" "XYUV" "VUYA" "VUYX" "YUVA" "YUVX" },
	{ 1, { { 6, 1, 1 } }, "BGR6" "RGB6" "B312" "Y312" },
	{ 1, { { 8, 1, 1 } }, "B412" },
	{ 1, { { 4, 2, 1 } }, "YUYV" "YVYU" "UYVY" "VYUY" "YYUV" },
	{ 1, { { 8, 2, 1 } }, "Y210" "Y212" "Y216" },
	{ 1, { { 12, 8, 1 } }, "Y41P" },
	{ 2, { { 1, 1, 1 }, { 2, 2, 2 } }, "NV12" "NV21" "NM12" "NM21" },
	{ 2, { { 1, 1, 1 }, { 2, 2, 1 } }, "NV16" "NV61" "NM16" "NM61" },
	{ 2, { { 1, 1, 1 }, { 2, 1, 1 } }, "NV24" "NV42" },
	{ 2, { { 2, 1, 1 }, { 4, 2, 2 } }, "P010" "P012" "PM12" },
	{ 3, { { 1, 1, 1 }, { 1, 2, 2 }, { 1, 2, 2 } },
	  "YU12" "YV12" "YM12" "YM21" },
	{ 3, { { 1, 1, 1 }, { 1, 2, 1 }, { 1, 2, 1 } },
	  "422P" "YM16" "YM61" },
	{ 3, { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } }, "YM24" "YM42" },
	{ 3, { { 1, 1, 1 }, { 1, 4, 1 }, { 1, 4, 1 } }, "411P" },
	{ 3, { { 1, 1, 1 }, { 1, 4, 4 }, { 1, 4, 4 } }, "YUV9" "YVU9" },
};

static const struct layout *layout_find(uint32_t code)
{
	const char c[] = { code, code >> 8, code >> 16, code >> 24 };

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		for (const char *s = layouts[i].codes; *s; s += 4)
			if (!memcmp(s, c, 4))
				return &layouts[i];
	return NULL;
}

uint32_t rows_nplanes(const struct camera *cam, enum dlbuf_view view,
		      bool whole)
{
	const struct layout *layout = layout_find(cam->info.code);

	/* Any bytes. */
	if (view == DLBUF_VIEW_BYTES)
		return cam->nplanes;
	if (layout)
		return layout->nplanes;
	return view == DLBUF_VIEW_ROWS && whole && cam->nplanes == 1;
}

static struct rows plane_rows(const struct layout *layout, uint32_t plane,
			      const struct camera *cam)
{
	const struct plane_size *p = &layout->planes[plane];

	return (struct rows){
		.rows = (cam->info.height + p->vdiv - 1) / p->vdiv,
		.bytes = (cam->info.width + p->hdiv - 1) / p->hdiv * p->bytes,
	};
}

/*
 * In one dma-buf the planes follow one another. The pitches of a chroma plane
 * and of the first plane have the ratio of their bytes per pixel.
 */
static struct rows rows_behind(const struct layout *layout, uint32_t plane,
			       const struct camera *cam, uint64_t offset)
{
	const struct plane_size *first = &layout->planes[0];
	struct rows r = { 0 };

	for (uint32_t i = 0; i <= plane; i++) {
		const struct plane_size *p = &layout->planes[i];

		offset += r.rows * r.pitch;
		r = plane_rows(layout, i, cam);
		r.pitch = (uint64_t)cam->pitch[0] * p->bytes * first->hdiv /
			  (p->hdiv * first->bytes);
	}
	r.offset = offset;
	return r;
}

static struct plane_rows find_rows(const struct camera *cam,
				   const struct camera_plane buffer[],
				   uint32_t plane, enum dlbuf_view view,
				   bool whole)
{
	const struct layout *layout = layout_find(cam->info.code);
	struct plane_rows out = {
		.memory = cam->nplanes == 1 ? 0 : plane,
	};
	const struct camera_plane *mem = &buffer[out.memory];
	struct rows *r = &out.rows;

	if (view == DLBUF_VIEW_BYTES) {
		*r = (struct rows){ .rows = 1 };
		r->bytes = r->pitch = mem->bytesused - mem->data_offset;
	} else if (whole && view == DLBUF_VIEW_ROWS) {
		*r = (struct rows){ .rows = cam->info.height };
		r->bytes = r->pitch = cam->pitch[plane];
	} else if (cam->nplanes == 1) {
		*r = rows_behind(layout, plane, cam, 0);
	} else {
		*r = plane_rows(layout, plane, cam);
		r->pitch = cam->pitch[plane];
	}
	r->offset += mem->data_offset;
	return out;
}

int rows_of_buffer(const struct camera *cam, uint32_t index,
		   enum dlbuf_view view, bool whole,
		   struct plane_rows out[DLBUF_MAX_PLANES])
{
	const struct camera_plane *buffer = cam->buffers[index];
	uint32_t n = rows_nplanes(cam, view, whole);

	for (uint32_t i = 0; i < n; i++) {
		struct rows *r = &out[i].rows;

		if (cam->nplanes > 1 && i >= cam->nplanes)
			return i;
		out[i] = find_rows(cam, buffer, i, view, whole);
		if (!r->rows || !r->bytes || r->pitch < r->bytes ||
		    r->offset + (r->rows - 1) * r->pitch + r->bytes >
		    buffer[out[i].memory].bytes)
			return i;
	}
	return -1;
}
