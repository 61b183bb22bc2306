/* SPDX-License-Identifier: MIT */
/* Several streams and threads, the end of a device, and its loss. Cases of queue_cases.h. */
#ifndef UNIT_QUEUE_STREAMS_H
#define UNIT_QUEUE_STREAMS_H

/* ---------------------------------------------------------------- several streams */

/* Accesses of two streams in a row, without the application's help. */
QUEUE_CASE(streams_in_turn, EACH, WAITS)
{
	struct app other;
	int out[2];

	app_begin(&other, f.dev);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	gate_close(&app);
	gpu_sets(&app, &f, 0, 8, 0x11);
	out[0] = release(&f, DLBUF_RW, app.stream);
	CHECK_OK(acquire(&f, DLBUF_RW, other.stream, out[0]));
	gpu_reads(&other, &f);
	out[1] = release(&f, DLBUF_RW, other.stream);
	CHECK(!signalled(out[1]));
	gate_open(&app);
	until_over(out[0]);
	until_over(out[1]);
	CHECK_EQ(other.pinned[7], 0x11);
	drain(&other);
	app_end(&other);
	drain(&app);
}

/*
 * Accesses at the same time share a copy, or the driver's begin() and end(). A later
 * stream waits for that.
 */
QUEUE_CASE(overlapping_accesses, EACH | BRIDGE, NOTHING)
{
	int first = on->blocks ? signalled_fence() : pending_fence(), out[3];
	bool copied = queue_memory_of(f.imp)->copied;
	struct app other;

	app_begin(&other, f.dev);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, first));
	gate_close(&other);
	CHECK_OK(acquire(&f, DLBUF_READ, other.stream, -1));
	gpu_reads(&other, &f);
	gate_pass(&other);
	if (!on->blocks && (copied || queue_memory_of(f.imp)->passes))
		CHECK(!is_idle(&other));
	fill(f.bytes, copied && !on->blocks ? 3 : 1);
	if (on->blocks)
		close(first);
	else
		signal_now(first);
	drain(&other);
	CHECK(filled(other.pinned, copied && !on->blocks ? 3 : 1));
	fill(f.bytes, copied ? 4 : 1);
	CHECK_OK(acquire(&f, DLBUF_READ, other.stream, -1));
	/* The last one ends after the work of all, whose streams come to that later. */
	gate_close(&app);
	gpu_reads(&app, &f);
	gate_close(&other);
	out[0] = release(&f, DLBUF_READ, app.stream);
	out[1] = release(&f, DLBUF_READ, other.stream);
	out[2] = release(&f, DLBUF_READ, other.stream);
	gate_pass(&other);
	CHECK(!signalled(out[0]));
	gate_open(&app);
	for (int i = 0; i < 3; i++)
		until_over(out[i]);
	drain(&app);
	CHECK(filled(app.pinned, copied && !on->blocks ? 3 : 1));
	if (copied)
		check_copied(3, 1);
	/* All are over: the next one is a new copy. */
	CHECK_OK(acquire(&f, DLBUF_READ, other.stream, -1));
	gpu_reads(&other, &f);
	until_over(release(&f, DLBUF_READ, other.stream));
	drain(&other);
	CHECK(filled(other.pinned, copied ? 4 : 1));
	if (copied)
		check_copied(4, 2);
	app_end(&other);
}

static struct app *beside;
static int beside_out;

/* The moment when the first release has ended its access, and begins to add its own work. */
static void release_beside(const char *name)
{
	struct app *with;

	if (strcmp(name, on->calls[TELL]) || !beside)
		return;
	seen++;
	with = beside;
	beside = NULL;
	gate_close(with);
	beside_out = release(&f, DLBUF_READ, with->stream);
}

