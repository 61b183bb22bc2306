// SPDX-License-Identifier: MIT
/*
 * Tiled frames in the Vulkan backend, against a double of the loader that keeps
 * the rules of VK_EXT_image_drm_format_modifier (tests/doubles/vulkan.h).
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_VULKAN
#include <sys/mman.h>

#include "vulkan_double.h"

#define CC DLBUF_FOURCC
#define XR24 CC('X', 'R', '2', '4')
#define NV12 CC('N', 'V', '1', '2')
#define X_TILED 0x0100000000000001ull
#define CCS 0x0100000000000004ull	/* with a plane of compression */
#define ROWS_BYTES 65536
#define BYTES 65536

static void begin_tiled(void)
{
	struct fake_physical *p;

	begin();
	p = &fake->physical[0];
	add_extension(VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME);
	p->modifiers[0].modifier = DLBUF_MOD_LINEAR;
	p->modifiers[1].modifier = X_TILED;
	p->modifiers[2].modifier = CCS;
	p->modifiers[2].compression = 1;
	p->nmodifiers = 3;
}

/* A copy as the core would request it; memfds replace the dma-bufs. */
static struct tiled {
	struct dlbuf_device *dev;
	struct vulkan_import rows;
	struct dlbuf_frame from;
	struct detile d;
	int fds[2];
} tiled;

static int memfd(uint64_t bytes)
{
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, bytes));
	return fd;
}

/* A device and its buffer of rows. */
static int tiled_init(void)
{
	int ret;

	tiled = (struct tiled){ .fds = { memfd(BYTES), memfd(BYTES) } };
	tiled.rows.base.fd = memfd(ROWS_BYTES);
	ret = dlbuf_device_open("vulkan", NULL, &tiled.dev);
	if (ret)
		return ret;
	tiled.rows.base.dev = tiled.dev;
	tiled.rows.base.id.access = DLBUF_RW;
	tiled.rows.base.bytes = ROWS_BYTES;
	ret = vulkan_backend.import(&tiled.rows.base);
	if (ret) {
		dlbuf_device_close(tiled.dev);
		tiled.dev = NULL;
	}
	return ret;
}

static void tiled_finish(void)
{
	if (tiled.dev) {
		vulkan_backend.unimport(&tiled.rows.base, true);
		dlbuf_device_close(tiled.dev);
	}
	close(tiled.fds[0]);
	close(tiled.fds[1]);
	close(tiled.rows.base.fd);
}

static void tiled_open(void)
{
	REQUIRE_OK(tiled_init());
}

static void begin_open(void)
{
	begin_tiled();
	tiled_open();
}

static void end_open(void)
{
	tiled_finish();
	end();
}

#define TILED_CASE(name) TEST_BETWEEN(name, begin_tiled(), end())
#define OPEN_CASE(name) TEST_BETWEEN(name, begin_open(), end_open())

/* Planes of 256 bytes a row at 4096, 12288 ..., rows of 128 from 0 on. */
static void frame(uint32_t code, uint64_t modifier, uint32_t width, uint32_t height,
		  uint32_t nplanes)
{
	uint64_t at = 0;
	bool alias;

	tiled.from = (struct dlbuf_frame)PICTURE(width, height, code, DLBUF_CODE_DRM,
		nplanes, .modifier = modifier);
	for (uint32_t i = 0; i < nplanes; i++)
		tiled.from.planes[i] = (struct dlbuf_plane){
			.fd = tiled.fds[0],
			.offset = 4096 + 8192 * i,
			.pitch = 256,
			.bytes = BYTES,
		};
	tiled.d = (struct detile){
		.format = format_find(code, 0, DLBUF_CODE_DRM, &alias),
		.from = &tiled.from,
		.one_buffer = true,
		.imp = &tiled.rows.base,
	};
	REQUIRE(tiled.d.format);
	tiled.d.to = tiled.from;
	tiled.d.to.modifier = DLBUF_MOD_LINEAR;
	tiled.d.to.nplanes = format_planes(tiled.d.format, tiled.d.planes);
	for (uint32_t i = 0; i < tiled.d.to.nplanes; i++) {
		struct dlbuf_format_plane p = tiled.d.planes[i];

		tiled.d.to.planes[i] = (struct dlbuf_plane){ -1, 0, at, 128, 0 };
		at += 128 * ((height + p.vsub - 1) / p.vsub);
	}
	fake->nimages = 0;
}

