// SPDX-License-Identifier: MIT
/* The checksum on a Vulkan device: one compute shader, one dispatch a plane. */
#include <stdlib.h>
#include <string.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/vulkan.h>

#include "reduce.h"
#include "reduce/vulkan.spv.h"
#include "tool.h"

#define INSTANCE_FUNCTIONS(F)         \
	F(GetDeviceProcAddr)          \
	F(GetPhysicalDeviceProperties) \
	F(GetPhysicalDeviceMemoryProperties)

#define DEVICE_FUNCTIONS(F)           \
	F(AllocateCommandBuffers)     \
	F(AllocateDescriptorSets)     \
	F(AllocateMemory)             \
	F(BeginCommandBuffer)         \
	F(BindBufferMemory)           \
	F(CmdBindDescriptorSets)      \
	F(CmdBindPipeline)            \
	F(CmdDispatch)                \
	F(CmdPipelineBarrier)         \
	F(CmdPushConstants)           \
	F(CreateBuffer)               \
	F(CreateCommandPool)          \
	F(CreateComputePipelines)     \
	F(CreateDescriptorPool)       \
	F(CreateDescriptorSetLayout)  \
	F(CreateFence)                \
	F(CreatePipelineLayout)       \
	F(CreateShaderModule)         \
	F(DestroyBuffer)              \
	F(DestroyCommandPool)         \
	F(DestroyDescriptorPool)      \
	F(DestroyDescriptorSetLayout) \
	F(DestroyFence)               \
	F(DestroyPipeline)            \
	F(DestroyPipelineLayout)      \
	F(DestroyShaderModule)        \
	F(EndCommandBuffer)           \
	F(FreeMemory)                 \
	F(GetBufferMemoryRequirements) \
	F(MapMemory)                  \
	F(QueueSubmit)                \
	F(QueueWaitIdle)              \
	F(ResetFences)                \
	F(UpdateDescriptorSets)       \
	F(WaitForFences)

struct push {
	uint32_t offset, pitch, rows, bytes, plane;
};

struct gpu {
	struct dlbuf_device *dev;
	char name[32];
	struct dlbuf_vulkan_device vk;
	uint32_t max_range;	/* bytes of one storage buffer */
	uint32_t max_groups;
	bool busy;		/* submitted, not known to be complete */

	VkShaderModule shader;
	VkDescriptorSetLayout set_layout;
	VkPipelineLayout layout;
	VkPipeline pipeline;
	VkDescriptorPool descriptors;
	VkDescriptorSet sets[DLBUF_MAX_PLANES];
	VkCommandPool commands;
	VkCommandBuffer command;
	VkFence fence;
	VkBuffer result;
	VkDeviceMemory memory;
	struct checksum *results;	/* memory, mapped */

#define POINTER(name) PFN_vk##name name;
	INSTANCE_FUNCTIONS(POINTER)
	DEVICE_FUNCTIONS(POINTER)
#undef POINTER
};

/* The result of a call, said once. */
static int check(const struct gpu *gpu, VkResult result, const char *call)
{
	return result == VK_SUCCESS ? 0 :
	       fail(STATUS_SYSTEM, "%s: %s: VkResult %d", gpu->name, call,
		    result);
}

