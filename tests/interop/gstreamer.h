/* SPDX-License-Identifier: MIT */
/* The tests of dlbuf/interop/gstreamer.h share these. */
#ifndef TESTS_INTEROP_GSTREAMER_H
#define TESTS_INTEROP_GSTREAMER_H

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/gstreamer.h>

#include "interop/picture.h"

static inline void init(void)
{
	KTAP_KEEPS(KTAP_HEAP | KTAP_FDS, "GStreamer's registry and types");
	gst_init(NULL, NULL);
}

static inline int caps(const char *text, struct dlbuf_gstreamer_format *format)
{
	GstCaps *c = gst_caps_from_string(text);
	int ret;

	REQUIRE(c);
	ret = dlbuf_gstreamer_caps(c, format);
	gst_caps_unref(c);
	return ret;
}

#define SIZE ",width=322,height=180"
#define NV12_CAPS "video/x-raw,format=NV12" SIZE
#define DMA_DRM "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format="

/* A udmabuf as GstMemory. */
struct mem {
	GstAllocator *allocator;
	struct dlbuf_udmabuf buf;
};

static inline GstMemory *memory(struct mem *m, size_t bytes)
{
	if (dlbuf_udmabuf_create(bytes, NULL, &m->buf))
		SKIP("%s", dlbuf_last_error());
	/* The GstMemory closes it. */
	return gst_dmabuf_allocator_alloc_with_flags(m->allocator, m->buf.fd,
						     bytes,
						     GST_FD_MEMORY_FLAG_NONE);
}

#endif /* TESTS_INTEROP_GSTREAMER_H */
