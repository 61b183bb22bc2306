// SPDX-License-Identifier: MIT
/* The bytes that a layout uses: by table, by enumeration, by wider numbers. */
#include "ktap.h"

#include <dlbuf/layout.h>

#include "import/layout.h"
#include "layout_model.h"

#define MAX INT64_MAX
#define MIN INT64_MIN

static const DLDataType u8 = { kDLUInt, 8, 1 };

/* ---------------------------------------------------------------- by table */

struct row {
	const char *what;
	int ndim;
	int64_t shape[4];
	bool strided;
	int64_t strides[4];
	DLDataType dtype;
	uint64_t offset;
	int ret;
	uint64_t first, end;
};

static const struct row rows[] = {
	{ "a row of bytes", 1, { 10 }, false, { 0 }, { kDLUInt, 8, 1 }, 0,
	  0, 0, 10 },
	{ "an image of three channels behind a header", 3, { 4, 5, 3 }, false,
	  { 0 }, { kDLUInt, 8, 1 }, 4096, 0, 4096, 4156 },
	{ "rows with a pitch end with their last pixel", 3, { 4, 5, 3 }, true,
	  { 64, 3, 1 }, { kDLUInt, 8, 1 }, 0, 0, 0, 3 * 64 + 15 },
	{ "floats count in elements", 2, { 4, 5 }, true, { 16, 1 },
	  { kDLFloat, 32, 1 }, 8, 0, 8, 8 + (3 * 16 + 5) * 4 },
	{ "lanes make elements larger", 1, { 5 }, false, { 0 },
	  { kDLFloat, 32, 4 }, 0, 0, 0, 80 },
	{ "a single element", 0, { 0 }, false, { 0 }, { kDLFloat, 64, 1 }, 8,
	  0, 8, 16 },
	{ "a single element of one byte at the end of 64 bits", 0, { 0 },
	  false, { 0 }, { kDLUInt, 8, 1 }, UINT64_MAX - 1, 0, UINT64_MAX - 1,
	  UINT64_MAX },
	{ "and one further", 0, { 0 }, false, { 0 }, { kDLUInt, 8, 1 },
	  UINT64_MAX, -EOVERFLOW, 0, 0 },

	{ "no elements", 2, { 0, 7 }, false, { 0 }, { kDLUInt, 8, 1 }, 12,
	  0, 12, 12 },
	{ "no elements at the far end", 1, { 0 }, false, { 0 },
	  { kDLUInt, 8, 1 }, UINT64_MAX, 0, UINT64_MAX, UINT64_MAX },
	{ "no elements, shape and strides of any size", 4, { MAX, MAX, 0, MAX },
	  true, { MIN, MAX, MIN, -1 }, { kDLUInt, 64, 1 }, 16, 0, 16, 16 },
	{ "no elements, compact strides that do not fit", 4,
	  { 0, MAX, MAX, MAX }, false, { 0 }, { kDLUInt, 64, 1 }, 0, 0, 0, 0 },

	{ "one value for the whole image", 2, { 1080, 1920 }, true, { 0, 0 },
	  { kDLUInt, 8, 1 }, 7, 0, 7, 8 },
	{ "one row, repeated", 2, { 1080, 1920 }, true, { 0, 1 },
	  { kDLUInt, 8, 1 }, 0, 0, 0, 1920 },
	{ "a stride of one dimension's single index is not used", 2, { 1, 4 },
	  true, { MIN, 1 }, { kDLUInt, 8, 1 }, 0, 0, 0, 4 },
	{ "overlapping windows", 2, { 6, 5 }, true, { 1, 1 },
	  { kDLUInt, 8, 1 }, 0, 0, 0, 10 },

	{ "rows from the last to the first", 2, { 4, 8 }, true, { -8, 1 },
	  { kDLUInt, 8, 1 }, 24, 0, 0, 32 },
	{ "one byte before the start", 2, { 4, 8 }, true, { -8, 1 },
	  { kDLUInt, 8, 1 }, 23, -ERANGE, 0, 0 },
	{ "both directions", 2, { 3, 3 }, true, { -10, 1 },
	  { kDLInt, 16, 1 }, 40, 0, 0, 46 },
	{ "the end does not count backward strides", 1, { 100 }, true, { -1 },
	  { kDLInt, 32, 1 }, 396, 0, 0, 400 },
	{ "backward by all of 63 bits", 2, { 2, 2 }, true, { MIN, 0 },
	  { kDLUInt, 8, 1 }, 1ull << 63, 0, 0, (1ull << 63) + 1 },
	{ "backward by all of 63 bits and one", 2, { 2, 2 }, true, { MIN, -1 },
	  { kDLUInt, 8, 1 }, 1ull << 63, -EOVERFLOW, 0, 0 },
	{ "backward by 2^63 elements of two bytes", 1, { 2 }, true, { MIN },
	  { kDLUInt, 16, 1 }, 0, -EOVERFLOW, 0, 0 },
	{ "backward from too near the start", 1, { 2 }, true, { MIN },
	  { kDLUInt, 8, 1 }, (1ull << 63) - 1, -ERANGE, 0, 0 },
	{ "a negative stride times many", 1, { MAX }, true, { -1 },
	  { kDLUInt, 8, 1 }, MAX - 1, 0, 0, MAX },
	{ "a product of 2^126", 1, { MAX }, true, { MAX },
	  { kDLUInt, 8, 1 }, 0, -EOVERFLOW, 0, 0 },
	{ "a product of -2^126", 1, { MAX }, true, { MIN },
	  { kDLUInt, 8, 1 }, 0, -EOVERFLOW, 0, 0 },

	{ "the largest compact layout", 1, { MAX }, false, { 0 },
	  { kDLUInt, 8, 1 }, 0, 0, 0, MAX },
	{ "2^61 elements of 4 bytes", 2, { 1ll << 31, 1ll << 30 }, false,
	  { 0 }, { kDLFloat, 32, 1 }, 0, -EOVERFLOW, 0, 0 },
	{ "one element less", 1, { (1ll << 61) - 1 }, false, { 0 },
	  { kDLFloat, 32, 1 }, 0, 0, 0, (1ull << 63) - 4 },
	{ "an offset that makes it not fit", 1, { (1ll << 61) - 1 }, false,
	  { 0 }, { kDLFloat, 32, 1 }, (1ull << 63) + 4, -EOVERFLOW, 0, 0 },
	{ "2^64 + 1 elements of one byte's memory", 2,
	  { 67280421310721, 274177 }, true, { 0, 0 }, { kDLUInt, 8, 1 }, 0,
	  -EOVERFLOW, 0, 0 },
	{ "2^64 + 1 elements without strides", 2, { 67280421310721, 274177 },
	  false, { 0 }, { kDLUInt, 8, 1 }, 0, -EOVERFLOW, 0, 0 },
	{ "2^63 elements of one byte's memory", 2, { 1ll << 32, 1ll << 31 },
	  true, { 0, 0 }, { kDLUInt, 8, 1 }, 0, -EOVERFLOW, 0, 0 },
	{ "2^63 - 1 elements of one byte's memory", 1, { MAX }, true, { 0 },
	  { kDLUInt, 8, 1 }, 7, 0, 7, 8 },
	{ "2^62 elements of 2 bytes over the same two", 1, { 1ll << 62 }, true,
	  { 0 }, { kDLUInt, 16, 1 }, 0, -EOVERFLOW, 0, 0 },
	{ "one element less over the same two", 1, { (1ll << 62) - 1 }, true,
	  { 0 }, { kDLUInt, 16, 1 }, 0, 0, 0, 2 },
	{ "2^64 elements and none", 3, { 1ll << 32, 1ll << 32, 0 }, true,
	  { 0, 0, 0 }, { kDLUInt, 8, 1 }, 0, 0, 0, 0 },
	{ "a shape product of 2^63", 2, { 1ll << 32, 1ll << 31 }, false,
	  { 0 }, { kDLUInt, 8, 1 }, 0, -EOVERFLOW, 0, 0 },
	{ "a shape product that wraps to zero", 2, { 1ll << 32, 1ll << 32 },
	  false, { 0 }, { kDLUInt, 8, 1 }, 0, -EOVERFLOW, 0, 0 },
	{ "a shape product that wraps to a small number", 2,
	  { 3, 6148914691236517206ll }, false, { 0 }, { kDLUInt, 8, 1 }, 0,
	  -EOVERFLOW, 0, 0 },
	{ "a sum of two that wraps", 2, { 2, 2 }, true, { MAX, 1 },
	  { kDLUInt, 8, 1 }, 0, -EOVERFLOW, 0, 0 },

	{ "a negative shape", 2, { 4, -1 }, false, { 0 }, { kDLUInt, 8, 1 }, 0,
	  -EINVAL, 0, 0 },
	{ "a negative shape behind an empty one", 2, { 0, MIN }, false, { 0 },
	  { kDLUInt, 8, 1 }, 0, -EINVAL, 0, 0 },
	{ "65 dimensions", 65, { 1 }, false, { 0 }, { kDLUInt, 8, 1 }, 0,
	  -EINVAL, 0, 0 },
	{ "-1 dimensions", -1, { 1 }, false, { 0 }, { kDLUInt, 8, 1 }, 0,
	  -EINVAL, 0, 0 },
	{ "INT32_MIN dimensions", INT32_MIN, { 1 }, false, { 0 },
	  { kDLUInt, 8, 1 }, 0, -EINVAL, 0, 0 },
	{ "INT32_MAX dimensions", INT32_MAX, { 1 }, false, { 0 },
	  { kDLUInt, 8, 1 }, 0, -EINVAL, 0, 0 },

	{ "no bits", 1, { 4 }, false, { 0 }, { kDLUInt, 0, 1 }, 0, -EINVAL,
	  0, 0 },
	{ "no lanes", 1, { 4 }, false, { 0 }, { kDLUInt, 8, 0 }, 0, -EINVAL,
	  0, 0 },
	{ "no bits in an empty layout", 1, { 0 }, false, { 0 },
	  { kDLUInt, 0, 1 }, 0, -EINVAL, 0, 0 },
	{ "one 4-bit value", 1, { 4 }, false, { 0 },
	  { kDLFloat4_e2m1fn, 4, 1 }, 0, -EOPNOTSUPP, 0, 0 },
	{ "4-bit values in pairs", 1, { 4 }, false, { 0 },
	  { kDLFloat4_e2m1fn, 4, 2 }, 1, 0, 1, 5 },
	{ "6-bit values in fours", 1, { 4 }, false, { 0 },
	  { kDLFloat6_e2m3fn, 6, 4 }, 1, 0, 1, 13 },
	{ "6-bit values in twos", 1, { 4 }, false, { 0 },
	  { kDLFloat6_e2m3fn, 6, 2 }, 0, -EOPNOTSUPP, 0, 0 },
	{ "single bits in eights", 1, { 4 }, false, { 0 },
	  { kDLUInt, 1, 8 }, 3, 0, 3, 7 },
	{ "12-bit values", 1, { 4 }, false, { 0 }, { kDLUInt, 12, 1 }, 0,
	  -EOPNOTSUPP, 0, 0 },
	{ "24-bit values need no alignment", 1, { 4 }, false, { 0 },
	  { kDLUInt, 24, 1 }, 5, 0, 5, 17 },
	{ "bool", 1, { 4 }, false, { 0 }, { kDLBool, 8, 1 }, 3, 0, 3, 7 },
	{ "a code from the future", 1, { 4 }, false, { 0 }, { 200, 16, 1 }, 2,
	  0, 2, 10 },

	{ "an odd offset of 16-bit values", 1, { 4 }, false, { 0 },
	  { kDLUInt, 16, 1 }, 1, -EINVAL, 0, 0 },
	{ "lanes do not raise the alignment", 1, { 4 }, false, { 0 },
	  { kDLUInt, 16, 4 }, 2, 0, 2, 34 },
	{ "complex64 is aligned as its halves", 1, { 2 }, false, { 0 },
	  { kDLComplex, 64, 1 }, 4, 0, 4, 20 },
	{ "complex64 at half a half", 1, { 2 }, false, { 0 },
	  { kDLComplex, 64, 1 }, 2, -EINVAL, 0, 0 },
	{ "bcomplex is aligned as its halves", 1, { 2 }, false, { 0 },
	  { kDLBcomplex, 32, 1 }, 2, 0, 2, 10 },
	{ "bcomplex at half a half", 1, { 2 }, false, { 0 },
	  { kDLBcomplex, 32, 1 }, 1, -EINVAL, 0, 0 },
	{ "complex128", 1, { 1 }, false, { 0 }, { kDLComplex, 128, 1 }, 8, 0,
	  8, 24 },
	{ "an unaligned offset in an empty layout", 1, { 0 }, false, { 0 },
	  { kDLUInt, 32, 1 }, 2, -EINVAL, 0, 0 },
};

