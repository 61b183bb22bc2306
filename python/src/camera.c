// SPDX-License-Identifier: MIT
/*
 * A V4L2 capture node whose buffers are dma-bufs. What Python has of it is a
 * Capture; what the leases of its frames have, on any thread and perhaps after
 * the Capture is gone, is the struct capture behind it. That one's lock is never
 * held by who waits for the GIL, and a lease never asks for the GIL.
 */
#include "_dlbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dlbuf/interop/v4l2.h>

struct capture;

struct slot {
	struct capture *cap;
	uint32_t index;
	int fds[DLBUF_MAX_PLANES];	/* exported, once; -1: none */
	bool out;			/* the program has it */
};

struct capture {
	pthread_mutex_t lock;
	unsigned int refs;	/* the Capture, frames that are out, waiters */
	unsigned int waiters;	/* in poll(), with the fd */
	bool closed;
	int fd;
	pid_t pid;		/* whose it is: not that of a fork()'s child */
	struct v4l2_format fmt;
	struct v4l2_rect crop;	/* width 0: all of it */
	uint32_t nplanes;	/* dma-bufs of a buffer */
	uint32_t nslots, out;
	unsigned long long frames;
	double fps;		/* 0: it does not say */
	char card[33], driver[17];
	struct slot slots[VIDEO_MAX_FRAME];
};

struct capture_object {
	PyObject_HEAD
	struct capture *cap;
};

static PyTypeObject *capture_type;

static int xioctl(int fd, unsigned long request, void *arg)
{
	int ret;

	do
		ret = ioctl(fd, request, arg);
	while (ret < 0 && errno == EINTR);
	return ret;
}

static bool is_multi(const struct capture *cap)
{
	return cap->fmt.type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
}

/* ---------------------------------------------------------------- leases */

/* Under the lock, or of a capture that nobody else has. */
static void slot_close(struct slot *slot)
{
	for (int i = 0; i < DLBUF_MAX_PLANES; i++) {
		if (slot->fds[i] >= 0)
			close(slot->fds[i]);
		slot->fds[i] = -1;
	}
}

/* Under the lock: what was closed goes with the last who uses it. */
static void fd_close(struct capture *cap)
{
	if (!cap->closed || cap->waiters || cap->fd < 0)
		return;
	close(cap->fd);
	cap->fd = -1;
}

/* Under the lock, which it gives back. */
static void unlock_unref(struct capture *cap)
{
	bool last = !--cap->refs;

	pthread_mutex_unlock(&cap->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&cap->lock);
	free(cap);
}

/* A v4l2_buffer for `index`; planes has room for DLBUF_MAX_PLANES. */
static struct v4l2_buffer buffer_arg(const struct capture *cap, uint32_t index,
				     struct v4l2_plane *planes)
{
	struct v4l2_buffer buf = {
		.index = index,
		.type = cap->fmt.type,
		.memory = V4L2_MEMORY_MMAP,
	};

	memset(planes, 0, DLBUF_MAX_PLANES * sizeof(*planes));
	if (is_multi(cap)) {
		buf.m.planes = planes;
		buf.length = cap->nplanes;
	}
	return buf;
}

static int queue(struct capture *cap, uint32_t index)
{
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	struct v4l2_buffer buf = buffer_arg(cap, index, planes);

	return xioctl(cap->fd, VIDIOC_QBUF, &buf);
}

/*
 * The lease of a frame. On any thread, at any time, without the GIL. In a
 * child after fork() the buffer is the parent's to give back, and the lock may
 * be as it was.
 */
static void give_back(void *data)
{
	struct slot *slot = data;
	struct capture *cap = slot->cap;

	if (getpid() != cap->pid)
		return;
	pthread_mutex_lock(&cap->lock);
	slot->out = false;
	cap->out--;
	if (cap->closed)
		slot_close(slot);
	else
		/* If the camera is gone the next frame's caller is told. */
		queue(cap, slot->index);
	unlock_unref(cap);
}

/* ---------------------------------------------------------------- opening */

