// SPDX-License-Identifier: MIT
/* See vulkan.h: images with modifiers, and copies from them. */
#include <string.h>
#include <sys/mman.h>

#include "vulkan_objects.h"

static struct fake_image nobody_looks;

/* The formats that the tests use: planes, and a texel of each. */
struct texels {
	uint32_t nplanes;
	uint32_t bytes[3];
	uint32_t across;	/* texels in a block */
	uint32_t hsub, vsub;	/* of the planes after the first */
};

/* No planes: the device does not have the format. */
static struct texels texels_of(VkFormat format)
{
	switch (format) {
	case VK_FORMAT_R8_UNORM:
		return (struct texels){ 1, { 1 }, 1, 1, 1 };
	case VK_FORMAT_R8G8_UNORM:
	case VK_FORMAT_R16_UNORM:
		return (struct texels){ 1, { 2 }, 1, 1, 1 };
	case VK_FORMAT_R8G8B8_UNORM:
		return (struct texels){ 1, { 3 }, 1, 1, 1 };
	case VK_FORMAT_R16G16_UNORM:
	case VK_FORMAT_B8G8R8A8_UNORM:
		return (struct texels){ 1, { 4 }, 1, 1, 1 };
	case VK_FORMAT_G8B8G8R8_422_UNORM:
		return (struct texels){ 1, { 4 }, 2, 1, 1 };
	case VK_FORMAT_G8_B8R8_2PLANE_420_UNORM:
		return (struct texels){ 2, { 1, 2 }, 1, 2, 2 };
	case VK_FORMAT_G8_B8_R8_3PLANE_420_UNORM:
		return (struct texels){ 3, { 1, 1, 1 }, 1, 2, 2 };
	default:
		return (struct texels){ 0, { 1 }, 1, 1, 1 };
	}
}

static const struct fake_modifier *modifier_of(const struct fake_physical *p,
					       uint64_t modifier)
{
	for (unsigned int i = 0; i < p->nmodifiers; i++)
		if (p->modifiers[i].modifier == modifier)
			return &p->modifiers[i];
	return NULL;
}

static void GetPhysicalDeviceFormatProperties2(VkPhysicalDevice physical,
					       VkFormat format,
					       VkFormatProperties2 *out)
{
	const struct fake_physical *p = physical_of(physical);
	VkDrmFormatModifierPropertiesListEXT *list = out->pNext;
	uint32_t n = 0, max = texels_of(format).nplanes ? p->nmodifiers : 0;

	LOCK("vkGetPhysicalDeviceFormatProperties2")
	for (; n < max && list->pDrmFormatModifierProperties &&
	     n < list->drmFormatModifierCount; n++)
		list->pDrmFormatModifierProperties[n] =
			(VkDrmFormatModifierPropertiesEXT){
			.drmFormatModifier = p->modifiers[n].modifier,
			.drmFormatModifierPlaneCount =
				texels_of(format).nplanes +
				p->modifiers[n].compression,
			.drmFormatModifierTilingFeatures =
				p->modifiers[n].no_copy ? 0 :
				VK_FORMAT_FEATURE_TRANSFER_SRC_BIT,
		};
	list->drmFormatModifierCount = list->pDrmFormatModifierProperties ? n :
				       max;
	end();
}

static VkResult GetPhysicalDeviceImageFormatProperties2(
	VkPhysicalDevice physical, const VkPhysicalDeviceImageFormatInfo2 *info,
	VkImageFormatProperties2 *out)
{
	const struct fake_physical *p = physical_of(physical);
	const VkPhysicalDeviceExternalImageFormatInfo *external = info->pNext;
	const VkPhysicalDeviceImageDrmFormatModifierInfoEXT *modifier =
		external->pNext;
	VkExternalImageFormatProperties *features = out->pNext;
	const struct fake_modifier *m;
	uint32_t nplanes;

	BEGIN("vkGetPhysicalDeviceImageFormatProperties2")
	m = modifier_of(p, modifier->drmFormatModifier);
	nplanes = texels_of(info->format).nplanes;
	if (!m || !nplanes || (p->no_planar && nplanes > 1)) {
		end();
		return VK_ERROR_FORMAT_NOT_SUPPORTED;
	}
	out->imageFormatProperties.maxExtent =
		(VkExtent3D){ p->max_image, p->max_image, 1 };
	features->externalMemoryProperties.externalMemoryFeatures =
		(m->no_import ? 0 : VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) |
		(p->image_dedicated_only ?
		 VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT : 0);
	return end();
}

