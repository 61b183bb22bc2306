// SPDX-License-Identifier: MIT
/*
 * Frames that are not linear. No driver of the lab has a tiling of its own. So
 * linear frames take the code path of tiled ones (detile_linear): as images
 * with the modifier LINEAR, whose pitch and offset the driver has to follow.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/backend.h"
#include "cts.h"
#include "frame/detile.h"
#include "system/internal.h"

#define CC DLBUF_FOURCC
#define X_TILED 0x0100000000000001ull	/* Intel's */
#define NOBODYS 0x7f00000000000001ull	/* of no vendor */
#define W 64u
#define H 48u
#define PAD 256u			/* bytes behind each row, as AMD aligns them */
#define BYTES (1u << 18)

static const struct dlbuf_import_opts copy_opts = {
	.size = sizeof(copy_opts),
	.flags = DLBUF_IMPORT_MAY_COPY,
};

struct kind {
	const char *name;
	uint32_t code;
	enum dlbuf_view view;
};

static const struct kind kinds[] = {
	{ "R8", CC('R', '8', ' ', ' '), DLBUF_VIEW_PLANES },
	{ "R16", CC('R', '1', '6', ' '), DLBUF_VIEW_PLANES },
	{ "RGB565", CC('R', 'G', '1', '6'), DLBUF_VIEW_WORDS },
	{ "XRGB8888", CC('X', 'R', '2', '4'), DLBUF_VIEW_COLOUR },
	{ "ABGR16161616F", CC('A', 'B', '4', 'H'), DLBUF_VIEW_PLANES },
	{ "YUYV", CC('Y', 'U', 'Y', 'V'), DLBUF_VIEW_COMPONENTS },
	{ "NV12", CC('N', 'V', '1', '2'), DLBUF_VIEW_PLANES },
	{ "NV21", CC('N', 'V', '2', '1'), DLBUF_VIEW_COMPONENTS },
	{ "YUV420", CC('Y', 'U', '1', '2'), DLBUF_VIEW_PLANES },
	{ "P010", CC('P', '0', '1', '0'), DLBUF_VIEW_LUMA },
};

/*
 * Planes one behind another with padded rows, the first a page and a bit into
 * the dma-buf; in fds[i], the last for the rest of them.
 */
static struct dlbuf_frame frame_of(uint32_t code, uint32_t w, uint32_t h,
				   const int *fds, unsigned int nfds)
{
	DLBUF_INFO(dlbuf_format_info, info);
	struct dlbuf_frame f = {
		.size = sizeof(f),
		.width = w,
		.height = h,
		.code = code,
		.code_space = DLBUF_CODE_DRM,
		.modifier = DLBUF_MOD_LINEAR,
	};
	uint64_t at = 4096 + 256;

	REQUIRE_OK(dlbuf_format_find(code, 0, DLBUF_CODE_DRM, &info));
	f.nplanes = info.nplanes;
	for (uint32_t i = 0; i < f.nplanes; i++) {
		const struct dlbuf_format_plane *p = &info.planes[i];
		uint32_t row = (w + p->hsub - 1) / p->hsub * p->channels *
			       p->bits / 8;

		f.planes[i] = (struct dlbuf_plane){
			.fd = fds[i < nfds ? i : nfds - 1],
			.offset = at,
			.pitch = (row + 255) / 256 * 256 + PAD,
		};
		at += f.planes[i].pitch * ((h + p->vsub - 1) / p->vsub);
	}
	REQUIRE(at <= BYTES);
	return f;
}

static struct dlbuf_frame nv12(const int *fd)
{
	return frame_of(CC('N', 'V', '1', '2'), W, H, fd, 1);
}

static int buffer(uint32_t seed)
{
	unsigned char *p = malloc(BYTES);
	int fd = cts_alloc("udmabuf", BYTES);

	REQUIRE(p);
	cts_pattern(p, BYTES, seed);
	cts_poke(fd, 0, p, BYTES);
	free(p);
	return fd;
}

