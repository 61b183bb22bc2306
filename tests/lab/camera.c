// SPDX-License-Identifier: MIT
/*
 * dlbuf/camera.h on vivid, single- and multi-planar: frames in each kind of memory,
 * against the same picture by V4L2 alone; leases; ends; refusals.
 *
 *	tests/guest/nodes camera [CASE...]
 */
#include <grp.h>
#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <dlbuf/dlbuf.h>

#include "../unit/ioctl.h"
#include "common.h"
#include "thread.h"
#include "vivid.h"
#ifdef CONFIG_FAULT_INJECTION
#include "system/sys.h"
#endif

#define WIDTH 320u
#define HEIGHT 180u
#define NV12 DLBUF_FOURCC('N', 'V', '1', '2')
#define NM12 DLBUF_FOURCC('N', 'M', '1', '2')

/* Rotation of the sensor; vivid has no such control. -1: none. */
static int rotation = -1;

static int answer_ioctl(int fd, unsigned int request, void *arg)
{
	struct v4l2_control *c = arg;

	if (request != VIDIOC_G_CTRL || c->id != V4L2_CID_CAMERA_SENSOR_ROTATION || rotation < 0)
		return real_ioctl(fd, request, arg);
	c->value = rotation;
	return 0;
}

const char *cts_device = "cpu";
const struct access *cts_access;

/* $CAMERAS: the single-planar node and the multi-planar one. */
static char node[2][32];

static void find_nodes(void)
{
	const char *s = getenv("CAMERAS");

	if (!s || sscanf(s, "%31s %31s", node[0], node[1]) != 2)
		SKIP("run it behind tests/guest/nodes");
}

static void control(const char *n, const char *args)
{
	char line[128];

	snprintf(line, sizeof(line), "v4l2-ctl -d %s %s", n, args);
	CHECK_EQ(system(line), 0);
}

static struct dlbuf_camera *open_with(const char *n,
				      struct dlbuf_camera_opts opts)
{
	struct dlbuf_camera *cam = NULL;

	opts.size = sizeof(opts);
	opts.code = opts.code ? opts.code : NV12;
	opts.width = opts.width ? opts.width : WIDTH;
	opts.height = opts.height ? opts.height : HEIGHT;
	REQUIRE_OK(dlbuf_camera_open(n, &opts, &cam));
	return cam;
}
#define OPEN(n, ...) open_with(n, (struct dlbuf_camera_opts){ __VA_ARGS__ })

static struct dlbuf_frame frame_of(struct dlbuf_camera *cam)
{
	DLBUF_INFO(dlbuf_frame, frame);

	REQUIRE_OK(dlbuf_camera_frame(cam, 0, &frame));
	return frame;
}

static void give_back(const struct dlbuf_frame *frame)
{
	frame->release(frame->release_data);
}

static struct dlbuf_camera_info info_of(struct dlbuf_camera *cam)
{
	DLBUF_INFO(dlbuf_camera_info, info);

	CHECK_OK(dlbuf_camera_get_info(cam, &info));
	return info;
}

/* Leases may be the event thread's. */
static void until_held(struct dlbuf_camera *cam, uint32_t held)
{
	UNTIL(info_of(cam).held == held);
}

/* ---- pixels */

static uint64_t hash(uint64_t h, const uint8_t *p, size_t bytes)
{
	while (bytes--)
		h = (h ^ *p++) * 0x100000001b3;
	return h;
}

/* The picture by V4L2 alone, on the single-planar node. */
static uint64_t picture(void)
{
	static uint64_t sum;
	struct v4l2_buffer buf;
	struct vivid v;

	if (sum)
		return sum;
	vivid_open(&v, WIDTH, HEIGHT, 30, 2);
	REQUIRE(vivid_dequeue(&v, &buf));
	CHECK(memcmp(v.map[buf.index], v.map[buf.index] + WIDTH * HEIGHT, 999));
	sum = hash(1, v.map[buf.index], WIDTH * HEIGHT * 3 / 2);
	vivid_close(&v);
	return sum;
}

