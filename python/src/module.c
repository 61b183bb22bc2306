// SPDX-License-Identifier: MIT
/* The module: errors, calls into Python from any thread, arguments. */
#include "_dlbuf.h"
#include "_doc.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

PyObject *type_device_info, *type_device_stats, *type_path_info,
	*type_format_info, *type_format_plane, *type_access;
static PyObject *error_plain, *error_invalid, *error_unsupported, *error_access,
	*error_deadline, *error_again, *error_closed;
static PyObject *py_parse_dtype, *py_dtype_name, *py_device_name;

/* ---------------------------------------------------------------- errors */

static PyObject *error_of(int err)
{
	switch (err) {
	case EINVAL:
	case ERANGE:
	case EOVERFLOW:
		return error_invalid;
	case EOPNOTSUPP:
	case EPROTO:
		return error_unsupported;
	case EACCES:
	case EPERM:
		return error_access;
	case ETIME:
		return error_deadline;
	case EAGAIN:
		return error_again;
	case EPIPE:
		return error_closed;
	}
	return error_plain;
}

static int raise_text(int err, PyObject *text)
{
	PyObject *args = text ? Py_BuildValue("(iN)", err, text) : NULL;

	if (args)
		PyErr_SetObject(error_of(err), args);
	Py_XDECREF(args);
	return -1;
}

PyObject *text_of(const char *s)
{
	return PyUnicode_DecodeUTF8(s, strlen(s), "replace");
}

int raise_dlbuf(int ret)
{
	return raise_text(-ret, text_of(dlbuf_last_error()));
}

int raise_errno(int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	raise_text(err, PyUnicode_FromFormatV(fmt, args));
	va_end(args);
	return -1;
}

/* ---------------------------------------------------------------- GIL */

/*
 * A thread that asks for the GIL while the interpreter ends is ended, or hangs,
 * inside the library. So from atexit on no thread asks any more, and atexit
 * waits for the threads that have asked before. Callbacks after that are lost:
 * the process is about to end.
 */
static long inside;
static bool over;

bool gil_over(void)
{
	return __atomic_load_n(&over, __ATOMIC_SEQ_CST);
}

bool gil_enter(PyGILState_STATE *state)
{
	__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	if (gil_over()) {
		__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
		return false;
	}
	*state = PyGILState_Ensure();
	return true;
}

void gil_leave(PyGILState_STATE state)
{
	PyGILState_Release(state);
	__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
}

PyThreadState *gil_release_unless(bool keep)
{
	return keep ? NULL : PyEval_SaveThread();
}

void gil_restore(PyThreadState *saved)
{
	if (saved)
		PyEval_RestoreThread(saved);
}

static PyObject *at_exit(PyObject *module, PyObject *none)
{
	(void)module, (void)none;
	__atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
	Py_BEGIN_ALLOW_THREADS
	while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 0)
		usleep(1000);
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

/*
 * In the child of os.fork(): the threads inside are the parent's, except this
 * one, which makes the count negative when it leaves. The parent's devices are
 * refused here.
 */
static PyObject *after_fork(PyObject *module, PyObject *none)
{
	(void)module, (void)none;
	__atomic_store_n(&inside, 0, __ATOMIC_SEQ_CST);
	if (devices_forked())
		return NULL;
	Py_RETURN_NONE;
}

/* ---------------------------------------------------------------- use */

