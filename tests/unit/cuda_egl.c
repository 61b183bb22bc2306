// SPDX-License-Identifier: MIT
/*
 * The CUDA backend's way by EGL, against doubles of both drivers
 * (tests/fakes/cuda.h, egl.h): what becomes an image, who owns what, and what
 * is refused.
 */
#include "ktap.h"

#include "emulated.h"

#ifdef CONFIG_BACKEND_CUDA
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/vfs.h>

#include <dlbuf/dlbuf.h>

#include "backends/cuda/cuda.h"
#include "event.h"
#include "fakes/cuda.h"
#include "fakes/egl.h"

#define BYTES (3 * 4096)
#define DIRECT DLBUF_PATH_BIT(DLBUF_PATH_DIRECT)

/* The core imports dma-bufs only; what can be sealed stands for one. */
int fstatfs(int fd, struct statfs *fs)
{
	*fs = (struct statfs){
		.f_type = fcntl(fd, F_GET_SEALS) < 0 ? 0 : 0x444d4142,
	};
	return 0;
}

static struct fake_cuda *cuda;
static struct fake_egl *egl;
static void *cuda_lib, *egl_lib;
static cuda_result (*push)(cuda_context ctx), (*pop)(cuda_context *ctx);
static cuda_result (*to_device)(cuda_pointer to, const void *from, size_t n);
static cuda_result (*from_device)(void *to, cuda_pointer from, size_t n);

static void *load(const char *variable, const char *name)
{
	char path[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 40);
	void *library;

	REQUIRE(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	snprintf(slash, 40, "/../fakes/%s", name);
	setenv(variable, path, 1);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		ktap_note(NULL, 0, "%s", dlerror());
	REQUIRE(library);
	return library;
}

static void quiet(void *data, enum dlbuf_log_level level, const char *text)
{
	(void)data, (void)level, (void)text;
}

static void begin_with(const char *library, const char *words)
{
	need_64_bits();
	KTAP_KEEPS(KTAP_HEAP, "a driver stays loaded, glibc keeps stacks");
	setenv("FAKE_CUDA", words, 1);
	setenv("DLBUF_VULKAN_LIBRARY", "/nonexistent/libvulkan.so.1", 1);
	cuda_lib = load("DLBUF_CUDA_LIBRARY", library);
	egl_lib = load("DLBUF_EGL_LIBRARY", "libegl.so");
	cuda = ((fake_cuda_fn)dlsym(cuda_lib, "fake_cuda"))(true);
	egl = ((fake_egl_fn)dlsym(egl_lib, "fake_egl"))(true);
	*(void **)&push = dlsym(cuda_lib, "cuCtxPushCurrent_v2");
	*(void **)&pop = dlsym(cuda_lib, "cuCtxPopCurrent_v2");
	*(void **)&to_device = dlsym(cuda_lib, "cuMemcpyHtoD_v2");
	*(void **)&from_device = dlsym(cuda_lib, "cuMemcpyDtoH_v2");
	dlbuf_log_set(quiet, NULL, DLBUF_LOG_INFO);
}

static void begin(void)
{
	begin_with("libcuda.so", "egl");
}

static void end(void)
{
	while (event_pending())
		sched_yield();
	event_user_add();
	event_user_remove();
	CHECK_EQ(cuda->wrong, 0);
	CHECK_EQ(egl->wrong, 0);
	CHECK_EQ(egl->live, 0);
	for (int kind = 0; kind < FAKE_KINDS; kind++)
		CHECK_MSG(!cuda->live[kind], "%u of kind %d", cuda->live[kind],
			  kind);
	((fake_cuda_fn)dlsym(cuda_lib, "fake_cuda"))(true);
	((fake_egl_fn)dlsym(egl_lib, "fake_egl"))(true);
	dlclose(egl_lib);
	dlclose(cuda_lib);
}

static struct dlbuf_device *open_with(uint32_t flags)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = flags);
	struct dlbuf_device *dev = NULL;

	REQUIRE_OK(dlbuf_device_open("cuda", &opts, &dev));
	return dev;
}

static struct dlbuf_device *open_egl(void)
{
	return open_with(DLBUF_DEVICE_EGL | DLBUF_DEVICE_NO_CACHE);
}

