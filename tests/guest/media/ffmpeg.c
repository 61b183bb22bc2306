// SPDX-License-Identifier: MIT
/* link: libavcodec libavutil libswscale */

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libavutil/hwcontext_drm.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	AVDRMFrameDescriptor drm = { .nb_objects = 1, .nb_layers = 1 };
	AVFrame *in = av_frame_alloc(), *out = av_frame_alloc();
	struct SwsContext *sws;
	int white;

	if (!in || !out || avcodec_version() >> 16 != LIBAVCODEC_VERSION_MAJOR)
		return 1;
	in->format = AV_PIX_FMT_NV12;
	out->format = AV_PIX_FMT_RGB24;
	in->width = out->width = in->height = out->height = 16;
	if (av_frame_get_buffer(in, 0) || av_frame_get_buffer(out, 0))
		return 1;
	memset(in->data[0], 235, 16 * in->linesize[0]);
	memset(in->data[1], 128, 8 * in->linesize[1]);
	sws = sws_getContext(16, 16, in->format, 16, 16, out->format, 0, NULL, NULL, NULL);
	if (!sws || sws_scale_frame(sws, out, in) < 0)
		return 1;
	white = out->data[0][0];
	printf("white is %d, %s has %d object\n", white,
	       av_get_pix_fmt_name(AV_PIX_FMT_DRM_PRIME), drm.nb_objects);
	sws_freeContext(sws);
	av_frame_free(&in);
	av_frame_free(&out);
	return white < 250;
}
