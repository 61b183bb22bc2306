// SPDX-License-Identifier: MIT
/*
 * Paths: each path by which the device can import is tested like a device of
 * its own, for bytes, copies and order; and the exports of the device.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cts.h"

#define BYTES (300 * 4096)

static const enum dlbuf_path paths[] = {
	DLBUF_PATH_DIRECT, DLBUF_PATH_HOST, DLBUF_PATH_BRIDGE, DLBUF_PATH_COPY,
};

static bool copies(enum dlbuf_path path)
{
	return path == DLBUF_PATH_BRIDGE || path == DLBUF_PATH_COPY;
}

static DLTensor bytes_of(int64_t *shape)
{
	return (DLTensor)LAYOUT8(1, shape);
}

/* By that path and no other; without --paths, skips the case where the device has not got it. */
static DLManagedTensorVersioned *by_path(struct dlbuf_device *dev, int fd,
					 enum dlbuf_path path)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .paths = DLBUF_PATH_BIT(path),
		   .flags = copies(path) ? DLBUF_IMPORT_MAY_COPY : 0);
	DLManagedTensorVersioned *t = NULL;
	int64_t shape = BYTES;
	DLTensor layout = bytes_of(&shape);
	int ret = dlbuf_import(dev, fd, &layout, &opts, &t);

	if (ret == -EOPNOTSUPP && !cts_paths)
		SKIP("%s", dlbuf_last_error());
	if (ret)
		FATAL("dlbuf_import: %s", dlbuf_last_error());
	return t;
}

static void bytes(void *arg)
{
	const enum dlbuf_path *path = arg;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = by_path(dev, fd, *path), *again;
	static unsigned char want[BYTES], got[BYTES];
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLBUF_INFO(dlbuf_device_stats, before);
	DLBUF_INFO(dlbuf_device_stats, after);

	CHECK_EQ(dlbuf_tensor_get_info(t, &info), 0);
	CHECK_EQ(info.path, *path);
	/* Acquires refresh it and others may import it: it has no single owner. */
	CHECK(!(t->flags & DLPACK_FLAG_BITMASK_IS_COPIED));
	CHECK_EQ(t->dl_tensor.byte_offset && t->dl_tensor.device.device_type !=
		 kDLVulkan, 0);
	for (uint32_t round = 1; round < 4; round++) {
		cts_pattern(want, BYTES, round);
		cts_poke(fd, 0, want, BYTES);
		memset(got, 0, BYTES);
		cts_read(t, 0, got, BYTES);
		CHECK(!memcmp(want, got, BYTES));
	}
	/* Bytes that are not written keep the producer's newest value. */
	cts_pattern(want, BYTES, 9);
	cts_poke(fd, 0, want, BYTES);
	cts_pattern(want + 5000, 70000, 10);
	cts_write(t, 5000, want + 5000, 70000);
	cts_peek(fd, 0, got, BYTES);
	CHECK(!memcmp(want, got, BYTES));
	/* Seen before. */
	CHECK_EQ(dlbuf_device_get_stats(dev, &before), 0);
	again = by_path(dev, fd, *path);
	CHECK_EQ(dlbuf_device_get_stats(dev, &after), 0);
	CHECK_EQ(after.misses, before.misses);
	CHECK_EQ(again->dl_tensor.data == t->dl_tensor.data, 1);
	if (copies(*path))
		CHECK(after.copied_bytes >= 4 * BYTES);
	else
		CHECK_EQ(after.copies, 0);
	cts_delete(again);
}