static int failed(const char *node, const char *call)
{
	int err = errno;

	if (err == ENODEV)
		return raise_errno(err, "%s was unplugged (%s: %s)", node, call,
				   strerror(err));
	if (err == EBUSY)
		return raise_errno(err, "%s is busy, another program or another "
				   "Camera uses it (%s: %s)", node, call,
				   strerror(err));
	return raise_errno(err, "%s: %s: %s", node, call, strerror(err));
}

static int open_node(struct capture *cap, const char *node)
{
	struct stat st;

	/* Looked at first: to open a pipe or a tape is not without effect. */
	if (stat(node, &st) < 0)
		return raise_errno(errno, "%s: there is no such camera: %s",
				   node, strerror(errno));
	if (!S_ISCHR(st.st_mode))
		return raise_errno(ENOTTY, "%s is no camera: it is not a device "
				   "node", node);
	cap->fd = open(node, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (cap->fd < 0)
		return raise_errno(errno, "%s cannot be opened: %s", node,
				   strerror(errno));
	return 0;
}

static int query(struct capture *cap, const char *node)
{
	struct v4l2_capability c = { 0 };
	uint32_t caps;

	if (xioctl(cap->fd, VIDIOC_QUERYCAP, &c) < 0) {
		if (errno == ENODEV)
			return failed(node, "VIDIOC_QUERYCAP");
		return raise_errno(ENOTTY, "%s is no camera (VIDIOC_QUERYCAP: "
				   "%s)", node, strerror(errno));
	}
	memcpy(cap->card, c.card, sizeof(c.card));
	memcpy(cap->driver, c.driver, sizeof(c.driver));
	/* capabilities speaks of all nodes of the hardware, not of this one. */
	caps = c.capabilities & V4L2_CAP_DEVICE_CAPS ? c.device_caps :
						       c.capabilities;
	if (caps & V4L2_CAP_VIDEO_CAPTURE)
		cap->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	else if (caps & V4L2_CAP_VIDEO_CAPTURE_MPLANE)
		cap->fmt.type = V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE;
	else
		return raise_errno(EOPNOTSUPP, "%s (%s, %s) does not capture "
				   "video", node, cap->card, cap->driver);
	if (!(caps & V4L2_CAP_STREAMING))
		return raise_errno(EOPNOTSUPP, "%s (%s, %s) cannot stream: it "
				   "has no buffers to share", node, cap->card,
				   cap->driver);
	return 0;
}

static int no_such_format(struct capture *cap, const char *node, uint32_t code)
{
	char list[160] = "", name[5] = "";
	size_t len = 0;

	for (uint32_t i = 0; len + 12 < sizeof(list); i++) {
		struct v4l2_fmtdesc desc = { .index = i,
					     .type = cap->fmt.type };

		if (xioctl(cap->fd, VIDIOC_ENUM_FMT, &desc) < 0)
			break;
		memcpy(name, &desc.pixelformat, 4);
		len += snprintf(list + len, sizeof(list) - len, "%s%.4s",
				i ? ", " : "", name);
	}
	memcpy(name, &code, 4);
	return raise_errno(EINVAL, "%s (%s) does not capture in %s; it has %s%s",
			   node, cap->card, name, list,
			   len + 12 < sizeof(list) ? "" : " ...");
}

/* What is 0 stays as it is. */
static int set_format(struct capture *cap, const char *node, uint32_t code,
		      uint32_t width, uint32_t height)
{
	struct v4l2_pix_format_mplane *mp = &cap->fmt.fmt.pix_mp;
	struct v4l2_pix_format *pix = &cap->fmt.fmt.pix;
	struct v4l2_format old = { .type = cap->fmt.type };

	if (xioctl(cap->fd, VIDIOC_G_FMT, &old) < 0)
		return failed(node, "VIDIOC_G_FMT");
	/* The rest is the driver's to fill in: the old one's does not fit. */
	if (is_multi(cap)) {
		mp->pixelformat = code ? code : old.fmt.pix_mp.pixelformat;
		mp->width = width ? width : old.fmt.pix_mp.width;
		mp->height = height ? height : old.fmt.pix_mp.height;
	} else {
		pix->pixelformat = code ? code : old.fmt.pix.pixelformat;
		pix->width = width ? width : old.fmt.pix.width;
		pix->height = height ? height : old.fmt.pix.height;
	}
	if (xioctl(cap->fd, VIDIOC_S_FMT, &cap->fmt) < 0)
		return errno == EINVAL ? no_such_format(cap, node, code) :
					 failed(node, "VIDIOC_S_FMT");
	/* A driver that lacks the format gives another one, not an error. */
	if (code && code != (is_multi(cap) ? mp->pixelformat :
					     pix->pixelformat))
		return no_such_format(cap, node, code);
	cap->nplanes = is_multi(cap) ? mp->num_planes : 1;
	if (!cap->nplanes || cap->nplanes > DLBUF_MAX_PLANES)
		return raise_errno(EOPNOTSUPP, "%s: VIDIOC_S_FMT gave a format "
				   "of %u planes", node, cap->nplanes);
	return 0;
}

static int set_rate(struct capture *cap, const char *node, double fps)
{
	struct v4l2_streamparm parm = { .type = cap->fmt.type };
	struct v4l2_fract *interval = &parm.parm.capture.timeperframe;
	int ret = xioctl(cap->fd, VIDIOC_G_PARM, &parm);

	/* Not to have it is common; nothing else needs it. */
	if (ret < 0 && errno != ENOTTY && errno != EINVAL)
		return failed(node, "VIDIOC_G_PARM");
	if (ret < 0 || !(parm.parm.capture.capability & V4L2_CAP_TIMEPERFRAME))
		return fps ? raise_errno(EOPNOTSUPP, "%s (%s) does not let its "
					 "rate be set", node, cap->driver) : 0;
	if (fps) {
		*interval = (struct v4l2_fract){ 1000, fps * 1000 + 0.5 };
		if (xioctl(cap->fd, VIDIOC_S_PARM, &parm) < 0)
			return failed(node, "VIDIOC_S_PARM");
	}
	if (interval->numerator)
		cap->fps = (double)interval->denominator / interval->numerator;
	return 0;
}

/* Where in the buffer the picture is, for those drivers that say so. */
static void get_crop(struct capture *cap)
{
	struct v4l2_selection sel = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, /* of both APIs */
		.target = V4L2_SEL_TGT_COMPOSE,
	};
	uint32_t width = is_multi(cap) ? cap->fmt.fmt.pix_mp.width :
					 cap->fmt.fmt.pix.width;
	uint32_t height = is_multi(cap) ? cap->fmt.fmt.pix_mp.height :
					  cap->fmt.fmt.pix.height;

	if (xioctl(cap->fd, VIDIOC_G_SELECTION, &sel) < 0 || !sel.r.width ||
	    !sel.r.height)
		return;
	if (sel.r.left || sel.r.top || sel.r.width != width ||
	    sel.r.height != height)
		cap->crop = sel.r;
}

