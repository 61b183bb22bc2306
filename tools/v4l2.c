// SPDX-License-Identifier: MIT
/* A camera: a V4L2 capture node whose buffers are dma-bufs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include <dlbuf/alloc.h>
#include <dlbuf/interop/v4l2.h>

#include "out.h"
#include "tool.h"
#include "v4l2.h"

static int xioctl(int fd, unsigned long request, void *arg)
{
	int ret;

	do
		ret = ioctl(fd, request, arg);
	while (ret < 0 && errno == EINTR);
	return ret;
}

/* What the errno of an ioctl means on a camera. */
static int camera_fail(const struct camera *cam, const char *call)
{
	int err = errno;

	if (err == ENODEV)
		return fail(STATUS_SYSTEM, "%s was unplugged after %llu frames "
			    "(%s: %s)", cam->node,
			    (unsigned long long)cam->dequeued, call,
			    strerror(err));
	if (err == EBUSY)
		return fail(STATUS_SYSTEM, "%s is busy, another program uses "
			    "it (%s: %s)", cam->node, call, strerror(err));
	return fail(STATUS_SYSTEM, "%s: %s: %s", cam->node, call,
		    strerror(err));
}

static int open_node(struct camera *cam)
{
	struct stat st;

	/* Looked at first: to open a pipe or a tape is not without effect. */
	if (!stat(cam->node, &st)) {
		if (!S_ISCHR(st.st_mode))
			return fail(STATUS_SYSTEM, "%s is no camera: it is not "
				    "a device node", cam->node);
		/* Non-blocking: to wait is poll()'s, which has a timeout. */
		cam->fd = open(cam->node, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (cam->fd >= 0)
			return 0;
	}
	if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
		return fail(STATUS_ABSENT, "%s: there is no such camera: %s",
			    cam->node, strerror(errno));
	return fail(STATUS_SYSTEM, "%s cannot be opened: %s", cam->node,
		    strerror(errno));
}

static int query(struct camera *cam)
{
	struct v4l2_capability cap = { 0 };
	uint32_t caps;

	if (xioctl(cam->fd, VIDIOC_QUERYCAP, &cap) < 0) {
		if (errno == ENODEV)
			return camera_fail(cam, "VIDIOC_QUERYCAP");
		return fail(STATUS_SYSTEM, "%s is no camera (VIDIOC_QUERYCAP: "
			    "%s)", cam->node, strerror(errno));
	}
	memcpy(cam->driver, cap.driver, sizeof(cam->driver));
	memcpy(cam->card, cap.card, sizeof(cam->card));
	memcpy(cam->bus, cap.bus_info, sizeof(cam->bus));
	cam->driver[sizeof(cam->driver) - 1] = '\0';
	cam->card[sizeof(cam->card) - 1] = '\0';
	cam->bus[sizeof(cam->bus) - 1] = '\0';
	make_printable(cam->driver);
	make_printable(cam->card);
	make_printable(cam->bus);
	/* capabilities speaks of all nodes of the hardware, not of this one. */
	caps = cap.capabilities & V4L2_CAP_DEVICE_CAPS ? cap.device_caps :
							 cap.capabilities;
	if (caps & V4L2_CAP_VIDEO_CAPTURE)
		cam->type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	else if (caps & V4L2_CAP_VIDEO_CAPTURE_MPLANE)
		cam->type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
	else
		return fail(STATUS_SYSTEM, "%s (%s, %s) does not capture video",
			    cam->node, cam->card, cam->driver);
	if (!(caps & V4L2_CAP_STREAMING))
		return fail(STATUS_SYSTEM, "%s (%s, %s) cannot stream: it has "
			    "no buffers to share", cam->node, cam->card,
			    cam->driver);
	return 0;
}

int camera_open(struct camera *cam, const char *node)
{
	int status;

	*cam = (struct camera){ .fd = -1, .node = node };
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++)
		for (uint32_t p = 0; p < DLBUF_MAX_PLANES; p++)
			cam->buffers[i][p].fd = -1;
	status = open_node(cam);
	if (!status)
		status = query(cam);
	if (status)
		camera_close(cam);
	return status;
}

