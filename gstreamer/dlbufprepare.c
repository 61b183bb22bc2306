// SPDX-License-Identifier: MIT
/*
 * dlbufprepare: a GStreamer element that makes a model's input of each picture, by
 * dlbuf/prepare.h. docs/gstreamer.md describes it.
 *
 * Pictures in dma-bufs are read where they are; the lease of the frame is a reference to the
 * GstBuffer until then. Other memory is mapped, plane by plane. All work is done on the
 * streaming thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <time.h>

#include <gst/base/gstbasetransform.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/gstreamer.h>

#include "caps.h"
#include "options.h"
#include "pool.h"

#define PACKAGE "dlbuf"
#define TRANSFORM_META "DlbufPrepareMeta"

GST_DEBUG_CATEGORY_STATIC(debug);
#define GST_CAT_DEFAULT debug

/*
 * GstTensorMeta of GStreamer 1.26 or newer, by its ABI: the package of its headers depends on
 * those of many codecs, and a plugin built with 1.22 finds it on a newer system. All NULL: it
 * is absent.
 */
static struct {
	void *(*add)(GstBuffer *buffer);
	void (*set)(void *meta, guint n, void **tensors);
	void *(*tensor)(GQuark id, int type, GstBuffer *data, int order, gsize n, gsize *dims);
} analytics;

#define ROW_MAJOR 0

struct prepare {
	GstBaseTransform parent;
	struct options set;		/* the object's lock */
	gboolean is_started;		/* likewise: set does not change */
	/* Used by the streaming thread, from start() to stop(). */
	struct options used;
	struct dlbuf_device *cpu;
	/* Prepares: the CPU, or another device, which reads and writes dma-bufs only. */
	struct dlbuf_device *dev;
	/* device=auto has chosen, for pictures of these caps. */
	gboolean is_chosen;
	GstBufferPool *pool;		/* of the other device; NULL until a picture needs it */
	/*
	 * From the tags of the file (0) and of the stream (1). The stream's counts if it has_one.
	 */
	enum dlbuf_orientation orientations[2];
	gboolean has_one;
	struct dlbuf_gstreamer_format format;
	struct dlbuf_format_info layout;
	struct dlbuf_frame kind;	/* frame of the plan: only its description is used */
	struct dlbuf_device *plan_dev;	/* peeked */
	struct dlbuf_prepare *plan;
	struct dlbuf_prepare_info info;
	int64_t shape[4], strides[4];
	gsize bytes;
	gboolean is_picture;		/* the output is video/x-raw, and no tensor */
};

typedef struct {
	GstBaseTransformClass parent;
} DlbufPrepareClass;
typedef struct prepare DlbufPrepare;

static GType element_get_type(void);
G_DEFINE_TYPE(DlbufPrepare, element, GST_TYPE_BASE_TRANSFORM)

/* ---------------------------------------------------------------- properties */

#define FAIL(self, domain, code) do {						\
	gchar *said_ = options_sentence();					\
	GST_ELEMENT_ERROR(self, domain, code, ("%s", said_), (NULL));		\
	g_free(said_);								\
} while (0)

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
	DlbufPrepare *self = (DlbufPrepare *)object;
	gboolean is_late;

	GST_OBJECT_LOCK(self);
	is_late = self->is_started;
	if (!is_late)
		options_set(&self->set, object, id, value);
	GST_OBJECT_UNLOCK(self);
	if (is_late)
		GST_WARNING_OBJECT(self, "%s is not changed: it can be set in NULL and READY",
				   spec->name);
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
	DlbufPrepare *self = (DlbufPrepare *)object;

	GST_OBJECT_LOCK(self);
	options_get(&self->set, id, value);
	GST_OBJECT_UNLOCK(self);
}

/* ---------------------------------------------------------------- caps */

static GstCaps *transform_caps(GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps,
			       GstCaps *filter)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	GstCaps *result, *both;

	if (direction == GST_PAD_SRC) {
		result = gst_pad_get_pad_template_caps(trans->sinkpad);
	} else {
		result = gst_caps_new_empty();
		GST_OBJECT_LOCK(self);
		for (guint i = 0; i < gst_caps_get_size(caps); i++)
			caps_append_outputs(result, gst_caps_get_structure(caps, i), &self->set);
		GST_OBJECT_UNLOCK(self);
		result = gst_caps_simplify(result);
	}
	if (!filter)
		return result;
	both = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
	gst_caps_unref(result);
	return both;
}

