// SPDX-License-Identifier: MIT
/* Plans: from a frame's planes to an image of a tensor. dlbuf/_prepare.py has the options. */
#include "_dlbuf.h"

#include <errno.h>
#include <string.h>

static PyTypeObject *plan_type;

struct plan {
	PyObject_HEAD
	struct dlbuf_prepare *plan;
	struct dlbuf_prepare_info info;
	DLDataType dtype;
	bool nhwc;
	bool busy;		/* a call is inside; atomic */
};

static int parse_opts(PyObject *args, struct dlbuf_prepare_opts *o)
{
	unsigned long long min_pixels, max_pixels;
	const char *colour;
	PyObject *dtype;
	Py_ssize_t bytes;

	*o = (struct dlbuf_prepare_opts){ .size = sizeof(*o) };
	if (!PyArg_ParseTuple(args, "(dddd)IIIIIIKKIIdII(ddd)IOd(ddd)(ddd)diy#(II)",
			      &o->crop_x, &o->crop_y, &o->crop_width, &o->crop_height,
			      &o->rule, &o->fit, &o->width, &o->height, &o->shortest,
			      &o->longest, &min_pixels, &max_pixels, &o->multiple, &o->turn,
			      &o->crop_pct, &o->filter, &o->flags, &o->pad[0], &o->pad[1],
			      &o->pad[2], &o->channels, &dtype, &o->scale, &o->mean[0],
			      &o->mean[1], &o->mean[2], &o->std[0], &o->std[1], &o->std[2],
			      &o->quant_scale, &o->zero_point, &colour, &bytes,
			      &o->scaled_width, &o->scaled_height) ||
	    parse_dtype(dtype, &o->dtype))
		return -1;
	if (bytes != (Py_ssize_t)sizeof(o->colour))
		return raise_errno(EINVAL, "a colour of %zd bytes", bytes);
	memcpy(&o->colour, colour, bytes);
	o->min_pixels = min_pixels;
	o->max_pixels = max_pixels;
	return 0;
}

/* Plan(frame, opts): frame as frame_args() has it */
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	PyObject *frame_obj, *opts_obj;
	struct dlbuf_prepare_opts opts;
	struct dlbuf_frame frame;
	struct plan *self;
	int ret;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "OO:Plan", &frame_obj, &opts_obj) ||
	    parse_frame(frame_obj, &frame) || parse_opts(opts_obj, &opts))
		return NULL;
	self = (struct plan *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
	if (!self)
		return NULL;
	self->dtype = opts.dtype;
	self->nhwc = opts.flags & DLBUF_PREPARE_NHWC;
	self->info.size = sizeof(self->info);
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_prepare_create(NULL, &frame, &opts, &self->plan);
	if (!ret)
		ret = dlbuf_prepare_get_info(self->plan, &self->info);
	Py_END_ALLOW_THREADS
	if (!ret)
		return (PyObject *)self;
	raise_dlbuf(ret);
	Py_DECREF((PyObject *)self);
	return NULL;
}

static void plan_dealloc(PyObject *obj)
{
	PyTypeObject *type = Py_TYPE(obj);

	dlbuf_prepare_destroy(((struct plan *)obj)->plan);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

/* A new tensor of one image in plain memory. */
static PyObject *new_image(const struct plan *self)
{
	const struct dlbuf_prepare_info *i = &self->info;
	int64_t nchw[] = { 1, i->channels, i->height, i->width };
	int64_t nhwc[] = { 1, i->height, i->width, i->channels };
	DLTensor dl = { .ndim = 4, .dtype = self->dtype, .shape = self->nhwc ? nhwc : nchw };
	struct source *src = source_memory(&dl, 0);

	return src ? tensor_of_source(src) : NULL;
}

static int share(PyObject *obj, DLManagedTensorVersioned **out)
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
	ret = tensor_share(t, out);
	tensor_end(t);
	return ret;
}

static int run(struct plan *self, DLManagedTensorVersioned *const planes[], uint32_t n,
	       DLManagedTensorVersioned *out, int64_t index, uint64_t deadline_ns)
{
	int ret;

	if (__atomic_exchange_n(&self->busy, true, __ATOMIC_ACQUIRE))
		return raise_errno(EBUSY, "another thread is using the plan");
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_prepare_tensors(self->plan, planes, n, out, index, deadline_ns);
	Py_END_ALLOW_THREADS
	__atomic_store_n(&self->busy, false, __ATOMIC_RELEASE);
	return ret ? raise_dlbuf(ret) : 0;
}

/* run(planes, out, index, deadline) -> out, or with None a new Tensor */
static PyObject *plan_run(PyObject *obj, PyObject *args)
{
	DLManagedTensorVersioned *dl[DLBUF_MAX_PLANES + 1] = { NULL };
	PyObject *planes, *out, *deadline, *ret = NULL, *a, *b, *c;
	struct plan *self = (struct plan *)obj;
	uint64_t deadline_ns = 0;
	long long index;
	Py_ssize_t n;
	int i = 0;

	if (!PyArg_ParseTuple(args, "O!OLO", &PyTuple_Type, &planes, &out, &index, &deadline) ||
	    parse_deadline(deadline, &deadline_ns))
		return NULL;
	n = PyTuple_Size(planes);
	if (n > DLBUF_MAX_PLANES) {
		raise_errno(EINVAL, "%zd planes, %d are possible", n, DLBUF_MAX_PLANES);
		return NULL;
	}
	out = out == Py_None ? new_image(self) : Py_NewRef(out);
	if (!out)
		return NULL;
	while (i < n && !share(PyTuple_GetItem(planes, i), &dl[i]))
		i++;
	if (i == n && !share(out, &dl[i])) {
		i++;
		if (!run(self, dl, n, dl[n], index, deadline_ns))
			ret = Py_NewRef(out);
	}
	Py_DECREF(out);
	/* Another producer's deleter may be of Python, and is not our caller's. */
	PyErr_Fetch(&a, &b, &c);
	delete_all(dl, i);
	PyErr_Restore(a, b, c);
	return ret;
}

/* (width, height, channels, scaled_width, scaled_height, left, top, crop, turn, flags) */
static PyObject *plan_info(PyObject *obj, void *closure)
{
	const struct dlbuf_prepare_info *i = &((struct plan *)obj)->info;

	(void)closure;
	return Py_BuildValue("(IIIIIii(dddd)II)", i->width, i->height, i->channels,
			     i->scaled_width, i->scaled_height, i->left, i->top, i->crop_x,
			     i->crop_y, i->crop_width, i->crop_height, i->turn, i->flags);
}

static PyMethodDef plan_methods[] = {
	{ "run", plan_run, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL }
};

static PyGetSetDef plan_attributes[] = {
	{ "info", plan_info, NULL, NULL, NULL },
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
