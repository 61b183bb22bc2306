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

struct capture_object {
	PyObject_HEAD
	struct dlbuf_camera *cam;
	int closed;			/* atomic */
};

static PyTypeObject *capture_type;

static struct dlbuf_camera_info info_of(PyObject *self)
{
	DLBUF_INFO(dlbuf_camera_info, info);

	dlbuf_camera_get_info(((struct capture_object *)self)->cam, &info);
	return info;
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
	struct dlbuf_camera *cam = ((struct capture_object *)obj)->cam;
	PyTypeObject *type = Py_TYPE(obj);

	Py_BEGIN_ALLOW_THREADS
	dlbuf_camera_close(cam);
	Py_END_ALLOW_THREADS
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

/* Capture(node, code, width, height, fps, buffers) */
static PyObject *capture_new(PyTypeObject *type, PyObject *args,
			     PyObject *kwargs)
{
	struct dlbuf_camera_opts opts = { .size = sizeof(opts) };
	struct capture_object *self;
	const char *node;
	int ret;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "sIIIdI:Capture", &node, &opts.code,
			      &opts.width, &opts.height, &opts.rate,
			      &opts.buffers))
		return NULL;
	self = (struct capture_object *)((allocfunc)PyType_GetSlot(
		type, Py_tp_alloc))(type, 0);
	if (!self)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_camera_open(node, &opts, &self->cam);
	Py_END_ALLOW_THREADS
	if (!ret)
		return (PyObject *)self;
	raise_dlbuf(ret);
	Py_DECREF((PyObject *)self);
	return NULL;
}

/* 1 and a frame; 0 when the camera is closed, or was meanwhile. */
static int wait_for_frame(PyObject *self, uint64_t deadline_ns,
			  struct dlbuf_frame *frame)
{
	struct capture_object *cap = (struct capture_object *)self;
	int fd = info_of(self).fd, came = 1, ret;

	for (;;) {
		ret = dlbuf_camera_frame(cap->cam, 1, frame);
		if (ret == -ECANCELED)
			return 0;
		if (ret != -ETIME || !came)
			return ret ? raise_dlbuf(ret) : 1;
		came = wait_fd(fd, POLLIN, deadline_ns);
		if (came < 0)
			return -1;
	}
}

/*
 * next(deadline, device, view, access, make_frame) -> (list, record), or
 * None when the camera is closed
 */
static PyObject *capture_next(PyObject *self, PyObject *args)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
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
	device = device_of(device_obj);
	if (!device || device_begin(device)) {
		Py_XDECREF((PyObject *)device);
		return NULL;
	}
	ret = wait_for_frame(self, deadline_ns, &frame);
	if (ret <= 0) {
		if (!ret)
			result = Py_NewRef(Py_None);
		goto out;
	}
	record = frame_record(make, &frame, opts.view);
	if (record)
		list = tensors_of_frame(device, &frame, &opts, record, NULL,
					&imported);
	if (list)
		result = Py_BuildValue("(OO)", list, record);
	Py_XDECREF(list);
	Py_XDECREF(record);
	if (!list && !imported)
		frame.release(frame.release_data);
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
	struct dlbuf_camera_info info = info_of(self);

	(void)closure;
	return Py_BuildValue("(IIIdINN)", info.code, info.width, info.height,
			     info.rate, info.buffers, text(info.card),
			     text(info.driver));
}

static PyObject *capture_closed(PyObject *self, void *closure)
{
	struct capture_object *cap = (struct capture_object *)self;

	(void)closure;
	return PyBool_FromLong(__atomic_load_n(&cap->closed, __ATOMIC_ACQUIRE));
}

static PyObject *capture_held(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLong(info_of(self).held);
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