/*
 * VUIDs 01443 and 02264 to 02269, and those of planar formats. The layer of
 * cts@vulkan+validated checks what is the same for all images: tiling, levels, layers, samples.
 */
static void check_image(const VkImageCreateInfo *info,
			const VkImageDrmFormatModifierExplicitCreateInfoEXT *e)
{
	const struct fake_modifier *m = modifier_of(used, e->drmFormatModifier);
	struct texels t = texels_of(info->format);

	if (!t.nplanes)
		wrong("vkCreateImage: a format that the device does not have");
	if (!modifiers)
		wrong("vkCreateImage: the extension is not switched on");
	if (info->imageType != VK_IMAGE_TYPE_2D || info->flags || info->extent.depth != 1 ||
	    info->usage != VK_IMAGE_USAGE_TRANSFER_SRC_BIT ||
	    info->initialLayout != VK_IMAGE_LAYOUT_UNDEFINED)
		wrong("vkCreateImage: not an image of a dma-buf");
	if (!m || (e->pPlaneLayouts &&
		   e->drmFormatModifierPlaneCount != t.nplanes + m->compression))
		wrong("vkCreateImage: the modifier has other planes");
	if (used->no_planar && t.nplanes > 1)
		wrong("vkCreateImage: the device has no such images");
	if (info->extent.width > used->max_image ||
	    info->extent.height > used->max_image)
		wrong("vkCreateImage: an image that is too large");
	if (info->extent.width % (t.hsub * t.across) ||
	    info->extent.height % t.vsub)
		wrong("vkCreateImage: half a sample of chroma");
	for (uint32_t i = 0; e->pPlaneLayouts && i < e->drmFormatModifierPlaneCount; i++)
		if (e->pPlaneLayouts[i].size || !e->pPlaneLayouts[i].rowPitch ||
		    e->pPlaneLayouts[i].arrayPitch ||
		    e->pPlaneLayouts[i].depthPitch)
			wrong("vkCreateImage: a plane has a size");
}

static VkResult CreateImage(VkDevice device, const VkImageCreateInfo *info,
			    const VkAllocationCallbacks *alloc, VkImage *out)
{
	const VkExternalMemoryImageCreateInfo *external = info->pNext;
	const VkImageDrmFormatModifierExplicitCreateInfoEXT *e =
		external->pNext;
	const VkImageDrmFormatModifierListCreateInfoEXT *list = external->pNext;
	/* With a list the layout is the driver's: whole rows of 256 bytes. */
	bool own = e->sType ==
		VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_LIST_CREATE_INFO_EXT;
	const VkImageDrmFormatModifierExplicitCreateInfoEXT any = {
		.drmFormatModifier = own ? list->pDrmFormatModifiers[0] : 0,
		.drmFormatModifierPlaneCount = !own ? 0 : texels_of(info->format).nplanes +
			modifier_of(used, list->pDrmFormatModifiers[0])->compression,
	};
	struct item *o;

	BEGIN("vkCreateImage")
	check(device, FAKE_DEVICE);
	e = own ? &any : e;
	check_image(info, e);
	if (!own && used->no_memory) {
		end();
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	}
	o = item_make(FAKE_IMAGE);
	o->layout = info->initialLayout;
	o->seen = fake.nimages < 4 && !own ? &fake.images[fake.nimages++] :
					     &nobody_looks;
	*o->seen = (struct fake_image){
		.format = info->format,
		.width = info->extent.width,
		.height = info->extent.height,
		.modifier = e->drmFormatModifier,
		.nlayouts = e->drmFormatModifierPlaneCount,
	};
	for (uint32_t i = 0; i < o->seen->nlayouts; i++) {
		VkSubresourceLayout l = { .rowPitch = 256 };

		if (!own) {
			l = o->seen->layouts[i] = e->pPlaneLayouts[i];
			if (used->own_pitch && l.rowPitch != 256)
				wrong("vkCreateImage: a pitch that ends the process");
		}
		l.offset = used->no_offset ? 0 : l.offset;
		l.rowPitch = used->no_pitch ? 512 : l.rowPitch;
		l.size = l.rowPitch * info->extent.height /
			 (i ? texels_of(info->format).vsub : 1);
		o->size = l.offset + l.size > o->size ? l.offset + l.size : o->size;
		o->follows[i] = l;
		l.offset = used->tells_no_offset ? 0 : l.offset;
		o->told[i] = l;
	}
	*out = TO_HANDLE(VkImage, o);
	return end();
}

