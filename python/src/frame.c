// SPDX-License-Identifier: MIT
/* Frames: their tensors and their records in Python. */
#include "_dlbuf.h"

#include <errno.h>
#include <string.h>

#ifdef DLBUF_SYSTEM
/* The system's library does not export it: leases in cycles are not collected. */
#define tensor_lease_users(dl) NULL
#else
#include "access/lease.h"
#endif

/* ---------------------------------------------------------------- tensors */

PyObject *tensor_list(DLManagedTensorVersioned *const dl[], uint32_t n,
		      struct device *device, PyObject *obj, struct hold *hold)
{
	PyObject *list = PyList_New(0);

	for (uint32_t i = 0; i < n; i++) {
		PyObject *t = tensor_new(dl[i], device, obj, hold);

		if (list && (!t || PyList_Append(list, t)))
			Py_CLEAR(list);
		Py_XDECREF(t);
	}
	return list;
}

PyObject *tensors_of_frame(struct device *device,
			   const struct dlbuf_frame *frame,
			   const struct dlbuf_import_opts *opts, PyObject *obj,
			   struct hold *hold, bool *imported)
{
	DLManagedTensorVersioned *dl[DLBUF_MAX_PLANES];
	uint32_t n;
	int ret;

	Py_BEGIN_ALLOW_THREADS
	ret = dlbuf_import_frame(device->dev, frame, opts, dl, &n);
	Py_END_ALLOW_THREADS
	*imported = !ret;
	if (ret) {
		raise_dlbuf(ret);
		return NULL;
	}
	if (hold)
		hold->users = tensor_lease_users(dl[0]);
	return tensor_list(dl, n, device, obj, hold);
}

void delete_all(DLManagedTensorVersioned *dl[], int n)
{
	while (n-- > 0)
		delete_versioned(dl[n]);
}

static int share_one(PyObject *obj, DLManagedTensorVersioned **out)
{
	struct tensor *t = (struct tensor *)obj;
	int ret;

	if (!PyObject_TypeCheck(obj, tensor_type)) {
		PyErr_Format(PyExc_TypeError, "what is sent is a Tensor, a "
			     "TensorFrame or several Tensors, not %R; "
			     "dlbuf.from_dlpack() makes a Tensor of an array",
			     (PyObject *)Py_TYPE(obj));
		return -1;
	}
	if (tensor_begin(t))
		return -1;
	ret = t->src ? raise_errno(EOPNOTSUPP, "a tensor that is not of a "
				   "dma-buf cannot be sent or acquired") :
		       tensor_share(t, out);
	tensor_end(t);
	return ret;
}

int share_all(PyObject *tuple, DLManagedTensorVersioned *dl[])
{
	Py_ssize_t n = PyTuple_Size(tuple);

	if (n < 0)
		return -1;
	if (!n || n > DLBUF_MAX_PLANES)
		return raise_errno(EINVAL, "there are %zd tensors, 1 to %d are "
				   "possible", n, DLBUF_MAX_PLANES);
	for (int i = 0; i < n; i++) {
		if (share_one(PyTuple_GetItem(tuple, i), &dl[i])) {
			delete_all(dl, i);
			return -1;
		}
	}
	return n;
}

/*
 * acquire_all(tensors, access, deadline) -> as many new Tensors over the same memory,
 * which are acquired together
 */
PyObject *acquire_all(PyObject *module, PyObject *args)
{
	struct dlbuf_acquire_opts opts = { .size = sizeof(opts), .fence = -1 };
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	DLManagedTensorVersioned *dl[DLBUF_MAX_PLANES];
	PyObject *tensors, *access_obj, *deadline, *list;
	struct tensor *first;
	uint32_t access = 0;
	int n, ret;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!OO", &PyTuple_Type, &tensors, &access_obj,
			      &deadline) ||
	    parse_access(access_obj, &access) ||
	    parse_deadline(deadline, &opts.deadline_ns))
		return NULL;
	n = share_all(tensors, dl);
	if (n < 0)
		return NULL;
	ret = access ? 0 : dlbuf_tensor_get_info(dl[0], &info);
	Py_BEGIN_ALLOW_THREADS
	if (!ret)
		ret = dlbuf_acquire_all(dl, n, access ? access : info.access,
					NULL, &opts);
	Py_END_ALLOW_THREADS
	if (ret) {
		raise_dlbuf(ret);
		delete_all(dl, n);
		return NULL;
	}
	for (int i = 0; access == DLBUF_READ && i < n; i++)
		dl[i]->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
	first = (struct tensor *)PyTuple_GetItem(tensors, 0);
	list = tensor_list(dl, n, first->device, first->frame, first->hold);
	for (int i = 0; list && i < n; i++)
		((struct tensor *)PyList_GetItem(list, i))->was_acquired = true;
	return list;
}

