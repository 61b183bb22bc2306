// SPDX-License-Identifier: MIT
/* Makes and destroys imports: see import.h. */
#include <errno.h>
#include <string.h>

#include "../dmabuf/fence.h"
#include "../system/event.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "backend.h"
#include "import.h"
#include "layout.h"

const char *dlbuf_path_name(enum dlbuf_path path)
{
	switch (path) {
	case DLBUF_PATH_DIRECT:
		return "direct";
	case DLBUF_PATH_HOST:
		return "host";
	case DLBUF_PATH_BRIDGE:
		return "bridge";
	case DLBUF_PATH_COPY:
		return "copy";
	}
	return "unknown";
}

static int not_opened_for(int fd, uint32_t access)
{
	uint64_t bytes;
	/* First checks that fd is a dma-buf. */
	int ret = buffer_size(fd, fd, &bytes);

	return ret ? ret : fail(-EACCES, "fd %d was not opened for %s", fd,
				access & DLBUF_WRITE ? "writing" : "reading");
}

int import_identify(int fd, uint32_t access, struct buffer_id *id,
		    uint32_t *fd_access)
{
	int ret = buffer_identify(fd, id);

	if (ret)
		return ret;
	*fd_access = id->access;
	if (access & ~id->access)
		return not_opened_for(fd, access & ~id->access);
	/* A mapping for writing needs to be readable too. */
	if (access == DLBUF_READ)
		id->access = DLBUF_READ;
	return 0;
}

/*
 * Checks that the duplicate is the buffer that was identified. Between the two steps
 * another thread of the caller may have closed fd and got the same number for another
 * buffer, which must not be cached under the first one's identity.
 */
static int check_duplicate(struct import *imp, int fd,
			   const struct buffer_id *id, uint64_t end)
{
	struct buffer_id again;
	int ret;

	ret = buffer_identify(imp->fd, &again);
	if (ret)
		return ret;
	if (again.dev != id->dev || again.ino != id->ino ||
	    again.access != imp->fd_access)
		return fail(-EBADF, "fd %d was closed or replaced during the "
			    "import", fd);
	ret = buffer_size(imp->fd, fd, &imp->bytes);
	return ret ? ret : layout_fits(end, imp->bytes);
}

int import_too_small(const struct import *imp, uint64_t end)
{
	if (end <= imp->bytes)
		return fail(-ERANGE, "the layout ends at byte %llu of a buffer of "
			    "%llu, and %s cannot use the last %llu: allocate a "
			    "page more", (unsigned long long)end,
			    (unsigned long long)imp->bytes, imp->dev->name,
			    (unsigned long long)imp->unusable);
	return layout_fits(end, imp->bytes);
}

struct import *import_new(struct dlbuf_device *dev)
{
	struct import *imp = sys_calloc(1, dev->backend->import_size);

	if (!imp)
		return NULL;
	imp->dev = dev;
	imp->fd = -1;
	imp->path = DLBUF_PATH_DIRECT;
	imp->release_sync = dev->release_sync;
	imp->last_fd = -1;
	imp->refs = 1;
	return imp;
}

static void close_and_free(struct import *imp)
{
	if (imp->fd >= 0)
		close(imp->fd);
	free(imp);
}

int import_create(struct dlbuf_device *dev, int fd, const struct buffer_id *id,
		  uint32_t fd_access, uint32_t paths, uint64_t end,
		  struct import **out)
{
	NOT_CANCELLED;
	bool brief = paths & PATHS_BRIEF;
	struct import *imp;
	int ret;

	paths &= PATHS_OF(dev->backend);
	if (!paths)
		return fail(-EOPNOTSUPP, "%s has none of the paths that opts "
			    "allow", dev->name);
	imp = import_new(dev);
	if (!imp)
		return -ENOMEM;
	imp->id = *id;
	imp->fd_access = fd_access;
	imp->paths = paths;
	imp->brief = brief;
	imp->fd = sys_dup(fd);
	ret = imp->fd < 0 ? fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fd) :
			    check_duplicate(imp, fd, id, end);
	if (!ret)
		ret = dev->backend->import(imp);
	if (ret)
		close_and_free(imp);
	else
		*out = imp;
	return ret;
}

int import_alloc(struct dlbuf_device *dev, uint64_t bytes, struct import **out)
{
	struct import *imp = import_new(dev);
	int ret;

	if (!imp)
		return -ENOMEM;
	imp->bytes = bytes;
	imp->own = true;
	ret = dev->backend->alloc(imp);
	if (ret) {
		free(imp);
		return ret;
	}
	ret = buffer_identify(imp->fd, &imp->id);
	if (ret) {
		import_destroy(imp);
		return ret;
	}
	imp->fd_access = imp->id.access;
	*out = imp;
	return 0;
}

