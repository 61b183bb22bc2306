// SPDX-License-Identifier: MIT
/*
 * The Vulkan backend against a double of the loader (tests/doubles/vulkan.h):
 * its requests to a driver, its use of the results, and that it frees
 * everything after any failure.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_VULKAN
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "bracket.h"

#include "vulkan_double.h"

/* ---------------------------------------------------------------- opening */

DOUBLE_CASE(selectors)
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
		{ "vulkan:pci=0010:0c:03.1", "vulkan:2", 0 },
		{ "vulkan:pci=0010:0b:03.1", NULL, -EOPNOTSUPP },
		{ "vulkan:pci=0c:03.1", NULL, -ENODEV },
		{ "vulkan:pci=0010:0c:03", NULL, -EINVAL },
		{ "vulkan:drm=/dev/null", NULL, -EINVAL },
	};

	fake->nphysical = 3;
	fake->physical[0].name = "Lame";
	fake->physical[0].no_import = true;
	fake->physical[2].name = "The Third";
	fake->physical[2].uuid = 0xcd;
	fake->physical[0].pci = 0xb;
	fake->physical[2].pci = 0xc;
	fake->physical[0].extensions[3] = fake->physical[2].extensions[3] =
		VK_EXT_PCI_BUS_INFO_EXTENSION_NAME;
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
}

/* The driver's DRM nodes; drm= compares them with a node. */
DOUBLE_CASE(drm_nodes)
{
	const struct device_place *place;
	struct dlbuf_device *dev;

	add_extension(VK_EXT_PHYSICAL_DEVICE_DRM_EXTENSION_NAME);
	fake->physical[0].primary = 1;
	for (int render = 0; render <= 129; render += 129) {
		fake->physical[0].render = render;
		dev = open_ok();
		place = &vulkan_device(dev)->physical.place;
		CHECK_EQ(place->pci, 0);
		CHECK_EQ(place->drm[0], makedev(226, 1));
		CHECK_EQ(place->drm[1], render ? makedev(226, 129) : 0);
		dlbuf_device_close(dev);
	}
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

DOUBLE_CASE(each_says_why_not)
{
	struct seen seen = { 0 };

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
	CHECK_STR(seen.reason[3], "blocks: the driver has no "
		  "VK_KHR_external_semaphore_fd");
	CHECK_EQ(fake->made[FAKE_DEVICE], 0);
}

static unsigned int warnings;

static void count_warnings(void *data, enum dlbuf_log_level level,
			   const char *text)
{
	warnings += level <= DLBUF_LOG_WARN;
}

/* An absent driver logs nothing; a driver that is present and fails does. */
DOUBLE_CASE(absent_is_not_broken)
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

	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_WARN);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		warnings = 0;
		fail_call(cases[i].failing, cases[i].result);
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
}

DOUBLE_CASE(old_loaders)
{
	struct dlbuf_device *dev = NULL;

	fake->loader_version = 0;
	CHECK_ERR(dlbuf_device_open("vulkan", NULL, &dev), -EOPNOTSUPP);
	fake->loader_version = VK_API_VERSION_1_1;
	dlbuf_device_close(open_ok());
	CHECK_EQ(fake->api_version, VK_API_VERSION_1_1);
	/* Features of 1.2 are not enabled on a device of 1.1. */
	CHECK(!fake->address_enabled);
	fake->without = "vkGetMemoryFdPropertiesKHR";
	CHECK_ERR(dlbuf_device_open("vulkan", NULL, &dev), -EOPNOTSUPP);
	CHECK_SAYS("vkGetMemoryFdPropertiesKHR");
}

/* ---------------------------------------------------------------- importing */

TEST(what_is_imported)
{
	begin();
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK(f.vi.base.data == &f.vi.buffer);
	CHECK(f.vi.buffer.buffer && f.vi.buffer.memory && f.vi.buffer.device);
	CHECK_EQ(f.vi.buffer.size, IMPORT_BYTES);
	CHECK_EQ(f.vi.buffer.address, 0x1000);
	CHECK(fake->address_enabled && fake->address_memory);
	CHECK(!fake->dedicated);
	CHECK_EQ(fake->memory_type, 1); /* 0 is protected */
	CHECK_EQ(fake->enabled, 3);
	end_import();
}

TEST(address_of_a_1_1_device)
{
	begin();
	fake->physical[0].version = VK_API_VERSION_1_1;
	fake->physical[0].extensions[3] =
		VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_EQ(f.vi.buffer.address, 0x2000);
	end_import();
}

