// SPDX-License-Identifier: MIT
/*
 * The Vulkan backend against a double of the loader (tests/doubles/vulkan.h):
 * the order of waits, barriers and fences, and every failure on the way.
 */
#include "ktap.h"

#ifdef CONFIG_BACKEND_VULKAN
#include "vulkan_double.h"

/* ---------------------------------------------------------------- order */

static void check_barriers(uint32_t foreign)
{
	static const struct {
		uint32_t access;
		VkAccessFlags begins, ends;
	} cases[] = {
		{ DLBUF_READ, VK_ACCESS_MEMORY_READ_BIT, 0 },
		{ DLBUF_WRITE, VK_ACCESS_MEMORY_WRITE_BIT,
		  VK_ACCESS_MEMORY_WRITE_BIT },
		{ DLBUF_RW, VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
		  VK_ACCESS_MEMORY_WRITE_BIT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_OK(acquire(cases[i].access));
		CHECK_EQ(fake->waits, i);
		CHECK(fake->barrier.buffer == f.vi.buffer.buffer);
		CHECK_EQ(fake->barrier.offset, 0);
		CHECK_EQ(fake->barrier.size, VK_WHOLE_SIZE);
		CHECK_EQ(fake->barrier.srcQueueFamilyIndex, foreign);
		CHECK_EQ(fake->barrier.dstQueueFamilyIndex, 1);
		CHECK_EQ(fake->barrier.dstAccessMask, cases[i].begins);
		CHECK_EQ(fake->dst_stage, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
		CHECK_OK(release(cases[i].access));
		CHECK_EQ(fake->waits, i + 1);
		CHECK_EQ(fake->barrier.srcQueueFamilyIndex, 1);
		CHECK_EQ(fake->barrier.dstQueueFamilyIndex, foreign);
		CHECK_EQ(fake->barrier.srcAccessMask, cases[i].ends);
		CHECK_EQ(fake->src_stage, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
	}
}

/* With VK_EXT_queue_family_foreign, and without it. */
TEST(handed_over)
{
	for (int with = 0; with < 2; with++) {
		begin();
		if (!with)
			fake->physical[0].extensions[2] = NULL;
		REQUIRE_OK(import_into(&f, open_ok()));
		check_barriers(with ? VK_QUEUE_FAMILY_FOREIGN_EXT :
				      VK_QUEUE_FAMILY_EXTERNAL);
		end_import();
	}
}

TEST(streams)
{
	unsigned int users[2] = { 0 };	/* as the double's queues have */
	VkQueue other = (VkQueue)(void *)users;
	int fence = 7;

	begin();
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_OK(vulkan_backend.acquire(&f.vi.base, DLBUF_READ, ON(other), -1));
	CHECK(fake->queue == other);
	CHECK_OK(vulkan_backend.release(&f.vi.base, DLBUF_READ, ON(other), &fence, NULL));
	CHECK_EQ(fence, -1);
	CHECK(fake->queue == other);
	CHECK_OK(acquire(DLBUF_READ));
	CHECK(fake->queue && fake->queue != other);
	CHECK_OK(release(DLBUF_READ));
	end_import();
}

TEST(accesses_cost_nothing_new)
{
	begin();
	REQUIRE_OK(import_into(&f, open_ok()));
	for (int i = 0; i < 100; i++) {
		CHECK_OK(acquire(DLBUF_READ));
		CHECK_OK(release(DLBUF_READ));
	}
	CHECK_EQ(fake->made[FAKE_FENCE], 1);
	CHECK_EQ(fake->made[FAKE_COMMANDS], 2);
	CHECK_EQ(fake->submits, 200);
	end_import();
}

/* ---------------------------------------------------------------- fences */

/* The fence of the work, closed here. */
static int release_fence(uint32_t access)
{
	int fence = -1;

	CHECK_OK(vulkan_backend.release(&f.vi.base, access, ON(NULL), &fence, NULL));
	CHECK(fence >= 3 && fcntl(fence, F_GETFD) == FD_CLOEXEC);
	return fence;
}

IMPORT_CASE(the_device_waits)
{
	int in = pending_fence(), out AUTO_FD = -1;

	CHECK_OK(acquire_after(DLBUF_READ, in));
	CHECK_EQ(fake->semaphores_in, 1);
	CHECK_EQ(fake->semaphores_out, 0);
	out = release_fence(DLBUF_READ);
	CHECK_EQ(fake->semaphores_in, 0);
	CHECK_EQ(fake->semaphores_out, 1);
	/* Neither of the two has waited, nor has the work begun. */
	fake->run();
	CHECK_EQ(fake->waits + fake->drains, 0);
	CHECK_EQ(fake->pending, 2);
	CHECK_EQ(fence_signalled(out), 0);
	/* The fence in is the caller's still. */
	signal_fence(in);
	close(in);
	fake->run();
	CHECK_EQ(fence_signalled(out), 1);
	CHECK_EQ(fake->imports, 1);
	CHECK_EQ(fake->exports, 1);
}

IMPORT_CASE(without_a_fence_no_semaphore)
{
	CHECK_OK(acquire(DLBUF_RW));
	CHECK_EQ(fake->semaphores_in + fake->semaphores_out, 0);
	CHECK_EQ(fake->imports, 0);
	close(release_fence(DLBUF_RW));
}

/* With any number: one submit and one semaphore in each direction. */
IMPORT_CASE(several_at_once)
{
	struct fixture of[MAX_BRACKETS];
	struct bracket list[MAX_BRACKETS];
	struct vulkan_job *job;
	int in, out;

	import_more(of, list, MAX_BRACKETS);
	for (uint32_t n = 1; n <= MAX_BRACKETS; n++) {
		/* One buffer may be in the list twice, and not all write. */
		list[n / 2].imp = list[0].imp;
		list[n - 1].access = DLBUF_READ;
		fake->submits = fake->imports = fake->exports = 0;
		in = pending_fence();
		CHECK_OK(vulkan_backend.acquire_all(list, n, ON(NULL), in));
		CHECK_EQ(fake->barriers, n);
		CHECK_EQ(fake->submits, 1);
		CHECK_EQ(fake->imports, 1);
		CHECK_OK(vulkan_backend.release_all(list, n, ON(NULL), &out));
		CHECK_EQ(fake->barriers, n);
		CHECK_EQ(fake->submits, 2);
		CHECK_EQ(fake->exports, 1);
		CHECK_ERR(dlbuf_device_drain(f.dev, 1), -ETIME);
		CHECK_EQ(fence_signalled(out), 0);
		signal_fence(in);
		CHECK_OK(dlbuf_device_drain(f.dev, 0));
		CHECK_EQ(fence_signalled(out), 1);
		close(in);
		close(out);
		list[n / 2].imp = &of[n / 2].vi.base;
	}
	/* The jobs are used again: a list of one has those of the import. */
	CHECK_EQ(fake->made[FAKE_FENCE], 4);
	/* Not those that a thread waits for. */
	job = vulkan_device(f.dev)->together;
	job->waiters++;
	fake->busy = true;
	for (int i = 0; i < 2; i++)
		CHECK_OK(vulkan_backend.acquire_all(list, 2, ON(NULL), -1));
	CHECK_EQ(fake->made[FAKE_FENCE], 5);
	job->waiters--;
	for (uint32_t i = 0; i < MAX_BRACKETS; i++)
		import_finish(&of[i], 0);
}

/* -1 from the driver is a fence that has signalled. */
TEST(a_driver_that_has_no_fence_to_give)
{
	begin();
	able(true, true);
	fake->no_fd = true;
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_OK(acquire(DLBUF_RW));
	CHECK_OK(release(DLBUF_RW));
	CHECK_EQ(fake->exports, 1);
	end_import();
}

TEST(no_fence_is_standard_input)
{
	int kept = fcntl(0, F_DUPFD_CLOEXEC, 3), out AUTO_FD = -1;

	begin();
	able(true, true);
	REQUIRE(kept >= 3);
	REQUIRE_OK(import_into(&f, open_ok()));
	CHECK_OK(acquire(DLBUF_RW));
	close(0);
	out = release_fence(DLBUF_RW);
	CHECK(fcntl(0, F_GETFD) < 0);
	CHECK_EQ(dup2(kept, 0), 0);
	close(kept);
	fake->run();
	CHECK_EQ(fence_signalled(out), 1);
	end_import();
}

static int see_sync(const struct dlbuf_device_info *info, void *data)
{
	enum dlbuf_sync *sync = data;

	if (strcmp(info->backend, "vulkan"))
		return 0;
	sync[0] = info->acquire;
	sync[1] = info->release;
	return 1;
}

/* Each direction for itself; what a device cannot the caller waits for. */
DOUBLE_CASE(what_the_device_cannot)
{
	static const struct {
		bool extension, in, out;
		const char *without;
		VkDriverId driver;
		enum dlbuf_sync acquire, release;
	} cases[] = {
		{ true, true, true, NULL, 0, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE },
		{ true, true, false, NULL, 0, DLBUF_SYNC_FENCE, DLBUF_SYNC_BLOCKS },
		{ true, false, true, NULL, 0, DLBUF_SYNC_BLOCKS, DLBUF_SYNC_FENCE },
		{ true, false, false, NULL, 0, DLBUF_SYNC_BLOCKS,
		  DLBUF_SYNC_BLOCKS },
		{ false, true, true, NULL, 0, DLBUF_SYNC_BLOCKS,
		  DLBUF_SYNC_BLOCKS },
		/* Mesa's venus: its vkQueueSubmit waits. */
		{ true, true, true, NULL, 22, DLBUF_SYNC_BLOCKS, DLBUF_SYNC_FENCE },
		{ true, true, true, "vkImportSemaphoreFdKHR", 0,
		  DLBUF_SYNC_BLOCKS, DLBUF_SYNC_FENCE },
		{ true, true, true, "vkGetSemaphoreFdKHR", 0, DLBUF_SYNC_FENCE,
		  DLBUF_SYNC_BLOCKS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool out = cases[i].release == DLBUF_SYNC_FENCE;
		DLBUF_INFO(dlbuf_device_info, info);
		enum dlbuf_sync seen[2] = { 0 };

		able(cases[i].in, cases[i].out);
		fake->physical[0].driver = cases[i].driver;
		if (!cases[i].extension)
			fake->physical[0].extensions[3] = NULL;
		fake->without = cases[i].without;
		fake->waits = fake->made[FAKE_SEMAPHORE] = 0;
		REQUIRE_OK(import_into(&f, open_ok()));
		CHECK_OK(dlbuf_device_get_info(f.dev, &info));
		CHECK_EQ(info.acquire, cases[i].acquire);
		CHECK_EQ(info.release, cases[i].release);
		CHECK_EQ(!strncmp(info.reason, "blocks: the driver", 18),
			 cases[i].acquire == DLBUF_SYNC_BLOCKS ||
			 cases[i].release == DLBUF_SYNC_BLOCKS);
		CHECK_EQ(!strstr(info.reason, "no VK_KHR_external_semaphore"),
			 cases[i].extension);
		if (!cases[i].without) {
			CHECK_EQ(dlbuf_device_each(see_sync, seen), 1);
			CHECK_EQ(seen[0], cases[i].acquire);
			CHECK_EQ(seen[1], cases[i].release);
		}
		CHECK_OK(acquire(DLBUF_RW));
		if (out)
			close(release_fence(DLBUF_RW));
		else
			CHECK_OK(release(DLBUF_RW));
		/* Blocking means that the work is over. */
		if (!out)
			CHECK_EQ(fake->pending, 0);
		CHECK_EQ(fake->waits, out ? 0 : 1);
		CHECK_EQ(fake->semaphores_out, out ? 1 : 0);
		CHECK_EQ(fake->made[FAKE_SEMAPHORE],
			 (cases[i].acquire == DLBUF_SYNC_FENCE) + out);
		import_finish(&f, 0);
		dlbuf_device_close(f.dev);
	}
}

/*
 * A failed acquire has not begun: nothing was submitted. A failed release has
 * ended: nothing is under way. So it is with one buffer and with three.
 */
TEST(every_failure_of_an_access)
{
	static const struct {
		const char *call;
		unsigned int spared;
		bool fences, acquired;
		int ret;
	} cases[] = {
		{ "vkAllocateCommandBuffers", 0, false, false, -EIO },
		{ "vkBeginCommandBuffer", 0, false, false, -EIO },
		{ "vkBeginCommandBuffer", 1, false, false, -EIO },
		{ "vkEndCommandBuffer", 0, false, false, -EIO },
		{ "vkEndCommandBuffer", 1, false, false, -EIO },
		{ "vkCreateFence", 0, false, false, -EIO },
		{ "vkQueueSubmit", 0, false, false, -EIO },
		{ "vkQueueSubmit", 1, false, true, -EIO },
		{ "vkWaitForFences", 0, false, true, -EIO },
		{ "vkResetFences", 0, false, true, 0 },
		{ "vkAllocateCommandBuffers", 0, true, false, -EIO },
		{ "vkCreateFence", 0, true, false, -EIO },
		{ "vkCreateSemaphore", 0, true, false, -EIO },
		{ "vkCreateSemaphore", 1, true, false, -EIO },
		{ "vkImportSemaphoreFdKHR", 0, true, false, -EIO },
		{ "vkQueueSubmit", 0, true, false, -EIO },
		{ "vkCreateFence", 1, true, true, -EIO },
		{ "vkCreateSemaphore", 2, true, true, -EIO },
		{ "vkCreateSemaphore", 3, true, true, -EIO },
		{ "vkQueueSubmit", 1, true, true, -EIO },
		{ "vkGetSemaphoreFdKHR", 0, true, true, -EIO },
	};

	for (size_t j = 0; j < 2 * ARRAY_SIZE(cases); j++) {
		const size_t i = j / 2, n = j % 2 ? 3 : 1;
		int in = pending_fence(), out = 7, ret;
		/* The commands of several are recorded when they are used. */
		const bool acquired = cases[i].acquired || (n > 1 &&
			cases[i].spared && strstr(cases[i].call, "Command"));
		struct bracket list[3];
		struct fixture of[3];

		begin_import(cases[i].fences, cases[i].fences);
		import_more(of, list, 3);
		/* With fences the release needs a job of its own. */
		fake->busy = cases[i].fences;
		fail_call(cases[i].call, VK_ERROR_DEVICE_LOST);
		fake->spared = cases[i].spared;
		ktap_forget();
		ret = vulkan_backend.acquire_all(list, n, ON(NULL),
						 cases[i].fences ? in : -1);
		signal_fence(in);
		close(in);
		CHECK_EQ(ret, acquired ? 0 : -EIO);
		CHECK_EQ(fake->submits, acquired ? 1 : 0);
		if (!ret) {
			ret = vulkan_backend.release_all(list, n, ON(NULL), &out);
			CHECK_EQ(ret, cases[i].ret);
			CHECK_EQ(out, -1);
			CHECK_EQ(fake->drains, cases[i].ret ? 1 : 0);
			CHECK_EQ(fake->pending, 0);
		}
		if (cases[i].ret) {
			CHECK_SAYS(cases[i].call);
			CHECK_SAYS("VK_ERROR_DEVICE_LOST");
		}
		fake->failing = NULL;
		for (int k = 0; k < 3; k++)
			import_finish(&of[k], 0);
		CHECK_EQ(fake->live[FAKE_COMMANDS], 0);
		end_import();
	}
}

/* A fence that cannot be asked about may be in use: it is not used again. */
IMPORT_CASE(a_fence_without_a_status)
{
	int in AUTO_FD = pending_fence(), out AUTO_FD = -1;

	CHECK_OK(acquire_after(DLBUF_READ, in));
	fail_call("vkGetFenceStatus", VK_ERROR_OUT_OF_HOST_MEMORY);
	out = release_fence(DLBUF_READ);
	fake->failing = NULL;
	CHECK_EQ(fake->pending, 2);
	signal_fence(in);
}

/* dlbuf_acquire_fence() submits nothing, and a deletion releases all the same. */
IMPORT_CASE(a_release_of_what_was_not_submitted)
{
	close(release_fence(DLBUF_RW));
	CHECK_EQ(fake->submits, 1);
	CHECK_EQ(fake->barrier.srcQueueFamilyIndex, 1);
}

/* All that was submitted, acquires included; a lost device does nothing more. */
TEST(drained)
{
	struct fixture g;
	int in AUTO_FD = -1;

	begin();
	able(true, true);
	REQUIRE_OK(import_into(&f, open_ok()));
	REQUIRE_OK(import_into(&g, f.dev));
	CHECK_OK(dlbuf_device_drain(f.dev, 1));
	in = pending_fence();
	CHECK_OK(acquire_after(DLBUF_RW, in));
	CHECK_ERR_SAYS(dlbuf_device_drain(f.dev, 1), -ETIME, "not complete at the deadline");
	close(release_fence(DLBUF_RW));
	CHECK_ERR(dlbuf_device_drain(f.dev, 1), -ETIME);
	fail_call("vkGetFenceStatus", VK_ERROR_DEVICE_LOST);
	CHECK_OK(dlbuf_device_drain(f.dev, 1));
	fake->failing = NULL;
	signal_fence(in);
	CHECK_OK(dlbuf_device_drain(f.dev, 0));
	import_finish(&g, 0);
	end_import();
}

static void unimport(void *arg)
{
	vulkan_backend.unimport(&f.vi.base, true);
}

static void *unimport_too(void *of)
{
	vulkan_backend.unimport(of, true);
	return NULL;
}

/* Also if the wait itself fails; and two at once, for one submit. */
TEST(unimport_waits_for_what_several_share)
{
	static const char *const failing[] = { NULL, "vkWaitForFences" };

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	for (size_t i = 0; i < ARRAY_SIZE(failing); i++) {
		int in = pending_fence(), out;
		struct bracket list[4];
		struct fixture of[3];
		pthread_t thread;

		begin_import(true, true);
		import_more(of, list + 1, 3);
		list[0] = (struct bracket){ &f.vi.base, DLBUF_RW };
		CHECK_OK(vulkan_backend.acquire_all(list, 3, ON(NULL), in));
		CHECK_OK(vulkan_backend.release_all(list, 3, ON(NULL), &out));
		close(out);
		/* No wait for shared work. */
		import_finish(&of[2], 0);
		CHECK_EQ(fake->waits + fake->drains, 0);
		/* An access of another thread, meanwhile. */
		list[3] = list[2];
		fail_call(failing[i], VK_ERROR_OUT_OF_HOST_MEMORY);
		begin_to_wait(unimport, NULL);
		REQUIRE(!pthread_create(&thread, NULL, unimport_too, list[1].imp));
		for (int k = 0; k < 2 && !failing[i]; k++)
			CHECK_OK(vulkan_backend.acquire_all(list + 2, 2, ON(NULL), -1));
		signal_fence(in);
		for (int k = 0; k < 2; k++)
			CHECK_OK(vulkan_backend.acquire_all(list + 2, 2, ON(NULL), -1));
		pthread_join(thread, NULL);
		end_of_wait();
		fake->failing = NULL;
		close(in);
		import_finish(&f, -1);
		import_finish(&of[0], -1);
		import_finish(&of[1], 0);
		dlbuf_device_close(f.dev);
		end();
	}
}

/* Also if the wait itself fails. */
TEST(unimport_waits_for_what_is_under_way)
{
	static const char *const failing[] = { NULL, "vkWaitForFences" };

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	for (size_t i = 0; i < ARRAY_SIZE(failing); i++) {
		int in = pending_fence();

		begin_import(true, true);
		CHECK_OK(acquire_after(DLBUF_RW, in));
		close(release_fence(DLBUF_RW));
		fail_call(failing[i], VK_ERROR_OUT_OF_HOST_MEMORY);
		begin_to_wait(unimport, NULL);
		signal_fence(in);
		end_of_wait();
		fake->failing = NULL;
		CHECK_EQ(fake->pending, 0);
		CHECK_EQ(fake->live[FAKE_BUFFER], 0);
		if (!failing[i])
			CHECK_EQ(fake->drains, 0);
		close(in);
		import_finish(&f, -1);
		dlbuf_device_close(f.dev);
		end();
	}
}

static int awaited;

/* Or the case never ends. */
static void signal_at_a_wait(const char *call)
{
	if (strstr(call, "vkWait") || !strcmp(call, "vkQueueWaitIdle"))
		signal_fence(awaited);
}

/*
 * Dropping an import does not wait for its producers, unless the handles of a wrapped
 * device may be destroyed next.
 */
IMPORT_CASE(imports_go_after_their_submits)
{
	static const char *const extensions[] = {
		VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
		VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
		VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME,
	};
	struct dlbuf_vulkan_device vk = { .size = sizeof(vk) };
	struct dlbuf_device *dev = NULL;
	struct import *imp[2];
	struct bracket list[2];
	int out;

	REQUIRE_OK(dlbuf_vulkan_get_device(f.dev, &vk));
	vk.extensions = extensions;
	vk.nextensions = ARRAY_SIZE(extensions);
	for (int i = 0; i < 4; i++) {
		bool wrapped = i & 1, together = i & 2;

		if (wrapped)
			REQUIRE_OK(dlbuf_device_wrap_vulkan(&vk, NULL, &dev));
		else
			dev = open_ok();
		for (int k = 0; k < 2; k++) {
			imp[k] = calloc(1, sizeof(struct vulkan_import));
			REQUIRE_OK(import_at(container_of(imp[k], struct vulkan_import, base),
					     dev));
			list[k] = (struct bracket){ imp[k], DLBUF_RW };
		}
		fake->look = signal_at_a_wait;
		awaited = pending_fence();
		if (together) {
			CHECK_OK(vulkan_backend.acquire_all(list, 2, ON(NULL), awaited));
			CHECK_OK(vulkan_backend.release_all(list, 2, ON(NULL), &out));
		} else {
			CHECK_OK(vulkan_backend.acquire(imp[0], DLBUF_RW, ON(NULL), awaited));
			CHECK_OK(vulkan_backend.release(imp[0], DLBUF_RW, ON(NULL), &out, NULL));
		}
		close(out);
		import_destroy(imp[0]);
		import_destroy(imp[1]);
		CHECK_EQ(dev->ndying, together ? 2 : 1);
		CHECK_EQ(fence_signalled(awaited), 0);
		CHECK_ERR(dlbuf_device_drain(dev, 1), -ETIME);
		dlbuf_device_close(dev);
		CHECK_EQ(fence_signalled(awaited), wrapped);
		signal_fence(awaited);
		UNTIL(!event_pending());
		CHECK_EQ(fake->live[FAKE_BUFFER], 1);
		close(awaited);
	}
	fake->look = NULL;
}

/* A thousand accesses, each of them still waiting as the next one begins. */
IMPORT_CASE(jobs_are_used_again)
{
	for (int i = 0; i < 1000; i++) {
		int in AUTO_FD = pending_fence(), out AUTO_FD = -1;

		CHECK_OK(acquire_after(DLBUF_RW, in));
		out = release_fence(DLBUF_RW);
		CHECK_EQ(fence_signalled(out), 0);
		signal_fence(in);
	}
	CHECK_EQ(fake->submits, 2000);
	CHECK_EQ(fake->made[FAKE_FENCE], 2);
	CHECK_EQ(fake->made[FAKE_SEMAPHORE], 4);
	CHECK_EQ(fake->made[FAKE_COMMANDS], 2);
	/* While the device is at none of them they are as many as accesses. */
	fake->busy = true;
	for (int i = 0; i < 10; i++) {
		CHECK_OK(acquire(DLBUF_RW));
		close(release_fence(DLBUF_RW));
	}
	CHECK_EQ(fake->made[FAKE_FENCE], 22);
	fake->busy = false;
	for (int i = 0; i < 10; i++) {
		CHECK_OK(acquire(DLBUF_RW));
		close(release_fence(DLBUF_RW));
	}
	CHECK_EQ(fake->made[FAKE_FENCE], 22);
	import_finish(&f, 0);
	/* Another import has those of the first. */
	REQUIRE_OK(import_into(&f, f.dev));
	CHECK_OK(acquire(DLBUF_RW));
	close(release_fence(DLBUF_RW));
	CHECK_EQ(fake->made[FAKE_FENCE], 22);
}

static void *access_often(void *arg)
{
	bool fences = f.dev->acquire_sync == DLBUF_SYNC_FENCE;

	for (int i = 0; i < 200; i++) {
		uint32_t access = 1 + i % 3;
		int in AUTO_FD = eventfd(0, EFD_CLOEXEC);

		CHECK_OK(acquire_after(access, fences && i % 2 ? in : -1));
		if (fences)
			close(release_fence(access));
		else
			CHECK_OK(release(access));
		signal_fence(in);
	}
	return arg;
}

TEST(threads)
{
	pthread_t threads[4];

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	for (int fences = 0; fences < 2; fences++) {
		begin_import(fences, fences);
		for (int i = 0; i < 4; i++)
			REQUIRE(!pthread_create(&threads[i], NULL, access_often, NULL));
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		CHECK_EQ(fake->submits, 1600);
		if (fences) {
			CHECK_EQ(fake->waits + fake->drains, 0);
		} else {
			CHECK(fake->made[FAKE_FENCE] <= 4);
			CHECK_EQ(fake->made[FAKE_COMMANDS], 6);
		}
		end_import();
	}
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static uint32_t together;

static int walk(void)
{
	struct dlbuf_device *dev = NULL;
	int in, out = -1, ret;
	struct bracket twice[2];

	ret = dlbuf_device_open("vulkan", NULL, &dev);
	if (ret)
		return ret;
	in = dev->acquire_sync == DLBUF_SYNC_FENCE ? pending_fence() : -1;
	ret = import_into(&f, dev);
	if (ret) {
		import_finish(&f, ret);
	} else {
		twice[0] = twice[1] = (struct bracket){ &f.vi.base, DLBUF_RW };
		ret = vulkan_backend.acquire_all(twice, together, ON(NULL), in);
		if (in != -1)
			signal_fence(in);
		if (!ret) {
			ret = vulkan_backend.release_all(twice, together, ON(NULL), &out);
			CHECK(!ret || (out == -1 && !fake->pending));
		}
		import_finish(&f, 0);
	}
	if (in != -1)
		close(in);
	if (out != -1)
		close(out);
	dlbuf_device_close(dev);
	return ret;
}

TEST(every_call_fails_once)
{
	for (together = 1; together <= 2; together++) {
		begin();
		check_walks(walk);
		able(true, true);
		check_walks(walk);
		fake->busy = true;
		check_walks(walk);
		end();
	}
}
#endif
#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
