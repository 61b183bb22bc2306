// SPDX-License-Identifier: MIT
/*
 * Views: Tensors over a part of another one's memory, with its lease, device and
 * frame. Indexing computes dimensions and where they begin, _views.py other dimensions of
 * all elements; tensor_view() makes the Tensor.
 */
#include "_dlbuf.h"

#include <errno.h>
#include <stdlib.h>

/* Devices whose data is an address. On other devices data is a handle. */
static bool has_addresses(DLDeviceType type)
{
	switch (type) {
	case kDLCPU:
	case kDLCUDA:
	case kDLCUDAHost:
	case kDLCUDAManaged:
	case kDLROCM:
	case kDLROCMHost:
	case kDLOneAPI:
		return true;
	default:
		return false;
	}
}

/* The bytes of n elements; -1 if that is not a whole number. */
static int bytes_of(const struct tensor *t, int64_t n, int64_t *bytes)
{
	DLDataType dtype = t->dl->dl_tensor.dtype;
	unsigned int bits = dtype.bits * dtype.lanes;

	*bytes = n * (int64_t)dtype_bytes(dtype);
	if (tensor_is_whole(t))
		return 0;
	if (n % 8 * bits % 8)
		return raise_errno(EOPNOTSUPP, "the view begins inside a byte: "
				   "elements of %u bits are packed", bits);
	*bytes = n / 8 * bits + n % 8 * bits / 8;
	return 0;
}

static DLManagedTensorVersioned *view_of_source(struct tensor *t,
						const DLTensor *layout,
						int64_t from)
{
	DLTensor dl = t->dl->dl_tensor;
	int64_t bytes;

	dl.ndim = layout->ndim;
	dl.shape = layout->shape;
	dl.strides = layout->strides;
	dl.dtype = layout->dtype;
	if (!count_of(layout)) {
		dl.data = NULL;
		dl.byte_offset = 0;
		return source_export(t->src, &dl);
	}
	if (bytes_of(t, from, &bytes))
		return NULL;
	if (has_addresses(dl.device.device_type))
		dl.data = (void *)((uintptr_t)dl.data + bytes);
	else
		dl.byte_offset += bytes;
	return source_export(t->src, &dl);
}

/* Elements from the lowest one in memory to element [0, 0, ...]; of no elements 0. */
static int64_t elements_before(const DLTensor *dl)
{
	uint64_t n = 0;		/* before a 0 it may wrap */

	for (int i = 0; i < dl->ndim; i++)
		if (dl->strides[i] < 0)
			n -= (uint64_t)(dl->shape[i] - 1) * dl->strides[i];
	return count_of(dl) ? n : 0;
}

static DLManagedTensorVersioned *view_of_ours(struct tensor *t,
					      DLTensor *layout, int64_t from)
{
	const DLTensor *dl = &t->dl->dl_tensor;
	DLManagedTensorVersioned *ret;
	int err;

	if (count_of(layout))
		layout->byte_offset = (uint64_t)(elements_before(dl) + from) *
				      dtype_bytes(dl->dtype);
	err = dlbuf_tensor_share(t->dl, layout, &ret);
	if (err) {
		raise_dlbuf(err);
		return NULL;
	}
	tensor_inherit(t, ret);
	return ret;
}

/*
 * A Tensor over memory of t, whose first element is `from` elements after t's. Without
 * elements `from` is not looked at.
 */
static PyObject *tensor_view(struct tensor *t, struct layout *l, int64_t from)
{
	DLManagedTensorVersioned *dl;

	dl = t->src ? view_of_source(t, &l->dl, from) :
		      view_of_ours(t, &l->dl, from);
	return dl ? tensor_make(dl, t->src, t->device, t->frame, t->hold) : NULL;
}

/* The layout has no dimensions yet. */
static void begin_layout(struct layout *l, const struct tensor *t)
{
	l->dl = (DLTensor){ .shape = l->shape, .strides = l->strides,
			    .dtype = t->dl->dl_tensor.dtype };
}

