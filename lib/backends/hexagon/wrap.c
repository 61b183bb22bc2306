// SPDX-License-Identifier: MIT
/* dlbuf/hexagon.h: devices for an application's fastrpc fd, and FastRPC's map of a tensor. */
#include <errno.h>
#include <stdio.h>

#include "../../tensor/tensor.h"
#include "hexagon.h"

static int check_node(int fd)
{
	struct stat st;

	if (sys_fstat(fd, &st))
		return fail(errno == EBADF ? -EBADF : -EIO, "fd %d: fstat(): %m", fd);
	if (!S_ISCHR(st.st_mode))
		return fail(-EINVAL, "fd %d is not a device node, so it is not a "
			    "fastrpc node", fd);
	return 0;
}

int dlbuf_device_wrap_hexagon(int fd, int domain,
			      const struct dlbuf_device_opts *opts,
			      struct dlbuf_device **out)
{
	NOT_CANCELLED;
	struct hexagon_device *dev;
	struct dlbuf_device_opts o;
	char of[24];
	int ret;

	if (!out)
		return fail(-EINVAL, "out is NULL");
	if (domain < 0 || domain >= HEXAGON_EFFECTIVE_DOMAINS)
		return fail(-EINVAL, "domain %d is not below %d", domain,
			    HEXAGON_EFFECTIVE_DOMAINS);
	ret = device_opts_get(&o, opts);
	if (!ret)
		ret = check_node(fd);
	if (ret)
		return ret;
	snprintf(of, sizeof(of), "%d", domain);
	dev = hexagon_device_new(of, domain);
	if (!dev)
		return -ENOMEM;
	dev->node = sys_dup(fd);
	if (dev->node < 0) {
		free(dev);
		return fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fd);
	}
	device_init(&dev->base, &hexagon_backend, &o);
	log_at(DLBUF_LOG_INFO, "wrapped fastrpc fd %d as %s", fd, dev->base.name);
	*out = &dev->base;
	return 0;
}

int dlbuf_hexagon_get_buffer(const DLManagedTensorVersioned *tensor,
			     struct dlbuf_hexagon_buffer *buffer)
{
	struct hexagon_import *hi;
	struct tensor *t;
	int ret = tensor_of(tensor, &t);

	if (ret)
		return ret;
	if (t->imp->dev->backend != &hexagon_backend)
		return fail(-EINVAL, "the tensor is on %s, which is not a Hexagon "
			    "device", t->imp->dev->name);
	hi = hexagon_import_of(t->imp);
	return INFO_PUT(buffer, (&(struct dlbuf_hexagon_buffer){
		.domain = t->imp->dev->dl.device_id,
		.fd = hi->fd,
		.address = t->imp->data,
		.bytes = hi->size,
		.offset = t->first,
		.dsp_address = hi->dsp,
		.mapped = hi->map != HEXAGON_UNMAPPED,
	}), "dlbuf_hexagon_buffer");
}
