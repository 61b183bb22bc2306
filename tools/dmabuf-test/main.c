// SPDX-License-Identifier: MIT
/* dmabuf-test: which dma-buf works with which importer on this machine. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include <dlbuf/base.h>

#include "opts.h"
#include "out.h"
#include "tool.h"

volatile bool interrupted;

/* The commands, in the order of the help. */
static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *help;	/* one line, of 66 columns at most */
} commands[] = {
	{ "list", list_main,
	  "lists exporters, importers and cameras, and why others are absent" },
	{ "matrix", matrix_main,
	  "tests each exporter with each importer: path, bytes, fences, costs" },
	{ "camera", camera_main,
	  "imports a camera's frames on each device and compares every byte" },
	{ "fence", fence_main,
	  "tests that fences are waited for, with each exporter and device" },
	{ "formats", formats_main,
	  "lists the tensors of each pixel format, or why there are none" },
	{ "alloc", alloc_main,
	  "finds a buffer that devices and V4L2 nodes share, or who refuses" },
};

static int print_usage(void)
{
	fputs("usage: dmabuf-test COMMAND [OPTION]... [ARGUMENT]...\n"
	      "       dmabuf-test --help | --version\n"
	      "\n"
	      "Shows which exporters of dma-bufs work with which importers on this machine, by\n"
	      "which paths and how fast, and the reason for each that does not work.\n"
	      "\n", stdout);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-8s  %s\n", commands[i].name, commands[i].help);
	return fputs("\n"
	      "  -h, --help       prints this text; after a command, its help\n"
	      "  -V, --version    prints the version\n"
	      "\n"
	      "Exit status: 0 all verified, 1 a verification failed, 2 bad usage,\n"
	      "3 the camera, a device or a file failed, 4 skipped: something that the\n"
	      "command needs is absent on this machine.\n", stdout) < 0 ?
	       STATUS_SYSTEM : 0;
}

/* Without a command: prints all of them. */
static int fail_command(void)
{
	char names[256] = "";
	size_t n = ARRAY_SIZE(commands), len = 0;

	for (size_t i = 0; i < n; i++)
		len += snprintf(names + len, sizeof(names) - len, "%s%s",
				!i ? "" : i + 1 < n ? ", " : " or ",
				commands[i].name);
	return fail(STATUS_USAGE, "%s? See dmabuf-test --help", names);
}

static char *divert;
static size_t divert_size;

void fail_divert(char *buffer, size_t size)
{
	divert = buffer;
	divert_size = size;
}

int fail(int status, const char *fmt, ...)
{
	va_list ap;

	if (divert) {
		va_start(ap, fmt);
		vsnprintf(divert, divert_size, fmt, ap);
		va_end(ap);
		return status;
	}
	progress_clear();
	fflush(stdout);
	fputs("dmabuf-test: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return status;
}

int fail_dlbuf(int err)
{
	int status = err == -EINVAL ? STATUS_USAGE :
		     err == -ENOSYS || err == -ENODEV ||
		     err == -EOPNOTSUPP ? STATUS_ABSENT :
		     STATUS_SYSTEM;

	return fail(status, "%s", dlbuf_last_error());
}

int fail_option(int opt, const char *command, char **argv)
{
	const char *last = argv[optind - 1];

	if (opt == ':')
		return fail(STATUS_USAGE, "%s needs a value", last);
	/* A long option, or one letter of several behind one dash. */
	if (!strncmp(last, "--", 2) || !optopt)
		return fail(STATUS_USAGE, "%s is no option of %s; see "
			    "dmabuf-test %s --help", last, command, command);
	return fail(STATUS_USAGE, "-%c is no option of %s; see dmabuf-test %s "
		    "--help", optopt, command, command);
}

int parse_number(const char *name, const char *s, unsigned long low,
		 unsigned long high, unsigned long *out)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(s, &end, 10);
	/* strtoul() takes a minus sign and spaces. */
	if (*s < '0' || *s > '9' || *end || errno || n < low || n > high)
		return fail(STATUS_USAGE, "%s is a number of %lu to %lu, not "
			    "'%s'", name, low, high, s);
	*out = n;
	return 0;
}

