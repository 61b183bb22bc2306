// SPDX-License-Identifier: MIT
/*
 * The costs of an import: the first one of a buffer, a later one of the same
 * buffer, and a mapping by hand, over sizes, pools and exporters.
 *
 *	bench/import [DEVICE...]	default: cpu
 *
 * In the lab with -icount a nanosecond is an executed instruction, so that
 * the table repeats on any machine (make bench).
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <linux/dma-buf.h>

#include <dlbuf/dlbuf.h>

#include "bench.h"

#define ROUNDS 64
#define MAX_POOL 4096
#define MAX_BYTES (256ull << 20)	/* of one pool */

static DLManagedTensorVersioned *import(struct dlbuf_device *dev, int fd)
{
	/* The upper half of a 64 KiB page run, as rows of 256 bytes. */
	int64_t shape[] = { 128, 256 };
	DLTensor layout = {
		.ndim = 2,
		.dtype = { kDLUInt, 8, 1 },
		.shape = shape,
		.byte_offset = 32 << 10,
	};
	DLManagedTensorVersioned *t;

	if (dlbuf_import(dev, fd, &layout, NULL, &t))
		errx(1, "%s", dlbuf_last_error());
	return t;
}

/* ------------------------------------------------ system calls, allocations */

static unsigned long allocations;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

struct traced {
	struct dlbuf_device *dev;
	int fd;
};

static void import_and_delete(void *arg)
{
	struct traced *c = arg;
	DLManagedTensorVersioned *t = import(c->dev, c->fd);

	t->deleter(t);
}

/* ------------------------------------------------ one pool */

struct result {
	uint64_t first, cached, by_hand;
};

static int measure(struct dlbuf_device *dev, const char *exporter,
		   uint64_t bytes, size_t pool, uint64_t clock,
		   struct result *out)
{
	static uint64_t v[ROUNDS * MAX_POOL];
	static int fds[MAX_POOL];
	size_t n;

	for (size_t i = 0; i < pool; i++) {
		DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter);
		int ret = dlbuf_alloc_fd(bytes, &opts, &fds[i]);

		if (ret) {
			while (i--)
				close(fds[i]);
			return ret;
		}
	}
	for (size_t i = 0; i < pool; i++) {
		uint64_t t = now();
		DLManagedTensorVersioned *tensor = import(dev, fds[i]);

		v[i] = now() - t - clock;
		tensor->deleter(tensor);
	}
	out->first = rounded(median(v, pool));

	n = 0;
	for (size_t r = 0; r < ROUNDS; r++)
		for (size_t i = 0; i < pool; i++) {
			uint64_t t = now();
			DLManagedTensorVersioned *tensor = import(dev, fds[i]);

			tensor->deleter(tensor);
			v[n++] = now() - t - clock;
		}
	out->cached = median(v, n);

	n = 0;
	for (size_t r = 0; r < ROUNDS / 4; r++)
		for (size_t i = 0; i < pool && i < 16; i++) {
			uint64_t t = now();
			void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				       MAP_SHARED, fds[i], 0);

			if (p == MAP_FAILED)
				err(1, "mmap");
			munmap(p, bytes);
			v[n++] = now() - t - clock;
		}
	out->by_hand = rounded(median(v, n));

	for (size_t i = 0; i < pool; i++)
		close(fds[i]);
	dlbuf_device_trim(dev, 0);
	return 0;
}

static void size_name(char *s, size_t n, uint64_t bytes)
{
	if (bytes >= 1 << 20)
		snprintf(s, n, "%llu MiB", (unsigned long long)bytes >> 20);
	else
		snprintf(s, n, "%llu KiB", (unsigned long long)bytes >> 10);
}

static void figures(const char *exporter, const char *size,
		    const struct result *r)
{
	char title[64];

	snprintf(title, sizeof(title), "cpu: %s of %s", size, exporter);
	record("hand", r->by_hand, title, "mmap() and munmap()");
	record("dlbuf", r->first, title, "first import, without its deletion");
	record("dlbuf", r->cached, title,
	       "import of a buffer seen before, and its deletion");
}

/* Uses small buffers, because a machine can have this many of them. */
static void figure_of_pool(const char *exporter, size_t pool, uint64_t cached)
{
	char title[64];

	snprintf(title, sizeof(title), "cpu: buffers of %s by turns", exporter);
	record("dlbuf", cached, title, "import of one of %zu seen before, and its deletion", pool);
}

