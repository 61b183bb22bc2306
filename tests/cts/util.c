// SPDX-License-Identifier: MIT
/* Shared by the cases: devices, buffers, patterns, fences. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "alloc/trial.h"
#include "cts.h"
#include "system/event.h"
#include "dmabuf/memory.h"
#include "lab_module.h"
#include "thread.h"
#include "vgem.h"

const char *cts_name(const char *fmt, ...)
{
	static char name[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	return name;
}

bool cts_driver_keeps;
bool cts_computes = true;
uint32_t cts_more;

/*
 * The fds that the driver keeps open: those that are open after a device in addition to those
 * before it. The trial makes it work, also where nothing computes and the trial refuses it.
 */
static unsigned int driver_fds;
/*
 * It keeps sync_files of its last work, more or fewer: Mesa's freedreno, where nothing computes. They
 * are not counted.
 */
static bool driver_keeps_fences;

static unsigned int count_fds(const char *kind);
#define SYNC_FILE "anon_inode:sync_file"

#define EPOLL "anon_inode:[eventpoll]"

/* The event thread has fds, too, for a moment; the last user waits for its end. */
static bool event_threads_end(unsigned int others)
{
	event_user_add();
	event_user_remove();
	return count_fds(EPOLL) <= others;
}

static void count_driver_fds(void)
{
	struct dlbuf_device *dev = NULL;
	unsigned int before, fences, epolls;
	bool none = trial_none;
	static pid_t done;

	if (done == getpid())
		return;
	done = getpid();
	before = cts_count_fds();
	fences = count_fds(SYNC_FILE);
	epolls = count_fds(EPOLL);
	trial_none = false;
	dlbuf_device_open(cts_device, NULL, &dev);
	trial_none = none;
	dlbuf_device_close(dev);
	cts_settle();
	UNTIL(event_threads_end(epolls));
	driver_keeps_fences = !cts_computes && count_fds(SYNC_FILE) != fences;
	driver_fds = cts_count_fds() - before + driver_keeps_fences * fences;
}

static struct dlbuf_device *open_device(const char *name)
{
	struct dlbuf_device *dev = NULL;
	int ret;

	if (cts_access && cts_access->keeps_fds)
		count_driver_fds();
	ret = dlbuf_device_open(name, NULL, &dev);
	if (ret == -EOPNOTSUPP || ret == -ENODEV)
		ABSENT("%s", dlbuf_last_error());
	if (ret)
		FATAL("dlbuf_device_open(%s): %s", name, dlbuf_last_error());
	return dev;
}

struct dlbuf_device *cts_open(void)
{
	return open_device(cts_device);
}

const char *cts_second_device(void)
{
	return cts_access && cts_access->second ? cts_access->second :
						  cts_device;
}

struct dlbuf_device *cts_open_second(void)
{
	return open_device(cts_second_device());
}

/*
 * Memfds that stay known to the library as long as the case runs, out of the way
 * of those whose numbers and whose sum it looks at.
 */
#define KEPT_FROM 600

static int kept[4096];
static unsigned int nkept;

void cts_tidy(void)
{
	while (nkept) {
		memory_forget(kept[--nkept]);
		close(kept[nkept]);
	}
	/* A case that has opened its devices by itself. */
	if (cts_access && cts_access->keeps_fds && !driver_fds)
		return;
	/* The event thread puts its own away after its last callback. */
	UNTIL(cts_count_fds() <= ktap.before.nfds);
	if (driver_fds)
		CHECK_EQ(cts_count_fds(), ktap.before.nfds);
}

static int alloc_known(const char *exporter, uint64_t bytes)
{
	DLBUF_OPTS(dlbuf_udmabuf_opts, opts, .name = "cts",
		   .flags = strcmp(exporter, "udmabuf") ? DLBUF_UDMABUF_2M : 0);
	struct dlbuf_udmabuf buf;
	int high, ret = dlbuf_udmabuf_create(bytes, &opts, &buf);

	if (ret == -ENODEV)
		ABSENT("%s", dlbuf_last_error());
	if (ret)
		FATAL("dlbuf_udmabuf_create: %s", dlbuf_last_error());
	high = fcntl(buf.memfd, F_DUPFD_CLOEXEC, KEPT_FROM);
	if (high < 0 || nkept == sizeof(kept) / sizeof(kept[0]))
		FATAL("no room for a memfd");
	kept[nkept++] = high;
	ret = buf.fd;
	buf.fd = -1;
	dlbuf_udmabuf_close(&buf);
	if (dlbuf_udmabuf_remember(ret, high))
		FATAL("dlbuf_udmabuf_remember: %s", dlbuf_last_error());
	return ret;
}

struct shared {
	bool any;
	char reason[512];
};

