// SPDX-License-Identifier: MIT
/* Device objects, and the lists of what this build has. */
#include "_dlbuf.h"
#include "_doc.h"

#include <errno.h>

PyTypeObject *device_type;
/*
 * Devices that were opened by name, which stay open: a frame's lease fires on
 * the library's event thread, which takes the GIL and ends with the last
 * device. Closing that device with the GIL would never return.
 */
static PyObject *by_name;
static struct device *cpu;

int device_begin(struct device *d)
{
	if (use_begin(&d->users))
		return 0;
	return raise_errno(EINVAL, "the device is closed");
}

void device_end(struct device *d)
{
	use_end(&d->users);
}

struct device *device_use(PyObject *obj)
{
	struct device *d = device_of(obj);

	if (d && device_begin(d)) {
		Py_DECREF((PyObject *)d);
		return NULL;
	}
	return d;
}

void device_unuse(struct device *d)
{
	device_end(d);
	Py_DECREF((PyObject *)d);
}

/* New reference, or NULL, with an exception or without. */
static PyObject *opened(PyObject *name)
{
	PyObject *found;

#ifdef Py_GIL_DISABLED
	PyDict_GetItemRef(by_name, name, &found);
#else
	found = PyDict_GetItemWithError(by_name, name);
	Py_XINCREF(found);
#endif
	return found;
}

struct device *device_cpu(void)
{
	Py_INCREF((PyObject *)cpu);
	return cpu;
}

/* Takes the reference `new`, or NULL. If two threads get here, the first one's device stays. */
static struct device *keep_opened(PyObject *name, PyObject *new)
{
	PyObject *found = new ? PyObject_CallMethod(by_name, "setdefault", "OO", name, new) : NULL;

	Py_XDECREF(new);
	return (struct device *)found;
}

struct device *device_of(PyObject *obj)
{
	PyObject *found;

	if (PyObject_TypeCheck(obj, device_type)) {
		Py_INCREF(obj);
		return (struct device *)obj;
	}
	if (!PyUnicode_Check(obj)) {
		PyErr_Format(PyExc_TypeError,
			     "a device is a Device or a name, not %R", obj);
		return NULL;
	}
	found = opened(obj);
	if (found || PyErr_Occurred())
		return (struct device *)found;
	return keep_opened(obj, PyObject_CallFunctionObjArgs((PyObject *)device_type, obj, NULL));
}

/* Takes dev, which the library opened or wrapped with the result ret. */
static PyObject *device_make(PyObject *type, int ret, struct dlbuf_device *dev)
{
	struct dlbuf_device_info info = { .size = sizeof(info) };
	struct device *self;

	if (!ret)
		ret = dlbuf_device_get_info(dev, &info);
	if (ret) {
		raise_dlbuf(ret);
		dlbuf_device_close(dev);
		return NULL;
	}
	self = (struct device *)((allocfunc)PyType_GetSlot(
		(PyTypeObject *)type, Py_tp_alloc))((PyTypeObject *)type, 0);
	if (!self) {
		dlbuf_device_close(dev);
		return NULL;
	}
	self->dev = dev;
	self->cpu = info.device.device_type == kDLCPU;
	self->name = text_of(info.name);
	if (!self->name)
		Py_CLEAR(self);
	return (PyObject *)self;
}

struct device *device_keep(struct dlbuf_device *dev)
{
	PyObject *new = device_make((PyObject *)device_type, 0, dev);

	if (!new)
		return NULL;
	((struct device *)new)->by_name = true;
	return keep_opened(((struct device *)new)->name, new);
}

/* max_idle may be NULL. */
static int device_opts(struct dlbuf_device_opts *opts, int cache, int bridge,
		       PyObject *max_idle)
{
	*opts = (struct dlbuf_device_opts){
		.size = sizeof(*opts),
		.flags = (cache ? 0 : DLBUF_DEVICE_NO_CACHE) |
			 (bridge ? 0 : DLBUF_DEVICE_NO_BRIDGE),
	};
	return parse_count(max_idle, &opts->cache_max_idle, "max_idle");
}

