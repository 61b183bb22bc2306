/* SPDX-License-Identifier: MIT */
/*
 * Accesses: fences that streams wait for, the results of a release, and the waiting thread. Cases
 * of queue_cases.h.
 */
#ifndef UNIT_QUEUE_ACCESS_H
#define UNIT_QUEUE_ACCESS_H

/* ---------------------------------------------------------------- fences in */

/*
 * The stream waits, and not the caller; its work uses the bytes of that time, and
 * waiters for the end wait for it, too.
 */
QUEUE_CASE(a_stream_waits, EACH | BRIDGE, WAITS)
{
	int in = pending_fence(), out;

	gate_close(&app);
	watch(on->calls[WAIT_FENCE]);
	fake->synchronising = 0;
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, in));
	gpu_reads(&app, &f);
	gpu_sets(&app, &f, 4096, 100, 0xee);
	out = release(&f, DLBUF_RW, app.stream);
	CHECK_EQ(fake->synchronising, 0);
	watched = NULL;
	gate_pass(&app);
	watched = on->calls[WAIT_FENCE];
	CHECK(!signalled(out) && !is_idle(&app));
	CHECK_EQ(app.pinned[0], 0);
	CHECK(filled(f.bytes, 1));
	/* The producer's work before it signals. */
	fill(f.bytes, 5);
	signal_now(in);
	until_over(out);
	drain(&app);
	settle();
	CHECK(filled(app.pinned, 5));
	for (int i = 4096; i < 4196; i++)
		if (!CHECK_EQ(f.bytes[i], 0xee))
			break;
	memcpy(f.bytes + 4096, app.pinned + 4096, 100);
	CHECK(filled(f.bytes, 5));
	CHECK(seen || !on->calls[WAIT_FENCE]);
	look_no_more();
}

/* A question may be several calls of the driver. Deletion asks, too. */
QUEUE_CASE(a_stream_is_asked_once, EACH | BRIDGE, ASK)
{
	int64_t shape[] = { IMPORT_BYTES };
	DLTensor layout = LAYOUT8(1, shape);
	DLManagedTensorVersioned *t[2];
	unsigned int once;

	for (int i = 0; i < 2; i++) {
		struct tensor *tensor;

		f.imp->refs++;
		REQUIRE_OK(tensor_create(f.imp, &layout, 0, IMPORT_BYTES, NULL, NULL, &tensor));
		t[i] = &tensor->versioned;
	}
	watch(on->calls[ASK]);
	CHECK_OK(f.dev->backend->stream(f.dev, ON(app.stream), false));
	once = seen;
	CHECK(once);
	watch(on->calls[ASK]);
	CHECK_OK(dlbuf_acquire(t[0], DLBUF_RW, app.stream, NULL));
	CHECK_EQ(seen, once);
	watch(on->calls[ASK]);
	CHECK_OK(dlbuf_release(t[0], app.stream, NULL));
	CHECK_EQ(seen, once);
	watch(on->calls[ASK]);
	CHECK_OK(dlbuf_acquire_all(t, 2, DLBUF_RW, app.stream, NULL));
	CHECK_EQ(seen, once);
	watch(on->calls[ASK]);
	CHECK_OK(dlbuf_release_all(t, 2, app.stream, NULL));
	CHECK_EQ(seen, once);
	CHECK_OK(dlbuf_acquire(t[0], DLBUF_RW, app.stream, NULL));
	watch(on->calls[ASK]);
	for (int i = 0; i < 2; i++)
		t[i]->deleter(t[i]);
	CHECK_EQ(seen, once);
	look_no_more();
	drain(&app);
}

/* Nothing to say to the driver: the usual case costs no call. */
QUEUE_CASE(no_fence_no_call, SHARED, NO_ORDER)
{
	unsigned long calls = fake->calls;

	CHECK_OK(acquire(&f, DLBUF_READ, NULL, -1));
	CHECK_EQ(fake->calls, calls);
	/* An access without order gets none. */
	CHECK_OK(acquire(&f, DLBUF_READ, on->no_order, f.memfd));
	CHECK_EQ(release(&f, DLBUF_READ, on->no_order), -1);
	CHECK_EQ(release(&f, DLBUF_READ, on->no_order), -1);
	CHECK_EQ(fake->calls, calls);
}

