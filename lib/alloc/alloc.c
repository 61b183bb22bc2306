// SPDX-License-Identifier: MIT
/* Allocates dma-bufs that all given devices can import. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <linux/dma-buf.h>

#include <dlbuf/alloc.h>
#include <dlbuf/layout.h>

#include "../dmabuf/memory.h"
#include "../import/backend.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "../system/uapi.h"
#include "../tensor/tensor.h"
#include "exporter.h"
#include "v4l2.h"

/*
 * generated/exporters.h is made from the symbols of Kconfig. It has EXPORTER(heap) for
 * an exporter that is built, and EXPORTER_OFF(heap) for one that is not.
 */
#define EXPORTER(name) extern const struct exporter name##_exporter;
#define EXPORTER_OFF(word) \
	static const struct exporter word##_exporter = { .name = #word };
#include "generated/exporters.h"
#undef EXPORTER
#undef EXPORTER_OFF

static const struct exporter *const exporters[] = {
#define EXPORTER(name) &name##_exporter,
#define EXPORTER_OFF(name) EXPORTER(name)
#include "generated/exporters.h"
};

int exporter_check_size(uint64_t bytes)
{
	uint64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (bytes / page > pages)
		return fail(-ENOMEM, "%llu bytes are more than this machine's "
			    "memory, %llu", (unsigned long long)bytes,
			    (unsigned long long)pages * page);
	return 0;
}

int exporter_set_name(int fd, const char *name)
{
	/* The argument is an address. _A and _B differ only in the pointer's size. */
	if (sys_ioctl(fd, DMA_BUF_SET_NAME_B, (void *)name) < 0)
		return fail(-EIO, "DMA_BUF_SET_NAME '%s': %m", name);
	return 0;
}

int exporter_check_name(const char *name)
{
	if (name && strlen(name) >= DMA_BUF_NAME_LEN)
		return fail(-EINVAL, "the name '%s' is longer than %d bytes",
			    name, DMA_BUF_NAME_LEN - 1);
	return 0;
}

static int opts_get_alloc(struct dlbuf_alloc_opts *ours,
			  const struct dlbuf_alloc_opts *src)
{
	int ret = OPTS_GET(ours, src, "dlbuf_alloc_opts");

	if (!ret && ours->flags)
		ret = unknown_flags("alloc", ours->flags);
	return ret ? ret : exporter_check_name(ours->name);
}

static void close_memfd(int memfd)
{
	if (memfd < 0)
		return;
	memory_forget(memfd);
	close(memfd);
}