static PyObject *device_new(PyTypeObject *type, PyObject *args,
			    PyObject *kwargs)
{
	static char *names[] = { "name", "cache", "max_idle", "bridge", NULL };
	PyObject *name_obj, *self, *max_idle = NULL;
	struct dlbuf_device_opts opts;
	struct dlbuf_device *dev = NULL;
	int ret, cache = 1, bridge = 1;
	const char *name;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$pOp:Device", names,
					 &name_obj, &cache, &max_idle, &bridge) ||
	    parse_text(name_obj, &name, "a device's name") ||
	    device_opts(&opts, cache, bridge, max_idle))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_device_open(name, &opts, &dev);
	Py_END_ALLOW_THREADS
	self = device_make((PyObject *)type, ret, dev);
	if (self)
		((struct device *)self)->by_name = true;
	return self;
}

/* opened_by_name(device) -> bool: another process can open it, too */
PyObject *opened_by_name(PyObject *module, PyObject *device)
{
	(void)module;
	if (!PyObject_TypeCheck(device, device_type))
		return PyErr_Format(PyExc_TypeError, "%R is not a Device", device);
	return PyBool_FromLong(((struct device *)device)->by_name);
}

static PyObject *device_wrap_cuda(PyObject *type, PyObject *args,
				  PyObject *kwargs)
{
	static char *names[] = { "context", "cache", "max_idle", "bridge",
				 NULL };
	PyObject *number, *max_idle = NULL;
	struct dlbuf_device_opts opts;
	struct dlbuf_device *dev = NULL;
	int ret, cache = 1, bridge = 1;
	void *context;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$pOp:wrap_cuda",
					 names, &number, &cache, &max_idle,
					 &bridge) ||
	    parse_address(number, &context, "context") ||
	    device_opts(&opts, cache, bridge, max_idle))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_device_wrap_cuda(context, &opts, &dev);
	Py_END_ALLOW_THREADS
	return device_make(type, ret, dev);
}

static PyObject *device_wrap_opencl(PyObject *type, PyObject *args,
				    PyObject *kwargs)
{
	static char *names[] = { "context", "device", "queue", "cache",
				 "max_idle", NULL };
	struct dlbuf_opencl_device cl = { .size = sizeof(cl) };
	PyObject *context, *device = NULL, *queue = NULL, *max_idle = NULL;
	struct dlbuf_device *dev = NULL;
	struct dlbuf_device_opts opts;
	int ret, cache = 1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO$pO:wrap_opencl",
					 names, &context, &device, &queue,
					 &cache, &max_idle) ||
	    parse_address(context, &cl.context, "context") ||
	    (device && parse_address(device, &cl.device, "device")) ||
	    (queue && parse_address(queue, &cl.queue, "queue")) ||
	    device_opts(&opts, cache, 1, max_idle))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_device_wrap_opencl(&cl, &opts, &dev);
	Py_END_ALLOW_THREADS
	return device_make(type, ret, dev);
}

static PyObject *device_wrap_levelzero(PyObject *type, PyObject *args,
				       PyObject *kwargs)
{
	static char *names[] = { "context", "device", "cache", "max_idle", NULL };
	PyObject *context, *device, *max_idle = NULL;
	struct dlbuf_device *dev = NULL;
	struct dlbuf_device_opts opts;
	void *their_context, *their_device;
	int ret, cache = 1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$pO:wrap_levelzero",
					 names, &context, &device, &cache,
					 &max_idle) ||
	    parse_address(context, &their_context, "context") ||
	    parse_address(device, &their_device, "device") ||
	    device_opts(&opts, cache, 1, max_idle))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_device_wrap_levelzero(their_context, their_device, &opts, &dev);
	Py_END_ALLOW_THREADS
	return device_make(type, ret, dev);
}

