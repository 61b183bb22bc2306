// SPDX-License-Identifier: MIT
/* Structs that begin with their size, of older and of newer callers. */
#include "common.h"
#include "ktap.h"

#include <dlbuf/dlbuf.h>

#include "system/internal.h"

struct ours {
	size_t size;
	uint32_t a, b;
	const char *c;
};

struct newer {
	struct ours ours;
	uint64_t d, e;
};

static int get(struct ours *o, const void *src)
{
	memset(o, 0xee, sizeof(*o));
	return opts_get(o, sizeof(*o), src, "test_opts");
}

/* An older caller's struct is shorter, a newer one's has a tail of zeros. */
TEST(sizes_of_callers)
{
	static const struct ours none, cases[] = {
		{ sizeof(size_t), 0, 0, NULL },
		{ offsetof(struct ours, b), 1, 0, NULL },
		{ sizeof(struct ours), 1, 2, "three" },
		{ sizeof(struct newer), 1, 2, "three" },
	};
	struct newer src = { .ours = { 0, 1, 2, "three" } };
	struct ours o;

	CHECK_OK(get(&o, NULL));
	CHECK(!memcmp(&o, &none, sizeof(o)));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		src.ours.size = cases[i].size;
		CHECK_OK(get(&o, &src));
		CHECK_EQ(o.size, sizeof(o));
		CHECK_EQ(o.a, cases[i].a);
		CHECK_EQ(o.b, cases[i].b);
		CHECK_STR(o.c ? o.c : "", cases[i].c ? cases[i].c : "");
	}
}

TEST(a_newer_caller_s_unknown_option)
{
	struct newer src = { .ours = { sizeof(src), 1, 2, "three" } };
	unsigned char *tail = (unsigned char *)&src.d;
	struct ours o;

	/* Every byte of the tail counts, the first and the last too. */
	for (size_t i = 0; i < 16; i++) {
		tail[i] = 1;
		CHECK_ERR_SAYS(get(&o, &src), -EINVAL, "struct test_opts");
		tail[i] = 0;
	}
	CHECK_OK(get(&o, &src));
}

TEST(a_size_that_is_not_set)
{
	struct ours src = { 0, 1, 2, NULL }, o;

	CHECK_ERR_SAYS(get(&o, &src), -EINVAL, "struct test_opts has a size of 0");
	src.size = sizeof(size_t) - 1;
	CHECK_ERR(get(&o, &src), -EINVAL);
}

/* ---------------------------------------------------------------- results */

/*
 * Structs of an older, of the same and of a newer caller: bytes after the caller's size are
 * unchanged.
 */
TEST(sizes_of_results)
{
	static const struct ours mine = { 0, 1, 2, "three" }, cases[] = {
		{ offsetof(struct ours, b), 1, 9, "untouched" },
		{ sizeof(struct ours), 1, 2, "three" },
		{ sizeof(struct newer), 1, 2, "three" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct newer dst = { { cases[i].size, 9, 9, "untouched" }, 9, 9 };
		uint64_t tail = cases[i].size == sizeof(dst) ? 0 : 9;

		CHECK_OK(info_put(&dst, &mine, sizeof(mine), "test_info"));
		CHECK_EQ(dst.ours.size, cases[i].size);
		CHECK_EQ(dst.ours.a, cases[i].a);
		CHECK_EQ(dst.ours.b, cases[i].b);
		CHECK_STR(dst.ours.c, cases[i].c);
		CHECK_EQ(dst.d, tail);
		CHECK_EQ(dst.e, tail);
	}
}

TEST(results_without_a_size)
{
	struct ours mine = { 0, 1, 2, "three" }, dst = { 0, 9, 9, "" };

	CHECK_ERR(INFO_PUT(&dst, &mine, "test_info"), -EINVAL);
	CHECK_ERR(info_put(NULL, &mine, sizeof(mine), "test_info"), -EINVAL);
	CHECK_EQ(dst.a, 9);
}

/* ---------------------------------------------------------------- in public */

/*
 * Each public function that takes options or fills a struct, so that each
 * checks it. call() passes the struct on; the check after that of the options
 * is made to fail in a way that shows which check was first.
 */
struct taker {
	const char *name;
	size_t size;
	int (*call)(void *opts);
	int otherwise;	/* the result of call() for good options */
	size_t reserved;	/* the offset of such a member; 0: there is none */
};

#ifdef CONFIG_BACKEND_CPU
static struct dlbuf_device *cpu;

static int open_device(void *opts)
{
	struct dlbuf_device *dev = NULL;
	int ret = dlbuf_device_open("cpu", opts, &dev);

	if (ret)
		CHECK(!dev);
	dlbuf_device_close(dev);
	return ret;
}

static int import(void *opts)
{
	DLTensor layout = { .dtype = { kDLUInt, 8, 1 } };
	DLManagedTensorVersioned *t = NULL;
	int ret = dlbuf_import(cpu, -1, &layout, opts, &t);

	CHECK(!t);
	return ret;
}

static int import_frame(void *opts)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	struct dlbuf_frame f = PICTURE(4, 4, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .planes = { { .fd = -1, .pitch = 4 } });
	uint32_t n = 77;
	int ret = dlbuf_import_frame(cpu, &f, opts, t, &n);

	CHECK_EQ(n, 77);
	CHECK(!t[0]);
	return ret;
}

