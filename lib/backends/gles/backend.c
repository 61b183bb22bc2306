// SPDX-License-Identifier: MIT
/* GLES: finds, opens and describes devices, and makes their context current. */
#include <errno.h>
#include <stdio.h>

#include "../../import/host.h"
#include "../../import/select.h"
#include "gles.h"

/* No fork handler: a child gets -ESTALE before it would lock. */
pthread_mutex_t gles_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the context */

/*
 * The caller's context or surface may be gone: EGL deletes one that the application has destroyed
 * while it was current, as soon as another one is current. Then none may be current: the
 * application's calls of GL would change the device's context.
 */
static void restore(struct gles_device *dev, const struct gles_scope *scope)
{
	dev->egl.BindAPI(scope->api);
	if (scope->context && dev->egl.MakeCurrent(scope->display, scope->draw, scope->read,
						   scope->context))
		return;
	if (scope->context) {
		gles_failed(dev->egl.GetError(), dev->base.name, "eglMakeCurrent", -EIO);
		log_at(DLBUF_LOG_WARN, "%s; the caller's context is not current any more",
		       dlbuf_last_error());
		forget_failure();
	}
	/* EGL releases the context of the API that is bound. */
	dev->egl.BindAPI(EGLABI_OPENGL_ES_API);
	dev->egl.MakeCurrent(dev->display, NULL, NULL, NULL);
	dev->egl.BindAPI(scope->api);
}

static const char lost[] = "the context is lost: open the device again";

/* -EIO if the driver has lost the context, now or before. */
static int check_lost(struct gles_device *dev, bool lost_now)
{
	if (!lost_now && !dev->lost && !(dev->reset && dev->reset()))
		return 0;
	__atomic_store_n(&dev->lost, true, __ATOMIC_RELEASE);
	return fail(-EIO, "%s: %s", dev->base.name, lost);
}

int gles_enter(struct gles_device *dev, struct gles_scope *scope)
{
	egl_int error;
	int ret;

	pthread_mutex_lock(&gles_lock);
	*scope = (struct gles_scope){
		.display = dev->egl.GetCurrentDisplay(),
		.draw = dev->egl.GetCurrentSurface(EGLABI_DRAW),
		.read = dev->egl.GetCurrentSurface(EGLABI_READ),
		.context = dev->egl.GetCurrentContext(),
		.api = dev->egl.QueryAPI(),
	};
	dev->egl.BindAPI(EGLABI_OPENGL_ES_API);
	if (!fault_hit() && dev->egl.MakeCurrent(dev->display, NULL, NULL, dev->context)) {
		ret = check_lost(dev, false);
		if (ret)
			gles_leave(dev, scope);
		return ret;
	}
	error = dev->egl.GetError();
	ret = error == EGLABI_CONTEXT_LOST ? check_lost(dev, true) :
	      gles_failed(error, dev->base.name, "eglMakeCurrent", -EIO);
	dev->egl.BindAPI(scope->api);
	pthread_mutex_unlock(&gles_lock);
	return ret;
}

void gles_leave(struct gles_device *dev, const struct gles_scope *scope)
{
	restore(dev, scope);
	pthread_mutex_unlock(&gles_lock);
}

int gles_check(struct gles_device *dev, const char *function)
{
	gl_enum error = fault_hit() ? GLABI_OUT_OF_MEMORY : dev->gl.GetError();

	if (!error || error == GLABI_CONTEXT_LOST)
		return check_lost(dev, error);
	/* Without a context, GetError() gives an error at each call. */
	for (int i = 0; i < 8 && dev->gl.GetError(); i++)
		;
	if (error == GLABI_INVALID_FRAMEBUFFER_OPERATION)
		return fail(-EOPNOTSUPP, "%s: the driver does not render to the dma-buf",
			    dev->base.name);
	return fail(error == GLABI_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s: %s: GL error 0x%x",
		    dev->base.name, function, error);
}

/* ---- a device */

static int lacks(const struct gles_device *dev, const char *what)
{
	return fail(-EOPNOTSUPP, "%s: the driver has no %s", dev->base.name, what);
}

