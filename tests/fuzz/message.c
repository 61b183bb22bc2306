// SPDX-License-Identifier: MIT
/*
 * Any bytes as a message: nothing may crash, be read beyond the end, or become
 * a tensor that is not what its own extent says; and what is understood is
 * written down again as the same bytes.
 *
 *	build/.../tests/fuzz/message -max_total_time=60 tests/fuzz/corpus/message
 *
 * The first byte says how many fds come along, as the head does otherwise.
 */
#include <dlbuf/dlbuf.h>

#include "fuzz.h"
#include "socket/message.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct packet again;
	struct message_head head;
	unsigned char *copy;
	struct message m;
	int ret;

	if (!size)
		return 0;
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
	free(copy);
	return 0;
}
