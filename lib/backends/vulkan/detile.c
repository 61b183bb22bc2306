// SPDX-License-Identifier: MIT
/*
 * Tiled frames. The planes become VkImages with the frame's modifier, and a submit
 * copies them into rows of a VkBuffer. The images are made for one copy and destroyed
 * after it.
 *
 * If the driver has the VkFormat with that modifier, all planes of the frame are one
 * image: tilings made for video need this. Otherwise, or if the planes are in several
 * dma-bufs, each plane is an image of one or two channels. This is right because a
 * tiling without compression depends only on the size of a texel. So dlbuf does not
 * need VK_IMAGE_CREATE_DISJOINT_BIT, which few drivers support with modifiers.
 *
 * The driver's list of modifiers is not enough: lavapipe lists LINEAR for NV12 and
 * then refuses to make such images. So each image is also queried.
 *
 * It is also not enough that the driver accepts a layout. NVK ends the process if a tiled image
 * has another pitch than its own, and Mesa's NVK, Honeykrisp and VeriSilicon's driver
 * ignore offsets or pitches without an error. So create_image() asks for the driver's own
 * pitch first, and compares the layout that the driver reports with the requested one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vulkan.h"

#define CC DLBUF_FOURCC
/* Bytes that V3DV's GPU may read after an image; see vulkan_find_slack(). */
#define READ_AHEAD 64

/* VkFormats by DRM fourcc. Copies do not change texels, so channel order is free. */
static const struct {
	uint32_t drm;
	VkFormat format;
} formats[] = {
	{ CC('R', '8', ' ', ' '), VK_FORMAT_R8_UNORM },
	{ CC('G', 'R', 'E', 'Y'), VK_FORMAT_R8_UNORM },
	{ CC('R', '1', '6', ' '), VK_FORMAT_R16_UNORM },
	{ CC('G', 'R', '8', '8'), VK_FORMAT_R8G8_UNORM },
	{ CC('G', 'R', '3', '2'), VK_FORMAT_R16G16_UNORM },
	{ CC('R', 'G', '1', '6'), VK_FORMAT_R5G6B5_UNORM_PACK16 },
	{ CC('B', 'G', '2', '4'), VK_FORMAT_R8G8B8_UNORM },
	{ CC('R', 'G', '2', '4'), VK_FORMAT_B8G8R8_UNORM },
	{ CC('X', 'R', '2', '4'), VK_FORMAT_B8G8R8A8_UNORM },
	{ CC('A', 'R', '2', '4'), VK_FORMAT_B8G8R8A8_UNORM },
	{ CC('X', 'B', '2', '4'), VK_FORMAT_R8G8B8A8_UNORM },
	{ CC('A', 'B', '2', '4'), VK_FORMAT_R8G8B8A8_UNORM },
	{ CC('X', 'R', '3', '0'), VK_FORMAT_A2R10G10B10_UNORM_PACK32 },
	{ CC('A', 'R', '3', '0'), VK_FORMAT_A2R10G10B10_UNORM_PACK32 },
	{ CC('X', 'B', '3', '0'), VK_FORMAT_A2B10G10R10_UNORM_PACK32 },
	{ CC('A', 'B', '3', '0'), VK_FORMAT_A2B10G10R10_UNORM_PACK32 },
	{ CC('X', 'B', '4', '8'), VK_FORMAT_R16G16B16A16_UNORM },
	{ CC('A', 'B', '4', '8'), VK_FORMAT_R16G16B16A16_UNORM },
	{ CC('X', 'B', '4', 'H'), VK_FORMAT_R16G16B16A16_SFLOAT },
	{ CC('A', 'B', '4', 'H'), VK_FORMAT_R16G16B16A16_SFLOAT },
	{ CC('Y', 'U', 'Y', 'V'), VK_FORMAT_G8B8G8R8_422_UNORM },
	{ CC('U', 'Y', 'V', 'Y'), VK_FORMAT_B8G8R8G8_422_UNORM },
	{ CC('N', 'V', '1', '2'), VK_FORMAT_G8_B8R8_2PLANE_420_UNORM },
	{ CC('N', 'V', '2', '1'), VK_FORMAT_G8_B8R8_2PLANE_420_UNORM },
	{ CC('N', 'V', '1', '6'), VK_FORMAT_G8_B8R8_2PLANE_422_UNORM },
	{ CC('N', 'V', '6', '1'), VK_FORMAT_G8_B8R8_2PLANE_422_UNORM },
	{ CC('P', '0', '1', '0'),
	  VK_FORMAT_G10X6_B10X6R10X6_2PLANE_420_UNORM_3PACK16 },
	{ CC('P', '0', '1', '2'),
	  VK_FORMAT_G12X4_B12X4R12X4_2PLANE_420_UNORM_3PACK16 },
	{ CC('P', '0', '1', '6'), VK_FORMAT_G16_B16R16_2PLANE_420_UNORM },
	{ CC('Y', 'U', '1', '2'), VK_FORMAT_G8_B8_R8_3PLANE_420_UNORM },
	{ CC('Y', 'V', '1', '2'), VK_FORMAT_G8_B8_R8_3PLANE_420_UNORM },
	{ CC('Y', 'U', '1', '6'), VK_FORMAT_G8_B8_R8_3PLANE_422_UNORM },
	{ CC('Y', 'U', '2', '4'), VK_FORMAT_G8_B8_R8_3PLANE_444_UNORM },
};

