// SPDX-License-Identifier: MIT
/* A dma-buf as CUDA's memory, by the first path that serves. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../memory.h"
#include "cuda.h"

/* Without "cuda: ", which stands before all of it. */
static const char *last_words(void)
{
	const char *said = dlbuf_last_error();

	return strncmp(said, "cuda: ", 6) ? said : said + 6;
}

/* Memory of another API, given by an fd (taken on success). */
static int map_external(struct cuda_memory *m,
			const struct cuda_memory_desc *desc)
{
	const struct cuda_buffer_desc buffer = { .size = m->bytes };
	struct cuda_device *dev = m->dev;
	int ret;

	ret = CUDA_DO(dev, ImportExternalMemory, &m->external, desc);
	if (ret)
		close(desc->handle.fd);
	return ret ? ret : CUDA_DO(dev, ExternalMemoryGetMappedBuffer,
				   &m->pointer, m->external, &buffer);
}

/*
 * What documents say is that Jetsons from Thor on do this. A discrete GPU's
 * driver is asked once: it does not look at which dma-buf it is.
 */
static int import_direct(struct cuda_import *ci)
{
	struct cuda_memory *m = ci->memory;
	struct cuda_device *dev = m->dev;
	struct cuda_memory_desc desc = {
		.type = CUABI_MEMORY_DMABUF_FD,
		.size = m->bytes,
	};
	bool refused;
	int ret;

	pthread_mutex_lock(&dev->lock);
	refused = dev->direct_refused;
	pthread_mutex_unlock(&dev->lock);
	if (refused)
		return fail(-EOPNOTSUPP, "%s", dev->direct_said);
	desc.handle.fd = sys_dup(ci->base.fd);
	if (desc.handle.fd < 0)
		return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	ret = map_external(m, &desc);
	if (ret && ret != -ENOMEM && !m->external && !dev->gpu.integrated) {
		pthread_mutex_lock(&dev->lock);
		if (!dev->direct_refused)
			snprintf(dev->direct_said, sizeof(dev->direct_said),
				 "%s", dlbuf_last_error());
		dev->direct_refused = true;
		pthread_mutex_unlock(&dev->lock);
	}
	if (!ret)
		ci->base.data = (void *)(uintptr_t)m->pointer;
	return ret;
}

/*
 * The pages behind the dma-buf: through the memfd where it is known, because the
 * mapping of a udmabuf itself cannot be pinned.
 */
static int map_host(struct cuda_import *ci, bool *by_memfd)
{
	struct cuda_memory *m = ci->memory;
	int prot = PROT_READ |
		   (ci->base.id.access & DLBUF_WRITE ? PROT_WRITE : 0);
	int memfd = memory_of(&ci->base.id);

	*by_memfd = memfd >= 0;
	m->map = sys_mmap(m->bytes, prot, memfd >= 0 ? memfd : ci->base.fd);
	if (memfd >= 0)
		close(memfd);
	if (m->map != MAP_FAILED)
		return 0;
	m->map = NULL;
	return fail(errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP,
		    "mmap() of the dma-buf: %s", strerror(errno));
}

/* The flags to register with. */
static int check_registers(const struct cuda_import *ci, unsigned int *flags)
{
	const struct cuda_gpu *gpu = &ci->memory->dev->gpu;

	*flags = CUABI_MEMHOSTREGISTER_PORTABLE |
		 CUABI_MEMHOSTREGISTER_DEVICEMAP;
	if (!gpu->registers)
		return fail(-EOPNOTSUPP, "the device registers no host memory");
	if (ci->base.id.access & DLBUF_WRITE)
		return 0;
	*flags |= CUABI_MEMHOSTREGISTER_READ_ONLY;
	if (!gpu->registers_read_only)
		return fail(-EOPNOTSUPP, "the device registers no read-only "
			    "memory");
	return 0;
}

static int register_host(struct cuda_import *ci, unsigned int flags)
{
	struct cuda_memory *m = ci->memory;
	struct cuda_device *dev = m->dev;
	cuda_pointer pointer;
	int ret;

	ret = CUDA_DO(dev, MemHostRegister, m->map, m->bytes, flags);
	if (ret)
		return ret;
	m->registered = true;
	ret = CUDA_DO(dev, MemHostGetDevicePointer, &pointer, m->map, 0);
	if (!ret)
		ci->base.data = (void *)(uintptr_t)pointer;
	return ret;
}

static int import_host(struct cuda_import *ci)
{
	struct cuda_memory *m = ci->memory;
	bool by_memfd, asks = false;
	unsigned int flags;
	char said[200];
	int ret;

	ret = map_host(ci, &by_memfd);
	if (!ret) {
		ret = check_registers(ci, &flags);
		asks = !ret;
	}
	if (asks)
		ret = register_host(ci, flags);
	if (!ret || !m->map)
		return ret;
	/* A GPU that walks the CPU's page tables reads what the CPU does. */
	if (m->dev->gpu.coherent && !m->registered) {
		ci->base.data = m->map;
		return 0;
	}
	if (by_memfd || !asks)
		return ret;
	snprintf(said, sizeof(said), "%s", dlbuf_last_error());
	return fail(ret, "%s (of the dma-buf's mapping; the memfd behind it is "
		    "not known)", said);
}

