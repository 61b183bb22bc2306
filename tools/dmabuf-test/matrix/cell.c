// SPDX-License-Identifier: MIT
/* One cell of the matrix: an importer with an exporter's buffer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "child.h"
#include "fence/fence.h"
#include "matrix.h"
#include "out.h"

/* The number of rounds of a check that repeats something. */
#define ROUNDS 8
/* Number of bytes before and after a device's write that are compared, too. */
#define AROUND 4096
/* Bytes for checks that need only a part of the buffer. */
#define FEW (64u << 10)

static const char *const results[] = {
	[OK] = "ok", [SKIPPED] = "skipped", [REFUSED] = "refused", [FAILED] = "failed",
	[LEAKED] = "leaked", [WRONG] = "wrong",
};

/* ---------------------------------------------------------------- messages */

void child_send(int fd, const char *name, cJSON *o)
{
	cJSON *message = cJSON_CreateObject();
	char *text;

	cJSON_AddItemToObject(message, name, o);
	text = cJSON_PrintUnformatted(message);
	/* The command has ended, so no results are needed. */
	if (text && send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		_exit(1);
	cJSON_free(text);
	cJSON_Delete(message);
}

void cell_send(struct cell *c, const char *name, cJSON *o)
{
	child_send(c->fd, name, o);
}

void cell_set(struct cell *c, enum result result, const char *fmt, ...)
{
	va_list ap;

	if (result <= c->result)
		return;
	c->result = result;
	va_start(ap, fmt);
	vsnprintf(c->reason, sizeof(c->reason), fmt, ap);
	va_end(ap);
	make_printable(c->reason);
}

void cell_fail(struct cell *c)
{
	char said[sizeof(c->said)];

	snprintf(said, sizeof(said), "%s", c->said);
	cell_set(c, FAILED, "%s", said);
}

static void send_check(struct cell *c)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "name", c->check);
	cJSON_AddStringToObject(o, "result", results[c->result]);
	cJSON_AddStringToObject(o, "reason", c->reason);
	cell_send(c, "checks", o);
}

void cell_check(struct cell *c, const char *name, void (*fn)(struct cell *c))
{
	if (c->over)
		return;
	cell_send(c, "begin", cJSON_CreateString(name));
	c->check = name;
	c->result = OK;
	c->reason[0] = c->said[0] = '\0';
	fn(c);
	send_check(c);
	if (!strcmp(name, "import") && c->result != OK)
		c->over = true;
}

static void put_cost(cJSON *o, const char *name, uint64_t n)
{
	if (n)
		cJSON_AddNumberToObject(o, name, n);
	else
		cJSON_AddNullToObject(o, name);
}

static uint64_t per_second(uint64_t bytes, uint64_t ns)
{
	return ns ? bytes * 1e9 / ns : 0;
}

void cell_costs(struct cell *c, const char *list, const struct timing *timing)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "bytes", timing->bytes);
	put_cost(o, "first_import_ns", timing->first_import);
	put_cost(o, "cached_import_ns", timing->cached_import);
	put_cost(o, "acquire_release_ns", timing->acquire_release);
	put_cost(o, "read_bytes_per_s", per_second(timing->bytes, timing->read));
	put_cost(o, "write_bytes_per_s", per_second(timing->bytes, timing->write));
	cell_send(c, list, o);
}

/* ---------------------------------------------------------------- patterns */

/* A word for each offset and seed: bytes that are old, or of another page, differ. */
static uint32_t stamp(uint64_t offset, uint32_t seed)
{
	uint32_t n = offset / 4 * 2654435761u ^ seed * 40503u;

	return n ^ n >> 15;
}

void cell_pattern(struct cell *c, uint64_t from, uint64_t end)
{
	uint32_t word;

	c->seed++;
	for (uint64_t at = from & ~3ull; at < end; at += 4) {
		uint64_t first = at < from ? from : at;

		word = stamp(at, c->seed);
		memcpy(c->want + first, (char *)&word + (first - at),
		       (at + 4 > end ? end : at + 4) - first);
	}
}

