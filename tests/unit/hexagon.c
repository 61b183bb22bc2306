// SPDX-License-Identifier: MIT
/*
 * The Hexagon backend against a double of FastRPC's library (tests/doubles/hexagon.h), which
 * has its rules: a case for each. tests/run/mutations breaks them in our code.
 */
#include <dlbuf/interop/hexagon.h>

#include "ktap.h"

#ifdef CONFIG_BACKEND_HEXAGON
#include "hexagon_backend.h"

/* The state for most cases: a device, a dma-buf, and a tensor of it or NULL. */
static struct dlbuf_device *dev;
static int fd;
static DLManagedTensorVersioned *t;

static void begin_device(const char *library, const char *words, uint32_t flags)
{
	begin_with(library, words);
	fd = new_memfd();
	dev = open_flags("hexagon:cdsp", flags);
	t = NULL;
}

static void begin_cdsp(void)
{
	begin_device("libhexagon.so", "", 0);
}

static void begin_tensor(void)
{
	begin_cdsp();
	t = import_ok(dev, fd);
}

/* The tensor and the device go. */
static void close_device(void)
{
	if (t)
		t->deleter(t);
	t = NULL;
	dlbuf_device_close(dev);
	dev = NULL;
}

static void end_device(void)
{
	close_device();
	close(fd);
	end();
}

#define CDSP_CASE(name) TEST_BETWEEN(name, begin_cdsp(), end_device())

static int unmap(int of, void *address, size_t bytes)
{
	return ((int (*)(int, int, void *, size_t))
		dlsym(fake_lib, "fastrpc_munmap"))(3, of, address, bytes);
}

static uint64_t open_session(void)
{
	uint64_t handle = 0;

	CHECK_EQ(((fake_open_fn)dlsym(fake_lib, "remote_handle64_open"))(
		"file:///libcopy_skel.so&_dom=cdsp", &handle), 0);
	return handle;
}

static void close_session(uint64_t handle)
{
	CHECK_EQ(((fake_close_fn)dlsym(fake_lib, "remote_handle64_close"))(handle),
		 0);
}

/* ---------------------------------------------------------------- devices */

TEST(selectors)
{
	static const struct {
		const char *words, *name, *is;
		int domain, ret;
	} cases[] = {
		{ "", "hexagon", "hexagon:cdsp", 3, 0 },
		{ "", "hexagon:cdsp", "hexagon:cdsp", 3, 0 },
		{ "", "hexagon:cdsp1", "hexagon:cdsp1", 4, 0 },
		{ "", "hexagon:gdsp0", "hexagon:gdsp0", 5, 0 },
		{ "", "hexagon:gdsp1", "hexagon:gdsp1", 6, 0 },
		{ "", "hexagon:adsp", "hexagon:adsp", 0, 0 },
		{ "", "hexagon:sdsp", "hexagon:sdsp", 2, 0 },
		{ "", "hexagon:mdsp", NULL, 0, -ENODEV },
		{ "", "hexagon:3", "hexagon:3", 3, 0 },
		/* The second session of cdsp. */
		{ "", "hexagon:11", "hexagon:11", 11, 0 },
		{ "", "hexagon:31", "hexagon:31", 31, 0 },
		{ "", "hexagon:32", NULL, 0, -ENODEV },
		{ "", "hexagon:-1", NULL, 0, -ENODEV },
		{ "", "hexagon:3x", NULL, 0, -ENODEV },
		{ "", "hexagon:cdsp2", NULL, 0, -ENODEV },
		{ "adsp", "hexagon", "hexagon:adsp", 0, 0 },
		{ "adsp", "hexagon:cdsp", NULL, 0, -ENODEV },
		{ "none", "hexagon", NULL, 0, -ENODEV },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		DLBUF_INFO(dlbuf_device_info, info);

		dev = NULL;
		begin(cases[i].words);
		ktap_forget();
		CHECK_EQ(dlbuf_device_open(cases[i].name, NULL, &dev),
			 cases[i].ret);
		if (cases[i].ret) {
			CHECK(!dev && dlbuf_last_error()[0]);
		} else {
			CHECK_OK(dlbuf_device_get_info(dev, &info));
			CHECK_STR(info.name, cases[i].is);
			CHECK_EQ(info.device.device_type, kDLHexagon);
			CHECK_EQ(info.device.device_id, cases[i].domain);
			dlbuf_device_close(dev);
		}
		end();
	}
}

