/* SPDX-License-Identifier: MIT */
/*
 * A device is one importer of dma-bufs: the CPU, one Vulkan device, and so
 * on. It is opened by name, or wrapped around what the application already
 * has (dlbuf/vulkan.h).
 */
#ifndef DLBUF_DEVICE_H
#define DLBUF_DEVICE_H

#include <dlbuf/base.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_device;

/* How a device keeps order with the others; see dlbuf/sync.h. */
enum dlbuf_sync {
	DLBUF_SYNC_BLOCKS = 1,	/* the calling thread waits */
	DLBUF_SYNC_EVENT = 2,	/* a completion event tells the library */
	DLBUF_SYNC_FENCE = 3,	/* the device waits, or gives a sync_file */
};

struct dlbuf_device_opts {
	size_t size;
	/*
	 * How many imports without a tensor the device keeps for the next
	 * dlbuf_import() of the same dma-buf. Each holds an fd and keeps the
	 * memory alive. 0 means 256, or a quarter of RLIMIT_NOFILE if that is
	 * less. The least recently used goes first, and any that the last 1024
	 * imports did not use.
	 */
	uint32_t cache_max_idle;
	uint32_t flags;		/* DLBUF_DEVICE_* */
	/*
	 * How many bytes those may have together. 0 means an eighth of the
	 * machine's memory. When the process runs out of memory or of fds, the
	 * library drops all of them and tries the call once more.
	 */
	uint64_t cache_max_bytes;
};

#define DLBUF_DEVICE_NO_CACHE 1u	/* keep no import without a tensor */
/*
 * CUDA: opens no Vulkan device beside it. No path `bridge`, and releases give
 * events instead of sync_files.
 */
#define DLBUF_DEVICE_NO_BRIDGE 2u

/*
 * Opens a device by name: "cpu", "vulkan" (the first), "vulkan:0" (by index),
 * "vulkan:llvmpipe" (by part of its name), "vulkan:uuid=0123..." (32 hex
 * digits); "cuda" likewise, with the numbers of CUDA_VISIBLE_DEVICES. The driver
 * library is loaded now, not before.
 *
 * name and opts are borrowed, *out is new. May block while a driver loads.
 * -EINVAL  no backend of that name, a malformed name, bad opts
 * -ENOSYS  the backend is not built into this library
 * -ENODEV  the driver library or the device is absent
 * -EOPNOTSUPP  the device is there and cannot import dma-bufs
 * -EIO     the driver failed; the sentence has its call and code
 */
DLBUF_API int dlbuf_device_open(const char *name,
				const struct dlbuf_device_opts *opts,
				struct dlbuf_device **out);

/*
 * Gives the device up (taken; NULL is nothing). Its idle imports go now.
 * Tensors over it stay valid: the device itself goes with the last of them.
 */
DLBUF_API void dlbuf_device_close(struct dlbuf_device *dev);

struct dlbuf_device_info {
	size_t size;			/* of this struct, set by the caller */
	char name[32];			/* what dlbuf_device_open() takes */
	char backend[16];
	char description[128];		/* the device, in its driver's words */
	char driver[128];		/* the driver and its version, or "" */
	DLDevice device;		/* what its tensors carry */
	uint8_t uuid[16];		/* zero where the driver has none */
	enum dlbuf_sync acquire;	/* what dlbuf_acquire() does */
	enum dlbuf_sync release;	/* what dlbuf_release() does */
	int status;			/* 0, or why it cannot be opened */
	/*
	 * The sentence behind status; where that is 0, why acquire or release
	 * blocks on a device whose kind could do better, or "".
	 */
	char reason[256];
	/*
	 * Bytes, powers of two, at which rows and planes had better begin in a
	 * buffer that is made for this device. It imports others all the same.
	 */
	uint32_t pitch_align, offset_align;
};

/* Says what dev is. -EINVAL for a NULL or a size that is not set. */
DLBUF_API int dlbuf_device_get_info(struct dlbuf_device *dev,
				    struct dlbuf_device_info *info);

/*
 * Calls fn once for each device of each backend of this build, in the order
 * of the backends' names in the build. A backend without a usable device is
 * reported once, with status and reason. info is peeked, for the call only. A
 * non-zero result of fn ends the walk and is returned. Loads every driver
 * library, and so may block. Otherwise 0.
 */
typedef int (*dlbuf_device_fn)(const struct dlbuf_device_info *info, void *data);
DLBUF_API int dlbuf_device_each(dlbuf_device_fn fn, void *data);

/*
 * Drops idle imports until at most max_idle are left, for instance after a
 * camera was reconfigured and its old buffers will not come back. Tensors are
 * not touched. NULL is nothing.
 */
DLBUF_API void dlbuf_device_trim(struct dlbuf_device *dev, uint32_t max_idle);

/*
 * Drops what the device keeps of one dma-buf, for a producer that withdraws a
 * buffer: VIDIOC_REQBUFS(0), PipeWire's remove_buffer. Tensors over it stay
 * valid; the import then goes with the last of them, unless dlbuf_import() is
 * given the dma-buf again. Not having it is no error. fd is borrowed. May block
 * while the driver unmaps.
 * -EINVAL  dev is NULL
 * -EBADF   fd is not open or not a dma-buf
 */
DLBUF_API int dlbuf_device_forget(struct dlbuf_device *dev, int fd);

struct dlbuf_device_stats {
	size_t size;		/* of this struct, set by the caller */
	uint64_t hits;		/* imports of a dma-buf seen before */
	uint64_t misses;	/* imports that went to the driver */
	uint64_t evictions;	/* imports given up by the cache */
	uint64_t live;		/* imports with at least one tensor, now */
	uint64_t idle;		/* imports kept without one, now */
	uint64_t live_bytes;	/* bytes of the dma-bufs behind `live` */
	uint64_t idle_bytes;	/* and behind `idle` */
	uint64_t tensors;	/* tensors not yet deleted, now */
	uint64_t copies;	/* frames that were copied into rows */
	uint64_t copied_bytes;	/* that those copies have written */
};

/* Counts since the device was opened. -EINVAL as for dlbuf_device_get_info(). */
DLBUF_API int dlbuf_device_get_stats(struct dlbuf_device *dev,
				     struct dlbuf_device_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_DEVICE_H */
