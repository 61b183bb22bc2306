/* SPDX-License-Identifier: MIT */
/* Shared by the files of the CUDA backend. */
#ifndef DLBUF_CUDA_BACKEND_H
#define DLBUF_CUDA_BACKEND_H

#include <dlbuf/cuda.h>

#include "../../queue/queue.h"
#include "../../select.h"
#include "api.h"

/* A device of the machine, as it was before dlbuf opened it. */
struct cuda_gpu {
	cuda_device handle;
	int ordinal;
	int version;		/* of the driver, 1000 * major + 10 * minor */
	struct dlbuf_device_info info;
	struct device_place place;
};

struct cuda_device {
	struct queue_device queue;
	struct cuda_api cu;
	struct cuda_gpu gpu;
	cuda_context context;
	bool primary;		/* the primary context, retained by dlbuf */
	bool exports, exports_host; /* device memory, and host memory, as dma-bufs */
};

static inline struct cuda_device *to_cuda(struct queue_device *dev)
{
	return container_of(dev, struct cuda_device, queue);
}

static inline struct cuda_device *cuda_device_of(struct dlbuf_device *dev)
{
	return to_cuda(queue_device_of(dev));
}

BACKEND_DECLARE(cuda);
extern const struct queue_ops cuda_ops;

/*
 * Makes a device for a context. A `primary` context is released with the device, and
 * also if this call fails. flags: DLBUF_CUDA_*.
 */
int cuda_device_create(const struct cuda_api *cu, const struct cuda_gpu *gpu,
		       cuda_context context, bool primary, uint32_t flags,
		       struct cuda_device **out);

/* Queries the device with this ordinal. */
int cuda_gpu_probe(const struct cuda_api *cu, int ordinal,
		   struct cuda_gpu *gpu);

/* As cuda_check(); marks the device as lost if the context is. */
int cuda_done(struct queue_device *dev, cuda_result result, size_t function);

#define CUDA_DO(dev, name, ...) \
	cuda_done(dev, CUDA_RESULT(&to_cuda(dev)->cu, name, __VA_ARGS__), \
		  CUDA_FUNCTION(name))

/* export.c */
int cuda_range(struct queue_device *dev, DLDeviceType on, uintptr_t p,
	       struct queue_range *r);
int cuda_export(struct queue_device *dev, struct queue_range *pages,
		uint32_t flags, int *fd);

#endif /* DLBUF_CUDA_BACKEND_H */
