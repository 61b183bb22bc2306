// SPDX-License-Identifier: MIT
/*
 * gstreamer: the cost of tensors for each frame, to a program that gets a
 * camera's frames from GStreamer. Run by bench/media/run.
 *
 *	gstreamer [WIDTHxHEIGHT [FRAMES]]
 *
 * Counts this process's CPU time from one buffer at the sink to the next, of
 * all its threads.
 */
#include <stdbool.h>
#include <string.h>

#include <gst/gst.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/gstreamer.h>

#include "../bench.h"

#define MAX_FRAMES 1000
#define WARM_UP 12

struct probe {
	struct dlbuf_device *dev;	/* NULL: only count */
	struct dlbuf_gstreamer_format format;
	bool known, copied;
	uint64_t times[MAX_FRAMES + WARM_UP], last;
	unsigned int n, max;
};

static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void tensors(struct probe *p, GstPad *pad, GstBuffer *buffer)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	uint32_t n;

	if (!p->known) {
		GstCaps *caps = gst_pad_get_current_caps(pad);

		if (dlbuf_gstreamer_caps(caps, &p->format))
			errx(1, "the caps are no frame's");
		gst_caps_unref(caps);
		p->known = true;
	}
	if (dlbuf_gstreamer_frame(buffer, &p->format, &frame))
		errx(1, "the buffer is no frame of dma-bufs");
	if (dlbuf_import_frame(p->dev, &frame, NULL, t, &n) ||
	    dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL) ||
	    dlbuf_release(t[0], NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	while (n--) {
		p->copied |= t[n]->flags & DLPACK_FLAG_BITMASK_IS_COPIED;
		t[n]->deleter(t[n]);
	}
}

static GstPadProbeReturn at_sink(GstPad *pad, GstPadProbeInfo *info,
				 gpointer data)
{
	struct probe *p = data;
	uint64_t now;

	if (p->dev)
		tensors(p, pad, GST_PAD_PROBE_INFO_BUFFER(info));
	now = cpu_time();
	if (p->last && p->n < p->max)
		p->times[p->n++] = now - p->last;
	p->last = now;
	return GST_PAD_PROBE_OK;
}

static uint64_t run(struct dlbuf_device *dev, unsigned int width,
		    unsigned int height, unsigned int frames)
{
	struct probe *p = g_new0(struct probe, 1);
	GstElement *pipeline, *sink;
	GstMessage *end;
	char text[256];
	uint64_t result;
	GstPad *pad;
	GstBus *bus;

	p->dev = dev;
	p->max = frames + WARM_UP;
	snprintf(text, sizeof(text), "v4l2src io-mode=dmabuf num-buffers=%u ! "
		 "video/x-raw,format=NV12,width=%u,height=%u ! "
		 "fakesink name=sink sync=false", p->max + 1, width, height);
	pipeline = gst_parse_launch(text, NULL);
	if (!pipeline)
		errx(1, "no pipeline");
	sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
	pad = gst_element_get_static_pad(sink, "sink");
	gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, at_sink, p, NULL);
	gst_element_set_state(pipeline, GST_STATE_PLAYING);
	bus = gst_element_get_bus(pipeline);
	end = gst_bus_timed_pop_filtered(bus, GST_CLOCK_TIME_NONE,
					 GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
	if (GST_MESSAGE_TYPE(end) == GST_MESSAGE_ERROR || p->n < p->max)
		errx(1, "the pipeline ended after %u frames", p->n);
	gst_message_unref(end);
	gst_object_unref(bus);
	gst_element_set_state(pipeline, GST_STATE_NULL);
	gst_object_unref(pad);
	gst_object_unref(sink);
	gst_object_unref(pipeline);
	if (p->copied)
		errx(1, "a frame was copied");
	result = median(p->times + WARM_UP, frames);
	g_free(p);
	return result;
}

int main(int argc, char **argv)
{
	unsigned int width = 1920, height = 1080, frames = 300;
	struct dlbuf_device *dev;

	fix_addresses(argv);
	if ((argc > 1 && sscanf(argv[1], "%ux%u", &width, &height) != 2) ||
	    (argc > 2 && (sscanf(argv[2], "%u", &frames) != 1 || !frames ||
			  frames > MAX_FRAMES)))
		errx(2, "usage: gstreamer [WIDTHxHEIGHT [FRAMES]]");
	gst_init(NULL, NULL);
	if (dlbuf_device_open("cpu", NULL, &dev))
		errx(1, "%s", dlbuf_last_error());
	printf("c\t%llu\t0\tGStreamer: v4l2src ! fakesink\n",
	       (unsigned long long)run(NULL, width, height, frames));
	printf("d\t%llu\t0\tthe same with new dlbuf tensors for each frame\n",
	       (unsigned long long)run(dev, width, height, frames));
	dlbuf_device_close(dev);
	return 0;
}
