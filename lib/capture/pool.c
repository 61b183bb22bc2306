// SPDX-License-Identifier: MIT
/* Pools: buffers of one format, for a producer that captures into them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <dlbuf/format.h>
#include <dlbuf/pool.h>

#include "../alloc/exporter.h"
#include "../alloc/v4l2.h"
#include "../dmabuf/buffer.h"
#include "../frame/format.h"
#include "../import/backend.h"
#include "../system/internal.h"
#include "../system/sys.h"

/* All kinds of importers accept this; it is also a cache line. */
#define DEFAULT_ALIGN 64

struct pool_buffer {
	int fds[DLBUF_MAX_PLANES];
	/*
	 * These tensors keep the imports. The tensor of dma-buf i on device d is at i * ndevs +
	 * d.
	 */
	DLManagedTensorVersioned **tensors;
};

struct dlbuf_pool {
	struct dlbuf_pool_info info;
	struct dlbuf_frame frame;	/* the fields that all buffers have in common */
	size_t ndevs;
	struct pool_buffer buffers[];
};

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static int align_up(uint64_t *n, uint64_t align)
{
	if (__builtin_add_overflow(*n, align - 1, n))
		return fail(-EOVERFLOW, "the frame's bytes do not fit 64 bits");
	*n &= ~(align - 1);
	return 0;
}

/* Fills in alignments that the caller has not set, from the devices. */
static int choose_alignments(struct dlbuf_device *const devs[], size_t ndevs,
			     struct dlbuf_pool_opts *o)
{
	uint32_t pitch = DEFAULT_ALIGN, offset = DEFAULT_ALIGN;

	for (size_t i = 0; i < ndevs; i++) {
		DLBUF_INFO(dlbuf_device_info, info);
		int ret = dlbuf_device_get_info(devs[i], &info);

		if (ret)
			return ret;
		if (info.pitch_align > pitch)
			pitch = info.pitch_align;
		if (info.offset_align > offset)
			offset = info.offset_align;
	}
	if (!o->pitch_align)
		o->pitch_align = pitch;
	if (!o->offset_align)
		o->offset_align = offset;
	if (!is_power_of_two(o->pitch_align) || !is_power_of_two(o->offset_align))
		return fail(-EINVAL, "alignments of %u and %u bytes are not "
			    "powers of two", o->pitch_align, o->offset_align);
	return 0;
}

static int check_opts(const struct dlbuf_pool_opts *o)
{
	if (o->flags & ~DLBUF_POOL_PLANE_FDS)
		return unknown_flags("pool", o->flags & ~DLBUF_POOL_PLANE_FDS);
	if (!o->buffers || o->buffers > DLBUF_POOL_MAX_BUFFERS)
		return fail(-EINVAL, "a pool of %u buffers; there can be 1 to "
			    "%d", o->buffers, DLBUF_POOL_MAX_BUFFERS);
	if (!o->width || !o->height)
		return fail(-EINVAL, "the frames are %ux%u pixels large", o->width,
			    o->height);
	if (o->pitch > INT64_MAX)
		return fail(-EINVAL, "the pitch of %llu bytes is too large",
			    (unsigned long long)o->pitch);
	return exporter_check_name(o->name);
}

/* Bytes of a plane's row without padding. */
static uint64_t row_bytes(const struct dlbuf_pool_opts *o,
			  const struct dlbuf_format_plane *p)
{
	return format_groups(o->width, p->hsub) * p->channels * p->bits / 8;
}

static const char *code_name(const struct dlbuf_format_info *f)
{
	return f->drm_name ? f->drm_name : f->v4l2_name;
}

/*
 * Computes the first plane's pitch. If the pitches of the other planes depend on it (for
 * I420 they are half of it), it is aligned so that they are aligned too.
 */
static int first_pitch(const struct dlbuf_pool_opts *o,
		       const struct dlbuf_format_info *f, uint64_t *pitch)
{
	const uint32_t pixels = 1u << DLBUF_VIEW_PLANES | 1u << DLBUF_VIEW_WORDS;
	uint64_t row = f->views & pixels ? row_bytes(o, &f->planes[0]) : 0;
	uint32_t part = 1;

	if (o->pitch && o->pitch < row)
		return fail(-EINVAL, "a pitch of %llu bytes is less than the "
			    "%llu of a row", (unsigned long long)o->pitch,
			    (unsigned long long)row);
	*pitch = o->pitch;
	if (o->pitch)
		return 0;
	if (!row && f->views & 1u << DLBUF_VIEW_ROWS)
		return fail(-EOPNOTSUPP, "set the pitch: only the producer knows "
			    "the bytes of a row of %s", code_name(f));
	if (!row && !o->bytes)
		return fail(-EOPNOTSUPP, "set the bytes: only the producer knows "
			    "the size of a frame of %s", code_name(f));
	for (uint32_t i = 1; i < f->nplanes; i++)
		if (f->planes[i].hsub / f->planes[i].channels > part)
			part = f->planes[i].hsub / f->planes[i].channels;
	*pitch = row;
	return align_up(pitch, (uint64_t)o->pitch_align * part);
}

