// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/verbs.h with real udmabufs, compiled against the real headers:
 *	cc verbs.c $(pkg-config --cflags --libs dlbuf libibverbs)
 * The functions that register are those of verbs_double.h, because no driver of the lab takes
 * dma-bufs. tests/interop/rdma runs rxe.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* The n-th allocation of the header fails, from 1; 0: none does. */
static unsigned int fail_calloc;

static void *test_calloc(size_t n, size_t size)
{
	return fail_calloc && !--fail_calloc ? NULL : calloc(n, size);
}
#define calloc(n, size) test_calloc(n, size)

/* The n-th mapping of the header fails with mmap_err. */
static unsigned int fail_mmap;
static int mmap_err;

static void *test_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (!fail_mmap || --fail_mmap)
		return mmap(at, size, prot, flags, fd, offset);
	errno = mmap_err;
	return MAP_FAILED;
}
#define mmap test_mmap

#include <linux/dma-heap.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/verbs.h>

#undef calloc
#undef mmap
#include "ktap.h"
#include "lab_module.h"
#include "interop/verbs_double.h"

#define BYTES (4 * PAGE)

/* ---- buffers and tensors */

static struct dlbuf_device *cpu;
static struct dlbuf_udmabuf mem;
static struct dlbuf_verbs *v;
static int fired;

static void begin(void)
{
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	REQUIRE_OK(dlbuf_udmabuf_create(BYTES, NULL, &mem));
	REQUIRE_OK(dlbuf_verbs_create(&pd, &v));
	fired = 0;
}

static void end(void)
{
	dlbuf_verbs_destroy(v);
	CHECK_EQ(stub.live, 0);
	dlbuf_udmabuf_close(&mem);
	dlbuf_device_close(cpu);
}

static DLManagedTensorVersioned *tensor(int ndim, int64_t *shape, int64_t *strides, uint64_t offset,
					uint32_t access)
{
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = access);
	DLTensor layout = { .ndim = ndim, .dtype = { kDLUInt, 16, 1 }, .shape = shape,
			    .strides = strides, .byte_offset = offset };
	DLManagedTensorVersioned *t;

	REQUIRE_OK(dlbuf_import(cpu, mem.fd, &layout, &opts, &t));
	return t;
}

static void give_back(void *data)
{
	(void)data;
	fired++;
}

/* A tensor of a frame, whose lease is `release`. */
static DLManagedTensorVersioned *leased(void (*release)(void *), void *data)
{
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = 64, .height = 16,
		.code = DLBUF_FOURCC('R', '8', ' ', ' '), .code_space = DLBUF_CODE_DRM,
		.nplanes = 1, .planes = { { .fd = mem.fd, .pitch = 64 } },
		.order = DLBUF_ORDER_COMPLETE, .release = release, .release_data = data,
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	REQUIRE_OK(dlbuf_import_frame(cpu, &frame, NULL, t, &n));
	REQUIRE(n == 1);
	return t[0];
}

static struct dlbuf_verbs_buffer *add(uint32_t access, uint32_t remote)
{
	struct dlbuf_verbs_buffer *b = NULL;

	REQUIRE_OK(dlbuf_verbs_add(v, mem.fd, mem.memfd, access, remote, &b));
	return b;
}

/* ---- cases: registration */

TEST_BETWEEN(dma_buf, begin(), end())
{
	static const struct {
		uint32_t access, remote;
		int flags;
	} rows[] = {
		{ DLBUF_READ, 0, 0 },
		{ DLBUF_RW, 0, IBV_ACCESS_LOCAL_WRITE },
		{ DLBUF_READ, DLBUF_READ, IBV_ACCESS_REMOTE_READ },
		{ DLBUF_RW, DLBUF_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
		{ DLBUF_RW, DLBUF_RW,
		  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct dlbuf_verbs_buffer *b = add(rows[i].access, rows[i].remote);

		CHECK_EQ(stub.flags, rows[i].flags);
		CHECK(!b->by_memfd && b->mr && b->bytes == BYTES);
		CHECK(stub.fd != mem.fd);
		/* The same buffer by another fd: the same region. */
		CHECK(add(rows[i].access, rows[i].remote) == b);
		CHECK_EQ(stub.dmabuf_calls, i + 1);
		dlbuf_verbs_remove(b);
		CHECK_EQ(stub.live, 1);
		dlbuf_verbs_remove(b);
		CHECK_EQ(stub.live, 0);
	}
	CHECK_EQ(stub.mr_calls, 0);
	dlbuf_verbs_remove(NULL);
}

TEST_BETWEEN(memfd, begin(), end())
{
	struct dlbuf_verbs_buffer *b;
	uint8_t *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mem.memfd, 0);

	REQUIRE(map != MAP_FAILED);
	for (unsigned int i = 0; i < BYTES; i++)
		map[i] = (uint8_t)(i * 7);
	stub.dmabuf_err = EOPNOTSUPP;
	REQUIRE(lseek(mem.memfd, 5, SEEK_SET) == 5);
	b = add(DLBUF_RW, DLBUF_WRITE);
	CHECK(b->by_memfd && b->mr->addr);
	CHECK_EQ(stub.flags, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	/* The comparison leaves the bytes. */
	for (unsigned int i = 0; i < BYTES; i++)
		if (!CHECK_EQ(map[i], (uint8_t)(i * 7)))
			break;
	munmap(map, BYTES);
	dlbuf_verbs_remove(b);
	CHECK_EQ(stub.live, 0);
	b = add(DLBUF_READ, DLBUF_READ);
	CHECK_EQ(stub.flags, IBV_ACCESS_REMOTE_READ);
	CHECK_EQ(stub.mr_calls, 2);
	/* The offset of the memfd, which others share, is left. */
	CHECK_EQ(lseek(mem.memfd, 0, SEEK_CUR), 5);
	/* dlbuf_verbs_destroy() deregisters what is left. */
}

/* Addresses begin where the buffer is mapped, and have its bytes. */
static void check_addresses(uint32_t access, uint32_t remote)
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 32, 0);
	struct dlbuf_verbs_buffer *b = add(access, remote);
	struct dlbuf_verbs_key key;
	struct ibv_sge one;
	uint32_t n = 1;
	uint64_t id;

	REQUIRE_OK(dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL));
	for (int i = 0; i < 16; i++)
		((uint8_t *)t->dl_tensor.data)[i] = (uint8_t)(i + 99);
	REQUIRE_OK(dlbuf_release(t, NULL, NULL));
	CHECK_EQ(b->addr, (uintptr_t)b->mr->addr);
	if (CHECK_OK(dlbuf_verbs_remote(v, t, remote, &key)))
		CHECK_EQ(key.addr, b->addr + 32);
	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	if (CHECK_OK(dlbuf_verbs_sge(v, id, t, &one, &n)) && CHECK_EQ(one.addr, b->addr + 32))
		for (int i = 0; i < 16; i++)
			CHECK_EQ(((uint8_t *)(uintptr_t)one.addr)[i], i + 99);
	CHECK_OK(dlbuf_verbs_end(v, id));
	t->deleter(t);
}

