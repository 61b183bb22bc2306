/* SPDX-License-Identifier: MIT */
/* The tests of dlbuf/interop/gstreamer.h share these. */
#ifndef TESTS_INTEROP_GSTREAMER_H
#define TESTS_INTEROP_GSTREAMER_H

#include <gst/app/gstappsink.h>

/* Another branch of a tee that maps a memory for reading while the adapter has locked it. */
static unsigned int locked, not_read;

static inline gboolean lock_with_a_reader(GstMemory *memory, GstLockFlags flags)
{
	if (!gst_mini_object_lock(GST_MINI_OBJECT_CAST(memory), flags))
		return FALSE;
	locked++;
	if (gst_mini_object_lock(GST_MINI_OBJECT_CAST(memory), GST_LOCK_FLAG_READ))
		gst_mini_object_unlock(GST_MINI_OBJECT_CAST(memory), GST_LOCK_FLAG_READ);
	else
		not_read++;
	return TRUE;
}

#undef gst_memory_lock
#define gst_memory_lock lock_with_a_reader
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

/* A udmabuf as GstMemory, which closes it. */
static inline GstMemory *memory(size_t bytes)
{
	GstAllocator *allocator = gst_dmabuf_allocator_new();
	struct dlbuf_udmabuf buf = udmabuf_of(bytes);
	GstMemory *m;

	close(buf.memfd);
	m = gst_dmabuf_allocator_alloc_with_flags(allocator, buf.fd, bytes,
						  GST_FD_MEMORY_FLAG_NONE);
	gst_object_unref(allocator);
	return m;
}

static inline GstBuffer *buffer_of(GstMemory *m)
{
	GstBuffer *b = gst_buffer_new();

	gst_buffer_append_memory(b, m);
	return b;
}

/* A pipeline whose end is an appsink. */
struct stream {
	GstElement *pipeline, *sink;
	struct dlbuf_device *dev;
	guint fds;
	guint sampled, released;	/* released: atomic */
};

static inline guint count_fds(void)
{
	static struct ktap_holdings h;

	ktap_look(&h);
	return h.nfds;
}

static inline void start(struct stream *s, const char *source, const char *text)
{
	char line[768];

	init();
	*s = (struct stream){ .pipeline = NULL };
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &s->dev));
	snprintf(line, sizeof(line), "%s ! %s ! appsink name=sink sync=false "
		 "max-buffers=1", source, text);
	s->pipeline = gst_parse_launch(line, NULL);
	REQUIRE(s->pipeline);
	s->sink = gst_bin_get_by_name(GST_BIN(s->pipeline), "sink");
}

static inline void play(struct stream *s)
{
	s->fds = count_fds();
	REQUIRE(gst_element_set_state(s->pipeline, GST_STATE_PLAYING) !=
		GST_STATE_CHANGE_FAILURE);
}

static inline GstSample *pull(struct stream *s)
{
	GstSample *sample = gst_app_sink_try_pull_sample(
		GST_APP_SINK(s->sink), 300 * GST_SECOND);
	GstBus *bus;
	GstMessage *m;
	GError *e;

	if (sample)
		return sample;
	bus = gst_element_get_bus(s->pipeline);
	m = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
	if (m) {
		gst_message_parse_error(m, &e, NULL);
		CHECK_MSG(false, "%s", e->message);
	}
	CHECK(sample);
	ktap_leave();
}

static inline void stop(struct stream *s)
{
	gst_element_set_state(s->pipeline, GST_STATE_NULL);
	dlbuf_device_trim(s->dev, 0);
	/* GStreamer's threads may close what was open before: seen once, two fds on a busy machine. */
	CHECK_MSG(count_fds() <= s->fds, "%u fds, %u before", count_fds(), s->fds);
	gst_object_unref(s->sink);
	gst_object_unref(s->pipeline);
	dlbuf_device_close(s->dev);
}

#endif /* TESTS_INTEROP_GSTREAMER_H */
