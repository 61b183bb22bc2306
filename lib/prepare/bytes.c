// SPDX-License-Identifier: MIT
/*
 * Plans from bytes to bytes, in fixed point. Each component of an output row becomes a row of
 * samples, which are scaled along both axes and have 7 bits after the point. The matrix makes the
 * results from these rows. If the samples need no more bits than that, the same rows also serve
 * tensors of other types, with a matrix in floats.
 */
#include <stdlib.h>
#include <string.h>

#include "prepare.h"

/* The outputs of a row, rounded up to vectors of 16 values. */
static uint32_t padded(const struct dlbuf_prepare *p)
{
	return (p->width + 15) & ~15u;
}

/* Rounds x * 2^bits. False: it does not fit. */
static bool fixed(double x, int bits, int16_t *out)
{
	x = prepare_floor(x * (1 << bits) + .5);
	if (!(x >= INT16_MIN && x <= INT16_MAX))
		return false;
	*out = (int16_t)x;
	return true;
}

/* A weight with 15 bits after the point, less than 1. */
static int16_t fixed_weight(float w)
{
	int32_t weight = (int32_t)(w * 32768 + .5f);

	return (int16_t)(weight < INT16_MAX ? weight : INT16_MAX);
}

static enum byte_kind kind_of(const struct dlbuf_prepare *p, const struct byte_values *v)
{
	const int16_t (*m)[3] = v->matrix;
	bool each = true, same = m[0][0] == m[1][0] && m[0][0] == m[2][0];

	if (p->source.ncomponents == 1)
		return BYTES_ONE;
	for (int c = 0; c < 3; c++)
		for (int j = 0; j < 3; j++)
			each &= c == j || !m[c][j];
	return p->nout == 3 && each ? BYTES_EACH :
		p->nout == 3 && same && !m[0][1] && !m[2][2] ? BYTES_YUV :
		p->nout == 3 && same && !m[0][2] && !m[2][1] ? BYTES_BGR_OF_YUV : BYTES_ANY;
}

/* False: a sum could need more than 16 bits, or a result be too inexact (docs/prepare.md). */
static bool find_fixed_values(const struct dlbuf_prepare *p, struct byte_values *v)
{
	/* Signed results are computed as unsigned ones, which are 128 higher. */
	double up = p->zero_point + (p->store == STORE_I8 ? 128 : 0), least, most, offset, error;

	*v = (struct byte_values){ .flip = p->store == STORE_I8 ? 128 : 0 };
	/* Channels B, G, R of components R, G, B: `reversed` makes it one component per channel. */
	v->reversed = p->nout == 3 && p->source.ncomponents == 3 && !p->values.matrix[0][0] &&
		!p->values.matrix[0][1];
	for (uint32_t c = 0; c < p->nout; c++) {
		const float *m = p->values.matrix[c];
		double low = p->values.low[c] + up, high = p->values.high[c] + up;

		/* Rounding of the result and of the offset. */
		error = .5 + 1 / 64.;
		least = most = offset = m[3] + up;
		for (uint32_t j = 0; j < p->source.ncomponents; j++) {
			int16_t *entry = &v->matrix[c][v->reversed ? 2 - j : j];
			double size = m[j] < 0 ? -m[j] : m[j];

			if (!fixed(m[j], 13, entry))
				return false;
			offset += p->wide.found ? 128 * m[j] : 0;
			least += 127.5 * (m[j] - size * p->wide.gain);
			most += 127.5 * (m[j] + size * p->wide.gain);
			/* The errors of a sample, of the product, and of the entry. */
			error += size * p->wide.error + (m[j] ? 1 / 64. : 0);
			error += *entry == m[j] * (1 << 13) ? 0 : 1 / 64.;
		}
		/* The half is for rounding. */
		if (least < -1020 || most > 1020 || error > 2 / 3. ||
		    !fixed(offset + .5, 5, &v->offset[c]) || !fixed(low + .5, 5, &v->low[c]) ||
		    !fixed(high + .5, 5, &v->high[c]))
			return false;
		v->clamps |= low > 0 || high < 255;
	}
	v->kind = kind_of(p, v);
	return true;
}

