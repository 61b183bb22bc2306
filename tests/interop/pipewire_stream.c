// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/pipewire.h in streams (tests/interop/session). A daemon's camera: every
 * byte against the dma-buf's own mapping, leases that fire on other threads and too
 * late. The way back: a source of ours into sinks of ours, one of which is killed.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <spa/param/buffers.h>
#include <spa/param/video/format-utils.h>

#include "interop/pipewire.h"

/* ---- a daemon's camera */

#define HELD 2

enum what { SAME_THREAD, OTHER_THREAD, KEEP };

struct held {
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;
};

struct client {
	struct pw_main_loop *loop;
	struct pw_stream *stream;
	struct spa_source *timer;
	struct dlbuf_pipewire *pw;
	struct dlbuf_device *dev;
	struct spa_video_info_raw info;
	enum what what;
	unsigned int frames, want, added;
	uint64_t sequence;
	bool late, mappable;
	struct held held[HELD];
	pthread_t thread;
	bool joinable;
	struct held job;
};

static void delete(struct held *h)
{
	delete_tensors(h->t, h->n);
	h->n = 0;
}

static void *delete_there(void *data)
{
	delete(data);
	return NULL;
}

static void join(struct client *c)
{
	if (c->joinable)
		CHECK_EQ(pthread_join(c->thread, NULL), 0);
	c->joinable = false;
}

/* Against a mapping of the dma-buf that dlbuf has nothing to do with. */
static void compare(const struct held *h, const struct spa_data *d)
{
	size_t bytes = d->mapoffset + d->maxsize;
	uint8_t *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, (int)d->fd, 0);
	const uint8_t *at = map + d->mapoffset + d->chunk->offset % d->maxsize;

	if (!CHECK(map != MAP_FAILED))
		return;
	for (uint32_t i = 0; i < h->n; i++) {
		CHECK_OK(dlbuf_acquire(h->t[i], DLBUF_READ, NULL, NULL));
		check_rows(&h->t[i]->dl_tensor, at, d->chunk->stride);
		at += h->t[i]->dl_tensor.shape[0] * d->chunk->stride;
		CHECK_OK(dlbuf_release(h->t[i], NULL, NULL));
	}
	munmap(map, bytes);
}

static void on_process(void *data)
{
	struct client *c = data;
	struct pw_buffer *b = pw_stream_dequeue_buffer(c->stream);
	struct held h = { .n = 0 };
	struct dlbuf_frame f;
	int ret;

	if (!b)
		return;
	if (c->frames == c->want) {
		/* Not one of those that are counted. */
		pw_stream_queue_buffer(c->stream, b);
		pw_main_loop_quit(c->loop);
		return;
	}
	ret = dlbuf_pipewire_frame(c->pw, b, &c->info, &f);
	if (!CHECK_EQ(ret, 0))
		goto quit;
	CHECK(f.flags & DLBUF_FRAME_SEQUENCE);
	CHECK(!c->frames || f.sequence > c->sequence);
	c->sequence = f.sequence;
	c->mappable = f.modifier == DLBUF_MOD_LINEAR;
	f.modifier = DLBUF_MOD_LINEAR;
	if (!CHECK_OK(dlbuf_import_frame(c->dev, &f, NULL, h.t, &h.n))) {
		f.release(f.release_data);
		goto quit;
	}
	compare(&h, &b->buffer->datas[0]);
	if (c->what == SAME_THREAD) {
		delete(&h);
	} else if (c->what == KEEP) {
		c->held[c->frames] = h;
	} else {
		join(c);
		c->job = h;
		c->joinable = !pthread_create(&c->thread, NULL, delete_there,
					      &c->job);
		CHECK(c->joinable);
	}
	if (++c->frames < c->want || c->what == OTHER_THREAD)
		return;
quit:
	pw_main_loop_quit(c->loop);
}

static void on_param(void *data, uint32_t id, const struct spa_pod *param)
{
	struct client *c = data;
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *params[6];
	uint32_t n = 6;

	if (id != SPA_PARAM_Format || !param)
		return;
	spa_format_video_raw_parse(param, &c->info);
	CHECK_OK(dlbuf_pipewire_buffer_params(c->pw, &b, params, &n));
	pw_stream_update_params(c->stream, params, n);
}

