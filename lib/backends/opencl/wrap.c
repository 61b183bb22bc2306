// SPDX-License-Identifier: MIT
/* dlbuf/opencl.h: devices of an application's context, and the handles of tensors. */
#include <errno.h>
#include <stdlib.h>

#include "../../tensor.h"
#include "opencl.h"

/* ---------------------------------------------------------------- devices */

/* Finds the device in the application's context, and then in the list of all. */
static int find(struct queue_device *base, unsigned int n, const void *data)
{
	struct opencl_device *dev = to_opencl(base);
	const struct dlbuf_opencl_device *theirs = data;
	cl_device_id devices[OPENCL_MAX_DEVICES], device = theirs->device;
	size_t bytes = 0, count, i;
	void *queue;
	int ret;

	ret = OPENCL_CALL(&dev->cl, GetContextInfo, theirs->context,
			  CL_CONTEXT_DEVICES, sizeof(devices), devices, &bytes);
	if (ret)
		return ret;
	count = bytes / sizeof(devices[0]);
	if (!device && count != 1)
		return fail(-EINVAL, "the context has %zu devices: cl.device must "
			    "name one", count);
	for (i = 0; device && i < count && devices[i] != device; i++)
		;
	if (i == count)
		return fail(-EINVAL, "device %p is not of the context",
			    (void *)device);
	device = devices[i];
	for (i = 0; i < n && dev->list[i].device != device; i++)
		;
	if (i == n)
		return fail(-EINVAL, "device %p is a part of a device, which "
			    "dlbuf does not use", (void *)device);
	dev->context = theirs->context;
	ret = queue_probe(base, i);
	if (!ret)
		ret = opencl_ops.stream(base, theirs->queue, false, &queue);
	dev->stream = theirs->queue;
	return ret;
}

int dlbuf_device_wrap_opencl(const struct dlbuf_opencl_device *theirs,
			     const struct dlbuf_device_opts *opts,
			     struct dlbuf_device **out)
{
	NOT_CANCELLED;
	struct dlbuf_opencl_device w;
	int ret;

	if (!theirs || !out)
		return fail(-EINVAL, "%s is NULL", theirs ? "out" : "cl");
	ret = OPTS_GET(&w, theirs, "dlbuf_opencl_device");
	if (!ret && !w.context)
		ret = fail(-EINVAL, "cl.context is NULL");
	return ret ? ret : queue_wrap(&opencl_backend, &opencl_ops, find, &w,
				      opts, out);
}

int dlbuf_opencl_get_device(struct dlbuf_device *base,
			    struct dlbuf_opencl_device *cl)
{
	struct opencl_device *dev;
	int ret = device_check(base);

	if (ret)
		return ret;
	if (base->backend != &opencl_backend)
		return fail(-EINVAL, "%s is not an OpenCL device", base->name);
	dev = opencl_device_of(base);
	return INFO_PUT(cl, (&(struct dlbuf_opencl_device){
		.platform = dev->platform,
		.device = dev->device,
		.context = dev->context,
		.queue = dev->stream,
	}), "dlbuf_opencl_device");
}

/* ---------------------------------------------------------------- tensors */

static int opencl_tensor(const DLManagedTensorVersioned *dl, struct tensor **t)
{
	int ret = tensor_of(dl, t);

	if (!ret && (*t)->imp->dev->backend != &opencl_backend)
		ret = fail(-EINVAL, "the tensor is on %s, which is not an OpenCL "
			   "device", (*t)->imp->dev->name);
	return ret;
}

int dlbuf_opencl_get_buffer(const DLManagedTensorVersioned *dl,
			    struct dlbuf_opencl_buffer *buffer)
{
	struct dlbuf_opencl_buffer b = { 0 };
	struct queue_memory *m;
	struct tensor *t;
	int ret = opencl_tensor(dl, &t);

	if (ret)
		return ret;
	m = queue_memory_of(t->imp);
	b.buffer = (void *)m->data;
	b.offset = dl->dl_tensor.byte_offset;
	if (m->map && t->imp->path == DLBUF_PATH_HOST &&
	    opencl_device_of(t->imp->dev)->svm)
		b.svm = (char *)m->map + b.offset;
	return INFO_PUT(buffer, &b, "dlbuf_opencl_buffer");
}

/* The part of the buffer that the image covers. */
struct image {
	cl_image_desc desc;
	uint64_t offset;
	uint64_t bytes;
};

