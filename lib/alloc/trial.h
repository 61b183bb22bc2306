/* SPDX-License-Identifier: MIT */
/*
 * Whether a device's imports share the dma-buf's memory. A driver may accept a dma-buf and
 * give other memory, with a copy of the bytes or without. So a device imports a small
 * buffer of the library's: it must read the bytes that the CPU writes after the import,
 * and the CPU must read the bytes that the device writes.
 */
#ifndef DLBUF_TRIAL_H
#define DLBUF_TRIAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/dma-buf.h>

#include "../import/backend.h"

/* Tests on a driver that computes nothing set this: then there is no trial. */
extern bool trial_none;

#define TRIAL_PAGE 4096

/* A dma-buf of TRIAL_PAGE, and its mapping. */
struct trial_buffer {
	int fd;
	uint8_t *map;
};

/* Bytes that differ from each other and depend on `first`. */
static inline void trial_fill(uint8_t *p, size_t bytes, uint8_t first)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = first + i * 7 + i / 256;
}

/*
 * Fills a part of the buffer with the bytes of trial_fill(), by the CPU. If same is not NULL,
 * compares the part with these bytes instead, and sets *same.
 */
int trial_by_cpu(const struct trial_buffer *t, size_t at, size_t bytes, uint8_t first,
		 bool *same);

/*
 * Calls fn with a buffer of an exporter. If the exporter or fn fails, tries the next exporter.
 * Sets *apart to the opposite of what fn wrote to *shares. Returns 1. If all exporters fail, logs
 * the reason, leaves *apart unchanged and returns 0. -EMFILE, -ENFILE and -ENOMEM of an exporter
 * are errors: they say nothing about the machine.
 */
int trial_run(struct dlbuf_device *dev,
	      int (*fn)(struct dlbuf_device *dev, const struct trial_buffer *t,
			bool *shares),
	      bool *apart);

/* -EOPNOTSUPP, for a device whose imports are apart. */
int trial_apart(void);

#endif /* DLBUF_TRIAL_H */