static int add_dim(struct layout *l, int64_t n, int64_t stride)
{
	if (l->dl.ndim == DLBUF_MAX_NDIM)
		return raise_errno(EINVAL, "the view has more than %d dimensions",
				   DLBUF_MAX_NDIM);
	l->shape[l->dl.ndim] = n;
	l->strides[l->dl.ndim++] = stride;
	return 0;
}

/* Copies dimensions [begin, end) of dl. */
static int add_dims(struct layout *l, const DLTensor *dl, int begin, int end)
{
	for (int i = begin; i < end; i++)
		if (add_dim(l, dl->shape[i], dl->strides[i]))
			return -1;
	return 0;
}

/* ---------------------------------------------------------------- indexing */

/* The state of t[...]: the next dimension of dl, and the view so far. */
struct cursor {
	const DLTensor *dl;
	int dim;
	struct layout l;
	uint64_t from;		/* in elements; may wrap if there are none */
};

static int needs_copy(PyObject *item)
{
	PyErr_Clear();
	return raise_errno(EOPNOTSUPP, "an index of %R needs a copy, and a Tensor "
			   "gives views only: index the NumPy array of a copy, "
			   "t.copy().numpy()[...], or of the tensor, "
			   "t.numpy()[...]", Py_TYPE(item));
}

/* A list, an array or a mask selects elements, which is a copy. */
static bool selects(PyObject *item)
{
	if (PyUnicode_Check(item) || PyBytes_Check(item))
		return false;
	return PyBool_Check(item) || PySequence_Check(item) ||
	       (!PyFloat_Check(item) && PyObject_HasAttrString(item, "__array__"));
}

static int take_index(struct cursor *c, PyObject *item)
{
	int64_t n = c->dl->shape[c->dim];
	Py_ssize_t i;

	if (PyBool_Check(item) || !PyIndex_Check(item)) {
		if (selects(item))
			return needs_copy(item);
		PyErr_Format(PyExc_TypeError, "a Tensor is indexed by integers, "
			     "slices, None and ..., not by %R", item);
		return -1;
	}
	i = PyNumber_AsSsize_t(item, PyExc_IndexError);
	if (i == -1 && PyErr_Occurred())
		return PyErr_ExceptionMatches(PyExc_TypeError) ?
		       needs_copy(item) : -1;
	if (i >= n || i < -n) {
		PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for "
			     "dimension %d of %lld", i, c->dim, (long long)n);
		return -1;
	}
	c->from += (uint64_t)(i < 0 ? i + n : i) * c->dl->strides[c->dim++];
	return 0;
}

static int take_slice(struct cursor *c, PyObject *slice)
{
	int64_t stride = c->dl->strides[c->dim];
	Py_ssize_t start, stop, step, n;

	if (PySlice_Unpack(slice, &start, &stop, &step))
		return -1;
	n = PySlice_AdjustIndices(c->dl->shape[c->dim], &start, &stop, step);
	if (n)
		c->from += (uint64_t)start * stride;
	c->dim++;
	/* The stride of one element is not used, and may wrap. */
	return add_dim(&c->l, n, (uint64_t)stride * step);
}

static int take(struct cursor *c, PyObject *item, int rest)
{
	if (item == Py_None)
		return add_dim(&c->l, 1, 0);
	if (item == Py_Ellipsis) {
		c->dim += rest;
		return add_dims(&c->l, c->dl, c->dim - rest, c->dim);
	}
	return PySlice_Check(item) ? take_slice(c, item) : take_index(c, item);
}

static int take_all(struct cursor *c, PyObject *items)
{
	Py_ssize_t n = PyTuple_Size(items), used = 0, ellipses = 0;

	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PyTuple_GetItem(items, i);

		ellipses += item == Py_Ellipsis;
		used += item != Py_None && item != Py_Ellipsis;
	}
	if (ellipses > 1 || used > c->dl->ndim) {
		PyErr_Format(PyExc_IndexError, ellipses > 1 ?
			     "an index has at most one ..." :
			     "%zd indices for a tensor of %d dimensions", used,
			     (int)c->dl->ndim);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		if (take(c, PyTuple_GetItem(items, i), c->dl->ndim - (int)used))
			return -1;
	return add_dims(&c->l, c->dl, c->dim, c->dl->ndim);
}

