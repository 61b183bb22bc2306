// SPDX-License-Identifier: MIT
/*
 * A stream that waits for a fence: through the bridge, else by a word of pinned
 * memory that a thread of the library sets. CUDA has no sync_file.
 *
 * A stream must never be left hanging. What sets the word is the event, and once
 * that has been added only the fence itself can hold it up; where it cannot be
 * added the caller waits for the fence instead.
 */
#include <errno.h>

#include "../../event.h"
#include "../../fence.h"
#include "cuda.h"

#define PAGE_BYTES 4096
#define FLAG_BYTES 64		/* each in a cache line of its own */
#define PAGE_FLAGS (PAGE_BYTES / FLAG_BYTES)

struct cuda_page {
	void *host;
	struct cuda_page *next;
	struct cuda_flag flags[PAGE_FLAGS];
};

/* Under the lock: a page more of flags. */
static int add_page(struct cuda_device *dev)
{
	struct cuda_page *page = sys_calloc(1, sizeof(*page));
	cuda_pointer pointer;
	int ret;

	if (!page)
		return fail(-ENOMEM, "no memory for flags");
	ret = CUDA_DO_LOCKED(dev, MemHostAlloc, &page->host, PAGE_BYTES,
			     CUABI_MEMHOSTALLOC_PORTABLE |
			     CUABI_MEMHOSTALLOC_DEVICEMAP);
	if (ret)
		goto err_free;
	ret = CUDA_DO_LOCKED(dev, MemHostGetDevicePointer, &pointer,
			     page->host, 0);
	if (ret)
		goto err_host;
	for (int i = 0; i < PAGE_FLAGS; i++) {
		struct cuda_flag *flag = &page->flags[i];

		flag->dev = dev;
		flag->host = (uint32_t *)((char *)page->host + i * FLAG_BYTES);
		*flag->host = 0;
		flag->pointer = pointer + i * FLAG_BYTES;
		flag->next = dev->free_flags;
		dev->free_flags = flag;
	}
	page->next = dev->pages;
	dev->pages = page;
	return 0;

err_host:
	dev->cu.MemFreeHost(page->host);
err_free:
	free(page);
	return ret;
}

static int flag_get(struct cuda_device *dev, struct cuda_flag **out)
{
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	if (!dev->free_flags)
		ret = add_page(dev);
	if (!ret) {
		*out = dev->free_flags;
		dev->free_flags = (*out)->next;
	}
	pthread_mutex_unlock(&dev->lock);
	return ret;
}

static void flag_put(struct cuda_flag *flag)
{
	struct cuda_device *dev = flag->dev;

	pthread_mutex_lock(&dev->lock);
	flag->next = dev->free_flags;
	dev->free_flags = flag;
	pthread_mutex_unlock(&dev->lock);
}

/* The fence has signalled, and the flag is set. */
static void flag_done(void *data)
{
	struct cuda_flag *flag = data;
	struct cuda_device *dev = flag->dev;

	flag_put(flag);
	cuda_unref(dev);
}

static int wait_by_flag(struct cuda_device *dev, cuda_stream stream, int fence)
{
	struct cuda_work *work;
	struct cuda_flag *flag;
	cuda_pointer pointer;
	uint32_t value;
	int ret;

	ret = cuda_wait_get(dev, &work);
	if (ret)
		return ret;
	ret = flag_get(dev, &flag);
	if (ret) {
		cuda_wait_abandon(dev, work);
		return ret;
	}
	/* Once there is an event, the flag may be somebody else's already. */
	value = ++flag->value;
	pointer = flag->pointer;
	cuda_ref(dev);
	if (event_add_word(fence, flag->host, value, flag_done, flag)) {
		log_at(DLBUF_LOG_INFO, "waiting for a fence: %s",
		       dlbuf_last_error());
		__atomic_store_n(flag->host, value, __ATOMIC_RELEASE);
		flag_put(flag);
		cuda_unref(dev);
		cuda_wait_abandon(dev, work);
		return dlbuf_fence_wait(fence, 0);
	}
	ret = CUDA_DO(dev, StreamWaitValue32, stream, pointer, value,
		      CUABI_STREAM_WAIT_VALUE_GEQ);
	if (!ret)
		return cuda_wait_begin(dev, work, stream);
	cuda_wait_abandon(dev, work);
	return ret;
}

int cuda_wait_fence(struct cuda_device *dev, cuda_stream stream, int fence)
{
	if (fence == -1)
		return 0;
	if (dev->caps.fences_in)
		return cuda_bridge_in(dev, NULL, stream, fence);
	return wait_by_flag(dev, stream, fence);
}

static int try_memops(struct cuda_device *dev, struct cuda_flag *flag)
{
	cuda_stream stream;
	int ret;

	ret = CUDA_CALL(&dev->cu, StreamCreate, &stream,
			CUABI_STREAM_NON_BLOCKING);
	if (ret)
		return ret;
	ret = CUDA_CALL(&dev->cu, StreamWaitValue32, stream, flag->pointer, 0,
			CUABI_STREAM_WAIT_VALUE_GEQ);
	if (!ret) {
		ret = CUDA_CALL(&dev->cu, StreamSynchronize, stream);
		if (ret)
			cuda_set_unsure(dev);
	}
	dev->cu.StreamDestroy(stream);
	return ret;
}

bool cuda_has_memops(struct cuda_device *dev)
{
	struct cuda_flag *flag;
	int ret;

	if (!dev->cu.StreamWaitValue32)
		return false;
	ret = flag_get(dev, &flag);
	if (!ret) {
		ret = try_memops(dev, flag);
		flag_put(flag);
	}
	if (ret) {
		log_at(DLBUF_LOG_INFO, "%s: streams do not wait for memory: %s",
		       dev->base.name, dlbuf_last_error());
		forget_failure();
	}
	return !ret;
}

void cuda_flags_free(struct cuda_device *dev)
{
	struct cuda_page *page;

	while ((page = dev->pages)) {
		dev->pages = page->next;
		dev->cu.MemFreeHost(page->host);
		free(page);
	}
}
