// SPDX-License-Identifier: MIT
/* Loads libcuda, and turns its results into errnos. */
#include <dlfcn.h>
#include <errno.h>

#include "../../system/fork.h"
#include "api.h"

/* In the order of struct cuda_api. */
static const char symbols[] =
#define NEEDED ""
#define OPTIONAL DL_OPTIONAL
#define X(name, symbol, needed, params) needed #symbol "\0"
	CUDA_FUNCTIONS(X);
#undef X

/*
 * Calls cuInit() once per library and process, because on a machine without a device
 * each cuInit() of driver 550 leaks four fds of pipes, and the first one also an
 * eventfd and a thread. A library that has no device stays loaded, so that no other
 * library gets its address. A library that works stays loaded because it has threads.
 */
static cuda_result init_once(const struct cuda_api *cu)
{
	static cuda_result (*refused)(unsigned int flags);
	cuda_result result;

	if (__atomic_load_n(&refused, __ATOMIC_RELAXED) == cu->Init)
		return CUABI_NO_DEVICE;
	result = CUDA_RESULT(cu, Init, 0);
	if (result == CUABI_NO_DEVICE)
		__atomic_store_n(&refused, cu->Init, __ATOMIC_RELAXED);
	return result;
}

int cuda_load(struct cuda_api *cu)
{
	static unsigned int used;
	cuda_result result;
	void *library;
	int ret;

	ret = dl_open("cuda", "libcuda.so.1\0", symbols, cu, &library);
	if (ret)
		return ret;
	ret = fork_use_driver(&used, "cuda");
	if (ret) {
		dlclose(library);
		return ret;
	}
	result = init_once(cu);
	/* Without a device the driver has no threads that a child would need. */
	if (result == CUABI_NO_DEVICE)
		__atomic_store_n(&used, 0, __ATOMIC_RELAXED);
	ret = cuda_check(cu, result, CUDA_FUNCTION(Init));
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
	case CUABI_NO_BINARY_FOR_GPU:
	case CUABI_INVALID_PTX:
	case CUABI_JIT_COMPILER_NOT_FOUND:
	case CUABI_UNSUPPORTED_PTX_VERSION:
	case CUABI_JIT_COMPILATION_DISABLED:
	case CUABI_NOT_SUPPORTED:
	case CUABI_NOT_PERMITTED:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

int cuda_check(const struct cuda_api *cu, cuda_result result, size_t function)
{
	const char *name = NULL, *text = NULL, *call;

	if (result == CUABI_SUCCESS)
		return 0;
	/* The toolkit's stub of libcuda, which is only for linking, also has no error names. */
	if (cu->GetErrorName(result, &name) || !name)
		name = result == CUABI_STUB_LIBRARY ?
		       "CUDA_ERROR_STUB_LIBRARY" : "a CUresult";
	if (cu->GetErrorString(result, &text) || !text)
		text = result == CUABI_STUB_LIBRARY ?
		       "the toolkit's library to link with, no driver" : "unknown";
	/* Without "_v2". */
	call = dl_name(symbols, function);
	return fail(errno_of(result), "cuda: %.*s: %s (%d), %s",
		    (int)strcspn(call, "_"), call, name, result, text);
}

bool cuda_is_lost(cuda_result result)
{
	static const cuda_result sticky[] = {
		CUABI_DEINITIALIZED, CUABI_ECC_UNCORRECTABLE,
		CUABI_NVLINK_UNCORRECTABLE, CUABI_CONTAINED,
		CUABI_ILLEGAL_ADDRESS, CUABI_LAUNCH_TIMEOUT,
		CUABI_CONTEXT_IS_DESTROYED, CUABI_ASSERT,
		CUABI_HARDWARE_STACK_ERROR, CUABI_ILLEGAL_INSTRUCTION,
		CUABI_MISALIGNED_ADDRESS, CUABI_INVALID_ADDRESS_SPACE,
		CUABI_INVALID_PC, CUABI_LAUNCH_FAILED, CUABI_TENSOR_MEMORY_LEAK,
		CUABI_MPS_CLIENT_TERMINATED, CUABI_EXTERNAL_DEVICE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(sticky); i++)
		if (sticky[i] == result)
			return true;
	return false;
}
