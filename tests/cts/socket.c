// SPDX-License-Identifier: MIT
/*
 * To another process and back: the receiver gets the same memory, in order, and
 * the lease fires however the receiver ends. And messages that lie about a
 * dma-buf that is real.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/dma-heap.h>

#include "cts.h"

#include "import/backend.h"
#include "frame/detile.h"
#include "system/event.h"
#include "packet.h"

#define BYTES 16384u
#define W 64u
#define H 48u

/* ---------------------------------------------------------------- processes */

struct other {
	pid_t pid;
	int sock;		/* messages */
	int talk;		/* a byte each way, for order */
};

static void say(const struct other *o)
{
	CHECK_EQ(write(o->talk, "", 1), 1);
}

static void hear(const struct other *o)
{
	char byte;

	CHECK_EQ(read(o->talk, &byte, 1), 1);
}

/* Another process, which has opened no device yet. */
static struct other run(void (*fn)(const struct other *o, void *arg), void *arg)
{
	int sock[2], talk[2];
	struct other o;

	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock));
	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk));
	fflush(stdout);
	o.pid = fork();
	REQUIRE(o.pid >= 0);
	o.sock = sock[!o.pid];
	o.talk = talk[!o.pid];
	close(sock[!!o.pid]);
	close(talk[!!o.pid]);
	if (o.pid)
		return o;
	fn(&o, arg);
	fflush(stdout);
	_exit(0);
}

static void finish(struct other *o, int status)
{
	int got = -1;

	close(o->sock);
	close(o->talk);
	CHECK_EQ(waitpid(o->pid, &got, 0), o->pid);
	CHECK_EQ(got, status);
}

static unsigned int fired;	/* atomic */

static void fire(void *data)
{
	__atomic_add_fetch(&fired, 1, __ATOMIC_SEQ_CST);
}

static unsigned int fires(void)
{
	return __atomic_load_n(&fired, __ATOMIC_SEQ_CST);
}

/* The harness ends a case that waits for too long. */
static void until_fired(unsigned int n)
{
	while (fires() < n)
		sched_yield();
	CHECK_EQ(fires(), n);
}

/* ---------------------------------------------------------------- tensors */

static void check_tensor(DLManagedTensorVersioned *t, int64_t columns,
			 int64_t stride, uint64_t first, uint32_t access)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK_EQ(t->dl_tensor.ndim, 2);
	CHECK_EQ(t->dl_tensor.shape[0], 4);
	CHECK_EQ(t->dl_tensor.shape[1], columns);
	CHECK_EQ(t->dl_tensor.strides[0], 128);
	CHECK_EQ(t->dl_tensor.strides[1], stride);
	CHECK_EQ(t->dl_tensor.dtype.code, kDLInt);
	CHECK_EQ(t->dl_tensor.dtype.bits, 16);
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	CHECK_EQ(info.first, first);
	CHECK_EQ(info.access, access);
	CHECK(info.fd >= 3);
	CHECK(fcntl(info.fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(!!(t->flags & DLPACK_FLAG_BITMASK_READ_ONLY),
		 access == DLBUF_READ);
}

/* Fds of dma-bufs; the event thread has others. */
static unsigned int count_buffers(void)
{
	static struct ktap_holdings h;
	unsigned int n = 0;

	ktap_look(&h);
	for (unsigned int i = 0; i < h.nfds; i++)
		n += !strncmp(h.fds[i].target, "/dmabuf", 7);
	return n;
}

/* A child that imports the udmabufs that it receives. */
static struct other run_importer(void (*fn)(const struct other *o, void *arg),
				 void *arg)
{
	cts_need("udmabuf");
	cts_need_any();
	return run(fn, arg);
}

static void receive_tensors(const struct other *o, void *arg)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	DLBUF_OPTS(dlbuf_import_opts, rw, .access = DLBUF_RW);
	DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &rw);
	struct dlbuf_frame f = { .size = sizeof(f), .nplanes = 77 };
	struct dlbuf_device *dev AUTO_DEV = cts_open_second();
	unsigned int fds = count_buffers();
	unsigned char want[64], got[64];
	uint32_t n = 77;

	REQUIRE_OK(dlbuf_recv(dev, o->sock, NULL, t, &n, &f));
	CHECK_EQ(n, 3);
	CHECK_EQ(f.nplanes, 0);
	/* One for each access, and in the cache; drivers have their own. */
	if (!strcmp(cts_access->backend, "cpu"))
		CHECK_EQ(count_buffers(), fds + 2);
	check_tensor(t[0], 8, 3, 512, DLBUF_RW);
	check_tensor(t[1], 5, 1, 0, DLBUF_READ);
	check_tensor(t[2], 8, 3, 512, DLBUF_RW);
	cts_pattern(want, sizeof(want), 9);
	cts_read(t[1], 1000, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(want)));
	cts_pattern(want, sizeof(want), 10);
	cts_write(t[0], 2000, want, sizeof(want));
	CHECK_ERR(dlbuf_acquire(t[1], DLBUF_WRITE, NULL, NULL), -EACCES);
	for (int i = 0; i < 3; i++)
		cts_delete(t[i]);
	/* A read-only tensor stays read-only if the receiver asks for more. */
	CHECK_ERR(dlbuf_recv(dev, o->sock, &opts, t, &n, NULL), -EACCES);
	CHECK_ERR(dlbuf_recv(dev, o->sock, NULL, t, &n, NULL), -EPIPE);
	dlbuf_device_trim(dev, 0);
	/* Memory may be freed after the end of the device's work. */
	CHECK_OK(dlbuf_device_drain(dev, 0));
	CHECK_EQ(count_buffers(), fds);
}

