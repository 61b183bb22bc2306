// SPDX-License-Identifier: MIT
/*
 * Any bytes as a message: nothing may crash, be read beyond the end, or become
 * a tensor that is not what its own extent says; and what is understood is
 * written down again as the same bytes. It is received too, with the fds that it
 * asks for: each element of its tensors is read and written, and its lease ends.
 *
 *	build/.../tests/fuzz/message -max_total_time=60 tests/fuzz/corpus/message
 *
 * The first byte says how many fds come along, as the head does otherwise.
 */
#include <sys/socket.h>

#include <dlbuf/dlbuf.h>

#include "fuzz.h"
#include "memory.h"
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

/* The tensors' layouts; false: the message has to be refused. */
static bool layouts_of(struct message *m, const int fds[], struct dlbuf_frame_layout l[],
		       uint32_t *n, uint32_t *access)
{
	struct dlbuf_import_opts o = { .size = sizeof(o), .access = DLBUF_RW };
	uint64_t first, end;

	*access = 0;
	if (m->head.kind == MESSAGE_FRAME) {
		for (unsigned int i = 0; i < m->head.nbuffers; i++)
			o.access &= m->head.access[i];
		if (!o.access)
			return false;
		for (unsigned int i = 0; i < m->frame.nplanes; i++)
			m->frame.planes[i].fd = fds[m->buffer[i]];
		*access = o.access == DLBUF_RW ? 0 : o.access;
		o.access = 0;
		return frame_is_good(&m->frame, &o, l, n);
	}
	*n = m->head.ntensors;
	for (unsigned int i = 0; i < *n; i++) {
		l[i] = m->layouts[i];
		l[i].fd = fds[m->buffer[i]];
		if (dlbuf_layout_extent(&l[i].layout, &first, &end) || end > MEMORY_BYTES)
			return false;
	}
	return true;
}

static void receive(struct message *m, const void *data, size_t bytes)
{
	struct dlbuf_frame f = { .size = sizeof(f) };
	struct dlbuf_frame_layout l[DLBUF_MAX_PLANES];
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES] = { NULL };
	int fds[MESSAGE_MAX_FDS], pair[2], lease[2] = { -1, -1 }, fence = -1, ret;
	uint32_t n = 77, want = 0, access;
	unsigned int nfds = 0;
	bool good;

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
	close(lease[0]);
	good = layouts_of(m, fds, l, &want, &access);
	ret = dlbuf_recv(memory.cpu, pair[1], NULL, t, &n, &f);
	CHECK(good == !ret);
	if (ret)
		CHECK(n == 77 && !t[0] && dlbuf_last_error()[0]);
	else if (m->head.kind == MESSAGE_FRAME)
		CHECK(f.nplanes == m->frame.nplanes && f.width == m->frame.width &&
		      f.code == m->frame.code && f.sequence == m->frame.sequence);
	else
		CHECK(!f.nplanes);
	if (!ret) {
		CHECK(n == want);
		touch_frame(t, l, n, access);
	}
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
	/* Of its own size, so that a byte too far is seen. */
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