static int plane_pitch(const struct dlbuf_pool_opts *o,
		       const struct dlbuf_format_info *f, uint32_t i,
		       uint64_t first, uint64_t *pitch)
{
	const struct dlbuf_format_plane *p = &f->planes[i];

	if (!i || !first) {
		*pitch = first;
		return 0;
	}
	/* The pitch of an alpha plane does not depend on that of the packed pixels. */
	if (f->planes[0].channels > 1) {
		*pitch = row_bytes(o, p);
		return align_up(pitch, o->pitch_align);
	}
	if (__builtin_mul_overflow(first, p->channels, pitch))
		return fail(-EOVERFLOW, "the frame's bytes do not fit 64 bits");
	if (*pitch % p->hsub)
		return fail(-EINVAL, "a pitch of %llu does not divide by %u for "
			    "plane %u of %s", (unsigned long long)first,
			    p->hsub, i, code_name(f));
	*pitch /= p->hsub;
	return 0;
}

static int plan(const struct dlbuf_pool_opts *o,
		const struct dlbuf_format_info *f, struct dlbuf_pool_info *info)
{
	bool gaps = o->code_space == DLBUF_CODE_DRM;
	uint64_t first, end = 0, bytes;
	int ret;

	info->buffers = o->buffers;
	info->nplanes = f->nplanes;
	info->nfds = o->flags & DLBUF_POOL_PLANE_FDS ? f->nplanes : 1;
	ret = first_pitch(o, f, &first);
	for (uint32_t i = 0; !ret && i < f->nplanes; i++) {
		ret = plane_pitch(o, f, i, first, &info->pitch[i]);
		if (!ret && gaps && info->nfds == 1)
			ret = align_up(&end, o->offset_align);
		if (ret)
			return ret;
		if (__builtin_mul_overflow(info->pitch[i], format_groups(o->height,
					   f->planes[i].vsub), &bytes) ||
		    __builtin_add_overflow(end, bytes, &end) || end > INT64_MAX)
			return fail(-EOVERFLOW, "the frame's bytes do not fit "
				    "64 bits");
		if (info->nfds > 1) {
			info->bytes[i] = bytes;
			end = 0;
		} else {
			info->offset[i] = end - bytes;
			info->bytes[0] = end;
		}
	}
	if (ret || !o->bytes)
		return ret;
	if (o->bytes < info->bytes[0] || o->bytes > INT64_MAX)
		return fail(-EINVAL, "%llu bytes are less than the %llu of a "
			    "frame", (unsigned long long)o->bytes,
			    (unsigned long long)info->bytes[0]);
	info->bytes[0] = o->bytes;
	return 0;
}

static void describe_frame(const struct dlbuf_pool_opts *o,
			   const struct dlbuf_pool_info *info,
			   struct dlbuf_frame *frame)
{
	*frame = (struct dlbuf_frame){
		.size = sizeof(*frame),
		.width = o->width,
		.height = o->height,
		.code = o->code,
		.code_space = o->code_space,
		.modifier = DLBUF_MOD_LINEAR,
		.nplanes = info->nplanes,
		.fence = -1,
	};
	for (uint32_t i = 0; i < info->nplanes; i++)
		frame->planes[i] = (struct dlbuf_plane){
			.fd = -1,
			.offset = info->offset[i],
			.pitch = info->pitch[i],
			.bytes = info->bytes[info->nfds > 1 ? i : 0] -
				 info->offset[i],
		};
}

/* The other buffers are from the exporter of the first. */
static int alloc_planes(struct dlbuf_pool *pool, struct pool_buffer *b,
			struct request *r, const char *exporter)
{
	DLTensor layouts[DLBUF_MAX_PLANES];
	int64_t shapes[DLBUF_MAX_PLANES];
	int ret;

