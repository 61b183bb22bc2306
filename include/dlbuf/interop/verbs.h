/* SPDX-License-Identifier: MIT */
/*
 * RDMA by libibverbs: registers dma-bufs as memory regions, fills in the ibv_sge of a
 * tensor, and holds its access and its lease until the work request is complete.
 * Header-only; needs libibverbs and its headers, of rdma-core 34 or newer, POSIX threads, and
 * more than bare C11 (-std=gnu11 or _GNU_SOURCE).
 *
 *	struct dlbuf_udmabuf mem;	// one for each buffer of the pool
 *	struct dlbuf_verbs_buffer *buffer;
 *	struct dlbuf_verbs *v;
 *	struct ibv_sge sge;
 *	uint32_t n = 1;
 *	uint64_t id = 0;
 *
 *	if (dlbuf_verbs_create(pd, &v) || dlbuf_udmabuf_create(bytes, NULL, &mem) ||
 *	    dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &buffer))
 *		errx(1, "%s", dlbuf_last_error());
 *
 *	... for each frame, whose tensor is on the CPU; the queue pair is connected (IBV_QPS_RTS) ...
 *	if (dlbuf_verbs_begin(v, tensor, DLBUF_READ, NULL, &id) ||
 *	    dlbuf_verbs_sge(v, id, tensor, &sge, &n))
 *		errx(1, "%s", dlbuf_last_error());
 *	wr.wr_id = id;
 *	wr.sg_list = &sge;
 *	wr.num_sge = n;
 *	wr.send_flags = IBV_SEND_SIGNALED;
 *	if (ibv_post_send(qp, &wr, &bad))
 *		dlbuf_verbs_end(v, id);	// it is not posted, and was the only one of the id
 *	tensor->deleter(tensor);
 *
 *	... for each completion, whatever its status ...
 *	if (ibv_poll_cq(cq, 1, &wc) == 1 && wc.wr_id & DLBUF_VERBS_ID)
 *		dlbuf_verbs_end(v, wc.wr_id);
 *
 * Two ways. dlbuf_verbs_add() tries ibv_reg_dmabuf_mr() first. Some drivers take no dma-bufs (rxe).
 * Other drivers learned it in different versions of Linux, 5.12 at the earliest. Drivers without it
 * pin mapped memory, but the kernel refuses to pin a dma-buf's mapping. For these pass the memfd of
 * dlbuf_udmabuf_create(), whose pages are the same. The buffers of a dlbuf_pool have no memfd.
 *
 * The memfd. Make the buffer yourself and register it before anybody else has its memfd:
 * whoever has it can punch a hole (fallocate()), which no seal forbids, and the memfd gets other
 * pages than the dma-buf. A registration after that pins the new pages and sends them.
 * dlbuf_verbs_add() compares each page once, after it is pinned, and then maps the dma-buf in the
 * place of the memfd. A hole that is punched later changes neither the region nor the mapping.
 *
 * Addresses. Local and remote addresses are those of a mapping of the dma-buf in this process,
 * which the registration keeps. Some drivers (siw, hfi1, qib) take no other, and libibverbs
 * itself reads and writes there: IBV_SEND_INLINE copies in ibv_post_send(), mlx5 copies small
 * messages in ibv_poll_cq(). So the key of dlbuf_verbs_remote() tells the peer where this
 * process has mapped the buffer. dlbuf_verbs_buffer.addr is the first address.
 *
 * Costs. A buffer is found by its identity, as the library's cache finds it: no frame needs a
 * registration. dlbuf_verbs_begin() allocates twice. dlbuf_verbs_sge() and dlbuf_verbs_end()
 * search the accesses that are open, the newest first. Each buffer has an fd and a mapping of
 * its own, besides the driver's.
 *
 * fork(). A child cannot use the parent's regions: the calls return -ESTALE, and
 * dlbuf_verbs_destroy() and dlbuf_verbs_remove() do nothing, because libibverbs would deregister
 * the parent's. The mapping of a buffer is shared, so it needs no ibv_fork_init(). A child that
 * does not exec keeps the parent's queue pairs and regions alive: when the parent has ended, a
 * peer can still write, until the child ends too.
 *
 * Specification: ibv_reg_mr(3), ibv_post_send(3), ibv_poll_cq(3).
 */
#ifndef DLBUF_INTEROP_VERBS_H
#define DLBUF_INTEROP_VERBS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <linux/dma-buf.h>

#include <dlbuf/buffer.h>
#include <dlbuf/layout.h>
#include <dlbuf/sync.h>
#include <dlbuf/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The regions of one protection domain, and the work on them. */
struct dlbuf_verbs;

struct dlbuf_verbs_buffer {
	struct ibv_mr *mr;	/* peeked */
	uint64_t bytes;		/* of the region, which is the whole dma-buf */
	uint64_t addr;		/* where its first byte is mapped; not mr->addr, which may be 0 */
	int by_memfd;		/* 1: the driver took the memfd, not the dma-buf */
	uint32_t access;	/* dlbuf_access of this machine */
	uint32_t remote;	/* dlbuf_access of the peer, or 0 */
	/* The rest is of this header. */
	struct dlbuf_verbs *verbs_;
	struct dlbuf_verbs_buffer *next_;
	uint64_t dev_, ino_;
	void *map_;		/* of the dma-buf */
	int fd_;		/* keeps the inode number, and so the identity */
	unsigned int owners_, works_;
};

struct dlbuf_verbs_work_ {
	struct dlbuf_verbs_work_ *next;
	uint32_t access;
	struct dlbuf_verbs_buffer *buffer;
	DLManagedTensorVersioned *tensor;
	uint64_t id;
};