static PyObject *device_wrap_gles(PyObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "display", "cache", "max_idle", NULL };
	PyObject *display, *max_idle = NULL;
	struct dlbuf_device *dev = NULL;
	struct dlbuf_device_opts opts;
	int ret, cache = 1;
	void *theirs;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$pO:wrap_gles", names,
					 &display, &cache, &max_idle) ||
	    parse_address(display, &theirs, "display") ||
	    device_opts(&opts, cache, 1, max_idle))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_device_wrap_gles(theirs, &opts, &dev);
	Py_END_ALLOW_THREADS
	return device_make(type, ret, dev);
}

static PyObject *device_wrap_vpi(PyObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "sock", "cache", "max_idle", NULL };
	PyObject *obj, *max_idle = NULL;
	struct dlbuf_device *dev = NULL;
	struct dlbuf_device_opts opts;
	int ret, cache = 1, sock;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$pO:wrap_vpi", names,
					 &obj, &cache, &max_idle) ||
	    parse_fd(obj, &sock, "sock") ||
	    device_opts(&opts, cache, 1, max_idle))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_device_wrap_vpi(sock, &opts, &dev);
	Py_END_ALLOW_THREADS
	return device_make(type, ret, dev);
}

static PyObject *device_opencl(PyObject *self, void *closure)
{
	struct dlbuf_opencl_device cl = { .size = sizeof(cl) };
	struct device *d = (struct device *)self;
	int ret;

	(void)closure;
	if (device_begin(d))
		return NULL;
	ret = dlbuf_opencl_get_device(d->dev, &cl);
	device_end(d);
	if (ret) {
		raise_dlbuf(ret);
		return NULL;
	}
	return Py_BuildValue("(NNNN)", PyLong_FromVoidPtr(cl.platform),
			     PyLong_FromVoidPtr(cl.device),
			     PyLong_FromVoidPtr(cl.context),
			     PyLong_FromVoidPtr(cl.queue));
}