static gboolean is_auto(const DlbufPrepare *self)
{
	return !g_strcmp0(self->used.device, "auto");
}

/* Takes dev, and drops the plan of the device before. A second device of the CPU is closed. */
static void use_device(DlbufPrepare *self, struct dlbuf_device *dev)
{
	DLBUF_INFO(dlbuf_device_info, info);

	shared_pool_drop(&self->pool);
	self->is_chosen = FALSE;
	if (self->dev != self->cpu) {
		dlbuf_prepare_destroy(self->plan);
		self->plan = NULL;
		dlbuf_device_close(self->dev);
		self->dev = self->cpu;
	}
	if (dev == self->cpu || dlbuf_device_get_info(dev, &info))
		return;
	GST_INFO_OBJECT(self, "%s prepares pictures in dma-bufs", info.name);
	if (!strcmp(info.backend, "cpu"))
		dlbuf_device_close(dev);
	else
		self->dev = dev;
}

static gboolean is_same_kind(const struct dlbuf_frame *a, const struct dlbuf_frame *b)
{
	return a->width == b->width && a->height == b->height && a->code == b->code &&
		a->orientation == b->orientation && a->code_space == b->code_space &&
		a->modifier == b->modifier &&
		!memcmp(&a->crop, &b->crop, sizeof(a->crop)) &&
		!memcmp(&a->colour, &b->colour, sizeof(a->colour));
}

/* Makes a plan for such frames, unless it exists, and the shape and size of its tensor. */
static int make_plan(DlbufPrepare *self, struct dlbuf_device *dev, const struct dlbuf_frame *frame)
{
	const struct options *o = &self->used;
	struct dlbuf_prepare *plan;
	uint32_t c, h, w;
	int ret;

	if (self->plan && self->plan_dev == dev && is_same_kind(frame, &self->kind))
		return 0;
	ret = dlbuf_prepare_create(dev, frame, &o->opts, &plan);
	if (ret)
		return ret;
	dlbuf_prepare_destroy(self->plan);
	self->plan = plan;
	self->plan_dev = dev;
	self->kind = *frame;
	self->info = (struct dlbuf_prepare_info){ .size = sizeof(self->info) };
	dlbuf_prepare_get_info(plan, &self->info);
	GST_DEBUG_OBJECT(self, "a plan: %gx%g pixels at %g,%g become %ux%u at %d,%d",
			 self->info.crop_width, self->info.crop_height, self->info.crop_x,
			 self->info.crop_y, self->info.scaled_width, self->info.scaled_height,
			 self->info.left, self->info.top);
	c = self->info.channels;
	h = self->info.height;
	w = self->info.width;
	self->shape[0] = 1;
	self->shape[1] = o->layout ? h : c;
	self->shape[2] = o->layout ? w : h;
	self->shape[3] = o->layout ? c : w;
	return 0;
}

/* The same for a picture, whose size and crop can differ from the caps. */
static int keep_plan(DlbufPrepare *self, struct dlbuf_device *dev, const struct dlbuf_frame *frame)
{
	int64_t h = self->shape[2], w = self->shape[3], first = self->shape[1];
	int ret = make_plan(self, dev, frame);

	if (!ret && (first != self->shape[1] || h != self->shape[2] || w != self->shape[3]))
		return dlbuf_fail(-EINVAL, "a %s of %ux%u pixels needs a tensor of another size "
				  "than the picture of the caps",
				  frame->crop.width ? "crop" : "picture",
				  frame->crop.width ? frame->crop.width : frame->width,
				  frame->crop.width ? frame->crop.height : frame->height);
	return ret;
}

/* A frame as caps describe it, without planes. */
static struct dlbuf_frame frame_of(const struct dlbuf_gstreamer_format *f)
{
	return (struct dlbuf_frame){ .size = sizeof(struct dlbuf_frame),
		.width = GST_VIDEO_INFO_WIDTH(&f->info),
		.height = GST_VIDEO_INFO_FIELD_HEIGHT(&f->info), .code = f->code,
		.code_space = f->code_space, .modifier = f->modifier,
		.orientation = f->orientation, .colour = dlbuf_gstreamer_colour_(&f->info) };
}

