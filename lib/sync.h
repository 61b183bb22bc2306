/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_SYNC_H
#define DLBUF_LIB_SYNC_H

#include <stdint.h>

struct tensor;

/*
 * Ends an access that has been taken off the tensor: the device's part, the
 * fence on the dma-buf, the lease. out may be NULL, as for dlbuf_release().
 */
int tensor_release(struct tensor *t, uint32_t access, void *stream, int *out);

#endif /* DLBUF_LIB_SYNC_H */
