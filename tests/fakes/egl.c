// SPDX-License-Identifier: MIT
/* See egl.h. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "egl.h"

#define EXPORT __attribute__((visibility("default")))

/* EGL/egl.h's numbers, written down a second time on purpose. */
#define NOT_INITIALIZED 0x3001
#define BAD_ATTRIBUTE 0x3004
#define BAD_DISPLAY 0x3008
#define BAD_MATCH 0x3009
#define BAD_PARAMETER 0x300c
#define SUCCESS 0x3000

enum { DISPLAYS = 4 };		/* one of each device, and the default one */

static struct fake_egl fake;
static struct fake_egl_image *images;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char displays[DISPLAYS], devices[3];
static bool initialised[DISPLAYS];
static __thread int error = SUCCESS;

static void *failed(int code)
{
	error = code;
	return NULL;
}

static void *wrong(int code, const char *what)
{
	fake.wrong++;
	fprintf(stderr, "# fake egl: %s\n", what);
	return failed(code);
}

static bool fails(const char *name)
{
	error = SUCCESS;
	if (!fake.failing || strcmp(fake.failing, name))
		return false;
	error = fake.error;
	return true;
}

static int display_of(const void *display)
{
	for (int i = 0; i < DISPLAYS; i++)
		if (display == &displays[i])
			return i;
	return -1;
}

/* ---------------------------------------------------------------- displays */

EXPORT void *eglGetDisplay(void *native);
EXPORT void *eglGetDisplay(void *native)
{
	if (fails("eglGetDisplay"))
		return NULL;
	if (native)
		return wrong(BAD_PARAMETER, "a native display");
	fake.device = -1;
	return &displays[DISPLAYS - 1];
}

static void *eglGetPlatformDisplayEXT(unsigned int platform, void *native,
				      const int *attribs)
{
	if (fails("eglGetPlatformDisplayEXT"))
		return NULL;
	if (platform != 0x313f || attribs)
		return wrong(BAD_PARAMETER, "not of EGL_PLATFORM_DEVICE_EXT");
	for (unsigned int i = 0; i < fake.ndevices; i++)
		if (native == &devices[i]) {
			fake.device = (int)i;
			return &displays[i];
		}
	return wrong(BAD_PARAMETER, "no such device");
}

EXPORT unsigned int eglInitialize(void *display, int *major, int *minor);
EXPORT unsigned int eglInitialize(void *display, int *major, int *minor)
{
	int i = display_of(display);

	if (fails("eglInitialize"))
		return 0;
	if (i < 0)
		return wrong(BAD_DISPLAY, "no display") != NULL;
	initialised[i] = true;
	fake.initialised++;
	*major = 1;
	*minor = 5;
	return 1;
}

EXPORT const char *eglQueryString(void *display, int name);
EXPORT const char *eglQueryString(void *display, int name)
{
	int i = display_of(display);

	if (fails("eglQueryString"))
		return NULL;
	if (name != 0x3055)
		return wrong(BAD_PARAMETER, "not EGL_EXTENSIONS");
	if (!display)
		return fake.no_devices ? "EGL_EXT_client_extensions" :
			"EGL_EXT_client_extensions EGL_EXT_platform_device";
	if (i < 0 || !initialised[i])
		return wrong(NOT_INITIALIZED, "the display is not initialised");
	return fake.no_dma_bufs ?
		"EGL_EXT_image_dma_buf_import_modifiers EGL_KHR_image" :
		"EGL_KHR_image EGL_EXT_image_dma_buf_import "
		"EGL_EXT_image_dma_buf_import_modifiers";
}

EXPORT int eglGetError(void);
EXPORT int eglGetError(void)
{
	int code = error;

	error = SUCCESS;
	return code;
}

EXPORT unsigned int eglTerminate(void *display);
EXPORT unsigned int eglTerminate(void *display)
{
	(void)display;
	return wrong(BAD_DISPLAY, "the display is not ours alone") != NULL;
}

static unsigned int eglQueryDevicesEXT(int max, void **list, int *n)
{
	if (fails("eglQueryDevicesEXT"))
		return 0;
	for (*n = 0; *n < max && *n < (int)fake.ndevices; ++*n)
		list[*n] = &devices[*n];
	return 1;
}

static unsigned int eglQueryDeviceAttribEXT(void *device, int name,
					    intptr_t *value)
{
	if (fails("eglQueryDeviceAttribEXT"))
		return 0;
	for (unsigned int i = 0; i < fake.ndevices; i++) {
		if (device != &devices[i])
			continue;
		if (name != 0x323a || fake.cuda[i] < 0)
			return failed(BAD_ATTRIBUTE) != NULL;
		*value = fake.cuda[i];
		return 1;
	}
	return wrong(BAD_PARAMETER, "no such device") != NULL;
}

/* ---------------------------------------------------------------- images */

