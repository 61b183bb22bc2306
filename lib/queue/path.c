// SPDX-License-Identifier: MIT
/* Imports by the first path that works, or collects the reason of each path. */
#include <errno.h>
#include <stdio.h>

#include "engine.h"

/* The backend's error text without "NAME: ", which is written once for all paths. */
static const char *reason(const struct backend *backend)
{
	const char *said = dlbuf_last_error();
	size_t n = strlen(backend->name);

	if (!strncmp(said, backend->name, n) && !strncmp(said + n, ": ", 2))
		said += n + 2;
	return said;
}

static int none_serves(const struct import *imp, const char *said, int err)
{
	const char *more = imp->paths & PATHS_COPIED ? "" :
			   "; the option MAY_COPY would allow a copy";

	if (err != -ENOMEM && err != -EMFILE && err != -ENFILE)
		err = -EOPNOTSUPP;
	/* With a single path the backend's error text is enough. */
	if (!(imp->paths & (imp->paths - 1)))
		return err;
	return fail(err, "%s has no path to this dma-buf:%s%s", imp->dev->name,
		    said, more);
}

static int import_by_paths(struct import *imp)
{
	int ret = -EOPNOTSUPP, err = 0;
	char said[400] = "";
	size_t n = 0;

	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++) {
		if (!(PATH_BIT(path) & imp->paths))
			continue;
		imp->path = path;
		ret = queue_import_by(imp, queue_import_path);
		if (!ret || ret == -ENODEV)
			break;
		if (!err || err == -EOPNOTSUPP || err == -EIO)
			err = ret;
		if (n < sizeof(said))
			n += snprintf(said + n, sizeof(said) - n, "%s %s: %s",
				      n ? ";" : "", dlbuf_path_name(path),
				      reason(imp->dev->backend));
	}
	if (ret)
		return ret == -ENODEV ? ret : none_serves(imp, said, err);
	if (err)
		forget_failure();
	return 0;
}

int queue_import(struct import *imp)
{
	struct queue_device *dev = queue_device_of(imp->dev);
	int ret;

	if (dev->ops->import && PATH_BIT(DLBUF_PATH_DIRECT) & imp->paths)
		queue_try_direct(dev);
	ret = import_by_paths(imp);
	/*
	 * If a host function of the stream waits for fences, releases give events and
	 * no fences: see copy.c.
	 */
	if (!ret)
		imp->release_sync = imp->path == DLBUF_PATH_COPY ||
				    queue_memory_of(imp)->synced ?
				    DLBUF_SYNC_EVENT : imp->dev->release_sync;
	return ret;
}
