// SPDX-License-Identifier: MIT
/*
 * Leases under stress: a camera, and consumers that lag, drop, hold, share and
 * delete in any order on any thread, on the CPU and on Vulkan. And a frame by
 * itself: held for three seconds, and of a camera that is closed.
 *
 *	lease [--seed N] [--frames N] [CASE...]
 *
 * Each frame is stamped with its number when it comes and looked at before a
 * tensor is deleted and while a release is unfinished: the camera writes whole
 * frames, so a buffer that it was given too early has lost its stamp.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <time.h>

#include <dlbuf/dlbuf.h>

#include "vivid.h"

#define NBUFFERS 6u
#define NTHREADS 4u
#define NDEVICES 2u
#define NPLACES 6u
#define NPLANES 2u

const char *cts_device = "cpu";
const struct access *cts_access;

static uint32_t seed = 20251120;
static uint32_t nframes = 2000;

/* ---- random numbers, one generator per thread */

static uint32_t next(uint32_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 17;
	*rng ^= *rng << 5;
	return *rng;
}

static bool one_in(uint32_t *rng, uint32_t n)
{
	return next(rng) % n == 0;
}

/* A delay that is work. */
static void work(uint32_t *rng)
{
	volatile uint32_t sink;

	for (uint32_t n = next(rng) % 100000; n; n--)
		sink = next(rng);
	(void)sink;
}

/* ---- frames */

struct stress;

/* One import of one frame. */
struct lease {
	struct frame *frame;
	unsigned int fired;	/* atomic */
	unsigned int tensors;	/* atomic; not yet about to be deleted */
};

struct frame {
	struct stress *s;
	uint32_t number, index;
	unsigned int holders;	/* atomic; leases that have not fired */
	struct lease leases[NDEVICES];
	uint32_t nleases;
};

enum action {
	DROP,		/* delete without a look by the device */
	LOOK,		/* acquire, look, release */
	KEEP,		/* acquire, look, delete as it is */
	PASS,		/* acquire, and let another thread release */
	PASSED,
	FENCE,		/* release with a fence that is pending */
	WATCH,		/* the fence of a release, its tensor deleted */
	HOLD,		/* as long as there is another buffer */
	NACTIONS,
};

struct item {
	struct item *next;
	enum action action;
	struct lease *lease;
	uint32_t plane;
	DLManagedTensorVersioned *t;
	DLManagedTensor *old;
	struct cts_fence fence;
};

struct device {
	const char *name;
	const struct access *access;
	struct dlbuf_device *dev;
	bool fences;
};

struct consumer {
	struct stress *s;
	pthread_t thread;
	uint32_t rng;
	struct item *first, **last;	/* under the lock */
	struct item *held[NBUFFERS];
	uint32_t nheld;
};

struct stress {
	struct vivid cam;
	struct device devices[NDEVICES];
	uint64_t places[NPLACES];	/* bytes from the buffer's start */
	struct consumer consumers[NTHREADS];
	pthread_mutex_t lock;
	pthread_cond_t cond;
	uint32_t items;			/* in queues, hands and holds */
	uint32_t returned;		/* frames whose buffers are queued again */
	bool stop;
	bool in_use[NBUFFERS];		/* atomic; dequeued */
	uint32_t sequence;		/* the camera's own, of the last frame */
	unsigned int looks[NACTIONS];	/* atomic */
	unsigned int conclusive;	/* atomic; the fence was pending still */
};

/* ---- stamps */

static uint32_t stamp(const struct frame *f, uint32_t place)
{
	return f->number * 2654435761u + place * 40503u + seed;
}

static void write_stamps(struct stress *s, const struct frame *f)
{
	vivid_sync(&s->cam, f->index, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE);
	for (uint32_t i = 0; i < NPLACES; i++) {
		uint32_t value = stamp(f, i);

		memcpy(s->cam.map[f->index] + s->places[i], &value,
		       sizeof(value));
	}
	vivid_sync(&s->cam, f->index, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE);
}

/* In the mapping that dlbuf has nothing to do with. */
static bool stamped(const struct frame *f)
{
	struct stress *s = f->s;
	bool good = true;

	for (uint32_t i = 0; i < NPLACES; i++) {
		const volatile uint32_t *p = (const volatile uint32_t *)
			(s->cam.map[f->index] + s->places[i]);

		good &= *p == stamp(f, i);
	}
	return good;
}

