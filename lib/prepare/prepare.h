/* SPDX-License-Identifier: MIT */
/*
 * A plan: what to compute for each frame. plan.c makes it from the options, axis.c finds the
 * samples and weights of each output, colour.c the matrix. rows.c runs it on the CPU, bytes.c does
 * so for plans from bytes to bytes, threads.c divides the rows between threads, device.c runs it on
 * a device.
 */
#ifndef DLBUF_LIB_PREPARE_H
#define DLBUF_LIB_PREPARE_H

#include <stdbool.h>

#include <dlbuf/prepare.h>

#include "../frame/format.h"

/* Bytes behind each part of a plan's memory, which cannot be used. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define PREPARE_GAP 32
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)0)
#define PREPARE_GAP 0
#endif

/* Sides of scaled pictures; larger ones would need indices of 64 bits. */
#define PREPARE_MAX 32768

/* One axis of one component: for each output the first sample and the weights. */
struct axis {
	uint32_t n;		/* outputs */
	uint32_t taps;		/* weights of each; those that are not needed are 0 */
	uint32_t low, high;	/* the samples that the outputs read: [low, high) */
	int32_t *first;		/* [n rounded up to 8] */
	float *weights;		/* [taps][n rounded up to 8] */
	void *memory;		/* all are in it */
	size_t room;		/* its bytes */
	/* The arguments that it was computed from: crops of a batch have many in common. */
	struct axis_of {
		double from, length;
		uint32_t all, begin, n, low, high;
	} of;
};

/* Places of a component's samples in their plane. */
struct component {
	uint8_t plane;
	uint8_t first, step;	/* in values of a row: the first sample, to the next */
	uint8_t hsub, vsub;	/* pixels per sample */
	uint8_t fine;		/* 0: axes of luma, 1: of chroma */
	uint8_t depth, shift;	/* its bits of a word */
	uint8_t count, at[8];	/* of a group: its samples, the indices of their words */
};

/* Storage of the values of all planes. */
enum sample {
	SAMPLE_U8,
	SAMPLE_U16,
	SAMPLE_F16,
	SAMPLE_F32,
};

struct source {
	enum sample sample;
	uint8_t shift;			/* of SAMPLE_U16 */
	bool mosaic;
	enum sample rows;		/* of the rows that rows.c makes or copies */
	bool split;			/* rows.c makes a row of each component */
	bool pairs;			/* or, of packed 4:2:2, a row of Y and one of U and V */
	/*
	 * Words of which rows.c makes evenly spaced values: bit fields, HSV, signed values. The
	 * places of the components are among the values that are made.
	 */
	struct {
		uint8_t words, bytes;	/* how many, and bytes of each; 0: as they are */
		uint8_t values;		/* number of values that rows.c makes of a group */
		bool swapped;		/* the first byte in memory is the highest */
		bool negative;		/* two's complement: the middle of the range is 0 */
		uint16_t turn;		/* HSV: steps of hue in a full turn; 0: not HSV */
	} group;
	/* Samples of MIPI CSI-2, in groups of so many; 0: another format. */
	struct {
		uint8_t samples, bytes, depth;
		uint8_t skip;		/* samples of the first group before the visible picture */
	} packed;
	enum dlbuf_view view;		/* of the tensors */
	char pattern[4];		/* of a mosaic: row 0, row 1 */
	uint32_t width, height;		/* the visible picture, pixels */
	uint32_t ncomponents;		/* 1 or 3 */
	struct component components[3];
	uint32_t nplanes;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES];
	const struct format *format;
	double matrix[3][4];		/* components to R, G, B of 0 to 1; the last: offset */
};

/* The types that a tensor can have. */
enum store {
	STORE_U8,
	STORE_I8,
	STORE_F16,
	STORE_BF16,
	STORE_F32,
};

/* Steps of an output, in elements of the tensor. */
struct steps {
	int64_t x, y, channel;
};

/* From components to the tensor's values, before rounding. */
struct values {
	float matrix[3][4];
	/* The tensor's values for 0 and 1, cut to what its type holds: limits of all results. */
	float low[3], high[3];
	bool reversed;		/* the channels are B, G, R */
};