static int export_slot(struct capture *cap, const char *node, uint32_t index)
{
	for (uint32_t i = 0; i < cap->nplanes; i++) {
		struct v4l2_exportbuffer exp = {
			.type = cap->fmt.type,
			.index = index,
			.plane = i,
			/* Without O_RDWR it is read-only; GPUs map to write. */
			.flags = O_RDWR | O_CLOEXEC,
		};

		if (xioctl(cap->fd, VIDIOC_EXPBUF, &exp) < 0) {
			if (errno != ENOTTY && errno != EINVAL)
				return failed(node, "VIDIOC_EXPBUF");
			return raise_errno(EOPNOTSUPP, "%s (%s) cannot export "
					   "its buffers (VIDIOC_EXPBUF: %s)",
					   node, cap->driver, strerror(errno));
		}
		cap->slots[index].fds[i] = exp.fd;
	}
	return 0;
}

static int request(struct capture *cap, const char *node, uint32_t n)
{
	struct v4l2_requestbuffers req = {
		.count = n,
		.type = cap->fmt.type,
		.memory = V4L2_MEMORY_MMAP,
	};

	if (xioctl(cap->fd, VIDIOC_REQBUFS, &req) < 0)
		return failed(node, "VIDIOC_REQBUFS");
	if (!req.count || req.count > VIDEO_MAX_FRAME)
		return raise_errno(EIO, "%s: VIDIOC_REQBUFS gave %u buffers",
				   node, req.count);
	cap->nslots = req.count;
	for (uint32_t i = 0; i < cap->nslots; i++)
		if (export_slot(cap, node, i))
			return -1;
	return 0;
}

