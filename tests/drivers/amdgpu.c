// SPDX-License-Identifier: MIT
/*
 * amdgpu of Linux 6.12 (DRM 3.59) with the GPU of a Ryzen AI (GFX1150, 1002:150e): one
 * shader engine of two arrays with eight CUs each, memory of the system. For RADV.
 */
#include <amdgpu_drm.h>

#include "core.h"

static const struct drm_amdgpu_info_device device = {
	.device_id = 0x150e,
	.chip_rev = 1,
	.external_rev = 1,
	.family = AMDGPU_FAMILY_GC_11_5_0,
	.num_shader_engines = 1,
	.num_shader_arrays_per_engine = 2,
	.gpu_counter_freq = 100000,
	.max_engine_clock = 2900000,
	.max_memory_clock = 3750000,
	.cu_active_number = 16,
	.cu_bitmap = { { 0xff, 0xff } },
	.cu_ao_bitmap = { { 0xff, 0xff } },
	.enabled_rb_pipes_mask = 0xf,
	.num_rb_pipes = 4,
	.num_hw_gfx_contexts = 8,
	.ids_flags = AMDGPU_IDS_FLAGS_FUSION,
	.virtual_address_offset = 0x200000,
	.virtual_address_max = 0x800000000000,
	.virtual_address_alignment = 4096,
	.pte_fragment_size = 0x200000,
	.gart_page_size = 4096,
	.vram_type = AMDGPU_VRAM_TYPE_LPDDR5,
	.vram_bit_width = 128,
	.gc_double_offchip_lds_buf = 1,
	.wave_front_size = 32,
	.num_shader_visible_vgprs = 1024,
	.num_cu_per_sh = 8,
	.num_tcc_blocks = 4,
	.gs_vgt_table_depth = 32,
	.gs_prim_buffer_depth = 1792,
	.max_gs_waves_per_vgt = 32,
	.high_va_offset = 0xffff800000000000,
	.high_va_max = 0xffffffffffe00000,
	.min_engine_clock = 400000,
	.min_memory_clock = 400000,
	.tcp_cache_size = 32,
	.num_sqc_per_wgp = 1,
	.sqc_data_cache_size = 16,
	.sqc_inst_cache_size = 32,
	.gl1c_cache_size = 256,
	.gl2c_cache_size = 2048,
};

static void put(struct drm_amdgpu_info *i, const void *from, size_t size)
{
	memcpy(PTR(i->return_pointer), from,
	       i->return_size < size ? i->return_size : size);
}

/* One ring of graphics, four of compute. */
static int hw_ip(struct drm_amdgpu_info *i)
{
	struct drm_amdgpu_info_hw_ip ip = {
		.hw_ip_version_major = 11,
		.hw_ip_version_minor = 5,
		.ip_discovery_version = 11 << 16 | 5 << 8,
		.ib_start_alignment = 32,
		.ib_size_alignment = 32,
	};

	if (i->query_hw_ip.type == AMDGPU_HW_IP_GFX)
		ip.available_rings = 1;
	else if (i->query_hw_ip.type == AMDGPU_HW_IP_COMPUTE)
		ip.available_rings = 15;
	if (!ip.available_rings)
		ip = (struct drm_amdgpu_info_hw_ip){ 0 };
	put(i, &ip, sizeof(ip));
	return 0;
}

