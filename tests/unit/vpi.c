// SPDX-License-Identifier: MIT
/*
 * Simulators, whose part this process or a child takes: their attachment, the
 * messages, the completion of the work, and messages of a hostile peer. Memfds replace
 * dma-bufs.
 */
#include "common.h"
#include "ktap.h"

#if defined(CONFIG_BACKEND_VPI) && defined(CONFIG_BACKEND_CPU)
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "cuda_memfds.h"
#include "emulated.h"
#include "system/event.h"
#include "system/internal.h"
#include "packet.h"
#include "system/sys.h"

#define BYTES 8192

static const int64_t shape[] = { 4, 6 }, strides[] = { 16, 2 };

static struct {
	struct dlbuf_device *sim, *cpu;
	DLManagedTensorVersioned *t;
	int memfd;
	int sock;		/* the simulator's */
} f = { .sock = -1 };

static DLManagedTensorVersioned *import(struct dlbuf_device *dev, int fd)
{
	const DLTensor layout = LAYOUT8(2, shape, .strides = (int64_t *)strides,
					.byte_offset = 7);
	DLManagedTensorVersioned *t = NULL;

	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &t));
	return t;
}

static int buffer(void)
{
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	return fd;
}

/*
 * "vpi:" and a name of this case's own: the address is the machine's, and other builds'
 * tests run at the same time.
 */
static const char *device(void)
{
	static char name[32];

	if (!name[0])
		snprintf(name, sizeof(name), "vpi:unit.%d", getpid());
	return name;
}

static const char *name(void)
{
	return device() + strlen("vpi:");
}

/* A tensor that is acquired; `opened` is the result of what has opened f.sim. */
static void begin_with(int opened, uint32_t access)
{
	REQUIRE_OK(opened);
	f.memfd = buffer();
	f.t = import(f.sim, f.memfd);
	REQUIRE_OK(dlbuf_acquire(f.t, access, NULL, NULL));
}

/* And a simulator. */
static void begin(void)
{
	need_machine();
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &f.cpu));
	begin_with(dlbuf_device_open(device(), NULL, &f.sim), DLBUF_RW);
	REQUIRE_OK(dlbuf_vpi_connect(name(), &f.sock));
}

static void settle(void)
{
	UNTIL(!event_pending());
	event_user_add();
	event_user_remove();
}

static void end(void)
{
	if (f.t)
		f.t->deleter(f.t);
	dlbuf_device_close(f.sim);
	dlbuf_device_close(f.cpu);
	if (f.sock >= 0)
		close(f.sock);
	close(f.memfd);
	settle();
}

#define VPI_CASE(name) TEST_BETWEEN(name, begin(), end())

static struct dlbuf_vpi_arrival receive(void)
{
	struct dlbuf_vpi_arrival a = { .size = sizeof(a) };

	REQUIRE_OK(dlbuf_vpi_recv(f.cpu, f.sock, NULL, &a));
	return a;
}

static void hand_back(struct dlbuf_vpi_arrival *a)
{
	char byte;

	CHECK_EQ(read(a->done, &byte, 1), 1);
	close(a->done);
	a->tensor->deleter(a->tensor);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static void until_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	CHECK_EQ(poll(&p, 1, -1), 1);
	CHECK(p.revents & POLLIN);
}

static void until_over(int fence)
{
	until_readable(fence);
	close(fence);
}

/* ---------------------------------------------------------------- devices */

TEST(device_names)
{
	char longest[32], odd[32];
	const struct {
		const char *name;
		int ret;
	} cases[] = {
		{ "vpi", -ENODEV },
		{ "vpi:", -EINVAL },
		{ "vpi:a b", -EINVAL },
		{ "vpi:../a", -EINVAL },
		{ "vpi:1234567890123456789012345", -EINVAL },
		{ longest, 0 },
		{ odd, 0 },
	};

	snprintf(longest, sizeof(longest), "vpi:%024d", getpid());
	snprintf(odd, sizeof(odd), "vpi:A_b.c-%d", getpid());
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_device *dev = NULL, *again = NULL;
		DLBUF_INFO(dlbuf_device_info, info);
		int sock;

		if (!CHECK_EQ(dlbuf_device_open(cases[i].name, NULL, &dev),
			      cases[i].ret))
			ktap_note(NULL, 0, "%s", cases[i].name);
		if (!dev)
			continue;
		CHECK_OK(dlbuf_device_get_info(dev, &info));
		CHECK(!strcmp(info.name, cases[i].name));
		CHECK_EQ(info.device.device_type, kDLVPI);
		CHECK_EQ(info.release, DLBUF_SYNC_EVENT);
		CHECK_ERR(dlbuf_device_open(cases[i].name, NULL, &again), -EBUSY);
		CHECK_SAYS("is open already");
		dlbuf_device_close(dev);
		CHECK_ERR(dlbuf_vpi_connect(cases[i].name + 4, &sock),
			  -ECONNREFUSED);
		CHECK_OK(dlbuf_device_open(cases[i].name, NULL, &dev));
		dlbuf_device_close(dev);
	}
}

