// SPDX-License-Identifier: MIT
/* The functions of dlbuf/vpi.h in a library without simulators. */
#include <dlbuf/vpi.h>

#include "../../system/absent.h"

#define WHAT "backend vpi"

ABSENT(WHAT, dlbuf_device_wrap_vpi, (int sock, const struct dlbuf_device_opts *opts,
				     struct dlbuf_device **out))
ABSENT(WHAT, dlbuf_vpi_send, (DLManagedTensorVersioned *tensor, const char *name,
			      const struct dlbuf_socket_opts *opts))
ABSENT(WHAT, dlbuf_vpi_connect, (const char *name, int *sock))
ABSENT(WHAT, dlbuf_vpi_recv, (struct dlbuf_device *dev, int sock,
			      const struct dlbuf_socket_opts *opts,
			      struct dlbuf_vpi_arrival *arrival))
