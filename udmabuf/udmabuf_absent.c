// SPDX-License-Identifier: MIT
/* The functions of dlbuf/udmabuf.h in a library without udmabuf. */
#include <dlbuf/udmabuf.h>

#include "../lib/system/absent.h"

#define WHAT "udmabuf"

ABSENT(WHAT, dlbuf_udmabuf_create, (uint64_t bytes,
				    const struct dlbuf_udmabuf_opts *opts,
				    struct dlbuf_udmabuf *out))
ABSENT(WHAT, dlbuf_udmabuf_remember, (int fd, int memfd))

void dlbuf_udmabuf_close(struct dlbuf_udmabuf *buf)
{
	/* never called: none can be made */
}
