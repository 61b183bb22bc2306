// SPDX-License-Identifier: MIT
/* dmabuf-test fence: the command, and the processes that the cases run in. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "fence.h"
#include "opts.h"
#include "out.h"
#include "survey.h"
#include "tool.h"
#include "camera/v4l2.h"

#define MAX_NAMES 32
/* A case that is silent for so long counts as hung; slow cases take 10 s. */
#define LIMIT_MS 60000

/* An exporter or a device. */
struct subject {
	char name[64];
	int fd;			/* lent, or -1 */
	int status;		/* 0, or the error if it cannot be tested */
	char reason[256];
	const char *remark;	/* NULL: none */
};

struct subjects {
	struct subject s[MAX_NAMES];
	unsigned int n;
	/* With `all`: the ones that cannot be used, for the reason. */
	struct subject refused[MAX_NAMES];
	unsigned int nrefused;
};

struct command {
	const char *exporters, *devices, *node;
	bool slow, list;
	struct json_to json_to;
	char **patterns;

	struct camera cam;
	struct subjects exporter, device;
	unsigned int chosen, done, passed, failed, skipped;
	cJSON *json, *pairs, *cases, *notes;
};

/* ---------------------------------------------------------------- options */

static const struct opt options[] = {
	OPT_EXPORTER(struct command, exporters, "all"),
	OPT_DEVICE(struct command, devices, "all"),
	{ 'c', "camera", "NODE", "test a buffer of this V4L2 node",
	  .kind = OPT_TEXT, .to = offsetof(struct command, node) },
	{ 's', "slow", NULL, "also run cases that take 10 s",
	  .to = offsetof(struct command, slow) },
	{ 'l', "list", NULL, "only print the names of the cases; with -e, -c or -d\n"
	  "as exporter/device/case",
	  .to = offsetof(struct command, list) },
	OPT_JSON(struct command, json_to),
	OPT_END,
};

static const struct cmdline usage = {
	.name = "fence",
	.operands = "[CASE]...",
	.about =
"Tests fences with buffers of each exporter, on each device. poll() on the dma-buf,\n"
"the sync_file of the dma-buf, and the waits of dlbuf must agree in every state.\n"
"Prints KTAP. CASE is exporter/device/case, or only the case, with wildcards. Some\n"
"cases need a fence that has not signalled. vgem makes these fences, and is an\n"
"exporter here; without vgem such cases are skipped.\n",
	.end =
"Exit status: 0 all passed, 1 a case failed, 2 bad usage, 3 the run itself\n"
"failed, 4 all skipped.\n",
	.opts = options,
};

static bool puts_ktap(const struct command *cmd)
{
	return !json_alone(&cmd->json_to);
}

/* ---------------------------------------------------------------- subjects */

static int add_subject(struct subjects *list, const char *name, int status,
		       const char *reason)
{
	struct subject *s = &list->s[list->n];

	for (unsigned int i = 0; i < list->n; i++)
		if (!strcmp(list->s[i].name, name))
			return 0;
	if (list->n == MAX_NAMES)
		return fail(STATUS_USAGE, "more than %d exporters or devices",
			    MAX_NAMES);
	*s = (struct subject){ .fd = -1, .status = status };
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->reason, sizeof(s->reason), "%s", reason);
	list->n++;
	return 0;
}

static int add_refused(struct subjects *list, const char *name, int status,
		       const char *reason)
{
	struct subject *s = &list->refused[list->nrefused];

	if (list->nrefused == MAX_NAMES)
		return 0;
	s->status = status;
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->reason, sizeof(s->reason), "%s", reason);
	list->nrefused++;
	return 0;
}

static int none_of(const struct subjects *list, const char *what)
{
	char why[1024] = "";
	size_t n = 0;

	for (unsigned int i = 0; i < list->nrefused && n < sizeof(why); i++)
		n += snprintf(why + n, sizeof(why) - n, "%s%s: %s",
			      i ? "; " : "", list->refused[i].name,
			      reason_of(list->refused[i].name,
					list->refused[i].reason));
	return fail(STATUS_ABSENT, "no %s can be used: %s", what, why);
}

