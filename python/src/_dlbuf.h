/* SPDX-License-Identifier: MIT */
/*
 * What the files of the extension share. Functions return 0, or -1 with a
 * Python exception set, unless they say otherwise; they are called with the
 * GIL unless they say otherwise.
 */
#ifndef PY_DLBUF_H
#define PY_DLBUF_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include <dlbuf/dlbuf.h>

/* ------------------------------------------------------------ module.c */

/* Sets the exception for a negative errno of dlbuf; always -1. */
int raise_dlbuf(int ret);
/* The same with a sentence of the extension's own. */
int raise_errno(int err, const char *fmt, ...);

/*
 * For threads that may not have the GIL: false when the interpreter is about
 * to go, and then Python must not be called any more.
 */
bool gil_enter(PyGILState_STATE *state);
void gil_leave(PyGILState_STATE state);

int parse_dtype(PyObject *obj, DLDataType *dtype);
PyObject *dtype_name(DLDataType dtype);
/* None, a name or a number; None leaves *access alone. */
int parse_access(PyObject *obj, uint32_t *access);

/* Classes of dlbuf._types. */
extern PyObject *type_device_info, *type_device_stats, *type_format_info,
	*type_format_plane;

/* Room for the layout of a request; dl points into it. */
struct layout {
	DLTensor dl;
	int64_t shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
};

int parse_layout(struct layout *l, PyObject *shape, PyObject *dtype,
		 PyObject *strides, unsigned long long offset);
PyObject *tuple_of(const int64_t *values, int n);
size_t dtype_bytes(DLDataType dtype);
int64_t count_of(const DLTensor *dl);

/* ------------------------------------------------------------ device.c */

struct device {
	PyObject_HEAD
	struct dlbuf_device *dev;	/* NULL: closed */
	unsigned int users;		/* calls that are inside dlbuf */
};

extern PyTypeObject *device_type;

/* A Device, or a name whose device is opened once. New reference or NULL. */
struct device *device_of(PyObject *obj);
/* Between these two a device is not closed under a call without the GIL. */
int device_begin(struct device *d);
void device_end(struct device *d);
PyObject *list_devices(PyObject *module, PyObject *none);
PyObject *list_formats(PyObject *module, PyObject *none);
PyObject *list_exporters(PyObject *module, PyObject *none);
int device_init_type(PyObject *module);

/* ------------------------------------------------------------ source.c */

/*
 * Memory that is not a dma-buf of dlbuf's: another producer's tensor, a
 * buffer, a copy. Counted by the tensors over it; the last one, on any thread,
 * gives it back.
 */
struct source {
	long refs;
	void (*release)(struct source *src);	/* may lack the GIL */
	DLTensor dl;				/* points into dims */
	uint64_t flags;
	union {
		DLManagedTensorVersioned *versioned[2];
		DLManagedTensor *legacy;
		Py_buffer buffer;
		PyObject *owner;
		void *memory;
	} u;
	int64_t dims[];				/* shape, then strides */
};

/*
 * New, with one reference; dl's shape and strides are copied, compact ones
 * written where it has none. NULL with an exception.
 */
struct source *source_create(const DLTensor *dl, uint64_t flags,
			     void (*release)(struct source *src));
void source_unref(struct source *src);
/* Of the CPU, uninitialised, compact: takes what dl says of shape and dtype. */
struct source *source_memory(const DLTensor *dl, uint64_t flags);
/*
 * Takes tensor, another producer's; or one of dlbuf and keep, another of dlbuf,
 * which is deleted after it.
 */
struct source *source_versioned(DLManagedTensorVersioned *tensor,
				DLManagedTensorVersioned *keep);
/* A tensor over it, with a reference of its own; NULL with an exception. */
DLManagedTensorVersioned *source_export(struct source *src);

PyObject *from_capsule(PyObject *module, PyObject *args);
PyObject *from_buffer(PyObject *module, PyObject *obj);
PyObject *from_memory(PyObject *module, PyObject *args);

/* ------------------------------------------------------------ tensor.c */

struct tensor {
	PyObject_HEAD
	DLManagedTensorVersioned *dl;	/* NULL: closed */
	struct source *src;		/* NULL: of dlbuf */
	struct device *device;		/* NULL: not of dlbuf */
	PyObject *frame;		/* or NULL */
	unsigned int users;		/* calls that are inside dlbuf */
	PyObject *weakrefs;
};

extern PyTypeObject *tensor_type;

/* Takes dl; device is borrowed. */
PyObject *tensor_new(DLManagedTensorVersioned *dl, struct device *device,
		     PyObject *frame);
/* Takes the reference to src. */
PyObject *tensor_of_source(struct source *src);
int tensor_check(struct tensor *t);
/* Another tensor over the same memory, new. */
int tensor_share(struct tensor *t, DLManagedTensorVersioned **out);
/*
 * The same for a consumer that will not call acquire: on the CPU it is ordered
 * after the producers, unless the user has acquired t and has done so.
 */
int tensor_share_ordered(struct tensor *t, uint32_t access, void *stream,
			 bool wait, DLManagedTensorVersioned **out);
void delete_versioned(DLManagedTensorVersioned *dl);
PyObject *from_fd(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *import_frame(PyObject *module, PyObject *args);
PyObject *alloc(PyObject *module, PyObject *args);
int tensor_init_type(PyObject *module);

/* ------------------------------------------------------------ protocol.c */

PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *tensor_dlpack_device(PyObject *self, PyObject *none);
PyObject *tensor_array_interface(PyObject *self, void *closure);
PyObject *tensor_cuda_array_interface(PyObject *self, void *closure);
int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
void tensor_release_buffer(PyObject *self, Py_buffer *view);
PyObject *check_stream(PyObject *module, PyObject *args);
PyObject *exchange_api_capsule(void);
PyObject *call_exchange_api(PyObject *module, PyObject *args);

#endif /* PY_DLBUF_H */