/* A device that could read tiled frames, of a driver that does. */
static bool can_copy(struct dlbuf_device *dev)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	int fd, ret;
	struct dlbuf_frame f;
	uint32_t n = 0;

	if (!dev->backend->can_detile)
		return false;
	fd = cts_alloc("udmabuf", BYTES);
	f = nv12(&fd);
	detile_linear = true;
	ret = dlbuf_import_frame(dev, &f, &copy_opts, t, &n);
	close(fd);
	if (ret && (strstr(dlbuf_last_error(), " lacks ") ||
		    strstr(dlbuf_last_error(), " ignores the offset "))) {
		detile_linear = false;
		SKIP("%s", dlbuf_last_error());
	}
	for (uint32_t i = 0; !ret && i < n; i++)
		cts_delete(t[i]);
	return true;
}

static void need_copies(struct dlbuf_device *dev)
{
	if (!can_copy(dev))
		SKIP("the device makes no copies");
}

static void copies_of(struct dlbuf_device *dev, const struct dlbuf_frame *f,
		      DLManagedTensorVersioned **t, uint32_t *n)
{
	detile_linear = true;
	if (dlbuf_import_frame(dev, f, &copy_opts, t, n))
		FATAL("dlbuf_import_frame: %s", dlbuf_last_error());
}

/* ---- pixels */

/* All values of a tensor, in order, without the bytes between them. */
static unsigned char *values_of(DLManagedTensorVersioned *t, size_t *bytes)
{
	const DLTensor *dl = &t->dl_tensor;
	size_t value = dl->dtype.bits / 8, total = 1, at = 0;
	int64_t index[4] = { 0 };
	DLBUF_INFO(dlbuf_tensor_info, info);
	unsigned char *raw, *out;

	REQUIRE_OK(dlbuf_tensor_get_info(t, &info));
	raw = malloc(info.end - info.first);
	for (int i = 0; i < dl->ndim; i++)
		total *= dl->shape[i];
	out = malloc(total * value);
	REQUIRE(raw && out);
	cts_read(t, info.first, raw, info.end - info.first);
	while (at < total) {
		int64_t from = 0;
		int i = dl->ndim;

		for (int j = 0; j < dl->ndim; j++)
			from += index[j] * dl->strides[j];
		memcpy(out + at++ * value, raw + from * value, value);
		while (i-- && ++index[i] == dl->shape[i])
			index[i] = 0;
	}
	free(raw);
	*bytes = total * value;
	return out;
}

static void same_values(DLManagedTensorVersioned *a,
			DLManagedTensorVersioned *b)
{
	size_t na, nb;
	unsigned char *va = values_of(a, &na), *vb = values_of(b, &nb);

	if (CHECK_EQ(na, nb) && cts_computes)
		CHECK(!memcmp(va, vb, na));
	free(va);
	free(vb);
}

static void check_copied(DLManagedTensorVersioned *t, uint32_t access)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK(t->flags & DLPACK_FLAG_BITMASK_IS_COPIED);
	CHECK_EQ(!!(t->flags & DLPACK_FLAG_BITMASK_READ_ONLY),
		 !(access & DLBUF_WRITE));
	REQUIRE_OK(dlbuf_tensor_get_info(t, &info));
	CHECK_EQ(info.path, DLBUF_PATH_BRIDGE);
	CHECK_EQ(info.access, access);
}

