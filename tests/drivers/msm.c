// SPDX-License-Identifier: MIT
/* msm of Linux 6.12 with an Adreno 660. For Turnip and GLES. */
#include <stdlib.h>
#include <unistd.h>

#include <msm_drm.h>

#include "core.h"

/* The addresses of MSM_INFO_GET_IOVA: above those that Turnip chooses. */
#define ADDRESSES (1ull << 48)

static int get_param(struct drm_msm_param *p)
{
	switch (p->param) {
	case MSM_PARAM_GPU_ID:
		p->value = 660;
		return 0;
	case MSM_PARAM_CHIP_ID:
		p->value = 0x06060001;
		return 0;
	case MSM_PARAM_GMEM_SIZE:
		p->value = 3 << 19;
		return 0;
	case MSM_PARAM_GMEM_BASE:
	case MSM_PARAM_RAYTRACING:
	case MSM_PARAM_FAULTS:
	case MSM_PARAM_SUSPENDS:
		p->value = 0;
		return 0;
	case MSM_PARAM_MAX_FREQ:
		p->value = 840000000;
		return 0;
	case MSM_PARAM_VA_START:
		p->value = 1ull << 32;
		return 0;
	case MSM_PARAM_VA_SIZE:
		p->value = 1ull << 36;
		return 0;
	case MSM_PARAM_PRIORITIES:
		p->value = 3;
		return 0;
	case MSM_PARAM_HIGHEST_BANK_BIT:
		p->value = 16;
		return 0;
	case MSM_PARAM_UBWC_SWIZZLE:
		p->value = 6;
		return 0;
	case MSM_PARAM_MACROTILE_MODE:
	case MSM_PARAM_TIMESTAMP:
		p->value = 1;
		return 0;
	}
	unknown("MSM_PARAM", p->param);
}

static int gem_info(struct file *f, struct drm_msm_gem_info *i)
{
	struct bo *bo = bo_find(f, i->handle);

	if (!bo)
		return -ENOENT;
	switch (i->info) {
	case MSM_INFO_GET_OFFSET:
		i->value = bo->offset;
		return 0;
	case MSM_INFO_GET_IOVA:
		i->value = ADDRESSES | (uint64_t)bo->handle << 32;
		return 0;
	case MSM_INFO_GET_FLAGS:
		i->value = MSM_BO_WC;
		return 0;
	case MSM_INFO_SET_IOVA:		/* 0 takes the address back */
	case MSM_INFO_SET_NAME:
	case MSM_INFO_SET_METADATA:
		return 0;
	}
	unknown("MSM_INFO", i->info);
}

/*
 * The last packet of GLES' work: CP_EVENT_WRITE puts the work's number into memory, see
 * fd_pipe_emit_fence(). The driver keeps an object, and the sync_file of its last work, until it
 * has seen the number there. Turnip's work ends in another way.
 */
static void write_number(struct file *f, const struct drm_msm_gem_submit *s)
{
	const struct drm_msm_gem_submit_cmd *cmd = PTR(s->cmds);
	const struct drm_msm_gem_submit_bo *bos = PTR(s->bos);
	uint32_t packet[5];
	struct bo *bo;

	cmd += s->nr_cmds - 1;
	if (!s->nr_cmds || cmd->size < sizeof(packet))
		return;
	bo = bo_find(f, bos[cmd->submit_idx].handle);
	if (pread(f->fd, packet, sizeof(packet), bo->offset + cmd->submit_offset + cmd->size -
		  sizeof(packet)) != sizeof(packet))
		abort();
	if (packet[0] != 0x70460004 || packet[1] != 4 || packet[3] >> 16 != ADDRESSES >> 48)
		return;
	bo = bo_find(f, packet[3] & 0xffff);
	if (!bo || pwrite(f->fd, &packet[4], 4, bo->offset + packet[2]) != 4)
		unknown("an address of CP_EVENT_WRITE", packet[2]);
}

/* msm_parse_deps(), msm_parse_post_deps() */
static int gem_submit(struct file *f, struct drm_msm_gem_submit *s)
{
	const struct drm_msm_gem_submit_syncobj *in = PTR(s->in_syncobjs);
	const struct drm_msm_gem_submit_syncobj *out = PTR(s->out_syncobjs);
	const struct drm_msm_gem_submit_bo *bos = PTR(s->bos);
	struct sync waits[64], signals[64];
	uint32_t n[2] = { s->flags & MSM_SUBMIT_SYNCOBJ_IN ? s->nr_in_syncobjs : 0,
			  s->flags & MSM_SUBMIT_SYNCOBJ_OUT ? s->nr_out_syncobjs : 0 };
	int ret;

	if (is_lost(f))
		return -EIO;
	if (n[0] > 64 || n[1] > 64)
		unknown("number of fences", n[0] + n[1]);
	for (uint32_t i = 0; i < n[0]; i++)
		waits[i] = (struct sync){ in[i].handle, in[i].point };
	for (uint32_t i = 0; i < n[1]; i++)
		signals[i] = (struct sync){ out[i].handle, out[i].point };
	if (s->nr_bos)
		bos_used(f, &bos->handle, s->nr_bos, sizeof(*bos));
	s->fence = ++f->ids;
	ret = submit(f, waits, n[0], signals, n[1]);
	if (!ret && !is_hung(f))
		write_number(f, s);
	if (!ret && s->flags & MSM_SUBMIT_FENCE_FD_OUT) {
		s->fence_fd = core_sync_file(f);
		ret = s->fence_fd < 0 ? s->fence_fd : 0;
	}
	return ret;
}

/* msm_ioctl_wait_fence(): an absolute time; -ETIMEDOUT */
static int wait_fence(struct file *f, struct drm_msm_wait_fence *w)
{
	int ret = wait_all(f, w->timeout.tv_sec > 1ll << 32 ? INT64_MAX :
			      w->timeout.tv_sec * 1000000000ll + w->timeout.tv_nsec);

	return ret == -ETIME ? -ETIMEDOUT : ret;
}

static int msm_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_msm_gem_new *n = arg;
	struct bo *bo;

	switch (nr) {
	case DRM_MSM_GET_PARAM:
		return get_param(arg);
	case DRM_MSM_GEM_NEW:
		bo = bo_new(f, n->size);
		if (!bo)
			return -ENOMEM;
		n->handle = bo->handle;
		return 0;
	case DRM_MSM_GEM_INFO:
		return gem_info(f, arg);
	case DRM_MSM_GEM_SUBMIT:
		return gem_submit(f, arg);
	case DRM_MSM_WAIT_FENCE:
		return wait_fence(f, arg);
	case DRM_MSM_GEM_MADVISE:
		((struct drm_msm_gem_madvise *)arg)->retained = 1;
		return 0;
	case DRM_MSM_SUBMITQUEUE_NEW:
		if (((struct drm_msm_submitqueue *)arg)->flags)
			return -EINVAL;		/* no preemption */
		((struct drm_msm_submitqueue *)arg)->id = ++f->ids;
		return 0;
	case DRM_MSM_SUBMITQUEUE_QUERY:
		memset(PTR(((struct drm_msm_submitqueue_query *)arg)->data), 0,
		       ((struct drm_msm_submitqueue_query *)arg)->len);
		return 0;
	case DRM_MSM_SUBMITQUEUE_CLOSE:
		return 0;
	}
	return -ENOSYS;
}

const struct kernel kernel_msm = {
	.name = "msm",
	.major = 1,
	.minor = 12,
	.ioctl = msm_ioctl,
};
