// SPDX-License-Identifier: MIT
/* CUDA's functions and results. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "api.h"

enum { NEEDED, OPTIONAL };

static const struct dl_symbol symbols[] = {
#define X(name, symbol, needed, params) \
	{ #symbol, offsetof(struct cuda_api, name), needed == OPTIONAL },
	CUDA_FUNCTIONS(X)
#undef X
};

/*
 * Where there is no device, each cuInit() of driver 550 leaves four pipes' ends
 * behind, the first one an eventfd and a thread, too: a process asks a library
 * once. It stays loaded, so that no other one comes to be where it is; and so
 * does one that has begun to work and has threads.
 */
static struct {
	pthread_mutex_t lock;
	cuda_result (*init)(unsigned int flags);
} refused = { .lock = PTHREAD_MUTEX_INITIALIZER };

void cuda_forked(void)
{
	pthread_mutex_init(&refused.lock, NULL);
}

static cuda_result init_once(const struct cuda_api *cu)
{
	cuda_result result = CUABI_NO_DEVICE;

	pthread_mutex_lock(&refused.lock);
	if (refused.init != cu->Init) {
		result = CUDA_RESULT(cu, Init, 0);
		if (result == CUABI_NO_DEVICE)
			refused.init = cu->Init;
	}
	pthread_mutex_unlock(&refused.lock);
	return result;
}

int cuda_load(struct cuda_api *cu)
{
	static const char *const sonames[] = { "libcuda.so.1", NULL };
	cuda_result result;
	void *library;
	int ret;

	ret = dl_open("cuda", sonames, symbols, ARRAY_SIZE(symbols), cu,
		      &library);
	if (ret)
		return ret;
	result = init_once(cu);
	ret = cuda_check(cu, result, "cuInit");
	if (ret && ret != -ENODEV)
		log_at(DLBUF_LOG_WARN, "%s", dlbuf_last_error());
	if (ret && result != CUABI_NO_DEVICE)
		dlclose(library);
	return ret;
}

static int errno_of(cuda_result result)
{
	switch (result) {
	case CUABI_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUABI_NO_DEVICE:
	case CUABI_INVALID_DEVICE:
	case CUABI_STUB_LIBRARY:
	case CUABI_DEINITIALIZED:
		return -ENODEV;
	case CUABI_NOT_SUPPORTED:
	case CUABI_NOT_PERMITTED:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

int cuda_check(const struct cuda_api *cu, cuda_result result, const char *call)
{
	const char *name = NULL, *text = NULL;

	if (result == CUABI_SUCCESS)
		return 0;
	/* The toolkit's library to link with cannot even say what it is. */
	if (cu->GetErrorName(result, &name) || !name)
		name = result == CUABI_STUB_LIBRARY ?
		       "CUDA_ERROR_STUB_LIBRARY" : "a CUresult";
	if (cu->GetErrorString(result, &text) || !text)
		text = result == CUABI_STUB_LIBRARY ?
		       "the toolkit's library to link with, no driver" : "unknown";
	return fail(errno_of(result), "cuda: %s: %s (%d), %s", call, name,
		    result, text);
}

bool cuda_is_lost(cuda_result result)
{
	switch (result) {
	case CUABI_DEINITIALIZED:
	case CUABI_ECC_UNCORRECTABLE:
	case CUABI_NVLINK_UNCORRECTABLE:
	case CUABI_CONTAINED:
	case CUABI_ILLEGAL_ADDRESS:
	case CUABI_LAUNCH_TIMEOUT:
	case CUABI_CONTEXT_IS_DESTROYED:
	case CUABI_ASSERT:
	case CUABI_HARDWARE_STACK_ERROR:
	case CUABI_ILLEGAL_INSTRUCTION:
	case CUABI_MISALIGNED_ADDRESS:
	case CUABI_INVALID_ADDRESS_SPACE:
	case CUABI_INVALID_PC:
	case CUABI_LAUNCH_FAILED:
	case CUABI_TENSOR_MEMORY_LEAK:
		return true;
	default:
		return false;
	}
}
