// SPDX-License-Identifier: MIT
/*
 * Views: Tensors over a part of another one's memory, with its lease, device and
 * frame. Indexing and the calls that change a shape compute dimensions and where they
 * begin; tensor_view() makes the Tensor.
 */
#include "_dlbuf.h"

#include <errno.h>
#include <stdlib.h>

/* Devices whose data is an address; that of others is a handle. */
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
static int bytes_of(const struct source *src, const DLTensor *dl, int64_t n,
		    int64_t *bytes)
{
	unsigned int bits = dl->dtype.bits * dl->dtype.lanes;

	*bytes = n * (int64_t)dtype_bytes(dl->dtype);
	if (!(bits % 8) || src->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
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
	if (bytes_of(t->src, &dl, from, &bytes))
		return NULL;
	if (has_addresses(dl.device.device_type))
		dl.data = (void *)((uintptr_t)dl.data + bytes);
	else
		dl.byte_offset += bytes;
	return source_export(t->src, &dl);
}

int64_t elements_before(const DLTensor *dl)
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
	err = dlbuf_tensor_view(t->dl, layout, &ret);
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

/* Integers as f(1, 2), f((1, 2)) or f([1, 2]); the number of them, or -1. */
static int parse_ints(PyObject *args, int64_t *out, const char *what)
{
	PyObject *first = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) :
			  NULL;

	return parse_dims(first && PySequence_Check(first) ? first : args, out,
			  what);
}

/* Replaces a -1 in the shape by what the count of elements leaves. */
static int complete(int64_t *shape, int n, int64_t count)
{
	int64_t known = 1;
	int open = -1;

	for (int i = 0; i < n; i++) {
		if (shape[i] == -1 && open < 0) {
			open = i;
			continue;
		}
		if (shape[i] < 0)
			return raise_errno(EINVAL, "shape[%d] is %lld: one of a "
					   "shape may be -1, and none below", i,
					   (long long)shape[i]);
		if (__builtin_mul_overflow(known, shape[i], &known))
			return raise_errno(EINVAL, "the shape has more elements "
					   "than the tensor, %lld",
					   (long long)count);
	}
	if (open >= 0 && known && !(count % known)) {
		shape[open] = count / known;
		return 0;
	}
	if (open >= 0 || known != count)
		return raise_errno(EINVAL, "a tensor of %lld elements has no such "
				   "shape: the %sdimensions have %lld",
				   (long long)count, open < 0 ? "" : "other ",
				   (long long)known);
	return 0;
}

/* The compact strides of l's shape. */
static void make_compact(struct layout *l)
{
	uint64_t stride = 1;

	for (int i = l->dl.ndim - 1; i >= 0; i--) {
		l->strides[i] = stride;
		stride *= l->shape[i] ? l->shape[i] : 1;
	}
}

/*
 * Merges dimension d of dl, and those before it that follow it in memory, to one block
 * of n elements, `stride` apart. Returns the dimension before.
 */
static int merge(const DLTensor *dl, int d, int64_t *n, int64_t *stride)
{
	int64_t next;

	*n = dl->shape[d];
	*stride = dl->strides[d];
	while (--d >= 0) {
		if (dl->shape[d] == 1)
			continue;
		if (*n == 1) {
			*stride = dl->strides[d];
		} else if (__builtin_mul_overflow(*n, *stride, &next) ||
			   dl->strides[d] != next) {
			break;
		}
		*n *= dl->shape[d];
	}
	return d;
}

/* Strides for l's shape, which has as many elements as dl, or -1: it needs a copy. */
static int regroup(const DLTensor *dl, struct layout *l)
{
	int64_t left = 1, stride = 1;
	int d = dl->ndim - 1;

	for (int i = l->dl.ndim - 1; i >= 0; i--) {
		int64_t n = l->shape[i];

		if (n != 1 && left == 1 && d >= 0)
			d = merge(dl, d, &left, &stride);
		if (left % n)
			return -1;
		l->strides[i] = stride;
		left /= n;
		/* After the last element it may wrap. */
		stride = (uint64_t)stride * n;
	}
	return 0;
}

static int do_reshape(const DLTensor *dl, PyObject *shape, struct layout *l)
{
	int n = parse_ints(shape, l->shape, "the shape");

	if (n < 0 || complete(l->shape, n, count_of(dl)))
		return -1;
	l->dl.ndim = n;
	if (!count_of(dl))
		make_compact(l);
	else if (regroup(dl, l))
		return raise_errno(EOPNOTSUPP, "the tensor's elements are not one "
				   "after another, so that this shape needs a "
				   "copy: t.copy().reshape(...)");
	return 0;
}

/* A dimension as Python counts it, of n; -1 with an exception. */
static int find_dim(int64_t dim, int n)
{
	if (dim < -n || dim >= n)
		return raise_errno(EINVAL, "there is no dimension %lld: they are "
				   "%d to %d", (long long)dim, -n, n - 1);
	return dim < 0 ? dim + n : dim;
}

static int do_permute(const DLTensor *dl, PyObject *args, struct layout *l)
{
	int64_t dims[DLBUF_MAX_NDIM];
	int n = parse_ints(args, dims, "the list of dimensions");
	uint64_t seen = 0;

	if (n < 0)
		return -1;
	if (n != dl->ndim)
		return raise_errno(EINVAL, "%d dimensions are named, and the tensor "
				   "has %d", n, (int)dl->ndim);
	for (int i = 0; i < n; i++) {
		int d = find_dim(dims[i], n);

		if (d < 0)
			return -1;
		if (seen >> d & 1)
			return raise_errno(EINVAL, "dimension %d is named twice", d);
		seen |= (uint64_t)1 << d;
		if (add_dims(l, dl, d, d + 1))
			return -1;
	}
	return 0;
}