static int plan_of_caps(DlbufPrepare *self, const GstCaps *caps)
{
	struct dlbuf_gstreamer_format format;
	struct dlbuf_frame frame;
	int ret = dlbuf_gstreamer_caps(caps, &format);

	if (ret)
		return ret;
	format.orientation = self->orientations[self->has_one];
	frame = frame_of(&format);
	/* device=auto chooses when the first picture in a dma-buf is there. */
	ret = make_plan(self, is_auto(self) ? self->cpu : self->dev, &frame);
	if (ret)
		return ret;
	self->format = format;
	self->layout = (struct dlbuf_format_info){ .size = sizeof(self->layout) };
	return dlbuf_format_find(format.code, format.modifier, format.code_space, &self->layout);
}

static GstCaps *fixate_caps(GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps,
			    GstCaps *other)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	GstCaps *all, *peer, *result;
	gchar *peer_text, *text;

	if (direction != GST_PAD_SINK || !self->cpu || !gst_caps_is_fixed(caps))
		return gst_caps_fixate(other);
	gst_caps_unref(other);
	if (plan_of_caps(self, caps)) {
		FAIL(self, STREAM, FORMAT);
		return gst_caps_new_empty();
	}
	all = transform_caps(trans, direction, caps, NULL);
	caps_describe(all, &self->format.info, &self->used, &self->info);
	/* In the next element's order; after a capsfilter `other` does not have that order. */
	peer = gst_pad_peer_query_caps(trans->srcpad, NULL);
	result = caps_choose(all, peer);
	if (!result) {
		text = gst_caps_to_string(all);
		peer_text = gst_caps_to_string(peer);
		GST_ELEMENT_ERROR(self, CORE, NEGOTIATION, ("the output has the caps %s, the next "
				  "element takes %s", text, peer_text), (NULL));
		g_free(text);
		g_free(peer_text);
		result = gst_caps_new_empty();
	}
	gst_caps_unref(peer);
	gst_caps_unref(all);
	return result;
}

static gboolean set_caps(GstBaseTransform *trans, GstCaps *in, GstCaps *out)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	int64_t step;
	int i;

	/* Drops imports of the old buffers, which keep their memory. */
	dlbuf_device_trim(self->cpu, 0);
	dlbuf_device_trim(self->dev, 0);
	if (is_auto(self))
		use_device(self, self->cpu);
	else
		shared_pool_drop(&self->pool);
	if (plan_of_caps(self, in)) {
		FAIL(self, STREAM, FORMAT);
		return FALSE;
	}
	self->is_picture = caps_is_picture(gst_caps_get_structure(out, 0));
	for (i = 3, step = 1; i >= 0; step *= self->shape[i--]) {
		/* GStreamer's pictures have rows of whole words. */
		if (self->is_picture && i == 1)
			step = GST_ROUND_UP_4(step);
		self->strides[i] = step;
	}
	self->bytes = (gsize)step * value_types[self->used.type].dtype.bits / 8;
	return TRUE;
}

/*
 * The tag image-orientation, which comes after the caps. The output is upright, and its tag
 * is rotate-0. A plan for it, and caps of another size, are made when the next picture
 * comes.
 */
static gboolean sink_event(GstBaseTransform *trans, GstEvent *event)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	enum dlbuf_orientation orientation, before = self->orientations[self->has_one];
	guint32 seqnum = gst_event_get_seqnum(event);
	GstTagList *tags;
	gboolean is_streams;

	if (GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START) {
		memset(self->orientations, 0, sizeof(self->orientations));
		self->has_one = FALSE;
	} else if (GST_EVENT_TYPE(event) == GST_EVENT_TAG) {
		gst_event_parse_tag(event, &tags);
		if (dlbuf_gstreamer_tag_(tags, &orientation)) {
			is_streams = gst_tag_list_get_scope(tags) == GST_TAG_SCOPE_STREAM;
			self->orientations[is_streams] = orientation;
			self->has_one |= is_streams;
			tags = gst_tag_list_copy(tags);
			gst_tag_list_add(tags, GST_TAG_MERGE_REPLACE, GST_TAG_IMAGE_ORIENTATION,
					 "rotate-0", NULL);
			gst_event_unref(event);
			event = gst_event_new_tag(tags);
			gst_event_set_seqnum(event, seqnum);
		}
	}
	if (self->orientations[self->has_one] != before)
		gst_base_transform_reconfigure_src(trans);
	return GST_BASE_TRANSFORM_CLASS(element_parent_class)->sink_event(trans, event);
}

