// SPDX-License-Identifier: MIT
/* V4L2 nodes in the matrix: VIDIOC_EXPBUF as exporter, V4L2_MEMORY_DMABUF as importer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/videodev2.h>

#include "camera/v4l2.h"
#include "matrix.h"

#define FRAME_MS 5000
#define CAPTURES (V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_VIDEO_CAPTURE_MPLANE)
#define OUTPUTS (V4L2_CAP_VIDEO_OUTPUT | V4L2_CAP_VIDEO_OUTPUT_MPLANE)
#define BOTH (V4L2_CAP_VIDEO_M2M | V4L2_CAP_VIDEO_M2M_MPLANE)

static int call(int fd, unsigned long request, void *arg, const char *name)
{
	return ioctl_again(fd, request, arg) < 0 ? fail(STATUS_SYSTEM, "%s: %s", name, strerror(errno)) : 0;
}
#define CALL(fd, request, arg) call(fd, request, arg, #request)

static uint32_t type_of(uint32_t caps, bool output)
{
	if (output)
		return caps & (V4L2_CAP_VIDEO_OUTPUT | V4L2_CAP_VIDEO_M2M) ?
		       V4L2_BUF_TYPE_VIDEO_OUTPUT : V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE;
	return caps & (V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_VIDEO_M2M) ?
	       V4L2_BUF_TYPE_VIDEO_CAPTURE : V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
}

static bool is_multi(uint32_t type)
{
	return V4L2_TYPE_IS_MULTIPLANAR(type);
}

static int open_node(const char *node, bool output, int *fd, uint32_t *type)
{
	struct v4l2_capability cap;
	int status;

	*fd = open(node, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0)
		return fail(STATUS_SYSTEM, "open(%s): %s", node, strerror(errno));
	status = CALL(*fd, VIDIOC_QUERYCAP, &cap);
	*type = type_of(cap.device_caps, output);
	return status;
}

static int request(int fd, uint32_t type, uint32_t memory, uint32_t *count)
{
	struct v4l2_requestbuffers req = {
		.count = *count, .type = type, .memory = memory,
	};
	int status = CALL(fd, VIDIOC_REQBUFS, &req);

	*count = req.count;
	return status;
}

/* Describes a buffer, with *plane as its first plane in the multi-planar API. */
static struct v4l2_buffer buffer_of(uint32_t type, uint32_t memory, uint32_t index,
				    struct v4l2_plane *plane)
{
	struct v4l2_buffer buf = { .type = type, .memory = memory, .index = index };

	*plane = (struct v4l2_plane){ 0 };
	if (is_multi(type)) {
		buf.m.planes = plane;
		buf.length = 1;
	}
	return buf;
}

/* A buffer of the node's own. */
static int map_own(int fd, uint32_t type, uint32_t index, uint8_t **map, size_t *length)
{
	struct v4l2_plane plane;
	struct v4l2_buffer buf = buffer_of(type, V4L2_MEMORY_MMAP, index, &plane);
	off_t offset;
	int status = CALL(fd, VIDIOC_QUERYBUF, &buf);
	void *p;

	if (status)
		return status;
	*length = is_multi(type) ? plane.length : buf.length;
	offset = is_multi(type) ? plane.m.mem_offset : buf.m.offset;
	p = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (p == MAP_FAILED)
		return fail(STATUS_SYSTEM, "mmap() of the node: %s", strerror(errno));
	*map = p;
	return 0;
}

/* ---------------------------------------------------------------- exporter */

int v4l2_buffer_open(struct buffer *b, const char *node, bool output)
{
	struct v4l2_exportbuffer exp = { .flags = O_RDWR | O_CLOEXEC };
	uint32_t count = 1;
	int status = open_node(node, output, &b->node, &b->type);

	if (!status)
		status = request(b->node, b->type, V4L2_MEMORY_MMAP, &count);
	if (!status)
		status = map_own(b->node, b->type, 0, &b->map, &b->mapped);
	exp.type = b->type;
	if (!status)
		status = CALL(b->node, VIDIOC_EXPBUF, &exp);
	if (status)
		return status;
	b->fd = exp.fd;
	b->bytes = b->mapped;
	return 0;
}

