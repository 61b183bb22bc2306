// SPDX-License-Identifier: MIT
/* Tensor objects, and the calls that make them from dma-bufs. */
#include "_dlbuf.h"

#include <errno.h>
#include <stddef.h>
#include <structmember.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *tensor_type;

/* ---------------------------------------------------------------- life */

/* Takes dl and src, also when it fails. */
static PyObject *make(DLManagedTensorVersioned *dl, struct source *src,
		      struct device *device, PyObject *frame)
{
	struct tensor *self = (struct tensor *)((allocfunc)PyType_GetSlot(
		tensor_type, Py_tp_alloc))(tensor_type, 0);

	if (!self) {
		delete_versioned(dl);
		if (src)
			source_unref(src);
		return NULL;
	}
	self->dl = dl;
	self->src = src;
	Py_XINCREF((PyObject *)device);
	self->device = device;
	Py_XINCREF(frame);
	self->frame = frame;
	return (PyObject *)self;
}

PyObject *tensor_new(DLManagedTensorVersioned *dl, struct device *device,
		     PyObject *frame)
{
	return make(dl, NULL, device, frame);
}

PyObject *tensor_of_source(struct source *src)
{
	DLManagedTensorVersioned *dl = source_export(src);

	if (!dl) {
		source_unref(src);
		return NULL;
	}
	return make(dl, src, NULL, NULL);
}

int tensor_check(struct tensor *t)
{
	if (t->dl)
		return 0;
	return raise_errno(EINVAL, "the tensor is closed");
}

/* May call back into Python: the lease of a frame. */
static void drop(struct tensor *t)
{
	DLManagedTensorVersioned *dl = t->dl;
	struct source *src = t->src;

	t->dl = NULL;
	t->src = NULL;
	Py_BEGIN_ALLOW_THREADS
	delete_versioned(dl);
	if (src)
		source_unref(src);
	Py_END_ALLOW_THREADS
}

static PyObject *tensor_close(PyObject *obj, PyObject *none)
{
	struct tensor *t = (struct tensor *)obj;

	(void)none;
	if (t->users) {
		raise_errno(EBUSY, "another thread is using the tensor");
		return NULL;
	}
	drop(t);
	Py_RETURN_NONE;
}

static void tensor_dealloc(PyObject *obj)
{
	struct tensor *t = (struct tensor *)obj;
	PyTypeObject *type = Py_TYPE(obj);
	PyObject *a, *b, *c;

	PyErr_Fetch(&a, &b, &c);
	if (t->weakrefs)
		PyObject_ClearWeakRefs(obj);
	drop(t);
	Py_XDECREF(t->frame);
	Py_XDECREF((PyObject *)t->device);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
	PyErr_Restore(a, b, c);
}

int tensor_share(struct tensor *t, DLManagedTensorVersioned **out)
{
	int ret;

	if (tensor_check(t))
		return -1;
	if (t->src) {
		*out = source_export(t->src);
		return *out ? 0 : -1;
	}
	ret = dlbuf_tensor_share(t->dl, out);
	return ret ? raise_dlbuf(ret) : 0;
}

/* dlbuf_access now acquired. */
static uint32_t acquired(struct tensor *t)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };

	if (t->src || dlbuf_tensor_get_info(t->dl, &info))
		return 0;
	return info.acquired;
}

int tensor_share_ordered(struct tensor *t, uint32_t access, void *stream,
			 bool wait, DLManagedTensorVersioned **out)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	DLManagedTensorVersioned *dl;
	int ret;

	if (tensor_share(t, &dl))
		return -1;
	if (!t->src && wait && !acquired(t)) {
		ret = dlbuf_tensor_get_info(dl, &info);
		if (!access)
			access = info.access;
		Py_BEGIN_ALLOW_THREADS
		if (!ret)
			ret = dlbuf_acquire(dl, access, stream, NULL);
		/* The sentence is this thread's, and lasts till it fails again. */
		if (ret)
			dl->deleter(dl);
		Py_END_ALLOW_THREADS
		if (ret)
			return raise_dlbuf(ret);
	}
	*out = dl;
	return 0;
}

