// SPDX-License-Identifier: MIT
/* Selects devices by index, UUID, PCI address, DRM node or name. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "../system/internal.h"
#include "../system/sys.h"
#include "select.h"

#define HEX "0123456789abcdefABCDEF"

static int parse_uuid(struct selector *s, const char *hex)
{
	if (strlen(hex) != 32 || strspn(hex, HEX) != 32)
		return fail(-EINVAL, "%s: uuid=%s is not 32 hexadecimal digits",
			    s->backend, hex);
	for (size_t i = 0; i < 16; i++)
		sscanf(hex + 2 * i, "%2hhx", &s->uuid[i]);
	if (strspn(hex, "0") == 32)
		return fail(-ENODEV, "%s: uuid=0 is of all devices without a UUID", s->backend);
	return 0;
}

/* Returns 0 if the text is not a PCI address. */
static uint64_t pci_address(const char *text)
{
	unsigned int domain, bus, device, function;
	int n = 0;

	if (text[strspn(text, HEX ":.")])
		return 0;
	if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device,
		   &function, &n) != 4) {
		domain = 0;
		if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function,
			   &n) != 3)
			return 0;
	}
	return text[n] || device > 31 || function > 7 ? 0 :
	       PCI_ADDRESS(domain, bus, device, function);
}

static int parse_pci(struct selector *s, const char *text)
{
	s->place.pci = pci_address(text);
	return s->place.pci ? 0 :
	       fail(-EINVAL, "%s: pci=%s is not [DOMAIN:]BUS:DEVICE.FUNCTION",
		    s->backend, text);
}

/* Gets the node's device number, and its PCI address for APIs without DRM nodes. */
static int parse_drm(struct selector *s, const char *path)
{
	char link[64], target[512];
	const char *slash;
	struct stat st = { 0 };
	ssize_t n;

	/* Without a slash it is another kind of text, and not a node that is absent. */
	if (sys_stat(path, &st) && strchr(path, '/'))
		return fail(-ENODEV, "%s: drm=%s: %m", s->backend, path);
	if (!S_ISCHR(st.st_mode) || major(st.st_rdev) != 226)
		return fail(-EINVAL, "%s: drm=%s is not a DRM node", s->backend,
			    path);
	s->place.drm[0] = st.st_rdev;
	snprintf(link, sizeof(link), "/sys/dev/char/226:%u/device",
		 minor(st.st_rdev));
	n = readlink(link, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	slash = strrchr(target, '/');
	s->place.pci = pci_address(slash ? slash + 1 : target);
	return 0;
}

int selector_begin(struct selector *s, const char *backend, const char *text,
		   unsigned int n)
{
	*s = (struct selector){
		.backend = backend, .text = text, .n = n, .end = n
	};
	if (!*text)
		return 0;
	if (strspn(text, "0123456789") == strlen(text)) {
		unsigned long index = strtoul(text, NULL, 10);

		s->next = index < n ? index : n;
		s->end = index < n ? index + 1 : n;
		return 0;
	}
	s->by = SELECT_UUID;
	if (!strncmp(text, "uuid=", 5))
		return parse_uuid(s, text + 5);
	s->by = SELECT_PLACE;
	if (!strncmp(text, "pci=", 4))
		return parse_pci(s, text + 4);
	if (!strncmp(text, "drm=", 4))
		return parse_drm(s, text + 4);
	s->by = text[strspn(text, "0123456789.")] ? SELECT_NAME : SELECT_ALIAS;
	return 0;
}

bool selector_next(struct selector *s)
{
	s->at = s->next++;
	return s->at < s->end;
}

static bool matches(const struct selector *s,
		    const struct dlbuf_device_info *info,
		    const struct device_place *place)
{
	switch (s->by) {
	case SELECT_UUID:
		return !memcmp(s->uuid, info->uuid, sizeof(s->uuid));
	case SELECT_PLACE:
		return place && ((s->place.pci && s->place.pci == place->pci) ||
				 (s->place.drm[0] &&
				  (s->place.drm[0] == place->drm[0] ||
				   s->place.drm[0] == place->drm[1])));
	case SELECT_ALIAS:
		return place && !strcmp(s->text, place->alias);
	case SELECT_NAME:
		return strcasestr(info->description, s->text);
	default:
		return true;
	}
}

bool selector_takes(struct selector *s, int ret,
		    const struct dlbuf_device_info *info,
		    const struct device_place *place)
{
	bool matching = matches(s, info, place);

	if (!ret)
		return matching;
	if (!s->failed && (matching || ret != -EOPNOTSUPP)) {
		s->failed = ret;
		snprintf(s->why, sizeof(s->why), "%s", dlbuf_last_error());
	}
	return false;
}

int selector_none(const struct selector *s)
{
	if (s->failed)
		return fail(s->failed, "%s", s->why);
	return fail(-ENODEV, "%s: none of %u devices is '%s'", s->backend, s->n,
		    s->text);
}
