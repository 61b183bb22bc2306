// SPDX-License-Identifier: MIT
/*
 * Tensors into an encoder: draws ten pictures into buffers of a pool, and GStreamer reads
 * them from there. Nothing is copied before the encoder, and a buffer is drawn into again
 * when GStreamer is done with it.
 *
 *	cc encode.c $(pkg-config --cflags --libs dlbuf gstreamer-app-1.0 gstreamer-video-1.0 gstreamer-allocators-1.0) -pthread
 *	./a.out 'appsrc name=src ! jpegenc ! multifilesink location=%d.jpg'
 */
#include <err.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

#include <gst/app/gstappsrc.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/gstreamer.h>

#define BUFFERS 3
#define FRAMES 10

struct buffer {
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	sem_t is_free;
	/* The frame's own release, which drops the shares of the tensors. */
	void (*release)(void *data);
	void *data;
};

static void on_free(void *data)
{
	struct buffer *b = data;

	b->release(b->data);
	sem_post(&b->is_free);
}

/* A grey ramp that moves. */
static void draw(struct buffer *b, int number)
{
	const DLTensor *y = &b->t[0]->dl_tensor, *uv = &b->t[1]->dl_tensor;

	if (dlbuf_acquire(b->t[0], DLBUF_WRITE, NULL, NULL) ||
	    dlbuf_acquire(b->t[1], DLBUF_WRITE, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	for (int64_t i = 0; i < y->shape[0]; i++)
		for (int64_t j = 0; j < y->shape[1]; j++)
			((uint8_t *)y->data)[i * y->strides[0] + j] =
				(uint8_t)(i + j / 4 + 10 * number);
	for (int64_t i = 0; i < uv->shape[0]; i++)
		memset((uint8_t *)uv->data + i * uv->strides[0], 128, 2 * uv->shape[1]);
	if (dlbuf_release(b->t[0], NULL, NULL) || dlbuf_release(b->t[1], NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
}

/* Blocks while GStreamer has the buffer. A pipeline that has failed never returns it. */
static void wait_for(struct buffer *b, GstBus *bus)
{
	struct timespec limit;
	GstMessage *failed;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &limit);
		limit.tv_sec++;
		if (!sem_timedwait(&b->is_free, &limit))
			return;
		failed = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
		if (failed)
			errx(1, "the pipeline has failed in %s",
			     GST_MESSAGE_SRC_NAME(failed));
	}
}

static void push(GstAppSrc *src, GstBus *bus, struct buffer *b, int number)
{
	DLBUF_INFO(dlbuf_frame, frame);
	GstBuffer *buffer;
	GstCaps *caps;

	wait_for(b, bus);
	draw(b, number);
	frame.code = DLBUF_FOURCC('N', 'V', '1', '2');
	frame.code_space = DLBUF_CODE_DRM;
	frame.clock = DLBUF_CLOCK_STREAM;
	frame.timestamp_ns = number * 40000000ll;
	if (dlbuf_frame_from_tensors(b->t, 2, 0, &frame))
		errx(1, "%s", dlbuf_last_error());
	b->release = frame.release;
	b->data = frame.release_data;
	frame.release = on_free;
	frame.release_data = b;
	if (dlbuf_gstreamer_frame_caps(&frame, 25, 1, 0, &caps) ||
	    dlbuf_gstreamer_buffer(&frame, &buffer))
		errx(1, "%s", dlbuf_last_error());
	gst_app_src_set_caps(src, caps);
	gst_caps_unref(caps);
	gst_app_src_push_buffer(src, buffer);
}

int main(int argc, char **argv)
{
	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = 642, .height = 362,
		   .code = DLBUF_FOURCC('N', 'V', '1', '2'), .code_space = DLBUF_CODE_DRM,
		   .buffers = BUFFERS);
	const char *text = argc > 1 ? argv[1] :
		"appsrc name=src ! jpegenc ! multifilesink location=%d.jpg";
	struct buffer buffers[BUFFERS];
	struct dlbuf_device *cpu;
	struct dlbuf_pool *pool;
	GstElement *pipeline, *src;
	GstMessage *end;
	GstBus *bus;
	uint32_t n;
	int ret;

	gst_init(&argc, &argv);
	pipeline = gst_parse_launch(text, NULL);
	src = pipeline && GST_IS_BIN(pipeline) ? gst_bin_get_by_name(GST_BIN(pipeline), "src") : NULL;
	if (!src)
		errx(1, "no pipeline with an appsrc called src");
	if (dlbuf_device_open("cpu", NULL, &cpu) || dlbuf_pool_create(&cpu, 1, &opts, &pool))
		errx(1, "%s", dlbuf_last_error());
	for (uint32_t i = 0; i < BUFFERS; i++) {
		DLBUF_INFO(dlbuf_frame, frame);

		sem_init(&buffers[i].is_free, 0, 1);
		if (dlbuf_pool_frame(pool, i, &frame) ||
		    dlbuf_import_frame(cpu, &frame, NULL, buffers[i].t, &n))
			errx(1, "%s", dlbuf_last_error());
	}
	g_object_set(src, "format", GST_FORMAT_TIME, NULL);
	bus = gst_element_get_bus(pipeline);
	gst_element_set_state(pipeline, GST_STATE_PLAYING);
	for (int i = 0; i < FRAMES; i++)
		push(GST_APP_SRC(src), bus, &buffers[i % BUFFERS], i);
	gst_app_src_end_of_stream(GST_APP_SRC(src));
	end = gst_bus_timed_pop_filtered(bus, GST_CLOCK_TIME_NONE,
					 GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
	ret = GST_MESSAGE_TYPE(end) != GST_MESSAGE_EOS;
	printf("%d pictures%s\n", FRAMES, ret ? ", and the pipeline has failed" : "");
	gst_message_unref(end);
	gst_object_unref(bus);
	gst_element_set_state(pipeline, GST_STATE_NULL);
	gst_object_unref(src);
	gst_object_unref(pipeline);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		buffers[i].t[0]->deleter(buffers[i].t[0]);
		buffers[i].t[1]->deleter(buffers[i].t[1]);
		sem_destroy(&buffers[i].is_free);
	}
	dlbuf_pool_destroy(pool);
	dlbuf_device_close(cpu);
	return ret;
}