/*
 * How the bytes of 8 outputs are loaded: a window of 16, 32 or 64 bytes for all 8, or 2, 4 or 8
 * bytes for each output.
 */
enum byte_load {
	BYTES_16,
	BYTES_32,
	BYTES_64,
	BYTES_OF_2,
	BYTES_OF_4,
	BYTES_OF_8,
	BYTES_IN_ORDER,		/* outputs are samples that follow each other */
};

/* Components of a plane that have one axis: bytes.c. */
struct byte_group {
	uint8_t plane, first, count;
	enum byte_load load;
	bool taps;		/* two samples of a row for an output */
	bool kept;		/* each row is scaled once, and kept for the outputs that need it */
	uint8_t begin;		/* bytes from a pixel to its first component in memory */
	uint8_t moves[3];	/* from there to each component */
	int32_t *places;	/* byte offset of each window of 8 outputs, or of each output */
	uint8_t *lookups;	/* for 8 outputs: indices of 8 left samples, then of 8 right ones */
	int16_t *weights;	/* of the second of two samples, or [output][taps] */
};

/* Filters of more than two samples: an output is the sum of n rows from a table on. */
struct byte_sum {
	const uint8_t *const *rows;
	const int16_t *weights;
	uint32_t n;
};

/* Rows of a plane: the weighted sum of two; with weight 0 the first. */
struct byte_source {
	const uint8_t *a, *b;
	int16_t weight_b;
};

/* The weighted sum of two rows of samples; with weight 0 it is a, and b is a. */
struct byte_row {
	const int16_t *a, *b;
	int16_t weight_b;
};

/* The samples of an output row, to which a matrix in floats is applied. */
struct byte_samples {
	bool direct;			/* by byte_kernels.direct_floats() */
	struct byte_row rows[3];
	struct byte_source from[2];
};

/* Which entries of the matrix are not 0. */
enum byte_kind {
	BYTES_ANY,
	BYTES_ONE,		/* one component */
	BYTES_EACH,		/* one component per channel */
	BYTES_YUV,		/* Y is the same for all; no U in the first, no V in the last */
	BYTES_BGR_OF_YUV,	/* no V in the first, no U in the last */
};

/* struct values in fixed point. */
struct byte_values {
	int16_t matrix[3][3], offset[3], low[3], high[3];
	enum byte_kind kind;
	bool clamps;		/* low and high are inside 0 to 255 */
	bool reversed;		/* components are used in reverse order */
	uint8_t flip;		/* 128: results are signed */
};

/*
 * A plan in which each chroma sample belongs to two pixels. The tensor has both pixels, or with
 * `halved` their mean. A chroma sample is at the first output's position, or with `moved` a quarter
 * of a sample beside it.
 */
struct byte_pairs {
	bool found;
	bool packed;		/* luma and chroma are in one plane */
	bool chroma_first;	/* and chroma is before luma */
	bool v_first;		/* V is before U */
	bool halved, moved;
};

struct byte_kernels;
struct prepare_kernels;
struct prepare_threads;

/* Memory of a band of rows of the scaled picture, which one thread computes. */
struct band {
	char *rows[DLBUF_MAX_PLANES];		/* the last rows of each plane */
	int64_t *held[DLBUF_MAX_PLANES];	/* and their numbers */
	const float **window;			/* the rows that make an output row */
	float *weights;				/* the weights of those rows */
	float *columns;				/* PREPARE_ROWS rows of a source */
	float *scaled[3];			/* the last rows of components, scaled along x */
	float *in[3], *out[3];			/* a row */
	void *converted, *fetched;
	char *wide[3];				/* the last rows of a mosaic, as numbers */
	int64_t *wide_held;			/* the numbers of the rows in wide */
	float *sampled[2][3];			/* the same, where outputs need two */
	int64_t *sampled_held;			/* [2][3] */
	/* Rows of the byte loops: one of each component, and the last two kept rows. */
	int16_t *sums[3], *kept[3][2];
	int64_t *numbers;			/* of the kept rows: [component][2] */
	/* Wide filters of bytes use the source's rows, their turned sums, and a batch of rows. */
	const uint8_t **table;
	int16_t *turned, *batch[3];
};