TEST(wrap)
{
	DLBUF_OPTS(dlbuf_device_opts, opts, .flags = 0x10000);
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	struct dlbuf_device *dev = NULL;
	int s[2];

	CHECK_ERR(dlbuf_device_wrap_vpi(0, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_device_wrap_vpi(-1, NULL, &dev), -EBADF);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		REQUIRE(!socketpair(AF_UNIX, types[i], 0, s));
		if (types[i] == SOCK_SEQPACKET) {
			close(s[0]);
			s[0] = socket(AF_UNIX, types[i], 0);
		}
		CHECK_ERR(dlbuf_device_wrap_vpi(s[0], NULL, &dev), -EINVAL);
		close(s[0]);
		close(s[1]);
	}
	REQUIRE(!pipe(s));
	CHECK_ERR(dlbuf_device_wrap_vpi(s[0], NULL, &dev), -EINVAL);
	CHECK_SAYS("is not a Unix socket of type SOCK_SEQPACKET");
	CHECK_ERR(dlbuf_device_wrap_vpi(s[0], &opts, &dev), -EINVAL);
	close(s[0]);
	close(s[1]);
}

TEST(arguments)
{
	DLBUF_OPTS(dlbuf_socket_opts, now, .flags = DLBUF_SOCKET_DONTWAIT);
	DLBUF_OPTS(dlbuf_socket_opts, bad, .flags = 1u << 31);
	static const char *const names[] = {
		"", "a b", "tab\t", "\x80",
		"123456789012345678901234567890123456789012345678",
	};
	static const int ndims[] = { -1, 1, 3, 60, 65, INT32_MAX };
	struct dlbuf_vpi_arrival a = { .size = 0 };
	DLManagedTensorVersioned *other;
	int sock;

	need_machine();
	CHECK_ERR(dlbuf_vpi_connect(NULL, &sock), -EINVAL);
	CHECK_ERR(dlbuf_vpi_connect("a", NULL), -EINVAL);
	CHECK_ERR(dlbuf_vpi_connect("a/b", &sock), -EINVAL);
	CHECK_ERR(dlbuf_vpi_connect("nobody", &sock), -ECONNREFUSED);
	begin();
	other = import(f.cpu, f.memfd);
	CHECK_ERR(dlbuf_vpi_send(NULL, "a", NULL), -EINVAL);
	CHECK_ERR_SAYS(dlbuf_vpi_send(other, "a", NULL), -EINVAL, "the tensor is of cpu");
	other->deleter(other);
	CHECK_ERR(dlbuf_vpi_send(f.t, NULL, NULL), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_ERR(dlbuf_vpi_send(f.t, names[i], NULL), -EINVAL);
	CHECK_ERR(dlbuf_vpi_send(f.t, "a", &bad), -EINVAL);
	/* With another number of dimensions, memory behind the tensor would be sent. */
	for (size_t i = 0; i < ARRAY_SIZE(ndims); i++) {
		f.t->dl_tensor.ndim = ndims[i];
		CHECK_ERR(dlbuf_vpi_send(f.t, "a", &now), -EINVAL);
		CHECK_ERR_SAYS(dlbuf_send(f.sock, &f.t, 1, &now), -EINVAL, "were changed");
	}
	f.t->dl_tensor.ndim = ARRAY_SIZE(shape);
	CHECK_OK(dlbuf_release(f.t, NULL, NULL));
	CHECK_ERR_SAYS(dlbuf_vpi_send(f.t, "a", NULL), -EINVAL, "not acquired");
	CHECK_ERR(dlbuf_vpi_recv(f.cpu, f.sock, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_vpi_recv(f.cpu, f.sock, NULL, &a), -EINVAL);
	a.size = sizeof(a);
	CHECK_ERR(dlbuf_vpi_recv(f.cpu, f.sock, &now, &a), -EAGAIN);
	end();
}

/* ---------------------------------------------------------------- order */

VPI_CASE(arrival)
{
	struct dlbuf_vpi_arrival a;
	DLBUF_INFO(dlbuf_tensor_info, info);
	int fence;

	REQUIRE_OK(dlbuf_vpi_send(f.t, "frame~0", NULL));
	REQUIRE_OK(dlbuf_release(f.t, NULL, &fence));
	CHECK(!readable(fence));
	a = receive();
	CHECK(!strcmp(a.name, "frame~0"));
	CHECK_EQ(a.access, DLBUF_RW);
	CHECK_EQ(a.tensor->dl_tensor.ndim, 2);
	CHECK(!memcmp(a.tensor->dl_tensor.shape, shape, sizeof(shape)));
	CHECK(!memcmp(a.tensor->dl_tensor.strides, strides, sizeof(strides)));
	CHECK_OK(dlbuf_tensor_get_info(a.tensor, &info));
	CHECK_EQ(info.first, 7);
	*(char *)a.tensor->dl_tensor.data = 42;
	CHECK_EQ(*(char *)f.t->dl_tensor.data, 42);
	hand_back(&a);
	until_over(fence);
	/* Nothing is pending any more. */
	REQUIRE_OK(dlbuf_acquire(f.t, DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_release(f.t, NULL, &fence));
	CHECK_EQ(fence, -1);
}

/* A tensor with as many dimensions as a message can have. */
VPI_CASE(every_ndim)
{
	int64_t dims[DLBUF_MAX_NDIM], steps[DLBUF_MAX_NDIM];
	DLManagedTensorVersioned *t;

	for (int ndim = 0; ndim <= DLBUF_MAX_NDIM; ndim++) {
		const DLTensor layout = LAYOUT8(ndim, dims, .strides = ndim % 3 ? steps : NULL,
						.byte_offset = 64 + ndim);
		struct dlbuf_vpi_arrival a;

		for (int i = 0; i < ndim; i++) {
			dims[i] = i < 4 ? 2 : 1;
			steps[i] = ndim % 3 == 2 ? -i : 3 * i;
		}
		REQUIRE_OK(dlbuf_import(f.sim, f.memfd, &layout, NULL, &t));
		REQUIRE_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
		REQUIRE_OK(dlbuf_vpi_send(t, "t", NULL));
		CHECK_OK(dlbuf_release(t, NULL, NULL));
		a = receive();
		CHECK_EQ(a.tensor->dl_tensor.ndim, ndim);
		for (int i = 0; i < ndim; i++) {
			CHECK_EQ(a.tensor->dl_tensor.shape[i], dims[i]);
			CHECK_EQ(a.tensor->dl_tensor.strides[i], t->dl_tensor.strides[i]);
		}
		t->deleter(t);
		hand_back(&a);
	}
}

/* Other devices wait, and readers only for writers. */
VPI_CASE(others_wait)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLManagedTensorVersioned *cpu;
	struct dlbuf_vpi_arrival a;
	int fence;

	cpu = import(f.cpu, f.memfd);
	CHECK_OK(dlbuf_release(f.t, NULL, NULL));
	REQUIRE_OK(dlbuf_acquire(f.t, DLBUF_READ, NULL, NULL));
	REQUIRE_OK(dlbuf_vpi_send(f.t, "a", NULL));
	CHECK_OK(dlbuf_release(f.t, NULL, NULL));
	CHECK_OK(dlbuf_pending(cpu, DLBUF_READ, &fence));
	CHECK_EQ(fence, -1);
	CHECK_ERR(dlbuf_acquire(cpu, DLBUF_WRITE, NULL, &past), -ETIME);
	CHECK_ERR(dlbuf_device_drain(f.sim, 1), -ETIME);
	CHECK_OK(dlbuf_pending(cpu, DLBUF_WRITE, &fence));
	REQUIRE(fence >= 0);
	CHECK(!readable(fence));
	a = receive();
	CHECK_EQ(a.access, DLBUF_READ);
	hand_back(&a);
	until_over(fence);
	CHECK_OK(dlbuf_device_drain(f.sim, 0));
	CHECK_OK(dlbuf_pending(cpu, DLBUF_WRITE, &fence));
	CHECK_EQ(fence, -1);
	cpu->deleter(cpu);
}

/* A child that lives until the last stays[1] is closed, with what fork() leaves it. */
static pid_t bystander(const int stays[2])
{
	pid_t pid = fork();
	char byte = 0;

	REQUIRE(pid >= 0);
	if (pid) {
		/* It has come out of fork(). */
		REQUIRE(read(stays[1], &byte, 1) == 1);
		return pid;
	}
	close(stays[1]);
	_exit(write(stays[0], &byte, 1) != 1 || read(stays[0], &byte, 1));
}

static void end_bystander(pid_t pid, const int stays[2])
{
	close(stays[1]);
	close(stays[0]);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* One fd shows the end of all earlier sends, also while a child lives. */
TEST(passes_end_in_order)
{
	struct dlbuf_vpi_arrival a[3];
	int fence[3], stays[2];
	pid_t child;

	begin();
	for (int i = 0; i < 3; i++) {
		if (i)
			REQUIRE_OK(dlbuf_acquire(f.t, DLBUF_WRITE, NULL, NULL));
		REQUIRE_OK(dlbuf_vpi_send(f.t, "a", NULL));
		REQUIRE_OK(dlbuf_release(f.t, NULL, &fence[i]));
	}
	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, stays));
	child = bystander(stays);
	for (int i = 0; i < 3; i++)
		a[i] = receive();
	hand_back(&a[2]);
	hand_back(&a[0]);
	until_readable(fence[0]);
	CHECK(!readable(fence[1]));
	CHECK(!readable(fence[2]));
	hand_back(&a[1]);
	until_over(fence[1]);
	until_over(fence[2]);
	close(fence[0]);
	end_bystander(child, stays);
	end();
}

static void count(void *data)
{
	__atomic_add_fetch((int *)data, 1, __ATOMIC_SEQ_CST);
}

/* The import outlives tensor and device until the simulator is done. */
VPI_CASE(lease)
{
	struct dlbuf_vpi_arrival a;
	struct dlbuf_frame frame = PICTURE(64, 64, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .modifier = DLBUF_MOD_LINEAR, .release = count);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	int fired = 0;
	uint32_t n;
	char byte;

	frame.planes[0].fd = f.memfd;
	frame.planes[0].pitch = 64;
	frame.release_data = &fired;
	REQUIRE_OK(dlbuf_import_frame(f.sim, &frame, NULL, t, &n));
	REQUIRE_OK(dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL));
	REQUIRE_OK(dlbuf_vpi_send(t[0], "y", NULL));
	CHECK_OK(dlbuf_release(t[0], NULL, NULL));
	t[0]->deleter(t[0]);
	f.t->deleter(f.t);
	f.t = NULL;
	dlbuf_device_close(f.sim);
	f.sim = NULL;
	a = receive();
	CHECK_EQ(read(a.done, &byte, 1), 1);
	close(a.done);
	CHECK_EQ(__atomic_load_n(&fired, __ATOMIC_SEQ_CST), 0);
	a.tensor->deleter(a.tensor);
	UNTIL(__atomic_load_n(&fired, __ATOMIC_SEQ_CST));
}

