// SPDX-License-Identifier: MIT
/*
 * A camera of dlbuf/camera.h, whose frames are tensors. The wait is the extension's,
 * because a signal ends it; close() only stops the camera, so that a thread that
 * waits for a frame still has one.
 */
#include "_dlbuf.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* The record of a buffer's last frame: its next one differs in sequence and time only. */
struct known {
	struct dlbuf_frame frame;	/* the constant fields; the rest is 0 */
	uint32_t view;
	PyObject *record;
};

#define MAX_KNOWN 32		/* buffers of a node, at most */

struct capture_object {
	PyObject_HEAD
	struct dlbuf_camera *cam;
	struct dlbuf_rect crop;		/* of the picture; width 0: all of it */
	int closed;			/* atomic */
	bool newest;			/* older frames are queued again */
	unsigned long long dropped;	/* their number; atomic */
	struct known known[MAX_KNOWN];	/* by fd; under the object's lock */
};

static PyTypeObject *capture_type;

static int info_of(PyObject *self, struct dlbuf_camera_info *info)
{
	int ret;

	*info = (struct dlbuf_camera_info){ .size = sizeof(*info) };
	ret = dlbuf_camera_get_info(((struct capture_object *)self)->cam, info);
	return ret ? raise_dlbuf(ret) : 0;
}

/* close(device): which forgets the buffers, so that their memory is free. */
static PyObject *capture_close(PyObject *self, PyObject *device_obj)
{
	struct capture_object *cap = (struct capture_object *)self;
	struct device *device;

	__atomic_store_n(&cap->closed, 1, __ATOMIC_RELEASE);
	Py_BEGIN_ALLOW_THREADS
	dlbuf_camera_stop(cap->cam);
	Py_END_ALLOW_THREADS
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
	struct capture_object *cap = (struct capture_object *)obj;
	PyTypeObject *type = Py_TYPE(obj);

	for (int i = 0; i < MAX_KNOWN; i++)
		Py_XDECREF(cap->known[i].record);
	Py_BEGIN_ALLOW_THREADS
	dlbuf_camera_close(cap->cam);
	Py_END_ALLOW_THREADS
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

/*
 * Takes a part of the picture, which is the whole frame, or the part of it that the
 * driver writes.
 */
static int crop(struct dlbuf_frame *frame, const struct dlbuf_rect *part)
{
	struct dlbuf_rect whole = { 0, 0, frame->width, frame->height };

	if (!part->width)
		return 0;
	if (frame->crop.width)
		whole = frame->crop;
	if (!part->height ||
	    (uint64_t)part->x + part->width > whole.width ||
	    (uint64_t)part->y + part->height > whole.height)
		return raise_errno(EINVAL, "the crop of %ux%u pixels at %u,%u is "
				   "not inside the picture of %ux%u",
				   part->width, part->height, part->x, part->y,
				   whole.width, whole.height);
	frame->crop = (struct dlbuf_rect){ whole.x + part->x, whole.y + part->y,
					   part->width, part->height };
	return 0;
}

/* Refuses a bad crop before the first frame: it also must not split a chroma sample. */
static int check_crop(const struct capture_object *cap, uint32_t view)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts), .view = view };
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	DLBUF_INFO(dlbuf_frame, frame);
	uint32_t n;
	int ret;

	if (!cap->crop.width)
		return 0;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_camera_buffer(cap->cam, 0, &frame);
	Py_END_ALLOW_THREADS
	if (!ret && crop(&frame, &cap->crop))
		return -1;
	if (!ret)
		ret = dlbuf_frame_layouts(&frame, &opts, layouts, &n);
	return ret ? raise_dlbuf(ret) : 0;
}

/*
 * Capture(node, flags, code, width, height, fps, buffers, newest, device, access,
 * exporter)
 */
