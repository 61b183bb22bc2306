// SPDX-License-Identifier: MIT
/*
 * dmabuf-test bench: what imports, accesses and reads cost on each device, with buffers
 * of each exporter, beside the same by hand: mmap(), DMA_BUF_IOCTL_SYNC, a loop.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include <dlbuf/dlbuf.h>

#include "opts.h"
#include "out.h"
#include "reduce.h"
#include "tool.h"

#define MAX_NAMES 32
#define ROW 4096
#define FRESH 5		/* buffers that are imported for the first time */
#define ROUNDS 51
#define READS 5
#define TIMEOUT_NS 60000000000ull

struct names {
	char s[MAX_NAMES][64];
	unsigned int n;
};

struct command {
	const char *devices, *exporters;
	unsigned long mib;
	struct json_to json_to;

	struct names device, exporter;
	struct table table;
	cJSON *results;
	unsigned int done, measured, wrong;
};

/* The figures of one device and exporter; 0: not measured. */
struct costs {
	uint64_t first_ns, cached_ns, access_ns, read_ns;
};

static const struct opt options[] = {
	OPT_EXPORTER(struct command, exporters, "all"),
	OPT_DEVICE(struct command, devices, "all"),
	{ 'm', "mib", "N", "size of the buffers in MiB (8)",
	  .kind = OPT_NUMBER, .to = offsetof(struct command, mib), 1, 1024 },
	OPT_JSON(struct command, json_to),
	OPT_END,
};

static const struct cmdline usage = {
	.name = "bench",
	.about =
"Measures on each device, with buffers of each exporter: the first import of a buffer,\n"
"an import of a buffer seen before with its deletion, acquire and release, and how fast\n"
"the device reads. The lines \"by hand\" are the same without dlbuf, on the CPU: mmap(),\n"
"mmap() and munmap(), DMA_BUF_IOCTL_SYNC, and the same loop over the mapping. A device\n"
"with the path copy copies the buffer in acquire. All that is read is compared.\n",
	.end =
"Times are medians. docs/performance.md has such figures in instructions.\n"
"\n"
"Exit status: 0 measured, 1 a device read wrong bytes, 2 bad usage, 3 something\n"
"failed, 4 no device or no exporter can be used.\n",
	.opts = options,
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

/* ---------------------------------------------------------------- by hand */

static int map(int fd, size_t bytes, uint8_t **p)
{
	*p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *p != MAP_FAILED ? 0 :
	       fail(STATUS_SYSTEM, "mmap() of the dma-buf: %s", strerror(errno));
}

static int fill(int fd, uint8_t *p, size_t bytes)
{
	int status = bracket(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE);

	for (size_t i = 0; !status && i < bytes / 8; i++)
		((uint64_t *)p)[i] = (i + 1) * 0x9e3779b97f4a7c15u;
	return status ? status :
	       bracket(fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE);
}

static int read_by_hand(int fd, const uint8_t *p, const struct rows *rows,
			struct costs *c, struct checksum *sum)
{
	uint64_t v[ROUNDS], t;
	int status = 0;

	for (size_t i = 0; !status && i < ROUNDS; i++) {
		t = now_ns();
		status = bracket(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
		if (!status)
			status = bracket(fd, DMA_BUF_SYNC_END |
					 DMA_BUF_SYNC_READ);
		v[i] = now_ns() - t;
	}
	c->access_ns = median(v, ROUNDS);
	for (size_t i = 0; !status && i < READS; i++) {
		t = now_ns();
		*sum = checksum_rows(p, rows);
		v[i] = now_ns() - t;
	}
	c->read_ns = median(v, READS);
	return status;
}

static int by_hand(const int fds[FRESH], const struct rows *rows,
		   struct costs *c, struct checksum *sum)
{
	size_t bytes = rows->pitch * rows->rows;
	uint64_t first[FRESH], v[ROUNDS], t;
	uint8_t *p;
	int status = 0;

	for (size_t i = 0; i < FRESH; i++) {
		t = now_ns();
		status = map(fds[i], bytes, &p);
		if (status)
			return status;
		first[i] = now_ns() - t;
		munmap(p, bytes);
	}
	c->first_ns = median(first, FRESH);
	for (size_t i = 0; i < ROUNDS; i++) {
		t = now_ns();
		status = map(fds[0], bytes, &p);
		if (status)
			return status;
		munmap(p, bytes);
		v[i] = now_ns() - t;
	}
	c->cached_ns = median(v, ROUNDS);
	status = map(fds[0], bytes, &p);
	if (status)
		return status;
	status = fill(fds[0], p, bytes);
	if (!status)
		status = read_by_hand(fds[0], p, rows, c, sum);
	munmap(p, bytes);
	return status;
}

/* ---------------------------------------------------------------- a device */

static int import(struct dlbuf_device *dev, int fd, const struct rows *rows,
		  DLManagedTensorVersioned **t)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ,
		   .flags = DLBUF_IMPORT_MAY_COPY);
	int64_t shape[] = { rows->rows, rows->bytes };
	DLTensor layout = { .ndim = 2, .dtype = { kDLUInt, 8, 1 },
			    .shape = shape };
	int ret = dlbuf_import(dev, fd, &layout, &opts, t);

	return ret ? fail_dlbuf(ret) : 0;
}