int parse_size(const char *name, const char *s, unsigned long most, unsigned long *width,
	       unsigned long *height)
{
	unsigned long w, h;
	char c;

	/* %lu takes a minus sign and spaces. */
	if (strspn(s, "0123456789x") == strlen(s) && *s != 'x' &&
	    strlen(s) < 16 && sscanf(s, "%lux%lu%c", &w, &h, &c) == 2 &&
	    w && w <= most && h && h <= most) {
		*width = w;
		*height = h;
		return 0;
	}
	return fail(STATUS_USAGE, "%s is WxH, each 1 to %lu pixels, 1280x720 for "
		    "instance, not '%s'", name, most, s);
}

int bracket(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };
	int ret;

	do
		ret = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
	while (ret && (errno == EINTR || errno == EAGAIN));
	return ret ? fail(STATUS_SYSTEM, "DMA_BUF_IOCTL_SYNC: %s",
			  strerror(errno)) : 0;
}

int ioctl_again(int fd, unsigned long request, void *arg)
{
	int ret;

	do
		ret = ioctl(fd, request, arg);
	while (ret < 0 && errno == EINTR);
	return ret;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

uint64_t median_ns(uint64_t *ns, size_t n)
{
	if (!n)
		return 0;
	qsort(ns, n, sizeof(*ns), by_size);
	return n % 2 ? ns[n / 2] : (ns[n / 2 - 1] + ns[n / 2]) / 2;
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* The action of SIGPIPE when the program began. */
static struct sigaction pipe_action;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = true;
}

static void catch_signals(void)
{
	/*
	 * No SA_RESTART: poll() must return. The handler is for one signal: a
	 * second signal ends a process that is stuck.
	 */
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	/*
	 * A write to a pipe without a reader fails instead, so that unfinished
	 * files are removed and buffers are returned.
	 */
	sa.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &sa, &pipe_action);
}

/*
 * Whether standard output is a pipe whose reader has ended, `| head` for
 * instance. errno does not show this, because it is only that of the last
 * write.
 */
static bool nobody_reads(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return pipe_action.sa_handler != SIG_IGN && poll(&p, 1, 0) == 1 &&
	       p.revents & POLLERR;
}

/* A report that could not be written, on a full disk for instance, is a failure. */
static int finish(int status)
{
	int err;

	status = status == STATUS_DONE ? 0 : status;
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	err = errno;
	if (nobody_reads()) {
		/* Ends as other programs do. A wrong result stays wrong. */
		if (status != STATUS_MISMATCH) {
			sigaction(SIGPIPE, &pipe_action, NULL);
			raise(SIGPIPE);
		}
		return status;
	}
	fail(0, "standard output: %s", strerror(err));
	return status == STATUS_VERIFIED ? STATUS_SYSTEM : status;
}

static int complete(int argc, char **argv)
{
	char help[] = "--help";
	char *ask[] = { argv[0], help, NULL };

	complete_begin(argc, argv);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (argc == 1)
			complete_word(commands[i].name);
		else if (!strcmp(argv[0], commands[i].name))
			return commands[i].main(2, ask);
	if (argc == 1) {
		complete_word("--help");
		complete_word("--version");
	}
	return 0;
}

static int run(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : NULL;

	if (!command)
		return fail_command();
	if (!strcmp(command, "--help") || !strcmp(command, "-h"))
		return print_usage();
	if (!strcmp(command, "--version") || !strcmp(command, "-V")) {
		printf("dmabuf-test %s\n", dlbuf_version());
		return 0;
	}
	if (!strcmp(command, "--complete") && argc > 2)
		return complete(argc - 2, argv + 2);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(command, commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	return fail(STATUS_USAGE, "'%s' is no command; see dmabuf-test --help",
		    command);
}

int main(int argc, char **argv)
{
	catch_signals();
	out_init();
	return finish(run(argc, argv));
}
