// SPDX-License-Identifier: MIT
/* dmabuf-test matrix: every exporter with every importer, each pair in a process of its own. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "matrix.h"
#include "opts.h"
#include "out.h"
#include "page.h"
#include "survey.h"

struct command {
	const char *exporters, *devices, *html_path;
	unsigned long soak_s, timeout_s;
	bool quick, dangerous, ktap, quiet;
	struct json_to json;

	struct outfile html_out;
	cJSON *root, *cells;
	unsigned int done, total;
};

/*
 * Pairs that crash kernels or lose writes; the first line that matches counts. Without a
 * reason a pair is safe.
 */
static const struct danger {
	const char *exporter, *importer, *driver, *why;
} dangers[] = {
	{ "device:cuda:*", "cpu", "*", NULL },
	{ "device:cuda:*", "cuda:*", "*", NULL },
	{ "device:cuda:*", "v4l2*", "*", "NVIDIA's kernel module takes every importer for a "
	  "PCI device, and reads what is no part of this one (nv_dma_buf_attach)" },
	{ "device:cuda:*", "drm:*", "vgem", "NVIDIA's kernel module takes every importer for a "
	  "PCI device, and reads what is no part of this one (nv_dma_buf_attach)" },
	{ "device:cuda:*", "*", "*", "writes of other devices to NVIDIA's memory were lost behind "
	  "an IOMMU (open-gpu-kernel-modules#1324)" },
	{ "udmabuf:2M", "v4l2:*", "vivid", "of a buffer of 2 MiB pages vivid writes only the "
	  "first 4 KiB (Linux 6.12)" },
};

/* ---------------------------------------------------------------- options */

static const struct opt options[] = {
	{ 'e', "exporter", "LIST", "exporters, separated by commas, with wildcards\n(all)",
	  .kind = OPT_LIST, .to = offsetof(struct command, exporters) },
	{ 'd', "device", "LIST", "importers in the same way; also a node,\n/dev/video0 (all)",
	  .kind = OPT_LIST, .to = offsetof(struct command, devices) },
	{ 'Q', "quick", NULL, "measure one size only",
	  .kind = OPT_FLAG, .to = offsetof(struct command, quick) },
	{ 'D', "dangerous", NULL, "also pairs known to crash kernels or to lose\nwrites",
	  .kind = OPT_FLAG, .to = offsetof(struct command, dangerous) },
	{ 'S', "soak", "SECONDS", "repeat each cell so long, and count fds, memory\nand errors",
	  .kind = OPT_NUMBER, .to = offsetof(struct command, soak_s), .low = 1, .high = 1000000 },
	{ 't', "timeout", "SECONDS", "how long a check may take before it hangs (30)",
	  .kind = OPT_NUMBER, .to = offsetof(struct command, timeout_s), .low = 1, .high = 100000 },
	OPT_JSON(struct command, json),
	{ 'H', "html", "FILE", "also write a page of HTML to FILE",
	  .kind = OPT_TEXT, .to = offsetof(struct command, html_path) },
	{ 'k', "ktap", NULL, "the results as KTAP, instead of a table",
	  .kind = OPT_FLAG, .to = offsetof(struct command, ktap) },
	{ 'q', "quiet", NULL, "print neither table nor progress",
	  .kind = OPT_FLAG, .to = offsetof(struct command, quiet) },
	OPT_END,
};

static const struct cmdline usage = {
	.name = "matrix",
	.about =
"Tests each exporter of dma-bufs with each importer: whether the import works and by\n"
"which path, whether both sides see the bytes that the other side wrote, whether\n"
"fences are waited for, what leaks, and how long it takes. Each pair runs in a\n"
"process of its own, so a driver that crashes or hangs costs one cell. With -v it\n"
"also prints each check, what is absent, and what drivers print.\n",
	.opts = options,
	.end =
"Exit status: 0 all ok or explained, 1 a cell is wrong, failed, leaked, crashed or\n"
"hung, 2 bad usage, 3 the run itself failed, 4 no cell could be tested.\n",
};

/* ---------------------------------------------------------------- lists */

/* A message of a child; NULL: it has ended, or it is stuck. */
static cJSON *receive(int fd, unsigned long limit_ms, bool *stuck)
{
	static char text[16384];
	ssize_t n = child_receive(fd, text, sizeof(text) - 1, limit_ms);

	*stuck = n < 0;
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	return cJSON_Parse(text);
}

