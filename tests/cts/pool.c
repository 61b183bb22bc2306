// SPDX-License-Identifier: MIT
/* Pools: the layout of their buffers, imports by devices, and refusals. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cts.h"

#define CC DLBUF_FOURCC

static struct dlbuf_pool *pool_of(struct dlbuf_device *dev,
				  const struct dlbuf_pool_opts *opts)
{
	struct dlbuf_pool *pool = NULL;
	int ret = dlbuf_pool_create(&dev, dev ? 1 : 0, opts, &pool);

	if (ret == -ENODEV)
		ABSENT("%s", dlbuf_last_error());
	REQUIRE_OK(ret);
	return pool;
}

struct want {
	enum dlbuf_code_space space;
	uint32_t code, width, height, pitch_align, offset_align, flags;
	uint64_t in_pitch, in_bytes;
	uint32_t nfds;
	uint64_t pitch[4], offset[4], bytes[4];
};

static const struct want wants[] = {
	{ DLBUF_CODE_V4L2, CC('N', 'V', '1', '2'), 100, 50, 64, 4096, 0, 0, 0,
	  1, { 128, 128 }, { 0, 6400 }, { 9600 } },
	{ DLBUF_CODE_DRM, CC('N', 'V', '1', '2'), 100, 50, 64, 4096, 0, 0, 0,
	  1, { 128, 128 }, { 0, 8192 }, { 8192 + 3200 } },
	{ DLBUF_CODE_V4L2, CC('N', 'M', '1', '2'), 100, 50, 256, 64,
	  DLBUF_POOL_PLANE_FDS, 0, 0,
	  2, { 256, 256 }, { 0, 0 }, { 12800, 6400 } },
	/* Half of luma's pitch is aligned, too. */
	{ DLBUF_CODE_V4L2, CC('Y', 'U', '1', '2'), 100, 50, 64, 64, 0, 0, 0,
	  1, { 128, 64, 64 }, { 0, 6400, 8000 }, { 9600 } },
	{ DLBUF_CODE_V4L2, CC('Y', 'U', 'V', '9'), 100, 50, 64, 64, 0, 0, 0,
	  1, { 256, 64, 64 }, { 0, 12800, 13632 }, { 14464 } },
	{ DLBUF_CODE_V4L2, CC('N', 'V', '2', '4'), 100, 50, 64, 64, 0, 0, 0,
	  1, { 128, 256 }, { 0, 6400 }, { 19200 } },
	{ DLBUF_CODE_V4L2, CC('R', 'G', 'B', '3'), 100, 50, 4096, 64, 0, 0, 0,
	  1, { 4096 }, { 0 }, { 204800 } },
	/* Values that the producer has fixed. */
	{ DLBUF_CODE_V4L2, CC('N', 'V', '1', '2'), 100, 50, 0, 0, 0, 104, 10000,
	  1, { 104, 104 }, { 0, 5200 }, { 10000 } },
	{ DLBUF_CODE_V4L2, CC('R', 'G', 'B', 'P'), 100, 50, 64, 64, 0, 0, 0,
	  1, { 256 }, { 0 }, { 12800 } },
	{ DLBUF_CODE_V4L2, CC('p', 'R', 'A', 'A'), 100, 50, 0, 0, 0, 128, 0,
	  1, { 128 }, { 0 }, { 6400 } },
	{ DLBUF_CODE_V4L2, CC('M', 'J', 'P', 'G'), 100, 50, 0, 0, 0, 0, 70000,
	  1, { 0 }, { 0 }, { 70000 } },
	{ DLBUF_CODE_DRM, CC('X', 'R', 'A', '8'), 100, 50, 64, 64, 0, 0, 0,
	  1, { 448, 128 }, { 0, 22400 }, { 28800 } },
};

