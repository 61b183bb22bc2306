// SPDX-License-Identifier: MIT
/*
 * The OpenCL backend against a double of a driver (tests/doubles/opencl.h): devices, those
 * of an application, the handles of tensors, and imports that one driver makes in its own
 * way. opencl_queue.c has the cases of lib/queue.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_OPENCL
#include "cuda_memfds.h"
#include "opencl_backend.h"
#include "dmabuf/memory.h"

/* ---------------------------------------------------------------- devices */

TEST(no_loader_and_no_driver)
{
	struct dlbuf_opencl_device w = { .size = sizeof(w), .context = &w };
	struct dlbuf_device *dev;

	begin("none");
	CHECK_ERR(dlbuf_device_open("opencl", NULL, &dev), -ENODEV);
	CHECK(strstr(dlbuf_last_error(), "no driver is installed"));
	end();
	setenv("DLBUF_OPENCL_LIBRARY", "/nonexistent/libOpenCL.so.1", 1);
	CHECK_ERR(dlbuf_device_open("opencl", NULL, &dev), -ENODEV);
	CHECK_ERR(dlbuf_device_wrap_opencl(&w, NULL, &dev), -ENODEV);
}

/* ---------------------------------------------------------------- preparation */

#ifdef CONFIG_PREPARE_OPENCL
static void lose_in_finish(const char *called)
{
	if (!strcmp(called, "clFinish"))
		fake->lose(CL_DEVICE_NOT_AVAILABLE);
}

static unsigned int markers;

static void count_markers(const char *called)
{
	markers += !strcmp(called, "clEnqueueMarkerWithWaitList");
}

/*
 * A driver that refuses the kernel, or a run; a device that is lost during it. A run records one
 * event, which its import and its tables share.
 */
TEST(preparation)
{
	static const struct {
		const char *machine, *failing;
		int result, create, run;
		const char *why;
		void (*look)(const char *called);
	} rows[] = {
		{ "arm,memfds", NULL, 0, 0, 0, "", count_markers },
		{ "arm,memfds", "clBuildProgram", CL_BUILD_PROGRAM_FAILURE, -EOPNOTSUPP, 0,
		  "error: the double was told so", NULL },
		{ "arm,memfds", "clBuildProgram", CL_COMPILER_NOT_AVAILABLE, -EOPNOTSUPP, 0,
		  "COMPILER_NOT_AVAILABLE", NULL },
		{ "arm,memfds", "clEnqueueNDRangeKernel", CL_OUT_OF_RESOURCES, 0, -EIO,
		  "clEnqueueNDRangeKernel", NULL },
		{ "khr,memfds", "clEnqueueNDRangeKernel", CL_DEVICE_NOT_AVAILABLE, 0, -ENODEV,
		  "clEnqueueNDRangeKernel", NULL },
		{ "arm,memfds", NULL, 0, 0, -ENODEV, "clFinish", lose_in_finish },
	};
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8, .dtype = { kDLUInt, 8, 1 });
	DLTensor layout = LAYOUT8(3, ((int64_t[]){ 3, 8, 8 }), .byte_offset = 4096);
	int fd AUTO_FD = memfd_create("a dma-buf", MFD_CLOEXEC);
	struct dlbuf_frame frame = PICTURE(64, 16, DLBUF_FOURCC('G', 'R', 'E', 'Y'),
					   DLBUF_CODE_V4L2, 1,
					   .planes = { { .fd = fd, .pitch = 64 } });

	REQUIRE(fd >= 0 && !ftruncate(fd, IMPORT_BYTES));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		DLManagedTensorVersioned *out = NULL;
		struct dlbuf_prepare *plan = NULL;
		struct dlbuf_device *dev;
		int ret;

		begin(rows[i].machine);
		dev = open_ok();
		REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &out));
		break_call(rows[i].failing, rows[i].result, 0);
		ret = dlbuf_prepare_create(dev, &frame, &opts, &plan);
		CHECK_EQ(ret, rows[i].create);
		fake->look = rows[i].look;
		if (!ret)
			CHECK_EQ(dlbuf_prepare_frame(plan, &frame, NULL, out), rows[i].run);
		CHECK_SAYS(rows[i].why);
		fake->look = NULL;
		CHECK_EQ(markers, 1);
		heal();
		dlbuf_prepare_destroy(plan);
		out->deleter(out);
		dlbuf_device_close(dev);
		settle();
		end();
	}
}
#endif

/* ---------------------------------------------------------------- imports */

