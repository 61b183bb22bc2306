// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/nvvpi.h: its symbols, the planes that it computes, and who owns what. VPI's
 * functions are stubs here, which keep no rules; NVIDIA's library has not been run.
 */
#include <dlfcn.h>
#include <limits.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/nvvpi.h>

#include "ktap.h"

#define WIDTH 30u
#define HEIGHT 7u
#define PITCH 64u
#define BYTES 4096u
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Formats, by numbers of our own: the bits of a pixel of each plane. */
#define NVVPI_FORMAT(a, b) (0x5600000000000000ull | (a) << 8 | (b))
#define NVVPI_U8 NVVPI_FORMAT(8, 0)
#define NVVPI_RGB8 NVVPI_FORMAT(24, 0)
#define NVVPI_F32 NVVPI_FORMAT(32, 0)
#define NVVPI_YUYV NVVPI_FORMAT(16, 0)
#define NVVPI_NV12_ER NVVPI_FORMAT(8, 16)	/* half the width and height */

/* ---- stubs */

/* A status: its number here, its name, and what the header makes of it. */
static const struct status {
	const char *name;
	int err;
} statuses[] = {
	{ "VPI_SUCCESS", 0 }, { "VPI_ERROR_INVALID_ARGUMENT", -EINVAL },
	{ "VPI_ERROR_INVALID_IMAGE_FORMAT", -EINVAL }, { "VPI_ERROR_NOT_IMPLEMENTED", -EOPNOTSUPP },
	{ "VPI_ERROR_NOT_SUPPORTED", -EOPNOTSUPP }, { "VPI_ERROR_INVALID_OPERATION", -EOPNOTSUPP },
	{ "VPI_ERROR_BUFFER_LOCKED", -EBUSY }, { "VPI_ERROR_OUT_OF_MEMORY", -ENOMEM },
	{ "VPI_ERROR_INTERNAL", -EIO }, { NULL, -EIO },
};
static struct {
	unsigned int calls, fail_at;	/* the call that fails, from 1; 0: none */
	int status;			/* of it */
	int images, streams, locks;
	struct dlbuf_nvvpi_data_ data;	/* of the last wrapper */
} stub;
static struct dlbuf_nvvpi vpi;
static struct dlbuf_device *cpu;
static unsigned int fired;
static int images_then;		/* when the last lease fired */

static int call(void)
{
	return ++stub.calls == stub.fail_at ? stub.status : 0;
}

static const char *status_name(int status)
{
	return statuses[status].name;
}

static int last_message(char *text, int32_t size)
{
	snprintf(text, size, "the test wants it");
	return 0;
}

static int plane_count(uint64_t format)
{
	return format ? 1 + !!(format & 0xff) : 0;
}

static uint64_t pixel_type(uint64_t format, int plane)
{
	return format >> (plane ? 0 : 8) & 0xff;
}

static int bits_per_pixel(uint64_t type)
{
	return (int)type;
}

static int create(const void *data, const void *params, uint64_t flags, void **image)
{
	int status = call();

	if (status)
		return status;
	stub.images++;
	memcpy(&stub.data, data, sizeof(stub.data));
	*image = &stub;
	return 0;
}

static int set(void *image, const void *data)
{
	int status = call();

	CHECK(image == &stub && !stub.locks);
	if (!status)
		memcpy(&stub.data, data, sizeof(stub.data));
	return status;
}

static void destroy(void *image)
{
	CHECK(image == &stub && !stub.locks);
	stub.images--;
}

static int lock(void *image, int mode)
{
	int status = call();

	stub.locks += !status;
	return status;
}

static int unlock(void *image)
{
	int status = call();

	stub.locks -= !status;
	return status;
}

static int stream_create(void *cuda, uint64_t flags, void **stream)
{
	int status = call();

	stub.streams += !status;
	*stream = status ? NULL : &stub;
	return status;
}

