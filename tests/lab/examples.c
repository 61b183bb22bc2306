// SPDX-License-Identifier: MIT
/*
 * The code in the comments of include/dlbuf/ and of docs/prepare.md as it is printed: compiled,
 * and run. Those of camera.h and vpi.h are in camera.c and vpi.c. abi@headers fails for a block
 * that no test has.
 *
 *	tests/guest/nodes examples [CASE...]
 */
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "cts/cts.h"

const char *cts_device = "cpu";
const struct access *cts_access;

#define W 64
#define H 48

/* errx() of a program ends it, and is a failure here. */
#define errx(status, ...) FATAL(__VA_ARGS__)

static void count(void *data)
{
	++*(int *)data;
}

static void base(void *arg)
{
#include "generated/base-1.inc"

	CHECK_EQ(opts.size, sizeof(opts));
	CHECK_EQ(opts.access, DLBUF_READ);
}

static void dlbuf(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", 1080 * 1920);
	unsigned char seen = 0;

	cts_poke(fd, 0, &(unsigned char){ 7 }, 1);
#define printf(format, data) (seen = *(const unsigned char *)(data))
#include "generated/dlbuf-1.inc"
#undef printf
	CHECK_EQ(seen, 7);
}

static void layout(void *arg)
{
#include "generated/layout-1.inc"
	int fd;
#include "generated/layout-2.inc"
	CHECK_EQ(lseek(fd, 0, SEEK_END), (4096 + 1080 * 5760 + 4095) / 4096 * 4096);
	close(fd);
	CHECK_EQ(first, 4096);
	CHECK_EQ(end, 4096 + 1080 * 5760);
}

/* printf() of the examples below: the last line that they print. */
static char printed[1024];
static int lines;
#define printf(...) (lines++, snprintf(printed, sizeof(printed), __VA_ARGS__))
#include "generated/device-1.inc"

static void each(void *arg)
{
	lines = 0;
	CHECK_OK(dlbuf_device_each(show, NULL));
	CHECK(lines >= 8);
	CHECK_MSG(strstr(printed, ": "), "it printed '%s'", printed);
}

static void format(void *arg)
{
#include "generated/format-1.inc"
	CHECK_STR(printed, "2 tensors: Y,UV\n");
}

static void buffer(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", 4096);
	unsigned long long ino, bytes;

#include "generated/buffer-1.inc"
	CHECK_EQ(sscanf(printed, "inode %llu, %llu bytes", &ino, &bytes), 2);
	CHECK(ino && bytes == 4096);
}

#define show show_trial
#include "generated/prepare-2.inc"
#undef show

/* On the CPU alone, because software drivers compile for minutes. */
static void fastest(void *arg)
{
	static const char *const libraries[] = {
		"DLBUF_VULKAN_LIBRARY", "DLBUF_OPENCL_LIBRARY", "DLBUF_LEVELZERO_LIBRARY",
		"DLBUF_GLES_LIBRARY",
	};
	int fd AUTO_FD = cts_alloc("udmabuf", W * H);
	const struct dlbuf_frame frame = PICTURE(W, H, DLBUF_FOURCC('G', 'R', 'E', 'Y'),
						 DLBUF_CODE_V4L2, 1,
		.planes = { { .fd = fd, .pitch = W } });
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8);
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_device *dev = NULL;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		setenv(libraries[i], "none", 1);
	lines = 0;
	REQUIRE_OK(dlbuf_prepare_fastest(&frame, &opts, 0, show_trial, NULL, &dev));
	CHECK(lines > 1);
	CHECK_MSG(strstr(printed, ": "), "it printed '%s'", printed);
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.name, "cpu");
	dlbuf_device_close(dev);
}
#undef printf

static void alloc(void *arg)
{
	struct dlbuf_device *dev = cts_open();
	off_t size = 0;

#define share(fd) (size = lseek(fd, 0, SEEK_END))
#include "generated/alloc-1.inc"
#undef share
	CHECK_EQ(size, (480 * 640 * 3 + 4095) / 4096 * 4096);
	cts_delete(t);
	dlbuf_device_close(dev);
}

/* The view begins where the text says. */
static void tensor(void *arg)
{
	const int64_t whole[] = { 1080, 1920 };
	const DLTensor layout = LAYOUT8(2, whole);
	struct dlbuf_device *cpu = cts_open();
	int fd AUTO_FD = cts_alloc("udmabuf", 1080 * 1920);
	DLManagedTensorVersioned *t;

	cts_poke(fd, 50 * 1920 + 60, &(unsigned char){ 5 }, 1);
	REQUIRE_OK(dlbuf_import(cpu, fd, &layout, NULL, &t));
#include "generated/tensor-1.inc"
	REQUIRE_OK(dlbuf_acquire(view, DLBUF_READ, NULL, NULL));
	CHECK_EQ(*(unsigned char *)view->dl_tensor.data, 5);
	CHECK_EQ(view->dl_tensor.shape[1], 200);
	cts_delete(view);
	cts_delete(t);
	dlbuf_device_close(cpu);
}

