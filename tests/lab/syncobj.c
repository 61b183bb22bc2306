// SPDX-License-Identifier: MIT
/*
 * drm_syncobjs, binary ones and timelines, of a driver that has them
 * (virtio-gpu, tests/guest/lab --gpu), with fences of one that has not (vgem).
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <drm.h>

#include "../cts/cts.h"
#include "import/select.h"

#define BYTES 4096
#define BOUND -1 /* for events that are certain to come: the harness's limit */

const char *cts_device = "cpu";
const struct access *cts_access;

/* ---- nodes and handles */

static int node(bool timelines)
{
	for (int i = 0; i < 8; i++) {
		struct drm_get_cap cap = {
			.capability = DRM_CAP_SYNCOBJ_TIMELINE,
		};
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (ioctl(fd, DRM_IOCTL_GET_CAP, &cap))
			cap.value = 0;
		if (!!cap.value == timelines)
			return fd;
		close(fd);
	}
	SKIP("no DRM driver here has%s timelines", timelines ? "" : " no");
}

static uint32_t create(int drm)
{
	struct drm_syncobj_create c = { 0 };

	if (ioctl(drm, DRM_IOCTL_SYNCOBJ_CREATE, &c))
		FATAL("DRM_IOCTL_SYNCOBJ_CREATE: %s", strerror(errno));
	return c.handle;
}

static void destroy(int drm, uint32_t handle)
{
	struct drm_syncobj_destroy d = { .handle = handle };

	CHECK_EQ(ioctl(drm, DRM_IOCTL_SYNCOBJ_DESTROY, &d), 0);
}

/* The number of handles: a leaked one uses a number. */
static uint32_t next_handle(int drm)
{
	uint32_t handle = create(drm);

	destroy(drm, handle);
	return handle;
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1 && p.revents & POLLIN;
}

/* The fence of a point now: 0 pending, 1 signalled, or an error. */
static int state(int drm, uint32_t handle, uint64_t point)
{
	int fence = -2, status = -2, ret;

	ret = dlbuf_syncobj_export(drm, handle, point, &fence);
	if (ret) {
		CHECK_EQ(fence, -2);
		return ret;
	}
	CHECK(fence >= 3 && fcntl(fence, F_GETFD) & FD_CLOEXEC);
	CHECK_OK(dlbuf_fence_status(fence, &status));
	close(fence);
	return status;
}

/* Signals of a timeline are passed on by an interrupt's work. */
static int settled(int drm, uint32_t handle, uint64_t point)
{
	int fence = -2, status = -2;

	if (!CHECK_OK(dlbuf_syncobj_export(drm, handle, point, &fence)))
		return -1;
	CHECK(readable(fence, BOUND));
	CHECK_OK(dlbuf_fence_status(fence, &status));
	close(fence);
	return status;
}

/* ---- cases */

static void binary(void *arg)
{
	struct cts_fence f AUTO_FENCE;
	int drm AUTO_FD = node(true);
	uint32_t box = create(drm), handles = next_handle(drm);

	cts_fence_create(&f);
	CHECK_EQ(state(drm, box, 0), -EAGAIN);
	CHECK_SAYS("no fence");
	CHECK_OK(dlbuf_syncobj_import(drm, box, 0, f.sync_file));
	CHECK_EQ(state(drm, box, 0), 0);
	CHECK_EQ(state(drm, box, 0), 0);
	cts_fence_signal(&f);
	CHECK_EQ(state(drm, box, 0), 1);
	CHECK_EQ(next_handle(drm), handles);
	destroy(drm, box);
}

/* A later fence takes the earlier one's place. */
static void replaced(void *arg)
{
	struct cts_fence a, b AUTO_FENCE;
	int drm AUTO_FD = node(true);
	uint32_t box = create(drm);

	cts_fence_create(&a);
	cts_fence_create(&b);
	CHECK_OK(dlbuf_syncobj_import(drm, box, 0, a.sync_file));
	CHECK_OK(dlbuf_syncobj_import(drm, box, 0, b.sync_file));
	cts_fence_signal(&a);
	CHECK_EQ(state(drm, box, 0), 0);
	cts_fence_signal(&b);
	CHECK_EQ(state(drm, box, 0), 1);
	destroy(drm, box);
	cts_fence_destroy(&a);
}

