// SPDX-License-Identifier: MIT
/* Tensor objects, and the calls that make them from dma-bufs. */
#include "_dlbuf.h"
#include "_doc.h"

#include <errno.h>
#include <stddef.h>
#include <structmember.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *tensor_type;

/* ---------------------------------------------------------------- life */

PyObject *tensor_make(DLManagedTensorVersioned *dl, struct source *src,
		      struct device *device, PyObject *frame,
		      struct hold *hold)
{
	struct tensor *self = PyObject_GC_New(struct tensor, tensor_type);

	if (!self) {
		delete_versioned(dl);
		return NULL;
	}
	self->dl = dl;
	self->src = src;
	self->hold = (struct hold *)Py_XNewRef((PyObject *)hold);
	if (hold)
		hold_add(hold);
	self->device = (struct device *)Py_XNewRef((PyObject *)device);
	self->frame = Py_XNewRef(frame);
	self->users = 0;
	self->ordering = self->was_acquired = false;
	self->weakrefs = NULL;
	PyObject_GC_Track(self);
	return (PyObject *)self;
}

PyObject *tensor_new(DLManagedTensorVersioned *dl, struct device *device,
		     PyObject *frame, struct hold *hold)
{
	return tensor_make(dl, NULL, device, frame, hold);
}

PyObject *tensor_of_source(struct source *src)
{
	DLManagedTensorVersioned *dl = source_export(src, &src->dl);
	PyObject *ret = dl ? tensor_make(dl, src, NULL, NULL, src->hold) : NULL;

	source_unref(src);
	return ret;
}

int tensor_begin(struct tensor *t)
{
	if (use_begin(&t->users))
		return 0;
	return raise_errno(EINVAL, "the tensor is closed");
}

void tensor_end(struct tensor *t)
{
	use_end(&t->users);
}

/* May call back into Python: the lease of a frame. */
static void drop(struct tensor *t)
{
	DLManagedTensorVersioned *dl = t->dl;
	PyObject *a = NULL, *b = NULL, *c = NULL;
	struct source *src = t->src;
	PyThreadState *saved;

	if (!dl)
		return;
	t->dl = NULL;
	t->src = NULL;
	if (t->hold)
		hold_remove(t->hold);
	/* Another producer's deleter may be of Python, and is not our caller's. */
	if (src)
		PyErr_Fetch(&a, &b, &c);
	/*
	 * The end of an access may clean the CPU's caches, byte by byte. A frame's lease
	 * without a hold is the library's: a camera's waits while that is stopped.
	 */
	saved = gil_release_unless(t->device && t->device->cpu && !t->was_acquired &&
				   (!t->frame || t->hold));
	delete_versioned(dl);
	gil_restore(saved);
	if (src)
		PyErr_Restore(a, b, c);
}

static PyObject *tensor_close(PyObject *obj, PyObject *none)
{
	struct tensor *t = (struct tensor *)obj;

	(void)none;
	switch (use_close(&t->users)) {
	case 0:
		drop(t);
		break;
	case -EBUSY:
		raise_errno(EBUSY, "another thread is using the tensor");
		return NULL;
	}
	Py_RETURN_NONE;
}

static int tensor_traverse(PyObject *obj, visitproc visit, void *arg)
{
	struct tensor *t = (struct tensor *)obj;

	Py_VISIT(Py_TYPE(obj));
	Py_VISIT((PyObject *)t->device);
	Py_VISIT(t->frame);
	Py_VISIT((PyObject *)t->hold);
	return 0;
}

static int tensor_clear(PyObject *obj)
{
	struct tensor *t = (struct tensor *)obj;

	Py_CLEAR(t->frame);
	Py_CLEAR(t->hold);
	return 0;
}

/*
 * The collector has found a cycle: the tensor is unreachable, and all objects that it refers to
 * are intact. A tensor whose end calls nobody stays: the callback of another one's lease may put it
 * back into a pool.
 */
static void tensor_finalize(PyObject *obj)
{
	struct tensor *t = (struct tensor *)obj;

	if (t->hold && !use_close(&t->users))
		drop(t);
}