static void tensors(void *arg)
{
	struct other o = run_importer(receive_tensors, NULL);
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	const int64_t shape[] = { 4, 8 }, strides[] = { 128, 3 };
	const int64_t narrow[] = { 4, 5 }, compact[] = { 128, 1 };
	DLTensor layout = { .ndim = 2, .dtype = { kDLInt, 16, 1 },
			    .shape = (int64_t *)shape,
			    .strides = (int64_t *)strides,
			    .byte_offset = 512 };
	DLBUF_OPTS(dlbuf_import_opts, read_only, .access = DLBUF_READ);
	DLManagedTensorVersioned *t[3];
	unsigned char want[64], got[64];

	cts_pattern(want, sizeof(want), 9);
	cts_poke(fd, 1000, want, sizeof(want));
	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &t[0]));
	REQUIRE_OK(dlbuf_tensor_share(t[0], NULL, &t[2]));
	layout.shape = (int64_t *)narrow;
	layout.strides = (int64_t *)compact;
	layout.byte_offset = 0;
	REQUIRE_OK(dlbuf_import(dev, fd, &layout, &read_only, &t[1]));
	CHECK_OK(dlbuf_send(o.sock, t, 3, NULL));
	CHECK_OK(dlbuf_send(o.sock, t, 2, NULL));
	for (int i = 0; i < 3; i++)
		cts_delete(t[i]);
	finish(&o, 0);
	cts_pattern(want, sizeof(want), 10);
	cts_peek(fd, 2000, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(want)));
}

/* ---- all that may be sent: dimensions, numbers of tensors, layouts, types, access, views */

/* Each number of dimensions once, and the smallest and the largest in all numbers of tensors. */
#define NSENT (DLBUF_MAX_NDIM + 1 + 6 * DLBUF_MAX_PLANES)

struct plan {
	unsigned int n;
	struct {
		DLTensor l;
		int64_t dims[2 * DLBUF_MAX_NDIM];
		unsigned int buffer;
		uint32_t access;
	} t[DLBUF_MAX_PLANES];
};

/* Both processes make the same. */
static void plan(unsigned int i, struct plan *p)
{
	static const unsigned int ndims[] = { 0, 1, 4, 5, 63, 64 };
	unsigned int more = i - (DLBUF_MAX_NDIM + 1);
	unsigned int ndim = i <= DLBUF_MAX_NDIM ? i : ndims[more / DLBUF_MAX_PLANES];

	p->n = i <= DLBUF_MAX_NDIM ? 1 + i % DLBUF_MAX_PLANES : 1 + more % DLBUF_MAX_PLANES;
	for (unsigned int k = 0; k < p->n; k++) {
		/* Tensors of a message have different dimensions, too. */
		cts_layout(k % 2 ? (ndim + 17 * k) % (DLBUF_MAX_NDIM + 1) : ndim,
			   (i + k) % CTS_FORMS, &p->t[k].l, p->t[k].dims);
		p->t[k].buffer = (i >> 2 ^ k) % 2;
		p->t[k].access = (i >> 3 ^ k) % 2 ? DLBUF_READ : DLBUF_RW;
	}
}

