// SPDX-License-Identifier: MIT
/*
 * Every allocation, dup, ioctl and driver call fails once, one after another;
 * each time the caller gets a negative errno with a sentence, or the library
 * had a way round, and nothing is left behind.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cts.h"
#ifdef CONFIG_FAULT_INJECTION
#include "import/backend.h"
#include "frame/detile.h"
#include "system/event.h"
#include "system/sys.h"

#define BYTES 8192

static void no_lease(void *data)
{
}

/* To another process, which is this one. */
static int walk_socket(struct dlbuf_device *dev, struct dlbuf_frame f,
		       DLManagedTensorVersioned *t)
{
	DLManagedTensorVersioned *in[DLBUF_MAX_PLANES];
	int sock[2], ret;
	uint32_t n = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return -errno;
	f.release = no_lease;
	ret = dlbuf_send_frame(sock[0], &f, NULL);
	if (!ret)
		ret = dlbuf_send(sock[0], &t, 1, NULL);
	for (int i = 0; !ret && i < 2; i++) {
		ret = dlbuf_recv(dev, sock[1], NULL, in, &n, NULL);
		while (!ret && n)
			cts_delete(in[--n]);
	}
	close(sock[0]);
	close(sock[1]);
	cts_settle();
	return ret;
}

/* One walk through everything; the first failure ends it. */
static int walk(int fd)
{
	struct dlbuf_device *dev;
	DLManagedTensorVersioned *t = NULL, *u = NULL, *a = NULL, *view = NULL;
	DLManagedTensorVersioned *again = NULL;
	DLManagedTensorVersioned *planes[DLBUF_MAX_PLANES] = { NULL };
	DLManagedTensor *old = NULL;
	int64_t shape = BYTES;
	DLTensor layout = LAYOUT8(1, &shape);
	DLBUF_OPTS(dlbuf_acquire_opts, past, .deadline_ns = 1);
	DLBUF_OPTS(dlbuf_import_opts, copy, .flags = DLBUF_IMPORT_MAY_COPY);
	uint32_t n = 0, ncopies = 0;
	DLManagedTensorVersioned *rows[DLBUF_MAX_PLANES] = { NULL };
	bool copies;
	DLBUF_OPTS(dlbuf_pool_opts, pool_opts, .width = 64, .height = 32,
		   .code = DLBUF_FOURCC('N', 'M', '1', '2'),
		   .code_space = DLBUF_CODE_V4L2, .buffers = 1,
		   .flags = DLBUF_POOL_PLANE_FDS);
	struct dlbuf_pool *pool = NULL;
	int ret, first, fence = -1, pending = -1;

	ret = dlbuf_device_open(cts_device, NULL, &dev);
	if (ret)
		return ret;
	copies = dev->backend->can_detile;
	ret = dlbuf_import(dev, fd, &layout, NULL, &t);
	if (!ret)
		ret = dlbuf_tensor_share(t, NULL, &u);
	if (!ret)
		ret = dlbuf_tensor_share_legacy(t, &old);
	if (!ret)
		ret = dlbuf_tensor_share(t, &layout, &view);
	if (!ret)
		ret = dlbuf_tensor_import(dev, t, NULL, &again);
	if (!ret)
		ret = dlbuf_acquire(t, DLBUF_READ, NULL, &past);
	if (!ret)
		ret = dlbuf_release(t, NULL, NULL);
	if (!ret)
		ret = dlbuf_acquire_all((DLManagedTensorVersioned *[]){ t, u },
					2, DLBUF_RW, NULL, &past);
	if (!ret)
		ret = dlbuf_release_all((DLManagedTensorVersioned *[]){ t, u },
					2, NULL, &fence);
	if (!ret)
		ret = dlbuf_pending(t, DLBUF_RW, &pending);
	if (!ret)
		ret = dlbuf_device_drain(dev, 0);
	if (fence != -1)
		close(fence);
	if (pending != -1)
		close(pending);
	if (!ret)
		ret = dlbuf_acquire(t, DLBUF_RW, NULL, NULL);
	if (!ret) {
		struct dlbuf_frame f = PICTURE(64, 32,
			DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_V4L2, 1,
			.planes = { { .fd = fd, .pitch = 64 } }, .release = no_lease);
		struct dlbuf_frame out = f;

		ret = dlbuf_import_frame(dev, &f, NULL, planes, &n);
		if (!ret)
			ret = dlbuf_frame_from_tensors(planes, n, 0, &out);
		if (!ret)
			dlbuf_frame_drop(&out);
		if (!ret)
			ret = walk_socket(dev, f, planes[0]);
	}
	if (!ret && copies) {
		struct dlbuf_frame f = PICTURE(64, 32,
			DLBUF_FOURCC('N', 'V', '1', '2'), DLBUF_CODE_DRM, 2,
			.planes = { { .fd = fd, .pitch = 64 },
				    { .fd = fd, .offset = 4096, .pitch = 64 } });

		detile_linear = true;
		ret = dlbuf_import_frame(dev, &f, &copy, rows, &ncopies);
		detile_linear = false;
		/* A driver without the extension. */
		if (ret && strstr(dlbuf_last_error(), " lacks "))
			ret = 0;
	}
	if (!ret)
		ret = dlbuf_alloc(&dev, 1, &layout, NULL, &a);
	if (!ret)
		ret = dlbuf_pool_create(&dev, 1, &pool_opts, &pool);
	first = ret;
	dlbuf_pool_destroy(pool);
	for (uint32_t i = 0; i < n; i++)
		cts_delete(planes[i]);
	for (uint32_t i = 0; i < ncopies; i++)
		cts_delete(rows[i]);
	cts_delete(a);
	cts_delete(view);
	cts_delete(again);
	cts_delete(t);
	cts_delete(u);
	if (old)
		old->deleter(old);
	dlbuf_device_close(dev);
	return first;
}

static void silent(void *data, enum dlbuf_log_level level, const char *text)
{
}

/* Calls of this thread, or of the library's threads, which may make none. */
static void every_call(void *others)
{
	void (*fault)(unsigned long n) = others ? fault_at_others : fault_at;
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	unsigned int fds;
	unsigned long calls, failed = 0;
	struct ktap_holdings before, after;

	dlbuf_log_set(silent, NULL, DLBUF_LOG_NONE);
	/*
	 * Runs once so that drivers allocate the resources that they keep, and to count the
	 * calls.
	 */
	fault(0);
	REQUIRE_OK(walk(fd));
	calls = fault_count();
	CHECK(others || calls > 10);
	cts_settle();
	fds = cts_count_fds();
	ktap_look(&before);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		fault(n);
		ret = walk(fd);
		fault_at(0);
		failed += ret < 0;
		if (ret)
			CHECK(ret < 0 && dlbuf_last_error()[0]);
		/*
		 * A driver's thread later frees objects that had work, also after the first walk.
		 */
		cts_settle();
		UNTIL(cts_count_fds() <= fds);
		fds = cts_count_fds();
		ktap_look(&after);
		if (!CHECK(after.map_bytes <= before.map_bytes)) {
			ktap_note(NULL, 0, "after the failure of call %lu of %lu: %d, %s", n, calls,
				  ret, dlbuf_last_error());
			break;
		}
		before = after;
	}
	ktap_note(NULL, 0, "%lu calls, %lu of their failures ended the walk",
		  calls, failed);
	CHECK(others || failed > 5);
}
#endif

void cts_cases_fault(void)
{
#ifdef CONFIG_FAULT_INJECTION
	ktap_case("fault/every-call", every_call, NULL);
	ktap_case("fault/every-call-of-threads", every_call, (void *)1);
#endif
}
