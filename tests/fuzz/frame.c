// SPDX-License-Identifier: MIT
/*
 * Any bytes as a frame and as import options: nothing may crash, wrap, read
 * outside, or return a layout that is not in the frame. A frame that fits into
 * its buffers is imported: each element is read and written, fences are waited
 * for, its lease fires, and the tensors become the frame again.
 *
 *	build/.../tests/fuzz/frame -max_total_time=60 tests/fuzz/corpus/frame
 */
#include <dlbuf/dlbuf.h>

#include "fuzz.h"
#include "layout_model.h"
#include "memory.h"

static uint32_t codes[2][512];
static uint32_t ncodes[2];
static int same;			/* another number of the first buffer */

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

/* Mostly a buffer, by one of its numbers; otherwise any number. */
static int plane_fd(uint8_t n)
{
	return n < 5 ? memory.fds[0] : n < 8 ? memory.fds[n % NMEMORY] : n < 10 ? memory.ro[0] :
	       n < 11 ? memory.ro[1] : n < 14 ? same : n == 14 ? -1 : 1000;
}

/* A few values of `which` set a member that has no meaning yet. */
static void set_unused(struct dlbuf_frame *f, uint8_t which)
{
	switch (which) {
	case 25:
	case 26:
		f->planes[which - 25].reserved = which;
		break;
	case 27:
	case 28:
		f->colour.reserved[which - 27] = which;
		break;
	case 29:
		f->reserved2 = f;
		break;
	case 30:
		f->reserved = which;
		break;
	case 31:
		f->flags |= 1u << 31;
	}
}

static bool has_unused(const struct dlbuf_frame *f)
{
	bool set = f->flags & ~7u || f->reserved || f->reserved2 || f->colour.reserved[0] ||
		   f->colour.reserved[1];

	for (uint32_t i = 0; i < f->nplanes && i < DLBUF_MAX_PLANES; i++)
		set |= f->planes[i].reserved != 0;
	return set;
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
		p->fd = plane_fd(bits & 15);
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
	/* 4 is no order: what lies behind its refusal needs the others. */
	f->order = (bits >> 1 & 7) % 5;
	f->fence = (int)(bits >> 4) - 1;
	bits = byte(in);
	f->flags = bits & 7;
	set_unused(f, bits >> 3);
}

