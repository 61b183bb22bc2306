// SPDX-License-Identifier: MIT
/* The operations of a round's threads, each a row of a table. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stress.h"

/* ---------------------------------------------------------------- leases */

static struct lease *lease_new(uint32_t mode)
{
	struct lease *l = calloc(1, sizeof(*l));

	l->mode = mode;
	pthread_mutex_lock(&round_.lock);
	l->next = round_.leases;
	round_.leases = l;
	pthread_mutex_unlock(&round_.lock);
	return l;
}

static int64_t shape[] = { BYTES };
static const DLTensor layout = LAYOUT8(1, shape);

static void fire(void *data)
{
	struct lease *l = data;
	struct device *d = &round_.devs[l->mode / 16 % round_.ndevs];
	DLManagedTensorVersioned *t;
	struct lease *other;

	CHECK(!load(&l->tensors));
	/* All of its tensors have been deleted, so no job comes any more. */
	for (struct job *j = l->jobs; j && !round_.rough; j = j->next)
		CHECK(!j->asks || j->access->job_done(j->job));
	switch (l->mode % 16) {
	case 0:	/* A driver may wait in it, which the thread of the events must not. */
		if (!event_is_here() &&
		    !dlbuf_import(d->dev, round_.buffers[l->mode / 64 % NBUFFERS].fd, &layout,
				  NULL, &t))
			t->deleter(t);
		break;
	case 1:
		dlbuf_device_forget(d->dev, round_.buffers[l->mode / 64 % NBUFFERS].fd);
		break;
	case 2:
		dlbuf_device_trim(d->dev, l->mode / 64 % 3);
		break;
	case 3:
		other = lease_new(15);
		store(&other->armed, true);
		if (dlbuf_fence_notify(-1, fire, other))
			store(&other->armed, !CHECK(round_.rough));
		break;
	case 4:
		if (event_is_here())
			CHECK_EQ(dlbuf_device_drain(d->dev, 1), -EBUSY);
		break;
	}
	CHECK_EQ(add(&l->fired, 1), 0);
	add(&progress, 1);
}

/* ---------------------------------------------------------------- tensors */

static struct device *device_at(uint32_t r)
{
	return &round_.devs[r % round_.ndevs];
}

/* A buffer without a counter: on a path with copies each access for writing writes all of it. */
static unsigned int buffer_at(uint32_t r)
{
	return NORDERED + r % (NBUFFERS - NORDERED);
}

static void *stream_at(struct device *d, bool stray, uint32_t r)
{
	bool is_cuda = !strcmp(d->machine->backend, "cuda");

	if (stray || r % 2)
		return NULL;
	r = r / 2 % 8;
	if (r < NSTREAMS)
		return d->streams[r];
	return is_cuda && r < 5 ? (void *)(uintptr_t)(r - 2) : NULL;
}

static void turn_begin(struct device *d, bool alone)
{
	if (alone)
		pthread_rwlock_wrlock(&d->turn);
	else
		pthread_rwlock_rdlock(&d->turn);
}

/* Calls with a stream exclude those of hooks, on machines that require that. */
#define TURN(d, call)								\
	({									\
		int turn_ret;							\
										\
		turn_begin(d, false);						\
		turn_ret = (call);						\
		pthread_rwlock_unlock(&(d)->turn);				\
		turn_ret;							\
	})

static struct held *slot_take(uint32_t r)
{
	for (unsigned int i = 0; i < NSLOTS; i++) {
		struct held **slot = &round_.slots[(r + i) % NSLOTS], *h = load(slot);

		if (h && (h = __atomic_exchange_n(slot, NULL, __ATOMIC_SEQ_CST)))
			return h;
	}
	return NULL;
}

void held_delete(struct held *h)
{
	if (h->lease)
		add(&h->lease->tensors, -1);
	TURN(h->d, (h->t->deleter(h->t), 0));
	free(h);
}

