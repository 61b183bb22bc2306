// SPDX-License-Identifier: MIT
/* dlbuf_acquire_all(), dlbuf_release_all() and dlbuf_pending(). */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../dmabuf/fence.h"
#include "../system/event.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "sync.h"
#include "tensor.h"

/* ---------------------------------------------------------------- one fd of several */

/* An eventfd that becomes readable after the last of several events. */
struct gather {
	unsigned int left;	/* atomic */
	int writer;
};

struct one_fd {
	int fd;			/* -1: there is nothing to wait for */
	struct gather *all;	/* NULL: fd is the only one */
};

static void gather_unref(void *data)
{
	struct gather *all = data;

	if (__atomic_sub_fetch(&all->left, 1, __ATOMIC_ACQ_REL))
		return;
	fence_event_signal(all->writer);
	free(all);
}

/* Adds an fd, which is taken on success. */
static int gather_add(struct gather *all, int fd, bool writable)
{
	int ret;

	__atomic_add_fetch(&all->left, 1, __ATOMIC_RELAXED);
	ret = writable ? event_add_writable(fd, gather_unref, all) :
			 event_add_take(fd, gather_unref, all, NULL, NULL);
	if (ret)
		__atomic_sub_fetch(&all->left, 1, __ATOMIC_RELAXED);
	return ret;
}

static int gather_begin(struct one_fd *one)
{
	struct gather *all = sys_calloc(1, sizeof(*all));
	int ret, fd;

	if (!all)
		return -ENOMEM;
	all->left = 1;
	ret = fence_event(&all->writer, &fd);
	if (ret) {
		free(all);
		return ret;
	}
	if (one->fd != -1)
		ret = gather_add(all, one->fd, false);
	if (ret) {
		close(fd);
		gather_unref(all);
		return ret;
	}
	one->fd = fd;
	one->all = all;
	return 0;
}

/* Adds an fd, which is taken on success; -1 adds nothing. */
static int one_fd_add(struct one_fd *one, int fd, bool writable)
{
	int ret = 0;

	if (fd == -1)
		return 0;
	if (one->fd == -1 && !writable) {
		one->fd = fd;
		return 0;
	}
	if (!one->all)
		ret = gather_begin(one);
	return ret ? ret : gather_add(one->all, fd, writable);
}

static int one_fd_end(const struct one_fd *one)
{
	if (one->all)
		gather_unref(one->all);
	return one->fd;
}

static void one_fd_close(const struct one_fd *one)
{
	int fd = one_fd_end(one);

	if (fd != -1)
		close(fd);
}

/* ---------------------------------------------------------------- pending */

struct collect {
	uint32_t access;
	struct one_fd one;
};

static int collect_import(struct import *imp, void *data)
{
	struct collect *c = data;
	int fd, ret;

	ret = imp->dev->backend->pending(imp, c->access, &fd);
	if (!ret) {
		ret = one_fd_add(&c->one, fd, false);
		if (ret)
			close(fd);
	}
	return ret;
}

/*
 * Keeps the fence, so that the next acquire reports its error: the kernel removes signalled
 * fences.
 */
static int note_fence(struct tensor *t, int fence)
{
	int dup = sys_dup(fence);

	if (dup < 0)
		return fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	fence_join_at(&t->before, dup);
	return 0;
}

/* Adds a sync_file of the dma-buf, or the dma-buf itself if the kernel has no sync_files. */
static int collect_buffer(struct tensor *t, struct collect *c)
{
	const struct import *imp = t->imp;
	bool writes = c->access & DLBUF_WRITE;
	int fd = -1, ret;

	ret = poll_until(imp->fd, writes ? POLLOUT : POLLIN, 1);
	if (ret)
		return ret < 0 ? ret : 0;
	ret = dlbuf_fence_export(imp->fd, c->access, &fd);
	if (ret == -EOPNOTSUPP) {
		forget_failure();
		fd = sys_dup(imp->fd);
		ret = fd < 0 ? fail_errno("fcntl(F_DUPFD_CLOEXEC)") : 0;
	} else {
		writes = false;
		ret = ret ? ret : note_fence(t, fd);
	}
	if (!ret)
		ret = one_fd_add(&c->one, fd, writes);
	if (ret && fd != -1)
		close(fd);
	return ret;
}

