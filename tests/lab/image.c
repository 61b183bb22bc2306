// SPDX-License-Identifier: MIT
/*
 * dlbuf_vulkan_image_create() on lavapipe: a shader samples each texel of tensors and of an
 * NV12 frame's planes, and gets their bytes; and tensors without an image.
 */
#include <string.h>
#include <unistd.h>

#define VK_NO_PROTOTYPES
#include <dlbuf/vulkan.h>

#include "cts/cts.h"
#include "system/internal.h"
#include "image.spv.h"

#define W 60u
#define H 36u
#define PITCH 256u
#define BYTES (2 * H * PITCH)
/* errx() of a program ends it, and is a failure here. */
#define errx(status, ...) FATAL(__VA_ARGS__)
#define OK(call) CHECK_EQ(call, VK_SUCCESS)

const char *cts_device = "vulkan:0";
const struct access *cts_access = &access_vulkan;

#define FUNCTIONS(X)							\
	X(CreateDescriptorSetLayout) X(CreatePipelineLayout)		\
	X(CreateShaderModule) X(CreateComputePipelines)			\
	X(CreateDescriptorPool) X(AllocateDescriptorSets)		\
	X(UpdateDescriptorSets) X(CreateSampler) X(CreateImageView)	\
	X(CreateCommandPool) X(AllocateCommandBuffers)			\
	X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdPipelineBarrier)	\
	X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdDispatch)	\
	X(QueueSubmit) X(QueueWaitIdle) X(DestroyImage) X(FreeMemory)	\
	X(DestroyImageView) X(DestroySampler) X(DestroyPipeline)	\
	X(DestroyShaderModule) X(DestroyPipelineLayout)			\
	X(DestroyDescriptorSetLayout) X(DestroyDescriptorPool)		\
	X(DestroyCommandPool)

static struct {
#define X(name) PFN_vk##name name;
	FUNCTIONS(X)
#undef X
} vk;

static struct {
	struct dlbuf_device *dev;
	struct dlbuf_vulkan_device of;
	VkDescriptorSetLayout sets;
	VkPipelineLayout layout;
	VkShaderModule shader;
	VkPipeline pipeline;
	VkDescriptorPool pool;
	VkDescriptorSet set;
	VkSampler sampler;
	VkCommandPool commands;
	VkCommandBuffer cmd;
	int fd, result;		/* dma-bufs: of the images, of the shader's output */
	DLManagedTensorVersioned *out;
} g = { .of.size = sizeof(g.of) };

static void make_pipeline(void)
{
	VkDescriptorSetLayoutBinding bindings[] = {
		{ 0, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1,
		  VK_SHADER_STAGE_COMPUTE_BIT, NULL },
		{ 1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
		  VK_SHADER_STAGE_COMPUTE_BIT, NULL },
	};
	VkDescriptorSetLayoutCreateInfo sets = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = 2, .pBindings = bindings,
	};
	VkPipelineLayoutCreateInfo layout = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.setLayoutCount = 1, .pSetLayouts = &g.sets,
	};
	VkShaderModuleCreateInfo shader = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = sizeof(image_spv), .pCode = image_spv,
	};
	VkComputePipelineCreateInfo pipeline = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {
			.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT, .pName = "main",
		},
	};

	OK(vk.CreateDescriptorSetLayout(g.of.device, &sets, NULL, &g.sets));
	OK(vk.CreatePipelineLayout(g.of.device, &layout, NULL, &g.layout));
	OK(vk.CreateShaderModule(g.of.device, &shader, NULL, &g.shader));
	pipeline.stage.module = g.shader;
	pipeline.layout = g.layout;
	OK(vk.CreateComputePipelines(g.of.device, VK_NULL_HANDLE, 1, &pipeline, NULL,
				     &g.pipeline));
}

static void make_rest(void)
{
	VkDescriptorPoolSize sizes[] = {
		{ VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1 },
		{ VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1 },
	};
	VkDescriptorPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
		.maxSets = 1, .poolSizeCount = 2, .pPoolSizes = sizes,
	};
	VkDescriptorSetAllocateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
		.descriptorSetCount = 1, .pSetLayouts = &g.sets,
	};
	VkSamplerCreateInfo sampler = {
		.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO,
	};
	VkCommandPoolCreateInfo commands = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
		.queueFamilyIndex = g.of.queue_family,
	};
	VkCommandBufferAllocateInfo cmd = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandBufferCount = 1,
	};

	OK(vk.CreateDescriptorPool(g.of.device, &pool, NULL, &g.pool));
	set.descriptorPool = g.pool;
	OK(vk.AllocateDescriptorSets(g.of.device, &set, &g.set));
	OK(vk.CreateSampler(g.of.device, &sampler, NULL, &g.sampler));
	OK(vk.CreateCommandPool(g.of.device, &commands, NULL, &g.commands));
	cmd.commandPool = g.commands;
	OK(vk.AllocateCommandBuffers(g.of.device, &cmd, &g.cmd));
}

static void begin(void)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	g.dev = cts_open();
	REQUIRE_OK(dlbuf_vulkan_get_device(g.dev, &g.of));
