// SPDX-License-Identifier: MIT
/* Makes tensors, and deletes them. */
#include <errno.h>
#include <string.h>

#include <dlbuf/frame.h>

#include "../access/lease.h"
#include "../dmabuf/fence.h"
#include "../import/backend.h"
#include "../import/layout.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "sync.h"
#include "tensor.h"

const unsigned int *tensor_lease_users(const DLManagedTensorVersioned *tensor)
{
	struct lease *lease = container_of(tensor, struct tensor,
					   versioned)->lease;

	return lease ? &lease->refs : NULL;
}

/* Reports an error that no call has reported: to the lease, or to the log. */
__attribute__((noinline))
static void before_drop(struct tensor *t, bool inherited)
{
	NOT_CANCELLED;
	int err = inherited ? 0 : fence_error(t->before);

	lease_failed(t->lease, err);
	if (err && !t->lease)
		log_at(DLBUF_LOG_WARN, "%s: work before a tensor's last access "
		       "ended with error %d", t->imp->dev->name, -err);
	close(t->before);
}

static void tensor_destroy(struct tensor *t)
{
	struct import *imp = t->imp;
	struct lease *lease = t->lease;
	uint32_t acquired = __atomic_exchange_n(&t->acquired, 0,
						__ATOMIC_ACQ_REL);

	/* A parent's tensor: takes no lock, and calls neither driver nor lease. */
	if (device_inherited(imp->dev)) {
		if (t->before)
			before_drop(t, true);
		if (!t->lent)
			free(t);
		return;
	}
	/* After dlbuf_acquire_fence() the application's work counts as complete. */
	if (acquired && !t->by_fence &&
	    tensor_release(t, acquired, &(struct access_stream){ .handle = t->stream }, NULL))
		log_at(DLBUF_LOG_ERROR, "%s: release at deletion: %s",
		       imp->dev->name, dlbuf_last_error());
	if (acquired)
		sync_drop_stream(t, t->stream);
	if (t->before)
		before_drop(t, false);
	__atomic_sub_fetch(&imp->dev->cache.tensors, 1, __ATOMIC_RELAXED);
	if (!t->lent)
		free(t);
	cache_unref(imp);
	/* The lease is last, because its callback may do anything, even close the device. */
	lease_unref(lease);
}

void tensor_delete(DLManagedTensorVersioned *self)
{
	/*
	 * Uses manager_ctx, not self: a consumer may have copied the struct and calls the deleter
	 * of its copy.
	 */
	if (self)
		tensor_destroy(self->manager_ctx);
}

static void delete_legacy(DLManagedTensor *self)
{
	if (self)
		tensor_destroy(container_of(self, struct tensor, legacy));
}

static inline void fill_dl(struct tensor *t, DLTensor *dl, const DLTensor *layout)
{
	const struct import *imp = t->imp;
	int64_t *shape = t->dims, *strides = t->dims + layout->ndim;
	bool empty = layout_copy(layout, shape, strides);

	*dl = (DLTensor){
		.device = imp->dev->dl,
		.ndim = layout->ndim,
		.dtype = layout->dtype,
		.shape = layout->ndim ? shape : NULL,
		.strides = layout->ndim ? strides : NULL,
	};
	if (empty)
		return;
	/*
	 * Frameworks have shipped bugs that ignore byte_offset, so it is used
	 * only where there is no address to add it to.
	 */
	if (imp->opaque) {
		dl->data = imp->data;
		dl->byte_offset = layout->byte_offset;
	} else {
		dl->data = (char *)imp->data + layout->byte_offset;
	}
}

size_t tensor_size(int ndim)
{
	return sizeof(struct tensor) +
	       2 * ndim * sizeof(((struct tensor *)NULL)->dims[0]);
}

static inline int tensor_alloc(struct import *imp, int ndim, uint64_t first,
			uint64_t end, struct lease *lease, void *room,
			struct tensor **out)
{
	struct tensor *t = room ? room : sys_calloc(1, tensor_size(ndim));