TEST_BETWEEN(addresses_of_a_dma_buf, begin(), end())
{
	check_addresses(DLBUF_RW, DLBUF_WRITE);
}

TEST_BETWEEN(addresses_of_a_dma_buf_for_reading, begin(), end())
{
	check_addresses(DLBUF_READ, DLBUF_READ);
}

TEST_BETWEEN(addresses_of_a_memfd, begin(), end())
{
	stub.dmabuf_err = EOPNOTSUPP;
	check_addresses(DLBUF_RW, DLBUF_WRITE);
}

/* A dma-buf that the CPU cannot map has no addresses here. */
TEST_BETWEEN(cannot_be_mapped, begin(), end())
{
	struct dlbuf_verbs_buffer *b;
	int lab = lab_open(), fd;

	REQUIRE(lab >= 0);
	fd = lab_buffer(lab, BYTES, DLBUF_LAB_NO_MMAP);
	REQUIRE(fd >= 0);
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, fd, -1, DLBUF_RW, 0, &b), -EOPNOTSUPP, "cannot map");
	CHECK_EQ(stub.dmabuf_calls, 0);
	close(fd);
	close(lab);
}

/* The pages of 2 MiB are all in use: mapping one must not want a further one. */
TEST_BETWEEN(huge_pages, begin(), end())
{
	DLBUF_OPTS(dlbuf_udmabuf_opts, opts, .flags = DLBUF_UDMABUF_2M);
	struct dlbuf_udmabuf bufs[64];
	struct dlbuf_verbs_buffer *b;
	unsigned int n;

	stub.dmabuf_err = EOPNOTSUPP;
	for (n = 0; n < 64 && !dlbuf_udmabuf_create(2 << 20, &opts, &bufs[n]); n++)
		;
	REQUIRE(n && n < 64);
	CHECK_OK(dlbuf_verbs_add(v, bufs[0].fd, bufs[0].memfd, DLBUF_RW, 0, &b));
	while (n--)
		dlbuf_udmabuf_close(&bufs[n]);
}

/* Of the dma-buf, of the memfd, to compare, and of the dma-buf in the place of the memfd. */
TEST_BETWEEN(no_mapping, begin(), end())
{
	const struct rlimit limit = { 65536, 65536 };
	struct dlbuf_verbs_buffer *b;

	REQUIRE(!setrlimit(RLIMIT_MEMLOCK, &limit));
	stub.dmabuf_err = EOPNOTSUPP;
	for (unsigned int i = 1; i <= 4; i++) {
		fail_mmap = i;
		mmap_err = ENOMEM;
		CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -ENOMEM, "mmap()");
		fail_mmap = i;
		/* After mlockall(MCL_FUTURE). */
		mmap_err = EAGAIN;
		CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -ENOMEM,
			       "RLIMIT_MEMLOCK (ulimit -l) allows this process 65536 bytes");
		fail_mmap = i;
		mmap_err = ENODEV;
		CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b),
			       i == 1 ? -EOPNOTSUPP : -EIO, "No such device");
		CHECK_EQ(stub.live, 0);
	}
	CHECK_EQ(fail_mmap, 0);
	add(DLBUF_RW, 0);
}

/* mmap() takes no fd that only writes. */
TEST_BETWEEN(fd_for_writing_only, begin(), end())
{
	struct dma_heap_allocation_data data = { .len = BYTES, .fd_flags = O_WRONLY | O_CLOEXEC };
	int heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	struct dlbuf_verbs_buffer *b;

	REQUIRE(heap >= 0 && !ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, (int)data.fd, -1, DLBUF_WRITE, 0, &b), -EACCES, "mmap()");
	CHECK_EQ(stub.dmabuf_calls, 0);
	close((int)data.fd);
	close(heap);
}

static void punch(void)
{
	CHECK(!fallocate(mem.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE));
}

TEST_BETWEEN(memfd_of_another_buffer, begin(), end())
{
	struct dlbuf_verbs_buffer *b;
	struct dlbuf_udmabuf other;

	stub.dmabuf_err = EOPNOTSUPP;
	REQUIRE_OK(dlbuf_udmabuf_create(BYTES, NULL, &other));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, other.memfd, DLBUF_RW, 0, &b), -EINVAL, "page 0");
	dlbuf_udmabuf_close(&other);
	REQUIRE_OK(dlbuf_udmabuf_create(2 * BYTES, NULL, &other));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, other.memfd, DLBUF_RW, 0, &b), -EINVAL, "bytes");
	dlbuf_udmabuf_close(&other);
	/* Between mmap() and the pinning. */
	stub.during = punch;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -EINVAL, "page 1");
	stub.during = NULL;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -EINVAL, "page 1");
	CHECK_EQ(stub.live, 0);
}

