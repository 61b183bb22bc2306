// SPDX-License-Identifier: MIT
/* The CPU. An import is a shared mapping; lib/import/host.c has its accesses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../import/backend.h"
#include "../../import/host.h"
#include "../../system/internal.h"
#include "../../system/sys.h"

BACKEND_DECLARE(cpu);

static void cpu_describe(struct dlbuf_device *dev,
			 struct dlbuf_device_info *info)
{
	(void)dev;
	snprintf(info->description, sizeof(info->description), "CPU");
}

static int cpu_open(const char *selector, const struct dlbuf_device_opts *opts,
		    struct dlbuf_device **out)
{
	struct dlbuf_device *dev;

	(void)opts;
	if (selector[0] && strcmp(selector, "0"))
		return fail(-ENODEV, "there is one cpu device, not cpu:%s",
			    selector);
	dev = sys_calloc(1, sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	strcpy(dev->name, "cpu");
	dev->acquire_sync = DLBUF_SYNC_BLOCKS;
	dev->release_sync = DLBUF_SYNC_BLOCKS;
	*out = dev;
	return 0;
}

static void cpu_close(struct dlbuf_device *dev)
{
	free(dev);
}

static int cpu_each(const struct backend *backend, dlbuf_device_fn fn,
		    void *data)
{
	struct dlbuf_device_info info = {
		.size = sizeof(info),
		.name = "cpu",
		.backend = "cpu",
		.device.device_type = backend->type,
		.acquire = DLBUF_SYNC_BLOCKS,
		.release = DLBUF_SYNC_BLOCKS,
		.pitch_align = 64,
		.offset_align = 64,
	};

	cpu_describe(NULL, &info);
	return fn(&info, data);
}

const struct backend cpu_backend = {
	.name = "cpu",
	.type = kDLCPU,
	.waits_implicitly = true,
	.import_size = sizeof(struct import),
	.each = cpu_each,
	.open = cpu_open,
	.close = cpu_close,
	.describe = cpu_describe,
	.import = host_import,
	.unimport = host_unimport,
	.acquire = host_acquire,
	.release = host_release,
};