struct dlbuf_prepare {
	struct dlbuf_device *dev;
	unsigned int busy;		/* atomic; fork_generation + 1: a thread uses the plan */
	void *program;			/* of the device; NULL: the CPU runs the plan */
	struct dlbuf_prepare_opts opts;
	struct dlbuf_prepare *crops;	/* a copy, whose geometry is set for each crop in turn */
	struct dlbuf_frame like;	/* its planes and fences are not used */
	struct dlbuf_prepare_info info;
	struct source source;
	enum store store;
	bool nhwc;
	bool back_x, back_y;		/* the tensor's columns and rows are reversed */
	/* Before the turn: the outputs of the scaled picture that are in the tensor. */
	uint32_t left, top, width, height;
	struct axis x[2], y[2];		/* of luma, of chroma */
	uint32_t nout;			/* channels of the tensor: 1 or 3 */
	struct values values;
	float pad[3];			/* in its values, before rounding */
	int32_t zero_point;		/* of integers, added after rounding */
	/* For each plane: the values that are read, and the number of last rows that are kept. */
	struct ring {
		uint32_t begin, n, slots, axis;
		uint32_t scaled;	/* rows that are kept, scaled along x */
		uint32_t copied;	/* bytes that are split, or of whole groups */
		size_t bytes;		/* from a row to the next */
		bool direct;		/* outputs are sums of samples, row by row */
	} rings[DLBUF_MAX_PLANES];
	bool split;			/* a row in a ring is a row of each component */
	bool paired[3];			/* kernels compute this component with the next */
	int64_t origins[3];		/* where sample 0 of a component is in a row of its ring */
	size_t row;			/* floats from a row of scaled values to the next */
	int32_t *places[3];			/* of each component: the first value of a window */
	/*
	 * Tables for values 0 to 3 of each place: where the value lies among the bytes that follow
	 * the first of 4 places; unused bytes become 0. windows: number of windows of 16 bytes that
	 * contain the values; 0: no tables.
	 */
	uint8_t *shuffles[3];
	uint32_t windows[3];
	/* Groups of the byte path; ngroups 0: all in floats. */
	struct byte_group groups[3];
	uint32_t ngroups;
	bool in_floats;		/* samples are exact in fixed point; only the matrix is in floats */
	bool direct;
	bool copied;			/* a pixel is three bytes of a word of 4, unchanged */
	bool mosaic;			/* or it is a pixel of a mosaic of bytes, unchanged */
	uint8_t order[48];		/* for 16 pixels: indices of their bytes in 16 words */
	struct byte_pairs pairs;
	/* Or group 0 has a filter of more than two samples. */
	struct {
		bool found;
		uint32_t slots;		/* rows of the source that a batch needs */
		int16_t *weights;	/* along y: [output][taps] */
		double gain, error;	/* how much larger samples become, and their error */
	} wide;
	struct byte_values byte_values;
	struct band *bands;
	uint32_t nbands;
	struct prepare_threads *threads;	/* or NULL */
	void *scratch;
	size_t room;			/* its bytes */
	const struct prepare_kernels *kernels;
	const struct byte_kernels *byte_kernels;	/* or NULL */
};

/* A dtype by its name, for error texts. */
struct dtype_text {
	char s[40];
} prepare_dtype(DLDataType t);

/* Finds the components and the matrix; grey: of YCbCr, luma alone. Fields of colour that are 0
 * are the frame's. */
int prepare_source(const struct dlbuf_frame *frame, const struct dlbuf_colour *colour,
		   bool grey, struct source *out);

/* Bytes of n pixels of a row of plane i, and of all that share bytes with them. */
int64_t prepare_row_bytes(const struct source *s, uint32_t i, int64_t n);

/* Finds where a chroma sample is in its pixels: 0 in the middle, 1 on the first, -1 on the last. */
void prepare_site(const struct dlbuf_frame *frame, const struct dlbuf_colour *colour,
		  double *x, double *y);

/*
 * Memory that is divided into parts, each aligned for vectors. With ASan a part ends where its
 * bytes end: a gap is behind it. NULL: parts are only counted, and are NULL.
 */
