// SPDX-License-Identifier: MIT
/* Accesses to a tensor's memory by the trial device, and the registries with it. */
#include "../../lib/import/device.c"
#include "../cts/main.c"

#include "queue/queue.h"

/* By the device itself: a function that its default stream calls. */
struct copy {
	void *to;
	const void *from;
	size_t bytes;
};

static void do_copy(void *data)
{
	struct copy *c = data;

	memcpy(c->to, c->from, c->bytes);
}

static int copy(DLManagedTensorVersioned *t, uint64_t offset, void *to,
		const void *from, size_t bytes)
{
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct queue_device *q;
	struct copy c;
	void *stream;
	uint8_t *at;
	int ret = dlbuf_tensor_get_info(t, &info);

	if (ret)
		return ret;
	at = (uint8_t *)t->dl_tensor.data - info.first + offset;
	c = (struct copy){ to ? to : at, to ? at : from, bytes };
	q = queue_device_of(info.device);
	ret = q->ops->stream(q, NULL, false, &stream);
	if (!ret)
		ret = q->ops->call_host(q, stream, do_copy, &c);
	return ret ? ret : q->ops->finish(q, stream);
}

static int trial_read(DLManagedTensorVersioned *t, uint64_t offset, void *dst,
		      size_t bytes)
{
	return copy(t, offset, dst, NULL, bytes);
}

static int trial_write(DLManagedTensorVersioned *t, uint64_t offset,
		       const void *src, size_t bytes)
{
	return copy(t, offset, NULL, src, bytes);
}

static bool trial_prepare(void)
{
	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	return false;
}

const struct access access_trial = {
	.backend = "trial",
	.read = trial_read,
	.write = trial_write,
	.prepare = trial_prepare,
};
