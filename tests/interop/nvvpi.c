// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/nvvpi.h on a double of libnvvpi (tests/doubles/nvvpi.h), version 3 by its
 * soname and version 4 by its path, and on CUDA's double. NVIDIA's has not been run.
 */
#include <dlfcn.h>
#include <sys/stat.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/nvvpi.h>

#include "ktap.h"
#include "doubles/nvvpi.h"

#define WIDTH 30u
#define HEIGHT 7u
#define PITCH 64u
#define BYTES 4096u
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static struct fake_nvvpi *fake;
static struct dlbuf_nvvpi vpi;
static struct dlbuf_device *cpu;
static unsigned int fired, images_then;

static void fire(void *data)
{
	fired++;
	images_then = fake->live[NVVPI_IMAGE];
}

/* A file next to this program. */
static const char *beside(const char *name)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 60);

	REQUIRE(n > 0);
	path[n] = '\0';
	snprintf(strrchr(path, '/'), 60, "/%s", name);
	return path;
}

static void begin(int major)
{
	fake_nvvpi_fn fn;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps stacks of threads");
	REQUIRE_OK(dlbuf_nvvpi_load(major == 3 ? NULL :
				    beside("nvvpi4/libnvvpi.so.4"), &vpi));
	CHECK_EQ(vpi.major, major);
	fn = (fake_nvvpi_fn)dlsym(vpi.lib, "fake_nvvpi");
	REQUIRE(fn);
	fake = fn();
	CHECK_EQ(fake->major, major);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
}

static void end(void)
{
	dlbuf_device_close(cpu);
	CHECK_EQ(fake->wrong, 0);
	for (int kind = 0; kind < NVVPI_KINDS; kind++)
		CHECK_EQ(fake->live[kind], 0);
	dlbuf_nvvpi_unload(&vpi);
	CHECK(!vpi.lib);
}

static struct dlbuf_frame frame_of(int fd)
{
	struct dlbuf_frame f = {
		.size = sizeof(f),
		.width = WIDTH,
		.height = HEIGHT,
		.code = DLBUF_FOURCC('N', 'V', '1', '2'),
		.code_space = DLBUF_CODE_DRM,
		.nplanes = 2,
		.planes = { { .fd = fd, .pitch = PITCH },
			    { .fd = fd, .pitch = PITCH, .offset = 1024 } },
		.order = DLBUF_ORDER_COMPLETE,
		.release = fire,
	};

	return f;
}

static int new_dma_buf(void)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	int fd;

	REQUIRE_OK(dlbuf_alloc_fd(BYTES, &opts, &fd));
	return fd;
}

/* An NV12 frame with a lease, in a new dma-buf. */
static void import(struct dlbuf_device *dev, DLManagedTensorVersioned **t)
{
	int fd = new_dma_buf();
	struct dlbuf_frame f = frame_of(fd);
	uint32_t n;

	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	CHECK_EQ(n, 2);
	close(fd);
}

static void drop(DLManagedTensorVersioned **t)
{
	t[0]->deleter(t[0]);
	t[1]->deleter(t[1]);
}

static uint8_t *bytes_of(const DLManagedTensorVersioned *t)
{
	return (uint8_t *)t->dl_tensor.data + t->dl_tensor.byte_offset;
}

/* ---- loading */

TEST(loading)
{
	static const struct {
		const char *file, *says;
		int err;
	} rows[] = {
		{ "/nowhere/libnvvpi.so.3", "/nowhere", -ENODEV },
		{ "libc.so.6", "not libnvvpi.so.2", -EOPNOTSUPP },
		{ "libresolv.so.2", "has no vpiStatusGetName", -EIO },
		{ NULL, "not libnvvpi.so.2", -EINVAL },
	};
	struct dlbuf_nvvpi v = { .major = 77 };

	KTAP_KEEPS(KTAP_HEAP, "the loader's");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_ERR(dlbuf_nvvpi_load(rows[i].file ? rows[i].file :
					   getenv("DLBUF_CUDA_LIBRARY"), &v),
			  rows[i].err);
		CHECK_SAYS(rows[i].says);
	}
	CHECK_EQ(v.major, 77);
	begin(3);
	end();
	begin(4);
	end();
}