static VkFormat format_of(uint32_t drm)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (formats[i].drm == drm)
			return formats[i].format;
	return VK_FORMAT_UNDEFINED;
}

/* The VkFormat of one plane: one or two channels of 8 or 16 bits. */
static VkFormat plane_format(struct dlbuf_format_plane p)
{
	if (p.bits == 8)
		return p.channels == 1 ? VK_FORMAT_R8_UNORM :
		       p.channels == 2 ? VK_FORMAT_R8G8_UNORM :
					 VK_FORMAT_UNDEFINED;
	if (p.bits == 16)
		return p.channels == 1 ? VK_FORMAT_R16_UNORM :
		       p.channels == 2 ? VK_FORMAT_R16G16_UNORM :
					 VK_FORMAT_UNDEFINED;
	return VK_FORMAT_UNDEFINED;
}

/* One image: which memory planes and which format planes of the frame it has. */
struct texture {
	VkFormat format;
	uint32_t width, height;
	uint32_t memory, nmemory;	/* the first one, and their number */
	uint32_t plane, nplanes;
	VkImageUsageFlags usage;
	bool dedicated;
	uint64_t at;		/* offset in the dma-buf at which the image is bound */
};

struct plan {
	struct texture textures[DLBUF_MAX_PLANES];
	uint32_t n;
};

/* ---- the driver's capabilities */

/* "LINEAR, 0x0100000000000001 and 7 more" */
static void list_modifiers(char *text, size_t size,
			   const VkDrmFormatModifierPropertiesEXT *list,
			   uint32_t n)
{
	const uint32_t max = 6;
	size_t at = 0;

	snprintf(text, size, "no modifier");
	for (uint32_t i = 0; i < n && i < max && at < size; i++)
		at += list[i].drmFormatModifier == DLBUF_MOD_LINEAR ?
			snprintf(text + at, size - at, "%sLINEAR",
				 i ? ", " : "") :
			snprintf(text + at, size - at, "%s0x%016llx",
				 i ? ", " : "", (unsigned long long)
				 list[i].drmFormatModifier);
	if (n > max && at < size)
		snprintf(text + at, size - at, " and %u more", n - max);
}

/* The list of one format is new: free it. */
static int get_modifiers(struct vulkan_device *dev, VkFormat format,
			 VkDrmFormatModifierPropertiesEXT **out, uint32_t *n)
{
	VkDrmFormatModifierPropertiesListEXT list = {
		.sType =
		VK_STRUCTURE_TYPE_DRM_FORMAT_MODIFIER_PROPERTIES_LIST_EXT,
	};
	VkFormatProperties2 properties = {
		.sType = VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_2,
		.pNext = &list,
	};
	struct vulkan_physical *p = &dev->physical;

	dev->instance.vk.GetPhysicalDeviceFormatProperties2(p->handle, format,
		&properties);
	list.pDrmFormatModifierProperties =
		sys_calloc(list.drmFormatModifierCount + 1, sizeof(**out));
	if (!list.pDrmFormatModifierProperties)
		return -ENOMEM;
	dev->instance.vk.GetPhysicalDeviceFormatProperties2(p->handle, format,
		&properties);
	*out = list.pDrmFormatModifierProperties;
	*n = list.drmFormatModifierCount;
	return 0;
}

