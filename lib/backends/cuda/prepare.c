// SPDX-License-Identifier: MIT
/*
 * Preparation by a kernel. The build makes PTX of it with clang, and the driver compiles it for
 * its GPU.
 */
#include "cuda.h"

static const char ptx[] =
#include "prepare.ptx.h"
	;

/* A block of threads, and so a piece of the tensor. */
#define ACROSS 32u
#define DOWN 8u

/* Two threads may both load the module; one of the two is used. */
static int get_module(struct cuda_device *dev, cuda_module *out)
{
	cuda_module none = NULL;
	int ret;

	*out = __atomic_load_n(&dev->module, __ATOMIC_ACQUIRE);
	if (*out)
		return 0;
	ret = CUDA_DO(&dev->queue, ModuleLoadData, out, ptx);
	if (!ret && !__atomic_compare_exchange_n(&dev->module, &none, *out, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		dev->cu.ModuleUnload(*out);
		*out = none;
	}
	return ret;
}

/* It has no arguments of its own, so all programs have the same one. */
int cuda_kernel_create(struct queue_device *base, void **kernel)
{
	cuda_module module;
	int ret = get_module(to_cuda(base), &module);

	return ret ? ret : CUDA_DO(base, ModuleGetFunction, (cuda_function *)kernel, module,
				   "prepare");
}

/* The driver copies the arguments. */
int cuda_kernel_launch(struct queue_device *dev, void *kernel, void *stream,
		       const struct queue_launch *launch)
{
	struct queue_launch l = *launch;
	void *arguments[] = { &l.sources[0], &l.sources[1], &l.sources[2], &l.out, &l.tables,
			      &l.run };

	return CUDA_DO(dev, LaunchKernel, kernel, (l.width + ACROSS - 1) / ACROSS,
		       (l.height + DOWN - 1) / DOWN, l.images, ACROSS, DOWN, 1, 0, stream,
		       arguments, NULL);
}

void cuda_kernel_free(struct queue_device *base)
{
	struct cuda_device *dev = to_cuda(base);
	struct queue_scope scope;

	if (!dev->module)
		return;
	base->ops->enter(base, &scope, true);
	dev->cu.ModuleUnload(dev->module);
	base->ops->leave(base, &scope);
}
