// SPDX-License-Identifier: MIT
/*
 * An application with its own VkDevice and its own submits; dlbuf only imports buffers and
 * orders the accesses. The CPU draws frames; one queue copies each frame upside down, a
 * queue of another family, if the driver has one, writes it into a dma-buf that the CPU
 * reads.
 *
 * A submit is expensive, so the application gets the fences and does not let dlbuf submit:
 *
 *	dlbuf_acquire_fence() -> semaphore -> own submit -> semaphore -> dlbuf_release_fence()
 *
 * The submit then has the two barriers that dlbuf_acquire() and dlbuf_release() would make:
 * from the foreign queue family, and back to it. One dlbuf device is enough for queues of
 * all families, because it submits nothing.
 *
 *	cc wrap.c $(pkg-config --cflags --libs dlbuf vulkan) && ./a.out 0
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vulkan/vulkan.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/vulkan.h>

#define W 256
#define H 64
#define FRAMES 10
#define SLOTS 2		/* frames in flight */

#define CHECK(call) do { VkResult r_ = (call); if (r_) errx(1, "%s: %d", #call, r_); } while (0)
#define CHECK_DLBUF(call) do { if (call) errx(1, "%s", dlbuf_last_error()); } while (0)

/* The extensions that dlbuf/vulkan.h lists for a device with fences. */
static const char *const extensions[] = {
	VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
	VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
	VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME,
	VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME,
};
#define NEXTENSIONS (sizeof(extensions) / sizeof(extensions[0]))

static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;
static struct {
	uint32_t family;
	VkQueue queue;
	VkCommandPool pool;
} reads, writes;	/* the queue that reads frames, and the one that writes them */
static PFN_vkImportSemaphoreFdKHR import_semaphore;
static PFN_vkGetSemaphoreFdKHR export_semaphore;

/* ---- the application's Vulkan */

/* All families can copy; the second queue is of another family if there is one. */
static void choose_families(void)
{
	VkQueueFamilyProperties list[16];
	uint32_t n = 16;

	vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, list);
	for (uint32_t i = n; i--;) {
		if (!(list[i].queueFlags & (VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)))
			continue;
		reads.family = writes.family;
		writes.family = i;
		if (reads.family == UINT32_MAX)
			reads.family = i;
	}
}

static void create_device(uint32_t index)
{
	VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1 };
	VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
	VkPhysicalDevice list[16];
	uint32_t n = 16;
	float priority = 1;

	CHECK(vkCreateInstance(&info, NULL, &instance));
	CHECK(vkEnumeratePhysicalDevices(instance, &n, list));
	if (index >= n)
		errx(1, "there are %u devices", n);
	physical = list[index];
	reads.family = writes.family = UINT32_MAX;
	choose_families();

	VkDeviceQueueCreateInfo queues[2] = {
		{ .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = writes.family,
		  .queueCount = 1, .pQueuePriorities = &priority },
	};
	VkDeviceCreateInfo create = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.queueCreateInfoCount = reads.family == writes.family ? 1 : 2, .pQueueCreateInfos = queues,
		.enabledExtensionCount = NEXTENSIONS, .ppEnabledExtensionNames = extensions,
	};

	queues[1] = queues[0];
	queues[1].queueFamilyIndex = reads.family;
	CHECK(vkCreateDevice(physical, &create, NULL, &device));
	vkGetDeviceQueue(device, reads.family, 0, &reads.queue);
	vkGetDeviceQueue(device, writes.family, 0, &writes.queue);
	import_semaphore = (PFN_vkImportSemaphoreFdKHR)vkGetDeviceProcAddr(device, "vkImportSemaphoreFdKHR");
	export_semaphore = (PFN_vkGetSemaphoreFdKHR)vkGetDeviceProcAddr(device, "vkGetSemaphoreFdKHR");
	for (int i = 0; i < 2; i++) {
		VkCommandPoolCreateInfo pool = {
			.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
			.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT | VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
			.queueFamilyIndex = i ? writes.family : reads.family,
		};

		CHECK(vkCreateCommandPool(device, &pool, NULL, i ? &writes.pool : &reads.pool));
	}
}

