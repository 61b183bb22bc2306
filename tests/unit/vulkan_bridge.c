// SPDX-License-Identifier: MIT
/*
 * The bridge against a double of the loader (tests/doubles/vulkan.h): its use
 * of a driver's results, that bytes and values arrive at the right place and
 * not too early, and that it frees everything after any failure. The other API
 * is the test: it has the timelines' memory and the buffers'.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_VULKAN
#include <sys/mman.h>

#include "bridge/device.h"
#include "vulkan_double.h"

#define PAGES 5
#define BYTES (PAGES * 4096ull)

static const uint8_t uuid[16] = { 0xab };

static void nobody_reads(void *data, enum dlbuf_log_level level,
			 const char *text)
{
}

static void begin_able(void)
{
	struct fake_physical *p;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	begin();
	dlbuf_log_set(nobody_reads, NULL, DLBUF_LOG_WARN);
	able(true, true);
	p = &fake->physical[0];
	p->timeline = p->timeline_out = p->memory_out = true;
	p->queues = 16;
}

#define ABLE_CASE(name) TEST_BETWEEN(name, begin_able(), end())

/* The state for most cases. */
static struct bridge *bridge;
static struct bridge_caps caps;

static void bridge_ok(void)
{
	REQUIRE_OK(bridge_open(uuid, 0, &bridge, &caps));
	CHECK(caps.buffers && caps.fences_in && caps.fences_out);
	CHECK_STR(caps.why_not, "");
}

/* ---------------------------------------------------------------- the other */

/* A link as the other API sees it. */
static uint64_t *timeline(struct bridge_link *link)
{
	if (link->fd != -1) {
		CHECK(link->fd >= 3);
		CHECK(!link->user);
		link->user = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, link->fd, 0);
		REQUIRE(link->user != MAP_FAILED);
		close(link->fd);
		link->fd = -1;
	}
	REQUIRE(link->user);
	return link->user;
}

static uint64_t value_of(struct bridge_link *link)
{
	return __atomic_load_n(timeline(link), __ATOMIC_ACQUIRE);
}

static void other_signals(struct bridge_link *link)
{
	CHECK_EQ(value_of(link), link->value - 1);
	__atomic_store_n(timeline(link), link->value, __ATOMIC_RELEASE);
}

static void forget_link(struct bridge_link *link, void *data)
{
	if (link->user)
		munmap(link->user, 4096);
	++*(unsigned int *)data;
}

static struct bridge_link *link_ok(void)
{
	struct bridge_link *link = NULL;

	REQUIRE_OK(bridge_link_get(bridge, &link));
	return link;
}

/* Everything goes; how many links there were. */
static unsigned int close_bridge(void)
{
	unsigned int n = 0;

	bridge_links_free(bridge, forget_link, &n);
	CHECK_EQ(fake->live[FAKE_BUFFER], 0);
	bridge_close(bridge);
	bridge = NULL;
	return n;
}

static void begin_bridge(void)
{
	begin_able();
	bridge_ok();
}

static void end_bridge(void)
{
	close_bridge();
	end();
}

#define BRIDGE_CASE(name) TEST_BETWEEN(name, begin_bridge(), end_bridge())
/* The case opens it. */
#define ABLE_BRIDGE_CASE(name) TEST_BETWEEN(name, begin_able(), end_bridge())

/* ---------------------------------------------------------------- buffers */

static struct pair {
	struct bridge_buffer *buffer;
	int dma_buf;
	uint8_t *ours;		/* the dma-buf, mapped */
	uint8_t *theirs;	/* the memory */
	uint64_t allocated;
	bool dedicated;
} pair;

static uint8_t *map(int fd, uint64_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	REQUIRE(p != MAP_FAILED);
	return p;
}