/* ---------------------------------------------------------------- in the middle */

/* The simulator's tensor, the device that acquires then, and its result. */
static const struct {
	uint32_t had, wants;
	bool own, damaged;
	int ret;
} middles[] = {
	{ DLBUF_WRITE, DLBUF_READ, false, false, -EIO },
	{ DLBUF_RW, DLBUF_WRITE, false, false, -EIO },
	{ DLBUF_READ, DLBUF_WRITE, false, false, 0 },
	{ DLBUF_WRITE, DLBUF_READ, false, true, 0 },
	{ DLBUF_WRITE, DLBUF_READ, true, false, -EIO },
	{ DLBUF_WRITE, DLBUF_READ, true, true, 0 },
};

/*
 * If an end is closed with its byte unread, the simulation has died. The fd and the next
 * conflicting acquire report it, once, also if the event has fired before, and if the
 * device is closed.
 */
TEST(dies_in_the_middle)
{
	struct dlbuf_device *other;
	struct dlbuf_vpi_arrival a;
	int fence, status, s[2];

	/* The CPU's brackets want a dma-buf: another simulator's device does as well. */
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s));
	REQUIRE_OK(dlbuf_device_wrap_vpi(s[0], NULL, &other));
	for (size_t i = 0; i < 3 * ARRAY_SIZE(middles); i++) {
		size_t c = i / 3, when = i % 3;
		DLBUF_OPTS(dlbuf_acquire_opts, opts, .flags =
			   middles[c].damaged ? DLBUF_ACQUIRE_DAMAGED : 0);
		DLManagedTensorVersioned *t;

		begin();
		t = import(middles[c].own ? f.sim : other, f.memfd);
		CHECK_OK(dlbuf_release(f.t, NULL, NULL));
		REQUIRE_OK(dlbuf_acquire(f.t, middles[c].had, NULL, NULL));
		REQUIRE_OK(dlbuf_vpi_send(f.t, "a", NULL));
		REQUIRE_OK(dlbuf_release(f.t, NULL, &fence));
		a = receive();
		if (when == 2) {
			f.t->deleter(f.t);
			f.t = NULL;
			dlbuf_device_close(f.sim);
			f.sim = NULL;
		}
		close(a.done);
		a.tensor->deleter(a.tensor);
		until_readable(fence);
		CHECK_OK(dlbuf_fence_status(fence, &status));
		CHECK_EQ(status, -EIO);
		if (when)
			UNTIL(!event_pending());
		if (!CHECK_EQ(dlbuf_acquire(t, middles[c].wants, NULL, &opts),
			      middles[c].ret))
			ktap_note(NULL, 0, "case %zu, %zu", c, when);
		if (middles[c].ret) {
			CHECK_SAYS("ended before it was done with the buffer");
			CHECK_OK(dlbuf_acquire(t, middles[c].wants, NULL, NULL));
		}
		CHECK_OK(dlbuf_release(t, NULL, NULL));
		t->deleter(t);
		close(fence);
		end();
	}
	dlbuf_device_close(other);
	close(s[0]);
	close(s[1]);
	settle();
}

