// SPDX-License-Identifier: MIT
/*
 * A pipeline's frames as tensors: prints how bright they are. Nothing is
 * copied, and the camera gets each buffer back when its tensor is deleted.
 *
 *	cc gstreamer.c $(pkg-config --cflags --libs dlbuf gstreamer-app-1.0 gstreamer-video-1.0 gstreamer-allocators-1.0)
 *	./a.out 'v4l2src io-mode=dmabuf num-buffers=10 ! video/x-raw,format=NV12 ! appsink name=sink'
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>

#include <gst/app/gstappsink.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/gstreamer.h>

static double mean(const DLTensor *t)
{
	uint64_t sum = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		for (int64_t x = 0; x < t->shape[1]; x++)
			sum += ((uint8_t *)t->data)[y * t->strides[0] +
						    x * t->strides[1]];
	return (double)sum / (t->shape[0] * t->shape[1]);
}

static void show(struct dlbuf_device *dev, GstElement *sink, GstSample *sample)
{
	DLBUF_OPTS(dlbuf_import_opts, luma, .view = DLBUF_VIEW_LUMA);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_gstreamer_format format;
	struct dlbuf_frame frame;
	uint32_t n;

	if (dlbuf_gstreamer_caps(gst_sample_get_caps(sample), &format))
		errx(1, "%s", dlbuf_last_error());
	format.orientation = dlbuf_gstreamer_orientation(sink);
	if (dlbuf_gstreamer_frame(gst_sample_get_buffer(sample), &format, &frame))
		errx(1, "%s", dlbuf_last_error());
	if (dlbuf_import_frame(dev, &frame, &luma, t, &n) ||
	    dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	printf("frame %" PRIu64 ": %.1f\n", frame.sequence,
	       mean(&t[0]->dl_tensor));
	t[0]->deleter(t[0]); /* releases it, too */
}

int main(int argc, char **argv)
{
	const char *text = argc > 1 ? argv[1] : "v4l2src io-mode=dmabuf "
		"num-buffers=10 ! video/x-raw,format=NV12 ! appsink name=sink";
	GstElement *pipeline, *sink;
	struct dlbuf_device *cpu;
	GstSample *sample;
	GstCaps *caps;

	gst_init(&argc, &argv);
	pipeline = gst_parse_launch(text, NULL);
	sink = pipeline ? gst_bin_get_by_name(GST_BIN(pipeline), "sink") : NULL;
	if (!sink || dlbuf_device_open("cpu", NULL, &cpu))
		errx(1, "no pipeline with an appsink called sink");
	/* The pipeline negotiates a format that the device imports. */
	if (dlbuf_gstreamer_announce(sink) ||
	    dlbuf_gstreamer_device_caps(cpu, DLBUF_DEVICE_FORMAT_DIRECT, &caps))
		errx(1, "%s", dlbuf_last_error());
	gst_app_sink_set_caps(GST_APP_SINK(sink), caps);
	/* Otherwise its queue takes all of the camera's buffers while we use one. */
	gst_app_sink_set_max_buffers(GST_APP_SINK(sink), 2);
	gst_caps_unref(caps);
	gst_element_set_state(pipeline, GST_STATE_PLAYING);
	while ((sample = gst_app_sink_pull_sample(GST_APP_SINK(sink)))) {
		show(cpu, sink, sample);
		gst_sample_unref(sample);
	}
	gst_element_set_state(pipeline, GST_STATE_NULL);
	gst_object_unref(sink);
	gst_object_unref(pipeline);
	dlbuf_device_close(cpu);
	return 0;
}
