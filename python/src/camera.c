// SPDX-License-Identifier: MIT
/*
 * A camera (v4l2/camera.h) whose frames are tensors. What Python has of it is a
 * Capture; what the leases of its frames have, on any thread and perhaps after
 * the Capture is gone, is the struct capture behind it. That one's lock is never
 * held by who waits for the GIL, and a lease never asks for the GIL.
 */
#include "_dlbuf.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlbuf/interop/v4l2.h>

#include "v4l2/camera.h"

struct slot {
	struct capture *cap;
	bool out;		/* the program has it */
};

struct capture {
	pthread_mutex_t lock;
	unsigned int refs;	/* the Capture, frames that are out, waiters */
	unsigned int waiters;	/* in poll(), with the fd */
	bool closed;
	pid_t pid;		/* whose it is: not that of a fork()'s child */
	struct camera cam;
	struct v4l2_rect crop;	/* width 0: all of it */
	uint32_t out;
	struct slot slots[VIDEO_MAX_FRAME];
	char node[];		/* cam's */
};

struct capture_object {
	PyObject_HEAD
	struct capture *cap;
};

static PyTypeObject *capture_type;

/* ---------------------------------------------------------------- leases */

/* Under the lock: what was closed goes with the last who uses it. */
static void fd_close(struct capture *cap)
{
	if (!cap->closed || cap->waiters || cap->cam.fd < 0)
		return;
	close(cap->cam.fd);
	cap->cam.fd = -1;
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

/*
 * The lease of a frame. On any thread, at any time, without the GIL, and never
 * in a child of fork(): the buffer is the parent's to give back.
 */
static void give_back(void *data)
{
	struct slot *slot = data;
	struct capture *cap = slot->cap;

	pthread_mutex_lock(&cap->lock);
	slot->out = false;
	cap->out--;
	if (cap->closed)
		camera_forget(&cap->cam, slot - cap->slots);
	else
		/* If the camera is gone the next frame's caller is told. */
		camera_queue(&cap->cam, slot - cap->slots);
	unlock_unref(cap);
}

/* ---------------------------------------------------------------- closing */

/* Without the GIL. Frames that are out keep their memory, and their fds. */
static void stop(struct capture *cap)
{
	pthread_mutex_lock(&cap->lock);
	if (!cap->closed) {
		cap->closed = true;
		for (uint32_t i = 0; i < cap->cam.nbuffers; i++)
			if (!cap->slots[i].out)
				camera_forget(&cap->cam, i);
		/* Who is in poll() wakes up. */
		camera_stop(&cap->cam);
		fd_close(cap);
	}
	pthread_mutex_unlock(&cap->lock);
}

static void capture_end(struct capture *cap)
{
	if (getpid() == cap->pid) {
		Py_BEGIN_ALLOW_THREADS
		stop(cap);
		Py_END_ALLOW_THREADS
		return;
	}
	/* A child of fork(), without the waiters: its fds and nothing else. */
	for (uint32_t i = 0; i < cap->cam.nbuffers; i++)
		camera_forget(&cap->cam, i);
	cap->closed = true;
	cap->waiters = 0;
	fd_close(cap);
}

/* close(device): which forgets the buffers, so that their memory is free. */
static PyObject *capture_close(PyObject *self, PyObject *device_obj)
{
	struct device *device;

	capture_end(((struct capture_object *)self)->cap);
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

static void capture_dealloc(PyObject *obj)
{
	struct capture *cap = ((struct capture_object *)obj)->cap;
	PyTypeObject *type = Py_TYPE(obj);

	if (cap) {
		capture_end(cap);
		if (getpid() == cap->pid) {
			pthread_mutex_lock(&cap->lock);
			unlock_unref(cap);
		}
	}
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

static int capture_open(struct capture *cap, uint32_t code, uint32_t width,
			uint32_t height, double fps, uint32_t buffers)
{
	int ret = camera_open(&cap->cam, cap->node);

	if (!ret)
		ret = camera_set_format(&cap->cam, code, width, height);
	if (!ret)
		ret = camera_set_rate(&cap->cam, fps);
	if (!ret)
		ret = camera_request(&cap->cam, V4L2_MEMORY_MMAP, buffers);
	for (uint32_t i = 0; !ret && i < cap->cam.nbuffers; i++)
		ret = camera_export(&cap->cam, i);
	if (ret)
		return ret;
	camera_crop(&cap->cam, &cap->crop);
	return camera_start(&cap->cam);
}

static struct capture *capture_alloc(const char *node)
{
	size_t size = strlen(node) + 1;
	struct capture *cap = calloc(1, sizeof(*cap) + size);

	if (!cap)
		return NULL;
	pthread_mutex_init(&cap->lock, NULL);
	cap->refs = 1;
	cap->pid = getpid();
	for (uint32_t i = 0; i < VIDEO_MAX_FRAME; i++)
		cap->slots[i].cap = cap;
	memcpy(cap->node, node, size);
	return cap;
}

/* Capture(node, code, width, height, fps, buffers) */
static PyObject *capture_new(PyTypeObject *type, PyObject *args,
			     PyObject *kwargs)
{
	uint32_t code, width, height, buffers;
	struct capture_object *self;
	const char *node;
	double fps;
	int ret;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "sIIIdI:Capture", &node, &code, &width,
			      &height, &fps, &buffers))
		return NULL;
	self = (struct capture_object *)((allocfunc)PyType_GetSlot(
		type, Py_tp_alloc))(type, 0);
	if (!self)
		return NULL;
	self->cap = capture_alloc(node);
	if (!self->cap) {
		PyErr_NoMemory();
		goto err;
	}
	ret = capture_open(self->cap, code, width, height, fps, buffers);
	if (!ret)
		return (PyObject *)self;
	raise_dlbuf(ret);

err:
	Py_DECREF((PyObject *)self);
	return NULL;
}

/* ---------------------------------------------------------------- frames */

static int late(const struct capture *cap)
{
	if (cap->out == cap->cam.nbuffers)
		return raise_errno(ETIME, "%s has nowhere to write: the program "
				   "holds all of its %u buffers, delete or "
				   "release() a frame", cap->node, cap->out);
	return raise_errno(ETIME, "%s gave no frame before the deadline, after "
			   "%llu frames", cap->node,
			   (unsigned long long)cap->cam.dequeued);
}

/* Under the lock: 1, 0 when the camera is closed, or as camera_dequeue(). */
static int take(struct capture *cap, uint32_t *index)
{
	int ret;

	if (cap->closed)
		return 0;
	ret = camera_dequeue(&cap->cam, index);
	if (ret == -EAGAIN) {
		cap->waiters++;
	} else if (!ret) {
		cap->slots[*index].out = true;
		cap->out++;
		ret = 1;
	} else {
		return ret;
	}
	cap->refs++;
	return ret;
}

/* A frame; 0 when the camera was closed meanwhile. */
static int wait_for_frame(struct capture *cap, uint64_t deadline_ns,
			  uint32_t *index)
{
	bool closed;
	int ret;

	for (;;) {
		pthread_mutex_lock(&cap->lock);
		ret = take(cap, index);
		pthread_mutex_unlock(&cap->lock);
		if (ret != -EAGAIN)
			return ret < 0 ? raise_dlbuf(ret) : ret;
		/* POLLERR too: the reason is what VIDIOC_DQBUF says. */
		ret = wait_fd(cap->cam.fd, POLLIN, deadline_ns);
		pthread_mutex_lock(&cap->lock);
		cap->waiters--;
		closed = cap->closed;
		fd_close(cap);
		unlock_unref(cap);
		if (ret < 0)
			return ret;
		if (!ret && !closed)
			return late(cap);
	}
}

static int describe(struct capture *cap, uint32_t index,
		    struct dlbuf_frame *frame)
{
	int ret = camera_frame(&cap->cam, index, frame);

	if (!ret && cap->crop.width)
		ret = dlbuf_v4l2_crop(&cap->crop, frame);
	frame->release = give_back;
	frame->release_data = &cap->slots[index];
	return ret ? raise_dlbuf(ret) : 0;
}

/*
 * next(deadline, device, view, access, make_frame) -> (list, record), or
 * None when the camera is closed
 */
static PyObject *capture_next(PyObject *self, PyObject *args)
{
	struct capture *cap = ((struct capture_object *)self)->cap;
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	PyObject *deadline, *device_obj, *access, *make, *record;
	PyObject *list = NULL, *result = NULL;
	uint64_t deadline_ns = 0;
	struct dlbuf_frame frame;
	struct device *device;
	bool imported = false;
	uint32_t index;
	int ret;

	if (!PyArg_ParseTuple(args, "OOIOO", &deadline, &device_obj, &opts.view,
			      &access, &make) ||
	    parse_deadline(deadline, &deadline_ns) ||
	    parse_access(access, &opts.access))
		return NULL;
	if (getpid() != cap->pid) {
		raise_errno(ESTALE, "%s belongs to the process that forked this "
			    "one", cap->node);
		return NULL;
	}
	device = device_of(device_obj);
	if (!device || device_begin(device)) {
		Py_XDECREF((PyObject *)device);
		return NULL;
	}
	ret = wait_for_frame(cap, deadline_ns, &index);
	if (ret <= 0) {
		if (!ret)
			result = Py_NewRef(Py_None);
		goto out;
	}
	record = describe(cap, index, &frame) ? NULL :
		 frame_record(make, &frame, opts.view);
	if (record)
		list = tensors_of_frame(device, &frame, &opts, record, NULL,
					&imported);
	if (list)
		result = Py_BuildValue("(OO)", list, record);
	Py_XDECREF(list);
	Py_XDECREF(record);
	if (!list && !imported)
		give_back(&cap->slots[index]);
out:
	device_end(device);
	Py_DECREF((PyObject *)device);
	return result;
}

static PyObject *text(const char *s)
{
	return PyUnicode_DecodeUTF8(s, strlen(s), "replace");
}

/* (code, width, height, fps, buffers, card, driver) */
static PyObject *capture_info(PyObject *self, void *closure)
{
	const struct camera *cam = &((struct capture_object *)self)->cap->cam;

	(void)closure;
	return Py_BuildValue("(IIIdINN)", cam->code, cam->width, cam->height,
			     cam->rate, cam->nbuffers, text(cam->card),
			     text(cam->driver));
}

static PyObject *capture_closed(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((struct capture_object *)self)->cap->closed);
}

