// SPDX-License-Identifier: MIT
/*
 * A consumer holds one frame for three seconds of the camera's time, at 30
 * frames a second with four buffers: the other three go round, the held frame
 * never shows later pixels, and given back it is used again at once.
 *
 *	held [--width N] [--height N] [CASE...]
 */

#include "vivid.h"

#define NBUFFERS 4u
#define FPS 30u
#define HELD_NS 3000000000ull
#define HELD_FRAMES 90u
#define MOST_FRAMES 1000u
#define BACK_WITHIN 8u

const char *cts_device = "cpu";
const struct access *cts_access;

static uint32_t width = 640, height = 360;

struct held_device {
	const char *name;
	const struct access *access;
};

static const struct held_device devices[] = {
	{ "cpu", &access_cpu },
	{ "vulkan:0", &access_vulkan },
};

struct lease {
	struct vivid *cam;
	uint32_t index;
	unsigned int fired;	/* atomic */
	int ret;
};

/* The only place where a buffer is queued again. */
static void on_release(void *data)
{
	struct lease *l = data;

	l->ret = vivid_queue(l->cam, l->index);
	__atomic_add_fetch(&l->fired, 1, __ATOMIC_RELEASE);
}

struct shown {
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct lease lease;
	uint64_t ns;		/* the camera's time */
	uint32_t sequence;
};

static uint64_t hash(const void *data, size_t bytes)
{
	const uint64_t *p = data;
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < bytes / sizeof(*p); i++)
		h = (h ^ p[i]) * 0x100000001b3 + (h >> 29);
	return h;
}

/* As the kernel maps it, without dlbuf. */
static uint64_t pixels(struct vivid *cam, uint32_t index)
{
	uint64_t h;

	vivid_sync(cam, index, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	h = hash(cam->map[index], cam->bytes);
	vivid_sync(cam, index, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	return h;
}

/* As the device reads it through the tensors. */
static uint64_t device_pixels(const struct held_device *d, struct shown *f,
			      struct vivid *cam)
{
	static uint8_t bytes[8 << 20];
	uint64_t first = 0;

	REQUIRE(cam->bytes <= sizeof(bytes));
	for (int i = 0; i < 2; i++) {
		DLBUF_INFO(dlbuf_tensor_info, info);

		CHECK_OK(dlbuf_tensor_get_info(f->t[i], &info));
		CHECK_EQ(info.first, first);
		CHECK_OK(dlbuf_acquire(f->t[i], DLBUF_READ, NULL, NULL));
		CHECK_EQ(d->access->read(f->t[i], info.first,
					 bytes + info.first,
					 info.end - info.first), 0);
		CHECK_OK(dlbuf_release(f->t[i], NULL, NULL));
		first = info.end;
	}
	CHECK_EQ(first, cam->bytes);
	return hash(bytes, cam->bytes);
}

static void next_frame(struct vivid *cam, struct dlbuf_device *dev,
		       struct shown *f)
{
	struct dlbuf_frame frame;
	struct v4l2_buffer buf;
	uint32_t n = 0;

	REQUIRE(vivid_dequeue(cam, &buf));
	f->lease = (struct lease){ .cam = cam, .index = buf.index };
	f->ns = buf.timestamp.tv_sec * 1000000000ull +
		buf.timestamp.tv_usec * 1000ull;
	f->sequence = buf.sequence;
	frame = vivid_frame(cam, buf.index);
	frame.release = on_release;
	frame.release_data = &f->lease;
	REQUIRE_OK(dlbuf_import_frame(dev, &frame, NULL, f->t, &n));
	REQUIRE(n == 2);
}

static unsigned int fired(const struct shown *f)
{
	return __atomic_load_n(&f->lease.fired, __ATOMIC_ACQUIRE);
}

static void give_back(struct shown *f)
{
	cts_delete(f->t[0]);
	CHECK_EQ(fired(f), 0);
	cts_delete(f->t[1]);
	/* A device's last fence may be pending; then it is the event thread's. */
	UNTIL(fired(f));
	CHECK_EQ(fired(f), 1);
	CHECK_EQ(f->lease.ret, 0);
}

static void held(void *arg)
{
	const struct held_device *d = arg;
	struct shown mine = { .ns = 0 }, other = { .ns = 0 };
	uint64_t want, want_device, last, h;
	struct dlbuf_device *dev = NULL;
	uint32_t frames = 0, back = 0, repeated = 0;
	unsigned int fds = cts_count_fds();
	struct vivid cam;

	KTAP_KEEPS(KTAP_HEAP, "glibc keeps the threads' stacks");
	REQUIRE_OK(dlbuf_device_open(d->name, NULL, &dev));
	vivid_open(&cam, width, height, FPS, NBUFFERS);
	CHECK_EQ(cam.fps, FPS);
	next_frame(&cam, dev, &mine);
	want = last = pixels(&cam, mine.lease.index);
	want_device = device_pixels(d, &mine, &cam);
	do {
		next_frame(&cam, dev, &other);
		CHECK(other.lease.index != mine.lease.index);
		h = pixels(&cam, other.lease.index);
		/* vivid draws a picture again when it is late. */
		repeated += h == last || h == want;
		last = h;
		give_back(&other);
		frames++;
	} while ((frames < HELD_FRAMES || other.ns - mine.ns < HELD_NS) &&
		 frames < MOST_FRAMES);
	CHECK(frames >= HELD_FRAMES && other.ns - mine.ns >= HELD_NS);
	CHECK(repeated < frames);
	CHECK_EQ(pixels(&cam, mine.lease.index), want);
	CHECK_EQ(device_pixels(d, &mine, &cam), want_device);
	ktap_note(NULL, 0, "%ux%u on %s: %u frames in %.2f s of the camera's "
		  "time, %.1f per second, %d dropped, %u repeated", width, height, d->name,
		  frames, (other.ns - mine.ns) / 1e9,
		  frames * 1e9 / (other.ns - mine.ns),
		  (int)(other.sequence - mine.sequence - frames), repeated);

	CHECK_EQ(fired(&mine), 0);
	give_back(&mine);
	do {
		next_frame(&cam, dev, &other);
		CHECK(pixels(&cam, other.lease.index) != want);
		give_back(&other);
		back++;
	} while (other.lease.index != mine.lease.index && back < BACK_WITHIN);
	CHECK_EQ(other.lease.index, mine.lease.index);
	ktap_note(NULL, 0, "seen again after %u", back);
	CHECK_EQ(cam.queued, NBUFFERS + frames + 1 + back);
	dlbuf_device_close(dev);
	vivid_close(&cam);
	cts_until_fds(fds);
}

int main(int argc, char **argv)
{
	while (argc > 2 && (!strcmp(argv[1], "--width") ||
			    !strcmp(argv[1], "--height"))) {
		*(argv[1][2] == 'w' ? &width : &height) =
			strtoul(argv[2], NULL, 0);
		argv[2] = argv[0];
		argv += 2;
		argc -= 2;
	}
	ktap_prefix("%s", "held");
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		ktap_case(cts_name("held@%.*s",
				   (int)strcspn(devices[i].name, ":"),
				   devices[i].name),
			  held, (void *)&devices[i]);
	return ktap_run(argc, argv);
}