/* ---------------------------------------------------------------- the end */

/*
 * Imports of all devices that could not be freed yet. Each has a reference to its device, in
 * which it is counted. "dlbuf-events" tries to free them again. If that thread could not be
 * started, the imports whose dma-buf others hold stay here: one of the next calls of dlbuf
 * frees them.
 */
static struct {
	pthread_mutex_t lock;
	struct import *first;
	unsigned int n;		/* includes those that a thread is trying to free */
	unsigned int nheld;	/* the number of them whose dma-buf others hold */
	unsigned int left;	/* atomic; n is not 0, and the call is not posted */
	struct event_call call;	/* posted if fn is set */
} dying = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Whether others hold a dma-buf costs three system calls: at most this many checks per pause. */
#define MAX_LOOKS 32
#define LOOK_PAUSE 250000000ull	/* nanoseconds */

static bool free_import(struct import *imp, bool wait)
{
	if (!imp->dev->backend->unimport(imp, wait))
		return false;
	close_and_free(imp);
	return true;
}

/* Under the lock. */
static void dying_add(struct import *imp)
{
	imp->lru_next = dying.first;
	dying.first = imp;
}

/* Under the lock. The application's context must not be destroyed before its memory. */
static void count_held(struct dlbuf_device *dev, int n)
{
	dying.nheld += n;
	if (!dev->wrapped)
		__atomic_add_fetch(&dev->nheld, n, __ATOMIC_ACQ_REL);
}

static bool destroy_later(struct event_call *call);

/* Under the lock: whether the library's thread has to try again. */
static bool post(void)
{
	if (!dying.call.fn && event_promise()) {
		forget_failure();
	} else if (!dying.call.fn) {
		dying.call.fn = destroy_later;
		event_post(&dying.call);
	}
	__atomic_store_n(&dying.left, !dying.call.fn, __ATOMIC_RELAXED);
	return dying.call.fn;
}

void import_destroy_again(bool all)
{
	struct import *imp, *next;
	unsigned int looks = 0;
	uint64_t now = now_ns(), pause;

	pthread_mutex_lock(&dying.lock);
	pause = LOOK_PAUSE * (1 + dying.nheld / MAX_LOOKS);
	next = dying.first;
	dying.first = NULL;
	while ((imp = next)) {
		struct dlbuf_device *dev = imp->dev;
		bool was = imp->held, freed;

		next = imp->lru_next;
		if (was && !all && (looks >= MAX_LOOKS || now - imp->looked < pause)) {
			dying_add(imp);
			continue;
		}
		imp->looked = now;
		pthread_mutex_unlock(&dying.lock);
		freed = free_import(imp, false);
		pthread_mutex_lock(&dying.lock);
		dying.n -= freed;
		count_held(dev, (!freed && imp->held) - was);
		if (!freed) {
			looks += imp->held;
			dying_add(imp);
			continue;
		}
		__atomic_sub_fetch(&dev->ndying, 1, __ATOMIC_ACQ_REL);
		pthread_mutex_unlock(&dying.lock);
		device_unref(dev);
		pthread_mutex_lock(&dying.lock);
	}
	if (dying.n)
		post();
	else
		__atomic_store_n(&dying.left, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&dying.lock);
}

static bool destroy_later(struct event_call *call)
{
	bool none;

	import_destroy_again(false);
	pthread_mutex_lock(&dying.lock);
	none = !dying.n;
	call->slow = dying.n == dying.nheld;
	if (none)
		call->fn = NULL;
	pthread_mutex_unlock(&dying.lock);
	return none;
}

/* False: its work still runs and no thread could be started to try again, so the caller waits. */
static bool leave_to_others(struct import *imp)
{
	bool left;

	pthread_mutex_lock(&dying.lock);
	left = post() || imp->held;
	if (left) {
		__atomic_add_fetch(&imp->dev->ndying, 1, __ATOMIC_ACQ_REL);
		dying.n++;
		count_held(imp->dev, imp->held);
		dying_add(imp);
	}
	pthread_mutex_unlock(&dying.lock);
	return left;
}

void import_destroy(struct import *imp)
{
	NOT_CANCELLED;
	struct timespec pause = PAUSE_FIRST;
	struct dlbuf_device *dev = imp->dev;

	if (__atomic_load_n(&dying.left, __ATOMIC_RELAXED))
		import_destroy_again(true);
	if (free_import(imp, false))
		return;
	device_ref(dev);
	while (!leave_to_others(imp)) {
		if (free_import(imp, true)) {
			device_unref(dev);
			break;
		}
		pause_until(&pause, 0);
	}
}

void import_forked(void)
{
	pthread_mutex_init(&dying.lock, NULL);
	dying.first = NULL;
	dying.n = dying.nheld = dying.left = 0;
	dying.call.fn = NULL;
}