static bool listed(uint64_t modifier,
		   const VkDrmFormatModifierPropertiesEXT *list, uint32_t n,
		   VkDrmFormatModifierPropertiesEXT *out)
{
	for (uint32_t i = 0; i < n; i++) {
		*out = list[i];
		if (out->drmFormatModifier == modifier)
			return true;
	}
	return false;
}

static int find_modifier(struct vulkan_device *dev, const struct detile *d,
			 const struct texture *t,
			 VkDrmFormatModifierPropertiesEXT *out)
{
	VkDrmFormatModifierPropertiesEXT *list;
	char text[192];
	uint32_t n;
	int ret;

	ret = get_modifiers(dev, t->format, &list, &n);
	if (ret)
		return ret;
	if (!listed(d->from->modifier, list, n, out)) {
		list_modifiers(text, sizeof(text), list, n);
		ret = fail(-EOPNOTSUPP, "vulkan: %s reads plane %u of %s with "
			   "%s, not with modifier 0x%016llx",
			   dev->physical.info.description, t->plane,
			   format_name(d->format), text,
			   (unsigned long long)d->from->modifier);
	}
	free(list);
	return ret;
}

/* The list is per format; this query is for the image with its size and usage. */
static int check_image(struct vulkan_device *dev, const struct detile *d,
		       struct texture *t)
{
	VkPhysicalDeviceImageDrmFormatModifierInfoEXT modifier = {
		.sType =
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_DRM_FORMAT_MODIFIER_INFO_EXT,
		.drmFormatModifier = d->from->modifier,
		.sharingMode = VK_SHARING_MODE_EXCLUSIVE,
	};
	VkPhysicalDeviceExternalImageFormatInfo external = {
		.sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO,
		.pNext = &modifier,
		.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT,
	};
	VkPhysicalDeviceImageFormatInfo2 info = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2,
		.pNext = &external,
		.format = t->format,
		.type = VK_IMAGE_TYPE_2D,
		.tiling = VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT,
		.usage = t->usage,
	};
	VkExternalImageFormatProperties features = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_IMAGE_FORMAT_PROPERTIES,
	};
	VkImageFormatProperties2 properties = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2,
		.pNext = &features,
	};
	VkExternalMemoryFeatureFlags f;
	VkExtent3D max;
	int ret;

	ret = VULKAN_CALL(&dev->instance.vk,
			  GetPhysicalDeviceImageFormatProperties2,
			  dev->physical.handle, &info, &properties);
	if (ret)
		return ret;
	f = features.externalMemoryProperties.externalMemoryFeatures;
	if (!(f & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT))
		return fail(-EOPNOTSUPP, "vulkan: dma-bufs of %s with modifier "
			    "0x%016llx are not importable", format_name(d->format),
			    (unsigned long long)d->from->modifier);
	max = properties.imageFormatProperties.maxExtent;
	if (t->width > max.width || t->height > max.height)
		return fail(-EOPNOTSUPP, "vulkan: an image of %ux%u texels, %s "
			    "has %ux%u at most", t->width, t->height,
			    dev->physical.info.description, max.width,
			    max.height);
	t->dedicated = f & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
	return 0;
}

static int check_texture(struct vulkan_device *dev, const struct detile *d,
			 struct texture *t)
{
	VkDrmFormatModifierPropertiesEXT m = { .drmFormatModifier = 0 };
	int ret;

	ret = find_modifier(dev, d, t, &m);
	if (ret)
		return ret;
	if (m.drmFormatModifierPlaneCount != t->nmemory)
		return fail(-EOPNOTSUPP, "vulkan: %s with modifier 0x%016llx "
			    "has %u planes in memory, the frame says %u",
			    format_name(d->format),
			    (unsigned long long)d->from->modifier,
			    m.drmFormatModifierPlaneCount, t->nmemory);
	/* The query below reports whether other usages are possible. */
	if (t->usage == VK_IMAGE_USAGE_TRANSFER_SRC_BIT &&
	    !(m.drmFormatModifierTilingFeatures &
	      VK_FORMAT_FEATURE_TRANSFER_SRC_BIT))
		return fail(-EOPNOTSUPP, "vulkan: %s does not copy from %s "
			    "with modifier 0x%016llx",
			    dev->physical.info.description,
			    format_name(d->format),
			    (unsigned long long)d->from->modifier);
	return check_image(dev, d, t);
}

/*
 * Plans one image for all planes. By the specification an image of a subsampled
 * format has an even size.
 */
static int plan_whole(struct vulkan_device *dev, const struct detile *d,
		      struct plan *plan)
{
	struct dlbuf_format_plane last = d->planes[d->to.nplanes - 1];
	struct texture *t = &plan->textures[0];

