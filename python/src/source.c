// SPDX-License-Identifier: MIT
/* Memory of other producers, as tensors. */
#include "_dlbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct exported {
	DLManagedTensorVersioned dl;
	struct source *src;
};

struct source *source_create(const DLTensor *dl, uint64_t flags,
			     void (*release)(struct source *src))
{
	struct source *src;
	int64_t compact = 1;
	int64_t *shape, *strides;

	if (dl->ndim < 0 || dl->ndim > DLBUF_MAX_NDIM ||
	    (dl->ndim && !dl->shape)) {
		raise_errno(EINVAL, "a tensor of %d dimensions%s", (int)dl->ndim,
			    dl->ndim && !dl->shape ? " without a shape" : "");
		return NULL;
	}
	for (int i = 0; i < dl->ndim; i++) {
		if (dl->shape[i] < 0) {
			raise_errno(EINVAL, "shape[%d] is negative", i);
			return NULL;
		}
	}
	src = calloc(1, sizeof(*src) + 2 * dl->ndim * sizeof(src->dims[0]));
	if (!src) {
		PyErr_NoMemory();
		return NULL;
	}
	src->refs = 1;
	src->release = release;
	src->flags = flags;
	src->dl = *dl;
	shape = src->dims;
	strides = src->dims + dl->ndim;
	for (int i = dl->ndim - 1; i >= 0; i--) {
		shape[i] = dl->shape[i];
		strides[i] = dl->strides ? dl->strides[i] : compact;
		compact *= shape[i];
	}
	src->dl.shape = dl->ndim ? shape : NULL;
	src->dl.strides = dl->ndim ? strides : NULL;
	return src;
}

void source_ref(struct source *src)
{
	__atomic_add_fetch(&src->refs, 1, __ATOMIC_RELAXED);
}

void source_unref(struct source *src)
{
	if (__atomic_sub_fetch(&src->refs, 1, __ATOMIC_ACQ_REL))
		return;
	src->release(src);
	free(src);
}

static void delete_exported(DLManagedTensorVersioned *self)
{
	struct exported *e = (struct exported *)self;

	if (!e)
		return;
	source_unref(e->src);
	free(e);
}

DLManagedTensorVersioned *source_export(struct source *src)
{
	struct exported *e = calloc(1, sizeof(*e));

	if (!e) {
		PyErr_NoMemory();
		return NULL;
	}
	source_ref(src);
	e->src = src;
	e->dl = (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
		.deleter = delete_exported,
		.flags = src->flags,
		.dl_tensor = src->dl,
	};
	return &e->dl;
}

/* ---------------------------------------------------------------- kinds */

static void release_memory(struct source *src)
{
	free(src->u.memory);
}

struct source *source_memory(const DLTensor *dl, uint64_t flags)
{
	DLTensor own = *dl;
	struct source *src;
	uint64_t bytes = dtype_bytes(dl->dtype);
	void *memory;

	for (int i = 0; i < dl->ndim; i++) {
		if (dl->shape[i] < 0 ||
		    __builtin_mul_overflow(bytes, (uint64_t)dl->shape[i],
					   &bytes) || bytes > PTRDIFF_MAX) {
			raise_errno(EOVERFLOW, "the shape has more bytes than "
				    "there are addresses");
			return NULL;
		}
	}
	/* What DLPack says of alignment; a size that is a multiple of it. */
	memory = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
	if (!memory) {
		PyErr_NoMemory();
		return NULL;
	}
	own.data = bytes ? memory : NULL;
	own.device = (DLDevice){ kDLCPU, 0 };
	own.strides = NULL;
	own.byte_offset = 0;
	src = source_create(&own, flags, release_memory);
	if (src)
		src->u.memory = memory;
	else
		free(memory);
	return src;
}

void delete_versioned(DLManagedTensorVersioned *dl)
{
	if (dl && dl->deleter)
		dl->deleter(dl);
}

/*
 * With an exception on its way, which a deleter that is itself written in
 * Python must not see.
 */
static void delete_after_error(DLManagedTensorVersioned *dl)
{
	PyObject *a, *b, *c;

	PyErr_Fetch(&a, &b, &c);
	delete_versioned(dl);
	PyErr_Restore(a, b, c);
}