static void check_row(const struct row *r)
{
	int64_t shape[65], strides[65];
	DLTensor layout = {
		.ndim = r->ndim,
		.dtype = r->dtype,
		.shape = r->ndim ? shape : NULL,
		.strides = r->strided ? strides : NULL,
		.byte_offset = r->offset,
	};
	uint64_t first = 123, end = 456;

	for (int i = 0; i < 65; i++) {
		shape[i] = i < 4 ? r->shape[i] : 1;
		strides[i] = i < 4 ? r->strides[i] : 1;
	}
	if (r->ret) {
		CHECK_ERR(dlbuf_layout_extent(&layout, &first, &end), r->ret);
		CHECK_EQ(first, 123);
		CHECK_EQ(end, 456);
		return;
	}
	CHECK_OK(dlbuf_layout_extent(&layout, &first, &end));
	CHECK_EQ(first, r->first);
	CHECK_EQ(end, r->end);
	CHECK_OK(layout_fits(end, r->end));
	if (r->end)
		CHECK_ERR(layout_fits(end, r->end - 1), -ERANGE);
}

TEST(table)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned int before = ktap.result->failures;

		check_row(&rows[i]);
		if (ktap.result->failures != before)
			ktap_note(__FILE__, __LINE__, "that was: %s",
				  rows[i].what);
	}
}

