// SPDX-License-Identifier: MIT
/*
 * xe of Linux 6.12 (DRM 1.1) with the GPU of Lunar Lake (8086:64a0): a tile, engines that render,
 * copy and compute, memory of the system. For Level Zero. xe_engine.c has the
 * engines.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <xe_drm.h>

#include "core.h"
#include "xe.h"

/* ---- queries */

/* xe_query_ioctl(): without a size it is asked for */
static int put(struct drm_xe_device_query *q, const void *from, uint32_t size)
{
	if (q->size && q->size != size)
		return -EINVAL;
	if (q->size && q->data)
		memcpy(PTR(q->data), from, size);
	q->size = size;
	return 0;
}

static int engines(struct drm_xe_device_query *q)
{
	static const uint16_t classes[] = {
		DRM_XE_ENGINE_CLASS_RENDER, DRM_XE_ENGINE_CLASS_COPY,
		DRM_XE_ENGINE_CLASS_COMPUTE,
	};
	uint64_t data[(sizeof(struct drm_xe_query_engines) +
		       3 * sizeof(struct drm_xe_engine)) / 8] = { 0 };
	struct drm_xe_query_engines *e = (void *)data;

	e->num_engines = 3;
	for (int i = 0; i < 3; i++)
		e->engines[i].instance.engine_class = classes[i];
	return put(q, data, sizeof(data));
}

static int regions(struct drm_xe_device_query *q)
{
	uint64_t data[(sizeof(struct drm_xe_query_mem_regions) +
		       sizeof(struct drm_xe_mem_region)) / 8] = { 0 };
	struct drm_xe_query_mem_regions *r = (void *)data;

	r->num_mem_regions = 1;
	r->mem_regions[0].min_page_size = 4096;
	r->mem_regions[0].total_size = 8ull << 30;
	return put(q, data, sizeof(data));
}

static int config(struct drm_xe_device_query *q)
{
	uint64_t data[6] = { 5 };
	struct drm_xe_query_config *c = (void *)data;

	c->info[DRM_XE_QUERY_CONFIG_REV_AND_DEVICE_ID] = 4 << 16 | 0x64a0;
	c->info[DRM_XE_QUERY_CONFIG_MIN_ALIGNMENT] = 4096;
	c->info[DRM_XE_QUERY_CONFIG_VA_BITS] = 48;
	c->info[DRM_XE_QUERY_CONFIG_MAX_EXEC_QUEUE_PRIORITY] = 1;
	return put(q, data, sizeof(data));
}

static int gts(struct drm_xe_device_query *q)
{
	uint64_t data[(sizeof(struct drm_xe_query_gt_list) + sizeof(struct drm_xe_gt)) / 8] = { 1 };
	struct drm_xe_query_gt_list *l = (void *)data;

	l->gt_list[0] = (struct drm_xe_gt){
		.type = DRM_XE_QUERY_GT_TYPE_MAIN,
		.reference_clock = 19200000,
		.near_mem_regions = 1,
		.ip_ver_major = 20, .ip_ver_minor = 4, .ip_ver_rev = 4,
	};
	return put(q, data, sizeof(data));
}

/* Two slices of four cores, eight EUs each. */
static int topology(struct drm_xe_device_query *q)
{
	static const struct {
		struct drm_xe_query_topology_mask head;
		uint8_t mask[8];
	} masks[] = {
		{ { 0, DRM_XE_TOPO_DSS_GEOMETRY, 8 }, { 0xff } },
		{ { 0, DRM_XE_TOPO_DSS_COMPUTE, 8 }, { 0xff } },
		{ { 0, DRM_XE_TOPO_L3_BANK, 8 }, { 0xff } },
		{ { 0, DRM_XE_TOPO_SIMD16_EU_PER_DSS, 8 }, { 0xff } },
	};

	return put(q, masks, sizeof(masks));
}

static int cycles(struct drm_xe_device_query *q)
{
	struct drm_xe_query_engine_cycles *c = PTR(q->data);
	struct timespec t;

	if (q->size && c) {
		clock_gettime(c->clockid, &t);
		c->width = 36;
		c->cpu_timestamp = t.tv_sec * 1000000000ull + t.tv_nsec;
		c->engine_cycles = c->cpu_timestamp * 12 / 625; /* 19.2 MHz */
		c->cpu_delta = 1;
	}
	q->size = sizeof(*c);
	return 0;
}

