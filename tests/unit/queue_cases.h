/* SPDX-License-Identifier: MIT */
/*
 * What lib/queue does, on each driver: cases that a program runs for all of its `drivers`.
 * A case is called DRIVER/CASE. It runs on each path that both it and the driver have, with
 * an import and an application, `f` and `app`.
 *
 * The includer has these, most of them in its *_backend.h:
 *
 *	drivers[]			what it runs the cases on
 *	begin(words), end()		a double of the driver, and what it saw
 *	try_open(&dev)			the driver's device, or one that is wrapped
 *	app_begin(), app_end()		an application with a stream and memory; it outlives
 *					the device. app_away() makes nothing current on
 *					a thread, or the application's context
 *	app_stream(), app_stream_end()	another stream of it
 *	gpu_reads(), gpu_sets()		puts work on app->stream, in order
 *	is_idle(), drain()		of that stream
 *	gate_close(), gate_open()	it waits until the application goes on
 *	gate_pass()			the same as gate_open(); on return the stream has
 *					come as far as it can
 *	driver_call()			see fixture.h
 *	lose(result)			the device
 */
#ifndef UNIT_QUEUE_CASES_H
#define UNIT_QUEUE_CASES_H

#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "cuda_memfds.h"
#include "fixture.h"
#include "memory.h"
#include "queue_driver.h"

static struct fixture f;
static struct app app;

static struct dlbuf_device *open_device(void)
{
	struct dlbuf_device *dev = NULL;

	REQUIRE_OK(try_open(&dev));
	return dev;
}

/* By this path, or by any (0). */
static int import_by(struct fixture *fixture, struct dlbuf_device *dev,
		     enum dlbuf_path path, uint32_t access)
{
	int ret;

	fixture_make(fixture, dev, path ? PATH_BIT(path) :
		     PATHS_SHARED | PATHS_COPIED, access);
	if (on->by_memfd)
		memory_remember(fixture->ci.base.fd, fixture->memfd);
	ret = path_import(&fixture->ci.base);
	if (on->by_memfd)
		memory_forget(fixture->memfd);
	return ret;
}

static void begin_as(enum dlbuf_path path, uint32_t access)
{
	begin(on->words[path]);
	watch(NULL);
	REQUIRE_OK(import_by(&f, open_device(), path, access));
	app_begin(&app, f.dev);
}

static void begin_on(enum dlbuf_path path)
{
	begin_as(path, DLBUF_RW);
}

static void end_on(void)
{
	app_end(&app);
	give_up(&f);
	if (on->quiet)
		CHECK_EQ(fake->host_functions, 0);
	end();
}

struct queue_case {
	const struct queue_driver *on;
	void (*fn)(void);
	uint32_t paths;
};

static void run_case(void *arg)
{
	const struct queue_case *c = arg;

	on = c->on;
	if (c->paths == ITSELF)
		c->fn();
	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++) {
		if (!(c->paths & PATH_BIT(path)))
			continue;
		begin_on(path);
		c->fn();
		end_on();
	}
}

static uint32_t paths_of(const struct queue_driver *d)
{
	uint32_t paths = 0;

	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++)
		paths |= d->words[path] ? PATH_BIT(path) : 0;
	return paths;
}

static bool has(const struct queue_driver *d, enum queue_call need)
{
	switch (need) {
	case NOTHING:
		return true;
	case WAITS:
		return !d->blocks;
	case NO_ORDER:
		return d->no_order;
	case LOSES:
		return d->losses;
	case COMPARES:
		return d->compares;
	case SELECTS:
		return d->selects;
	case SAYS:
		return d->says;
	case OPENS:
		return d->opens;
	case EXPORTS:
		return d->exports;
	case SERVES:
		return d->first;
	case STALE:
		return d->stale;
	default:
		return d->calls[need];
	}
}

#define FOR_EACH_PATH(path)						\
	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++) \
		if (on->words[path])

/* For each driver that can run it. */
static void add_case(const char *name, void (*fn)(void), uint32_t paths,
		     enum queue_call need)
{
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		uint32_t its = paths & paths_of(&drivers[i]);
		struct queue_case *c;
		char full[100];

		if (!has(&drivers[i], need) || !paths != !its)
			continue;
		/* One may be there for its exports only. */
		if (need != EXPORTS && !paths_of(&drivers[i]))
			continue;
		c = malloc(sizeof(*c));
		*c = (struct queue_case){ &drivers[i], fn, its };
		snprintf(full, sizeof(full), "%s/%s", drivers[i].name, name);
		ktap_case(full, run_case, c);
	}
}

