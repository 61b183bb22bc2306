// SPDX-License-Identifier: MIT
/* Output: tables, progress, JSON, files that are complete or absent. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out.h"
#include "tool.h"

static bool colour, terminal, drawn;

void out_init(void)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool dumb = !term || !*term || !strcmp(term, "dumb");

	colour = isatty(STDOUT_FILENO) && !dumb && !(no_color && *no_color);
	terminal = isatty(STDERR_FILENO) && !dumb;
}

const char *style(enum style s)
{
	static const char *const codes[] = {
		[STYLE_OFF] = "\033[0m",
		[STYLE_BOLD] = "\033[1m",
		[STYLE_DIM] = "\033[2m",
		[STYLE_GOOD] = "\033[32m",
		[STYLE_BAD] = "\033[31m",
	};

	return colour ? codes[s] : "";
}

void table_cell(struct table *table, const char *fmt, ...)
{
	struct table_cell *cell;
	va_list ap;

	if (table->ncells == table->max) {
		unsigned int max = table->max ? table->max * 2 : 32;

		cell = realloc(table->cells, max * sizeof(*cell));
		if (!cell)
			return;
		table->cells = cell;
		table->max = max;
	}
	cell = &table->cells[table->ncells++];
	cell->style = STYLE_OFF;
	va_start(ap, fmt);
	if (vasprintf(&cell->text, fmt, ap) < 0)
		cell->text = NULL;
	va_end(ap);
}

void table_style(struct table *table, enum style s)
{
	if (table->ncells)
		table->cells[table->ncells - 1].style = s;
}

static const char *cell_text(const struct table *table, unsigned int i)
{
	const char *text = i < table->ncells ? table->cells[i].text : NULL;

	return text ? text : "";
}

static int column_width(const struct table *table, unsigned int column)
{
	size_t width = 0;

	for (unsigned int i = column; i < table->ncells; i += table->ncolumns)
		if (strlen(cell_text(table, i)) > width)
			width = strlen(cell_text(table, i));
	return width;
}

static void cell_print(const struct table *table, unsigned int i,
		       const int widths[])
{
	enum style s = i < table->ncolumns ? STYLE_DIM : table->cells[i].style;
	unsigned int column = i % table->ncolumns;
	bool last = column == table->ncolumns - 1;
	bool right = table->right >> column & 1;
	int width = last && !right ? 0 : widths[column];

	printf("  %s%*s%s%s", s == STYLE_OFF ? "" : style(s),
	       right ? width : -width, cell_text(table, i),
	       s == STYLE_OFF ? "" : style(STYLE_OFF), last ? "\n" : "");
}

void table_print(struct table *table)
{
	int widths[32] = { 0 };

	for (unsigned int i = 0; i < table->ncolumns && i < 32; i++)
		widths[i] = column_width(table, i);
	for (unsigned int i = 0; i < table->ncells; i++)
		cell_print(table, i, widths);
	for (unsigned int i = 0; i < table->ncells; i++)
		free(table->cells[i].text);
	free(table->cells);
	*table = (struct table){ .ncolumns = table->ncolumns };
}

struct text text_ns(uint64_t ns)
{
	struct text t;

	static const char *const units[] = { "us", "ms", "s" };
	double n = ns / 1e3;
	size_t unit = 0;

	for (; unit + 1 < ARRAY_SIZE(units) && n >= 999.5; n /= 1e3)
		unit++;
	/* Three digits: more would be noise. */
	snprintf(t.s, sizeof(t.s), "%.*f %s", n < 9.995 ? 2 : n < 99.95 ? 1 : 0,
		 n, units[unit]);
	return t;
}

struct text text_dtype(DLDataType type)
{
	static const char *const names[] = {
		[kDLInt] = "int",
		[kDLUInt] = "uint",
		[kDLFloat] = "float",
	};
	struct text t;

	snprintf(t.s, sizeof(t.s), "%s%u", type.code < ARRAY_SIZE(names) ?
		 names[type.code] : "code", type.bits);
	return t;
}

void put_dims(char *s, size_t size, const int64_t *dims, int n)
{
	size_t len = snprintf(s, size, "[");

	for (int i = 0; i < n && len < size; i++)
		len += snprintf(s + len, size - len, "%s%lld", i ? ", " : "",
				(long long)dims[i]);
	if (len < size)
		snprintf(s + len, size - len, "]");
}

const char *reason_of(const char *name, const char *reason)
{
	size_t n = strlen(name);

	return !strncmp(reason, name, n) && !strncmp(reason + n, ": ", 2) ?
	       reason + n + 2 : reason;
}

void make_printable(char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			*s = '?';
}

