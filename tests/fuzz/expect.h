/* SPDX-License-Identifier: MIT */
/* The tensors that a receiver must get from a message, of any sender. */
#ifndef DLBUF_TESTS_FUZZ_EXPECT_H
#define DLBUF_TESTS_FUZZ_EXPECT_H

#include "layout_model.h"
#include "memory.h"
#include "socket/message.h"

/* A layout of any dimensions that fits into a buffer. */
static inline void get_good_layout(struct input *in, DLTensor *l,
				   int64_t dims[2 * DLBUF_MAX_NDIM])
{
	static const DLDataType types[] = {
		{ kDLUInt, 8, 1 }, { kDLInt, 16, 1 }, { kDLFloat, 32, 1 }, { kDLComplex, 128, 1 },
		{ kDLBool, 8, 1 }, { kDLBfloat, 16, 2 }, { 17, 4, 2 }, { kDLUInt, 8, 3 },
	};
	uint8_t bits = byte(in);
	uint64_t first, end;

	*l = (DLTensor){ .ndim = bits % 65, .shape = dims, .dtype = types[byte(in) % 8] };
	l->strides = byte(in) & 1 ? dims + l->ndim : NULL;
	for (int i = 0; i < l->ndim; i++) {
		bits = byte(in);
		/* None that is new: one that a neighbour cannot have. */
		dims[i] = bits < 3 ? bits : bits < 16 ? 2 + bits % 5 : 1;
		bits = byte(in);
		if (l->strides)
			dims[l->ndim + i] = bits < 250 ? bits % 25 - 8 : (int64_t)number(in);
	}
	l->byte_offset = byte(in) * 64;
	if (layout_model(l, &first, &end) || end > MEMORY_BYTES)
		*l = (DLTensor){ .dtype = { kDLUInt, 8, 1 }, .byte_offset = 3 };
}

struct expect {
	bool valid;		/* as far as its sender goes */
	bool frame;
	uint32_t n;		/* tensors; of a frame they are known with the view */
	/* For each tensor; fd is the sender's. */
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	int64_t dims[DLBUF_MAX_PLANES][2 * DLBUF_MAX_NDIM];
	uint32_t access[DLBUF_MAX_PLANES];
	struct dlbuf_frame f;
	uint32_t asked;		/* by the receiver */
};

static inline void expect_tensor(struct expect *e, const DLTensor *l, int fd, uint32_t access)
{
	int64_t *dims = e->dims[e->n];

	e->access[e->n] = access;
	e->l[e->n] = (struct dlbuf_frame_layout){ .fd = fd, .layout = *l };
	for (int i = 0; i < l->ndim; i++) {
		dims[i] = l->shape[i];
		dims[l->ndim + i] = l->strides ? l->strides[i] : 0;
	}
	e->n++;
}

static inline void expect_frame(struct expect *e, const struct dlbuf_frame *f)
{
	*e = (struct expect){ .valid = true, .frame = true, .f = *f };
}

/* A copy of an expectation has pointers into the first one. */
static inline void expect_point(struct expect *e)
{
	for (uint32_t i = 0; !e->frame && i < e->n; i++) {
		DLTensor *l = &e->l[i].layout;

		l->shape = e->dims[i];
		/* Without strides: those of C order. */
		l->strides = l->strides ? e->dims[i] + l->ndim : NULL;
	}
}

