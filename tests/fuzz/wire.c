// SPDX-License-Identifier: MIT
/*
 * The wire of the Verilog simulators (dlbuf/vpi.h). A program sends, by the library or in its own
 * words; a simulator receives, hands back, keeps and forgets, in any order. The received bytes are
 * those that were sent. Work that was not completed is reported once. No fd is left.
 *
 *	build/.../tests/fuzz/wire -max_total_time=60 tests/fuzz/corpus/wire
 */
#include <sys/socket.h>

#include "backends/vpi/vpi.h"
#include "expect.h"
#include "import/layout.h"
#include "packet.h"

#define MAX_QUEUED 16
#define MAX_KEPT 4

/* A packet on its way to the simulator. */
struct sent {
	bool head;		/* its head is one of dlbuf_vpi_send() */
	uint32_t access;
	char name[DLBUF_VPI_MAX_NAME];
	struct expect e;
};

struct game {
	struct input in;
	struct dlbuf_device *dev;
	int program, simulator;	/* the ends; -1: has a name instead, is closed */
	bool ended;		/* a simulator has, and the program may not know it yet */
	struct sent queue[MAX_QUEUED];
	unsigned int first, n;
	struct dlbuf_vpi_arrival kept[MAX_KEPT];
};

static const struct dlbuf_socket_opts now = { .size = sizeof(now), .flags = DLBUF_SOCKET_DONTWAIT };
static char name[32];

static struct sent *next(struct game *g)
{
	struct sent *s = &g->queue[(g->first + g->n) % MAX_QUEUED];

	if (g->n == MAX_QUEUED)
		return NULL;
	*s = (struct sent){ .head = true };
	return s;
}

static void attach(struct game *g)
{
	/* If a program does not receive, its queue may be full of simulators that have ended. */
	if (g->program < 0 && g->simulator < 0)
		CHECK(!dlbuf_vpi_connect(name + 4, &g->simulator) || g->ended);
}

/* A second simulator gets the error that it is the second, or that the program has ended. */
static void attach_again(struct game *g)
{
	struct dlbuf_vpi_arrival a = { .size = sizeof(a) };
	int sock, ret;

	if (g->program >= 0 || dlbuf_vpi_connect(name + 4, &sock))
		return;
	ret = dlbuf_vpi_recv(memory.cpu, sock, &now, &a);
	CHECK(ret == -EAGAIN || ret == -EBUSY);
	close(sock);
	g->ended = true;
}

/* An earlier failure is reported once, to the first caller. */
static int acquire(DLManagedTensorVersioned *t, uint32_t access, bool damaged)
{
	struct dlbuf_acquire_opts o = { .size = sizeof(o), .deadline_ns = 1,
					.flags = damaged ? DLBUF_ACQUIRE_DAMAGED : 0 };
	int ret = dlbuf_acquire(t, access, NULL, &o);

	CHECK(!ret || ret == -ETIME || (ret == -EIO && !damaged));
	return ret;
}

static void send_tensor(struct game *g)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	uint8_t bits = byte(&g->in);
	int fd = bits & 4 ? memory.ro[bits & 3] : memory.fds[bits & 3], fence = -1, ret;
	uint32_t access = bits & 8 || fd == memory.ro[bits & 3] ? DLBUF_READ : DLBUF_RW;
	int64_t dims[2 * DLBUF_MAX_NDIM];
	DLManagedTensorVersioned *t;
	struct sent *s = next(g);
	DLTensor l;

	if (!s)
		return;
	get_good_layout(&g->in, &l, dims);
	opts.access = bits & 16 ? DLBUF_READ : 0;
	ret = dlbuf_import(g->dev, fd, &l, &opts, &t);
	CHECK(!ret);
	if (opts.access)
		access = DLBUF_READ;
	CHECK(dlbuf_vpi_send(t, "early", &now) == -EINVAL);
	if (!acquire(t, access, bits & 32)) {
		snprintf(s->name, sizeof(s->name), "t%u", g->n);
		s->access = access;
		s->e.valid = true;
		expect_tensor(&s->e, &l, fd, opts.access || bits & 4 ? DLBUF_READ : DLBUF_RW);
		CHECK(dlbuf_vpi_send(t, "two words", &now) == -EINVAL);
		ret = dlbuf_vpi_send(t, s->name, &now);
		CHECK(!ret || ret == -EAGAIN || (ret == -EPIPE && g->ended) || ret == -EIO);
		g->n += !ret;
		ret = dlbuf_release(t, NULL, bits & 64 ? &fence : NULL);
		CHECK(!ret || ret == -EIO);
		if (!ret && fence >= 0)
			close(fence);
	}
	t->deleter(t);
}

