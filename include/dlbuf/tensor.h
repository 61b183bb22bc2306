/* SPDX-License-Identifier: MIT */
/*
 * Tensors. A tensor is a DLManagedTensorVersioned of DLPack, without a wrapper:
 * give it to any framework, or call its deleter.
 *
 * data and byte_offset:
 *   - on a device with addresses (CPU, CUDA) data points to the first element and
 *     byte_offset is 0
 *   - on a device with handles (Vulkan, see dlbuf/vulkan.h) data is the handle of
 *     the whole buffer and byte_offset is where the first element begins
 *   - a tensor without elements has data == NULL
 * strides is never NULL for a tensor with dimensions.
 *
 * A copy of the struct is not a tensor of dlbuf: calls refuse it with -EINVAL. Only the
 * deleter of the copy works: it deletes the tensor. For a tensor with another shape, call
 * dlbuf_tensor_share().
 *
 * Allocations. If the device has imported a buffer before, the library calls
 * malloc() this often, without the driver's own calls. The deleter of a tensor, or
 * of the last tensor of a frame, frees the memory.
 *   - dlbuf_import(), dlbuf_tensor_import(), each share or view of a tensor: once
 *   - dlbuf_import_frame(): once for the lease and all tensors of the frame. If the
 *     frame is copied: once for the lease and once per tensor
 *   - dlbuf_lease_create(): once
 *   - acquire and release of a tensor on the CPU without a deadline: never. Other
 *     devices reuse their objects, and have one for each piece of work in
 *     progress
 *   - dlbuf_acquire_all(): once for each dma-buf and frame whose tensors it acquires together,
 *     such as the planes of a frame; once more for more than 8 tensors
 *   - a fence that a lease, a notification or a stream waits for: once
 *   - the first failure on a thread, for the error text: once
 *
 * A tensor gives access to memory, not order: call dlbuf_acquire() before you use
 * the memory, see dlbuf/sync.h.
 */
#ifndef DLBUF_TENSOR_H
#define DLBUF_TENSOR_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_import_opts {
	size_t size;
	/*
	 * dlbuf_access. 0 means the access that the fd was opened for. DLBUF_WRITE
	 * means DLBUF_RW, because writable memory can be read too. Without
	 * DLBUF_WRITE the tensor has DLPACK_FLAG_BITMASK_READ_ONLY set, and on the
	 * CPU its pages cannot be written.
	 */
	uint32_t access;
	uint32_t flags;		/* DLBUF_IMPORT_... */
	uint32_t view;		/* enum dlbuf_view, for dlbuf_import_frame() */
	/*
	 * The paths that may be tried, as DLBUF_PATH_BIT()s. 0: all that flags
	 * allow. For tests and measurements: by default the device takes the
	 * best path.
	 */
	uint32_t paths;
};

#define DLBUF_PATH_BIT(path) (1u << (path))

#define DLBUF_IMPORT_MAY_COPY	(1u << 0)	/* if there is no other way */
/*
 * For dlbuf_recv(): keeps the import in the cache after its last tensor. Use it if
 * the sender sends the same few buffers again and again, as a camera does: each is
 * then imported once. Without it dlbuf_recv() keeps no import, because the
 * receiver would keep the memory and the fd of a buffer that the sender never
 * sends again. dlbuf_import() and dlbuf_import_frame() always keep imports.
 */
#define DLBUF_IMPORT_KEEP	(1u << 1)

/*
 * Makes a tensor over the bytes of a dma-buf. If the device has imported the
 * dma-buf before, this is a lookup.
 *
 * The tensor is not a copy, unless flags has DLBUF_IMPORT_MAY_COPY and the device
 * has no other way. Then the tensor is memory of the device: each acquire copies
 * the buffer into it, and each release of a writer copies it back.
 * dlbuf_tensor_info.path shows this. DLPACK_FLAG_BITMASK_IS_COPIED is not set,
 * because it promises a single owner.
 *
 * fd is duplicated: you may close yours. layout and opts are borrowed. *tensor is
 * new: it keeps the memory and the device alive until its deleter is called,
 * which any thread may do. May block while the driver maps. Does not wait for
 * fences.
 * -EINVAL, -EOPNOTSUPP, -EOVERFLOW  from dlbuf_layout_extent(), or bad opts
 * -EBADF   fd is not open or not a dma-buf
 * -EACCES  opts ask for writing and fd was opened read-only
 * -ERANGE  the layout is not inside the dma-buf
 * -EIO, -EOPNOTSUPP  the driver refused; the error text has its call and code, and
 *          with several paths the reason of each
 * -EBUSY   FastRPC has a map of the memory already
 * -ENODEV  the exporter has revoked the dma-buf: its device is gone
 */
