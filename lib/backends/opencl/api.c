// SPDX-License-Identifier: MIT
/* Loads OpenCL's loader, and turns its results into errnos. */
#include <errno.h>

#include "../../system/fork.h"
#include "api.h"

/* In the order of struct opencl_api. */
static const char symbols[] =
#define NEEDED ""
#define OPTIONAL DL_OPTIONAL
#define X(name, needed) needed "cl" #name "\0"
	OPENCL_FUNCTIONS(X);
#undef X

/* In a child of fork() drivers wait for their threads, which the child does not have. */
int opencl_load(struct opencl_api *cl)
{
	static unsigned int used;
	void *library;
	int ret;

	ret = dl_open("opencl", "libOpenCL.so.1\0", symbols, cl, &library);
	return ret ? ret : fork_use_driver(&used, "opencl");
}

/* The API has no function for this. In the order of the codes, from -1 and from -30. */
static const char names[] =
	"DEVICE_NOT_FOUND\0" "DEVICE_NOT_AVAILABLE\0" "COMPILER_NOT_AVAILABLE\0"
	"MEM_OBJECT_ALLOCATION_FAILURE\0" "OUT_OF_RESOURCES\0"
	"OUT_OF_HOST_MEMORY\0" "PROFILING_INFO_NOT_AVAILABLE\0"
	"MEM_COPY_OVERLAP\0" "IMAGE_FORMAT_MISMATCH\0"
	"IMAGE_FORMAT_NOT_SUPPORTED\0" "BUILD_PROGRAM_FAILURE\0" "MAP_FAILURE\0"
	"MISALIGNED_SUB_BUFFER_OFFSET\0"
	"EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST\0";
static const char invalid[] =
	"VALUE\0" "DEVICE_TYPE\0" "PLATFORM\0" "DEVICE\0" "CONTEXT\0"
	"QUEUE_PROPERTIES\0" "COMMAND_QUEUE\0" "HOST_PTR\0" "MEM_OBJECT\0"
	"IMAGE_FORMAT_DESCRIPTOR\0" "IMAGE_SIZE\0" "SAMPLER\0" "BINARY\0"
	"BUILD_OPTIONS\0" "PROGRAM\0" "PROGRAM_EXECUTABLE\0" "KERNEL_NAME\0"
	"KERNEL_DEFINITION\0" "KERNEL\0" "ARG_INDEX\0" "ARG_VALUE\0" "ARG_SIZE\0"
	"KERNEL_ARGS\0" "WORK_DIMENSION\0" "WORK_GROUP_SIZE\0" "WORK_ITEM_SIZE\0"
	"GLOBAL_OFFSET\0" "EVENT_WAIT_LIST\0" "EVENT\0" "OPERATION\0"
	"GL_OBJECT\0" "BUFFER_SIZE\0" "MIP_LEVEL\0" "GLOBAL_WORK_SIZE\0"
	"PROPERTY\0" "IMAGE_DESCRIPTOR\0";

static const char *nth(const char *list, int n)
{
	FOR_EACH_STRING(s, list)
		if (!n--)
			return s;
	return "";
}

static int errno_of(cl_int result)
{
	switch (result) {
	case CL_OUT_OF_HOST_MEMORY:
	case CL_MEM_OBJECT_ALLOCATION_FAILURE:
		return -ENOMEM;
	case CL_DEVICE_NOT_FOUND:
	case CL_DEVICE_NOT_AVAILABLE:
	case CL_PLATFORM_NOT_FOUND_KHR:
		return -ENODEV;
	case CL_INVALID_OPERATION:
	case CL_BUILD_PROGRAM_FAILURE:
	case CL_COMPILER_NOT_AVAILABLE:
		return -EOPNOTSUPP;
	case CL_INVALID_COMMAND_QUEUE:
		return -EINVAL;
	default:
		return -EIO;
	}
}

int opencl_check_ext(cl_int result, const char *call)
{
	const char *name;

	if (result == CL_SUCCESS)
		return 0;
	if (result == CL_PLATFORM_NOT_FOUND_KHR)
		return fail(-ENODEV, "opencl: no driver is installed (%s: "
			    "CL_PLATFORM_NOT_FOUND_KHR)", call);
	name = result > -30 ? nth(names, -1 - result) :
			      nth(invalid, -30 - result);
	return fail(errno_of(result), "opencl: %s: %s%s (%d)", call,
		    !*name ? "a code" : result > -30 ? "CL_" : "CL_INVALID_",
		    name, result);
}

int opencl_check(cl_int result, size_t function)
{
	return result == CL_SUCCESS ? 0 :
	       opencl_check_ext(result, dl_name(symbols, function));
}