/* In the words of a program that does not use the library. */
static void send_raw(struct game *g)
{
	struct {
		struct vpi_head head;
		uint8_t bytes[MESSAGE_MAX_BYTES];
	} packet = { .head = { VPI_MAGIC, VPI_VERSION, 1 + byte(&g->in) % 3, "raw" } };
	uint8_t bits = byte(&g->in);
	int fds[MESSAGE_MAX_FDS + 1] = { memory.fds[bits & 3] }, end[2], lease[2] = { -1, -1 };
	unsigned int nfds = 1, bytes;
	int64_t dims[2 * DLBUF_MAX_NDIM], shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
	static struct message m;
	struct sent *s = next(g);
	struct packet p;
	DLTensor l;

	if (!s || g->program < 0 || g->simulator < 0)
		return;
	get_good_layout(&g->in, &l, dims);
	layout_copy(&l, shape, strides);
	l.shape = shape;
	l.strides = strides;
	p = tensors_of(&l, 1 + (bits >> 2 & 1), 1 + byte(&g->in) % 3, bits & 8 ? MESSAGE_HOLD : 0);
	memcpy(packet.bytes, p.data, p.bytes);
	bytes = sizeof(packet.head) + p.bytes;
	for (unsigned int i = bits >> 4 & 3; i; i--)
		((uint8_t *)&packet)[number(&g->in) % bytes] ^= byte(&g->in);
	if (bits & 64)
		bytes -= byte(&g->in) % 100;
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end));
	CHECK(!pipe2(lease, O_CLOEXEC));
	if (bits & 8)
		fds[nfds++] = lease[0];
	fds[nfds++] = bits & 128 ? memory.fds[0] : end[1];
	if (send_fds(g->program, &packet, bytes, fds, nfds, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
		s->head = packet.head.magic == VPI_MAGIC && packet.head.version == VPI_VERSION &&
			  packet.head.access && packet.head.access <= DLBUF_RW && !(bits & 128) &&
			  memchr(packet.head.name, 0, sizeof(s->name)) && packet.head.name[0];
		for (const char *c = packet.head.name; s->head && *c; c++)
			s->head = *c > ' ' && *c <= '~';
		s->access = packet.head.access;
		memcpy(s->name, packet.head.name, sizeof(s->name));
		if (bytes >= sizeof(packet.head)) {
			/* Aligned, as the parser requires. */
			memcpy(p.data, packet.bytes, bytes - sizeof(packet.head));
			if (!message_parse(p.data, bytes - sizeof(packet.head), nfds - 1, &m))
				expect_message(&s->e, &m, fds);
		}
		expect_point(&s->e);
		g->n++;
	}
	for (int i = 0; i < 2; i++) {
		close(end[i]);
		close(lease[i]);
	}
}

static void finish(struct game *g, uint8_t bits)
{
	struct dlbuf_vpi_arrival *a = &g->kept[bits % MAX_KEPT];

	if (!a->tensor)
		return;
	if (bits & 8)
		a->tensor->deleter(a->tensor);
	if (!(bits & 16))
		vpi_pass_complete(a->done);
	close(a->done);
	if (!(bits & 8))
		a->tensor->deleter(a->tensor);
	a->tensor = NULL;
}