#define QUEUE_CASE(name, paths, need)					\
	static void name##_on(void);					\
	__attribute__((constructor)) static void name##_add(void)	\
	{								\
		add_case(#name, name##_on, paths, need);		\
	}								\
	static void name##_on(void)

static int release_to(int *fence)
{
	return f.dev->backend->release(&f.ci.base, DLBUF_RW, app.stream, fence,
				       NULL);
}

static int wait_until(uint32_t access, uint64_t deadline)
{
	return f.dev->backend->wait(&f.ci.base, access, deadline);
}

/* Or, instead of a function of the case, when the library's thread makes no call. */
static void look_no_more(void)
{
	if (fake->look != look_for_watched)
		settle();
	watch(NULL);
}

/* After what was done before, for a sanitizer, too. */
static void signal_now(int fence)
{
	driver_call();
	signal_fence(fence);
	close(fence);
}

static int signalled_fence(void)
{
	int fence = pending_fence();

	signal_fence(fence);
	return fence;
}

/* The error's text begins with the call, without the version of its symbol. */
static bool says_call(const char *name)
{
	const char *said = strstr(dlbuf_last_error(), ": ");

	return said && !strncmp(said + 2, name, strcspn(name, "_"));
}

static void fail_call(const char *name, unsigned int spared)
{
	REQUIRE(name);
	break_call(name, on->unknown, spared);
}

static void check_unknown(const char *name)
{
	char number[16];

	snprintf(number, sizeof(number), "(%d)", on->unknown);
	if (!CHECK(strstr(dlbuf_last_error(), number)))
		ktap_note(NULL, 0, "%s: %s", name, dlbuf_last_error());
}

/* A path that a driver has not got is refused, so that none is lost unnoticed. */
QUEUE_CASE(paths, ITSELF, NOTHING)
{
	const char *words = NULL;

	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++) {
		words = on->words[path] ? on->words[path] : words;
		if (!on->words[path] == !on->why_not[path])
			CHECK_MSG(false, "%s says not whether it has path %d",
				  on->name, path);
	}
	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++) {
		if (on->words[path])
			continue;
		begin(words);
		CHECK_ERR(import_by(&f, open_device(), path, DLBUF_RW),
			  -EOPNOTSUPP);
		CHECK_SAYS(on->why_not[path]);
		import_finish(&f, -1);
		dlbuf_device_close(f.dev);
		end();
	}
}

/* ---------------------------------------------------------------- devices */

#ifndef ONE_DEVICE
struct listed {
	unsigned int n;
	struct dlbuf_device_info infos[4];
	int ret;
};

static int list(const struct dlbuf_device_info *info, void *data)
{
	struct listed *l = data;

	if (strcmp(info->backend, on->device) || l->n == 4)
		return 0;
	l->infos[l->n++] = *info;
	return l->ret;
}

/* Not the texts, which unit/select.c has, but what they find of the driver's devices. */
static void check_selector(const char *text, int ret, int n)
{
	unsigned int contexts = fake->made[FAKE_CONTEXT];
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev = NULL;
	char name[80], is[20];

	snprintf(name, sizeof(name), "%s%s%s", on->device, *text ? ":" : "", text);
	snprintf(is, sizeof(is), "%s:%d", on->device, n);
	ktap_forget();
	if (!CHECK_EQ(dlbuf_device_open(name, NULL, &dev), ret))
		ktap_note(NULL, 0, "%s: %s", name, dlbuf_last_error());
	CHECK(fake->made[FAKE_CONTEXT] - contexts <= !ret);
	CHECK_EQ(!dev, ret != 0);
	if (!dev) {
		CHECK_SAYS(on->device);
		return;
	}
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.name, is);
	CHECK_EQ(info.device.device_type, dev->backend->type);
	CHECK_EQ(info.device.device_id, n);
	dlbuf_device_close(dev);
}

QUEUE_CASE(selectors, ITSELF, SELECTS)
{
	begin(on->two);
	check_selector("", 0, 0);
	check_selector("0", 0, 0);
	check_selector("FAKE", 0, 0);
	for (size_t i = 0; on->selects[i]; i++)
		check_selector(on->selects[i], 0, 1);
	check_selector("2", -ENODEV, 0);
	check_selector("1.0", -ENODEV, 0);
	check_selector("nobody", -ENODEV, 0);
	check_selector("uuid=12345678123456781234567812345678", -ENODEV, 0);
	check_selector("uuid=c1", -EINVAL, 0);
	check_selector("pci=abcd:01:00.0", -ENODEV, 0);
	check_selector("pci=01:00", -EINVAL, 0);
	check_selector("drm=/dev/null", -EINVAL, 0);
	end();
}

static void check_says(const struct queue_says *says)
{
	DLBUF_INFO(dlbuf_device_info, info);
	struct listed l = { .ret = 5 };
	struct dlbuf_device *dev;
	int64_t version = 0;

	begin(says->words);
	CHECK_EQ(dlbuf_device_each(list, &l), 5);
	dev = open_as(on->device);
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	for (int i = 0; i < 2; i++) {
		CHECK_STR(info.backend, on->device);
		CHECK_STR(info.description, says->description);
		CHECK_STR(info.driver, says->driver);
		CHECK_EQ(info.uuid[0], says->uuid);
		CHECK_EQ(info.acquire, DLBUF_SYNC_FENCE);
		CHECK_EQ(info.release, says->release);
		CHECK_EQ(info.offset_align, says->offset_align);
		CHECK_EQ(info.pitch_align, says->pitch_align);
		info = l.infos[0];
	}
	CHECK_OK(on->get(dev, true, &version));
	CHECK_EQ(version, says->version);
	CHECK_ERR(on->get(dev, false, &version), -EINVAL);
	CHECK_ERR(on->get(NULL, true, &version), -EINVAL);
	dlbuf_device_close(dev);
	end();
}

QUEUE_CASE(what_a_device_says, ITSELF, SAYS)
{
	for (size_t i = 0; on->says[i].words; i++)
		check_says(&on->says[i]);
}

static int try_open_again(void)
{
	struct dlbuf_device *dev = NULL;

	return dlbuf_device_open(on->device, NULL, &dev);
}

/* A child has none of the driver's threads. */
QUEUE_CASE(a_child, ITSELF, STALE)
{
	for (int used = 0; used < 2; used++) {
		int status = 0;
		pid_t child;

		begin(used ? "" : "none");
		if (used)
			dlbuf_device_close(open_as(on->device));
		else
			CHECK_ERR(try_open_again(), -ENODEV);
		child = fork();
		if (!child)
			_exit(-try_open_again());
		REQUIRE(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status),
			 used || on->stale == 2 ? ESTALE : ENODEV);
		end();
	}
}