/* ---------------------------------------------------------------- order */

static int begin(struct tensor *t)
{
	if (tensor_check(t))
		return -1;
	if (t->src)
		return raise_errno(EOPNOTSUPP, "the tensor is not of a dma-buf: "
				   "there is nothing to acquire");
	t->users++;
	return 0;
}

static int parse_stream(PyObject *obj, void **stream)
{
	*stream = NULL;
	if (!obj || obj == Py_None)
		return 0;
	*stream = PyLong_AsVoidPtr(obj);
	return !*stream && PyErr_Occurred() ? -1 : 0;
}

/* Seconds of time.monotonic() as nanoseconds; 0 of the library is never. */
static int parse_deadline(PyObject *obj, uint64_t *ns)
{
	double s;

	if (!obj || obj == Py_None)
		return 0;
	s = PyFloat_AsDouble(obj);
	if (s == -1.0 && PyErr_Occurred())
		return -1;
	if (!(s < 1e10))
		return raise_errno(EINVAL, "the deadline is not in seconds of "
				   "time.monotonic()");
	*ns = s * 1e9 >= 1 ? (uint64_t)(s * 1e9) : 1;
	return 0;
}

static int do_acquire(struct tensor *t, uint32_t access, void *stream,
		      const struct dlbuf_acquire_opts *opts)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	int ret;

	if (begin(t))
		return -1;
	ret = access ? 0 : dlbuf_tensor_get_info(t->dl, &info);
	if (!access)
		access = info.access;
	Py_BEGIN_ALLOW_THREADS
	if (!ret)
		ret = dlbuf_acquire(t->dl, access, stream, opts);
	Py_END_ALLOW_THREADS
	t->users--;
	return ret ? raise_dlbuf(ret) : 0;
}

static PyObject *tensor_acquire(PyObject *self, PyObject *args,
				PyObject *kwargs)
{
	static char *names[] = { "access", "stream", "deadline", "fence", NULL };
	struct dlbuf_acquire_opts opts = { .size = sizeof(opts) };
	PyObject *access_obj = NULL, *stream_obj = NULL, *deadline = NULL;
	uint32_t access = 0;
	void *stream;
	int fence = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO$Oi:acquire", names,
					 &access_obj, &stream_obj, &deadline,
					 &fence) ||
	    parse_access(access_obj, &access) ||
	    parse_stream(stream_obj, &stream) ||
	    parse_deadline(deadline, &opts.deadline_ns))
		return NULL;
	opts.fence = fence;
	if (!fence) {
		raise_errno(EINVAL, "a fence whose fd is 0 has to be duplicated");
		return NULL;
	}
	if (do_acquire((struct tensor *)self, access, stream, &opts))
		return NULL;
	Py_RETURN_NONE;
}

static int do_release(struct tensor *t, void *stream, int *fence)
{
	int ret;

	if (begin(t))
		return -1;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_release(t->dl, stream, fence);
	Py_END_ALLOW_THREADS
	t->users--;
	return ret ? raise_dlbuf(ret) : 0;
}

static PyObject *tensor_release(PyObject *self, PyObject *args,
				PyObject *kwargs)
{
	static char *names[] = { "stream", "fence", NULL };
	PyObject *stream_obj = NULL;
	int fence = -1, want = 0;
	void *stream;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$p:release", names,
					 &stream_obj, &want) ||
	    parse_stream(stream_obj, &stream) ||
	    do_release((struct tensor *)self, stream, want ? &fence : NULL))
		return NULL;
	if (fence == -1)
		Py_RETURN_NONE;
	return PyLong_FromLong(fence);
}

static PyObject *tensor_enter(PyObject *self, PyObject *none)
{
	(void)none;
	if (do_acquire((struct tensor *)self, 0, NULL, NULL))
		return NULL;
	Py_INCREF(self);
	return self;
}

