// SPDX-License-Identifier: MIT
/* Cameras: V4L2 capture nodes whose buffers are dma-bufs. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <dlbuf/alloc.h>
#include <dlbuf/camera.h>
#include <dlbuf/interop/v4l2.h>

#include "../alloc/v4l2.h"
#include "../dmabuf/fence.h"
#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/node.h"
#include "../system/sys.h"

struct buffer {
	struct dlbuf_camera *cam;
	int fds[DLBUF_MAX_PLANES];	/* -1: none */
	bool out;			/* a lease that has not fired holds it */
};

struct dlbuf_camera {
	unsigned int generation;	/* see fork.h */
	pthread_mutex_t lock;
	/* Under the lock; a child of fork() has no other threads. */
	unsigned int refs;		/* of the handle, and of frames whose lease has not fired */
	bool stopped;
	/*
	 * errno of VIDIOC_QBUF in a lease's callback. Capture is stopped until a call has
	 * returned it.
	 */
	int queue_error;
	uint64_t sequence;		/* of the last frame */

	struct node v4l2;
	struct v4l2_rect crop;		/* width 0: the whole frame */
	int32_t rotation;		/* of the sensor */
	struct dlbuf_camera_info info;	/* without held */
	uint32_t held;			/* atomic; frames whose lease has not fired */
	struct buffer buffers[VIDEO_MAX_FRAME];
	char node[];
};

static bool inherited(const struct dlbuf_camera *cam)
{
	return cam->generation != fork_generation;
}

/* ---------------------------------------------------------------- the node */

static int open_node(struct dlbuf_camera *cam)
{
	char who[NODE_ACCESS];
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
	node_access(cam->node, err, who);
	return fail(-err, err == ENOENT || err == ENODEV || err == ENXIO ?
		    "%s: there is no such camera: %s%s" :
		    "%s cannot be opened: %s%s", cam->node, strerror(err), who);
}

static int query_camera(struct dlbuf_camera *cam)
{
	const struct v4l2_capability *cap = &cam->v4l2.cap;
	int ret;

	cam->v4l2.fd = cam->info.fd;
	ret = node_query(&cam->v4l2, false);
	if (ret)
		return ret;
	/* V4L2's strings are shorter. */
	memcpy(cam->info.driver, cap->driver, sizeof(cap->driver));
	memcpy(cam->info.card, cap->card, sizeof(cap->card));
	memcpy(cam->info.bus, cap->bus_info, sizeof(cap->bus_info));
	return 0;
}

/* ---------------------------------------------------------------- format */

static int set_format(struct dlbuf_camera *cam, const struct dlbuf_camera_opts *o)
{
	struct node_format f = { o->code, o->width, o->height };
	int ret = node_set_format(&cam->v4l2, VIDIOC_S_FMT, &f, 0, NULL);

	if (ret)
		return ret;
	f = node_format(&cam->v4l2);
	cam->info.code = f.code;
	cam->info.width = f.width;
	cam->info.height = f.height;
	cam->info.nfds = node_nfds(&cam->v4l2);
	return 0;
}

static int set_rate(struct dlbuf_camera *cam, double rate)
{
	struct v4l2_streamparm parm = { .type = cam->v4l2.fmt.type };
	struct v4l2_fract *interval = &parm.parm.capture.timeperframe;
	int ret = sys_ioctl(cam->info.fd, VIDIOC_G_PARM, &parm);

	/* Many drivers have no frame rate, and the library does not need it. */
	if (ret < 0 && errno != ENOTTY && errno != EINVAL)
		return node_failed(&cam->v4l2, "VIDIOC_G_PARM");
	if (ret < 0 ||
	    !(parm.parm.capture.capability & V4L2_CAP_TIMEPERFRAME))
		return rate ? fail(-EOPNOTSUPP, "%s (%s) does not let its rate "
				   "be set", cam->node, cam->info.driver) : 0;
	if (rate) {
		*interval = (struct v4l2_fract){ 1000, rate * 1000 + 0.5 };
		if (sys_ioctl(cam->info.fd, VIDIOC_S_PARM, &parm) < 0)
			return node_failed(&cam->v4l2, "VIDIOC_S_PARM");
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

/* 0 also if the camera has no such control. */
static int32_t control(const struct dlbuf_camera *cam, uint32_t id)
{
	struct v4l2_control c = { .id = id };

	return sys_ioctl(cam->info.fd, VIDIOC_G_CTRL, &c) ? 0 : c.value;
}

/* ---------------------------------------------------------------- buffers */

static int alloc_buffer(struct dlbuf_camera *cam, uint32_t index,
			const struct dlbuf_camera_opts *o)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = o->exporter,
		   .name = "camera");
	int ret = 0;

	for (uint32_t i = 0; !ret && i < cam->info.nfds; i++) {
		int *fd = &cam->buffers[index].fds[i];

		ret = o->exporter ? dlbuf_alloc_fd(node_size(&cam->v4l2, i),
						   &opts, fd) :
		      node_export(&cam->v4l2, index, i, fd);
	}
	if (ret == -EOPNOTSUPP && !o->exporter)
		return fail(ret, "%s: set the option exporter, e.g. to udmabuf, "
			    "so that it need not", dlbuf_last_error());
	return ret;
}

