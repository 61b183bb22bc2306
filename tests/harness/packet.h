/* SPDX-License-Identifier: MIT */
/* Messages of a peer that does not use the library. */
#ifndef TESTS_PACKET_H
#define TESTS_PACKET_H

#include <string.h>
#include <sys/socket.h>

#include "socket/message.h"

/* sendmsg() with fds, up to the kernel's 253. */
static inline ssize_t send_fds(int sock, const void *data, size_t bytes,
			       const int fds[], unsigned int nfds, int flags)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(253 * sizeof(int))];
	} control = { .head = { .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS,
				.cmsg_len = CMSG_LEN(nfds * sizeof(int)) } };
	struct iovec iov = { (void *)data, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (nfds) {
		memcpy(CMSG_DATA(&control.head), fds, nfds * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	}
	return sendmsg(sock, &msg, flags);
}

/* n tensors of this layout in one dma-buf. */
static inline struct packet tensors_of(const DLTensor *layout, unsigned int n,
				       uint8_t access, uint8_t flags)
{
	struct message_head head;
	struct packet p;

	message_begin(&p, &head, MESSAGE_TENSORS);
	for (unsigned int i = 0; i < n; i++)
		message_put_tensor(&p, layout, 0);
	head.ntensors = n;
	head.nbuffers = 1;
	head.access[0] = access;
	head.flags = flags;
	message_end(&p, &head);
	return p;
}

#endif /* TESTS_PACKET_H */
