// SPDX-License-Identifier: MIT
/*
 * dlbuf_alloc() and pools for devices and V4L2 nodes together, on vivid: a frame that
 * a camera captures into one buffer and every device reads; the refusals and their
 * parties; what the library remembers of them; the state of the node.
 *
 *	tests/guest/nodes --contiguous alloc [CASE...]
 */
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <dlbuf/dlbuf.h>

#include "vivid.h"
#ifdef CONFIG_FAULT_INJECTION
#include "system/sys.h"
#endif

#define WIDTH 640u
#define HEIGHT 360u
#define NV12 DLBUF_FOURCC('N', 'V', '1', '2')
#define NM12 DLBUF_FOURCC('N', 'M', '1', '2')

const char *cts_device = "cpu";
const struct access *cts_access;

/* $CAMERAS: single-planar, multi-planar, and one for contiguous memory. */
enum { SINGLE, MULTI, CONTIGUOUS, NODES };
static char node[NODES][32];

static int open_node(int which)
{
	const char *s = getenv("CAMERAS");
	int fd;

	if (!s || sscanf(s, "%31s %31s %31s", node[0], node[1], node[2]) != 3)
		SKIP("run it behind tests/guest/nodes --contiguous");
	fd = open(node[which], O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		FATAL("%s: %s", node[which], strerror(errno));
	return fd;
}

static struct v4l2_format set_format(int fd, uint32_t type, uint32_t pitch)
{
	struct v4l2_format fmt = { .type = type };

	if (type == V4L2_BUF_TYPE_VIDEO_CAPTURE) {
		fmt.fmt.pix.width = WIDTH;
		fmt.fmt.pix.height = HEIGHT;
		fmt.fmt.pix.pixelformat = NV12;
		fmt.fmt.pix.bytesperline = pitch;
	} else {
		fmt.fmt.pix_mp.width = WIDTH;
		fmt.fmt.pix_mp.height = HEIGHT;
		fmt.fmt.pix_mp.pixelformat = NM12;
		fmt.fmt.pix_mp.num_planes = 2;
	}
	CHECK_EQ(ioctl(fd, VIDIOC_S_FMT, &fmt), 0);
	return fmt;
}

static int request(int fd, uint32_t memory, uint32_t n)
{
	struct v4l2_requestbuffers req = {
		.count = n,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = memory,
	};

	return ioctl(fd, VIDIOC_REQBUFS, &req) < 0 ? -errno : 0;
}

/* One frame into that dma-buf, by V4L2 alone. */
static void capture(int fd, int dmabuf)
{
	struct v4l2_buffer buf = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = V4L2_MEMORY_DMABUF,
		.m.fd = dmabuf,
	};
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int type = buf.type;

	CHECK_EQ(request(fd, V4L2_MEMORY_DMABUF, 1), 0);
	if (ioctl(fd, VIDIOC_QBUF, &buf) || ioctl(fd, VIDIOC_STREAMON, &type) ||
	    poll(&p, 1, -1) <= 0 || ioctl(fd, VIDIOC_DQBUF, &buf))
		FATAL("no frame of the camera: %s", strerror(errno));
	CHECK(!(buf.flags & V4L2_BUF_FLAG_ERROR));
	CHECK_EQ(ioctl(fd, VIDIOC_STREAMOFF, &type), 0);
	CHECK_EQ(request(fd, V4L2_MEMORY_DMABUF, 0), 0);
}

/* ---- trials */

struct trials {
	unsigned int n;
	struct dlbuf_alloc_report of[16];
};

static void note(const struct dlbuf_alloc_report *report, void *data)
{
	struct trials *t = data;

	if (t->n < 16)
		t->of[t->n++] = *report;
	ktap_note(NULL, 0, "%s: %d %s %s", report->exporter, report->status,
		  report->party, report->reason);
}

