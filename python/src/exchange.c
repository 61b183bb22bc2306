// SPDX-License-Identifier: MIT
/*
 * DLPack's C exchange API (1.3), by which a consumer in C takes tensors without
 * a Python call, and exchange(), which uses the API on both sides.
 */
#include "_dlbuf.h"

#include <errno.h>

static int api_allocate(DLTensor *prototype, DLManagedTensorVersioned **out,
			void *error_ctx,
			void (*set_error)(void *error_ctx, const char *kind,
					  const char *message))
{
	PyGILState_STATE state = PyGILState_Ensure();
	const char *kind = "BufferError", *message = "dlbuf allocates memory of "
						     "the CPU here";
	struct source *src = NULL;

	*out = NULL;
	if (prototype->device.device_type == kDLCPU) {
		src = source_memory(prototype, 0);
		if (src)
			*out = source_export(src, &src->dl);
		kind = PyErr_Occurred() && !PyErr_ExceptionMatches(
			PyExc_MemoryError) ? "ValueError" : "MemoryError";
		message = *kind == 'M' ? "no memory" : "no tensor has this shape "
						       "and dtype";
		PyErr_Clear();
	}
	if (src)
		source_unref(src);
	if (!*out && set_error)
		set_error(error_ctx, kind, message);
	PyGILState_Release(state);
	return *out ? 0 : -1;
}

static int is_tensor(PyObject *obj)
{
	if (PyObject_TypeCheck(obj, tensor_type))
		return 0;
	PyErr_SetString(PyExc_TypeError, "not a dlbuf.Tensor");
	return -1;
}

/* Devices that DLPack has an order for: none, or CUDA's streams. */
static bool is_ordered(DLDevice device)
{
	return device.device_type == kDLCPU || device.device_type == kDLCUDA;
}

/*
 * "No sync" is about streams, which the CPU does not have: its tensors are in
 * order, as those of __dlpack__() are. CUDA's tensors are in order on the
 * stream that api_stream() names, as if we had worked on them there.
 */
static int api_from_object(void *obj, DLManagedTensorVersioned **out)
{
	struct tensor *t = obj;
	int ret;

	if (is_tensor(obj) || tensor_begin(t))
		return -1;
	ret = tensor_share_ordered(t, 0, NULL,
				   is_ordered(t->dl->dl_tensor.device), out);
	tensor_end(t);
	return ret;
}

static int api_to_object(DLManagedTensorVersioned *dl, void **out)
{
	struct source *src = source_versioned(dl, NULL);

	*out = src ? tensor_of_source(src) : NULL;
	return *out ? 0 : -1;
}

/* We use no stream of our own: CUDA's legacy default stream. */
static int api_stream(DLDeviceType device, int32_t id, void **out)
{
	(void)device, (void)id;
	*out = NULL;
	return 0;
}

/*
 * Without dltensor_from_py_object_no_sync: a view without a deleter has no end
 * at which its access could be released.
 */
static const DLPackExchangeAPI exchange_api = {
	.header = { { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION }, NULL },
	.managed_tensor_allocator = api_allocate,
	.managed_tensor_from_py_object_no_sync = api_from_object,
	.managed_tensor_to_py_object_no_sync = api_to_object,
	.current_work_stream = api_stream,
};

PyObject *exchange_api_capsule(void)
{
	return PyCapsule_New((void *)&exchange_api, "dlpack_exchange_api", NULL);
}


/* The table of a class, of our version; NULL with an exception. */
static const DLPackExchangeAPI *api_of(PyObject *type)
{
	PyObject *capsule = PyObject_GetAttrString(type,
						   "__dlpack_c_exchange_api__");
	const DLPackExchangeAPIHeader *first, *header;

	if (!capsule) {
		if (!PyErr_ExceptionMatches(PyExc_AttributeError))
			return NULL;
		PyErr_Clear();
		raise_errno(EOPNOTSUPP, "%R has no DLPack exchange API", type);
		return NULL;
	}
	/* The tables are static, the capsule is not. */
	first = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
	Py_DECREF(capsule);
	for (header = first; header; header = header->prev_api)
		if (header->version.major == DLPACK_MAJOR_VERSION)
			return (const DLPackExchangeAPI *)header;
	if (first)
		raise_errno(EPROTO, "%R speaks DLPack %u.%u, dlbuf %d.%d", type,
			    first->version.major, first->version.minor,
			    DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
	return NULL;
}

/* A tensor of dlbuf: in order after its producers, on the consumer's stream. */
static int take_own(struct tensor *t, const DLPackExchangeAPI *to,
		    DLManagedTensorVersioned **out)
{
	DLDevice device;
	void *stream = NULL;
	int ret = 0;

	if (tensor_begin(t))
		return -1;
	device = t->dl->dl_tensor.device;
	if (device.device_type != kDLCPU && to->current_work_stream)
		ret = to->current_work_stream(device.device_type,
					      device.device_id, &stream);
	if (!ret)
		ret = tensor_share_ordered(t, 0, stream, stream ||
					   is_ordered(device), out);
	tensor_end(t);
	return ret;
}

static void *lacks(PyObject *type, const char *function)
{
	raise_errno(EOPNOTSUPP, "%R has a DLPack exchange API without %s()", type, function);
	return NULL;
}

/*
 * exchange(x, type): x as a tensor of another library's class. Both tables are
 * called with the GIL; the tensor between them is taken by the second.
 */
PyObject *exchange(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
	const DLPackExchangeAPI *from, *to;
	DLManagedTensorVersioned *dl;
	void *ret;

	(void)module;
	if (n != 2) {
		PyErr_SetString(PyExc_TypeError, "exchange() takes a tensor and "
				"a class");
		return NULL;
	}
	to = api_of(args[1]);
	if (!to)
		return NULL;
	if (!to->managed_tensor_to_py_object_no_sync)
		return lacks(args[1], "managed_tensor_to_py_object_no_sync");
	if (PyObject_TypeCheck(args[0], tensor_type)) {
		if (take_own((struct tensor *)args[0], to, &dl))
			return NULL;
	} else {
		from = api_of((PyObject *)Py_TYPE(args[0]));
		if (!from)
			return NULL;
		if (!from->managed_tensor_from_py_object_no_sync)
			return lacks((PyObject *)Py_TYPE(args[0]),
				     "managed_tensor_from_py_object_no_sync");
		if (from->managed_tensor_from_py_object_no_sync(args[0], &dl))
			return NULL;
	}
	/* Takes dl, also when it fails. */
	return to->managed_tensor_to_py_object_no_sync(dl, &ret) ? NULL : ret;
}
