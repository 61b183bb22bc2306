// SPDX-License-Identifier: MIT
/* dlbuf/vulkan.h: devices for an application's VkDevice, and the VkDevice of a device. */
#include <errno.h>
#include <string.h>

#include "../../tensor/tensor.h"
#include "vulkan.h"

static uint32_t wrap_extensions(const struct dlbuf_vulkan_device *vk)
{
	uint32_t bits = 0;

	if (!vk->extensions)
		return VULKAN_EXT_REQUIRED;
	for (uint32_t i = 0; i < vk->nextensions; i++)
		bits |= vulkan_extension(vk->extensions[i]);
	return bits;
}

/* Finds the index that dlbuf_device_open() would use for this device. */
static int wrap_index(const struct vulkan_instance *inst,
		      struct vulkan_physical *p)
{
	VkPhysicalDevice list[VULKAN_MAX_DEVICES];
	uint32_t n;
	int ret;

	ret = vulkan_physical_list(inst, list, &n);
	if (ret)
		return ret;
	for (p->index = 0; p->index < n; p->index++)
		if (list[p->index] == p->handle)
			return 0;
	return fail(-EINVAL, "the physical_device is not one of the instance");
}

static int wrap(struct vulkan_device *dev, const struct dlbuf_vulkan_device *vk)
{
	struct vulkan_instance *inst = &dev->instance;
	struct vulkan_physical *p = &dev->physical;
	int ret;

	dev->base.wrapped = true;
	dev->handle = vk->device;
	dev->queue = vk->queue;
	if (vk->lock_queue) {
		dev->lock_queue = vk->lock_queue;
		dev->unlock_queue = vk->unlock_queue;
		dev->lock_data = vk->lock_data;
	}
	inst->handle = vk->instance;
	inst->version = vk->api_version;
	inst->vk.GetInstanceProcAddr = vk->get_instance_proc_addr;
	p->handle = vk->physical_device;
	p->family = vk->queue_family;
	p->extensions = wrap_extensions(vk);
	p->given = true;
	p->address = vk->buffer_device_address;

	ret = vulkan_load(&inst->vk, VULKAN_INSTANCE, inst->handle, NULL);
	if (!ret)
		ret = wrap_index(inst, p);
	if (!ret)
		ret = vulkan_physical_describe(inst, p);
	if (!ret)
		ret = vulkan_physical_can_import(inst, p);
	if (!ret)
		vulkan_physical_find_sync(inst, p);
	if (!ret)
		ret = vulkan_load(&inst->vk, VULKAN_DEVICE, inst->handle,
				  dev->handle);
	return ret ? ret : vulkan_device_finish(dev);
}

static int check_handles(const struct dlbuf_vulkan_device *vk)
{
	const char *missing = !vk->instance ? "instance" :
			      !vk->physical_device ? "physical_device" :
			      !vk->device ? "device" :
			      !vk->queue ? "queue" :
			      !vk->get_instance_proc_addr ?
			      "get_instance_proc_addr" : NULL;

	if (missing)
		return fail(-EINVAL, "struct dlbuf_vulkan_device has no %s",
			    missing);
	if (vk->api_version < VK_API_VERSION_1_1)
		return fail(-EINVAL, "struct dlbuf_vulkan_device has "
			    "api_version 0x%x, below VK_API_VERSION_1_1",
			    vk->api_version);
	if (!vk->lock_queue != !vk->unlock_queue)
		return fail(-EINVAL, "struct dlbuf_vulkan_device has one of "
			    "lock_queue and unlock_queue");
	if (vk->nextensions && !vk->extensions)
		return fail(-EINVAL, "struct dlbuf_vulkan_device has %u "
			    "extensions at NULL", vk->nextensions);
	return 0;
}

int dlbuf_device_wrap_vulkan(const struct dlbuf_vulkan_device *vk,
			     const struct dlbuf_device_opts *opts,
			     struct dlbuf_device **out)
{
	NOT_CANCELLED;
	struct dlbuf_vulkan_device ours;
	struct dlbuf_device_opts o;
	struct vulkan_device *dev;
	int ret;

	if (!vk || !out)
		return fail(-EINVAL, "%s is NULL", vk ? "out" : "vk");
	ret = OPTS_GET(&ours, vk, "dlbuf_vulkan_device");
	if (!ret)
		ret = check_handles(&ours);
	if (!ret)
		ret = device_opts_get(&o, opts);
	if (!ret)
		ret = vulkan_device_alloc(&dev);
	if (ret)
		return ret;
	ret = wrap(dev, &ours);
	if (ret) {
		vulkan_device_free(dev);
		return ret;
	}
	device_init(&dev->base, &vulkan_backend, &o);
	log_at(DLBUF_LOG_INFO, "wrapped a VkDevice as %s", dev->base.name);
	*out = &dev->base;
	return 0;
}

static int check_device(struct dlbuf_device *dev)
{
	int ret = device_check(dev);

	if (!ret && dev->backend != &vulkan_backend)
		ret = fail(-EINVAL, "%s is not a Vulkan device", dev->name);
	return ret;
}

int dlbuf_vulkan_get_device(struct dlbuf_device *base,
			    struct dlbuf_vulkan_device *vk)
{
	struct vulkan_device *dev = vulkan_device(base);
	int ret = check_device(base);

