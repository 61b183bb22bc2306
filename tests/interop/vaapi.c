// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/vaapi.h: descriptors member by member, and surfaces of the real
 * libva with a driver of our own (tests/doubles/va.c), because real drivers
 * need hardware.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include <va/va_drm.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/vaapi.h>

#include "doubles/va.h"
#include "interop/picture.h"

#define DRM(a, b, c, d) DLBUF_FOURCC(a, b, c, d)
#define R8 DRM('R', '8', ' ', ' ')
#define GR88 DRM('G', 'R', '8', '8')
#define RG88 DRM('R', 'G', '8', '8')
#define R16 DRM('R', '1', '6', ' ')
#define GR1616 DRM('G', 'R', '3', '2')

/* ---- descriptors */

static VADRMPRIMESurfaceDescriptor composed(void)
{
	VADRMPRIMESurfaceDescriptor d = {
		.fourcc = VA_FOURCC_NV12,
		.width = 60,
		.height = 32,
		.num_objects = 1,
		.objects = { { .fd = 7, .size = 4096 } },
		.num_layers = 1,
		.layers = { {
			.drm_format = DRM('N', 'V', '1', '2'),
			.num_planes = 2,
			.offset = { 0, 2048 },
			.pitch = { 64, 128 },
		} },
	};

	return d;
}

