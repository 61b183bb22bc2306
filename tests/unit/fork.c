// SPDX-License-Identifier: MIT
/*
 * fork(): in the child the parent's devices and tensors are refused, deleted and
 * closed without a lock and without a call to a driver, and devices of its own
 * work. Threads keep the parent's locks busy meanwhile: a child that takes one of
 * them hangs, which the harness ends. Doubles replace the drivers and memfds
 * the dma-bufs; tests/cts has the real ones.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <dlbuf/dlbuf.h>

#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_CPU
#include "cuda_memfds.h"
#include "double.h"
#include "emulated.h"
#include "system/event.h"
#include "doubles/cuda.h"
#define fake_kind fake_vulkan_kind
#define FAKE_KINDS FAKE_VULKAN_KINDS
#include "doubles/vulkan.h"
#include "packet.h"
#include "system/internal.h"

#define BYTES 8192
/* The optimized build and the one with TSan fork often; the others are slower. */
#if KTAP_TSAN || defined(__OPTIMIZE__)
#define FORKS 200
#else
#define FORKS 20
#endif
#define BUFFERS 4

static unsigned int leases, stop;	/* atomic */

static void add_one(void *n)
{
	__atomic_add_fetch((unsigned int *)n, 1, __ATOMIC_SEQ_CST);
}

static unsigned int load(const unsigned int *n)
{
	return __atomic_load_n(n, __ATOMIC_SEQ_CST);
}

/* ---------------------------------------------------------------- doubles */

static struct fake_cuda *cuda;		/* or NULL: not built */
static struct fake_vulkan *vulkan;

/* The result of its function of this name after a reset. */
__attribute__((unused))
static void *load_double(const char *library, const char *variable,
			 const char *function)
{
	void *(*get)(bool reset);

	get = (void *(*)(bool))dlsym(double_open(library, variable), function);
	REQUIRE(get);
	return get(true);
}

static void nobody_reads(void *data, enum dlbuf_log_level level,
			 const char *text)
{
}

static void load_doubles(void)
{
	need_machine();
	KTAP_KEEPS(KTAP_HEAP, "drivers stay loaded, glibc keeps stacks");
#ifdef CONFIG_BACKEND_CUDA
	if (sizeof(void *) == 8)
		cuda = load_double("libcuda.so", "DLBUF_CUDA_LIBRARY",
				   "fake_cuda");
#endif
#ifdef CONFIG_BACKEND_VULKAN
	vulkan = load_double("libvulkan.so", "DLBUF_VULKAN_LIBRARY",
			     "fake_vulkan");
#endif
	dlbuf_log_set(nobody_reads, NULL, DLBUF_LOG_INFO);
}

/* Driver calls of a child, by what the doubles count. */
static unsigned long cuda_calls;

static void look(const char *call)
{
	cuda_calls++;
}

static unsigned long driver_calls(void)
{
	unsigned long n = cuda_calls;

	for (int kind = 0; vulkan && kind < FAKE_VULKAN_KINDS; kind++)
		n += vulkan->made[kind] * 1000 - vulkan->live[kind];
	return n + (vulkan ? vulkan->submits + vulkan->waits + vulkan->drains :
		    0);
}

/* ---------------------------------------------------------------- the parent */

static int64_t shape = BYTES;
static const DLTensor layout = LAYOUT8(1, &shape);

static int buffer(void)
{
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, BYTES));
	return fd;
}

static void remember(int fd)
{
	int ret = dlbuf_udmabuf_remember(fd, fd);

	CHECK(!ret || ret == -ENOSYS);
}

/* A tensor with a lease, acquired if the device can acquire a memfd: the CPU cannot. */
static DLManagedTensorVersioned *held(struct dlbuf_device *dev, int fd)
{
	struct dlbuf_frame f = PICTURE(BYTES, 1, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .modifier = DLBUF_MOD_LINEAR,
		.planes = { { .fd = fd, .pitch = BYTES } }, .fence = -1,
		.release = add_one, .release_data = &leases);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	uint32_t n;

	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	if (t[0]->dl_tensor.device.device_type != kDLCPU)
		CHECK_OK(dlbuf_acquire(t[0], DLBUF_RW, NULL, NULL));
	return t[0];
}

