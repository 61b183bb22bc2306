// SPDX-License-Identifier: MIT
/* Imports by the first path that works, or collects the reason of each path. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "internal.h"
#include "path.h"
#include "sys.h"

/* The backend's error text without "NAME: ", which is written once for all paths. */
static const char *reason(const struct backend *backend)
{
	const char *said = dlbuf_last_error();
	size_t n = strlen(backend->name);

	if (!strncmp(said, backend->name, n) && !strncmp(said + n, ": ", 2))
		said += n + 2;
	return said;
}

static int none_serves(const struct dlbuf_device *dev, uint32_t paths,
		       const char *said, int err)
{
	const char *more = paths & PATHS_COPIED ? "" :
			   "; the option MAY_COPY would allow a copy";

	if (err != -ENOMEM && err != -EMFILE && err != -ENFILE)
		err = -EOPNOTSUPP;
	/* With a single path the backend's error text is enough. */
	if (!(paths & (paths - 1)))
		return err;
	return fail(err, "%s has no path to this dma-buf:%s%s", dev->name, said,
		    more);
}

/* Begins again: what is left of the failed import may have to stay for a while. */
static int begin_again(struct import **imp)
{
	struct import *failed = *imp, *fresh = import_new(failed->dev);
	int ret;

	if (!fresh)
		return -ENOMEM;
	fresh->id = failed->id;
	fresh->fd_access = failed->fd_access;
	fresh->paths = failed->paths;
	fresh->bytes = failed->bytes;
	fresh->brief = failed->brief;
	fresh->fd = sys_dup(failed->fd);
	if (fresh->fd < 0) {
		ret = fail_errno("fcntl(F_DUPFD_CLOEXEC)");
		free(fresh);
		return ret;
	}
	import_abandon(failed);
	*imp = fresh;
	return 0;
}

int path_import(struct import *imp, struct import **out)
{
	const struct dlbuf_device *dev = imp->dev;
	const struct backend *backend = dev->backend;
	int ret = -EOPNOTSUPP, err = 0;
	uint32_t paths = imp->paths;
	char said[400] = "";
	size_t n = 0;

	for (int path = DLBUF_PATH_DIRECT; path <= DLBUF_PATH_COPY; path++) {
		if (!(PATH_BIT(path) & paths))
			continue;
		ret = err ? begin_again(&imp) : 0;
		if (!ret) {
			imp->path = path;
			ret = backend->import(imp);
		}
		if (!ret || ret == -ENODEV)
			break;
		if (!err || err == -EOPNOTSUPP || err == -EIO)
			err = ret;
		if (n < sizeof(said))
			n += snprintf(said + n, sizeof(said) - n, "%s %s: %s",
				      n ? ";" : "", dlbuf_path_name(path),
				      reason(backend));
	}
	if (ret) {
		import_abandon(imp);
		return ret == -ENODEV || !backend->paths ? ret :
		       none_serves(dev, paths, said, err);
	}
	if (err)
		forget_failure();
	*out = imp;
	return 0;
}