static void close_buffer(struct buffer *b)
{
	for (uint32_t i = 0; i < DLBUF_MAX_PLANES; i++) {
		if (b->fds[i] >= 0)
			close(b->fds[i]);
		b->fds[i] = -1;
	}
}

static int queue(const struct dlbuf_camera *cam, uint32_t index)
{
	return node_queue(&cam->v4l2, index, cam->buffers[index].fds);
}

/* ---------------------------------------------------------------- opening */

static int start_stream(struct dlbuf_camera *cam)
{
	int type = cam->v4l2.fmt.type;

	for (uint32_t i = 0; i < cam->info.buffers; i++)
		if (!cam->buffers[i].out && queue(cam, i) < 0)
			return node_failed(&cam->v4l2, "VIDIOC_QBUF");
	return sys_ioctl(cam->info.fd, VIDIOC_STREAMON, &type) < 0 ?
	       node_failed(&cam->v4l2, "VIDIOC_STREAMON") : 0;
}

/* Takes all buffers from the driver, and wakes the threads that wait in poll(). */
static void stream_off(struct dlbuf_camera *cam)
{
	int type = cam->v4l2.fmt.type;

	sys_ioctl(cam->info.fd, VIDIOC_STREAMOFF, &type);
}

static int set_up(struct dlbuf_camera *cam, struct dlbuf_camera_opts *o)
{
	uint32_t n = o->buffers ? o->buffers : 4;
	int ret = 0;

	if (n > VIDEO_MAX_FRAME)
		ret = fail(-EINVAL, "a camera has 1 to %d buffers, not %u",
			   VIDEO_MAX_FRAME, n);
	if (!ret)
		ret = set_format(cam, o);
	if (!ret)
		ret = set_rate(cam, o->rate);
	if (!ret)
		ret = node_request(&cam->v4l2, o->exporter ?
				   V4L2_MEMORY_DMABUF : V4L2_MEMORY_MMAP, &n);
	if (!ret)
		cam->info.buffers = n;
	for (uint32_t i = 0; !ret && i < cam->info.buffers; i++)
		ret = alloc_buffer(cam, i, o);
	if (ret)
		return ret;
	read_crop(cam);
	cam->rotation = control(cam, V4L2_CID_CAMERA_SENSOR_ROTATION);
	return start_stream(cam);
}

static int check_opts(const char *node, const struct dlbuf_camera_opts *o)
{
	if (!node)
		return fail(-EINVAL, "node is NULL");
	if (o->flags & ~DLBUF_CAMERA_PROBE)
		return fail(-EINVAL, "camera flags 0x%x are unknown",
			    o->flags & ~DLBUF_CAMERA_PROBE);
	/* The rate must fit a fraction of V4L2. This also refuses NaN. */
	if (o->rate && !(o->rate >= 0.001 && o->rate <= 100000))
		return fail(-EINVAL, "rate must be 0 or 0.001 to 100000 frames per second");
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
	cam->v4l2.name = cam->node;
	return cam;
}

int dlbuf_camera_open(const char *node, const struct dlbuf_camera_opts *opts,
		      struct dlbuf_camera **out)
{
	NOT_CANCELLED;
	struct dlbuf_camera *cam;
	struct dlbuf_camera_opts o;
	int ret = OPTS_GET_RESERVED(&o, opts, "dlbuf_camera_opts");

	if (!ret)
		ret = out ? check_opts(node, &o) : fail(-EINVAL, "cam is NULL");
	if (ret)
		return ret;
	cam = create(node);
	if (!cam)
		return -ENOMEM;
	ret = open_node(cam);
	if (!ret)
		ret = query_camera(cam);
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
 * Closes the node and replaces it by a readable file with the same number, so that
 * another thread never polls a file that was opened later. If no such file can be
 * made, the node stays open until dlbuf_camera_close().
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

