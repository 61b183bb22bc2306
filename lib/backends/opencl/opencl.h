/* SPDX-License-Identifier: MIT */
/* Shared by the files of the OpenCL backend. */
#ifndef DLBUF_OPENCL_BACKEND_H
#define DLBUF_OPENCL_BACKEND_H

#include <dlbuf/opencl.h>

#include "../../queue/queue.h"
#include "api.h"

/* How a device imports dma-bufs. */
enum opencl_imports {
	OPENCL_IMPORTS_NONE,
	OPENCL_IMPORTS_KHR,	/* cl_khr_external_memory */
	OPENCL_IMPORTS_ARM,	/* cl_arm_import_memory_dma_buf */
	OPENCL_IMPORTS_QCOM,	/* cl_qcom_dmabuf_host_ptr */
};

#define OPENCL_MAX_DEVICES 64

struct opencl_place {
	cl_platform_id platform;
	cl_device_id device;
	unsigned int platform_index, index;
};

/* Functions of extensions; those that the device does not have are NULL. */
#define OPENCL_EXTENSIONS(X)				\
	X(EnqueueAcquireExternalMemObjectsKHR)		\
	X(EnqueueReleaseExternalMemObjectsKHR)		\
	X(CreateSemaphoreWithPropertiesKHR)		\
	X(EnqueueWaitSemaphoresKHR)			\
	X(EnqueueSignalSemaphoresKHR)			\
	X(GetSemaphoreHandleForTypeKHR)			\
	X(ReleaseSemaphoreKHR)				\
	X(ImportMemoryARM)

struct opencl_device {
	struct queue_device queue;
	struct opencl_api cl;
	struct {
#define X(name) __typeof__(cl##name) *name;
		OPENCL_EXTENSIONS(X)
#undef X
	} ext;
	struct opencl_place list[OPENCL_MAX_DEVICES];	/* of all platforms */
	/* From here to `padding`: of the device that was probed last. */
	cl_platform_id platform;
	cl_device_id device;
	cl_device_type type;
	enum opencl_imports imports;
	bool svm;		/* kernels use any address of the host */
	uint32_t page, padding;	/* of a buffer with OPENCL_IMPORTS_QCOM */
	cl_context context;	/* with a reference */
	cl_uint ndevices;	/* of the context */
	cl_command_queue own;	/* the library's */
	cl_command_queue stream; /* the default stream: `own` or the application's */
	cl_program program;	/* atomic; of prepare.c, or NULL */
};

static inline struct opencl_device *to_opencl(struct queue_device *dev)
{
	return container_of(dev, struct opencl_device, queue);
}

static inline struct opencl_device *opencl_device_of(struct dlbuf_device *dev)
{
	return to_opencl(queue_device_of(dev));
}

BACKEND_DECLARE(opencl);
extern const struct queue_ops opencl_ops;

/* Drivers return this code for a device that is lost or hangs. */
static inline cl_int opencl_note(struct queue_device *dev, cl_int result)
{
	if (result == CL_DEVICE_NOT_AVAILABLE)
		queue_lost(dev);
	return result;
}

#define OPENCL_DO(dev, name, ...) \
	opencl_check(opencl_note(dev, OPENCL_RESULT(&to_opencl(dev)->cl, name, \
						    __VA_ARGS__)), \
		     OPENCL_FUNCTION(name))
#define OPENCL_EXT(dev, name, ...) \
	opencl_check_ext(opencl_note(dev, OPENCL_RESULT(&to_opencl(dev)->ext, \
							name, __VA_ARGS__)), \
			 "cl" #name)

/* backend.c */
int opencl_count(struct queue_device *dev, unsigned int *n);
int opencl_probe(struct queue_device *dev, unsigned int n);
int opencl_start(struct queue_device *dev, uint32_t flags);

/*
 * Whether a queue runs its commands in order. opencl_in_order() puts a barrier on a queue
 * that does not.
 */
int opencl_has_order(struct queue_device *dev, cl_command_queue queue, bool *has);
int opencl_in_order(struct queue_device *dev, cl_command_queue queue);

/* ops.c: keeps queues of the application. */
int opencl_keep(struct dlbuf_device *dev, void *s);
void opencl_drop(struct dlbuf_device *dev, void *s);

/* memory.c: operations of struct queue_ops. */
int opencl_import(struct queue_memory *m);
int opencl_register_host(struct queue_memory *m, uint32_t access);
int opencl_alloc(struct queue_memory *m);
void opencl_free(struct queue_memory *m);
int opencl_copy(struct queue_memory *m, void *stream, bool out);
int opencl_begin(struct queue_memory *m, void *stream);
int opencl_end(struct queue_memory *m, uint32_t access, void *stream);

/* prepare.c */
int opencl_kernel_create(struct queue_device *dev, void **kernel);
void opencl_kernel_destroy(struct queue_device *dev, void *kernel);
int opencl_kernel_launch(struct queue_device *dev, void *kernel, void *stream,
			 const struct queue_launch *launch);

/* Whether buffers of CL_MEM_USE_HOST_PTR are the host's memory and no copy of it. */
bool opencl_shares_host_memory(struct opencl_device *dev);

#endif /* DLBUF_OPENCL_BACKEND_H */
