/* SPDX-License-Identifier: MIT */
/* The bytes of a plane: as a device reads them, and as the reference has them. */
#ifndef DMABUF_TEST_BYTES_H
#define DMABUF_TEST_BYTES_H

#include <stdbool.h>
#include <stddef.h>

#include <dlbuf/dlbuf.h>

#include "access/access.h"
#include "rows.h"

/* A copy, which the next frame reuses. Zeroed: no copy yet. */
struct bytes {
	uint8_t *data;
	size_t room;
	struct rows rows;	/* in data */
};

void bytes_free(struct bytes *b);

/* Copies the rows without the padding between them. Returns 0 or a status. */
int bytes_of_rows(struct bytes *b, const void *base, const struct rows *rows);

/*
 * The plane as an acquired tensor of a device describes it, read by the device. name
 * and plane are for the sentence. 0 or a status.
 */
int bytes_read(struct bytes *b, const struct access *access, DLManagedTensorVersioned *t,
	       const char *name, uint32_t plane, uint64_t timeout_ns);

/*
 * A read of the device, with a deadline. -ETIME: the read has not ended, and
 * its resources are not freed. Otherwise as access->read().
 */
int read_within(const struct access *access, DLManagedTensorVersioned *t, uint64_t offset,
		void *to, size_t bytes, uint64_t timeout_ns);

/*
 * Finds the first row of `got` that differs from `want`, and the byte in it; both have the same
 * rows.
 */
bool bytes_differ(const struct bytes *want, const struct bytes *got, uint32_t *y, uint32_t *x);

/* Row y. */
const uint8_t *bytes_row(const struct bytes *b, uint32_t y);

#endif /* DMABUF_TEST_BYTES_H */
