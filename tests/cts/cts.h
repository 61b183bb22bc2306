/* SPDX-License-Identifier: MIT */
/*
 * The conformance suite: the same cases for every backend. A backend is
 * supported when it passes; nothing else defines it.
 *
 *	cts --device vulkan:0 [--paths host,copy] [--sync fence,fence] [--computes no]
 *	    [--more 4096] [CASE...]
 *
 * With --paths the device has these paths and no others: each of their cases has to
 * pass. Without it, cases of paths that the device does not have are skipped. --sync
 * says how the device acquires and releases. Cases skip features that a device lacks,
 * so without --sync a lost fence could go unseen.
 *
 * Backends differ only in the accesses of the device itself: struct access.
 */
#ifndef CTS_H
#define CTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dlbuf/dlbuf.h>

#include "../tools/dmabuf-test/access/access.h"
#include "common.h"
#include "ktap.h"

/* Each backend of this build has one: tools/dmabuf-test/access/NAME.c, tests/cts/access/NAME.c. */
#define BACKEND(name) extern const struct access access_##name;
#define BACKEND_OFF(name)
#include "generated/backends.h"
#undef BACKEND
#undef BACKEND_OFF

/* Fails and ends the case: for conditions that the rest of the case needs. */
#define FATAL(...)                                                           \
	do {                                                                 \
		ktap_check(__FILE__, __LINE__, false, __VA_ARGS__);          \
		ktap_leave();                                                \
	} while (0)

/* A name made by a format, until the next call. */
const char *cts_name(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));

/* The device under test, as --device named it. */
extern const char *cts_device;
extern const struct access *cts_access;

/* Bits of enum dlbuf_path: those of --paths, or 0. */
extern uint32_t cts_paths;

/* The kinds that --sync named, or 0. */
extern enum dlbuf_sync cts_sync_in, cts_sync_out;

/*
 * Whether the device computes. --computes no: it is a driver over a stub of the kernel, and
 * cts_stand_in() has the CPU move the bytes of its copies; those of frames are not compared.
 */
extern bool cts_computes;
/* --more: bytes that each dma-buf has beside those of a case, which the device reads ahead. */
extern uint32_t cts_more;
void cts_stand_in(void);

/*
 * prepare.c: prepares a frame in the first dma-buf into the second page of another one, of 8192
 * bytes each. 1: the device has no preparation.
 */
int cts_prepare_small(struct dlbuf_device *dev, int fd, int out_fd);

/* Opens it; a failure fails the case. */
struct dlbuf_device *cts_open(void);

/* For a device like it while it is open, perhaps in another process. */
const char *cts_second_device(void);
struct dlbuf_device *cts_open_second(void);

/*
 * For an exporter that the system lacks. In the lab, which has all exporters,
 * the case fails; elsewhere it is skipped.
 */
#define ABSENT(...)                                                          \
	do {                                                                 \
		if (getenv("DLBUF_LAB"))                                     \
			FATAL(__VA_ARGS__);                                  \
		SKIP(__VA_ARGS__);                                           \
	} while (0)

/* A new dma-buf; skips the case where the device cannot take such a one. */
int cts_alloc(const char *exporter, uint64_t bytes);
/*
 * Skips the case if the exporter is absent. For a case that forks before it allocates: a case
 * that ends after the fork leaves a process whose calls then fail.
 */
void cts_need(const char *exporter);
/* A dma-buf of heap:system, whose fd is for reading only. */
int cts_alloc_read_only(uint64_t bytes);

/*
 * Skips the case where the device takes a udmabuf only if it knows the memfd:
 * one that comes from another process, or is made of several.
 */
void cts_need_any(void);

/* Skips the case where the C library cannot cancel a thread. */
void cts_need_cancel(void);

/* After each case: frees the buffers that cts_alloc() has kept for the device. */
void cts_tidy(void);

/* Closes fd and gives its number to a new dma-buf. */
int cts_reuse(int fd, const char *exporter, uint64_t bytes);

/* A 1-d byte tensor over the whole dma-buf. A failure fails the case. */
DLManagedTensorVersioned *cts_import(struct dlbuf_device *dev, int fd,
				     uint64_t bytes);

/* Deletes a tensor; NULL is nothing. */
void cts_delete(DLManagedTensorVersioned *t);

/* The dma-buf's bytes as the kernel maps them, without dlbuf. */
void cts_peek(int fd, uint64_t offset, void *dst, size_t bytes);
void cts_poke(int fd, uint64_t offset, const void *src, size_t bytes);

/* The same without the bracket, which would wait for fences. */
void cts_peek_raw(int fd, uint64_t offset, void *dst, size_t bytes);
void cts_poke_raw(int fd, uint64_t offset, const void *src, size_t bytes);