static PyObject *capture_new(PyTypeObject *type, PyObject *args,
			     PyObject *kwargs)
{
	struct dlbuf_camera_opts opts = { .size = sizeof(opts) };
	PyObject *device_obj = NULL, *access = NULL;
	struct capture_object *self;
	struct device *device;
	uint32_t any_access;
	const char *node;
	int newest, ret;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "sIIIIdIp|OOz:Capture", &node, &opts.flags,
			      &opts.code, &opts.width, &opts.height, &opts.rate,
			      &opts.buffers, &newest, &device_obj, &access,
			      &opts.exporter) ||
	    parse_access(access, &any_access))
		return NULL;
	/* If no device accepted the frame, it would be lost. */
	if (device_obj) {
		device = device_of(device_obj);
		if (!device)
			return NULL;
		Py_DECREF((PyObject *)device);
	}
	self = (struct capture_object *)((allocfunc)PyType_GetSlot(
		type, Py_tp_alloc))(type, 0);
	if (!self)
		return NULL;
	self->newest = newest;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_camera_open(node, &opts, &self->cam);
	Py_END_ALLOW_THREADS
	if (!ret)
		return (PyObject *)self;
	raise_dlbuf(ret);
	Py_DECREF((PyObject *)self);
	return NULL;
}

/* crop(x, y, width, height, view): of all frames, before the first one */
static PyObject *capture_crop(PyObject *self, PyObject *args)
{
	struct capture_object *cap = (struct capture_object *)self;
	uint32_t view;

	if (!PyArg_ParseTuple(args, "IIIII", &cap->crop.x, &cap->crop.y,
			      &cap->crop.width, &cap->crop.height, &view) ||
	    check_crop(cap, view))
		return NULL;
	Py_RETURN_NONE;
}

/*
 * Calls of the camera take its lock, which dlbuf_camera_stop() holds while the hardware
 * stops: they are made without the GIL.
 */
static int try_frame(struct capture_object *cap, struct dlbuf_frame *frame)
{
	int ret;

	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_camera_frame(cap->cam, 1, frame);
	Py_END_ALLOW_THREADS
	return ret;
}

static void give_back(struct dlbuf_frame *frame)
{
	Py_BEGIN_ALLOW_THREADS
	frame->release(frame->release_data);
	Py_END_ALLOW_THREADS
}

/* 1 and a frame; 0 when the camera is closed, or was meanwhile. */
static int wait_for_frame(PyObject *self, uint64_t deadline_ns,
			  struct dlbuf_frame *frame)
{
	struct capture_object *cap = (struct capture_object *)self;
	struct dlbuf_camera_info info;
	int came, ret;

	if (info_of(self, &info))
		return -1;
	/* A loop is usually faster than the camera, so it waits before the first try. */
	do {
		came = wait_fd(info.fd, POLLIN, deadline_ns);
		if (came < 0)
			return -1;
		ret = try_frame(cap, frame);
	} while (ret == -ETIME && came);
	if (ret == -ECANCELED)
		return 0;
	return ret ? raise_dlbuf(ret) : 1;
}

/*
 * Replaces the frame by the newest one that is ready. The camera gets each older one
 * back before the next is taken, so this ends after as many as it has buffers.
 */
static int skip_older(struct capture_object *cap, struct dlbuf_frame *frame)
{
	struct dlbuf_camera_info info;
	DLBUF_INFO(dlbuf_frame, next);
	int ret = 0;

	if (!cap->newest)
		return 0;
	if (info_of((PyObject *)cap, &info)) {
		give_back(frame);
		return -1;
	}
	for (uint32_t i = 0; i < info.buffers; i++) {
		ret = try_frame(cap, &next);
		if (ret)
			break;
		give_back(frame);
		*frame = next;
		__atomic_add_fetch(&cap->dropped, 1, __ATOMIC_RELAXED);
	}
	/* Closed meanwhile: the frame stays valid. */
	if (!ret || ret == -ETIME || ret == -ECANCELED)
		return 0;
	raise_dlbuf(ret);
	give_back(frame);
	return -1;
}