static int access_and_read(struct dlbuf_device *dev,
			   DLManagedTensorVersioned *tensor, struct costs *c,
			   struct checksum *sum)
{
	struct dlbuf_device_info info = { .size = sizeof(info) };
	const struct reducer *reducer;
	uint64_t v[ROUNDS], t;
	int ret = 0, status;
	void *ctx;

	for (size_t i = 0; !ret && i < ROUNDS; i++) {
		t = now_ns();
		ret = dlbuf_acquire(tensor, DLBUF_READ, NULL, NULL);
		if (!ret)
			ret = dlbuf_release(tensor, NULL, NULL);
		v[i] = now_ns() - t;
	}
	if (!ret)
		ret = dlbuf_device_get_info(dev, &info);
	if (ret)
		return fail_dlbuf(ret);
	c->access_ns = median(v, ROUNDS);
	reducer = reducer_find(info.device.device_type);
	if (!reducer)
		return 0;
	status = reducer->open(dev, &ctx);
	if (status)
		return status;
	ret = dlbuf_acquire(tensor, DLBUF_READ, NULL, NULL);
	for (size_t i = 0; !ret && !status && i < READS; i++) {
		t = now_ns();
		status = reducer->reduce(ctx, &tensor, 1, TIMEOUT_NS, sum);
		v[i] = now_ns() - t;
	}
	if (!ret)
		ret = dlbuf_release(tensor, NULL, NULL);
	reducer->close(ctx);
	c->read_ns = median(v, READS);
	return ret ? fail_dlbuf(ret) : status;
}

static int on_device(struct dlbuf_device *dev, const int fds[FRESH],
		     const struct rows *rows, struct costs *c,
		     struct checksum *sum, enum dlbuf_path *path)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	DLManagedTensorVersioned *tensor;
	uint64_t first[FRESH], v[ROUNDS], t;
	int status = 0;

	for (size_t i = 0; i < FRESH + ROUNDS; i++) {
		t = now_ns();
		status = import(dev, fds[i < FRESH ? i : 0], rows, &tensor);
		if (status)
			return status;
		if (i < FRESH)
			first[i] = now_ns() - t;
		tensor->deleter(tensor);
		if (i >= FRESH)
			v[i - FRESH] = now_ns() - t;
	}
	c->first_ns = median(first, FRESH);
	c->cached_ns = median(v, ROUNDS);
	status = import(dev, fds[0], rows, &tensor);
	if (status)
		return status;
	if (!dlbuf_tensor_get_info(tensor, &info))
		*path = info.path;
	status = access_and_read(dev, tensor, c, sum);
	tensor->deleter(tensor);
	return status;
}

