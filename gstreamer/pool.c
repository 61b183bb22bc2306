// SPDX-License-Identifier: MIT
/* dlbufprepare's pool: dma-bufs that another device than the CPU writes and the CPU maps. */
#include "pool.h"

static GQuark shared_quark(void)
{
	return g_quark_from_static_string("dlbuf-tensor");
}

static void free_shared(gpointer data)
{
	struct shared_tensor *t = data;

	if (t->on_device)
		t->on_device->deleter(t->on_device);
	if (t->on_cpu)
		t->on_cpu->deleter(t->on_cpu);
	g_free(t);
}

struct shared_tensor *shared_tensor_of(GstBuffer *buffer)
{
	GstMemory *memory = gst_buffer_n_memory(buffer) ? gst_buffer_peek_memory(buffer, 0) : NULL;

	return memory ? gst_mini_object_get_qdata(GST_MINI_OBJECT(memory), shared_quark()) : NULL;
}

/* A dma-buf that the device and the CPU import, and the tensor of the device. */
static int alloc_shared(struct shared_kind *kind, struct shared_tensor *t)
{
	struct dlbuf_device *devs[] = { kind->dev, kind->cpu };
	DLManagedTensorVersioned *bytes[2];
	DLBUF_INFO(dlbuf_tensor_info, info);
	int64_t n = (int64_t)kind->bytes;
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &n };
	int ret = dlbuf_alloc(devs, 2, &layout, NULL, bytes);

	if (ret)
		return ret;
	t->on_cpu = bytes[1];
	layout = (DLTensor){ .ndim = 4, .dtype = kind->dtype, .shape = kind->shape,
		.strides = kind->strides };
	ret = dlbuf_tensor_get_info(bytes[0], &info);
	if (!ret)
		ret = dlbuf_import(kind->dev, info.fd, &layout, NULL, &t->on_device);
	bytes[0]->deleter(bytes[0]);
	return ret;
}

struct shared_pool {
	GstBufferPool parent;
	struct shared_kind kind;	/* its devices: only the element takes buffers */
};

typedef struct {
	GstBufferPoolClass parent;
} DlbufPreparePoolClass;
typedef struct shared_pool DlbufPreparePool;

static GType shared_pool_get_type(void);
G_DEFINE_TYPE(DlbufPreparePool, shared_pool, GST_TYPE_BUFFER_POOL)

static GstFlowReturn shared_pool_alloc(GstBufferPool *pool, GstBuffer **buffer,
				       GstBufferPoolAcquireParams *params)
{
	struct shared_kind *kind = &((DlbufPreparePool *)pool)->kind;
	struct shared_tensor *t = g_new0(struct shared_tensor, 1);
	GstMemory *memory;

	if (alloc_shared(kind, t)) {
		free_shared(t);
		return GST_FLOW_ERROR;
	}
	memory = gst_memory_new_wrapped(0, t->on_cpu->dl_tensor.data, kind->bytes, 0, kind->bytes,
					t, free_shared);
	gst_mini_object_set_qdata(GST_MINI_OBJECT(memory), shared_quark(), t, NULL);
	*buffer = gst_buffer_new();
	gst_buffer_append_memory(*buffer, memory);
	return GST_FLOW_OK;
}

static void shared_pool_init(DlbufPreparePool *pool)
{
}

static void shared_pool_class_init(DlbufPreparePoolClass *class)
{
	GST_BUFFER_POOL_CLASS(class)->alloc_buffer = shared_pool_alloc;
}

GstBufferPool *shared_pool_new(const struct shared_kind *kind)
{
	GstBufferPool *pool = g_object_new(shared_pool_get_type(), NULL);
	GstStructure *config = gst_buffer_pool_get_config(pool);

	((DlbufPreparePool *)pool)->kind = *kind;
	gst_buffer_pool_config_set_params(config, NULL, (guint)kind->bytes, 0, 0);
	if (!gst_buffer_pool_set_config(pool, config) || kind->bytes > G_MAXUINT ||
	    !gst_buffer_pool_set_active(pool, TRUE))
		gst_clear_object(&pool);
	return pool;
}

void shared_pool_drop(GstBufferPool **pool)
{
	if (!*pool)
		return;
	gst_buffer_pool_set_active(*pool, FALSE);
	gst_clear_object(pool);
}
