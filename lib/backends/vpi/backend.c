// SPDX-License-Identifier: MIT
/*
 * Verilog simulators. The device is another process. Its work on a tensor is a pass:
 * dlbuf_vpi_send() begins the pass, and the simulator ends it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include <dlbuf/fence.h>

#include "../../access/pending.h"
#include "../../dmabuf/fence.h"
#include "../../import/host.h"
#include "../../socket/socket.h"
#include "../../system/event.h"
#include "vpi.h"

static int vpi_each(const struct backend *backend, dlbuf_device_fn fn, void *data)
{
	(void)backend, (void)fn, (void)data;
	return fail(-ENODEV, "vpi: simulators are not looked for, but opened by "
		    "their names, vpi:NAME");
}

static void vpi_describe(struct dlbuf_device *dev, struct dlbuf_device_info *info)
{
	(void)dev;
	snprintf(info->description, sizeof(info->description),
		 "a Verilog simulator");
	info->pitch_align = info->offset_align = 64;
}

int vpi_device_create(const char *name, int listener, int sock,
		      struct vpi_device **out)
{
	struct vpi_device *dev = sys_calloc(1, sizeof(*dev));

	if (!dev)
		return -ENOMEM;
	pthread_mutex_init(&dev->lock, NULL);
	pthread_mutex_init(&dev->sending, NULL);
	dev->listener = listener;
	dev->sock = sock;
	snprintf(dev->base.name, sizeof(dev->base.name), "vpi:%s", name);
	dev->base.acquire_sync = DLBUF_SYNC_BLOCKS;
	dev->base.release_sync = DLBUF_SYNC_EVENT;
	*out = dev;
	return 0;
}

void vpi_end(struct vpi_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	if (dev->sock >= 0)
		owned_close(dev->sock);
	if (dev->listener >= 0)
		owned_close(dev->listener);
	dev->sock = dev->listener = -1;
	pthread_mutex_unlock(&dev->lock);
}

static int vpi_open(const char *selector, const struct dlbuf_device_opts *opts,
		    struct dlbuf_device **out)
{
	struct vpi_device *dev;
	int listener, ret;

	(void)opts;
	if (!*selector)
		return vpi_each(NULL, NULL, NULL);
	ret = vpi_listen(selector, &listener);
	if (ret)
		return ret;
	ret = vpi_device_create(selector, listener, -1, &dev);
	if (ret)
		owned_close(listener);
	else
		*out = &dev->base;
	return ret;
}

/*
 * A test bench that holds a tensor is notified too, although the device lives as long
 * as the tensor. The name is free at once. If a sender waits, it ends now, and the
 * name is free after that.
 */
static void vpi_shut(struct dlbuf_device *base)
{
	struct vpi_device *dev = vpi_device_of(base);

	__atomic_store_n(&dev->shut, true, __ATOMIC_RELEASE);
	pthread_mutex_lock(&dev->lock);
	/* One of them may be -1. */
	shutdown(dev->sock, SHUT_RDWR);
	shutdown(dev->listener, SHUT_RDWR);
	pthread_mutex_unlock(&dev->lock);
	if (pthread_mutex_trylock(&dev->sending))
		return;
	vpi_end(dev);
	pthread_mutex_unlock(&dev->sending);
}

static void vpi_close(struct dlbuf_device *base)
{
	struct vpi_device *dev = vpi_device_of(base);

	vpi_end(dev);
	pthread_mutex_destroy(&dev->sending);
	pthread_mutex_destroy(&dev->lock);
	free(dev);
}

static int vpi_import(struct import *imp)
{
	return host_map(imp, &imp->data);
}

/* Each pass is a user of its import. */
static bool vpi_unimport(struct import *imp, bool wait)
{
	(void)wait;
	if (!cache_unlist(imp))
		return false;
	munmap(imp->data, imp->bytes);
	return true;
}

/* ---------------------------------------------------------------- passes */

static void pass_free(struct vpi_pass *pass)
{
	if (pass->next_end >= 0)
		owned_close(pass->next_end);
	close(pass->fd);
	free(pass);
}

/*
 * Notes, once, a pass that the simulator did not complete. A pass that only reads does
 * not change the bytes. Called with dev->lock.
 */
static void pass_check(struct vpi_pass *pass)
{
	struct import *imp = &pass->imp->base;

	if (pass->noted || !(pass->access & DLBUF_WRITE) ||
	    !(poll_until(pass->fd, POLLIN, 1) & POLLERR))
		return;
	pass->noted = true;
	pending_failed(&imp->id);
}

/* Runs on the thread "dlbuf-events". */
static void pass_over(void *data)
{
	struct vpi_pass *pass = data, **p;
	struct vpi_import *imp = pass->imp;
	struct vpi_device *dev = vpi_device_of(imp->base.dev);

	pthread_mutex_lock(&dev->lock);
	pass_check(pass);
	for (p = &imp->last; *p && *p != pass; p = &(*p)->before)
		;
	if (*p)
		*p = pass->before;
	pthread_mutex_unlock(&dev->lock);
	pass_free(pass);
	cache_unref(&imp->base);
}

