/* SPDX-License-Identifier: MIT */
/* lib/prepare/kernel.h, compiled as C: the kernel that devices of doubles run. */
#ifndef FAKE_PREPARE_H
#define FAKE_PREPARE_H

#include <stddef.h>
#include <stdint.h>

enum { PREPARE_BUFFERS = 5, PREPARE_RUN_BYTES = 48 };

/* Its text, as a source has it. */
extern const char prepare_text[];

/*
 * The reason why a run of this many images would be wrong: it would read or write beyond one of
 * the buffers, whose sizes these are, or values that are not aligned. NULL: it is right.
 */
const char *prepare_check(uint8_t *const buffers[PREPARE_BUFFERS],
			  const size_t bytes[PREPARE_BUFFERS], const void *run, uint32_t images);

/*
 * Runs the kernel for this many items of each image. buffers: of three planes, the tensor and
 * the tables; run: the last argument. The caller has checked that they are mapped. The
 * caller holds the lock.
 */
void prepare_kernel(uint8_t *const buffers[PREPARE_BUFFERS], const void *run, uint32_t items_x,
		    uint32_t items_y, uint32_t images);

#endif /* FAKE_PREPARE_H */
