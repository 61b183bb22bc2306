/* SPDX-License-Identifier: MIT */
/*
 * A device is one importer of dma-bufs: the CPU, a Vulkan device, a CUDA device.
 * Open it by name, or make one around a handle of the application
 * (dlbuf/vulkan.h, dlbuf/cuda.h).
 */
#ifndef DLBUF_DEVICE_H
#define DLBUF_DEVICE_H

#include <dlbuf/base.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_device;

/* How dlbuf_acquire() and dlbuf_release() wait on this device; see dlbuf/sync.h. */
enum dlbuf_sync {
	DLBUF_SYNC_BLOCKS = 1,	/* the calling thread waits */
	DLBUF_SYNC_EVENT = 2,	/* release: an event of the device, no fence */
	DLBUF_SYNC_FENCE = 3,	/* acquire: the device waits; release: a sync_file */
};

struct dlbuf_device_opts {
	size_t size;
	/*
	 * How many idle imports (without a tensor) the device keeps, so that the
	 * next dlbuf_import() of the same dma-buf is a lookup. Each one holds an
	 * fd and keeps the memory alive. 0 means 256, or a quarter of
	 * RLIMIT_NOFILE if that is less. Above the limit the device drops the least
	 * recently used import. It also drops an import that was not used in the
	 * last 1024 calls of dlbuf_import(), or in the last 4 * cache_max_idle
	 * calls if that is more.
	 */
	uint32_t cache_max_idle;
	uint32_t flags;		/* DLBUF_DEVICE_... */
	/*
	 * The largest sum of the bytes of all idle imports. 0 means an eighth of
	 * the machine's memory. When a call runs out of memory or fds, the library
	 * drops all idle imports and tries the failed step once more.
	 */
	uint64_t cache_max_bytes;
};

#define DLBUF_DEVICE_NO_CACHE 1u	/* keep no idle imports */
/*
 * Opens no Vulkan device beside a CUDA or HIP device. The path `bridge` is then
 * absent, and releases give events instead of sync_files. Other devices ignore the
 * flag: they have no such Vulkan device.
 */
#define DLBUF_DEVICE_NO_BRIDGE 2u

/*
 * Opens a device by name. "cpu" is the CPU, "vulkan" the first usable Vulkan
 * device. These names select one:
 *
 *   vulkan:0			by number; for CUDA and HIP, the index in
 *				CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES
 *   vulkan:llvmpipe		by a part of its name
 *   vulkan:uuid=0123...	by 32 hexadecimal digits
 *   vulkan:pci=0000:01:00.0	by PCI address; a missing domain is 0
 *   vulkan:drm=/dev/dri/card0	by a DRM node of the same GPU, primary or render,
 *				if the driver reports its nodes or the GPU is on
 *				PCI; the path of the node
 *
 * "cuda" has the same forms. Use "cuda:drm=/dev/dri/renderD128" if you have the DRM
 * node of the GPU, for example from udev, a compositor or VA-API. This call loads the
 * driver library.
 *
 * name and opts are borrowed, *out is new. May block while a driver loads.
 * -EINVAL  no backend of that name, a malformed name, the text behind drm= is no path or not
 *          a DRM node, bad opts
 * -ENOSYS  the backend is not built into this library
 * -ENODEV  the driver library, the device or the DRM node is absent, or the program is
 *          linked statically and can load no driver
 * -EOPNOTSUPP  the device is present and cannot import dma-bufs
 * -EBUSY   another device has the name (vpi)
 * -ESTALE  the driver works in no child of fork(), and a parent process has used it
 * -EIO     the driver failed; the error text has its call and code
 */
DLBUF_API int dlbuf_device_open(const char *name,
				const struct dlbuf_device_opts *opts,
				struct dlbuf_device **out);

