// SPDX-License-Identifier: MIT
/* Cameras: V4L2 capture nodes whose buffers are dma-bufs. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <dlbuf/alloc.h>
#include <dlbuf/camera.h>
#include <dlbuf/interop/v4l2.h>

#include "fence.h"
#include "fork.h"
#include "internal.h"
#include "sys.h"

struct buffer {
	struct dlbuf_camera *cam;
	int fds[DLBUF_MAX_PLANES];	/* -1: none */
	bool out;			/* the application has it */
};

struct dlbuf_camera {
	unsigned int generation;	/* see fork.h */
	pthread_mutex_t lock;
	/* Under the lock; a child of fork() has no other threads. */
	unsigned int refs;		/* of the handle, and of frames that are out */
	bool stopped;
	int queue_error;		/* errno of a lease that could not queue */

	uint32_t memory;		/* V4L2_MEMORY_MMAP or _DMABUF */
	struct v4l2_format fmt;
	struct v4l2_rect crop;		/* width 0: the whole frame */
	uint64_t frames;
	struct dlbuf_camera_info info;	/* held is atomic */
	struct buffer buffers[VIDEO_MAX_FRAME];
	char node[];
};

static bool is_multi(const struct dlbuf_camera *cam)
{
	return cam->fmt.type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
}

static bool inherited(const struct dlbuf_camera *cam)
{
	return cam->generation != fork_generation;
}

/* The error of an ioctl that has set errno. */
static int failed(const struct dlbuf_camera *cam, const char *call)
{
	int err = errno;

	if (err == ENODEV)
		return fail(-err, "%s was unplugged after %llu frames (%s: %s)",
			    cam->node, (unsigned long long)cam->frames, call,
			    strerror(err));
	if (err == EBUSY)
		return fail(-err, "%s is busy, another program or another part "
			    "of this one uses it (%s: %s)", cam->node, call,
			    strerror(err));
	/* In this library these mean a wrong argument, and "would block". */
	return fail(err == EINVAL || err == EAGAIN ? -EIO : -err,
		    "%s: %s: %s", cam->node, call, strerror(err));
}

/* ---------------------------------------------------------------- the node */

static int open_node(struct dlbuf_camera *cam)
{
	struct stat st;
	int err;

	/* Opening a FIFO or a tape has effects, so the type is read first. */
	if (!sys_stat(cam->node, &st)) {
		if (!S_ISCHR(st.st_mode))
			return fail(-ENOTTY, "%s is no camera: it is not a "
				    "device node", cam->node);
		/* Non-blocking: poll() waits, which has a timeout. */
		cam->info.fd = sys_open(cam->node, O_RDWR | O_NONBLOCK);
		if (cam->info.fd >= 0)
			return 0;
	}
	err = errno;
	return fail(-err, err == ENOENT || err == ENODEV || err == ENXIO ?
		    "%s: there is no such camera: %s" :
		    "%s cannot be opened: %s", cam->node, strerror(err));
}

static int query(struct dlbuf_camera *cam)
{
	struct dlbuf_camera_info *info = &cam->info;
	struct v4l2_capability cap = { 0 };
	uint32_t caps;

	if (sys_ioctl(info->fd, VIDIOC_QUERYCAP, &cap) < 0) {
		if (errno == ENODEV)
			return failed(cam, "VIDIOC_QUERYCAP");
		return fail(-ENOTTY, "%s is no camera (VIDIOC_QUERYCAP: %s)",
			    cam->node, strerror(errno));
	}
	/* V4L2's strings are shorter. */
	memcpy(info->driver, cap.driver, sizeof(cap.driver));
	memcpy(info->card, cap.card, sizeof(cap.card));
	memcpy(info->bus, cap.bus_info, sizeof(cap.bus_info));
	/* capabilities describes all nodes of the hardware together. */
	caps = cap.capabilities & V4L2_CAP_DEVICE_CAPS ? cap.device_caps :
							 cap.capabilities;
	if (caps & V4L2_CAP_VIDEO_CAPTURE)
		cam->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	else if (caps & V4L2_CAP_VIDEO_CAPTURE_MPLANE)
		cam->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
	else
		return fail(-EOPNOTSUPP, "%s (%s, %s) does not capture video",
			    cam->node, info->card, info->driver);
	if (!(caps & V4L2_CAP_STREAMING))
		return fail(-EOPNOTSUPP, "%s (%s, %s) cannot stream: it has no "
			    "buffers to share", cam->node, info->card,
			    info->driver);
	return 0;
}