/* An import waits for no fence, also if it maps its memory. */
DOUBLE_CASE(host_memory_beside_a_wait, "userptr,memfds")
{
	struct fixture fs[2];
	int fence = new_event(0);

	for (int i = 0; i < 2; i++) {
		fixture_make(&fs[i], i ? fs[0].dev : open_as("opencl"), PATH_BIT(DLBUF_PATH_HOST),
			     DLBUF_RW);
		memory_remember(fs[i].imp->fd, fs[i].memfd);
		REQUIRE_OK(import_now(&fs[i]));
		if (!i)
			CHECK_OK(acquire(&fs[0], DLBUF_RW, NULL, fence));
	}
	signal_event(fence);
	until_over(release(&fs[0], DLBUF_RW, NULL));
	close(fence);
	import_finish(&fs[1], 0);
	give_up(&fs[0]);
}

/* An access that failed has begun nothing: the driver sees none that begins twice. */
DOUBLE_CASE(an_access_fails_and_begins_again, "khr,memfds")
{
	struct fixture f;
	unsigned int failed = 0;
	int ret;

	REQUIRE_OK(import_as(&f, open_as("opencl"), PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW));
	for (unsigned int spared = 0; spared < 6; spared++) {
		break_call("clGetCommandQueueInfo", CL_OUT_OF_RESOURCES, spared);
		ret = acquire(&f, DLBUF_RW, NULL, -1);
		heal();
		if (!ret)
			until_over(release(&f, DLBUF_RW, NULL));
		failed += !!ret;
	}
	CHECK(failed);
	CHECK_OK(acquire(&f, DLBUF_RW, NULL, -1));
	until_over(release(&f, DLBUF_RW, NULL));
	give_up(&f);
}

/* ---------------------------------------------------------------- wrapping */

/* An application's context with two devices, and a queue on the second one. */
struct theirs {
	cl_device_id devices[2];
	cl_context context, other;
	cl_command_queue queue;
};

static void theirs_begin(struct theirs *t)
{
	cl_int result;

	begin("two,memfds,images");
	REQUIRE(!cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 2, t->devices,
				 NULL));
	t->context = cl.CreateContext(NULL, 2, t->devices, NULL, NULL, &result);
	REQUIRE(!result);
	t->other = cl.CreateContext(NULL, 1, t->devices, NULL, NULL, &result);
	REQUIRE(!result);
	t->queue = cl.CreateCommandQueue(t->context, t->devices[1], 0, &result);
	REQUIRE(!result);
}

static void theirs_end(struct theirs *t)
{
	CHECK_EQ(cl.ReleaseCommandQueue(t->queue), 0);
	CHECK_EQ(cl.ReleaseContext(t->context), 0);
	CHECK_EQ(cl.ReleaseContext(t->other), 0);
	end();
}

TEST(wrapping)
{
	struct dlbuf_opencl_device w = { .size = sizeof(w) }, got = w;
	struct dlbuf_device *dev;
	struct theirs t;
	struct fixture f;
	int fence, theirs;

	theirs_begin(&t);
	w.context = t.context;
	w.device = t.devices[1];
	w.queue = t.queue;
	REQUIRE_OK(dlbuf_device_wrap_opencl(&w, NULL, &dev));
	CHECK_STR(dev->name, "opencl:1");
	CHECK_OK(dlbuf_opencl_get_device(dev, &got));
	CHECK(got.context == t.context && got.device == t.devices[1] &&
	      got.queue == t.queue && got.platform == (void *)platform);
	/* In a context of two devices, each object says which one it is of. */
	import_ok(&f, dev, DLBUF_PATH_DIRECT);
	theirs = fence = pending_fence();
	CHECK_OK(acquire(&f, DLBUF_RW, NULL, fence));
	fence = release(&f, DLBUF_RW, NULL);
	CHECK(!signalled(fence));
	signal_fence(theirs);
	until_over(fence);
	close(theirs);
	import_finish(&f, 0);
	dlbuf_device_close(dev);
	/* Without a queue there is one of the library. */
	w.queue = NULL;
	REQUIRE_OK(dlbuf_device_wrap_opencl(&w, NULL, &dev));
	CHECK_OK(dlbuf_opencl_get_device(dev, &got));
	CHECK(got.queue && got.queue != (void *)t.queue);
	dlbuf_device_close(dev);
	theirs_end(&t);
}