static void layouts(void *arg)
{
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		const struct want *w = &wants[i];
		DLBUF_OPTS(dlbuf_pool_opts, opts, .width = w->width,
			   .height = w->height, .code = w->code,
			   .code_space = w->space, .buffers = 2,
			   .flags = w->flags, .pitch_align = w->pitch_align,
			   .offset_align = w->offset_align,
			   .pitch = w->in_pitch, .bytes = w->in_bytes);
		struct dlbuf_pool *pool = pool_of(NULL, &opts);
		DLBUF_INFO(dlbuf_pool_info, before);
		DLBUF_INFO(dlbuf_pool_info, info);
		DLBUF_INFO(dlbuf_frame, f);

		CHECK_OK(dlbuf_pool_layout(NULL, 0, &opts, &before));
		CHECK_OK(dlbuf_pool_get_info(pool, &info));
		CHECK(!before.exporter[0] && info.exporter[0]);
		CHECK(!memcmp(&before, &info,
			      offsetof(struct dlbuf_pool_info, exporter)));
		CHECK_EQ(info.buffers, 2);
		CHECK_EQ(info.nfds, w->nfds);
		CHECK_OK(dlbuf_pool_frame(pool, 1, &f));
		CHECK_EQ(f.nplanes, info.nplanes);
		CHECK_EQ(f.modifier, DLBUF_MOD_LINEAR);
		CHECK(!f.release && f.order == DLBUF_ORDER_UNKNOWN);
		for (uint32_t p = 0; p < f.nplanes; p++) {
			CHECK_EQ(f.planes[p].pitch, w->pitch[p]);
			CHECK_EQ(f.planes[p].offset, w->offset[p]);
			CHECK_EQ(info.bytes[w->nfds > 1 ? p : 0],
				 w->bytes[w->nfds > 1 ? p : 0]);
			CHECK(p == 0 || (f.planes[p].fd == f.planes[0].fd) ==
			      (w->nfds == 1));
		}
		dlbuf_pool_destroy(pool);
	}
}

/* The layout before there are buffers is that of the pool, for every device. */
static void before_it_is_made(void *arg)
{
	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = 100, .height = 50,
		   .code = CC('N', 'V', '1', '2'), .code_space = DLBUF_CODE_DRM,
		   .buffers = 2);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLBUF_INFO(dlbuf_device_info, device);
	DLBUF_INFO(dlbuf_device_stats, stats);
	DLBUF_INFO(dlbuf_pool_info, before);
	DLBUF_INFO(dlbuf_pool_info, info);
	struct dlbuf_pool *pool;
	unsigned int fds;

	CHECK_OK(dlbuf_device_get_info(dev, &device));
	fds = cts_count_fds();
	CHECK_EQ(KTAP_ALLOCS(dlbuf_pool_layout(&dev, 1, &opts, &before)), 0);
	CHECK_EQ(cts_count_fds(), fds);
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.misses, 0);
	CHECK_EQ(before.pitch[0] % device.pitch_align, 0);
	CHECK_EQ(before.offset[1] % device.offset_align, 0);
	/* The pool is made for the producer's answer. */
	opts.pitch = before.pitch[0] * 2;
	opts.bytes = before.bytes[0] * 2;
	CHECK_OK(dlbuf_pool_layout(&dev, 1, &opts, &before));
	CHECK_EQ(before.pitch[0], opts.pitch);
	CHECK_EQ(before.bytes[0], opts.bytes);
	pool = pool_of(dev, &opts);
	CHECK_OK(dlbuf_pool_get_info(pool, &info));
	CHECK(!memcmp(&before, &info,
		      offsetof(struct dlbuf_pool_info, exporter)));
	dlbuf_pool_destroy(pool);
}