#ifdef CONFIG_BACKEND_CPU
QUEUE_CASE(another_backends_device, ITSELF, SAYS)
{
	struct dlbuf_device *cpu = open_as("cpu");
	int64_t version;

	CHECK_ERR(on->get(cpu, true, &version), -EINVAL);
	CHECK_SAYS("cpu is not a");
	dlbuf_device_close(cpu);
}
#endif

/* A device is not opened to be listed. One that fails is listed with the reason. */
QUEUE_CASE(each, ITSELF, NAME)
{
	struct listed l = { 0 };
	char name[40];

	begin(on->two);
	snprintf(name, sizeof(name), "%s:1", on->device);
	CHECK_OK(dlbuf_device_each(list, &l));
	CHECK_EQ(l.n, 2);
	CHECK_STR(l.infos[1].name, name);
	CHECK_EQ(l.infos[1].uuid[0] & 0xf, 1);
	CHECK_EQ(l.infos[1].device.device_id, 1);
	CHECK_EQ(l.infos[1].acquire, DLBUF_SYNC_FENCE);
	CHECK_EQ(l.infos[1].release, DLBUF_SYNC_EVENT);
	CHECK_EQ(l.infos[1].status, 0);
	CHECK_EQ(fake->made[FAKE_CONTEXT], 0);
	l = (struct listed){ .ret = 5 };
	CHECK_EQ(dlbuf_device_each(list, &l), 5);
	CHECK_EQ(l.n, 1);
	l = (struct listed){ 0 };
	fail_call(on->calls[NAME], 0);
	CHECK_OK(dlbuf_device_each(list, &l));
	CHECK_EQ(l.n, 2);
	CHECK_EQ(l.infos[0].status, -EIO);
	CHECK(strstr(l.infos[0].reason, on->calls[NAME]));
	heal();
	end();
}

static void none_counted(const char *name)
{
	if (!strcmp(name, on->calls[COUNT]))
		fake->ndevices = 0;
}

QUEUE_CASE(no_device_is_counted, ITSELF, COUNT)
{
	struct dlbuf_device *dev = NULL;

	begin("");
	fake->look = none_counted;
	CHECK_ERR(dlbuf_device_open(on->device, NULL, &dev), -ENODEV);
	CHECK_SAYS("no device");
	CHECK(!dev);
	end();
}

QUEUE_CASE(every_failure_of_an_open, ITSELF, OPENS)
{
	struct dlbuf_device *dev = NULL;

	begin("");
	for (const struct queue_failure *fails = on->opens; fails->call; fails++) {
		break_call(fails->call, fails->result, 0);
		CHECK_ERR(dlbuf_device_open(on->device, NULL, &dev), fails->ret);
		heal();
		CHECK(says_call(fails->call) || strstr(fails->says, ": "));
		CHECK_SAYS(fails->says);
		fake->wrong = 0;
		if (!nothing_left())
			ktap_note(NULL, 0, "%s", fails->call);
	}
	CHECK(!dev);
	end();
}
#endif

static void check_blocks(void)
{
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev = open_device();

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_EQ(info.acquire, DLBUF_SYNC_BLOCKS);
	CHECK_EQ(info.release, DLBUF_SYNC_EVENT);
	CHECK(strstr(info.reason, "blocks: the driver's streams do not wait"));
	dlbuf_device_close(dev);
}

QUEUE_CASE(streams_do_not_wait_for_memory, ITSELF, UNREGISTER)
{
	static const enum queue_call calls[] = {
		STREAM_CREATE, WAIT_FENCE, FINISH, ALLOC_HOST, ADDRESS,
	};

	begin("nomemops");
	check_blocks();
	end();
	begin("");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		fail_call(on->calls[calls[i]], 0);
		check_blocks();
		heal();
		nothing_left();
	}
	end();
}

/* ---------------------------------------------------------------- imports */

QUEUE_CASE(the_first_path_that_serves, ITSELF, SERVES)
{
	for (const struct queue_first *first = on->first; first->words; first++) {
		begin(first->words);
		break_call(first->broken, on->unknown, 0);
		REQUIRE_OK(import_as(&f, open_device(), first->paths, DLBUF_RW));
		CHECK_EQ(f.ci.base.path, first->path);
		give_up(&f);
		end();
	}
}

/* A discrete GPU's bytes are compared, until they were right once. */
QUEUE_CASE(direct_is_compared, ITSELF, COMPARES)
{
	begin(on->compares);
	CHECK_ERR(import_by(&f, open_device(), DLBUF_PATH_DIRECT, DLBUF_RW),
		  -EOPNOTSUPP);
	CHECK_SAYS("reads other bytes than the CPU does");
	import_finish(&f, -1);
	dlbuf_device_close(f.dev);
	end();
}

static void check_import_fails(enum queue_call broken, enum dlbuf_path path, bool no_memory)
{
	int ret = -EOPNOTSUPP;
	const char *name = on->calls[broken];
	unsigned int live[ARRAY_SIZE(fake->live)];
	struct dlbuf_device *dev;

	if (no_memory && (broken != IMPORT_FD || !on->lies))
		ret = -ENOMEM;
	begin(on->words[path]);
	dev = open_device();
	memcpy(live, fake->live, sizeof(live));
	break_call(name, no_memory ? on->no_memory : on->unknown, 0);
	if (!CHECK_ERR(import_by(&f, dev, path, DLBUF_RW), ret))
		ktap_note(NULL, 0, "%s", name);
	CHECK(says_call(name) || broken == ENTER);
	import_finish(&f, -1);
	CHECK(!memcmp(live, fake->live, sizeof(live)));
	heal();
	/* The driver is asked again each time. */
	CHECK_OK(import_by(&f, dev, path, DLBUF_RW));
	give_up(&f);
	end();
}