/* As many layers of one plane as codes are given. */
static VADRMPRIMESurfaceDescriptor separate(uint32_t fourcc,
					    const uint32_t *codes, uint32_t n)
{
	VADRMPRIMESurfaceDescriptor d = composed();

	d.fourcc = fourcc;
	d.num_layers = n;
	for (uint32_t i = 0; i < n; i++) {
		d.layers[i].drm_format = codes[i];
		d.layers[i].num_planes = 1;
		d.layers[i].offset[0] = 1000 * i;
		d.layers[i].pitch[0] = 64 + i;
	}
	return d;
}
#define SEPARATE(fourcc, ...)                                                \
	separate(fourcc, (const uint32_t[]){ __VA_ARGS__ },                  \
		 sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

TEST(composed_layers)
{
	VADRMPRIMESurfaceDescriptor d = composed();
	struct dlbuf_frame f;

	CHECK_OK(dlbuf_vaapi_frame(&d, &f));
	CHECK_FRAME(&f, FRAME(60, 32, DRM('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2,
		.planes = { PLANE(7, 0, 64, 4096), PLANE(7, 2048, 128, 2048) },
		.fence = -1));
	CHECK(!f.release);
	/* The driver's code counts, and not VA's name. */
	d.fourcc = VA_FOURCC_BGRX;
	d.layers[0].drm_format = DRM('X', 'R', '2', '4');
	d.layers[0].num_planes = 1;
	CHECK_OK(dlbuf_vaapi_frame(&d, &f));
	CHECK_EQ(f.code, DRM('X', 'R', '2', '4'));
	CHECK_EQ(f.nplanes, 1);
}

TEST(separate_layers)
{
	VADRMPRIMESurfaceDescriptor d = SEPARATE(VA_FOURCC_NV12, R8, GR88);
	struct dlbuf_frame f;

	d.num_objects = 2;
	d.objects[1].fd = 9;
	d.layers[1].object_index[0] = 1;
	CHECK_OK(dlbuf_vaapi_frame(&d, &f));
	CHECK_EQ(f.code, DRM('N', 'V', '1', '2'));
	CHECK_EQ(f.nplanes, 2);
	CHECK_EQ(f.planes[0].fd, 7);
	CHECK_EQ(f.planes[1].fd, 9);
	CHECK_EQ(f.planes[1].offset, 1000);
	CHECK_EQ(f.planes[1].pitch, 65);
}

/* Layers alike, pictures not: the fourcc decides. */
TEST(fourccs)
{
	static const struct {
		uint32_t va, drm, n, codes[3];
	} rows[] = {
		{ VA_FOURCC_NV12, DRM('N', 'V', '1', '2'), 2, { R8, RG88 } },
		{ VA_FOURCC_NV21, DRM('N', 'V', '2', '1'), 2, { R8, GR88 } },
		{ VA_FOURCC_P208, DRM('N', 'V', '1', '6'), 2, { R8, GR88 } },
		{ VA_FOURCC_P010, DRM('P', '0', '1', '0'), 2, { R16, GR1616 } },
		{ VA_FOURCC_P012, DRM('P', '0', '1', '2'), 2, { R16, GR1616 } },
		{ VA_FOURCC_P016, DRM('P', '0', '1', '6'), 2, { R16, GR1616 } },
		{ VA_FOURCC_I420, DRM('Y', 'U', '1', '2'), 3, { R8, R8, R8 } },
		{ VA_FOURCC_IYUV, DRM('Y', 'U', '1', '2'), 3, { R8, R8, R8 } },
		{ VA_FOURCC_YV12, DRM('Y', 'V', '1', '2'), 3, { R8, R8, R8 } },
		{ VA_FOURCC_422H, DRM('Y', 'U', '1', '6'), 3, { R8, R8, R8 } },
		{ VA_FOURCC_YV16, DRM('Y', 'V', '1', '6'), 3, { R8, R8, R8 } },
		{ VA_FOURCC_444P, DRM('Y', 'U', '2', '4'), 3, { R8, R8, R8 } },
		{ VA_FOURCC_YV24, DRM('Y', 'V', '2', '4'), 3, { R8, R8, R8 } },
		{ VA_FOURCC_411P, DRM('Y', 'U', '1', '1'), 3, { R8, R8, R8 } },
	};
	struct dlbuf_frame f;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		VADRMPRIMESurfaceDescriptor d = separate(rows[i].va,
							 rows[i].codes,
							 rows[i].n);

		if (CHECK_OK(dlbuf_vaapi_frame(&d, &f)))
			CHECK_MSG(f.code == rows[i].drm, "row %zu", i);
	}
}

TEST(refused)
{
	static const struct {
		uint32_t fourcc, n, codes[3];
		int err;
		const char *says;
	} rows[] = {
		{ VA_FOURCC_RGBP, 3, { R8, R8, R8 }, -EOPNOTSUPP, "fourcc" },
		{ VA_FOURCC_IMC3, 3, { R8, R8, R8 }, -EOPNOTSUPP, "fourcc" },
		{ VA_FOURCC_NV12, 3, { R8, R8, R8 }, -EINVAL, "planes" },
		{ VA_FOURCC_NV12, 2, { R8, R8 }, -EINVAL, "layer 1" },
		{ VA_FOURCC_P010, 2, { R8, GR88 }, -EINVAL, "layer 0" },
		{ VA_FOURCC_YV12, 2, { R8, R8 }, -EINVAL, "3 planes" },
	};
	VADRMPRIMESurfaceDescriptor d;
	struct dlbuf_frame f = { .width = 77 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		d = separate(rows[i].fourcc, rows[i].codes, rows[i].n);
		CHECK_ERR_SAYS(dlbuf_vaapi_frame(&d, &f), rows[i].err, rows[i].says);
	}
	/* A descriptor, changed: the refusal of its frame. */
#define REFUSED(err, says, descriptor, ...)					\
	do {									\
		d = descriptor;							\
		__VA_ARGS__;							\
		CHECK_ERR_SAYS(dlbuf_vaapi_frame(&d, &f), err, says);		\
	} while (0)
#define NV12_REFUSED(err, says, ...) \
	REFUSED(err, says, SEPARATE(VA_FOURCC_NV12, R8, GR88), __VA_ARGS__)
	NV12_REFUSED(-EOPNOTSUPP, "modifiers", d.num_objects = 2,
		     d.objects[1].drm_format_modifier = 1, d.layers[1].object_index[0] = 1);
	/* An object that no plane is in has no say. */
	d.layers[1].object_index[0] = 0;
	CHECK_OK(dlbuf_vaapi_frame(&d, &f));
	f.width = 77;
	NV12_REFUSED(-EINVAL, "object 2 of 2", d.num_objects = 2, d.layers[1].object_index[0] = 2);
	NV12_REFUSED(-ERANGE, "", d.layers[1].offset[0] = 4096);
	d.objects[0].size = 0;
	CHECK_OK(dlbuf_vaapi_frame(&d, &f));
	CHECK_EQ(f.planes[1].bytes, 0);
	/* As many planes as it should have, in too few layers. */
	REFUSED(-EINVAL, "layer 1 of 2", SEPARATE(VA_FOURCC_YV12, R8, R8),
		d.layers[1].num_planes = 2);
	for (uint32_t n = 0; n < 6; n += 5) {
		REFUSED(-EINVAL, "", composed(), d.num_objects = n);
		REFUSED(-EINVAL, "", composed(), d.num_layers = n);
		REFUSED(-EINVAL, "", composed(), d.layers[0].num_planes = n);
	}
	CHECK(!f.width && !f.release);
}

/* Descriptors of no driver. */
TEST(random)
{
	static const uint32_t layers[] = { R8, GR88, RG88, R16, GR1616,
		DRM('N', 'V', '1', '2'), 0 };
	unsigned int frames = 0;

	for (unsigned int i = 0; i < random_rounds(); i++) {
		VADRMPRIMESurfaceDescriptor d = dice(2) ? composed() :
			SEPARATE(VA_FOURCC_NV12, R8, GR88);
		struct dlbuf_frame f;

		MAY_CHANGE(d.fourcc, dice(2) ? VA_FOURCC_P010 : edge());
		MAY_CHANGE(d.width, edge());
		MAY_CHANGE(d.height, edge());
		MAY_CHANGE(d.num_objects, edge());
		MAY_CHANGE(d.num_layers, edge());
		for (int j = 0; j < 4; j++) {
			MAY_CHANGE(d.objects[j].size, edge());
			MAY_CHANGE(d.objects[j].drm_format_modifier, edge());
			MAY_CHANGE(d.layers[j].drm_format, layers[dice(7)]);
			MAY_CHANGE(d.layers[j].num_planes, edge());
			for (int k = 0; k < 4; k++) {
				MAY_CHANGE(d.layers[j].object_index[k], edge());
				MAY_CHANGE(d.layers[j].offset[k], edge());
				MAY_CHANGE(d.layers[j].pitch[k], edge());
			}
		}
		memset(&f, 0xff, sizeof(f));
		frames += check_random(dlbuf_vaapi_frame(&d, &f), &f);
	}
	CHECK_MSG(frames > random_rounds() / 100, "%u", frames);
}

TEST(the_third_kind_of_descriptor)
{
#ifdef VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_3
	VADRMPRIMESurfaceDescriptor d = SEPARATE(VA_FOURCC_YV12, R8, R8, R8);
	VADRMPRIME3SurfaceDescriptor d3 = { 0 };
	struct dlbuf_frame f;

	memcpy(&d3, &d, offsetof(VADRMPRIME3SurfaceDescriptor, flags));
	CHECK_OK(dlbuf_vaapi_frame3(&d3, &f));
	CHECK_EQ(f.code, DRM('Y', 'V', '1', '2'));
	CHECK_EQ(f.nplanes, 3);
	CHECK_EQ(f.planes[2].offset, 2000);
	CHECK_EQ(f.planes[2].pitch, 66);
	d3.flags = VA_SURFACE_EXTBUF_DESC_PROTECTED;
	CHECK_ERR_SAYS(dlbuf_vaapi_frame3(&d3, &f), -EOPNOTSUPP, "protected");
	d3.flags = VA_SURFACE_EXTBUF_DESC_CACHED;
	CHECK_OK(dlbuf_vaapi_frame3(&d3, &f));
#else
	SKIP("these headers have no DRM_PRIME_3");
#endif
}

/* ---- surfaces */

struct va {
	int drm;
	VADisplay display;
	VASurfaceID surface;
	struct dlbuf_device *cpu;
};

static void say_nothing(void *data, const char *text)
{
}

/* Any node will do: the driver asks nothing of it. */
static void va_open(struct va *va, const char *words, uint32_t fourcc,
		    uint32_t width, uint32_t height)
{
	VASurfaceAttrib format = {
		.type = VASurfaceAttribPixelFormat,
		.flags = VA_SURFACE_ATTRIB_SETTABLE,
		.value = { .type = VAGenericValueTypeInteger,
			   .value = { .i = fourcc } },
	};
	int major, minor;

	KTAP_KEEPS(KTAP_HEAP, "libva keeps its display, libc the environment");
	setenv("LIBVA_DRIVER_NAME", "dlbuf", 1);
	setenv("DLBUF_VA", words, 1);
	va->drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	if (va->drm < 0)
		SKIP("there is no /dev/dri/renderD128");
	va->display = vaGetDisplayDRM(va->drm);
	REQUIRE(va->display);
	vaSetInfoCallback(va->display, say_nothing, NULL);
	REQUIRE(!vaInitialize(va->display, &major, &minor));
	CHECK_STR(vaQueryVendorString(va->display), "dlbuf's tests");
	REQUIRE(!vaCreateSurfaces(va->display, VA_RT_FORMAT_YUV420, width,
				  height, &va->surface, 1, &format, 1));
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &va->cpu));
}

