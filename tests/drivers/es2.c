// SPDX-License-Identifier: MIT
/*
 * GPUs whose drivers have OpenGL ES 2.0 only: etnaviv with the GC7000L of an i.MX8M, lima with
 * a Mali-450, vc4 of a Raspberry Pi 3. They come up; nothing is submitted.
 */
#include <etnaviv_drm.h>
#include <lima_drm.h>
#include <vc4_drm.h>

#include "core.h"

static int new(struct file *f, uint64_t size, uint32_t *handle)
{
	struct bo *bo = bo_new(f, size);

	*handle = bo ? bo->handle : 0;
	return bo ? 0 : -ENOMEM;
}

/* ---- etnaviv. Mesa knows the GPU by the first five; its features are not asked for then. */

static int etnaviv_param(struct drm_etnaviv_param *p)
{
	static const uint64_t values[] = {
		[ETNAVIV_PARAM_GPU_MODEL] = 0x7000,
		[ETNAVIV_PARAM_GPU_REVISION] = 0x6214,
		[ETNAVIV_PARAM_GPU_PRODUCT_ID] = 0x70003,
		[ETNAVIV_PARAM_GPU_ECO_ID] = 0,
		[ETNAVIV_PARAM_GPU_CUSTOMER_ID] = 0x30,
		[ETNAVIV_PARAM_GPU_FEATURES_0] = 1 << 2,	/* PIPE_3D */
		[ETNAVIV_PARAM_GPU_STREAM_COUNT] = 16,
		[ETNAVIV_PARAM_GPU_REGISTER_MAX] = 64,
		[ETNAVIV_PARAM_GPU_THREAD_COUNT] = 512,
		[ETNAVIV_PARAM_GPU_VERTEX_CACHE_SIZE] = 16,
		[ETNAVIV_PARAM_GPU_SHADER_CORE_COUNT] = 4,
		[ETNAVIV_PARAM_GPU_PIXEL_PIPES] = 1,
		[ETNAVIV_PARAM_GPU_VERTEX_OUTPUT_BUFFER_SIZE] = 1024,
		[ETNAVIV_PARAM_GPU_INSTRUCTION_COUNT] = 512,
		[ETNAVIV_PARAM_GPU_NUM_CONSTANTS] = 320,
		[ETNAVIV_PARAM_GPU_NUM_VARYINGS] = 16,
		[ETNAVIV_PARAM_SOFTPIN_START_ADDR] = 4 << 20,
	};

	if (p->pipe || p->param >= sizeof(values) / sizeof(*values))
		return -ENXIO;
	p->value = values[p->param];
	return 0;
}

static int etnaviv_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_etnaviv_gem_info *info = arg;
	struct drm_etnaviv_gem_new *n = arg;
	struct bo *bo;

	switch (nr) {
	case DRM_ETNAVIV_GET_PARAM:
		return etnaviv_param(arg);
	case DRM_ETNAVIV_GEM_NEW:
		return new(f, n->size, &n->handle);
	case DRM_ETNAVIV_GEM_INFO:
		bo = bo_find(f, info->handle);
		info->offset = bo ? bo->offset : 0;
		return bo ? 0 : -ENOENT;
	case DRM_ETNAVIV_PM_QUERY_DOM:	/* no counters */
		return -EINVAL;
	case DRM_ETNAVIV_GEM_CPU_PREP:
	case DRM_ETNAVIV_GEM_CPU_FINI:
		return 0;
	}
	return -ENOSYS;
}

const struct kernel kernel_etnaviv = {
	.name = "etnaviv", .major = 1, .minor = 4, .ioctl = etnaviv_ioctl,
};

/* ---- lima */

static int lima_ioctl(struct file *f, unsigned int nr, void *arg)
{
	static const uint64_t params[] = {
		[DRM_LIMA_PARAM_GPU_ID] = DRM_LIMA_PARAM_GPU_ID_MALI450,
		[DRM_LIMA_PARAM_NUM_PP] = 4,
		[DRM_LIMA_PARAM_GP_VERSION] = 0,
		[DRM_LIMA_PARAM_PP_VERSION] = 0,
	};
	struct drm_lima_get_param *p = arg;
	struct drm_lima_gem_create *n = arg;
	struct drm_lima_gem_info *info = arg;
	struct bo *bo;

	switch (nr) {
	case DRM_LIMA_GET_PARAM:
		if (p->param >= sizeof(params) / sizeof(*params))
			unknown("DRM_LIMA_PARAM", p->param);
		p->value = params[p->param];
		return 0;
	case DRM_LIMA_GEM_CREATE:
		return new(f, n->size, &n->handle);
	case DRM_LIMA_GEM_INFO:
		bo = bo_find(f, info->handle);
		if (!bo)
			return -ENOENT;
		info->va = bo->handle << 16;
		info->offset = bo->offset;
		return 0;
	case DRM_LIMA_CTX_CREATE:
		((struct drm_lima_ctx_create *)arg)->id = ++f->ids;
		return 0;
	case DRM_LIMA_CTX_FREE:
		return 0;
	}
	return -ENOSYS;
}

const struct kernel kernel_lima = {
	.name = "lima", .major = 1, .minor = 1, .ioctl = lima_ioctl,
};

/* ---- vc4 */

static int vc4_param(struct drm_vc4_get_param *p)
{
	switch (p->param) {
	case DRM_VC4_PARAM_V3D_IDENT0:	/* "V3D", 2 */
		p->value = 0x02443356;
		return 0;
	case DRM_VC4_PARAM_V3D_IDENT1:
		p->value = 0x00031431;
		return 0;
	case DRM_VC4_PARAM_V3D_IDENT2:
		p->value = 0;
		return 0;
	case DRM_VC4_PARAM_SUPPORTS_BRANCHES:
	case DRM_VC4_PARAM_SUPPORTS_ETC1:
	case DRM_VC4_PARAM_SUPPORTS_THREADED_FS:
	case DRM_VC4_PARAM_SUPPORTS_FIXED_RCL_ORDER:
	case DRM_VC4_PARAM_SUPPORTS_MADVISE:
		p->value = 1;
		return 0;
	case DRM_VC4_PARAM_SUPPORTS_PERFMON:
		p->value = 0;
		return 0;
	}
	unknown("DRM_VC4_PARAM", p->param);
}

static int vc4_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_vc4_create_bo *n = arg;
	struct drm_vc4_mmap_bo *map = arg;
	struct bo *bo;

	switch (nr) {
	case DRM_VC4_GET_PARAM:
		return vc4_param(arg);
	case DRM_VC4_CREATE_BO:
		return new(f, n->size, &n->handle);
	case DRM_VC4_MMAP_BO:
		bo = bo_find(f, map->handle);
		map->offset = bo ? bo->offset : 0;
		return bo ? 0 : -ENOENT;
	case DRM_VC4_GEM_MADVISE:
		((struct drm_vc4_gem_madvise *)arg)->retained = 1;
		return 0;
	case DRM_VC4_GET_TILING:
	case DRM_VC4_LABEL_BO:
		return 0;
	}
	return -ENOSYS;
}

const struct kernel kernel_vc4 = {
	.name = "vc4", .major = 0, .minor = 0, .ioctl = vc4_ioctl,
};
