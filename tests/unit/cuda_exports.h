/* SPDX-License-Identifier: MIT */
/* An application with memory to export, of CUDA's double or HIP's. */
#ifndef UNIT_CUDA_EXPORTS_H
#define UNIT_CUDA_EXPORTS_H

#include "cuda_memfds.h"

#define EXPORT_BYTES (2 << 20)
#define HOST_BYTES 8192

static struct dlbuf_device *dev;
static struct dlbuf_exported out;
static struct app app;
static void *p, *host;

/* After begin(). */
static inline void exports_begin(const char *device)
{
	dev = open_as(device);
	app_begin(&app, dev);
	p = app_alloc(&app, EXPORT_BYTES);
	REQUIRE(!cu.MemHostAlloc(&host, HOST_BYTES, CUABI_MEMHOSTALLOC_PORTABLE));
}

static inline void exports_end(void)
{
	app_free(&app, p);
	CHECK_EQ(cu.MemFreeHost(host), 0);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

/* A case that begins with begin() of these words, and calls exports_begin() itself. */
#define EXPORT_CASE(name, words) TEST_BETWEEN(name, begin(words), exports_end())

/* In a context of the second device, which is not current. */
static inline void *alloc_on_the_second(cuda_context *second)
{
	void *other;

	REQUIRE(!cux.CtxCreate(second, 0, 1));
	other = app_alloc(&app, EXPORT_BYTES);
	REQUIRE(!cu.CtxPopCurrent(second));
	return other;
}

static inline void check_host_export(DLDeviceType type)
{
	REQUIRE_OK(export_at(dev, (char *)host + 10, 5000, type, 0, &out));
	CHECK_EQ(out.offset, 10);
	CHECK_EQ(out.bytes, HOST_BYTES);
	close(out.fd);
}

#endif /* UNIT_CUDA_EXPORTS_H */