static uint64_t pixels(const struct access *access,
		       DLManagedTensorVersioned *const t[], uint32_t n)
{
	static uint8_t bytes[WIDTH * HEIGHT * 4];
	uint64_t sum = 1;

	for (uint32_t i = 0; i < n; i++) {
		const DLTensor *dl = &t[i]->dl_tensor;
		size_t row = dl->shape[1] * (dl->ndim > 2 ? dl->shape[2] : 1);
		DLBUF_INFO(dlbuf_tensor_info, info);

		CHECK_OK(dlbuf_tensor_get_info(t[i], &info));
		REQUIRE(info.end - info.first <= sizeof(bytes));
		CHECK_OK(dlbuf_acquire(t[i], DLBUF_READ, NULL, NULL));
		CHECK_EQ(access->read(t[i], info.first, bytes,
				      info.end - info.first), 0);
		CHECK_OK(dlbuf_release(t[i], NULL, NULL));
		for (int64_t y = 0; y < dl->shape[0]; y++)
			sum = hash(sum, bytes + y * dl->strides[0], row);
	}
	return sum;
}

/* Imports the frame; its tensors are deleted. */
static void check_pixels(struct dlbuf_device *dev,
			 const struct access *access,
			 const struct dlbuf_frame *frame)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n = 0;

	REQUIRE_OK(dlbuf_import_frame(dev, frame, NULL, t, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(pixels(access, t, n), picture());
	while (n)
		cts_delete(t[--n]);
}

/* ---- frames */

struct kind {
	const char *name;
	int node;
	uint32_t code, nfds;
	const char *exporter;
	const char *device;
	const struct access *access;
};

static const struct kind kinds[] = {
	{ "single/own", 0, NV12, 1, NULL, "cpu", &access_cpu },
	{ "single/own@vulkan", 0, NV12, 1, NULL, "vulkan:0", &access_vulkan },
	{ "single/udmabuf", 0, NV12, 1, "udmabuf", "cpu", &access_cpu },
	{ "single/heap", 0, NV12, 1, "heap:system", "cpu", &access_cpu },
	{ "single/udmabuf@vulkan", 0, NV12, 1, "udmabuf", "vulkan:0", &access_vulkan },
	{ "multi/own", 1, NV12, 1, NULL, "cpu", &access_cpu },
	{ "multi/own/2fds", 1, NM12, 2, NULL, "cpu", &access_cpu },
	{ "multi/own/2fds@vulkan", 1, NM12, 2, NULL, "vulkan:0", &access_vulkan },
	{ "multi/udmabuf/2fds", 1, NM12, 2, "udmabuf", "cpu", &access_cpu },
	{ "multi/heap/2fds", 1, NM12, 2, "heap:system", "cpu", &access_cpu },
};

static struct dlbuf_camera *open_kind(const struct kind *k)
{
	return OPEN(node[k->node], .code = k->code, .exporter = k->exporter);
}

/* Two rounds of all buffers, which were imported beforehand. */
static void frames(void *arg)
{
	const struct kind *k = arg;
	DLBUF_INFO(dlbuf_device_stats, stats);
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_camera_info info;
	struct dlbuf_device *dev AUTO_DEV = NULL;
	struct dlbuf_camera *cam;
	uint64_t last = 0;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	find_nodes();
	picture();
	REQUIRE_OK(dlbuf_device_open(k->device, NULL, &dev));
	cam = open_kind(k);
	info = info_of(cam);
	CHECK_STR(info.driver, "vivid");
	CHECK_EQ(info.code, k->code);
	CHECK_EQ(info.nfds, k->nfds);
	CHECK(info.width == WIDTH && info.height == HEIGHT);
	CHECK(info.rate > 0);
	for (uint32_t i = 0; i < info.buffers; i++) {
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		uint32_t n;

		REQUIRE_OK(dlbuf_camera_buffer(cam, i, &frame));
		CHECK(!frame.release && frame.nplanes == k->nfds);
		REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, t, &n));
		while (n)
			cts_delete(t[--n]);
	}
	for (uint32_t i = 0; i < 2 * info.buffers; i++) {
		frame = frame_of(cam);
		CHECK_EQ(info_of(cam).held, 1);
		CHECK(frame.flags & DLBUF_FRAME_SEQUENCE &&
		      frame.clock == DLBUF_CLOCK_MONOTONIC &&
		      frame.order == DLBUF_ORDER_COMPLETE);
		CHECK(!i || frame.sequence >= last);
		last = frame.sequence;
		check_pixels(dev, k->access, &frame);
		until_held(cam, 0);
	}
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.misses, info.buffers * k->nfds);
	dlbuf_camera_close(cam);
}

