// SPDX-License-Identifier: MIT
/* The functions of dlbuf/camera.h in a library without cameras. */
#include <dlbuf/camera.h>

#include "../system/absent.h"

#define WHAT "dlbuf_camera"

ABSENT(WHAT, dlbuf_camera_open, (const char *node,
				 const struct dlbuf_camera_opts *opts,
				 struct dlbuf_camera **cam))
ABSENT(WHAT, dlbuf_camera_get_info, (struct dlbuf_camera *cam,
				     struct dlbuf_camera_info *info))
ABSENT(WHAT, dlbuf_camera_buffer, (struct dlbuf_camera *cam, uint32_t index,
				   struct dlbuf_frame *frame))
ABSENT(WHAT, dlbuf_camera_frame, (struct dlbuf_camera *cam,
				  uint64_t deadline_ns,
				  struct dlbuf_frame *frame))

void dlbuf_camera_stop(struct dlbuf_camera *cam)
{
	/* never called: none can be opened */
}

void dlbuf_camera_close(struct dlbuf_camera *cam)
{
}