static void va_close(struct va *va)
{
	dlbuf_device_close(va->cpu);
	CHECK_EQ(vaDestroySurfaces(va->display, &va->surface, 1), 0);
	CHECK_EQ(vaTerminate(va->display), 0);
	close(va->drm);
}

/* The pattern at each place that the tensor leads to. */
static void check_pixels(DLManagedTensorVersioned *t, uint64_t offset,
			 uint64_t pitch)
{
	const DLTensor *d = &t->dl_tensor;
	static uint8_t want[1 << 16];

	for (size_t i = 0; i < sizeof(want); i++)
		want[i] = va_pattern(offset + i);
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	REQUIRE(d->shape[0] * pitch <= sizeof(want));
	check_rows(d, want, (int64_t)pitch);
	CHECK_EQ(d->strides[0] * d->dtype.bits / 8, pitch);
	CHECK_OK(dlbuf_release(t, NULL, NULL));
}

static void check_nv12(struct va *va, const struct dlbuf_frame *frame,
		       void (*after)(void *), void *arg)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n = 0;

	REQUIRE_OK(dlbuf_import_frame(va->cpu, frame, NULL, t, &n));
	after(arg);
	REQUIRE(n == 2);
	CHECK_EQ(t[0]->dl_tensor.shape[0], 50);
	CHECK_EQ(t[0]->dl_tensor.shape[1], 100);
	CHECK_EQ(t[1]->dl_tensor.shape[0], 25);
	CHECK_EQ(t[1]->dl_tensor.shape[1], 50);
	CHECK_EQ(t[1]->dl_tensor.shape[2], 2);
	check_pixels(t[0], 0, 128);
	check_pixels(t[1], 128 * 50, 128);
	delete_tensors(t, n);
}