/* amdgpu_info_ioctl() */
static int info(struct drm_amdgpu_info *i)
{
	/* GB_ADDR_CONFIG: four pipes, two fragments, four packers. */
	static const uint32_t gb_addr_config = 0x242;
	static const uint64_t one = 1, none;
	struct drm_amdgpu_heap_info heap = {
		.total_heap_size = 4ull << 30, .usable_heap_size = 4ull << 30,
		.max_allocation = 3ull << 30,
	};
	struct drm_amdgpu_memory_info memory = { heap, heap, heap };
	struct drm_amdgpu_info_vram_gtt sizes = { 4ull << 30, 4ull << 30, 4ull << 30 };
	struct drm_amdgpu_info_firmware firmware = { .ver = 100, .feature = 32 };
	uint32_t ibs[AMDGPU_HW_IP_NUM];

	switch (i->query) {
	case AMDGPU_INFO_ACCEL_WORKING:
		put(i, &one, 4);
		return 0;
	case AMDGPU_INFO_DEV_INFO:
		put(i, &device, sizeof(device));
		return 0;
	case AMDGPU_INFO_HW_IP_INFO:
		return hw_ip(i);
	case AMDGPU_INFO_HW_IP_COUNT:
		put(i, i->query_hw_ip.type <= AMDGPU_HW_IP_COMPUTE ? &one : &none, 4);
		return 0;
	case AMDGPU_INFO_FW_VERSION:
		put(i, &firmware, sizeof(firmware));
		return 0;
	case AMDGPU_INFO_READ_MMR_REG:
		if (i->read_mmr_reg.dword_offset != 0x263e)
			unknown("register", i->read_mmr_reg.dword_offset);
		put(i, &gb_addr_config, 4);
		return 0;
	case AMDGPU_INFO_MEMORY:
		put(i, &memory, sizeof(memory));
		return 0;
	case AMDGPU_INFO_VRAM_GTT:
		put(i, &sizes, sizeof(sizes));
		return 0;
	case AMDGPU_INFO_VRAM_USAGE:
	case AMDGPU_INFO_VIS_VRAM_USAGE:
	case AMDGPU_INFO_GTT_USAGE:
	case AMDGPU_INFO_TIMESTAMP:
		put(i, &none, 8);
		return 0;
	case AMDGPU_INFO_MAX_IBS:
		for (int k = 0; k < AMDGPU_HW_IP_NUM; k++)
			ibs[k] = 50;
		put(i, ibs, sizeof(ibs));
		return 0;
	case AMDGPU_INFO_VIDEO_CAPS:	/* no engine for video */
	case AMDGPU_INFO_GPUVM_FAULT:
		return -EINVAL;
	}
	unknown("AMDGPU_INFO", i->query);
}

static int gem_create(struct file *f, union drm_amdgpu_gem_create *c)
{
	struct bo *bo = bo_new(f, c->in.bo_size);

	if (!bo)
		return -ENOMEM;
	c->out.handle = bo->handle;
	return 0;
}

/* The domain of an import is GTT: amdgpu_gem_prime_import(), amdgpu_dma_buf_create_obj(). */
static int gem_op(struct file *f, struct drm_amdgpu_gem_op *op)
{
	struct drm_amdgpu_gem_create_in in = { .domains = AMDGPU_GEM_DOMAIN_GTT };
	struct bo *bo = bo_find(f, op->handle);

	if (!bo)
		return -ENOENT;
	if (op->op != AMDGPU_GEM_OP_GET_GEM_CREATE_INFO)
		unknown("AMDGPU_GEM_OP", op->op);
	in.bo_size = bo->size;
	in.alignment = 4096;
	memcpy(PTR(op->value), &in, sizeof(in));
	return 0;
}

/* amdgpu_gem_va_ioctl(), amdgpu_vm_bo_map(): -EINVAL past the object's end */
static int gem_va(struct file *f, struct drm_amdgpu_gem_va *va)
{
	struct bo *bo = bo_find(f, va->handle);
	bool needs = va->operation == AMDGPU_VA_OP_MAP || va->operation == AMDGPU_VA_OP_REPLACE;

	if (!needs || va->flags & AMDGPU_VM_PAGE_PRT)
		return 0;
	if (!bo)
		return -ENOENT;
	return va->offset_in_bo + va->map_size > bo->size ? -EINVAL : 0;
}

