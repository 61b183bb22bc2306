// SPDX-License-Identifier: MIT
/*
 * v3d of Linux 6.12 with the GPU of a Raspberry Pi 5 (7.1.14), or with the word "pi4" that of
 * a Raspberry Pi 4 (4.2). For V3DV, and for GLES, whose submits have syncobjs without multisync.
 */
#include <v3d_drm.h>

#include "core.h"

static int get_param(struct drm_v3d_get_param *p)
{
	switch (p->param) {
	case DRM_V3D_PARAM_V3D_CORE0_IDENT0:
		p->value = word_pi4 ? 0x04443356 : 0x07443356;
		return 0;
	case DRM_V3D_PARAM_V3D_CORE0_IDENT1:
		p->value = word_pi4 ? 0x81001422 : 0x81001431;
		return 0;
	case DRM_V3D_PARAM_V3D_HUB_IDENT3:
		p->value = 0xe00;
		return 0;
	case DRM_V3D_PARAM_SUPPORTS_TFU:
	case DRM_V3D_PARAM_SUPPORTS_CSD:
	case DRM_V3D_PARAM_SUPPORTS_CACHE_FLUSH:
	case DRM_V3D_PARAM_SUPPORTS_MULTISYNC_EXT:
	case DRM_V3D_PARAM_SUPPORTS_CPU_QUEUE:
		p->value = 1;
		return 0;
	case DRM_V3D_PARAM_SUPPORTS_PERFMON:
	case DRM_V3D_PARAM_MAX_PERF_COUNTERS:
		p->value = 0;
		return 0;
	}
	unknown("DRM_V3D_PARAM", p->param);
}

/* Not 0, and in 32 bits: nothing is read there. */
static uint32_t address(const struct bo *bo)
{
	return bo->handle << 16;
}

/* A submit without multisync; v3d_job_init(): 0 is no syncobj */
static int submit_single(struct file *f, const uint32_t in[2], uint32_t out)
{
	struct sync waits[2], signal = { out, 0 };
	uint32_t nwaits = 0;

	for (int i = 0; i < 2; i++)
		if (in[i])
			waits[nwaits++] = (struct sync){ in[i], 0 };
	return submit(f, waits, nwaits, &signal, !!out);
}

/* v3d_get_extensions(), v3d_get_multisync_submit_deps(): syncobjs are binary */
static int submit_v3d(struct file *f, uint32_t flags, uint64_t extensions, const uint32_t in[2],
		      uint32_t out)
{
	struct drm_v3d_extension *ext = PTR(extensions);
	struct sync waits[64], signals[64];
	uint32_t nwaits = 0, nsignals = 0;

	if (is_lost(f))
		return -EIO;
	if (!(flags & DRM_V3D_SUBMIT_EXTENSION))
		return submit_single(f, in, out);
	for (; ext; ext = PTR(ext->next)) {
		struct drm_v3d_multi_sync *m = (void *)ext;
		struct drm_v3d_sem *in, *out;

		if (ext->id != DRM_V3D_EXT_ID_MULTI_SYNC)
			continue;	/* work of the CPU's queue */
		in = PTR(m->in_syncs);
		out = PTR(m->out_syncs);
		if (m->in_sync_count + nwaits > 64 || m->out_sync_count + nsignals > 64)
			unknown("number of fences", m->in_sync_count);
		for (uint32_t i = 0; i < m->in_sync_count; i++)
			waits[nwaits++] = (struct sync){ in[i].handle, 0 };
		for (uint32_t i = 0; i < m->out_sync_count; i++)
			signals[nsignals++] = (struct sync){ out[i].handle, 0 };
	}
	return submit(f, waits, nwaits, signals, nsignals);
}

static int v3d_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_v3d_get_bo_offset *offset = arg;
	struct drm_v3d_create_bo *create = arg;
	struct drm_v3d_wait_bo *wait = arg;
	struct drm_v3d_submit_cl *cl = arg;
	struct drm_v3d_submit_csd *csd = arg;
	struct drm_v3d_submit_tfu *tfu = arg;
	struct drm_v3d_submit_cpu *cpu = arg;
	struct drm_v3d_mmap_bo *map = arg;
	struct bo *bo;

	switch (nr) {
	case DRM_V3D_GET_PARAM:
		return get_param(arg);
	case DRM_V3D_CREATE_BO:
		bo = bo_new(f, create->size);
		if (!bo)
			return -ENOMEM;
		create->handle = bo->handle;
		create->offset = address(bo);
		return 0;
	case DRM_V3D_GET_BO_OFFSET:
		bo = bo_find(f, offset->handle);
		offset->offset = bo ? address(bo) : 0;
		return bo ? 0 : -ENOENT;
	case DRM_V3D_MMAP_BO:
		bo = bo_find(f, map->handle);
		map->offset = bo ? bo->offset : 0;
		return bo ? 0 : -ENOENT;
	case DRM_V3D_WAIT_BO:
		return bo_find(f, wait->handle) ? wait_all_for(f, wait->timeout_ns) : -EINVAL;
	case DRM_V3D_SUBMIT_CL:
		bos_used(f, PTR(cl->bo_handles), cl->bo_handle_count, sizeof(uint32_t));
		return submit_v3d(f, cl->flags, cl->extensions,
				  (uint32_t[]){ cl->in_sync_bcl, cl->in_sync_rcl }, cl->out_sync);
	case DRM_V3D_SUBMIT_TFU:
		return submit_v3d(f, tfu->flags, tfu->extensions,
				  (uint32_t[]){ tfu->in_sync, 0 }, tfu->out_sync);
	case DRM_V3D_SUBMIT_CSD:
		bos_used(f, PTR(csd->bo_handles), csd->bo_handle_count, sizeof(uint32_t));
		return submit_v3d(f, csd->flags, csd->extensions,
				  (uint32_t[]){ csd->in_sync, 0 }, csd->out_sync);
	case DRM_V3D_SUBMIT_CPU:
		return submit_v3d(f, cpu->flags, cpu->extensions, (uint32_t[]){ 0, 0 }, 0);
	}
	return -ENOSYS;
}

const struct kernel kernel_v3d = {
	.name = "v3d",
	.major = 1,
	.minor = 0,
	.ioctl = v3d_ioctl,
};