/* The last one is the only success, and the others name the party and the reason. */
static void check_trials(const struct trials *t)
{
	CHECK(t->n > 0 && t->n < 16);
	for (unsigned int i = 0; i < t->n; i++) {
		CHECK_EQ(!t->of[i].status, i + 1 == t->n);
		CHECK_EQ(!t->of[i].status, !t->of[i].reason[0]);
		CHECK(t->of[i].status || !t->of[i].party[0]);
	}
}

/* ---- parties */

static const struct {
	const char *name;
	const struct access *access;
} devices[] = {
	{ "cpu", &access_cpu },
	{ "vulkan:0", &access_vulkan },
#ifdef CONFIG_BACKEND_OPENCL
	{ "opencl:0", &access_opencl },
#endif
};
#define NDEVS (sizeof(devices) / sizeof(devices[0]))

static void open_devices(struct dlbuf_device *devs[NDEVS])
{
	KTAP_KEEPS(KTAP_HEAP, "drivers and glibc keep memory of threads");
	KTAP_KEEPS(KTAP_FDS, "Mesa and PoCL keep fds");
	for (size_t i = 0; i < NDEVS; i++)
		REQUIRE_OK(dlbuf_device_open(devices[i].name, NULL, &devs[i]));
}

/* No copies, nor anything left in a cache. */
static void close_devices(struct dlbuf_device *devs[NDEVS])
{
	for (size_t i = 0; i < NDEVS; i++) {
		DLBUF_INFO(dlbuf_device_stats, stats);

		CHECK_OK(dlbuf_device_get_stats(devs[i], &stats));
		CHECK_EQ(stats.copies + stats.copied_bytes, 0);
		CHECK_EQ(stats.live + stats.idle, 0);
		dlbuf_device_close(devs[i]);
	}
}

#define MAX_BYTES (WIDTH * HEIGHT * 2)

/* The frame as each device reads it, against the kernel's mapping. */
static void check_frame(DLManagedTensorVersioned *const t[], uint32_t bytes)
{
	static uint8_t want[MAX_BYTES], got[MAX_BYTES];
	DLBUF_INFO(dlbuf_tensor_info, info);
	uint64_t ino = 0;

	for (size_t i = 0; i < NDEVS; i++) {
		CHECK_OK(dlbuf_tensor_get_info(t[i], &info));
		if (!i) {
			ino = info.ino;
			cts_peek(info.fd, 0, want, bytes);
			/* Luma and chroma of a test pattern. */
			CHECK(memcmp(want, want + WIDTH * HEIGHT, 999));
		}
		CHECK_EQ(info.ino, ino);
		CHECK(info.path == DLBUF_PATH_DIRECT ||
		      info.path == DLBUF_PATH_HOST);
		memset(got, 0, bytes);
		CHECK_OK(dlbuf_acquire(t[i], DLBUF_READ, NULL, NULL));
		CHECK_EQ(devices[i].access->read(t[i], 0, got, bytes), 0);
		CHECK_OK(dlbuf_release(t[i], NULL, NULL));
		CHECK_MSG(!memcmp(want, got, bytes), "%s reads other bytes",
			  devices[i].name);
		ktap_note(NULL, 0, "%s by path %d", devices[i].name, info.path);
	}
}

/*
 * One buffer for the CPU, Vulkan, OpenCL and a camera: a frame is captured into it, and
 * all read it. The second call begins with what the first one found.
 */
