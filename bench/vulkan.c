// SPDX-License-Identifier: MIT
/*
 * The cost of an access for an application that submits to a VkQueue: by the fence functions,
 * by dlbuf_acquire() and dlbuf_release(), and by hand. The work is a small fill.
 *
 *	bench/vulkan [DEVICE]		default: vulkan:0
 */
#include <stdio.h>

#include <dlbuf/dlbuf.h>

#include "bench.h"

/* In a build without this backend only the errors of its functions are there. */
#if __has_include(<vulkan/vulkan_core.h>)
#include <string.h>
#include <sys/ioctl.h>

#include <linux/dma-buf.h>

#define VK_NO_PROTOTYPES
#include <dlbuf/vulkan.h>

#define BYTES (1 << 16)
#define ROUNDS 101
#define BUFFERS 3
#define SYNC_FD VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT

#define FUNCTIONS(X)							\
	X(CreateCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) \
	X(EndCommandBuffer) X(CmdPipelineBarrier) X(CmdFillBuffer)	\
	X(CreateSemaphore) X(CreateFence) X(WaitForFences) X(ResetFences) \
	X(QueueSubmit) X(ImportSemaphoreFdKHR) X(GetSemaphoreFdKHR)	\
	X(DestroyCommandPool) X(DestroySemaphore) X(DestroyFence)

static struct {
#define X(name) PFN_vk##name name;
	FUNCTIONS(X)
#undef X
} vk;

static struct {
	struct dlbuf_device *dev;
	struct dlbuf_vulkan_device of;
	DLManagedTensorVersioned *t[BUFFERS];
	int fd[BUFFERS];
	size_t n;		/* buffers of an access */
	VkCommandPool pool;
	/* The work alone, and between the barriers, by the number of buffers. */
	VkCommandBuffer fill[BUFFERS + 1], whole[BUFFERS + 1];
	VkSemaphore wait[BUFFERS], signal;
	VkFence done;
} b;

static uint64_t times[ROUNDS];

static void check(VkResult result, const char *what)
{
	if (result)
		errx(1, "%s: %d", what, result);
}
#define CHECK(name, ...) check(vk.name(__VA_ARGS__), "vk" #name)

static void load(void)
{
	PFN_vkGetInstanceProcAddr get = b.of.get_instance_proc_addr;
	PFN_vkGetDeviceProcAddr find = (PFN_vkGetDeviceProcAddr)
		get(b.of.instance, "vkGetDeviceProcAddr");

#define X(name) vk.name = (PFN_vk##name)find(b.of.device, "vk" #name);
	FUNCTIONS(X)
#undef X
	if (!vk.ImportSemaphoreFdKHR || !vk.GetSemaphoreFdKHR)
		errx(1, "the device has no VK_KHR_external_semaphore_fd");
}

static VkBuffer buffer(size_t i)
{
	return dlbuf_vulkan_buffer_of(&b.t[i]->dl_tensor)->buffer;
}

/* ---- commands */

static void barriers(VkCommandBuffer cmd, size_t n, bool acquire)
{
	const uint32_t foreign = VK_QUEUE_FAMILY_FOREIGN_EXT;
	VkBufferMemoryBarrier list[BUFFERS];

	for (size_t i = 0; i < n; i++)
		list[i] = (VkBufferMemoryBarrier){
			.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
			.srcAccessMask = acquire ? 0 : VK_ACCESS_TRANSFER_WRITE_BIT,
			.dstAccessMask = acquire ? VK_ACCESS_TRANSFER_WRITE_BIT : 0,
			.srcQueueFamilyIndex = acquire ? foreign : b.of.queue_family,
			.dstQueueFamilyIndex = acquire ? b.of.queue_family : foreign,
			.buffer = buffer(i), .size = VK_WHOLE_SIZE,
		};
	vk.CmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_TRANSFER_BIT, acquire ?
		VK_PIPELINE_STAGE_TRANSFER_BIT : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
		0, 0, NULL, n, list, 0, NULL);
}