static void fence_(void *arg)
{
	struct dlbuf_device *cpu = cts_open();
	const int64_t shape = 8;
	const DLTensor layout = LAYOUT8(1, &shape);
	int fd AUTO_FD = cts_alloc("udmabuf", 8);
	DLManagedTensorVersioned *t;
	void *stream = NULL;

	REQUIRE_OK(dlbuf_import(cpu, fd, &layout, NULL, &t));
	REQUIRE_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
#define warnx(...) FATAL(__VA_ARGS__)
#include "generated/fence-1.inc"
#undef warnx
	CHECK(fence == -1 && status == 1);
	cts_delete(t);
	dlbuf_device_close(cpu);
}

static struct dlbuf_device *opened;
static int events;

static void open_devices(void)
{
	int event AUTO_FD = eventfd(0, EFD_CLOEXEC);

	opened = cts_open();
	REQUIRE_OK(dlbuf_fence_notify(event, count, &events));
	CHECK_EQ(events, 0);
	REQUIRE(!eventfd_write(event, 1));
}

/* The loop ends when it has run the callback of the event. */
static void dispatch(void *arg)
{
#define poll(...) (events ? 0 : poll(__VA_ARGS__))
#include "generated/fence-2.inc"
#undef poll
	CHECK_EQ(events, 1);
	dlbuf_device_close(opened);
	close(p.fd);
	CHECK_OK(dlbuf_dispatch_fd(NULL));
}

#include "generated/device-2.inc"

/* The cache has no import of it any more, and no fd is left. */
static void device(void *arg)
{
	struct dlbuf_device *cpu = cts_open();
	DLBUF_INFO(dlbuf_device_stats, stats);
	int fd = cts_alloc("udmabuf", 4096);

	cts_delete(cts_import(cpu, fd, 4096));
	CHECK_OK(dlbuf_device_get_stats(cpu, &stats));
	CHECK_EQ(stats.idle, 1);
	remove_buffer(cpu, fd);
	CHECK_OK(dlbuf_device_get_stats(cpu, &stats));
	CHECK_EQ(stats.idle, 0);
	dlbuf_device_close(cpu);
}

struct buffer {
	bool failed, queued;
};
#define queue_again(buffer) ((buffer)->queued = true)
#include "generated/frame-3.inc"
#undef queue_again

/* A frame on two devices has one lease, which fires once. */
static void frame(void *arg)
{
	struct dlbuf_device *cpu = cts_open(), *gpu = cts_open();
	DLManagedTensorVersioned *a[DLBUF_MAX_PLANES], *b[DLBUF_MAX_PLANES];
	int fd AUTO_FD = cts_alloc("udmabuf", W * H), fired = 0, *buffer = &fired;
	struct dlbuf_frame frame = PICTURE(W, H, DLBUF_FOURCC('G', 'R', 'E', 'Y'),
					   DLBUF_CODE_V4L2, 1,
		.planes = { { .fd = fd, .pitch = W } });
	struct buffer state = { .failed = true };
	uint32_t na = 0, nb = 0;

#define queue_again count
#include "generated/frame-1.inc"
	CHECK_EQ(na + nb, 2);
	a[0]->deleter(a[0]);
	CHECK_EQ(fired, 0);
	b[0]->deleter(b[0]);
	CHECK_EQ(fired, 1);
	frame.release = count;
	frame.release_data = &fired;
	{
#include "generated/frame-2.inc"
	}
	CHECK(!frame.release && frame.lease);
	dlbuf_lease_drop(frame.lease);
	CHECK_EQ(fired, 2);
	frame.lease = NULL;
	frame.release = give_back;
	frame.release_data = &state;
	REQUIRE_OK(dlbuf_import_frame(cpu, &frame, NULL, a, &na));
	CHECK(!state.queued);
	cts_delete(a[0]);
	CHECK(state.queued && !state.failed);
	dlbuf_device_close(cpu);
	dlbuf_device_close(gpu);
}

static void sync_(void *arg)
{
	struct dlbuf_device *cpu = cts_open();
	const int64_t shape = 8;
	const DLTensor layout = LAYOUT8(1, &shape);
	int fd AUTO_FD = cts_alloc("udmabuf", 8), worked = 0;
	DLManagedTensorVersioned *t;
	void *stream = NULL;

	REQUIRE_OK(dlbuf_import(cpu, fd, &layout, NULL, &t));
#define work(dl, stream) (worked = (dl)->data && !(stream))
#include "generated/sync-1.inc"
	CHECK(worked);
	CHECK_ERR(dlbuf_release(t, NULL, NULL), -EINVAL);
	t->deleter(t);
	dlbuf_device_close(cpu);
}