/* The axis of a group along y. */
static const struct axis *axis_of_rows(const struct dlbuf_prepare *p, const struct byte_group *g)
{
	return &p->y[p->source.components[g->first].fine];
}

static enum byte_load find_load(const struct dlbuf_prepare *p, const struct byte_group *g)
{
	const struct component *c = &p->source.components[g->first];
	const int32_t *first = p->x[c->fine].first;
	bool in_order = g->count == 1 && !g->taps && c->step == 1;
	uint32_t move = 0, unit, window = 0;

	for (uint32_t i = 0; i < g->count; i++)
		move = g->moves[i] > move ? g->moves[i] : move;
	unit = move + (g->taps ? c->step : 0) + 1;
	for (uint32_t i = 0; i < p->width; i++) {
		uint32_t more = (uint32_t)(first[i] - first[i & ~7u]) * c->step + unit;

		window = more > window ? more : window;
		in_order &= first[i] - first[0] == (int32_t)i;
	}
	return in_order ? BYTES_IN_ORDER : window <= 16 ? BYTES_16 : window <= 32 ? BYTES_32 :
	       window <= 64 && unit > 2 ? BYTES_64 : unit <= 2 && g->count == 1 ? BYTES_OF_2 :
	       unit <= 4 ? BYTES_OF_4 : BYTES_OF_8;
}

static void add_group(struct dlbuf_prepare *p, uint32_t first, uint32_t n)
{
	const struct component *c = &p->source.components[first];
	const struct axis *y = &p->y[c->fine];
	struct byte_group *g = &p->groups[p->ngroups++];

	*g = (struct byte_group){ .plane = c->plane, .first = (uint8_t)first, .count = (uint8_t)n,
		.begin = c->first, .taps = p->x[c->fine].taps > 1,
		.kept = y->taps > 1 && y->high - y->low < y->n };
	for (uint32_t i = 1; i < n; i++)
		g->begin = c[i].first < g->begin ? c[i].first : g->begin;
	for (uint32_t i = 0; i < n; i++)
		g->moves[i] = c[i].first - g->begin;
	g->load = find_load(p, g);
	if (p->wide.found)
		return;
	/* The kernels have the groups that formats need often. Other groups are divided. */
	if (n == 1 || (n == 2 && g->load < BYTES_OF_2) ||
	    (n == 3 && (g->load == BYTES_OF_4 || g->load == BYTES_OF_8)))
		return;
	p->ngroups--;
	for (uint32_t i = 0; i < n; i++)
		add_group(p, first + i, 1);
}

/*
 * Whether output i is at low + (first + i * quarters) / 4, in samples. With `repeats` the first and
 * the last sample are repeated for outputs beyond them.
 */
static bool is_even(const struct axis *a, int32_t quarters, int32_t first, bool repeats)
{
	const float *right = a->weights + ((a->n + 7) & ~7u);
	int32_t low = 4 * (int32_t)a->low, last = 4 * ((int32_t)a->high - 1);

	for (uint32_t i = 0; i < a->n; i++) {
		int32_t at = low + (int32_t)i * quarters + first;

		if (repeats)
			at = at < low ? low : at > last ? last : at;
		if ((float)at != 4 * ((float)a->first[i] + (a->taps > 1 ? right[i] : 0)))
			return false;
	}
	return true;
}

/* The number of bits after the point that the weights of two samples need; 8: more than 7. */
static int bits_of(const struct axis *a)
{
	const float *second = a->taps == 2 ? a->weights + ((a->n + 7) & ~7u) : NULL;
	int bits = 0;

	for (uint32_t i = 0; i < a->n && second; i++)
		for (double w; bits < 8; bits++) {
			w = second[i] * (1 << bits);
			if (prepare_floor(w) == w)
				break;
		}
	return bits;
}

/* Whether samples are exact without rounding, and the kernels make floats of them. */
static bool is_exact(const struct dlbuf_prepare *p)
{
	if (p->nout < 3 || p->source.ncomponents < 3 || !p->byte_kernels->floats)
		return false;
	for (int i = 0; i < 2; i++)
		if (bits_of(&p->x[i]) + bits_of(&p->y[i]) > 7)
			return false;
	return true;
}