/* A place of this plane. */
static uint32_t place_of(const struct item *item, uint32_t *rng)
{
	return item->plane ? NPLACES - 1 - next(rng) % 2 : next(rng) %
							   (NPLACES - 2);
}

static const struct device *device_of(const struct item *item)
{
	const struct stress *s = item->lease->frame->s;
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK_OK(dlbuf_tensor_get_info(item->t, &info));
	return info.device == s->devices[0].dev ? &s->devices[0] :
						  &s->devices[1];
}

static void look(struct item *item, uint32_t *rng)
{
	const struct frame *f = item->lease->frame;
	uint32_t place = place_of(item, rng), got = 0;

	CHECK_EQ(device_of(item)->access->read(item->t, f->s->places[place],
					       &got, sizeof(got)), 0);
	CHECK_MSG(got == stamp(f, place), "frame %u", f->number);
}

/* ---- leases */

/* The only place where a buffer is queued again. */
static void on_release(void *data)
{
	struct lease *lease = data;
	struct frame *f = lease->frame;
	struct stress *s = f->s;

	CHECK_MSG(__atomic_add_fetch(&lease->fired, 1, __ATOMIC_ACQ_REL) == 1,
		  "frame %u", f->number);
	CHECK_MSG(!__atomic_load_n(&lease->tensors, __ATOMIC_ACQUIRE),
		  "frame %u", f->number);
	if (__atomic_sub_fetch(&f->holders, 1, __ATOMIC_ACQ_REL))
		return;
	CHECK(__atomic_exchange_n(&s->in_use[f->index], false,
				  __ATOMIC_ACQ_REL));
	CHECK_EQ(vivid_queue(&s->cam, f->index), 0);
	pthread_mutex_lock(&s->lock);
	s->returned++;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

/* ---- consumers */

/* new: the item was nobody's so far. */
static void push(struct consumer *c, struct item *item, bool new)
{
	struct stress *s = c->s;

	item->next = NULL;
	pthread_mutex_lock(&s->lock);
	s->items += new;
	*c->last = item;
	c->last = &item->next;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

/* NULL: there is something to do with what is held, or nothing ever again. */
static struct item *pop(struct consumer *c)
{
	struct stress *s = c->s;
	struct item *item;

	pthread_mutex_lock(&s->lock);
	while (!c->first && !(s->stop && (c->nheld || !s->items)))
		pthread_cond_wait(&s->cond, &s->lock);
	item = c->first;
	if (item) {
		c->first = item->next;
		if (!c->first)
			c->last = &c->first;
	}
	pthread_mutex_unlock(&s->lock);
	return item;
}

static void done(struct stress *s, struct item *item)
{
	free(item);
	pthread_mutex_lock(&s->lock);
	if (!--s->items)
		pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

/* The last look, on what may be the last tensor. */
static void delete(struct item *item)
{
	struct lease *lease = item->lease;

	CHECK_MSG(stamped(lease->frame), "frame %u", lease->frame->number);
	__atomic_sub_fetch(&lease->tensors, 1, __ATOMIC_ACQ_REL);
	if (item->old)
		item->old->deleter(item->old);
	else
		cts_delete(item->t);
	item->t = NULL;
	item->old = NULL;
}

static bool acquire(struct item *item)
{
	return CHECK_OK(dlbuf_acquire(item->t, DLBUF_READ, NULL, NULL));
}

static void release(struct item *item)
{
	CHECK_OK(dlbuf_release(item->t, NULL, NULL));
}

/*
 * The release's work is unfinished as long as the fence is, and so is the
 * lease. vgem's fences expire: only one that is pending afterwards proves it.
 */
static void watch(struct stress *s, struct item *item)
{
	struct lease *lease = item->lease;
	bool good = stamped(lease->frame);
	unsigned int fired = __atomic_load_n(&lease->fired, __ATOMIC_ACQUIRE);
	int status = -1;

	CHECK_OK(dlbuf_fence_status(item->fence.sync_file, &status));
	if (!status) {
		CHECK_MSG(!fired, "frame %u", lease->frame->number);
		CHECK_MSG(good, "frame %u", lease->frame->number);
		__atomic_add_fetch(&s->conclusive, 1, __ATOMIC_RELAXED);
	}
	cts_fence_destroy(&item->fence);
	done(s, item);
}

/* What the device reads is in flight when the tensor is gone. */
static void read_and_delete(struct item *item, uint32_t *rng)
{
	const struct access *access = device_of(item)->access;
	const struct frame *f = item->lease->frame;
	uint32_t place = place_of(item, rng), got = 0;
	void *job = NULL;

	if (!access->submit_read) {
		look(item, rng);
		delete(item);
		return;
	}
	if (CHECK_EQ(access->submit_read(item->t, f->s->places[place],
					 sizeof(got), &job), 0)) {
		delete(item);
		CHECK_EQ(access->finish_read(job, &got, sizeof(got)), 0);
		CHECK_MSG(got == stamp(f, place), "frame %u", f->number);
	} else {
		delete(item);
	}
}

static void finish(struct consumer *c, struct item *item)
{
	if (!item->old && acquire(item)) {
		look(item, &c->rng);
		release(item);
	}
	delete(item);
	done(c->s, item);
}

static void hold(struct consumer *c, struct item *item)
{
	c->held[c->nheld++] = item;
	while (c->nheld == NBUFFERS || (c->nheld && one_in(&c->rng, 4))) {
		uint32_t i = next(&c->rng) % c->nheld;

		item = c->held[i];
		c->held[i] = c->held[--c->nheld];
		finish(c, item);
	}
}

static void handle(struct consumer *c, struct item *item)
{
	struct stress *s = c->s;
	int fence = -1;

	__atomic_add_fetch(&s->looks[item->action], 1, __ATOMIC_RELAXED);
	switch (item->action) {
	case DROP:
	case NACTIONS:
		break;
	case LOOK:
		finish(c, item);
		return;
	case KEEP:
		if (acquire(item)) {
			read_and_delete(item, &c->rng);
			done(s, item);
			return;
		}
		break;
	case PASS:
		if (acquire(item)) {
			item->action = PASSED;
			push(&s->consumers[next(&c->rng) % NTHREADS], item,
			     false);
			return;
		}
		break;
	case PASSED:
		look(item, &c->rng);
		work(&c->rng);
		release(item);
		break;
	case FENCE:
		if (!CHECK_OK(dlbuf_acquire_fence(item->t, DLBUF_READ, &fence)))
			break;
		if (fence != -1)
			close(fence);
		CHECK_OK(dlbuf_release_fence(item->t, item->fence.sync_file));
		delete(item);
		item->action = WATCH;
		push(c, item, false);
		return;
	case WATCH:
		watch(s, item);
		return;
	case HOLD:
		hold(c, item);
		return;
	}
	delete(item);
	done(s, item);
}

static void *consume(void *arg)
{
	struct consumer *c = arg;
	struct item *item;

	for (;;) {
		item = pop(c);
		if (item) {
			work(&c->rng);
			handle(c, item);
		} else if (c->nheld) {
			finish(c, c->held[--c->nheld]);
		} else {
			return NULL;
		}
	}
}

/* ---- the camera's thread */

static struct item *new_item(struct lease *lease, uint32_t plane)
{
	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		FATAL("no memory");
	item->lease = lease;
	item->plane = plane;
	__atomic_add_fetch(&lease->tensors, 1, __ATOMIC_RELAXED);
	return item;
}

/*
 * One consumer holds, so that buffers are never all held by several that want
 * one more each.
 */
static void hand_out(struct stress *s, const struct device *d,
		     struct item *item, uint32_t *rng)
{
	static const enum action some[] = { DROP, LOOK, LOOK, KEEP, PASS, PASS,
					    FENCE, HOLD };
	struct consumer *c = &s->consumers[next(rng) % NTHREADS];

	item->action = some[next(rng) % (sizeof(some) / sizeof(some[0]))];
	if (d->fences && one_in(rng, 3))
		item->action = FENCE;
	if (item->old && item->action != HOLD)
		item->action = DROP;
	if (item->action == FENCE) {
		if (d->fences)
			cts_fence_create(&item->fence);
		else
			item->action = LOOK;
	}
	if (item->action == HOLD)
		c = &s->consumers[0];
	push(c, item, true);
}

/* A frame that is refused has no lease, whatever stood in it. */
static void refused(struct stress *s, struct dlbuf_frame frame,
		    struct lease *lease)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n = 0;

	frame.height *= 2;
	frame.release_data = lease;
	CHECK_ERR(dlbuf_import_frame(s->devices[0].dev, &frame, NULL, t, &n),
		  -ERANGE);
	CHECK_EQ(n, 0);
	CHECK_EQ(lease->fired, 0);
}

static void import_on(struct stress *s, const struct device *d,
		      struct lease *lease, uint32_t *rng)
{
	struct dlbuf_frame frame = vivid_frame(&s->cam, lease->frame->index);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct item *items[NPLANES * 3];
	uint32_t n = 0, nitems = 0;
	bool at_once = one_in(rng, 8);

	frame.release = on_release;
	frame.release_data = lease;
	if (one_in(rng, 16))
		refused(s, frame, lease);
	REQUIRE_OK(dlbuf_import_frame(d->dev, &frame, NULL, t, &n));
	REQUIRE(n == NPLANES);
	/* All first: those handed out are deleted at any time. */
	for (uint32_t i = 0; i < n; i++) {
		items[nitems] = new_item(lease, i);
		items[nitems++]->t = t[i];
		if (!at_once && one_in(rng, 3)) {
			items[nitems] = new_item(lease, i);
			CHECK_OK(dlbuf_tensor_share(t[i], NULL, &items[nitems++]->t));
		}
		if (!at_once && one_in(rng, 6)) {
			items[nitems] = new_item(lease, i);
			CHECK_OK(dlbuf_tensor_share_legacy(t[i],
						&items[nitems++]->old));
		}
	}
	for (uint32_t i = 0; i < nitems; i++) {
		if (at_once) {
			delete(items[i]);
			free(items[i]);
		} else {
			hand_out(s, d, items[i], rng);
		}
	}
}

/* Which devices have this frame, as bits. */
static uint32_t choose_devices(uint32_t *rng, uint32_t number)
{
	/* The first one on both, so that all is open from the beginning. */
	if (!number || one_in(rng, 16))
		return 3;
	return one_in(rng, 16) ? 2 : 1;
}

static bool one_frame(struct stress *s, struct frame *f, uint32_t number,
		      uint32_t *rng)
{
	uint32_t devices = choose_devices(rng, number);
	struct v4l2_buffer buf;

	if (!CHECK(vivid_dequeue(&s->cam, &buf)))
		return false;
	*f = (struct frame){ .s = s, .number = number, .index = buf.index };
	s->sequence = buf.sequence;
	CHECK(!__atomic_exchange_n(&s->in_use[f->index], true,
				   __ATOMIC_ACQ_REL));
	write_stamps(s, f);
	f->nleases = f->holders = __builtin_popcount(devices);
	for (uint32_t i = 0; i < f->nleases; i++)
		f->leases[i].frame = f;
	for (uint32_t i = 0, d = devices; d; i++, d &= d - 1)
		import_on(s, &s->devices[__builtin_ctz(d)], &f->leases[i], rng);
	return true;
}

static const struct device devices[NDEVICES] = {
	{ .name = "cpu", .access = &access_cpu },
	{ .name = "vulkan:0", .access = &access_vulkan },
};

static void open_devices(struct stress *s)
{
	memcpy(s->devices, devices, sizeof(devices));
	for (uint32_t i = 0; i < NDEVICES; i++) {
		struct device *d = &s->devices[i];
		DLBUF_INFO(dlbuf_device_info, info);

		REQUIRE_OK(dlbuf_device_open(d->name, NULL, &d->dev));
		CHECK_OK(dlbuf_device_get_info(d->dev, &info));
		d->fences = info.acquire == DLBUF_SYNC_FENCE;
	}
}

static void find_places(struct stress *s)
{
	uint64_t pitch = s->cam.fmt.fmt.pix.bytesperline;
	uint64_t rows = s->cam.fmt.fmt.pix.height;
	uint64_t row = s->cam.fmt.fmt.pix.width;
	const uint64_t places[NPLACES] = {
		0,
		rows / 3 * pitch + row / 2 / 4 * 4,
		rows / 2 * pitch,
		(rows - 1) * pitch + (row - 4) / 4 * 4,
		rows * pitch,
		(rows + rows / 2 - 1) * pitch + (row - 4) / 4 * 4,
	};

	memcpy(s->places, places, sizeof(places));
}

static void start_consumers(struct stress *s)
{
	for (uint32_t i = 0; i < NTHREADS; i++) {
		struct consumer *c = &s->consumers[i];

		c->s = s;
		c->rng = seed * 31 + i + 1;
		c->last = &c->first;
		CHECK_EQ(pthread_create(&c->thread, NULL, consume, c), 0);
	}
}

static void stop_consumers(struct stress *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < NTHREADS; i++)
		CHECK_EQ(pthread_join(s->consumers[i].thread, NULL), 0);
}

/* The last leases may be the event thread's. */
static void wait_for_leases(struct stress *s, uint32_t n)
{
	pthread_mutex_lock(&s->lock);
	while (s->returned < n)
		pthread_cond_wait(&s->cond, &s->lock);
	CHECK_EQ(s->returned, n);
	pthread_mutex_unlock(&s->lock);
}

static void report(struct stress *s, const struct frame *frames, uint32_t n)
{
	uint32_t leases = 0, fired = 0;

	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t l = 0; l < frames[i].nleases; l++) {
			leases++;
			fired += frames[i].leases[l].fired;
			CHECK_MSG(frames[i].leases[l].fired == 1, "frame %u", i);
		}
	}
	ktap_note(NULL, 0, "seed %u: %u frames of %u, %u leases, %u fired, "
		  "%u buffers queued", seed, n, s->sequence + 1, leases, fired,
		  s->cam.queued);
	ktap_note(NULL, 0, "dropped %u, looked %u, kept %u, passed %u, held "
		  "%u, fences %u, %u pending when looked at", s->looks[DROP],
		  s->looks[LOOK], s->looks[KEEP], s->looks[PASS],
		  s->looks[HOLD], s->looks[FENCE], s->conclusive);
}