TEST_BETWEEN(refused, begin(), end())
{
	const struct rlimit limit = { 65536, 65536 };
	struct dlbuf_verbs_buffer *b = NULL;
	struct dlbuf_verbs *other;
	char path[64];
	int fd;

	CHECK_ERR(dlbuf_verbs_create(NULL, &other), -EINVAL);
	CHECK_ERR(dlbuf_verbs_add(NULL, mem.fd, -1, DLBUF_RW, 0, &b), -EINVAL);
	CHECK_ERR(dlbuf_verbs_add(v, mem.fd, -1, 0, 0, &b), -EINVAL);
	CHECK_ERR(dlbuf_verbs_add(v, mem.fd, -1, 4, 0, &b), -EINVAL);
	CHECK_ERR(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, 4, &b), -EINVAL);
	CHECK_ERR(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, 0, NULL), -EINVAL);
	CHECK_ERR(dlbuf_verbs_add(v, mem.memfd, -1, DLBUF_RW, 0, &b), -EBADF);
	/* A peer may write only what this machine may write. */
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_READ, DLBUF_WRITE, &b), -EACCES, "peer");
	CHECK_EQ(stub.dmabuf_calls, 0);
	stub.dmabuf_err = EOPNOTSUPP;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, 0, &b), -EOPNOTSUPP,
		       "ibv_reg_dmabuf_mr: Operation not supported");
	CHECK_SAYS("dlbuf_udmabuf_create()");
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, STDERR_FILENO + 500, DLBUF_RW, 0, &b), -EBADF,
		       "memfd");
	fd = open("/", O_RDONLY | O_CLOEXEC);
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, fd, DLBUF_RW, 0, &b), -EBADF, "not a memfd");
	close(fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", mem.memfd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	REQUIRE(fd >= 0);
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, fd, DLBUF_READ, 0, &b), -EACCES, "memfd");
	close(fd);
	stub.mr_err = EFAULT;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -EIO,
		       "ibv_reg_mr of 16384 bytes: Bad address");
	/* Not of the limit. */
	stub.mr_err = EPERM;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -EACCES, "ibv_reg_mr");
	REQUIRE(!setrlimit(RLIMIT_MEMLOCK, &limit));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -EACCES, "ibv_reg_mr");
	stub.mr_err = ENOMEM;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -ENOMEM,
		       "RLIMIT_MEMLOCK (ulimit -l) allows this process 65536 bytes");
	stub.dmabuf_err = ENOMEM;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -ENOMEM,
		       "ibv_reg_dmabuf_mr of 16384 bytes");
	/* Nothing that the driver says of the dma-buf: no second way. */
	stub.dmabuf_err = EMFILE;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -EMFILE,
		       "ibv_reg_dmabuf_mr");
	stub.dmabuf_err = EINTR;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -EIO,
		       "ibv_reg_dmabuf_mr of 16384 bytes: Interrupted");
	stub.mr_err = stub.dmabuf_err = 0;
	CHECK_EQ(stub.mr_calls, 4);
	b = add(DLBUF_RW, 0);
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, DLBUF_READ, &b), -EBUSY,
		       "registered");
	dlbuf_verbs_remove(b);
	CHECK_EQ(stub.live, 0);
	/* A read-only fd is never written. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", mem.fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		CHECK_ERR(dlbuf_verbs_add(v, fd, mem.memfd, DLBUF_RW, 0, &b), -EACCES);
		close(fd);
	}
}

/* Which errors mean that the driver takes no such dma-buf. */
TEST_BETWEEN(errors_of_the_driver, begin(), end())
{
	static const struct {
		int err, ret;
	} rows[] = {
		{ EOPNOTSUPP, 0 }, { ENOSYS, 0 }, { ENOTTY, 0 }, { EPROTONOSUPPORT, 0 }, { EINVAL, 0 },
		{ EIO, -EIO }, { EBUSY, -EIO }, { EPERM, -EACCES }, { EACCES, -EACCES },
		{ ENOMEM, -ENOMEM },
	};
	const struct rlimit limit = { 0, 0 };
	struct dlbuf_verbs_buffer *b = NULL;

	REQUIRE(!setrlimit(RLIMIT_MEMLOCK, &limit));
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int ret;

		stub.dmabuf_err = rows[i].err;
		ret = dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b);
		CHECK_EQ(ret, rows[i].ret);
		if (!ret) {
			CHECK(b->by_memfd);
			dlbuf_verbs_remove(b);
			continue;
		}
		CHECK_SAYS("ibv_reg_dmabuf_mr of 16384 bytes");
		/* No dma-buf is counted against the limit. */
		CHECK(!strstr(dlbuf_last_error(), "RLIMIT_MEMLOCK"));
	}
}

/* The kernel has another code for it. */
TEST_BETWEEN(no_pinned_memory, begin(), end())
{
	const struct rlimit limit = { 0, 0 };
	struct dlbuf_verbs_buffer *b;

	REQUIRE(!setrlimit(RLIMIT_MEMLOCK, &limit));
	stub.dmabuf_err = EOPNOTSUPP;
	stub.mr_err = EPERM;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -ENOMEM,
		       "RLIMIT_MEMLOCK (ulimit -l) allows this process 0 bytes");
}

TEST_BETWEEN(not_the_memfd_of_a_udmabuf, begin(), end())
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), plain, sealed;
	struct dlbuf_verbs_buffer *b;

	stub.dmabuf_err = EOPNOTSUPP;
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, file, DLBUF_RW, 0, &b), -EBADF, "is not a memfd");
	close(file);
	/* It could be shrunk while it is compared. */
	plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	REQUIRE(plain >= 0 && !ftruncate(plain, BYTES));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, plain, DLBUF_RW, 0, &b), -EINVAL, "F_SEAL_SHRINK");
	close(plain);
	sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	REQUIRE(sealed >= 0 && !ftruncate(sealed, BYTES));
	REQUIRE(!fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, sealed, DLBUF_RW, 0, &b), -EACCES, "mmap()");
	close(sealed);
}

