/* SPDX-License-Identifier: MIT */
/*
 * vgem, a DRM driver without hardware, whose fences signal when user space asks
 * for it: the only such source in an ordinary kernel. It signals a fence itself
 * after 10 s, and all fences of a file when the file is closed.
 */
#ifndef DMABUF_TEST_VGEM_H
#define DMABUF_TEST_VGEM_H

#include <stdint.h>

struct vgem {
	int fd;			/* -1: there is none */
	char node[32];
	char reason[256];	/* why */
};

/* Looks for a node and opens it. */
void vgem_open(struct vgem *vgem);
void vgem_close(struct vgem *vgem);

/* A buffer of `bytes` bytes and its dma-buf; 0 or -errno. *fd is new. */
int vgem_alloc(struct vgem *vgem, uint64_t bytes, uint32_t *handle, int *fd);
void vgem_free(struct vgem *vgem, uint32_t handle);

/*
 * Puts a fence on a buffer of its own, as a reader's or a writer's
 * (DLBUF_READ, DLBUF_WRITE). -EBUSY: the buffer has a conflicting fence.
 */
int vgem_attach(struct vgem *vgem, uint32_t handle, uint32_t access,
		uint32_t *fence);

/* -ETIMEDOUT: it has expired before. */
int vgem_signal(struct vgem *vgem, uint32_t fence);

#endif /* DMABUF_TEST_VGEM_H */
