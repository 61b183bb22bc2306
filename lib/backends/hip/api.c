// SPDX-License-Identifier: MIT
/* Loads libamdhip64, and turns its results into errnos. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../system/event.h"
#include "../../system/fork.h"
#include "api.h"

/* The newest first. The number is HIP's major version; after 7 comes 10. */
static const char sonames[] =
#define SO(n) "libamdhip64.so." #n "\0"
	SO(10) SO(7) SO(6) SO(5);
#undef SO

/* In the order of struct hip_api. */
static const char symbols[] =
#define NEEDED ""
#define OPTIONAL DL_OPTIONAL
#define X(name, needed, params) needed "hip" #name "\0"
	HIP_FUNCTIONS(X);
#undef X

/*
 * If the application has loaded an installed version, that one is used: memory and
 * streams of one version are unknown to another. The result ends with two NULs.
 */
static const char *find_loaded(char only[32])
{
	void *library;

	memset(only, 0, 32);
	FOR_EACH_STRING(soname, sonames) {
		library = dl_loaded(soname);
		if (!library)
			continue;
		dlclose(library);
		return strcpy(only, soname);
	}
	return sonames;
}

int hip_load(struct hip_api *hip)
{
	static unsigned int used;
	char only[32];
	void *library;
	int ret;

	ret = dl_open("hip", find_loaded(only), symbols, hip, &library);
	if (!ret)
		ret = fork_use_driver(&used, "hip");
	if (ret)
		return ret;
	ret = HIP_CALL(hip, Init, 0);
	event_stop_before();
	/* Without a device the driver has no threads that a child would need. */
	if (ret == -ENODEV)
		__atomic_store_n(&used, 0, __ATOMIC_RELAXED);
	else if (ret)
		log_at(DLBUF_LOG_WARN, "%s", dlbuf_last_error());
	return ret;
}

#ifdef CONFIG_PREPARE_HIP
int hiprtc_load(struct hiprtc_api *rtc, int version)
{
	static const char names[] =
#define X(name, params) "hiprtc" #name "\0"
		HIPRTC_FUNCTIONS(X);
#undef X
	char only[32], why[256];
	bool own = version < 70000000;
	void *library;

	if (!own) {
		memset(only, 0, sizeof(only));
		snprintf(only, sizeof(only) - 1, "libhiprtc.so.%d", version / 10000000);
	}
	if (!dl_open(own ? "hip" : "hiprtc", own ? find_loaded(only) : only, names, rtc,
		     &library))
		return 0;
	snprintf(why, sizeof(why), "%s", dlbuf_last_error());
	return fail(-EOPNOTSUPP, "hip: frames are prepared by a kernel that hiprtc compiles: %s",
		    why);
}

int hiprtc_check(hiprtc_result result, const char *function)
{
	return !result ? 0 : fail(result == HIPRTCABI_OUT_OF_MEMORY ? -ENOMEM : -EIO,
				  "hip: hiprtc%s: hiprtcResult %d", function, result);
}
#endif

hsa_export_fn hsa_export_find(void)
{
	hsa_export_fn fn = NULL;
	void *sym, *hsa;

	hsa = dl_loaded("libhsa-runtime64.so.1");
	if (!hsa)
		return NULL;
	sym = dlsym(hsa, "hsa_amd_portable_export_dmabuf");
	memcpy(&fn, &sym, sizeof(fn));
	/* libamdhip64, which is never closed, still has it. */
	dlclose(hsa);
	return fn;
}

static int errno_of(hip_result result)
{
	switch (result) {
	case HIPABI_OUT_OF_MEMORY:
		return -ENOMEM;
	case HIPABI_NO_DEVICE:
	case HIPABI_INVALID_DEVICE:
	case HIPABI_INSUFFICIENT_DRIVER:
	case HIPABI_DEINITIALIZED:
		return -ENODEV;
	case HIPABI_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

int hip_check(const struct hip_api *hip, hip_result result, size_t function)
{
	const char *name = NULL, *text = NULL;

	if (result == HIPABI_SUCCESS)
		return 0;
	hip->DrvGetErrorName(result, &name);
	hip->DrvGetErrorString(result, &text);
	return fail(errno_of(result), "hip: %s: %s (%d), %s",
		    dl_name(symbols, function), name ? name : "a hipError_t",
		    result, text ? text : "unknown");
}

bool hip_is_lost(hip_result result)
{
	static const hip_result sticky[] = {
		HIPABI_DEINITIALIZED, HIPABI_ECC_NOT_CORRECTABLE,
		HIPABI_ILLEGAL_ADDRESS, HIPABI_LAUNCH_TIME_OUT,
		HIPABI_ASSERT, HIPABI_LAUNCH_FAILURE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(sticky); i++)
		if (sticky[i] == result)
			return true;
	return false;
}
