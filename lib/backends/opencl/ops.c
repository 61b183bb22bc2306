// SPDX-License-Identifier: MIT
/* The operations of struct queue_ops for OpenCL: queues, events, fences. */
#include <errno.h>

#include "opencl.h"

/* ---------------------------------------------------------------- queues */

/*
 * Commands of a queue that is out of order need a barrier before and after those of the
 * library, which take no events.
 */
int opencl_has_order(struct queue_device *dev, cl_command_queue queue, bool *has)
{
	cl_command_queue_properties properties = 0;
	int ret = OPENCL_DO(dev, GetCommandQueueInfo, queue, CL_QUEUE_PROPERTIES,
			    sizeof(properties), &properties, NULL);

	*has = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
	return ret;
}

int opencl_in_order(struct queue_device *dev, cl_command_queue queue)
{
	bool has;
	int ret = opencl_has_order(dev, queue, &has);

	return ret || has ? ret :
	       OPENCL_DO(dev, EnqueueBarrierWithWaitList, queue, 0, NULL, NULL);
}

static int stream(struct queue_device *base, void *handle, bool ends, void **out)
{
	struct opencl_device *dev = to_opencl(base);
	cl_context context = NULL;
	cl_device_id device = NULL;
	int ret;

	(void)ends;
	*out = handle ? handle : dev->stream;
	if (*out == dev->stream)
		return 0;
	ret = OPENCL_DO(base, GetCommandQueueInfo, handle, CL_QUEUE_CONTEXT,
			sizeof(context), &context, NULL);
	if (!ret)
		ret = OPENCL_DO(base, GetCommandQueueInfo, handle,
				CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
	if (!ret && (context != dev->context || device != dev->device))
		ret = fail(-EINVAL, "queue %p is of another context or device "
			   "than %s's", handle, base->info.name);
	return ret;
}

int opencl_keep(struct dlbuf_device *dev, void *s)
{
	return OPENCL_DO(queue_device_of(dev), RetainCommandQueue, s);
}

void opencl_drop(struct dlbuf_device *dev, void *s)
{
	opencl_device_of(dev)->cl.ReleaseCommandQueue(s);
}

static int stream_create(struct queue_device *base, void **out)
{
	struct opencl_device *dev = to_opencl(base);

	return OPENCL_NEW(&dev->cl, (cl_command_queue *)out, CreateCommandQueue,
			  dev->context, dev->device, 0);
}

/* A release flushes the queue: after a failed call, its commands are not to run later. */
static void stream_destroy(struct queue_device *dev, void *s)
{
	to_opencl(dev)->cl.Finish(s);
	to_opencl(dev)->cl.ReleaseCommandQueue(s);
}

static int finish(struct queue_device *dev, void *s)
{
	return OPENCL_DO(dev, Finish, s);
}

/*
 * The API cannot wait for all queues of a context. It need not: objects live until
 * their commands are complete.
 */
static int finish_all(struct queue_device *dev)
{
	int ret = finish(dev, to_opencl(dev)->own);

	return ret ? ret : finish(dev, to_opencl(dev)->stream);
}

/* ---------------------------------------------------------------- events */

static int wait_for_event(struct queue_device *dev, void *s, cl_event event)
{
	int ret = OPENCL_DO(dev, EnqueueBarrierWithWaitList, s, 1, &event, NULL);

	return ret ? ret : OPENCL_DO(dev, Flush, s);
}

static int user_event_create(struct queue_device *base, void **out)
{
	struct opencl_device *dev = to_opencl(base);

	return OPENCL_NEW(&dev->cl, (cl_event *)out, CreateUserEvent,
			  dev->context);
}

static int stream_wait(struct queue_device *dev, void *s, void *event)
{
	return wait_for_event(dev, s, event);
}

static void user_event_set(struct queue_device *dev, void *event)
{
	to_opencl(dev)->cl.SetUserEventStatus(event, CL_COMPLETE);
}

/* The commands that wait for it have references of their own. */
static void event_destroy(struct queue_device *dev, void *event)
{
	to_opencl(dev)->cl.ReleaseEvent(event);
}

/* Each record makes a marker. Without the flush, another queue's wait may never end. */
static int event_record(struct queue_device *dev, void **event, void *s)
{
	cl_event marker;
	int ret = OPENCL_DO(dev, EnqueueMarkerWithWaitList, s, 0, NULL, &marker);

	if (ret)
		return ret;
	if (*event)
		event_destroy(dev, *event);
	*event = marker;
	return OPENCL_DO(dev, Flush, s);
}

/* A command that failed is complete too. */
static int event_query(struct queue_device *dev, void *event)
{
	cl_int status = CL_COMPLETE;
	int ret = OPENCL_DO(dev, GetEventInfo, event,
			    CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
			    &status, NULL);

	return ret ? ret : status > CL_COMPLETE ? QUEUE_PENDING : 0;
}

static int event_wait(struct queue_device *dev, void *of)
{
	cl_event event = of;
	cl_int result = OPENCL_RESULT(&to_opencl(dev)->cl, WaitForEvents, 1, &event);

	return result == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST ? 0 :
	       opencl_check(opencl_note(dev, result), OPENCL_FUNCTION(WaitForEvents));
}

/* ---------------------------------------------------------------- host functions */

/* A function that a queue calls; its next command waits for `done`. */
struct host_call {
	/* Once `done` is set, the device may be freed. */
	__typeof__(clSetUserEventStatus) *set;
	__typeof__(clReleaseEvent) *release;
	void (*fn)(void *data);
	void *data;
	cl_event before, done;
};

static void host_call_end(struct host_call *call)
{
	if (call->done) {
		call->set(call->done, CL_COMPLETE);
		call->release(call->done);
	}
	if (call->before)
		call->release(call->before);
	free(call);
}

/* On a thread of the driver, also if the commands before have failed. */
static void CL_CALLBACK host_call_run(cl_event before, cl_int status, void *data)
{
	struct host_call *call = data;

	(void)before, (void)status;
	call->fn(call->data);
	host_call_end(call);
}

/*
 * If only the last call fails, fn runs nevertheless, and the queue continues after it.
 * So its result is not returned: the flush of the caller's next event also flushes this.
 */
static int call_host(struct queue_device *dev, void *s, void (*fn)(void *),
		     void *data)
{
	struct host_call *call = sys_calloc(1, sizeof(*call));
	int ret;

	if (!call)
		return -ENOMEM;
	*call = (struct host_call){
		.set = to_opencl(dev)->cl.SetUserEventStatus,
		.release = to_opencl(dev)->cl.ReleaseEvent,
		.fn = fn,
		.data = data,
	};
	ret = user_event_create(dev, (void **)&call->done);
	if (!ret)
		ret = OPENCL_DO(dev, EnqueueMarkerWithWaitList, s, 0, NULL,
				&call->before);
	if (!ret)
		ret = OPENCL_DO(dev, EnqueueBarrierWithWaitList, s, 1,
				&call->done, NULL);
	if (!ret)
		ret = OPENCL_DO(dev, SetEventCallback, call->before, CL_COMPLETE,
				host_call_run, call);
	if (!ret) {
		to_opencl(dev)->cl.Flush(s);
		return 0;
	}
	host_call_end(call);
	return ret;
}

/* ---------------------------------------------------------------- sync_files */

/* CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR, which older headers lack. */
#define SEMAPHORE_DEVICE_HANDLE_LIST 0x2053

static int semaphore_create(struct queue_device *base, cl_semaphore_khr *out,
			    cl_semaphore_properties_khr name,
			    cl_semaphore_properties_khr value)
{
	struct opencl_device *dev = to_opencl(base);
	cl_semaphore_properties_khr properties[10] = {
		CL_SEMAPHORE_TYPE_KHR, CL_SEMAPHORE_TYPE_BINARY_KHR, name, value
	};
	cl_int result = CL_OUT_OF_HOST_MEMORY;
	int n = 4;

	/* A list has an end of its own, 0, and so have the properties. */
	if (name == CL_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR)
		n++;
	if (dev->ndevices > 1) {
		properties[n++] = SEMAPHORE_DEVICE_HANDLE_LIST;
		properties[n++] = (uintptr_t)dev->device;
	}
	if (!fault_hit())
		*out = dev->ext.CreateSemaphoreWithPropertiesKHR(
			dev->context, properties, &result);
	return opencl_check_ext(result, "clCreateSemaphoreWithPropertiesKHR");
}

static int wait_fence(struct queue_device *dev, void *s, int fence)
{
	cl_semaphore_khr semaphore;
	cl_event waited;
	int fd = sys_dup(fence), ret;

	if (fd < 0)
		return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	ret = semaphore_create(dev, &semaphore, CL_SEMAPHORE_HANDLE_SYNC_FD_KHR,
			       fd);
	if (ret) {
		sys_close_refused(fd, fence);
		return ret;
	}
	ret = OPENCL_EXT(dev, EnqueueWaitSemaphoresKHR, s, 1, &semaphore, NULL,
			 0, NULL, &waited);
	if (!ret) {
		ret = wait_for_event(dev, s, waited);
		to_opencl(dev)->cl.ReleaseEvent(waited);
	}
	to_opencl(dev)->ext.ReleaseSemaphoreKHR(semaphore);
	return ret;
}

static int export_fence(struct queue_device *dev, void *s, int *fence)
{
	cl_semaphore_khr semaphore;
	int ret;

	ret = semaphore_create(dev, &semaphore,
			       CL_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR,
			       CL_SEMAPHORE_HANDLE_SYNC_FD_KHR);
	if (ret)
		return ret;
	ret = opencl_in_order(dev, s);
	if (!ret)
		ret = OPENCL_EXT(dev, EnqueueSignalSemaphoresKHR, s, 1,
				 &semaphore, NULL, 0, NULL, NULL);
	if (!ret)
		ret = OPENCL_DO(dev, Flush, s);
	if (!ret)
		ret = OPENCL_EXT(dev, GetSemaphoreHandleForTypeKHR, semaphore,
				 to_opencl(dev)->device,
				 CL_SEMAPHORE_HANDLE_SYNC_FD_KHR, sizeof(*fence),
				 fence, NULL);
	to_opencl(dev)->ext.ReleaseSemaphoreKHR(semaphore);
	return ret;
}

/* ---------------------------------------------------------------- others */

/* Memory for copies: any memory of the host. */
static int alloc_host(struct queue_device *dev, size_t bytes, void **host,
		      uintptr_t *address)
{
	(void)dev, (void)address;
	*host = sys_calloc(1, bytes);
	return *host ? 0 : fail(-ENOMEM, "no memory for a copy of %zu bytes",
				bytes);
}

static void free_host(struct queue_device *dev, void *host)
{
	(void)dev;
	free(host);
}

static void destroy(struct queue_device *base)
{
	struct opencl_device *dev = to_opencl(base);

	if (dev->program)
		dev->cl.ReleaseProgram(dev->program);
	if (dev->stream && dev->stream != dev->own)
		dev->cl.ReleaseCommandQueue(dev->stream);
	if (dev->own)
		dev->cl.ReleaseCommandQueue(dev->own);
	if (dev->context)
		dev->cl.ReleaseContext(dev->context);
	free(dev);
}

const struct queue_ops opencl_ops = {
	.size = sizeof(struct opencl_device),
	.count = opencl_count,
	.probe = opencl_probe,
	.start = opencl_start,
	.stream = stream,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.event_destroy = event_destroy,
	.event_record = event_record,
	.event_query = event_query,
	.event_wait = event_wait,
	.stream_wait = stream_wait,
	.finish = finish,
	.finish_all = finish_all,
	.call_host = call_host,
	.user_event_create = user_event_create,
	.user_event_wait = stream_wait,
	.user_event_set = user_event_set,
	.user_event_destroy = event_destroy,
	.wait_fence = wait_fence,
	.export_fence = export_fence,
	.import = opencl_import,
	.register_host = opencl_register_host,
	.begin = opencl_begin,
	.end = opencl_end,
	.alloc = opencl_alloc,
	.free = opencl_free,
	.alloc_host = alloc_host,
	.free_host = free_host,
	.copy = opencl_copy,
#ifdef CONFIG_PREPARE_OPENCL
	.kernel_create = opencl_kernel_create,
	.kernel_destroy = opencl_kernel_destroy,
	.kernel_launch = opencl_kernel_launch,
#endif
	.destroy = destroy,
};
