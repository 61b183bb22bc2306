// SPDX-License-Identifier: MIT
/* The exporter udmabuf: dma-bufs of the pages of memfds. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <linux/udmabuf.h>

#include <dlbuf/udmabuf.h>

#include "../lib/alloc/exporter.h"
#include "../lib/dmabuf/buffer.h"
#include "../lib/dmabuf/memory.h"
#include "../lib/system/internal.h"
#include "../lib/system/node.h"
#include "../lib/system/sys.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

#define NODE "/dev/udmabuf"

static int opts(struct dlbuf_udmabuf_opts *ours,
		const struct dlbuf_udmabuf_opts *src)
{
	int ret = OPTS_GET_RESERVED(ours, src, "dlbuf_udmabuf_opts");

	if (ret)
		return ret;
	if (ours->flags & ~DLBUF_UDMABUF_2M)
		return unknown_flags("udmabuf", ours->flags & ~DLBUF_UDMABUF_2M);
	if (!ours->name)
		ours->name = "dlbuf";
	return exporter_check_name(ours->name);
}

static int open_node(int *fd)
{
	*fd = sys_open(NODE, O_RDWR);
	return *fd >= 0 ? 0 : fail_open(NODE);
}

/* Makes a sealed, zero-filled memfd that udmabuf accepts. */
static int make_memfd(uint64_t bytes, const struct dlbuf_udmabuf_opts *o,
		      int *out)
{
	unsigned int huge = o->flags & DLBUF_UDMABUF_2M ?
			    MFD_HUGETLB | MFD_HUGE_2MB : 0;
	int fd = sys_memfd(o->name, MFD_ALLOW_SEALING | huge), ret;

	if (fd < 0)
		return fail_errno("memfd_create()");
	if (sys_ftruncate(fd, bytes) < 0) {
		ret = fail_errno("ftruncate() of a memfd to %llu bytes",
				 (unsigned long long)bytes);
		goto err;
	}
	/*
	 * udmabuf requires F_SEAL_SHRINK and refuses F_SEAL_WRITE. F_SEAL_GROW keeps
	 * the sizes of memfd and dma-buf equal.
	 */
	if (fault_hit() ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
		ret = fail_errno("fcntl(F_ADD_SEALS) of a memfd");
		goto err;
	}
	*out = fd;
	return 0;

err:
	close(fd);
	return ret;
}

static int refused(const char *call, uint64_t bytes, bool huge)
{
	if (errno == EINVAL)
		return fail(-EOPNOTSUPP, "%s refused %llu bytes: %m (the limit "
			    "is in /sys/module/udmabuf/parameters/size_limit_mb)",
			    call, (unsigned long long)bytes);
	if (errno == ENOMEM)
		return fail(-ENOMEM, "%s: %m%s", call, huge ?
			    " (2 MiB pages come from vm.nr_hugepages)" : "");
	return fail(errno == EMFILE || errno == ENFILE ? -errno : -EIO,
		    "%s of %llu bytes: %m", call, (unsigned long long)bytes);
}

int dlbuf_udmabuf_create(uint64_t bytes, const struct dlbuf_udmabuf_opts *src,
			 struct dlbuf_udmabuf *out)
{
	NOT_CANCELLED;
	struct dlbuf_udmabuf_opts o;
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC };
	uint64_t page;
	int node, memfd, fd, ret;

	if (!out)
		return fail(-EINVAL, "out is NULL");
	ret = opts(&o, src);
	if (ret)
		return ret;
	page = o.flags & DLBUF_UDMABUF_2M ? 2u << 20 :
					    (uint64_t)sysconf(_SC_PAGESIZE);
	if (!bytes)
		return fail(-EINVAL, "a udmabuf cannot have 0 bytes");
	ret = exporter_check_size(bytes);
	if (ret)
		return ret;
	bytes = (bytes + page - 1) & ~(page - 1);

	ret = open_node(&node);
	if (ret)
		return ret;
	ret = make_memfd(bytes, &o, &memfd);
	if (ret)
		goto out_node;
	create.memfd = memfd;
	create.size = bytes;
	fd = sys_high(sys_ioctl(node, UDMABUF_CREATE, &create));
	if (fd < 0) {
		ret = refused("UDMABUF_CREATE", bytes,
			      o.flags & DLBUF_UDMABUF_2M);
		close(memfd);
		goto out_node;
	}
	ret = exporter_set_name(fd, o.name);
	if (ret) {
		close(fd);
		close(memfd);
		goto out_node;
	}
	memory_remember(fd, memfd);
	out->fd = fd;
	out->memfd = memfd;
	out->bytes = bytes;

out_node:
	close(node);
	return ret;
}

void dlbuf_udmabuf_close(struct dlbuf_udmabuf *buf)
{
	NOT_CANCELLED;
	if (!buf)
		return;
	if (buf->fd >= 0)
		close(buf->fd);
	if (buf->memfd >= 0) {
		memory_forget(buf->memfd);
		close(buf->memfd);
	}
	buf->fd = -1;
	buf->memfd = -1;
}

int dlbuf_udmabuf_remember(int fd, int memfd)
{
	uint64_t bytes;
	struct stat st;
	int ret;

	ret = buffer_size(fd, fd, &bytes);
	if (ret)
		return ret;
	if (fcntl(memfd, F_GET_SEALS) < 0)
		return fail(-EBADF, "fd %d is not a memfd", memfd);
	if (sys_fstat(memfd, &st) < 0)
		return fail_errno("fd %d: fstat()", memfd);
	if ((uint64_t)st.st_size != bytes)
		return fail(-EINVAL, "the dma-buf has %llu bytes, the memfd %llu",
			    (unsigned long long)bytes,
			    (unsigned long long)st.st_size);
	memory_remember(fd, memfd);
	return 0;
}

static int udmabuf_alloc(const char *selector, uint64_t bytes, const char *name,
			 int *fd, int *memfd)
{
	DLBUF_OPTS(dlbuf_udmabuf_opts, o, .name = name);
	struct dlbuf_udmabuf buf;
	int ret;

	if (!strcmp(selector, "2M"))
		o.flags = DLBUF_UDMABUF_2M;
	else if (selector[0])
		return fail(-EINVAL, "udmabuf: the page size is 2M or none, not "
			    "'%s'", selector);
	ret = dlbuf_udmabuf_create(bytes, &o, &buf);
	if (ret)
		return ret;
	*memfd = buf.memfd;
	*fd = buf.fd;
	return 0;
}

static int udmabuf_each(int (*fn)(const char *name, const char *node,
				  void *data), void *data)
{
	int ret = fn("udmabuf", NODE, data);

	return ret ? ret : fn("udmabuf:2M", NODE, data);
}

const struct exporter udmabuf_exporter = {
	.name = "udmabuf",
	.alloc = udmabuf_alloc,
	.each = udmabuf_each,
};