/* ---------------------------------------------------------------- format */

static uint32_t pitch_of(const struct dlbuf_camera *cam, uint32_t i)
{
	return is_multi(cam) ? cam->fmt.fmt.pix_mp.plane_fmt[i].bytesperline :
			       cam->fmt.fmt.pix.bytesperline;
}

static uint32_t size_of(const struct dlbuf_camera *cam, uint32_t i)
{
	return is_multi(cam) ? cam->fmt.fmt.pix_mp.plane_fmt[i].sizeimage :
			       cam->fmt.fmt.pix.sizeimage;
}

/* "NV12", "Y16-BE" */
static struct code_text letters(uint32_t code)
{
	struct code_text t = { "" };

	for (size_t i = 0; i < 4 && (code >> 8 * i & 0x7f) != ' '; i++)
		t.s[i] = code >> 8 * i & 0x7f;
	if (code >> 31)
		strcat(t.s, "-BE");
	return t;
}

static int no_such_format(const struct dlbuf_camera *cam, uint32_t code)
{
	struct v4l2_fmtdesc desc = { .type = cam->fmt.type };
	char list[300] = "no list of formats";
	size_t len = 0;

	/* Lists as many as fit. */
	for (; len + 26 < sizeof(list); desc.index++) {
		if (sys_ioctl(cam->info.fd, VIDIOC_ENUM_FMT, &desc) < 0)
			break;
		len += snprintf(list + len, sizeof(list) - len, "%s%s",
				len ? ", " : "", letters(desc.pixelformat).s);
	}
	return fail(-EOPNOTSUPP, "%s (%s) does not capture in %s; it has %s%s",
		    cam->node, cam->info.card, letters(code).s, list,
		    len + 26 < sizeof(list) ? "" : " ...");
}

/* Reads the format from the member of V4L2's union that the API uses. */
static void read_format(struct dlbuf_camera *cam)
{
	const struct v4l2_pix_format_mplane *mp = &cam->fmt.fmt.pix_mp;
	const struct v4l2_pix_format *pix = &cam->fmt.fmt.pix;
	bool multi = is_multi(cam);

	cam->info.code = multi ? mp->pixelformat : pix->pixelformat;
	cam->info.width = multi ? mp->width : pix->width;
	cam->info.height = multi ? mp->height : pix->height;
	cam->info.nfds = multi ? mp->num_planes : 1;
}

/* Fills in the format to request. pool describes a pool's buffers; size 0: none. */
static void ask_format(struct dlbuf_camera *cam,
		       const struct dlbuf_camera_opts *o,
		       const struct dlbuf_frame *pool, uint32_t nfds)
{
	uint32_t width = o->width ? o->width : cam->info.width;
	uint32_t height = o->height ? o->height : cam->info.height;
	uint32_t code = o->code ? o->code : cam->info.code;
	struct v4l2_format *fmt = &cam->fmt;

	/* The driver fills in the rest. The old format's values may not fit. */
	*fmt = (struct v4l2_format){ .type = fmt->type };
	if (is_multi(cam)) {
		struct v4l2_pix_format_mplane *mp = &fmt->fmt.pix_mp;

		mp->width = width;
		mp->height = height;
		mp->pixelformat = code;
		mp->num_planes = nfds;
		for (uint32_t i = 0; i < nfds; i++)
			mp->plane_fmt[i].bytesperline = pool->planes[i].pitch;
	} else {
		fmt->fmt.pix.width = width;
		fmt->fmt.pix.height = height;
		fmt->fmt.pix.pixelformat = code;
		fmt->fmt.pix.bytesperline = pool->planes[0].pitch;
	}
}

