// SPDX-License-Identifier: MIT
/*
 * The CUDA backend against a double of the driver (tests/doubles/cuda.h): which
 * device and which context.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include <dlbuf/prepare.h>

#include "cuda_backend.h"

/* ---------------------------------------------------------------- opening */

/* The toolkit's library to link with has every function, and each says 34. */
static cuda_result says_34(cuda_result result, const char **text)
{
	return CUABI_STUB_LIBRARY;
}

TEST(the_toolkits_library_says_what_it_is)
{
	const struct cuda_api none = {
		.GetErrorName = says_34, .GetErrorString = says_34,
	};

	CHECK_EQ(cuda_check(&none, CUABI_STUB_LIBRARY, CUDA_FUNCTION(Init)), -ENODEV);
	CHECK_SAYS("cuInit: CUDA_ERROR_STUB_LIBRARY (34), the toolkit's library");
	CHECK_EQ(cuda_check(&none, CUABI_UNKNOWN, CUDA_FUNCTION(Init)), -EIO);
	CHECK_SAYS("cuInit: a CUresult (999), unknown");
}

static unsigned int warnings;

static void count_warnings(void *data, enum dlbuf_log_level level,
			   const char *text)
{
	warnings += level <= DLBUF_LOG_WARN;
}

/* A driver without devices is asked once, because asking costs it fds. */
DOUBLE_CASE(no_device, "none")
{
	struct dlbuf_device *dev = NULL;

	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_WARN);
	watch("cuInit");
	for (int i = 0; i < 3; i++) {
		CHECK_ERR_SAYS(dlbuf_device_open("cuda", NULL, &dev), -ENODEV, "cuInit");
		CHECK_SAYS("CUDA_ERROR_NO_DEVICE (100)");
	}
	CHECK_EQ(seen, 1);
	CHECK_EQ(warnings, 0);
	CHECK(!dev);
}

/* A driver that is present and fails is reported, and tried again. */
DOUBLE_CASE(another_drivers_library, "mismatch")
{
	struct dlbuf_device *dev AUTO_DEV = NULL;

	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_WARN);
	watch("cuInit");
	CHECK_ERR_SAYS(dlbuf_device_open("cuda", NULL, &dev), -EIO, "cuInit");
	CHECK_SAYS("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
	CHECK(warnings);
	fake->init = CUABI_SUCCESS;
	CHECK_OK(dlbuf_device_open("cuda", NULL, &dev));
	CHECK_EQ(seen, 2);
}

/* An attribute that an old driver does not know counts as a missing feature. */
DOUBLE_CASE(attributes_unknown, "")
{
	struct cuda_device *dev;

	break_call("cuDeviceGetAttribute", CUABI_INVALID_VALUE, 0);
	dev = cuda_device_of(open_ok());
	CHECK(!dev->queue.registers && !dev->exports);
	CHECK(strstr(dev->queue.caps.why_not, "no timeline semaphores"));
	heal();
	dlbuf_device_close(&dev->queue.base);
}

static int keep(const struct dlbuf_device_info *info, void *data)
{
	if (!strcmp(info->backend, "cuda"))
		*(struct dlbuf_device_info *)data = *info;
	return 0;
}

TEST(an_old_driver)
{
	struct dlbuf_exported out = { .size = sizeof(out) };
	DLTensor t = { .data = &out, .device = { kDLCUDA, 0 } };
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev;

	begin_with("libcuda-old.so", "");
	fake->version = 11020;
	dev = open_ok();
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_EQ(info.acquire, DLBUF_SYNC_BLOCKS);
	CHECK_STR(info.driver, "CUDA 11.2");
	CHECK_EQ(info.uuid[0], 0xc0);
	CHECK_ERR(dlbuf_export(dev, &t, NULL, &out), -EOPNOTSUPP);
	CHECK_SAYS("CUDA 11.2 has no cuMemGetHandleForAddressRange()");
	dlbuf_device_close(dev);
	CHECK_OK(dlbuf_device_each(keep, &info));
	CHECK_EQ(info.acquire, DLBUF_SYNC_BLOCKS);
	end();
}

/* ---------------------------------------------------------------- contexts */

static void *context_of(struct dlbuf_device *dev)
{
	struct dlbuf_cuda_device cuda = { .size = sizeof(cuda) };

	REQUIRE_OK(dlbuf_cuda_get_device(dev, &cuda));
	return cuda.context;
}

static cuda_context current(void)
{
	cuda_context ctx = NULL;

	CHECK_EQ(cu.CtxGetCurrent(&ctx), 0);
	return ctx;
}

DOUBLE_CASE(the_current_context_is_taken, "two")
{
	struct dlbuf_device *a, *b;
	cuda_context ctx, primary;

	CHECK_EQ(cu.Init(0), 0);
	REQUIRE(!cux.CtxCreate(&ctx, 0, 1));
	a = open_as("cuda:1");
	CHECK(context_of(a) == (void *)ctx);
	CHECK_EQ(fake->made[FAKE_CONTEXT], 1);
	/* One of another device is not. */
	b = open_as("cuda:0");
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&primary, 0), 0);
	CHECK(context_of(b) == (void *)primary && primary != ctx);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(0), 0);
	CHECK(current() == ctx);
	dlbuf_device_close(a);
	dlbuf_device_close(b);
	CHECK(current() == ctx);
	CHECK_EQ(cux.CtxDestroy(ctx), 0);
}