/* Sets p->mosaic if each output is one pixel of a mosaic of bytes, and its values do not change. */
static bool find_demosaiced(struct dlbuf_prepare *p)
{
	const struct byte_values *v = &p->byte_values;

	p->wide.error = 0;
	p->in_floats = p->store > STORE_I8 || p->opts.flags & DLBUF_PREPARE_EXACT ||
		!find_fixed_values(p, &p->byte_values);
	p->mosaic = !p->in_floats && v->kind == BYTES_EACH && !v->clamps && p->x[0].taps == 1 &&
		p->y[0].taps == 1 && is_even(&p->x[0], 4, 0, false);
	/* The components are sums of four samples. */
	for (int i = 0; i < 3 && p->mosaic; i++)
		p->mosaic = v->matrix[i][i] == 1 << 11 && v->offset[i] == 1 << 4;
	if (p->mosaic)
		add_group(p, 0, 1);
	return p->mosaic;
}

/* Sets p->copied if no value changes and each output is one sample. */
static void find_copied(struct dlbuf_prepare *p)
{
	const struct byte_values *v = &p->byte_values;
	const struct byte_group *g = &p->groups[0];
	const struct component *c = p->source.components;
	uint8_t begin = c[0].first;

	p->copied = v->kind == BYTES_EACH && !v->clamps && c[0].step == 4 &&
		p->x[0].taps == 1 && p->y[0].taps == 1 &&
		(is_even(&p->x[0], 4, 0, false) || (g->count == 3 && g->load == BYTES_OF_4));
	for (uint32_t i = 0; i < 3; i++)
		p->copied &= v->matrix[i][i] == 1 << 13 && v->offset[i] == 1 << 4;
	for (uint32_t i = 1; i < 3 && p->copied; i++)
		begin = c[i].first < begin ? c[i].first : begin;
	for (uint32_t i = 0; i < sizeof(p->order) && p->copied; i++) {
		uint32_t from = v->reversed ? 2 - i % 3 : i % 3;

		p->order[i] = (uint8_t)(i / 3 * 4 + c[from].first - begin);
	}
}

/* Sets p->pairs if the axes have the weights that are constants in struct byte_pairs. */
static void find_pairs(struct dlbuf_prepare *p)
{
	const struct component *c = p->source.components;
	const struct axis *luma = &p->x[0], *chroma = &p->x[1];
	const struct byte_values *v = &p->byte_values;
	struct byte_pairs *q = &p->pairs;

	*q = (struct byte_pairs){ .packed = c[0].step == 2, .halved = luma->taps > 1,
		.chroma_first = c[0].step == 2 && c[0].first, .v_first = c[2].first < c[1].first };
	if (v->kind < BYTES_YUV || v->clamps || !p->nhwc || p->back_x || p->info.turn % 2 ||
	    c[1].fine != 1 || c[1].plane != c[2].plane || (c[0].plane == c[1].plane) != q->packed ||
	    !(q->packed ? !!p->byte_kernels->pairs : p->byte_kernels->planar) ||
	    c[1].step != (q->packed ? 4 : 2) ||
	    (q->packed && luma->low != 2 * chroma->low))
		return;
	/* The difference of two sums of products must fit 16 bits. */
	for (uint32_t i = 0; i < 3; i++)
		if (abs(v->matrix[i][1]) + abs(v->matrix[i][2]) >= 1 << 15)
			return;
	q->moved = is_even(chroma, q->halved ? 4 : 2, q->halved ? 1 : -1, true);
	q->found = (q->moved || is_even(chroma, q->halved ? 4 : 2, 0, true)) &&
		is_even(luma, q->halved ? 8 : 4, q->halved ? 2 : 0, false) &&
		bits_of(&p->y[1]) < 8 &&
		(q->halved ? bits_of(&p->y[0]) < 8 : p->y[0].taps == 1);
}

/* Whether Y counts the same for all channels in floats, U not for R, and V not for B. */
static bool same_luma(const struct dlbuf_prepare *p)
{
	const float (*m)[4] = p->values.matrix;
	int red = p->values.reversed ? 2 : 0;

	return m[0][0] == m[1][0] && m[0][0] == m[2][0] && !m[red][1] && !m[2 - red][2];
}