/* amdgpu_cs_ioctl(), amdgpu_cs_pass2() */
static int cs(struct file *f, union drm_amdgpu_cs *c)
{
	const uint64_t *chunks = PTR(c->in.chunks);
	struct sync waits[64], signals[64];
	uint32_t n[2] = { 0 };
	int ret;

	if (is_lost(f))
		return -ECANCELED;
	for (uint32_t i = 0; i < c->in.num_chunks; i++) {
		const struct drm_amdgpu_cs_chunk *k = PTR(chunks[i]);
		const struct drm_amdgpu_cs_chunk_syncobj *timelines = PTR(k->chunk_data);
		const struct drm_amdgpu_cs_chunk_sem *binaries = PTR(k->chunk_data);
		bool timeline = false, signal = false;

		switch (k->chunk_id) {
		case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL:
			timeline = signal = true;
			break;
		case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT:
			timeline = true;
			break;
		case AMDGPU_CHUNK_ID_SYNCOBJ_OUT:
			signal = true;
			break;
		case AMDGPU_CHUNK_ID_SYNCOBJ_IN:
			break;
		case AMDGPU_CHUNK_ID_IB:
		case AMDGPU_CHUNK_ID_FENCE:
		case AMDGPU_CHUNK_ID_BO_HANDLES:
			continue;
		default:
			unknown("AMDGPU_CHUNK_ID", k->chunk_id);
		}
		for (uint32_t j = 0; j < 4 * k->length_dw / (timeline ? sizeof(*timelines) :
							     sizeof(*binaries)); j++) {
			if (n[signal] == 64)
				unknown("number of fences", n[signal]);
			(signal ? signals : waits)[n[signal]++] = timeline ?
				(struct sync){ timelines[j].handle, timelines[j].point } :
				(struct sync){ binaries[j].handle, 0 };
		}
	}
	ret = submit(f, waits, n[0], signals, n[1]);
	c->out.handle = ++f->ids;
	return ret;
}

static int ctx(struct file *f, union drm_amdgpu_ctx *c)
{
	switch (c->in.op) {
	case AMDGPU_CTX_OP_ALLOC_CTX:
		c->out.alloc.ctx_id = ++f->ids;
		return 0;
	case AMDGPU_CTX_OP_QUERY_STATE2:
		c->out.state.flags = 0;
		return 0;
	case AMDGPU_CTX_OP_FREE_CTX:
		return 0;
	case AMDGPU_CTX_OP_GET_STABLE_PSTATE:
	case AMDGPU_CTX_OP_SET_STABLE_PSTATE:
		return -EINVAL;
	}
	unknown("AMDGPU_CTX_OP", c->in.op);
}

/* Absolute times of the driver's; status 1 is busy. */
static int wait_cs(struct file *f, union drm_amdgpu_wait_cs *w)
{
	w->out.status = wait_all(f, w->in.timeout > INT64_MAX ? INT64_MAX :
				    (int64_t)w->in.timeout) != 0;
	return 0;
}

static int amdgpu_ioctl(struct file *f, unsigned int nr, void *arg)
{
	union drm_amdgpu_gem_wait_idle *idle = arg;
	union drm_amdgpu_gem_mmap *m = arg;
	struct bo *bo;

	switch (nr) {
	case DRM_AMDGPU_INFO:
		return info(arg);
	case DRM_AMDGPU_GEM_CREATE:
		return gem_create(f, arg);
	case DRM_AMDGPU_GEM_MMAP:
		bo = bo_find(f, m->in.handle);
		m->out.addr_ptr = bo ? bo->offset : 0;
		return bo ? 0 : -ENOENT;
	case DRM_AMDGPU_GEM_OP:
		return gem_op(f, arg);
	case DRM_AMDGPU_GEM_METADATA:	/* none was set */
		memset(&((struct drm_amdgpu_gem_metadata *)arg)->data, 0,
		       sizeof(((struct drm_amdgpu_gem_metadata *)arg)->data));
		return 0;
	case DRM_AMDGPU_GEM_VA:
		return gem_va(f, arg);
	case DRM_AMDGPU_GEM_WAIT_IDLE:
		idle->out.status = wait_all(f, idle->in.timeout > INT64_MAX ? INT64_MAX :
					       (int64_t)idle->in.timeout) != 0;
		return 0;
	case DRM_AMDGPU_CTX:
		return ctx(f, arg);
	case DRM_AMDGPU_CS:
		return cs(f, arg);
	case DRM_AMDGPU_WAIT_CS:
		return wait_cs(f, arg);
	case DRM_AMDGPU_BO_LIST:
		((union drm_amdgpu_bo_list *)arg)->out.list_handle = ++f->ids;
		return 0;
	case DRM_AMDGPU_VM:
		return 0;
	}
	return -ENOSYS;
}

const struct kernel kernel_amdgpu = {
	.name = "amdgpu",
	.major = 3,
	.minor = 59,
	.ioctl = amdgpu_ioctl,
};
