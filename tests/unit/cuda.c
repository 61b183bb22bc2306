// SPDX-License-Identifier: MIT
/*
 * The CUDA backend against a double of the driver (tests/fakes/cuda.h): which
 * device and which context, what it makes of a dma-buf, and of memory that
 * becomes one.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include <sys/vfs.h>

#include "cuda_backend.h"
#include "memory.h"

/*
 * The core imports dma-bufs only, and memfds stand for them here: what can be
 * sealed is one.
 */
int fstatfs(int fd, struct statfs *fs)
{
	*fs = (struct statfs){
		.f_type = fcntl(fd, F_GET_SEALS) < 0 ? 0 : 0x444d4142,
	};
	return 0;
}

/* ---------------------------------------------------------------- opening */

/* The toolkit's library to link with has every function, and each says 34. */
static cuda_result stub(cuda_result result, const char **text)
{
	(void)result, (void)text;
	return CUABI_STUB_LIBRARY;
}

TEST(the_toolkits_stub_says_what_it_is)
{
	const struct cuda_api none = {
		.GetErrorName = stub, .GetErrorString = stub,
	};

	CHECK_EQ(cuda_check(&none, CUABI_STUB_LIBRARY, "cuInit"), -ENODEV);
	CHECK_SAYS("cuInit: CUDA_ERROR_STUB_LIBRARY (34), the toolkit's stub");
	CHECK_EQ(cuda_check(&none, CUABI_UNKNOWN, "cuInit"), -EIO);
	CHECK_SAYS("cuInit: a CUresult (999), unknown");
}

TEST(selectors)
{
	static const struct {
		const char *name, *is;
		int ret;
	} cases[] = {
		{ "cuda", "cuda:0", 0 },
		{ "cuda:0", "cuda:0", 0 },
		{ "cuda:1", "cuda:1", 0 },
		{ "cuda:2", NULL, -ENODEV },
		{ "cuda:fake", "cuda:0", 0 },
		{ "cuda:THOR", "cuda:1", 0 },
		{ "cuda:nobody", NULL, -ENODEV },
		{ "cuda:1x", NULL, -ENODEV },
		{ "cuda:uuid=c1000000000000000000000000000000", "cuda:1", 0 },
		{ "cuda:uuid=C1000000000000000000000000000000", "cuda:1", 0 },
		{ "cuda:uuid=00000000000000000000000000000000", NULL, -ENODEV },
		{ "cuda:uuid=c1", NULL, -EINVAL },
		{ "cuda:uuid=zz000000000000000000000000000000", NULL, -EINVAL },
	};

	begin("two");
	fake->devices[1].name = "The Other Thor";
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_device *dev = NULL;
		DLBUF_INFO(dlbuf_device_info, info);
		int ret;

		ktap_forget();
		ret = dlbuf_device_open(cases[i].name, NULL, &dev);
		if (!CHECK_EQ(ret, cases[i].ret))
			ktap_note(NULL, 0, "%s: %s", cases[i].name,
				  dlbuf_last_error());
		if (ret) {
			CHECK(!dev && dlbuf_last_error()[0]);
			continue;
		}
		CHECK_OK(dlbuf_device_get_info(dev, &info));
		CHECK_STR(info.name, cases[i].is);
		CHECK_EQ(info.device.device_type, kDLCUDA);
		CHECK_EQ(info.device.device_id, cases[i].is[5] - '0');
		dlbuf_device_close(dev);
	}
	CHECK_EQ(fake->made[FAKE_CONTEXT], 7);
	end();
}

TEST(what_a_device_says)
{
	struct dlbuf_cuda_device cuda = { .size = sizeof(cuda) };
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev, *cpu = NULL;
	cuda_context ctx;

	begin("uuid=a7");
	dev = open_ok();
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.description, "Fake PC");
	CHECK_STR(info.driver, "CUDA 13.0");
	CHECK_STR(info.backend, "cuda");
	CHECK_EQ(info.uuid[0], 0xa7);
	CHECK_EQ(info.pitch_align, 256);
	CHECK_EQ(info.offset_align, 256);
	CHECK_EQ(info.acquire, DLBUF_SYNC_FENCE);
	CHECK_EQ(info.release, DLBUF_SYNC_EVENT);
	CHECK_OK(dlbuf_cuda_get_device(dev, &cuda));
	CHECK_EQ(cu.DevicePrimaryCtxRetain(&ctx, 0), 0);
	CHECK(cuda.context == (void *)ctx);
	CHECK_EQ(cu.DevicePrimaryCtxRelease(0), 0);
	CHECK_EQ(cuda.ordinal, 0);
	CHECK_EQ(cuda.driver, 13000);
	CHECK_ERR(dlbuf_cuda_get_device(NULL, &cuda), -EINVAL);
	cuda.size = 0;
	CHECK_ERR(dlbuf_cuda_get_device(dev, &cuda), -EINVAL);
	dlbuf_device_close(dev);
#ifdef CONFIG_BACKEND_CPU
	cuda.size = sizeof(cuda);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	CHECK_ERR(dlbuf_cuda_get_device(cpu, &cuda), -EINVAL);
	CHECK_SAYS("cpu");
#endif
	dlbuf_device_close(cpu);
	end();
}

struct listed {
	unsigned int n;
	struct dlbuf_device_info infos[4];
	int ret;
};

static int list(const struct dlbuf_device_info *info, void *data)
{
	struct listed *l = data;

	if (strcmp(info->backend, "cuda") || l->n == 4)
		return 0;
	l->infos[l->n++] = *info;
	return l->ret;
}

TEST(each)
{
	struct listed l = { 0 };

	begin("two");
	CHECK_OK(dlbuf_device_each(list, &l));
	CHECK_EQ(l.n, 2);
	CHECK_STR(l.infos[0].name, "cuda:0");
	CHECK_STR(l.infos[1].name, "cuda:1");
	CHECK_EQ(l.infos[1].uuid[0], 0xc1);
	CHECK_EQ(l.infos[1].device.device_id, 1);
	CHECK_EQ(l.infos[1].acquire, DLBUF_SYNC_FENCE);
	CHECK_EQ(l.infos[1].release, DLBUF_SYNC_EVENT);
	CHECK_EQ(l.infos[1].status, 0);
	CHECK_EQ(fake->made[FAKE_CONTEXT], 0);
	l = (struct listed){ .ret = 5 };
	CHECK_EQ(dlbuf_device_each(list, &l), 5);
	CHECK_EQ(l.n, 1);
	/* Nothing of what is listed is of a device that fails. */
	l = (struct listed){ 0 };
	break_call("cuDeviceGetName", CUABI_UNKNOWN, 0);
	CHECK_OK(dlbuf_device_each(list, &l));
	CHECK_EQ(l.n, 1);
	CHECK_EQ(l.infos[0].status, -EIO);
	CHECK(strstr(l.infos[0].reason, "cuDeviceGetName"));
	heal();
	end();
}

