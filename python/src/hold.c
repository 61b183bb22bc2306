// SPDX-License-Identifier: MIT
/*
 * Holds: Python objects that C keeps for tensors, visible to the collector.
 *
 * C counts the users of a lease or of memory: Tensors, tensors that consumers
 * have taken, pending fences. The collector sees Tensors only. All users share
 * one reference to the hold; each Tensor has a reference of its own besides.
 * While all users are Tensors, hold_traverse() visits the hold itself once, for
 * the shared reference, so that a cycle of Tensors and the hold's object is
 * found. With any other user it does not, and the hold stays reachable.
 *
 * tp_finalize closes the Tensors of a cycle before anything is cleared: a lease
 * fires with an intact callback.
 */
#include "_dlbuf.h"

static PyTypeObject *hold_type;

struct hold *hold_new(PyObject *obj)
{
	struct hold *h = PyObject_GC_New(struct hold, hold_type);

	if (!h)
		return NULL;
	h->obj = Py_NewRef(obj);
	h->users = NULL;
	h->tensors = 0;
	PyObject_GC_Track(h);
	return h;
}

void hold_add(struct hold *h)
{
	__atomic_add_fetch(&h->tensors, 1, __ATOMIC_SEQ_CST);
}

void hold_remove(struct hold *h)
{
	__atomic_sub_fetch(&h->tensors, 1, __ATOMIC_SEQ_CST);
}

PyObject *hold_end(struct hold *h)
{
	PyObject *obj = h->obj;

	h->users = NULL;
	h->obj = NULL;
	Py_DECREF((PyObject *)h);
	return obj;
}

/*
 * h->users is valid until hold_end(), which is not called after atexit. A new
 * user is always made from an existing one, so the counts of an unreachable
 * cycle stay equal.
 */
static bool tensors_only(const struct hold *h)
{
	unsigned int n = __atomic_load_n(&h->tensors, __ATOMIC_SEQ_CST);

	return n && h->users && !gil_over() &&
	       __atomic_load_n(h->users, __ATOMIC_SEQ_CST) == n;
}

static int hold_traverse(PyObject *obj, visitproc visit, void *arg)
{
	struct hold *h = (struct hold *)obj;

	Py_VISIT(Py_TYPE(obj));
	Py_VISIT(h->obj);
	if (tensors_only(h))
		Py_VISIT(obj);
	return 0;
}

static int hold_clear(PyObject *obj)
{
	Py_CLEAR(((struct hold *)obj)->obj);
	return 0;
}

static void hold_dealloc(PyObject *obj)
{
	PyTypeObject *type = Py_TYPE(obj);

	PyObject_GC_UnTrack(obj);
	hold_clear(obj);
	PyObject_GC_Del(obj);
	Py_DECREF(type);
}

static PyType_Slot hold_slots[] = {
	{ Py_tp_dealloc, hold_dealloc },
	{ Py_tp_traverse, hold_traverse },
	{ Py_tp_clear, hold_clear },
	{ 0, NULL }
};

static PyType_Spec hold_spec = {
	"dlbuf._dlbuf.Hold", sizeof(struct hold), 0,
	Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
	Py_TPFLAGS_DISALLOW_INSTANTIATION, hold_slots
};

int hold_init_type(void)
{
	hold_type = (PyTypeObject *)PyType_FromSpec(&hold_spec);
	return hold_type ? 0 : -1;
}