static void receive(struct game *g)
{
	struct dlbuf_import_opts import = { .size = sizeof(import) };
	struct dlbuf_socket_opts o = { .size = sizeof(o), .flags = DLBUF_SOCKET_DONTWAIT,
				       .import = &import };
	struct sent *s = &g->queue[g->first % MAX_QUEUED];
	struct dlbuf_vpi_arrival a = { .size = sizeof(a) };
	uint8_t bits = byte(&g->in);
	bool good;
	int ret;

	if (g->simulator < 0)
		return;
	import.access = bits & 32 ? bits >> 6 : 0;
	good = g->n && expect_begin(&s->e, &import) && s->head && s->e.n == 1;
	ret = dlbuf_vpi_recv(memory.cpu, g->simulator, &o, &a);
	if (!g->n) {
		/* One that has ended may have been attached before it. */
		CHECK(ret == -EAGAIN || (g->ended && (ret == -EPIPE || ret == -EBUSY)));
		return;
	}
	g->first++;
	g->n--;
	CHECK(!ret == good);
	if (ret) {
		CHECK(!a.tensor && dlbuf_last_error()[0] && ret != -EBUSY);
		return;
	}
	CHECK(a.access == s->access && !strcmp(a.name, s->name) && a.done >= 3);
	touch_bytes(a.tensor, &s->e.l[0].layout, memory_of(s->e.l[0].fd),
		    s->e.asked == DLBUF_READ ? DLBUF_READ :
		    s->e.access[0] & DLBUF_WRITE ? DLBUF_RW : DLBUF_READ);
	finish(g, bits % MAX_KEPT);
	g->kept[bits % MAX_KEPT] = a;
}

static void hang_up(struct game *g)
{
	if (g->simulator < 0)
		return;
	close(g->simulator);
	g->simulator = -1;
	g->n = 0;
	g->ended = true;
}

/* Other users of the memory wait for the simulator, or get the error of its end. */
static void look(struct game *g)
{
	const DLTensor l = { .dtype = { kDLUInt, 8, 1 } };
	DLManagedTensorVersioned *t;
	uint8_t bits = byte(&g->in);

	CHECK(!dlbuf_import(memory.cpu, memory.fds[bits & 3], &l, NULL, &t));
	if (!acquire(t, bits & 4 ? DLBUF_READ : DLBUF_RW, bits & 8))
		CHECK(!dlbuf_release(t, NULL, NULL));
	t->deleter(t);
}

static void junk(struct game *g)
{
	uint8_t data[16];

	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = byte(&g->in);
	if (g->simulator >= 0)
		send_fds(g->simulator, data, data[0] % 16, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void begin(struct game *g)
{
	uint8_t bits = byte(&g->in);
	int pair[2];

	g->program = g->simulator = -1;
	g->n = 0;
	g->ended = false;
	if (bits & 1) {
		snprintf(name, sizeof(name), "vpi:fuzz.%d", getpid());
		CHECK(!dlbuf_device_open(name, NULL, &g->dev));
		attach(g);
		return;
	}
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK(!dlbuf_device_wrap_vpi(pair[0], NULL, &g->dev));
	g->program = pair[0];
	g->simulator = pair[1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct game g;
	unsigned int fds;

	memory_begin();
	fds = memory_settle();
	g.in = (struct input){ data, data + size };
	begin(&g);
	while (g.in.at < g.in.end) {
		switch (byte(&g.in) % 12) {
		case 0:
		case 1:
		case 2:
			send_tensor(&g);
			break;
		case 3:
		case 4:
			send_raw(&g);
			break;
		case 5:
			finish(&g, byte(&g.in));
			break;
		case 6:
			hang_up(&g);
			break;
		case 7:
			attach(&g);
			break;
		case 8:
			attach_again(&g);
			break;
		case 9:
			look(&g);
			break;
		case 10:
			junk(&g);
			break;
		default:
			receive(&g);
		}
	}
	g.in.at = g.in.end;
	while (g.n && g.simulator >= 0)
		receive(&g);
	for (unsigned int i = 0; i < MAX_KEPT; i++)
		finish(&g, i);
	hang_up(&g);
	if (g.program >= 0)
		close(g.program);
	dlbuf_device_close(g.dev);
	/*
	 * The last simulator's failure is reported here, so that the next input does not get it.
	 */
	while (event_pending())
		sched_yield();
	for (unsigned int i = 0; i < NMEMORY; i++) {
		g.in = (struct input){ (const uint8_t[]){ 8 + i }, NULL };
		g.in.end = g.in.at + 1;
		look(&g);
	}
	CHECK(memory_settle() == fds);
	return 0;
}
