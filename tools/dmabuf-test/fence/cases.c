// SPDX-License-Identifier: MIT
/*
 * The cases. A reader waits for writers, and a writer for readers and writers.
 * In each state, poll() on the dma-buf, the sync_file that the kernel exports,
 * the one that dlbuf exports, and acquire must give the same result. Modelled
 * on igt's dmabuf_sync_file and vgem_basic.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "access/access.h"
#include "call.h"
#include "fence.h"
#include "tool.h"
#include "../../../tests/harness/lab_module.h"

#ifndef DMA_BUF_IOCTL_EXPORT_SYNC_FILE /* before 6.0 */
struct dma_buf_export_sync_file {
	__u32 flags;
	__s32 fd;
};
struct dma_buf_import_sync_file {
	__u32 flags;
	__s32 fd;
};
#define DMA_BUF_IOCTL_EXPORT_SYNC_FILE \
	_IOWR(DMA_BUF_BASE, 2, struct dma_buf_export_sync_file)
#define DMA_BUF_IOCTL_IMPORT_SYNC_FILE \
	_IOW(DMA_BUF_BASE, 3, struct dma_buf_import_sync_file)
#endif

#define BYTES 4096
#define MS 1000000ull

/* ---- results of a case */

__attribute__((format(printf, 2, 3)))
static void note(struct fence_run *r, const char *fmt, ...)
{
	char line[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	r->note(r->data, line);
}

__attribute__((format(printf, 3, 4)))
static bool expect(struct fence_run *r, bool held, const char *fmt, ...)
{
	char line[400];
	va_list ap;

	if (held)
		return true;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	r->failures++;
	r->note(r->data, line);
	return false;
}

/*
 * A call of dlbuf's, which returned ret and should have returned want; `sentence` is its
 * error text, of the thread that called.
 */
static bool returned_on(struct fence_run *r, const char *call, int ret,
			const char *sentence, int want)
{
	if (ret == want)
		return expect(r, !ret || sentence[0],
			      "%s: %s, without an error text", call,
			      strerror(-ret));
	if (!want)
		return expect(r, false, "%s: %s", call, sentence);
	return expect(r, false, "%s: %s, not %s", call,
		      ret ? strerror(-ret) : "0",
		      strerror(-want));
}

/* The same with this thread's error text. */
static bool returned(struct fence_run *r, const char *call, int ret, int want)
{
	return returned_on(r, call, ret, dlbuf_last_error(), want);
}

__attribute__((format(printf, 2, 3)))
static bool skip(struct fence_run *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->reason, sizeof(r->reason), fmt, ap);
	va_end(ap);
	r->skipped = true;
	return false;
}

static const char *who(uint32_t access)
{
	return access & DLBUF_WRITE ? "a writer" : "a reader";
}

static const char *state_name(bool pending)
{
	return pending ? "pending" : "signalled";
}

/* ---- the kernel's side, without dlbuf */

static bool polls(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) == 1 && p.revents & events;
}

static bool busy(const struct fence_run *r, uint32_t access)
{
	return !polls(r->buffer, access & DLBUF_WRITE ? POLLOUT : POLLIN);
}

/* A new sync_file, or -1 with errno. */
static int kernel_export(int fd, uint32_t access)
{
	struct dma_buf_export_sync_file export = { .flags = access };

	return ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export) ? -1 :
	       export.fd;
}

static int kernel_import(int fd, uint32_t access, int sync_file)
{
	struct dma_buf_import_sync_file import = {
		.flags = access,
		.fd = sync_file,
	};

	return ioctl(fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import);
}

/* ---- fences of our own */

static struct fence *new_fence(struct fence_run *r)
{
	struct fence *f = &r->fences[r->nfences];

	if (r->vgem.fd < 0) {
		skip(r, "%s", r->vgem.reason);
		return NULL;
	}
	*f = (struct fence){ .sync_file = -1 };
	return f;
}

/* A fence that is on no buffer of the case, as a sync_file. */
static struct fence *make_fence(struct fence_run *r)
{
	struct fence *f = new_fence(r);
	int fd, ret;

	if (!f)
		return NULL;
	if (!r->sync_files) {
		skip(r, "without DMA_BUF_IOCTL_EXPORT_SYNC_FILE vgem's fences "
		     "stay on vgem's buffers: --exporter vgem");
		return NULL;
	}
	ret = vgem_alloc(&r->vgem, BYTES, &f->handle, &fd);
	if (!expect(r, !ret, "a buffer of vgem's: %s", strerror(-ret)))
		return NULL;
	f->own = true;
	r->nfences++;
	ret = vgem_attach(&r->vgem, f->handle, DLBUF_WRITE, &f->id);
	if (expect(r, !ret, "a fence of vgem's: %s", strerror(-ret))) {
		f->sync_file = kernel_export(fd, DLBUF_READ);
		expect(r, f->sync_file >= 0, "DMA_BUF_IOCTL_EXPORT_SYNC_FILE "
		       "of vgem's buffer: %s", strerror(errno));
	}
	close(fd);
	return f->sync_file >= 0 ? f : NULL;
}

/* A fence that can fail, also on no buffer of the case. */
static struct fence *make_failing(struct fence_run *r)
{
	struct fence *f = &r->fences[r->nfences];