static int set_format(struct dlbuf_camera *cam,
		      const struct dlbuf_camera_opts *o,
		      const struct dlbuf_frame *pool, uint32_t nfds)
{
	if (!o->code || !o->width || !o->height) {
		if (sys_ioctl(cam->info.fd, VIDIOC_G_FMT, &cam->fmt) < 0)
			return failed(cam, "VIDIOC_G_FMT");
		read_format(cam);
	}
	ask_format(cam, o, pool, nfds);
	if (sys_ioctl(cam->info.fd, VIDIOC_S_FMT, &cam->fmt) < 0)
		return errno == EINVAL && o->code ?
		       no_such_format(cam, o->code) :
		       failed(cam, "VIDIOC_S_FMT");
	read_format(cam);
	/* A driver that lacks the format sets another one and returns 0. */
	if (o->code && cam->info.code != o->code)
		return no_such_format(cam, o->code);
	if (!cam->info.nfds || cam->info.nfds > DLBUF_MAX_PLANES)
		return fail(-EOPNOTSUPP, "%s: VIDIOC_S_FMT gave a format of %u "
			    "planes", cam->node, cam->info.nfds);
	return 0;
}

static int set_rate(struct dlbuf_camera *cam, double rate)
{
	struct v4l2_streamparm parm = { .type = cam->fmt.type };
	struct v4l2_fract *interval = &parm.parm.capture.timeperframe;
	int ret = sys_ioctl(cam->info.fd, VIDIOC_G_PARM, &parm);

	/* Many drivers have no frame rate, and nothing else needs it. */
	if (ret < 0 && errno != ENOTTY && errno != EINVAL)
		return failed(cam, "VIDIOC_G_PARM");
	if (ret < 0 ||
	    !(parm.parm.capture.capability & V4L2_CAP_TIMEPERFRAME))
		return rate ? fail(-EOPNOTSUPP, "%s (%s) does not let its rate "
				   "be set", cam->node, cam->info.driver) : 0;
	if (rate) {
		*interval = (struct v4l2_fract){ 1000, rate * 1000 + 0.5 };
		if (sys_ioctl(cam->info.fd, VIDIOC_S_PARM, &parm) < 0)
			return failed(cam, "VIDIOC_S_PARM");
	}
	if (interval->numerator)
		cam->info.rate = (double)interval->denominator /
				 interval->numerator;
	return 0;
}

static void read_crop(struct dlbuf_camera *cam)
{
	struct v4l2_selection sel = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, /* in both APIs */
		.target = V4L2_SEL_TGT_COMPOSE,
	};

	if (!sys_ioctl(cam->info.fd, VIDIOC_G_SELECTION, &sel) &&
	    sel.r.width && sel.r.height &&
	    (sel.r.left || sel.r.top || sel.r.width != cam->info.width ||
	     sel.r.height != cam->info.height))
		cam->crop = sel.r;
}

/* ---------------------------------------------------------------- buffers */

/* *n 0 frees all buffers. */
static int reqbufs(const struct dlbuf_camera *cam, uint32_t *n)
{
	struct v4l2_requestbuffers req = {
		.count = *n,
		.type = cam->fmt.type,
		.memory = cam->memory,
	};
	int ret = sys_ioctl(cam->info.fd, VIDIOC_REQBUFS, &req);

	*n = req.count;
	return ret;
}

static int request(struct dlbuf_camera *cam, uint32_t memory, uint32_t n)
{
	uint32_t none = 0;
	int err;

	cam->memory = memory;
	if (reqbufs(cam, &n) < 0) {
		err = errno;
		/* Tells whether the driver has this kind of buffers. */
		if (err == EINVAL && reqbufs(cam, &none) < 0)
			return fail(-EOPNOTSUPP, "%s (%s) has no %s buffers "
				    "(VIDIOC_REQBUFS: %s)", cam->node,
				    cam->info.driver,
				    memory == V4L2_MEMORY_MMAP ? "mmap" :
				    "dma-buf", strerror(err));
		errno = err;
		return failed(cam, "VIDIOC_REQBUFS");
	}
	if (!n || n > VIDEO_MAX_FRAME)
		return fail(-EIO, "%s: VIDIOC_REQBUFS gave %u buffers",
			    cam->node, n);
	cam->info.buffers = n;
	return 0;
}

static int export(const struct dlbuf_camera *cam, uint32_t index, uint32_t i,
		  int *fd)
{
	struct v4l2_exportbuffer exp = {
		.type = cam->fmt.type,
		.index = index,
		.plane = i,
		/* Without O_RDWR the fd is read-only, and GPUs map buffers for writing. */
		.flags = O_RDWR | O_CLOEXEC,
	};

	if (!sys_ioctl(cam->info.fd, VIDIOC_EXPBUF, &exp))
		return raise_fd(exp.fd, fd);
	if (errno != ENOTTY && errno != EINVAL)
		return failed(cam, "VIDIOC_EXPBUF");
	return fail(-EOPNOTSUPP, "%s (%s) cannot export its buffers "
		    "(VIDIOC_EXPBUF: %s)", cam->node, cam->info.driver,
		    strerror(errno));
}

