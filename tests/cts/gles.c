// SPDX-License-Identifier: MIT
/* GLES: an application's display and context, a lost context, and tensors that it does not take. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <dlbuf/gles.h>
#include <dlbuf/prepare.h>

#include "cts.h"

#ifdef CONFIG_BACKEND_GLES
#include "alloc/trial.h"
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

/* A frame and the tensor for it in one dma-buf: the texture would be its own target. */
static void itself(void *arg)
{
	DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 }, .byte_offset = 4096,
		.shape = (int64_t[]){ 1, SIDE, SIDE } };
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int fd AUTO_FD = cts_alloc("udmabuf", 8192);
	DLManagedTensorVersioned *out AUTO_TENSOR = NULL;
	struct dlbuf_frame frame = grey(fd);
	struct dlbuf_prepare *plan;

	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &out));
	REQUIRE_OK(dlbuf_prepare_create(dev, &frame, &same, &plan));
	CHECK_ERR(dlbuf_prepare_frame(plan, &frame, NULL, out), -EOPNOTSUPP);
	CHECK_SAYS("the frame and the tensor are in one dma-buf");
	dlbuf_prepare_destroy(plan);
}

/* ---- words of the tensor */

/* Places of the tensor whose words have other bytes, too: a pass of the shader for each byte. */
static const struct {
	int64_t first, y, x;		/* the byte of the first value, steps */
} places[] = {
	{ 0, SIDE, 1 }, { 3, SIDE, 1 }, { 1, SIDE + 3, 1 }, { 0, 4 * SIDE, 4 }, { 2, 1, SIDE },
	{ 15 * 20, -20, 1 }, { 15, SIDE, -1 }, { BYTES + 3, -SIDE, -1 },
};

static void words(void *arg)
{
	enum { ROOM = 8 * BYTES };
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), to AUTO_FD = cts_alloc("udmabuf", ROOM);
	uint8_t picture[BYTES], want[ROOM], got[ROOM];
	struct dlbuf_frame frame = grey(fd);
	struct dlbuf_prepare *plan;

	cts_pattern(picture, sizeof(picture), 5);
	cts_poke(fd, 0, picture, sizeof(picture));
	REQUIRE_OK(dlbuf_prepare_create(dev, &frame, &same, &plan));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int64_t strides[] = { ROOM, places[i].y, places[i].x };
		DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 },
			.shape = (int64_t[]){ 1, SIDE, SIDE }, .strides = strides,
			.byte_offset = places[i].first };
		DLManagedTensorVersioned *out = NULL;

		memset(want, 0xa5, sizeof(want));
		cts_poke(to, 0, want, sizeof(want));
		for (int k = 0; k < BYTES; k++)
			want[places[i].first + k / SIDE * places[i].y + k % SIDE * places[i].x] =
				picture[k];
		REQUIRE_OK(dlbuf_import(dev, to, &layout, NULL, &out));
		CHECK_OK(dlbuf_prepare_frame(plan, &frame, NULL, out));
		cts_peek(to, 0, got, sizeof(got));
		CHECK_MSG(!memcmp(got, want, sizeof(got)), "place %zu", i);
		cts_delete(out);
	}
	dlbuf_prepare_destroy(plan);
}

/* ---- a lost context */

static struct gles_egl real_egl;
static struct gles_gl real_gl;
static unsigned int draws;

static gl_enum was_reset(void)
{
	return 0x8255; /* GL_UNKNOWN_CONTEXT_RESET_KHR */
}

static gl_enum was_reset_after_a_draw(void)
{
	return draws ? was_reset() : 0;
}

static void draw(gl_enum mode, int first, int n)
{
	draws++;
	real_gl.DrawArrays(mode, first, n);
}

static gl_enum gl_lost(void)
{
	return GLABI_CONTEXT_LOST;
}

static egl_bool not_current(egl_display display, egl_surface to, egl_surface from,
			    egl_context context)
{
	return context ? 0 : real_egl.MakeCurrent(display, to, from, context);
}

static egl_int egl_lost(void)
{
	return EGLABI_CONTEXT_LOST;
}

static void lose_current(struct gles_device *dev)
{
	dev->egl.MakeCurrent = not_current;
	dev->egl.GetError = egl_lost;
}

static void lose_before(struct gles_device *dev)
{
	dev->reset = was_reset;
}

static void lose_after(struct gles_device *dev)
{
	dev->reset = was_reset_after_a_draw;
	dev->gl.DrawArrays = draw;
}

static void lose_by_error(struct gles_device *dev)
{
	dev->gl.GetError = gl_lost;
}

static const struct {
	const char *name;
	void (*lose)(struct gles_device *dev);	/* as a driver says it */
} losses[] = {
	{ "eglMakeCurrent", lose_current }, { "reset before a run", lose_before },
	{ "reset in a run", lose_after }, { "GL error", lose_by_error },
};