/* A frame of the pool is imported without a word to the driver. */
static void known_to_devices(void *arg)
{
	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = 64, .height = 48,
		   .code = CC('N', 'V', '1', '2'),
		   .code_space = DLBUF_CODE_V4L2, .buffers = 3);
	unsigned int fds = cts_count_fds();
	struct dlbuf_device *dev = cts_open();
	struct dlbuf_pool *pool = pool_of(dev, &opts);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	DLBUF_INFO(dlbuf_device_stats, before);
	DLBUF_INFO(dlbuf_device_stats, after);
	DLBUF_INFO(dlbuf_device_info, dev_info);
	unsigned char want[48], got[48];
	DLBUF_INFO(dlbuf_frame, f);
	uint32_t n = 0;

	CHECK_OK(dlbuf_device_get_info(dev, &dev_info));
	CHECK(dev_info.pitch_align >= 64 && dev_info.offset_align >= 64);
	CHECK_OK(dlbuf_device_get_stats(dev, &before));
	CHECK_EQ(before.live, 3);
	for (uint32_t i = 0; i < 3; i++) {
		REQUIRE_OK(dlbuf_pool_frame(pool, i, &f));
		CHECK_EQ(f.planes[0].pitch % dev_info.pitch_align, 0);
		REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
		cts_pattern(want, sizeof(want), i);
		cts_write(t[1], f.planes[1].offset, want, sizeof(want));
		cts_peek(f.planes[0].fd, f.planes[1].offset, got, sizeof(got));
		CHECK(!memcmp(want, got, sizeof(got)));
		for (uint32_t p = 0; p < n; p++)
			cts_delete(t[p]);
	}
	CHECK_OK(dlbuf_device_get_stats(dev, &after));
	CHECK_EQ(after.misses, before.misses);
	CHECK_EQ(after.live, 3);
	/* A tensor outlives the pool. */
	REQUIRE_OK(dlbuf_import_frame(dev, &f, NULL, t, &n));
	dlbuf_pool_destroy(pool);
	cts_read(t[0], 0, got, sizeof(got));
	for (uint32_t p = 0; p < n; p++)
		cts_delete(t[p]);
	/* No device keeps memory of it, although its frames were imported. */
	CHECK_OK(dlbuf_device_get_stats(dev, &after));
	CHECK_EQ(after.idle, 0);
	dlbuf_device_close(dev);
	/* The frames' leases wait for the device's fences. */
	cts_until_fds(fds);
}

static void refused(struct dlbuf_device *dev, struct dlbuf_pool_opts opts,
		    int err)
{
	struct dlbuf_pool *pool = (void *)&opts;
	DLBUF_INFO(dlbuf_pool_info, info);
	unsigned int fds = cts_count_fds();

	/* Only errors about memory do not come from the layout. */
	if (!opts.exporter && err != -ENOMEM)
		CHECK_ERR(dlbuf_pool_layout(&dev, 1, &opts, &info), err);
	CHECK_EQ(info.nplanes, 0);
	CHECK_ERR(dlbuf_pool_create(&dev, 1, &opts, &pool), err);
	CHECK(pool == (void *)&opts);
	CHECK_EQ(cts_count_fds(), fds);
}

static void count_failures(const struct dlbuf_alloc_report *report, void *data)
{
	*(unsigned int *)data += report->status == -EMFILE &&
				 !strcmp(report->exporter, "udmabuf");
}

/* Without fds the buffers are not made again: each exporter is tried once. */
static void out_of_fds(struct dlbuf_device *dev, struct dlbuf_pool_opts o)
{
	unsigned int failures, most = 0;
	struct rlimit limit, few;
	struct dlbuf_pool *pool;
	int next;

	o.buffers = 32;
	o.report = count_failures;
	o.report_data = &failures;
	REQUIRE(!getrlimit(RLIMIT_NOFILE, &limit));
	few = limit;
	next = dup(0);
	close(next);
	for (int left = 12; left < 20; left++) {
		failures = 0;
		few.rlim_cur = next + left;
		REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
		CHECK_ERR(dlbuf_pool_create(&dev, 1, &o, &pool), -EMFILE);
		if (failures > most)
			most = failures;
	}
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	CHECK_EQ(most, 1);
}