	if (!t)
		return -ENOMEM;
	t->lent = room;
	t->imp = imp;
	t->lease = lease;
	t->first = first;
	t->end = end;
	if (lease && !room)
		lease_ref(lease);
	__atomic_add_fetch(&imp->dev->cache.tensors, 1, __ATOMIC_RELAXED);
	*out = t;
	return 0;
}

int tensor_create(struct import *imp, const DLTensor *layout, uint64_t first,
		  uint64_t end, struct lease *lease, void *room,
		  struct tensor **out)
{
	DLManagedTensorVersioned *dl;
	struct tensor *t;
	int ret;

	ret = tensor_alloc(imp, layout->ndim, first, end, lease, room, &t);
	if (ret)
		return ret;
	dl = &t->versioned;
	dl->version.major = DLPACK_MAJOR_VERSION;
	dl->version.minor = DLPACK_MINOR_VERSION;
	dl->manager_ctx = t;
	dl->deleter = tensor_delete;
	if (!(imp->id.access & DLBUF_WRITE))
		dl->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
	fill_dl(t, &dl->dl_tensor, layout);
	*out = t;
	return 0;
}

int tensor_bad_access(const struct tensor *t, uint32_t access)
{
	if (!access || access & ~(uint32_t)DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ, WRITE or RW",
			    access);
	return fail(-EACCES, "the tensor is %s", t->imp->id.access & DLBUF_READ ?
		    "read-only" : "write-only");
}

int tensor_refused(const DLManagedTensorVersioned *dl)
{
	if (!dl)
		return fail(-EINVAL, "the tensor is NULL");
	if (dl->version.major != DLPACK_MAJOR_VERSION)
		return fail(-EINVAL, "the tensor is of DLPack %u.%u, dlbuf "
			    "speaks %u.%u", dl->version.major,
			    dl->version.minor, DLPACK_MAJOR_VERSION,
			    DLPACK_MINOR_VERSION);
	if (dl->deleter != tensor_delete)
		return fail(-EINVAL, "the tensor is not one of dlbuf");
	if (dl->manager_ctx != container_of(dl, struct tensor, versioned))
		return fail(-EINVAL, "the tensor is not one of dlbuf: a copy of "
			    "its struct, see dlbuf_tensor_share()");
	return fail(-ESTALE, "the tensor belongs to the process that forked this "
		    "one");
}

int import_opts_get(const struct dlbuf_import_opts *opts,
		    struct dlbuf_import_opts *o)
{
	const uint32_t known = DLBUF_IMPORT_MAY_COPY | DLBUF_IMPORT_KEEP;
	int ret;

	if (!opts) {
		*o = (struct dlbuf_import_opts){ 0 };
		return 0;
	}
	ret = OPTS_GET(o, opts, "dlbuf_import_opts");
	if (ret)
		return ret;
	if (o->flags & ~known)
		return unknown_flags("import", o->flags & ~known);
	if (o->view >= DLBUF_NVIEWS)
		return fail(-EINVAL, "view %u is unknown", o->view);
	if (o->access & ~(uint32_t)DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ, WRITE or RW",
			    o->access);
	if (o->paths & ~(PATHS_SHARED | PATHS_COPIED))
		return fail(-EINVAL, "paths 0x%x are unknown",
			    o->paths & ~(PATHS_SHARED | PATHS_COPIED));
	if (!import_paths(o))
		return fail(-EINVAL, "opts.paths has only paths that copy, which "
			    "the option MAY_COPY allows");
	return 0;
}

uint32_t import_paths(const struct dlbuf_import_opts *o)
{
	uint32_t paths = PATHS_SHARED;

	if (o->flags & DLBUF_IMPORT_MAY_COPY)
		paths |= PATHS_COPIED;
	return o->paths ? paths & o->paths : paths;
}