static int query(struct drm_xe_device_query *q)
{
	switch (q->query) {
	case DRM_XE_DEVICE_QUERY_ENGINES:
		return engines(q);
	case DRM_XE_DEVICE_QUERY_MEM_REGIONS:
		return regions(q);
	case DRM_XE_DEVICE_QUERY_CONFIG:
		return config(q);
	case DRM_XE_DEVICE_QUERY_GT_LIST:
		return gts(q);
	case DRM_XE_DEVICE_QUERY_HWCONFIG:	/* the driver has its own table */
		q->size = 0;
		return 0;
	case DRM_XE_DEVICE_QUERY_GT_TOPOLOGY:
		return topology(q);
	case DRM_XE_DEVICE_QUERY_ENGINE_CYCLES:
		return cycles(q);
	}
	unknown("DRM_XE_DEVICE_QUERY", q->query);
}

/* ---- address spaces */

static pthread_rwlock_t binding = PTHREAD_RWLOCK_INITIALIZER;

struct bound {
	uint64_t at, bytes;
	uint8_t *host;
	bool ours;		/* a mapping of an object's */
	struct bound *next;
};

struct vm {
	uint32_t id;
	struct bound *bound;
	struct vm *next;
};
static struct vm *vms;

static uint64_t canonical(uint64_t at)
{
	return at & ((1ull << 48) - 1);
}

void *xe_at(struct vm *vm, uint64_t at, uint64_t bytes)
{
	uint8_t *p = NULL;

	at = canonical(at);
	pthread_rwlock_rdlock(&binding);
	for (struct bound *b = vm->bound; b && !p; b = b->next)
		if (at >= b->at && at - b->at < b->bytes && bytes <= b->bytes - (at - b->at))
			p = b->host + (at - b->at);
	pthread_rwlock_unlock(&binding);
	return p;
}

static struct vm *vm_find(uint32_t id)
{
	struct vm *vm = vms;

	while (vm && vm->id != id)
		vm = vm->next;
	return vm;
}

/* Whole bindings only: xe would split others, but the driver does not request that. */
static void unbind(struct vm *vm, uint64_t at, uint64_t bytes)
{
	struct bound **link = &vm->bound, *b;

	while ((b = *link)) {
		if (b->at >= at + bytes || at >= b->at + b->bytes) {
			link = &b->next;
			continue;
		}
		if (b->at < at || b->at + b->bytes > at + bytes)
			unknown("a part of a binding is unbound:", at);
		*link = b->next;
		if (b->ours)
			munmap(b->host, b->bytes);
		free(b);
	}
}

/* xe_vma_userptr_pin_pages(): pages of a dma-buf's mapping have none that can be pinned */
static bool is_pinnable(uint64_t p, uint64_t bytes)
{
	return !core_is_pfn_map(p) && !core_is_pfn_map(p + bytes - 1);
}

static int bind(struct file *f, struct vm *vm, const struct drm_xe_vm_bind_op *op)
{
	uint64_t at = canonical(op->addr);
	struct bound *b;
	struct bo *bo;
	void *host;

	switch (op->op) {
	case DRM_XE_VM_BIND_OP_UNMAP:
		unbind(vm, at, op->range);
		return 0;
	case DRM_XE_VM_BIND_OP_MAP:
		bo = bo_find(f, op->obj);
		/* xe_vm_bind_ioctl_validate_bo() */
		if (!bo || op->range > bo->size || op->obj_offset > bo->size - op->range)
			return bo ? -EINVAL : -ENOENT;
		host = bo_map(bo, op->obj_offset, op->range);
		break;
	case DRM_XE_VM_BIND_OP_MAP_USERPTR:
		if (!is_pinnable(op->userptr, op->range))
			return -EFAULT;
		host = PTR(op->userptr);
		break;
	default:
		unknown("DRM_XE_VM_BIND_OP", op->op);
	}
	unbind(vm, at, op->range);
	b = malloc(sizeof(*b));
	*b = (struct bound){ at, op->range, host, op->op == DRM_XE_VM_BIND_OP_MAP, vm->bound };
	vm->bound = b;
	return 0;
}

static int vm_bind(struct file *f, struct drm_xe_vm_bind *v)
{
	const struct drm_xe_vm_bind_op *ops = v->num_binds > 1 ? PTR(v->vector_of_binds) : &v->bind;
	const struct drm_xe_sync *syncs = PTR(v->syncs);
	struct vm *vm = vm_find(v->vm_id);
	int ret = vm ? 0 : -ENOENT;

	pthread_rwlock_wrlock(&binding);
	for (uint32_t i = 0; !ret && i < v->num_binds; i++)
		ret = bind(f, vm, &ops[i]);
	pthread_rwlock_unlock(&binding);
	for (uint32_t i = 0; !ret && i < v->num_syncs; i++) {
		if (syncs[i].type != DRM_XE_SYNC_TYPE_USER_FENCE)
			unknown("DRM_XE_SYNC_TYPE", syncs[i].type);
		__atomic_store_n((uint64_t *)PTR(syncs[i].addr), syncs[i].timeline_value,
				 __ATOMIC_RELEASE);
	}
	return ret;
}

