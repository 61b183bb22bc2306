/* SPDX-License-Identifier: MIT */
/*
 * Selects a device by the part of its name after "NAME:". See queue/open.c.
 */
#ifndef DLBUF_LIB_SELECT_H
#define DLBUF_LIB_SELECT_H

#include <stdbool.h>
#include <sys/types.h>

#include <dlbuf/device.h>

/* Where a device is. Fields that the driver does not know are 0. */
struct device_place {
	uint64_t pci;	/* PCI_ADDRESS() */
	dev_t drm[2];	/* primary node, render node */
	char alias[16];	/* "P.D", two numbers, as in other tools of the API */
};

/* Never 0. */
#define PCI_ADDRESS(domain, bus, device, function) \
	(1ull << 48 | (uint64_t)(domain) << 16 | (bus) << 8 | (device) << 3 | \
	 (function))

struct selector {
	const char *backend, *text;	/* borrowed */
	enum { SELECT_ANY, SELECT_UUID, SELECT_PLACE, SELECT_ALIAS,
	       SELECT_NAME } by;
	uint8_t uuid[16];
	struct device_place place;	/* pci, drm[0] */
	/* State of the walk over the devices. */
	unsigned int n, at, next, end;
	int failed;			/* the first failure; its error text follows */
	char why[256];
};

/*
 * Begins a walk over n devices. text: "" is the first device that can be used, "1" the
 * second one, "uuid=0123...", "pci=[DOMAIN:]BUS:DEV.FN", "drm=/dev/dri/NODE", "1.0"
 * is an alias, else part of a name.
 * -EINVAL  not a UUID, not a PCI address, not a DRM node
 * -ENODEV  there is no such node
 */
int selector_begin(struct selector *s, const char *backend, const char *text,
		   unsigned int n);

/* Advances s->at to the next device to probe; false: there is none. */
bool selector_next(struct selector *s);

/*
 * Whether the device at s->at is the selected one. ret is the result of its probe. After
 * a failure other than -EOPNOTSUPP, info may be incomplete, and the device counts as a
 * possible match. place may be NULL.
 */
bool selector_takes(struct selector *s, int ret,
		    const struct dlbuf_device_info *info,
		    const struct device_place *place);

/* The error if no device was selected: the error of the first possible match, or -ENODEV. */
int selector_none(const struct selector *s);

#endif /* DLBUF_LIB_SELECT_H */