/* Takes dma-bufs of a pool, whose buffers all have the same layout. */
static int borrow(const struct dlbuf_camera *cam, struct dlbuf_pool *pool,
		  uint32_t index, uint32_t i, int *fd)
{
	DLBUF_INFO(dlbuf_frame, frame);
	int ret = dlbuf_pool_frame(pool, index, &frame);

	if (ret)
		return ret;
	if (frame.planes[i].pitch != pitch_of(cam, i) && pitch_of(cam, i))
		return fail(-EOPNOTSUPP, "%s captures with a pitch of %u bytes, "
			    "the pool has %lld", cam->node, pitch_of(cam, i),
			    (long long)frame.planes[i].pitch);
	*fd = sys_dup(frame.planes[i].fd);
	return *fd < 0 ? fail_errno("a dma-buf of the pool") : 0;
}

static int fill(struct dlbuf_camera *cam, uint32_t index,
		const struct dlbuf_camera_opts *o)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = o->exporter,
		   .name = "camera");
	int ret = 0;

	for (uint32_t i = 0; !ret && i < cam->info.nfds; i++) {
		int *fd = &cam->buffers[index].fds[i];

		ret = o->pool ? borrow(cam, o->pool, index, i, fd) :
		      o->exporter ? dlbuf_alloc_fd(size_of(cam, i), &opts, fd) :
		      export(cam, index, i, fd);
	}
	return ret;
}

static void forget(struct buffer *b)
{
	for (uint32_t i = 0; i < DLBUF_MAX_PLANES; i++) {
		if (b->fds[i] >= 0)
			close(b->fds[i]);
		b->fds[i] = -1;
	}
}

/* Makes a v4l2_buffer for `index`. planes has room for DLBUF_MAX_PLANES. */
static struct v4l2_buffer buffer_arg(const struct dlbuf_camera *cam,
				     uint32_t index, struct v4l2_plane *planes)
{
	struct v4l2_buffer buf = {
		.index = index,
		.type = cam->fmt.type,
		.memory = cam->memory,
	};

	memset(planes, 0, DLBUF_MAX_PLANES * sizeof(*planes));
	if (is_multi(cam)) {
		buf.m.planes = planes;
		buf.length = cam->info.nfds;
	}
	return buf;
}

static int queue(const struct dlbuf_camera *cam, uint32_t index)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer_arg(cam, index, planes);
	const int *fds = cam->buffers[index].fds;

	for (uint32_t i = 0; cam->memory == V4L2_MEMORY_DMABUF &&
	     i < cam->info.nfds; i++) {
		if (is_multi(cam)) {
			planes[i].m.fd = fds[i];
			planes[i].length = size_of(cam, i);
		} else {
			buf.m.fd = fds[i];
			buf.length = size_of(cam, i);
		}
	}
	return sys_ioctl(cam->info.fd, VIDIOC_QBUF, &buf);
}

/* ---------------------------------------------------------------- opening */

static int start(struct dlbuf_camera *cam)
{
	int type = cam->fmt.type;

	for (uint32_t i = 0; i < cam->info.buffers; i++)
		if (queue(cam, i) < 0)
			return failed(cam, "VIDIOC_QBUF");
	return sys_ioctl(cam->info.fd, VIDIOC_STREAMON, &type) < 0 ?
	       failed(cam, "VIDIOC_STREAMON") : 0;
}

/* Sets the options that the pool determines. *frame describes its buffers. */
static int apply_pool(struct dlbuf_camera_opts *o, struct dlbuf_frame *frame,
		      uint32_t *nfds)
{
	DLBUF_INFO(dlbuf_pool_info, info);
	int ret = dlbuf_pool_get_info(o->pool, &info);

	if (!ret)
		ret = dlbuf_pool_frame(o->pool, 0, frame);
	if (ret)
		return ret;
	if (frame->code_space != DLBUF_CODE_V4L2)
		return fail(-EINVAL, "the pool's code is not one of V4L2");
	if (o->code || o->width || o->height || o->buffers)
		return fail(-EINVAL, "the pool has a format, a size and a number "
			    "of buffers: the options must not");
	o->code = frame->code;
	o->width = frame->width;
	o->height = frame->height;
	o->buffers = info.buffers;
	*nfds = info.nfds;
	return 0;
}