/* ---- tensors */

/* Streams do not run until a call waits for one. */
static void let_go(const char *call)
{
	if (!strcmp(call, "vpiStreamSync"))
		fake->hold(false);
}

static void run(void *stream, const struct dlbuf_nvvpi_image *img)
{
	fake->look = let_go;
	fake->hold(true);
	CHECK_EQ(fake->submit(stream, img->image), 0);
	CHECK_OK(dlbuf_nvvpi_stream_sync(&vpi, stream));
	CHECK_EQ(fake->pending, 0);
}

TEST(tensors_of_the_host)
{
	struct dlbuf_nvvpi_image img = { 0 };
	DLManagedTensorVersioned *t[2];
	void *stream = NULL;
	uint8_t *luma;

	begin(3);
	import(cpu, t);
	luma = bytes_of(t[0]);
	luma[PITCH + 1] = 0x0f;
	REQUIRE_OK(dlbuf_nvvpi_stream(&vpi, &fired, 0, &stream));
	CHECK_OK(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0));
	run(stream, &img);
	CHECK_EQ(luma[PITCH + 1], 0xf0);
	CHECK_EQ(luma[PITCH + WIDTH - 1], 0xff);
	CHECK_EQ(luma[PITCH + WIDTH], 0);
	/* 15x4 pairs of chroma. */
	CHECK_EQ(bytes_of(t[1])[3 * PITCH + 29], 0xff);
	CHECK_EQ(bytes_of(t[1])[3 * PITCH + 30], 0);
	/* The image has shares of its own. */
	drop(t);
	run(stream, &img);
	CHECK_EQ(luma[PITCH + 1], 0x0f);
	/* Other memory for the same image. */
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(fired, i);
		import(cpu, t);
		CHECK_OK(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0));
		drop(t);
	}
	CHECK_EQ(fake->made[NVVPI_IMAGE], 1);
	CHECK_EQ(fired, 3);
	images_then = 77;
	dlbuf_nvvpi_unwrap(&vpi, &img);
	CHECK_EQ(fired, 4);
	CHECK_EQ(images_then, 0);
	dlbuf_nvvpi_unwrap(&vpi, &img);
	dlbuf_nvvpi_stream_destroy(&vpi, stream);
	dlbuf_nvvpi_stream_destroy(&vpi, NULL);
	end();
}

TEST(locks)
{
	struct dlbuf_nvvpi_image img = { 0 };
	DLManagedTensorVersioned *t[2];
	void *stream = NULL;

	begin(3);
	CHECK_ERR(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ), -EINVAL);
	CHECK_ERR(dlbuf_nvvpi_unlock(&vpi, &img), -EINVAL);
	import(cpu, t);
	REQUIRE_OK(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0));
	REQUIRE_OK(dlbuf_nvvpi_stream(&vpi, &fired, 0, &stream));
	CHECK_ERR(dlbuf_nvvpi_lock(&vpi, &img, 0), -EINVAL);
	CHECK_ERR(dlbuf_nvvpi_lock(&vpi, &img, 4), -EINVAL);
	CHECK_OK(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ));
	CHECK_OK(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_RW));
	CHECK_EQ(fake->submit(stream, img.image), NVVPI_BUFFER_LOCKED);
	CHECK_ERR(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0), -EBUSY);
	CHECK_OK(dlbuf_nvvpi_unlock(&vpi, &img));
	CHECK_OK(dlbuf_nvvpi_unlock(&vpi, &img));
	CHECK_ERR(dlbuf_nvvpi_unlock(&vpi, &img), -EINVAL);
	run(stream, &img);
	CHECK_OK(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_WRITE));
	vpi.fn.ImageLock = NULL;
	CHECK_ERR(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ), -EOPNOTSUPP);
	/* unwrap() unlocks. */
	dlbuf_nvvpi_unwrap(&vpi, &img);
	dlbuf_nvvpi_stream_destroy(&vpi, stream);
	drop(t);
	end();
}