static void put_list_failed(struct command *cmd, const char *what, const char *why)
{
	cJSON *o = cJSON_CreateObject();
	bool exporters = !strcmp(what, "exporters");

	cJSON_AddStringToObject(o, "name", what);
	cJSON_AddStringToObject(o, "kind", exporters ? "heap" : "device");
	cJSON_AddStringToObject(o, "node", "");
	cJSON_AddStringToObject(o, "driver", "");
	if (!exporters) {
		cJSON_AddStringToObject(o, "description", "");
		cJSON_AddBoolToObject(o, "software", false);
	}
	cJSON_AddBoolToObject(o, "double", false);
	cJSON_AddNumberToObject(o, "status", -EIO);
	cJSON_AddStringToObject(o, "reason", why);
	cJSON_AddItemToArray(cJSON_GetObjectItem(cmd->root, exporters ? what : "importers"), o);
	fail(0, "looking for %s: %s", what, why);
}

static int list(struct command *cmd, const char *what)
{
	const char *argv[] = { "dmabuf-test", "matrix", "--list", CHILD_FD, what,
			       cmd->devices, cmd->exporters, NULL };
	struct child_end end;
	cJSON *message, *item, *parties;
	bool stuck;
	int fd;
	pid_t pid = child_exec(argv, verbose, &fd);

	if (pid < 0)
		return STATUS_SYSTEM;
	while ((message = receive(fd, SURVEY_MS, &stuck))) {
		item = message->child;
		parties = cJSON_GetObjectItem(cmd->root, item->string);
		if (!party_named(parties, member_text(item, "name")))
			cJSON_AddItemToArray(parties,
					     cJSON_DetachItemViaPointer(message, item));
		cJSON_Delete(message);
	}
	close(fd);
	end = child_reap(pid, stuck, SURVEY_MS);
	if (interrupted)
		return fail(STATUS_SYSTEM, "interrupted");
	if (*end.text)
		put_list_failed(cmd, what, end.text);
	return 0;
}

/* A party that is absent, or whose driver has crashed, has the name of all of its kind. */
static bool matches(const char *pattern, const cJSON *party)
{
	const char *name = member_text(party, "name"), *node = member_text(party, "node");
	size_t len = strlen(name);

	return !strcmp(pattern, "all") || !fnmatch(pattern, name, 0) ||
	       (*node == '/' && !fnmatch(pattern, node, 0)) ||
	       (!strncmp(pattern, name, len) && pattern[len] == ':' &&
		cJSON_GetNumberValue(cJSON_GetObjectItem(party, "status")));
}

/* Keeps the exporters or importers that LIST names. */
static int select_parties(struct command *cmd, const char *member, const char *names)
{
	cJSON *parties = cJSON_GetObjectItem(cmd->root, member), *kept, *o, *next;
	char *copy = strdup(names), *rest = copy, *name;
	int status = 0;

	kept = cJSON_CreateArray();
	while (!status && (name = strsep(&rest, ","))) {
		bool found = false;

		for (o = parties->child; o; o = o->next)
			found |= matches(name, o);
		for (o = kept->child; o; o = o->next)
			found |= matches(name, o);
		for (o = parties->child; o; o = next) {
			next = o->next;
			if (matches(name, o))
				cJSON_AddItemToArray(kept,
						     cJSON_DetachItemViaPointer(parties, o));
		}
		if (!found && strcmp(name, "all"))
			status = fail(STATUS_USAGE, "none of the %s is called '%s'; see "
				      "dmabuf-test matrix -v", member, name);
	}
	cJSON_ReplaceItemInObject(cmd->root, member, kept);
	free(copy);
	return status;
}

static int find_parties(struct command *cmd)
{
	int status;

	cJSON_AddArrayToObject(cmd->root, "exporters");
	cJSON_AddArrayToObject(cmd->root, "importers");
	status = list(cmd, "exporters");
	for (size_t i = 0; !status && backends[i]; i++)
		status = list(cmd, backends[i]);
	if (!status)
		status = list(cmd, "nodes");
	if (!status)
		status = select_parties(cmd, "exporters", cmd->exporters);
	if (!status)
		status = select_parties(cmd, "importers", cmd->devices);
	return status;
}

