// SPDX-License-Identifier: MIT
/*
 * Makes a stream wait for a sync_file. The driver waits for the sync_file if it can.
 * Otherwise the bridge does, or the stream waits for a word of pinned memory, which the
 * thread "dlbuf-words" stores when the fence has signalled, or for a user event of the
 * driver, which "dlbuf-events" sets.
 *
 * A stream must never wait for a word that will not be stored. So the event of the
 * fence is added first; after that, only the fence can delay the store. If the event
 * cannot be added, the caller waits for the fence instead. The same is true of user
 * events. Setting a user event is a driver call, so "dlbuf-words" must not do it.
 */
#include <errno.h>

#include "../dmabuf/fence.h"
#include "engine.h"

#define PAGE_BYTES 4096
#define WORD_BYTES 64		/* a cache line for each word */
#define PAGE_WORDS (PAGE_BYTES / WORD_BYTES)

struct queue_page {
	void *host;
	struct queue_page *next;
	struct queue_word words[PAGE_WORDS];
};

static int add_page(struct queue_device *dev)
{
	struct queue_page *page = sys_calloc(1, sizeof(*page));
	uintptr_t address;
	int ret;

	if (!page)
		return -ENOMEM;
	ret = dev->ops->alloc_host(dev, PAGE_BYTES, &page->host, &address);
	if (ret) {
		free(page);
		return ret;
	}
	pthread_mutex_lock(&dev->lock);
	for (int i = 0; i < PAGE_WORDS; i++) {
		struct queue_word *word = &page->words[i];

		word->dev = dev;
		word->host = (uint32_t *)((char *)page->host + i * WORD_BYTES);
		*word->host = 0;
		word->address = address + i * WORD_BYTES;
		word->next = dev->free_words;
		dev->free_words = word;
	}
	page->next = dev->pages;
	dev->pages = page;
	pthread_mutex_unlock(&dev->lock);
	return 0;
}

static int word_get(struct queue_device *dev, struct queue_word **out)
{
	int ret = 0;

	pthread_mutex_lock(&dev->lock);
	while (!dev->free_words && !ret) {
		pthread_mutex_unlock(&dev->lock);
		ret = add_page(dev);
		pthread_mutex_lock(&dev->lock);
	}
	*out = dev->free_words;
	if (*out)
		dev->free_words = (*out)->next;
	pthread_mutex_unlock(&dev->lock);
	return *out ? 0 : ret;
}

/* Some drivers compare unsigned numbers, so a word that would wrap is not used again. */
static void word_put(struct queue_word *word)
{
	struct queue_device *dev = word->dev;

	if (word->value == UINT32_MAX)
		return;
	pthread_mutex_lock(&dev->lock);
	word->next = dev->free_words;
	dev->free_words = word;
	pthread_mutex_unlock(&dev->lock);
}

/* Runs after the fence has signalled and the word is stored. */
static void word_done(void *data)
{
	struct queue_word *word = data;
	struct queue_device *dev = word->dev;

	word_put(word);
	queue_unref(dev);
}

/* 1: no event could be added for the fence, so this thread has waited. */
static int wait_on_thread(int fence)
{
	int ret = dlbuf_fence_wait(fence, 0);

	return ret ? ret : 1;
}

static int wait_by_word(struct queue_device *dev, void *stream, int fence,
			struct bridge_buffer *none)
{
	struct queue_word *word;
	uintptr_t address;
	uint32_t value;
	int ret;

	(void)none;
	ret = word_get(dev, &word);
	if (ret)
		return ret;
	/* Reads the value now: once the event is added, another wait may own the word. */
	value = ++word->value;
	address = word->address;
	queue_ref(dev);
	if (!event_add_word(fence, word->host, value, word_done, word))
		return dev->ops->wait_word(dev, stream, address, value);
	log_at(DLBUF_LOG_INFO, "waiting for a fence: %s", dlbuf_last_error());
	__atomic_store_n(word->host, value, __ATOMIC_RELEASE);
	word_done(word);
	return wait_on_thread(fence);
}

/* A user event that a stream waits for. */
struct user_event {
	struct queue_device *dev;
	void *event;
	unsigned int refs;	/* atomic; the caller's and the fence's */
};