/* The driver's limits, names and refusals, while the context is current. */
static int ask_driver(struct gles_device *dev)
{
	const char *name = dev->base.name, *renderer, *version;
	int ret = gles_load_gl(&dev->egl, name, &dev->gl);

	if (ret)
		return ret;
	renderer = dev->gl.GetString(GLABI_RENDERER);
	version = dev->gl.GetString(GLABI_VERSION);
	snprintf(dev->renderer, sizeof(dev->renderer), "%s", renderer ? renderer : "GLES");
	snprintf(dev->driver, sizeof(dev->driver), "%s", version ? version : "");
	/*
	 * Mesa's llvmpipe on a node of vgem or virtio-gpu imports, and draws to a NULL pointer:
	 * SIGSEGV (25.0.7). softpipe is refused, too.
	 */
	if (!dev->software && strstr(dev->renderer, "pipe"))
		return fail(-EOPNOTSUPP, "%s: %s crashes on imports by a DRM node; use "
			    "gles:software", name, dev->renderer);
	if (dev->robust)
		dev->reset = dev->egl.GetProcAddress("glGetGraphicsResetStatusEXT");
	if (!gles_has(dev->gl.GetString(GLABI_EXTENSIONS), "GL_OES_EGL_image"))
		return lacks(dev, "GL_OES_EGL_image");
	dev->gl.GetIntegerv(GLABI_MAX_TEXTURE_SIZE, &dev->most);
	return gles_check(dev, "glGetIntegerv()");
}

/* Whether images without tiles may be a target: not those of NVIDIA's driver. */
static int ask_modifiers(struct gles_device *dev, const char *extensions)
{
	uint64_t modifiers[64];
	egl_bool external[64] = { 0 };	/* llvmpipe does not write it (Mesa 25.0.7) */
	egl_int n = 0;

	if (!gles_has(extensions, "EGL_EXT_image_dma_buf_import_modifiers") ||
	    !dev->egl.QueryDmaBufModifiersEXT ||
	    !dev->egl.QueryDmaBufModifiersEXT(dev->display, GLES_PIXELS, ARRAY_SIZE(modifiers),
					      modifiers, external, &n) || !n)
		return 0;
	dev->modifiers = true;
	for (egl_int i = 0; i < n; i++) {
		if (modifiers[i])
			continue;
		return !external[i] ? 0 :
		       fail(-EOPNOTSUPP, "%s: the driver renders to no dma-buf without tiles: "
			    "LINEAR is external only", dev->base.name);
	}
	return lacks(dev, "import of ABGR8888 without tiles (LINEAR)");
}

static int make_context(struct gles_device *dev)
{
	static const egl_int wanted[] = {
		EGLABI_SURFACE_TYPE, 0, EGLABI_RENDERABLE_TYPE, EGLABI_OPENGL_ES3_BIT,
		EGLABI_NONE,
	};
	const egl_int version[] = {
		EGLABI_CONTEXT_MAJOR_VERSION, 3,
		dev->robust ? EGLABI_CONTEXT_OPENGL_RESET_NOTIFICATION_STRATEGY : EGLABI_NONE,
		EGLABI_LOSE_CONTEXT_ON_RESET, EGLABI_NONE,
	};
	egl_enum api = dev->egl.QueryAPI();
	egl_config config = NULL;
	egl_int n = 0;
	int ret = 0;

	pthread_mutex_lock(&gles_lock);
	dev->egl.BindAPI(EGLABI_OPENGL_ES_API);
	if (fault_hit() || !dev->egl.ChooseConfig(dev->display, wanted, &config, 1, &n))
		ret = gles_failed(dev->egl.GetError(), dev->base.name, "eglChooseConfig", -EIO);
	else if (!n)
		ret = lacks(dev, "OpenGL ES 3.0");
	if (!ret) {
		dev->context = fault_hit() ? NULL :
			dev->egl.CreateContext(dev->display, config, NULL, version);
		if (!dev->context)
			ret = gles_failed(dev->egl.GetError(), dev->base.name, "eglCreateContext",
					  -EOPNOTSUPP);
	}
	dev->egl.BindAPI(api);
	pthread_mutex_unlock(&gles_lock);
	return ret;
}