TEST(no_address_where_imports_have_none)
{
	begin();
	fake->physical[0].no_import_with_address = true;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_EQ(f.vi.buffer.address, 0);
	CHECK(!fake->address_enabled && !fake->address_memory);
	end_import();
}

TEST(dedicated_allocations)
{
	begin();
	fake->physical[0].dedicated_only = true;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK(fake->dedicated);
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	fake->physical[0].dedicated_only = false;
	fake->physical[0].prefers_dedicated = true;
	/* The allocation has the size that the buffer needs, not that of the dma-buf. */
	fake->physical[0].granularity = fake->physical[0].prefetch = 1;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK(fake->dedicated);
	end_import();
}

DOUBLE_CASE(memory_that_does_not_fit)
{
	struct dlbuf_device *dev AUTO_DEV = open_ok();

	fake->physical[0].granularity = 65536;
	CHECK_ERR_SAYS(import_into(&f, dev), -EOPNOTSUPP, "65536");
	import_finish(&f, -1);
	fake->physical[0].granularity = 4096;
	fake->physical[0].fd_types = 0x04;
	REQUIRE_OK(import_into(&f, dev));
	CHECK_EQ(fake->memory_type, 2);
	import_finish(&f, 0);
	fake->physical[0].fd_types = 0x09; /* protected, or AMD's */
	CHECK_ERR(import_into(&f, dev), -EOPNOTSUPP);
	import_finish(&f, -1);
	fake->physical[0].fd_types = 0x56;
	fake->physical[0].full_types = 0x06;
	REQUIRE_OK(import_into(&f, dev));
	CHECK_EQ(fake->memory_type, 4);
	import_finish(&f, 0);
	fake->physical[0].full_types = 0x56;
	CHECK_ERR(import_into(&f, dev), -ENOMEM);
	CHECK_EQ(fake->memory_type, 6);
	import_finish(&f, -1);
}

DOUBLE_CASE(the_largest_buffer)
{
	static const struct {
		bool extension;
		uint64_t found, max;
		int ret;
	} cases[] = {
		{ true, 1 << 30, IMPORT_BYTES, 0 },
		{ true, 1 << 30, IMPORT_BYTES - 1, -EOPNOTSUPP },
		{ false, UINT64_MAX, UINT64_MAX, 0 },
	};

	fake->physical[0].max_buffer = 1 << 30;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_device *dev AUTO_DEV = NULL;

		fake->physical[0].extensions[3] = cases[i].extension ?
						  "VK_KHR_maintenance4" : NULL;
		dev = open_ok();
		CHECK_EQ(vulkan_device(dev)->physical.max_buffer, cases[i].found);
		vulkan_device(dev)->physical.max_buffer = cases[i].max;
		CHECK_EQ(import_into(&f, dev), cases[i].ret);
		if (cases[i].ret)
			CHECK_SAYS("a VkBuffer has");
		import_finish(&f, cases[i].ret);
	}
}

/* V3DV of Mesa 25: the rules of vulkan.c of the doubles, as seen on cts@v3dv. */
TEST(a_driver_that_reads_ahead)
{
	begin();
	fake->physical[0].prefetch = 64;
	fake->physical[0].granularity = 256;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_EQ(f.dev->slack, 256);
	CHECK_EQ(f.vi.buffer.size, IMPORT_BYTES - 256);
	CHECK_OK(import_fits(&f.vi.base, IMPORT_BYTES - 256));
	CHECK_ERR(import_fits(&f.vi.base, IMPORT_BYTES - 255), -ERANGE);
	CHECK_SAYS("cannot use the last 256: allocate a page more");
	CHECK_ERR(import_fits(&f.vi.base, IMPORT_BYTES + 1), -ERANGE);
	end_import();
}

/* ANV: a dma-buf that another part of the process has imported without an address. */
DOUBLE_CASE(the_other_choice_of_an_address)
{
	struct vulkan_device *dev;
	VkDeviceMemory theirs;

	fake->physical[0].one_address = true;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_EQ(f.vi.buffer.address, 0x1000);
	CHECK(vulkan_backend.unimport(&f.vi.base, true));
	f.vi.buffer.address = 0;
	dev = vulkan_device(f.dev);
	REQUIRE_OK(vulkan_import_memory(dev, f.vi.base.fd, IMPORT_BYTES, 1, false, NULL,
					&theirs));
	REQUIRE_OK(vulkan_backend.import(&f.vi.base));
	CHECK_EQ(f.vi.buffer.address, 0);
	import_finish(&f, 0);
	dev->instance.vk.FreeMemory(dev->handle, theirs, NULL);
	dlbuf_device_close(f.dev);
}