uint32_t camera_formats(const struct camera *cam, uint32_t codes[],
			uint32_t max)
{
	uint32_t n;

	for (n = 0; n < max; n++) {
		struct v4l2_fmtdesc desc = { .index = n, .type = cam->type };

		if (xioctl(cam->fd, VIDIOC_ENUM_FMT, &desc) < 0)
			break;
		codes[n] = desc.pixelformat;
	}
	return n;
}

static int no_such_format(const struct camera *cam, uint32_t code)
{
	char list[160] = "";
	uint32_t codes[256], n = camera_formats(cam, codes, ARRAY_SIZE(codes));
	size_t len = 0;

	/* A dozen or two are a help, a hundred are none. */
	for (uint32_t i = 0; i < n; i++) {
		if (len + 16 > sizeof(list)) {
			strcat(list, " ...");
			break;
		}
		len += snprintf(list + len, sizeof(list) - len, "%s%s",
				i ? ", " : "", text_code(codes[i]).s);
	}
	return fail(STATUS_ABSENT, "%s (%s) does not capture in %s; it has %s",
		    cam->node, cam->card, text_code(code).s,
		    n ? list : "no list of formats");
}

/* The union's two halves, read once. */
static void take_format(struct camera *cam)
{
	const struct v4l2_pix_format_mplane *mp = &cam->fmt.fmt.pix_mp;
	const struct v4l2_pix_format *pix = &cam->fmt.fmt.pix;
	bool multi = cam->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;

	cam->code = multi ? mp->pixelformat : pix->pixelformat;
	cam->width = multi ? mp->width : pix->width;
	cam->height = multi ? mp->height : pix->height;
	cam->colorspace = multi ? mp->colorspace : pix->colorspace;
	cam->ycbcr_enc = multi ? mp->ycbcr_enc : pix->ycbcr_enc;
	cam->quantization = multi ? mp->quantization : pix->quantization;
	cam->nplanes = multi ? mp->num_planes : 1;
	if (!multi) {
		cam->pitch[0] = pix->bytesperline;
		cam->size[0] = pix->sizeimage;
		return;
	}
	for (uint32_t i = 0; i < cam->nplanes && i < DLBUF_MAX_PLANES; i++) {
		cam->pitch[i] = mp->plane_fmt[i].bytesperline;
		cam->size[i] = mp->plane_fmt[i].sizeimage;
	}
}

int camera_set_format(struct camera *cam, uint32_t code, uint32_t width,
		      uint32_t height)
{
	struct v4l2_format *fmt = &cam->fmt;

	*fmt = (struct v4l2_format){ .type = cam->type };
	if (cam->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE) {
		fmt->fmt.pix_mp.width = width;
		fmt->fmt.pix_mp.height = height;
		fmt->fmt.pix_mp.pixelformat = code;
	} else {
		fmt->fmt.pix.width = width;
		fmt->fmt.pix.height = height;
		fmt->fmt.pix.pixelformat = code;
	}
	if (xioctl(cam->fd, VIDIOC_S_FMT, fmt) < 0)
		return errno == EINVAL ? no_such_format(cam, code) :
					 camera_fail(cam, "VIDIOC_S_FMT");
	take_format(cam);
	/* A driver that lacks the format gives another one, not an error. */
	if (cam->code != code)
		return no_such_format(cam, code);
	if (!cam->nplanes || cam->nplanes > DLBUF_MAX_PLANES)
		return fail(STATUS_SYSTEM, "%s: VIDIOC_S_FMT gave a format of "
			    "%u planes", cam->node, cam->nplanes);
	return 0;
}

