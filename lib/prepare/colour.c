// SPDX-License-Identifier: MIT
/* Finds the components of a format, and the matrix from them to R, G and B. */
#include <errno.h>
#include <string.h>

#include "../system/internal.h"
#include "prepare.h"

/* H.273's MatrixCoefficients that are a matrix, by Kr and Kb. */
static const struct {
	uint8_t code;
	double kr, kb;
} matrices[] = {
	{ 1, .2126, .0722 }, { 4, .30, .11 }, { 5, .299, .114 }, { 6, .299, .114 },
	{ 7, .212, .087 }, { 9, .2627, .0593 },
};

enum { IDENTITY = 0, UNSPECIFIED = 2, BT601 = 6, YCGCO = 8 };

static const char no_colours[] = "it has no colours that a model could see";

static int no_pixels(const struct format *f, const char *why)
{
	return fail(-EOPNOTSUPP, "format %s cannot be prepared: %s", format_name(f), why);
}

/* The components of the first plane: those of its words, if it has bit fields, or its samples. */
static const char *first_letters(const struct format *f, uint32_t *n)
{
	const struct format_fields *fields = format_fields(f);
	const struct format_packed *packed = format_packed(f);
	const char *letters = fields ? fields->letters : packed ? packed->letters : NULL;

	if (!letters)
		return format_channels(f, 0, n);
	*n = (uint32_t)strlen(letters);
	return letters;
}

static void find_field(const struct format_fields *fields, char which, struct component *c)
{
	uint32_t i = (uint32_t)strlen(fields->letters);

	*c = (struct component){ .hsub = 1, .vsub = 1, .count = 1 };
	while (fields->letters[--i] != which)
		c->shift += fields->bits[i];
	c->depth = fields->bits[i];
}

static int find_component(const struct format *f, char which, struct source *s)
{
	struct component *c = &s->components[s->ncomponents];
	const char *letters;
	uint32_t n, first, step, i = 0;

	while (letters = !i ? first_letters(f, &n) : format_channels(f, i, &n),
	       !memchr(letters, which, n))
		if (++i == s->nplanes)
			return no_pixels(f, no_colours);
	s->ncomponents++;
	if (format_fields(f)) {
		find_field(format_fields(f), which, c);
		return 0;
	}
	*c = (struct component){ .plane = i, .depth = f->depth, .shift = f->shift };
	for (uint32_t j = 0; j < n; j++)
		if (letters[j] == which)
			c->at[c->count++] = j;
	if (format_find_component(letters, n, which, &first, &step)) {
		c->first = first;
		c->step = step;
	} else {
		s->group.words = n;
	}
	c->hsub = s->planes[i].hsub / c->count;
	c->vsub = s->planes[i].vsub;
	c->fine = c->hsub != 1 || c->vsub != 1;
	return 0;
}

/* Finds the places of the components in rows that are made of groups: evenly spaced. */
static void find_places(struct source *s)
{
	uint32_t most = 1;

	for (uint32_t i = 0; i < s->ncomponents; i++)
		most = s->components[i].count > most ? s->components[i].count : most;
	/* Packed 4:1:1 becomes Y, U, Y, V, Y, -, Y, -. */
	s->group.values = most > 1 ? 2 * most : s->ncomponents;
	for (uint32_t i = 0; i < s->ncomponents; i++) {
		struct component *c = &s->components[i];

		c->first = most > 1 && i ? 2 * i - 1 : i;
		c->step = s->group.values / c->count;
	}
	s->rows = SAMPLE_F32;
}

/* Whether samples are bits of words of 2 or 4 bytes, which kernels do not take as they are. */
static void find_split(struct source *s)
{
	const bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	uint32_t most = 0;

	for (uint32_t i = 0; i < s->ncomponents; i++) {
		const struct component *c = &s->components[i];

		most = c->depth > most ? c->depth : most;
		if (!s->group.words && s->sample == SAMPLE_U8 && c->step > 3)
			s->split = true;
	}
	s->pairs = s->ncomponents == 3 && !s->group.words && s->components[0].step == 2 &&
		s->components[1].step == 4 && s->sample <= SAMPLE_U16;
	s->split |= s->pairs;
	if (s->group.words == 1 && s->group.bytes > 1 && !s->group.turn &&
	    s->group.swapped == big) {
		s->split = true;
		s->rows = most > 8 ? SAMPLE_U16 : SAMPLE_U8;
	}
}

/* Formats of one value that is a brightness, or is shown as one: depth, touch, infrared. */
static bool one_value(const struct source *s, const char *letters, uint32_t n)
{
	return strchr("ZTIL", letters[0]) ||
	       (s->nplanes == 1 && n == 1 && strchr("YR", letters[0]));
}

