// SPDX-License-Identifier: MIT
/*
 * dmabuf-test report: what a bug report needs, as one file of Markdown that a person
 * can read before it is sent. The drivers are asked by other processes, so that a
 * driver that crashes costs a section only.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#include "grid.h"
#include "page.h"
#include "matrix.h"
#include "opts.h"
#include "tool.h"

/* ---------------------------------------------------------------- nothing private */

#define MAX_SECRETS 24
/* Shorter names would be found within words that are nobody's name. */
#define MIN_SECRET 3

struct secrets {
	struct { char *text; const char *label; } list[MAX_SECRETS];
	unsigned int n;
};

static void add_secret(struct secrets *s, const char *text, const char *label)
{
	if (!text || strlen(text) < MIN_SECRET || !strcmp(text, "root") ||
	    !strcmp(text, "/root") || !strcmp(text, "localhost") ||
	    s->n == MAX_SECRETS)
		return;
	s->list[s->n].text = strdup(text);
	if (s->list[s->n].text)
		s->list[s->n++].label = label;
}

/* The first line of a file; "": there is none to be read. */
static const char *first_line(const char *path)
{
	static char line[256];
	FILE *f = fopen(path, "re");

	if (!f || !fgets(line, sizeof(line), f))
		line[0] = '\0';
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static void find_secrets(struct secrets *s)
{
	static const char *const serials[] = {
		"/proc/device-tree/serial-number", "/etc/machine-id",
		"/sys/class/dmi/id/product_serial", "/sys/class/dmi/id/board_serial",
		"/sys/class/dmi/id/chassis_serial", "/sys/class/dmi/id/product_uuid",
	};
	static const char *const users[] = { "USER", "LOGNAME", "SUDO_USER" };
	const struct passwd *user = getpwuid(getuid());
	struct utsname name;

	*s = (struct secrets){ 0 };
	/* Before the user's name, which is a part of it. */
	add_secret(s, getenv("HOME"), "(home)");
	if (user) {
		add_secret(s, user->pw_dir, "(home)");
		add_secret(s, user->pw_name, "(user)");
	}
	for (size_t i = 0; i < ARRAY_SIZE(users); i++)
		add_secret(s, getenv(users[i]), "(user)");
	if (!uname(&name)) {
		add_secret(s, name.nodename, "(host)");
		name.nodename[strcspn(name.nodename, ".")] = '\0';
		add_secret(s, name.nodename, "(host)");
	}
	for (size_t i = 0; i < ARRAY_SIZE(serials); i++)
		add_secret(s, first_line(serials[i]), "(serial)");
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The length of what is like a pattern, in which x is a hexadecimal digit; or 0. */
static size_t is_like(const char *s, const char *pattern)
{
	size_t i = 0;

	for (; pattern[i]; i++)
		if (pattern[i] == 'x' ? !isxdigit((unsigned char)s[i]) : s[i] != pattern[i])
			return 0;
	return is_word(s[i]) ? 0 : i;
}

/* The length of what is private here, and what to write instead; or 0. */
static size_t private_at(const struct secrets *secrets, const char *s,
			 const char **label)
{
	static const struct { const char *like, *label; } patterns[] = {
		{ "xx:xx:xx:xx:xx:xx", "(address)" },
		{ "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "(uuid)" },
	};
	size_t n;

	for (unsigned int i = 0; i < secrets->n; i++) {
		n = strlen(secrets->list[i].text);
		*label = secrets->list[i].label;
		if (!strncmp(s, secrets->list[i].text, n) && !is_word(s[n]))
			return n;
	}
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		*label = patterns[i].label;
		n = is_like(s, patterns[i].like);
		if (n)
			return n;
	}
	*label = "(home)";
	return !strncmp(s, "/home/", 6) ? 6 + strcspn(s + 6, "/ \t\n\"'|:,;") : 0;
}

static void put_public(FILE *f, const char *s, const struct secrets *secrets)
{
	const char *label;
	char before = ' ';

	while (*s) {
		size_t n = is_word(before) ? 0 : private_at(secrets, s, &label);

		if (n) {
			fputs(label, f);
			s += n;
			before = ')';
		} else {
			before = *s++;
			putc(before, f);
		}
	}
}

/* ---------------------------------------------------------------- other programs */

/*
 * Runs a program and returns its output, new; its errors go where ours go. It is stopped after that
 * many seconds. *ended is 0, or what waitpid() says of another end.
 */
static char *output_of(const char *const *argv, unsigned int seconds, int *ended)
{
	char *text = NULL, buffer[4096];
	size_t size;
	ssize_t n;
	FILE *f;
	pid_t pid;
	int fds[2];

	*ended = -1;
	if (pipe2(fds, O_CLOEXEC))
		return NULL;
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		alarm(seconds);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(fds[1]);
	f = open_memstream(&text, &size);
	while (pid > 0 && f && ((n = read(fds[0], buffer, sizeof(buffer))) > 0 ||
				(n < 0 && errno == EINTR && !interrupted)))
		if (n > 0)
			fwrite(buffer, 1, n, f);
	if (f)
		fclose(f);
	close(fds[0]);
	if (pid > 0) {
		if (interrupted)
			kill(pid, SIGTERM);
		while (waitpid(pid, ended, 0) < 0 && errno == EINTR)
			;
	}
	return text;
}

/* The JSON of a command of this program, new; NULL: it made none. */
static cJSON *run_self(const char *command, const char *option, unsigned int seconds,
		       int *ended)
{
	const char *const argv[] = { "/proc/self/exe", command, "--json", option, NULL };
	char *text = output_of(argv, seconds, ended);
	cJSON *json = text ? cJSON_Parse(text) : NULL;

	free(text);
	return json;
}

static void put_ended(FILE *f, const char *command, int ended)
{
	if (WIFSIGNALED(ended))
		fprintf(f, "`%s` was ended by signal %d (%s).\n", command,
			WTERMSIG(ended), strsignal(WTERMSIG(ended)));
	else if (ended)
		fprintf(f, "`%s` ended with exit status %d.\n", command,
			WEXITSTATUS(ended));
}

/* ---------------------------------------------------------------- Markdown */

/* A cell of a table, or a part of a sentence. */
static void put_md(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (strchr("|\\`*<>[]", *s))
			putc('\\', f);
		putc((unsigned char)*s < ' ' || *s == 0x7f ? ' ' : *s, f);
	}
}

static void put_row(FILE *f, const char *const *cells, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fputs("| ", f);
		put_md(f, cells[i]);
		putc(' ', f);
	}
	fputs("|\n", f);
}