static int check_pool(const struct dlbuf_camera *cam,
		      const struct dlbuf_camera_opts *o, uint32_t nfds)
{
	DLBUF_INFO(dlbuf_pool_info, info);

	dlbuf_pool_get_info(o->pool, &info);
	if (cam->info.width != o->width || cam->info.height != o->height)
		return fail(-EOPNOTSUPP, "%s captures %ux%u pixels, the pool has "
			    "%ux%u", cam->node, cam->info.width,
			    cam->info.height, o->width, o->height);
	if (cam->info.nfds != nfds)
		return fail(-EOPNOTSUPP, "%s captures into %u dma-bufs, the "
			    "pool's buffers have %u", cam->node, cam->info.nfds,
			    nfds);
	if (cam->info.buffers > o->buffers)
		return fail(-EOPNOTSUPP, "%s needs %u buffers, the pool has %u",
			    cam->node, cam->info.buffers, o->buffers);
	for (uint32_t i = 0; i < nfds; i++)
		if (info.bytes[i] < size_of(cam, i))
			return fail(-EOPNOTSUPP, "%s needs %u bytes, the pool "
				    "has %llu", cam->node, size_of(cam, i),
				    (unsigned long long)info.bytes[i]);
	return 0;
}

static int set_up(struct dlbuf_camera *cam, struct dlbuf_camera_opts *o)
{
	DLBUF_INFO(dlbuf_frame, pool);
	uint32_t nfds = 0;
	int ret = o->pool ? apply_pool(o, &pool, &nfds) : 0;

	if (!ret)
		ret = set_format(cam, o, &pool, nfds);
	if (!ret)
		ret = set_rate(cam, o->rate);
	if (!ret)
		ret = request(cam, o->pool || o->exporter ?
			      V4L2_MEMORY_DMABUF : V4L2_MEMORY_MMAP,
			      o->buffers ? o->buffers : 4);
	if (!ret && o->pool)
		ret = check_pool(cam, o, nfds);
	for (uint32_t i = 0; !ret && i < cam->info.buffers; i++)
		ret = fill(cam, i, o);
	if (ret)
		return ret;
	read_crop(cam);
	return start(cam);
}

static int check_opts(const char *node, const struct dlbuf_camera_opts *o)
{
	if (!node)
		return fail(-EINVAL, "node is NULL");
	if (o->flags & ~DLBUF_CAMERA_PROBE)
		return fail(-EINVAL, "camera flags 0x%x are unknown",
			    o->flags & ~DLBUF_CAMERA_PROBE);
	if (o->pool && o->exporter)
		return fail(-EINVAL, "the buffers are of a pool or of an "
			    "exporter, not of both");
	/* The rate must fit a fraction of V4L2. This also refuses NaN. */
	if (o->rate && !(o->rate >= 0.001 && o->rate <= 100000))
		return fail(-EINVAL, "%g frames per second", o->rate);
	return 0;
}

static struct dlbuf_camera *create(const char *node)
{
	size_t size = strlen(node) + 1;
	struct dlbuf_camera *cam = sys_calloc(1, sizeof(*cam) + size);

	if (!cam)
		return NULL;
	fork_watch();
	cam->generation = fork_generation;
	pthread_mutex_init(&cam->lock, NULL);
	cam->refs = 1;
	cam->info.size = sizeof(cam->info);
	cam->info.fd = -1;
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++) {
		cam->buffers[i].cam = cam;
		for (uint32_t j = 0; j < DLBUF_MAX_PLANES; j++)
			cam->buffers[i].fds[j] = -1;
	}
	memcpy(cam->node, node, size);
	return cam;
}

int dlbuf_camera_open(const char *node, const struct dlbuf_camera_opts *opts,
		      struct dlbuf_camera **out)
{
	NOT_CANCELLED;
	struct dlbuf_camera *cam;
	struct dlbuf_camera_opts o;
	int ret = OPTS_GET(&o, opts, "dlbuf_camera_opts");

