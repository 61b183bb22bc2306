// SPDX-License-Identifier: MIT
/* The colours of a frame, out of its tensors. */
#include <string.h>

#include "names.h"
#include "picture.h"
#include "tool.h"

/* ---------------------------------------------------------------- values */

static uint32_t load(const struct component *c, const uint8_t *p)
{
	uint32_t v = 0;

	for (uint32_t i = 0; i < c->bytes; i++)
		v |= (uint32_t)p[c->swap ? c->bytes - 1 - i : i] << 8 * i;
	return v;
}

static uint32_t value(const struct component *c, uint32_t x, uint32_t y)
{
	const uint8_t *group = c->data + y / c->vdiv * c->pitch +
			       (uint64_t)(x / c->hdiv) * c->group;
	uint32_t v = load(c, group + c->at[x % c->hdiv * c->n / c->hdiv]);

	v >>= c->shift;
	if (c->depth < 32)
		v &= (1u << c->depth) - 1;
	/* The middle of the range is 0. */
	return c->negative ? v ^ 1u << (c->depth - 1) : v;
}

/*
 * On the scale of 8 bits. Limited range has its black, its white and no colour
 * at powers of two times those of 8 bits, full range at the ends.
 */
static float level(const struct picture *p, const struct component *c,
		   uint32_t x, uint32_t y)
{
	uint32_t v = value(c, x, y);

	if (c->depth == 8)
		return v;
	if (p->colours.limited)
		return v * 256.0f / (float)(1ull << c->depth);
	return v * 255.0f / (float)((1ull << c->depth) - 1);
}

/* ---------------------------------------------------------------- colours */

static uint8_t clamp(float v)
{
	return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)(v + 0.5f);
}

static uint8_t stretch(const struct picture *p, float v)
{
	return clamp((v - p->colours.offset) * p->colours.y);
}

static void put_yuv(const struct picture *p, uint32_t x, uint32_t y,
		    uint8_t *out)
{
	const struct colours *c = &p->colours;
	float luma = (level(p, &p->c[0], x, y) - c->offset) * c->y;
	float u = level(p, &p->c[1], x, y) - 128;
	float v = level(p, &p->c[2], x, y) - 128;

	out[0] = clamp(luma + c->rv * v);
	out[1] = clamp(luma - c->gu * u - c->gv * v);
	out[2] = clamp(luma + c->bu * u);
}

static void put_hsv(const struct picture *p, uint32_t x, uint32_t y,
		    uint8_t *out)
{
	float h = value(&p->c[0], x, y) * p->colours.hue / 60;
	float s = level(p, &p->c[1], x, y) / 255;
	float v = level(p, &p->c[2], x, y);

	/* Each of R, G and B is a trapezium over the circle of hues. */
	for (int i = 0; i < 3; i++) {
		float at = h + (const float[]){ 5, 3, 1 }[i];
		float k = at - (int)(at / 6) * 6;
		float d = k < 4 - k ? k : 4 - k;

		out[i] = clamp(v - v * s * (d < 0 ? 0 : d > 1 ? 1 : d));
	}
}

/* The mean of what the neighbourhood has of each colour, or its own. */
static void put_mosaic(const struct picture *p, uint32_t x, uint32_t y,
		       uint8_t *out)
{
	float sum[3] = { 0 };
	int n[3] = { 0 };

	for (int64_t v = (int64_t)y - 1; v <= (int64_t)y + 1; v++) {
		for (int64_t u = (int64_t)x - 1; u <= (int64_t)x + 1; u++) {
			char own = p->mosaic[y % 2 * 3 + x % 2];
			char which = p->mosaic[(v & 1) * 3 + (u & 1)];
			int i = which == 'R' ? 0 : which == 'G' ? 1 : 2;

			if (u < 0 || v < 0 || u >= p->width || v >= p->height ||
			    (which == own && (u != x || v != y)))
				continue;
			sum[i] += level(p, &p->c[0], u, v);
			n[i]++;
		}
	}
	for (int i = 0; i < 3; i++)
		out[i] = n[i] ? stretch(p, sum[i] / n[i]) : 0;
}

void picture_row(const struct picture *p, uint32_t y, uint8_t *out)
{
	for (uint32_t x = 0; x < p->width; x++) {
		switch (p->kind) {
		case PICTURE_GREY:
			*out++ = stretch(p, level(p, &p->c[0], x, y));
			continue;
		case PICTURE_RGB:
			for (int i = 0; i < 3; i++)
				out[i] = stretch(p, level(p, &p->c[i], x, y));
			break;
		case PICTURE_YUV:
			put_yuv(p, x, y, out);
			break;
		case PICTURE_HSV:
			put_hsv(p, x, y, out);
			break;
		case PICTURE_MOSAIC:
			put_mosaic(p, x, y, out);
			break;
		}
		out += 3;
	}
}