static int detile(void)
{
	int done = 7, ret = vulkan_backend.can_detile(tiled.dev, &tiled.d);

	if (!ret)
		ret = vulkan_backend.detile(&tiled.d, -1, &done);
	CHECK(ret || done == -1);
	return ret;
}

/* ---------------------------------------------------------------- images */

/* The plane's rows in the frame, and in the buffer. */
static void check_rows(const uint8_t *tiles, const uint8_t *rows, uint32_t i)
{
	struct dlbuf_format_plane p = tiled.d.planes[i];
	uint32_t n = (tiled.from.width + p.hsub - 1) / p.hsub * p.channels * (p.bits / 8);

	for (uint32_t y = 0; y < (tiled.from.height + p.vsub - 1) / p.vsub; y++)
		CHECK(!memcmp(rows + tiled.d.to.planes[i].offset + 128 * y,
			      tiles + tiled.from.planes[i].offset + 256 * y, n));
}

/* Also with a driver that ignores offsets. */
OPEN_CASE(known_bytes)
{
	static const struct {
		uint32_t code, width, height, nplanes;
		uint64_t modifier;
	} frames[] = {
		{ XR24, 30, 20, 1, X_TILED }, { XR24, 30, 20, 2, CCS },
		{ CC('Y', 'U', 'Y', 'V'), 40, 8, 1, X_TILED },
		{ NV12, 64, 16, 2, X_TILED }, { NV12, 64, 16, 3, CCS },
		{ NV12, 63, 15, 2, X_TILED },
	};
	uint8_t *tiles, *rows;

	tiles = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, tiled.fds[0], 0);
	rows = mmap(NULL, ROWS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, tiled.rows.base.fd, 0);
	REQUIRE(tiles != MAP_FAILED && rows != MAP_FAILED);
	for (size_t i = 0; i < BYTES; i++)
		tiles[i] = i * 7 + i / 256 * 13;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(frames); i++) {
		bool ignores = i % 2;
		int ret;

		frame(frames[i / 2].code, frames[i / 2].modifier, frames[i / 2].width,
		      frames[i / 2].height, frames[i / 2].nplanes);
		fake->physical[0].no_offset = ignores;
		memset(rows, 0, ROWS_BYTES);
		ret = detile();
		/* An image of several planes cannot be bound elsewhere. */
		CHECK_EQ(ret, ignores && frames[i / 2].nplanes > 1 &&
			 frames[i / 2].width % 2 == 0 ? -EOPNOTSUPP : 0);
		for (uint32_t k = 0; !ret && k < tiled.d.to.nplanes; k++)
			check_rows(tiles, rows, k);
	}
	/* As buffers: ANV takes a dma-buf in one way only. */
	CHECK(fake->address_memory);
	munmap(tiles, BYTES);
	munmap(rows, ROWS_BYTES);
}

OPEN_CASE(dedicated_images)
{
	frame(XR24, X_TILED, 16, 16, 1);
	fake->physical[0].image_dedicated_only = true;
	CHECK_OK(detile());
	CHECK(fake->dedicated);
	fake->physical[0].image_dedicated_only = false;
	fake->physical[0].image_prefers_dedicated = true;
	CHECK_OK(detile());
	CHECK(fake->dedicated);
}

