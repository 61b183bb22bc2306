/* SPDX-License-Identifier: MIT */
/*
 * Verilog simulators. A test bench in Verilog reads and writes the tensors of such a
 * device (kDLVPI of DLPack). So a frame of a camera can be the input of a design that
 * exists only as RTL, and any other device can use its output. NVIDIA's Vision
 * Programming Interface has the same initials and is something else.
 *
 * The simulator is another process. It is Icarus Verilog with the module dlbuf.vpi, or a
 * program made by Verilator with dlbuf_dpi.sv; see dlbuf-verilog(7). No driver is
 * needed.
 *
 *	dlbuf_device_open("vpi:sobel", NULL, &sim);	// the simulator may attach now
 *	dlbuf_import(sim, fd, &layout, NULL, &t);
 *
 *	dlbuf_acquire(t, DLBUF_READ, NULL, NULL);	// the writers' work is complete
 *	dlbuf_vpi_send(t, "in", NULL);			// the test bench gets it as "in"
 *	dlbuf_release(t, NULL, &done);			// readable: the test bench is done
 *
 * Devices. "vpi:NAME" waits for a simulator that attaches with the same name and the
 * same user. NAME has 1 to 24 of the characters A-Z a-z 0-9 _ . - and is free again when the
 * device is closed. The name is an abstract Unix socket: it leaves nothing in a file system,
 * and simulator and program must be in one network namespace. A program that starts the
 * simulator itself can give it one end of a socket instead, see dlbuf_device_wrap_vpi(). A
 * device has one simulator at a time. If a second simulator attaches meanwhile, the next
 * dlbuf_vpi_send() refuses it, and it ends with an error. After a simulator has ended, a
 * device with a name accepts another one.
 *
 * The data of a tensor is the address of the bytes in this process (a mapping of the dma-buf).
 * The simulator has a mapping of its own. To use the bytes here, import the dma-buf on
 * the device "cpu".
 *
 * Order. The device has no streams. dlbuf_acquire() waits for the fences of the dma-buf
 * and for work without fences, on the calling thread. dlbuf_vpi_send() submits work, as a
 * launch does on a GPU. The work is complete when the test bench has released the tensor
 * ($dlbuf_release). Then the fd that dlbuf_release() has returned (DLBUF_SYNC_EVENT)
 * becomes readable. This fd is a socket and no eventfd: poll it, and do not read it. An
 * acquire on another device of this process, and dlbuf_send(), wait for the work too.
 * Other processes and the kernel do not know of the work.
 *
 * If the test bench gets the same dma-buf several times, the fd becomes readable when the
 * test bench has released all tensors that were sent before.
 *
 * The end of a simulator. If the simulator ends before $dlbuf_release, by $finish, $fatal
 * or a signal, the fd becomes readable and leases fire, but the work is not complete. The
 * bytes that it has written until then stay in the buffer. These report it:
 *	- the fd: poll() also returns POLLERR, and dlbuf_fence_status() gives -EIO;
 *	- dlbuf_lease_result(): -EIO;
 *	- if the simulator could write, the next acquire of the buffer in this process, on any
 *	  device: it fails once with -EIO and acquires nothing (DLBUF_ACQUIRE_DAMAGED accepts
 *	  the buffer). A dlbuf_send() or dlbuf_release() that comes before it fails in its place;
 *	- dlbuf_vpi_send(), which fails with -EPIPE once the process has ended. A call directly
 *	  after the fd's POLLERR may be earlier than that: it succeeds, and the fence of its
 *	  release reports the end.
 *
 * After any end of a simulator, also a clean one, the first dlbuf_vpi_send() to a device with a
 * name fails with -EPIPE, and the next one waits for a new simulator.
 *
 * The end of the program. dlbuf_device_close() ends the connection, also if a test bench
 * holds tensors, and frees the name. The test bench may still open the tensors that were
 * sent; then $dlbuf_open returns 0. Tensors that it has not opened are dropped, and their
 * leases fire. Tensors of a closed device can be used, but not sent. The end of the process
 * has the same effect, also by SIGKILL; children of fork() have neither the name nor the
 * connection.
 *
 * Leases. A lease fires when the test bench has closed the tensor and the tensors here are
 * deleted. A test bench that never closes a tensor keeps the buffer.
 */