PyObject *tensor_getitem(PyObject *self, PyObject *key)
{
	struct tensor *t = (struct tensor *)self;
	PyObject *items = PyTuple_Check(key) ? Py_NewRef(key) :
			  PyTuple_Pack(1, key);
	struct cursor c = { 0 };
	PyObject *ret = NULL;

	if (!items || tensor_begin(t)) {
		Py_XDECREF(items);
		return NULL;
	}
	c.dl = &t->dl->dl_tensor;
	begin_layout(&c.l, t);
	if (!take_all(&c, items))
		ret = tensor_view(t, &c.l, c.from);
	tensor_end(t);
	Py_DECREF(items);
	return ret;
}

Py_ssize_t tensor_len(PyObject *self)
{
	struct tensor *t = (struct tensor *)self;
	Py_ssize_t n = -1;

	if (tensor_begin(t))
		return -1;
	if (t->dl->dl_tensor.ndim)
		n = t->dl->dl_tensor.shape[0];
	else
		PyErr_SetString(PyExc_TypeError, "a tensor without dimensions has "
				"no length, and nothing to iterate over: "
				"t.item() is its value");
	tensor_end(t);
	return n;
}

/* map(t.__getitem__, range(len(t))) */
PyObject *tensor_iter(PyObject *self)
{
	Py_ssize_t n = tensor_len(self);
	PyObject *get = NULL, *range = NULL, *ret = NULL;

	if (n >= 0)
		get = PyObject_GetAttrString(self, "__getitem__");
	if (get)
		range = PyObject_CallFunction((PyObject *)&PyRange_Type, "n", n);
	if (range)
		ret = PyObject_CallFunctionObjArgs((PyObject *)&PyMap_Type, get,
						   range, NULL);
	Py_XDECREF(range);
	Py_XDECREF(get);
	return ret;
}

/* ---------------------------------------------------------------- shapes */

/* All elements of t, its dimensions in their order or in the opposite one. */
static PyObject *whole(PyObject *self, bool reversed)
{
	struct tensor *t = (struct tensor *)self;
	PyObject *ret = NULL;
	struct layout l;
	int n, err = 0;

	if (tensor_begin(t))
		return NULL;
	n = t->dl->dl_tensor.ndim;
	begin_layout(&l, t);
	for (int i = 0; !err && i < n; i++) {
		int d = reversed ? n - 1 - i : i;

		err = add_dims(&l, &t->dl->dl_tensor, d, d + 1);
	}
	if (!err)
		ret = tensor_view(t, &l, 0);
	tensor_end(t);
	return ret;
}

PyObject *tensor_share_method(PyObject *self, PyObject *none)
{
	(void)none;
	return whole(self, false);
}

PyObject *tensor_transposed(PyObject *self, void *closure)
{
	(void)closure;
	return whole(self, true);
}

/*
 * view(tensor, shape, strides, dtype): from its first element on. Callers have computed
 * dimensions inside the tensor's memory.
 */
PyObject *view(PyObject *module, PyObject *args)
{
	PyObject *obj, *shape, *strides, *dtype, *ret = NULL;
	struct tensor *t;
	struct layout l;
	unsigned int bits;
	DLDataType from;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!OOO", tensor_type, &obj, &shape, &strides,
			      &dtype) ||
	    parse_layout(&l, shape, dtype, strides, 0))
		return NULL;
	t = (struct tensor *)obj;
	if (tensor_begin(t))
		return NULL;
	from = t->dl->dl_tensor.dtype;
	bits = l.dl.dtype.bits * l.dl.dtype.lanes;
	/* The library compares with the bytes of a dma-buf's tensor. */
	if (!t->src || bits == (unsigned int)from.bits * from.lanes ||
	    (tensor_is_whole(t) && bits == 8 * dtype_bytes(from)))
		ret = tensor_view(t, &l, 0);
	else
		raise_errno(EOPNOTSUPP, "elements of %d bits are not whole bytes",
			    from.bits * from.lanes);
	tensor_end(t);
	return ret;
}