static void tensor_dealloc(PyObject *obj)
{
	struct tensor *t = (struct tensor *)obj;
	PyTypeObject *type = Py_TYPE(obj);

	PyObject_GC_UnTrack(obj);
	if (t->weakrefs)
		PyObject_ClearWeakRefs(obj);
	drop(t);
	tensor_clear(obj);
	Py_XDECREF((PyObject *)t->device);
	PyObject_GC_Del(obj);
	Py_DECREF(type);
}

void tensor_inherit(const struct tensor *t, DLManagedTensorVersioned *dl)
{
	dl->flags |= t->dl->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
}

uint32_t tensor_allows(const struct tensor *t, const struct dlbuf_tensor_info *info)
{
	return t->dl->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? DLBUF_READ :
	       info->access;
}

int tensor_share(struct tensor *t, DLManagedTensorVersioned **out)
{
	int ret;

	if (t->src) {
		*out = source_export(t->src, &t->dl->dl_tensor);
		return *out ? 0 : -1;
	}
	ret = dlbuf_tensor_share(t->dl, NULL, out);
	if (ret)
		return raise_dlbuf(ret);
	tensor_inherit(t, *out);
	return 0;
}

int tensor_share_ordered(struct tensor *t, uint32_t access, void *stream,
			 bool wait, DLManagedTensorVersioned **out)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	DLManagedTensorVersioned *dl;
	int ret;

	if (tensor_share(t, &dl))
		return -1;
	*out = dl;
	if (!wait || t->src)
		return 0;
	ret = dlbuf_tensor_get_info(t->dl, &info);
	if (!ret && info.acquired)
		return 0;
	Py_BEGIN_ALLOW_THREADS
	if (!ret)
		ret = dlbuf_acquire(dl, access ? access :
				    tensor_allows(t, &info), stream, NULL);
	/* The error text belongs to this thread and lasts until its next failure. */
	if (ret)
		dl->deleter(dl);
	Py_END_ALLOW_THREADS
	return ret ? raise_dlbuf(ret) : 0;
}

/* ---------------------------------------------------------------- order */

/* One thread at a time, which the library leaves to its callers. */
static int order_begin(struct tensor *t)
{
	if (tensor_begin(t))
		return -1;
	if (t->src)
		raise_errno(EOPNOTSUPP, "the tensor is not of a dma-buf: there is "
			    "nothing to acquire");
	else if (__atomic_exchange_n(&t->ordering, true, __ATOMIC_ACQUIRE))
		raise_errno(EBUSY, "another thread is acquiring or releasing the "
			    "tensor");
	else
		return 0;
	tensor_end(t);
	return -1;
}

static void order_end(struct tensor *t)
{
	__atomic_store_n(&t->ordering, false, __ATOMIC_RELEASE);
	tensor_end(t);
}

static int parse_stream(PyObject *obj, void **stream)
{
	*stream = NULL;
	if (!obj || obj == Py_None)
		return 0;
	return parse_address(obj, stream, "stream");
}

static int do_acquire(struct tensor *t, uint32_t access, void *stream,
		      const struct dlbuf_acquire_opts *opts)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	int ret;

	if (order_begin(t))
		return -1;
	ret = access ? 0 : dlbuf_tensor_get_info(t->dl, &info);
	if (!access)
		access = tensor_allows(t, &info);
	Py_BEGIN_ALLOW_THREADS
	if (!ret)
		ret = dlbuf_acquire(t->dl, access, stream, opts);
	Py_END_ALLOW_THREADS
	t->was_acquired |= !ret;
	order_end(t);
	return ret ? raise_dlbuf(ret) : 0;
}

enum { TO, ON, DEADLINE, AFTER, ACQUIRE_ARGS };
static struct signature acquire_args = {
	"acquire", 2, 0, { "access", "stream", "deadline", "fence" }
};

static PyObject *tensor_acquire(PyObject *self, PyObject *const *args,
				Py_ssize_t n, PyObject *kwnames)
{
	struct dlbuf_acquire_opts opts = { .size = sizeof(opts), .fence = -1 };
	PyObject *given[ACQUIRE_ARGS];
	uint32_t access = 0;
	void *stream;

	if (parse_args(&acquire_args, args, n, kwnames, given) ||
	    parse_access(given[TO], &access) ||
	    parse_stream(given[ON], &stream) ||
	    parse_deadline(given[DEADLINE], &opts.deadline_ns) ||
	    (given[AFTER] && parse_fence(given[AFTER], &opts.fence)))
		return NULL;
	if (do_acquire((struct tensor *)self, access, stream, &opts))
		return NULL;
	Py_RETURN_NONE;
}

