/* SPDX-License-Identifier: MIT */
/*
 * Kernel interfaces that old kernel headers lack, or that no package installs. The
 * numbers are part of the kernel's ABI. The tests compare them with the headers, if
 * these are installed.
 */
#ifndef DLBUF_LIB_UAPI_H
#define DLBUF_LIB_UAPI_H

#include <stdint.h>

#include <linux/dma-buf.h>
#include <linux/ioctl.h>
#include <linux/sync_file.h>

#ifndef DMA_BUF_IOCTL_EXPORT_SYNC_FILE /* before 6.0 */
struct dma_buf_export_sync_file {
	__u32 flags;
	__s32 fd;
};
struct dma_buf_import_sync_file {
	__u32 flags;
	__s32 fd;
};
#define DMA_BUF_IOCTL_EXPORT_SYNC_FILE \
	_IOWR(DMA_BUF_BASE, 2, struct dma_buf_export_sync_file)
#define DMA_BUF_IOCTL_IMPORT_SYNC_FILE \
	_IOW(DMA_BUF_BASE, 3, struct dma_buf_import_sync_file)
#endif

#ifndef DMA_BUF_SET_NAME_B /* before 5.18 */
#define DMA_BUF_SET_NAME_B _IOW(DMA_BUF_BASE, 1, __u64)
#endif

#ifndef SYNC_IOC_SET_DEADLINE /* before 6.6 */
struct sync_set_deadline {
	__u64 deadline_ns;
	__u64 pad;
};
#define SYNC_IOC_SET_DEADLINE \
	_IOW(SYNC_IOC_MAGIC, 5, struct sync_set_deadline)
#endif

/* From drm/drm.h, which is in a package of its own. */
struct uapi_syncobj_create {
	uint32_t handle;
	uint32_t flags;
};
struct uapi_syncobj_destroy {
	uint32_t handle;
	uint32_t pad;
};
/* Without `point`, which newer kernels append. They accept both sizes. */
struct uapi_syncobj_handle {
	uint32_t handle;
	uint32_t flags;
	int32_t fd;
	uint32_t pad;
};
struct uapi_syncobj_transfer {
	uint32_t src_handle;
	uint32_t dst_handle;
	uint64_t src_point;
	uint64_t dst_point;
	uint32_t flags;
	uint32_t pad;
};
#define UAPI_SYNCOBJ_CREATE_SIGNALED 1u
#define UAPI_SYNCOBJ_SYNC_FILE 1u
#define UAPI_IOCTL_SYNCOBJ_CREATE _IOWR('d', 0xbf, struct uapi_syncobj_create)
#define UAPI_IOCTL_SYNCOBJ_DESTROY _IOWR('d', 0xc0, struct uapi_syncobj_destroy)
#define UAPI_IOCTL_SYNCOBJ_HANDLE_TO_FD \
	_IOWR('d', 0xc1, struct uapi_syncobj_handle)
#define UAPI_IOCTL_SYNCOBJ_FD_TO_HANDLE \
	_IOWR('d', 0xc2, struct uapi_syncobj_handle)
#define UAPI_IOCTL_SYNCOBJ_TRANSFER _IOWR('d', 0xcc, struct uapi_syncobj_transfer)

#endif /* DLBUF_LIB_UAPI_H */