static void stress(void *arg)
{
	struct frame *frames = calloc(nframes, sizeof(*frames));
	static struct stress s = { .lock = PTHREAD_MUTEX_INITIALIZER,
				   .cond = PTHREAD_COND_INITIALIZER };
	static struct ktap_holdings before, after;
	unsigned int fds = cts_count_fds();
	uint32_t rng = seed, n;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE(frames);
	ktap_note(NULL, 0, "seed %u", seed);
	open_devices(&s);
	ktap_look(&before);
	vivid_open(&s.cam, 320, 180, 120, NBUFFERS);
	find_places(&s);
	start_consumers(&s);
	for (n = 0; n < nframes; n++)
		if (!one_frame(&s, &frames[n], n, &rng))
			break;
	CHECK_EQ(n, nframes);
	stop_consumers(&s);
	wait_for_leases(&s, n);
	report(&s, frames, n);
	CHECK_EQ(s.cam.queued, n + NBUFFERS);
	CHECK(s.conclusive > 0);
	vivid_close(&s.cam);
	for (uint32_t i = 0; i < NDEVICES; i++)
		dlbuf_device_trim(s.devices[i].dev, 0);
	/* The devices are open still; of the frames nothing is left. */
	ktap_look(&after);
	CHECK_EQ(after.map_bytes, before.map_bytes);
	for (uint32_t i = 0; i < NDEVICES; i++)
		dlbuf_device_close(s.devices[i].dev);
	cts_until_fds(fds);
	free(frames);
}