static PyObject *tensor_exit(PyObject *self, PyObject *args)
{
	struct tensor *t = (struct tensor *)self;

	(void)args;
	/* Closed or released inside the block: then that was the end. */
	if (t->dl && acquired(t) && do_release(t, NULL, NULL))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *tensor_share_method(PyObject *self, PyObject *none)
{
	struct tensor *t = (struct tensor *)self;
	DLManagedTensorVersioned *dl;

	(void)none;
	if (tensor_share(t, &dl))
		return NULL;
	if (t->src)
		__atomic_add_fetch(&t->src->refs, 1, __ATOMIC_RELAXED);
	return make(dl, t->src, t->device, t->frame);
}

/* ---------------------------------------------------------------- attributes */

static DLTensor *dl_of(PyObject *self)
{
	struct tensor *t = (struct tensor *)self;

	return tensor_check(t) ? NULL : &t->dl->dl_tensor;
}

static PyObject *get_shape(PyObject *self, void *closure)
{
	DLTensor *dl = dl_of(self);

	(void)closure;
	return dl ? tuple_of(dl->shape, dl->ndim) : NULL;
}

static PyObject *get_strides(PyObject *self, void *closure)
{
	DLTensor *dl = dl_of(self);

	(void)closure;
	return dl ? tuple_of(dl->strides, dl->ndim) : NULL;
}

static PyObject *get_dtype(PyObject *self, void *closure)
{
	DLTensor *dl = dl_of(self);

	(void)closure;
	return dl ? dtype_name(dl->dtype) : NULL;
}

static PyObject *get_ndim(PyObject *self, void *closure)
{
	DLTensor *dl = dl_of(self);

	(void)closure;
	return dl ? PyLong_FromLong(dl->ndim) : NULL;
}

static PyObject *get_size(PyObject *self, void *closure)
{
	DLTensor *dl = dl_of(self);

	(void)closure;
	return dl ? PyLong_FromLongLong(count_of(dl)) : NULL;
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
	DLTensor *dl = dl_of(self);

	(void)closure;
	return dl ? PyLong_FromLongLong(count_of(dl) * (int64_t)
					dtype_bytes(dl->dtype)) : NULL;
}

static PyObject *get_flag(PyObject *self, void *closure)
{
	struct tensor *t = (struct tensor *)self;

	if (tensor_check(t))
		return NULL;
	return PyBool_FromLong(!!(t->dl->flags & (uintptr_t)closure));
}

static PyObject *get_closed(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(!((struct tensor *)self)->dl);
}

static PyObject *get_device(PyObject *self, void *closure)
{
	PyObject *device = (PyObject *)((struct tensor *)self)->device;

	(void)closure;
	if (!device)
		device = Py_None;
	Py_INCREF(device);
	return device;
}

static PyObject *get_frame(PyObject *self, void *closure)
{
	PyObject *frame = ((struct tensor *)self)->frame;

	(void)closure;
	if (!frame)
		frame = Py_None;
	Py_INCREF(frame);
	return frame;
}

/* 1, or 0 for a tensor that is not of a dma-buf. */
static int info_of(PyObject *self, struct dlbuf_tensor_info *info)
{
	struct tensor *t = (struct tensor *)self;
	int ret;

	*info = (struct dlbuf_tensor_info){ .size = sizeof(*info) };
	if (tensor_check(t))
		return -1;
	if (t->src)
		return 0;
	ret = dlbuf_tensor_get_info(t->dl, info);
	return ret ? raise_dlbuf(ret) : 1;
}

static PyObject *get_info(PyObject *self, void *closure)
{
	struct dlbuf_tensor_info info;
	int ret = info_of(self, &info);

	if (ret < 0)
		return NULL;
	if (!ret)
		Py_RETURN_NONE;
	switch (*(const char *)closure) {
	case 'f':
		return PyLong_FromLong(info.fd);
	case 'p':
		return PyUnicode_FromString(dlbuf_path_name(info.path));
	case 'a':
		return PyLong_FromUnsignedLong(info.access);
	case 'A':
		return PyLong_FromUnsignedLong(info.acquired);
	case 'b':
		return Py_BuildValue("(KKK)", info.dev, info.ino, info.bytes);
	default:
		return Py_BuildValue("(KK)", info.first, info.end);
	}
}

static PyObject *tensor_repr(PyObject *self)
{
	struct tensor *t = (struct tensor *)self;
	PyObject *shape, *dtype, *ret = NULL;

	if (!t->dl)
		return PyUnicode_FromString("<dlbuf.Tensor, closed>");
	shape = get_shape(self, NULL);
	dtype = get_dtype(self, NULL);
	if (shape && dtype)
		ret = PyUnicode_FromFormat(
			"<dlbuf.Tensor %R %U, device (%d, %d)%s>", shape, dtype,
			(int)t->dl->dl_tensor.device.device_type,
			(int)t->dl->dl_tensor.device.device_id,
			t->dl->flags & DLPACK_FLAG_BITMASK_READ_ONLY ?
			", read-only" : "");
	Py_XDECREF(shape);
	Py_XDECREF(dtype);
	return ret;
}

/* ---------------------------------------------------------------- producers */

PyObject *from_fd(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "fd", "shape", "dtype", "strides", "offset",
				 "device", "access", NULL };
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	PyObject *shape, *dtype, *strides = NULL, *device_obj = NULL;
	PyObject *access = NULL, *ret = NULL, *index;
	DLManagedTensorVersioned *dl;
	long long offset = 0;
	struct device *device;
	struct layout l;
	int fd, err;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iOO|$OLOO:from_fd",
					 names, &fd, &shape, &dtype, &strides,
					 &offset, &device_obj, &access))
		return NULL;
	if (offset < 0) {
		raise_errno(EINVAL, "offset %lld is negative", offset);
		return NULL;
	}
	if (parse_layout(&l, shape, dtype, strides, offset) ||
	    parse_access(access, &opts.access))
		return NULL;
	index = device_obj ? Py_NewRef(device_obj) :
		PyUnicode_InternFromString("cpu");
	device = index ? device_of(index) : NULL;
	Py_XDECREF(index);
	if (!device)
		return NULL;
	if (!device_begin(device)) {
		Py_BEGIN_ALLOW_THREADS
		err = dlbuf_import(device->dev, fd, &l.dl, &opts, &dl);
		Py_END_ALLOW_THREADS
		device_end(device);
		if (err)
			raise_dlbuf(err);
		else
			ret = tensor_new(dl, device, NULL);
	}
	Py_DECREF((PyObject *)device);
	return ret;
}