	*t = (struct texture){
		.format = format_of(d->format->drm),
		.width = d->from->width,
		.height = d->from->height,
		.nmemory = d->from->nplanes,
		.nplanes = d->to.nplanes,
		.usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT,
	};
	plan->n = 1;
	if (!d->format->drm || !t->format)
		return fail(-EOPNOTSUPP, "vulkan: there is no VkFormat for %s",
			    format_name(d->format));
	if (!d->one_buffer)
		return fail(-EOPNOTSUPP, "vulkan: the planes of an image are "
			    "in several dma-bufs");
	if (t->width % last.hsub || t->height % last.vsub)
		return fail(-EOPNOTSUPP, "vulkan: an image of %s has no odd "
			    "size", format_name(d->format));
	return check_texture(dev, d, t);
}

/* Plans an image for each plane. */
static int plan_apart(struct vulkan_device *dev, const struct detile *d,
		      struct plan *plan)
{
	plan->n = d->to.nplanes;
	for (uint32_t i = 0; i < plan->n; i++) {
		struct dlbuf_format_plane p = d->planes[i];
		struct texture *t = &plan->textures[i];
		int ret;

		*t = (struct texture){
			.format = plane_format(p),
			.width = d->from->width / p.hsub +
				 (d->from->width % p.hsub != 0),
			.height = d->from->height / p.vsub +
				  (d->from->height % p.vsub != 0),
			.memory = i,
			.nmemory = 1,
			.plane = i,
			.nplanes = 1,
			.usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT,
		};
		if (!t->format)
			return fail(-EOPNOTSUPP, "vulkan: there is no VkFormat "
				    "for plane %u of %s", i,
				    format_name(d->format));
		ret = check_texture(dev, d, t);
		if (ret)
			return ret;
	}
	return 0;
}

static int has_modifiers(const struct vulkan_device *dev, const char *why)
{
	if (dev->physical.extensions & EXT_MODIFIER)
		return 0;
	return vulkan_lacks(&dev->physical,
			    VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME, why);
}

static int plan_copy(struct vulkan_device *dev, const struct detile *d,
		     struct plan *plan)
{
	int ret = has_modifiers(dev, "which reads tiled frames");

	if (!ret)
		ret = plan_whole(dev, d, plan);
	if (ret != -EOPNOTSUPP || d->to.nplanes == 1 ||
	    d->from->nplanes != d->to.nplanes)
		return ret;
	forget_failure();
	return plan_apart(dev, d, plan);
}

int vulkan_can_detile(struct dlbuf_device *base, const struct detile *d)
{
	struct plan plan;

	return plan_copy(vulkan_device(base), d, &plan);
}

/* Whether frames with that modifier and as many planes in memory are read. */
static int try_modifier(struct vulkan_device *dev, const struct detile *d,
			uint64_t modifier, uint32_t nplanes)
{
	struct dlbuf_frame from = *d->from;
	struct detile with = *d;
	struct plan plan;

	from.modifier = modifier;
	from.nplanes = nplanes;
	with.from = &from;
	return plan_copy(dev, &with, &plan);
}

/*
 * The candidates are the modifiers that the driver lists for the format as one
 * image, and for the format of the first plane. A modifier is accepted if a
 * plan can be made.
 */
int vulkan_modifiers(struct dlbuf_device *base, const struct detile *d,
		     modifier_fn fn, void *data)
{
	const VkFormat of[] = { format_of(d->format->drm),
				plane_format(d->planes[0]) };
	struct vulkan_device *dev = vulkan_device(base);
	VkDrmFormatModifierPropertiesEXT *lists[2] = { NULL }, known;
	uint32_t n[2] = { 0 };
	int ret = 0;

	if (!(dev->physical.extensions & EXT_MODIFIER))
		return 0;
	for (int k = 0; !ret && k < (d->to.nplanes > 1 ? 2 : 1); k++)
		if (of[k])
			ret = get_modifiers(dev, of[k], &lists[k], &n[k]);
	for (uint32_t i = 0; !ret && i < n[0] + n[1]; i++) {
		bool whole = i < n[0];
		uint64_t m = (whole ? &lists[0][i] : &lists[1][i - n[0]])->
			     drmFormatModifier;
		uint32_t nplanes = whole ?
				   lists[0][i].drmFormatModifierPlaneCount :
				   d->to.nplanes;

		if (!whole && listed(m, lists[0], n[0], &known))
			continue;
		ret = try_modifier(dev, d, m, nplanes);
		if (!ret)
			fn(m, nplanes, data);
		if (ret != -EOPNOTSUPP)
			continue;
		forget_failure();
		ret = 0;
	}
	free(lists[0]);
	free(lists[1]);
	return ret;
}