int camera_set_rate(struct camera *cam, double rate)
{
	struct v4l2_streamparm parm = { .type = cam->type };
	struct v4l2_fract *interval = &parm.parm.capture.timeperframe;
	int ret = xioctl(cam->fd, VIDIOC_G_PARM, &parm);

	/* Not to have it is common; nothing else needs it. */
	if (ret < 0 && errno != ENOTTY && errno != EINVAL)
		return camera_fail(cam, "VIDIOC_G_PARM");
	if (ret < 0 ||
	    !(parm.parm.capture.capability & V4L2_CAP_TIMEPERFRAME))
		return rate ? fail(STATUS_ABSENT, "%s (%s) does not let its "
				   "rate be set", cam->node, cam->driver) : 0;
	if (rate) {
		*interval = (struct v4l2_fract){ 1000, rate * 1000 + 0.5 };
		if (xioctl(cam->fd, VIDIOC_S_PARM, &parm) < 0)
			return camera_fail(cam, "VIDIOC_S_PARM");
	}
	if (interval->numerator)
		cam->rate = (double)interval->denominator / interval->numerator;
	return 0;
}

/* Whether the driver has such buffers at all; errno stays. */
static bool has_memory(struct camera *cam)
{
	struct v4l2_requestbuffers none = {
		.type = cam->type,
		.memory = cam->memory,
	};
	int err = errno;
	bool has = !xioctl(cam->fd, VIDIOC_REQBUFS, &none);

	errno = err;
	return has;
}

static int request(struct camera *cam, uint32_t n)
{
	struct v4l2_requestbuffers req = {
		.count = n,
		.type = cam->type,
		.memory = cam->memory,
	};

	if (xioctl(cam->fd, VIDIOC_REQBUFS, &req) < 0) {
		if (errno == EINVAL && !has_memory(cam))
			return fail(STATUS_ABSENT, "%s (%s) has no %s buffers "
				    "(VIDIOC_REQBUFS: %s)", cam->node,
				    cam->driver,
				    cam->memory == V4L2_MEMORY_MMAP ? "mmap" :
				    "dma-buf", strerror(errno));
		return camera_fail(cam, "VIDIOC_REQBUFS");
	}
	cam->nbuffers = req.count;
	if (req.count && req.count <= VIDEO_MAX_FRAME)
		return 0;
	cam->nbuffers = 0;
	return fail(STATUS_SYSTEM, "%s: VIDIOC_REQBUFS gave %u buffers",
		    cam->node, req.count);
}

/* A v4l2_buffer for `index`; planes has room for DLBUF_MAX_PLANES. */
static struct v4l2_buffer buffer_arg(const struct camera *cam, uint32_t index,
				     struct v4l2_plane *planes)
{
	struct v4l2_buffer buf = {
		.index = index,
		.type = cam->type,
		.memory = cam->memory,
	};

	memset(planes, 0, DLBUF_MAX_PLANES * sizeof(*planes));
	if (cam->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE) {
		buf.m.planes = planes;
		buf.length = cam->nplanes;
	}
	return buf;
}

static int export_plane(struct camera *cam, uint32_t index, uint32_t plane)
{
	struct v4l2_exportbuffer exp = {
		.type = cam->type,
		.index = index,
		.plane = plane,
		/* Without O_RDWR it is read-only, and GPUs map to write. */
		.flags = O_RDWR | O_CLOEXEC,
	};

	if (xioctl(cam->fd, VIDIOC_EXPBUF, &exp) < 0) {
		if (errno == ENOTTY || errno == EINVAL)
			return fail(STATUS_ABSENT, "%s (%s) cannot export its "
				    "buffers (VIDIOC_EXPBUF: %s): try --import "
				    "udmabuf", cam->node, cam->driver,
				    strerror(errno));
		return camera_fail(cam, "VIDIOC_EXPBUF");
	}
	cam->buffers[index][plane].fd = exp.fd;
	return 0;
}

static int map_plane(struct camera *cam, struct camera_plane *p, int fd,
		     size_t bytes, off_t offset)
{
	void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, offset);

	if (map == MAP_FAILED)
		return camera_fail(cam, "mmap()");
	p->map = map;
	p->bytes = bytes;
	return 0;
}