/* What the machine has not got is told as that, and a refusal is of one path. */
QUEUE_CASE(every_failure_of_an_import, ITSELF, OPENS)
{
	static const struct {
		enum queue_call call;
		enum dlbuf_path path;
	} cases[] = {
		{ IMPORT_FD, DLBUF_PATH_DIRECT }, { MAP_FD, DLBUF_PATH_DIRECT },
		{ REGISTER, DLBUF_PATH_HOST }, { ADDRESS, DLBUF_PATH_HOST },
		{ ALLOC, DLBUF_PATH_COPY }, { ALLOC_HOST, DLBUF_PATH_COPY },
		{ EVENT_CREATE, DLBUF_PATH_COPY }, { ENTER, DLBUF_PATH_COPY },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++)
		if (on->calls[cases[i / 2].call] && on->words[cases[i / 2].path])
			check_import_fails(cases[i / 2].call, cases[i / 2].path, i % 2);
}

/* The memfd behind a udmabuf serves where the dma-buf's own mapping does not. */
QUEUE_CASE(host_by_the_memfd, ITSELF, NOTHING)
{
	int memfd = memfd_create("behind it", MFD_CLOEXEC);
	uint8_t byte = 0x5a;

	REQUIRE(memfd >= 0 && !ftruncate(memfd, IMPORT_BYTES));
	CHECK_EQ(pwrite(memfd, &byte, 1, 100), 1);
	for (int i = 0; i < 2 && on->words[DLBUF_PATH_HOST]; i++) {
		begin(on->words[DLBUF_PATH_HOST]);
		fixture_make(&f, open_device(), HOST, DLBUF_RW);
		memory_remember(f.ci.base.fd, memfd);
		if (i && on->calls[REGISTER]) {
			/* Its failures are not of the mapping. */
			fail_call(on->calls[REGISTER], 0);
			CHECK_ERR(path_import(&f.ci.base), -EOPNOTSUPP);
			CHECK(!strstr(dlbuf_last_error(), "memfd"));
			heal();
			import_finish(&f, -1);
			dlbuf_device_close(f.dev);
		} else {
			REQUIRE_OK(path_import(&f.ci.base));
			CHECK_EQ(((uint8_t *)f.ci.memory->map)[100], 0x5a);
			give_up(&f);
		}
		memory_forget(memfd);
		end();
	}
	close(memfd);
}

/* ---------------------------------------------------------------- fences in */

/*
 * The stream waits, and not the caller; its work is on what is there then, and so are
 * those who wait for the end.
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
	/* What the producer does before it signals. */
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

/* Nothing to say to the driver: the usual case costs no call. */
QUEUE_CASE(no_fence_no_call, SHARED, NO_ORDER)
{
	unsigned long calls = fake->calls;

	CHECK_OK(acquire(&f, DLBUF_READ, NULL, -1));
	CHECK_EQ(fake->calls, calls);
	/* And who wants no order gets none. */
	CHECK_OK(acquire(&f, DLBUF_READ, on->no_order, f.memfd));
	CHECK_EQ(release(&f, DLBUF_READ, on->no_order), -1);
	CHECK_EQ(release(&f, DLBUF_READ, on->no_order), -1);
	CHECK_EQ(fake->calls, calls);
}

/* Many streams wait, and their fences signal in another order; then one, for many. */
QUEUE_CASE(many_fences, SHARED, WAITS)
{
	enum { N = 80 };	/* more than there are words on a page, or events in a pool */
	/* Those that share a begin are in order, and a command waits for few others. */
	int n = f.ci.memory->passes ? 4 : N;
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
	if (f.ci.memory->open)
		CHECK_OK(release_to(NULL));
}

/* What the stream waits for lives as long as it waits. */
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
		while (event_pending() && !queue_device_of(f.dev)->npolled)
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
 * A free waits for all streams and holds up all other calls, perhaps that of whoever
 * signals the fence: no stream begins to wait for one meanwhile, and no free begins
 * while a stream does.
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
	/* Or this free waits for ever. */
	if (!CHECK_EQ(gated.waits, 0))
		signal_fence(gated.fence);
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

static void gated_begin(void (*look)(const char *name))
{
	memset(&gated, 0, sizeof(gated));
	REQUIRE_OK(import_by(&gated.other, f.dev, DLBUF_PATH_HOST, DLBUF_RW));
	gated.fence = pending_fence();
	gated.holds = &queue_device_of(f.dev)->freed;
	fake->look = look;
}

static void gated_end(void)
{
	CHECK_EQ(gated.waits, 1);
	signal_now(gated.fence);
	drain(&app);
	look_no_more();
}

QUEUE_CASE(no_wait_begins_during_a_free, HOST, UNREGISTER)
{
	gated_begin(acquire_inside_a_free);
	import_finish(&gated.other, 0);
	pthread_join(gated.thread, NULL);
	gated_end();
}

QUEUE_CASE(no_free_begins_during_a_wait, HOST, UNREGISTER)
{
	gated_begin(free_inside_a_wait);
	acquire_beside(NULL);
	gated_end();
}

