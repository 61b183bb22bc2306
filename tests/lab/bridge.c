// SPDX-License-Identifier: MIT
/*
 * The bridge on a real driver, with real dma-bufs and fences: its capabilities,
 * and tests of each. The test is the other API: it maps the shared memory and
 * signals timelines from the host. Lavapipe, which the lab has, shares its
 * memory as a memfd and does not share its timelines.
 */
#include <sys/mman.h>

#include "../cts/cts.h"
#include "bridge/device.h"

#define PAGES 777
#define BYTES (PAGES * 4096ull)

const char *cts_device = "vulkan:0";
const struct access *cts_access = &access_vulkan;

static const uint8_t *uuid_of(void)
{
	static DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev = cts_open();

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	dlbuf_device_close(dev);
	return info.uuid;
}

static struct bridge *create(struct bridge_caps *caps)
{
	struct bridge *bridge = NULL;
	int ret;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks, Mesa caches");
	KTAP_KEEPS(KTAP_FDS, "Mesa keeps a cache on disk");
	ret = vulkan_bridge_create(uuid_of(), 0, &bridge, caps);
	if (ret == -EOPNOTSUPP)
		SKIP("%s", dlbuf_last_error());
	REQUIRE_OK(ret);
	return bridge;
}

static void destroy(struct bridge *bridge)
{
	bridge_links_free(bridge, NULL, NULL);
	bridge_close(bridge);
}

/* ---- capabilities */

/* The trial again: the caps name only the first missing feature of the driver. */
static void note_why_no_fence(struct bridge *bridge)
{
	struct vulkan_device *dev = bridge->dev;
	struct vulkan_physical *p = &dev->physical;
	bool signals = p->signals;

	vulkan_physical_find_sync(&dev->instance, p);
	ktap_note(NULL, 0, "SYNC_FD out: %d", p->signals);
	if (vulkan_bridge_try_out(bridge)) {
		CHECK(!signals);
		ktap_note(NULL, 0, "no fence of a value: %s",
			  dlbuf_last_error());
	} else {
		CHECK(signals);
	}
	p->signals = signals;
}

static void caps(void *arg)
{
	struct bridge_caps caps = { 0 }, open_caps = { 0 };
	struct bridge *bridge = create(&caps), *other = NULL;
	const struct vulkan_physical *p = &bridge->dev->physical;
	bool any;
	int ret;

	ktap_note(NULL, 0, "%s, %s", p->info.description, p->info.driver);
	ktap_note(NULL, 0, "timelines shared: %d; memory shared: %d%s; SYNC_FD "
		  "in: %d; a value as SYNC_FD: %d; queues: %u", bridge->links,
		  bridge->memory, bridge->dedicated_only ? ", dedicated" : "",
		  p->waits, p->signals, p->queues);
	ktap_note(NULL, 0, "why not: %s", caps.why_not);
	note_why_no_fence(bridge);
	CHECK_EQ(caps.buffers, bridge->links && bridge->memory);
	CHECK_EQ(caps.fences_in, bridge->links && p->waits);
	CHECK_EQ(caps.fences_out, bridge->links && p->signals);
	CHECK_EQ(caps.buffers && caps.fences_in && caps.fences_out,
		 !caps.why_not[0]);
	any = caps.buffers || caps.fences_in || caps.fences_out;
	ret = bridge_open(uuid_of(), 0, &other, &open_caps);
	CHECK_EQ(ret, any ? 0 : -EOPNOTSUPP);
	CHECK_STR(open_caps.why_not, caps.why_not);
	if (ret)
		CHECK_STR(dlbuf_last_error(), caps.why_not);
	else
		bridge_close(other);
	destroy(bridge);
}

/* ---- bytes */

struct pair {
	struct bridge *bridge;
	struct bridge_buffer *buffer;
	int dma_buf;
	uint8_t *map;		/* all of the memory's fd */
	size_t map_bytes;
	uint8_t *theirs;	/* in it, the memory itself */
	uint8_t *want, *got;
};

static uint64_t reached(struct pair *p, struct bridge_link *base)
{
	struct vulkan_device *dev = p->bridge->dev;
	struct link *link = container_of(base, struct link, base);
	uint64_t value = UINT64_MAX;

	CHECK_EQ(dev->instance.vk.GetSemaphoreCounterValue(dev->handle,
		link->timeline, &value), VK_SUCCESS);
	return value;
}

static struct bridge_link *link_get(struct pair *p)
{
	struct bridge_link *link = NULL;

	REQUIRE_OK(bridge_link_get(p->bridge, &link));
	/* No one takes it: it ends with the link. */
	CHECK_EQ(link->fd >= 3, p->bridge->links);
	CHECK_EQ(reached(p, link), link->value - 1);
	return link;
}

static VkSemaphore timeline_of(struct bridge_link *link)
{
	return container_of(link, struct link, base)->timeline;
}

static void wait_for(struct pair *p, struct bridge_link *link)
{
	CHECK_OK(vulkan_timeline_wait(p->bridge->dev, timeline_of(link),
				      link->value));
	bridge_link_put(p->bridge, link);
}

static void copy_in(struct pair *p, int fence)
{
	struct bridge_link *link = link_get(p);

	REQUIRE_OK(bridge_in(p->bridge, p->buffer, fence, link));
	wait_for(p, link);
}

/*
 * The memory in the fd: drivers that allocate in a file may begin it with
 * something of their own.
 */