static void slot_put(struct held *h)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	if (!h)
		return;
	CHECK_OK(dlbuf_tensor_get_info(h->t, &info));
	h->acquired = info.acquired;
	for (unsigned int i = 0; i < NSLOTS; i++) {
		struct held *none = NULL;

		if (__atomic_compare_exchange_n(&round_.slots[i], &none, h, false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			return;
	}
	held_delete(h);
}

static const uint32_t one = 1;

/* A call gave n tensors, which have the lease. */
static int keep(int ret, DLManagedTensorVersioned **t, const uint32_t *n, struct device *d,
		struct lease *l, bool stray)
{
	if (!ret && l)
		add(&l->tensors, *n);
	for (uint32_t i = 0; !ret && i < *n; i++) {
		struct held *h = calloc(1, sizeof(*h));

		*h = (struct held){ .t = t[i], .d = d, .lease = l, .stray = stray };
		slot_put(h);
	}
	return ret;
}

static struct dlbuf_acquire_opts acquire_opts(uint32_t r)
{
	DLBUF_OPTS(dlbuf_acquire_opts, o, .fence = r % 4 || cancelling ? -1 : fence_new(r / 4),
		   .deadline_ns = r % 8 == 1 ? 1 : r % 8 == 2 ? now_ns() + 1000000 : 0,
		   .flags = r % 16 ? 0 : DLBUF_ACQUIRE_DAMAGED);

	return o;
}

/* The fence of a release, or NULL: it is used and closed. */
static void fence_use(int fd, uint32_t r)
{
	int status, both = -1;

	if (fd < 0)
		return;
	switch (r % 5) {
	case 0:
		CHECK((!dlbuf_fence_wait(fd, 0) && !dlbuf_fence_status(fd, &status) && status) ||
		      round_.rough);
		break;
	case 1: {
		struct lease *l = lease_new(r / 5);

		store(&l->armed, true);
		if (dlbuf_fence_notify(fd, fire, l))
			store(&l->armed, !CHECK(round_.rough));
		break;
	}
	case 2:
		if (!dlbuf_fence_merge(fd, -1, &both))
			close(both);
		break;
	}
	close(fd);
}

/* ---------------------------------------------------------------- operations */

static int op_import(const uint32_t *r)
{
	struct device *d = device_at(r[0]);
	DLBUF_OPTS(dlbuf_import_opts, o, .access = r[2] % 4 ? 0 : DLBUF_READ,
		   .flags = r[2] / 4 % 8 ? DLBUF_IMPORT_MAY_COPY : 0,
		   .paths = r[3] % 3 ? 0 : DLBUF_PATH_BIT(1 + r[3] / 3 % 4));
	unsigned int b = buffer_at(r[1]);
	DLManagedTensorVersioned *t;
	int ret;

	if (o.paths >> DLBUF_PATH_BRIDGE)
		o.flags |= DLBUF_IMPORT_MAY_COPY;
	ret = dlbuf_import(d->dev, r[4] % 8 ? round_.buffers[b].fd : round_.buffers[b].ro, &layout,
			   &o, &t);
	return keep(ret, &t, &one, d, NULL, false);
}

#define NV12(buffer) PICTURE(64, 64, DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2,	\
	.modifier = DLBUF_MOD_LINEAR, .fence = -1,						\
	.planes = { { .fd = (buffer), .pitch = 64 },						\
		    { .fd = (buffer), .offset = 4096, .pitch = 64 } })

/* On one device, with a lease of two, or sent. */
static int op_frame(const uint32_t *r)
{
	DLBUF_OPTS(dlbuf_socket_opts, so, .flags = DLBUF_SOCKET_DONTWAIT);
	struct dlbuf_frame f = NV12(round_.buffers[buffer_at(r[1])].fd);
	struct device *d = device_at(r[0]), *other = device_at(r[4]);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct lease *l = lease_new(r[2]);
	uint32_t n, kind = r[3] % 4;
	int ret;

	if (!(r[5] % 3) && !cancelling) {
		f.order = DLBUF_ORDER_FENCE;
		f.fence = fence_new(r[6]);
	}
	store(&l->armed, true);
	if (kind == 1) {
		ret = dlbuf_lease_create(fire, l, &f.lease);
		store(&l->armed, !ret);
	} else {
		f.release = fire;
		f.release_data = l;
	}
	if (kind == 2) {
		ret = dlbuf_send_frame(round_.socks[r[4] % NSOCKS][0], &f, &so);
		store(&l->armed, !ret);
	} else {
		ret = dlbuf_import_frame(d->dev, &f, &may_copy, t, &n);
		store(&l->armed, load(&l->armed) && (!ret || kind == 1));
		keep(ret, t, &n, d, l, false);
		if (f.lease) {
			keep(dlbuf_import_frame(other->dev, &f, &may_copy, t, &n), t, &n, other,
			     l, false);
			dlbuf_lease_drop(f.lease);
		}
	}
	if (f.fence > 0)
		close(f.fence);
	return ret;
}