/* A smaller picture than the buffers is reported as the crop. */
static void crop(void *arg)
{
	struct dlbuf_frame frame;
	struct dlbuf_camera *cam;

	find_nodes();
	for (int i = 0; i < 2; i++) {
		/* With this input vivid keeps the place of the picture. */
		control(node[i], "-i 3");
		dlbuf_camera_close(OPEN(node[i], .width = 64, .height = 32));
		cam = OPEN(node[i]);
		frame = frame_of(cam);
		CHECK_EQ(frame.width, WIDTH);
		CHECK_EQ(frame.crop.width, 64);
		CHECK_EQ(frame.crop.height, 32);
		give_back(&frame);
		dlbuf_camera_close(cam);
		control(node[i], "-i 0");
	}
}

/* Values that are not requested stay as they are. */
/* The sensor's rotation; vivid's flips, which change while it captures. */
static void orientation(void *arg)
{
	static const int rotations[] = { -1, 0, 90, 180, 270 };

	for (size_t i = 0; i < sizeof(rotations) / sizeof(rotations[0]); i++) {
		struct dlbuf_camera *cam;
		DLBUF_INFO(dlbuf_frame, buffer);

		find_nodes();
		rotation = rotations[i];
		cam = open_with(node[0], (struct dlbuf_camera_opts){ .buffers = 4 });
		for (int flips = 0; flips < 4; flips++) {
			struct dlbuf_frame f;
			int want = dlbuf_v4l2_orientation(rotation, flips & 1, flips >> 1);

			control(node[0], flips & 1 ? "-c horizontal_flip=1" :
				"-c horizontal_flip=0");
			control(node[0], flips & 2 ? "-c vertical_flip=1" : "-c vertical_flip=0");
			f = frame_of(cam);
			CHECK_EQ(f.orientation, want);
			give_back(&f);
			CHECK_OK(dlbuf_camera_buffer(cam, 0, &buffer));
			CHECK_EQ(buffer.orientation, want);
		}
		control(node[0], "-c horizontal_flip=0 -c vertical_flip=0");
		dlbuf_camera_close(cam);
	}
}

static void defaults(void *arg)
{
	struct dlbuf_camera_info info;
	struct dlbuf_camera *cam;
	struct dlbuf_frame frame;

	find_nodes();
	for (int i = 0; i < 2; i++) {
		dlbuf_camera_close(OPEN(node[i], .width = 640, .height = 360,
					.rate = 15));
		REQUIRE_OK(dlbuf_camera_open(node[i], NULL, &cam));
		info = info_of(cam);
		CHECK(info.width == 640 && info.height == 360);
		CHECK(info.code == NV12 && info.buffers == 4);
		CHECK(info.rate > 14.9 && info.rate < 15.1);
		frame = frame_of(cam);
		CHECK(!frame.crop.width);
		give_back(&frame);
		dlbuf_camera_close(cam);
	}
}

/* ---- leases and ends */

