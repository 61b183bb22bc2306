// SPDX-License-Identifier: MIT
/* A camera: a V4L2 capture node whose buffers are dma-bufs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dlbuf/interop/v4l2.h>

#include "camera.h"

static int xioctl(int fd, unsigned long request, void *arg)
{
	int ret;

	do
		ret = ioctl(fd, request, arg);
	while (ret < 0 && errno == EINTR);
	return ret;
}

static bool is_multi(const struct camera *cam)
{
	return cam->fmt.type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
}

/* What the errno of an ioctl means on a camera. */
static int failed(const struct camera *cam, const char *call)
{
	int err = errno;

	if (err == ENODEV)
		return dlbuf_fail(-err, "%s was unplugged after %llu frames "
				  "(%s: %s)", cam->node,
				  (unsigned long long)cam->dequeued, call,
				  strerror(err));
	if (err == EBUSY)
		return dlbuf_fail(-err, "%s is busy, another program or another "
				  "part of this one uses it (%s: %s)",
				  cam->node, call, strerror(err));
	return dlbuf_fail(-err, "%s: %s: %s", cam->node, call, strerror(err));
}

/* ---------------------------------------------------------------- the node */

static int open_node(struct camera *cam)
{
	struct stat st;
	int err;

	/* Looked at first: to open a pipe or a tape is not without effect. */
	if (!stat(cam->node, &st)) {
		if (!S_ISCHR(st.st_mode))
			return dlbuf_fail(-ENOTTY, "%s is no camera: it is not "
					  "a device node", cam->node);
		/* Non-blocking: to wait is poll()'s, which has a timeout. */
		cam->fd = open(cam->node, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (cam->fd >= 0)
			return 0;
	}
	err = errno;
	cam->absent = err == ENOENT || err == ENODEV || err == ENXIO;
	return dlbuf_fail(-err, cam->absent ? "%s: there is no such camera: %s" :
			  "%s cannot be opened: %s", cam->node, strerror(err));
}

static int query(struct camera *cam)
{
	struct v4l2_capability cap = { 0 };
	uint32_t caps;

	if (xioctl(cam->fd, VIDIOC_QUERYCAP, &cap) < 0) {
		if (errno == ENODEV)
			return failed(cam, "VIDIOC_QUERYCAP");
		return dlbuf_fail(-ENOTTY, "%s is no camera (VIDIOC_QUERYCAP: "
				  "%s)", cam->node, strerror(errno));
	}
	/* Ours are a byte longer, which stays zero. */
	memcpy(cam->driver, cap.driver, sizeof(cap.driver));
	memcpy(cam->card, cap.card, sizeof(cap.card));
	memcpy(cam->bus, cap.bus_info, sizeof(cap.bus_info));
	/* capabilities speaks of all nodes of the hardware, not of this one. */
	caps = cap.capabilities & V4L2_CAP_DEVICE_CAPS ? cap.device_caps :
							 cap.capabilities;
	if (caps & V4L2_CAP_VIDEO_CAPTURE)
		cam->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	else if (caps & V4L2_CAP_VIDEO_CAPTURE_MPLANE)
		cam->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
	else
		return dlbuf_fail(-EOPNOTSUPP, "%s (%s, %s) does not capture "
				  "video", cam->node, cam->card, cam->driver);
	if (!(caps & V4L2_CAP_STREAMING))
		return dlbuf_fail(-EOPNOTSUPP, "%s (%s, %s) cannot stream: it "
				  "has no buffers to share", cam->node,
				  cam->card, cam->driver);
	return 0;
}

int camera_open(struct camera *cam, const char *node)
{
	int ret;

	*cam = (struct camera){ .fd = -1, .node = node };
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++)
		for (uint32_t p = 0; p < DLBUF_MAX_PLANES; p++)
			cam->buffers[i][p].fd = -1;
	ret = open_node(cam);
	if (!ret)
		ret = query(cam);
	if (ret)
		camera_close(cam);
	return ret;
}

/* ---------------------------------------------------------------- format */