/* ---- devices, in processes that end: drivers do not survive a fork() */

static int add_device(const struct dlbuf_device_info *info, void *data)
{
	struct command *cmd = data;

	if (info->status == -EINVAL)
		return fail(STATUS_USAGE, "%s", info->reason);
	if (info->status && !strcmp(cmd->devices, "all"))
		return add_refused(&cmd->device, info->name, info->status,
				   info->reason);
	return add_subject(&cmd->device, info->name, info->status, info->reason);
}

/* ---- exporters */

static int add_exporter(const struct dlbuf_exporter_info *info, void *data)
{
	if (info->status)
		return add_refused(data, info->name, info->status,
				   info->reason);
	return add_subject(data, info->name, 0, "");
}

static int add_vgem(struct subjects *list, bool asked)
{
	struct vgem vgem;
	int status = 0;

	vgem_open(&vgem);
	if (vgem.fd >= 0 || asked)
		status = add_subject(list, "vgem",
				     vgem.fd < 0 ? -ENODEV : 0, vgem.reason);
	else
		add_refused(list, "vgem", -ENODEV, vgem.reason);
	vgem_close(&vgem);
	return status;
}

static int add_named(struct subjects *list, const char *name)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = name);
	int fd = -1, ret;

	if (!strcmp(name, "vgem"))
		return add_vgem(list, true);
	ret = dlbuf_alloc_fd(1, &opts, &fd);
	if (!ret)
		close(fd);
	if (ret == -EINVAL)
		return fail_dlbuf(ret);
	return add_subject(list, name, ret, ret ? dlbuf_last_error() : "");
}

static int add_exporters(struct command *cmd)
{
	char *copy, *rest, *name;
	int status = 0;

	if (!strcmp(cmd->exporters, "all")) {
		status = dlbuf_exporter_each(add_exporter, &cmd->exporter);
		return status ? status : add_vgem(&cmd->exporter, false);
	}
	copy = rest = strdup(cmd->exporters);
	if (!copy)
		return fail(STATUS_SYSTEM, "no memory for the exporters");
	while (!status && (name = strsep(&rest, ",")))
		status = add_named(&cmd->exporter, name);
	free(copy);
	return status;
}

/* The format does not matter, only the buffer. */
static int add_camera(struct command *cmd)
{
	DLBUF_OPTS(dlbuf_camera_opts, opts, .width = 640, .height = 480);
	struct camera *cam = &cmd->cam;
	struct subject *s;
	int status = camera_open(cam, cmd->node, &opts);

	if (!status)
		status = add_subject(&cmd->exporter, "camera", 0, "");
	if (status)
		return status;
	s = &cmd->exporter.s[cmd->exporter.n - 1];
	s->fd = cam->buffers[0][0].fd;
	s->remark = "V4L2 puts no fences on its buffers: VIDIOC_DQBUF is what "
		    "orders them. Those of these cases are imported";
	return 0;
}

static int find_exporters(struct command *cmd)
{
	int status = 0;

	if (!cmd->exporters && !cmd->node)
		cmd->exporters = "all";
	if (cmd->exporters)
		status = add_exporters(cmd);
	if (!status && cmd->node)
		status = add_camera(cmd);
	return status;
}

/* ---------------------------------------------------------------- cases */

static struct text_line {
	char s[192];
} case_name(const struct subject *e, const struct subject *d, unsigned int i)
{
	struct text_line t;

	snprintf(t.s, sizeof(t.s), "%s/%s/%s", e->name, d->name,
		 fence_cases[i].name);
	return t;
}

static bool chosen(const struct command *cmd, const struct subject *e,
		   const struct subject *d, unsigned int i)
{
	if (!*cmd->patterns)
		return true;
	for (char **p = cmd->patterns; *p; p++)
		if (!fnmatch(*p, case_name(e, d, i).s, 0) ||
		    !fnmatch(*p, fence_cases[i].name, 0))
			return true;
	return false;
}

