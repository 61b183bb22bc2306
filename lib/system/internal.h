/* SPDX-License-Identifier: MIT */
/* Used by every file of the library: errors, log, options. */
#ifndef DLBUF_INTERNAL_H
#define DLBUF_INTERNAL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <dlbuf/base.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* The pointer that is not taken makes the compiler check the type of ptr. */
#define container_of(ptr, type, member) \
	((type *)((char *)(1 ? (ptr) : &((type *)0)->member) - offsetof(type, member)))

/*
 * Walks over the strings of a list: "first\0" "second\0". The list is one array, because
 * a table of pointers needs a relocation for each.
 */
#define FOR_EACH_STRING(s, list) \
	for (const char *s = (list); *s; s += strlen(s) + 1)

/*
 * Sets the error text for dlbuf_last_error(), and returns err, a negative errno. "%m" in
 * fmt is the text of errno. The function that knows the cause calls it; its callers pass
 * the result on.
 */
#define fail(err, ...) negative(fail_with(err, __VA_ARGS__))
int fail_with(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), cold));

/*
 * fail() for a system call that has just set errno: appends the text of errno. EAGAIN
 * means a lack of resources here and becomes -ENOMEM. For "would block" use fail().
 */
#define fail_errno(...) negative(fail_with_errno(__VA_ARGS__))
int fail_with_errno(const char *fmt, ...) __attribute__((format(printf, 1, 2), cold));

/* Makes err < 0 visible to the compiler, so that it knows which results are not set. */
static inline int negative(int err)
{
	if (err >= 0)
		__builtin_unreachable();
	return err;
}

/* Returns -EINVAL for flags of `what` that the library does not know. */
int unknown_flags(const char *what, uint32_t flags) __attribute__((cold));

/* Whether the call failed because no fd or no memory is left. */
static inline bool lacks_room(int ret)
{
	return ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM;
}

/* Removes the error text of a failure that was handled. */
void forget_failure(void);

/* Keeps the first failure of several calls, and its error text. */
struct failure {
	int ret;		/* 0: none; set by the user */
	char said[256];
};

void failure_keep(struct failure *f, int ret) __attribute__((cold));
static inline void failure_note(struct failure *f, int ret)
{
	if (ret)
		failure_keep(f, ret);
}

/* Returns f->ret, and sets its error text again. */
int failure_report(const struct failure *f);

void log_at(enum dlbuf_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), cold));

/*
 * Copies a caller's options into ours. The caller's struct may be shorter, then the rest
 * is zero, or longer. src may be NULL: all is zero.
 * -EINVAL  size is not set, or a field that this library does not know is not zero
 */
int opts_get(void *ours, size_t ours_size, const void *src, const char *type);
#define OPTS_GET(ours, src, type) opts_get(ours, sizeof(*(ours)), src, type)

/* The same for options that end with `reserved`, which a later version may give a meaning. */
#define OPTS_GET_RESERVED(ours, src, type) __extension__ ({				\
	int got = OPTS_GET(ours, src, type);						\
	got ? got : (ours)->reserved ?							\
		fail(-EINVAL, "reserved of struct " type " is %u: it must be 0",	\
		     (ours)->reserved) : 0; })

/*
 * Copies our struct into a caller's, as much as fits its size, which stays as it is.
 * Fields that this library does not know become zero. The copy fails only if
 * INFO_CHECK() does; a function whose work cannot be undone calls INFO_CHECK() first.
 */
int size_check(size_t size, const char *type);
#define INFO_CHECK(dst, type) size_check((dst)->size, type)
int info_put(void *dst, const void *ours, size_t ours_size, const char *type);
#define INFO_PUT(dst, ours, type) info_put(dst, ours, sizeof(*(ours)), type)

/* For error texts: "0x34325258 'XR24'", in a buffer of the caller. */
struct code_text {
	char s[24];
};
struct code_text code_text(uint32_t code);

#endif /* DLBUF_INTERNAL_H */