static int stream_sync(void *stream)
{
	return call();
}

static void stream_destroy(void *stream)
{
	stub.streams -= !!stream;
}

static void begin(int major)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps stacks of threads");
	memset(&stub, 0, sizeof(stub));
	stub.status = 8;
	fired = 0;
	vpi = (struct dlbuf_nvvpi){ .major = major, .fn = { status_name, last_message, plane_count,
		pixel_type, bits_per_pixel, create, set, destroy, lock, unlock, stream_create,
		stream_sync, stream_destroy } };
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
}

static void end(void)
{
	dlbuf_device_close(cpu);
	CHECK(!stub.images && !stub.streams && !stub.locks);
}

#define NVVPI_CASE(name, major) TEST_BETWEEN(name, begin(major), end())

static void fire(void *data)
{
	fired++;
	images_then = stub.images;
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
static void import(DLManagedTensorVersioned **t)
{
	int fd = new_dma_buf();
	struct dlbuf_frame f = frame_of(fd);
	uint32_t n;

	REQUIRE_OK(dlbuf_import_frame(cpu, &f, NULL, t, &n));
	CHECK_EQ(n, 2);
	close(fd);
}

static void drop(DLManagedTensorVersioned **t)
{
	t[0]->deleter(t[0]);
	t[1]->deleter(t[1]);
}

/* ---- loading */

/* Each member of the table has the function of its name. interop/libnvvpi.so.3 has nothing else. */
TEST(symbols)
{
	static const struct {
		const char *file, *says;
		int err;
	} rows[] = {
		{ "/nowhere/libnvvpi.so.3", "/nowhere", -ENODEV },
		{ "libc.so.6", "not libnvvpi.so.2", -EOPNOTSUPP },
		{ "libresolv.so.2", "has no vpiStatusGetName", -EIO },
	};
	static const char *const names[] = {
		"StatusGetName", "GetLastStatusMessage", "ImageFormatGetPlaneCount",
		"ImageFormatGetPlanePixelType", "PixelTypeGetBitsPerPixel", "ImageCreateWrapper",
		"ImageSetWrapper", "ImageDestroy", "ImageLock", "ImageUnlock",
		"StreamCreateWrapperCUDA", "StreamSync", "StreamDestroy",
	};
	struct dlbuf_nvvpi v = { .major = 77 };
	char path[PATH_MAX] = "";
	void *fns[ARRAY_SIZE(names)];
	Dl_info info;

	KTAP_KEEPS(KTAP_HEAP, "the loader's");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_ERR_SAYS(dlbuf_nvvpi_load(rows[i].file, &v), rows[i].err, rows[i].says);
	}
	CHECK_EQ(v.major, 77);
	/* A library without a version in its name. */
	REQUIRE(readlink("/proc/self/exe", path, PATH_MAX - 20) > 0);
	strcpy(strrchr(path, '/') + 1, "libnvvpi.so");
	CHECK_ERR(dlbuf_nvvpi_load(path, &v), -EINVAL);
	strcat(path, ".3");
	REQUIRE_OK(dlbuf_nvvpi_load(path, &v));
	CHECK_EQ(v.major, 3);
	_Static_assert(sizeof(fns) == sizeof(v.fn), "a function without a name");
	memcpy(fns, &v.fn, sizeof(fns));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_MSG(dladdr(fns[i], &info) && info.dli_sname &&
			  !strncmp(info.dli_sname, "vpi", 3) &&
			  !strcmp(info.dli_sname + 3, names[i]), "%s is %s", names[i],
			  info.dli_sname);
	dlbuf_nvvpi_unload(&v);
	CHECK(!v.lib);
}

/* ---- planes */

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

