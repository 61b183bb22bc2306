// SPDX-License-Identifier: MIT
/*
 * The formats of V4L2 as rows of bytes and as colours: one row of the table
 * each, one function for the colours of one line.
 */
#include "picture.h"
#include "tool.h"

/* Luma, chroma and RGB as the format has them -> RGB of 0..255, 16.16. */
struct colours {
	int32_t offset;		/* of black */
	int32_t y;		/* scale of luma and of RGB */
	int32_t rv, gu, gv, bu;
};

struct picture_plane {
	/* Rows of bytes: ceil(width / hdiv) * bytes, ceil(height / vdiv). */
	uint8_t bytes, hdiv, vdiv;
};

struct picture {
	uint32_t code;
	uint32_t nplanes;
	struct picture_plane planes[DLBUF_MAX_PLANES];
	bool grey;	/* drawn as such */
	bool full;	/* 0 to 255, where the camera does not say */
	/* Draws line y, `width` pixels, as grey or as R, G, B. */
	void (*draw)(const struct pixels *p, const struct colours *c,
		     uint32_t width, uint32_t y, uint8_t *out);
};

static uint8_t clamp(int32_t v)
{
	v = (v + (1 << 15)) >> 16;
	return v < 0 ? 0 : v > 255 ? 255 : v;
}

static uint8_t level(const struct colours *c, uint8_t v)
{
	return clamp((v - c->offset) * c->y);
}

static void yuv(const struct colours *c, int32_t y, int32_t u, int32_t v,
		uint8_t *out)
{
	y = (y - c->offset) * c->y;
	u -= 128;
	v -= 128;
	out[0] = clamp(y + c->rv * v);
	out[1] = clamp(y - c->gu * u - c->gv * v);
	out[2] = clamp(y + c->bu * u);
}

static const uint8_t *line(const struct pixels *p, uint32_t plane, uint32_t y)
{
	return p->data[plane] + y * p->pitch[plane];
}

static void draw_grey(const struct pixels *p, const struct colours *c,
		      uint32_t width, uint32_t y, uint8_t *out)
{
	const uint8_t *in = line(p, 0, y);

	for (uint32_t x = 0; x < width; x++)
		out[x] = level(c, in[x]);
}

static void draw_packed(const struct pixels *p, const struct colours *c,
			uint32_t width, uint32_t y, uint8_t *out, int step,
			int r, int g, int b)
{
	const uint8_t *in = line(p, 0, y);

	for (uint32_t x = 0; x < width; x++, in += step, out += 3) {
		out[0] = level(c, in[r]);
		out[1] = level(c, in[g]);
		out[2] = level(c, in[b]);
	}
}

static void draw_rgb3(const struct pixels *p, const struct colours *c,
		      uint32_t width, uint32_t y, uint8_t *out)
{
	draw_packed(p, c, width, y, out, 3, 0, 1, 2);
}

static void draw_bgr3(const struct pixels *p, const struct colours *c,
		      uint32_t width, uint32_t y, uint8_t *out)
{
	draw_packed(p, c, width, y, out, 3, 2, 1, 0);
}

/* B, G, R, and a byte that means nothing. */
static void draw_xr24(const struct pixels *p, const struct colours *c,
		      uint32_t width, uint32_t y, uint8_t *out)
{
	draw_packed(p, c, width, y, out, 4, 2, 1, 0);
}

static void draw_yuyv(const struct pixels *p, const struct colours *c,
		      uint32_t width, uint32_t y, uint8_t *out)
{
	const uint8_t *in = line(p, 0, y);

	for (uint32_t x = 0; x < width; x++, out += 3) {
		const uint8_t *group = in + x / 2 * 4;

		yuv(c, group[x % 2 * 2], group[1], group[3], out);
	}
}

static void draw_nv12(const struct pixels *p, const struct colours *c,
		      uint32_t width, uint32_t y, uint8_t *out)
{
	const uint8_t *luma = line(p, 0, y), *chroma = line(p, 1, y / 2);

	for (uint32_t x = 0; x < width; x++, out += 3)
		yuv(c, luma[x], chroma[x / 2 * 2], chroma[x / 2 * 2 + 1], out);
}

