// SPDX-License-Identifier: MIT
/*
 * The Hexagon backend's ioctls. The ioctls are noted instead of made,
 * because there is no fastrpc node on a build machine, nor in the lab: this tests our
 * arguments, and nothing of the kernel's driver. tests/cts has the bracket of a real
 * dma-buf.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_HEXAGON
#include "hexagon_backend.h"

#include "ioctl.h"

static struct {
	int fd;
	unsigned long request;
	union {
		struct hexagon_mem_map map;
		struct hexagon_mem_unmap unmap;
		struct dma_buf_sync sync;
	};
} noted[16];
static unsigned int nnoted;
static unsigned long refused;	/* this request fails, with this errno */
static int refusal;

#define DSP_ADDRESS 0x12345678000ull

/* Notes the library's calls, and makes the others. */
static int answer_ioctl(int fd, unsigned int request, void *arg)
{
	if (nnoted == ARRAY_SIZE(noted) ||
	    (request != HEXAGON_IOCTL_MEM_MAP && request != DMA_BUF_IOCTL_SYNC &&
	     request != HEXAGON_IOCTL_MEM_UNMAP))
		return real_ioctl(fd, request, arg);
	noted[nnoted].fd = fd;
	noted[nnoted].request = request;
	memcpy(&noted[nnoted++].map, arg, _IOC_SIZE(request));
	if (request == refused) {
		errno = refusal;
		return -1;
	}
	if (request == HEXAGON_IOCTL_MEM_MAP)
		((struct hexagon_mem_map *)arg)->vaddrout = DSP_ADDRESS;
	return 0;
}

/* ---------------------------------------------------------------- the ABI */

#if __has_include(<misc/fastrpc.h>)
#include <misc/fastrpc.h>
#endif

TEST(numbers_and_structs)
{
#ifdef FASTRPC_IOCTL_MEM_MAP
#define SAME(ours, theirs) CHECK_EQ((unsigned long)(ours), (unsigned long)(theirs))
#define FIELD(ours, theirs, name)					\
	do {								\
		SAME(offsetof(struct ours, name), offsetof(struct theirs, name)); \
		SAME(sizeof(((struct ours *)0)->name),			\
		     sizeof(((struct theirs *)0)->name));		\
	} while (0)
	SAME(HEXAGON_IOCTL_MEM_MAP, FASTRPC_IOCTL_MEM_MAP);
	SAME(HEXAGON_IOCTL_MEM_UNMAP, FASTRPC_IOCTL_MEM_UNMAP);
	SAME(HEXAGON_MAP_STATIC, FASTRPC_MAP_STATIC);
	SAME(HEXAGON_MAP_FD, FASTRPC_MAP_FD);
	SAME(HEXAGON_MAP_FD_DELAYED, FASTRPC_MAP_FD_DELAYED);
	SAME(HEXAGON_MAP_FD_NOMAP, FASTRPC_MAP_FD_NOMAP);
	SAME(sizeof(struct hexagon_mem_map), sizeof(struct fastrpc_mem_map));
	FIELD(hexagon_mem_map, fastrpc_mem_map, version);
	FIELD(hexagon_mem_map, fastrpc_mem_map, fd);
	FIELD(hexagon_mem_map, fastrpc_mem_map, offset);
	FIELD(hexagon_mem_map, fastrpc_mem_map, flags);
	FIELD(hexagon_mem_map, fastrpc_mem_map, vaddrin);
	FIELD(hexagon_mem_map, fastrpc_mem_map, length);
	FIELD(hexagon_mem_map, fastrpc_mem_map, vaddrout);
	FIELD(hexagon_mem_map, fastrpc_mem_map, attrs);
	FIELD(hexagon_mem_map, fastrpc_mem_map, reserved);
	SAME(sizeof(struct hexagon_mem_unmap), sizeof(struct fastrpc_mem_unmap));
	FIELD(hexagon_mem_unmap, fastrpc_mem_unmap, fd);
	FIELD(hexagon_mem_unmap, fastrpc_mem_unmap, vaddr);
	FIELD(hexagon_mem_unmap, fastrpc_mem_unmap, length);
	FIELD(hexagon_mem_unmap, fastrpc_mem_unmap, reserved);
#else
	SKIP("there is no misc/fastrpc.h with MEM_MAP here");
#endif
}

