/* SPDX-License-Identifier: MIT */
/*
 * Cases of lib/queue, which a program runs for all of its `drivers`.
 * A case is called DRIVER/CASE. It runs on each path that both it and the driver have, with
 * an import and an application, `f` and `app`. This file has what the cases use; they are
 * in queue_devices.h, queue_access.h, and so on.
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
#include <sys/resource.h>
#include <sys/wait.h>

#include "cuda_memfds.h"
#include "fixture.h"
#include "access/lease.h"
#include "access/pending.h"
#include "dmabuf/fence.h"
#include "dmabuf/memory.h"
#include "queue_driver.h"
#include "tensor/sync.h"
#include "thread.h"

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
		memory_remember(fixture->imp->fd, fixture->memfd);
	ret = import_now(fixture);
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
	case LOSES_COPIES:
		return d->losses && d->words[DLBUF_PATH_COPY];
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
	return f.dev->backend->release(f.imp, DLBUF_RW, ON(app.stream), fence,
				       NULL);
}

static int wait_until(uint32_t access, uint64_t deadline)
{
	return f.dev->backend->wait(f.imp, access, deadline);
}

/* The library's thread looks at works, again and again. */
static bool is_polled(void)
{
	struct queue_device *q = queue_device_of(f.dev);
	bool polled;

	pthread_mutex_lock(&q->lock);
	polled = q->npolled;
	pthread_mutex_unlock(&q->lock);
	return polled;
}

/* Or, instead of a function of the case, when the library's thread makes no call. */
static void look_no_more(void)
{
	while (fake->look != look_for_watched && event_pending() && !is_polled())
		sched_yield();
	watch(NULL);
}

/* After all earlier work, also for a sanitizer. */
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
		CHECK_ERR_SAYS(import_by(&f, open_device(), path, DLBUF_RW), -EOPNOTSUPP,
			       on->why_not[path]);
		import_finish(&f, -1);
		dlbuf_device_close(f.dev);
		end();
	}
}

#include "queue_devices.h"
#include "queue_access.h"
#include "queue_copies.h"
#include "queue_exports.h"
#include "queue_streams.h"
#include "queue_faults.h"

#endif /* UNIT_QUEUE_CASES_H */