/* ---------------------------------------------------------------- results */

static void put_time(struct command *cmd, cJSON *o, const char *key, uint64_t ns)
{
	table_cell(&cmd->table, "%s", ns ? text_ns(ns).s : "-");
	if (ns)
		cJSON_AddNumberToObject(o, key, ns);
	else
		cJSON_AddNullToObject(o, key);
}

static void put(struct command *cmd, const char *exporter, const char *device,
		const char *path, const struct costs *c, const char *reason)
{
	double per_s = c->read_ns ? cmd->mib * 1048576e9 / c->read_ns : 0;
	cJSON *o = cJSON_CreateObject();

	table_cell(&cmd->table, "%s", exporter);
	table_cell(&cmd->table, "%s", device);
	table_cell(&cmd->table, "%s", path);
	cJSON_AddStringToObject(o, "exporter", exporter);
	cJSON_AddStringToObject(o, "device", device);
	cJSON_AddStringToObject(o, "path", path);
	cJSON_AddStringToObject(o, "reason", reason);
	put_time(cmd, o, "first_import_ns", c->first_ns);
	put_time(cmd, o, "cached_import_ns", c->cached_ns);
	put_time(cmd, o, "acquire_release_ns", c->access_ns);
	if (*reason)
		table_cell(&cmd->table, "%s", reason);
	else if (c->read_ns)
		table_cell(&cmd->table, "%.2f GB/s", per_s / 1e9);
	else
		table_cell(&cmd->table, "-");
	if (c->read_ns)
		cJSON_AddNumberToObject(o, "read_bytes_per_s", per_s);
	else
		cJSON_AddNullToObject(o, "read_bytes_per_s");
	cJSON_AddItemToArray(cmd->results, o);
}

static int measure(struct command *cmd, const char *exporter, const char *device,
		   const int fds[FRESH], const struct rows *rows,
		   struct checksum want)
{
	enum dlbuf_path path = DLBUF_PATH_DIRECT;
	struct checksum got = want;
	struct dlbuf_device *dev;
	struct costs c = { 0 };
	char reason[512] = "";
	int status;

	progress("measurement", cmd->done++, cmd->device.n * cmd->exporter.n);
	fail_divert(reason, sizeof(reason));
	status = dlbuf_device_open(device, NULL, &dev);
	if (status) {
		status = fail_dlbuf(status);
	} else {
		status = on_device(dev, fds, rows, &c, &got, &path);
		dlbuf_device_close(dev);
	}
	fail_divert(NULL, 0);
	make_printable(reason);
	if (!status && (got.sum != want.sum || got.hash != want.hash)) {
		snprintf(reason, sizeof(reason), "wrong: the device reads the sum "
			 "%08x, the CPU %08x", got.sum, want.sum);
		cmd->wrong++;
	}
	put(cmd, exporter, device, status ? "-" : dlbuf_path_name(path), &c,
	    reason);
	cmd->measured += !status;
	return interrupted ? fail(STATUS_SYSTEM, "interrupted") : 0;
}

static int with_exporter(struct command *cmd, const char *exporter)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter);
	struct rows rows = { .pitch = ROW, .bytes = ROW,
			     .rows = (cmd->mib << 20) / ROW };
	struct checksum sum = { 0 };
	struct costs hand = { 0 };
	int fds[FRESH], n = 0, status = 0;

	while (!status && n < FRESH) {
		status = dlbuf_alloc_fd(cmd->mib << 20, &opts, &fds[n]);
		n += !status;
	}
	if (status) {
		put(cmd, exporter, "-", "-", &hand, dlbuf_last_error());
		cmd->done += cmd->device.n;
		status = 0;
	} else {
		status = by_hand(fds, &rows, &hand, &sum);
		if (!status)
			put(cmd, exporter, "by hand", "-", &hand, "");
		for (unsigned int i = 0; !status && i < cmd->device.n; i++)
			status = measure(cmd, exporter, cmd->device.s[i], fds,
					 &rows, sum);
	}
	while (n)
		close(fds[--n]);
	return status;
}

