/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_SYNC_H
#define DLBUF_LIB_SYNC_H

#include <stdint.h>

struct tensor;

/*
 * Ends an access, after the caller has cleared t->acquired: calls the device, adds the
 * fence to the dma-buf, and makes the lease wait. out may be NULL, as for
 * dlbuf_release().
 */
int tensor_release(struct tensor *t, uint32_t access, void *stream, int *out);

#endif /* DLBUF_LIB_SYNC_H */