/* A frame of the application's own. */
static VkBuffer create_buffer(VkDeviceMemory *memory)
{
	VkBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = W * H,
		.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
	};
	VkMemoryAllocateInfo allocate = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO };
	VkMemoryRequirements needs;
	VkBuffer buffer;

	CHECK(vkCreateBuffer(device, &info, NULL, &buffer));
	vkGetBufferMemoryRequirements(device, buffer, &needs);
	allocate.allocationSize = needs.size;
	while (!(needs.memoryTypeBits & 1u << allocate.memoryTypeIndex))
		allocate.memoryTypeIndex++;
	CHECK(vkAllocateMemory(device, &allocate, NULL, memory));
	CHECK(vkBindBufferMemory(device, buffer, *memory, 0));
	return buffer;
}

static VkCommandBuffer create_commands(VkCommandPool pool)
{
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1,
	};
	VkCommandBuffer commands;

	CHECK(vkAllocateCommandBuffers(device, &info, &commands));
	return commands;
}

static VkSemaphore create_semaphore(VkExternalSemaphoreHandleTypeFlags exported_as)
{
	VkExportSemaphoreCreateInfo export = {
		.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO, .handleTypes = exported_as,
	};
	VkSemaphoreCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = exported_as ? &export : NULL,
	};
	VkSemaphore semaphore;

	CHECK(vkCreateSemaphore(device, &info, NULL, &semaphore));
	return semaphore;
}

/* ---- fences of dma-bufs and semaphores */

/* The semaphore takes the sync_file, for one wait. */
static void semaphore_of(int sync_file, VkSemaphore semaphore)
{
	VkImportSemaphoreFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR, .semaphore = semaphore,
		.flags = VK_SEMAPHORE_IMPORT_TEMPORARY_BIT,
		.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT, .fd = sync_file,
	};

	CHECK(import_semaphore(device, &info));
}

/* Begins an access. Returns the number of semaphores that the submit must wait for: 0 or 1. */
static uint32_t begin_access(DLManagedTensorVersioned *tensor, uint32_t access, VkSemaphore semaphore)
{
	int fence;

	CHECK_DLBUF(dlbuf_acquire_fence(tensor, access, &fence));
	if (fence != -1)
		semaphore_of(fence, semaphore);
	return fence != -1;
}

/* Ends it: the dma-buf gets the fence of the submit that signals the semaphore. */
static void end_access(DLManagedTensorVersioned *tensor, VkSemaphore semaphore)
{
	VkSemaphoreGetFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, .semaphore = semaphore,
		.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT,
	};
	int fence;

	CHECK(export_semaphore(device, &info, &fence));	/* -1: the work is complete */
	CHECK_DLBUF(dlbuf_release_fence(tensor, fence));
	if (fence != -1)
		close(fence);
}

/* ---- commands */

/*
 * Transfers a buffer between queue families, after and before these accesses of `commands`;
 * 0: the other queue's. All work of this program is copies; a program with shaders has
 * VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT here, and where it waits for semaphores.
 */
static void transfer(VkCommandBuffer commands, VkBuffer buffer, uint32_t from, uint32_t to, VkAccessFlags before,
		     VkAccessFlags after)
{
	VkBufferMemoryBarrier barrier = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER, .buffer = buffer, .size = VK_WHOLE_SIZE,
		.srcQueueFamilyIndex = from, .dstQueueFamilyIndex = to,
		.srcAccessMask = before, .dstAccessMask = after,
	};

	vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 1,
			     &barrier, 0, NULL);
}

static void begin(VkCommandBuffer commands)
{
	VkCommandBufferBeginInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
	};

	CHECK(vkBeginCommandBuffer(commands, &info));
}

/* Copies the rows, the last one first if `flip` is set. */
static void copy_rows(VkCommandBuffer commands, VkBuffer from, VkDeviceSize from_at, VkBuffer to, VkDeviceSize to_at,
		      int flip)
{
	VkBufferCopy rows[H];

	for (uint32_t y = 0; y < H; y++)
		rows[y] = (VkBufferCopy){ from_at + y * W, to_at + (flip ? H - 1 - y : y) * W, W };
	vkCmdCopyBuffer(commands, from, to, H, rows);
}

