/* SPDX-License-Identifier: MIT */
/*
 * PipeWire: makes a frame from a buffer of a video stream. Header-only; needs
 * PipeWire 1.2 or newer, DRM's headers for syncobjs, and, as PipeWire's headers do,
 * more than bare C11 (-std=gnu11 or _GNU_SOURCE): pkg-config libpipewire-0.3 libdrm.
 *
 *	dlbuf_pipewire_open(stream, pw_main_loop_get_loop(loop), -1, &pw);
 *
 *	static void on_process(void *data)
 *	{
 *		struct pw_buffer *b = pw_stream_dequeue_buffer(stream);
 *		struct dlbuf_frame frame;
 *
 *		if (!b)
 *			return;
 *		if (dlbuf_pipewire_frame(pw, b, &info, &frame)) {
 *			warnx("%s", dlbuf_last_error());
 *			pw_stream_queue_buffer(stream, b);
 *			return;
 *		}
 *		if (dlbuf_import_frame(dev, &frame, NULL, tensors, &n)) {
 *			warnx("%s", dlbuf_last_error());
 *			dlbuf_frame_drop(&frame);
 *		}
 *	}
 *	static void on_remove_buffer(void *data, struct pw_buffer *b)
 *	{
 *		dlbuf_pipewire_remove_buffer(pw, b);
 *		dlbuf_device_trim(dev, 0);
 *	}
 *
 * The lease may fire on any thread, but pw_stream_queue_buffer() must run on the
 * thread of the stream's loop, and the stream may have removed its buffers before.
 * struct dlbuf_pipewire therefore queues the buffer on the loop's thread, or drops
 * it if the stream removed it.
 *
 * A stream gets dma-bufs, and metadata of the picture, only if it asks for them:
 *
 *	static void on_param_changed(void *data, uint32_t id, const struct spa_pod *param)
 *	{
 *		uint8_t space[1024];
 *		struct spa_pod_builder b = SPA_POD_BUILDER_INIT(space, sizeof(space));
 *		const struct spa_pod *params[6];
 *		uint32_t n = 6;
 *
 *		if (id != SPA_PARAM_Format || !param)
 *			return;
 *		spa_format_video_raw_parse(param, &info);
 *		if (dlbuf_pipewire_buffer_params(pw, &b, params, &n))
 *			errx(1, "%s", dlbuf_last_error());
 *		pw_stream_update_params(stream, params, n);
 *	}
 *
 * Do not map the dma-bufs: no PW_STREAM_FLAG_MAP_BUFFERS.
 */
#ifndef DLBUF_INTEROP_PIPEWIRE_H
#define DLBUF_INTEROP_PIPEWIRE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <drm.h>

#include <pipewire/pipewire.h>
#include <spa/buffer/buffer.h>
#include <spa/buffer/meta.h>
#include <spa/param/buffers.h>
#include <spa/param/format.h>
#include <spa/param/video/raw.h>
#include <spa/param/video/type-info.h>
#include <spa/pod/builder.h>

#include <dlbuf/fence.h>
#include <dlbuf/frame.h>
#include <dlbuf/interop/shared.h>
#include <dlbuf/syncobj.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a SPA format, which is GStreamer's name: "NV12". NULL: no such format. */
static inline const char *dlbuf_pipewire_name_(uint32_t format)
{
	const struct spa_type_info *t;

	for (t = spa_type_video_format; t->name; t++)
		if (t->type == format && strrchr(t->name, ':'))
			return strrchr(t->name, ':') + 1;
	return NULL;
}

/* Pods that are being built. */
struct dlbuf_pipewire_pods_ {
	struct spa_pod_builder *b;
	const struct spa_pod **params;
	uint32_t n, room, flags;
	struct spa_pod_frame object, choice;
	uint32_t format;	/* the format of the current param, or UNKNOWN */
	int is_open;
	uint32_t formats[128];	/* the formats with linear rows */
	uint32_t nformats;
};

static inline void dlbuf_pipewire_begin_(struct dlbuf_pipewire_pods_ *p)
{
	spa_pod_builder_push_object(p->b, &p->object, SPA_TYPE_OBJECT_Format,
				    SPA_PARAM_EnumFormat);
	spa_pod_builder_add(p->b,
			    SPA_FORMAT_mediaType, SPA_POD_Id(SPA_MEDIA_TYPE_video),
			    SPA_FORMAT_mediaSubtype,
			    SPA_POD_Id(SPA_MEDIA_SUBTYPE_raw), 0);
}

static inline int dlbuf_pipewire_end_(struct dlbuf_pipewire_pods_ *p)
{
	if (!p->is_open)
		return 0;
	p->is_open = 0;
	spa_pod_builder_pop(p->b, &p->choice);
	p->params[p->n] = (const struct spa_pod *)spa_pod_builder_pop(
		p->b, &p->object);
	if (!p->params[p->n++])
		return dlbuf_fail(-ENOSPC, "the builder's %u bytes have no room "
				  "for the params of all formats", p->b->size);
	return 0;
}

/* SPA's format of the same bytes; SPA_VIDEO_FORMAT_UNKNOWN: SPA has none. */
static inline uint32_t
dlbuf_pipewire_format_(const struct dlbuf_device_format *f)
{
	uint32_t i;

	for (i = SPA_VIDEO_FORMAT_ENCODED + 1; i < 128; i++)
		if (dlbuf_is_named_(f, dlbuf_pipewire_name_(i), DLBUF_CODE_GSTREAMER))
			return i;
	return SPA_VIDEO_FORMAT_UNKNOWN;
}

