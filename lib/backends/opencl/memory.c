// SPDX-License-Identifier: MIT
/* The operations of struct queue_ops for OpenCL: memory, by each path. */
#include <errno.h>

#include "opencl.h"

/* CL_MEM_DEVICE_HANDLE_LIST_KHR and its end: headers before 2024 have other names. */
#define MEM_DEVICE_HANDLE_LIST 0x2051
#define MEM_DEVICE_HANDLE_LIST_END 0

/* Older headers lack them. */
#define DMABUF_HOST_PTR_QCOM 0x411D
struct dmabuf_host_ptr_qcom {
	cl_mem_ext_host_ptr ext;
	int fd;
	void *host;
};

static cl_mem mem_of(const struct queue_memory *m)
{
	return (cl_mem)m->data;
}

static cl_mem_flags flags_of(uint32_t access)
{
	return access & DLBUF_WRITE ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
}

/* ---------------------------------------------------------------- direct */

/* The driver takes the fd on success. */
static int import_khr(struct queue_memory *m)
{
	struct opencl_device *dev = to_opencl(m->dev);
	cl_mem_properties properties[] = {
		CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR, 0,
		dev->ndevices > 1 ? MEM_DEVICE_HANDLE_LIST : 0,
		(uintptr_t)dev->device,
		MEM_DEVICE_HANDLE_LIST_END, 0
	};
	int fd = sys_dup(m->base.fd), ret;
	cl_mem mem = NULL;

	if (fd < 0)
		return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	properties[1] = fd;
	ret = OPENCL_NEW(&dev->cl, &mem, CreateBufferWithProperties,
			 dev->context, properties, flags_of(m->base.id.access), m->base.bytes,
			 NULL);
	if (ret)
		sys_close_refused(fd, m->base.fd);
	m->data = (uintptr_t)mem;
	m->passes = true;
	return ret;
}

/*
 * The driver does not take the fd. Accesses by the CPU maintain its caches themselves,
 * with DMA_BUF_IOCTL_SYNC, so the driver need not: that is the default of
 * CL_IMPORT_DMA_BUF_DATA_CONSISTENCY_WITH_HOST_ARM, which drivers of before 2020 do
 * not know.
 */
static int import_arm(struct queue_memory *m)
{
	struct opencl_device *dev = to_opencl(m->dev);
	const cl_import_properties_arm properties[] = {
		CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM, 0
	};
	cl_int result = CL_OUT_OF_HOST_MEMORY;

	if (!fault_hit())
		m->data = (uintptr_t)dev->ext.ImportMemoryARM(
			dev->context, flags_of(m->base.id.access), properties, &m->base.fd,
			m->base.bytes, &result);
	return opencl_check_ext(result, "clImportMemoryARM");
}

/* Unmaps the mapping when the driver does not use it any more. */
struct mapping {
	void *map;
	size_t bytes;
};

static void CL_CALLBACK mapping_free(cl_mem mem, void *data)
{
	struct mapping *mapping = data;

	(void)mem;
	munmap(mapping->map, mapping->bytes);
	free(mapping);
}

/* Makes a buffer over m->map, which then belongs to the buffer. */
static int over_mapping(struct queue_memory *m, cl_mem_flags flags, void *host,
			uint64_t bytes)
{
	struct opencl_device *dev = to_opencl(m->dev);
	struct mapping *mapping = sys_calloc(1, sizeof(*mapping));
	cl_mem mem = NULL;
	int ret;

	if (!mapping)
		return -ENOMEM;
	*mapping = (struct mapping){ m->map, m->base.bytes };
	ret = OPENCL_NEW(&dev->cl, &mem, CreateBuffer, dev->context,
			 flags | flags_of(m->base.id.access) | CL_MEM_USE_HOST_PTR, bytes,
			 host);
	if (!ret)
		ret = OPENCL_DO(m->dev, SetMemObjectDestructorCallback, mem,
				mapping_free, mapping);
	if (ret) {
		if (mem)
			dev->cl.ReleaseMemObject(mem);
		free(mapping);
		return ret;
	}
	m->data = (uintptr_t)mem;
	m->registered = true;
	return 0;
}