struct listed {
	int n, status;
	char names[200], reason[256];
};

static int list(const struct dlbuf_device_info *info, void *data)
{
	struct listed *l = data;

	if (strcmp(info->backend, "hexagon"))
		return 0;
	l->status = info->status;
	l->n++;
	snprintf(l->reason, sizeof(l->reason), "%s", info->reason);
	snprintf(l->names + strlen(l->names), sizeof(l->names) - strlen(l->names),
		 "%s ", info->name);
	return 0;
}

TEST(lists)
{
	static const struct {
		const char *words, *names;
		int status;
	} cases[] = {
		{ "", "hexagon:cdsp hexagon:cdsp1 hexagon:gdsp0 hexagon:gdsp1 "
		      "hexagon:adsp hexagon:sdsp ", 0 },
		{ "adsp", "hexagon:adsp ", 0 },
		{ "none", "hexagon ", -ENODEV },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct listed l = { 0 };

		begin(cases[i].words);
		CHECK_OK(dlbuf_device_each(list, &l));
		CHECK_STR(l.names, cases[i].names);
		CHECK_EQ(l.status, cases[i].status);
		CHECK(strstr(l.reason, cases[i].status ?
			     "no DSP that FastRPC reaches" : "no fences"));
		end();
	}
}

/* It waits on the thread, and says why it gives no fence. */
TEST(what_a_device_says)
{
	DLBUF_INFO(dlbuf_device_info, info);

	begin_cdsp();
	CHECK_OK(dlbuf_device_get_info(dev, &info));
	CHECK_STR(info.description, "Hexagon cdsp, domain 3");
	CHECK_EQ(info.acquire, DLBUF_SYNC_BLOCKS);
	CHECK_EQ(info.release, DLBUF_SYNC_BLOCKS);
	CHECK(strstr(info.reason, "remote call returns") &&
	      strstr(info.reason, "callback"));
	CHECK_EQ(info.pitch_align, 128);
#ifdef CONFIG_PART_PREPARE
	struct dlbuf_frame frame = { .size = sizeof(frame), .width = 8, .height = 8,
		.code = DLBUF_FOURCC('X','R','2','4'), .code_space = DLBUF_CODE_DRM };
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = 8, .height = 8);
	struct dlbuf_prepare *plan;

	CHECK_ERR(dlbuf_prepare_create(dev, &frame, &opts, &plan), -EOPNOTSUPP);
	CHECK_SAYS("device hexagon:cdsp cannot prepare frames, the CPU can");
#endif
	end_device();
}

/* The process's sessions on a kind of DSP are in the library of that kind. */
TEST(a_library_for_each_kind)
{
	static const char *const cases[][2] = {
		{ "hexagon:cdsp", "libcdsprpc.so" },
		{ "hexagon:cdsp1", "libcdsprpc.so" },
		{ "hexagon:adsp", "libadsprpc.so" },
		{ "hexagon:8", "libadsprpc.so" },
		{ "hexagon:sdsp", "libsdsprpc.so" },
		{ "hexagon:gdsp1", "libgdsprpc.so" },
		{ "hexagon:mdsp", "libmdsprpc.so" },
		{ "hexagon", "libcdsprpc.so" },
	};
	struct listed l = { 0 };

	if (dlopen("libcdsprpc.so.1", RTLD_LAZY) ||
	    dlopen("libcdsprpc.so", RTLD_LAZY))
		SKIP("FastRPC's library is installed");
	unsetenv("DLBUF_HEXAGON_LIBRARY");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_ERR_SAYS(dlbuf_device_open(cases[i][0], NULL, &dev), -ENODEV, cases[i][1]);
	}
	CHECK_OK(dlbuf_device_each(list, &l));
	CHECK_STR(l.names, "hexagon ");
	CHECK(strstr(l.reason, "libcdsprpc.so"));
}

/* FastRPC's threads and session stay with the parent. */
TEST(children)
{
	static const struct {
		bool used;
		int ret;
	} cases[] = { { false, 0 }, { true, ESTALE } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int status;
		pid_t pid;

		begin("");
		if (cases[i].used)
			dlbuf_device_close(open_flags("hexagon", 0));
		pid = fork();
		if (!pid)
			_exit(-dlbuf_device_open("hexagon", NULL, &dev));
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(WEXITSTATUS(status), cases[i].ret);
		end();
	}
}

/* ---------------------------------------------------------------- maps */