/* Memory is freed by the library's thread, when no stream waits for a fence. */
QUEUE_CASE(frees_wait_for_all_streams, EACH, UNREGISTER)
{
	unsigned int live[ARRAY_SIZE(fake->live)];
	enum dlbuf_path path = f.ci.base.path;
	int in = pending_fence();
	struct fixture other;

	REQUIRE_OK(import_by(&other, f.dev, path, DLBUF_RW));
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, in));
	memcpy(live, fake->live, sizeof(live));
	import_finish(&other, 0);
	CHECK(!memcmp(live, fake->live, sizeof(live)));
	CHECK_EQ(queue_device_of(f.dev)->leftovers, 1);
	signal_now(in);
	settle();
	CHECK(memcmp(live, fake->live, sizeof(live)));
	CHECK_EQ(queue_device_of(f.dev)->leftovers, 0);
	close(release(&f, DLBUF_READ, app.stream));
	drain(&app);
}

static void *signal_soon(void *arg)
{
	/* Whenever that is: who waits for it is not to return before. */
	sched_yield();
	signal_fence(*(int *)arg);
	return NULL;
}

/* Nobody can be told of the fence: whoever acquires waits for it. */
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

/* The wait is not begun, or not told of: no stream is left hanging. */
QUEUE_CASE(every_failure_of_a_wait, ITSELF, UNREGISTER)
{
	static const enum queue_call calls[] = {
		WAIT_FENCE, EVENT_CREATE, RECORD, ENTER,
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		int in = pending_fence();

		begin_on(DLBUF_PATH_HOST);
		app_away(&app, true);
		fail_call(on->calls[calls[i]], 0);
		CHECK_ERR(acquire(&f, DLBUF_READ, app.stream, in), -EIO);
		check_unknown(on->calls[calls[i]]);
		heal();
		app_away(&app, false);
		signal_now(in);
		drain(&app);
		end_on();
	}
}

/* ---------------------------------------------------------------- releases */

/* Readable after the work, for everybody who waits, however often. */
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
	for (int i = 0; i < 5 && f.ci.base.release_sync == DLBUF_SYNC_EVENT; i++) {
		CHECK_EQ(read(out, &n, sizeof(n)), sizeof(n));
		CHECK_EQ(n, 1);
		CHECK(signalled(out) && signalled(again));
	}
	close(again);
	close(out);
	drain(&app);
}