int dlbuf_pending(DLManagedTensorVersioned *tensor, uint32_t access, int *fd)
{
	NOT_CANCELLED;
	struct collect c = { .access = access, .one.fd = -1 };
	struct tensor *t;
	struct use use;
	int ret;

	if (!fd)
		return fail(-EINVAL, "fd is NULL");
	ret = tensor_of(tensor, &t);
	if (!ret)
		ret = tensor_check_access(t, access);
	if (ret)
		return ret;
	use = sync_use(t->imp, access);
	ret = collect_buffer(t, &c);
	if (!ret)
		ret = pending_each_unfenced(&use, t->imp->dev, collect_import,
					    &c);
	if (ret)
		one_fd_close(&c.one);
	else
		*fd = one_fd_end(&c.one);
	return ret;
}

/* ---------------------------------------------------------------- several tensors */

static int check_all(DLManagedTensorVersioned *const tensors[], size_t n)
{
	struct tensor *t;
	int ret = 0;

	if (!tensors)
		return fail(-EINVAL, "tensors is NULL");
	for (size_t i = 0; !ret && i < n; i++) {
		ret = tensor_of(tensors[i], &t);
		if (!ret && t->imp->dev != tensor_at(tensors, 0)->imp->dev)
			ret = fail(-EINVAL, "tensor %zu is of another device "
				   "than tensor 0", i);
	}
	return ret;
}

/*
 * Whether two tensors can share a bracket: they have the same import and the same lease.
 * Tensors of two frames have two brackets, because a bracket has one lease.
 */
static bool same_bracket(const struct tensor *a, const struct tensor *b)
{
	return a->imp == b->imp && a->lease == b->lease;
}

static bool is_first(DLManagedTensorVersioned *const tensors[], size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (same_bracket(tensor_at(tensors, j), tensor_at(tensors, i)))
			return false;
	return true;
}

struct job {
	DLManagedTensorVersioned *const *tensors;
	size_t n;
	uint32_t access;
	const struct access_stream *stream;
	const struct dlbuf_acquire_opts *opts;
	bool ordered;
	bool bracket_waits;	/* sync_backend_waits() */
};

/* Adds a tensor to the bracket of another one. */
static int join_bracket(struct tensor *first, struct tensor *t)
{
	if (!first->together) {
		first->together = sys_calloc(1, sizeof(*first->together));
		if (!first->together)
			return -ENOMEM;
		first->together->left = first->together->all = 1;
	}
	t->together = first->together;
	t->together->left++;
	t->together->all++;
	return 0;
}

/* Makes the groups. After a failure end_groups() frees those that were made. */
static int begin_groups(const struct job *job)
{
	int ret = 0;

	for (size_t i = 0; i < job->n; i++) {
		struct tensor *t = tensor_at(job->tensors, i);

		if (!is_first(job->tensors, i))
			continue;
		for (size_t j = i + 1; !ret && j < job->n; j++) {
			struct tensor *other = tensor_at(job->tensors, j);

			if (same_bracket(t, other))
				ret = join_bracket(t, other);
		}
	}
	return ret;
}

static void end_groups(const struct job *job)
{
	for (size_t i = 0; i < job->n; i++)
		if (is_first(job->tensors, i))
			free(tensor_at(job->tensors, i)->together);
	for (size_t i = 0; i < job->n; i++)
		tensor_at(job->tensors, i)->together = NULL;
}

/* Waits for the fences of all tensors, as one acquire does for one. */
static int wait_before(const struct job *job, const struct wait *wait, int *fence)
{
	struct use few[8], *uses = few;
	uint32_t n = 0;
	int ret;

	if (job->n > ARRAY_SIZE(few)) {
		uses = sys_calloc(job->n, sizeof(*uses));
		if (!uses)
			return -ENOMEM;
	}
	for (size_t i = 0; i < job->n; i++)
		use_add(uses, &n, sync_use(tensor_at(job->tensors, i)->imp, job->access));
	ret = sync_wait(job->tensors, job->n, uses, n, wait, fence);
	if (uses != few)
		free(uses);
	return ret;
}