static void lease_release(void *callback)
{
	PyObject *a, *b, *c, *ret;
	PyGILState_STATE state;

	if (!gil_enter(&state))
		return;
	/* A tensor may be deleted while an exception is on its way. */
	PyErr_Fetch(&a, &b, &c);
	ret = PyObject_CallNoArgs(callback);
	if (!ret)
		PyErr_WriteUnraisable(callback);
	Py_XDECREF(ret);
	Py_DECREF((PyObject *)callback);
	PyErr_Restore(a, b, c);
	gil_leave(state);
}

static int parse_planes(PyObject *planes, struct dlbuf_frame *frame)
{
	Py_ssize_t n = PyTuple_Size(planes);

	if (n < 0)
		return -1;
	if (!n || n > DLBUF_MAX_PLANES)
		return raise_errno(EINVAL, "a frame of %zd planes", n);
	frame->nplanes = n;
	for (Py_ssize_t i = 0; i < n; i++) {
		struct dlbuf_plane *p = &frame->planes[i];
		unsigned long long offset, bytes;
		long long pitch;

		if (!PyArg_ParseTuple(PyTuple_GetItem(planes, i), "iLKK",
				      &p->fd, &pitch, &offset, &bytes))
			return -1;
		p->pitch = pitch;
		p->offset = offset;
		p->bytes = bytes;
	}
	return 0;
}

/*
 * import_frame(device, frame, (width, height, code, space, modifier), planes,
 * crop, view, access, flags, fence, release)
 */