static void timeline(void *arg)
{
	struct cts_fence a, b AUTO_FENCE;
	int drm AUTO_FD = node(true), last = -2, status = -2;
	uint32_t box = create(drm), handles = next_handle(drm);

	cts_fence_create(&a);
	cts_fence_create(&b);
	CHECK_EQ(state(drm, box, 5), -EAGAIN);
	CHECK_SAYS("point 5");
	CHECK_OK(dlbuf_syncobj_import(drm, box, 5, a.sync_file));
	CHECK_EQ(state(drm, box, 5), 0);
	CHECK_EQ(state(drm, box, 6), -EAGAIN);
	CHECK_OK(dlbuf_syncobj_import(drm, box, 1ull << 40, b.sync_file));
	CHECK_EQ(state(drm, box, 6), 0);
	CHECK_EQ(state(drm, box, 1ull << 40), 0);
	CHECK_EQ(state(drm, box, (1ull << 40) + 1), -EAGAIN);
	/* A point is reached when those before are. */
	REQUIRE_OK(dlbuf_syncobj_export(drm, box, 1ull << 40, &last));
	cts_fence_signal(&b);
	CHECK(!readable(last, 0));
	CHECK_EQ(state(drm, box, 5), 0);
	cts_fence_signal(&a);
	CHECK(readable(last, BOUND));
	CHECK_OK(dlbuf_fence_status(last, &status));
	CHECK_EQ(status, 1);
	close(last);
	CHECK_EQ(settled(drm, box, 5), 1);
	CHECK_EQ(settled(drm, box, 6), 1);
	CHECK_EQ(settled(drm, box, 1ull << 40), 1);
	CHECK_EQ(state(drm, box, (1ull << 40) + 1), -EAGAIN);
	CHECK_EQ(next_handle(drm), handles);
	destroy(drm, box);
	cts_fence_destroy(&a);
}

static void none_is_signalled(void *arg)
{
	int drm AUTO_FD = node(true);
	uint32_t box = create(drm), line = create(drm);
	uint32_t handles = next_handle(drm);

	CHECK_OK(dlbuf_syncobj_import(drm, box, 0, -1));
	CHECK_EQ(state(drm, box, 0), 1);
	CHECK_OK(dlbuf_syncobj_import(drm, line, 3, -1));
	CHECK_EQ(settled(drm, line, 3), 1);
	CHECK_EQ(settled(drm, line, 2), 1);
	CHECK_EQ(state(drm, line, 4), -EAGAIN);
	CHECK_EQ(next_handle(drm), handles);
	destroy(drm, box);
	destroy(drm, line);
}

/* Out of a timeline and onto a dma-buf: a reader there waits for it. */
static void onto_a_buffer(void *arg)
{
	struct cts_fence f;
	int drm = node(true), fd AUTO_FD = cts_alloc("udmabuf", BYTES), fence = -2;
	uint32_t box = create(drm);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = cts_import(dev, fd, BYTES);
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);

	cts_fence_create(&f);
	CHECK_OK(dlbuf_syncobj_import(drm, box, 1, f.sync_file));
	REQUIRE_OK(dlbuf_syncobj_export(drm, box, 1, &fence));
	CHECK_OK(dlbuf_fence_import(fd, DLBUF_WRITE, fence));
	close(fence);
	/* The fence is the buffer's now, also if its syncobj is destroyed. */
	destroy(drm, box);
	close(drm);
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, &past), -ETIME);
	cts_fence_signal(&f);
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	cts_fence_destroy(&f);
}

/* ---- refusals */

/* Every function, binary and with a point, gives this and nothing else. */
static void all_refuse(int drm, uint32_t handle, int err)
{
	int fence = -2, none = -1;
	struct cts_fence f AUTO_FENCE;

	cts_fence_create(&f);
	for (uint64_t point = 0; point < 6; point += 5) {
		CHECK_ERR(dlbuf_syncobj_export(drm, handle, point, &fence),
			  err);
		CHECK_ERR(dlbuf_syncobj_import(drm, handle, point,
					       f.sync_file), err);
		CHECK_ERR(dlbuf_syncobj_import(drm, handle, point, none), err);
	}
	CHECK_EQ(fence, -2);
}