static unsigned int warnings;

static void count_warnings(void *data, enum dlbuf_log_level level,
			   const char *text)
{
	(void)data, (void)text;
	warnings += level <= DLBUF_LOG_WARN;
}

/* A driver without devices is asked once, because asking costs it fds. */
TEST(no_device)
{
	struct dlbuf_device *dev = NULL;

	begin("none");
	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_WARN);
	watch("cuInit");
	for (int i = 0; i < 3; i++) {
		CHECK_ERR(dlbuf_device_open("cuda", NULL, &dev), -ENODEV);
		CHECK_SAYS("cuInit");
		CHECK_SAYS("CUDA_ERROR_NO_DEVICE (100)");
	}
	CHECK_EQ(seen, 1);
	CHECK_EQ(warnings, 0);
	CHECK(!dev);
	end();
}

/* What is there and fails is told, and asked again. */
TEST(another_drivers_library)
{
	struct dlbuf_device *dev = NULL;

	begin("mismatch");
	dlbuf_log_set(count_warnings, NULL, DLBUF_LOG_WARN);
	watch("cuInit");
	CHECK_ERR(dlbuf_device_open("cuda", NULL, &dev), -EIO);
	CHECK_SAYS("cuInit");
	CHECK_SAYS("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
	CHECK(warnings);
	fake->init = CUABI_SUCCESS;
	CHECK_OK(dlbuf_device_open("cuda", NULL, &dev));
	CHECK_EQ(seen, 2);
	dlbuf_device_close(dev);
	end();
}

static void none_counted(const char *call)
{
	if (!strcmp(call, "cuDeviceGetCount"))
		fake->ndevices = 0;
}

TEST(no_device_is_counted)
{
	struct dlbuf_device *dev = NULL;

	begin("");
	fake->look = none_counted;
	CHECK_ERR(dlbuf_device_open("cuda", NULL, &dev), -ENODEV);
	CHECK_SAYS("no device");
	end();
}

TEST(every_failure_of_an_open)
{
	static const struct {
		const char *call;
		cuda_result result;
		int ret;
	} cases[] = {
		{ "cuInit", CUABI_STUB_LIBRARY, -ENODEV },
		{ "cuInit", CUABI_OUT_OF_MEMORY, -ENOMEM },
		{ "cuDeviceGetCount", CUABI_UNKNOWN, -EIO },
		{ "cuDeviceGet", CUABI_INVALID_DEVICE, -ENODEV },
		{ "cuDeviceGetName", CUABI_NOT_PERMITTED, -EOPNOTSUPP },
		{ "cuDriverGetVersion", CUABI_UNKNOWN, -EIO },
		{ "cuDeviceGetUuid_v2", CUABI_NOT_SUPPORTED, -EOPNOTSUPP },
		{ "cuDevicePrimaryCtxRetain", CUABI_DEVICE_UNAVAILABLE, -EIO },
		{ "cuCtxPushCurrent_v2", CUABI_DEINITIALIZED, -ENODEV },
	};
	struct dlbuf_device *dev = NULL;

	begin("");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		break_call(cases[i].call, cases[i].result, 0);
		CHECK_ERR(dlbuf_device_open("cuda", NULL, &dev), cases[i].ret);
		CHECK(!strncmp(dlbuf_last_error() + strlen("cuda: "),
			       cases[i].call, strcspn(cases[i].call, "_")));
		heal();
		forgive(fake->wrong);
		if (!nothing_left())
			ktap_note(NULL, 0, "%s", cases[i].call);
	}
	CHECK(!dev);
	end();
}

/* A result that the driver itself has no name for. */
TEST(results_without_a_name)
{
	struct dlbuf_device *dev = NULL;

	begin("");
	break_call("cuDeviceGetCount", 12345, 0);
	CHECK_ERR(dlbuf_device_open("cuda", NULL, &dev), -EIO);
	CHECK_SAYS("(12345)");
	heal();
	end();
}

/* Attributes that a driver is too old for are what it has not got. */
TEST(attributes_unknown)
{
	struct cuda_device *dev;

	begin("");
	break_call("cuDeviceGetAttribute", CUABI_INVALID_VALUE, 0);
	dev = to_cuda(open_ok());
	CHECK(!dev->gpu.registers && !dev->gpu.exports && !dev->gpu.timelines);
	heal();
	dlbuf_device_close(&dev->base);
	end();
}

static void check_blocks(void)
{
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev = open_ok();

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_EQ(info.acquire, DLBUF_SYNC_BLOCKS);
	CHECK_EQ(info.release, DLBUF_SYNC_EVENT);
	dlbuf_device_close(dev);
}

TEST(streams_do_not_wait_for_memory)
{
	begin("nomemops");
	check_blocks();
	end();
}

TEST(memory_ops_fail)
{
	static const char *const calls[] = {
		"cuStreamCreate", "cuStreamWaitValue32_v2",
		"cuStreamSynchronize", "cuMemHostAlloc",
		"cuMemHostGetDevicePointer_v2",
	};

	begin("");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		break_call(calls[i], CUABI_UNKNOWN, 0);
		check_blocks();
		heal();
		nothing_left();
	}
	end();
}

TEST(an_old_driver)
{
	struct dlbuf_exported out = { .size = sizeof(out) };
	DLTensor t = { .data = &out, .device = { kDLCUDA, 0 } };
	DLBUF_INFO(dlbuf_device_info, info);
	struct listed l = { 0 };
	struct dlbuf_device *dev;

	begin_with("libcuda-old.so", "");
	fake->version = 11020;
	check_blocks();
	dev = open_ok();
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.driver, "CUDA 11.2");
	CHECK_EQ(info.uuid[0], 0xc0);
	CHECK_ERR(dlbuf_export(dev, &t, NULL, &out), -EOPNOTSUPP);
	CHECK_SAYS("CUDA 11.2 has no cuMemGetHandleForAddressRange()");
	dlbuf_device_close(dev);
	CHECK_OK(dlbuf_device_each(list, &l));
	CHECK_EQ(l.infos[0].acquire, DLBUF_SYNC_BLOCKS);
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

