// SPDX-License-Identifier: MIT
/*
 * The Vulkan backend against a double of the loader (tests/fakes/vulkan.h):
 * what it asks of a driver, what it makes of the answers, and that it gives
 * everything back whatever fails.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_VULKAN
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <dlbuf/dlbuf.h>

#include "backends/vulkan/vulkan.h"
#include "fakes/vulkan.h"
#include "fence.h"

#define BYTES 8192

static struct fake_vulkan *fake;
static fake_vulkan_fn fake_fn;
static void *fake_lib;

static void begin(void)
{
	char path[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 40);

	REQUIRE(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	strcpy(slash, "/../fakes/libvulkan.so");
	setenv("DLBUF_VULKAN_LIBRARY", path, 1);
	fake_lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!fake_lib)
		ktap_note(NULL, 0, "%s", dlerror());
	REQUIRE(fake_lib);
	fake_fn = (fake_vulkan_fn)dlsym(fake_lib, "fake_vulkan");
	REQUIRE(fake_fn);
	fake = fake_fn(true);
	dlbuf_log_set(NULL, NULL, DLBUF_LOG_NONE);
}

static void end(void)
{
	CHECK_EQ(fake->wrong, 0);
	for (int kind = 0; kind < FAKE_KINDS; kind++)
		CHECK_MSG(!fake->live[kind], "%u of kind %d",
			  fake->live[kind], kind);
	fake_fn(true);
	dlclose(fake_lib);
	unsetenv("DLBUF_VULKAN_LIBRARY");
}

static struct dlbuf_device *open_ok(void)
{
	struct dlbuf_device *dev = NULL;

	REQUIRE_OK(dlbuf_device_open("vulkan", NULL, &dev));
	return dev;
}

/* An import as the core would ask for it; a memfd stands for the dma-buf. */
struct fixture {
	struct dlbuf_device *dev;
	struct vulkan_import vi;
};

static int import_into(struct fixture *f, struct dlbuf_device *dev)
{
	*f = (struct fixture){ .dev = dev };
	f->vi.base.dev = dev;
	f->vi.base.id.access = DLBUF_RW;
	f->vi.base.bytes = BYTES;
	f->vi.base.fd = memfd_create("a dma-buf", MFD_CLOEXEC);
	if (f->vi.base.fd < 0 || ftruncate(f->vi.base.fd, BYTES))
		return -errno;
	return vulkan_backend.import(&f->vi.base);
}

static void import_finish(struct fixture *f, int ret)
{
	if (!ret)
		vulkan_backend.unimport(&f->vi.base);
	close(f->vi.base.fd);
}

static int acquire(struct fixture *f, uint32_t access)
{
	return vulkan_backend.acquire(&f->vi.base, access, NULL, -1);
}

static int release(struct fixture *f, uint32_t access)
{
	int fence = 7, ret;

	ret = vulkan_backend.release(&f->vi.base, access, NULL, &fence);
	CHECK_EQ(fence, -1);
	return ret;
}

/* ---------------------------------------------------------------- opening */

TEST(selectors)
{
	static const struct {
		const char *name, *is;
		int ret;
	} cases[] = {
		{ "vulkan", "vulkan:1", 0 },
		{ "vulkan:1", "vulkan:1", 0 },
		{ "vulkan:0", NULL, -EOPNOTSUPP },
		{ "vulkan:2", "vulkan:2", 0 },
		{ "vulkan:3", NULL, -ENODEV },
		{ "vulkan:able", "vulkan:1", 0 },
		{ "vulkan:THIRD", "vulkan:2", 0 },
		{ "vulkan:lame", NULL, -EOPNOTSUPP },
		{ "vulkan:nobody", NULL, -ENODEV },
		{ "vulkan:uuid=cd000000000000000000000000000000", "vulkan:2", 0 },
		{ "vulkan:uuid=CD000000000000000000000000000000", "vulkan:2", 0 },
		{ "vulkan:uuid=00000000000000000000000000000000", NULL, -ENODEV },
		{ "vulkan:uuid=cd", NULL, -EINVAL },
		{ "vulkan:uuid=zz000000000000000000000000000000", NULL, -EINVAL },
	};

	begin();
	fake->nphysical = 3;
	fake->physical[0].name = "Lame";
	fake->physical[0].no_import = true;
	fake->physical[2].name = "The Third";
	fake->physical[2].uuid = 0xcd;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_device *dev = NULL;
		DLBUF_INFO(dlbuf_device_info, info);
		int ret = dlbuf_device_open(cases[i].name, NULL, &dev);

		if (!CHECK_EQ(ret, cases[i].ret))
			ktap_note(NULL, 0, "%s: %s", cases[i].name,
				  dlbuf_last_error());
		if (ret)
			continue;
		CHECK_OK(dlbuf_device_get_info(dev, &info));
		CHECK_STR(info.name, cases[i].is);
		CHECK_EQ(info.device.device_id, cases[i].is[7] - '0');
		CHECK_STR(info.driver, "fake 1.0");
		dlbuf_device_close(dev);
	}
	end();
}

struct seen {
	unsigned int n;
	int status[4];
	char reason[4][256];
};

static int see(const struct dlbuf_device_info *info, void *data)
{
	struct seen *seen = data;

	if (strcmp(info->backend, "vulkan") || seen->n >= 4)
		return 0;
	seen->status[seen->n] = info->status;
	strcpy(seen->reason[seen->n++], info->reason);
	return 0;
}