static int alloc_from(const char *exporter, uint64_t bytes, const char *name,
		      int *fd, int *memfd)
{
	size_t len = strcspn(exporter, ":"), n = 0;
	char known[64] = "";

	for (size_t i = 0; i < ARRAY_SIZE(exporters); i++) {
		const struct exporter *e = exporters[i];

		if (strlen(e->name) != len || strncmp(e->name, exporter, len))
			continue;
		if (!e->alloc)
			return fail(-ENOSYS, "exporter %s is not built into "
				    "this library", e->name);
		return e->alloc(exporter[len] ? exporter + len + 1 : "", bytes,
				name, fd, memfd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(exporters) && n < sizeof(known); i++)
		n += snprintf(known + n, sizeof(known) - n, " %s",
			      exporters[i]->name);
	return fail(-EINVAL, "no exporter is named '%s'; this library has%s, also "
		    "heap:NAME and udmabuf:2M", exporter, known);
}

/* ---------------------------------------------------------------- refusals */

/*
 * Which parties have refused which exporters: hashes of both names. They determine only
 * the order, so a lost or wrong entry does no harm, and no lock is needed.
 */
static struct {
	uint32_t list[64];
	unsigned int next;
} refusals;

static uint32_t pair(const char *party, const char *exporter)
{
	uint32_t h = 2166136261;

	for (; *party; party++)
		h = (h ^ (unsigned char)*party) * 16777619;
	for (h *= 16777619; *exporter; exporter++)
		h = (h ^ (unsigned char)*exporter) * 16777619;
	return h | 1; /* 0 is no entry */
}

/* Returns the entry, or NULL. */
static uint32_t *find_refusal(const char *party, const char *exporter)
{
	uint32_t h = pair(party, exporter);

	for (size_t i = 0; i < ARRAY_SIZE(refusals.list); i++)
		if (__atomic_load_n(&refusals.list[i], __ATOMIC_RELAXED) == h)
			return &refusals.list[i];
	return NULL;
}

static void note_refusal(const char *party, const char *exporter)
{
	unsigned int i;

	if (find_refusal(party, exporter))
		return;
	i = __atomic_fetch_add(&refusals.next, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&refusals.list[i % ARRAY_SIZE(refusals.list)],
			 pair(party, exporter), __ATOMIC_RELAXED);
}

static const char *party_name(const struct request *r, size_t i)
{
	return i < r->ndevs ? r->devs[i]->name :
			      node_name(&r->nodes[i - r->ndevs]);
}

static bool refused_before(const struct request *r, const char *exporter)
{
	for (size_t i = 0; i < r->ndevs + r->nnodes; i++)
		if (find_refusal(party_name(r, i), exporter))
			return true;
	return false;
}

static void note_success(const struct request *r, const char *exporter)
{
	for (size_t i = 0; i < r->ndevs + r->nnodes; i++) {
		uint32_t *entry = find_refusal(party_name(r, i), exporter);

		if (entry)
			__atomic_store_n(entry, 0, __ATOMIC_RELAXED);
	}
}

/* ---------------------------------------------------------------- one exporter */

static struct dlbuf_device *allocator(const struct request *r)
{
	for (size_t i = 0; i < r->ndevs; i++)
		if (r->devs[i]->backend->alloc)
			return r->devs[i];
	return NULL;
}

/* Allocates memory of a device, and its tensor, which the device need not import. */
static int make_on_device(struct request *r, uint32_t i)
{
	struct dlbuf_device *dev = allocator(r);
	const DLTensor *layout = &r->layouts[i];
	struct import *imp;
	struct tensor *t;
	uint64_t first, end;
	size_t d = 0;
	int ret;

	if (!dev)
		return fail(-EOPNOTSUPP, "%s has no memory of its own to "
			    "allocate", r->devs[0]->name);
	ret = dlbuf_layout_extent(layout, &first, &end);
	if (!ret)
		ret = import_alloc(dev, r->bytes[i], &imp);
	if (ret)
		return ret;
	cache_add(&dev->cache, imp);
	r->fds[i] = sys_dup(imp->fd);
	ret = r->fds[i] < 0 ? fail_errno("fcntl(F_DUPFD_CLOEXEC)") :
	      tensor_create(imp, layout, first, end, NULL, NULL, &t);
	if (ret) {
		cache_unref(imp);
		return ret;
	}
	while (r->devs[d] != dev)
		d++;
	r->tensors[i * r->ndevs + d] = &t->versioned;
	return 0;
}

static int make(struct request *r, const char *exporter, uint32_t i,
		int *memfd)
{
	if (r->ndevs && !strcmp(exporter, "device"))
		return make_on_device(r, i);
	if (r->nnodes && !strcmp(exporter, "v4l2"))
		return node_alloc(&r->nodes[0], r->bytes[i], i, &r->fds[i]);
	return alloc_from(exporter, r->bytes[i], r->name, &r->fds[i], memfd);
}

/*
 * Some heaps have memory that the CPU must not touch (protected video). An importer
 * that does not use the CPU accepts it, and the application sees only zeros.
 */
static int check_mapping(const struct request *r)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *map = sys_mmap(page, PROT_READ, r->fds[0]);

	if (map == MAP_FAILED)
		return fail(-EOPNOTSUPP, "the CPU cannot map its memory: %m");
	munmap(map, page);
	return 0;
}

