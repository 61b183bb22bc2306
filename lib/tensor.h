/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_TENSOR_H
#define DLBUF_LIB_TENSOR_H

#include <stdbool.h>

#include <dlbuf/tensor.h>

#include "backend.h"
#include "internal.h"

struct lease;

/*
 * Tensors of one import that were acquired together: they share the bracket,
 * which the last one ends and which is freed then.
 */
struct together {
	unsigned int left;	/* atomic; those that are acquired still */
	unsigned int all;
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
	bool lent;		/* its memory is the lease's */
	bool by_fence;		/* acquired by dlbuf_acquire_fence() */
	void *stream;		/* of the acquire */
	struct together *together;	/* or NULL */
	int64_t dims[];		/* shape, then strides */
};

/* The bytes of a tensor. */
size_t tensor_size(int ndim);

/*
 * Makes a tensor of an import and takes over one use of it; takes one
 * reference of lease where there is one. layout has been checked. room is NULL
 * or zeroed memory of the lease, of tensor_size() bytes. On failure (-ENOMEM,
 * not with room) both stay the caller's.
 */
int tensor_create(struct import *imp, const DLTensor *layout, uint64_t first,
		  uint64_t end, struct lease *lease, void *room,
		  struct tensor **out);

/* The layout that a tensor was made from; points into the tensor. */
DLTensor tensor_layout(const struct tensor *t);

/* The deleter of dlbuf's tensors, which it knows them by. */
void tensor_delete(DLManagedTensorVersioned *self);

/* Why a tensor is none that may be used here: -EINVAL, -EPROTO, -ESTALE. */
int tensor_refused(const DLManagedTensorVersioned *dl);

/* Ours behind DLPack's. Of another major version only that much may be read. */
static inline int tensor_of(const DLManagedTensorVersioned *dl,
			    struct tensor **out)
{
	struct tensor *t = container_of(dl, struct tensor, versioned);

	if (!dl || dl->version.major != DLPACK_MAJOR_VERSION ||
	    dl->deleter != tensor_delete || device_inherited(t->imp->dev))
		return negative(tensor_refused(dl));
	*out = t;
	return 0;
}

/*
 * dlbuf_import() after its options have been looked at. access 0: all that
 * the fd allows. paths: PATH_BIT()s and PATHS_BRIEF.
 */
int tensor_import(struct dlbuf_device *dev, int fd, const DLTensor *layout,
		  uint32_t access, uint32_t paths,
		  DLManagedTensorVersioned **out);

/* The paths that checked options allow. */
uint32_t import_paths(const struct dlbuf_import_opts *o);

/* Checks a caller's options, which may be NULL, and copies them. */
int import_opts_get(const struct dlbuf_import_opts *opts,
		    struct dlbuf_import_opts *ours);

#endif /* DLBUF_LIB_TENSOR_H */