DLBUF_API int dlbuf_import(struct dlbuf_device *dev, int fd,
			   const DLTensor *layout,
			   const struct dlbuf_import_opts *opts,
			   DLManagedTensorVersioned **tensor);

/*
 * Makes another tensor of the same import. It has the lease, the device and the access
 * of `tensor`, and is acquired on its own. No byte is copied. For example, give one
 * tensor to a framework, which deletes it at any time, and keep one for acquire and
 * release.
 *
 * layout NULL: the new tensor covers the same bytes with the same layout. Otherwise it
 * is a view, with another shape, strides or type: a part of a picture, a column, a
 * transposed matrix. layout->byte_offset is relative to the first byte that `tensor`
 * covers, which is dlbuf_tensor_info.first and, without negative strides, the first
 * element of `tensor`: with byte_offset 0 the view begins where the tensor does. data
 * and byte_offset of the new tensor follow the rules at the top of this file; on a
 * device with handles data is still the handle of the whole buffer. All elements must
 * lie in the bytes that `tensor` covers, between dlbuf_tensor_info.first and .end, so
 * that a view of a plane never has bytes of another plane. Padding between the rows of
 * `tensor` is inside. A part of a grey picture of [1080, 1920], 100 rows of 200 pixels from
 * row 50 and column 60 on:
 *
 *	int64_t shape[] = { 100, 200 }, strides[] = { 1920, 1 };
 *	DLTensor part = { .ndim = 2, .dtype = t->dl_tensor.dtype, .shape = shape,
 *			  .strides = strides, .byte_offset = 50 * 1920 + 60 };
 *	DLManagedTensorVersioned *view;
 *
 *	if (dlbuf_tensor_share(t, &part, &view))
 *		errx(1, "%s", dlbuf_last_error());
 *
 * tensor and layout are borrowed. *out is new and independent of them. The call clears
 * DLPACK_FLAG_BITMASK_IS_COPIED of `tensor`. Does not block.
 * -EINVAL, -EOPNOTSUPP, -EOVERFLOW  from dlbuf_layout_extent(), for byte_offset from the
 *          start of the dma-buf; or not a tensor of dlbuf
 * -ERANGE  the view is not inside the bytes of the tensor
 */
DLBUF_API int dlbuf_tensor_share(const DLManagedTensorVersioned *tensor,
				 const DLTensor *layout,
				 DLManagedTensorVersioned **out);

/*
 * Makes a tensor over the same bytes on another device (or the same one): imports the
 * dma-buf of `tensor` into dev, with the same layout. It has the lease of `tensor`, so
 * the buffer of a frame returns to its producer when both devices are done with it.
 *
 * opts as for dlbuf_import(), which describes when the new tensor is a copy. opts.access
 * 0 means the access of `tensor`. tensor and opts are borrowed. *out is new and
 * independent of them. May block while the driver maps. Does not wait for fences.
 * -EINVAL      not a tensor of dlbuf, or bad opts
 * -EACCES      opts ask for writing and `tensor` does not allow it
 * -EOPNOTSUPP  the tensor is the library's own copy of a frame that is not linear, and
 *              the library reuses the copy's buffer; or the device has no path to the
 *              dma-buf
 * and the other errors of dlbuf_import()
 */
DLBUF_API int dlbuf_tensor_import(struct dlbuf_device *dev,
				  const DLManagedTensorVersioned *tensor,
				  const struct dlbuf_import_opts *opts,
				  DLManagedTensorVersioned **out);

/*
 * dlbuf_tensor_share() without a layout, for consumers older than DLPack 1.0.
 * -EINVAL      not a tensor of dlbuf
 * -EOPNOTSUPP  the tensor is read-only, which the old struct cannot express
 */
DLBUF_API int dlbuf_tensor_share_legacy(const DLManagedTensorVersioned *tensor,
					DLManagedTensor **out);

struct dlbuf_tensor_info {
	size_t size;			/* of this struct, set by the caller */
	struct dlbuf_device *device;	/* peeked, valid while the tensor lives */
	int fd;				/* the dma-buf, peeked in the same way */
	enum dlbuf_path path;
	uint32_t access;		/* dlbuf_access that the tensor allows */
	uint32_t acquired;		/* dlbuf_access of the current acquire, or 0 */
	uint64_t dev, ino;		/* identity of the dma-buf */
	uint64_t bytes;			/* size of the dma-buf */
	uint64_t first, end;		/* range of bytes that the tensor uses */
};

/* Describes a tensor. -EINVAL: not a tensor of dlbuf, or size not set. */
DLBUF_API int dlbuf_tensor_get_info(const DLManagedTensorVersioned *tensor,
				    struct dlbuf_tensor_info *info);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_TENSOR_H */