/*
 * Finds the weights of output i. The largest one gets the difference that makes the sum 1. Returns
 * the sum of all differences from the exact weights, times 32768.
 */
static float wide_weights(const struct axis *a, uint32_t i, int16_t *to, float *gain)
{
	size_t padded = (a->n + 7) & ~7u;
	int32_t missing = 32768, most = 0;
	uint32_t largest = 0;
	float error = 0, w;

	*gain = 0;
	for (uint32_t k = 0; k < a->taps; k++) {
		w = a->weights[k * padded + i] * 32768;
		/* Rounded, without floor(). */
		int32_t weight = (int32_t)(w + 65536.5f) - 65536;

		weight = weight > INT16_MAX ? INT16_MAX : weight;
		error += w > (float)weight ? w - (float)weight : (float)weight - w;
		*gain += w < 0 ? -w : w;
		missing -= weight;
		largest = weight > most ? k : largest;
		most = weight > most ? weight : most;
		if (to)
			to[k] = (int16_t)weight;
	}
	*gain /= 32768;
	if (to && most + missing <= INT16_MAX)
		to[largest] = (int16_t)(most + missing);
	return error + (float)(missing < 0 ? -missing : missing);
}

/* The largest error of a sum of samples, where samples are at most 128. */
static double wide_error(const struct axis *a, float *gain)
{
	float most = 0, error, sum;

	*gain = 1;
	for (uint32_t i = 0; i < a->n; i++) {
		error = wide_weights(a, i, NULL, &sum);
		most = error > most ? error : most;
		*gain = sum > *gain ? sum : *gain;
	}
	/* Each product is rounded. */
	return (double)most * 128 / 32768 + a->taps / 256.;
}

/* Whether the sums of samples fit 16 bits, and all components are of one plane. */
static bool find_wide(struct dlbuf_prepare *p)
{
	const struct component *c = p->source.components;
	const struct axis *x = &p->x[c->fine], *y = &p->y[c->fine];
	uint32_t slots, last;
	float across, down;

	for (uint32_t i = 1; i < p->source.ncomponents; i++)
		if (c[i].plane != c->plane || c[i].fine != c->fine || c[i].step != c->step)
			return false;
	p->wide.error = wide_error(x, &across);
	p->wide.error = wide_error(y, &down) * (double)across + p->wide.error * (double)down;
	p->wide.gain = across * down;
	p->wide.slots = 0;
	for (uint32_t i = 0; i < y->n; i++) {
		last = i + p->byte_kernels->batch - 1;
		slots = (uint32_t)(y->first[last < y->n ? last : y->n - 1] - y->first[i]) + y->taps;
		p->wide.slots = slots > p->wide.slots ? slots : p->wide.slots;
	}
	return p->wide.gain < 1.99;
}