/* Many streams wait, and their fences signal in another order; then one, for many. */
QUEUE_CASE(many_fences, SHARED, WAITS)
{
	enum { N = 80 };	/* more than there are words on a page, or events in a pool */
	/* Accesses that share a begin are in order, and a command waits for few others. */
	int n = queue_memory_of(f.imp)->passes ? 4 : N;
	void *streams[N];
	int in[N], out[N];
	unsigned int made = 0;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i++) {
			in[i] = pending_fence();
			streams[i] = app_stream(&app);
			CHECK_OK(acquire(&f, DLBUF_READ, streams[i], in[i]));
			out[i] = release(&f, DLBUF_READ, streams[i]);
		}
		for (int i = n; i--;) {
			int k = n < N ? n - 1 - i : (i * 7 + round) % n;

			CHECK(!signalled(out[k]));
			signal_fence(in[k]);
			until_over(out[k]);
		}
		settle();
		for (int i = 0; i < n; i++) {
			close(in[i]);
			app_stream_end(&app, streams[i]);
		}
		if (on->reused && round)
			CHECK(fake->made[on->reused] - made <= on->renewed * n);
		made = fake->made[on->reused];
	}
	for (int i = 0; i < n; i++) {
		in[i] = pending_fence();
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in[i]));
		close(release(&f, DLBUF_READ, app.stream));
	}
	for (int i = 0; i < n; i++) {
		CHECK(!is_idle(&app));
		signal_now(in[i]);
	}
	drain(&app);
}

/* An access to memory that is not shared has to end before the memory is given up. */
static void end_if_begun(void)
{
	if (queue_memory_of(f.imp)->open)
		CHECK_OK(release_to(NULL));
}

/* The objects that the stream waits for live as long as it waits. */
QUEUE_CASE(the_device_is_closed_before_the_fence, ITSELF, WAITS)
{
	FOR_EACH_PATH(path) {
		int in = pending_fence();

		begin_on(path);
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
		end_if_begun();
		give_up(&f);
		CHECK(!is_idle(&app));
		signal_now(in);
		drain(&app);
		app_end(&app);
		end();
	}
}

/* A fence that has signalled frees nothing that a stream has yet to look at. */
QUEUE_CASE(the_stream_looks_at_its_word_later, ITSELF, WAITS)
{
	FOR_EACH_PATH(path) {
		int in = pending_fence();

		begin_on(path);
		gate_close(&app);
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
		signal_now(in);
		end_if_begun();
		while (event_pending() && !is_polled())
			sched_yield();
		/* Nor does this thread wait for the stream. */
		give_up(&f);
		CHECK(!is_idle(&app));
		gate_open(&app);
		drain(&app);
		app_end(&app);
		end();
	}
}

/*
 * A free waits for all streams and blocks all other calls, perhaps the call that
 * signals the fence. So no stream begins to wait for a fence during a free, and no
 * free begins while a stream waits.
 */
static struct {
	struct fixture other;
	pthread_t thread;
	int fence;
	unsigned int frees, waits, held_up;	/* atomic; threads, and calls that began */
	pthread_cond_t *holds;
	bool freed;
} gated;

/* Counts the threads that wait for gated.holds. It may end early, as glibc's own may. */
int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct timespec later = { .tv_sec = time(NULL) + 3600 };

	if (cond == __atomic_load_n(&gated.holds, __ATOMIC_ACQUIRE))
		__atomic_fetch_add(&gated.held_up, 1, __ATOMIC_RELEASE);
	pthread_cond_timedwait(cond, mutex, &later);
	return 0;
}

static void *acquire_beside(void *arg)
{
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, gated.fence));
	return arg;
}

static void count_gated(const char *name)
{
	if (!strcmp(name, on->calls[WAIT_FENCE]))
		__atomic_fetch_add(&gated.waits, 1, __ATOMIC_RELEASE);
	else if (!strcmp(name, on->calls[UNREGISTER]))
		__atomic_fetch_add(&gated.frees, 1, __ATOMIC_RELEASE);
}

/* As the free begins. */
static void acquire_inside_a_free(const char *name)
{
	count_gated(name);
	if (gated.thread || strcmp(name, on->calls[UNREGISTER]))
		return;
	REQUIRE(!pthread_create(&gated.thread, NULL, acquire_beside, NULL));
	while (!__atomic_load_n(&gated.waits, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&gated.held_up, __ATOMIC_ACQUIRE))
		sched_yield();
	/* Otherwise this free never returns. */
	if (!CHECK_EQ(gated.waits, 0))
		signal_fence(gated.fence);
}

