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

static int no_pixels(const struct format *f, const char *why)
{
	return fail(-EOPNOTSUPP, "format %s cannot be prepared: %s", format_name(f), why);
}

static int find_component(const struct format *f, char which, struct source *s)
{
	struct component *c = &s->components[s->ncomponents];

	for (uint32_t i = 0; i < s->nplanes; i++) {
		uint32_t n, first, step, count;
		const char *letters = format_channels(f, i, &n);

		if (!memchr(letters, which, n))
			continue;
		count = format_find_component(letters, n, which, &first, &step);
		if (!count)
			return no_pixels(f, "its values are not evenly spaced");
		*c = (struct component){ .plane = i, .first = first, .step = step };
		c->hsub = s->planes[i].hsub / count;
		c->vsub = s->planes[i].vsub;
		c->fine = c->hsub != 1 || c->vsub != 1;
		s->ncomponents++;
		return 0;
	}
	return no_pixels(f, "it has no colours that a model could see");
}

static bool one_value(const struct format *f, const struct source *s)
{
	uint32_t n;
	const char *letters = format_channels(f, 0, &n);

	return s->nplanes == 1 && n == 1 && strchr("YR", letters[0]);
}

/* The values of a component: a value v means (v - zero) / range. */
struct scale {
	double zero, range;
};

static struct scale scale_of(const struct source *s, bool limited, bool chroma)
{
	double max = s->sample >= SAMPLE_F16 ? 1 : (1u << s->format->depth) - 1;
	double step = s->sample >= SAMPLE_F16 ? 1 / 255. : (1u << s->format->depth) / 256.;

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
	struct scale scales[3] = { scale_of(s, limited, false) };
	double m[3][3] = { { 0 } };

	scales[1] = scales[2] = scale_of(s, limited, yuv && code != IDENTITY + 1);
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
		scales[1].range = scales[2].range = scales[0].range;
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

int prepare_source(const struct dlbuf_frame *frame, const struct dlbuf_colour *colour,
		   bool grey, struct source *s)
{
	const struct format *f = s->format;
	uint8_t code = colour->matrix ? colour->matrix : frame->colour.matrix;
	uint8_t range = colour->range ? colour->range : frame->colour.range;
	const char *letters;
	uint32_t n;
	bool yuv, limited = range == DLBUF_RANGE_LIMITED;
	int ret = 0;

	if (format_reason(f))
		return no_pixels(f, format_reason(f));
	if (f->type == kDLInt)
		return no_pixels(f, "its values are signed");
	s->nplanes = format_planes(f, s->planes);
	s->sample = f->bits == 8 ? SAMPLE_U8 : f->type == kDLUInt ? SAMPLE_U16 :
		f->bits == 16 ? SAMPLE_F16 : SAMPLE_F32;
	s->shift = f->shift;
	s->ncomponents = 0;
	letters = format_channels(f, 0, &n);
	s->mosaic = format_is_mosaic(f);
	s->floats = s->mosaic || s->sample == SAMPLE_F16;
	if (s->mosaic) {
		if (strstr(format_name(f), "ALAW"))
			return no_pixels(f, "its values are compressed (A-law)");
		if (s->width < 2 || s->height < 2)
			return fail(-EINVAL, "the picture is %ux%u pixels large; a mosaic has 2x2 at "
				    "least", s->width, s->height);
		memcpy(s->pattern, letters, 2);
		memcpy(s->pattern + 2, letters + 3, 2);
		for (uint8_t i = 0; i < 3; i++)
			s->components[i] = (struct component){ 0, i, 3, 1, 1, 0 };
		s->ncomponents = 3;
		/* rows.c makes rows of floats of it. */
		return find_matrix(code, limited, false, s);
	}
	if (one_value(f, s)) {
		ret = find_component(f, letters[0], s);
		return ret ? ret : find_matrix(code, limited, letters[0] == 'Y', s);
	}
	yuv = memchr(letters, 'Y', n);
	/* With the identity Y, U and V are G, B and R. */
	grey &= code != IDENTITY + 1;
	if (memchr(letters, 'H', n))
		return no_pixels(f, "a hue cannot be scaled");
	limited |= yuv && range == DLBUF_RANGE_UNKNOWN;
	for (const char *c = !yuv ? "RGB" : grey ? "Y" : "YUV"; *c && !ret; c++)
		ret = find_component(f, *c, s);
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