/* ---------------------------------------------------------------- the command */

static void add_name(struct names *names, const char *name)
{
	if (names->n < MAX_NAMES)
		snprintf(names->s[names->n++], sizeof(names->s[0]), "%s", name);
}

static int add_device(const struct dlbuf_device_info *info, void *names)
{
	if (!info->status)
		add_name(names, info->name);
	return 0;
}

static int add_exporter(const struct dlbuf_exporter_info *info, void *names)
{
	if (!info->status)
		add_name(names, info->name);
	return 0;
}

/* True if a list was given, which is then in names. */
static bool split(struct names *names, const char *list)
{
	char *copy, *rest, *name;

	if (!strcmp(list, "all"))
		return false;
	copy = rest = strdup(list);
	while (copy && (name = strsep(&rest, ",")))
		add_name(names, name);
	free(copy);
	return true;
}

/* A name that can never be right is refused before anything is measured. */
static int check_names(const struct command *cmd)
{
	int fd, ret;

	for (unsigned int i = 0; i < cmd->exporter.n; i++) {
		DLBUF_OPTS(dlbuf_alloc_opts, opts,
			   .exporter = cmd->exporter.s[i]);

		ret = dlbuf_alloc_fd(1, &opts, &fd);
		if (ret == -EINVAL)
			return fail_dlbuf(ret);
		if (!ret)
			close(fd);
	}
	for (unsigned int i = 0; i < cmd->device.n; i++) {
		struct dlbuf_device *dev;

		ret = dlbuf_device_open(cmd->device.s[i], NULL, &dev);
		if (ret == -EINVAL)
			return fail_dlbuf(ret);
		if (!ret)
			dlbuf_device_close(dev);
	}
	return 0;
}

static int run(struct command *cmd)
{
	static const char *const heads[] = {
		"exporter", "device", "path", "first import", "import",
		"acquire+release", "read",
	};
	int status = 0;

	cmd->table = (struct table){ .ncolumns = ARRAY_SIZE(heads),
				     .right = 7 << 3 };
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		table_cell(&cmd->table, "%s", heads[i]);
	for (unsigned int i = 0; !status && i < cmd->exporter.n; i++)
		status = with_exporter(cmd, cmd->exporter.s[i]);
	progress_clear();
	if (!status && !json_alone(&cmd->json_to))
		table_print(&cmd->table);
	return status;
}

int bench_main(int argc, char **argv)
{
	struct command cmd = { .devices = "all", .exporters = "all", .mib = 8 };
	int status = opts_parse(&usage, &cmd, argc, argv);
	cJSON *root;

	if (status)
		return status;
	if (!split(&cmd.exporter, cmd.exporters))
		dlbuf_exporter_each(add_exporter, &cmd.exporter);
	if (!split(&cmd.device, cmd.devices))
		dlbuf_device_each(add_device, &cmd.device);
	status = check_names(&cmd);
	if (status)
		return status;
	root = cJSON_CreateObject();
	cJSON_AddStringToObject(root, "dlbuf", dlbuf_version());
	cJSON_AddNumberToObject(root, "bytes", cmd.mib << 20);
	cmd.results = cJSON_AddArrayToObject(root, "results");
	status = run(&cmd);
	if (!status && cmd.json_to.want)
		status = json_put(&cmd.json_to, root);
	cJSON_Delete(root);
	if (status)
		return status;
	if (cmd.wrong)
		return fail(STATUS_MISMATCH, "%u of %u devices read wrong bytes",
			    cmd.wrong, cmd.measured);
	return cmd.measured ? 0 : fail(STATUS_ABSENT, "nothing was measured: "
				       "no exporter works with a device");
}
