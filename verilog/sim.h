/* SPDX-License-Identifier: MIT */
/*
 * The functions of a test bench, the same for all simulators. Icarus Verilog calls them
 * by vpi.c, Verilator by dpi.c. A simulation has one thread and one connection.
 *
 * Functions return a negative number after a failure, and sim_error() has the error text.
 * The front end ends the simulation after a failure. A handle is a positive number that is never
 * used again.
 */
#ifndef DLBUF_SIM_H
#define DLBUF_SIM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

const char *sim_error(void);

/* Sets the error text, and returns SIM_FAILED. */
int sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define SIM_FAILED -2

/*
 * Names the host program's device, vpi:NAME. Without this call it is $DLBUF_VPI, or the
 * socket whose number is $DLBUF_VPI_FD. The first sim_open() attaches.
 */
int sim_attach(const char *name);

/*
 * Gives the handle of the next tensor of that name. 0: the host has closed the device.
 * Tensors of it that are not open are dropped then, and the next call is for the next
 * host, unless the socket is inherited. With `wait` the call waits for either, also while no
 * host has the device, and simulated time does not advance; a signal for which the simulator
 * has a handler ends the wait, as a failure. Without `wait` -1: there is no tensor yet.
 */
int sim_open(const char *name, bool wait);

/*
 * Begins an access: waits for fences of other devices. Returns 1; without `wait` also 0:
 * fences have not signalled.
 */
int sim_acquire(int handle, uint32_t access, bool wait);

/* Ends the access and returns the tensor to the host. The tensor cannot be acquired again. */
int sim_release(int handle);

/* Releases the tensor if it is acquired. The handle is invalid afterwards. */
int sim_close(int handle);

enum sim_query {
	SIM_NDIM, SIM_SHAPE, SIM_STRIDE, SIM_CODE, SIM_BITS, SIM_LANES, SIM_BYTES,
};

/* `dim` is for SIM_SHAPE and SIM_STRIDE. Strides are in elements. */
int sim_query(int handle, enum sim_query what, int64_t dim, int64_t *value);

/* Element number `index` in row-major order, with any strides. */
int sim_get(int handle, int64_t index, uint64_t *value);
/* A negative value is sign-extended. Bits above the element's fail. */
int sim_put(int handle, int64_t index, uint64_t value);

/*
 * Bytes from the first to the last of the tensor, padding between rows included: gives
 * their address, after checking that they are inside and that the tensor is acquired for
 * this.
 */
int sim_bytes(int handle, uint32_t access, int64_t offset, int64_t bytes,
	      uint8_t **at);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_SIM_H */
