// SPDX-License-Identifier: MIT
/* The rules of the double of Vulkan's loader (tests/doubles/vulkan.h). */
#include "ktap.h"

#ifdef CONFIG_BACKEND_VULKAN
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#define VK_NO_PROTOTYPES
#include "doubles/vulkan.h"

#include "double.h"
#include "rules.h"

#define BYTES 4096
#define OPAQUE_FD VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT
#define SYNC_FD VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT

#define FUNCTIONS(X)							\
	X(CreateInstance) X(DestroyInstance) X(EnumeratePhysicalDevices) \
	X(CreateDevice) X(DestroyDevice) X(GetDeviceQueue)		\
	X(CreateBuffer) X(DestroyBuffer) X(AllocateMemory) X(FreeMemory) \
	X(BindBufferMemory)						\
	X(CreateCommandPool) X(DestroyCommandPool)			\
	X(AllocateCommandBuffers) X(FreeCommandBuffers)			\
	X(BeginCommandBuffer) X(EndCommandBuffer)			\
	X(CreateFence) X(DestroyFence) X(ResetFences) X(GetFenceStatus)	\
	X(WaitForFences) X(CreateSemaphore) X(DestroySemaphore)		\
	X(ImportSemaphoreFdKHR) X(GetSemaphoreFdKHR)			\
	X(GetSemaphoreCounterValue) X(SignalSemaphore)			\
	X(QueueSubmit) X(QueueWaitIdle)

static struct fake_vulkan *fake;
#include "counts.h"
static fake_vulkan_fn fake_fn;
static void *fake_lib;
static struct {
#define X(name) PFN_vk##name name;
	FUNCTIONS(X)
#undef X
} vk;
static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;
static VkQueue queue;
static VkCommandPool pool;
static VkCommandBuffer commands;
static VkFence fence;

static VkDevice device_new(void)
{
	static const char *const extensions[] = {
		VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME,
	};
	static const VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.timelineSemaphore = VK_TRUE,
	};
	static const VkDeviceQueueCreateInfo queues = {
		.queueFamilyIndex = 1, .queueCount = 1,
	};
	static const VkDeviceCreateInfo info = {
		.pNext = &timelines, .queueCreateInfoCount = 1,
		.pQueueCreateInfos = &queues, .enabledExtensionCount = 1,
		.ppEnabledExtensionNames = extensions,
	};
	VkDevice made = NULL;

	OK(vk.CreateDevice(physical, &info, NULL, &made));
	return made;
}

static void begin(void)
{
	VkCommandBufferAllocateInfo buffers = { .commandBufferCount = 1 };
	PFN_vkGetInstanceProcAddr find;
	uint32_t n = 1;

	LOAD(vulkan, "VULKAN", "");
	find = (PFN_vkGetInstanceProcAddr)dlsym(fake_lib, "vkGetInstanceProcAddr");
	REQUIRE(find);
	fake->physical[0].timeline = fake->physical[0].timeline_out = true;
	fake->physical[0].sync_fd_in = fake->physical[0].sync_fd_out = true;
#define X(name) vk.name = (PFN_vk##name)find(NULL, "vk" #name); REQUIRE(vk.name);
	FUNCTIONS(X)
#undef X
	OK(vk.CreateInstance(&(VkInstanceCreateInfo){
		.pApplicationInfo = &(VkApplicationInfo){ .apiVersion = 1 } },
		NULL, &instance));
	OK(vk.EnumeratePhysicalDevices(instance, &n, &physical));
	device = device_new();
	vk.GetDeviceQueue(device, 1, 0, &queue);
	OK(vk.CreateCommandPool(device, NULL, NULL, &pool));
	buffers.commandPool = pool;
	OK(vk.AllocateCommandBuffers(device, &buffers, &commands));
	OK(vk.BeginCommandBuffer(commands, &(VkCommandBufferBeginInfo){
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT }));
	OK(vk.EndCommandBuffer(commands));
	OK(vk.CreateFence(device, &(VkFenceCreateInfo){ 0 }, NULL, &fence));
}

static void end(void)
{
	vk.DestroyFence(device, fence, NULL);
	vk.FreeCommandBuffers(device, pool, 1, &commands);
	vk.DestroyCommandPool(device, pool, NULL);
	vk.DestroyDevice(device, NULL);
	vk.DestroyInstance(instance, NULL);
	UNLOAD();
}

static VkSemaphore semaphore_of(VkExternalSemaphoreHandleTypeFlags exports,
				bool timeline)
{
	VkExportSemaphoreCreateInfo export = {
		.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
		.handleTypes = exports,
	};
	VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.pNext = &export, .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
	};
	VkSemaphore s;

	OK(vk.CreateSemaphore(device, &(VkSemaphoreCreateInfo){
		.pNext = timeline ? (void *)&type : (void *)&export }, NULL, &s));
	return s;
}