static const struct picture pictures[] = {
	{ V4L2_PIX_FMT_GREY, 1, { { 1, 1, 1 } }, true, true, draw_grey },
	{ V4L2_PIX_FMT_RGB24, 1, { { 3, 1, 1 } }, false, true, draw_rgb3 },
	{ V4L2_PIX_FMT_BGR24, 1, { { 3, 1, 1 } }, false, true, draw_bgr3 },
	{ V4L2_PIX_FMT_XBGR32, 1, { { 4, 1, 1 } }, false, true, draw_xr24 },
	{ V4L2_PIX_FMT_YUYV, 1, { { 4, 2, 1 } }, false, false, draw_yuyv },
	{ V4L2_PIX_FMT_NV12, 2, { { 1, 1, 1 }, { 2, 2, 2 } }, false, false,
	  draw_nv12 },
};

const struct picture *picture_find(uint32_t v4l2_code)
{
	for (size_t i = 0; i < ARRAY_SIZE(pictures); i++)
		if (pictures[i].code == v4l2_code)
			return &pictures[i];
	return NULL;
}

uint32_t picture_nplanes(const struct picture *picture)
{
	return picture->nplanes;
}

static void plane_size(const struct picture_plane *plane,
		       const struct camera *cam, struct rows *rows)
{
	rows->rows = (cam->height + plane->vdiv - 1) / plane->vdiv;
	rows->bytes = (cam->width + plane->hdiv - 1) / plane->hdiv *
		      plane->bytes;
}

int picture_plane(const struct picture *picture, const struct camera *cam,
		  const struct camera_plane buffer[], uint32_t plane,
		  uint32_t *memory, struct rows *rows)
{
	uint32_t mem = cam->nplanes == 1 ? 0 : plane;
	struct rows r = { 0 };

	if (mem >= cam->nplanes)
		return -1;
	r.offset = buffer[mem].data_offset;
	r.pitch = cam->pitch[mem];
	/* In one dma-buf the planes follow one another. */
	for (uint32_t i = 0; mem == 0 && i < plane; i++) {
		plane_size(&picture->planes[i], cam, &r);
		r.offset += r.rows * r.pitch;
	}
	plane_size(&picture->planes[plane], cam, &r);
	if (!r.rows || !r.bytes || r.pitch < r.bytes ||
	    r.offset + (r.rows - 1) * r.pitch + r.bytes > buffer[mem].bytes)
		return -1;
	*memory = mem;
	*rows = r;
	return 0;
}

static struct colours colours_of(const struct picture *picture,
				 const struct camera *cam)
{
	uint32_t space = cam->colorspace ? cam->colorspace :
			 picture->full ? V4L2_COLORSPACE_SRGB :
					 V4L2_COLORSPACE_SMPTE170M;
	uint32_t enc = cam->ycbcr_enc ? cam->ycbcr_enc :
				V4L2_MAP_YCBCR_ENC_DEFAULT(space);
	uint32_t quant = cam->quantization ? cam->quantization :
		V4L2_MAP_QUANTIZATION_DEFAULT(picture->full, space, enc);
	bool limited = quant == V4L2_QUANTIZATION_LIM_RANGE;
	double kr = 0.299, kb = 0.114, chroma, one = 1 << 16;

	if (enc == V4L2_YCBCR_ENC_709 || enc == V4L2_YCBCR_ENC_XV709) {
		kr = 0.2126;
		kb = 0.0722;
	} else if (enc == V4L2_YCBCR_ENC_BT2020) {
		kr = 0.2627;
		kb = 0.0593;
	}
	chroma = limited ? 255.0 / 224 : 1;
	return (struct colours){
		.offset = limited ? 16 : 0,
		.y = (limited ? 255.0 / 219 : 1) * one,
		.rv = 2 * (1 - kr) * chroma * one,
		.gu = 2 * (1 - kb) * kb / (1 - kr - kb) * chroma * one,
		.gv = 2 * (1 - kr) * kr / (1 - kr - kb) * chroma * one,
		.bu = 2 * (1 - kb) * chroma * one,
	};
}

struct drawing {
	const struct picture *picture;
	const struct pixels *pixels;
	struct colours colours;
	uint32_t width;
};

static void draw_row(void *data, uint32_t y, uint8_t *row)
{
	const struct drawing *d = data;

	d->picture->draw(d->pixels, &d->colours, d->width, y, row);
}

int picture_save(const struct picture *picture, const struct camera *cam,
		 const struct pixels *pixels, struct outfile *out)
{
	struct drawing d = {
		.picture = picture,
		.pixels = pixels,
		.colours = colours_of(picture, cam),
		.width = cam->width,
	};

	return png_write(out, cam->width, cam->height, picture->grey, draw_row,
			 &d);
}
