/* SPDX-License-Identifier: MIT */
/* Which device a name means: what stands behind "cuda:" and "vulkan:". */
#ifndef DLBUF_LIB_SELECT_H
#define DLBUF_LIB_SELECT_H

#include <stdbool.h>

#include <dlbuf/device.h>

struct selector {
	enum { SELECT_FIRST, SELECT_INDEX, SELECT_UUID, SELECT_NAME } by;
	const char *text;	/* borrowed */
	unsigned long index;
	uint8_t uuid[16];
};

/* "", "1", "uuid=0123...", or part of a name. -EINVAL: no UUID. */
int selector_parse(const char *backend, const char *text, struct selector *s);

bool selector_matches(const struct selector *s, unsigned long index,
		      const struct dlbuf_device_info *info);

#endif /* DLBUF_LIB_SELECT_H */
