// SPDX-License-Identifier: MIT
/*
 * Any sequence of calls on one socketpair: what a peer sends, closes and shuts
 * down, and what the receiver asks for, with and without room for fds. Each call
 * says what a model of the queue says, so that a good message is received
 * whatever came before it; no call waits for what cannot come; and no fd, no
 * lease and no event is left.
 *
 *	build/.../tests/fuzz/socket -max_total_time=60 tests/fuzz/corpus/socket
 *
 * There is no dma-buf here: the best of messages is refused with the name of
 * its fd, "good".
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#include "system/event.h"
#include "common.h"
#include "fuzz.h"
#include "packet.h"

#define MAX_QUEUED 32
#define NFDS 128		/* of this process, at most */

enum what { GOOD, BAD, EMPTY };

/* Of each packet on its way to us. */
struct sent {
	enum what what;
	unsigned int fds;
};

struct game {
	struct input in;
	int type, us, them;	/* them: -1 when closed */
	struct sent queue[MAX_QUEUED];
	unsigned int first, n;
	bool ended;		/* nobody will send any more */
	bool shut;		/* by ourselves */
	unsigned int leases;	/* sent */
};

/* Made once: what a peer sends. */
static int kinds[8];
static struct dlbuf_device *cpu;
static struct rlimit limit;
static unsigned int fired;	/* atomic */

static void fire(void *data)
{
	__atomic_add_fetch(&fired, 1, __ATOMIC_SEQ_CST);
}

/* How many numbers below end are open. */
static unsigned int count_open(unsigned int end)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < end; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
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

static void queue(struct game *g, enum what what, unsigned int fds)
{
	g->queue[(g->first + g->n++) % MAX_QUEUED] = (struct sent){ what, fds };
}