/* The modifiers of a format follow one another; each format begins with LINEAR. */
static inline int dlbuf_pipewire_add_(const struct dlbuf_device_format *f,
				      void *data)
{
	struct dlbuf_pipewire_pods_ *p = (struct dlbuf_pipewire_pods_ *)data;
	int ret;

	if (f->modifier == DLBUF_MOD_LINEAR) {
		ret = dlbuf_pipewire_end_(p);
		if (ret)
			return ret;
		p->format = dlbuf_pipewire_format_(f);
	}
	if (p->format == SPA_VIDEO_FORMAT_UNKNOWN || (p->flags && !(f->flags & p->flags)))
		return 0;
	if (f->modifier == DLBUF_MOD_LINEAR)
		p->formats[p->nformats++] = p->format;
	if (!p->is_open) {
		if (p->n + 2 > p->room)
			return dlbuf_fail(-ENOSPC, "the array of %u params has no "
					  "room for those of all formats",
					  p->room);
		dlbuf_pipewire_begin_(p);
		spa_pod_builder_add(p->b, SPA_FORMAT_VIDEO_format,
				    SPA_POD_Id(p->format), 0);
		spa_pod_builder_prop(p->b, SPA_FORMAT_VIDEO_modifier,
				     SPA_POD_PROP_FLAG_MANDATORY |
				     SPA_POD_PROP_FLAG_DONT_FIXATE);
		spa_pod_builder_push_choice(p->b, &p->choice, SPA_CHOICE_Enum,
					    0);
		/* The first value of a choice is its default. */
		spa_pod_builder_long(p->b, (int64_t)f->modifier);
		p->is_open = 1;
	}
	spa_pod_builder_long(p->b, (int64_t)f->modifier);
	return 0;
}

/*
 * Makes the EnumFormat params of all frames that the device imports, for
 * pw_stream_connect(): a param for each format with a choice of its modifiers, from
 * which the producer selects one; then a param of all formats without a modifier, for
 * producers of linear rows. Add a size and a rate by a param filter if you need one.
 *
 * flags selects DLBUF_DEVICE_FORMAT_...; 0 selects all. With COPY the import needs
 * DLBUF_IMPORT_MAY_COPY. b is a builder with a buffer; 16 KiB are enough for most
 * drivers. params has room for *n (64 are enough), and points into the buffer. *n becomes
 * the number of params. On failure b and *n are unchanged. Calls the driver.
 *
 * Returns 0, or the errors of dlbuf_device_formats(), or
 * -ENOSPC  the buffer or the array is too small
 * -EOPNOTSUPP  the device imports no format in the way that flags selects
 *
 * Specification: PipeWire's "DMA-BUF Sharing".
 */
static inline int dlbuf_pipewire_device_params(struct dlbuf_device *dev,
					       uint32_t flags,
					       struct spa_pod_builder *b,
					       const struct spa_pod *params[],
					       uint32_t *n)
{
	struct spa_pod_builder_state before;
	struct dlbuf_pipewire_pods_ p;
	uint32_t i;
	int ret;

	spa_pod_builder_get_state(b, &before);
	memset(&p, 0, sizeof(p));
	p.b = b;
	p.params = params;
	p.room = *n;
	p.flags = flags;
	ret = dlbuf_device_formats(dev, dlbuf_pipewire_add_, &p);
	if (!ret)
		ret = dlbuf_pipewire_end_(&p);
	if (!ret && !p.n)
		ret = dlbuf_fail(-EOPNOTSUPP, "the device imports no frames in this way");
	if (!ret && p.nformats) {
		dlbuf_pipewire_begin_(&p);
		spa_pod_builder_prop(b, SPA_FORMAT_VIDEO_format, 0);
		spa_pod_builder_push_choice(b, &p.choice, SPA_CHOICE_Enum, 0);
		for (i = 0; i < p.nformats; i++) {
			if (!i)
				spa_pod_builder_id(b, p.formats[i]);
			spa_pod_builder_id(b, p.formats[i]);
		}
		p.is_open = 1;
		ret = dlbuf_pipewire_end_(&p);
	}
	/* Otherwise the builder would keep the address of p's frame. */
	if (ret)
		spa_pod_builder_reset(b, &before);
	else
		*n = p.n;
	return ret;
}

static inline struct dlbuf_colour
dlbuf_pipewire_colour_(const struct spa_video_info_raw *info)
{
	/* Code points of H.273, indexed by SPA's numbers; 0: H.273 has none. */
	static const uint8_t primaries[] = { 0, 1, 4, 5, 6, 7, 8, 9, 0 };
	static const uint8_t transfers[] = { 0, 8, 0, 0, 4, 1, 7, 13, 5, 9, 10,
					     15, 0 };
	static const uint8_t matrices[] = { 0, 0 + 1, 4 + 1, 1 + 1, 6 + 1,
					    7 + 1, 9 + 1 };
	struct dlbuf_colour c;

	memset(&c, 0, sizeof(c));
	if ((size_t)info->color_primaries < sizeof(primaries))
		c.primaries = primaries[info->color_primaries];
	if ((size_t)info->transfer_function < sizeof(transfers))
		c.transfer = transfers[info->transfer_function];
	if ((size_t)info->color_matrix < sizeof(matrices))
		c.matrix = matrices[info->color_matrix];
	if (info->color_range == SPA_VIDEO_COLOR_RANGE_0_255)
		c.range = DLBUF_RANGE_FULL;
	else if (info->color_range == SPA_VIDEO_COLOR_RANGE_16_235)
		c.range = DLBUF_RANGE_LIMITED;
	switch ((int)info->chroma_site & ~SPA_VIDEO_CHROMA_SITE_ALT_LINE) {
	case SPA_VIDEO_CHROMA_SITE_H_COSITED:
		c.chroma_site = 0 + 1;
		break;
	case SPA_VIDEO_CHROMA_SITE_NONE:
		c.chroma_site = 1 + 1;
		break;
	case SPA_VIDEO_CHROMA_SITE_COSITED:
		c.chroma_site = 2 + 1;
		break;
	case SPA_VIDEO_CHROMA_SITE_V_COSITED:
		c.chroma_site = 3 + 1;
		break;
	default:
		break;
	}
	return c;
}