/* Calls fn for each pair, in order; a status ends the walk. */
static int each_pair(struct command *cmd,
		     int (*fn)(struct command *cmd, const struct subject *e,
			       const struct subject *d))
{
	int status = 0;

	for (unsigned int e = 0; e < cmd->exporter.n; e++)
		for (unsigned int d = 0; d < cmd->device.n && !status; d++)
			status = fn(cmd, &cmd->exporter.s[e],
				    &cmd->device.s[d]);
	return status;
}

static int count_pair(struct command *cmd, const struct subject *e,
		      const struct subject *d)
{
	for (unsigned int i = 0; i < fence_ncases; i++) {
		if (!chosen(cmd, e, d, i))
			continue;
		cmd->chosen++;
		if (cmd->list)
			printf("%s\n", case_name(e, d, i).s);
	}
	return 0;
}

/* ---- the child's side */

struct message {
	bool result;		/* false: a note */
	bool failed, skipped;
	char text[400];
};

static void send_note(void *data, const char *line)
{
	struct message m = { .result = false };
	int *fd = data;
	ssize_t n;

	snprintf(m.text, sizeof(m.text), "%s", line);
	make_printable(m.text);
	n = write(*fd, &m, sizeof(m));
	(void)n;
}

static void send_result(int fd, const struct fence_run *r)
{
	struct message m = {
		.result = true,
		.failed = r->failures,
		.skipped = r->skipped,
	};
	ssize_t n;

	snprintf(m.text, sizeof(m.text), "%s", r->reason);
	make_printable(m.text);
	n = write(fd, &m, sizeof(m));
	(void)n;
}

static int open_device(struct fence_run *r, const char *name)
{
	int ret = dlbuf_device_open(name, NULL, &r->dev);

	r->info.size = sizeof(r->info);
	if (!ret)
		ret = dlbuf_device_get_info(r->dev, &r->info);
	return ret;
}

/* Runs case `first` and those after it, and before them the capabilities of the pair. */
static void run_child(const struct command *cmd, const struct subject *e,
		      const struct subject *d, unsigned int first, int fd)
{
	struct fence_run r = {
		.exporter = e->name,
		.lent = e->fd,
		.note = send_note,
		.data = &fd,
	};

	if (open_device(&r, d->name)) {
		send_note(&fd, dlbuf_last_error());
		_exit(1);
	}
	if (!first) {
		if (e->remark)
			send_note(&fd, e->remark);
		fence_capabilities(&r);
	}
	r.failures = 0;
	/* The end of the capabilities, which is case -1. */
	send_result(fd, &r);
	for (unsigned int i = first; i < fence_ncases; i++) {
		if (!chosen(cmd, e, d, i))
			continue;
		if (fence_cases[i].slow && !cmd->slow) {
			r.failures = 0;
			r.skipped = true;
			snprintf(r.reason, sizeof(r.reason),
				 "takes 10 s: --slow");
		} else {
			fence_case_run(&r, &fence_cases[i]);
		}
		send_result(fd, &r);
	}
	dlbuf_device_close(r.dev);
	_exit(CHILD_WELL);
}

/* ---- the parent's side */

static void put_note(struct command *cmd, const char *line)
{
	if (cmd->json_to.want)
		cJSON_AddItemToArray(cmd->notes, cJSON_CreateString(line));
	if (puts_ktap(cmd))
		printf("# %s\n", line);
}

static void put_json(struct command *cmd, const struct subject *e,
		     const struct subject *d, unsigned int i,
		     const char *result, const char *reason)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "name", case_name(e, d, i).s);
	cJSON_AddStringToObject(o, "exporter", e->name);
	cJSON_AddStringToObject(o, "device", d->name);
	cJSON_AddStringToObject(o, "case", fence_cases[i].name);
	cJSON_AddStringToObject(o, "result", result);
	cJSON_AddStringToObject(o, "reason", reason);
	cJSON_AddItemToObject(o, "notes", cmd->notes);
	cmd->notes = cJSON_CreateArray();
	cJSON_AddItemToArray(cmd->cases, o);
}