/* Bytes that differ at every offset and for every seed. */
void cts_pattern(void *dst, size_t bytes, uint32_t seed);

/*
 * A layout of ndim dimensions (0 to DLBUF_MAX_NDIM), of up to 5 of which have 2 or 3 elements,
 * inside the first 16384 bytes: in C order, with gaps, from the end, transposed, with elements
 * that share bytes, or none. The types change with both numbers.
 */
#define CTS_FORMS 6
void cts_layout(unsigned int ndim, unsigned int form, DLTensor *l,
		int64_t dims[2 * DLBUF_MAX_NDIM]);
/* The tensor is that of this layout. */
void cts_check_layout(const DLManagedTensorVersioned *t, const DLTensor *l);

/* Acquire, access by the device, release; a failure fails the case. */
void cts_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
	      size_t bytes);
void cts_write(DLManagedTensorVersioned *t, uint64_t offset, const void *src,
	       size_t bytes);

/* Releases, and waits for the end of the work by the fd that release gives, if any. */
void cts_release(DLManagedTensorVersioned *t);

/*
 * Before dlbuf_prepare_fastest(): only the CPU and the device under test are found. Other drivers
 * of the guest compile for minutes there.
 */
void cts_few_drivers(void);

/* Waits until the library's threads have nothing left to do: devices close there. */
void cts_settle(void);

struct dlbuf_device_stats cts_stats(struct dlbuf_device *dev);

/* Open fds of this process, without those that a driver keeps. */
unsigned int cts_count_fds(void);
/* The driver may open files at any time: only dma-bufs, fences and memfds count. */
extern bool cts_driver_keeps;

/*
 * Waits until this many fds are open: the library's event thread closes its own
 * when it ends, after its last callback or device.
 */
void cts_until_fds(unsigned int fds);

/*
 * Until the thread waits in ppoll(), or *over is set. Both are atomic, and *tid becomes
 * the thread's.
 */
void cts_until_polls(const pid_t *tid, const bool *over);

/* The same, or it sleeps for another reason: drivers wait in their own ways. */
void cts_until_asleep(const pid_t *tid, const bool *over);

/* Until all threads of the process but this one sleep, or *over, atomic, is set. */
void cts_until_idle(const bool *over);

/* ---- system calls of a function, by tracing a child that runs it */

struct cts_syscall {
	long nr;
	uint64_t args[3];
	uint64_t value;		/* u64 behind args[2] of an ioctl, else 0 */
};

/*
 * Runs before() and then traced(), both in a child; records the system calls of
 * traced(). Returns the number of calls, at most max are stored; -1 when the
 * system cannot trace.
 */
int cts_trace(void (*before)(void *), void (*traced)(void *), void *arg,
	      struct cts_syscall *calls, int max);
/* traced() makes these six DMA_BUF_IOCTL_SYNC; skips the case if tracing is impossible. */
void cts_check_brackets(void (*before)(void *), void (*traced)(void *), void *arg,
			const uint64_t want[6]);

/* ---- real fences, made by vgem */

struct cts_fence {
	int drm;		/* the vgem node */
	uint32_t fence;
	int sync_file;		/* a fence of it, unsignalled */
};

/* Whether the kernel has no DMA_BUF_IOCTL_EXPORT_SYNC_FILE. */
bool cts_no_sync_file(int fd);

/* Skips the case if there is no vgem, or if the kernel makes no sync_files. */
void cts_fence_create(struct cts_fence *f);
/* Fails, and so runs the case again, if it has signalled by itself. On any thread. */
void cts_fence_signal(struct cts_fence *f);
void cts_fence_destroy(struct cts_fence *f);
#define AUTO_FENCE __attribute__((cleanup(cts_fence_destroy)))

/* An fd of the lab's module, new; skips the case if it is absent. */
int cts_lab(void);

/* Puts a fence on the dma-buf as another process does it; ioctl()'s result. */
int cts_import_fence(int fd, uint32_t access, int fence);

/* Filters the system calls of this process from now on; skips the case if that is impossible. */
struct sock_filter;
void cts_filter(struct sock_filter *filter, unsigned short n);

/* ---- the files of cases */

void cts_cases_import(void);
void cts_cases_input(void);
void cts_cases_cache(void);
void cts_cases_tensor(void);
void cts_cases_sync(void);
void cts_cases_failed(void);
void cts_cases_start(void);
void cts_cases_together(void);
void cts_cases_frame(void);
void cts_cases_prepare(void);
void cts_cases_gles(void);
void cts_cases_driver(void);
void cts_cases_tiled(void);
void cts_cases_lease(void);
void cts_cases_socket(void);
void cts_cases_alloc(void);
void cts_cases_pool(void);
void cts_cases_path(void);
void cts_cases_fork(void);
void cts_cases_fault(void);
void cts_cases_words(void);

#endif /* CTS_H */