void v4l2_buffer_close(struct buffer *b)
{
	if (b->node >= 0)
		close(b->node);
}

/* ---------------------------------------------------------------- importer */

/* The node of the cell, and the frame that it captures into its own buffers. */
static struct stream {
	int fd;
	uint32_t type, bytes, queued;
	uint8_t *frame;
	bool still;		/* it captured this frame twice */
} stream;

/*
 * Queues the dma-buf as often as the driver needs buffers; dmabuf < 0: queues the node's own
 * buffers.
 */
static int queue_all(struct stream *s, int dmabuf)
{
	uint32_t memory = dmabuf < 0 ? V4L2_MEMORY_MMAP : V4L2_MEMORY_DMABUF;
	int status;

	s->queued = 2;
	status = request(s->fd, s->type, memory, &s->queued);
	for (uint32_t i = 0; !status && i < s->queued; i++) {
		struct v4l2_plane plane;
		struct v4l2_buffer buf = buffer_of(s->type, memory, i, &plane);

		if (is_multi(s->type)) {
			plane.m.fd = dmabuf;
			plane.bytesused = s->bytes;
			plane.length = dmabuf < 0 ? 0 : s->bytes;
		} else {
			buf.m.fd = dmabuf;
			buf.bytesused = s->bytes;
			buf.length = dmabuf < 0 ? 0 : s->bytes;
		}
		buf.field = V4L2_FIELD_NONE;
		status = CALL(s->fd, VIDIOC_QBUF, &buf);
	}
	return status;
}

/* Waits for a frame. *bytes is its length. */
static int take(struct stream *s, bool own, uint32_t *index, uint32_t *bytes)
{
	struct v4l2_plane plane;
	struct v4l2_buffer buf = buffer_of(s->type, own ? V4L2_MEMORY_MMAP :
					   V4L2_MEMORY_DMABUF, 0, &plane);
	struct pollfd p = {
		.fd = s->fd, .events = V4L2_TYPE_IS_OUTPUT(s->type) ? POLLOUT : POLLIN,
	};
	int status = CALL(s->fd, VIDIOC_STREAMON, &s->type);

	if (status)
		return status;
	if (poll(&p, 1, FRAME_MS) != 1)
		return fail(STATUS_SYSTEM, "the node gives back no buffer within %d s",
			    FRAME_MS / 1000);
	status = CALL(s->fd, VIDIOC_DQBUF, &buf);
	if (!status && buf.flags & V4L2_BUF_FLAG_ERROR)
		status = fail(STATUS_SYSTEM, "the driver flags the frame as damaged");
	*index = buf.index;
	*bytes = is_multi(s->type) ? plane.bytesused : buf.bytesused;
	if (!*bytes || *bytes > s->bytes)
		*bytes = s->bytes;
	return status;
}

static void stop(struct stream *s, uint32_t memory)
{
	uint32_t none = 0;

	ioctl(s->fd, VIDIOC_STREAMOFF, &s->type);
	request(s->fd, s->type, memory, &none);
}

/* The next frame in the node's own buffers, copied to frame. */
static int take_own(struct stream *s, uint8_t *frame)
{
	uint32_t index, bytes;
	uint8_t *map;
	size_t length;
	int status = take(s, true, &index, &bytes);

	if (!status)
		status = map_own(s->fd, s->type, index, &map, &length);
	if (!status) {
		memcpy(frame, map, length < s->bytes ? length : s->bytes);
		munmap(map, length);
	}
	return status;
}