static void send_it(int sock, DLManagedTensorVersioned *t)
{
#include "generated/socket-1.inc"
}

static int receive_it(int sock)
{
	struct dlbuf_device *cpu = cts_open();
	int got;

#include "generated/socket-2.inc"
	REQUIRE_OK(dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL));
	got = n == 1 ? *(const unsigned char *)t[0]->dl_tensor.data : -1;
	t[0]->deleter(t[0]);
	dlbuf_device_close(cpu);
	return got;
}

static void socket_(void *arg)
{
	struct dlbuf_device *cpu;
	const int64_t shape = 8;
	const DLTensor layout = LAYOUT8(1, &shape);
	int fd AUTO_FD = cts_alloc("udmabuf", 8), sock[2], status = -1;
	DLManagedTensorVersioned *t;
	pid_t pid;

	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock));
	cts_poke(fd, 0, &(unsigned char){ 9 }, 1);
	pid = fork();
	REQUIRE(pid >= 0);
	if (!pid)
		_exit(receive_it(sock[1]));
	cpu = cts_open();
	REQUIRE_OK(dlbuf_import(cpu, fd, &layout, NULL, &t));
	send_it(sock[0], t);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
	t->deleter(t);
	dlbuf_device_close(cpu);
	close(sock[0]);
	close(sock[1]);
}

static const char *camera_node(void)
{
	const char *nodes = getenv("CAMERAS");

	if (!nodes || strncmp(nodes, "/dev/video0 ", 12))
		SKIP("run it behind tests/guest/nodes, whose first camera is /dev/video0");
	return "/dev/video0";
}

static void pool(void *arg)
{
	struct dlbuf_device *dev = cts_open();
	struct v4l2_buffer got = { .memory = V4L2_MEMORY_DMABUF,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE };

	camera_node();
#include "generated/pool-1.inc"
	CHECK_EQ(req.count, 4);
	CHECK_EQ(ioctl(video, VIDIOC_STREAMON, &got.type), 0);
	CHECK_EQ(ioctl(video, VIDIOC_DQBUF, &got), 0);
	CHECK(got.bytesused == 640 * 360 * 3 / 2 && !(got.flags & V4L2_BUF_FLAG_ERROR));
	close(video);
	dlbuf_pool_destroy(pool);
	dlbuf_device_close(dev);
}

static void page(void *arg)
{
	DLManagedTensorVersioned *input;
	struct dlbuf_prepare *plan;
	struct dlbuf_camera *camera;
	struct dlbuf_device *cpu;
	double sum = 0;

	camera_node();
#define run_model(input)					\
	do {							\
		for (int i = 0; i < 3 * 640 * 640; i++)		\
			sum += (double)((float *)(input))[i];	\
	} while (0)
#include "generated/prepare.md-1.inc"
#undef run_model
	CHECK(sum > 1000 && sum < 3 * 640 * 640);
	CHECK_OK(dlbuf_release(input, NULL, NULL));
	input->deleter(input);
	dlbuf_prepare_destroy(plan);
	dlbuf_camera_close(camera);
	dlbuf_device_close(cpu);
}

/* The loop ends when the camera is unplugged. */
static void prepare(void *arg)
{
	char line[128], said[256] = "";
	int frames = 0;
	bool inside = true;

	snprintf(line, sizeof(line), "v4l2-ctl -d %s -c disconnect=1", camera_node());
#define run_model(input)						\
	do {								\
		double sum = 0;						\
									\
		for (int i = 0; i < 3 * 640 * 640; i++)			\
			sum += (double)(input)[i];			\
		inside &= sum > 1000 && sum < 3 * 640 * 640;		\
		if (++frames == 3)					\
			CHECK_EQ(system(line), 0);			\
	} while (0)
#define warnx(...) snprintf(said, sizeof(said), __VA_ARGS__)
#include "generated/prepare-1.inc"
	CHECK(frames >= 3 && inside);
	CHECK_MSG(strstr(said, " was unplugged after "), "it printed '%s'", said);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		ktap_fn fn;
	} cases[] = {
		{ "base", base }, { "dlbuf", dlbuf }, { "layout", layout }, { "device", device },
		{ "frame", frame }, { "each", each }, { "format", format }, { "buffer", buffer },
		{ "alloc", alloc }, { "tensor", tensor }, { "fence", fence_ },
		{ "dispatch", dispatch }, { "sync", sync_ }, { "socket", socket_ },
		{ "pool", pool }, { "page", page }, { "prepare", prepare },
		{ "fastest", fastest },
	};

	ktap_prefix("%s", "examples");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ktap_case(cases[i].name, cases[i].fn, NULL);
	return ktap_run(argc, argv);
}
