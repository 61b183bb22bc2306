// SPDX-License-Identifier: MIT
/* The bytes of a plane: see bytes.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "tool.h"

void bytes_free(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){ 0 };
}

/* Room for rows, the first of them at data. */
static int make_room(struct bytes *b, struct rows rows)
{
	size_t bytes = (rows.rows - 1) * rows.pitch + rows.bytes;

	rows.offset = 0;
	b->rows = rows;
	if (bytes <= b->room)
		return 0;
	free(b->data);
	b->data = malloc(bytes);
	b->room = b->data ? bytes : 0;
	return b->data ? 0 : fail(STATUS_SYSTEM, "no memory for a plane");
}

const uint8_t *bytes_row(const struct bytes *b, uint32_t y)
{
	return b->data + y * b->rows.pitch;
}

int bytes_of_rows(struct bytes *b, const void *base, const struct rows *rows)
{
	const uint8_t *row = (const uint8_t *)base + rows->offset;
	struct rows compact = *rows;
	int status;

	compact.pitch = rows->bytes;
	status = make_room(b, compact);
	for (uint32_t y = 0; !status && y < rows->rows; y++, row += rows->pitch)
		memcpy(b->data + y * compact.pitch, row, rows->bytes);
	return status;
}

/* Without the offset. False: the inner dimensions are not compact. */
static bool rows_of(const DLTensor *t, struct rows *rows)
{
	uint32_t item = t->dtype.bits / 8 * t->dtype.lanes;
	int64_t compact = 1;
	int inner = t->ndim == 1 ? 0 : 1;

	if (!t->ndim || !item || t->dtype.bits % 8)
		return false;
	for (int i = t->ndim - 1; i >= inner; i--) {
		if (t->strides[i] != compact)
			return false;
		compact *= t->shape[i];
	}
	*rows = (struct rows){ .rows = inner ? t->shape[0] : 1, .bytes = compact * item };
	rows->pitch = inner ? (uint64_t)t->strides[0] * item : rows->bytes;
	return compact > 0 && compact <= UINT32_MAX / item &&
	       (!inner || (t->shape[0] > 0 && t->shape[0] <= UINT32_MAX &&
			   t->strides[0] >= compact));
}

int read_within(const struct access *access, DLManagedTensorVersioned *t, uint64_t offset,
		void *to, size_t bytes, uint64_t timeout_ns)
{
	uint64_t start = now_ns(), elapsed;
	void *job;
	int ret;

	if (!access->submit_read)
		return access->read(t, offset, to, bytes);
	ret = access->submit_read(t, offset, bytes, &job);
	if (ret)
		return ret;
	while (!access->job_done(job)) {
		elapsed = now_ns() - start;
		if (elapsed > timeout_ns)
			return -ETIME;
		usleep(elapsed < 80000 ? 10 : elapsed < 8000000 ? elapsed / 8000 : 1000);
	}
	return access->finish_read(job, to, bytes);
}

int bytes_read(struct bytes *b, const struct access *access, DLManagedTensorVersioned *t,
	       const char *name, uint32_t plane, uint64_t timeout_ns)
{
	const DLTensor *dl = &t->dl_tensor;
	/* On these devices data is a handle of the whole dma-buf. */
	bool handle = dl->device.device_type == kDLVulkan || dl->device.device_type == kDLOpenCL;
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct rows rows;
	int ret = dlbuf_tensor_get_info(t, &info);

	if (ret)
		return fail_dlbuf(ret);
	if (!rows_of(dl, &rows))
		return fail(STATUS_SYSTEM, "plane %u on %s has strides that are not rows",
			    plane, name);
	ret = make_room(b, rows);
	if (ret)
		return ret;
	ret = read_within(access, t, dl->byte_offset + (handle ? 0 : info.first), b->data,
			  (rows.rows - 1) * rows.pitch + rows.bytes, timeout_ns);
	if (ret == -ETIME)
		return fail(STATUS_SYSTEM, "%s: the read of plane %u was not complete after "
			    "%llu s; --timeout waits longer", name, plane,
			    (unsigned long long)timeout_ns / 1000000000);
	return ret ? fail(STATUS_SYSTEM, "%s: %s of plane %u failed: %s", name,
			  access->reads_by, plane, strerror(-ret)) : 0;
}

bool bytes_differ(const struct bytes *want, const struct bytes *got, uint32_t *y, uint32_t *x)
{
	const uint8_t *a, *b;

	for (*y = 0; *y < want->rows.rows; ++*y) {
		a = bytes_row(want, *y);
		b = bytes_row(got, *y);
		if (!memcmp(a, b, want->rows.bytes))
			continue;
		for (*x = 0; a[*x] == b[*x]; ++*x)
			;
		return true;
	}
	return false;
}