/* Of another producer, whose deleter may need the GIL: NumPy's before 1.24. */
static void release_versioned(struct source *src)
{
	PyGILState_STATE state;

	if (!gil_enter(&state))
		return;
	delete_versioned(src->u.versioned[0]);
	gil_leave(state);
}

/* Of dlbuf: it needs none. */
static void release_pair(struct source *src)
{
	delete_versioned(src->u.versioned[0]);
	delete_versioned(src->u.versioned[1]);
}

struct source *source_versioned(DLManagedTensorVersioned *tensor,
				DLManagedTensorVersioned *keep)
{
	struct source *src = NULL;

	if (tensor->version.major != DLPACK_MAJOR_VERSION)
		raise_errno(EPROTO, "the tensor is of DLPack %u.%u, dlbuf speaks "
			    "%d.%d", tensor->version.major,
			    tensor->version.minor, DLPACK_MAJOR_VERSION,
			    DLPACK_MINOR_VERSION);
	else
		src = source_create(&tensor->dl_tensor, tensor->flags,
				    keep ? release_pair : release_versioned);
	if (!src) {
		delete_after_error(tensor);
		delete_after_error(keep);
		return NULL;
	}
	src->u.versioned[0] = tensor;
	src->u.versioned[1] = keep;
	return src;
}

static void release_inner(struct source *src)
{
	source_unref(src->u.inner);
}

/* Its shape and strides, where they are: for who owns the tensor. */
void reverse_dims(DLTensor *dl)
{
	for (int a = 0, b = dl->ndim - 1; a < b; a++, b--) {
		int64_t n = dl->shape[a], stride = dl->strides[a];

		dl->shape[a] = dl->shape[b];
		dl->strides[a] = dl->strides[b];
		dl->shape[b] = n;
		dl->strides[b] = stride;
	}
}

struct source *source_reversed(struct source *inner)
{
	struct source *src = source_create(&inner->dl, inner->flags,
					   release_inner);

	if (!src)
		return NULL;
	source_ref(inner);
	src->u.inner = inner;
	reverse_dims(&src->dl);
	return src;
}

static void release_legacy(struct source *src)
{
	PyGILState_STATE state;

	if (!src->u.legacy->deleter || !gil_enter(&state))
		return;
	src->u.legacy->deleter(src->u.legacy);
	gil_leave(state);
}

static void release_buffer(struct source *src)
{
	PyGILState_STATE state;

	if (!gil_enter(&state))
		return;
	PyBuffer_Release(&src->u.buffer);
	gil_leave(state);
}

static void release_owner(struct source *src)
{
	PyGILState_STATE state;

	if (!gil_enter(&state))
		return;
	Py_DECREF(src->u.owner);
	gil_leave(state);
}

/* ---------------------------------------------------------------- consumers */

/*
 * What a capsule of that name holds, or NULL. The name is changed: from then on
 * the capsule's destructor leaves the tensor alone, and it is the caller's.
 */
static void *take_capsule(PyObject *capsule, const char *name,
			  const char *used)
{
	void *pointer = NULL;

	LOCK_OBJECT(capsule);
	if (PyCapsule_IsValid(capsule, name)) {
		pointer = PyCapsule_GetPointer(capsule, name);
		if (PyCapsule_SetName(capsule, used))
			pointer = NULL;
	}
	UNLOCK_OBJECT();
	return pointer;
}

/* Takes it. */
static struct source *source_legacy(DLManagedTensor *legacy)
{
	struct source *src = source_create(&legacy->dl_tensor, 0,
					   release_legacy);

	if (src) {
		src->u.legacy = legacy;
	} else if (legacy->deleter) {
		PyObject *a, *b, *c;

		PyErr_Fetch(&a, &b, &c);
		legacy->deleter(legacy);
		PyErr_Restore(a, b, c);
	}
	return src;
}

