// SPDX-License-Identifier: MIT
/* Loads libze_loader, and turns its results into errnos. */
#include <dlfcn.h>
#include <errno.h>

#include "../../system/fork.h"
#include "api.h"

/* In the order of struct levelzero_api. */
static const char symbols[] =
#define NEEDED ""
#define OPTIONAL DL_OPTIONAL
#define X(name, needed, type) needed "ze" #name "\0"
	LEVELZERO_FUNCTIONS(X);
#undef X

/*
 * The flag is SYCL's, so that both number the devices in the same way. In a child of a
 * process that has used it, Intel's driver hangs or crashes.
 */
int levelzero_load(struct levelzero_api *lz)
{
	static unsigned int used;
	void *library;
	int ret;

	ret = fork_use_driver(&used, "levelzero");
	if (!ret)
		ret = dl_open("levelzero", "libze_loader.so.1\0", symbols, lz,
			      &library);
	if (ret)
		return ret;
	ret = LZ_CALL(lz, Init, ZE_INIT_FLAG_GPU_ONLY);
	if (ret && ret != -ENODEV)
		log_at(DLBUF_LOG_WARN, "%s", dlbuf_last_error());
	if (ret)
		dlclose(library);
	return ret;
}

#define ZE_RESULT_ERROR_ADDRESS_NOT_FOUND LZABI_RESULT_ADDRESS_NOT_FOUND

/* The API has no function that gives the name of a result. X(name, errno, text) */
#define RESULTS(X)							\
	X(DEVICE_LOST, EIO, "the device hung, was reset or was removed") \
	X(OUT_OF_HOST_MEMORY, ENOMEM, "out of memory")			\
	X(OUT_OF_DEVICE_MEMORY, ENOMEM, "out of device memory")		\
	X(DEVICE_REQUIRES_RESET, EIO, "the device needs a reset")	\
	X(INSUFFICIENT_PERMISSIONS, EOPNOTSUPP, "not permitted")	\
	X(DEPENDENCY_UNAVAILABLE, ENODEV, "a library is missing")	\
	X(UNINITIALIZED, ENODEV, "there is no driver or no device")	\
	X(UNSUPPORTED_VERSION, EOPNOTSUPP, "unsupported version")	\
	X(UNSUPPORTED_FEATURE, EOPNOTSUPP, "the driver lacks it")	\
	X(MODULE_BUILD_FAILURE, EOPNOTSUPP, "the kernel does not compile") \
	X(INVALID_ARGUMENT, EIO, "invalid argument")			\
	X(INVALID_NULL_HANDLE, EIO, "a handle is NULL")			\
	X(UNSUPPORTED_SIZE, EOPNOTSUPP, "unsupported size")		\
	X(UNSUPPORTED_ALIGNMENT, EOPNOTSUPP, "unsupported alignment")	\
	X(INVALID_ENUMERATION, EIO, "invalid flags")			\
	X(UNSUPPORTED_ENUMERATION, EOPNOTSUPP, "unsupported flags")	\
	X(ADDRESS_NOT_FOUND, EINVAL, "no memory of the driver's")	\
	X(UNKNOWN, EIO, "unknown error")

static const struct {
	uint32_t result;
	int err;
} results[] = {
#define X(name, err, text) { ZE_RESULT_ERROR_##name, err },
	RESULTS(X)
#undef X
};

/* In the same order. */
static const char texts[] =
#define X(name, err, text) #name "\0" text "\0"
	RESULTS(X);
#undef X

int levelzero_check(ze_result_t result, size_t function)
{
	const char *name = texts, *text, *call = dl_name(symbols, function);

	if (!result)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		text = name + strlen(name) + 1;
		if (results[i].result == (uint32_t)result)
			return fail(-results[i].err,
				    "levelzero: %s: ZE_RESULT_ERROR_%s (%#x), %s",
				    call, name, (unsigned int)result, text);
		name = text + strlen(text) + 1;
	}
	return fail(-EIO, "levelzero: %s: a ze_result_t (%#x)", call,
		    (unsigned int)result);
}

bool levelzero_is_lost(ze_result_t result)
{
	return result == ZE_RESULT_ERROR_DEVICE_LOST ||
	       result == ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET;
}