#define X(name)								\
	vk.name = (PFN_vk##name)g.of.get_instance_proc_addr(g.of.instance, \
							    "vk" #name);
	FUNCTIONS(X)
#undef X
	make_pipeline();
	make_rest();
	g.fd = cts_alloc("udmabuf", BYTES);
	g.result = cts_alloc("udmabuf", 4 * W * H);
	g.out = cts_import(g.dev, g.result, 4 * W * H);
}

static void end(void)
{
	cts_delete(g.out);
	close(g.fd);
	close(g.result);
	vk.DestroyCommandPool(g.of.device, g.commands, NULL);
	vk.DestroySampler(g.of.device, g.sampler, NULL);
	vk.DestroyDescriptorPool(g.of.device, g.pool, NULL);
	vk.DestroyPipeline(g.of.device, g.pipeline, NULL);
	vk.DestroyShaderModule(g.of.device, g.shader, NULL);
	vk.DestroyPipelineLayout(g.of.device, g.layout, NULL);
	vk.DestroyDescriptorSetLayout(g.of.device, g.sets, NULL);
	dlbuf_device_close(g.dev);
}

static void transfer(VkImage image, bool acquire)
{
	uint32_t own = g.of.queue_family, foreign = VK_QUEUE_FAMILY_FOREIGN_EXT;
	VkImageLayout here = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
	VkImageMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
		.dstAccessMask = acquire ? VK_ACCESS_SHADER_READ_BIT : 0,
		.oldLayout = acquire ? VK_IMAGE_LAYOUT_GENERAL : here,
		.newLayout = acquire ? here : VK_IMAGE_LAYOUT_GENERAL,
		.srcQueueFamilyIndex = acquire ? foreign : own,
		.dstQueueFamilyIndex = acquire ? own : foreign,
		.image = image,
		.subresourceRange = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1 },
	};

	vk.CmdPipelineBarrier(g.cmd, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
			      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 0, NULL, 0,
			      NULL, 1, &barrier);
}

/* Returns the fence of its work: it has ended. */
static int draw(const struct dlbuf_vulkan_image *image, int fence)
{
	VkImageViewCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
		.image = image->image, .viewType = VK_IMAGE_VIEW_TYPE_2D,
		.format = image->format,
		.subresourceRange = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1 },
	};
	VkDescriptorImageInfo in = {
		g.sampler, VK_NULL_HANDLE, VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL,
	};
	VkDescriptorBufferInfo out = {
		dlbuf_vulkan_buffer_of(&g.out->dl_tensor)->buffer, 0, VK_WHOLE_SIZE,
	};
	VkWriteDescriptorSet writes[] = { {
		.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
		.dstSet = g.set, .descriptorCount = 1,
		.descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
		.pImageInfo = &in,
	}, {
		.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
		.dstSet = g.set, .dstBinding = 1, .descriptorCount = 1,
		.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
		.pBufferInfo = &out,
	} };
	VkCommandBufferBeginInfo begins = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
	};
	VkSubmitInfo submit = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.commandBufferCount = 1, .pCommandBuffers = &g.cmd,
	};
	VkImageView view;

	CHECK_EQ(fence, -1);
	OK(vk.CreateImageView(g.of.device, &info, NULL, &view));
	in.imageView = view;
	vk.UpdateDescriptorSets(g.of.device, 2, writes, 0, NULL);
	OK(vk.BeginCommandBuffer(g.cmd, &begins));
	transfer(image->image, true);
	vk.CmdBindPipeline(g.cmd, VK_PIPELINE_BIND_POINT_COMPUTE, g.pipeline);
	vk.CmdBindDescriptorSets(g.cmd, VK_PIPELINE_BIND_POINT_COMPUTE, g.layout, 0,
				 1, &g.set, 0, NULL);
	vk.CmdDispatch(g.cmd, (image->width + 7) / 8, (image->height + 7) / 8, 1);
	transfer(image->image, false);
	OK(vk.EndCommandBuffer(g.cmd));
	CHECK_OK(dlbuf_acquire(g.out, DLBUF_WRITE, NULL, NULL));
	OK(vk.QueueSubmit(g.of.queue, 1, &submit, VK_NULL_HANDLE));
	OK(vk.QueueWaitIdle(g.of.queue));
	CHECK_OK(dlbuf_release(g.out, NULL, NULL));
	vk.DestroyImageView(g.of.device, view, NULL);
	return -1;
}

/* Samples the tensor, deleted before, and compares: the bytes are those of `all`. */
static void compare(DLManagedTensorVersioned *t, const unsigned char *all, VkFormat format)
{
	DLTensor l = t->dl_tensor;
	const uint32_t w = l.shape[1], h = l.shape[0], n = l.ndim == 3 ? l.shape[2] : 1;
	const uint64_t at = l.byte_offset, pitch = l.strides[0];
	DLManagedTensorVersioned *tensor = t;
	uint32_t got[W * H];

#include "generated/vulkan-1.inc"
	CHECK_EQ(image.format, format);
	CHECK(image.width == w && image.height == h && image.device == g.of.device);
	cts_delete(t);
	cts_peek(g.result, 0, got, 4 * w * h);
	for (uint32_t i = 0; i < w * h; i++) {
		uint32_t want = n < 4 ? 0xff000000 : 0;

		for (uint32_t c = 0; c < n; c++)
			want |= (uint32_t)all[at + i / w * pitch + i % w * n + c] << 8 * c;
		if (!CHECK_EQ(got[i], want))
			break;
	}
	vk.DestroyImage(g.of.device, image.image, NULL);
	vk.FreeMemory(g.of.device, image.memory, NULL);
}