NVVPI_CASE(planes, 3)
{
	static const struct {
		struct numbers n;
		uint64_t format;
		enum dlbuf_nvvpi_type type;
		int32_t width, height, pitch;
	} good[] = {
		{ U8(2, { 4, 5 }, { 8, 1 }), NVVPI_U8, DLBUF_NVVPI_HOST, 5, 4, 8 },
		{ U8(3, { 4, 5, 3 }, { 15, 3, 1 }), NVVPI_RGB8, DLBUF_NVVPI_HOST, 5, 4, 15 },
		{ { kDLCUDAHost, 2, { 4, 5 }, { 6, 1 }, 32, 1 }, NVVPI_F32,
		  DLBUF_NVVPI_HOST, 5, 4, 24 },
		{ { kDLCUDA, 2, { 1, 1 }, { 1, 1 }, 8, 1 }, NVVPI_U8, DLBUF_NVVPI_CUDA, 1, 1, 1 },
		{ { kDLCUDAManaged, 2, { 1, 2 }, { 2, 1 }, 8, 1 }, NVVPI_U8,
		  DLBUF_NVVPI_CUDA, 2, 1, 2 },
		{ U8(2, { 1, 2 }, { INT64_MIN, 1 }), NVVPI_U8, DLBUF_NVVPI_HOST, 2, 1, 2 },
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
		{ U8(3, { 4, 5, 4 }, { 20, 4, 1 }), NVVPI_YUYV, -EINVAL, "has 32 bits" },
		{ U8(1, { 4 }, { 1 }), NVVPI_U8, -EINVAL, "not [H, W]" },
		{ { kDLCPU, 2, { 4, 5 }, { 8, 1 }, 4, 1 }, NVVPI_U8, -EINVAL, "whole bytes" },
		{ U8(2, { 0, 5 }, { 8, 1 }), NVVPI_U8, -EINVAL, "no pixels" },
		{ U8(2, { 4, 1ll << 31 }, { 8, 1 }), NVVPI_U8, -EINVAL, "count" },
		{ U8(3, { 4, 5, 5 }, { 25, 5, 1 }), NVVPI_U8, -EINVAL, "count" },
		{ U8(2, { 4, 5 }, { 10, 2 }), NVVPI_U8, -EOPNOTSUPP, "a row" },
		{ U8(3, { 4, 5, 3 }, { 15, 3, 2 }), NVVPI_RGB8, -EOPNOTSUPP, "a row" },
		{ U8(2, { 4, 5 }, { 4, 1 }), NVVPI_U8, -EOPNOTSUPP, "pitch" },
		{ U8(2, { 4, 5 }, { -8, 1 }), NVVPI_U8, -EOPNOTSUPP, "pitch" },
		{ { kDLCPU, 2, { 4, 5 }, { 1 << 30, 1 }, 32, 1 }, NVVPI_F32, -EOPNOTSUPP, "pitch" },
		{ { kDLVulkan, 2, { 4, 5 }, { 8, 1 }, 8, 1 }, NVVPI_U8, -EOPNOTSUPP, "device 7" },
	};
	DLManagedTensorVersioned *t[2], *two[2];
	struct dlbuf_nvvpi_plane plane[4];
	enum dlbuf_nvvpi_type type;

	import(t);
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
		CHECK_ERR_SAYS(planes_of(&bad[i].n, bad[i].format, plane, &type), bad[i].err,
			       bad[i].says);
	}
	two[0] = t[0];
	two[1] = NULL;
	CHECK_ERR_SAYS(dlbuf_nvvpi_planes(&vpi, two, 2, NVVPI_NV12_ER, plane, &type), -EINVAL,
		       "tensor 1 is NULL");
	CHECK_ERR(dlbuf_nvvpi_planes(&vpi, t, 0, NVVPI_U8, plane, &type), -EINVAL);
	t[1]->dl_tensor.device.device_id = 1;
	CHECK_ERR_SAYS(dlbuf_nvvpi_planes(&vpi, t, 2, NVVPI_NV12_ER, plane, &type), -EINVAL,
		       "different devices");
	t[1]->dl_tensor.device.device_id = 0;
	drop(t);
}