static void receive_all(const struct other *o, void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open_second();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	unsigned char want[16384], got[16384];
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct plan p;
	uint32_t n;

	for (unsigned int i = 0; i < NSENT; i++) {
		plan(i, &p);
		REQUIRE_OK(dlbuf_recv(dev, o->sock, NULL, t, &n, NULL));
		CHECK_EQ(n, p.n);
		for (unsigned int k = 0; k < n; k++) {
			cts_check_layout(t[k], &p.t[k].l);
			CHECK_OK(dlbuf_tensor_get_info(t[k], &info));
			CHECK_EQ(info.access, p.t[k].access);
			CHECK_EQ(!!(t[k]->flags & DLPACK_FLAG_BITMASK_READ_ONLY),
				 info.access == DLBUF_READ);
			/* They are found from element 0. */
			if (i % 9 || info.first == info.end || info.first != p.t[k].l.byte_offset)
				continue;
			cts_pattern(want, sizeof(want), 20 + p.t[k].buffer);
			cts_read(t[k], info.first, got, info.end - info.first);
			CHECK(!memcmp(got, want + info.first, info.end - info.first));
		}
		while (n)
			cts_delete(t[--n]);
	}
	CHECK_ERR(dlbuf_recv(dev, o->sock, NULL, t, &n, NULL), -EPIPE);
}

/* A view of the whole buffer is sent as a tensor that was made so is. */
static DLManagedTensorVersioned *make(DLManagedTensorVersioned *const all[2][2],
				      const struct plan *p, unsigned int k, bool view)
{
	DLManagedTensorVersioned *whole = all[p->t[k].buffer][p->t[k].access == DLBUF_READ];
	DLManagedTensorVersioned *t = NULL;
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = p->t[k].access);
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK_OK(dlbuf_tensor_get_info(whole, &info));
	if (view)
		CHECK_OK(dlbuf_tensor_share(whole, &p->t[k].l, &t));
	else
		CHECK_OK(dlbuf_import(info.device, info.fd, &p->t[k].l, &opts, &t));
	return t;
}

static void all_that_may_be_sent(void *arg)
{
	struct other o = run_importer(receive_all, NULL);
	const int64_t bytes[] = { 16384 };
	const DLTensor whole = LAYOUT8(1, bytes);
	DLBUF_OPTS(dlbuf_import_opts, read_only, .access = DLBUF_READ);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *all[2][2], *t[DLBUF_MAX_PLANES];
	unsigned char data[16384];
	struct plan p;
	int fds[2];

	for (int b = 0; b < 2; b++) {
		fds[b] = cts_alloc("udmabuf", sizeof(data));
		cts_pattern(data, sizeof(data), 20 + b);
		cts_poke(fds[b], 0, data, sizeof(data));
		REQUIRE_OK(dlbuf_import(dev, fds[b], &whole, NULL, &all[b][0]));
		REQUIRE_OK(dlbuf_import(dev, fds[b], &whole, &read_only, &all[b][1]));
	}
	for (unsigned int i = 0; i < NSENT; i++) {
		plan(i, &p);
		for (unsigned int k = 0; k < p.n; k++)
			t[k] = make(all, &p, k, i / 2 % 2);
		CHECK_OK(dlbuf_send(o.sock, t, p.n, NULL));
		for (unsigned int k = 0; k < p.n; k++)
			cts_delete(t[k]);
	}
	finish(&o, 0);
	for (int b = 0; b < 2; b++) {
		cts_delete(all[b][0]);
		cts_delete(all[b][1]);
		close(fds[b]);
	}
}

/* ---------------------------------------------------------------- frames */

static struct dlbuf_frame nv12(int fd)
{
	return (struct dlbuf_frame)PICTURE(W, H, DLBUF_FOURCC('N', 'V', '1', '2'),
		DLBUF_CODE_V4L2, 1, .modifier = DLBUF_MOD_LINEAR,
		.flags = DLBUF_FRAME_SEQUENCE,
		.planes = { { .fd = fd, .pitch = 96 } },
		.crop = { 2, 4, 20, 10 },
		.colour = { .matrix = 2, .range = DLBUF_RANGE_LIMITED },
		.timestamp_ns = 1234567890123, .sequence = 77,
		.clock = DLBUF_CLOCK_MONOTONIC, .order = DLBUF_ORDER_COMPLETE,
		.fence = -1, .release = fire, .orientation = DLBUF_ORIENTATION_TURN_270);
}