/* Offset 0, FASTRPC_MAP_FD, the whole buffer, the beginning of its mapping. */
TEST(one_map_of_the_whole_buffer)
{
	DLManagedTensorVersioned *a, *b, *share;
	struct dlbuf_hexagon_buffer of;

	begin("");
	fd = new_memfd();
	dev = open_flags("hexagon:cdsp1", 0);
	a = import_ok(dev, fd);
	CHECK_EQ(fake->map.domain, 4);
	CHECK_EQ(fake->map.offset, 0);
	CHECK_EQ(fake->map.flags, 2);
	CHECK_EQ(fake->map.size, BYTES);
	CHECK(fake->map.fd > 2 && fake->map.fd != fd);
	/* The same tuple: a remote call finds the fd by the address. */
	CHECK(fake->registration.p == fake->map.p);
	CHECK_EQ(fake->registration.fd, fake->map.fd);
	CHECK_EQ(fake->registration.size, BYTES);
	CHECK_EQ(fake->registration.attr, 0);
	CHECK(a->dl_tensor.data == (char *)fake->map.p + 256);
	CHECK_EQ(a->dl_tensor.byte_offset, 0);
	of = buffer_of(a);
	CHECK(of.address == fake->map.p && of.fd == fake->map.fd);
	CHECK_EQ(of.bytes, BYTES);
	CHECK_EQ(of.offset, 256);
	CHECK_EQ(of.domain, 4);
	CHECK_EQ(of.mapped, 1);
	CHECK_EQ(of.dsp_address, 0);
	/* More tensors of the buffer are of the same map. */
	b = import_ok(dev, fd);
	REQUIRE_OK(dlbuf_tensor_share(a, NULL, &share));
	CHECK_EQ(fake->made[FAKE_MAP], 1);
	CHECK_EQ(fake->registrations, 1);
	CHECK(b->dl_tensor.data == a->dl_tensor.data);
	a->deleter(a);
	b->deleter(b);
	share->deleter(share);
	CHECK_EQ(fake->live[FAKE_MAP], 1);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(fake->live[FAKE_MAP], 0);
	end_device();
}

/* The application maps its own fd, before and after. */
CDSP_CASE(the_application_s_own_map)
{
	int (*map)(int, int, void *, int, size_t, int);
	void *p = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	map = (int (*)(int, int, void *, int, size_t, int))
		dlsym(fake_lib, "fastrpc_mmap");
	REQUIRE(map && p != MAP_FAILED);
	CHECK_EQ(map(3, fd, p, 0, BYTES, HEXAGON_MAP_FD), 0);
	t = import_ok(dev, fd);
	CHECK_EQ(fake->live[FAKE_MAP], 2);
	close_device();
	CHECK_EQ(fake->live[FAKE_MAP], 1);
	CHECK_EQ(unmap(fd, p, BYTES), 0);
	munmap(p, BYTES);
}

/*
 * AEE_EALREADY: a number that was closed before it was unmapped. Another number
 * is taken, above 2 even if the standard input is closed; the warning names the fd.
 */
TEST(a_number_that_is_still_mapped)
{
	static const int counts[] = { 1, 3, 8 };

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		fake_hexagon_stale_fn stale;
		int in, next;

		begin_cdsp();
		stale = (fake_hexagon_stale_fn)dlsym(fake_lib, "fake_hexagon_stale");
		in = dup(0);
		next = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		close(next);
		for (int n = 0; n < counts[i]; n++)
			stale(3, next + n);
		close(0);
		t = import_ok(dev, fd);
		CHECK_MSG(strstr(warned, "before fastrpc_munmap()"), "%s", warned);
		CHECK_EQ(buffer_of(t).fd, next + counts[i]);
		CHECK_EQ(fake->registration.fd, next + counts[i]);
		dup2(in, 0);
		close(in);
		close_device();
		CHECK_EQ(fake->live[FAKE_MAP], counts[i]);
		((fake_hexagon_end_fn)dlsym(fake_lib, "fake_hexagon_end"))(3);
		end_device();
	}
}

/* Too many of them. */
CDSP_CASE(all_numbers_are_still_mapped)
{
	fake->failing = "fastrpc_mmap";
	fake->result = AEE_EALREADY;
	CHECK_ERR(import(dev, fd, &t), -EBUSY);
	CHECK_SAYS("hexagon:cdsp: fastrpc_mmap(): another buffer is mapped by this fd "
		   "number");
}