	if (r->lab < 0) {
		skip(r, "no fences that fail: /dev/" DLBUF_LAB_NODE ", which "
		     "makes them, is in dlbuf's lab, with --module");
		return NULL;
	}
	if (!r->sync_files) {
		skip(r, "without DMA_BUF_IOCTL_IMPORT_SYNC_FILE no buffer "
		     "gets a fence that fails");
		return NULL;
	}
	*f = (struct fence){ .sync_file = lab_fence(r->lab) };
	if (!expect(r, f->sync_file >= 0, "DLBUF_LAB_FENCE: %s",
		    strerror(errno)))
		return NULL;
	r->nfences++;
	return f;
}

static struct fence *import_fence(struct fence_run *r, uint32_t access,
				  struct fence *f)
{
	if (f && !expect(r, !kernel_import(r->buffer, access, f->sync_file),
			 "DMA_BUF_IOCTL_IMPORT_SYNC_FILE: %s", strerror(errno)))
		return NULL;
	return f;
}

static struct fence *put_failing(struct fence_run *r, uint32_t access)
{
	return import_fence(r, access, make_failing(r));
}

/*
 * Puts a fence on the buffer, as a reader's or a writer's. On its own buffers
 * vgem does it like any driver, if they are not busy; otherwise the fence is
 * imported.
 */
static struct fence *put_fence(struct fence_run *r, uint32_t access)
{
	struct fence *f;

	if (r->handle && r->vgem.fd >= 0) {
		f = new_fence(r);
		if (!vgem_attach(&r->vgem, r->handle, access, &f->id)) {
			f->handle = r->handle;
			r->nfences++;
			if (r->sync_files)
				f->sync_file = kernel_export(r->buffer,
							     DLBUF_WRITE);
			return f;
		}
	}
	return import_fence(r, access, make_fence(r));
}

/* Ends a fence of put_failing(): error 0 means success. */
static bool end_failing(struct fence_run *r, struct fence *f, int error)
{
	return expect(r, !lab_signal(r->lab, f->sync_file, error),
		      "DLBUF_LAB_SIGNAL: %s", strerror(errno));
}

static bool signal_fence(struct fence_run *r, struct fence *f)
{
	int ret;

	if (!f->handle)
		return end_failing(r, f, 0);
	ret = f->signalled ? 0 : vgem_signal(&r->vgem, f->id);
	f->signalled = true;
	return expect(r, !ret, ret == -ETIMEDOUT ?
		      "the fence expired: the machine is too slow" :
		      "vgem's signal: %s", strerror(-ret));
}

/* ---- all views of an access */

/* A buffer from another program may have fences, and the device may end its work later. */
static bool await_idle(struct fence_run *r)
{
	struct pollfd p = { .fd = r->buffer, .events = POLLOUT };

	return expect(r, poll(&p, 1, SOON / MS) == 1 && p.revents & POLLOUT,
		      "the dma-buf has been busy for %llu s with fences that "
		      "are not this tool's", SOON / SECOND);
}

/* A fence with an error has ended, too: poll() and the wait do not report the error. */
static void fence_ended(struct fence_run *r, const char *of, int fd, int want)
{
	int status = 0;

	expect(r, polls(fd, POLLIN), "%s is not readable by poll()", of);
	if (returned(r, "dlbuf_fence_status()",
		     dlbuf_fence_status(fd, &status), 0))
		expect(r, status == want, "%s has status %d, not %d", of,
		       status, want);
	returned(r, "dlbuf_fence_wait()", dlbuf_fence_wait(fd, 1), 0);
}

static void fence_is(struct fence_run *r, const char *of, int fd, bool pending)
{
	int status = -1;

	expect(r, polls(fd, POLLIN) != pending, "%s is %s by poll(), not %s",
	       of, state_name(!pending), state_name(pending));
	if (!returned(r, "dlbuf_fence_status()",
		      dlbuf_fence_status(fd, &status), 0))
		return;
	expect(r, status == !pending, "%s has status %d, not %d", of, status,
	       !pending);
	returned(r, "dlbuf_fence_wait() until now", dlbuf_fence_wait(fd, 1),
		 pending ? -ETIME : 0);
}

static void agree_exports(struct fence_run *r, uint32_t access, bool pending)
{
	int fd = -1, ret = dlbuf_fence_export(r->buffer, access, &fd);

	if (!r->sync_files) {
		returned(r, "dlbuf_fence_export()", ret, -EOPNOTSUPP);
		return;
	}
	if (returned(r, "dlbuf_fence_export()", ret, 0)) {
		fence_is(r, "what dlbuf_fence_export() gives", fd, pending);
		close(fd);
	}
	fd = kernel_export(r->buffer, access);
	if (expect(r, fd >= 0, "DMA_BUF_IOCTL_EXPORT_SYNC_FILE: %s",
		   strerror(errno))) {
		fence_is(r, "what the kernel exports", fd, pending);
		close(fd);
	}
}