bool prepare_bytes_find(struct dlbuf_prepare *p)
{
	const struct source *s = &p->source;

	p->ngroups = 0;
	p->pairs.found = p->copied = p->mosaic = p->direct = p->wide.found = false;
	if (!p->byte_kernels || s->sample != SAMPLE_U8 || s->group.words || s->packed.samples)
		return false;
	p->wide.gain = 1;
	if (s->mosaic)
		return find_demosaiced(p);
	/* Samples are rounded along each axis. */
	p->wide.error = 4 / 256.;
	p->wide.found = p->opts.filter > DLBUF_FILTER_TRIANGLE;
	for (uint32_t i = 0; i < s->ncomponents; i++)
		p->wide.found |= p->x[s->components[i].fine].taps > 2 ||
			p->y[s->components[i].fine].taps > 2;
	if (p->wide.found && !find_wide(p))
		return p->wide.found = false;
	p->in_floats = p->store > STORE_I8 || p->opts.flags & DLBUF_PREPARE_EXACT ||
		!find_fixed_values(p, &p->byte_values);
	if (p->in_floats && (p->wide.found || !is_exact(p)))
		return p->wide.found = false;
	if (p->wide.found) {
		add_group(p, 0, s->ncomponents);
		return true;
	}
	for (uint32_t i = 0, n; i < s->ncomponents; i += n) {
		const struct component *c = &s->components[i];

		for (n = 1; i + n < s->ncomponents; n++)
			if (c[n].plane != c->plane || c[n].fine != c->fine || c[n].step != c->step)
				break;
		add_group(p, i, n);
	}
	p->direct = p->ngroups == 2 && p->groups[1].count == 2 &&
		(p->in_floats ? same_luma(p) : p->byte_values.kind >= BYTES_YUV) &&
		(!p->in_floats || p->groups[1].kept == (p->groups[0].load == BYTES_IN_ORDER)) &&
		!p->groups[0].kept && (p->groups[0].load <= BYTES_32 ||
				       (p->groups[0].load == BYTES_IN_ORDER &&
					p->groups[1].kept)) &&
		(p->groups[1].load <= BYTES_32 || p->groups[1].kept);
	for (int i = 0; i < 2 && p->direct; i++)
		if (p->groups[i].load == BYTES_16 && !p->groups[i].kept)
			p->groups[i].load = BYTES_32;
	if (!p->in_floats) {
		find_copied(p);
		find_pairs(p);
	}
	for (uint32_t i = 0; i < p->ngroups && p->pairs.found; i++)
		p->groups[i].kept = false;
	return true;
}

void prepare_bytes_tables(struct dlbuf_prepare *p, struct arena *from)
{
	size_t n = padded(p);

	if (p->wide.found) {
		const struct axis *x = &p->x[p->source.components[0].fine];
		const struct axis *y = axis_of_rows(p, p->groups);

		p->groups[0].places = prepare_part(from, n * sizeof(*p->groups->places));
		p->groups[0].weights = prepare_part(from, n * x->taps * sizeof(int16_t));
		p->wide.weights = prepare_part(from, (size_t)y->n * y->taps * sizeof(int16_t));
		return;
	}
	for (uint32_t i = 0; i < p->ngroups; i++) {
		struct byte_group *g = &p->groups[i];
		bool windows = g->load < BYTES_OF_2;

		g->places = prepare_part(from, (windows ? n / 8 : n) * sizeof(*g->places));
		g->weights = prepare_part(from, n * sizeof(*g->weights));
		g->lookups = prepare_part(from, windows ? 2 * n : 32);
	}
}

void prepare_bytes_band(const struct dlbuf_prepare *p, struct band *b, struct arena *from)
{
	size_t row = padded(p) * sizeof(int16_t);

	for (uint32_t i = 0; i < p->source.ncomponents && p->ngroups; i++) {
		b->sums[i] = prepare_part(from, row);
		for (int k = 0; k < 2; k++)
			b->kept[i][k] = prepare_part(from, row);
	}
	b->numbers = prepare_part(from, 6 * sizeof(*b->numbers));
	if (!p->wide.found)
		return;
	b->table = prepare_part(from, p->wide.slots * sizeof(*b->table));
	b->turned = prepare_part(from, (p->rings[p->groups[0].plane].n + 63) *
				 p->byte_kernels->batch * sizeof(int16_t));
	for (uint32_t i = 0; i < p->source.ncomponents; i++) {
		b->batch[i] = prepare_part(from, row);
		for (uint32_t k = 1; k < p->byte_kernels->batch; k++)
			prepare_part(from, row);
	}
}

static void fill_wide(struct dlbuf_prepare *p)
{
	struct byte_group *g = &p->groups[0];
	const struct component *c = p->source.components;
	const struct axis *x = &p->x[c->fine], *y = axis_of_rows(p, g);
	float gain;

	for (uint32_t i = 0; i < padded(p); i++) {
		uint32_t of = i < p->width ? i : p->width - 1;

		g->places[i] = x->first[of] * c->step + g->begin -
			       (int32_t)p->rings[g->plane].begin;
		wide_weights(x, of, g->weights + (size_t)i * x->taps, &gain);
	}
	for (uint32_t i = 0; i < y->n; i++)
		wide_weights(y, i, p->wide.weights + (size_t)i * y->taps, &gain);
}