/* A driver that asks to try again, as GPUs' do: so often that an access succeeds, and for ever. */
TEST_BETWEEN(comparison_is_refused, begin(), end())
{
	int lab = lab_open(), memfd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING), fd;
	struct dlbuf_verbs_buffer *b;

	REQUIRE(lab >= 0);
	fd = lab_buffer(lab, BYTES, 0);
	REQUIRE(fd >= 0 && memfd >= 0 && !ftruncate(memfd, BYTES));
	REQUIRE(!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	stub.dmabuf_err = EOPNOTSUPP;
	REQUIRE(!lab_begin(lab, fd, -EAGAIN, 999, 0));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, fd, memfd, DLBUF_RW, 0, &b), -EINVAL, "page 0");
	REQUIRE(!lab_begin(lab, fd, -EAGAIN, DLBUF_LAB_FOREVER, 0));
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, fd, memfd, DLBUF_RW, 0, &b), -EIO,
		       "DMA_BUF_IOCTL_SYNC: Resource temporarily unavailable");
	CHECK_EQ(stub.live, 0);
	close(memfd);
	close(fd);
	close(lab);
}

TEST(too_large)
{
	struct dlbuf_verbs set = { .pd = &pd };
	struct dlbuf_verbs_buffer b = { .bytes = UINT64_MAX - 4095, .verbs_ = &set };

	CHECK_ERR(dlbuf_verbs_register_(&b, -1), -EOVERFLOW);
}

/* ---- cases: tensors */

/* first is an offset of the buffer. */
static void check_sges(uint64_t id, DLManagedTensorVersioned *t, uint32_t n, uint64_t first,
		       int64_t step, uint32_t length)
{
	struct ibv_sge sges[8];
	uint32_t got = 8;

	if (CHECK_OK(dlbuf_verbs_sge(v, id, t, sges, &got)) && CHECK_EQ(got, n))
		for (uint32_t i = 0; i < n; i++) {
			CHECK_EQ(sges[i].addr, v->buffers->addr + first + i * step);
			CHECK_EQ(sges[i].length, length);
			CHECK_EQ(sges[i].lkey, stub.keys);
		}
	t->deleter(t);
}

TEST_BETWEEN(sge, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(2, (int64_t[]){ 4, 10 }, (int64_t[]){ 32, 1 }, 0, 0), *dense;
	struct dlbuf_udmabuf other;
	struct dlbuf_verbs_buffer *b;
	struct ibv_sge one;
	uint32_t n = 1;
	uint64_t id;

	add(DLBUF_RW, 0);
	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	check_sges(id, tensor(2, (int64_t[]){ 4, 8 }, NULL, 128, 0), 1, 128, 0, 64);
	check_sges(id, tensor(0, NULL, NULL, 6, 0), 1, 6, 0, 2);
	check_sges(id, tensor(2, (int64_t[]){ 4, 0 }, NULL, 0, 0), 0, 0, 0, 0);
	/* A dimension of one element ends no run. */
	check_sges(id, tensor(3, (int64_t[]){ 4, 1, 8 }, (int64_t[]){ 8, 99, 1 }, 0, 0), 1, 0, 0, 64);
	/* Padded rows, from the first and from the last. */
	check_sges(id, tensor(3, (int64_t[]){ 4, 5, 2 }, (int64_t[]){ 32, 2, 1 }, 64, 0), 4, 64, 64, 20);
	check_sges(id, tensor(2, (int64_t[]){ 4, 10 }, (int64_t[]){ -32, 1 }, 192, 0), 4, 192, -64, 20);
	/* Two outer dimensions: planes of rows. */
	check_sges(id, tensor(3, (int64_t[]){ 2, 2, 3 }, (int64_t[]){ 8, 4, 1 }, 0, 0), 4, 0, 8, 6);
	/* Strides that no element uses. */
	check_sges(id, tensor(3, (int64_t[]){ 1, 2, 4 }, (int64_t[]){ INT64_MAX - 1, 8, 1 }, 0, 0), 2,
		   0, 16, 8);
	check_sges(id, tensor(2, (int64_t[]){ 0, 4 }, (int64_t[]){ INT64_MAX - 1, 1 }, 0, 0), 0, 0, 0, 0);
	check_sges(id, tensor(2, (int64_t[]){ 0, 4 }, (int64_t[]){ 1, INT64_MAX - 1 }, 0, 0), 0, 0, 0, 0);
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, &one, &n), -ENOSPC, "4 runs of 20 bytes");
	CHECK_SAYS("dimension 0");
	CHECK_EQ(n, 4);
	/* To know the size of an array. */
	n = 0;
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, NULL, &n), -ENOSPC, "4 runs of 20 bytes");
	CHECK_EQ(n, 4);
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, NULL, &n), -EINVAL, "sges");
	n = 0;
	dense = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, dense, &one, &n), -ENOSPC, "1 run of 16 bytes, and");
	dense->deleter(dense);
	CHECK_EQ(n, 1);
	CHECK_ERR(dlbuf_verbs_sge(v, id, NULL, &one, &n), -EINVAL);
	CHECK_ERR(dlbuf_verbs_sge(v, id, t, NULL, &n), -EINVAL);
	CHECK_ERR(dlbuf_verbs_sge(v, id, t, &one, NULL), -EINVAL);
	CHECK_OK(dlbuf_verbs_end(v, id));
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, &one, &n), -EINVAL, "has ended");
	CHECK_EQ(stub.dmabuf_calls, 1);
	/* The id of another dma-buf. */
	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	t->deleter(t);
	other = mem;
	REQUIRE_OK(dlbuf_udmabuf_create(BYTES, NULL, &mem));
	b = add(DLBUF_RW, 0);
	t = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, &one, &n), -EINVAL, "another dma-buf");
	t->deleter(t);
	dlbuf_verbs_remove(b);
	dlbuf_udmabuf_close(&other);
}