static VkCommandBuffer record_work(size_t n, bool whole)
{
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = b.pool, .commandBufferCount = 1,
	};
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
	};
	VkCommandBuffer cmd;

	CHECK(AllocateCommandBuffers, b.of.device, &info, &cmd);
	CHECK(BeginCommandBuffer, cmd, &begin);
	if (whole)
		barriers(cmd, n, true);
	for (size_t i = 0; i < n; i++)
		vk.CmdFillBuffer(cmd, buffer(i), 0, 64, 1);
	if (whole)
		barriers(cmd, n, false);
	CHECK(EndCommandBuffer, cmd);
	return cmd;
}

static void submit(VkCommandBuffer cmd, size_t nwaits, bool signals)
{
	VkPipelineStageFlags stages[BUFFERS] = {
		VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
		VK_PIPELINE_STAGE_TRANSFER_BIT,
	};
	VkSubmitInfo info = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.waitSemaphoreCount = nwaits, .pWaitSemaphores = b.wait,
		.pWaitDstStageMask = stages,
		.commandBufferCount = 1, .pCommandBuffers = &cmd,
		.signalSemaphoreCount = signals, .pSignalSemaphores = &b.signal,
	};

	CHECK(QueueSubmit, b.of.queue, 1, &info, b.done);
}

static void semaphore_of(int fence, VkSemaphore semaphore)
{
	VkImportSemaphoreFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
		.semaphore = semaphore,
		.flags = VK_SEMAPHORE_IMPORT_TEMPORARY_BIT,
		.handleType = SYNC_FD, .fd = fence,
	};

	CHECK(ImportSemaphoreFdKHR, b.of.device, &info);
}

static int fence_of_work(void)
{
	VkSemaphoreGetFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
		.semaphore = b.signal, .handleType = SYNC_FD,
	};
	int fence;

	CHECK(GetSemaphoreFdKHR, b.of.device, &info, &fence);
	return fence;
}

/* ---- the ways */

/* As a program that knows the rules of the kernel and of Vulkan does it. */
static void by_hand(void)
{
	struct dma_buf_import_sync_file in = { .flags = DMA_BUF_SYNC_WRITE };

	for (size_t i = 0; i < b.n; i++) {
		struct dma_buf_export_sync_file out = { .flags = DMA_BUF_SYNC_WRITE };

		if (ioctl(b.fd[i], DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &out))
			err(1, "DMA_BUF_IOCTL_EXPORT_SYNC_FILE");
		semaphore_of(out.fd, b.wait[i]);
	}
	submit(b.whole[b.n], b.n, true);
	in.fd = fence_of_work();
	for (size_t i = 0; in.fd != -1 && i < b.n; i++)
		if (ioctl(b.fd[i], DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &in))
			err(1, "DMA_BUF_IOCTL_IMPORT_SYNC_FILE");
	if (in.fd != -1)
		close(in.fd);
}

static void ok(int ret)
{
	if (ret)
		errx(1, "%s", dlbuf_last_error());
}

static void by_fences(void)
{
	size_t nwaits = 0;
	int fence;

	for (size_t i = 0; i < b.n; i++) {
		ok(dlbuf_acquire_fence(b.t[i], DLBUF_WRITE, &fence));
		if (fence != -1)
			semaphore_of(fence, b.wait[nwaits++]);
	}
	submit(b.whole[b.n], nwaits, true);
	fence = fence_of_work();
	for (size_t i = 0; i < b.n; i++)
		ok(dlbuf_release_fence(b.t[i], fence));
	if (fence != -1)
		close(fence);
}

static void by_dlbuf(void)
{
	ok(dlbuf_acquire_all(b.t, b.n, DLBUF_WRITE, NULL, NULL));
	submit(b.fill[b.n], 0, false);
	ok(dlbuf_release_all(b.t, b.n, NULL, NULL));
}

static void by_each(void)
{
	for (size_t i = 0; i < b.n; i++)
		ok(dlbuf_acquire(b.t[i], DLBUF_WRITE, NULL, NULL));
	submit(b.fill[b.n], 0, false);
	for (size_t i = 0; i < b.n; i++)
		ok(dlbuf_release(b.t[i], NULL, NULL));
}