/* The fds are closed at once, and the tensors are still there. */
static void export_nv12(const char *words)
{
	VADRMPRIMESurfaceDescriptor desc;
	struct dlbuf_frame frame;
	struct va va;

	va_open(&va, words, VA_FOURCC_NV12, 100, 50);
	REQUIRE_OK(dlbuf_vaapi_export(va.display, va.surface, DLBUF_READ, &desc,
				      &frame));
	CHECK_EQ(frame.order, DLBUF_ORDER_COMPLETE);
	CHECK_EQ(desc.num_layers, words[0] ? 2 : 1);
	check_nv12(&va, &frame, dlbuf_vaapi_release, &desc);
	CHECK_EQ(desc.objects[0].fd, -1);
	/* Again, with nothing to close. */
	dlbuf_vaapi_release(&desc);
	va_close(&va);
}

/* In one layer, and in two if the driver has no other way, with any names. */
TEST(exported)
{
	export_nv12("");
	export_nv12("separate");
	export_nv12("separate rg88");
}

static void nothing(void *arg)
{
}

/* As a lease the closing comes with the last tensor. */
TEST(the_lease_closes)
{
	VADRMPRIMESurfaceDescriptor desc;
	struct dlbuf_frame frame;
	struct va va;

	va_open(&va, "", VA_FOURCC_NV12, 100, 50);
	REQUIRE_OK(dlbuf_vaapi_export(va.display, va.surface, DLBUF_RW, &desc,
				      &frame));
	frame.release = dlbuf_vaapi_release;
	frame.release_data = &desc;
	CHECK(desc.objects[0].fd >= 0);
	check_nv12(&va, &frame, nothing, NULL);
	CHECK_EQ(desc.objects[0].fd, -1);
	va_close(&va);
}

