// SPDX-License-Identifier: MIT
/*
 * Imports tiled frames: the device copies their planes into rows of a dma-buf that the
 * library makes, and the tensors are over that dma-buf.
 */
#include <errno.h>

#include "../access/lease.h"
#include "../access/pending.h"
#include "../alloc/exporter.h"
#include "../import/backend.h"
#include "../import/layout.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "../tensor/sync.h"
#include "../tensor/tensor.h"
#include "detile.h"
#include "frame.h"

bool detile_linear;

int detile_rows(struct detile *d, uint32_t align, uint64_t *bytes)
{
	const struct dlbuf_frame *from = d->from;
	uint64_t end = 0;

	d->to = *from;
	d->to.modifier = DLBUF_MOD_LINEAR;
	d->to.nplanes = format_planes(d->format, d->planes);
	for (uint32_t i = 0; i < d->to.nplanes; i++) {
		struct dlbuf_format_plane p = d->planes[i];
		uint64_t group = p.channels * (p.bits / 8);
		/* `align` is a power of two, so the common factor is one too. */
		uint64_t both = align < (group & -group) ? align :
							   group & -group;
		uint64_t step = align / both * group;
		uint64_t columns = from->width / p.hsub +
				   (from->width % p.hsub != 0);
		uint64_t rows = from->height / p.vsub +
				(from->height % p.vsub != 0);
		uint64_t pitch = (columns * group + step - 1) / step * step;

		d->to.planes[i] = (struct dlbuf_plane){
			.fd = -1,
			.offset = end,
			.pitch = pitch,
		};
		if (__builtin_mul_overflow(pitch, rows, &rows) ||
		    __builtin_add_overflow(end, rows, &end))
			return fail(-EOVERFLOW, "the rows of %ux%u pixels do "
				    "not fit 64 bits", from->width,
				    from->height);
	}
	*bytes = end;
	return 0;
}

/* Checks a plane of a tiled frame. Only the driver knows where the plane ends. */
static int check_plane(struct dlbuf_plane *plane, uint32_t i,
		       struct buffer_id *id)
{
	uint64_t bytes;
	int ret;

	ret = buffer_identify(plane->fd, id);
	if (!ret)
		ret = buffer_size(plane->fd, plane->fd, &bytes);
	if (ret)
		return ret;
	if (!(id->access & DLBUF_READ))
		return fail(-EACCES, "fd %d was not opened for %s", plane->fd,
			    "reading");
	if (plane->pitch <= 0)
		return fail(-EINVAL, "plane %u: a pitch of %lld bytes, of a "
			    "frame that is not linear", i,
			    (long long)plane->pitch);
	if (plane->offset >= bytes)
		return fail(-ERANGE, "plane %u begins at %llu, the dma-buf has "
			    "%llu bytes", i, (unsigned long long)plane->offset,
			    (unsigned long long)bytes);
	plane->bytes = bytes;
	return 0;
}

/*
 * Collects the dma-bufs that the copy reads, each once. Comparing the fds is not
 * enough: some exporters give each plane another fd of the same buffer.
 */
static int check_planes(struct detile *d, struct dlbuf_frame *from,
			struct buffer_id ids[], struct use *uses,
			uint32_t *nuses)
{
	*nuses = 0;
	for (uint32_t i = 0; i < from->nplanes; i++) {
		int ret = check_plane(&from->planes[i], i, &ids[i]);

		if (ret)
			return ret;
		use_add(uses, nuses, (struct use){ from->planes[i].fd, DLBUF_READ, &ids[i],
						   NULL });
	}
	d->one_buffer = *nuses == 1;
	return 0;
}

static int check_plane_count(const struct detile *d)
{
	const struct dlbuf_frame *f = d->from;

	if (!f->nplanes || f->nplanes > DLBUF_MAX_PLANES)
		return fail(-EINVAL, "the frame has %u planes, 1 to %d "
			    "are possible", f->nplanes, DLBUF_MAX_PLANES);
	if (f->nplanes < d->to.nplanes)
		return fail(-EINVAL, "format %s has %u planes, the frame %u",
			    format_name(d->format), d->to.nplanes, f->nplanes);
	return 0;
}