/* ---- images */

/*
 * Makes an image. layouts: of the planes in memory, or NULL for those that the driver
 * would choose itself.
 */
static int new_image(struct vulkan_device *dev, const struct detile *d,
		     const struct texture *t, const VkSubresourceLayout *layouts,
		     VkImage *out)
{
	VkImageDrmFormatModifierListCreateInfoEXT list = {
		.sType =
	VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_LIST_CREATE_INFO_EXT,
		.drmFormatModifierCount = 1,
		.pDrmFormatModifiers = &d->from->modifier,
	};
	VkImageDrmFormatModifierExplicitCreateInfoEXT given = {
		.sType =
	VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_EXPLICIT_CREATE_INFO_EXT,
		.drmFormatModifier = d->from->modifier,
		.drmFormatModifierPlaneCount = t->nmemory,
		.pPlaneLayouts = layouts,
	};
	VkExternalMemoryImageCreateInfo external = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
		.pNext = layouts ? (void *)&given : &list,
		.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT,
	};
	VkImageCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
		.pNext = &external,
		.imageType = VK_IMAGE_TYPE_2D,
		.format = t->format,
		.extent = { t->width, t->height, 1 },
		.mipLevels = 1,
		.arrayLayers = 1,
		.samples = VK_SAMPLE_COUNT_1_BIT,
		.tiling = VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT,
		.usage = t->usage,
		.sharingMode = VK_SHARING_MODE_EXCLUSIVE,
		.initialLayout = VK_IMAGE_LAYOUT_UNDEFINED,
	};

	VkResult result;

	result = VULKAN_RESULT(&dev->instance.vk, CreateImage, dev->handle, &info, NULL, out);
	/*
	 * No memory is allocated yet: ANV returns this for a pitch or offset that it cannot read.
	 */
	if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY)
		return fail(-EOPNOTSUPP, "vulkan: %s has no image of %ux%u texels with modifier "
			    "0x%016llx and this layout: vkCreateImage: %s",
			    dev->physical.info.description, t->width, t->height,
			    (unsigned long long)d->from->modifier,
			    vulkan_result_name(result));
	return vulkan_check(result, VULKAN_FUNCTION(CreateImage));
}

/*
 * Asks the driver for the layout of a plane in memory. False: it does not know. lavapipe
 * gives the layout of the first plane for all planes.
 */
static bool reported_layout(struct vulkan_device *dev, VkImage image, uint32_t plane,
			    VkSubresourceLayout *reported)
{
	VkImageSubresource part = {
		.aspectMask = VK_IMAGE_ASPECT_MEMORY_PLANE_0_BIT_EXT << plane,
	};
	VkSubresourceLayout first;

	*reported = (VkSubresourceLayout){ 0 };
	dev->instance.vk.GetImageSubresourceLayout(dev->handle, image, &part, reported);
	return !plane || !reported_layout(dev, image, 0, &first) || reported->size != first.size ||
	       reported->offset != first.offset;
}

static int wrong_pitch(const struct vulkan_device *dev, const struct detile *d,
		       uint32_t plane, uint64_t reported)
{
	return fail(-EOPNOTSUPP, "vulkan: %s reads plane %u with modifier 0x%016llx at a "
		    "pitch of %llu bytes, the frame has %lld",
		    dev->physical.info.description, plane,
		    (unsigned long long)d->from->modifier, (unsigned long long)reported,
		    (long long)d->from->planes[plane].pitch);
}

/*
 * Drivers that were seen to accept or refuse each pitch. Other drivers are first asked for their
 * own pitch.
 */
static bool takes_pitches(const struct vulkan_device *dev)
{
	switch (dev->physical.driver) {
	case VK_DRIVER_ID_MESA_RADV:
	case VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA:
	case VK_DRIVER_ID_MESA_LLVMPIPE:
	case VK_DRIVER_ID_MESA_TURNIP:
	case VK_DRIVER_ID_MESA_V3DV:
	case VK_DRIVER_ID_MESA_PANVK:
		return true;
	default:
		return false;
	}
}

