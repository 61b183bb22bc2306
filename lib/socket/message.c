// SPDX-License-Identifier: MIT
/* Writes tensors and frames as bytes, and parses them as untrusted input. */
#include <errno.h>
#include <string.h>

#include "../system/internal.h"
#include "message.h"

unsigned int message_fds(const struct message_head *head)
{
	return head->nbuffers + !!(head->flags & MESSAGE_FENCE) +
	       !!(head->flags & MESSAGE_HOLD);
}

/* ---------------------------------------------------------------- reading */

/* The part of a message that is not parsed yet. */
struct rest {
	const unsigned char *at;
	size_t bytes;
};

static int take_bytes(struct rest *rest, void *out, size_t bytes)
{
	if (bytes > rest->bytes)
		return fail(-EPROTO, "the message ends %zu bytes early",
			    bytes - rest->bytes);
	memcpy(out, rest->at, bytes);
	rest->at += bytes;
	rest->bytes -= bytes;
	return 0;
}

static int check_head(const struct message_head *head)
{
	if (head->magic != MESSAGE_MAGIC)
		return fail(-EPROTO, "this is not a message of dlbuf: it "
			    "begins with 0x%08x", head->magic);
	if (head->version != MESSAGE_VERSION)
		return fail(-EPROTO, "the message is of version %u, dlbuf %s "
			    "speaks %u", head->version, dlbuf_version(),
			    MESSAGE_VERSION);
	if (head->kind != MESSAGE_TENSORS && head->kind != MESSAGE_FRAME)
		return fail(-EPROTO, "the message has unknown kind %u", head->kind);
	if (head->bytes < sizeof(*head) || head->bytes > MESSAGE_MAX_BYTES)
		return fail(-EPROTO, "the message says that it has %u bytes", head->bytes);
	return 0;
}

static int check_counts(const struct message_head *h)
{
	bool frame = h->kind == MESSAGE_FRAME;

	if (!h->nbuffers || h->nbuffers > MESSAGE_MAX_BUFFERS)
		return fail(-EPROTO, "the message has %u dma-bufs", h->nbuffers);
	if (frame ? h->ntensors : !h->ntensors ||
	    h->ntensors > DLBUF_MAX_PLANES)
		return fail(-EPROTO, "a message of kind %u cannot have %u tensors",
			    h->kind, h->ntensors);
	if (h->flags & ~(MESSAGE_HOLD | (frame ? MESSAGE_FENCE : 0)) ||
	    h->reserved || h->reserved2)
		return fail(-EPROTO, "the message's head has flags 0x%x and "
			    "0x%x, and 0x%x after them", h->flags, h->reserved,
			    h->reserved2);
	for (unsigned int i = 0; i < MESSAGE_MAX_BUFFERS; i++) {
		uint8_t access = h->access[i];

		if (i < h->nbuffers ? !access || access > DLBUF_RW : access)
			return fail(-EPROTO, "dma-buf %u of %u has access %u",
				    i, h->nbuffers, access);
	}
	return 0;
}

static int use_buffer(struct message *m, unsigned int i, uint32_t buffer,
		      unsigned int *used)
{
	if (buffer >= m->head.nbuffers)
		return fail(-EPROTO, "the message names dma-buf %u of %u", buffer,
			    m->head.nbuffers);
	m->buffer[i] = buffer;
	*used |= 1u << buffer;
	return 0;
}

static int parse_tensor(struct rest *rest, struct message *m, unsigned int i,
			unsigned int *used)
{
	struct dlbuf_frame_layout *l = &m->layouts[i];
	struct message_tensor t = { 0 };
	uint64_t first, end;
	int ret;

	ret = take_bytes(rest, &t, sizeof(t));
	if (!ret)
		ret = use_buffer(m, i, t.buffer, used);
	if (ret)
		return ret;
	if (t.ndim > DLBUF_MAX_NDIM || t.reserved)
		return fail(-EPROTO, "the tensor has %u dimensions, and 0x%x "
			    "after its type", t.ndim, t.reserved);
	ret = take_bytes(rest, m->dims[i], 2 * t.ndim * sizeof(m->dims[0][0]));
	if (ret)
		return ret;
	*l = (struct dlbuf_frame_layout){
		.fd = -1,
		.layout = {
			.ndim = t.ndim,
			.dtype = { t.code, t.bits, t.lanes },
			.shape = m->dims[i],
			.strides = m->dims[i] + t.ndim,
			.byte_offset = t.byte_offset,
		},
	};
	/* Every error is a mistake of the sender: -EPROTO, with the reason in the error text. */
	return dlbuf_layout_extent(&l->layout, &first, &end) ? -EPROTO : 0;
}