static void on_add(void *data, struct pw_buffer *buffer)
{
	((struct client *)data)->added++;
}

static void on_remove(void *data, struct pw_buffer *buffer)
{
	dlbuf_pipewire_remove_buffer(((struct client *)data)->pw, buffer);
}

static void on_late(void *data, uint64_t expirations)
{
	struct client *c = data;

	c->late = true;
	pw_main_loop_quit(c->loop);
}

static const struct pw_stream_events events = {
	.version = PW_VERSION_STREAM_EVENTS,
	.param_changed = on_param,
	.add_buffer = on_add,
	.remove_buffer = on_remove,
	.process = on_process,
};

static void start(struct client *c, enum spa_video_format format,
		  enum what what, unsigned int want)
{
	struct timespec limit = { .tv_sec = 300 };
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *param;

	if (!getenv("DLBUF_SESSION"))
		SKIP("there is no PipeWire with a camera (tests/interop/session)");
	init();
	queued = 0;
	*c = (struct client){ .what = what, .want = want };
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &c->dev));
	c->loop = pw_main_loop_new(NULL);
	REQUIRE(c->loop);
	c->stream = pw_stream_new_simple(pw_main_loop_get_loop(c->loop),
		"dlbuf-test", pw_properties_new(PW_KEY_MEDIA_TYPE, "Video",
			PW_KEY_MEDIA_CATEGORY, "Capture", NULL), &events, c);
	REQUIRE(c->stream);
	REQUIRE(!dlbuf_pipewire_open(c->stream, pw_main_loop_get_loop(c->loop),
				     -1, &c->pw));
	c->timer = pw_loop_add_timer(pw_main_loop_get_loop(c->loop), on_late, c);
	pw_loop_update_timer(pw_main_loop_get_loop(c->loop), c->timer, &limit,
			     NULL, false);
	param = spa_pod_builder_add_object(&b,
		SPA_TYPE_OBJECT_Format, SPA_PARAM_EnumFormat,
		SPA_FORMAT_mediaType, SPA_POD_Id(SPA_MEDIA_TYPE_video),
		SPA_FORMAT_mediaSubtype, SPA_POD_Id(SPA_MEDIA_SUBTYPE_raw),
		SPA_FORMAT_VIDEO_format, SPA_POD_Id(format));
	REQUIRE(!pw_stream_connect(c->stream, PW_DIRECTION_INPUT, PW_ID_ANY,
				   PW_STREAM_FLAG_AUTOCONNECT, &param, 1));
	pw_main_loop_run(c->loop);
	CHECK(!c->late);
	CHECK_EQ(c->frames, want);
}

static void stop(struct client *c)
{
	join(c);
	if (c->stream)
		pw_stream_destroy(c->stream);
	c->stream = NULL;
	dlbuf_pipewire_close(c->pw);
	c->pw = NULL;
	dlbuf_device_close(c->dev);
	pw_main_loop_destroy(c->loop);
	pw_deinit();
}

static void camera(enum spa_video_format format)
{
	struct client c;

	start(&c, format, SAME_THREAD, 10);
	/* More than it has buffers: they did come back. */
	CHECK(c.added > 0 && c.added < 10);
	CHECK(queued >= 9);
	CHECK_EQ(queued_on, thread());
	ktap_note(NULL, 0, "%u buffers, %ux%u, %smappable", c.added,
		  c.info.size.width, c.info.size.height,
		  c.mappable ? "" : "not said to be ");
	stop(&c);
}

TEST(camera_frames)
{
	camera(SPA_VIDEO_FORMAT_YUY2);
	camera(SPA_VIDEO_FORMAT_NV12);
}

/* The lease fires elsewhere, the loop queues. */
TEST(other_thread)
{
	struct client c;

	start(&c, SPA_VIDEO_FORMAT_NV12, OTHER_THREAD, 10);
	join(&c);
	pw_loop_enter(pw_main_loop_get_loop(c.loop));
	while (queued < 10)
		pw_loop_iterate(pw_main_loop_get_loop(c.loop), 100);
	pw_loop_leave(pw_main_loop_get_loop(c.loop));
	CHECK_EQ(queued, 10);
	CHECK_EQ(queued_on, thread());
	stop(&c);
}

