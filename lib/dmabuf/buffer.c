// SPDX-License-Identifier: MIT
/* Identifies dma-bufs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>

#include "../system/internal.h"
#include "../system/sys.h"
#include "buffer.h"

#define DMA_BUF_MAGIC_NUMBER 0x444d4142 /* linux/magic.h, "DMAB" */

int buffer_identify(int fd, struct buffer_id *id)
{
	struct stat st;
	int flags;

	if (sys_fstat(fd, &st) < 0)
		return fail_errno("fd %d: fstat()", fd);
	flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return fail_errno("fd %d: fcntl(F_GETFL)", fd);
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		id->access = DLBUF_READ;
		break;
	case O_WRONLY:
		id->access = DLBUF_WRITE;
		break;
	default:
		id->access = DLBUF_RW;
	}
	id->dev = st.st_dev;
	id->ino = st.st_ino;
	return 0;
}

int wrong_file(int ret, int fd, int callers, const char *want)
{
	char path[32], name[128];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	if (n < 0)
		return fail(ret, "fd %d is not a %s", callers, want);
	name[n] = '\0';
	return fail(ret, "fd %d is not a %s but '%s'", callers, want, name);
}

int buffer_size(int fd, int callers, uint64_t *bytes)
{
	struct statfs fs;
	off_t end;

	/*
	 * Before Linux 5.3 all dma-bufs had the same anonymous inode. They cannot
	 * be distinguished there, so they are refused.
	 */
	if (fault_hit() || fstatfs(fd, &fs) < 0)
		return fail_errno("fd %d: fstatfs()", callers);
	if ((unsigned long)fs.f_type != DMA_BUF_MAGIC_NUMBER)
		return wrong_file(-EBADF, fd, callers, "dma-buf");
	end = lseek(fd, 0, SEEK_END);
	if (fault_hit() || end < 0)
		return fail_errno("fd %d: lseek(SEEK_END)", callers);
	*bytes = end;
	return 0;
}

#ifndef F_DUPFD_QUERY /* linux/fcntl.h before 6.10 */
#define F_DUPFD_QUERY 1027
#endif

bool buffer_same_file(int a, int b)
{
	static bool absent; /* atomic */
	int ret;

	if (__atomic_load_n(&absent, __ATOMIC_RELAXED))
		return false;
	ret = fcntl(a, F_DUPFD_QUERY, b);
	if (ret < 0 && errno == EINVAL)
		__atomic_store_n(&absent, true, __ATOMIC_RELAXED);
	return ret == 1;
}

int dlbuf_buffer_query(int fd, struct dlbuf_buffer_info *info)
{
	struct dlbuf_buffer_info out = { 0 };
	struct buffer_id id;
	int ret;

	ret = buffer_identify(fd, &id);
	if (!ret)
		ret = buffer_size(fd, fd, &out.bytes);
	if (ret)
		return ret;
	out.dev = id.dev;
	out.ino = id.ino;
	out.access = id.access;
	return INFO_PUT(info, &out, "dlbuf_buffer_info");
}
