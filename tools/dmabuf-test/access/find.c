// SPDX-License-Identifier: MIT
/* Finds the access of a device. */
#include <string.h>

#include "access.h"

#define ACCESS(name) extern const struct access access_##name;
#include "generated/accesses.h"
#undef ACCESS

static const struct access *const accesses[] = {
#define ACCESS(name) &access_##name,
#include "generated/accesses.h"
#undef ACCESS
};

const struct access *access_find(const char *device)
{
	size_t n = strcspn(device, ":");

	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
		if (strlen(accesses[i]->backend) == n &&
		    !strncmp(accesses[i]->backend, device, n))
			return accesses[i];
	return NULL;
}
