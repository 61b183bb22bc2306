// SPDX-License-Identifier: MIT
/*
 * CUDA's half of the bridge to Vulkan, against doubles of both (tests/doubles): they share
 * timelines and memory as the two drivers of one GPU do. cuda_queue, driver `bridge`, has
 * the cases of lib/queue with a bridge.
 */
#include "ktap.h"

#if defined(CONFIG_BACKEND_CUDA) && defined(CONFIG_BACKEND_VULKAN)
#include <pthread.h>

#include "cuda_backend.h"

#include "cuda_vulkan.h"

static struct fixture f;
static struct app app;

/* Between begin_both() and end_all(). */
static void import_by(enum dlbuf_path path)
{
	import_ok(&f, open_ok(), path);
	app_begin(&app, f.dev);
}

static void end_all(void)
{
	drain(&app);
	app_end(&app);
	give_up(&f);
	end_both();
}

#define BRIDGE_CASE(name, words) TEST_BETWEEN(name, begin_both(words), end_all())

static int signalled_fence(void)
{
	int fence = pending_fence();

	signal_fence(fence);
	return fence;
}

/* ---------------------------------------------------------------- opening */

static void all(void) { }
static void another(void) { vk->physical[0].uuid = 0xcd; }
static void absent(void)
{
	setenv("DLBUF_VULKAN_LIBRARY", "/nonexistent/libvulkan.so.1", 1);
}
static void no_memory(void) { vk->physical[0].memory_out = false; }
static void no_in(void) { vk->physical[0].sync_fd_in = false; }
static void no_out(void) { vk->physical[0].sync_fd_out = false; }

TEST(what_a_bridge_can)
{
	static const struct {
		const char *words;
		void (*lacks)(void);
		enum dlbuf_sync in, out;
		const char *why;
		uint32_t flags;
	} cases[] = {
		{ "", all, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, NULL, 0 },
		{ "nomemops", all, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, NULL, 0 },
		{ "", another, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT, "c00000", 0 },
		{ "", absent, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT, "vulkan: ", 0 },
		{ "nomemops", absent, DLBUF_SYNC_BLOCKS, DLBUF_SYNC_EVENT,
		  "vulkan: ", 0 },
		{ "", no_memory, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE,
		  "memory is not exportable", 0 },
		{ "", no_in, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, NULL, 0 },
		{ "nomemops", no_in, DLBUF_SYNC_BLOCKS, DLBUF_SYNC_FENCE, NULL, 0 },
		{ "", no_out, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT, NULL, 0 },
		{ "notimeline", all, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT,
		  "the driver shares no timeline semaphores", 0 },
		{ "", all, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT,
		  "DLBUF_DEVICE_NO_BRIDGE", DLBUF_DEVICE_NO_BRIDGE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		DLBUF_OPTS(dlbuf_device_opts, opts, .flags = cases[i].flags);
		struct dlbuf_device *dev = NULL;
		int ret;

		begin_both(cases[i].words);
		cases[i].lacks();
		REQUIRE_OK(dlbuf_device_open("cuda", &opts, &dev));
		CHECK_EQ(dev->acquire_sync, cases[i].in);
		CHECK_EQ(dev->release_sync, cases[i].out);
		ktap_forget();
		ret = import_as(&f, dev, PATH_BIT(DLBUF_PATH_BRIDGE), DLBUF_RW);
		CHECK_EQ(ret, cases[i].why ? -EOPNOTSUPP : 0);
		if (cases[i].why)
			CHECK_SAYS(cases[i].why);
		if (cases[i].flags)
			CHECK_EQ(vk->made[FAKE_INSTANCE], 0);
		import_finish(&f, ret);
		dlbuf_device_close(dev);
		end_both();
	}
}

/* ---------------------------------------------------------------- copies */

static void *acquire_again(void *arg)
{
	CHECK_OK(acquire(&f, DLBUF_READ, DLBUF_CUDA_STREAM_PER_THREAD, -1));
	return arg;
}

/* Vulkan's copy in does not overwrite bytes that a stream still reads. */
BRIDGE_CASE(copies_in_order, "")
{
	pthread_t thread;

	import_by(DLBUF_PATH_BRIDGE);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	drain(&app);
	gate_close(&app);
	gpu_reads(&app, &f);
	close(release(&f, DLBUF_READ, app.stream));
	fill(f.bytes, 8);
	watch("cuEventSynchronize");
	REQUIRE(!pthread_create(&thread, NULL, acquire_again, NULL));
	while (!seen)
		sched_yield();
	gate_open(&app);
	pthread_join(thread, NULL);
	drain(&app);
	CHECK(filled(app.pinned, 1));
	close(release(&f, DLBUF_READ, app.stream));
}

/*
 * A lease ends with the copy, and not with the driver's fence: here the work of another
 * stream holds Vulkan's queue.
 */
BRIDGE_CASE(a_lease_of_a_copy, "")
{
	struct app other;
	struct fixture g;
	int out, own = -1;

	import_by(DLBUF_PATH_BRIDGE);
	app_begin(&other, f.dev);
	import_ok(&g, f.dev, DLBUF_PATH_BRIDGE);
	CHECK_OK(acquire(&g, DLBUF_RW, other.stream, -1));
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	drain(&other);
	gate_close(&other);
	close(release(&g, DLBUF_RW, other.stream));
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x21);
	CHECK_OK(cuda_backend.release(f.imp, DLBUF_RW, ON(app.stream), &out, &own));
	drain(&app);
	REQUIRE(out != -1 && own != -1);
	/* The library's thread asks CUDA, whose part is over, and then Vulkan. */
	for (int i = 0; i < 2; i++) {
		watch("cuEventQuery");
		while (!seen && !signalled(own))
			event_kick(), sched_yield();
	}
	CHECK(!signalled(own));
	CHECK(f.bytes[0] != 0x21);
	gate_open(&other);
	until_over(own);
	CHECK_EQ(f.bytes[0], 0x21);
	until_over(out);
	drain(&other);
	app_end(&other);
	import_finish(&g, 0);
}