static int check_frame(const struct message_head *h,
		       const struct message_frame *f)
{
	const uint32_t flags = DLBUF_FRAME_DAMAGED | DLBUF_FRAME_SEQUENCE;
	const struct {
		const char *name;
		uint32_t value, last;
	} members[] = {
		{ "clock", f->clock, DLBUF_CLOCK_UNKNOWN },
		{ "field", f->field, DLBUF_FIELD_SEQ_BT },
		{ "order", f->order, DLBUF_ORDER_FENCE },
		{ "orientation", f->orientation, DLBUF_ORIENTATION_TRANSVERSE },
	};

	if (!f->nplanes || f->nplanes > DLBUF_MAX_PLANES)
		return fail(-EPROTO, "the frame has %u planes", f->nplanes);
	if (f->code_space < DLBUF_CODE_DRM ||
	    f->code_space > DLBUF_CODE_LIBCAMERA)
		return fail(-EPROTO, "the frame's code space %u is not DRM, "
			    "V4L2 or libcamera", f->code_space);
	if (f->flags & ~flags)
		return fail(-EPROTO, "the frame's flags 0x%x are unknown", f->flags & ~flags);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (members[i].value > members[i].last)
			return fail(-EPROTO, "the frame's %s is %d: 0 to %u are possible",
				    members[i].name, (int)members[i].value, members[i].last);
	if (h->flags & MESSAGE_FENCE && f->order != DLBUF_ORDER_FENCE)
		return fail(-EPROTO, "the frame has a fence and order %u",
			    f->order);
	return 0;
}

static int parse_planes(const struct message_frame *f, struct message *m,
			unsigned int *used)
{
	static const struct message_plane none;

	for (unsigned int i = 0; i < DLBUF_MAX_PLANES; i++) {
		const struct message_plane *p = &f->planes[i];
		int ret;

		if (i >= f->nplanes) {
			if (memcmp(p, &none, sizeof(none)))
				return fail(-EPROTO, "plane %u of %u is not "
					    "empty", i, f->nplanes);
			continue;
		}
		ret = use_buffer(m, i, p->buffer, used);
		if (ret)
			return ret;
		if (p->reserved)
			return fail(-EPROTO, "plane %u has 0x%x after its "
				    "dma-buf", i, p->reserved);
		m->frame.planes[i] = (struct dlbuf_plane){
			.fd = -1,
			.offset = p->offset,
			.pitch = p->pitch,
			.bytes = p->bytes,
		};
	}
	return 0;
}

/* Unknown values of these fields are harmless, so they are not checked. */
static int parse_colour(const uint8_t bytes[8], struct dlbuf_colour *out)
{
	memcpy(out, bytes, sizeof(*out));
	if (out->range > DLBUF_RANGE_FULL || out->hue > DLBUF_HUE_256 ||
	    out->reserved[0] || out->reserved[1])
		return fail(-EPROTO, "the frame has range %u, hue %u, and "
			    "0x%02x%02x after them", out->range, out->hue,
			    out->reserved[0], out->reserved[1]);
	return 0;
}

static int parse_frame(struct rest *rest, struct message *m,
		       unsigned int *used)
{
	struct message_frame f;
	int ret;

	ret = take_bytes(rest, &f, sizeof(f));
	if (!ret)
		ret = check_frame(&m->head, &f);
	if (ret)
		return ret;
	m->frame = (struct dlbuf_frame){
		.size = sizeof(m->frame),
		.width = f.width,
		.height = f.height,
		.code = f.code,
		.code_space = f.code_space,
		.modifier = f.modifier,
		.nplanes = f.nplanes,
		.flags = f.flags,
		.crop = { f.crop[0], f.crop[1], f.crop[2], f.crop[3] },
		.timestamp_ns = f.timestamp_ns,
		.sequence = f.sequence,
		.clock = f.clock,
		.field = f.field,
		.order = f.order,
		.orientation = f.orientation,
		.fence = -1,
	};
	ret = parse_colour(f.colour, &m->frame.colour);
	return ret ? ret : parse_planes(&f, m, used);
}