static struct colours colours_of(const struct camera *cam, bool full)
{
	uint32_t space = cam->colorspace ? cam->colorspace :
			 full ? V4L2_COLORSPACE_SRGB :
				V4L2_COLORSPACE_SMPTE170M;
	uint32_t enc = cam->ycbcr_enc ? cam->ycbcr_enc :
				V4L2_MAP_YCBCR_ENC_DEFAULT(space);
	uint32_t quant = cam->quantization ? cam->quantization :
		V4L2_MAP_QUANTIZATION_DEFAULT(full, space, enc);
	bool limited = quant == V4L2_QUANTIZATION_LIM_RANGE;
	float kr = 0.299, kb = 0.114, chroma;

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
		.y = limited ? 255.0 / 219 : 1,
		.rv = 2 * (1 - kr) * chroma,
		.gu = 2 * (1 - kb) * kb / (1 - kr - kb) * chroma,
		.gv = 2 * (1 - kr) * kr / (1 - kr - kb) * chroma,
		.bu = 2 * (1 - kb) * chroma,
		/*
		 * There is no default. vivid says nothing after a format that
		 * has no hue, and then counts 256 steps.
		 */
		.hue = enc == V4L2_HSV_ENC_180 ? 2 : 360.0 / 256,
		.limited = limited,
	};
}

/* ---------------------------------------------------------------- where */

/* A tensor, as rows of bytes. */
static struct component component_of(const DLTensor *t)
{
	return (struct component){
		.data = (const uint8_t *)t->data + t->byte_offset,
		.pitch = t->strides[0] * t->dtype.bits / 8,
		.hdiv = 1,
		.vdiv = 1,
		.n = 1,
	};
}

/* Of a format whose values are elements: where its letter is. */
static bool find_value(const struct dlbuf_format_info *info,
		       DLManagedTensorVersioned *const tensors[],
		       char letter, struct component *out)
{
	const char *s = info->channels;

	for (uint32_t i = 0; i < info->nplanes; i++) {
		const struct dlbuf_format_plane *p = &info->planes[i];
		uint32_t bytes = p->bits / 8, n = 0;

		*out = component_of(&tensors[i]->dl_tensor);
		for (uint32_t at = 0; *s && *s != ','; s++, at += bytes)
			if (*s == letter && n < sizeof(out->at))
				out->at[n++] = at;
		s += *s == ',';
		if (!n)
			continue;
		out->hdiv = p->hsub;
		out->vdiv = p->vsub;
		out->group = p->channels * bytes;
		out->n = n;
		out->bytes = bytes;
		out->negative = info->dtype.code == kDLInt;
		out->shift = info->shift;
		out->depth = info->depth;
		return true;
	}
	*out = (struct component){ 0 };
	return false;
}

/* A pixel's bit fields, from the highest bit down. */
struct fields {
	char letters[8];
	uint8_t bits[8];
	uint32_t n, total;
	uint32_t pixel;		/* bits, all together */
	bool swap;		/* big-endian */
	bool high;		/* the padding is below the fields */
};

/*
 * Names tell the fields, in both headers: "ARGB1555", "XRGB2101010", with an X
 * or _BE at the end where the bytes are swapped ("RGB565X"). V4L2 leaves out
 * what is left for A or X ("ARGB555"). Bits that the name does not mention are
 * above those that it does.
 */
static bool parse_name(const char *name, uint32_t pixel, struct fields *f)
{
	uint8_t bits[8];
	uint32_t n = 0;

	*f = (struct fields){ .pixel = pixel };
	while (*name >= 'A' && *name <= 'Z' && f->n < 8)
		f->letters[f->n++] = *name++;
	for (; *name >= '0' && *name <= '9' && n < 8; n++) {
		bits[n] = *name++ - '0';
		/* No field has one bit and the next one none. */
		if (bits[n] == 1 && (*name == '0' || (f->n == 1 && *name > '0' &&
						      *name <= '9')))
			bits[n] = 10 + *name++ - '0';
		f->total += bits[n];
	}
	f->swap = !strcmp(name, "X") || !strcmp(name, "_BE");
	if (!n || (n != f->n && n + 1 != f->n) || (*name && !f->swap))
		return false;
	if (!f->pixel)
		f->pixel = (f->total + f->n - n + 7) / 8 * 8;
	if (f->total > f->pixel)
		return false;
	for (uint32_t i = 0, next = 0; i < f->n; i++) {
		bool rest = n < f->n && strchr("AX", f->letters[i]);

		if (!rest && next == n)
			return false;
		f->bits[i] = rest ? f->pixel - f->total : bits[next++];
	}
	if (n < f->n)
		f->total = f->pixel;
	return true;
}

