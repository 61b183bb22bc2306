/* SPDX-License-Identifier: MIT */
/*
 * The messages of dlbuf_send(): a head, then tensors or a frame. These functions only
 * convert between bytes and structs.
 */
#ifndef DLBUF_LIB_MESSAGE_H
#define DLBUF_LIB_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <dlbuf/frame.h>
#include <dlbuf/layout.h>

#define MESSAGE_MAGIC 0x46424c44u	/* "DLBF" on little-endian machines */
#define MESSAGE_VERSION 1
#define MESSAGE_TENSORS 1
#define MESSAGE_FRAME 2

/* Flags: which fds follow the fds of the buffers, in this order. */
#define MESSAGE_FENCE 1u		/* the frame's sync_file */
#define MESSAGE_HOLD 2u			/* an end of a pipe, which is the lease */

#define MESSAGE_MAX_BUFFERS DLBUF_MAX_PLANES
#define MESSAGE_MAX_FDS (MESSAGE_MAX_BUFFERS + 2)

/* The same on 32-bit and 64-bit machines: no padding, no pointers. */
struct message_head {
	uint32_t magic;
	uint16_t version;
	uint16_t kind;
	uint32_t bytes;		/* size of the message */
	uint8_t nbuffers;	/* fds of dma-bufs */
	uint8_t ntensors;	/* 0 for a frame */
	uint8_t flags;
	uint8_t reserved;
	uint8_t access[MESSAGE_MAX_BUFFERS];	/* dlbuf_access of each */
	uint32_t reserved2;
};

/* One for each tensor, followed by its shape and strides, 8 bytes each. */
struct message_tensor {
	uint64_t byte_offset;
	uint8_t buffer;
	uint8_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	uint16_t reserved;
};

struct message_plane {
	uint32_t buffer;
	uint32_t reserved;
	uint64_t offset;
	int64_t pitch;
	uint64_t bytes;
};

struct message_frame {
	uint32_t width, height;
	uint32_t code, code_space;
	uint64_t modifier;
	uint32_t nplanes, flags;
	struct message_plane planes[DLBUF_MAX_PLANES];
	uint32_t crop[4];
	uint8_t colour[8];
	int64_t timestamp_ns;
	uint64_t sequence;
	uint32_t clock, field;
	uint32_t order, orientation;
};

_Static_assert(sizeof(struct message_head) == 24, "no padding");
_Static_assert(sizeof(struct message_tensor) == 16, "no padding");
_Static_assert(sizeof(struct message_frame) == 216, "no padding");

#define MESSAGE_MAX_BYTES                                                  \
	(sizeof(struct message_head) + DLBUF_MAX_PLANES *                      \
	 (sizeof(struct message_tensor) + 2 * DLBUF_MAX_NDIM * sizeof(int64_t)))

/* The bytes of a message. */
struct packet {
	_Alignas(8) unsigned char data[MESSAGE_MAX_BYTES];
	uint32_t bytes;
};

/* A parsed message. It has pointers into itself: do not copy it. */
struct message {
	struct message_head head;
	/* For a frame; the planes' fds and the fence are -1. */
	struct dlbuf_frame frame;
	/* For tensors; their fds are -1. */
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	int64_t dims[DLBUF_MAX_PLANES][2 * DLBUF_MAX_NDIM];
	uint8_t buffer[DLBUF_MAX_PLANES];	/* index of each plane's or tensor's buffer */
};

/* The number of fds that belong to a message with this head. */
unsigned int message_fds(const struct message_head *head);

/*
 * Parses a message that came with nfds fds. Checks every layout with
 * dlbuf_layout_extent(). After a failure *out is undefined.
 * -EPROTO  not a valid message
 */
int message_parse(const void *data, size_t bytes, unsigned int nfds,
		  struct message *out);

/* Begin a message, append to it, end it. The contents are not checked here. */
void message_begin(struct packet *p, struct message_head *head, uint16_t kind);
void message_put_tensor(struct packet *p, const DLTensor *layout,
			unsigned int buffer);
void message_put_frame(struct packet *p, const struct dlbuf_frame *frame,
		       const uint8_t buffer[]);
void message_end(struct packet *p, struct message_head *head);

#endif /* DLBUF_LIB_MESSAGE_H */
