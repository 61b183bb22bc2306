// SPDX-License-Identifier: MIT
/*
 * Any bytes as a message: nothing may crash, be read beyond the end, or become a
 * tensor that differs from its own extent; and an accepted message is written
 * again as the same bytes. It is received too, with the fds that it asks for:
 * each element of its tensors is read and written, and its lease ends.
 *
 *	build/.../tests/fuzz/message -max_total_time=60 tests/fuzz/corpus/message
 *
 * The first byte is the number of fds, which is otherwise in the head.
 */
#include <sys/socket.h>

#include <dlbuf/dlbuf.h>

#include "expect.h"
#include "fuzz.h"
#include "packet.h"

static void check_tensors(const struct message *m, struct packet *again)
{
	for (unsigned int i = 0; i < m->head.ntensors; i++) {
		const DLTensor *l = &m->layouts[i].layout;
		uint64_t first, end;

		CHECK(l->ndim >= 0 && l->ndim <= DLBUF_MAX_NDIM && !l->data);
		CHECK(!dlbuf_layout_extent(l, &first, &end) && first <= end);
		CHECK(m->buffer[i] < m->head.nbuffers);
		message_put_tensor(again, l, m->buffer[i]);
	}
}

static void check_frame(const struct message *m, struct packet *again)
{
	struct dlbuf_frame_layout layouts[DLBUF_MAX_PLANES];
	uint32_t n = 0;

	CHECK(m->frame.nplanes && m->frame.nplanes <= DLBUF_MAX_PLANES);
	CHECK(m->frame.fence == -1 && !m->frame.release);
	for (uint32_t i = 0; i < m->frame.nplanes; i++) {
		CHECK(m->frame.planes[i].fd == -1);
		CHECK(m->buffer[i] < m->head.nbuffers);
	}
	/* As any frame it has layouts, or a reason. */
	CHECK(dlbuf_frame_layouts(&m->frame, NULL, layouts, &n) <= 0);
	message_put_frame(again, &m->frame, m->buffer);
}

static void receive(struct message *m, const void *data, size_t bytes)
{
	struct dlbuf_import_opts any = { .size = sizeof(any) };
	struct dlbuf_frame f = { .size = sizeof(f) };
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	int fds[MESSAGE_MAX_FDS], pair[2], lease[2] = { -1, -1 }, fence = -1, ret;
	static struct expect e;
	unsigned int nfds = 0;
	uint32_t n = 77;

	for (; nfds < m->head.nbuffers; nfds++)
		fds[nfds] = m->head.access[nfds] == DLBUF_READ ? memory.ro[nfds] : memory.fds[nfds];
	if (m->head.flags & MESSAGE_FENCE)
		fds[nfds++] = fence = eventfd(1, EFD_CLOEXEC);
	if (m->head.flags & MESSAGE_HOLD) {
		CHECK(!pipe2(lease, O_CLOEXEC));
		fds[nfds++] = lease[0];
	}
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK(send_fds(pair[0], data, bytes, fds, nfds, 0) == (ssize_t)bytes);
	expect_message(&e, m, fds);
	close(lease[0]);
	ret = dlbuf_recv(memory.cpu, pair[1], NULL, t, &n, &f);
	CHECK(!ret == expect_begin(&e, &any));
	if (ret)
		CHECK(n == 77 && !t[0] && dlbuf_last_error()[0]);
	else
		expect_touch(&e, t, n, &f);
	while (!ret && n) {
		struct pollfd p = { .fd = lease[1] };

		/* It is held until the last tensor is deleted. */
		CHECK(lease[1] < 0 || !poll(&p, 1, 0));
		n--, t[n]->deleter(t[n]);
	}
	if (lease[1] >= 0) {
		struct pollfd p = { .fd = lease[1] };

		CHECK(poll(&p, 1, 0) == 1 && p.revents & POLLERR);
		close(lease[1]);
	}
	if (fence >= 0)
		close(fence);
	close(pair[0]);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct packet again;
	struct message_head head;
	unsigned char *copy;
	static struct message m;
	unsigned int fds;
	int ret;

	if (!size)
		return 0;
	memory_begin();
	fds = memory_settle();
	/* A block of exactly this size, so that an access after it is noticed. */
	copy = malloc(size - 1 ? size - 1 : 1);
	CHECK(copy);
	memcpy(copy, data + 1, size - 1);
	ret = message_parse(copy, size - 1, data[0], &m);
	if (ret) {
		CHECK(ret == -EPROTO && dlbuf_last_error()[0]);
		free(copy);
		return 0;
	}
	CHECK(data[0] == message_fds(&m.head));
	message_begin(&again, &head, m.head.kind);
	if (m.head.kind == MESSAGE_FRAME)
		check_frame(&m, &again);
	else
		check_tensors(&m, &again);
	head = m.head;
	message_end(&again, &head);
	CHECK(again.bytes == size - 1 && !memcmp(again.data, copy, size - 1));
	receive(&m, copy, size - 1);
	free(copy);
	CHECK(memory_settle() == fds);
	return 0;
}
