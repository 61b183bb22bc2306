/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the Hexagon backend: the double of FastRPC's library
 * (tests/doubles/hexagon.h), and memfds in place of dma-bufs.
 */
#ifndef UNIT_HEXAGON_BACKEND_H
#define UNIT_HEXAGON_BACKEND_H

#include <sys/wait.h>

#include "backends/hexagon/hexagon.h"
#include "common.h"
#include "cuda_memfds.h"
#include "double.h"
#include "emulated.h"
#include "doubles/hexagon.h"

#define BYTES 12288

static struct fake_hexagon *fake;
#include "counts.h"
static fake_hexagon_fn fake_fn;
static void *fake_lib;
static char warned[512];	/* the last warning */

static inline void keep_warning(void *data, enum dlbuf_log_level level,
				const char *text)
{
	if (level <= DLBUF_LOG_WARN)
		snprintf(warned, sizeof(warned), "%s", text);
}

/* With a library of these words; see doubles/hexagon.h. */
static inline void begin_with(const char *library, const char *words)
{
	KTAP_KEEPS(KTAP_HEAP, "the library stays loaded");
	setenv("FAKE_HEXAGON", words, 1);
	fake_lib = double_open(library, "DLBUF_HEXAGON_LIBRARY");
	fake_fn = (fake_hexagon_fn)dlsym(fake_lib, "fake_hexagon");
	REQUIRE(fake_fn);
	fake = fake_fn(true);
	warned[0] = '\0';
	dlbuf_log_set(keep_warning, NULL, DLBUF_LOG_INFO);
}

static inline void begin(const char *words)
{
	begin_with("libhexagon.so", words);
}

static inline void end(void)
{
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
	dlclose(fake_lib);
	unsetenv("DLBUF_HEXAGON_LIBRARY");
}

static inline struct dlbuf_device *open_flags(const char *name, uint32_t flags)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = flags);
	struct dlbuf_device *dev = NULL;

	REQUIRE_OK(dlbuf_device_open(name, &opts, &dev));
	return dev;
}

static inline int new_memfd(void)
{
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	return fd;
}

/* Rows of 100 bytes, 128 apart, that begin at byte 256. */
static inline int import(struct dlbuf_device *dev, int fd,
			 DLManagedTensorVersioned **t)
{
	int64_t shape[] = { 8, 100 }, strides[] = { 128, 1 };
	DLTensor layout = LAYOUT8(2, shape, .strides = strides,
				  .byte_offset = 256);

	return dlbuf_import(dev, fd, &layout, NULL, t);
}

static inline DLManagedTensorVersioned *import_ok(struct dlbuf_device *dev, int fd)
{
	DLManagedTensorVersioned *t = NULL;

	REQUIRE_OK(import(dev, fd, &t));
	return t;
}

/* FastRPC's map of it. */
static inline struct dlbuf_hexagon_buffer buffer_of(DLManagedTensorVersioned *t)
{
	DLBUF_INFO(dlbuf_hexagon_buffer, b);

	CHECK_OK(dlbuf_hexagon_get_buffer(t, &b));
	return b;
}

#endif /* UNIT_HEXAGON_BACKEND_H */
