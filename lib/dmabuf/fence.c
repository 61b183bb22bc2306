// SPDX-License-Identifier: MIT
/* sync_files, and the fences of a dma-buf. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <dlbuf/base.h>

#include "../system/fork.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "../system/uapi.h"
#include "buffer.h"
#include "fence.h"

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Continues after EINTR. */
int poll_until(int fd, short events, uint64_t deadline_ns)
{
	NOT_CANCELLED;
	struct pollfd p = { .fd = fd, .events = events };
	struct timespec left = { 0 };
	int ret;

	/* poll() ignores negative fds, and would only wait. */
	if (fd < 0)
		return fail(-EBADF, "fd %d is not open", fd);
	do {
		/* 1 is in the past: the clock need not be read. */
		if (deadline_ns > 1) {
			uint64_t t = now_ns();

			t = t < deadline_ns ? deadline_ns - t : 0;
			left.tv_sec = t / 1000000000;
			left.tv_nsec = t % 1000000000;
		}
		ret = sys_poll(&p, 1, deadline_ns ? &left : NULL);
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		return fail(errno == ENOMEM ? -ENOMEM : -EIO,
			    "fd %d: ppoll(): %m", fd);
	if (p.revents & POLLNVAL)
		return fail(-EBADF, "fd %d is not open", fd);
	return ret ? p.revents : 0;
}

/* Returns 1 after an event, 0 if there was none, or a negative errno. */
static int ready(int fd, short events, uint64_t deadline_ns)
{
	int ret = poll_until(fd, events, deadline_ns);

	return ret < 0 ? ret : !!(ret & events);
}

int fence_signalled(int fence)
{
	return fence == -1 ? 1 : ready(fence, POLLIN, 1);
}

int dlbuf_fence_wait(int fence, uint64_t deadline_ns)
{
	int ret;

	if (fence == -1)
		return 0;
	ret = ready(fence, POLLIN, deadline_ns);
	if (ret)
		return ret < 0 ? ret : 0;
	return fail(-ETIME, "the fence did not signal before the deadline");
}

/*
 * The status of a sync_file that has signalled. A merged sync_file has no error if its
 * fences failed before the first wait for it, so this reads the status of each fence. An
 * event that is a socket has an error if the process at its other end has died.
 */
static int status_of(int fence)
{
	struct sync_fence_info fences[16] = { 0 };
	struct sync_file_info info = {
		.num_fences = ARRAY_SIZE(fences),
		.sync_fence_info = (uintptr_t)fences,
	};
	int status;

	if (sys_ioctl(fence, SYNC_IOC_FILE_INFO, &info)) {
		/* EINVAL: the file has more fences. An eventfd has no status. */
		info = (struct sync_file_info){ 0 };
		if (errno != EINVAL)
			return poll_until(fence, POLLIN, 1) & POLLERR ? -EIO : 1;
		return sys_ioctl(fence, SYNC_IOC_FILE_INFO, &info) ? 1 :
		       info.status;
	}
	status = info.status;
	for (uint32_t i = 0; i < info.num_fences && status >= 0; i++)
		if (fences[i].status < 0)
			status = fences[i].status;
	return status;
}

int dlbuf_fence_status(int fence, int *status)
{
	int ret;

	if (!status)
		return fail(-EINVAL, "status is NULL");
	ret = fence_signalled(fence);
	if (ret < 0)
		return ret;
	/* Once the fence has signalled, its status is final. */
	*status = ret && fence != -1 ? status_of(fence) : ret;
	return 0;
}

int fence_error(int fence)
{
	int status = 0;

	return fence == -1 || dlbuf_fence_status(fence, &status) || status > 0 ?
	       0 : status;
}

int fence_check(int fence)
{
	int err = fence_error(fence);

	return err ? fail(-EIO, "fence %d ended with error %d (%s): the work "
			  "before it did not complete", fence, -err,
			  strerror(-err)) : 0;
}

int not_a_sync_file(int fd)
{
	if (fcntl(fd, F_GETFD) < 0)
		return fail(-EBADF, "fd %d is not open", fd);
	return wrong_file(-EINVAL, fd, fd, "sync_file");
}

static bool no_room(void)
{
	return lacks_room(-errno);
}

/*
 * A merge with an invalid second file makes no file, and a sync_file returns
 * ENOENT. SYNC_IOC_FILE_INFO cannot be used for pending fences, see
 * dlbuf_fence_status().
 */
int fence_check_file(int fence)
{
	struct sync_merge_data merge = { .name = "dlbuf", .fd2 = -1 };
	struct sync_file_info info = { 0 };

	if (!sys_ioctl(fence, SYNC_IOC_MERGE, &merge))
		close(merge.fence);
	/*
	 * The kernel allocates an fd first. If no fd is left, another ioctl identifies the file.
	 */
	else if (errno != ENOENT && (!no_room() || sys_ioctl(fence, SYNC_IOC_FILE_INFO, &info)))
		return no_room() ? fail_errno("SYNC_IOC_MERGE") :
				   not_a_sync_file(fence);
	return 0;
}

int raise_fd(int fd, int *out)
{
	int high = sys_high(fd);

	if (high < 0)
		return fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fd);
	*out = high;
	return 0;
}

