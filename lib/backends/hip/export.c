// SPDX-License-Identifier: MIT
/* Finds the memory that HIP can export as a dma-buf: see queue/export.c. */
#include <errno.h>

#include "hip.h"

static bool knows(struct hip_device *dev, uintptr_t p, int attribute, void *value)
{
	return !HIP_RESULT(&dev->hip, PointerGetAttribute, value, attribute,
			   (hip_pointer)p);
}

static bool find_range(struct hip_device *dev, uintptr_t p, struct queue_range *r)
{
	hip_pointer base;
	size_t bytes;
	bool found = !HIP_RESULT(&dev->hip, MemGetAddressRange, &base, &bytes,
				 (hip_pointer)p);

	if (found)
		*r = (struct queue_range){ (uintptr_t)base, bytes };
	return found;
}

/* The numbers of memory types are others since HIP 6. */
static bool is_host(struct hip_device *dev, uintptr_t p, bool *host)
{
	unsigned int type = 0;

	if (!knows(dev, p, HIPABI_POINTER_MEMORY_TYPE, &type))
		return false;
	*host = type == (dev->version < 60000000 ? HIPABI_MEMORY_TYPE_HOST_5 :
						       HIPABI_MEMORY_TYPE_HOST);
	return true;
}

int hip_range(struct queue_device *base, DLDeviceType on, uintptr_t p,
	      struct queue_range *r)
{
	struct hip_device *dev = to_hip(base);
	bool managed = false, host = false;
	int ordinal = -1;

	if (on != kDLROCM && on != kDLROCMHost)
		return fail(-EINVAL, "the tensor is on a device of DLPack's type "
			    "%d, not on %s", on, base->base.name);
	if (!is_host(dev, p, &host) ||
	    !knows(dev, p, HIPABI_POINTER_DEVICE_ORDINAL, &ordinal) ||
	    !knows(dev, p, HIPABI_POINTER_IS_MANAGED, &managed) ||
	    !find_range(dev, p, r))
		return fail(-EINVAL, "%#llx is not HIP memory: freed, or never "
			    "allocated", (unsigned long long)p);
	/* The driver would crash. */
	if (!r->base)
		return fail(-EOPNOTSUPP, "hip: the memory is of another dma-buf, or of "
			    "the host, and only registered");
	if (managed)
		return fail(-EOPNOTSUPP, "hip: managed memory has no dma-buf");
	if (!host && ordinal != dev->ordinal)
		return fail(-EINVAL, "the memory is of hip:%d, not of %s",
			    ordinal, base->base.name);
	return 0;
}

/* The size of a new dma-buf, which is closed if it is too small. */
static int size_of(int fd, uint64_t least, uint64_t *bytes)
{
	off_t end = lseek(fd, 0, SEEK_END);

	if (end >= 0 && (uint64_t)end >= least) {
		*bytes = end;
		return 0;
	}
	close(fd);
	return fail(-EIO, "hip: the exported dma-buf ends before the memory");
}

/* Whether a dma-buf has one allocation only: more than FRAGMENT is never a part. */
static int check_whole(struct hip_device *dev, uintptr_t p, uint64_t bytes)
{
	struct queue_range all = { 0 };

	if (find_range(dev, p, &all) &&
	    (all.bytes > FRAGMENT || bytes < all.bytes + GPU_PAGE))
		return 0;
	return fail(-EOPNOTSUPP, "hip: the driver exports %llu bytes around an "
		    "allocation of %llu, which would show memory of others",
		    (unsigned long long)bytes, (unsigned long long)all.bytes);
}

/* HSA's call reports where in the dma-buf the memory is. */
static int export_by_hsa(struct hip_device *dev, struct queue_range *pages, int *fd)
{
	uint64_t offset = 0, bytes;
	hsa_result result;
	int ret;

	result = fault_hit() ? -1 :
		 dev->hsa_export((void *)pages->base, pages->bytes, fd, &offset);
	if (result)
		return fail(-EOPNOTSUPP, "hip: hsa_amd_portable_export_dmabuf: %#x",
			    (unsigned int)result);
	ret = size_of(*fd, offset + pages->bytes, &bytes);
	if (ret)
		return ret;
	ret = check_whole(dev, pages->base, bytes);
	if (ret)
		close(*fd);
	else
		*pages = (struct queue_range){ pages->base - offset, bytes };
	return ret;
}

/*
 * HIP's call does not report it, so the size has to show that the dma-buf is either the
 * pages or the whole allocation.
 */
static int export_by_hip(struct hip_device *dev, struct queue_range *pages,
			 unsigned long long flags, int *fd)
{
	struct queue_range all;
	uint64_t bytes;
	int ret;

	ret = HIP_DO(&dev->queue, MemGetHandleForAddressRange, fd,
		     (hip_pointer)pages->base, pages->bytes,
		     HIPABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
	if (!ret)
		ret = size_of(*fd, pages->bytes, &bytes);
	if (ret || bytes == pages->bytes)
		return ret;
	if (find_range(dev, pages->base, &all) && all.bytes == bytes) {
		*pages = all;
		return 0;
	}
	close(*fd);
	return fail(-EOPNOTSUPP, "hip: the driver exports %llu bytes and does not "
		    "report which", (unsigned long long)bytes);
}

int hip_export(struct queue_device *base, struct queue_range *pages,
	       uint32_t flags, int *fd)
{
	struct hip_device *dev = to_hip(base);
	bool pcie = flags & DLBUF_EXPORT_PCIE, host = false;
	int ret;

	is_host(dev, pages->base, &host);
	ret = fail(-EOPNOTSUPP, "hip: %s exports no %s memory%s",
		   dev->queue.info.driver, host ? "host" : "device",
		   pcie ? " over PCI Express" : "");
	if (dev->hsa_export && !pcie && !host)
		ret = export_by_hsa(dev, pages, fd);
	if (ret && dev->hip.MemGetHandleForAddressRange)
		ret = export_by_hip(dev, pages, pcie ?
				    HIPABI_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE :
				    0, fd);
	if (!ret)
		forget_failure();
	return ret;
}
