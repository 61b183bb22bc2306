/* SPDX-License-Identifier: MIT */
/*
 * A double of NVIDIA's libnvvpi, major version 3 or 4, written from its documentation.
 * No header of NVIDIA is used: both sides follow dlbuf's reading of the documentation.
 * So it checks lifetimes and order, and no arguments.
 *
 * submit() adds work to a stream: it inverts the bytes of a pitch-linear image of the
 * host.
 *
 * Counted as wrong, since NVIDIA calls it undefined or forbids it: memory that is
 * freed while it is wrapped; an image destroyed while it is locked or used by a
 * stream; any handle that is none; a pitch-linear struct for version 4, whose layout
 * is not known.
 */
#ifndef FAKE_NVVPI_H
#define FAKE_NVVPI_H

#include <sys/types.h>

#include "driver.h"

/* VPIStatus, in the order of VPI 2. The double's version 4 has other numbers. */
enum {
	NVVPI_SUCCESS, NVVPI_NOT_IMPLEMENTED, NVVPI_INVALID_ARGUMENT,
	NVVPI_INVALID_IMAGE_FORMAT, NVVPI_INVALID_ARRAY_TYPE,
	NVVPI_INVALID_PAYLOAD_TYPE, NVVPI_INVALID_OPERATION, NVVPI_INVALID_CONTEXT,
	NVVPI_DEVICE, NVVPI_NOT_READY, NVVPI_BUFFER_LOCKED, NVVPI_OUT_OF_MEMORY,
	NVVPI_INTERNAL,
};

/* Formats, by numbers of our own: the bits of a pixel of each plane. */
#define NVVPI_FORMAT(a, b) (0x5600000000000000ull | (a) << 8 | (b))
#define NVVPI_U8 NVVPI_FORMAT(8, 0)
#define NVVPI_RGB8 NVVPI_FORMAT(24, 0)
#define NVVPI_F32 NVVPI_FORMAT(32, 0)
#define NVVPI_YUYV NVVPI_FORMAT(16, 0)
#define NVVPI_NV12_ER NVVPI_FORMAT(8, 16)	/* half the width and height */

enum { NVVPI_IMAGE, NVVPI_STREAM, NVVPI_KINDS };

struct fake_nvvpi {
	DRIVER;
	int major;
	bool held;		/* streams stand still; set it with hold() */
	ino_t surface;		/* the fd of this dma-buf has NvBufSurface metadata */
	const void *last;	/* the first plane that a stream worked on last */
	void (*hold)(bool held);
	int (*submit)(void *stream, void *image);
};

/* The one there is, reset. */
typedef struct fake_nvvpi *(*fake_nvvpi_fn)(void);

#endif /* FAKE_NVVPI_H */