/* The fd to poll before an acquire. */
static void agree_pending(struct fence_run *r, uint32_t access, bool pending)
{
	int fd = -1;

	if (!returned(r, "dlbuf_pending()", dlbuf_pending(r->t, access, &fd), 0))
		return;
	expect(r, (fd >= 0) == pending, "dlbuf_pending() gives %s to %s",
	       fd >= 0 ? "an fd" : "no fd", who(access));
	if (fd >= 0) {
		expect(r, !polls(fd, POLLIN), "dlbuf_pending() gives %s an fd that is "
		       "readable", who(access));
		close(fd);
	}
}

static void not_acquired(struct fence_run *r)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };

	if (returned(r, "dlbuf_tensor_get_info()",
		     dlbuf_tensor_get_info(r->t, &info), 0))
		expect(r, !info.acquired, "an acquire that failed left the "
		       "tensor acquired");
}

/* If the thread waits, an acquire with a deadline in the past shows it. */
static void agree_blocking(struct fence_run *r, uint32_t access, bool pending)
{
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	int ret = dlbuf_acquire(r->t, access, NULL, &past);

	returned(r, "dlbuf_acquire() until now", ret, pending ? -ETIME : 0);
	if (!ret)
		returned(r, "dlbuf_release()", dlbuf_release(r->t, NULL, NULL),
			 0);
	not_acquired(r);
}

/* If the device waits: the fence that it would wait for. */
static void agree_fence(struct fence_run *r, uint32_t access, bool pending)
{
	int fence = -1;

	if (!returned(r, "dlbuf_acquire_fence()",
		      dlbuf_acquire_fence(r->t, access, &fence), 0))
		return;
	expect(r, (fence >= 0) == pending, "dlbuf_acquire_fence() gives %s to "
	       "%s", fence >= 0 ? "a fence" : "no fence", who(access));
	if (fence >= 0) {
		fence_is(r, "what dlbuf_acquire_fence() gives", fence, true);
		close(fence);
	}
	returned(r, "dlbuf_release_fence()", dlbuf_release_fence(r->t, -1), 0);
}

static bool device_waits(const struct fence_run *r)
{
	return r->info.acquire == DLBUF_SYNC_FENCE && r->sync_files;
}

static void agree(struct fence_run *r, uint32_t access, bool pending)
{
	expect(r, busy(r, access) == pending, "poll() on the dma-buf says %s "
	       "to %s", pending ? "ready" : "busy", who(access));
	agree_exports(r, access, pending);
	agree_pending(r, access, pending);
	if (device_waits(r))
		agree_fence(r, access, pending);
	else
		agree_blocking(r, access, pending);
}

/* A read-only buffer has no writers. */
static void agree_both(struct fence_run *r, bool reader, bool writer)
{
	agree(r, DLBUF_READ, reader);
	if (r->access & DLBUF_WRITE)
		agree(r, DLBUF_WRITE, writer);
}

/* ---- the truth table */

static void state_case(struct fence_run *r, const struct fence_case *c)
{
	static const uint32_t kinds[] = { DLBUF_READ, DLBUF_WRITE };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (c->fences & kinds[i] &&
		    !(c->failed ? put_failing : put_fence)(r, kinds[i]))
			return;
	for (size_t i = 0, n = 0; i < ARRAY_SIZE(kinds); i++) {
		struct fence *f = &r->fences[n];

		if (!(c->fences & kinds[i]))
			continue;
		n++;
		if (c->signalled & kinds[i] && !signal_fence(r, f))
			return;
		if (!(c->failed & kinds[i]))
			continue;
		if (!end_failing(r, f, -EIO))
			return;
		fence_ended(r, "the fence that failed", f->sync_file, -EIO);
	}
	agree(r, c->access, c->pending);
}

/* An exported sync_file does not change: later fences are not in it. */
static void snapshot_case(struct fence_run *r, const struct fence_case *c)
{
	struct fence *first, *second;
	int idle = -1, one = -1;

	(void)c;
	if (!r->sync_files) {
		skip(r, "the kernel exports no sync_files");
		return;
	}
	if (!returned(r, "dlbuf_fence_export()",
		      dlbuf_fence_export(r->buffer, DLBUF_READ, &idle), 0))
		return;
	first = put_fence(r, DLBUF_WRITE);
	if (first && returned(r, "dlbuf_fence_export()",
			      dlbuf_fence_export(r->buffer, DLBUF_READ, &one),
			      0)) {
		second = put_fence(r, DLBUF_WRITE);
		fence_is(r, "what was exported before the fence", idle, false);
		fence_is(r, "what was exported with the fence", one, true);
		if (second && signal_fence(r, first)) {
			fence_is(r, "what was exported with the first fence",
				 one, false);
			agree(r, DLBUF_READ, true);
			if (signal_fence(r, second))
				agree(r, DLBUF_READ, false);
		}
	}
	close(idle);
	if (one >= 0)
		close(one);
}

static void merge_case(struct fence_run *r, const struct fence_case *c)
{
	struct fence *a = make_fence(r), *b = a ? make_fence(r) : NULL;
	int both = -1;

	(void)c;
	if (!b || !returned(r, "dlbuf_fence_merge()",
			    dlbuf_fence_merge(a->sync_file, b->sync_file,
					      &both), 0))
		return;
	fence_is(r, "the merged fence", both, true);
	/* On the buffer the fence is a reader's and a writer's again. */
	if (returned(r, "dlbuf_fence_import()",
		     dlbuf_fence_import(r->buffer, DLBUF_WRITE, both), 0) &&
	    signal_fence(r, a)) {
		fence_is(r, "the merged fence after the first", both, true);
		agree_both(r, true, true);
		if (signal_fence(r, b)) {
			fence_is(r, "the merged fence after both", both, false);
			agree_both(r, false, false);
		}
	}
	close(both);
}

