// SPDX-License-Identifier: MIT
/*
 * i915 of Linux 6.12 with a Skylake GT2 (8086:1912): one slice of three subslices of eight
 * EUs, system memory only. For ANV.
 */
#include <i915_drm.h>

#include "core.h"

static int getparam(struct drm_i915_getparam *p)
{
	switch (p->param) {
	case I915_PARAM_CHIPSET_ID:
		*p->value = 0x1912;
		return 0;
	case I915_PARAM_REVISION:
		*p->value = 6;
		return 0;
	case I915_PARAM_CS_TIMESTAMP_FREQUENCY:
		*p->value = 12000000;
		return 0;
	case I915_PARAM_MMAP_GTT_VERSION:	/* 4: GEM_MMAP_OFFSET */
		*p->value = 4;
		return 0;
	case I915_PARAM_HAS_WAIT_TIMEOUT:
	case I915_PARAM_HAS_EXECBUF2:
	case I915_PARAM_HAS_EXEC_SOFTPIN:
	case I915_PARAM_HAS_EXEC_FENCE_ARRAY:
	case I915_PARAM_HAS_EXEC_ASYNC:
	case I915_PARAM_HAS_EXEC_CAPTURE:
	case I915_PARAM_HAS_EXEC_TIMELINE_FENCES:
	case I915_PARAM_HAS_CONTEXT_ISOLATION:
	case I915_PARAM_HAS_USERPTR_PROBE:
		*p->value = 1;
		return 0;
	case I915_PARAM_HAS_CONTEXT_FREQ_HINT:
	case I915_PARAM_PERF_REVISION:
		*p->value = 0;
		return 0;
	case I915_PARAM_PXP_STATUS:		/* i915_getparam_ioctl(): no PXP */
		return -ENODEV;
	}
	unknown("I915_PARAM", p->param);
}

/* i915_query_ioctl(): length 0 asks for the size; an item's error is its length. */
static int query_item(struct drm_i915_query_item *item)
{
	struct {
		struct drm_i915_query_topology_info info;
		uint8_t data[5];	/* slices, subslices, EUs */
	} topology = {
		.info = { .max_slices = 1, .max_subslices = 3, .max_eus_per_subslice = 8,
			  .subslice_offset = 1, .subslice_stride = 1,
			  .eu_offset = 2, .eu_stride = 1 },
		.data = { 1, 7, 255, 255, 255 },
	};
	struct {
		struct drm_i915_query_engine_info info;
		struct drm_i915_engine_info list[2];
	} engines = {
		.info.num_engines = 2,
		.list = { { .engine.engine_class = I915_ENGINE_CLASS_RENDER },
			  { .engine.engine_class = I915_ENGINE_CLASS_COPY } },
	};
	struct {
		struct drm_i915_query_memory_regions info;
		struct drm_i915_memory_region_info list[1];
	} regions = {
		.info.num_regions = 1,
		.list = { { .region.memory_class = I915_MEMORY_CLASS_SYSTEM,
			    .probed_size = 8ull << 30, .unallocated_size = 8ull << 30 } },
	};
	const void *from;
	int32_t size;

	switch (item->query_id) {
	case DRM_I915_QUERY_TOPOLOGY_INFO:
		from = &topology;
		size = sizeof(topology.info) + sizeof(topology.data);
		break;
	case DRM_I915_QUERY_ENGINE_INFO:
		from = &engines;
		size = sizeof(engines);
		break;
	case DRM_I915_QUERY_MEMORY_REGIONS:
		from = &regions;
		size = sizeof(regions);
		break;
	case DRM_I915_QUERY_PERF_CONFIG:	/* no perf; the next two only with GuC */
	case DRM_I915_QUERY_HWCONFIG_BLOB:
	case DRM_I915_QUERY_GUC_SUBMISSION_VERSION:
		item->length = -ENODEV;
		return 0;
	default:
		unknown("DRM_I915_QUERY", item->query_id);
	}
	if (item->length)
		memcpy(PTR(item->data_ptr), from, size);
	item->length = size;
	return 0;
}

static int query(struct drm_i915_query *q)
{
	struct drm_i915_query_item *items = PTR(q->items_ptr);

	for (uint32_t i = 0; i < q->num_items; i++)
		query_item(&items[i]);
	return 0;
}

static int create(struct file *f, uint64_t *size, uint32_t *handle)
{
	struct bo *bo = bo_new(f, *size);

	if (!bo)
		return -ENOMEM;
	*size = bo->size;
	*handle = bo->handle;
	return 0;
}

static int userptr(struct file *f, struct drm_i915_gem_userptr *u)
{
	uint64_t size = u->user_size;

	return create(f, &size, &u->handle);
}

static int mmap_offset(struct file *f, struct drm_i915_gem_mmap_offset *m)
{
	struct bo *bo = bo_find(f, m->handle);

	m->offset = bo ? bo->offset : 0;
	return bo ? 0 : -ENOENT;
}

static int context_param(struct drm_i915_gem_context_param *p)
{
	struct drm_i915_gem_context_param_sseu *sseu = PTR(p->value);

	switch (p->param) {
	case I915_CONTEXT_PARAM_SSEU:
		sseu->slice_mask = 1;
		sseu->subslice_mask = 7;
		sseu->min_eus_per_subslice = sseu->max_eus_per_subslice = 8;
		return 0;
	case I915_CONTEXT_PARAM_GTT_SIZE:
		p->value = 1ull << 48;
		return 0;
	case I915_CONTEXT_PARAM_VM:		/* i915_gem_vm_create_ioctl() is there */
		p->value = 1;
		return 0;
	}
	unknown("I915_CONTEXT_PARAM", p->param);
}