static void lease_release(void *hold)
{
	PyObject *a, *b, *c, *callback, *ret;
	PyGILState_STATE state;

	if (!gil_enter(&state))
		return;
	/* A tensor may be deleted while an exception is on its way. */
	PyErr_Fetch(&a, &b, &c);
	callback = hold_end(hold);
	ret = callback ? PyObject_CallNoArgs(callback) : NULL;
	if (callback && !ret)
		PyErr_WriteUnraisable(callback);
	Py_XDECREF(ret);
	Py_XDECREF(callback);
	PyErr_Restore(a, b, c);
	gil_leave(state);
}

/* Converters of PyArg_ParseTuple(), whose own I and K cut off what does not fit. */
static int uint64_of(PyObject *obj, void *out)
{
	unsigned long long value = PyLong_AsUnsignedLongLong(obj);

	if (PyErr_Occurred())
		return !bad_argument(obj, "a number of the frame",
				     "an int of 64 bits without a sign");
	*(uint64_t *)out = value;
	return 1;
}

static int uint32_of(PyObject *obj, void *out)
{
	uint64_t value;

	if (!uint64_of(obj, &value))
		return 0;
	*(uint32_t *)out = (uint32_t)value;
	if (value <= UINT32_MAX)
		return 1;
	PyErr_SetNone(PyExc_OverflowError);
	return !bad_argument(obj, "a number of the frame", "an int of 32 bits");
}

static int parse_planes(PyObject *planes, struct dlbuf_frame *frame)
{
	Py_ssize_t n = PyTuple_Size(planes);

	if (n < 0)
		return -1;
	if (!n || n > DLBUF_MAX_PLANES)
		return raise_errno(EINVAL, "the frame has %zd planes, 1 to %d are "
				   "possible", n, DLBUF_MAX_PLANES);
	frame->nplanes = n;
	for (Py_ssize_t i = 0; i < n; i++) {
		struct dlbuf_plane *p = &frame->planes[i];
		long long pitch;

		if (!PyArg_ParseTuple(PyTuple_GetItem(planes, i), "iLO&O&", &p->fd,
				      &pitch, uint64_of, &p->offset, uint64_of,
				      &p->bytes))
			return -1;
		p->pitch = pitch;
	}
	return 0;
}

/*
 * import_frame(device, frame, (width, height, code, space, modifier), planes,
 * crop, view, access, flags, fence, release)
 */
PyObject *import_frame(PyObject *module, PyObject *args)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	struct dlbuf_frame frame = { .size = sizeof(frame), .fence = -1 };
	PyObject *device_obj, *obj, *planes, *access, *fence, *release;
	PyObject *list = NULL;
	unsigned long long modifier;
	struct hold *hold = NULL;
	bool imported = false;
	struct device *device;
	int space;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO(IIIiK)O(IIII)IOIOO", &device_obj, &obj,
			      &frame.width, &frame.height, &frame.code, &space,
			      &modifier, &planes, &frame.crop.x, &frame.crop.y,
			      &frame.crop.width, &frame.crop.height, &opts.view,
			      &access, &opts.flags, &fence, &release) ||
	    parse_planes(planes, &frame) || parse_access(access, &opts.access))
		return NULL;
	frame.code_space = space;
	frame.modifier = modifier;
	if (fence != Py_None) {
		frame.order = DLBUF_ORDER_FENCE;
		if (parse_fence(fence, &frame.fence))
			return NULL;
	}
	device = device_use(device_obj);
	if (!device)
		return NULL;
	if (release != Py_None) {
		hold = hold_new(release);
		frame.release = lease_release;
		frame.release_data = Py_XNewRef((PyObject *)hold);
	}
	if (hold || release == Py_None)
		list = tensors_of_frame(device, &frame, &opts, obj, hold,
					&imported);
	device_unuse(device);
	if (!imported)
		Py_XDECREF((PyObject *)frame.release_data);
	Py_XDECREF((PyObject *)hold);
	return list;
}

/* ---------------------------------------------------------------- records */

static PyObject *plane_records(const struct dlbuf_frame *frame)
{
	PyObject *planes = PyTuple_New(frame->nplanes);

	for (uint32_t i = 0; planes && i < frame->nplanes; i++) {
		const struct dlbuf_plane *p = &frame->planes[i];
		PyObject *plane = Py_BuildValue("(iLKK)", p->fd,
						(long long)p->pitch,
						(unsigned long long)p->offset,
						(unsigned long long)p->bytes);

		if (!plane || PyTuple_SetItem(planes, i, plane))
			Py_CLEAR(planes);
	}
	return planes;
}

