// SPDX-License-Identifier: MIT
/* link: libpipewire-0.3 */

#include <pipewire/pipewire.h>
#include <spa/param/video/format-utils.h>
#include <stdio.h>

struct capture {
	struct pw_main_loop *loop;
	struct pw_stream *stream;
	uint32_t type;
};

static void param_changed(void *data, uint32_t id, const struct spa_pod *format)
{
	struct capture *c = data;
	uint8_t space[256];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *buffers;

	if (id != SPA_PARAM_Format || !format)
		return;
	buffers = spa_pod_builder_add_object(&b, SPA_TYPE_OBJECT_ParamBuffers, SPA_PARAM_Buffers,
		SPA_PARAM_BUFFERS_dataType, SPA_POD_CHOICE_FLAGS_Int(1 << SPA_DATA_DmaBuf));
	pw_stream_update_params(c->stream, &buffers, 1);
}

static void process(void *data)
{
	struct capture *c = data;
	struct pw_buffer *b = pw_stream_dequeue_buffer(c->stream);

	if (!b)
		return;
	c->type = b->buffer->datas[0].type;
	printf("%u bytes, stride %d\n", b->buffer->datas[0].chunk->size,
	       b->buffer->datas[0].chunk->stride);
	pw_stream_queue_buffer(c->stream, b);
	pw_main_loop_quit(c->loop);
}

static const struct pw_stream_events events = {
	PW_VERSION_STREAM_EVENTS,
	.param_changed = param_changed,
	.process = process,
};

int main(int argc, char **argv)
{
	struct capture c = {0};
	uint8_t space[512];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *format;

	pw_init(&argc, &argv);
	c.loop = pw_main_loop_new(NULL);
	c.stream = pw_stream_new_simple(pw_main_loop_get_loop(c.loop), "capture",
		pw_properties_new(PW_KEY_MEDIA_TYPE, "Video", NULL), &events, &c);
	format = spa_pod_builder_add_object(&b, SPA_TYPE_OBJECT_Format, SPA_PARAM_EnumFormat,
		SPA_FORMAT_mediaType, SPA_POD_Id(SPA_MEDIA_TYPE_video),
		SPA_FORMAT_mediaSubtype, SPA_POD_Id(SPA_MEDIA_SUBTYPE_raw),
		SPA_FORMAT_VIDEO_format, SPA_POD_Id(SPA_VIDEO_FORMAT_NV12),
		SPA_FORMAT_VIDEO_size, SPA_POD_Rectangle(&SPA_RECTANGLE(640, 360)));
	if (pw_stream_connect(c.stream, PW_DIRECTION_INPUT, PW_ID_ANY, 0, &format, 1) < 0) {
		perror("pw_stream_connect");
		return 1;
	}
	pw_main_loop_run(c.loop);
	pw_stream_destroy(c.stream);
	pw_main_loop_destroy(c.loop);
	pw_deinit();
	return c.type != SPA_DATA_DmaBuf;
}