static VkResult submit(VkSemaphore wait, VkSemaphore signal, uint64_t value,
		       VkFence with)
{
	VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
	VkTimelineSemaphoreSubmitInfo values = {
		.signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &value,
	};
	VkSubmitInfo info = {
		.pNext = value ? &values : NULL,
		.waitSemaphoreCount = !!wait, .pWaitSemaphores = &wait,
		.pWaitDstStageMask = &stage,
		.commandBufferCount = 1, .pCommandBuffers = &commands,
		.signalSemaphoreCount = !!signal, .pSignalSemaphores = &signal,
	};

	return vk.QueueSubmit(queue, 1, &info, with);
}

/* A fence is submitted once between resets, and is not destroyed under the device. */
DOUBLE_CASE(fences)
{
	BREAKS(1, VK_NOT_READY, vk.GetFenceStatus(device, fence));
	OK(submit(VK_NULL_HANDLE, VK_NULL_HANDLE, 0, fence));
	BREAKS(1, 0, vk.ResetFences(device, 1, &fence));
	OK(vk.QueueWaitIdle(queue));
	OK(submit(VK_NULL_HANDLE, VK_NULL_HANDLE, 0, VK_NULL_HANDLE));
	BREAKS(1, 0, vk.WaitForFences(device, 1, &fence, VK_TRUE, 0));
	OK(vk.ResetFences(device, 1, &fence));
	OK(submit(VK_NULL_HANDLE, VK_NULL_HANDLE, 0, fence));
	OK(vk.WaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX));
	BREAKS(1, 0, submit(VK_NULL_HANDLE, VK_NULL_HANDLE, 0, fence));
	OK(vk.QueueWaitIdle(queue));
	OK(vk.GetFenceStatus(device, fence));
	OK(vk.ResetFences(device, 1, &fence));
	OK(submit(VK_NULL_HANDLE, VK_NULL_HANDLE, 0, fence));
	vk.DestroyFence(device, fence, NULL);
	forgive(1);
	vk.DestroyFence(device, fence, NULL);
	forgive(1);
	OK(vk.QueueWaitIdle(queue));
	OK(vk.CreateFence(device, &(VkFenceCreateInfo){ 0 }, NULL, &fence));
}

static VkResult import(VkSemaphore s, int fd, VkSemaphoreImportFlags flags)
{
	return vk.ImportSemaphoreFdKHR(device, &(VkImportSemaphoreFdInfoKHR){
		.semaphore = s, .flags = flags, .handleType = SYNC_FD, .fd = fd });
}

static VkResult export(VkSemaphore s, VkExternalSemaphoreHandleTypeFlagBits type,
		       int *fd)
{
	return vk.GetSemaphoreFdKHR(device, &(VkSemaphoreGetFdInfoKHR){
		.semaphore = s, .handleType = type }, fd);
}

static bool readable(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1;
}

/* A payload is imported for one wait; a signal is waited for or exported once. */
DOUBLE_CASE(binary_semaphores)
{
	VkSemaphoreImportFlags temporary = VK_SEMAPHORE_IMPORT_TEMPORARY_BIT;
	VkSemaphore in, out;
	int fd = pending_fence(), ours AUTO_FD = dup(fd), given AUTO_FD = -1;

	in = semaphore_of(0, false);
	out = semaphore_of(SYNC_FD, false);
	BREAKS(1, 0, submit(in, VK_NULL_HANDLE, 0, VK_NULL_HANDLE));
	OK(vk.QueueWaitIdle(queue));
	BREAKS(1, 0, export(out, SYNC_FD, &given));
	close(given);
	OK(import(in, fd, temporary));
	BREAKS(1, 0, import(in, fd, temporary));
	OK(submit(in, out, 0, fence));
	CHECK_EQ(vk.GetFenceStatus(device, fence), VK_NOT_READY);
	OK(export(out, SYNC_FD, &given));
	CHECK_EQ(fcntl(given, F_GETFD), FD_CLOEXEC);
	CHECK(!readable(given));
	signal_fence(ours);
	OK(vk.GetFenceStatus(device, fence));
	CHECK(readable(given));
	/* The fd was the driver's. */
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
	fd = pending_fence();
	BREAKS(1, 0, import(in, fd, 0));
	vk.DestroySemaphore(device, in, NULL);
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
	vk.DestroySemaphore(device, out, NULL);
}