static void submit(VkQueue queue, VkCommandBuffer commands, const VkSemaphore *waits, uint32_t nwaits,
		   const VkSemaphore *signals, uint32_t nsignals, VkFence fence)
{
	const VkPipelineStageFlags stages[] = { VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT };
	VkSubmitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .waitSemaphoreCount = nwaits, .pWaitSemaphores = waits,
		.pWaitDstStageMask = stages, .commandBufferCount = 1, .pCommandBuffers = &commands,
		.signalSemaphoreCount = nsignals, .pSignalSemaphores = signals,
	};

	CHECK(vkEndCommandBuffer(commands));
	CHECK(vkQueueSubmit(queue, 1, &info, fence));
}

/* ---- frames */

/* The objects of one frame in flight. in[0] is the CPU's tensor, in[1] Vulkan's. */
static struct slot {
	DLManagedTensorVersioned *in[2];
	VkBuffer own;
	VkDeviceMemory memory;
	VkCommandBuffer read, write;
	VkSemaphore in_ready, in_done, handed_over, out_ready, out_done;
	VkFence done[2];	/* of both submits */
} slots[SLOTS];

static void create_slot(struct slot *s, struct dlbuf_device *const devs[], const DLTensor *layout)
{
	const VkExternalSemaphoreHandleTypeFlags sync_fd = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT;
	VkFenceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, .flags = VK_FENCE_CREATE_SIGNALED_BIT,
	};

	CHECK_DLBUF(dlbuf_alloc(devs, 2, layout, NULL, s->in));
	s->own = create_buffer(&s->memory);
	s->read = create_commands(reads.pool);
	s->write = create_commands(writes.pool);
	s->in_ready = create_semaphore(0);
	s->in_done = create_semaphore(sync_fd);
	s->handed_over = create_semaphore(0);
	s->out_ready = create_semaphore(0);
	s->out_done = create_semaphore(sync_fd);
	for (int i = 0; i < 2; i++)
		CHECK(vkCreateFence(device, &info, NULL, &s->done[i]));
}

static void destroy_slot(struct slot *s)
{
	const VkSemaphore list[] = { s->in_ready, s->in_done, s->handed_over, s->out_ready, s->out_done };

	for (int i = 0; i < 2; i++) {
		s->in[i]->deleter(s->in[i]);
		vkDestroyFence(device, s->done[i], NULL);
	}
	for (int i = 0; i < 5; i++)
		vkDestroySemaphore(device, list[i], NULL);
	vkDestroyBuffer(device, s->own, NULL);
	vkFreeMemory(device, s->memory, NULL);
}

static uint8_t value(int frame, int x, int y)
{
	return frame * 31 + y * 7 + x;
}

/* The CPU waits in acquire for the copy of the frame that was in this buffer before. */
static void draw(DLManagedTensorVersioned *t, int frame)
{
	uint8_t *p = t->dl_tensor.data;

	CHECK_DLBUF(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL));
	for (int i = 0; i < W * H; i++)
		p[t->dl_tensor.byte_offset + i] = value(frame, i % W, i / W);
	CHECK_DLBUF(dlbuf_release(t, NULL, NULL));
}

/* Reads the frame, and gives the application's buffer to the other queue's family. */
static void read_frame(struct slot *s)
{
	const DLTensor *in = &s->in[1]->dl_tensor;
	VkBuffer buffer = dlbuf_vulkan_buffer_of(in)->buffer;
	uint32_t nwaits = begin_access(s->in[1], DLBUF_READ, s->in_ready);

	begin(s->read);
	transfer(s->read, buffer, VK_QUEUE_FAMILY_FOREIGN_EXT, reads.family, 0, VK_ACCESS_TRANSFER_READ_BIT);
	copy_rows(s->read, buffer, in->byte_offset, s->own, 0, 1);
	transfer(s->read, buffer, reads.family, VK_QUEUE_FAMILY_FOREIGN_EXT, 0, 0);
	transfer(s->read, s->own, reads.family, writes.family, VK_ACCESS_TRANSFER_WRITE_BIT, 0);
	submit(reads.queue, s->read, &s->in_ready, nwaits, (VkSemaphore[]){ s->in_done, s->handed_over }, 2,
	       s->done[0]);
	end_access(s->in[1], s->in_done);
}