static int ask_display(struct gles_device *dev)
{
	static const char needed[] =
		"EGL_KHR_image_base\0" "EGL_EXT_image_dma_buf_import\0"
		"EGL_KHR_surfaceless_context\0";
	const char *extensions = dev->egl.QueryString(dev->display, EGLABI_EXTENSIONS);

	FOR_EACH_STRING(name, needed)
		if (!gles_has(extensions, name) || !dev->egl.CreateImageKHR ||
		    !dev->egl.DestroyImageKHR)
			return lacks(dev, name);
	dev->robust = gles_has(extensions, "EGL_EXT_create_context_robustness");
	dev->fences = gles_has(extensions, "EGL_ANDROID_native_fence_sync") &&
		dev->egl.CreateSyncKHR && dev->egl.DestroySyncKHR &&
		dev->egl.DupNativeFenceFDANDROID;
	return ask_modifiers(dev, extensions);
}

static void gles_close(struct dlbuf_device *base)
{
	struct gles_device *dev = gles_device_of(base);

	/* The display is not terminated: others may use it, and drivers crash after that. */
	pthread_mutex_lock(&gles_lock);
	if (dev->context)
		dev->egl.DestroyContext(dev->display, dev->context);
	pthread_mutex_unlock(&gles_lock);
	free(dev);
}

/* Whether a trial of the device's imports allows to use it. */
static int try_imports(struct gles_device *dev)
{
	bool apart = false;
	int ret = trial_run(&dev->base, gles_try_buffer, &apart);

	if (ret < 0)
		return ret;
	if (dev->trial.ret)
		return failure_report(&dev->trial);
	dev->untried = !ret;
	return apart ? trial_apart() : 0;
}

static bool is_software(const struct gles_egl *egl, egl_device device)
{
	return device && gles_has(egl->QueryDeviceStringEXT(device, EGLABI_EXTENSIONS),
				  "EGL_MESA_device_software");
}

int gles_device_new(const struct gles_egl *egl, egl_display display, egl_device device,
		    const char *name, struct gles_device **out)
{
	struct gles_device *dev = sys_calloc(1, sizeof(*dev));
	struct gles_scope scope;
	int ret;

	if (!dev)
		return -ENOMEM;
	dev->base.backend = &gles_backend;
	dev->base.acquire_sync = DLBUF_SYNC_BLOCKS;
	dev->base.release_sync = DLBUF_SYNC_BLOCKS;
	snprintf(dev->base.name, sizeof(dev->base.name), "%s", name);
	dev->egl = *egl;
	dev->display = display;
	dev->software = is_software(egl, device);
	ret = ask_display(dev);
	if (!ret)
		ret = make_context(dev);
	if (!ret)
		ret = gles_enter(dev, &scope);
	if (!ret) {
		ret = ask_driver(dev);
		if (!ret)
			ret = gles_shader_make(dev);
		gles_leave(dev, &scope);
	}
	if (!ret)
		ret = try_imports(dev);
	if (ret)
		gles_close(&dev->base);
	else
		*out = dev;
	return ret;
}

/* ---- the devices of EGL */

int gles_devices(const struct gles_egl *egl, egl_device devices[], egl_int room, egl_int *n)
{
	const char *client = egl->QueryString(NULL, EGLABI_EXTENSIONS);

	devices[0] = NULL;
	*n = 1;
	/* It needs the extensions that list devices. */
	if (!gles_has(client, "EGL_EXT_platform_device") || !egl->QueryDevicesEXT ||
	    !egl->QueryDeviceStringEXT || !egl->GetPlatformDisplayEXT)
		return 0;
	if (fault_hit() || !egl->QueryDevicesEXT(room, devices, n))
		return gles_failed(egl->GetError(), "gles", "eglQueryDevicesEXT", -EIO);
	return *n ? 0 : fail(-ENODEV, "gles: EGL has no device");
}

/* All devices, and the description of one. */
struct found {
	struct gles_egl egl;
	egl_device devices[GLES_MAX_DEVICES];
	egl_int n;
	struct dlbuf_device_info info;
	struct device_place place;
};