/*
 * An eventfd that counts down by one for each reader stays readable for all of
 * them: the library waits for it, and the caller may read its fd.
 */
#define FOR_EVER (UINT64_MAX - 1)

int fence_event(int *writer, int *out)
{
	int fd = sys_eventfd(EFD_SEMAPHORE | EFD_NONBLOCK);
	int ret, high;

	if (fd < 0)
		return fail_errno("eventfd()");
	ret = raise_fd(fd, &high);
	if (ret)
		return ret;
	fd = sys_dup(high);
	if (fd < 0) {
		ret = fail_errno("fcntl(F_DUPFD_CLOEXEC)");
		close(high);
		return ret;
	}
	*writer = fd;
	*out = high;
	return 0;
}

void fence_event_signal(int writer)
{
	uint64_t n = FOR_EVER;
	ssize_t written;

	if (writer < 0)
		return;
	written = write(writer, &n, sizeof(n));
	(void)written;
	close(writer);
}

bool pause_until(struct timespec *pause, uint64_t deadline_ns)
{
	if (deadline_ns && now_ns() >= deadline_ns)
		return false;
	nanosleep(pause, NULL);
	if (pause->tv_nsec < 1000000)
		pause->tv_nsec *= 2;
	return true;
}

int dlbuf_fence_merge(int a, int b, int *out)
{
	struct sync_merge_data merge = { .name = "dlbuf", .fd2 = b };

	if (!out)
		return fail(-EINVAL, "out is NULL");
	if (a == -1 && b == -1) {
		*out = -1;
		return 0;
	}
	/* A single fence is merged with itself, so that it is checked too. */
	if (a == -1)
		a = b;
	if (b == -1)
		merge.fd2 = a;
	if (sys_ioctl(a, SYNC_IOC_MERGE, &merge) < 0)
		return no_room() ? fail_errno("SYNC_IOC_MERGE") :
		       not_a_sync_file(errno == ENOENT ? merge.fd2 : a);
	return raise_fd(merge.fence, out);
}

int fence_join(int a, int b)
{
	int both = -1, one;

	if (a == -1 || b == -1)
		return a == -1 ? b : a;
	if (dlbuf_fence_merge(a, b, &both))
		dlbuf_fence_wait(b, 0);
	one = fence_check(a) ? a : fence_check(b) ? b : both != -1 ? both : a;
	forget_failure();
	if (a != one)
		close(a);
	if (b != one)
		close(b);
	if (both != one && both != -1)
		close(both);
	return one;
}