static void iterate(struct pw_main_loop *loop)
{
	pw_loop_enter(pw_main_loop_get_loop(loop));
	pw_loop_iterate(pw_main_loop_get_loop(loop), 0);
	pw_loop_leave(pw_main_loop_get_loop(loop));
}

/* Leases that fire after the stream, and after everything. */
TEST(too_late)
{
	struct client c;

	start(&c, SPA_VIDEO_FORMAT_NV12, KEEP, HELD);
	CHECK_EQ(queued, 0);
	pw_stream_destroy(c.stream);
	c.stream = NULL;
	delete(&c.held[0]);
	iterate(c.loop);
	CHECK_EQ(queued, 0);
	dlbuf_pipewire_close(c.pw);
	c.pw = NULL;
	pw_main_loop_destroy(c.loop);
	for (uint32_t i = 0; i < c.held[1].n; i++) {
		volatile uint8_t *p = c.held[1].t[i]->dl_tensor.data;

		CHECK_MSG(p[0] || p[2] || p[100], "plane %u", i);
	}
	delete(&c.held[1]);
	CHECK_EQ(queued, 0);
	dlbuf_device_close(c.dev);
	pw_deinit();
}

/* Removed between the lease and the loop. */
TEST(removed_on_the_way)
{
	struct pw_main_loop *loop;
	struct dlbuf_pipewire *pw = NULL;
	struct dlbuf_frame f[2];
	struct made m[2];

	init();
	queued = 0;
	loop = pw_main_loop_new(NULL);
	REQUIRE(loop);
	REQUIRE(!dlbuf_pipewire_open(NULL, pw_main_loop_get_loop(loop), -1,
				     &pw));
	/* Any stream: nothing here is given to it. */
	pw->stream = (struct pw_stream *)1;
	for (int i = 0; i < 2; i++) {
		make(&m[i], SPA_VIDEO_FORMAT_RGBx, 1);
		REQUIRE(!dlbuf_pipewire_frame(pw, &m[i].pw, &m[i].info, &f[i]));
	}
	f[0].release(f[0].release_data);
	f[1].release(f[1].release_data);
	dlbuf_pipewire_remove_buffer(pw, &m[0].pw);
	dlbuf_pipewire_remove_buffer(pw, &m[1].pw);
	iterate(loop);
	CHECK_EQ(queued, 0);
	CHECK(!pw->back && !pw->out);
	CHECK_EQ(pw->refs, 1);
	/* Removed before the lease fires. */
	REQUIRE(!dlbuf_pipewire_frame(pw, &m[0].pw, &m[0].info, &f[0]));
	dlbuf_pipewire_remove_buffer(pw, &m[0].pw);
	f[0].release(f[0].release_data);
	iterate(loop);
	CHECK_EQ(queued, 0);
	/* One that is on its way when all ends. */
	REQUIRE(!dlbuf_pipewire_frame(pw, &m[0].pw, &m[0].info, &f[0]));
	f[0].release(f[0].release_data);
	dlbuf_pipewire_close(pw);
	CHECK_EQ(queued, 0);
	pw_main_loop_destroy(loop);
	pw_deinit();
}

/* ---- the way back: a source of ours into a sink of ours */

#define OUR_W 318
#define OUR_H 182
#define OUR_PITCH 384
#define OUR_BYTES (OUR_PITCH * (OUR_H + OUR_H / 2))
#define OUR_BUFFERS 4
#define OUR_FRAMES 12

/* Another size that the source has. */
#define LESS_W 98
#define LESS_H 66

static struct source {
	struct pw_stream *stream;
	struct dlbuf_device *dev;
	struct spa_source *timer;
	struct spa_video_info_raw info;
	unsigned int nbuffers, removed, number, dropped;
	struct ours {
		struct dlbuf_udmabuf buf;
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		struct dlbuf_frame frame;	/* that the sink may have */
	} buffers[16];
} source;

static uint8_t shade(int64_t x, int64_t y, uint32_t plane, uint64_t number)
{
	return (uint8_t)(x + 3 * y + 90 * plane + 7 * number);
}

/* Every third frame has none. */
static struct dlbuf_rect our_crop(uint64_t number)
{
	return number % 3 ? (struct dlbuf_rect){ 2 * number % 30, 4, 60, 50 } :
			    (struct dlbuf_rect){ 0, 0, 0, 0 };
}