/* A copy is not the dma-buf: the CPU does not see the device's writes there. */
TEST(imports_that_share_nothing)
{
	struct trial_buffer t;
	bool shares;

	for (int apart = 0; apart < 2; apart++) {
		begin();
		fake->physical[0].apart = apart;
		/* The end of a buffer is V3DV's. */
		fake->physical[0].prefetch = 64;
		fake->physical[0].granularity = 256;
		REQUIRE_OK(import_into(&f, open_ok()));
		t.fd = f.vi.base.fd;
		t.map = mmap(NULL, IMPORT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t.fd, 0);
		REQUIRE(t.map != MAP_FAILED);
		shares = apart;
		CHECK_OK(vulkan_try_buffer(f.dev, &t, &shares));
		CHECK_EQ(shares, !apart);
		CHECK_EQ(fake->copies, 1);
		munmap(t.map, IMPORT_BYTES);
		end_import();
	}
}

/* A trial that fails leaves nothing, and does not affect imports. */
TEST(every_refusal_of_a_trial)
{
	static const char *const calls[] = {
		"vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkCreateFence",
		"vkAllocateCommandBuffers", "vkBeginCommandBuffer", "vkEndCommandBuffer",
		"vkQueueSubmit", "vkWaitForFences",
	};
	uint8_t page[TRIAL_PAGE];
	bool shares = true;

	begin();
	REQUIRE_OK(import_into(&f, open_ok()));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		fail_call(calls[i], VK_ERROR_OUT_OF_HOST_MEMORY);
		CHECK_ERR(vulkan_try_buffer(f.dev, &(struct trial_buffer){ f.vi.base.fd, page },
					    &shares), -ENOMEM);
		CHECK_SAYS(calls[i]);
		CHECK(shares);
		CHECK_EQ(fake->live[FAKE_BUFFER] + fake->live[FAKE_MEMORY], 2);
		CHECK_EQ(fake->live[FAKE_COMMANDS] + fake->live[FAKE_FENCE], 0);
	}
	fake->failing = NULL;
	end_import();
}

DOUBLE_CASE(every_refusal_of_an_import)
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
	struct dlbuf_device *dev AUTO_DEV = open_ok();

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(results); j++) {
			fail_call(calls[i], results[j].result);
			CHECK_ERR_SAYS(import_into(&f, dev), results[j].ret, calls[i]);
			CHECK_SAYS(results[j].name);
			CHECK_EQ(fake->live[FAKE_BUFFER], 0);
			CHECK_EQ(fake->live[FAKE_MEMORY], 0);
			import_finish(&f, -1);
		}
	}
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