void fence_join_at(int *at, int fence)
{
	int old;

	do {
		old = __atomic_exchange_n(at, 0, __ATOMIC_ACQ_REL);
		fence = fence_join(old ? old : -1, fence);
		old = 0;
	} while (!__atomic_compare_exchange_n(at, &old, fence, false,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

int bracket(int fd, uint64_t flags)
{
	NOT_CANCELLED;
	struct timespec pause = PAUSE_FIRST;
	int ret = bracket_once(fd, flags);

	for (int i = 1; ret && bracket_refused() && i < BRACKET_TRIES; i++) {
		if (!(flags & DMA_BUF_SYNC_END))
			fence_wait_buffer(fd, flags & DLBUF_RW, 0, true);
		pause_until(&pause, 0);
		ret = bracket_once(fd, flags);
	}
	return ret;
}

/* Held while a fence is added, and during a START that must not wait. */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static void forked(enum fork_side side)
{
	if (side == FORK_CHILD)
		pthread_mutex_init(&adding, NULL);
}

static struct fork_handler fork_handler = { .fn = forked };

static void lock_adding(void)
{
	fork_handle(&fork_handler);
	pthread_mutex_lock(&adding);
}

int bracket_idle(int fd, uint64_t flags)
{
	NOT_CANCELLED;
	struct timespec pause = PAUSE_FIRST;
	int idle, ret;

	for (int i = 0; i < BRACKET_TRIES; i++) {
		lock_adding();
		idle = fence_buffer_idle(fd, flags & DLBUF_RW);
		ret = idle > 0 ? bracket_once(fd, flags) : 0;
		pthread_mutex_unlock(&adding);
		if (!ret)
			return idle;
		if (!bracket_refused())
			break;
		pause_until(&pause, 0);
	}
	return fail_errno("DMA_BUF_IOCTL_SYNC");
}

static int check_access(uint32_t access)
{
	if (!access || access & ~(uint32_t)DLBUF_RW)
		return fail(-EINVAL, "access %u is not READ, WRITE or RW",
			    access);
	return 0;
}

/* Finds out why an ioctl of a dma-buf failed. */
static int buffer_refused(int fd, const char *call)
{
	int err = errno, ret;
	uint64_t bytes;

	/* Other files may have another ioctl with this number. */
	ret = buffer_size(fd, fd, &bytes);
	if (ret)
		return ret;
	if (err == ENOTTY)
		return fail(-EOPNOTSUPP, "the kernel has no %s", call);
	return fail(err == EINVAL || lacks_room(-err) ? -err : -EIO,
		    "fd %d: %s: %s", fd, call, strerror(err));
}

/* Calls DMA_BUF_IOCTL_EXPORT_SYNC_FILE; -1 with errno on failure. */
static int export_sync_file(int fd, uint32_t access)
{
	struct dma_buf_export_sync_file export = {
		.flags = access & DLBUF_WRITE ? DMA_BUF_SYNC_RW :
						DMA_BUF_SYNC_READ,
	};

	if (sys_ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export) < 0)
		return -1;
	return export.fd;
}

int dlbuf_fence_export(int dmabuf, uint32_t access, int *fence)
{
	int ret, fd;

	if (!fence)
		return fail(-EINVAL, "fence is NULL");
	ret = check_access(access);
	if (ret)
		return ret;
	fd = export_sync_file(dmabuf, access);
	if (fd < 0)
		return buffer_refused(dmabuf, "DMA_BUF_IOCTL_EXPORT_SYNC_FILE");
	return raise_fd(fd, fence);
}

uint32_t fences_added[FENCES_BUCKETS];

static void count_fence(const struct buffer_id *id)
{
	for (ino_t i = 0; i < FENCES_BUCKETS; i++)
		if (!id || i == id->ino % FENCES_BUCKETS)
			__atomic_add_fetch(&fences_added[i], 1, __ATOMIC_RELAXED);
}

int fence_import(int dmabuf, const struct buffer_id *id, uint32_t access,
		 int fence)
{
	struct dma_buf_import_sync_file import = {
		.flags = access,
		.fd = fence,
	};
	int ret;

	ret = check_access(access);
	if (ret || fence == -1)
		return ret;
	lock_adding();
	ret = sys_ioctl(dmabuf, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import);
	pthread_mutex_unlock(&adding);
	if (access & DLBUF_WRITE)
		count_fence(id);
	if (!ret)
		return 0;
	ret = buffer_refused(dmabuf, "DMA_BUF_IOCTL_IMPORT_SYNC_FILE");
	/* The flags are right, so EINVAL means a wrong fence. */
	return ret == -EINVAL ? not_a_sync_file(fence) : ret;
}

int dlbuf_fence_import(int dmabuf, uint32_t access, int fence)
{
	return fence_import(dmabuf, NULL, access, fence);
}

/* POLLOUT is ready when all fences have signalled, POLLIN the writers'. */
static short events_of(uint32_t access)
{
	return access & DLBUF_WRITE ? POLLOUT : POLLIN;
}

int fence_buffer_idle(int fd, uint32_t access)
{
	return ready(fd, events_of(access), 1);
}

int fence_wait_buffer(int fd, uint32_t access, uint64_t deadline_ns,
		      bool damaged)
{
	int ret, fence, err;

	ret = fence_buffer_idle(fd, access);
	if (ret)
		return ret < 0 ? ret : 0;
	/*
	 * A sync_file is a snapshot. poll() on the dma-buf checks all fences again
	 * at each wake-up, so with a fast producer it may never return, and it
	 * reports no error. It is used on kernels without the ioctl, and if no fd
	 * is left for the sync_file.
	 */
	fence = export_sync_file(fd, access);
	if (fence >= 0) {
		ret = ready(fence, POLLIN, deadline_ns);
		err = ret <= 0 || damaged ? 0 : fence_check(fence);
		close(fence);
		if (err)
			return err;
	} else if (errno == ENOTTY || no_room()) {
		ret = ready(fd, events_of(access), deadline_ns);
	} else {
		return fail_errno("fd %d: DMA_BUF_IOCTL_EXPORT_SYNC_FILE", fd);
	}
	if (ret)
		return ret;
	return fail(-ETIME, "the fences of the dma-buf did not signal before "
		    "the deadline");
}
