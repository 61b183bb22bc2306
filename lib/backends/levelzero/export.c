// SPDX-License-Identifier: MIT
/* Finds the memory that Level Zero can export as a dma-buf: see queue/export.c. */
#include <errno.h>

#include "levelzero.h"

/* fd: NULL, or for an export. */
static int properties(struct queue_device *base, uintptr_t p,
		      ze_memory_allocation_properties_t *props,
		      ze_device_handle_t *of, int *fd)
{
	struct levelzero_device *dev = to_levelzero(base);
	ze_external_memory_export_fd_t export = {
		.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
		.flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
		.fd = -1,
	};
	int ret;

	*props = (ze_memory_allocation_properties_t){
		.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES,
		.pNext = fd ? &export : NULL,
	};
	*of = NULL;
	ret = LZ_DO(base, MemGetAllocProperties, dev->context, (void *)p, props,
		    of);
	if (fd)
		*fd = export.fd;
	return ret;
}

static int address_range(struct queue_device *base, uintptr_t p,
			 struct queue_range *r)
{
	struct levelzero_device *dev = to_levelzero(base);
	size_t bytes = 0;
	void *at = NULL;
	int ret = LZ_DO(base, MemGetAddressRange, dev->context, (void *)p, &at,
			&bytes);

	*r = (struct queue_range){ (uintptr_t)at, bytes };
	return ret;
}

int levelzero_range(struct queue_device *base, DLDeviceType on, uintptr_t p,
		    struct queue_range *r)
{
	struct levelzero_device *dev = to_levelzero(base);
	ze_memory_allocation_properties_t props;
	ze_device_handle_t of;
	int ret;

	if (on != kDLOneAPI)
		return fail(-EINVAL, "the tensor is on a device of DLPack's type "
			    "%d, not on %s", on, base->base.name);
	ret = properties(base, p, &props, &of, NULL);
	if (ret)
		return ret;
	switch (props.type) {
	case ZE_MEMORY_TYPE_UNKNOWN:
		return fail(-EINVAL, "%#llx is not USM memory of %s's context: "
			    "freed, or never allocated",
			    (unsigned long long)p, base->base.name);
	case ZE_MEMORY_TYPE_SHARED:
		return fail(-EOPNOTSUPP, "levelzero: shared memory has no dma-buf");
	case ZE_MEMORY_TYPE_DEVICE:
		if (of && of != dev->handle)
			return fail(-EINVAL, "the memory is of another device "
				    "than %s", base->base.name);
		break;
	default:
		break;
	}
	return address_range(base, p, r);
}

/*
 * The driver exports the whole allocation. Intel's driver keeps the fd and gives the
 * same number again, or gives a new fd each time, depending on its version. The
 * specification does not define this. So the function queries twice.
 */
static int get_fd(struct queue_device *dev, uintptr_t p, int *fd)
{
	ze_memory_allocation_properties_t props;
	ze_device_handle_t of;
	int again, ret;

	ret = properties(dev, p, &props, &of, fd);
	/* Intel's OUT_OF_HOST_MEMORY: of memory that an application maps and registers. */
	if (ret == -ENOMEM || (!ret && *fd < 0))
		ret = fail(-EOPNOTSUPP, "levelzero: the driver exports no such memory");
	if (ret)
		return ret;
	if (!properties(dev, p, &props, &of, &again) && again == *fd)
		*fd = sys_dup(*fd);
	else if (again >= 0)
		close(again);
	return *fd < 0 ? fail_errno("fcntl(F_DUPFD_CLOEXEC)") : 0;
}

/*
 * A small allocation is a part of a pool that the driver keeps; the driver exports the pool's
 * dma-buf, without the offset. Intel's pools have 2 MiB. So a dma-buf of 2 MiB has no other
 * allocation in it only if the allocation has 2 MiB, too. A smaller dma-buf is no pool, and is
 * rounded up to at most 64 KiB. A larger dma-buf is not a pool either if less than 2 MiB of it is
 * outside the allocation.
 */
static bool is_whole(const struct queue_range *r, uint64_t exported)
{
	const uint64_t pool = 2 << 20;
	uint64_t slack = exported > pool ? pool : exported < pool ? 64 << 10 : 1;

	return !(r->base & (sysconf(_SC_PAGESIZE) - 1)) && exported - r->bytes < slack;
}

int levelzero_export(struct queue_device *dev, struct queue_range *pages,
		     uint32_t flags, int *out)
{
	struct queue_range all;
	off_t exported;
	int ret, fd;

	if (flags & DLBUF_EXPORT_PCIE)
		return fail(-EOPNOTSUPP, "levelzero: the driver does not choose "
			    "how a dma-buf is mapped");
	ret = address_range(dev, pages->base, &all);
	if (!ret)
		ret = get_fd(dev, all.base, &fd);
	if (ret)
		return ret;
	exported = lseek(fd, 0, SEEK_END);
	if (exported < 0 || !is_whole(&all, exported)) {
		close(fd);
		return fail(-EOPNOTSUPP, "levelzero: the dma-buf has %lld bytes, "
			    "and the allocation %llu: it is a part of another one",
			    (long long)exported, (unsigned long long)all.bytes);
	}
	*pages = (struct queue_range){ all.base, exported };
	*out = fd;
	return 0;
}
