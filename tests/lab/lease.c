// SPDX-License-Identifier: MIT
/*
 * A frame of a camera that is held for three seconds, on the CPU and on Vulkan; and the
 * library unloaded while a fence is pending. Random orders on any thread are stress@lab's.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <libgen.h>
#include <time.h>

#include <dlbuf/dlbuf.h>

#include "vivid.h"

#define NPLANES 2u

const char *cts_device = "cpu";
const struct access *cts_access;

struct device {
	const char *name;
	const struct access *access;
};

static const struct device devices[] = {
	{ .name = "cpu", .access = &access_cpu },
	{ .name = "vulkan:0", .access = &access_vulkan },
};

struct late {
	struct vivid *cam;
	uint32_t index;
	uint64_t ns;		/* the camera's time */
	unsigned int fired;	/* atomic */
	int ret;		/* of queueing it */
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
};

static void on_late(void *data)
{
	struct late *l = data;

	l->ret = vivid_queue(l->cam, l->index);
	__atomic_add_fetch(&l->fired, 1, __ATOMIC_RELEASE);
}

static unsigned int fired(const struct late *l)
{
	return __atomic_load_n(&l->fired, __ATOMIC_ACQUIRE);
}

static void late_begin(struct late *l, struct vivid *cam, struct dlbuf_device *dev)
{
	struct dlbuf_frame frame;
	struct v4l2_buffer buf;
	uint32_t n = 0;

	REQUIRE(vivid_dequeue(cam, &buf));
	*l = (struct late){
		.cam = cam, .index = buf.index,
		.ns = buf.timestamp.tv_sec * 1000000000ull +
		      buf.timestamp.tv_usec * 1000ull,
	};
	frame = vivid_frame(cam, buf.index);
	frame.release = on_late;
	frame.release_data = l;
	REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, l->t, &n));
	REQUIRE(n == NPLANES);
}

static void late_end(struct late *l)
{
	cts_delete(l->t[0]);
	CHECK_EQ(fired(l), 0);
	cts_delete(l->t[1]);
	/* The device's last fence may be pending: then the library's thread fires it. */
	UNTIL(fired(l));
	CHECK_EQ(fired(l), 1);
	CHECK_EQ(l->ret, 0);
}

