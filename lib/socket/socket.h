/* SPDX-License-Identifier: MIT */
/*
 * Messages of one tensor with a backend's own bytes and fd, for backends whose device is
 * another process; and the fds that a child of fork() closes.
 */
#ifndef DLBUF_LIB_SOCKET_H
#define DLBUF_LIB_SOCKET_H

#include <dlbuf/socket.h>

/*
 * fds that a child of fork() closes, because its duplicate would prevent the other side from
 * noticing the end. Each fd is made and added under the lock, so that no child is forked in
 * between; the lock is held only for that. If no memory is left, the fd is not added, and a
 * child keeps it open. A negative fd is ignored.
 */
void owned_lock(void);
void owned_add(int fd);
void owned_unlock(void);

/* Closes any fd, also one that was not added. */
void owned_close(int fd);

/*
 * Closes any fd that a peer has sent. If it is a socket, the close does not linger, which
 * would block for as long as the peer wishes.
 */
void foreign_close(int fd);

/*
 * Bytes and an fd that travel in the packet of a message, the bytes before those of the
 * message and the fd after its fds.
 */
struct envelope {
	void *data;
	size_t bytes;
	int fd;			/* borrowed when it is sent, new when it was received */
	bool alone;		/* received: the packet has only these bytes, and no fds */
};

/*
 * As dlbuf_send() of one tensor. Does not wait for work of the device `but`, because the
 * receiver is that device.
 */
int socket_send(int sock, DLManagedTensorVersioned *tensor,
		const struct dlbuf_socket_opts *opts, struct envelope *envelope,
		const struct dlbuf_device *but);

/*
 * As dlbuf_recv() of tensors. -EPROTO: the packet has fewer bytes before the message, or
 * no fd for the envelope.
 */
int socket_recv(struct dlbuf_device *dev, int sock,
		const struct dlbuf_socket_opts *opts,
		DLManagedTensorVersioned *tensors[DLBUF_MAX_PLANES],
		uint32_t *ntensors, struct envelope *envelope);

#endif /* DLBUF_LIB_SOCKET_H */