static int find_image(const DLTensor *dl, struct image *image)
{
	uint64_t item = (dl->dtype.bits * dl->dtype.lanes + 7) / 8;
	int64_t channels = dl->ndim == 3 ? dl->shape[2] : 1;

	if (dl->ndim != 2 && dl->ndim != 3)
		return fail(-EOPNOTSUPP, "an image has the shape [height, width] or "
			    "[height, width, channels], and the tensor has %d "
			    "dimensions", dl->ndim);
	if (!dl->data)
		return fail(-EOPNOTSUPP, "the tensor has no elements");
	if ((dl->ndim == 3 && channels > 1 && dl->strides[2] != 1) ||
	    (dl->shape[1] > 1 && dl->strides[1] != channels) ||
	    (dl->shape[0] > 1 && dl->strides[0] < dl->shape[1] * channels))
		return fail(-EOPNOTSUPP, "only the rows of an image may be padded, "
			    "and the tensor's pixels are not next to each other");
	image->offset = dl->byte_offset;
	image->desc = (cl_image_desc){
		.image_type = CL_MEM_OBJECT_IMAGE2D,
		.image_width = dl->shape[1],
		.image_height = dl->shape[0],
		.image_row_pitch = (dl->shape[0] > 1 ? dl->strides[0] :
				    dl->shape[1] * channels) * item,
	};
	image->bytes = (dl->shape[0] - 1) * image->desc.image_row_pitch +
		       dl->shape[1] * channels * item;
	return 0;
}

static int check_image(const struct opencl_device *dev, const DLTensor *dl,
		       const struct image *image)
{
	uint64_t pixel = image->bytes - (dl->shape[0] - 1) *
			 image->desc.image_row_pitch;
	uint64_t pitch;

	pixel /= dl->shape[1];
	pitch = dev->pitch_pixels * pixel;
	if (!pitch)
		return fail(-EOPNOTSUPP, "%s makes no images of buffers",
			    dev->queue.info.name);
	if (image->desc.image_row_pitch % pitch)
		return fail(-EOPNOTSUPP, "the pitch of %zu bytes is not a multiple "
			    "of %llu, as %s needs it for images",
			    image->desc.image_row_pitch, (unsigned long long)pitch,
			    dev->queue.info.name);
	if (image->offset % dev->base_align)
		return fail(-EOPNOTSUPP, "the offset of %llu bytes is not a "
			    "multiple of %u, as %s needs it for images",
			    (unsigned long long)image->offset, dev->base_align,
			    dev->queue.info.name);
	return 0;
}

/*
 * The image keeps the part alive, and the part the buffer. Drivers want the padding of
 * the last row, too, so it is in the part if it is in the buffer.
 */
static int create_image(struct opencl_device *dev, const struct queue_memory *m,
			struct image *image, const cl_image_format *format,
			cl_mem *out)
{
	uint64_t rows = image->desc.image_height * image->desc.image_row_pitch;
	uint64_t room = m->bytes - m->unusable - image->offset;
	const cl_buffer_region region = { image->offset,
					  rows < room ? rows : room };
	cl_mem buffer = (cl_mem)m->data, part = NULL;
	int ret = 0;

	image->desc.mem_object = buffer;
	if (image->offset) {
		ret = OPENCL_NEW(&dev->cl, &part, CreateSubBuffer, buffer, 0,
				 CL_BUFFER_CREATE_TYPE_REGION, &region);
		image->desc.mem_object = part;
	}
	if (!ret)
		ret = OPENCL_NEW(&dev->cl, out, CreateImage, dev->context, 0,
				 format, &image->desc, NULL);
	if (part)
		dev->cl.ReleaseMemObject(part);
	return ret;
}

int dlbuf_opencl_create_image(const DLManagedTensorVersioned *dl,
			      uint32_t channel_order, uint32_t channel_type,
			      void **out)
{
	NOT_CANCELLED;
	const cl_image_format format = { channel_order, channel_type };
	struct opencl_device *dev;
	cl_mem image = NULL;
	struct image part;
	struct tensor *t;
	int ret = opencl_tensor(dl, &t);

	if (!ret && !out)
		ret = fail(-EINVAL, "image is NULL");
	if (!ret)
		ret = find_image(&dl->dl_tensor, &part);
	if (ret)
		return ret;
	dev = opencl_device_of(t->imp->dev);
	ret = check_image(dev, &dl->dl_tensor, &part);
	if (!ret)
		ret = create_image(dev, queue_memory_of(t->imp), &part, &format,
				   &image);
	if (ret)
		return ret == -EIO ? -EOPNOTSUPP : ret;
	*out = image;
	return 0;
}
