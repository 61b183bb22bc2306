// SPDX-License-Identifier: MIT
/*
 * The protocols by which other libraries take a tensor: DLPack's Python
 * protocol as the array API standard 2024.12 has it, its exchange API of 1.3,
 * the buffer protocol, NumPy's array interface 3 and CUDA's.
 *
 * Order. These consumers do not call acquire and release. So on the CPU, and on
 * CUDA for the stream that they name, their tensor is acquired for them, with
 * all the access that the tensor allows, and released when they delete it. A
 * tensor that the user has acquired is given to them as it is: the user keeps
 * order then.
 */
#include "_dlbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- streams */

/*
 * array-api, __dlpack__, stream: None on CUDA "producer must assume the legacy
 * default stream", 1 the legacy and 2 the per-thread default stream, "0 is
 * disallowed due to its ambiguity"; on ROCm 0 is the default stream, "1 and 2
 * are not supported"; -1 on both "producer must not perform any
 * synchronization". "On CPU and other device types without streams, only None
 * is accepted". Other devices with queues: "not yet determined"; there None
 * and nothing else, and order is for Tensor.acquire().
 *
 * *wait says whether to order at all, *stream for which.
 */
static int stream_of(DLDeviceType device, PyObject *obj, void **stream,
		     bool *wait)
{
	long long value = 0;
	bool cuda = device == kDLCUDA || device == kDLCUDAManaged;
	bool none = !obj || obj == Py_None;

	*stream = NULL;
	*wait = true;
	if (!none) {
		value = PyLong_AsLongLong(obj);
		if (value == -1 && PyErr_Occurred())
			return bad_argument(obj, "stream", "an int or None");
	}
	if (cuda || device == kDLROCM) {
		if (value == -1) {
			*wait = false;
			return 0;
		}
		if (value < -1)
			return raise_errno(EINVAL, "stream %lld is no stream",
					   value);
		if (cuda && !none && !value)
			return raise_errno(EINVAL, "stream 0 is ambiguous on CUDA:"
					   " say 1, 2 or None");
		if (!cuda && (value == 1 || value == 2))
			return raise_errno(EINVAL, "stream %lld has no meaning on "
					   "ROCm: say 0 or None", value);
		if (cuda && none)
			value = 1;
		*stream = (void *)(intptr_t)value;
		return 0;
	}
	if (!cpu_reaches(device))
		*wait = false;
	if (!none)
		return raise_errno(EINVAL, "stream %lld: only None is defined for "
				   "DLPack device type %d", value, (int)device);
	return 0;
}

/* check_stream(device type, stream) -> (handle, wait): for tests */
PyObject *check_stream(PyObject *module, PyObject *args)
{
	PyObject *obj;
	void *stream;
	int device;
	bool wait;

	(void)module;
	if (!PyArg_ParseTuple(args, "iO", &device, &obj) ||
	    stream_of(device, obj, &stream, &wait))
		return NULL;
	return Py_BuildValue("(nN)", (Py_ssize_t)(intptr_t)stream,
			     PyBool_FromLong(wait));
}

/* ---------------------------------------------------------------- the CPU */

bool cpu_reaches(DLDeviceType type)
{
	return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost ||
	       type == kDLTPUHost || type == kDLCUDAManaged;
}

/* cpu_reaches(device type) -> bool */
PyObject *reaches(PyObject *module, PyObject *type)
{
	long value = PyLong_AsLong(type);

	(void)module;
	if (value == -1 && PyErr_Occurred())
		return NULL;
	return PyBool_FromLong(cpu_reaches(value));
}

/* The producer has ordered the memory on the legacy default stream, as for stream=None. */
static int wait_for_cuda(void)
{
	PyObject *cuda = PyImport_ImportModule("dlbuf._cuda");
	PyObject *ret = cuda ? PyObject_CallMethod(cuda, "wait", "i", 1) : NULL;

	Py_XDECREF(cuda);
	Py_XDECREF(ret);
	return ret ? 0 : -1;
}

int tensor_reach(const struct tensor *t)
{
	const DLTensor *dl = &t->dl->dl_tensor;
	PyObject *where;

	if (cpu_reaches(dl->device.device_type))
		return dl->device.device_type == kDLCUDAManaged && dl->data ?
		       wait_for_cuda() : 0;
	where = device_text(dl->device);
	if (where)
		raise_errno(EOPNOTSUPP, "the memory is on %U, which the CPU cannot reach, "
			    "and not of a dma-buf: let its library copy it", where);
	Py_XDECREF(where);
	return -1;
}

