/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of dmabuf-test. Functions return 0 or an exit status. The
 * function that knows the cause has then printed the error text with fail(),
 * and its callers pass the status on.
 */
#ifndef DMABUF_TEST_TOOL_H
#define DMABUF_TEST_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum status {
	STATUS_VERIFIED = 0,
	STATUS_MISMATCH = 1,
	STATUS_USAGE = 2,	/* the command line can never be right */
	STATUS_SYSTEM = 3,	/* the camera, a device or a file failed */
	STATUS_ABSENT = 4,	/* not on this machine; kselftest's SKIP */
	/*
	 * The library refuses such a frame, with a reason. In a run of one
	 * format this is a failure; see STATUS_SYSTEM.
	 */
	STATUS_REFUSED = 256,
	STATUS_DONE = 257,	/* the help was printed; 0 to the shell */
};

/* Prints "dmabuf-test: " and the sentence; returns status. */
__attribute__((format(printf, 2, 3)))
int fail(int status, const char *fmt, ...);

/* Writes the error texts into a buffer, which keeps the last one; NULL: prints them again. */
void fail_divert(char *buffer, size_t size);

/* Prints the library's error text; err is the negative errno that it returned. */
int fail_dlbuf(int err);

/* A number of low..high for option `name`. */
int parse_number(const char *name, const char *s, unsigned long low,
		 unsigned long high, unsigned long *out);

/* "1280x720" of option --size. */
int parse_size(const char *name, const char *s, unsigned long most, unsigned long *width,
	       unsigned long *height);

/* The option that getopt_long() did not take; returns STATUS_USAGE. */
int fail_option(int opt, const char *command, char **argv);

/* DMA_BUF_IOCTL_SYNC with flags, DMA_BUF_SYNC_...; returns 0 or a status. */
int bracket(int fd, uint64_t flags);

/* CLOCK_MONOTONIC. */
uint64_t now_ns(void);
/* Sorts the n durations and returns the median; 0 if n is 0. */
uint64_t median_ns(uint64_t *ns, size_t n);

/* Repeats the call after a signal; -1 with errno. */
int ioctl_again(int fd, unsigned long request, void *arg);

/* Set by SIGINT, SIGTERM and SIGHUP, so that buffers are returned before the end. */
extern volatile bool interrupted;

/* The subcommands. */
int list_main(int argc, char **argv);
int camera_main(int argc, char **argv);
int fence_main(int argc, char **argv);
int formats_main(int argc, char **argv);
int alloc_main(int argc, char **argv);
int matrix_main(int argc, char **argv);

#endif /* DMABUF_TEST_TOOL_H */