void prepare_bytes_fill(struct dlbuf_prepare *p)
{
	if (p->wide.found) {
		fill_wide(p);
		return;
	}
	for (uint32_t k = 0; k < p->ngroups; k++) {
		/* Local copies: no store to a table can change these. */
		const struct byte_group g = p->groups[k];
		const struct component c = p->source.components[g.first];
		const struct axis x = p->x[c.fine];
		const float *second = x.weights + ((x.n + 7) & ~7u);
		uint32_t taps = g.taps ? c.step : 0, unit = 2 << (g.load - BYTES_OF_2) % 3;
		int32_t begin = g.begin - (int32_t)p->rings[g.plane].begin, window = 0;
		uint32_t n = p->width, all = padded(p);

		for (uint32_t i = 0; i < all; i++) {
			/* The outputs behind the last one are like it. */
			uint32_t of = i < n ? i : n - 1;
			/* A second sample of weight 1 is used as the first one. */
			bool alone = taps && second[of] == 1;
			int32_t at = (x.first[of] + alone) * c.step + begin;
			uint8_t *lookups = g.lookups + i / 8 * 16;

			if (taps)
				g.weights[i] = alone ? 0 : fixed_weight(second[of]);
			if (g.load < BYTES_OF_2) {
				if (i % 8 == 0)
					g.places[i / 8] = window = at;
				at -= window;
			} else {
				g.places[i] = at;
				at = i % 8 * unit;
				lookups = g.lookups + i % 16 / 8 * 16;
			}
			lookups[i % 8] = (uint8_t)at;
			lookups[i % 8 + 8] = (uint8_t)(at + taps);
		}
	}
}

/*
 * Finds the rows of a plane that a group needs for output row y, and the number of the first. The
 * group's kept rows are not among them.
 */
static inline __attribute__((always_inline))
int64_t find_rows(const struct dlbuf_prepare *p, const struct band *b, const struct byte_group *g,
		  const void *data, int64_t pitch, uint32_t y, struct byte_source *from)
{
	const struct axis *axis = axis_of_rows(p, g);
	float w = axis->taps > 1 ? axis->weights[((axis->n + 7) & ~7u) + y] : 0;
	int64_t row = axis->first[y] + (w == 1);

	from->a = from->b = NULL;
	from->weight_b = w == 1 ? 0 : fixed_weight(w);
	if (g->kept)
		return row;
	from->a = from->b = prepare_fetch(p, b, g->plane, data, pitch, row, row);
	if (from->weight_b)
		from->b = prepare_fetch(p, b, g->plane, data, pitch, row + 1, row);
	return row;
}

/* Scales the kept rows that are missing. Sets in[] for the components of the group. */
static void keep_rows(const struct dlbuf_prepare *p, const struct band *b,
		      const struct byte_group *g, const void *data, int64_t pitch, int64_t row,
		      int16_t weight, struct byte_row in[])
{
	struct byte_source one = { .weight_b = 0 };

	for (int k = 0; k < (weight ? 2 : 1); k++) {
		uint32_t slot = (row + k) % 2;
		int64_t *number = &b->numbers[g->first * 2 + slot];
		int16_t *to[3] = { b->kept[0][slot], b->kept[1][slot], b->kept[2][slot] };

		if (*number == row + k)
			continue;
		*number = row + k;
		one.a = one.b = prepare_fetch(p, b, g->plane, data, pitch, row + k, row);
		p->byte_kernels->samples(&to[g->first], g, padded(p), &one);
	}
	for (uint32_t i = 0; i < g->count; i++) {
		int16_t *const *kept = b->kept[g->first + i];

		in[i] = (struct byte_row){ kept[row % 2], kept[(row + !!weight) % 2], weight };
	}
}