/* ---------------------------------------------------------------- one cell */

static void put_text(cJSON *o, const char *name, const char *text)
{
	cJSON_DeleteItemFromObject(o, name);
	cJSON_AddStringToObject(o, name, text);
}

static const char *result_of(const cJSON *checks, const char *name)
{
	const cJSON *check;

	cJSON_ArrayForEach(check, checks)
		if (!strcmp(member_text(check, "name"), name))
			return member_text(check, "result");
	return "";
}

/*
 * The worst check is the cell's result. If no check is bad, the import's result counts: a
 * cell is refused or skipped only if the import is. If checks after a working import were
 * skipped, the cell is ok, and its reason names them.
 */
static void sum_up(cJSON *cell)
{
	static const char *const bad[] = { "wrong", "leaked", "failed" };
	cJSON *checks = cJSON_GetObjectItem(cell, "checks"), *check, *first = checks->child;
	const char *imported = result_of(checks, "import");
	char reason[640] = "";

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cJSON_ArrayForEach(check, checks)
			if (!strcmp(member_text(check, "result"), bad[i])) {
				snprintf(reason, sizeof(reason), "%s: %s",
					 member_text(check, "name"), member_text(check, "reason"));
				put_text(cell, "result", bad[i]);
				put_text(cell, "reason", reason);
				return;
			}
	if (strcmp(imported, "ok")) {
		put_text(cell, "result", first ? member_text(first, "result") : "failed");
		put_text(cell, "reason", first ? member_text(first, "reason") :
			 "nothing was tested");
		return;
	}
	put_text(cell, "result", "ok");
	cJSON_ArrayForEach(check, checks) {
		const char *name = member_text(check, "name");

		if (*member_text(check, "reason") &&
		    (!strcmp(name, "import") || !strcmp(name, "write-read") ||
		     !strcmp(name, "read-write"))) {
			put_text(cell, "reason", member_text(check, "reason"));
			return;
		}
	}
}

/* Adds what a child sent; *at is the check that has begun. */
static void merge(cJSON *cell, cJSON *message, char *at, size_t size)
{
	cJSON *item = message->child, *list;

	if (!item)
		return;
	if (!strcmp(item->string, "begin")) {
		snprintf(at, size, "%s", item->valuestring ? item->valuestring : "");
		return;
	}
	list = cJSON_GetObjectItem(cell, item->string);
	cJSON_DetachItemViaPointer(message, item);
	if (cJSON_IsArray(list))
		cJSON_AddItemToArray(list, item);
	else if (cJSON_IsNull(list))
		cJSON_ReplaceItemInObject(cell, list->string, item);
	else
		cJSON_Delete(item);
}

/* A crash or a hang belongs to the check that had begun. */
static void put_end(cJSON *cell, const struct child_end *end, const char *at)
{
	char reason[256];

	snprintf(reason, sizeof(reason), "%s: %s", at, end->text);
	put_text(cell, "result", end->stuck ? "hung" : end->signal ? "crashed" : "failed");
	put_text(cell, "reason", reason);
	if (end->signal)
		cJSON_ReplaceItemInObject(cell, "signal", cJSON_CreateNumber(end->signal));
}

static int run_child(struct command *cmd, cJSON *cell)
{
	char soak[16], at[64] = "";
	const char *argv[] = {
		"dmabuf-test", "matrix", "--cell", CHILD_FD,
		member_text(cell, "exporter"), member_text(cell, "importer"),
		cmd->quick ? "1" : "0", soak, NULL,
	};
	struct child_end end;
	cJSON *message;
	bool stuck;
	pid_t pid;
	int fd;

	snprintf(soak, sizeof(soak), "%lu", cmd->soak_s);
	pid = child_exec(argv, verbose, &fd);
	if (pid < 0)
		return STATUS_SYSTEM;
	while ((message = receive(fd, cmd->timeout_s * 1000, &stuck))) {
		merge(cell, message, at, sizeof(at));
		cJSON_Delete(message);
	}
	close(fd);
	end = child_reap(pid, stuck, cmd->timeout_s * 1000);
	sum_up(cell);
	if (interrupted) {
		put_text(cell, "result", "skipped");
		put_text(cell, "reason", "interrupted");
	} else if (end.stuck || end.signal ||
		   (*end.text && !strcmp(member_text(cell, "result"), "ok"))) {
		put_end(cell, &end, at);
	}
	return 0;
}

