/* SPDX-License-Identifier: MIT */
/*
 * What the files of the extension share. Functions return 0, or -1 with a
 * Python exception set, unless they say otherwise; they are called with the
 * GIL unless they say otherwise, or on an interpreter without one with a thread
 * state: then other threads are in here, too, and nothing that two can reach is
 * changed but by the functions under "use", atomics, or with the lock of a
 * Python object.
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
/* The same with an error text of the extension. */
int raise_errno(int err, const char *fmt, ...);
/* Text of drivers is not always UTF-8. */
PyObject *text_of(const char *s);

/*
 * For threads that may not have the GIL: false when the interpreter is about to
 * end, and then Python must not be called any more.
 */
bool gil_enter(PyGILState_STATE *state);
void gil_leave(PyGILState_STATE state);
/* From then on gil_enter() is false. */
bool gil_over(void);
/*
 * Releasing and taking the GIL costs as much as a call that does not wait. For
 * such calls the GIL is kept, and NULL is returned.
 */
PyThreadState *gil_release_unless(bool keep);
void gil_restore(PyThreadState *saved);

/*
 * The arguments of a function of METH_FASTCALL: names. The first `positional`
 * may be given without their names, and the first `required` must be given.
 * PyArg_ParseTupleAndKeywords() would cost more than the call itself.
 */
#define MAX_ARGS 8
struct signature {
	const char *function;
	int positional, required;
	const char *names[MAX_ARGS];
	PyObject *interned[MAX_ARGS];	/* of names, by signature_init() */
	/* A caller in C hands in the same tuple each time, not interned. */
	PyObject *kwnames;
	signed char indices[MAX_ARGS];
};

int signature_init(struct signature *s);
/*
 * Fills out, which is as long as names, with borrowed values; NULL if an argument was not given.
 */
int parse_args(struct signature *s, PyObject *const *args, Py_ssize_t n,
	       PyObject *kwnames, PyObject *out[]);

/* A function with other arguments than a PyCFunction's. */
#define METHOD(fn) ((PyCFunction)(void (*)(void))(fn))

/* The lock of a Python object, where the GIL is not held anyway. */
#ifdef Py_GIL_DISABLED
#define LOCK_OBJECT(obj) Py_BEGIN_CRITICAL_SECTION(obj)
#define UNLOCK_OBJECT() Py_END_CRITICAL_SECTION()
#else
#define LOCK_OBJECT(obj) {
#define UNLOCK_OBJECT() }
#endif

/*
 * Use: the number of calls inside an object, -1 once it is closed. Code outside
 * of a use must not read the fields that close() clears, because a call may run
 * without the GIL, or there is none.
 */
bool use_begin(int *users);		/* false: closed */
void use_end(int *users);
/* 0; 1 where it was closed before; -EBUSY where a call is inside. */
int use_close(int *users);

int parse_dtype(PyObject *obj, DLDataType *dtype);
/* A DType. */
PyObject *dtype_name(DLDataType dtype);
/* "cuda:0", for texts. */
PyObject *device_text(DLDevice device);
/* None, a name or a number; None leaves *access alone. */
int parse_access(PyObject *obj, uint32_t *access);

/*
 * Seconds of time.monotonic() as nanoseconds; None leaves *ns, 0 of the library
 * is never.
 */
int parse_deadline(PyObject *obj, uint64_t *ns);
uint64_t monotonic_ns(void);	/* CLOCK_MONOTONIC */
/*
 * Waits for poll()'s events, without the GIL and with Python's signal handlers:
 * 1 after an event, 0 at the deadline (deadline 0: none).
 */
int wait_fd(int fd, short events, uint64_t deadline_ns);

/*
 * After a conversion of the argument `what` to `want` failed: a TypeError or an
 * OverflowError gets a text that names the argument. Always -1.
 */