/* A tensor without memory: dlbuf_nvvpi_planes() only reads the numbers. */
struct numbers {
	DLDeviceType device;
	int32_t ndim;
	int64_t shape[3], strides[3];
	uint8_t bits;
	uint16_t lanes;
};
#define U8(...) { kDLCPU, __VA_ARGS__, 8, 1 }

static int planes_of(const struct numbers *n, uint64_t format,
		     struct dlbuf_nvvpi_plane *plane, enum dlbuf_nvvpi_type *type)
{
	DLManagedTensorVersioned t = {
		.dl_tensor = {
			.data = (void *)4096,
			.byte_offset = 5,
			.device = { n->device, 0 },
			.ndim = n->ndim,
			.dtype = { kDLUInt, n->bits, n->lanes },
			.shape = (int64_t *)n->shape,
			.strides = (int64_t *)n->strides,
		},
	};
	DLManagedTensorVersioned *list[] = { &t };

	return dlbuf_nvvpi_planes(&vpi, list, 1, format, plane, type);
}

TEST(planes)
{
	static const struct {
		struct numbers n;
		uint64_t format;
		enum dlbuf_nvvpi_type type;
		int32_t width, height, pitch;
	} good[] = {
		{ U8(2, { 4, 5 }, { 8, 1 }), NVVPI_U8, DLBUF_NVVPI_HOST, 5, 4, 8 },
		{ U8(3, { 4, 5, 3 }, { 15, 3, 1 }), NVVPI_RGB8, DLBUF_NVVPI_HOST,
		  5, 4, 15 },
		{ { kDLCUDAHost, 2, { 4, 5 }, { 6, 1 }, 32, 1 }, NVVPI_F32,
		  DLBUF_NVVPI_HOST, 5, 4, 24 },
		{ { kDLCUDA, 2, { 1, 1 }, { 1, 1 }, 8, 1 }, NVVPI_U8,
		  DLBUF_NVVPI_CUDA, 1, 1, 1 },
		{ { kDLCUDAManaged, 2, { 1, 2 }, { 2, 1 }, 8, 1 }, NVVPI_U8,
		  DLBUF_NVVPI_CUDA, 2, 1, 2 },
		{ U8(2, { 1, 2 }, { INT64_MIN, 1 }), NVVPI_U8, DLBUF_NVVPI_HOST,
		  2, 1, 2 },
		{ U8(2, { 4, 1 }, { 8, -3 }), NVVPI_U8, DLBUF_NVVPI_HOST, 1, 4, 8 },
	};
	static const struct {
		struct numbers n;
		uint64_t format;
		int err;
		const char *says;
	} bad[] = {
		{ U8(2, { 4, 5 }, { 8, 1 }), NVVPI_NV12_ER, -EINVAL, "2 planes" },
		{ U8(2, { 4, 5 }, { 8, 1 }), 0, -EINVAL, "0 planes" },
		{ U8(2, { 4, 5 }, { 8, 1 }), NVVPI_F32, -EINVAL, "has 8 bits" },
		{ U8(3, { 4, 5, 4 }, { 20, 4, 1 }), NVVPI_YUYV, -EINVAL,
		  "has 32 bits" },
		{ U8(1, { 4 }, { 1 }), NVVPI_U8, -EINVAL, "not [H, W]" },
		{ { kDLCPU, 2, { 4, 5 }, { 8, 1 }, 4, 1 }, NVVPI_U8, -EINVAL,
		  "whole bytes" },
		{ U8(2, { 0, 5 }, { 8, 1 }), NVVPI_U8, -EINVAL, "no pixels" },
		{ U8(2, { 4, 1ll << 31 }, { 8, 1 }), NVVPI_U8, -EINVAL, "count" },
		{ U8(3, { 4, 5, 5 }, { 25, 5, 1 }), NVVPI_U8, -EINVAL, "count" },
		{ U8(2, { 4, 5 }, { 10, 2 }), NVVPI_U8, -EOPNOTSUPP, "a row" },
		{ U8(3, { 4, 5, 3 }, { 15, 3, 2 }), NVVPI_RGB8, -EOPNOTSUPP,
		  "a row" },
		{ U8(2, { 4, 5 }, { 4, 1 }), NVVPI_U8, -EOPNOTSUPP, "pitch" },
		{ U8(2, { 4, 5 }, { -8, 1 }), NVVPI_U8, -EOPNOTSUPP, "pitch" },
		{ { kDLCPU, 2, { 4, 5 }, { 1 << 30, 1 }, 32, 1 }, NVVPI_F32,
		  -EOPNOTSUPP, "pitch" },
		{ { kDLVulkan, 2, { 4, 5 }, { 8, 1 }, 8, 1 }, NVVPI_U8, -EOPNOTSUPP,
		  "device 7" },
	};
	DLManagedTensorVersioned *t[2], *two[2];
	struct dlbuf_nvvpi_plane plane[4];
	enum dlbuf_nvvpi_type type;

	begin(3);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		if (!CHECK_OK(planes_of(&good[i].n, good[i].format, plane, &type)))
			continue;
		CHECK_MSG(type == good[i].type && plane->width == good[i].width &&
			  plane->height == good[i].height &&
			  plane->pitch == good[i].pitch &&
			  plane->data == (void *)4101, "row %zu", i);
		CHECK_EQ(vpi.fn.PixelTypeGetBitsPerPixel(plane->pixel_type),
			 good[i].n.bits * (good[i].n.ndim == 3 ? 3 : 1));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_ERR(planes_of(&bad[i].n, bad[i].format, plane, &type),
			  bad[i].err);
		CHECK_SAYS(bad[i].says);
	}
	import(cpu, t);
	two[0] = t[0];
	two[1] = NULL;
	CHECK_ERR(dlbuf_nvvpi_planes(&vpi, two, 2, NVVPI_NV12_ER, plane, &type),
		  -EINVAL);
	CHECK_SAYS("tensor 1 is NULL");
	CHECK_ERR(dlbuf_nvvpi_planes(&vpi, t, 0, NVVPI_U8, plane, &type), -EINVAL);
	t[1]->dl_tensor.device.device_id = 1;
	CHECK_ERR(dlbuf_nvvpi_planes(&vpi, t, 2, NVVPI_NV12_ER, plane, &type),
		  -EINVAL);
	CHECK_SAYS("different devices");
	t[1]->dl_tensor.device.device_id = 0;
	drop(t);
	end();
}