/* The frame as it is and its copy have the same values. */
static void compare(struct dlbuf_device *dev, const struct dlbuf_frame *f,
		    enum dlbuf_view view)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .view = view);
	DLManagedTensorVersioned *a[DLBUF_MAX_PLANES], *b[DLBUF_MAX_PLANES];
	uint32_t na = 0, nb = 0;

	detile_linear = true;
	REQUIRE_OK(dlbuf_import_frame(dev, f, &opts, a, &na));
	opts.flags = DLBUF_IMPORT_MAY_COPY;
	opts.access = DLBUF_READ;
	if (dlbuf_import_frame(dev, f, &opts, b, &nb)) {
		for (uint32_t i = 0; i < na; i++)
			cts_delete(a[i]);
		if (!cts_computes && strstr(dlbuf_last_error(), " with no modifier, "))
			SKIP("%s", dlbuf_last_error());
		FATAL("dlbuf_import_frame: %s", dlbuf_last_error());
	}
	CHECK_EQ(na, nb);
	for (uint32_t i = 0; i < na && i < nb; i++) {
		CHECK(!(a[i]->flags & DLPACK_FLAG_BITMASK_IS_COPIED));
		check_copied(b[i], DLBUF_READ);
		same_values(a[i], b[i]);
		cts_delete(a[i]);
		cts_delete(b[i]);
	}
}

static void pixels(void *arg)
{
	const struct kind *kind = arg;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dlbuf_frame f;
	int fd AUTO_FD = -1;

	need_copies(dev);
	fd = buffer(kind->code);
	f = frame_of(kind->code, W, H, &fd, 1);
	compare(dev, &f, kind->view);
	/* Another size, and its visible part. */
	f = frame_of(kind->code, 70, 50, &fd, 1);
	compare(dev, &f, kind->view);
	f.crop = (struct dlbuf_rect){ 2, 4, 32, 24 };
	compare(dev, &f, kind->view);
}

/* Sizes that cut a chroma sample in two, and planes in several dma-bufs. */
static void planes_apart(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dlbuf_frame f;
	int fds[3];

	need_copies(dev);
	for (int i = 0; i < 3; i++)
		fds[i] = buffer(i);
	f = frame_of(CC('N', 'V', '1', '2'), 61, 47, fds, 1);
	compare(dev, &f, DLBUF_VIEW_PLANES);
	f = frame_of(CC('N', 'V', '1', '2'), W, H, fds, 2);
	compare(dev, &f, DLBUF_VIEW_PLANES);
	f = frame_of(CC('Y', 'U', '1', '2'), W, H, fds, 3);
	compare(dev, &f, DLBUF_VIEW_PLANES);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

/* Luma and chroma as one tensor, which a copy has without gaps. */
static void stacked(void *arg)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .flags = DLBUF_IMPORT_MAY_COPY,
		   .view = DLBUF_VIEW_STACKED);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_frame f;
	uint32_t n = 0;
	int fd AUTO_FD = -1;

	need_copies(dev);
	fd = buffer(1);
	f = nv12(&fd);
	f.planes[1].offset += 256; /* which the frame itself does not have */
	detile_linear = true;
	if (dlbuf_import_frame(dev, &f, &opts, t, &n))
		FATAL("dlbuf_import_frame: %s", dlbuf_last_error());
	CHECK_EQ(n, 1);
	CHECK_EQ(t[0]->dl_tensor.shape[0], H * 3 / 2);
	cts_delete(t[0]);
}

/* A copy is the caller's own: writes to it do not reach the frame. */
static void written(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	unsigned char before[64], after[64], got[64];
	struct dlbuf_frame f;
	uint32_t n = 0;
	int fd AUTO_FD = -1;

	need_copies(dev);
	fd = buffer(1);
	f = nv12(&fd);
	cts_peek(fd, f.planes[0].offset, before, sizeof(before));
	copies_of(dev, &f, t, &n);
	check_copied(t[0], DLBUF_RW);
	memset(got, 0x5a, sizeof(got));
	cts_write(t[0], 0, got, sizeof(got));
	cts_peek(fd, f.planes[0].offset, after, sizeof(after));
	CHECK(!memcmp(before, after, sizeof(after)));
	cts_delete(t[0]);
	cts_delete(t[1]);
	/* The buffer is used again, and written all over. */
	copies_of(dev, &f, t, &n);
	cts_read(t[0], 0, got, sizeof(got));
	if (cts_computes)
		CHECK(!memcmp(before, got, sizeof(got)));
	cts_delete(t[0]);
	cts_delete(t[1]);
}