static int look_for_shared(const struct dlbuf_path_info *info, void *data)
{
	struct shared *s = data;

	if (info->path != DLBUF_PATH_DIRECT && info->path != DLBUF_PATH_HOST)
		return 0;
	s->any |= !info->status;
	snprintf(s->reason, sizeof(s->reason), "%s", info->reason);
	return 0;
}

/* Whether the device shares it, or else the device's error. */
static bool takes(int fd, struct shared *s)
{
	struct dlbuf_device *dev = cts_open();

	*s = (struct shared){ false };
	if (dlbuf_probe(dev, fd, 0, look_for_shared, s))
		FATAL("dlbuf_probe: %s", dlbuf_last_error());
	dlbuf_device_close(dev);
	return s->any;
}

/* A new dma-buf. An exporter that is absent, or that this user may not open, skips the case. */
static int alloc_any(const char *exporter, uint64_t bytes)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter,
		   .name = "cts");
	int fd = -1, ret;

	ret = dlbuf_alloc_fd(bytes, &opts, &fd);
	/* A board may have no huge pages, and its user no permission. */
	if (ret == -ENODEV || ret == -EACCES || (ret == -ENOMEM && !strcmp(exporter, "udmabuf:2M")))
		ABSENT("%s", dlbuf_last_error());
	if (ret)
		FATAL("dlbuf_alloc_fd(%s): %s", exporter, dlbuf_last_error());
	return fd;
}

void cts_need(const char *exporter)
{
	close(alloc_any(exporter, 1));
}

/* In a process of its own: those that the case forks may open CUDA themselves. */
void cts_need_any(void)
{
	struct shared s = { .any = true };
	int fd, pipes[2];
	pid_t pid;

	if (!cts_access || !cts_access->wants_memfds)
		return;
	fd = alloc_any("udmabuf", 1);
	if (pipe(pipes))
		FATAL("pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		takes(fd, &s);
		_exit(write(pipes[1], &s, sizeof(s)) != sizeof(s));
	}
	close(pipes[1]);
	if (read(pipes[0], &s, sizeof(s)) != sizeof(s))
		FATAL("the probe's process: %s", strerror(errno));
	waitpid(pid, NULL, 0);
	close(pipes[0]);
	close(fd);
	if (!s.any)
		SKIP("%s takes no udmabuf whose memfd it does not know: %s",
		     cts_device, s.reason);
}

void cts_need_cancel(void)
{
#ifdef __GLIBC__
	/* pthread_cancel() aborts the process without it. */
	if (!dlopen("libgcc_s.so.1", RTLD_NOW))
		SKIP("pthread_cancel() needs libgcc_s.so.1, which is not installed");
#endif
}

int cts_alloc(const char *exporter, uint64_t bytes)
{
	struct shared s;
	int fd;

	if (cts_access && cts_access->wants_memfds &&
	    !strncmp(exporter, "udmabuf", 7))
		return alloc_known(exporter, bytes);
	fd = alloc_any(exporter, bytes + cts_more);
	if (cts_access && cts_access->wants_memfds && !takes(fd, &s)) {
		close(fd);
		SKIP("%s takes nothing of %s: %s", cts_device, exporter,
		     s.reason);
	}
	return fd;
}

int cts_alloc_read_only(uint64_t bytes)
{
	struct dma_heap_allocation_data data = {
		.len = bytes, .fd_flags = O_RDONLY | O_CLOEXEC,
	};
	int heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);

	if (heap < 0)
		ABSENT("/dev/dma_heap/system: %s", strerror(errno));
	REQUIRE(!ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data));
	close(heap);
	return data.fd;
}

int cts_reuse(int fd, const char *exporter, uint64_t bytes)
{
	int other = cts_alloc(exporter, bytes);

	if (dup3(other, fd, O_CLOEXEC) != fd)
		FATAL("dup3: %s", strerror(errno));
	close(other);
	return fd;
}

DLManagedTensorVersioned *cts_import(struct dlbuf_device *dev, int fd,
				     uint64_t bytes)
{
	int64_t shape = bytes;
	DLTensor layout = {
		.ndim = 1,
		.dtype = { kDLUInt, 8, 1 },
		.shape = &shape,
	};
	DLManagedTensorVersioned *t = NULL;

	if (dlbuf_import(dev, fd, &layout, NULL, &t))
		FATAL("dlbuf_import: %s", dlbuf_last_error());
	return t;
}

struct dlbuf_device_stats cts_stats(struct dlbuf_device *dev)
{
	DLBUF_INFO(dlbuf_device_stats, stats);

	CHECK_OK(dlbuf_device_get_stats(dev, &stats));
	return stats;
}

