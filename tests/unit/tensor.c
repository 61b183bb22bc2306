// SPDX-License-Identifier: MIT
/* Tensors that are not dlbuf's, handed to dlbuf. */
#include "ktap.h"

#include <dlbuf/dlbuf.h>

#include "common.h"
#include "system/internal.h"

/* Each function that takes a tensor says the same. */
static void check_refused(DLManagedTensorVersioned *t, int err)
{
	struct dlbuf_tensor_info info = { .size = sizeof(info), .fd = 77 };
	DLManagedTensorVersioned *other = NULL;
	struct dlbuf_device *cpu AUTO_DEV = NULL;
	DLManagedTensor *legacy = NULL;
	const DLTensor layout = { .dtype = { kDLUInt, 8, 1 } };
	int fence = 77;

	CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), err);
	CHECK_ERR(dlbuf_release(t, NULL, &fence), err);
	CHECK_ERR(dlbuf_release(t, NULL, NULL), err);
	CHECK_ERR(dlbuf_tensor_share(t, NULL, &other), err);
	CHECK_ERR(dlbuf_tensor_share_legacy(t, &legacy), err);
	CHECK_ERR(dlbuf_tensor_share(t, &layout, &other), err);
#ifdef CONFIG_BACKEND_CPU
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	CHECK_ERR(dlbuf_tensor_import(cpu, t, NULL, &other), err);
#endif
	CHECK_ERR(dlbuf_tensor_get_info(t, &info), err);
	CHECK_EQ(fence, 77);
	CHECK(!other);
	CHECK(!legacy);
	CHECK_EQ(info.fd, 77);
}

static void delete_foreign(DLManagedTensorVersioned *self)
{
	CHECK(!"a borrowed tensor was deleted");
}

TEST(null)
{
	check_refused(NULL, -EINVAL);
	CHECK_ERR(dlbuf_tensor_share(NULL, NULL, NULL), -EINVAL);
	CHECK_ERR(dlbuf_tensor_share_legacy(NULL, NULL), -EINVAL);
}

TEST(another_library_s)
{
	DLManagedTensorVersioned t = {
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
		.deleter = delete_foreign,
	};

	check_refused(&t, -EINVAL);
	t.deleter = NULL; /* DLPack allows it */
	check_refused(&t, -EINVAL);
	t.version.minor = 99;
	check_refused(&t, -EINVAL);
}

/* With another major version only the version may be read: the struct ends there. */
TEST(another_major_version)
{
	DLPackVersion *version = malloc(sizeof(*version));

	REQUIRE(version);
	for (uint32_t major = 0; major < 5; major++) {
		if (major == DLPACK_MAJOR_VERSION)
			continue;
		version->major = major;
		version->minor = 7;
		check_refused((DLManagedTensorVersioned *)(void *)version,
			      -EINVAL);
	}
	CHECK_SAYS("DLPack 4.7");
	free(version);
}

KTAP_MAIN()
