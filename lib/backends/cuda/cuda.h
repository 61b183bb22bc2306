/* SPDX-License-Identifier: MIT */
/* What the files of the CUDA backend share. */
#ifndef DLBUF_CUDA_BACKEND_H
#define DLBUF_CUDA_BACKEND_H

#include <dlbuf/cuda.h>

#include "../../queue/queue.h"
#include "api.h"

/* A device of the machine, before anything is opened. */
struct cuda_gpu {
	cuda_device handle;
	int ordinal;
	int version;		/* of the driver, 1000 * major + 10 * minor */
	int integrated, registers, registers_read_only, coherent, timelines,
	    exports, exports_host;	/* attributes */
	struct dlbuf_device_info info;
};

struct cuda_device {
	struct queue_device queue;
	struct cuda_api cu;
	struct cuda_gpu gpu;
	cuda_context context;
	bool primary;		/* the context is one that we retained */
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
 * A device around a context, which is given back also on failure if it is
 * `primary`. flags: DLBUF_DEVICE_*.
 */
int cuda_device_create(const struct cuda_api *cu, const struct cuda_gpu *gpu,
		       cuda_context context, bool primary, uint32_t flags,
		       struct cuda_device **out);

/* Looks at a device by its number. */
int cuda_gpu_probe(const struct cuda_api *cu, int ordinal,
		   struct cuda_gpu *gpu);

/* 0, or the errno; sees to it that a lost context is noticed. */
int cuda_done(struct cuda_device *dev, cuda_result result, const char *call);

#define CUDA_DO(dev, name, ...) \
	cuda_done(dev, CUDA_RESULT(&(dev)->cu, name, __VA_ARGS__), "cu" #name)

/* export.c */
int cuda_alloc(struct import *imp);
int cuda_export(struct dlbuf_device *dev, const DLTensor *tensor,
		const struct dlbuf_export_opts *opts,
		struct dlbuf_exported *out);

#endif /* DLBUF_CUDA_BACKEND_H */