static void one_buffer(void *arg)
{
	const int which = *(const int *)arg;
	struct dlbuf_device *devs[NDEVS];
	DLManagedTensorVersioned *t[NDEVS];
	int fd AUTO_FD = open_node(which);
	struct v4l2_format fmt =
		set_format(fd, V4L2_BUF_TYPE_VIDEO_CAPTURE, 0);
	int64_t bytes = fmt.fmt.pix.sizeimage;
	const DLTensor layout = LAYOUT8(1, &bytes);
	struct trials trials[2] = { { 0 } };
	DLBUF_INFO(dlbuf_tensor_info, info);

	REQUIRE(bytes <= MAX_BYTES);
	open_devices(devs);
	for (int round = 0; round < 2; round++) {
		DLBUF_OPTS(dlbuf_alloc_opts, opts, .v4l2 = &fd, .nv4l2 = 1,
			   .report = note, .report_data = &trials[round]);

		REQUIRE_OK(dlbuf_alloc(devs, NDEVS, &layout, &opts, t));
		check_trials(&trials[round]);
		CHECK_OK(dlbuf_tensor_get_info(t[0], &info));
		capture(fd, info.fd);
		check_frame(t, bytes);
		for (size_t i = 0; i < NDEVS; i++)
			cts_delete(t[i]);
	}
	CHECK_STR(trials[1].of[0].exporter,
		  trials[0].of[trials[0].n - 1].exporter);
	if (which == SINGLE)
		CHECK_EQ(trials[0].n, 1);
	/* The pages of a udmabuf may be contiguous by luck, and not the next time. */
	if (which == SINGLE || !strcmp(trials[1].of[0].exporter, "v4l2"))
		CHECK_EQ(trials[1].n, 1);
	close_devices(devs);
}

static const int single = SINGLE, contiguous = CONTIGUOUS;

/* ---- pools */

/* The node's own pitch wins; the frames are those that it captures. */
static void pool(void *arg)
{
	struct dlbuf_device *devs[NDEVS];
	DLManagedTensorVersioned *t[NDEVS][DLBUF_MAX_PLANES];
	int fd AUTO_FD = open_node(SINGLE);
	struct trials trials = { 0 };
	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = 320, .height = 180,
		   .code = NV12, .code_space = DLBUF_CODE_V4L2, .buffers = 2,
		   .pitch_align = 512,
		   .v4l2 = &fd, .nv4l2 = 1, .report = note,
		   .report_data = &trials);
	DLBUF_INFO(dlbuf_pool_info, before);
	DLBUF_INFO(dlbuf_pool_info, info);
	DLBUF_INFO(dlbuf_frame, frame);
	struct v4l2_format fmt;
	struct dlbuf_pool *p;
	uint32_t n = 0;

	fmt = set_format(fd, V4L2_BUF_TYPE_VIDEO_CAPTURE, 0);
	open_devices(devs);
	REQUIRE_OK(dlbuf_pool_layout(devs, NDEVS, &opts, &before));
	/* Asking changes nothing. */
	CHECK_EQ(ioctl(fd, VIDIOC_G_FMT, &fmt), 0);
	CHECK_EQ(fmt.fmt.pix.width, WIDTH);
	REQUIRE_OK(dlbuf_pool_create(devs, NDEVS, &opts, &p));
	CHECK_OK(dlbuf_pool_get_info(p, &info));
	CHECK(!memcmp(&before, &info,
		      offsetof(struct dlbuf_pool_info, exporter)));
	CHECK_EQ(trials.n, 1);
	CHECK_STR(info.exporter, trials.of[0].exporter);
	CHECK_EQ(ioctl(fd, VIDIOC_G_FMT, &fmt), 0);
	CHECK_EQ(fmt.fmt.pix.width, 320);
	CHECK_EQ(fmt.fmt.pix.bytesperline, info.pitch[0]);
	CHECK_EQ(info.pitch[0], 512);
	CHECK_EQ(info.bytes[0], fmt.fmt.pix.sizeimage);
	CHECK_OK(dlbuf_pool_frame(p, 1, &frame));
	capture(fd, frame.planes[0].fd);
	for (size_t i = 0; i < NDEVS; i++)
		REQUIRE_OK(dlbuf_import_frame(devs[i], &frame, NULL, t[i], &n));
	CHECK_EQ(n, 2);
	for (size_t i = 0; i < NDEVS; i++) {
		uint8_t want[320], got[320];
		uint64_t at = 7 * info.pitch[0];

		cts_peek(frame.planes[0].fd, at, want, sizeof(want));
		CHECK_OK(dlbuf_acquire(t[i][0], DLBUF_READ, NULL, NULL));
		CHECK_EQ(devices[i].access->read(t[i][0], at, got,
						 sizeof(got)), 0);
		CHECK_OK(dlbuf_release(t[i][0], NULL, NULL));
		CHECK(!memcmp(want, got, sizeof(got)));
		cts_delete(t[i][0]);
		cts_delete(t[i][1]);
	}
	dlbuf_pool_destroy(p);

	/* A size that it does not have, and a code that is another API's. */
	opts.width = 322;
	CHECK_ERR(dlbuf_pool_layout(devs, NDEVS, &opts, &info), -EOPNOTSUPP);
	CHECK_SAYS("the pool of 322x180");
	opts.width = 320;
	opts.code_space = DLBUF_CODE_DRM;
	CHECK_ERR_SAYS(dlbuf_pool_create(devs, NDEVS, &opts, &p), -EINVAL, "not one of V4L2");
	opts.code_space = DLBUF_CODE_V4L2;
	opts.code = DLBUF_FOURCC('H', '2', '6', '4');
	opts.bytes = 1 << 20;
	CHECK_ERR_SAYS(dlbuf_pool_create(devs, NDEVS, &opts, &p), -EOPNOTSUPP, "H264; it has");
	/* A pitch that the caller has fixed, and the node does not have. */
	opts.code = NV12;
	opts.pitch = 1 << 20;
	opts.bytes = 0;
	CHECK_ERR_SAYS(dlbuf_pool_create(devs, NDEVS, &opts, &p), -EOPNOTSUPP, "wants a pitch of");
	for (size_t i = 0; i < NDEVS; i++)
		dlbuf_device_trim(devs[i], 0);
	close_devices(devs);
}