/* ---- a frame by itself */

struct late {
	struct vivid *cam;
	uint32_t index;
	uint64_t ns;		/* the camera's time */
	unsigned int fired;	/* atomic */
	int ret;		/* of queueing it */
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
};

static void on_late(void *data)
{
	struct late *l = data;

	l->ret = vivid_queue(l->cam, l->index);
	__atomic_add_fetch(&l->fired, 1, __ATOMIC_RELEASE);
}

static unsigned int fired(const struct late *l)
{
	return __atomic_load_n(&l->fired, __ATOMIC_ACQUIRE);
}

static void late_begin(struct late *l, struct vivid *cam, struct dlbuf_device *dev)
{
	struct dlbuf_frame frame;
	struct v4l2_buffer buf;
	uint32_t n = 0;

	REQUIRE(vivid_dequeue(cam, &buf));
	*l = (struct late){
		.cam = cam, .index = buf.index,
		.ns = buf.timestamp.tv_sec * 1000000000ull +
		      buf.timestamp.tv_usec * 1000ull,
	};
	frame = vivid_frame(cam, buf.index);
	frame.release = on_late;
	frame.release_data = l;
	REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, l->t, &n));
	REQUIRE(n == NPLANES);
}

static void late_end(struct late *l)
{
	cts_delete(l->t[0]);
	CHECK_EQ(fired(l), 0);
	cts_delete(l->t[1]);
	/* The device's last fence may be pending: then the library's thread fires it. */
	UNTIL(fired(l));
	CHECK_EQ(fired(l), 1);
	CHECK_EQ(l->ret, 0);
}