TEST(ten_bits)
{
	VADRMPRIMESurfaceDescriptor desc;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	uint32_t n = 0;
	struct va va;

	va_open(&va, "separate", VA_FOURCC_P010, 100, 50);
	REQUIRE_OK(dlbuf_vaapi_export(va.display, va.surface, DLBUF_READ, &desc,
				      &frame));
	REQUIRE_OK(dlbuf_import_frame(va.cpu, &frame, NULL, t, &n));
	dlbuf_vaapi_release(&desc);
	REQUIRE(n == 2);
	CHECK_EQ(t[0]->dl_tensor.dtype.bits, 16);
	check_pixels(t[0], 0, 256);
	check_pixels(t[1], 256 * 50, 256);
	delete_tensors(t, n);
	va_close(&va);
}

/* Y, V, U: the second plane is V, with any name of its layer. */
TEST(three_planes)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .view = DLBUF_VIEW_PLANES);
	VADRMPRIMESurfaceDescriptor desc;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	uint32_t n = 0;
	struct va va;

	va_open(&va, "separate", VA_FOURCC_YV12, 100, 50);
	REQUIRE_OK(dlbuf_vaapi_export(va.display, va.surface, DLBUF_READ, &desc,
				      &frame));
	CHECK_EQ(frame.code, DRM('Y', 'V', '1', '2'));
	REQUIRE_OK(dlbuf_import_frame(va.cpu, &frame, &opts, t, &n));
	dlbuf_vaapi_release(&desc);
	REQUIRE(n == 3);
	check_pixels(t[0], 0, 128);
	check_pixels(t[1], 128 * 50, 64);
	check_pixels(t[2], 128 * 50 + 64 * 25, 64);
	delete_tensors(t, n);
	va_close(&va);
}

/* A failure leaves no fd open: the harness counts. */
TEST(drivers_that_refuse)
{
	VADRMPRIMESurfaceDescriptor desc = { .fourcc = 77 };
	struct dlbuf_frame frame = { .width = 77 };
	struct va va;

	va_open(&va, "modifiers", VA_FOURCC_NV12, 100, 50);
	CHECK_ERR_SAYS(dlbuf_vaapi_export(va.display, va.surface, DLBUF_READ, &desc, &frame),
		       -EOPNOTSUPP, "modifiers");
	setenv("DLBUF_VA", "none", 1);
	CHECK_ERR_SAYS(dlbuf_vaapi_export(va.display, va.surface, DLBUF_READ, &desc, &frame),
		       -EOPNOTSUPP, "vaExportSurfaceHandle");
	setenv("DLBUF_VA", "broken", 1);
	CHECK_ERR(dlbuf_vaapi_export(va.display, va.surface, DLBUF_READ, &desc,
				     &frame), -EIO);
	setenv("DLBUF_VA", "", 1);
	CHECK_ERR_SAYS(dlbuf_vaapi_export(va.display, va.surface + 1, DLBUF_READ, &desc, &frame),
		       -EINVAL, "vaSyncSurface");
	CHECK_ERR(dlbuf_vaapi_export(va.display, va.surface, 0, &desc, &frame),
		  -EINVAL);
	CHECK_ERR(dlbuf_vaapi_export(va.display, va.surface, 4, &desc, &frame),
		  -EINVAL);
	CHECK_EQ(desc.fourcc, 77);
	CHECK(!frame.width && !frame.release);
	va_close(&va);
}

#ifdef VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_3
TEST(exported_as_the_third_kind)
{
	VADRMPRIME3SurfaceDescriptor desc;
	struct dlbuf_frame frame;
	struct va va;

	va_open(&va, "", VA_FOURCC_NV12, 100, 50);
	CHECK_EQ(vaSyncSurface(va.display, va.surface), 0);
	REQUIRE(!vaExportSurfaceHandle(va.display, va.surface,
				       VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_3,
				       VA_EXPORT_SURFACE_READ_ONLY |
				       VA_EXPORT_SURFACE_SEPARATE_LAYERS, &desc));
	REQUIRE_OK(dlbuf_vaapi_frame3(&desc, &frame));
	check_nv12(&va, &frame, dlbuf_vaapi_release, &desc);
	va_close(&va);
}
#endif

int main(int argc, char **argv)
{
	va_driver_beside_this();
	return ktap_run(argc, argv);
}
