// SPDX-License-Identifier: MIT
/* Sharing, deleting, and what outlives what. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cts.h"

#define BYTES 8192

static struct dlbuf_device_stats stats_of(struct dlbuf_device *dev)
{
	DLBUF_INFO(dlbuf_device_stats, s);

	CHECK_EQ(dlbuf_device_get_stats(dev, &s), 0);
	return s;
}

/* A share has its own life, and the same bytes. */
static void share(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	int64_t shape[] = { 7, 11 }, strides[] = { 32, 2 };
	DLTensor layout = {
		.ndim = 2,
		.dtype = { kDLUInt, 16, 1 },
		.shape = shape,
		.strides = strides,
		.byte_offset = 1234,
	};
	DLManagedTensorVersioned *a = NULL, *b = NULL, *c = NULL;
	DLBUF_INFO(dlbuf_tensor_info, ia);
	DLBUF_INFO(dlbuf_tensor_info, ib);
	unsigned char want[64], got[64];

	CHECK_EQ(dlbuf_import(dev, fd, &layout, NULL, &a), 0);
	CHECK_EQ(dlbuf_tensor_share(a, &b), 0);
	CHECK(a != b);
	CHECK(a->dl_tensor.data == b->dl_tensor.data);
	CHECK_EQ(a->dl_tensor.byte_offset, b->dl_tensor.byte_offset);
	CHECK(a->dl_tensor.shape != b->dl_tensor.shape);
	CHECK(!memcmp(b->dl_tensor.shape, shape, sizeof(shape)));
	CHECK(!memcmp(b->dl_tensor.strides, strides, sizeof(strides)));
	CHECK_EQ(a->flags, b->flags);
	CHECK_EQ(dlbuf_tensor_get_info(a, &ia), 0);
	CHECK_EQ(dlbuf_tensor_get_info(b, &ib), 0);
	CHECK_EQ(ia.first, ib.first);
	CHECK_EQ(ia.end, ib.end);
	CHECK_EQ(stats_of(dev).tensors, 2);
	cts_delete(a);
	CHECK_EQ(dlbuf_tensor_share(b, &c), 0);
	cts_pattern(want, sizeof(want), 1);
	cts_poke(fd, 1234, want, sizeof(want));
	cts_read(c, 1234, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	cts_delete(c);
	CHECK_EQ(stats_of(dev).live, 1);
	cts_delete(b);
	CHECK_EQ(stats_of(dev).live, 0);
	CHECK_EQ(stats_of(dev).tensors, 0);
}

static void legacy(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev AUTO_DEV = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES), *ro = NULL;
	DLBUF_OPTS(dlbuf_import_opts, opts, .access = DLBUF_READ);
	int64_t shape = 16;
	DLTensor layout = LAYOUT8(1, &shape);
	DLManagedTensor *old = NULL, *none = NULL;

	CHECK_EQ(dlbuf_tensor_share_legacy(t, &old), 0);
	CHECK(old->dl_tensor.data == t->dl_tensor.data);
	CHECK_EQ(old->dl_tensor.shape[0], BYTES);
	CHECK_EQ(old->dl_tensor.strides[0], 1);
	CHECK(old->deleter != NULL);
	cts_delete(t);
	CHECK_EQ(stats_of(dev).live, 1);
	old->deleter(old);
	CHECK_EQ(stats_of(dev).live, 0);
	/* It has no flag for read-only. */
	CHECK_EQ(dlbuf_import(dev, fd, &layout, &opts, &ro), 0);
	CHECK_ERR(dlbuf_tensor_share_legacy(ro, &none), -EOPNOTSUPP);
	CHECK(!none);
	cts_delete(ro);
}

/* The deleter gives back everything that the import took. */
static void deleter(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t;
	unsigned int fds = cts_count_fds();

	/* Once, so that what a driver keeps for ever is there already. */
	cts_delete(cts_import(dev, fd, BYTES));
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_count_fds(), fds);
	t = cts_import(dev, fd, BYTES);
	CHECK(cts_count_fds() > fds);
	CHECK_EQ(stats_of(dev).live, 1);
	CHECK_EQ(stats_of(dev).live_bytes, BYTES);
	t->deleter(t);
	CHECK_EQ(stats_of(dev).live, 0);
	CHECK_EQ(stats_of(dev).live_bytes, 0);
	CHECK_EQ(stats_of(dev).tensors, 0);
	dlbuf_device_trim(dev, 0);
	CHECK_EQ(cts_count_fds(), fds);
	dlbuf_device_close(dev);
	close(fd);
}

/* A tensor outlives its device's handle, and the exporter's fd. */
static void outlives_device(void *arg)
{
	int fd = cts_alloc("udmabuf", BYTES), keep AUTO_FD = dup(fd);
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);
	DLManagedTensorVersioned *u AUTO_TENSOR = NULL;
	unsigned char want[64], got[64];

	close(fd);
	dlbuf_device_close(dev);
	cts_pattern(want, sizeof(want), 1);
	cts_poke(keep, 0, want, sizeof(want));
	cts_read(t, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
	CHECK_EQ(dlbuf_tensor_share(t, &u), 0);
	cts_delete(t);
	cts_read(u, 0, got, sizeof(got));
	CHECK(!memcmp(want, got, sizeof(got)));
}

static void *delete_it(void *t)
{
	cts_delete(t);
	return NULL;
}

static void deleted_elsewhere(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct dlbuf_device *dev = cts_open();
	DLManagedTensorVersioned *t = cts_import(dev, fd, BYTES);
	pthread_t thread;

	/* Still acquired, and the device's handle gone. */
	CHECK_EQ(dlbuf_acquire(t, DLBUF_RW, NULL, NULL), 0);
	dlbuf_device_close(dev);
	CHECK_EQ(pthread_create(&thread, NULL, delete_it, t), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

void cts_cases_tensor(void)
{
	ktap_case("tensor/share", share, NULL);
	ktap_case("tensor/legacy", legacy, NULL);
	ktap_case("tensor/deleter", deleter, NULL);
	ktap_case("tensor/outlives-device", outlives_device, NULL);
	ktap_case("tensor/deleted-on-another-thread", deleted_elsewhere, NULL);
}