static int start(struct capture *cap, const char *node)
{
	int type = cap->fmt.type;

	for (uint32_t i = 0; i < cap->nslots; i++)
		if (queue(cap, i) < 0)
			return failed(node, "VIDIOC_QBUF");
	if (xioctl(cap->fd, VIDIOC_STREAMON, &type) < 0)
		return failed(node, "VIDIOC_STREAMON");
	return 0;
}

/* ---------------------------------------------------------------- closing */

/* Without the GIL. Frames that are out keep their memory, and their fds. */
static void capture_stop(struct capture *cap)
{
	struct v4l2_requestbuffers none = { .type = cap->fmt.type,
					    .memory = V4L2_MEMORY_MMAP };
	int type = cap->fmt.type;

	pthread_mutex_lock(&cap->lock);
	if (!cap->closed) {
		cap->closed = true;
		for (uint32_t i = 0; i < cap->nslots; i++)
			if (!cap->slots[i].out)
				slot_close(&cap->slots[i]);
		/* Who is in poll() wakes up. */
		if (cap->fd >= 0 && cap->nslots) {
			xioctl(cap->fd, VIDIOC_STREAMOFF, &type);
			/* Before 4.20 refused while an fd is left. */
			xioctl(cap->fd, VIDIOC_REQBUFS, &none);
		}
		fd_close(cap);
	}
	pthread_mutex_unlock(&cap->lock);
}

/* In a child of fork(): its fds and nothing else, the camera is the parent's. */
static void capture_forget(struct capture *cap)
{
	for (uint32_t i = 0; i < cap->nslots; i++)
		slot_close(&cap->slots[i]);
	if (cap->fd >= 0)
		close(cap->fd);
	cap->fd = -1;
	cap->closed = true;
}

static void capture_close(struct capture *cap)
{
	if (getpid() != cap->pid) {
		capture_forget(cap);
		return;
	}
	Py_BEGIN_ALLOW_THREADS
	capture_stop(cap);
	Py_END_ALLOW_THREADS
}

/* close(device): which forgets the buffers, so that their memory is free. */
static PyObject *camera_close(PyObject *self, PyObject *device_obj)
{
	struct device *device;

	capture_close(((struct capture_object *)self)->cap);
	device = device_of(device_obj);
	if (!device)
		return NULL;
	if (use_begin(&device->users)) {
		Py_BEGIN_ALLOW_THREADS
		dlbuf_device_trim(device->dev, 0);
		Py_END_ALLOW_THREADS
		device_end(device);
	}
	Py_DECREF((PyObject *)device);
	Py_RETURN_NONE;
}

static void camera_dealloc(PyObject *obj)
{
	struct capture *cap = ((struct capture_object *)obj)->cap;
	PyTypeObject *type = Py_TYPE(obj);

	if (cap) {
		capture_close(cap);
		if (getpid() == cap->pid) {
			pthread_mutex_lock(&cap->lock);
			unlock_unref(cap);
		}
	}
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

static struct capture *capture_alloc(void)
{
	struct capture *cap = calloc(1, sizeof(*cap));

	if (!cap)
		return NULL;
	pthread_mutex_init(&cap->lock, NULL);
	cap->refs = 1;
	cap->fd = -1;
	cap->pid = getpid();
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++) {
		cap->slots[i].cap = cap;
		cap->slots[i].index = i;
		for (int p = 0; p < DLBUF_MAX_PLANES; p++)
			cap->slots[i].fds[p] = -1;
	}
	return cap;
}

