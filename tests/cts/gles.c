// SPDX-License-Identifier: MIT
/* GLES: an application's display and context, and tensors that are no dma-buf. */
#include <string.h>

#include <dlbuf/gles.h>
#include <dlbuf/prepare.h>

#include "cts.h"

#ifdef CONFIG_BACKEND_GLES
#include "backends/gles/gles.h"

#define SIDE 16
#define BYTES (SIDE * SIDE)

static const struct dlbuf_prepare_opts same = {
	.size = sizeof(same), .width = SIDE, .height = SIDE, .dtype = { kDLUInt, 8, 1 },
	.channels = DLBUF_CHANNELS_GREY,
};

static struct dlbuf_frame grey(int fd)
{
	return (struct dlbuf_frame)PICTURE(SIDE, SIDE, DLBUF_FOURCC('G', 'R', 'E', 'Y'),
		DLBUF_CODE_V4L2, 1, .planes = { { .fd = fd, .pitch = SIDE } },
		.colour.range = DLBUF_RANGE_FULL);
}

/* A plan that copies a picture of full range. */
static void prepares(struct dlbuf_device *dev)
{
	int64_t shape[] = { 1, SIDE, SIDE };
	DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 }, .shape = shape };
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), to AUTO_FD = cts_alloc("udmabuf", BYTES);
	DLManagedTensorVersioned *out AUTO_TENSOR = NULL;
	struct dlbuf_frame frame = grey(fd);
	struct dlbuf_prepare *plan;
	uint8_t want[BYTES], got[BYTES];

	cts_pattern(want, sizeof(want), 3);
	cts_poke(fd, 0, want, sizeof(want));
	REQUIRE_OK(dlbuf_import(dev, to, &layout, NULL, &out));
	REQUIRE_OK(dlbuf_prepare_create(dev, &frame, &same, &plan));
	CHECK_OK(dlbuf_prepare_frame(plan, &frame, NULL, out));
	dlbuf_prepare_destroy(plan);
	cts_peek(to, 0, got, sizeof(got));
	CHECK(!memcmp(got, want, sizeof(got)));
}

/* The device under test, and an application with a current context on its display. */
static void wrapped(void *arg)
{
	struct gles_device *dev = gles_device_of(cts_open());
	const egl_int version[] = { EGLABI_CONTEXT_MAJOR_VERSION, 2, EGLABI_NONE };
	const egl_int any[] = { EGLABI_SURFACE_TYPE, 0, EGLABI_NONE };
	const struct gles_egl *egl = &dev->egl;
	struct dlbuf_device *theirs = NULL;
	egl_context context;
	egl_config config;
	egl_int n = 0;

	CHECK_ERR(dlbuf_device_wrap_gles(NULL, NULL, &theirs), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_gles(dev->display, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_gles(&n, NULL, &theirs), -EINVAL);
	CHECK(!egl->GetCurrentContext());
	egl->BindAPI(EGLABI_OPENGL_ES_API);
	REQUIRE(egl->ChooseConfig(dev->display, any, &config, 1, &n) && n);
	context = egl->CreateContext(dev->display, config, NULL, version);
	REQUIRE(context && egl->MakeCurrent(dev->display, NULL, NULL, context));
	dev->gl.Viewport(1, 2, 3, 4);
	REQUIRE_OK(dlbuf_device_wrap_gles(dev->display, NULL, &theirs));
	/* Their context is current again, and has its state. */
	for (int i = 0; i < 2; i++) {
		int port[4] = { 0 };

		prepares(i ? theirs : &dev->base);
		CHECK(egl->GetCurrentContext() == context);
		CHECK_EQ(egl->QueryAPI(), EGLABI_OPENGL_ES_API);
		dev->gl.GetIntegerv(0xba2 /* GL_VIEWPORT */, port);
		CHECK(port[0] == 1 && port[1] == 2 && port[2] == 3 && port[3] == 4);
		CHECK_EQ(dev->gl.GetError(), 0);
		dev->gl.Viewport(1, 2, 3, 4);
	}
	egl->MakeCurrent(dev->display, NULL, NULL, NULL);
	/* Without one, none is current afterwards. */
	prepares(theirs);
	CHECK(!egl->GetCurrentContext());
	egl->DestroyContext(dev->display, context);
	dlbuf_device_close(theirs);
	dlbuf_device_close(&dev->base);
}

static void nothing(DLManagedTensorVersioned *t)
{
}

/* Memory of the CPU has DLPack's type of the device, and the GPU does not reach it. */
static void elsewhere(void *arg)
{
	int64_t shape[] = { 1, SIDE, SIDE };
	uint8_t bytes[BYTES] = { 0 };
	DLManagedTensorVersioned plain = {
		.version = { DLPACK_MAJOR_VERSION, 0 }, .deleter = nothing,
		.dl_tensor = { .data = bytes, .device = { kDLCPU, 0 }, .ndim = 3,
			       .dtype = { kDLUInt, 8, 1 }, .shape = shape },
	};
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_frame frame = grey(fd);
	struct dlbuf_prepare *plan;

	REQUIRE_OK(dlbuf_prepare_create(dev, &frame, &same, &plan));
	CHECK_ERR(dlbuf_prepare_frame(plan, &frame, NULL, &plain), -EOPNOTSUPP);
	CHECK_SAYS("no dma-buf");
	dlbuf_prepare_destroy(plan);
}

void cts_cases_gles(void)
{
	if (strcmp(cts_access->backend, "gles"))
		return;
	ktap_case("gles/wrapped", wrapped, NULL);
	ktap_case("gles/elsewhere", elsewhere, NULL);
}
#else
void cts_cases_gles(void)
{
}
#endif