/* Computes a batch of rows of a wide filter from y on, unless it is there. Sets in[] to row y. */
static void wide_rows(const struct dlbuf_prepare *p, const struct band *b, const void *data,
		      int64_t pitch, uint32_t y, struct byte_row in[])
{
	const struct byte_group *g = &p->groups[0];
	const struct component *c = p->source.components;
	const struct axis *axis = axis_of_rows(p, g);
	size_t to = PART_BYTES(padded(p) * sizeof(int16_t)) / sizeof(int16_t);
	uint32_t batch = p->byte_kernels->batch, n = 0, rows;
	struct byte_sum sums[16];

	if (*b->numbers < 0 || y >= *b->numbers + batch) {
		int64_t first = axis->first[y];

		rows = p->height - y < batch ? p->height - y : batch;
		*b->numbers = y;
		for (uint32_t j = 0; j < rows; j++) {
			const int16_t *w = p->wide.weights + (size_t)(y + j) * axis->taps;
			uint32_t at = (uint32_t)(axis->first[y + j] - first);
			uint32_t from = 0, end = axis->taps;

			while (end > 1 && !w[end - 1])
				end--;
			while (from + 1 < end && !w[from])
				from++;
			for (n = n < at + from ? at + from : n; n < at + end; n++)
				b->table[n] = prepare_fetch(p, b, g->plane, data, pitch,
							    first + n, first);
			sums[j] = (struct byte_sum){ b->table + at + from, w + from, end - from };
		}
		p->byte_kernels->wide(b->batch, to, g, p->width, p->x[c->fine].taps, c->step, sums,
				      rows, b->turned);
	}
	for (uint32_t i = 0; i < g->count; i++)
		in[i].a = in[i].b = b->batch[i] + (y - *b->numbers) * to;
}

/*
 * Computes a row of pairs. The last chroma sample is repeated behind the row, which only writes to
 * rows of the band.
 */
static void pairs_row(const struct dlbuf_prepare *p, const struct band *b,
		      const void *const planes[], const int64_t pitches[], uint32_t y, uint8_t *dst)
{
	const struct byte_pairs *q = &p->pairs;
	size_t at = (size_t)(p->x[1].high - p->x[1].low) * (q->packed ? 4 : 2);
	/* A luma row of whole vectors is read in place. */
	bool whole = !q->packed && !q->halved && p->width % 32 == 0;
	struct byte_source from[2] = { { .weight_b = 0 } };

	for (int i = q->packed || whole; i < 2; i++) {
		const struct byte_group *g = &p->groups[i];

		find_rows(p, b, g, planes[g->plane], pitches[g->plane], y, &from[i]);
	}
	for (int i = 0; i < 2; i++) {
		uint8_t *last = (uint8_t *)(uintptr_t)(i ? from[1].b : from[1].a) + at;

		/* Sizes that are constants need no call. */
		if (q->packed)
			memcpy(last, last - 4, 4);
		else
			memcpy(last, last - 2, 2);
	}
	if (q->packed)
		from[0] = from[1];
	if (whole)
		from[0].a = (const uint8_t *)planes[p->groups[0].plane] +
			p->y[0].first[y] * pitches[p->groups[0].plane] +
			p->rings[p->groups[0].plane].begin;
	p->byte_kernels->pairs(dst, q, from, p->width, &p->byte_values);
}

static void copied_row(const struct dlbuf_prepare *p, const struct band *b,
		       const void *const planes[], const int64_t pitches[], uint32_t y,
		       uint8_t *dst)
{
	const struct byte_group *g = &p->groups[0];
	const int32_t *places = g->load == BYTES_OF_4 ? g->places : NULL;
	int64_t row = p->y[0].first[y], pitch = pitches[g->plane];
	const uint8_t *from = (const uint8_t *)planes[g->plane] + row * pitch;

	from += p->rings[g->plane].begin;
	/* Consecutive words are read in place, the last four as one vector. */
	if (places || p->width < 4 || p->rings[g->plane].begin % 4)
		from = prepare_fetch(p, b, g->plane, planes[g->plane], pitch, row, row);
	p->byte_kernels->copied(dst, places, from, p->width, p->order, p->byte_values.flip);
}

