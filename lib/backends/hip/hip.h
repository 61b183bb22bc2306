/* SPDX-License-Identifier: MIT */
/* Shared by the files of the HIP backend. */
#ifndef DLBUF_HIP_BACKEND_H
#define DLBUF_HIP_BACKEND_H

#include <dlbuf/hip.h>

#include "../../queue/queue.h"
#include "api.h"

struct hip_device {
	struct queue_device queue;
	struct hip_api hip;
	int ordinal;
	int version;		/* of the runtime, 10^7 * major + 10^5 * minor + patch */
	hsa_export_fn hsa_export;	/* or NULL */
	hip_module module;	/* atomic; of prepare.c, or NULL */
	uint32_t foreign[8];	/* atomic; exporters whose dma-bufs were refused */
};

/* The driver places a smaller allocation in a block with others. */
#define FRAGMENT (2u << 20)
#define GPU_PAGE 4096u

static inline struct hip_device *to_hip(struct queue_device *dev)
{
	return container_of(dev, struct hip_device, queue);
}

static inline struct hip_device *hip_device_of(struct dlbuf_device *dev)
{
	return to_hip(queue_device_of(dev));
}

BACKEND_DECLARE(hip);
extern const struct queue_ops hip_ops;

/* As hip_check(); marks the device as lost if the result says so. */
int hip_done(struct queue_device *dev, hip_result result, size_t function);

#define HIP_DO(dev, name, ...) \
	hip_done(dev, HIP_RESULT(&to_hip(dev)->hip, name, __VA_ARGS__), \
		 HIP_FUNCTION(name))

/* backend.c */
int hip_count(struct queue_device *dev, unsigned int *n);
int hip_probe(struct queue_device *dev, unsigned int n);
int hip_start(struct queue_device *dev, uint32_t flags);

/* export.c */
int hip_range(struct queue_device *dev, DLDeviceType on, uintptr_t p,
	      struct queue_range *r);
int hip_export(struct queue_device *dev, struct queue_range *pages,
	       uint32_t flags, int *fd);

/* prepare.c */
int hip_kernel_create(struct queue_device *dev, void **kernel);
int hip_kernel_launch(struct queue_device *dev, void *kernel, void *stream,
		      const struct queue_launch *launch);
/* Unloads the kernels, if any are loaded. */
void hip_kernel_free(struct queue_device *dev);

#endif /* DLBUF_HIP_BACKEND_H */
