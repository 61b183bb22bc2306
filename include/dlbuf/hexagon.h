/* SPDX-License-Identifier: MIT */
/*
 * Hexagon: Qualcomm's DSPs, by FastRPC. Tested with a fake FastRPC library, and
 * with those parts of Qualcomm's library that work without a DSP. Not run on hardware.
 *
 * Device names:
 *
 *   hexagon:cdsp	by the name of the domain: cdsp, cdsp1, gdsp0, gdsp1, adsp, sdsp,
 *			mdsp
 *   hexagon:11 by the number of the domain, for a further session: FastRPC adds 8 per
 *			session (FASTRPC_GET_EFFECTIVE_DOMAIN_ID)
 *   hexagon		the first that the machine has, in the order above
 *
 * dlbuf loads libcdsprpc.so.1 or libcdsprpc.so; libadsprpc, libsdsprpc, libgdsprpc and
 * libmdsprpc for the other domains. DLBUF_HEXAGON_LIBRARY names another file.
 *
 * Session. dlbuf opens no session: FastRPC maps a buffer for the process that the
 * application has started on the DSP, and the application decides the rights of that
 * process (DSPRPC_CONTROL_UNSIGNED_MODULE). So open a remote handle
 * (remote_handle64_open()) before the first import; until then an import fails with
 * -EOPNOTSUPP. FastRPC drops all maps when a session ends. Therefore delete the
 * tensors and call dlbuf_device_trim() with 0, or close the device, before you close
 * the last handle.
 *
 * Import. dlbuf maps the whole dma-buf from offset 0, calls fastrpc_mmap() with
 * FASTRPC_MAP_FD, and registers the mapping (remote_register_buf_attr2()). If the
 * kernel, the library or the DSP has no fastrpc_mmap(), the buffer is only registered,
 * and each remote call maps it. All tensors of a dma-buf share one map. dlbuf does this
 * for a duplicate of your fd, so it makes no difference whether you have mapped your
 * own fd.
 *
 * A tensor's data (kDLHexagon) is an address of this process, inside that mapping.
 * FastRPC recognises it in the arguments of a remote call and copies nothing. This is
 * dlbuf's convention, because DLPack defines none. Do not read or write the bytes there
 * with the CPU: import the dma-buf on "cpu" for that. Do not change the mapping
 * (mprotect()): FastRPC computes addresses from its beginning.
 *
 * An fd that is open for reading only is accepted, but FastRPC has no read-only maps:
 * nothing but your program prevents the DSP from writing.
 *
 * Order. FastRPC has no fences. dlbuf_acquire() waits for the fences of the dma-buf on
 * the calling thread and then ends the CPU's access. If another writer adds a fence
 * between these two steps, the call waits for it too, also after the deadline. Call
 * dlbuf_release() when the work is complete: when the remote call has returned, or after
 * the callback of dspqueue, of an asynchronous call or of QNN. dlbuf_release()
 * gives no fence, because nothing is pending. There are no streams.
 *
 * fork(). FastRPC works in no child of a process that has used it: dlbuf_device_open()
 * fails there with -ESTALE.
 *
 * Allocation. dlbuf_alloc() and pools for a Hexagon device try the dma-heap `system`
 * first, as Qualcomm's rpcmem does. The kernel's driver uses only the first DMA address
 * of a buffer, so a DSP without an IOMMU needs memory of a contiguous heap.
 *
 * Specification: qualcomm/fastrpc (inc/remote.h, inc/rpcmem.h, src/fastrpc_mem.c of May
 * 2026); misc/fastrpc.h and drivers/misc/fastrpc.c of Linux 7.3.
 */
#ifndef DLBUF_HEXAGON_H
#define DLBUF_HEXAGON_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a device around a fastrpc fd of the application (/dev/fastrpc-cdsp after
 * FASTRPC_IOCTL_INIT_CREATE or _ATTACH), for programs that use the kernel's interface
 * (misc/fastrpc.h) and not the library. Maps belong to that open file. Imports use
 * FASTRPC_IOCTL_MEM_MAP, which returns the address on the DSP. For FASTRPC_IOCTL_INVOKE
 * use the fd of dlbuf_hexagon_get_buffer() and the tensor's data.
 *
 * domain is the number that tensors get as device_id: 3 is cdsp. fd is borrowed and
 * duplicated: the DSP's process lives until the device is freed. opts is borrowed, *out
 * is new. dlbuf_device_open() with this device's name opens another device. Does not
 * block.
 * -EINVAL  out is NULL, fd is not a device node, the domain is not 0 to 31, bad opts
 * -EBADF   fd is not open
 * -EIO     the kernel failed
 * The first import fails with -EOPNOTSUPP if the node has no FASTRPC_IOCTL_MEM_MAP
 * (Linux before 5.18), or is no fastrpc node.
 */
DLBUF_API int dlbuf_device_wrap_hexagon(int fd, int domain,
					const struct dlbuf_device_opts *opts,
					struct dlbuf_device **out);

/* FastRPC's map of the dma-buf behind a tensor. */
struct dlbuf_hexagon_buffer {
	size_t size;		/* of this struct, set by the caller */
	int domain;		/* the domain of the map */
	int fd;			/* the fd of the map, peeked; for dspqueue and INVOKE */
	void *address;		/* the CPU's mapping of the whole dma-buf, peeked */
	uint64_t bytes;		/* size of the dma-buf and of the map */
	uint64_t offset;	/* bytes from address to the tensor's first byte */
	/*
	 * On a device that wraps an fd: the address on the DSP that belongs to
	 * `address`. Otherwise 0, and the code on the DSP calls HAP_mmap_get() with
	 * the fd.
	 */
	uint64_t dsp_address;
	uint32_t mapped;	/* 1: mapped; 0: only registered, not for dspqueue */
	uint32_t reserved;	/* 0 */
};

/*
 * Reports the buffer of a tensor on a Hexagon device. The fd and the addresses are valid
 * while the tensor lives. Do not unmap, deregister or close them. Does not block.
 * -EINVAL  not a tensor of dlbuf, not on a Hexagon device, or size not set
 */
DLBUF_API int dlbuf_hexagon_get_buffer(const DLManagedTensorVersioned *tensor,
				       struct dlbuf_hexagon_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_HEXAGON_H */
