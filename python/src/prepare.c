// SPDX-License-Identifier: MIT
/* Plans: from a frame's planes to an image of a tensor. dlbuf/_prepare.py has the options. */
#include "_dlbuf.h"

#include <errno.h>
#include <string.h>

#include "prepare/options.h"

static PyTypeObject *plan_type;

struct plan {
	PyObject_HEAD
	struct dlbuf_prepare *plan;
	struct dlbuf_prepare_info info;
	struct device *device;	/* NULL: the CPU alone */
	DLDataType dtype;
	bool nhwc;
	bool busy;		/* a call is inside; atomic */
};

static const struct number {
	char name[16];
	uint16_t at;
	uint8_t kind, n;
} numbers[] = {
#define NUMBER(field, name, kind, n, low, high, or_zero) \
	{ #field, offsetof(struct dlbuf_prepare_opts, field), PREPARE_##kind, n },
	PREPARE_OPTIONS(NUMBER)
#undef NUMBER
};

static int parse_number(PyObject *value, const struct number *number, int i, void *at)
{
	switch (number->kind) {
	case PREPARE_DOUBLE:
		((double *)at)[i] = PyFloat_AsDouble(value);
		break;
	case PREPARE_U64:
		((uint64_t *)at)[i] = PyLong_AsUnsignedLongLong(value);
		break;
	default:
		((uint32_t *)at)[i] = (uint32_t)PyLong_AsLongLong(value);
	}
	return PyErr_Occurred() ? -1 : 0;
}

/* A dict: the fields of struct dlbuf_prepare_opts by their names; several numbers are a tuple. */
static int parse_opts(PyObject *args, struct dlbuf_prepare_opts *o)
{
	PyObject *dtype, *values;
	Py_ssize_t bytes;
	char *colour;
	int ret = 0;

	*o = (struct dlbuf_prepare_opts){ .size = sizeof(*o) };
	if (!PyDict_Check(args))
		return bad_argument(args, "opts", "a dict");
	for (const struct number *n = numbers; n < *(&numbers + 1) && !ret; n++) {
		values = PyDict_GetItemString(args, n->name);
		if (values && n->n > 1 && (!PyTuple_Check(values) || PyTuple_Size(values) != n->n))
			return bad_argument(values, n->name, "a tuple of numbers");
		for (int i = 0; values && i < n->n && !ret; i++)
			ret = parse_number(n->n > 1 ? PyTuple_GetItem(values, i) : values, n, i,
					   (char *)o + n->at);
	}
	dtype = PyDict_GetItemString(args, "dtype");
	values = PyDict_GetItemString(args, "colour");
	if (ret || (dtype && parse_dtype(dtype, &o->dtype)) ||
	    (values && PyBytes_AsStringAndSize(values, &colour, &bytes)))
		return -1;
	if (values && bytes != (Py_ssize_t)sizeof(o->colour))
		return raise_errno(EINVAL, "a colour of %zd bytes", bytes);
	if (values)
		memcpy(&o->colour, colour, bytes);
	return 0;
}

/* Plan(frame, opts, device or None): frame as frame_args() has it */
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	PyObject *frame_obj, *opts_obj, *where;
	struct device *device = NULL;
	struct dlbuf_prepare_opts opts;
	struct dlbuf_frame frame;
	struct plan *self;
	int ret;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "OOO:Plan", &frame_obj, &opts_obj, &where) ||
	    parse_frame(frame_obj, &frame) || parse_opts(opts_obj, &opts))
		return NULL;
	if (where != Py_None) {
		device = device_use(where);
		if (!device)
			return NULL;
	}
	self = (struct plan *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
	if (!self) {
		if (device)
			device_unuse(device);
		return NULL;
	}
	self->device = device;
	self->dtype = opts.dtype;
	self->nhwc = opts.flags & DLBUF_PREPARE_NHWC;
	self->info.size = sizeof(self->info);
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_prepare_create(device ? device->dev : NULL, &frame, &opts, &self->plan);
	if (!ret)
		ret = dlbuf_prepare_get_info(self->plan, &self->info);
	Py_END_ALLOW_THREADS
	if (device)
		device_end(device);
	if (!ret)
		return (PyObject *)self;
	raise_dlbuf(ret);
	Py_DECREF((PyObject *)self);
	return NULL;
}