TEST(each_says_why_not)
{
	struct seen seen = { 0 };

	begin();
	fake->nphysical = 4;
	fake->physical[0].version = VK_API_VERSION_1_0;
	fake->physical[1].extensions[1] = NULL;
	fake->physical[2].no_compute = true;
	CHECK_OK(dlbuf_device_each(see, &seen));
	CHECK_EQ(seen.n, 4);
	CHECK_EQ(seen.status[0], -EOPNOTSUPP);
	CHECK(strstr(seen.reason[0], "1.0"));
	CHECK_EQ(seen.status[1], -EOPNOTSUPP);
	CHECK(strstr(seen.reason[1], "VK_EXT_external_memory_dma_buf"));
	CHECK_EQ(seen.status[2], -EOPNOTSUPP);
	CHECK(strstr(seen.reason[2], "queue"));
	CHECK_EQ(seen.status[3], 0);
	CHECK_STR(seen.reason[3], "");
	CHECK_EQ(fake->made[FAKE_DEVICE], 0);
	end();
}

static unsigned int warnings;

static void count_warnings(void *data, enum dlbuf_log_level level,
			   const char *text)
{
	(void)data, (void)text;
	warnings += level <= DLBUF_LOG_WARN;
}

/* What is not there is silent, what is there and fails is not. */
TEST(absent_is_not_broken)
{
	static const struct {
		const char *failing;
		VkResult result;
		int ret;
		unsigned int warnings;
	} cases[] = {
		{ "vkCreateInstance", VK_ERROR_INCOMPATIBLE_DRIVER, -ENODEV, 0 },
		{ "vkCreateInstance", VK_ERROR_INITIALIZATION_FAILED, -EIO, 1 },
		{ "vkCreateInstance", VK_ERROR_OUT_OF_HOST_MEMORY, -ENOMEM, 0 },
		{ "vkEnumeratePhysicalDevices", VK_ERROR_INITIALIZATION_FAILED,
		  -ENODEV, 0 },
		{ "vkEnumerateDeviceExtensionProperties", (VkResult)-13, -EIO, 1 },
		{ "vkCreateDevice", VK_ERROR_INITIALIZATION_FAILED, -EIO, 1 },
		{ "vkCreateDevice", VK_ERROR_FEATURE_NOT_PRESENT, -EOPNOTSUPP, 0 },
		{ "vkCreateCommandPool", VK_ERROR_DEVICE_LOST, -EIO, 1 },
	};
	struct dlbuf_device *dev = NULL;

	begin();
	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_WARN);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		warnings = 0;
		fake->failing = cases[i].failing;
		fake->result = cases[i].result;
		CHECK_ERR(dlbuf_device_open("vulkan", NULL, &dev), cases[i].ret);
		CHECK_SAYS(cases[i].failing);
		CHECK_EQ(warnings, cases[i].warnings);
	}
	fake->failing = NULL;
	warnings = 0;
	fake->nphysical = 0;
	CHECK_ERR(dlbuf_device_open("vulkan", NULL, &dev), -ENODEV);
	CHECK_EQ(warnings, 0);
	setenv("DLBUF_VULKAN_LIBRARY", "/nonexistent", 1);
	CHECK_ERR(dlbuf_device_open("vulkan", NULL, &dev), -ENODEV);
	CHECK_EQ(warnings, 0);
	CHECK(!dev);
	dlbuf_log_set(NULL, NULL, DLBUF_LOG_NONE);
	end();
}

TEST(old_loaders)
{
	struct dlbuf_device *dev = NULL;

	begin();
	fake->loader_version = 0;
	CHECK_ERR(dlbuf_device_open("vulkan", NULL, &dev), -EOPNOTSUPP);
	fake->loader_version = VK_API_VERSION_1_1;
	dlbuf_device_close(open_ok());
	CHECK_EQ(fake->api_version, VK_API_VERSION_1_1);
	/* Nobody asked a device of 1.1 for what is of 1.2. */
	CHECK(!fake->address_enabled);
	fake->without = "vkGetMemoryFdPropertiesKHR";
	CHECK_ERR(dlbuf_device_open("vulkan", NULL, &dev), -EOPNOTSUPP);
	CHECK_SAYS("vkGetMemoryFdPropertiesKHR");
	end();
}

/* ---------------------------------------------------------------- importing */

