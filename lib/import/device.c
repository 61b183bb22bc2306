// SPDX-License-Identifier: MIT
/* Opens devices by name, and has the list of backends and of open devices. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../dmabuf/fence.h"
#include "../system/event.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "backend.h"

/*
 * generated/backends.h is made from the symbols of Kconfig. It has BACKEND(cpu) for a
 * backend that is built, and BACKEND_OFF(cpu) for one that is not.
 */
#define BACKEND(name) extern const struct backend name##_backend;
#define BACKEND_OFF(name)
#include "generated/backends.h"
#undef BACKEND

static const struct backend *const backends[] = {
#define BACKEND(name) &name##_backend,
#include "generated/backends.h"
#undef BACKEND
#undef BACKEND_OFF
	NULL
};

static const char *const not_built[] = {
#define BACKEND(name)
#define BACKEND_OFF(name) #name,
#include "generated/backends.h"
#undef BACKEND
#undef BACKEND_OFF
	NULL
};

/* Checks that required functions are not NULL. */
static void check_backend(const struct backend *b)
{
	assert(b->name && b->type && b->each && b->open && b->close &&
	       b->describe && b->import && b->unimport && b->acquire &&
	       b->release && b->import_size >= sizeof(struct import) &&
	       !b->can_detile == !b->detile && !b->wait == !b->pending &&
	       !b->acquire_all == !b->release_all &&
	       !(b->acquire_all && b->wait));
	(void)b;
}

static int no_such_backend(const char *name, size_t len)
{
	char known[128];
	size_t n = 0;

	known[0] = '\0';
	for (size_t i = 0; not_built[i]; i++)
		if (strlen(not_built[i]) == len &&
		    !strncmp(not_built[i], name, len))
			return fail(-ENOSYS, "backend %s is not built into this"
				    " library", not_built[i]);
	for (size_t i = 0; backends[i] && n < sizeof(known); i++)
		n += snprintf(known + n, sizeof(known) - n, " %s",
			      backends[i]->name);
	return fail(-EINVAL, "no backend is named '%.*s'; this library has%s",
		    len < 64 ? (int)len : 64, name, known);
}

int device_opts_get(struct dlbuf_device_opts *ours, const struct dlbuf_device_opts *src)
{
	const uint32_t known = DLBUF_DEVICE_NO_CACHE | DLBUF_DEVICE_NO_BRIDGE;
	int ret = OPTS_GET(ours, src, "dlbuf_device_opts");

	if (!ret && ours->flags & ~known)
		ret = unknown_flags("device", ours->flags & ~known);
	return ret;
}

/* ---------------------------------------------------------------- the list */

static struct {
	pthread_mutex_t lock;
	struct dlbuf_device *first;
} devices = { .lock = PTHREAD_MUTEX_INITIALIZER };

unsigned int devices_nunfenced;

static void devices_add(struct dlbuf_device *dev)
{
	pthread_mutex_lock(&devices.lock);
	dev->next = devices.first;
	devices.first = dev;
	__atomic_add_fetch(&devices_nunfenced, !!dev->backend->wait,
			   __ATOMIC_RELEASE);
	pthread_mutex_unlock(&devices.lock);
}

static void devices_remove(struct dlbuf_device *dev)
{
	struct dlbuf_device **p = &devices.first;

	pthread_mutex_lock(&devices.lock);
	while (*p != dev)
		p = &(*p)->next;
	*p = dev->next;
	__atomic_sub_fetch(&devices_nunfenced, !!dev->backend->wait,
			   __ATOMIC_RELEASE);
	pthread_mutex_unlock(&devices.lock);
}

static void forked(enum fork_side side)
{
	if (side != FORK_CHILD)
		return;
	import_forked();
	pthread_mutex_init(&devices.lock, NULL);
	devices.first = NULL;
	devices_nunfenced = 0;
}

static struct fork_handler fork_handler = { .fn = forked };

/* Adds a reference. False: the device is being destroyed. */
static bool ref_if_alive(struct dlbuf_device *dev)
{
	bool alive;

	pthread_mutex_lock(&dev->cache.lock);
	alive = dev->refs;
	dev->refs += alive;
	pthread_mutex_unlock(&dev->cache.lock);
	return alive;
}

struct dlbuf_device *device_next(struct dlbuf_device *dev)
{
	struct dlbuf_device *next;