TEST(the_current_context_is_taken)
{
	struct dlbuf_device *a, *b;
	cuda_context ctx;

	begin("two");
	CHECK_EQ(cu.Init(0), 0);
	REQUIRE(!cux.CtxCreate(&ctx, 0, 1));
	a = open_as("cuda:1");
	CHECK(context_of(a) == (void *)ctx);
	CHECK_EQ(fake->made[FAKE_CONTEXT], 1);
	/* One of another device is not. */
	b = open_as("cuda:0");
	CHECK(context_of(b) != (void *)ctx);
	CHECK(current() == ctx);
	dlbuf_device_close(a);
	dlbuf_device_close(b);
	CHECK(current() == ctx);
	CHECK_EQ(cux.CtxDestroy(ctx), 0);
	end();
}

TEST(wrap)
{
	struct dlbuf_device *dev = NULL;
	DLBUF_INFO(dlbuf_device_info, info);
	cuda_context zero, one;
	struct fixture f;

	begin("two");
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
	end();
}

TEST(what_cannot_be_wrapped)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = 0x80000000);
	struct dlbuf_device *dev = NULL;
	cuda_context ctx, popped;
	int none;

	begin("");
	CHECK_EQ(cu.Init(0), 0);
	REQUIRE(!cux.CtxCreate(&ctx, 0, 0));
	REQUIRE(!cu.CtxPopCurrent(&popped));
	CHECK_ERR(dlbuf_device_wrap_cuda(NULL, NULL, &dev), -EINVAL);
	CHECK_SAYS("context");
	CHECK_ERR(dlbuf_device_wrap_cuda(ctx, NULL, NULL), -EINVAL);
	CHECK_SAYS("out");
	CHECK_ERR(dlbuf_device_wrap_cuda(ctx, &opts, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_cuda(&none, NULL, &dev), -EINVAL);
	CHECK_SAYS("is not a CUcontext");
	forgive(1);
	break_call("cuCtxGetDevice", CUABI_UNKNOWN, 0);
	CHECK_ERR(dlbuf_device_wrap_cuda(ctx, NULL, &dev), -EIO);
	CHECK_SAYS("cuCtxGetDevice");
	break_call("cuDeviceGetName", CUABI_UNKNOWN, 0);
	CHECK_ERR(dlbuf_device_wrap_cuda(ctx, NULL, &dev), -EIO);
	CHECK_SAYS("cuDeviceGetName");
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
	end();
}

/* ---------------------------------------------------------------- direct */

TEST(direct)
{
	struct fixture f;
	struct app app;

	begin("thor,memfds");
	import_ok(&f, open_ok(), DLBUF_PATH_DIRECT);
	CHECK_EQ(fake->live[FAKE_EXTERNAL_MEMORY], 1);
	CHECK_EQ(fake->live[FAKE_MAPPED_BUFFER], 1);
	app_begin(&app, f.dev);
	gpu_reads(&app, &f);
	drain(&app);
	CHECK(!memcmp(app.pinned, f.bytes, IMPORT_BYTES));
	app_end(&app);
	import_finish(&f, 0);
	CHECK_EQ(fake->live[FAKE_EXTERNAL_MEMORY], 0);
	dlbuf_device_close(f.dev);
	end();
}

/* A discrete GPU's driver does not look at which dma-buf it is. */
TEST(direct_is_refused_once)
{
	struct dlbuf_device *dev;
	struct fixture f;

	begin("");
	dev = open_ok();
	watch("cuImportExternalMemory");
	for (int i = 0; i < 3; i++) {
		CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT),
				    DLBUF_RW), -EOPNOTSUPP);
		CHECK_STR(dlbuf_last_error(), "cuda: cuImportExternalMemory: "
			  "CUDA_ERROR_NOT_SUPPORTED (801), operation not "
			  "supported");
		import_finish(&f, -1);
	}
	CHECK_EQ(seen, 1);
	dlbuf_device_close(dev);
	end();
}

/* No memory is no answer, and an integrated GPU's is of that dma-buf. */
TEST(direct_is_asked_again)
{
	static const struct {
		const char *words;
		cuda_result result;
		int ret;
	} cases[] = {
		{ "memfds", CUABI_OUT_OF_MEMORY, -ENOMEM },
		{ "thor,memfds", CUABI_OUT_OF_MEMORY, -ENOMEM },
		{ "thor,memfds", CUABI_INVALID_VALUE, -EOPNOTSUPP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_device *dev;
		struct fixture f;

		begin(cases[i].words);
		fake->devices[0].dmabuf_in = true;
		dev = open_ok();
		break_call("cuImportExternalMemory", cases[i].result, 0);
		CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT),
				    DLBUF_RW), cases[i].ret);
		CHECK_SAYS("cuImportExternalMemory");
		import_finish(&f, -1);
		break_call("cuExternalMemoryGetMappedBuffer", cases[i].result,
			   0);
		CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT),
				    DLBUF_RW), cases[i].ret);
		CHECK_SAYS("cuExternalMemoryGetMappedBuffer");
		import_finish(&f, -1);
		CHECK_EQ(fake->live[FAKE_EXTERNAL_MEMORY], 0);
		heal();
		import_ok(&f, dev, DLBUF_PATH_DIRECT);
		finish(&f);
		end();
	}
}

/* ---------------------------------------------------------------- host */

TEST(host_by_a_mapping)
{
	struct fixture f;
	struct app app;

	begin("");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 1);
	CHECK(f.ci.base.data == f.ci.memory->map);
	app_begin(&app, f.dev);
	gpu_reads(&app, &f);
	gpu_sets(&app, &f, 4096, 100, 0xee);
	drain(&app);
	CHECK_EQ(app.pinned[4096], (uint8_t)(4096 * 7 + 13 + 1));
	CHECK_EQ(f.bytes[4096 + 99], 0xee);
	app_end(&app);
	import_finish(&f, 0);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
	dlbuf_device_close(f.dev);
	end();
}

TEST(host_where_pointers_differ)
{
	struct fixture f;
	struct app app;

	begin("alias");
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	CHECK(f.ci.base.data != f.ci.memory->map);
	app_begin(&app, f.dev);
	gpu_reads(&app, &f);
	drain(&app);
	CHECK(!memcmp(app.pinned, f.bytes, IMPORT_BYTES));
	app_end(&app);
	finish(&f);
	end();
}