/* ---------------------------------------------------------------- buffers */

static gboolean propose_allocation(GstBaseTransform *trans, GstQuery *decided, GstQuery *query)
{
	return !dlbuf_gstreamer_allocation(query);
}

/* A pool of buffers of the tensor's size. */
static gboolean decide_allocation(GstBaseTransform *trans, GstQuery *query)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	GstAllocationParams params;
	GstBufferPool *pool;
	GstStructure *config;
	GstCaps *caps;

	gst_query_parse_allocation(query, &caps, NULL);
	gst_allocation_params_init(&params);
	params.align = 63;
	pool = gst_buffer_pool_new();
	config = gst_buffer_pool_get_config(pool);
	gst_buffer_pool_config_set_params(config, caps, (guint)self->bytes, 0, 0);
	gst_buffer_pool_config_set_allocator(config, NULL, &params);
	if (self->bytes > G_MAXUINT || !gst_buffer_pool_set_config(pool, config)) {
		gst_object_unref(pool);
		return FALSE;
	}
	while (gst_query_get_n_allocation_pools(query))
		gst_query_remove_nth_allocation_pool(query, 0);
	gst_query_add_allocation_pool(query, pool, (guint)self->bytes, 0, 0);
	gst_object_unref(pool);
	return TRUE;
}

static gboolean transform_size(GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps,
			       gsize size, GstCaps *other, gsize *other_size)
{
	*other_size = ((DlbufPrepare *)trans)->bytes;
	return direction == GST_PAD_SINK;
}

static void nothing(DLManagedTensorVersioned *self)
{
}

/* A tensor of borrowed memory, for one call. strides may be NULL. */
static DLManagedTensorVersioned wrap(void *data, DLDataType dtype, int ndim, int64_t *shape,
				     int64_t *strides)
{
	return (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION }, .deleter = nothing,
		.dl_tensor = { .data = data, .device = { kDLCPU, 0 }, .ndim = ndim,
			.dtype = dtype, .shape = shape, .strides = strides } };
}

/* CLOCK_MONOTONIC nanoseconds; 0: none. */
static uint64_t deadline_of(const DlbufPrepare *self)
{
	struct timespec now;
	uint64_t ns;

	if (!self->used.timeout)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64_t)now.tv_sec * GST_SECOND + (uint64_t)now.tv_nsec;
	return self->used.timeout > UINT64_MAX - ns ? 0 : ns + self->used.timeout;
}

static int prepare_frame(DlbufPrepare *self, struct dlbuf_device *dev, GstBuffer *in,
			 uint64_t deadline, DLManagedTensorVersioned *out)
{
	DLBUF_OPTS(dlbuf_prepare_run_opts, opts);
	struct dlbuf_frame frame;
	int ret = dlbuf_gstreamer_frame(in, &self->format, &frame);

	if (ret)
		return ret;
	opts.deadline_ns = deadline;
	ret = keep_plan(self, dev, &frame);
	if (!ret)
		ret = dlbuf_prepare_frame(self->plan, &frame, &opts, out);
	if (ret)
		dlbuf_frame_drop(&frame);
	return ret;
}

static void log_trial(const struct dlbuf_prepare_trial *trial, void *self)
{
	if (trial->status)
		GST_INFO_OBJECT(self, "%s is excluded: %s", trial->name, trial->reason);
	else
		GST_INFO_OBJECT(self, "%s takes %.3f ms", trial->name, (double)trial->ns / 1e6);
}