/* The run in which a context is lost and all later ones say so, and a new device works. */
static void lost(void *arg)
{
	int64_t shape[] = { 1, SIDE, SIDE };
	DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 }, .shape = shape };
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), to AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_frame frame = grey(fd);

	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		struct gles_device *dev = gles_device_of(cts_open());
		DLManagedTensorVersioned *out = NULL;
		struct dlbuf_device_info info = { .size = sizeof(info) };
		struct dlbuf_prepare *plan;

		printf("# %s\n", losses[i].name);
		CHECK(dev->robust && dev->reset && !dev->reset());
		REQUIRE_OK(dlbuf_import(&dev->base, to, &layout, NULL, &out));
		REQUIRE_OK(dlbuf_prepare_create(&dev->base, &frame, &same, &plan));
		REQUIRE_OK(dlbuf_prepare_frame(plan, &frame, NULL, out));
		real_egl = dev->egl;
		real_gl = dev->gl;
		draws = 0;
		losses[i].lose(dev);
		for (int again = 0; again < 2; again++) {
			CHECK_ERR(dlbuf_prepare_frame(plan, &frame, NULL, out), -EIO);
			CHECK_SAYS("the context is lost");
			/* What a driver says afterwards does not matter. */
			dev->egl = real_egl;
			dev->gl = real_gl;
			dev->reset = NULL;
		}
		CHECK_ERR(dlbuf_device_drain(&dev->base, 0), -EIO);
		CHECK_OK(dlbuf_device_get_info(&dev->base, &info));
		CHECK(strstr(info.reason, "the context is lost"));
		/* The tensor is the CPU's. */
		CHECK_OK(dlbuf_acquire(out, DLBUF_RW, NULL, NULL));
		CHECK_OK(dlbuf_release(out, NULL, NULL));
		dlbuf_prepare_destroy(plan);
		cts_delete(out);
		dlbuf_device_close(&dev->base);
	}
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
	CHECK_SAYS("EGL_BAD_DISPLAY (0x3008)");
	/* No error of ours stays for their eglGetError(). */
	CHECK_EQ(egl->GetError(), EGLABI_SUCCESS);
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

		/* Their error of GL, which their glGetError() has not taken yet. */
		dev->gl.Disable(0xffff);
		prepares(i ? theirs : &dev->base);
		CHECK(egl->GetCurrentContext() == context);
		CHECK_EQ(egl->QueryAPI(), EGLABI_OPENGL_ES_API);
		dev->gl.GetIntegerv(0xba2 /* GL_VIEWPORT */, port);
		CHECK(port[0] == 1 && port[1] == 2 && port[2] == 3 && port[3] == 4);
		CHECK_EQ(dev->gl.GetError(), 0x500 /* GL_INVALID_ENUM */);
		CHECK_EQ(dev->gl.GetError(), 0);
		CHECK_EQ(egl->GetError(), EGLABI_SUCCESS);
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

/* A config with surfaces in memory (EGL_PBUFFER_BIT, 1), and the size of one. */
static const egl_int with_surface[] = {
	EGLABI_SURFACE_TYPE, 1, EGLABI_RENDERABLE_TYPE, EGLABI_OPENGL_ES3_BIT, EGLABI_NONE,
};
static const egl_int small_surface[] = { EGLABI_WIDTH, 8, EGLABI_HEIGHT, 8, EGLABI_NONE };

static void *prepare_here(void *arg)
{
	prepares(arg);
	return NULL;
}

/*
 * An application destroys its context or its surface while it is current, which EGL allows: it is
 * deleted when it is current no more, so in the next call of dlbuf. Then no context is current, the
 * application's calls of GL have no effect, and the device still prepares, on any thread.
 */
static void destroyed(void *arg)
{
	const egl_int version[] = { EGLABI_CONTEXT_MAJOR_VERSION, 3, EGLABI_NONE };
	struct gles_device *dev = gles_device_of(cts_open());
	const struct gles_egl *egl = &dev->egl;
	egl_surface (*create)(egl_display, egl_config, const egl_int *) =
		(egl_surface (*)(egl_display, egl_config, const egl_int *))
		egl->GetProcAddress("eglCreatePbufferSurface");
	egl_bool (*destroy)(egl_display, egl_surface) = (egl_bool (*)(egl_display, egl_surface))
		egl->GetProcAddress("eglDestroySurface");
	pthread_t thread;

	REQUIRE(create && destroy);
	for (int i = 0; i < 2; i++) {
		egl_surface surface = NULL;
		egl_context context;
		egl_config config;
		egl_int n = 0;

		egl->BindAPI(EGLABI_OPENGL_ES_API);
		REQUIRE(egl->ChooseConfig(dev->display, with_surface, &config, 1, &n) && n);
		context = egl->CreateContext(dev->display, config, NULL, version);
		if (i)
			surface = create(dev->display, config, small_surface);
		REQUIRE(context && (surface || !i));
		REQUIRE(egl->MakeCurrent(dev->display, surface, surface, context));
		REQUIRE(i ? destroy(dev->display, surface) :
			egl->DestroyContext(dev->display, context));
		REQUIRE(egl->GetCurrentContext() == context);
		prepares(&dev->base);
		CHECK(!egl->GetCurrentContext());
		CHECK_EQ(egl->QueryAPI(), EGLABI_OPENGL_ES_API);
		CHECK_EQ(egl->GetError(), EGLABI_SUCCESS);
		dev->gl.ColorMask(0, 0, 0, 0);
		prepares(&dev->base);
		REQUIRE(!pthread_create(&thread, NULL, prepare_here, &dev->base));
		REQUIRE(!pthread_join(thread, NULL));
		if (i)
			egl->DestroyContext(dev->display, context);
	}
	dlbuf_device_close(&dev->base);
}