/* What the mapping of a udmabuf does not give, the memfd behind it does. */
TEST(host_by_the_memfd)
{
	int memfd = memfd_create("behind it", MFD_CLOEXEC);
	struct dlbuf_device *dev;
	struct fixture f;
	uint8_t byte = 0x5a;

	REQUIRE(memfd >= 0 && !ftruncate(memfd, IMPORT_BYTES));
	CHECK_EQ(pwrite(memfd, &byte, 1, 100), 1);
	begin("");
	dev = open_ok();
	fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW);
	memory_remember(f.ci.base.fd, memfd);
	CHECK_OK(cuda_backend.import(&f.ci.base));
	CHECK_EQ(((uint8_t *)f.ci.memory->map)[100], 0x5a);
	import_finish(&f, 0);
	/* Its failures are not of the mapping. */
	fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW);
	memory_remember(f.ci.base.fd, memfd);
	break_call("cuMemHostRegister_v2", CUABI_UNKNOWN, 0);
	CHECK_ERR(cuda_backend.import(&f.ci.base), -EOPNOTSUPP);
	CHECK(!strstr(dlbuf_last_error(), "memfd"));
	heal();
	import_finish(&f, -1);
	memory_forget(memfd);
	dlbuf_device_close(dev);
	close(memfd);
	end();
}

TEST(host_of_what_is_read_only)
{
	struct fixture f;
	struct app app;

	begin("");
	REQUIRE_OK(import_as(&f, open_ok(), PATH_BIT(DLBUF_PATH_HOST),
			     DLBUF_READ));
	app_begin(&app, f.dev);
	gpu_reads(&app, &f);
	drain(&app);
	CHECK(!memcmp(app.pinned, f.bytes, IMPORT_BYTES));
	/* The driver knows that nobody may write there. */
	CHECK_EQ(cu.MemsetD8Async(pointer_of(&f), 1, 1, app.stream),
		 CUABI_INVALID_VALUE);
	forgive(1);
	app_end(&app);
	finish(&f);
	end();
	begin("noreadonly");
	watch("cuMemHostRegister_v2");
	CHECK_ERR(import_as(&f, open_ok(), PATH_BIT(DLBUF_PATH_HOST),
			    DLBUF_READ), -EOPNOTSUPP);
	CHECK_STR(dlbuf_last_error(), "the device registers no read-only "
		  "memory");
	CHECK_EQ(seen, 0);
	import_finish(&f, -1);
	import_ok(&f, f.dev, DLBUF_PATH_HOST);
	finish(&f);
	end();
}

TEST(host_is_refused)
{
	static const struct {
		const char *words, *call;
		cuda_result result;
		int ret;
		const char *says;
	} cases[] = {
		{ "noregister", NULL, 0, -EOPNOTSUPP,
		  "the device registers no host memory" },
		{ "", "cuMemHostRegister_v2",
		  CUABI_HOST_MEMORY_ALREADY_REGISTERED, -EOPNOTSUPP,
		  "cuda: cuMemHostRegister: "
		  "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)" },
		{ "", "cuMemHostRegister_v2", CUABI_INVALID_VALUE, -EOPNOTSUPP,
		  "(of the dma-buf's mapping; the memfd behind it is not known)" },
		{ "", "cuMemHostRegister_v2", CUABI_NOT_PERMITTED, -EOPNOTSUPP,
		  "CUDA_ERROR_NOT_PERMITTED (800)" },
		{ "", "cuMemHostRegister_v2", CUABI_OUT_OF_MEMORY, -ENOMEM,
		  "CUDA_ERROR_OUT_OF_MEMORY (2)" },
		{ "", "cuMemHostGetDevicePointer_v2", CUABI_UNKNOWN,
		  -EOPNOTSUPP, "cuMemHostGetDevicePointer" },
		/* That one is not of page tables. */
		{ "grace", "cuMemHostGetDevicePointer_v2", CUABI_UNKNOWN,
		  -EOPNOTSUPP, "cuMemHostGetDevicePointer" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_device *dev;
		struct fixture f;

		begin(cases[i].words);
		dev = open_ok();
		if (cases[i].call)
			break_call(cases[i].call, cases[i].result, 0);
		CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_HOST),
				    DLBUF_RW), cases[i].ret);
		CHECK_SAYS(cases[i].says);
		/* Only where the driver was asked that matters. */
		CHECK_EQ(strstr(dlbuf_last_error(), "memfd") != NULL,
			 cases[i].call != NULL);
		import_finish(&f, -1);
		CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
		heal();
		dlbuf_device_close(dev);
		end();
	}
}

/* A GPU that walks the CPU's page tables needs no registration. */
TEST(host_is_coherent)
{
	struct fixture f;
	struct app app;

	begin("grace");
	break_call("cuMemHostRegister_v2", CUABI_INVALID_VALUE, 0);
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	heal();
	CHECK(f.ci.base.data == f.ci.memory->map);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
	app_begin(&app, f.dev);
	gpu_reads(&app, &f);
	drain(&app);
	CHECK(!memcmp(app.pinned, f.bytes, IMPORT_BYTES));
	app_end(&app);
	finish(&f);
	end();
}

/* A file of which there is no mapping at all. */
TEST(what_cannot_be_mapped)
{
	int fd = pending_fence();
	struct dlbuf_device *dev;
	struct fixture f;

	begin("");
	dev = open_ok();
	fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_HOST) |
		     PATH_BIT(DLBUF_PATH_COPY), DLBUF_RW);
	CHECK_EQ(dup2(fd, f.ci.base.fd), f.ci.base.fd);
	CHECK_ERR(cuda_backend.import(&f.ci.base), -EOPNOTSUPP);
	CHECK_SAYS("host: mmap() of the dma-buf: No such device; "
		   "copy: mmap() of the dma-buf: No such device");
	import_finish(&f, -1);
	dlbuf_device_close(dev);
	close(fd);
	end();
}

/*
 * What the machine has not got is told as that, and the failure of a path that
 * another one made up for is nobody's.
 */