static int choose_device(DlbufPrepare *self, GstBuffer *in)
{
	struct dlbuf_device *dev;
	struct dlbuf_frame frame;
	int ret = dlbuf_gstreamer_frame(in, &self->format, &frame);

	if (ret)
		return ret;
	ret = dlbuf_prepare_fastest(&frame, &self->used.opts, deadline_of(self), log_trial, self,
				    &dev);
	dlbuf_frame_drop(&frame);
	if (ret)
		return ret;
	use_device(self, dev);
	self->is_chosen = TRUE;
	return 0;
}

static gboolean is_dmabuf(GstBuffer *buffer)
{
	return gst_buffer_n_memory(buffer) &&
		gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, 0));
}

/* The other device's pool, unless there is one; NULL after a failure. */
static void make_pool(DlbufPrepare *self)
{
	struct shared_kind kind = {
		.dev = self->dev, .cpu = self->cpu, .bytes = self->bytes,
		.dtype = value_types[self->used.type].dtype,
	};

	if (self->pool)
		return;
	memcpy(kind.shape, self->shape, sizeof(kind.shape));
	memcpy(kind.strides, self->strides, sizeof(kind.strides));
	self->pool = shared_pool_new(&kind);
}

/* The CPU writes to buffers of the usual pool, another device to dma-bufs. */
static GstFlowReturn prepare_output_buffer(GstBaseTransform *trans, GstBuffer *in, GstBuffer **out)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	gboolean is_empty = !gst_buffer_get_size(in);

	if (!is_empty && is_auto(self) && !self->is_chosen && is_dmabuf(in) &&
	    choose_device(self, in)) {
		FAIL(self, STREAM, FAILED);
		return GST_FLOW_ERROR;
	}
	if (is_empty || self->dev == self->cpu || (is_auto(self) && !is_dmabuf(in)))
		return GST_BASE_TRANSFORM_CLASS(element_parent_class)->prepare_output_buffer(
			trans, in, out);
	if (!is_dmabuf(in)) {
		GST_ELEMENT_ERROR(self, STREAM, FAILED, ("device=%s reads dma-bufs, and the picture is "
				  "in other memory: v4l2src io-mode=dmabuf makes dma-bufs, device=cpu and "
				  "device=auto read both", self->used.device), (NULL));
		return GST_FLOW_ERROR;
	}
	make_pool(self);
	if (!self->pool || gst_buffer_pool_acquire_buffer(self->pool, out, NULL) != GST_FLOW_OK) {
		FAIL(self, RESOURCE, NO_SPACE_LEFT);
		return GST_FLOW_ERROR;
	}
	GST_BASE_TRANSFORM_GET_CLASS(trans)->copy_metadata(trans, in, *out);
	return GST_FLOW_OK;
}

/* GStreamer's own mapping would only log a warning about such a buffer. */
static int check_meta(const DlbufPrepare *self, GstBuffer *in)
{
	const GstVideoMeta *meta = gst_buffer_get_video_meta(in);
	const GstVideoInfo *info = &self->format.info;

	/* GStreamer has no format for a mosaic: its meta may be of any, and without planes. */
	if (!meta || (self->format.is_bayer && !meta->n_planes) ||
	    ((self->format.is_bayer || meta->format == GST_VIDEO_INFO_FORMAT(info)) &&
	     meta->n_planes == GST_VIDEO_INFO_N_PLANES(info) &&
	     meta->width >= (guint)GST_VIDEO_INFO_WIDTH(info) &&
	     meta->height >= (guint)GST_VIDEO_INFO_HEIGHT(info)))
		return 0;
	return dlbuf_fail(-EINVAL, "the GstVideoMeta is of %s, %ux%u pixels and %u planes, and not "
			  "as the caps", gst_video_format_to_string(meta->format), meta->width,
			  meta->height, meta->n_planes);
}

