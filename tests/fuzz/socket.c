// SPDX-License-Identifier: MIT
/*
 * Any sequence of calls on one socketpair: a peer sends, closes and shuts down,
 * and the receiver requests, with and without room for fds. Each call gives the
 * result of a model of the queue, so that a valid message is received after any
 * other messages; no call waits for a message that cannot come; and no fd, no
 * lease and no event is left.
 *
 *	build/.../tests/fuzz/socket -max_total_time=60 tests/fuzz/corpus/socket
 *
 * Tensors of 0 to 64 dimensions and frames of all formats are sent both ways, kept,
 * and sent on. The target compares the received bytes with the sent ones.
 */
#include <sys/resource.h>
#include <sys/socket.h>

#include "common.h"
#include "expect.h"
#include "packet.h"

#define MAX_QUEUED 32
#define MAX_KEPT 8
#define IMPORT_FDS 8		/* further fds that the import of a message needs */

/* Each packet on its way. */
struct sent {
	bool empty;
	unsigned int fds;
	int writer;		/* signals the frame's fence, or -1 */
	struct expect e;
};

struct queue {
	struct sent packets[MAX_QUEUED];
	unsigned int first, n;
};

struct kept {
	uint32_t n;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct expect e;
};

struct game {
	struct input in;
	int type, us, them;	/* them: -1 when closed */
	struct queue to_us, to_them;
	struct kept kept[MAX_KEPT];
	bool ended;		/* the other side will not send any more */
	bool shut;		/* by ourselves */
	unsigned int leases;	/* sent */
};

/* Made once: the buffers that a peer sends. */
static int kinds[8];
static struct rlimit limit;
static struct dlbuf_format_info formats[512];
static uint32_t nformats;

static int collect(const struct dlbuf_format_info *info, void *data)
{
	if (!info->reason)
		formats[nformats++] = *info;
	return 0;
}

/* Free numbers as the process's limit has it. */
static unsigned int room(void)
{
	struct rlimit now;
	unsigned int end;

	CHECK(!getrlimit(RLIMIT_NOFILE, &now));
	end = now.rlim_cur < NFDS ? now.rlim_cur : NFDS;
	return end - count_open(end);
}

/* ---------------------------------------------------------------- the peer */

static struct packet good_packet(uint8_t flags)
{
	const int64_t shape[] = { 4, 6 }, strides[] = { 16, 2 };
	DLTensor layout = LAYOUT8(2, shape, .strides = (int64_t *)strides);

	return tensors_of(&layout, 1, DLBUF_RW, flags);
}

/* NULL: there is no room. */
static struct sent *queue_next(struct queue *q)
{
	struct sent *s = &q->packets[(q->first + q->n) % MAX_QUEUED];

	if (q->n == MAX_QUEUED)
		return NULL;
	s->empty = false;
	s->writer = -1;
	s->e = (struct expect){ 0 };
	return s;
}

static struct sent *queue_head(struct queue *q)
{
	return &q->packets[q->first % MAX_QUEUED];
}

static void settle_fence(struct sent *s)
{
	if (s->writer < 0)
		return;
	memory_signal(s->writer);
	close(s->writer);
	s->writer = -1;
}

static void queue_pop(struct queue *q)
{
	settle_fence(queue_head(q));
	q->first++;
	q->n--;
}

static void queue_clear(struct queue *q)
{
	while (q->n)
		queue_pop(q);
}

