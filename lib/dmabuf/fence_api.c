// SPDX-License-Identifier: MIT
/* The functions of dlbuf/fence.h that the library does not call itself. */
#include <errno.h>
#include <fcntl.h>

#include "../system/event.h"
#include "../system/internal.h"
#include "../system/sys.h"
#include "../system/uapi.h"
#include "fence.h"

int dlbuf_fence_set_deadline(int fence, uint64_t deadline_ns)
{
	struct sync_set_deadline hint = { .deadline_ns = deadline_ns };

	if (fence == -1 || !sys_ioctl(fence, SYNC_IOC_SET_DEADLINE, &hint))
		return 0;
	/* A file that was opened with O_PATH has this error, too. */
	if (errno == EBADF && fcntl(fence, F_GETFD) < 0)
		return fail(-EBADF, "fd %d is not open", fence);
	return fail(-EOPNOTSUPP, "fd %d: SYNC_IOC_SET_DEADLINE: %m", fence);
}

int dlbuf_fence_notify(int fence, void (*fn)(void *data), void *data)
{
	int ret;

	if (!fn)
		return fail(-EINVAL, "fn is NULL");
	ret = fence_signalled(fence);
	if (ret < 0)
		return ret;
	if (!ret)
		return event_add(fence, fn, data);
	fn(data);
	return 0;
}