TILED_CASE(rows_as_the_device_wants_them)
{
	static const struct {
		uint64_t wanted, got;
	} cases[] = {
		{ 0, 64 }, { 1, 64 }, { 256, 256 }, { 4096, 4096 },
		{ 65536, 4096 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_device *dev AUTO_DEV = NULL;

		fake->physical[0].copy_align = cases[i].wanted;
		REQUIRE_OK(dlbuf_device_open("vulkan", NULL, &dev));
		CHECK_EQ(dev->copy_align, cases[i].got);
	}
}

/* ---------------------------------------------------------------- refusals */

static void refused(int err, const char *says)
{
	unsigned int submits = fake->submits;

	CHECK_ERR_SAYS(detile(), err, says);
	CHECK_EQ(fake->submits, submits);
	CHECK_EQ(fake->live[FAKE_IMAGE], 0);
	CHECK_EQ(fake->live[FAKE_MEMORY], 1);
	CHECK_EQ(fake->live[FAKE_COMMANDS], 0);
}

OPEN_CASE(what_the_list_lacks)
{
	struct fake_physical *p = &fake->physical[0];

	frame(XR24, 0x0200000000000009ull, 16, 16, 1);
	refused(-EOPNOTSUPP, "Able reads plane 0 of XRGB8888 with LINEAR, "
		"0x0100000000000001, 0x0100000000000004, not with modifier "
		"0x0200000000000009");
	/* A long list is cut off in the error text. */
	p->nmodifiers = 9;
	for (uint32_t i = 3; i < 9; i++)
		p->modifiers[i].modifier = 0x0300000000000000ull | i;
	refused(-EOPNOTSUPP, "0x0300000000000005 and 3 more, not with");
	p->nmodifiers = 0;
	refused(-EOPNOTSUPP, "with no modifier, not with");
}

OPEN_CASE(what_the_driver_cannot)
{
	struct fake_physical *p = &fake->physical[0];

	/* AYUV has no VkFormat; XRGB8888_A8 has none of its planes. */
	frame(CC('A', 'Y', 'U', 'V'), X_TILED, 16, 16, 1);
	refused(-EOPNOTSUPP, "no VkFormat for AYUV");
	frame(CC('X', 'R', 'A', '8'), X_TILED, 16, 16, 2);
	refused(-EOPNOTSUPP, "no VkFormat for plane 0 of XRGB8888_A8");
	frame(XR24, X_TILED, 16, 16, 2);
	refused(-EOPNOTSUPP, "has 1 planes in memory, the frame says 2");
	frame(XR24, CCS, 16, 16, 1);
	refused(-EOPNOTSUPP, "has 2 planes in memory, the frame says 1");
	frame(NV12, X_TILED, 16, 16, 3);
	refused(-EOPNOTSUPP, "has 2 planes in memory, the frame says 3");
	/* Planes of compression are not images by themselves. */
	frame(NV12, CCS, 16, 16, 3);
	tiled.d.one_buffer = false;
	refused(-EOPNOTSUPP, "several dma-bufs");
	frame(XR24, X_TILED, 16, 16, 1);
	p->modifiers[1].no_copy = true;
	refused(-EOPNOTSUPP, "does not copy from");
	p->modifiers[1].no_copy = false;
	p->modifiers[1].no_import = true;
	refused(-EOPNOTSUPP, "not importable");
	p->modifiers[1].no_import = false;
	p->max_image = 15;
	refused(-EOPNOTSUPP, "15x15 at most");
	p->max_image = 16;
	/* Only the driver knows where the planes end. */
	tiled.from.planes[0].bytes = 4096 + 256 * 16 - 1;
	refused(-ERANGE, "needs 8192 bytes, the dma-buf has 8191");
	tiled.from.planes[0].bytes++;
	p->fd_types = 0x09;
	refused(-EOPNOTSUPP, "no memory type");
	p->fd_types = 0xff;
	p->image_types = 0x04;
	CHECK_OK(detile());
	CHECK_EQ(fake->memory_type, 2);
}

/* Drivers that deviate from the request: the rules of cts@nvk and others. */
OPEN_CASE(layouts_that_a_driver_does_not_follow)
{
	struct fake_physical *p = &fake->physical[0];

	/* NVK ends the process for another pitch than its own, so its own is queried first. */
	p->own_pitch = true;
	frame(XR24, X_TILED, 30, 20, 1);
	CHECK_OK(detile());
	tiled.from.planes[0].pitch = 512;
	refused(-EOPNOTSUPP, "reads plane 0 with modifier 0x0100000000000001 at a pitch of 256 "
		"bytes, the frame has 512");
	/* LINEAR has no pitch of its own. */
	p->own_pitch = false;
	tiled.from.modifier = DLBUF_MOD_LINEAR;
	CHECK_OK(detile());
	p->no_pitch = true;
	tiled.from.planes[0].pitch = 1024;
	refused(-EOPNOTSUPP, "at a pitch of 512 bytes, the frame has 1024");
	p->no_pitch = false;
	/* A layout that is not reported cannot differ. */
	p->tells_first = true;
	frame(NV12, DLBUF_MOD_LINEAR, 64, 16, 2);
	tiled.from.planes[1].pitch = 128;
	CHECK_OK(detile());
	p->tells_first = false;
	CHECK_OK(detile());
	p->no_memory = true;
	refused(-EOPNOTSUPP, "VK_ERROR_OUT_OF_DEVICE_MEMORY");
}

OPEN_CASE(offsets_that_a_driver_does_not_follow)
{
	struct fake_physical *p = &fake->physical[0];

	/* One plane is bound at its own offset. */
	p->no_offset = true;
	frame(XR24, X_TILED, 30, 20, 1);
	CHECK_OK(detile());
	REQUIRE(fake->nimages == 2);
	CHECK_EQ(fake->images[1].layouts[0].offset, 0);
	CHECK_EQ(fake->images[1].bound, 4096);
	tiled.from.planes[0].bytes = 4096 + 256 * 20 - 1;
	refused(-ERANGE, "needs 9216 bytes, the dma-buf has 9215");
	frame(XR24, X_TILED, 30, 20, 1);
	tiled.from.planes[0].offset += 256;
	refused(-EOPNOTSUPP, "ignores the offset of plane 0 with modifier 0x0100000000000001, "
		"which is 4352");
	frame(NV12, X_TILED, 64, 16, 2);
	refused(-EOPNOTSUPP, "ignores the offset");
	/* VUID-vkBindImageMemory-memory-02628 */
	p->image_prefers_dedicated = true;
	frame(XR24, X_TILED, 30, 20, 1);
	refused(-EOPNOTSUPP, "ignores the offset of plane 0");
	/* Turnip reports 0, and uses the offset. */
	p->no_offset = false;
	p->tells_no_offset = true;
	fake->nimages = 0;
	CHECK_OK(detile());
	CHECK_EQ(fake->images[0].bound, 0);
	frame(NV12, X_TILED, 64, 16, 2);
	CHECK_OK(detile());
}

static unsigned int turns;

static void count_turns(const char *call)
{
	if (strcmp(call, "vkAllocateMemory") && strcmp(call, "vkFreeMemory"))
		return;
	if (!CHECK_EQ(pthread_mutex_trylock(&vulkan_device(tiled.dev)->lock), EBUSY))
		pthread_mutex_unlock(&vulkan_device(tiled.dev)->lock);
	turns++;
}

/* Imports and their ends take turns on V3DV: those of buffers, copies and images. */
TEST(turns)
{
	struct dlbuf_vulkan_image image;

	begin_tiled();
	fake->physical[0].driver = VK_DRIVER_ID_MESA_V3DV;
	tiled_open();
	fake->look = count_turns;
	frame(NV12, X_TILED, 63, 15, 2);
	CHECK_OK(detile());
	CHECK_EQ(turns, 4);
	frame(XR24, X_TILED, 30, 20, 1);
	fail_call("vkBindImageMemory", VK_ERROR_OUT_OF_HOST_MEMORY);
	CHECK_ERR(vulkan_image_of_rows(vulkan_device(tiled.dev), &tiled.from,
				       VK_IMAGE_USAGE_TRANSFER_SRC_BIT, &image), -ENOMEM);
	fake->failing = NULL;
	CHECK_EQ(turns, 6);
	vulkan_backend.unimport(&tiled.rows.base, true);
	CHECK_EQ(turns, 7);
	fake->look = NULL;
	REQUIRE_OK(vulkan_backend.import(&tiled.rows.base));
	end_open();
}

TEST(an_image_that_fills_the_last_page)
{
	begin_tiled();
	fake->physical[0].prefetch = 64;
	fake->physical[0].granularity = 256;
	tiled_open();
	frame(XR24, X_TILED, 30, (BYTES - 4096) / 256, 1);
	tiled.d.to.planes[0].pitch = 128;
	refused(-EOPNOTSUPP, "an image of 65536 bytes, and 64 bytes of read-ahead, in a dma-buf "
		"of 65536: allocate a page more");
	frame(XR24, X_TILED, 30, (BYTES - 4096) / 256 - 1, 1);
	CHECK_OK(detile());
	end_open();
}

TEST(without_the_extension)
{
	struct fake_physical *p;

	begin_tiled();
	p = &fake->physical[0];
	p->extensions[3] = NULL;
	tiled_open();
	frame(XR24, X_TILED, 16, 16, 1);
	refused(-EOPNOTSUPP, "VK_EXT_image_drm_format_modifier");
	tiled_finish();
	/* On 1.1 it needs another one. */
	p->version = VK_API_VERSION_1_1;
	p->extensions[3] = VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME;
	tiled_open();
	frame(XR24, X_TILED, 16, 16, 1);
	refused(-EOPNOTSUPP, "VK_EXT_image_drm_format_modifier");
	tiled_finish();
	p->extensions[4] = VK_KHR_IMAGE_FORMAT_LIST_EXTENSION_NAME;
	tiled_open();
	frame(XR24, X_TILED, 16, 16, 1);
	CHECK_OK(detile());
	end_open();
}

/* ---------------------------------------------------------------- lists */

#define NV24 CC('N', 'V', '2', '4')
#define AYUV CC('A', 'Y', 'U', 'V')

/* The walk's entries for a fourcc: LINEAR first, then the list with planes. */
struct walked {
	uint32_t fourcc, n;
	uint64_t modifiers[4];
	uint32_t nplanes[4];
	int stop_at;		/* 0: never */
	int calls;
};

static int note_format(const struct dlbuf_device_format *got, void *data)
{
	struct walked *w = data;

	CHECK(got->size == sizeof(*got) && got->name && got->code && got->nplanes);
	CHECK_EQ(got->flags, got->modifier == DLBUF_MOD_LINEAR ?
		 DLBUF_DEVICE_FORMAT_DIRECT : DLBUF_DEVICE_FORMAT_COPY);
	if (got->code_space == DLBUF_CODE_DRM && got->code == w->fourcc &&
	    w->n < 4) {
		w->modifiers[w->n] = got->modifier;
		w->nplanes[w->n++] = got->nplanes;
	}
	return ++w->calls == w->stop_at ? 77 : 0;
}

TILED_CASE(walk_of_formats)
{
	struct walked w = { .fourcc = XR24 }, first = { .stop_at = 1 };
	struct walked later = { 0 };
	struct dlbuf_device *dev AUTO_DEV = open_ok();

	CHECK_OK(dlbuf_device_formats(dev, note_format, &w));
	CHECK_EQ(w.n, 3);
	CHECK(w.modifiers[0] == DLBUF_MOD_LINEAR && w.nplanes[0] == 1);
	CHECK(w.modifiers[1] == X_TILED && w.nplanes[1] == 1);
	CHECK(w.modifiers[2] == CCS && w.nplanes[2] == 2);
	CHECK_EQ(dlbuf_device_formats(dev, note_format, &first), 77);
	CHECK_EQ(first.calls, 1);
	/* In the middle of the modifiers of a format. */
	for (later.stop_at = 2; later.stop_at < w.calls; later.stop_at += 13) {
		later.calls = 0;
		CHECK_EQ(dlbuf_device_formats(dev, note_format, &later), 77);
		CHECK_EQ(later.calls, later.stop_at);
	}
	CHECK_ERR(dlbuf_device_formats(NULL, note_format, &w), -EINVAL);
	CHECK_ERR(dlbuf_device_formats(dev, NULL, &w), -EINVAL);
	fail_call("vkGetPhysicalDeviceImageFormatProperties2", VK_ERROR_OUT_OF_HOST_MEMORY);
	CHECK_ERR(dlbuf_device_formats(dev, note_format, &w), -ENOMEM);
	fail_call("vkGetPhysicalDeviceImageFormatProperties2", VK_ERROR_UNKNOWN);
	CHECK_ERR(dlbuf_device_formats(dev, note_format, &w), -EIO);
	fake->failing = NULL;
}

/* The list of a fourcc is LINEAR and then these, up to the first 0. */
static void check_list(struct dlbuf_device *dev, uint32_t fourcc, const uint64_t want[3])
{
	struct walked w = { .fourcc = fourcc };
	uint32_t n = 1;

	CHECK_OK(dlbuf_device_formats(dev, note_format, &w));
	CHECK_EQ(w.modifiers[0], DLBUF_MOD_LINEAR);
	for (; want[n - 1]; n++)
		CHECK_EQ(w.modifiers[n], want[n - 1]);
	CHECK_EQ(w.n, n);
}

TEST(lists_of_modifiers)
{
	static const struct {
		bool no_planar, no_copy, no_import;	/* of X_TILED */
		uint32_t fourcc;
		uint64_t want[3];
	} cases[] = {
		{ false, false, false, XR24, { X_TILED, CCS } },
		{ false, true, false, XR24, { CCS } },
		{ false, false, true, XR24, { CCS } },
		/* One image, or one of each plane, which CCS is not for. */
		{ false, false, false, NV12, { X_TILED, CCS } },
		{ true, false, false, NV12, { X_TILED } },
		{ false, false, false, NV24, { X_TILED } },
		{ false, true, false, NV24, { 0 } },
		{ false, false, false, AYUV, { 0 } },
	};
	struct dlbuf_device *dev;
	struct fake_physical *p;

	begin_tiled();
	p = &fake->physical[0];
	dev = open_ok();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		p->no_planar = cases[i].no_planar;
		p->modifiers[1].no_copy = cases[i].no_copy;
		p->modifiers[1].no_import = cases[i].no_import;
		check_list(dev, cases[i].fourcc, cases[i].want);
	}
#ifdef CONFIG_FAULT_INJECTION
	for (unsigned long i = 1; i; i = fault_count() < i ? 0 : i + 1) {
		struct walked w = { .fourcc = NV24 };

		fault_at(i);
		if (dlbuf_device_formats(dev, note_format, &w))
			CHECK(dlbuf_last_error()[0]);
		else
			CHECK_EQ(w.n, 2);
	}
	fault_at(0);
#endif
	dlbuf_device_close(dev);
	p->extensions[3] = NULL;
	dev = open_ok();
	check_list(dev, XR24, (uint64_t[3]){ 0 });
	dlbuf_device_close(dev);
	end();
}