int tensor_import(struct dlbuf_device *dev, int fd, const DLTensor *layout,
		  uint32_t access, uint32_t paths,
		  DLManagedTensorVersioned **out)
{
	struct import *imp;
	struct tensor *t;
	uint64_t first, end;
	int ret;

	ret = dlbuf_layout_extent(layout, &first, &end);
	if (ret)
		return ret;
	ret = cache_get(dev, fd, access, paths, end, &imp);
	if (ret)
		return ret;
	ret = tensor_create(imp, layout, first, end, NULL, NULL, &t);
	if (ret) {
		cache_unref(imp);
		return ret;
	}
	*out = &t->versioned;
	return 0;
}

/* Options of an import that is not of a frame. */
static int plain_opts_get(const struct dlbuf_import_opts *opts,
			  struct dlbuf_import_opts *o)
{
	int ret = import_opts_get(opts, o);

	if (!ret && o->view)
		ret = fail(-EINVAL, "view is for dlbuf_import_frame()");
	return ret;
}

int dlbuf_import(struct dlbuf_device *dev, int fd, const DLTensor *layout,
		 const struct dlbuf_import_opts *opts,
		 DLManagedTensorVersioned **tensor)
{
	struct dlbuf_import_opts o;
	bool tried = false;
	int ret;

	if (!tensor)
		return fail(-EINVAL, "tensor is NULL");
	ret = device_check(dev);
	if (!ret)
		ret = plain_opts_get(opts, &o);
	if (ret)
		return ret;
	do
		ret = tensor_import(dev, fd, layout, o.access, import_paths(&o),
				    tensor);
	while (ret && device_relieve(ret, &tried));
	return ret;
}

DLTensor tensor_layout(const struct tensor *t)
{
	DLTensor layout = t->versioned.dl_tensor;

	/* Without elements the struct does not contain the tensor's address. */
	if (!layout.data)
		layout.byte_offset = t->first;
	else if (!t->imp->opaque)
		layout.byte_offset = (char *)layout.data - (char *)t->imp->data;
	layout.data = NULL;
	return layout;
}

/*
 * DLPack's IS_COPIED promises a single owner. Threads may share a tensor at once; not every
 * CPU has atomics of 64 or of 8 bits, and the flag is in the lower half.
 */
static void owners_grow(struct tensor *t)
{
	const int low = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	uint32_t __attribute__((may_alias)) *flags =
		(void *)((char *)&t->versioned.flags + 4 * low);

	if (__atomic_load_n(flags, __ATOMIC_RELAXED) & DLPACK_FLAG_BITMASK_IS_COPIED)
		__atomic_fetch_and(flags, ~(uint32_t)DLPACK_FLAG_BITMASK_IS_COPIED,
				   __ATOMIC_RELAXED);
}

/* The bytes of the dma-buf of a layout that begins where t does. */
static int layout_within(const struct tensor *t, DLTensor *layout, uint64_t *first,
			 uint64_t *end)
{
	const uint64_t offset = layout->byte_offset;
	int ret;

	if (__builtin_add_overflow(t->first, offset, &layout->byte_offset))
		return fail(-EOVERFLOW, "byte_offset %llu does not fit 64 bits "
			    "from the start of the dma-buf",
			    (unsigned long long)offset);
	ret = dlbuf_layout_extent(layout, first, end);
	if (!ret && (*first < t->first || *end > t->end))
		ret = fail(-ERANGE, "the view has bytes %llu to %llu of the "
			   "dma-buf, and the tensor only %llu to %llu",
			   (unsigned long long)*first, (unsigned long long)*end,
			   (unsigned long long)t->first,
			   (unsigned long long)t->end);
	return ret;
}

int dlbuf_tensor_share(const DLManagedTensorVersioned *tensor,
		       const DLTensor *layout, DLManagedTensorVersioned **out)
{
	struct tensor *t, *other;
	uint64_t first, end;
	DLTensor at;
	int ret;

	if (!out)
		return fail(-EINVAL, "out is NULL");
	ret = tensor_of(tensor, &t);
	if (ret)
		return ret;
	at = layout ? *layout : tensor_layout(t);
	first = t->first;
	end = t->end;
	if (layout)
		ret = layout_within(t, &at, &first, &end);
	if (!ret)
		ret = tensor_create(t->imp, &at, first, end, t->lease, NULL, &other);
	if (ret)
		return ret;
	owners_grow(t);
	cache_ref(t->imp);
	*out = &other->versioned;
	return 0;
}