static bool extent(const struct dlbuf_frame_layout *l, uint64_t *first,
		   uint64_t *end)
{
	int ret = dlbuf_layout_extent(&l->layout, first, end);
	uint64_t f, e;

	/* Rows may lie beyond 64 bits, or before the buffer. */
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

/* A crop shows a part of the tensors without a crop. */
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

/* The tensors describe the frame again, if its format is made of such tensors. */
static void check_way_back(const struct dlbuf_frame *f, DLManagedTensorVersioned *t[], uint32_t n,
			   uint32_t asked)
{
	struct dlbuf_frame back = { .size = sizeof(back), .code = f->code,
				    .code_space = f->code_space };
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	struct dlbuf_import_opts o = { .size = sizeof(o) };
	uint32_t k = 0;

	if (dlbuf_frame_from_tensors(t, n, 0, &back)) {
		CHECK(dlbuf_last_error()[0]);
		return;
	}
	CHECK(!dlbuf_frame_layouts(&back, &o, l, &k) && k == n);
	/* The stride of a dimension of one element may differ. */
	for (uint32_t i = 0; i < n; i++)
		for (int d = 0; d < l[i].layout.ndim && d < t[i]->dl_tensor.ndim; d++)
			if (l[i].shape[d] == 1)
				l[i].strides[d] = t[i]->dl_tensor.strides[d];
	CHECK(asked != DLBUF_READ || back.flags & DLBUF_FRAME_READ_ONLY);
	touch_frame(t, l, n, asked);
	dlbuf_frame_drop(&back);
}

/* For consumers that know no offsets, crops or one fd for several planes. */
static void check_expand(const struct dlbuf_frame *f, uint8_t bits)
{
	struct dlbuf_frame e = { .size = sizeof(e) };

	if (dlbuf_frame_expand(f, bits, &e)) {
		CHECK(dlbuf_last_error()[0]);
		return;
	}
	CHECK(e.nplanes >= 1 && e.nplanes <= DLBUF_MAX_PLANES && e.nplanes >= f->nplanes);
	for (uint32_t i = 0; i < e.nplanes; i++)
		CHECK(memory_of(e.planes[i].fd) >= 0 && e.planes[i].offset < MEMORY_BYTES);
}

/* A format is found by its code and by each of its names. */
static void check_names(const struct dlbuf_frame *f)
{
	struct dlbuf_format_info info = { .size = sizeof(info) }, again = { .size = sizeof(again) };
	const char *channels = dlbuf_format_channels(f->code, f->modifier, f->code_space);
	const char *text = (const char *)&f->code;
	char any[5] = { text[0], text[1], text[2], text[3], 0 };
	int ret = dlbuf_format_find(f->code, f->modifier, f->code_space, &info);

	CHECK(ret == 0 || ret == -EINVAL);
	CHECK(ret ? !channels : channels == info.channels);
	ret = dlbuf_format_find_name(any, f->code_space, &again);
	CHECK(ret == 0 || ret == -EINVAL);
	if (info.drm_name && info.drm_code)
		CHECK(!dlbuf_format_find_name(info.drm_name, DLBUF_CODE_DRM, &again) &&
		      again.drm_code == info.drm_code);
}

/* The fence of the frame: all that use it wait for it. *writer, or -1, signals it. */
static int get_fence(const struct dlbuf_frame *f, int *writer)
{
	int fd;

	*writer = -1;
	if (f->order != DLBUF_ORDER_FENCE || f->fence < 3)
		return f->fence;
	if (f->fence >= 12)
		return f->fence == 12 ? memory.fds[0] : 1000;
	fd = eventfd(f->fence >= 8, EFD_CLOEXEC);
	CHECK(fd >= 0);
	*writer = fd;
	return fd;
}

static void check_import(struct input *in, struct dlbuf_frame *f, struct dlbuf_import_opts *o)
{
	const struct dlbuf_acquire_opts now = { .size = sizeof(now), .deadline_ns = 1 };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	unsigned int fired = __atomic_load_n(&memory.fired, __ATOMIC_SEQ_CST);
	uint32_t n = 77, want = 0, asked = byte(in) & 3;
	bool good, pending, fenced;
	int writer, ret;

	o->access = asked;
	good = frame_is_good(f, o, l, &want) && (uint32_t)f->order <= DLBUF_ORDER_FENCE &&
	       !has_unused(f);
	if (f->flags & DLBUF_FRAME_READ_ONLY) {
		good &= !(asked & DLBUF_WRITE);
		asked = DLBUF_READ;
	}
	f->fence = get_fence(f, &writer);
	fenced = f->order == DLBUF_ORDER_FENCE && f->fence != -1 && f->fence;
	pending = writer >= 0 && memory_fence_is_pending(writer);
	/* It is attached to each plane. */
	for (uint32_t i = 0; fenced && i < f->nplanes && i < DLBUF_MAX_PLANES; i++)
		good &= memory_of(f->planes[i].fd) >= 0;
	good &= !fenced || writer >= 0;
	f->release = fire;
	check_expand(f, byte(in));
	ret = dlbuf_import_frame(memory.cpu, f, o, t, &n);
	CHECK(good == !ret);
	if (ret) {
		CHECK(dlbuf_last_error()[0] && n == 77 && !t[0]);
	} else if (pending) {
		CHECK(dlbuf_acquire(t[0], DLBUF_READ, NULL, &now) == -ETIME);
		CHECK(n == 1 || dlbuf_acquire_all(t, n, DLBUF_READ, NULL, &now) == -ETIME);
	}
	if (pending)
		memory_signal(writer);
	CHECK(n == (ret ? 77 : want));
	if (!ret) {
		touch_frame(t, l, n, asked);
		check_way_back(f, t, n, asked);
	}
	while (!ret && n) {
		CHECK(__atomic_load_n(&memory.fired, __ATOMIC_SEQ_CST) == fired);
		n--, t[n]->deleter(t[n]);
	}
	if (writer >= 0)
		close(writer);
	memory_settle();
	CHECK(__atomic_load_n(&memory.fired, __ATOMIC_SEQ_CST) == fired + !ret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	struct dlbuf_import_opts o = { .size = sizeof(o) };
	struct dlbuf_frame f;
	unsigned int fds;
	uint32_t n = 77;
	uint8_t bits;
	int ret;

	memory_begin();
	if (!ncodes[0]) {
		CHECK(!dlbuf_format_each(collect, NULL));
		same = fcntl(memory.fds[0], F_DUPFD_CLOEXEC, 3);
		CHECK(same >= 0);
	}
	fds = memory_settle();
	bits = byte(&in);
	o.view = bits & 15;
	o.flags = bits >> 4 & 3;
	get_frame(&in, &f);
	check_names(&f);
	ret = dlbuf_frame_layouts(&f, &o, l, &n);
	CHECK(ret || !has_unused(&f));
	if (ret) {
		CHECK(ret == -EINVAL || ret == -EOPNOTSUPP ||
		      ret == -EOVERFLOW || ret == -ERANGE);
		CHECK(n == 77 && dlbuf_last_error()[0]);
	} else {
		check_layouts(&f, l, n);
		if (o.view != DLBUF_VIEW_STACKED && o.view != DLBUF_VIEW_BYTES)
			check_crop(&f, o, l, n);
	}
	check_import(&in, &f, &o);
	CHECK(memory_settle() == fds);
	return 0;
}