static int pair_create(void)
{
	int fd, ret;

	pair = (struct pair){ .dma_buf = -1 };
	fd = memfd_create("a dma-buf", MFD_CLOEXEC);
	pair.dma_buf = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	REQUIRE(pair.dma_buf >= 0 && !ftruncate(fd, BYTES));
	close(fd);
	fd = -7;
	ret = bridge_buffer_create(bridge, pair.dma_buf, BYTES, &pair.buffer, &fd,
				   &pair.allocated, &pair.dedicated);
	if (ret) {
		CHECK_EQ(fd, -7);
		CHECK(!pair.buffer);
		close(pair.dma_buf);
		return ret;
	}
	CHECK(fd >= 3 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK_EQ(lseek(fd, 0, SEEK_END), pair.allocated);
	pair.ours = map(pair.dma_buf, BYTES);
	pair.theirs = map(fd, BYTES);
	close(fd);
	return 0;
}

static void pair_destroy(void)
{
	bridge_buffer_destroy(pair.buffer);
	munmap(pair.ours, BYTES);
	munmap(pair.theirs, BYTES);
	close(pair.dma_buf);
}

static void fill(uint8_t *p, uint32_t seed)
{
	for (uint64_t i = 0; i < BYTES; i++)
		p[i] = (i * 7 + i / 4096 * 13 + seed) & 0xff;
}

static bool filled(const uint8_t *p, uint32_t seed)
{
	for (uint64_t i = 0; i < BYTES; i++)
		if (p[i] != ((i * 7 + i / 4096 * 13 + seed) & 0xff))
			return false;
	return true;
}

/* A bridge with a pair, whose bytes are 1 and 2. */
static void begin_pair(void)
{
	begin_bridge();
	REQUIRE_OK(pair_create());
	fill(pair.ours, 1);
	fill(pair.theirs, 2);
}

static void end_pair(void)
{
	pair_destroy();
	end_bridge();
}

#define PAIR_CASE(name) TEST_BETWEEN(name, begin_pair(), end_pair())

/* ---------------------------------------------------------------- opening */

static void no_extension(void)
{
	const char **p = fake->physical[0].extensions;

	for (; *p; p++)
		if (!strcmp(*p, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME))
			*p = NULL;
}

/*
 * The bridge of a driver, or its device, that lacks something: the result, and whether there are
 * buffers, fences in and fences out; the error text, or the reason for what there is not.
 */
static void check_lack(const char *lacks, int want, bool buffers, bool in, bool out,
		       const char *why)
{
	int ret = bridge_open(uuid, 0, &bridge, &caps);

	CHECK_MSG(ret == want && caps.buffers == buffers && caps.fences_in == in &&
		  caps.fences_out == out, "%s: %d, %d %d %d: %s", lacks, ret, caps.buffers,
		  caps.fences_in, caps.fences_out, dlbuf_last_error());
	if (ret) {
		CHECK_SAYS(why);
	} else {
		CHECK_MSG(strstr(caps.why_not, why), "%s", caps.why_not);
		close_bridge();
	}
	fake->without = fake->failing = NULL;
	end();
}

TEST(what_a_driver_can)
{
	struct fake_physical *p;

#define LACKS(lacks, ...)						\
	begin_able();							\
	p = &fake->physical[0];						\
	lacks;								\
	ktap_forget();							\
	check_lack(#lacks, __VA_ARGS__)
	LACKS(no_extension(), -EOPNOTSUPP, 0, 0, 0, "VK_KHR_external_semaphore_fd");
	LACKS(p->timeline = false, -EOPNOTSUPP, 0, 0, 0, "timeline");
	LACKS(p->timeline_out = false, -EOPNOTSUPP, 0, 0, 0, "timelines are not exportable");
	LACKS(p->memory_out = false, 0, 0, 1, 1, "memory is not exportable");
	LACKS(p->no_import = true, 0, 0, 1, 1, "not importable");
	LACKS(p->sync_fd_in = false, 0, 1, 0, 1, "SYNC_FD is not importable");
	LACKS(p->sync_fd_out = false, 0, 1, 1, 0, "SYNC_FD is not exportable");
	LACKS(p->memory_out = p->sync_fd_in = p->sync_fd_out = false,
	  -EOPNOTSUPP, 0, 0, 0, "memory is not exportable");
	LACKS(p->no_compute = true, -EOPNOTSUPP, 0, 0, 0, "no queue");
	LACKS(p->uuid = 0xcd, -ENODEV, 0, 0, 0, "ab00000000000000");
	LACKS(fake->nphysical = 0, -ENODEV, 0, 0, 0, "no driver has a device");
	LACKS(setenv("DLBUF_VULKAN_LIBRARY", "/nowhere/libvulkan.so.1", 1),
	  -ENODEV, 0, 0, 0, "vulkan");
	LACKS(fake->without = "vkWaitSemaphores", -EOPNOTSUPP, 0, 0, 0, "no timeline semaphores");
	LACKS(fake->without = "vkCmdCopyBuffer", -EOPNOTSUPP, 0, 0, 0, "vkCmdCopyBuffer");
	LACKS(fake->without = "vkGetMemoryFdKHR", 0, 0, 1, 1, "memory is not exportable");
	LACKS(fake->without = "vkGetSemaphoreFdKHR", -EOPNOTSUPP, 0, 0, 0,
	  "timelines are not exportable");
	LACKS(fake->no_fd = true, 0, 1, 1, 0, "waits for the other API's signal");
	LACKS(fake->export_blocks = -1, 0, 1, 1, 0, "waits for the other API's signal");
	LACKS(fake->export_early = true, 0, 1, 1, 0, "does not wait");
	LACKS(fake->export_late = true, 0, 1, 1, 0, "does not signal");
	/* The trial's semaphore is the first that is exported. */
	LACKS(fail_call("vkGetSemaphoreFdKHR", VK_ERROR_INVALID_EXTERNAL_HANDLE),
	  0, 1, 1, 0, "vkGetSemaphoreFdKHR");
	LACKS(fail_call("vkGetSemaphoreFdKHR", VK_ERROR_INITIALIZATION_FAILED),
	  0, 1, 1, 0, "vkGetSemaphoreFdKHR");
	/* The answer would be another one with more fds. */
	LACKS(fail_call("vkGetSemaphoreFdKHR", VK_ERROR_TOO_MANY_OBJECTS),
	  -EMFILE, 0, 0, 0, "vkGetSemaphoreFdKHR");
}

/* The requested device; a device that fails during the search may be it. */
ABLE_CASE(which_device)
{
	fake->nphysical = 3;
	fake->physical[2] = fake->physical[0];
	fake->physical[0].version = VK_API_VERSION_1_0;
	fake->physical[1].uuid = 0xcd;
	REQUIRE_OK(bridge_open(uuid, 0, &bridge, &caps));
	CHECK(caps.buffers && caps.fences_out);
	CHECK_EQ(bridge->dev->physical.index, 2);
	close_bridge();
	fail_call("vkEnumerateDeviceExtensionProperties", VK_ERROR_UNKNOWN);
	CHECK_ERR(bridge_open(uuid, 0, &bridge, &caps), -EIO);
	CHECK_SAYS("vkEnumerateDeviceExtensionProperties");
	fake->failing = NULL;
}

/* A thread that seems to wait may only be slow on a busy machine. */
ABLE_BRIDGE_CASE(a_slow_machine)
{
	fake->export_blocks = 2;
	bridge_ok();
	CHECK_EQ(fake->export_blocks, 0);
}

/* By the extension where the version has it not, and without VK_EXT_..._foreign. */
TEST(vulkan_1_1)
{
	struct bridge_link *link;

	begin_able();
	fake->physical[0].version = VK_API_VERSION_1_1;
	fake->physical[0].extensions[2] = VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME;
	bridge_ok();
	REQUIRE_OK(pair_create());
	fill(pair.ours, 1);
	link = link_ok();
	CHECK_OK(bridge_in(bridge, pair.buffer, -1, link));
	fake->run();
	CHECK_EQ(value_of(link), 1);
	CHECK(filled(pair.theirs, 1));
	bridge_link_put(bridge, link);
	end_pair();
}

/* ---------------------------------------------------------------- copies */

TEST(in)
{
	int fence = pending_fence();
	struct bridge_link *link;

	begin_pair();
	link = link_ok();
	CHECK_EQ(link->value, 1);
	CHECK_OK(bridge_in(bridge, pair.buffer, fence, link));
	/* Behind the fence, which is the caller's still. */
	fake->run();
	CHECK(filled(pair.theirs, 2));
	CHECK_EQ(value_of(link), 0);
	signal_fence(fence);
	close(fence);
	fake->run();
	CHECK_EQ(value_of(link), 1);
	CHECK(filled(pair.theirs, 1));
	CHECK(filled(pair.ours, 1));
	CHECK_EQ(fake->waits + fake->drains, 1); /* the trial's */
	CHECK_EQ(fake->imports, 1);
	bridge_link_put(bridge, link);
	/* Without a fence at once, and the same link again. */
	fill(pair.ours, 3);
	CHECK(link_ok() == link);
	CHECK_EQ(link->value, 2);
	CHECK_EQ(link->fd, -1);
	CHECK_OK(bridge_in(bridge, pair.buffer, -1, link));
	fake->run();
	CHECK_EQ(value_of(link), 2);
	CHECK(filled(pair.theirs, 3));
	CHECK_EQ(fake->imports, 1);
	CHECK_EQ(fake->copies, 2);
	bridge_link_put(bridge, link);
	pair_destroy();
	CHECK_EQ(close_bridge(), 1);
	end();
}

PAIR_CASE(out)
{
	struct bridge_link *link = link_ok();
	int fence = 7;

	CHECK_OK(bridge_out(bridge, pair.buffer, link, &fence));
	CHECK(fence >= 3 && fcntl(fence, F_GETFD) == FD_CLOEXEC);
	/* The other API was asked to signal, and has not done it yet. */
	fake->run();
	CHECK_EQ(fence_signalled(fence), 0);
	CHECK(filled(pair.ours, 1));
	other_signals(link);
	fake->run();
	CHECK_EQ(fence_signalled(fence), 1);
	CHECK(filled(pair.ours, 2));
	close(fence);
	bridge_link_put(bridge, link);
}

/*
 * Fences alone. A copy out waits for the other API. A copy in does not wait for it,
 * unless there is only one queue.
 */
TEST(queues)
{
	for (uint32_t queues = 1; queues <= 2; queues++) {
		bool held_up = queues == 1;
		struct bridge_link *a, *b;
		VkQueue queue;
		int fence = 7;

		begin_able();
		fake->physical[0].queues = queues;
		bridge_ok();
		a = link_ok();
		b = link_ok();
		CHECK_OK(bridge_out(bridge, NULL, a, &fence));
		queue = fake->queue;
		CHECK_OK(bridge_in(bridge, NULL, -1, b));
		CHECK_EQ(queue == fake->queue, held_up);
		fake->run();
		CHECK_EQ(value_of(b), !held_up);
		other_signals(a);
		fake->run();
		CHECK_EQ(value_of(b), 1);
		CHECK_EQ(fence_signalled(fence), 1);
		CHECK_EQ(fake->copies, 0);
		close(fence);
		bridge_link_put(bridge, a);
		bridge_link_put(bridge, b);
		end_bridge();
	}
}

/* If the device cannot wait for the fence, the caller has to. */
ABLE_BRIDGE_CASE(no_fences_in)
{
	struct bridge_link *link;
	int fence;

	fake->physical[0].sync_fd_in = false;
	REQUIRE_OK(bridge_open(uuid, 0, &bridge, &caps));
	link = link_ok();
	fence = pending_fence();
	fake->submits = 0;
	CHECK_ERR(bridge_in(bridge, NULL, fence, link), -EOPNOTSUPP);
	CHECK_EQ(fake->submits, 0);
	CHECK_OK(bridge_in(bridge, NULL, -1, link));
	close(fence);
	bridge_link_put(bridge, link);
}

/* ---------------------------------------------------------------- waiting */

struct call {
	struct bridge_link *link;
	int ret, fence;
};

static void out_of(void *arg)
{
	struct call *c = arg;

	c->ret = bridge_out(bridge, pair.buffer, c->link, &c->fence);
}

/* No fence to give: it waits, and others go on meanwhile. */
TEST(out_waits_where_the_export_would)
{
	for (int blocks = 0; blocks < 2; blocks++) {
		struct bridge_link *other;
		struct call c = { .ret = -7, .fence = 7 };

		begin_able();
		fake->physical[0].sync_fd_out = blocks;
		fake->export_blocks = -blocks;
		REQUIRE_OK(bridge_open(uuid, 0, &bridge, &caps));
		CHECK(!caps.fences_out);
		REQUIRE_OK(pair_create());
		c.link = link_ok();
		begin_to_wait(out_of, &c);
		other = link_ok();
		CHECK(other != c.link);
		CHECK_OK(bridge_in(bridge, NULL, -1, other));
		bridge_link_put(bridge, other);
		fill(pair.theirs, 4);
		other_signals(c.link);
		end_of_wait();
		CHECK_EQ(c.ret, 0);
		CHECK_EQ(c.fence, -1);
		CHECK(filled(pair.ours, 4));
		bridge_link_put(bridge, c.link);
		end_pair();
	}
}

static void destroy(void *arg)
{
	pair_destroy();
}

TEST(a_buffer_waits_for_its_copies)
{
	int fence = pending_fence(), done = 7;
	struct bridge_link *in, *out;

	begin_pair();
	in = link_ok();
	out = link_ok();
	CHECK_OK(bridge_in(bridge, pair.buffer, fence, in));
	CHECK_OK(bridge_out(bridge, pair.buffer, out, &done));
	begin_to_wait(destroy, NULL);
	other_signals(out);
	signal_fence(fence);
	end_of_wait();
	CHECK_EQ(fence_signalled(done), 1);
	CHECK_EQ(fake->pending, 0);
	close(fence);
	close(done);
	bridge_link_put(bridge, in);
	bridge_link_put(bridge, out);
	end_bridge();
}

/* ---------------------------------------------------------------- links */

TEST(links_are_used_again_when_reached)
{
	struct bridge_link *a, *b, *c;
	int fence = 7;

	begin_bridge();
	a = link_ok();
	CHECK(a->fd >= 3);
	CHECK_OK(bridge_out(bridge, NULL, a, &fence));
	close(fence);
	bridge_link_put(bridge, a);
	b = link_ok();
	CHECK(b != a && b->value == 1);
	CHECK(b->fd >= 3 && b->fd != a->fd);
	other_signals(a);
	c = link_ok();
	CHECK(c == a && c->value == 2 && c->user);
	CHECK_OK(bridge_in(bridge, NULL, -1, b));
	CHECK_OK(bridge_in(bridge, NULL, -1, c));
	bridge_link_put(bridge, b);
	bridge_link_put(bridge, c);
	/* A hundred uses, each over before the next. */
	for (int i = 0; i < 100; i++) {
		a = link_ok();
		CHECK_OK(bridge_out(bridge, NULL, a, &fence));
		close(fence);
		other_signals(a);
		bridge_link_put(bridge, a);
	}
	CHECK_EQ(fake->made[FAKE_SEMAPHORE], 3 + 2 + 2);
	/* b's fd was not taken: it goes with the link. */
	CHECK_EQ(close_bridge(), 2);
	end();
}

TEST(abandoned)
{
	struct bridge_link *link;

	begin_pair();
	link = link_ok();
	fail_call("vkQueueSubmit", VK_ERROR_DEVICE_LOST);
	CHECK_ERR_SAYS(bridge_in(bridge, pair.buffer, -1, link), -EIO, "vkQueueSubmit");
	fake->failing = NULL;
	CHECK_EQ(value_of(link), 0);
	fake->signals = 0;
	bridge_link_abandon(bridge, link);
	CHECK_EQ(fake->signals, 1);
	CHECK_EQ(value_of(link), 1);
	CHECK(link_ok() == link);
	CHECK_EQ(link->value, 2);
	/* The host's signal fails, too: the link is of use all the same. */
	fake->failing = "vkSignalSemaphore";
	bridge_link_abandon(bridge, link);
	fake->failing = NULL;
	CHECK_EQ(value_of(link), 1);
	CHECK(link_ok() == link);
	CHECK_EQ(link->value, 2);
#ifdef CONFIG_FAULT_INJECTION
	/* Once only: it is tried again. */
	fault_at(1);
	bridge_link_abandon(bridge, link);
	fault_at(0);
	CHECK_EQ(value_of(link), 2);
	CHECK(link_ok() == link);
#endif
	CHECK_OK(bridge_in(bridge, pair.buffer, -1, link));
	bridge_link_put(bridge, link);
	pair_destroy();
	CHECK_EQ(close_bridge(), 1);
	end();
}

static void free_links(void *n)
{
	bridge_links_free(bridge, forget_link, n);
}

/* Whether Vulkan is to wait for it, too, or the other API alone knows. */
TEST(links_wait)
{
	for (int submitted = 0; submitted < 2; submitted++) {
		struct bridge_link *link;
		unsigned int n = 0;
		uint64_t *value;
		int fence = -1;

		begin_bridge();
		link = link_ok();
		if (submitted)
			CHECK_OK(bridge_out(bridge, NULL, link, &fence));
		value = timeline(link);
		bridge_link_put(bridge, link);
		begin_to_wait(free_links, &n);
		__atomic_store_n(value, 1, __ATOMIC_RELEASE);
		end_of_wait();
		CHECK_EQ(n, 1);
		CHECK_EQ(fence_signalled(fence), 1);
		if (submitted)
			close(fence);
		bridge_close(bridge);
		end();
	}
}

/* Their values have been reached, or are unknown. */
TEST(links_of_a_lost_device)
{
	struct bridge_link *link, *other;

	begin_bridge();
	link = link_ok();
	/* A release is about to wait for a signal of the lost device. */
	link->theirs = true;
	bridge_links_abandon(bridge);
	CHECK_EQ(value_of(link), 1);
	bridge_link_abandon(bridge, link);
	CHECK(link_ok() == link);
	bridge_link_put(bridge, link);
	fail_call("vkGetSemaphoreCounterValue", VK_ERROR_DEVICE_LOST);
	other = link_ok();
	CHECK(other != link);
	bridge_link_put(bridge, other);
	fake->failing = "vkWaitSemaphores";
	CHECK_EQ(close_bridge(), 2);
	fake->failing = NULL;
	CHECK_EQ(fake->live[FAKE_SEMAPHORE], 0);
	end();
}

/* ---------------------------------------------------------------- memory */

ABLE_BRIDGE_CASE(memory_is_on_the_device)
{
	static const struct {
		uint32_t types;
		int type;	/* -1: none fits */
	} cases[] = {
		{ 0, 5 },
		/* If none of these can be shared, host memory is used. */
		{ 0x1f, 1 },
		{ 0x9, -1 },
	};

	fake->physical[0].host_memory = true;
	bridge_ok();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (cases[i].types)
			fake->physical[0].buffer_types = cases[i].types;
		if (cases[i].type < 0) {
			CHECK_ERR(pair_create(), -EOPNOTSUPP);
			continue;
		}
		REQUIRE_OK(pair_create());
		CHECK_EQ(fake->memory_type, cases[i].type);
		pair_destroy();
	}
}

TEST(dedicated)
{
	static const struct {
		bool only, shared_only, prefers;
		bool dedicated;
	} cases[] = {
		{ false, false, false, false },
		{ true, false, false, false },
		{ false, true, false, true },
		{ false, false, true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		begin_able();
		fake->physical[0].dedicated_only = cases[i].only;
		fake->physical[0].shared_dedicated_only = cases[i].shared_only;
		fake->physical[0].prefers_dedicated = cases[i].prefers;
		bridge_ok();
		REQUIRE_OK(pair_create());
		CHECK_EQ(pair.dedicated, cases[i].dedicated);
		CHECK_EQ(fake->dedicated, cases[i].dedicated);
		CHECK_EQ(pair.allocated, BYTES);
		end_pair();
	}
}

/* ---------------------------------------------------------------- failures */

/* fence_signalled() without its part in the faults. */
static bool signalled(int fence)
{
	struct pollfd p = { .fd = fence, .events = POLLIN };

	return fence == -1 || poll(&p, 1, 0) == 1;
}

/* All of it, once; 0 or the first that failed. */
static int walk(void)
{
	struct bridge_link *link;
	int fence = pending_fence(), out = -1, ret = bridge_open(uuid, 0, &bridge, &caps);

	if (ret) {
		close(fence);
		return ret;
	}
	ret = pair_create();
	if (ret)
		goto close;
	fill(pair.ours, 5);
	ret = bridge_link_get(bridge, &link);
	if (ret)
		goto destroy;
	ret = bridge_in(bridge, pair.buffer, fence, link);
	signal_fence(fence);
	fake->run();
	if (ret) {
		bridge_link_abandon(bridge, link);
		goto destroy;
	}
	CHECK_EQ(value_of(link), 1);
	CHECK(filled(pair.theirs, 5));
	bridge_link_put(bridge, link);
	ret = bridge_link_get(bridge, &link);
	if (ret)
		goto destroy;
	fill(pair.theirs, 6);
	other_signals(link); /* it may wait for that */
	ret = bridge_out(bridge, pair.buffer, link, &out);
	if (!ret) {
		fake->run();
		CHECK(filled(pair.ours, 6));
		CHECK(signalled(out));
	}
	CHECK(!ret || (out == -1 && !fake->pending));
	if (out != -1)
		close(out);
	bridge_link_put(bridge, link);
destroy:
	pair_destroy();
close:
	close_bridge();
	close(fence);
	return ret;
}

/* Each call of each function fails, once, and from then on always. */
ABLE_CASE(every_failure)
{
	static const char *const calls[] = {
		"vkEnumerateInstanceVersion", "vkCreateInstance",
		"vkEnumeratePhysicalDevices",
		"vkEnumerateDeviceExtensionProperties", "vkCreateDevice",
		"vkCreateCommandPool", "vkCreateSemaphore", "vkCreateFence",
		"vkQueueSubmit", "vkCreateBuffer", "vkGetMemoryFdPropertiesKHR",
		"vkAllocateMemory", "vkBindBufferMemory", "vkGetMemoryFdKHR",
		"vkAllocateCommandBuffers", "vkBeginCommandBuffer",
		"vkEndCommandBuffer", "vkImportSemaphoreFdKHR",
	};
	unsigned int failures;

	CHECK_OK(walk());
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		failures = 0;
		for (unsigned int spared = 0; spared < 20; spared++) {
			int ret;

			fail_call(calls[i], VK_ERROR_DEVICE_LOST);
			fake->spared = spared;
			ktap_forget();
			ret = walk();
			if (!ret)
				break;
			failures++;
			CHECK_EQ(ret, -EIO);
			CHECK_SAYS(calls[i]);
			CHECK_MSG(nothing_left(), "%s, %u", calls[i], spared);
		}
		CHECK_MSG(failures, "%s was never called", calls[i]);
		CHECK_MSG(failures < 20, "%s without an end", calls[i]);
	}
	fake->failing = NULL;
}

/* A failed export of the trial is a result; other failed exports are failures. */
BRIDGE_CASE(no_fence_comes_out)
{
	struct bridge_link *link = link_ok(), *other = NULL;
	int fence = 7;

	fail_call("vkGetSemaphoreFdKHR", VK_ERROR_TOO_MANY_OBJECTS);
	CHECK_ERR(bridge_link_get(bridge, &other), -EMFILE);
	CHECK(!other);
	other_signals(link);
	CHECK_ERR_SAYS(bridge_out(bridge, NULL, link, &fence), -EMFILE, "vkGetSemaphoreFdKHR");
	CHECK_EQ(fence, -1);
	CHECK_EQ(fake->pending, 0);
	fake->failing = NULL;
	bridge_link_put(bridge, link);
}

TEST(no_fence_is_standard_input)
{
	int kept = fcntl(0, F_DUPFD_CLOEXEC, 3), out = 7;
	struct bridge_link *link;

	begin_bridge();
	REQUIRE(kept >= 3);
	close(0);
	REQUIRE_OK(pair_create()); /* looks at its fd */
	CHECK(fcntl(0, F_GETFD) < 0);
	link = link_ok();
	CHECK(link->fd >= 3);
	CHECK_OK(bridge_out(bridge, NULL, link, &out));
	CHECK(out >= 3);
	CHECK(fcntl(0, F_GETFD) < 0);
	CHECK_EQ(dup2(kept, 0), 0);
	close(kept);
	close(out);
	other_signals(link);
	bridge_link_put(bridge, link);
	end_pair();
}

#ifdef CONFIG_FAULT_INJECTION
ABLE_CASE(every_call_fails_once)
{
	check_walks(walk);
	fake->physical[0].sync_fd_out = false;
	check_walks(walk);
}
#endif
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
