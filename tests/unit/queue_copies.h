/* SPDX-License-Identifier: MIT */
/* Path `copy`, and the same behaviour of path `bridge`. Cases of queue_cases.h. */
#ifndef UNIT_QUEUE_COPIES_H
#define UNIT_QUEUE_COPIES_H

/* ---------------------------------------------------------------- copies */

static void check_copied(unsigned int copies, unsigned int times)
{
	DLBUF_INFO(dlbuf_device_stats, stats);

	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.copies, copies);
	CHECK_EQ(stats.copied_bytes, (uint64_t)times * IMPORT_BYTES);
}

/* Each access uses the bytes of that time. */
QUEUE_CASE(copy_in, COPY | BRIDGE, NOTHING)
{
	for (unsigned int i = 1; i <= 2; i++) {
		fill(f.bytes, i + 4);
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
		gpu_reads(&app, &f);
		until_over(release(&f, DLBUF_READ, app.stream));
		drain(&app);
		CHECK(filled(app.pinned, i + 4));
		CHECK(filled(f.bytes, i + 4));
		check_copied(i, i);
	}
}

static unsigned int starts;
static pthread_t adds;
static pid_t adds_as;	/* atomic */

static void *add_fence(void *arg)
{
	__atomic_store_n(&adds_as, gettid(), __ATOMIC_RELEASE);
	dlbuf_fence_import(f.memfd, DLBUF_WRITE, f.memfd);
	return arg;
}

/* Another thread adds a fence as START begins, which would wait for it. */
static void count_start(void)
{
	if (starts++)
		return;
	added_fences = 0;
	REQUIRE(!pthread_create(&adds, NULL, add_fence, NULL));
	UNTIL(thread_sleeps(__atomic_load_n(&adds_as, __ATOMIC_ACQUIRE)) ||
	      __atomic_load_n(&added_fences, __ATOMIC_ACQUIRE));
	CHECK_EQ(__atomic_load_n(&added_fences, __ATOMIC_ACQUIRE), 0);
}

/*
 * A copy waits for no fence that came after its acquire: it may be that of work of the same
 * stream, or of another that waits for this one.
 */
QUEUE_CASE(copies_wait_for_no_later_fence, COPY, NOTHING)
{
	int ret;

	hold_start = count_start;
	starts = 0;
	for (unsigned int round = 0; round < 2; round++) {
		fill(f.bytes, 5 + round);
		gate_close(&app);
		ret = acquire(&f, DLBUF_RW, app.stream, -1);
		gpu_reads(&app, &f);
		gpu_sets(&app, &f, 0, IMPORT_BYTES, 0x77);
		__atomic_store_n(&busy, !round, __ATOMIC_RELEASE);
		gate_open(&app);
		drain(&app);
		until_over(release(&f, DLBUF_RW, app.stream));
		drain(&app);
		CHECK(filled(app.pinned, 5 + round));
		CHECK_EQ(f.bytes[77], 0x77);
		CHECK_EQ(starts, 2 * round);
		CHECK_OK(ret);
#if !defined(__x86_64__) && !defined(__i386__)
		if (!round)
			CHECK_EQ(queue_access_check(queue_memory_of(f.imp)), -EIO);
#endif
	}
	hold_start = NULL;
	pthread_join(adds, NULL);
}

/* Bytes that are not written keep their values. */
QUEUE_CASE(copy_out, COPY | BRIDGE, NOTHING)
{
	CHECK_OK(acquire(&f, DLBUF_WRITE, app.stream, -1));
	gpu_sets(&app, &f, 4000, 200, 0x77);
	fake->synchronising = 0;
	until_over(release(&f, DLBUF_WRITE, app.stream));
	CHECK_EQ(fake->synchronising, 0);
	for (size_t i = 4000; i < 4200; i++)
		if (!CHECK_EQ(f.bytes[i], 0x77))
			break;
	drain(&app);
	gpu_reads(&app, &f);
	drain(&app);
	CHECK(!memcmp(f.bytes, app.pinned, IMPORT_BYTES));
	for (size_t i = 4000; i < 4200; i++)
		f.bytes[i] = (uint8_t)(i * 7 + i / 4096 * 13 + 1);
	CHECK(filled(f.bytes, 1));
}