static int op_share(const uint32_t *r)
{
	struct held *h = slot_take(r[0]);
	struct device *d = h ? h->d : NULL, *other = device_at(r[2]);
	DLManagedTensorVersioned *t;
	int64_t eight = 8;
	DLTensor view = LAYOUT8(1, &eight);
	bool stray = h && h->stray;
	int ret;

	if (!h)
		return 0;
	switch (r[1] % 3) {
	case 0:
		ret = dlbuf_tensor_share(h->t, NULL, &t);
		break;
	case 1:
		ret = dlbuf_tensor_share(h->t, &view, &t);
		break;
	default:
		ret = dlbuf_tensor_import(other->dev, h->t, &may_copy, &t);
		d = other;
		stray = false;
	}
	ret = keep(ret, &t, &one, d, h->lease, stray);
	slot_put(h);
	return ret;
}

static int op_acquire(const uint32_t *r)
{
	struct dlbuf_acquire_opts o = acquire_opts(r[1]);
	struct held *h = slot_take(r[0]);
	DLBUF_INFO(dlbuf_tensor_info, info);
	int ret = 0;

	if (h && !h->acquired && !dlbuf_tensor_get_info(h->t, &info)) {
		void *stream = stream_at(h->d, h->stray, r[2]);

		/* The writers of a copy all write to the buffer, and streams have no order. */
		uint32_t access = info.access &
			(info.path < DLBUF_PATH_BRIDGE ? 1 + r[3] % 3 : DLBUF_READ);

		ret = TURN(h->d, dlbuf_acquire(h->t, access ? access : info.access, stream, &o));
		h->stream = stream;
		h->together = false;
	}
	if (o.fence >= 0)
		close(o.fence);
	slot_put(h);
	return ret;
}

static int op_release(const uint32_t *r)
{
	struct held *h = slot_take(r[0]);
	int ret = 0, fence = -1;
	bool wants = !cancelling && r[1] % 2;

	if (h && h->acquired) {
		/* Streams of a device are ordered by the application, which has no way here. */
		ret = TURN(h->d, dlbuf_release(h->t, h->stream,
					       wants && !h->together ? &fence : NULL));
	}
	slot_put(h);
	if (!ret)
		fence_use(fence, r[3]);
	return ret;
}

/* Several of a device at once; they stay acquired, or are released at once. */
static int op_together(const uint32_t *r)
{
	struct dlbuf_acquire_opts o = acquire_opts(r[1]);
	DLManagedTensorVersioned *t[4];
	struct held *hs[4], *h;
	void *stream = NULL;
	int ret = 0, fence = -1;
	size_t n = 0;

	for (uint32_t i = 0; i < 8 && n < 4; i++) {
		h = slot_take(r[0] + 5 * i);
		if (h && !h->acquired && (!n || (h->d == hs[0]->d && !h->stray && !hs[0]->stray))) {
			t[n] = h->t;
			hs[n++] = h;
		} else if (h) {
			slot_put(h);
		}
	}
	if (n) {
		stream = stream_at(hs[0]->d, hs[0]->stray, r[2]);
		ret = TURN(hs[0]->d, dlbuf_acquire_all(t, n, DLBUF_READ, stream, &o));
	}
	if (n && !ret && r[3] % 2) {
		ret = TURN(hs[0]->d, dlbuf_release_all(t, n, stream, r[4] % 2 ? &fence : NULL));
		CHECK(ret != -EINVAL && ret != -EBUSY);
		if (!ret)
			fence_use(fence, r[5]);
	} else if (!ret) {
		for (size_t i = 0; i < n; i++) {
			hs[i]->stream = stream;
			hs[i]->together = true;
		}
	}
	while (n)
		slot_put(hs[--n]);
	if (o.fence >= 0)
		close(o.fence);
	return ret;
}

