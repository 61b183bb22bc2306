// SPDX-License-Identifier: MIT
/*
 * Any order of accesses and fences: tensors of several imports and planes of frames are acquired,
 * alone and together, released, and deleted in the middle, while fences of others come and signal.
 * Each call gives the result of a model of the fences; no call waits for a fence that is not
 * signalled; leases fire once, and no fd is left.
 *
 *	build/.../tests/fuzz/sync -max_total_time=60 tests/fuzz/corpus/sync
 */
#include "common.h"
#include "memory.h"

#define MOST 12
#define MOST_FENCES 6

struct holder {
	DLManagedTensorVersioned *t;
	uint32_t buffer, access, acquired;
	unsigned int joined;	/* acquired with others by this call, or 0 */
	bool foreign;		/* not one of the library */
};

struct fence {
	int writer;
	uint32_t pending[NMEMORY];	/* dlbuf_access of its work on each buffer, or 0 */
};

struct game {
	struct input in;
	struct holder h[MOST];
	struct fence fences[MOST_FENCES];
	unsigned int joins, leases;
};

static DLManagedTensorVersioned foreign = { .version = { DLPACK_MAJOR_VERSION, 0 } };

static bool blocked(const struct game *g, uint32_t buffer, uint32_t access)
{
	for (unsigned int i = 0; i < MOST_FENCES; i++) {
		uint32_t pending = g->fences[i].pending[buffer];

		if (pending && (pending | access) & DLBUF_WRITE)
			return true;
	}
	return false;
}

static struct holder *holder(struct game *g)
{
	return &g->h[byte(&g->in) % MOST];
}

static void drop(struct game *g, struct holder *h)
{
	(void)g;
	if (h->t && !h->foreign)
		h->t->deleter(h->t);
	*h = (struct holder){ 0 };
}

static void import(struct game *g)
{
	struct holder *h = holder(g);
	struct dlbuf_import_opts o = { .size = sizeof(o) };
	uint8_t bits = byte(&g->in);
	uint32_t buffer = bits & 3;
	DLTensor l = { .dtype = { kDLUInt, 8, 1 }, .byte_offset = byte(&g->in) };

	drop(g, h);
	if (bits >= 250) {
		*h = (struct holder){ .t = &foreign, .foreign = true };
		return;
	}
	o.access = bits >> 2 & 3;
	if (bits & 16 && o.access & DLBUF_WRITE)
		return;
	CHECK(!dlbuf_import(memory.cpu, (bits & 16 ? memory.ro : memory.fds)[buffer], &l, &o,
			    &h->t));
	h->buffer = buffer;
	h->access = bits & 16 || o.access == DLBUF_READ ? DLBUF_READ : DLBUF_RW;
}

/* Two planes of one dma-buf, or of two. */
static void import_frame(struct game *g)
{
	uint8_t bits = byte(&g->in);
	struct dlbuf_frame f = PICTURE(16, 16, DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2,
		.planes = { { .fd = memory.fds[bits & 3], .pitch = 64 },
			    { .fd = memory.fds[bits >> 2 & 3], .pitch = 64, .offset = 8192 } },
		.flags = bits & 16 ? DLBUF_FRAME_READ_ONLY : 0, .fence = -1, .release = fire);
	struct holder *h = &g->h[byte(&g->in) % (MOST - 1)];
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	drop(g, &h[0]);
	drop(g, &h[1]);
	CHECK(!dlbuf_import_frame(memory.cpu, &f, NULL, t, &n) && n == 2);
	g->leases++;
	for (unsigned int i = 0; i < 2; i++)
		h[i] = (struct holder){ .t = t[i], .buffer = bits >> 2 * i & 3,
					.access = bits & 16 ? DLBUF_READ : DLBUF_RW };
}

static void share(struct game *g)
{
	struct holder *from = holder(g), *to = holder(g);
	DLManagedTensorVersioned *t;

	if (!from->t || from == to)
		return;
	if (from->foreign) {
		CHECK(dlbuf_tensor_share(from->t, NULL, &t) == -EINVAL);
		return;
	}
	CHECK(!dlbuf_tensor_share(from->t, NULL, &t));
	drop(g, to);
	*to = (struct holder){ .t = t, .buffer = from->buffer, .access = from->access };
}