bool use_begin(int *users)
{
	int n = __atomic_load_n(users, __ATOMIC_RELAXED);

	while (n >= 0)
		if (__atomic_compare_exchange_n(users, &n, n + 1, true,
						__ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

void use_end(int *users)
{
	__atomic_sub_fetch(users, 1, __ATOMIC_RELEASE);
}

int use_close(int *users)
{
	int none = 0;

	if (__atomic_compare_exchange_n(users, &none, -1, false,
					__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return 0;
	return none < 0 ? 1 : -EBUSY;
}

/* ---------------------------------------------------------------- arguments */

int signature_init(struct signature *s)
{
	for (int i = 0; i < MAX_ARGS && s->names[i]; i++) {
		s->interned[i] = PyUnicode_InternFromString(s->names[i]);
		if (!s->interned[i])
			return -1;
	}
	return 0;
}

/* Names in a call are interned, but for those made at run time. */
static int index_of(const struct signature *s, PyObject *name)
{
	for (int i = 0; i < MAX_ARGS && s->names[i]; i++)
		if (s->interned[i] == name)
			return i;
	for (int i = 0; i < MAX_ARGS && s->names[i]; i++)
		if (!PyUnicode_CompareWithASCIIString(name, s->names[i]))
			return i;
	PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", s->function,
		     name);
	return -1;
}

/* Which arguments these names are. */
static int match(const struct signature *s, PyObject *kwnames, Py_ssize_t names,
		 signed char indices[])
{
	if (names > MAX_ARGS) {
		PyErr_Format(PyExc_TypeError, "%s() has no %zd arguments",
			     s->function, names);
		return -1;
	}
	for (Py_ssize_t k = 0; k < names; k++) {
		indices[k] = index_of(s, PyTuple_GetItem(kwnames, k));
		if (indices[k] < 0)
			return -1;
	}
	return 0;
}

/* The same, out of s where the last call had the same names. */
static const signed char *indices_of(struct signature *s, PyObject *kwnames,
				     Py_ssize_t names, signed char room[])
{
#ifdef Py_GIL_DISABLED
	/* Another thread may be replacing what s has. */
	return match(s, kwnames, names, room) ? NULL : room;
#else
	(void)room;
	if (s->kwnames != kwnames) {
		Py_CLEAR(s->kwnames);
		if (match(s, kwnames, names, s->indices))
			return NULL;
		s->kwnames = Py_NewRef(kwnames);
	}
	return s->indices;
#endif
}

int parse_args(struct signature *s, PyObject *const *args, Py_ssize_t n,
	       PyObject *kwnames, PyObject *out[])
{
	Py_ssize_t names = kwnames ? PyTuple_Size(kwnames) : 0;
	signed char room[MAX_ARGS];
	const signed char *indices = room;

	if (n > s->positional) {
		PyErr_Format(PyExc_TypeError, "%s() takes %d positional "
			     "arguments, %zd were given", s->function,
			     s->positional, n);
		return -1;
	}
	for (int i = 0; i < MAX_ARGS && s->names[i]; i++)
		out[i] = i < n ? args[i] : NULL;
	if (names)
		indices = indices_of(s, kwnames, names, room);
	if (!indices)
		return -1;
	for (Py_ssize_t k = 0; k < names; k++) {
		int i = indices[k];

		if (out[i]) {
			PyErr_Format(PyExc_TypeError, "%s() got '%s' twice",
				     s->function, s->names[i]);
			return -1;
		}
		out[i] = args[n + k];
	}
	for (int i = 0; i < s->required; i++) {
		if (!out[i]) {
			PyErr_Format(PyExc_TypeError, "%s() lacks '%s'",
				     s->function, s->names[i]);
			return -1;
		}
	}
	return 0;
}

/* Names seen before -> DLDataType as a number: a frame has few, and again. */
static PyObject *dtypes;

#define MAX_DTYPES 64

static int look_up_dtype(PyObject *obj, DLDataType *dtype)
{
	PyObject *numbers = PyObject_CallFunctionObjArgs(py_parse_dtype, obj,
							 NULL);
	unsigned char code, bits;
	unsigned short lanes;
	PyObject *packed;
	int ok;

	if (!numbers)
		return -1;
	ok = PyArg_ParseTuple(numbers, "bbH", &code, &bits, &lanes);
	Py_DECREF(numbers);
	if (!ok)
		return -1;
	*dtype = (DLDataType){ code, bits, lanes };
	if (!PyUnicode_CheckExact(obj) || PyDict_Size(dtypes) >= MAX_DTYPES)
		return 0;
	packed = PyLong_FromLong((long)lanes << 16 | bits << 8 | code);
	ok = packed && !PyDict_SetItem(dtypes, obj, packed);
	Py_XDECREF(packed);
	return ok ? 0 : -1;
}

int parse_dtype(PyObject *obj, DLDataType *dtype)
{
	/* Borrowed, and nothing is ever taken out of it. */
	PyObject *packed = PyUnicode_CheckExact(obj) ?
		PyDict_GetItemWithError(dtypes, obj) : NULL;
	unsigned long value;

	if (!packed)
		return PyErr_Occurred() ? -1 : look_up_dtype(obj, dtype);
	value = PyLong_AsUnsignedLong(packed);
	*dtype = (DLDataType){ value & 255, value >> 8 & 255, value >> 16 };
	return 0;
}

PyObject *dtype_name(DLDataType dtype)
{
	return PyObject_CallFunction(py_dtype_name, "iii", dtype.code,
				     dtype.bits, dtype.lanes);
}

PyObject *device_text(DLDevice device)
{
	return PyObject_CallFunction(py_device_name, "ii",
				     (int)device.device_type,
				     (int)device.device_id);
}

int parse_access(PyObject *obj, uint32_t *access)
{
	static const struct {
		const char *name;
		uint32_t access;
	} names[] = {
		{ "read", DLBUF_READ }, { "r", DLBUF_READ },
		{ "write", DLBUF_WRITE }, { "w", DLBUF_WRITE },
		{ "rw", DLBUF_RW },
	};
	long value;

	if (!obj || obj == Py_None)
		return 0;
	if (PyUnicode_Check(obj)) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (!PyUnicode_CompareWithASCIIString(obj,
							      names[i].name)) {
				*access = names[i].access;
				return 0;
			}
		}
		return raise_errno(EINVAL, "access is \"read\", \"write\" or "
				   "\"rw\", not \"%U\"", obj);
	}
	value = PyLong_AsLong(obj);
	if (value == -1 && PyErr_Occurred()) {
		if (PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError, "access is \"read\", "
				     "\"write\" or \"rw\", not %R", obj);
		if (!PyErr_ExceptionMatches(PyExc_OverflowError))
			return -1;
		PyErr_Clear();
	}
	if (value < DLBUF_READ || value > DLBUF_RW)
		return raise_errno(EINVAL, "access %R is not READ, WRITE or "
				   "RW", obj);
	*access = value;
	return 0;
}

int bad_argument(PyObject *obj, const char *what, const char *want)
{
	if (PyErr_ExceptionMatches(PyExc_TypeError))
		PyErr_Format(PyExc_TypeError, "%s is %s, not %R", what, want,
			     obj);
	else if (PyErr_ExceptionMatches(PyExc_OverflowError))
		PyErr_Format(PyExc_OverflowError, "%s is %s, and %R is too "
			     "large", what, want, obj);
	return -1;
}

int parse_fd(PyObject *obj, int *fd, const char *what)
{
	static const char want[] = "an int or an object with fileno()";
	long value;

	if (!PyLong_Check(obj)) {
		*fd = PyObject_AsFileDescriptor(obj);
		return *fd < 0 ? bad_argument(obj, what, want) : 0;
	}
	value = PyLong_AsLong(obj);
	if (value == -1 && PyErr_Occurred())
		return bad_argument(obj, what, want);
	if (value != (int)value)
		return raise_errno(EBADF, "%ld is no file descriptor", value);
	*fd = (int)value;
	return 0;
}

int parse_fence(PyObject *obj, int *fence)
{
	int ret = parse_fd(obj, fence, "fence");

	return !ret && !*fence ? raise_errno(EINVAL, "a fence whose fd is 0 has to be duplicated") : ret;
}

int parse_address(PyObject *obj, void **address, const char *what)
{
	*address = PyLong_AsVoidPtr(obj);
	return !*address && PyErr_Occurred() ?
	       bad_argument(obj, what, "an address as an int") : 0;
}

int parse_text(PyObject *obj, const char **text, const char *what)
{
	Py_ssize_t bytes;

	*text = PyUnicode_AsUTF8AndSize(obj, &bytes);
	if (!*text)
		return bad_argument(obj, what, "text");
	if (strlen(*text) != (size_t)bytes)
		return raise_errno(EINVAL, "%s %R has a NUL", what, obj);
	return 0;
}

int parse_count(PyObject *obj, unsigned int *n, const char *what)
{
	long long value;

	if (!obj)
		return 0;
	value = PyLong_AsLongLong(obj);
	if (value == -1 && PyErr_Occurred())
		return bad_argument(obj, what, "an int from 0 on");
	if (value < 0 || value > UINT_MAX)
		return raise_errno(EINVAL, "%s is from 0 to %u, not %lld", what,
				   UINT_MAX, value);
	*n = value;
	return 0;
}

int parse_dims(PyObject *obj, int64_t *out, const char *what)
{
	PyObject *items = PySequence_Tuple(obj);
	Py_ssize_t n;

	if (!items)
		return bad_argument(obj, what, "integers");
	n = PyTuple_Size(items);
	if (n > DLBUF_MAX_NDIM) {
		raise_errno(EINVAL, "%s has %zd dimensions, %d are the most",
			    what, n, DLBUF_MAX_NDIM);
		n = -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PyTuple_GetItem(items, i), *index;

		if (PyLong_CheckExact(item)) {
			out[i] = PyLong_AsLongLong(item);
		} else {
			index = PyNumber_Index(item);
			out[i] = index ? PyLong_AsLongLong(index) : -1;
			Py_XDECREF(index);
		}
		if (out[i] == -1 && PyErr_Occurred())
			n = bad_argument(obj, what, "integers");
	}
	Py_DECREF(items);
	return n;
}

int parse_layout(struct layout *l, PyObject *shape, PyObject *dtype,
		 PyObject *strides, unsigned long long offset)
{
	int n;

	l->dl = (DLTensor){ .shape = l->shape, .byte_offset = offset };
	if (parse_dtype(dtype, &l->dl.dtype))
		return -1;
	if (PyLong_Check(shape)) {
		l->shape[0] = PyLong_AsLongLong(shape);
		l->dl.ndim = 1;
		if (l->shape[0] == -1 && PyErr_Occurred())
			return bad_argument(shape, "the shape", "integers");
	} else {
		n = parse_dims(shape, l->shape, "the shape");
		if (n < 0)
			return -1;
		l->dl.ndim = n;
	}
	if (!strides || strides == Py_None)
		return 0;
	n = parse_dims(strides, l->strides, "strides");
	if (n < 0)
		return -1;
	if (n != l->dl.ndim)
		return raise_errno(EINVAL, "there are %d strides for %d "
				   "dimensions", n, (int)l->dl.ndim);
	l->dl.strides = l->strides;
	return 0;
}

PyObject *tuple_of(const int64_t *values, int n)
{
	PyObject *tuple = PyTuple_New(n);

	for (int i = 0; tuple && i < n; i++) {
		PyObject *value = PyLong_FromLongLong(values[i]);

		if (!value || PyTuple_SetItem(tuple, i, value))
			Py_CLEAR(tuple);
	}
	return tuple;
}

size_t dtype_bytes(DLDataType dtype)
{
	return ((size_t)dtype.bits * dtype.lanes + 7) / 8;
}

int64_t count_of(const DLTensor *dl)
{
	uint64_t n = 1;		/* before a 0 it may wrap */

	for (int i = 0; i < dl->ndim; i++)
		n *= dl->shape[i];
	return n;
}

int64_t stride_bytes(const DLTensor *dl, int dim)
{
	return (uint64_t)dl->strides[dim] * dtype_bytes(dl->dtype);
}

/* ---------------------------------------------------------------- waiting */

/* Seconds of time.monotonic() as nanoseconds; for the library 0 means no deadline. */
int parse_deadline(PyObject *obj, uint64_t *ns)
{
	double s;

	if (!obj || obj == Py_None)
		return 0;
	s = PyFloat_AsDouble(obj);
	if (s == -1.0 && PyErr_Occurred())
		return bad_argument(obj, "deadline",
				    "seconds of time.monotonic()");
	if (!(s < 1e10 && s > -1e10))
		return raise_errno(EINVAL, "the deadline is not in seconds of "
				   "time.monotonic()");
	*ns = s * 1e9 >= 1 ? (uint64_t)(s * 1e9) : 1;
	return 0;
}

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int wait_fd(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n, err;

	do {
		struct timespec left = { 0 };

		if (deadline_ns) {
			uint64_t now = monotonic_ns();

			now = now < deadline_ns ? deadline_ns - now : 0;
			left.tv_sec = now / 1000000000;
			left.tv_nsec = now % 1000000000;
		}
		Py_BEGIN_ALLOW_THREADS
		n = ppoll(&p, 1, deadline_ns ? &left : NULL, NULL);
		err = errno;
		Py_END_ALLOW_THREADS
		if (n < 0 && err != EINTR)
			return raise_errno(err, "fd %d: ppoll(): %s", fd,
					   strerror(err));
		/* Ctrl-C is an exception. */
		if (PyErr_CheckSignals())
			return -1;
	} while (n < 0);
	return n;
}

/* ---------------------------------------------------------------- module */

static PyObject *version(PyObject *module, PyObject *none)
{
	(void)module, (void)none;
	return PyUnicode_FromString(dlbuf_version());
}

static PyMethodDef methods[] = {
	{ "version", version, METH_NOARGS, DOC_version },
	{ "devices", list_devices, METH_NOARGS, NULL },
	{ "opened_by_name", opened_by_name, METH_O, NULL },
	{ "find_code", find_code, METH_VARARGS, NULL },
	{ "formats", list_formats, METH_NOARGS, NULL },
	{ "format_names", list_format_names, METH_NOARGS, NULL },
	{ "exporters", list_exporters, METH_NOARGS, NULL },
	{ "from_fd", METHOD(from_fd), METH_FASTCALL | METH_KEYWORDS, DOC_from_fd },
	{ "import_frame", import_frame, METH_VARARGS, NULL },
	{ "check_frame", check_frame, METH_O, NULL },
	{ "acquire_all", acquire_all, METH_VARARGS, NULL },
	{ "alloc", alloc, METH_VARARGS, NULL },
	{ "send", send_tensors, METH_VARARGS, NULL },
	{ "send_frame", send_frame, METH_VARARGS, NULL },
	{ "recv", receive, METH_VARARGS, NULL },
	{ "from_capsule", from_capsule, METH_O, NULL },
	{ "from_buffer", from_buffer, METH_O, NULL },
	{ "from_memory", from_memory, METH_VARARGS, NULL },
	{ "view", view, METH_VARARGS, NULL },
	{ "to", to, METH_VARARGS, NULL },
	{ "export", export, METH_VARARGS, NULL },
	{ "check_stream", check_stream, METH_VARARGS, NULL },
	{ "cpu_reaches", reaches, METH_O, NULL },
	{ "map_boxes", map_boxes, METH_VARARGS, NULL },
	{ "fastest", prepare_fastest, METH_VARARGS, NULL },
	{ "exchange", METHOD(exchange), METH_FASTCALL, DOC_exchange },
	{ "at_exit", at_exit, METH_NOARGS, NULL },
	{ "after_fork", after_fork, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL }
};

static int get_names(const char *name, const char *const names[],
		     PyObject **const out[], size_t n)
{
	PyObject *module = PyImport_ImportModule(name);

	for (size_t i = 0; module && i < n; i++) {
		*out[i] = PyObject_GetAttrString(module, names[i]);
		if (!*out[i])
			Py_CLEAR(module);
	}
	Py_XDECREF(module);
	return module ? 0 : -1;
}

#define GET_NAMES(module, names, out) \
	get_names(module, names, out, sizeof(out) / sizeof((out)[0]))

/* Calls where.how(name=fn) or where.how(fn). */
static int register_call(PyObject *module, const char *function,
			 const char *where, const char *how, const char *name)
{
	PyObject *fn = PyObject_GetAttrString(module, function), *ret = NULL;
	PyObject *from = fn ? PyImport_ImportModule(where) : NULL;
	PyObject *call = from ? PyObject_GetAttrString(from, how) : NULL;
	PyObject *args = Py_BuildValue(name ? "()" : "(O)", fn);
	PyObject *kwargs = name ? Py_BuildValue("{sO}", name, fn) : NULL;

	if (call && args && (kwargs || !name))
		ret = PyObject_Call(call, args, kwargs);
	Py_XDECREF(ret);
	Py_XDECREF(kwargs);
	Py_XDECREF(args);
	Py_XDECREF(call);
	Py_XDECREF(from);
	Py_XDECREF(fn);
	return ret ? 0 : -1;
}

/*
 * Once for the process: leases and deleters on other threads return to this
 * interpreter.
 */
static bool loaded;

static int only_once(void)
{
	if (PyInterpreterState_GetID(PyInterpreterState_Get())) {
		PyErr_SetString(PyExc_ImportError, "dlbuf works in the main "
				"interpreter only, this is a subinterpreter");
		return -1;
	}
	if (__atomic_exchange_n(&loaded, true, __ATOMIC_RELAXED)) {
		PyErr_SetString(PyExc_ImportError, "dlbuf cannot be loaded twice "
				"by one process");
		return -1;
	}
	return 0;
}

static int execute(PyObject *module)
{
	static const char *const type_names[] = {
		"make_device_info", "DeviceStats", "PathInfo", "FormatInfo",
		"FormatPlane", "Access", "parse_dtype", "dtype_name",
		"device_name",
	};
	static PyObject **const types[] = {
		&type_device_info, &type_device_stats, &type_path_info,
		&type_format_info, &type_format_plane, &type_access,
		&py_parse_dtype, &py_dtype_name, &py_device_name,
	};
	static const char *const error_names[] = {
		"Error", "InvalidError", "UnsupportedError", "AccessError",
		"DeadlineError", "WouldBlockError", "ClosedError",
	};
	static PyObject **const errors[] = {
		&error_plain, &error_invalid, &error_unsupported, &error_access,
		&error_deadline, &error_again, &error_closed,
	};

	if (only_once())
		return -1;
	dtypes = PyDict_New();
	if (!dtypes || protocol_init() ||
	    GET_NAMES("dlbuf._types", type_names, types) ||
	    GET_NAMES("dlbuf._errors", error_names, errors) ||
	    device_init_type(module) || hold_init_type() ||
	    tensor_init_type(module) || camera_init_type(module) ||
	    prepare_init_type(module) ||
	    register_call(module, "at_exit", "atexit", "register", NULL) ||
	    register_call(module, "after_fork", "os", "register_at_fork",
			  "after_in_child")) {
		__atomic_store_n(&loaded, false, __ATOMIC_RELAXED);
		return -1;
	}
	return 0;
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, execute },
#ifdef Py_mod_multiple_interpreters
	{ Py_mod_multiple_interpreters,
	  Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED },
#endif
#ifdef Py_GIL_DISABLED
	{ Py_mod_gil, Py_MOD_GIL_NOT_USED },
#endif
	{ 0, NULL }
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT, "dlbuf._dlbuf", NULL, 0, methods, slots, NULL,
	NULL, NULL
};

PyMODINIT_FUNC PyInit__dlbuf(void);
PyMODINIT_FUNC PyInit__dlbuf(void)
{
	return PyModuleDef_Init(&definition);
}