PyObject *from_capsule(PyObject *module, PyObject *capsule)
{
	struct source *src;
	void *pointer;

	(void)module;
	pointer = take_capsule(capsule, "dltensor_versioned",
			       "used_dltensor_versioned");
	if (pointer) {
		src = source_versioned(pointer, NULL);
	} else {
		pointer = take_capsule(capsule, "dltensor", "used_dltensor");
		if (!pointer) {
			PyErr_SetString(PyExc_ValueError, "not a capsule with a "
					"DLPack tensor, or one that is used "
					"already");
			return NULL;
		}
		src = source_legacy(pointer);
	}
	return src ? tensor_of_source(src) : NULL;
}

static int format_dtype(const char *format, Py_ssize_t itemsize,
			DLDataType *dtype)
{
	static const char ints[] = "bhilqn", uints[] = "BHILQN";
	uint8_t code;

	/* "@" and "=" are native, and so is one of "<" and ">". */
	if (*format == '@' || *format == '=' ||
	    *format == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>'))
		format++;
	if (*format == 'Z' && strchr("fdg", format[1]) && format[1])
		code = kDLComplex, format++;
	else if (*format && strchr(ints, *format))
		code = kDLInt;
	else if (*format && (strchr(uints, *format) || *format == 'c'))
		code = kDLUInt;
	else if (*format && strchr("efdg", *format))
		code = kDLFloat;
	else if (*format == '?')
		code = kDLBool;
	else
		return -1;
	if (format[1] || itemsize > 31)
		return -1;
	*dtype = (DLDataType){ code, itemsize * 8, 1 };
	return 0;
}

PyObject *from_buffer(PyObject *module, PyObject *obj)
{
	int64_t shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
	DLTensor dl = { .device = { kDLCPU, 0 } };
	struct source *src;
	Py_buffer view;

	(void)module;
	if (PyObject_GetBuffer(obj, &view, PyBUF_FULL_RO))
		return NULL;
	if (format_dtype(view.format ? view.format : "B", view.itemsize,
			 &dl.dtype)) {
		raise_errno(EOPNOTSUPP, "DLPack has no type for a buffer of "
			    "format '%s'", view.format);
		goto fail;
	}
	if (view.suboffsets || view.ndim > DLBUF_MAX_NDIM) {
		raise_errno(EOPNOTSUPP, "a buffer with suboffsets, or of more "
			    "than %d dimensions", DLBUF_MAX_NDIM);
		goto fail;
	}
	/* Some, ctypes among them, have no strides though they were asked. */
	for (int i = 0; i < view.ndim; i++) {
		shape[i] = view.shape ? view.shape[i] : view.len / view.itemsize;
		if (!view.strides)
			continue;
		if (view.strides[i] % view.itemsize) {
			raise_errno(EOPNOTSUPP, "a stride of %zd bytes is not a "
				    "whole number of elements of %zd",
				    view.strides[i], view.itemsize);
			goto fail;
		}
		strides[i] = view.strides[i] / view.itemsize;
	}
	dl.ndim = view.ndim;
	dl.shape = shape;
	dl.strides = view.strides ? strides : NULL;
	if (count_of(&dl))
		dl.data = view.buf;
	src = source_create(&dl, view.readonly ?
			    DLPACK_FLAG_BITMASK_READ_ONLY : 0, release_buffer);
	if (!src)
		goto fail;
	src->u.buffer = view;
	return tensor_of_source(src);
fail:
	PyBuffer_Release(&view);
	return NULL;
}

/* from_memory(owner, address, shape, dtype, strides, read_only, device) */
PyObject *from_memory(PyObject *module, PyObject *args)
{
	PyObject *owner, *address, *shape, *dtype, *strides;
	int read_only, type = kDLCPU, id = 0;
	struct source *src;
	struct layout l;
	void *data;

	(void)module;
	if (!PyArg_ParseTuple(args, "OOOOOp|(ii)", &owner, &address, &shape,
			      &dtype, &strides, &read_only, &type, &id))
		return NULL;
	data = PyLong_AsVoidPtr(address);
	if ((!data && PyErr_Occurred()) ||
	    parse_layout(&l, shape, dtype, strides, 0))
		return NULL;
	l.dl.device = (DLDevice){ type, id };
	l.dl.data = count_of(&l.dl) ? data : NULL;
	src = source_create(&l.dl, read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
			    release_owner);
	if (!src)
		return NULL;
	Py_INCREF(owner);
	src->u.owner = owner;
	return tensor_of_source(src);
}