/*
 * The driver reads `padding` bytes after the buffer, and requires whole pages. Like
 * Arm's it does not maintain the CPU's caches.
 */
static int import_qcom(struct queue_memory *m)
{
	struct opencl_device *dev = to_opencl(m->dev);
	struct dmabuf_host_ptr_qcom ptr = {
		.ext = { DMABUF_HOST_PTR_QCOM, CL_MEM_HOST_UNCACHED_QCOM },
		.fd = m->base.fd,
	};
	uint64_t bytes = m->base.bytes - dev->padding;

	bytes -= bytes % dev->page;
	if (m->base.bytes <= dev->padding || !bytes)
		return fail(-EOPNOTSUPP, "the driver needs pages of %u bytes, and "
			    "%u bytes after them, of which the dma-buf has no room",
			    dev->page, dev->padding);
	m->base.unusable = m->base.bytes - bytes;
	m->map = sys_mmap(m->base.bytes, PROT_READ |
			  (m->base.id.access & DLBUF_WRITE ? PROT_WRITE : 0), m->base.fd);
	if (m->map == MAP_FAILED) {
		m->map = NULL;
		return fail_errno("mmap() of the dma-buf");
	}
	ptr.host = m->map;
	return over_mapping(m, CL_MEM_EXT_HOST_PTR_QCOM, &ptr, bytes);
}

int opencl_import(struct queue_memory *m)
{
	switch (to_opencl(m->dev)->imports) {
	case OPENCL_IMPORTS_KHR:
		return import_khr(m);
	case OPENCL_IMPORTS_ARM:
		return import_arm(m);
	case OPENCL_IMPORTS_QCOM:
		return import_qcom(m);
	default:
		return fail(-EOPNOTSUPP, "the driver does not import dma-bufs");
	}
}

/* ---------------------------------------------------------------- host */

/*
 * Between accesses, the buffer is mapped for the host: begin() and end() are unmap and
 * map, without which a GPU need not see the host's bytes. CPUs use the memory itself.
 */
int opencl_register_host(struct queue_memory *m, uint32_t access)
{
	struct opencl_device *dev = to_opencl(m->dev);
	void *map, *queue;
	int ret;

	(void)access;
	ret = over_mapping(m, 0, m->map, m->base.bytes);
	if (ret || m->dev->is_cpu)
		return ret;
	m->passes = true;
	/* The map blocks, and the library's other queues may wait for fences. */
	ret = dev->queue.ops->stream_create(m->dev, &queue);
	if (ret)
		return ret;
	ret = OPENCL_NEW(&dev->cl, &map, EnqueueMapBuffer, queue, mem_of(m), CL_TRUE,
			 CL_MAP_WRITE_INVALIDATE_REGION, 0, m->base.bytes, 0, NULL, NULL);
	dev->queue.ops->stream_destroy(m->dev, queue);
	return ret;
}

int opencl_begin(struct queue_memory *m, void *stream)
{
	cl_mem mem = mem_of(m);
	bool in_order;
	/* The query comes first: if it failed later, the access would begin twice. */
	int ret = opencl_has_order(m->dev, stream, &in_order);

	if (!ret)
		ret = m->registered ?
		      OPENCL_DO(m->dev, EnqueueUnmapMemObject, stream, mem, m->map,
				0, NULL, NULL) :
		      OPENCL_EXT(m->dev, EnqueueAcquireExternalMemObjectsKHR, stream,
				 1, &mem, 0, NULL, NULL);
	return ret || in_order ? ret :
	       OPENCL_DO(m->dev, EnqueueBarrierWithWaitList, stream, 0, NULL, NULL);
}

/* If the device has written nothing, the host needs no new bytes. */
int opencl_end(struct queue_memory *m, uint32_t access, void *stream)
{
	struct opencl_device *dev = to_opencl(m->dev);
	cl_mem mem = mem_of(m);
	void *map;
	int ret = opencl_in_order(m->dev, stream);

	if (ret)
		return ret;
	return m->registered ?
	       OPENCL_NEW(&dev->cl, &map, EnqueueMapBuffer, stream, mem, CL_FALSE,
			  access & DLBUF_WRITE ? CL_MAP_READ | CL_MAP_WRITE :
			  CL_MAP_WRITE_INVALIDATE_REGION, 0, m->base.bytes, 0, NULL,
			  NULL) :
	       OPENCL_EXT(m->dev, EnqueueReleaseExternalMemObjectsKHR, stream, 1,
			  &mem, 0, NULL, NULL);
}

