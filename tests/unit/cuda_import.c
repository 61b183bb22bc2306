// SPDX-License-Identifier: MIT
/*
 * The CUDA backend against a double of the driver (tests/doubles/cuda.h): its
 * imports of a dma-buf.
 */
#include "common.h"
#include "ktap.h"

#ifdef CONFIG_BACKEND_CUDA
#include <sys/socket.h>

#include <dlbuf/prepare.h>
#include <dlbuf/socket.h>

#include "cuda_backend.h"
#include "cuda_memfds.h"
#include "dmabuf/memory.h"

/* ---------------------------------------------------------------- direct */

/* Until a discrete GPU has read the CPU's bytes, if they are not all the same. */
TEST(direct_is_compared_once)
{
	struct dlbuf_device *dev;
	struct fixture f;

	for (int wrong = 0; wrong <= 1; wrong++) {
		begin(wrong ? "memfds,imports,wrongpages" : "memfds,imports");
		dev = open_ok();
		watch("cuMemcpyDtoHAsync_v2");
		fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW);
		memset(f.bytes, 0, IMPORT_BYTES);
		CHECK_OK(import_now(&f));
		import_finish(&f, 0);
		CHECK_EQ(seen, 1);
		for (int i = 0; i < 2; i++) {
			if (!wrong) {
				import_ok(&f, dev, DLBUF_PATH_DIRECT);
				import_finish(&f, 0);
				continue;
			}
			CHECK_ERR_SAYS(import_as(&f, dev, PATH_BIT(DLBUF_PATH_DIRECT), DLBUF_RW),
				       -EOPNOTSUPP, "reads other bytes than the CPU does");
			import_finish(&f, -1);
		}
		CHECK_EQ(seen, wrong ? 7 : 2);
		dlbuf_device_close(dev);
		end();
	}
}

#ifdef CONFIG_PREPARE_CUDA
/* A kernel counts bytes in 32 bits: crops that are far apart are several launches. */
TEST(crops_that_are_far_apart)
{
	enum { SIDE = 8, CROPS = 3 };
	static const struct {
		int64_t step;		/* values */
		unsigned int launches;
	} rows[] = {
		{ SIDE * SIDE, 1 }, { 1 << 28, 2 }, { (1 << 28) + 1, 3 }, { 1 << 29, 3 },
		{ -SIDE * SIDE, 1 }, { -(1 << 28), 2 },
	};
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = SIDE, .height = SIDE,
		   .channels = DLBUF_CHANNELS_GREY);
	DLTensor layout = { .ndim = 4, .dtype = { kDLFloat, 32, 1 },
		.shape = (int64_t[]){ CROPS, 1, SIDE, SIDE } };
	struct dlbuf_frame frame = PICTURE(64, 16, DLBUF_FOURCC('G', 'R', 'E', 'Y'),
					   DLBUF_CODE_V4L2, 1, .planes = { { .pitch = 64 } });
	int fd = memfd_create("sparse", MFD_CLOEXEC), from = memfd_create("frame", MFD_CLOEXEC);
	struct dlbuf_crop crops[CROPS] = { { .x = 0 }, { 8, 0, 8, 8 }, { 16, 8, 8, 8 } };
	DLBUF_OPTS(dlbuf_prepare_run_opts, run, .crops = crops, .ncrops = CROPS);
	uint8_t pixels[64 * 16];
	float got[SIDE * SIDE];

	memset(pixels, 51, sizeof(pixels));
	frame.planes[0].fd = from;
	REQUIRE(!ftruncate(from, IMPORT_BYTES) && pwrite(from, pixels, sizeof(pixels), 0) > 0);
	REQUIRE(!ftruncate(fd, (8 * (off_t)rows[3].step + IMPORT_BYTES)));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		DLManagedTensorVersioned *out = NULL;
		struct dlbuf_prepare *plan = NULL;
		struct dlbuf_device *dev;

		begin("thor,memfds");
		dev = open_ok();
		layout.strides = (int64_t[]){ rows[i].step, SIDE * SIDE, SIDE, 1 };
		layout.byte_offset = rows[i].step < 0 ? (uint64_t)(-8 * rows[i].step) : 0;
		REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &out));
		REQUIRE_OK(dlbuf_prepare_create(dev, &frame, &opts, &plan));
		watch("cuLaunchKernel");
		CHECK_OK(dlbuf_prepare_frame(plan, &frame, &run, out));
		CHECK_EQ(seen, rows[i].launches);
		for (int k = 0; k < CROPS; k++) {
			CHECK(pread(fd, got, sizeof(got), (off_t)layout.byte_offset +
				    4 * k * rows[i].step) == sizeof(got));
			CHECK(got[0] > .199f && got[0] < .201f && got[SIDE * SIDE - 1] == got[0]);
		}
		dlbuf_prepare_destroy(plan);
		out->deleter(out);
		dlbuf_device_close(dev);
		end();
		/* The next one begins with zeros. */
		REQUIRE(!ftruncate(fd, 0) &&
			!ftruncate(fd, 8 * (off_t)rows[3].step + IMPORT_BYTES));
	}
	close(fd);
	close(from);
}
#endif

