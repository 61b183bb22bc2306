// SPDX-License-Identifier: MIT
/* See levelzero.h: modules and kernels. It takes any SPIR-V, and runs lib/prepare/kernel.h. */
#include <stdlib.h>
#include <string.h>

#include "levelzero_objects.h"

#define NARGS (PREPARE_BUFFERS + 1)

struct kernel {
	struct object object;
	struct object *module;
	uint32_t group[2];
	unsigned int set;	/* arguments, a bit for each */
	uint8_t *buffers[PREPARE_BUFFERS];
	uint8_t run[PREPARE_RUN_BYTES];
};

ze_result_t zeModuleCreate(ze_context_handle_t handle, ze_device_handle_t on,
			   const ze_module_desc_t *desc, ze_module_handle_t *out,
			   ze_module_build_log_handle_t *log)
{
	uint32_t magic = 0;

	/* A failure has a log, too. */
	BEGIN_FREE(NEEDS_ALL)
	LIVE(context, ctx, handle, FAKE_CONTEXT)
	if (desc->inputSize >= 5 * sizeof(magic))
		memcpy(&magic, desc->pInputModule, sizeof(magic));
	if (!device_of(on) || desc->stype != ZE_STRUCTURE_TYPE_MODULE_DESC ||
	    desc->format != ZE_MODULE_FORMAT_IL_SPIRV || magic != 0x07230203 ||
	    desc->inputSize % sizeof(magic))
		result = refuse(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, "no SPIR-V");
	if (log)
		*log = make(FAKE_BUILD_LOG, sizeof(struct object), ctx, false);
	if (!result)
		*out = make(FAKE_MODULE, sizeof(struct object), ctx, false);
	return end(result);
}

/* As Intel's driver: any module has a log, and it is given as a whole. */
ze_result_t zeModuleBuildLogGetString(ze_module_build_log_handle_t handle, size_t *size,
				      char *text)
{
	static const char said[] = "error: the double was told so";

	BEGIN(NEEDS_ALL)
	if (!object_of(handle, FAKE_BUILD_LOG) || (text && *size < sizeof(said)))
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "no log, or no room"));
	if (text)
		memcpy(text, said, sizeof(said));
	*size = sizeof(said);
	return end(ZE_RESULT_SUCCESS);
}

ze_result_t zeModuleBuildLogDestroy(ze_module_build_log_handle_t handle)
{
	BEGIN_FREE(NEEDS_ALL)
	LIVE(object, log, handle, FAKE_BUILD_LOG)
	unmake(log);
	return end(result);
}

ze_result_t zeModuleDestroy(ze_module_handle_t handle)
{
	BEGIN_FREE(NEEDS_ALL)
	LIVE(object, module, handle, FAKE_MODULE)
	if (module->pending)
		wrong("%s: it has kernels", call);
	unmake(module);
	return end(result);
}

ze_result_t zeKernelCreate(ze_module_handle_t handle, const ze_kernel_desc_t *desc,
			   ze_kernel_handle_t *out)
{
	struct kernel *k;

	BEGIN(NEEDS_ALL)
	LIVE(object, module, handle, FAKE_MODULE)
	if (desc->stype != ZE_STRUCTURE_TYPE_KERNEL_DESC || strcmp(desc->pKernelName, "prepare"))
		return end(refuse(ZE_RESULT_ERROR_INVALID_KERNEL_NAME, "another name"));
	k = make(FAKE_KERNEL, sizeof(*k), module->ctx, false);
	k->module = module;
	module->pending++;
	*out = (ze_kernel_handle_t)k;
	return end(ZE_RESULT_SUCCESS);
}

void kernel_free(struct object *o)
{
	((struct kernel *)o)->module->pending--;
	unmake(o);
}

ze_result_t zeKernelDestroy(ze_kernel_handle_t handle)
{
	BEGIN_FREE(NEEDS_ALL)
	LIVE(kernel, k, handle, FAKE_KERNEL)
	kernel_free(&k->object);
	return end(result);
}

ze_result_t zeKernelSetGroupSize(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z)
{
	BEGIN(NEEDS_ALL)
	LIVE(kernel, k, handle, FAKE_KERNEL)
	/* The kernel requires it. */
	if (x != 8 || y != 8 || z != 1)
		return end(refuse(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, "not 8 x 8"));
	k->group[0] = x;
	k->group[1] = y;
	return end(ZE_RESULT_SUCCESS);
}

ze_result_t zeKernelSetArgumentValue(ze_kernel_handle_t handle, uint32_t i, size_t size,
				     const void *value)
{
	BEGIN(NEEDS_ALL)
	LIVE(kernel, k, handle, FAKE_KERNEL)
	if (i >= NARGS)
		return end(refuse(ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX, "too many"));
	if (size != (i < PREPARE_BUFFERS ? sizeof(void *) : PREPARE_RUN_BYTES))
		return end(refuse(ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE, "the size"));
	memcpy(i < PREPARE_BUFFERS ? (void *)&k->buffers[i] : k->run, value, size);
	k->set |= 1u << i;
	return end(ZE_RESULT_SUCCESS);
}

/* Uses the arguments of the time of the call. */
ze_result_t zeCommandListAppendLaunchKernel(ze_command_list_handle_t handle,
					    ze_kernel_handle_t of,
					    const ze_group_count_t *groups,
					    ze_event_handle_t signal, uint32_t n,
					    ze_event_handle_t *waits)
{
	struct job job = { .run = job_kernel };
	struct kernel_job *launch;

	BEGIN(NEEDS_ALL)
	LIVE(list, l, handle, FAKE_LIST)
	LIVE(kernel, k, of, FAKE_KERNEL)
	if (k->set != (1u << NARGS) - 1 || !k->group[0] || !groups->groupCountX ||
	    !groups->groupCountY || !groups->groupCountZ || signal || n)
		return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
				  "arguments, groups or events"));
	job.kernel = launch = calloc(1, sizeof(*launch));
	launch->across = groups->groupCountX * k->group[0];
	launch->down = groups->groupCountY * k->group[1];
	launch->images = groups->groupCountZ;
	memcpy(launch->run, k->run, sizeof(k->run));
	for (unsigned int i = 0; i < PREPARE_BUFFERS; i++) {
		struct range *r = list_uses(l, k->buffers[i], i == 3);

		if (!r) {
			free(launch);
			return end(refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
					  "not within USM memory"));
		}
		job.uses[i] = &r->object;
		launch->buffers[i] = k->buffers[i];
		launch->bytes[i] = r->bytes - (size_t)(k->buffers[i] - r->at);
	}
	result = list_hold(l, &job);
	if (result) {
		free(launch);
		return end(result);
	}
	if (l->kernel)
		l->kernel->pending--;
	l->kernel = &k->object;
	l->kernel->pending++;
	return end(ZE_RESULT_SUCCESS);
}