int bad_argument(PyObject *obj, const char *what, const char *want);
/* Converts an int (also -1, which the library refuses) or an object with fileno(). */
int parse_fd(PyObject *obj, int *fd, const char *what);
/* The same for a fence of options, where the library takes 0 for none: 0 raises. */
int parse_fence(PyObject *obj, int *fence);
/* A handle as an int. */
int parse_address(PyObject *obj, void **address, const char *what);
/* The caller need not check the type of obj. The text is borrowed from obj. */
int parse_text(PyObject *obj, const char **text, const char *what);
/* Converts a count to unsigned int; NULL leaves *n. */
int parse_count(PyObject *obj, unsigned int *n, const char *what);

/* Classes of dlbuf._types. */
extern PyObject *type_device_info, *type_device_stats, *type_path_info,
	*type_format_info, *type_format_plane, *type_access;

/* Room for the layout of a request; dl points into it. */
struct layout {
	DLTensor dl;
	int64_t shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
};

int parse_layout(struct layout *l, PyObject *shape, PyObject *dtype,
		 PyObject *strides, unsigned long long offset);
/* A sequence of integers, DLBUF_MAX_NDIM at most: how many, or -1. */
int parse_dims(PyObject *obj, int64_t *out, const char *what);
PyObject *tuple_of(const int64_t *values, int n);
size_t dtype_bytes(DLDataType dtype);
/* The tensor must have been checked, as source_create() does. */
int64_t count_of(const DLTensor *dl);
/*
 * A stride in bytes. With one element or none along it a stride may be anything,
 * and wraps.
 */
int64_t stride_bytes(const DLTensor *dl, int dim);

/* ------------------------------------------------------------ hold.c */

/*
 * A Python object that C keeps for the tensors over one memory: the callback of
 * a lease, or the owner of the memory. Each Tensor has a reference, and C has
 * one; see hold.c.
 */
struct hold {
	PyObject_HEAD
	PyObject *obj;			/* NULL: C is done with it */
	const unsigned int *users;	/* in C, Tensors included; atomic */
	unsigned int tensors;		/* of these, Tensors; atomic */
};

/* New, with the reference of C; users is to be set. NULL with an exception. */
struct hold *hold_new(PyObject *obj);
/* One Tensor more, as soon as it counts in users; one less, before it does not. */
void hold_add(struct hold *h);
void hold_remove(struct hold *h);
/* Gives up obj, new or NULL, and the reference of C. */
PyObject *hold_end(struct hold *h);
int hold_init_type(void);

/* ------------------------------------------------------------ device.c */

struct device {
	PyObject_HEAD
	struct dlbuf_device *dev;
	PyObject *name;			/* also once it is closed */
	int users;			/* see use_begin() */
	bool cpu;			/* its imports and deletes do not wait */
	bool by_name;			/* not of a handle of the program */
};

extern PyTypeObject *device_type;

PyObject *opened_by_name(PyObject *module, PyObject *device);

/* "cpu", a new reference. */
struct device *device_cpu(void);

/* A Device, or a name whose device is opened once. New reference or NULL. */
struct device *device_of(PyObject *obj);
/* Between these two a device is not closed. */
/* The Device of the name of dev, which the library has opened by name; takes dev. */
struct device *device_keep(struct dlbuf_device *dev);
int device_begin(struct device *d);
void device_end(struct device *d);
/* device_of() and device_begin(); NULL with an exception. Until device_unuse(). */
struct device *device_use(PyObject *obj);
void device_unuse(struct device *d);
/* In the child of os.fork(): opens what was opened by name anew. */
int devices_forked(void);
PyObject *list_devices(PyObject *module, PyObject *none);
PyObject *find_code(PyObject *module, PyObject *args);
PyObject *list_formats(PyObject *module, PyObject *none);
PyObject *list_format_names(PyObject *module, PyObject *none);
PyObject *list_exporters(PyObject *module, PyObject *none);
int device_init_type(PyObject *module);

/* ------------------------------------------------------------ source.c */

/*
 * Memory that is not a dma-buf of dlbuf's: another producer's tensor, a
 * buffer, a copy. Counted by the tensors over it; the last one, on any thread,
 * gives it back.
 */
struct source {
	unsigned int refs;			/* atomic */
	void (*release)(struct source *src);	/* may lack the GIL */
	DLTensor dl;				/* points into dims */
	uint64_t flags;				/* without those of a later DLPack */
	struct hold *hold;			/* of the owner, or NULL */
	union {
		DLManagedTensorVersioned *versioned[2];
		DLManagedTensor *legacy;
		void *memory;
	} u;
	int64_t dims[];				/* shape, then strides */
};

