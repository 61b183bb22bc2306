// SPDX-License-Identifier: MIT
/* Accesses to a tensor's memory by an OpenCL device: commands on the default queue. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlbuf/opencl.h>

#include "access.h"

static struct {
	__typeof__(clEnqueueReadBuffer) *read;
	__typeof__(clEnqueueWriteBuffer) *write;
	__typeof__(clFlush) *flush;
	__typeof__(clWaitForEvents) *wait;
	__typeof__(clGetEventInfo) *query;
	__typeof__(clReleaseEvent) *release;
} cl;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load_once(void)
{
	static const struct {
		const char *name;
		void *fn;
	} list[] = {
		{ "clEnqueueReadBuffer", &cl.read },
		{ "clEnqueueWriteBuffer", &cl.write },
		{ "clFlush", &cl.flush },
		{ "clWaitForEvents", &cl.wait },
		{ "clGetEventInfo", &cl.query },
		{ "clReleaseEvent", &cl.release },
	};
	const char *file = getenv("DLBUF_OPENCL_LIBRARY");
	void *lib = dlopen(file ? file : "libOpenCL.so.1", RTLD_NOW);

	for (size_t i = 0; lib && i < sizeof(list) / sizeof(list[0]); i++) {
		void *sym = dlsym(lib, list[i].name);

		memcpy(list[i].fn, &sym, sizeof(sym));
	}
}

/* The tensor's buffer is the whole dma-buf. */
static int find(DLManagedTensorVersioned *t, cl_command_queue *queue, cl_mem *mem)
{
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLBUF_INFO(dlbuf_opencl_device, dev);
	int ret;

	pthread_once(&once, load_once);
	ret = cl.release ? dlbuf_tensor_get_info(t, &info) : -ENOENT;
	if (!ret)
		ret = dlbuf_opencl_get_device(info.device, &dev);
	*queue = dev.queue;
	*mem = t->dl_tensor.data;
	return ret;
}

static int opencl_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		       size_t bytes)
{
	cl_command_queue queue;
	cl_mem mem;
	int ret = find(t, &queue, &mem);

	return ret ? ret : cl.read(queue, mem, CL_TRUE, offset, bytes, dst, 0, NULL,
				   NULL) ? -EIO : 0;
}

static int opencl_write(DLManagedTensorVersioned *t, uint64_t offset,
			const void *src, size_t bytes)
{
	cl_command_queue queue;
	cl_mem mem;
	int ret = find(t, &queue, &mem);

	return ret ? ret : cl.write(queue, mem, CL_TRUE, offset, bytes, src, 0, NULL,
				    NULL) ? -EIO : 0;
}

struct job {
	cl_event event;
	uint8_t bytes[];
};

/* Writes the bytes at src. If src is NULL, it reads. */
static int opencl_submit_write(DLManagedTensorVersioned *t, uint64_t offset,
			       const void *src, size_t bytes, void **out)
{
	struct job *job = calloc(1, sizeof(*job) + bytes);
	cl_command_queue queue;
	cl_mem mem;
	int ret = job ? find(t, &queue, &mem) : -ENOMEM;

	if (!ret && src)
		memcpy(job->bytes, src, bytes);
	if (!ret && ((src ? cl.write(queue, mem, CL_FALSE, offset, bytes, job->bytes, 0,
				     NULL, &job->event) :
			    cl.read(queue, mem, CL_FALSE, offset, bytes, job->bytes, 0,
				    NULL, &job->event)) || cl.flush(queue)))
		ret = -EIO;
	if (ret) {
		/* The command may be on the queue, although it could not be flushed. */
		if (job && job->event) {
			cl.wait(1, &job->event);
			cl.release(job->event);
		}
		free(job);
		job = NULL;
	}
	*out = job;
	return ret;
}

static int opencl_submit_read(DLManagedTensorVersioned *t, uint64_t offset,
			      size_t bytes, void **out)
{
	return opencl_submit_write(t, offset, NULL, bytes, out);
}

static bool opencl_job_done(void *data)
{
	struct job *job = data;
	cl_int status = 1;

	cl.query(job->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
		 &status, NULL);
	return status <= CL_COMPLETE;
}

static int opencl_finish_read(void *data, void *dst, size_t bytes)
{
	struct job *job = data;
	int ret = cl.wait(1, &job->event) ? -EIO : 0;

	memcpy(dst, job->bytes, bytes);
	cl.release(job->event);
	free(job);
	return ret;
}

/* Drivers keep threads, files and memory from their first use on. */
static bool opencl_prepare(void)
{
	return true;
}

const struct access access_opencl = {
	.backend = "opencl",
	.reads_by = "clEnqueueReadBuffer",
	.read = opencl_read,
	.write = opencl_write,
	.submit_read = opencl_submit_read,
	.submit_write = opencl_submit_write,
	.job_done = opencl_job_done,
	.finish_read = opencl_finish_read,
	.prepare = opencl_prepare,
	.wants_memfds = true,
	.no_children = true,
	.keeps_fds = true,
};