/* Read-only memory is imported for reading, and a reader's bytes are not copied back. */
QUEUE_CASE(read_only, ITSELF, NOTHING)
{
	FOR_EACH_PATH(path) {
		if (!(on->read_only & PATH_BIT(path)))
			continue;
		begin_as(path, DLBUF_READ);
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
		gpu_reads(&app, &f);
		drain(&app);
		CHECK(filled(app.pinned, 1));
		fill(f.bytes, 9);
		until_over(release(&f, DLBUF_READ, app.stream));
		drain(&app);
		CHECK(filled(f.bytes, 9));
		end_on();
	}
}

/* The next copy in does not overwrite bytes that an earlier stream still reads. */
QUEUE_CASE(copies_in_order, COPY, NOTHING)
{
	struct app other;

	app_begin(&other, f.dev);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	drain(&app);
	gate_close(&app);
	gpu_reads(&app, &f);
	close(release(&f, DLBUF_READ, app.stream));
	fill(f.bytes, 8);
	gate_close(&other);
	CHECK_OK(acquire(&f, DLBUF_READ, other.stream, -1));
	gpu_reads(&other, &f);
	gate_pass(&other);
	CHECK(!is_idle(&other));
	gate_open(&app);
	drain(&app);
	CHECK(filled(app.pinned, 1));
	close(release(&f, DLBUF_READ, other.stream));
	drain(&other);
	CHECK(filled(other.pinned, 8));
	app_end(&other);
}

/* A copy is made on a stream, and written back on one. */
QUEUE_CASE(copies_need_an_order, COPY, NO_ORDER)
{
	int out = 7;

	CHECK_ERR_SAYS(acquire(&f, DLBUF_READ, on->no_order, -1), -EINVAL, "this handle is none");
	/* It ends all the same: the next one is a new copy. */
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	CHECK_EQ(release(&f, DLBUF_READ, on->no_order), -1);
	drain(&app);
	fill(f.bytes, 2);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	gpu_reads(&app, &f);
	CHECK_ERR(f.dev->backend->release(f.imp, DLBUF_RW, ON(on->no_order),
					  &out, NULL), -EINVAL);
	CHECK_EQ(out, -1);
	drain(&app);
	CHECK(filled(app.pinned, 2));
	/* Nothing of it is left for the next one to copy out. */
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	close(release(&f, DLBUF_READ, app.stream));
	drain(&app);
	CHECK(filled(f.bytes, 2));
}

/* The started parts of a copy are waited for before its memory is freed. */
QUEUE_CASE(every_failure_of_a_copy, ITSELF, COPY_IN)
{
	static const struct {
		enum queue_call call;
		unsigned int spared;
		bool acquired;
	} cases[] = {
		{ STREAM_WAIT, 0, false }, { WAIT_FENCE, 0, false },
		{ CALL_HOST, 0, false }, { COPY_IN, 0, false },
		{ RECORD, 1, false }, { ENTER, 0, false }, { EVENT_CREATE, 1, false },
		{ COPY_OUT, 0, true }, { CALL_HOST, 1, true },
		{ ENTER, 1, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int in = signalled_fence(), out = 7, ret;

		begin_on(DLBUF_PATH_COPY);
		/* The next copy comes after it. */
		if (cases[i].call == STREAM_WAIT) {
			CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
			until_over(release(&f, DLBUF_READ, app.stream));
		}
		app_away(&app, true);
		fail_call(on->calls[cases[i].call], cases[i].spared);
		ret = acquire(&f, DLBUF_RW, app.stream, in);
		if (!CHECK_EQ(ret, cases[i].acquired ? 0 : -EIO))
			ktap_note(NULL, 0, "%s: %s", on->calls[cases[i].call],
				  dlbuf_last_error());
		if (!ret) {
			CHECK_ERR(release_to(&out), -EIO);
			CHECK_EQ(out, -1);
		}
		heal();
		CHECK_EQ(queue_memory_of(f.imp)->open, 0);
		/* Its memory is freed before any wait. */
		import_finish(&f, 0);
		close(in);
		app_away(&app, false);
		drain(&app);
		app_end(&app);
		dlbuf_device_close(f.dev);
		end();
	}
}

#endif /* UNIT_QUEUE_COPIES_H */
