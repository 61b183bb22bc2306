/* SPDX-License-Identifier: MIT */
/*
 * A double of libEGL.so.1 for what dlbuf wants of one: devices, displays, and
 * images of dma-bufs, which the double of CUDA's driver knows. It returns the
 * documented error, counts the call in wrong, and says on stderr what was
 * against the rules: an image has all of its attributes and fits into the
 * dma-buf, its fd stays the caller's, it goes once, after CUDA has given it
 * back, and a display that others may have is not terminated.
 */
#ifndef FAKE_EGL_H
#define FAKE_EGL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cuda/abi.h"

#define FAKE_EGL_IMAGE 0x6d49676c45ull

/* What an EGLImage points to. */
struct fake_egl_image {
	uint64_t magic;		/* 0 once it is destroyed */
	uint8_t *map;
	size_t bytes;
	bool writable;
	_Atomic(unsigned int) registered; /* with CUDA */
	struct cuda_egl_frame frame;	/* what CUDA will say of it */
	struct fake_egl_image *next;
};

struct fake_egl {
	/* What it is to be. */
	unsigned int ndevices;
	int cuda[3];			/* the devices' CUdevice; -1: none */
	bool no_devices;		/* has no EGL_EXT_platform_device */
	bool no_dma_bufs;		/* nor EGL_EXT_image_dma_buf_import */
	const char *without;		/* this function there is not */
	const char *failing;		/* this one fails with error */
	int error;
	/* Changes what CUDA says of an image that is being made. */
	void (*skew)(struct cuda_egl_frame *frame);

	/* What it saw. */
	unsigned int live, made;	/* images */
	unsigned int wrong;		/* calls against the rules */
	unsigned int initialised;	/* times that a display was */
	int device;			/* of the last display; -1: the default */
};

/* The one there is; anew after a reset: one device, which is CUDA's first. */
typedef struct fake_egl *(*fake_egl_fn)(bool reset);

#endif /* FAKE_EGL_H */