/*
 * Closes the device (taken; NULL does nothing) and drops its idle imports. Its tensors
 * stay valid: the device is freed when the last of them is deleted and the work of all
 * deleted tensors is complete. On a wrapped Vulkan device this call, and later deletions
 * of tensors, wait for that work, so they may block. On other wrapped devices call
 * dlbuf_device_drain() before you destroy the wrapped handle.
 *
 * Leases and notifications that wait for a fence still fire after this call, on the event
 * thread or in dlbuf_dispatch(). exit(), and a dlclose() that unloads the library, wait for a
 * callback that runs; no other callback begins. Before dlclose() delete all tensors, drain and
 * close all devices, and let no thread be in a function of the library. A thread that is in
 * dlbuf_dispatch() at exit() continues with its callbacks.
 */
DLBUF_API void dlbuf_device_close(struct dlbuf_device *dev);

struct dlbuf_device_info {
	size_t size;			/* of this struct, set by the caller */
	char name[32];			/* for dlbuf_device_open() */
	char backend[16];
	char description[128];		/* the driver's name of the device */
	char driver[128];		/* the driver and its version, or "" */
	DLDevice device;		/* DLTensor.device of its tensors */
	uint8_t uuid[16];		/* zero if the driver has none */
	enum dlbuf_sync acquire;	/* how dlbuf_acquire() waits */
	enum dlbuf_sync release;	/* how dlbuf_release() waits */
	int status;			/* 0, or the error if it cannot be used */
	/*
	 * The error text of status. If status is 0: the reason why acquire or
	 * release blocks although this kind of device can do better, or "".
	 */
	char reason[256];
	/*
	 * Preferred alignment of rows and planes in a buffer for this device:
	 * bytes, a power of two. The device also imports buffers with another
	 * alignment.
	 */
	uint32_t pitch_align, offset_align;
	uint32_t reserved;		/* 0 */
};

/* Describes the device. -EINVAL: dev or info is NULL, or size is not set. */
DLBUF_API int dlbuf_device_get_info(struct dlbuf_device *dev,
				    struct dlbuf_device_info *info);

/*
 * Calls fn once for each device of each backend of this build, in the order of
 * the backends in the build. A backend without a usable device is reported once,
 * with status and reason. info is peeked and valid during the callback. It does not open
 * devices, so a device with status 0 may still refuse to be opened. For
 * dlbuf_device_each(show, NULL):
 *
 *	static int show(const struct dlbuf_device_info *info, void *data)
 *	{
 *		if (info->status)
 *			printf("%s: %s\n", info->backend, info->reason);
 *		else
 *			printf("%s: %s\n", info->name, info->description);
 *		return 0;
 *	}
 *
 * If fn returns non-zero, the walk ends and this function returns that value;
 * otherwise it returns 0. Loads every driver library, so it may block.
 * -EINVAL  fn is NULL
 */
typedef int (*dlbuf_device_fn)(const struct dlbuf_device_info *info, void *data);
DLBUF_API int dlbuf_device_each(dlbuf_device_fn fn, void *data);

/*
 * Drops idle imports until at most max_idle are left, for example after a camera
 * was reconfigured and will not send its old buffers again. Tensors are not
 * affected. NULL does nothing. Does not wait for work that uses the imports: their memory
 * is freed after that work.
 */
DLBUF_API void dlbuf_device_trim(struct dlbuf_device *dev, uint32_t max_idle);

/*
 * Removes a dma-buf from the device's cache of imports, which keeps its memory
 * alive. Call it when a producer withdraws the buffer: VIDIOC_REQBUFS(0),
 * remove_buffer of PipeWire.
 *
 *	static void remove_buffer(struct dlbuf_device *gpu, int fd)
 *	{
 *		dlbuf_device_forget(gpu, fd);
 *		close(fd);
 *	}
 *
 * Existing
 * tensors stay valid, and the import is freed with the last of them, unless
 * dlbuf_import() is called for the dma-buf again. A dma-buf that is not in the
 * cache is no error.
 *
 * fd is borrowed. May block while the driver unmaps, but does not wait for work.
 * -EINVAL  dev is NULL
 * -EBADF   fd is not open or not a dma-buf
 */