static void result(void *data)
{
	__atomic_store_n((int *)data, 1 + -dlbuf_lease_result(), __ATOMIC_SEQ_CST);
}

/* A lease, a wait that has begun, and a release that comes after the death. */
TEST(tells_of_the_death)
{
	struct dlbuf_frame frame = PICTURE(64, 64, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .modifier = DLBUF_MOD_LINEAR, .release = result);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_vpi_arrival a;
	int result = 0, fence = -1;
	uint32_t n;

	for (int late = 0; late < 2; late++) {
		begin();
		frame.planes[0].fd = f.memfd;
		frame.planes[0].pitch = 64;
		frame.release_data = &result;
		REQUIRE_OK(dlbuf_import_frame(f.sim, &frame, NULL, t, &n));
		REQUIRE_OK(dlbuf_acquire(t[0], DLBUF_WRITE, NULL, NULL));
		REQUIRE_OK(dlbuf_vpi_send(t[0], "y", NULL));
		if (!late)
			CHECK_OK(dlbuf_release(t[0], NULL, &fence));
		a = receive();
		close(a.done);
		a.tensor->deleter(a.tensor);
		if (late)
			CHECK_ERR(dlbuf_release(t[0], NULL, &fence), -EIO);
		else
			close(fence);
		t[0]->deleter(t[0]);
		UNTIL(__atomic_load_n(&result, __ATOMIC_SEQ_CST));
		CHECK_EQ(result, 1 + EIO);
		result = 0;
		end();
	}
}

