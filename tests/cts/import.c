// SPDX-License-Identifier: MIT
/* The same bytes on both sides, with buffers of every exporter. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cts.h"

static const char *const exporters[] = { "udmabuf", "udmabuf:2M",
					 "heap:system" };

#define BYTES (256u << 10)

/* The device reads the bytes that the kernel's mapping wrote, and the other way round. */
static void same_bytes(void *arg)
{
	const char *exporter = arg;
	int fd = cts_alloc(exporter, BYTES);
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);
	char *want = calloc(1, BYTES), *got = malloc(BYTES);
	DLBUF_INFO(dlbuf_tensor_info, info);

	/* Each exporter's memory is zero-filled. */
	cts_peek(fd, 0, got, BYTES);
	CHECK(!memcmp(want, got, BYTES));
	cts_pattern(want, BYTES, 1);
	cts_poke(fd, 0, want, BYTES);
	cts_read(t, 0, got, BYTES);
	CHECK(!memcmp(want, got, BYTES));

	cts_pattern(want, BYTES, 2);
	cts_write(t, 0, want, BYTES);
	cts_peek(fd, 0, got, BYTES);
	CHECK(!memcmp(want, got, BYTES));

	/*
	 * The import is not a copy: later writes are visible without another import, and the path
	 * is not a copy's.
	 */
	cts_pattern(want, BYTES, 3);
	cts_poke(fd, 0, want, BYTES);
	cts_read(t, 0, got, BYTES);
	CHECK(!memcmp(want, got, BYTES));
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	CHECK(info.path == DLBUF_PATH_DIRECT || info.path == DLBUF_PATH_HOST);
	CHECK(!(t->flags & DLPACK_FLAG_BITMASK_IS_COPIED));

	cts_delete(t);
	dlbuf_device_close(dev);
	close(fd);
	free(want);
	free(got);
}

static void describes_itself(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLBUF_INFO(dlbuf_device_info, dinfo);
	DLBUF_INFO(dlbuf_tensor_info, tinfo);
	DLBUF_INFO(dlbuf_buffer_info, binfo);
	int64_t shape[] = { 100, 30, 3 }, strides[] = { 256, 3, 1 };
	DLTensor layout = LAYOUT8(3, shape, .strides = strides,
		.byte_offset = 4096 + 12);
	DLManagedTensorVersioned *t AUTO_TENSOR = NULL;
	const DLTensor *dl;

	CHECK_EQ(dlbuf_import(dev, fd, &layout, NULL, &t), 0);
	dl = &t->dl_tensor;
	CHECK_EQ(t->version.major, 1);
	CHECK(t->version.minor >= 3);
	CHECK_EQ(t->flags, 0);
	CHECK_EQ(dl->ndim, 3);
	CHECK_EQ(dl->dtype.code, kDLUInt);
	CHECK_EQ(dl->dtype.bits, 8);
	CHECK_EQ(dl->dtype.lanes, 1);
	CHECK(!memcmp(dl->shape, shape, sizeof(shape)));
	CHECK(!memcmp(dl->strides, strides, sizeof(strides)));
	CHECK(dl->shape != shape && dl->strides != strides);
	CHECK_EQ(dlbuf_device_get_info(dev, &dinfo), 0);
	CHECK_EQ(dl->device.device_type, dinfo.device.device_type);
	CHECK_EQ(dl->device.device_type == kDLCPU,
		 !strcmp(cts_access->backend, "cpu") || !strcmp(cts_access->backend, "gles"));
	CHECK_EQ(dl->device.device_id, dinfo.device.device_id);
	CHECK(dinfo.status == 0 && dinfo.description[0]);
	CHECK_EQ(dinfo.acquire, cts_sync_in ? cts_sync_in : dinfo.acquire);
	CHECK_EQ(dinfo.release, cts_sync_out ? cts_sync_out : dinfo.release);
	CHECK(dinfo.acquire && dinfo.release);
	CHECK(!strncmp(dinfo.name, cts_access->backend,
		       strlen(cts_access->backend)));

	CHECK_EQ(dlbuf_buffer_query(fd, &binfo), 0);
	CHECK_EQ(dlbuf_tensor_get_info(t, &tinfo), 0);
	CHECK(tinfo.device == dev);
	CHECK_EQ(tinfo.ino, binfo.ino);
	CHECK_EQ(tinfo.dev, binfo.dev);
	CHECK_EQ(tinfo.bytes, BYTES);
	CHECK_EQ(binfo.bytes, BYTES);
	CHECK_EQ(tinfo.first, 4096 + 12);
	CHECK_EQ(tinfo.end, 4096 + 12 + 99 * 256 + 29 * 3 + 2 + 1);
	CHECK_EQ(tinfo.access, DLBUF_RW);
	CHECK_EQ(tinfo.acquired, 0);
	CHECK(tinfo.fd >= 3 && tinfo.fd != fd);
	CHECK(fcntl(tinfo.fd, F_GETFD) & FD_CLOEXEC);
}

