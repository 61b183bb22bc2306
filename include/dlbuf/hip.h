/* SPDX-License-Identifier: MIT */
/*
 * HIP (ROCm): streams and import paths. Tested with fake drivers, with HIP's
 * headers, and with HIP 6.4.3 over a stub of the kernel; not run on hardware.
 *
 * dlbuf uses the libamdhip64 that the process has loaded, otherwise the first
 * installed one of libamdhip64.so.10, .7, .6 and .5. A version does not know the
 * memory and streams of another version. So load the application's version first,
 * or name its file in DLBUF_HIP_LIBRARY.
 *
 * A tensor's data is a device address (kDLROCM). Streams are as in DLPack:
 *
 *   NULL     the default stream
 *   1, 2     refused with -EINVAL
 *   -1       no order: no call waits, and the caller waits for its own work
 *   other    a hipStream_t
 *
 * Paths. An import tries them in this order. dlbuf_probe() reports which of
 * them work for a dma-buf:
 *
 *   direct   hipImportExternalMemory() of the dma-buf. The driver accepts only
 *            dma-bufs of amdgpu, and reports hipErrorOutOfMemory for others. A
 *            device tries it once per exporter, which it knows by the kernel's
 *            name: see "Leaks"
 *   host     hipHostRegister() of the pages behind the dma-buf. Works for a
 *            udmabuf whose memfd the library knows, and for a dma-buf whose
 *            mapping the driver can pin. The driver registers only writable
 *            memory, so a read-only dma-buf fd is refused
 *   bridge   a Vulkan device (RADV) at the same PCI address imports the dma-buf
 *            and copies it, GPU to GPU, into memory that HIP imports
 *   copy     the CPU and the GPU's copy engine copy through pinned memory
 *
 * The library knows the memfd of a udmabuf if dlbuf_udmabuf_create() made the
 * udmabuf, or if the caller passed the memfd to dlbuf_udmabuf_remember(), and only
 * while the memfd is open. dlbuf_alloc() and pools know the memfd while they import
 * the buffer on their own devices. The memfd of a udmabuf that another process sent
 * is unknown.
 *
 * bridge and copy need DLBUF_IMPORT_MAY_COPY. Each acquire copies the whole
 * buffer in, on its stream, also for writing, because bytes that the caller does
 * not write must keep their value. Each release of a writer copies the whole
 * buffer out, on its stream. HIP and Vulkan share no semaphores on Linux, so a host
 * function of the stream makes the copy and waits for it. If Vulkan fails there,
 * the next acquire or release of the dma-buf returns -EIO.
 *
 * Order. A stream waits for the fences of the dma-buf without blocking the
 * caller, by hipStreamWaitValue32() on a word that a thread of dlbuf sets.
 * Meanwhile a part of the GPU may be busy with reading the word. A release gives
 * an event (DLBUF_SYNC_EVENT), by hipLaunchHostFunc().
 *
 * Graph capture. A call on a stream that is being captured into a graph returns
 * -EBUSY. So does a call on the default stream while a blocking stream is
 * captured. Acquire before the capture, or around the launch of the graph.
 *
 * Deletion of a tensor that is still acquired ends the access as follows:
 *
 *   its stream is being captured   when the capture has ended
 *   its stream was destroyed       when all work of the device is complete
 *
 * To wait for all work of the device, here and in a release after a failed call, dlbuf
 * calls hipDeviceSynchronize(). The driver refuses this call while any stream is being
 * captured, and ends that capture.
 *
 * At exit() dlbuf's thread ends before the runtime does, in a handler of atexit() that the
 * first use of HIP registers. A handler of the application that was registered earlier runs
 * later. In such a handler, closing a device and acquiring may never return if a stream
 * waits for a fence. Drain or close before exit().
 *
 * Export (dlbuf/export.h): device memory by hsa_amd_portable_export_dmabuf() of
 * libhsa-runtime64, which reports where in the dma-buf the memory is, otherwise by
 * hipMemGetHandleForAddressRange() of HIP 7.0 and later. Host memory (kDLROCMHost) and
 * DLBUF_EXPORT_PCIE need hipMemGetHandleForAddressRange(). dlbuf refuses managed memory,
 * memory that was imported or registered (the driver would crash), and allocations of
 * less than 2 MiB: for these the driver exports 2 MiB, with other allocations in it.
 * After hipFree() of less than 2 MiB the driver gives the same dma-buf's memory to the
 * next hipMalloc(), and a holder of the dma-buf sees its bytes. dlbuf_alloc() allocates
 * at least 4 MiB, which the driver returns to the kernel.
 *
 * Leaks of drivers, by AMD's own reports (rocm-systems): 264 bytes for each refused
 * dma-buf (#11538, open in August 2026); each imported dma-buf and its addresses, until
 * #3528 (February 2026); each dma-buf that hipMemGetHandleForAddressRange() exports of
 * memory of hipMemMap(), until #10613 (August 2026).
 *
 * There is no function that wraps a handle of the application. The runtime API has
 * one context per device, which all libraries of the process share, so "hip:0" is
 * the application's device 0. dlbuf restores the thread's current device
 * (hipSetDevice()) before each call returns, and leaves no error for hipGetLastError().
 *
 * Specification: HIP runtime API; the stream rules of DLPack and of the array API
 * standard.
 */
#ifndef DLBUF_HIP_H
#define DLBUF_HIP_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_hip_device {
	size_t size;		/* of this struct, set by the caller */
	int ordinal;		/* hipDevice_t, in HIP's numbering */
	int runtime;		/* hipRuntimeGetVersion(): 60443484 is HIP 6.4 */
};

/*
 * Reports the HIP numbers of dev. Does not block.
 * -EINVAL  not a HIP device, or size not set
 */
DLBUF_API int dlbuf_hip_get_device(struct dlbuf_device *dev,
				   struct dlbuf_hip_device *hip);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_HIP_H */