/* The last of several ends waits for the work of all, also for work that is not added yet. */
QUEUE_CASE(a_release_during_another, SHARED, TELL)
{
	struct app other;
	int out;

	app_begin(&other, f.dev);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	CHECK_OK(acquire(&f, DLBUF_READ, other.stream, -1));
	drain(&other);
	gate_close(&app);
	gpu_reads(&app, &f);
	beside = &other;
	seen = 0;
	fake->look = release_beside;
	out = release(&f, DLBUF_READ, app.stream);
	CHECK_EQ(seen, 1);
	look_no_more();
	gate_pass(&other);
	CHECK(!signalled(out));
	if (queue_memory_of(f.imp)->passes)
		CHECK(!signalled(beside_out));
	gate_open(&app);
	until_over(out);
	until_over(beside_out);
	CHECK(filled(app.pinned, 1));
	drain(&app);
	drain(&other);
	app_end(&other);
}

/* ---------------------------------------------------------------- the end */

/*
 * No call waits for running work: neither the one that drops the import nor the
 * one that closes the device. The memory stays until the work is complete.
 */
QUEUE_CASE(unimport_waits_for_nothing, ITSELF, NOTHING)
{
	for (int i = 0; i < 2 * (DLBUF_PATH_COPY + 1); i++) {
		enum dlbuf_path path = i / 2;
		int in = pending_fence(), out;

		if (!on->words[path] || (i % 2 && on->blocks)) {
			close(in);
			continue;
		}
		begin_on(path);
		CHECK_OK(acquire(&f, DLBUF_RW, app.stream, i % 2 ? in : -1));
		if (i % 2 == 0)
			gate_close(&app);
		gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x31);
		out = release(&f, DLBUF_RW, app.stream);
		import_destroy(f.imp);
		dlbuf_device_close(f.dev);
		CHECK(!signalled(out) && !is_idle(&app));
		signal_now(in);
		if (i % 2 == 0)
			gate_open(&app);
		until_over(out);
		settle();
		CHECK_EQ(f.bytes[77], 0x31);
		drain(&app);
		app_end(&app);
		fixture_end(&f);
		end();
	}
}

#ifndef ONE_DEVICE
/* All that an import had, when nothing is under way. */
QUEUE_CASE(unimport_frees, ITSELF, NOTHING)
{
	FOR_EACH_PATH(path) {
		unsigned int live[ARRAY_SIZE(fake->live)];
		struct dlbuf_device *dev;

		begin(on->words[path]);
		dev = open_device();
		for (int i = 0; i < 2; i++) {
			memcpy(live, fake->live, sizeof(live));
			REQUIRE_OK(import_by(&f, dev, path, DLBUF_RW));
			import_finish(&f, 0);
		}
		CHECK(!memcmp(live, fake->live, sizeof(live)));
		dlbuf_device_close(dev);
		end();
	}
}
#endif

static void open_at_the_wait(const char *name)
{
	if (!strcmp(name, on->calls[EVENT_WAIT])) {
		seen++;
		give_back_fds(); /* the double needs some */
		gate_open(&app);
	}
}

/* Without a thread that could do it later it is waited for. */
QUEUE_CASE(unimport_without_fds, ITSELF, UNREGISTER)
{
	begin_on(DLBUF_PATH_HOST);
	gate_close(&app);
	gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x31);
	CHECK_OK(release_to(NULL));
	seen = 0;
	fake->look = open_at_the_wait;
	take_all_fds();
	import_destroy(f.imp);
	CHECK_EQ(seen, 1);
	CHECK_EQ(f.bytes[77], 0x31);
	CHECK_EQ(__atomic_load_n(&f.dev->ndying, __ATOMIC_ACQUIRE), 0);
	look_no_more();
	fixture_end(&f);
	app_end(&app);
	dlbuf_device_close(f.dev);
	end();
}

struct third {
	int fence;
	pid_t tid;	/* atomic */
	bool done;	/* atomic */
};