static int import_on_all(struct request *r)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < r->n * r->ndevs; i++) {
		if (r->tensors[i])
			continue;
		r->who = r->devs[i % r->ndevs]->name;
		ret = tensor_import(r->devs[i % r->ndevs],
				    r->fds[i / r->ndevs],
				    &r->layouts[i / r->ndevs], 0,
				    PATHS_SHARED | PATHS_BRIEF, &r->tensors[i]);
	}
	for (size_t i = 0; !ret && i < r->nnodes; i++) {
		r->who = node_name(&r->nodes[i]);
		ret = node_try(&r->nodes[i], r->fds, r->n);
	}
	if (!ret)
		r->who = NULL;
	return ret;
}

static int attempt_quietly(struct request *r, const char *exporter, bool chosen)
{
	int memfds[DLBUF_MAX_PLANES] = { -1, -1, -1, -1 }, ret = 0;

	r->who = NULL;
	for (uint32_t i = 0; i < r->n; i++)
		r->fds[i] = -1;
	for (uint32_t i = 0; !ret && i < r->n; i++)
		ret = make(r, exporter, i, &memfds[i]);
	if (!ret && chosen && !strncmp(exporter, "heap:", 5) &&
	    strcmp(exporter, "heap:system"))
		ret = check_mapping(r);
	if (!ret)
		ret = r->try ? r->try(r->fds[0], r->data) : import_on_all(r);
	for (uint32_t i = 0; i < r->n; i++) {
		close_memfd(memfds[i]);
		if (ret && r->fds[i] >= 0)
			close(r->fds[i]);
	}
	for (size_t i = 0; ret && i < r->n * r->ndevs; i++) {
		if (r->tensors && r->tensors[i])
			r->tensors[i]->deleter(r->tensors[i]);
		if (r->tensors)
			r->tensors[i] = NULL;
	}
	return ret;
}

/* chosen: the library chose this exporter, not the caller. */
static int attempt(struct request *r, const char *exporter, bool chosen)
{
	struct dlbuf_alloc_report report = { .size = sizeof(report) };
	int ret = attempt_quietly(r, exporter, chosen);

	if (!ret) {
		note_success(r, exporter);
		if (exporter != r->exporter)
			snprintf(r->exporter, sizeof(r->exporter), "%s",
				 exporter);
	} else if (r->who && !exporter_transient(ret)) {
		note_refusal(r->who, exporter);
	}
	if (!r->report || (!ret && r->later))
		return ret;
	report.status = ret;
	snprintf(report.exporter, sizeof(report.exporter), "%s", exporter);
	snprintf(report.party, sizeof(report.party), "%s", r->who ? r->who : "");
	snprintf(report.reason, sizeof(report.reason), "%s",
		 ret ? dlbuf_last_error() : "");
	r->report(&report, r->report_data);
	return ret;
}

/* ---------------------------------------------------------------- all of them */

#define MAX_CANDIDATES 24

struct candidates {
	char name[MAX_CANDIDATES][64];
	size_t n;
	size_t firm;	/* number of the first ones: with these a lack of memory ends the search */
	size_t heaps;	/* index of the first sorted one */
};

static void add_candidate(struct candidates *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->name[i], name))
			return;
	snprintf(c->name[c->n++], sizeof(c->name[0]), "%s", name);
}

/* The order of a folder's names is random, so they are sorted. */
static int add_heap(const char *name, const char *node, void *data)
{
	struct candidates *c = data;
	size_t i;

	(void)node;
	/* Two more are added at the end. */
	if (strncmp(name, "heap:", 5) || c->n == MAX_CANDIDATES - 2)
		return 0;
	i = c->n;
	add_candidate(c, name);
	if (i == c->n)
		return 0;
	for (; i > c->heaps && strcmp(c->name[i - 1], name) > 0; i--)
		memcpy(c->name[i], c->name[i - 1], sizeof(c->name[0]));
	snprintf(c->name[i], sizeof(c->name[0]), "%s", name);
	return 0;
}

