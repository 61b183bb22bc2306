// SPDX-License-Identifier: MIT
/*
 * Accesses to a tensor's memory by a Hexagon DSP: a remote call copies an argument.
 * A real DSP needs code of its own for that, so this is for the double of the library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "cts/cts.h"
#include "doubles/hexagon.h"

static struct {
	fake_hexagon_fn fake;
	fake_open_fn open;
	fake_invoke_fn invoke;
	uint64_t handle;
} dsp;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	const char *file = getenv("DLBUF_HEXAGON_LIBRARY");
	void *lib = file ? dlopen(file, RTLD_NOW) : NULL;

	if (!lib)
		return;
	dsp.fake = (fake_hexagon_fn)dlsym(lib, "fake_hexagon");
	dsp.open = (fake_open_fn)dlsym(lib, "remote_handle64_open");
	dsp.invoke = (fake_invoke_fn)dlsym(lib, "remote_handle64_invoke");
	if (!dsp.fake || !dsp.open || !dsp.invoke)
		dsp.invoke = NULL;
}

static bool hexagon_prepare(void)
{
	pthread_once(&once, load);
	return false;
}

/* The tensor's side is reached by its fd, or the call would have copied an address. */
static int copy(void *to, void *from, size_t bytes)
{
	fake_remote_arg args[2] = {
		{ .buf = { from, bytes } }, { .buf = { to, bytes } },
	};
	unsigned int before;
	int aee;

	hexagon_prepare();
	if (!dsp.invoke)
		return -ENOENT;
	if (!dsp.handle &&
	    dsp.open("file:///libcopy_skel.so?copy_skel_handle_invoke&_modver=1.0"
		     "&_dom=cdsp", &dsp.handle))
		return -EIO;
	before = dsp.fake(false)->by_fd;
	aee = dsp.invoke(dsp.handle, FAKE_COPY, args);
	return aee ? -EIO : dsp.fake(false)->by_fd > before ? 0 : -EFAULT;
}

static int address(DLManagedTensorVersioned *t, uint64_t offset, void **p)
{
	DLBUF_INFO(dlbuf_tensor_info, info);
	int ret = dlbuf_tensor_get_info(t, &info);

	*p = (char *)t->dl_tensor.data - info.first + offset;
	return ret;
}

static int hexagon_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
			size_t bytes)
{
	void *p;
	int ret = address(t, offset, &p);

	return ret ? ret : copy(dst, p, bytes);
}

static int hexagon_write(DLManagedTensorVersioned *t, uint64_t offset,
			 const void *src, size_t bytes)
{
	void *p;
	int ret = address(t, offset, &p);

	return ret ? ret : copy(p, (void *)src, bytes);
}

const struct access access_hexagon = {
	.backend = "hexagon",
	.read = hexagon_read,
	.write = hexagon_write,
	.prepare = hexagon_prepare,
	.no_children = true,
};