/* The application waits and signals by itself. */
static int op_by_fence(const uint32_t *r)
{
	struct held *h = slot_take(r[0]);
	int fence = -1, own, ret = 0;

	if (h && !h->acquired) {
		ret = TURN(h->d, dlbuf_acquire_fence(h->t, DLBUF_READ, &fence));
		if (!ret) {
			fence_use(fence, r[1]);
			own = r[2] % 3 ? fence_new(r[3]) : -1;
			ret = TURN(h->d, dlbuf_release_fence(h->t, own));
			if (own >= 0)
				close(own);
		}
	}
	slot_put(h);
	return ret;
}

static int op_pending(const uint32_t *r)
{
	struct held *h = slot_take(r[0]);
	int fd = -1, ret = 0;

	if (h) {
		ret = TURN(h->d, dlbuf_pending(h->t, r[1] % 2 ? DLBUF_READ : DLBUF_RW, &fd));
		slot_put(h);
	}
	if (!ret)
		fence_use(fd, r[2]);
	return ret;
}

static int op_delete(const uint32_t *r)
{
	struct held *h = slot_take(r[0]);

	if (h)
		held_delete(h);
	return 0;
}

static int op_send(const uint32_t *r)
{
	DLBUF_OPTS(dlbuf_socket_opts, o, .flags = r[1] % 2 ? DLBUF_SOCKET_DONTWAIT : 0,
		   .deadline_ns = now_ns() + r[2] % 2000000);
	struct held *h = slot_take(r[0]);
	int ret = 0;

	if (h) {
		ret = TURN(h->d, dlbuf_send(round_.socks[r[1] % NSOCKS][0], &h->t, 1, &o));
		slot_put(h);
	}
	return ret;
}

static int op_recv(const uint32_t *r)
{
	DLBUF_OPTS(dlbuf_import_opts, io,
		   .flags = DLBUF_IMPORT_MAY_COPY | (r[2] % 2 ? DLBUF_IMPORT_KEEP : 0));
	DLBUF_OPTS(dlbuf_socket_opts, o, .deadline_ns = r[1] % 4 ? 1 : now_ns() + r[3] % 2000000,
		   .import = &io);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct device *d = device_at(r[0]);
	DLBUF_INFO(dlbuf_frame, f);
	uint32_t n = 0;
	int ret = dlbuf_recv(d->dev, round_.socks[r[1] % NSOCKS][1], &o, t, &n, &f);

	return keep(ret, t, &n, d, NULL, false);
}

static int op_alloc(const uint32_t *r)
{
	static const char *const exporters[] = { NULL, "udmabuf", "device", NULL };
	DLBUF_OPTS(dlbuf_alloc_opts, o, .exporter = exporters[r[2] % 4]);
	struct device *ds[2] = { device_at(r[0]), device_at(r[1]) };
	struct dlbuf_device *devs[2] = { ds[0]->dev, ds[1]->dev };
	DLManagedTensorVersioned *t[2];
	size_t n = 1 + r[3] % 2;
	int ret = dlbuf_alloc(devs, n, &layout, &o, t);

	for (size_t i = 0; !ret && i < n; i++)
		keep(0, &t[i], &one, ds[i], NULL, false);
	return ret;
}

static int op_pool(const uint32_t *r)
{
	DLBUF_OPTS(dlbuf_pool_opts, o, .exporter = "udmabuf", .width = 64, .height = 64,
		   .buffers = 2, .code = DLBUF_FOURCC('N', 'V', '1', '2'),
		   .code_space = DLBUF_CODE_DRM);
	struct device *d = device_at(r[0]);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	DLBUF_INFO(dlbuf_frame, f);
	struct dlbuf_pool *pool;
	int ret = dlbuf_pool_create(&d->dev, r[1] % 2, &o, &pool);
	uint32_t n;

	if (ret)
		return ret;
	CHECK_OK(dlbuf_pool_frame(pool, r[2] % 2, &f));
	keep(dlbuf_import_frame(d->dev, &f, &may_copy, t, &n), t, &n, d, NULL, false);
	dlbuf_pool_destroy(pool);
	return 0;
}