/* Moves the exporters that a party has refused before to the end, in the same order. */
static void put_refused_last(const struct request *r, struct candidates *c)
{
	struct candidates sorted = { .n = 0 };

	if (refused_before(r, c->name[0]))
		c->firm = 0;
	for (int refused = 0; refused < 2; refused++)
		for (size_t i = 0; i < c->n; i++)
			if (refused_before(r, c->name[i]) == refused)
				memcpy(sorted.name[sorted.n++], c->name[i],
				       sizeof(c->name[0]));
	memcpy(c->name, sorted.name, sizeof(c->name));
}

static void list_candidates(const struct request *r, struct candidates *c)
{
	c->n = 0;
	/* For a single party the party's own memory is best. */
	if (r->own && r->ndevs == 1 && !r->nnodes && allocator(r))
		add_candidate(c, "device");
	for (size_t i = 0; i < r->ndevs; i++)
		if (r->devs[i]->backend->exporter)
			add_candidate(c, r->devs[i]->backend->exporter);
	c->firm = c->n;
	add_candidate(c, "udmabuf");
	add_candidate(c, "heap:system");
	c->heaps = c->n;
	for (size_t i = 0; i < ARRAY_SIZE(exporters); i++)
		if (exporters[i]->each)
			exporters[i]->each(add_heap, c);
	if (r->nnodes)
		add_candidate(c, "v4l2");
	if (r->own && allocator(r))
		add_candidate(c, "device");
	put_refused_last(r, c);
}

/*
 * If no exporter works, the error text has the reason of each. The error is that of the
 * first exporter that exists and failed, because it is more useful than an absence.
 */
static int alloc_default(struct request *r)
{
	struct candidates c;
	char text[480] = "";
	size_t len = 0;
	int err = -ENOSYS;

	list_candidates(r, &c);
	for (size_t i = 0; i < c.n; i++) {
		size_t room = (sizeof(text) - len) / (c.n - i);
		int ret = attempt(r, c.name[i], true);
		const char *why = dlbuf_last_error();
		/* A node's sentence begins with its name. */
		bool named = !r->who ||
			     !strncmp(why, r->who, strlen(r->who));

		if (!ret || (ret == -ENOMEM && i < c.firm))
			return ret;
		log_at(DLBUF_LOG_INFO, "alloc: %s: %s", c.name[i], why);
		snprintf(text + len, room, "%s%s: %s%s%s", i ? "; " : "",
			 c.name[i], named ? "" : r->who,
			 named ? "" : " refused: ", why);
		len += strlen(text + len);
		if (err == -ENOSYS || (err == -ENODEV && ret != -ENOSYS))
			err = ret;
		forget_failure();
	}
	return fail(err, "%s", text);
}

int exporter_alloc(struct request *r, const char *exporter)
{
	uint32_t slack = 0;

	for (size_t i = 0; i < r->ndevs; i++)
		if (r->devs[i]->slack > slack)
			slack = r->devs[i]->slack;
	for (uint32_t i = 0; i < r->n; i++)
		if (__builtin_add_overflow(r->bytes[i], slack, &r->bytes[i]))
			return fail(-EOVERFLOW, "the size does not fit 64 bits "
				    "with the %u bytes that a device wants "
				    "behind it", slack);
	return exporter ? attempt(r, exporter, false) : alloc_default(r);
}

int exporter_try(struct dlbuf_device *dev, uint64_t bytes, const char *name,
		 exporter_try_fn try, void *data)
{
	struct request r = {
		.devs = &dev, .ndevs = 1, .name = name, .n = 1,
		.bytes = { bytes }, .try = try, .data = data,
	};
	int ret = exporter_alloc(&r, NULL);

	if (!ret)
		close(r.fds[0]);
	return ret;
}

/* ---------------------------------------------------------------- calls */

/*
 * Makes a buffer of one dma-buf, of `end` bytes or more if a node needs more. After the
 * first failure for lack of memory or fds it drops idle imports and tries again.
 */