void cuda_memory_free(struct cuda_memory *m)
{
	const struct cuda_api *cu = &m->dev->cu;

	cuda_settle(m->dev);
	if (m->pointer)
		cu->MemFree(m->pointer);
	if (m->external)
		cu->DestroyExternalMemory(m->external);
	if (m->staging)
		cu->MemFreeHost(m->staging);
	if (m->registered)
		cu->MemHostUnregister(m->map);
	if (m->map)
		munmap(m->map, m->bytes);
	if (m->buffer)
		cuda_bridge_unimport(m);
	if (m->fd >= 0)
		close(m->fd);
	pthread_mutex_destroy(&m->copying);
	free(m);
}

static int import_bridge(struct cuda_import *ci)
{
	int ret = cuda_bridge_import(ci);

	if (!ret)
		ci->base.data = (void *)(uintptr_t)ci->memory->pointer;
	return ret;
}

static int import_copy(struct cuda_import *ci)
{
	int ret = cuda_copy_import(ci);

	if (!ret)
		ci->base.data = (void *)(uintptr_t)ci->memory->pointer;
	return ret;
}

static const struct {
	enum dlbuf_path path;
	int (*import)(struct cuda_import *ci);
} paths[] = {
	{ DLBUF_PATH_DIRECT, import_direct },
	{ DLBUF_PATH_HOST, import_host },
	{ DLBUF_PATH_BRIDGE, import_bridge },
	{ DLBUF_PATH_COPY, import_copy },
};

static int memory_alloc(struct cuda_import *ci)
{
	struct cuda_memory *m = sys_calloc(1, sizeof(*m));

	if (!m)
		return fail(-ENOMEM, "no memory for an import");
	m->dev = to_cuda(ci->base.dev);
	m->bytes = ci->base.bytes;
	m->fd = -1;
	pthread_mutex_init(&m->copying, NULL);
	ci->memory = m;
	return 0;
}

static int try_path(struct cuda_import *ci, size_t i)
{
	int ret = memory_alloc(ci);

	if (!ret)
		ret = paths[i].import(ci);
	if (!ret && PATH_BIT(paths[i].path) & PATHS_COPIED)
		ret = CUDA_DO(ci->memory->dev, EventCreate, &ci->copied,
			      CUABI_EVENT_DISABLE_TIMING);
	if (ret && ci->memory) {
		cuda_memory_free(ci->memory);
		ci->memory = NULL;
	}
	return ret;
}

/*
 * What is wrong with the machine now (no memory, no fds) is told as that; a
 * driver that refuses on every path cannot.
 */
static int none_served(const struct cuda_import *ci, const char *said, int err)
{
	const char *more = ci->base.paths & PATHS_COPIED ? "" :
			   "; DLBUF_IMPORT_MAY_COPY would allow a copy";

	if (err != -ENOMEM && err != -EMFILE && err != -ENFILE)
		err = -EOPNOTSUPP;
	/* Of a single one, which dlbuf_probe() tries, all has been said. */
	if (!(ci->base.paths & (ci->base.paths - 1)))
		return err;
	return fail(err, "%s has no path to this dma-buf:%s%s",
		    ci->base.dev->name, said, more);
}

int cuda_import(struct import *imp)
{
	struct cuda_import *ci = cuda_import_of(imp);
	struct cuda_scope scope;
	char said[400] = "";
	int ret, err = 0;
	size_t n = 0;

	ret = cuda_enter(to_cuda(imp->dev), &scope);
	if (ret)
		return ret;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (!(PATH_BIT(paths[i].path) & imp->paths))
			continue;
		ret = try_path(ci, i);
		if (!ret) {
			imp->path = paths[i].path;
			imp->unfenced = paths[i].path == DLBUF_PATH_COPY;
			break;
		}
		if (!err || err == -EOPNOTSUPP || err == -EIO)
			err = ret;
		if (n < sizeof(said))
			n += snprintf(said + n, sizeof(said) - n, "%s %s: %s",
				      n ? ";" : "",
				      dlbuf_path_name(paths[i].path),
				      last_words());
	}
	cuda_leave(to_cuda(imp->dev), &scope);
	if (ret)
		return none_served(ci, said, err);
	if (err)
		forget_failure();
	return 0;
}

void cuda_unimport(struct import *imp)
{
	struct cuda_import *ci = cuda_import_of(imp);
	struct cuda_device *dev = to_cuda(imp->dev);
	struct cuda_scope scope;

	cuda_enter_to_free(dev, &scope);
	if (ci->copied)
		dev->cu.EventDestroy(ci->copied);
	cuda_work_finish(ci, ci->memory);
	cuda_leave(dev, &scope);
}