/* ---- refusals */

struct counter {
	int fired;	/* atomic */
};

static void fire(void *data)
{
	struct counter *c = data;

	__atomic_add_fetch(&c->fired, 1, __ATOMIC_RELEASE);
}

/* It keeps its lease and leaves nothing behind. */
static void refused(struct dlbuf_device *dev, struct dlbuf_frame f,
		    uint32_t access, int err)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .flags = DLBUF_IMPORT_MAY_COPY,
		   .access = access);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct counter c = { 0 };
	unsigned int fds;
	uint32_t n = 77;

	dlbuf_device_trim(dev, 0);
	fds = cts_count_fds();
	f.release = fire;
	f.release_data = &c;
	CHECK_ERR(dlbuf_import_frame(dev, &f, &opts, t, &n), err);
	CHECK_EQ(n, 77);
	CHECK(!t[0] && !t[1]);
	CHECK_EQ(c.fired, 0);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_count_fds(), fds);
}

static void refusals(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), pipes[2];
	bool can = dev->backend->can_detile;
	struct dlbuf_frame f = nv12(&fd), bad[8];
	static const struct {
		int err;
		const char *says;
	} wants[] = {
		{ -EINVAL, "planes" }, { -EOPNOTSUPP, "plane" },
		{ -EINVAL, "pixels" }, { -EINVAL, "pitch" },
		{ -ERANGE, "plane 1" }, { -ERANGE, "needs" },
		{ -EINVAL, "crop" }, { -EBADF, "pipe" },
	};
	uint32_t n = 0;

	/* The caller allowed no copy, and no device could make one. */
	f.modifier = NOBODYS;
	CHECK_ERR_SAYS(dlbuf_import_frame(dev, &f, NULL, t, &n), -EOPNOTSUPP, "0x7f00000000000001");
	CHECK(!strstr(dlbuf_last_error(), "MAY_COPY"));
	/* One that no device reads. */
	refused(dev, f, 0, -EOPNOTSUPP);
	CHECK_SAYS("0x7f00000000000001");
	if (can)
		CHECK_SAYS("reads plane 0 of NV12 with ");
	else
		CHECK_SAYS("cannot read tiled frames");
	refused(dev, f, DLBUF_RW, -EOPNOTSUPP);
	CHECK_SAYS("does not reach the frame");
	f.modifier = DLBUF_MOD_INVALID;
	refused(dev, f, 0, -EOPNOTSUPP);
	CHECK_SAYS("INVALID");
	if (!can_copy(dev))
		return;
	CHECK_EQ(pipe(pipes), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = nv12(&fd);
	bad[0].nplanes = 1;
	bad[1].nplanes = 3;
	bad[1].planes[2] = f.planes[1];
	bad[2].width = 0;
	bad[3].planes[1].pitch = -f.planes[1].pitch;
	bad[4].planes[1].offset = BYTES;
	bad[5].height = 4096; /* the driver computes its end */
	bad[6].crop = (struct dlbuf_rect){ 0, 0, W + 2, H };
	bad[7].planes[1].fd = pipes[0];
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		refused(dev, bad[i], 0, wants[i].err);
		CHECK_SAYS(wants[i].says);
	}
	close(pipes[0]);
	close(pipes[1]);
}

/* The modifiers that the device has for a fourcc. */
struct modifiers {
	uint32_t code;
	uint64_t list[64];
	uint32_t nplanes[64];	/* in memory */
	size_t n;
};

