// SPDX-License-Identifier: MIT
/* Error texts, and the log. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fork.h"
#include "internal.h"
#include "node.h"
#include "sys.h"

#define TEXT_BYTES 512

/* In a list, so that the child of a fork() can free those of the other threads. */
struct error_text {
	struct error_text *next, **prev;
	char text[TEXT_BYTES];
};

/*
 * The thread's error text. It is allocated at the thread's first failure and freed when
 * the thread ends. NULL: nothing has failed, or there was no memory for the text.
 *
 * The TLS model is initial-exec because that needs no __tls_get_addr(), and so no
 * second library. glibc reserves some bytes for such variables of libraries that are
 * opened with dlopen(); musl does not.
 */
#ifdef __GLIBC__
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local struct error_text *mine;

static struct {
	pthread_once_t once;
	pthread_key_t key;	/* has the text too; its destructor frees it */
	bool made, ended;
	pthread_mutex_t lock;
	struct error_text *first;
} threads = {
	.once = PTHREAD_ONCE_INIT,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

/* Under the lock. */
static void text_free(struct error_text *s)
{
	*s->prev = s->next;
	if (s->next)
		s->next->prev = s->prev;
	free(s);
}

static void thread_ends(void *data)
{
	mine = NULL;
	pthread_mutex_lock(&threads.lock);
	text_free(data);
	pthread_mutex_unlock(&threads.lock);
}

static void make_key(void)
{
	threads.made = !pthread_key_create(&threads.key, thread_ends);
}

static void forked(enum fork_side side);
static struct fork_handler fork_handler = { .fn = forked };

static void make_text(void)
{
	struct error_text *s;

	fork_handle(&fork_handler);
	pthread_once(&threads.once, make_key);
	/*
	 * A failure in a destructor that runs after forget_key() has a text, too, which is never
	 * freed.
	 */
	s = threads.made || threads.ended ? malloc(sizeof(*s)) : NULL;
	if (!s)
		return;
	if (threads.made && pthread_setspecific(threads.key, s)) {
		free(s);
		return;
	}
	pthread_mutex_lock(&threads.lock);
	s->next = threads.first;
	s->prev = &threads.first;
	if (s->next)
		s->next->prev = &s->next;
	threads.first = s;
	pthread_mutex_unlock(&threads.lock);
	mine = s;
}

static void forked(enum fork_side side)
{
	struct error_text *s, *next;

	if (side != FORK_CHILD)
		return;
	pthread_mutex_init(&threads.lock, NULL);
	/* At the fork another thread may have been changing the `prev` pointers. */
	for (s = threads.first; s; s = next) {
		next = s->next;
		if (s != mine)
			free(s);
	}
	threads.first = mine;
	if (mine) {
		mine->next = NULL;
		mine->prev = &threads.first;
	}
}

/* The library is unloaded. The texts of other threads are not freed. */
__attribute__((destructor))
static void forget_key(void)
{
	if (!threads.made)
		return;
	threads.made = false;
	threads.ended = true;
	pthread_key_delete(threads.key);
	if (mine)
		thread_ends(mine);
}

static dlbuf_log_fn log_fn;
static void *log_data;
static int log_level = -1; /* not yet read from the environment */

/* Texts quote names of files and drivers, which may have any characters. */
static void make_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

__attribute__((format(printf, 1, 0)))
static void vfail(const char *fmt, va_list ap)
{
	/* Not formatted in place, because an argument may be the old text. */
	char text[TEXT_BYTES];

	vsnprintf(text, sizeof(text), fmt, ap);
	make_one_line(text);
	if (!mine)
		make_text();
	if (mine)
		memcpy(mine->text, text, sizeof(text));
}

int fail_with(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfail(fmt, ap);
	va_end(ap);
	return err;
}

int (dlbuf_fail)(int err, const char *fmt, ...)
	__attribute__((alias("fail_with"), cold));

int fail_with_errno(const char *fmt, ...)
{
	int err = errno > 0 ? errno : EIO;
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	vfail(fmt, ap);
	va_end(ap);
	n = mine ? strlen(mine->text) : TEXT_BYTES;
	if (n < TEXT_BYTES)
		snprintf(mine->text + n, TEXT_BYTES - n, ": %s", strerror(err));
	/*
	 * -EAGAIN would mean that the caller should try again at once. ENOSPC is an error of
	 * epoll and of memfds.
	 */
	return err == EAGAIN || err == ENOSPC ? -ENOMEM : -err;
}

int unknown_flags(const char *what, uint32_t flags)
{
	return fail(-EINVAL, "%s flags 0x%x are unknown", what, flags);
}

void forget_failure(void)
{
	if (mine)
		mine->text[0] = '\0';
}

void failure_keep(struct failure *f, int ret)
{
	if (f->ret)
		return;
	f->ret = ret;
	snprintf(f->said, sizeof(f->said), "%s", dlbuf_last_error());
}

int failure_report(const struct failure *f)
{
	return f->ret ? fail(f->ret, "%s", f->said) : 0;
}

const char *dlbuf_last_error(void)
{
	return mine ? mine->text : "";
}

#define STRING2(x) #x
#define STRING(x) STRING2(x)

int fail_open(const char *path)
{
	char who[NODE_ACCESS];
	int err = errno;

	if (err == ENOENT || err == ENXIO || err == ENODEV)
		return fail(-ENODEV, "there is no %s on this machine", path);
	node_access(path, err, who);
	return *who ? fail(-err, "open(%s): %s%s", path, strerror(err), who) :
		      fail_errno("open(%s)", path);
}

const char *dlbuf_version(void)
{
	return STRING(DLBUF_VERSION_MAJOR) "." STRING(DLBUF_VERSION_MINOR) "."
	       STRING(DLBUF_VERSION_PATCH);
}

static int level_from_environment(void)
{
	const char *s = secure_getenv("DLBUF_LOG");
	int level = 0;

	FOR_EACH_STRING(name, "none\0" "error\0" "warn\0" "info\0" "debug\0") {
		if (s && !strcasecmp(s, name))
			return level;
		level++;
	}
	return DLBUF_LOG_WARN;
}

void dlbuf_log_set(dlbuf_log_fn fn, void *data, enum dlbuf_log_level level)
{
	int l = fn ? (int)level : level_from_environment();

	__atomic_store_n(&log_data, data, __ATOMIC_RELAXED);
	__atomic_store_n(&log_fn, fn, __ATOMIC_RELEASE);
	__atomic_store_n(&log_level, l, __ATOMIC_RELEASE);
}

void log_at(enum dlbuf_log_level level, const char *fmt, ...)
{
	NOT_CANCELLED;
	int limit = __atomic_load_n(&log_level, __ATOMIC_ACQUIRE);
	dlbuf_log_fn fn;
	char text[512];
	va_list ap;

	if (limit < 0) {
		limit = level_from_environment();
		__atomic_store_n(&log_level, limit, __ATOMIC_RELEASE);
	}
	if ((int)level > limit)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	make_one_line(text);
	fn = __atomic_load_n(&log_fn, __ATOMIC_ACQUIRE);
	if (fn)
		fn(__atomic_load_n(&log_data, __ATOMIC_RELAXED), level, text);
	else
		dprintf(STDERR_FILENO, "dlbuf: %s\n", text);
}

static bool all_zero(const unsigned char *p, size_t n)
{
	while (n--)
		if (*p++)
			return false;
	return true;
}

/* No struct is nearly that large, so such a size is not set either. */
int size_check(size_t size, const char *type)
{
	if (size >= sizeof(size) && size <= 4096)
		return 0;
	return fail(-EINVAL, "struct %s has a size of %zu: set it to "
		    "sizeof(struct %s)", type, size, type);
}

int opts_get(void *ours, size_t ours_size, const void *src, const char *type)
{
	size_t size, n;
	int ret;

	if (!src) {
		memset(ours, 0, ours_size);
		return 0;
	}
	memcpy(&size, src, sizeof(size));
	/* The usual case: the caller has the headers of this library version. */
	if (size == ours_size) {
		memcpy(ours, src, ours_size);
		return 0;
	}
	ret = size_check(size, type);
	if (ret)
		return ret;
	n = size < ours_size ? size : ours_size;
	memset((char *)ours + n, 0, ours_size - n);
	if (!all_zero((const unsigned char *)src + n, size - n))
		return fail(-EINVAL, "struct %s sets an option that dlbuf %s "
			    "does not know", type, dlbuf_version());
	memcpy(ours, src, n);
	memcpy(ours, &ours_size, sizeof(ours_size));
	return 0;
}

int info_put(void *dst, const void *ours, size_t ours_size, const char *type)
{
	size_t size, n;
	int ret;

	if (!dst)
		return fail(-EINVAL, "struct %s is NULL", type);
	memcpy(&size, dst, sizeof(size));
	ret = size_check(size, type);
	if (ret)
		return ret;
	n = size < ours_size ? size : ours_size;
	memset((char *)dst + sizeof(size), 0, size - sizeof(size));
	memcpy((char *)dst + sizeof(size), (const char *)ours + sizeof(size),
	       n - sizeof(size));
	return 0;
}

struct code_text code_text(uint32_t code)
{
	struct code_text t;
	char c[5] = { 0 };

	for (int i = 0; i < 4; i++) {
		c[i] = code >> (8 * i) & 0x7f;
		if (c[i] < ' ' || c[i] > '~')
			c[i] = '.';
	}
	snprintf(t.s, sizeof(t.s), "0x%08x '%s'", code, c);
	return t;
}
