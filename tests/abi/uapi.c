// SPDX-License-Identifier: MIT
/*
 * lib/system/uapi.h's copies of the kernel's interfaces against the headers that they
 * are copies of. The compiler's command line defines one of the parts below; a header
 * that is too old for it causes an #error.
 */
#include <stddef.h>
#include <linux/ioctl.h>
#include <linux/types.h>

#define NUMBER(ours, theirs) \
	_Static_assert((ours) == (theirs), #ours " is not " #theirs)
#define STRUCT(ours, theirs) \
	_Static_assert(sizeof(struct ours) == sizeof(struct theirs) && \
		       _Alignof(struct ours) == _Alignof(struct theirs), \
		       #ours " is not like " #theirs)
#define FIELD2(ours, a, theirs, b) \
	_Static_assert(offsetof(struct ours, a) == \
		       offsetof(struct theirs, b), #ours "." #a); \
	_Static_assert(sizeof(((struct ours *)0)->a) == \
		       sizeof(((struct theirs *)0)->b), #ours "." #a); \
	_Static_assert(((__typeof__(((struct ours *)0)->a))-1 < 0) == \
		       ((__typeof__(((struct theirs *)0)->b))-1 < 0), \
		       #ours "." #a)
#define FIELD(ours, theirs, name) FIELD2(ours, name, theirs, name)

#ifdef PART_DMA_BUF
#include <linux/dma-buf.h>
#ifndef DMA_BUF_IOCTL_EXPORT_SYNC_FILE
#error too old: linux/dma-buf.h has no sync_file
#endif
#ifndef DMA_BUF_SET_NAME_B
#error too old: linux/dma-buf.h has no DMA_BUF_SET_NAME_B
#endif
/* The numbers while they are theirs; then the names are free for ours. */
enum {
	EXPORT = DMA_BUF_IOCTL_EXPORT_SYNC_FILE,
	IMPORT = DMA_BUF_IOCTL_IMPORT_SYNC_FILE,
	NAME = DMA_BUF_SET_NAME_B,
};
#undef DMA_BUF_IOCTL_EXPORT_SYNC_FILE
#undef DMA_BUF_IOCTL_IMPORT_SYNC_FILE
#undef DMA_BUF_SET_NAME_B
#define dma_buf_export_sync_file our_export
#define dma_buf_import_sync_file our_import
#include "system/uapi.h"
NUMBER(DMA_BUF_IOCTL_EXPORT_SYNC_FILE, (unsigned int)EXPORT);
NUMBER(DMA_BUF_IOCTL_IMPORT_SYNC_FILE, (unsigned int)IMPORT);
NUMBER(DMA_BUF_SET_NAME_B, (unsigned int)NAME);
#undef dma_buf_export_sync_file
#undef dma_buf_import_sync_file
STRUCT(our_export, dma_buf_export_sync_file);
FIELD(our_export, dma_buf_export_sync_file, flags);
FIELD(our_export, dma_buf_export_sync_file, fd);
STRUCT(our_import, dma_buf_import_sync_file);
FIELD(our_import, dma_buf_import_sync_file, flags);
FIELD(our_import, dma_buf_import_sync_file, fd);
#endif

#ifdef PART_DEADLINE
#include <linux/sync_file.h>
#ifndef SYNC_IOC_SET_DEADLINE
#error too old: linux/sync_file.h has no SYNC_IOC_SET_DEADLINE
#endif
enum { DEADLINE = SYNC_IOC_SET_DEADLINE };
#undef SYNC_IOC_SET_DEADLINE
#define sync_set_deadline our_deadline
#include "system/uapi.h"
NUMBER(SYNC_IOC_SET_DEADLINE, (unsigned int)DEADLINE);
#undef sync_set_deadline
STRUCT(our_deadline, sync_set_deadline);
FIELD(our_deadline, sync_set_deadline, deadline_ns);
FIELD(our_deadline, sync_set_deadline, pad);
#endif

#ifdef PART_SYNCOBJ
#include <drm.h>
#include "system/uapi.h"
#ifndef DRM_IOCTL_SYNCOBJ_TRANSFER
#error too old: drm.h has no DRM_IOCTL_SYNCOBJ_TRANSFER
#endif
/* The kernel looks at the number and takes the size as it comes. */
#define IOCTL(ours, theirs) \
	NUMBER(_IOC_NR(ours), _IOC_NR(theirs)); \
	NUMBER(_IOC_TYPE(ours), _IOC_TYPE(theirs)); \
	NUMBER(_IOC_DIR(ours), _IOC_DIR(theirs)); \
	_Static_assert(_IOC_SIZE(ours) <= _IOC_SIZE(theirs), #ours)
NUMBER(UAPI_IOCTL_SYNCOBJ_CREATE, DRM_IOCTL_SYNCOBJ_CREATE);
NUMBER(UAPI_IOCTL_SYNCOBJ_DESTROY, DRM_IOCTL_SYNCOBJ_DESTROY);
NUMBER(UAPI_IOCTL_SYNCOBJ_TRANSFER, DRM_IOCTL_SYNCOBJ_TRANSFER);
IOCTL(UAPI_IOCTL_SYNCOBJ_HANDLE_TO_FD, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD);
IOCTL(UAPI_IOCTL_SYNCOBJ_FD_TO_HANDLE, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE);
NUMBER(UAPI_SYNCOBJ_CREATE_SIGNALED, DRM_SYNCOBJ_CREATE_SIGNALED);
NUMBER(UAPI_SYNCOBJ_SYNC_FILE, DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE);
NUMBER(UAPI_SYNCOBJ_SYNC_FILE, DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE);
STRUCT(uapi_syncobj_create, drm_syncobj_create);
FIELD(uapi_syncobj_create, drm_syncobj_create, handle);
FIELD(uapi_syncobj_create, drm_syncobj_create, flags);
STRUCT(uapi_syncobj_destroy, drm_syncobj_destroy);
FIELD(uapi_syncobj_destroy, drm_syncobj_destroy, handle);
FIELD(uapi_syncobj_handle, drm_syncobj_handle, handle);
FIELD(uapi_syncobj_handle, drm_syncobj_handle, flags);
FIELD(uapi_syncobj_handle, drm_syncobj_handle, fd);
FIELD(uapi_syncobj_handle, drm_syncobj_handle, pad);
_Static_assert(sizeof(struct uapi_syncobj_handle) == 16, "the first size");
STRUCT(uapi_syncobj_transfer, drm_syncobj_transfer);
FIELD(uapi_syncobj_transfer, drm_syncobj_transfer, src_handle);
FIELD(uapi_syncobj_transfer, drm_syncobj_transfer, dst_handle);
FIELD(uapi_syncobj_transfer, drm_syncobj_transfer, src_point);
FIELD(uapi_syncobj_transfer, drm_syncobj_transfer, dst_point);
FIELD(uapi_syncobj_transfer, drm_syncobj_transfer, flags);
#endif
