/* SPDX-License-Identifier: MIT */
/*
 * Memory that fuzz targets import: memfds in place of dma-bufs (memfds.h), whose bytes are
 * known, so that a tensor is compared with its layout element by element.
 */
#ifndef DLBUF_TESTS_FUZZ_MEMORY_H
#define DLBUF_TESTS_FUZZ_MEMORY_H

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#include "fuzz.h"
#include "memfds.h"
#include "system/event.h"

#define MEMORY_BYTES 65536u
#define NMEMORY 4
#define NFDS 128		/* of this process, at most */
#define MOST_ELEMENTS 400	/* that are touched of a tensor */

static struct {
	struct dlbuf_device *cpu;
	int fds[NMEMORY];
	int ro[NMEMORY];	/* opened for reading */
	uint8_t *bytes[NMEMORY];
	unsigned int fired;	/* atomic: leases */
} memory;

static inline uint8_t known(uint32_t buffer, uint64_t offset)
{
	uint64_t n = (offset + 1) * 0x9e3779b97f4a7c15u + buffer * 77;

	return n >> 32 ^ n >> 51;
}

static inline void event_over(void *data)
{
	(void)data;
}

/* Once, before anything else. */
static inline void memory_begin(void)
{
	int event_fd;

	if (memory.cpu)
		return;
	memfds_begin();
	CHECK(!dlbuf_device_open("cpu", NULL, &memory.cpu));
	for (uint32_t i = 0; i < NMEMORY; i++) {
		char path[40];

		memory.fds[i] = memfd_create("good", MFD_CLOEXEC);
		CHECK(memory.fds[i] >= 0 && !ftruncate(memory.fds[i], MEMORY_BYTES));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", memory.fds[i]);
		memory.ro[i] = open(path, O_RDONLY | O_CLOEXEC);
		CHECK(memory.ro[i] >= 0);
		memory.bytes[i] = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
				       memory.fds[i], 0);
		CHECK(memory.bytes[i] != MAP_FAILED);
		for (uint64_t k = 0; k < MEMORY_BYTES; k++)
			memory.bytes[i][k] = known(i, k);
	}
	/* The event thread has fds of its own, as long as there is a device. */
	event_fd = eventfd(1, EFD_CLOEXEC);
	CHECK(!event_add(event_fd, event_over, NULL));
	close(event_fd);
	while (event_pending())
		sched_yield();
}

/* The buffer of that file, or -1. */
static inline int memory_of(int fd)
{
	struct dlbuf_buffer_info a = { .size = sizeof(a) }, b = { .size = sizeof(b) };

	if (dlbuf_buffer_query(fd, &a))
		return -1;
	for (int i = 0; i < NMEMORY; i++)
		if (!dlbuf_buffer_query(memory.fds[i], &b) && a.ino == b.ino && a.dev == b.dev)
			return i;
	return -1;
}

static inline void fire(void *data)
{
	(void)data;
	__atomic_add_fetch(&memory.fired, 1, __ATOMIC_SEQ_CST);
}

/* The number of open fds below end. */
static inline unsigned int count_open(unsigned int end)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < end; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

/* Checks that an input has left nothing; before, all its leases fire and its fences signal. */
static inline unsigned int memory_settle(void)
{
	while (event_pending() || memfds_pending())
		sched_yield();
	dlbuf_device_trim(memory.cpu, 0);
	return count_open(NFDS);
}

static inline bool memory_fence_is_pending(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return !poll(&p, 1, 0);
}

static inline bool memory_is_fence(int fd)
{
	char path[40], name[40] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "[eventfd]");
}

static inline void memory_signal(int fd)
{
	uint64_t one = 1;

	CHECK(write(fd, &one, sizeof(one)) == sizeof(one));
}

/* ---------------------------------------------------------------- elements */

/* The number of an element, by the layout's own strides or by C order. */
static inline uint64_t element_of(const DLTensor *l, uint64_t k)
{
	uint64_t at = 0, step = 1;

	for (int i = l->ndim; i--; k /= l->shape[i]) {
		at += k % l->shape[i] * (l->strides ? (uint64_t)l->strides[i] : step);
		step *= l->shape[i];
	}
	return at;
}

/*
 * The tensor is as `want` says, which counts from the buffer's first byte: read through it and
 * through the buffer each element is the same, and so it is when it was written.
 */