/* Offsets land on the right byte, folded into data or not. */
static void offset(void *arg)
{
	static const uint64_t offsets[] = { 0, 1, 3, 4095, 4096, 4097, 65535,
					    BYTES - 1 };
	int fd = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev = cts_open();
	unsigned char *want = malloc(BYTES);

	cts_pattern(want, BYTES, 3);
	cts_poke(fd, 0, want, BYTES);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		DLTensor layout = {
			.dtype = { kDLUInt, 8, 1 },
			.byte_offset = offsets[i],
		};
		DLManagedTensorVersioned *t = NULL;
		DLBUF_INFO(dlbuf_tensor_info, info);
		unsigned char got = 0;

		CHECK_EQ(dlbuf_import(dev, fd, &layout, NULL, &t), 0);
		CHECK_EQ(t->dl_tensor.ndim, 0);
		CHECK(!t->dl_tensor.shape && !t->dl_tensor.strides);
		CHECK_EQ(dlbuf_tensor_get_info(t, &info), 0);
		CHECK_EQ(info.first, offsets[i]);
		if (t->dl_tensor.device.device_type == kDLCPU) {
			CHECK_EQ(t->dl_tensor.byte_offset, 0);
			CHECK_EQ(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), 0);
			CHECK_EQ(*(unsigned char *)t->dl_tensor.data,
				 want[offsets[i]]);
			CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
		} else {
			cts_read(t, offsets[i], &got, 1);
			CHECK_EQ(got, want[offsets[i]]);
		}
		cts_delete(t);
	}
	dlbuf_device_close(dev);
	close(fd);
	free(want);
}

static void compact_strides(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int64_t shape[] = { 4, 5, 6 };
	DLTensor layout = {
		.ndim = 3,
		.dtype = { kDLFloat, 32, 1 },
		.shape = shape,
	};
	DLManagedTensorVersioned *t AUTO_TENSOR = NULL;

	CHECK_EQ(dlbuf_import(dev, fd, &layout, NULL, &t), 0);
	CHECK_EQ(t->dl_tensor.strides[0], 30);
	CHECK_EQ(t->dl_tensor.strides[1], 6);
	CHECK_EQ(t->dl_tensor.strides[2], 1);
}

static void no_elements(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", 4096);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int64_t shape[] = { 4, 0, 6 };
	DLTensor layout = LAYOUT8(3, shape);
	DLManagedTensorVersioned *t = NULL;

	CHECK_EQ(dlbuf_import(dev, fd, &layout, NULL, &t), 0);
	CHECK(!t->dl_tensor.data);
	CHECK_EQ(t->dl_tensor.byte_offset, 0);
	CHECK(t->dl_tensor.strides != NULL);
	CHECK_EQ(dlbuf_acquire(t, DLBUF_RW, NULL, NULL), 0);
	CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
	cts_delete(t);
	/* At the very end of the buffer is still inside. */
	layout.byte_offset = 4096;
	CHECK_EQ(dlbuf_import(dev, fd, &layout, NULL, &t), 0);
	cts_delete(t);
	layout.byte_offset = 4097;
	CHECK_ERR(dlbuf_import(dev, fd, &layout, NULL, &t), -ERANGE);
}

/* The caller may close its fd, and reuse the number, at once. */
static void fd_is_duplicated(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES), other AUTO_FD;
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);
	unsigned char want[4096], got[4096], foreign[4096];
	int keep AUTO_FD = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	other = cts_reuse(fd, "udmabuf", BYTES);
	cts_pattern(want, sizeof(want), 4);
	cts_pattern(foreign, sizeof(foreign), 5);
	cts_poke(keep, 0, want, sizeof(want));
	cts_poke(other, 0, foreign, sizeof(foreign));
	cts_read(t, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(t);
	/* Deleting closed ours, not the caller's. */
	CHECK(fcntl(other, F_GETFD) >= 0);
	dlbuf_device_close(dev);
	CHECK(fcntl(other, F_GETFD) >= 0);
}

/* fd 0, 1 and 2 are fds like any other to the caller, not to drivers. */
static void low_fd_numbers(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES), saved;
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t;
	DLBUF_INFO(dlbuf_tensor_info, info);

	saved = fcntl(0, F_DUPFD_CLOEXEC, 3);
	CHECK_EQ(dup2(fd, 0), 0);
	close(fd);
	t = cts_import(dev, 0, BYTES);
	CHECK_EQ(dlbuf_tensor_get_info(t, &info), 0);
	CHECK(info.fd >= 3);
	cts_delete(t);
	if (saved >= 0) {
		dup2(saved, 0);
		close(saved);
	} else {
		close(0);
	}
}