/* ---------------------------------------------------------------- copies */

static void copy_dim(char *to, const char *from, const DLTensor *dl, int dim,
		     size_t item)
{
	size_t inner = item;

	if (dim == dl->ndim) {
		memcpy(to, from, item);
		return;
	}
	for (int i = dim + 1; i < dl->ndim; i++)
		inner *= dl->shape[i];
	if (dim == dl->ndim - 1 && dl->strides[dim] == 1) {
		memcpy(to, from, item * dl->shape[dim]);
		return;
	}
	for (int64_t i = 0; i < dl->shape[dim]; i++)
		copy_dim(to + i * inner, from + i * dl->strides[dim] *
			 (int64_t)item, dl, dim + 1, item);
}

/* Takes from: a tensor in the CPU's memory, in order. NULL with an exception. */
static DLManagedTensorVersioned *copy_of(DLManagedTensorVersioned *from)
{
	const DLTensor *dl = &from->dl_tensor;
	uint64_t flags = from->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
	DLManagedTensorVersioned *ret = NULL;
	struct source *src = NULL;

	if ((dl->dtype.bits * dl->dtype.lanes) % 8 && !flags) {
		delete_versioned(from);
		raise_errno(EOPNOTSUPP, "elements that are not whole bytes are "
			    "not copied");
		return NULL;
	}
	src = source_memory(dl, flags);
	Py_BEGIN_ALLOW_THREADS
	if (src && src->dl.data)
		copy_dim(src->dl.data, (char *)dl->data + dl->byte_offset, dl,
			 0, dtype_bytes(dl->dtype));
	delete_versioned(from);
	Py_END_ALLOW_THREADS
	if (src) {
		ret = source_export(src, &src->dl);
		source_unref(src);
	}
	/* There is no other user of this memory. */
	if (ret)
		ret->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
	return ret;
}

/*
 * A tensor of another device as one of the CPU's, without a copy: the dma-buf behind it
 * is imported there too, or the CPU reaches the memory.
 */
static int on_cpu(struct tensor *t, uint32_t access,
		  DLManagedTensorVersioned **out)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	DLManagedTensorVersioned *dl, *keep;
	struct device *cpu;
	struct source *src;
	int ret;

	if (t->src) {
		DLTensor here = t->dl->dl_tensor;

		here.device = (DLDevice){ kDLCPU, 0 };
		*out = tensor_reach(t) ? NULL : source_export(t->src, &here);
		return *out ? 0 : -1;
	}
	/* Holds the frame's lease. */
	if (tensor_share(t, &keep))
		return -1;
	cpu = device_cpu();
	if (device_begin(cpu)) {
		Py_DECREF((PyObject *)cpu);
		delete_versioned(keep);
		return -1;
	}
	ret = dlbuf_tensor_get_info(keep, &info);
	opts.access = tensor_allows(t, &info);
	Py_BEGIN_ALLOW_THREADS
	if (!ret)
		ret = dlbuf_tensor_import(cpu->dev, keep, &opts, &dl);
	if (!ret) {
		ret = dlbuf_acquire(dl, access ? access : opts.access, NULL,
				    NULL);
		if (ret)
			dl->deleter(dl);
	}
	Py_END_ALLOW_THREADS
	device_end(cpu);
	Py_DECREF((PyObject *)cpu);
	if (ret) {
		raise_dlbuf(ret);
		delete_versioned(keep);
		return -1;
	}
	src = source_versioned(dl, keep);
	if (!src)
		return -1;
	*out = source_export(src, &src->dl);
	source_unref(src);
	return *out ? 0 : -1;
}

/* ---------------------------------------------------------------- capsules */

/* A DLManagedTensor over a versioned one, which can be acquired. */
struct legacy {
	DLManagedTensor dl;
	DLManagedTensorVersioned *inner;
};

static void delete_legacy(DLManagedTensor *self)
{
	struct legacy *l = (struct legacy *)self;

	if (!l)
		return;
	delete_versioned(l->inner);
	free(l);
}

