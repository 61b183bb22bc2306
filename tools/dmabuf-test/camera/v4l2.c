// SPDX-License-Identifier: MIT
/* A camera's buffers and frames, for the tool. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "out.h"
#include "tool.h"
#include "v4l2.h"

static int failed(const struct camera *cam, const char *call)
{
	return fail(STATUS_SYSTEM, "%s: %s: %s", cam->node, call,
		    strerror(errno));
}

bool camera_is_multi(const struct camera *cam)
{
	return cam->fmt.type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
}

uint32_t camera_formats(const struct camera *cam, uint32_t codes[],
			uint32_t max)
{
	uint32_t n;

	for (n = 0; n < max; n++) {
		struct v4l2_fmtdesc desc = { .index = n, .type = cam->fmt.type };

		if (ioctl_again(cam->info.fd, VIDIOC_ENUM_FMT, &desc) < 0)
			break;
		codes[n] = desc.pixelformat;
	}
	return n;
}

static int is_video(const struct dirent *d)
{
	return !strncmp(d->d_name, "video", 5) && d->d_name[5] >= '0' && d->d_name[5] <= '9';
}

int camera_nodes(void (*fn)(const char *node, void *data), void *data)
{
	struct dirent **names;
	int n = scandir("/dev", &names, is_video, versionsort);
	char node[272];

	for (int i = 0; i < n; i++) {
		snprintf(node, sizeof(node), "/dev/%s", names[i]->d_name);
		fn(node, data);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return n < 0 ? 0 : n;
}

/* ---------------------------------------------------------------- opening */

/* Finds the half of the API that the node has: the first call that it accepts. */
static int read_format(struct camera *cam)
{
	const struct v4l2_pix_format_mplane *mp = &cam->fmt.fmt.pix_mp;
	const struct v4l2_pix_format *pix = &cam->fmt.fmt.pix;
	bool multi;

	cam->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	if (ioctl_again(cam->info.fd, VIDIOC_G_FMT, &cam->fmt) < 0) {
		cam->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
		if (ioctl_again(cam->info.fd, VIDIOC_G_FMT, &cam->fmt) < 0)
			return failed(cam, "VIDIOC_G_FMT");
	}
	multi = camera_is_multi(cam);
	cam->colorspace = multi ? mp->colorspace : pix->colorspace;
	cam->ycbcr_enc = multi ? mp->ycbcr_enc : pix->ycbcr_enc;
	cam->quantization = multi ? mp->quantization : pix->quantization;
	cam->nplanes = multi ? mp->num_planes : 1;
	for (uint32_t i = 0; i < cam->nplanes && i < DLBUF_MAX_PLANES; i++) {
		cam->pitch[i] = multi ? mp->plane_fmt[i].bytesperline :
					pix->bytesperline;
		cam->size[i] = multi ? mp->plane_fmt[i].sizeimage :
				       pix->sizeimage;
	}
	return 0;
}

/* Asks V4L2 for a buffer; planes has room for VIDEO_MAX_PLANES. */
static int query_buffer(const struct camera *cam, uint32_t index,
			struct v4l2_buffer *buf, struct v4l2_plane *planes)
{
	memset(planes, 0, VIDEO_MAX_PLANES * sizeof(*planes));
	*buf = (struct v4l2_buffer){ .index = index, .type = cam->fmt.type };
	if (camera_is_multi(cam)) {
		buf->m.planes = planes;
		buf->length = cam->nplanes;
	}
	if (ioctl_again(cam->info.fd, VIDIOC_QUERYBUF, buf) < 0)
		return failed(cam, "VIDIOC_QUERYBUF");
	/* After this, both halves of the API look the same. */
	if (!camera_is_multi(cam))
		planes[0] = (struct v4l2_plane){
			.bytesused = buf->bytesused, .length = buf->length,
			.m.mem_offset = buf->m.offset,
		};
	return 0;
}

static int map_buffer(struct camera *cam, uint32_t index)
{
	struct v4l2_plane planes[VIDEO_MAX_PLANES];
	DLBUF_INFO(dlbuf_frame, frame);
	struct v4l2_buffer buf;
	int ret = dlbuf_camera_buffer(cam->cam, index, &frame), status;

	if (ret)
		return fail_dlbuf(ret);
	status = query_buffer(cam, index, &buf, planes);
	for (uint32_t i = 0; !status && i < cam->nplanes; i++) {
		struct camera_plane *p = &cam->buffers[index][i];
		size_t bytes = cam->imports ? cam->size[i] : planes[i].length;
		void *map;

		p->fd = frame.planes[i].fd;
		map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			   cam->imports ? p->fd : cam->info.fd,
			   cam->imports ? 0 : planes[i].m.mem_offset);
		if (map == MAP_FAILED)
			return failed(cam, "mmap()");
		p->map = map;
		p->bytes = bytes;
	}
	return status;
}

static void make_all_printable(struct camera *cam)
{
	make_printable(cam->info.driver);
	make_printable(cam->info.card);
	make_printable(cam->info.bus);
}

