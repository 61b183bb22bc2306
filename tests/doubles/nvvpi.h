/* SPDX-License-Identifier: MIT */
/*
 * A double of NVIDIA's libnvvpi, major version 3 or 4, written from its documentation.
 * No header of NVIDIA is used: what both sides agree on is dlbuf's reading of it. So it
 * checks symbols and lifetimes, and no arguments. Nothing runs on its streams.
 *
 * Counted as wrong, since NVIDIA calls it undefined or forbids it: memory that is gone
 * while it is wrapped; an image destroyed or pointed at other memory while it is locked; any
 * handle that is none; a pitch-linear struct for version 4, whose layout is not known.
 */
#ifndef FAKE_NVVPI_H
#define FAKE_NVVPI_H

#include <sys/types.h>

#include "driver.h"

/* VPIStatus: by their names only. */
enum { NVVPI_INVALID_ARGUMENT = 102, NVVPI_INTERNAL = 112 };

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
	const char *failure;	/* the name of the status of a call that fails */
	ino_t surface;		/* the fd of this dma-buf has NvBufSurface metadata */
};

/* The one there is, reset. */
typedef struct fake_nvvpi *(*fake_nvvpi_fn)(void);

#endif /* FAKE_NVVPI_H */
