// SPDX-License-Identifier: MIT
/*
 * CUDA's half of the bridge to Vulkan, against doubles of both (tests/doubles):
 * they share timelines and memory as the two drivers of one GPU do.
 */
#include "ktap.h"

#if defined(CONFIG_BACKEND_CUDA) && defined(CONFIG_BACKEND_VULKAN)
#include <pthread.h>

#include "cuda_backend.h"

#include "cuda_vulkan.h"

/* ---------------------------------------------------------------- opening */

static void check_device(enum dlbuf_sync in, enum dlbuf_sync out,
			 const char *why)
{
	struct dlbuf_device *dev = open_ok();
	struct fixture f;
	int ret;

	CHECK_EQ(dev->acquire_sync, in);
	CHECK_EQ(dev->release_sync, out);
	ktap_forget();
	ret = import_as(&f, dev, PATH_BIT(DLBUF_PATH_BRIDGE), DLBUF_RW);
	CHECK_EQ(ret, why ? -EOPNOTSUPP : 0);
	if (why)
		CHECK_SAYS(why);
	import_finish(&f, ret);
	dlbuf_device_close(dev);
}

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
	} cases[] = {
		{ "", all, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, NULL },
		{ "nomemops", all, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, NULL },
		{ "", another, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT, "c00000" },
		{ "", absent, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT, "vulkan: " },
		{ "nomemops", absent, DLBUF_SYNC_BLOCKS, DLBUF_SYNC_EVENT,
		  "vulkan: " },
		{ "", no_memory, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE,
		  "memory is not exportable" },
		{ "", no_in, DLBUF_SYNC_FENCE, DLBUF_SYNC_FENCE, NULL },
		{ "nomemops", no_in, DLBUF_SYNC_BLOCKS, DLBUF_SYNC_FENCE, NULL },
		{ "", no_out, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT, NULL },
		{ "notimeline", all, DLBUF_SYNC_FENCE, DLBUF_SYNC_EVENT,
		  "the driver shares no timeline semaphores" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		begin_both(cases[i].words);
		cases[i].lacks();
		check_device(cases[i].in, cases[i].out, cases[i].why);
		end_both();
	}
}

TEST(no_bridge_is_wanted)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = DLBUF_CUDA_NO_BRIDGE);
	struct dlbuf_device *dev = NULL;
	struct fixture f;

	begin_both("");
	REQUIRE_OK(dlbuf_device_open("cuda", &opts, &dev));
	CHECK_EQ(dev->release_sync, DLBUF_SYNC_EVENT);
	CHECK_ERR(import_as(&f, dev, PATH_BIT(DLBUF_PATH_BRIDGE), DLBUF_RW),
		  -EOPNOTSUPP);
	CHECK_SAYS("DLBUF_CUDA_NO_BRIDGE");
	import_finish(&f, -1);
	CHECK_EQ(vk->made[FAKE_INSTANCE], 0);
	dlbuf_device_close(dev);
	end_both();
}

/* ---------------------------------------------------------------- copies */

static struct fixture f;
static struct app app;

static void begin_by(const char *words, enum dlbuf_path path)
{
	begin_both(words);
	import_ok(&f, open_ok(), path);
	app_begin(&app, f.dev);
}

static void end_by(void)
{
	app_end(&app);
	give_up(&f);
	end_both();
}

/* What is only read is not copied back, and has a fence; no stream waits for a word. */
TEST(copy_in)
{
	int in = pending_fence(), out;

	begin_by("", DLBUF_PATH_BRIDGE);
	gate_close(&app);
	watch("cuStreamWaitValue32_v2");
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
	gpu_reads(&app, &f);
	out = release(&f, DLBUF_READ, app.stream);
	gate_pass(&app);
	CHECK(out != -1 && !signalled(out));
	fill(f.bytes, 5);
	signal_fence(in);
	until_over(out);
	drain(&app);
	CHECK(filled(app.pinned, 5));
	close(in);
	CHECK_EQ(seen, 0);
	app_end(&app);
	give_up(&f);
	CHECK_EQ(vk->copies, 1);
	end_both();
}

/* Vulkan's copy in does not overwrite what a stream still reads. */
static void *acquire_again(void *arg)
{
	CHECK_OK(acquire(&f, DLBUF_READ, DLBUF_CUDA_STREAM_PER_THREAD, -1));
	return NULL;
}

TEST(copies_in_order)
{
	pthread_t thread;

	begin_by("", DLBUF_PATH_BRIDGE);
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
	drain(&app);
	end_by();
}

/* Where Vulkan waits for no fence and gives none: its callers do. */
TEST(without_fences)
{
	int in, out;

	begin_both("");
	no_in();
	no_out();
	import_ok(&f, open_ok(), DLBUF_PATH_BRIDGE);
	app_begin(&app, f.dev);
	in = pending_fence();
	signal_fence(in);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, in));
	close(in);
	gpu_reads(&app, &f);
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x21);
	out = release(&f, DLBUF_RW, app.stream);
	/* The copy out has been waited for; the stream's own work tells. */
	CHECK_EQ(f.bytes[IMPORT_BYTES - 1], 0x21);
	until_signalled(out);
	close(out);
	CHECK(filled(app.pinned, 1));
	drain(&app);
	end_by();
}