static int do_reverse(const DLTensor *dl, PyObject *none, struct layout *l)
{
	(void)none;
	for (int i = dl->ndim - 1; i >= 0; i--)
		if (add_dims(l, dl, i, i + 1))
			return -1;
	return 0;
}

/* NumPy's: without axes, or with None, all in the other order. */
static int do_transpose(const DLTensor *dl, PyObject *args, struct layout *l)
{
	Py_ssize_t n = PyTuple_Size(args);

	if (!n || (n == 1 && PyTuple_GetItem(args, 0) == Py_None))
		return do_reverse(dl, NULL, l);
	return do_permute(dl, args, l);
}

static int do_unsqueeze(const DLTensor *dl, PyObject *arg, struct layout *l)
{
	long long dim = PyLong_AsLongLong(arg);
	int d;

	if (dim == -1 && PyErr_Occurred())
		return bad_argument(arg, "dim", "an int");
	d = find_dim(dim, dl->ndim + 1);
	return d < 0 || add_dims(l, dl, 0, d) || add_dim(l, 1, 0) ||
	       add_dims(l, dl, d, dl->ndim) ? -1 : 0;
}

/* dims is a tuple, or NULL: all of one element. */
static int do_squeeze(const DLTensor *dl, PyObject *args, struct layout *l)
{
	int64_t dims[DLBUF_MAX_NDIM];
	uint64_t leave = 0;
	int n = args ? parse_ints(args, dims, "dim") : 0;

	if (n < 0)
		return -1;
	for (int i = 0; i < n; i++) {
		int d = find_dim(dims[i], dl->ndim);

		if (d < 0)
			return -1;
		if (dl->shape[d] != 1)
			return raise_errno(EINVAL, "dimension %d has %lld elements, "
					   "not 1", d, (long long)dl->shape[d]);
		leave |= (uint64_t)1 << d;
	}
	for (int i = 0; i < dl->ndim; i++)
		if (args ? !(leave >> i & 1) : dl->shape[i] != 1)
			if (add_dims(l, dl, i, i + 1))
				return -1;
	return 0;
}

static int do_nothing(const DLTensor *dl, PyObject *none, struct layout *l)
{
	(void)none;
	return add_dims(l, dl, 0, dl->ndim);
}

typedef int (*shape_fn)(const DLTensor *dl, PyObject *args, struct layout *l);

/* All elements of t, in other dimensions. */
static PyObject *reshaped(PyObject *self, shape_fn fn, PyObject *args)
{
	struct tensor *t = (struct tensor *)self;
	PyObject *ret = NULL;
	struct layout l;

	if (tensor_begin(t))
		return NULL;
	begin_layout(&l, t);
	if (!fn(&t->dl->dl_tensor, args, &l))
		ret = tensor_view(t, &l, 0);
	tensor_end(t);
	return ret;
}

PyObject *tensor_reshape(PyObject *self, PyObject *args)
{
	return reshaped(self, do_reshape, args);
}

PyObject *tensor_permute(PyObject *self, PyObject *args)
{
	return reshaped(self, do_permute, args);
}

PyObject *tensor_transpose(PyObject *self, PyObject *args)
{
	return reshaped(self, do_transpose, args);
}

PyObject *tensor_transposed(PyObject *self, void *closure)
{
	(void)closure;
	return reshaped(self, do_reverse, NULL);
}

PyObject *tensor_unsqueeze(PyObject *self, PyObject *dim)
{
	return reshaped(self, do_unsqueeze, dim);
}

PyObject *tensor_squeeze(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "dim", NULL };
	PyObject *dim = Py_None, *dims = NULL, *ret;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:squeeze", names, &dim))
		return NULL;
	if (dim != Py_None) {
		dims = PyTuple_Pack(1, dim);
		if (!dims)
			return NULL;
	}
	ret = reshaped(self, do_squeeze, dims);
	Py_XDECREF(dims);
	return ret;
}

PyObject *tensor_share_method(PyObject *self, PyObject *none)
{
	return reshaped(self, do_nothing, none);
}

/* reverse(tensor) */
PyObject *reverse(PyObject *module, PyObject *obj)
{
	(void)module;
	if (PyObject_TypeCheck(obj, tensor_type))
		return reshaped(obj, do_reverse, NULL);
	PyErr_SetString(PyExc_TypeError, "not a dlbuf.Tensor");
	return NULL;
}

static int do_retype(const DLTensor *dl, PyObject *dtype, struct layout *l)
{
	DLDataType to;

	if (parse_dtype(dtype, &to))
		return -1;
	if (to.bits * to.lanes != dl->dtype.bits * dl->dtype.lanes)
		return raise_errno(EOPNOTSUPP, "elements of %d bits are not whole "
				   "bytes", dl->dtype.bits * dl->dtype.lanes);
	l->dl.dtype = to;
	return add_dims(l, dl, 0, dl->ndim);
}

/* retype(tensor, dtype): the same bytes as another type of the same size */
PyObject *retype(PyObject *module, PyObject *args)
{
	PyObject *obj, *dtype;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!O", tensor_type, &obj, &dtype))
		return NULL;
	return reshaped(obj, do_retype, dtype);
}
