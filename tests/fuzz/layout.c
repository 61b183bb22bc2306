// SPDX-License-Identifier: MIT
/*
 * Any layout, strided or not: the library accepts and refuses the layouts that
 * arithmetic with 128 bits accepts and refuses, by each way in. The elements of
 * an accepted layout, and their bytes, can be counted in an int64_t. A layout
 * that fits into a buffer becomes a tensor, shares and views of it, and a
 * message: each element is read and written.
 *
 *	build/.../tests/fuzz/layout -max_total_time=60 tests/fuzz/corpus/layout
 */
#include <sys/socket.h>

#include <dlbuf/dlbuf.h>

#include "fuzz.h"
#include "import/layout.h"
#include "layout_model.h"
#include "memory.h"
#include "socket/message.h"

static void get_layout(struct input *in, DLTensor *l, int64_t shape[],
		       int64_t strides[])
{
	uint8_t bits = byte(in);

	*l = (DLTensor){
		.ndim = bits & 7,
		.shape = shape,
		.strides = bits & 8 ? strides : NULL,
		.dtype = { .code = bits >> 4 & 7, .bits = 8, .lanes = 1 },
	};
	if (l->ndim == 7)
		l->ndim = (int8_t)byte(in);
	if (bits & 128) {
		l->dtype.bits = byte(in);
		l->dtype.lanes = number(in);
	}
	l->byte_offset = number(in);
	for (int i = 0; i < l->ndim && i < DLBUF_MAX_NDIM; i++) {
		/* Many dimensions have elements if the rest are of one. */
		shape[i] = in->at < in->end ? number(in) : 1;
		if (!l->strides)
			continue;
		bits = byte(in);
		strides[i] = bits & 1 ? number(in) : bits >> 2;
		if (bits & 2)
			strides[i] = -(uint64_t)strides[i];
	}
}

static void check_counts(const DLTensor *l)
{
	wide n = (wide)l->dtype.bits * l->dtype.lanes / 8;
	bool empty = false;

	for (int i = 0; i < l->ndim; i++)
		empty |= !l->shape[i];
	for (int i = 0; !empty && i < l->ndim; i++) {
		n *= l->shape[i];
		CHECK(n <= INT64_MAX);
	}
}

/* As it travels, which is with strides. */
static void check_message(const DLTensor *l, int want)
{
	int64_t shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
	struct message_head head;
	static struct message m;
	DLTensor strided = *l;
	uint64_t first, end;
	struct packet p;
	int ret;

	if (!l->strides && want != -EINVAL)
		layout_copy(l, shape, strides);
	else if (!l->strides)
		memset(strides, 0, sizeof(strides));
	if (!l->strides)
		strided.strides = strides;
	message_begin(&p, &head, MESSAGE_TENSORS);
	message_put_tensor(&p, &strided, 0);
	head.ntensors = head.nbuffers = 1;
	head.access[0] = DLBUF_READ;
	message_end(&p, &head);
	ret = message_parse(p.data, p.bytes, 1, &m);
	want = layout_model(&strided, &first, &end);
	CHECK(ret == (want ? -EPROTO : 0));
}

/* Views of the bytes that the tensor covers. */
static void check_view(struct input *in, const DLManagedTensorVersioned *t, uint32_t access)
{
	int64_t shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	DLManagedTensorVersioned *view = NULL;
	uint64_t first = 0, end = 0;
	DLTensor l;
	int want;

	get_layout(in, &l, shape, strides);
	l.byte_offset %= MEMORY_BYTES;
	if (l.ndim < 0 || l.ndim > DLBUF_MAX_NDIM) {
		CHECK(dlbuf_tensor_share(t, &l, &view) == -EINVAL);
		return;
	}
	CHECK(!dlbuf_tensor_get_info(t, &info));
	l.byte_offset += info.first;
	want = layout_model(&l, &first, &end);
	if (!want && (first < info.first || end > info.end))
		want = -ERANGE;
	l.byte_offset -= info.first;
	CHECK(dlbuf_tensor_share(t, &l, &view) == want);
	if (want)
		return;
	l.byte_offset += info.first;
	touch(view, &l, 0, access);
	view->deleter(view);
}