/* Both cameras, and a dma-buf per plane for the one that has several. */
static void pool_of_planes(void *arg)
{
	int fds[] = { open_node(MULTI), open_node(SINGLE) };
	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = WIDTH, .height = HEIGHT,
		   .code = NM12, .code_space = DLBUF_CODE_V4L2, .buffers = 2,
		   .flags = DLBUF_POOL_PLANE_FDS, .v4l2 = fds, .nv4l2 = 1);
	static const char *const exporters[] = { NULL, "v4l2", "udmabuf" };
	DLBUF_INFO(dlbuf_pool_info, info);
	struct dlbuf_pool *p;

	for (size_t i = 0; i < 3; i++) {
		opts.exporter = exporters[i];
		REQUIRE_OK(dlbuf_pool_create(NULL, 0, &opts, &p));
		CHECK_OK(dlbuf_pool_get_info(p, &info));
		CHECK_EQ(info.nfds, 2);
		if (exporters[i])
			CHECK_STR(info.exporter, exporters[i]);
		dlbuf_pool_destroy(p);
	}
	opts.exporter = NULL;
	opts.nv4l2 = 2;
	CHECK_ERR_SAYS(dlbuf_pool_create(NULL, 0, &opts, &p), -EOPNOTSUPP, node[SINGLE]);
	opts.code = NV12;
	opts.flags = 0;
	REQUIRE_OK(dlbuf_pool_create(NULL, 0, &opts, &p));
	dlbuf_pool_destroy(p);
	close(fds[0]);
	close(fds[1]);
}

