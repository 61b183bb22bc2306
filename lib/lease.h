/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_LEASE_H
#define DLBUF_LIB_LEASE_H

#include <dlbuf/tensor.h>

/*
 * How many users the lease of one of our tensors has: tensors, and work that it
 * waits for. Atomic, peeked, valid until the lease's callback has returned. NULL
 * for a tensor without a lease. For Python's garbage collector.
 */
const unsigned int *tensor_lease_users(const DLManagedTensorVersioned *tensor);

#endif /* DLBUF_LIB_LEASE_H */