/* The camera is closed, and opened again, while frames of it are out. */
static void outlives(void *arg)
{
	DLManagedTensorVersioned *t[2][DLBUF_MAX_PLANES];
	struct dlbuf_frame frame, bare;
	struct dlbuf_camera *cam, *again;
	struct dlbuf_device *dev AUTO_DEV = NULL;
	unsigned int fds, out;
	uint32_t n = 0;

	find_nodes();
	picture();
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &dev));
	fds = cts_count_fds();
	for (int i = 0; i < 2; i++) {
		cam = OPEN(node[i], .code = i ? NM12 : NV12);
		for (int j = 0; j < 2; j++) {
			frame = frame_of(cam);
			REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, t[j],
						      &n));
		}
		bare = frame_of(cam);
		CHECK_EQ(info_of(cam).held, 3);
		dlbuf_camera_close(cam);
		again = OPEN(node[i], .code = i ? NM12 : NV12);
		for (int j = 0; j < 4; j++) {
			frame = frame_of(again);
			check_pixels(dev, &access_cpu, &frame);
		}
		CHECK_EQ(fcntl(bare.planes[0].fd, F_GETFD), FD_CLOEXEC);
		out = cts_count_fds();
		give_back(&bare);
		CHECK_EQ(cts_count_fds(), out - bare.nplanes);
		for (int j = 0; j < 2; j++) {
			CHECK_EQ(pixels(&access_cpu, t[j], n), picture());
			for (uint32_t p = 0; p < n; p++)
				cts_delete(t[j][p]);
		}
		dlbuf_camera_close(again);
		dlbuf_device_trim(dev, 0);
		CHECK_EQ(cts_count_fds(), fds);
	}
}

static void all_held(void *arg)
{
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_frame held[VIDEO_MAX_FRAME];
	struct dlbuf_camera *cam;
	uint32_t n;

	find_nodes();
	cam = OPEN(node[0], .buffers = 2);
	n = info_of(cam).buffers;
	for (uint32_t i = 0; i < n; i++)
		held[i] = frame_of(cam);
	CHECK_ERR(dlbuf_camera_frame(cam, 1, &frame), -ETIME);
	CHECK_SAYS("the program, or a receiver of its frames, holds all of its");
	CHECK(!poll(&(struct pollfd){ .fd = info_of(cam).fd, .events = POLLIN },
		    1, 0));
	give_back(&held[0]);
	held[0] = frame_of(cam);
	for (uint32_t i = 0; i < n; i++)
		give_back(&held[i]);
	/* None has come yet, or one has. */
	control(node[0], "-c percentage_of_dropped_buffers=100");
	while (!dlbuf_camera_frame(cam, 1, &frame))
		give_back(&frame);
	CHECK_SAYS("gave no frame before the deadline, after ");
	control(node[0], "-c percentage_of_dropped_buffers=0");
	dlbuf_camera_close(cam);
}

/* V4L2's number has 32 bits, and vivid's begins 128 before their end. */
static void sequence(void *arg)
{
	struct dlbuf_camera *cam;
	uint64_t last, now = 0;

	find_nodes();
	control(node[0], "-c wrap_sequence_number=1");
	cam = OPEN(node[0], .width = 64, .height = 32);
	for (last = 0; now <= UINT32_MAX; last = now) {
		struct dlbuf_frame frame = frame_of(cam);

		now = frame.sequence;
		give_back(&frame);
		/* It drops frames for which it has no time. */
		if (!CHECK(!last ? now >= UINT32_MAX - 200 : now >= last) ||
		    !CHECK(!last || now - last < 200))
			break;
	}
	control(node[0], "-c wrap_sequence_number=0");
	dlbuf_camera_close(cam);
}

struct waiter {
	struct dlbuf_camera *cam;
	pid_t tid;		/* atomic */
	int ret;
};

static void *wait_for_frame(void *arg)
{
	DLBUF_INFO(dlbuf_frame, frame);
	struct waiter *w = arg;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	w->ret = dlbuf_camera_frame(w->cam, 0, &frame);
	return NULL;
}