/* dspqueue has a reference: then the number must not come again for another file. */
TEST(a_map_that_cannot_end)
{
	struct dlbuf_hexagon_buffer of;
	fake_hexagon_ref_fn ref;

	begin_tensor();
	ref = (fake_hexagon_ref_fn)dlsym(fake_lib, "fake_hexagon_ref");
	of = buffer_of(t);
	CHECK_EQ(ref(3, of.fd, 1), 0);
	close_device();
	CHECK_MSG(strstr(warned, "stays open"), "%s", warned);
	CHECK(fcntl(of.fd, F_GETFD) == FD_CLOEXEC);
	CHECK_EQ(*(volatile char *)of.address, 0);
	/* It is unchanged, for the call that drops the reference. */
	CHECK_EQ(fake->live[FAKE_MAP], 1);
	CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
	CHECK_EQ(ref(3, of.fd, -1), 0);
	CHECK_EQ(unmap(of.fd, of.address, BYTES), 0);
	munmap(of.address, BYTES);
	close(of.fd);
	end_device();
}

/* The session ends while a tensor is alive: its maps have ended, which is no failure. */
TEST(a_session_that_ends)
{
	static const char *const words[] = { "", "nosession" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		uint64_t handle;

		begin_device("libhexagon.so", words[i], 0);
		handle = open_session();
		t = import_ok(dev, fd);
		close_session(handle);
		close_device();
		CHECK_STR(warned, "");
		end_device();
	}
}

/* ---------------------------------------------------------------- old libraries */