/* The runs of one tensor are one message, and the ports' limits differ. */
TEST(more_bytes_than_a_message)
{
	DLManagedTensorVersioned *t;
	struct ibv_sge sges[32];
	uint32_t n = 1;
	uint64_t id;

	ports[2] = BYTES / 2;
	begin();
	add(DLBUF_RW, 0);
	t = tensor(1, (int64_t[]){ BYTES / 4 }, NULL, 0, 0);
	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	check_sges(id, t, 1, 0, 0, BYTES / 2);
	t = tensor(1, (int64_t[]){ BYTES / 4 + 1 }, NULL, 0, 0);
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, sges, &n), -EOPNOTSUPP, "8194 bytes");
	CHECK_SAYS("at most 8192");
	t->deleter(t);
	/* The same bytes again and again: 32 runs of 512, and 2^62 of two. */
	t = tensor(2, (int64_t[]){ 32, 256 }, (int64_t[]){ 0, 1 }, 0, 0);
	n = 32;
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, sges, &n), -EOPNOTSUPP, "16384 bytes");
	t->deleter(t);
	t = tensor(1, (int64_t[]){ INT64_MAX / 2 }, (int64_t[]){ 0 }, 0, 0);
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, sges, &n), -EOPNOTSUPP, "9223372036854775806 bytes");
	t->deleter(t);
	CHECK_OK(dlbuf_verbs_end(v, id));
	end();
	/* RDMA's own limit, of which libmlx5 makes a flag. */
	ports[2] = 1u << 31;
	begin();
	add(DLBUF_RW, 0);
	t = tensor(2, (int64_t[]){ 1 << 20, 1 << 10 }, (int64_t[]){ 0, 1 }, 0, 0);
	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, t, NULL, &(uint32_t){ 0 }), -EOPNOTSUPP,
		       "2147483648 bytes, and a work request at most 2147483647");
	t->deleter(t);
	CHECK_OK(dlbuf_verbs_end(v, id));
	end();
}

/* An id for receiving, begun with one tensor, for another one of the dma-buf. */
TEST_BETWEEN(sge_of_a_read_only_tensor, begin(), end())
{
	DLManagedTensorVersioned *w = tensor(1, (int64_t[]){ 8 }, NULL, 0, DLBUF_RW),
				 *r = tensor(1, (int64_t[]){ 8 }, NULL, 64, DLBUF_READ);
	struct ibv_sge one;
	uint32_t n = 1;
	uint64_t id;

	add(DLBUF_RW, 0);
	REQUIRE_OK(dlbuf_verbs_begin(v, w, DLBUF_WRITE, NULL, &id));
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, id, r, &one, &n), -EACCES, "does not allow");
	CHECK_OK(dlbuf_verbs_sge(v, id, w, &one, &n));
	CHECK_OK(dlbuf_verbs_end(v, id));
	REQUIRE_OK(dlbuf_verbs_begin(v, w, DLBUF_READ, NULL, &id));
	CHECK_OK(dlbuf_verbs_sge(v, id, r, &one, &n));
	CHECK_OK(dlbuf_verbs_end(v, id));
	r->deleter(r);
	w->deleter(w);
}

TEST_BETWEEN(not_registered, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	struct dlbuf_verbs_key key;
	uint64_t id = 1;

	CHECK_ERR_SAYS(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id), -EINVAL, "dlbuf_verbs_add()");
	CHECK_EQ(id, 0);
	id = 1;
	CHECK_ERR(dlbuf_verbs_begin(v, NULL, DLBUF_READ, NULL, &id), -EINVAL);
	CHECK_EQ(id, 0);
	CHECK_ERR(dlbuf_verbs_remote(v, t, DLBUF_READ, &key), -EINVAL);
	dlbuf_verbs_remove(add(DLBUF_RW, DLBUF_RW));
	CHECK_ERR(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id), -EINVAL);
	CHECK_ERR(dlbuf_verbs_remote(v, t, DLBUF_READ, &key), -EINVAL);
	t->deleter(t);
}

TEST_BETWEEN(read_only_is_not_writable_by_a_peer, begin(), end())
{
	DLManagedTensorVersioned *r = tensor(1, (int64_t[]){ 8 }, NULL, 32, DLBUF_READ),
				 *w = tensor(1, (int64_t[]){ 8 }, NULL, 32, DLBUF_RW);
	struct dlbuf_verbs_buffer *b = add(DLBUF_RW, DLBUF_WRITE);
	struct dlbuf_verbs_key key;

	if (CHECK_OK(dlbuf_verbs_remote(v, w, DLBUF_WRITE, &key)))
		CHECK(key.addr == b->addr + 32 && key.bytes == 16 && key.rkey == ~stub.keys && !key.reserved);
	CHECK_ERR_SAYS(dlbuf_verbs_remote(v, w, DLBUF_READ, &key), -EACCES, "remote access 2");
	CHECK_ERR(dlbuf_verbs_remote(v, r, DLBUF_WRITE, &key), -EACCES);
	CHECK_ERR(dlbuf_verbs_remote(v, r, 0, &key), -EINVAL);
	dlbuf_verbs_remove(b);
	b = add(DLBUF_RW, DLBUF_RW);
	CHECK_ERR_SAYS(dlbuf_verbs_remote(v, r, DLBUF_READ, &key), -EACCES, "read-only");
	dlbuf_verbs_remove(b);
	b = add(DLBUF_RW, DLBUF_READ);
	CHECK_OK(dlbuf_verbs_remote(v, r, DLBUF_READ, &key));
	CHECK_ERR(dlbuf_verbs_remote(v, r, DLBUF_RW, &key), -EACCES);
	r->deleter(r);
	w->deleter(w);
}