struct arena {
	char *memory;
	size_t taken;		/* bytes of it */
};

/* Bytes from a part to the next. */
#define PART_BYTES(n) ((((size_t)(n) + 31) & ~(size_t)31) + PREPARE_GAP)

static inline void *prepare_part(struct arena *a, size_t bytes)
{
	char *part = a->memory ? a->memory + a->taken : NULL;

	a->taken += PART_BYTES(bytes);
	if (part)
		ASAN_POISON_MEMORY_REGION(part + bytes, PART_BYTES(bytes) - bytes);
	return part;
}

/*
 * Makes *memory as large as what was counted; what is in it is lost. Then parts are taken from it.
 * free() it. -ENOMEM.
 */
int prepare_grow(void **memory, size_t *room, struct arena *arena);

/*
 * Geometry for another crop. prepare_crop() finds where the picture is and checks it,
 * prepare_axes() makes the axes, prepare_tables() makes the tables and rows for prepare_rows(). All
 * three change p->crops, which prepare_crops() makes at the first call.
 */
int prepare_crops(struct dlbuf_prepare *p);
int prepare_crop(struct dlbuf_prepare *p, const struct dlbuf_crop *crop);
int prepare_axes(struct dlbuf_prepare *p);
int prepare_tables(struct dlbuf_prepare *p);

/* libm's, which the library does not link. */
double prepare_floor(double x);
double prepare_round(double x);		/* half to even */

/*
 * Computes an axis: outputs begin..begin + n of `all` that cover `length` samples from
 * `from`. The samples that may be read are low..high.
 */
int prepare_axis(enum dlbuf_filter filter, double from, double length, uint32_t all,
		 uint32_t begin, uint32_t n, uint32_t low, uint32_t high, struct axis *out);

/* Finds the bands, and the rows that they need. -ENOMEM. */
int prepare_scratch(struct dlbuf_prepare *p);

/* An image of the tensor in memory: its first byte, and the steps in it. */
struct image {
	char *data;
	struct steps steps;
};

/* Runs a plan on the CPU. planes are those of the visible picture. */
void prepare_rows(const struct dlbuf_prepare *p, const void *const planes[],
		  const int64_t pitches[], const struct image *image);

/* threads.c: starts n threads, which sleep. -ENOMEM. */
int prepare_threads_start(uint32_t n, struct prepare_threads **out);
/* Ends them; NULL does nothing. In a child of fork(), which does not have them, frees alone. */
void prepare_threads_end(struct prepare_threads *t);
/*
 * Calls fn for 0..n - 1, on the threads and the caller's, and returns when all calls have. With
 * t NULL, and in a child of fork(), on the caller's alone.
 */
void prepare_divide(struct prepare_threads *t, uint32_t n,
		    void (*fn)(const void *data, uint32_t i), const void *data);

/* device.c: loads the program. */
int prepare_load(struct dlbuf_prepare *p);

struct program_job;
struct tensor;

/* Finds the library's tensors of the planes, and then that of out. */
int prepare_tensors(const struct dlbuf_prepare *p, DLManagedTensorVersioned *const planes[],
		    uint32_t n, DLManagedTensorVersioned *out, struct tensor *list[]);

/*
 * Makes the run of one image; planes are at data. With `pack` it also makes the image's program:
 * free() it.
 */
int prepare_job(struct dlbuf_prepare *p, bool pack, struct tensor *const list[], uint32_t n,
		const void *const data[], const int64_t pitches[], const struct image *image,
		struct program_job *job);

/*
 * Runs jobs for planes and out: one job of the loaded program, or several jobs with programs of
 * their own.
 */
int prepare_run(struct dlbuf_prepare *p, struct tensor *const list[], uint32_t n,
		const struct program_job *jobs, uint32_t njobs, uint64_t deadline_ns);

/* Values of a row that become floats at once. */
#define PREPARE_STRIP 128

/* Rows of a source that are scaled along x at once. */
#define PREPARE_ROWS 8

/*
 * The code for one kind of processor. Rows of floats are aligned to 32 bytes, and have room for
 * whole vectors of 16; rows of a source have room for PREPARE_STRIP more.
 */
