/* SPDX-License-Identifier: MIT */
/*
 * Level Zero: streams, import paths, and devices around your own context. This backend
 * was tested with a fake driver behind the real loader, not on hardware.
 *
 * A tensor's data is a USM pointer (kDLOneAPI), of the device's context. The number of
 * a device is its place in the list of all drivers' devices, as in SYCL. A stream
 * is one of these:
 *
 *   a ze_command_list_handle_t   an immediate command list of the device, in order or
 *                                not. dlbuf puts barriers around its own commands
 *   NULL                         dlbuf's own immediate command list; see
 *                                dlbuf_levelzero_get_device()
 *   -1                           no order: no call waits, and the caller waits for its
 *                                own work
 *
 * Level Zero allows one thread at a time to append to a command list. dlbuf appends to
 * your list on the calling thread: in dlbuf_acquire() and dlbuf_release(), and in the
 * deletion of a tensor that is acquired on it. Your list must live until its accesses
 * have ended and a later dlbuf_device_drain() has returned: the first query of an
 * event of Intel's driver writes to the list that signalled the event.
 * sycl::get_native() of a SYCL queue gives an immediate command list, or a command
 * queue, which is no stream.
 *
 * Paths. An import tries them in this order. dlbuf_probe() reports which of them work
 * for a dma-buf:
 *
 *   direct   zeMemAllocDevice() of the dma-buf (ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF).
 *            On a discrete GPU dlbuf compares the bytes of an import with those that
 *            the CPU sees, until they were equal for one import
 *   host     the memfd behind a udmabuf, if the library knows the memfd (see
 *            dlbuf/cuda.h) and the driver has zexDriverImportExternalPointer() or
 *            ZE_extension_external_memmap_sysmem. For memory of the former,
 *            zeMemGetAllocProperties() reports ZE_MEMORY_TYPE_UNKNOWN; read-only fds need
 *            the latter
 *   copy     the CPU and the GPU copy through host memory. Needs
 *            DLBUF_IMPORT_MAY_COPY, and a driver that calls host functions
 *            (zeCommandListAppendHostFunction(), new in 1.32)
 *
 * Order. A stream waits for the fences of the dma-buf without blocking the caller: it
 * waits for an event, which a thread of dlbuf signals after the fence. A release gives
 * an event (DLBUF_SYNC_EVENT), because Level Zero makes no sync_files. If the driver
 * calls no host functions, a thread of dlbuf polls for the end of the work.
 *
 * Export. dlbuf_export() takes device and host allocations that were made with a
 * ze_external_memory_export_desc_t. A driver may refuse other allocations. A driver may place
 * a small allocation in a larger one, and would export the larger one. So dlbuf refuses an
 * allocation of less than 2 MiB if its dma-buf has 2 MiB. The dma-buf is always the whole
 * allocation of the tensor.
 *   After exported memory was freed, Intel's driver gives it to new allocations, with the
 * same dma-buf. So free it only after all receivers have closed the dma-buf. Memory of
 * dlbuf_alloc() is freed only then.
 *
 * A child of fork() cannot use Level Zero if its parent has used it, because drivers do
 * not work there. Calls of the child return -ESTALE.
 *
 * Specification: oneAPI Level Zero 1.4, with functions of newer versions if the loader
 * has them.
 */
#ifndef DLBUF_LEVELZERO_H
#define DLBUF_LEVELZERO_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a device around the application's ze_context_handle_t, for instance one that
 * SYCL uses: a USM pointer is only valid in the context that made it, so tensors for a
 * SYCL queue need the context of that queue. dlbuf_device_open("levelzero:0") makes a
 * context of its own.
 *
 * device is a ze_device_handle_t of the context: of zeDeviceGet() or
 * zeDeviceGetSubDevices(). Both handles are borrowed and must live until the last
 * tensor of the device is deleted, its work is over (dlbuf_device_drain()), and your command
 * lists have passed the waits that dlbuf has appended. The handles must be of the
 * libze_loader.so.1 of this process. opts are borrowed. *out is new.
 * -EINVAL  NULL, not a device of the machine, bad opts
 * -ENODEV, -EIO as for dlbuf_device_open()
 */
DLBUF_API int dlbuf_device_wrap_levelzero(void *context, void *device,
					  const struct dlbuf_device_opts *opts,
					  struct dlbuf_device **out);

struct dlbuf_levelzero_device {
	size_t size;		/* of this struct, set by the caller */
	void *driver;		/* ze_driver_handle_t, peeked */
	void *context;		/* ze_context_handle_t, peeked */
	void *device;		/* ze_device_handle_t, peeked */
	/*
	 * ze_command_list_handle_t, peeked: the list that the stream NULL means. Work
	 * that is appended to it between acquire and release is ordered. Append only
	 * while no other thread calls dlbuf with the stream NULL.
	 */
	void *list;
	int ordinal;		/* the device's number */
	uint32_t version;	/* ze_api_version_t of the driver */
};

/*
 * Reports the handles of dev. -EINVAL: not a Level Zero device, or size not set.
 */
DLBUF_API int dlbuf_levelzero_get_device(struct dlbuf_device *dev,
					 struct dlbuf_levelzero_device *levelzero);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_LEVELZERO_H */