struct parent {
	const char *name;
	struct dlbuf_device *dev;
	int fds[BUFFERS];
	DLManagedTensorVersioned *held;
	DLManagedTensor *legacy;
	pthread_t thread;
};

/* Imports, accesses, leases, events, messages, memfds, evictions, and a device. */
static void *keep_busy(void *arg)
{
	struct parent *p = arg;
	struct dlbuf_device *cpu;
	unsigned int told = 0;
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), sock[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	for (unsigned int i = 0; !load(&stop); i++) {
		int fd = p->fds[i % BUFFERS];
		DLManagedTensorVersioned *t = held(p->dev, fd), *got[DLBUF_MAX_PLANES];
		uint32_t ngot = 0;
		uint64_t n;

		if (i % 8 == 1) {
			CHECK_OK(dlbuf_send(sock[0], &t, 1, NULL));
			CHECK_OK(dlbuf_recv(p->dev, sock[1], NULL, got, &ngot, NULL));
			if (ngot)
				got[0]->deleter(got[0]);
		}
		t->deleter(t);
		remember(fd);
		CHECK_OK(dlbuf_fence_notify(event, add_one, &told));
		CHECK_OK(eventfd_write(event, 1));
		UNTIL(load(&told) > i);
		CHECK_EQ(read(event, &n, sizeof(n)), sizeof(n));
		dlbuf_device_trim(p->dev, i % 3);
		if (i % 8)
			continue;
		CHECK_OK(dlbuf_device_open("cpu", NULL, &cpu));
		dlbuf_device_close(cpu);
	}
	close(event);
	close(sock[0]);
	close(sock[1]);
	return NULL;
}

static void parent_begin(struct parent *p)
{
	REQUIRE_OK(dlbuf_device_open(p->name, NULL, &p->dev));
	for (int i = 0; i < BUFFERS; i++)
		p->fds[i] = buffer();
	p->held = held(p->dev, p->fds[0]);
	REQUIRE_OK(dlbuf_tensor_share_legacy(p->held, &p->legacy));
	REQUIRE(!pthread_create(&p->thread, NULL, keep_busy, p));
}

static void parent_end(struct parent *p)
{
	pthread_join(p->thread, NULL);
	p->held->deleter(p->held);
	p->legacy->deleter(p->legacy);
	for (int i = 0; i < BUFFERS; i++)
		close(p->fds[i]);
	dlbuf_device_close(p->dev);
}

/* ---------------------------------------------------------------- the child */

#define STALE(call)							\
	do {								\
		CHECK_ERR(call, -ESTALE);				\
		CHECK_SAYS("belongs to the process that forked this one"); \
	} while (0)

static int no_format(const struct dlbuf_device_format *f, void *data)
{
	return 0;
}

static int no_path(const struct dlbuf_path_info *info, void *data)
{
	return 0;
}

/* Every function that takes a device or a tensor. */
static void check_refusals(struct parent *p)
{
	DLBUF_OPTS(dlbuf_pool_opts, pool_opts, .width = 8, .height = 8,
		   .buffers = 1, .code = DLBUF_FOURCC('R', '8', ' ', ' '),
		   .code_space = DLBUF_CODE_DRM);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct dlbuf_frame frame = { .size = sizeof(frame) };
	struct dlbuf_exported exported = { .size = sizeof(exported) };
	DLBUF_INFO(dlbuf_device_stats, stats);
	DLBUF_INFO(dlbuf_device_info, info);
	DLBUF_INFO(dlbuf_tensor_info, tensor);
	DLBUF_INFO(dlbuf_pool_info, layout_info);
	struct dlbuf_pool *pool = NULL;
	DLManagedTensor *legacy;
	uint32_t n;
	int fence;

	STALE(dlbuf_device_get_info(p->dev, &info));
	STALE(dlbuf_device_get_stats(p->dev, &stats));
	STALE(dlbuf_import(p->dev, p->fds[0], &layout, NULL, t));
	STALE(dlbuf_import_frame(p->dev, &frame, NULL, t, &n));
	STALE(dlbuf_alloc(&p->dev, 1, &layout, NULL, t));
	STALE(dlbuf_pool_create(&p->dev, 1, &pool_opts, &pool));
	STALE(dlbuf_pool_layout(&p->dev, 1, &pool_opts, &layout_info));
	STALE(dlbuf_device_formats(p->dev, no_format, NULL));
	STALE(dlbuf_export(p->dev, &layout, NULL, &exported));
	STALE(dlbuf_probe(p->dev, p->fds[0], 0, no_path, NULL));
	STALE(dlbuf_recv(p->dev, 0, NULL, t, &n, NULL));
	STALE(dlbuf_tensor_get_info(p->held, &tensor));
	STALE(dlbuf_tensor_share(p->held, NULL, t));
	STALE(dlbuf_tensor_share_legacy(p->held, &legacy));
	STALE(dlbuf_tensor_share(p->held, &layout, t));
	STALE(dlbuf_tensor_import(p->dev, p->held, NULL, t));
	STALE(dlbuf_acquire(p->held, DLBUF_READ, NULL, NULL));
	STALE(dlbuf_release(p->held, NULL, NULL));
	STALE(dlbuf_acquire_fence(p->held, DLBUF_READ, &fence));
	STALE(dlbuf_release_fence(p->held, -1));
	STALE(dlbuf_send(0, &p->held, 1, NULL));
}