static void *acquire_third(void *arg)
{
	struct third *t = arg;

	__atomic_store_n(&t->tid, gettid(), __ATOMIC_RELEASE);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, t->fence));
	__atomic_store_n(&t->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* With two cameras some stream always waits for a fence. A deadline is kept meanwhile. */
QUEUE_CASE(cameras_do_not_hold_up_frees, SHARED, WAITS)
{
	struct queue_device *q = queue_device_of(f.dev);
	int in[2] = { pending_fence(), pending_fence() };
	struct third third = { .fence = pending_fence() };
	struct fixture gone[10];
	pthread_t thread;
	struct app other;
	bool closing, gate;

	app_begin(&other, f.dev);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		REQUIRE_OK(import_by(&gone[i], f.dev, f.imp->path, DLBUF_RW));
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in[0]));
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		import_finish(&gone[i], 0);
	CHECK_OK(acquire(&f, DLBUF_READ, other.stream, in[1]));
	signal_now(in[0]);
	/* The driver waits for fences, or no free does. */
	gate = __atomic_load_n(&f.dev->ndying, __ATOMIC_ACQUIRE);
	closing = !gate;
	while (!closing) {
		pthread_mutex_lock(&q->gate->lock);
		closing = q->gate->closing;
		pthread_mutex_unlock(&q->gate->lock);
		sched_yield();
	}
	if (gate)
		CHECK_ERR(acquire_until(&f, DLBUF_READ, app.stream, third.fence, 1), -ETIME);
	REQUIRE(!pthread_create(&thread, NULL, acquire_third, &third));
	UNTIL(__atomic_load_n(&third.tid, __ATOMIC_ACQUIRE) &&
	      (__atomic_load_n(&third.done, __ATOMIC_ACQUIRE) || thread_polls(third.tid)));
	signal_now(in[1]);
	UNTIL(__atomic_load_n(&f.dev->ndying, __ATOMIC_ACQUIRE) < ARRAY_SIZE(gone));
	signal_fence(third.fence);
	pthread_join(thread, NULL);
	close(third.fence);
	for (int i = 0; i < 3; i++)
		CHECK_OK(f.dev->backend->release(f.imp, DLBUF_READ,
			 ON(i == 1 ? other.stream : app.stream), NULL, NULL));
	drain(&other);
	drain(&app);
	app_end(&other);
}

/* ---------------------------------------------------------------- lost */

/* Every waiter is notified, with any later requests, and nothing is left. */
static void check_lost(enum dlbuf_path path, int result, int error, const char *says)
{
	/* The bridge's next acquire waits for the work before. */
	int n = path == DLBUF_PATH_BRIDGE ? 1 : 3, out[3], in, ret;
	struct buffer_id id;

	begin_on(path);
	id = f.imp->id;
	gate_close(&app);
	for (int i = 0; i < n; i++) {
		CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
		out[i] = release(&f, DLBUF_RW, app.stream);
		CHECK(!signalled(out[i]));
	}
	lose(result);
	in = pending_fence();
	CHECK_ERR_SAYS(acquire(&f, DLBUF_RW, app.stream, in), error, says);
	for (int i = 0; i < n; i++)
		until_over(out[i]);
	signal_fence(in);
	close(in);
	ktap_forget();
	/* It ends the access, and refuses no stream. */
	CHECK_EQ(f.dev->backend->stream(f.dev, ON(app.stream), true), 0);
	out[0] = 7;
	ret = f.dev->backend->release(f.imp, DLBUF_READ, ON(app.stream), &out[0],
				      NULL);
	CHECK(ret < 0);
	CHECK_EQ(out[0], -1);
	CHECK_SAYS(says);
	/*
	 * A reader on another device gets once the error that the bytes may be old, also after
	 * the end.
	 */
	if (path == DLBUF_PATH_DIRECT)
		CHECK_OK(wait_until(DLBUF_READ, UINT64_MAX));
	give_up(&f);
	settle();
	CHECK_ERR_SAYS(pending_report(-1, &id), -EIO, "a device was lost");
	CHECK_OK(pending_report(-1, &id));
	app_end(&app);
	end();
}

QUEUE_CASE(lost, ITSELF, LOSES)
{
	FOR_EACH_PATH(path)
		for (int i = 0; on->losses[i].ret; i++)
			check_lost(path, on->losses[i].result,
				   on->losses[i].ret, on->losses[i].says);
}

/* Called by several threads at once. */
static void fail_second(const char *name)
{
	if (strstr(on->calls[SECOND], name))
		__atomic_store_n(&fake->failing, name, __ATOMIC_RELEASE);
}