/* Nobody asks: an event of the driver's, no fd, no function. */
QUEUE_CASE(release_nobody_asks, SHARED, CALL_HOST)
{
	watch(on->calls[CALL_HOST]);
	for (int i = 0; i < 3; i++)
		CHECK_OK(f.dev->backend->release(&f.ci.base, DLBUF_READ, NULL,
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
	CHECK_EQ(seen, 1);
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
	heal();
	app_away(&app, false);
	/* The wait that is left when a call before it has failed, whichever that is. */
	for (int n = 1; n < 20 && !ret; n++) {
		fail_call(on->calls[FINISH], 0);
		fake->fail_at = n;
		out = 7;
		ktap_forget();
		ret = release_to(&out);
		heal();
		fake->fail_at = 0;
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
		CHECK_OK(f.dev->backend->release(&f.ci.base, cases[i].released,
						 app.stream, NULL, NULL));
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
		CHECK_OK(w.ret);
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

/* The library's thread has looked at what was posted to it before. */
static void let_the_thread_look(void)
{
	int fd = signalled_fence();
	sem_t looked;

	sem_init(&looked, 0, 0);
	REQUIRE_OK(event_add(fd, post, &looked));
	sem_wait(&looked);
	sem_destroy(&looked);
	close(fd);
}

/*
 * An fd for what wait() would wait for, whoever asks for it; and the end of all of
 * the device, its memory included.
 */
static void check_under_way(enum dlbuf_path path)
{
	struct import *imp = &f.ci.base;
	int reader, writer, fd = 77;
	struct app other;

	begin_on(path);
	app_begin(&other, f.dev);
	CHECK_OK(f.dev->backend->pending(imp, DLBUF_RW, &fd));
	CHECK_EQ(fd, -1);
	for (int i = 0; i < 2; i++)
		CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	gate_close(&app);
	for (int i = 0; i < 2; i++)
		CHECK_OK(f.dev->backend->release(imp, DLBUF_READ, app.stream,
						 NULL, NULL));
	CHECK_OK(f.dev->backend->pending(imp, DLBUF_READ, &reader));
	CHECK_EQ(reader, -1);
	CHECK_OK(f.dev->backend->pending(imp, DLBUF_WRITE, &writer));
	let_the_thread_look();
	CHECK(writer >= 3 && !signalled(writer));
	CHECK_ERR(dlbuf_device_drain(f.dev, 1), -ETIME);
	CHECK_SAYS("not complete at the deadline");
#ifdef CONFIG_FAULT_INJECTION
	reader = -1;
	for (unsigned long n = 1; reader; n++) {
		fault_at(n);
		reader = f.dev->backend->pending(imp, DLBUF_WRITE, &fd);
		fault_at(0);
		CHECK_EQ(!reader, fd >= 3);
#ifdef ONE_DEVICE
		/* Elsewhere calls of the driver may fail, too, which changes nothing. */
		CHECK(reader || n > 5);
#endif
	}
	close(fd);
#endif
	/* Work that comes later is not in it. */
	gate_close(&other);
	CHECK_OK(acquire(&f, DLBUF_RW, other.stream, -1));
	CHECK_OK(f.dev->backend->release(imp, DLBUF_RW, other.stream, NULL, NULL));
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
	CHECK_EQ(queue_device_of(f.dev)->leftovers, 0);
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

/* ---------------------------------------------------------------- copies */

static void check_copied(unsigned int copies, unsigned int times)
{
	DLBUF_INFO(dlbuf_device_stats, stats);

	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.copies, copies);
	CHECK_EQ(stats.copied_bytes, (uint64_t)times * IMPORT_BYTES);
}

/* Each access is of what is there then. */
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

/* What is not written stays as it was. */
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

/* What may not be written is imported for reading, and a reader's bytes do not return. */
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

/* The next copy in does not overwrite what an earlier stream still reads. */
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

	CHECK_ERR(acquire(&f, DLBUF_READ, on->no_order, -1), -EINVAL);
	CHECK_SAYS("this handle is none");
	/* It ends all the same: the next one is a new copy. */
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, -1));
	CHECK_EQ(release(&f, DLBUF_READ, on->no_order), -1);
	drain(&app);
	fill(f.bytes, 2);
	CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
	gpu_reads(&app, &f);
	CHECK_ERR(f.dev->backend->release(&f.ci.base, DLBUF_RW, on->no_order,
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

/* Whatever of a copy has begun is waited for before its memory goes. */
QUEUE_CASE(every_failure_of_a_copy, ITSELF, COPY_IN)
{
	static const struct {
		enum queue_call call;
		unsigned int spared;
		bool acquired;
	} cases[] = {
		{ STREAM_WAIT, 0, false }, { WAIT_FENCE, 0, false },
		{ CALL_HOST, 0, false }, { COPY_IN, 0, false },
		{ RECORD, 1, false }, { ENTER, 0, false },
		{ COPY_OUT, 0, true }, { CALL_HOST, 1, true },
		{ ENTER, 1, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int in = signalled_fence(), out = 7, ret;

		begin_on(DLBUF_PATH_COPY);
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
		CHECK_EQ(f.ci.memory->open, 0);
		/* Its memory goes before anybody has waited. */
		import_finish(&f, 0);
		close(in);
		app_away(&app, false);
		drain(&app);
		app_end(&app);
		dlbuf_device_close(f.dev);
		end();
	}
}

/* ---------------------------------------------------------------- exports */

#ifndef ONE_DEVICE

#define EXPORT_BYTES (2 << 20)

/* An application with memory that can be exported, as an import's would be used. */
static uint8_t *begin_export(void)
{
	begin(on->exports);
	f = (struct fixture){ .dev = open_as(on->device) };
	app_begin(&app, f.dev);
	f.ci.base.data = on->alloc(&app, EXPORT_BYTES);
	return f.ci.base.data;
}

/* Again and again, and a part, where the driver exports all of it. */
QUEUE_CASE(export, ITSELF, EXPORTS)
{
	uint8_t *p = begin_export();
	struct dlbuf_exported out;

	gpu_sets(&app, &f, 0, EXPORT_BYTES, 0x11);
	gpu_sets(&app, &f, 5000, 1, 0x77);
	drain(&app);
	for (int i = 0; i < (on->exports_all ? 3 : 2); i++) {
		int first = i == 2 ? 5000 : 0;

		REQUIRE_OK(export_at(f.dev, p + first, first ? 100 : EXPORT_BYTES,
				     f.dev->dl.device_type, 0, &out));
		CHECK_EQ(out.offset, first);
		CHECK_EQ(out.bytes, EXPORT_BYTES);
		CHECK(out.fd >= 3 && fcntl(out.fd, F_GETFD) == FD_CLOEXEC);
		CHECK_EQ(byte_at(&out, 4999), 0x11);
		CHECK_EQ(byte_at(&out, 5000), 0x77);
		close(out.fd);
	}
	on->free(&app, p);
	app_end(&app);
	dlbuf_device_close(f.dev);
	end();
}

QUEUE_CASE(every_refusal_of_an_export, ITSELF, EXPORTS)
{
	uint8_t *p = begin_export(), byte;
	DLDeviceType type = f.dev->dl.device_type;
	struct dlbuf_device *dev = f.dev;
	struct dlbuf_exported out;

	REFUSES(dev, p, 1, kDLCPU, 0, -EINVAL, "type 1");
	REFUSES(dev, &byte, 1, type, 0, -EINVAL, "freed, or never allocated");
	REFUSES(dev, p, EXPORT_BYTES + 1, type, 0, -EINVAL,
		"ends 1 bytes after its allocation of 2097152");
	REFUSES(dev, p, EXPORT_BYTES, type, DLBUF_EXPORT_PCIE, -EOPNOTSUPP,
		on->no_pcie);
	REFUSES(dev, p, EXPORT_BYTES, type, 2, -EINVAL, "");
	/* Whether it is a layout is the layout's to say. */
	REFUSES(dev, p, -1, type, 0, -EINVAL, "shape");
	if (on->calls[EXPORT_FD]) {
		fail_call(on->calls[EXPORT_FD], 0);
		REFUSES(dev, p, 1, type, 0, -EIO, "");
		CHECK(says_call(on->calls[EXPORT_FD]));
		heal();
	}
	if (on->calls[ENTER]) {
		app_away(&app, true);
		fail_call(on->calls[ENTER], 0);
		REFUSES(dev, p, 1, type, 0, -EIO, "");
		check_unknown(on->calls[ENTER]);
		heal();
		app_away(&app, false);
	}
	on->free(&app, p);
	REFUSES(dev, p, 1, type, 0, -EINVAL, "freed, or never allocated");
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

static int try_alloc(struct dlbuf_device *dev, DLManagedTensorVersioned **tensor)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "device");
	int64_t bytes = IMPORT_BYTES, strides = 1;
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &bytes,
		.strides = &strides,
	};

	return dlbuf_alloc(&dev, 1, &layout, &opts, tensor);
}

/* It is zero, and nobody finds it again when it has gone. */
QUEUE_CASE(alloc, ITSELF, EXPORTS)
{
	DLManagedTensorVersioned *tensor = NULL, *again = NULL;
	DLBUF_INFO(dlbuf_device_stats, stats);
	DLBUF_INFO(dlbuf_tensor_info, info);
	uint8_t *p = begin_export();
	unsigned int before;
	DLTensor layout;

	/* So that what is given out next is not zero by itself. */
	gpu_sets(&app, &f, 0, EXPORT_BYTES, 0x11);
	drain(&app);
	on->free(&app, p);
	before = fake->live[on->memory];
	watch(on->calls[CLEAR]);
	REQUIRE_OK(try_alloc(f.dev, &tensor));
	CHECK_EQ(seen, 1);
	CHECK_EQ(fake->live[on->memory], before + 1);
	REQUIRE_OK(dlbuf_tensor_get_info(tensor, &info));
	CHECK_EQ(lseek(info.fd, 0, SEEK_END), EXPORT_BYTES);
	CHECK_EQ(info.path, DLBUF_PATH_DIRECT);
	f.ci.base.data = tensor->dl_tensor.data;
	memset(app.pinned, 7, IMPORT_BYTES);
	gpu_reads(&app, &f);
	drain(&app);
	for (size_t i = 0; i < IMPORT_BYTES; i++)
		if (!CHECK_EQ(app.pinned[i], 0))
			break;
	/* By its own fd it is the same one, whatever the driver imports. */
	layout = tensor->dl_tensor;
	layout.data = NULL;
	CHECK_OK(dlbuf_import(f.dev, info.fd, &layout, NULL, &again));
	CHECK(!again || again->dl_tensor.data == tensor->dl_tensor.data);
	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.hits, 1);
	CHECK_EQ(stats.misses, 0);
	if (again)
		again->deleter(again);
	tensor->deleter(tensor);
	CHECK_OK(dlbuf_device_get_stats(f.dev, &stats));
	CHECK_EQ(stats.idle, 0);
	CHECK_EQ(fake->live[on->memory], before);
	app_end(&app);
	dlbuf_device_close(f.dev);
	end();
}

static int alloc_of(struct dlbuf_device *dev, uint64_t bytes)
{
	struct queue_import ci = { .base.dev = dev, .base.bytes = bytes };
	int ret = dev->backend->alloc(&ci.base);

	if (ret)
		return ret;
	dev->backend->unimport(&ci.base);
	close(ci.base.fd);
	return 0;
}

QUEUE_CASE(every_failure_of_an_alloc, ITSELF, EXPORTS)
{
	static const enum queue_call calls[] = {
		ALLOC, STREAM_CREATE, CLEAR, FINISH, EXPORT_FD, ENTER,
	};
	unsigned int live[ARRAY_SIZE(fake->live)];
	struct dlbuf_device *dev;

	begin(on->exports);
	dev = open_as(on->device);
	/* Two blocks, if the double has as many. */
	CHECK_OK(alloc_of(dev, on->exports_all ? 1 : EXPORT_BYTES + 1));
	memcpy(live, fake->live, sizeof(live));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		const char *name = on->calls[calls[i]];

		if (!name)
			continue;
		fail_call(name, 0);
		CHECK_ERR(alloc_of(dev, 4096), -EIO);
		CHECK(says_call(name) || calls[i] == ENTER);
		heal();
		CHECK(!memcmp(live, fake->live, sizeof(live)));
	}
	CHECK_ERR(alloc_of(dev, UINT64_MAX - 1), -EOVERFLOW);
	if (sizeof(size_t) == 8)	/* there are no such drivers for less */
		CHECK_ERR(alloc_of(dev, INT64_MAX), -ENOMEM);
	dlbuf_device_close(dev);
	end();
}
#endif

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
 * Accesses at the same time share a copy, or what the driver is told at their begin and
 * end. A later stream waits for that.
 */
QUEUE_CASE(overlapping_accesses, EACH | BRIDGE, NOTHING)
{
	int first = on->blocks ? signalled_fence() : pending_fence(), out[3];
	bool copied = f.ci.memory->copied;
	struct app other;

	app_begin(&other, f.dev);
	CHECK_OK(acquire(&f, DLBUF_READ, app.stream, first));
	gate_close(&other);
	CHECK_OK(acquire(&f, DLBUF_READ, other.stream, -1));
	gpu_reads(&other, &f);
	gate_pass(&other);
	if (!on->blocks && (copied || f.ci.memory->passes))
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

/* As the first release has ended its access, and begins to tell of its own work. */
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

/* The last of several ends waits for the work of all, also of one that is not told yet. */
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
	if (f.ci.memory->passes)
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
 * Nobody waits for what is under way: neither who gives up the import nor who
 * closes the device. The memory is there until that is over.
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
		f.dev->backend->unimport(&f.ci.base);
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
	f.dev->backend->unimport(&f.ci.base);
	CHECK_EQ(seen, 1);
	CHECK_EQ(f.bytes[77], 0x31);
	CHECK_EQ(queue_device_of(f.dev)->leftovers, 0);
	look_no_more();
	fixture_end(&f);
	app_end(&app);
	dlbuf_device_close(f.dev);
	end();
}

/* ---------------------------------------------------------------- lost */

/* Whoever waits is told, whatever is asked next, and nothing stays behind. */
static void check_lost(enum dlbuf_path path, int result, int error, const char *says)
{
	/* The bridge's next acquire waits for the work before. */
	int n = path == DLBUF_PATH_BRIDGE ? 1 : 3, out[3], in, ret;

	begin_on(path);
	gate_close(&app);
	for (int i = 0; i < n; i++) {
		CHECK_OK(acquire(&f, DLBUF_RW, app.stream, -1));
		out[i] = release(&f, DLBUF_RW, app.stream);
		CHECK(!signalled(out[i]));
	}
	lose(result);
	in = pending_fence();
	CHECK_ERR(acquire(&f, DLBUF_RW, app.stream, in), error);
	CHECK_SAYS(says);
	for (int i = 0; i < n; i++)
		until_over(out[i]);
	signal_fence(in);
	close(in);
	ktap_forget();
	out[0] = 7;
	ret = f.dev->backend->release(&f.ci.base, DLBUF_READ, app.stream, &out[0],
				      NULL);
	CHECK(ret < 0);
	CHECK_EQ(out[0], -1);
	CHECK_SAYS(says);
	CHECK_OK(wait_until(DLBUF_RW, 0));
	give_up(&f);
	settle();
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

/* While somebody waits for it. */
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
	CHECK_EQ(w.ret, on->losses[0].ret);
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
	/* Only a fence tells of the bridge's copy out. */
	bool asks = i % 4 || i > 60 || f.ci.base.path == DLBUF_PATH_BRIDGE;

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
	CHECK_OK(f.dev->backend->release(&f.ci.base, access, own->stream,
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
	CHECK_EQ(f.ci.memory->open, 0);
	/* That frees memory, for which drivers may wait for all streams. */
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

/* However they meet: those that overlap are one copy. */
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

/* ---------------------------------------------------------------- faults */

#if defined(FAIL_LATER) || defined(CONFIG_FAULT_INJECTION)
static enum dlbuf_path walk_path;

static int walk(void)
{
	struct dlbuf_device *dev = NULL;
	int in, out = -1, ret;
	pthread_t thread;

	/* Not a wrapped one, whose context the application keeps. */
#ifdef ONE_DEVICE
	ret = try_open(&dev);
#else
	ret = dlbuf_device_open(on->device, NULL, &dev);
#endif
	if (ret)
		return ret;
	ret = import_by(&f, dev, walk_path, DLBUF_RW);
	if (ret) {
		import_finish(&f, ret);
		dlbuf_device_close(dev);
		return ret;
	}
	in = pending_fence();
	/* The acquire may have to wait. */
	REQUIRE(!pthread_create(&thread, NULL, signal_soon, &in));
	ret = acquire(&f, DLBUF_RW, NULL, in);
	pthread_join(thread, NULL);
	if (!ret) {
		ret = f.dev->backend->release(&f.ci.base, DLBUF_RW, NULL, &out,
					      NULL);
		CHECK(!ret || out == -1);
	}
	if (!ret)
		ret = wait_until(DLBUF_RW, 0);
	CHECK_EQ(f.ci.memory->open, 0);
	import_finish(&f, 0);
	if (out != -1)
		until_over(out);
	close(in);
	dlbuf_device_close(dev);
	return ret;
}

#endif

#ifdef FAIL_LATER
/* The driver fails the n-th call of it, each in turn, and nothing stays behind. */
static void check_calls(const char *words)
{
	unsigned long calls;

	begin(words);
	CHECK_OK(walk());
	settle();
	nothing_left();
	calls = fake->calls;
	CHECK(calls > 20);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		FAIL_LATER(n);
		ret = walk();
		FAIL_LATER(0);
		settle();
		if (!nothing_left() || !CHECK_EQ(fake->wrong, 0))
			ktap_note(NULL, 0, "%s: call %lu of %lu gave %d: %s", words,
				  n, calls, ret, dlbuf_last_error());
		fake->wrong = 0;
	}
	end();
}

QUEUE_CASE(every_call_of_the_driver_fails_once, ITSELF, LOSES)
{
	FOR_EACH_PATH(path) {
		walk_path = path;
		check_calls(on->words[path]);
	}
}
#endif

#ifdef CONFIG_FAULT_INJECTION
QUEUE_CASE(every_call_fails_once, ITSELF, NOTHING)
{
	FOR_EACH_PATH(path) {
		begin(on->words[path]);
		/* And that path, or the next one if a call of it fails. */
		for (int any = 0; any < 2; any++) {
			walk_path = any ? 0 : path;
			check_walks(walk, on->walks);
		}
		end();
	}
}

#ifndef ONE_DEVICE
static int walk_export(void)
{
	DLManagedTensorVersioned *tensor = NULL;
	struct dlbuf_device *dev = NULL;
	struct dlbuf_exported out;
	int ret;

	ret = dlbuf_device_open(on->device, NULL, &dev);
	if (ret)
		return ret;
	ret = try_alloc(dev, &tensor);
	if (!ret)
		ret = export_at(dev, tensor->dl_tensor.data, EXPORT_BYTES,
				dev->dl.device_type, 0, &out);
	if (!ret)
		close(out.fd);
	if (tensor)
		tensor->deleter(tensor);
	dlbuf_device_close(dev);
	return ret;
}

QUEUE_CASE(every_call_of_an_export_fails_once, ITSELF, EXPORTS)
{
	begin(on->exports);
	check_walks(walk_export, on->walks);
	end();
}
#endif
#endif

#endif /* UNIT_QUEUE_CASES_H */