static void refusals(void *arg)
{
	const struct dlbuf_pool_opts good = {
		.size = sizeof(good), .width = 64, .height = 48, .buffers = 2,
		.code = CC('N', 'V', '1', '2'), .code_space = DLBUF_CODE_V4L2,
	};
	struct dlbuf_device *dev AUTO_DEV = cts_open(), *none = NULL;
	struct dlbuf_pool *pool = pool_of(dev, &good);
	struct dlbuf_pool_opts o;
	DLBUF_INFO(dlbuf_pool_info, info);
	DLBUF_INFO(dlbuf_frame, f);
	struct {
		struct dlbuf_frame frame;
		uint64_t behind;
	} shorter = { .frame.size = offsetof(struct dlbuf_frame, crop) };

	/* A struct of older headers, and nothing behind it is touched. */
	memset(&shorter.frame.crop, 0xee, sizeof(shorter.frame.crop));
	CHECK_OK(dlbuf_pool_frame(pool, 1, &shorter.frame));
	CHECK_EQ(shorter.frame.nplanes, 2);
	CHECK_EQ(shorter.frame.crop.x, 0xeeeeeeee);
	f.size = 0;
	CHECK_ERR(dlbuf_pool_frame(pool, 1, &f), -EINVAL);
	f.size = sizeof(f);
	CHECK_ERR(dlbuf_pool_frame(pool, 2, &f), -EINVAL);
	CHECK_ERR(dlbuf_pool_frame(NULL, 0, &f), -EINVAL);
	CHECK_ERR(dlbuf_pool_frame(pool, 0, NULL), -EINVAL);
	CHECK_ERR(dlbuf_pool_get_info(NULL, &info), -EINVAL);
	dlbuf_pool_destroy(pool);
	dlbuf_pool_destroy(NULL);
	/* Other drivers' own errors do not mention fds. */
	if (!strcmp(cts_access->backend, "vulkan"))
		out_of_fds(dev, good);
	CHECK_ERR(dlbuf_pool_layout(NULL, 1, &good, &info), -EINVAL);
	CHECK_ERR(dlbuf_pool_layout(&dev, 1, &good, NULL), -EINVAL);
	info.size = 0;
	CHECK_ERR(dlbuf_pool_layout(&dev, 1, &good, &info), -EINVAL);
	CHECK_ERR(dlbuf_pool_create(NULL, 1, &good, &pool), -EINVAL);
	CHECK_ERR(dlbuf_pool_create(&none, 1, &good, &pool), -EINVAL);
	CHECK_ERR(dlbuf_pool_create(&dev, 1, &good, NULL), -EINVAL);
	CHECK_ERR(dlbuf_pool_create(&dev, 1, NULL, &pool), -EINVAL);
	o = good, o.buffers = 0, refused(dev, o, -EINVAL);
	o = good, o.buffers = DLBUF_POOL_MAX_BUFFERS + 1,
	refused(dev, o, -EINVAL);
	o = good, o.width = 0, refused(dev, o, -EINVAL);
	o = good, o.height = 0, refused(dev, o, -EINVAL);
	o = good, o.code = 1, refused(dev, o, -EINVAL);
	o = good, o.code_space = 0, refused(dev, o, -EINVAL);
	o = good, o.pitch_align = 48, refused(dev, o, -EINVAL);
	o = good, o.offset_align = 3, refused(dev, o, -EINVAL);
	o = good, o.flags = 2, refused(dev, o, -EINVAL);
	o = good, o.pitch = 63, refused(dev, o, -EINVAL);
	o = good, o.pitch = UINT64_MAX, refused(dev, o, -EINVAL);
	o = good, o.bytes = 4607, refused(dev, o, -EINVAL);
	o = good, o.exporter = "nobody", refused(dev, o, -EINVAL);
	o = good, o.code = CC('Y', 'U', '1', '2'), o.pitch = 65,
	refused(dev, o, -EINVAL);
	o = good, o.code = CC('p', 'R', 'A', 'A'), refused(dev, o, -EOPNOTSUPP);
	o = good, o.code = CC('M', 'J', 'P', 'G'), refused(dev, o, -EOPNOTSUPP);
	o = good, o.width = UINT32_MAX, o.height = 1000000,
	refused(dev, o, -ENOMEM);
	o = good, o.width = o.height = UINT32_MAX,
	refused(dev, o, -EOVERFLOW);
	o = good, o.pitch = INT64_MAX, refused(dev, o, -EOVERFLOW);
	o = good, o.size = 0, refused(dev, o, -EINVAL);
}

void cts_cases_pool(void)
{
	ktap_case("pool/layouts", layouts, NULL);
	ktap_case("pool/before-it-is-made", before_it_is_made, NULL);
	ktap_case("pool/known-to-devices", known_to_devices, NULL);
	ktap_case("pool/refusals", refusals, NULL);
}