static int load(struct gpu *gpu)
{
#define LOAD_INSTANCE(fn)                                                   \
	gpu->fn = (PFN_vk##fn)gpu->vk.get_instance_proc_addr(gpu->vk.instance, \
							     "vk" #fn);     \
	if (!gpu->fn)                                                       \
		return fail(STATUS_SYSTEM, "%s has no vk" #fn, gpu->name);
#define LOAD_DEVICE(fn)                                                     \
	gpu->fn = (PFN_vk##fn)gpu->GetDeviceProcAddr(gpu->vk.device,        \
						     "vk" #fn);             \
	if (!gpu->fn)                                                       \
		return fail(STATUS_SYSTEM, "%s has no vk" #fn, gpu->name);
	INSTANCE_FUNCTIONS(LOAD_INSTANCE)
	DEVICE_FUNCTIONS(LOAD_DEVICE)
	return 0;
#undef LOAD_INSTANCE
#undef LOAD_DEVICE
}

static int make_pipeline(struct gpu *gpu)
{
	VkDevice dev = gpu->vk.device;
	VkDescriptorSetLayoutBinding bindings[2] = { 0 };
	VkDescriptorSetLayoutCreateInfo set_info = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = ARRAY_SIZE(bindings),
		.pBindings = bindings,
	};
	VkPushConstantRange range = {
		.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
		.size = sizeof(struct push),
	};
	VkPipelineLayoutCreateInfo layout_info = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.setLayoutCount = 1,
		.pSetLayouts = &gpu->set_layout,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &range,
	};
	VkShaderModuleCreateInfo shader_info = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = sizeof(vulkan_spv),
		.pCode = vulkan_spv,
	};
	VkComputePipelineCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {
			.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.pName = "main",
		},
	};
	int status;

	for (uint32_t i = 0; i < ARRAY_SIZE(bindings); i++)
		bindings[i] = (VkDescriptorSetLayoutBinding){
			.binding = i,
			.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
			.descriptorCount = 1,
			.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
		};
	status = check(gpu, gpu->CreateDescriptorSetLayout(dev, &set_info, NULL,
			&gpu->set_layout), "vkCreateDescriptorSetLayout");
	if (!status)
		status = check(gpu, gpu->CreatePipelineLayout(dev, &layout_info,
				NULL, &gpu->layout), "vkCreatePipelineLayout");
	if (!status)
		status = check(gpu, gpu->CreateShaderModule(dev, &shader_info,
				NULL, &gpu->shader), "vkCreateShaderModule");
	if (status)
		return status;
	info.stage.module = gpu->shader;
	info.layout = gpu->layout;
	return check(gpu, gpu->CreateComputePipelines(dev, VK_NULL_HANDLE, 1,
			&info, NULL, &gpu->pipeline),
		     "vkCreateComputePipelines");
}

static int make_descriptors(struct gpu *gpu)
{
	VkDescriptorPoolSize size = {
		.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
		.descriptorCount = 2 * DLBUF_MAX_PLANES,
	};
	VkDescriptorPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
		.maxSets = DLBUF_MAX_PLANES,
		.poolSizeCount = 1,
		.pPoolSizes = &size,
	};
	VkDescriptorSetLayout layouts[DLBUF_MAX_PLANES];
	VkDescriptorSetAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
		.descriptorSetCount = DLBUF_MAX_PLANES,
		.pSetLayouts = layouts,
	};
	int status;

	status = check(gpu, gpu->CreateDescriptorPool(gpu->vk.device, &pool,
			NULL, &gpu->descriptors), "vkCreateDescriptorPool");
	if (status)
		return status;
	for (uint32_t i = 0; i < DLBUF_MAX_PLANES; i++)
		layouts[i] = gpu->set_layout;
	info.descriptorPool = gpu->descriptors;
	return check(gpu, gpu->AllocateDescriptorSets(gpu->vk.device, &info,
			gpu->sets), "vkAllocateDescriptorSets");
}

static int make_commands(struct gpu *gpu)
{
	VkDevice dev = gpu->vk.device;
	VkCommandPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
		.queueFamilyIndex = gpu->vk.queue_family,
	};
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 1,
	};
	VkFenceCreateInfo fence = {
		.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO,
	};
	int status;

	status = check(gpu, gpu->CreateCommandPool(dev, &pool, NULL,
			&gpu->commands), "vkCreateCommandPool");
	if (status)
		return status;
	info.commandPool = gpu->commands;
	status = check(gpu, gpu->AllocateCommandBuffers(dev, &info,
			&gpu->command), "vkAllocateCommandBuffers");
	if (status)
		return status;
	return check(gpu, gpu->CreateFence(dev, &fence, NULL, &gpu->fence),
		     "vkCreateFence");
}

/* Every device has a type that is both. */
static uint32_t coherent_type(struct gpu *gpu, uint32_t allowed)
{
	const uint32_t want = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
			      VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkPhysicalDeviceMemoryProperties props;
	uint32_t i;

	gpu->GetPhysicalDeviceMemoryProperties(gpu->vk.physical_device, &props);
	for (i = 0; i < props.memoryTypeCount; i++)
		if (allowed >> i & 1 &&
		    (props.memoryTypes[i].propertyFlags & want) == want)
			break;
	return i;
}

