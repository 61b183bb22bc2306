// SPDX-License-Identifier: MIT
/*
 * Any layout, strided or not: what the library takes and what it refuses is what
 * 128 bits say, by each way in, and the elements of what it takes, and their
 * bytes, can be counted in an int64_t.
 *
 *	build/.../tests/fuzz/layout -max_total_time=60 tests/fuzz/corpus/layout
 */
#include <sys/mman.h>

#include <dlbuf/dlbuf.h>

#include "fuzz.h"
#include "import/layout.h"
#include "layout_model.h"
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
		shape[i] = number(in);
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

/* The layout is looked at before the fd, which is no dma-buf. */
static void check_import(const DLTensor *l, int want)
{
	static struct dlbuf_device *cpu;
	DLManagedTensorVersioned *t;
	static int fd = -1;

	if (!cpu) {
		CHECK(!dlbuf_device_open("cpu", NULL, &cpu));
		fd = memfd_create("no dma-buf", MFD_CLOEXEC);
	}
	CHECK(dlbuf_import(cpu, fd, l, NULL, &t) == (want ? want : -EBADF));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t shape[DLBUF_MAX_NDIM], strides[DLBUF_MAX_NDIM];
	uint64_t first = 1, end = 2, f = 1, e = 2, bytes;
	struct input in = { data, data + size };
	DLTensor l;
	int want;

	get_layout(&in, &l, shape, strides);
	bytes = number(&in);
	if (l.ndim < 0 || l.ndim > DLBUF_MAX_NDIM) {
		CHECK(dlbuf_layout_extent(&l, &first, &end) == -EINVAL);
		return 0;
	}
	want = layout_model(&l, &f, &e);
	CHECK(dlbuf_layout_extent(&l, &first, &end) == want);
	CHECK(first == f && end == e);
	if (want) {
		CHECK(dlbuf_last_error()[0]);
		CHECK(dlbuf_layout_check(&l, UINT64_MAX) == want);
	} else {
		check_counts(&l);
		CHECK(!dlbuf_layout_check(&l, e));
		CHECK(!e || dlbuf_layout_check(&l, e - 1) == -ERANGE);
		CHECK(dlbuf_layout_check(&l, bytes) ==
		      (e > bytes ? -ERANGE : 0));
	}
	check_message(&l, want);
	check_import(&l, want);
	return 0;
}