	b->tensors = sys_calloc(r->n * r->ndevs + 1, sizeof(b->tensors[0]));
	if (!b->tensors)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->n; i++) {
		r->bytes[i] = shapes[i] = pool->info.bytes[i];
		layouts[i] = (DLTensor){
			.ndim = 1, .dtype = { kDLUInt, 8, 1 },
			.shape = &shapes[i],
		};
	}
	r->layouts = layouts;
	r->tensors = b->tensors;
	for (uint32_t i = 0; i < DLBUF_MAX_PLANES; i++)
		b->fds[i] = -1;
	ret = exporter_alloc(r, r->later ? r->exporter : exporter);
	if (ret)
		return ret;
	memcpy(b->fds, r->fds, r->n * sizeof(b->fds[0]));
	r->later = true;
	return 0;
}

/* Each import of the dma-buf is dropped, now or with its last tensor. */
static void forget_imports(int fd)
{
	struct dlbuf_device *dev = NULL;
	struct buffer_id id;

	while ((dev = device_next(dev)))
		if (!buffer_identify(fd, &id))
			cache_forget(dev, &id);
}

static void empty(struct dlbuf_pool *pool, struct pool_buffer *b)
{
	for (uint32_t j = 0; b->tensors && j < pool->info.nfds; j++)
		if (b->fds[j] >= 0)
			forget_imports(b->fds[j]);
	for (size_t j = 0; b->tensors && j < pool->info.nfds * pool->ndevs; j++)
		if (b->tensors[j])
			b->tensors[j]->deleter(b->tensors[j]);
	free(b->tensors);
	for (uint32_t j = 0; j < pool->info.nfds; j++)
		if (b->tensors && b->fds[j] >= 0)
			close(b->fds[j]);
	b->tensors = NULL;
}

#define MAX_ROUNDS 8

/*
 * A party may accept one buffer of an exporter and refuse the next one, whose pages are
 * by chance not contiguous. That exporter is then tried last, and all buffers are made
 * again.
 */
static int fill_all(struct dlbuf_pool *pool, struct request *r,
		    const char *exporter)
{
	uint32_t i = 0;
	int ret = 0;

	for (int round = 0; round < MAX_ROUNDS; round++) {
		r->later = false;
		for (i = 0; !ret && i < pool->info.buffers; i++)
			ret = alloc_planes(pool, &pool->buffers[i], r, exporter);
		if (!ret || i < 2 || exporter || !r->who ||
		    exporter_transient(ret) || round + 1 == MAX_ROUNDS)
			break;
		while (i--)
			empty(pool, &pool->buffers[i]);
		ret = 0;
	}
	return ret;
}

/*
 * Asks the nodes for the frames until all answer with the pitch that they were asked for.
 * A format without rows gets its size from them, too.
 */
static int negotiate(struct node *nodes, unsigned long request,
		     const struct dlbuf_format_info *format,
		     struct dlbuf_pool_opts *o, struct dlbuf_pool_info *info)
{
	uint64_t bytes[DLBUF_MAX_PLANES] = { 0 };
	int ret = plan(o, format, info);

	for (int round = 0; o->nv4l2; round++) {
		uint64_t pitch = info->pitch[0];
		bool planned = !ret;

		if (ret && (ret != -EOPNOTSUPP || round))
			return ret;
		ret = nodes_ask(nodes, o->nv4l2, request, o, info, &pitch,
				bytes);
		if (ret)
			return ret;
		if (!planned && o->bytes < bytes[0])
			o->bytes = bytes[0];
		if (planned && pitch == info->pitch[0])
			break;
		if (planned && (o->pitch || round))
			return fail(-EOPNOTSUPP, "%s wants a pitch of %llu "
				    "bytes, not %llu", o->nv4l2 > 1 ?
				    "one of the V4L2 nodes" :
				    node_name(&nodes[0]),
				    (unsigned long long)pitch,
				    (unsigned long long)info->pitch[0]);
		o->pitch = pitch;
		ret = plan(o, format, info);
	}
	for (uint32_t i = 0; !ret && i < info->nfds; i++)
		if (info->bytes[i] < bytes[i])
			info->bytes[i] = bytes[i];
	return ret;
}

/*
 * Copies the caller's options to *o, and computes the layout of a buffer. *nodes is new:
 * free() it after a success.
 */