/* A thread that waits for a frame, and poll(), see the end. */
static void stopped(void *arg)
{
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_frame held[VIDEO_MAX_FRAME];
	struct waiter w = { .ret = 1 };
	struct pollfd p = { .events = POLLIN };
	struct v4l2_capability cap;
	struct dlbuf_camera *again;
	pthread_t thread;
	uint32_t n;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the thread's stack");
	find_nodes();
	w.cam = OPEN(node[1], .buffers = 2);
	p.fd = info_of(w.cam).fd;
	n = info_of(w.cam).buffers;
	for (uint32_t i = 0; i < n; i++)
		held[i] = frame_of(w.cam);
	REQUIRE(!pthread_create(&thread, NULL, wait_for_frame, &w));
	UNTIL(__atomic_load_n(&w.tid, __ATOMIC_ACQUIRE));
	UNTIL(thread_polls(w.tid));
	dlbuf_camera_stop(w.cam);
	dlbuf_camera_stop(w.cam);
	pthread_join(thread, NULL);
	CHECK_EQ(w.ret, -ECANCELED);
	CHECK_ERR(dlbuf_camera_frame(w.cam, 0, &frame), -ECANCELED);
	CHECK_ERR_SAYS(dlbuf_camera_buffer(w.cam, 0, &frame), -ECANCELED, "was stopped");
	CHECK_EQ(poll(&p, 1, 0), 1);
	/* The node is closed, and no other file has its number. */
	CHECK(ioctl(p.fd, VIDIOC_QUERYCAP, &cap) < 0 && errno == ENOTTY);
	CHECK_EQ(info_of(w.cam).held, n);
	again = OPEN(node[1]);
	frame = frame_of(again);
	give_back(&frame);
	dlbuf_camera_close(again);
	for (uint32_t i = 0; i < n; i++)
		give_back(&held[i]);
	CHECK_EQ(info_of(w.cam).held, 0);
	dlbuf_camera_close(w.cam);
}

static void *close_camera(void *arg)
{
	dlbuf_camera_close(arg);
	return NULL;
}

/* Leases fire while the camera closes, on another thread. */
static void races(void *arg)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	find_nodes();
	for (int i = 0; i < 20; i++) {
		struct dlbuf_camera *cam = OPEN(node[i % 2]);
		struct dlbuf_frame held[3];
		pthread_t thread;

		for (int j = 0; j < 3; j++)
			held[j] = frame_of(cam);
		REQUIRE(!pthread_create(&thread, NULL, close_camera, cam));
		for (int j = 0; j < 3; j++)
			give_back(&held[j]);
		pthread_join(thread, NULL);
	}
}

static int in_child(struct dlbuf_camera *cam, const struct dlbuf_frame *held)
{
	DLBUF_INFO(dlbuf_frame, frame);
	DLBUF_INFO(dlbuf_camera_info, info);

	if (dlbuf_camera_frame(cam, 0, &frame) != -ESTALE ||
	    dlbuf_camera_buffer(cam, 0, &frame) != -ESTALE ||
	    dlbuf_camera_get_info(cam, &info) != -ESTALE ||
	    !strstr(dlbuf_last_error(), "the process that forked"))
		return 1;
	give_back(held);
	dlbuf_camera_stop(cam);
	dlbuf_camera_close(cam);
	if (fcntl(held->planes[0].fd, F_GETFD) != -1)
		return 2;
	return 0;
}

/* The camera belongs to the parent; the child cannot affect it. */
static void forked(void *arg)
{
	struct dlbuf_camera *cam;
	struct dlbuf_frame held, frame;
	int status = -1;
	pid_t pid;

	find_nodes();
	cam = OPEN(node[0]);
	held = frame_of(cam);
	pid = fork();
	if (!pid)
		_exit(in_child(cam, &held));
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(info_of(cam).held, 1);
	for (int i = 0; i < 6; i++) {
		frame = frame_of(cam);
		CHECK(frame.release_data != held.release_data);
		give_back(&frame);
	}
	give_back(&held);
	CHECK_EQ(info_of(cam).held, 0);
	dlbuf_camera_close(cam);
}

static void unplugged(void *arg)
{
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_camera *cam;
	struct dlbuf_frame held;

	find_nodes();
	for (int i = 0; i < 2; i++) {
		cam = OPEN(node[i]);
		held = frame_of(cam);
		control(node[i], "-c disconnect=1");
		/* Frames that were complete come first. */
		while (!dlbuf_camera_frame(cam, 0, &frame))
			give_back(&frame);
		CHECK_ERR(dlbuf_camera_frame(cam, 0, &frame), -ENODEV);
		CHECK_SAYS(" was unplugged after ");
		give_back(&held);
		dlbuf_camera_close(cam);
		/* The node is available again when no process has it open. */
		dlbuf_camera_close(OPEN(node[i]));
	}
}