DESTROYS(DestroyImage, VkImage, FAKE_IMAGE)

static void GetImageMemoryRequirements2(VkDevice device,
					const VkImageMemoryRequirementsInfo2 *info,
					VkMemoryRequirements2 *out)
{
	VkMemoryDedicatedRequirements *dedicated = out->pNext;
	struct item *o;

	LOCK("vkGetImageMemoryRequirements2")
	o = check(FROM_HANDLE(info->image), FAKE_IMAGE);
	if (o)
		out->memoryRequirements = (VkMemoryRequirements){
			.size = o->size,
			.alignment = used->granularity,
			.memoryTypeBits = used->image_types,
		};
	dedicated->prefersDedicatedAllocation = used->image_prefers_dedicated;
	end();
}

static void GetImageSubresourceLayout(VkDevice device, VkImage image,
				      const VkImageSubresource *part,
				      VkSubresourceLayout *out)
{
	struct item *o;
	int plane = __builtin_ctz(part->aspectMask / VK_IMAGE_ASPECT_MEMORY_PLANE_0_BIT_EXT);

	LOCK("vkGetImageSubresourceLayout")
	o = check(FROM_HANDLE(image), FAKE_IMAGE);
	if (o && part->aspectMask >= VK_IMAGE_ASPECT_MEMORY_PLANE_0_BIT_EXT &&
	    plane < 4 && !part->mipLevel && !part->arrayLayer)
		*out = o->told[used->tells_first ? 0 : plane];
	else
		wrong("vkGetImageSubresourceLayout: not a plane in memory");
	end();
}

static VkResult BindImageMemory(VkDevice device, VkImage image,
				VkDeviceMemory memory, VkDeviceSize offset)
{
	struct item *o, *m;

	BEGIN("vkBindImageMemory")
	o = check(FROM_HANDLE(image), FAKE_IMAGE);
	m = check(FROM_HANDLE(memory), FAKE_MEMORY);
	/* VUID-vkBindImageMemory-memory-02628, -memoryOffset-01048 */
	if (o && m && (o->memory || (offset && fake.dedicated) ||
		       offset % used->granularity || offset + o->size > m->size))
		wrong("vkBindImageMemory: where is the image");
	if (o) {
		o->memory = m;
		o->seen->bound = offset;
	}
	return end();
}

static void check_region(const struct item *image, const struct item *buffer,
			 const VkBufferImageCopy *r)
{
	struct texels t = texels_of(image->seen->format);
	VkImageAspectFlags aspect = r->imageSubresource.aspectMask;
	uint32_t plane = aspect == VK_IMAGE_ASPECT_PLANE_1_BIT ? 1 :
			 aspect == VK_IMAGE_ASPECT_PLANE_2_BIT ? 2 : 0;
	uint32_t width = image->seen->width / (plane ? t.hsub : 1);
	uint32_t height = image->seen->height / (plane ? t.vsub : 1);
	uint32_t row = r->bufferRowLength / t.across * t.bytes[plane];

	if ((t.nplanes == 1) != (aspect == VK_IMAGE_ASPECT_COLOR_BIT) ||
	    plane >= t.nplanes || r->imageSubresource.layerCount != 1)
		wrong("vkCmdCopyImageToBuffer: not a plane of the image");
	if (r->imageExtent.width != width || r->imageExtent.height != height ||
	    r->imageExtent.depth != 1)
		wrong("vkCmdCopyImageToBuffer: not all of the plane");
	if (r->bufferRowLength < width || r->bufferRowLength % t.across)
		wrong("vkCmdCopyImageToBuffer: rows that overlap");
	if (r->bufferOffset % t.bytes[plane] || !buffer ||
	    r->bufferOffset + (uint64_t)row * height > buffer->size)
		wrong("vkCmdCopyImageToBuffer: rows outside of the buffer");
}