OPEN_CASE(every_refusal_of_a_copy)
{
	static const struct {
		const char *call;
		unsigned int spared;
	} calls[] = {
		{ "vkGetPhysicalDeviceImageFormatProperties2", 2 },
		/* Each image is made twice, first with the driver's own pitch. */
		{ "vkCreateImage", 0 }, { "vkCreateImage", 1 }, { "vkCreateImage", 3 },
		{ "vkGetMemoryFdPropertiesKHR", 1 }, { "vkAllocateMemory", 0 },
		{ "vkAllocateMemory", 1 }, { "vkBindImageMemory", 0 },
		{ "vkBindImageMemory", 1 }, { "vkAllocateCommandBuffers", 0 },
		{ "vkBeginCommandBuffer", 0 }, { "vkEndCommandBuffer", 0 },
		{ "vkCreateFence", 0 }, { "vkQueueSubmit", 0 },
	};
	static const struct {
		VkResult result;
		int ret;
		const char *name;
	} results[] = {
		{ VK_ERROR_INVALID_EXTERNAL_HANDLE, -EOPNOTSUPP,
		  "VK_ERROR_INVALID_EXTERNAL_HANDLE" },
		{ VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT,
		  -EOPNOTSUPP,
		  "VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT" },
		{ VK_ERROR_OUT_OF_DEVICE_MEMORY, -ENOMEM,
		  "VK_ERROR_OUT_OF_DEVICE_MEMORY" },
		{ VK_ERROR_DEVICE_LOST, -EIO, "VK_ERROR_DEVICE_LOST" },
	};

	fake->physical[0].no_planar = true;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(results); j++) {
			/* Two images, so that the second can fail. */
			frame(NV12, X_TILED, 16, 16, 2);
			fake->result = results[j].result;
			fake->spared = calls[i].spared;
			fake->failing = calls[i].call;
			/* An image has no memory: there it is about the layout. */
			refused(results[j].ret == -ENOMEM &&
				!strcmp(calls[i].call, "vkCreateImage") ? -EOPNOTSUPP :
				results[j].ret, calls[i].call);
			CHECK_SAYS(results[j].name);
			fake->failing = NULL;
		}
	}
	/* A failure after the submit: the copy has ended, and is refused, too. */
	frame(NV12, X_TILED, 16, 16, 2);
	fail_call("vkWaitForFences", VK_ERROR_DEVICE_LOST);
	CHECK_ERR(detile(), -EIO);
	CHECK_EQ(fake->drains, 1);
	CHECK_EQ(fake->pending, 0);
	CHECK_EQ(fake->live[FAKE_IMAGE], 0);
	fake->failing = NULL;
	CHECK_OK(detile());
}