static PyObject *device_close(PyObject *obj, PyObject *none)
{
	struct device *self = (struct device *)obj;
	struct dlbuf_device *dev = NULL;

	(void)none;
	switch (use_close(&self->users)) {
	case 0:
		dev = self->dev;
		self->dev = NULL;
		break;
	case -EBUSY:
		raise_errno(EBUSY, "another thread is using the device");
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	dlbuf_device_close(dev);
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

static void device_dealloc(PyObject *obj)
{
	PyTypeObject *type = Py_TYPE(obj);
	struct dlbuf_device *dev = ((struct device *)obj)->dev;

	Py_XDECREF(((struct device *)obj)->name);
	Py_BEGIN_ALLOW_THREADS
	dlbuf_device_close(dev);
	Py_END_ALLOW_THREADS
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

static const char *sync_name(enum dlbuf_sync sync)
{
	switch (sync) {
	case DLBUF_SYNC_BLOCKS:
		return "blocks";
	case DLBUF_SYNC_EVENT:
		return "event";
	case DLBUF_SYNC_FENCE:
		return "fence";
	}
	return "";
}

static PyObject *record(PyObject *type, PyObject *args)
{
	PyObject *ret = args ? PyObject_CallObject(type, args) : NULL;

	Py_XDECREF(args);
	return ret;
}

static PyObject *info_record(const struct dlbuf_device_info *info)
{
	return record(type_device_info, Py_BuildValue(
		"(NNNN(ii)y#ssiNII)", text_of(info->name), text_of(info->backend),
		text_of(info->description), text_of(info->driver),
		info->device.device_type, info->device.device_id,
		(const char *)info->uuid, (Py_ssize_t)sizeof(info->uuid),
		sync_name(info->acquire), sync_name(info->release),
		-info->status, text_of(info->reason), info->pitch_align,
		info->offset_align));
}

static int get_info(PyObject *obj, struct dlbuf_device_info *info)
{
	struct device *self = (struct device *)obj;
	int ret;

	*info = (struct dlbuf_device_info){ .size = sizeof(*info) };
	if (device_begin(self))
		return -1;
	ret = dlbuf_device_get_info(self->dev, info);
	device_end(self);
	return ret ? raise_dlbuf(ret) : 0;
}

static PyObject *device_info(PyObject *self, void *closure)
{
	struct dlbuf_device_info info;

	(void)closure;
	return get_info(self, &info) ? NULL : info_record(&info);
}

static PyObject *device_name(PyObject *self, void *closure)
{
	(void)closure;
	return Py_NewRef(((struct device *)self)->name);
}

/* Equal to its name; two devices are equal if they are the same object. */
static PyObject *device_compare(PyObject *self, PyObject *other, int op)
{
	if ((op != Py_EQ && op != Py_NE) || !PyUnicode_Check(other))
		Py_RETURN_NOTIMPLEMENTED;
	return PyUnicode_RichCompare(((struct device *)self)->name, other, op);
}

static Py_hash_t device_hash(PyObject *self)
{
	return PyObject_Hash(((struct device *)self)->name);
}

static bool is_closed(PyObject *self)
{
	return __atomic_load_n(&((struct device *)self)->users,
			       __ATOMIC_RELAXED) < 0;
}

static PyObject *device_closed(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(is_closed(self));
}

static PyObject *device_repr(PyObject *self)
{
	if (is_closed(self))
		return PyUnicode_FromString("<dlbuf.Device, closed>");
	return PyUnicode_FromFormat("<dlbuf.Device '%U'>",
				    ((struct device *)self)->name);
}

static PyObject *device_stats(PyObject *obj, PyObject *none)
{
	struct dlbuf_device_stats s = { .size = sizeof(s) };
	struct device *self = (struct device *)obj;
	int ret;

	(void)none;
	if (device_begin(self))
		return NULL;
	ret = dlbuf_device_get_stats(self->dev, &s);
	device_end(self);
	if (ret) {
		raise_dlbuf(ret);
		return NULL;
	}
	return record(type_device_stats, Py_BuildValue(
		"(KKKKKKKKKK)", s.hits, s.misses, s.evictions, s.live, s.idle,
		s.live_bytes, s.idle_bytes, s.tensors, s.copies,
		s.copied_bytes));
}

static PyObject *device_trim(PyObject *obj, PyObject *args)
{
	struct device *self = (struct device *)obj;
	unsigned int max_idle = 0;
	PyObject *count = NULL;

	if (!PyArg_ParseTuple(args, "|O:trim", &count) ||
	    parse_count(count, &max_idle, "max_idle") || device_begin(self))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	dlbuf_device_trim(self->dev, max_idle);
	Py_END_ALLOW_THREADS
	device_end(self);
	Py_RETURN_NONE;
}

/*
 * The library's walks call back; here each callback takes the GIL for itself,
 * because a driver may take long to load.
 */
static int take(PyObject *list, PyObject *item)
{
	int ret = item ? PyList_Append(list, item) : -1;

	Py_XDECREF(item);
	return ret ? 1 : 0;
}

/* The list, or NULL with an exception: the library's, or that of a callback. */
static PyObject *walked(PyObject *list, int ret)
{
	if (ret < 0)
		raise_dlbuf(ret);
	if (ret)
		Py_CLEAR(list);
	return list;
}

static int take_path(const struct dlbuf_path_info *info, void *list)
{
	PyGILState_STATE state = PyGILState_Ensure();
	int ret = take(list, record(type_path_info, Py_BuildValue(
		"(siN)", dlbuf_path_name(info->path), -info->status,
		text_of(info->reason))));

	PyGILState_Release(state);
	return ret;
}

/* fd -1: of a new page of udmabuf. */
static PyObject *probe(struct device *self, int fd, uint32_t access)
{
	struct dlbuf_udmabuf page = { .fd = -1, .memfd = -1 };
	PyObject *list = PyList_New(0);
	int ret = 0;

	if (!list)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	if (fd == -1)
		ret = dlbuf_udmabuf_create(1, NULL, &page);
	if (!ret) {
		ret = dlbuf_probe(self->dev, fd == -1 ? page.fd : fd, access,
				  take_path, list);
		if (fd == -1)
			dlbuf_udmabuf_close(&page);
	}
	Py_END_ALLOW_THREADS
	return walked(list, ret);
}

static PyObject *device_paths(PyObject *obj, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "fd", "access", NULL };
	struct device *self = (struct device *)obj;
	PyObject *of = Py_None, *want = Py_None, *ret;
	uint32_t access = 0;
	int fd = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O:paths", names, &of,
					 &want) ||
	    parse_access(want, &access))
		return NULL;
	if (of != Py_None && parse_fd(of, &fd, "fd"))
		return NULL;
	if (of != Py_None && fd == -1) {
		raise_errno(EBADF, "-1 is no file descriptor");
		return NULL;
	}
	if (device_begin(self))
		return NULL;
	ret = probe(self, fd, access);
	device_end(self);
	return ret;
}