static int do_release(struct tensor *t, void *stream, int *fence)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	bool idle;
	int ret;

	if (order_begin(t))
		return -1;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_release(t->dl, stream, fence);
	Py_END_ALLOW_THREADS
	t->was_acquired &= !!ret;
	idle = ret == -EINVAL && !dlbuf_tensor_get_info(t->dl, &info) &&
	       !info.acquired;
	order_end(t);
	if (idle)
		return raise_errno(EINVAL, "the tensor is not acquired, and "
				   "release() ends an acquire(): close() gives "
				   "up the memory%s", !t->frame ? "" :
				   ", and release() of the TensorFrame the "
				   "frame's buffer");
	return ret ? raise_dlbuf(ret) : 0;
}

enum { OF, WANT_FENCE, RELEASE_ARGS };
static struct signature release_args = {
	"release", 1, 0, { "stream", "fence" }
};

static PyObject *tensor_release(PyObject *self, PyObject *const *args,
				Py_ssize_t n, PyObject *kwnames)
{
	PyObject *given[RELEASE_ARGS];
	int fence = -1, want = 0;
	void *stream;

	if (parse_args(&release_args, args, n, kwnames, given) ||
	    parse_stream(given[OF], &stream))
		return NULL;
	if (given[WANT_FENCE])
		want = PyObject_IsTrue(given[WANT_FENCE]);
	if (want < 0 ||
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
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	struct tensor *t = (struct tensor *)self;
	bool held;

	(void)args;
	/* Closed or released inside the block: then that was the end. */
	if (!use_begin(&t->users))
		Py_RETURN_NONE;
	held = !t->src && !dlbuf_tensor_get_info(t->dl, &info) && info.acquired;
	tensor_end(t);
	if (held && do_release(t, NULL, NULL))
		return NULL;
	Py_RETURN_NONE;
}

#define SLICE_NS 20000000

/* Waits a moment at a time, so that signals are handled in between. */
static PyObject *tensor_vpi_send(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", "deadline", NULL };
	DLBUF_OPTS(dlbuf_socket_opts, opts);
	struct tensor *t = (struct tensor *)self;
	PyObject *name_obj, *deadline = NULL;
	uint64_t until = 0;
	const char *name;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O:vpi_send", names,
					 &name_obj, &deadline) ||
	    parse_text(name_obj, &name, "name") ||
	    parse_deadline(deadline, &until) || order_begin(t))
		return NULL;
	do {
		opts.deadline_ns = monotonic_ns() + SLICE_NS;
		if (until && until < opts.deadline_ns)
			opts.deadline_ns = until;
		Py_BEGIN_ALLOW_THREADS
		ret = dlbuf_vpi_send(t->dl, name, &opts);
		Py_END_ALLOW_THREADS
	} while (ret == -ETIME && opts.deadline_ns != until &&
		 !PyErr_CheckSignals());
	order_end(t);
	if (ret && !PyErr_Occurred())
		raise_dlbuf(ret);
	if (ret)
		return NULL;
	Py_RETURN_NONE;
}

/* ---------------------------------------------------------------- attributes */

/* Elements are packed that are no whole bytes and not padded. */
static int64_t bytes_of(const struct tensor *t)
{
	const DLTensor *dl = &t->dl->dl_tensor;
	unsigned int bits = dl->dtype.bits * dl->dtype.lanes;
	int64_t n = count_of(dl);

	if (tensor_is_whole(t))
		return n * (int64_t)dtype_bytes(dl->dtype);
	return n / 8 * bits + (n % 8 * bits + 7) / 8;
}

/* The value of an attribute; closure selects it. */
static PyObject *of_dl(const struct tensor *t, char what)
{
	const DLTensor *dl = &t->dl->dl_tensor;

	switch (what) {
	case 'h':
		return tuple_of(dl->shape, dl->ndim);
	case 's':
		return tuple_of(dl->strides, dl->ndim);
	case 't':
		return dtype_name(dl->dtype);
	case 'd':
		return PyLong_FromLong(dl->ndim);
	case 'n':
		return PyLong_FromLongLong(count_of(dl));
	case 'D':
		return PyLong_FromVoidPtr(dl->data);
	case 'o':
		return PyLong_FromUnsignedLongLong(dl->byte_offset);
	default:
		return PyLong_FromLongLong(bytes_of(t));
	}
}