/* One copy for accesses that overlap, and none of them ends the others'. */
static void overlapping(void *arg)
{
	const enum dlbuf_path *path = arg;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t AUTO_TENSOR = by_path(dev, fd, *path), *u = NULL;
	unsigned char want[4096], got[4096];

	REQUIRE_OK(dlbuf_tensor_share(t, NULL, &u));
	cts_pattern(want, sizeof(want), 4);
	cts_poke(fd, 8192, want, sizeof(want));
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	CHECK_OK(dlbuf_acquire(u, DLBUF_RW, NULL, NULL));
	CHECK_EQ(cts_access->read(t, 8192, got, sizeof(got)), 0);
	CHECK(!memcmp(want, got, sizeof(got)));
	CHECK_EQ(cts_access->write(u, 4096, want, sizeof(want)), 0);
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	cts_release(u);
	cts_peek(fd, 4096, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	/* The next one copies again. */
	cts_pattern(want, sizeof(want), 5);
	cts_poke(fd, 0, want, sizeof(want));
	cts_read(t, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(u);
}

/* Some drivers give a fence no earlier than they have begun. */
static bool releases_early(const struct dlbuf_device_info *info)
{
	return info->release == DLBUF_SYNC_EVENT || cts_access->fences_early;
}

/*
 * A producer that is late: its bytes come after everything was submitted. The device does
 * not wait for fences that are added after the acquire.
 */
static void late(void *arg)
{
	const enum dlbuf_path *path = arg;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = by_path(dev, fd, *path);
	static unsigned char old[BYTES], want[BYTES], got[BYTES];
	DLBUF_INFO(dlbuf_device_info, info);
	struct cts_fence f AUTO_FENCE, later AUTO_FENCE;
	void *job;

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	if (info.acquire != DLBUF_SYNC_FENCE || !cts_access->submit_read) {
		SKIP("the device does not wait by itself");
	}
	cts_fence_create(&f);
	cts_fence_create(&later);
	cts_pattern(old, BYTES, 1);
	cts_pattern(want, BYTES, 2);
	cts_poke(fd, 0, old, BYTES);
	REQUIRE_OK(dlbuf_fence_import(fd, DLBUF_WRITE, f.sync_file));
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	REQUIRE_OK(cts_access->submit_read(t, 0, BYTES, &job));
	CHECK(!cts_access->job_done(job));
	REQUIRE_OK(dlbuf_fence_import(fd, DLBUF_WRITE, later.sync_file));
	if (releases_early(&info))
		CHECK_OK(dlbuf_release(t, NULL, NULL));
	cts_poke_raw(fd, 0, want, BYTES);
	CHECK(!cts_access->job_done(job));
	cts_fence_signal(&f);
	CHECK_OK(cts_access->finish_read(job, got, BYTES));
	cts_fence_signal(&later);
	if (!releases_early(&info))
		CHECK_OK(dlbuf_release(t, NULL, NULL));
	CHECK(!memcmp(want, got, BYTES));
	cts_delete(t);
}

static bool gives_events(const struct dlbuf_device_info *info,
			 enum dlbuf_path path)
{
	return info->release == DLBUF_SYNC_EVENT || path == DLBUF_PATH_COPY;
}

/*
 * Work without a fence of the kernel: an acquire by another device waits for
 * it, too.
 */
static void elsewhere(void *arg)
{
	const enum dlbuf_path *path = arg;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open(), *cpu AUTO_DEV = NULL;
	DLManagedTensorVersioned *t = by_path(dev, fd, *path), *c;
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_acquire_opts, after, .fence = -1);
	DLBUF_INFO(dlbuf_device_info, info);
	unsigned char got[16];
	struct cts_fence f AUTO_FENCE;
	void *job;

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	if (info.acquire != DLBUF_SYNC_FENCE || !gives_events(&info, *path)) {
		SKIP("the device waits for no fence, or gives one");
	}
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	c = cts_import(cpu, fd, BYTES);
	cts_fence_create(&f);
	after.fence = f.sync_file;
	CHECK_OK(dlbuf_acquire(t, DLBUF_READ, NULL, &after));
	REQUIRE_OK(cts_access->submit_read(t, 0, sizeof(got), &job));
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	/* A reader waits for no other reader. */
	CHECK_OK(dlbuf_acquire(c, DLBUF_READ, NULL, &past));
	CHECK_OK(dlbuf_release(c, NULL, NULL));
	CHECK_ERR(dlbuf_acquire(c, DLBUF_WRITE, NULL, &past), -ETIME);
	cts_fence_signal(&f);
	CHECK_OK(dlbuf_acquire(c, DLBUF_WRITE, NULL, NULL));
	CHECK(cts_access->job_done(job));
	CHECK_OK(dlbuf_release(c, NULL, NULL));
	CHECK_OK(cts_access->finish_read(job, got, sizeof(got)));
	cts_delete(c);
	cts_delete(t);
}

/* The fences of the dma-buf for a reader: 0 pending, 1 signalled. */
static int status_of(int fd)
{
	int fence = -1, status = -1;

	REQUIRE_OK(dlbuf_fence_export(fd, DLBUF_READ, &fence));
	CHECK_OK(dlbuf_fence_status(fence, &status));
	close(fence);
	return status;
}

/*
 * Work that is held up, of a device that gives fences: the kernel has one of it
 * before it has begun, and everybody waits for that. A copy by the CPU adds no
 * fence: its bracket would wait for later work.
 */
static void fenced(void *arg)
{
	const enum dlbuf_path *path = arg;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), out = -1;
	struct dlbuf_device *dev AUTO_DEV = cts_open(), *cpu AUTO_DEV = NULL;
	DLManagedTensorVersioned *t = by_path(dev, fd, *path), *c;
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_acquire_opts, after, .fence = -1);
	DLBUF_INFO(dlbuf_device_info, info);
	unsigned char got[16];
	struct cts_fence f AUTO_FENCE;
	void *job;

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	if (info.acquire != DLBUF_SYNC_FENCE ||
	    info.release != DLBUF_SYNC_FENCE || !cts_access->fences_early) {
		SKIP("the device waits for no fence, or gives none in advance");
	}
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	c = cts_import(cpu, fd, BYTES);
	cts_fence_create(&f);
	after.fence = f.sync_file;
	CHECK_EQ(status_of(fd), 1);
	CHECK_OK(dlbuf_acquire(t, DLBUF_RW, NULL, &after));
	REQUIRE_OK(cts_access->submit_read(t, 0, sizeof(got), &job));
	/* The caller's fence is the caller's: it is not on the dma-buf. */
	CHECK_EQ(status_of(fd), 1);
	CHECK_OK(dlbuf_release(t, NULL, &out));
	CHECK_EQ(status_of(fd), gives_events(&info, *path));
	CHECK_ERR(dlbuf_fence_wait(out, 1), -ETIME);
	CHECK(!cts_access->job_done(job));
	CHECK_ERR(dlbuf_acquire(c, DLBUF_READ, NULL, &past), -ETIME);
	cts_fence_signal(&f);
	CHECK_OK(dlbuf_acquire(c, DLBUF_READ, NULL, NULL));
	CHECK_EQ(status_of(fd), 1);
	CHECK(cts_access->job_done(job));
	CHECK_OK(dlbuf_release(c, NULL, NULL));
	CHECK_OK(dlbuf_fence_wait(out, 0));
	close(out);
	CHECK_OK(cts_access->finish_read(job, got, sizeof(got)));
	cts_delete(c);
	cts_delete(t);
}