static PyObject *device_enter(PyObject *self, PyObject *none)
{
	(void)none;
	Py_INCREF(self);
	return self;
}

static PyObject *device_exit(PyObject *self, PyObject *args)
{
	(void)args;
	return device_close(self, NULL);
}

static PyMethodDef device_methods[] = {
	{ "close", device_close, METH_NOARGS, DOC_Device_close },
	{ "stats", device_stats, METH_NOARGS, DOC_Device_stats },
	{ "trim", device_trim, METH_VARARGS, DOC_Device_trim },
	{ "paths", METHOD(device_paths), METH_VARARGS | METH_KEYWORDS,
	  DOC_Device_paths },
	{ "wrap_cuda", METHOD(device_wrap_cuda),
	  METH_VARARGS | METH_KEYWORDS | METH_CLASS, DOC_Device_wrap_cuda },
	{ "wrap_gles", METHOD(device_wrap_gles),
	  METH_VARARGS | METH_KEYWORDS | METH_CLASS, DOC_Device_wrap_gles },
	{ "wrap_levelzero", METHOD(device_wrap_levelzero),
	  METH_VARARGS | METH_KEYWORDS | METH_CLASS, DOC_Device_wrap_levelzero },
	{ "wrap_opencl", METHOD(device_wrap_opencl),
	  METH_VARARGS | METH_KEYWORDS | METH_CLASS, DOC_Device_wrap_opencl },
	{ "wrap_vpi", METHOD(device_wrap_vpi),
	  METH_VARARGS | METH_KEYWORDS | METH_CLASS, DOC_Device_wrap_vpi },
	{ "__enter__", device_enter, METH_NOARGS, DOC_Device___enter__ },
	{ "__exit__", device_exit, METH_VARARGS, DOC_Device___exit__ },
	{ NULL, NULL, 0, NULL }
};