static PyObject *get_dl(PyObject *self, void *closure)
{
	struct tensor *t = (struct tensor *)self;
	PyObject *ret;

	if (tensor_begin(t))
		return NULL;
	ret = of_dl(t, *(const char *)closure);
	tensor_end(t);
	return ret;
}

bool tensor_is_whole(const struct tensor *t)
{
	DLDataType dtype = t->dl->dl_tensor.dtype;

	return !(dtype.bits * dtype.lanes % 8) ||
	       t->dl->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
}

bool tensor_is_copy(struct tensor *t)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };

	if (t->src)
		return t->src->flags & DLPACK_FLAG_BITMASK_IS_COPIED;
	return !dlbuf_tensor_get_info(t->dl, &info) &&
	       info.path >= DLBUF_PATH_BRIDGE;
}

static PyObject *get_is_copied(PyObject *self, void *closure)
{
	struct tensor *t = (struct tensor *)self;
	bool copy;

	(void)closure;
	if (tensor_begin(t))
		return NULL;
	copy = tensor_is_copy(t);
	tensor_end(t);
	return PyBool_FromLong(copy);
}

static PyObject *get_flag(PyObject *self, void *closure)
{
	struct tensor *t = (struct tensor *)self;
	bool set;

	if (tensor_begin(t))
		return NULL;
	set = t->dl->flags & (uintptr_t)closure;
	tensor_end(t);
	return PyBool_FromLong(set);
}

static bool is_closed(PyObject *self)
{
	return __atomic_load_n(&((struct tensor *)self)->users,
			       __ATOMIC_RELAXED) < 0;
}

static PyObject *get_closed(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(is_closed(self));
}

static PyObject *get_device(PyObject *self, void *closure)
{
	struct tensor *t = (struct tensor *)self;
	PyObject *device = (PyObject *)t->device;
	DLDevice on = { 0 };

	(void)closure;
	/* Plain memory has no Device of its own. */
	if (!device && use_begin(&t->users)) {
		if (t->src)
			on = t->dl->dl_tensor.device;
		tensor_end(t);
	}
	if (on.device_type == kDLCPU && !on.device_id)
		return (PyObject *)device_cpu();
	return Py_NewRef(device ? device : Py_None);
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
	bool ours;
	int ret = 0;

	*info = (struct dlbuf_tensor_info){ .size = sizeof(*info) };
	if (tensor_begin(t))
		return -1;
	ours = !t->src;
	if (ours)
		ret = dlbuf_tensor_get_info(t->dl, info);
	tensor_end(t);
	return ret ? raise_dlbuf(ret) : ours;
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
		return PyObject_CallFunction(type_access, "I", info.access);
	case 'A':
		return PyObject_CallFunction(type_access, "I", info.acquired);
	case 'b':
		return Py_BuildValue("(KKK)", info.dev, info.ino, info.bytes);
	default:
		return Py_BuildValue("(KK)", info.first, info.end);
	}
}

/* A Device has a name, which describes a simulator better than its number. */
static PyObject *where(struct tensor *t)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	struct dlbuf_device_info device = { .size = sizeof(device) };

	if (!t->src && !dlbuf_tensor_get_info(t->dl, &info) &&
	    !dlbuf_device_get_info(info.device, &device))
		return PyUnicode_FromString(device.name);
	return device_text(t->dl->dl_tensor.device);
}

static PyObject *tensor_repr(PyObject *self)
{
	struct tensor *t = (struct tensor *)self;
	PyObject *shape, *dtype, *device, *ret = NULL;

	if (!use_begin(&t->users))
		return PyUnicode_FromString("<dlbuf.Tensor, closed>");
	shape = of_dl(t, 'h');
	dtype = of_dl(t, 't');
	device = where(t);
	if (shape && dtype && device)
		ret = PyUnicode_FromFormat(
			"<dlbuf.Tensor %R %U, %U%s>", shape, dtype, device,
			t->dl->flags & DLPACK_FLAG_BITMASK_READ_ONLY ?
			", read-only" : "");
	tensor_end(t);
	Py_XDECREF(shape);
	Py_XDECREF(dtype);
	Py_XDECREF(device);
	return ret;
}

