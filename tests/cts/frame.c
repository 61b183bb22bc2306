// SPDX-License-Identifier: MIT
/* Frames: planes, leases, refusals. The format table has its own unit test. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cts.h"

#define W 64u
#define H 48u
#define PITCH 96u
#define NV12 DLBUF_FOURCC('N', 'V', '1', '2')

struct counter {
	int fired;
};

static void fire(void *data)
{
	struct counter *c = data;

	c->fired++;
}

static struct dlbuf_frame nv12(int fd, struct counter *c)
{
	return (struct dlbuf_frame){
		.size = sizeof(struct dlbuf_frame),
		.width = W,
		.height = H,
		.code = NV12,
		.code_space = DLBUF_CODE_V4L2,
		.modifier = DLBUF_MOD_LINEAR,
		.nplanes = 1,
		.planes = { { .fd = fd, .pitch = PITCH } },
		.release = c ? fire : NULL,
		.release_data = c,
	};
}

static void two_planes(void *arg)
{
	int fd = cts_alloc("udmabuf", PITCH * H * 2);
	struct dlbuf_device *dev = cts_open();
	struct dlbuf_frame f = nv12(fd, NULL);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	DLBUF_INFO(dlbuf_tensor_info, info);
	unsigned char want[128], got[128];
	uint32_t n = 0;

	(void)arg;
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(t[0]->dl_tensor.ndim, 2);
	CHECK_EQ(t[0]->dl_tensor.shape[0], H);
	CHECK_EQ(t[0]->dl_tensor.shape[1], W);
	CHECK_EQ(t[0]->dl_tensor.strides[0], PITCH);
	CHECK_EQ(t[1]->dl_tensor.ndim, 3);
	CHECK_EQ(t[1]->dl_tensor.shape[0], H / 2);
	CHECK_EQ(t[1]->dl_tensor.shape[1], W / 2);
	CHECK_EQ(t[1]->dl_tensor.shape[2], 2);
	CHECK_EQ(t[1]->dl_tensor.strides[0], PITCH);
	CHECK_EQ(t[1]->dl_tensor.strides[1], 2);
	CHECK_EQ(dlbuf_tensor_get_info(t[1], &info), 0);
	CHECK_EQ(info.first, PITCH * H);
	cts_pattern(want, sizeof(want), 1);
	cts_poke(fd, PITCH * H, want, sizeof(want));
	cts_read(t[1], PITCH * H, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(t[0]);
	cts_delete(t[1]);

	/* Said plane by plane it is the same. */
	f.code_space = DLBUF_CODE_DRM;
	f.nplanes = 2;
	f.planes[1] = (struct dlbuf_plane){ .fd = fd, .offset = PITCH * H,
					    .pitch = PITCH };
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	CHECK_EQ(n, 2);
	CHECK_EQ(dlbuf_tensor_get_info(t[1], &info), 0);
	CHECK_EQ(info.first, PITCH * H);
	cts_delete(t[0]);
	cts_delete(t[1]);
	dlbuf_device_close(dev);
	close(fd);
}

/* Exactly once, with the last tensor, shares included. */
static void lease(void *arg)
{
	int fd = cts_alloc("udmabuf", PITCH * H * 2);
	struct dlbuf_device *dev = cts_open();
	struct counter c = { 0 };
	struct dlbuf_frame f = nv12(fd, &c);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL }, *share = NULL;
	uint32_t n = 0;

	(void)arg;
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	REQUIRE_OK(dlbuf_tensor_share(t[1], &share));
	CHECK_EQ(c.fired, 0);
	cts_delete(t[0]);
	CHECK_EQ(c.fired, 0);
	cts_delete(t[1]);
	CHECK_EQ(c.fired, 0);
	cts_delete(share);
	CHECK_EQ(c.fired, 1);
	/* The device has seen the buffer before; the lease is a new one. */
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	cts_delete(t[1]);
	cts_delete(t[0]);
	CHECK_EQ(c.fired, 2);
	dlbuf_device_close(dev);
	close(fd);
}

/* A frame that is refused keeps its lease and leaves nothing behind. */
static void refused(struct dlbuf_device *dev, struct dlbuf_frame f, int err)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct counter c = { 0 };
	unsigned int fds = cts_count_fds();
	uint32_t n = 77;

	f.release = fire;
	f.release_data = &c;
	CHECK_ERR(dlbuf_import_frame(dev, &f, NULL, t, &n), err);
	CHECK_EQ(n, 77);
	CHECK(!t[0] && !t[1]);
	CHECK_EQ(c.fired, 0);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_count_fds(), fds);
}

static void refusals(void *arg)
{
	int fd = cts_alloc("udmabuf", PITCH * H * 3 / 2);
	int small = cts_alloc("udmabuf", 4096), pipes[2];
	struct dlbuf_device *dev = cts_open();
	struct dlbuf_frame f;

	(void)arg;
	f = nv12(fd, NULL);
	f.modifier = DLBUF_MOD_INVALID;
	refused(dev, f, -EOPNOTSUPP);
	f.modifier = 0x0100000000000001ull; /* Intel X-tiled */
	refused(dev, f, -EOPNOTSUPP);
	f = nv12(fd, NULL);
	f.code = DLBUF_FOURCC('?', '?', '?', '?');
	refused(dev, f, -EINVAL);
	f = nv12(fd, NULL);
	f.code |= 1u << 31;
	refused(dev, f, -EOPNOTSUPP);
	f = nv12(fd, NULL);
	f.code_space = 0;
	refused(dev, f, -EINVAL);
	f = nv12(fd, NULL);
	f.code_space = DLBUF_CODE_DRM; /* needs its two planes */
	refused(dev, f, -EINVAL);
	f = nv12(fd, NULL);
	f.width = 0;
	refused(dev, f, -EINVAL);
	f = nv12(fd, NULL);
	f.planes[0].pitch = W - 1;
	refused(dev, f, -EINVAL);
	f = nv12(fd, NULL);
	f.height = 4096; /* the second plane is outside, and the first */
	refused(dev, f, -ERANGE);
	/* The first plane is fine, the second is not: all or none. */
	f = nv12(fd, NULL);
	f.nplanes = 2;
	f.planes[1] = (struct dlbuf_plane){ .fd = small, .offset = 4096,
					    .pitch = PITCH };
	refused(dev, f, -ERANGE);
	CHECK_EQ(pipe(pipes), 0);
	f.planes[1].fd = pipes[0];
	refused(dev, f, -EBADF);
	close(pipes[0]);
	close(pipes[1]);
	f = nv12(fd, NULL);
	f.size = 0;
	refused(dev, f, -EINVAL);
	dlbuf_device_close(dev);
	close(fd);
	close(small);
}

void cts_cases_frame(void)
{
	ktap_case("frame/two-planes", two_planes, NULL);
	ktap_case("frame/lease", lease, NULL);
	ktap_case("frame/refusals", refusals, NULL);
}