/* The reason why the pair is not tested, or NULL. */
static const char *why_not(const struct command *cmd, const cJSON *e, const cJSON *i)
{
	const char *exporter = member_text(e, "name"), *importer = member_text(i, "name");

	if (interrupted)
		return "interrupted";
	if (!strncmp(member_text(i, "kind"), "v4l2", 4) &&
	    !strcmp(member_text(e, "node"), member_text(i, "node")))
		return "a node has one queue: it does not import its own buffers";
	if (cmd->dangerous || cJSON_IsTrue(cJSON_GetObjectItem(e, "double")))
		return NULL;
	for (size_t n = 0; n < ARRAY_SIZE(dangers); n++)
		if (!fnmatch(dangers[n].exporter, exporter, 0) &&
		    !fnmatch(dangers[n].importer, importer, 0) &&
		    !fnmatch(dangers[n].driver, member_text(i, "driver"), 0))
			return dangers[n].why;
	return NULL;
}

static int run_cell(struct command *cmd, const cJSON *e, const cJSON *i)
{
	const char *why = why_not(cmd, e, i);
	cJSON *cell = cJSON_CreateObject();
	uint64_t start = now_ns();
	char what[192];
	int status = 0;

	snprintf(what, sizeof(what), "%s > %s, cell", member_text(e, "name"),
		 member_text(i, "name"));
	if (!cmd->quiet)
		progress(what, cmd->done, cmd->total);
	cmd->done++;
	cJSON_AddItemToArray(cmd->cells, cell);
	cJSON_AddStringToObject(cell, "exporter", member_text(e, "name"));
	cJSON_AddStringToObject(cell, "importer", member_text(i, "name"));
	cJSON_AddStringToObject(cell, "result", "skipped");
	cJSON_AddNullToObject(cell, "path");
	cJSON_AddStringToObject(cell, "reason", why ? why : "");
	cJSON_AddNullToObject(cell, "wrong");
	cJSON_AddNullToObject(cell, "signal");
	cJSON_AddArrayToObject(cell, "checks");
	cJSON_AddArrayToObject(cell, "costs");
	cJSON_AddArrayToObject(cell, "by_hand");
	cJSON_AddNullToObject(cell, "soak");
	if (!why)
		status = run_child(cmd, cell);
	cJSON_AddNumberToObject(cell, "seconds", (now_ns() - start) / 1000000 / 1e3);
	return status;
}

/* ---------------------------------------------------------------- all of it */

static void put_head(struct command *cmd)
{
	cJSON *o;
	time_t now = time(NULL);
	char when[32];

	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	cJSON_AddStringToObject(cmd->root, "dmabuf_test", "matrix");
	cJSON_AddNumberToObject(cmd->root, "format", 1);
	cJSON_AddStringToObject(cmd->root, "dlbuf", dlbuf_version());
	cJSON_AddStringToObject(cmd->root, "time", when);
	cJSON_AddItemToObject(cmd->root, "machine", machine_json());
	o = cJSON_AddObjectToObject(cmd->root, "options");
	cJSON_AddBoolToObject(o, "quick", cmd->quick);
	cJSON_AddBoolToObject(o, "dangerous", cmd->dangerous);
	cJSON_AddNumberToObject(o, "soak_s", cmd->soak_s);
	cJSON_AddNumberToObject(o, "timeout_s", cmd->timeout_s);
	cJSON_AddNumberToObject(o, "bytes", MATRIX_BYTES);
}

static unsigned int count_there(const cJSON *list)
{
	unsigned int n = 0;
	const cJSON *o;

	cJSON_ArrayForEach(o, list)
		n += !get_number(o, "status");
	return n;
}

static int run_cells(struct command *cmd)
{
	const cJSON *exporters = cJSON_GetObjectItem(cmd->root, "exporters"), *e;
	const cJSON *importers = cJSON_GetObjectItem(cmd->root, "importers"), *i;
	int status = 0;

	cmd->total = count_there(exporters) * count_there(importers);
	cmd->cells = cJSON_AddArrayToObject(cmd->root, "cells");
	cJSON_ArrayForEach(e, exporters)
		cJSON_ArrayForEach(i, importers)
			if (!status && !get_number(e, "status") && !get_number(i, "status"))
				status = run_cell(cmd, e, i);
	progress_clear();
	return status;
}