static void receive_frame(const struct other *o, void *arg)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	DLBUF_OPTS(dlbuf_import_opts, luma, .view = DLBUF_VIEW_LUMA);
	DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &luma);
	struct dlbuf_frame f = { .size = sizeof(f) }, want = nv12(-1);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLBUF_INFO(dlbuf_tensor_info, info);
	unsigned char pixel[20], got[20];
	uint32_t n = 0;

	REQUIRE_OK(dlbuf_recv(dev, o->sock, arg ? &opts : NULL, t, &n, &f));
	CHECK_EQ(n, arg ? 1 : 2);
	CHECK_EQ(t[0]->dl_tensor.shape[0], 10);
	CHECK_EQ(t[0]->dl_tensor.shape[1], 20);
	CHECK_OK(dlbuf_tensor_get_info(t[0], &info));
	CHECK_EQ(f.planes[0].fd, info.fd);
	want.planes[0].fd = info.fd;
	want.release = NULL;
	CHECK(!memcmp(&f, &want, sizeof(f)));
	cts_pattern(pixel, sizeof(pixel), 3);
	cts_read(t[0], info.first, got, sizeof(got));
	CHECK(!memcmp(pixel, got, sizeof(got)));
	say(o);
	hear(o);
	/* The last one counts. */
	if (n > 1)
		cts_delete(t[1]);
	say(o);
	hear(o);
	cts_delete(t[0]);
	hear(o);
}

static void frame(void *arg)
{
	struct other o = run_importer(receive_frame, arg);
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_frame f = nv12(fd);
	unsigned char pixel[20];

	cts_pattern(pixel, sizeof(pixel), 3);
	cts_poke(fd, 4 * 96 + 2, pixel, sizeof(pixel));
	REQUIRE_OK(dlbuf_send_frame(o.sock, &f, NULL));
	hear(&o);
	CHECK_EQ(fires(), 0);
	say(&o);
	hear(&o);
	CHECK_EQ(fires(), 0);
	say(&o);
	until_fired(1);
	say(&o);
	finish(&o, 0);
	CHECK_EQ(fires(), 1);
}

/* ---- both ends in one process */

struct pair {
	int sock[2];
	struct dlbuf_device *dev;
};

static struct pair pair_open(int type)
{
	struct pair p;

	REQUIRE(!socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, p.sock));
	p.dev = cts_open();
	return p;
}

static void pair_close(struct pair *p)
{
	close(p->sock[0]);
	close(p->sock[1]);
	dlbuf_device_close(p->dev);
}

/* Frames of 1 to 3 planes, of the sender's one dma-buf or several, in all views. */
static void every_frame(void *arg)
{
	static const struct {
		const char code[5];
		uint32_t nplanes;
	} frames[] = {
		{ "R8  ", 1 }, { "XR24", 1 }, { "YUYV", 1 }, { "RG16", 1 }, { "AB4H", 1 },
		{ "NV12", 2 }, { "NV24", 2 }, { "P010", 2 },
		{ "YU12", 3 }, { "YU16", 3 }, { "YU24", 3 },
	};
	struct pair p = pair_open(SOCK_SEQPACKET);
	int fds[] = { cts_alloc("udmabuf", 3 * BYTES), cts_alloc("udmabuf", 3 * BYTES),
		      cts_alloc("udmabuf", 3 * BYTES) };
	unsigned int made = 0;

	for (unsigned int i = 0; i < sizeof(frames) / sizeof(frames[0]) * DLBUF_NVIEWS * 4; i++) {
		unsigned int which = i / (4 * DLBUF_NVIEWS);
		const char *c = frames[which].code;
		DLBUF_OPTS(dlbuf_import_opts, view, .view = i / 4 % DLBUF_NVIEWS);
		DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &view);
		struct dlbuf_frame f = PICTURE(20, 10, DLBUF_FOURCC(c[0], c[1], c[2], c[3]),
			DLBUF_CODE_DRM, frames[which].nplanes, .modifier = DLBUF_MOD_LINEAR,
			.flags = i & 1 ? DLBUF_FRAME_READ_ONLY : 0, .fence = -1);
		struct dlbuf_frame got = { .size = sizeof(got) };
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
		DLBUF_INFO(dlbuf_tensor_info, info);
		uint32_t n = 77, want;

		for (uint32_t k = 0; k < f.nplanes; k++)
			f.planes[k] = (struct dlbuf_plane){ .fd = fds[i & 2 ? k : 0], .pitch = 192,
							    .offset = i & 2 ? 64 * k : BYTES * k };
		if (dlbuf_frame_layouts(&f, &view, l, &want))
			continue;
		REQUIRE_OK(dlbuf_send_frame(p.sock[0], &f, NULL));
		REQUIRE_OK(dlbuf_recv(p.dev, p.sock[1], &opts, t, &n, &got));
		CHECK_EQ(n, want);
		CHECK_EQ(got.nplanes, f.nplanes);
		for (uint32_t k = 0; k < n; k++) {
			cts_check_layout(t[k], &l[k].layout);
			CHECK_OK(dlbuf_tensor_get_info(t[k], &info));
			CHECK_EQ(info.access, i & 1 ? DLBUF_READ : DLBUF_RW);
		}
		while (n)
			cts_delete(t[--n]);
		made++;
	}
	CHECK(made > 100);
	for (int k = 0; k < 3; k++)
		close(fds[k]);
	pair_close(&p);
}