static struct dlbuf_frame our_frame(int fd, struct spa_rectangle size)
{
	struct dlbuf_frame f = PICTURE(size.width, size.height, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_DRM, 2, .fence = -1,
		.planes = { { .fd = fd, .pitch = OUR_PITCH },
			    { .fd = fd, .offset = OUR_PITCH * size.height,
			      .pitch = OUR_PITCH } });

	return f;
}

static void on_our_param(void *data, uint32_t id, const struct spa_pod *param)
{
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct {
		uint32_t type, size;
	} metas[] = {
		{ SPA_META_Header, sizeof(struct spa_meta_header) },
		{ SPA_META_VideoCrop, sizeof(struct spa_meta_region) },
		{ SPA_META_VideoTransform, sizeof(struct spa_meta_videotransform) },
	};
	const struct spa_pod *params[4];

	if (id != SPA_PARAM_Format || !param)
		return;
	spa_format_video_raw_parse(param, &source.info);
	params[0] = spa_pod_builder_add_object(&b, SPA_TYPE_OBJECT_ParamBuffers,
		SPA_PARAM_Buffers, SPA_PARAM_BUFFERS_buffers, SPA_POD_Int(OUR_BUFFERS),
		SPA_PARAM_BUFFERS_blocks, SPA_POD_Int(1),
		SPA_PARAM_BUFFERS_size, SPA_POD_Int(OUR_BYTES),
		SPA_PARAM_BUFFERS_stride, SPA_POD_Int(OUR_PITCH),
		SPA_PARAM_BUFFERS_dataType, SPA_POD_CHOICE_FLAGS_Int(1 << SPA_DATA_DmaBuf));
	for (int i = 0; i < 3; i++)
		params[1 + i] = spa_pod_builder_add_object(&b, SPA_TYPE_OBJECT_ParamMeta,
			SPA_PARAM_Meta, SPA_PARAM_META_type, SPA_POD_Id(metas[i].type),
			SPA_PARAM_META_size, SPA_POD_Int(metas[i].size));
	pw_stream_update_params(source.stream, params, 4);
}

static void on_our_add(void *data, struct pw_buffer *buffer)
{
	struct ours *o = &source.buffers[source.nbuffers++];
	struct dlbuf_frame f;
	uint32_t n;

	REQUIRE(source.nbuffers <= 16);
	REQUIRE_OK(dlbuf_udmabuf_create(OUR_BYTES, NULL, &o->buf));
	f = our_frame(o->buf.fd, source.info.size);
	REQUIRE_OK(dlbuf_import_frame(source.dev, &f, NULL, o->t, &n));
	CHECK_OK(dlbuf_pipewire_add_buffer(&f, buffer));
	buffer->user_data = o;
}

static void on_our_remove(void *data, struct pw_buffer *buffer)
{
	struct ours *o = buffer->user_data;

	source.removed++;
	source.dropped += !!o->frame.release;
	dlbuf_frame_drop(&o->frame);
	delete_tensors(o->t, 2);
	dlbuf_udmabuf_close(&o->buf);
}

static void on_our_process(void *data)
{
	struct pw_buffer *b = pw_stream_dequeue_buffer(source.stream);
	struct ours *o;

	if (!b)
		return;
	/* The sink has finished with its contents. */
	o = b->user_data;
	source.dropped += !!o->frame.release;
	dlbuf_frame_drop(&o->frame);
	for (uint32_t p = 0; p < 2; p++) {
		const DLTensor *l = &o->t[p]->dl_tensor;

		CHECK_OK(dlbuf_acquire(o->t[p], DLBUF_WRITE, NULL, NULL));
		for (int64_t y = 0; y < l->shape[0]; y++)
			for (int64_t x = 0; x < source.info.size.width; x++)
				((uint8_t *)l->data)[y * OUR_PITCH + x] =
					shade(x, y, p, source.number);
		CHECK_OK(dlbuf_release(o->t[p], NULL, NULL));
	}
	o->frame = (struct dlbuf_frame){ .size = sizeof(o->frame),
		.code = DLBUF_FOURCC('N', 'V', '1', '2'), .code_space = DLBUF_CODE_DRM,
		.sequence = source.number++, .flags = DLBUF_FRAME_SEQUENCE };
	CHECK_OK(dlbuf_frame_from_tensors(o->t, 2, 0, &o->frame));
	/* The sink's picture of a window on a turned screen. */
	o->frame.crop = our_crop(o->frame.sequence);
	o->frame.orientation = o->frame.sequence % 8;
	CHECK_OK(dlbuf_pipewire_put(&o->frame, b));
	pw_stream_queue_buffer(source.stream, b);
}