/* ---------------------------------------------------------------- pointers */

TEST(null_arguments)
{
	int64_t shape[] = { 2, 3 };
	DLTensor layout = { .ndim = 2, .dtype = u8, .shape = shape };
	uint64_t a = 1, b = 2;

	CHECK_ERR(dlbuf_layout_extent(NULL, &a, &b), -EINVAL);
	CHECK_ERR(dlbuf_layout_extent(&layout, NULL, &b), -EINVAL);
	CHECK_ERR(dlbuf_layout_extent(&layout, &a, NULL), -EINVAL);
	layout.shape = NULL;
	CHECK_ERR(dlbuf_layout_extent(&layout, &a, &b), -EINVAL);
	layout.shape = shape;
	layout.data = shape;
	CHECK_ERR(dlbuf_layout_extent(&layout, &a, &b), -EINVAL);
	CHECK_EQ(a, 1);
	CHECK_EQ(b, 2);
	/* shape and strides of a single element are not looked at. */
	layout = (DLTensor){ .dtype = u8, .shape = shape, .strides = shape };
	CHECK_OK(dlbuf_layout_extent(&layout, &a, &b));
	CHECK_EQ(b, 1);
}

TEST(the_device_is_not_looked_at)
{
	int64_t shape[] = { 2 };
	DLTensor layout = { .ndim = 1, .dtype = u8, .shape = shape,
			    .device = { (DLDeviceType)1234, -5 } };
	uint64_t first, end;

	CHECK_OK(dlbuf_layout_extent(&layout, &first, &end));
}