/*
 * New, with one reference; dl's shape and strides are copied, compact ones
 * written where it has none. All foreign memory is checked here. Afterwards the
 * number of elements and the number of bytes fit 63 bits (31 where addresses
 * have 32), the bytes lie in the address space, and data is NULL only without
 * elements. NULL with an exception.
 */
struct source *source_create(const DLTensor *dl, uint64_t flags,
			     void (*release)(struct source *src));
void source_unref(struct source *src);
/* New memory of the CPU, uninitialised and compact, with the shape and dtype of dl. */
struct source *source_memory(const DLTensor *dl, uint64_t flags);
/*
 * Takes tensor, another producer's; or one of dlbuf and keep, another of dlbuf,
 * which is deleted after it.
 */
struct source *source_versioned(DLManagedTensorVersioned *tensor,
				DLManagedTensorVersioned *keep);
/*
 * A tensor over it with the dimensions of dl, its own or another tensor's over
 * it, and a reference of its own; NULL with an exception. It has no IS_COPIED,
 * which promises a single owner, and src may have several.
 */
DLManagedTensorVersioned *source_export(struct source *src, const DLTensor *dl);

PyObject *from_capsule(PyObject *module, PyObject *capsule);
PyObject *from_buffer(PyObject *module, PyObject *obj);
PyObject *from_memory(PyObject *module, PyObject *args);

/* ------------------------------------------------------------ tensor.c */

struct tensor {
	PyObject_HEAD
	DLManagedTensorVersioned *dl;
	struct source *src;		/* dl's; NULL: of dlbuf */
	struct hold *hold;		/* of its lease or memory; may be NULL */
	struct device *device;		/* NULL: not of a Device */
	PyObject *frame;		/* or NULL */
	int users;			/* see use_begin() */
	bool ordering;			/* one is in acquire or release */
	bool was_acquired;		/* dl may be; for the GIL's sake */
	PyObject *weakrefs;
};

extern PyTypeObject *tensor_type;

/* Takes dl, also when it fails; the rest is borrowed, src with dl. */
PyObject *tensor_make(DLManagedTensorVersioned *dl, struct source *src,
		      struct device *device, PyObject *frame,
		      struct hold *hold);
/* Takes dl; device is borrowed, and so is hold, of dl's lease. */
PyObject *tensor_new(DLManagedTensorVersioned *dl, struct device *device,
		     PyObject *frame, struct hold *hold);
/* Takes the reference to src. */
PyObject *tensor_of_source(struct source *src);
/* Between these two a tensor is not closed; -1: it is already. */
int tensor_begin(struct tensor *t);
void tensor_end(struct tensor *t);
/*
 * The access of an acquire without an argument. A tensor of a frame that was acquired for
 * reading is read-only, although its import may be written, and so is each dl that is
 * made of it.
 */
void tensor_inherit(const struct tensor *t, DLManagedTensorVersioned *dl);
uint32_t tensor_allows(const struct tensor *t, const struct dlbuf_tensor_info *info);
/* The rest is called in between. Another tensor over the same memory, new. */
int tensor_share(struct tensor *t, DLManagedTensorVersioned **out);
/*
 * The same for a consumer that will not call acquire: on the CPU it is ordered
 * after the producers, unless the user has acquired t and has done so.
 */
int tensor_share_ordered(struct tensor *t, uint32_t access, void *stream,
			 bool wait, DLManagedTensorVersioned **out);
/* Whether the CPU reads and writes memory of this kind by its address. */
bool cpu_reaches(DLDeviceType type);
/*
 * For memory that is not of a dma-buf: -1 if the CPU does not reach it. Waits for CUDA's
 * work on managed memory, which the GPU and the CPU share.
 */