static void raw_send(struct game *g, enum what what, const void *data,
		     size_t bytes, const int fds[], unsigned int nfds)
{
	if (g->them < 0 || g->n == MAX_QUEUED)
		return;
	if (send_fds(g->them, data, bytes, fds, nfds,
		     MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		queue(g, what, nfds);
}

/* Bytes of the input, as they are, with some fds of any kinds. */
static void send_junk(struct game *g)
{
	uint8_t data[5000] = { 0 }, bits = byte(&g->in);
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
	raw_send(g, n ? BAD : EMPTY, data, n, fds, nfds);
}

/* A message, good but for some of its bytes or its fds. */
static void send_message(struct game *g)
{
	uint8_t bits = byte(&g->in);
	struct packet p = good_packet(bits & 1 ? MESSAGE_HOLD : 0);
	int fds[] = { kinds[0], kinds[1] };
	unsigned int nfds = 1 + (bits & 1);
	enum what what = GOOD;

	for (unsigned int i = bits >> 1 & 3; i; i--) {
		p.data[byte(&g->in) % p.bytes] ^= byte(&g->in);
		what = BAD;
	}
	if (bits & 8) {
		fds[0] = kinds[bits >> 5];
		what = BAD;
	}
	if (bits & 16) {
		nfds ^= 3;
		what = BAD;
	}
	raw_send(g, what, p.data, p.bytes, fds, nfds);
}

/* By the library, in either direction, mostly with a lease. */
static void send_frame(struct game *g)
{
	uint8_t bits = byte(&g->in);
	struct dlbuf_frame f = PICTURE(64, 4, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1,
		.planes = { { .fd = kinds[0], .pitch = 64 } },
		.order = DLBUF_ORDER_COMPLETE, .fence = -1,
		.release = bits & 1 ? NULL : fire);
	struct dlbuf_socket_opts opts = { .size = sizeof(opts) };
	bool ours = bits & 2;
	int ret;

	if (bits & 4)
		opts.deadline_ns = 1;
	else
		opts.flags = DLBUF_SOCKET_DONTWAIT;
	if (!ours && (g->them < 0 || g->n == MAX_QUEUED))
		return;
	ret = dlbuf_send_frame(ours ? g->us : g->them, &f, &opts);
	CHECK(ret <= 0 && ret != (bits & 4 ? -EAGAIN : -ETIME));
	/* The kernel drops a datagram socket's queue with its peer then. */
	if (ret == -EPIPE && strstr(dlbuf_last_error(), "refused"))
		g->n = 0;
	if (ret)
		return;
	g->leases += !(bits & 1);
	if (!ours)
		queue(g, GOOD, 1 + !(bits & 1));
}

/* ---------------------------------------------------------------- us */

/* Nothing with bytes is queued behind the first one. */
static bool rest_is_empty(const struct game *g)
{
	for (unsigned int i = 1; i < g->n; i++)
		if (g->queue[(g->first + i) % MAX_QUEUED].what != EMPTY)
			return false;
	return true;
}

/* An empty packet without fds, which looks like the end, and is not: bytes follow. */
static bool passed_over(const struct game *g)
{
	const struct sent *s = &g->queue[g->first % MAX_QUEUED];

	if (s->what != EMPTY || s->fds || !g->ended)
		return false;
	if (g->type != SOCK_DGRAM)
		return !rest_is_empty(g);
	/* It looks one packet ahead. */
	return g->shut && g->n > 1 &&
	       g->queue[(g->first + 1) % MAX_QUEUED].what != EMPTY;
}

/* Before the call there was room for so many fds; events only make more. */
static void check_taken(struct game *g, int ret, unsigned int before)
{
	struct sent s;

	while (passed_over(g)) {
		g->first++;
		g->n--;
	}
	s = g->queue[g->first % MAX_QUEUED];
	if (ret == -EMFILE)
		CHECK(s.fds > before);
	else if (s.what == GOOD)
		CHECK(ret == -EBADF && s.fds <= room() &&
		      strstr(dlbuf_last_error(), "memfd:good"));
	else if (s.what == BAD)
		CHECK(ret == -EPROTO || ret == -EBADF);
	else if (s.fds)
		CHECK(ret == -EPROTO);
	else if (g->ended && rest_is_empty(g))
		CHECK(ret == -EPIPE);
	else
		/* A datagram socket that is shut down looks one packet ahead. */
		CHECK(ret == -EPROTO ||
		      (ret == -EPIPE && g->shut && g->type == SOCK_DGRAM));
	g->first++;
	g->n--;
}

static void receive(struct game *g)
{
	uint8_t bits = byte(&g->in);
	struct dlbuf_import_opts import = { .size = sizeof(import) };
	struct dlbuf_socket_opts opts = { .size = sizeof(opts),
					  .import = &import };
	struct dlbuf_frame f = { .size = bits & 1 ? 0 : sizeof(f) };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	bool bad = bits & 1 && bits & 2, wait = bits & 4;
	unsigned int before = room();
	uint32_t n = 77;
	int ret;

	if (bits & 8)
		bad |= (import.view = byte(&g->in)) >= DLBUF_NVIEWS;
	if (bits & 16)
		bad |= (import.access = byte(&g->in)) > DLBUF_RW;
	/* Who may wait does so for what is there, or is certain not to come. */
	if (wait)
		opts.deadline_ns = bits & 32 || (!g->n && !g->ended);
	else
		opts.flags = DLBUF_SOCKET_DONTWAIT;
	ret = dlbuf_recv(cpu, g->us, &opts, t, &n, bits & 2 ? &f : NULL);
	CHECK(ret < 0 && dlbuf_last_error()[0] && n == 77 && !t[0]);
	if (bad)
		CHECK(ret == -EINVAL);
	else if (g->n)
		check_taken(g, ret, before);
	else
		CHECK(ret == (g->ended ? -EPIPE : wait ? -ETIME : -EAGAIN));
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

static void drain(struct game *g)
{
	char data[MESSAGE_MAX_BYTES];

	if (g->them >= 0)
		while (recv(g->them, data, sizeof(data), MSG_DONTWAIT) > 0)
			;
}

static void set_up(void)
{
	int fds[2], event_fd;

	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_cur > NFDS)
		limit.rlim_cur = NFDS;
	release_limit();
	CHECK(!dlbuf_device_open("cpu", NULL, &cpu));
	kinds[0] = memfd_create("good", MFD_CLOEXEC);
	CHECK(!pipe2(fds, O_CLOEXEC));
	kinds[1] = fds[0];
	kinds[2] = fds[1];
	kinds[3] = memfd_create("other", MFD_CLOEXEC);
	kinds[4] = eventfd(0, EFD_CLOEXEC);
	kinds[5] = open("/", O_PATH | O_CLOEXEC);
	kinds[6] = open("/dev/null", O_RDWR | O_CLOEXEC);
	kinds[7] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* The event thread has fds of its own, as long as there is a device. */
	event_fd = eventfd(1, EFD_CLOEXEC);
	CHECK(!event_add(event_fd, fire, NULL));
	close(event_fd);
	while (event_pending())
		sched_yield();
}

static void play(struct game *g)
{
	while (g->in.at < g->in.end) {
		switch (byte(&g->in) % 10) {
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
			drain(g);
			break;
		default:
			receive(g);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct game g = { .in = { data, data + size } };
	unsigned int before;
	int pair[2];

	if (!cpu)
		set_up();
	before = count_open(NFDS);
	fired = 0;
	g.type = byte(&g.in) & 1 ? SOCK_DGRAM : SOCK_SEQPACKET;
	CHECK(!socketpair(AF_UNIX, g.type | SOCK_CLOEXEC, 0, pair));
	g.us = pair[0];
	g.them = pair[1];
	play(&g);
	release_limit();
	/* Whatever has happened, what is queued comes, and then no more. */
	g.in.at = g.in.end;
	while (g.n)
		receive(&g);
	receive(&g);
	hang_up(&g);
	close(g.us);
	while (event_pending())
		sched_yield();
	CHECK(__atomic_load_n(&fired, __ATOMIC_SEQ_CST) == g.leases);
	CHECK(count_open(NFDS) == before);
	return 0;
}