static void plan_dealloc(PyObject *obj)
{
	PyTypeObject *type = Py_TYPE(obj);
	struct plan *self = (struct plan *)obj;

	/* It may be the last that holds the device open. */
	Py_BEGIN_ALLOW_THREADS
	dlbuf_prepare_destroy(self->plan);
	Py_END_ALLOW_THREADS
	Py_XDECREF((PyObject *)self->device);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

static PyObject *new_on(struct device *device, const DLTensor *dl)
{
	DLManagedTensorVersioned *out;
	PyObject *made = NULL;
	int ret;

	if (device_begin(device))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_alloc(&device->dev, 1, dl, NULL, &out);
	Py_END_ALLOW_THREADS
	if (ret)
		raise_dlbuf(ret);
	else
		made = tensor_new(out, device, NULL, NULL);
	device_end(device);
	return made;
}

/* new(n) -> a new tensor of n images, a dma-buf of the device or in plain memory */
static PyObject *plan_new_tensor(PyObject *obj, PyObject *args)
{
	const struct plan *self = (struct plan *)obj;
	const struct dlbuf_prepare_info *i = &self->info;
	int64_t nchw[] = { 1, i->channels, i->height, i->width };
	int64_t nhwc[] = { 1, i->height, i->width, i->channels };
	DLTensor dl = { .ndim = 4, .dtype = self->dtype, .shape = self->nhwc ? nhwc : nchw };
	struct source *src;
	unsigned int n;

	if (!PyArg_ParseTuple(args, "I", &n))
		return NULL;
	dl.shape[0] = n;
	if (self->device)
		return new_on(self->device, &dl);
	src = source_memory(&dl, 0);
	return src ? tensor_of_source(src) : NULL;
}

/* (width, height, channels, scaled_width, scaled_height, left, top, crop, turn, flags) */
static PyObject *info_tuple(const struct dlbuf_prepare_info *i)
{
	return Py_BuildValue("(IIIIIii(dddd)II)", i->width, i->height, i->channels,
			     i->scaled_width, i->scaled_height, i->left, i->top, i->crop_x,
			     i->crop_y, i->crop_width, i->crop_height, i->turn, i->flags);
}

/* Whether the plan can work on it as it is. */
static bool is_here(const struct plan *self, const struct tensor *t)
{
	return self->device ? t->device == self->device :
			      t->dl->dl_tensor.device.device_type == kDLCPU;
}

/* 1: the tensor is on another device. */
static int share(const struct plan *self, PyObject *obj, DLManagedTensorVersioned **out)
{
	struct tensor *t = (struct tensor *)obj;
	int ret;

	if (!PyObject_TypeCheck(obj, tensor_type)) {
		PyErr_Format(PyExc_TypeError, "a plane is a Tensor, not %R",
			     (PyObject *)Py_TYPE(obj));
		return -1;
	}
	if (tensor_begin(t))
		return -1;
	ret = is_here(self, t) ? tensor_share(t, out) : 1;
	tensor_end(t);
	return ret;
}

struct crops {
	struct dlbuf_crop *crops;
	struct dlbuf_prepare_info *infos;
	uint32_t n;
};

static void crops_free(struct crops *c)
{
	PyMem_Free(c->crops);
	PyMem_Free(c->infos);
}

static int crops_alloc(struct crops *c, const char *bytes, Py_ssize_t size)
{
	c->n = size / sizeof(*c->crops);
	c->crops = PyMem_Calloc(c->n + 1, sizeof(*c->crops));
	c->infos = PyMem_Calloc(c->n + 1, sizeof(*c->infos));
	if (!c->crops || !c->infos) {
		crops_free(c);
		PyErr_NoMemory();
		return -1;
	}
	memcpy(c->crops, bytes, c->n * sizeof(*c->crops));
	c->infos->size = sizeof(*c->infos);
	return 0;
}

static PyObject *crops_infos(const struct crops *c)
{
	PyObject *list = PyList_New(c->n), *info;

	for (uint32_t i = 0; list && i < c->n; i++) {
		info = info_tuple(&c->infos[i]);
		if (!info || PyList_SetItem(list, i, info))
			Py_CLEAR(list);
	}
	return list;
}

static int run(struct plan *self, DLManagedTensorVersioned *const planes[], uint32_t n,
	       DLManagedTensorVersioned *out, int64_t index, uint64_t deadline_ns,
	       const struct crops *crops)
{
	DLBUF_OPTS(dlbuf_prepare_run_opts, opts, .crops = crops->crops, .ncrops = crops->n,
		   .infos = crops->infos, .index = index, .deadline_ns = deadline_ns);
	int ret;

	if (__atomic_exchange_n(&self->busy, true, __ATOMIC_ACQUIRE))
		return raise_errno(EBUSY, "another thread is using the plan");
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_prepare_tensors(self->plan, planes, n, &opts, out);
	Py_END_ALLOW_THREADS
	__atomic_store_n(&self->busy, false, __ATOMIC_RELEASE);
	return ret ? raise_dlbuf(ret) : 0;
}

/*
 * run(planes, out, index, deadline, crops or None) -> infos of the crops; a crop is 4 doubles.
 * None: a tensor is on another device, and nothing was done.
 */
static PyObject *plan_run(PyObject *obj, PyObject *args)
{
	DLManagedTensorVersioned *dl[DLBUF_MAX_PLANES + 1] = { NULL };
	PyObject *planes, *out, *deadline, *ret = NULL, *a, *b, *c;
	struct plan *self = (struct plan *)obj;
	struct crops crops = { 0 };
	uint64_t deadline_ns = 0;
	const char *bytes;
	Py_ssize_t n, size;
	long long index;
	int i = 0, err = 0;

	if (!PyArg_ParseTuple(args, "O!OLOz#", &PyTuple_Type, &planes, &out, &index, &deadline,
			      &bytes, &size) || parse_deadline(deadline, &deadline_ns))
		return NULL;
	n = PyTuple_Size(planes);
	if (n > DLBUF_MAX_PLANES) {
		raise_errno(EINVAL, "%zd planes, %d are possible", n, DLBUF_MAX_PLANES);
		return NULL;
	}
	if (bytes && crops_alloc(&crops, bytes, size))
		return NULL;
	while (i <= n) {
		err = share(self, i < n ? PyTuple_GetItem(planes, i) : out, &dl[i]);
		if (err)
			break;
		i++;
	}
	if (err > 0)
		ret = Py_NewRef(Py_None);
	else if (!err && !run(self, dl, n, dl[n], index, deadline_ns, &crops))
		ret = crops_infos(&crops);
	crops_free(&crops);
	/* Another producer's deleter may be of Python, and is not our caller's. */
	PyErr_Fetch(&a, &b, &c);
	delete_all(dl, i);
	PyErr_Restore(a, b, c);
	return ret;
}

/* tiles(width, height, overlap_x, overlap_y) -> bytes of 4 doubles each */
static PyObject *plan_tiles(PyObject *obj, PyObject *args)
{
	const struct dlbuf_prepare *plan = ((struct plan *)obj)->plan;
	unsigned int width, height, x, y;
	struct dlbuf_crop *crops;
	PyObject *bytes = NULL;
	uint32_t n;
	int ret;

	if (!PyArg_ParseTuple(args, "IIII", &width, &height, &x, &y))
		return NULL;
	ret = dlbuf_prepare_tiles(plan, width, height, x, y, NULL, 0, &n);
	if (ret) {
		raise_dlbuf(ret);
		return NULL;
	}
	crops = PyMem_Calloc(n, sizeof(*crops));
	if (!crops)
		return PyErr_NoMemory();
	ret = dlbuf_prepare_tiles(plan, width, height, x, y, crops, n, &n);
	if (ret)
		raise_dlbuf(ret);
	else
		bytes = PyBytes_FromStringAndSize((char *)crops, (Py_ssize_t)n * sizeof(*crops));
	PyMem_Free(crops);
	return bytes;
}

/* The callback takes the GIL, as device.c's do. */
static void take_trial(const struct dlbuf_prepare_trial *trial, void *list)
{
	PyGILState_STATE state = PyGILState_Ensure();
	PyObject *item = Py_BuildValue("(sKis)", trial->name, (unsigned long long)trial->ns,
				       -trial->status, trial->reason);

	/* A trial that is lost leaves an exception, which ends the call. */
	if (item)
		PyList_Append(list, item);
	Py_XDECREF(item);
	PyGILState_Release(state);
}

/*
 * Sets the planes' fds, which are valid while dl[] lives. A frame that Python has described knows
 * its pitches, others are those of the tensors' rows. The number of dl[], or -1.
 */
static int find_planes(PyObject *tensors, struct dlbuf_frame *frame,
		       DLManagedTensorVersioned *dl[])
{
	int n = share_all(tensors, dl);

	for (int i = 0; i < n && i < (int)frame->nplanes; i++) {
		struct dlbuf_tensor_info info = { .size = sizeof(info) };
		const DLTensor *t = &dl[i]->dl_tensor;
		int ret = dlbuf_tensor_get_info(dl[i], &info);

		if (ret) {
			delete_all(dl, n);
			return raise_dlbuf(ret);
		}
		frame->planes[i].fd = info.fd;
		if (frame->planes[i].pitch)
			continue;
		frame->planes[i].pitch = (uint32_t)(t->strides[0] * t->dtype.bits / 8);
		frame->planes[i].offset = info.first;
	}
	return n;
}

static void close_without_gil(struct dlbuf_device *dev)
{
	Py_BEGIN_ALLOW_THREADS
	dlbuf_device_close(dev);
	Py_END_ALLOW_THREADS
}

/*
 * fastest(frame, tensors, opts, deadline) -> (device, list of (name, ns, errno, reason)): the
 * tensors are of dma-bufs
 */
PyObject *prepare_fastest(PyObject *module, PyObject *args)
{
	PyObject *frame_obj, *tensors, *opts_obj, *deadline, *list, *found = NULL;
	DLManagedTensorVersioned *dl[DLBUF_MAX_PLANES];
	struct dlbuf_prepare_opts opts;
	struct dlbuf_device *dev = NULL;
	uint64_t deadline_ns = 0;
	struct dlbuf_frame frame;
	struct device *device;
	int n, ret;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO!OO", &frame_obj, &PyTuple_Type, &tensors, &opts_obj,
			      &deadline) ||
	    parse_frame(frame_obj, &frame) || parse_opts(opts_obj, &opts) ||
	    parse_deadline(deadline, &deadline_ns))
		return NULL;
	list = PyList_New(0);
	if (!list)
		return NULL;
	n = find_planes(tensors, &frame, dl);
	if (n >= 0) {
		Py_BEGIN_ALLOW_THREADS
		ret = dlbuf_prepare_fastest(&frame, &opts, deadline_ns, take_trial, list, &dev);
		Py_END_ALLOW_THREADS
		delete_all(dl, n);
		device = NULL;
		if (ret)
			raise_dlbuf(ret);
		else if (PyErr_Occurred())
			close_without_gil(dev);
		else
			device = device_keep(dev);
		if (device)
			found = Py_BuildValue("(OO)", (PyObject *)device, list);
		Py_XDECREF((PyObject *)device);
	}
	Py_DECREF(list);
	return found;
}

