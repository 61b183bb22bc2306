// SPDX-License-Identifier: MIT
/* The device that a selector means. DRM nodes: tests/lab/syncobj.c. */
#include "ktap.h"

#include "system/internal.h"
#include "import/select.h"

/* Three devices; the second cannot be used, and the third is on no bus. */
static const struct dlbuf_device_info infos[] = {
	{ .description = "First GPU", .uuid = { 0xa0 } },
	{ .description = "Lame GPU", .uuid = { 0xa1 } },
	{ .description = "Third SoC" },
};
static const struct device_place places[] = {
	{ .pci = PCI_ADDRESS(0, 1, 0, 0) },
	{ .pci = PCI_ADDRESS(0x10000, 0xe1, 31, 7) },
	{ .drm = { 1, 129 } },
};

static int probe(unsigned int i)
{
	return i == 1 ? fail(-EOPNOTSUPP, "test: the second is lame") : 0;
}

static int select_one(struct selector *s)
{
	while (selector_next(s))
		if (selector_takes(s, probe(s->at), &infos[s->at],
				   &places[s->at]))
			return s->at;
	return selector_none(s);
}

TEST(texts)
{
	static const struct {
		const char *text;
		int is;		/* the device, or the error ... */
		const char *says;	/* ... and of its sentence */
	} cases[] = {
		{ "", 0, NULL },
		{ "0", 0, NULL },
		{ "2", 2, NULL },
		{ "1", -EOPNOTSUPP, "lame" },
		{ "3", -ENODEV, "none of 3 devices is '3'" },
		{ "99999999999999999999", -ENODEV, "none of 3" },
		{ "0x0", -ENODEV, "none of 3" },
		{ "soc", 2, NULL },
		{ "GPU", 0, NULL },
		{ "lame", -EOPNOTSUPP, "lame" },
		{ "uuid=A0000000000000000000000000000000", 0, NULL },
		{ "uuid=00000000000000000000000000000000", -ENODEV, "without a UUID" },
		{ "uuid=a0", -EINVAL, "test: uuid=a0 is not 32" },
		{ "pci=0000:01:00.0", 0, NULL },
		{ "pci=1:0.0", 0, NULL },
		{ "pci=00000000:01:00.0", 0, NULL },
		{ "pci=0000:01:00.1", -ENODEV, "none of 3" },
		{ "pci=0001:01:00.0", -ENODEV, "none of 3" },
		{ "pci=10000:E1:1f.7", -EOPNOTSUPP, "lame" },
		{ "pci=", -EINVAL, "test: pci= is not [DOMAIN:]BUS" },
		{ "pci=01:00", -EINVAL, "pci=01:00 is not" },
		{ "pci=01:20.0", -EINVAL, "is not" },
		{ "pci=01:00.8", -EINVAL, "is not" },
		{ "pci=001:00.0", -EINVAL, "is not" },
		{ "pci=01:00.00", -EINVAL, "is not" },
		{ "pci=0x0:01:00.0", -EINVAL, "is not" },
		{ "pci= 01:00.0", -EINVAL, "is not" },
		{ "pci=-1:00.0", -EINVAL, "is not" },
		{ "pci=000000000:01:00.0", -EINVAL, "is not" },
		{ "drm=/dev/null", -EINVAL, "drm=/dev/null is not a DRM node" },
		{ "drm=/dev", -EINVAL, "drm=/dev is not a DRM node" },
		{ "drm=", -EINVAL, "test: drm= is not a DRM node" },
		{ "drm=renderD128", -EINVAL, "drm=renderD128 is not a DRM node" },
		{ "drm=/none", -ENODEV, "drm=/none: No such file" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct selector s;
		int ret = selector_begin(&s, "test", cases[i].text, 3);

		if (!ret)
			ret = select_one(&s);
		if (!CHECK_EQ(ret, cases[i].is))
			ktap_note(NULL, 0, "'%s'", cases[i].text);
		if (cases[i].says)
			CHECK_SAYS(cases[i].says);
	}
}

/* A node is known by its numbers, or by the PCI address of its device. */
TEST(nodes)
{
	static const struct {
		struct device_place place;
		int is;
	} cases[] = {
		{ { .drm = { 1 } }, 2 },
		{ { .drm = { 129 } }, 2 },
		{ { .drm = { 128 } }, -ENODEV },
		{ { .pci = PCI_ADDRESS(0, 1, 0, 0), .drm = { 128 } }, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct selector s = {
			.backend = "test", .text = "", .by = SELECT_PLACE,
			.place = cases[i].place, .n = 3, .end = 3,
		};

		CHECK_EQ(select_one(&s), cases[i].is);
	}
}

/* The first failure is reported, unless a later device is the selected one. */
TEST(a_device_that_broke)
{
	struct selector s;

	CHECK_OK(selector_begin(&s, "test", "soc", 2));
	CHECK(selector_next(&s));
	CHECK(!selector_takes(&s, fail(-EIO, "test: broken"), &infos[0], NULL));
	CHECK(selector_next(&s));
	CHECK(!selector_takes(&s, fail(-ENOMEM, "later"), &infos[1], NULL));
	CHECK(!selector_next(&s));
	CHECK_EQ(selector_none(&s), -EIO);
	CHECK_SAYS("test: broken");
	CHECK(selector_takes(&s, 0, &infos[2], NULL));
}

KTAP_MAIN()
