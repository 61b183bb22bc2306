// SPDX-License-Identifier: MIT
/* Tensors and frames over sockets. */
#include "_dlbuf.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

/* How a call waits: the socket's fd, whether it may wait, and the deadline. */
struct wait {
	int sock;
	int may;
	uint64_t deadline_ns;
};

#define DONTWAIT(opts) \
	DLBUF_OPTS(dlbuf_socket_opts, opts, .flags = DLBUF_SOCKET_DONTWAIT)

static int parse_wait(PyObject *args, struct wait *w)
{
	PyObject *deadline;

	w->deadline_ns = 0;
	return PyArg_ParseTuple(args, "ipO", &w->sock, &w->may, &deadline) ?
	       parse_deadline(deadline, &w->deadline_ns) : -1;
}

#define SLICE_NS 20000000

/*
 * After a call: 1 when it is to be made again, 0 when it was done. The call may
 * wait not for the socket, but for work that must be complete before the other
 * process gets the tensor. Then the library waits, for a moment at a time, and
 * wait_fd() handles signals in between.
 */
static int again(const struct wait *w, struct dlbuf_socket_opts *opts, int ret,
		 short events)
{
	bool late = ret == -ETIME && opts->deadline_ns == w->deadline_ns;

	if ((ret != -EAGAIN && ret != -ETIME) || !w->may || late)
		return ret ? raise_dlbuf(ret) : 0;
	ret = wait_fd(w->sock, events, w->deadline_ns);
	if (ret) {
		opts->deadline_ns = monotonic_ns() + SLICE_NS;
		if (w->deadline_ns && w->deadline_ns < opts->deadline_ns)
			opts->deadline_ns = w->deadline_ns;
		return ret;
	}
	return raise_errno(ETIME, events == POLLIN ?
			   "no message came before the deadline" :
			   "the socket was full until the deadline");
}

/* New tensors, without another user, while they are sent. */
struct shares {
	DLManagedTensorVersioned *dl[DLBUF_MAX_PLANES];
	int n;
};

static int shares_of(PyObject *tuple, struct shares *s)
{
	s->n = share_all(tuple, s->dl);
	return s->n < 0 ? -1 : 0;
}

/* send((sock, may wait, deadline), tensors) */
PyObject *send_tensors(PyObject *module, PyObject *args)
{
	PyObject *wait, *tuple;
	DONTWAIT(opts);
	struct shares s;
	struct wait w;
	int ret;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO!", &wait, &PyTuple_Type, &tuple) ||
	    parse_wait(wait, &w) || shares_of(tuple, &s))
		return NULL;
	do {
		Py_BEGIN_ALLOW_THREADS
		ret = dlbuf_send(w.sock, s.dl, s.n, &opts);
		Py_END_ALLOW_THREADS
		ret = again(&w, &opts, ret, POLLOUT);
	} while (ret > 0);
	Py_BEGIN_ALLOW_THREADS
	delete_all(s.dl, s.n);
	Py_END_ALLOW_THREADS
	if (ret)
		return NULL;
	Py_RETURN_NONE;
}

/* The lease of a frame that was sent: this process's own tensors of it. */
static void frame_release(void *data)
{
	struct shares *s = data;

	delete_all(s->dl, s->n);
	free(s);
}

/* send_frame((sock, may wait, deadline), tensors, frame_args()) */
PyObject *send_frame(PyObject *module, PyObject *args)
{
	PyObject *wait, *tuple, *described;
	struct dlbuf_frame frame;
	struct shares *s;
	DONTWAIT(opts);
	struct wait w;
	int ret;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO!O", &wait, &PyTuple_Type, &tuple,
			      &described) ||
	    parse_wait(wait, &w) || parse_frame(described, &frame))
		return NULL;
	s = malloc(sizeof(*s));
	if (!s)
		return PyErr_NoMemory();
	if (shares_of(tuple, s)) {
		free(s);
		return NULL;
	}
	frame.release = frame_release;
	frame.release_data = s;
	do {
		Py_BEGIN_ALLOW_THREADS
		ret = dlbuf_send_frame(w.sock, &frame, &opts);
		Py_END_ALLOW_THREADS
		ret = again(&w, &opts, ret, POLLOUT);
	} while (ret > 0);
	if (ret) {
		Py_BEGIN_ALLOW_THREADS
		frame_release(s);
		Py_END_ALLOW_THREADS
		return NULL;
	}
	Py_RETURN_NONE;
}

/* (list, record of the frame or None); dl is taken. */
static PyObject *received(DLManagedTensorVersioned *dl[], uint32_t n,
			  struct device *device, PyObject *make,
			  const struct dlbuf_frame *frame, uint32_t view)
{
	PyObject *record, *list;

	record = frame->nplanes ? frame_record(make, frame, view) :
				  Py_NewRef(Py_None);
	if (!record) {
		Py_BEGIN_ALLOW_THREADS
		delete_all(dl, n);
		Py_END_ALLOW_THREADS
		return NULL;
	}
	list = tensor_list(dl, n, device, frame->nplanes ? record : NULL, NULL);
	if (!list) {
		Py_DECREF(record);
		return NULL;
	}
	return Py_BuildValue("(NN)", list, record);
}

/* recv((sock, may wait, deadline), device, view, access, flags, make_frame) */
PyObject *receive(PyObject *module, PyObject *args)
{
	PyObject *wait, *device_obj, *access, *make, *result = NULL;
	struct dlbuf_import_opts import = { .size = sizeof(import) };
	struct dlbuf_frame frame = { .size = sizeof(frame) };
	DLManagedTensorVersioned *dl[DLBUF_MAX_PLANES];
	struct device *device;
	uint32_t n = 0;
	DONTWAIT(opts);
	struct wait w;
	int ret;

	(void)module;
	opts.import = &import;
	if (!PyArg_ParseTuple(args, "OOIOIO", &wait, &device_obj, &import.view,
			      &access, &import.flags, &make) ||
	    parse_wait(wait, &w) || parse_access(access, &import.access))
		return NULL;
	device = device_use(device_obj);
	if (!device)
		return NULL;
	do {
		Py_BEGIN_ALLOW_THREADS
		ret = dlbuf_recv(device->dev, w.sock, &opts, dl, &n, &frame);
		Py_END_ALLOW_THREADS
		ret = again(&w, &opts, ret, POLLIN);
	} while (ret > 0);
	if (!ret)
		result = received(dl, n, device, make, &frame, import.view);
	device_unuse(device);
	return result;
}