void cts_delete(DLManagedTensorVersioned *t)
{
	if (t)
		t->deleter(t);
}

static void sync_ioctl(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	if (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync))
		FATAL("DMA_BUF_IOCTL_SYNC: %s", strerror(errno));
}

static void touch(int fd, uint64_t offset, void *dst, const void *src,
		  size_t bytes, bool bracket)
{
	off_t size = lseek(fd, 0, SEEK_END);
	uint64_t dir = src ? DMA_BUF_SYNC_WRITE : DMA_BUF_SYNC_READ;
	char *p = mmap(NULL, size, PROT_READ | (src ? PROT_WRITE : 0),
		       MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		FATAL("mmap of the dma-buf: %s", strerror(errno));
	if (bracket)
		sync_ioctl(fd, DMA_BUF_SYNC_START | dir);
	if (src)
		memcpy(p + offset, src, bytes);
	else
		memcpy(dst, p + offset, bytes);
	if (bracket)
		sync_ioctl(fd, DMA_BUF_SYNC_END | dir);
	munmap(p, size);
}

void cts_peek(int fd, uint64_t offset, void *dst, size_t bytes)
{
	touch(fd, offset, dst, NULL, bytes, true);
}

void cts_poke(int fd, uint64_t offset, const void *src, size_t bytes)
{
	touch(fd, offset, NULL, src, bytes, true);
}

void cts_peek_raw(int fd, uint64_t offset, void *dst, size_t bytes)
{
	touch(fd, offset, dst, NULL, bytes, false);
}

void cts_poke_raw(int fd, uint64_t offset, const void *src, size_t bytes)
{
	touch(fd, offset, NULL, src, bytes, false);
}

void cts_pattern(void *dst, size_t bytes, uint32_t seed)
{
	unsigned char *p = dst;
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < bytes; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		p[i] = x;
	}
}

void cts_layout(unsigned int ndim, unsigned int form, DLTensor *l,
		int64_t dims[2 * DLBUF_MAX_NDIM])
{
	static const DLDataType types[] = {
		{ kDLUInt, 8, 1 }, { kDLInt, 16, 1 }, { kDLFloat, 32, 1 }, { kDLComplex, 128, 1 },
		{ kDLBool, 8, 1 }, { kDLBfloat, 16, 2 }, { kDLUInt, 4, 2 }, { kDLFloat, 64, 1 },
	};
	int64_t *strides = dims + ndim, step = 1;

	*l = (DLTensor){ .ndim = ndim, .dtype = types[(ndim + form) % 8], .shape = dims,
			 .strides = form && ndim ? strides : NULL,
			 .byte_offset = 8192 + 16 * ndim };
	for (unsigned int i = 0; i < ndim; i++)
		dims[i] = i < 3 ? 2 + (i == 1) : i + 2 >= ndim ? 2 : 1;
	for (unsigned int k = 0; k < ndim; k++) {
		unsigned int i = form == 3 ? k : ndim - 1 - k;

		strides[i] = form == 1 ? 2 * step : form == 2 ? -step : step;
		/* The stride of a dimension of one element may be any. */
		if (form && dims[i] == 1)
			strides[i] = i % 2 ? INT64_MIN : INT64_MAX;
		step *= dims[i];
	}
	if (form == 4 && ndim)
		strides[ndim / 2] = 0;
	if (form == 5 && ndim)
		dims[ndim / 2] = 0;
}

void cts_check_layout(const DLManagedTensorVersioned *t, const DLTensor *l)
{
	const DLTensor *got = &t->dl_tensor;
	DLBUF_INFO(dlbuf_tensor_info, info);
	uint64_t first = 1, end = 0;
	int64_t step = 1;

	CHECK_EQ(got->ndim, l->ndim);
	CHECK(!memcmp(&got->dtype, &l->dtype, sizeof(l->dtype)));
	for (int i = l->ndim - 1; i >= 0; i--) {
		CHECK_EQ(got->shape[i], l->shape[i]);
		CHECK_EQ(got->strides[i], l->strides ? l->strides[i] : step);
		step *= l->shape[i];
	}
	CHECK_OK(dlbuf_layout_extent(l, &first, &end));
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	CHECK_EQ(info.first, first);
	CHECK_EQ(info.end, end);
	CHECK_EQ(!got->data, first == end);
}

void cts_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
	      size_t bytes)
{
	CHECK_EQ(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), 0);
	CHECK_EQ(cts_access->read(t, offset, dst, bytes), 0);
	CHECK_EQ(dlbuf_release(t, NULL, NULL), 0);
}

void cts_write(DLManagedTensorVersioned *t, uint64_t offset, const void *src,
	       size_t bytes)
{
	CHECK_EQ(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL), 0);
	CHECK_EQ(cts_access->write(t, offset, src, bytes), 0);
	cts_release(t);
}