static void order(double *a, double *b)
{
	double low = *a;

	if (*a <= *b)
		return;
	/* As NumPy's minimum(): both are NaN if one is. */
	*a = *b < low ? *b : low + *b;
	*b = *b < low ? low : low + *b;
}

/*
 * map_boxes(array, boxes or points, turned, x0, y0, x1, y1): maps float64 x, y, x, y ... in
 * place. (0, 0) and (1, 1) become (x0, y0) and (x1, y1); turned: x and y change places.
 */
PyObject *map_boxes(PyObject *module, PyObject *args)
{
	double x0, y0, x1, y1;
	int boxes, turned;
	Py_buffer view;
	double *p;
	size_t n;

	(void)module;
	if (!PyArg_ParseTuple(args, "w*ppdddd", &view, &boxes, &turned, &x0, &y0, &x1, &y1))
		return NULL;
	p = view.buf;
	n = view.len / sizeof(*p);
	for (size_t i = 0; i + 1 < n; i += 2) {
		double x = p[i + turned], y = p[i + !turned];

		p[i] = x0 + (x1 - x0) * x;
		p[i + 1] = y0 + (y1 - y0) * y;
	}
	for (size_t i = 0; boxes && i + 3 < n; i += 4) {
		order(&p[i], &p[i + 2]);
		order(&p[i + 1], &p[i + 3]);
	}
	PyBuffer_Release(&view);
	Py_RETURN_NONE;
}