static void table(struct dlbuf_device *dev, const char *name,
		  const char *exporter, uint64_t clock)
{
	static const uint64_t sizes[] = { 64 << 10, 1 << 20, 4 << 20, 32 << 20 };
	static const size_t pools[] = { 4, 16, 64, 256, 1024, MAX_POOL };
	uint64_t low = UINT64_MAX, high = 0, one_mib = 0, one_mib_cached = 0;
	struct result warm_up;

	/* The kernel's own pools fill up first. */
	measure(dev, exporter, sizes[0], pools[2], clock, &warm_up);
	printf("\n%s, %s\n%10s %6s %12s %12s %14s %8s\n", name, exporter,
	       "size", "pool", "first", "cached", "mmap+munmap", "ratio");
	for (size_t s = 0; s < 4; s++)
		for (size_t p = 0; p < sizeof(pools) / sizeof(pools[0]); p++) {
			struct result r;
			char size[32];

			if (sizes[s] * pools[p] > MAX_BYTES)
				continue;
			if (measure(dev, exporter, sizes[s], pools[p], clock,
				    &r)) {
				printf("  not run: %s\n", dlbuf_last_error());
				return;
			}
			size_name(size, sizeof(size), sizes[s]);
			printf("%10s %6zu %12llu %12llu %14llu %7.1fx\n", size,
			       pools[p], (unsigned long long)r.first,
			       (unsigned long long)r.cached,
			       (unsigned long long)r.by_hand,
			       (double)r.by_hand / r.cached);
			fflush(stdout);
			if (!p && !strcmp(name, "cpu"))
				figures(exporter, size, &r);
			if (!s && !strcmp(name, "cpu"))
				figure_of_pool(exporter, pools[p], r.cached);
			low = r.cached < low ? r.cached : low;
			high = r.cached > high ? r.cached : high;
			if (sizes[s] == 1 << 20 && pools[p] == 4) {
				one_mib = r.by_hand;
				one_mib_cached = r.cached;
			}
		}
	printf("cached import: %llu to %llu, a spread of %.1f %%; 1 MiB by "
	       "hand costs %.1f times as much\n", (unsigned long long)low,
	       (unsigned long long)high, 100.0 * (high - low) / low,
	       (double)one_mib / one_mib_cached);
}

static void count(struct dlbuf_device *dev, const char *exporter)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = exporter);
	DLManagedTensorVersioned *t;
	unsigned int calls;
	unsigned long n;
	int fd;

	if (dlbuf_alloc_fd(64 << 10, &opts, &fd))
		return;
	/* Seen before: the second time a number is worth a guess. */
	for (int i = 0; i < 2; i++) {
		t = import(dev, fd);
		t->deleter(t);
	}
	allocations = 0;
	t = import(dev, fd);
	t->deleter(t);
	n = allocations;
	calls = count_syscalls(import_and_delete,
			       &(struct traced){ .dev = dev, .fd = fd });
	printf("\na cached import and its deletion: %u system call%s, %lu "
	       "allocation%s\n", calls, calls == 1 ? "" : "s", n,
	       n == 1 ? "" : "s");
	close(fd);
	dlbuf_device_trim(dev, 0);
}

/* ------------------------------------------------ one access of a loop */

/* A program by hand keeps this for each buffer of its producer. */
struct kept {
	dev_t dev;
	ino_t ino;
	void *data;
};

struct loop {
	struct dlbuf_device *dev;
	DLManagedTensorVersioned *tensor;
	struct kept kept[4];
	uint64_t bytes;
	int fd;			/* of the buffer, as the producer gave it */
};

static void sync_by_hand(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	if (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync))
		err(1, "DMA_BUF_IOCTL_SYNC");
}

