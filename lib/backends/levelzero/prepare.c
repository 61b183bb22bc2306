// SPDX-License-Identifier: MIT
/* Preparation by a kernel in SPIR-V, which the driver compiles for a device's first program. */
#include <stdio.h>
#include <stdlib.h>

#include "levelzero.h"

#include "prepare.spirv.h"

/* A group has SIDE x SIDE pixels, as prepare.cl says. */
#define SIDE 8

/* The compiler's own words. Intel's driver gives all of them, or none. */
static int build_failed(const struct levelzero_api *lz, ze_module_build_log_handle_t log, int ret)
{
	char said[160], *text = NULL;
	size_t bytes = 0;

	snprintf(said, sizeof(said), "%s", dlbuf_last_error());
	if (!LZ_RESULT(lz, ModuleBuildLogGetString, log, &bytes, NULL) && bytes)
		text = sys_calloc(1, bytes + 1);
	if (text && !LZ_RESULT(lz, ModuleBuildLogGetString, log, &bytes, text) && *text)
		fail(ret, "%s: %.300s", said, text);
	free(text);
	return ret;
}

/* Two threads may both make the module; one of the two is used. */
static int get_module(struct levelzero_device *dev, ze_module_handle_t *out)
{
	const ze_module_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
		.format = ZE_MODULE_FORMAT_IL_SPIRV,
		.inputSize = sizeof(prepare_spv),
		.pInputModule = prepare_spv,
	};
	ze_module_build_log_handle_t log = NULL;
	ze_module_handle_t none = NULL;
	int ret;

	*out = __atomic_load_n(&dev->module, __ATOMIC_ACQUIRE);
	if (*out)
		return 0;
	ret = LZ_DO(&dev->queue, ModuleCreate, dev->context, dev->handle, &desc, out, &log);
	if (ret && log)
		ret = build_failed(&dev->lz, log, ret);
	if (log)
		dev->lz.ModuleBuildLogDestroy(log);
	if (!ret && !__atomic_compare_exchange_n(&dev->module, &none, *out, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		dev->lz.ModuleDestroy(*out);
		*out = none;
	}
	return ret;
}

/* Arguments are the kernel's, so each program has its own. */
int levelzero_kernel_create(struct queue_device *dev, void **kernel)
{
	const ze_kernel_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC,
		.pKernelName = "prepare",
	};
	ze_module_handle_t module;
	int ret = get_module(to_levelzero(dev), &module);

	if (!ret)
		ret = LZ_DO(dev, KernelCreate, module, &desc, (ze_kernel_handle_t *)kernel);
	if (ret)
		return ret;
	ret = LZ_DO(dev, KernelSetGroupSize, *kernel, SIDE, SIDE, 1);
	if (ret) {
		levelzero_kernel_destroy(dev, *kernel);
		*kernel = NULL;
	}
	return ret;
}

void levelzero_kernel_destroy(struct queue_device *dev, void *kernel)
{
	to_levelzero(dev)->lz.KernelDestroy(kernel);
}

int levelzero_kernel_launch(struct queue_device *dev, void *kernel, void *stream,
			    const struct queue_launch *l)
{
	const uintptr_t buffers[] = { l->sources[0], l->sources[1], l->sources[2], l->out,
				      l->tables };
	const ze_group_count_t groups = { (l->width + SIDE - 1) / SIDE,
					  (l->height + SIDE - 1) / SIDE, l->images };
	int ret = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(buffers) && !ret; i++)
		ret = LZ_DO(dev, KernelSetArgumentValue, kernel, i, sizeof(buffers[i]),
			    &buffers[i]);
	if (!ret)
		ret = LZ_DO(dev, KernelSetArgumentValue, kernel, ARRAY_SIZE(buffers),
			    sizeof(l->run), &l->run);
	return ret ? ret : LZ_APPEND(dev, stream, CommandListAppendLaunchKernel, kernel, &groups,
				     NULL, 0, NULL);
}