static int make_result(struct gpu *gpu)
{
	VkDevice dev = gpu->vk.device;
	VkBufferCreateInfo buffer = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = DLBUF_MAX_PLANES * sizeof(struct checksum),
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
		.sharingMode = VK_SHARING_MODE_EXCLUSIVE,
	};
	VkMemoryAllocateInfo memory = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
	};
	VkMemoryRequirements need;
	void *map;
	int status;

	status = check(gpu, gpu->CreateBuffer(dev, &buffer, NULL, &gpu->result),
		       "vkCreateBuffer");
	if (status)
		return status;
	gpu->GetBufferMemoryRequirements(dev, gpu->result, &need);
	memory.allocationSize = need.size;
	memory.memoryTypeIndex = coherent_type(gpu, need.memoryTypeBits);
	status = check(gpu, gpu->AllocateMemory(dev, &memory, NULL,
			&gpu->memory), "vkAllocateMemory");
	if (!status)
		status = check(gpu, gpu->BindBufferMemory(dev, gpu->result,
				gpu->memory, 0), "vkBindBufferMemory");
	if (!status)
		status = check(gpu, gpu->MapMemory(dev, gpu->memory, 0,
				VK_WHOLE_SIZE, 0, &map), "vkMapMemory");
	if (!status)
		gpu->results = map;
	return status;
}

/* Vulkan's destroy functions take what was never made. */
static void gpu_close(void *ctx)
{
	struct gpu *gpu = ctx;
	VkDevice dev = gpu->vk.device;

	if (gpu->busy) {
		dlbuf_vulkan_lock_queue(gpu->dev, gpu->vk.queue);
		gpu->QueueWaitIdle(gpu->vk.queue);
		dlbuf_vulkan_unlock_queue(gpu->dev, gpu->vk.queue);
	}
	gpu->DestroyBuffer(dev, gpu->result, NULL);
	gpu->FreeMemory(dev, gpu->memory, NULL);
	gpu->DestroyFence(dev, gpu->fence, NULL);
	gpu->DestroyCommandPool(dev, gpu->commands, NULL);
	gpu->DestroyDescriptorPool(dev, gpu->descriptors, NULL);
	gpu->DestroyPipeline(dev, gpu->pipeline, NULL);
	gpu->DestroyShaderModule(dev, gpu->shader, NULL);
	gpu->DestroyPipelineLayout(dev, gpu->layout, NULL);
	gpu->DestroyDescriptorSetLayout(dev, gpu->set_layout, NULL);
	free(gpu);
}

static int gpu_handles(struct gpu *gpu)
{
	struct dlbuf_device_info info = { .size = sizeof(info) };
	VkPhysicalDeviceProperties props;
	int ret, status;

	gpu->vk.size = sizeof(gpu->vk);
	ret = dlbuf_device_get_info(gpu->dev, &info);
	if (!ret)
		ret = dlbuf_vulkan_get_device(gpu->dev, &gpu->vk);
	if (ret)
		return fail_dlbuf(ret);
	memcpy(gpu->name, info.name, sizeof(gpu->name));
	status = load(gpu);
	if (status)
		return status;
	gpu->GetPhysicalDeviceProperties(gpu->vk.physical_device, &props);
	gpu->max_range = props.limits.maxStorageBufferRange;
	gpu->max_groups = props.limits.maxComputeWorkGroupCount[0];
	return 0;
}

static int gpu_open(struct dlbuf_device *dev, void **ctx)
{
	struct gpu *gpu = calloc(1, sizeof(*gpu));
	int status;

	if (!gpu)
		return fail(STATUS_SYSTEM, "no memory for a shader");
	gpu->dev = dev;
	status = gpu_handles(gpu);
	if (status) {
		/* Without functions there is nothing to close with. */
		free(gpu);
		return status;
	}
	status = make_pipeline(gpu);
	if (!status)
		status = make_descriptors(gpu);
	if (!status)
		status = make_commands(gpu);
	if (!status)
		status = make_result(gpu);
	if (status)
		gpu_close(gpu);
	else
		*ctx = gpu;
	return status;
}

static void bind_plane(struct gpu *gpu, uint32_t plane, VkBuffer buffer)
{
	VkDescriptorBufferInfo infos[2] = {
		{ .buffer = buffer, .range = VK_WHOLE_SIZE },
		{ .buffer = gpu->result, .range = VK_WHOLE_SIZE },
	};
	VkWriteDescriptorSet write = {
		.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
		.dstSet = gpu->sets[plane],
		.descriptorCount = 2,	/* two bindings, one after the other */
		.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
		.pBufferInfo = infos,
	};

	gpu->UpdateDescriptorSets(gpu->vk.device, 1, &write, 0, NULL);
}

