// SPDX-License-Identifier: MIT
/*
 * Hexagon DSPs by FastRPC. The driver has no queue and no fences: a remote call returns
 * when the DSP is done. So an access is a bracket of the CPU's caches, and nothing runs
 * after a release.
 */
#include <errno.h>
#include <stdio.h>

#include "../../dmabuf/fence.h"
#include "hexagon.h"

/* The order in which "hexagon" looks for a DSP: those for computation first. */
static const struct {
	char name[8];
	uint8_t number;
} domains[] = {
	{ "cdsp", HEXAGON_CDSP }, { "cdsp1", HEXAGON_CDSP1 },
	{ "gdsp0", HEXAGON_GDSP0 }, { "gdsp1", HEXAGON_GDSP1 },
	{ "adsp", HEXAGON_ADSP }, { "sdsp", HEXAGON_SDSP },
	{ "mdsp", HEXAGON_MDSP },
};

#define ALIGNMENT 128	/* of HVX vectors */
#define NO_FENCES							\
	"FastRPC has no fences: release when the remote call returns, or in its " \
	"callback"

static void describe_domain(int domain, bool wrapped, struct dlbuf_device_info *info)
{
	const char *name = "DSP";

	for (size_t i = 0; i < ARRAY_SIZE(domains); i++)
		if (domains[i].number == domain % HEXAGON_DOMAINS)
			name = domains[i].name;
	snprintf(info->description, sizeof(info->description),
		 "Hexagon %s, domain %d", name, domain);
	snprintf(info->driver, sizeof(info->driver), "%s",
		 wrapped ? "FastRPC, the application's fd" : "FastRPC");
	snprintf(info->reason, sizeof(info->reason), NO_FENCES);
	info->pitch_align = info->offset_align = ALIGNMENT;
}

static void hexagon_describe(struct dlbuf_device *base,
			     struct dlbuf_device_info *info)
{
	describe_domain(base->dl.device_id, hexagon_device_of(base)->node >= 0, info);
}

struct hexagon_device *hexagon_device_new(const char *of, int domain)
{
	struct hexagon_device *dev = sys_calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->node = -1;
	dev->base.dl.device_id = domain;
	dev->base.acquire_sync = DLBUF_SYNC_BLOCKS;
	dev->base.release_sync = DLBUF_SYNC_BLOCKS;
	snprintf(dev->base.name, sizeof(dev->base.name), "hexagon:%s", of);
	return dev;
}

static int open_domain(const char *of, int domain, struct dlbuf_device **out)
{
	struct hexagon_device *dev;
	struct hexagon_api api;
	int ret = hexagon_load(domain, &api);

	if (ret)
		return ret;
	if (!hexagon_is_there(&api, domain))
		return fail(-ENODEV, "hexagon: this machine has no %s", of);
	dev = hexagon_device_new(of, domain);
	if (!dev)
		return -ENOMEM;
	dev->api = api;
	*out = &dev->base;
	return 0;
}

/* The error if there is no device: the library of the first DSP is absent, or the DSP. */
static int none(void)
{
	struct hexagon_api api;
	int ret = hexagon_load(domains[0].number, &api);

	return ret ? ret : fail(-ENODEV, "hexagon: this machine has no DSP that "
				"FastRPC reaches");
}

/* Opens the first DSP that is present. The error is the first one that is not an absence. */
static int open_any(struct dlbuf_device **out)
{
	int ret = -ENODEV;

	for (size_t i = 0; ret == -ENODEV && i < ARRAY_SIZE(domains); i++)
		ret = open_domain(domains[i].name, domains[i].number, out);
	return ret == -ENODEV ? none() : ret;
}

static int hexagon_open(const char *selector, const struct dlbuf_device_opts *opts,
			struct dlbuf_device **out)
{
	unsigned long number;
	char *end;

	(void)opts;
	if (!selector[0])
		return open_any(out);
	for (size_t i = 0; i < ARRAY_SIZE(domains); i++)
		if (!strcmp(domains[i].name, selector))
			return open_domain(selector, domains[i].number, out);
	number = selector[0] >= '0' && selector[0] <= '9' ?
		 strtoul(selector, &end, 10) : HEXAGON_EFFECTIVE_DOMAINS;
	if (number >= HEXAGON_EFFECTIVE_DOMAINS || *end)
		return fail(-ENODEV, "hexagon:%.32s is neither the name of a domain, "
			    "such as cdsp, nor a domain's number below %d",
			    selector, HEXAGON_EFFECTIVE_DOMAINS);
	return open_domain(selector, number, out);
}

static void hexagon_close(struct dlbuf_device *base)
{
	struct hexagon_device *dev = hexagon_device_of(base);

	if (dev->node >= 0)
		close(dev->node);
	free(dev);
}

static int hexagon_each(const struct backend *backend, dlbuf_device_fn fn,
			void *data)
{
	struct hexagon_api api;
	bool any = false;
	int ret;

	for (size_t i = 0; i < ARRAY_SIZE(domains); i++) {
		struct dlbuf_device_info info = {
			.size = sizeof(info),
			.backend = "hexagon",
			.device = { backend->type, domains[i].number },
			.acquire = DLBUF_SYNC_BLOCKS,
			.release = DLBUF_SYNC_BLOCKS,
		};

		ret = hexagon_load(domains[i].number, &api);
		if (ret && ret != -ENODEV)
			return ret;
		if (ret || !hexagon_is_there(&api, domains[i].number))
			continue;
		any = true;
		snprintf(info.name, sizeof(info.name), "hexagon:%.7s",
			 domains[i].name);
		describe_domain(domains[i].number, false, &info);
		ret = fn(&info, data);
		if (ret)
			return ret;
	}
	return any ? 0 : none();
}

/*
 * The core has waited for the fences. START drops stale bytes of other writers from
 * the CPU's caches, and END writes the CPU's bytes back for the DSP.
 */
static int hexagon_acquire(struct import *imp, uint32_t access, const struct access_stream *stream,
			   int fence)
{
	(void)stream, (void)fence;
	return hexagon_bracket(imp, access);
}

/*
 * Begins a read by the CPU, so that its caches drop old copies of the bytes that the DSP
 * wrote. If another writer is active already, the CPU's own START has to do this: here
 * START would wait for that writer's fence.
 */
static int hexagon_release(struct import *imp, uint32_t access, const struct access_stream *stream,
			   int *fence, int *end)
{
	int idle;

	(void)stream, (void)end;
	*fence = -1;
	if (!(access & DLBUF_WRITE))
		return 0;
	idle = fence_buffer_idle(imp->fd, DLBUF_READ);
	return idle > 0 ? hexagon_bracket(imp, DLBUF_READ) : idle;
}

const struct backend hexagon_backend = {
	.name = "hexagon",
	.type = kDLHexagon,
	.exporter = "heap:system",
	.import_size = sizeof(struct hexagon_import),
	.each = hexagon_each,
	.open = hexagon_open,
	.close = hexagon_close,
	.describe = hexagon_describe,
	.import = hexagon_import,
	.unimport = hexagon_unimport,
	.acquire = hexagon_acquire,
	.release = hexagon_release,
};
