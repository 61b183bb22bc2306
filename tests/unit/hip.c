// SPDX-License-Identifier: MIT
/*
 * The HIP backend against a double of the driver (tests/doubles/hip.h): devices, and
 * imports of a dma-buf. hip_queue.c has the cases of lib/queue.
 */
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_HIP
#include <dlbuf/prepare.h>

#include "hip_backend.h"

/* ---------------------------------------------------------------- devices */

DOUBLE_CASE(no_device, "none")
{
	struct dlbuf_device *dev = NULL;

	for (int i = 0; i < 3; i++) {
		CHECK_ERR(dlbuf_device_open("hip", NULL, &dev), -ENODEV);
		CHECK_STR(dlbuf_last_error(), "hip: hipInit: hipErrorNoDevice (100), "
			  "no ROCm-capable device is detected");
	}
}

/* Without an attribute the device is found by its other names. */
DOUBLE_CASE(attributes_fail, "")
{
	struct dlbuf_device *dev = NULL;

	break_call("hipDeviceGetAttribute", HIPABI_INVALID_VALUE, 0);
	CHECK_ERR(dlbuf_device_open("hip:pci=0010:01:03.0", NULL, &dev), -ENODEV);
	dlbuf_device_close(open_hip());
	heal();
}

/* The thread's device and its capture mode are the application's. */
DOUBLE_CASE(the_thread_is_left_as_it_was, "two")
{
	struct hip_device *dev = hip_device_of(open_as("hip:1"));
	struct fixture f;
	int at, mode = 1;

	CHECK_EQ(dev->hip.GetDevice(&at), 0);
	CHECK_EQ(at, 0);
	CHECK_EQ(dev->hip.ThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(mode, 0);
	import_ok(&f, &dev->queue.base, DLBUF_PATH_COPY);
	CHECK_OK(acquire(&f, DLBUF_RW, NULL, -1));
	close(release(&f, DLBUF_RW, NULL));
	import_finish(&f, 0);
	settle();
	CHECK_EQ(dev->hip.GetDevice(&at), 0);
	CHECK_EQ(at, 0);
	CHECK_EQ(dev->hip.ThreadExchangeStreamCaptureMode(&mode), 0);
	CHECK_EQ(mode, 1);
	break_call("hipSetDevice", HIPABI_INVALID_DEVICE, 0);
	CHECK_ERR(import_as(&f, &dev->queue.base, ALL, DLBUF_RW), -ENODEV);
	CHECK_SAYS("hipSetDevice: hipErrorInvalidDevice (101)");
	heal();
	import_finish(&f, -1);
	dlbuf_device_close(&dev->queue.base);
}

/* ---------------------------------------------------------------- kernels */

#ifdef CONFIG_PREPARE_HIP
/* hiprtc is not installed; it refuses the source; and the driver refuses its code. */
TEST(frames_that_are_not_prepared)
{
	static const struct {
		const char *words, *failing;
		int result, ret;
		const char *says;
	} rows[] = {
		{ "7.1", NULL, 0, -EOPNOTSUPP, "hiprtc compiles: hiprtc: /nonexistent" },
		{ "6.4", "hiprtcCompileProgram", 6, -EIO, "error: as the test has it" },
		{ "6.4", "hiprtcGetCode", 11, -EIO, "hiprtcGetCode: hiprtcResult 11" },
		{ "6.4", "hipModuleLoadData", HIPABI_NOT_SUPPORTED, -EOPNOTSUPP,
		  "hipModuleLoadData" },
	};
	struct dlbuf_frame frame = PICTURE(64, 48, DLBUF_FOURCC('G', 'R', 'E', 'Y'),
					   DLBUF_CODE_V4L2, 1);
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8);

	setenv("DLBUF_HIPRTC_LIBRARY", "/nonexistent/libhiprtc.so", 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dlbuf_prepare *plan = NULL;
		struct dlbuf_device *dev;

		begin(rows[i].words);
		dev = open_hip();
		if (rows[i].failing)
			break_call(rows[i].failing, rows[i].result, 0);
		CHECK_ERR(dlbuf_prepare_create(dev, &frame, &opts, &plan), rows[i].ret);
		CHECK_SAYS(rows[i].says);
		heal();
		dlbuf_device_close(dev);
		end();
	}
	unsetenv("DLBUF_HIPRTC_LIBRARY");
}
#endif

/* ---------------------------------------------------------------- direct */

/* The driver's error is not the machine's: nothing idle is dropped because of it. */
DOUBLE_CASE(trap_foreign_dma_bufs_are_reported_as_no_memory, "memfds")
{
	struct fixture f;

	CHECK_ERR(import_as(&f, open_hip(), PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW),
		  -EOPNOTSUPP);
	CHECK_SAYS("hip: hipImportExternalMemory: hipErrorOutOfMemory (2), which the "
		   "driver also reports for dma-bufs that are not amdgpu's");
	import_finish(&f, -1);
	dlbuf_device_close(f.dev);
}

static void nothing(void *data)
{
}

/* After the handlers that were registered later than this one. */
static void late(void)
{
	_exit(event_add(0, nothing, NULL) != -EOPNOTSUPP);
}

