// SPDX-License-Identifier: MIT
/* Preparation by a kernel, which hiprtc compiles for the first program of a device. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "hip.h"

static const char source[] =
	"typedef unsigned char uchar;\n"
	"typedef unsigned short ushort;\n"
	"typedef unsigned int uint;\n"
	"#define KERNEL extern \"C\" __global__\n"
	"#define FUNCTION static __device__\n"
	"#define GLOBAL\n"
	"#define AS_FLOAT(bits) __builtin_bit_cast(float, (uint)(bits))\n"
	"#define AS_UINT(f) __builtin_bit_cast(uint, (float)(f))\n"
	"#define RINT(f) __builtin_rintf(f)\n"
	"#define ITEM_X (blockIdx.x * blockDim.x + threadIdx.x)\n"
	"#define ITEM_Y (blockIdx.y * blockDim.y + threadIdx.y)\n"
	"#define ITEM_Z blockIdx.z\n"
	"#include \"kernel.h\"\n";
/* The linker has it once, if OpenCL is built, too. */
static const char *const kernel_text =
#define PROGRAM(...) #__VA_ARGS__
#include "../../prepare/kernel.h"
	;

/* A block of threads, and so a piece of the tensor. */
#define ACROSS 32u
#define DOWN 8u

/* ---------------------------------------------------------------- the compiler */

/* The GPU's name for the compiler, which by itself looks for a file of the SDK to ask. */
static int find_option(struct hip_device *dev, char option[280])
{
	union {
		struct hip_properties_5 of_5;
		struct hip_properties now;
	} p = { 0 };
	const struct hip_api *hip = &dev->hip;
	int ret;

	if (hip->GetDevicePropertiesR0600)
		ret = HIP_DO(&dev->queue, GetDevicePropertiesR0600, &p.now, dev->ordinal);
	else if (hip->GetDeviceProperties)
		ret = HIP_DO(&dev->queue, GetDeviceProperties, &p.of_5, dev->ordinal);
	else
		ret = fail(-EOPNOTSUPP, "hip: no function says what GPU %s is",
			   dev->queue.base.name);
	snprintf(option, 280, "--offload-arch=%.255s",
		 hip->GetDevicePropertiesR0600 ? p.now.gcnArchName : p.of_5.gcnArchName);
	return ret;
}

/* The compiler's own words; most of them are about a line of the source. */
static int build_failed(const struct hiprtc_api *rtc, hiprtc_program program)
{
	size_t bytes = 0;
	char *log = NULL;
	int ret;

	if (!rtc->GetProgramLogSize(program, &bytes) && bytes)
		log = sys_calloc(1, bytes + 1);
	if (log)
		rtc->GetProgramLog(program, log);
	ret = fail(-EIO, "hip: hiprtcCompileProgram: %.300s", log ? log : "it failed");
	free(log);
	return ret;
}

/* *code is new, for free(). */
static int compile(const struct hiprtc_api *rtc, const char *option, char **code)
{
	const char *text = kernel_text, *name = "kernel.h";
	hiprtc_program program;
	size_t bytes = 0;
	int ret;

	ret = HIPRTC_CALL(rtc, CreateProgram, &program, source, "prepare", 1, &text, &name);
	if (ret)
		return ret;
	if (HIPRTC_RESULT(rtc, CompileProgram, program, 1, &option))
		ret = build_failed(rtc, program);
	if (!ret)
		ret = HIPRTC_CALL(rtc, GetCodeSize, program, &bytes);
	*code = ret ? NULL : sys_calloc(1, bytes);
	if (!ret && !*code)
		ret = fail(-ENOMEM, "no memory for a kernel of %zu bytes", bytes);
	if (!ret)
		ret = HIPRTC_CALL(rtc, GetCode, program, *code);
	rtc->DestroyProgram(&program);
	if (ret)
		free(*code);
	return ret;
}

/* ---------------------------------------------------------------- programs */

static int make_module(struct hip_device *dev, hip_module *out)
{
	struct hiprtc_api rtc;
	char option[280], *code;
	int ret = hiprtc_load(&rtc, dev->version);

	if (!ret)
		ret = find_option(dev, option);
	if (!ret)
		ret = compile(&rtc, option, &code);
	if (ret)
		return ret;
	ret = HIP_DO(&dev->queue, ModuleLoadData, out, code);
	free(code);
	return ret;
}

/* Two threads may both make it, and one is used. */
static int get_module(struct hip_device *dev, hip_module *out)
{
	hip_module none = NULL;
	int ret;

	*out = __atomic_load_n(&dev->module, __ATOMIC_ACQUIRE);
	if (*out)
		return 0;
	ret = make_module(dev, out);
	if (!ret && !__atomic_compare_exchange_n(&dev->module, &none, *out, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		dev->hip.ModuleUnload(*out);
		*out = none;
	}
	return ret;
}

/* It has no arguments of its own, so all programs have the same one. */
int hip_kernel_create(struct queue_device *base, void **kernel)
{
	hip_module module;
	int ret = get_module(to_hip(base), &module);

	return ret ? ret : HIP_DO(base, ModuleGetFunction, (hip_function *)kernel, module,
				  "prepare");
}

/* The driver copies the arguments. */
int hip_kernel_launch(struct queue_device *dev, void *kernel, void *stream,
		      const struct queue_launch *launch)
{
	struct queue_launch l = *launch;
	void *arguments[] = { &l.sources[0], &l.sources[1], &l.sources[2], &l.out, &l.tables,
			      &l.run };

	return HIP_DO(dev, ModuleLaunchKernel, kernel, (l.width + ACROSS - 1) / ACROSS,
		      (l.height + DOWN - 1) / DOWN, l.images, ACROSS, DOWN, 1, 0, stream,
		      arguments, NULL);
}

void hip_kernel_free(struct queue_device *base)
{
	struct hip_device *dev = to_hip(base);
	struct queue_scope scope;

	if (!dev->module)
		return;
	base->ops->enter(base, &scope, true);
	dev->hip.ModuleUnload(dev->module);
	base->ops->leave(base, &scope);
}