/* Both forms of fences; add_timeline_fence_array() and add_fence_array(). */
static int execbuffer(struct file *f, struct drm_i915_gem_execbuffer2 *e)
{
	struct sync waits[64], signals[64];
	struct drm_i915_gem_exec_fence *fences = NULL;
	struct i915_user_extension *ext;
	uint32_t n = 0, nwaits = 0, nsignals = 0;
	uint64_t *points = NULL;

	if (is_lost(f))
		return -EIO;
	if (e->flags & I915_EXEC_FENCE_ARRAY) {
		fences = PTR(e->cliprects_ptr);
		n = e->num_cliprects;
	}
	for (ext = e->flags & I915_EXEC_USE_EXTENSIONS ? PTR(e->cliprects_ptr) : NULL; ext;
	     ext = PTR(ext->next_extension)) {
		struct drm_i915_gem_execbuffer_ext_timeline_fences *t = (void *)ext;

		if (ext->name != DRM_I915_GEM_EXECBUFFER_EXT_TIMELINE_FENCES)
			unknown("extension of EXECBUFFER2", ext->name);
		fences = PTR(t->handles_ptr);
		points = PTR(t->values_ptr);
		n = t->fence_count;
	}
	if (n > 64)
		unknown("number of fences", n);
	for (uint32_t i = 0; i < n; i++) {
		struct sync s = { fences[i].handle, points ? points[i] : 0 };

		if (fences[i].flags & I915_EXEC_FENCE_WAIT)
			waits[nwaits++] = s;
		if (fences[i].flags & I915_EXEC_FENCE_SIGNAL)
			signals[nsignals++] = s;
	}
	return submit(f, waits, nwaits, signals, nsignals);
}

/* An object's work is the file's. */
static int gem_wait(struct file *f, struct drm_i915_gem_wait *w)
{
	return bo_find(f, w->bo_handle) ? wait_all_for(f, w->timeout_ns) : -ENOENT;
}

static int i915_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_i915_gem_create_ext *ext = arg;
	struct drm_i915_gem_create *c = arg;
	uint64_t size;
	int ret;

	switch (nr) {
	case DRM_I915_GETPARAM:
		return getparam(arg);
	case DRM_I915_QUERY:
		return query(arg);
	case DRM_I915_GEM_CREATE:
		size = c->size;
		ret = create(f, &size, &c->handle);
		c->size = size;
		return ret;
	case DRM_I915_GEM_CREATE_EXT:
		size = ext->size;
		ret = create(f, &size, &ext->handle);
		ext->size = size;
		return ret;
	case DRM_I915_GEM_USERPTR:
		return userptr(f, arg);
	case DRM_I915_GEM_MMAP_GTT:		/* MMAP_OFFSET has its number */
		return mmap_offset(f, arg);
	case DRM_I915_GEM_GET_APERTURE:
		((struct drm_i915_gem_get_aperture *)arg)->aper_size = 256ull << 20;
		return 0;
	case DRM_I915_GEM_CONTEXT_GETPARAM:
		return context_param(arg);
	case DRM_I915_GEM_CONTEXT_CREATE:
		((struct drm_i915_gem_context_create *)arg)->ctx_id = ++f->ids;
		return 0;
	case DRM_I915_GEM_VM_CREATE:
		((struct drm_i915_gem_vm_control *)arg)->vm_id = ++f->ids;
		return 0;
	case DRM_I915_GEM_EXECBUFFER2:
		return execbuffer(f, arg);
	case DRM_I915_GEM_WAIT:
		return gem_wait(f, arg);
	case DRM_I915_GEM_SET_DOMAIN:		/* waits, too */
		return bo_find(f, ((struct drm_i915_gem_set_domain *)arg)->handle) ?
		       wait_all_for(f, -1) : -ENOENT;
	case DRM_I915_GEM_BUSY:
		((struct drm_i915_gem_busy *)arg)->busy = wait_all_for(f, 0) != 0;
		return 0;
	case DRM_I915_GEM_MADVISE:
		((struct drm_i915_gem_madvise *)arg)->retained = 1;
		return 0;
	case DRM_I915_GEM_GET_TILING:
		((struct drm_i915_gem_get_tiling *)arg)->tiling_mode = I915_TILING_NONE;
		return 0;
	case DRM_I915_REG_READ:
		((struct drm_i915_reg_read *)arg)->val = 1;
		return 0;
	case DRM_I915_GET_RESET_STATS:		/* nothing was reset */
		memset((char *)arg + 8, 0, sizeof(struct drm_i915_reset_stats) - 8);
		return 0;
	case DRM_I915_GEM_CONTEXT_SETPARAM:
	case DRM_I915_GEM_CONTEXT_DESTROY:
	case DRM_I915_GEM_VM_DESTROY:
	case DRM_I915_GEM_SET_TILING:
	case DRM_I915_GEM_SET_CACHING:
		return 0;
	}
	return -ENOSYS;
}

const struct kernel kernel_i915 = {
	.name = "i915",
	.major = 1,
	.minor = 6,
	.ioctl = i915_ioctl,
};
