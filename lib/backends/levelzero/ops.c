// SPDX-License-Identifier: MIT
/* The operations of struct queue_ops for Level Zero; its events are in events.c. */
#include <errno.h>

#include "levelzero.h"

/* After a loss Intel's driver reports that memory is short. */
int levelzero_done(struct queue_device *dev, ze_result_t result, size_t function)
{
	int ret = levelzero_check(result, function);

	if (levelzero_is_lost(result))
		queue_lost(dev);
	return ret == -ENOMEM && __atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE) ? -EIO : ret;
}

/* ---------------------------------------------------------------- streams */

/* Loaders since 1.16 can report the kind of a list, if the driver can. */
static int check_list(struct levelzero_device *dev, ze_command_list_handle_t list)
{
	ze_device_handle_t of = dev->handle;
	ze_bool_t immediate = true;

	if (dev->lz.CommandListIsImmediate &&
	    !LZ_RESULT(&dev->lz, CommandListIsImmediate, list, &immediate) &&
	    !immediate)
		return fail(-EINVAL, "command list %p is not an immediate one",
			    (void *)list);
	if (dev->lz.CommandListGetDeviceHandle &&
	    !LZ_RESULT(&dev->lz, CommandListGetDeviceHandle, list, &of) &&
	    of != dev->handle)
		return fail(-EINVAL, "command list %p is of another device than "
			    "%s's", (void *)list, dev->queue.base.name);
	return 0;
}

static int stream(struct queue_device *base, void *handle, bool ends, void **out)
{
	struct levelzero_device *dev = to_levelzero(base);

	(void)ends;
	*out = handle ? handle : dev->own;
	return handle ? check_list(dev, handle) : 0;
}

static int stream_create(struct queue_device *base, void **out)
{
	struct levelzero_device *dev = to_levelzero(base);
	const ze_command_queue_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
		.ordinal = dev->group,
		.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
	};

	return LZ_DO(base, CommandListCreateImmediate, dev->context,
		     dev->handle, &desc, (ze_command_list_handle_t *)out);
}

static int call_host(struct queue_device *dev, void *s, void (*fn)(void *data),
		     void *data)
{
	int ret = levelzero_barrier(dev, s, NULL, NULL);

	levelzero_append_begin(to_levelzero(dev), s);
	if (!ret)
		ret = LZ_DO(dev, CommandListAppendHostFunction, s, fn, data, NULL,
			    NULL, 0, NULL);
	levelzero_append_end(to_levelzero(dev), s);
	/* From here on fn is called, so this does not fail. */
	if (!ret && levelzero_barrier(dev, s, NULL, NULL) && levelzero_finish(dev, s))
		queue_set_unsure(dev);
	return ret;
}

/* ---------------------------------------------------------------- memory */

static int alloc_device(struct queue_memory *m, const void *next)
{
	struct levelzero_device *dev = to_levelzero(m->dev);
	const ze_device_mem_alloc_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
		.pNext = next,
	};
	void *pointer = NULL;
	int ret;

	ret = LZ_DO(m->dev, MemAllocDevice, dev->context, &desc, m->base.bytes,
		    sysconf(_SC_PAGESIZE), dev->handle, &pointer);
	m->allocated = !ret;
	m->data = (uintptr_t)pointer;
	return ret;
}

/*
 * The driver takes the fd if it succeeds, so it gets a duplicate. The specification
 * does not say so. Intel's driver closes it then, or in zeMemFree().
 */
static int import(struct queue_memory *m)
{
	ze_external_memory_import_fd_t fd = {
		.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
		.flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
		.fd = sys_dup(m->base.fd),
	};
	int ret;

	if (fd.fd < 0)
		return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	ret = alloc_device(m, &fd);
	if (ret)
		sys_close_refused(fd.fd, m->base.fd);
	return ret;
}

/*
 * Small allocations are parts of larger ones that the driver keeps. So memory
 * that dlbuf_alloc() exports is allocated for export; memory of a copy is not.
 */
static int alloc(struct queue_memory *m)
{
	const ze_external_memory_export_desc_t exports = {
		.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
		.flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
	};

	return alloc_device(m, m->copied ? NULL : &exports);
}

static int alloc_host_as(struct queue_device *dev, const void *next,
			 ze_host_mem_alloc_flags_t flags, size_t bytes, void **host)
{
	const ze_host_mem_alloc_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC,
		.pNext = next,
		.flags = flags,
	};

	return LZ_DO(dev, MemAllocHost, to_levelzero(dev)->context, &desc, bytes,
		     sysconf(_SC_PAGESIZE), host);
}