static void signal_before_a_free(const char *name)
{
	/* Otherwise this free never returns. */
	if (!strcmp(name, on->calls[UNREGISTER]) || !strcmp(name, on->calls[FREE_HOST])) {
		CHECK_MSG(signalled(gated.fence), "%s", name);
		signal_fence(gated.fence);
	}
}

static void free_inside_a_wait(const char *name)
{
	count_gated(name);
	if (gated.freed || strcmp(name, on->calls[WAIT_FENCE]))
		return;
	gated.freed = true;
	import_finish(&gated.other, 0);
	CHECK_EQ(__atomic_load_n(&gated.frees, __ATOMIC_ACQUIRE), 0);
}

/* The freed memory is of the same device, or of another one of the context. */
static void gated_begin(struct dlbuf_device *dev, void (*look)(const char *name))
{
	memset(&gated, 0, sizeof(gated));
	REQUIRE_OK(import_by(&gated.other, dev, DLBUF_PATH_HOST, DLBUF_RW));
	gated.fence = pending_fence();
	gated.holds = &queue_device_of(f.dev)->gate->freed;
	fake->look = look;
}

static void gated_end(struct dlbuf_device *dev)
{
	CHECK_EQ(gated.waits, 1);
	signal_now(gated.fence);
	drain(&app);
	CHECK_OK(dlbuf_device_drain(f.dev, 0));
	look_no_more();
	if (dev != f.dev)
		dlbuf_device_close(dev);
}

QUEUE_CASE(no_wait_begins_during_a_free, HOST, UNREGISTER)
{
	for (int i = 0; i < 2; i++) {
		struct dlbuf_device *dev = i ? open_device() : f.dev;

		gated_begin(dev, acquire_inside_a_free);
		import_finish(&gated.other, 0);
		pthread_join(gated.thread, NULL);
		gated_end(dev);
	}
}

QUEUE_CASE(no_free_begins_during_a_wait, HOST, UNREGISTER)
{
	for (int i = 0; i < 2; i++) {
		struct dlbuf_device *dev = i ? open_device() : f.dev;

		gated_begin(dev, free_inside_a_wait);
		acquire_beside(NULL);
		gated_end(dev);
	}
}

/* Memory is freed by the library's thread, when no stream waits for a fence. */
QUEUE_CASE(frees_wait_for_all_streams, EACH, UNREGISTER)
{
	unsigned int live[ARRAY_SIZE(fake->live)];
	enum dlbuf_path path = f.imp->path;
	int in = pending_fence();
	struct fixture other;

	REQUIRE_OK(import_by(&other, f.dev, path, DLBUF_RW));
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
	memcpy(live, fake->live, sizeof(live));
	import_finish(&other, 0);
	CHECK(!memcmp(live, fake->live, sizeof(live)));
	CHECK_EQ(__atomic_load_n(&f.dev->ndying, __ATOMIC_ACQUIRE), 1);
	signal_now(in);
	settle();
	CHECK(memcmp(live, fake->live, sizeof(live)));
	CHECK_EQ(__atomic_load_n(&f.dev->ndying, __ATOMIC_ACQUIRE), 0);
	close(release(&f, DLBUF_READ, app.stream));
	drain(&app);
}

static void *signal_soon(void *arg)
{
	/* At any time: a wait for it must not return before. */
	sched_yield();
	signal_fence(*(int *)arg);
	return NULL;
}

/*
 * Nor does another device of the context free anything: an import, or memory of its own.
 * This thread signals the fence later.
 */