static void on_our_time(void *data, uint64_t expirations)
{
	pw_stream_trigger_process(source.stream);
}

static const struct pw_stream_events our_events = {
	.version = PW_VERSION_STREAM_EVENTS,
	.param_changed = on_our_param,
	.add_buffer = on_our_add,
	.remove_buffer = on_our_remove,
	.process = on_our_process,
};

/* A format of this size, or of any size that the source has. */
static const struct spa_pod *our_format(struct spa_pod_builder *b, struct spa_rectangle size)
{
	struct spa_rectangle all[] = { { OUR_W, OUR_H }, { OUR_W, OUR_H }, { LESS_W, LESS_H } };
	struct spa_pod_frame object, choice;

	spa_pod_builder_push_object(b, &object, SPA_TYPE_OBJECT_Format, SPA_PARAM_EnumFormat);
	spa_pod_builder_add(b,
		SPA_FORMAT_mediaType, SPA_POD_Id(SPA_MEDIA_TYPE_video),
		SPA_FORMAT_mediaSubtype, SPA_POD_Id(SPA_MEDIA_SUBTYPE_raw),
		SPA_FORMAT_VIDEO_format, SPA_POD_Id(SPA_VIDEO_FORMAT_NV12),
		SPA_FORMAT_VIDEO_framerate, SPA_POD_Fraction(&SPA_FRACTION(25, 1)), 0);
	spa_pod_builder_prop(b, SPA_FORMAT_VIDEO_size, 0);
	if (!size.width)
		spa_pod_builder_push_choice(b, &choice, SPA_CHOICE_Enum, 0);
	for (int i = 0; i < (size.width ? 1 : 3); i++)
		spa_pod_builder_rectangle(b, size.width ? size.width : all[i].width,
					  size.width ? size.height : all[i].height);
	if (!size.width)
		spa_pod_builder_pop(b, &choice);
	return spa_pod_builder_pop(b, &object);
}

/* The source, which plays as soon as it is linked. */
static void start_source(struct pw_loop *loop, struct dlbuf_device *dev)
{
	struct timespec period = { .tv_nsec = 40000000 };
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *param = our_format(&b, SPA_RECTANGLE(0, 0));

	source = (struct source){ .dev = dev };
	source.stream = pw_stream_new_simple(loop, "dlbuf-source",
		pw_properties_new(PW_KEY_MEDIA_CLASS, "Video/Source", NULL), &our_events, NULL);
	REQUIRE(source.stream);
	source.timer = pw_loop_add_timer(loop, on_our_time, NULL);
	pw_loop_update_timer(loop, source.timer, &period, &period, false);
	REQUIRE(!pw_stream_connect(source.stream, PW_DIRECTION_OUTPUT, PW_ID_ANY,
				   PW_STREAM_FLAG_DRIVER | PW_STREAM_FLAG_ALLOC_BUFFERS,
				   &param, 1));
}

static void stop_source(struct pw_loop *loop)
{
	pw_loop_destroy_source(loop, source.timer);
	pw_stream_destroy(source.stream);
	/* Each frame came back once, in its turn or at the end. */
	CHECK_EQ(source.dropped, source.number);
	CHECK_EQ(source.removed, source.nbuffers);
}

/* The parent of a sink of its own process reads a byte here for each frame. */
#define TOLD 3