#ifndef DLBUF_VPI_H
#define DLBUF_VPI_H

#include <dlbuf/base.h>
#include <dlbuf/device.h>
#include <dlbuf/dlpack.h>
#include <dlbuf/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLBUF_VPI_MAX_NAME 48	/* bytes of a tensor's name, with its 0 at the end */

/*
 * Makes a device around one end of a connected Unix socket of type SOCK_SEQPACKET.
 * The simulator has the other end: its environment variable DLBUF_VPI_FD has the
 * number of the fd:
 *
 *	socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s);
 *	dlbuf_device_wrap_vpi(s[0], NULL, &sim);
 *	if (!fork()) {
 *		dup2(s[1], 9);
 *		setenv("DLBUF_VPI_FD", "9", 1);
 *		execlp("vvp", "vvp", "-mdlbuf", "bench.vvp", NULL);
 *	}
 *	close(s[1]);	// or nobody detects the end of the simulator
 *
 * sock is duplicated, opts are borrowed, *out is new. Does not block.
 * -EINVAL  sock is not such a socket, out is NULL, bad opts
 * -EBADF   sock is not open
 */
DLBUF_API int dlbuf_device_wrap_vpi(int sock, const struct dlbuf_device_opts *opts,
				    struct dlbuf_device **out);

/*
 * Gives an acquired tensor to the test bench under this name, with the access of the
 * acquire. Tensors of one name arrive in the order of the calls. Several names may be in
 * use at once.
 *
 * tensor, name and opts are borrowed. You may release and delete the tensor at once: the
 * library keeps the import and the lease until the test bench is done. name has 1 to
 * DLBUF_VPI_MAX_NAME - 1 printable characters without spaces.
 *
 * Blocks while no simulator is attached, and while the socket is full because the
 * simulator does not read. opts limit this as for dlbuf_send(); opts->import is not
 * used. One thread at a time sends; others wait for it, also after their deadline. On
 * failure nothing is sent.
 * -EPIPE   the simulator's process has ended, or the device is closed
 * -EMFILE  no fds are left: a tensor that the test bench holds uses some, so this may happen
 *          before the socket is full
 * -EAGAIN  it would block
 * -ETIME   the deadline passed
 * -EINVAL  not a tensor of such a device, not acquired, a bad name, bad opts
 * and the errors of dlbuf_send().
 */
DLBUF_API int dlbuf_vpi_send(DLManagedTensorVersioned *tensor, const char *name,
			     const struct dlbuf_socket_opts *opts);

/*
 * Attaches a simulator to the device vpi:NAME of another process. The modules of
 * dlbuf call this function; call it to connect another simulator. *sock is new. Does
 * not block.
 * -ECONNREFUSED  no process of this user has that device, or too many connections wait
 *                until it accepts them
 * -EINVAL        a bad name, sock is NULL
 */
DLBUF_API int dlbuf_vpi_connect(const char *name, int *sock);

struct dlbuf_vpi_arrival {
	size_t size;			/* of this struct, set by the caller */
	DLManagedTensorVersioned *tensor;	/* new */
	/*
	 * A socket with one byte, new. After the last access, read the byte and close
	 * the fd: this returns the tensor to the sender, whose dlbuf_release() has the
	 * other end. If the fd is closed without the read, the sender gets the error
	 * that the work is not complete.
	 */
	int done;
	uint32_t access;		/* dlbuf_access that the sender has acquired */
	char name[DLBUF_VPI_MAX_NAME];
};

/*
 * Receives the next tensor in a simulator, and imports it on dev, usually "cpu".
 * Arguments, waiting and errors are those of dlbuf_recv(). A refused message is
 * returned to the sender.
 * -EPIPE   the program has closed the device
 * -EBUSY   the device has another simulator
 * -EPROTO  also: the message is not from dlbuf_vpi_send()
 * -EINVAL  also: arrival is NULL or its size is not set
 */
DLBUF_API int dlbuf_vpi_recv(struct dlbuf_device *dev, int sock,
			     const struct dlbuf_socket_opts *opts,
			     struct dlbuf_vpi_arrival *arrival);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_VPI_H */