static int op_export(const uint32_t *r)
{
	struct dlbuf_exported out = { .size = sizeof(out) };
	struct held *h = slot_take(r[0]);
	int ret = 0;

	if (h) {
		ret = dlbuf_export(h->d->dev, &h->t->dl_tensor, NULL, &out);
		slot_put(h);
		if (!ret)
			close(out.fd);
	}
	return ret;
}

static int op_frame_out(const uint32_t *r)
{
	struct dlbuf_frame f = { .size = sizeof(f), .code = DLBUF_FOURCC('R', '8', ' ', ' '),
		.width = BYTES, .height = 1, .code_space = DLBUF_CODE_DRM };
	struct held *h = slot_take(r[0]);
	int ret = 0;

	if (h) {
		ret = h->t->dl_tensor.ndim == 2 ? 0 :
		      TURN(h->d, dlbuf_frame_from_tensors(&h->t, 1, now_ns() + 1000000, &f));
		if (!ret && f.release)
			dlbuf_frame_drop(&f);
		slot_put(h);
	}
	return ret;
}

static int op_cache(const uint32_t *r)
{
	struct device *d = device_at(r[0]);
	DLBUF_INFO(dlbuf_device_stats, stats);

	switch (r[1] % 4) {
	case 0:
		return dlbuf_device_forget(d->dev, round_.buffers[r[2] % NBUFFERS].fd);
	case 1:
		dlbuf_device_trim(d->dev, r[2] % 4);
		return 0;
	case 2:
		return dlbuf_device_get_stats(d->dev, &stats);
	default:
		return dlbuf_device_drain(d->dev, r[2] % 2 ? 1 : now_ns() + 2000000);
	}
}

/* Another device of the machine, with a small cache; its tensor outlives it. */
static int op_open(const uint32_t *r)
{
	DLBUF_OPTS(dlbuf_device_opts, o, .cache_max_idle = 1 + r[1] % 3,
		   .flags = r[1] / 3 % 4 ? 0 : DLBUF_DEVICE_NO_CACHE);
	struct device *d = device_at(r[0]);
	DLManagedTensorVersioned *t;
	struct dlbuf_device *dev;
	int ret = round_.driven ? 1 : dlbuf_device_open(d->machine->name, &o, &dev);

	if (ret)
		return ret < 0 ? ret : 0;
	ret = dlbuf_import(dev, round_.buffers[buffer_at(r[2])].fd, &layout, &may_copy, &t);
	if (!ret && r[3] % 2) {
		if (!TURN(d, dlbuf_acquire(t, DLBUF_READ, NULL, NULL)) && r[3] / 2 % 2)
			TURN(d, dlbuf_release(t, NULL, NULL));
		TURN(d, (t->deleter(t), 0));
	} else {
		keep(ret, &t, &one, d, NULL, true);
	}
	dlbuf_device_close(dev);
	return ret;
}

/* A stream is destroyed, then the tensor deleted that was acquired on it. */
static int op_orphan(const uint32_t *r)
{
	struct device *d = device_at(r[0]);
	struct queue_device *q = d->streams[0] ? queue_device_of(d->dev) : NULL;
	struct queue_scope scope = { 0 };
	DLManagedTensorVersioned *t;
	void *stream;
	int ret;

	if (!q || d->machine->kinds[0][0] == 'k') /* OpenCL's has to exist until then */
		return 0;
	ret = dlbuf_import(d->dev, round_.buffers[buffer_at(r[1])].fd, &layout,
			   &may_copy, &t);
	if (ret)
		return ret;
	q->ops->enter(q, &scope, true);
	ret = q->ops->stream_create(q, &stream);
	if (!ret) {
		struct dlbuf_acquire_opts o = acquire_opts(4 * r[2]);

		ret = dlbuf_acquire(t, DLBUF_READ, stream, &o);
		if (o.fence >= 0)
			close(o.fence);
		q->ops->stream_destroy(q, stream);
	}
	q->ops->leave(q, &scope);
	t->deleter(t);
	return ret;
}