static void on_sink_process(void *data)
{
	struct client *c = data;
	struct pw_buffer *b = pw_stream_dequeue_buffer(c->stream);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	unsigned int wrong = 0;
	struct dlbuf_frame f;
	struct dlbuf_rect crop;
	uint32_t n;

	if (!b)
		return;
	if (!CHECK_OK(dlbuf_pipewire_frame(c->pw, b, &c->info, &f)))
		goto quit;
	CHECK_EQ(f.planes[1].offset, OUR_PITCH * c->info.size.height);
	CHECK(!c->frames || f.sequence > c->sequence);
	c->sequence = f.sequence;
	crop = our_crop(f.sequence);
	CHECK(!memcmp(&f.crop, &crop, sizeof(crop)));
	CHECK_EQ(f.orientation, f.sequence % 8);
	f.crop = (struct dlbuf_rect){ 0, 0, 0, 0 };
	if (!CHECK_OK(dlbuf_import_frame(c->dev, &f, NULL, t, &n))) {
		dlbuf_frame_drop(&f);
		goto quit;
	}
	for (uint32_t p = 0; p < n; p++) {
		const DLTensor *l = &t[p]->dl_tensor;

		CHECK_OK(dlbuf_acquire(t[p], DLBUF_READ, NULL, NULL));
		for (int64_t y = 0; y < l->shape[0]; y++)
			for (int64_t x = 0; x < c->info.size.width; x++)
				wrong += ((uint8_t *)l->data)[y * OUR_PITCH + x] !=
					 shade(x, y, p, f.sequence);
		CHECK_OK(dlbuf_release(t[p], NULL, NULL));
	}
	CHECK_EQ(wrong, 0);
	/* In a process of its own it has one frame when it is killed. */
	if (getenv("DLBUF_SINK") && !c->frames) {
		c->held[0].n = n;
		memcpy(c->held[0].t, t, sizeof(t));
	} else {
		delete_tensors(t, n);
	}
	c->frames++;
	if (getenv("DLBUF_SINK"))
		CHECK_EQ(write(TOLD, "f", 1), 1);
	if (c->frames < c->want)
		return;
quit:
	pw_main_loop_quit(c->loop);
}

static void start_sink(struct client *c, struct spa_rectangle size)
{
	static const struct pw_stream_events sink_events = {
		.version = PW_VERSION_STREAM_EVENTS,
		.param_changed = on_param,
		.add_buffer = on_add,
		.remove_buffer = on_remove,
		.process = on_sink_process,
	};
	struct pw_loop *loop = pw_main_loop_get_loop(c->loop);
	uint8_t space[1024];
	struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
	const struct spa_pod *param = our_format(&b, size);
	int drm = timeline_node();

	c->stream = pw_stream_new_simple(loop, "dlbuf-sink",
		pw_properties_new(PW_KEY_MEDIA_TYPE, "Video", PW_KEY_MEDIA_CATEGORY, "Capture",
				  NULL), &sink_events, c);
	REQUIRE(c->stream);
	/* It asks for timelines, too, but the source has none. */
	REQUIRE(!dlbuf_pipewire_open(c->stream, loop, drm, &c->pw));
	close(drm);
	REQUIRE(!pw_stream_connect(c->stream, PW_DIRECTION_INPUT, PW_ID_ANY,
				   PW_STREAM_FLAG_AUTOCONNECT, &param, 1));
}

static void start_loop(struct client *c, unsigned int want)
{
	struct timespec limit = { .tv_sec = 300 };

	if (!getenv("DLBUF_SESSION"))
		SKIP("there is no PipeWire (tests/interop/session)");
	init();
	*c = (struct client){ .want = want };
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &c->dev));
	c->loop = pw_main_loop_new(NULL);
	REQUIRE(c->loop);
	c->timer = pw_loop_add_timer(pw_main_loop_get_loop(c->loop), on_late, c);
	pw_loop_update_timer(pw_main_loop_get_loop(c->loop), c->timer, &limit, NULL, false);
}

/* Tensors through PipeWire's daemon, each byte; and tensors that are still out at the end. */
TEST(source_to_sink)
{
	struct client c;

	start_loop(&c, OUR_FRAMES);
	start_source(pw_main_loop_get_loop(c.loop), c.dev);
	start_sink(&c, SPA_RECTANGLE(OUR_W, OUR_H));
	pw_main_loop_run(c.loop);
	CHECK(!c.late);
	CHECK_EQ(c.frames, OUR_FRAMES);
	CHECK(source.nbuffers > 0 && source.nbuffers < OUR_FRAMES);
	pw_stream_destroy(c.stream);
	c.stream = NULL;
	stop_source(pw_main_loop_get_loop(c.loop));
	stop(&c);
}