static void hold_for_ever(const struct other *o, void *arg)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_device *dev = cts_open();
	uint32_t n;

	REQUIRE_OK(dlbuf_recv(dev, o->sock, NULL, t, &n, NULL));
	say(o);
	pause();
}

/* The kernel releases a process's leases when it dies. */
static void killed(void *arg)
{
	struct other o = run_importer(hold_for_ever, NULL);
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_frame f = nv12(fd);

	REQUIRE_OK(dlbuf_send_frame(o.sock, &f, NULL));
	hear(&o);
	CHECK_EQ(fires(), 0);
	CHECK_EQ(kill(o.pid, SIGKILL), 0);
	until_fired(1);
	finish(&o, SIGKILL);
}

/* A receiver's child has no part in the lease, however long it lives. */
static void receiver_forks(void *arg)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_device *dev = cts_open();
	struct dlbuf_frame f = PICTURE(64, 1, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .modifier = DLBUF_MOD_LINEAR, .fence = -1,
		.release = fire);
	int sock[2], gate[2], status;
	uint32_t n = 0;
	pid_t child;
	char c;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	f.planes[0].fd = cts_alloc("udmabuf", 4096);
	f.planes[0].pitch = 64;
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock));
	REQUIRE(!pipe2(gate, O_CLOEXEC));
	CHECK_OK(dlbuf_send_frame(sock[0], &f, NULL));
	REQUIRE_OK(dlbuf_recv(dev, sock[1], NULL, t, &n, NULL));
	child = fork();
	if (!child) {
		close(gate[1]);
		_exit(read(gate[0], &c, 1));
	}
	CHECK_EQ(fires(), 0);
	cts_delete(t[0]);
	until_fired(1);
	for (int i = 0; i < 2; i++) {
		close(gate[i]);
		close(sock[i]);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	close(f.planes[0].fd);
	dlbuf_device_close(dev);
}

/* A tensor over a frame brings its lease, which waits for both sides. */
static void tensor_lease(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct pair p = pair_open(SOCK_SEQPACKET);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES], *u[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = nv12(fd);
	uint32_t n;

	REQUIRE_OK(dlbuf_import_frame(p.dev, &f, NULL, t, &n));
	REQUIRE_OK(dlbuf_send(p.sock[0], t, 1, NULL));
	cts_delete(t[0]);
	cts_delete(t[1]);
	REQUIRE_OK(dlbuf_recv(p.dev, p.sock[1], NULL, u, &n, NULL));
	CHECK_EQ(fires(), 0);
	cts_delete(u[0]);
	until_fired(1);
	/* One that is not sent has no part in it. */
	REQUIRE_OK(dlbuf_import_frame(p.dev, &f, NULL, t, &n));
	close(p.sock[1]);
	CHECK_ERR(dlbuf_send(p.sock[0], t, 1, NULL), -EPIPE);
	cts_delete(t[0]);
	cts_delete(t[1]);
	CHECK_EQ(fires(), 2);
	while (event_pending())
		sched_yield();
	CHECK_EQ(fires(), 2);
	p.sock[1] = dup(p.sock[0]);
	pair_close(&p);
}

