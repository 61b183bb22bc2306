/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_TENSOR_H
#define DLBUF_LIB_TENSOR_H

#include <dlbuf/tensor.h>

struct import;

/*
 * The release callback of a frame, shared by the tensors over it; it runs
 * when the last of them is gone.
 */
struct lease {
	unsigned int refs;	/* atomic */
	void (*release)(void *data);
	void *data;
};

/* One tensor, in one allocation: DLPack's struct, our part, the dimensions. */
struct tensor {
	union {
		DLManagedTensorVersioned versioned;
		DLManagedTensor legacy;
	};
	struct import *imp;
	struct lease *lease;	/* or NULL */
	uint64_t first, end;	/* bytes of the buffer that it touches */
	uint32_t acquired;	/* atomic; dlbuf_access, 0: not acquired */
	void *stream;		/* of the acquire */
	int64_t dims[];		/* shape, then strides */
};

/*
 * Makes a tensor of an import and takes over one use of it; takes one
 * reference of lease where there is one. layout has been checked. On failure
 * (-ENOMEM) both stay the caller's.
 */
int tensor_create(struct import *imp, const DLTensor *layout, uint64_t first,
		  uint64_t end, struct lease *lease, struct tensor **out);

/* Ours behind DLPack's, or -EINVAL, -EPROTO. */
int tensor_of(const DLManagedTensorVersioned *dl, struct tensor **out);

/*
 * dlbuf_import() after its options have been looked at. access 0: all that
 * the fd allows.
 */
int tensor_import(struct dlbuf_device *dev, int fd, const DLTensor *layout,
		  uint32_t access, struct lease *lease,
		  DLManagedTensorVersioned **out);

/* Checks a caller's options and gives the access they ask for. */
int import_opts_get(const struct dlbuf_import_opts *opts, uint32_t *access);

void lease_unref(struct lease *lease);

#endif /* DLBUF_LIB_TENSOR_H */
