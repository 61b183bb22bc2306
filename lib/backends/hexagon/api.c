// SPDX-License-Identifier: MIT
/* Loads FastRPC's library, and turns its results into errnos. */
#include <errno.h>

#include "../../system/fork.h"
#include "api.h"

/* In the order of struct hexagon_api. */
static const char symbols[] =
#define NEEDED ""
#define OPTIONAL DL_OPTIONAL
#define X(name, needed, result, params) needed #name "\0"
	HEXAGON_FUNCTIONS(X);
#undef X

/*
 * Each kind of DSP has a library of its own, with the process's sessions on that kind.
 * Android and old images install the name without a number.
 */
static const char *sonames(unsigned int domain)
{
#define LIB(letter) "lib" letter "dsprpc.so.1\0" "lib" letter "dsprpc.so\0"
	switch (domain % HEXAGON_DOMAINS) {
	case HEXAGON_ADSP:
		return LIB("a");
	case HEXAGON_MDSP:
		return LIB("m");
	case HEXAGON_SDSP:
		return LIB("s");
	case HEXAGON_GDSP0:
	case HEXAGON_GDSP1:
		return LIB("g");
	default:
		return LIB("c");
	}
#undef LIB
}

int hexagon_load(unsigned int domain, struct hexagon_api *api)
{
	static unsigned int used;
	void *library;
	int ret;

	ret = dl_open("hexagon", sonames(domain), symbols, api, &library);
	return ret ? ret : fork_use_driver(&used, "hexagon");
}

int hexagon_is_there(const struct hexagon_api *api, unsigned int domain)
{
	struct hexagon_capability cap = {
		.domain = domain % HEXAGON_DOMAINS,
		.attribute = HEXAGON_DOMAIN_SUPPORT,
	};

	if (!api->remote_handle_control ||
	    api->remote_handle_control(HEXAGON_GET_DSP_INFO, &cap, sizeof(cap)))
		return 1;
	return !!cap.capability;
}

static const struct {
	uint32_t aee;
	int err;
	const char *text;
} results[] = {
	{ AEE_ENOMEMORY, -ENOMEM, "no memory" },
	{ AEE_EBADPARM, -EIO, "FastRPC refuses a parameter" },
	{ AEE_EUNSUPPORTED, -EOPNOTSUPP,
	  "the kernel or the DSP's image is too old for it" },
	{ AEE_EALREADY, -EBUSY,
	  "another buffer is mapped by this fd number: somebody closed its fd "
	  "before fastrpc_munmap()" },
	{ AEE_EINVALIDDOMAIN, -ENODEV, "there is no such domain" },
	{ AEE_EBADDOMAIN, -ENODEV, "there is no such domain" },
	{ AEE_EINVALIDDEVICE, -ENODEV, "the DSP's device node cannot be opened" },
	{ AEE_ENOSUCHDEVICE, -ENODEV, "there is no such DSP" },
	{ AEE_ECONNREFUSED, -ENODEV, "the DSP's device node cannot be opened" },
	{ AEE_ENOSUCHMAP, -EIO, "there is no such map" },
	{ AEE_ENOTINITIALIZED, -EOPNOTSUPP,
	  "the process has no FastRPC session with this DSP: open a remote handle "
	  "first" },
};

int hexagon_check(const char *device, const char *function, int aee)
{
	bool dsp = (uint32_t)aee > AEE_DSP && (uint32_t)aee <= AEE_DSP + 0x400;
	uint32_t code = dsp ? (uint32_t)aee - AEE_DSP : (uint32_t)aee;
	const char *text = "the kernel or the DSP refused";
	int err = -EIO;

	if (!aee)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		if (results[i].aee == code) {
			err = results[i].err;
			text = results[i].text;
		}
	return fail(err, "%s: %s: %s (AEE 0x%x%s)", device, function, text, code,
		    dsp ? ", on the DSP" : "");
}