/* ---------------------------------------------------------------- fences */

TEST(fences_alone)
{
	int in, out, own = -1;

	begin_by("nomemops", DLBUF_PATH_HOST);
	fake->synchronising = 0;
	in = pending_fence();
	gate_close(&app);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
	gpu_reads(&app, &f);
	/* A lease has an event of its own: the driver's fences time out. */
	CHECK_OK(cuda_backend.release(&f.ci.base, DLBUF_READ, app.stream, &out,
				      &own));
	CHECK_EQ(fake->synchronising, 0);
	REQUIRE(out != -1 && !signalled(out));
	REQUIRE(own != -1 && !signalled(own));
	gate_pass(&app);
	CHECK(!is_idle(&app));
	CHECK(!signalled(out));
	fill(f.bytes, 2);
	signal_fence(in);
	until_signalled(out);
	until_signalled(own);
	close(in);
	close(out);
	close(own);
	CHECK(filled(app.pinned, 2));
	drain(&app);
	/* The two links serve for ever. */
	for (int i = 0; i < 20; i++) {
		in = pending_fence();
		signal_fence(in);
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
		out = release(&f, DLBUF_READ, app.stream);
		until_signalled(out);
		drain(&app);
		close(in);
		close(out);
	}
	CHECK(fake->made[FAKE_EXTERNAL_SEMAPHORE] <= 3);
	end_by();
}

/* ---------------------------------------------------------------- failures */

static int walk_path(enum dlbuf_path path)
{
	int in = pending_fence(), out = -1, ret;
	struct dlbuf_device *dev = NULL;

	signal_fence(in);
	ret = dlbuf_device_open("cuda", NULL, &dev);
	if (ret)
		goto out;
	ret = import_as(&f, dev, PATH_BIT(path), DLBUF_RW);
	if (!ret) {
		ret = acquire(&f, DLBUF_RW, NULL, in);
		if (!ret) {
			ret = cuda_backend.release(&f.ci.base, DLBUF_RW, NULL,
						   &out, NULL);
			CHECK(!ret || out == -1);
		}
		CHECK_EQ(f.ci.memory->open, 0);
		import_finish(&f, 0);
		if (out != -1) {
			until_signalled(out);
			close(out);
		}
	} else {
		import_finish(&f, ret);
	}
	dlbuf_device_close(dev);
	settle();
out:
	close(in);
	return ret;
}

/* Whatever of either driver fails, and goes on failing. */
TEST(every_failure)
{
	static const char *const cuda[] = {
		"cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer",
		"cuEventCreate", "cuImportExternalSemaphore",
		"cuWaitExternalSemaphoresAsync",
		"cuSignalExternalSemaphoresAsync", "cuStreamWaitEvent",
	};
	static const char *const vulkan[] = {
		"vkCreateBuffer", "vkAllocateMemory", "vkGetMemoryFdKHR",
		"vkQueueSubmit", "vkImportSemaphoreFdKHR",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cuda) + ARRAY_SIZE(vulkan); i++) {
		const char *call = i < ARRAY_SIZE(cuda) ? cuda[i] :
				   vulkan[i - ARRAY_SIZE(cuda)];
		unsigned int failures = 0;

		begin_both("");
		for (unsigned int spared = 0; spared < 16; spared++) {
			int ret;

			if (i < ARRAY_SIZE(cuda))
				break_call(call, CUABI_UNKNOWN, spared);
			vk->spared = spared;
			vk->result = VK_ERROR_OUT_OF_HOST_MEMORY;
			vk->failing = i < ARRAY_SIZE(cuda) ? NULL : call;
			ret = walk_path(DLBUF_PATH_BRIDGE);
			heal();
			vk->failing = NULL;
			settle();
			if (!nothing_left() || !no_objects() || fake->wrong ||
			    vk->wrong)
				ktap_note(NULL, 0, "%s, %u: %s", call, spared,
					  dlbuf_last_error());
			if (!ret)
				break;
			failures++;
		}
		CHECK_MSG(failures, "%s was never called", call);
		end_both();
	}
}

/* ---------------------------------------------------------------- faults */

#ifdef CONFIG_FAULT_INJECTION
static int walk_bridge(void)
{
	return walk_path(DLBUF_PATH_BRIDGE);
}

static int walk_host(void)
{
	return walk_path(DLBUF_PATH_HOST);
}

TEST(every_call_fails_once)
{
	begin_both("");
	check_walks(walk_bridge, 20);
	end_both();
	begin_both("");
	check_walks(walk_host, 20);
	end_both();
	begin_both("nomemops");
	no_in();
	no_out();
	check_walks(walk_bridge, 20);
	end_both();
}
#endif
#else
KTAP_SKIPPED("one of the two backends is not built")
#endif

KTAP_MAIN()