/* If no consumer has taken the capsule, its destructor deletes the tensor. */
static void capsule_end(PyObject *capsule)
{
	bool legacy = PyCapsule_IsValid(capsule, "dltensor");
	PyObject *a, *b, *c;
	void *dl;

	if (!legacy && !PyCapsule_IsValid(capsule, "dltensor_versioned"))
		return;
	PyErr_Fetch(&a, &b, &c);
	dl = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
	Py_BEGIN_ALLOW_THREADS
	if (legacy)
		delete_legacy(dl);
	else
		delete_versioned(dl);
	Py_END_ALLOW_THREADS
	PyErr_Restore(a, b, c);
}

/* Takes dl. */
static PyObject *capsule_of(DLManagedTensorVersioned *dl)
{
	PyObject *capsule = PyCapsule_New(dl, "dltensor_versioned", capsule_end);

	if (!capsule)
		delete_versioned(dl);
	return capsule;
}

static PyObject *legacy_capsule_of(DLManagedTensorVersioned *dl)
{
	struct legacy *l = calloc(1, sizeof(*l));
	PyObject *capsule = NULL;

	if (l) {
		l->dl.dl_tensor = dl->dl_tensor;
		l->dl.deleter = delete_legacy;
		l->inner = dl;
		capsule = PyCapsule_New(&l->dl, "dltensor", capsule_end);
	} else {
		PyErr_NoMemory();
	}
	if (!capsule) {
		delete_versioned(dl);
		free(l);
	}
	return capsule;
}

/* Leaves TypeError or OverflowError for bad_argument(). */
static int parse_int(PyObject *obj, int *n)
{
	PyObject *index = PyNumber_Index(obj);
	long value = index ? PyLong_AsLong(index) : -1;

	Py_XDECREF(index);
	if (value == -1 && PyErr_Occurred())
		return -1;
	*n = (int)value;
	if (*n == value)
		return 0;
	PyErr_SetNone(PyExc_OverflowError);
	return -1;
}

/* A number, or an enum that is no IntEnum and has its number in value. */
static int parse_enum(PyObject *obj, int *n)
{
	PyObject *value;
	int ret;

	if (PyIndex_Check(obj) || !PyObject_HasAttrString(obj, "value"))
		return parse_int(obj, n);
	value = PyObject_GetAttrString(obj, "value");
	ret = value ? parse_int(value, n) : -1;
	Py_XDECREF(value);
	return ret;
}

static int parse_pair(PyObject *obj, const char *what, int pair[2])
{
	static const char want[] = "a pair of integers of 32 bits";
	PyObject *tuple = PySequence_Tuple(obj);
	int ret = -1;

	if (tuple && PyTuple_Size(tuple) != 2)
		PyErr_SetNone(PyExc_TypeError);
	else if (tuple && !parse_enum(PyTuple_GetItem(tuple, 0), &pair[0]))
		ret = parse_int(PyTuple_GetItem(tuple, 1), &pair[1]);
	Py_XDECREF(tuple);
	return ret ? bad_argument(obj, what, want) : 0;
}

/*
 * A copy that the device works on (path bridge or copy) is made by the acquire,
 * on a stream. A consumer without a stream would get old bytes.
 */
static int check_unordered(struct tensor *t)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };

	if (t->src || !tensor_is_copy(t))
		return 0;
	if (!dlbuf_tensor_get_info(t->dl, &info) && info.acquired)
		return 0;
	return raise_errno(EINVAL, "the tensor is a copy, which is made on a "
			   "stream: -1 is none");
}