/* ---- several threads, and few fds */

enum { CROWD = 3, ROUNDS = 2 };

struct visitor {
	struct dlbuf_device *shared;
	pthread_t thread;
};

/* A thread with plans on the device of all, and on devices of its own. */
static void *visit(void *arg)
{
	struct visitor *v = arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct dlbuf_device *own = cts_open();

		prepares(own);
		prepares(v->shared);
		CHECK_OK(dlbuf_device_drain(own, 0));
		dlbuf_device_close(own);
	}
	return NULL;
}

static void crowd(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct visitor visitors[CROWD];

	for (int i = 0; i < CROWD; i++) {
		visitors[i].shared = dev;
		REQUIRE(!pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]));
	}
	for (int i = 0; i < CROWD; i++)
		REQUIRE(!pthread_join(visitors[i].thread, NULL));
	prepares(dev);
}

/* With so few fds an open or a run fails with a sentence, and works when there are more. */
static void few_fds(void *arg)
{
	int64_t shape[] = { 1, SIDE, SIDE };
	DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 }, .shape = shape };
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), to AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open(), *other;
	DLManagedTensorVersioned *out AUTO_TENSOR = NULL;
	struct dlbuf_frame frame = grey(fd);
	unsigned int failed = 0, worked = 0;
	struct dlbuf_prepare *plan;
	struct rlimit all, few;

	REQUIRE_OK(dlbuf_import(dev, to, &layout, NULL, &out));
	REQUIRE_OK(dlbuf_prepare_create(dev, &frame, &same, &plan));
	REQUIRE(!getrlimit(RLIMIT_NOFILE, &all));
	for (unsigned int left = 0; left < 4; left++) {
		int next = dup(0), opened, ran;

		close(next);
		few = (struct rlimit){ .rlim_cur = next + left, .rlim_max = all.rlim_max };
		other = NULL;
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
		opened = dlbuf_device_open(cts_device, NULL, &other);
		CHECK(!opened || dlbuf_last_error()[0]);
		/* No device without its trial. */
		if (!left)
			CHECK_EQ(opened, -EMFILE);
		dlbuf_device_close(other);
		ran = dlbuf_prepare_frame(plan, &frame, NULL, out);
		CHECK(!ran || dlbuf_last_error()[0]);
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &all));
		failed += opened < 0 || ran < 0;
		worked += !ran;
	}
	CHECK(failed && worked);
	CHECK_OK(dlbuf_prepare_frame(plan, &frame, NULL, out));
	dlbuf_prepare_destroy(plan);
	prepares(dev);
}

/* Without a trial the device says so. */
static void untried(void *arg)
{
	struct dlbuf_device *dev;

	for (int none = 0; none < 2; none++) {
		DLBUF_INFO(dlbuf_device_info, info);

		trial_none = none;
		dev = cts_open();
		trial_none = false;
		CHECK_OK(dlbuf_device_get_info(dev, &info));
		CHECK_EQ(!!strstr(info.reason, "not tried"), none);
		prepares(dev);
		dlbuf_device_close(dev);
	}
}

/* ---- trials of several threads */

struct chooser {
	const struct dlbuf_frame *frame;
	pthread_t thread;
	uint64_t ns;
	char fastest[32];
	bool own;		/* GLES was not excluded */
};

static void compare(const struct dlbuf_prepare_trial *trial, void *data)
{
	struct chooser *c = data;

	if (trial->status)
		return;
	c->own |= !strncmp(trial->name, "gles", 4);
	if (!c->ns || trial->ns < c->ns) {
		strcpy(c->fastest, trial->name);
		c->ns = trial->ns;
	}
}