/* ---------------------------------------------------------------- host */

DOUBLE_CASE(host_of_what_is_read_only, "")
{
	struct fixture f;
	struct app app;

	REQUIRE_OK(import_as(&f, open_ok(), PATH_BIT(DLBUF_PATH_HOST),
			     DLBUF_READ));
	app_begin(&app, f.dev);
	/* The driver knows that the memory is read-only. */
	CHECK_EQ(cu.MemsetD8Async(pointer_of(&f), 1, 1, app.stream),
		 CUABI_INVALID_VALUE);
	forgive(1);
	app_finish(&app, &f);
	begin("noreadonly");
	watch("cuMemHostRegister_v2");
	CHECK_ERR(import_as(&f, open_ok(), PATH_BIT(DLBUF_PATH_HOST),
			    DLBUF_READ), -EOPNOTSUPP);
	CHECK_STR(dlbuf_last_error(), "the device cannot register read-only "
		  "memory");
	CHECK_EQ(seen, 0);
	import_finish(&f, -1);
	import_ok(&f, f.dev, DLBUF_PATH_HOST);
	give_up(&f);
}

TEST(host_is_refused)
{
	static const struct {
		const char *words, *call;
		cuda_result result;
		int ret;
		const char *says;
	} cases[] = {
		{ "noregister", NULL, 0, -EOPNOTSUPP,
		  "the device cannot register host memory" },
		{ "", "cuMemHostRegister_v2",
		  CUABI_HOST_MEMORY_ALREADY_REGISTERED, -EOPNOTSUPP,
		  "cuda: cuMemHostRegister: "
		  "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)" },
		{ "", "cuMemHostRegister_v2", CUABI_INVALID_VALUE, -EOPNOTSUPP,
		  "(of the dma-buf's mapping; the memfd behind it is not known)" },
		{ "", "cuMemHostRegister_v2", CUABI_NOT_PERMITTED, -EOPNOTSUPP,
		  "CUDA_ERROR_NOT_PERMITTED (800)" },
		/* That path does not use page tables. */
		{ "grace", "cuMemHostGetDevicePointer_v2", CUABI_UNKNOWN,
		  -EOPNOTSUPP, "cuMemHostGetDevicePointer" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dlbuf_device *dev;
		struct fixture f;

		begin(cases[i].words);
		dev = open_ok();
		if (cases[i].call)
			break_call(cases[i].call, cases[i].result, 0);
		CHECK_ERR_SAYS(import_as(&f, dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW),
			       cases[i].ret, cases[i].says);
		/* Only where the driver was asked that matters. */
		CHECK_EQ(strstr(dlbuf_last_error(), "memfd") != NULL,
			 cases[i].call != NULL);
		import_finish(&f, -1);
		CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
		heal();
		dlbuf_device_close(dev);
		end();
	}
}

/* The number of a mapping's pages that are in the page tables. */
static int pages_present(const void *map, size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), n = 0;
	uint64_t entry = 0;

	for (size_t i = 0; i < bytes / page; i++) {
		REQUIRE(pread(fd, &entry, sizeof(entry), ((uintptr_t)map / page +
				i) * sizeof(entry)) == sizeof(entry));
		n += entry >> 63;
	}
	close(fd);
	return n;
}

/* A GPU that walks the CPU's page tables needs no registration. */
DOUBLE_CASE(host_is_coherent, "grace")
{
	struct fixture f;

	break_call("cuMemHostRegister_v2", CUABI_INVALID_VALUE, 0);
	import_ok(&f, open_ok(), DLBUF_PATH_HOST);
	heal();
	CHECK(f.imp->data == queue_memory_of(f.imp)->map);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
	/* Drivers before 575 do not serve faults on a dma-buf's mapping. */
	if (!is_emulated())
		CHECK_EQ(pages_present(queue_memory_of(f.imp)->map, IMPORT_BYTES),
			 IMPORT_BYTES / sysconf(_SC_PAGESIZE));
	give_up(&f);
}