TEST(sixty_four_dimensions)
{
	int64_t shape[64], strides[64];
	DLTensor layout = { .ndim = 64, .dtype = u8, .shape = shape };
	uint64_t first, end;

	for (int i = 0; i < 64; i++) {
		shape[i] = i < 62 ? 2 : 1;
		strides[i] = 1;
	}
	CHECK_OK(dlbuf_layout_extent(&layout, &first, &end));
	CHECK_EQ(end, 1ull << 62);
	layout.strides = strides;
	CHECK_OK(dlbuf_layout_extent(&layout, &first, &end));
	CHECK_EQ(end, 63);
	shape[62] = shape[63] = 2;
	layout.strides = NULL;
	CHECK_ERR(dlbuf_layout_extent(&layout, &first, &end), -EOVERFLOW);
}

TEST(compact_strides_are_written)
{
	int64_t shape[] = { 4, 5, 3 }, strides[3], copy[3];
	DLTensor layout = { .ndim = 3, .dtype = u8, .shape = shape };

	CHECK(!layout_copy(&layout, copy, strides));
	CHECK(!memcmp(copy, shape, sizeof(shape)));
	CHECK_EQ(strides[0], 15);
	CHECK_EQ(strides[1], 3);
	CHECK_EQ(strides[2], 1);
	/* Without elements too, with any strides. */
	shape[1] = 0;
	shape[0] = shape[2] = INT64_MAX;
	CHECK(layout_copy(&layout, copy, strides));
}

