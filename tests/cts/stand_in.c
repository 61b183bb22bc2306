// SPDX-License-Identifier: MIT
/*
 * A device whose driver is real and whose hardware is not (tests/drivers): its copies are
 * submitted and end in their order, but move nothing. So the CPU moves their bytes when they
 * have ended, without a bracket. Bytes then prove the order of accesses, and nothing about
 * the device.
 */
#include <stdlib.h>

#include "cts.h"
#include "import/import.h"
#include "tensor/tensor.h"

static const struct access *real;
static struct access stand_in;

struct read {
	void *job;
	DLManagedTensorVersioned *t;
	uint64_t offset;
};

static int dma_buf_of(DLManagedTensorVersioned *t)
{
	struct tensor *own = NULL;

	REQUIRE_OK(tensor_of(t, &own));
	return own->imp->fd;
}

static int read_bytes(DLManagedTensorVersioned *t, uint64_t offset, void *dst, size_t bytes)
{
	int ret = real->read(t, offset, dst, bytes);

	if (!ret)
		cts_peek_raw(dma_buf_of(t), offset, dst, bytes);
	return ret;
}

static int write_bytes(DLManagedTensorVersioned *t, uint64_t offset, const void *src,
		       size_t bytes)
{
	int ret = real->write(t, offset, src, bytes);

	if (!ret)
		cts_poke_raw(dma_buf_of(t), offset, src, bytes);
	return ret;
}

static int submit_read(DLManagedTensorVersioned *t, uint64_t offset, size_t bytes, void **job)
{
	struct read *r = malloc(sizeof(*r));
	int ret;

	REQUIRE(r);
	*r = (struct read){ .t = t, .offset = offset };
	ret = real->submit_read(t, offset, bytes, &r->job);
	*job = r;
	if (ret)
		free(r);
	return ret;
}

static bool job_done(void *job)
{
	return real->job_done(((struct read *)job)->job);
}

static int finish_read(void *job, void *dst, size_t bytes)
{
	struct read *r = job;
	int ret = real->finish_read(r->job, dst, bytes);

	if (!ret)
		cts_peek_raw(dma_buf_of(r->t), r->offset, dst, bytes);
	free(r);
	return ret;
}

void cts_stand_in(void)
{
	real = cts_access;
	stand_in = *real;
	stand_in.read = read_bytes;
	stand_in.write = write_bytes;
	if (real->submit_read)
		stand_in.submit_read = submit_read;
	stand_in.job_done = job_done;
	stand_in.finish_read = finish_read;
	cts_access = &stand_in;
	cts_computes = false;
}