static void *choose(void *arg)
{
	struct chooser *c = arg;
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev = NULL;

	CHECK_OK(dlbuf_prepare_fastest(c->frame, &same, 0, compare, c, &dev));
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_MSG(!strcmp(info.name, c->fastest), "%s is not %s", info.name, c->fastest);
	CHECK(c->own);
	dlbuf_device_close(dev);
	return NULL;
}

/* Each thread tries each device, and gets the one that was fastest in its own trials. */
static void choosers(void *arg)
{
	struct dlbuf_device *dev = NULL;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_frame frame = grey(fd);
	struct chooser choosers[CROWD];

	cts_few_drivers();
	for (int i = 0; i < CROWD; i++) {
		choosers[i] = (struct chooser){ .frame = &frame };
		REQUIRE(!pthread_create(&choosers[i].thread, NULL, choose, &choosers[i]));
	}
	for (int i = 0; i < CROWD; i++)
		REQUIRE(!pthread_join(choosers[i].thread, NULL));
	dev = cts_open();
	prepares(dev);
	dlbuf_device_close(dev);
}

/* ---- the largest texture */

/* What does not fit into the driver's textures is refused before the driver sees it. */
static void huge(void *arg)
{
	enum { MOST = 1024, PAGES = MOST + 4 };
	DLTensor layout = { .ndim = 3, .dtype = { kDLUInt, 8, 1 },
		.shape = (int64_t[]){ 1, SIDE, SIDE } };
	struct dlbuf_prepare_opts wide = same;
	struct gles_device *dev = gles_device_of(cts_open());
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), to AUTO_FD = cts_alloc("udmabuf", BYTES);
	int big AUTO_FD = cts_alloc("udmabuf", PAGES * 4096);
	struct dlbuf_frame frame = grey(fd), large = grey(big);
	DLManagedTensorVersioned *out = NULL;
	struct dlbuf_prepare *plan = NULL;

	/* The driver's own limit, for a row of the tensor. */
	wide.width = (uint32_t)dev->most + 1;
	wide.height = 1;
	CHECK_ERR(dlbuf_prepare_create(&dev->base, &frame, &wide, &plan), -EOPNOTSUPP);
	CHECK_SAYS("its textures have up to");
	CHECK(!plan);
	dlbuf_prepare_destroy(plan);
	/* A smaller one, for the dma-buf of a frame: the lab has no 256 MiB for one. */
	REQUIRE_OK(dlbuf_import(&dev->base, to, &layout, NULL, &out));
	REQUIRE_OK(dlbuf_prepare_create(&dev->base, &frame, &same, &plan));
	dev->most = MOST;
	CHECK_ERR(dlbuf_prepare_frame(plan, &large, NULL, out), -EOPNOTSUPP);
	CHECK_SAYS("a dma-buf of 4210688 bytes; its textures have up to 1024 rows of 1024 words");
	CHECK_OK(dlbuf_prepare_frame(plan, &frame, NULL, out));
	dlbuf_prepare_destroy(plan);
	cts_delete(out);
	dlbuf_device_close(&dev->base);
}

/* A display that the application has terminated is refused, and other displays still work. */
static void terminated(void *arg)
{
	struct gles_device *dev = gles_device_of(cts_open());
	egl_bool (*terminate)(egl_display) = (egl_bool (*)(egl_display))
		dev->egl.GetProcAddress("eglTerminate");
	struct dlbuf_device *theirs = NULL;
	egl_display display;

	REQUIRE(terminate);
	display = dev->egl.GetPlatformDisplayEXT(0x31dd /* EGL_PLATFORM_SURFACELESS_MESA */, NULL,
						 NULL);
	REQUIRE(display && display != dev->display);
	CHECK_ERR(dlbuf_device_wrap_gles(display, NULL, &theirs), -EINVAL);
	CHECK_SAYS("EGL_NOT_INITIALIZED (0x3001)");
	REQUIRE(dev->egl.Initialize(display, NULL, NULL));
	REQUIRE(terminate(display));
	CHECK_ERR(dlbuf_device_wrap_gles(display, NULL, &theirs), -EINVAL);
	CHECK_SAYS("eglQueryString(): EGL_NOT_INITIALIZED (0x3001)");
	CHECK(!theirs);
	prepares(&dev->base);
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
	ktap_case("gles/destroyed", destroyed, NULL);
	ktap_case("gles/elsewhere", elsewhere, NULL);
	ktap_case("gles/itself", itself, NULL);
	ktap_case("gles/lost", lost, NULL);
	ktap_case("gles/words", words, NULL);
	ktap_case("gles/threads", crowd, NULL);
	ktap_case("gles/few-fds", few_fds, NULL);
	ktap_case("gles/untried", untried, NULL);
	ktap_case("gles/choosers", choosers, NULL);
	ktap_case("gles/huge", huge, NULL);
	ktap_case("gles/terminated", terminated, NULL);
}
#else
void cts_cases_gles(void)
{
}
#endif