/* Host memory has one address. */
static int alloc_host(struct queue_device *dev, size_t bytes, void **host,
		      uintptr_t *address)
{
	int ret = alloc_host_as(dev, NULL, 0, bytes, host);

	if (!ret && address)
		*address = (uintptr_t)*host;
	return ret;
}

static void free_host(struct queue_device *base, void *host)
{
	struct levelzero_device *dev = to_levelzero(base);

	dev->lz.MemFree(dev->context, host);
}

/*
 * Intel's driver 26.27 keeps memory of memmap_sysmem after zeMemFree(), and zeMemAllocHost()
 * returns it again after it was unmapped. So Intel's older functions, which keep nothing, are
 * tried first. They do not support read-only memory.
 *
 * A driver without the extension refuses the struct, or ignores it and allocates other
 * memory.
 */
static int register_host(struct queue_memory *m, uint32_t access)
{
	const struct lzabi_memmap_sysmem map = {
		.stype = (ze_structure_type_t)LZABI_STYPE_EXTERNAL_MEMMAP_SYSMEM,
		.memory = m->map,
		.bytes = m->base.bytes,
	};
	struct levelzero_device *dev = to_levelzero(m->dev);
	void *host = m->map;
	int ret;

	if (dev->lz.xDriverImportExternalPointer)
		ret = LZ_DO(m->dev, xDriverImportExternalPointer, dev->driver, host,
			    m->base.bytes);
	else
		ret = alloc_host_as(m->dev, &map, access & DLBUF_WRITE ? 0 :
				    LZABI_HOST_MEM_READ_ONLY, m->base.bytes, &host);
	if (ret)
		return ret;
	if (host != m->map) {
		m->staging = host;
		queue_staging_drop(m);
		return fail(-EOPNOTSUPP, "levelzero: the driver has no "
			    "ZE_extension_external_memmap_sysmem");
	}
	m->registered = true;
	m->data = (uintptr_t)host;
	return 0;
}

static void free_memory(struct queue_memory *m)
{
	struct levelzero_device *dev = to_levelzero(m->dev);

	if (m->registered && dev->lz.xDriverImportExternalPointer)
		dev->lz.xDriverReleaseImportedPointer(dev->driver, (void *)m->data);
	else if (m->allocated || m->registered)
		free_host(m->dev, (void *)m->data);
}

static int copy(struct queue_memory *m, void *s, bool out)
{
	void *data = (void *)m->data;

	return LZ_APPEND(m->dev, s, CommandListAppendMemoryCopy,
		      out ? m->staging : data, out ? data : m->staging, m->base.bytes,
		      NULL, 0, NULL);
}

static int clear(struct queue_memory *m, void *s)
{
	const uint8_t zero = 0;

	return LZ_APPEND(m->dev, s, CommandListAppendMemoryFill, (void *)m->data,
		      &zero, sizeof(zero), m->base.bytes, NULL, 0, NULL);
}

const struct queue_ops levelzero_ops = {
	.size = sizeof(struct levelzero_device),
	.count = levelzero_count,
	.probe = levelzero_probe,
	.start = levelzero_start,
	.stream = stream,
	.no_order = DLBUF_STREAM_NO_ORDER,
	.stream_create = stream_create,
	.stream_destroy = levelzero_list_destroy,
	.event_destroy = levelzero_event_destroy,
	.event_record = levelzero_event_record,
	.event_query = levelzero_event_query,
	.event_wait = levelzero_event_wait,
	.stream_wait = levelzero_stream_wait,
	.finish = levelzero_finish,
	.finish_all = levelzero_finish_all,
	.drained = levelzero_drained,
	.call_host = call_host,
	.user_event_create = levelzero_user_event_create,
	.user_event_wait = levelzero_stream_wait,
	.user_event_set = levelzero_user_event_set,
	.user_event_destroy = levelzero_event_destroy,
	.import = import,
	.register_host = register_host,
	.alloc = alloc,
	.free = free_memory,
	.alloc_host = alloc_host,
	.free_host = free_host,
	.copy = copy,
#ifdef CONFIG_PREPARE_LEVELZERO
	.kernel_create = levelzero_kernel_create,
	.kernel_destroy = levelzero_kernel_destroy,
	.kernel_launch = levelzero_kernel_launch,
#endif
	.range = levelzero_range,
	.export = levelzero_export,
	.clear = clear,
	.destroy = levelzero_destroy,
};