/* tensor_import() of the bytes that t covers, with t's lease. */
static int import_again(struct dlbuf_device *dev, const struct tensor *t,
			uint32_t access, uint32_t paths,
			DLManagedTensorVersioned **out)
{
	const DLTensor layout = tensor_layout(t);
	struct tensor *other;
	struct import *imp;
	int ret;

	ret = cache_get(dev, t->imp->fd, access, paths, t->end, &imp);
	if (ret)
		return ret;
	ret = tensor_create(imp, &layout, t->first, t->end, t->lease, NULL,
			    &other);
	if (ret)
		cache_unref(imp);
	else
		*out = &other->versioned;
	return ret;
}

int dlbuf_tensor_import(struct dlbuf_device *dev,
			const DLManagedTensorVersioned *tensor,
			const struct dlbuf_import_opts *opts,
			DLManagedTensorVersioned **out)
{
	struct dlbuf_import_opts o;
	bool tried = false;
	struct tensor *t;
	uint32_t paths;
	int ret;

	if (!out)
		return fail(-EINVAL, "out is NULL");
	ret = device_check(dev);
	if (!ret)
		ret = tensor_of(tensor, &t);
	if (!ret)
		ret = plain_opts_get(opts, &o);
	if (ret)
		return ret;
	if (!o.access)
		o.access = t->imp->id.access;
	if (o.access & ~t->imp->id.access)
		return fail(-EACCES, "the tensor does not allow %s", o.access &
			    ~t->imp->id.access & DLBUF_WRITE ? "writing" :
			    "reading");
	/* Only tensors of its own import prevent the reuse of the buffer. */
	if (t->imp->staging)
		return fail(-EOPNOTSUPP, "the tensor is %s's copy of a frame that "
			    "is not linear: import the frame itself",
			    t->imp->dev->name);
	paths = import_paths(&o);
	if (__atomic_load_n(&t->imp->brief, __ATOMIC_RELAXED))
		paths |= PATHS_BRIEF;
	do
		ret = import_again(dev, t, o.access, paths, out);
	while (ret && device_relieve(ret, &tried));
	return ret;
}

int dlbuf_tensor_share_legacy(const DLManagedTensorVersioned *tensor,
			      DLManagedTensor **out)
{
	struct tensor *t, *other;
	DLTensor layout;
	int ret;

	if (!out)
		return fail(-EINVAL, "out is NULL");
	ret = tensor_of(tensor, &t);
	if (ret)
		return ret;
	if (!(t->imp->id.access & DLBUF_WRITE))
		return fail(-EOPNOTSUPP, "the tensor is read-only, and a "
			    "DLManagedTensor has no flag for that");
	layout = tensor_layout(t);
	ret = tensor_alloc(t->imp, layout.ndim, t->first, t->end, t->lease, NULL,
			   &other);
	if (ret)
		return ret;
	owners_grow(t);
	other->legacy.manager_ctx = other;
	other->legacy.deleter = delete_legacy;
	fill_dl(other, &other->legacy.dl_tensor, &layout);
	cache_ref(t->imp);
	*out = &other->legacy;
	return 0;
}

int dlbuf_tensor_get_info(const DLManagedTensorVersioned *tensor,
			  struct dlbuf_tensor_info *info)
{
	struct tensor *t;
	int ret = tensor_of(tensor, &t);

	if (ret)
		return ret;
	return INFO_PUT(info, (&(struct dlbuf_tensor_info){
		.device = t->imp->dev,
		.fd = t->imp->fd,
		.path = t->imp->path,
		.access = t->imp->id.access,
		.acquired = __atomic_load_n(&t->acquired, __ATOMIC_RELAXED) & DLBUF_RW,
		.dev = t->imp->id.dev,
		.ino = t->imp->id.ino,
		.bytes = t->imp->bytes,
		.first = t->first,
		.end = t->end,
	}), "dlbuf_tensor_info");
}