	if (!ret)
		ret = out ? check_opts(node, &o) : fail(-EINVAL, "cam is NULL");
	if (ret)
		return ret;
	cam = create(node);
	if (!cam)
		return -ENOMEM;
	ret = open_node(cam);
	if (!ret)
		ret = query(cam);
	if (!ret && !(o.flags & DLBUF_CAMERA_PROBE))
		ret = set_up(cam, &o);
	if (ret)
		dlbuf_camera_close(cam);
	else
		*out = cam;
	return ret;
}

/* ---------------------------------------------------------------- stopping */

/* Under the lock. Unlocks (not in a child of fork()), and drops a reference. */
static void unlock_unref(struct dlbuf_camera *cam)
{
	bool last = !--cam->refs;

	if (!inherited(cam))
		pthread_mutex_unlock(&cam->lock);
	if (!last)
		return;
	if (!inherited(cam))
		pthread_mutex_destroy(&cam->lock);
	free(cam);
}

/*
 * Closes the node and keeps its number, as a file that is readable, so that another
 * thread never polls a file that was opened since. Without one the node stays open
 * until dlbuf_camera_close().
 */
static void close_node(struct dlbuf_camera *cam)
{
	int fd = sys_eventfd(EFD_NONBLOCK);

	if (fd < 0)
		return;
	eventfd_write(fd, 1);
	dup3(fd, cam->info.fd, O_CLOEXEC);
	close(fd);
}

/* Under the lock. A child of fork() only closes its own fds. */
static void stop(struct dlbuf_camera *cam)
{
	bool child = inherited(cam);
	int type = cam->fmt.type;
	uint32_t none = 0;

	if (cam->stopped)
		return;
	cam->stopped = true;
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++)
		if (child || !cam->buffers[i].out)
			forget(&cam->buffers[i]);
	if (!child && cam->info.buffers) {
		/* Wakes the threads that wait in poll(). */
		sys_ioctl(cam->info.fd, VIDIOC_STREAMOFF, &type);
		/* Linux before 4.20 refuses this while a frame is out. */
		reqbufs(cam, &none);
	}
	if (cam->info.fd >= 0)
		close_node(cam);
}

void dlbuf_camera_stop(struct dlbuf_camera *cam)
{
	NOT_CANCELLED;
	if (!cam)
		return;
	if (!inherited(cam))
		pthread_mutex_lock(&cam->lock);
	stop(cam);
	if (!inherited(cam))
		pthread_mutex_unlock(&cam->lock);
}

void dlbuf_camera_close(struct dlbuf_camera *cam)
{
	NOT_CANCELLED;
	if (!cam)
		return;
	if (!inherited(cam))
		pthread_mutex_lock(&cam->lock);
	stop(cam);
	if (cam->info.fd >= 0)
		close(cam->info.fd);
	unlock_unref(cam);
}

/* ---------------------------------------------------------------- frames */

/* The release callback of a frame. Runs on any thread, at any time. */
static void release(void *data)
{
	NOT_CANCELLED;
	struct buffer *b = data;
	struct dlbuf_camera *cam = b->cam;

	/* Only the parent may queue the buffer. */
	if (inherited(cam))
		return;
	pthread_mutex_lock(&cam->lock);
	b->out = false;
	__atomic_sub_fetch(&cam->info.held, 1, __ATOMIC_RELAXED);
	if (cam->stopped)
		forget(b);
	else if (queue(cam, b - cam->buffers) < 0)
		cam->queue_error = errno;
	unlock_unref(cam);
}

static int usable(const struct dlbuf_camera *cam)
{
	if (!cam)
		return fail(-EINVAL, "cam is NULL");
	if (inherited(cam))
		return fail(-ESTALE, "%s belongs to the process that forked "
			    "this one", cam->node);
	return 0;
}

/* Under the lock. */
static int running(const struct dlbuf_camera *cam)
{
	return cam->stopped ? fail(-ECANCELED, "%s was stopped", cam->node) : 0;
}

/* buf is NULL or the buffer that was dequeued. */
static int describe(struct dlbuf_camera *cam, uint32_t index,
		    const struct v4l2_buffer *buf, struct dlbuf_frame *frame)
{
	int ret = dlbuf_v4l2_frame(&cam->fmt, buf, cam->buffers[index].fds,
				   frame);

	if (!ret && cam->crop.width)
		ret = dlbuf_v4l2_crop(&cam->crop, frame);
	return ret;
}