static int op_fences(const uint32_t *r)
{
	int buffer = round_.buffers[r[0] % NBUFFERS].fd, out = -1;
	int fence = fence_new(r[1]), ret = 0;

	if (fence < 0)
		return -EMFILE;
	if (r[2] % 2)
		ret = dlbuf_fence_import(buffer, 1 + r[3] % 3, fence);
	if (!ret)
		ret = dlbuf_fence_export(buffer, 1 + r[4] % 3, &out);
	fence_use(fence, r[5]);
	if (!ret)
		fence_use(out, r[6]);
	return ret;
}

static int op_dispatch(const uint32_t *r)
{
	int ret = round_.by_hand ? dlbuf_dispatch() : 0;

	return ret > 0 ? 0 : ret;
}

/* ---- accesses that the program orders, each seen by the next */

void job_finish(struct job *j)
{
	uint64_t got[2] = { 0 };
	int ret = j->access->finish_read(j->job, got, sizeof(got));

	CHECK(round_.rough ||
	      (!ret && (!j->expected || (got[0] == j->expected && got[1] == j->expected))));
	free(j);
}

static int op_order(const uint32_t *r)
{
	struct device *d = device_at(r[0]);
	unsigned int b = r[1] % NORDERED;
	struct dlbuf_frame f = PICTURE(BYTES, 1, DLBUF_FOURCC('R', '8', ' ', ' '),
				       DLBUF_CODE_DRM, 1,
		.modifier = DLBUF_MOD_LINEAR, .fence = -1, .release = fire,
		.planes = { { .fd = round_.buffers[b].fd, .pitch = BYTES } });
	uint64_t *value = &round_.buffers[b].value, two[2] = { 0 };
	struct dlbuf_acquire_opts o = { .size = sizeof(o), .fence = -1 };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	bool writes = r[2] % 2, later = r[2] / 2 % 2;
	struct lease *l;
	struct job *j = NULL;
	int ret, err = 0, fence = -1;
	uint32_t n;

	if (round_.driven || !d->access || pthread_mutex_trylock(&round_.buffers[b].order))
		return 0;
	if (!(r[3] % 3))
		o.fence = fence_new(r[4]);
	f.release_data = l = lease_new(r[5]);
	store(&l->armed, true);
	ret = dlbuf_import_frame(d->dev, &f, &may_copy, t, &n);
	store(&l->armed, !ret);
	if (!ret)
		ret = TURN(d, dlbuf_acquire(t[0], writes ? DLBUF_RW : DLBUF_READ, NULL, &o));
	if (ret)
		goto out;
	if (writes)
		two[0] = two[1] = ++*value;
	if (later && d->access->submit_read && d->access->submit_write) {
		j = calloc(1, sizeof(*j));
		j->access = d->access;
		j->asks = !d->machine->one_at_a_time;
		j->expected = *value;
	}
	turn_begin(d, d->machine->one_at_a_time);
	if (j)
		err = writes ? d->access->submit_write(t[0], COUNTER, two, sizeof(two), &j->job) :
			       d->access->submit_read(t[0], COUNTER, sizeof(two), &j->job);
	else
		err = (writes ? d->access->write(t[0], COUNTER, two, sizeof(two)) :
				d->access->read(t[0], COUNTER, two, sizeof(two)));
	pthread_rwlock_unlock(&d->turn);
	if (!round_.rough && !(CHECK_EQ(err, 0) && CHECK_EQ(j ? *value : two[0], *value) &&
			       CHECK_EQ(j ? *value : two[1], *value)))
		ktap_note(NULL, 0, "%s of buffer %u on %s, written by %s",
			  writes ? "write" : "read", b, d->machine->name, round_.buffers[b].writer);
	if (writes)
		round_.buffers[b].writer = d->machine->name;
	if (j && err) {
		free(j);
		j = NULL;
	}
	if (j) {
		j->next = l->jobs;
		l->jobs = j;
	}
	if (r[6] % 4)	/* otherwise its deletion does */
		ret = TURN(d, dlbuf_release(t[0], NULL, r[6] % 8 > 4 ? &fence : NULL));
out:
	if (t[0])
		TURN(d, (t[0]->deleter(t[0]), 0));
	pthread_mutex_unlock(&round_.buffers[b].order);
	if (o.fence >= 0)
		close(o.fence);
	if (!ret)
		fence_use(fence, r[7]);
	return ret;
}

/* ---- failures */

struct rlimit all_fds;