/* The node takes each buffer, and not only the first one, of every exporter. */
static void pool_contiguous(void *arg)
{
	int fd AUTO_FD = open_node(CONTIGUOUS);
	struct trials trials = { 0 };
	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = WIDTH, .height = HEIGHT,
		   .code = NV12, .code_space = DLBUF_CODE_V4L2, .buffers = 6,
		   .v4l2 = &fd, .nv4l2 = 1, .report = note,
		   .report_data = &trials);
	DLBUF_INFO(dlbuf_pool_info, info);
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_pool *p;

	REQUIRE_OK(dlbuf_pool_create(NULL, 0, &opts, &p));
	CHECK_OK(dlbuf_pool_get_info(p, &info));
	CHECK_STR(trials.of[trials.n - 1].exporter, info.exporter);
	for (uint32_t i = 0; i < info.buffers; i++) {
		CHECK_OK(dlbuf_pool_frame(p, i, &frame));
		capture(fd, frame.planes[0].fd);
	}
	dlbuf_pool_destroy(p);
}

/* ---- refusals */

/* A node that is in use is not touched. */
static void busy(void *arg)
{
	struct dlbuf_device *cpu AUTO_DEV;
	DLManagedTensorVersioned *t = NULL;
	int64_t bytes = 4096;
	const DLTensor layout = LAYOUT8(1, &bytes);
	int fd AUTO_FD = open_node(SINGLE), other AUTO_FD = open_node(SINGLE);
	struct trials trials = { 0 };
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .v4l2 = &other, .nv4l2 = 1,
		   .report = note, .report_data = &trials);
	DLBUF_OPTS(dlbuf_pool_opts, pool_opts, .v4l2 = &other, .nv4l2 = 1, .buffers = 1,
		   .width = WIDTH, .height = HEIGHT, .code = V4L2_PIX_FMT_YUYV,
		   .code_space = DLBUF_CODE_V4L2);
	struct dlbuf_pool *pool;
	struct v4l2_buffer buf;
	struct vivid v;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	/* Requested, by another open file and by the same one. */
	for (int i = 0; i < 2; i++) {
		int owner = i ? other : fd;

		CHECK_EQ(request(owner, V4L2_MEMORY_MMAP, 2), 0);
		CHECK_ERR_SAYS(dlbuf_alloc(&cpu, 1, &layout, &opts, &t), -EBUSY, node[SINGLE]);
		CHECK_ERR(dlbuf_pool_create(NULL, 0, &pool_opts, &pool), -EBUSY);
		buf = (struct v4l2_buffer){ .type = 1 };
		CHECK_EQ(ioctl(owner, VIDIOC_QUERYBUF, &buf), 0);
		CHECK_EQ(request(owner, V4L2_MEMORY_MMAP, 0), 0);
	}
	/* Streaming, which continues. */
	vivid_open(&v, WIDTH, HEIGHT, 30, 3);
	CHECK_ERR_SAYS(dlbuf_alloc(&cpu, 1, &layout, &opts, &t), -EBUSY, node[SINGLE]);
	CHECK(vivid_dequeue(&v, &buf));
	vivid_close(&v);
	CHECK_EQ(trials.n, 0);
	REQUIRE_OK(dlbuf_alloc(&cpu, 1, &layout, &opts, &t));
	cts_delete(t);
}

/* Memory that no exporter can make. */
static void no_permission(void *arg)
{
	struct dlbuf_device *cpu AUTO_DEV = NULL;
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	DLBUF_OPTS(dlbuf_alloc_opts, heap, .exporter = "heap:system");
	DLManagedTensorVersioned *t;
	int64_t bytes = 4096;
	const DLTensor layout = LAYOUT8(1, &bytes);
	struct dlbuf_udmabuf u;
	int fd;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	REQUIRE(!seteuid(65534));
	CHECK_ERR(dlbuf_udmabuf_create(1, NULL, &u), -EACCES);
	CHECK_ERR(dlbuf_alloc_fd(1, &heap, &fd), -EACCES);
	CHECK_ERR_SAYS(dlbuf_alloc(&cpu, 1, &layout, &opts, &t), -EACCES, "/dev/udmabuf");
	CHECK_EQ(seteuid(0), 0);
}