/*
 * Begins the brackets of the tensors from *at on: one, or as many as the backend
 * begins together. Moves *at after them.
 */
static int begin_some(const struct job *job, const struct wait *wait, size_t *at, int *fence)
{
	const struct backend *backend = wait->dev->backend;
	const uint32_t most = backend->acquire_all ? MAX_BRACKETS : 1;
	struct bracket list[MAX_BRACKETS];
	uint32_t n = 0;
	size_t i;
	int ret = 0;

	for (i = *at; i < job->n && n < most; i++)
		if (is_first(job->tensors, i))
			list[n++] = (struct bracket){
				tensor_at(job->tensors, i)->imp, job->access
			};
	if (n)
		do
			ret = backend->acquire_all ?
			      backend->acquire_all(list, n, job->stream, *fence) :
			      sync_begin(list[0].imp, job->access, job->stream, *fence,
					 job->opts);
		while (sync_again(&ret, fence, wait));
	if (!ret)
		*at = i;
	return ret;
}

/* Begins the brackets, or none of them. */
static int begin_all(const struct job *job)
{
	const struct wait wait = sync_wait_of(tensor_at(job->tensors, 0)->imp->dev, job->opts);
	struct failure failure;
	int fence = -1, ret = 0;
	size_t begun = 0;

	failure.ret = 0;
	if (job->ordered && !job->bracket_waits)
		ret = wait_before(job, &wait, &fence);
	if (ret)
		return ret;
	while (!ret && begun < job->n)
		ret = begin_some(job, &wait, &begun, &fence);
	ret = sync_begun(job->tensors, begun, ret, fence, &wait);
	failure_note(&failure, ret);
	/* A bracket failed: ends the ones before it. */
	for (size_t i = begun; ret && i--;) {
		struct tensor *t = tensor_at(job->tensors, i);
		struct together *together = t->together;

		if (!is_first(job->tensors, i))
			continue;
		t->together = NULL;
		tensor_release(t, job->access, job->stream, NULL);
		t->together = together;
	}
	return failure_report(&failure);
}

/* The error text if tensor i cannot be acquired because the list has it before. */
static int explain_twice(const struct job *job, size_t i, int ret)
{
	for (size_t j = 0; j < i; j++)
		if (job->tensors[j] == job->tensors[i])
			return fail(ret, "tensor %zu is in the list twice: tensor %zu is the same",
				    i, j);
	return ret;
}

static int acquire_all(const struct job *job)
{
	bool tried = false;
	size_t taken = 0;
	int ret = 0;

	while (!ret && taken < job->n) {
		struct tensor *t = tensor_at(job->tensors, taken);

		ret = sync_set_acquired(t, job->access, job->stream->handle);
		if (ret)
			ret = explain_twice(job, taken, ret);
		taken += !ret;
	}
	if (!ret) {
		do {
			ret = begin_groups(job);
			if (!ret)
				ret = begin_all(job);
			if (ret)
				end_groups(job);
		} while (ret && device_relieve(ret, &tried));
	}
	while (ret && taken--)
		sync_drop(tensor_at(job->tensors, taken));
	return ret;
}

/* Not inline: only this case needs the cancellation state. */
__attribute__((noinline))
static int acquire_whole(const struct job *job)
{
	NOT_CANCELLED;
	return acquire_all(job);
}

