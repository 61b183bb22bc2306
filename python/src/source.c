// SPDX-License-Identifier: MIT
/* Memory of other producers, as tensors. */
#include "_dlbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KNOWN_FLAGS (DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED | \
		     DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)

#define ALIGN 256		/* required by DLPack */

struct exported {
	DLManagedTensorVersioned dl;
	struct source *src;
	int64_t dims[];		/* shape, then strides */
};

/* The bits that DLPack gives to a code; 0 for a code of any size. */
static unsigned int bits_of_code(uint8_t code)
{
	if (code == kDLBool || (code >= kDLFloat8_e3m4 && code <= kDLFloat8_e8m0fnu))
		return 8;
	if (code == kDLFloat6_e2m3fn || code == kDLFloat6_e3m2fn)
		return 6;
	return code == kDLFloat4_e2m1fn ? 4 : 0;
}

static int check_dtype(DLDataType dtype, uint64_t flags)
{
	unsigned int own = bits_of_code(dtype.code);

	if (!dtype_bytes(dtype))
		return raise_errno(EINVAL, "a dtype of %d bits in %d lanes has "
				   "no size", dtype.bits, dtype.lanes);
	if (own && dtype.bits != own)
		return raise_errno(EINVAL, "a dtype of DLPack's code %d has %u "
				   "bits, not %d", dtype.code, own, dtype.bits);
	if (dtype.bits < 8 && dtype.lanes > 1 &&
	    flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
		return raise_errno(EOPNOTSUPP, "the tensor is padded, and DLPack does "
				   "not say whether each of its %d lanes is or each "
				   "element", dtype.lanes);
	return 0;
}

/*
 * Validates the description of a producer, of all kinds; see source_create(). Sets
 * *empty where there are no elements.
 */
static int check(const DLTensor *dl, uint64_t flags, bool *empty)
{
	int64_t item = dtype_bytes(dl->dtype), bytes = item;
	int64_t low = 0, high = 0, reach, compact = 1;
	uintptr_t at, end;

	if (dl->ndim < 0 || dl->ndim > DLBUF_MAX_NDIM)
		return raise_errno(EINVAL, "the tensor has %d dimensions, 0 to %d "
				   "are possible", (int)dl->ndim, DLBUF_MAX_NDIM);
	if (dl->ndim && !dl->shape)
		return raise_errno(EINVAL, "the tensor has %d dimensions and no "
				   "shape", (int)dl->ndim);
	if (check_dtype(dl->dtype, flags))
		return -1;
	for (int i = 0; i < dl->ndim; i++) {
		if (dl->shape[i] < 0)
			return raise_errno(EINVAL, "shape[%d] is negative", i);
		*empty |= !dl->shape[i];
	}
	if (*empty)
		return 0;
	if (!dl->data)
		return raise_errno(EINVAL, "the tensor has elements, and its "
				   "data is NULL");
	for (int i = 0; i < dl->ndim; i++)
		if (__builtin_mul_overflow(bytes, dl->shape[i], &bytes) ||
		    bytes > PTRDIFF_MAX)
			return raise_errno(EOVERFLOW, "the shape has more bytes "
					   "than there are addresses");
	for (int i = dl->ndim - 1; i >= 0; i--) {
		if (__builtin_mul_overflow(dl->shape[i] - 1, dl->strides ?
					   dl->strides[i] : compact, &reach) ||
		    __builtin_mul_overflow(reach, item, &reach) ||
		    __builtin_add_overflow(reach < 0 ? low : high, reach,
					   reach < 0 ? &low : &high))
			goto outside;
		compact *= dl->shape[i];
	}
	/* The builtins compute mixed signs and widths without a bound. */
	if (!__builtin_add_overflow((uintptr_t)dl->data, dl->byte_offset, &at) &&
	    !__builtin_add_overflow(at, low, &end) &&
	    !__builtin_add_overflow(at, high, &end) &&
	    !__builtin_add_overflow(end, item, &end))
		return 0;
outside:
	return raise_errno(EOVERFLOW, "the tensor's bytes, from %p, do not fit "
			   "the address space", dl->data);
}

struct source *source_create(const DLTensor *dl, uint64_t flags,
			     void (*release)(struct source *src))
{
	struct source *src;
	uint64_t compact = 1;	/* without elements it may wrap */
	int64_t *shape, *strides;
	bool empty = false;

	if (check(dl, flags, &empty))
		return NULL;
	src = calloc(1, sizeof(*src) + 2 * dl->ndim * sizeof(src->dims[0]));
	if (!src) {
		PyErr_NoMemory();
		return NULL;
	}
	src->refs = 1;
	src->release = release;
	src->flags = flags & KNOWN_FLAGS;
	src->dl = *dl;
	shape = src->dims;
	strides = src->dims + dl->ndim;
	for (int i = dl->ndim - 1; i >= 0; i--) {
		shape[i] = dl->shape[i];
		strides[i] = dl->strides ? dl->strides[i] : (int64_t)compact;
		compact *= shape[i] ? shape[i] : 1;
	}
	src->dl.shape = dl->ndim ? shape : NULL;
	src->dl.strides = dl->ndim ? strides : NULL;
	if (empty) {
		src->dl.data = NULL;
		src->dl.byte_offset = 0;
	}
	return src;
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

DLManagedTensorVersioned *source_export(struct source *src, const DLTensor *dl)
{
	const uint64_t padded = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
	size_t bytes = dl->ndim * sizeof(int64_t);
	struct exported *e = calloc(1, sizeof(*e) + 2 * bytes);

	if (!e) {
		PyErr_NoMemory();
		return NULL;
	}
	__atomic_add_fetch(&src->refs, 1, __ATOMIC_RELAXED);
	e->src = src;
	e->dl = (DLManagedTensorVersioned){
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
		.deleter = delete_exported,
		.flags = src->flags & (DLPACK_FLAG_BITMASK_READ_ONLY |
				       (dl->dtype.bits < 8 ? padded : 0)),
		.dl_tensor = *dl,
	};
	if (dl->ndim) {
		e->dl.dl_tensor.shape = e->dims;
		e->dl.dl_tensor.strides = e->dims + dl->ndim;
		memcpy(e->dims, dl->shape, bytes);
		memcpy(e->dims + dl->ndim, dl->strides, bytes);
	}
	return &e->dl;
}

/* ---------------------------------------------------------------- kinds */

/*
 * Large memory is a mapping of its own: glibc would take it from the heap, where it stays
 * behind what is freed later. The last one that was freed is kept, because a loop asks for the
 * same again, and new pages cost more than small pictures do. It begins with its size.
 */
#define LARGE (128 << 10)

static size_t *spare;		/* atomic */

static size_t memory_bytes(const struct source *src)
{
	return count_of(&src->dl) * dtype_bytes(src->dl.dtype);
}

static void *map_memory(size_t bytes)
{
	size_t *memory = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);

	if (memory && *memory == bytes)
		return memory;
	if (memory)
		munmap(memory, *memory);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static void release_memory(struct source *src)
{
	size_t bytes = memory_bytes(src), *memory = src->u.memory;

	if (!memory || bytes < LARGE) {
		free(memory);
		return;
	}
	*memory = bytes;
	memory = __atomic_exchange_n(&spare, memory, __ATOMIC_ACQ_REL);
	if (memory)
		munmap(memory, *memory);
}

struct source *source_memory(const DLTensor *dl, uint64_t flags)
{
	DLTensor own = *dl;
	struct source *src;
	size_t bytes;

	/* A placeholder: source_create() refuses NULL. */
	own.data = (void *)1;
	own.device = (DLDevice){ kDLCPU, 0 };
	own.strides = NULL;
	own.byte_offset = 0;
	src = source_create(&own, flags, release_memory);
	if (!src || !src->dl.data)
		return src;
	bytes = memory_bytes(src);
	src->u.memory = bytes < LARGE ? malloc(bytes + ALIGN - 1) : map_memory(bytes);
	src->dl.data = (void *)(((uintptr_t)src->u.memory + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
	if (!src->u.memory) {
		PyErr_NoMemory();
		source_unref(src);
		return NULL;
	}
	return src;
}

void delete_versioned(DLManagedTensorVersioned *dl)
{
	if (dl && dl->deleter)
		dl->deleter(dl);
}

void delete_after_error(DLManagedTensorVersioned *dl)
{
	PyObject *a, *b, *c;

	PyErr_Fetch(&a, &b, &c);
	delete_versioned(dl);
	PyErr_Restore(a, b, c);
}

/* A tensor of another producer: its deleter may need the GIL, as NumPy's before 1.24. */
static void release_versioned(struct source *src)
{
	PyGILState_STATE state;

	if (!gil_enter(&state))
		return;
	delete_versioned(src->u.versioned[0]);
	gil_leave(state);
}

/* A tensor of dlbuf: its deleter needs no GIL. */
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

static void release_legacy(struct source *src)
{
	PyGILState_STATE state;

	if (!src->u.legacy->deleter || !gil_enter(&state))
		return;
	src->u.legacy->deleter(src->u.legacy);
	gil_leave(state);
}

static void release_owner(struct source *src)
{
	PyGILState_STATE state;

	if (!gil_enter(&state))
		return;
	Py_XDECREF(hold_end(src->hold));
	gil_leave(state);
}

/* ---------------------------------------------------------------- consumers */

/*
 * The tensor of a capsule with that name, or NULL. The function changes the
 * name: from then on the tensor is the caller's, and the capsule's destructor
 * does not delete it.
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
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	struct source *src;
	void *pointer;

	(void)module;
	pointer = take_capsule(capsule, "dltensor_versioned",
			       "used_dltensor_versioned");
	if (pointer) {
		/*
		 * C code made it with the same library. An acquired tensor is a
		 * share that a Tensor made for this consumer.
		 */
		if (!dlbuf_tensor_get_info(pointer, &info) && !info.acquired)
			return tensor_new(pointer, NULL, NULL, NULL);
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
	/* Not "g": a long double is padded, or not IEEE's. */
	if (*format == 'Z' && (format[1] == 'f' || format[1] == 'd'))
		code = kDLComplex, format++;
	else if (*format && strchr(ints, *format))
		code = kDLInt;
	else if (*format && (strchr(uints, *format) || *format == 'c'))
		code = kDLUInt;
	else if (*format && strchr("efd", *format))
		code = kDLFloat;
	else if (*format == '?')
		code = kDLBool;
	else
		return -1;
	if (format[1] || itemsize < 1 || itemsize > 31)
		return -1;
	*dtype = (DLDataType){ code, itemsize * 8, 1 };
	return 0;
}

/* Over dl, memory of owner's, which is kept. */
static PyObject *of_owner(const DLTensor *dl, bool read_only, PyObject *owner)
{
	struct source *src = source_create(dl, read_only ?
					   DLPACK_FLAG_BITMASK_READ_ONLY : 0,
					   release_owner);

	if (!src)
		return NULL;
	src->hold = hold_new(owner);
	if (!src->hold) {
		free(src);
		return NULL;
	}
	src->hold->users = &src->refs;
	return tensor_of_source(src);
}

/* dl of a buffer, its dims in the room that is lent. */
static int parse_buffer(const Py_buffer *view, DLTensor *dl, int64_t *shape,
			int64_t *strides)
{
	bool empty = false;

	if (format_dtype(view->format, view->itemsize, &dl->dtype))
		return raise_errno(EOPNOTSUPP, "DLPack has no type for a buffer "
				   "of format '%s'", view->format);
	if (view->suboffsets || view->ndim > DLBUF_MAX_NDIM)
		return raise_errno(EOPNOTSUPP, "a buffer with suboffsets, or of "
				   "more than %d dimensions", DLBUF_MAX_NDIM);
	for (int i = 0; i < view->ndim; i++)
		empty |= !view->shape[i];
	for (int i = 0; i < view->ndim; i++) {
		/* The stride of a dimension of one element or none has no meaning. */
		if (!empty && view->shape[i] > 1 &&
		    view->strides[i] % view->itemsize)
			return raise_errno(EOPNOTSUPP, "a stride of %zd bytes is "
					   "not a whole number of elements of "
					   "%zd", view->strides[i],
					   view->itemsize);
		shape[i] = view->shape[i];
		strides[i] = view->strides[i] / view->itemsize;
	}
	dl->ndim = view->ndim;
	dl->shape = shape;
	dl->strides = strides;
	dl->data = view->buf;
	return 0;
}

PyObject *from_buffer(PyObject *module, PyObject *obj)
{
	int64_t shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
	DLTensor dl = { .device = { kDLCPU, 0 } };
	PyObject *memory, *ret = NULL;
	Py_buffer view;

	(void)module;
	/* It holds the buffer, fills in what obj leaves out, and is collected. */
	memory = PyMemoryView_FromObject(obj);
	if (memory && !PyObject_GetBuffer(memory, &view, PyBUF_FULL_RO)) {
		if (!parse_buffer(&view, &dl, shape, strides))
			ret = of_owner(&dl, view.readonly, memory);
		PyBuffer_Release(&view);
	}
	Py_XDECREF(memory);
	return ret;
}

/* from_memory(owner, address, shape, dtype, strides, read_only, device) */
PyObject *from_memory(PyObject *module, PyObject *args)
{
	PyObject *owner, *address, *shape, *dtype, *strides;
	int read_only, type = kDLCPU, id = 0;
	struct layout l;
	void *data;

	(void)module;
	if (!PyArg_ParseTuple(args, "OOOOOp|(ii)", &owner, &address, &shape,
			      &dtype, &strides, &read_only, &type, &id))
		return NULL;
	if (parse_address(address, &data, "address") ||
	    parse_layout(&l, shape, dtype, strides, 0))
		return NULL;
	l.dl.device = (DLDevice){ type, id };
	l.dl.data = data;
	return of_owner(&l.dl, read_only, owner);
}