static void put_hex(cJSON *o, const char *name, const uint8_t *bytes)
{
	char text[16];
	uint32_t word;

	memcpy(&word, bytes, 4);
	snprintf(text, sizeof(text), "0x%08x", word);
	cJSON_AddStringToObject(o, name, text);
}

bool cell_compare(struct cell *c, uint64_t from, uint64_t end)
{
	uint64_t at = from;
	cJSON *o;

	if (!memcmp(c->want + from, c->got + from, end - from))
		return true;
	while (c->want[at] == c->got[at])
		at++;
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "check", c->check);
	cJSON_AddNumberToObject(o, "offset", at);
	put_hex(o, "expected", c->want + at / 4 * 4);
	put_hex(o, "got", c->got + at / 4 * 4);
	cell_set(c, WRONG, "%s at offset %llu, page %llu, instead of %s",
		 member_text(o, "got"), (unsigned long long)at,
		 (unsigned long long)at / sysconf(_SC_PAGESIZE), member_text(o, "expected"));
	cell_send(c, "wrong", o);
	return false;
}

int cell_open(struct cell *c, uint64_t bytes)
{
	int status = buffer_open(&c->buffer, c->exporter, bytes);

	if (status)
		return status;
	c->want = malloc(c->buffer.bytes);
	c->got = malloc(c->buffer.bytes);
	return c->want && c->got ? 0 : fail(STATUS_SYSTEM, "no memory");
}

/* ---------------------------------------------------------------- the device's side */

/* Makes a tensor of the buffer; NULL: fail() has the reason. */
static DLManagedTensorVersioned *import_layout(struct cell *c, const DLTensor *layout,
					       uint32_t access)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .flags = c->flags, .access = access);
	DLManagedTensorVersioned *t = NULL;
	int ret = dlbuf_import(c->dev, c->buffer.fd, layout, &opts, &t);

	if (ret)
		fail_dlbuf(ret);
	return t;
}

/* `bytes` bytes from offset on, or all. */
static DLManagedTensorVersioned *import(struct cell *c, uint64_t offset, uint64_t bytes,
					uint32_t access)
{
	int64_t shape = bytes ? bytes : c->buffer.bytes;
	DLTensor layout = {
		.ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = &shape,
		.byte_offset = offset,
	};

	return import_layout(c, &layout, access);
}

static bool device_read(struct cell *c, DLManagedTensorVersioned *t, uint64_t from,
			uint64_t end)
{
	return !tensor_io(c->access, t, from, c->got + from, NULL, end - from);
}

static bool device_write(struct cell *c, DLManagedTensorVersioned *t, uint64_t from,
			 uint64_t end)
{
	return !tensor_io(c->access, t, from, NULL, c->want + from, end - from);
}

/* A new pattern, written by the exporter's side. */
static bool fill(struct cell *c, uint64_t from, uint64_t end)
{
	cell_pattern(c, from, end);
	return !buffer_write(&c->buffer, from, c->want + from, end - from);
}

/* Writes a new pattern to [from, end), and compares what the device reads there. */
static bool reads(struct cell *c, DLManagedTensorVersioned *t, uint64_t from, uint64_t end)
{
	if (fill(c, from, end) && device_read(c, t, from, end))
		return cell_compare(c, from, end);
	cell_fail(c);
	return false;
}

/* The device writes a new pattern to [from, end); nothing around it may change. */
static bool writes(struct cell *c, DLManagedTensorVersioned *t, uint64_t from, uint64_t end)
{
	uint64_t before = from < AROUND ? 0 : from - AROUND;
	uint64_t behind = end + AROUND > c->buffer.bytes ? c->buffer.bytes : end + AROUND;
	bool done = fill(c, before, behind);

	cell_pattern(c, from, end);
	if (done && device_write(c, t, from, end) &&
	    !buffer_read(&c->buffer, before, c->got + before, behind - before))
		return cell_compare(c, before, behind);
	cell_fail(c);
	return false;
}