static int stream_open(struct stream *s, const char *node, bool output)
{
	struct v4l2_format fmt = { 0 };
	int status = open_node(node, output, &s->fd, &s->type);

	fmt.type = s->type;
	if (!status)
		status = CALL(s->fd, VIDIOC_G_FMT, &fmt);
	if (status)
		return status;
	if (is_multi(s->type) && fmt.fmt.pix_mp.num_planes != 1)
		return fail(STATUS_ABSENT, "the node is set to frames of %u buffers each",
			    fmt.fmt.pix_mp.num_planes);
	s->bytes = is_multi(s->type) ? fmt.fmt.pix_mp.plane_fmt[0].sizeimage :
		   fmt.fmt.pix.sizeimage;
	return s->bytes ? 0 : fail(STATUS_ABSENT, "the node does not say how large a "
				   "frame is");
}

/* Captures two frames into the node's own buffers, for comparison. */
static void learn(struct stream *s)
{
	uint8_t *again = malloc(s->bytes);

	s->frame = malloc(s->bytes);
	/* Both are of one stream: the first frames of two streams may be equal. */
	s->still = again && s->frame && !queue_all(s, -1) && !take_own(s, s->frame) &&
		   !take_own(s, again) && !memcmp(s->frame, again, s->bytes);
	stop(s, V4L2_MEMORY_MMAP);
	free(again);
}

/*
 * Whether the node captures another picture than before. Two frames of a picture with a clock
 * may be equal, and the next one is not.
 */
static bool has_moved(struct stream *s)
{
	uint8_t *before = s->frame;

	learn(s);
	s->still = s->still && !memcmp(before, s->frame, s->bytes);
	free(before);
	return !s->still;
}

static void import_check(struct cell *c)
{
	struct timing timing = { .bytes = stream.bytes };
	uint64_t start;

	cell_pattern(c, 0, c->buffer.bytes);
	if (buffer_write(&c->buffer, 0, c->want, c->buffer.bytes)) {
		cell_fail(c);
		return;
	}
	start = now_ns();
	if (queue_all(&stream, c->buffer.fd)) {
		cell_set(c, REFUSED, "%s", c->said);
		return;
	}
	timing.first_import = (now_ns() - start) / stream.queued;
	cell_costs(c, "costs", &timing);
	cell_send(c, "path", cJSON_CreateString("kernel"));
}

static void write_read_check(struct cell *c)
{
	uint32_t index, bytes;

	if (take(&stream, false, &index, &bytes))
		cell_fail(c);
	else
		cell_set(c, SKIPPED, "only acceptance was seen: where the node puts the "
			 "pixels, this tool cannot read them");
}

/* If the picture moves, only pages that were not written can be found. */
static void find_unwritten(struct cell *c, uint32_t bytes)
{
	uint32_t page = sysconf(_SC_PAGESIZE);

	for (uint32_t at = 0; at + page <= bytes; at += page) {
		if (memcmp(c->got + at, c->want + at, page))
			continue;
		cell_set(c, WRONG, "the node has not written to the page at offset %u, "
			 "and gave the buffer back", at);
		return;
	}
}

static void read_write_check(struct cell *c)
{
	uint32_t index, bytes;

	if (take(&stream, false, &index, &bytes)) {
		cell_fail(c);
		return;
	}
	stop(&stream, V4L2_MEMORY_DMABUF);
	if (buffer_read(&c->buffer, 0, c->got, c->buffer.bytes)) {
		cell_fail(c);
		return;
	}
	find_unwritten(c, bytes);
	if (!stream.still || (memcmp(c->got, stream.frame, bytes) && has_moved(&stream))) {
		if (c->result == OK)
			cell_set(c, SKIPPED, "the node wrote to each page; the pixels were "
				 "not compared, since the picture moves");
		return;
	}
	memcpy(c->want, stream.frame, bytes);
	cell_compare(c, 0, bytes);
}