static void demosaiced_row(const struct dlbuf_prepare *p, const struct band *b, const void *data,
			   int64_t pitch, uint32_t y, uint8_t *const to[3], bool pixels)
{
	struct mosaic_row from = prepare_mosaic_row(p, b, data, pitch, p->y[0].first[y]);
	/* The row's own colour beside green is for the last channel. */
	bool back = from.red == p->byte_values.reversed;
	uint8_t *const channels[3] = { to[back ? 2 : 0], to[1], to[back ? 0 : 2] };

	p->byte_kernels->mosaic(pixels ? to : channels, &from, p->width, pixels, back,
				p->byte_values.flip);
}

/* Where the kernels write the channels: with `pixels` or `plain` to the tensor. */
static void find_channels(const struct dlbuf_prepare *p, const struct band *b, uint8_t *dst,
			  bool pixels, bool plain, int64_t channel, uint8_t *to[3])
{
	for (uint32_t c = 0; c < p->nout; c++)
		to[c] = plain ? dst + c * channel : (uint8_t *)b->out[c];
	if (pixels)
		to[0] = dst;
}

/* Copies the rows of the channels to the tensor, unless they are there. */
static void spread_row(const struct dlbuf_prepare *p, const struct band *b, uint8_t *dst,
		       bool there, int64_t along, int64_t channel)
{
	for (uint32_t c = 0; c < p->nout && !there; c++)
		for (uint32_t i = 0; i < p->width; i++)
			dst[c * channel + i * along] = ((const uint8_t *)b->out[c])[i];
}

void prepare_bytes_row(const struct dlbuf_prepare *p, const struct band *b,
		       const void *const planes[], const int64_t pitches[], uint32_t y,
		       uint8_t *dst, int64_t along, int64_t channel,
		       struct byte_samples *samples)
{
	const struct byte_values *v = &p->byte_values;
	bool pixels = p->nout == 3 && channel == 1 && along == 3, plain = along == 1;
	struct byte_source from[3];
	struct byte_row in[3] = { { .weight_b = 0 } };
	uint8_t *to[3];

	if (pixels && p->pairs.found) {
		pairs_row(p, b, planes, pitches, y, dst);
		return;
	}
	if (pixels && p->copied) {
		copied_row(p, b, planes, pitches, y, dst);
		return;
	}
	if (p->mosaic) {
		find_channels(p, b, dst, pixels, plain, channel, to);
		demosaiced_row(p, b, planes[0], pitches[0], y, to, pixels);
		spread_row(p, b, dst, pixels || plain, along, channel);
		return;
	}
	if (p->wide.found)
		wide_rows(p, b, planes[p->groups->plane], pitches[p->groups->plane], y, in);
	for (uint32_t i = 0; i < p->ngroups && !p->wide.found; i++) {
		const struct byte_group *g = &p->groups[i];
		const void *data = planes[g->plane];
		int64_t pitch = pitches[g->plane];
		int64_t row = find_rows(p, b, g, data, pitch, y, &from[i]);

		if (g->kept)
			keep_rows(p, b, g, data, pitch, row, from[i].weight_b, &in[g->first]);
	}
	samples->direct = p->direct && (p->groups[0].load != BYTES_IN_ORDER || !from[0].weight_b);
	if (p->in_floats && samples->direct) {
		memcpy(samples->rows, in, sizeof(in));
		memcpy(samples->from, from, sizeof(samples->from));
		return;
	}
	if (pixels && samples->direct) {
		p->byte_kernels->direct(dst, p->groups, from, &in[1], p->width, v);
		return;
	}
	for (uint32_t i = 0; i < p->ngroups && !p->wide.found; i++) {
		const struct byte_group *g = &p->groups[i];

		if (g->kept)
			continue;
		for (uint32_t k = 0; k < g->count; k++)
			in[g->first + k].a = in[g->first + k].b = b->sums[g->first + k];
		p->byte_kernels->samples(&b->sums[g->first], g, padded(p), &from[i]);
	}
	if (p->in_floats) {
		memcpy(samples->rows, in, sizeof(in));
		return;
	}
	find_channels(p, b, dst, pixels, plain, channel, to);
	if (v->reversed) {
		struct byte_row first = in[0];

		in[0] = in[2];
		in[2] = first;
	}
	p->byte_kernels->results(to, in, p->width, v, p->nout, pixels);
	spread_row(p, b, dst, pixels || plain, along, channel);
}
