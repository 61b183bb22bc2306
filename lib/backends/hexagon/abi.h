/* SPDX-License-Identifier: MIT */
/*
 * The ABI of FastRPC: its library (remote.h, AEEStdErr.h and rpcmem.h of
 * qualcomm/fastrpc, which Debian packages for arm64 only) and the kernel's
 * misc/fastrpc.h, which headers before Linux 5.18 lack in part. abi@hexagon and
 * unit/hexagon_kernel compare them with the headers.
 */
#ifndef DLBUF_HEXAGON_ABI_H
#define DLBUF_HEXAGON_ABI_H

#include <stddef.h>
#include <stdint.h>

#include <linux/ioctl.h>

/* Results of the library. Those of the DSP have AEE_DSP added. */
enum {
	AEE_SUCCESS = 0,
	AEE_EFAILED = 0x1,
	AEE_ENOMEMORY = 0x2,
	AEE_EBADPARM = 0xe,
	AEE_EUNSUPPORTED = 0x14,
	AEE_EALREADY = 0x1a,
	AEE_EINVALIDDOMAIN = 0x39,
	AEE_EINVALIDDEVICE = 0x3b,
	AEE_ENOSUCHDEVICE = 0x43,
	AEE_ENOSUCHMAP = 0x48,
	AEE_EBADDOMAIN = 0x4b,
	AEE_ENOTINITIALIZED = 0x6b,
	AEE_ECONNREFUSED = 0x72,
};
#define AEE_DSP 0x80000400u

/* Numbers of domains. A further session of a domain adds a multiple of 8. */
enum {
	HEXAGON_ADSP = 0,
	HEXAGON_MDSP = 1,
	HEXAGON_SDSP = 2,
	HEXAGON_CDSP = 3,
	HEXAGON_CDSP1 = 4,
	HEXAGON_GDSP0 = 5,
	HEXAGON_GDSP1 = 6,
};
#define HEXAGON_DOMAINS 8
#define HEXAGON_EFFECTIVE_DOMAINS 32

/* enum fastrpc_map_flags, in the library and in the kernel. */
enum {
	HEXAGON_MAP_STATIC = 0,
	HEXAGON_MAP_FD = 2,
	HEXAGON_MAP_FD_DELAYED = 3,
	HEXAGON_MAP_FD_NOMAP = 16,
};

/* remote_handle_control() */
#define HEXAGON_GET_DSP_INFO 2
#define HEXAGON_DOMAIN_SUPPORT 0
struct hexagon_capability {
	uint32_t domain;
	uint32_t attribute;
	uint32_t capability;
};

/* misc/fastrpc.h */
struct hexagon_mem_map {
	int32_t version;
	int32_t fd;
	int32_t offset;
	uint32_t flags;
	uint64_t vaddrin;
	uint64_t length;
	uint64_t vaddrout;
	int32_t attrs;
	int32_t reserved[4];
};
struct hexagon_mem_unmap {
	int32_t version;
	int32_t fd;
	uint64_t vaddr;
	uint64_t length;
	int32_t reserved[5];
};
#define HEXAGON_IOCTL_MEM_MAP _IOWR('R', 10, struct hexagon_mem_map)
#define HEXAGON_IOCTL_MEM_UNMAP _IOWR('R', 11, struct hexagon_mem_unmap)

#endif /* DLBUF_HEXAGON_ABI_H */