static int lay_out(struct dlbuf_device *const devs[], size_t ndevs,
		   unsigned long request, const struct dlbuf_pool_opts *opts,
		   struct dlbuf_pool_opts *o, struct dlbuf_pool_info *info,
		   struct node **nodes)
{
	struct dlbuf_format_info format = { .size = sizeof(format) };
	int ret;

	if (!opts || (ndevs && !devs))
		return fail(-EINVAL, "%s is NULL", opts ? "devs" : "opts");
	*info = (struct dlbuf_pool_info){ .size = sizeof(*info) };
	ret = OPTS_GET(o, opts, "dlbuf_pool_opts");
	if (!ret)
		ret = check_opts(o);
	if (!ret)
		ret = dlbuf_format_find(o->code, 0, o->code_space, &format);
	if (!ret)
		ret = choose_alignments(devs, ndevs, o);
	if (!ret)
		ret = nodes_open(o->v4l2, o->nv4l2, nodes);
	if (ret)
		return ret;
	if (request == VIDIOC_S_FMT)
		ret = nodes_idle(*nodes, o->nv4l2);
	if (!ret)
		ret = negotiate(*nodes, request, &format, o, info);
	if (ret)
		free(*nodes);
	return ret;
}

int dlbuf_pool_layout(struct dlbuf_device *const devs[], size_t ndevs,
		      const struct dlbuf_pool_opts *opts,
		      struct dlbuf_pool_info *out)
{
	NOT_CANCELLED;
	struct dlbuf_pool_info info;
	struct dlbuf_pool_opts o;
	struct node *nodes;
	int ret;

	if (!out)
		return fail(-EINVAL, "info is NULL");
	ret = lay_out(devs, ndevs, VIDIOC_TRY_FMT, opts, &o, &info, &nodes);
	if (ret)
		return ret;
	free(nodes);
	return INFO_PUT(out, &info, "dlbuf_pool_info");
}

int dlbuf_pool_create(struct dlbuf_device *const devs[], size_t ndevs,
		      const struct dlbuf_pool_opts *opts,
		      struct dlbuf_pool **out)
{
	NOT_CANCELLED;
	struct dlbuf_pool_info info;
	struct dlbuf_pool_opts o;
	struct request r = { .devs = devs, .ndevs = ndevs };
	struct dlbuf_pool *pool;
	int ret;

	if (!out)
		return fail(-EINVAL, "pool is NULL");
	ret = lay_out(devs, ndevs, VIDIOC_S_FMT, opts, &o, &info, &r.nodes);
	if (ret)
		return ret;
	pool = sys_calloc(1, sizeof(*pool) +
			  o.buffers * sizeof(pool->buffers[0]));
	if (!pool) {
		free(r.nodes);
		return -ENOMEM;
	}
	r.nnodes = o.nv4l2;
	r.n = info.nfds;
	r.name = o.name;
	r.report = o.report;
	r.report_data = o.report_data;
	pool->info = info;
	pool->ndevs = ndevs;
	describe_frame(&o, &info, &pool->frame);
	ret = fill_all(pool, &r, o.exporter);
	memcpy(pool->info.exporter, r.exporter, sizeof(r.exporter));
	free(r.nodes);
	if (ret) {
		dlbuf_pool_destroy(pool);
		return ret;
	}
	*out = pool;
	return 0;
}

void dlbuf_pool_destroy(struct dlbuf_pool *pool)
{
	NOT_CANCELLED;
	if (!pool)
		return;
	for (uint32_t i = 0; i < pool->info.buffers; i++)
		empty(pool, &pool->buffers[i]);
	free(pool);
}

int dlbuf_pool_get_info(struct dlbuf_pool *pool, struct dlbuf_pool_info *info)
{
	if (!pool)
		return fail(-EINVAL, "pool is NULL");
	return INFO_PUT(info, &pool->info, "dlbuf_pool_info");
}

int dlbuf_pool_frame(struct dlbuf_pool *pool, uint32_t index,
		     struct dlbuf_frame *frame)
{
	struct dlbuf_frame f;

	if (!pool || !frame)
		return fail(-EINVAL, "%s is NULL", pool ? "frame" : "pool");
	if (index >= pool->info.buffers)
		return fail(-EINVAL, "the pool has %u buffers, none of index "
			    "%u", pool->info.buffers, index);
	f = pool->frame;
	for (uint32_t i = 0; i < f.nplanes; i++)
		f.planes[i].fd = pool->buffers[index].
				 fds[pool->info.nfds > 1 ? i : 0];
	return INFO_PUT(frame, &f, "dlbuf_frame");
}