static void put_head(FILE *f, const char *const *cells, size_t n)
{
	put_row(f, cells, n);
	while (n--)
		fputs("|---", f);
	fputs("|\n", f);
}

/* A line for each member, and for each element of a list, so that files compare well. */
static void put_json(FILE *f, const char *title, const cJSON *json)
{
	const cJSON *item, *element;

	fprintf(f, "\n<details><summary>%s</summary>\n\n```json\n{\n", title);
	cJSON_ArrayForEach(item, json) {
		fprintf(f, "\"%s\": ", item->string);
		if (cJSON_IsArray(item))
			fputs("[\n", f);
		for (element = cJSON_IsArray(item) ? item->child : item; element;
		     element = cJSON_IsArray(item) ? element->next : NULL) {
			char *text = cJSON_PrintUnformatted(element);

			fprintf(f, "%s%s", text ? text : "null",
				!cJSON_IsArray(item) ? "" : element->next ? ",\n" : "\n]");
			cJSON_free(text);
		}
		if (cJSON_IsArray(item) && !item->child)
			fputs("]", f);
		fputs(item->next ? ",\n" : "\n", f);
	}
	fputs("}\n```\n\n</details>\n", f);
}

/* ---------------------------------------------------------------- sections */

static void put_machine(FILE *f, const cJSON *matrix)
{
	static const char *const heads[] = { "what", "value" };
	const cJSON *item, *other = member(matrix, "machine");
	cJSON *machine = machine_json();
	struct utsname name;

	fprintf(f, "## Machine\n\n");
	put_head(f, heads, ARRAY_SIZE(heads));
	cJSON_AddStringToObject(machine, "kernel's build", uname(&name) ? "" : name.version);
	cJSON_AddStringToObject(machine, "dlbuf", dlbuf_version());
	cJSON_ArrayForEach(item, machine) {
		char *text = cJSON_IsString(item) ? strdup(item->valuestring) :
			     cJSON_PrintUnformatted(item);

		put_row(f, (const char *const[]){ item->string, text ? text : "" }, 2);
		free(text);
	}
	if (other && strcmp(member_text(other, "kernel"), member_text(machine, "kernel")))
		fprintf(f, "\nThe matrix below is of another kernel or machine.\n");
	cJSON_Delete(machine);
}