/* One page more than the module's limit. */
static void above_the_limit(void *arg)
{
	static const char path[] = "/sys/module/udmabuf/parameters/size_limit_mb";
	struct dlbuf_udmabuf u;
	unsigned long mb = 0;
	FILE *f = fopen(path, "re");

	REQUIRE(f && fscanf(f, "%lu", &mb) == 1 && !fclose(f));
	CHECK_ERR_SAYS(dlbuf_udmabuf_create(((uint64_t)mb << 20) + 1, NULL, &u), -EOPNOTSUPP, path);
}

static void arguments(void *arg)
{
	struct dlbuf_device *cpu AUTO_DEV;
	DLManagedTensorVersioned *t = NULL;
	int64_t bytes = 4096;
	const DLTensor layout = LAYOUT8(1, &bytes);
	int fd = open_node(SINGLE), bad = open("/dev/null", O_RDWR), got = -7;
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .nv4l2 = 1);
	DLBUF_OPTS(dlbuf_pool_opts, frames, .v4l2 = &bad, .nv4l2 = 1, .buffers = 1,
		   .width = WIDTH, .height = HEIGHT, .code = V4L2_PIX_FMT_YUYV,
		   .code_space = DLBUF_CODE_V4L2);
	DLBUF_INFO(dlbuf_pool_info, info);
	struct trials trials = { 0 };
	unsigned int fds;
	struct stat st;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	CHECK_ERR_SAYS(dlbuf_alloc(&cpu, 1, &layout, &opts, &t), -EINVAL, "v4l2 is NULL");
	opts.v4l2 = &bad;
	CHECK_ERR_SAYS(dlbuf_alloc(&cpu, 1, &layout, &opts, &t), -ENOTTY, "/dev/null");
	CHECK_ERR(dlbuf_pool_layout(NULL, 0, &frames, &info), -ENOTTY);
	close(bad);
	CHECK_ERR(dlbuf_alloc(&cpu, 1, &layout, &opts, &t), -EBADF);
	CHECK_ERR(dlbuf_pool_layout(NULL, 0, &frames, &info), -EBADF);
	/* Without a device: for the camera only, and at least as it needs. */
	opts.v4l2 = &fd;
	set_format(fd, V4L2_BUF_TYPE_VIDEO_CAPTURE, 0);
	opts.report = note;
	opts.report_data = &trials;
	CHECK_OK(dlbuf_alloc_fd(1, &opts, &got));
	CHECK_EQ(trials.n, 1);
	CHECK_EQ(fstat(got, &st), 0);
	CHECK(st.st_size >= WIDTH * HEIGHT * 3 / 2);
	fds = cts_count_fds();
	capture(fd, got);
	close(got);
	CHECK_EQ(cts_count_fds(), fds - 1);
	/* Its driver's memory, too large and not. */
	opts.exporter = "v4l2";
	CHECK_OK(dlbuf_alloc_fd(1, &opts, &got));
	capture(fd, got);
	close(got);
	CHECK_ERR_SAYS(dlbuf_alloc_fd(WIDTH * HEIGHT * 4, &opts, &got), -EOPNOTSUPP, "are needed");
	opts.nv4l2 = 0;
	CHECK_ERR(dlbuf_alloc_fd(1, &opts, &got), -EINVAL);
	close(fd);
	CHECK(!t);
}

#ifdef CONFIG_BACKEND_CUDA
/*
 * The double of a PC's CUDA takes only pages that it can register, and the node only
 * contiguous memory: no exporter suits both. Each refusal names the party.
 */
