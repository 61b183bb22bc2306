/* SPDX-License-Identifier: MIT */
/*
 * Level Zero's ABI: the packaged header, and those declarations that dlbuf uses and the
 * oldest packaged header (1.4, Debian 12) lacks. The latter have names of our own.
 */
#ifndef DLBUF_LEVELZERO_ABI_H
#define DLBUF_LEVELZERO_ABI_H

#include <level_zero/ze_api.h>

enum {
	/* ze_result_t */
	LZABI_RESULT_ADDRESS_NOT_FOUND = 0x78000021,
	/* ze_structure_type_t */
	LZABI_STYPE_EXTERNAL_MEMMAP_SYSMEM = 0x00020037,
	/* ze_host_mem_alloc_flag_t */
	LZABI_HOST_MEM_READ_ONLY = 1 << 4,
	/* ze_command_queue_flag_t */
	LZABI_COMMAND_QUEUE_IN_ORDER = 1 << 1,
};

/* ze_external_memmap_sysmem_ext_desc_t */
struct lzabi_memmap_sysmem {
	ze_structure_type_t stype;
	const void *next;
	void *memory;
	uint64_t bytes;
};

/* ze_host_function_callback_t */
typedef void (*lzabi_host_fn)(void *data);

#endif /* DLBUF_LEVELZERO_ABI_H */