/* Writes "yes, root:video 0660": whether this user may open the node, and who may. */
static void access_of(const char *node, const struct stat *st, char *s, size_t size)
{
	const struct passwd *user = getpwuid(st->st_uid);
	const struct group *group = getgrgid(st->st_gid);

	snprintf(s, size, "%s, %s:%s %04o", access(node, R_OK | W_OK) ? "no" : "yes",
		 user && !user->pw_uid ? user->pw_name : "(user)",
		 group ? group->gr_name : "?", st->st_mode & 07777);
}

/* The last part of where a link leads. */
static void link_name(const char *path, char *name, size_t size)
{
	char target[PATH_MAX] = "";

	if (readlink(path, target, sizeof(target) - 1) < 0)
		target[0] = '\0';
	snprintf(name, size, "%s", strrchr(target, '/') ? strrchr(target, '/') + 1 : "");
}

static void put_node(FILE *f, const char *node)
{
	char path[128], name[256], driver[64], version[256], who[128];
	struct stat st;

	if (stat(node, &st) || !S_ISCHR(st.st_mode))
		return;
	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/name", major(st.st_rdev),
		 minor(st.st_rdev));
	snprintf(name, sizeof(name), "%s", first_line(path));
	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/device/driver",
		 major(st.st_rdev), minor(st.st_rdev));
	link_name(path, driver, sizeof(driver));
	snprintf(path, sizeof(path), "/sys/module/%s/version", driver);
	snprintf(version, sizeof(version), "%s", *driver ? first_line(path) : "");
	access_of(node, &st, who, sizeof(who));
	put_row(f, (const char *const[]){ node, name, driver, version, who }, 5);
}

static void put_nodes(FILE *f)
{
	static const char *const patterns[] = {
		"/dev/udmabuf", "/dev/dma_heap/*", "/dev/dri/*", "/dev/video[0-9]*",
		"/dev/accel/*", "/dev/kfd", "/dev/nvidia[0-9]*", "/dev/nvidiactl",
		"/dev/nvmap", "/dev/fastrpc-*", "/dev/mali[0-9]*", "/dev/kgsl-3d0",
	};
	static const char *const heads[] = { "node", "name", "driver",
					     "its version", "may be opened" };
	glob_t nodes;

	fprintf(f, "\n## Device nodes\n\n");
	put_head(f, heads, ARRAY_SIZE(heads));
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		if (glob(patterns[i], 0, NULL, &nodes))
			continue;
		for (size_t k = 0; k < nodes.gl_pathc; k++)
			put_node(f, nodes.gl_pathv[k]);
		globfree(&nodes);
	}
}

/* The lines of a file that a function wants. */
static bool put_lines(FILE *to, FILE *from, bool (*wants)(const char *))
{
	char line[1024];
	bool any = false;

	while (from && fgets(line, sizeof(line), from)) {
		if (wants && !wants(line))
			continue;
		fputs(line, to);
		any = true;
	}
	return any;
}

static int put_fdinfo(const struct dlbuf_exporter_info *info, void *data)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = info->name);
	FILE *from, *f = data;
	char path[64];
	int fd;

	fprintf(f, "# %s\n", info->name);
	if (info->status || dlbuf_alloc_fd(1, &opts, &fd)) {
		fprintf(f, "%s\n", info->status ? info->reason : dlbuf_last_error());
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	from = fopen(path, "re");
	put_lines(f, from, NULL);
	if (from)
		fclose(from);
	close(fd);
	return 0;
}