	fork_handle(&fork_handler);
	pthread_mutex_lock(&devices.lock);
	next = dev ? dev->next : devices.first;
	while (next && !ref_if_alive(next))
		next = next->next;
	pthread_mutex_unlock(&devices.lock);
	if (dev)
		device_unref(dev);
	return next;
}

bool device_relieve(int ret, bool *tried)
{
	struct dlbuf_device *dev = NULL;
	uint32_t dropped = 0;

	if (*tried || (ret != -ENOMEM && ret != -EMFILE && ret != -ENFILE))
		return false;
	*tried = true;
	while ((dev = device_next(dev)))
		dropped += cache_trim(dev, 0);
	return dropped;
}

/* ---------------------------------------------------------------- devices */

void device_init(struct dlbuf_device *dev, const struct backend *backend,
		 const struct dlbuf_device_opts *opts)
{
	dev->backend = backend;
	dev->dl.device_type = backend->type;
	dev->refs = 1;
	fork_handle(&fork_handler);
	dev->generation = fork_generation;
	event_user_add();
	cache_init(&dev->cache, opts);
	devices_add(dev);
}

int dlbuf_device_open(const char *name, const struct dlbuf_device_opts *opts,
		      struct dlbuf_device **out)
{
	NOT_CANCELLED;
	const struct backend *const *b;
	struct dlbuf_device_opts o;
	struct dlbuf_device *dev;
	const char *selector;
	size_t len;
	int ret;

	if (!name || !out)
		return fail(-EINVAL, "%s is NULL", name ? "out" : "name");
	len = strcspn(name, ":");
	for (b = backends; *b; b++)
		if (strlen((*b)->name) == len && !strncmp((*b)->name, name, len))
			break;
	selector = name + len;
	if (!*b)
		return no_such_backend(name, len);
	if (*selector && !*++selector)
		return fail(-EINVAL, "'%s' names no device after the colon", name);
	check_backend(*b);
	ret = device_opts_get(&o, opts);
	if (!ret)
		ret = (*b)->open(selector, &o, &dev);
	if (ret)
		return ret;
	device_init(dev, *b, &o);
	log_at(DLBUF_LOG_INFO, "opened %s as %s", name, dev->name);
	*out = dev;
	return 0;
}

int device_check(const struct dlbuf_device *dev)
{
	if (!dev)
		return fail(-EINVAL, "dev is NULL");
	if (device_inherited(dev))
		return fail(-ESTALE, "device %s belongs to the process that "
			    "forked this one", dev->name);
	return 0;
}

void device_destroy(struct dlbuf_device *dev)
{
	/* This was the last reference, so no import is left. */
	devices_remove(dev);
	cache_finish(&dev->cache);
	free(dev->last_frame);
	dev->backend->close(dev);
	event_user_remove();
}

void device_ref(struct dlbuf_device *dev)
{
	pthread_mutex_lock(&dev->cache.lock);
	dev->refs++;
	pthread_mutex_unlock(&dev->cache.lock);
}

void device_unref(struct dlbuf_device *dev)
{
	bool last;

	pthread_mutex_lock(&dev->cache.lock);
	last = !--dev->refs;
	pthread_mutex_unlock(&dev->cache.lock);
	if (last)
		device_destroy(dev);
}

void dlbuf_device_close(struct dlbuf_device *dev)
{
	NOT_CANCELLED;
	if (!dev || device_inherited(dev))
		return;
	if (dev->backend->shut)
		dev->backend->shut(dev);
	/* From now on imports are destroyed when they become idle. */
	pthread_mutex_lock(&dev->cache.lock);
	dev->cache.max_idle = 0;
	pthread_mutex_unlock(&dev->cache.lock);
	cache_trim(dev, 0);
	import_destroy_again(true);
	device_unref(dev);
}

static void describe_device(struct dlbuf_device *dev, struct dlbuf_device_info *info)
{
	*info = (struct dlbuf_device_info){
		.device = dev->dl,
		.acquire = dev->acquire_sync,
		.release = dev->release_sync,
		.pitch_align = 64,
		.offset_align = 64,
	};
	snprintf(info->name, sizeof(info->name), "%s", dev->name);
	snprintf(info->backend, sizeof(info->backend), "%s", dev->backend->name);
	dev->backend->describe(dev, info);
}

int dlbuf_device_get_info(struct dlbuf_device *dev,
			  struct dlbuf_device_info *info)
{
	struct dlbuf_device_info out;
	int ret = device_check(dev);