static bool fields_of(const struct dlbuf_format_info *info,
		      enum dlbuf_view view, struct fields *out)
{
	/* Elements of "W" are pixels; of "B" they are bytes. */
	bool words = info->views & 1u << DLBUF_VIEW_WORDS;
	uint32_t pixel = words ? info->dtype.bits : 0;

	if (info->nplanes > 1 ||
	    (view != DLBUF_VIEW_WORDS && view != DLBUF_VIEW_ROWS) ||
	    !parse_name(format_title(info), pixel, out))
		return false;
	/* The one that is swapped without saying so, filled from the top. */
	if (info->v4l2_code == V4L2_PIX_FMT_BGR666)
		out->swap = out->high = true;
	return true;
}

static bool find_field(const struct fields *f, const DLTensor *t, char letter,
		       struct component *out)
{
	uint32_t below = f->high ? f->pixel - f->total : 0;

	*out = (struct component){ 0 };
	for (uint32_t i = f->n; i-- > 0; below += f->bits[i]) {
		if (f->letters[i] != letter)
			continue;
		*out = component_of(t);
		out->group = out->bytes = f->pixel / 8;
		out->swap = f->swap;
		out->shift = below;
		out->depth = f->bits[i];
		return true;
	}
	return false;
}

/* ---------------------------------------------------------------- together */

static bool find_all(const struct dlbuf_format_info *info,
		     const struct fields *fields,
		     DLManagedTensorVersioned *const tensors[],
		     const char *letters, struct component c[3])
{
	for (int i = 0; letters[i]; i++)
		if (fields ? !find_field(fields, &tensors[0]->dl_tensor,
					 letters[i], &c[i]) :
			     !find_value(info, tensors, letters[i], &c[i]))
			return false;
	return true;
}

const char *picture_init(struct picture *p,
			 const struct dlbuf_format_info *info,
			 const struct camera *cam, enum dlbuf_view view,
			 DLManagedTensorVersioned *const tensors[], uint32_t n)
{
	const struct fields *f = NULL;
	struct fields fields;
	char first[2] = { info->channels[0] };

	*p = (struct picture){ .width = cam->info.width, .height = cam->info.height };
	if (view != DLBUF_VIEW_PLANES && view != DLBUF_VIEW_WORDS &&
	    view != DLBUF_VIEW_ROWS)
		return "it is seen as bytes, not as pixels";
	if (n != info->nplanes)
		return "its planes are not tensors of their own";
	if (info->dtype.code == kDLFloat)
		return "its values are floating point";
	if (info->reason) {
		if (!fields_of(info, view, &fields))
			return info->reason;
		f = &fields;
		first[0] = f->letters[0];
	}
	p->mosaic = strchr(info->channels, '/') ? info->channels : NULL;
	if (p->mosaic) {
		p->kind = PICTURE_MOSAIC;
		find_value(info, tensors, first[0], &p->c[0]);
		p->c[0].n = 1;
		p->c[0].at[0] = 0;
	} else if (find_all(info, f, tensors, "RGB", p->c)) {
		p->kind = PICTURE_RGB;
	} else if (find_all(info, f, tensors, "YUV", p->c)) {
		p->kind = PICTURE_YUV;
	} else if (find_all(info, f, tensors, "HSV", p->c)) {
		p->kind = PICTURE_HSV;
	} else if (find_all(info, f, tensors, first, p->c)) {
		p->kind = PICTURE_GREY;
	} else {
		return "it has no values that could be drawn";
	}
	p->colours = colours_of(cam, p->kind != PICTURE_YUV);
	return NULL;
}

static void draw_row(void *data, uint32_t y, uint8_t *row)
{
	picture_row(data, y, row);
}

int picture_save(const struct picture *picture, struct outfile *out)
{
	struct picture p = *picture;

	return png_write(out, p.width, p.height, p.kind == PICTURE_GREY,
			 draw_row, &p);
}
