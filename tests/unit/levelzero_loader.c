// SPDX-License-Identifier: MIT
/*
 * The real loader of Level Zero: without a driver, and with the double of one
 * (tests/doubles/levelzero.h) behind the loader's validation layer.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_LEVELZERO
#include "levelzero_backend.h"

static void need_loader(void)
{
	void *lib = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		SKIP("%s", dlerror());
	KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "the loader's");
#define X(name, needed, type)						\
	lz.name = (__typeof__(lz.name))dlsym(lib, "ze" #name);
	LEVELZERO_FUNCTIONS(X)
#undef X
	unsetenv("DLBUF_LEVELZERO_LIBRARY");
}

TEST(no_driver)
{
	struct dlbuf_device *dev = NULL;

	need_loader();
	setenv("ZE_ENABLE_ALT_DRIVERS", "/nonexistent/libze_none.so.1", 1);
	for (int i = 0; i < 2; i++) {
		CHECK_ERR(dlbuf_device_open("levelzero", NULL, &dev), -ENODEV);
		CHECK_STR(dlbuf_last_error(), "levelzero: zeInit: "
			  "ZE_RESULT_ERROR_UNINITIALIZED (0x78000001), "
			  "there is no driver or no device");
	}
	CHECK_ERR(dlbuf_device_wrap_levelzero(&dev, &dev, NULL, &dev), -ENODEV);
	CHECK(!dev);
}

/* Every call of an access and of an export passes the checks of the layer. */
TEST(validation)
{
	struct dlbuf_exported out = { .size = sizeof(out) };
	int64_t bytes = 3 << 20, strides = 1;
	DLTensor t = { .device = { kDLOneAPI, 0 }, .ndim = 1,
		       .dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		       .strides = &strides };
	int in = pending_fence(), fence;
	struct dlbuf_device *dev;
	struct fixture f;
	struct app app;

	need_loader();
	fake_lib = double_open("liblevelzero.so", "ZE_ENABLE_ALT_DRIVERS");
	setenv("ZE_ENABLE_VALIDATION_LAYER", "1", 1);
	setenv("ZE_ENABLE_PARAMETER_VALIDATION", "1", 1);
	fake_fn = (fake_levelzero_fn)dlsym(fake_lib, "fake_levelzero");
	fake = fake_fn(false);
	fake->preset("memfds");
	dev = open_ok();
	import_ok(&f, dev, DLBUF_PATH_DIRECT);
	app_begin(&app, dev);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, in));
	gpu_sets(&app, &f, 0, 100, 0x5c);
	fence = release(&f, DLBUF_RW, app.stream);
	signal_fence(in);
	while (!signalled(fence))
		sched_yield();
	CHECK_EQ(f.bytes[99], 0x5c);
	{
		const ze_device_mem_alloc_desc_t desc = {
			.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
		};

		REQUIRE(!lz.MemAllocDevice(app.dev.context, &desc, bytes, 0,
					   app.dev.device, &t.data));
	}
	CHECK_OK(dlbuf_export(dev, &t, NULL, &out));
	close(out.fd);
	CHECK_EQ(lz.MemFree(app.dev.context, t.data), 0);
	close(in);
	close(fence);
	drain(&app);
	app_end(&app);
	give_up(&f);
	settle();
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