void progress(const char *what, uint64_t done, uint64_t total)
{
	static uint64_t last, first, first_done;
	uint64_t now = now_ns();

	if (!drawn) {
		first = now;
		first_done = done;
	}
	if (!terminal || now - last < 100000000)
		return;
	last = now;
	drawn = true;
	fprintf(stderr, "\r\033[K  %s %llu of %llu", what,
		(unsigned long long)done, (unsigned long long)total);
	/* An estimate of the first moments would be noise. */
	if (done > first_done && now - first > 2000000000)
		fprintf(stderr, ", %s left", text_ns((now - first) / (done - first_done) *
						     (total - done)).s);
}

void progress_clear(void)
{
	if (drawn)
		fputs("\r\033[K", stderr);
	drawn = false;
}

static int open_failed(struct outfile *out, const char *path)
{
	const char *why = errno == ENXIO ? "nobody reads it" : strerror(errno);

	free(out->temp);
	free(out->path);
	*out = (struct outfile){ 0 };
	return fail(STATUS_SYSTEM, "%s cannot be written: %s", path, why);
}

/* A device, or a FIFO: this does not wait for a reader, but writes at the reader's speed. */
static int open_special(struct outfile *out, const char *path)
{
	int fd = open(out->path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return open_failed(out, path);
	fcntl(fd, F_SETFL, 0);
	out->f = fdopen(fd, "w");
	if (out->f)
		return 0;
	close(fd);
	return open_failed(out, path);
}

/* A file without a name in the folder of out->path; -1: the file system has none. */
static int open_nameless(const struct outfile *out)
{
	const char *slash = strrchr(out->path, '/');
	char *dir;
	int fd;

	/* The path by which linkat() gives the file its name. */
	if (access("/proc/self/fd", X_OK))
		return -1;
	dir = slash == out->path ? strdup("/") : slash ?
	      strndup(out->path, slash - out->path) : strdup(".");
	fd = dir ? open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
	free(dir);
	return fd;
}

static int open_named(struct outfile *out)
{
	mode_t mask;
	int fd;

	if (asprintf(&out->temp, "%s.XXXXXX", out->path) < 0) {
		out->temp = NULL;
		return -1;
	}
	fd = mkostemp(out->temp, O_CLOEXEC);
	if (fd < 0)
		return -1;
	mask = umask(0);
	umask(mask);
	fchmod(fd, 0666 & ~mask);
	return fd;
}

int outfile_open(struct outfile *out, const char *path)
{
	bool replaces;
	struct stat st;
	int fd;

	*out = (struct outfile){ 0 };
	/* A symbolic link stays: its target is replaced. */
	out->path = realpath(path, NULL);
	if (!out->path)
		out->path = strdup(path);
	if (!out->path)
		return open_failed(out, path);
	replaces = !stat(out->path, &st);
	if (replaces && !S_ISREG(st.st_mode))
		return open_special(out, path);
	fd = open_nameless(out);
	out->nameless = fd >= 0;
	if (!out->nameless)
		fd = open_named(out);
	if (fd < 0)
		return open_failed(out, path);
	if (replaces)
		fchmod(fd, st.st_mode & 0777);
	out->f = fdopen(fd, "w");
	if (!out->f) {
		int err = errno;

		close(fd);
		if (out->temp)
			unlink(out->temp);
		errno = err;
		return open_failed(out, path);
	}
	return 0;
}

/* Gives the file a name beside out->path. Nothing replaces a file without a name of its own. */
static int give_name(struct outfile *out)
{
	char self[32];
	int ret = -1;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fileno(out->f));
	for (unsigned int i = 0; ret && i < 100; i++) {
		free(out->temp);
		if (asprintf(&out->temp, "%s.%d-%u", out->path, getpid(), i) < 0) {
			out->temp = NULL;
			return -1;
		}
		ret = linkat(AT_FDCWD, self, AT_FDCWD, out->temp, AT_SYMLINK_FOLLOW);
		if (ret && errno != EEXIST)
			break;
	}
	if (!ret)
		return 0;
	free(out->temp);
	out->temp = NULL;
	return -1;
}

void outfile_abort(struct outfile *out)
{
	if (out->f)
		fclose(out->f);
	if (out->temp)
		unlink(out->temp);
	free(out->temp);
	free(out->path);
	*out = (struct outfile){ 0 };
}

int outfile_flush(struct outfile *out)
{
	if (!fflush(out->f) && !ferror(out->f))
		return 0;
	return fail(STATUS_SYSTEM, "%s cannot be written: %s", out->path,
		    strerror(errno));
}

int outfile_commit(struct outfile *out)
{
	bool bad = ferror(out->f) || fflush(out->f);
	int status = 0;

	if (!bad && out->nameless)
		bad = give_name(out) != 0;
	bad |= fclose(out->f) != 0;
	out->f = NULL;
	if (!bad && out->temp)
		bad = rename(out->temp, out->path) != 0;
	if (bad) {
		status = fail(STATUS_SYSTEM, "%s cannot be written: %s",
			      out->path, strerror(errno));
	} else {
		free(out->temp);
		out->temp = NULL;
	}
	outfile_abort(out);
	return status;
}