/*
 * In a mapping of its own that the kernel clears in a child of fork() (MADV_WIPEONFORK). A process
 * number would not do: a child in a namespace of its own may have the parent's.
 */
struct dlbuf_verbs {
	struct ibv_pd *pd;	/* NULL: this process is a child */
	pthread_mutex_t adding;	/* one dlbuf_verbs_add() at a time; taken before lock */
	pthread_mutex_t lock;	/* no driver's call is made under it */
	struct dlbuf_verbs_buffer *buffers;
	struct dlbuf_verbs_work_ *works;
	uint64_t last;		/* id */
	uint64_t message;	/* the most bytes of a work request */
};

/* Set in each id of dlbuf_verbs_begin(). Use a wr_id of your own without it. */
#define DLBUF_VERBS_ID (1ull << 63)

static inline int dlbuf_verbs_cancel_off_(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void dlbuf_verbs_cancel_on_(int *state)
{
	pthread_setcancelstate(*state, NULL);
}

/* Disables thread cancellation until the end of the scope. close() and drivers' calls permit it. */
#define DLBUF_VERBS_NOT_CANCELLED_				\
	__attribute__((cleanup(dlbuf_verbs_cancel_on_), unused))	\
	int cancel_state_ = dlbuf_verbs_cancel_off_()

static inline int dlbuf_verbs_check_(const struct dlbuf_verbs *v)
{
	if (!v)
		return dlbuf_fail(-EINVAL, "there is no struct dlbuf_verbs");
	if (!v->pd)
		return dlbuf_fail(-ESTALE, "the regions belong to the parent process");
	return 0;
}

/* The most bytes of a work request on any port of the device. */
static inline uint64_t dlbuf_verbs_message_(struct ibv_context *context)
{
	/* RDMA's own limit is 2^31, which libmlx5 does not know: its highest bit is a flag there. */
	uint64_t most = (1u << 31) - 1;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	unsigned int i;

	if (ibv_query_device(context, &device))
		return most;
	for (i = 1; i <= device.phys_port_cnt; i++)
		if (!ibv_query_port(context, (uint8_t)i, &port) && port.max_msg_sz &&
		    port.max_msg_sz < most)
			most = port.max_msg_sz;
	return most;
}

/*
 * Makes an empty set of regions. pd is borrowed and must live until dlbuf_verbs_destroy(). A
 * child of fork() opens the device itself: what it registers on its parent's pd is the parent's.
 * For several protection domains make a set each: the ids of all sets of a process differ, also
 * of those that were destroyed, and dlbuf_verbs_end() returns -EINVAL for the id of another set.
 * *verbs is new. Blocks only in early boot, until the kernel has random numbers. Every call may
 * be made on any thread at any time, except dlbuf_verbs_destroy(), which is the last.
 * -EINVAL  pd or verbs is NULL
 * -EIO     the kernel failed; the error text has the call
 */
static inline int dlbuf_verbs_create(struct ibv_pd *pd, struct dlbuf_verbs **verbs)
{
	DLBUF_VERBS_NOT_CANCELLED_;
	struct dlbuf_verbs *v;
	void *map;
	int ret = 0;

	if (!pd || !verbs)
		return dlbuf_fail(-EINVAL, "pd or verbs is NULL");
	map = mmap(NULL, sizeof(*v), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return dlbuf_fail(-ENOMEM, "no memory");
	v = (struct dlbuf_verbs *)map;
	if (madvise(map, sizeof(*v), MADV_WIPEONFORK))
		ret = dlbuf_fail(-EIO, "madvise(MADV_WIPEONFORK): %s", strerror(errno));
	/* A completion queue may still have the ids of a set that was destroyed. */
	while (!ret && getrandom(&v->last, sizeof(v->last), 0) != (ssize_t)sizeof(v->last))
		if (errno != EINTR)
			ret = dlbuf_fail(-EIO, "getrandom(): %s", strerror(errno));
	if (!ret && (pthread_mutex_init(&v->adding, NULL) || pthread_mutex_init(&v->lock, NULL)))
		ret = dlbuf_fail(-ENOMEM, "pthread_mutex_init() failed");
	if (ret) {
		munmap(map, sizeof(*v));
		return ret;
	}
	v->message = dlbuf_verbs_message_(pd->context);
	v->pd = pd;
	*verbs = v;
	return 0;
}

/* Deregisters and frees a buffer that is in no list. */
static inline void dlbuf_verbs_free_(struct dlbuf_verbs_buffer *b)
{
	/* Fails only while memory windows are bound to it: then the region stays until its PD. */
	if (b->mr)
		ibv_dereg_mr(b->mr);
	if (b->map_)
		munmap(b->map_, (size_t)b->bytes);
	if (b->fd_ >= 0)
		close(b->fd_);
	free(b);
}

/* Under the lock: removes a buffer without owners and work from the list. */
static inline int dlbuf_verbs_unlink_(struct dlbuf_verbs_buffer *b)
{
	struct dlbuf_verbs_buffer **at = &b->verbs_->buffers;

	if (b->owners_ || b->works_)
		return 0;
	while (*at != b)
		at = &(*at)->next_;
	*at = b->next_;
	return 1;
}

/* Under the lock: also finds a buffer that was removed, and has work left. */
static inline struct dlbuf_verbs_buffer *dlbuf_verbs_find_(const struct dlbuf_verbs *v,
							   uint64_t dev, uint64_t ino)
{
	struct dlbuf_verbs_buffer *b = v->buffers;

	while (b && (b->dev_ != dev || b->ino_ != ino))
		b = b->next_;
	return b;
}

static inline unsigned int dlbuf_verbs_flags_(const struct dlbuf_verbs_buffer *b)
{
	unsigned int flags = b->access & DLBUF_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0;

	if (b->remote & DLBUF_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (b->remote & DLBUF_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	return flags;
}

/* The error of a call that has set errno. pins: the limit of pinned memory may be the reason. */
static inline int dlbuf_verbs_refused_(const char *call, uint64_t bytes, int err, int pins)
{
	struct rlimit limit;

	/* A limit of 0 is EPERM. */
	if (pins && !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    (err != EPERM || !limit.rlim_cur))
		return dlbuf_fail(-ENOMEM, "%s of %llu bytes: %s; RLIMIT_MEMLOCK (ulimit -l) allows "
				  "this process %llu bytes of pinned memory", call,
				  (unsigned long long)bytes, strerror(err),
				  (unsigned long long)limit.rlim_cur);
	return dlbuf_fail(err == ENOMEM ? -ENOMEM : err == EACCES || err == EPERM ? -EACCES :
			  err == EMFILE || err == ENFILE ? -err : -EIO, "%s of %llu bytes: %s",
			  call, (unsigned long long)bytes, strerror(err));
}

/* The same of mmap(). After mlockall(MCL_FUTURE) the limit is EAGAIN. */
static inline int dlbuf_verbs_unmapped_(const char *what, uint64_t bytes, int err)
{
	return dlbuf_verbs_refused_(what, bytes, err, err == EAGAIN);
}

/* Begins or ends the CPU's access to a dma-buf. */
static inline int dlbuf_verbs_sync_(int fd, uint64_t end)
{
	const struct timespec pause = { 0, 1000000 };
	struct dma_buf_sync sync;
	int ret, tries = 0;

	sync.flags = DMA_BUF_SYNC_RW | end;
	/* As often as dlbuf_acquire(). */
	while ((ret = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync)) && (errno == EINTR || errno == EAGAIN) &&
	       ++tries < 1000)
		nanosleep(&pause, NULL);
	return ret;
}

/*
 * Checks that `memory` is the memory of the dma-buf: changes a word of each page through the
 * dma-buf, and changes it back. Call it after the pages are pinned, because a page that the
 * memfd has lost to a hole never comes back.
 */
static inline int dlbuf_verbs_compare_(int fd, const void *memory, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at, stamp, seen;
	void *map = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int ret = 0;

	if (map == MAP_FAILED)
		return dlbuf_verbs_unmapped_("mmap() of the dma-buf", bytes, errno);
	if (dlbuf_verbs_sync_(fd, DMA_BUF_SYNC_START)) {
		ret = dlbuf_fail(-EIO, "DMA_BUF_IOCTL_SYNC: %s", strerror(errno));
		munmap(map, (size_t)bytes);
		return ret;
	}
	for (at = 0; !ret && at < bytes; at += page) {
		volatile uint64_t *word = (volatile uint64_t *)((char *)map + at);
		const volatile uint64_t *other =
			(const volatile uint64_t *)((const char *)memory + at);

		stamp = *word;
		*word = ~stamp;
		seen = *other;
		*word = stamp;
		if (seen != ~stamp || *other != stamp)
			ret = dlbuf_fail(-EINVAL, "page %llu of the memfd is not the page of the "
					 "dma-buf: it is the memfd of another buffer, or a hole was "
					 "punched", (unsigned long long)(at / page));
	}
	if (dlbuf_verbs_sync_(fd, DMA_BUF_SYNC_END) && !ret)
		ret = dlbuf_fail(-EIO, "DMA_BUF_IOCTL_SYNC: %s", strerror(errno));
	munmap(map, (size_t)bytes);
	return ret;
}

/* F_GET_SEALS and F_SEAL_SHRINK, which glibc has with _GNU_SOURCE only. */
#define DLBUF_VERBS_GET_SEALS_ (1024 + 10)
#define DLBUF_VERBS_SEAL_SHRINK_ 2

/* Maps the dma-buf: in the place of another mapping of its size, or anywhere if that is NULL. */
static inline void *dlbuf_verbs_map_(const struct dlbuf_verbs_buffer *b, void *place)
{
	return mmap(place, (size_t)b->bytes,
		    b->access & DLBUF_WRITE ? PROT_READ | PROT_WRITE : PROT_READ,
		    MAP_SHARED | (place ? MAP_FIXED : 0), b->fd_, 0);
}

static inline int dlbuf_verbs_memfd_(struct dlbuf_verbs_buffer *b, int memfd, int dmabuf_err)
{
	struct dlbuf_buffer_info info;
	struct stat st;
	void *map;
	int ret, seals;

	if (memfd < 0)
		return dlbuf_fail(-EOPNOTSUPP, "the driver does not take the dma-buf "
				  "(ibv_reg_dmabuf_mr: %s), and there is no memfd: make the buffer "
				  "with dlbuf_udmabuf_create()", strerror(dmabuf_err));
	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	if (dlbuf_buffer_query(b->fd_, &info))
		return dlbuf_fail(-EBADF, "the fd is not a dma-buf");
	if (info.access != DLBUF_RW)
		return dlbuf_fail(-EACCES, "the memfd of a dma-buf is compared by writing, and this "
				  "fd was not opened for reading and writing");
	seals = fcntl(memfd, DLBUF_VERBS_GET_SEALS_);
	if (seals < 0 || fstat(memfd, &st))
		return dlbuf_fail(-EBADF, "fd %d is not a memfd", memfd);
	/* A udmabuf's memfd has the seal. Without it the comparison could meet SIGBUS. */
	if (!(seals & DLBUF_VERBS_SEAL_SHRINK_))
		return dlbuf_fail(-EINVAL, "the memfd has no F_SEAL_SHRINK, so it is not the one of a "
				  "udmabuf");
	if ((uint64_t)st.st_size != b->bytes)
		return dlbuf_fail(-EINVAL, "the dma-buf has %llu bytes, the memfd %llu",
				  (unsigned long long)b->bytes, (unsigned long long)st.st_size);
	/*
	 * Linux before 6.2 pins memory for writing, also for a region that is only read. The memory is
	 * there: without MAP_NORESERVE pages of 2 MiB would be reserved a second time.
	 */
	map = mmap(NULL, (size_t)b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd, 0);
	/* EPERM: a seal forbids writing. */
	if (map == MAP_FAILED)
		return dlbuf_verbs_unmapped_("mmap() of the memfd", b->bytes, errno);
	munmap(b->map_, (size_t)b->bytes);
	b->map_ = map;
	b->by_memfd = 1;
	b->addr = (uintptr_t)map;
	b->mr = ibv_reg_mr(b->verbs_->pd, map, (size_t)b->bytes, dlbuf_verbs_flags_(b));
	if (!b->mr)
		return dlbuf_verbs_refused_("ibv_reg_mr", b->bytes, errno,
					    errno == ENOMEM || errno == EPERM);
	ret = dlbuf_verbs_compare_(b->fd_, map, b->bytes);
	/* A hole would give the memfd other pages. The dma-buf keeps those that are pinned. */
	if (!ret && dlbuf_verbs_map_(b, map) == MAP_FAILED)
		ret = dlbuf_verbs_unmapped_("mmap() of the dma-buf", b->bytes, errno);
	return ret;
}

static inline int dlbuf_verbs_register_(struct dlbuf_verbs_buffer *b, int memfd)
{
	void *map;
	int err;

	if (b->bytes > SIZE_MAX / 2)
		return dlbuf_fail(-EOVERFLOW, "%llu bytes are more than this process can address",
				  (unsigned long long)b->bytes);
	map = dlbuf_verbs_map_(b, NULL);
	if (map == MAP_FAILED && (errno == ENOMEM || errno == EAGAIN || errno == EACCES))
		return dlbuf_verbs_unmapped_("mmap() of the dma-buf", b->bytes, errno);
	if (map == MAP_FAILED)
		return dlbuf_fail(-EOPNOTSUPP, "the CPU cannot map the dma-buf: mmap() of %llu bytes: %s",
				  (unsigned long long)b->bytes, strerror(errno));
	/* libibverbs may use the address until ibv_dereg_mr(). */
	b->map_ = map;
	b->addr = (uintptr_t)map;
	/* Each buffer is tried: a driver may take dma-bufs of one exporter, not of another. */
	b->mr = ibv_reg_dmabuf_mr(b->verbs_->pd, 0, (size_t)b->bytes, b->addr, b->fd_,
				  (int)dlbuf_verbs_flags_(b));
	if (b->mr)
		return 0;
	err = errno;
	/*
	 * The library, the kernel or the driver has not the call (ENOTTY: no ioctl at all;
	 * EPROTONOSUPPORT: not this one), or does not take such a dma-buf (EINVAL).
	 */
	if (err == EOPNOTSUPP || err == ENOSYS || err == ENOTTY || err == EPROTONOSUPPORT || err == EINVAL)
		return dlbuf_verbs_memfd_(b, memfd, err);
	/* The kernel counts no dma-buf against the limit of pinned memory. */
	return dlbuf_verbs_refused_("ibv_reg_dmabuf_mr", b->bytes, err, 0);
}

/* Registers a dma-buf that has no region yet. */
static inline int dlbuf_verbs_new_(struct dlbuf_verbs *v, int fd, int memfd,
				   const struct dlbuf_buffer_info *info, uint32_t access,
				   uint32_t remote, struct dlbuf_verbs_buffer **buffer)
{
	struct dlbuf_verbs_buffer *b = (struct dlbuf_verbs_buffer *)calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return dlbuf_fail(-ENOMEM, "no memory");
	b->verbs_ = v;
	b->bytes = info->bytes;
	b->access = access;
	b->remote = remote;
	b->dev_ = info->dev;
	b->ino_ = info->ino;
	b->owners_ = 1;
	b->fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (b->fd_ < 0)
		ret = dlbuf_fail(errno == EBADF ? -EBADF : -EMFILE, "fd %d: dup(): %s", fd,
				 strerror(errno));
	else
		ret = dlbuf_verbs_register_(b, memfd);
	if (ret) {
		dlbuf_verbs_free_(b);
		return ret;
	}
	pthread_mutex_lock(&v->lock);
	b->next_ = v->buffers;
	v->buffers = b;
	pthread_mutex_unlock(&v->lock);
	*buffer = b;
	return 0;
}

/*
 * Registers a whole dma-buf, or finds its region. Call it when the pool is made: it pins the
 * memory, and compares a memfd with the dma-buf by writing to both. During the call nobody else
 * may use the buffer. Two sets may have one dma-buf, each with its own region and its own share of
 * the limit: add it to them one after the other. Threads that add to one set wait for each other.
 *
 * fd is duplicated. memfd is borrowed: that of dlbuf_udmabuf_create(), or -1 for a dma-buf
 * without one, which not every driver takes. access is what this machine does: DLBUF_READ to
 * send from the buffer, DLBUF_WRITE only to receive, DLBUF_RW for both. remote is what a peer
 * that knows the key may do, DLBUF_READ, DLBUF_WRITE, DLBUF_RW or 0: -EACCES if access lacks it.
 * iWARP also wants DLBUF_WRITE in remote if an RDMA READ of this machine fills the buffer.
 *
 * *buffer is peeked until dlbuf_verbs_remove(). A dma-buf that is registered already gets no
 * second region and is not compared again, also if it was removed and has work left: each call
 * needs a dlbuf_verbs_remove() of its own. May block while the kernel pins.
 * -EINVAL      an argument is NULL, bad access or remote, or the memfd is not the one of the
 *              dma-buf
 * -EBADF       fd is not a dma-buf; the driver needs the memfd, and memfd is not one
 * -EACCES      fd was not opened for this access, or access lacks remote; the driver refuses this
 *              user. mmap() takes no fd that is O_WRONLY: use O_RDWR. With a memfd both fds must be
 *              O_RDWR, and no seal may forbid writing
 * -EBUSY       the dma-buf is registered, with another access; also after the last
 *              dlbuf_verbs_remove(), while work is left
 * -EOPNOTSUPP  the driver does not take the dma-buf, which the errno of ibv_reg_dmabuf_mr() says
 *              (EOPNOTSUPP, ENOSYS, ENOTTY, EPROTONOSUPPORT or EINVAL), and there is no memfd; or
 *              the CPU cannot map the dma-buf
 * -ENOMEM      also: RLIMIT_MEMLOCK is too small, or 0. Then the error text has it
 * -EOVERFLOW   the dma-buf is larger than this process can address
 * -EIO         the driver or the kernel failed; the error text has the call and the code
 */
static inline int dlbuf_verbs_add(struct dlbuf_verbs *v, int fd, int memfd, uint32_t access,
				  uint32_t remote, struct dlbuf_verbs_buffer **buffer)
{
	DLBUF_VERBS_NOT_CANCELLED_;
	struct dlbuf_verbs_buffer *found;
	struct dlbuf_buffer_info info;
	int ret = dlbuf_verbs_check_(v);

	if (ret)
		return ret;
	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	if (!buffer || !access || (access | remote) & ~(uint32_t)DLBUF_RW)
		return dlbuf_fail(-EINVAL, "buffer is NULL, access is not READ, WRITE or RW, or "
				  "remote is none of these and not 0");
	ret = dlbuf_buffer_query(fd, &info);
	if (ret)
		return ret;
	if (remote & ~access)
		return dlbuf_fail(-EACCES, "a peer may not have an access to the buffer that this "
				  "machine does not have");
	if (access & ~info.access)
		return dlbuf_fail(-EACCES, "fd %d was not opened for this access", fd);
	/* Two at once would register it twice, and compare each other's changes of its memfd. */
	pthread_mutex_lock(&v->adding);
	pthread_mutex_lock(&v->lock);
	found = dlbuf_verbs_find_(v, info.dev, info.ino);
	if (found && (found->access != access || found->remote != remote))
		ret = dlbuf_fail(-EBUSY, "the dma-buf is registered, with access %u and remote access "
				 "%u", found->access, found->remote);
	else if (found)
		found->owners_++;
	pthread_mutex_unlock(&v->lock);
	if (!found)
		ret = dlbuf_verbs_new_(v, fd, memfd, &info, access, remote, &found);
	pthread_mutex_unlock(&v->adding);
	if (!ret)
		*buffer = found;
	return ret;
}

/*
 * Ends the use that one dlbuf_verbs_add() began. The last one deregisters the buffer: now, or
 * when the last work request on it is complete. buffer is taken; NULL does nothing. May block
 * while the driver unpins, so a lease must not call it, see dlbuf_frame.release: let the lease
 * tell a thread of yours to do it. Do not call it after dlbuf_verbs_destroy(), nor during it:
 * dlbuf_verbs_destroy() fires leases, and a thread that a lease wakes must not call this then.
 */
static inline void dlbuf_verbs_remove(struct dlbuf_verbs_buffer *buffer)
{
	DLBUF_VERBS_NOT_CANCELLED_;
	struct dlbuf_verbs *v;
	int last;

	if (!buffer || !buffer->verbs_->pd)
		return;
	v = buffer->verbs_;
	pthread_mutex_lock(&v->lock);
	buffer->owners_--;
	last = dlbuf_verbs_unlink_(buffer);
	pthread_mutex_unlock(&v->lock);
	if (last)
		dlbuf_verbs_free_(buffer);
}

static inline int dlbuf_verbs_info_(const struct dlbuf_verbs *v,
				    const DLManagedTensorVersioned *tensor,
				    struct dlbuf_tensor_info *info)
{
	int ret = dlbuf_verbs_check_(v);

	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	if (!ret)
		ret = dlbuf_tensor_get_info(tensor, info);
	if (!ret && (info->path == DLBUF_PATH_COPY || info->path == DLBUF_PATH_BRIDGE))
		ret = dlbuf_fail(-EOPNOTSUPP, "the tensor is a copy: its bytes are not those of the "
				 "dma-buf");
	return ret;
}

/* Under the lock: the buffer of a tensor, if it has an owner. Otherwise fails. */
static inline struct dlbuf_verbs_buffer *dlbuf_verbs_owned_(const struct dlbuf_verbs *v,
							    const struct dlbuf_tensor_info *info)
{
	struct dlbuf_verbs_buffer *b = dlbuf_verbs_find_(v, info->dev, info->ino);

	if (b && b->owners_)
		return b;
	dlbuf_fail(-EINVAL, "the dma-buf of the tensor is not registered: dlbuf_verbs_add()");
	return NULL;
}

/* The place of a tensor, for a peer that reads or writes it by RDMA. In host byte order. */
struct dlbuf_verbs_key {
	/*
	 * ibv_send_wr.wr.rdma.remote_addr of the tensor's lowest byte: with negative strides not
	 * of element [0, 0, ...].
	 */
	uint64_t addr;
	uint64_t bytes;		/* from there to the end of its highest element, gaps included */
	uint32_t rkey;		/* ibv_send_wr.wr.rdma.rkey; of the whole dma-buf */
	uint32_t reserved;	/* 0 */
};

/*
 * Describes a tensor for a peer that may read or write it, by access. The key is that of the
 * whole dma-buf: give a peer a dma-buf of its own for what only this peer may see. It is valid
 * until the buffer is deregistered: see dlbuf_verbs_remove(). It has no shape: the peer needs the
 * strides too if the tensor has gaps, and one RDMA WRITE for each run.
 *
 * tensor is borrowed, and may be on any device. Does not block.
 * -EINVAL      an argument is NULL, bad access, not a tensor of dlbuf, or its dma-buf is not
 *              registered
 * -EACCES      the buffer was not registered for this remote access; or the tensor is read-only
 *              and a peer with the key could write it
 * -EOPNOTSUPP  the tensor is a copy of the library
 */
static inline int dlbuf_verbs_remote(struct dlbuf_verbs *v, const DLManagedTensorVersioned *tensor,
				     uint32_t access, struct dlbuf_verbs_key *key)
{
	struct dlbuf_verbs_buffer *b;
	struct dlbuf_tensor_info info;
	int ret;

	if (!tensor || !key || !access || access & ~(uint32_t)DLBUF_RW)
		return dlbuf_fail(-EINVAL, "tensor or key is NULL, or access is not READ, WRITE or "
				  "RW");
	ret = dlbuf_verbs_info_(v, tensor, &info);
	if (ret)
		return ret;
	pthread_mutex_lock(&v->lock);
	b = dlbuf_verbs_owned_(v, &info);
	if (!b) {
		ret = -EINVAL;
	} else if (access & ~b->remote) {
		ret = dlbuf_fail(-EACCES, "the dma-buf was registered with remote access %u", b->remote);
	} else if (b->remote & DLBUF_WRITE && !(info.access & DLBUF_WRITE)) {
		ret = dlbuf_fail(-EACCES, "the tensor is read-only, and whoever has the key of its "
				 "dma-buf can write it");
	} else {
		memset(key, 0, sizeof(*key));
		key->addr = b->addr + info.first;
		key->bytes = info.end - info.first;
		key->rkey = b->mr->rkey;
	}
	pthread_mutex_unlock(&v->lock);
	return ret;
}

/* Drops the work of a buffer. */
static inline void dlbuf_verbs_work_ended_(struct dlbuf_verbs_buffer *b)
{
	struct dlbuf_verbs *v = b->verbs_;
	int last;

	/* A child whose lease called fork(). */
	if (!v->pd)
		return;
	pthread_mutex_lock(&v->lock);
	b->works_--;
	last = dlbuf_verbs_unlink_(b);
	pthread_mutex_unlock(&v->lock);
	if (last)
		dlbuf_verbs_free_(b);
}

/*
 * Begins the access of one work request: makes a share of the tensor, which holds its lease,
 * and acquires it. dlbuf_verbs_end() releases and deletes the share.
 *
 * access is DLBUF_READ for a buffer that is sent, or that a peer may read, and DLBUF_WRITE for
 * one that receives, that your RDMA READ fills, or that a peer may write. tensor is borrowed and
 * must be on a CPU device, because a network card waits for no stream of a GPU: use
 * dlbuf_tensor_import(). opts and blocking as for dlbuf_acquire().
 *
 * Use *id as wr_id of a signalled request (IBV_SEND_SIGNALED). If only the peer acts (RDMA WRITE
 * into the tensor), no request here has the id: keep it, and end it when the peer says that it is
 * done, for example by an immediate number. One id is enough for several tensors of one frame in
 * one dma-buf, for example the two planes of NV12. For a further dma-buf of the request, or a
 * further frame, which has a lease of its own, begin another id, and end both at its completion.
 * After a failure *id is 0, which is no id.
 * -EINVAL      an argument is NULL, or the tensor's dma-buf is not registered
 * -EACCES      the buffer was not registered for this access
 * -EOPNOTSUPP  the tensor is a copy of the library, or not on a CPU device
 * and the errors of dlbuf_acquire().
 */
static inline int dlbuf_verbs_begin(struct dlbuf_verbs *v, const DLManagedTensorVersioned *tensor,
				    uint32_t access, const struct dlbuf_acquire_opts *opts,
				    uint64_t *id)
{
	DLBUF_VERBS_NOT_CANCELLED_;
	struct dlbuf_verbs_buffer *b;
	struct dlbuf_verbs_work_ *work;
	struct dlbuf_tensor_info info;
	int ret;

	if (id)
		*id = 0;
	if (!tensor || !id)
		return dlbuf_fail(-EINVAL, "tensor or id is NULL");
	ret = dlbuf_verbs_info_(v, tensor, &info);
	if (ret)
		return ret;
	pthread_mutex_lock(&v->lock);
	b = dlbuf_verbs_owned_(v, &info);
	if (!b)
		ret = -EINVAL;
	else if (access & ~b->access & DLBUF_RW)
		ret = dlbuf_fail(-EACCES, "the dma-buf was registered with access %u", b->access);
	else
		b->works_++;
	pthread_mutex_unlock(&v->lock);
	if (ret)
		return ret;
	work = (struct dlbuf_verbs_work_ *)calloc(1, sizeof(*work));
	if (!work)
		ret = dlbuf_fail(-ENOMEM, "no memory");
	else if (tensor->dl_tensor.device.device_type != kDLCPU)
		ret = dlbuf_fail(-EOPNOTSUPP, "the tensor is not on a CPU device, and a network card "
				 "waits for no stream: dlbuf_tensor_import()");
	else
		ret = dlbuf_tensor_share(tensor, NULL, &work->tensor);
	if (!ret) {
		ret = dlbuf_acquire(work->tensor, access, NULL, opts);
		if (ret)
			work->tensor->deleter(work->tensor);
	}
	if (ret) {
		free(work);
		dlbuf_verbs_work_ended_(b);
		return ret;
	}
	work->buffer = b;
	work->access = access;
	pthread_mutex_lock(&v->lock);
	*id = work->id = ++v->last | DLBUF_VERBS_ID;
	work->next = v->works;
	v->works = work;
	pthread_mutex_unlock(&v->lock);
	return 0;
}

/* Under the lock: the place in the list of the work with this id, or of its end. */
static inline struct dlbuf_verbs_work_ **dlbuf_verbs_work_at_(struct dlbuf_verbs *v, uint64_t id)
{
	struct dlbuf_verbs_work_ **at = &v->works;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	if (!*at)
		dlbuf_fail(-EINVAL, "no access has the id 0x%llx: it has ended, or it is not of "
			   "dlbuf_verbs_begin()", (unsigned long long)id);
	return at;
}

/*
 * Fills in the ibv_sge of a tensor: one for each run of bytes without a gap, in the order of the
 * elements. A row-major tensor without gaps is one run; a picture with padded rows has one for each
 * row. The peer receives the bytes without the gaps; by RDMA WRITE and READ they go to and come
 * from one range there.
 *
 * id is of dlbuf_verbs_begin(), for this tensor or for another one of the same frame: its
 * region stays until dlbuf_verbs_end(), also after dlbuf_verbs_remove(). An id of DLBUF_READ must
 * not be posted for receiving, which nothing here can see. tensor is borrowed, and may be on any
 * device.
 *
 * *nsge is the room of sges. sges may be NULL if *nsge is 0. *nsge is set to the number of runs,
 * on success and with -ENOSPC; 0 for a tensor without elements. A queue pair limits that of a
 * request (ibv_qp_cap.max_send_sge), and RDMA the bytes. Too many runs: several requests with
 * parts of sges. Too many bytes (-EOPNOTSUPP, sges is not filled in): views
 * (dlbuf_tensor_share()). Does not block.
 *
 * Several requests may have one id if they complete in the order in which they are posted: in
 * one queue of one queue pair, and not in a shared receive queue. Only the last request has the
 * id as wr_id, the others one of your own, because the first completion of an id ends it.
 * dlbuf_verbs_end() says what to do if only the first ones can be posted.
 * -EINVAL      an argument is NULL or not a tensor of dlbuf, id is not of dlbuf_verbs_begin() or
 *              has ended, or it is of another dma-buf
 * -EACCES      the tensor does not allow the id's access
 * -ENOSPC      the tensor has more runs than there is room for. The error text has the dimension
 *              that ends a run
 * -EOPNOTSUPP  the tensor is a copy of the library; or its runs together have more bytes than a
 *              work request may have on the device, 2^31 - 1 at most. The error text has the limit
 */
static inline int dlbuf_verbs_sge(struct dlbuf_verbs *v, uint64_t id,
				  const DLManagedTensorVersioned *tensor, struct ibv_sge *sges,
				  uint32_t *nsge)
{
	const DLTensor *t;
	const struct dlbuf_verbs_work_ *work;
	struct dlbuf_tensor_info info;
	int64_t at[DLBUF_MAX_NDIM], steps[DLBUF_MAX_NDIM], offset = 0, size;
	uint64_t bytes, runs = 1;
	uint64_t first = 0;
	uint32_t n, lkey = 0;
	int32_t i, outer;
	int ret;

	if (!tensor || !nsge || (!sges && *nsge))
		return dlbuf_fail(-EINVAL, "tensor, sges or nsge is NULL");
	ret = dlbuf_verbs_info_(v, tensor, &info);
	if (ret)
		return ret;
	pthread_mutex_lock(&v->lock);
	work = *dlbuf_verbs_work_at_(v, id);
	if (!work)
		ret = -EINVAL;
	else if (work->buffer->dev_ != info.dev || work->buffer->ino_ != info.ino)
		ret = dlbuf_fail(-EINVAL, "id 0x%llx is of another dma-buf than the tensor",
				 (unsigned long long)id);
	else if (work->access & ~info.access)
		ret = dlbuf_fail(-EACCES, "the tensor does not allow the access of id 0x%llx, %u",
				 (unsigned long long)id, work->access);
	if (!ret) {
		lkey = work->buffer->mr->lkey;
		first = work->buffer->addr + info.first;
	}
	pthread_mutex_unlock(&v->lock);
	if (ret)
		return ret;
	t = &tensor->dl_tensor;
	/* dlbuf's tensors have elements of whole bytes. */
	size = (int64_t)t->dtype.bits * t->dtype.lanes / 8;
	bytes = (uint64_t)size;
	for (i = 0; i < t->ndim; i++) {
		if (!t->shape[i]) {
			*nsge = 0;
			return 0;
		}
	}
	for (i = 0; i < t->ndim; i++) {
		/* The stride of a dimension of one element may be any number. */
		steps[i] = t->shape[i] == 1 ? 0 : t->strides[i] * size;
		at[i] = 0;
	}
	for (i = t->ndim; i-- && (t->shape[i] == 1 || steps[i] == (int64_t)bytes);)
		bytes *= (uint64_t)t->shape[i];
	outer = i + 1;
	for (i = 0; i < outer; i++)
		runs *= (uint64_t)t->shape[i];
	for (i = 0; i < outer; i++)
		if (steps[i] < 0)
			offset -= (t->shape[i] - 1) * steps[i];
	/* The library limits the bytes of a tensor to 2^63 - 1, also if elements share bytes. */
	if (runs * bytes > v->message)
		return dlbuf_fail(-EOPNOTSUPP, "the tensor has %llu bytes, and a work request at most "
				  "%llu", (unsigned long long)(runs * bytes),
				  (unsigned long long)v->message);
	if (runs > *nsge && !outer)
		ret = dlbuf_fail(-ENOSPC, "the tensor has 1 run of %llu bytes, and there is room for no "
				 "ibv_sge", (unsigned long long)bytes);
	else if (runs > *nsge)
		ret = dlbuf_fail(-ENOSPC, "the tensor has %llu runs of %llu bytes, because of the "
				 "stride of dimension %d, and there is room for %u ibv_sge",
				 (unsigned long long)runs, (unsigned long long)bytes, (int)outer - 1,
				 *nsge);
	if (ret) {
		*nsge = (uint32_t)runs;
		return ret;
	}
	for (n = 0; n < runs; n++) {
		sges[n].addr = first + (uint64_t)offset;
		sges[n].length = (uint32_t)bytes;
		sges[n].lkey = lkey;
		for (i = outer; i--;) {
			offset += steps[i];
			if (++at[i] < t->shape[i])
				break;
			offset -= steps[i] * t->shape[i];
			at[i] = 0;
		}
	}
	*nsge = n;
	return 0;
}

static inline int dlbuf_verbs_finish_(struct dlbuf_verbs_work_ *work)
{
	int ret = dlbuf_release(work->tensor, NULL, NULL);

	work->tensor->deleter(work->tensor);
	dlbuf_verbs_work_ended_(work->buffer);
	free(work);
	return ret;
}

/*
 * Ends the access that dlbuf_verbs_begin() began: releases it, and drops its use of the lease.
 * Call it for the completion of the request, whatever its status: also those that a queue pair
 * flushes (IBV_WC_WR_FLUSH_ERR) have their wr_id.
 *
 * Without a completion end an id only when none of its requests can run any more. Otherwise the
 * lease fires, and a request sends or overwrites the next frame.
 *
 * If posting fails, the requests from bad_wr on are not posted, and those before it are. End the
 * ids of which no request is posted. If the first requests of an id are posted and its last one
 * is not, post the rest later under the same id; or post a signalled request of your own to this
 * queue and end the id at its completion; or destroy the queue pair as below. Before a queue
 * pair is connected (IBV_QPS_RTS), ibv_post_send() of rxe returns an error with *bad_wr NULL,
 * but keeps the request and runs it with a later one: destroy the queue pair before you end the
 * id.
 *
 * At the end of a queue pair destroy it and its shared receive queue, which outlives it and
 * keeps its requests. Completions from before may still come: poll the completion queue until it
 * is empty, then end the rest.
 *
 * If the shared receive queue serves other queue pairs, set this one to IBV_QPS_ERR first, and
 * wait for IBV_EVENT_QP_LAST_WQE_REACHED if the driver has it. A request that the queue pair had
 * taken may be lost: rxe never completes it. An id without a completion may be that, or be in
 * the queue, or in another queue pair: end it when the shared receive queue and all its queue
 * pairs are destroyed.
 *
 * The lease may be called on this thread. Blocks as dlbuf_release() does; and for the last work on
 * a buffer that was removed as dlbuf_verbs_remove() does.
 * -EINVAL  id is not of dlbuf_verbs_begin(), or its access has ended; nothing changes
 * -EIO     the kernel failed; the access has ended
 */
static inline int dlbuf_verbs_end(struct dlbuf_verbs *v, uint64_t id)
{
	DLBUF_VERBS_NOT_CANCELLED_;
	struct dlbuf_verbs_work_ *work, **at;
	int ret = dlbuf_verbs_check_(v);

	if (ret)
		return ret;
	pthread_mutex_lock(&v->lock);
	at = dlbuf_verbs_work_at_(v, id);
	work = *at;
	if (work)
		*at = work->next;
	pthread_mutex_unlock(&v->lock);
	return work ? dlbuf_verbs_finish_(work) : -EINVAL;
}

/*
 * Ends all accesses, deregisters all buffers and frees verbs (taken; NULL does nothing). First
 * destroy the queue pairs and shared receive queues that use the buffers, because a request that
 * still runs would read or write memory whose lease has fired. No other call may use v from then
 * on. Blocks as dlbuf_verbs_remove() does.
 */
static inline void dlbuf_verbs_destroy(struct dlbuf_verbs *v)
{
	DLBUF_VERBS_NOT_CANCELLED_;
	struct dlbuf_verbs_buffer *b;
	struct dlbuf_verbs_work_ *work;

	if (!v || !v->pd)
		return;
	while ((work = v->works)) {
		v->works = work->next;
		dlbuf_verbs_finish_(work);
	}
	while ((b = v->buffers)) {
		v->buffers = b->next_;
		dlbuf_verbs_free_(b);
	}
	pthread_mutex_destroy(&v->lock);
	pthread_mutex_destroy(&v->adding);
	munmap(v, sizeof(*v));
}

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_INTEROP_VERBS_H */