PyObject *import_frame(PyObject *module, PyObject *args)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	struct dlbuf_frame frame = { .size = sizeof(frame), .fence = -1 };
	DLManagedTensorVersioned *dl[DLBUF_MAX_PLANES];
	PyObject *device_obj, *obj, *planes, *access, *fence, *release;
	PyObject *list = NULL;
	unsigned long long modifier;
	struct device *device;
	uint32_t n;
	int space, err;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO(IIIiK)O(IIII)IOIOO", &device_obj, &obj,
			      &frame.width, &frame.height, &frame.code, &space,
			      &modifier, &planes, &frame.crop.x, &frame.crop.y,
			      &frame.crop.width, &frame.crop.height, &opts.view,
			      &access, &opts.flags, &fence, &release) ||
	    parse_planes(planes, &frame) || parse_access(access, &opts.access))
		return NULL;
	frame.code_space = space;
	frame.modifier = modifier;
	if (fence != Py_None) {
		frame.fence = PyLong_AsLong(fence);
		frame.order = DLBUF_ORDER_FENCE;
		if (frame.fence == -1 && PyErr_Occurred())
			return NULL;
	}
	device = device_of(device_obj);
	if (!device || device_begin(device)) {
		Py_XDECREF((PyObject *)device);
		return NULL;
	}
	if (release != Py_None) {
		frame.release = lease_release;
		frame.release_data = Py_NewRef(release);
	}
	Py_BEGIN_ALLOW_THREADS
	err = dlbuf_import_frame(device->dev, &frame, &opts, dl, &n);
	Py_END_ALLOW_THREADS
	device_end(device);
	if (err) {
		Py_XDECREF((PyObject *)frame.release_data);
		raise_dlbuf(err);
	} else {
		list = PyList_New(0);
		for (uint32_t i = 0; i < n; i++) {
			PyObject *t = tensor_new(dl[i], device, obj);

			if (list && (!t || PyList_Append(list, t)))
				Py_CLEAR(list);
			Py_XDECREF(t);
		}
	}
	Py_DECREF((PyObject *)device);
	return list;
}

#define MAX_DEVICES 16

/* alloc(devices, shape, dtype, strides, exporter, name) -> list */
PyObject *alloc(PyObject *module, PyObject *args)
{
	struct dlbuf_alloc_opts opts = { .size = sizeof(opts) };
	DLManagedTensorVersioned *dl[MAX_DEVICES];
	struct dlbuf_device *devs[MAX_DEVICES];
	struct device *devices[MAX_DEVICES];
	PyObject *tuple, *shape, *dtype, *strides, *list = NULL;
	Py_ssize_t n, ready = 0;
	struct layout l;
	int ret;

	(void)module;
	if (!PyArg_ParseTuple(args, "OOOOzz", &tuple, &shape, &dtype, &strides,
			      &opts.exporter, &opts.name) ||
	    parse_layout(&l, shape, dtype, strides, 0))
		return NULL;
	n = PyTuple_Size(tuple);
	if (n < 0)
		return NULL;
	if (n > MAX_DEVICES) {
		raise_errno(EINVAL, "%zd devices, %d are the most", n,
			    MAX_DEVICES);
		return NULL;
	}
	for (; ready < n; ready++) {
		struct device *d = device_of(PyTuple_GetItem(tuple, ready));

		if (!d || device_begin(d)) {
			Py_XDECREF((PyObject *)d);
			goto out;
		}
		devices[ready] = d;
		devs[ready] = d->dev;
	}
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_alloc(devs, n, &l.dl, &opts, dl);
	Py_END_ALLOW_THREADS
	if (ret) {
		raise_dlbuf(ret);
		goto out;
	}
	list = PyList_New(0);
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *t = tensor_new(dl[i], devices[i], NULL);

		if (list && (!t || PyList_Append(list, t)))
			Py_CLEAR(list);
		Py_XDECREF(t);
	}
out:
	while (ready--) {
		device_end(devices[ready]);
		Py_DECREF((PyObject *)devices[ready]);
	}
	return list;
}

/* ---------------------------------------------------------------- type */

#define METHOD(fn) ((PyCFunction)(void (*)(void))(fn))