static int alloc_mmap(struct camera *cam, uint32_t index)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer_arg(cam, index, planes);
	bool multi = cam->type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
	int status = 0;

	if (xioctl(cam->fd, VIDIOC_QUERYBUF, &buf) < 0)
		return camera_fail(cam, "VIDIOC_QUERYBUF");
	for (uint32_t i = 0; !status && i < cam->nplanes; i++) {
		status = export_plane(cam, index, i);
		if (!status)
			status = map_plane(cam, &cam->buffers[index][i],
					   cam->fd,
					   multi ? planes[i].length : buf.length,
					   multi ? planes[i].m.mem_offset :
						   buf.m.offset);
	}
	return status;
}

static int alloc_import(struct camera *cam, uint32_t index,
			const char *exporter)
{
	int status = 0;

	for (uint32_t i = 0; !status && i < cam->nplanes; i++) {
		struct camera_plane *p = &cam->buffers[index][i];
		DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter,
			   .name = "dmabuf-test");
		int ret = dlbuf_alloc_fd(cam->size[i], &opts, &p->fd);

		status = ret ? fail_dlbuf(ret) :
			       map_plane(cam, p, p->fd, cam->size[i], 0);
	}
	return status;
}

int camera_alloc(struct camera *cam, uint32_t nbuffers, const char *exporter)
{
	int status;

	cam->memory = exporter ? V4L2_MEMORY_DMABUF : V4L2_MEMORY_MMAP;
	status = request(cam, nbuffers);
	for (uint32_t i = 0; !status && i < cam->nbuffers; i++)
		status = exporter ? alloc_import(cam, i, exporter) :
				    alloc_mmap(cam, i);
	return status;
}

int camera_queue(struct camera *cam, uint32_t index)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer_arg(cam, index, planes);
	const struct camera_plane *p = cam->buffers[index];

	for (uint32_t i = 0; i < cam->nplanes; i++) {
		if (cam->memory != V4L2_MEMORY_DMABUF)
			break;
		if (cam->type == V4L2_BUF_TYPE_VIDEO_CAPTURE) {
			buf.m.fd = p[i].fd;
			buf.length = p[i].bytes;
		} else {
			planes[i].m.fd = p[i].fd;
			planes[i].length = p[i].bytes;
		}
	}
	if (xioctl(cam->fd, VIDIOC_QBUF, &buf) < 0)
		return camera_fail(cam, "VIDIOC_QBUF");
	cam->queued++;
	return 0;
}

int camera_start(struct camera *cam)
{
	int type = cam->type, status;

	for (uint32_t i = 0; i < cam->nbuffers; i++) {
		status = camera_queue(cam, i);
		if (status)
			return status;
	}
	if (xioctl(cam->fd, VIDIOC_STREAMON, &type) < 0)
		return camera_fail(cam, "VIDIOC_STREAMON");
	cam->streaming = true;
	return 0;
}

static int wait_for_frame(struct camera *cam, uint64_t deadline,
			  int timeout_ms)
{
	struct pollfd p = { .fd = cam->fd, .events = POLLIN };
	uint64_t now = now_ns();
	int n = 0;

	/* Rounded up, so that the last millisecond is not spun through. */
	if (now < deadline)
		n = poll(&p, 1, (deadline - now) / 1000000 + 1);
	if (interrupted)
		return fail(STATUS_SYSTEM, "interrupted after %llu frames",
			    (unsigned long long)cam->dequeued);
	if (n < 0 && errno != EINTR)
		return camera_fail(cam, "poll()");
	if (!n)
		return fail(STATUS_SYSTEM, "%s gave no frame for %g s, after "
			    "%llu frames", cam->node, timeout_ms / 1e3,
			    (unsigned long long)cam->dequeued);
	/* POLLERR and POLLHUP: the reason is what VIDIOC_DQBUF returns. */
	return 0;
}