/* A GPU's tensors: a copy, whose bytes are not those of the dma-buf, and its memory itself. */
TEST_BETWEEN(tensors_of_a_gpu, begin(), end())
{
	DLBUF_OPTS(dlbuf_import_opts, copy, .flags = DLBUF_IMPORT_MAY_COPY,
		   .paths = DLBUF_PATH_BIT(DLBUF_PATH_COPY));
	DLBUF_OPTS(dlbuf_import_opts, host, .paths = DLBUF_PATH_BIT(DLBUF_PATH_HOST));
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 }, .shape = (int64_t[]){ 64 } };
	DLManagedTensorVersioned *t, *plain = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	struct dlbuf_device *gpu;
	struct dlbuf_verbs_key key;
	struct ibv_sge one;
	uint32_t n = 1;
	uint64_t id, on_cpu;

	KTAP_KEEPS(KTAP_FDS | KTAP_MAPS | KTAP_HEAP, "the driver");
	add(DLBUF_RW, DLBUF_RW);
	REQUIRE_OK(dlbuf_verbs_begin(v, plain, DLBUF_READ, NULL, &on_cpu));
	plain->deleter(plain);
	REQUIRE_OK(dlbuf_device_open("opencl:0", NULL, &gpu));
	REQUIRE_OK(dlbuf_import(gpu, mem.fd, &layout, &copy, &t));
	CHECK_ERR_SAYS(dlbuf_verbs_sge(v, on_cpu, t, &one, &n), -EOPNOTSUPP, "copy");
	CHECK_ERR(dlbuf_verbs_remote(v, t, DLBUF_READ, &key), -EOPNOTSUPP);
	CHECK_ERR(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id), -EOPNOTSUPP);
	t->deleter(t);
	REQUIRE_OK(dlbuf_import(gpu, mem.fd, &layout, &host, &t));
	CHECK_OK(dlbuf_verbs_sge(v, on_cpu, t, &one, &n));
	CHECK_ERR_SAYS(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id), -EOPNOTSUPP, "CPU");
	t->deleter(t);
	dlbuf_device_close(gpu);
}

/* ---- cases: work */

TEST_BETWEEN(lease_fires_once_at_the_completion, begin(), end())
{
	DLManagedTensorVersioned *t = leased(give_back, NULL);
	DLBUF_INFO(dlbuf_tensor_info, info);
	uint64_t ids[2];

	add(DLBUF_RW, 0);
	CHECK_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &ids[0]));
	CHECK_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &ids[1]));
	CHECK(ids[0] != ids[1] && ids[0] & DLBUF_VERBS_ID && ids[1] & DLBUF_VERBS_ID);
	/* The caller's tensor is not acquired. */
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	CHECK_EQ(info.acquired, 0);
	t->deleter(t);
	CHECK_EQ(fired, 0);
	CHECK_OK(dlbuf_verbs_end(v, ids[1]));
	CHECK_ERR_SAYS(dlbuf_verbs_end(v, ids[1]), -EINVAL, "has ended");
	CHECK_EQ(fired, 0);
	CHECK_OK(dlbuf_verbs_end(v, ids[0]));
	CHECK_EQ(fired, 1);
	CHECK_ERR(dlbuf_verbs_end(v, ids[0]), -EINVAL);
	CHECK_ERR(dlbuf_verbs_end(v, 5), -EINVAL);
	CHECK_EQ(fired, 1);
}

TEST_BETWEEN(access_is_refused, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 0, DLBUF_READ);
	struct dlbuf_verbs_buffer *b = add(DLBUF_RW, 0);
	uint64_t id;

	CHECK_ERR(dlbuf_verbs_begin(v, t, DLBUF_WRITE, NULL, &id), -EACCES);
	CHECK_ERR(dlbuf_verbs_begin(v, t, 0, NULL, &id), -EINVAL);
	CHECK_ERR(dlbuf_verbs_begin(v, NULL, DLBUF_READ, NULL, &id), -EINVAL);
	CHECK_ERR(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, NULL), -EINVAL);
	/* None of them is work on the buffer. */
	dlbuf_verbs_remove(b);
	CHECK_EQ(stub.live, 0);
	t->deleter(t);
	/* The card may not write there, though the CPU may. */
	t = tensor(1, (int64_t[]){ 8 }, NULL, 0, DLBUF_RW);
	b = add(DLBUF_READ, 0);
	CHECK_ERR_SAYS(dlbuf_verbs_begin(v, t, DLBUF_WRITE, NULL, &id), -EACCES, "registered");
	dlbuf_verbs_remove(b);
	CHECK_EQ(stub.live, 0);
	t->deleter(t);
}

TEST_BETWEEN(removed_during_the_work, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	struct dlbuf_verbs_buffer *b, *again;
	struct ibv_sge one;
	uint32_t n = 1;
	uint64_t id, other;

	stub.dmabuf_err = EOPNOTSUPP;
	b = add(DLBUF_RW, 0);
	CHECK_OK(dlbuf_verbs_begin(v, t, DLBUF_WRITE, NULL, &id));
	dlbuf_verbs_remove(b);
	CHECK_EQ(stub.live, 1);
	if (CHECK_OK(dlbuf_verbs_sge(v, id, t, &one, &n)))
		CHECK_EQ(one.lkey, stub.keys);
	CHECK_ERR_SAYS(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &other), -EINVAL, "dlbuf_verbs_add()");
	CHECK_ERR_SAYS(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, DLBUF_READ, &again), -EBUSY,
		       "registered");
	/* Added again: no comparison may write to the bytes on their way. */
	CHECK(add(DLBUF_RW, 0) == b);
	CHECK_EQ(stub.mr_calls, 1);
	CHECK_OK(dlbuf_verbs_end(v, id));
	CHECK_EQ(stub.live, 1);
	dlbuf_verbs_remove(b);
	CHECK_EQ(stub.live, 0);
	t->deleter(t);
}

static void remove_buffer(void *buffer)
{
	dlbuf_verbs_remove(buffer);
}

/* The lease takes the lock, inside dlbuf_verbs_end(). */
TEST_BETWEEN(lease_removes_the_buffer, begin(), end())
{
	DLManagedTensorVersioned *t = leased(remove_buffer, add(DLBUF_RW, 0));
	uint64_t id;

	CHECK_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	t->deleter(t);
	CHECK_EQ(stub.live, 1);
	CHECK_OK(dlbuf_verbs_end(v, id));
	CHECK_EQ(stub.live, 0);
}

static void fork_and_return(void *pid)
{
	*(pid_t *)pid = fork();
}

