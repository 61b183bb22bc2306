// SPDX-License-Identifier: MIT
/*
 * The Level Zero backend against a double of a driver (tests/doubles/levelzero.h):
 * devices, and imports of a dma-buf. levelzero_queue.c has the cases of
 * lib/queue.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_LEVELZERO
#include "levelzero_backend.h"
#include "dmabuf/memory.h"
#include <dlbuf/prepare.h>

/* ---------------------------------------------------------------- contexts */

DOUBLE_CASE(wrap, "tiles")
{
	const ze_context_desc_t desc = { .stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC };
	struct dlbuf_levelzero_device of = { .size = sizeof(of) };
	ze_device_handle_t device, parts[2];
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev = NULL;
	ze_context_handle_t context;
	ze_driver_handle_t driver;
	uint32_t n = 1;

	REQUIRE(!lz.Init(0) && !lz.DriverGet(&n, &driver));
	REQUIRE(!lz.DeviceGet(driver, &n, &device));
	n = 2;
	REQUIRE(!lz.DeviceGetSubDevices(device, &n, parts) && n == 2);
	REQUIRE(!lz.ContextCreate(driver, &desc, &context));
	CHECK_ERR(dlbuf_device_wrap_levelzero(NULL, device, NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_levelzero(context, NULL, NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_levelzero(context, device, NULL, NULL),
		  -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_levelzero(context, &n, NULL, &dev), -EINVAL);
	CHECK_SAYS("is not a ze_device_handle_t of this machine");
	CHECK_ERR(dlbuf_device_wrap_levelzero(&n, device, NULL, &dev), -EIO);
	CHECK_SAYS("zeContextGetStatus");
	for (int i = 0; i < 2; i++) {
		ze_device_handle_t wanted = i ? parts[1] : device;

		REQUIRE_OK(dlbuf_device_wrap_levelzero(context, wanted, NULL,
						       &dev));
		CHECK_OK(dlbuf_levelzero_get_device(dev, &of));
		CHECK(of.context == context && of.device == (void *)wanted);
		CHECK_OK(dlbuf_device_get_info(dev, &info));
		CHECK_STR(info.name, "levelzero:0");
		dlbuf_device_close(dev);
		CHECK_EQ(lz.ContextGetStatus(context), 0);
	}
	CHECK_EQ(lz.ContextDestroy(context), 0);
}

/* Its end is the first call that sees the loss. */
DOUBLE_CASE(lost_at_the_end, "")
{
	struct dlbuf_device *dev = open_as("levelzero");

	lose(ZE_RESULT_ERROR_DEVICE_LOST);
	dlbuf_device_close(dev);
}

/* ---------------------------------------------------------------- kernels */

#ifdef CONFIG_PREPARE_LEVELZERO
/* A module that the driver does not build; and one that it does, which has a log, too. */
TEST(preparation)
{
	static const struct {
		const char *failing;
		ze_result_t result;
		int ret;
		const char *why;
	} rows[] = {
		{ "zeModuleCreate", ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, -EOPNOTSUPP,
		  "(0x70000004), the kernel does not compile: error: the double was told so" },
		{ "zeKernelCreate", ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, -ENOMEM,
		  "zeKernelCreate" }, { .ret = 0 },
	};
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8);
	struct dlbuf_frame frame = PICTURE(64, 48, DLBUF_FOURCC('G', 'R', 'E', 'Y'),
					   DLBUF_CODE_V4L2, 1);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dlbuf_prepare *plan = NULL;
		struct dlbuf_device *dev;

		begin("");
		dev = open_ok();
		if (rows[i].failing)
			break_call(rows[i].failing, (int)rows[i].result, 0);
		CHECK_EQ(dlbuf_prepare_create(dev, &frame, &opts, &plan), rows[i].ret);
		if (rows[i].why)
			CHECK_SAYS(rows[i].why);
		heal();
		CHECK_EQ(fake->live[FAKE_BUILD_LOG], 0);
		dlbuf_prepare_destroy(plan);
		dlbuf_device_close(dev);
		end();
	}
}
#endif

/* ---------------------------------------------------------------- paths */

/* Imports of an integrated GPU are never compared. */
DOUBLE_CASE(direct_is_not_compared, "memfds,wrongpages,integrated")
{
	struct fixture f;

	import_ok(&f, open_ok(), DLBUF_PATH_DIRECT);
	give_up(&f);
}

/* Its refusal says nothing about the next buffer. The duplicate is closed. */
DOUBLE_CASE(direct_is_refused, "noimport,memfds")
{
	struct dlbuf_device *dev = open_ok();
	struct fixture f;

	CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW),
		  -EOPNOTSUPP);
	CHECK_STR(dlbuf_last_error(), "levelzero: zeMemAllocDevice: "
		  "ZE_RESULT_ERROR_INVALID_ARGUMENT (0x78000004), "
		  "invalid argument");
	import_finish(&f, -1);
	fake->no_import = false;
	import_ok(&f, dev, DLBUF_PATH_DIRECT);
	give_up(&f);
}

TEST(host_is_refused)
{
	int memfd AUTO_FD = memfd_create("behind it", MFD_CLOEXEC);
	static const char *const without[] = { "nosysmem", "ignoresysmem" };
	struct dlbuf_device *dev;
	struct fixture f;

	REQUIRE(memfd >= 0 && !ftruncate(memfd, IMPORT_BYTES));
	begin("nozex");
	dev = open_ok();
	/* Not of a mapping that cannot be pinned. */
	CHECK_ERR_SAYS(import_as(&f, dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW), -EOPNOTSUPP,
		       "memory that can be pinned");
	import_finish(&f, -1);
	for (int i = 0; i < 2; i++) {
		fake->no_sysmem = fake->ignore_sysmem = false;
		fake->preset(without[i]);
		fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW);
		memory_remember(f.imp->fd, memfd);
		CHECK_ERR(import_now(&f), -EOPNOTSUPP);
		CHECK_SAYS(i ? "no ZE_extension_external_memmap_sysmem" :
			       "ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION");
		import_finish(&f, -1);
	}
	memory_forget(memfd);
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- streams */

DOUBLE_CASE(lists_that_are_no_streams, "two,memfds")
{
	struct dlbuf_device *dev AUTO_DEV = open_as("levelzero:0"), *other AUTO_DEV = NULL;
	struct app app, others;
	struct fixture f;

	other = open_as("levelzero:1");
	app_begin(&app, dev);
	app_begin(&others, other);
	import_ok(&f, dev, DLBUF_PATH_DIRECT);
	CHECK_EQ(dev->backend->stream(dev, ON(NULL), false), 0);
	CHECK_EQ(dev->backend->stream(dev, ON(app.stream), false), 0);
	CHECK_EQ(dev->backend->stream(dev, ON(DLBUF_STREAM_NO_ORDER),
				      false), STREAM_UNORDERED);
	CHECK_ERR(dev->backend->stream(dev, ON(others.stream), false), -EINVAL);
	CHECK_SAYS("is of another device than levelzero:0's");
	fake->no_immediate = true;
	CHECK_ERR(dev->backend->stream(dev, ON(app.stream), false), -EINVAL);
	CHECK_SAYS("is not an immediate one");
	fake->no_immediate = false;
	/* A driver that does not report it is trusted. */
	break_call("zeCommandListIsImmediate",
		   ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, 0);
	CHECK_EQ(dev->backend->stream(dev, ON(app.stream), false), 0);
	heal();
	app_end(&others);
	app_end(&app);
	import_finish(&f, 0);
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