/* Finds the buffer's two timelines, acquire and release; NULL if absent. */
static inline const struct spa_meta_sync_timeline *
dlbuf_pipewire_timelines_(const struct spa_buffer *buffer,
			  const struct spa_data *timelines[2])
{
	uint32_t i, n = 0;

	timelines[0] = timelines[1] = NULL;
	for (i = 0; i < buffer->n_datas; i++)
		if (buffer->datas[i].type == SPA_DATA_SyncObj && n < 2)
			timelines[n++] = &buffer->datas[i];
	return (const struct spa_meta_sync_timeline *)spa_buffer_find_meta_data(
		buffer, SPA_META_SyncTimeline,
		sizeof(struct spa_meta_sync_timeline));
}

static inline int dlbuf_pipewire_handle_(int drm_fd, const struct spa_data *d,
					 uint32_t *handle)
{
	struct drm_syncobj_handle arg;

	memset(&arg, 0, sizeof(arg));
	arg.fd = (int)d->fd;
	if (ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &arg))
		return dlbuf_fail(errno == EINVAL || errno == EBADF ? -EBADF : -EOPNOTSUPP,
				  "DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE of fd %d: %s", arg.fd,
				  strerror(errno));
	*handle = arg.handle;
	return 0;
}

static inline void dlbuf_pipewire_forget_(int drm_fd, uint32_t handle)
{
	struct drm_syncobj_destroy arg;

	memset(&arg, 0, sizeof(arg));
	arg.handle = handle;
	ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_DESTROY, &arg);
}

/*
 * The bytes and the pitch of a plane. A size of 0 means that there is no picture. A size
 * of less than a row is ignored: compositors fill in 1 or 9 for dma-bufs.
 */
static inline int dlbuf_pipewire_chunk_(const struct spa_data *d, uint32_t i, uint32_t rows,
					struct dlbuf_frame *f, struct dlbuf_plane *p)
{
	const struct spa_chunk *c = d->chunk;
	uint32_t offset = d->maxsize ? c->offset % d->maxsize : c->offset;
	uint32_t flags = (uint32_t)c->flags;

	if (!c->size || flags & SPA_CHUNK_FLAG_EMPTY)
		return dlbuf_fail(-ENODATA, "data %u of the buffer is empty", i);
	p->fd = (int)d->fd;
	p->offset = (uint64_t)d->mapoffset + offset;
	p->pitch = c->stride;
	if (!p->pitch && rows && c->size % rows == 0)
		p->pitch = c->size / rows;
	if (c->size >= (p->pitch < 0 ? -p->pitch : p->pitch))
		p->bytes = c->size;
	if (flags & SPA_CHUNK_FLAG_CORRUPTED) {
		f->flags |= DLBUF_FRAME_DAMAGED;
		p->bytes = 0;
	}
	return 0;
}

/* Computes the other planes of a format, which follow the first one. */
static inline int dlbuf_pipewire_derive_(const struct dlbuf_format_info *info,
					 struct dlbuf_frame *f)
{
	const struct dlbuf_plane first = f->planes[0];
	uint64_t end = first.offset;
	uint32_t i;
	int ret;

	for (i = 0; i < info->nplanes; i++) {
		struct dlbuf_plane *p = &f->planes[i];

		*p = first;
		p->offset = end;
		ret = dlbuf_plane_pitch_(info, first.pitch, i, &p->pitch);
		if (ret)
			return ret;
		if (first.bytes && end - first.offset >= first.bytes)
			return dlbuf_fail(-ERANGE, "the buffer's %llu bytes end before "
					  "plane %u", (unsigned long long)first.bytes, i);
		if (first.bytes)
			p->bytes = first.bytes - (end - first.offset);
		/* Positive pitches of 32 bits and at most 2^32 rows. */
		end += (uint64_t)(p->pitch > 0 ? p->pitch : 0) *
		       (((uint64_t)f->height + info->planes[i].vsub - 1) / info->planes[i].vsub);
	}
	f->nplanes = info->nplanes;
	return 0;
}

static inline int dlbuf_pipewire_planes_(const struct spa_buffer *buffer,
					 const struct dlbuf_format_info *info,
					 struct dlbuf_frame *f)
{
	const struct spa_chunk *chunk = NULL;
	uint32_t i, rows;
	int ret;

	for (i = 0; i < buffer->n_datas; i++) {
		const struct spa_data *d = &buffer->datas[i];

		if (d->type == SPA_DATA_SyncObj)
			continue;
		if (d->type != SPA_DATA_DmaBuf)
			return dlbuf_fail(-EBADF, "data %u of the buffer is of "
					  "type %u, no dma-buf", i, d->type);
		if (f->nplanes == DLBUF_MAX_PLANES || !d->chunk)
			return dlbuf_fail(-EINVAL, "data %u of the buffer has no "
					  "chunk or is one too many", i);
		rows = f->nplanes < info->nplanes ? info->planes[f->nplanes].vsub : 1;
		rows = (f->height + rows - 1) / rows;
		ret = dlbuf_pipewire_chunk_(d, i, rows, f, &f->planes[f->nplanes]);
		if (ret)
			return ret;
		/* Memory that can be mapped has linear rows. */
		if (!(d->flags & SPA_DATA_FLAG_MAPPABLE))
			f->modifier = DLBUF_MOD_INVALID;
		chunk = d->chunk;
		f->nplanes++;
	}
	if (!chunk)
		return dlbuf_fail(-EINVAL, "the buffer has no data");
	if (f->nplanes > 1 || info->nplanes == 1)
		return 0;
	/* The chunk has the size of all planes, which does not determine the pitch of one. */
	if (!chunk->stride)
		f->planes[0].pitch = 0;
	return dlbuf_pipewire_derive_(info, f);
}

static inline int dlbuf_pipewire_metas_(const struct spa_buffer *buffer,
					struct dlbuf_frame *f)
{
	const struct spa_meta_header *h =
		(const struct spa_meta_header *)spa_buffer_find_meta_data(
			buffer, SPA_META_Header, sizeof(*h));
	const struct spa_meta_region *crop =
		(const struct spa_meta_region *)spa_buffer_find_meta_data(
			buffer, SPA_META_VideoCrop, sizeof(*crop));
	const struct spa_meta_videotransform *transform =
		(const struct spa_meta_videotransform *)spa_buffer_find_meta_data(
			buffer, SPA_META_VideoTransform, sizeof(*transform));