/* One message after another, of new buffers or of the same: checks for remaining fds. */
static void what_stays(void *arg)
{
	DLBUF_OPTS(dlbuf_import_opts, keep, .flags = DLBUF_IMPORT_KEEP);
	DLBUF_OPTS(dlbuf_socket_opts, kept, .import = &keep);
	struct dlbuf_device_stats stats = { .size = sizeof(stats) };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	unsigned int fds = 0, rounds = arg ? 6 : 24;
	struct pair p;
	int fd = -1;
	uint32_t n;

	cts_need_any();
	p = pair_open(SOCK_SEQPACKET);
	for (unsigned int i = 0; i < rounds; i++) {
		struct dlbuf_frame f;

		/* The first is not counted: drivers open fds of their own. */
		if (i == 1)
			fds = count_buffers();
		if (!i || !arg)
			fd = cts_alloc("heap:system", BYTES);
		f = nv12(fd);
		f.release = NULL;
		REQUIRE_OK(dlbuf_send_frame(p.sock[0], &f, NULL));
		if (!arg)
			close(fd);
		REQUIRE_OK(dlbuf_recv(p.dev, p.sock[1], arg ? &kept : NULL, t,
				      &n, NULL));
		while (n)
			cts_delete(t[--n]);
	}
	CHECK_OK(dlbuf_device_get_stats(p.dev, &stats));
	CHECK_EQ(stats.misses, arg ? 1 : rounds);
	CHECK_EQ(stats.live, 0);
	CHECK_EQ(stats.idle, arg ? 1 : 0);
	CHECK_EQ(count_buffers(), fds);
	if (arg)
		close(fd);
	pair_close(&p);
}

/* The library's own buffer, too: the next copy must not go there. */
static void copies(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct pair p = pair_open(SOCK_SEQPACKET);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES], *u[DLBUF_MAX_PLANES];
	DLBUF_OPTS(dlbuf_import_opts, copy, .flags = DLBUF_IMPORT_MAY_COPY);
	struct dlbuf_device_stats stats = { .size = sizeof(stats) };
	struct dlbuf_frame f = nv12(fd);
	uint32_t n, m;
	int ret;

	if (!p.dev->backend->can_detile)
		SKIP("the device makes no copies");
	f.release = NULL;
	f.code_space = DLBUF_CODE_DRM;
	f.nplanes = 2;
	f.planes[1] = (struct dlbuf_plane){ .fd = fd, .offset = 96 * H,
					    .pitch = 96 };
	detile_linear = true;
	ret = dlbuf_import_frame(p.dev, &f, &copy, t, &n);
	detile_linear = false;
	if (ret == -EOPNOTSUPP)
		SKIP("%s", dlbuf_last_error());
	REQUIRE_OK(ret);
	REQUIRE_OK(dlbuf_send(p.sock[0], t, n, NULL));
	for (uint32_t i = 0; i < n; i++)
		cts_delete(t[i]);
	CHECK_OK(dlbuf_device_get_stats(p.dev, &stats));
	CHECK_EQ(stats.tensors, n);
	REQUIRE_OK(dlbuf_recv(p.dev, p.sock[1], NULL, u, &m, NULL));
	CHECK_EQ(m, n);
	for (uint32_t i = 0; i < m; i++)
		cts_delete(u[i]);
	while (event_pending())
		sched_yield();
	CHECK_OK(dlbuf_device_get_stats(p.dev, &stats));
	CHECK_EQ(stats.tensors, 0);
	pair_close(&p);
}

