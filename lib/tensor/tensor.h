/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_TENSOR_H
#define DLBUF_LIB_TENSOR_H

#include <stdbool.h>

#include <dlbuf/tensor.h>

#include "../access/lease.h"
#include "../import/backend.h"
#include "../system/internal.h"

/*
 * Tensors of one import that were acquired together. They share one bracket. The last
 * one that is released ends the bracket and frees this struct.
 */
struct together {
	unsigned int left;	/* atomic; number of tensors that are still acquired */
	unsigned int all;
};

/* A tensor, in one allocation: DLPack's struct, the library's fields, the dims. */
struct tensor {
	union {
		DLManagedTensorVersioned versioned;
		DLManagedTensor legacy;
	};
	struct import *imp;
	struct lease *lease;	/* or NULL */
	uint64_t first, end;	/* the range of the buffer that it covers, bytes */
	uint32_t acquired;	/* atomic; enum dlbuf_access; 0: not acquired */
	bool lent;		/* the struct is in the lease's room */
	bool by_fence;		/* acquired by dlbuf_acquire_fence() */
	int before;		/* a sync_file, or 0: see struct unreported; atomic */
	void *stream;		/* the stream of the acquire */
	struct together *together;	/* or NULL */
	int64_t dims[];		/* shape, then strides */
};

/* The size of a struct tensor with so many dimensions. */
size_t tensor_size(int ndim);

/*
 * Makes a tensor of an import. Takes one user of the import. layout has been checked. lease
 * may be NULL. room is zeroed memory of tensor_size() bytes in the lease, or NULL: with room the
 * tensor takes one reference of the lease, without it adds one.
 * -ENOMEM  only without room; the caller keeps the user
 */
int tensor_create(struct import *imp, const DLTensor *layout, uint64_t first,
		  uint64_t end, struct lease *lease, void *room,
		  struct tensor **out);

/* The layout of a tensor. Its pointers point into the tensor. */
DLTensor tensor_layout(const struct tensor *t);

/* The deleter of dlbuf's tensors. dlbuf recognises its tensors by this pointer. */
void tensor_delete(DLManagedTensorVersioned *self);

/* Returns why a tensor cannot be used: -EINVAL, -ESTALE. */
int tensor_refused(const DLManagedTensorVersioned *dl);

/* Gets the struct tensor. If the major version is another one, only the head may be read. */
static inline int tensor_of(const DLManagedTensorVersioned *dl,
			    struct tensor **out)
{
	struct tensor *t;

	if (!dl || dl->version.major != DLPACK_MAJOR_VERSION || dl->deleter != tensor_delete)
		return negative(tensor_refused(dl));
	t = container_of(dl, struct tensor, versioned);
	if (dl->manager_ctx != t || device_inherited(t->imp->dev))
		return negative(tensor_refused(dl));
	*out = t;
	return 0;
}

/* Checks an access to the tensor: -EINVAL, -EACCES. */
int tensor_bad_access(const struct tensor *t, uint32_t access) __attribute__((cold));
static inline int tensor_check_access(const struct tensor *t, uint32_t access)
{
	return access && !(access & ~t->imp->id.access) ? 0 : tensor_bad_access(t, access);
}

/* Whether an error of the tensor, or of its frame, may not be reported yet. */
static inline bool before_any(const struct tensor *t)
{
	return __atomic_load_n(&t->before, __ATOMIC_RELAXED) ||
	       (t->lease && t->lease->unreported.frame);
}

/* tensor_of() for one of several, which it has checked already. */
static inline struct tensor *tensor_at(DLManagedTensorVersioned *const tensors[],
				       size_t i)
{
	return container_of(tensors[i], struct tensor, versioned);
}

/*
 * dlbuf_import() after its options were checked. access 0: all that the fd allows.
 * paths: PATH_BIT()s and PATHS_BRIEF.
 */
int tensor_import(struct dlbuf_device *dev, int fd, const DLTensor *layout,
		  uint32_t access, uint32_t paths,
		  DLManagedTensorVersioned **out);

/* The paths that the checked options allow. */
uint32_t import_paths(const struct dlbuf_import_opts *o);

/* Checks a caller's options, which may be NULL, and copies them. */
int import_opts_get(const struct dlbuf_import_opts *opts,
		    struct dlbuf_import_opts *ours);

#endif /* DLBUF_LIB_TENSOR_H */