static int check_own_pitch(struct vulkan_device *dev, const struct detile *d,
			   const struct texture *t)
{
	VkImage image;
	int ret;

	if (d->from->modifier == DLBUF_MOD_LINEAR || takes_pitches(dev))
		return 0;
	ret = new_image(dev, d, t, NULL, &image);
	if (ret)
		return ret;
	for (uint32_t i = 0; !ret && i < t->nmemory; i++) {
		VkSubresourceLayout reported;

		if (reported_layout(dev, image, i, &reported) &&
		    reported.rowPitch != (uint64_t)d->from->planes[t->memory + i].pitch)
			ret = wrong_pitch(dev, d, t->memory + i, reported.rowPitch);
	}
	dev->instance.vk.DestroyImage(dev->handle, image, NULL);
	return ret;
}

/*
 * Whether the image's memory reaches the end of each plane. *reported: the driver reports these
 * offsets.
 */
static bool reaches(struct vulkan_device *dev, const struct texture *t, VkImage image,
		    const VkSubresourceLayout *layouts, uint64_t *size, bool *reported)
{
	bool alone = false, all = true;

	*size = vulkan_needs(dev, VK_NULL_HANDLE, image, &alone).size;
	*reported = true;
	for (uint32_t i = 0; i < t->nmemory; i++) {
		VkSubresourceLayout l;

		if (!reported_layout(dev, image, i, &l))
			continue;
		*reported &= l.offset == layouts[i].offset;
		all &= *size >= layouts[i].offset + l.size;
	}
	return all;
}

/*
 * Makes the image begin where the frame does. Either the driver reports the offset; or
 * it uses the offset without reporting it, as Turnip does, and needs more memory than
 * without; or a single plane is bound at the offset. Otherwise the frame is refused.
 */
static int place_image(struct vulkan_device *dev, const struct detile *d,
		       struct texture *t, VkSubresourceLayout *layouts, VkImage *image)
{
	VkMemoryRequirements needs;
	uint64_t size, offset = layouts->offset;
	VkImage other;
	bool reported, alone = t->dedicated;
	bool all = reaches(dev, t, *image, layouts, &size, &reported);
	int ret;

	t->at = 0;
	if (all && (reported || t->nmemory > 1))
		return 0;
	if (t->nmemory == 1) {
		layouts->offset = 0;
		ret = new_image(dev, d, t, layouts, &other);
		if (ret)
			return ret;
		needs = vulkan_needs(dev, VK_NULL_HANDLE, other, &alone);
		/* VUID-vkBindImageMemory-memory-02628 */
		if (!alone && offset % needs.alignment == 0) {
			VkImage first = *image;

			*image = other;
			other = first;
			t->at = offset;
		}
		dev->instance.vk.DestroyImage(dev->handle, other, NULL);
		if (t->at || (all && size > needs.size))
			return 0;
	}
	return fail(-EOPNOTSUPP, "vulkan: %s ignores the offset of plane %u with modifier "
		    "0x%016llx, which is %llu", dev->physical.info.description,
		    t->plane, (unsigned long long)d->from->modifier,
		    (unsigned long long)offset);
}

/* Makes the image of a frame's planes, and sets t->at. */
static int create_image(struct vulkan_device *dev, const struct detile *d,
			struct texture *t, VkImage *out)
{
	/* Only offset and rowPitch may be set: the rest has to be 0. */
	VkSubresourceLayout layouts[DLBUF_MAX_PLANES] = { { 0 } };
	VkImage image;
	int ret;

	for (uint32_t i = 0; i < t->nmemory; i++) {
		const struct dlbuf_plane *p = &d->from->planes[t->memory + i];

		layouts[i].offset = p->offset;
		layouts[i].rowPitch = p->pitch;
	}
	ret = check_own_pitch(dev, d, t);
	if (!ret)
		ret = new_image(dev, d, t, layouts, &image);
	if (ret)
		return ret;
	for (uint32_t i = 0; !ret && i < t->nplanes; i++) {
		VkSubresourceLayout reported;

		if (reported_layout(dev, image, i, &reported) &&
		    reported.rowPitch != layouts[i].rowPitch)
			ret = wrong_pitch(dev, d, t->memory + i, reported.rowPitch);
	}
	if (!ret)
		ret = place_image(dev, d, t, layouts, &image);
	if (ret)
		dev->instance.vk.DestroyImage(dev->handle, image, NULL);
	else
		*out = image;
	return ret;
}

