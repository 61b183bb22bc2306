/* SPDX-License-Identifier: MIT */
/* What every file of the library uses: failing, logging, options. */
#ifndef DLBUF_INTERNAL_H
#define DLBUF_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <dlbuf/base.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/*
 * For each string of a list: "first\0" "second\0". One array, because a table of
 * pointers needs a relocation for each.
 */
#define FOR_EACH_STRING(s, list) \
	for (const char *s = (list); *s; s += strlen(s) + 1)

/*
 * Keeps the sentence for dlbuf_last_error() and returns err, a negative
 * errno. Called by the leaf that knows the cause; callers up the stack pass
 * its result on. "%m" in fmt is the text of errno.
 */
#define fail(err, ...) negative(fail_with(err, __VA_ARGS__))
int fail_with(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), cold));

/*
 * fail() for a system call that has just set errno: appends its text. EAGAIN is
 * a lack of resources here and becomes -ENOMEM; who means "would block" says so
 * with fail().
 */
#define fail_errno(...) negative(fail_with_errno(__VA_ARGS__))
int fail_with_errno(const char *fmt, ...) __attribute__((format(printf, 1, 2), cold));

/* Tells the compiler, so that it sees which paths leave results unwritten. */
static inline int negative(int err)
{
	if (err >= 0)
		__builtin_unreachable();
	return err;
}

/* -EINVAL for the flags of `what` that the library does not know. */
int unknown_flags(const char *what, uint32_t flags) __attribute__((cold));

/* Forgets the sentence of a failure that was expected and handled. */
void forget_failure(void);

void log_at(enum dlbuf_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), cold));

/*
 * Copies a caller's options into ours; what it has not got is zero, src may be NULL.
 * The caller's struct may be shorter or longer than ours. -EINVAL: size is not
 * set, or something that this library does not know is not zero.
 */
int opts_get(void *ours, size_t ours_size, const void *src, const char *type);
#define OPTS_GET(ours, src, type) opts_get(ours, sizeof(*(ours)), src, type)

/*
 * Copies our struct out into a caller's, as much as fits its size. The size
 * is the caller's and is kept; what we do not know is zeroed. It fails only
 * where INFO_CHECK() does, which callers use whose work cannot be undone.
 */
int size_check(size_t size, const char *type);
#define INFO_CHECK(dst, type) size_check((dst)->size, type)
int info_put(void *dst, const void *ours, size_t ours_size, const char *type);
#define INFO_PUT(dst, ours, type) info_put(dst, ours, sizeof(*(ours)), type)

/* "0x34325258 'XR24'" for messages, in a buffer of the caller. */
struct code_text {
	char s[24];
};
struct code_text code_text(uint32_t code);

#endif /* DLBUF_INTERNAL_H */