DLBUF_API int dlbuf_device_forget(struct dlbuf_device *dev, int fd);

/*
 * Waits until the device has finished everything that the library waits for:
 *   - The work that the library submitted is complete, and so is the work before
 *     each release.
 *   - The leases that waited only for this work have fired, and their callbacks
 *     have returned. A lease may also wait for a tensor, another device or another
 *     process; the call does not wait for such a lease.
 *   - Memory that had to wait for this work is freed. On a wrapped device the call also
 *     waits until nobody else holds the dma-bufs that dlbuf_alloc() made of the device's
 *     memory, and frees that memory. On other devices it does not wait for such memory, and
 *     does not report whether it is freed.
 * If other threads submit more work during the call, the call may also wait for
 * that work.
 *
 * deadline_ns is CLOCK_MONOTONIC nanoseconds. 0 means no deadline; a time in the
 * past means: check without waiting. Blocks. The caller must not hold a lock that
 * the callback of a lease takes. After dlbuf_dispatch_fd() the callbacks run in
 * this call.
 * -EINVAL  dev is NULL
 * -ETIME   not complete at the deadline
 * -EBUSY   called in a callback on the library's event thread, or in dlbuf_dispatch()
 * -EBUSY   an access ended on a stream that is being captured, and there is no
 *          deadline
 * -EIO     the driver failed
 */
DLBUF_API int dlbuf_device_drain(struct dlbuf_device *dev, uint64_t deadline_ns);

struct dlbuf_device_stats {
	size_t size;		/* of this struct, set by the caller */
	uint64_t hits;		/* imports of a dma-buf seen before */
	uint64_t misses;	/* imports that called the driver */
	uint64_t evictions;	/* imports that the cache dropped */
	uint64_t live;		/* imports with a tensor, now */
	uint64_t idle;		/* imports without a tensor, now */
	uint64_t live_bytes;	/* bytes of the dma-bufs of `live` */
	uint64_t idle_bytes;	/* bytes of the dma-bufs of `idle` */
	uint64_t tensors;	/* tensors not deleted yet, now */
	uint64_t copies;	/* tiled frames that the device copied into rows */
	uint64_t copied_bytes;	/* bytes that these copies wrote */
};

/* Reports counts since the device was opened. Errors as dlbuf_device_get_info(). */
DLBUF_API int dlbuf_device_get_stats(struct dlbuf_device *dev,
				     struct dlbuf_device_stats *stats);

/* How the device reaches the bytes, the best path first. */
enum dlbuf_path {
	DLBUF_PATH_DIRECT = 1,	/* the device's API imported the dma-buf */
	DLBUF_PATH_HOST = 2,	/* its host pages, registered with the device */
	DLBUF_PATH_BRIDGE = 3,	/* a copy made by a GPU */
	DLBUF_PATH_COPY = 4,	/* a copy made by the CPU */
};

/* Returns "direct", "host", "bridge" or "copy"; "unknown" for another number. Static. */
DLBUF_API const char *dlbuf_path_name(enum dlbuf_path path);

struct dlbuf_path_info {
	size_t size;			/* of this struct */
	enum dlbuf_path path;
	int status;			/* 0, or the error if the path fails */
	char reason[512];		/* error text of status, or "" */
};

/*
 * Tries each path by which the device could import this dma-buf, and calls fn with
 * the result of each. Afterwards it removes these imports. access as in
 * dlbuf_import_opts. fd is borrowed. info is peeked and valid during the callback.
 * If fn returns non-zero, the walk ends and this function returns that value. May
 * block while the driver maps.
 * -EINVAL  NULL, or bad access
 * -EBADF   fd is not open or not a dma-buf
 * -EACCES  fd was not opened for that access
 */
typedef int (*dlbuf_path_fn)(const struct dlbuf_path_info *info, void *data);
DLBUF_API int dlbuf_probe(struct dlbuf_device *dev, int fd, uint32_t access,
			  dlbuf_path_fn fn, void *data);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_DEVICE_H */