DOUBLE_CASE(timelines)
{
	VkSemaphoreSignalInfo at = { .value = 3 };
	uint64_t value = 0;
	int fd AUTO_FD = -1, none = -1;

	at.semaphore = semaphore_of(OPAQUE_FD, true);
	OK(vk.SignalSemaphore(device, &at));
	OK(submit(VK_NULL_HANDLE, at.semaphore, 5, VK_NULL_HANDLE));
	OK(vk.GetSemaphoreCounterValue(device, at.semaphore, &value));
	CHECK_EQ(value, 5);
	/* It rises. Bytes after that are undefined: this checks the call and the value. */
	at.value = 5;
	BREAKS(2, 0, vk.SignalSemaphore(device, &at));
	OK(submit(VK_NULL_HANDLE, at.semaphore, 4, VK_NULL_HANDLE));
	OK(vk.QueueWaitIdle(queue));
	forgive(2);
	OK(export(at.semaphore, OPAQUE_FD, &fd));
	BREAKS(2, 0, export(at.semaphore, SYNC_FD, &none));
	close(none);
	vk.DestroySemaphore(device, at.semaphore, NULL);
}

static VkResult allocate(int fd, VkDeviceMemory *m)
{
	VkImportMemoryFdInfoKHR from = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR, .fd = fd,
	};

	return vk.AllocateMemory(device, &(VkMemoryAllocateInfo){
		.pNext = &from, .allocationSize = BYTES }, NULL, m);
}

static VkBuffer buffer_of(VkDeviceSize bytes)
{
	static const VkExternalMemoryBufferCreateInfo external = {
		.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT,
	};
	VkBuffer b;

	OK(vk.CreateBuffer(device, &(VkBufferCreateInfo){
		.pNext = &external, .size = bytes }, NULL, &b));
	return b;
}

/* An fd that was imported is the driver's, and is closed by it. */
TEST(memory)
{
	int fd = pending_fence();
	VkDeviceMemory m;
	VkBuffer b, large;

	begin();
	b = buffer_of(BYTES);
	large = buffer_of(2 * BYTES);
	OK(allocate(fd, &m));
	OK(vk.BindBufferMemory(device, b, m, 0));
	BREAKS(1, 0, vk.BindBufferMemory(device, b, m, 0));
	BREAKS(1, 0, vk.BindBufferMemory(device, large, m, 0));
	vk.FreeMemory(device, m, NULL);
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
	fd = pending_fence();
	OK(allocate(fd, &m));
	close(fd);
	vk.FreeMemory(device, m, NULL);
	forgive(1);
	vk.DestroyBuffer(device, b, NULL);
	/* A device goes last. */
	vk.DestroyDevice(device, NULL);
	CHECK(fake->wrong);
	fake->wrong = 0;
	fake_fn(true);
	dlclose(fake_lib);
}

static void *close_device(void *made)
{
	vk.DestroyDevice(made, NULL);
	return NULL;
}

/* The thread that works for the last device ends, also if there is a device again. */
DOUBLE_CASE(a_device_closes_while_another_opens)
{
	VkDevice last, next;
	pthread_t closer;

	fake->threaded = true;
	for (int i = 0; i < 100; i++) {
		last = device_new();
		REQUIRE(!pthread_create(&closer, NULL, close_device, last));
		next = device_new();
		pthread_join(closer, NULL);
		vk.DestroyDevice(next, NULL);
	}
	fake->threaded = false;
}

/* As a second thread would do while the first one is in its call. */
static void submit_again(const char *call)
{
	fake->look = NULL;
	OK(submit(VK_NULL_HANDLE, VK_NULL_HANDLE, 0, VK_NULL_HANDLE));
}

DOUBLE_CASE(one_thread_uses_a_queue)
{
	fake->look = submit_again;
	BREAKS(1, 0, submit(VK_NULL_HANDLE, VK_NULL_HANDLE, 0, VK_NULL_HANDLE));
	OK(submit(VK_NULL_HANDLE, VK_NULL_HANDLE, 0, VK_NULL_HANDLE));
	OK(vk.QueueWaitIdle(queue));
}

DOUBLE_CASE(calls_fail_when_told)
{
	VkSemaphore s;

	fake->failing = "vkCreateSemaphore";
	fake->result = VK_ERROR_OUT_OF_HOST_MEMORY;
	fake->spared = 1;
	s = semaphore_of(0, false);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(vk.CreateSemaphore(device, &(VkSemaphoreCreateInfo){ 0 },
					    NULL, &s), VK_ERROR_OUT_OF_HOST_MEMORY);
	CHECK_EQ(fake->made[FAKE_SEMAPHORE], 1);
	vk.DestroySemaphore(device, s, NULL);
}
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