static void delete(DLManagedTensorVersioned *t)
{
	if (t)
		t->deleter(t);
}

/* ---------------------------------------------------------------- checks */

/* Imports without a copy. If the device refuses, with a copy, and the reason is kept. */
static void import_check(struct cell *c)
{
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLManagedTensorVersioned *t = import(c, 0, 0, 0);
	char said[sizeof(c->said)];

	snprintf(said, sizeof(said), "%s", c->said);
	if (!t) {
		c->flags = DLBUF_IMPORT_MAY_COPY;
		t = import(c, 0, 0, 0);
	}
	if (!t) {
		cell_set(c, REFUSED, "%s", said);
		return;
	}
	if (c->flags)
		snprintf(c->reason, sizeof(c->reason), "copied, since: %.490s", said);
	make_printable(c->reason);
	if (dlbuf_tensor_get_info(t, &info))
		cell_set(c, FAILED, "%s", dlbuf_last_error());
	else
		cell_send(c, "path", cJSON_CreateString(dlbuf_path_name(info.path)));
	delete(t);
}

/* The number of pages that a device reads if it does not read all. */
static uint64_t pages_read(struct cell *c, DLManagedTensorVersioned *t)
{
	uint64_t page = sysconf(_SC_PAGESIZE), low = 0, high = c->buffer.bytes / page;

	while (high - low > 1) {
		uint64_t middle = (low + high) / 2;

		if (device_read(c, t, 0, middle * page))
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void write_read_check(struct cell *c)
{
	DLManagedTensorVersioned *t = import(c, 0, 0, 0);
	uint64_t pages;

	if (t && fill(c, 0, c->buffer.bytes) && !device_read(c, t, 0, c->buffer.bytes)) {
		pages = pages_read(c, t);
		if (pages)
			cell_set(c, FAILED, "the device reads only the first %llu of %llu "
				 "bytes", (unsigned long long)pages * sysconf(_SC_PAGESIZE),
				 (unsigned long long)c->buffer.bytes);
	}
	if (t)
		reads(c, t, 0, c->buffer.bytes);
	else
		cell_fail(c);
	delete(t);
}

static void untouched_check(struct cell *c)
{
	cell_set(c, SKIPPED, "this tool cannot make %s read or write", c->importer);
}

static void read_write_check(struct cell *c)
{
	DLManagedTensorVersioned *t = import(c, 0, 0, 0);

	if (t)
		writes(c, t, 0, c->buffer.bytes);
	else
		cell_fail(c);
	delete(t);
}

/* The tensor begins and ends in the middle of words and pages. */
static void odd_offset_check(struct cell *c)
{
	uint64_t from = 4099, end = c->buffer.bytes - 3;
	DLManagedTensorVersioned *t = import(c, from, end - from, 0);

	if (!t)
		cell_fail(c);
	else if (reads(c, t, from, end))
		writes(c, t, from + 2, from + 77);
	delete(t);
}

static void padded_pitch_check(struct cell *c)
{
	enum { WIDTH = 333, PITCH = 448, ROWS = 64, AT = 64 };
	int64_t shape[] = { ROWS, WIDTH }, strides[] = { PITCH, 1 };
	DLTensor layout = {
		.ndim = 2, .dtype = { kDLUInt, 8, 1 }, .shape = shape,
		.strides = strides, .byte_offset = AT,
	};
	DLManagedTensorVersioned *t = import_layout(c, &layout, 0);
	bool good = t != NULL;

	for (int y = 0; good && y < ROWS; y += 21)
		good = reads(c, t, AT + y * PITCH, AT + y * PITCH + WIDTH) &&
		       writes(c, t, AT + y * PITCH, AT + y * PITCH + WIDTH);
	if (!t)
		cell_fail(c);
	delete(t);
}

/* Two pages in the middle. */
static void sub_range_check(struct cell *c)
{
	uint64_t from = c->buffer.bytes / 4, end = from + 8192;
	DLManagedTensorVersioned *t = import(c, from, end - from, 0);
	DLBUF_INFO(dlbuf_tensor_info, info);

	if (!t || dlbuf_tensor_get_info(t, &info))
		cell_fail(c);
	else if (info.first != from || info.end != end)
		cell_set(c, WRONG, "the tensor's bytes are %llu to %llu, not %llu to %llu",
			 (unsigned long long)info.first, (unsigned long long)info.end,
			 (unsigned long long)from, (unsigned long long)end);
	else if (reads(c, t, from, end))
		writes(c, t, from, end);
	delete(t);
}

static void read_only_check(struct cell *c)
{
	DLManagedTensorVersioned *t = import(c, 0, 0, DLBUF_READ);

	if (!t)
		cell_set(c, REFUSED, "%s", c->said);
	else if (!(t->flags & DLPACK_FLAG_BITMASK_READ_ONLY))
		cell_set(c, FAILED, "the tensor does not say that it is read-only");
	else if (dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL) != -EACCES)
		cell_set(c, FAILED, "an access for writing is not refused");
	else
		reads(c, t, 0, FEW);
	delete(t);
}

/* ---- fences, by the cases of `dmabuf-test fence` */

static void keep_note(void *data, const char *line)
{
	struct cell *c = data;

	snprintf(c->said, sizeof(c->said), "%s", line);
}

static void fence_check(struct cell *c, const char *name)
{
	struct fence_run r = {
		.exporter = c->exporter, .lent = c->buffer.fd, .dev = c->dev,
		.info.size = sizeof(r.info), .note = keep_note, .data = c,
	};

	if (c->flags) {
		cell_set(c, SKIPPED, "the device has a copy of the buffer");
		return;
	}
	dlbuf_device_get_info(c->dev, &r.info);
	for (unsigned int i = 0; i < fence_ncases; i++)
		if (!strcmp(fence_cases[i].name, name))
			fence_case_run(&r, &fence_cases[i]);
	if (r.failures)
		cell_set(c, FAILED, "%s: %s", name, c->said);
	else if (r.skipped)
		cell_set(c, SKIPPED, "%s", r.reason);
}

/* An access waits for a fence of another user. */
static void fence_in_check(struct cell *c)
{
	fence_check(c, "write-fence-read");
	fence_check(c, "both-fences-write");
	fence_check(c, "write-signalled-read");
}

/* Other users wait for the access. */
static void fence_out_check(struct cell *c)
{
	fence_check(c, "release-write");
	fence_check(c, "release-fence-write");
}

/* ---- lifetimes */

/* Two tensors of one import, many times. */
static void repeated_check(struct cell *c)
{
	DLManagedTensorVersioned *first = import(c, 0, 0, 0), *t;

	for (int i = 0; first && i < ROUNDS && c->result < FAILED; i++) {
		t = import(c, 0, 0, 0);
		if (!t)
			cell_fail(c);
		else
			reads(c, i & 1 ? first : t, 0, 4096);
		delete(t);
	}
	if (!first)
		cell_fail(c);
	delete(first);
}

/* The number of the fd belongs to another file meanwhile. */
static void closed_fd_check(struct cell *c)
{
	int kept = c->buffer.fd, other;
	DLManagedTensorVersioned *t = NULL;

	c->buffer.fd = dup(kept);
	if (c->buffer.fd >= 0)
		t = import(c, 0, 0, 0);
	close(c->buffer.fd);
	other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	c->buffer.fd = kept;
	if (t)
		reads(c, t, 0, FEW);
	else
		cell_fail(c);
	delete(t);
	close(other);
}

/*
 * The exporter's side writes without the bracket, after the device has read: the device
 * may then read old bytes, which is no fault. With the bracket it must read the new ones.
 */
static void coherency_check(struct cell *c)
{
	DLManagedTensorVersioned *t = import(c, 0, 0, 0);
	bool same;

	if (!t || !reads(c, t, 0, FEW)) {
		cell_fail(c);
	} else if (!c->buffer.map) {
		cell_set(c, SKIPPED, "the CPU does not map the exporter's memory");
	} else {
		cell_pattern(c, 0, FEW);
		memcpy(c->buffer.map, c->want, FEW);
		if (!device_read(c, t, 0, FEW)) {
			cell_fail(c);
		} else {
			same = !memcmp(c->want, c->got, FEW);
			reads(c, t, 0, FEW);
			if (c->result == OK)
				snprintf(c->reason, sizeof(c->reason), "without the "
					 "bracket the device reads %s bytes too",
					 same ? "the new" : "old");
		}
	}
	delete(t);
}

static int count(const char *path, bool lines)
{
	FILE *f = lines ? fopen(path, "re") : NULL;
	DIR *dir = lines ? NULL : opendir(path);
	int n = 0, ch;

	while (f && (ch = getc(f)) != EOF)
		n += ch == '\n';
	while (dir && readdir(dir))
		n++;
	if (f)
		fclose(f);
	if (dir)
		closedir(dir);
	return n;
}

static uint64_t resident(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%*u %llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

static void import_anew(struct cell *c)
{
	DLManagedTensorVersioned *t = import(c, 0, 0, 0);

	if (t)
		reads(c, t, 0, 4096);
	else
		cell_fail(c);
	delete(t);
	dlbuf_device_trim(c->dev, 0);
	dlbuf_device_drain(c->dev, 0);
}

/*
 * A driver may keep resources from its first import on. Resources that each import adds are a
 * leak.
 */
static void leak_check(struct cell *c)
{
	int fds, maps;

	import_anew(c);
	import_anew(c);
	fds = count("/proc/self/fd", false);
	maps = count("/proc/self/maps", true);
	for (int i = 0; i < ROUNDS && c->result < FAILED; i++)
		import_anew(c);
	fds = count("/proc/self/fd", false) - fds;
	maps = count("/proc/self/maps", true) - maps;
	if (fds >= ROUNDS || maps >= ROUNDS)
		cell_set(c, LEAKED, "%d imports that were freed left %d fds and %d mappings",
			 ROUNDS, fds, maps);
}

/* The exporter's side frees first: the import keeps the memory. */
static void free_order_check(struct cell *c)
{
	DLManagedTensorVersioned *t = import(c, 0, 0, 0);
	uint64_t bytes = c->buffer.bytes;

	if (!t || !fill(c, 0, bytes)) {
		cell_fail(c);
	} else {
		buffer_close(&c->buffer);
		if (device_read(c, t, 0, bytes))
			cell_compare(c, 0, bytes);
		else
			cell_fail(c);
	}
	delete(t);
	dlbuf_device_trim(c->dev, 0);
	c->buffer.bytes = bytes;
}

/* ---------------------------------------------------------------- costs */

/* The number of calls for a median. */
static uint64_t median_of(bool (*fn)(struct cell *c, DLManagedTensorVersioned *t),
			  struct cell *c, DLManagedTensorVersioned *t)
{
	uint64_t ns[5];

	for (size_t i = 0; i < ARRAY_SIZE(ns); i++) {
		uint64_t start = now_ns();

		if (!fn(c, t))
			return 0;
		ns[i] = now_ns() - start;
	}
	return median_ns(ns, ARRAY_SIZE(ns));
}

static bool time_import(struct cell *c, DLManagedTensorVersioned *t)
{
	DLManagedTensorVersioned *again = import(c, 0, 0, 0);

	(void)t;
	delete(again);
	return again;
}

static bool time_access(struct cell *c, DLManagedTensorVersioned *t)
{
	(void)c;
	return !dlbuf_acquire(t, DLBUF_RW, NULL, NULL) && !dlbuf_release(t, NULL, NULL);
}

static bool time_read(struct cell *c, DLManagedTensorVersioned *t)
{
	return device_read(c, t, 0, c->buffer.bytes);
}

static bool time_write(struct cell *c, DLManagedTensorVersioned *t)
{
	return device_write(c, t, 0, c->buffer.bytes);
}

/* The same without dlbuf, by the CPU, in a mapping. */

static bool map_by_hand(struct cell *c, DLManagedTensorVersioned *t)
{
	void *p = mmap(NULL, c->buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       c->buffer.fd, 0);

	(void)t;
	return p != MAP_FAILED && !munmap(p, c->buffer.bytes);
}

static bool access_by_hand(struct cell *c, DLManagedTensorVersioned *t)
{
	(void)t;
	return !bracket(c->buffer.fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW) &&
	       !bracket(c->buffer.fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
}

static bool copy_by_hand(struct cell *c, void *to, const void *from, uint64_t flags)
{
	if (bracket(c->buffer.fd, DMA_BUF_SYNC_START | flags))
		return false;
	memcpy(to, from, c->buffer.bytes);
	return !bracket(c->buffer.fd, DMA_BUF_SYNC_END | flags);
}

static bool read_by_hand(struct cell *c, DLManagedTensorVersioned *t)
{
	(void)t;
	return copy_by_hand(c, c->got, c->hand, DMA_BUF_SYNC_READ);
}

static bool write_by_hand(struct cell *c, DLManagedTensorVersioned *t)
{
	(void)t;
	return copy_by_hand(c, c->hand, c->want, DMA_BUF_SYNC_WRITE);
}

/* There is no result for a buffer that cannot be mapped. */
static void measure_by_hand(struct cell *c)
{
	struct timing timing = { .bytes = c->buffer.bytes };
	uint64_t start = now_ns();

	c->hand = mmap(NULL, c->buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       c->buffer.fd, 0);
	timing.first_import = now_ns() - start;
	if (c->hand == MAP_FAILED)
		return;
	timing.cached_import = median_of(map_by_hand, c, NULL);
	timing.acquire_release = median_of(access_by_hand, c, NULL);
	timing.read = median_of(read_by_hand, c, NULL);
	timing.write = median_of(write_by_hand, c, NULL);
	munmap(c->hand, c->buffer.bytes);
	cell_costs(c, "by_hand", &timing);
}

static void measure(struct cell *c, uint64_t bytes)
{
	struct timing timing = { 0 };
	DLManagedTensorVersioned *t;
	uint64_t start;

	free(c->want);
	free(c->got);
	c->want = c->got = NULL;
	if (cell_open(c, bytes)) {
		cell_set(c, SKIPPED, "%llu bytes: %s", (unsigned long long)bytes, c->said);
		return;
	}
	timing.bytes = c->buffer.bytes;
	start = now_ns();
	t = import(c, 0, 0, 0);
	timing.first_import = now_ns() - start;
	if (t && fill(c, 0, c->buffer.bytes)) {
		timing.cached_import = median_of(time_import, c, t);
		timing.acquire_release = median_of(time_access, c, t);
		timing.read = median_of(time_read, c, t);
		timing.write = median_of(time_write, c, t);
		cell_costs(c, "costs", &timing);
		if (!strcmp(c->importer, "cpu"))
			measure_by_hand(c);
	} else {
		cell_fail(c);
	}
	delete(t);
	dlbuf_device_trim(c->dev, 0);
	buffer_close(&c->buffer);
}

static void costs_check(struct cell *c)
{
	static const uint64_t sizes[] = { MATRIX_BYTES, 64 << 10, 16 << 20 };
	bool fixed = !strncmp(c->exporter, "v4l2", 4);

	for (size_t i = 0; i < (c->quick || fixed ? 1 : ARRAY_SIZE(sizes)); i++)
		measure(c, sizes[i]);
}

/* ---------------------------------------------------------------- the soak */

/* Repeats the checks that use memory. Growth is counted from the end of the first run. */
static void soak_check(struct cell *c)
{
	uint64_t end = now_ns() + c->soak_s * 1000000000ull, start = now_ns(), bytes = 0;
	int fds = 0, runs = 0, errors = 0;
	cJSON *o = cJSON_CreateObject();

	do {
		enum result before = c->result;

		/* Each run has its own result; the worst one is kept. */
		c->result = OK;
		write_read_check(c);
		read_write_check(c);
		closed_fd_check(c);
		import_anew(c);
		errors += c->result > REFUSED;
		c->result = c->result > before ? c->result : before;
		if (!runs++) {
			fds = count("/proc/self/fd", false);
			bytes = resident();
		}
		cell_send(c, "begin", cJSON_CreateString(c->check));
	} while (now_ns() < end);
	fds = count("/proc/self/fd", false) - fds;
	cJSON_AddNumberToObject(o, "seconds", (now_ns() - start) / 1000000000);
	cJSON_AddNumberToObject(o, "runs", runs);
	cJSON_AddNumberToObject(o, "errors", errors);
	cJSON_AddNumberToObject(o, "fds_grown", fds);
	cJSON_AddNumberToObject(o, "bytes_grown", (double)resident() - (double)bytes);
	cell_send(c, "soak", o);
	if (runs > 1 && fds >= runs - 1)
		cell_set(c, LEAKED, "%d fds in %d runs", fds, runs);
}

/* ---------------------------------------------------------------- the cell */

static void device_cell(struct cell *c)
{
	int ret = dlbuf_device_open(c->importer, NULL, &c->dev);

	if (ret)
		fail_dlbuf(ret);
	if (ret || cell_open(c, MATRIX_BYTES)) {
		cell_fail(c);
		return;
	}
	cell_check(c, "import", import_check);
	cell_check(c, "write-read", c->access ? write_read_check : untouched_check);
	if (!c->access)
		return;
	cell_check(c, "read-write", read_write_check);
	cell_check(c, "odd-offset", odd_offset_check);
	cell_check(c, "padded-pitch", padded_pitch_check);
	cell_check(c, "sub-range", sub_range_check);
	cell_check(c, "read-only", read_only_check);
	cell_check(c, "fence-in", fence_in_check);
	cell_check(c, "fence-out", fence_out_check);
	cell_check(c, "repeated", repeated_check);
	cell_check(c, "closed-fd", closed_fd_check);
	cell_check(c, "coherency", coherency_check);
	cell_check(c, "leak", leak_check);
	if (c->soak_s)
		cell_check(c, "soak", soak_check);
	cell_check(c, "free-order", free_order_check);
	cell_check(c, "costs", costs_check);
	dlbuf_device_close(c->dev);
}

int matrix_cell_main(int fd, char **argv)
{
	struct cell c = {
		.fd = fd, .exporter = argv[0], .importer = argv[1],
		.quick = *argv[2] == '1', .soak_s = strtoul(argv[3], NULL, 10),
		.access = access_find(argv[1]), .check = "open",
		.buffer = NO_BUFFER,
	};

	fail_divert(c.said, sizeof(c.said));
	cell_send(&c, "begin", cJSON_CreateString(c.check));
	if (!strncmp(c.importer, "v4l2:", 5))
		v4l2_cell(&c, c.importer + 5, false);
	else if (!strncmp(c.importer, "v4l2-out:", 9))
		v4l2_cell(&c, c.importer + 9, true);
	else if (!strncmp(c.importer, "drm:", 4))
		drm_cell(&c, c.importer + 4);
	else
		device_cell(&c);
	/* A failure before the first check is a check of its own. */
	if (!strcmp(c.check, "open") && c.result)
		send_check(&c);
	cell_send(&c, "begin", cJSON_CreateString("end"));
	fail_divert(NULL, 0);
	buffer_close(&c.buffer);
	free(c.want);
	free(c.got);
	return CHILD_WELL;
}
