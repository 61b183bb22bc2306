// SPDX-License-Identifier: MIT
/* The ioctls of the backend: brackets, and maps on the application's fd. */
#include <errno.h>

#include <linux/dma-buf.h>

#include "../../dmabuf/fence.h"
#include "hexagon.h"

/*
 * A map belongs to the open file of the fastrpc node, so a node that dlbuf opened would
 * map for a DSP process that the application does not use.
 */
int hexagon_kernel_map(struct hexagon_import *hi)
{
	struct hexagon_device *dev = hexagon_device_of(hi->base.dev);
	struct hexagon_mem_map map = {
		.fd = hi->fd,
		.flags = HEXAGON_MAP_FD,
		.vaddrin = (uintptr_t)hi->base.data,
		.length = hi->size,
	};

	if (sys_ioctl(dev->node, HEXAGON_IOCTL_MEM_MAP, &map) < 0) {
		if (errno == ENOTTY)
			return fail(-EOPNOTSUPP, "%s: fd %d has no "
				    "FASTRPC_IOCTL_MEM_MAP: the kernel is older "
				    "than 5.18, or it is no fastrpc node",
				    dev->base.name, dev->node);
		return fail(errno == ENOMEM ? -ENOMEM : -EIO,
			    "%s: FASTRPC_IOCTL_MEM_MAP: %m", dev->base.name);
	}
	hi->map = HEXAGON_BY_KERNEL;
	hi->dsp = map.vaddrout;
	return 0;
}

int hexagon_kernel_unmap(struct hexagon_import *hi)
{
	struct hexagon_device *dev = hexagon_device_of(hi->base.dev);
	struct hexagon_mem_unmap unmap = {
		.fd = hi->fd,
		.vaddr = hi->dsp,
		.length = hi->size,
	};

	/* EINVAL: there is no such map, because the DSP's process has ended. */
	if (sys_ioctl(dev->node, HEXAGON_IOCTL_MEM_UNMAP, &unmap) < 0 &&
	    errno != EINVAL)
		return fail(-EIO, "%s: FASTRPC_IOCTL_MEM_UNMAP: %m",
			    dev->base.name);
	return 0;
}

int hexagon_bracket(const struct import *imp, uint32_t access)
{
	if (bracket(imp->fd, DMA_BUF_SYNC_START | access))
		return fail(-EIO, "%s: DMA_BUF_IOCTL_SYNC START: %m",
			    imp->dev->name);
	if (bracket(imp->fd, DMA_BUF_SYNC_END | access))
		return fail(-EIO, "%s: DMA_BUF_IOCTL_SYNC END: %m",
			    imp->dev->name);
	return 0;
}