	if (h) {
		if (h->flags & SPA_META_HEADER_FLAG_CORRUPTED)
			f->flags |= DLBUF_FRAME_DAMAGED;
		f->sequence = h->seq;
		f->flags |= DLBUF_FRAME_SEQUENCE;
		if (h->pts != SPA_TIME_INVALID && h->pts != -1) {
			f->timestamp_ns = h->pts;
			f->clock = DLBUF_CLOCK_UNKNOWN;
		}
	}
	if (crop && spa_meta_region_is_valid(crop)) {
		if (crop->region.position.x < 0 || crop->region.position.y < 0)
			return dlbuf_fail(-EINVAL, "the crop begins at %d,%d",
					  crop->region.position.x,
					  crop->region.position.y);
		f->crop.x = (uint32_t)crop->region.position.x;
		f->crop.y = (uint32_t)crop->region.position.y;
		f->crop.width = crop->region.size.width;
		f->crop.height = crop->region.size.height;
	}
	/*
	 * SPA's value describes how the picture was transformed: a flip, then turns to the
	 * left. As many turns to the right, then the flip, undo this.
	 */
	if (transform) {
		if (transform->transform > SPA_META_TRANSFORMATION_Flipped270)
			return dlbuf_fail(-EINVAL, "the buffer's transform is %u, SPA has 0 to 7",
					  transform->transform);
		f->orientation = (enum dlbuf_orientation)transform->transform;
	}
	return 0;
}

/*
 * Describes a buffer as a frame without a lease, for callers that queue the buffer
 * themselves.
 *
 * Planes: the dma-bufs in order, at mapoffset plus the offset of the chunk. If a format
 * of several planes has one dma-buf, the planes follow one another in it. If a chunk has
 * no stride, the pitch is its size divided by the rows of the picture. A size of less
 * than a row is ignored: compositors do not know the size, and fill in 1 or 9. Modifier:
 * the negotiated one. Without one it is LINEAR if the buffer's dma-bufs are marked as
 * mappable, otherwise INVALID, which dlbuf_import_frame() refuses: set LINEAR if you
 * know that they are linear. Clock: UNKNOWN, because producers do not report it,
 * although most use CLOCK_MONOTONIC. Crop and orientation: SPA_META_VideoCrop and
 * _VideoTransform, if the stream has asked for them:
 * dlbuf_pipewire_buffer_params().
 *
 * Order: FENCE if the buffer has a SPA_META_SyncTimeline. Then frame->fence is the
 * fence of its acquire point; the fd is new, close it. You must signal the
 * release point after your last use of the buffer. Otherwise the order is
 * IMPLICIT, and drm_fd, a DRM node with timelines, may be -1.
 *
 * buffer and info are borrowed. *frame borrows the fds. It is written completely, on
 * failure with zeroes. Does not block. Returns 0, or
 * -ENODATA     the buffer has no picture: an empty chunk, as when only the cursor has moved
 * -ERANGE      the buffer's bytes end before its last plane
 * -EINVAL      no planes, or more than a frame has; a crop that begins outside; a
 *              transform that SPA does not have; a modifier that is not
 *              fixed yet; a SyncTimeline without a drm_fd or without SPA_DATA_SyncObj
 * -EBADF       data that is not a dma-buf or not a syncobj
 * -EOPNOTSUPP  neither DRM nor V4L2 has a code for the format; separate fields;
 *              drm_fd has no timelines
 * -EAGAIN      the acquire point has no fence yet: try again later;
 *              DRM_IOCTL_SYNCOBJ_EVENTFD reports when
 *
 * Specification: PipeWire's "DMA-BUF Sharing" and spa/buffer/.
 */
static inline int dlbuf_pipewire_describe(const struct spa_buffer *buffer,
					  const struct spa_video_info_raw *info,
					  int drm_fd, struct dlbuf_frame *frame)
{
	const struct spa_meta_sync_timeline *sync;
	const struct spa_data *timelines[2];
	struct dlbuf_format_info format;
	struct dlbuf_frame f;
	uint32_t handle;
	int ret;

	memset(frame, 0, sizeof(*frame));
	memset(&f, 0, sizeof(f));
	f.size = sizeof(f);
	f.width = info->size.width;
	f.height = info->size.height;
	f.code = dlbuf_code_named_(dlbuf_pipewire_name_(info->format),
				   DLBUF_CODE_GSTREAMER, &f.code_space);
	memset(&format, 0, sizeof(format));
	format.size = sizeof(format);
	if (!f.code || dlbuf_format_find(f.code, DLBUF_MOD_LINEAR, f.code_space, &format))
		return dlbuf_fail(-EOPNOTSUPP, "neither DRM nor V4L2 has a code "
				  "for SPA's video format %u", info->format);
	if (info->interlace_mode == SPA_VIDEO_INTERLACE_MODE_FIELDS)
		return dlbuf_fail(-EOPNOTSUPP, "a buffer of fields is more than "
				  "one picture");
	if (info->flags & SPA_VIDEO_FLAG_MODIFIER_FIXATION_REQUIRED)
		return dlbuf_fail(-EINVAL, "the format's modifier is not fixed "
				  "yet");
	f.modifier = DLBUF_MOD_LINEAR;
	/* Only the driver can compute the planes of a tiled picture. */
	if (info->flags & SPA_VIDEO_FLAG_MODIFIER && info->modifier != DLBUF_MOD_LINEAR)
		format.nplanes = 1;
	ret = dlbuf_pipewire_planes_(buffer, &format, &f);
	if (!ret)
		ret = dlbuf_pipewire_metas_(buffer, &f);
	if (ret)
		return ret;
	if (info->flags & SPA_VIDEO_FLAG_MODIFIER)
		f.modifier = info->modifier;
	f.colour = dlbuf_pipewire_colour_(info);
	if (info->interlace_mode == SPA_VIDEO_INTERLACE_MODE_PROGRESSIVE)
		f.field = DLBUF_FIELD_NONE;
	else if (info->interlace_mode == SPA_VIDEO_INTERLACE_MODE_INTERLEAVED)
		f.field = DLBUF_FIELD_INTERLACED;
	f.order = DLBUF_ORDER_IMPLICIT;
	f.fence = -1;
	sync = dlbuf_pipewire_timelines_(buffer, timelines);
	if (sync) {
		if (drm_fd < 0 || !timelines[0] || !timelines[1])
			return dlbuf_fail(-EINVAL, "the buffer has a timeline, "
					  "and there is no DRM node or no "
					  "syncobj for it");
		ret = dlbuf_pipewire_handle_(drm_fd, timelines[0], &handle);
		if (ret)
			return ret;
		ret = dlbuf_syncobj_export(drm_fd, handle, sync->acquire_point,
					   &f.fence);
		dlbuf_pipewire_forget_(drm_fd, handle);
		if (ret)
			return ret;
		f.order = DLBUF_ORDER_FENCE;
	}
	*frame = f;
	return 0;
}

