/* SPDX-License-Identifier: MIT */
#ifndef DLBUF_LIB_SYNC_H
#define DLBUF_LIB_SYNC_H

#include <stdint.h>

struct dlbuf_device;
struct lease;
struct tensor;

/* What work of ours does with a dma-buf: as part of something larger. */
struct sync_use {
	int fd;
	uint32_t access;
};

/*
 * Ends an access that has been taken off the tensor: the device's part, the
 * fence on the dma-buf, the lease. out may be NULL, as for dlbuf_release().
 */
int tensor_release(struct tensor *t, uint32_t access, void *stream, int *out);

/*
 * What work on several dma-bufs has to wait for, as one new sync_file for a
 * device that waits by itself; *fence is -1 where there is nothing, and on
 * other devices, for which this waits.
 */
int sync_before(struct dlbuf_device *dev, const struct sync_use *uses,
		uint32_t n, int *fence);

/*
 * Puts the fence of that work, borrowed, on the dma-bufs. Waits for it where
 * one of them cannot take it: then it is complete, which is as good.
 */
void sync_after(const struct sync_use *uses, uint32_t n, int fence);

/*
 * A device with work that the kernel knows no fence of: who acquires a buffer on
 * another device waits for that here.
 */
void sync_add_device(struct dlbuf_device *dev);
void sync_remove_device(struct dlbuf_device *dev);

/*
 * Waits for the work of such devices, other than `but`, on a dma-buf. -ETIME,
 * -EIO. Nothing where there is no such device.
 */
struct buffer_id;
int sync_wait_devices(const struct buffer_id *id, const struct dlbuf_device *but,
		      uint32_t access, uint64_t deadline_ns);

/* The same for the dma-buf that fd is, and for all devices. */
int sync_wait_fd(int fd, uint32_t access, uint64_t deadline_ns);

/*
 * Lets the lease, which may be NULL, fire no earlier than the fence, borrowed,
 * signals: by an event, else by waiting for it.
 */
void lease_hold(struct lease *lease, int fence);

#endif /* DLBUF_LIB_SYNC_H */