static int op_lose(const uint32_t *r)
{
	struct device *d = device_at(r[0]);

	if (round_.loses && d->control && d->machine->loss)
		d->control(false)->lose(d->machine->loss);
	return 0;
}

static int op_few_fds(const uint32_t *r)
{
	struct rlimit few = all_fds;
	int next = dup(0);

	if (next >= 0)
		close(next);
	if (!round_.lacks_fds || next < 0)
		return 0;
	few.rlim_cur = next + r[1] % 4;
	setrlimit(RLIMIT_NOFILE, &few);
	seam_sleep(r[2] % 1000000);
	setrlimit(RLIMIT_NOFILE, &all_fds);
	return 0;
}

static int op_fail(const uint32_t *r)
{
	struct device *d = device_at(r[0]);

	if (!round_.fails)
		return 0;
#ifdef CONFIG_FAULT_INJECTION
	if (r[1] % 2)
		(r[1] % 4 == 1 ? fault_at : fault_at_others)(1 + r[2] % 40);
#endif
	(void)d;
	return 0;
}

static void child(struct held *h, const uint32_t *r)
{
	DLManagedTensorVersioned *t;
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_socket_opts, so, .deadline_ns = 1);
	struct dlbuf_device *dev;
	int ret;

	alarm(opts.patience);
	if (h) {
		CHECK_EQ(dlbuf_acquire(h->t, DLBUF_READ, NULL, NULL), -ESTALE);
		CHECK_EQ(dlbuf_send(round_.socks[0][0], &h->t, 1, &so), -ESTALE);
		h->t->deleter(h->t);
	}
	dlbuf_device_close(device_at(r[1])->dev);
	ret = dlbuf_device_open("cpu", NULL, &dev);
	CHECK(!ret || round_.rough);
	if (ret)
		return;
	ret = dlbuf_import(dev, round_.buffers[r[2] % NBUFFERS].fd, &layout, NULL, &t);
	CHECK(!ret || round_.rough);
	if (!ret) {
		ret = dlbuf_acquire(t, DLBUF_READ, NULL, &past);
		CHECK(!ret || ret == -ETIME || round_.rough);
		if (r[3] % 2 && !ret)
			dlbuf_release(t, NULL, NULL);
		t->deleter(t);
	}
	dlbuf_device_close(dev);
}

static int op_fork(const uint32_t *r)
{
	struct held *h;
	int status = 0;
	pid_t pid;

	/* AddressSanitizer's allocator has locks that a fork() does not know. */
	if (KTAP_ASAN)
		return 0;
	h = slot_take(r[0]);
	pid = fork();
	if (!pid) {
		unsigned int failures = load(&ktap.result->failures);

		child(h, r);
		_exit(load(&ktap.result->failures) != failures);
	}
	slot_put(h);
	if (pid < 0)
		return -ENOMEM;
	while (waitpid(pid, &status, 0) < 0)
		;
	CHECK_MSG(!status, "a child's status is %d", status);
	return 0;
}

static int op_cancel(const uint32_t *r);

