/* SPDX-License-Identifier: MIT */
/* FastRPC's library, loaded at run time: the functions that dlbuf calls. */
#ifndef DLBUF_HEXAGON_API_H
#define DLBUF_HEXAGON_API_H

#include "../../system/dl.h"
#include "../../system/internal.h"
#include "../../system/sys.h"
#include "abi.h"

/*
 * X(name, needed, result, parameters). Old libraries lack the OPTIONAL functions. They
 * all have remote_register_buf().
 */
#define HEXAGON_FUNCTIONS(X)						\
	X(remote_register_buf, NEEDED, void, (void *p, int size, int fd)) \
	X(remote_register_buf_attr, OPTIONAL, void,			\
	  (void *p, int size, int fd, int attr))			\
	X(remote_register_buf_attr2, OPTIONAL, void,			\
	  (void *p, size_t size, int fd, int attr))			\
	X(fastrpc_mmap, OPTIONAL, int,					\
	  (int domain, int fd, void *p, int offset, size_t size,		\
	   uint32_t flags)) \
	X(fastrpc_munmap, OPTIONAL, int,				\
	  (int domain, int fd, void *p, size_t size))			\
	X(remote_handle_control, OPTIONAL, int,				\
	  (uint32_t request, void *data, uint32_t size))

struct hexagon_api {
#define X(name, needed, result, params) result (*name) params;
	HEXAGON_FUNCTIONS(X)
#undef X
};

/*
 * Opens the library of a domain, or DLBUF_HEXAGON_LIBRARY. It is never closed, because
 * it has threads. The same library holds the application's sessions on that kind of DSP.
 * -ENODEV  none is installed
 * -ESTALE  a parent of this process has used it
 * -EIO     it has no remote_register_buf()
 */
int hexagon_load(unsigned int domain, struct hexagon_api *api);

/* Whether the machine has the DSP: 1 or 0. Also 1 if the library does not report it. */
int hexagon_is_there(const struct hexagon_api *api, unsigned int domain);

/* Returns 0, or a negative errno with an error text of one sentence. */
int hexagon_check(const char *device, const char *function, int aee);

#endif /* DLBUF_HEXAGON_API_H */