/* This access waits by a fence for the access of the previous frame, and no thread blocks. */
static void write_frame(struct slot *s, DLManagedTensorVersioned *t)
{
	const DLTensor *out = &t->dl_tensor;
	VkBuffer buffer = dlbuf_vulkan_buffer_of(out)->buffer;
	uint32_t nwaits = begin_access(t, DLBUF_WRITE, s->out_ready);

	begin(s->write);
	transfer(s->write, s->own, reads.family, writes.family, 0, VK_ACCESS_TRANSFER_READ_BIT);
	transfer(s->write, buffer, VK_QUEUE_FAMILY_FOREIGN_EXT, writes.family, 0, VK_ACCESS_TRANSFER_WRITE_BIT);
	copy_rows(s->write, s->own, 0, buffer, out->byte_offset, 0);
	transfer(s->write, buffer, writes.family, VK_QUEUE_FAMILY_FOREIGN_EXT, VK_ACCESS_TRANSFER_WRITE_BIT, 0);
	submit(writes.queue, s->write, (VkSemaphore[]){ s->handed_over, s->out_ready }, 1 + nwaits, &s->out_done, 1,
	       s->done[1]);
	end_access(t, s->out_done);
}

/* Waits for the last frame and compares it. */
static void check(DLManagedTensorVersioned *t, int frame)
{
	const uint8_t *p = t->dl_tensor.data;

	CHECK_DLBUF(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	for (int i = 0; i < W * H; i++)
		if (p[t->dl_tensor.byte_offset + i] != value(frame, i % W, H - 1 - i / W))
			errx(1, "frame %d, byte %d is wrong", frame, i);
	CHECK_DLBUF(dlbuf_release(t, NULL, NULL));
}

static struct dlbuf_device *wrap(void)
{
	struct dlbuf_vulkan_device vk = {
		.size = sizeof(vk), .instance = instance, .physical_device = physical, .device = device,
		.queue = writes.queue, .queue_family = writes.family, .api_version = VK_API_VERSION_1_1,
		.get_instance_proc_addr = vkGetInstanceProcAddr,
		.extensions = extensions, .nextensions = NEXTENSIONS,
	};
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev;

	CHECK_DLBUF(dlbuf_device_wrap_vulkan(&vk, NULL, &dev));
	CHECK_DLBUF(dlbuf_device_get_info(dev, &info));
	if (info.acquire != DLBUF_SYNC_FENCE || info.release != DLBUF_SYNC_FENCE)
		errx(1, "%s %s", info.name, info.reason);
	printf("%s: frames are read on queue family %u and written on %u%s\n", info.description, reads.family,
	       writes.family, reads.family == writes.family ? ", the only one that this driver has" : "");
	return dev;
}

int main(int argc, char **argv)
{
	DLTensor layout = { .ndim = 2, .dtype = { kDLUInt, 8, 1 }, .shape = (int64_t[]){ H, W } };
	DLManagedTensorVersioned *out[2];
	struct dlbuf_device *devs[2];	/* CPU, Vulkan */

	create_device(argc > 1 ? atoi(argv[1]) : 0);
	CHECK_DLBUF(dlbuf_device_open("cpu", NULL, &devs[0]));
	devs[1] = wrap();
	CHECK_DLBUF(dlbuf_alloc(devs, 2, &layout, NULL, out));
	for (int i = 0; i < SLOTS; i++)
		create_slot(&slots[i], devs, &layout);
	for (int frame = 0; frame < FRAMES; frame++) {
		struct slot *s = &slots[frame % SLOTS];

		CHECK(vkWaitForFences(device, 2, s->done, VK_TRUE, UINT64_MAX));
		CHECK(vkResetFences(device, 2, s->done));
		draw(s->in[0], frame);
		read_frame(s);
		write_frame(s, out[1]);
		if (frame % SLOTS == SLOTS - 1)
			check(out[0], frame);
	}
	printf("%d frames were turned upside down\n", FRAMES);

	/* The tensors and the dlbuf device end before the VkDevice does. */
	CHECK(vkDeviceWaitIdle(device));
	for (int i = 0; i < SLOTS; i++)
		destroy_slot(&slots[i]);
	for (int i = 0; i < 2; i++)
		out[i]->deleter(out[i]);
	dlbuf_device_close(devs[0]);
	dlbuf_device_close(devs[1]);
	vkDestroyCommandPool(device, reads.pool, NULL);
	vkDestroyCommandPool(device, writes.pool, NULL);
	vkDestroyDevice(device, NULL);
	vkDestroyInstance(instance, NULL);
	return 0;
}