int dlbuf_camera_buffer(struct dlbuf_camera *cam, uint32_t index,
			struct dlbuf_frame *frame)
{
	NOT_CANCELLED;
	struct dlbuf_frame f;
	int ret = usable(cam);

	if (ret)
		return ret;
	if (index >= cam->info.buffers)
		return fail(-EINVAL, "%s has %u buffers, none of index %u",
			    cam->node, cam->info.buffers, index);
	pthread_mutex_lock(&cam->lock);
	ret = running(cam);
	if (!ret)
		ret = describe(cam, index, NULL, &f);
	pthread_mutex_unlock(&cam->lock);
	return ret ? ret : INFO_PUT(frame, &f, "dlbuf_frame");
}

/* Under the lock. -EAGAIN without an error text: there is no frame. */
static int dequeue(struct dlbuf_camera *cam, struct dlbuf_frame *frame)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer_arg(cam, 0, planes);
	int ret = running(cam);

	if (ret)
		return ret;
	if (cam->queue_error) {
		errno = cam->queue_error;
		cam->queue_error = 0;
		return failed(cam, "VIDIOC_QBUF");
	}
	if (sys_ioctl(cam->info.fd, VIDIOC_DQBUF, &buf) < 0)
		return errno == EAGAIN ? -EAGAIN : failed(cam, "VIDIOC_DQBUF");
	if (buf.index >= cam->info.buffers)
		return fail(-EIO, "%s: VIDIOC_DQBUF gave buffer %u of %u",
			    cam->node, buf.index, cam->info.buffers);
	ret = describe(cam, buf.index, &buf, frame);
	if (ret) {
		queue(cam, buf.index);
		return ret;
	}
	frame->release = release;
	frame->release_data = &cam->buffers[buf.index];
	cam->buffers[buf.index].out = true;
	cam->frames++;
	cam->refs++;
	__atomic_add_fetch(&cam->info.held, 1, __ATOMIC_RELAXED);
	return 0;
}

static int late(const struct dlbuf_camera *cam)
{
	uint32_t held = __atomic_load_n(&cam->info.held, __ATOMIC_RELAXED);

	if (held == cam->info.buffers)
		return fail(-ETIME, "%s cannot capture: the program holds all of "
			    "its %u buffers, delete or release a frame",
			    cam->node, held);
	return fail(-ETIME, "%s gave no frame before the deadline, after %llu "
		    "frames", cam->node, (unsigned long long)cam->frames);
}

int dlbuf_camera_frame(struct dlbuf_camera *cam, uint64_t deadline_ns,
		       struct dlbuf_frame *frame)
{
	NOT_CANCELLED;
	struct dlbuf_frame f;
	int ret = usable(cam);

	if (ret)
		return ret;
	if (!cam->info.buffers)
		return fail(-EINVAL, "%s was opened with DLBUF_CAMERA_PROBE",
			    cam->node);
	/* Checked before, because a dequeued frame must reach the caller. */
	if (!frame)
		return fail(-EINVAL, "frame is NULL");
	ret = INFO_CHECK(frame, "dlbuf_frame");
	if (ret)
		return ret;
	for (;;) {
		pthread_mutex_lock(&cam->lock);
		ret = dequeue(cam, &f);
		pthread_mutex_unlock(&cam->lock);
		if (ret != -EAGAIN)
			return ret ? ret : INFO_PUT(frame, &f, "dlbuf_frame");
		/* POLLERR too: VIDIOC_DQBUF returns the reason. */
		ret = poll_until(cam->info.fd, POLLIN, deadline_ns);
		if (ret < 0)
			return ret;
		if (!ret)
			return late(cam);
	}
}

int dlbuf_camera_get_info(struct dlbuf_camera *cam,
			  struct dlbuf_camera_info *info)
{
	struct dlbuf_camera_info i;

	if (!cam)
		return fail(-EINVAL, "cam is NULL");
	i = cam->info;
	i.held = __atomic_load_n(&cam->info.held, __ATOMIC_RELAXED);
	return INFO_PUT(info, &i, "dlbuf_camera_info");
}