static void find_theirs(struct pair *p)
{
	cts_pattern(p->want, BYTES, 17);
	cts_poke(p->dma_buf, 0, p->want, BYTES);
	copy_in(p, -1);
	p->theirs = memmem(p->map, p->map_bytes, p->want, BYTES);
	CHECK_MSG(p->theirs, "the bytes are nowhere in %zu", p->map_bytes);
	REQUIRE(p->theirs);
}

static void pair_create(struct pair *p, const char *exporter)
{
	struct bridge_caps caps;
	uint64_t allocated = 0;
	bool dedicated;
	int fd = -1;

	*p = (struct pair){ .dma_buf = cts_alloc(exporter, BYTES) };
	p->bridge = create(&caps);
	if (!p->bridge->memory)
		SKIP("%s", caps.why_not);
	p->want = malloc(BYTES);
	p->got = malloc(BYTES);
	REQUIRE_OK(bridge_buffer_create(p->bridge, p->dma_buf, BYTES,
					       &p->buffer, &fd, &allocated,
					       &dedicated));
	CHECK(fd >= 3 && allocated >= BYTES);
	p->map_bytes = lseek(fd, 0, SEEK_END);
	CHECK(p->map_bytes >= allocated);
	p->map = mmap(NULL, p->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, 0);
	REQUIRE(p->map != MAP_FAILED);
	close(fd);
	find_theirs(p);
	ktap_note(NULL, 0, "%llu bytes of %llu at %zu of %zu%s",
		  BYTES, (unsigned long long)allocated,
		  (size_t)(p->theirs - p->map), p->map_bytes,
		  dedicated ? ", dedicated" : "");
}

static void pair_destroy(struct pair *p)
{
	bridge_buffer_destroy(p->buffer);
	destroy(p->bridge);
	munmap(p->map, p->map_bytes);
	close(p->dma_buf);
	free(p->want);
	free(p->got);
}

static bool theirs_are(struct pair *p, uint32_t seed)
{
	cts_pattern(p->want, BYTES, seed);
	return !memcmp(p->theirs, p->want, BYTES);
}

static bool ours_are(struct pair *p, uint32_t seed)
{
	cts_pattern(p->want, BYTES, seed);
	cts_peek(p->dma_buf, 0, p->got, BYTES);
	return !memcmp(p->got, p->want, BYTES);
}

static void write_ours(struct pair *p, uint32_t seed)
{
	cts_pattern(p->want, BYTES, seed);
	/* Without the bracket, which would wait for fences. */
	cts_poke_raw(p->dma_buf, 0, p->want, BYTES);
}

/* The host plays the other API: before, where the submit would wait for it. */
static void copy_out(struct pair *p)
{
	struct vulkan_device *dev = p->bridge->dev;
	struct bridge_link *link = link_get(p);
	bool fenced = dev->physical.signals;
	int fence = 7;

	if (!fenced)
		CHECK_OK(vulkan_timeline_signal(dev, timeline_of(link),
						link->value));
	REQUIRE_OK(bridge_out(p->bridge, p->buffer, link, &fence));
	if (fenced)
		CHECK_OK(vulkan_timeline_signal(dev, timeline_of(link),
						link->value));
	else
		CHECK_EQ(fence, -1);
	CHECK_OK(dlbuf_fence_wait(fence, 0));
	if (fence != -1)
		close(fence);
	bridge_link_put(p->bridge, link);
}

static void copies(void *arg)
{
	struct pair p;

	pair_create(&p, arg);
	for (uint32_t i = 0; i < 3; i++) {
		write_ours(&p, 2 * i);
		copy_in(&p, -1);
		CHECK(theirs_are(&p, 2 * i));
		cts_pattern(p.theirs, BYTES, 2 * i + 1);
		CHECK(ours_are(&p, 2 * i));
		copy_out(&p);
		CHECK(ours_are(&p, 2 * i + 1));
		CHECK(theirs_are(&p, 2 * i + 1));
	}
	pair_destroy(&p);
}

/* ---- fences */

/*
 * Bytes that are written after the submit are copied, because the copy waits
 * for the fence. Without the fence they are not copied, and nothing waits.
 */
static void waits(void *arg)
{
	struct bridge_link *link;
	struct cts_fence f;
	struct pair p;

	pair_create(&p, arg);
	cts_fence_create(&f);
	if (!p.bridge->dev->physical.waits) {
		pair_destroy(&p);
		cts_fence_destroy(&f);
		SKIP("the driver takes no SYNC_FD");
	}
	write_ours(&p, 1);
	copy_in(&p, -1);
	write_ours(&p, 2);
	CHECK_EQ(dlbuf_fence_wait(f.sync_file, 1), -ETIME);
	CHECK(theirs_are(&p, 1));

	link = link_get(&p);
	REQUIRE_OK(bridge_in(p.bridge, p.buffer, f.sync_file, link));
	CHECK(reached(&p, link) < link->value);
	write_ours(&p, 3);
	CHECK(theirs_are(&p, 1));
	CHECK(reached(&p, link) < link->value);
	CHECK_EQ(dlbuf_fence_wait(f.sync_file, 1), -ETIME);
	cts_fence_signal(&f);
	wait_for(&p, link);
	CHECK(theirs_are(&p, 3));
	cts_fence_destroy(&f);
	pair_destroy(&p);
}

int main(int argc, char **argv)
{
	static const char *const exporters[] = { "udmabuf", "heap" };

	ktap_prefix("%s", "bridge");
	ktap_case("caps", caps, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(exporters); i++) {
		void *exporter = (void *)exporters[i];

		ktap_case(cts_name("copies@%s", exporters[i]), copies, exporter);
		ktap_case(cts_name("waits@%s", exporters[i]), waits, exporter);
	}
	return ktap_run(argc, argv);
}