/* Refuses tensors that DLPack of that version cannot describe. */
static int check_version(const DLManagedTensorVersioned *dl, const int version[2])
{
	const int major = version[0], minor = version[1];

	if (major < 1 && dl->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
		return raise_errno(EOPNOTSUPP, "the tensor is read-only, which a "
				   "consumer of DLPack before 1.0 cannot be told");
	if ((major < 1 || (major == 1 && minor < 1)) &&
	    dl->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
		return raise_errno(EOPNOTSUPP, "each element of %d bits has a byte of its "
				   "own, which a consumer of DLPack before 1.1 cannot "
				   "be told", dl->dl_tensor.dtype.bits);
	return 0;
}

static PyObject *do_dlpack(struct tensor *t, PyObject *stream_obj, const int version[2],
			   bool to_cpu, bool copy)
{
	uint32_t access = copy ? DLBUF_READ : 0;
	DLDevice device = t->dl->dl_tensor.device;
	DLManagedTensorVersioned *dl;
	void *stream;
	bool wait;

	if (to_cpu && device.device_type != kDLCPU) {
		/* "stream must be None": the call waits itself. */
		if (stream_obj && stream_obj != Py_None) {
			raise_errno(EINVAL, "a tensor for the CPU is asked for "
				    "with stream=None");
			return NULL;
		}
		if (on_cpu(t, access, &dl))
			return NULL;
	} else {
		if (stream_of(device.device_type, stream_obj, &stream, &wait))
			return NULL;
		if (copy && device.device_type != kDLCPU) {
			raise_errno(EOPNOTSUPP, "a copy is made for the CPU only: "
				    "ask with dl_device=(1, 0)");
			return NULL;
		}
		if (!wait && check_unordered(t))
			return NULL;
		if (tensor_share_ordered(t, access, stream, wait, &dl))
			return NULL;
	}
	if (copy) {
		dl = copy_of(dl);
		if (!dl)
			return NULL;
	}
	if (check_version(dl, version)) {
		delete_after_error(dl);
		return NULL;
	}
	return version[0] < 1 ? legacy_capsule_of(dl) : capsule_of(dl);
}

static void refuse_device(DLDevice own, DLDevice wanted)
{
	PyObject *here = device_text(own), *there = device_text(wanted);

	if (here && there)
		raise_errno(EOPNOTSUPP, "the tensor is on %U and cannot be given on "
			    "%U: t.to(\"%U\") imports its dma-buf there, if it has "
			    "one", here, there, there);
	Py_XDECREF(here);
	Py_XDECREF(there);
}

enum { STREAM, MAX_VERSION, DL_DEVICE, COPY, DLPACK_ARGS };
static struct signature dlpack = {
	"__dlpack__", 0, 0, { "stream", "max_version", "dl_device", "copy" }
};

int protocol_init(void)
{
	return signature_init(&dlpack);
}

PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n,
			PyObject *kwnames)
{
	PyObject *given[DLPACK_ARGS], *version, *device, *copy;
	struct tensor *t = (struct tensor *)self;
	int max_version[2] = { 0 }, where[2] = { 0 }, want_copy = 0;
	DLDevice own;
	PyObject *ret;

	if (parse_args(&dlpack, args, n, kwnames, given))
		return NULL;
	version = given[MAX_VERSION];
	device = given[DL_DEVICE];
	copy = given[COPY];
	if (version && version != Py_None &&
	    parse_pair(version, "max_version", max_version))
		return NULL;
	if (copy && copy != Py_None) {
		want_copy = PyObject_IsTrue(copy);
		if (want_copy < 0)
			return NULL;
	}
	if (device && device != Py_None &&
	    parse_pair(device, "dl_device", where))
		return NULL;
	if (tensor_begin(t))
		return NULL;
	own = t->dl->dl_tensor.device;
	if (device && device != Py_None) {
		if ((where[0] != (int)own.device_type || where[1] != own.device_id) &&
		    (where[0] != kDLCPU || where[1])) {
			refuse_device(own, (DLDevice){ where[0], where[1] });
			tensor_end(t);
			return NULL;
		}
	}
	ret = do_dlpack(t, given[STREAM], max_version, where[0] == kDLCPU, want_copy);
	tensor_end(t);
	return ret;
}

PyObject *tensor_dlpack_device(PyObject *self, PyObject *none)
{
	struct tensor *t = (struct tensor *)self;
	DLDevice device;

	(void)none;
	if (tensor_begin(t))
		return NULL;
	device = t->dl->dl_tensor.device;
	tensor_end(t);
	return Py_BuildValue("(ii)", (int)device.device_type,
			     (int)device.device_id);
}

/*
 * Of DLPack's roadmap and a draft of its Python specification: there is no
 * other way to ask before the tensor is there.
 */
PyObject *tensor_dlpack_info(PyObject *self, PyObject *none)
{
	(void)self, (void)none;
	return Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
}

/* ---------------------------------------------------------------- buffers */

/* A code of the struct module, "" where it has none. */
static const char *format_of(DLDataType dtype)
{
	static const struct {
		DLDataType dtype;
		const char *format;
	} formats[] = {
		{ { kDLUInt, 8, 1 }, "B" },   { { kDLInt, 8, 1 }, "b" },
		{ { kDLUInt, 16, 1 }, "H" },  { { kDLInt, 16, 1 }, "h" },
		{ { kDLUInt, 32, 1 }, "I" },  { { kDLInt, 32, 1 }, "i" },
		{ { kDLUInt, 64, 1 }, sizeof(long) == 8 ? "L" : "Q" },
		{ { kDLInt, 64, 1 }, sizeof(long) == 8 ? "l" : "q" },
		{ { kDLFloat, 16, 1 }, "e" }, { { kDLFloat, 32, 1 }, "f" },
		{ { kDLFloat, 64, 1 }, "d" }, { { kDLComplex, 64, 1 }, "Zf" },
		{ { kDLComplex, 128, 1 }, "Zd" }, { { kDLBool, 8, 1 }, "?" },
	};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (!memcmp(&formats[i].dtype, &dtype, sizeof(dtype)))
			return formats[i].format;
	return "";
}

struct view {
	DLManagedTensorVersioned *dl;
	struct hold *hold;	/* of memory, not of a lease; may be NULL */
	Py_ssize_t dims[];
};

static char nothing;

static int fill(Py_buffer *view, struct view *v, int flags)
{
	const DLTensor *dl = &v->dl->dl_tensor;
	Py_ssize_t item = dtype_bytes(dl->dtype);
	const char *format = format_of(dl->dtype);

	if (!*format)
		return raise_errno(EOPNOTSUPP, "the buffer protocol has no format "
				   "for this dtype");
	if (v->dl->flags & DLPACK_FLAG_BITMASK_READ_ONLY &&
	    flags & PyBUF_WRITABLE)
		return raise_errno(EOPNOTSUPP, "the tensor is read-only");
	for (int i = 0; i < dl->ndim; i++) {
		v->dims[i] = dl->shape[i];
		v->dims[dl->ndim + i] = stride_bytes(dl, i);
	}
	view->buf = dl->data ? (char *)dl->data + dl->byte_offset : &nothing;
	view->len = count_of(dl) * item;
	view->readonly = !!(v->dl->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
	view->itemsize = item;
	view->format = (char *)format;
	view->ndim = dl->ndim;
	view->shape = v->dims;
	view->strides = v->dims + dl->ndim;
	view->suboffsets = NULL;
	view->internal = v;
	if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
	    (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
		if (!PyBuffer_IsContiguous(view, 'C'))
			return raise_errno(EOPNOTSUPP, "the tensor is not "
					   "C-contiguous");
	} else if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
		if (!PyBuffer_IsContiguous(view, 'F'))
			return raise_errno(EOPNOTSUPP, "the tensor is not "
					   "Fortran-contiguous");
	} else if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS &&
		   !PyBuffer_IsContiguous(view, 'A')) {
		return raise_errno(EOPNOTSUPP, "the tensor is not contiguous");
	}
	if (!(flags & PyBUF_FORMAT))
		view->format = NULL;
	if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES)
		view->strides = NULL;
	if (!(flags & PyBUF_ND)) {
		view->shape = NULL;
		view->ndim = 1;
	}
	return 0;
}

