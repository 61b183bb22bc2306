// SPDX-License-Identifier: MIT
/*
 * A main loop that never blocks: one epoll has the camera, the callbacks of the library, and for
 * each frame in flight an fd for the fence that it waits for. Prints how many frames the camera
 * has dropped, and how late the others were.
 *
 *	cc epoll.c $(pkg-config --cflags --libs dlbuf) && ./a.out /dev/video0 [DEVICE [FRAMES]]
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#define AT_ONCE 1 /* a deadline in the past: the call does not wait */

/* A frame in flight. Free: n is 0. */
struct job {
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;
	int fd;		/* of the fence that the job waits for */
	int submitted;	/* the fence is that of the device's work */
	int64_t captured_ns;
};

static struct job jobs[32]; /* no camera has more buffers */
static struct dlbuf_device *dev;
static struct dlbuf_camera *cam;
static int epoll, dispatch;
static uint64_t next, frames, dropped, late, waits;
static int64_t period_ns, worst_ns = INT64_MIN;

static void watch(int fd, void *what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		err(1, "epoll_ctl");
}

static void drop(struct job *job)
{
	while (job->n)
		job->n--, job->t[job->n]->deleter(job->t[job->n]);
}

static void done(struct job *job)
{
	struct timespec now;
	int64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - job->captured_ns;
	if (ns > worst_ns)
		worst_ns = ns;
	late += ns > period_ns;
	frames++;
	drop(job);
}

/* Acquires, works and releases, as far as that is possible without a wait. */
static void step(struct job *job)
{
	DLBUF_OPTS(dlbuf_acquire_opts, opts, .deadline_ns = AT_ONCE);
	int ret;

	job->fd = -1;
	while (!job->submitted) {
		ret = dlbuf_acquire_all(job->t, job->n, DLBUF_READ, NULL, &opts);
		if (ret == -ETIME) {
			for (uint32_t i = 0; i < job->n && job->fd == -1; i++)
				if (dlbuf_pending(job->t[i], DLBUF_READ, &job->fd))
					errx(1, "%s", dlbuf_last_error());
			if (job->fd != -1)
				return watch(job->fd, job);
			continue;
		}
		/* Submit the device's work here, to the stream of the acquire. */
		if (ret || dlbuf_release_all(job->t, job->n, NULL, &job->fd))
			errx(1, "%s", dlbuf_last_error());
		job->submitted = 1;
		if (job->fd != -1)
			return watch(job->fd, job);
	}
	done(job);
}

/* All frames that the camera has now. */
static void capture(void)
{
	DLBUF_INFO(dlbuf_frame, frame);
	int ret;

	while (!(ret = dlbuf_camera_frame(cam, AT_ONCE, &frame))) {
		struct job *job = jobs;

		while (job->n)
			job++;
		if (next && frame.sequence > next)
			dropped += frame.sequence - next;
		next = frame.sequence + 1;
		*job = (struct job){ .captured_ns = frame.timestamp_ns };
		if (frame.clock != DLBUF_CLOCK_MONOTONIC)
			errx(1, "the camera's times are not of CLOCK_MONOTONIC");
		if (dlbuf_import_frame(dev, &frame, NULL, job->t, &job->n))
			errx(1, "%s", dlbuf_last_error());
		step(job);
	}
	if (ret != -ETIME)
		errx(1, "%s", dlbuf_last_error());
}

int main(int argc, char **argv)
{
	uint64_t wanted = strtoull(argc > 3 ? argv[3] : "50", NULL, 10);
	DLBUF_INFO(dlbuf_camera_info, info);
	struct epoll_event event;

	if (!wanted)
		errx(2, "usage: epoll [NODE [DEVICE [FRAMES]]]");
	/* The library starts no thread for callbacks: dlbuf_dispatch() runs them. */
	if (dlbuf_dispatch_fd(&dispatch) ||
	    dlbuf_device_open(argc > 2 ? argv[2] : "cpu", NULL, &dev) ||
	    dlbuf_camera_open(argc > 1 ? argv[1] : "/dev/video0", NULL, &cam) ||
	    dlbuf_camera_get_info(cam, &info))
		errx(1, "%s", dlbuf_last_error());
	period_ns = info.rate ? (int64_t)(1e9 / info.rate) : INT64_MAX;
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		err(1, "epoll_create1");
	watch(info.fd, cam);
	watch(dispatch, &dispatch);
	while (frames < wanted) {
		if (epoll_wait(epoll, &event, 1, -1) != 1) {
			if (errno != EINTR)
				err(1, "epoll_wait");
		} else if (event.data.ptr == cam) {
			capture();
		} else if (event.data.ptr == &dispatch) {
			if (dlbuf_dispatch() < 0)
				errx(1, "%s", dlbuf_last_error());
		} else {
			struct job *job = event.data.ptr;

			waits++;
			close(job->fd); /* removes it from the epoll, too */
			step(job);
		}
	}
	/* Late: done after the time of the next frame. */
	printf("%" PRIu64 " frames, %" PRIu64 " fences, %" PRIu64 " dropped, %" PRIu64 " late; the "
	       "latest was done %.1f ms after its time\n", frames, waits, dropped, late,
	       (double)worst_ns / 1e6);
	for (int i = 0; i < 32; i++)
		drop(&jobs[i]);
	dlbuf_camera_close(cam);
	if (dlbuf_device_drain(dev, 0))
		errx(1, "%s", dlbuf_last_error());
	dlbuf_device_close(dev);
	close(dispatch);
	close(epoll);
	return 0;
}