uint32_t camera_formats(const struct camera *cam, uint32_t codes[],
			uint32_t max)
{
	uint32_t n;

	for (n = 0; n < max; n++) {
		struct v4l2_fmtdesc desc = { .index = n, .type = cam->fmt.type };

		if (xioctl(cam->fd, VIDIOC_ENUM_FMT, &desc) < 0)
			break;
		codes[n] = desc.pixelformat;
	}
	return n;
}

struct camera_code camera_code(uint32_t code)
{
	struct camera_code t = { "" };
	size_t n = 4;

	for (size_t i = 0; i < n; i++) {
		t.s[i] = code >> 8 * i & 0x7f;
		if (t.s[i] && (t.s[i] < ' ' || t.s[i] > '~'))
			t.s[i] = '?';
	}
	while (n && t.s[n - 1] == ' ')
		t.s[--n] = '\0';
	if (code >> 31)
		strcat(t.s, "-BE");
	return t;
}

static int no_such_format(struct camera *cam, uint32_t code)
{
	char list[160] = "";
	uint32_t codes[256], n = camera_formats(cam, codes, 256);
	size_t len = 0;

	/* A dozen or two are a help, a hundred are none. */
	for (uint32_t i = 0; i < n; i++) {
		if (len + 16 > sizeof(list)) {
			strcat(list, " ...");
			break;
		}
		len += snprintf(list + len, sizeof(list) - len, "%s%s",
				i ? ", " : "", camera_code(codes[i]).s);
	}
	cam->absent = true;
	return dlbuf_fail(-EINVAL, "%s (%s) does not capture in %s; it has %s",
			  cam->node, cam->card, camera_code(code).s,
			  n ? list : "no list of formats");
}

/* The union's two halves, read once. */
static void take_format(struct camera *cam)
{
	const struct v4l2_pix_format_mplane *mp = &cam->fmt.fmt.pix_mp;
	const struct v4l2_pix_format *pix = &cam->fmt.fmt.pix;
	bool multi = is_multi(cam);

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

	if (!code || !width || !height) {
		if (xioctl(cam->fd, VIDIOC_G_FMT, fmt) < 0)
			return failed(cam, "VIDIOC_G_FMT");
		take_format(cam);
	}
	/* The rest is the driver's to fill in: the old one's does not fit. */
	*fmt = (struct v4l2_format){ .type = fmt->type };
	if (is_multi(cam)) {
		fmt->fmt.pix_mp.width = width ? width : cam->width;
		fmt->fmt.pix_mp.height = height ? height : cam->height;
		fmt->fmt.pix_mp.pixelformat = code ? code : cam->code;
	} else {
		fmt->fmt.pix.width = width ? width : cam->width;
		fmt->fmt.pix.height = height ? height : cam->height;
		fmt->fmt.pix.pixelformat = code ? code : cam->code;
	}
	if (xioctl(cam->fd, VIDIOC_S_FMT, fmt) < 0)
		return errno == EINVAL && code ? no_such_format(cam, code) :
						 failed(cam, "VIDIOC_S_FMT");
	take_format(cam);
	/* A driver that lacks the format gives another one, not an error. */
	if (code && cam->code != code)
		return no_such_format(cam, code);
	if (!cam->nplanes || cam->nplanes > DLBUF_MAX_PLANES)
		return dlbuf_fail(-EOPNOTSUPP, "%s: VIDIOC_S_FMT gave a format "
				  "of %u planes", cam->node, cam->nplanes);
	return 0;
}

int camera_set_rate(struct camera *cam, double rate)
{
	struct v4l2_streamparm parm = { .type = cam->fmt.type };
	struct v4l2_fract *interval = &parm.parm.capture.timeperframe;
	int ret = xioctl(cam->fd, VIDIOC_G_PARM, &parm);

	/* Not to have it is common; nothing else needs it. */
	if (ret < 0 && errno != ENOTTY && errno != EINVAL)
		return failed(cam, "VIDIOC_G_PARM");
	if (ret < 0 ||
	    !(parm.parm.capture.capability & V4L2_CAP_TIMEPERFRAME)) {
		cam->absent = rate;
		return rate ? dlbuf_fail(-EOPNOTSUPP, "%s (%s) does not let "
					 "its rate be set", cam->node,
					 cam->driver) : 0;
	}
	if (rate) {
		*interval = (struct v4l2_fract){ 1000, rate * 1000 + 0.5 };
		if (xioctl(cam->fd, VIDIOC_S_PARM, &parm) < 0)
			return failed(cam, "VIDIOC_S_PARM");
	}
	if (interval->numerator)
		cam->rate = (double)interval->denominator / interval->numerator;
	return 0;
}