/* The loop of camera.h, as it is printed, with a camera or imports that fail on the way. */
static struct {
	int frames, fails_at;
	const char *how;
	char said[256];
} shown;

static void use(const DLTensor *image)
{
	struct rlimit few = { 4, 4096 };

	CHECK(image->data);
	if (++shown.frames != shown.fails_at)
		return;
	if (strcmp(shown.how, "no fds"))
		control(node[0], shown.how);
	else
		CHECK_OK(setrlimit(RLIMIT_NOFILE, &few));
}

#define errx(status, ...) FATAL(__VA_ARGS__)
#define warnx(...) snprintf(shown.said, sizeof(shown.said), __VA_ARGS__)
#define dlbuf_camera_close(c) (CHECK_EQ(info_of(c).held, 0), dlbuf_camera_close(c))
static void run_shown(void)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_camera *cam;
	uint32_t n;

#include "generated/camera-1.inc"
}
#undef errx
#undef warnx
#undef dlbuf_camera_close

static void readme(void *arg)
{
	static const struct {
		const char *how, *says;
		int fails_at;
	} ways[] = {
		{ "-c disconnect=1", " was unplugged after ", 7 },
		{ "no fds", "Too many open files", 2 },
	};
	struct rlimit limit;

	find_nodes();
	REQUIRE(!strcmp(node[0], "/dev/video0"));
	CHECK_OK(getrlimit(RLIMIT_NOFILE, &limit));
	for (int i = 0; i < 2; i++) {
		shown.how = ways[i].how;
		shown.fails_at = ways[i].fails_at;
		shown.frames = 0;
		run_shown();
		CHECK_OK(setrlimit(RLIMIT_NOFILE, &limit));
		CHECK(shown.frames >= shown.fails_at);
		CHECK_MSG(strstr(shown.said, ways[i].says), "it printed '%s'",
			  shown.said);
	}
}

/*
 * A lease that cannot queue its buffer reports the error to the next call, and to a call
 * that waits: here the camera has no other buffer. Then all buffers are used again.
 */
static void not_queued(void *arg)
{
	struct dlbuf_frame held[VIDEO_MAX_FRAME];
	struct waiter w = { .ret = 1 };
	DLBUF_INFO(dlbuf_frame, frame);
	struct pollfd p = { .events = POLLIN };
	pthread_t thread;
	uint32_t n;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the thread's stack");
	find_nodes();
	for (int waits = 0; waits < 2; waits++) {
		w = (struct waiter){ .cam = OPEN(node[0], .buffers = 2) };
		p.fd = info_of(w.cam).fd;
		n = info_of(w.cam).buffers;
		for (uint32_t i = 0; i < n; i++)
			held[i] = frame_of(w.cam);
		if (waits) {
			REQUIRE(!pthread_create(&thread, NULL, wait_for_frame, &w));
			UNTIL(__atomic_load_n(&w.tid, __ATOMIC_ACQUIRE));
			UNTIL(thread_polls(w.tid));
		}
		control(node[0], "-c inject_vidioc_qbuf_error=1");
		give_back(&held[0]);
		if (waits) {
			pthread_join(thread, NULL);
			CHECK_EQ(w.ret, -EIO);
		} else {
			CHECK_EQ(poll(&p, 1, -1), 1);
			CHECK(p.revents & POLLERR);
			CHECK_ERR(dlbuf_camera_frame(w.cam, 0, &frame), -EIO);
			CHECK_SAYS(": VIDIOC_QBUF: Invalid argument");
		}
		for (uint32_t i = 1; i < n; i++)
			give_back(&held[i]);
		for (uint32_t i = 0; i < n; i++)
			held[i] = frame_of(w.cam);
		CHECK_EQ(info_of(w.cam).held, n);
		for (uint32_t i = 0; i < n; i++)
			give_back(&held[i]);
		dlbuf_camera_close(w.cam);
	}
}

/* ---- refusals */