/* ---------------------------------------------------------------- probing */

struct probed {
	int status[DLBUF_PATH_COPY + 1];
	unsigned int n;
};

static int note_path(const struct dlbuf_path_info *info, void *data)
{
	struct probed *p = data;

	CHECK_EQ(!info->status, !info->reason[0]);
	CHECK(info->path >= DLBUF_PATH_DIRECT && info->path <= DLBUF_PATH_COPY);
	p->status[info->path] = info->status;
	p->n++;
	return 0;
}

static int stop(const struct dlbuf_path_info *info, void *data)
{
	++*(int *)data;
	return 77;
}

static void probe(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), calls = 0;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	unsigned int fds = cts_count_fds();
	DLBUF_INFO(dlbuf_device_stats, stats);
	struct probed p = { .status = { 1, 1, 1, 1, 1 } };
	DLManagedTensorVersioned *t = NULL;
	DLBUF_INFO(dlbuf_tensor_info, info);

	CHECK_OK(dlbuf_probe(dev, fd, 0, note_path, &p));
	CHECK(p.n >= 1);
	for (size_t i = 0; cts_paths && i < sizeof(paths) / sizeof(paths[0]); i++)
		CHECK_MSG(!p.status[paths[i]] == !!(cts_paths & DLBUF_PATH_BIT(paths[i])),
			  "%s: %d", dlbuf_path_name(paths[i]), p.status[paths[i]]);
	CHECK_EQ(cts_count_fds(), fds);
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.live + stats.idle + stats.misses, 0);
	/* An import takes the first that serves. */
	t = cts_import(dev, fd, BYTES);
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	for (int path = DLBUF_PATH_DIRECT; path < (int)info.path; path++)
		CHECK(p.status[path]);
	CHECK_EQ(p.status[info.path], 0);
	cts_delete(t);
	CHECK_EQ(dlbuf_probe(dev, fd, 0, stop, &calls), 77);
	CHECK_EQ(calls, 1);
	CHECK_ERR(dlbuf_probe(NULL, fd, 0, note_path, &p), -EINVAL);
	CHECK_ERR(dlbuf_probe(dev, fd, 0, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_probe(dev, fd, 4, note_path, &p), -EINVAL);
	CHECK_ERR(dlbuf_probe(dev, -1, 0, note_path, &p), -EBADF);
	CHECK_ERR(dlbuf_probe(dev, 0, 0, note_path, &p), -EBADF);
}

