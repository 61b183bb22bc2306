// SPDX-License-Identifier: MIT
/*
 * A frame that FFmpeg has in a GPU's memory as tensors: makes one in place of a
 * decoder, fills it with grey and prints how bright it is. Nothing is copied
 * after that.
 *
 *	cc ffmpeg.c $(pkg-config --cflags --libs dlbuf libavutil) &&
 *	./a.out vaapi /dev/dri/renderD128
 */
#include <err.h>
#include <stdio.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/ffmpeg.h>

static double mean(const DLTensor *t)
{
	uint64_t sum = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		for (int64_t x = 0; x < t->shape[1]; x++)
			sum += ((uint8_t *)t->data)[y * t->strides[0] +
						    x * t->strides[1]];
	return (double)sum / (t->shape[0] * t->shape[1]);
}

/* This part is the decoder's work. */
static AVFrame *decode(const char *api, const char *node)
{
	AVBufferRef *device = NULL, *pool = NULL;
	AVFrame *av = av_frame_alloc(), *grey = av_frame_alloc();
	AVHWFramesContext *ctx;

	if (av_hwdevice_ctx_create(&device, av_hwdevice_find_type_by_name(api),
				   node, NULL, 0))
		errx(1, "FFmpeg has no %s on %s", api, node);
	pool = av_hwframe_ctx_alloc(device);
	ctx = (AVHWFramesContext *)pool->data;
	ctx->format = av_hwdevice_find_type_by_name(api) ==
		      AV_HWDEVICE_TYPE_VULKAN ? AV_PIX_FMT_VULKAN :
						AV_PIX_FMT_VAAPI;
	ctx->sw_format = grey->format = AV_PIX_FMT_NV12;
	ctx->width = grey->width = 1280;
	ctx->height = grey->height = 720;
	if (av_hwframe_ctx_init(pool) || av_hwframe_get_buffer(pool, av, 0))
		errx(1, "no frame");
	if (av_frame_get_buffer(grey, 0))
		errx(1, "no memory");
	memset(grey->data[0], 127, grey->linesize[0] * grey->height);
	if (av_hwframe_transfer_data(av, grey, 0))
		errx(1, "the frame cannot be written");
	av_frame_free(&grey);
	av_buffer_unref(&pool);
	av_buffer_unref(&device);
	return av;
}

int main(int argc, char **argv)
{
	AVFrame *av = argc > 1 ? decode(argv[1], argv[2]) :
				 decode("vaapi", "/dev/dri/renderD128");
	DLBUF_OPTS(dlbuf_import_opts, luma, .access = DLBUF_READ,
		   .view = DLBUF_VIEW_LUMA);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	struct dlbuf_device *cpu;
	uint32_t n;

	if (dlbuf_device_open("cpu", NULL, &cpu) ||
	    dlbuf_ffmpeg_map(av, DLBUF_READ, &frame) ||
	    dlbuf_import_frame(cpu, &frame, &luma, t, &n) ||
	    dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	av_frame_free(&av); /* the lease has a reference */
	printf("%ux%u: %.1f\n", frame.width, frame.height,
	       mean(&t[0]->dl_tensor));
	t[0]->deleter(t[0]); /* releases it, and the frame */
	dlbuf_device_close(cpu);
	return 0;
}