/* The child returns from dlbuf_verbs_end() into a set that the kernel has cleared. */
TEST_BETWEEN(lease_forks, begin(), end())
{
	struct dlbuf_verbs_buffer *b = add(DLBUF_RW, 0);
	pid_t pid = -1;
	DLManagedTensorVersioned *t = leased(fork_and_return, &pid);
	uint64_t id;
	int status;

	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	t->deleter(t);
	dlbuf_verbs_remove(b);
	CHECK_OK(dlbuf_verbs_end(v, id));
	if (!pid) {
		/* The parent's. */
		CHECK_EQ(stub.live, 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK_EQ(stub.live, 0);
}

/* Two protection domains with one completion queue. */
TEST_BETWEEN(ids_of_two_sets, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	struct dlbuf_verbs *other;
	struct dlbuf_verbs_buffer *b;
	uint64_t id, others;

	REQUIRE_OK(dlbuf_verbs_create(&pd, &other));
	add(DLBUF_RW, 0);
	REQUIRE_OK(dlbuf_verbs_add(other, mem.fd, -1, DLBUF_RW, 0, &b));
	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	REQUIRE_OK(dlbuf_verbs_begin(other, t, DLBUF_READ, NULL, &others));
	CHECK(id != others && id & DLBUF_VERBS_ID && others & DLBUF_VERBS_ID);
	CHECK_ERR(dlbuf_verbs_end(v, others), -EINVAL);
	CHECK_OK(dlbuf_verbs_end(v, id));
	CHECK_OK(dlbuf_verbs_end(other, others));
	dlbuf_verbs_destroy(other);
	t->deleter(t);
}

/* A completion queue may have the ids of a set that was destroyed, also at the same address. */
TEST_BETWEEN(ids_of_a_destroyed_set, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	uint64_t before, id;

	add(DLBUF_RW, 0);
	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &before));
	dlbuf_verbs_destroy(v);
	REQUIRE_OK(dlbuf_verbs_create(&pd, &v));
	add(DLBUF_RW, 0);
	REQUIRE_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	CHECK_ERR(dlbuf_verbs_end(v, before), -EINVAL);
	CHECK_OK(dlbuf_verbs_end(v, id));
	t->deleter(t);
}

/* The two planes of NV12 by one id: they are of one dma-buf. */
TEST_BETWEEN(planes_in_one_request, begin(), end())
{
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = 64, .height = 16,
		.code = DLBUF_FOURCC('N', 'V', '1', '2'), .code_space = DLBUF_CODE_DRM,
		.nplanes = 2, .planes = { { .fd = mem.fd, .pitch = 64 },
					  { .fd = mem.fd, .offset = 64 * 16, .pitch = 64 } },
		.order = DLBUF_ORDER_COMPLETE, .release = give_back,
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n = 0, room = 1;
	struct ibv_sge sges[2];
	uint64_t id;

	add(DLBUF_RW, 0);
	REQUIRE_OK(dlbuf_import_frame(cpu, &frame, NULL, t, &n));
	REQUIRE(n == 2);
	CHECK_OK(dlbuf_verbs_begin(v, t[0], DLBUF_READ, NULL, &id));
	CHECK_OK(dlbuf_verbs_sge(v, id, t[0], &sges[0], &room));
	CHECK_OK(dlbuf_verbs_sge(v, id, t[1], &sges[1], &room));
	CHECK(sges[0].addr == v->buffers->addr && sges[0].length == 64 * 16);
	CHECK(sges[1].addr == v->buffers->addr + 64 * 16 && sges[1].length == 64 * 8);
	t[0]->deleter(t[0]);
	t[1]->deleter(t[1]);
	/* The id holds the lease of the frame, and so both. */
	CHECK_EQ(fired, 0);
	CHECK_OK(dlbuf_verbs_end(v, id));
	CHECK_EQ(fired, 1);
}

TEST_BETWEEN(destroyed_with_work, begin(), end())
{
	DLManagedTensorVersioned *t = leased(give_back, NULL);
	uint64_t id;

	dlbuf_verbs_remove(NULL);
	add(DLBUF_RW, 0);
	CHECK_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	CHECK_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	t->deleter(t);
	dlbuf_verbs_destroy(v);
	CHECK_EQ(fired, 1);
	CHECK_EQ(stub.live, 0);
	v = NULL;
}

TEST_BETWEEN(child_of_fork, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	struct dlbuf_verbs_buffer *b = add(DLBUF_RW, 0);
	uint64_t id, other;
	int status;
	pid_t pid;

	CHECK_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id));
	/* Another thread may be in a call during the fork(). */
	pthread_mutex_lock(&v->lock);
	pid = fork();
	if (!pid) {
		CHECK_ERR(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, 0, &b), -ESTALE);
		CHECK_ERR(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &other), -ESTALE);
		CHECK_ERR(dlbuf_verbs_end(v, id), -ESTALE);
		dlbuf_verbs_remove(b);
		dlbuf_verbs_destroy(v);
		CHECK_EQ(stub.live, 1);
		_exit(0);
	}
	pthread_mutex_unlock(&v->lock);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK_OK(dlbuf_verbs_end(v, id));
	t->deleter(t);
}