QUEUE_CASE(frees_wait_for_the_context, ITSELF, UNREGISTER)
{
	struct dlbuf_device *dev;
	struct fixture other;
	int in, loop;

	/* The library's callbacks run when this thread drains a device, and not before. */
	REQUIRE_OK(dlbuf_dispatch_fd(&loop));
	begin_on(DLBUF_PATH_HOST);
	dev = open_device();
	in = pending_fence();
	REQUIRE_OK(import_by(&other, dev, DLBUF_PATH_HOST, DLBUF_RW));
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
	fake->look = signal_before_a_free;
	gated.fence = in;
	import_finish(&other, 0);
	CHECK_EQ(__atomic_load_n(&dev->ndying, __ATOMIC_ACQUIRE), 1);
	dlbuf_device_close(dev);
	dev = open_device();
	/* Nor does a drain of the device wait for that fence. */
	CHECK_OK(dlbuf_device_drain(dev, 0));
	dlbuf_device_close(dev);
	signal_fence(in);
	drain(&app);
	/* After this the application may destroy the context. */
	CHECK_OK(dlbuf_device_drain(f.dev, 0));
	CHECK(queue_device_of(f.dev)->gate->devices == queue_device_of(f.dev));
	watch(NULL);
	close(in);
	close(release(&f, DLBUF_READ, app.stream));
	drain(&app);
	end_on();
	close(loop);
	CHECK_OK(dlbuf_dispatch_fd(NULL));
}

/* The library cannot watch the fence, so the acquiring thread waits for it. */
QUEUE_CASE(no_event, HOST, UNREGISTER)
{
	int in = pending_fence();
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, signal_soon, &in));
	take_all_fds();
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
	CHECK(signalled(in));
	CHECK_EQ(event_pending(), 0);
	give_back_fds();
	pthread_join(thread, NULL);
	close(in);
	CHECK(is_idle(&app));
}

static struct {
	const char *call;
	int fence;
	struct rlimit files;
} exhausted;

/* At that call the process has its last fd, and the fence signals. */
static void last_fd(const char *name)
{
	struct rlimit none = { 0, exhausted.files.rlim_max };

	if (strcmp(name, exhausted.call))
		return;
	REQUIRE(!setrlimit(RLIMIT_NOFILE, &none));
	signal_fence(exhausted.fence);
}

/*
 * The wait does not begin, or its event cannot be added: no stream keeps waiting. The error is
 * that of the call, also if no fd is left then.
 */
QUEUE_CASE(every_failure_of_a_wait, ITSELF, UNREGISTER)
{
	static const enum queue_call calls[] = {
		WAIT_FENCE, EVENT_CREATE, RECORD, ENTER,
	};

	REQUIRE(!getrlimit(RLIMIT_NOFILE, &exhausted.files));
	for (size_t i = 0; i < 2 * ARRAY_SIZE(calls); i++) {
		const char *name = on->calls[calls[i / 2]];
		int in = pending_fence();

		begin_on(DLBUF_PATH_HOST);
		app_away(&app, true);
		exhausted.call = name;
		exhausted.fence = in;
		if (i % 2)
			fake->look = last_fd;
		fail_call(name, 0);
		CHECK_ERR(acquire(&f, DLBUF_READ, app.stream, in), -EIO);
		check_unknown(name);
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &exhausted.files));
		watch(NULL);
		heal();
		app_away(&app, false);
		signal_now(in);
		drain(&app);
		end_on();
	}
}

/* ---------------------------------------------------------------- releases */

/* Readable after the work, for all waiters, any number of times. */
QUEUE_CASE(release_gives_an_event, EACH | BRIDGE, NOTHING)
{
	int out, again;
	uint64_t n = 0;

	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	gate_close(&app);
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x42);
	fake->synchronising = 0;
	out = release(&f, DLBUF_RW, app.stream);
	CHECK_EQ(fake->synchronising, 0);
	CHECK(out >= 0 && !signalled(out));
	CHECK(filled(f.bytes, 1));
	gate_open(&app);
	until_signalled(out);
	CHECK(f.bytes[0] == 0x42 && f.bytes[IMPORT_BYTES - 1] == 0x42);
	again = dup(out);
	for (int i = 0; i < 5 && f.imp->release_sync == DLBUF_SYNC_EVENT; i++) {
		CHECK_EQ(read(out, &n, sizeof(n)), sizeof(n));
		CHECK_EQ(n, 1);
		CHECK(signalled(out) && signalled(again));
	}
	close(again);
	close(out);
	drain(&app);
}

/* No caller waits: an event of the driver's, no fd, no function. */
QUEUE_CASE(release_nobody_asks, SHARED, CALL_HOST)
{
	watch(on->calls[CALL_HOST]);
	for (int i = 0; i < 3; i++)
		CHECK_OK(f.dev->backend->release(f.imp, DLBUF_READ, ON(NULL),
						 NULL, NULL));
	CHECK_EQ(seen, 0);
	look_no_more();
}