/* The program sleeps in poll() on the eventfd, and makes no call that could see the loss. */
static void lose_in_silence(int result, void (*look)(const char *call))
{
	int out;

	gate_close(&app);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	out = release(&f, DLBUF_RW, app.stream);
	fake->result = on->no_memory;
	fake->spared = 0;
	if (look)
		__atomic_store_n(&fake->look, look, __ATOMIC_RELEASE);
	lose(result);
	until_over(out);
	CHECK_OK(wait_until(DLBUF_READ, UINT64_MAX));
	watch(NULL);
	heal();
	CHECK_ERR(pending_report(-1, &f.imp->id), -EIO);
}

QUEUE_CASE(lost_in_silence, SHARED, LOSES)
{
	lose_in_silence(on->losses[0].result, NULL);
}

/* The result's name is enough, whatever the second call returns. */
QUEUE_CASE(lost_by_its_name, SHARED, SECOND)
{
	lose_in_silence(on->losses[0].result, fail_second);
}

/* A result may be known by its name, and the last one is because it stays. */
QUEUE_CASE(lost_by_a_result_that_stays, SHARED, LOSES)
{
	const struct queue_loss *last = on->losses;

	while (last[1].ret)
		last++;
	lose_in_silence(last->result, NULL);
}

static _Atomic(int) lease_ended;	/* 1, and the error */

static void end_lease(void *data)
{
	lease_ended = 1 + -dlbuf_lease_result();
}

/* The lease does not wait for a fence that the device waits for no more. */
QUEUE_CASE(lost_behind_a_fence, SHARED, LOSES)
{
	struct lease *lease = lease_create(0);
	struct tensor t = { .imp = f.imp, .lease = lease };
	int in AUTO_FD = pending_fence();

	/* The file has no fences, so none is added. */
	f.imp->release_sync = DLBUF_SYNC_EVENT;
	lease->release = end_lease;
	lease_ended = 0;
	if (!on->blocks)
		CHECK_OK(acquire(&f, DLBUF_RW, app.stream, in));
	gate_close(&app);
	lease_follow(lease, in);
	fence_join_at(&t.before, dup(in));
	CHECK_OK(tensor_release(&t, DLBUF_RW, ON(app.stream), NULL));
	close(t.before);
	lease_unref(lease);
	CHECK_EQ(lease_ended, 0);
	lose(on->losses[0].result);
	UNTIL(lease_ended);
	CHECK_EQ(lease_ended, 1 + EIO);
	signal_fence(in);
}

static sem_t held, go;

static void hold(void)
{
	hold_start = NULL;
	sem_post(&held);
	while (sem_wait(&go) && errno == EINTR)
		;
}

/*
 * A host function runs at the loss, of an import that is dropped then; and one that has not
 * begun. OpenCL calls that, too. Neither may touch freed memory. A release does not wait for
 * the function.
 */
QUEUE_CASE(lost_while_a_function_runs, ITSELF, LOSES_COPIES)
{
	struct fixture later;

	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	begin_on(DLBUF_PATH_COPY);
	REQUIRE_OK(import_by(&later, f.dev, DLBUF_PATH_COPY, DLBUF_RW));
	hold_start = hold;
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	while (sem_wait(&held) && errno == EINTR)
		;
	CHECK_OK(acquire(&later, DLBUF_RW, app.stream, -1));
	lose(on->losses[0].result);
	CHECK_ERR(acquire(&later, DLBUF_READ, app.stream, -1), on->losses[0].ret);
	CHECK_ERR(release_to(NULL), on->losses[0].ret);
	queue_access_over(queue_memory_of(later.imp));
	import_finish(&later, 0);
	import_finish(&f, 0);
	CHECK(event_pending());
	sem_post(&go);
	dlbuf_device_close(f.dev);
	settle();
	app_end(&app);
	end();
}

/* While a caller waits for it. */
QUEUE_CASE(lost_while_waiting, ITSELF, UNREGISTER)
{
	struct waiter w = { .access = DLBUF_RW };
	pthread_t thread;
	int out;

	begin_on(DLBUF_PATH_HOST);
	gate_close(&app);
	out = release(&f, DLBUF_RW, app.stream);
	watch(on->calls[EVENT_WAIT]);
	REQUIRE(!pthread_create(&thread, NULL, wait_for, &w));
	while (!seen)
		sched_yield();
	lose(on->losses[0].result);
	pthread_join(thread, NULL);
	CHECK_EQ(w.ret, 0);
	CHECK_ERR(pending_report(-1, &f.imp->id), -EIO);
	CHECK(signalled(out));
	close(out);
	give_up(&f);
	app_end(&app);
	end();
}

