// SPDX-License-Identifier: MIT
/* See memory.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memory.h"
#include "objects.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

/* ---------------------------------------------------------------- addresses */

size_t align_up(size_t bytes, size_t align)
{
	return (bytes + align - 1) / align * align;
}

size_t page_up(size_t bytes)
{
	return align_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
}

void *reserve(size_t bytes, size_t align)
{
	size_t all = bytes + align;
	uintptr_t p, from;

	p = (uintptr_t)mmap(NULL, all, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == (uintptr_t)MAP_FAILED)
		return NULL;
	from = align_up(p, align);
	if (from > p)
		munmap((void *)p, from - p);
	if (p + all > from + bytes)
		munmap((void *)(from + bytes), p + all - from - bytes);
	return (void *)from;
}

bool is_mapped(const void *p, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)p / page * page;
	unsigned char seen[256];

	bytes += (uintptr_t)p - from;
	while (bytes) {
		size_t n = bytes < sizeof(seen) * page ? bytes :
							 sizeof(seen) * page;

		if (mincore((void *)from, n, seen))
			return false;
		from += n;
		bytes -= n;
	}
	return true;
}

/*
 * Whether the kernel pins the page of an address, by having it do so: a pipe that
 * is given a page by vmsplice() does.
 */
int is_pinned(uintptr_t p)
{
	struct iovec page = { (void *)p, 1 };
	int pipes[2], ret = -1;

	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
		return -1;
	if (vmsplice(pipes[1], &page, 1, SPLICE_F_NONBLOCK) == 1)
		ret = 1;
	else if (errno == EFAULT)
		ret = 0;
	close(pipes[0]);
	close(pipes[1]);
	return ret;
}

/* ---------------------------------------------------------------- fds */

int memory_fd(const char *name, size_t bytes)
{
	int low = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fd = fcntl(low, F_DUPFD_CLOEXEC, 3);

	if (low >= 0)
		close(low);
	if (fd < 0)
		return -1;
	if (!ftruncate(fd, (off_t)bytes) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return fd;
	close(fd);
	return -1;
}

void *map_fd(int fd, size_t bytes, int access)
{
	void *p = mmap(NULL, bytes, access, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

int udmabuf_of(int memfd, size_t at, size_t bytes)
{
	struct udmabuf_create create = {
		.memfd = (uint32_t)memfd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.offset = at,
		.size = bytes,
	};
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		return NO_UDMABUF;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	close(dev);
	return fd;
}

void spoil_page(void *page)
{
	mmap(page, page_up(1), PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* A program may let fstatfs() say that memfds are dma-bufs. */
bool is_memfd(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

bool is_dma_buf(int fd)
{
	struct statfs st;

	return !fstatfs(fd, &st) && (long)st.f_type == DMA_BUF_MAGIC;
}

ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

void look_at_fd(int fd)
{
	if (fcntl(fd, F_GETFD) != FD_CLOEXEC || fd < 3)
		wrong("%s: the fd is not fit to be kept", call);
}

bool is_fit(int fd, bool memfds)
{
	return is_dma_buf(fd) || (memfds && is_memfd(fd));
}

void close_given(int fd, ino_t inode)
{
	if (inode_of(fd) != inode || close(fd))
		wrong("%s: an fd that it was given was closed by somebody else",
		      call);
}