/* ---------------------------------------------------------------- producers */

enum { FD, SHAPE, DTYPE, STRIDES, OFFSET, DEVICE, ACCESS, MAY_COPY,
       FROM_FD_ARGS };
static struct signature from_fd_args = {
	"from_fd", 3, 3,
	{ "fd", "shape", "dtype", "strides", "offset", "device", "access",
	  "may_copy" }
};

PyObject *from_fd(PyObject *module, PyObject *const *args, Py_ssize_t n,
		  PyObject *kwnames)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	PyObject *given[FROM_FD_ARGS], *ret = NULL;
	DLManagedTensorVersioned *dl;
	long long offset = 0;
	struct device *device;
	struct layout l;
	int fd, err, may_copy = 0;

	(void)module;
	if (parse_args(&from_fd_args, args, n, kwnames, given))
		return NULL;
	if (parse_fd(given[FD], &fd, "fd"))
		return NULL;
	if (given[OFFSET]) {
		offset = PyLong_AsLongLong(given[OFFSET]);
		if (offset == -1 && PyErr_Occurred()) {
			bad_argument(given[OFFSET], "offset", "an int");
			return NULL;
		}
	}
	if (given[MAY_COPY])
		may_copy = PyObject_IsTrue(given[MAY_COPY]);
	if (may_copy < 0)
		return NULL;
	opts.flags = may_copy ? DLBUF_IMPORT_MAY_COPY : 0;
	if (offset < 0) {
		raise_errno(EINVAL, "offset %lld is negative", offset);
		return NULL;
	}
	if (parse_layout(&l, given[SHAPE], given[DTYPE], given[STRIDES],
			 offset) ||
	    parse_access(given[ACCESS], &opts.access))
		return NULL;
	device = given[DEVICE] ? device_of(given[DEVICE]) : device_cpu();
	if (!device)
		return NULL;
	if (!device_begin(device)) {
		PyThreadState *saved = gil_release_unless(device->cpu);

		err = dlbuf_import(device->dev, fd, &l.dl,
				   opts.access || opts.flags ? &opts : NULL,
				   &dl);
		gil_restore(saved);
		device_end(device);
		if (err)
			raise_dlbuf(err);
		else
			ret = tensor_new(dl, device, NULL, NULL);
	}
	Py_DECREF((PyObject *)device);
	return ret;
}

static int import_to(struct tensor *t, struct device *device,
		     const struct dlbuf_import_opts *opts,
		     DLManagedTensorVersioned **dl)
{
	int ret;

	if (t->src)
		return raise_errno(EOPNOTSUPP, "the tensor is not of a dma-buf");
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_tensor_import(device->dev, t->dl, opts, dl);
	Py_END_ALLOW_THREADS
	return ret ? raise_dlbuf(ret) : 0;
}

/* to(tensor, device, may_copy) */
PyObject *to(PyObject *module, PyObject *args)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	PyObject *obj, *where, *ret = NULL;
	DLManagedTensorVersioned *dl;
	struct device *device;
	struct tensor *t;
	int may_copy;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!Op", tensor_type, &obj, &where, &may_copy))
		return NULL;
	opts.flags = may_copy ? DLBUF_IMPORT_MAY_COPY : 0;
	t = (struct tensor *)obj;
	device = device_use(where);
	if (!device)
		return NULL;
	if (!tensor_begin(t)) {
		if (t->dl->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
			opts.access = DLBUF_READ;
		if (!import_to(t, device, &opts, &dl))
			ret = tensor_make(dl, NULL, device, t->frame, t->hold);
		tensor_end(t);
	}
	device_unuse(device);
	return ret;
}

#define MAX_DEVICES 16