static void CmdCopyImageToBuffer(VkCommandBuffer cmd, VkImage image,
				 VkImageLayout layout, VkBuffer buffer,
				 uint32_t n, const VkBufferImageCopy *regions)
{
	struct item *c, *o, *b;

	LOCK("vkCmdCopyImageToBuffer")
	c = check(cmd, FAKE_COMMANDS);
	o = check(FROM_HANDLE(image), FAKE_IMAGE);
	b = check(FROM_HANDLE(buffer), FAKE_BUFFER);
	if (o && (!o->owned || o->layout != layout ||
		  layout != VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL))
		wrong("vkCmdCopyImageToBuffer: the image is not ready for it");
	if (c && (c->buffers[0] != b || !c->owned))
		wrong("vkCmdCopyImageToBuffer: the buffer is not ours");
	if (o)
		o->seen->nregions = n;
	for (uint32_t i = 0; o && i < n && i < 4; i++) {
		check_region(o, b, &regions[i]);
		o->seen->regions[i] = regions[i];
	}
	if (c)
		c->rows = b;
	end();
}

/* Its tilings have rows, as LINEAR does: a plane's offset and its pitch differ. */
static void copy_region(const struct item *image, const struct item *rows,
			const VkBufferImageCopy *r)
{
	struct texels t = texels_of(image->seen->format);
	uint32_t plane = r->imageSubresource.aspectMask == VK_IMAGE_ASPECT_COLOR_BIT ? 0 :
		__builtin_ctz(r->imageSubresource.aspectMask / VK_IMAGE_ASPECT_PLANE_0_BIT);
	const VkSubresourceLayout *l = &image->follows[plane];
	uint64_t at = image->seen->bound + l->offset, texel = t.bytes[plane];
	uint64_t nfrom = at + l->rowPitch * r->imageExtent.height;
	char *from = map_memory(image, nfrom, PROT_READ);
	char *to = map_memory(rows, rows->size, PROT_READ | PROT_WRITE);

	for (uint32_t y = 0; from && to && y < r->imageExtent.height; y++)
		memcpy(to + r->bufferOffset + y * (r->bufferRowLength / t.across) * texel,
		       from + at + y * l->rowPitch, r->imageExtent.width / t.across * texel);
	if (from)
		munmap(from, nfrom);
	if (to)
		munmap(to, rows->size);
}

/* Copies the images that a test looks at. */
void execute_image_copies(const struct item *cmd)
{
	for (unsigned int i = 0; cmd->rows && i < cmd->nimages; i++)
		for (uint32_t k = 0; k < cmd->images[i]->seen->nregions; k++)
			if (cmd->images[i]->seen != &nobody_looks)
				copy_region(cmd->images[i], cmd->rows,
					    &cmd->images[i]->seen->regions[k]);
}

/* To the device or from it, with its contents. */
void image_barrier(struct item *cmd, const VkImageMemoryBarrier *b)
{
	struct item *o = check(FROM_HANDLE(b->image), FAKE_IMAGE);
	bool acquire = b->dstQueueFamilyIndex == 1;

	if (!o)
		return;
	if (!o->memory)
		wrong("vkCmdPipelineBarrier: an image without memory");
	if ((acquire ? b->srcQueueFamilyIndex : b->dstQueueFamilyIndex) !=
	    VK_QUEUE_FAMILY_FOREIGN_EXT || (!acquire &&
					    b->srcQueueFamilyIndex != 1))
		wrong("vkCmdPipelineBarrier: an image of whom, to whom");
	if (o->owned == acquire)
		wrong("vkCmdPipelineBarrier: an image goes the wrong way");
	if (acquire && b->oldLayout != VK_IMAGE_LAYOUT_GENERAL)
		wrong("vkCmdPipelineBarrier: what is in the image may go");
	if (!acquire && (b->oldLayout != o->layout ||
			 b->newLayout != VK_IMAGE_LAYOUT_GENERAL))
		wrong("vkCmdPipelineBarrier: the layout of an image");
	if (acquire && cmd->nimages < 4)
		cmd->images[cmd->nimages++] = o;
	o->owned = acquire;
	o->layout = b->newLayout;
	fake.image_barriers[!acquire] = *b;
}

const struct function image_functions[] = {
	FN(GetPhysicalDeviceFormatProperties2),
	FN(GetPhysicalDeviceImageFormatProperties2), FN(CreateImage),
	FN(DestroyImage), FN(GetImageMemoryRequirements2),
	FN(GetImageSubresourceLayout), FN(BindImageMemory),
	FN(CmdCopyImageToBuffer),
	{ NULL, NULL }
};
