// SPDX-License-Identifier: MIT
/*
 * Syncobjs of fds that are no DRM node, which need no driver: the functions
 * refuse them, and leave nothing behind.
 */
#include <fcntl.h>
#include <sys/eventfd.h>

#include <dlbuf/dlbuf.h>

#include "common.h"
#include "emulated.h"
#include "ktap.h"

static void check_refused(int fd, int err)
{
	int fence = 77, signalled AUTO_FD = eventfd(1, EFD_CLOEXEC);

	for (uint64_t point = 0; point < 2; point++) {
		CHECK_ERR(dlbuf_syncobj_export(fd, 1, point, &fence), err);
		CHECK_ERR(dlbuf_syncobj_import(fd, 1, point, signalled), err);
		CHECK_ERR(dlbuf_syncobj_import(fd, 1, point, -1), err);
	}
	CHECK_SAYS(err == -EBADF ? "is not open" : "DRM_IOCTL_SYNCOBJ_CREATE");
	CHECK_EQ(fence, 77);
}

TEST(closed)
{
	int fd, high;

	need_machine();
	fd = memfd_create("a file", MFD_CLOEXEC);
	/* A number that nothing else is given meanwhile. */
	high = fcntl(fd, F_DUPFD_CLOEXEC, 500);
	close(fd);
	close(high);
	check_refused(high, -EBADF);
	check_refused(-1, -EBADF);
}

TEST(what_is_no_drm_node)
{
	int fd AUTO_FD = memfd_create("a file", MFD_CLOEXEC), pair[2], null AUTO_FD = -1;

	REQUIRE(!pipe2(pair, O_CLOEXEC));
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	check_refused(fd, -EOPNOTSUPP);
	check_refused(pair[0], -EOPNOTSUPP);
	check_refused(null, -EOPNOTSUPP);
	close(pair[0]);
	close(pair[1]);
}

TEST(wrong_arguments)
{
	int fd AUTO_FD = memfd_create("a file", MFD_CLOEXEC);

	CHECK_ERR(dlbuf_syncobj_export(fd, 1, 0, NULL), -EINVAL);
	CHECK_ERR(dlbuf_syncobj_export(fd, 1, 1, NULL), -EINVAL);
}

KTAP_MAIN()
