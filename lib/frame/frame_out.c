// SPDX-License-Identifier: MIT
/* Describes tensors as a frame, and prepares frames for consumers. */
#include <errno.h>
#include <unistd.h>

#include <dlbuf/frame.h>

#include "../access/lease.h"
#include "../access/pending.h"
#include "../dmabuf/buffer.h"
#include "../dmabuf/fence.h"
#include "../import/layout.h"
#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "../tensor/sync.h"
#include "../tensor/tensor.h"
#include "format.h"
#include "frame.h"

/* A frame owns this: a share of each tensor keeps the memory. */
struct hold {
	uint32_t n;
	int fence;
	DLManagedTensorVersioned *shares[DLBUF_MAX_PLANES];
};

static void hold_free(void *data)
{
	struct hold *h = data;

	while (h->n--)
		h->shares[h->n]->deleter(h->shares[h->n]);
	if (h->fence != -1)
		close(h->fence);
	free(h);
}

static int find_format(const struct dlbuf_frame *f, const struct format **out)
{
	bool linear;
	int ret = frame_find_format(f, out, &linear);

	if (ret)
		return ret;
	if (!linear)
		return fail(-EINVAL, "tensors have rows: the modifier is LINEAR");
	if (!(format_views(*out) & 1u << DLBUF_VIEW_PLANES))
		return fail(-EOPNOTSUPP, "%s is not made of such tensors: %s",
			    format_name(*out), format_reason(*out));
	return 0;
}

static int check_type(const DLTensor *l, uint32_t i, const struct format *format,
		      struct dlbuf_format_plane p)
{
	int ndim = p.channels > 1 ? 3 : 2;

	if (l->dtype.code != format->type || l->dtype.bits != format->bits ||
	    l->dtype.lanes != 1)
		return fail(-EINVAL, "tensor %u has values of type %u and %u bits, %s of type "
			    "%u and %u", i, l->dtype.code, l->dtype.bits, format_name(format),
			    format->type, format->bits);
	if (l->ndim == ndim && (ndim == 2 || l->shape[2] == p.channels))
		return 0;
	return ndim == 2 ?
	       fail(-EINVAL, "tensor %u is not plane %u of %s, which is [rows, columns]", i, i,
		    format_name(format)) :
	       fail(-EINVAL, "tensor %u is not plane %u of %s, which is [rows, columns, %u]",
		    i, i, format_name(format), p.channels);
}

/*
 * Checks that the tensor is rows from top to bottom, each with its values one after
 * another. A single row has the pitch that its tensor was made with, if that is a valid
 * pitch.
 */
static int check_rows(const DLTensor *l, uint32_t i, struct dlbuf_format_plane p,
		      int64_t *pitch)
{
	int64_t row = l->shape[1] * p.channels;

	*pitch = l->strides[0];
	if (l->shape[0] == 1 && (*pitch < row || *pitch > INT32_MAX))
		*pitch = row;
	if ((p.channels > 1 && l->strides[2] != 1) ||
	    (l->shape[1] > 1 && l->strides[1] != p.channels) || *pitch < row)
		return fail(-EOPNOTSUPP, "tensor %u has no rows of a picture: strides of %lld "
			    "and %lld values for rows of %lld", i, (long long)l->strides[0],
			    (long long)l->strides[1], (long long)row);
	return 0;
}

static int check_picture(const DLTensor *l, uint32_t i, struct dlbuf_format_plane p,
		      struct dlbuf_frame *f)
{
	uint64_t rows = l->shape[0], columns = l->shape[1];

	if (!rows || !columns || rows > UINT32_MAX || columns > UINT32_MAX / p.hsub)
		return fail(-EINVAL, "tensor %u is %llu by %llu values large", i,
			    (unsigned long long)rows, (unsigned long long)columns);
	if (!f->width)
		f->width = columns * p.hsub;
	if (!f->height)
		f->height = rows;
	/* Packed 4:2:2 shares chroma between two pixels of one group. */
	if (!i && f->width % p.hsub)
		return fail(-EINVAL, "a width of %u is not a multiple of %u, as this format "
			    "needs", f->width, p.hsub);
	if (columns != format_groups(f->width, p.hsub) || rows != format_groups(f->height, p.vsub))
		return fail(-EINVAL, "tensor %u has %llu rows and %llu columns, of %ux%u "
			    "pixels there are %llu and %llu", i, (unsigned long long)rows,
			    (unsigned long long)columns, f->width, f->height,
			    (unsigned long long)format_groups(f->height, p.vsub),
			    (unsigned long long)format_groups(f->width, p.hsub));
	return 0;
}