static void read_only_fd(void *arg)
{
	DLBUF_OPTS(dlbuf_import_opts, want_write, .access = DLBUF_RW);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = NULL;
	int64_t shape = 4096;
	DLTensor layout = LAYOUT8(1, &shape);
	int fd AUTO_FD, ret;

	fd = cts_alloc_read_only(4096);
	CHECK_ERR(dlbuf_import(dev, fd, &layout, &want_write, &t), -EACCES);
	CHECK(!t);
	ret = dlbuf_import(dev, fd, &layout, NULL, &t);
	if (ret == -EOPNOTSUPP) {
		CHECK(!t);
		if (strstr(cts_device, "vulkan"))
			CHECK(strstr(dlbuf_last_error(), "(the fd is read-only)"));
		SKIP("%s", dlbuf_last_error());
	}
	REQUIRE_OK(ret);
	CHECK(t->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
	CHECK_ERR(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL), -EACCES);
	CHECK_EQ(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), 0);
	CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
	cts_delete(t);
}

struct refusal {
	struct dlbuf_device *dev;
	int fd;
};

static void open_device(void *arg)
{
	struct refusal *r = arg;

	r->dev = cts_open();
}

static void import_refused(void *arg)
{
	struct refusal *r = arg;
	DLManagedTensorVersioned *t;
	int64_t shape = 4096;
	DLTensor layout = LAYOUT8(1, &shape);

	dlbuf_import(r->dev, r->fd, &layout, NULL, &t);
}

/* 32-bit machines have only mmap2(). */
#ifndef SYS_mmap
#define SYS_mmap SYS_mmap2
#endif

/*
 * A driver that refuses an fd may have closed it, as lavapipe of Mesa 25 does with one that is
 * read-only: a second close() of the number could be of another thread's file.
 */
static void closed_once(void *arg)
{
	static const long harmless[] = { SYS_fstat, SYS_lseek, SYS_mmap, SYS_munmap, SYS_futex,
					 SYS_madvise, SYS_mprotect, SYS_brk };
	static struct cts_syscall calls[512];
	struct refusal r = { .fd = -1 };
	uint64_t closed = UINT64_MAX;
	int n;

	r.fd = cts_alloc_read_only(4096);
	n = cts_trace(open_device, import_refused, &r, calls, 512);
	close(r.fd);
	if (n < 0)
		SKIP("this system does not let a child be traced");
	CHECK(n <= 512);
	for (int i = 0; i < n && i < 512; i++) {
		bool same = calls[i].nr == SYS_close;

		CHECK_MSG(!same || calls[i].args[0] != closed, "fd %llu is closed twice",
			  (unsigned long long)closed);
		for (size_t k = 0; !same && k < sizeof(harmless) / sizeof(harmless[0]); k++)
			same = calls[i].nr == harmless[k];
		/* After any other call the number may be a new file's. */
		closed = calls[i].nr == SYS_close ? calls[i].args[0] : same ? closed : UINT64_MAX;
	}
}

/* Read access to a writable fd gives a read-only tensor beside a writable one. */
static void read_access(void *arg)
{
	DLBUF_OPTS(dlbuf_import_opts, ro, .access = DLBUF_READ);
	int fd AUTO_FD = cts_alloc("udmabuf", 4096);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *rw AUTO_TENSOR = cts_import(dev, fd, 4096), *t = NULL;
	int64_t shape = 4096;
	DLTensor layout = LAYOUT8(1, &shape);
	unsigned char want[64], got[64];

	CHECK_EQ(dlbuf_import(dev, fd, &layout, &ro, &t), 0);
	CHECK(t->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
	CHECK(!(rw->flags & DLPACK_FLAG_BITMASK_READ_ONLY));
	CHECK_ERR(dlbuf_acquire(t, DLBUF_RW, NULL, NULL), -EACCES);
	cts_pattern(want, sizeof(want), 6);
	cts_write(rw, 128, want, sizeof(want));
	cts_read(t, 128, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(t);
}

/* Two tensors over one buffer, at different places, see one memory. */
static void overlapping(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *a = cts_import(dev, fd, BYTES);
	DLManagedTensorVersioned *b AUTO_TENSOR = cts_import(dev, fd, BYTES / 2);
	unsigned char want[256], got[256];

	cts_pattern(want, sizeof(want), 7);
	cts_write(a, 1024, want, sizeof(want));
	cts_read(b, 1024, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(a);
	cts_read(b, 1024, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
}

void cts_cases_import(void)
{
	for (size_t i = 0; i < sizeof(exporters) / sizeof(exporters[0]); i++)
		ktap_case(cts_name("import/same-bytes/%s", exporters[i]),
			  same_bytes, (void *)exporters[i]);
	ktap_case("import/describes-itself", describes_itself, NULL);
	ktap_case("import/offset", offset, NULL);
	ktap_case("import/compact-strides", compact_strides, NULL);
	ktap_case("import/no-elements", no_elements, NULL);
	ktap_case("import/fd-is-duplicated", fd_is_duplicated, NULL);
	ktap_case("import/low-fd-numbers", low_fd_numbers, NULL);
	ktap_case("import/read-only-fd", read_only_fd, NULL);
	ktap_case("import/closed-once", closed_once, NULL);
	ktap_case("import/read-access", read_access, NULL);
	ktap_case("import/overlapping", overlapping, NULL);
}