/* Describes a device without its driver, which is not started for it. */
static void describe_device(struct found *f, unsigned int i)
{
	const struct gles_egl *egl = &f->egl;
	egl_device device = f->devices[i];
	const char *node = NULL;
	struct stat st;

	f->info = (struct dlbuf_device_info){
		.size = sizeof(f->info),
		.backend = "gles",
		.device = { kDLCPU, 0 },
		.acquire = DLBUF_SYNC_BLOCKS,
		.release = DLBUF_SYNC_BLOCKS,
		.pitch_align = 64,
		.offset_align = 64,
	};
	f->place = (struct device_place){ 0 };
	snprintf(f->info.name, sizeof(f->info.name), "gles:%u", i);
	if (device && gles_has(egl->QueryDeviceStringEXT(device, EGLABI_EXTENSIONS),
			       "EGL_EXT_device_drm"))
		node = egl->QueryDeviceStringEXT(device, EGLABI_DRM_DEVICE_FILE);
	if (node && !stat(node, &st))
		f->place.drm[0] = st.st_rdev;
	snprintf(f->info.description, sizeof(f->info.description), "EGL device %s",
		 node ? node : is_software(egl, device) ? "software" : "default");
}

static int find_devices(struct found *f)
{
	int ret = gles_load(&f->egl);

	return ret ? ret : gles_devices(&f->egl, f->devices, GLES_MAX_DEVICES, &f->n);
}

static int gles_each(const struct backend *backend, dlbuf_device_fn fn, void *data)
{
	struct found f;
	int ret = find_devices(&f);

	(void)backend;
	for (egl_int i = 0; !ret && i < f.n; i++) {
		describe_device(&f, i);
		ret = fn(&f.info, data);
	}
	return ret;
}

static int open_device(const struct found *f, unsigned int i, struct dlbuf_device **out)
{
	egl_device device = f->devices[i];
	egl_display display = device ?
		f->egl.GetPlatformDisplayEXT(EGLABI_PLATFORM_DEVICE, device, NULL) :
		f->egl.GetDisplay(NULL);
	struct gles_device *dev;
	int ret;

	if (fault_hit() || !display || !f->egl.Initialize(display, NULL, NULL))
		return gles_failed(f->egl.GetError(), f->info.name, "no driver: eglInitialize",
				   -ENODEV);
	ret = gles_device_new(&f->egl, display, device, f->info.name, &dev);
	if (!ret)
		*out = &dev->base;
	return ret;
}

static int gles_open(const char *text, const struct dlbuf_device_opts *opts,
		     struct dlbuf_device **out)
{
	struct selector s;
	struct found f;
	int ret = find_devices(&f);

	(void)opts;
	if (!ret)
		ret = selector_begin(&s, "gles", text, f.n);
	if (ret)
		return ret;
	while (selector_next(&s)) {
		describe_device(&f, s.at);
		if (!selector_takes(&s, 0, &f.info, &f.place))
			continue;
		ret = open_device(&f, s.at, out);
		if (!ret)
			return 0;
		selector_takes(&s, ret, &f.info, &f.place);
	}
	return selector_none(&s);
}

static void gles_describe(struct dlbuf_device *base, struct dlbuf_device_info *info)
{
	const struct gles_device *dev = gles_device_of(base);

	snprintf(info->description, sizeof(info->description), "%s", dev->renderer);
	snprintf(info->driver, sizeof(info->driver), "%s", dev->driver);
	if (__atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE))
		snprintf(info->reason, sizeof(info->reason), "%s", lost);
	else if (dev->untried)
		snprintf(info->reason, sizeof(info->reason), "its imports were not tried: it "
			 "got no buffer of udmabuf or the heap system");
	else if (!dev->fences)
		snprintf(info->reason, sizeof(info->reason), "no "
			 "EGL_ANDROID_native_fence_sync: dlbuf_prepare_frame() waits for the GPU");
}

const struct backend gles_backend = {
	.name = "gles",
	.type = kDLCPU,
	.waits_implicitly = true,
	.import_size = sizeof(struct gles_import),
	.each = gles_each,
	.open = gles_open,
	.close = gles_close,
	.describe = gles_describe,
	.import = gles_import,
	.unimport = gles_unimport,
	.acquire = host_acquire,
	.release = host_release,
	.drain = gles_drain,
	.program_load = gles_program_load,
	.program_run = gles_program_run,
	.program_drop = gles_program_drop,
	.program_run_all = gles_program_run_all,
};