/* alloc(devices, shape, dtype, strides, exporter, name, v4l2) -> list */
PyObject *alloc(PyObject *module, PyObject *args)
{
	struct dlbuf_alloc_opts opts = { .size = sizeof(opts) };
	DLManagedTensorVersioned *dl[MAX_DEVICES];
	struct dlbuf_device *devs[MAX_DEVICES];
	struct device *devices[MAX_DEVICES];
	PyObject *tuple, *shape, *dtype, *strides, *v4l2, *list = NULL;
	Py_ssize_t n, nodes, ready = 0;
	int ret, fds[MAX_DEVICES];
	struct layout l;

	(void)module;
	if (!PyArg_ParseTuple(args, "OOOOzzO", &tuple, &shape, &dtype, &strides,
			      &opts.exporter, &opts.name, &v4l2) ||
	    parse_layout(&l, shape, dtype, strides, 0))
		return NULL;
	n = PyTuple_Size(tuple);
	nodes = PyTuple_Size(v4l2);
	if (n < 0 || nodes < 0)
		return NULL;
	if (n > MAX_DEVICES || nodes > MAX_DEVICES) {
		raise_errno(EINVAL, "%zd devices and %zd V4L2 nodes, %d of each "
			    "are the most", n, nodes, MAX_DEVICES);
		return NULL;
	}
	for (Py_ssize_t i = 0; i < nodes; i++)
		if (parse_fd(PyTuple_GetItem(v4l2, i), &fds[i], "v4l2"))
			return NULL;
	opts.v4l2 = fds;
	opts.nv4l2 = nodes;
	for (; ready < n; ready++) {
		struct device *d = device_use(PyTuple_GetItem(tuple, ready));

		if (!d)
			goto out;
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
		PyObject *t = tensor_new(dl[i], devices[i], NULL, NULL);

		if (list && (!t || PyList_Append(list, t)))
			Py_CLEAR(list);
		Py_XDECREF(t);
	}
out:
	while (ready--)
		device_unuse(devices[ready]);
	return list;
}

/* export(tensor, device, pcie) -> (fd, offset, bytes) */
PyObject *export(PyObject *module, PyObject *args)
{
	struct dlbuf_export_opts opts = { .size = sizeof(opts) };
	struct dlbuf_exported out = { .size = sizeof(out) };
	PyObject *obj, *where;
	struct device *device;
	struct tensor *t;
	int pcie, ret = -1;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!Op", tensor_type, &obj, &where, &pcie))
		return NULL;
	opts.flags = pcie ? DLBUF_EXPORT_PCIE : 0;
	t = (struct tensor *)obj;
	device = device_use(where);
	if (!device)
		return NULL;
	if (!tensor_begin(t)) {
		Py_BEGIN_ALLOW_THREADS
		ret = dlbuf_export(device->dev, &t->dl->dl_tensor, &opts, &out);
		Py_END_ALLOW_THREADS
		tensor_end(t);
		if (ret)
			raise_dlbuf(ret);
	}
	device_unuse(device);
	return ret ? NULL : Py_BuildValue("(iKK)", out.fd,
					  (unsigned long long)out.offset,
					  (unsigned long long)out.bytes);
}

/* ---------------------------------------------------------------- type */

static PyMethodDef tensor_methods[] = {
	{ "acquire", METHOD(tensor_acquire), METH_FASTCALL | METH_KEYWORDS,
	  DOC_Tensor_acquire },
	{ "release", METHOD(tensor_release), METH_FASTCALL | METH_KEYWORDS,
	  DOC_Tensor_release },
	{ "vpi_send", METHOD(tensor_vpi_send), METH_VARARGS | METH_KEYWORDS,
	  DOC_Tensor_vpi_send },
	{ "share", tensor_share_method, METH_NOARGS, DOC_Tensor_share },
	{ "close", tensor_close, METH_NOARGS, DOC_Tensor_close },
	{ "__enter__", tensor_enter, METH_NOARGS, DOC_Tensor___enter__ },
	{ "__exit__", tensor_exit, METH_VARARGS, DOC_Tensor___exit__ },
	{ "__dlpack__", METHOD(tensor_dlpack), METH_FASTCALL | METH_KEYWORDS,
	  DOC_Tensor___dlpack__ },
	{ "__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
	  DOC_Tensor___dlpack_device__ },
	{ "__dlpack_info__", tensor_dlpack_info, METH_NOARGS,
	  DOC_Tensor___dlpack_info__ },
	{ NULL, NULL, 0, NULL }
};