TEST(wrapping_is_refused)
{
	struct dlbuf_opencl_device w = { .size = sizeof(w) };
	struct dlbuf_device *dev;
	struct theirs t;
	int status = -1;
	pid_t pid;

	theirs_begin(&t);
	CHECK_ERR(dlbuf_device_wrap_opencl(NULL, NULL, &dev), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_opencl(&w, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_opencl(&w, NULL, &dev), -EINVAL);
	w.context = t.context;
	CHECK_ERR(dlbuf_device_wrap_opencl(&w, NULL, &dev), -EINVAL);
	w.device = &t;
	CHECK_ERR(dlbuf_device_wrap_opencl(&w, NULL, &dev), -EINVAL);
	w.device = t.devices[0];
	w.queue = t.queue;
	CHECK_ERR(dlbuf_device_wrap_opencl(&w, NULL, &dev), -EINVAL);
	w.context = t.other;
	CHECK_ERR(dlbuf_device_wrap_opencl(&w, NULL, &dev), -EINVAL);
	break_call("clGetContextInfo", CL_OUT_OF_RESOURCES, 0);
	CHECK_ERR(dlbuf_device_wrap_opencl(&w, NULL, &dev), -EIO);
	heal();
	pid = fork();
	if (!pid)
		_exit(dlbuf_device_wrap_opencl(&w, NULL, &dev) != -ESTALE);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	theirs_end(&t);
}

/* Streams are queues of the device and its context. */
TEST(streams)
{
	struct dlbuf_device *dev;
	struct theirs t;
	struct fixture f;

	theirs_begin(&t);
	dev = open_ok();
	CHECK_OK(opencl_backend.stream(dev, ON(NULL), false));
	CHECK_ERR(opencl_backend.stream(dev, ON(t.queue), false), -EINVAL);
	CHECK(strstr(dlbuf_last_error(), "another context or device"));
	import_ok(&f, dev, DLBUF_PATH_DIRECT);
	CHECK_ERR(acquire(&f, DLBUF_RW, t.queue, -1), -EINVAL);
	give_up(&f);
	theirs_end(&t);
}

/* ---------------------------------------------------------------- tensors */

TEST(tensors)
{
	int fd AUTO_FD = memfd_create("a dma-buf", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, IMPORT_BYTES));
	for (uint64_t offset = 0; offset <= 128; offset += 64) {
		int64_t shape[] = { 4, 32, 4 }, strides[] = { 128, 4, 1 };
		DLTensor layout = LAYOUT8(3, shape, .byte_offset = offset,
					  .strides = strides);
		DLManagedTensorVersioned *t = NULL;
		struct dlbuf_device *dev;

		begin("khr,memfds");
		dev = open_ok();
		REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &t));
		CHECK_EQ(t->dl_tensor.byte_offset, offset);
		t->deleter(t);
		dlbuf_device_close(dev);
		end();
	}
}

/*
 * The application releases its queue during an access, which then ends in one of these
 * ways. Meanwhile the default queue waits for the library's thread.
 */
TEST(queues_are_kept)
{
	enum { BY_ONE, ALL_ELSEWHERE, DELETED, ONE_DELETED, REFUSED, N };

	for (int end_by = 0; end_by < N; end_by++) {
		DLBUF_OPTS(dlbuf_import_opts, opts, .paths = PATH_BIT(DLBUF_PATH_DIRECT));
		struct dlbuf_opencl_device of = { .size = sizeof(of) };
		int64_t shape[] = { IMPORT_BYTES };
		DLTensor layout = LAYOUT8(1, shape);
		DLManagedTensorVersioned *t[2];
		int in = pending_fence(), n = end_by == ONE_DELETED ? 1 : 2;
		cl_command_queue queue;
		unsigned int live;
		struct fixture f;

		begin("khr,memfds,noimport,noexport");
		import_ok(&f, open_ok(), DLBUF_PATH_DIRECT);
		CHECK_OK(dlbuf_opencl_get_device(f.dev, &of));
		CHECK_OK(acquire(&f, DLBUF_READ, NULL, in));
		live = fake->live[FAKE_QUEUE];
		queue = cl.CreateCommandQueue(of.context, of.device, 0, NULL);
		for (int i = 0; i < 2; i++)
			REQUIRE_OK(dlbuf_import(f.dev, f.memfd, &layout, &opts, &t[i]));
		if (end_by == REFUSED)
			break_call("clEnqueueAcquireExternalMemObjectsKHR", CL_OUT_OF_RESOURCES, 0);
		CHECK_EQ(n == 1 ? dlbuf_acquire(t[0], DLBUF_READ, queue, NULL) :
			 dlbuf_acquire_all(t, n, DLBUF_READ, queue, NULL),
			 end_by == REFUSED ? -EIO : 0);
		heal();
		CHECK_EQ(cl.ReleaseCommandQueue(queue), 0);
		CHECK_EQ(fake->live[FAKE_QUEUE], live + (end_by != REFUSED));
		for (int i = 0; i < 2 && end_by == BY_ONE; i++)
			CHECK_OK(dlbuf_release(t[i], queue, NULL));
		if (end_by == ALL_ELSEWHERE)
			CHECK_OK(dlbuf_release_all(t, 2, NULL, NULL));
		for (int i = 0; i < 2; i++)
			t[i]->deleter(t[i]);
		CHECK_EQ(fake->live[FAKE_QUEUE], live);
		signal_fence(in);
		close(in);
		until_over(release(&f, DLBUF_READ, NULL));
		CHECK_OK(dlbuf_device_drain(f.dev, 0));
		give_up(&f);
		end();
	}
}