static void take_buffer(struct camera *cam, const struct v4l2_buffer *buf,
			const struct v4l2_plane *planes)
{
	struct camera_plane *p = cam->buffers[buf->index];

	if (cam->dequeued++)
		cam->dropped += buf->sequence - cam->sequence - 1;
	cam->sequence = buf->sequence;
	cam->flagged += !!(buf->flags & V4L2_BUF_FLAG_ERROR);
	cam->taken[buf->index] = *buf;
	if (cam->type != V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE) {
		p[0].bytesused = buf->bytesused;
		return;
	}
	memcpy(cam->taken_planes[buf->index], planes,
	       sizeof(cam->taken_planes[0]));
	cam->taken[buf->index].m.planes = cam->taken_planes[buf->index];
	for (uint32_t i = 0; i < cam->nplanes; i++) {
		p[i].data_offset = planes[i].data_offset;
		cam->data_offset[i] = planes[i].data_offset;
		p[i].bytesused = planes[i].bytesused;
	}
}

int camera_dequeue(struct camera *cam, int timeout_ms, uint32_t *index)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	uint64_t deadline = now_ns() + timeout_ms * 1000000ull;
	struct v4l2_buffer buf;
	int status;

	for (;;) {
		status = wait_for_frame(cam, deadline, timeout_ms);
		if (status)
			return status;
		buf = buffer_arg(cam, 0, planes);
		if (!xioctl(cam->fd, VIDIOC_DQBUF, &buf))
			break;
		if (errno != EAGAIN)
			return camera_fail(cam, "VIDIOC_DQBUF");
	}
	if (buf.index >= cam->nbuffers)
		return fail(STATUS_SYSTEM, "%s: VIDIOC_DQBUF gave buffer %u of "
			    "%u", cam->node, buf.index, cam->nbuffers);
	take_buffer(cam, &buf, planes);
	*index = buf.index;
	return 0;
}

static int map_sync(struct camera *cam, uint32_t index, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags | DMA_BUF_SYNC_READ };

	if (cam->memory != V4L2_MEMORY_DMABUF)
		return 0;
	for (uint32_t i = 0; i < cam->nplanes; i++)
		if (xioctl(cam->buffers[index][i].fd, DMA_BUF_IOCTL_SYNC,
			   &sync) < 0)
			return camera_fail(cam, "DMA_BUF_IOCTL_SYNC");
	return 0;
}

int camera_map_begin(struct camera *cam, uint32_t index)
{
	return map_sync(cam, index, DMA_BUF_SYNC_START);
}

int camera_map_end(struct camera *cam, uint32_t index)
{
	return map_sync(cam, index, DMA_BUF_SYNC_END);
}

int camera_frame(const struct camera *cam, uint32_t index,
		 struct dlbuf_frame *frame)
{
	const struct v4l2_buffer *buf = &cam->taken[index];
	int fds[DLBUF_MAX_PLANES] = { -1, -1, -1, -1 };

	for (uint32_t i = 0; i < cam->nplanes; i++)
		fds[i] = cam->buffers[index][i].fd;
	if (dlbuf_v4l2_frame(&cam->fmt, buf->type ? buf : NULL, fds, frame))
		return fail(STATUS_SYSTEM, "%s: its format is no frame",
			    cam->node);
	return 0;
}

void camera_close(struct camera *cam)
{
	struct v4l2_requestbuffers none = {
		.type = cam->type,
		.memory = cam->memory,
	};
	int type = cam->type;

	if (cam->fd < 0)
		return;
	if (cam->streaming)
		xioctl(cam->fd, VIDIOC_STREAMOFF, &type);
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++) {
		for (uint32_t p = 0; p < DLBUF_MAX_PLANES; p++) {
			struct camera_plane *plane = &cam->buffers[i][p];

			if (plane->map)
				munmap(plane->map, plane->bytes);
			if (plane->fd >= 0)
				close(plane->fd);
			*plane = (struct camera_plane){ .fd = -1 };
		}
	}
	/* Older kernels refuse this while a mapping or an fd is left. */
	if (cam->nbuffers)
		xioctl(cam->fd, VIDIOC_REQBUFS, &none);
	close(cam->fd);
	cam->fd = -1;
	cam->streaming = false;
}