static DLManagedTensorVersioned *tensor(int64_t h, int64_t w, int64_t n, int64_t pitch,
					uint64_t offset, uint8_t bits)
{
	int64_t shape[] = { h, w, n }, strides[] = { pitch, n, 1 };
	DLTensor layout = {
		.ndim = 3, .dtype = { kDLUInt, bits, 1 }, .shape = shape,
		.strides = strides, .byte_offset = offset,
	};
	DLManagedTensorVersioned *t;

	REQUIRE_OK(dlbuf_import(g.dev, g.fd, &layout, NULL, &t));
	return t;
}

static void sampled(void *arg)
{
	struct dlbuf_frame nv12 = PICTURE(W, H, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 2, .modifier = DLBUF_MOD_LINEAR);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	unsigned char all[BYTES];
	uint32_t n = 0;

	begin();
	cts_pattern(all, BYTES, 7);
	cts_poke(g.fd, 0, all, BYTES);
	compare(tensor(H, W, 1, PITCH, 0, 8), all, VK_FORMAT_R8_UNORM);
	compare(tensor(H, W, 2, PITCH, 512, 8), all, VK_FORMAT_R8G8_UNORM);
	compare(tensor(H, W, 4, PITCH, 0, 8), all, VK_FORMAT_R8G8B8A8_UNORM);
	/* A part of it, and one row. */
	compare(tensor(5, 7, 4, PITCH, 3 * PITCH + 64, 8), all,
		VK_FORMAT_R8G8B8A8_UNORM);
	compare(tensor(1, W, 1, 1, PITCH, 8), all, VK_FORMAT_R8_UNORM);
	nv12.planes[0] = (struct dlbuf_plane){ .fd = g.fd, .pitch = PITCH };
	nv12.planes[1] = (struct dlbuf_plane){ .fd = g.fd, .pitch = PITCH,
					       .offset = H * PITCH };
	REQUIRE_OK(dlbuf_import_frame(g.dev, &nv12, NULL, t, &n));
	CHECK_EQ(n, 2);
	compare(t[0], all, VK_FORMAT_R8_UNORM);
	compare(t[1], all, VK_FORMAT_R8G8_UNORM);
	end();
}

static void refused(void *arg)
{
	const VkImageUsageFlags sampled = VK_IMAGE_USAGE_SAMPLED_BIT;
	static const struct {
		int64_t h, w, n, pitch;
		uint8_t bits;
	} bad[] = {
		{ H, W, 3, PITCH, 8 }, { H, W, 1, -(int)PITCH, 8 },
		{ H, W, 1, 8, 8 }, { H, W, 1, PITCH / 4, 32 }, { 0, W, 1, PITCH, 8 },
	};
	DLBUF_INFO(dlbuf_vulkan_image, image);
	DLManagedTensorVersioned *t;
	struct dlbuf_device *cpu;

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		t = tensor(bad[i].h, bad[i].w, bad[i].n, bad[i].pitch,
			   bad[i].pitch < 0 ? H * PITCH : 0, bad[i].bits);
		CHECK_ERR(dlbuf_vulkan_image_create(t, sampled, &image), -EOPNOTSUPP);
		cts_delete(t);
	}
	t = tensor(H, W, 1, PITCH, 0, 8);
	CHECK_ERR(dlbuf_vulkan_image_create(t, 0, &image), -EINVAL);
	CHECK_ERR(dlbuf_vulkan_image_create(t, 0x80000000, &image), -EOPNOTSUPP);
	CHECK_ERR(dlbuf_vulkan_image_create(t, VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT,
					    &image), -EOPNOTSUPP);
	CHECK_ERR(dlbuf_vulkan_image_create(t, sampled, NULL), -EINVAL);
	CHECK_ERR(dlbuf_vulkan_image_create(NULL, sampled, &image), -EINVAL);
	image.size = 0;
	CHECK_ERR(dlbuf_vulkan_image_create(t, sampled, &image), -EINVAL);
	image.size = sizeof(image);
	cts_delete(t);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	t = cts_import(cpu, g.fd, BYTES);
	CHECK_ERR(dlbuf_vulkan_image_create(t, sampled, &image), -EINVAL);
	cts_delete(t);
	dlbuf_device_close(cpu);
	CHECK(!image.image);
	end();
}

int main(int argc, char **argv)
{
	ktap_prefix("%s", "image");
	ktap_case("sampled", sampled, NULL);
	ktap_case("refused", refused, NULL);
	return ktap_run(argc, argv);
}