	if (ret)
		return ret;
	return INFO_PUT(vk, (&(struct dlbuf_vulkan_device){
		.instance = dev->instance.handle,
		.physical_device = dev->physical.handle,
		.device = dev->handle,
		.queue = dev->queue,
		.queue_family = dev->physical.family,
		.api_version = dev->physical.version,
		.get_instance_proc_addr = dev->instance.vk.GetInstanceProcAddr,
		.buffer_device_address = dev->physical.address,
	}), "dlbuf_vulkan_device");
}

int dlbuf_vulkan_lock_queue(struct dlbuf_device *base, VkQueue queue)
{
	struct vulkan_device *dev = vulkan_device(base);
	int ret = check_device(base);

	if (!ret)
		dev->lock_queue(dev->lock_data, queue);
	return ret;
}

int dlbuf_vulkan_unlock_queue(struct dlbuf_device *base, VkQueue queue)
{
	struct vulkan_device *dev = vulkan_device(base);
	int ret = check_device(base);

	if (!ret)
		dev->unlock_queue(dev->lock_data, queue);
	return ret;
}

/* The DRM code of texels with these values in memory order; 0: there is none. */
static uint32_t texel_code(DLDataType type, int64_t channels)
{
	static const struct {
		uint8_t type, bits, channels;
		uint32_t code;
	} codes[] = {
		{ kDLUInt, 8, 1, DLBUF_FOURCC('R', '8', ' ', ' ') },
		{ kDLUInt, 8, 2, DLBUF_FOURCC('G', 'R', '8', '8') },
		{ kDLUInt, 8, 4, DLBUF_FOURCC('A', 'B', '2', '4') },
		{ kDLUInt, 16, 1, DLBUF_FOURCC('R', '1', '6', ' ') },
		{ kDLUInt, 16, 2, DLBUF_FOURCC('G', 'R', '3', '2') },
		{ kDLUInt, 16, 4, DLBUF_FOURCC('X', 'B', '4', '8') },
		{ kDLFloat, 16, 4, DLBUF_FOURCC('A', 'B', '4', 'H') },
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].type == type.code && codes[i].bits == type.bits &&
		    codes[i].channels == channels && type.lanes == 1)
			return codes[i].code;
	return 0;
}

/* Describes the tensor as a frame of one plane. */
static int describe_rows(const struct tensor *t, struct dlbuf_frame *rows)
{
	const DLTensor l = tensor_layout(t);
	int64_t n = l.ndim == 3 ? l.shape[2] : 1, step = l.dtype.bits / 8;
	uint32_t code = l.ndim == 2 || l.ndim == 3 ? texel_code(l.dtype, n) : 0;

	if (!code)
		return fail(-EOPNOTSUPP, "vulkan: an image has the shape [H, W] "
			    "or [H, W, C], with C of 1, 2 or 4, of uint8 or uint16, "
			    "or 4 of float16");
	if (!l.shape[0] || !l.shape[1] || l.shape[0] > UINT32_MAX ||
	    l.shape[1] > UINT32_MAX)
		return fail(-EOPNOTSUPP, "vulkan: no image has the size %lldx%lld",
			    (long long)l.shape[1], (long long)l.shape[0]);
	if ((l.shape[1] > 1 && l.strides[1] != n) ||
	    (n > 1 && l.strides[2] != 1) ||
	    (l.shape[0] > 1 && l.strides[0] < l.shape[1] * n))
		return fail(-EOPNOTSUPP, "vulkan: the values of an image's row are "
			    "side by side, and its rows follow each other");
	*rows = (struct dlbuf_frame){
		.size = sizeof(*rows), .code = code,
		.width = l.shape[1], .height = l.shape[0], .nplanes = 1,
		.planes = { {
			.fd = t->imp->fd, .offset = t->first,
			.pitch = (l.shape[0] > 1 ? l.strides[0] : l.shape[1] * n) *
				 step,
			.bytes = t->imp->bytes,
		} },
	};
	return 0;
}

#define IMAGE_USAGES							\
	(VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT | \
	 VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_STORAGE_BIT |	\
	 VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_INPUT_ATTACHMENT_BIT)

int dlbuf_vulkan_image_create(DLManagedTensorVersioned *tensor,
			      VkImageUsageFlags usage,
			      struct dlbuf_vulkan_image *out)
{
	NOT_CANCELLED;
	struct dlbuf_vulkan_image image = { .device = NULL };
	struct dlbuf_frame rows;
	struct tensor *t;
	int ret;

	if (!out || !out->size || !usage)
		return fail(-EINVAL, "%s", !out ? "image is NULL" : usage ?
			    "image->size is not set" : "an image needs a usage");
	/* Drivers do not check this. */
	if (usage & ~(VkImageUsageFlags)IMAGE_USAGES)
		return fail(-EOPNOTSUPP, "an image of a tensor has no usage 0x%x",
			    usage & ~(VkImageUsageFlags)IMAGE_USAGES);
	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = check_device(t->imp->dev);
	if (!ret)
		ret = describe_rows(t, &rows);
	if (!ret)
		ret = vulkan_image_of_rows(vulkan_device(t->imp->dev), &rows,
					   usage, &image);
	if (ret)
		return ret;
	image.device = vulkan_device(t->imp->dev)->handle;
	image.width = rows.width;
	image.height = rows.height;
	return INFO_PUT(out, &image, "dlbuf_vulkan_image");
}