TEST(no_memory_to_map)
{
	struct rlimit before, little;
	struct dlbuf_device *dev;
	struct fixture f;

	if (KTAP_ASAN || KTAP_TSAN)
		SKIP("a sanitizer's own memory counts");
	need_machine();
	REQUIRE(!getrlimit(RLIMIT_AS, &before));
	little = before;
	little.rlim_cur = 1;
	begin("");
	dev = open_ok();
	fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW);
	REQUIRE(!setrlimit(RLIMIT_AS, &little));
	CHECK_ERR(cuda_backend.import(&f.ci.base), -ENOMEM);
	REQUIRE(!setrlimit(RLIMIT_AS, &before));
	CHECK_SAYS("mmap() of the dma-buf: Cannot allocate memory");
	import_finish(&f, -1);
	ktap_forget();
	import_ok(&f, dev, DLBUF_PATH_HOST);
	import_finish(&f, 0);
	REQUIRE_OK(import_as(&f, dev, PATHS_SHARED, DLBUF_RW));
	CHECK_STR(dlbuf_last_error(), "");
	finish(&f);
	end();
}

/* ---------------------------------------------------------------- paths */

#define ALL (PATHS_SHARED | PATHS_COPIED)

TEST(the_first_path_that_serves)
{
	static const struct {
		const char *words;
		uint32_t paths;
		enum dlbuf_path path;
	} cases[] = {
		{ "thor,memfds", ALL, DLBUF_PATH_DIRECT },
		{ "thor,memfds", PATH_BIT(DLBUF_PATH_HOST), DLBUF_PATH_HOST },
		{ "thor,memfds", PATHS_COPIED, DLBUF_PATH_COPY },
		{ "", ALL, DLBUF_PATH_HOST },
		{ "", PATHS_SHARED, DLBUF_PATH_HOST },
		{ "noregister", ALL, DLBUF_PATH_COPY },
		{ "grace,noregister", ALL, DLBUF_PATH_HOST },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;
		int ret;

		begin(cases[i].words);
		ret = import_as(&f, open_ok(), cases[i].paths, DLBUF_RW);
		CHECK_OK(ret);
		CHECK_EQ(f.ci.base.path, cases[i].path);
		import_finish(&f, ret);
		dlbuf_device_close(f.dev);
		end();
	}
}

TEST(none_serves)
{
	struct dlbuf_device *dev;
	struct fixture f;

	begin("noregister");
	dev = open_ok();
	CHECK_ERR(import_as(&f, dev, PATHS_SHARED, DLBUF_RW), -EOPNOTSUPP);
	CHECK_SAYS("cuda:0 has no path to this dma-buf: direct: ");
	CHECK_SAYS("; host: the device registers no host memory");
	CHECK_SAYS("DLBUF_IMPORT_MAY_COPY would allow a copy");
	import_finish(&f, -1);
	break_call("cuMemHostAlloc", CUABI_UNKNOWN, 0);
	CHECK_ERR(import_as(&f, dev, ALL, DLBUF_RW), -EOPNOTSUPP);
	CHECK_SAYS("; bridge: ");
	CHECK_SAYS("; copy: cuMemHostAlloc: CUDA_ERROR_UNKNOWN (999)");
	CHECK(!strstr(dlbuf_last_error(), "MAY_COPY"));
	import_finish(&f, -1);
	/* What the machine has not got is told as that. */
	break_call("cuMemHostAlloc", CUABI_OUT_OF_MEMORY, 0);
	CHECK_ERR(import_as(&f, dev, ALL, DLBUF_RW), -ENOMEM);
	CHECK_SAYS("; copy: cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)");
	import_finish(&f, -1);
	heal();
	dlbuf_device_close(dev);
	end();
}

TEST(no_context_no_import)
{
	struct dlbuf_device *dev;
	struct fixture f;

	begin("");
	dev = open_ok();
	break_call("cuCtxPushCurrent_v2", CUABI_DEINITIALIZED, 0);
	CHECK_ERR(import_as(&f, dev, ALL, DLBUF_RW), -ENODEV);
	CHECK_SAYS("cuCtxPushCurrent");
	heal();
	import_finish(&f, -1);
	dlbuf_device_close(dev);
	end();
}

TEST(no_fds)
{
	struct dlbuf_device *dev;
	struct fixture f;

	begin("");
	dev = open_ok();
	fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT) |
		     PATH_BIT(DLBUF_PATH_COPY), DLBUF_RW);
	take_all_fds();
	CHECK_ERR(cuda_backend.import(&f.ci.base), -EMFILE);
	give_back_fds();
	CHECK_SAYS("direct: fcntl(F_DUPFD_CLOEXEC): Too many open files; "
		   "copy: fcntl(F_DUPFD_CLOEXEC): Too many open files");
	import_finish(&f, -1);
	dlbuf_device_close(dev);
	end();
}

TEST(copies_that_cannot_be)
{
	static const char *const calls[] = {
		"cuMemHostAlloc", "cuMemAlloc_v2", "cuEventCreate",
	};
	struct dlbuf_device *dev;
	struct fixture f;

	begin("");
	dev = open_ok();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		unsigned int live = fake->live[FAKE_HOST_MEMORY];

		break_call(calls[i], CUABI_OUT_OF_MEMORY, 0);
		CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_COPY),
				    DLBUF_RW), -ENOMEM);
		CHECK_SAYS("CUDA_ERROR_OUT_OF_MEMORY");
		import_finish(&f, -1);
		CHECK_EQ(fake->live[FAKE_HOST_MEMORY], live);
		CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
	}
	heal();
	dlbuf_device_close(dev);
	end();
}

struct probed {
	unsigned int n;
	struct dlbuf_path_info infos[4];
	int ret;
};

static int probed(const struct dlbuf_path_info *info, void *data)
{
	struct probed *p = data;

	p->infos[p->n++ % 4] = *info;
	return p->ret;
}