QUEUE_CASE(events_are_used_again, SHARED, EVENT_CREATE)
{
	watch(on->calls[EVENT_CREATE]);
	for (int i = 0; i < 100; i++) {
		until_over(release(&f, DLBUF_READ, app.stream));
		drain(&app);
	}
	/* And another one, if the library's thread looks at the first meanwhile. */
	CHECK(seen == 1 || seen == 2);
	look_no_more();
}

/* No event: the work is over when the release returns. */
QUEUE_CASE(release_without_an_event, ITSELF, UNREGISTER)
{
	static const enum queue_call calls[] = { EVENT_CREATE, CALL_HOST, RECORD };

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		begin_on(DLBUF_PATH_HOST);
		gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x42);
		fail_call(on->calls[calls[i]], 0);
		fake->synchronising = 0;
		CHECK_EQ(release(&f, DLBUF_RW, app.stream), -1);
		CHECK_EQ(fake->synchronising, 1);
		CHECK_EQ(f.bytes[IMPORT_BYTES - 1], 0x42);
		heal();
		end_on();
	}
}

QUEUE_CASE(release_fails, HOST, FINISH)
{
	int out = 7, ret = 0;

	app_away(&app, true);
	fail_call(on->calls[ENTER], 0);
	CHECK_ERR(release_to(&out), -EIO);
	CHECK_EQ(out, -1);
	CHECK_ERR(dlbuf_device_drain(f.dev, 1), -EIO);
	heal();
	app_away(&app, false);
	/* The wait that is left when a call before it has failed, whichever that is. */
	for (int n = 1; n < 20 && !ret; n++) {
		fail_call(on->calls[FINISH], 0);
		fake->fail_thread = gettid();
		fake->fail_at = n;
		out = 7;
		ktap_forget();
		ret = release_to(&out);
		heal();
		fake->fail_at = 0;
		fake->fail_thread = 0;
		if (!ret && out != -1)
			until_over(out);
	}
	CHECK_EQ(ret, -EIO);
	CHECK_EQ(out, -1);
	check_unknown(on->calls[FINISH]);
}

/* ---------------------------------------------------------------- waits */

struct waiter {
	uint32_t access;
	int ret;
	bool done; /* atomic */
};

