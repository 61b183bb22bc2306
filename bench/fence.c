// SPDX-License-Identifier: MIT
/*
 * The costs of synchronisation: acquire and release on an idle buffer compared
 * with the same ioctls by hand, and completion events.
 *
 *	bench/fence [DEVICE...]		default: cpu
 */
#include <dirent.h>
#include <err.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include <linux/dma-buf.h>

#include <dlbuf/dlbuf.h>

#include "bench.h"

#define ROUNDS 501
#define EVENTS 1000

static uint64_t times[EVENTS], through[EVENTS];

static void sync_by_hand(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	if (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync))
		err(1, "DMA_BUF_IOCTL_SYNC");
}

static void bracket_by_hand(void *arg)
{
	int fd = *(int *)arg;

	sync_by_hand(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	sync_by_hand(fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
}

/* With a deadline it has to be looked at before, as START has none. */
static void deadline_by_hand(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };

	if (poll(&p, 1, 1000) != 1)
		err(1, "poll");
	bracket_by_hand(arg);
}

static void acquire_release(void *arg)
{
	DLManagedTensorVersioned *t = arg;

	if (dlbuf_acquire(t, DLBUF_READ, NULL, NULL) ||
	    dlbuf_release(t, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
}

static void acquire_deadline(void *arg)
{
	DLManagedTensorVersioned *t = arg;
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = now() + 1000000000);

	if (dlbuf_acquire(t, DLBUF_READ, NULL, &opts) ||
	    dlbuf_release(t, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
}

static uint64_t cost(void (*fn)(void *), void *arg, uint64_t clock)
{
	/* The first acquires of a buffer look at its fences. */
	for (int i = 0; i < 100; i++)
		fn(arg);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t = now();

		fn(arg);
		times[i] = now() - t - clock;
	}
	/* The timer's interrupts add a cost that belongs to neither. */
	return minimum(times, ROUNDS);
}

static void row(const char *what, uint64_t ours, unsigned int calls,
		const char *hand, uint64_t by_hand)
{
	printf("  %-34s %8llu %6u", what, (unsigned long long)ours, calls);
	if (by_hand) {
		char title[96];

		printf(" %10llu %6.2fx", (unsigned long long)by_hand,
		       (double)ours / by_hand);
		snprintf(title, sizeof(title), "cpu: idle buffer, %s", what);
		record("hand", by_hand, title, "%s", hand);
		record("dlbuf", ours, title, "dlbuf_acquire() and "
		       "dlbuf_release()");
	}
	putchar('\n');
}

static void idle_buffer(const char *name, uint64_t clock)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	int64_t shape = 1 << 20;
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 },
			    .shape = &shape };
	bool cpu = !strcmp(name, "cpu");
	DLManagedTensorVersioned *t;
	struct dlbuf_device *dev;
	int fd;

	if (dlbuf_device_open(name, NULL, &dev) ||
	    dlbuf_alloc_fd(1 << 20, &opts, &fd) ||
	    dlbuf_import(dev, fd, &layout, NULL, &t))
		errx(1, "%s", dlbuf_last_error());
	printf("\n%s, 1 MiB udmabuf, idle\n  %-34s %8s %6s %10s %7s\n", name, "",
	       "dlbuf", "calls", "by hand", "ratio");
	row("acquire(READ), release", cost(acquire_release, t, clock),
	    cpu ? count_syscalls(acquire_release, t) : 0, "DMA_BUF_IOCTL_SYNC",
	    cpu ? cost(bracket_by_hand, &fd, clock) : 0);
	row("the same with a deadline", cost(acquire_deadline, t, clock),
	    cpu ? count_syscalls(acquire_deadline, t) : 0,
	    "poll() and DMA_BUF_IOCTL_SYNC, which has no deadline",
	    cpu ? cost(deadline_by_hand, &fd, clock) : 0);
	t->deleter(t);
	close(fd);
	dlbuf_device_close(dev);
}

/* ---- completion events */

static unsigned int fired;

static void fire(void *data)
{
	(void)data;
	__atomic_add_fetch(&fired, 1, __ATOMIC_RELEASE);
}

/* The number of times that the library's thread has slept and woken up; -1: no thread. */
static long wakeups(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	long n = -1;

	while (dir && (e = readdir(dir))) {
		char path[300], line[256];
		bool ours = false;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status",
			 e->d_name);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f)) {
			ours |= !strcmp(line, "Name:\tdlbuf-events\n");
			if (ours)
				sscanf(line, "voluntary_ctxt_switches: %ld", &n);
		}
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return n;
}

static void wait_for(unsigned int n)
{
	while (__atomic_load_n(&fired, __ATOMIC_ACQUIRE) < n)
		sched_yield();
}

static void events(uint64_t clock)
{
	DLBUF_OPTS(dlbuf_alloc_opts, opts, .exporter = "udmabuf");
	int64_t shape = 4096;
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 8, 1 },
			    .shape = &shape };
	struct dlbuf_device *dev;
	long before, after;
	int fd, keep;

	if (dlbuf_device_open("cpu", NULL, &dev) ||
	    dlbuf_alloc_fd(4096, &opts, &fd))
		errx(1, "%s", dlbuf_last_error());
	/* One that never fires keeps the thread. */
	keep = eventfd(0, EFD_CLOEXEC);
	if (dlbuf_fence_notify(keep, fire, NULL))
		errx(1, "%s", dlbuf_last_error());
	for (unsigned int i = 0; i < EVENTS; i++) {
		int e = eventfd(0, EFD_CLOEXEC);
		uint64_t t = now();

		if (dlbuf_fence_notify(e, fire, NULL))
			errx(1, "%s", dlbuf_last_error());
		times[i] = now() - t - clock;
		t = now();
		if (eventfd_write(e, 1))
			err(1, "eventfd_write");
		wait_for(i + 1);
		through[i] = now() - t - clock;
		close(e);
	}
	printf("\ncompletion events, %d one after another\n"
	       "  registering one %21llu\n"
	       "  from its signal to its callback %5llu\n", EVENTS,
	       (unsigned long long)rounded(median(times, EVENTS)),
	       (unsigned long long)rounded(median(through, EVENTS)));

	before = wakeups();
	for (int i = 0; i < 1000; i++) {
		DLManagedTensorVersioned *t;

		if (dlbuf_import(dev, fd, &layout, NULL, &t))
			errx(1, "%s", dlbuf_last_error());
		acquire_release(t);
		t->deleter(t);
	}
	after = wakeups();
	printf("  wake-ups of the thread during 1000 frames without events: "
	       "%ld\n", after - before);
	eventfd_write(keep, 1);
	wait_for(EVENTS + 1);
	close(keep);
	close(fd);
	dlbuf_device_close(dev);
}

int main(int argc, char **argv)
{
	static char first[] = "cpu";
	static char *cpu[] = { first, NULL };
	uint64_t clock;

	fix_addresses(argv);
	clock = clock_cost();
	printf("nanoseconds, under -icount that is instructions: the least of %d, "
	       "of events the median\n", ROUNDS);
	for (char **name = argc > 1 ? argv + 1 : cpu; *name; name++)
		idle_buffer(*name, clock);
	events(clock);
	return 0;
}