static int alloc_for(struct request *r, const struct dlbuf_alloc_opts *o,
		     uint64_t end)
{
	bool tried = false;
	int ret;

	r->name = o->name;
	r->report = o->report;
	r->report_data = o->report_data;
	r->nnodes = o->nv4l2;
	r->n = 1;
	ret = nodes_open(o->v4l2, o->nv4l2, &r->nodes);
	if (!ret)
		ret = nodes_idle(r->nodes, r->nnodes);
	while (!ret) {
		r->bytes[0] = nodes_bytes(r->nodes, r->nnodes);
		if (r->bytes[0] < end)
			r->bytes[0] = end;
		ret = exporter_alloc(r, o->exporter);
		if (!device_relieve(ret, &tried))
			break;
		ret = 0;
	}
	free(r->nodes);
	return ret;
}

int dlbuf_alloc_fd(uint64_t bytes, const struct dlbuf_alloc_opts *opts, int *fd)
{
	NOT_CANCELLED;
	struct dlbuf_alloc_opts o;
	struct request r = { 0 };
	int ret;

	if (!fd)
		return fail(-EINVAL, "fd is NULL");
	ret = opts_get_alloc(&o, opts);
	if (ret)
		return ret;
	if (!o.exporter && !o.nv4l2)
		return fail(-EINVAL, "dlbuf_alloc_fd() needs an exporter, or V4L2 "
			    "nodes");
	ret = alloc_for(&r, &o, bytes);
	if (!ret)
		*fd = r.fds[0];
	return ret;
}

int dlbuf_alloc(struct dlbuf_device *const devs[], size_t ndevs,
		const DLTensor *layout, const struct dlbuf_alloc_opts *opts,
		DLManagedTensorVersioned *tensors[])
{
	NOT_CANCELLED;
	struct request r = { .devs = devs, .ndevs = ndevs, .own = true,
			     .layouts = layout };
	struct dlbuf_alloc_opts o;
	uint64_t first, end;
	int ret;

	if (!devs || !ndevs || !tensors)
		return fail(-EINVAL, "%s", !tensors ? "tensors is NULL" :
			    !devs ? "devs is NULL" : "ndevs is 0");
	for (size_t i = 0; i < ndevs; i++) {
		ret = devs[i] ? device_check(devs[i]) :
		      fail(-EINVAL, "devs[%zu] is NULL", i);
		if (ret)
			return ret;
	}
	ret = opts_get_alloc(&o, opts);
	if (!ret)
		ret = dlbuf_layout_extent(layout, &first, &end);
	if (ret)
		return ret;
	r.tensors = sys_calloc(ndevs, sizeof(r.tensors[0]));
	if (!r.tensors)
		return -ENOMEM;
	/* A tensor without elements needs a buffer too. */
	ret = alloc_for(&r, &o, end ? end : 1);
	if (!ret)
		close(r.fds[0]);
	for (size_t i = 0; !ret && i < ndevs; i++)
		tensors[i] = r.tensors[i];
	free(r.tensors);
	return ret;
}

/* ---------------------------------------------------------------- the list */

struct walk {
	dlbuf_exporter_fn fn;
	void *data;
};

static int try_exporter(const char *name, const char *node, void *data)
{
	struct dlbuf_exporter_info info = { .size = sizeof(info) };
	struct walk *walk = data;
	int fd = -1, memfd = -1;

	snprintf(info.name, sizeof(info.name), "%s", name);
	snprintf(info.node, sizeof(info.node), "%s", node);
	/* Tests an exporter by an allocation. */
	info.status = alloc_from(name, 1, NULL, &fd, &memfd);
	if (!info.status) {
		close(fd);
		close_memfd(memfd);
	} else {
		snprintf(info.reason, sizeof(info.reason), "%s",
			 dlbuf_last_error());
		forget_failure();
	}
	return walk->fn(&info, walk->data);
}

int dlbuf_exporter_each(dlbuf_exporter_fn fn, void *data)
{
	NOT_CANCELLED;
	struct walk walk = { .fn = fn, .data = data };
	int ret = 0;

	if (!fn)
		return fail(-EINVAL, "fn is NULL");
	for (size_t i = 0; !ret && i < ARRAY_SIZE(exporters); i++)
		if (exporters[i]->each)
			ret = exporters[i]->each(try_exporter, &walk);
	return ret;
}