static void look(const char *call)
{
	if (!strcmp(call, "vkQueueSubmit"))
		submits_locked += locked;
	if (!strcmp(call, "vkWaitForFences"))
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

DOUBLE_CASE(wrap)
{
	static const char *const names[] = {
		"VK_EXT_of_no_interest",
		VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
		VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
		VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME,
	};
	struct dlbuf_vulkan_device vk, again = { .size = sizeof(again) };
	struct dlbuf_device *app AUTO_DEV = NULL, *dev = NULL;
	DLBUF_INFO(dlbuf_device_info, info);

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
	CHECK_STR(info.reason, "blocks: VK_KHR_external_semaphore_fd is not "
		  "among the extensions given");
	CHECK_OK(dlbuf_vulkan_get_device(dev, &again));
	CHECK(again.device == vk.device && again.queue == vk.queue);

	REQUIRE_OK(import_into(&f, dev));
	CHECK_OK(acquire(DLBUF_READ));
	CHECK_EQ(fake->barrier.srcQueueFamilyIndex, VK_QUEUE_FAMILY_FOREIGN_EXT);
	CHECK_OK(release(DLBUF_READ));
	CHECK_EQ(submits_locked, 2);
	CHECK_EQ(waits_locked, 0);
	CHECK_OK(dlbuf_vulkan_lock_queue(dev, vk.queue));
	CHECK_EQ(locked, 1);
	CHECK_OK(dlbuf_vulkan_unlock_queue(dev, vk.queue));
	CHECK_EQ(locked, 0);
	CHECK_EQ(locks, 3);
	import_finish(&f, 0);
	dlbuf_device_close(dev);
	/* No object of the application's was destroyed with it. */
	CHECK_EQ(fake->live[FAKE_DEVICE], 1);
	CHECK_EQ(fake->live[FAKE_INSTANCE], 1);
	fake->look = NULL;
}

static void yield(const char *call)
{
	if (!strcmp(call, "vkQueueSubmit"))
		sched_yield();
}

static void *access_often(void *of)
{
	int fence;

	for (int i = 0; i < 200; i++) {
		CHECK_OK(vulkan_backend.acquire(of, DLBUF_RW, ON(NULL), -1));
		CHECK_OK(vulkan_backend.release(of, DLBUF_RW, ON(NULL), &fence, NULL));
	}
	return of;
}

/* They have one lock, which lives as long as one of them. */
TEST(two_wraps_of_one_device)
{
	struct dlbuf_device *app, *dev[2] = { NULL };
	struct dlbuf_vulkan_device vk;
	struct fixture two[2];
	pthread_t thread;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin();
	app = open_to_wrap(&vk);
	for (int i = 0; i < 2; i++) {
		REQUIRE_OK(dlbuf_device_wrap_vulkan(&vk, NULL, &dev[i]));
		REQUIRE_OK(import_into(&two[i], dev[i]));
		/* The threads below need not meet. */
		CHECK(vulkan_device(dev[i])->lock_data ==
		      vulkan_device(app)->lock_data);
	}
	fake->look = yield;
	REQUIRE(!pthread_create(&thread, NULL, access_often, &two[0].vi.base));
	access_often(&two[1].vi.base);
	pthread_join(thread, NULL);
	fake->look = NULL;
	CHECK_EQ(fake->submits, 800);
	import_finish(&two[0], 0);
	dlbuf_device_close(dev[0]);
	access_often(&two[1].vi.base);
	import_finish(&two[1], 0);
	CHECK_OK(dlbuf_vulkan_lock_queue(app, vk.queue));
	dlbuf_device_close(dev[1]);
	CHECK_OK(dlbuf_vulkan_unlock_queue(app, vk.queue));
	dlbuf_device_close(app);
	end();
}

TEST(wrap_refusals)
{
	static const char *const too_few[] = {
		VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
	};
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = 0x10000);
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
	CHECK_SAYS(VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME
		   ", which imports dma-bufs, is not among the extensions given");
	fake->without = "vkGetMemoryFdPropertiesKHR";
	REFUSED(-EOPNOTSUPP, (void)0);
	fake->without = NULL;
	fake->physical[0].no_import = true;
	REFUSED(-EOPNOTSUPP, (void)0);
	fake->physical[0].no_import = false;
	REFUSED(-EIO, fail_call("vkEnumeratePhysicalDevices", VK_ERROR_UNKNOWN));
	fake->failing = NULL;
	CHECK_ERR(dlbuf_device_wrap_vulkan(NULL, NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_vulkan(&vk, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_vulkan(&vk, &opts, &dev), -EINVAL);
	CHECK_SAYS("device flags 0x10000 are unknown");
	CHECK(!dev);
	dlbuf_device_close(app);
	end();
}

/* NULL is not a list: the two that an import needs are taken for granted. */
DOUBLE_CASE(wrap_without_a_list)
{
	struct dlbuf_vulkan_device vk;
	struct dlbuf_device *app = open_to_wrap(&vk), *dev = NULL;

	vk.buffer_device_address = VK_FALSE;
	REQUIRE_OK(dlbuf_device_wrap_vulkan(&vk, NULL, &dev));
	REQUIRE_OK(import_into(&f, dev));
	CHECK_EQ(f.vi.buffer.address, 0);
	CHECK_OK(acquire(DLBUF_READ));
	CHECK_EQ(fake->barrier.srcQueueFamilyIndex, VK_QUEUE_FAMILY_EXTERNAL);
	/* Its own lock may be taken again by the thread that holds it. */
	CHECK_OK(dlbuf_vulkan_lock_queue(dev, vk.queue));
	CHECK_OK(release(DLBUF_READ));
	CHECK_OK(dlbuf_vulkan_unlock_queue(dev, vk.queue));
	import_finish(&f, 0);
	dlbuf_device_close(dev);
	dlbuf_device_close(app);
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
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