int dlbuf_acquire_all(DLManagedTensorVersioned *const tensors[], size_t n,
		      uint32_t access, void *stream,
		      const struct dlbuf_acquire_opts *opts)
{
	struct access_stream on = { .handle = stream };
	struct dlbuf_acquire_opts o = { 0 };
	const struct import *asked = NULL;
	struct job job;
	int ret = 0;

	/* In the order of dlbuf_acquire(). */
	if (n)
		ret = check_all(tensors, n);
	if (!ret && opts)
		ret = sync_opts_get(opts, &o);
	for (size_t i = 0; !ret && i < n; i++)
		ret = tensor_check_access(tensor_at(tensors, i), access);
	if (!ret && n)
		ret = sync_check_stream(tensor_at(tensors, 0), stream, false, &on);
	if (ret < 0 || !n)
		return ret;
	job = (struct job){
		.tensors = tensors, .n = n, .access = access, .stream = &on,
		.opts = &o, .ordered = ret != STREAM_UNORDERED,
	};
	job.bracket_waits = sync_backend_waits(tensor_at(tensors, 0)->imp->dev, &o);
	for (size_t i = 0; i < n && job.bracket_waits; i++) {
		job.bracket_waits = !sync_looks(tensor_at(tensors, i), asked);
		asked = tensor_at(tensors, i)->imp;
	}
	return job.bracket_waits ? acquire_all(&job) : acquire_whole(&job);
}

/* ---- release */

int together_check(const struct tensor *t, unsigned int n, const void *stream,
		   bool fence)
{
	const struct together *together = t->together;

	if (n < together->all && stream != t->stream)
		return fail(-EINVAL, "the tensor was acquired together with "
			    "others of its dma-buf: release it on the stream of "
			    "the acquire, or all of them at once");
	if (fence && n < __atomic_load_n(&together->left, __ATOMIC_ACQUIRE))
		return fail(-EBUSY, "the fence is that of the last tensor that "
			    "was acquired together with this one, and others are "
			    "not released yet");
	return 0;
}

/* Whether the bracket ends with this tensor. */
static bool leave_bracket(struct tensor *t)
{
	struct together *together = t->together;

	t->together = NULL;
	if (together && __atomic_sub_fetch(&together->left, 1, __ATOMIC_ACQ_REL))
		return false;
	free(together);
	return true;
}

int together_release(struct tensor *t, uint32_t access, const struct access_stream *stream,
		     int *out)
{
	if (leave_bracket(t))
		return tensor_release(t, access, stream, out);
	if (out)
		*out = -1;
	return 0;
}

/* Bit in tensor->acquired: a call of dlbuf_release_all() will release the tensor. */
#define LEAVES 0x80000000u

static int mark(DLManagedTensorVersioned *const tensors[], size_t i)
{
	struct tensor *t = tensor_at(tensors, i);
	uint32_t access = __atomic_load_n(&t->acquired, __ATOMIC_ACQUIRE);

	if (!access)
		return fail(-EINVAL, "tensor %zu is not acquired", i);
	if (access & LEAVES)
		return fail(-EINVAL, "tensor %zu is in the list twice", i);
	__atomic_store_n(&t->acquired, access | LEAVES, __ATOMIC_RELAXED);
	return 0;
}

/* Checks that the tensors acquired together can be released by this call. */
static int check_groups(DLManagedTensorVersioned *const tensors[], size_t n,
			const void *stream, bool fence)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++) {
		const struct tensor *t = tensor_at(tensors, i);
		unsigned int here = 0;

		if (!t->together)
			continue;
		for (size_t j = 0; j < n; j++)
			here += tensor_at(tensors, j)->together == t->together;
		ret = together_check(t, here, stream, fence);
	}
	return ret;
}

/* The fences of the brackets that this call has ended. */
struct ends {
	int sync_file;		/* merged */
	int event;		/* eventfd of the last bracket: the stream runs in order */
};

/* Waits for a fence, taken, that could not be merged. */
static void wait_instead(int fence)
{
	dlbuf_fence_wait(fence, 0);
	close(fence);
	forget_failure();
}

static void ends_add(struct ends *ends, int fence, bool event)
{
	int *sum = event ? &ends->event : &ends->sync_file, old = *sum, both;

	if (fence == -1)
		return;
	if (old == -1) {
		*sum = fence;
	} else if (event) {
		*sum = fence;
		close(old);
	} else if (dlbuf_fence_merge(old, fence, &both)) {
		wait_instead(fence);
	} else {
		*sum = both;
		close(old);
		close(fence);
	}
}