/* Computes them from a parsed message and its fds. */
static inline void expect_message(struct expect *e, const struct message *m, const int fds[])
{
	const struct message_head *h = &m->head;
	uint32_t access[MESSAGE_MAX_BUFFERS], all = DLBUF_RW;
	int next = h->nbuffers;

	*e = (struct expect){ .valid = true };
	for (unsigned int i = 0; i < h->nbuffers; i++) {
		access[i] = (h->access[i] & DLBUF_WRITE ? DLBUF_RW : DLBUF_READ) &
			    access_of(fds[i], 0);
		e->valid &= memory_of(fds[i]) >= 0 && access[i];
		all &= access[i];
	}
	if (h->flags & MESSAGE_FENCE)
		e->valid &= memory_is_fence(fds[next++]);
	if (h->flags & MESSAGE_HOLD)
		e->valid &= fcntl(fds[next], F_GETPIPE_SZ) >= 0;
	if (h->kind == MESSAGE_TENSORS) {
		for (unsigned int i = 0; i < h->ntensors; i++)
			expect_tensor(e, &m->layouts[i].layout, fds[m->buffer[i]],
				      access[m->buffer[i]]);
		return;
	}
	e->frame = true;
	e->valid &= all != 0;
	e->f = m->frame;
	if (all == DLBUF_READ)
		e->f.flags |= DLBUF_FRAME_READ_ONLY;
	for (unsigned int i = 0; i < m->frame.nplanes; i++)
		e->f.planes[i].fd = fds[m->buffer[i]];
}

/* Whether a receiver with these options gets it. */
static inline bool expect_begin(struct expect *e, const struct dlbuf_import_opts *opts)
{
	struct dlbuf_import_opts o = *opts;
	uint64_t first, end;
	bool ro;

	expect_point(e);
	e->asked = opts->access;
	if (!e->valid)
		return false;
	if (e->frame) {
		ro = e->f.flags & DLBUF_FRAME_READ_ONLY;
		for (uint32_t i = 0; i < e->f.nplanes; i++)
			ro |= access_of(e->f.planes[i].fd, 0) == DLBUF_READ;
		if (ro && opts->access & DLBUF_WRITE)
			return false;
		o.access = 0;
		if (ro)
			e->asked = DLBUF_READ;
		return frame_is_good(&e->f, &o, e->l, &e->n);
	}
	for (uint32_t i = 0; i < e->n; i++)
		if (opts->access & ~e->access[i] ||
		    dlbuf_layout_extent(&e->l[i].layout, &first, &end) || end > MEMORY_BYTES)
			return false;
	return true;
}

/* After expect_begin(): the tensors, and the data about the frame. */
static inline void expect_touch(const struct expect *e, DLManagedTensorVersioned *t[], uint32_t n,
				const struct dlbuf_frame *f)
{
	CHECK(n == e->n);
	for (uint32_t i = 0; i < n; i++)
		touch(t[i], &e->l[i].layout, memory_of(e->l[i].fd),
		      e->asked == DLBUF_READ ? DLBUF_READ :
		      e->frame ? access_of(e->l[i].fd, 0) :
		      e->access[i] & DLBUF_WRITE ? DLBUF_RW : DLBUF_READ);
	if (!f)
		return;
	CHECK(f->nplanes == (e->frame ? e->f.nplanes : 0));
	if (!e->frame)
		return;
	CHECK(f->width == e->f.width && f->height == e->f.height && f->code == e->f.code &&
	      f->code_space == e->f.code_space && f->modifier == e->f.modifier &&
	      f->timestamp_ns == e->f.timestamp_ns && f->sequence == e->f.sequence &&
	      f->fence == -1 && !f->release && f->order != DLBUF_ORDER_FENCE &&
	      !memcmp(&f->crop, &e->f.crop, sizeof(f->crop)) &&
	      !memcmp(&f->colour, &e->f.colour, sizeof(f->colour)));
	for (uint32_t i = 0; i < f->nplanes; i++) {
		CHECK(f->planes[i].pitch == e->f.planes[i].pitch &&
		      f->planes[i].offset == e->f.planes[i].offset &&
		      f->planes[i].bytes == e->f.planes[i].bytes);
		CHECK(f->planes[i].fd == -1 ||
		      memory_of(f->planes[i].fd) == memory_of(e->f.planes[i].fd));
	}
}

#endif /* DLBUF_TESTS_FUZZ_EXPECT_H */