/* The program that the case below runs in another process, with a size in $DLBUF_SINK. */
static void sink(void *arg)
{
	struct spa_rectangle size;
	struct client c;

	REQUIRE(sscanf(getenv("DLBUF_SINK"), "%ux%u", &size.width, &size.height) == 2);
	start_loop(&c, OUR_FRAMES);
	start_sink(&c, size);
	pw_main_loop_run(c.loop);
	CHECK_EQ(c.info.size.width, size.width);
	CHECK_EQ(c.frames, OUR_FRAMES);
	delete(&c.held[0]);
	stop(&c);
}

static pid_t run_sink(const char *size, int told)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setenv("DLBUF_SINK", size, 1);
	/* Its output is no part of this program's KTAP. */
	dup2(2, 1);
	dup2(told, TOLD);
	execl("/proc/self/exe", "pipewire", "sink", NULL);
	_exit(127);
}

static void on_told(void *data, int fd, uint32_t mask)
{
	struct client *c = data;
	char frames[16];
	ssize_t n = read(fd, frames, sizeof(frames));

	if (n > 0)
		c->frames += n;
	if (n <= 0 || c->frames >= c->want)
		pw_main_loop_quit(c->loop);
}

static void on_removed(void *data, uint64_t expirations)
{
	if (source.removed == source.nbuffers)
		pw_main_loop_quit(((struct client *)data)->loop);
}

/* A sink is killed while it has frames, and the next one wants another size. */
TEST(sinks_come_and_go)
{
	struct timespec often = { .tv_nsec = 20000000 };
	struct spa_source *told, *removed;
	struct client c;
	int fds[2], status;
	pid_t pid;

	start_loop(&c, 5);
	REQUIRE(!pipe2(fds, O_CLOEXEC));
	start_source(pw_main_loop_get_loop(c.loop), c.dev);
	told = pw_loop_add_io(pw_main_loop_get_loop(c.loop), fds[0], SPA_IO_IN | SPA_IO_HUP,
			      false, on_told, &c);
	pid = run_sink("318x182", fds[1]);
	pw_main_loop_run(c.loop);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(c.frames, 5);
	CHECK_EQ(source.info.size.width, OUR_W);
	/* The daemon takes the buffers back from the sink that has ended. */
	removed = pw_loop_add_timer(pw_main_loop_get_loop(c.loop), on_removed, &c);
	pw_loop_update_timer(pw_main_loop_get_loop(c.loop), removed, &often, &often, false);
	pw_main_loop_run(c.loop);
	pw_loop_destroy_source(pw_main_loop_get_loop(c.loop), removed);
	CHECK_EQ(source.dropped, source.number);

	pid = run_sink("98x66", fds[1]);
	close(fds[1]);
	c.want = UINT_MAX;
	c.frames = 0;
	pw_main_loop_run(c.loop);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK(!c.late);
	CHECK_EQ(c.frames, OUR_FRAMES);
	CHECK_EQ(source.info.size.width, LESS_W);
	pw_loop_destroy_source(pw_main_loop_get_loop(c.loop), told);
	close(fds[0]);
	stop_source(pw_main_loop_get_loop(c.loop));
	stop(&c);
}

__attribute__((constructor)) static void add_sink(void)
{
	if (getenv("DLBUF_SINK"))
		ktap_case("sink", sink, NULL);
}