/* The values of a component: a value v means (v - zero) / range. */
struct scale {
	double zero, range;
};

static struct scale scale_of(const struct source *s, uint32_t i, bool limited, bool chroma)
{
	double all = (double)(1ull << s->components[i].depth);
	double max = s->sample >= SAMPLE_F16 ? 1 : all - 1;
	double step = s->sample >= SAMPLE_F16 ? 1 / 255. : all / 256.;

	/* Rows of a mosaic have sums of four samples. */
	if (s->mosaic) {
		max *= 4;
		step *= 4;
	}
	if (limited)
		return (struct scale){ (chroma ? 128 : 16) * step, (chroma ? 224 : 219) * step };
	return (struct scale){ chroma ? 128 * step : 0, max };
}

/* out = m * (v - zero) / range, as a matrix of the values and an offset */
static void set_matrix(struct source *s, const double m[3][3], const struct scale scales[3])
{
	for (int i = 0; i < 3; i++) {
		s->matrix[i][3] = 0;
		for (uint32_t j = 0; j < s->ncomponents; j++) {
			s->matrix[i][j] = m[i][j] / scales[j].range;
			s->matrix[i][3] -= s->matrix[i][j] * scales[j].zero;
		}
	}
}

static int find_matrix(uint8_t code, bool limited, bool yuv, struct source *s)
{
	struct scale scales[3];
	double m[3][3] = { { 0 } };

	for (uint32_t i = 0; i < s->ncomponents; i++)
		scales[i] = scale_of(s, i, limited, i && yuv && code != IDENTITY + 1);
	if (s->ncomponents == 1) {
		for (int i = 0; i < 3; i++)
			m[i][0] = 1;
	} else if (!yuv) {
		for (int i = 0; i < 3; i++)
			m[i][i] = 1;
	} else if (code == IDENTITY + 1) {
		/* H.273: Y, Cb and Cr are G, B and R. */
		m[0][2] = m[1][0] = m[2][1] = 1;
	} else if (code == YCGCO + 1) {
		/* H.273: Cg and Co are differences of R, G and B that have luma's range. */
		for (uint32_t i = 1; i < 3; i++)
			scales[i].range = scale_of(s, i, limited, false).range;
		m[0][0] = m[1][0] = m[2][0] = m[1][1] = m[0][2] = 1;
		m[0][1] = m[2][1] = m[2][2] = -1;
	} else {
		size_t i = 0;
		double kr, kb;

		/* Not said: what OpenCV takes. */
		if (!code || code == UNSPECIFIED + 1)
			code = BT601 + 1;
		while (i < ARRAY_SIZE(matrices) && matrices[i].code + 1 != code)
			i++;
		if (i == ARRAY_SIZE(matrices))
			return fail(-EOPNOTSUPP, "matrix %u of H.273 is not a matrix of "
				    "Y, Cb and Cr", code - 1);
		kr = matrices[i].kr;
		kb = matrices[i].kb;
		for (int j = 0; j < 3; j++)
			m[j][0] = 1;
		m[0][2] = 2 * (1 - kr);
		m[2][1] = 2 * (1 - kb);
		m[1][1] = -2 * kb * (1 - kb) / (1 - kr - kb);
		m[1][2] = -2 * kr * (1 - kr) / (1 - kr - kb);
	}
	set_matrix(s, m, scales);
	return 0;
}

/* Finds how the format has its values in memory. */
static int find_words(const struct format *f, struct source *s)
{
	const struct format_fields *fields = format_fields(f);
	const struct format_packed *packed = format_packed(f);

	if (format_reason(f) && !fields && !packed)
		return no_pixels(f, f->reason == BITS ? no_colours : format_reason(f));
	s->view = format_rows_view(f);
	s->nplanes = format_planes(f, s->planes);
	s->sample = f->bits == 8 ? SAMPLE_U8 : f->type != kDLFloat ? SAMPLE_U16 :
		f->bits == 16 ? SAMPLE_F16 : SAMPLE_F32;
	s->shift = f->shift;
	s->mosaic = packed ? !!strchr(packed->letters, '/') : format_is_mosaic(f);
	s->rows = s->sample == SAMPLE_F16 ? SAMPLE_F32 : packed ? SAMPLE_U16 : s->sample;
	s->group.bytes = f->bits / 8;
	s->group.negative = f->type == kDLInt;
	s->group.swapped = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && f->bits > 8;
	if (fields) {
		s->group.words = 1;
		s->group.swapped |= fields->swapped;
		s->group.bytes = (fields->bits[0] + fields->bits[1] + fields->bits[2] +
				  fields->bits[3]) / 8;
		if (s->view == DLBUF_VIEW_ROWS)
			s->planes[0].channels = s->group.bytes;
	} else if (s->group.negative) {
		s->group.words = s->planes[0].channels;
	}
	if (packed) {
		/* As few samples as end with a whole byte. */
		s->packed.samples = packed->depth == 12 ? 2 : 4;
		s->packed.bytes = s->packed.samples * packed->depth / 8;
		s->packed.depth = packed->depth;
	}
	return 0;
}