static void check_legacy(const DLManagedTensorVersioned *t, uint32_t access)
{
	DLManagedTensor *old;
	int ret = dlbuf_tensor_share_legacy(t, &old);

	CHECK(ret == (access & DLBUF_WRITE ? 0 : -EOPNOTSUPP));
	if (ret)
		return;
	CHECK(old->dl_tensor.data == t->dl_tensor.data && old->dl_tensor.ndim == t->dl_tensor.ndim);
	for (int i = 0; i < t->dl_tensor.ndim; i++)
		CHECK(old->dl_tensor.shape[i] == t->dl_tensor.shape[i] &&
		      old->dl_tensor.strides[i] == t->dl_tensor.strides[i]);
	old->deleter(old);
}

/* Through a socket, as the last of n tensors. */
static void check_sent(DLManagedTensorVersioned *t, const DLTensor *l, uint32_t access, uint32_t n)
{
	DLManagedTensorVersioned *all[DLBUF_MAX_PLANES] = { t, t, t, t }, *got[DLBUF_MAX_PLANES];
	uint32_t k = 0;
	int pair[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK(!dlbuf_send(pair[0], all, n, NULL));
	CHECK(!dlbuf_recv(memory.cpu, pair[1], NULL, got, &k, NULL) && k == n);
	while (k--) {
		touch(got[k], l, 0, access);
		got[k]->deleter(got[k]);
	}
	close(pair[0]);
	close(pair[1]);
}

/* The layout is looked at before the fd. */
static void check_import(struct input *in, const DLTensor *l, int want, uint64_t end)
{
	struct dlbuf_import_opts opts = { .size = sizeof(opts) };
	DLManagedTensorVersioned *t, *other;
	uint8_t bits = byte(in);
	uint32_t access;
	bool ro = bits & 1;

	opts.access = bits >> 1 & 3;
	access = ro || opts.access == DLBUF_READ ? DLBUF_READ : DLBUF_RW;
	if (!want && ro && opts.access & DLBUF_WRITE)
		want = -EACCES;
	else if (!want && end > MEMORY_BYTES)
		want = -ERANGE;
	CHECK(dlbuf_import(memory.cpu, ro ? memory.ro[0] : memory.fds[0], l, &opts, &t) == want);
	if (want) {
		CHECK(dlbuf_last_error()[0]);
		return;
	}
	touch(t, l, 0, access);
	CHECK(!dlbuf_tensor_share(t, NULL, &other));
	if (bits & 8)
		t->deleter(t);
	touch(other, l, 0, access);
	if (!(bits & 8))
		t->deleter(t);
	CHECK(!dlbuf_tensor_import(memory.cpu, other, NULL, &t));
	touch(t, l, 0, access);
	other->deleter(other);
	check_legacy(t, access);
	check_view(in, t, access);
	check_sent(t, l, access, 1 + (bits >> 4 & 3));
	t->deleter(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
	uint64_t first = 1, end = 2, f = 1, e = 2;
	struct input in = { data, data + size };
	unsigned int fds;
	DLTensor l;
	int want;

	memory_begin();
	fds = memory_settle();
	get_layout(&in, &l, shape, strides);
	if (l.ndim < 0 || l.ndim > DLBUF_MAX_NDIM) {
		CHECK(dlbuf_layout_extent(&l, &first, &end) == -EINVAL);
		return 0;
	}
	want = layout_model(&l, &f, &e);
	CHECK(dlbuf_layout_extent(&l, &first, &end) == want);
	CHECK(first == f && end == e);
	if (want) {
		CHECK(dlbuf_last_error()[0]);
	} else {
		check_counts(&l);
	}
	check_message(&l, want);
	check_import(&in, &l, want, e);
	CHECK(memory_settle() == fds);
	return 0;
}