static int dispatch_plane(struct gpu *gpu, const DLTensor *t, uint32_t plane)
{
	const struct dlbuf_vulkan_buffer *buffer =
		dlbuf_vulkan_buffer_of(t);
	struct rows rows;
	struct push push;

	if (rows_of(t, &rows))
		return fail(STATUS_SYSTEM, "plane %u on %s has strides that "
			    "are not rows", plane, gpu->name);
	/* The shader counts in 32 bits. */
	if (buffer->size > gpu->max_range || buffer->size > UINT32_MAX)
		return fail(STATUS_SYSTEM, "a buffer of %llu bytes exceeds "
			    "%s's storage buffers of %u",
			    (unsigned long long)buffer->size, gpu->name,
			    gpu->max_range);
	push = (struct push){
		.offset = rows.offset,
		.pitch = rows.pitch,
		.rows = rows.rows,
		.bytes = rows.bytes,
		.plane = plane,
	};
	bind_plane(gpu, plane, buffer->buffer);
	gpu->CmdBindDescriptorSets(gpu->command, VK_PIPELINE_BIND_POINT_COMPUTE,
				   gpu->layout, 0, 1, &gpu->sets[plane], 0,
				   NULL);
	gpu->CmdPushConstants(gpu->command, gpu->layout,
			      VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push),
			      &push);
	gpu->CmdDispatch(gpu->command, rows.rows < gpu->max_groups ? rows.rows :
								   gpu->max_groups,
			 1, 1);
	return 0;
}

static int record(struct gpu *gpu, DLManagedTensorVersioned *const tensors[],
		  uint32_t n)
{
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
	};
	VkMemoryBarrier to_host = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_HOST_READ_BIT,
	};
	int status;

	status = check(gpu, gpu->BeginCommandBuffer(gpu->command, &begin),
		       "vkBeginCommandBuffer");
	if (status)
		return status;
	gpu->CmdBindPipeline(gpu->command, VK_PIPELINE_BIND_POINT_COMPUTE,
			     gpu->pipeline);
	for (uint32_t i = 0; i < n; i++) {
		status = dispatch_plane(gpu, &tensors[i]->dl_tensor, i);
		if (status)
			return status;
	}
	/* A fence alone does not make the writes visible to the host. */
	gpu->CmdPipelineBarrier(gpu->command,
				VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
				VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host, 0,
				NULL, 0, NULL);
	return check(gpu, gpu->EndCommandBuffer(gpu->command),
		     "vkEndCommandBuffer");
}

static int wait_until_done(struct gpu *gpu, uint64_t timeout_ns)
{
	VkResult result = gpu->WaitForFences(gpu->vk.device, 1, &gpu->fence,
					     VK_TRUE, timeout_ns);
	int status;

	if (result == VK_TIMEOUT)
		return fail(STATUS_SYSTEM, "%s: the checksum was not complete "
			    "after %llu s; --timeout waits longer", gpu->name,
			    (unsigned long long)timeout_ns / 1000000000);
	status = check(gpu, result, "vkWaitForFences");
	if (status)
		return status;
	gpu->busy = false;
	return check(gpu, gpu->ResetFences(gpu->vk.device, 1, &gpu->fence),
		     "vkResetFences");
}

static int submit_and_wait(struct gpu *gpu, uint64_t timeout_ns)
{
	VkSubmitInfo submit = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.commandBufferCount = 1,
		.pCommandBuffers = &gpu->command,
	};
	int status;

	dlbuf_vulkan_lock_queue(gpu->dev, gpu->vk.queue);
	status = check(gpu, gpu->QueueSubmit(gpu->vk.queue, 1, &submit,
			gpu->fence), "vkQueueSubmit");
	dlbuf_vulkan_unlock_queue(gpu->dev, gpu->vk.queue);
	if (status)
		return status;
	gpu->busy = true;
	return wait_until_done(gpu, timeout_ns);
}

static int gpu_reduce(void *ctx, DLManagedTensorVersioned *const tensors[],
		      uint32_t n, uint64_t timeout_ns, struct checksum out[])
{
	struct gpu *gpu = ctx;
	/* One that was given up may be under way yet, and writes the results. */
	int status = gpu->busy ? wait_until_done(gpu, timeout_ns) : 0;

	if (status)
		return status;
	memset(gpu->results, 0, n * sizeof(*gpu->results));
	status = record(gpu, tensors, n);
	if (!status)
		status = submit_and_wait(gpu, timeout_ns);
	if (!status)
		memcpy(out, gpu->results, n * sizeof(*out));
	return status;
}

const struct reducer vulkan_reducer = {
	.type = kDLVulkan,
	.open = gpu_open,
	.close = gpu_close,
	.reduce = gpu_reduce,
};