/* A registration by itself: remote calls map the buffer each time. */
TEST(without_fastrpc_mmap)
{
	static const struct {
		const char *library, *words;
	} cases[] = {
		{ "libhexagon.so", "unsupported" }, { "libhexagon-old.so", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char to[8] = "", *from;
		fake_remote_arg args[2];
		fake_invoke_fn invoke;

		begin_device(cases[i].library, cases[i].words, 0);
		invoke = (fake_invoke_fn)dlsym(fake_lib, "remote_handle64_invoke");
		t = import_ok(dev, fd);
		CHECK_EQ(fake->made[FAKE_MAP], 0);
		CHECK_EQ(fake->live[FAKE_REGISTRATION], 1);
		CHECK_EQ(buffer_of(t).mapped, 0);
		from = t->dl_tensor.data;
		memcpy(from, "by fd", 6);
		args[0].buf.pv = from;
		args[1].buf.pv = to;
		args[0].buf.nLen = args[1].buf.nLen = 6;
		CHECK_EQ(invoke(1, FAKE_COPY, args), 0);
		CHECK_STR(to, "by fd");
		CHECK_EQ(fake->by_fd, 1);
		end_device();
	}
}

/* Its size is an int. */
TEST(an_old_library_and_a_large_buffer)
{
	if (sizeof(size_t) < 8)
		SKIP("no buffer is that large");
	begin_device("libhexagon-old.so", "", 0);
	REQUIRE(!ftruncate(fd, 1ll << 31));
	CHECK_ERR_SAYS(import(dev, fd, &t), -EOPNOTSUPP, "registers 2147483647 at most");
	end_device();
	begin_cdsp();
	REQUIRE(!ftruncate(fd, 1ll << 31));
	t = import_ok(dev, fd);
	CHECK_EQ(fake->registration.size, 1ll << 31);
	end_device();
}

/* ---------------------------------------------------------------- failures */

/* AEE codes are not errnos. The DSP's own have an offset. */
CDSP_CASE(results)
{
	static const struct {
		int aee, ret;
		const char *says;
	} cases[] = {
		{ AEE_EFAILED, -EIO, "refused (AEE 0x1)" },
		{ AEE_ENOMEMORY, -ENOMEM, "no memory (AEE 0x2)" },
		{ AEE_EBADPARM, -EIO, "a parameter (AEE 0xe)" },
		{ AEE_ENOSUCHMAP, -EIO, "no such map (AEE 0x48)" },
		{ AEE_EINVALIDDOMAIN, -ENODEV, "no such domain (AEE 0x39)" },
		{ AEE_EBADDOMAIN, -ENODEV, "no such domain (AEE 0x4b)" },
		{ AEE_EINVALIDDEVICE, -ENODEV, "device node" },
		{ AEE_ENOSUCHDEVICE, -ENODEV, "no such DSP" },
		{ AEE_ECONNREFUSED, -ENODEV, "device node" },
		{ AEE_ENOTINITIALIZED, -EOPNOTSUPP,
		  "no FastRPC session with this DSP" },
		{ (int)(AEE_DSP + AEE_ENOMEMORY), -ENOMEM,
		  "no memory (AEE 0x2, on the DSP)" },
		{ (int)(AEE_DSP + AEE_EUNSUPPORTED), -EOPNOTSUPP,
		  "(AEE 0x14, on the DSP)" },
		{ 0x777, -EIO, "(AEE 0x777)" },
		{ -1, -EIO, "(AEE 0xffffffff)" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake->failing = "fastrpc_mmap";
		fake->result = cases[i].aee;
		CHECK_ERR_SAYS(import(dev, fd, &t), cases[i].ret, "hexagon:cdsp: fastrpc_mmap(): ");
		CHECK_SAYS(cases[i].says);
		CHECK_EQ(fake->live[FAKE_REGISTRATION], 0);
	}
}

/* The kernel's own answer, of a node that is none of fastrpc's. */
TEST(a_wrapped_node_of_another_driver)
{
	int null AUTO_FD = open("/dev/null", O_RDWR | O_CLOEXEC);

	need_machine();
	fd = new_memfd();
	REQUIRE_OK(dlbuf_device_wrap_hexagon(null, 3, NULL, &dev));
	CHECK_ERR(import(dev, fd, &t), -EOPNOTSUPP);
	CHECK_SAYS("older than 5.18, or it is no fastrpc node");
	dlbuf_device_close(dev);
	close(fd);
}

/* dlbuf opens no session: which rights it has is the application's business. */
TEST(no_session)
{
	uint64_t handle;

	begin_device("libhexagon.so", "nosession", 0);
	CHECK_ERR_SAYS(import(dev, fd, &t), -EOPNOTSUPP, "open a remote handle first");
	handle = open_session();
	t = import_ok(dev, fd);
	close_device();
	close_session(handle);
	end_device();
}

TEST(of_another_device)
{
	DLBUF_INFO(dlbuf_hexagon_buffer, b);

	CHECK_ERR(dlbuf_hexagon_get_buffer(NULL, &b), -EINVAL);
	begin_tensor();
	b.size = 0;
	CHECK_ERR(dlbuf_hexagon_get_buffer(t, &b), -EINVAL);
#ifdef CONFIG_BACKEND_CPU
	close_device();
	dev = open_flags("cpu", 0);
	t = import_ok(dev, fd);
	b.size = sizeof(b);
	CHECK_ERR(dlbuf_hexagon_get_buffer(t, &b), -EINVAL);
	CHECK_SAYS("on cpu, which is not a Hexagon device");
#endif
	end_device();
}

/* ---------------------------------------------------------------- dspqueue, QNN, LiteRT */

#define DIMS(...) { __VA_ARGS__ }

static const struct {
	int ndim;
	int64_t shape[9], strides[9];
	DLDataType dtype;
	uint64_t bytes;		/* 0: refused */
	const char *says;
} packings[] = {
	{ 2, DIMS(8, 128), DIMS(128, 1), { kDLUInt, 8, 1 }, 1024, NULL },
	{ 3, DIMS(4, 8, 3), DIMS(24, 3, 1), { kDLFloat, 16, 1 }, 192, NULL },
	/* The stride of a dimension of one element does not matter. */
	{ 3, DIMS(1, 8, 4), DIMS(4096, 4, 1), { kDLFloat, 32, 1 }, 128, NULL },
	{ 0, DIMS(0), DIMS(0), { kDLFloat, 32, 1 }, 4, NULL },
	{ 1, DIMS(5), DIMS(1), { kDLUInt, 8, 4 }, 20, NULL },
	{ 2, DIMS(8, 100), DIMS(128, 1), { kDLUInt, 8, 1 }, 0,
	  "dimension 0 has a stride of 128 elements, 100 are packed: QNN, LiteRT and "
	  "dspqueue take no padded rows" },
	{ 3, DIMS(2, 8, 8), DIMS(64, 1, 8), { kDLUInt, 8, 1 }, 0,
	  "dimension 2 has a stride of 8 elements, 1 are packed" },
	{ 2, DIMS(0, 8), DIMS(8, 1), { kDLUInt, 8, 1 }, 0,
	  "dimension 0 has 0 elements" },
	{ 9, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1),
	  { kDLUInt, 8, 1 }, 0, "9 dimensions are more than 8" },
};

CDSP_CASE(packed_or_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(packings); i++) {
		DLTensor layout = {
			.ndim = packings[i].ndim, .dtype = packings[i].dtype,
			.shape = (int64_t *)packings[i].shape,
			.strides = (int64_t *)packings[i].strides,
			.byte_offset = 512,
		};
		struct dlbuf_hexagon_packed p = { .fd = -7 };

		REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &t));
		ktap_forget();
		CHECK_EQ(dlbuf_hexagon_describe(t, &p),
			 packings[i].bytes ? 0 : -EOPNOTSUPP);
		if (packings[i].bytes) {
			CHECK_EQ(p.bytes, packings[i].bytes);
			CHECK_EQ(p.whole, BYTES);
			CHECK_EQ(p.offset, 512);
			CHECK_EQ(p.fd, fake->map.fd);
			CHECK_EQ(p.mapped, 1);
			CHECK((char *)p.address + 512 == t->dl_tensor.data);
			CHECK_EQ(p.ndim, packings[i].ndim);
			for (int k = 0; k < packings[i].ndim; k++)
				CHECK_EQ(p.dims[k], packings[i].shape[k]);
		} else {
			CHECK_SAYS(packings[i].says);
			CHECK_EQ(p.fd, -7);
		}
		t->deleter(t);
		t = NULL;
	}
	CHECK_ERR(dlbuf_hexagon_describe(NULL, &(struct dlbuf_hexagon_packed){ 0 }),
		  -EINVAL);
}