/* As the kernel maps it, without dlbuf. */
static bool shows(struct vivid *cam, uint32_t index, const uint8_t *picture)
{
	bool same;

	vivid_sync(cam, index, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	same = !memcmp(cam->map[index], picture, cam->bytes);
	vivid_sync(cam, index, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	return same;
}

/*
 * A consumer holds one frame for three seconds of the camera's time, at 30 frames a
 * second with four buffers: the other three go round, the held frame never shows later
 * pixels, and given back it is used again.
 */
static void held(void *arg)
{
	const struct device *d = arg;
	unsigned int fds = cts_count_fds(), frames = 0, changed = 0, back = 0;
	struct dlbuf_device *dev = NULL;
	uint8_t *then, *got;
	struct late mine, other;
	struct vivid cam;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE_OK(dlbuf_device_open(d->name, NULL, &dev));
	vivid_open(&cam, 640, 360, 30, 4);
	CHECK_EQ(cam.fps, 30);
	late_begin(&mine, &cam, dev);
	then = malloc(cam.bytes);
	got = malloc(cam.bytes);
	REQUIRE(then && got);
	vivid_sync(&cam, mine.index, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	memcpy(then, cam.map[mine.index], cam.bytes);
	vivid_sync(&cam, mine.index, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	do {
		late_begin(&other, &cam, dev);
		CHECK(other.index != mine.index);
		/* vivid draws a picture again when it is late. */
		changed += !shows(&cam, other.index, then);
		late_end(&other);
		frames++;
	} while (frames < 90 || other.ns - mine.ns < 3000000000ull);
	CHECK(changed);
	CHECK(shows(&cam, mine.index, then));
	for (uint32_t i = 0; i < NPLANES; i++) {
		DLBUF_INFO(dlbuf_tensor_info, info);

		CHECK_OK(dlbuf_tensor_get_info(mine.t[i], &info));
		CHECK_OK(dlbuf_acquire(mine.t[i], DLBUF_READ, NULL, NULL));
		CHECK_EQ(d->access->read(mine.t[i], info.first, got,
					 info.end - info.first), 0);
		CHECK(!memcmp(got, then + info.first, info.end - info.first));
		CHECK_OK(dlbuf_release(mine.t[i], NULL, NULL));
	}
	ktap_note(NULL, 0, "%u frames on %s in %.2f s of the camera's time", frames,
		  d->name, (other.ns - mine.ns) / 1e9);
	late_end(&mine);
	do {
		late_begin(&other, &cam, dev);
		CHECK(!shows(&cam, other.index, then));
		late_end(&other);
	} while (other.index != mine.index && ++back < 8);
	CHECK_EQ(other.index, mine.index);
	dlbuf_device_close(dev);
	vivid_close(&cam);
	cts_until_fds(fds);
	free(then);
	free(got);
}

/* ---- the library goes */

/* build/libdlbuf.so of build/tests/lab/lease: another one than this program's. */
static void *load(void)
{
	char exe[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	REQUIRE(n > 0);
	exe[n] = '\0';
	snprintf(path, sizeof(path), "%s/../../libdlbuf.so", dirname(exe));
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static unsigned int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void never(void *data)
{
	CHECK(!"a lease has fired");
}

/*
 * A plugin with the library in it is unloaded while a fence is pending: after an acquire
 * that waited for it until its deadline, and with a lease that waits for it.
 */
static void unloaded(void *arg)
{
#define X(name) __typeof__(name) *name##_;
#define EACH X(dlbuf_device_open) X(dlbuf_import_frame) X(dlbuf_acquire) X(dlbuf_device_close) \
	X(dlbuf_fence_notify)
	struct { EACH } lib;
#undef X
	DLBUF_OPTS(dlbuf_acquire_opts, soon, .deadline_ns = 0);
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = 64, .height = 64,
		.code = DLBUF_FOURCC('G', 'R', 'E', 'Y'), .code_space = DLBUF_CODE_V4L2,
		.nplanes = 1, .order = DLBUF_ORDER_IMPLICIT, .fence = -1,
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct cts_fence fence AUTO_FENCE;
	unsigned int nfds, nthreads;
	struct timespec now;
	struct dlbuf_device *dev;
	void *handle;
	uint32_t n;

	KTAP_KEEPS(KTAP_HEAP, "the dynamic loader's own");
	cts_fence_create(&fence);
	frame.planes[0].fd = cts_alloc("udmabuf", 4096);
	frame.planes[0].pitch = 64;
	CHECK_OK(dlbuf_fence_import(frame.planes[0].fd, DLBUF_WRITE, fence.sync_file));
	nfds = cts_count_fds();
	nthreads = threads();
	handle = load();
	REQUIRE(handle);
#define X(name) lib.name##_ = (__typeof__(name) *)dlsym(handle, #name); REQUIRE(lib.name##_);
	EACH
#undef X
	CHECK_EQ(lib.dlbuf_device_open_("cpu", NULL, &dev), 0);
	CHECK_EQ(lib.dlbuf_import_frame_(dev, &frame, NULL, t, &n), 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	soon.deadline_ns = now.tv_sec * 1000000000ull + now.tv_nsec + 5000000;
	CHECK_EQ(lib.dlbuf_acquire_(t[0], DLBUF_READ, NULL, &soon), -ETIME);
	CHECK_EQ(threads(), nthreads);
	CHECK_EQ(lib.dlbuf_fence_notify_(fence.sync_file, never, NULL), 0);
	t[0]->deleter(t[0]);
	lib.dlbuf_device_close_(dev);
	CHECK_EQ(threads(), nthreads + 1);
	dlclose(handle);
	UNTIL(threads() == nthreads);
	CHECK_EQ(cts_count_fds(), nfds);
	cts_fence_signal(&fence);
	close(frame.planes[0].fd);
}

int main(int argc, char **argv)
{
	ktap_prefix("%s", "lease");
	ktap_case("held@cpu", held, (void *)&devices[0]);
	ktap_case("held@vulkan", held, (void *)&devices[1]);
	ktap_case("unloaded", unloaded, NULL);
	return ktap_run(argc, argv);
}
