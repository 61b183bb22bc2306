// SPDX-License-Identifier: MIT
/*
 * A producer and several devices agree on a frame before there is memory: on a
 * modifier, then on the pitch. One lease then reports when all devices are done.
 *
 *	cc negotiate.c $(pkg-config --cflags --libs dlbuf) && ./a.out
 */
#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include <dlbuf/dlbuf.h>

#define MAX_MODIFIERS 64

/* The modifiers that the producer can write; a real one reports its own list. */
static const uint64_t offered[] = { 0x0100000000000001, DLBUF_MOD_LINEAR };

static bool contains(const uint64_t *list, size_t n, uint64_t modifier)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == modifier)
			return true;
	return false;
}

/* The modifiers that a device accepts for a fourcc. */
struct modifiers {
	uint32_t fourcc;
	uint64_t list[MAX_MODIFIERS];
	size_t n;
};

static int add_modifier(const struct dlbuf_device_format *f, void *data)
{
	struct modifiers *m = data;

	if (f->code_space == DLBUF_CODE_DRM && f->code == m->fourcc &&
	    m->n < MAX_MODIFIERS)
		m->list[m->n++] = f->modifier;
	return 0;
}

static void modifiers_of(struct dlbuf_device *dev, struct modifiers *m)
{
	m->n = 0;
	if (dlbuf_device_formats(dev, add_modifier, m))
		errx(1, "%s", dlbuf_last_error());
}

/*
 * The first modifier of the first device that the producer writes and all other
 * devices accept. LINEAR is first in each list: its frames are not copied.
 */
static uint64_t choose(struct dlbuf_device *const devs[], size_t ndevs,
		       uint32_t fourcc)
{
	struct modifiers mine = { .fourcc = fourcc }, other = mine;

	modifiers_of(devs[0], &mine);
	for (size_t i = 0; i < mine.n; i++) {
		bool all = contains(offered, sizeof(offered) /
				    sizeof(offered[0]), mine.list[i]);

		for (size_t d = 1; all && d < ndevs; d++) {
			modifiers_of(devs[d], &other);
			all = contains(other.list, other.n, mine.list[i]);
		}
		if (all)
			return mine.list[i];
	}
	errx(1, "the producer writes no modifier that all devices accept");
}

/* For a camera this would be VIDIOC_QBUF. May run on a thread of the library. */
static void queue_again(void *data)
{
	printf("buffer %d is free\n", *(int *)data);
}

static void import(struct dlbuf_device *dev, const struct dlbuf_frame *frame)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	if (dlbuf_import_frame(dev, frame, NULL, t, &n))
		errx(1, "%s", dlbuf_last_error());
	printf("%" PRIu32 " tensors\n", n);
	while (n)
		n--, t[n]->deleter(t[n]);
}

int main(void)
{
	static const char *const names[] = { "cpu", "vulkan", "cuda" };
	struct dlbuf_pool_opts opts = {
		.size = sizeof(opts), .width = 100, .height = 50, .buffers = 2,
		.code = DLBUF_FOURCC('N', 'V', '1', '2'),
		.code_space = DLBUF_CODE_DRM,
	};
	struct dlbuf_pool_info info = { .size = sizeof(info) };
	struct dlbuf_frame frame = { .size = sizeof(frame) };
	struct dlbuf_device *devs[3];
	struct dlbuf_pool *pool;
	size_t ndevs = 0;
	int index = 1;

	for (size_t i = 0; i < 3; i++)
		if (!dlbuf_device_open(names[i], NULL, &devs[ndevs]))
			ndevs++;
	if (!ndevs)
		errx(1, "%s", dlbuf_last_error());
	if (choose(devs, ndevs, opts.code) != DLBUF_MOD_LINEAR)
		errx(1, "the producer allocates tiled buffers by itself");

	/* Asks the producer for this pitch; it may require another one. */
	if (dlbuf_pool_layout(devs, ndevs, &opts, &info))
		errx(1, "%s", dlbuf_last_error());
	printf("%zu devices, LINEAR, pitch %" PRIu64 "\n", ndevs,
	       info.pitch[0]);
	opts.pitch = info.pitch[0];
	if (dlbuf_pool_create(devs, ndevs, &opts, &pool) ||
	    dlbuf_pool_frame(pool, index, &frame) ||
	    dlbuf_lease_create(queue_again, &index, &frame.lease))
		errx(1, "%s", dlbuf_last_error());
	for (size_t i = 0; i < ndevs; i++)
		import(devs[i], &frame);
	dlbuf_lease_drop(frame.lease);
	dlbuf_pool_destroy(pool);
	while (ndevs)
		dlbuf_device_close(devs[--ndevs]);
	return 0;
}