void camera_crop(const struct camera *cam, struct v4l2_rect *crop)
{
	struct v4l2_selection sel = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, /* of both APIs */
		.target = V4L2_SEL_TGT_COMPOSE,
	};

	if (xioctl(cam->fd, VIDIOC_G_SELECTION, &sel) < 0 || !sel.r.width ||
	    !sel.r.height)
		return;
	if (sel.r.left || sel.r.top || sel.r.width != cam->width ||
	    sel.r.height != cam->height)
		*crop = sel.r;
}

/* ---------------------------------------------------------------- buffers */

/* Gives all buffers back where n is 0. */
static int reqbufs(struct camera *cam, uint32_t *n)
{
	struct v4l2_requestbuffers req = {
		.count = *n,
		.type = cam->fmt.type,
		.memory = cam->memory,
	};
	int ret = xioctl(cam->fd, VIDIOC_REQBUFS, &req);

	*n = req.count;
	return ret;
}

int camera_request(struct camera *cam, uint32_t memory, uint32_t n)
{
	uint32_t none = 0;
	int err;

	cam->memory = memory;
	if (reqbufs(cam, &n) < 0) {
		err = errno;
		/* Whether the driver has such buffers at all. */
		cam->absent = err == EINVAL && reqbufs(cam, &none) < 0;
		errno = err;
		if (!cam->absent)
			return failed(cam, "VIDIOC_REQBUFS");
		return dlbuf_fail(-EOPNOTSUPP, "%s (%s) has no %s buffers "
				  "(VIDIOC_REQBUFS: %s)", cam->node,
				  cam->driver, memory == V4L2_MEMORY_MMAP ?
				  "mmap" : "dma-buf", strerror(err));
	}
	if (!n || n > VIDEO_MAX_FRAME)
		return dlbuf_fail(-EIO, "%s: VIDIOC_REQBUFS gave %u buffers",
				  cam->node, n);
	cam->nbuffers = n;
	return 0;
}

int camera_export(struct camera *cam, uint32_t index)
{
	for (uint32_t i = 0; i < cam->nplanes; i++) {
		struct v4l2_exportbuffer exp = {
			.type = cam->fmt.type,
			.index = index,
			.plane = i,
			/* Without O_RDWR it is read-only; GPUs map to write. */
			.flags = O_RDWR | O_CLOEXEC,
		};

		if (xioctl(cam->fd, VIDIOC_EXPBUF, &exp) < 0) {
			if (errno != ENOTTY && errno != EINVAL)
				return failed(cam, "VIDIOC_EXPBUF");
			cam->absent = true;
			return dlbuf_fail(-EOPNOTSUPP, "%s (%s) cannot export "
					  "its buffers (VIDIOC_EXPBUF: %s)",
					  cam->node, cam->driver,
					  strerror(errno));
		}
		cam->buffers[index][i].fd = exp.fd;
	}
	return 0;
}

/* A v4l2_buffer for `index`; planes has room for DLBUF_MAX_PLANES. */
static struct v4l2_buffer buffer_arg(const struct camera *cam, uint32_t index,
				     struct v4l2_plane *planes)
{
	struct v4l2_buffer buf = {
		.index = index,
		.type = cam->fmt.type,
		.memory = cam->memory,
	};

	memset(planes, 0, DLBUF_MAX_PLANES * sizeof(*planes));
	if (is_multi(cam)) {
		buf.m.planes = planes;
		buf.length = cam->nplanes;
	}
	return buf;
}