/* Several fences on one buffer: all of them must signal. */
static void import_case(struct fence_run *r, const struct fence_case *c)
{
	struct fence *f[2];

	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		f[i] = make_fence(r);
		if (!f[i] || !returned(r, "dlbuf_fence_import()",
				dlbuf_fence_import(r->buffer, c->fences,
						   f[i]->sync_file), 0))
			return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		agree_both(r, c->fences == DLBUF_WRITE, true);
		if (!signal_fence(r, f[i]))
			return;
	}
	agree_both(r, false, false);
}

/* ---- waits of devices */

static void end_access(struct fence_run *r)
{
	int fence = -1;

	if (!returned(r, "dlbuf_release()", dlbuf_release(r->t, NULL, &fence),
		      0))
		return;
	returned(r, "the wait for what dlbuf_release() gave",
		 dlbuf_fence_wait(fence, now_ns() + SOON), 0);
	if (fence >= 0)
		close(fence);
}

/*
 * For an API by which dmabuf-test submits no work: the end of the access follows
 * the acquire on the queue, and the fence of dlbuf_release() signals then.
 */
static void end_waits_for(struct fence_run *r, struct fence *f,
			  const struct dlbuf_acquire_opts *opts)
{
	int end = -1;

	if (!returned(r, "dlbuf_acquire()",
		      dlbuf_acquire(r->t, DLBUF_READ, NULL, opts), 0) ||
	    !returned(r, "dlbuf_release()", dlbuf_release(r->t, NULL, &end), 0))
		return;
	expect(r, end >= 0 && dlbuf_fence_wait(end, now_ns() + 200 * MS) == -ETIME,
	       "the access was over before the fence had signalled");
	expect(r, !polls(f->sync_file, POLLIN),
	       "dlbuf_acquire() or dlbuf_release() waited itself");
	if (signal_fence(r, f) && end >= 0)
		returned(r, "the wait for what dlbuf_release() gave",
			 dlbuf_fence_wait(end, now_ns() + SOON), 0);
	if (end >= 0)
		close(end);
}

/* Whether the device has finished the job before the deadline. */
static bool done_until(const struct access *access, void *job, uint64_t until)
{
	bool done;

	while (!(done = access->job_done(job)) && now_ns() < until)
		poll(NULL, 0, 1);
	return done;
}

/*
 * An acquire that must follow f, on a device that waits: the call does not
 * wait, and later work on the queue does.
 */
static void queue_waits_for(struct fence_run *r, struct fence *f,
			    const struct dlbuf_acquire_opts *opts)
{
	const struct access *access = access_find(r->info.name);
	uint8_t byte;
	void *job;
	int ret;

	if (!access || !access->submit_read) {
		end_waits_for(r, f, opts);
		return;
	}
	if (!returned(r, "dlbuf_acquire()",
		      dlbuf_acquire(r->t, DLBUF_READ, NULL, opts), 0))
		return;
	ret = access->submit_read(r->t, 0, sizeof(byte), &job);
	if (expect(r, !ret, "a read on the device: %s", strerror(-ret))) {
		/* A queue that does not wait would have finished by then. */
		expect(r, !done_until(access, job, now_ns() + 200 * MS),
		       "work behind the acquire ran before the fence had signalled");
		expect(r, !polls(f->sync_file, POLLIN),
		       "dlbuf_acquire() waited itself");
	}
	if (!signal_fence(r, f) || ret)
		return;
	if (!expect(r, done_until(access, job, now_ns() + SOON), "work behind the "
		    "acquire does not run although the fence has signalled"))
		return;
	access->finish_read(job, &byte, sizeof(byte));
	end_access(r);
}

static void device_waits_case(struct fence_run *r, const struct fence_case *c)
{
	struct fence *f;

	(void)c;
	if (!device_waits(r)) {
		skip(r, "the calling thread waits, not the device");
		return;
	}
	f = put_fence(r, DLBUF_WRITE);
	if (f)
		queue_waits_for(r, f, NULL);
}

/* A fence that is on no buffer and only in the options. */
static void explicit_case(struct fence_run *r, const struct fence_case *c)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = 1);
	struct fence *f = make_fence(r);

	(void)c;
	if (!f)
		return;
	opts.fence = f->sync_file;
	if (device_waits(r)) {
		queue_waits_for(r, f, &opts);
		return;
	}
	returned(r, "dlbuf_acquire() with a fence, until now",
		 dlbuf_acquire(r->t, DLBUF_READ, NULL, &opts), -ETIME);
	not_acquired(r);
	if (signal_fence(r, f) &&
	    returned(r, "dlbuf_acquire() with a signalled fence",
		     dlbuf_acquire(r->t, DLBUF_READ, NULL, &opts), 0))
		end_access(r);
}

