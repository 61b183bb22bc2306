/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the Vulkan backend: the double of its loader
 * (tests/doubles/vulkan.h), and an import as the core would request it.
 */
#ifndef UNIT_VULKAN_DOUBLE_H
#define UNIT_VULKAN_DOUBLE_H

#include "double.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include <dlbuf/dlbuf.h>

#include "backends/vulkan/vulkan.h"
#include "doubles/vulkan.h"
#include "system/event.h"
#include "dmabuf/fence.h"
#include <generated/seen.h>	/* of dlbuf/vulkan.h, too */

static struct fake_vulkan *fake;
#include "counts.h"
static fake_vulkan_fn fake_fn;
static void *fake_lib;

static inline void begin(void)
{
	fake_lib = double_open("libvulkan.so", "DLBUF_VULKAN_LIBRARY");
	fake_fn = (fake_vulkan_fn)dlsym(fake_lib, "fake_vulkan");
	REQUIRE(fake_fn);
	fake = fake_fn(true);
	dlbuf_log_set(NULL, NULL, DLBUF_LOG_NONE);
	/* Its submits are not in the counts. */
	trial_none = true;
}

static inline void end(void)
{
	CHECK_EQ(fake->wrong, 0);
	nothing_left();
	fake_fn(true);
	dlclose(fake_lib);
	unsetenv("DLBUF_VULKAN_LIBRARY");
}

static inline struct dlbuf_device *open_ok(void)
{
	struct dlbuf_device *dev = NULL;

	REQUIRE_OK(dlbuf_device_open("vulkan", NULL, &dev));
	return dev;
}

/* One more that the device has. */
static inline void add_extension(const char *name)
{
	const char **p = fake->physical[0].extensions;

	while (*p && strcmp(*p, name))
		p++;
	*p = name;
}

/* A device whose semaphores take sync_files in, give them out. */
static inline void able(bool in, bool out)
{
	add_extension(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME);
	fake->physical[0].sync_fd_in = in;
	fake->physical[0].sync_fd_out = out;
}

/* All calls of this function, after fake->spared ones; NULL: no calls any more. */
static inline void fail_call(const char *call, VkResult result)
{
	fake->result = result;
	fake->failing = call;
}

/* ---------------------------------------------------------------- imports */

#define IMPORT_BYTES 8192

/* An import as the core would request it; a memfd replaces the dma-buf. */
struct fixture {
	struct dlbuf_device *dev;
	struct vulkan_import vi;
};
static struct fixture f;	/* the state of most cases */

static inline int import_at(struct vulkan_import *vi, struct dlbuf_device *dev)
{
	vi->base.dev = dev;
	vi->base.id.access = DLBUF_RW;
	vi->base.bytes = IMPORT_BYTES;
	vi->base.fd = memfd_create("a dma-buf", MFD_CLOEXEC);
	if (vi->base.fd < 0 || ftruncate(vi->base.fd, IMPORT_BYTES))
		return -errno;
	return vulkan_backend.import(&vi->base);
}

static inline int import_into(struct fixture *of, struct dlbuf_device *dev)
{
	*of = (struct fixture){ .dev = dev };
	return import_at(&of->vi, dev);
}

static inline void import_finish(struct fixture *of, int ret)
{
	if (!ret)
		vulkan_backend.unimport(&of->vi.base, true);
	close(of->vi.base.fd);
}

/* A device that is able, and an import of it. */
static inline void begin_import(bool in, bool out)
{
	begin();
	able(in, out);
	REQUIRE_OK(import_into(&f, open_ok()));
}

static inline void end_import(void)
{
	import_finish(&f, 0);
	dlbuf_device_close(f.dev);
	end();
}

#define IMPORT_CASE(name) TEST_BETWEEN(name, begin_import(true, true), end_import())

/* More imports by the device of the first one, and accesses of all. */
static inline void import_more(struct fixture of[], struct bracket list[], uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		REQUIRE_OK(import_into(&of[i], f.dev));
		list[i] = (struct bracket){ &of[i].vi.base, DLBUF_RW };
	}
}

static inline int acquire_after(uint32_t access, int fence)
{
	return vulkan_backend.acquire(&f.vi.base, access, ON(NULL), fence);
}

static inline int acquire(uint32_t access)
{
	return acquire_after(access, -1);
}

static inline int release(uint32_t access)
{
	int fence = 7, ret = vulkan_backend.release(&f.vi.base, access, ON(NULL), &fence, NULL);

	CHECK_EQ(fence, -1);
	return ret;
}

/* ---------------------------------------------------------------- waits */

/* A call on a thread of its own. */
static struct {
	void (*fn)(void *arg);
	void *arg;
	pthread_t thread;
	_Atomic(bool) waits, over;
} beside;

static inline void look_for_waits(const char *call)
{
	if (strstr(call, "vkWait") || !strcmp(call, "vkQueueWaitIdle"))
		beside.waits = true;
}

static inline void *run_beside(void *arg)
{
	beside.fn(beside.arg);
	beside.over = true;
	return arg;
}

/* On return the call waits for the device. */
static inline void begin_to_wait(void (*fn)(void *arg), void *arg)
{
	beside.fn = fn;
	beside.arg = arg;
	beside.waits = beside.over = false;
	fake->look = look_for_waits;
	REQUIRE(!pthread_create(&beside.thread, NULL, run_beside, NULL));
	while (!beside.waits && !beside.over)
		sched_yield();
	CHECK(!beside.over);
}

static inline void end_of_wait(void)
{
	pthread_join(beside.thread, NULL);
	fake->look = NULL;
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
/* Each call of a walk fails once, and nothing stays behind. */
static inline void check_walks(int (*walk)(void))
{
	unsigned long calls;

	fault_at(0);
	CHECK_OK(walk());
	calls = fault_count();
	CHECK(calls > 20);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		fault_at(n);
		ret = walk();
		fault_at(0);
		CHECK(!ret || dlbuf_last_error()[0]);
		nothing_left();
		CHECK_MSG(!fake->wrong, "call %lu of %lu", n, calls);
		fake->wrong = 0;
	}
}
#endif

#endif /* UNIT_VULKAN_DOUBLE_H */