/* ---------------------------------------------------------------- kernels */

#ifdef CONFIG_PREPARE_CUDA
static const struct dlbuf_frame grey = PICTURE(64, 48, DLBUF_FOURCC('G', 'R', 'E', 'Y'),
					       DLBUF_CODE_V4L2, 1);
static const struct dlbuf_prepare_opts small = { .size = sizeof(small), .width = 8, .height = 8 };

static void *make_plan(void *dev)
{
	struct dlbuf_prepare *plan = NULL;

	CHECK_OK(dlbuf_prepare_create(dev, &grey, &small, &plan));
	dlbuf_prepare_destroy(plan);
	return NULL;
}

static pthread_barrier_t both;

static void load_together(const char *name)
{
	if (!strcmp(name, "cuModuleLoadData"))
		pthread_barrier_wait(&both);
}

/* One that cannot be loaded; and one that two threads load at once. */
DOUBLE_CASE(the_kernel_is_loaded_once, "")
{
	struct dlbuf_prepare *plan = NULL;
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	pthread_t threads[2];

	break_call("cuModuleLoadData", CUABI_JIT_COMPILER_NOT_FOUND, 0);
	CHECK_ERR(dlbuf_prepare_create(dev, &grey, &small, &plan), -EOPNOTSUPP);
	CHECK_SAYS("cuModuleLoadData: CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221)");
	heal();
	pthread_barrier_init(&both, NULL, 2);
	fake->look = load_together;
	for (int i = 0; i < 2; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, make_plan, dev));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	fake->look = NULL;
	pthread_barrier_destroy(&both);
	CHECK_EQ(fake->live[FAKE_MODULE], 1);
}
#endif

DOUBLE_CASE(wrap, "two")
{
	struct dlbuf_device *dev = NULL;
	DLBUF_INFO(dlbuf_device_info, info);
	cuda_context zero, one;
	struct fixture f;

	CHECK_EQ(cu.Init(0), 0);
	REQUIRE(!cux.CtxCreate(&zero, 0, 0) && !cux.CtxCreate(&one, 0, 1));
	REQUIRE_OK(dlbuf_device_wrap_cuda(one, NULL, &dev));
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.name, "cuda:1");
	CHECK_EQ(info.uuid[0], 0xc1);
	CHECK(context_of(dev) == (void *)one);
	CHECK(current() == one);
	CHECK_EQ(cux.CtxSetCurrent(zero), 0);
	import_ok(&f, dev, DLBUF_PATH_HOST);
	CHECK(current() == zero);
	import_finish(&f, 0);
	dlbuf_device_close(dev);
	REQUIRE_OK(dlbuf_device_wrap_cuda(zero, NULL, &dev));
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.name, "cuda:0");
	dlbuf_device_close(dev);
	/* They are the application's still. */
	CHECK_EQ(fake->made[FAKE_CONTEXT], 2);
	CHECK_EQ(fake->live[FAKE_CONTEXT], 2);
	CHECK_EQ(cux.CtxDestroy(zero), 0);
	CHECK_EQ(cux.CtxDestroy(one), 0);
	CHECK_EQ(cux.CtxSetCurrent(NULL), 0);
}

DOUBLE_CASE(what_cannot_be_wrapped, "")
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = 0x80000000);
	struct dlbuf_device *dev = NULL;
	cuda_context ctx, popped;
	int none;

	CHECK_EQ(cu.Init(0), 0);
	REQUIRE(!cux.CtxCreate(&ctx, 0, 0));
	REQUIRE(!cu.CtxPopCurrent(&popped));
	CHECK_ERR_SAYS(dlbuf_device_wrap_cuda(NULL, NULL, &dev), -EINVAL, "context");
	CHECK_ERR_SAYS(dlbuf_device_wrap_cuda(ctx, NULL, NULL), -EINVAL, "out");
	CHECK_ERR(dlbuf_device_wrap_cuda(ctx, &opts, &dev), -EINVAL);
	CHECK_SAYS("device flags 0x80000000 are unknown");
	CHECK_ERR_SAYS(dlbuf_device_wrap_cuda(&none, NULL, &dev), -EINVAL, "is not a CUcontext");
	forgive(1);
	break_call("cuCtxGetDevice", CUABI_UNKNOWN, 0);
	CHECK_ERR_SAYS(dlbuf_device_wrap_cuda(ctx, NULL, &dev), -EIO, "cuCtxGetDevice");
	break_call("cuDeviceGetName", CUABI_UNKNOWN, 0);
	CHECK_ERR_SAYS(dlbuf_device_wrap_cuda(ctx, NULL, &dev), -EIO, "cuDeviceGetName");
	break_call("cuCtxPushCurrent_v2", CUABI_DEINITIALIZED, 1);
	CHECK_ERR(dlbuf_device_wrap_cuda(ctx, NULL, &dev), -ENODEV);
	heal();
	forgive(fake->wrong);
	CHECK_EQ(fake->live[FAKE_CONTEXT], 1);
	fake->init = CUABI_SYSTEM_NOT_READY;
	CHECK_ERR(dlbuf_device_wrap_cuda(ctx, NULL, &dev), -EIO);
	fake->init = CUABI_SUCCESS;
	CHECK_EQ(cu.Init(0), 0);
	CHECK(!dev);
	CHECK(!current());
	CHECK_EQ(cux.CtxDestroy(ctx), 0);
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