TEST(what_is_imported)
{
	struct fixture f;

	begin();
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_EQ(f.vi.base.path, DLBUF_PATH_DIRECT);
	CHECK(f.vi.base.data == &f.vi.buffer);
	CHECK(f.vi.buffer.buffer && f.vi.buffer.memory && f.vi.buffer.device);
	CHECK_EQ(f.vi.buffer.size, BYTES);
	CHECK_EQ(f.vi.buffer.address, 0x1000);
	CHECK(fake->address_enabled && fake->address_memory);
	CHECK(!fake->dedicated);
	CHECK_EQ(fake->memory_type, 1); /* 0 is protected */
	CHECK_EQ(fake->enabled, 3);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

TEST(address_of_a_1_1_device)
{
	struct fixture f;

	begin();
	fake->physical[0].version = VK_API_VERSION_1_1;
	fake->physical[0].extensions[3] =
		VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_EQ(f.vi.buffer.address, 0x2000);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

TEST(no_address_where_imports_have_none)
{
	struct fixture f;

	begin();
	fake->physical[0].no_import_with_address = true;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_EQ(f.vi.buffer.address, 0);
	CHECK(!fake->address_enabled && !fake->address_memory);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

TEST(dedicated_allocations)
{
	struct fixture f;

	begin();
	fake->physical[0].dedicated_only = true;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK(fake->dedicated);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	fake->physical[0].dedicated_only = false;
	fake->physical[0].prefers_dedicated = true;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK(fake->dedicated);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

TEST(memory_that_does_not_fit)
{
	struct dlbuf_device *dev;
	struct fixture f;

	begin();
	dev = open_ok();
	fake->physical[0].granularity = 65536;
	CHECK_ERR(import_into(&f, dev), -EOPNOTSUPP);
	CHECK_SAYS("65536");
	import_finish(&f, -1);
	fake->physical[0].granularity = 4096;
	fake->physical[0].fd_types = 0x04;
	REQUIRE_OK(import_into(&f, dev));
	CHECK_EQ(fake->memory_type, 2);
	import_finish(&f, 0);
	fake->physical[0].fd_types = 0x09; /* protected, or AMD's */
	CHECK_ERR(import_into(&f, dev), -EOPNOTSUPP);
	import_finish(&f, -1);
	dlbuf_device_close(dev);
	end();
}

TEST(every_refusal_of_an_import)
{
	static const char *const calls[] = {
		"vkCreateBuffer", "vkGetMemoryFdPropertiesKHR",
		"vkAllocateMemory", "vkBindBufferMemory",
	};
	static const struct {
		VkResult result;
		int ret;
		const char *name;
	} results[] = {
		{ VK_ERROR_INVALID_EXTERNAL_HANDLE, -EOPNOTSUPP,
		  "VK_ERROR_INVALID_EXTERNAL_HANDLE" },
		{ VK_ERROR_OUT_OF_DEVICE_MEMORY, -ENOMEM,
		  "VK_ERROR_OUT_OF_DEVICE_MEMORY" },
		{ VK_ERROR_DEVICE_LOST, -EIO, "VK_ERROR_DEVICE_LOST" },
		{ (VkResult)-77, -EIO, "-77" },
	};
	struct dlbuf_device *dev;

	begin();
	dev = open_ok();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(results); j++) {
			struct fixture f;

			fake->failing = calls[i];
			fake->result = results[j].result;
			CHECK_ERR(import_into(&f, dev), results[j].ret);
			CHECK_SAYS(calls[i]);
			CHECK_SAYS(results[j].name);
			CHECK_EQ(fake->live[FAKE_BUFFER], 0);
			CHECK_EQ(fake->live[FAKE_MEMORY], 0);
			import_finish(&f, -1);
		}
	}
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- order */

static void barriers(uint32_t foreign)
{
	static const struct {
		uint32_t access;
		VkAccessFlags begins, ends;
	} cases[] = {
		{ DLBUF_READ, VK_ACCESS_MEMORY_READ_BIT, 0 },
		{ DLBUF_WRITE, VK_ACCESS_MEMORY_WRITE_BIT,
		  VK_ACCESS_MEMORY_WRITE_BIT },
		{ DLBUF_RW, VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
		  VK_ACCESS_MEMORY_WRITE_BIT },
	};
	struct fixture f;

	REQUIRE_OK(import_into(&f, open_ok()));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_OK(acquire(&f, cases[i].access));
		CHECK_EQ(fake->waits, i);
		CHECK(fake->barrier.buffer == f.vi.buffer.buffer);
		CHECK_EQ(fake->barrier.offset, 0);
		CHECK_EQ(fake->barrier.size, VK_WHOLE_SIZE);
		CHECK_EQ(fake->barrier.srcQueueFamilyIndex, foreign);
		CHECK_EQ(fake->barrier.dstQueueFamilyIndex, 1);
		CHECK_EQ(fake->barrier.dstAccessMask, cases[i].begins);
		CHECK_EQ(fake->dst_stage, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
		CHECK_OK(release(&f, cases[i].access));
		CHECK_EQ(fake->waits, i + 1);
		CHECK_EQ(fake->barrier.srcQueueFamilyIndex, 1);
		CHECK_EQ(fake->barrier.dstQueueFamilyIndex, foreign);
		CHECK_EQ(fake->barrier.srcAccessMask, cases[i].ends);
		CHECK_EQ(fake->src_stage, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
	}
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
}

TEST(handed_over_with_foreign)
{
	begin();
	barriers(VK_QUEUE_FAMILY_FOREIGN_EXT);
	end();
}

TEST(handed_over_without_foreign)
{
	begin();
	fake->physical[0].extensions[2] = NULL;
	barriers(VK_QUEUE_FAMILY_EXTERNAL);
	end();
}

TEST(streams)
{
	VkQueue other = (VkQueue)(void *)&other;
	struct fixture f;
	int fence = 7;

	begin();
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_OK(vulkan_backend.acquire(&f.vi.base, DLBUF_READ, other, -1));
	CHECK(fake->queue == other);
	CHECK_OK(vulkan_backend.release(&f.vi.base, DLBUF_READ, other, &fence));
	CHECK_EQ(fence, -1);
	CHECK(fake->queue == other);
	CHECK_OK(acquire(&f, DLBUF_READ));
	CHECK(fake->queue && fake->queue != other);
	CHECK_OK(release(&f, DLBUF_READ));
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

TEST(accesses_cost_nothing_new)
{
	struct fixture f;

	begin();
	REQUIRE_OK(import_into(&f, open_ok()));
	for (int i = 0; i < 100; i++) {
		CHECK_OK(acquire(&f, DLBUF_READ));
		CHECK_OK(release(&f, DLBUF_READ));
	}
	CHECK_EQ(fake->made[FAKE_FENCE], 1);
	CHECK_EQ(fake->made[FAKE_COMMANDS], 2);
	CHECK_EQ(fake->submits, 200);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

/* However an access fails, nothing of it is under way afterwards. */
TEST(every_failure_of_an_access)
{
	static const struct {
		const char *call;
		unsigned int spared;
		bool acquired;
		int ret;
	} cases[] = {
		{ "vkAllocateCommandBuffers", 0, false, -EIO },
		{ "vkBeginCommandBuffer", 0, false, -EIO },
		{ "vkBeginCommandBuffer", 1, false, -EIO },
		{ "vkEndCommandBuffer", 0, false, -EIO },
		{ "vkEndCommandBuffer", 1, false, -EIO },
		{ "vkCreateFence", 0, false, -EIO },
		{ "vkQueueSubmit", 0, false, -EIO },
		{ "vkQueueSubmit", 1, true, -EIO },
		{ "vkWaitForFences", 0, true, -EIO },
		{ "vkResetFences", 0, true, 0 },
	};

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;
		int ret;

		REQUIRE_OK(import_into(&f, open_ok()));
		fake->drains = 0;
		fake->failing = cases[i].call;
		fake->result = VK_ERROR_DEVICE_LOST;
		fake->spared = cases[i].spared;
		ret = acquire(&f, DLBUF_RW);
		CHECK_EQ(ret, cases[i].acquired ? 0 : -EIO);
		if (!ret) {
			CHECK_EQ(release(&f, DLBUF_RW), cases[i].ret);
			CHECK_EQ(fake->drains, cases[i].ret ? 1 : 0);
		}
		if (cases[i].ret) {
			CHECK_SAYS(cases[i].call);
			CHECK_SAYS("VK_ERROR_DEVICE_LOST");
		}
		fake->failing = NULL;
		import_finish(&f, 0);
		dlbuf_device_close(f.dev);
	}
	end();
}

static void *accesses(void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < 200; i++) {
		uint32_t access = 1 + i % 3;

		CHECK_OK(acquire(f, access));
		CHECK_OK(release(f, access));
	}
	return NULL;
}

TEST(threads)
{
	pthread_t threads[4];
	struct fixture f;

	begin();
	REQUIRE_OK(import_into(&f, open_ok()));
	for (int i = 0; i < 4; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, accesses, &f));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK(fake->made[FAKE_FENCE] <= 4);
	CHECK_EQ(fake->made[FAKE_COMMANDS], 6);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

/* ---------------------------------------------------------------- fences */

/* A device whose semaphores take sync_files in, give them out. */
static void able(bool in, bool out)
{
	fake->physical[0].extensions[3] =
		VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME;
	fake->physical[0].sync_fd_in = in;
	fake->physical[0].sync_fd_out = out;
}

/* What stands for a sync_file: an eventfd that nobody has written to. */
static int pending_fence(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	REQUIRE(fd >= 0);
	return fd;
}

static void signal_fence(int fd)
{
	uint64_t one = 1;

	CHECK_EQ(write(fd, &one, sizeof(one)), sizeof(one));
}

static int acquire_after(struct fixture *f, uint32_t access, int fence)
{
	return vulkan_backend.acquire(&f->vi.base, access, NULL, fence);
}

/* The fence of the work, closed here. */
static int release_fence(struct fixture *f, uint32_t access)
{
	int fence = -1;

	CHECK_OK(vulkan_backend.release(&f->vi.base, access, NULL, &fence));
	CHECK(fence >= 3 && fcntl(fence, F_GETFD) == FD_CLOEXEC);
	return fence;
}

TEST(the_device_waits)
{
	struct fixture f;
	int in, out;

	begin();
	able(true, true);
	REQUIRE_OK(import_into(&f, open_ok()));
	in = pending_fence();
	CHECK_OK(acquire_after(&f, DLBUF_READ, in));
	CHECK_EQ(fake->semaphores_in, 1);
	CHECK_EQ(fake->semaphores_out, 0);
	out = release_fence(&f, DLBUF_READ);
	CHECK_EQ(fake->semaphores_in, 0);
	CHECK_EQ(fake->semaphores_out, 1);
	/* Neither of the two has waited, nor has the work begun. */
	fake->run();
	CHECK_EQ(fake->waits + fake->drains, 0);
	CHECK_EQ(fake->pending, 2);
	CHECK_EQ(fence_signalled(out), 0);
	/* The fence in is the caller's still. */
	signal_fence(in);
	close(in);
	fake->run();
	CHECK_EQ(fence_signalled(out), 1);
	CHECK_EQ(fake->imports, 1);
	CHECK_EQ(fake->exports, 1);
	close(out);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

TEST(without_a_fence_no_semaphore)
{
	struct fixture f;

	begin();
	able(true, true);
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_OK(acquire(&f, DLBUF_RW));
	CHECK_EQ(fake->semaphores_in + fake->semaphores_out, 0);
	CHECK_EQ(fake->imports, 0);
	close(release_fence(&f, DLBUF_RW));
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

/* -1 from the driver is a fence that has signalled. */
TEST(a_driver_that_has_no_fence_to_give)
{
	struct fixture f;

	begin();
	able(true, true);
	fake->no_fd = true;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_OK(acquire(&f, DLBUF_RW));
	CHECK_OK(release(&f, DLBUF_RW));
	CHECK_EQ(fake->exports, 1);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

TEST(no_fence_is_standard_input)
{
	int kept = fcntl(0, F_DUPFD_CLOEXEC, 3), out;
	struct fixture f;

	begin();
	able(true, true);
	REQUIRE(kept >= 3);
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_OK(acquire(&f, DLBUF_RW));
	close(0);
	out = release_fence(&f, DLBUF_RW);
	CHECK(fcntl(0, F_GETFD) < 0);
	CHECK_EQ(dup2(kept, 0), 0);
	close(kept);
	fake->run();
	CHECK_EQ(fence_signalled(out), 1);
	close(out);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

static void check_sync(struct dlbuf_device *dev, enum dlbuf_sync in,
		       enum dlbuf_sync out)
{
	DLBUF_INFO(dlbuf_device_info, info);

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_EQ(info.acquire, in);
	CHECK_EQ(info.release, out);
}

static int see_sync(const struct dlbuf_device_info *info, void *data)
{
	enum dlbuf_sync *sync = data;

	if (strcmp(info->backend, "vulkan"))
		return 0;
	sync[0] = info->acquire;
	sync[1] = info->release;
	return 1;
}

/* Each direction for itself; what a device cannot the caller waits for. */
TEST(what_the_device_cannot)
{
	static const struct {
		bool extension, in, out;
		const char *without;
		enum dlbuf_sync acquire, release;
	} cases[] = {
		{ true, true, true, NULL, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE },
		{ true, true, false, NULL, DLBUF_SYNC_FENCE, DLBUF_SYNC_BLOCKS },
		{ true, false, true, NULL, DLBUF_SYNC_BLOCKS, DLBUF_SYNC_FENCE },
		{ true, false, false, NULL, DLBUF_SYNC_BLOCKS,
		  DLBUF_SYNC_BLOCKS },
		{ false, true, true, NULL, DLBUF_SYNC_BLOCKS,
		  DLBUF_SYNC_BLOCKS },
		{ true, true, true, "vkImportSemaphoreFdKHR",
		  DLBUF_SYNC_BLOCKS, DLBUF_SYNC_FENCE },
		{ true, true, true, "vkGetSemaphoreFdKHR", DLBUF_SYNC_FENCE,
		  DLBUF_SYNC_BLOCKS },
	};

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool out = cases[i].release == DLBUF_SYNC_FENCE;
		enum dlbuf_sync seen[2] = { 0 };
		struct fixture f;

		able(cases[i].in, cases[i].out);
		if (!cases[i].extension)
			fake->physical[0].extensions[3] = NULL;
		fake->without = cases[i].without;
		fake->waits = fake->made[FAKE_SEMAPHORE] = 0;
		REQUIRE_OK(import_into(&f, open_ok()));
		check_sync(f.dev, cases[i].acquire, cases[i].release);
		if (!cases[i].without) {
			CHECK_EQ(dlbuf_device_each(see_sync, seen), 1);
			CHECK_EQ(seen[0], cases[i].acquire);
			CHECK_EQ(seen[1], cases[i].release);
		}
		CHECK_OK(acquire(&f, DLBUF_RW));
		if (out)
			close(release_fence(&f, DLBUF_RW));
		else
			CHECK_OK(release(&f, DLBUF_RW));
		/* Blocking means that the work is over. */
		if (!out)
			CHECK_EQ(fake->pending, 0);
		CHECK_EQ(fake->waits, out ? 0 : 1);
		CHECK_EQ(fake->semaphores_out, out ? 1 : 0);
		CHECK_EQ(fake->made[FAKE_SEMAPHORE],
			 (cases[i].acquire == DLBUF_SYNC_FENCE) + out);
		import_finish(&f, 0);
		dlbuf_device_close(f.dev);
	}
	end();
}

/*
 * A failed acquire has not begun: nothing was submitted. A failed release has
 * ended: nothing is under way.
 */
TEST(every_failure_with_fences)
{
	static const struct {
		const char *call;
		unsigned int spared;
		bool acquired;
	} cases[] = {
		{ "vkAllocateCommandBuffers", 0, false },
		{ "vkCreateFence", 0, false },
		{ "vkCreateSemaphore", 0, false },
		{ "vkCreateSemaphore", 1, false },
		{ "vkImportSemaphoreFdKHR", 0, false },
		{ "vkQueueSubmit", 0, false },
		{ "vkCreateFence", 1, true },
		{ "vkCreateSemaphore", 2, true },
		{ "vkCreateSemaphore", 3, true },
		{ "vkQueueSubmit", 1, true },
		{ "vkGetSemaphoreFdKHR", 0, true },
	};

	begin();
	able(true, true);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;
		int in = pending_fence(), out = 7, ret;

		REQUIRE_OK(import_into(&f, open_ok()));
		fake->busy = true; /* the release needs a job of its own */
		fake->submits = fake->drains = 0;
		fake->failing = cases[i].call;
		fake->result = VK_ERROR_DEVICE_LOST;
		fake->spared = cases[i].spared;
		ktap_forget();
		ret = acquire_after(&f, DLBUF_RW, in);
		signal_fence(in);
		close(in);
		CHECK_EQ(ret, cases[i].acquired ? 0 : -EIO);
		CHECK_EQ(fake->submits, cases[i].acquired ? 1 : 0);
		if (!ret) {
			ret = vulkan_backend.release(&f.vi.base, DLBUF_RW,
						     NULL, &out);
			CHECK_EQ(ret, -EIO);
			CHECK_EQ(out, -1);
			CHECK_EQ(fake->drains, 1);
			CHECK_EQ(fake->pending, 0);
		}
		CHECK_SAYS(cases[i].call);
		fake->failing = NULL;
		import_finish(&f, 0);
		CHECK_EQ(fake->live[FAKE_COMMANDS], 0);
		dlbuf_device_close(f.dev);
	}
	end();
}

/* A fence that cannot be asked about may be in use: it is not used again. */
TEST(a_fence_without_a_status)
{
	struct fixture f;
	int in, out;

	begin();
	able(true, true);
	REQUIRE_OK(import_into(&f, open_ok()));
	in = pending_fence();
	CHECK_OK(acquire_after(&f, DLBUF_READ, in));
	fake->failing = "vkGetFenceStatus";
	fake->result = VK_ERROR_OUT_OF_HOST_MEMORY;
	out = release_fence(&f, DLBUF_READ);
	fake->failing = NULL;
	CHECK_EQ(fake->pending, 2);
	signal_fence(in);
	close(in);
	close(out);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

/* dlbuf_acquire_fence() submits nothing, and a deletion releases all the same. */
TEST(a_release_of_what_was_not_submitted)
{
	struct fixture f;

	begin();
	able(true, true);
	REQUIRE_OK(import_into(&f, open_ok()));
	close(release_fence(&f, DLBUF_RW));
	CHECK_EQ(fake->submits, 1);
	CHECK_EQ(fake->barrier.srcQueueFamilyIndex, 1);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

static bool waiting, finished; /* atomic */

static void look_for_waits(char what)
{
	if (what == 'w' || what == 'd')
		__atomic_store_n(&waiting, true, __ATOMIC_RELEASE);
}

static void *unimport(void *arg)
{
	struct fixture *f = arg;

	vulkan_backend.unimport(&f->vi.base);
	__atomic_store_n(&finished, true, __ATOMIC_RELEASE);
	return NULL;
}

static void check_unimport(const char *failing)
{
	pthread_t thread;
	struct fixture f;
	int in;

	able(true, true);
	REQUIRE_OK(import_into(&f, open_ok()));
	in = pending_fence();
	CHECK_OK(acquire_after(&f, DLBUF_RW, in));
	close(release_fence(&f, DLBUF_RW));
	fake->failing = failing;
	fake->result = VK_ERROR_OUT_OF_HOST_MEMORY;
	fake->look = look_for_waits;
	REQUIRE(!pthread_create(&thread, NULL, unimport, &f));
	while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&finished, __ATOMIC_ACQUIRE))
		sched_yield();
	CHECK(!__atomic_load_n(&finished, __ATOMIC_ACQUIRE));
	signal_fence(in);
	pthread_join(thread, NULL);
	fake->look = NULL;
	fake->failing = NULL;
	CHECK_EQ(fake->pending, 0);
	CHECK_EQ(fake->live[FAKE_BUFFER], 0);
	close(in);
	import_finish(&f, -1);
	dlbuf_device_close(f.dev);
}

TEST(unimport_waits_for_what_is_under_way)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin();
	check_unimport(NULL);
	CHECK_EQ(fake->drains, 0);
	end();
}

TEST(unimport_where_the_wait_fails)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin();
	check_unimport("vkWaitForFences");
	end();
}

/* A thousand accesses, each of them still waiting as the next one begins. */
TEST(jobs_are_used_again)
{
	struct fixture f;

	begin();
	able(true, true);
	REQUIRE_OK(import_into(&f, open_ok()));
	for (int i = 0; i < 1000; i++) {
		int in = pending_fence(), out;

		CHECK_OK(acquire_after(&f, DLBUF_RW, in));
		out = release_fence(&f, DLBUF_RW);
		CHECK_EQ(fence_signalled(out), 0);
		signal_fence(in);
		close(in);
		close(out);
	}
	CHECK_EQ(fake->submits, 2000);
	CHECK_EQ(fake->made[FAKE_FENCE], 2);
	CHECK_EQ(fake->made[FAKE_SEMAPHORE], 4);
	CHECK_EQ(fake->made[FAKE_COMMANDS], 2);
	/* While the device is at none of them they are as many as accesses. */
	fake->busy = true;
	for (int i = 0; i < 10; i++) {
		CHECK_OK(acquire(&f, DLBUF_RW));
		close(release_fence(&f, DLBUF_RW));
	}
	CHECK_EQ(fake->made[FAKE_FENCE], 22);
	fake->busy = false;
	for (int i = 0; i < 10; i++) {
		CHECK_OK(acquire(&f, DLBUF_RW));
		close(release_fence(&f, DLBUF_RW));
	}
	CHECK_EQ(fake->made[FAKE_FENCE], 22);
	import_finish(&f, 0);
	/* Another import has those of the first. */
	REQUIRE_OK(import_into(&f, f.dev));
	CHECK_OK(acquire(&f, DLBUF_RW));
	close(release_fence(&f, DLBUF_RW));
	CHECK_EQ(fake->made[FAKE_FENCE], 22);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

static void *fenced_accesses(void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < 200; i++) {
		uint32_t access = 1 + i % 3;
		int in = eventfd(0, EFD_CLOEXEC);

		CHECK_OK(acquire_after(f, access, i % 2 ? in : -1));
		close(release_fence(f, access));
		signal_fence(in);
		close(in);
	}
	return NULL;
}

TEST(threads_with_fences)
{
	pthread_t threads[4];
	struct fixture f;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin();
	able(true, true);
	REQUIRE_OK(import_into(&f, open_ok()));
	for (int i = 0; i < 4; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, fenced_accesses, &f));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(fake->submits, 1600);
	CHECK_EQ(fake->waits + fake->drains, 0);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

/* ---------------------------------------------------------------- wrapping */

static unsigned int locked, locks, submits_locked, waits_locked;

static void lock_queue(void *data, VkQueue queue)
{
	CHECK(data == &locked && queue);
	locked++;
	locks++;
}

static void unlock_queue(void *data, VkQueue queue)
{
	CHECK(data == &locked && queue);
	locked--;
}

static void look(char what)
{
	if (what == 's')
		submits_locked += locked;
	if (what == 'w')
		waits_locked += locked;
}

/* The application's device: one that dlbuf opened. */
static struct dlbuf_device *open_to_wrap(struct dlbuf_vulkan_device *vk)
{
	struct dlbuf_device *dev = open_ok();

	*vk = (struct dlbuf_vulkan_device){ .size = sizeof(*vk) };
	REQUIRE_OK(dlbuf_vulkan_get_device(dev, vk));
	CHECK(vk->instance && vk->physical_device && vk->device && vk->queue);
	CHECK_EQ(vk->queue_family, 1);
	CHECK_EQ(vk->api_version, VK_API_VERSION_1_2);
	CHECK(vk->buffer_device_address);
	CHECK(!vk->extensions && !vk->lock_queue && !vk->lock_data);
	return dev;
}

TEST(wrap)
{
	static const char *const names[] = {
		"VK_EXT_of_no_interest",
		VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
		VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
		VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME,
	};
	struct dlbuf_vulkan_device vk, again = { .size = sizeof(again) };
	struct dlbuf_device *app, *dev = NULL;
	DLBUF_INFO(dlbuf_device_info, info);
	struct fixture f;

	begin();
	fake->nphysical = 2;
	fake->physical[0].no_import = true;
	app = open_to_wrap(&vk);
	vk.extensions = names;
	vk.nextensions = ARRAY_SIZE(names);
	vk.lock_queue = lock_queue;
	vk.unlock_queue = unlock_queue;
	vk.lock_data = &locked;
	fake->look = look;
	REQUIRE_OK(dlbuf_device_wrap_vulkan(&vk, NULL, &dev));
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.name, "vulkan:1");
	CHECK_STR(info.description, "Able");
	CHECK_EQ(info.uuid[0], 0xab);
	CHECK_EQ(info.device.device_id, 1);
	CHECK_OK(dlbuf_vulkan_get_device(dev, &again));
	CHECK(again.device == vk.device && again.queue == vk.queue);

	REQUIRE_OK(import_into(&f, dev));
	CHECK_OK(acquire(&f, DLBUF_READ));
	CHECK_EQ(fake->barrier.srcQueueFamilyIndex, VK_QUEUE_FAMILY_FOREIGN_EXT);
	CHECK_OK(release(&f, DLBUF_READ));
	CHECK_EQ(submits_locked, 2);
	CHECK_EQ(waits_locked, 0);
	CHECK_OK(dlbuf_vulkan_lock_queue(dev, vk.queue));
	CHECK_EQ(locked, 1);
	CHECK_OK(dlbuf_vulkan_unlock_queue(dev, vk.queue));
	CHECK_EQ(locked, 0);
	CHECK_EQ(locks, 3);
	import_finish(&f, 0);
	dlbuf_device_close(dev);
	/* Nothing of the application's went with it. */
	CHECK_EQ(fake->live[FAKE_DEVICE], 1);
	CHECK_EQ(fake->live[FAKE_INSTANCE], 1);
	fake->look = NULL;
	dlbuf_device_close(app);
	end();
}

TEST(wrap_refusals)
{
	static const char *const too_few[] = {
		VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
	};
	struct dlbuf_vulkan_device vk, bad;
	struct dlbuf_device *app, *dev = NULL;

	begin();
	app = open_to_wrap(&vk);
#define REFUSED(err, ...) do {						\
		bad = vk;						\
		__VA_ARGS__;						\
		CHECK_ERR(dlbuf_device_wrap_vulkan(&bad, NULL, &dev), err); \
	} while (0)
	REFUSED(-EINVAL, bad.size = 0);
	REFUSED(-EINVAL, bad.instance = NULL);
	REFUSED(-EINVAL, bad.physical_device = NULL);
	REFUSED(-EINVAL, bad.device = NULL);
	REFUSED(-EINVAL, bad.queue = NULL);
	REFUSED(-EINVAL, bad.get_instance_proc_addr = NULL);
	REFUSED(-EINVAL, bad.api_version = 0);
	REFUSED(-EINVAL, bad.api_version = VK_API_VERSION_1_0);
	REFUSED(-EINVAL, bad.nextensions = 1);
	REFUSED(-EINVAL, bad.lock_queue = lock_queue);
	REFUSED(-EINVAL, bad.unlock_queue = unlock_queue);
	REFUSED(-EINVAL, bad.physical_device =
		(VkPhysicalDevice)(void *)&fake->physical[1]);
	REFUSED(-EOPNOTSUPP, bad.extensions = too_few, bad.nextensions = 1);
	CHECK_SAYS(VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME);
	fake->without = "vkGetMemoryFdPropertiesKHR";
	REFUSED(-EOPNOTSUPP, (void)0);
	fake->without = NULL;
	fake->physical[0].no_import = true;
	REFUSED(-EOPNOTSUPP, (void)0);
	fake->physical[0].no_import = false;
	CHECK_ERR(dlbuf_device_wrap_vulkan(NULL, NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_vulkan(&vk, NULL, NULL), -EINVAL);
	CHECK(!dev);
	dlbuf_device_close(app);
	end();
}

/* NULL is not a list: the two that an import needs are taken for granted. */
TEST(wrap_without_a_list)
{
	struct dlbuf_vulkan_device vk;
	struct dlbuf_device *app, *dev = NULL;
	struct fixture f;

	begin();
	app = open_to_wrap(&vk);
	vk.buffer_device_address = VK_FALSE;
	REQUIRE_OK(dlbuf_device_wrap_vulkan(&vk, NULL, &dev));
	REQUIRE_OK(import_into(&f, dev));
	CHECK_EQ(f.vi.buffer.address, 0);
	CHECK_OK(acquire(&f, DLBUF_READ));
	CHECK_EQ(fake->barrier.srcQueueFamilyIndex, VK_QUEUE_FAMILY_EXTERNAL);
	/* Its own lock may be taken again by the thread that holds it. */
	CHECK_OK(dlbuf_vulkan_lock_queue(dev, vk.queue));
	CHECK_OK(release(&f, DLBUF_READ));
	CHECK_OK(dlbuf_vulkan_unlock_queue(dev, vk.queue));
	import_finish(&f, 0);
	dlbuf_device_close(dev);
	dlbuf_device_close(app);
	end();
}

TEST(not_a_vulkan_device)
{
	struct dlbuf_vulkan_device vk = { .size = sizeof(vk) };
	struct dlbuf_device *dev = NULL;

	CHECK_ERR(dlbuf_vulkan_get_device(NULL, &vk), -EINVAL);
	CHECK_ERR(dlbuf_vulkan_lock_queue(NULL, NULL), -EINVAL);
	if (dlbuf_device_open("cpu", NULL, &dev))
		return;
	CHECK_ERR(dlbuf_vulkan_get_device(dev, &vk), -EINVAL);
	CHECK_ERR(dlbuf_vulkan_lock_queue(dev, NULL), -EINVAL);
	CHECK_ERR(dlbuf_vulkan_unlock_queue(dev, NULL), -EINVAL);
	dlbuf_device_close(dev);
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static int walk(void)
{
	struct dlbuf_device *dev = NULL;
	struct fixture f;
	int in, out = -1, ret;

	ret = dlbuf_device_open("vulkan", NULL, &dev);
	if (ret)
		return ret;
	in = dev->acquire_sync == DLBUF_SYNC_FENCE ? pending_fence() : -1;
	ret = import_into(&f, dev);
	if (!ret) {
		ret = acquire_after(&f, DLBUF_RW, in);
		if (in != -1)
			signal_fence(in);
		if (!ret) {
			ret = vulkan_backend.release(&f.vi.base, DLBUF_RW,
						     NULL, &out);
			CHECK(!ret || (out == -1 && !fake->pending));
		}
		import_finish(&f, 0);
	} else {
		import_finish(&f, -1);
	}
	if (in != -1)
		close(in);
	if (out != -1)
		close(out);
	dlbuf_device_close(dev);
	return ret;
}

static void check_walks(void)
{
	unsigned long calls;

	fault_at(0);
	CHECK_OK(walk());
	calls = fault_count();
	CHECK(calls > 20);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		fault_at(n);
		ret = walk();
		fault_at(0);
		CHECK(!ret || dlbuf_last_error()[0]);
		for (int kind = 0; kind < FAKE_KINDS; kind++)
			CHECK_EQ(fake->live[kind], 0);
		CHECK_MSG(!fake->wrong, "call %lu of %lu", n, calls);
		fake->wrong = 0;
	}
}

TEST(every_call_fails_once)
{
	begin();
	check_walks();
	end();
}

TEST(every_call_fails_once_with_fences)
{
	begin();
	able(true, true);
	check_walks();
	fake->busy = true;
	check_walks();
	end();
}
#endif
#else
TEST(vulkan)
{
	SKIP("the backend is not built");
}
#endif

KTAP_MAIN()