static void deadline_case(struct fence_run *r, const struct fence_case *c)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = 0);
	struct fence *f = put_fence(r, DLBUF_WRITE);
	int ret;

	(void)c;
	if (!f)
		return;
	opts.deadline_ns = now_ns() + 20 * MS;
	if (!device_waits(r)) {
		returned(r, "dlbuf_acquire() with a deadline",
			 dlbuf_acquire(r->t, DLBUF_READ, NULL, &opts), -ETIME);
		expect(r, now_ns() >= opts.deadline_ns,
		       "dlbuf_acquire() gave up before its deadline");
		not_acquired(r);
	}
	if (f->sync_file >= 0) {
		opts.deadline_ns = now_ns() + 20 * MS;
		returned(r, "dlbuf_fence_wait() with a deadline",
			 dlbuf_fence_wait(f->sync_file, opts.deadline_ns),
			 -ETIME);
		expect(r, now_ns() >= opts.deadline_ns,
		       "dlbuf_fence_wait() gave up before its deadline");
		/* The other deadline: a hint to the driver. */
		ret = dlbuf_fence_set_deadline(f->sync_file, now_ns());
		if (ret == -EOPNOTSUPP)
			note(r, "no hint by when a fence is wanted: %s",
			     dlbuf_last_error());
		else
			returned(r, "dlbuf_fence_set_deadline()", ret, 0);
	}
	if (!signal_fence(r, f))
		return;
	if (f->sync_file >= 0)
		returned(r, "dlbuf_fence_wait()",
			 dlbuf_fence_wait(f->sync_file, now_ns() + SOON), 0);
	agree(r, DLBUF_READ, false);
}

/* ---- calls that may block */

static bool start(struct fence_run *r, struct call *call)
{
	int ret = call_start(call);

	return expect(r, !ret, "pthread_create(): %s", strerror(ret));
}

static bool join(struct fence_run *r, struct call *call)
{
	return expect(r, !call_join(call), "a call does not return although the fence has signalled");
}

static int wait_for_access(struct call *call)
{
	struct fence_run *r = call->data;

	if (device_waits(r))
		return dlbuf_fence_wait(call->fence, 0);
	return dlbuf_acquire(r->t, call->access, NULL, call->opts);
}

static void on_signal(int sig)
{
	(void)sig;
}

/* Signals do not end a wait; only the fence does. */
static void interrupted_case(struct fence_run *r, const struct fence_case *c)
{
	struct sigaction sa = { .sa_handler = on_signal }; /* no SA_RESTART */
	struct call call = { .data = r, .fn = wait_for_access,
			     .access = DLBUF_READ };
	struct fence *f = put_fence(r, DLBUF_WRITE);

	(void)c;
	if (!f)
		return;
	call.fence = f->sync_file;
	sigaction(SIGUSR1, &sa, NULL);
	if (!start(r, &call))
		return;
	for (int i = 0; i < 4; i++) {
		expect(r, call_settle(&call), "the waiting thread never sleeps");
		if (call_done(&call))
			break;
		pthread_kill(call.thread, SIGUSR1);
	}
	expect(r, call_settle(&call) && !call_done(&call), "a wait ended before "
	       "its fence: %d, %s", call.ret, call.sentence);
	if (!signal_fence(r, f) || !join(r, &call))
		return;
	if (expect(r, !call.ret, "an interrupted wait failed: %s",
		   call.sentence) && !device_waits(r))
		end_access(r);
}

/* ---- errors */

/* The first call that returns reports the error, in its error text. */
static void fails_with(struct fence_run *r, const char *call, int ret,
		       const char *sentence, int want)
{
	if (returned_on(r, call, ret, sentence, want) && want)
		expect(r, strstr(sentence, "ended with error"), "%s: %s, and "
		       "not that a fence ended with an error", call, sentence);
}

/* The device waits, and once the fence has ended the release reports the error. */
static void device_reports(struct fence_run *r, uint32_t access,
			   const struct dlbuf_acquire_opts *opts,
			   struct fence *f, int error, int want)
{
	int ret;

	if (!returned(r, "dlbuf_acquire()",
		      dlbuf_acquire(r->t, access, NULL, opts), 0) ||
	    !end_failing(r, f, error))
		return;
	ret = dlbuf_release(r->t, NULL, NULL);
	fails_with(r, "dlbuf_release()", ret, dlbuf_last_error(), want);
}

/* The thread waits in the acquire, which reports the error. */
static void thread_reports(struct fence_run *r, uint32_t access,
			   const struct dlbuf_acquire_opts *opts,
			   struct fence *f, int error, int want)
{
	struct call call = { .data = r, .fn = wait_for_access, .access = access,
			     .opts = opts };

	if (!start(r, &call))
		return;
	expect(r, call_settle(&call) && !call_done(&call), "dlbuf_acquire() "
	       "does not wait for the fence: %d, %s", call.ret, call.sentence);
	if (!end_failing(r, f, error) || !join(r, &call))
		return;
	fails_with(r, "dlbuf_acquire()", call.ret, call.sentence, want);
	if (!call.ret)
		end_access(r);
}

static const struct { int error; uint32_t flags; } ends[] = {
	{ 0, 0 }, { -EIO, 0 }, { -EIO, DLBUF_ACQUIRE_DAMAGED },
};