int tensor_reach(const struct tensor *t);
/* Whether the memory is a copy, made by the device or by us. */
bool tensor_is_copy(struct tensor *t);
/* Each element begins at a byte: its bits fill bytes, or are padded to some. */
bool tensor_is_whole(const struct tensor *t);
void delete_versioned(DLManagedTensorVersioned *dl);
/* The exception that is set is kept from a deleter, which may be of Python. */
void delete_after_error(DLManagedTensorVersioned *dl);
PyObject *from_fd(PyObject *module, PyObject *const *args, Py_ssize_t n,
		  PyObject *kwnames);
PyObject *alloc(PyObject *module, PyObject *args);
PyObject *to(PyObject *module, PyObject *args);
PyObject *export(PyObject *module, PyObject *args);
int tensor_init_type(PyObject *module);

/* ------------------------------------------------------------ view.c */

PyObject *tensor_getitem(PyObject *self, PyObject *key);
Py_ssize_t tensor_len(PyObject *self);
PyObject *tensor_iter(PyObject *self);
PyObject *tensor_transposed(PyObject *self, void *closure);
PyObject *tensor_share_method(PyObject *self, PyObject *none);
PyObject *view(PyObject *module, PyObject *args);

/* ------------------------------------------------------------ frame.c */

/*
 * A list of Tensors of a frame, their attribute `frame` being obj (borrowed).
 * When it fails the frame's lease is not called, unless *imported says that the
 * tensors were made and have given it back. hold is the lease's, or NULL.
 */
PyObject *tensors_of_frame(struct device *device,
			   const struct dlbuf_frame *frame,
			   const struct dlbuf_import_opts *opts, PyObject *obj,
			   struct hold *hold, bool *imported);
/* n new tensors (taken, also when it fails) as a list of Tensors. */
PyObject *tensor_list(DLManagedTensorVersioned *const dl[], uint32_t n,
		      struct device *device, PyObject *obj, struct hold *hold);
/* The record that `make`, dlbuf._frames.make_frame, makes of a frame. */
PyObject *frame_record(PyObject *make, const struct dlbuf_frame *frame,
		       uint32_t view);
/* The record of a frame that differs from that of last (taken) in sequence and time only. */
PyObject *next_record(PyObject *last, const struct dlbuf_frame *frame);
/* The rest of a record, as dlbuf._frames.frame_args() has it. */
int parse_frame(PyObject *args, struct dlbuf_frame *frame);
/*
 * Fills dl with tensors over the memory of a tuple's Tensors. Returns how many, or -1 with
 * an exception and none.
 */
int share_all(PyObject *tuple, DLManagedTensorVersioned *dl[]);
/* Deletes n tensors. */
void delete_all(DLManagedTensorVersioned *dl[], int n);
PyObject *import_frame(PyObject *module, PyObject *args);
PyObject *check_frame(PyObject *module, PyObject *described);
PyObject *acquire_all(PyObject *module, PyObject *args);

/* ------------------------------------------------------------ socket.c */

PyObject *send_tensors(PyObject *module, PyObject *args);
PyObject *send_frame(PyObject *module, PyObject *args);
PyObject *receive(PyObject *module, PyObject *args);

/* ------------------------------------------------------------ camera.c */

int camera_init_type(PyObject *module);

/* ------------------------------------------------------------ prepare.c */

int prepare_init_type(PyObject *module);
PyObject *map_boxes(PyObject *module, PyObject *args);
PyObject *prepare_fastest(PyObject *module, PyObject *args);

/* ------------------------------------------------------------ protocol.c */

PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n,
			PyObject *kwnames);
int protocol_init(void);
PyObject *tensor_dlpack_device(PyObject *self, PyObject *none);
PyObject *tensor_dlpack_info(PyObject *self, PyObject *none);
PyObject *tensor_array_interface(PyObject *self, void *closure);
PyObject *tensor_cuda_array_interface(PyObject *self, void *closure);
int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
void tensor_release_buffer(PyObject *self, Py_buffer *view);
PyObject *check_stream(PyObject *module, PyObject *args);
PyObject *reaches(PyObject *module, PyObject *type);

/* ------------------------------------------------------------ exchange.c */

PyObject *exchange_api_capsule(void);
PyObject *exchange(PyObject *module, PyObject *const *args, Py_ssize_t n);

#endif /* PY_DLBUF_H */