static void *wait_for(void *arg)
{
	struct waiter *w = arg;

	w->ret = wait_until(w->access, 0);
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_done(struct waiter *w)
{
	return __atomic_load_n(&w->done, __ATOMIC_ACQUIRE);
}

QUEUE_CASE(wait, EACH, NOTHING)
{
	static const struct {
		uint32_t released, access;
		bool waits;
	} cases[] = {
		{ DLBUF_READ, DLBUF_READ, false },
		{ DLBUF_READ, DLBUF_WRITE, true },
		{ DLBUF_WRITE, DLBUF_READ, true },
		{ DLBUF_RW, DLBUF_RW, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct waiter w = { .access = cases[i].access };
		pthread_t thread;

		CHECK_OK(acquire(&f, cases[i].released, app.stream, -1));
		gate_close(&app);
		gpu_sets(&app, &f, 0, 8, 0x20 + i);
		CHECK_OK(f.dev->backend->release(f.imp, cases[i].released,
						 ON(app.stream), NULL, NULL));
		if (cases[i].waits)
			CHECK_ERR(wait_until(cases[i].access, 1), -ETIME);
		watch(on->calls[EVENT_WAIT]);
		REQUIRE(!pthread_create(&thread, NULL, wait_for, &w));
		while (!is_done(&w) && !seen && on->calls[EVENT_WAIT])
			sched_yield();
		if (on->calls[EVENT_WAIT])
			CHECK_EQ(is_done(&w), !cases[i].waits);
		gate_open(&app);
		pthread_join(thread, NULL);
		CHECK_EQ(w.ret, 0);
		if (cases[i].released & DLBUF_WRITE)
			CHECK_EQ(f.bytes[7], 0x20 + i);
		look_no_more();
		drain(&app);
		CHECK_OK(wait_until(DLBUF_RW, 1));
		CHECK_OK(f.dev->backend->drain(f.dev, 0));
	}
}

static void open_later(const char *name)
{
	if (!strcmp(name, on->calls[EVENT_QUERY]) && ++seen == 5)
		gate_open(&app);
}

/* A deadline far away, and work that ends before. */
QUEUE_CASE(wait_with_a_deadline, HOST, EVENT_QUERY)
{
	for (int fails = 0; fails < 2; fails++) {
		gate_close(&app);
		CHECK_OK(release_to(NULL));
		if (!fails) {
			seen = 0;
			fake->look = open_later;
			fake->synchronising = 0;
			CHECK_OK(wait_until(DLBUF_RW, UINT64_MAX));
			CHECK_EQ(fake->synchronising, 0);
			look_no_more();
			drain(&app);
			continue;
		}
		app_away(&app, true);
		fail_call(on->calls[ENTER], 0);
		CHECK_ERR(wait_until(DLBUF_RW, 0), -EIO);
		heal();
		app_away(&app, false);
		fail_call(on->calls[EVENT_QUERY], 0);
		CHECK_ERR(wait_until(DLBUF_RW, UINT64_MAX), -EIO);
		heal();
		gate_open(&app);
		drain(&app);
	}
}

static void post(void *semaphore)
{
	sem_post(semaphore);
}

/* The library's thread has handled the earlier items. */
static void let_the_thread_look(void)
{
	int fd AUTO_FD = signalled_fence();
	sem_t looked;

	sem_init(&looked, 0, 0);
	REQUIRE_OK(event_add(fd, post, &looked));
	sem_wait(&looked);
	sem_destroy(&looked);
}

/*
 * An fd for the work that wait() would wait for, for several callers; and the end
 * of all work and memory of the device.
 */
static void check_under_way(enum dlbuf_path path)
{
	int reader, writer, fd = 77;
	struct import *imp;
	struct app other;

	begin_on(path);
	imp = f.imp;
	app_begin(&other, f.dev);
	CHECK_OK(f.dev->backend->pending(imp, DLBUF_RW, &fd));
	CHECK_EQ(fd, -1);
	for (int i = 0; i < 2; i++)
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	gate_close(&app);
	for (int i = 0; i < 2; i++)
		CHECK_OK(f.dev->backend->release(imp, DLBUF_READ, ON(app.stream),
						 NULL, NULL));
	CHECK_OK(f.dev->backend->pending(imp, DLBUF_READ, &reader));
	CHECK_EQ(reader, -1);
	CHECK_OK(f.dev->backend->pending(imp, DLBUF_WRITE, &writer));
	let_the_thread_look();
	CHECK(writer >= 3 && !signalled(writer));
	CHECK_ERR_SAYS(dlbuf_device_drain(f.dev, 1), -ETIME, "not complete at the deadline");
#ifdef CONFIG_FAULT_INJECTION
	reader = -1;
	for (unsigned long n = 1; reader; n++) {
		fault_at(n);
		reader = f.dev->backend->pending(imp, DLBUF_WRITE, &fd);
		fault_at(0);
		CHECK_EQ(!reader, fd >= 3);
#ifdef ONE_DEVICE
		/* Elsewhere calls of the driver may fail, too, which changes nothing. */
		CHECK(reader || n > 3);
#endif
	}
	close(fd);
#endif
	/* Work that comes later is not in it. */
	gate_close(&other);
	CHECK_OK(acquire(&f, DLBUF_RW, other.stream, -1));
	CHECK_OK(f.dev->backend->release(imp, DLBUF_RW, ON(other.stream), NULL, NULL));
	CHECK_OK(f.dev->backend->pending(imp, DLBUF_READ, &reader));
	gate_open(&app);
	until_over(writer);
	CHECK(!signalled(reader));
	CHECK_ERR(dlbuf_device_drain(f.dev, 1), -ETIME);
	/* Its memory has to wait for it, and is drained, too. */
	import_finish(&f, 0);
	CHECK_ERR(dlbuf_device_drain(f.dev, 1), -ETIME);
	gate_open(&other);
	CHECK_OK(dlbuf_device_drain(f.dev, 0));
	CHECK_EQ(__atomic_load_n(&f.dev->ndying, __ATOMIC_ACQUIRE), 0);
	until_over(reader);
	CHECK_OK(dlbuf_device_drain(f.dev, 1));
	app_end(&other);
	app_end(&app);
	dlbuf_device_close(f.dev);
	end();
}

QUEUE_CASE(what_is_under_way, ITSELF, NOTHING)
{
	FOR_EACH_PATH(path)
		if (path != DLBUF_PATH_BRIDGE)
			check_under_way(path);
}

#endif /* UNIT_QUEUE_ACCESS_H */