TEST(tensors_of_cuda)
{
	struct dlbuf_nvvpi_image img = { 0 };
	DLManagedTensorVersioned *t[2];
	struct dlbuf_device *cuda;
	void *stream = NULL;

	begin(3);
	REQUIRE_OK(dlbuf_device_open("cuda:0", NULL, &cuda));
	import(cuda, t);
	CHECK_ERR(dlbuf_nvvpi_stream(&vpi, NULL, 0, &stream), -EINVAL);
	CHECK_SAYS("default stream");
	REQUIRE_OK(dlbuf_nvvpi_stream(&vpi, &fired, 0, &stream));
	CHECK_OK(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0));
	run(stream, &img);
	CHECK(fake->last == t[0]->dl_tensor.data);
	dlbuf_nvvpi_unwrap(&vpi, &img);
	dlbuf_nvvpi_stream_destroy(&vpi, stream);
	drop(t);
	CHECK_OK(dlbuf_device_drain(cuda, 0));
	CHECK_EQ(fired, 1);
	dlbuf_device_close(cuda);
	end();
}

/* ---- frames by fd */

TEST(frames_by_fd)
{
	int fd = new_dma_buf(), other = new_dma_buf();
	struct dlbuf_frame good = frame_of(fd), f[5];
	static const struct {
		int err;
		const char *says;
	} refusals[5] = {
		{ -EINVAL, "file descriptor is invalid" },
		{ -EINVAL, "no fence" },
		{ -EOPNOTSUPP, "one fd" },
		{ -EINVAL, "0 planes" },
		{ -EINVAL, "has a lease" },
	};
	struct dlbuf_nvvpi_image img = { 0 };
	struct stat st;

	REQUIRE(!fstat(fd, &st));
	for (int i = 0; i < 5; i++)
		f[i] = good;
	f[0].planes[0].fd = f[0].planes[1].fd = other;
	f[1].order = DLBUF_ORDER_IMPLICIT;
	f[2].planes[1].fd = other;
	f[3].nplanes = 0;
	f[4].release = NULL;
	for (int major = 3; major <= 4; major++) {
		begin(major);
		fired = 0;
		REQUIRE_OK(dlbuf_lease_create(fire, NULL, &f[4].lease));
		fake->surface = st.st_ino;
		CHECK_OK(dlbuf_nvvpi_wrap_frame(&vpi, &img, &good, 0));
		CHECK_EQ(fired, 0);
		CHECK_OK(dlbuf_nvvpi_wrap_frame(&vpi, &img, &good, 0));
		for (int i = 0; i < 5; i++) {
			CHECK_ERR(dlbuf_nvvpi_wrap_frame(&vpi, &img, &f[i], 0),
				  refusals[i].err);
			CHECK_SAYS(refusals[i].says);
		}
		CHECK_EQ(fired, 1);
		dlbuf_nvvpi_unwrap(&vpi, &img);
		CHECK_EQ(fired, 2);
		CHECK_ERR(dlbuf_nvvpi_wrap_frame(&vpi, &img, &f[0], 0), -EINVAL);
		CHECK(!img.image);
		dlbuf_lease_drop(f[4].lease);
		CHECK_EQ(fired, 3);
		end();
	}
	close(fd);
	close(other);
}