static int note_modifier(const struct dlbuf_device_format *f, void *data)
{
	struct modifiers *m = data;

	if (f->code_space == DLBUF_CODE_DRM && f->code == m->code) {
		CHECK(f->modifier != DLBUF_MOD_INVALID &&
		      !m->n == (f->modifier == DLBUF_MOD_LINEAR));
		REQUIRE(m->n < ARRAY_SIZE(m->list));
		m->nplanes[m->n] = f->nplanes;
		m->list[m->n++] = f->modifier;
	}
	return 0;
}

/* The list has exactly the modifiers that are imported. */
static void modifiers(void *arg)
{
	static const uint64_t all[] = { DLBUF_MOD_LINEAR, X_TILED,
					DLBUF_MOD_INVALID };
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_frame f = nv12(&fd);
	struct modifiers m = { .code = f.code };

	CHECK_OK(dlbuf_device_formats(dev, note_modifier, &m));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		bool has = false;
		uint32_t nt;
		int ret;

		f.modifier = all[i];
		for (size_t j = 0; j < m.n; j++)
			has |= m.list[j] == all[i];
		ret = dlbuf_import_frame(dev, &f, &copy_opts, t, &nt);
		/* A driver that lists it may need other memory. */
		CHECK(!ret ? has : all[i] != DLBUF_MOD_LINEAR);
		while (!ret && nt)
			cts_delete(t[--nt]);
	}
}

/*
 * Pitches and offsets that a driver may not support are accepted or refused, without an end
 * of the process; also with NVK, which would end the process for a wrong pitch and ignores
 * all offsets, and with ANV, which returns "out of memory". Compressed frames have more
 * planes in memory, all of which the driver gets. It takes one of these layouts if there are
 * two, and none of a frame that lacks one.
 */
static void layouts(void *arg)
{
	DLBUF_INFO(dlbuf_device_info, info);
	static const int64_t pitches[] = { 400, 448, 512, 576, 4096 };
	static const uint64_t offsets[] = { 0, 256, 65536 };
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	uint64_t taken = 0;
	int fd AUTO_FD = -1;
	struct modifiers m = { .code = CC('X', 'R', '2', '4') };

	if (!dev->backend->can_detile)
		SKIP("the device makes no copies");
	detile_linear = true;
	fd = buffer(1);
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_OK(dlbuf_device_formats(dev, note_modifier, &m));
	for (size_t i = 0; i < m.n * ARRAY_SIZE(pitches) * ARRAY_SIZE(offsets); i++) {
		uint64_t offset = offsets[i % ARRAY_SIZE(offsets)];
		int64_t pitch = pitches[i / ARRAY_SIZE(offsets) % ARRAY_SIZE(pitches)];
		size_t k = i / ARRAY_SIZE(offsets) / ARRAY_SIZE(pitches);
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		struct dlbuf_frame f = frame_of(CC('X', 'R', '2', '4'), 100, 40, &fd, 1);
		uint32_t nt = 0;
		int ret;

		f.modifier = m.list[k];
		f.nplanes = m.nplanes[k];
		for (uint32_t j = 0; j < f.nplanes; j++)
			f.planes[j] = (struct dlbuf_plane){
				.fd = fd, .offset = offset + (j << 16),
				.pitch = j ? 128 : pitch,
			};
		ret = dlbuf_import_frame(dev, &f, &copy_opts, t, &nt);
		taken |= (uint64_t)!ret << k;
		CHECK_MSG(!ret || ret == -EOPNOTSUPP || ret == -ERANGE,
			  "0x%016llx, pitch %lld, offset %llu: %s",
			  (unsigned long long)f.modifier, (long long)pitch,
			  (unsigned long long)offset, dlbuf_last_error());
		if (offset && !strncmp(info.driver, "NVK", 3))
			CHECK_EQ(ret, -EOPNOTSUPP);
		while (!ret && nt)
			cts_delete(t[--nt]);
		/*
		 * The error names the option if it helps. A driver may refuse a pitch only in the
		 * copy.
		 */
		if (f.modifier != DLBUF_MOD_LINEAR && ret != -ERANGE) {
			CHECK_ERR(dlbuf_import_frame(dev, &f, NULL, t, &nt), -EOPNOTSUPP);
			if (!ret)
				CHECK_SAYS("MAY_COPY");
		}
		if (f.nplanes-- > 1) {
			CHECK_ERR(dlbuf_import_frame(dev, &f, &copy_opts, t, &nt), -EOPNOTSUPP);
			CHECK_SAYS(" planes in memory, the frame says ");
		}
	}
	for (size_t k = 0; k < m.n; k++)
		CHECK_MSG(m.nplanes[k] != 2 || taken >> k & 1, "0x%016llx",
			  (unsigned long long)m.list[k]);
}

