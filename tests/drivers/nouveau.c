// SPDX-License-Identifier: MIT
/*
 * nouveau of Linux 6.12 with a TU102 (10de:1e04) of 8 GiB. For NVK. NVIF is the interface of the
 * kernel's include/nvif, which libdrm installs.
 */
#include <nouveau_drm.h>
#include <nouveau/nvif/cl0080.h>
#include <nouveau/nvif/ioctl.h>

#include "core.h"

static int getparam(struct drm_nouveau_getparam *p)
{
	switch (p->param) {
	case NOUVEAU_GETPARAM_PCI_DEVICE:
		p->value = 0x1e04;
		return 0;
	case NOUVEAU_GETPARAM_GRAPH_UNITS:	/* 6 GPCs of 34 TPCs */
		p->value = 34 << 8 | 6;
		return 0;
	case NOUVEAU_GETPARAM_EXEC_PUSH_MAX:
		p->value = 510;
		return 0;
	case NOUVEAU_GETPARAM_VRAM_BAR_SIZE:
		p->value = 256ull << 20;
		return 0;
	case NOUVEAU_GETPARAM_VRAM_USED:
		p->value = 1ull << 20;
		return 0;
	case NOUVEAU_GETPARAM_PTIMER_TIME:
		p->value = 1;
		return 0;
	case NOUVEAU_GETPARAM_HAS_VMA_TILEMODE:	/* nouveau_abi16_ioctl_getparam() of 6.12 */
		p->value = 1;
		return 0;
	}
	unknown("NOUVEAU_GETPARAM", p->param);
}

/* Classes of Turing: host copy, DMA copy, 2D, 3D, compute. */
static const uint32_t classes[] = { 0xa140, 0xc5b5, 0x902d, 0xc597, 0xc5c0 };
enum { NCLASSES = sizeof(classes) / sizeof(*classes) };

static int nvif(void *arg)
{
	struct {
		struct nvif_ioctl_v0 ioctl;
		struct nvif_ioctl_mthd_v0 method;
		struct nv_device_info_v0 info;
	} *m = arg;
	struct {
		struct nvif_ioctl_v0 ioctl;
		struct nvif_ioctl_sclass_v0 s;
		struct nvif_ioctl_sclass_oclass_v0 list[16];
	} *s = arg;

	switch (m->ioctl.type) {
	case NVIF_IOCTL_V0_NEW:
	case NVIF_IOCTL_V0_DEL:
		return 0;
	case NVIF_IOCTL_V0_MTHD:
		if (m->method.method != NV_DEVICE_V0_INFO)
			unknown("NVIF method", m->method.method);
		m->info.platform = NV_DEVICE_INFO_V0_PCIE;
		m->info.chipset = 0x162;
		m->info.ram_size = m->info.ram_user = 8ull << 30;
		strcpy(m->info.chip, "TU102");
		return 0;
	case NVIF_IOCTL_V0_SCLASS:
		for (int i = 0; i < NCLASSES; i++)
			s->list[i].oclass = classes[i];
		s->s.count = NCLASSES;
		return 0;
	}
	unknown("NVIF type", m->ioctl.type);
}

static void describe(const struct bo *bo, struct drm_nouveau_gem_info *info)
{
	info->handle = bo->handle;
	info->size = bo->size;
	info->map_handle = bo->offset;
	/* nouveau_gem_prime_import_sg_table(): an import is in system memory. */
	if (bo->fd >= 0)
		info->domain = NOUVEAU_GEM_DOMAIN_GART;
}

static int gem_new(struct file *f, struct drm_nouveau_gem_new *n)
{
	struct bo *bo = bo_new(f, n->info.size);

	if (!bo)
		return -ENOMEM;
	describe(bo, &n->info);
	return 0;
}

static int gem_info(struct file *f, struct drm_nouveau_gem_info *info)
{
	struct bo *bo = bo_find(f, info->handle);

	if (!bo)
		return -ENOENT;
	describe(bo, info);
	return 0;
}

static void read_syncs(uint64_t from, uint32_t n, struct sync *to)
{
	const struct drm_nouveau_sync *list = PTR(from);

	if (n > 64)
		unknown("number of fences", n);
	for (uint32_t i = 0; i < n; i++)
		to[i] = (struct sync){
			list[i].handle,
			(list[i].flags & DRM_NOUVEAU_SYNC_TYPE_MASK) ==
			DRM_NOUVEAU_SYNC_TIMELINE_SYNCOBJ ? list[i].timeline_value : 0,
		};
}

static int run(struct file *f, uint32_t nwaits, uint64_t waits, uint32_t nsignals,
	       uint64_t signals)
{
	struct sync w[64], s[64];

	read_syncs(waits, nwaits, w);
	read_syncs(signals, nsignals, s);
	return submit(f, w, nwaits, s, nsignals);
}

static int vm_bind(struct file *f, struct drm_nouveau_vm_bind *b)
{
	const struct drm_nouveau_vm_bind_op *ops = PTR(b->op_ptr);

	for (uint32_t i = 0; i < b->op_count; i++) {
		struct bo *bo = bo_find(f, ops[i].handle);

		/* nouveau_uvmm_bind_job_submit(), bind_validate_op() */
		if (ops[i].op == DRM_NOUVEAU_VM_BIND_OP_MAP &&
		    !(ops[i].flags & DRM_NOUVEAU_VM_BIND_SPARSE)) {
			if (!bo)
				return -ENOENT;
			if (ops[i].bo_offset + ops[i].range > bo->size)
				return -EINVAL;
		}
	}
	return b->flags & DRM_NOUVEAU_VM_BIND_RUN_ASYNC ?
	       run(f, b->wait_count, b->wait_ptr, b->sig_count, b->sig_ptr) : 0;
}

static int nouveau_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_nouveau_exec *e = arg;

	switch (nr) {
	case DRM_NOUVEAU_GETPARAM:
		return getparam(arg);
	case DRM_NOUVEAU_NVIF:
		return nvif(arg);
	case DRM_NOUVEAU_VM_INIT:
	case DRM_NOUVEAU_CHANNEL_FREE:
		return 0;
	case DRM_NOUVEAU_CHANNEL_ALLOC:
		((struct drm_nouveau_channel_alloc *)arg)->channel = ++f->ids;
		return 0;
	case DRM_NOUVEAU_GEM_NEW:
		return gem_new(f, arg);
	case DRM_NOUVEAU_GEM_INFO:
		return gem_info(f, arg);
	case DRM_NOUVEAU_GEM_CPU_PREP:
		return wait_all_for(f, -1);
	case DRM_NOUVEAU_GEM_PUSHBUF:		/* of nothing: is the channel alive? */
		return is_lost(f) ? -ENODEV : 0;
	case DRM_NOUVEAU_VM_BIND:
		return vm_bind(f, arg);
	case DRM_NOUVEAU_EXEC:
		return is_lost(f) ? -ENODEV :
		       run(f, e->wait_count, e->wait_ptr, e->sig_count, e->sig_ptr);
	}
	return -ENOSYS;
}

const struct kernel kernel_nouveau = {
	.name = "nouveau",
	.major = 1,
	.minor = 4,
	.ioctl = nouveau_ioctl,
};