static int dma_buf(uint64_t bytes)
{
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	REQUIRE(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	return fd;
}

static int import(struct dlbuf_device *dev, int fd, uint64_t bytes,
		  uint32_t access, DLManagedTensorVersioned **out)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .paths = DIRECT, .access = access);
	int64_t shape = (int64_t)bytes;
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 },
			    .shape = &shape };

	return dlbuf_import(dev, fd, &layout, &opts, out);
}

/* Refused, and nothing is left of it. */
static void refused(struct dlbuf_device *dev, uint64_t bytes, const char *said)
{
	DLManagedTensorVersioned *t = NULL;
	int fd = dma_buf(bytes);

	CHECK_ERR(import(dev, fd, bytes, 0, &t), -EOPNOTSUPP);
	CHECK_SAYS("cuImportExternalMemory: CUDA_ERROR_NOT_SUPPORTED");
	CHECK_SAYS(said);
	CHECK(!t);
	CHECK_EQ(egl->live, 0);
	CHECK_EQ(cuda->live[FAKE_GRAPHICS], 0);
	close(fd);
}

static unsigned int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	REQUIRE(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* ---------------------------------------------------------------- taken */

/* A byte of the tensor is that of the dma-buf, from the first to the last. */
TEST(the_memory_is_the_dma_bufs)
{
	static unsigned char want[BYTES], got[BYTES];
	struct dlbuf_cuda_device info = { .size = sizeof(info) };
	DLBUF_INFO(dlbuf_tensor_info, tensor);
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	cuda_context popped;
	cuda_pointer at;
	int fd;

	need_machine();
	begin();
	dev = open_egl();
	fd = dma_buf(BYTES);
	for (size_t i = 0; i < BYTES; i++)
		want[i] = (unsigned char)(i * 2654435761u >> 13);
	CHECK_EQ(pwrite(fd, want, BYTES, 0), BYTES);
	REQUIRE_OK(import(dev, fd, BYTES, 0, &t));
	CHECK_OK(dlbuf_tensor_get_info(t, &tensor));
	CHECK_EQ(tensor.path, DLBUF_PATH_DIRECT);
	CHECK_EQ(t->flags & DLPACK_FLAG_BITMASK_IS_COPIED, 0);
	CHECK_EQ(egl->live, 1);
	CHECK_EQ(cuda->live[FAKE_GRAPHICS], 1);
	CHECK_EQ(cuda->live[FAKE_EXTERNAL_MEMORY], 0);

	CHECK_OK(dlbuf_cuda_get_device(dev, &info));
	REQUIRE(!push(info.context));
	at = (uintptr_t)t->dl_tensor.data;
	CHECK_OK(dlbuf_acquire(t, DLBUF_RW, NULL, NULL));
	CHECK_EQ(from_device(got, at, BYTES), 0);
	CHECK(!memcmp(want, got, BYTES));
	CHECK_EQ(to_device(at + BYTES - 2, "xy", 2), 0);
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	CHECK_EQ(pread(fd, got, 2, BYTES - 2), 2);
	CHECK(!memcmp(got, "xy", 2));
	REQUIRE(!pop(&popped));
	t->deleter(t);
	CHECK_EQ(egl->live, 0);
	CHECK_EQ(cuda->live[FAKE_GRAPHICS], 0);
	dlbuf_device_close(dev);
	close(fd);
	end();
}

/* EGL keeps none, and the caller's is the caller's. */
TEST(fds_are_borrowed)
{
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	unsigned int before;
	int fd, again;

	begin();
	dev = open_egl();
	before = count_fds();
	fd = dma_buf(BYTES);
	REQUIRE_OK(import(dev, fd, BYTES, 0, &t));
	/* The caller's and the import's. */
	CHECK_EQ(count_fds(), before + 2);
	close(fd);
	again = dma_buf(BYTES);
	CHECK_EQ(again, fd);
	t->deleter(t);
	CHECK_EQ(count_fds(), before + 1);
	close(again);
	dlbuf_device_close(dev);
	end();
}

TEST(read_only)
{
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	char path[32];
	int fd, ro;

	begin();
	dev = open_egl();
	fd = dma_buf(BYTES);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	REQUIRE(ro >= 0);
	REQUIRE_OK(import(dev, ro, BYTES, DLBUF_READ, &t));
	CHECK(t->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
	CHECK_EQ(egl->made, 1);
	t->deleter(t);
	close(ro);
	close(fd);
	dlbuf_device_close(dev);
	end();
}

/* Who has not asked is not given it, and who needs none does without. */
TEST(only_where_it_is_asked_for)
{
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	int fd;

	begin();
	dev = open_with(0);
	fd = dma_buf(BYTES);
	CHECK_ERR(import(dev, fd, BYTES, 0, &t), -EOPNOTSUPP);
	CHECK(!strstr(dlbuf_last_error(), "egl"));
	CHECK_EQ(egl->initialised + egl->made, 0);
	dlbuf_device_close(dev);
	end();

	begin_with("libcuda.so", "thor,memfds");
	dev = open_egl();
	REQUIRE_OK(import(dev, fd, BYTES, 0, &t));
	CHECK_EQ(egl->made, 0);
	CHECK_EQ(cuda->live[FAKE_EXTERNAL_MEMORY], 1);
	t->deleter(t);
	dlbuf_device_close(dev);
	end();
	close(fd);
}

TEST(a_flag_nobody_knows)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = DLBUF_DEVICE_EGL << 1);
	struct dlbuf_device *dev = NULL;

	begin();
	CHECK_ERR(dlbuf_device_open("cuda", &opts, &dev), -EINVAL);
	CHECK(!dev);
	end();
}