static PyObject *plan_info(PyObject *obj, void *closure)
{
	(void)closure;
	return info_tuple(&((struct plan *)obj)->info);
}

static PyObject *plan_device(PyObject *obj, void *closure)
{
	struct device *device = ((struct plan *)obj)->device;

	(void)closure;
	return Py_NewRef(device ? (PyObject *)device : Py_None);
}

static PyMethodDef plan_methods[] = {
	{ "new", plan_new_tensor, METH_VARARGS, NULL },
	{ "run", plan_run, METH_VARARGS, NULL },
	{ "tiles", plan_tiles, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL }
};

static PyGetSetDef plan_attributes[] = {
	{ "info", plan_info, NULL, NULL, NULL },
	{ "device", plan_device, NULL, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot plan_slots[] = {
	{ Py_tp_doc, "A plan of dlbuf/prepare.h." },
	{ Py_tp_new, plan_new },
	{ Py_tp_dealloc, plan_dealloc },
	{ Py_tp_methods, plan_methods },
	{ Py_tp_getset, plan_attributes },
	{ 0, NULL }
};

static PyType_Spec plan_spec = {
	"dlbuf._dlbuf.Plan", sizeof(struct plan), 0, Py_TPFLAGS_DEFAULT, plan_slots
};

int prepare_init_type(PyObject *module)
{
	plan_type = (PyTypeObject *)PyType_FromSpec(&plan_spec);
	return plan_type ? PyModule_AddObjectRef(module, "Plan", (PyObject *)plan_type) : -1;
}