TEST(probe)
{
	int memfd = memfd_create("a dma-buf", MFD_CLOEXEC);
	struct probed p = { 0 };
	struct dlbuf_device *dev;

	REQUIRE(memfd >= 0 && !ftruncate(memfd, IMPORT_BYTES));
	begin("");
	dev = open_ok();
	CHECK_OK(dlbuf_probe(dev, memfd, DLBUF_RW, probed, &p));
	CHECK_EQ(p.n, 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(p.infos[i].path, DLBUF_PATH_DIRECT + i);
	CHECK_EQ(p.infos[0].status, -EOPNOTSUPP);
	CHECK(strstr(p.infos[0].reason, "cuImportExternalMemory"));
	CHECK_EQ(p.infos[1].status, 0);
	CHECK_STR(p.infos[1].reason, "");
	CHECK_EQ(p.infos[2].status, -EOPNOTSUPP);
	CHECK(p.infos[2].reason[0]);
	CHECK_EQ(p.infos[3].status, 0);
	CHECK_STR(dlbuf_last_error(), "");
	p = (struct probed){ .ret = 9 };
	CHECK_EQ(dlbuf_probe(dev, memfd, DLBUF_RW, probed, &p), 9);
	CHECK_EQ(p.n, 1);
	dlbuf_device_close(dev);
	close(memfd);
	end();
}

/* ---------------------------------------------------------------- the core */

static unsigned int leases; /* atomic */

static void count_lease(void *data)
{
	(void)data;
	__atomic_add_fetch(&leases, 1, __ATOMIC_RELAXED);
}

/* A buffer seen before costs the driver nothing, and a lease waits for it. */
TEST(through_the_core)
{
	int memfd = memfd_create("a dma-buf", MFD_CLOEXEC), fence = -7;
	DLManagedTensorVersioned *tensor;
	DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = 4096, .height = 3,
		.code = DLBUF_FOURCC('R', '8', ' ', ' '),
		.code_space = DLBUF_CODE_DRM, .nplanes = 1,
		.planes = { { .fd = memfd, .pitch = 4096 } },
		.release = count_lease,
	};
	struct dlbuf_device *dev;
	unsigned long calls;
	struct gate gate;
	struct app app;
	uint32_t n = 0;

	need_machine();
	REQUIRE(memfd >= 0 && !ftruncate(memfd, IMPORT_BYTES));
	begin("");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, tensors, &n));
	CHECK_EQ(n, 1);
	tensors[0]->deleter(tensors[0]);
	CHECK_EQ(__atomic_exchange_n(&leases, 0, __ATOMIC_RELAXED), 1);
	calls = fake->calls;
	fake->synchronising = 0;
	REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, tensors, &n));
	CHECK_EQ(fake->calls, calls);
	tensor = tensors[0];
	CHECK_EQ(tensor->dl_tensor.device.device_type, kDLCUDA);
	CHECK_OK(dlbuf_acquire(tensor, DLBUF_RW, app.stream, NULL));
	gate_close(&gate, app.stream);
	CHECK_EQ(cu.MemsetD8Async((uintptr_t)tensor->dl_tensor.data, 0x5c,
				  IMPORT_BYTES, app.stream), 0);
	CHECK_OK(dlbuf_release(tensor, app.stream, &fence));
	CHECK(fence >= 3 && !signalled(fence));
	tensor->deleter(tensor);
	CHECK_EQ(__atomic_load_n(&leases, __ATOMIC_RELAXED), 0);
	CHECK_EQ(fake->synchronising, 0);
	gate_open(&gate);
	until_signalled(fence);
	close(fence);
	settle();
	CHECK_EQ(__atomic_load_n(&leases, __ATOMIC_RELAXED), 1);
	drain(&app);
	gate_end(&gate);
	app_end(&app);
	dlbuf_device_close(dev);
	close(memfd);
	end();
}

/* ---------------------------------------------------------------- export */

static int export_at(struct dlbuf_device *dev, void *data, int64_t bytes,
		     DLDeviceType type, uint32_t flags,
		     struct dlbuf_exported *out)
{
	DLBUF_OPTS(dlbuf_export_opts, opts, .flags = flags);
	int64_t strides = 1;
	DLTensor t = {
		.data = data, .device = { type, 0 }, .ndim = 1,
		.dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		.strides = &strides,
	};

	*out = (struct dlbuf_exported){ .size = sizeof(*out), .fd = 77 };
	return dlbuf_export(dev, &t, &opts, out);
}

#define EXPORT_BYTES (2 << 20)

/* As the CPU sees the dma-buf; -1: not at all. */
static int byte_at(const struct dlbuf_exported *out, size_t i)
{
	uint8_t *p = mmap(NULL, out->bytes, PROT_READ, MAP_SHARED, out->fd, 0);
	int byte = -1;

	if (p != MAP_FAILED) {
		byte = p[i];
		munmap(p, out->bytes);
	}
	return byte;
}