/* ---------------------------------------------------------------- rows */

static struct cuda_egl_frame seen;

static void note(struct cuda_egl_frame *frame)
{
	seen = *frame;
}

TEST(rows)
{
	static const struct {
		uint64_t bytes;
		unsigned int pitch, rows; /* 0: refused */
	} cases[] = {
		{ 4096, 4096, 1 },
		{ 3 * 4096, 4096, 3 },
		{ 16384ull * 4096, 4096, 16384 },
		{ 16385ull * 4096, 0, 0 },
		{ 16386ull * 4096, 8192, 8193 },
		{ 20000ull * 4096, 8192, 10000 },
		{ 16384ull * 8192, 8192, 16384 },
		{ 16384ull * 16384, 16384, 16384 },
		{ 16384ull * 16384 + 16384, 0, 0 },
		{ 16384ull * 32768, 0, 0 },
		{ 1000, 0, 0 },
	};
	struct dlbuf_device *dev;

	begin();
	dev = open_egl();
	egl->skew = note;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		DLManagedTensorVersioned *t = NULL;
		int fd;

		if (!cases[i].rows) {
			refused(dev, cases[i].bytes, "are not 16384 rows");
			continue;
		}
		fd = dma_buf(cases[i].bytes);
		seen.pitch = 0;
		CHECK_OK(import(dev, fd, cases[i].bytes, 0, &t));
		CHECK_EQ(seen.pitch, cases[i].pitch);
		CHECK_EQ(seen.width, cases[i].pitch);
		CHECK_EQ(seen.height, cases[i].rows);
		if (t)
			t->deleter(t);
		close(fd);
	}
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- refusals */

static void array(struct cuda_egl_frame *f) { f->type = 0; }
static void two_planes(struct cuda_egl_frame *f) { f->nplanes = 2; }
static void channels(struct cuda_egl_frame *f) { f->channels = 4; }
static void half(struct cuda_egl_frame *f) { f->format = 0x10; }
static void width(struct cuda_egl_frame *f) { f->width--; }
static void height(struct cuda_egl_frame *f) { f->height++; }
static void depth(struct cuda_egl_frame *f) { f->depth = 2; }
static void pitch(struct cuda_egl_frame *f) { f->pitch += 256; }
static void nowhere(struct cuda_egl_frame *f) { f->planes[0] = NULL; }
static void flat(struct cuda_egl_frame *f) { f->depth = 0; }