/* The frame's fence is the receiver's to wait for, as everybody's. */
static void fence(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), pending, status = 77;
	struct pair p = pair_open(SOCK_DGRAM);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame f = nv12(fd), got = { .size = sizeof(got) };
	struct cts_fence vgem;
	unsigned char pixel[20];
	uint32_t n;

	cts_fence_create(&vgem);
	f.order = DLBUF_ORDER_FENCE;
	f.fence = vgem.sync_file;
	f.release = NULL;
	REQUIRE_OK(dlbuf_send_frame(p.sock[0], &f, NULL));
	REQUIRE_OK(dlbuf_recv(p.dev, p.sock[1], NULL, t, &n, &got));
	CHECK_EQ(got.order, DLBUF_ORDER_IMPLICIT);
	CHECK_EQ(got.fence, -1);
	REQUIRE_OK(dlbuf_fence_export(got.planes[0].fd, DLBUF_READ, &pending));
	CHECK_OK(dlbuf_fence_status(pending, &status));
	CHECK_EQ(status, 0);
	cts_fence_signal(&vgem);
	CHECK_OK(dlbuf_fence_status(pending, &status));
	CHECK_EQ(status, 1);
	cts_read(t[0], 0, pixel, sizeof(pixel));
	close(pending);
	cts_delete(t[0]);
	cts_delete(t[1]);
	/* One that has signalled is -1. */
	f.fence = -1;
	REQUIRE_OK(dlbuf_send_frame(p.sock[0], &f, NULL));
	REQUIRE_OK(dlbuf_recv(p.dev, p.sock[1], NULL, t, &n, &got));
	cts_delete(t[0]);
	cts_delete(t[1]);
	cts_fence_destroy(&vgem);
	pair_close(&p);
}

/* ---------------------------------------------------------------- lies */

static void send_raw(int sock, const struct packet *p, const int fds[],
		     unsigned int nfds)
{
	CHECK_EQ(send_fds(sock, p->data, p->bytes, fds, nfds, 0), p->bytes);
}

static struct packet lie(int64_t rows, uint64_t offset, uint8_t access,
			 uint8_t flags)
{
	const int64_t shape[] = { rows, 64 }, strides[] = { 64, 1 };
	DLTensor layout = LAYOUT8(2, shape, .strides = (int64_t *)strides,
		.byte_offset = offset);

	return tensors_of(&layout, 1, access, flags);
}

static struct packet frame_lie(int fd, uint8_t flags)
{
	static const uint8_t buffer[] = { 0 };
	struct dlbuf_frame f = nv12(fd);
	struct message_head head;
	struct packet p;

	f.order = DLBUF_ORDER_FENCE;
	message_begin(&p, &head, MESSAGE_FRAME);
	message_put_frame(&p, &f, buffer);
	head.nbuffers = 1;
	head.access[0] = DLBUF_RW;
	head.flags = flags;
	message_end(&p, &head);
	return p;
}

static int told(struct pair *p, struct packet packet, int fd, int second)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	int fds[] = { fd, second };
	uint32_t n = 77;
	int ret;

	send_raw(p->sock[0], &packet, fds, second < 0 ? 1 : 2);
	ret = dlbuf_recv(p->dev, p->sock[1], NULL, t, &n, NULL);
	if (ret)
		CHECK(n == 77 && !t[0]);
	else
		for (uint32_t i = 0; i < n; i++)
			cts_delete(t[i]);
	return ret;
}

/* A message for WRITE alone is as one for RW. */
static void write_alone(struct pair *p, int fd)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct packet packet = lie(4, 0, DLBUF_WRITE, 0);
	DLBUF_INFO(dlbuf_tensor_info, info);
	uint32_t n;

	for (uint32_t want = 0; want <= DLBUF_RW; want++) {
		DLBUF_OPTS(dlbuf_import_opts, import, .access = want);
		DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &import);

		send_raw(p->sock[0], &packet, &fd, 1);
		if (!CHECK_OK(dlbuf_recv(p->dev, p->sock[1], &opts, t, &n, NULL)))
			continue;
		CHECK_OK(dlbuf_tensor_get_info(t[0], &info));
		CHECK_EQ(info.access, want == DLBUF_READ ? DLBUF_READ : DLBUF_RW);
		cts_delete(t[0]);
	}
}

