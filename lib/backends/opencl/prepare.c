// SPDX-License-Identifier: MIT
/* Preparation by a kernel, which the driver compiles for the first program of a device. */
#include <stdio.h>

#include "opencl.h"

/*
 * Some drivers compile it again for each size of a group, so that is one. There are no
 * options: none of them makes it more exact, and some make it less.
 */
#define SIDE 8
#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x
static const char words[] =
	"#define KERNEL kernel "
	"__attribute__((reqd_work_group_size(" TEXT(SIDE) ", " TEXT(SIDE) ", 1)))\n"
	"#define FUNCTION static\n"
	"#define GLOBAL global\n"
	"#define AS_FLOAT as_float\n"
	"#define AS_UINT as_uint\n"
	"#define RINT rint\n"
	"#define ITEM_X ((uint)get_global_id(0))\n"
	"#define ITEM_Y ((uint)get_global_id(1))\n"
	"#define ITEM_Z ((uint)get_group_id(2))\n";
/* The linker merges it with HIP's copy, if HIP is built, too. */
static const char *const kernel_text =
#define PROGRAM(...) #__VA_ARGS__
#include "../../prepare/kernel.h"
	;

/* ---------------------------------------------------------------- programs */

/* The compiler's own words; most of them are about a line of the source. */
static int build_failed(struct opencl_device *dev, cl_program program, int ret)
{
	char said[160] = "", log[2048] = "";

	snprintf(said, sizeof(said), "%s", dlbuf_last_error());
	if (OPENCL_RESULT(&dev->cl, GetProgramBuildInfo, program, dev->device,
			  CL_PROGRAM_BUILD_LOG, sizeof(log), log, NULL))
		log[0] = '\0';
	return fail(ret, "%s: %s%s%.300s", dev->queue.base.name, said, *log ? ": " : "", log);
}

/* Two threads may both build it, and one is used. */
static int get_program(struct opencl_device *dev, cl_program *out)
{
	const char *texts[] = { words, kernel_text };
	cl_program none = NULL;
	int ret;

	*out = __atomic_load_n(&dev->program, __ATOMIC_ACQUIRE);
	if (*out)
		return 0;
	ret = OPENCL_NEW(&dev->cl, out, CreateProgramWithSource, dev->context, 2, texts, NULL);
	if (ret)
		return ret;
	ret = OPENCL_DO(&dev->queue, BuildProgram, *out, 1, &dev->device, "", NULL, NULL);
	if (ret) {
		ret = build_failed(dev, *out, ret);
		dev->cl.ReleaseProgram(*out);
	} else if (!__atomic_compare_exchange_n(&dev->program, &none, *out, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		dev->cl.ReleaseProgram(*out);
		*out = none;
	}
	return ret;
}

/* Arguments are the kernel's, so each program has its own. */
int opencl_kernel_create(struct queue_device *base, void **kernel)
{
	struct opencl_device *dev = to_opencl(base);
	cl_program program;
	int ret = get_program(dev, &program);

	return ret ? ret : OPENCL_NEW(&dev->cl, (cl_kernel *)kernel, CreateKernel, program,
				      "prepare");
}

void opencl_kernel_destroy(struct queue_device *dev, void *kernel)
{
	to_opencl(dev)->cl.ReleaseKernel(kernel);
}

/* ---------------------------------------------------------------- runs */

/* The stream is of stream_create(), which runs its commands in order. */
int opencl_kernel_launch(struct queue_device *dev, void *kernel, void *stream,
			 const struct queue_launch *l)
{
	const uintptr_t buffers[] = { l->sources[0], l->sources[1], l->sources[2], l->out,
				      l->tables };
	const size_t items[] = { ((size_t)l->width + SIDE - 1) / SIDE * SIDE,
				 ((size_t)l->height + SIDE - 1) / SIDE * SIDE, l->images };
	const size_t group[] = { SIDE, SIDE, 1 };
	int ret = 0;

	for (cl_uint i = 0; i < ARRAY_SIZE(buffers) && !ret; i++)
		ret = OPENCL_DO(dev, SetKernelArg, kernel, i, sizeof(cl_mem), &buffers[i]);
	if (!ret)
		ret = OPENCL_DO(dev, SetKernelArg, kernel, ARRAY_SIZE(buffers), sizeof(l->run),
				&l->run);
	return ret ? ret : OPENCL_DO(dev, EnqueueNDRangeKernel, stream, kernel, 3, NULL, items,
				     group, 0, NULL, NULL);
}