/*
 * The acquire or the release reports the error of a fence of the buffer or of the
 * options, once, and not with DLBUF_ACQUIRE_DAMAGED.
 */
static void held_case(struct fence_run *r, const struct fence_case *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(ends) && !r->failures; i++) {
		DLBUF_OPTS(dlbuf_acquire_opts, opts, .flags = ends[i].flags);
		struct fence *f = c->fences ? put_failing(r, c->fences) :
					      make_failing(r);
		int ret;

		if (!f)
			return;
		if (!c->fences)
			opts.fence = f->sync_file;
		(device_waits(r) ? device_reports : thread_reports)
			(r, c->access, &opts, f, ends[i].error,
			 ends[i].flags ? 0 : ends[i].error);
		not_acquired(r);
		await_idle(r);
		agree(r, c->access, false);
		/* A failed fence is reported later only if the options have it. */
		if (c->fences)
			continue;
		ret = dlbuf_acquire(r->t, c->access, NULL, &opts);
		fails_with(r, "dlbuf_acquire() after the fence", ret, dlbuf_last_error(),
		      ends[i].flags ? 0 : ends[i].error);
		if (!ends[i].error || ends[i].flags)
			end_access(r);
	}
}

/* dlbuf_pending()'s fd shows the end of the work; the acquire after it reports the error. */
static void pending_case(struct fence_run *r, const struct fence_case *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(ends) && !r->failures; i++) {
		DLBUF_OPTS(dlbuf_acquire_opts, opts, .flags = ends[i].flags);
		struct fence *f = put_failing(r, c->fences);
		int fd = -1, ret;

		if (!f || !returned(r, "dlbuf_pending()",
				    dlbuf_pending(r->t, c->access, &fd), 0) ||
		    !expect(r, fd >= 0, "dlbuf_pending() gives no fd of a busy dma-buf"))
			return;
		fence_is(r, "what dlbuf_pending() gives", fd, true);
		if (end_failing(r, f, ends[i].error)) {
			expect(r, polls(fd, POLLIN), "what dlbuf_pending() gives is not "
			       "readable although the fence has ended");
			ret = dlbuf_acquire(r->t, c->access, NULL, &opts);
			fails_with(r, "dlbuf_acquire()", ret, dlbuf_last_error(),
				   ends[i].flags ? 0 : ends[i].error);
			if (!ret)
				end_access(r);
			agree(r, c->access, false);
		}
		close(fd);
	}
}

/* ---- release */

static int release(struct call *call)
{
	struct fence_run *r = call->data;

	return dlbuf_release(r->t, NULL, &call->fence);
}

static void idle_after(struct fence_run *r)
{
	expect(r, !busy(r, DLBUF_READ) && !busy(r, DLBUF_WRITE),
	       "the dma-buf is busy although the work is complete");
}

/*
 * The work waits for a fence that is not on the dma-buf: only the fence of the
 * release makes the dma-buf busy. If a driver finishes the work before it gives
 * a fence, release waits, and nothing is pending then.
 */
static void release_waiting(struct fence_run *r, uint32_t access,
			    struct fence *f)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .fence = f->sync_file);
	struct call call = { .data = r, .fn = release, .fence = -1 };

	if (!returned(r, "dlbuf_acquire()",
		      dlbuf_acquire(r->t, access, NULL, &opts), 0))
		return;
	expect(r, !busy(r, DLBUF_WRITE), "dlbuf_acquire() made the dma-buf "
	       "busy");
	if (!start(r, &call))
		return;
	/* A driver that gives a fence of future work does not have to wait. */
	for (uint64_t until = now_ns() + 300 * MS;
	     !call_done(&call) && now_ns() < until;)
		sched_yield();
	if (!call_done(&call)) {
		note(r, "%s finishes the work before it gives a fence, which "
		     "is not pending then", r->info.name);
	} else if (!call.ret && call.fence >= 0 && !polls(call.fence, POLLIN)) {
		expect(r, busy(r, DLBUF_WRITE), "release's fence is pending "
		       "and not on the dma-buf: a writer would not wait");
		expect(r, busy(r, DLBUF_READ) == !!(access & DLBUF_WRITE),
		       "release's fence of %s is on the dma-buf as that of %s",
		       who(access), who(access ^ DLBUF_WRITE));
		agree(r, DLBUF_READ, access & DLBUF_WRITE);
	} else if (!call.ret) {
		expect(r, false, "dlbuf_release() calls the work complete that "
		       "still waits for a fence");
	}
	if (!signal_fence(r, f) || !join(r, &call) ||
	    !expect(r, !call.ret, "dlbuf_release(): %s", call.sentence))
		return;
	returned(r, "the wait for release's fence",
		 dlbuf_fence_wait(call.fence, now_ns() + SOON), 0);
	if (call.fence >= 0)
		close(call.fence);
	idle_after(r);
}