TEST(frames_that_are_another)
{
	static const struct {
		void (*skew)(struct cuda_egl_frame *f);
		const char *said;
	} cases[] = {
		{ array, "egl: CUDA has the image as an array" },
		{ two_planes, "2 planes of 1 channels of format 1" },
		{ channels, "1 planes of 4 channels of format 1" },
		{ half, "1 planes of 1 channels of format 16" },
		{ width, "4095x3x1, pitch 4096, which is 4096x3" },
		{ height, "4096x4x1, pitch 4096, which is 4096x3" },
		{ depth, "4096x3x2, pitch 4096, which is 4096x3" },
		{ pitch, "4096x3x1, pitch 4352, which is 4096x3" },
		{ nowhere, "no memory of the image" },
	};
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	int fd;

	begin();
	dev = open_egl();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		egl->skew = cases[i].skew;
		refused(dev, BYTES, cases[i].said);
	}
	CHECK_EQ(egl->made, sizeof(cases) / sizeof(cases[0]));
	/* It is the same device still. */
	egl->skew = flat;
	fd = dma_buf(BYTES);
	REQUIRE_OK(import(dev, fd, BYTES, 0, &t));
	t->deleter(t);
	close(fd);
	dlbuf_device_close(dev);
	end();
}

TEST(calls_that_fail)
{
	static const char *const calls[] = {
		"cuGraphicsEGLRegisterImage",
		"cuGraphicsResourceGetMappedEglFrame",
	};
	struct dlbuf_device *dev;

	begin();
	dev = open_egl();
	for (size_t i = 0; i < 2; i++) {
		cuda->failing = calls[i];
		cuda->result = CUABI_INVALID_HANDLE;
		refused(dev, BYTES, calls[i]);
		CHECK_SAYS("CUDA_ERROR_INVALID_HANDLE");
	}
	cuda->failing = NULL;
	egl->failing = "eglCreateImageKHR";
	refused(dev, BYTES, "egl: eglCreateImageKHR: 0x3009");
	dlbuf_device_close(dev);
	end();
}

TEST(no_memory_is_told_as_that)
{
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	int fd;

	begin();
	dev = open_egl();
	fd = dma_buf(BYTES);
	egl->failing = "eglCreateImageKHR";
	egl->error = 0x3003;
	CHECK_ERR(import(dev, fd, BYTES, 0, &t), -ENOMEM);
	egl->failing = NULL;
	cuda->failing = "cuGraphicsEGLRegisterImage";
	cuda->result = CUABI_OUT_OF_MEMORY;
	CHECK_ERR(import(dev, fd, BYTES, 0, &t), -ENOMEM);
	close(fd);
	dlbuf_device_close(dev);
	end();
}