/* A program with NVIDIA's header fills in its planes. */
TEST(tensors_of_version_4)
{
	struct {
		int32_t type;
		union {
			int fd;
			uint64_t room[64];
		};
	} data = { .type = DLBUF_NVVPI_NVBUFFER };
	struct dlbuf_nvvpi_image img = { 0 };
	DLManagedTensorVersioned foreign = { .version = { 1, 0 } };
	DLManagedTensorVersioned *t[DLBUF_NVVPI_MAX_PLANES + 1], *two[2];
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct dlbuf_nvvpi_plane planes[4];
	enum dlbuf_nvvpi_type type;

	begin(4);
	import(cpu, t);
	CHECK_ERR(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0),
		  -EOPNOTSUPP);
	CHECK_SAYS("dlbuf_nvvpi_wrap_data");
	CHECK_OK(dlbuf_nvvpi_planes(&vpi, t, 2, NVVPI_NV12_ER, planes, &type));
	CHECK_EQ(planes[1].width, 15);
	REQUIRE_OK(dlbuf_tensor_get_info(t[0], &info));
	data.fd = info.fd;
	fake->surface = info.ino;
	two[0] = t[0];
	two[1] = &foreign;
	CHECK_ERR(dlbuf_nvvpi_wrap_data(&vpi, &img, &data, two, 2, 0), -EINVAL);
	CHECK_ERR(dlbuf_nvvpi_wrap_data(&vpi, &img, &data, t, 5, 0), -EINVAL);
	CHECK_OK(dlbuf_nvvpi_wrap_data(&vpi, &img, &data, t, 2, 0));
	drop(t);
	CHECK_EQ(fired, 0);
	dlbuf_nvvpi_unwrap(&vpi, &img);
	CHECK_EQ(fired, 1);
	end();
}