static int vm_create(struct file *f, struct drm_xe_vm_create *c)
{
	struct vm *vm = calloc(1, sizeof(*vm));

	vm->id = c->vm_id = ++f->ids;
	vm->next = vms;
	vms = vm;
	return 0;
}

/* ---- work */

static int queue_create(struct file *f, struct drm_xe_exec_queue_create *c)
{
	struct vm *vm = vm_find(c->vm_id);

	if (!vm)
		return -ENOENT;
	if (c->width != 1)
		unknown("width of an exec queue", c->width);
	c->exec_queue_id = ++f->ids;
	xe_queue_new(f, c->exec_queue_id, vm);
	return 0;
}

static int exec(struct file *f, const struct drm_xe_exec *e)
{
	const struct drm_xe_sync *s = PTR(e->syncs);

	if (is_lost(f))
		return -ECANCELED;
	if (e->num_syncs > 1 || (e->num_syncs && s->type != DRM_XE_SYNC_TYPE_USER_FENCE))
		unknown("syncs of an exec:", e->num_syncs);
	return xe_queue_run(e->exec_queue_id, e->address, e->num_syncs ? s->addr : 0,
			    e->num_syncs ? s->timeline_value : 0);
}

static bool compare(const struct drm_xe_wait_user_fence *w)
{
	uint64_t is = __atomic_load_n((uint64_t *)PTR(w->addr), __ATOMIC_ACQUIRE) & w->mask;
	uint64_t value = w->value & w->mask;

	switch (w->op) {
	case DRM_XE_UFENCE_WAIT_OP_EQ:
		return is == value;
	case DRM_XE_UFENCE_WAIT_OP_NEQ:
		return is != value;
	case DRM_XE_UFENCE_WAIT_OP_GT:
		return is > value;
	case DRM_XE_UFENCE_WAIT_OP_GTE:
		return is >= value;
	}
	unknown("DRM_XE_UFENCE_WAIT_OP", w->op);
}

/* xe_wait_user_fence_ioctl(): -ETIME, and -EIO of a queue that is banned */
static int wait_user_fence(struct file *f, struct drm_xe_wait_user_fence *w)
{
	int64_t end = w->flags & DRM_XE_UFENCE_WAIT_FLAG_ABSTIME || w->timeout < 0 ? w->timeout :
		      core_now() + w->timeout;
	int ret = 0;

	core_unlock();
	while (!compare(w) && !ret) {
		if (is_lost(f))
			ret = -EIO;
		else if (end >= 0 && core_now() >= end)
			ret = -ETIME;
		else
			xe_pause();
	}
	core_lock();
	return ret;
}

static int xe_ioctl(struct file *f, unsigned int nr, void *arg)
{
	struct drm_xe_exec_queue_get_property *property = arg;
	struct drm_xe_gem_mmap_offset *map = arg;
	struct drm_xe_gem_create *create = arg;
	struct drm_xe_vm_destroy *destroy = arg;
	struct bo *bo;

	switch (nr) {
	case DRM_XE_DEVICE_QUERY:
		return query(arg);
	case DRM_XE_GEM_CREATE:
		bo = bo_new(f, create->size);
		if (!bo)
			return -ENOMEM;
		create->handle = bo->handle;
		return 0;
	case DRM_XE_GEM_MMAP_OFFSET:
		bo = bo_find(f, map->handle);
		map->offset = bo ? bo->offset : 0;
		return bo ? 0 : -ENOENT;
	case DRM_XE_VM_CREATE:
		return vm_create(f, arg);
	case DRM_XE_VM_DESTROY:
		if (!vm_find(destroy->vm_id))
			return -ENOENT;
		pthread_rwlock_wrlock(&binding);
		unbind(vm_find(destroy->vm_id), 0, UINT64_MAX);
		pthread_rwlock_unlock(&binding);
		return 0;
	case DRM_XE_VM_BIND:
		return vm_bind(f, arg);
	case DRM_XE_EXEC_QUEUE_CREATE:
		return queue_create(f, arg);
	case DRM_XE_EXEC_QUEUE_DESTROY:
		xe_queue_end(((struct drm_xe_exec_queue_destroy *)arg)->exec_queue_id);
		return 0;
	case DRM_XE_EXEC_QUEUE_GET_PROPERTY:
		if (property->property != DRM_XE_EXEC_QUEUE_GET_PROPERTY_BAN)
			unknown("DRM_XE_EXEC_QUEUE_GET_PROPERTY", property->property);
		property->value = is_lost(f);
		return 0;
	case DRM_XE_EXEC:
		return exec(f, arg);
	case DRM_XE_WAIT_USER_FENCE:
		return wait_user_fence(f, arg);
	}
	return -ENOSYS;
}

const struct kernel kernel_xe = {
	.name = "xe",
	.major = 1,
	.minor = 1,
	.computes = true,
	.ioctl = xe_ioctl,
};