/* If Vulkan cannot wait for fences and gives none, its callers wait. */
BRIDGE_CASE(without_fences, "")
{
	int in = signalled_fence(), out;

	no_in();
	no_out();
	import_by(DLBUF_PATH_BRIDGE);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, in));
	close(in);
	gpu_reads(&app, &f);
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x21);
	out = release(&f, DLBUF_RW, app.stream);
	/* The copy out is complete; the end of the stream's own work is the end of the access. */
	CHECK_EQ(f.bytes[IMPORT_BYTES - 1], 0x21);
	until_over(out);
	CHECK(filled(app.pinned, 1));
}

/* ---------------------------------------------------------------- fences */

BRIDGE_CASE(fences_alone, "nomemops")
{
	int in = pending_fence(), out, own = -1;

	import_by(DLBUF_PATH_HOST);
	fake->synchronising = 0;
	gate_close(&app);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
	gpu_reads(&app, &f);
	/* A lease has an event of its own: the driver's fences time out. */
	CHECK_OK(cuda_backend.release(f.imp, DLBUF_READ, ON(app.stream), &out,
				      &own));
	CHECK_EQ(fake->synchronising, 0);
	REQUIRE(out != -1 && !signalled(out));
	REQUIRE(own != -1 && !signalled(own));
	gate_pass(&app);
	CHECK(!is_idle(&app));
	CHECK(!signalled(out));
	fill(f.bytes, 2);
	signal_fence(in);
	close(in);
	until_over(out);
	until_over(own);
	CHECK(filled(app.pinned, 2));
	drain(&app);
	/* The two links are reused each time. */
	for (int i = 0; i < 20; i++) {
		in = signalled_fence();
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
		until_over(release(&f, DLBUF_READ, app.stream));
		drain(&app);
		close(in);
	}
	CHECK(fake->made[FAKE_EXTERNAL_SEMAPHORE] <= 3);
}

/* ---------------------------------------------------------------- failures */

static enum dlbuf_path walk_path = DLBUF_PATH_BRIDGE;

static int walk(void)
{
	int in = signalled_fence(), out = -1, ret;
	struct dlbuf_device *dev = NULL;

	ret = dlbuf_device_open("cuda", NULL, &dev);
	if (ret)
		goto out;
	ret = import_as(&f, dev, PATH_BIT(walk_path), DLBUF_RW);
	if (ret) {
		import_finish(&f, ret);
	} else {
		for (int i = 0; !ret && i < 2; i++) {
			until_over(out);
			out = -1;
			ret = acquire(&f, DLBUF_RW, NULL, in);
			if (!ret)
				ret = cuda_backend.release(f.imp, DLBUF_RW,
							   ON(NULL), &out, NULL);
		}
		CHECK(!ret || out == -1);
		CHECK_EQ(queue_memory_of(f.imp)->open, 0);
		import_finish(&f, 0);
		until_over(out);
	}
	dlbuf_device_close(dev);
	settle();
out:
	close(in);
	return ret;
}

/* Each call of CUDA for the bridge fails, and keeps failing. */
TEST(every_failure)
{
	static const char *const calls[] = {
		"cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer",
		"cuEventCreate", "cuImportExternalSemaphore",
		"cuWaitExternalSemaphoresAsync",
		"cuSignalExternalSemaphoresAsync", "cuStreamWaitEvent",
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		unsigned int failures = 0;
		int ret = -1;

		begin_both("");
		for (unsigned int spared = 0; ret && spared < 16; spared++) {
			break_call(calls[i], CUABI_UNKNOWN, spared);
			ret = walk();
			heal();
			settle();
			if (!nothing_left() || !no_objects() || fake->wrong ||
			    vk->wrong)
				ktap_note(NULL, 0, "%s, %u: %s", calls[i], spared,
					  dlbuf_last_error());
			failures += !!ret;
		}
		CHECK_MSG(failures, "%s was never called", calls[i]);
		end_both();
	}
}

#ifdef CONFIG_FAULT_INJECTION
/* A bridge for fences only, and one for copies without fences. */
BOTH_CASE(every_call_fails_once, "")
{
	walk_path = DLBUF_PATH_HOST;
	check_walks(walk, 20);
	end_both();
	begin_both("nomemops");
	no_in();
	no_out();
	walk_path = DLBUF_PATH_BRIDGE;
	check_walks(walk, 20);
}
#endif
#else
KTAP_SKIPPED("one of the two backends is not built")
#endif

KTAP_MAIN()