/* The driver's threads are in this: all of the work is over. */
static uint64_t cost(void (*fn)(void), uint64_t clock)
{
	for (int i = -10; i < ROUNDS; i++) {
		uint64_t t = now();

		fn();
		CHECK(WaitForFences, b.of.device, 1, &b.done, VK_TRUE, UINT64_MAX);
		ok(dlbuf_device_drain(b.dev, 0));
		if (i >= 0)
			times[i] = now() - t - clock;
		CHECK(ResetFences, b.of.device, 1, &b.done);
	}
	return median(times, ROUNDS);
}

static void table(size_t n, uint64_t clock)
{
	static const struct {
		const char *who, *what;
		void (*fn)(void);
	} ways[] = {
		{ "hand", "barriers in its submit, EXPORT_SYNC_FILE, IMPORT_SYNC_FILE", by_hand },
		{ "dlbuf", "dlbuf_acquire_fence(), the same submit, dlbuf_release_fence()", by_fences },
		{ "dlbuf", "dlbuf_acquire_all(), a submit, dlbuf_release_all()", by_dlbuf },
		{ "dlbuf", "dlbuf_acquire() of each, a submit, dlbuf_release() of each", by_each },
	};
	uint64_t hand = 0;
	char title[96];

	b.n = n;
	snprintf(title, sizeof(title), "vulkan:0: an access to %zu buffer%s by a submit of "
		 "the application", n, n > 1 ? "s" : "");
	printf("%s\n", title);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) - (n == 1); i++) {
		uint64_t v = (cost(ways[i].fn, clock) + 500) / 1000 * 1000;

		hand = i ? hand : v;
		printf("  %9llu %6.2fx  %s\n", (unsigned long long)v, (double)v / hand,
		       ways[i].what);
		record(ways[i].who, v, title, "%s", ways[i].what);
	}
}

static void begin(const char *name)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	VkCommandPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
	};
	VkExportSemaphoreCreateInfo export = {
		.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
		.handleTypes = SYNC_FD,
	};
	VkSemaphoreCreateInfo semaphore = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
	};
	VkFenceCreateInfo fence = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };
	struct dlbuf_device_info info = { .size = sizeof(info) };
	int64_t shape = BYTES;
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &shape };

	b.of.size = sizeof(b.of);
	ok(dlbuf_device_open(name, NULL, &b.dev));
	ok(dlbuf_vulkan_get_device(b.dev, &b.of));
	ok(dlbuf_device_get_info(b.dev, &info));
	record("about", 0, name, "%s, %s", info.description, info.driver);
	load();
	pool.queueFamilyIndex = b.of.queue_family;
	CHECK(CreateCommandPool, b.of.device, &pool, NULL, &b.pool);
	for (size_t i = 0; i < BUFFERS; i++) {
		ok(dlbuf_alloc_fd(BYTES, &opts, &b.fd[i]));
		ok(dlbuf_import(b.dev, b.fd[i], &layout, NULL, &b.t[i]));
		b.fill[i + 1] = record_work(i + 1, false);
		b.whole[i + 1] = record_work(i + 1, true);
		CHECK(CreateSemaphore, b.of.device, &semaphore, NULL, &b.wait[i]);
	}
	semaphore.pNext = &export;
	CHECK(CreateSemaphore, b.of.device, &semaphore, NULL, &b.signal);
	CHECK(CreateFence, b.of.device, &fence, NULL, &b.done);
}

static void end(void)
{
	for (size_t i = 0; i < BUFFERS; i++) {
		b.t[i]->deleter(b.t[i]);
		close(b.fd[i]);
		vk.DestroySemaphore(b.of.device, b.wait[i], NULL);
	}
	vk.DestroySemaphore(b.of.device, b.signal, NULL);
	vk.DestroyFence(b.of.device, b.done, NULL);
	vk.DestroyCommandPool(b.of.device, b.pool, NULL);
	dlbuf_device_close(b.dev);
}

int main(int argc, char **argv)
{
	uint64_t clock;

	fix_addresses(argv);
	clock = clock_cost();
	begin(argc > 1 ? argv[1] : "vulkan:0");
	table(1, clock);
	table(BUFFERS, clock);
	end();
	return 0;
}
#else
int main(void)
{
	puts("this build has no Vulkan");
	return 0;
}
#endif