	if (ret)
		return ret;
	describe_device(dev, &out);
	return INFO_PUT(info, &out, "dlbuf_device_info");
}

struct walk {
	dlbuf_device_fn fn;
	void *data;
	int stopped;		/* the value with which fn ended the walk */
};

/* Keeps the result of fn, because each() may return a negative value too. */
static int walk_one(const struct dlbuf_device_info *info, void *data)
{
	struct walk *walk = data;

	walk->stopped = walk->fn(info, walk->data);
	return walk->stopped ? 1 : 0;
}

int device_each(bool programs, dlbuf_device_fn fn, void *data)
{
	struct walk walk = { .fn = fn, .data = data };

	for (const struct backend *const *b = backends; *b; b++) {
		struct dlbuf_device_info absent = {
			.size = sizeof(absent),
			.device.device_type = (*b)->type,
		};
		int ret;

		check_backend(*b);
		if (programs && !(*b)->program_load)
			continue;
		ret = (*b)->each(*b, walk_one, &walk);
		if (!ret)
			continue;
		if (walk.stopped)
			return walk.stopped;
		/* A backend that is absent or fails is reported; the call does not fail. */
		snprintf(absent.name, sizeof(absent.name), "%s", (*b)->name);
		snprintf(absent.backend, sizeof(absent.backend), "%s",
			 (*b)->name);
		absent.status = ret;
		snprintf(absent.reason, sizeof(absent.reason), "%s",
			 dlbuf_last_error());
		forget_failure();
		if (walk_one(&absent, &walk))
			return walk.stopped;
	}
	return 0;
}

int dlbuf_device_each(dlbuf_device_fn fn, void *data)
{
	NOT_CANCELLED;

	if (!fn)
		return fail(-EINVAL, "fn is NULL");
	return device_each(false, fn, data);
}

/* Waits for leases and frees; each may add to the other. */
static int drain_events(struct dlbuf_device *dev, uint64_t deadline_ns)
{
	struct timespec pause = PAUSE_FIRST;
	bool leases;
	int ret = 0;

	import_destroy_again(true);
	while (!ret) {
		event_kick();
		leases = event_awaits(dev);
		if (!leases && __atomic_load_n(&dev->ndying, __ATOMIC_ACQUIRE) <=
			       __atomic_load_n(&dev->nheld, __ATOMIC_ACQUIRE))
			break;
		ret = event_turn();
		if (!ret && !pause_until(&pause, deadline_ns))
			ret = fail(-ETIME, "%s: not all %s at the deadline",
				   dev->name, leases ? "leases had fired" :
				   "memory was free");
	}
	return ret;
}

int dlbuf_device_drain(struct dlbuf_device *dev, uint64_t deadline_ns)
{
	NOT_CANCELLED;
	int ret = device_check(dev);

	if (!ret && event_is_here())
		return fail(-EBUSY, "dlbuf_device_drain() in a callback of the "
			    "library: it would wait for this callback");
	/* The callbacks of leases may submit more work. */
	for (int i = 0; i < 2 && !ret; i++) {
		if (dev->backend->drain)
			ret = dev->backend->drain(dev, deadline_ns);
		if (!ret)
			ret = drain_events(dev, deadline_ns);
	}
	return ret;
}

void dlbuf_device_trim(struct dlbuf_device *dev, uint32_t max_idle)
{
	NOT_CANCELLED;
	if (!dev || device_inherited(dev))
		return;
	cache_trim(dev, max_idle);
	import_destroy_again(true);
}

int dlbuf_device_forget(struct dlbuf_device *dev, int fd)
{
	NOT_CANCELLED;
	struct buffer_id id;
	uint64_t bytes;
	int ret = device_check(dev);

	if (!ret)
		ret = buffer_identify(fd, &id);
	if (!ret)
		ret = buffer_size(fd, fd, &bytes);
	if (!ret)
		cache_forget(dev, &id);
	return ret;
}

int dlbuf_device_get_stats(struct dlbuf_device *dev,
			   struct dlbuf_device_stats *stats)
{
	struct dlbuf_device_stats out = { 0 };
	int ret = device_check(dev);

	if (ret)
		return ret;
	cache_get_stats(&dev->cache, &out);
	return INFO_PUT(stats, &out, "dlbuf_device_stats");
}