/*
 * Closing the device notifies the holder of a tensor, and frees the name, also while children
 * live.
 */
TEST(closed_while_in_use)
{
	struct dlbuf_vpi_arrival a, none = { .size = sizeof(none) };
	int stays[2];
	pid_t child;

	begin();
	REQUIRE_OK(dlbuf_vpi_send(f.t, "a", NULL));
	a = receive();
	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, stays));
	child = bystander(stays);
	dlbuf_device_close(f.sim);
	CHECK_ERR(dlbuf_vpi_recv(f.cpu, f.sock, NULL, &none), -EPIPE);
	CHECK_ERR_SAYS(dlbuf_vpi_send(f.t, "b", NULL), -EPIPE, "is closed");
	REQUIRE_OK(dlbuf_device_open(device(), NULL, &f.sim));
	hand_back(&a);
	CHECK_OK(dlbuf_release(f.t, NULL, NULL));
	end_bystander(child, stays);
	end();
}

/* So does the program's sudden end: its child has neither the name nor the connection. */
TEST(program_killed)
{
	DLBUF_OPTS(dlbuf_socket_opts, now, .flags = DLBUF_SOCKET_DONTWAIT);
	struct dlbuf_vpi_arrival a, none = { .size = sizeof(none) };
	int begun[2], stays[2], status;
	char byte = 0;
	pid_t host;

	need_machine();
	REQUIRE(device() && !pipe(begun));
	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, stays));
	host = fork();
	REQUIRE(host >= 0);
	if (!host) {
		begin_with(dlbuf_device_open(device(), NULL, &f.sim), DLBUF_READ);
		REQUIRE(write(begun[1], &byte, 1) == 1);
		REQUIRE_OK(dlbuf_vpi_send(f.t, "a", NULL));
		bystander(stays);
		raise(SIGKILL);
	}
	REQUIRE(read(begun[0], &byte, 1) == 1);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &f.cpu));
	REQUIRE_OK(dlbuf_vpi_connect(name(), &f.sock));
	a = receive();
	CHECK_EQ(waitpid(host, &status, 0), host);
	CHECK(WIFSIGNALED(status));
	CHECK_ERR(dlbuf_vpi_recv(f.cpu, f.sock, &now, &none), -EPIPE);
	hand_back(&a);
	begin_with(dlbuf_device_open(device(), NULL, &f.sim), DLBUF_READ);
	CHECK_OK(dlbuf_release(f.t, NULL, NULL));
	close(begun[0]);
	close(begun[1]);
	close(stays[0]);
	close(stays[1]);
	end();
}

/* ---------------------------------------------------------------- simulators that come and go */