static void check_own_device(int fd)
{
	DLManagedTensorVersioned *t = NULL, *got[DLBUF_MAX_PLANES];
	DLBUF_INFO(dlbuf_device_stats, stats);
	struct dlbuf_device *dev AUTO_DEV = NULL;
	DLBUF_OPTS(dlbuf_socket_opts, past, .deadline_ns = 1);
	unsigned int told = 0;
	int event, sock[2];
	uint32_t n;

	if (!CHECK_OK(dlbuf_device_open("cpu", NULL, &dev)))
		return;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	CHECK_ERR(dlbuf_recv(dev, sock[0], &past, got, &n, NULL), -ETIME);
	close(sock[0]);
	close(sock[1]);
	if (CHECK_OK(dlbuf_import(dev, fd, &layout, NULL, &t)))
		t->deleter(t);
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.misses, 1);
	CHECK_EQ(stats.idle, 1);
	remember(fd);
	/* TSan lets no child of a process with threads start one. */
	if (!KTAP_TSAN) {
		event = eventfd(0, EFD_CLOEXEC);
		CHECK_OK(dlbuf_fence_notify(event, add_one, &told));
		CHECK_OK(eventfd_write(event, 1));
		UNTIL(load(&told));
		close(event);
	}
}

static void child(struct parent *parents, unsigned int n)
{
	unsigned int fired = load(&leases);
	unsigned long calls;

	cuda_calls = 0;
	if (cuda)
		cuda->look = look;
	calls = driver_calls();
	for (unsigned int i = 0; i < n; i++) {
		struct parent *p = &parents[i];

		check_refusals(p);
		p->held->deleter(p->held);
		p->legacy->deleter(p->legacy);
		dlbuf_device_trim(p->dev, 0);
		dlbuf_device_close(p->dev);
	}
	CHECK_EQ(load(&leases), fired);
	CHECK_EQ(driver_calls(), calls);
	check_own_device(parents[0].fds[0]);
}