static void raw_send(struct game *g, const void *data, size_t bytes, const int fds[],
		     unsigned int nfds)
{
	struct sent *s = queue_next(&g->to_us);
	static struct message m;

	if (g->them < 0 || !s)
		return;
	if (send_fds(g->them, data, bytes, fds, nfds, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return;
	s->fds = nfds;
	s->empty = !bytes;
	if (bytes && !message_parse(data, bytes, nfds, &m))
		expect_message(&s->e, &m, fds);
	expect_point(&s->e);
	g->to_us.n++;
}

/* Bytes of the input, as they are, with some fds of any kinds. */
static void send_junk(struct game *g)
{
	_Alignas(8) uint8_t data[5000] = { 0 };
	uint8_t bits = byte(&g->in);
	unsigned int nfds = bits & 7, n = byte(&g->in);
	int fds[80];

	if (bits & 8)
		nfds *= 11;
	for (unsigned int i = 0; i < nfds; i++)
		fds[i] = kinds[i < 7 ? byte(&g->in) % 8 : i % 8];
	if (bits & 16)
		n = sizeof(data);
	for (unsigned int i = 0; i < n && i < 64; i++)
		data[i] = byte(&g->in);
	raw_send(g, data, n, fds, nfds);
}

/* A message, good but for some of its bytes or its fds. */
static void send_message(struct game *g)
{
	uint8_t bits = byte(&g->in);
	struct packet p = good_packet(bits & 1 ? MESSAGE_HOLD : 0);
	int fds[] = { kinds[0], kinds[1] };
	unsigned int nfds = 1 + (bits & 1);

	for (unsigned int i = bits >> 1 & 3; i; i--)
		p.data[byte(&g->in) % p.bytes] ^= byte(&g->in);
	if (bits & 8)
		fds[0] = kinds[bits >> 5];
	if (bits & 16)
		nfds ^= 3;
	raw_send(g, p.data, p.bytes, fds, nfds);
}

/* Whether a call of the library may go to this queue, and where. */
static struct sent *way(struct game *g, bool ours, struct queue **q)
{
	*q = ours ? &g->to_them : &g->to_us;
	return g->them < 0 && !ours ? NULL : queue_next(*q);
}

static void sent(struct game *g, int ret, struct queue *q, struct sent *s, unsigned int fds)
{
	/* The kernel drops a datagram socket's queue with its peer then. */
	if (ret == -EPIPE && strstr(dlbuf_last_error(), "refused"))
		queue_clear(&g->to_us);
	s->fds = fds;
	expect_point(&s->e);
	if (ret)
		settle_fence(s);
	else
		q->n++;
}

static int send_opts(struct dlbuf_socket_opts *opts, uint8_t bits)
{
	*opts = (struct dlbuf_socket_opts){ .size = sizeof(*opts) };
	if (bits & 4)
		opts->deadline_ns = 1;
	else
		opts->flags = DLBUF_SOCKET_DONTWAIT;
	return bits & 4 ? -EAGAIN : -ETIME;
}

/* By the library, in either direction, mostly with a lease. */
static void send_frame(struct game *g)
{
	uint8_t bits = byte(&g->in), how = byte(&g->in);
	const struct dlbuf_format_info *info = &formats[how & 1 ? byte(&g->in) % nformats : 0];
	struct dlbuf_frame f = PICTURE(1 + byte(&g->in) % 72, 1 + byte(&g->in) % 48,
		info->drm_code ? info->drm_code : info->v4l2_code,
		info->drm_code ? DLBUF_CODE_DRM : DLBUF_CODE_V4L2, info->nplanes,
		.sequence = how, .timestamp_ns = -how, .flags = DLBUF_FRAME_SEQUENCE,
		.order = DLBUF_ORDER_COMPLETE, .fence = -1,
		.release = bits & 1 ? NULL : fire);
	struct dlbuf_socket_opts opts;
	bool ours = bits & 2, fenced = bits & 8;
	struct queue *q;
	struct sent *s = way(g, ours, &q);
	unsigned int nfds = 1;
	int other, ret;

	if (!s)
		return;
	other = send_opts(&opts, bits);
	if (bits & 16)
		f.flags |= DLBUF_FRAME_READ_ONLY;
	if (bits & 32)
		f.crop = (struct dlbuf_rect){ byte(&g->in) % 8 * 2, byte(&g->in) % 8 * 2, 2, 2 };
	for (uint32_t i = 0; i < f.nplanes; i++) {
		f.planes[i] = (struct dlbuf_plane){ .fd = how & 2 ? memory.fds[i] : memory.fds[0],
			.pitch = 64 * (1 + byte(&g->in) % 12), .offset = how & 4 ? 16384 * i : 0 };
		if (how & 8)
			f.planes[i].bytes = MEMORY_BYTES - f.planes[i].offset;
	}
	if (how & 16)
		f.planes[0].fd = memory.ro[0];
	for (uint32_t i = 1; i < f.nplanes; i++)
		nfds += f.planes[i].fd != f.planes[0].fd;
	if (fenced) {
		f.order = DLBUF_ORDER_FENCE;
		f.fence = s->writer = eventfd(bits >> 6 & 1, EFD_CLOEXEC);
		if (f.fence < 0)
			return;
	}
	expect_frame(&s->e, &f);
	ret = dlbuf_send_frame(ours ? g->us : g->them, &f, &opts);
	CHECK(ret <= 0 && ret != other);
	g->leases += !ret && f.release;
	sent(g, ret, q, s, nfds + fenced + !!f.release);
}

/* New tensors, or those that were received: views and shares of them. */
static void send_tensors(struct game *g)
{
	uint8_t bits = byte(&g->in), which = byte(&g->in);
	struct kept *from = &g->kept[which % MAX_KEPT];
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	int64_t dims[2 * DLBUF_MAX_NDIM];
	struct dlbuf_socket_opts o;
	bool ours = bits & 2, again = bits & 1;
	uint32_t n = 1 + (bits >> 4 & 3);
	struct queue *q;
	struct sent *s = way(g, ours, &q);
	int other, ret = 0;
	DLTensor l;

	if (!s || (again && !from->n))
		return;
	other = send_opts(&o, bits);
	s->e.valid = true;
	for (uint32_t i = 0; i < n && !ret; i++) {
		DLManagedTensorVersioned *old = again ? from->t[i % from->n] : NULL;
		struct dlbuf_tensor_info info = { .size = sizeof(info) };
		uint32_t how = byte(&g->in);
		int fd = how & 4 ? memory.ro[how & 3] : memory.fds[how & 3];

		if (again) {
			CHECK(!dlbuf_tensor_get_info(old, &info));
			l = from->e.l[i % from->n].layout;
			fd = from->e.l[i % from->n].fd;
			ret = dlbuf_tensor_share(old, NULL, &t[i]);
		} else {
			get_good_layout(&g->in, &l, dims);
			opts.access = how >> 3 & 1;
			ret = dlbuf_import(memory.cpu, fd, &l, &opts, &t[i]);
			CHECK(!ret || ret == -EMFILE);
			info.access = opts.access || how & 4 ? DLBUF_READ : DLBUF_RW;
		}
		if (!ret)
			expect_tensor(&s->e, &l, fd, info.access);
	}
	if (!ret) {
		ret = dlbuf_send(ours ? g->us : g->them, t, n, &o);
		CHECK(ret <= 0 && ret != other);
		sent(g, ret, q, s, n + 1);
	}
	while (n--)
		if (t[n])
			t[n]->deleter(t[n]);
}

/* ---------------------------------------------------------------- us */

/* Nothing with bytes is queued behind the first one. */
static bool rest_is_empty(const struct queue *q)
{
	for (unsigned int i = 1; i < q->n; i++)
		if (!q->packets[(q->first + i) % MAX_QUEUED].empty)
			return false;
	return true;
}

/* An empty packet without fds, which looks like the end, and is not: bytes follow. */
static bool passed_over(struct game *g)
{
	const struct queue *q = &g->to_us;
	const struct sent *s = queue_head(&g->to_us);

	if (!s->empty || s->fds || !g->ended)
		return false;
	if (g->type != SOCK_DGRAM)
		return !rest_is_empty(q);
	/* It looks one packet ahead. */
	return g->shut && q->n > 1 && !q->packets[(q->first + 1) % MAX_QUEUED].empty;
}

/* Tensors that were received: looked at, and kept for a while. */
static void check_received(struct game *g, struct sent *s, DLManagedTensorVersioned *t[],
			   uint32_t n, const struct dlbuf_frame *f)
{
	const struct dlbuf_acquire_opts now = { .size = sizeof(now), .deadline_ns = 1 };
	struct kept *k;
	int ret;

	if (s->writer >= 0 && memory_fence_is_pending(s->writer)) {
		ret = dlbuf_acquire(t[0], DLBUF_READ, NULL, &now);
		CHECK(ret == -ETIME || ret == -EMFILE);
	}
	settle_fence(s);
	expect_touch(&s->e, t, n, f);
	k = &g->kept[byte(&g->in) % MAX_KEPT];
	while (k->n)
		k->n--, k->t[k->n]->deleter(k->t[k->n]);
	k->n = n;
	memcpy(k->t, t, n * sizeof(*t));
	k->e = s->e;
	if (k->e.frame)
		for (uint32_t i = 0; i < n; i++) {
			k->e.l[i].layout.shape = k->e.l[i].shape;
			k->e.l[i].layout.strides = k->e.l[i].strides;
		}
	expect_point(&k->e);
}

/* Before the call there was room for this many fds; events only free more. */
static void check_taken(struct game *g, int ret, unsigned int before, bool good)
{
	struct sent *s;

	s = queue_head(&g->to_us);
	if (ret == -EMFILE)
		CHECK(s->fds + IMPORT_FDS > before);
	else if (!s->empty)
		CHECK(good ? !ret : ret == -EPROTO || ret == -EBADF || ret == -EACCES ||
		      ret == -ERANGE || ret == -EOPNOTSUPP || ret == -EINVAL || ret == -EOVERFLOW);
	else if (s->fds)
		CHECK(ret == -EPROTO);
	else if (g->ended && rest_is_empty(&g->to_us))
		CHECK(ret == -EPIPE);
	else
		/* A datagram socket that is shut down looks one packet ahead. */
		CHECK(ret == -EPROTO ||
		      (ret == -EPIPE && g->shut && g->type == SOCK_DGRAM));
	queue_pop(&g->to_us);
}

static void receive(struct game *g)
{
	uint8_t bits = byte(&g->in);
	struct dlbuf_import_opts import = { .size = sizeof(import) };
	struct dlbuf_socket_opts opts = { .size = sizeof(opts),
					  .import = &import };
	struct dlbuf_frame f = { .size = bits & 1 ? 0 : sizeof(f) };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	bool bad = bits & 1 && bits & 2, wait = bits & 4, good = false;
	unsigned int before = room();
	struct sockaddr peer;
	socklen_t size = sizeof(peer);
	struct sent *s;
	uint32_t n = 77;
	int ret;

	if (bits & 8)
		bad |= (import.view = byte(&g->in)) >= DLBUF_NVIEWS;
	if (bits & 16)
		bad |= (import.access = byte(&g->in)) > DLBUF_RW;
	if (bits & 64)
		import.flags = DLBUF_IMPORT_KEEP;
	/* A call that may wait is only made if a message is there, or certain not to come. */
	if (wait)
		opts.deadline_ns = bits & 32 || (!g->to_us.n && !g->ended);
	else
		opts.flags = DLBUF_SOCKET_DONTWAIT;
	while (!bad && g->to_us.n && passed_over(g))
		queue_pop(&g->to_us);
	s = queue_head(&g->to_us);
	if (!bad && g->to_us.n)
		good = expect_begin(&s->e, &import);
	ret = dlbuf_recv(memory.cpu, g->us, &opts, t, &n, bits & 2 ? &f : NULL);
	CHECK(ret ? dlbuf_last_error()[0] && n == 77 && !t[0] : good);
	if (bad)
		CHECK(ret == -EINVAL);
	else if (!g->to_us.n && getpeername(g->us, &peer, &size))
		/* A datagram socket is not connected after a send to a peer that has ended. */
		CHECK(g->type == SOCK_DGRAM && ret == -ENOTCONN);
	else if (!g->to_us.n)
		CHECK(ret == (g->ended ? -EPIPE : wait ? -ETIME : -EAGAIN));
	if (!ret)
		check_received(g, s, t, n, bits & 2 ? &f : NULL);
	if (!bad && g->to_us.n)
		check_taken(g, ret, before, good);
}

/* The peer receives as well, and sees the messages in their order. */
static void receive_theirs(struct game *g)
{
	struct dlbuf_socket_opts opts = { .size = sizeof(opts), .flags = DLBUF_SOCKET_DONTWAIT };
	struct dlbuf_import_opts any = { .size = sizeof(any) };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct sent *s = queue_head(&g->to_them);
	struct dlbuf_frame f = { .size = sizeof(f) };
	unsigned int before = room();
	bool good;
	uint32_t n;
	int ret;

	if (g->them < 0)
		return;
	ret = dlbuf_recv(memory.cpu, g->them, &opts, t, &n, &f);
	/* Shut down, or not sent. */
	if (ret == -EPIPE || ret == -EAGAIN || !g->to_them.n)
		CHECK(ret == -EPIPE || (ret == -EAGAIN && !g->to_them.n));
	if (ret == -EPIPE || ret == -EAGAIN)
		return;
	good = expect_begin(&s->e, &any);
	CHECK(ret == -EMFILE ? s->fds + IMPORT_FDS > before : good == !ret);
	if (!ret)
		check_received(g, s, t, n, &f);
	queue_pop(&g->to_them);
}

static void forget(struct game *g, unsigned int i)
{
	struct kept *k = &g->kept[i % MAX_KEPT];

	while (k->n)
		k->n--, k->t[k->n]->deleter(k->t[k->n]);
}

/* ---------------------------------------------------------------- both */

static void shut(struct game *g)
{
	uint8_t bits = byte(&g->in);
	int how = bits % 3;
	bool ours = bits & 4;

	if (!ours && g->them < 0)
		return;
	if (shutdown(ours ? g->us : g->them, how))
		return;
	if (ours && how != SHUT_WR)
		g->shut = g->ended = true;
	else if (!ours && how != SHUT_RD && g->type == SOCK_SEQPACKET)
		g->ended = true;
}

static void hang_up(struct game *g)
{
	if (g->them < 0)
		return;
	close(g->them);
	g->them = -1;
	g->ended |= g->type == SOCK_SEQPACKET;
}

/* No room for fds, or for some. */
static void squeeze(struct game *g)
{
	struct rlimit now = limit;

	now.rlim_cur = 3 + byte(&g->in) % 32;
	CHECK(!setrlimit(RLIMIT_NOFILE, &now));
}

static void release_limit(void)
{
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

static void set_up(void)
{
	int fds[2];

	memory_begin();
	dlbuf_format_each(collect, NULL);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_cur > NFDS)
		limit.rlim_cur = NFDS;
	release_limit();
	kinds[0] = memory.fds[0];
	CHECK(!pipe2(fds, O_CLOEXEC));
	kinds[1] = fds[0];
	kinds[2] = fds[1];
	kinds[3] = memory.ro[1];
	kinds[4] = eventfd(1, EFD_CLOEXEC);
	kinds[5] = open("/", O_PATH | O_CLOEXEC);
	kinds[6] = open("/dev/null", O_RDWR | O_CLOEXEC);
	kinds[7] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static void play(struct game *g)
{
	while (g->in.at < g->in.end) {
		switch (byte(&g->in) % 16) {
		case 0:
			send_junk(g);
			break;
		case 1:
			send_message(g);
			break;
		case 2:
			send_frame(g);
			break;
		case 3:
			hang_up(g);
			break;
		case 4:
			shut(g);
			break;
		case 5:
			squeeze(g);
			break;
		case 6:
			release_limit();
			break;
		case 7:
			receive_theirs(g);
			break;
		case 8:
			forget(g, byte(&g->in));
			break;
		case 9:
		case 10:
		case 11:
			send_tensors(g);
			break;
		default:
			receive(g);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct game g;
	unsigned int before;
	int pair[2];

	if (!memory.cpu)
		set_up();
	before = memory_settle();
	memory.fired = 0;
	g.in = (struct input){ data, data + size };
	g.type = byte(&g.in) & 1 ? SOCK_DGRAM : SOCK_SEQPACKET;
	g.ended = g.shut = false;
	g.leases = 0;
	CHECK(!socketpair(AF_UNIX, g.type | SOCK_CLOEXEC, 0, pair));
	g.us = pair[0];
	g.them = pair[1];
	play(&g);
	release_limit();
	/* In every case the queued messages come, and then no more. */
	g.in.at = g.in.end;
	while (g.to_us.n)
		receive(&g);
	receive(&g);
	hang_up(&g);
	close(g.us);
	queue_clear(&g.to_them);
	for (unsigned int i = 0; i < MAX_KEPT; i++)
		forget(&g, i);
	CHECK(memory_settle() == before);
	CHECK(__atomic_load_n(&memory.fired, __ATOMIC_SEQ_CST) == g.leases);
	return 0;
}