static inline void touch_bytes(DLManagedTensorVersioned *t, const DLTensor *want, uint32_t buffer,
			       uint32_t access)
{
	const DLTensor *l = &t->dl_tensor;
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	uint64_t count = 1, item = want->dtype.bits * want->dtype.lanes / 8, first, end, step;
	uint8_t saved[sizeof(uint64_t)];

	CHECK(l->ndim == want->ndim && l->dtype.code == want->dtype.code &&
	      l->dtype.bits == want->dtype.bits && l->dtype.lanes == want->dtype.lanes);
	for (int i = 0; i < l->ndim; i++) {
		CHECK(l->shape[i] == want->shape[i]);
		CHECK(!want->strides || l->strides[i] == want->strides[i]);
		count *= l->shape[i];
	}
	CHECK(!dlbuf_layout_extent(want, &first, &end));
	CHECK(!dlbuf_tensor_get_info(t, &info));
	CHECK(info.first == first && info.end == end && info.bytes == MEMORY_BYTES);
	CHECK(info.access == access && memory_of(info.fd) == (int)buffer);
	CHECK(!!(t->flags & DLPACK_FLAG_BITMASK_READ_ONLY) == !(access & DLBUF_WRITE));
	CHECK(!(t->flags & DLPACK_FLAG_BITMASK_IS_COPIED));
	CHECK(!l->byte_offset && l->device.device_type == kDLCPU && !l->data == !count);
	step = 1 + count / MOST_ELEMENTS;
	for (uint64_t k = 0; k < count; k += step) {
		uint64_t n = item < sizeof(saved) ? item : sizeof(saved);
		/* Its last bytes, of one that is large. */
		uint64_t at = element_of(want, k) * item + item - n;
		uint8_t *theirs = (uint8_t *)((uintptr_t)l->data + at), *own;

		at += want->byte_offset;
		CHECK(at < MEMORY_BYTES && n <= MEMORY_BYTES - at);
		own = memory.bytes[buffer] + at;
		CHECK(!memcmp(own, theirs, n));
		if (!(access & DLBUF_WRITE))
			continue;
		memcpy(saved, own, n);
		for (uint64_t b = 0; b < n; b++)
			theirs[b] ^= 0xff;
		for (uint64_t b = 0; b < n; b++)
			CHECK(own[b] == (uint8_t)~saved[b]);
		memcpy(own, saved, n);
	}
}

/* Between an acquire and a release. */
static inline void touch(DLManagedTensorVersioned *t, const DLTensor *want, uint32_t buffer,
			 uint32_t access)
{
	if (!(access & DLBUF_WRITE))
		CHECK(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL) == -EACCES);
	CHECK(!dlbuf_acquire(t, access, NULL, NULL));
	touch_bytes(t, want, buffer, access);
	CHECK(!dlbuf_release(t, NULL, NULL));
}

/* ---------------------------------------------------------------- frames */

/* The access of a tensor that is made with this access, or with all that the fd allows. */
static inline uint32_t access_of(int fd, uint32_t asked)
{
	return asked == DLBUF_READ || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY ? DLBUF_READ :
										     DLBUF_RW;
}

/* The layouts of an import of the frame; false: it has to be refused. */
static inline bool frame_is_good(const struct dlbuf_frame *frame,
				 const struct dlbuf_import_opts *o,
				 struct dlbuf_frame_layout l[DLBUF_MAX_PLANES], uint32_t *n)
{
	struct dlbuf_frame f = *frame;
	uint64_t first, end;

	/* STACKED needs one dma-buf; the numbers of its fds do not matter. */
	for (uint32_t i = 0; o->view == DLBUF_VIEW_STACKED && i < f.nplanes && i < DLBUF_MAX_PLANES;
	     i++)
		for (uint32_t k = i; k--;)
			if (memory_of(f.planes[k].fd) == memory_of(f.planes[i].fd) &&
			    access_of(f.planes[k].fd, 0) == access_of(f.planes[i].fd, 0))
				f.planes[i].fd = f.planes[k].fd;
	if (dlbuf_frame_layouts(&f, o, l, n))
		return false;
	for (uint32_t i = 0; i < *n; i++)
		if (memory_of(l[i].fd) < 0 || dlbuf_layout_extent(&l[i].layout, &first, &end) ||
		    end > MEMORY_BYTES ||
		    (o->access & DLBUF_WRITE && access_of(l[i].fd, 0) == DLBUF_READ))
			return false;
	return true;
}

/* The tensors of such a frame. */
static inline void touch_frame(DLManagedTensorVersioned *t[], const struct dlbuf_frame_layout l[],
			       uint32_t n, uint32_t asked)
{
	for (uint32_t i = 0; i < n; i++)
		touch(t[i], &l[i].layout, memory_of(l[i].fd), access_of(l[i].fd, asked));
	if (n > 1) {
		CHECK(!dlbuf_acquire_all(t, n, DLBUF_READ, NULL, NULL));
		CHECK(!dlbuf_release_all(t, n, NULL, NULL));
	}
}

#endif /* DLBUF_TESTS_FUZZ_MEMORY_H */