/* A frame that is in use. pw->lock protects its fields. */
struct dlbuf_pipewire_lease_ {
	struct dlbuf_pipewire_lease_ *next;
	struct dlbuf_pipewire *pw;
	struct pw_buffer *buffer;	/* NULL: the stream has removed it */
	int fence;
	uint32_t timeline;		/* release timeline to signal; or 0 */
	uint64_t point;
};

/* The leases of a stream. Made by dlbuf_pipewire_open(). */
struct dlbuf_pipewire {
	pthread_mutex_t lock;
	unsigned int refs;		/* one of the caller, one per lease */
	int drm_fd;
	struct pw_stream *stream;	/* NULL when closed, like loop and event */
	struct pw_loop *loop;
	struct spa_source *event;
	struct dlbuf_pipewire_lease_ *out;	/* leases that tensors hold */
	struct dlbuf_pipewire_lease_ *back;	/* leases that the loop will queue */
};

static inline void dlbuf_pipewire_unref_(struct dlbuf_pipewire *pw)
{
	unsigned int left;

	pthread_mutex_lock(&pw->lock);
	left = --pw->refs;
	pthread_mutex_unlock(&pw->lock);
	if (left)
		return;
	pthread_mutex_destroy(&pw->lock);
	if (pw->drm_fd >= 0)
		close(pw->drm_fd);
	free(pw);
}

/* Runs on the loop's thread, where the stream also removes buffers. */
static inline void dlbuf_pipewire_queue_(void *data, uint64_t count)
{
	struct dlbuf_pipewire *pw = (struct dlbuf_pipewire *)data;
	struct dlbuf_pipewire_lease_ *back, *next;

	(void)count;
	pthread_mutex_lock(&pw->lock);
	back = pw->back;
	pw->back = NULL;
	pthread_mutex_unlock(&pw->lock);
	for (; back; back = next) {
		next = back->next;
		if (back->buffer)
			pw_stream_queue_buffer(pw->stream, back->buffer);
		free(back);
		dlbuf_pipewire_unref_(pw);
	}
}

/* The lease. Runs on any thread. */
static inline void dlbuf_pipewire_release_(void *data)
{
	struct dlbuf_pipewire_lease_ *lease =
		(struct dlbuf_pipewire_lease_ *)data, **at;
	struct dlbuf_pipewire *pw = lease->pw;

	if (lease->fence >= 0)
		close(lease->fence);
	if (lease->timeline) {
		/* All work on the frame is complete: -1 is a signalled fence. */
		dlbuf_syncobj_import(pw->drm_fd, lease->timeline, lease->point,
				     -1);
		dlbuf_pipewire_forget_(pw->drm_fd, lease->timeline);
	}
	pthread_mutex_lock(&pw->lock);
	for (at = &pw->out; *at != lease; at = &(*at)->next)
		;
	*at = lease->next;
	if (pw->stream) {
		lease->next = pw->back;
		pw->back = lease;
		/* The source is not destroyed while the lock is held. */
		pw_loop_signal_event(pw->loop, pw->event);
		pthread_mutex_unlock(&pw->lock);
		return;
	}
	pthread_mutex_unlock(&pw->lock);
	free(lease);
	dlbuf_pipewire_unref_(pw);
}

/*
 * Prepares a stream for leases. stream and loop are borrowed until
 * dlbuf_pipewire_close(). loop is the loop of the stream's events: the main loop or
 * the thread loop of its context. A stream with PW_STREAM_FLAG_RT_PROCESS must
 * dequeue on that loop too. drm_fd is a DRM node with timelines, for explicit
 * synchronisation, or -1; it is duplicated. *pw is new. Call it on the loop's
 * thread, or with the lock of the thread loop, or before the loop runs.
 * -EBADF   drm_fd is not open
 */
static inline int dlbuf_pipewire_open(struct pw_stream *stream,
				      struct pw_loop *loop, int drm_fd,
				      struct dlbuf_pipewire **out)
{
	struct dlbuf_pipewire *pw;
	int ret;

	pw = (struct dlbuf_pipewire *)calloc(1, sizeof(*pw));
	if (!pw)
		return dlbuf_fail(-ENOMEM, "no memory for a stream");
	pw->drm_fd = -1;
	pw->event = pw_loop_add_event(loop, dlbuf_pipewire_queue_, pw);
	if (!pw->event) {
		ret = dlbuf_fail(-ENOMEM, "pw_loop_add_event() failed");
		goto err;
	}
	if (drm_fd >= 0) {
		pw->drm_fd = fcntl(drm_fd, F_DUPFD_CLOEXEC, 3);
		if (pw->drm_fd < 0) {
			ret = dlbuf_fail(errno == EBADF ? -EBADF : -EMFILE,
					 "drm_fd %d: %s", drm_fd, strerror(errno));
			goto err;
		}
	}
	pthread_mutex_init(&pw->lock, NULL);
	pw->refs = 1;
	pw->stream = stream;
	pw->loop = loop;
	*out = pw;
	return 0;

err:
	if (pw->event)
		pw_loop_destroy_source(loop, pw->event);
	free(pw);
	return ret;
}