/* ---------------------------------------------------------------- a wrapped fd */

/* A device node that is none of fastrpc's: /dev/null. */
static struct dlbuf_device *wrap_null(void)
{
	struct dlbuf_device *dev = NULL;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	REQUIRE(fd >= 0);
	REQUIRE_OK(dlbuf_device_wrap_hexagon(fd, 3, NULL, &dev));
	/* Ours is a duplicate. */
	close(fd);
	return dev;
}

TEST(arguments_of_MEM_MAP_and_MEM_UNMAP)
{
	struct dlbuf_device *dev AUTO_DEV = wrap_null();
	DLBUF_INFO(dlbuf_device_info, info);
	struct dlbuf_hexagon_buffer of;
	DLManagedTensorVersioned *t, *share;
	int fd AUTO_FD = new_memfd();

	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_EQ(info.device.device_type, kDLHexagon);
	CHECK_EQ(info.device.device_id, 3);
	CHECK_STR(info.driver, "FastRPC, the application's fd");
	t = import_ok(dev, fd);
	REQUIRE_OK(dlbuf_tensor_share(t, NULL, &share));
	CHECK_EQ(nnoted, 1);
	of = buffer_of(t);
	CHECK_EQ(noted[0].request, HEXAGON_IOCTL_MEM_MAP);
	CHECK(noted[0].fd > 2);
	CHECK_EQ(noted[0].map.version, 0);
	CHECK_EQ(noted[0].map.fd, of.fd);
	CHECK(of.fd > 2 && of.fd != fd);
	CHECK_EQ(noted[0].map.offset, 0);
	CHECK_EQ(noted[0].map.flags, HEXAGON_MAP_FD);
	CHECK_EQ(noted[0].map.vaddrin, (uintptr_t)of.address);
	CHECK_EQ(noted[0].map.length, BYTES);
	CHECK_EQ(noted[0].map.attrs, 0);
	CHECK_EQ(of.dsp_address, DSP_ADDRESS);
	CHECK_EQ(of.mapped, 1);
	CHECK(t->dl_tensor.data == (char *)of.address + 256);
	t->deleter(t);
	share->deleter(share);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(nnoted, 2);
	CHECK_EQ(noted[1].request, HEXAGON_IOCTL_MEM_UNMAP);
	CHECK_EQ(noted[1].fd, noted[0].fd);
	CHECK_EQ(noted[1].unmap.fd, of.fd);
	CHECK_EQ(noted[1].unmap.vaddr, DSP_ADDRESS);
	CHECK_EQ(noted[1].unmap.length, BYTES);
}

static const struct {
	unsigned long request;
	int err, ret;
	const char *says;
} refusals[] = {
	{ HEXAGON_IOCTL_MEM_MAP, ENOTTY, -EOPNOTSUPP, "older than 5.18" },
	{ HEXAGON_IOCTL_MEM_MAP, ENOMEM, -ENOMEM, "FASTRPC_IOCTL_MEM_MAP: " },
	{ HEXAGON_IOCTL_MEM_MAP, EINVAL, -EIO, "FASTRPC_IOCTL_MEM_MAP: " },
	/* The DSP's process has ended. */
	{ HEXAGON_IOCTL_MEM_UNMAP, EINVAL, 0, "" },
	/* The kernel still has it, by that fd. */
	{ HEXAGON_IOCTL_MEM_UNMAP, ETIMEDOUT, 0, "stays open" },
};

TEST(refusals_of_MEM_MAP_and_MEM_UNMAP)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct dlbuf_device *dev = wrap_null();
		DLManagedTensorVersioned *t = NULL;
		struct dlbuf_hexagon_buffer of = { .fd = -1 };
		int fd AUTO_FD = new_memfd();

		nnoted = 0;
		warned[0] = '\0';
		dlbuf_log_set(keep_warning, NULL, DLBUF_LOG_WARN);
		refused = refusals[i].request;
		refusal = refusals[i].err;
		ktap_forget();
		CHECK_EQ(import(dev, fd, &t), refusals[i].ret);
		if (refusals[i].ret)
			CHECK_SAYS(refusals[i].says);
		if (t) {
			of = buffer_of(t);
			t->deleter(t);
		}
		dlbuf_device_close(dev);
		if (t)
			CHECK_MSG(strstr(warned, refusals[i].says), "%s", warned);
		if (t && refusals[i].says[0]) {
			munmap(of.address, BYTES);
			close(of.fd);
		}
		refused = 0;
	}
}