/*
 * No copy unless it is allowed, and then the tensor's path shows it; also for a buffer that was
 * imported before.
 */
static void leave(void *arg)
{
	DLBUF_OPTS(dlbuf_alloc_opts, heap, .exporter = "heap:system");
	DLBUF_OPTS(dlbuf_import_opts, may, .flags = DLBUF_IMPORT_MAY_COPY);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	struct probed p = { .status = { 1, 1, 1, 1, 1 } };
	DLManagedTensorVersioned *t AUTO_TENSOR = NULL, *u = NULL;
	int64_t shape = BYTES;
	DLTensor layout = bytes_of(&shape);
	int fd AUTO_FD;

	if (dlbuf_alloc_fd(BYTES, &heap, &fd))
		ABSENT("%s", dlbuf_last_error());
	CHECK_OK(dlbuf_probe(dev, fd, 0, note_path, &p));
	CHECK_OK(dlbuf_import(dev, fd, &layout, &may, &t));
	if (p.status[DLBUF_PATH_DIRECT] && p.status[DLBUF_PATH_HOST]) {
		CHECK_ERR_SAYS(dlbuf_import(dev, fd, &layout, NULL, &u), -EOPNOTSUPP, "MAY_COPY");
		CHECK_SAYS("no path to this dma-buf");
		CHECK(!u);
		/* The acquire decides whose copy it is. */
		CHECK_ERR(dlbuf_acquire_fence(t, DLBUF_READ, &fd), -EOPNOTSUPP);
	}
}

/* ---------------------------------------------------------------- export */

/* Memory that is imported is exported, or refused by name. Some drivers would crash. */
static void export_again(int fd, const DLTensor *layout)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLBUF_INFO(dlbuf_exported, out);
	DLManagedTensorVersioned *t = NULL;
	int ret = dlbuf_import(dev, fd, layout, NULL, &t);

	CHECK(!ret || ret == -EOPNOTSUPP);
	if (ret)
		return;
	ret = dlbuf_export(dev, &t->dl_tensor, NULL, &out);
	CHECK(!ret || ret == -EOPNOTSUPP);
	if (!ret)
		close(out.fd);
	cts_delete(t);
}

static void exported(void *arg)
{
	DLBUF_OPTS(dlbuf_alloc_opts, own, .exporter = "device");
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = NULL, *same = NULL;
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLBUF_INFO(dlbuf_device_stats, stats);
	DLBUF_INFO(dlbuf_exported, out);
	int64_t shape = 5000;
	DLTensor layout = bytes_of(&shape), part;
	unsigned char want[5000], got[5000] = { 1 };
	struct stat before, after;
	int ret, held;
	void *map;

	ret = dlbuf_alloc(&dev, 1, &layout, &own, &t);
	if (ret == -EOPNOTSUPP) {
		DLTensor none = { .data = &shape, .ndim = 0,
				  .dtype = { kDLUInt, 8, 1 } };

		/* A device that cannot allocate cannot export either. */
		if (!cts_access->wants_memfds)
			CHECK_ERR(dlbuf_export(dev, &none, NULL, &out), -EOPNOTSUPP);
		SKIP("%s", dlbuf_last_error());
	}
	REQUIRE_OK(ret);
	cts_read(t, 0, got, sizeof(got));
	for (size_t i = 0; i < sizeof(got); i++)
		if (got[i])
			FATAL("byte %zu of new memory is %u", i, got[i]);
	cts_pattern(want, sizeof(want), 3);
	cts_write(t, 0, want, sizeof(want));
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	CHECK_EQ(info.path, DLBUF_PATH_DIRECT);
	/* Its own dma-buf is known to the device. */
	CHECK_OK(dlbuf_import(dev, info.fd, &layout, NULL, &same));
	CHECK_EQ(same->dl_tensor.data == t->dl_tensor.data, 1);
	cts_delete(same);
	export_again(info.fd, &layout);

	part = t->dl_tensor;
	part.data = (char *)part.data + 100;
	shape = 700;
	part.shape = &shape;
	REQUIRE_OK(dlbuf_export(dev, &part, NULL, &out));
	CHECK(out.fd >= 3);
	CHECK_EQ(out.offset, 100);
	/* Whole pages around it, or all of the allocation. */
	CHECK(out.bytes >= 4096 && !(out.bytes % 4096));
	map = mmap(NULL, out.bytes, PROT_READ, MAP_SHARED, out.fd, 0);
	if (map != MAP_FAILED) {
		CHECK(!memcmp((char *)map + out.offset, want + 100, 700));
		munmap(map, out.bytes);
	}
	close(out.fd);
	held = dup(info.fd);
	cts_delete(t);
	/* No other tensor uses the import, so it is freed and not idle. */
	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	CHECK_EQ(stats.live + stats.idle, 0);
	/* A process that still has the dma-buf does not see the next owner's bytes. */
	CHECK_OK(fstat(held, &before));
	REQUIRE_OK(dlbuf_alloc(&dev, 1, &layout, &own, &t));
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	CHECK_OK(fstat(info.fd, &after));
	CHECK(before.st_ino != after.st_ino);
	cts_delete(t);
	close(held);
	if (map == MAP_FAILED)
		SKIP("the CPU cannot map what was exported, so its bytes are unknown");
}