static void release_case(struct fence_run *r, const struct fence_case *c)
{
	int fence = -1;

	if (r->info.release == DLBUF_SYNC_FENCE && device_waits(r) &&
	    r->vgem.fd >= 0) {
		struct fence *f = make_fence(r);

		if (f)
			release_waiting(r, c->access, f);
		return;
	}
	if (!returned(r, "dlbuf_acquire()",
		      dlbuf_acquire(r->t, c->access, NULL, NULL), 0) ||
	    !returned(r, "dlbuf_release()",
		      dlbuf_release(r->t, NULL, &fence), 0))
		return;
	if (r->info.release == DLBUF_SYNC_BLOCKS)
		expect(r, fence == -1, "release of a device that blocks gives "
		       "fd %d, not -1", fence);
	returned(r, "the wait for release's fence",
		 dlbuf_fence_wait(fence, now_ns() + SOON), 0);
	if (fence >= 0)
		close(fence);
	idle_after(r);
}

/* A fence that the application has made of its own work. */
static void release_fence_case(struct fence_run *r, const struct fence_case *c)
{
	struct fence *f;
	int fence = -1;

	if (r->info.acquire != DLBUF_SYNC_FENCE) {
		skip(r, "%s waits for no fences by itself", r->info.name);
		return;
	}
	f = make_fence(r);
	if (!f || !returned(r, "dlbuf_acquire_fence()",
			    dlbuf_acquire_fence(r->t, c->access, &fence), 0))
		return;
	expect(r, fence == -1, "dlbuf_acquire_fence() gives a fence of an idle "
	       "dma-buf");
	if (!returned(r, "dlbuf_release_fence()",
		      dlbuf_release_fence(r->t, f->sync_file), 0))
		return;
	agree_both(r, c->access & DLBUF_WRITE, true);
	if (signal_fence(r, f))
		agree(r, DLBUF_READ, false);
	idle_after(r);
}

/* ---- a producer that never ends */

static void expired_case(struct fence_run *r, const struct fence_case *c)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = 0);
	struct fence *f = put_fence(r, DLBUF_WRITE);

	(void)c;
	if (!f)
		return;
	opts.deadline_ns = now_ns() + 4 * SOON;
	if (device_waits(r))
		returned(r, "dlbuf_fence_wait()",
			 dlbuf_fence_wait(f->sync_file, opts.deadline_ns), 0);
	else if (returned(r, "dlbuf_acquire()",
			  dlbuf_acquire(r->t, DLBUF_READ, NULL, &opts), 0))
		end_access(r);
	expect(r, vgem_signal(&r->vgem, f->id) == -ETIMEDOUT,
	       "the fence was waited for and had not expired");
	f->signalled = true;
	agree(r, DLBUF_READ, false);
}

/* ---- running */

static bool get_buffer(struct fence_run *r)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = r->exporter,
		   .name = "dmabuf-test");
	int ret;

	r->buffer = -1;
	r->handle = 0;
	if (r->lent >= 0) {
		r->buffer = fcntl(r->lent, F_DUPFD_CLOEXEC, 3);
		return expect(r, r->buffer >= 0, "fcntl(F_DUPFD_CLOEXEC): %s",
			      strerror(errno));
	}
	if (strcmp(r->exporter, "vgem"))
		return returned(r, "dlbuf_alloc_fd()",
				dlbuf_alloc_fd(BYTES, &opts, &r->buffer), 0);
	if (r->vgem.fd < 0)
		return skip(r, "%s", r->vgem.reason);
	ret = vgem_alloc(&r->vgem, BYTES, &r->handle, &r->buffer);
	return expect(r, !ret, "a buffer of vgem's: %s", strerror(-ret));
}

static void look_for_ioctls(struct fence_run *r)
{
	int fd = kernel_export(r->buffer, DLBUF_READ);

	r->sync_files = fd >= 0 || errno != ENOTTY;
	if (fd >= 0)
		close(fd);
}

static bool get_tensor(struct fence_run *r)
{
	struct dlbuf_buffer_info info = { .size = sizeof(info) };
	int64_t shape;
	DLTensor layout = {
		.ndim = 1,
		.dtype = { kDLUInt, 8, 1 },
		.shape = &shape,
	};
	int ret;

	if (!returned(r, "dlbuf_buffer_query()",
		      dlbuf_buffer_query(r->buffer, &info), 0))
		return false;
	shape = info.bytes;
	r->access = info.access;
	ret = dlbuf_import(r->dev, r->buffer, &layout, NULL, &r->t);
	/* Not tested here: the device accepts no such buffers. */
	if (ret == -EOPNOTSUPP)
		return skip(r, "%s", dlbuf_last_error());
	return returned(r, "dlbuf_import()", ret, 0);
}

static bool begin(struct fence_run *r)
{
	r->t = NULL;
	r->nfences = 0;
	r->failures = 0;
	r->skipped = false;
	r->reason[0] = '\0';
	vgem_open(&r->vgem);
	r->lab = lab_open();
	if (!get_buffer(r))
		return false;
	look_for_ioctls(r);
	return get_tensor(r) && await_idle(r);
}

static void end(struct fence_run *r)
{
	for (unsigned int i = 0; i < r->nfences; i++) {
		/* Not by an error, which the tensor would report. */
		if (!r->fences[i].handle)
			lab_signal(r->lab, r->fences[i].sync_file, 0);
		if (r->fences[i].sync_file >= 0)
			close(r->fences[i].sync_file);
	}
	/* Signals the remaining fences, so that nothing waits for them. */
	vgem_close(&r->vgem);
	if (r->lab >= 0)
		close(r->lab);
	if (r->t)
		r->t->deleter(r->t);
	if (r->buffer >= 0)
		close(r->buffer);
	dlbuf_device_trim(r->dev, 0);
}

