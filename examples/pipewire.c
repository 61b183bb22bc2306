// SPDX-License-Identifier: MIT
/*
 * A PipeWire camera's frames as tensors: prints how bright ten of them are.
 * Nothing is copied, and each buffer is queued again when its tensor is deleted.
 *
 *	cc pipewire.c $(pkg-config --cflags --libs dlbuf libpipewire-0.3 libdrm)
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>

#include <pipewire/pipewire.h>
#include <spa/param/video/format-utils.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/pipewire.h>

struct camera {
	struct pw_main_loop *loop;
	struct pw_stream *stream;
	struct dlbuf_pipewire *pw;
	struct spa_video_info_raw info;
	struct dlbuf_device *cpu;
	int frames;
};

static double mean(const DLTensor *t)
{
	uint64_t sum = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		for (int64_t x = 0; x < t->shape[1]; x++)
			sum += ((uint8_t *)t->data)[y * t->strides[0] +
						    x * t->strides[1]];
	return (double)sum / (t->shape[0] * t->shape[1]);
}

static void on_process(void *data)
{
	DLBUF_OPTS(dlbuf_import_opts, luma, .view = DLBUF_VIEW_LUMA);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct camera *c = data;
	struct pw_buffer *b = pw_stream_dequeue_buffer(c->stream);
	struct dlbuf_frame frame;
	uint32_t n;

	if (!b)
		return;
	if (dlbuf_pipewire_frame(c->pw, b, &c->info, &frame))
		errx(1, "%s", dlbuf_last_error());
	if (dlbuf_import_frame(c->cpu, &frame, &luma, t, &n) ||
	    dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	printf("frame %" PRIu64 ": %.1f\n", frame.sequence,
	       mean(&t[0]->dl_tensor));
	t[0]->deleter(t[0]); /* releases it, too */
	if (++c->frames == 10)
		pw_main_loop_quit(c->loop);
}

static void on_param(void *data, uint32_t id, const struct spa_pod *param)
{
	struct camera *c = data;
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *params[6];
	uint32_t n = 6;

	if (id != SPA_PARAM_Format || !param)
		return;
	spa_format_video_raw_parse(param, &c->info);
	if (dlbuf_pipewire_buffer_params(c->pw, &b, params, &n))
		errx(1, "%s", dlbuf_last_error());
	pw_stream_update_params(c->stream, params, n);
}

static void on_remove_buffer(void *data, struct pw_buffer *buffer)
{
	dlbuf_pipewire_remove_buffer(((struct camera *)data)->pw, buffer);
}

static const struct pw_stream_events events = {
	.version = PW_VERSION_STREAM_EVENTS,
	.process = on_process,
	.param_changed = on_param,
	.remove_buffer = on_remove_buffer,
};

int main(int argc, char **argv)
{
	struct camera c = { .frames = 0 };
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *yuy2 = spa_pod_builder_add_object(&b,
		SPA_TYPE_OBJECT_Format, SPA_PARAM_EnumFormat,
		SPA_FORMAT_mediaType, SPA_POD_Id(SPA_MEDIA_TYPE_video),
		SPA_FORMAT_mediaSubtype, SPA_POD_Id(SPA_MEDIA_SUBTYPE_raw),
		SPA_FORMAT_VIDEO_format, SPA_POD_Id(SPA_VIDEO_FORMAT_YUY2));

	pw_init(&argc, &argv);
	c.loop = pw_main_loop_new(NULL);
	c.stream = pw_stream_new_simple(pw_main_loop_get_loop(c.loop),
		"dlbuf-example", pw_properties_new(PW_KEY_MEDIA_TYPE, "Video",
			PW_KEY_MEDIA_CATEGORY, "Capture", PW_KEY_MEDIA_ROLE,
			"Camera", NULL), &events, &c);
	if (!c.stream || dlbuf_device_open("cpu", NULL, &c.cpu) ||
	    dlbuf_pipewire_open(c.stream, pw_main_loop_get_loop(c.loop), -1,
				&c.pw) ||
	    pw_stream_connect(c.stream, PW_DIRECTION_INPUT, PW_ID_ANY,
			      PW_STREAM_FLAG_AUTOCONNECT, &yuy2, 1))
		errx(1, "no PipeWire");
	pw_main_loop_run(c.loop);
	pw_stream_destroy(c.stream);
	dlbuf_pipewire_close(c.pw);
	dlbuf_device_close(c.cpu);
	pw_main_loop_destroy(c.loop);
	pw_deinit();
	return 0;
}