static inline void dlbuf_pipewire_buffers_(struct spa_pod_builder *b, uint32_t meta,
					   const struct spa_pod **param)
{
	struct spa_pod_frame object;

	spa_pod_builder_push_object(b, &object, SPA_TYPE_OBJECT_ParamBuffers, SPA_PARAM_Buffers);
	spa_pod_builder_add(b, SPA_PARAM_BUFFERS_dataType,
			    SPA_POD_CHOICE_FLAGS_Int(1 << SPA_DATA_DmaBuf), 0);
	if (meta) {
		spa_pod_builder_prop(b, SPA_PARAM_BUFFERS_metaType, SPA_POD_PROP_FLAG_MANDATORY);
		spa_pod_builder_int(b, 1 << meta);
	}
	*param = (const struct spa_pod *)spa_pod_builder_pop(b, &object);
}

/*
 * Makes the params with which a stream asks for all that dlbuf_pipewire_frame() reads, for
 * pw_stream_update_params() when the format has changed: dma-bufs; the sequence and the time
 * of a frame (SPA_META_Header), its crop (_VideoCrop: a window of a screen) and orientation
 * (_VideoTransform: a turned screen or camera); and, if pw has a DRM node, timelines for
 * explicit synchronisation (_SyncTimeline), from producers that have them.
 *
 * pw is borrowed. b is a builder with a buffer; 1 KiB is enough. params has room for *n, at
 * least 6, and points into the buffer. *n becomes the number of params. On failure b and
 * *n are unchanged. Does not block. Returns 0, or
 * -ENOSPC  the buffer or the array is too small
 */
static inline int dlbuf_pipewire_buffer_params(const struct dlbuf_pipewire *pw,
					       struct spa_pod_builder *b,
					       const struct spa_pod *params[], uint32_t *n)
{
	static const struct {
		uint32_t type, size;
	} metas[] = {
		{ SPA_META_Header, sizeof(struct spa_meta_header) },
		{ SPA_META_VideoCrop, sizeof(struct spa_meta_region) },
		{ SPA_META_VideoTransform, sizeof(struct spa_meta_videotransform) },
		{ SPA_META_SyncTimeline, sizeof(struct spa_meta_sync_timeline) },
	};
	uint32_t timelines = pw->drm_fd >= 0, want = 4 + 2 * timelines, i, made = 0;
	struct spa_pod_builder_state before;
	struct spa_pod_frame object;

	if (*n < want)
		return dlbuf_fail(-ENOSPC, "the array has room for %u of %u params", *n, want);
	spa_pod_builder_get_state(b, &before);
	/* The producer takes the first param that it supports. */
	if (timelines)
		dlbuf_pipewire_buffers_(b, SPA_META_SyncTimeline, &params[made++]);
	dlbuf_pipewire_buffers_(b, 0, &params[made++]);
	for (i = 0; i < 3 + timelines; i++) {
		spa_pod_builder_push_object(b, &object, SPA_TYPE_OBJECT_ParamMeta, SPA_PARAM_Meta);
		spa_pod_builder_add(b, SPA_PARAM_META_type, SPA_POD_Id(metas[i].type),
				    SPA_PARAM_META_size, SPA_POD_Int((int)metas[i].size), 0);
		params[made++] = (const struct spa_pod *)spa_pod_builder_pop(b, &object);
	}
	for (i = 0; i < made; i++) {
		if (params[i])
			continue;
		spa_pod_builder_reset(b, &before);
		return dlbuf_fail(-ENOSPC, "the builder's %u bytes have no room for the params",
				  b->size);
	}
	*n = made;
	return 0;
}

/*
 * Removes a buffer. Always call it from the stream's remove_buffer event. Leases of
 * the buffer that fire later queue nothing. Tensors keep the memory of the
 * dma-bufs, but the producer may overwrite it. Then call dlbuf_device_trim(dev, 0):
 * until then the device keeps its import of the buffer, and with it the memory.
 */
static inline void dlbuf_pipewire_remove_buffer(struct dlbuf_pipewire *pw,
						const struct pw_buffer *buffer)
{
	struct dlbuf_pipewire_lease_ *l;

	pthread_mutex_lock(&pw->lock);
	for (l = pw->out; l; l = l->next)
		if (l->buffer == buffer)
			l->buffer = NULL;
	for (l = pw->back; l; l = l->next)
		if (l->buffer == buffer)
			l->buffer = NULL;
	pthread_mutex_unlock(&pw->lock);
}

/*
 * Closes pw (taken; NULL does nothing). Call it after pw_stream_destroy(), or, if
 * the stream lives on, when you no longer dequeue; in both cases before the loop is
 * destroyed, and on the thread of dlbuf_pipewire_open(). Leases that are held stay
 * valid, and queue nothing when they fire.
 */
static inline void dlbuf_pipewire_close(struct dlbuf_pipewire *pw)
{
	struct dlbuf_pipewire_lease_ *back, *next;

	if (!pw)
		return;
	pthread_mutex_lock(&pw->lock);
	pw_loop_destroy_source(pw->loop, pw->event);
	pw->stream = NULL;
	pw->loop = NULL;
	pw->event = NULL;
	back = pw->back;
	pw->back = NULL;
	pthread_mutex_unlock(&pw->lock);
	for (; back; back = next) {
		next = back->next;
		free(back);
		dlbuf_pipewire_unref_(pw);
	}
	dlbuf_pipewire_unref_(pw);
}

/*
 * Describes a dequeued buffer as a frame, as dlbuf_pipewire_describe() does, with a
 * lease. When the lease fires, on any thread, it signals the release point of the
 * SyncTimeline, if there is one, and makes the loop queue the buffer. frame->fence
 * belongs to the lease, which closes it.
 *
 * If the frame is not imported, or dlbuf_import_frame() fails, return the buffer
 * with dlbuf_frame_drop(&frame). If this function fails, you must queue
 * the buffer yourself. buffer stays the stream's. info is borrowed.
 *
 * Errors of dlbuf_pipewire_describe().
 */
