// SPDX-License-Identifier: MIT
/*
 * The two planes of an NV12 frame, acquired together under a deadline by a program
 * that has other things to poll.
 *
 *	cc planes.c $(pkg-config --cflags --libs dlbuf) && ./a.out [DEVICE]
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#define W 640
#define H 480

static uint64_t in_ms(unsigned int ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec + ms * 1000000ull;
}

/* If the tensors cannot be acquired in time, the program polls for them, beside its other fds. */
static void acquire(DLManagedTensorVersioned **t, uint32_t n)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = in_ms(2));
	int ret;

	while ((ret = dlbuf_acquire_all(t, n, DLBUF_READ, NULL, &opts)) == -ETIME) {
		for (uint32_t i = 0; i < n; i++) {
			struct pollfd p = { .events = POLLIN };

			if (dlbuf_pending(t[i], DLBUF_READ, &p.fd))
				errx(1, "%s", dlbuf_last_error());
			if (p.fd == -1)
				continue;
			if (poll(&p, 1, -1) < 0 && errno != EINTR)
				err(1, "poll");
			close(p.fd);
		}
		opts.deadline_ns = in_ms(2);
	}
	if (ret)
		errx(1, "%s", dlbuf_last_error());
}

/* The last use of the frame is over: a camera would get its buffer back. */
static void done(void *data)
{
	printf("frame %d is done\n", *(int *)data);
}

int main(int argc, char **argv)
{
	DLBUF_OPTS(dlbuf_alloc_opts, memory, .exporter = "udmabuf");
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = W, .height = H, .nplanes = 2,
		.code = DLBUF_FOURCC('N', 'V', '1', '2'),
		.code_space = DLBUF_CODE_DRM, .modifier = DLBUF_MOD_LINEAR,
		.release = done,
	};
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_device *dev;
	uint32_t n;
	int fd, fence;

	if (dlbuf_device_open(argc > 1 ? argv[1] : "cpu", NULL, &dev) ||
	    dlbuf_alloc_fd(W * H * 3 / 2, &memory, &fd))
		errx(1, "%s", dlbuf_last_error());
	for (int i = 0; i < 3; i++) {
		frame.planes[0] = (struct dlbuf_plane){ .fd = fd, .pitch = W };
		frame.planes[1] = (struct dlbuf_plane){
			.fd = fd, .pitch = W, .offset = W * H };
		frame.release_data = &i;
		if (dlbuf_import_frame(dev, &frame, NULL, t, &n))
			errx(1, "%s", dlbuf_last_error());
		acquire(t, n);
		printf("frame %d: %lld and %lld rows\n", i,
		       (long long)t[0]->dl_tensor.shape[0],
		       (long long)t[1]->dl_tensor.shape[0]);
		/* One fence for both planes; -1: the work is complete. */
		if (dlbuf_release_all(t, n, NULL, &fence))
			errx(1, "%s", dlbuf_last_error());
		if (fence != -1)
			close(fence);
		while (n--)
			t[n]->deleter(t[n]);
		/* Before `i` changes, all work of the device has ended. */
		if (dlbuf_device_drain(dev, 0))
			errx(1, "%s", dlbuf_last_error());
	}
	close(fd);
	dlbuf_device_close(dev);
	return 0;
}