TEST(says_what_is_wrong)
{
	int64_t shape[] = { 2, -7 };
	DLTensor layout = { .ndim = 2, .dtype = u8, .shape = shape };
	uint64_t first, end;

	CHECK_ERR_SAYS(dlbuf_layout_extent(&layout, &first, &end), -EINVAL, "shape[1]");
	CHECK_SAYS("-7");
	layout.ndim = 65;
	CHECK_ERR_SAYS(dlbuf_layout_extent(&layout, &first, &end), -EINVAL, "65");
}

/* ---------------------------------------------------------------- dtypes */

TEST(every_dtype)
{
	/* Bits of each code, in DLPack's order; 0: any. A code from the future has any. */
	static const uint8_t own[] = { 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 6, 6, 4, 0, 0 };
	static const uint16_t lanes[] = { 0, 1, 2, 3, 4, 8, 16, 65535 };
	static const uint64_t offsets[] = { 0, 1, 2, 4, 6, 8, 12, 16 };
	unsigned int wrong = 0;

	for (int bits = 0; bits < 256; bits++)
	for (size_t c = 0; c < sizeof(own); c++)
	for (size_t l = 0; l < sizeof(lanes) / sizeof(lanes[0]); l++)
	for (size_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++) {
		DLTensor layout = { .dtype = { c < sizeof(own) - 1 ? c : 255, bits, lanes[l] },
				    .byte_offset = offsets[o] };
		unsigned int align = 1;
		uint64_t first = 0, end = 0;
		int want = 0, ret;

		/* 8, 16, 32 ... bits are aligned, complex ones as halves. */
		for (int b = 8; b <= 128; b *= 2)
			if (bits == b)
				align = b / 8;
		if ((c == kDLComplex || c == kDLBcomplex) && align > 1)
			align /= 2;
		if (!bits || !lanes[l] || (own[c] && bits != own[c]))
			want = -EINVAL;
		else if (bits * lanes[l] % 8)
			want = -EOPNOTSUPP;
		else if (offsets[o] % align)
			want = -EINVAL;
		ret = dlbuf_layout_extent(&layout, &first, &end);
		if (ret != want ||
		    (!ret && (first != offsets[o] ||
			      end != offsets[o] + bits * lanes[l] / 8)))
			wrong += CHECK_MSG(false, "code %d, %d bits, %d lanes, "
					   "offset %d: %d, not %d", (int)c,
					   bits, lanes[l], (int)offsets[o],
					   ret, want) + 1;
		if (wrong > 10)
			return;
	}
	CHECK_EQ(wrong, 0);
}

/* ---------------------------------------------------------------- models */

/* xorshift64*: the same numbers on every machine. */
static uint64_t seed;

static uint64_t draw(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 2685821657736338717ull;
}

static int64_t between(int64_t low, int64_t high)
{
	return low + (int64_t)(draw() % (uint64_t)(high - low + 1));
}

static void tell(const DLTensor *l)
{
	char text[800];
	size_t n = 0;

	for (int i = 0; i < l->ndim && n < sizeof(text); i++)
		n += snprintf(text + n, sizeof(text) - n, " %lld*%lld",
			      (long long)l->shape[i],
			      l->strides ? (long long)l->strides[i] : 0);
	ktap_note(NULL, 0, "layout: offset %llu, dtype %d.%d.%d,%s:%s",
		  (unsigned long long)l->byte_offset, l->dtype.code,
		  l->dtype.bits, l->dtype.lanes,
		  l->strides ? "" : " compact", n ? text : " no dimension");
}

