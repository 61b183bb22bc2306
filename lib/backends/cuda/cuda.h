/* SPDX-License-Identifier: MIT */
/* Shared by the files of the CUDA backend. */
#ifndef DLBUF_CUDA_BACKEND_H
#define DLBUF_CUDA_BACKEND_H

#include <dlbuf/cuda.h>

#include "../../queue/queue.h"
#include "api.h"

struct cuda_device {
	struct queue_device queue;
	struct cuda_api cu;
	cuda_device handle;
	int version;		/* of the driver, 1000 * major + 10 * minor */
	cuda_context context;
	cuda_module module;	/* atomic; of prepare.c, or NULL */
	bool primary;		/* the primary context, retained by dlbuf */
	bool exports, exports_host; /* device memory, and host memory, as dma-bufs */
};

#define to_cuda(dev) container_of(dev, struct cuda_device, queue)
#define cuda_device_of(dev) container_of(dev, struct cuda_device, queue.base)

BACKEND_DECLARE(cuda);
extern const struct queue_ops cuda_ops;

/* As cuda_check(); marks the device as lost if the context is. */
int cuda_done(struct queue_device *dev, cuda_result result, size_t function);

#define CUDA_DO(dev, name, ...) \
	cuda_done(dev, CUDA_RESULT(&to_cuda(dev)->cu, name, __VA_ARGS__), \
		  CUDA_FUNCTION(name))

/* backend.c */
int cuda_count(struct queue_device *dev, unsigned int *n);
int cuda_probe(struct queue_device *dev, unsigned int n);
int cuda_start(struct queue_device *dev, uint32_t flags);
/*
 * Whether the current context is a green one, whose memory and events are the primary context's.
 */
bool cuda_is_green(const struct cuda_api *cu);

/* export.c */
int cuda_range(struct queue_device *dev, DLDeviceType on, uintptr_t p,
	       struct queue_range *r);
int cuda_export(struct queue_device *dev, struct queue_range *pages,
		uint32_t flags, int *fd);

/* prepare.c */
int cuda_kernel_create(struct queue_device *dev, void **kernel);
int cuda_kernel_launch(struct queue_device *dev, void *kernel, void *stream,
		       const struct queue_launch *launch);
/* Unloads the kernels, if any are loaded. */
void cuda_kernel_free(struct queue_device *dev);

#endif /* DLBUF_CUDA_BACKEND_H */