/* The device opens all the same, and an import says why there is no EGL. */
TEST(no_egl)
{
	static const struct {
		const char *failing, *without, *said;
		bool no_dma_bufs;
	} cases[] = {
		{ .failing = "eglInitialize", .said = "egl: eglInitialize: 0x3009" },
		{ .failing = "eglGetPlatformDisplayEXT",
		  .said = "egl: eglGetPlatformDisplayEXT: 0x3009" },
		{ .without = "eglCreateImageKHR", .said = "dma_buf_import" },
		{ .without = "eglDestroyImageKHR", .said = "dma_buf_import" },
		{ .no_dma_bufs = true, .said = "dma_buf_import" },
		{ .failing = "eglQueryString", .said = "dma_buf_import" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dlbuf_device *dev;

		begin();
		egl->failing = cases[i].failing;
		egl->without = cases[i].without;
		egl->no_dma_bufs = cases[i].no_dma_bufs;
		ktap_forget();
		dev = open_egl();
		CHECK_STR(dlbuf_last_error(), "");
		egl->failing = NULL;
		refused(dev, BYTES, cases[i].said);
		dlbuf_device_close(dev);
		end();
	}
}

TEST(no_library)
{
	struct dlbuf_device *dev;

	begin();
	setenv("DLBUF_EGL_LIBRARY", "/nonexistent/libEGL.so.1", 1);
	dev = open_egl();
	refused(dev, BYTES, "/nonexistent/libEGL.so.1");
	dlbuf_device_close(dev);
	/* A library that is something else. */
	setenv("DLBUF_EGL_LIBRARY", getenv("DLBUF_CUDA_LIBRARY"), 1);
	dev = open_egl();
	refused(dev, BYTES, "has no eglGetDisplay");
	dlbuf_device_close(dev);
	end();
}

TEST(old_drivers)
{
	struct dlbuf_device *dev;

	begin_with("libcuda-old.so", "egl");
	dev = open_egl();
	refused(dev, BYTES, "no cuGraphicsEGLRegisterImage");
	CHECK_EQ(egl->initialised, 0);
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- displays */

TEST(the_display_is_the_devices)
{
	static const struct {
		unsigned int ndevices;
		int cuda[3];
		const char *failing, *without;
		bool no_devices;
		int is;
	} cases[] = {
		{ 1, { 0 }, .is = 0 },
		{ 2, { 1, 0 }, .is = 1 },
		{ 3, { -1, 1, 0 }, .is = 2 },
		{ 2, { -1, 1 }, .is = -1 },
		{ 0, { 0 }, .is = -1 },
		{ 1, { 0 }, .no_devices = true, .is = -1 },
		{ 1, { 0 }, .failing = "eglQueryDevicesEXT", .is = -1 },
		{ 1, { 0 }, .without = "eglQueryDevicesEXT", .is = -1 },
		{ 1, { 0 }, .without = "eglQueryDeviceAttribEXT", .is = -1 },
		{ 1, { 0 }, .without = "eglGetPlatformDisplayEXT", .is = -1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		DLManagedTensorVersioned *t = NULL;
		struct dlbuf_device *dev;
		int fd;

		begin();
		egl->ndevices = cases[i].ndevices;
		memcpy(egl->cuda, cases[i].cuda, sizeof(egl->cuda));
		egl->no_devices = cases[i].no_devices;
		egl->failing = cases[i].failing;
		egl->without = cases[i].without;
		egl->device = -2;
		dev = open_egl();
		CHECK_EQ(egl->device, cases[i].is);
		CHECK_EQ(egl->initialised, 1);
		fd = dma_buf(BYTES);
		REQUIRE_OK(import(dev, fd, BYTES, 0, &t));
		t->deleter(t);
		close(fd);
		dlbuf_device_close(dev);
		end();
	}
}

/* The application's images on the same display outlive the device. */
TEST(the_display_stays)
{
	DLManagedTensorVersioned *t = NULL, *u = NULL;
	struct dlbuf_device *dev, *other;
	int fd;

	begin();
	dev = open_egl();
	other = open_egl();
	fd = dma_buf(BYTES);
	REQUIRE_OK(import(dev, fd, BYTES, 0, &t));
	REQUIRE_OK(import(other, fd, BYTES, 0, &u));
	CHECK_EQ(egl->live, 2);
	/* A device goes with its last tensor. */
	dlbuf_device_close(dev);
	t->deleter(t);
	CHECK_EQ(egl->live, 1);
	u->deleter(u);
	dlbuf_device_close(other);
	end();
	close(fd);
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
/* What ends it is as with any other path, and not walked here. */
static int walk(int fd, unsigned long *calls)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = DLBUF_DEVICE_EGL |
		   DLBUF_DEVICE_NO_CACHE);
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *dev;
	int ret;

	ret = dlbuf_device_open("cuda", &opts, &dev);
	if (ret)
		return ret;
	ret = import(dev, fd, BYTES, 0, &t);
	*calls = fault_count();
	fault_at(0);
	if (!ret)
		t->deleter(t);
	dlbuf_device_close(dev);
	return ret;
}

/* Each call fails once: an error with its sentence, or a way round it. */
TEST(every_call_fails_once)
{
	unsigned long calls = 0, failures = 0, unused;
	int fd;

	begin();
	fd = dma_buf(BYTES);
	fault_at(0);
	CHECK_OK(walk(fd, &calls));
	CHECK(calls > 20);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		ktap_forget();
		fault_at(n);
		ret = walk(fd, &unused);
		fault_at(0);
		failures += ret != 0;
		CHECK_MSG(!ret || (ret < 0 && dlbuf_last_error()[0]),
			  "call %lu: %d", n, ret);
		CHECK_MSG(!egl->live && !cuda->live[FAKE_GRAPHICS] &&
			  !cuda->live[FAKE_CONTEXT], "call %lu left something",
			  n);
	}
	CHECK(failures > 8);
	close(fd);
	end();
}
#endif
#else
TEST(cuda_egl)
{
	SKIP("the backend is not built");
}
#endif

KTAP_MAIN()