void cts_release(DLManagedTensorVersioned *t)
{
	struct pollfd wait = { .fd = -1, .events = POLLIN };

	CHECK_EQ(dlbuf_release(t, NULL, &wait.fd), 0);
	if (wait.fd < 0)
		return;
	if (poll(&wait, 1, -1) != 1)
		FATAL("poll() of the release's fence: %s", strerror(errno));
	close(wait.fd);
}

/* The fds whose link begins so; "": all. */
static unsigned int count_fds(const char *kind)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;
	struct dirent *e;

	if (!dir)
		FATAL("/proc/self/fd: %s", strerror(errno));
	while ((e = readdir(dir))) {
		char link[64] = "";

		n += readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1) >= 0 &&
		     !strncmp(link, kind, strlen(kind));
	}
	closedir(dir);
	return n;
}

/* Drivers with files of their own have none of these three kinds. */
unsigned int cts_count_fds(void)
{
	/* The directory's own is none. */
	unsigned int n = cts_driver_keeps ?
		count_fds("/dmabuf:") + count_fds(SYNC_FILE) + count_fds("/memfd:") :
		count_fds("") - 1;

	if (driver_keeps_fences)
		n -= count_fds(SYNC_FILE);
	return n - nkept - driver_fds;
}

void cts_settle(void)
{
	UNTIL(!event_pending());
}

void cts_until_fds(unsigned int fds)
{
	UNTIL(cts_count_fds() == fds);
}

static pid_t tid_of(const pid_t *tid)
{
	UNTIL(__atomic_load_n(tid, __ATOMIC_ACQUIRE));
	return __atomic_load_n(tid, __ATOMIC_ACQUIRE);
}

void cts_until_asleep(const pid_t *tid, const bool *over)
{
	pid_t id = tid_of(tid);

	UNTIL(__atomic_load_n(over, __ATOMIC_ACQUIRE) || thread_sleeps(id));
}

/* Also those of a driver, to which it may have given its work. */
static bool all_others_asleep(void)
{
	DIR *dir = opendir("/proc/self/task");
	bool idle = dir != NULL;
	struct dirent *e;

	while (idle && (e = readdir(dir))) {
		pid_t tid = atoi(e->d_name);

		idle = tid <= 0 || tid == (pid_t)syscall(SYS_gettid) || thread_sleeps(tid);
	}
	if (dir)
		closedir(dir);
	return idle;
}

/* Twice: one may wake another that was seen asleep, and sleep itself when it is looked at. */
void cts_until_idle(const bool *over)
{
	UNTIL(__atomic_load_n(over, __ATOMIC_ACQUIRE) ||
	      (all_others_asleep() && all_others_asleep()));
}

void cts_until_polls(const pid_t *tid, const bool *over)
{
	pid_t id = tid_of(tid);

	UNTIL(__atomic_load_n(over, __ATOMIC_ACQUIRE) || thread_polls(id));
}

/* ---- fences */

bool cts_no_sync_file(int fd)
{
	struct dma_buf_export_sync_file export = {
		.flags = DMA_BUF_SYNC_READ,
	};

	if (ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export))
		return errno == ENOTTY;
	close(export.fd);
	return false;
}

void cts_fence_create(struct cts_fence *f)
{
	const char *failed;

	*f = (struct cts_fence){ .drm = vgem_open(), .sync_file = -1 };
	if (f->drm < 0)
		SKIP("there is no vgem device");
	/* Less than the ten seconds after which it signals by itself. */
	ktap_lasts(9500000000);
	failed = vgem_fence_create(f->drm, &f->fence, &f->sync_file);
	if (failed && errno == ENOTTY)
		SKIP("the kernel has no %s", failed);
	if (failed)
		FATAL("%s: %s", failed, strerror(errno));
}

void cts_fence_signal(struct cts_fence *f)
{
	CHECK_MSG(!vgem_fence_signal(f->drm, f->fence), "%s", strerror(errno));
}

void cts_fence_destroy(struct cts_fence *f)
{
	close(f->sync_file);
	close(f->drm); /* signals the pending fences */
}

int cts_lab(void)
{
	int lab = lab_open();

	if (lab < 0)
		SKIP("there is no /dev/" DLBUF_LAB_NODE " (tests/guest/lab --module)");
	return lab;
}

int cts_import_fence(int fd, uint32_t access, int fence)
{
	struct dma_buf_import_sync_file import = { .flags = access, .fd = fence };

	return ioctl(fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import);
}

void cts_filter(struct sock_filter *filter, unsigned short n)
{
	struct sock_fprog prog = { .len = n, .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		SKIP("this system takes no seccomp filter");
}