static int bind_image(struct vulkan_device *dev, const struct detile *d,
		      const struct texture *t, VkImage image,
		      VkDeviceMemory *memory)
{
	const struct dlbuf_plane *plane = &d->from->planes[t->memory];
	VkMemoryDedicatedAllocateInfo dedicated = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
		.image = image,
	};
	bool alone = t->dedicated, address = dev->physical.address;
	VkMemoryRequirements needs = vulkan_needs(dev, VK_NULL_HANDLE, image, &alone);
	uint64_t bytes = t->at + needs.size;
	uint32_t types;
	int ret;

	/* Only the driver knows where a tiled plane ends, so its size is checked here. */
	if (bytes > plane->bytes)
		return fail(-ERANGE, "vulkan: plane %u of %ux%u pixels with "
			    "modifier 0x%016llx needs %llu bytes, the dma-buf "
			    "has %llu", t->plane, d->from->width,
			    d->from->height,
			    (unsigned long long)d->from->modifier,
			    (unsigned long long)bytes,
			    (unsigned long long)plane->bytes);
	ret = vulkan_memory_types(dev, plane->fd, needs.memoryTypeBits, &types);
	if (ret)
		return ret;
	/* The flags of buffers: a dma-buf may be imported as both. */
	do
		ret = vulkan_import_memory(dev, plane->fd, bytes, types, address,
					   alone ? &dedicated : NULL, memory);
	while (vulkan_import_again(ret, &address));
	if (ret == -EOPNOTSUPP && dev->base.slack && bytes + READ_AHEAD > plane->bytes)
		return fail(ret, "vulkan: vkAllocateMemory: an image of %llu bytes, and 64 "
			    "bytes of read-ahead, in a dma-buf of %llu: allocate a page "
			    "more", (unsigned long long)bytes,
			    (unsigned long long)plane->bytes);
	if (!ret)
		ret = VULKAN_CALL(&dev->instance.vk, BindImageMemory,
				  dev->handle, image, *memory, t->at);
	return ret;
}

void vulkan_copy_free(struct vulkan_device *dev, struct vulkan_copy *copy)
{
	struct vulkan_api *vk = &dev->instance.vk;

	if (!copy)
		return;
	if (copy->cmd)
		vk->FreeCommandBuffers(dev->handle, dev->pool, 1, &copy->cmd);
	for (uint32_t i = 0; i < copy->nimages; i++) {
		vk->DestroyImage(dev->handle, copy->images[i].image, NULL);
		vk->FreeMemory(dev->handle, copy->images[i].memory, NULL);
	}
	free(copy);
}

/* ---- commands */

/*
 * Transfers an image from the foreign queue family, or back. The old layout of the
 * acquire is GENERAL, as foreign users have it. With UNDEFINED, the image's layout at
 * creation, drivers may clear the compression planes.
 */
static VkImageMemoryBarrier image_barrier(struct vulkan_device *dev,
					  VkImage image, bool acquire)
{
	return (VkImageMemoryBarrier){
		.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
		.dstAccessMask = acquire ? VK_ACCESS_TRANSFER_READ_BIT : 0,
		.oldLayout = acquire ? VK_IMAGE_LAYOUT_GENERAL :
				       VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
		.newLayout = acquire ? VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL :
				       VK_IMAGE_LAYOUT_GENERAL,
		.srcQueueFamilyIndex = acquire ? dev->foreign :
						 dev->physical.family,
		.dstQueueFamilyIndex = acquire ? dev->physical.family :
						 dev->foreign,
		.image = image,
		.subresourceRange = {
			/* The right aspect for all planes of an image that is not disjoint. */
			.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT,
			.levelCount = 1,
			.layerCount = 1,
		},
	};
}

static void record_barriers(struct vulkan_device *dev,
			    const struct vulkan_copy *copy, VkCommandBuffer cmd,
			    VkBuffer buffer, bool acquire)
{
	VkImageMemoryBarrier images[DLBUF_MAX_PLANES];
	struct vulkan_owned rows = { buffer, dev->foreign, VK_ACCESS_TRANSFER_WRITE_BIT };

	for (uint32_t i = 0; i < copy->nimages; i++)
		images[i] = image_barrier(dev, copy->images[i].image, acquire);
	vulkan_transfer(dev, cmd, acquire, VK_PIPELINE_STAGE_TRANSFER_BIT, &rows, 1,
			images, copy->nimages);
}

