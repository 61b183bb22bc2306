/* SPDX-License-Identifier: MIT */
/*
 * Which device a name means: the part behind "NAME:". A backend lists its
 * devices, and then:
 *
 *	ret = selector_begin(&s, "NAME", text, n);
 *	if (ret)
 *		return ret;
 *	while (selector_next(&s))
 *		if (selector_takes(&s, probe(s.at, &gpu), &gpu.info, &gpu.place))
 *			return 0;
 *	return selector_none(&s);
 */
#ifndef DLBUF_LIB_SELECT_H
#define DLBUF_LIB_SELECT_H

#include <stdbool.h>
#include <sys/types.h>

#include <dlbuf/device.h>

/* Where a device is; 0 what the driver does not say. */
struct device_place {
	uint64_t pci;	/* PCI_ADDRESS() */
	dev_t drm[2];	/* its primary and its render node */
};

/* Never 0. */
#define PCI_ADDRESS(domain, bus, device, function) \
	(1ull << 48 | (uint64_t)(domain) << 16 | (bus) << 8 | (device) << 3 | \
	 (function))

struct selector {
	const char *backend, *text;	/* borrowed */
	enum { SELECT_ANY, SELECT_UUID, SELECT_PLACE, SELECT_NAME } by;
	uint8_t uuid[16];
	struct device_place place;	/* pci, drm[0] */
	/* The walk. */
	unsigned int n, at, next, end;
	int failed;			/* the first failure, and its sentence */
	char why[256];
};

/*
 * text: "" is the first device that can be used, "1" the second one, "uuid=0123...",
 * "pci=[DOMAIN:]BUS:DEV.FN", "drm=/dev/dri/NODE", else part of a name. It is to be
 * found among n devices.
 * -EINVAL  no UUID, no PCI address, not a DRM node
 * -ENODEV  there is no such node
 */
int selector_begin(struct selector *s, const char *backend, const char *text,
		   unsigned int n);

/* Goes on to device s->at; false: there is none left to look at. */
bool selector_next(struct selector *s);

/*
 * Whether that device, which was looked at with the result ret, is the one.
 * After a failure other than -EOPNOTSUPP its info may be incomplete, and it may
 * have been the one; place is optional.
 */
bool selector_takes(struct selector *s, int ret,
		    const struct dlbuf_device_info *info,
		    const struct device_place *place);

/* Why none was: the first failure of one that may have been it, or -ENODEV. */
int selector_none(const struct selector *s);

#endif /* DLBUF_LIB_SELECT_H */