static void put_result(struct command *cmd, const struct subject *e,
		       const struct subject *d, unsigned int i,
		       const struct message *m)
{
	bool skipped = !m->failed && m->skipped;
	char reason[sizeof(m->text)];

	cmd->failed += m->failed;
	cmd->skipped += skipped;
	cmd->passed += !m->failed && !skipped;
	cmd->done++;
	snprintf(reason, sizeof(reason), "%s", skipped ? m->text : "");
	/* It would begin a directive of KTAP. */
	for (char *c = reason; (c = strchr(c, '#'));)
		*c = ' ';
	if (cmd->json_to.want)
		put_json(cmd, e, d, i, m->failed ? "fail" :
			 skipped ? "skip" : "pass", reason);
	if (puts_ktap(cmd))
		printf("%s %u - %s%s%s\n", m->failed ? "not ok" : "ok",
		       cmd->done, case_name(e, d, i).s,
		       skipped ? " # SKIP " : "", reason);
	if (!puts_ktap(cmd))
		progress("case", cmd->done, cmd->chosen);
	/* Without a reader there is no need to continue. */
	if (fflush(stdout))
		interrupted = true;
}

/* The capabilities of the pair, in JSON. */
static void put_pair(struct command *cmd, const struct subject *e,
		     const struct subject *d)
{
	cJSON *o;

	if (!cmd->json_to.want)
		return;
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "exporter", e->name);
	cJSON_AddStringToObject(o, "device", d->name);
	cJSON_AddItemToObject(o, "notes", cmd->notes);
	cmd->notes = cJSON_CreateArray();
	cJSON_AddItemToArray(cmd->pairs, o);
}

static unsigned int next_case(const struct command *cmd,
			      const struct subject *e, const struct subject *d,
			      unsigned int i)
{
	while (i < fence_ncases && !chosen(cmd, e, d, i))
		i++;
	return i;
}

/*
 * Runs one child, from case *next on. If the child crashes or hangs, its
 * current case has failed, and *next becomes the case after that.
 */
static int run_some(struct command *cmd, const struct subject *e,
		    const struct subject *d, unsigned int *next)
{
	struct message m = { .failed = true };
	bool ready = false;
	struct child_end end;
	int fd, got;
	pid_t pid = child_start(&fd);

	if (pid < 0)
		return STATUS_SYSTEM;
	if (!pid)
		run_child(cmd, e, d, *next, fd);
	while ((got = child_receive(fd, &m, sizeof(m), LIMIT_MS)) > 0) {
		if (!m.result) {
			put_note(cmd, m.text);
		} else if (!ready) {
			ready = true;
			if (!*next)
				put_pair(cmd, e, d);
			*next = next_case(cmd, e, d, *next);
		} else {
			put_result(cmd, e, d, *next, &m);
			*next = next_case(cmd, e, d, *next + 1);
		}
	}
	close(fd);
	end = child_reap(pid, got < 0, LIMIT_MS);
	if (ferror(stdout))
		return STATUS_SYSTEM;
	if (interrupted)
		return fail(STATUS_SYSTEM, "interrupted after %u of %u cases",
			    cmd->done, cmd->chosen);
	*next = next_case(cmd, e, d, *next);
	if (*next == fence_ncases) {
		/* A crash after the last case belongs to no case, and is a failure, too. */
		if (*end.text)
			return fail(STATUS_SYSTEM, "%s/%s, after the cases: "
				    "%s", e->name, d->name, end.text);
		return 0;
	}
	put_note(cmd, end.text);
	m = (struct message){ .failed = true };
	put_result(cmd, e, d, *next, &m);
	*next = next_case(cmd, e, d, *next + 1);
	return 0;
}

static int run_pair(struct command *cmd, const struct subject *e,
		    const struct subject *d)
{
	const struct subject *missing = e->status ? e : d->status ? d : NULL;
	unsigned int next = next_case(cmd, e, d, 0);
	int status = 0;

	if (next == fence_ncases)
		return 0;
	if (missing) {
		struct message m = { .skipped = true };

		snprintf(m.text, sizeof(m.text), "%s", missing->reason);
		for (; next < fence_ncases;
		     next = next_case(cmd, e, d, next + 1))
			put_result(cmd, e, d, next, &m);
		return 0;
	}
	if (puts_ktap(cmd))
		printf("# %s/%s\n", e->name, d->name);
	for (next = 0; !status && next < fence_ncases;)
		status = run_some(cmd, e, d, &next);
	return status;
}