/* ---- ownership */

NVVPI_CASE(shares_of_tensors, 3)
{
	struct dlbuf_nvvpi_image img = { 0 };
	DLManagedTensorVersioned foreign = { .version = { 1, 0 } };
	DLManagedTensorVersioned *t[DLBUF_NVVPI_MAX_PLANES + 1], *two[2] = { NULL, &foreign };

	/* The image has shares of its own. Then other memory for the same image. */
	for (unsigned int i = 0; i < 4; i++) {
		import(t);
		CHECK_EQ(fired, i ? i - 1 : 0);
		CHECK_OK(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0));
		CHECK_EQ(stub.data.type, DLBUF_NVVPI_HOST);
		CHECK_EQ(stub.data.buffer.pitch.nplanes, 2);
		CHECK(stub.data.buffer.pitch.planes[1].data ==
		      (char *)t[1]->dl_tensor.data + t[1]->dl_tensor.byte_offset);
		drop(t);
		CHECK_EQ(fired, i);
	}
	CHECK_EQ(stub.images, 1);
	dlbuf_nvvpi_unwrap(&vpi, &img);
	CHECK_EQ(fired, 4);
	CHECK_EQ(images_then, 0);
	dlbuf_nvvpi_unwrap(&vpi, &img);
	/* A program with NVIDIA's header fills in the struct of version 4. */
	vpi.major = 4;
	import(t);
	two[0] = t[0];
	CHECK_ERR(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0), -EOPNOTSUPP);
	CHECK_SAYS("dlbuf_nvvpi_wrap_data");
	CHECK_ERR(dlbuf_nvvpi_wrap_data(&vpi, &img, &stub.data, two, 2, 0), -EINVAL);
	CHECK_ERR(dlbuf_nvvpi_wrap_data(&vpi, &img, &stub.data, t, 5, 0), -EINVAL);
	CHECK_OK(dlbuf_nvvpi_wrap_data(&vpi, &img, &stub.data, t, 2, 0));
	drop(t);
	CHECK_EQ(fired, 4);
	dlbuf_nvvpi_unwrap(&vpi, &img);
	CHECK_EQ(fired, 5);
}

NVVPI_CASE(leases_of_frames, 4)
{
	int fd = new_dma_buf(), other = new_dma_buf();
	struct dlbuf_frame good = frame_of(fd), f[4] = { good, good, good, good };
	static const struct {
		int err;
		const char *says;
	} refusals[] = {
		{ -EINVAL, "no fence" }, { -EOPNOTSUPP, "one fd" }, { -EINVAL, "0 planes" },
		{ -EINVAL, "has a lease" },
	};
	struct dlbuf_nvvpi_image img = { 0 };

	f[0].order = DLBUF_ORDER_IMPLICIT;
	f[1].planes[1].fd = other;
	f[2].nplanes = 0;
	f[3].release = NULL;
	REQUIRE_OK(dlbuf_lease_create(fire, NULL, &f[3].lease));
	CHECK_OK(dlbuf_nvvpi_wrap_frame(&vpi, &img, &good, 0));
	CHECK_EQ(stub.data.buffer.fd, fd);
	CHECK_EQ(fired, 0);
	CHECK_OK(dlbuf_nvvpi_wrap_frame(&vpi, &img, &good, 0));
	CHECK_EQ(fired, 1);
	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		CHECK_ERR(dlbuf_nvvpi_wrap_frame(&vpi, &img, &f[i], 0), refusals[i].err);
		CHECK_SAYS(refusals[i].says);
	}
	CHECK_EQ(fired, 1);
	dlbuf_nvvpi_unwrap(&vpi, &img);
	CHECK_EQ(fired, 2);
	dlbuf_lease_drop(f[3].lease);
	CHECK_EQ(fired, 3);
	close(fd);
	close(other);
}