/* Capture(node, code, width, height, fps, buffers) */
static PyObject *camera_new(PyTypeObject *type, PyObject *args,
			    PyObject *kwargs)
{
	uint32_t code, width, height, buffers;
	struct capture_object *self;
	struct capture *cap;
	const char *node;
	double fps;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "sIIIdI:Capture", &node, &code, &width,
			      &height, &fps, &buffers))
		return NULL;
	self = (struct capture_object *)((allocfunc)PyType_GetSlot(
		type, Py_tp_alloc))(type, 0);
	if (!self)
		return NULL;
	cap = self->cap = capture_alloc();
	if (!cap) {
		PyErr_NoMemory();
		goto err;
	}
	if (open_node(cap, node) || query(cap, node) ||
	    set_format(cap, node, code, width, height) ||
	    set_rate(cap, node, fps) || request(cap, node, buffers))
		goto err;
	get_crop(cap);
	if (start(cap, node))
		goto err;
	return (PyObject *)self;

err:
	Py_DECREF((PyObject *)self);
	return NULL;
}

/* ---------------------------------------------------------------- frames */

/* Under the lock: 1, 0 when there is none yet, or -1 with errno. */
static int dequeue(struct capture *cap, struct v4l2_buffer *buf,
		   struct v4l2_plane *planes)
{
	*buf = buffer_arg(cap, 0, planes);
	if (xioctl(cap->fd, VIDIOC_DQBUF, buf) < 0)
		return errno == EAGAIN ? 0 : -1;
	if (buf->index >= cap->nslots || cap->slots[buf->index].out) {
		errno = EIO;
		return -1;
	}
	cap->slots[buf->index].out = true;
	cap->out++;
	cap->refs++;
	cap->frames++;
	return 1;
}

static int late(struct capture *cap, const char *node)
{
	bool all = cap->out == cap->nslots;

	if (all)
		return raise_errno(ETIME, "%s has nowhere to write: the program "
				   "holds all of its %u buffers, delete or "
				   "release() a frame", node, cap->nslots);
	return raise_errno(ETIME, "%s gave no frame before the deadline, after "
			   "%llu frames", node, cap->frames);
}

/* A frame; 0 when the camera was closed meanwhile. */
static int wait_for_frame(struct capture *cap, const char *node,
			  uint64_t deadline_ns, struct v4l2_buffer *buf,
			  struct v4l2_plane *planes)
{
	int ret, err;
	bool closed;

	for (;;) {
		pthread_mutex_lock(&cap->lock);
		if (cap->closed) {
			pthread_mutex_unlock(&cap->lock);
			return 0;
		}
		ret = dequeue(cap, buf, planes);
		err = errno;
		if (!ret) {
			cap->waiters++;
			cap->refs++;
		}
		pthread_mutex_unlock(&cap->lock);
		if (ret < 0) {
			errno = err;
			return failed(node, "VIDIOC_DQBUF");
		}
		if (ret)
			return ret;
		/* POLLERR too: the reason is what VIDIOC_DQBUF says. */
		ret = wait_fd(cap->fd, POLLIN, deadline_ns);
		pthread_mutex_lock(&cap->lock);
		cap->waiters--;
		closed = cap->closed;
		fd_close(cap);
		unlock_unref(cap);
		if (ret < 0)
			return ret;
		if (!ret && !closed)
			return late(cap, node);
	}
}

static int describe(struct capture *cap, const struct v4l2_buffer *buf,
		    struct dlbuf_frame *frame)
{
	struct slot *slot = &cap->slots[buf->index];
	int ret = dlbuf_v4l2_frame(&cap->fmt, buf, slot->fds, frame);

	if (!ret && cap->crop.width)
		ret = dlbuf_v4l2_crop(&cap->crop, frame);
	frame->release = give_back;
	frame->release_data = slot;
	return ret ? raise_dlbuf(ret) : 0;
}

/*
 * next(node, deadline, device, view, access, make_frame) -> (list, record), or
 * None when the camera is closed
 */