/* A child that attaches, or has the socket, takes a tensor, reports it and waits. */
static pid_t simulator(int sock, int *says)
{
	struct dlbuf_vpi_arrival a = { .size = sizeof(a) };
	struct dlbuf_device *cpu = NULL;
	int fds[2], ret;
	pid_t pid;

	REQUIRE(!pipe(fds));
	pid = fork();
	REQUIRE(pid >= 0);
	if (!pid) {
		ret = dlbuf_device_open("cpu", NULL, &cpu);
		if (!ret && sock < 0)
			ret = dlbuf_vpi_connect(name(), &sock);
		if (!ret)
			ret = dlbuf_vpi_recv(cpu, sock, NULL, &a);
		_exit(write(fds[1], &ret, sizeof(ret)) != sizeof(ret) ||
		      (ret ? 1 : pause()));
	}
	close(fds[1]);
	*says = fds[0];
	return pid;
}

static void kill_simulator(pid_t pid, int says)
{
	int ret = -1;

	CHECK_EQ(read(says, &ret, sizeof(ret)), sizeof(ret));
	CHECK_EQ(ret, 0);
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	close(says);
}

TEST(simulator_dies)
{
	DLBUF_OPTS(dlbuf_socket_opts, now, .flags = DLBUF_SOCKET_DONTWAIT);
	DLBUF_OPTS(dlbuf_socket_opts, past, .deadline_ns = 1);
	int fence, says;
	pid_t pid;

	need_machine();
	begin_with(dlbuf_device_open(device(), NULL, &f.sim), DLBUF_READ);
	CHECK_ERR(dlbuf_vpi_send(f.t, "a", &now), -EAGAIN);
	CHECK_SAYS("no simulator is attached to vpi:unit.");
	CHECK_ERR(dlbuf_vpi_send(f.t, "a", &past), -ETIME);
	for (int i = 0; i < 2; i++) {
		pid = simulator(-1, &says);
		REQUIRE_OK(dlbuf_vpi_send(f.t, "a", NULL));
		REQUIRE_OK(dlbuf_release(f.t, NULL, &fence));
		CHECK(!readable(fence));
		kill_simulator(pid, says);
		until_over(fence);
		CHECK_OK(dlbuf_acquire(f.t, DLBUF_READ, NULL, NULL));
		CHECK_ERR_SAYS(dlbuf_vpi_send(f.t, "a", NULL), -EPIPE, "the simulator has ended");
	}
	end();
}

/* The end of a simulator that has the other end of a socket pair is final. */
TEST(child_dies)
{
	int s[2], says;
	pid_t pid;

	need_machine();
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	begin_with(dlbuf_device_wrap_vpi(s[0], NULL, &f.sim), DLBUF_READ);
	close(s[0]);
	pid = simulator(s[1], &says);
	close(s[1]);
	REQUIRE_OK(dlbuf_vpi_send(f.t, "a", NULL));
	kill_simulator(pid, says);
	for (int i = 0; i < 2; i++)
		CHECK_ERR(dlbuf_vpi_send(f.t, "a", NULL), -EPIPE);
	end();
}

VPI_CASE(one_simulator_at_a_time)
{
	struct dlbuf_vpi_arrival a = { .size = sizeof(a) };
	int second;

	REQUIRE_OK(dlbuf_vpi_send(f.t, "a", NULL));
	REQUIRE_OK(dlbuf_vpi_connect(name(), &second));
	REQUIRE_OK(dlbuf_vpi_send(f.t, "b", NULL));
	CHECK_ERR_SAYS(dlbuf_vpi_recv(f.cpu, second, NULL, &a), -EBUSY, "has another simulator");
	close(second);
	for (int i = 0; i < 2; i++) {
		a = receive();
		CHECK_EQ(a.name[0], 'a' + i);
		hand_back(&a);
	}
}

/* ---------------------------------------------------------------- hostile peers */

/* Another socket that connects as dlbuf_vpi_connect() does. */
static int stranger(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "dlbuf-vpi/%u/%s",
			 (unsigned int)geteuid(), name());

	REQUIRE(sock >= 0);
	if (!connect(sock, (struct sockaddr *)&at, offsetof(struct sockaddr_un, sun_path) + 1 + n))
		return sock;
	close(sock);
	return -1;
}