/* Returns one fd: if there are both kinds, an eventfd that is readable after both. */
static int ends_as_one(const struct ends *ends)
{
	struct one_fd one = { .fd = ends->sync_file };

	if (one_fd_add(&one, ends->event, false))
		wait_instead(ends->event);
	return one_fd_end(&one);
}

static uint32_t unmark(struct tensor *t)
{
	return __atomic_exchange_n(&t->acquired, 0, __ATOMIC_ACQ_REL) & ~LEAVES;
}

static void release_by_one(struct tensor *t, const struct access_stream *stream, struct ends *ends,
			   bool wanted, struct failure *failure)
{
	void *kept = t->stream;
	int fence = -1;

	failure_note(failure, tensor_release(t, unmark(t), stream,
					     wanted ? &fence : NULL));
	sync_drop_stream(t, kept);
	ends_add(ends, fence, import_gives_event(t->imp));
}

/* Releases as many tensors as the backend can at once; returns how many. */
static size_t release_some(DLManagedTensorVersioned *const tensors[], size_t n,
			   const struct access_stream *stream, struct ends *ends, bool wanted,
			   struct failure *failure)
{
	struct bracket list[MAX_BRACKETS];
	struct tensor *of[MAX_BRACKETS];
	uint32_t nlist = 0;
	int fence = -1, ret = 0;
	size_t i;

	for (i = 0; i < n && nlist < MAX_BRACKETS; i++) {
		struct tensor *t = tensor_at(tensors, i);
		uint32_t access = unmark(t);

		if (!leave_bracket(t))
			continue;
		of[nlist] = t;
		list[nlist++] = (struct bracket){ t->imp, access };
	}
	if (nlist)
		ret = of[0]->imp->dev->backend->release_all(list, nlist, stream,
							    &fence);
	for (uint32_t j = 0; j < nlist; j++)
		failure_note(failure, tensor_released(of[j], list[j].access, ret,
						      fence));
	for (size_t j = 0; !ret && j < i; j++)
		failure_note(failure, tensor_release_before(
			tensor_at(tensors, j), wanted ? &fence : NULL));
	ends_add(ends, fence, false);
	return i;
}

static int release_marked(DLManagedTensorVersioned *const tensors[], size_t n,
			  const struct access_stream *stream, int *out)
{
	bool some = n && tensor_at(tensors, 0)->imp->dev->backend->release_all;
	struct ends ends = { -1, -1 };
	struct failure failure;

	failure.ret = 0;
	for (size_t i = 0; !some && i < n; i++)
		release_by_one(tensor_at(tensors, i), stream, &ends, out, &failure);
	for (size_t i = 0; some && i < n;)
		i += release_some(tensors + i, n - i, stream, &ends, out,
				  &failure);
	if (out && !failure.ret) {
		*out = ends_as_one(&ends);
		return 0;
	}
	if (ends.sync_file != -1)
		close(ends.sync_file);
	if (ends.event != -1)
		close(ends.event);
	return failure_report(&failure);
}

__attribute__((noinline))
static int release_marked_whole(DLManagedTensorVersioned *const tensors[],
				size_t n, const struct access_stream *stream, int *out)
{
	NOT_CANCELLED;
	return release_marked(tensors, n, stream, out);
}

int dlbuf_release_all(DLManagedTensorVersioned *const tensors[], size_t n,
		      void *stream, int *fence)
{
	struct access_stream on = { .handle = stream };
	size_t marked = 0;
	int ret = n ? check_all(tensors, n) : 0;

	if (!ret && n)
		ret = sync_check_stream(tensor_at(tensors, 0), stream, true, &on);
	if (ret < 0)
		return ret;
	for (ret = 0; !ret && marked < n; marked += !ret)
		ret = mark(tensors, marked);
	if (!ret)
		ret = check_groups(tensors, n, stream, fence);
	if (!ret && n && tensor_at(tensors, 0)->imp->dev->backend->waits_implicitly)
		return release_marked(tensors, n, &on, fence);
	if (!ret)
		return release_marked_whole(tensors, n, &on, fence);
	while (marked--)
		__atomic_and_fetch(&tensor_at(tensors, marked)->acquired,
				   ~LEAVES, __ATOMIC_RELEASE);
	return ret;
}