static PyObject *camera_next(PyObject *self, PyObject *args)
{
	struct capture *cap = ((struct capture_object *)self)->cap;
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	PyObject *deadline, *device_obj, *access, *make, *record;
	PyObject *list = NULL, *result = NULL;
	struct v4l2_plane planes[DLBUF_MAX_PLANES];
	uint64_t deadline_ns = 0;
	struct dlbuf_frame frame;
	struct v4l2_buffer buf;
	struct device *device;
	bool imported = false;
	const char *node;
	int ret;

	if (!PyArg_ParseTuple(args, "sOOIOO", &node, &deadline, &device_obj,
			      &opts.view, &access, &make) ||
	    parse_deadline(deadline, &deadline_ns) ||
	    parse_access(access, &opts.access))
		return NULL;
	if (getpid() != cap->pid) {
		raise_errno(EBUSY, "%s is the camera of the process that has "
			    "opened it", node);
		return NULL;
	}
	device = device_of(device_obj);
	if (!device || device_begin(device)) {
		Py_XDECREF((PyObject *)device);
		return NULL;
	}
	ret = wait_for_frame(cap, node, deadline_ns, &buf, planes);
	if (ret <= 0) {
		if (!ret)
			result = Py_NewRef(Py_None);
		goto out;
	}
	record = describe(cap, &buf, &frame) ? NULL :
		 frame_record(make, &frame, opts.view);
	if (record)
		list = tensors_of_frame(device, &frame, &opts, record, NULL,
					&imported);
	if (list)
		result = Py_BuildValue("(OO)", list, record);
	Py_XDECREF(list);
	Py_XDECREF(record);
	if (!list && !imported)
		give_back(&cap->slots[buf.index]);
out:
	device_end(device);
	Py_DECREF((PyObject *)device);
	return result;
}

/* (code, width, height, fps, buffers, card, driver) */
static PyObject *camera_info(PyObject *self, void *closure)
{
	struct capture *cap = ((struct capture_object *)self)->cap;
	bool multi = is_multi(cap);

	(void)closure;
	return Py_BuildValue("(IIIdINN)", multi ? cap->fmt.fmt.pix_mp.pixelformat :
			     cap->fmt.fmt.pix.pixelformat, multi ?
			     cap->fmt.fmt.pix_mp.width : cap->fmt.fmt.pix.width,
			     multi ? cap->fmt.fmt.pix_mp.height :
			     cap->fmt.fmt.pix.height, cap->fps, cap->nslots,
			     PyUnicode_DecodeUTF8(cap->card, strlen(cap->card),
						  "replace"),
			     PyUnicode_DecodeUTF8(cap->driver,
						  strlen(cap->driver),
						  "replace"));
}

static PyObject *camera_closed(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((struct capture_object *)self)->cap->closed);
}

static PyObject *camera_held(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLong(
		((struct capture_object *)self)->cap->out);
}

static PyMethodDef camera_methods[] = {
	{ "next", camera_next, METH_VARARGS, NULL },
	{ "close", camera_close, METH_O, NULL },
	{ NULL, NULL, 0, NULL }
};

static PyGetSetDef camera_attributes[] = {
	{ "info", camera_info, NULL, NULL, NULL },
	{ "closed", camera_closed, NULL, NULL, NULL },
	{ "held", camera_held, NULL, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot camera_slots[] = {
	{ Py_tp_doc, "What a Camera is made of." },
	{ Py_tp_new, camera_new },
	{ Py_tp_dealloc, camera_dealloc },
	{ Py_tp_methods, camera_methods },
	{ Py_tp_getset, camera_attributes },
	{ 0, NULL }
};

static PyType_Spec camera_spec = {
	"dlbuf._dlbuf.Capture", sizeof(struct capture_object), 0,
	Py_TPFLAGS_DEFAULT, camera_slots
};

int camera_init_type(PyObject *module)
{
	capture_type = (PyTypeObject *)PyType_FromSpec(&camera_spec);
	return capture_type ? PyModule_AddObjectRef(module, "Capture",
						    (PyObject *)capture_type) : -1;
}