/* As the kernel maps it, without dlbuf. */
static bool shows(struct vivid *cam, uint32_t index, const uint8_t *picture)
{
	bool same;

	vivid_sync(cam, index, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	same = !memcmp(cam->map[index], picture, cam->bytes);
	vivid_sync(cam, index, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	return same;
}

/*
 * A consumer holds one frame for three seconds of the camera's time, at 30 frames a
 * second with four buffers: the other three go round, the held frame never shows later
 * pixels, and given back it is used again.
 */
static void held(void *arg)
{
	const struct device *d = arg;
	unsigned int fds = cts_count_fds(), frames = 0, changed = 0, back = 0;
	struct dlbuf_device *dev = NULL;
	uint8_t *then, *got;
	struct late mine, other;
	struct vivid cam;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE_OK(dlbuf_device_open(d->name, NULL, &dev));
	vivid_open(&cam, 640, 360, 30, 4);
	CHECK_EQ(cam.fps, 30);
	late_begin(&mine, &cam, dev);
	then = malloc(cam.bytes);
	got = malloc(cam.bytes);
	REQUIRE(then && got);
	vivid_sync(&cam, mine.index, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	memcpy(then, cam.map[mine.index], cam.bytes);
	vivid_sync(&cam, mine.index, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	do {
		late_begin(&other, &cam, dev);
		CHECK(other.index != mine.index);
		/* vivid draws a picture again when it is late. */
		changed += !shows(&cam, other.index, then);
		late_end(&other);
		frames++;
	} while (frames < 90 || other.ns - mine.ns < 3000000000ull);
	CHECK(changed);
	CHECK(shows(&cam, mine.index, then));
	for (uint32_t i = 0; i < NPLANES; i++) {
		DLBUF_INFO(dlbuf_tensor_info, info);

		CHECK_OK(dlbuf_tensor_get_info(mine.t[i], &info));
		CHECK_OK(dlbuf_acquire(mine.t[i], DLBUF_READ, NULL, NULL));
		CHECK_EQ(d->access->read(mine.t[i], info.first, got,
					 info.end - info.first), 0);
		CHECK(!memcmp(got, then + info.first, info.end - info.first));
		CHECK_OK(dlbuf_release(mine.t[i], NULL, NULL));
	}
	ktap_note(NULL, 0, "%u frames on %s in %.2f s of the camera's time", frames,
		  d->name, (other.ns - mine.ns) / 1e9);
	late_end(&mine);
	do {
		late_begin(&other, &cam, dev);
		CHECK(!shows(&cam, other.index, then));
		late_end(&other);
	} while (other.index != mine.index && ++back < 8);
	CHECK_EQ(other.index, mine.index);
	dlbuf_device_close(dev);
	vivid_close(&cam);
	cts_until_fds(fds);
	free(then);
	free(got);
}

/*
 * Stopped and closed while frames are out: their pixels stay, their leases
 * fire once, and that the buffers cannot be queued is nobody's fault.
 */
static void camera_closed(void *arg)
{
	struct dlbuf_device *dev;
	uint64_t sum[3], after;
	struct late late[3];
	struct vivid cam;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &dev));
	vivid_open(&cam, 320, 180, 120, 4);
	for (int i = 0; i < 3; i++) {
		late_begin(&late[i], &cam, dev);
		memcpy(&sum[i], late[i].t[0]->dl_tensor.data, sizeof(sum[i]));
		sum[i] += i;
		memcpy(late[i].t[0]->dl_tensor.data, &sum[i], sizeof(sum[i]));
	}
	vivid_stop(&cam);
	for (int i = 2; i >= 0; i--) {
		DLManagedTensorVersioned **t = late[i].t;

		cts_delete(t[1]);
		CHECK_OK(dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL));
		memcpy(&after, t[0]->dl_tensor.data, sizeof(after));
		CHECK_EQ(after, sum[i]);
		CHECK_EQ(fired(&late[i]), 0);
		cts_delete(t[0]);
		CHECK_EQ(fired(&late[i]), 1);
		CHECK_EQ(late[i].ret, -EBADF);
	}
	dlbuf_device_close(dev);
	vivid_close(&cam);
}

/* ---- the library goes */

/* build/libdlbuf.so.0 of build/tests/lab/lease: another one than this program's. */
static void *load(void)
{
	char exe[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	REQUIRE(n > 0);
	exe[n] = '\0';
	snprintf(path, sizeof(path), "%s/../../libdlbuf.so.%d", dirname(exe),
		 DLBUF_VERSION_MAJOR);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static unsigned int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void never(void *data)
{
	CHECK(!"a lease has fired");
}

/*
 * A plugin with the library in it is unloaded while a fence is pending: after an acquire
 * that waited for it until its deadline, and with a lease that waits for it.
 */
static void unloaded(void *arg)
{
#define X(name) __typeof__(name) *name##_;
#define EACH X(dlbuf_device_open) X(dlbuf_import_frame) X(dlbuf_acquire) X(dlbuf_device_close) \
	X(dlbuf_fence_notify)
	struct { EACH } lib;
#undef X
	DLBUF_OPTS(dlbuf_acquire_opts, soon, .deadline_ns = 0);
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = 64, .height = 64,
		.code = DLBUF_FOURCC('G', 'R', 'E', 'Y'), .code_space = DLBUF_CODE_V4L2,
		.nplanes = 1, .order = DLBUF_ORDER_IMPLICIT, .fence = -1,
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct cts_fence fence AUTO_FENCE;
	unsigned int nfds, nthreads;
	struct timespec now;
	struct dlbuf_device *dev;
	void *handle;
	uint32_t n;

	KTAP_KEEPS(KTAP_HEAP, "the dynamic loader's own");
	cts_fence_create(&fence);
	frame.planes[0].fd = cts_alloc("udmabuf", 4096);
	frame.planes[0].pitch = 64;
	CHECK_OK(dlbuf_fence_import(frame.planes[0].fd, DLBUF_WRITE, fence.sync_file));
	nfds = cts_count_fds();
	nthreads = threads();
	handle = load();
	REQUIRE(handle);
#define X(name) lib.name##_ = (__typeof__(name) *)dlsym(handle, #name); REQUIRE(lib.name##_);
	EACH
#undef X
	CHECK_EQ(lib.dlbuf_device_open_("cpu", NULL, &dev), 0);
	CHECK_EQ(lib.dlbuf_import_frame_(dev, &frame, NULL, t, &n), 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	soon.deadline_ns = now.tv_sec * 1000000000ull + now.tv_nsec + 5000000;
	CHECK_EQ(lib.dlbuf_acquire_(t[0], DLBUF_READ, NULL, &soon), -ETIME);
	CHECK_EQ(threads(), nthreads);
	CHECK_EQ(lib.dlbuf_fence_notify_(fence.sync_file, never, NULL), 0);
	t[0]->deleter(t[0]);
	lib.dlbuf_device_close_(dev);
	CHECK_EQ(threads(), nthreads + 1);
	dlclose(handle);
	UNTIL(threads() == nthreads);
	CHECK_EQ(cts_count_fds(), nfds);
	cts_fence_signal(&fence);
	close(frame.planes[0].fd);
}

int main(int argc, char **argv)
{
	while (argc > 2 && (!strcmp(argv[1], "--seed") ||
			    !strcmp(argv[1], "--frames"))) {
		uint32_t n = strtoul(argv[2], NULL, 0);

		*(argv[1][2] == 's' ? &seed : &nframes) = n ? n : 1;
		argv[2] = argv[0];
		argv += 2;
		argc -= 2;
	}
	ktap_prefix("%s", "lease");
	ktap_case("camera-closed", camera_closed, NULL);
	ktap_case("held@cpu", held, (void *)&devices[0]);
	ktap_case("held@vulkan", held, (void *)&devices[1]);
	ktap_case("stress", stress, NULL);
	ktap_case("unloaded", unloaded, NULL);
	return ktap_run(argc, argv);
}