/* frame_record(), by the record of this buffer's last frame if nothing else has changed. */
static PyObject *record_of(struct capture_object *cap, PyObject *make,
			   const struct dlbuf_frame *frame, uint32_t view)
{
	struct known *k = &cap->known[(unsigned int)frame->planes[0].fd % MAX_KNOWN];
	struct dlbuf_frame constant = *frame;
	PyObject *record = NULL, *old;

	constant.sequence = 0;
	constant.timestamp_ns = 0;
	LOCK_OBJECT((PyObject *)cap);
	if (k->record && k->view == view && !memcmp(&k->frame, &constant, sizeof(constant)))
		record = Py_NewRef(k->record);
	UNLOCK_OBJECT();
	if (record)
		return next_record(record, frame);
	record = frame_record(make, frame, view);
	if (!record)
		return NULL;
	LOCK_OBJECT((PyObject *)cap);
	old = k->record;
	*k = (struct known){ constant, view, Py_NewRef(record) };
	UNLOCK_OBJECT();
	Py_XDECREF(old);
	return record;
}

/*
 * next(deadline, device, view, access, make_frame) -> (list, record), or
 * None when the camera is closed
 */
static PyObject *capture_next(PyObject *self, PyObject *args)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	struct capture_object *cap = (struct capture_object *)self;
	PyObject *deadline, *device_obj, *access, *make, *record;
	PyObject *list = NULL, *result = NULL;
	DLBUF_INFO(dlbuf_frame, frame);
	uint64_t deadline_ns = 0;
	struct device *device;
	bool imported = false;
	int ret;

	if (!PyArg_ParseTuple(args, "OOIOO", &deadline, &device_obj, &opts.view,
			      &access, &make) ||
	    parse_deadline(deadline, &deadline_ns) ||
	    parse_access(access, &opts.access))
		return NULL;
	device = device_use(device_obj);
	if (!device)
		return NULL;
	ret = wait_for_frame(self, deadline_ns, &frame);
	if (ret > 0 && skip_older(cap, &frame))
		ret = -1;
	if (ret <= 0) {
		if (!ret)
			result = Py_NewRef(Py_None);
		goto out;
	}
	record = crop(&frame, &cap->crop) ? NULL :
		 record_of(cap, make, &frame, opts.view);
	if (record)
		list = tensors_of_frame(device, &frame, &opts, record, NULL,
					&imported);
	if (list)
		result = Py_BuildValue("(OO)", list, record);
	Py_XDECREF(list);
	Py_XDECREF(record);
	if (!list && !imported)
		give_back(&frame);
out:
	device_unuse(device);
	return result;
}

/* (code, width, height, fps, buffers, card, driver, bus) */
static PyObject *capture_info(PyObject *self, void *closure)
{
	struct dlbuf_camera_info info;

	(void)closure;
	if (info_of(self, &info))
		return NULL;
	return Py_BuildValue("(IIIdINNN)", info.code, info.width, info.height,
			     info.rate, info.buffers, text_of(info.card),
			     text_of(info.driver), text_of(info.bus));
}

static PyObject *capture_closed(PyObject *self, void *closure)
{
	struct capture_object *cap = (struct capture_object *)self;

	(void)closure;
	return PyBool_FromLong(__atomic_load_n(&cap->closed, __ATOMIC_ACQUIRE));
}

static PyObject *capture_held(PyObject *self, void *closure)
{
	struct dlbuf_camera_info info;

	(void)closure;
	return info_of(self, &info) ? NULL : PyLong_FromUnsignedLong(info.held);
}

static PyObject *capture_dropped(PyObject *self, void *closure)
{
	struct capture_object *cap = (struct capture_object *)self;

	(void)closure;
	return PyLong_FromUnsignedLongLong(
		__atomic_load_n(&cap->dropped, __ATOMIC_RELAXED));
}

static PyObject *capture_fileno(PyObject *self, PyObject *none)
{
	struct dlbuf_camera_info info;

	(void)none;
	return info_of(self, &info) ? NULL : PyLong_FromLong(info.fd);
}

static PyMethodDef capture_methods[] = {
	{ "crop", capture_crop, METH_VARARGS, NULL },
	{ "fileno", capture_fileno, METH_NOARGS, NULL },
	{ "next", capture_next, METH_VARARGS, NULL },
	{ "close", capture_close, METH_O, NULL },
	{ NULL, NULL, 0, NULL }
};

static PyGetSetDef capture_attributes[] = {
	{ "info", capture_info, NULL, NULL, NULL },
	{ "closed", capture_closed, NULL, NULL, NULL },
	{ "held", capture_held, NULL, NULL, NULL },
	{ "dropped", capture_dropped, NULL, NULL, NULL },
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