static PyGetSetDef tensor_attributes[] = {
	{ "shape", get_dl, NULL, DOC_Tensor_shape, "h" },
	{ "strides", get_dl, NULL, DOC_Tensor_strides, "s" },
	{ "T", tensor_transposed, NULL, DOC_Tensor_T, NULL },
	{ "dtype", get_dl, NULL, DOC_Tensor_dtype, "t" },
	{ "ndim", get_dl, NULL, DOC_Tensor_ndim, "d" },
	{ "size", get_dl, NULL, DOC_Tensor_size, "n" },
	{ "nbytes", get_dl, NULL, DOC_Tensor_nbytes, "b" },
	{ "data", get_dl, NULL, DOC_Tensor_data, "D" },
	{ "byte_offset", get_dl, NULL, DOC_Tensor_byte_offset, "o" },
	{ "read_only", get_flag, NULL, DOC_Tensor_read_only,
	  (void *)DLPACK_FLAG_BITMASK_READ_ONLY },
	{ "is_copied", get_is_copied, NULL, DOC_Tensor_is_copied, NULL },
	{ "closed", get_closed, NULL, DOC_Tensor_closed, NULL },
	{ "device", get_device, NULL, DOC_Tensor_device, NULL },
	{ "frame", get_frame, NULL, DOC_Tensor_frame, NULL },
	{ "fd", get_info, NULL, DOC_Tensor_fd, "f" },
	{ "path", get_info, NULL, DOC_Tensor_path, "p" },
	{ "access", get_info, NULL, DOC_Tensor_access, "a" },
	{ "acquired", get_info, NULL, DOC_Tensor_acquired, "A" },
	{ "buffer", get_info, NULL, DOC_Tensor_buffer, "b" },
	{ "extent", get_info, NULL, DOC_Tensor_extent, "e" },
	{ "__array_interface__", tensor_array_interface, NULL,
	  DOC_Tensor___array_interface__, NULL },
	{ "__cuda_array_interface__", tensor_cuda_array_interface, NULL,
	  DOC_Tensor___cuda_array_interface__, NULL },
	{ NULL, NULL, NULL, NULL, NULL }
};

static PyMemberDef tensor_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct tensor, weakrefs),
	  READONLY, NULL },
	{ NULL, 0, 0, 0, NULL }
};

static PyType_Slot tensor_slots[] = {
	{ Py_tp_doc, DOC_Tensor },
	{ Py_tp_dealloc, tensor_dealloc },
	{ Py_tp_traverse, tensor_traverse },
	{ Py_tp_clear, tensor_clear },
	{ Py_tp_finalize, tensor_finalize },
	{ Py_tp_repr, tensor_repr },
	{ Py_tp_methods, tensor_methods },
	{ Py_tp_getset, tensor_attributes },
	{ Py_tp_members, tensor_members },
	{ Py_mp_length, tensor_len },
	{ Py_mp_subscript, tensor_getitem },
	{ Py_tp_iter, tensor_iter },
	{ Py_bf_getbuffer, tensor_get_buffer },
	{ Py_bf_releasebuffer, tensor_release_buffer },
	{ 0, NULL }
};

static PyType_Spec tensor_spec = {
	"dlbuf.Tensor", sizeof(struct tensor), 0,
	Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
	Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots
};

/* The docstrings of methods that are in Python, with their signatures. */
static int add_docs(PyObject *module)
{
	PyObject *docs = Py_BuildValue(
		"(ssssssssssssss)", DOC_Tensor_numpy, DOC_Tensor_torch,
		DOC_Tensor_copy, DOC_Tensor_contiguous, DOC_Tensor_to,
		DOC_Tensor_same_layout, DOC_Tensor_item, DOC_Tensor_tobytes,
		DOC_Tensor___array__, DOC_Tensor_reshape,
		DOC_Tensor_transpose, DOC_Tensor_permute,
		DOC_Tensor_unsqueeze, DOC_Tensor_squeeze);
	int ret = docs ? PyModule_AddObjectRef(module, "docs", docs) : -1;

	Py_XDECREF(docs);
	return ret;
}

int tensor_init_type(PyObject *module)
{
	PyObject *api;
	int ret;

	if (signature_init(&from_fd_args) || signature_init(&acquire_args) ||
	    signature_init(&release_args))
		return -1;
	tensor_type = (PyTypeObject *)PyType_FromSpec(&tensor_spec);
	if (!tensor_type ||
	    PyModule_AddObjectRef(module, "Tensor", (PyObject *)tensor_type) ||
	    add_docs(module))
		return -1;
	api = exchange_api_capsule();
	ret = api ? PyObject_SetAttrString((PyObject *)tensor_type,
					   "__dlpack_c_exchange_api__", api) : -1;
	Py_XDECREF(api);
	return ret;
}