int message_parse(const void *data, size_t bytes, unsigned int nfds,
		  struct message *out)
{
	struct rest rest = { data, bytes };
	unsigned int used = 0;
	int ret;

	ret = take_bytes(&rest, &out->head, sizeof(out->head));
	if (!ret)
		ret = check_head(&out->head);
	if (ret)
		return ret;
	if (out->head.bytes != bytes)
		return fail(-EPROTO, "the message has %zu bytes and says %u",
			    bytes, out->head.bytes);
	ret = check_counts(&out->head);
	if (ret)
		return ret;
	if (message_fds(&out->head) != nfds)
		return fail(-EPROTO, "the message needs %u fds and came with %u",
			    message_fds(&out->head), nfds);
	if (out->head.kind == MESSAGE_FRAME)
		ret = parse_frame(&rest, out, &used);
	for (unsigned int i = 0; !ret && i < out->head.ntensors; i++)
		ret = parse_tensor(&rest, out, i, &used);
	if (ret)
		return ret;
	if (rest.bytes)
		return fail(-EPROTO, "the message goes on for %zu bytes after "
			    "its end", rest.bytes);
	if (used != (1u << out->head.nbuffers) - 1)
		return fail(-EPROTO, "of the message's %u dma-bufs some are for "
			    "nothing", out->head.nbuffers);
	return 0;
}

/* ---------------------------------------------------------------- writing */

static void append(struct packet *p, const void *data, size_t bytes)
{
	memcpy(p->data + p->bytes, data, bytes);
	p->bytes += bytes;
}

void message_begin(struct packet *p, struct message_head *head, uint16_t kind)
{
	*head = (struct message_head){
		.magic = MESSAGE_MAGIC,
		.version = MESSAGE_VERSION,
		.kind = kind,
	};
	p->bytes = sizeof(*head);
}

void message_put_tensor(struct packet *p, const DLTensor *layout,
			unsigned int buffer)
{
	const struct message_tensor t = {
		.byte_offset = layout->byte_offset,
		.buffer = buffer,
		.ndim = layout->ndim,
		.code = layout->dtype.code,
		.bits = layout->dtype.bits,
		.lanes = layout->dtype.lanes,
	};
	size_t bytes = layout->ndim * sizeof(int64_t);

	append(p, &t, sizeof(t));
	if (bytes) {
		append(p, layout->shape, bytes);
		append(p, layout->strides, bytes);
	}
}

void message_put_frame(struct packet *p, const struct dlbuf_frame *frame,
		       const uint8_t buffer[])
{
	struct message_frame f = {
		.width = frame->width,
		.height = frame->height,
		.code = frame->code,
		.code_space = frame->code_space,
		.modifier = frame->modifier,
		.nplanes = frame->nplanes,
		/* READ_ONLY is in the access of the dma-bufs. */
		.flags = frame->flags & ~DLBUF_FRAME_READ_ONLY,
		.crop = { frame->crop.x, frame->crop.y, frame->crop.width,
			  frame->crop.height },
		.timestamp_ns = frame->timestamp_ns,
		.sequence = frame->sequence,
		.clock = frame->clock,
		.field = frame->field,
		.order = frame->order,
		.orientation = frame->orientation,
	};

	_Static_assert(sizeof(f.colour) == sizeof(frame->colour), "its bytes");
	memcpy(f.colour, &frame->colour, sizeof(f.colour));
	for (uint32_t i = 0; i < frame->nplanes; i++)
		f.planes[i] = (struct message_plane){
			.buffer = buffer[i],
			.offset = frame->planes[i].offset,
			.pitch = frame->planes[i].pitch,
			.bytes = frame->planes[i].bytes,
		};
	append(p, &f, sizeof(f));
}

void message_end(struct packet *p, struct message_head *head)
{
	head->bytes = p->bytes;
	memcpy(p->data, head, sizeof(*head));
}