static PyObject *capture_held(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLong(
		((struct capture_object *)self)->cap->out);
}

static PyMethodDef capture_methods[] = {
	{ "next", capture_next, METH_VARARGS, NULL },
	{ "close", capture_close, METH_O, NULL },
	{ NULL, NULL, 0, NULL }
};

static PyGetSetDef capture_attributes[] = {
	{ "info", capture_info, NULL, NULL, NULL },
	{ "closed", capture_closed, NULL, NULL, NULL },
	{ "held", capture_held, NULL, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot capture_slots[] = {
	{ Py_tp_doc, "What a Camera is made of." },
	{ Py_tp_new, capture_new },
	{ Py_tp_dealloc, capture_dealloc },
	{ Py_tp_methods, capture_methods },
	{ Py_tp_getset, capture_attributes },
	{ 0, NULL }
};

static PyType_Spec capture_spec = {
	"dlbuf._dlbuf.Capture", sizeof(struct capture_object), 0,
	Py_TPFLAGS_DEFAULT, capture_slots
};

int camera_init_type(PyObject *module)
{
	capture_type = (PyTypeObject *)PyType_FromSpec(&capture_spec);
	return capture_type ? PyModule_AddObjectRef(module, "Capture",
						    (PyObject *)capture_type) : -1;
}