static void lies(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), ends[2];
	struct pair p = pair_open(SOCK_SEQPACKET);
	unsigned int fds;

	REQUIRE(!pipe2(ends, O_CLOEXEC));
	CHECK_OK(told(&p, lie(256, 0, DLBUF_RW, 0), fd, -1));
	fds = cts_count_fds();
	CHECK_ERR(told(&p, lie(257, 0, DLBUF_RW, 0), fd, -1), -ERANGE);
	CHECK_ERR(told(&p, lie(256, 1, DLBUF_RW, 0), fd, -1), -ERANGE);
	CHECK_ERR(told(&p, lie(1, BYTES, DLBUF_RW, 0), fd, -1), -ERANGE);
	CHECK_OK(told(&p, lie(0, BYTES, DLBUF_RW, 0), fd, -1));
	write_alone(&p, fd);
	CHECK_ERR(told(&p, lie(0, BYTES + 1, DLBUF_RW, 0), fd, -1), -ERANGE);
	/* A lease that is one, and some that are none. */
	CHECK_OK(told(&p, lie(4, 0, DLBUF_RW, MESSAGE_HOLD), fd, ends[0]));
	CHECK_ERR_SAYS(told(&p, lie(4, 0, DLBUF_RW, MESSAGE_HOLD), fd, fd), -EPROTO, "lease");
	CHECK_ERR(told(&p, lie(4, 0, DLBUF_RW, MESSAGE_HOLD), fd, p.sock[0]),
		  -EPROTO);
	/* A fence that never signals, because it is none. */
	CHECK_ERR_SAYS(told(&p, frame_lie(fd, MESSAGE_FENCE), fd, ends[0]), -EPROTO, "sync_file");
	CHECK_ERR(told(&p, frame_lie(fd, MESSAGE_FENCE), fd, fd), -EPROTO);
	CHECK_ERR(told(&p, frame_lie(fd, 0), ends[1], -1), -EBADF);
	cts_until_fds(fds);
	close(ends[0]);
	close(ends[1]);
	pair_close(&p);
}

/* An fd that was opened read-only stays read-only, with every access in the message. */
static void read_only(void *arg)
{
	struct pair p = pair_open(SOCK_SEQPACKET);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	DLBUF_OPTS(dlbuf_import_opts, rw, .access = DLBUF_RW);
	DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &rw);
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct dma_heap_allocation_data heap = { .len = BYTES,
						 .fd_flags = O_CLOEXEC };
	struct dma_heap_allocation_data wo = { .fd_flags = O_WRONLY | O_CLOEXEC };
	int node = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	struct dlbuf_frame f;
	uint32_t n;

	if (strcmp(cts_access->backend, "cpu"))
		SKIP("drivers map what they import to write");
	if (node < 0)
		ABSENT("there is no system heap");
	REQUIRE(!ioctl(node, DMA_HEAP_IOCTL_ALLOC, &heap));
	f = nv12(heap.fd);
	f.release = NULL;
	/* One that may only be written has no access in common with it. */
	wo.len = BYTES;
	REQUIRE(!ioctl(node, DMA_HEAP_IOCTL_ALLOC, &wo));
	close(node);
	f.nplanes = 2;
	f.planes[1] = (struct dlbuf_plane){ .fd = wo.fd, .pitch = 96 };
	CHECK_ERR(dlbuf_send_frame(p.sock[0], &f, NULL), -EACCES);
	close(wo.fd);
	f.nplanes = 1;
	REQUIRE_OK(dlbuf_send_frame(p.sock[0], &f, NULL));
	REQUIRE_OK(dlbuf_send_frame(p.sock[0], &f, NULL));
	REQUIRE_OK(dlbuf_recv(p.dev, p.sock[1], NULL, t, &n, NULL));
	CHECK_OK(dlbuf_tensor_get_info(t[0], &info));
	CHECK_EQ(info.access, DLBUF_READ);
	CHECK(t[1]->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
	cts_delete(t[0]);
	cts_delete(t[1]);
	CHECK_ERR(dlbuf_recv(p.dev, p.sock[1], &opts, t, &n, NULL), -EACCES);
	pair_close(&p);
	close(heap.fd);
}

void cts_cases_socket(void)
{
	static bool luma_only;

	ktap_case("socket/tensors", tensors, NULL);
	ktap_case("socket/all-that-may-be-sent", all_that_may_be_sent, NULL);
	ktap_case("socket/frame", frame, NULL);
	ktap_case("socket/frame-luma", frame, &luma_only);
	ktap_case("socket/every-frame", every_frame, NULL);
	ktap_case("socket/killed", killed, NULL);
	ktap_case("socket/tensor-lease", tensor_lease, NULL);
	ktap_case("socket/receiver-forks", receiver_forks, NULL);
	ktap_case("socket/nothing-stays", what_stays, NULL);
	ktap_case("socket/keep", what_stays, &fired);
	ktap_case("socket/copies", copies, NULL);
	ktap_case("socket/fence", fence, NULL);
	ktap_case("socket/lies", lies, NULL);
	ktap_case("socket/read-only", read_only, NULL);
}