/* ---------------------------------------------------------------- imports */

/* The driver's cl_mem is the tensor's data, and the offset is apart. */
DOUBLE_CASE(handles, "khr,memfds")
{
	struct fixture f;
	size_t bytes;

	import_ok(&f, open_ok(), DLBUF_PATH_DIRECT);
	CHECK(f.imp->opaque);
	CHECK_EQ(cl.GetMemObjectInfo(mem_of(&f), CL_MEM_SIZE, sizeof(bytes),
				     &bytes, NULL), 0);
	CHECK_EQ(bytes, IMPORT_BYTES);
	give_up(&f);
}

/* Qualcomm's driver requires bytes behind the buffer. */
DOUBLE_CASE(padding, "qcom,padding,memfds")
{
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	struct fixture f;
	size_t bytes;

	CHECK_EQ(dev->slack, 4096);
	import_ok(&f, dev, DLBUF_PATH_DIRECT);
	CHECK_EQ(cl.GetMemObjectInfo(mem_of(&f), CL_MEM_SIZE, sizeof(bytes),
				     &bytes, NULL), 0);
	CHECK_EQ(bytes, IMPORT_BYTES - 4096);
	import_finish(&f, 0);
	fake->padding = 3 * 4096;
	dlbuf_device_close(dev);
	dev = open_ok();
	CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW),
		  -EOPNOTSUPP);
	CHECK(strstr(dlbuf_last_error(), "no room"));
	import_finish(&f, -1);
}

/* Khronos' way of the same driver gives a buffer of its own. */
DOUBLE_CASE(the_vendors_import_comes_first, "adreno8,memfds")
{
	struct fixture f;
	struct app app;

	import_ok(&f, open_ok(), DLBUF_PATH_DIRECT);
	app_begin(&app, f.dev);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x21);
	until_over(release(&f, DLBUF_RW, app.stream));
	CHECK_EQ(f.bytes[77], 0x21);
	app_end(&app);
	give_up(&f);
}

/* A fresh buffer is as such an import's own memory: it shows nothing. */
TEST(imports_that_share_nothing)
{
	static const char *const words[] = { "apart,memfds", "khr,memfds" };

	for (int i = 0; i < 2; i++) {
		bool shares = !i;
		struct fixture f;

		begin(words[i]);
		fixture_make(&f, open_ok(), PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW);
		memset(f.bytes, 0, IMPORT_BYTES);
		REQUIRE_OK(import_now(&f));
		CHECK_OK(queue_try_memory(queue_memory_of(f.imp),
					  &(struct trial_buffer){ f.memfd, f.bytes }, &shares));
		CHECK_EQ(shares, i);
		give_up(&f);
		end();
	}
}

/* A driver that names an extension and lacks its functions. */
TEST(extensions_without_functions)
{
	static const struct {
		const char *words, *named;
		bool imports;
	} cases[] = {
		/* Neither import nor semaphores are tried. */
		{ "userptr,memfds", "cl_arm_import_memory_dma_buf ", false },
		{ "userptr,memfds", "cl_khr_external_semaphore_sync_fd ", false },
	};

	for (size_t i = 0; i < 2; i++) {
		struct dlbuf_device *dev;
		struct fixture f;

		begin(cases[i].words);
		fake->machine.extensions = cases[i].named;
		fake->no_functions = true;
		dev = open_ok();
		CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT),
				    DLBUF_RW), -EOPNOTSUPP);
		import_finish(&f, -1);
		dlbuf_device_close(dev);
		end();
	}
}
#else
KTAP_SKIPPED("the OpenCL backend is not built")
#endif

KTAP_MAIN()