static inline int dlbuf_pipewire_frame(struct dlbuf_pipewire *pw,
				       struct pw_buffer *buffer,
				       const struct spa_video_info_raw *info,
				       struct dlbuf_frame *frame)
{
	const struct spa_data *timelines[2];
	struct dlbuf_pipewire_lease_ *lease;
	struct spa_meta_sync_timeline *sync;
	struct dlbuf_frame f;
	int ret;

	memset(frame, 0, sizeof(*frame));
	ret = dlbuf_pipewire_describe(buffer->buffer, info, pw->drm_fd, &f);
	if (ret)
		return ret;
	lease = (struct dlbuf_pipewire_lease_ *)calloc(1, sizeof(*lease));
	if (!lease) {
		ret = dlbuf_fail(-ENOMEM, "no memory for a lease");
		goto err;
	}
	sync = (struct spa_meta_sync_timeline *)
		dlbuf_pipewire_timelines_(buffer->buffer, timelines);
	if (sync) {
		ret = dlbuf_pipewire_handle_(pw->drm_fd, timelines[1],
					     &lease->timeline);
		if (ret)
			goto err;
		lease->point = sync->release_point;
#ifdef SPA_META_SYNC_TIMELINE_UNSCHEDULED_RELEASE
		/* The lease will signal the release point. */
		sync->flags &= ~SPA_META_SYNC_TIMELINE_UNSCHEDULED_RELEASE;
#endif
	}
	lease->pw = pw;
	lease->buffer = buffer;
	lease->fence = f.fence;
	f.release = dlbuf_pipewire_release_;
	f.release_data = lease;
	pthread_mutex_lock(&pw->lock);
	pw->refs++;
	lease->next = pw->out;
	pw->out = lease;
	pthread_mutex_unlock(&pw->lock);
	*frame = f;
	return 0;

err:
	free(lease);
	if (f.fence >= 0)
		close(f.fence);
	return ret;
}

/*
 * ---- from a frame to a buffer: a source
 *
 * A stream with PW_DIRECTION_OUTPUT and PW_STREAM_FLAG_ALLOC_BUFFERS, whose buffers are
 * dma-bufs of the program, of a pool for example. frames[] are the frames that PipeWire
 * holds.
 *
 *	static void on_add_buffer(void *data, struct pw_buffer *b)
 *	{
 *		... i is a number that is free; frame is dlbuf_pool_frame() of it ...
 *		if (dlbuf_pipewire_add_buffer(&frame, b))
 *			warnx("%s", dlbuf_last_error());
 *		b->user_data = &frames[i];
 *	}
 *	static void on_process(void *data)
 *	{
 *		struct pw_buffer *b = pw_stream_dequeue_buffer(stream);
 *		struct dlbuf_frame *frame;
 *
 *		if (!b)
 *			return;
 *		frame = b->user_data;
 *		dlbuf_frame_drop(frame);	// what was in it has been seen
 *		... draw into the tensors of this buffer ...
 *		if (dlbuf_frame_from_tensors(tensors, n, 0, frame) ||
 *		    dlbuf_pipewire_put(frame, b))
 *			warnx("%s", dlbuf_last_error());
 *		pw_stream_queue_buffer(stream, b);
 *	}
 *	static void on_remove_buffer(void *data, struct pw_buffer *b)
 *	{
 *		dlbuf_frame_drop(b->user_data);	// the sink may have ended with it
 *	}
 */

/*
 * dlbuf_frame_expand() of a frame for the blocks of a buffer; *info becomes the frame's
 * format. The frame stays the caller's, so this drops the share of its lease.
 */
static inline int dlbuf_pipewire_expand_(const struct dlbuf_frame *frame,
					 const struct spa_buffer *b, struct dlbuf_frame *e,
					 struct dlbuf_format_info *info)
{
	uint32_t i;
	int ret;

	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	ret = dlbuf_frame_expand_(frame, 0, e);
	if (ret)
		return ret;
	dlbuf_frame_drop(e);
	ret = dlbuf_format_find(e->code, e->modifier, e->code_space, info);
	if (!ret && b->n_datas != 1 && b->n_datas != e->nplanes)
		ret = dlbuf_fail(-EINVAL, "the buffer has %u blocks, the frame %u planes",
				 b->n_datas, e->nplanes);
	if (!ret && b->n_datas == 1 && e->modifier == DLBUF_MOD_LINEAR)
		ret = dlbuf_planes_follow_(e, info);
	for (i = 0; !ret && i < e->nplanes; i++) {
		const struct dlbuf_plane *p = &e->planes[i];
		uint64_t rows = dlbuf_plane_rows_(e, info, i);

		/* A chunk has 32-bit numbers, and its offset is that of its lowest byte. */
		if (p->pitch <= 0 || p->pitch > INT32_MAX || p->offset > UINT32_MAX ||
		    (uint64_t)p->pitch * rows > UINT32_MAX - p->offset)
			ret = dlbuf_fail(-EOPNOTSUPP, "no chunk has %llu rows with a pitch of "
					 "%lld at byte %llu", (unsigned long long)rows,
					 (long long)p->pitch, (unsigned long long)p->offset);
	}
	return ret;
}

/*
 * Gives a buffer of an output stream the dma-bufs of a frame, for example of a pool. Call
 * it in the stream's add_buffer event. The stream was connected with
 * PW_STREAM_FLAG_ALLOC_BUFFERS, and its SPA_PARAM_Buffers has the dataType 1 <<
 * SPA_DATA_DmaBuf and as many blocks as the format has planes, or 1.
 *
 * frame is borrowed. The fds are borrowed until the remove_buffer event. Does not block.
 * Returns 0, or
 * -EOPNOTSUPP  the other side takes no dma-bufs; with 1 block, planes that do not follow
 *              one another in one dma-buf; a pitch that is not positive, bytes above 4 GiB
 * -EINVAL      neither 1 block nor one for each plane
 * and the errors of dlbuf_frame_expand()
 */