/* The errors that an operation may give where nothing goes wrong. */
static const struct op {
	const char *name;
	unsigned int weight;
	int (*fn)(const uint32_t *r);
	int may[6];
	bool cancels;		/* its own code is no cancellation point */
} ops[] = {
	{ "import", 60, op_import, .may = { -EOPNOTSUPP }, .cancels = true },
	{ "frame", 60, op_frame, .may = { -EAGAIN, -EOPNOTSUPP, -ETOOMANYREFS }, .cancels = true },
	{ "share", 50, op_share, .may = { -EOPNOTSUPP, -ERANGE, -EACCES }, .cancels = true },
	{ "acquire", 120, op_acquire, .may = { -ETIME }, .cancels = true },
	{ "release", 100, op_release, .cancels = true },
	{ "together", 40, op_together, .may = { -ETIME } },
	{ "by-fence", 30, op_by_fence, .may = { -EOPNOTSUPP } },
	{ "pending", 40, op_pending, .may = { -EACCES } },
	{ "delete", 110, op_delete, .cancels = true },
	{ "send", 25, op_send, .may = { -EAGAIN, -ETIME, -ETOOMANYREFS } },
	{ "recv", 40, op_recv, .may = { -EAGAIN, -ETIME, -EOPNOTSUPP } },
	{ "alloc", 10, op_alloc, .may = { -EOPNOTSUPP, -EINVAL, -ENODEV } },
	{ "pool", 8, op_pool, .may = { -EOPNOTSUPP } },
	{ "export", 15, op_export, .may = { -EOPNOTSUPP, -EINVAL } },
	{ "frame-out", 15, op_frame_out, .may = { -ETIME, -EINVAL, -EOPNOTSUPP, -EBUSY } },
	{ "cache", 60, op_cache, .may = { -ETIME } },
	{ "open", 10, op_open, .may = { -EOPNOTSUPP, -EBUSY } },
	{ "orphan", 10, op_orphan, .may = { -ETIME, -EOPNOTSUPP } },
	{ "fences", 40, op_fences, .cancels = false },
	{ "dispatch", 30, op_dispatch, .cancels = false },
	{ "order", 150, op_order, .may = { -EOPNOTSUPP } },
	{ "cancel", 20, op_cancel, .cancels = false },
	{ "lose", 1, op_lose, .cancels = false },
	{ "few-fds", 6, op_few_fds, .cancels = false },
	{ "fail", 20, op_fail, .cancels = false },
	{ "fork", 2, op_fork, .cancels = false },
};

static bool chosen(const struct op *op)
{
	return !opts.only || op->fn == op_import || op->fn == op_delete ||
		!fnmatch(opts.only, op->name, 0);
}

static const struct op *op_at(uint32_t r, bool cancels)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		sum += chosen(&ops[i]) && (ops[i].cancels || !cancels) ? ops[i].weight : 0;
	r %= sum;
	for (size_t i = 0;; i++) {
		unsigned int w = chosen(&ops[i]) && (ops[i].cancels || !cancels) ?
			ops[i].weight : 0;

		if (r < w)
			return &ops[i];
		r -= w;
	}
}

static void op_run(const struct op *op, const uint32_t *r)
{
	int ret;

	store(&self->op, op->name);
	store(&self->since, now_ns());
	for (unsigned int i = 0; i < NARGS; i++)
		__atomic_store_n(&self->args[i], r[i], __ATOMIC_RELAXED);
	ret = op->fn(r);
	for (size_t i = 0; i < ARRAY_SIZE(op->may); i++)
		if (ret == op->may[i] || round_.rough)
			ret = 0;
	if (!CHECK_MSG(!ret, "%s gives %d: %s", op->name, ret, dlbuf_last_error()))
		ktap_note(NULL, 0, "%s %x %x %x %x %x %x %x %x", op->name, r[0], r[1], r[2],
			  r[3], r[4], r[5], r[6], r[7]);
	store(&self->op, "between");
	add(&progress, 1);
	add(&total_ops, 1);
}

struct cancelled {
	struct worker *as;
	const uint32_t *r;
	bool done;
};

static void *be_cancelled(void *data)
{
	struct cancelled *c = data;

	self = c->as;
	cancelling = true;
	pthread_cancel(pthread_self());
	op_run(op_at(c->r[0], true), c->r);
	store(&c->done, true);
	pthread_testcancel();
	return NULL;
}

/* A thread with a cancellation pending: no function of the library acts on it. */
static int op_cancel(const uint32_t *r)
{
	struct cancelled c = { self, r, false };
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, be_cancelled, &c))
		return -ENOMEM;
	pthread_join(thread, &result);
	CHECK_MSG(load(&c.done) && result == PTHREAD_CANCELED, "in %s", op_at(r[0], true)->name);
	return 0;
}

void print_operations(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		puts(ops[i].name);
}

void *work(void *arg)
{
	uint32_t r[NARGS + 1];

	self = arg;
	store(&self->tid, (pid_t)syscall(SYS_gettid));
	for (uint32_t n = 0; n < opts.ops; n++) {
		for (unsigned int i = 0; i <= NARGS; i++)
			r[i] = (uint32_t)(mix(round_.seed ^ mix((uint64_t)(self - workers) << 48 ^
								(uint64_t)n << 8 ^ i)) >> 20);
		store(&self->n, n);
		op_run(op_at(r[NARGS], false), r);
	}
	store(&self->op, NULL);
	return NULL;
}