/* ---------------------------------------------------------------- order */

TEST(the_device_waits)
{
	int in, out = -1;

	begin_tiled();
	able(true, true);
	tiled_open();
	frame(NV12, X_TILED, 16, 16, 2);
	in = eventfd(0, EFD_CLOEXEC);
	CHECK_OK(vulkan_backend.detile(&tiled.d, in, &out));
	CHECK_EQ(fake->semaphores_in, 1);
	CHECK_EQ(fake->semaphores_out, 1);
	CHECK(out >= 3);
	fake->run();
	CHECK_EQ(fake->waits + fake->drains, 0);
	CHECK_EQ(fence_signalled(out), 0);
	/* The images live as long as the device may read them. */
	CHECK_EQ(fake->live[FAKE_IMAGE], 1);
	CHECK_EQ(fake->live[FAKE_MEMORY], 2);
	signal_fence(in);
	fake->run();
	CHECK_EQ(fence_signalled(out), 1);
	close(in);
	close(out);
	/* The first access to the rows puts them away. */
	CHECK_OK(vulkan_backend.acquire(&tiled.rows.base, DLBUF_READ, ON(NULL), -1));
	CHECK_EQ(fake->live[FAKE_IMAGE], 0);
	CHECK_EQ(fake->live[FAKE_MEMORY], 1);
	CHECK_OK(vulkan_backend.release(&tiled.rows.base, DLBUF_READ, ON(NULL), &out, NULL));
	if (out != -1)
		close(out);
	end_open();
}