/* Small layouts: every element's address is looked at. */
TEST(enumerated)
{
	static const uint8_t sizes[] = { 8, 16, 32, 64 };

	seed = 20261120;
	for (int round = 0; round < 20000; round++) {
		int64_t shape[4], strides[4], index[4] = { 0 };
		DLTensor l = {
			.ndim = between(0, 4),
			.dtype = { kDLUInt, sizes[draw() % 4],
				   between(1, 3) },
			.shape = shape,
			.strides = strides,
		};
		int64_t bytes = l.dtype.bits / 8 * l.dtype.lanes;
		int64_t low = INT64_MAX, high = INT64_MIN;
		uint64_t first = 0, end = 0;
		bool none = false, more = true;
		int ret, want = 0;

		l.byte_offset = between(0, 40) * (l.dtype.bits / 8);
		for (int i = 0; i < l.ndim; i++) {
			shape[i] = between(draw() % 10 ? 1 : 0, 4);
			strides[i] = between(-9, 20);
			none |= !shape[i];
		}
		while (!none && more) {
			int64_t at = l.byte_offset;

			for (int i = 0; i < l.ndim; i++)
				at += index[i] * strides[i] * bytes;
			low = at < low ? at : low;
			high = at + bytes > high ? at + bytes : high;
			more = false;
			for (int i = l.ndim - 1; i >= 0 && !more; i--) {
				more = ++index[i] < shape[i];
				if (!more)
					index[i] = 0;
			}
		}
		if (none)
			low = high = l.byte_offset;
		if (low < 0)
			want = -ERANGE;
		ret = dlbuf_layout_extent(&l, &first, &end);
		if (!CHECK_EQ(ret, want) ||
		    (!ret && (!CHECK_EQ(first, low) || !CHECK_EQ(end, high)))) {
			tell(&l);
			return;
		}
	}
}

#ifdef __SIZEOF_INT128__
/* Any number that a caller may come up with, the nasty ones often. */
static int64_t nasty(bool negative)
{
	static const int64_t edges[] = {
		0, 1, 2, 3, 255, 4096, INT32_MAX, 1ll << 31, UINT32_MAX,
		1ll << 32, (1ll << 32) + 1, (1ll << 62) - 1, 1ll << 62,
		INT64_MAX - 1, INT64_MAX, 3037000499, 3037000500,
	};
	int64_t n = edges[draw() % (sizeof(edges) / sizeof(edges[0]))];

	switch (draw() % 4) {
	case 0:
		n = draw() >> 1 >> draw() % 63;
		break;
	case 1:
		n = between(0, 70);
		break;
	}
	if (negative && draw() % 2)
		return draw() % 8 ? -n : INT64_MIN;
	return n;
}

TEST(random_against_128_bits)
{
	static const uint8_t sizes[] = { 8, 16, 24, 32, 64, 128 };
	unsigned int seen[4] = { 0 };

	seed = 0x5eed;
	for (int round = 0; round < 200000; round++) {
		int64_t shape[64], strides[64];
		uint64_t first = 1, end = 2, f = 1, e = 2;
		DLTensor l = {
			.ndim = draw() % 50 ? between(0, 5) : between(0, 64),
			.dtype = { kDLUInt, sizes[draw() % 6],
				   draw() % 4 ? 1 : between(1, 65535) },
			.shape = shape,
			.strides = draw() % 3 ? strides : NULL,
		};
		int ret, want;

		l.byte_offset = draw() % 3 ? (uint64_t)nasty(false) : draw();
		l.byte_offset &= ~15ull;
		for (int i = 0; i < l.ndim; i++) {
			shape[i] = nasty(false);
			strides[i] = nasty(true);
		}
		want = layout_model(&l, &f, &e);
		ret = dlbuf_layout_extent(&l, &first, &end);
		if (!CHECK_EQ(ret, want) || !CHECK_EQ(first, f) ||
		    !CHECK_EQ(end, e)) {
			tell(&l);
			return;
		}
		seen[!want ? 0 : want == -EOVERFLOW ? 1 : 2]++;
	}
	/* The numbers were such that each answer occurred. */
	CHECK(seen[0] > 5000);
	CHECK(seen[1] > 5000);
	CHECK(seen[2] > 1000);
}
#endif

KTAP_MAIN()