/* Maps a plane, which must be in the buffer, and finds its part in the visible picture. */
static int map_plane(DlbufPrepare *self, GstBuffer *in, const struct dlbuf_frame *frame, guint i,
		     GstMapInfo *map, int64_t shape[3], int64_t strides[3],
		     DLManagedTensorVersioned *plane)
{
	const struct dlbuf_format_plane *p = &self->layout.planes[i];
	const int value = self->layout.dtype.bits / 8, sample = p->channels * value;
	const int64_t pitch = frame->planes[i].pitch;
	const uint64_t offset = frame->planes[i].offset;
	const gsize size = gst_buffer_get_size(in);
	struct dlbuf_rect r = frame->crop;
	uint64_t row = ((uint64_t)frame->width + p->hsub - 1) / p->hsub * sample, bytes;
	guint index, n;
	gsize skip;

	if (!r.width)
		r = (struct dlbuf_rect){ 0, 0, frame->width, frame->height };
	if (pitch % value || offset % value)
		return dlbuf_fail(-EOPNOTSUPP, "plane %u: a pitch of %lld and an offset of %llu "
				  "bytes are not whole %u-bit values", i, (long long)pitch,
				  (unsigned long long)offset, p->bits);
	if (pitch < (int64_t)row)
		return dlbuf_fail(-EINVAL, "plane %u: a pitch of %lld bytes is less than the %llu "
				  "of a row", i, (long long)pitch, (unsigned long long)row);
	bytes = (dlbuf_plane_rows_(frame, &self->layout, i) - 1) * pitch + row;
	if (offset > size || bytes > size - offset ||
	    !gst_buffer_find_memory(in, offset, bytes, &index, &n, &skip))
		return dlbuf_fail(-ERANGE, "plane %u of %llu bytes begins at byte %llu, the "
				  "GstBuffer ends at %zu", i, (unsigned long long)bytes,
				  (unsigned long long)offset, (size_t)size);
	GST_LOG_OBJECT(self, "plane %u is mapped", i);
	if (n > 1)
		GST_DEBUG_OBJECT(self, "plane %u is copied: it is in %u memories", i, n);
	if (!gst_buffer_map_range(in, index, n, map, GST_MAP_READ))
		return dlbuf_fail(-EIO, "plane %u: GStreamer cannot map its memory", i);
	shape[0] = (r.height + p->vsub - 1) / p->vsub;
	shape[1] = (r.width + p->hsub - 1) / p->hsub;
	shape[2] = p->channels;
	strides[0] = pitch / value;
	strides[1] = p->channels;
	strides[2] = 1;
	*plane = wrap((char *)map->data + skip + (gssize)(r.y / p->vsub) * pitch +
		      (gssize)(r.x / p->hsub) * sample, self->layout.dtype,
		      p->channels > 1 ? 3 : 2, shape, strides);
	return 0;
}