static int describe_plane(const struct tensor *t, uint32_t i, const struct format *format,
			  struct dlbuf_format_plane p, struct dlbuf_frame *f)
{
	DLTensor l = tensor_layout(t);
	int64_t pitch;
	int ret;

	if (t->imp->staging)
		return fail(-EOPNOTSUPP, "tensor %u is the library's own copy of a frame, "
			    "whose buffer it uses again: copy it into a buffer of yours", i);
	if (__atomic_load_n(&t->acquired, __ATOMIC_ACQUIRE))
		return fail(-EBUSY, "tensor %u is acquired: release it first", i);
	ret = check_type(&l, i, format, p);
	if (!ret)
		ret = check_picture(&l, i, p, f);
	if (!ret)
		ret = check_rows(&l, i, p, &pitch);
	if (ret)
		return ret;
	f->planes[i] = (struct dlbuf_plane){
		.fd = t->imp->fd,
		.offset = t->first,
		.pitch = pitch * (format->bits / 8),
		.bytes = t->end - t->first,
	};
	return 0;
}

/* Waits for work that has no fence, and collects the fences of the other work. */
static int order_work(DLManagedTensorVersioned *const tensors[], uint32_t n,
		      uint64_t deadline_ns, int *fence)
{
	const struct wait wait = { .fence = -1, .deadline_ns = deadline_ns };
	struct use uses[DLBUF_MAX_PLANES];
	uint32_t nuses = 0;

	for (uint32_t i = 0; i < n; i++)
		use_add(uses, &nuses, sync_use(tensor_at(tensors, i)->imp, DLBUF_READ));
	return sync_wait(tensors, n, uses, nuses, &wait, fence);
}

static int hold(DLManagedTensorVersioned *const tensors[], uint32_t n, struct hold **out)
{
	struct hold *h = sys_calloc(1, sizeof(*h));
	int ret = 0;

	if (!h)
		return -ENOMEM;
	h->fence = -1;
	while (!ret && h->n < n) {
		ret = dlbuf_tensor_share(tensors[h->n], NULL, &h->shares[h->n]);
		h->n += !ret;
	}
	if (ret)
		hold_free(h);
	else
		*out = h;
	return ret;
}

int dlbuf_frame_from_tensors(DLManagedTensorVersioned *const tensors[], size_t n,
			     uint64_t deadline_ns, struct dlbuf_frame *frame)
{
	NOT_CANCELLED;
	struct dlbuf_format_plane planes[DLBUF_MAX_PLANES];
	struct tensor *t[DLBUF_MAX_PLANES];
	const struct format *format;
	struct dlbuf_frame f;
	struct hold *h;
	int ret;

	if (!frame || !tensors)
		return fail(-EINVAL, "%s is NULL", frame ? "tensors" : "frame");
	ret = OPTS_GET(&f, frame, "dlbuf_frame");
	/* The caller's planes are not used. */
	f.nplanes = 0;
	if (!ret)
		ret = find_format(&f, &format);
	if (ret)
		return ret;
	f.nplanes = format_planes(format, planes);
	if (n != f.nplanes)
		return fail(-EINVAL, "%s has %u planes, and there are %zu tensors",
			    format_name(format), f.nplanes, n);
	for (uint32_t i = 0; !ret && i < n; i++) {
		ret = tensor_of(tensors[i], &t[i]);
		if (!ret)
			ret = describe_plane(t[i], i, format, planes[i], &f);
		if (!ret && !(t[i]->imp->id.access & DLBUF_WRITE))
			f.flags |= DLBUF_FRAME_READ_ONLY;
	}
	if (!ret)
		ret = frame_crop(&f, &(struct dlbuf_rect){ 0 });
	if (!ret)
		ret = frame_one_fd_each(&f);
	if (!ret)
		ret = hold(tensors, n, &h);
	if (ret)
		return ret;
	ret = order_work(tensors, n, deadline_ns, &h->fence);
	if (ret) {
		hold_free(h);
		return ret;
	}
	f.order = h->fence == -1 ? DLBUF_ORDER_COMPLETE : DLBUF_ORDER_FENCE;
	f.fence = h->fence;
	f.release = hold_free;
	f.release_data = h;
	f.lease = NULL;
	return INFO_PUT(frame, &f, "dlbuf_frame");
}

/* ---- frames for a consumer */