static void all_refuse(void *arg)
{
	struct dlbuf_device *cuda AUTO_DEV = NULL;
	DLManagedTensorVersioned *t = NULL;
	int64_t bytes = 1 << 20;
	const DLTensor layout = LAYOUT8(1, &bytes);
	int fd AUTO_FD = open_node(CONTIGUOUS);
	struct v4l2_format fmt = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	struct trials trials[3] = { { 0 } };
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .v4l2 = &fd, .nv4l2 = 1,
		   .report = note, .report_data = &trials[0]);
	DLBUF_OPTS(dlbuf_alloc_opts, alone, .report = note,
		   .report_data = &trials[1]);
	bool by_node = false, by_cuda = false;

	if (!getenv("DLBUF_CUDA_LIBRARY"))
		SKIP("CUDA's double is not there");
	/* More than the kernel's allocator ever gives in one piece. */
	fmt.fmt.pix.width = 3840;
	fmt.fmt.pix.height = 2160;
	fmt.fmt.pix.pixelformat = NV12;
	CHECK_EQ(ioctl(fd, VIDIOC_S_FMT, &fmt), 0);
	REQUIRE_OK(dlbuf_device_open("cuda:0", NULL, &cuda));
	CHECK(dlbuf_alloc(&cuda, 1, &layout, &opts, &t) < 0);
	CHECK(!t);
	for (unsigned int i = 0; i < trials[0].n; i++) {
		CHECK(trials[0].of[i].status < 0);
		by_cuda |= !strcmp(trials[0].of[i].party, "cuda:0");
		by_node |= !strcmp(trials[0].of[i].party, node[CONTIGUOUS]);
		CHECK_SAYS(trials[0].of[i].exporter);
	}
	CHECK(by_node && by_cuda);
	CHECK_SAYS(node[CONTIGUOUS]);
	CHECK_SAYS("cuda:0 has no path");
	/* The device alone accepts the exporter that the node refused, and tries it first. */
	CHECK_OK(dlbuf_alloc(&cuda, 1, &layout, &alone, &t));
	CHECK_EQ(trials[1].n, 1);
	cts_delete(t);
	/* By name it is tried in any case. */
	alone.exporter = "heap:system";
	alone.report_data = &trials[2];
	CHECK(dlbuf_alloc(&cuda, 1, &layout, &alone, &t) < 0);
	CHECK_EQ(trials[2].n, 1);
	CHECK_STR(trials[2].of[0].party, "cuda:0");
}
#endif

/* ---- threads, fork */

static void *allocate(void *arg)
{
	struct dlbuf_device *cpu = arg;
	DLManagedTensorVersioned *t;
	int64_t bytes = 4096;
	const DLTensor layout = LAYOUT8(1, &bytes);
	intptr_t failed = 0;

	for (int i = 0; i < 50; i++) {
		int ret = dlbuf_alloc(&cpu, 1, &layout, NULL, &t);

		failed += ret < 0;
		if (!ret)
			cts_delete(t);
	}
	return (void *)failed;
}

/* Others allocate meanwhile. One camera is tried by one at a time. */
static void threads_and_fork(void *arg)
{
	struct dlbuf_device *cpu AUTO_DEV = NULL;
	int fd AUTO_FD = open_node(SINGLE), got, status;
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .v4l2 = &fd, .nv4l2 = 1);
	pthread_t threads[4];
	void *failed;
	pid_t pid;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, allocate, cpu), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_OK(dlbuf_alloc_fd(1, &opts, &got));
		close(got);
	}
	pid = fork();
	if (!pid) {
		struct trials t = { 0 };
		DLManagedTensorVersioned *tensor;
		int64_t bytes = 1;
		const DLTensor layout = LAYOUT8(1, &bytes);

		opts.report = note;
		opts.report_data = &t;
		if (dlbuf_alloc_fd(1, &opts, &got) || t.n != 1)
			_exit(1);
		/* The device is the parent's. */
		_exit(dlbuf_alloc(&cpu, 1, &layout, &opts, &tensor) != -ESTALE);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(pthread_join(threads[i], &failed), 0);
		CHECK(!failed);
	}
}

/* ---- every call fails once */