/* ---------------------------------------------------------------- threads */

/* Writers on streams without an order between them keep it themselves. */
static pthread_rwlock_t order = PTHREAD_RWLOCK_INITIALIZER;

static void use_once(struct app *own, int i)
{
	static const uint32_t accesses[] = { DLBUF_READ, DLBUF_WRITE, DLBUF_RW };
	/* At last only readers, which go beside each other. */
	uint32_t access = i < 60 ? accesses[i % 3] : DLBUF_READ;
	int in = on->blocks ? signalled_fence() : pending_fence(), out = -1;
	/* Only a fence shows the end of the bridge's copy out. */
	bool asks = i % 4 || i > 60 || f.imp->path == DLBUF_PATH_BRIDGE;

	if (access & DLBUF_WRITE)
		pthread_rwlock_wrlock(&order);
	else
		pthread_rwlock_rdlock(&order);
	CHECK_OK(acquire(&f, access, own->stream, i < 60 && i % 2 ? in : -1));
	if (access == DLBUF_READ)
		gpu_reads(own, &f);
	else
		gpu_sets(own, &f, 0, IMPORT_BYTES, i);
	signal_now(in);
	CHECK_OK(f.dev->backend->release(f.imp, access, ON(own->stream),
					 asks ? &out : NULL, NULL));
	if (!asks)
		CHECK_OK(wait_until(access | DLBUF_WRITE, 0));
	else
		until_over(out);
	if (access != DLBUF_READ)
		CHECK_EQ(f.bytes[IMPORT_BYTES - 1], (uint8_t)i);
	else
		CHECK(!memcmp(own->pinned, f.bytes, IMPORT_BYTES));
	pthread_rwlock_unlock(&order);
}

static void *use_often(void *own)
{
	app_away(own, false);
	for (int i = 0; i < 100; i++)
		use_once(own, i);
	drain(own);
	app_away(own, true);
	return NULL;
}

/* Asks about events that others record. */
static void *drain_often(void *arg)
{
	for (int i = 0; i < 200; i++)
		CHECK_OK(dlbuf_device_drain(f.dev, 0));
	return NULL;
}

QUEUE_CASE(threads, EACH | BRIDGE, NOTHING)
{
	pthread_t threads[4];
	struct app apps[4];

	for (int i = 0; i < 4; i++)
		app_begin(&apps[i], f.dev);
	for (int i = 0; i < 4; i++)
		REQUIRE(!pthread_create(&threads[i], NULL,
					i < 3 ? use_often : drain_often, &apps[i]));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(queue_memory_of(f.imp)->open, 0);
	/* The call frees memory, for which drivers may wait for all streams. */
	for (int i = 4; i--;)
		app_end(&apps[i]);
}

static pthread_barrier_t together;

static void *acquire_together(void *stream)
{
	pthread_barrier_wait(&together);
	CHECK_OK(acquire(&f, DLBUF_READ, stream, -1));
	pthread_barrier_wait(&together);
	close(release(&f, DLBUF_READ, stream));
	return NULL;
}

/* In any arrangement: those that overlap are one copy. */
QUEUE_CASE(threads_overlap, COPY, NOTHING)
{
	pthread_t threads[4];
	void *streams[4];

	for (int i = 0; i < 4; i++)
		streams[i] = app_stream(&app);
	pthread_barrier_init(&together, NULL, 4);
	for (int round = 1; round <= 50; round++) {
		for (int i = 0; i < 4; i++)
			REQUIRE(!pthread_create(&threads[i], NULL,
						acquire_together, streams[i]));
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		check_copied(4 * round, round);
	}
	pthread_barrier_destroy(&together);
	CHECK_OK(f.dev->backend->drain(f.dev, 0));
	for (int i = 0; i < 4; i++)
		app_stream_end(&app, streams[i]);
}

#endif /* UNIT_QUEUE_STREAMS_H */