TEST(export)
{
	struct dlbuf_exported out;
	struct dlbuf_device *dev;
	cuda_pointer p, before, small;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	CHECK_EQ(cu.MemsetD8Async(p, 0x11, EXPORT_BYTES, app.stream), 0);
	CHECK_EQ(cu.MemsetD8Async(p + 5000, 0x77, 1, app.stream), 0);
	drain(&app);
	/* All of it, since a memfd has no part of it. */
	REQUIRE_OK(export_at(dev, (void *)(uintptr_t)p, EXPORT_BYTES, kDLCUDA, 0,
			     &out));
	CHECK_EQ(out.offset, 0);
	CHECK_EQ(out.bytes, EXPORT_BYTES);
	CHECK(out.fd >= 3 && fcntl(out.fd, F_GETFD) == FD_CLOEXEC);
	CHECK_EQ(byte_at(&out, 5000), 0x77);
	close(out.fd);
	/* Whole pages around a part of a block, and where it is in them. */
	REQUIRE(!cu.MemAlloc(&before, 100) && !cu.MemAlloc(&small, 100));
	CHECK(small % sysconf(_SC_PAGESIZE));
	CHECK_EQ(cu.MemsetD8Async(small, 0x66, 1, app.stream), 0);
	drain(&app);
	watch("cuMemGetHandleForAddressRange");
	if (access("/dev/udmabuf", R_OK | W_OK)) {
		/* A memfd is a dma-buf from its begin to its end. */
		CHECK_ERR(export_at(dev, (void *)(uintptr_t)small, 100, kDLCUDA,
				    0, &out), -EOPNOTSUPP);
		CHECK_EQ(out.fd, 77);
	} else {
		CHECK_OK(export_at(dev, (void *)(uintptr_t)small, 100, kDLCUDA,
				   0, &out));
		CHECK_EQ(out.offset, small % sysconf(_SC_PAGESIZE));
		CHECK_EQ(out.bytes, sysconf(_SC_PAGESIZE));
		CHECK_EQ(byte_at(&out, out.offset), 0x66);
		close(out.fd);
	}
	CHECK_EQ(seen, 1);
	CHECK_EQ(cu.MemFree(small), 0);
	CHECK_EQ(cu.MemFree(before), 0);
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

TEST(every_refusal_of_an_export)
{
	struct dlbuf_exported out;
	struct dlbuf_device *dev;
	cuda_pointer p, managed, other;
	cuda_context second;
	struct app app;
	void *host;
	char byte;

	begin("two,memfds");
	CHECK_EQ(cu.Init(0), 0);
	REQUIRE(!cux.CtxCreate(&second, 0, 1));
	REQUIRE(!cu.MemAlloc(&other, EXPORT_BYTES));
	dev = open_as("cuda:0");
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	REQUIRE(!cux.MemAllocManaged(&managed, 4096, CUABI_MEM_ATTACH_GLOBAL));
	REQUIRE(!cu.MemHostAlloc(&host, 4096, CUABI_MEMHOSTALLOC_PORTABLE));
#define REFUSES(pointer, bytes, type, ret, says)			\
	do {								\
		CHECK_ERR(export_at(dev, (void *)(uintptr_t)(pointer),	\
				    bytes, type, 0, &out), ret);	\
		CHECK_SAYS(says);					\
		CHECK_EQ(out.fd, 77);					\
	} while (0)
	REFUSES(p, 4096, kDLCPU, -EINVAL, "type 1");
	REFUSES(&byte, 1, kDLCUDA, -EINVAL, "is no memory of CUDA's");
	REFUSES(p, EXPORT_BYTES + 1, kDLCUDA, -EINVAL,
		"ends 1 bytes after its allocation of 2097152");
	REFUSES(managed, 4096, kDLCUDA, -EOPNOTSUPP,
		"managed memory has no dma-buf");
	REFUSES(other, 4096, kDLCUDA, -EINVAL,
		"the memory is of cuda:1, not of cuda:0");
	REFUSES(host, 4096, kDLCUDAHost, -EOPNOTSUPP,
		"exports no host memory (attribute 146)");
	break_call("cuMemGetAddressRange_v2", CUABI_NOT_FOUND, 0);
	/* There are two ways to ask, one of them for any kind of memory. */
	CHECK_OK(export_at(dev, (void *)(uintptr_t)p, EXPORT_BYTES, kDLCUDA, 0,
			   &out));
	close(out.fd);
	out.fd = 77;
	break_call("cuMemGetHandleForAddressRange", CUABI_UNKNOWN, 0);
	REFUSES(p, 4096, kDLCUDA, -EIO, "cuMemGetHandleForAddressRange: "
		"CUDA_ERROR_UNKNOWN (999)");
	break_call("cuCtxGetDevice", CUABI_UNKNOWN, 0);
	break_call("cuPointerGetAttribute", CUABI_INVALID_VALUE, 1);
	REFUSES(p, 4096, kDLCUDA, -EINVAL, "is no memory of CUDA's");
	heal();
	CHECK_EQ(cu.MemFree(p), 0);
	REFUSES(p, 4096, kDLCUDA, -EINVAL, "is no memory of CUDA's");
	CHECK_EQ(cu.MemFree(managed), 0);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	break_call("cuCtxPushCurrent_v2", CUABI_UNKNOWN, 0);
	REFUSES(p, 4096, kDLCUDA, -EIO, "cuCtxPushCurrent");
	heal();
	dlbuf_device_close(dev);
	CHECK_EQ(cu.MemFree(other), 0);
	CHECK_EQ(cux.CtxDestroy(second), 0);
	end();
}

/* What a mapping of the tensor's type and shape is, is the layout's to say. */
TEST(export_of_no_layout)
{
	int64_t shape = -1, strides = 1;
	struct dlbuf_exported out = { .size = sizeof(out) };
	DLTensor t = {
		.device = { kDLCUDA, 0 }, .ndim = 1, .shape = &shape,
		.dtype = { kDLUInt, 8, 1 }, .strides = &strides,
	};
	struct dlbuf_device *dev;
	cuda_pointer p;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	t.data = (void *)(uintptr_t)p;
	CHECK_ERR(dlbuf_export(dev, &t, NULL, &out), -EINVAL);
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

TEST(export_where_there_is_none)
{
	struct dlbuf_device *dev;
	struct dlbuf_exported out;
	cuda_pointer p;
	struct app app;

	begin("noexport");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	CHECK_ERR(export_at(dev, (void *)(uintptr_t)p, 1, kDLCUDA, 0, &out),
		  -EOPNOTSUPP);
	CHECK_SAYS("CUDA 13.0 exports no device memory (attribute 124)");
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* Before 13.0 nobody knows whether the host's memory can be exported: tries. */
TEST(export_of_host_memory)
{
	struct dlbuf_device *dev;
	struct dlbuf_exported out;
	struct app app;
	void *host;

	begin("memfds");
	fake->devices[0].host_export = true;
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemHostAlloc(&host, 8192, CUABI_MEMHOSTALLOC_PORTABLE));
	REQUIRE_OK(export_at(dev, (uint8_t *)host + 10, 5000, kDLCUDAHost, 0,
			     &out));
	CHECK_EQ(out.offset, 10);
	CHECK_EQ(out.bytes, 8192);
	close(out.fd);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
	begin("memfds");
	fake->version = 12040;
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemHostAlloc(&host, 8192, CUABI_MEMHOSTALLOC_PORTABLE));
	watch("cuMemGetHandleForAddressRange");
	CHECK_ERR(export_at(dev, host, 8192, kDLCUDAHost, 0, &out),
		  -EOPNOTSUPP);
	CHECK_SAYS("cuMemGetHandleForAddressRange");
	CHECK_EQ(seen, 1);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* The flag is the driver's to take: only a machine with C2C does. */
TEST(export_over_pcie)
{
	struct dlbuf_device *dev;
	struct dlbuf_exported out;
	cuda_pointer p;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	CHECK_ERR(export_at(dev, (void *)(uintptr_t)p, EXPORT_BYTES, kDLCUDA,
			    DLBUF_EXPORT_PCIE, &out), -EOPNOTSUPP);
	fake->devices[0].pcie = true;
	CHECK_OK(export_at(dev, (void *)(uintptr_t)p, EXPORT_BYTES, kDLCUDA,
			   DLBUF_EXPORT_PCIE, &out));
	close(out.fd);
	CHECK_ERR(export_at(dev, (void *)(uintptr_t)p, EXPORT_BYTES, kDLCUDA, 2,
			    &out), -EINVAL);
	CHECK_EQ(cu.MemFree(p), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- alloc */

static DLManagedTensorVersioned *alloc_ok(struct dlbuf_device *dev,
					  int64_t bytes)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	DLManagedTensorVersioned *tensor = NULL;
	int64_t strides = 1;
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		.strides = &strides,
	};

	REQUIRE_OK(dlbuf_alloc(&dev, 1, &layout, &opts, &tensor));
	return tensor;
}

static int alloc_of(struct dlbuf_device *dev, uint64_t bytes)
{
	struct cuda_import ci = { .base.dev = dev, .base.bytes = bytes };
	int ret = cuda_backend.alloc(&ci.base);

	if (ret)
		return ret;
	cuda_backend.unimport(&ci.base);
	close(ci.base.fd);
	return 0;
}

TEST(alloc)
{
	DLManagedTensorVersioned *tensor, *again = NULL;
	DLBUF_INFO(dlbuf_device_stats, stats);
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct dlbuf_device *dev;
	DLTensor layout;
	cuda_pointer p;
	struct app app;

	begin("memfds");
	dev = open_ok();
	app_begin(&app, dev);
	/* So that what is given out next is not zero by itself. */
	REQUIRE(!cu.MemAlloc(&p, EXPORT_BYTES));
	CHECK_EQ(cu.MemsetD8Async(p, 0x11, EXPORT_BYTES, app.stream), 0);
	drain(&app);
	CHECK_EQ(cu.MemFree(p), 0);
	watch("cuMemsetD8Async");
	tensor = alloc_ok(dev, IMPORT_BYTES);
	CHECK_EQ(seen, 1);
	CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 1);
	REQUIRE_OK(dlbuf_tensor_get_info(tensor, &info));
	CHECK_EQ(lseek(info.fd, 0, SEEK_END), EXPORT_BYTES);
	CHECK_EQ(info.path, DLBUF_PATH_DIRECT);
	memset(app.pinned, 7, IMPORT_BYTES);
	CHECK_EQ(cu.MemcpyDtoHAsync(app.pinned, (uintptr_t)
				    tensor->dl_tensor.data, IMPORT_BYTES,
				    app.stream), 0);
	drain(&app);
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		if (!CHECK_EQ(app.pinned[i], 0))
			break;
	/* By its own fd it is the same one, whatever the driver imports. */
	layout = tensor->dl_tensor;
	layout.data = NULL;
	CHECK_OK(dlbuf_import(dev, info.fd, &layout, NULL, &again));
	CHECK(!again || again->dl_tensor.data == tensor->dl_tensor.data);
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.hits, 1);
	CHECK_EQ(stats.misses, 0);
	if (again)
		again->deleter(again);
	/* Nobody would find it again. */
	tensor->deleter(tensor);
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.idle, 0);
	CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