/* By its attributes, each of which there has to be once. */
static const char *parse(const int *attribs, int values[7])
{
	static const int names[7] = {
		0x3057, 0x3056, 0x3271, 0x3272, 0x3273, 0x3274, 0x30d2,
	};
	unsigned int seen = 0;

	for (; *attribs != 0x3038; attribs += 2) {
		int i = 0;

		while (i < 7 && names[i] != attribs[0])
			i++;
		if (i == 7 || seen & 1u << i)
			return "an attribute that is unknown, or there twice";
		seen |= 1u << i;
		values[i] = attribs[1];
	}
	return seen == 0x7f ? NULL : "an attribute is missing";
}

static void *make(const int *attribs)
{
	int v[7], flags;
	const char *why = parse(attribs, v);
	struct fake_egl_image *image;
	off_t size;
	void *map;

	if (why)
		return wrong(BAD_ATTRIBUTE, why);
	if (memcmp(&v[2], "R8  ", 4))
		return wrong(BAD_MATCH, "a format that is not R8");
	size = lseek(v[3], 0, SEEK_END);
	flags = fcntl(v[3], F_GETFL);
	if (size < 0 || flags < 0)
		return wrong(BAD_PARAMETER, "no dma-buf");
	if (v[0] < 1 || v[1] < 1 || v[4] || v[5] < v[0] || !v[6] ||
	    (off_t)v[5] * v[1] > size)
		return wrong(BAD_PARAMETER, "a picture beyond its dma-buf");
	if (v[0] > 16384 || v[1] > 16384)
		return failed(BAD_PARAMETER);
	flags = (flags & O_ACCMODE) == O_RDWR ? PROT_READ | PROT_WRITE :
						PROT_READ;
	map = mmap(NULL, (size_t)size, flags, MAP_SHARED, v[3], 0);
	if (map == MAP_FAILED)
		return failed(0x3003);
	image = calloc(1, sizeof(*image));
	*image = (struct fake_egl_image){
		.magic = FAKE_EGL_IMAGE,
		.map = map,
		.bytes = (size_t)size,
		.writable = flags & PROT_WRITE,
		.frame = {
			.planes = { map },
			.width = (unsigned int)v[0],
			.height = (unsigned int)v[1],
			.depth = 1,
			.pitch = (unsigned int)v[5],
			.nplanes = 1,
			.channels = 1,
			.type = CUABI_EGL_FRAME_TYPE_PITCH,
			.color = 9,
			.format = CUABI_AD_FORMAT_UNSIGNED_INT8,
		},
		.next = images,
	};
	if (fake.skew)
		fake.skew(&image->frame);
	images = image;
	fake.live++;
	fake.made++;
	return image;
}

static void *eglCreateImageKHR(void *display, void *context,
			       unsigned int target, void *buffer,
			       const int *attribs)
{
	int i = display_of(display);
	void *image;

	if (fails("eglCreateImageKHR"))
		return NULL;
	if (i < 0 || !initialised[i])
		return wrong(NOT_INITIALIZED, "the display is not initialised");
	if (context || target != 0x3270 || buffer)
		return wrong(BAD_PARAMETER, "not EGL_LINUX_DMA_BUF_EXT");
	pthread_mutex_lock(&lock);
	image = make(attribs);
	pthread_mutex_unlock(&lock);
	return image;
}

static unsigned int destroy(struct fake_egl_image *handle)
{
	struct fake_egl_image *image = images;

	while (image && image != handle)
		image = image->next;
	if (!image || !image->magic)
		return wrong(BAD_PARAMETER, "no live image") != NULL;
	if (image->registered)
		wrong(BAD_PARAMETER, "CUDA still has the image");
	munmap(image->map, image->bytes);
	image->magic = 0;
	fake.live--;
	return 1;
}

static unsigned int eglDestroyImageKHR(void *display, void *handle)
{
	unsigned int done;

	if (display_of(display) < 0)
		return wrong(BAD_DISPLAY, "no display") != NULL;
	pthread_mutex_lock(&lock);
	done = destroy(handle);
	pthread_mutex_unlock(&lock);
	return done;
}

/* ---------------------------------------------------------------- functions */

#define FN(name) { #name, (void (*)(void))name }

typedef void (*function)(void);
EXPORT function eglGetProcAddress(const char *name);
EXPORT function eglGetProcAddress(const char *name)
{
	static const struct {
		const char *name;
		function fn;
	} list[] = {
		FN(eglGetPlatformDisplayEXT), FN(eglQueryDevicesEXT),
		FN(eglQueryDeviceAttribEXT), FN(eglCreateImageKHR),
		FN(eglDestroyImageKHR),
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (!strcmp(list[i].name, name) &&
		    (!fake.without || strcmp(fake.without, name)))
			return list[i].fn;
	return NULL;
}

EXPORT struct fake_egl *fake_egl(bool reset);
EXPORT struct fake_egl *fake_egl(bool reset)
{
	struct fake_egl_image *image;

	if (!reset)
		return &fake;
	while ((image = images)) {
		images = image->next;
		if (image->magic)
			munmap(image->map, image->bytes);
		free(image);
	}
	memset(initialised, 0, sizeof(initialised));
	fake = (struct fake_egl){ .ndevices = 1, .cuda = { 0, 1, -1 },
				  .error = BAD_MATCH };
	return &fake;
}

__attribute__((constructor)) static void loaded(void)
{
	fake_egl(true);
}