/* A fence of another user's work on a buffer. */
static void add_fence(struct game *g)
{
	struct fence *f = &g->fences[byte(&g->in) % MOST_FENCES];
	uint8_t bits = byte(&g->in);
	uint32_t access = bits >> 2 & 3;
	int ret;

	if (f->writer < 0)
		f->writer = eventfd(0, EFD_CLOEXEC);
	CHECK(f->writer >= 0);
	ret = dlbuf_fence_import(memory.fds[bits & 3], access,
				 bits & 16 ? memory.fds[0] : f->writer);
	CHECK(ret == (access && !(bits & 16) ? 0 : -EINVAL));
	if (!ret)
		f->pending[bits & 3] |= access;
}

static void signal_fence(struct game *g, unsigned int i)
{
	struct fence *f = &g->fences[i % MOST_FENCES];

	if (f->writer < 0)
		return;
	memory_signal(f->writer);
	close(f->writer);
	*f = (struct fence){ .writer = -1 };
}

/* The status of one fence, or of all together. */
static int want_acquire(const struct game *g, struct holder *const list[], unsigned int n,
			uint32_t access, int fence)
{
	bool busy = false, wait = false, denied = false;

	for (unsigned int i = 0; i < n; i++) {
		if (!list[i]->t || list[i]->foreign)
			return -EINVAL;
		busy |= list[i]->acquired;
		for (unsigned int k = 0; k < i; k++)
			busy |= list[i] == list[k];
		denied |= (access & ~list[i]->access) != 0;
		wait |= blocked(g, list[i]->buffer, access);
	}
	if (!access || access > DLBUF_RW)
		return -EINVAL;
	/* The call decides which of these it reports. */
	if (denied || busy)
		return 1;
	return wait || (fence >= 0 && memory_fence_is_pending(fence)) ? -ETIME : 0;
}

static void acquire(struct game *g)
{
	struct dlbuf_acquire_opts o = { .size = sizeof(o), .deadline_ns = 1, .fence = -1 };
	DLManagedTensorVersioned *t[4];
	uint8_t bits = byte(&g->in);
	unsigned int n = bits & 1 ? 1 : 1 + (bits >> 1 & 3), same = 0;
	uint32_t access = bits >> 3 & 3;
	struct holder *list[4];
	int want, ret;

	for (unsigned int i = 0; i < n; i++) {
		list[i] = holder(g);
		t[i] = list[i]->t;
	}
	if (bits & 32)
		o.fence = g->fences[byte(&g->in) % MOST_FENCES].writer;
	if (bits & 64)
		o.flags = DLBUF_ACQUIRE_DAMAGED;
	want = want_acquire(g, list, n, access, o.fence);
	/* A call that cannot wait without end needs no deadline. */
	if (!want && bits & 128)
		o.deadline_ns = 0;
	ret = bits & 1 ? dlbuf_acquire(t[0], access, NULL, &o) :
			 dlbuf_acquire_all(t, n, access, NULL, &o);
	CHECK(want > 0 ? ret == -EBUSY || ret == -EACCES || ret == -EINVAL : ret == want);
	if (ret) {
		CHECK(dlbuf_last_error()[0]);
		return;
	}
	g->joins++;
	for (unsigned int i = 0; i < n; i++) {
		list[i]->acquired = access;
		for (unsigned int k = 0; k < n; k++)
			same += i != k && list[i]->buffer == list[k]->buffer;
	}
	for (unsigned int i = 0; same && i < n; i++)
		list[i]->joined = g->joins;
}

