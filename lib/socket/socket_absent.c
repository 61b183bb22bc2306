// SPDX-License-Identifier: MIT
/* The functions of dlbuf/socket.h in a library without sockets. */
#include <dlbuf/socket.h>

#include "../system/absent.h"

#define WHAT "dlbuf_send()"

ABSENT(WHAT, dlbuf_send, (int sock, DLManagedTensorVersioned *const tensors[],
			  uint32_t ntensors,
			  const struct dlbuf_socket_opts *opts))
ABSENT(WHAT, dlbuf_send_frame, (int sock, const struct dlbuf_frame *frame,
				const struct dlbuf_socket_opts *opts))
ABSENT(WHAT, dlbuf_recv, (struct dlbuf_device *dev, int sock,
			  const struct dlbuf_socket_opts *opts,
			  DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
			  uint32_t *ntensors, struct dlbuf_frame *frame))