static int prepare_planes(DlbufPrepare *self, GstBuffer *in, DLManagedTensorVersioned *out)
{
	DLManagedTensorVersioned planes[DLBUF_MAX_PLANES], *list[DLBUF_MAX_PLANES];
	int64_t shape[DLBUF_MAX_PLANES][3], strides[DLBUF_MAX_PLANES][3];
	GstMapInfo maps[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	guint n = 0;
	int ret = check_meta(self, in);

	if (!ret)
		ret = dlbuf_gstreamer_places_(in, &self->format, &frame);
	if (!ret)
		ret = keep_plan(self, self->cpu, &frame);
	while (!ret && n < self->layout.nplanes) {
		list[n] = &planes[n];
		ret = map_plane(self, in, &frame, n, &maps[n], shape[n], strides[n], &planes[n]);
		n += !ret;
	}
	if (!ret)
		ret = dlbuf_prepare_tensors(self->plan, list, n, NULL, out);
	while (n--)
		gst_buffer_unmap(in, &maps[n]);
	return ret;
}

/*
 * Adds the position of the picture, so that elements can map positions in the tensor back to it.
 */
static void add_transform(const DlbufPrepare *self, GstBuffer *out)
{
	GstCustomMeta *meta = gst_buffer_add_custom_meta(out, TRANSFORM_META);
	const struct dlbuf_prepare_info *i = &self->info;

	gst_structure_set(gst_custom_meta_get_structure(meta),
		"width", G_TYPE_UINT, i->width, "height", G_TYPE_UINT, i->height,
		"scaled-width", G_TYPE_UINT, i->scaled_width,
		"scaled-height", G_TYPE_UINT, i->scaled_height,
		"left", G_TYPE_INT, i->left, "top", G_TYPE_INT, i->top,
		"crop-x", G_TYPE_DOUBLE, i->crop_x, "crop-y", G_TYPE_DOUBLE, i->crop_y,
		"crop-width", G_TYPE_DOUBLE, i->crop_width,
		"crop-height", G_TYPE_DOUBLE, i->crop_height, "turn", G_TYPE_UINT, i->turn,
		"flip-x", G_TYPE_BOOLEAN, !!(i->flags & DLBUF_PREPARE_FLIP_X),
		"flip-y", G_TYPE_BOOLEAN, !!(i->flags & DLBUF_PREPARE_FLIP_Y), NULL);
}

/* The same memory as GStreamer's own tensor. */
static void add_tensor(const DlbufPrepare *self, GstBuffer *out)
{
	gsize dims[4] = { 1, (gsize)self->shape[1], (gsize)self->shape[2], (gsize)self->shape[3] };
	GstBuffer *data;
	void **tensors;

	if (!analytics.tensor || self->is_picture)
		return;
	data = gst_buffer_new();
	tensors = g_new(void *, 1);
	gst_buffer_append_memory(data, gst_memory_ref(gst_buffer_peek_memory(out, 0)));
	tensors[0] = analytics.tensor(
		g_quark_from_string(self->used.tensor_id ? self->used.tensor_id : ""),
		value_types[self->used.type].number, data, ROW_MAJOR, 4, dims);
	analytics.set(analytics.add(out), 1, tensors);
}

/* Prepares on the other device, and waits for it: elements after this one wait for no fence. */
static int transform_shared(DlbufPrepare *self, GstBuffer *in, struct shared_tensor *t)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .fence = -1, .deadline_ns = deadline_of(self));
	int ret;

	if (t->is_acquired) {
		ret = dlbuf_release(t->on_cpu, NULL, NULL);
		if (ret)
			return ret;
		t->is_acquired = FALSE;
	}
	ret = prepare_frame(self, self->dev, in, opts.deadline_ns, t->on_device);
	if (!ret)
		ret = dlbuf_acquire(t->on_cpu, DLBUF_READ | DLBUF_WRITE, NULL, &opts);
	t->is_acquired = !ret;
	return ret;
}

static int transform_mapped(DlbufPrepare *self, GstBuffer *in, GstBuffer *out)
{
	DLManagedTensorVersioned tensor;
	GstMapInfo map;
	int ret;

	if (!gst_buffer_map(out, &map, GST_MAP_WRITE))
		return dlbuf_fail(-EIO, "cannot map the tensor");
	tensor = wrap(map.data, value_types[self->used.type].dtype, 4, self->shape,
		      self->strides);
	/* A picture's rows end with bytes that are no values. */
	for (gssize y = 0, row = self->shape[2] * self->shape[3]; self->is_picture &&
	     y < self->shape[1]; y++)
		memset(map.data + y * self->strides[1] + row, 0, self->strides[1] - row);
	ret = is_dmabuf(in) ? prepare_frame(self, self->cpu, in, deadline_of(self), &tensor) :
			      prepare_planes(self, in, &tensor);
	gst_buffer_unmap(out, &map);
	return ret;
}

static GstFlowReturn transform(GstBaseTransform *trans, GstBuffer *in, GstBuffer *out)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	struct shared_tensor *shared = shared_tensor_of(out);

	/* An empty buffer: the camera has lost a frame. */
	if (!gst_buffer_get_size(in))
		return GST_BASE_TRANSFORM_FLOW_DROPPED;
	if (shared ? transform_shared(self, in, shared) : transform_mapped(self, in, out)) {
		FAIL(self, STREAM, FAILED);
		return GST_FLOW_ERROR;
	}
	add_transform(self, out);
	add_tensor(self, out);
	return GST_FLOW_OK;
}

/* ---------------------------------------------------------------- the element */

static gboolean stop(GstBaseTransform *trans)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;

	use_device(self, self->cpu);
	dlbuf_prepare_destroy(self->plan);
	self->plan = NULL;
	dlbuf_device_close(self->cpu);
	self->cpu = self->dev = NULL;
	options_finish(&self->used);
	GST_OBJECT_LOCK(self);
	self->is_started = FALSE;
	GST_OBJECT_UNLOCK(self);
	return TRUE;
}

