// SPDX-License-Identifier: MIT
/* dlbuf_export() and dlbuf_probe(). */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "../system/internal.h"
#include "../system/sys.h"
#include "backend.h"
#include "layout.h"

int dlbuf_export(struct dlbuf_device *dev, const DLTensor *tensor,
		 const struct dlbuf_export_opts *opts,
		 struct dlbuf_exported *out)
{
	NOT_CANCELLED;
	struct dlbuf_exported made = { .fd = -1 };
	struct dlbuf_export_opts o;
	int ret;

	if (!tensor || !out)
		return fail(-EINVAL, "%s is NULL", tensor ? "out" : "tensor");
	ret = device_check(dev);
	if (!ret)
		ret = OPTS_GET_RESERVED(&o, opts, "dlbuf_export_opts");
	if (ret)
		return ret;
	if (o.flags & ~DLBUF_EXPORT_PCIE)
		return unknown_flags("export", o.flags & ~DLBUF_EXPORT_PCIE);
	if (!tensor->data)
		return fail(-EINVAL, "the tensor has no memory");
	if (!dev->backend->export)
		return fail(-EOPNOTSUPP, "%s has no memory of its own to export",
			    dev->name);
	ret = dev->backend->export(dev, tensor, &o, &made);
	if (ret)
		return ret;
	ret = INFO_PUT(out, &made, "dlbuf_exported");
	if (ret)
		close(made.fd);
	return ret;
}

/* Errors of the dma-buf or of the request, not of a path. */
static bool is_callers(int ret)
{
	return ret == -EBADF || ret == -EACCES || ret == -EINVAL;
}

/* Makes an import outside the cache, and destroys it. */
static int try_path(struct dlbuf_device *dev, int fd, uint32_t access,
		    uint32_t path)
{
	struct buffer_id id;
	struct import *imp;
	uint32_t fd_access;
	int ret;

	ret = import_identify(fd, access, &id, &fd_access);
	if (!ret)
		ret = import_create(dev, fd, &id, fd_access, path, 0, &imp);
	if (!ret)
		import_destroy(imp);
	return ret;
}

int dlbuf_probe(struct dlbuf_device *dev, int fd, uint32_t access,
		dlbuf_path_fn fn, void *data)
{
	NOT_CANCELLED;
	uint32_t paths;
	int ret = 0;

	if (!fn)
		return fail(-EINVAL, "fn is NULL");
	ret = device_check(dev);
	if (ret)
		return ret;
	if (access & ~(uint32_t)DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ, WRITE or RW",
			    access);
	paths = PATHS_OF(dev->backend);
	for (int path = DLBUF_PATH_DIRECT; !ret && path <= DLBUF_PATH_COPY;
	     path++) {
		struct dlbuf_path_info info = {
			.size = sizeof(info), .path = path,
		};

		if (!(paths & PATH_BIT(path)))
			continue;
		info.status = try_path(dev, fd, access, PATH_BIT(path));
		if (is_callers(info.status))
			return info.status;
		if (info.status) {
			snprintf(info.reason, sizeof(info.reason), "%s",
				 dlbuf_last_error());
			forget_failure();
		}
		ret = fn(&info, data);
	}
	return ret;
}