static void no_such_handle(void *arg)
{
	int drm AUTO_FD = node(true);
	uint32_t gone = create(drm), handles;

	destroy(drm, gone);
	handles = next_handle(drm);
	all_refuse(drm, gone, -EINVAL);
	all_refuse(drm, 0, -EINVAL);
	all_refuse(drm, 4711, -EINVAL);
	CHECK_SAYS("no such syncobj");
	CHECK_EQ(next_handle(drm), handles);
}

static void no_syncobjs(void *arg)
{
	int drm AUTO_FD = node(false);

	all_refuse(drm, 1, -EOPNOTSUPP);
}

static void not_drm(void *arg)
{
	int fds[2], fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct cts_fence f AUTO_FENCE;

	REQUIRE(!pipe(fds));
	cts_fence_create(&f);
	all_refuse(fd, 1, -EOPNOTSUPP);
	all_refuse(f.sync_file, 1, -EOPNOTSUPP);
	all_refuse(null, 1, -EOPNOTSUPP);
	all_refuse(fds[0], 1, -EOPNOTSUPP);
	close(fds[1]);
	close(fds[0]);
	all_refuse(-1, 1, -EBADF);
	all_refuse(4711, 1, -EBADF);
}

/* A fence that is none. */
static void bad_fences(void *arg)
{
	int drm AUTO_FD = node(true), fds[2], fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	uint32_t box = create(drm), handles = next_handle(drm);

	REQUIRE(!pipe(fds));
	for (uint64_t point = 0; point < 6; point += 5) {
		CHECK_ERR(dlbuf_syncobj_import(drm, box, point, fds[0]),
			  -EINVAL);
		CHECK_ERR(dlbuf_syncobj_import(drm, box, point, fd), -EINVAL);
		CHECK_SAYS("not a sync_file");
		CHECK_ERR(dlbuf_syncobj_import(drm, box, point, 4711), -EBADF);
		CHECK_ERR(dlbuf_syncobj_import(drm, box, point, -2), -EBADF);
		CHECK_SAYS("fd -2 is not open");
		CHECK_EQ(state(drm, box, point), -EAGAIN);
		CHECK_ERR(dlbuf_syncobj_export(drm, box, point, NULL),
			  -EINVAL);
	}
	CHECK_EQ(next_handle(drm), handles);
	destroy(drm, box);
	close(fds[0]);
	close(fds[1]);
}

/* The nodes that drm= accepts: virtio-gpu is on PCI, vgem on no bus. */
static void selectors(void *data)
{
	struct dlbuf_device_info info = { 0 };
	struct device_place place, other = { .pci = 1, .drm = { 1, 1 } };
	unsigned int pci = 0, platform = 0;
	char text[48] = "drm=/dev/dri/";
	struct selector s;
	struct stat st;

	(void)data;
	for (unsigned int i = 0; i < 16; i++) {
		sprintf(text + 13, i % 2 ? "renderD%u" : "card%u",
			i / 2 + i % 2 * 128);
		if (stat(text + 4, &st))
			continue;
		if (!CHECK_OK(selector_begin(&s, "test", text, 1)))
			continue;
		CHECK_EQ(s.place.drm[0], st.st_rdev);
		place = (struct device_place){ 0 };
		place.drm[i % 2] = st.st_rdev;
		CHECK(selector_takes(&s, 0, &info, &place));
		CHECK(!selector_takes(&s, 0, &info, &other));
		place = (struct device_place){ .pci = s.place.pci };
		CHECK_EQ(selector_takes(&s, 0, &info, &place), !!place.pci);
		*(place.pci ? &pci : &platform) += 1;
	}
	CHECK(pci && platform);
}

int main(int argc, char **argv)
{
	ktap_prefix("%s", "syncobj");
	ktap_case("binary", binary, NULL);
	ktap_case("replaced", replaced, NULL);
	ktap_case("timeline", timeline, NULL);
	ktap_case("none-is-signalled", none_is_signalled, NULL);
	ktap_case("onto-a-buffer", onto_a_buffer, NULL);
	ktap_case("selectors", selectors, NULL);
	ktap_case("refusals/no-such-handle", no_such_handle, NULL);
	ktap_case("refusals/no-syncobjs", no_syncobjs, NULL);
	ktap_case("refusals/not-drm", not_drm, NULL);
	ktap_case("refusals/bad-fences", bad_fences, NULL);
	return ktap_run(argc, argv);
}