static bool is_open(const struct stat *file)
{
	struct stat st;

	for (int fd = 0; fd < 1000; fd++)
		if (!fstat(fd, &st) && st.st_ino == file->st_ino && st.st_dev == file->st_dev)
			return true;
	return false;
}

/* A receiver's fd never shows memory of another owner, also if it is kept for long. */
static void no_second_owner(void *arg)
{
	DLBUF_OPTS(dlbuf_alloc_opts, own, .exporter = "device");
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = NULL;
	DLBUF_INFO(dlbuf_tensor_info, info);
	int64_t shape = 5000;
	DLTensor layout = bytes_of(&shape);
	struct stat theirs, st;
	int fd = -1;

	for (int i = 0; i < 4; i++) {
		int ret = dlbuf_alloc(&dev, 1, &layout, &own, &t);

		if (ret == -EOPNOTSUPP)
			SKIP("%s", dlbuf_last_error());
		REQUIRE_OK(ret);
		CHECK_OK(dlbuf_tensor_get_info(t, &info));
		CHECK(!fstat(info.fd, &st));
		if (i) {
			CHECK(st.st_ino != theirs.st_ino);
		} else {
			fd = fcntl(info.fd, F_DUPFD_CLOEXEC, 0);
			theirs = st;
		}
		cts_delete(t);
	}
	/* Holding the fd is no work, so nothing waits for the receiver. */
	CHECK_OK(dlbuf_device_drain(dev, 0));
	close(fd);
	UNTIL(!is_open(&theirs));
}

static void refused_exports(void *arg)
{
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int64_t shape = 16;
	DLBUF_INFO(dlbuf_exported, out);
	DLBUF_OPTS(dlbuf_export_opts, flags, .flags = 2);
	DLTensor none = bytes_of(&shape), foreign = bytes_of(&shape);
	struct dlbuf_exported no_size = { .fd = -7 };
	static char memory[16];

	foreign.data = memory;
	foreign.device.device_type = kDLMetal;
	out.fd = -7;
	CHECK_ERR(dlbuf_export(NULL, &none, NULL, &out), -EINVAL);
	CHECK_ERR(dlbuf_export(dev, NULL, NULL, &out), -EINVAL);
	CHECK_ERR(dlbuf_export(dev, &none, NULL, NULL), -EINVAL);
	CHECK_ERR_SAYS(dlbuf_export(dev, &none, NULL, &out), -EINVAL, "no memory");
	CHECK_ERR(dlbuf_export(dev, &foreign, &flags, &out), -EINVAL);
	CHECK(dlbuf_export(dev, &foreign, NULL, &out) < 0);
	CHECK(dlbuf_export(dev, &foreign, NULL, &no_size) < 0);
	CHECK_EQ(out.fd, -7);
	CHECK_EQ(no_size.fd, -7);
}

void cts_cases_path(void)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		const char *name = dlbuf_path_name(paths[i]);
		void *arg = (void *)&paths[i];

		if (cts_paths && !(cts_paths & DLBUF_PATH_BIT(paths[i])))
			continue;
		ktap_case(cts_name("path/%s/bytes", name), bytes, arg);
		ktap_case(cts_name("path/%s/overlapping", name), overlapping,
			  arg);
		ktap_case(cts_name("path/%s/late", name), late, arg);
		ktap_case(cts_name("path/%s/elsewhere", name), elsewhere, arg);
		ktap_case(cts_name("path/%s/fenced", name), fenced, arg);
	}
	ktap_case("path/probe", probe, NULL);
	ktap_case("path/leave", leave, NULL);
	ktap_case("export/own", exported, NULL);
	ktap_case("export/no-second-owner", no_second_owner, NULL);
	ktap_case("export/refused", refused_exports, NULL);
}