static int frame(void *opts)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	uint32_t n = 77;
	int ret = dlbuf_import_frame(cpu, opts, NULL, t, &n);

	CHECK_EQ(n, 77);
	return ret;
}

static int alloc_tensor(void *opts)
{
	DLTensor layout = { .ndim = -1, .dtype = { kDLUInt, 8, 1 } };
	DLManagedTensorVersioned *t = NULL;
	int ret = dlbuf_alloc(&cpu, 1, &layout, opts, &t);

	CHECK(!t);
	return ret;
}

static int alloc_fd(void *opts)
{
	int fd = 77, ret = dlbuf_alloc_fd(4096, opts, &fd);

	CHECK_EQ(fd, 77);
	return ret;
}

static int udmabuf(void *opts)
{
	struct dlbuf_udmabuf buf = { 77, 77, 77 };
	int ret = dlbuf_udmabuf_create(0, opts, &buf);

	CHECK_EQ(buf.fd, 77);
	return ret;
}

static int send_nothing(void *opts)
{
	DLManagedTensorVersioned *none = NULL;

	return dlbuf_send(-1, &none, 1, opts);
}

static int camera(void *opts)
{
	struct dlbuf_camera *cam = NULL;
	int ret = dlbuf_camera_open(NULL, opts, &cam);

	CHECK(!cam);
	return ret;
}

static int export(void *opts)
{
	DLTensor none = { .ndim = 0 };
	DLBUF_INFO(dlbuf_exported, out);

	return dlbuf_export(cpu, &none, opts, &out);
}

#ifdef CONFIG_PART_PREPARE
static int prepare(void *opts)
{
	return dlbuf_prepare_tensors(NULL, NULL, 0, opts, NULL);
}
#endif

/* -ENOSYS if it is not built: no argument is checked then. */
#ifdef CONFIG_EXPORTER_UDMABUF
#define UDMABUF(err) err
#else
#define UDMABUF(err) -ENOSYS
#endif

static const struct taker takers[] = {
	{ "dlbuf_device_open", sizeof(struct dlbuf_device_opts), open_device, 0, 0 },
	{ "dlbuf_import", sizeof(struct dlbuf_import_opts), import, -EBADF, 0 },
	{ "dlbuf_import_frame", sizeof(struct dlbuf_import_opts), import_frame,
	  -EBADF, 0 },
	{ "the frame", sizeof(struct dlbuf_frame), frame, -EINVAL, 0 },
	{ "dlbuf_alloc", sizeof(struct dlbuf_alloc_opts), alloc_tensor, -EINVAL, 0 },
	{ "dlbuf_alloc_fd", sizeof(struct dlbuf_alloc_opts), alloc_fd, -EINVAL, 0 },
	{ "dlbuf_udmabuf_create", sizeof(struct dlbuf_udmabuf_opts), udmabuf,
	  UDMABUF(-EINVAL), offsetof(struct dlbuf_udmabuf_opts, reserved) },
	{ "dlbuf_export", sizeof(struct dlbuf_export_opts), export, -EINVAL,
	  offsetof(struct dlbuf_export_opts, reserved) },
#ifdef CONFIG_PART_SOCKET
	{ "dlbuf_send", sizeof(struct dlbuf_socket_opts), send_nothing, -EINVAL,
	  offsetof(struct dlbuf_socket_opts, reserved) },
#endif
#ifdef CONFIG_PART_CAMERA
	{ "dlbuf_camera_open", sizeof(struct dlbuf_camera_opts), camera, -EINVAL,
	  offsetof(struct dlbuf_camera_opts, reserved) },
#endif
#ifdef CONFIG_PART_PREPARE
	{ "dlbuf_prepare_tensors", sizeof(struct dlbuf_prepare_run_opts), prepare, -EINVAL,
	  offsetof(struct dlbuf_prepare_run_opts, reserved) },
#endif
};