static int finish_json(struct command *cmd)
{
	cJSON *totals = cJSON_AddObjectToObject(cmd->json, "totals");
	int status;

	cJSON_AddNumberToObject(totals, "pass", cmd->passed);
	cJSON_AddNumberToObject(totals, "fail", cmd->failed);
	cJSON_AddNumberToObject(totals, "skip", cmd->skipped);
	progress_clear();
	status = json_put(&cmd->json_to, cmd->json);
	cJSON_Delete(cmd->notes);
	cJSON_Delete(cmd->json);
	return status;
}

/* Reports an exporter or device that is present and cannot be used; the others are absent. */
static void put_refused(struct command *cmd, const struct subjects *list)
{
	char line[400];

	for (unsigned int i = 0; i < list->nrefused; i++) {
		const struct subject *s = &list->refused[i];

		if (s->status == -ENODEV || s->status == -ENOSYS)
			continue;
		snprintf(line, sizeof(line), "%s: %s", s->name,
			 reason_of(s->name, s->reason));
		put_note(cmd, line);
	}
}

static int run_cases(struct command *cmd)
{
	int status;

	if (cmd->json_to.want) {
		cmd->json = cJSON_CreateObject();
		cJSON_AddStringToObject(cmd->json, "dlbuf", dlbuf_version());
		cmd->pairs = cJSON_AddArrayToObject(cmd->json, "pairs");
		cmd->cases = cJSON_AddArrayToObject(cmd->json, "cases");
		cmd->notes = cJSON_CreateArray();
	}
	if (puts_ktap(cmd))
		printf("KTAP version 1\n1..%u\n", cmd->chosen);
	put_refused(cmd, &cmd->exporter);
	put_refused(cmd, &cmd->device);
	if (cmd->json_to.want) {
		cJSON_AddItemToObject(cmd->json, "refused", cmd->notes);
		cmd->notes = cJSON_CreateArray();
	}
	status = each_pair(cmd, run_pair);
	if (!status && puts_ktap(cmd))
		printf("# Totals: pass:%u fail:%u skip:%u\n", cmd->passed,
		       cmd->failed, cmd->skipped);
	if (!status && cmd->json_to.want)
		status = finish_json(cmd);
	if (status)
		return status;
	return cmd->failed ? STATUS_MISMATCH :
	       cmd->passed ? STATUS_VERIFIED : STATUS_ABSENT;
}

static int fail_pattern(const struct command *cmd)
{
	return fail(STATUS_USAGE, "no case is called '%s'; see --list",
		    cmd->patterns[0]);
}

/* Prints only the names of the cases, without exporters and devices. */
static int list_cases(const struct command *cmd)
{
	static const struct subject none = { .name = "" };
	unsigned int n = 0;

	for (unsigned int i = 0; i < fence_ncases; i++) {
		if (!chosen(cmd, &none, &none, i))
			continue;
		printf("%s\n", fence_cases[i].name);
		n++;
	}
	return n ? 0 : fail_pattern(cmd);
}

static int run(struct command *cmd)
{
	int status;

	if (cmd->list && cmd->json_to.want)
		return fail(STATUS_USAGE, "--list prints names and no JSON");
	if (cmd->list && !cmd->exporters && !cmd->node && !strcmp(cmd->devices, "all"))
		return list_cases(cmd);
	status = find_exporters(cmd);

	if (!status)
		status = survey_devices(cmd->devices, SURVEY_MS, add_device, cmd);
	if (status)
		return status;
	if (!cmd->exporter.n)
		return none_of(&cmd->exporter, "exporter");
	if (!cmd->device.n)
		return none_of(&cmd->device, "device");
	each_pair(cmd, count_pair);
	if (!cmd->chosen)
		return fail_pattern(cmd);
	return cmd->list ? 0 : run_cases(cmd);
}

int fence_main(int argc, char **argv)
{
	struct command cmd = { .devices = "all" };
	int status = opts_parse(&usage, &cmd, argc, argv);

	if (status)
		return status;
	cmd.patterns = argv + optind;
	status = run(&cmd);
	camera_close(&cmd.cam);
	return status;
}
