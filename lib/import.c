// SPDX-License-Identifier: MIT
/* Makes and destroys imports: see import.h. */
#include <errno.h>
#include <string.h>

#include "backend.h"
#include "import.h"
#include "internal.h"
#include "layout.h"
#include "path.h"
#include "sys.h"

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

int import_fits(const struct import *imp, uint64_t end)
{
	if (end <= imp->bytes && end > imp->bytes - imp->unusable)
		return fail(-ERANGE, "the layout ends at byte %llu of a buffer of "
			    "%llu, and %s cannot use the last %llu: allocate a "
			    "page more", (unsigned long long)end,
			    (unsigned long long)imp->bytes, imp->dev->name,
			    (unsigned long long)imp->unusable);
	return layout_fits(end, imp->bytes);
}

static struct import *new_import(struct dlbuf_device *dev)
{
	struct import *imp = sys_calloc(1, dev->backend->import_size);

	if (!imp)
		return NULL;
	imp->dev = dev;
	imp->release_sync = dev->release_sync;
	imp->last_fd = -1;
	imp->refs = 1;
	return imp;
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
	imp = new_import(dev);
	if (!imp)
		return -ENOMEM;
	imp->id = *id;
	imp->fd_access = fd_access;
	imp->paths = paths;
	imp->brief = brief;
	imp->fd = sys_dup(fd);
	if (imp->fd < 0) {
		ret = fail_errno("fd %d: fcntl(F_DUPFD_CLOEXEC)", fd);
		goto err_free;
	}
	ret = check_duplicate(imp, fd, id, end);
	if (!ret)
		ret = path_import(imp);
	if (ret)
		goto err_close;
	*out = imp;
	return 0;

err_close:
	close(imp->fd);
err_free:
	free(imp);
	return ret;
}

int import_alloc(struct dlbuf_device *dev, uint64_t bytes, struct import **out)
{
	struct import *imp = new_import(dev);
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

void import_destroy(struct import *imp)
{
	NOT_CANCELLED;

	imp->dev->backend->unimport(imp);
	close(imp->fd);
	free(imp);
}
