// SPDX-License-Identifier: MIT
/*
 * What C keeps of Python for tensors, shown to the collector of cycles.
 *
 * C counts its users of a lease or of memory: Tensors, but also what consumers
 * have taken and what waits for fences, which the collector cannot see. The
 * reference that C has to a hold belongs to all of these together. While each of
 * them is a Tensor it is as good as one of the hold to itself, because each
 * Tensor has a reference of its own besides: so it is visited, and a cycle of
 * Tensors and the hold's object is found. With any other user it is not, and
 * keeps all of them.
 *
 * A Tensor that the collector has found gives its tensor up in tp_finalize,
 * before anything is cleared: a lease fires with its callback as it was.
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
 * users is C's memory until hold_end(), which at exit is not called any more.
 * No user comes but from another one: where all are Tensors that nobody refers
 * to, the counts stay equal.
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