/* A file of which there is no mapping at all. */
DOUBLE_CASE(what_cannot_be_mapped, "")
{
	int fd AUTO_FD = pending_fence();
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	struct fixture f;

	fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_HOST) |
		     PATH_BIT(DLBUF_PATH_COPY), DLBUF_RW);
	CHECK_EQ(dup2(fd, f.imp->fd), f.imp->fd);
	CHECK_ERR(import_now(&f), -EOPNOTSUPP);
	CHECK_SAYS("host: mmap() of the dma-buf: No such device; "
		   "copy: mmap() of the dma-buf: No such device");
	import_finish(&f, -1);
}

/*
 * A missing device is reported as missing, and the failure of a path is not
 * reported if another path works.
 */
TEST(no_memory_to_map)
{
	struct rlimit before, little;
	struct dlbuf_device *dev;
	struct fixture f;

	if (KTAP_ASAN || KTAP_TSAN)
		SKIP("a sanitizer's own memory counts");
	need_machine();
	REQUIRE(!getrlimit(RLIMIT_AS, &before));
	little = before;
	little.rlim_cur = 1;
	begin("");
	dev = open_ok();
	fixture_make(&f, dev, PATH_BIT(DLBUF_PATH_HOST), DLBUF_RW);
	REQUIRE(!setrlimit(RLIMIT_AS, &little));
	CHECK_ERR(import_now(&f), -ENOMEM);
	REQUIRE(!setrlimit(RLIMIT_AS, &before));
	CHECK_SAYS("mmap() of the dma-buf: Cannot allocate memory");
	import_finish(&f, -1);
	ktap_forget();
	import_ok(&f, dev, DLBUF_PATH_HOST);
	import_finish(&f, 0);
	REQUIRE_OK(import_as(&f, dev, PATHS_SHARED, DLBUF_RW));
	CHECK_STR(dlbuf_last_error(), "");
	give_up(&f);
	end();
}

/* ---------------------------------------------------------------- paths */

DOUBLE_CASE(none_serves, "noregister")
{
	struct dlbuf_device *dev AUTO_DEV = open_ok();
	struct fixture f;

	CHECK_ERR(import_as(&f, dev, PATHS_SHARED, DLBUF_RW), -EOPNOTSUPP);
	CHECK_SAYS("cuda:0 has no path to this dma-buf: direct: ");
	CHECK_SAYS("; host: the device cannot register host memory");
	CHECK_SAYS("MAY_COPY would allow a copy");
	import_finish(&f, -1);
	break_call("cuMemHostAlloc", CUABI_UNKNOWN, 0);
	CHECK_ERR_SAYS(import_as(&f, dev, ALL, DLBUF_RW), -EOPNOTSUPP, "; bridge: ");
	CHECK_SAYS("; copy: cuMemHostAlloc: CUDA_ERROR_UNKNOWN (999)");
	CHECK(!strstr(dlbuf_last_error(), "MAY_COPY"));
	import_finish(&f, -1);
	/* A missing capability is reported as missing. */
	break_call("cuMemHostAlloc", CUABI_OUT_OF_MEMORY, 0);
	CHECK_ERR(import_as(&f, dev, ALL, DLBUF_RW), -ENOMEM);
	CHECK_SAYS("; copy: cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)");
	import_finish(&f, -1);
	heal();
}

struct probed {
	unsigned int n;
	struct dlbuf_path_info infos[4];
	int ret;
};

static int probed(const struct dlbuf_path_info *info, void *data)
{
	struct probed *p = data;

	p->infos[p->n++ % 4] = *info;
	return p->ret;
}