int camera_map(struct camera *cam, uint32_t index)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer_arg(cam, index, planes);
	bool ours = cam->memory == V4L2_MEMORY_DMABUF, multi = is_multi(cam);

	if (!ours && xioctl(cam->fd, VIDIOC_QUERYBUF, &buf) < 0)
		return failed(cam, "VIDIOC_QUERYBUF");
	for (uint32_t i = 0; i < cam->nplanes; i++) {
		struct camera_plane *p = &cam->buffers[index][i];
		size_t bytes = ours ? cam->size[i] :
			       multi ? planes[i].length : buf.length;
		off_t offset = ours ? 0 : multi ? planes[i].m.mem_offset :
						  buf.m.offset;
		void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED,
				 ours ? p->fd : cam->fd, offset);

		if (map == MAP_FAILED)
			return failed(cam, "mmap()");
		p->map = map;
		p->bytes = bytes;
	}
	return 0;
}

/* ---------------------------------------------------------------- frames */

int camera_queue(struct camera *cam, uint32_t index)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer_arg(cam, index, planes);
	const struct camera_plane *p = cam->buffers[index];

	for (uint32_t i = 0; i < cam->nplanes; i++) {
		if (cam->memory != V4L2_MEMORY_DMABUF)
			break;
		if (is_multi(cam)) {
			planes[i].m.fd = p[i].fd;
			planes[i].length = cam->size[i];
		} else {
			buf.m.fd = p[i].fd;
			buf.length = cam->size[i];
		}
	}
	return xioctl(cam->fd, VIDIOC_QBUF, &buf) < 0 ?
	       failed(cam, "VIDIOC_QBUF") : 0;
}

int camera_start(struct camera *cam)
{
	int type = cam->fmt.type, ret;

	for (uint32_t i = 0; i < cam->nbuffers; i++) {
		ret = camera_queue(cam, i);
		if (ret)
			return ret;
	}
	if (xioctl(cam->fd, VIDIOC_STREAMON, &type) < 0)
		return failed(cam, "VIDIOC_STREAMON");
	cam->streaming = true;
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
	if (!is_multi(cam)) {
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

int camera_dequeue(struct camera *cam, uint32_t *index)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer_arg(cam, 0, planes);

	if (xioctl(cam->fd, VIDIOC_DQBUF, &buf) < 0)
		return errno == EAGAIN ? -EAGAIN : failed(cam, "VIDIOC_DQBUF");
	if (buf.index >= cam->nbuffers)
		return dlbuf_fail(-EIO, "%s: VIDIOC_DQBUF gave buffer %u of %u",
				  cam->node, buf.index, cam->nbuffers);
	take_buffer(cam, &buf, planes);
	*index = buf.index;
	return 0;
}

int camera_frame(const struct camera *cam, uint32_t index,
		 struct dlbuf_frame *frame)
{
	const struct v4l2_buffer *buf = &cam->taken[index];
	int fds[DLBUF_MAX_PLANES];

	for (uint32_t i = 0; i < DLBUF_MAX_PLANES; i++)
		fds[i] = cam->buffers[index][i].fd;
	return dlbuf_v4l2_frame(&cam->fmt, buf->type ? buf : NULL, fds, frame);
}

/* ---------------------------------------------------------------- the end */

void camera_forget(struct camera *cam, uint32_t index)
{
	for (uint32_t i = 0; i < DLBUF_MAX_PLANES; i++) {
		struct camera_plane *p = &cam->buffers[index][i];

		if (p->map)
			munmap(p->map, p->bytes);
		if (p->fd >= 0)
			close(p->fd);
		*p = (struct camera_plane){ .fd = -1 };
	}
}

void camera_stop(struct camera *cam)
{
	int type = cam->fmt.type;
	uint32_t none = 0;

	if (cam->streaming)
		xioctl(cam->fd, VIDIOC_STREAMOFF, &type);
	/* Before 4.20 this is refused while a mapping or an fd is left. */
	if (cam->nbuffers)
		reqbufs(cam, &none);
	cam->streaming = false;
}

void camera_close(struct camera *cam)
{
	if (cam->fd < 0)
		return;
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++)
		camera_forget(cam, i);
	camera_stop(cam);
	close(cam->fd);
	cam->fd = -1;
}