#ifdef CONFIG_FAULT_INJECTION
static int walk(struct dlbuf_device *cpu, int fd)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .v4l2 = &fd, .nv4l2 = 1);
	DLBUF_OPTS(dlbuf_alloc_opts, own, .v4l2 = &fd, .nv4l2 = 1,
		   .exporter = "v4l2");
	DLBUF_OPTS(dlbuf_alloc_opts, heap, .exporter = "heap:system");
	DLBUF_OPTS(dlbuf_pool_opts, pool_opts, .width = WIDTH, .height = HEIGHT,
		   .code = NV12, .code_space = DLBUF_CODE_V4L2, .buffers = 2,
		   .v4l2 = &fd, .nv4l2 = 1);
	DLManagedTensorVersioned *t;
	int64_t bytes = 4096;
	const DLTensor layout = LAYOUT8(1, &bytes);
	struct dlbuf_udmabuf u;
	struct dlbuf_pool *p;
	int got, ret;

	ret = dlbuf_alloc(&cpu, 1, &layout, &opts, &t);
	if (!ret)
		cts_delete(t);
	if (!ret)
		ret = dlbuf_alloc_fd(1, &own, &got);
	if (!ret)
		close(got);
	if (!ret)
		ret = dlbuf_pool_create(&cpu, 1, &pool_opts, &p);
	if (!ret)
		dlbuf_pool_destroy(p);
	if (!ret)
		ret = dlbuf_udmabuf_create(1, NULL, &u);
	if (!ret)
		dlbuf_udmabuf_close(&u);
	if (!ret)
		ret = dlbuf_alloc_fd(1, &heap, &got);
	if (!ret)
		close(got);
	return ret;
}

static void every_call(void *arg)
{
	struct dlbuf_device *cpu AUTO_DEV = NULL;
	int fd AUTO_FD = open_node(SINGLE);
	unsigned long calls, failed = 0;
	unsigned int fds;

	set_format(fd, V4L2_BUF_TYPE_VIDEO_CAPTURE, 0);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	fault_at(0);
	REQUIRE_OK(walk(cpu, fd));
	calls = fault_count();
	CHECK(calls > 20);
	fds = cts_count_fds();
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		fault_at(n);
		ret = walk(cpu, fd);
		fault_at(0);
		failed += ret < 0;
		CHECK(ret <= 0 && (!ret || dlbuf_last_error()[0]));
		if (!CHECK_EQ(cts_count_fds(), fds)) {
			ktap_note(NULL, 0, "after the failure of call %lu of "
				  "%lu: %d, %s", n, calls, ret,
				  dlbuf_last_error());
			fds = cts_count_fds();
		}
		/* A failed VIDIOC_REQBUFS of 0 leaves a buffer with the node. */
		request(fd, V4L2_MEMORY_DMABUF, 0);
		request(fd, V4L2_MEMORY_MMAP, 0);
	}
	ktap_note(NULL, 0, "%lu of %lu failures came back", failed, calls);
	CHECK_OK(walk(cpu, fd));
}
#endif

int main(int argc, char **argv)
{
	ktap_prefix("%s", "alloc");
	ktap_case("one-buffer", one_buffer, (void *)&single);
	ktap_case("one-buffer/contiguous", one_buffer, (void *)&contiguous);
	ktap_case("pool", pool, NULL);
	ktap_case("pool/planes", pool_of_planes, NULL);
	ktap_case("pool/contiguous", pool_contiguous, NULL);
	ktap_case("busy", busy, NULL);
	ktap_case("arguments", arguments, NULL);
	ktap_case("no-permission", no_permission, NULL);
	ktap_case("above-the-limit", above_the_limit, NULL);
#ifdef CONFIG_BACKEND_CUDA
	ktap_case("all-refuse", all_refuse, NULL);
#endif
	ktap_case("threads-and-fork", threads_and_fork, NULL);
#ifdef CONFIG_FAULT_INJECTION
	ktap_case("fault/every-call", every_call, NULL);
#endif
	return ktap_run(argc, argv);
}