static void refuse(const char *n, struct dlbuf_camera_opts opts, int err,
		   const char *says)
{
	struct dlbuf_camera *cam = (void *)1;

	opts.size = sizeof(opts);
	if (CHECK_ERR(dlbuf_camera_open(n, &opts, &cam), err))
		CHECK_SAYS(says);
	CHECK(cam == (void *)1);
}
#define REFUSE(n, err, says, ...) \
	refuse(n, (struct dlbuf_camera_opts){ __VA_ARGS__ }, err, says)

static void refused_nodes(void *arg)
{
	char fifo[] = "/tmp/camera-fifo", out[32];

	find_nodes();
	mkfifo(fifo, 0600);
	REFUSE("/nonexistent/video0", -ENOENT, "there is no such camera");
	REFUSE("/dev/null", -ENOTTY, "/dev/null is not a V4L2 node (VIDIOC_QUERYCAP");
	REFUSE("/", -ENOTTY, "not a device node");
	REFUSE(fifo, -ENOTTY, "not a device node");
	REFUSE("/proc/self/exe", -ENOTTY, "not a device node");
	unlink(fifo);
	/* A number that no driver has. */
	mknod(fifo, S_IFCHR | 0600, makedev(81, 250));
	REFUSE(fifo, -ENXIO, "there is no such camera");
	unlink(fifo);
	/* vivid's output is the node after its camera. */
	snprintf(out, sizeof(out), "/dev/video%d",
		 atoi(node[0] + strlen("/dev/video")) + 1);
	REFUSE(out, -EOPNOTSUPP, "does not capture video");
}

