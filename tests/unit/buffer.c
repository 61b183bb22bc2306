// SPDX-License-Identifier: MIT
/* A file that is not a dma-buf is refused, and the error text names it. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "common.h"
#include "ktap.h"

#include <dlbuf/dlbuf.h>

#include "dmabuf/buffer.h"
#include "system/internal.h"
#include "system/sys.h"

/* Every function that takes the fd of a dma-buf. */
static void check_refused(int fd, const char *says)
{
	struct dlbuf_buffer_info info = { .size = sizeof(info), .ino = 77 };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	DLBUF_OPTS(dlbuf_import_opts, rw, .access = DLBUF_RW);
	DLTensor layout = { .dtype = { kDLUInt, 8, 1 } };
	struct dlbuf_frame f = PICTURE(4, 4, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .planes = { { .fd = fd, .pitch = 4 } });
	struct dlbuf_device *cpu;
	uint32_t n = 77;

	CHECK_ERR_SAYS(dlbuf_buffer_query(fd, &info), -EBADF, says);
	CHECK_EQ(info.ino, 77);
	CHECK_ERR(dlbuf_buffer_query(fd, NULL), -EBADF);
#ifdef CONFIG_BACKEND_CPU
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	CHECK_ERR_SAYS(dlbuf_import(cpu, fd, &layout, NULL, &t[0]), -EBADF, says);
	/* Not "it was not opened for that". */
	CHECK_ERR_SAYS(dlbuf_import(cpu, fd, &layout, &rw, &t[0]), -EBADF, says);
	CHECK_ERR_SAYS(dlbuf_import_frame(cpu, &f, NULL, t, &n), -EBADF, says);
	CHECK_EQ(n, 77);
	CHECK(!t[0]);
	dlbuf_device_close(cpu);
#else
	(void)cpu, (void)n, (void)f, (void)layout, (void)t, (void)rw;
#endif
}

/* With the number that the sentence has, or the file's name. */
TEST(all_kinds)
{
	int closed = eventfd(0, EFD_CLOEXEC), pipes[2], socks[2];
	sigset_t none;

	sigemptyset(&none);
	REQUIRE(!pipe(pipes) && !socketpair(AF_UNIX, SOCK_STREAM, 0, socks));
	close(socks[1]);
	const struct {
		int fd;
		const char *says;
	} files[] = {
		{ pipes[0], "'pipe:[" },
		{ pipes[1], "'pipe:[" },
		{ socks[0], "'socket:[" },
		{ open("/tmp", O_PATH | O_CLOEXEC), "'/tmp'" },
		{ open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "'/tmp'" },
		{ open("/dev/null", O_RDWR | O_CLOEXEC), "'/dev/null'" },
		{ open("/dev/zero", O_RDONLY | O_CLOEXEC), "'/dev/zero'" },
		{ memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING), "'/memfd:frame" },
		{ eventfd(0, EFD_CLOEXEC), "is not a dma-buf" },
		{ epoll_create1(EPOLL_CLOEXEC), "is not a dma-buf" },
		{ timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), "is not a dma-buf" },
		{ signalfd(-1, &none, SFD_CLOEXEC), "is not a dma-buf" },
		{ inotify_init1(IN_CLOEXEC), "is not a dma-buf" },
	}, no_files[] = {
		{ -1, "fd -1" },
		{ AT_FDCWD, "fd -100" },
		{ INT_MIN, "fd -2147483648" },
		{ INT_MAX, "Bad file descriptor" },
		{ closed, "Bad file descriptor" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		REQUIRE(files[i].fd >= 0);
		check_refused(files[i].fd, files[i].says);
		close(files[i].fd);
	}
	close(closed);
	for (size_t i = 0; i < ARRAY_SIZE(no_files); i++)
		check_refused(no_files[i].fd, no_files[i].says);
}

TEST(files)
{
	char path[] = "/tmp/dlbuf-unit-XXXXXX";
	int fd AUTO_FD = mkstemp(path), reader, writer;

	REQUIRE(fd >= 0);
	check_refused(fd, path);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	writer = open(path, O_WRONLY | O_CLOEXEC);
	check_refused(reader, path);
	check_refused(writer, path);
	close(reader);
	close(writer);
	unlink(path);
	check_refused(fd, "(deleted)");
}

TEST(a_file_with_a_newline_in_its_name)
{
	char path[] = "/tmp/dlbuf\nunit-XXXXXX";
	int fd AUTO_FD = mkstemp(path);

	REQUIRE(fd >= 0);
	unlink(path);
	check_refused(fd, "/tmp/dlbuf?unit-");
}

TEST(standard_input_too)
{
	int kept = dup(0), fds[2];

	REQUIRE(!pipe(fds));
	CHECK_EQ(dup2(fds[0], 0), 0);
	check_refused(0, "fd 0");
	if (kept >= 0) {
		dup2(kept, 0);
		close(kept);
	} else {
		close(0);
	}
	close(fds[0]);
	close(fds[1]);
}

/* The first look is at the identity alone, and takes any fd. */
TEST(identity)
{
	int a AUTO_FD = memfd_create("a", MFD_CLOEXEC), b AUTO_FD, c AUTO_FD;
	struct buffer_id x = { 0 }, y = { 0 };
	char path[32];

	REQUIRE(a >= 0);
	b = dup(a);
	c = memfd_create("a", MFD_CLOEXEC);
	CHECK_OK(buffer_identify(a, &x));
	CHECK_EQ(x.access, DLBUF_RW);
	CHECK_OK(buffer_identify(b, &y));
	CHECK(x.dev == y.dev && x.ino == y.ino);
	CHECK_OK(buffer_identify(c, &y));
	CHECK(x.dev != y.dev || x.ino != y.ino);
	close(b);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", a);
	b = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_OK(buffer_identify(b, &y));
	CHECK_EQ(y.access, DLBUF_READ);
	CHECK(x.dev == y.dev && x.ino == y.ino);
	close(b);
	b = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_OK(buffer_identify(b, &y));
	CHECK_EQ(y.access, DLBUF_WRITE);
}

/* A bad layout is reported before the fd is checked, and the other way round. */
#ifdef CONFIG_BACKEND_CPU
TEST(two_mistakes_give_one_answer)
{
	DLTensor layout = { .ndim = -1, .dtype = { kDLUInt, 8, 1 } };
	DLManagedTensorVersioned *t = NULL;
	struct dlbuf_device *cpu AUTO_DEV;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	CHECK_ERR_SAYS(dlbuf_import(cpu, -1, &layout, NULL, &t), -EINVAL, "ndim");
	CHECK_ERR(dlbuf_import(NULL, -1, &layout, NULL, &t), -EINVAL);
	CHECK_ERR(dlbuf_import(cpu, -1, &layout, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_import(cpu, -1, NULL, NULL, &t), -EINVAL);
	CHECK(!t);
}
#endif

/* Drivers may close an fd that they refuse; another thread may have the number since. */
TEST(given_to_a_driver_and_refused)
{
	int own AUTO_FD = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int other AUTO_FD = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	int given AUTO_FD = sys_dup(own);

	sys_close_refused(given, own);
	CHECK_EQ(fcntl(given, F_GETFD), -1);
	sys_close_refused(given, own);
	REQUIRE(dup3(other, given, O_CLOEXEC) == given);
	sys_close_refused(given, own);
	CHECK_EQ(fcntl(given, F_GETFD), FD_CLOEXEC);
}

KTAP_MAIN()
