// SPDX-License-Identifier: MIT
/*
 * What a driver of EGL is asked for: images that end within the dma-buf, and plans of a few kinds
 * that it compiles. tests/drivers/shaders prints its statistics of these plans.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include <dlbuf/prepare.h>

#include "cts.h"

#ifdef CONFIG_BACKEND_GLES
#include "backends/gles/gles.h"

/* ---- images */

static struct gles_egl real;
static int most;		/* the largest side of an image */
static unsigned int made;	/* images less those that were destroyed */

static egl_int value_of(const egl_int *attribs, egl_int name)
{
	for (; *attribs != EGLABI_NONE; attribs += 2)
		if (*attribs == name)
			return attribs[1];
	return 0;
}

static egl_image create_image(egl_display display, egl_context context, egl_enum target,
			      void *buffer, const egl_int *attribs)
{
	uint64_t pitch = value_of(attribs, EGLABI_DMA_BUF_PLANE0_PITCH);
	uint64_t from = value_of(attribs, EGLABI_DMA_BUF_PLANE0_OFFSET);
	int width = value_of(attribs, EGLABI_WIDTH), height = value_of(attribs, EGLABI_HEIGHT);
	off_t size = lseek(value_of(attribs, EGLABI_DMA_BUF_PLANE0_FD), 0, SEEK_END);
	egl_image image;

	CHECK(width > 0 && height > 0 && width <= most && height <= most);
	CHECK(4 * (uint64_t)width <= pitch);
	CHECK_MSG(from + pitch * height <= (uint64_t)size, "%d rows of %d bytes from %d on, in "
		  "%lld bytes", height, (int)pitch, (int)from, (long long)size);
	image = real.CreateImageKHR(display, context, target, buffer, attribs);
	made += !!image;
	return image;
}

static egl_bool destroy_image(egl_display display, egl_image image)
{
	made--;
	return real.DestroyImageKHR(display, image);
}

/* Of a driver with textures of 1024: rows of 256 words, then of 1024. */
static const struct {
	uint64_t pages;
	const char *says;	/* the refusal */
} sizes[] = {
	{ 1, NULL }, { 2, NULL }, { 3, NULL }, { 255, NULL }, { 256, NULL }, { 257, NULL },
	{ 1024, NULL },
	{ 1025, "up to 1024 rows of 1024 words" },
};

/* Each image ends within its dma-buf, is destroyed, and the kernel's handle is closed. */
static void images(void *arg)
{
	unsigned int (*imports)(void) =
		(unsigned int (*)(void))dlsym(RTLD_DEFAULT, "drivers_imports");
	struct gles_device *dev = gles_device_of(cts_open());

	real = dev->egl;
	most = dev->most = 1024;
	made = 0;
	dev->egl.CreateImageKHR = create_image;
	dev->egl.DestroyImageKHR = destroy_image;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		int64_t shape = sizes[i].pages * 4096;
		int fd AUTO_FD = cts_alloc("udmabuf", shape);
		DLManagedTensorVersioned *t = NULL;
		DLTensor layout = LAYOUT8(1, &shape);

		if (sizes[i].says) {
			CHECK_ERR(dlbuf_import(&dev->base, fd, &layout, NULL, &t), -EOPNOTSUPP);
			CHECK_SAYS(sizes[i].says);
			continue;
		}
		CHECK_OK(dlbuf_import(&dev->base, fd, &layout, NULL, &t));
		CHECK_EQ(made, 1);
		if (imports)
			CHECK_EQ(imports(), 1);
		cts_delete(t);
		dlbuf_device_trim(&dev->base, 0);
		CHECK_EQ(made, 0);
	}
	dlbuf_device_close(&dev->base);
	if (imports)
		CHECK_EQ(imports(), 0);
}

/* ---- plans */

enum { W = 64, H = 48, SIDE = 32 };

static const struct plan {
	const char *name;
	uint32_t fourcc, planes, pitch;
	DLDataType dtype;
	uint64_t flags;
} plans[] = {
	{ "NV12-f32-NCHW", DLBUF_FOURCC('N', 'V', '1', '2'), 1, W, { kDLFloat, 32, 1 }, 0 },
	{ "NV12-u8-NHWC", DLBUF_FOURCC('N', 'V', '1', '2'), 1, W, { kDLUInt, 8, 1 },
	  DLBUF_PREPARE_NHWC },
	{ "RGB3-f32-NCHW", DLBUF_FOURCC('R', 'G', 'B', '3'), 1, 3 * W, { kDLFloat, 32, 1 }, 0 },
};

/* The driver compiles and submits the plan, and keeps none of the buffers. */
static void compiles(void *arg)
{
	const struct plan *p = arg;
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = SIDE, .height = SIDE, .dtype = p->dtype,
		   .flags = p->flags);
	bool last = p->flags & DLBUF_PREPARE_NHWC;
	int64_t shape[] = { 1, last ? SIDE : 3, SIDE, last ? 3 : SIDE };
	DLTensor layout = { .ndim = 4, .dtype = p->dtype, .shape = shape };
	struct dlbuf_device *dev = cts_open();
	int fd AUTO_FD = cts_alloc("udmabuf", 3 * W * H + cts_more);
	int to AUTO_FD = cts_alloc("udmabuf", 3 * SIDE * SIDE * 4 + cts_more);
	struct dlbuf_frame frame = PICTURE(W, H, p->fourcc, DLBUF_CODE_V4L2, p->planes,
					   .planes = { { .fd = fd, .pitch = p->pitch } });
	DLManagedTensorVersioned *out = NULL;
	struct dlbuf_prepare *plan;

	REQUIRE_OK(dlbuf_import(dev, to, &layout, NULL, &out));
	REQUIRE_OK(dlbuf_prepare_create(dev, &frame, &opts, &plan));
	for (int i = 0; i < 2; i++)
		CHECK_OK(dlbuf_prepare_frame(plan, &frame, NULL, out));
	dlbuf_prepare_destroy(plan);
	CHECK_OK(dlbuf_device_drain(dev, 0));
	cts_delete(out);
	dlbuf_device_close(dev);
}

void cts_cases_driver(void)
{
	if (strcmp(cts_access->backend, "gles"))
		return;
	ktap_case("driver/images", images, NULL);
	/* prepare/values compares what a driver computes. */
	for (size_t i = 0; i < ARRAY_SIZE(plans) && !cts_computes; i++)
		ktap_case(cts_name("driver/plan@%s", plans[i].name), compiles, (void *)&plans[i]);
}
#else
void cts_cases_driver(void)
{
}
#endif