PyObject *frame_record(PyObject *make, const struct dlbuf_frame *frame,
		       uint32_t view)
{
	PyObject *planes = plane_records(frame), *args, *record;

	if (!planes)
		return NULL;
	args = Py_BuildValue("((IIIiK)N(IIII)I(IKLiiii)y#)", frame->width,
			     frame->height, frame->code, frame->code_space,
			     (unsigned long long)frame->modifier, planes,
			     frame->crop.x, frame->crop.y, frame->crop.width,
			     frame->crop.height, view, frame->flags,
			     (unsigned long long)frame->sequence,
			     (long long)frame->timestamp_ns, frame->clock,
			     frame->field, frame->order, frame->orientation,
			     (const char *)&frame->colour,
			     (Py_ssize_t)sizeof(frame->colour));
	record = args ? PyObject_CallObject(make, args) : NULL;
	Py_XDECREF(args);
	return record;
}

/* Fields of dlbuf._types.Frame. */
enum { SEQUENCE = 10, TIMESTAMP_NS = 11 };

PyObject *next_record(PyObject *last, const struct dlbuf_frame *frame)
{
	newfunc tuple_new = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
	Py_ssize_t n = PyTuple_Size(last);
	PyObject *fields = PyTuple_New(n), *args, *record = NULL;

	for (Py_ssize_t i = 0; fields && i < n; i++) {
		PyObject *value = Py_NewRef(PyTuple_GetItem(last, i));

		if (value != Py_None && (i == SEQUENCE || i == TIMESTAMP_NS)) {
			Py_DECREF(value);
			value = i == SEQUENCE ?
				PyLong_FromUnsignedLongLong(frame->sequence) :
				PyLong_FromLongLong(frame->timestamp_ns);
		}
		if (!value || PyTuple_SetItem(fields, i, value))
			Py_CLEAR(fields);
	}
	args = fields ? PyTuple_Pack(1, fields) : NULL;
	if (args)
		record = tuple_new(Py_TYPE(last), args, NULL);
	Py_XDECREF(args);
	Py_XDECREF(fields);
	Py_DECREF(last);
	return record;
}

int parse_frame(PyObject *args, struct dlbuf_frame *frame)
{
	int space, clock, field, order, orientation;
	long long timestamp;
	const char *colour;
	Py_ssize_t bytes;
	PyObject *planes;
	uint32_t view;

	*frame = (struct dlbuf_frame){ .size = sizeof(*frame), .fence = -1 };
	if (!PyArg_ParseTuple(args, "(O&O&O&iO&)O(O&O&O&O&)I(IO&Liiii)y#",
			      uint32_of, &frame->width, uint32_of, &frame->height,
			      uint32_of, &frame->code, &space, uint64_of,
			      &frame->modifier, &planes, uint32_of, &frame->crop.x,
			      uint32_of, &frame->crop.y, uint32_of,
			      &frame->crop.width, uint32_of, &frame->crop.height,
			      &view, &frame->flags, uint64_of, &frame->sequence,
			      &timestamp, &clock, &field, &order, &orientation,
			      &colour, &bytes) ||
	    parse_planes(planes, frame))
		return -1;
	if (bytes != (Py_ssize_t)sizeof(frame->colour))
		return raise_errno(EINVAL, "a colour of %zd bytes", bytes);
	memcpy(&frame->colour, colour, bytes);
	frame->code_space = space;
	frame->timestamp_ns = timestamp;
	frame->clock = clock;
	frame->field = field;
	frame->order = order;
	frame->orientation = orientation;
	return 0;
}

/*
 * check_frame(frame_args()): raises what import_frame() would raise for the layout of its tensors.
 * Planes without bytes have no end here. The fds are not used.
 */
PyObject *check_frame(PyObject *module, PyObject *described)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame;
	PyObject *view;
	uint32_t n;
	int ret;

	(void)module;
	if (parse_frame(described, &frame))
		return NULL;
	view = PyTuple_GetItem(described, 3);
	opts.view = view ? PyLong_AsUnsignedLong(view) : 0;
	if (PyErr_Occurred())
		return NULL;
	ret = dlbuf_frame_layouts(&frame, &opts, layouts, &n);
	if (ret) {
		raise_dlbuf(ret);
		return NULL;
	}
	Py_RETURN_NONE;
}
