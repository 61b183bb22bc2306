// SPDX-License-Identifier: MIT
/* panthor of Linux 6.10 (DRM 1.0) with a Mali-G610 of four cores. For panvk. */
#include <sys/mman.h>

#include <panthor_drm.h>

#include "core.h"

static const struct drm_panthor_gpu_info gpu = {
	.gpu_id = 0xa8670005,
	.l2_features = 0x07120306,
	.tiler_features = 0x809,
	.mem_features = 0x301,
	.mmu_features = 0x2830,		/* 48 bits of address */
	.thread_features = 0x04008000,
	.max_threads = 2048,
	.thread_max_workgroup_size = 1024,
	.thread_max_barrier_size = 1024,
	.coherency_features = 0x11,
	.texture_features = { 0xc1fffff3, 0, 0xc1ffffff, 0 },
	.as_present = 0xff,
	.shader_present = 0x50005,
	.l2_present = 1,
	.tiler_present = 1,
};

static const struct drm_panthor_csif_info csif = {
	.csg_slot_count = 8,
	.cs_slot_count = 8,
	.cs_reg_count = 96,
	.scoreboard_slot_count = 8,
	.unpreserved_cs_reg_count = 4,
};

/* panthor_ioctl_dev_query(): without a pointer the size; newer members are 0 */
static int dev_query(struct drm_panthor_dev_query *q)
{
	bool of_gpu = q->type == DRM_PANTHOR_DEV_QUERY_GPU_INFO;
	uint32_t size = of_gpu ? sizeof(gpu) : sizeof(csif);

	if (!of_gpu && q->type != DRM_PANTHOR_DEV_QUERY_CSIF_INFO)
		unknown("DRM_PANTHOR_DEV_QUERY", q->type);
	if (q->pointer) {
		memset(PTR(q->pointer), 0, q->size);
		memcpy(PTR(q->pointer), of_gpu ? (const void *)&gpu : &csif,
		       q->size < size ? q->size : size);
	}
	q->size = size;
	return 0;
}

/* The waits come before the queued work, the signals after it. */
static int run(struct file *f, const struct drm_panthor_obj_array *a)
{
	struct sync waits[64], signals[64];
	uint32_t nwaits = 0, nsignals = 0;

	if (a->count > 64)
		unknown("number of fences", a->count);
	for (uint32_t i = 0; i < a->count; i++) {
		const struct drm_panthor_sync_op *op = PTR(a->array + i * a->stride);
		struct sync s = {
			op->handle,
			(op->flags & DRM_PANTHOR_SYNC_OP_HANDLE_TYPE_MASK) ?
				op->timeline_value : 0,
		};

		if (op->flags & DRM_PANTHOR_SYNC_OP_SIGNAL)
			signals[nsignals++] = s;
		else
			waits[nwaits++] = s;
	}
	return submit(f, waits, nwaits, signals, nsignals);
}

/* panthor_vm_prepare_map_op_ctx(): -EINVAL past the object's end */
static int vm_bind(struct file *f, const struct drm_panthor_vm_bind *b)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && i < b->ops.count; i++) {
		const struct drm_panthor_vm_bind_op *op =
			PTR(b->ops.array + i * b->ops.stride);
		struct bo *bo = bo_find(f, op->bo_handle);

		if (!(op->flags & DRM_PANTHOR_VM_BIND_OP_TYPE_MASK) &&
		    (!bo || op->bo_offset + op->size > bo->size))
			return -EINVAL;
		if (b->flags & DRM_PANTHOR_VM_BIND_ASYNC)
			ret = run(f, &op->syncs);
	}
	return ret;
}

static int group_submit(struct file *f, const struct drm_panthor_group_submit *s)
{
	int ret = is_lost(f) ? -ECANCELED : 0;

	for (uint32_t i = 0; !ret && i < s->queue_submits.count; i++) {
		const struct drm_panthor_queue_submit *q =
			PTR(s->queue_submits.array + i * s->queue_submits.stride);

		ret = run(f, &q->syncs);
	}
	return ret;
}

static int panthor_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_panthor_tiler_heap_create *heap = arg;
	struct drm_panthor_group_get_state *state = arg;
	struct drm_panthor_bo_mmap_offset *map = arg;
	struct drm_panthor_bo_create *create = arg;
	struct bo *bo;

	switch (nr) {
	case DRM_PANTHOR_DEV_QUERY:
		return dev_query(arg);
	case DRM_PANTHOR_VM_CREATE:
		((struct drm_panthor_vm_create *)arg)->id = ++f->ids;
		return 0;
	case DRM_PANTHOR_VM_BIND:
		return vm_bind(f, arg);
	case DRM_PANTHOR_VM_GET_STATE:
		((struct drm_panthor_vm_get_state *)arg)->state = DRM_PANTHOR_VM_STATE_USABLE;
		return 0;
	case DRM_PANTHOR_BO_CREATE:
		bo = bo_new(f, create->size);
		if (!bo)
			return -ENOMEM;
		create->handle = bo->handle;
		create->size = bo->size;
		return 0;
	case DRM_PANTHOR_BO_MMAP_OFFSET:
		bo = bo_find(f, map->handle);
		map->offset = bo ? bo->offset : 0;
		return bo ? 0 : -ENOENT;
	case DRM_PANTHOR_GROUP_CREATE:
		((struct drm_panthor_group_create *)arg)->group_handle = ++f->ids;
		return 0;
	case DRM_PANTHOR_GROUP_SUBMIT:
		return group_submit(f, arg);
	case DRM_PANTHOR_GROUP_GET_STATE:
		state->state = is_lost(f) ? DRM_PANTHOR_GROUP_STATE_FATAL_FAULT : 0;
		state->fatal_queues = is_lost(f);
		return 0;
	case DRM_PANTHOR_TILER_HEAP_CREATE:
		heap->handle = ++f->ids;
		heap->tiler_heap_ctx_gpu_va = 1ull << 32;
		heap->first_heap_chunk_gpu_va = 1ull << 33;
		return 0;
	case DRM_PANTHOR_VM_DESTROY:
	case DRM_PANTHOR_GROUP_DESTROY:
	case DRM_PANTHOR_TILER_HEAP_DESTROY:
		return 0;
	}
	return -ENOSYS;
}

/* The page of the register that counts flushes. */
static void *panthor_mmap(struct file *f, size_t bytes, int prot, uint64_t offset)
{
	return mmap(NULL, bytes, prot, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

const struct kernel kernel_panthor = {
	.name = "panthor",
	.major = 1,
	.minor = 0,
	.ioctl = panthor_ioctl,
	.mmap = panthor_mmap,
};
