/* SPDX-License-Identifier: MIT */
/*
 * CUDA's driver API for the tests and benchmarks on a GPU: the functions that
 * dlbuf calls, and those that only the tests call. A function that a driver
 * lacks is NULL.
 */
#ifndef DLBUF_GPU_DRIVER_H
#define DLBUF_GPU_DRIVER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/api.h"

/* CUmemLocation, CUmemAllocationProp, CUmemAccessDesc */
struct driver_location {
	int type;		/* 1: a device */
	int id;
};
struct driver_prop {
	int type;		/* 1: pinned */
	int handle_types;	/* 1: POSIX_FILE_DESCRIPTOR */
	struct driver_location location;
	void *win32;
	unsigned char compression, gpu_direct_rdma;
	unsigned short usage;
	unsigned char reserved[4];
};
struct driver_access {
	struct driver_location location;
	int flags;		/* 3: to read and to write */
};

enum {
	DRIVER_MANAGED_GLOBAL = 1,	/* CU_MEM_ATTACH_GLOBAL */
	DRIVER_PINNED = 1,
	DRIVER_DEVICE = 1,
	DRIVER_READ_WRITE = 3,
};

/* Functions that only the tests call, like CUDA_FUNCTIONS. */
#define DRIVER_ONLY(X)							\
	X(MemAllocManaged, cuMemAllocManaged, ,				\
	  (cuda_pointer *p, size_t bytes, unsigned int flags))		\
	X(MemcpyHtoD, cuMemcpyHtoD_v2, ,				\
	  (cuda_pointer to, const void *from, size_t bytes))		\
	X(MemcpyDtoH, cuMemcpyDtoH_v2, ,				\
	  (void *to, cuda_pointer from, size_t bytes))			\
	X(MemcpyAsync, cuMemcpyAsync, ,					\
	  (cuda_pointer to, cuda_pointer from, size_t bytes,		\
	   cuda_stream stream))						\
	X(StreamQuery, cuStreamQuery, , (cuda_stream stream))		\
	X(MemGetAllocationGranularity, cuMemGetAllocationGranularity, ,	\
	  (size_t *bytes, const struct driver_prop *prop, int option))	\
	X(MemCreate, cuMemCreate, ,					\
	  (unsigned long long *handle, size_t bytes,			\
	   const struct driver_prop *prop, unsigned long long flags))	\
	X(MemRelease, cuMemRelease, , (unsigned long long handle))	\
	X(MemAddressReserve, cuMemAddressReserve, ,			\
	  (cuda_pointer *p, size_t bytes, size_t alignment,		\
	   cuda_pointer at, unsigned long long flags))			\
	X(MemAddressFree, cuMemAddressFree, ,				\
	  (cuda_pointer p, size_t bytes))				\
	X(MemMap, cuMemMap, ,						\
	  (cuda_pointer p, size_t bytes, size_t offset,			\
	   unsigned long long handle, unsigned long long flags))	\
	X(MemUnmap, cuMemUnmap, , (cuda_pointer p, size_t bytes))	\
	X(MemSetAccess, cuMemSetAccess, ,				\
	  (cuda_pointer p, size_t bytes,				\
	   const struct driver_access *access, size_t n))
#define DRIVER_FUNCTIONS(X) CUDA_FUNCTIONS(X) DRIVER_ONLY(X)

struct driver {
	void *library;
#define X(name, symbol, needed, params) cuda_result (*name) params;
	DRIVER_FUNCTIONS(X)
#undef X
};

/* Loads what dlbuf does, by the same name; NULL, or why not. */
static inline const char *driver_load(struct driver *cu)
{
	const char *file = getenv("DLBUF_CUDA_LIBRARY");

	*cu = (struct driver){ 0 };
	cu->library = dlopen(file && *file ? file : "libcuda.so.1",
			     RTLD_NOW | RTLD_LOCAL);
	if (!cu->library)
		return dlerror();
#define X(name, symbol, needed, params) \
	*(void **)&cu->name = dlsym(cu->library, #symbol);
	DRIVER_FUNCTIONS(X)
#undef X
	return cu->Init && cu->DeviceGet && cu->DevicePrimaryCtxRetain ?
	       NULL : "the library lacks functions of CUDA 11";
}

/* "CUDA_ERROR_INVALID_VALUE (1): invalid argument", until the next call. */
static inline const char *driver_says(const struct driver *cu,
				      cuda_result result)
{
	const char *name = NULL, *text = NULL;
	static char said[256];

	if (cu->GetErrorName(result, &name) || !name)
		name = "no code of this driver's";
	if (cu->GetErrorString(result, &text) || !text)
		text = "no words";
	if (result == CUABI_SUCCESS)
		return "CUDA_SUCCESS";
	snprintf(said, sizeof(said), "%s (%d): %s", name, result, text);
	return said;
}

#endif /* DLBUF_GPU_DRIVER_H */