	if (cam->stopped)
		return;
	cam->stopped = true;
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++)
		if (child || !cam->buffers[i].out)
			close_buffer(&cam->buffers[i]);
	if (!child && cam->info.buffers) {
		stream_off(cam);
		/* Linux before 4.20 refuses this while a frame holds a buffer. */
		node_free(&cam->v4l2);
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
static void release_buffer(void *data)
{
	NOT_CANCELLED;
	struct buffer *b = data;
	struct dlbuf_camera *cam = b->cam;

	/* Only the parent may queue the buffer. */
	if (inherited(cam))
		return;
	pthread_mutex_lock(&cam->lock);
	b->out = false;
	__atomic_sub_fetch(&cam->held, 1, __ATOMIC_RELAXED);
	if (cam->stopped) {
		close_buffer(b);
	} else if (!cam->queue_error && queue(cam, b - cam->buffers) < 0) {
		cam->queue_error = errno;
		stream_off(cam);
	}
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
static int describe_buffer(struct dlbuf_camera *cam, uint32_t index,
			   const struct v4l2_buffer *buf, struct dlbuf_frame *frame)
{
	int ret = dlbuf_v4l2_frame(&cam->v4l2.fmt, buf, cam->buffers[index].fds,
				   frame);

	if (!ret && cam->crop.width)
		ret = dlbuf_v4l2_crop(&cam->crop, frame);
	/* Flips may change while the camera captures. */
	if (!ret && cam->rotation)
		frame->orientation = dlbuf_v4l2_orientation(cam->rotation,
			control(cam, V4L2_CID_HFLIP), control(cam, V4L2_CID_VFLIP));
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
		ret = describe_buffer(cam, index, NULL, &f);
	pthread_mutex_unlock(&cam->lock);
	return ret ? ret : INFO_PUT(frame, &f, "dlbuf_frame");
}

/*
 * Extends V4L2's 32-bit number: finds the nearest 64-bit number with the same low
 * bits. A driver may repeat a number, and a driver that starts to count again begins
 * a new count.
 */
static uint64_t extend(struct dlbuf_camera *cam, uint32_t sequence)
{
	int64_t step = (int32_t)(sequence - (uint32_t)cam->sequence);

	if (!cam->v4l2.frames || (step < 0 && cam->sequence < (uint64_t)-step))
		cam->sequence = sequence;
	else
		cam->sequence += step;
	return cam->sequence;
}

/* Under the lock. -EAGAIN without an error text: there is no frame. */
static int dequeue(struct dlbuf_camera *cam, struct dlbuf_frame *frame)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = node_buffer(&cam->v4l2, 0, planes);
	int ret = running(cam);

	if (ret)
		return ret;
	if (cam->queue_error) {
		stream_off(cam); /* the last start may have failed in the middle */
		ret = cam->queue_error;
		cam->queue_error = start_stream(cam) ? ret : 0;
		errno = ret;
		return node_failed(&cam->v4l2, "VIDIOC_QBUF");
	}
	if (sys_ioctl(cam->info.fd, VIDIOC_DQBUF, &buf) < 0)
		return errno == EAGAIN ? -EAGAIN : node_failed(&cam->v4l2, "VIDIOC_DQBUF");
	if (buf.index >= cam->info.buffers)
		return fail(-EIO, "%s: VIDIOC_DQBUF gave buffer %u of %u",
			    cam->node, buf.index, cam->info.buffers);
	ret = describe_buffer(cam, buf.index, &buf, frame);
	if (ret) {
		queue(cam, buf.index);
		/* An empty buffer is a gap in the sequence, and the next may have a picture. */
		if (ret == -ENODATA)
			forget_failure();
		return ret == -ENODATA ? -EAGAIN : ret;
	}
	frame->sequence = extend(cam, buf.sequence);
	frame->release = release_buffer;
	frame->release_data = &cam->buffers[buf.index];
	cam->buffers[buf.index].out = true;
	cam->v4l2.frames++;
	cam->refs++;
	__atomic_add_fetch(&cam->held, 1, __ATOMIC_RELAXED);
	return 0;
}

static int late(struct dlbuf_camera *cam)
{
	uint32_t held = __atomic_load_n(&cam->held, __ATOMIC_RELAXED);
	uint64_t frames;

	pthread_mutex_lock(&cam->lock);
	frames = cam->v4l2.frames;
	pthread_mutex_unlock(&cam->lock);
	if (held == cam->info.buffers)
		return fail(-ETIME, "%s cannot capture: the program, or a receiver "
			    "of its frames, holds all of its %u buffers: delete or "
			    "release a frame", cam->node, held);
	return fail(-ETIME, "%s gave no frame before the deadline, after %llu "
		    "frames", cam->node, (unsigned long long)frames);
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
	/* Checks this first, because a dequeued frame must reach the caller. */
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
	int ret = usable(cam);

	if (ret)
		return ret;
	i = cam->info;
	i.held = __atomic_load_n(&cam->held, __ATOMIC_RELAXED);
	return INFO_PUT(info, &i, "dlbuf_camera_info");
}