/* As dspqueue.h of qualcomm/fastrpc declares it; and the known part of QNN's. */
struct dspqueue_buffer {
	uint32_t fd, size, offset, flags;
	union {
		void *ptr;
		uint64_t address;
	};
};
struct htp_descriptor {
	int type;
	size_t size;
	struct {
		int32_t fd;
		uint64_t offset;
	} sharedBufferConfig;
};

TEST(fields_of_dspqueue_and_qnn)
{
	struct dlbuf_hexagon_packed p;
	struct dspqueue_buffer b;
	struct htp_descriptor d;
	int64_t shape = 100;
	DLTensor layout = LAYOUT8(1, &shape, .byte_offset = 256);

	begin_cdsp();
	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &t));
	REQUIRE_OK(dlbuf_hexagon_describe(t, &p));
	DLBUF_DSPQUEUE_SET(&b, &p, 0x10);
	CHECK_EQ(b.fd, fake->map.fd);
	CHECK_EQ(b.size, 100);
	CHECK_EQ(b.offset, 256);
	CHECK_EQ(b.flags, 0x10);
	CHECK(b.ptr == t->dl_tensor.data);
	DLBUF_QNN_HTP_SET(&d, &p);
	CHECK_EQ(d.size, BYTES);
	CHECK_EQ(d.sharedBufferConfig.fd, fake->map.fd);
	CHECK_EQ(d.sharedBufferConfig.offset, 256);
	close_device();
#ifdef CONFIG_BACKEND_CPU
	close_device();
	dev = open_flags("cpu", 0);
	REQUIRE_OK(dlbuf_import(dev, fd, &layout, NULL, &t));
	REQUIRE_OK(dlbuf_hexagon_describe(t, &p));
	CHECK(!p.mapped && !p.address && p.fd > 2);
	CHECK_EQ(p.offset, 256);
#endif
	end_device();
}

#ifdef CONFIG_FAULT_INJECTION
static int walk(void)
{
	int ret = dlbuf_device_open("hexagon:cdsp", NULL, &dev);

	if (ret)
		return ret;
	fd = new_memfd();
	ret = import(dev, fd, &t);
	close_device();
	close(fd);
	return ret;
}

DOUBLE_CASE(faults, "")
{
	unsigned long calls;

	fault_at(0);
	CHECK_OK(walk());
	calls = fault_count();
	CHECK(calls > 8);
	for (unsigned long n = 1; n <= calls; n++) {
		int ret;

		ktap_forget();
		fault_at(n);
		ret = walk();
		fault_at(0);
		CHECK(!ret || dlbuf_last_error()[0]);
		CHECK_EQ(fake->wrong, 0);
		if (!nothing_left())
			ktap_note(NULL, 0, "call %lu of %lu gave %d: %s", n, calls,
				  ret, dlbuf_last_error());
	}
}
#endif

#else
KTAP_SKIPPED("Hexagon is not built")
#endif

KTAP_MAIN()