int camera_open(struct camera *cam, const char *node,
		const struct dlbuf_camera_opts *opts)
{
	int ret, status;

	*cam = (struct camera){ .node = node, .info.size = sizeof(cam->info),
				.imports = opts->exporter };
	ret = dlbuf_camera_open(node, opts, &cam->cam);
	if (ret == -ENOENT || ret == -ENXIO ||
	    (ret == -EOPNOTSUPP && strstr(dlbuf_last_error(), "VIDIOC_EXPBUF")))
		return fail(STATUS_ABSENT, "%s", dlbuf_last_error());
	if (ret)
		return fail_dlbuf(ret);
	dlbuf_camera_get_info(cam->cam, &cam->info);
	make_all_printable(cam);
	status = read_format(cam);
	for (uint32_t i = 0; !status && i < cam->info.buffers; i++)
		status = map_buffer(cam, i);
	if (status)
		camera_close(cam);
	return status;
}

bool camera_exports(const char *node)
{
	static const uint32_t types[] = { V4L2_BUF_TYPE_VIDEO_CAPTURE,
					  V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE };
	int fd = open(node, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	bool can = fd >= 0;

	for (unsigned int i = 0; can && i < sizeof(types) / sizeof(types[0]); i++) {
		struct v4l2_requestbuffers req = { .count = 1, .type = types[i],
						   .memory = V4L2_MEMORY_MMAP };
		struct v4l2_exportbuffer exp = { .type = types[i], .flags = O_RDWR | O_CLOEXEC };

		if (ioctl_again(fd, VIDIOC_REQBUFS, &req) < 0)
			continue;
		can = !ioctl_again(fd, VIDIOC_EXPBUF, &exp);
		if (can)
			close(exp.fd);
	}
	if (fd >= 0)
		close(fd);
	return can;
}

void camera_close(struct camera *cam)
{
	for (uint32_t i = 0; i < cam->info.buffers; i++)
		for (uint32_t j = 0; j < DLBUF_MAX_PLANES; j++)
			if (cam->buffers[i][j].map)
				munmap(cam->buffers[i][j].map,
				       cam->buffers[i][j].bytes);
	memset(cam->buffers, 0, sizeof(cam->buffers));
	dlbuf_camera_close(cam->cam);
	cam->cam = NULL;
}

/* ---------------------------------------------------------------- frames */

static int wait_for_frame(struct camera *cam, uint64_t deadline,
			  int timeout_ms)
{
	struct pollfd p = { .fd = cam->info.fd, .events = POLLIN };
	uint64_t now = now_ns();
	int n = 0;

	/* Rounded up, so that the last millisecond is not a busy loop. */
	if (now < deadline)
		n = poll(&p, 1, (deadline - now) / 1000000 + 1);
	if (interrupted)
		return fail(STATUS_SYSTEM, "interrupted after %llu frames",
			    (unsigned long long)cam->dequeued);
	if (n < 0 && errno != EINTR)
		return failed(cam, "poll()");
	if (!n)
		return fail(STATUS_SYSTEM, "%s gave no frame for %g s, after "
			    "%llu frames", cam->node, timeout_ms / 1e3,
			    (unsigned long long)cam->dequeued);
	return 0;
}

static int note_frame(struct camera *cam, const struct dlbuf_frame *frame,
		      uint32_t *index)
{
	struct v4l2_plane planes[VIDEO_MAX_PLANES];
	struct v4l2_buffer buf;
	int64_t gap = frame->sequence - cam->sequence;
	uint32_t i = 0;
	int status;

	while (i + 1 < cam->info.buffers &&
	       cam->buffers[i][0].fd != frame->planes[0].fd)
		i++;
	*index = i;
	/* A driver that is late may repeat a number. */
	if (cam->dequeued++ && gap > 0)
		cam->dropped += gap - 1;
	cam->sequence = frame->sequence;
	cam->flagged += !!(frame->flags & DLBUF_FRAME_DAMAGED);
	status = query_buffer(cam, i, &buf, planes);
	for (uint32_t j = 0; !status && j < cam->nplanes; j++) {
		cam->buffers[i][j].data_offset = planes[j].data_offset;
		cam->buffers[i][j].bytesused = planes[j].bytesused;
		cam->data_offset[j] = planes[j].data_offset;
	}
	return status;
}

int camera_wait(struct camera *cam, int timeout_ms, struct dlbuf_frame *frame,
		uint32_t *index)
{
	uint64_t deadline = now_ns() + timeout_ms * 1000000ull;
	int ret, status;

	do {
		status = wait_for_frame(cam, deadline, timeout_ms);
		if (status)
			return status;
		ret = dlbuf_camera_frame(cam->cam, 1, frame);
	} while (ret == -ETIME);
	return ret ? fail(STATUS_SYSTEM, "%s", dlbuf_last_error()) :
		     note_frame(cam, frame, index);
}

int camera_map_sync(struct camera *cam, uint32_t index, uint64_t flags)
{
	int status = 0;

	for (uint32_t i = 0; cam->imports && !status && i < cam->nplanes; i++)
		status = bracket(cam->buffers[index][i].fd, flags);
	return status;
}