/* ---- failures */

TEST(statuses)
{
	static const struct {
		int status, err;
	} rows[] = {
		{ NVVPI_NOT_IMPLEMENTED, -EOPNOTSUPP },
		{ NVVPI_INVALID_ARGUMENT, -EINVAL },
		{ NVVPI_INVALID_IMAGE_FORMAT, -EINVAL },
		{ NVVPI_INVALID_OPERATION, -EOPNOTSUPP },
		{ NVVPI_DEVICE, -EIO },
		{ NVVPI_BUFFER_LOCKED, -EBUSY },
		{ NVVPI_OUT_OF_MEMORY, -ENOMEM },
		{ NVVPI_INTERNAL, -EIO },
		{ 999, -EIO },
	};
	struct dlbuf_nvvpi_image img = { 0 }, other = { 0 };
	DLManagedTensorVersioned *t[2];
	int fd = new_dma_buf();
	struct dlbuf_frame f = frame_of(fd);
	void *stream = NULL;

	for (int major = 3; major <= 4; major++) {
		begin(major);
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			fake->failing = "vpiStreamCreateWrapperCUDA";
			fake->result = rows[i].status;
			CHECK_ERR(dlbuf_nvvpi_stream(&vpi, &fired, 0, &stream),
				  rows[i].err);
			CHECK_SAYS("the test wants it");
			fake->failing = "vpiImageCreateWrapper";
			CHECK_ERR(dlbuf_nvvpi_wrap_frame(&vpi, &other, &f, 0), rows[i].err);
		}
		end();
	}
	begin(3);
	import(cpu, t);
	REQUIRE_OK(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0));
	CHECK_OK(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		fake->result = rows[i].status;
		fake->failing = "vpiImageCreateWrapper";
		CHECK_ERR(dlbuf_nvvpi_wrap(&vpi, &other, t, 2, NVVPI_NV12_ER, 0), rows[i].err);
		fake->failing = "vpiImageLock";
		CHECK_ERR(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ), rows[i].err);
		fake->failing = "vpiImageUnlock";
		CHECK_ERR(dlbuf_nvvpi_unlock(&vpi, &img), rows[i].err);
	}
	fake->failing = NULL;
	CHECK_OK(dlbuf_nvvpi_unlock(&vpi, &img));
	dlbuf_nvvpi_unwrap(&vpi, &img);
	drop(t);
	end();
	close(fd);
}

/* All calls of one frame's way. -1: one of them failed. */
static int walk(void)
{
	struct dlbuf_nvvpi_image img = { 0 };
	DLManagedTensorVersioned *t[2];
	void *stream = NULL;
	int ret;

	import(cpu, t);
	ret = dlbuf_nvvpi_stream(&vpi, &fired, 0, &stream);
	for (int i = 0; !ret && i < 2; i++)
		ret = dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0);
	if (!ret)
		ret = dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ);
	if (!ret)
		ret = dlbuf_nvvpi_unlock(&vpi, &img);
	if (!ret)
		ret = dlbuf_nvvpi_stream_sync(&vpi, stream);
	if (ret)
		CHECK_SAYS("VPI_ERROR_INTERNAL");
	dlbuf_nvvpi_unwrap(&vpi, &img);
	dlbuf_nvvpi_stream_destroy(&vpi, stream);
	drop(t);
	return ret;
}

TEST(each_call_fails)
{
	unsigned int n = 0;
	int ret;

	begin(3);
	do {
		fake->fail_at = ++n;
		ret = walk();
		CHECK_EQ(fired, n);
		for (int kind = 0; kind < NVVPI_KINDS; kind++)
			CHECK_EQ(fake->live[kind], 0);
	} while (ret && n < 50);
	CHECK_EQ(ret, 0);
	/* Six calls that may fail, then those that destroy. */
	CHECK_EQ(n, 7);
	end();
}

KTAP_MAIN()