static void record_texture(struct vulkan_device *dev, const struct detile *d,
			   const struct texture *t, VkCommandBuffer cmd,
			   VkImage image, VkBuffer buffer)
{
	VkBufferImageCopy regions[DLBUF_MAX_PLANES];

	for (uint32_t i = 0; i < t->nplanes; i++) {
		struct dlbuf_format_plane p = d->planes[t->plane + i];
		const struct dlbuf_plane *to = &d->to.planes[t->plane + i];
		uint32_t group = p.channels * (p.bits / 8);
		bool whole = t->nplanes > 1;

		regions[i] = (VkBufferImageCopy){
			.bufferOffset = to->offset,
			/* In YUYV two texels are a group, in one plane. */
			.bufferRowLength = to->pitch / group *
				(d->to.nplanes > 1 ? 1 : p.hsub),
			.imageSubresource = {
				.aspectMask = whole ?
					VK_IMAGE_ASPECT_PLANE_0_BIT << i :
					VK_IMAGE_ASPECT_COLOR_BIT,
				.layerCount = 1,
			},
			/* A plane's extent is in its own texels. */
			.imageExtent = { whole ? t->width / p.hsub : t->width,
					 whole ? t->height / p.vsub : t->height,
					 1 },
		};
	}
	dev->instance.vk.CmdCopyImageToBuffer(cmd, image,
		VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, buffer, t->nplanes,
		regions);
}

struct recording {
	struct vulkan_device *dev;
	const struct detile *d;
	const struct plan *plan;
	const struct vulkan_copy *copy;
};

static void record_detile(VkCommandBuffer cmd, uint32_t n, void *data)
{
	const struct recording *r = data;
	VkBuffer buffer = vulkan_import(r->d->imp)->buffer.buffer;

	(void)n;
	record_barriers(r->dev, r->copy, cmd, buffer, true);
	for (uint32_t i = 0; i < r->plan->n; i++)
		record_texture(r->dev, r->d, &r->plan->textures[i], cmd,
			       r->copy->images[i].image, buffer);
	record_barriers(r->dev, r->copy, cmd, buffer, false);
}

static int make_images(struct vulkan_device *dev, const struct detile *d,
		       struct plan *plan, struct vulkan_copy *copy)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		struct texture *t = &plan->textures[i];
		VkImage image;
		int ret = create_image(dev, d, t, &image);

		if (ret)
			return ret;
		copy->images[copy->nimages++].image = image;
		ret = bind_image(dev, d, t, image, &copy->images[i].memory);
		if (ret)
			return ret;
	}
	return 0;
}

int vulkan_detile(const struct detile *d, int fence, int *done)
{
	struct vulkan_device *dev = vulkan_device(d->imp->dev);
	struct vulkan_copy *copy;
	struct plan plan;
	int ret;

	ret = plan_copy(dev, d, &plan);
	if (ret)
		return ret;
	copy = sys_calloc(1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	ret = make_images(dev, d, &plan, copy);
	if (!ret)
		return vulkan_submit_copy(vulkan_import(d->imp), copy, record_detile,
			&(struct recording){ dev, d, &plan, copy }, fence, done);
	/* The command buffer has no commands yet. */
	vulkan_copy_free(dev, copy);
	return ret;
}

/* ---- images of tensors */

int vulkan_image_of_rows(struct vulkan_device *dev, const struct dlbuf_frame *rows,
			 VkImageUsageFlags usage, struct dlbuf_vulkan_image *out)
{
	bool alias;
	struct detile d = {
		.from = rows,
		.format = format_find(rows->code, rows->modifier,
				      DLBUF_CODE_DRM, &alias),
	};
	struct texture t = {
		.format = format_of(rows->code),
		.width = rows->width,
		.height = rows->height,
		.nmemory = 1,
		.nplanes = 1,
		.usage = usage,
	};
	VkDeviceMemory memory = VK_NULL_HANDLE;
	VkImage image;
	int ret;

	ret = has_modifiers(dev, "which makes images of tensors");
	if (!ret)
		ret = check_texture(dev, &d, &t);
	if (!ret)
		ret = create_image(dev, &d, &t, &image);
	if (ret)
		return ret;
	ret = bind_image(dev, &d, &t, image, &memory);
	if (ret) {
		dev->instance.vk.DestroyImage(dev->handle, image, NULL);
		vulkan_free_memory(dev, memory);
		return ret;
	}
	out->image = image;
	out->memory = memory;
	out->format = t.format;
	return 0;
}