/* Rows that go, with a copy into them under way. */
TILED_CASE(unimport_waits_for_the_copy)
{
	int in, out = -1;

	able(true, true);
	tiled_open();
	fake->busy = true;
	frame(NV12, X_TILED, 16, 16, 2);
	in = eventfd(0, EFD_CLOEXEC);
	CHECK_OK(vulkan_backend.detile(&tiled.d, in, &out));
	close(out);
	signal_fence(in);
	close(in);
	CHECK_EQ(fake->pending, 1);
	tiled_finish();
	CHECK_EQ(fake->pending, 0);
}

TILED_CASE(every_failure_with_fences)
{
	static const char *const calls[] = {
		"vkCreateSemaphore", "vkImportSemaphoreFdKHR", "vkQueueSubmit",
		"vkGetSemaphoreFdKHR",
	};

	able(true, true);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		int in AUTO_FD = eventfd(1, EFD_CLOEXEC), out = 7;

		tiled_open();
		frame(NV12, X_TILED, 16, 16, 2);
		fail_call(calls[i], VK_ERROR_DEVICE_LOST);
		CHECK_ERR_SAYS(vulkan_backend.detile(&tiled.d, in, &out), -EIO, calls[i]);
		CHECK_EQ(fake->live[FAKE_IMAGE], 0);
		CHECK_EQ(fake->pending, 0);
		fake->failing = NULL;
		tiled_finish();
	}
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static int walk(void)
{
	int in = eventfd(1, EFD_CLOEXEC), out = -1, ret = tiled_init();

	if (!ret) {
		frame(NV12, X_TILED, 16, 16, 2);
		ret = vulkan_backend.can_detile(tiled.dev, &tiled.d);
		if (!ret)
			ret = vulkan_backend.detile(&tiled.d, in, &out);
	}
	tiled_finish();
	if (out != -1)
		close(out);
	close(in);
	return ret;
}

TILED_CASE(every_call_fails_once)
{
	able(true, true);
	fake->physical[0].no_planar = true;
	check_walks(walk);
}
#endif
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
