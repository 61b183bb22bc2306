// SPDX-License-Identifier: MIT
/* Tries with a buffer of the library whether imports share its memory: see trial.h. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <dlbuf/alloc.h>

#include "../dmabuf/fence.h"
#include "../system/internal.h"
#include "trial.h"

bool trial_none;

int trial_by_cpu(const struct trial_buffer *t, size_t at, size_t bytes, uint8_t first,
		 bool *same)
{
	uint64_t access = same ? DMA_BUF_SYNC_READ : DMA_BUF_SYNC_WRITE;
	int ret = bracket(t->fd, DMA_BUF_SYNC_START | access);
	uint8_t want[TRIAL_PAGE];

	trial_fill(same ? want : t->map + at, bytes, first);
	if (same)
		*same = !memcmp(t->map + at, want, bytes);
	return bracket(t->fd, DMA_BUF_SYNC_END | access) || ret ? -EIO : 0;
}

int trial_run(struct dlbuf_device *dev,
	      int (*fn)(struct dlbuf_device *dev, const struct trial_buffer *t,
			bool *shares),
	      bool *apart)
{
	static const char *const exporters[] = { "udmabuf", "heap:system" };
	int ret = -ENOSYS;

	for (size_t i = 0; ret && i < ARRAY_SIZE(exporters) && !trial_none; i++) {
		DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporters[i]);
		struct trial_buffer t;
		bool shares = true;

		ret = dlbuf_alloc_fd(TRIAL_PAGE, &opts, &t.fd);
		if (ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM)
			return ret;
		if (ret)
			continue;
		t.map = mmap(NULL, TRIAL_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, t.fd, 0);
		ret = t.map == MAP_FAILED ? -ENOMEM : fn(dev, &t, &shares);
		if (t.map != MAP_FAILED)
			munmap(t.map, TRIAL_PAGE);
		close(t.fd);
		if (!ret)
			__atomic_store_n(apart, !shares, __ATOMIC_RELEASE);
	}
	if (ret)
		log_at(DLBUF_LOG_INFO, "%s: no trial of its imports: %s", dev->name,
		       dlbuf_last_error());
	forget_failure();
	return !ret;
}

int trial_apart(void)
{
	return fail(-EOPNOTSUPP, "the driver's imports share no memory with the dma-buf: a "
		    "trial buffer kept other bytes");
}
