// SPDX-License-Identifier: MIT
/* dmabuf-test: which dma-buf works with which importer on this machine. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <dlbuf/base.h>

#include "out.h"
#include "tool.h"

volatile bool interrupted;

static const char usage[] =
"usage: dmabuf-test list [--json]\n"
"       dmabuf-test camera [OPTION]... [NODE]\n"
"       dmabuf-test fence [OPTION]... [CASE]...\n"
"       dmabuf-test formats [OPTION]... [FORMAT]...\n"
"       dmabuf-test --help | --version\n"
"\n"
"Shows which exporters of dma-bufs work with which importers on this machine, by\n"
"which paths and how fast, and the reason for each that does not work.\n"
"\n"
"  list      lists exporters, importers and cameras, and why others are absent\n"
"  camera    imports a camera's frames on each device and compares every byte\n"
"  fence     tests that fences are waited for, with each exporter and device\n"
"  formats   lists the tensors of each pixel format, or why there are none\n"
"\n"
"  -h, --help       prints this text; after a command, its help\n"
"  -V, --version    prints the version\n"
"\n"
"Exit status: 0 all verified, 1 a verification failed, 2 bad usage,\n"
"3 the camera, a device or a file failed, 4 skipped: something that the\n"
"command needs is absent on this machine.\n";

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

int parse_size(const char *s, unsigned long *width, unsigned long *height)
{
	unsigned long w, h;
	char c;

	/* %lu takes a minus sign and spaces. */
	if (strspn(s, "0123456789x") == strlen(s) && *s != 'x' &&
	    strlen(s) < 16 && sscanf(s, "%lux%lu%c", &w, &h, &c) == 2 &&
	    w && w <= 65536 && h && h <= 65536) {
		*width = w;
		*height = h;
		return 0;
	}
	return fail(STATUS_USAGE, "--size is WxH in pixels, 1280x720 for "
		    "instance, not '%s'", s);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Of SIGPIPE, when the program began. */
static struct sigaction pipe_action;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = true;
}

static void catch_signals(void)
{
	/*
	 * No SA_RESTART: poll() has to return. Once only: a second signal
	 * ends a process that does not get on.
	 */
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	/*
	 * A write to a pipe that nobody reads fails instead, so that files in
	 * the making are removed and buffers given back.
	 */
	sa.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &sa, &pipe_action);
}

/*
 * Whether standard output is a pipe whose reader has gone, `| head` for
 * instance. Not by errno, which is that of the last write only.
 */
static bool nobody_reads(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return pipe_action.sa_handler != SIG_IGN && poll(&p, 1, 0) == 1 &&
	       p.revents & POLLERR;
}

/* A report that did not arrive, to a full disk for instance, is none. */
static int finish(int status)
{
	int err;

	if (!fflush(stdout) && !ferror(stdout))
		return status;
	err = errno;
	if (nobody_reads()) {
		/* The end that everybody expects. What is wrong stays so. */
		if (status != STATUS_MISMATCH) {
			sigaction(SIGPIPE, &pipe_action, NULL);
			raise(SIGPIPE);
		}
		return status;
	}
	fail(0, "standard output: %s", strerror(err));
	return status == STATUS_VERIFIED ? STATUS_SYSTEM : status;
}

static int run(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : NULL;

	if (!command)
		return fail(STATUS_USAGE, "list, camera, fence or formats? See "
			    "dmabuf-test --help");
	if (!strcmp(command, "--help") || !strcmp(command, "-h"))
		return fputs(usage, stdout) < 0 ? STATUS_SYSTEM : 0;
	if (!strcmp(command, "--version") || !strcmp(command, "-V")) {
		printf("dmabuf-test %s\n", dlbuf_version());
		return 0;
	}
	if (!strcmp(command, "list"))
		return list_main(argc - 1, argv + 1);
	if (!strcmp(command, "camera"))
		return camera_main(argc - 1, argv + 1);
	if (!strcmp(command, "fence"))
		return fence_main(argc - 1, argv + 1);
	if (!strcmp(command, "formats"))
		return formats_main(argc - 1, argv + 1);
	return fail(STATUS_USAGE, "'%s' is no command; see dmabuf-test --help",
		    command);
}

int main(int argc, char **argv)
{
	catch_signals();
	out_init();
	return finish(run(argc, argv));
}