/* Connections wait in the queue also after their end. The next send takes them off. */
VPI_CASE(many_connections)
{
	DLBUF_OPTS(dlbuf_socket_opts, now, .flags = DLBUF_SOCKET_DONTWAIT);
	unsigned int n = 0;
	int sock AUTO_FD = -1, fd;

	while ((fd = stranger()) >= 0) {
		close(fd);
		n++;
	}
	CHECK_MSG(n > 100, "%u connections", n);
	CHECK_ERR(dlbuf_vpi_connect(name(), &sock), -ECONNREFUSED);
	CHECK_SAYS("too many connections, perhaps of another user");
	CHECK_OK(dlbuf_vpi_send(f.t, "a", &now));
	CHECK_OK(dlbuf_vpi_connect(name(), &sock));
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* To close queued fds may block, so they are refused. */
TEST(connections_take_no_fds)
{
	socklen_t size = sizeof(int);
	int sock AUTO_FD = -1, on;

	begin();
	if (getsockopt(f.sock, SOL_SOCKET, SO_PASSRIGHTS, &on, &size)) {
		end();
		SKIP("Linux before 6.16 cannot refuse fds");
	}
	sock = stranger();
	CHECK_EQ(send_fds(sock, "a", 1, &sock, 1, 0), -1);
	CHECK_EQ(errno, EPERM);
	end();
}

struct wire {
	uint32_t magic;
	uint16_t version, access;
	char name[DLBUF_VPI_MAX_NAME];
};

#define MAGIC 0x49505644u
#define GOOD { MAGIC, 2, DLBUF_READ, "a" }
#define REFUSAL { MAGIC, 2, 0, "" }

struct letter {
	const char *what;
	struct wire head;
	unsigned int ntensors;
	size_t bytes;		/* that are sent; 0: all */
	/* From PIPE on: fds that are no end of a socket pair. */
	enum { NONE, END, BOTH, MORE, PIPE, STREAM, DGRAM, INET, LONELY } fds;
};

/* A new fd. */
static int wrong_end(int kind, int pipe_end)
{
	switch (kind) {
	case STREAM:
		return socket(AF_UNIX, SOCK_STREAM, 0);
	case DGRAM:
		return socket(AF_UNIX, SOCK_DGRAM, 0);
	case INET:
		return socket(AF_INET, SOCK_STREAM, 0);
	case LONELY:
		return socket(AF_UNIX, SOCK_SEQPACKET, 0);
	default:
		return dup(pipe_end);
	}
}

static void post(int sock, const struct letter *l, int fd, int end)
{
	DLTensor layout = LAYOUT8(2, shape, .strides = (int64_t *)strides);
	struct packet p = tensors_of(&layout, l->ntensors, DLBUF_READ, 0);
	unsigned char bytes[sizeof(l->head) + sizeof(p.data)];
	const int fds[] = { fd, end, end };
	unsigned int nfds = l->fds >= PIPE ? BOTH : l->fds;
	size_t n = sizeof(l->head) + p.bytes;

	memcpy(bytes, &l->head, sizeof(l->head));
	memcpy(bytes + sizeof(l->head), p.data, p.bytes);
	if (l->bytes)
		n = l->bytes;
	CHECK_EQ(send_fds(sock, bytes, n, fds + (nfds == END), nfds, 0),
		 (ssize_t)n);
}

VPI_CASE(letters)
{
	static const struct letter letters[] = {
		{ "short", GOOD, 1, 20, BOTH },
		{ "one byte", GOOD, 1, 1, BOTH },
		{ "no message", GOOD, 1, sizeof(struct wire), BOTH },
		{ "no fds", GOOD, 1, 0, NONE },
		{ "half a refusal", REFUSAL, 1, 8, NONE },
		{ "a refusal and a message", REFUSAL, 1, 0, NONE },
		{ "a refusal with fds", REFUSAL, 1, sizeof(struct wire), BOTH },
		{ "the end only", GOOD, 1, 0, END },
		{ "too many fds", GOOD, 1, 0, MORE },
		{ "magic", { 1, 1, 1, "a" }, 1, 0, BOTH },
		{ "version", { MAGIC, 1, 1, "a" }, 1, 0, BOTH },
		{ "no access", { MAGIC, 2, 0, "a" }, 1, 0, BOTH },
		{ "bad access", { MAGIC, 2, 4, "a" }, 1, 0, BOTH },
		{ "no name", { MAGIC, 2, 1, "" }, 1, 0, BOTH },
		{ "a space", { MAGIC, 2, 1, "a b" }, 1, 0, BOTH },
		{ "endless name", { MAGIC, 2, 1, { [0 ... 47] = 'a' } }, 1, 0, BOTH },
		{ "two tensors", GOOD, 2, 0, BOTH },
		{ "no socket", GOOD, 1, 0, PIPE },
		{ "a stream", GOOD, 1, 0, STREAM },
		{ "datagrams", GOOD, 1, 0, DGRAM },
		{ "of the network", GOOD, 1, 0, INET },
		{ "not connected", GOOD, 1, 0, LONELY },
	};
	static const struct linger on = { 1, 1000 };
	struct dlbuf_vpi_arrival a;
	int s[2], end_of[2], pipes[2], wrong;

	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s));
	for (size_t i = 0; i <= ARRAY_SIZE(letters); i++) {
		const struct letter *l = &letters[i], fine = { "", GOOD, 1, 0, BOTH };
		socklen_t size = sizeof(on);
		struct linger now = on;

		REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, end_of));
		REQUIRE(!pipe(pipes) && write(end_of[1], "", 1) == 1);
		if (i == ARRAY_SIZE(letters))
			l = &fine;
		if (l->fds >= PIPE) {
			wrong = wrong_end(l->fds, pipes[0]);
			REQUIRE(wrong >= 0 && dup2(wrong, end_of[0]) >= 0 && !close(wrong));
		}
		CHECK_EQ(setsockopt(end_of[0], SOL_SOCKET, SO_LINGER, &on, sizeof(on)),
			 l->fds == PIPE ? -1 : 0);
		post(s[0], l, f.memfd, end_of[0]);
		a = (struct dlbuf_vpi_arrival){ .size = sizeof(a) };
		if (l == &fine) {
			CHECK_OK(dlbuf_vpi_recv(f.cpu, s[1], NULL, &a));
			hand_back(&a);
		} else if (!CHECK_ERR(dlbuf_vpi_recv(f.cpu, s[1], NULL, &a),
				      -EPROTO)) {
			ktap_note(NULL, 0, "%s", l->what);
		}
		/* The close of a refused fd must not take as long as the peer wishes. */
		getsockopt(end_of[0], SOL_SOCKET, SO_LINGER, &now, &size);
		CHECK_EQ(now.l_onoff, l != &fine && l->fds != NONE && l->fds != PIPE ? 0 : 1);
		close(end_of[0]);
		/* It is handed back either way. */
		CHECK(readable(end_of[1]));
		close(end_of[1]);
		close(pipes[0]);
		close(pipes[1]);
	}
	/* A message of dlbuf_send() is not for a simulator. */
	REQUIRE_OK(dlbuf_send(s[0], &f.t, 1, NULL));
	CHECK_ERR(dlbuf_vpi_recv(f.cpu, s[1], NULL, &a), -EPROTO);
	close(s[0]);
	CHECK_ERR(dlbuf_vpi_recv(f.cpu, s[1], NULL, &a), -EPIPE);
	close(s[1]);
}