struct prepare_kernels {
	uint32_t windows;		/* of 16 bytes, that a table of shuffles can cover, or 0 */
	/* dst[i][j] = rows[j][i]; writes up to PREPARE_STRIP more columns */
	void (*columns)(float *dst, uint32_t n, const void *const rows[PREPARE_ROWS],
			enum sample sample, uint32_t shift);
	/*
	 * dst[j][i] = the sum over k of values[places[i] + k * step][j] * weights[k][i]. Rows of
	 * dst are `to` values apart.
	 */
	void (*scale)(float *dst, size_t to, const struct axis *axis, const int32_t *places,
		      const float *values, int32_t step);
	/*
	 * A row of scale(), of the weighted sum of two rows of bytes or of words of 16 bits, or
	 * with b NULL of one, where the axis has at most 2 taps. step is at most 3 for bytes. dst2,
	 * if not NULL, gets the component that is one value behind; then step is 2. windows: how
	 * many windows of 16 bytes the shuffles cover; 0: they are not used. It reads up to 32
	 * bytes behind a place.
	 */
	void (*bilinear)(float *dst, float *dst2, const struct axis *axis, const int32_t *places,
			 const uint8_t *shuffles, uint32_t windows, const void *a, const void *b,
			 float weight_b, int32_t step, bool words, uint32_t shift);
	/* dst[i] = (words[i] >> shift & mask) ^ flip, of words of 2 or 4 bytes, to 1 or 2 bytes */
	void (*split)(void *dst, const void *words, uint32_t n, uint32_t bytes, bool to_bytes,
		      uint32_t shift, uint32_t mask, uint32_t flip);
	/* dst = n samples of a row, for a mosaic or of MIPI's groups; writes up to 7 more. */
	void (*widen)(void *dst, const void *src, uint32_t n, const struct source *s);
	/*
	 * Sums of the four nearest samples of each colour, of a mosaic's row and those above and
	 * below it, which have a column more at both sides. own is the row's own colour beside
	 * green. Writes up to 15 more.
	 */
	void (*mosaic)(void *own, void *green, void *other, const void *const rows[3], uint32_t n,
		       bool green_first, enum sample sample);
	/* dst = the sum of n rows times their weights; writes whole vectors */
	void (*sum)(float *dst, const float *const rows[], const float weights[], uint32_t n,
		    uint32_t width);
	/* dst = a + (b - a) * weight */
	void (*between)(float *dst, const float *a, const float *b, float weight, uint32_t n);
	/* out[c][i] = matrix[c] * in[i], not beyond low[c] and high[c]; in has nin rows. */
	void (*colours)(float *const out[], uint32_t nout, const float *const in[], uint32_t nin,
			uint32_t n, const struct values *to);
	/* Rounds n values, inside the type less the zero point, to a type that is not float32. */
	void (*convert)(void *dst, const float *row, uint32_t n, enum store store,
			int32_t zero_point);
	/* dst[3 * i + c] = rows[c][i], of the tensor's type. */
	void (*interleave)(void *dst, const float *const rows[3], uint32_t n, enum store store,
			   int32_t zero_point);
};

/*
 * A row of a mosaic and those above and below it. Each has a column more at both sides, and memory
 * for 32 more columns.
 */
struct mosaic_row {
	const void *rows[3];
	bool green_first, red;		/* its first sample is green; it has red beside green */
};

