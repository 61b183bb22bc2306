// SPDX-License-Identifier: MIT
/*
 * README's C program without dlbuf: makes a dma-buf, makes a DLPack tensor over it
 * on the CPU, and reads it between the kernel's fences. Without a cache of
 * mappings, without deadlines, and for this one layout.
 *
 *	cc -Idlpack/include by_hand.c && sudo ./a.out
 *
 * dlpack/ is https://github.com/dmlc/dlpack, version 1.0 or newer.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <dlpack/dlpack.h>

struct mapped {
	DLManagedTensorVersioned tensor;
	int64_t shape[2], strides[2];
	size_t bytes;
	int fd;
};

static int make_buffer(size_t bytes)
{
	struct udmabuf_create create = { .size = bytes };
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		err(1, "/dev/udmabuf");
	create.memfd = memfd_create("picture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if ((int)create.memfd < 0 || ftruncate(create.memfd, bytes) ||
	    fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		err(1, "memfd");
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	if (fd < 0)
		err(1, "UDMABUF_CREATE");
	close(create.memfd);
	close(dev);
	return fd;
}

static void sync_buffer(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	while (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync))
		if (errno != EINTR && errno != EAGAIN)
			err(1, "DMA_BUF_IOCTL_SYNC");
}

static void unmap(DLManagedTensorVersioned *tensor)
{
	struct mapped *m = tensor->manager_ctx;

	munmap(m->tensor.dl_tensor.data, m->bytes);
	close(m->fd);
	free(m);
}

static DLManagedTensorVersioned *map(int fd, int64_t height, int64_t width)
{
	struct mapped *m = calloc(1, sizeof(*m));
	off_t size = lseek(fd, 0, SEEK_END);
	DLTensor *t;

	if (!m || size < height * width)
		errx(1, "no memory, or the buffer is too small");
	*m = (struct mapped){
		.tensor = { .version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
			    .manager_ctx = m, .deleter = unmap },
		.shape = { height, width }, .strides = { width, 1 },
		.bytes = size, .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
	};
	t = &m->tensor.dl_tensor;
	*t = (DLTensor){
		.data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
		.device = { kDLCPU, 0 }, .dtype = { kDLUInt, 8, 1 },
		.ndim = 2, .shape = m->shape, .strides = m->strides,
	};
	if (m->fd < 0 || t->data == MAP_FAILED)
		err(1, "mmap");
	return &m->tensor;
}

int main(void)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int fd = make_buffer((1080 * 1920 + page - 1) / page * page);
	DLManagedTensorVersioned *t = map(fd, 1080, 1920);

	sync_buffer(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	printf("the first pixel is %d\n", *(uint8_t *)t->dl_tensor.data);
	sync_buffer(fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	t->deleter(t);
	close(fd);
}