TEST(probe)
{
	int memfd AUTO_FD = memfd_create("a dma-buf", MFD_CLOEXEC);
	struct probed p = { 0 };
	struct dlbuf_device *dev;

	REQUIRE(memfd >= 0 && !ftruncate(memfd, IMPORT_BYTES));
	begin("");
	dev = open_ok();
	CHECK_OK(dlbuf_probe(dev, memfd, DLBUF_RW, probed, &p));
	CHECK_EQ(p.n, 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(p.infos[i].path, DLBUF_PATH_DIRECT + i);
	CHECK_EQ(p.infos[0].status, -EOPNOTSUPP);
	CHECK(strstr(p.infos[0].reason, "cuImportExternalMemory"));
	CHECK_EQ(p.infos[1].status, 0);
	CHECK_STR(p.infos[1].reason, "");
	CHECK_EQ(p.infos[2].status, -EOPNOTSUPP);
	CHECK(p.infos[2].reason[0]);
	CHECK_EQ(p.infos[3].status, 0);
	CHECK_STR(dlbuf_last_error(), "");
	p = (struct probed){ .ret = 9 };
	CHECK_EQ(dlbuf_probe(dev, memfd, DLBUF_RW, probed, &p), 9);
	CHECK_EQ(p.n, 1);
	dlbuf_device_close(dev);
	end();
}

/* ---------------------------------------------------------------- the core */

static unsigned int leases; /* atomic */

static void count_lease(void *data)
{
	__atomic_add_fetch(&leases, 1, __ATOMIC_RELAXED);
}

/* During work without a fence: a sender that may not wait does not. */
static void check_send(DLManagedTensorVersioned *tensor)
{
	DLBUF_OPTS(dlbuf_socket_opts, dontwait, .flags = DLBUF_SOCKET_DONTWAIT);
	DLBUF_OPTS(dlbuf_socket_opts, past, .deadline_ns = 1);
	int sock[2];

	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock));
	CHECK_ERR_SAYS(dlbuf_send(sock[0], &tensor, 1, &dontwait), -EAGAIN, "work on the dma-buf");
	CHECK_ERR(dlbuf_send(sock[0], &tensor, 1, &past), -ETIME);
	close(sock[0]);
	close(sock[1]);
}

/* A buffer seen before costs the driver nothing, and a lease waits for it. */
TEST(through_the_core)
{
	int memfd AUTO_FD = memfd_create("a dma-buf", MFD_CLOEXEC), fence = -7;
	DLManagedTensorVersioned *tensor, *other;
	DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES];
	struct dlbuf_frame frame = PICTURE(4096, 3,
		DLBUF_FOURCC('R', '8', ' ', ' '), DLBUF_CODE_DRM, 1,
		.planes = { { .fd = memfd, .pitch = 4096 } },
		.release = count_lease);
	struct dlbuf_device *dev, *cpu;
	unsigned long calls;
	struct app app;
	uint32_t n = 0;

	need_machine();
	REQUIRE(memfd >= 0 && !ftruncate(memfd, IMPORT_BYTES));
	begin("");
	dev = open_ok();
	app_begin(&app, dev);
	REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, tensors, &n));
	CHECK_EQ(n, 1);
	tensors[0]->deleter(tensors[0]);
	CHECK_EQ(__atomic_exchange_n(&leases, 0, __ATOMIC_RELAXED), 1);
	calls = fake->calls;
	fake->synchronising = 0;
	REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, tensors, &n));
	CHECK_EQ(fake->calls, calls);
	tensor = tensors[0];
	CHECK_EQ(tensor->dl_tensor.device.device_type, kDLCUDA);
	CHECK_OK(dlbuf_acquire(tensor, DLBUF_RW, app.stream, NULL));
	gate_close(&app);
	CHECK_EQ(cu.MemsetD8Async((uintptr_t)tensor->dl_tensor.data, 0x5c,
				  IMPORT_BYTES, app.stream), 0);
	CHECK_OK(dlbuf_release(tensor, app.stream, &fence));
	CHECK(fence >= 3 && !signalled(fence));
	/* Another device queries the work. */
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	REQUIRE_OK(dlbuf_tensor_import(cpu, tensor, NULL, &other));
	app_away(&app, true);
	break_call("cuCtxPushCurrent_v2", CUABI_UNKNOWN, 0);
	CHECK_ERR(dlbuf_pending(other, DLBUF_READ, &fence), -EIO);
	heal();
	app_away(&app, false);
	other->deleter(other);
	dlbuf_device_close(cpu);
	check_send(tensor);
	tensor->deleter(tensor);
	CHECK_EQ(__atomic_load_n(&leases, __ATOMIC_RELAXED), 0);
	CHECK_EQ(fake->synchronising, 0);
	gate_open(&app);
	until_signalled(fence);
	close(fence);
	settle();
	CHECK_EQ(__atomic_load_n(&leases, __ATOMIC_RELAXED), 1);
	drain(&app);
	app_end(&app);
	dlbuf_device_close(dev);
	end();
}

#else
KTAP_SKIPPED("the backend is not built")
#endif

KTAP_MAIN()
