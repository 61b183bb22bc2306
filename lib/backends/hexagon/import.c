// SPDX-License-Identifier: MIT
/*
 * Imports: the CPU's mapping, the DSP's map of it, and the registration by which a remote
 * call recognises the mapping. unimport() undoes them in the opposite order.
 */
#include <errno.h>
#include <limits.h>

#include "../../import/host.h"
#include "hexagon.h"

/* Calls a function whose result is an AEE code, unless the fault injection makes it fail. */
#define CALL(dev, name, ...) \
	(fault_hit() ? AEE_EFAILED : (dev)->api.name(__VA_ARGS__))

static struct hexagon_device *device(const struct hexagon_import *hi)
{
	return hexagon_device_of(hi->base.dev);
}

/* ---------------------------------------------------------------- registration */

/* The oldest functions have an int for the size. fd -1 ends a registration. */
static void register_fd(struct hexagon_import *hi, int fd)
{
	const struct hexagon_api *api = &device(hi)->api;

	if (api->remote_register_buf_attr2)
		api->remote_register_buf_attr2(hi->base.data, hi->size, fd, 0);
	else if (api->remote_register_buf_attr)
		api->remote_register_buf_attr(hi->base.data, (int)hi->size, fd, 0);
	else
		api->remote_register_buf(hi->base.data, (int)hi->size, fd);
}

static int check_size(const struct hexagon_import *hi)
{
	if (hi->size > INT_MAX && !device(hi)->api.remote_register_buf_attr2)
		return fail(-EOPNOTSUPP, "%s: the buffer has %zu bytes, and this "
			    "FastRPC library registers %d at most",
			    hi->base.dev->name, hi->size, INT_MAX);
	return 0;
}

/* ---------------------------------------------------------------- the DSP's map */

/*
 * FastRPC finds maps by the number of the fd. If an fd was closed before
 * fastrpc_munmap(), its number stays in use until the session ends. Then other duplicates
 * are tried. The refused duplicates stay open meanwhile, because a closed number would be
 * used again.
 */
static int map_by_fd(struct hexagon_import *hi)
{
	struct hexagon_device *dev = device(hi);
	int held[8], n = 0, aee, ret;

	for (;;) {
		aee = CALL(dev, fastrpc_mmap, dev->base.dl.device_id, hi->fd,
			   hi->base.data, 0, hi->size, HEXAGON_MAP_FD);
		ret = hexagon_check(dev->base.name, "fastrpc_mmap()", aee);
		if (aee != AEE_EALREADY || n == ARRAY_SIZE(held))
			break;
		log_at(DLBUF_LOG_WARN, "%s", dlbuf_last_error());
		forget_failure();
		held[n] = sys_dup(hi->base.fd);
		if (held[n] < 0) {
			ret = fail_errno("%s: fcntl(F_DUPFD_CLOEXEC)",
					 dev->base.name);
			break;
		}
		hi->fd = held[n++];
	}
	if (!ret)
		hi->map = HEXAGON_BY_FD;
	/* Without a map, a remote call finds the fd by the registration and maps it. */
	if (aee == AEE_EUNSUPPORTED) {
		log_at(DLBUF_LOG_INFO, "%s", dlbuf_last_error());
		forget_failure();
		ret = 0;
	}
	while (n--)
		if (ret || held[n] != hi->fd)
			close(held[n]);
	return ret;
}

static int map(struct hexagon_import *hi)
{
	struct hexagon_device *dev = device(hi);

	if (dev->node >= 0)
		return hexagon_kernel_map(hi);
	return dev->api.fastrpc_mmap && dev->api.fastrpc_munmap ?
	       map_by_fd(hi) : 0;
}

/* If the session has ended, its maps have too. */
static int unmap(struct hexagon_import *hi)
{
	struct hexagon_device *dev = device(hi);
	int aee = 0;

	if (hi->map == HEXAGON_BY_KERNEL)
		return hexagon_kernel_unmap(hi);
	if (hi->map == HEXAGON_BY_FD)
		aee = dev->api.fastrpc_munmap(dev->base.dl.device_id, hi->fd,
					      hi->base.data, hi->size);
	if (aee == AEE_ENOSUCHMAP || aee == AEE_ENOTINITIALIZED)
		aee = 0;
	return hexagon_check(dev->base.name, "fastrpc_munmap()", aee);
}

/* ---------------------------------------------------------------- imports */

/* imp->data is the mapping of the whole dma-buf from offset 0; map and registration. */
static int attach(struct hexagon_import *hi)
{
	int ret = device(hi)->node < 0 ? check_size(hi) : 0;

	if (!ret)
		ret = map(hi);
	if (ret)
		return ret;
	/* The kernel needs no registration. */
	hi->registered = device(hi)->node < 0;
	if (hi->registered)
		register_fd(hi, hi->fd);
	return 0;
}

int hexagon_import(struct import *imp)
{
	struct hexagon_import *hi = hexagon_import_of(imp);
	int ret = host_map(imp, &imp->data);

	if (ret)
		return ret;
	hi->fd = imp->fd;
	hi->size = imp->bytes;
	ret = attach(hi);
	if (ret)
		munmap(imp->data, hi->size);
	return ret;
}

/*
 * If the DSP still has a map of the buffer, the fd and the mapping stay, because
 * FastRPC would mistake another file with the same number for the buffer.
 */
static void keep_open(struct hexagon_import *hi)
{
	log_at(DLBUF_LOG_WARN, "%s; fd %d stays open", dlbuf_last_error(), hi->fd);
	forget_failure();
	if (hi->fd == hi->base.fd)
		hi->base.fd = -1;
}

bool hexagon_unimport(struct import *imp, bool wait)
{
	struct hexagon_import *hi = hexagon_import_of(imp);

	(void)wait;
	if (hi->registered)
		register_fd(hi, -1);
	if (unmap(hi)) {
		keep_open(hi);
	} else {
		munmap(imp->data, hi->size);
		if (hi->fd != imp->fd)
			close(hi->fd);
	}
	return true;
}
