// SPDX-License-Identifier: MIT
/* Devices by index, UUID or name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "select.h"

int selector_parse(const char *backend, const char *text, struct selector *s)
{
	const char *hex = text + 5;

	*s = (struct selector){ .by = SELECT_FIRST, .text = text };
	if (!*text)
		return 0;
	if (strspn(text, "0123456789") == strlen(text)) {
		s->by = SELECT_INDEX;
		s->index = strtoul(text, NULL, 10);
		return 0;
	}
	s->by = strncmp(text, "uuid=", 5) ? SELECT_NAME : SELECT_UUID;
	if (s->by == SELECT_NAME)
		return 0;
	if (strlen(hex) != 32 || strspn(hex, "0123456789abcdefABCDEF") != 32)
		return fail(-EINVAL, "%s: uuid=%s is not 32 hexadecimal digits",
			    backend, hex);
	for (size_t i = 0; i < 16; i++)
		s->uuid[i] = strtoul((char[3]){ hex[2 * i], hex[2 * i + 1] },
				     NULL, 16);
	return 0;
}

bool selector_matches(const struct selector *s, unsigned long index,
		      const struct dlbuf_device_info *info)
{
	switch (s->by) {
	case SELECT_INDEX:
		return index == s->index;
	case SELECT_UUID:
		return !memcmp(s->uuid, info->uuid, sizeof(s->uuid));
	case SELECT_NAME:
		return strcasestr(info->description, s->text);
	default:
		return true;
	}
}