static void no_permission(void *arg)
{
	int status = -1;
	pid_t pid;

	find_nodes();
	pid = fork();
	if (!pid) {
		struct dlbuf_camera *cam;

		if (setresgid(65534, 65534, 65534) || setgroups(0, NULL) ||
		    setresuid(65534, 65534, 65534))
			_exit(2);
		_exit(dlbuf_camera_open(node[0], NULL, &cam) != -EACCES ||
		      !strstr(dlbuf_last_error(), "cannot be opened"));
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

static void refused_opts(void *arg)
{
	struct dlbuf_camera *cam;

	find_nodes();
	REFUSE(node[0], -EINVAL, "camera flags 0x2", .flags = 2);
	REFUSE(node[0], -EINVAL, "frames per second", .rate = -1);
	REFUSE(node[0], -EINVAL, "frames per second", .rate = NAN);
	REFUSE(node[0], -EINVAL, "no exporter is named 'a'", .exporter = "a");
	REFUSE(node[0], -EINVAL, "a camera has 1 to 32 buffers, not 33",
	       .buffers = 33);
	REFUSE(node[0], -EOPNOTSUPP, "does not capture in H264; it has ",
	       .code = DLBUF_FOURCC('H', '2', '6', '4'));
	REFUSE(node[0], -EOPNOTSUPP, "does not capture in NM12", .code = NM12);
	REFUSE(NULL, -EINVAL, "node is NULL");
	CHECK_ERR(dlbuf_camera_open(node[0], NULL, NULL), -EINVAL);
	/* The node is as it was. */
	cam = OPEN(node[0]);
	dlbuf_camera_close(cam);
	dlbuf_camera_close(NULL);
	dlbuf_camera_stop(NULL);
}

static void refused_calls(void *arg)
{
	struct dlbuf_frame unset = { 0 };
	struct dlbuf_camera_info info = { 0 };
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_camera *cam;

	find_nodes();
	cam = OPEN(node[0]);
	CHECK_ERR(dlbuf_camera_frame(cam, 0, &unset), -EINVAL);
	CHECK_ERR(dlbuf_camera_frame(cam, 0, NULL), -EINVAL);
	CHECK_ERR(dlbuf_camera_frame(NULL, 0, &frame), -EINVAL);
	CHECK_ERR(dlbuf_camera_buffer(cam, 0, &unset), -EINVAL);
	CHECK_ERR(dlbuf_camera_buffer(cam, info_of(cam).buffers, &frame),
		  -EINVAL);
	CHECK_ERR(dlbuf_camera_get_info(cam, &info), -EINVAL);
	CHECK_ERR(dlbuf_camera_get_info(NULL, &info), -EINVAL);
	CHECK_EQ(info_of(cam).held, 0);
	dlbuf_camera_close(cam);
}

/* One captures; another one only looks. */
static void busy(void *arg)
{
	DLBUF_OPTS(dlbuf_camera_opts, probe, .flags = DLBUF_CAMERA_PROBE);
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_camera *cam, *other = NULL;

	find_nodes();
	for (int i = 0; i < 2; i++) {
		cam = OPEN(node[i]);
		REFUSE(node[i], -EBUSY, "is busy, another program or another "
		       "part of this one uses it (VIDIOC_S_FMT: ");
		REQUIRE_OK(dlbuf_camera_open(node[i], &probe, &other));
		CHECK_STR(info_of(other).driver, "vivid");
		CHECK_ERR(dlbuf_camera_frame(other, 0, &frame), -EINVAL);
		CHECK_ERR(dlbuf_camera_buffer(other, 0, &frame), -EINVAL);
		dlbuf_camera_close(other);
		frame = frame_of(cam);
		give_back(&frame);
		dlbuf_camera_close(cam);
	}
}

/* ---- every call fails once */

#ifdef CONFIG_FAULT_INJECTION
static int walk(const struct kind *k)
{
	DLBUF_OPTS(dlbuf_camera_opts, opts, .rate = 30, .code = k->code,
		   .exporter = k->exporter);
	DLBUF_INFO(dlbuf_frame, frame);
	DLBUF_INFO(dlbuf_frame, held);
	struct dlbuf_camera *cam;
	int ret;

	ret = dlbuf_camera_open(node[k->node], &opts, &cam);
	if (ret)
		return ret;
	ret = dlbuf_camera_frame(cam, 0, &held);
	for (int i = 0; !ret && i < 2; i++) {
		ret = dlbuf_camera_frame(cam, 0, &frame);
		if (!ret)
			give_back(&frame);
	}
	if (held.release)
		give_back(&held);
	dlbuf_camera_close(cam);
	return ret;
}

static void every_call(void *arg)
{
	const struct kind *k = arg;
	unsigned long calls, failed = 0;
	unsigned int fds;

	find_nodes();
	fault_at(0);
	REQUIRE_OK(walk(k));
	calls = fault_count();
	CHECK(calls > 10);
	fds = cts_count_fds();
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		fault_at(n);
		ret = walk(k);
		fault_at(0);
		failed += ret < 0;
		CHECK_MSG(ret <= 0 && (!ret || dlbuf_last_error()[0]), "%d",
			  ret);
		if (!CHECK_EQ(cts_count_fds(), fds)) {
			ktap_note(NULL, 0, "after the failure of call %lu of "
				  "%lu: %d, %s", n, calls, ret,
				  dlbuf_last_error());
			break;
		}
	}
	ktap_note(NULL, 0, "%lu calls, %lu of their failures ended the walk",
		  calls, failed);
	CHECK(failed > 10);
}
#endif

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		ktap_fn fn;
	} cases[] = {
		{ "crop", crop },
		{ "orientation", orientation },
		{ "defaults", defaults },
		{ "outlives", outlives },
		{ "all-held", all_held },
		{ "sequence", sequence },
		{ "stopped", stopped },
		{ "races", races },
		{ "forked", forked },
		{ "unplugged", unplugged },
		{ "readme", readme },
		{ "not-queued", not_queued },
		{ "refuses/nodes", refused_nodes },
		{ "refuses/permission", no_permission },
		{ "refuses/opts", refused_opts },
		{ "refuses/calls", refused_calls },
		{ "busy", busy },
	};

	ktap_prefix("%s", "camera");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		ktap_case(cts_name("frames/%s", kinds[i].name), frames,
			  (void *)&kinds[i]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ktap_case(cases[i].name, cases[i].fn, NULL);
#ifdef CONFIG_FAULT_INJECTION
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].access == &access_cpu)
			ktap_case(cts_name("fault/%s", kinds[i].name),
				  every_call, (void *)&kinds[i]);
#endif
	return ktap_run(argc, argv);
}