/* ---------------------------------------------------------------- trial */

#define TRIAL_BYTES (64 << 10)

/* Gives the last byte of `from` that the device reads; the device copies it to `to`. */
static int device_reads(struct opencl_device *dev, cl_mem from, cl_mem to,
			uint8_t *byte)
{
	int ret = OPENCL_CALL(&dev->cl, EnqueueCopyBuffer, dev->own, from, to, 0,
			      0, TRIAL_BYTES, 0, NULL, NULL);

	return ret ? ret :
	       OPENCL_CALL(&dev->cl, EnqueueReadBuffer, dev->own, to, CL_TRUE,
			   TRIAL_BYTES - 1, 1, byte, 0, NULL, NULL);
}

static int try_sharing(struct opencl_device *dev, cl_mem mem, uint8_t *host,
		       bool *shared)
{
	uint8_t before = 0, after = 0;
	cl_mem other = NULL;
	int ret;

	ret = OPENCL_NEW(&dev->cl, &other, CreateBuffer, dev->context,
			 CL_MEM_READ_WRITE, TRIAL_BYTES, NULL);
	if (ret)
		return ret;
	ret = device_reads(dev, mem, other, &before);
	memset(host, 2, TRIAL_BYTES);
	if (!ret)
		ret = device_reads(dev, mem, other, &after);
	*shared = !ret && before == 1 && after == 2;
	dev->cl.ReleaseMemObject(other);
	return ret;
}

/*
 * Writes to the memory of a buffer without the API, and compares the bytes that the
 * device reads. If a call has failed, a command may still use the buffer on return.
 */
bool opencl_shares_host_memory(struct opencl_device *dev)
{
	struct queue_memory m = {
		.dev = &dev->queue,
		.base.bytes = TRIAL_BYTES,
		.base.id.access = DLBUF_RW,
		/* Shared, as the mappings of dma-bufs and memfds are. */
		.map = mmap(NULL, TRIAL_BYTES, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0),
	};
	bool shared = false;
	int ret;

	if (m.map == MAP_FAILED)
		return false;
	memset(m.map, 1, TRIAL_BYTES);
	ret = over_mapping(&m, 0, m.map, TRIAL_BYTES);
	if (ret)
		munmap(m.map, TRIAL_BYTES);
	else
		ret = try_sharing(dev, mem_of(&m), m.map, &shared);
	if (ret) {
		log_at(DLBUF_LOG_INFO, "%s: path host: %s",
		       dev->queue.base.name, dlbuf_last_error());
		forget_failure();
	}
	opencl_free(&m);
	return shared;
}

/* ---------------------------------------------------------------- copy */

int opencl_alloc(struct queue_memory *m)
{
	cl_mem mem = NULL;
	int ret = OPENCL_NEW(&to_opencl(m->dev)->cl, &mem, CreateBuffer,
			     to_opencl(m->dev)->context, CL_MEM_READ_WRITE,
			     m->base.bytes, NULL);

	m->data = (uintptr_t)mem;
	return ret;
}

int opencl_copy(struct queue_memory *m, void *stream, bool out)
{
	size_t bytes = m->base.bytes - m->base.unusable;
	int ret = opencl_in_order(m->dev, stream);

	if (!ret)
		ret = out ? OPENCL_DO(m->dev, EnqueueReadBuffer, stream,
				      mem_of(m), CL_FALSE, 0, bytes, m->staging,
				      0, NULL, NULL) :
			    OPENCL_DO(m->dev, EnqueueWriteBuffer, stream,
				      mem_of(m), CL_FALSE, 0, bytes, m->staging,
				      0, NULL, NULL);
	return ret ? ret : opencl_in_order(m->dev, stream);
}

/* The buffer is freed when its commands are complete and the application has released it. */
void opencl_free(struct queue_memory *m)
{
	if (m->registered)
		m->map = NULL;
	if (m->data)
		to_opencl(m->dev)->cl.ReleaseMemObject(mem_of(m));
}
