/* SPDX-License-Identifier: MIT */
/*
 * A double of FastRPC's library (libcdsprpc.so.1 of qualcomm/fastrpc). It has the rules of
 * src/fastrpc_mem.c and, for remote calls, of the kernel's
 * drivers/misc/fastrpc.c, as far as a caller can see them. These calls count as `wrong`,
 * because the library accepts them and they fail later: a map of another address than the
 * buffer's beginning, an fd that is closed before its map or its registration ends.
 *
 * It aborts where the library does: a registration that ends with another size.
 *
 * A DSP is a copy: remote_handle64_invoke() copies the bytes of its input to its output.
 * Arguments inside a registered mapping are reached by the fd, through a mapping of the
 * double's own, as a DSP would.
 *
 * The environment's FAKE_HEXAGON has words:
 *
 *   none	the machine has no DSP; `adsp` only: it has that one
 *   unsupported	the kernel or the DSP is too old for fastrpc_mmap()
 *   nosession	no session is open until remote_handle64_open()
 *   strict	the first wrong call aborts
 *
 * Without nosession a session of each domain is open. libhexagon-old.so is the same
 * without the functions that old libraries lack.
 */
#ifndef FAKE_HEXAGON_H
#define FAKE_HEXAGON_H

#include "backends/hexagon/abi.h"
#include "common/driver.h"

enum { FAKE_MAP, FAKE_REGISTRATION, FAKE_KINDS };

struct fake_hexagon {
	DRIVER;			/* `result` is an AEE code */
	bool none, adsp, unsupported, nosession;
	/* The last call of fastrpc_mmap(), and registration. */
	struct {
		int domain, fd, offset, flags, attr;
		void *p;
		size_t size;
	} map, registration;
	unsigned int registrations;	/* calls that began one, or another use of it */
	unsigned int invokes, by_fd;	/* remote calls; arguments that were recognised */
};

/* The one there is; anew after a reset. */
typedef struct fake_hexagon *(*fake_hexagon_fn)(bool reset);

/* An fd number that was closed before it was unmapped, as a program before may have. */
typedef void (*fake_hexagon_stale_fn)(int domain, int fd);

/* dspqueue takes (+1) or drops (-1) a reference to the map of an fd. */
typedef int (*fake_hexagon_ref_fn)(int domain, int fd, int add);

/* The process's session with a domain ends, and its maps with it. */
typedef void (*fake_hexagon_end_fn)(int domain);

/* remote.h */
typedef union {
	struct {
		void *pv;
		size_t nLen;
	} buf;
	uint64_t h64;
} fake_remote_arg;
typedef int (*fake_open_fn)(const char *uri, uint64_t *handle);
typedef int (*fake_invoke_fn)(uint64_t handle, uint32_t scalars,
			      fake_remote_arg *args);
typedef int (*fake_close_fn)(uint64_t handle);

/* One input, one output. */
#define FAKE_COPY (1u << 16 | 1u << 8)

#endif /* FAKE_HEXAGON_H */