static void wait_for(pid_t pid)
{
	int status = -1;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* A shared lease that the child drops and tries to use is the parent's still. */
TEST(leases_of_the_parent)
{
	struct dlbuf_device *dev AUTO_DEV = NULL;
	int fd AUTO_FD = buffer();
	struct dlbuf_lease *lease;
	pid_t pid;

	need_machine();
	REQUIRE_OK(dlbuf_lease_create(add_one, &leases, &lease));
	pid = fork();
	if (!pid) {
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		struct dlbuf_frame f = PICTURE(BYTES, 1,
			DLBUF_FOURCC('R', '8', ' ', ' '), DLBUF_CODE_DRM, 1,
			.planes = { { .fd = fd, .pitch = BYTES } },
			.lease = lease);
		uint32_t n;

		CHECK_OK(dlbuf_device_open("cpu", NULL, &dev));
		STALE(dlbuf_import_frame(dev, &f, NULL, t, &n));
		dlbuf_lease_drop(lease);
		CHECK_EQ(load(&leases), 0);
		_exit(0);
	}
	wait_for(pid);
	CHECK_EQ(load(&leases), 0);
	dlbuf_lease_drop(lease);
	CHECK_EQ(load(&leases), 1);
}

/* In a process that only receives: the child has closed its end of the lease. */
TEST(leases_that_were_received)
{
	struct dlbuf_device *dev AUTO_DEV = NULL;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	int fd AUTO_FD = buffer(), sock[2], ends[2], stays[2], fds[2];
	int64_t stride = 1;
	struct pollfd end;
	DLTensor l = layout;
	struct packet p;
	uint32_t n;
	char byte = 0;
	pid_t pid;

	l.strides = &stride;
	p = tensors_of(&l, 1, DLBUF_RW, MESSAGE_HOLD);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &dev));
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock));
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, stays));
	REQUIRE(!pipe2(ends, O_CLOEXEC));
	fds[0] = fd;
	fds[1] = ends[0];
	REQUIRE(send_fds(sock[0], p.data, p.bytes, fds, 2, 0) == (ssize_t)p.bytes);
	close(ends[0]);
	REQUIRE_OK(dlbuf_recv(dev, sock[1], NULL, t, &n, NULL));
	pid = fork();
	if (!pid) {
		close(stays[1]);
		_exit(write(stays[0], &byte, 1) != 1 || read(stays[0], &byte, 1));
	}
	/* The child has come out of fork(), and lives on. */
	REQUIRE(read(stays[1], &byte, 1) == 1);
	end = (struct pollfd){ .fd = ends[1] };
	CHECK_EQ(poll(&end, 1, 0), 0);
	t[0]->deleter(t[0]);
	CHECK_EQ(poll(&end, 1, 0), 1);
	CHECK_EQ(end.revents, POLLERR);
	for (int i = 0; i < 2; i++) {
		close(stays[1 - i]);
		close(sock[i]);
	}
	close(ends[1]);
	wait_for(pid);
}

TEST(children_of_busy_threads)
{
	struct parent parents[] = {
		{ .name = "cpu" }, { .name = "vulkan" }, { .name = "cuda" },
	};
	unsigned int n = 0;

	/* Its allocator has locks that a fork() does not know. */
	if (KTAP_ASAN)
		SKIP("AddressSanitizer has no fork() of busy threads");
	load_doubles();
	for (size_t i = 0; i < ARRAY_SIZE(parents); i++) {
		if ((i == 1 && !vulkan) || (i == 2 && !cuda))
			continue;
		parents[n].name = parents[i].name;
		parent_begin(&parents[n++]);
	}
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		REQUIRE(pid >= 0);
		if (!pid) {
			child(parents, n);
			_exit(0);
		}
		wait_for(pid);
	}
	add_one(&stop);
	for (unsigned int i = 0; i < n; i++)
		parent_end(&parents[i]);
	UNTIL(!event_pending());
	if (cuda)
		CHECK_EQ(cuda->wrong, 0);
	if (vulkan)
		CHECK_EQ(vulkan->wrong, 0);
}

#ifdef CONFIG_BACKEND_CUDA
static unsigned int inside, let_go;	/* atomic */

static void stay_in_init(const char *call)
{
	if (strcmp(call, "cuInit"))
		return;
	add_one(&inside);
	UNTIL(load(&let_go));
}

static void *open_cuda(void *arg)
{
	struct dlbuf_device *dev = NULL;

	CHECK_OK(dlbuf_device_open("cuda", NULL, &dev));
	dlbuf_device_close(dev);
	return NULL;
}

/* Drivers take their time to begin, under a lock of the library's. */
TEST(a_fork_while_a_driver_begins)
{
	struct dlbuf_device *dev = NULL;
	pthread_t thread;
	pid_t pid;

	need_64_bits();
	if (KTAP_TSAN)
		SKIP("TSan lets no child of a process with threads start one");
	load_doubles();
	cuda->look = stay_in_init;
	REQUIRE(!pthread_create(&thread, NULL, open_cuda, NULL));
	UNTIL(load(&inside));
	pid = fork();
	if (!pid) {
		cuda->look = NULL;
		CHECK_ERR(dlbuf_device_open("cuda", NULL, &dev), -ESTALE);
		CHECK_OK(dlbuf_device_open("cpu", NULL, &dev));
		dlbuf_device_close(dev);
		_exit(0);
	}
	wait_for(pid);
	add_one(&let_go);
	pthread_join(thread, NULL);
	cuda->look = NULL;
	CHECK_EQ(cuda->wrong, 0);
}
#endif
#else
KTAP_SKIPPED("backend cpu is not built into this library")
#endif

KTAP_MAIN()