int64_t prepare_row_bytes(const struct source *s, uint32_t i, int64_t n)
{
	const struct dlbuf_format_plane *f = &s->planes[i];

	if (s->packed.samples)
		return (n + s->packed.samples - 1) / s->packed.samples * s->packed.bytes;
	return (n + f->hsub - 1) / f->hsub * f->channels * f->bits / 8;
}

static int find_mosaic(const struct format *f, const char *letters, const struct dlbuf_rect *crop,
		       struct source *s)
{
	if (strstr(format_name(f), "ALAW"))
		return no_pixels(f, "its values are compressed (A-law)");
	if (s->width < 2 || s->height < 2)
		return fail(-EINVAL, "the picture is %ux%u pixels large; a mosaic has 2x2 at least",
			    s->width, s->height);
	/* That of the visible picture. The letters are two rows with a stroke between them. */
	for (uint32_t i = 0; i < 4; i++)
		s->pattern[i] = letters[(i / 2 + crop->y) % 2 * 3 + (i + crop->x) % 2];
	/* rows.c makes a row of each colour. */
	for (uint32_t i = 0; i < 3; i++)
		s->components[i] = (struct component){ .step = 1, .hsub = 1, .vsub = 1,
			.depth = s->packed.samples ? s->packed.depth : f->depth };
	s->ncomponents = 3;
	s->split = true;
	/* Sums of four samples of 14 bits have 16 bits. */
	s->rows = s->components[0].depth <= 14 ? SAMPLE_U16 : SAMPLE_F32;
	return 0;
}

/* One component: the samples of the groups, also of those before the visible picture. */
static void find_grey(struct source *s)
{
	s->components[0] = (struct component){ .first = s->packed.skip, .step = 1, .hsub = 1,
		.vsub = 1, .depth = s->packed.depth };
	s->ncomponents = 1;
}

int prepare_source(const struct dlbuf_frame *frame, const struct dlbuf_colour *colour,
		   bool grey, struct source *s)
{
	const struct format *f = s->format;
	uint8_t code = colour->matrix ? colour->matrix : frame->colour.matrix;
	uint8_t range = colour->range ? colour->range : frame->colour.range;
	uint8_t hue = colour->hue ? colour->hue : frame->colour.hue;
	const char *letters, *wanted = "RGB";
	bool yuv = false, limited = range == DLBUF_RANGE_LIMITED;
	uint32_t n;
	int ret = find_words(f, s);

	if (ret)
		return ret;
	letters = first_letters(f, &n);
	if (s->packed.samples)
		s->packed.skip = frame->crop.x % s->packed.samples;
	if (s->mosaic) {
		ret = find_mosaic(f, letters, &frame->crop, s);
		return ret ? ret : find_matrix(code, limited, false, s);
	}
	if (s->packed.samples) {
		find_grey(s);
		return find_matrix(code, limited, false, s);
	}
	if (letters[0] == 'C')
		return no_pixels(f, "its values are indices of a palette");
	if (one_value(s, letters, n)) {
		ret = find_component(f, letters[0], s);
		wanted = "";
	} else if (memchr(letters, 'Y', n)) {
		yuv = true;
		limited |= range == DLBUF_RANGE_UNKNOWN;
		/* With the identity Y, U and V are G, B and R. */
		wanted = grey && code != IDENTITY + 1 ? "Y" : "YUV";
	} else if (memchr(letters, 'H', n)) {
		wanted = "HSV";
		limited = false;
		s->group.words = n;
		s->group.turn = hue == DLBUF_HUE_180 ? 180 : 256;
	}
	for (const char *c = wanted; *c && !ret; c++)
		ret = find_component(f, *c, s);
	if (!ret && s->group.words)
		find_places(s);
	find_split(s);
	return ret ? ret : find_matrix(code, limited, yuv, s);
}

void prepare_site(const struct dlbuf_frame *frame, const struct dlbuf_colour *colour,
		  double *x, double *y)
{
	uint8_t site = colour->chroma_site ? colour->chroma_site : frame->colour.chroma_site;
	uint8_t range = colour->range ? colour->range : frame->colour.range;

	/* Not said: video has it on the left (H.273 type 0), JPEG in the middle (type 1). */
	if (!site)
		site = range == DLBUF_RANGE_FULL ? 2 : 1;
	site--;
	*x = site % 2 ? 0 : 1;
	*y = site < 2 ? 0 : site < 4 ? 1 : -1;
}
