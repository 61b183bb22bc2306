// SPDX-License-Identifier: MIT
/*
 * HIP's half of the bridge to Vulkan, against doubles of both (tests/doubles): Vulkan's
 * memory leaves as a dma-buf, and host functions of the stream make the copies.
 * hip_queue, driver `bridge`, has the cases of lib/queue with it.
 */
#include "ktap.h"

#if defined(CONFIG_BACKEND_HIP) && defined(CONFIG_BACKEND_VULKAN)
#include "hip_backend.h"
#include "cuda_vulkan.h"

static struct fixture f;

static int try_bridge(struct dlbuf_device *dev)
{
	return import_as(&f, dev, PATH_BIT(DLBUF_PATH_BRIDGE), DLBUF_RW);
}

static void all(void) { }
static void elsewhere(void) { vk->physical[0].pci = 2; }
static void keeps_memory(void) { vk->physical[0].dma_buf_out = false; }
static void imports_nothing(void) { vk->physical[0].no_import = true; }
static void no_timelines_shared(void) { vk->physical[0].timeline_out = false; }
static void no_fences(void)
{
	vk->physical[0].sync_fd_in = vk->physical[0].sync_fd_out = false;
}

/* Nothing is needed but memory. The deviceUUID is another one. */
TEST(what_a_bridge_needs)
{
	static const struct {
		void (*lacks)(void);
		const char *why;
		uint32_t flags;
	} cases[] = {
		{ all, NULL, 0 },
		{ no_timelines_shared, NULL, 0 },
		{ no_fences, NULL, 0 },
		{ elsewhere,
		  "vulkan: none of 1 devices is at PCI address 0010:01:03", 0 },
		{ keeps_memory, "memory is not exportable to the other API", 0 },
		{ imports_nothing, "vulkan: ", 0 },
		{ all, "DLBUF_DEVICE_NO_BRIDGE", DLBUF_DEVICE_NO_BRIDGE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		DLBUF_OPTS(dlbuf_device_opts, opts, .flags = cases[i].flags);
		struct dlbuf_device *dev = NULL;
		int ret;

		begin_both("memfds");
		vk->physical[0].uuid = 0x11;
		cases[i].lacks();
		REQUIRE_OK(dlbuf_device_open("hip", &opts, &dev));
		ktap_forget();
		ret = try_bridge(dev);
		CHECK_EQ(ret, cases[i].why ? -EOPNOTSUPP : 0);
		if (cases[i].why)
			CHECK_SAYS(cases[i].why);
		if (cases[i].flags)
			CHECK_EQ(vk->made[FAKE_INSTANCE], 0);
		CHECK_EQ(dev->acquire_sync, DLBUF_SYNC_FENCE);
		CHECK_EQ(dev->release_sync, DLBUF_SYNC_EVENT);
		import_finish(&f, ret);
		dlbuf_device_close(dev);
		end_both();
	}
}

/* A copy that fails has no caller: only the next call reports it. */
BOTH_CASE(a_copy_fails, "memfds")
{
	struct app app;

	import_ok(&f, open_hip(), DLBUF_PATH_BRIDGE);
	app_begin(&app, f.dev);
	vk->failing = "vkQueueSubmit";
	vk->result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	drain(&app);
	vk->failing = NULL;
	CHECK_ERR_SAYS(f.dev->backend->release(f.imp, DLBUF_RW, ON(app.stream), NULL, NULL), -EIO,
		       "hip:0: the last access to this dma-buf failed on the stream");
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	close(release(&f, DLBUF_READ, app.stream));
	app_end(&app);
	give_up(&f);
}

/* The driver would believe the size. */
BOTH_CASE(memory_that_is_smaller, "memfds")
{
	break_call("hipExternalMemoryGetMappedBuffer", HIPABI_UNKNOWN, 0);
	CHECK_ERR_SAYS(try_bridge(open_hip()), -EOPNOTSUPP, "hipExternalMemoryGetMappedBuffer");
	import_finish(&f, -1);
	heal();
	vk->shrinks = 4096;
	CHECK_ERR(try_bridge(f.dev), -EOPNOTSUPP);
	CHECK_SAYS("vulkan: the exported dma-buf has 8192 bytes, not 12288");
	import_finish(&f, -1);
	dlbuf_device_close(f.dev);
}

#else
KTAP_SKIPPED("the backends are not built")
#endif

KTAP_MAIN()