static void bracket_by_hand(void *arg)
{
	struct loop *l = arg;

	sync_by_hand(l->fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	sync_by_hand(l->fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
}

static void map_and_access(void *arg)
{
	struct loop *l = arg;
	void *p = mmap(NULL, l->bytes, PROT_READ, MAP_SHARED, l->fd, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	bracket_by_hand(l);
	munmap(p, l->bytes);
}

/* A producer that makes its buffers again uses the numbers of its fds again. */
static void find_and_access(void *arg)
{
	struct loop *l = arg;
	struct stat st;

	if (fstat(l->fd, &st))
		err(1, "fstat");
	for (size_t i = 0; i < 4; i++)
		if (l->kept[i].ino == st.st_ino && l->kept[i].dev == st.st_dev) {
			bracket_by_hand(l);
			return;
		}
	errx(1, "the buffer is not known");
}

static void access_tensor(DLManagedTensorVersioned *t)
{
	if (dlbuf_acquire(t, DLBUF_READ, NULL, NULL) || dlbuf_release(t, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
}

static void import_and_access(void *arg)
{
	struct loop *l = arg;
	DLManagedTensorVersioned *t = import(l->dev, l->fd);

	access_tensor(t);
	t->deleter(t);
}

static void access_kept(void *arg)
{
	access_tensor(((struct loop *)arg)->tensor);
}

/* dup() and close() are the producer's. */
static uint64_t cost_of(void (*fn)(void *arg), struct loop *l, bool new_fds, uint64_t clock)
{
	static uint64_t v[ROUNDS];
	int old = l->fd;

	/* The first ones look at the fences, see dlbuf_acquire(). */
	for (int i = 0; i < 64; i++)
		fn(l);
	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t t;

		if (new_fds)
			l->fd = fcntl(old, F_DUPFD_CLOEXEC, 500 + (int)i);
		t = now();
		fn(l);
		v[i] = now() - t - clock;
		if (new_fds)
			close(l->fd);
	}
	l->fd = old;
	return median(v, ROUNDS);
}

static void loop_table(struct dlbuf_device *dev, uint64_t clock)
{
	static const struct way {
		const char *who, *what;
		void (*fn)(void *arg);
		bool new_fds;
	} ways[] = {
		{ "hand", "the mapping is kept: fstat(), a look into a table, START, END",
		  find_and_access, false },
		{ "hand", "the producer promises that buffer i is always the same: START, END",
		  bracket_by_hand, false },
		{ "hand", "nothing is kept: mmap(), START, END, munmap()", map_and_access, false },
		{ "dlbuf", "import, acquire, release, deletion", import_and_access, false },
		{ "dlbuf", "the same, a new fd number each time, or before Linux 6.10",
		  import_and_access, true },
		{ "dlbuf", "the tensor is kept: acquire, release", access_kept, false },
	};
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	struct loop l = { .dev = dev, .bytes = 1 << 20 };
	struct stat st;
	uint64_t hand = 0;

	if (dlbuf_alloc_fd(l.bytes, &opts, &l.fd) || fstat(l.fd, &st))
		errx(1, "no buffer: %s", dlbuf_last_error());
	l.kept[3] = (struct kept){ st.st_dev, st.st_ino, NULL };
	l.tensor = import(dev, l.fd);
	printf("\n%-70s %8s %8s\n", "one access of a loop to a buffer that was seen before", "",
	       "ratio");
	for (const struct way *w = ways; w < ways + sizeof(ways) / sizeof(ways[0]); w++) {
		uint64_t ns = cost_of(w->fn, &l, w->new_fds, clock);

		if (w->fn == map_and_access)
			ns = rounded(ns);
		hand = hand ? hand : ns;
		record(w->who, ns, "cpu: one access of a loop, 1 MiB of udmabuf", "%s", w->what);
		printf("%-70s %8llu %8.2f\n", w->what, (unsigned long long)ns,
		       (double)ns / hand);
	}
	l.tensor->deleter(l.tensor);
	close(l.fd);
	dlbuf_device_trim(dev, 0);
}

int main(int argc, char **argv)
{
	static char first[] = "cpu";
	static char *cpu[] = { first, NULL };
	/* For each buffer the cache has an fd of its own, and the udmabuf a memfd. */
	struct rlimit fds = { 4 * MAX_POOL, 4 * MAX_POOL };
	uint64_t clock;

	fix_addresses(argv);
	if (setrlimit(RLIMIT_NOFILE, &fds))
		err(1, "setrlimit");
	clock = clock_cost();
	printf("medians in nanoseconds, under -icount that is instructions; first "
	       "and by hand to two digits\n");
	for (char **name = argc > 1 ? argv + 1 : cpu; *name; name++) {
		/* A pool's buffers all stay in the cache, on any machine. */
		DLBUF_OPTS(dlbuf_device_opts, opts,
			   .cache_max_idle = MAX_POOL,
			   .cache_max_bytes = 2 * MAX_BYTES);
		struct dlbuf_device *dev;

		if (dlbuf_device_open(*name, &opts, &dev))
			errx(1, "%s", dlbuf_last_error());
		table(dev, *name, "udmabuf", clock);
		table(dev, *name, "heap:system", clock);
		if (!strcmp(*name, "cpu")) {
			count(dev, "udmabuf");
			loop_table(dev, clock);
		}
		dlbuf_device_close(dev);
	}
	return 0;
}