/* Frames that a buffer cannot have. */
TEST(put_refused)
{
	struct dlbuf_udmabuf a AUTO_UDMABUF = udmabuf_of(OUR_BYTES);
	struct dlbuf_udmabuf other AUTO_UDMABUF = udmabuf_of(OUR_BYTES);
	struct dlbuf_frame f;
	struct made m;

	make(&m, SPA_VIDEO_FORMAT_NV12, 1);
	f = our_frame(a.fd, SPA_RECTANGLE(OUR_W, OUR_H));
	m.datas[0].type = 1u << SPA_DATA_MemFd;
	CHECK_ERR(dlbuf_pipewire_add_buffer(&f, &m.pw), -EOPNOTSUPP);
	m.datas[0].type |= 1u << SPA_DATA_DmaBuf;
	CHECK_OK(dlbuf_pipewire_add_buffer(&f, &m.pw));
	CHECK_EQ(m.datas[0].maxsize, (OUR_BYTES + 4095) / 4096 * 4096);
	m.crop.region = SPA_REGION(1, 1, 1, 1);
	f.crop = (struct dlbuf_rect){ 2, 4, 20, 10 };
	f.flags = DLBUF_FRAME_DAMAGED;
	CHECK_OK(dlbuf_pipewire_put(&f, &m.pw));
	CHECK_EQ(m.chunks[0].stride, OUR_PITCH);
	CHECK_EQ(m.chunks[0].size, OUR_BYTES);
	CHECK_EQ(m.chunks[0].flags, SPA_CHUNK_FLAG_CORRUPTED);
	CHECK_EQ(m.crop.region.position.y, 4);
	f.planes[1].offset += OUR_PITCH;
	CHECK_ERR(dlbuf_pipewire_put(&f, &m.pw), -EOPNOTSUPP);
	f = our_frame(other.fd, SPA_RECTANGLE(OUR_W, OUR_H));
	CHECK_ERR_SAYS(dlbuf_pipewire_put(&f, &m.pw), -EINVAL, "another dma-buf");
	/* A block for each plane, also with several planes in one dma-buf. */
	make(&m, SPA_VIDEO_FORMAT_NV12, 2);
	m.datas[0].type = m.datas[1].type = 1u << SPA_DATA_DmaBuf;
	f.planes[1] = (struct dlbuf_plane){ .fd = a.fd, .offset = 4096, .pitch = 512 };
	CHECK_OK(dlbuf_pipewire_add_buffer(&f, &m.pw));
	CHECK_OK(dlbuf_pipewire_put(&f, &m.pw));
	CHECK_EQ(m.chunks[1].offset, 4096);
	CHECK_EQ(m.chunks[1].size, 512 * OUR_H / 2);
	CHECK_EQ(m.datas[1].flags, SPA_DATA_FLAG_READWRITE | SPA_DATA_FLAG_MAPPABLE);
	f.planes[1] = (struct dlbuf_plane){ .fd = a.fd, .offset = 512 * 90, .pitch = -512 };
	CHECK_ERR_SAYS(dlbuf_pipewire_put(&f, &m.pw), -EOPNOTSUPP, "91 rows with a pitch of -512");
	f.planes[1] = (struct dlbuf_plane){ .fd = a.fd, .pitch = 1ll << 40 };
	f.height = 2;
	CHECK_ERR_SAYS(dlbuf_pipewire_put(&f, &m.pw), -EOPNOTSUPP, "no chunk");
	f.height = OUR_H;
	f.planes[1] = (struct dlbuf_plane){ .fd = a.fd, .pitch = 512 };
	f.crop = (struct dlbuf_rect){ 2, 4, 20, 10 };
	m.metas[1].type = SPA_META_Bitmap;
	CHECK_ERR_SAYS(dlbuf_pipewire_put(&f, &m.pw), -EOPNOTSUPP, "SPA_META_VideoCrop");
	f.crop = (struct dlbuf_rect){ 0 };
	f.orientation = DLBUF_ORIENTATION_FLIP_Y;
	CHECK_OK(dlbuf_pipewire_put(&f, &m.pw));
	CHECK_EQ(m.transform.transform, SPA_META_TRANSFORMATION_Flipped180);
	m.buffer.n_metas = 2;
	CHECK_ERR_SAYS(dlbuf_pipewire_put(&f, &m.pw), -EOPNOTSUPP, "SPA_META_VideoTransform");
	f.crop = (struct dlbuf_rect){ 2, 4, 20, 10 };
	f.planes[1].offset = 4096;
	f.flags = DLBUF_FRAME_READ_ONLY;
	m.datas[0].type = m.datas[1].type = 1u << SPA_DATA_DmaBuf;
	CHECK_OK(dlbuf_pipewire_add_buffer(&f, &m.pw));
	CHECK_EQ(m.datas[1].flags, SPA_DATA_FLAG_READABLE | SPA_DATA_FLAG_MAPPABLE);
	make(&m, SPA_VIDEO_FORMAT_NV12, 3);
	CHECK_ERR(dlbuf_pipewire_add_buffer(&f, &m.pw), -EINVAL);
	CHECK_ERR(dlbuf_pipewire_put(&f, &m.pw), -EINVAL);
}