static PyGetSetDef device_attributes[] = {
	{ "name", device_name, NULL, DOC_Device_name, NULL },
	{ "info", device_info, NULL, DOC_Device_info, NULL },
	{ "closed", device_closed, NULL, DOC_Device_closed, NULL },
	{ "opencl", device_opencl, NULL, DOC_Device_opencl, NULL },
	{ NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot device_slots[] = {
	{ Py_tp_doc, DOC_Device },
	{ Py_tp_new, device_new },
	{ Py_tp_dealloc, device_dealloc },
	{ Py_tp_repr, device_repr },
	{ Py_tp_richcompare, device_compare },
	{ Py_tp_hash, device_hash },
	{ Py_tp_methods, device_methods },
	{ Py_tp_getset, device_attributes },
	{ 0, NULL }
};

static PyType_Spec device_spec = {
	"dlbuf.Device", sizeof(struct device), 0, Py_TPFLAGS_DEFAULT,
	device_slots
};

/* Stays open, see by_name. */
static int open_cpu(void)
{
	PyObject *name = PyUnicode_FromString("cpu");

	cpu = name ? device_of(name) : NULL;
	Py_XDECREF(name);
	return cpu ? 0 : -1;
}

int devices_forked(void)
{
	struct device *parents = cpu;

	PyDict_Clear(by_name);
	if (open_cpu()) {
		cpu = parents;
		return -1;
	}
	Py_XDECREF((PyObject *)parents);
	return 0;
}

int device_init_type(PyObject *module)
{
	by_name = PyDict_New();
	device_type = (PyTypeObject *)PyType_FromSpec(&device_spec);
	if (!by_name || !device_type ||
	    PyModule_AddObjectRef(module, "Device", (PyObject *)device_type))
		return -1;
	return open_cpu();
}

/* ---------------------------------------------------------------- lists */

static int take_device(const struct dlbuf_device_info *info, void *list)
{
	PyGILState_STATE state = PyGILState_Ensure();
	int ret = take(list, info_record(info));

	PyGILState_Release(state);
	return ret;
}

PyObject *list_devices(PyObject *module, PyObject *none)
{
	PyObject *list = PyList_New(0);
	int ret;

	(void)module, (void)none;
	if (!list)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_device_each(take_device, list);
	Py_END_ALLOW_THREADS
	return walked(list, ret);
}

static int take_exporter(const struct dlbuf_exporter_info *info, void *list)
{
	PyGILState_STATE state = PyGILState_Ensure();
	int ret = take(list, Py_BuildValue("(NNiN)", text_of(info->name),
					   text_of(info->node), -info->status,
					   text_of(info->reason)));

	PyGILState_Release(state);
	return ret;
}

PyObject *list_exporters(PyObject *module, PyObject *none)
{
	PyObject *list = PyList_New(0);
	int ret;

	(void)module, (void)none;
	if (!list)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_exporter_each(take_exporter, list);
	Py_END_ALLOW_THREADS
	return walked(list, ret);
}

static PyObject *format_planes(const struct dlbuf_format_info *info)
{
	PyObject *planes = PyTuple_New(info->nplanes);

	for (uint32_t i = 0; planes && i < info->nplanes; i++) {
		const struct dlbuf_format_plane *p = &info->planes[i];
		PyObject *item = record(type_format_plane, Py_BuildValue(
			"(iiii)", p->channels, p->bits, p->hsub, p->vsub));

		if (!item || PyTuple_SetItem(planes, i, item))
			Py_CLEAR(planes);
	}
	return planes;
}

static int take_format(const struct dlbuf_format_info *info, void *list)
{
	return take(list, record(type_format_info, Py_BuildValue(
		"(zIzIzINNiisIz)", info->drm_name, info->drm_code,
		info->v4l2_name, info->v4l2_code, info->v4l2_multi_name,
		info->v4l2_multi_code, format_planes(info),
		dtype_name(info->dtype), info->depth, info->shift,
		info->channels, info->views, info->reason)));
}

static int take_name(const char *name, enum dlbuf_code_space space,
		     const struct dlbuf_format_info *info, void *list)
{
	return take(list, Py_BuildValue("(siII)", name, (int)space, info->drm_code,
					info->v4l2_code));
}

PyObject *list_format_names(PyObject *module, PyObject *none)
{
	PyObject *list = PyList_New(0);

	(void)module, (void)none;
	if (list && dlbuf_format_names(take_name, list))
		Py_CLEAR(list);
	return list;
}

PyObject *find_code(PyObject *module, PyObject *args)
{
	struct dlbuf_format_info info = { .size = sizeof(info) };
	unsigned long long modifier;
	unsigned int code;
	int space;

	(void)module;
	if (!PyArg_ParseTuple(args, "IKi", &code, &modifier, &space))
		return NULL;
	if (dlbuf_format_find(code, modifier, (enum dlbuf_code_space)space, &info))
		Py_RETURN_NONE;
	return Py_BuildValue("(II)", info.drm_code, info.v4l2_code);
}

PyObject *list_formats(PyObject *module, PyObject *none)
{
	PyObject *list = PyList_New(0);

	(void)module, (void)none;
	if (list && dlbuf_format_each(take_format, list))
		Py_CLEAR(list);
	return list;
}