/* Writes into a copy would not reach the frame, so they are refused. */
static int check_opts(const struct dlbuf_frame *f, const struct dlbuf_import_opts *o)
{
	if (o->access & DLBUF_WRITE)
		return fail(-EOPNOTSUPP, "the tensors are a copy, and a write does not "
			    "reach the frame with modifier 0x%016llx: ask for "
			    "READ", (unsigned long long)f->modifier);
	return 0;
}

/* A planned copy of a frame. */
struct plan {
	struct detile d;
	struct dlbuf_frame from;
	struct buffer_id ids[DLBUF_MAX_PLANES];
	struct use uses[DLBUF_MAX_PLANES + 1];	/* the last one is the copy's */
	uint32_t nuses;
	uint64_t bytes;
};

static int make_plan(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		     const struct format *format, struct plan *p)
{
	int ret;

	p->from = *frame;
	p->d = (struct detile){ .format = format, .from = &p->from };
	if (!dev->backend->can_detile)
		return fail(-EOPNOTSUPP, "device %s cannot read tiled frames, "
			    "this one has modifier 0x%016llx", dev->name,
			    (unsigned long long)frame->modifier);
	ret = detile_rows(&p->d, dev->copy_align, &p->bytes);
	if (!ret)
		ret = check_plane_count(&p->d);
	if (!ret)
		ret = check_planes(&p->d, &p->from, p->ids, p->uses, &p->nuses);
	return ret ? ret : dev->backend->can_detile(dev, &p->d);
}

int detile_check(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		 const struct format *format)
{
	NOT_CANCELLED;
	struct plan p;

	return make_plan(dev, frame, format, &p);
}

struct staging {
	struct dlbuf_device *dev;
	struct import *imp;
};

static int add_staging(int fd, void *data)
{
	struct staging *s = data;
	struct buffer_id id;
	int ret;

	ret = buffer_identify(fd, &id);
	if (!ret)
		ret = import_create(s->dev, fd, &id, id.access, PATHS_SHARED, 0,
				    &s->imp);
	if (ret)
		return ret;
	s->imp->staging = true;
	cache_add(&s->dev->cache, s->imp);
	return 0;
}

static int get_staging(struct dlbuf_device *dev, uint64_t bytes,
		       struct import **out)
{
	struct staging s = { .dev = dev };
	int ret = 0;

	s.imp = cache_take_staging(&dev->cache, bytes + dev->slack);
	if (!s.imp)
		ret = exporter_try(dev, bytes, "dlbuf copy", add_staging, &s);
	if (!ret)
		*out = s.imp;
	return ret;
}

static int make_tensors(struct import *imp,
			struct dlbuf_frame_layout *layouts, uint32_t n,
			DLManagedTensorVersioned *tensors[])
{
	for (uint32_t i = 0; i < n; i++) {
		const DLTensor *layout = &layouts[i].layout;
		uint64_t first, end;
		struct tensor *t;
		int ret = layout_extent(layout, &first, &end);

		if (!ret)
			ret = tensor_create(imp, layout, first, end, NULL, NULL,
					    &t);
		if (ret) {
			while (i--)
				tensors[i]->deleter(tensors[i]);
			return ret;
		}
		cache_ref(imp);
		/* The tensor is the only owner of its bytes until it is shared. */
		t->versioned.flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
		tensors[i] = &t->versioned;
	}
	return 0;
}

/*
 * Submits the copy. It waits for the writers of the planes, and for the readers of the
 * previous copy in the same buffer. Its fence is added to both.
 */