static void user_event_put(struct user_event *user)
{
	struct queue_device *dev = user->dev;

	if (__atomic_sub_fetch(&user->refs, 1, __ATOMIC_ACQ_REL))
		return;
	dev->ops->user_event_destroy(dev, user->event);
	free(user);
	queue_unref(dev);
}

static void user_event_done(void *data)
{
	struct user_event *user = data;
	struct queue_scope scope;

	queue_enter_to_free(user->dev, &scope);
	user->dev->ops->user_event_set(user->dev, user->event);
	queue_leave(user->dev, &scope);
	user_event_put(user);
}

static int wait_by_event(struct queue_device *dev, void *stream, int fence,
			 struct bridge_buffer *none)
{
	struct user_event *user = sys_calloc(1, sizeof(*user));
	int ret;

	(void)none;
	if (!user)
		return -ENOMEM;
	*user = (struct user_event){ .dev = dev, .refs = 2 };
	ret = dev->ops->user_event_create(dev, &user->event);
	if (ret) {
		free(user);
		return ret;
	}
	queue_ref(dev);
	if (!event_add(fence, user_event_done, user)) {
		ret = dev->ops->user_event_wait(dev, stream, user->event);
	} else {
		log_at(DLBUF_LOG_INFO, "waiting for a fence: %s",
		       dlbuf_last_error());
		user_event_done(user);
		ret = wait_on_thread(fence);
	}
	user_event_put(user);
	return ret;
}

static void passed_at_last(void *data)
{
	queue_gate_passed(data);
	queue_unref(data);
}

/*
 * After the failure `ret` the stream may be waiting, and no event shows when that ends. So
 * nothing is freed before the fence has signalled. False: it has signalled.
 */
static bool passes_until(struct queue_device *dev, int fence, int ret)
{
	struct failure failure = { 0 };

	failure_note(&failure, ret);
	queue_ref(dev);
	if (!event_add(fence, passed_at_last, dev))
		return true;
	dlbuf_fence_wait(fence, 0);
	queue_unref(dev);
	failure_report(&failure);
	return false;
}

int queue_wait_by(struct queue_device *dev, queue_wait_fn wait, void *stream, int fence,
		  struct bridge_buffer *buffer)
{
	uint64_t n = queue_gate_pass(dev, fence != -1);
	struct queue_work *work;
	int ret;

	if (!n)
		return -EAGAIN;
	ret = queue_work_get(dev, &work);
	if (!ret) {
		ret = wait(dev, stream, fence, buffer);
		if (ret)
			queue_work_put(dev, work);
		else
			ret = queue_wait_begun(dev, work, stream, n);
		if (!ret || (ret < 0 && fence != -1 && passes_until(dev, fence, ret)))
			return ret;
	}
	queue_gate_passed(dev);
	return ret < 0 ? ret : 0;
}

int queue_wait_fence(struct queue_device *dev, void *stream, int fence)
{
	if (fence == -1)
		return 0;
	if (dev->takes_fences)
		return dev->ops->wait_fence(dev, stream, fence);
	if (dev->caps.fences_in)
		return queue_bridge_in(dev, NULL, stream, fence);
	if (dev->waits_for_words)
		return queue_wait_by(dev, wait_by_word, stream, fence, NULL);
	return dev->ops->user_event_wait ?
	       queue_wait_by(dev, wait_by_event, stream, fence, NULL) :
	       dlbuf_fence_wait(fence, 0);
}

/* Tries a word that has its value already. */
bool queue_try_words(struct queue_device *dev)
{
	struct queue_word *word;
	void *stream;
	int ret;

	ret = word_get(dev, &word);
	if (!ret) {
		ret = dev->ops->stream_create(dev, &stream);
		if (!ret)
			ret = queue_finish_own(dev, stream, dev->ops->wait_word(
				dev, stream, word->address, 0));
		word_put(word);
	}
	if (ret) {
		log_at(DLBUF_LOG_INFO, "%s: streams do not wait for memory: %s",
		       dev->base.name, dlbuf_last_error());
		forget_failure();
	}
	return !ret;
}

void queue_words_free(struct queue_device *dev)
{
	struct queue_page *page;

	while ((page = dev->pages)) {
		dev->pages = page->next;
		dev->ops->free_host(dev, page->host);
		free(page);
	}
}