TEST(every_function_looks_at_the_size)
{
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	for (size_t i = 0; i < ARRAY_SIZE(takers); i++) {
		const struct taker *t = &takers[i];
		unsigned char opts[1024] = { 0 };
		unsigned int before = ktap.result->failures;
		size_t size;

		if (t->otherwise == -ENOSYS) {
			CHECK_ERR(t->call(opts), -ENOSYS);
			continue;
		}
		CHECK_ERR_SAYS(t->call(opts), -EINVAL, "has a size of 0");

		size = sizeof(size);
		memcpy(opts, &size, sizeof(size));
		CHECK_EQ(t->call(opts), t->otherwise);

		size = t->size + 64;
		memcpy(opts, &size, sizeof(size));
		CHECK_EQ(t->call(opts), t->otherwise);

		opts[t->size + 63] = 1;
		CHECK_ERR_SAYS(t->call(opts), -EINVAL, "an option that dlbuf");
		size = t->size;
		memset(opts, 0, sizeof(opts));
		memcpy(opts, &size, sizeof(size));
		if (t->reserved) {
			opts[t->reserved + 3] = 1;
			CHECK_ERR_SAYS(t->call(opts), -EINVAL, "it must be 0");
		}
		if (ktap.result->failures != before)
			ktap_note(__FILE__, __LINE__, "that was %s", t->name);
	}
	dlbuf_device_close(cpu);
}

TEST(unknown_flags)
{
	DLBUF_OPTS(dlbuf_device_opts, device, .flags = 0x80000000);
	struct dlbuf_import_opts imports[] = {
		{ .flags = 4 },
		{ .access = 4 },
		{ .paths = 1 },
		{ .paths = DLBUF_PATH_BIT(DLBUF_PATH_COPY) },
	};
	DLBUF_OPTS(dlbuf_alloc_opts, alloc, .exporter = "udmabuf", .flags = 1);
	struct dlbuf_device *dev = NULL;
	int fd = 77;

	CHECK_ERR(dlbuf_device_open("cpu", &device, &dev), -EINVAL);
	CHECK_SAYS("device flags 0x80000000 are unknown");
	device.flags = 4 | DLBUF_DEVICE_NO_BRIDGE | DLBUF_DEVICE_NO_CACHE;
	CHECK_ERR(dlbuf_device_open("cpu", &device, &dev), -EINVAL);
	CHECK_SAYS("device flags 0x4 are unknown");
	CHECK(!dev);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	for (size_t i = 0; i < ARRAY_SIZE(imports); i++) {
		imports[i].size = sizeof(imports[i]);
		CHECK_ERR(import(&imports[i]), -EINVAL);
	}
	CHECK_ERR(dlbuf_alloc_fd(4096, &alloc, &fd), -EINVAL);
	CHECK_EQ(fd, 77);
	dlbuf_device_close(cpu);
}
#endif

TEST(every_result_has_a_size)
{
	struct dlbuf_device_info device = { 0 };
	struct dlbuf_device_stats stats = { 0 };
	struct dlbuf_format_info format = { 0 };
	uint32_t r8 = DLBUF_FOURCC('R', '8', ' ', ' ');

	CHECK_ERR(dlbuf_format_find(r8, 0, DLBUF_CODE_DRM, &format), -EINVAL);
	CHECK_ERR(dlbuf_format_find(r8, 0, DLBUF_CODE_DRM, NULL), -EINVAL);
#ifdef CONFIG_BACKEND_CPU
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	CHECK_ERR(dlbuf_device_get_info(cpu, &device), -EINVAL);
	CHECK_ERR(dlbuf_device_get_info(cpu, NULL), -EINVAL);
	CHECK_ERR(dlbuf_device_get_stats(cpu, &stats), -EINVAL);
	CHECK_ERR(dlbuf_device_get_stats(cpu, NULL), -EINVAL);
	dlbuf_device_close(cpu);
#endif
	CHECK_ERR(dlbuf_device_get_info(NULL, &device), -EINVAL);
	CHECK_ERR(dlbuf_device_get_stats(NULL, &stats), -EINVAL);
}

KTAP_MAIN()