static int submit_copy(struct detile *d, struct use *uses, uint32_t n, struct lease *lease,
		       DLManagedTensorVersioned *const tensors[], uint32_t ntensors)
{
	struct dlbuf_device *dev = d->imp->dev;
	const struct wait wait = { .dev = dev, .fence = frame_fence(d->from) };
	int fence = -1, done = -1, ret;

	uses[n++] = (struct use){ d->imp->fd, DLBUF_WRITE, &d->imp->id, NULL };
	ret = sync_wait(NULL, 0, uses, n, &wait, &fence);
	if (ret)
		return ret;
	do
		ret = dev->backend->detile(d, fence, &done);
	while (sync_again(&ret, &fence, &wait));
	if (!ret)
		lease_follow(lease, fence);
	ret = sync_begun(tensors, ntensors, ret, fence, &wait);
	if (ret) {
		dlbuf_fence_wait(done, 0);
		if (done != -1)
			close(done);
		return ret;
	}
	for (uint32_t i = 0; i < n; i++)
		if (pending_after(uses[i].fd, uses[i].id, uses[i].access, done))
			log_at(DLBUF_LOG_INFO, "waited for a copy: %s",
			       dlbuf_last_error());
	lease_hold_take(lease, done, dev);
	return 0;
}

/* The caller of this function holds a reference, so a failure does not fire the lease. */
static int lease_of(const struct dlbuf_frame *f, struct lease **out)
{
	struct lease *lease;

	*out = NULL;
	if (!f->release)
		return 0;
	lease = lease_create(0);
	if (!lease)
		return -ENOMEM;
	lease->release = f->release;
	lease->data = f->release_data;
	*out = lease;
	return 0;
}

/* Copies into d->imp, and makes the tensors, which each add a user of d->imp. */
static int copy_into(struct detile *d, struct dlbuf_frame_layout *layouts,
		     uint32_t n, struct use *uses, uint32_t nuses,
		     DLManagedTensorVersioned *tensors[])
{
	struct lease *lease;
	int ret;

	ret = lease_of(d->from, &lease);
	if (ret)
		return ret;
	ret = make_tensors(d->imp, layouts, n, tensors);
	if (ret)
		goto err_lease;
	ret = submit_copy(d, uses, nuses, lease, tensors, n);
	if (ret)
		goto err_tensors;
	lease_unref(lease);
	return 0;

err_tensors:
	while (n--)
		tensors[n]->deleter(tensors[n]);
err_lease:
	free(lease);
	return ret;
}

int detile_import(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		  const struct format *format,
		  const struct dlbuf_import_opts *o,
		  DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		  uint32_t *ntensors)
{
	NOT_CANCELLED;
	DLManagedTensorVersioned *made[DLBUF_MAX_PLANES];
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	struct plan p;
	uint32_t n;
	int ret;

	ret = check_opts(frame, o);
	if (!ret)
		ret = make_plan(dev, frame, format, &p);
	if (!ret)
		ret = frame_layouts(&p.d.to, o, layouts, &n);
	if (!ret)
		ret = frame_attach_fence(&p.from);
	if (!ret)
		ret = get_staging(dev, p.bytes, &p.d.imp);
	if (ret)
		return ret;
	/* Access of the tensors. It is set again at each reuse of the staging buffer. */
	p.d.imp->id.access = o->access ? o->access : DLBUF_RW;
	p.d.imp->path = DLBUF_PATH_BRIDGE;
	ret = copy_into(&p.d, layouts, n, p.uses, p.nuses, made);
	cache_unref(p.d.imp);
	if (ret)
		return ret;
	cache_count_copy(&dev->cache, p.bytes);
	for (uint32_t i = 0; i < n; i++)
		tensors[i] = made[i];
	*ntensors = n;
	return 0;
}

int detile_modifiers(struct dlbuf_device *dev, const struct format *format,
		     modifier_fn fn, void *data)
{
	/* A size of whole samples in every plane of every format. */
	const struct dlbuf_frame from = { .width = 64, .height = 64 };
	struct detile d = { .format = format, .from = &from, .one_buffer = true };
	uint64_t bytes;
	int ret;

	if (!dev->backend->modifiers)
		return 0;
	ret = detile_rows(&d, dev->copy_align, &bytes);
	return ret ? ret : dev->backend->modifiers(dev, &d, fn, data);
}