static gboolean start(GstBaseTransform *trans)
{
	DlbufPrepare *self = (DlbufPrepare *)trans;
	const struct options *o = &self->used;
	struct dlbuf_device *dev;

	GST_OBJECT_LOCK(self);
	options_copy(&self->used, &self->set);
	self->is_started = TRUE;
	GST_OBJECT_UNLOCK(self);
	if (options_check(o, G_OBJECT(self))) {
		FAIL(self, LIBRARY, SETTINGS);
		stop(trans);
		return FALSE;
	}
	if (dlbuf_device_open("cpu", NULL, &self->cpu)) {
		FAIL(self, RESOURCE, OPEN_READ);
		stop(trans);
		return FALSE;
	}
	self->dev = self->cpu;
	if (is_auto(self) || !strcmp(o->device, "cpu"))
		return TRUE;
	if (dlbuf_device_open(o->device, NULL, &dev)) {
		FAIL(self, LIBRARY, SETTINGS);
		stop(trans);
		return FALSE;
	}
	use_device(self, dev);
	return TRUE;
}

static void finalize(GObject *object)
{
	options_finish(&((DlbufPrepare *)object)->set);
	G_OBJECT_CLASS(element_parent_class)->finalize(object);
}

static void element_init(DlbufPrepare *self)
{
	options_init(&self->set);
	gst_base_transform_set_qos_enabled(&self->parent, TRUE);
}

static void element_class_init(DlbufPrepareClass *class)
{
	GstBaseTransformClass *trans = GST_BASE_TRANSFORM_CLASS(class);
	GstElementClass *gst = GST_ELEMENT_CLASS(class);
	GObjectClass *object = G_OBJECT_CLASS(class);
	GstCaps *sink = caps_of_pictures(), *src = caps_of_outputs();

	object->set_property = set_property;
	object->get_property = get_property;
	object->finalize = finalize;
	options_install(object);
	gst_element_class_add_pad_template(gst, gst_pad_template_new("sink", GST_PAD_SINK,
		GST_PAD_ALWAYS, sink));
	gst_element_class_add_pad_template(gst, gst_pad_template_new("src", GST_PAD_SRC,
		GST_PAD_ALWAYS, src));
	gst_caps_unref(sink);
	gst_caps_unref(src);
	gst_element_class_set_static_metadata(gst, "Pictures to a model's input",
		"Filter/Converter/Video/Tensor",
		"Crops, scales, normalises and lays out pictures as tensors, also from dma-bufs",
		"the authors of dlbuf");
	trans->transform_caps = transform_caps;
	trans->fixate_caps = fixate_caps;
	trans->set_caps = set_caps;
	trans->sink_event = sink_event;
	trans->propose_allocation = propose_allocation;
	trans->decide_allocation = decide_allocation;
	trans->transform_size = transform_size;
	trans->prepare_output_buffer = prepare_output_buffer;
	trans->transform = transform;
	trans->start = start;
	trans->stop = stop;
}

static void find_analytics(void)
{
	void *lib = dlopen("libgstanalytics-1.0.so.0", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return;
	*(void **)&analytics.add = dlsym(lib, "gst_buffer_add_tensor_meta");
	*(void **)&analytics.set = dlsym(lib, "gst_tensor_meta_set");
	*(void **)&analytics.tensor = dlsym(lib, "gst_tensor_new_simple");
	if (!analytics.add || !analytics.set)
		analytics.tensor = NULL;
}

static gboolean plugin_init(GstPlugin *plugin)
{
	static const gchar *tags[] = { NULL };

	GST_DEBUG_CATEGORY_INIT(debug, "dlbufprepare", 0, "pictures to tensors");
	if (!gst_meta_register_custom(TRANSFORM_META, tags, NULL, NULL, NULL))
		return FALSE;
	find_analytics();
	return gst_element_register(plugin, "dlbufprepare", GST_RANK_NONE, element_get_type());
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, dlbuf,
		  "Pictures of a pipeline as tensors", plugin_init,
		  TEXT(DLBUF_VERSION_MAJOR) "." TEXT(DLBUF_VERSION_MINOR) "." TEXT(DLBUF_VERSION_PATCH),
		  "MIT/X11", "dlbuf", "dlbuf")