/* fds[0] is ours. The byte for the simulator is in fds[1], which is owned. */
static int socket_pair(int fds[2])
{
	int ret;

	if (fault_hit()) {
		errno = EMFILE;
		return -1;
	}
	owned_lock();
	ret = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) ||
	      sys_high_pair(fds) ? -1 : 0;
	if (!ret)
		owned_add(fds[1]);
	owned_unlock();
	if (ret)
		return ret;
	if (fault_hit())
		errno = ENOMEM;
	else if (write(fds[0], "", 1) == 1)
		return 0;
	close(fds[0]);
	owned_close(fds[1]);
	return -1;
}

void vpi_pass_complete(int end)
{
	char byte;
	ssize_t n = read(end, &byte, 1);

	(void)n;
}

/* Makes the new pass last until the previous pass is over. */
static int pass_link(struct vpi_pass *pass, int end)
{
	struct vpi_import *imp = pass->imp;
	struct vpi_device *dev = vpi_device_of(imp->base.dev);
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	pass->before = imp->last;
	if (imp->last) {
		owned_lock();
		imp->last->next_end = sys_dup(end);
		owned_add(imp->last->next_end);
		owned_unlock();
		if (imp->last->next_end < 0)
			ret = fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	}
	if (!ret)
		imp->last = pass;
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

int vpi_pass_begin(struct vpi_import *imp, uint32_t access, int *end)
{
	struct vpi_pass *pass = sys_calloc(1, sizeof(*pass));
	int fds[2], watched, ret;

	if (!pass)
		return -ENOMEM;
	if (socket_pair(fds) < 0) {
		free(pass);
		return fail_errno("socketpair()");
	}
	*pass = (struct vpi_pass){ .imp = imp, .access = access, .fd = fds[0], .next_end = -1 };
	cache_ref(&imp->base);
	watched = sys_dup(pass->fd);
	ret = watched < 0 ? fail_errno("fcntl(F_DUPFD_CLOEXEC)") :
	      event_add_take(watched, pass_over, pass, imp->base.dev, NULL);
	if (ret) {
		if (watched >= 0)
			close(watched);
		pass_free(pass);
		cache_unref(&imp->base);
	} else {
		/* If this fails, the event frees the pass. */
		ret = pass_link(pass, fds[1]);
	}
	if (!ret) {
		*end = fds[1];
		return 0;
	}
	vpi_pass_complete(fds[1]);
	owned_close(fds[1]);
	return ret;
}

/*
 * Gives an fd that is readable when the passes that conflict with the access are over; -1:
 * there are none.
 */
static int vpi_pending(struct import *imp, uint32_t access, int *fd)
{
	struct vpi_device *dev = vpi_device_of(imp->dev);
	struct vpi_pass *pass;
	int ret = 0;

	*fd = -1;
	pthread_mutex_lock(&dev->lock);
	for (pass = vpi_import_of(imp)->last; pass; pass = pass->before)
		if ((access | pass->access) & DLBUF_WRITE &&
		    !fence_signalled(pass->fd))
			break;
	if (pass) {
		*fd = sys_dup(pass->fd);
		if (*fd < 0)
			ret = fail_errno("fcntl(F_DUPFD_CLOEXEC)");
	}
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

static void vpi_look(struct import *imp)
{
	struct vpi_device *dev = vpi_device_of(imp->dev);
	struct vpi_pass *pass;

	pthread_mutex_lock(&dev->lock);
	for (pass = vpi_import_of(imp)->last; pass; pass = pass->before)
		pass_check(pass);
	pthread_mutex_unlock(&dev->lock);
}

static int vpi_wait(struct import *imp, uint32_t access, uint64_t deadline_ns)
{
	int fd, ret = vpi_pending(imp, access, &fd);

	if (!ret && fd != -1) {
		ret = dlbuf_fence_wait(fd, deadline_ns);
		close(fd);
	}
	/* Checks this now, because the event fires later. */
	vpi_look(imp);
	return ret;
}

/* The simulator maps the bytes itself, with its own brackets. */
static int vpi_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
		       int fence)
{
	(void)imp, (void)access, (void)stream, (void)fence;
	return 0;
}

static int vpi_release(struct import *imp, uint32_t access, const struct access_stream *stream,
		       int *fence, int *end)
{
	int ret = fence ? vpi_pending(imp, DLBUF_RW, fence) : 0;

	(void)access, (void)stream, (void)end;
	if (ret || !fence || *fence != -1)
		return ret;
	vpi_look(imp);
	return pending_report(imp->fd, &imp->id);
}

const struct backend vpi_backend = {
	.name = "vpi",
	.type = kDLVPI,
	.import_size = sizeof(struct vpi_import),
	.each = vpi_each,
	.open = vpi_open,
	.shut = vpi_shut,
	.close = vpi_close,
	.describe = vpi_describe,
	.import = vpi_import,
	.unimport = vpi_unimport,
	.acquire = vpi_acquire,
	.release = vpi_release,
	.wait = vpi_wait,
	.look = vpi_look,
	.pending = vpi_pending,
};