void fence_case_run(struct fence_run *r, const struct fence_case *c)
{
	if (begin(r)) {
		if (c->access & ~r->access)
			skip(r, "the dma-buf was opened %s", r->access &
			     DLBUF_READ ? "read-only" : "write-only");
		else
			c->fn(r, c);
	}
	end(r);
}

static const char *sync_word(enum dlbuf_sync sync)
{
	return sync == DLBUF_SYNC_FENCE ? "fence" :
	       sync == DLBUF_SYNC_EVENT ? "event" : "blocks";
}

void fence_capabilities(struct fence_run *r)
{
	bool have = begin(r);

	note(r, "acquire: %s, release: %s", sync_word(r->info.acquire),
	     sync_word(r->info.release));
	if (have || r->buffer >= 0)
		note(r, r->sync_files ? "sync_file: the kernel exports and "
		     "imports them" : "sync_file: none, "
		     "DMA_BUF_IOCTL_EXPORT_SYNC_FILE: ENOTTY; dlbuf polls the "
		     "dma-buf");
	if (r->vgem.fd >= 0)
		note(r, "fences that wait: of vgem, %s", r->vgem.node);
	else
		note(r, "fences that wait: none, %s", r->vgem.reason);
	if (r->lab >= 0)
		note(r, "fences that fail: of /dev/" DLBUF_LAB_NODE);
	end(r);
}

#define R DLBUF_READ
#define W DLBUF_WRITE
#define RW DLBUF_RW

/* The order of the cases: the first ones have the fences that the access waits for. */
const struct fence_case fence_cases[] = {
	{ "idle-read", state_case, R, 0, 0, 0, false, false },
	{ "idle-write", state_case, W, 0, 0, 0, false, false },
	{ "read-fence-read", state_case, R, R, 0, 0, false, false },
	{ "read-fence-write", state_case, W, R, 0, 0, true, false },
	{ "read-fence-both", state_case, RW, R, 0, 0, true, false },
	{ "write-fence-read", state_case, R, W, 0, 0, true, false },
	{ "write-fence-write", state_case, W, W, 0, 0, true, false },
	{ "write-fence-both", state_case, RW, W, 0, 0, true, false },
	{ "both-fences-read", state_case, R, RW, 0, 0, true, false },
	{ "both-fences-write", state_case, W, RW, 0, 0, true, false },
	{ "write-signalled-read", state_case, R, RW, W, 0, false, false },
	{ "write-signalled-write", state_case, W, RW, W, 0, true, false },
	{ "read-signalled-read", state_case, R, RW, R, 0, true, false },
	{ "read-signalled-write", state_case, W, RW, R, 0, true, false },
	{ "signalled-read", state_case, R, RW, RW, 0, false, false },
	{ "signalled-write", state_case, W, RW, RW, 0, false, false },
	{ "write-failed-read", state_case, R, W, 0, W, false, false },
	{ "write-failed-write", state_case, W, W, 0, W, false, false },
	{ "read-failed-write", state_case, W, R, 0, R, false, false },
	{ "both-write-failed-read", state_case, R, RW, 0, W, false, false },
	{ "both-write-failed-write", state_case, W, RW, 0, W, true, false },
	{ "both-read-failed-read", state_case, R, RW, 0, R, true, false },
	{ "both-failed-write", state_case, W, RW, 0, RW, false, false },
	{ "failed-signalled-write", state_case, W, RW, R, W, false, false },
	{ "held-write-fence-read", held_case, R, W, 0, 0, false, false },
	{ "held-write-fence-write", held_case, W, W, 0, 0, false, false },
	{ "held-read-fence-write", held_case, W, R, 0, 0, false, false },
	{ "held-explicit-fence", held_case, R, 0, 0, 0, false, false },
	{ "pending-failed-read", pending_case, R, W, 0, 0, false, false },
	{ "pending-failed-write", pending_case, W, RW, 0, 0, false, false },
	{ "snapshot", snapshot_case, R, 0, 0, 0, false, false },
	{ "import-read", import_case, R, R, 0, 0, false, false },
	{ "import-write", import_case, R, W, 0, 0, false, false },
	{ "merge", merge_case, R, 0, 0, 0, false, false },
	{ "device-waits", device_waits_case, R, 0, 0, 0, false, false },
	{ "explicit-fence", explicit_case, R, 0, 0, 0, false, false },
	{ "deadline", deadline_case, R, 0, 0, 0, false, false },
	{ "interrupted", interrupted_case, R, 0, 0, 0, false, false },
	{ "release-read", release_case, R, 0, 0, 0, false, false },
	{ "release-write", release_case, W, 0, 0, 0, false, false },
	{ "release-fence-read", release_fence_case, R, 0, 0, 0, false, false },
	{ "release-fence-write", release_fence_case, W, 0, 0, 0, false, false },
	{ "expired", expired_case, R, 0, 0, 0, false, true },
};
const unsigned int fence_ncases = ARRAY_SIZE(fence_cases);