TEST(wrong_arguments_of_a_wrap)
{
	DLBUF_OPTS(dlbuf_device_opts, unknown, .flags = 0x40000);
	struct dlbuf_device *dev;
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC), fd AUTO_FD = new_memfd();
	const struct {
		int fd, domain;
		const struct dlbuf_device_opts *opts;
		struct dlbuf_device **out;
		int ret;
		const char *says;
	} cases[] = {
		{ null, 3, NULL, NULL, -EINVAL, "out is NULL" },
		{ null, -1, NULL, &dev, -EINVAL, "domain -1" },
		{ null, 32, NULL, &dev, -EINVAL, "domain 32" },
		{ null, 3, &unknown, &dev, -EINVAL, "device flags 0x40000" },
		{ -1, 3, NULL, &dev, -EBADF, "fd -1" },
		{ fd, 3, NULL, &dev, -EINVAL, "not a device node" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_ERR(dlbuf_device_wrap_hexagon(cases[i].fd, cases[i].domain,
						    cases[i].opts, cases[i].out),
			  cases[i].ret);
		CHECK_SAYS(cases[i].says);
	}
}

#ifdef CONFIG_FAULT_INJECTION
TEST(faults_of_a_wrap)
{
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int n = 1; n <= 4; n++) {
		struct dlbuf_device *dev AUTO_DEV = NULL;
		int ret;

		fault_at(n);
		ret = dlbuf_device_wrap_hexagon(null, 3, NULL, &dev);
		fault_at(0);
		CHECK(!ret == !!dev && (n > 3) == !ret);
	}
}
#endif

/* ---------------------------------------------------------------- accesses */

/*
 * An acquire ends the CPU's access, so that the DSP sees its bytes; after the DSP has
 * written, a release begins a read of the CPU. Each START has its END.
 */
TEST(brackets)
{
	static const struct {
		uint32_t access, flags[4];
	} cases[] = {
		{ DLBUF_READ, { DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ,
				DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ } },
		{ DLBUF_WRITE, { DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE,
				 DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE,
				 DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ,
				 DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ } },
		{ DLBUF_RW, { DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW,
			      DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW,
			      DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ,
			      DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ } },
	};
	struct dlbuf_device *dev AUTO_DEV = wrap_null();
	DLManagedTensorVersioned *t;
	DLBUF_INFO(dlbuf_tensor_info, info);
	int fd AUTO_FD = new_memfd();

	t = import_ok(dev, fd);
	CHECK_OK(dlbuf_tensor_get_info(t, &info));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned int acquire = 2, all = cases[i].flags[2] ? 4 : 2;

		nnoted = 0;
		CHECK_OK(dlbuf_acquire(t, cases[i].access, NULL, NULL));
		CHECK_EQ(nnoted, acquire);
		CHECK_OK(dlbuf_release(t, NULL, NULL));
		CHECK_EQ(nnoted, all);
		for (unsigned int k = 0; k < all; k++) {
			CHECK_EQ(noted[k].request, DMA_BUF_IOCTL_SYNC);
			CHECK_EQ(noted[k].fd, info.fd);
			CHECK_EQ(noted[k].sync.flags, cases[i].flags[k]);
		}
	}
	refused = DMA_BUF_IOCTL_SYNC;
	refusal = EFAULT;
	nnoted = 0;
	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), -EIO);
	CHECK_SAYS("hexagon:3: DMA_BUF_IOCTL_SYNC START");
	refused = 0;
	nnoted = 0;
	t->deleter(t);
}

#else
KTAP_SKIPPED("Hexagon is not built")
#endif

KTAP_MAIN()