NVVPI_CASE(locks, 3)
{
	struct dlbuf_nvvpi_image img = { 0 };
	DLManagedTensorVersioned *t[2];
	struct dlbuf_frame f = frame_of(-1);

	CHECK_ERR(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ), -EINVAL);
	CHECK_ERR(dlbuf_nvvpi_unlock(&vpi, &img), -EINVAL);
	import(t);
	REQUIRE_OK(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0));
	for (uint32_t access = 0; access <= 4; access += 4)
		CHECK_ERR(dlbuf_nvvpi_lock(&vpi, &img, access), -EINVAL);
	CHECK_OK(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ));
	CHECK_OK(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_RW));
	CHECK_ERR(dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0), -EBUSY);
	CHECK_ERR(dlbuf_nvvpi_wrap_data(&vpi, &img, &stub.data, t, 2, 0), -EBUSY);
	CHECK_ERR(dlbuf_nvvpi_wrap_frame(&vpi, &img, &f, 0), -EBUSY);
	CHECK_OK(dlbuf_nvvpi_unlock(&vpi, &img));
	CHECK_EQ(stub.locks, 1);
	vpi.fn.ImageLock = NULL;
	CHECK_ERR(dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ), -EOPNOTSUPP);
	/* unwrap() unlocks. */
	dlbuf_nvvpi_unwrap(&vpi, &img);
	drop(t);
}

/* All calls of one frame's way, and a frame by its fd. */
static int walk(void)
{
	struct dlbuf_nvvpi_image img = { 0 }, by_fd = { 0 };
	struct dlbuf_frame f = frame_of(0);
	DLManagedTensorVersioned *t[2];
	void *stream = NULL;
	int ret;

	f.release = NULL;
	import(t);
	CHECK_ERR(dlbuf_nvvpi_stream(&vpi, NULL, 0, &stream), -EINVAL);
	ret = dlbuf_nvvpi_stream(&vpi, &fired, 0, &stream);
	for (int i = 0; !ret && i < 2; i++)
		ret = dlbuf_nvvpi_wrap(&vpi, &img, t, 2, NVVPI_NV12_ER, 0);
	if (!ret)
		ret = dlbuf_nvvpi_wrap_data(&vpi, &img, &stub.data, t, 2, 0);
	if (!ret)
		ret = dlbuf_nvvpi_wrap_frame(&vpi, &by_fd, &f, 0);
	if (!ret)
		ret = dlbuf_nvvpi_lock(&vpi, &img, DLBUF_READ);
	if (!ret)
		ret = dlbuf_nvvpi_unlock(&vpi, &img);
	if (!ret)
		ret = dlbuf_nvvpi_stream_sync(&vpi, stream);
	if (ret)
		CHECK_SAYS("the test wants it");
	dlbuf_nvvpi_unwrap(&vpi, &img);
	dlbuf_nvvpi_unwrap(&vpi, &by_fd);
	dlbuf_nvvpi_stream_destroy(&vpi, stream);
	drop(t);
	return ret;
}

/* Each call fails with each status: the header's code, and nothing is kept. */
NVVPI_CASE(each_call_fails, 3)
{
	unsigned int n;

	for (int status = 1; status < (int)ARRAY_SIZE(statuses); status++) {
		/* The last call, vpiStreamSync(), reports failed work only. */
		for (n = 1; n <= (statuses[status].err == -EIO ? 8 : 7); n++) {
			stub.calls = fired = 0;
			stub.fail_at = n;
			stub.status = status;
			CHECK_EQ(walk(), statuses[status].err);
			CHECK_EQ(fired, 1);
			CHECK(!stub.images && !stub.streams);
			if (stub.locks)
				stub.locks = 0;
		}
	}
	stub.calls = 0;
	stub.fail_at = 9;
	CHECK_OK(walk());
	CHECK_EQ(stub.calls, 8);
}

KTAP_MAIN()