static int get_buffer(struct tensor *t, Py_buffer *view, int flags)
{
	struct view *v;
	int ret;

	if (!t->src && !cpu_reaches(t->dl->dl_tensor.device.device_type))
		return raise_errno(EOPNOTSUPP, "the tensor is not in the CPU's "
				   "memory: ask for one that is, with "
				   "from_dlpack(t, device=\"cpu\")");
	if (t->src && tensor_reach(t))
		return -1;
	v = calloc(1, sizeof(*v) + (2 * t->dl->dl_tensor.ndim + 1) *
		   sizeof(v->dims[0]));
	if (!v) {
		PyErr_NoMemory();
		return -1;
	}
	ret = tensor_share_ordered(t, 0, NULL, true, &v->dl);
	if (!ret) {
		ret = fill(view, v, flags);
		if (ret)
			delete_versioned(v->dl);
	}
	if (ret) {
		free(v);
		return -1;
	}
	/*
	 * Views of plain memory count as Tensors do. Views of a frame do not:
	 * the collector ends a view when it clears it, which is too late for a
	 * lease.
	 */
	v->hold = t->src ? t->hold : NULL;
	if (v->hold)
		hold_add(v->hold);
	view->obj = Py_NewRef((PyObject *)t);
	return 0;
}

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
	struct tensor *t = (struct tensor *)self;
	int ret;

	view->obj = NULL;
	if (tensor_begin(t))
		return -1;
	ret = get_buffer(t, view, flags);
	tensor_end(t);
	return ret;
}