/* One dma-buf as bytes and as a frame, in both orders. */
static void bytes_too(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();

	need_copies(dev);
	for (int i = 0; i < 2; i++) {
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES], *raw = NULL;
		int fd AUTO_FD = buffer(i);
		struct dlbuf_frame f = nv12(&fd);
		uint32_t n = 0;

		if (!i)
			raw = cts_import(dev, fd, BYTES);
		copies_of(dev, &f, t, &n);
		if (i)
			raw = cts_import(dev, fd, BYTES);
		cts_delete(t[0]);
		cts_delete(t[1]);
		cts_delete(raw);
	}
}

/* ---- the buffers of the copies */

static uint64_t inode_of(DLManagedTensorVersioned *t)
{
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	return info.ino;
}

static void staging(void *arg)
{
	DLManagedTensorVersioned *t[20][DLBUF_MAX_PLANES];
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct dlbuf_device_stats before, after;
	struct dlbuf_frame f;
	unsigned int fds;
	uint64_t inode;
	uint32_t n = 0;
	int fd AUTO_FD = -1;

	need_copies(dev);
	fd = buffer(1);
	f = nv12(&fd);
	dlbuf_device_trim(dev, 0);
	fds = cts_count_fds();
	before = cts_stats(dev);
	for (int i = 0; i < 20; i++) {
		copies_of(dev, &f, t[i], &n);
		CHECK_EQ(n, 2);
		CHECK_EQ(inode_of(t[i][0]), inode_of(t[i][1]));
		for (int j = 0; j < i; j++)
			CHECK(inode_of(t[i][0]) != inode_of(t[j][0]));
	}
	after = cts_stats(dev);
	CHECK_EQ(after.copies - before.copies, 20);
	/* Rows of 64 bytes, and as many as the device wants them to have. */
	CHECK((after.copied_bytes - before.copied_bytes) / 20 >= W * H * 3 / 2);
	CHECK_EQ(after.live, 20);
	for (int i = 0; i < 20; i++) {
		cts_delete(t[i][0]);
		cts_delete(t[i][1]);
	}
	after = cts_stats(dev);
	CHECK_EQ(after.live, 0);
	CHECK_EQ(after.idle, CACHE_MAX_STAGING);
	/* One after another: one buffer. */
	copies_of(dev, &f, t[0], &n);
	inode = inode_of(t[0][0]);
	for (int i = 0; i < 20; i++) {
		cts_delete(t[0][0]);
		cts_delete(t[0][1]);
		copies_of(dev, &f, t[0], &n);
		CHECK_EQ(inode_of(t[0][0]), inode);
	}
	cts_delete(t[0][0]);
	cts_delete(t[0][1]);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_count_fds(), fds);
}

/* ---- order */

static bool fires(struct counter *c)
{
	UNTIL(__atomic_load_n(&c->fired, __ATOMIC_ACQUIRE));
	return __atomic_load_n(&c->fired, __ATOMIC_ACQUIRE);
}

