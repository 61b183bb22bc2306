/* SPDX-License-Identifier: MIT */
/*
 * Tensors. A tensor is DLPack's own DLManagedTensorVersioned: hand it to any
 * framework, or call its deleter. There is no wrapper type.
 *
 * data and byte_offset: where the device has plain addresses (CPU) data
 * points at the first element and byte_offset is 0. Where it has handles
 * (Vulkan, see dlbuf/vulkan.h) data is the handle of the whole buffer and
 * byte_offset leads to the first element. Strides are always written, and a
 * tensor without elements has data == NULL.
 *
 * A tensor is memory, not yet order: before using it call dlbuf_acquire(),
 * see dlbuf/sync.h.
 */
#ifndef DLBUF_TENSOR_H
#define DLBUF_TENSOR_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an import was done, best first. */
enum dlbuf_path {
	DLBUF_PATH_DIRECT = 1,	/* the device's API took the dma-buf */
	DLBUF_PATH_HOST = 2,	/* its host pages, registered with the device */
	DLBUF_PATH_BRIDGE = 3,	/* a copy made by a GPU */
	DLBUF_PATH_COPY = 4,	/* a copy made by the CPU */
};

/* "direct", "host", "bridge", "copy"; "unknown" for another number. Static. */
DLBUF_API const char *dlbuf_path_name(enum dlbuf_path path);

struct dlbuf_import_opts {
	size_t size;
	/*
	 * dlbuf_access; 0 means all that the fd was opened for. Without
	 * DLBUF_WRITE the tensor has DLPACK_FLAG_BITMASK_READ_ONLY set and,
	 * on the CPU, pages that cannot be written.
	 */
	uint32_t access;
	uint32_t flags;		/* DLBUF_IMPORT_... */
	uint32_t view;		/* enum dlbuf_view, of dlbuf_import_frame() */
	/*
	 * DLBUF_PATH_BIT()s of those that may be tried; 0: all that flags
	 * allow. For tests and measurements: the first that serves is the best.
	 */
	uint32_t paths;
};

#define DLBUF_PATH_BIT(path) (1u << (path))

#define DLBUF_IMPORT_MAY_COPY	(1u << 0)	/* where nothing else helps */
#define DLBUF_IMPORT_UNCROPPED	(1u << 1)	/* all of a frame that is stored */
/*
 * For dlbuf_recv(), which otherwise keeps no import without a tensor: its bytes
 * and fd would stay with a receiver for buffers that never come again. A camera
 * sends the same few buffers again and again: with KEEP each is imported once.
 * dlbuf_import() and dlbuf_import_frame() always keep.
 */
#define DLBUF_IMPORT_KEEP	(1u << 2)

/*
 * Makes a tensor over the bytes of a dma-buf. Importing a dma-buf that the
 * device has seen before is a lookup.
 *
 * Without a copy, unless DLBUF_IMPORT_MAY_COPY allows one and the device has no
 * other way: then the tensor is memory of the device that the buffer is copied
 * into by each acquire and out of by each release of a writer. Its path says so.
 * DLPACK_FLAG_BITMASK_IS_COPIED is not set, because it means a single owner.
 *
 * fd is duplicated: close yours whenever you like. layout and opts are
 * borrowed. *tensor is new: it keeps the memory and the device until its
 * deleter is called, on any thread. May block while the driver maps; does not
 * wait for fences.
 * -EINVAL, -EOPNOTSUPP, -EOVERFLOW  from dlbuf_layout_extent(), or bad opts
 * -EBADF   fd is not open or not a dma-buf
 * -EACCES  opts ask for writing, fd was opened read-only
 * -ERANGE  the layout does not lie inside the dma-buf
 * -EIO, -EOPNOTSUPP  the driver refused; the sentence has its call and code,
 *          and with several paths what each of them said
 * -ENOMEM, -EMFILE
 */
DLBUF_API int dlbuf_import(struct dlbuf_device *dev, int fd,
			   const DLTensor *layout,
			   const struct dlbuf_import_opts *opts,
			   DLManagedTensorVersioned **tensor);

/*
 * Makes another tensor over the same bytes: one to hand to a framework that
 * will free it when it likes, one to keep for acquire and release.
 *
 * tensor is borrowed, *out is new and independent of it.
 * -EINVAL  not a tensor of dlbuf
 * -ENOMEM
 */
DLBUF_API int dlbuf_tensor_share(const DLManagedTensorVersioned *tensor,
				 DLManagedTensorVersioned **out);

/*
 * The same as a DLManagedTensor, for consumers older than DLPack 1.0.
 * -EOPNOTSUPP  the tensor is read-only, which the old struct cannot say
 */
DLBUF_API int dlbuf_tensor_share_legacy(const DLManagedTensorVersioned *tensor,
					DLManagedTensor **out);

struct dlbuf_tensor_info {
	size_t size;			/* of this struct, set by the caller */
	struct dlbuf_device *device;	/* peeked, while the tensor lives */
	int fd;				/* the dma-buf, peeked likewise */
	enum dlbuf_path path;
	uint32_t access;		/* dlbuf_access that the tensor allows */
	uint32_t acquired;		/* dlbuf_access acquired now, or 0 */
	uint64_t dev, ino;		/* identity of the dma-buf */
	uint64_t bytes;			/* size of the dma-buf */
	uint64_t first, end;		/* the bytes that the tensor touches */
};

/* Says what is behind a tensor. -EINVAL: not of dlbuf, or size not set. */
DLBUF_API int dlbuf_tensor_get_info(const DLManagedTensorVersioned *tensor,
				    struct dlbuf_tensor_info *info);

struct dlbuf_path_info {
	size_t size;			/* of this struct */
	enum dlbuf_path path;
	int status;			/* 0, or why it does not serve */
	char reason[512];		/* the sentence behind status, or "" */
};

/*
 * Tries, one after another, each path by which the device could import this
 * dma-buf, and calls fn with what came of it; nothing of it stays. info is
 * peeked, for the call only. A non-zero result of fn ends the walk and is
 * returned. fd is borrowed. access as in dlbuf_import_opts. May block while the
 * driver maps.
 * -EINVAL  NULL, or access is none
 * -EBADF   fd is not open or not a dma-buf
 * -EACCES  fd was not opened for that access
 */
typedef int (*dlbuf_path_fn)(const struct dlbuf_path_info *info, void *data);
DLBUF_API int dlbuf_probe(struct dlbuf_device *dev, int fd, uint32_t access,
			  dlbuf_path_fn fn, void *data);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_TENSOR_H */
