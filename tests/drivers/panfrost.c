// SPDX-License-Identifier: MIT
/* panfrost of Linux 6.12 with a Mali-G52 of two cores. For GLES. */
#include <panfrost_drm.h>

#include "core.h"

/* panfrost_ioctl_get_param(): registers of the GPU */
static int get_param(struct drm_panfrost_get_param *p)
{
	static const uint64_t values[] = {
		[DRM_PANFROST_PARAM_GPU_PROD_ID] = 0x7402,
		[DRM_PANFROST_PARAM_SHADER_PRESENT] = 3,
		[DRM_PANFROST_PARAM_TILER_FEATURES] = 0x809,
		[DRM_PANFROST_PARAM_MEM_FEATURES] = 1,
		[DRM_PANFROST_PARAM_MMU_FEATURES] = 0x2830,
		[DRM_PANFROST_PARAM_THREAD_FEATURES] = 0x04000400,
		[DRM_PANFROST_PARAM_MAX_THREADS] = 768,
		[DRM_PANFROST_PARAM_THREAD_MAX_WORKGROUP_SZ] = 384,
		[DRM_PANFROST_PARAM_THREAD_MAX_BARRIER_SZ] = 384,
		[DRM_PANFROST_PARAM_TEXTURE_FEATURES0] = 0xfe001e,
		[DRM_PANFROST_PARAM_TEXTURE_FEATURES1] = 0xffff,
		[DRM_PANFROST_PARAM_TEXTURE_FEATURES2] = 0x9f81ffff,
		[DRM_PANFROST_PARAM_NR_CORE_GROUPS] = 1,
		[DRM_PANFROST_PARAM_THREAD_TLS_ALLOC] = 768,
		[DRM_PANFROST_PARAM_AFBC_FEATURES] = 0,
	};

	if (p->param >= sizeof(values) / sizeof(*values))
		return -EINVAL;
	p->value = values[p->param];
	return 0;
}

static int submit_job(struct file *f, const struct drm_panfrost_submit *s)
{
	const uint32_t *in = PTR(s->in_syncs);
	struct sync waits[64], signal = { s->out_sync, 0 };

	if (is_lost(f))
		return -EIO;
	if (s->in_sync_count > 64)
		unknown("number of fences", s->in_sync_count);
	for (uint32_t i = 0; i < s->in_sync_count; i++)
		waits[i] = (struct sync){ in[i], 0 };
	bos_used(f, PTR(s->bo_handles), s->bo_handle_count, sizeof(uint32_t));
	return submit(f, waits, s->in_sync_count, &signal, !!s->out_sync);
}

/* Not 0: nothing is read there. */
static uint64_t address(const struct bo *bo)
{
	return (uint64_t)bo->handle << 24;
}

static int panfrost_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_panfrost_get_bo_offset *offset = arg;
	struct drm_panfrost_create_bo *create = arg;
	struct drm_panfrost_mmap_bo *map = arg;
	struct drm_panfrost_wait_bo *wait = arg;
	struct bo *bo;
	int ret;

	switch (nr) {
	case DRM_PANFROST_GET_PARAM:
		return get_param(arg);
	case DRM_PANFROST_CREATE_BO:
		bo = bo_new(f, create->size);
		if (!bo)
			return -ENOMEM;
		create->handle = bo->handle;
		create->offset = address(bo);
		return 0;
	case DRM_PANFROST_GET_BO_OFFSET:
		bo = bo_find(f, offset->handle);
		offset->offset = bo ? address(bo) : 0;
		return bo ? 0 : -ENOENT;
	case DRM_PANFROST_MMAP_BO:
		bo = bo_find(f, map->handle);
		map->offset = bo ? bo->offset : 0;
		return bo ? 0 : -ENOENT;
	case DRM_PANFROST_WAIT_BO:	/* panfrost_ioctl_wait_bo() */
		ret = bo_find(f, wait->handle) ? wait_all(f, wait->timeout_ns) : -ENOENT;
		return ret == -ETIME ? -ETIMEDOUT : ret;
	case DRM_PANFROST_SUBMIT:
		return submit_job(f, arg);
	case DRM_PANFROST_MADVISE:
		((struct drm_panfrost_madvise *)arg)->retained = 1;
		return 0;
	}
	return -ENOSYS;
}

const struct kernel kernel_panfrost = {
	.name = "panfrost",
	.major = 1,
	.minor = 2,
	.ioctl = panfrost_ioctl,
};