/* A child that has its parent's process number, 1, in a namespace of its own. */
TEST(child_with_the_same_pid)
{
	int status;
	pid_t pid;

	REQUIRE(!unshare(CLONE_NEWPID));
	pid = fork();
	if (!pid) {
		struct dlbuf_verbs_buffer *b;
		pid_t child;

		begin();
		b = add(DLBUF_RW, 0);
		REQUIRE(getpid() == 1 && !unshare(CLONE_NEWPID));
		child = fork();
		if (!child) {
			CHECK_EQ(getpid(), 1);
			CHECK_ERR(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, 0, &b), -ESTALE);
			dlbuf_verbs_remove(b);
			dlbuf_verbs_destroy(v);
			CHECK_EQ(stub.live, 1);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && !status);
		end();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

/* Calls with a cancellation pending. Returns a value of its own if none of them was the end. */
static void *cancelled(void *arg)
{
	DLManagedTensorVersioned *t = arg;
	struct dlbuf_verbs_buffer *b = NULL;
	struct dlbuf_verbs *other = NULL;
	uint64_t id;

	pthread_cancel(pthread_self());
	CHECK_OK(dlbuf_verbs_create(&pd, &other));
	stub.mr_err = EFAULT;
	CHECK_ERR(dlbuf_verbs_add(other, mem.fd, mem.memfd, DLBUF_RW, 0, &b), -EIO);
	stub.mr_err = 0;
	CHECK_OK(dlbuf_verbs_add(other, mem.fd, mem.memfd, DLBUF_RW, 0, &b));
	CHECK_ERR(dlbuf_verbs_begin(other, t, 0, NULL, &id), -EINVAL);
	CHECK_OK(dlbuf_verbs_begin(other, t, DLBUF_READ, NULL, &id));
	dlbuf_verbs_remove(b);
	CHECK_OK(dlbuf_verbs_end(other, id));
	CHECK_OK(dlbuf_verbs_add(other, mem.fd, mem.memfd, DLBUF_RW, 0, &b));
	dlbuf_verbs_remove(b);
	CHECK_OK(dlbuf_verbs_add(other, mem.fd, mem.memfd, DLBUF_RW, 0, &b));
	dlbuf_verbs_destroy(other);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return &stub;
}

TEST_BETWEEN(not_a_cancellation_point, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	pthread_t thread;
	void *result;

	KTAP_KEEPS(KTAP_HEAP, "threads");
	stub.dmabuf_err = EOPNOTSUPP;
	REQUIRE(!pthread_create(&thread, NULL, cancelled, t));
	REQUIRE(!pthread_join(thread, &result));
	CHECK(result == &stub);
	CHECK_EQ(stub.live, 0);
	t->deleter(t);
}

#define THREADS 2
#define ROUNDS 200

static void *work(void *arg)
{
	DLManagedTensorVersioned *t = arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct dlbuf_verbs_buffer *b;
		struct ibv_sge one;
		uint32_t n = 1;
		uint64_t id;

		if (!CHECK_OK(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, 0, &b)))
			break;
		if (CHECK_OK(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id))) {
			CHECK_OK(dlbuf_verbs_sge(v, id, t, &one, &n));
			CHECK_OK(dlbuf_verbs_end(v, id));
		}
		dlbuf_verbs_remove(b);
	}
	return NULL;
}

TEST_BETWEEN(two_threads, begin(), end())
{
	DLManagedTensorVersioned *t = leased(give_back, NULL), *shares[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		REQUIRE_OK(dlbuf_tensor_share(t, NULL, &shares[i]));
		REQUIRE(!pthread_create(&threads[i], NULL, work, shares[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		shares[i]->deleter(shares[i]);
	}
	CHECK_EQ(stub.live, 0);
	CHECK_EQ(fired, 0);
	t->deleter(t);
	CHECK_EQ(fired, 1);
}

static int stopped;	/* atomic */

static void *add_and_remove(void *arg)
{
	while (!__atomic_load_n(&stopped, __ATOMIC_SEQ_CST)) {
		struct dlbuf_verbs_buffer *b;

		if (!CHECK_OK(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, DLBUF_RW, &b)))
			break;
		dlbuf_verbs_remove(b);
	}
	return arg;
}

/* Another thread owns the buffer, and removes it at any time. */
TEST_BETWEEN(beside_remove, begin(), end())
{
	DLManagedTensorVersioned *t = tensor(1, (int64_t[]){ 8 }, NULL, 0, 0);
	unsigned int keys = 0, begun = 0;
	pthread_t thread;

	KTAP_KEEPS(KTAP_HEAP, "threads");
	REQUIRE(!pthread_create(&thread, NULL, add_and_remove, NULL));
	while (keys < ROUNDS || begun < ROUNDS) {
		struct dlbuf_verbs_key key;
		struct ibv_sge one;
		uint32_t n = 1;
		uint64_t id;

		if (!dlbuf_verbs_remote(v, t, DLBUF_READ, &key))
			keys += CHECK(key.addr && key.bytes == 16 && key.rkey >> 31);
		if (dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id))
			continue;
		if (CHECK_OK(dlbuf_verbs_sge(v, id, t, &one, &n)))
			CHECK_EQ(one.lkey, v->works->buffer->mr->lkey);
		CHECK_OK(dlbuf_verbs_end(v, id));
		begun++;
	}
	__atomic_store_n(&stopped, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	t->deleter(t);
}

static int inside;	/* atomic: threads in ibv_reg_mr() */

static void alone(void)
{
	CHECK_EQ(__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST), 1);
	for (int i = 0; i < 10; i++)
		sched_yield();
	__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
}

static void *add_memfd(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct dlbuf_verbs_buffer *b;

		if (!CHECK_OK(dlbuf_verbs_add(v, mem.fd, mem.memfd, DLBUF_RW, 0, &b)))
			break;
		dlbuf_verbs_remove(b);
	}
	return arg;
}

/* Two comparisons at once would read each other's words, and leave them in the buffer. */
TEST_BETWEEN(two_threads_add_a_memfd, begin(), end())
{
	uint8_t *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mem.memfd, 0);
	pthread_t threads[THREADS];

	KTAP_KEEPS(KTAP_HEAP, "threads");
	REQUIRE(map != MAP_FAILED);
	for (unsigned int i = 0; i < BYTES; i++)
		map[i] = (uint8_t)(i * 7);
	stub.dmabuf_err = EOPNOTSUPP;
	stub.during = alone;
	for (int i = 0; i < THREADS; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, add_memfd, NULL));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(stub.live, 0);
	for (unsigned int i = 0; i < BYTES; i++)
		if (!CHECK_EQ(map[i], (uint8_t)(i * 7)))
			break;
	munmap(map, BYTES);
}

TEST_BETWEEN(no_memory, begin(), end())
{
	DLManagedTensorVersioned *t = leased(give_back, NULL);
	struct dlbuf_verbs_buffer *b;
	uint64_t id;

	fail_calloc = 1;
	CHECK_ERR(dlbuf_verbs_add(v, mem.fd, -1, DLBUF_RW, 0, &b), -ENOMEM);
	b = add(DLBUF_RW, 0);
	fail_calloc = 1;
	CHECK_ERR(dlbuf_verbs_begin(v, t, DLBUF_READ, NULL, &id), -ENOMEM);
	dlbuf_verbs_remove(b);
	CHECK_EQ(stub.live, 0);
	t->deleter(t);
	CHECK_EQ(fired, 1);
}

KTAP_MAIN()