/* The same for bytes: rows of samples have room for whole vectors of 16. */
struct byte_kernels {
	uint32_t batch;		/* rows of wide() */
	/*
	 * Rows of a group's components less 128, `to` values from one to the next: n outputs of
	 * each of so many sums. turned has room for as many columns, and 63 more.
	 */
	void (*wide)(int16_t *const dst[], size_t to, const struct byte_group *g, uint32_t n,
		     uint32_t taps, uint32_t step, const struct byte_sum sums[], uint32_t rows,
		     int16_t *turned);
	/* A row of a group's components. */
	void (*samples)(int16_t *const dst[], const struct byte_group *g, uint32_t n,
			const struct byte_source *from);
	/* Rows of the tensor; pixels: all 3 channels to dst[0], one after the other. */
	void (*results)(uint8_t *const dst[], const struct byte_row in[], uint32_t n,
			const struct byte_values *v, uint32_t nout, bool pixels);
	/*
	 * samples() and results() in one, for pixels of BYTES_YUV and BYTES_BGR_OF_YUV. g[0] is
	 * luma, g[1] is chroma; both are loaded as BYTES_32. If kept[0].a is not NULL, `kept` has
	 * the rows of chroma, and luma may be BYTES_IN_ORDER.
	 */
	void (*direct)(uint8_t *dst, const struct byte_group g[2], const struct byte_source from[2],
		       const struct byte_row kept[2], uint32_t n, const struct byte_values *v);
	/* Pixels that are copied: the words are at places, or with NULL one behind the other. */
	void (*copied)(uint8_t *dst, const int32_t *places, const uint8_t *row, uint32_t n,
		       const uint8_t order[48], uint8_t flip);
	/*
	 * Means of a mosaic's nearest samples, rounded half up. to[0] gets the row's own colour
	 * beside green, to[1] green, to[2] the other; pixels: all 3 to[0], with `back` in reverse.
	 */
	void (*mosaic)(uint8_t *const to[3], const struct mosaic_row *from, uint32_t n,
		       bool pixels, bool back, uint8_t flip);
	bool planar;	/* the next takes planar pairs, which the others can make as fast */
	/* The same for pairs, or NULL: rows of luma and chroma, with one more sample at the end. */
	void (*pairs)(uint8_t *dst, const struct byte_pairs *pairs,
		      const struct byte_source from[2], uint32_t n,
		      const struct byte_values *v);
	/* prepare_kernels.colours() of three rows of samples, to three channels; or NULL */
	void (*floats)(float *const out[], const struct byte_row in[3], uint32_t n,
		       const struct values *to);
	/*
	 * As direct(), to floats. Y counts the same for all channels, U not for R, V not for B;
	 * or NULL.
	 */
	void (*direct_floats)(float *const out[], const struct byte_group g[2],
			      const struct byte_source from[2], const struct byte_row kept[2],
			      uint32_t n, const struct values *to);
};

/* rows.c: the values of a plane's row, in the place of one before `oldest` if it is not there. */
const void *prepare_fetch(const struct dlbuf_prepare *p, const struct band *b, uint32_t plane,
			  const void *data, int64_t pitch, int64_t row, int64_t oldest);

/* rows.c: a row of a mosaic: bytes with p->mosaic, numbers of the type of s->rows without. */
struct mosaic_row prepare_mosaic_row(const struct dlbuf_prepare *p, const struct band *b,
				     const void *data, int64_t pitch, int64_t row);

/*
 * bytes.c: whether a plan is computed in fixed point, and its groups. Then its tables and a
 * band's rows.
 */
bool prepare_bytes_find(struct dlbuf_prepare *p);
void prepare_bytes_tables(struct dlbuf_prepare *p, struct arena *from);
void prepare_bytes_band(const struct dlbuf_prepare *p, struct band *b, struct arena *from);
/* The tables' contents, when the rings are known. */
void prepare_bytes_fill(struct dlbuf_prepare *p);
/*
 * Computes output row y. dst is its first value; the next one is `along` later, the next channel
 * `channel` later. For plans in floats it only finds the samples.
 */
void prepare_bytes_row(const struct dlbuf_prepare *p, const struct band *b,
		       const void *const planes[], const int64_t pitches[], uint32_t y,
		       uint8_t *dst, int64_t along, int64_t channel,
		       struct byte_samples *samples);

/* The code for this processor; that for bytes may be NULL. */
const struct prepare_kernels *prepare_choose(const struct byte_kernels **bytes);

extern const struct prepare_kernels prepare_kernels;
#if defined(__x86_64__)
extern const struct prepare_kernels prepare_kernels_avx2;
extern const struct byte_kernels byte_kernels_avx2, byte_kernels_sse41;
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
extern const struct byte_kernels byte_kernels_neon;
#endif

#endif /* DLBUF_LIB_PREPARE_H */
