// SPDX-License-Identifier: MIT
/* See opencl.h: programs and kernels. The only one that it can build is lib/prepare/kernel.h. */
#include <stdio.h>
#include <string.h>

#include "common/prepare.h"
#include "opencl_objects.h"

#define NARGS (PREPARE_BUFFERS + 1)

struct program {
	struct counted c;
	bool right, built;
	unsigned int group[3];	/* of the source's kernel */
};

struct kernel {
	struct counted c;
	struct program *program;
	unsigned int set;	/* arguments, a bit for each */
	cl_mem buffers[PREPARE_BUFFERS];
	uint8_t run[PREPARE_RUN_BYTES];
};

/* ---------------------------------------------------------------- programs */

cl_program CL_API_CALL clCreateProgramWithSource(cl_context handle, cl_uint n, const char **texts,
						 const size_t *lengths, cl_int *errcode_ret)
{
	struct context *context;
	struct program *p = NULL;
	const char *group;

	BEGIN_MAKE(NEEDS_ALL)
	context = live(handle, FAKE_CONTEXT);
	if (!context)
		result = refuse(CL_INVALID_CONTEXT, "no live context");
	else if (n != 2 || !texts || !texts[0] || !texts[1] || lengths)
		result = refuse(CL_INVALID_VALUE, "not two texts");
	if (!result) {
		p = make_counted(FAKE_PROGRAM, sizeof(*p), context);
		group = strstr(texts[0], "reqd_work_group_size");
		p->right = !strcmp(texts[1], prepare_text) && group &&
			   sscanf(group, "reqd_work_group_size(%u, %u, %u)", &p->group[0],
				  &p->group[1], &p->group[2]) == 3;
	}
	return end_make(p, result, errcode_ret);
}

cl_int CL_API_CALL clBuildProgram(cl_program handle, cl_uint n, const cl_device_id *list,
				  const char *options,
				  void (CL_CALLBACK *notify)(cl_program program, void *data),
				  void *data)
{
	BEGIN(NEEDS_ALL | BLOCKS)
	LIVE(program, p, handle, FAKE_PROGRAM, CL_INVALID_PROGRAM)
	if (n != 1 || !list || !has_device(p->c.context, device_of(list[0])))
		return end(refuse(CL_INVALID_DEVICE, "not of the context"));
	if (notify || data || (options && *options))
		return end(refuse(CL_INVALID_BUILD_OPTIONS, "there are options"));
	p->built = p->right;
	return end(p->built ? CL_SUCCESS : refuse(CL_BUILD_PROGRAM_FAILURE, "another source"));
}

cl_int CL_API_CALL clGetProgramBuildInfo(cl_program handle, cl_device_id device,
					 cl_program_build_info name, size_t size, void *out,
					 size_t *size_ret)
{
	static const char said[] = "error: the double was told so";

	BEGIN(NEEDS_ALL)
	LIVE(program, p, handle, FAKE_PROGRAM, CL_INVALID_PROGRAM)
	if (!has_device(p->c.context, device_of(device)) || name != CL_PROGRAM_BUILD_LOG)
		return end(refuse(CL_INVALID_VALUE, "no such query"));
	return end(give(said, sizeof(said), size, out, size_ret));
}

COUNTED(Program, cl_program, program, FAKE_PROGRAM, CL_INVALID_PROGRAM, unmake)

/* ---------------------------------------------------------------- kernels */

cl_kernel CL_API_CALL clCreateKernel(cl_program handle, const char *name, cl_int *errcode_ret)
{
	struct kernel *k = NULL;
	struct program *p;

	BEGIN_MAKE(NEEDS_ALL)
	p = live(handle, FAKE_PROGRAM);
	if (!p || !p->built)
		result = refuse(CL_INVALID_PROGRAM_EXECUTABLE, "no live program that is built");
	else if (!name || strcmp(name, "prepare"))
		result = refuse(CL_INVALID_KERNEL_NAME, "another name");
	if (!result) {
		k = make_counted(FAKE_KERNEL, sizeof(*k), p->c.context);
		k->program = p;
	}
	return end_make(k, result, errcode_ret);
}

cl_int CL_API_CALL clSetKernelArg(cl_kernel handle, cl_uint i, size_t size, const void *value)
{
	BEGIN(NEEDS_ALL)
	LIVE(kernel, k, handle, FAKE_KERNEL, CL_INVALID_KERNEL)
	if (i >= NARGS)
		return end(refuse(CL_INVALID_ARG_INDEX, "too many"));
	if (size != (i < PREPARE_BUFFERS ? sizeof(cl_mem) : PREPARE_RUN_BYTES))
		return end(refuse(CL_INVALID_ARG_SIZE, "the size"));
	if (i == PREPARE_BUFFERS)
		memcpy(k->run, value, size);
	else if (!live(*(const cl_mem *)value, FAKE_MEMORY))
		return end(refuse(CL_INVALID_MEM_OBJECT, "no live buffer"));
	else
		memcpy(&k->buffers[i], value, size);
	k->set |= 1u << i;
	return end(CL_SUCCESS);
}

COUNTED(Kernel, cl_kernel, kernel, FAKE_KERNEL, CL_INVALID_KERNEL, unmake)

static enum progress run_kernel(struct event *e)
{
	uint8_t *buffers[PREPARE_BUFFERS];
	size_t bytes[PREPARE_BUFFERS];
	const char *why;

	for (unsigned int i = 0; i < PREPARE_BUFFERS; i++) {
		struct memory *m = e->memories[i];

		bytes[i] = m->size;
		buffers[i] = memory_bytes(m, 0, m->size, i == 3);
		if (!buffers[i])
			return JOB_DONE;
	}
	why = prepare_check(buffers, bytes, e->pattern, e->offsets[2]);
	if (why)
		wrong("%s", why);
	else
		prepare_kernel(buffers, e->pattern, e->offsets[0], e->offsets[1], e->offsets[2]);
	return JOB_DONE;
}

cl_int CL_API_CALL
clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel handle, cl_uint dims,
		       const size_t *from, const size_t *items, const size_t *group, cl_uint n,
		       const cl_event *list, cl_event *out)
{
	BEGIN(NEEDS_ALL)
	LIVE(kernel, k, handle, FAKE_KERNEL, CL_INVALID_KERNEL)
	if (k->set != (1u << NARGS) - 1)
		return end(refuse(CL_INVALID_KERNEL_ARGS, "not all arguments are set"));
	if (dims != 3 || from || !items || !group)
		return end(refuse(CL_INVALID_WORK_DIMENSION, "not three dimensions"));
	for (int i = 0; i < 3; i++)
		if (!items[i] || group[i] != k->program->group[i] || items[i] % group[i])
			return end(refuse(CL_INVALID_WORK_GROUP_SIZE, "the groups"));
	COMMAND(e, queue, CL_COMMAND_NDRANGE_KERNEL, n, list)
	for (unsigned int i = 0; i < PREPARE_BUFFERS && !result; i++)
		result = command_uses(e, i, k->buffers[i]);
	if (result)
		return end(command_drop(e, result));
	/* Uses the arguments of the time of the call. */
	memcpy(e->pattern, k->run, sizeof(k->run));
	memcpy(e->offsets, items, sizeof(e->offsets));
	e->run = run_kernel;
	return end(enqueue(e, out, false));
}