static PyMethodDef tensor_methods[] = {
	{ "acquire", METHOD(tensor_acquire), METH_VARARGS | METH_KEYWORDS,
	  "acquire(access=None, stream=None, *, deadline=None, fence=-1)\n--\n\n"
	  "Begins an access, after the producers' fences. deadline in seconds "
	  "of time.monotonic()." },
	{ "release", METHOD(tensor_release), METH_VARARGS | METH_KEYWORDS,
	  "release(stream=None, *, fence=False)\n--\n\nEnds the access. With "
	  "fence=True an fd that signals when its work is complete, or None." },
	{ "share", tensor_share_method, METH_NOARGS,
	  "Another tensor over the same memory, with an access of its own." },
	{ "close", tensor_close, METH_NOARGS,
	  "Gives this tensor up now, not when it is collected." },
	{ "__enter__", tensor_enter, METH_NOARGS, NULL },
	{ "__exit__", tensor_exit, METH_VARARGS, NULL },
	{ "__dlpack__", METHOD(tensor_dlpack), METH_VARARGS | METH_KEYWORDS,
	  "__dlpack__(*, stream=None, max_version=None, dl_device=None, "
	  "copy=None)\n--\n\n" },
	{ "__dlpack_device__", tensor_dlpack_device, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL }
};

static PyGetSetDef tensor_attributes[] = {
	{ "shape", get_shape, NULL, NULL, NULL },
	{ "strides", get_strides, NULL, "In elements.", NULL },
	{ "dtype", get_dtype, NULL, "Its name, \"uint8\".", NULL },
	{ "ndim", get_ndim, NULL, NULL, NULL },
	{ "size", get_size, NULL, "Elements.", NULL },
	{ "nbytes", get_nbytes, NULL, "Bytes of its elements.", NULL },
	{ "read_only", get_flag, NULL, NULL,
	  (void *)DLPACK_FLAG_BITMASK_READ_ONLY },
	{ "is_copied", get_flag, NULL, NULL,
	  (void *)DLPACK_FLAG_BITMASK_IS_COPIED },
	{ "closed", get_closed, NULL, NULL, NULL },
	{ "device", get_device, NULL, "Its Device, None: not of dlbuf.", NULL },
	{ "frame", get_frame, NULL, "The Frame that it is a part of.", NULL },
	{ "fd", get_info, NULL, "The dma-buf, open as long as the tensor is.",
	  "f" },
	{ "path", get_info, NULL, "How it was imported, \"direct\".", "p" },
	{ "access", get_info, NULL, "Access that it allows.", "a" },
	{ "acquired", get_info, NULL, "Access that is acquired now.", "A" },
	{ "buffer", get_info, NULL, "(st_dev, st_ino, bytes) of the dma-buf.",
	  "b" },
	{ "extent", get_info, NULL, "Bytes of the dma-buf that it touches.",
	  "e" },
	{ "__array_interface__", tensor_array_interface, NULL, NULL, NULL },
	{ "__cuda_array_interface__", tensor_cuda_array_interface, NULL, NULL,
	  NULL },
	{ NULL, NULL, NULL, NULL, NULL }
};

static PyMemberDef tensor_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct tensor, weakrefs),
	  READONLY, NULL },
	{ NULL, 0, 0, 0, NULL }
};

static PyType_Slot tensor_slots[] = {
	{ Py_tp_doc, "A DLPack tensor: memory of a dma-buf, or of another "
	  "producer." },
	{ Py_tp_dealloc, tensor_dealloc },
	{ Py_tp_repr, tensor_repr },
	{ Py_tp_methods, tensor_methods },
	{ Py_tp_getset, tensor_attributes },
	{ Py_tp_members, tensor_members },
	{ Py_bf_getbuffer, tensor_get_buffer },
	{ Py_bf_releasebuffer, tensor_release_buffer },
	{ 0, NULL }
};

static PyType_Spec tensor_spec = {
	"dlbuf.Tensor", sizeof(struct tensor), 0,
	Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots
};

int tensor_init_type(PyObject *module)
{
	PyObject *api;
	int ret;

	tensor_type = (PyTypeObject *)PyType_FromSpec(&tensor_spec);
	if (!tensor_type ||
	    PyModule_AddObjectRef(module, "Tensor", (PyObject *)tensor_type))
		return -1;
	api = exchange_api_capsule();
	ret = api ? PyObject_SetAttrString((PyObject *)tensor_type,
					   "__dlpack_c_exchange_api__", api) : -1;
	Py_XDECREF(api);
	return ret;
}