static bool wants_symbol(const char *line)
{
	static const char *const prefixes[] = {
		"DMA_SHARED_BUFFER", "DMABUF_", "UDMABUF", "SYNC_FILE", "SW_SYNC",
		"DMA_CMA", "CMA", "DMA_API_DEBUG", "DRM", "VIDEOBUF2", "VIDEO_V4L2",
		"VIDEO_VIVID", "VIDEO_VIM2M", "V4L2_", "IOMMU", "HMM_MIRROR",
		"ZONE_DEVICE", "PCI_P2PDMA", "HUGETLBFS", "MEMFD_CREATE", "TEGRA_",
		"QCOM_FASTRPC", "DEBUG_FS",
	};

	if (strncmp(line, "CONFIG_", 7))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (!strncmp(line + 7, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static void put_config(FILE *f)
{
	static const char *const unpack[] = { "gzip", "-dc", "/proc/config.gz", NULL };
	struct utsname name;
	char path[128] = "";
	char *text = NULL;
	FILE *from;
	int ended;

	fprintf(f, "\n## Configuration of the kernel\n\n");
	if (!uname(&name))
		snprintf(path, sizeof(path), "/boot/config-%s", name.release);
	from = fopen(path, "re");
	if (!from && !access(unpack[2], R_OK)) {
		text = output_of(unpack, 10, &ended);
		from = text && *text ? fmemopen(text, strlen(text), "r") : NULL;
	}
	fputs("```\n", f);
	if (!put_lines(f, from, wants_symbol))
		fputs("neither /proc/config.gz nor /boot/config-* can be read\n", f);
	fputs("```\n", f);
	if (from)
		fclose(from);
	free(text);
}

/* "Command line" is the kernel's, and may have anything in it. */
static bool wants_message(const char *line)
{
	static const char *const words[] = {
		"dma-buf", "dma_buf", "dmabuf", "dma-heap", "dma_heap", "sync_file",
		"dma_fence", "drm", "vb2", "videobuf2",
	};

	if (strcasestr(line, "command line"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasestr(line, words[i]))
			return true;
	return false;
}

static void put_log(FILE *f)
{
	enum { READ_ALL = 3, SIZE_BUFFER = 10 };
	int size = klogctl(SIZE_BUFFER, NULL, 0);
	char *text = size > 0 ? calloc(1, size + 1) : NULL;
	FILE *from = NULL;

	fprintf(f, "\n## The kernel's log\n\nLines about dma-bufs, DRM and videobuf2.\n\n```\n");
	size = text ? klogctl(READ_ALL, text, size) : size;
	if (size > 0)
		from = fmemopen(text, size, "r");
	if (size < 0)
		fprintf(f, "it may not be read: %s\n", strerror(errno));
	else if (!put_lines(f, from, wants_message))
		fputs("none\n", f);
	fputs("```\n", f);
	if (from)
		fclose(from);
	free(text);
}

static void put_list(FILE *f)
{
	int ended;
	cJSON *list = run_self("list", NULL, 120, &ended);

	fprintf(f, "\n## Exporters, importers and cameras\n\n");
	put_ended(f, "dmabuf-test list --json", ended);
	put_json(f, "dmabuf-test list --json", list);
	cJSON_Delete(list);
}

/* ---------------------------------------------------------------- matrix */

static void put_grid(FILE *f, const struct grid *grid)
{
	fputs("| exporter |", f);
	for (uint32_t i = 0; i < grid->nimporters; i++) {
		const cJSON *importer = grid->importers[i];

		if (!grid_has_column(grid, i))
			continue;
		putc(' ', f);
		put_md(f, member_text(importer, "name"));
		fprintf(f, "%s%s |", member_true(importer, "software") ? " (software)" : "",
			member_true(importer, "double") ? " (double)" : "");
	}
	fputs("\n|---|", f);
	for (uint32_t i = 0; i < grid->nimporters; i++)
		if (grid_has_column(grid, i))
			fputs("---|", f);
	for (uint32_t e = 0; e < grid->nexporters; e++) {
		if (!grid_has_row(grid, e))
			continue;
		fputs("\n| ", f);
		put_md(f, member_text(grid->exporters[e], "name"));
		for (uint32_t i = 0; i < grid->nimporters; i++) {
			const char *path = member_text(grid_cell(grid, e, i), "path");

			if (!grid_has_column(grid, i))
				continue;
			fputs(" | ", f);
			put_md(f, member_text(grid_cell(grid, e, i), "result"));
			fputs(*path ? " " : "", f);
			put_md(f, path);
		}
		fputs(" |", f);
	}
	fputs("\n\n", f);
}

static void put_reasons(FILE *f, const struct grid *grid)
{
	static const char *const heads[] = { "exporter", "importer", "result", "reason" };
	const char *cells[ARRAY_SIZE(heads)];

	put_head(f, heads, ARRAY_SIZE(heads));
	for (uint32_t i = 0; i < grid->nexporters * grid->nimporters; i++) {
		if (!*member_text(grid->cells[i], "reason"))
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(heads); k++)
			cells[k] = member_text(grid->cells[i], heads[k]);
		put_row(f, cells, ARRAY_SIZE(heads));
	}
}

static void put_matrix(FILE *f, const cJSON *matrix)
{
	struct grid grid;

	if (grid_open(&grid, matrix, "the matrix"))
		return;
	fprintf(f, "\n## Matrix\n\nOf dlbuf %s, %s.\n\n", member_text(matrix, "dlbuf"),
		member_text(matrix, "time"));
	put_grid(f, &grid);
	put_reasons(f, &grid);
	put_json(f, "The matrix as JSON", matrix);
	grid_close(&grid);
}

/* ---------------------------------------------------------------- command */

/* The matrix comes from a file, or from a run; if the run fails, the report says how. */
static int get_matrix(const char *path, cJSON **matrix, int *ended)
{
	*ended = 0;
	if (path)
		return grid_read(path, matrix);
	*matrix = run_self("matrix", "--quick", 900, ended);
	/* Not all cells are right: that is the report's subject. */
	if (*matrix)
		*ended = 0;
	return interrupted ? fail(STATUS_SYSTEM, "interrupted") : 0;
}

static char *make_report(const cJSON *matrix, int ended)
{
	const char *board = member_text(member(matrix, "machine"), "board");
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fprintf(f, "# dma-bufs on ");
	put_md(f, *board ? board : "a machine");
	fprintf(f, "\n\nMade by `dmabuf-test report`. Names of the host and of users, serial "
		"numbers, addresses and\nUUIDs are left out.\n\n");
	put_machine(f, matrix);
	put_nodes(f);
	put_list(f);
	fprintf(f, "\n## fdinfo of a dma-buf of each exporter\n\n```\n");
	dlbuf_exporter_each(put_fdinfo, f);
	fprintf(f, "```\n");
	put_config(f);
	put_log(f);
	if (matrix)
		put_matrix(f, matrix);
	else
		fprintf(f, "\n## Matrix\n\n");
	put_ended(f, "dmabuf-test matrix --json --quick", ended);
	fclose(f);
	return text;
}

static int write_report(const cJSON *matrix, int ended, FILE *f)
{
	struct secrets secrets;
	char *text = make_report(matrix, ended);

	if (!text)
		return fail(STATUS_SYSTEM, "no memory for the report");
	find_secrets(&secrets);
	put_public(f, text, &secrets);
	while (secrets.n)
		free(secrets.list[--secrets.n].text);
	free(text);
	return 0;
}

static int write_all(const char *path, bool html, const char *output)
{
	struct outfile out = { .f = stdout };
	cJSON *matrix = NULL;
	int ended = 0, status = 0;

	if (output)
		status = outfile_open(&out, output);
	if (status)
		return status;
	status = get_matrix(path, &matrix, &ended);
	if (!status && html)
		status = page_write(matrix, out.f);
	else if (!status)
		status = write_report(matrix, ended, out.f);
	cJSON_Delete(matrix);
	if (output && !status)
		status = outfile_commit(&out);
	else if (output)
		outfile_abort(&out);
	return status;
}

struct command {
	const char *output;
	bool html;
};

static const struct opt options[] = {
	{ 'H', "html", NULL, "write MATRIX.json as a page of HTML instead",
	  .kind = OPT_FLAG, .to = offsetof(struct command, html) },
	{ 'o', "output", "FILE", "write to FILE instead of standard output",
	  .kind = OPT_TEXT, .to = offsetof(struct command, output) },
	OPT_END,
};

static const struct cmdline usage = {
	.name = "report",
	.operands = "[MATRIX.json]",
	.about =
"Writes what a bug report needs as one file of Markdown: the kernel and what it\n"
"logged about dma-bufs, the device nodes and their drivers, what `list --json`\n"
"prints, and the matrix of MATRIX.json. Without MATRIX.json it runs `matrix --quick`.\n"
"Names of the host and of the user, serial numbers and addresses are removed.\n",
	.opts = options,
	.end = "Exit status: 0, 2 bad usage, 3 a file cannot be read or written.\n",
};

int report_main(int argc, char **argv)
{
	struct command cmd = { .html = false };
	int status = opts_parse(&usage, &cmd, argc, argv);

	if (status)
		return status;
	if (argc - optind > 1)
		return fail(STATUS_USAGE, "report takes one file, not %d", argc - optind);
	if (cmd.html && optind == argc)
		return fail(STATUS_USAGE, "report --html needs the JSON of a matrix; "
			    "for a new one see dmabuf-test matrix --html");
	return write_all(argv[optind], cmd.html, cmd.output);
}
