// SPDX-License-Identifier: MIT
/* link: gstreamer-app-1.0 gstreamer-allocators-1.0 gstreamer-video-1.0 */

#include <gst/allocators/gstdmabuf.h>
#include <gst/app/gstappsink.h>
#include <gst/video/video.h>
#include <stdbool.h>
#include <stdio.h>

#define CAPS "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=640,height=360"

int main(void)
{
	GstVideoInfoDmaDrm info;
	GstElement *pipe, *sink;
	GstSample *sample;
	GstMemory *mem;
	bool dmabuf;

	gst_init(NULL, NULL);
	pipe = gst_parse_launch("v4l2src device=/dev/video0 num-buffers=1 ! " CAPS
				" ! appsink name=sink", NULL);
	if (!pipe)
		return 1;
	sink = gst_bin_get_by_name(GST_BIN(pipe), "sink");
	gst_element_set_state(pipe, GST_STATE_PLAYING);
	sample = gst_app_sink_pull_sample(GST_APP_SINK(sink));
	if (!sample || !gst_video_info_dma_drm_from_caps(&info, gst_sample_get_caps(sample)))
		return 1;
	mem = gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0);
	dmabuf = gst_is_dmabuf_memory(mem);
	printf("%.4s, modifier %#lx, a dma-buf: %d\n", (char *)&info.drm_fourcc,
	       (unsigned long)info.drm_modifier, dmabuf);
	gst_sample_unref(sample);
	gst_element_set_state(pipe, GST_STATE_NULL);
	gst_object_unref(sink);
	gst_object_unref(pipe);
	return !dmabuf;
}