/* Fills in each plane of a linear frame, with its position in the crop. */
static int expand_linear(const struct dlbuf_frame *f, const struct format *format,
			 uint32_t flags, struct dlbuf_frame *out)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	struct dlbuf_frame whole = *f;
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	int ret;

	opts.view = format_rows_view(format);
	if (opts.view == DLBUF_VIEW_BYTES)
		return fail(-EOPNOTSUPP, "%s has no rows: %s", format_name(format),
			    format_reason(format));
	if (!(flags & DLBUF_EXPAND_CROPPED))
		whole.crop = (struct dlbuf_rect){ 0 };
	ret = frame_layouts(&whole, &opts, l, &out->nplanes);
	for (uint32_t i = 0; !ret && i < out->nplanes; i++) {
		uint64_t first, end, bytes;

		ret = buffer_size(l[i].fd, l[i].fd, &bytes);
		if (!ret)
			ret = layout_extent(&l[i].layout, &first, &end);
		if (!ret && end > bytes)
			ret = fail(-ERANGE, "plane %u ends at byte %llu, its dma-buf at %llu", i,
				   (unsigned long long)end, (unsigned long long)bytes);
		if (ret)
			break;
		out->planes[i] = (struct dlbuf_plane){
			.fd = l[i].fd,
			.offset = l[i].layout.byte_offset,
			.pitch = l[i].strides[0] * (l[i].layout.dtype.bits / 8),
			.bytes = bytes - l[i].layout.byte_offset,
		};
	}
	return ret;
}

/*
 * Only the driver of the modifier knows the layout inside the planes, so only their beginning is
 * checked.
 */
static int expand_tiled(const struct dlbuf_frame *f, uint32_t flags, struct dlbuf_frame *out)
{
	if (f->modifier == DLBUF_MOD_INVALID)
		return fail(-EOPNOTSUPP, "the frame's modifier is INVALID, which means "
			    "unknown: say LINEAR if it is");
	if (!f->nplanes || f->nplanes > DLBUF_MAX_PLANES || !f->width || !f->height)
		return fail(-EINVAL, "the frame has %u planes and %ux%u pixels", f->nplanes,
			    f->width, f->height);
	if (flags & DLBUF_EXPAND_CROPPED &&
	    (out->crop.width != f->width || out->crop.height != f->height))
		return fail(-EOPNOTSUPP, "a frame that is not linear cannot be cropped");
	for (uint32_t i = 0; i < f->nplanes; i++) {
		struct dlbuf_plane *p = &out->planes[i];
		uint64_t bytes;
		int ret = buffer_size(p->fd, p->fd, &bytes);

		if (ret)
			return ret;
		if (p->offset >= bytes)
			return fail(-ERANGE, "plane %u begins at byte %llu, its dma-buf ends at "
				    "%llu", i, (unsigned long long)p->offset,
				    (unsigned long long)bytes);
		if (!p->bytes)
			p->bytes = bytes - p->offset;
	}
	return 0;
}

static int access_of(const struct dlbuf_frame *f, uint32_t *flags)
{
	struct buffer_id id;
	int ret = 0;

	for (uint32_t i = 0; !ret && i < f->nplanes; i++) {
		ret = buffer_identify(f->planes[i].fd, &id);
		if (!ret && !(id.access & DLBUF_WRITE))
			*flags |= DLBUF_FRAME_READ_ONLY;
	}
	return ret;
}

int dlbuf_frame_expand(const struct dlbuf_frame *frame, uint32_t flags, struct dlbuf_frame *out)
{
	const struct format *format;
	struct dlbuf_frame f, e;
	bool linear;
	int ret;

	if (!frame || !out)
		return fail(-EINVAL, "%s is NULL", frame ? "out" : "frame");
	if (flags & ~DLBUF_EXPAND_CROPPED)
		return fail(-EINVAL, "flags 0x%x has unknown bits", flags);
	ret = OPTS_GET(&f, frame, "dlbuf_frame");
	if (!ret)
		ret = frame_find_format(&f, &format, &linear);
	if (ret)
		return ret;
	e = f;
	ret = frame_crop(&f, &e.crop);
	if (!ret)
		ret = linear ? expand_linear(&f, format, flags, &e) :
			       expand_tiled(&f, flags, &e);
	if (!ret)
		ret = frame_one_fd_each(&e);
	if (!ret)
		ret = access_of(&e, &e.flags);
	if (!ret && frame_fence(&f) != -1)
		ret = fence_check_file(f.fence);
	if (!ret)
		ret = lease_share(&e);
	if (ret)
		return ret;
	if (!e.lease)
		e.release = NULL;
	e.lease = NULL;
	if (flags & DLBUF_EXPAND_CROPPED) {
		e.width = e.crop.width;
		e.height = e.crop.height;
	}
	if (flags & DLBUF_EXPAND_CROPPED || !f.crop.width)
		e.crop = (struct dlbuf_rect){ 0 };
	ret = INFO_PUT(out, &e, "dlbuf_frame");
	if (ret)
		dlbuf_frame_drop(&e);
	return ret;
}