static void release(struct game *g)
{
	DLManagedTensorVersioned *t[4];
	uint8_t bits = byte(&g->in);
	unsigned int n = bits & 1 ? 1 : 1 + (bits >> 1 & 3);
	bool wrong = false, part = false;
	int fence = 77, ret, *out = bits & 8 ? &fence : NULL;
	struct holder *list[4];

	for (unsigned int i = 0; i < n; i++) {
		list[i] = holder(g);
		t[i] = list[i]->t;
		wrong |= !list[i]->acquired;
		part |= list[i]->joined != 0;
		for (unsigned int k = 0; k < i; k++)
			wrong |= list[i] == list[k];
	}
	ret = bits & 1 ? dlbuf_release(t[0], NULL, out) : dlbuf_release_all(t, n, NULL, out);
	/* Only the last of those that were acquired together has a fence. */
	CHECK(wrong ? ret == -EINVAL || (part && out && ret == -EBUSY) :
		      !ret || (part && out && ret == -EBUSY));
	CHECK(fence == (ret || !out ? 77 : -1));
	for (unsigned int i = 0; !ret && i < n; i++)
		list[i]->acquired = list[i]->joined = 0;
}

/* The CPU gives no fences of its own, and takes none. */
static void by_fence(struct game *g)
{
	struct holder *h = holder(g);
	int fence = 77, ret;

	ret = dlbuf_acquire_fence(h->t, DLBUF_READ, &fence);
	CHECK(ret == (h->t && !h->foreign ? -EOPNOTSUPP : -EINVAL) && fence == 77);
	ret = dlbuf_release_fence(h->t, -1);
	CHECK(ret == (!h->t || h->foreign ? -EINVAL : -EOPNOTSUPP) ||
	      (ret == -EINVAL && !h->acquired));
}

/* dlbuf_pending() reports the pending work without waiting. */
static void look(struct game *g)
{
	struct holder *h = holder(g);
	uint8_t bits = byte(&g->in);
	uint32_t access = bits & 3;
	int fd = 77, ret;

	ret = dlbuf_pending(h->t, access, &fd);
	if (!h->t || h->foreign || !access) {
		CHECK(ret == -EINVAL && fd == 77);
	} else if (access & ~h->access) {
		CHECK(ret == -EACCES && fd == 77);
	} else {
		CHECK(!ret && (fd != -1 && memory_fence_is_pending(fd)) ==
			      blocked(g, h->buffer, access));
		if (fd != -1)
			close(fd);
	}
	ret = dlbuf_fence_export(memory.fds[bits >> 2 & 3], access, &fd);
	CHECK(ret == (access ? 0 : -EINVAL));
	if (ret)
		return;
	CHECK(memory_fence_is_pending(fd) == blocked(g, bits >> 2 & 3, access));
	close(fd);
}

static void merge(struct game *g)
{
	int a = g->fences[byte(&g->in) % MOST_FENCES].writer;
	int b = g->fences[byte(&g->in) % MOST_FENCES].writer;
	int both = 77;

	CHECK(!dlbuf_fence_merge(a, b, &both));
	CHECK((both == -1) == (a == -1 && b == -1));
	CHECK(both == -1 || memory_fence_is_pending(both));
	CHECK(!dlbuf_fence_notify(both, fire, NULL));
	g->leases++;
	if (both != -1)
		close(both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct game g = { .in = { data, data + size } };
	unsigned int fds;

	memory_begin();
	fds = memory_settle();
	memory.fired = 0;
	for (unsigned int i = 0; i < MOST_FENCES; i++)
		g.fences[i].writer = -1;
	while (g.in.at < g.in.end) {
		switch (byte(&g.in) % 16) {
		case 0:
		case 1:
			import(&g);
			break;
		case 2:
		case 3:
			import_frame(&g);
			break;
		case 4:
			share(&g);
			break;
		case 5:
			add_fence(&g);
			break;
		case 6:
			signal_fence(&g, byte(&g.in));
			break;
		case 7:
		case 8:
		case 9:
			acquire(&g);
			break;
		case 10:
		case 11:
			release(&g);
			break;
		case 12:
			by_fence(&g);
			break;
		case 13:
			look(&g);
			break;
		case 14:
			merge(&g);
			break;
		default:
			drop(&g, holder(&g));
		}
	}
	for (unsigned int i = 0; i < MOST_FENCES; i++)
		signal_fence(&g, i);
	for (unsigned int i = 0; i < MOST; i++)
		drop(&g, &g.h[i]);
	CHECK(memory_settle() == fds);
	CHECK(__atomic_load_n(&memory.fired, __ATOMIC_SEQ_CST) == g.leases);
	return 0;
}