/* A driver's destructors are such handlers, and its calls crash after them. */
TEST(trap_at_exit_the_driver_ends)
{
	pid_t child;
	int status;

	if (KTAP_TSAN)
		SKIP("TSan reports a thread of the double, which nobody joins");
	child = fork();
	if (!child) {
		atexit(late);
		begin("");
		open_hip();
		exit(2);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
}

/* Since 7.0 errors stay until the application asks: it is not to find dlbuf's. */
TEST(trap_last_error)
{
	static const struct {
		const char *words;
		hip_result theirs;
	} cases[] = {
		{ "memfds,7", HIPABI_SUCCESS },
		{ "memfds,7", HIPABI_INVALID_DEVICE },
		{ "memfds,6.4", HIPABI_SUCCESS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hip_device *dev;
		struct fixture f;

		begin(cases[i].words);
		dev = hip_device_of(open_hip());
		if (cases[i].theirs)
			CHECK_EQ(dev->hip.SetDevice(7), HIPABI_INVALID_DEVICE);
		CHECK_ERR(import_as(&f, &dev->queue.base, PATH_BIT(DLBUF_PATH_DIRECT),
				    DLBUF_RW), -EOPNOTSUPP);
		CHECK_EQ(!dev->hip.GetLastError(), !cases[i].theirs);
		import_finish(&f, -1);
		dlbuf_device_close(&dev->queue.base);
		fake->wrong = 0;
		end();
	}
}

/* The kernel's word for a dma-buf, which the tests' memfds are not. */
static const char *exporter;

int open(const char *path, int flags, ...)
{
	unsigned int mode = 0;
	va_list ap;
	int fd;

	va_start(ap, flags);
	if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE)
		mode = va_arg(ap, unsigned int);
	va_end(ap);
	if (!exporter || strncmp(path, "/proc/self/fdinfo/", 18))
		return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	fd = memfd_create("fdinfo", MFD_CLOEXEC);
	dprintf(fd, "pos:\t0\nsize:\t12288\ncount:\t2\nexp_name:\t%s\nname:\tfrom me\n", exporter);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* A driver loses memory with each refusal. The dma-bufs of amdgpu are DRM's, too. */
DOUBLE_CASE(foreign_dma_bufs_are_tried_once_per_exporter, "memfds")
{
	static const struct {
		const char *exporter;
		unsigned int asked;
	} cases[] = {
		{ "udmabuf", 1 }, { "udmabuf", 0 }, { "system", 1 }, { "udmabuf", 0 },
		{ "system", 0 }, { "drm", 1 }, { "drm", 1 }, { NULL, 1 }, { NULL, 1 },
	};
	struct dlbuf_device *dev AUTO_DEV = open_hip();

	watch("hipImportExternalMemory");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;

		exporter = cases[i].exporter;
		seen = 0;
		CHECK_ERR_SAYS(import_as(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW),
			       -EOPNOTSUPP, "dma-bufs that are not amdgpu's");
		CHECK_EQ(seen, cases[i].asked);
		import_finish(&f, -1);
	}
	exporter = NULL;
}

static struct hip_device *shared;
static pthread_barrier_t meet[2];
static int memfd;

static void *import_and_export(void *p)
{
	const struct hip_memory_desc desc = {
		.type = HIPABI_EXTERNAL_MEMORY_OPAQUE_FD, .handle.fd = memfd, .size = 4096,
	};
	hip_external_memory memory;
	int out;

	for (int i = 0; i < 2; i++) {
		pthread_barrier_wait(&meet[i]);
		if (i && p) {
			CHECK_EQ(shared->hip.MemGetHandleForAddressRange(&out, p, 4096,
				 HIPABI_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0), 0);
			close(out);
			continue;
		}
		CHECK_EQ(shared->hip.ImportExternalMemory(&memory, &desc), 0);
		CHECK_EQ(shared->hip.DestroyExternalMemory(memory), 0);
	}
	return NULL;
}

/* ThreadSanitizer looks at the double, too. */
TEST(threads_import_and_export)
{
	pthread_t threads[2];
	void *p[2] = { NULL };

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin("memfds,amdgpu");
	shared = hip_device_of(open_hip());
	memfd = memfd_create("a dma-buf", MFD_CLOEXEC);
	CHECK_OK(ftruncate(memfd, 4096));
	CHECK_EQ(shared->hip.Malloc(&p[1], 4096), 0);
	for (int i = 0; i < 2; i++)
		pthread_barrier_init(&meet[i], NULL, 2);
	for (int i = 0; i < 2; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, import_and_export, p[i]));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(shared->hip.Free(p[1]), 0);
	close(memfd);
	dlbuf_device_close(&shared->queue.base);
	end();
}

/* ---------------------------------------------------------------- other paths */

/* The driver's flag for read-only memory does nothing, so it is not asked. */
DOUBLE_CASE(trap_read_only_memory_is_not_registered, "")
{
	struct fixture f;

	watch("hipHostRegister");
	CHECK_ERR(import_as(&f, open_hip(), PATH_BIT(DLBUF_PATH_HOST), DLBUF_READ),
		  -EOPNOTSUPP);
	CHECK_STR(dlbuf_last_error(),
		  "the device cannot register read-only memory");
	CHECK_EQ(seen, 0);
	import_finish(&f, -1);
	/* An fd that is open for writing, too, has a mapping that can be registered. */
	fixture_make(&f, f.dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW);
	f.imp->id.access = DLBUF_READ;
	CHECK_OK(import_now(&f));
	give_up(&f);
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
