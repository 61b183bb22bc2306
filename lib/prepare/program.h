/* SPDX-License-Identifier: MIT */
/*
 * A plan for a device: one block of 32-bit words that the kernels of all devices read, and
 * one run of it. device.c packs it. kernel.h and a backend's prepare.comp are the kernels,
 * and have the same struct.
 */
#ifndef DLBUF_LIB_PREPARE_PROGRAM_H
#define DLBUF_LIB_PREPARE_PROGRAM_H

#include <stdint.h>

#include "../import/backend.h"

/* The most samples of one value. With more a device may seem to hang, and be reset. */
#define PROGRAM_TAPS (1u << 16)

/*
 * For each pixel of the tensor: outside the picture its values are `pad`. Inside, x and y count
 * from the picture's corner, or with back_x and back_y from the opposite side. They are the outputs
 * i and j of the axes x and y; if `turned` is set, j and i. Each component is
 *
 *	sum over v of weight_y[v][j] * sum over u of weight_x[u][i] *
 *		sample(row first_y[j] + v, value first + step * (first_x[i] + u))
 *
 * The values of the tensor are matrix * (components, 1), limited to [low, high]. Integers are
 * rounded half to even and limited to the range of their type less the zero point. Then the zero
 * point is added.
 */
struct program {
	uint32_t bits;			/* of a stored sample: 8, 16 or 32, little-endian */
	uint32_t ncomponents, nout;	/* 1 or 3 */
	uint32_t store;			/* enum store */
	int32_t zero_point;
	uint32_t width, height;		/* of the tensor */
	uint32_t left, top, across, down;	/* the picture in it */
	uint32_t turned, back_x, back_y;
	struct {
		uint32_t first, step;	/* values */
		uint32_t x, y;		/* the axes: indices of tables */
		uint32_t shift, mask;	/* a sample's value: sample >> shift & mask */
	} components[3];
	float matrix[3][4];
	float low[3], high[3], pad[3];
	/*
	 * An axis: the number of taps, the number n of outputs, n first samples, n weights of
	 * the first tap, n weights of the second tap, and so on.
	 */
	uint32_t tables[];
};

/* A part of an import, in bytes. */
struct program_part {
	struct import *imp;
	uint64_t low, high;
	uint64_t at;			/* of the first value */
};

/* One frame. Pitches and steps are bytes, modulo 2^32. */
struct program_run {
	/* The plane of each component. If there is one component, all three are the same. */
	struct program_part sources[3];
	uint32_t pitches[3];
	struct program_part out;
	uint32_t step_x, step_y, step_channel;
	/* All imports, each once, with their accesses. */
	struct bracket brackets[4];
	uint32_t nbrackets;
};

/* A program and a run of it. NULL: the program is loaded already. */
struct program_job {
	struct program *program;
	size_t bytes;
	struct program_run run;
};

#endif /* DLBUF_LIB_PREPARE_PROGRAM_H */