/* The lease fires when the copy is complete, and not when its tensors are deleted. */
static void lease(void *arg)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct counter c = { 0 };
	struct dlbuf_device *dev;
	struct dlbuf_frame f;
	unsigned int fds;
	uint32_t n = 0;
	int fd;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	fds = cts_count_fds();
	dev = cts_open();
	need_copies(dev);
	fd = buffer(1);
	f = nv12(&fd);
	f.release = fire;
	f.release_data = &c;
	copies_of(dev, &f, t, &n);
	CHECK(fires(&c));
	cts_delete(t[0]);
	cts_delete(t[1]);
	CHECK_EQ(c.fired, 1);
	/* The same of a lease that others hold, too. */
	c.fired = 0;
	f.release = NULL;
	REQUIRE_OK(dlbuf_lease_create(fire, &c, &f.lease));
	copies_of(dev, &f, t, &n);
	CHECK_EQ(c.fired, 0);
	dlbuf_lease_drop(f.lease);
	CHECK(fires(&c));
	cts_delete(t[0]);
	cts_delete(t[1]);
	dlbuf_device_close(dev);
	CHECK_EQ(c.fired, 1);
	close(fd);
	cts_until_fds(fds);
}

struct producer {
	struct cts_fence fence;
	int fd;
	uint64_t offset;
	unsigned char pixels[W];
	bool imported;		/* atomic: the import has returned */
	struct counter *lease;
	int early;		/* leases before the pixels were there */
};

/*
 * Writes late: when the import has returned, or nothing runs any more, as all wait for the
 * fence. Drivers sleep for other reasons, too: while a thread of theirs compiles.
 */
static void *produce(void *arg)
{
	struct producer *p = arg;

	cts_until_idle(&p->imported);
	p->early = __atomic_load_n(&p->lease->fired, __ATOMIC_ACQUIRE);
	cts_poke_raw(p->fd, p->offset, p->pixels, sizeof(p->pixels));
	cts_fence_signal(&p->fence);
	return NULL;
}

/* The producer's fence comes before the copy, and the copy before the reader. */
static void fenced(void *arg)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct counter c = { 0 };
	struct producer p = { .lease = &c };
	struct dlbuf_device *dev;
	unsigned char got[W];
	struct dlbuf_frame f;
	pthread_t thread;
	uint32_t n = 0;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	dev = cts_open();
	need_copies(dev);
	cts_fence_create(&p.fence);
	p.fd = buffer(1);
	f = nv12(&p.fd);
	f.order = DLBUF_ORDER_FENCE;
	f.fence = p.fence.sync_file;
	f.release = fire;
	f.release_data = &c;
	p.offset = f.planes[0].offset;
	cts_pattern(p.pixels, sizeof(p.pixels), 99);
	REQUIRE(!pthread_create(&thread, NULL, produce, &p));
	copies_of(dev, &f, t, &n);
	__atomic_store_n(&p.imported, true, __ATOMIC_RELEASE);
	cts_read(t[0], 0, got, sizeof(got));
	if (cts_computes)
		CHECK(!memcmp(got, p.pixels, sizeof(got)));
	pthread_join(thread, NULL);
	CHECK_EQ(p.early, 0);
	CHECK(fires(&c));
	cts_delete(t[0]);
	cts_delete(t[1]);
	CHECK_EQ(c.fired, 1);
	close(p.fd);
	dlbuf_device_close(dev);
	cts_fence_destroy(&p.fence);
}

void cts_cases_tiled(void)
{
	ktap_case("tiled/refusals", refusals, NULL);
	ktap_case("tiled/modifiers", modifiers, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		ktap_case(cts_name("tiled/pixels@%s", kinds[i].name), pixels,
			  (void *)&kinds[i]);
	ktap_case("tiled/planes-apart", planes_apart, NULL);
	ktap_case("tiled/layouts", layouts, NULL);
	ktap_case("tiled/bytes-too", bytes_too, NULL);
	ktap_case("tiled/stacked", stacked, NULL);
	ktap_case("tiled/written", written, NULL);
	ktap_case("tiled/staging", staging, NULL);
	ktap_case("tiled/lease", lease, NULL);
	ktap_case("tiled/fenced", fenced, NULL);
}
