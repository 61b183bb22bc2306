// SPDX-License-Identifier: MIT
/* The checksum of a tensor by an OpenCL kernel, over the buffer of the tensor. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlbuf/opencl.h>

#include "reduce.h"
#include "tool.h"

static const char source[] =
	"__kernel void reduce(__global const uchar *p, ulong offset, ulong pitch,\n"
	"		     uint bytes, __global uint *out)\n"
	"{\n"
	"	uint y = get_global_id(0), sum = 0, hash = 0;\n"
	"	p += offset + y * pitch;\n"
	"	for (uint x = 0; x < bytes; x++) {\n"
	"		sum += p[x];\n"
	"		hash += p[x] * (((x * 2654435761u) ^ (y * 40503u)) | 1u);\n"
	"	}\n"
	"	atomic_add(&out[0], sum);\n"
	"	atomic_add(&out[1], hash);\n"
	"}\n";

#define FUNCTIONS(X)							\
	X(CreateProgramWithSource) X(BuildProgram) X(ReleaseProgram)	\
	X(CreateKernel) X(SetKernelArg) X(ReleaseKernel)		\
	X(CreateBuffer) X(ReleaseMemObject)				\
	X(EnqueueWriteBuffer) X(EnqueueReadBuffer) X(EnqueueNDRangeKernel)

struct opencl {
#define X(name) __typeof__(cl##name) *name;
	FUNCTIONS(X)
#undef X
	void *library;
	cl_context context;
	cl_device_id device;
	cl_command_queue queue;
	cl_program program;
	cl_kernel kernel;
	cl_mem sums;
};

static int load(struct opencl *cl)
{
	const struct {
		const char *name;
		void *fn;
	} list[] = {
#define X(name) { "cl" #name, &cl->name },
		FUNCTIONS(X)
#undef X
	};
	const char *file = secure_getenv("DLBUF_OPENCL_LIBRARY");

	cl->library = dlopen(file && *file ? file : "libOpenCL.so.1", RTLD_NOW);
	if (!cl->library)
		return fail(STATUS_ABSENT, "%s", dlerror());
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		void *symbol = dlsym(cl->library, list[i].name);

		if (!symbol)
			return fail(STATUS_ABSENT, "%s", dlerror());
		memcpy(list[i].fn, &symbol, sizeof(symbol));
	}
	return 0;
}

static int check(cl_int result, const char *call)
{
	return result ? fail(STATUS_SYSTEM, "%s: %d", call, result) : 0;
}

static int make_kernel(struct opencl *cl)
{
	const char *text = source;
	cl_int result;

	cl->program = cl->CreateProgramWithSource(cl->context, 1, &text, NULL,
						  &result);
	if (!result)
		result = cl->BuildProgram(cl->program, 1, &cl->device, "", NULL,
					  NULL);
	if (result)
		return check(result, "clBuildProgram");
	cl->kernel = cl->CreateKernel(cl->program, "reduce", &result);
	if (result)
		return check(result, "clCreateKernel");
	cl->sums = cl->CreateBuffer(cl->context, CL_MEM_READ_WRITE,
				    2 * sizeof(cl_uint), NULL, &result);
	return check(result, "clCreateBuffer");
}

static void opencl_close(void *ctx)
{
	struct opencl *cl = ctx;

	if (cl->sums)
		cl->ReleaseMemObject(cl->sums);
	if (cl->kernel)
		cl->ReleaseKernel(cl->kernel);
	if (cl->program)
		cl->ReleaseProgram(cl->program);
	if (cl->library)
		dlclose(cl->library);
	free(cl);
}

static int opencl_open(struct dlbuf_device *dev, void **ctx)
{
	struct dlbuf_opencl_device info = { .size = sizeof(info) };
	struct opencl *cl = calloc(1, sizeof(*cl));
	int status = 0;

	if (!cl)
		return fail(STATUS_SYSTEM, "no memory for an OpenCL device");
	if (dlbuf_opencl_get_device(dev, &info))
		status = fail(STATUS_SYSTEM, "%s", dlbuf_last_error());
	if (!status)
		status = load(cl);
	cl->context = info.context;
	cl->device = info.device;
	cl->queue = info.queue;
	if (!status)
		status = make_kernel(cl);
	if (status) {
		opencl_close(cl);
		return status;
	}
	*ctx = cl;
	return 0;
}

static int run_kernel(struct opencl *cl, const DLTensor *t, const struct rows *r)
{
	cl_mem buffer = t->data;
	cl_ulong offset = r->offset, pitch = r->pitch;
	const struct {
		size_t size;
		const void *value;
	} args[] = {
		{ sizeof(buffer), &buffer },
		{ sizeof(offset), &offset },
		{ sizeof(pitch), &pitch },
		{ sizeof(r->bytes), &r->bytes },
		{ sizeof(cl->sums), &cl->sums },
	};
	size_t rows = r->rows;
	cl_int result = 0;

	for (cl_uint i = 0; i < ARRAY_SIZE(args) && !result; i++)
		result = cl->SetKernelArg(cl->kernel, i, args[i].size,
					  args[i].value);
	if (result)
		return check(result, "clSetKernelArg");
	return check(cl->EnqueueNDRangeKernel(cl->queue, cl->kernel, 1, NULL, &rows,
					      NULL, 0, NULL, NULL),
		     "clEnqueueNDRangeKernel");
}

static int reduce_one(struct opencl *cl, const DLTensor *t, uint32_t plane,
		      struct checksum *out)
{
	cl_uint sums[2] = { 0, 0 };
	struct rows rows;
	int status;

	if (rows_of(t, &rows))
		return fail(STATUS_SYSTEM, "plane %u on opencl has strides that "
			    "are not rows", plane);
	status = check(cl->EnqueueWriteBuffer(cl->queue, cl->sums, CL_TRUE, 0,
					      sizeof(sums), sums, 0, NULL, NULL),
		       "clEnqueueWriteBuffer");
	if (!status && rows.rows)
		status = run_kernel(cl, t, &rows);
	if (!status)
		status = check(cl->EnqueueReadBuffer(cl->queue, cl->sums, CL_TRUE,
						     0, sizeof(sums), sums, 0,
						     NULL, NULL),
			       "clEnqueueReadBuffer");
	*out = (struct checksum){ sums[0], sums[1] };
	return status;
}

static int opencl_reduce(void *ctx, DLManagedTensorVersioned *const tensors[],
			 uint32_t n, uint64_t timeout_ns, struct checksum out[])
{
	int status = 0;

	(void)timeout_ns; /* the API waits without a deadline */
	for (uint32_t i = 0; i < n && !status; i++)
		status = reduce_one(ctx, &tensors[i]->dl_tensor, i, &out[i]);
	return status;
}

const struct reducer opencl_reducer = {
	.type = kDLOpenCL,
	.open = opencl_open,
	.close = opencl_close,
	.reduce = opencl_reduce,
};