/* The exit status, by the numbers of cells with each result. */
static int put_summary(struct command *cmd)
{
	static const char *const names[] = { "ok", "wrong", "refused", "failed", "leaked",
					     "crashed", "hung", "skipped" };
	cJSON *summary = cJSON_AddObjectToObject(cmd->root, "summary");
	unsigned int tested = 0, bad = 0;
	const cJSON *cell;

	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		unsigned int count = 0;

		cJSON_ArrayForEach(cell, cmd->cells)
			count += !strcmp(member_text(cell, "result"), names[n]);
		cJSON_AddNumberToObject(summary, names[n], count);
		if (strcmp(names[n], "skipped"))
			tested += count;
		if (strcmp(names[n], "skipped") && strcmp(names[n], "ok") &&
		    strcmp(names[n], "refused"))
			bad += count;
	}
	return bad ? STATUS_MISMATCH : tested ? STATUS_VERIFIED : STATUS_ABSENT;
}

/* Writes the files, and prints. */
static int put_all(struct command *cmd)
{
	int status = 0;

	if (cmd->html_path)
		status = page_write(cmd->root, cmd->html_out.f);
	if (!status && cmd->html_path)
		status = outfile_commit(&cmd->html_out);
	if (!status && cmd->json.want)
		status = json_put(&cmd->json, cmd->root);
	if (status || json_alone(&cmd->json))
		return status;
	if (cmd->ktap)
		matrix_ktap(cmd->root);
	else if (!cmd->quiet)
		matrix_table(cmd->root, verbose);
	return 0;
}

/* If there is no cell: prints what to do about it. */
static int fail_nothing(const struct command *cmd)
{
	const cJSON *exporters = cJSON_GetObjectItem(cmd->root, "exporters"), *e;
	bool denied = false;

	if (count_there(exporters))
		return fail(STATUS_ABSENT, "no importer can be used; dmabuf-test list "
			    "says why");
	cJSON_ArrayForEach(e, exporters)
		denied |= get_number(e, "status") == -EACCES ||
			  get_number(e, "status") == -EPERM;
	if (denied)
		return fail(STATUS_ABSENT, "nothing can be tested without a dma-buf: run "
			    "this as root, or as a user who may open the exporters' "
			    "nodes, which dmabuf-test list names");
	return fail(STATUS_ABSENT, "nothing can be tested without a dma-buf, and no exporter "
		    "is here: load udmabuf (modprobe udmabuf), or use a kernel with "
		    "CONFIG_UDMABUF or CONFIG_DMABUF_HEAPS_SYSTEM");
}

static int run(struct command *cmd)
{
	int status = find_parties(cmd), written;

	if (!status)
		status = run_cells(cmd);
	if (status)
		return status;
	status = put_summary(cmd);
	written = put_all(cmd);
	if (interrupted)
		return fail(STATUS_SYSTEM, "interrupted at cell %u of %u", cmd->done,
			    cmd->total);
	if (!written && !cJSON_GetArraySize(cmd->cells))
		return fail_nothing(cmd);
	return written ? written : status;
}

int matrix_main(int argc, char **argv)
{
	struct command cmd = { .exporters = "all", .devices = "all", .timeout_s = 30 };
	int status;

	/* The entry of the program that child_exec() starts. */
	if (argc == 6 && !strcmp(argv[1], "--list"))
		return matrix_list_main(atoi(argv[2]), argv + 3);
	if (argc == 7 && !strcmp(argv[1], "--cell"))
		return matrix_cell_main(atoi(argv[2]), argv + 3);
	status = opts_parse(&usage, &cmd, argc, argv);
	if (!status && cmd.html_path)
		status = outfile_open(&cmd.html_out, cmd.html_path);
	if (status)
		return status;
	cmd.root = cJSON_CreateObject();
	put_head(&cmd);
	status = run(&cmd);
	outfile_abort(&cmd.html_out);
	cJSON_Delete(cmd.root);
	return status;
}