static inline int dlbuf_pipewire_add_buffer(const struct dlbuf_frame *frame,
					    struct pw_buffer *buffer)
{
	struct spa_buffer *b = buffer->buffer;
	struct dlbuf_format_info info;
	struct dlbuf_frame e;
	uint32_t i;
	int ret;

	ret = dlbuf_pipewire_expand_(frame, b, &e, &info);
	for (i = 0; !ret && i < b->n_datas; i++) {
		/* These bits are the data types that the stream accepts. */
		if (!(b->datas[i].type & 1u << SPA_DATA_DmaBuf))
			ret = dlbuf_fail(-EOPNOTSUPP, "the other side takes no dma-bufs, but data "
					 "types 0x%x", b->datas[i].type);
		else if (e.planes[i].offset + e.planes[i].bytes > UINT32_MAX)
			ret = dlbuf_fail(-EOPNOTSUPP, "the dma-buf of plane %u is larger than "
					 "PipeWire can say", i);
	}
	for (i = 0; !ret && i < b->n_datas; i++) {
		struct spa_data *d = &b->datas[i];

		d->type = SPA_DATA_DmaBuf;
		d->flags = SPA_DATA_FLAG_READABLE | SPA_DATA_FLAG_MAPPABLE;
		if (!(e.flags & DLBUF_FRAME_READ_ONLY))
			d->flags |= SPA_DATA_FLAG_WRITABLE;
		d->fd = e.planes[i].fd;
		d->mapoffset = 0;
		d->maxsize = (uint32_t)(e.planes[i].offset + e.planes[i].bytes);
		d->data = NULL;
	}
	return ret;
}

static inline int dlbuf_pipewire_same_(int64_t a, int b)
{
	struct stat x, y;

	return !fstat((int)a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/*
 * Describes a frame in the buffer that has its dma-bufs, for pw_stream_queue_buffer(): fills
 * in offset, size and stride of each chunk, the header's sequence and PTS, the crop and the
 * orientation. The stream has negotiated format, size, modifier, colour and interlacing
 * before. Keep the frame until pw_stream_dequeue_buffer() returns the buffer again or the
 * remove_buffer event takes it. Then call dlbuf_frame_drop().
 *
 * frame and buffer are borrowed. Blocks until the frame's fence, or the fences that its
 * producer has added to the dma-bufs, have signalled: consumers without a SyncTimeline need
 * not wait. Returns 0, or
 * -EINVAL      the buffer has other dma-bufs, or another number of blocks
 * -EOPNOTSUPP  as dlbuf_pipewire_add_buffer(); a crop, and the buffer has no
 *              SPA_META_VideoCrop; an orientation, and no SPA_META_VideoTransform
 * -EIO         the work on the frame failed
 * and the errors of dlbuf_frame_expand()
 */
static inline int dlbuf_pipewire_put(const struct dlbuf_frame *frame, struct pw_buffer *buffer)
{
	struct spa_buffer *b = buffer->buffer;
	struct spa_meta_header *h;
	struct spa_meta_region *crop;
	struct spa_meta_videotransform *transform;
	struct dlbuf_format_info info;
	struct dlbuf_frame e;
	uint32_t i;
	int ret;

	ret = dlbuf_pipewire_expand_(frame, b, &e, &info);
	for (i = 0; !ret && i < b->n_datas; i++)
		if (b->datas[i].type != SPA_DATA_DmaBuf ||
		    !dlbuf_pipewire_same_(b->datas[i].fd, e.planes[i].fd))
			ret = dlbuf_fail(-EINVAL, "plane %u is in another dma-buf than the "
					 "buffer", i);
	crop = (struct spa_meta_region *)spa_buffer_find_meta_data(b, SPA_META_VideoCrop,
								   sizeof(*crop));
	if (!ret && !crop && e.crop.width)
		ret = dlbuf_fail(-EOPNOTSUPP, "the buffer has no SPA_META_VideoCrop, and the frame "
				 "a crop of %ux%u", e.crop.width, e.crop.height);
	transform = (struct spa_meta_videotransform *)spa_buffer_find_meta_data(
		b, SPA_META_VideoTransform, sizeof(*transform));
	if (!ret && !transform && e.orientation)
		ret = dlbuf_fail(-EOPNOTSUPP, "the buffer has no SPA_META_VideoTransform, and the "
				 "frame orientation %d", e.orientation);
	if (!ret)
		ret = dlbuf_frame_wait_(&e);
	if (ret)
		return ret;
	for (i = 0; i < b->n_datas; i++) {
		const struct dlbuf_plane *p = &e.planes[i];
		uint32_t end = b->n_datas == 1 ? e.nplanes - 1 : i;

		b->datas[i].chunk->offset = (uint32_t)p->offset;
		b->datas[i].chunk->stride = (int32_t)p->pitch;
		b->datas[i].chunk->size = (uint32_t)(e.planes[end].offset - p->offset +
			(uint64_t)e.planes[end].pitch * dlbuf_plane_rows_(&e, &info, end));
		b->datas[i].chunk->flags = e.flags & DLBUF_FRAME_DAMAGED ?
			SPA_CHUNK_FLAG_CORRUPTED : SPA_CHUNK_FLAG_NONE;
	}
	h = (struct spa_meta_header *)spa_buffer_find_meta_data(b, SPA_META_Header, sizeof(*h));
	if (h) {
		memset(h, 0, sizeof(*h));
		h->flags = e.flags & DLBUF_FRAME_DAMAGED ? SPA_META_HEADER_FLAG_CORRUPTED : 0;
		h->seq = e.sequence;
		h->pts = e.clock ? e.timestamp_ns : SPA_TIME_INVALID;
	}
	if (crop) {
		crop->region.position.x = (int32_t)e.crop.x;
		crop->region.position.y = (int32_t)e.crop.y;
		crop->region.size.width = e.crop.width;
		crop->region.size.height = e.crop.height;
	}
	if (transform)
		transform->transform = (uint32_t)e.orientation;
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_PIPEWIRE_H */
