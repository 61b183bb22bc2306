/* SPDX-License-Identifier: MIT */
/* The double of Vulkan beside that of CUDA or HIP: one GPU that both know. */
#ifndef UNIT_CUDA_VULKAN_H
#define UNIT_CUDA_VULKAN_H

/* Each double has its kinds of objects. */
#define fake_kind fake_vulkan_kind
#define FAKE_KINDS FAKE_VULKAN_KINDS
#include "doubles/vulkan.h"
#undef fake_kind
#undef FAKE_KINDS

static struct fake_vulkan *vk;
static fake_vulkan_fn vk_fn;
static void *vk_lib;

/* A GPU that both know, and that can do all that a bridge needs. */
static inline void begin_both(const char *words)
{
	begin(words);
	setenv("FAKE_VULKAN", "bridge-plain", 1);
	vk_lib = double_open("libvulkan.so", "DLBUF_VULKAN_LIBRARY");
	vk_fn = (fake_vulkan_fn)dlsym(vk_lib, "fake_vulkan");
	REQUIRE(vk_fn);
	vk = vk_fn(true);
	trial_none = true;
}

static inline bool no_objects(void)
{
	bool none = true;

	for (int kind = 0; kind < FAKE_VULKAN_KINDS; kind++)
		none &= CHECK_MSG(!vk->live[kind], "%u of Vulkan's kind %d",
				  vk->live[kind], kind);
	return none;
}

static inline void end_both(void)
{
	settle();
	CHECK_EQ(vk->wrong, 0);
	no_objects();
	vk_fn(true);
	dlclose(vk_lib);
	unsetenv("DLBUF_VULKAN_LIBRARY");
	unsetenv("FAKE_VULKAN");
	end();
}

#define BOTH_CASE(name, words) TEST_BETWEEN(name, begin_both(words), end_both())

#endif /* UNIT_CUDA_VULKAN_H */