TEST(every_failure_of_an_alloc)
{
	static const char *const calls[] = {
		"cuMemAlloc_v2", "cuStreamCreate", "cuMemsetD8Async",
		"cuStreamSynchronize", "cuMemGetHandleForAddressRange",
		"cuCtxPushCurrent_v2",
	};
	struct dlbuf_device *dev;

	begin("memfds");
	dev = open_ok();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		break_call(calls[i], CUABI_UNKNOWN, 0);
		CHECK_ERR(alloc_of(dev, 4096), -EIO);
		CHECK_SAYS("(999)");
		heal();
		CHECK_EQ(fake->live[FAKE_DEVICE_MEMORY], 0);
		CHECK_EQ(fake->live[FAKE_STREAM], 0);
	}
	CHECK_ERR(alloc_of(dev, UINT64_MAX - 1), -EOVERFLOW);
	CHECK_ERR(alloc_of(dev, (uint64_t)INT64_MAX), -ENOMEM);
	CHECK_OK(alloc_of(dev, EXPORT_BYTES + 1));
	dlbuf_device_close(dev);
	end();
	begin("noexport");
	dev = open_ok();
	CHECK_ERR(alloc_of(dev, 4096), -EOPNOTSUPP);
	CHECK_SAYS("attribute 124");
	dlbuf_device_close(dev);
	end();
}

TEST(an_old_driver_allocates_nothing)
{
	struct dlbuf_device *dev;

	begin_with("libcuda-old.so", "");
	dev = open_ok();
	CHECK_ERR(alloc_of(dev, 4096), -EOPNOTSUPP);
	CHECK_SAYS("cuMemGetHandleForAddressRange");
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static uint32_t walk_paths;

static int walk_import(void)
{
	struct dlbuf_device *dev = NULL;
	struct fixture f;
	int ret;

	ret = dlbuf_device_open("cuda", NULL, &dev);
	if (ret)
		return ret;
	ret = import_as(&f, dev, walk_paths, DLBUF_RW);
	import_finish(&f, ret);
	dlbuf_device_close(dev);
	return ret;
}

TEST(every_call_fails_once)
{
	static const struct {
		const char *words;
		uint32_t paths;
	} cases[] = {
		{ "thor,memfds", PATH_BIT(DLBUF_PATH_DIRECT) },
		{ "", PATH_BIT(DLBUF_PATH_HOST) },
		{ "grace", PATH_BIT(DLBUF_PATH_HOST) },
		{ "", PATH_BIT(DLBUF_PATH_COPY) },
		{ "", ALL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		begin(cases[i].words);
		walk_paths = cases[i].paths;
		check_walks(walk_import);
		end();
	}
}

static int walk_export(void)
{
	struct dlbuf_device *dev = NULL;
	struct dlbuf_exported out;
	DLManagedTensorVersioned *tensor;
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	int64_t bytes = 4096, strides = 1;
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		.strides = &strides,
	};
	int ret;

	ret = dlbuf_device_open("cuda", NULL, &dev);
	if (ret)
		return ret;
	ret = dlbuf_alloc(&dev, 1, &layout, &opts, &tensor);
	if (!ret) {
		ret = export_at(dev, tensor->dl_tensor.data, EXPORT_BYTES,
				kDLCUDA, 0, &out);
		if (!ret)
			close(out.fd);
		tensor->deleter(tensor);
	}
	dlbuf_device_close(dev);
	return ret;
}

TEST(every_call_of_an_export_fails_once)
{
	begin("memfds");
	check_walks(walk_export);
	end();
}
#endif
#else
TEST(cuda)
{
	SKIP("the backend is not built");
}
#endif

KTAP_MAIN()