void tensor_release_buffer(PyObject *self, Py_buffer *view)
{
	struct view *v = view->internal;

	(void)self;
	if (v->hold)
		hold_remove(v->hold);
	Py_BEGIN_ALLOW_THREADS
	delete_versioned(v->dl);
	Py_END_ALLOW_THREADS
	free(v);
}

static bool is_compact(const DLTensor *dl)
{
	int64_t n = 1;

	if (!count_of(dl))
		return true;
	for (int i = dl->ndim - 1; i >= 0; i--) {
		if (dl->shape[i] > 1 && dl->strides[i] != n)
			return false;
		n *= dl->shape[i];
	}
	return true;
}

/*
 * The entries that both array interfaces have. NULL with an exception:
 * AttributeError if the object has no such interface.
 */
static PyObject *interface_of(struct tensor *t, bool here)
{
	const DLTensor *d = &t->dl->dl_tensor;
	size_t item = dtype_bytes(d->dtype);
	int64_t bytes[DLBUF_MAX_NDIM];
	PyObject *shape, *strides, *ret = NULL;
	char type[16];

	if (!here || !*format_of(d->dtype)) {
		PyErr_SetString(PyExc_AttributeError,
				"the array interface has no words for this tensor");
		return NULL;
	}
	for (int i = 0; i < d->ndim; i++)
		bytes[i] = stride_bytes(d, i);
	PyOS_snprintf(type, sizeof(type), "%c%c%zu", item == 1 ? '|' :
		      __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>',
		      "iufVVcb"[d->dtype.code], item);
	shape = tuple_of(d->shape, d->ndim);
	/* "Typically None for C-contiguous": PIL.Image.fromarray() wants no other. */
	strides = is_compact(d) ? Py_NewRef(Py_None) : tuple_of(bytes, d->ndim);
	if (shape && strides)
		ret = Py_BuildValue("{s:i,s:O,s:s,s:O,s:(NN)}", "version", 3,
				    "shape", shape, "typestr", type, "strides",
				    strides, "data", PyLong_FromVoidPtr(
				    d->data ? (char *)d->data + d->byte_offset :
				    NULL),
				    PyBool_FromLong(!!(t->dl->flags &
					DLPACK_FLAG_BITMASK_READ_ONLY)));
	Py_XDECREF(shape);
	Py_XDECREF(strides);
	return ret;
}

/*
 * Neither interface has an end of an access. So the stream only waits for the
 * producers, and a writer has to call acquire() and release() around its work.
 * A copy is not copied back.
 */
static int order_interface(struct tensor *t, void *stream)
{
	uint32_t access = tensor_is_copy(t) ? DLBUF_READ : 0;
	DLManagedTensorVersioned *dl;

	if (tensor_share_ordered(t, access, stream, true, &dl))
		return -1;
	Py_BEGIN_ALLOW_THREADS
	delete_versioned(dl);
	Py_END_ALLOW_THREADS
	return 0;
}

PyObject *tensor_array_interface(PyObject *self, void *closure)
{
	struct tensor *t = (struct tensor *)self;
	PyObject *ret;

	(void)closure;
	if (tensor_begin(t))
		return NULL;
	ret = interface_of(t, cpu_reaches(t->dl->dl_tensor.device.device_type));
	if (ret && (order_interface(t, NULL) || tensor_reach(t)))
		Py_CLEAR(ret);
	tensor_end(t);
	return ret;
}

/*
 * numba.readthedocs.io, CUDA Array Interface (Version 3): "stream: 1: the
 * legacy default stream. None: no synchronization is required". The legacy
 * default stream is ordered here, as for __dlpack__(stream=None). data of
 * managed memory is as good a pointer as any.
 */
PyObject *tensor_cuda_array_interface(PyObject *self, void *closure)
{
	struct tensor *t = (struct tensor *)self;
	DLDeviceType type;
	PyObject *ret, *one;

	(void)closure;
	if (tensor_begin(t))
		return NULL;
	type = t->dl->dl_tensor.device.device_type;
	ret = interface_of(t, type == kDLCUDA || type == kDLCUDAManaged);
	one = ret ? PyLong_FromLong(1) : NULL;
	if (!one || PyDict_SetItemString(ret, "stream", one) ||
	    order_interface(t, (void *)1))
		Py_CLEAR(ret);
	Py_XDECREF(one);
	tensor_end(t);
	return ret;
}
