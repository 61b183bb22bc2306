// SPDX-License-Identifier: MIT
/*
 * Any bytes as a frame and as what is wanted of it: nothing may crash, wrap,
 * read what it must not, or give a layout that is not in the frame.
 *
 *	build/.../tests/fuzz/frame -max_total_time=60 tests/fuzz/corpus/frame
 */
#include <dlbuf/dlbuf.h>

#include "fuzz.h"
#include "layout_model.h"

static uint32_t codes[2][512];
static uint32_t ncodes[2];

static int collect(const struct dlbuf_format_info *info, void *data)
{
	if (info->drm_code)
		codes[0][ncodes[0]++] = info->drm_code;
	if (info->v4l2_code)
		codes[1][ncodes[1]++] = info->v4l2_code;
	if (info->v4l2_multi_code)
		codes[1][ncodes[1]++] = info->v4l2_multi_code;
	return 0;
}

/* Mostly a code that exists. */
static uint32_t code(struct input *in, enum dlbuf_code_space space)
{
	uint32_t list = space == DLBUF_CODE_V4L2;
	uint32_t n = byte(in) << 8;

	n |= byte(in);
	if (n >= 0xff00)
		return number(in);
	return codes[list][n % ncodes[list]];
}

static void get_frame(struct input *in, struct dlbuf_frame *f)
{
	static const uint64_t modifiers[] = {
		DLBUF_MOD_LINEAR, DLBUF_MOD_LINEAR, DLBUF_MOD_LINEAR,
		DLBUF_MOD_INVALID, 11ull << 56 | 1, 1ull << 56 | 13,
		12ull << 56 | 1, 1ull << 56 | 1,
	};
	uint8_t bits = byte(in);

	*f = (struct dlbuf_frame){ .size = sizeof(*f) };
	f->code_space = bits & 3;
	f->nplanes = bits >> 2 & 7;
	f->modifier = modifiers[bits >> 5];
	f->code = code(in, f->code_space);
	f->width = number(in);
	f->height = number(in);
	for (uint32_t i = 0; i < DLBUF_MAX_PLANES && i < f->nplanes; i++) {
		struct dlbuf_plane *p = &f->planes[i];

		bits = byte(in);
		p->fd = (bits & 15) - 1;
		p->pitch = number(in);
		if (bits & 16)
			p->pitch = -(uint64_t)p->pitch;
		p->offset = bits & 32 ? number(in) : 0;
		p->bytes = bits & 64 ? number(in) : 0;
	}
	bits = byte(in);
	if (bits & 1)
		f->crop = (struct dlbuf_rect){ number(in), number(in),
					       number(in), number(in) };
	f->order = bits >> 1 & 7;
	f->fence = (int)(bits >> 4) - 1;
}

static bool extent(const struct dlbuf_frame_layout *l, uint64_t *first,
		   uint64_t *end)
{
	int ret = dlbuf_layout_extent(&l->layout, first, end);
	uint64_t f, e;

	/* Rows may lie outside what 64 bits can count, or before the buffer. */
	CHECK(!ret || ret == -EOVERFLOW || ret == -ERANGE);
	CHECK(ret == layout_model(&l->layout, &f, &e));
	CHECK(ret || (*first == f && *end == e));
	return !ret;
}

static void check_layouts(const struct dlbuf_frame *f,
			  const struct dlbuf_frame_layout *l, uint32_t n)
{
	uint64_t first, end;

	CHECK(n >= 1 && n <= DLBUF_MAX_PLANES);
	for (uint32_t i = 0; i < n; i++) {
		const DLTensor *t = &l[i].layout;

		CHECK(!t->data && t->shape == l[i].shape &&
		      t->strides == l[i].strides);
		CHECK(t->ndim >= 1 && t->ndim <= 4);
		CHECK(t->dtype.lanes == 1 && t->dtype.bits >= 8 &&
		      t->dtype.bits <= 64);
		for (int d = 0; d < t->ndim; d++)
			CHECK(t->shape[d] > 0);
		CHECK(l[i].plane < DLBUF_MAX_PLANES);
		CHECK(l[i].fd == f->planes[l[i].plane < f->nplanes ?
					   l[i].plane : 0].fd);
		if (extent(&l[i], &first, &end))
			CHECK(first < end);
	}
}

/* What a crop shows is part of what there is without it. */
static void check_crop(const struct dlbuf_frame *f, struct dlbuf_import_opts o,
		       const struct dlbuf_frame_layout *part, uint32_t n)
{
	struct dlbuf_frame_layout all[DLBUF_MAX_PLANES];
	uint64_t first, end, all_first, all_end;
	struct dlbuf_frame whole = *f;
	uint32_t nall;

	whole.crop = (struct dlbuf_rect){ 0 };
	/* A group may be whole in the crop and not in the frame. */
	if (dlbuf_frame_layouts(&whole, &o, all, &nall))
		return;
	CHECK(n == nall);
	for (uint32_t i = 0; i < n; i++) {
		if (!extent(&all[i], &all_first, &all_end))
			continue;
		CHECK(extent(&part[i], &first, &end));
		CHECK(first >= all_first && end <= all_end);
	}
}

static void not_called(void *data)
{
	CHECK(!"the lease of a frame that was refused has fired");
}

/* None of these fds is a dma-buf: nothing is made and nothing is kept. */
static void check_import(struct dlbuf_frame *f,
			 const struct dlbuf_import_opts *o)
{
	static struct dlbuf_device *cpu;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	uint32_t n = 77;

	if (!cpu)
		CHECK(!dlbuf_device_open("cpu", NULL, &cpu));
	f->release = not_called;
	CHECK(dlbuf_import_frame(cpu, f, o, t, &n) < 0);
	CHECK(dlbuf_last_error()[0]);
	CHECK(n == 77 && !t[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	struct dlbuf_import_opts o = { .size = sizeof(o) };
	struct dlbuf_frame f;
	uint32_t n = 77;
	uint8_t bits;
	int ret;

	if (!ncodes[0])
		CHECK(!dlbuf_format_each(collect, NULL));
	bits = byte(&in);
	o.view = bits & 15;
	o.flags = bits >> 4 & 3;
	get_frame(&in, &f);
	ret = dlbuf_frame_layouts(&f, &o, l, &n);
	if (ret) {
		CHECK(ret == -EINVAL || ret == -EOPNOTSUPP ||
		      ret == -EOVERFLOW || ret == -ERANGE);
		CHECK(n == 77 && dlbuf_last_error()[0]);
	} else {
		check_layouts(&f, l, n);
		if (o.view != DLBUF_VIEW_STACKED && o.view != DLBUF_VIEW_BYTES)
			check_crop(&f, o, l, n);
	}
	check_import(&f, &o);
	return 0;
}