static void repeated_check(struct cell *c)
{
	uint32_t index, bytes;

	stop(&stream, V4L2_MEMORY_DMABUF);
	if (queue_all(&stream, c->buffer.fd) || take(&stream, false, &index, &bytes))
		cell_fail(c);
}

/* The exporter's side frees first, while the node streams. */
static void free_order_check(struct cell *c)
{
	buffer_close(&c->buffer);
	if (CALL(stream.fd, VIDIOC_STREAMOFF, &stream.type))
		cell_fail(c);
}

void v4l2_cell(struct cell *c, const char *node, bool output)
{
	if (stream_open(&stream, node, output) || cell_open(c, stream.bytes)) {
		cell_fail(c);
		return;
	}
	if (c->buffer.bytes < stream.bytes) {
		cell_set(c, SKIPPED, "a frame of the node has %u bytes, a buffer of the "
			 "exporter %llu", stream.bytes, (unsigned long long)c->buffer.bytes);
		return;
	}
	if (!output)
		learn(&stream);
	cell_check(c, "import", import_check);
	if (output)
		cell_check(c, "write-read", write_read_check);
	else
		cell_check(c, "read-write", read_write_check);
	cell_check(c, "repeated", repeated_check);
	cell_check(c, "free-order", free_order_check);
	free(stream.frame);
	close(stream.fd);
}

/* ---------------------------------------------------------------- lists */

/* Requests zero buffers of the kind: a driver without such buffers refuses even that. */
static int try_node(int fd, uint32_t caps, bool exporters, bool output)
{
	uint32_t none = 0;

	if (!(caps & V4L2_CAP_STREAMING))
		return fail(STATUS_ABSENT, "the node has no buffers to share");
	if (!exporters && caps & BOTH)
		return fail(STATUS_ABSENT, "a memory-to-memory device takes frames of a "
			    "stream that this tool does not have");
	return request(fd, type_of(caps, output), exporters ? V4L2_MEMORY_MMAP :
		       V4L2_MEMORY_DMABUF, &none);
}

static void list_queue(int fd, int node_fd, const char *node,
		       const struct v4l2_capability *cap, bool exporters, bool output)
{
	char title[280], why[512] = "";
	struct party p = {
		.name = title, .kind = output ? "v4l2-output" : "v4l2-capture", .node = node,
		.driver = (char *)cap->driver, .description = (char *)cap->card,
		.reason = why,
	};

	snprintf(title, sizeof(title), "%s:%s", output ? "v4l2-out" : "v4l2", node);
	fail_divert(why, sizeof(why));
	if (try_node(node_fd, cap->device_caps, exporters, output))
		p.status = -EOPNOTSUPP;
	fail_divert(NULL, 0);
	child_send_party(fd, exporters ? "exporters" : "importers", &p);
}

struct nodes {
	int fd;			/* to the command */
	bool exporters;
};

static void list_node(const char *node, void *data)
{
	const struct nodes *nodes = data;
	struct v4l2_capability cap = { 0 };
	int fd = nodes->fd, node_fd;
	bool exporters = nodes->exporters;
	char title[280];

	node_fd = open(node, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (node_fd < 0) {
		snprintf(title, sizeof(title), "v4l2:%s", node);
		child_send_party(fd, exporters ? "exporters" : "importers", &(struct party){
			.name = title, .kind = "v4l2-capture", .node = node,
			.status = -errno, .reason = strerror(errno) });
		return;
	}
	if (!ioctl(node_fd, VIDIOC_QUERYCAP, &cap)) {
		if (cap.device_caps & (CAPTURES | BOTH))
			list_queue(fd, node_fd, node, &cap, exporters, false);
		if (cap.device_caps & (OUTPUTS | BOTH))
			list_queue(fd, node_fd, node, &cap, exporters, true);
	}
	close(node_fd);
}

void v4l2_list(int fd, bool exporters)
{
	struct nodes nodes = { fd, exporters };

	camera_nodes(list_node, &nodes);
}