#ifdef CONFIG_FAULT_INJECTION
/* Each call fails once; everything is given back, and the pass ends. */
static int once_each(void)
{
	DLBUF_OPTS(dlbuf_acquire_opts, damaged, .flags = DLBUF_ACQUIRE_DAMAGED);
	DLBUF_OPTS(dlbuf_socket_opts, now, .flags = DLBUF_SOCKET_DONTWAIT);
	struct dlbuf_vpi_arrival a = { .size = sizeof(a) };
	struct dlbuf_device *dev = NULL, *pair = NULL;
	DLManagedTensorVersioned *t = NULL;
	const DLTensor layout = LAYOUT8(2, shape);
	int sock = -1, s[2], fence = -1;
	int ret = dlbuf_device_open(device(), NULL, &dev);

	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s));
	if (!ret)
		ret = dlbuf_device_wrap_vpi(s[0], NULL, &pair);
	if (!ret)
		ret = dlbuf_vpi_connect(name(), &sock);
	if (!ret)
		ret = dlbuf_import(dev, f.memfd, &layout, NULL, &t);
	for (int i = 0; !ret && i < 2; i++) {
		/* The second of these is lost each time. */
		ret = dlbuf_acquire(t, DLBUF_RW, NULL, &damaged);
		if (!ret)
			ret = dlbuf_vpi_send(t, "a", &now);
		if (!ret)
			ret = dlbuf_release(t, NULL, i ? NULL : &fence);
	}
	if (!ret)
		ret = dlbuf_vpi_recv(f.cpu, sock, &now, &a);
	if (a.tensor)
		hand_back(&a);
	if (t)
		t->deleter(t);
	if (sock >= 0)
		close(sock);
	if (fence >= 0)
		close(fence);
	close(s[0]);
	close(s[1]);
	dlbuf_device_close(pair);
	dlbuf_device_close(dev);
	settle();
	return ret;
}

TEST(every_call)
{
	unsigned long n = 0, failed = 0;
	int ret;

	need_machine();
	f.memfd = buffer();
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &f.cpu));
	do {
		fault_at(++n);
		ret = once_each();
		failed += !!ret;
	} while (fault_count() >= n);
	fault_at(0);
	CHECK_OK(ret);
	CHECK(failed > 20);
	end();
}
#endif
#else
TEST(left_out)
{
	SKIP("this build has no simulators, or no CPU");
}
#endif
KTAP_MAIN()
