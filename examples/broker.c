// SPDX-License-Identifier: MIT
/*
 * One program has the camera, any number of others look at its frames. The broker
 * owns the buffers and sends each consumer the newest frame, with a lease: a slow
 * consumer misses frames, and delays nobody. Consumers may start and end at any
 * time; the kernel ends the leases of one that dies, so the camera loses no buffer.
 *
 *	cc broker.c $(pkg-config --cflags --libs dlbuf)
 *	./a.out /run/camera.sock /dev/video0	the broker of a camera
 *	./a.out /run/camera.sock		the broker of generated pictures
 *	./a.out -c /run/camera.sock		a consumer
 *
 * A consumer that never deletes its frame keeps one buffer. Nobody can take the
 * buffer back as long as that process lives, so the broker keeps some for the camera.
 * The permissions of the socket decide who may consume; a consumer can also write to
 * the buffers, because a camera's fds can be written.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#define WIDTH 320
#define HEIGHT 180
#define BUFFERS 8
#define MOST_BUFFERS 32		/* a driver may change the number */
#define FOR_CAMERA 2		/* buffers that no consumer gets */
#define CONSUMERS 64

/* ---------------------------------------------------------------- frames */

static struct {
	struct dlbuf_camera *cam;	/* NULL: the pictures are generated */
	struct dlbuf_pool *pool;
	struct dlbuf_device *cpu;
	bool in_use[BUFFERS];		/* of the pool */
	uint64_t count;
	uint32_t buffers;
	int fd;				/* readable when there is a frame */
} source;

static void open_camera(const char *node)
{
	DLBUF_OPTS(dlbuf_camera_opts, opts, .buffers = BUFFERS);
	DLBUF_INFO(dlbuf_camera_info, info);

	if (dlbuf_camera_open(node, &opts, &source.cam) ||
	    dlbuf_camera_get_info(source.cam, &info))
		errx(1, "%s", dlbuf_last_error());
	if (info.buffers <= FOR_CAMERA || info.buffers > MOST_BUFFERS)
		errx(1, "%s has %u buffers", node, info.buffers);
	source.buffers = info.buffers;
	source.fd = info.fd;
}

static void open_pool(void)
{
	DLBUF_OPTS(dlbuf_pool_opts, opts, .width = WIDTH, .height = HEIGHT,
		   .code = DLBUF_FOURCC('G', 'R', 'E', 'Y'),
		   .code_space = DLBUF_CODE_V4L2, .buffers = BUFFERS);
	struct itimerspec rate = { { 0, 33333333 }, { 0, 33333333 } };

	if (dlbuf_device_open("cpu", NULL, &source.cpu) ||
	    dlbuf_pool_create(&source.cpu, 1, &opts, &source.pool))
		errx(1, "%s", dlbuf_last_error());
	source.buffers = BUFFERS;
	source.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (source.fd < 0 || timerfd_settime(source.fd, 0, &rate, NULL))
		err(1, "timerfd");
}

static void pool_back(void *in_use)
{
	*(bool *)in_use = false;
}

/* Draws a grey picture into the next buffer, unless a consumer still has that buffer. */
static bool generate(struct dlbuf_frame *frame)
{
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint64_t ticks, count = source.count;
	uint32_t n, i = count % BUFFERS;

	if (read(source.fd, &ticks, sizeof(ticks)) < 0)
		return false;
	source.count++;
	if (source.in_use[i])
		return false;
	if (dlbuf_pool_frame(source.pool, i, frame) ||
	    dlbuf_import_frame(source.cpu, frame, NULL, t, &n) ||
	    dlbuf_acquire(t[0], DLBUF_WRITE, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	for (int64_t y = 0; y < HEIGHT; y++)
		memset((uint8_t *)t[0]->dl_tensor.data +
		       y * t[0]->dl_tensor.strides[0], (uint8_t)count, WIDTH);
	t[0]->deleter(t[0]); /* releases it, too */
	frame->sequence = count;
	frame->flags = DLBUF_FRAME_SEQUENCE;
	frame->order = DLBUF_ORDER_COMPLETE;
	frame->release = pool_back;
	frame->release_data = &source.in_use[i];
	source.in_use[i] = true;
	return true;
}

static bool next_frame(struct dlbuf_frame *frame)
{
	int ret;

	if (!source.cam)
		return generate(frame);
	ret = dlbuf_camera_frame(source.cam, 1, frame);
	if (ret && ret != -ETIME)
		errx(1, "%s", dlbuf_last_error());
	return !ret;
}

/* ---------------------------------------------------------------- the broker */

/* A buffer from the source. */
struct picture {
	struct dlbuf_frame frame;
	uint64_t number;
	unsigned int users;	/* number of consumers, and the broker for the newest */
};

struct consumer {
	int sock;		/* -1: closed */
	unsigned int number;	/* 0: this place is free */
	uint64_t seen;		/* number of the last picture that was sent */
	struct picture *has;	/* until its lease fires */
};

static struct picture pictures[MOST_BUFFERS], *newest;
static struct consumer consumers[CONSUMERS];

static void drop(struct picture *p)
{
	if (p && !--p->users)
		p->frame.release(p->frame.release_data);
}

/* The lease of one consumer. dlbuf_dispatch() calls it: this program has one thread. */
static void give_back(void *consumer)
{
	struct consumer *c = consumer;

	drop(c->has);
	c->has = NULL;
}

static void take_frame(void)
{
	static uint64_t number;
	struct picture *p = pictures;
	struct dlbuf_frame frame = { .size = sizeof(frame) };

	if (!next_frame(&frame))
		return;
	while (p->users) /* there are as many as the source has buffers */
		p++;
	*p = (struct picture){ frame, ++number, 1 };
	drop(newest);
	newest = p;
}

static unsigned int lent(void)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < source.buffers; i++)
		n += pictures[i].users > (&pictures[i] == newest);
	return n;
}

static void say(const struct consumer *c, const char *what)
{
	unsigned int n = 0;

	for (int i = 0; i < CONSUMERS; i++)
		n += consumers[i].sock >= 0;
	printf("consumer %u %s: %u consumers, %u of %u buffers lent\n",
	       c->number, what, n, lent(), source.buffers);
	fflush(stdout);
}

static void hang_up(struct consumer *c)
{
	close(c->sock);
	c->sock = -1;
}

/* Sends the newest picture to a consumer that has none. */
static void serve(struct consumer *c)
{
	DLBUF_OPTS(dlbuf_socket_opts, opts, .flags = DLBUF_SOCKET_DONTWAIT);
	struct dlbuf_frame frame;
	int ret;

	if (c->has || !newest || newest->number == c->seen)
		return;
	/* The newest costs one more buffer if nobody has it. */
	if (newest->users == 1 && lent() + 1 + FOR_CAMERA >= source.buffers)
		return;
	frame = newest->frame;
	frame.release = give_back;
	frame.release_data = c;
	/* At most one message is in transit, so the socket is never full. */
	ret = dlbuf_send_frame(c->sock, &frame, &opts);
	if (ret) {
		if (ret != -EPIPE)
			warnx("consumer %u: %s", c->number, dlbuf_last_error());
		hang_up(c);
		return;
	}
	newest->users++;
	c->has = newest;
	c->seen = newest->number;
}

static void welcome(int listener)
{
	static unsigned int number;
	int sock = accept(listener, NULL, NULL);

	if (sock < 0)
		return;
	for (int i = 0; i < CONSUMERS; i++) {
		struct consumer *c = &consumers[i];

		if (c->number)
			continue;
		*c = (struct consumer){ .sock = sock, .number = ++number };
		say(c, "is here");
		return;
	}
	warnx("there are %d consumers already", CONSUMERS);
	close(sock);
}

static int listen_at(const struct sockaddr_un *at)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	/* The socket of a broker that was killed is still there. */
	if (connect(other, (const void *)at, sizeof(*at)) &&
	    errno == ECONNREFUSED)
		unlink(at->sun_path);
	close(other);
	if (bind(sock, (const void *)at, sizeof(*at)) ||
	    listen(sock, CONSUMERS))
		err(1, "%s", at->sun_path);
	return sock;
}

static void turn(int listener, int leases)
{
	struct pollfd p[3 + CONSUMERS] = {
		{ listener, POLLIN, 0 }, { leases, POLLIN, 0 },
		{ source.fd, POLLIN, 0 },
	};

	for (int i = 0; i < CONSUMERS; i++)
		p[3 + i].fd = consumers[i].sock; /* only its end is polled */
	if (poll(p, 3 + CONSUMERS, -1) < 0)
		err(1, "poll");
	for (int i = 0; i < CONSUMERS; i++)
		if (p[3 + i].revents)
			hang_up(&consumers[i]);
	if (p[1].revents && dlbuf_dispatch() < 0)
		errx(1, "%s", dlbuf_last_error());
	if (p[2].revents)
		take_frame();
	if (p[0].revents)
		welcome(listener);
	for (int i = 0; i < CONSUMERS; i++) {
		struct consumer *c = &consumers[i];

		if (c->sock >= 0) {
			serve(c);
		} else if (c->number && !c->has) {
			say(c, "is gone");
			c->number = 0;
		}
	}
}

static int broker(const struct sockaddr_un *at, const char *node)
{
	int leases, listener;

	for (int i = 0; i < CONSUMERS; i++)
		consumers[i].sock = -1;
	if (dlbuf_dispatch_fd(&leases))
		errx(1, "%s", dlbuf_last_error());
	if (node)
		open_camera(node);
	else
		open_pool();
	listener = listen_at(at);
	printf("%s has %u buffers\n", at->sun_path, source.buffers);
	fflush(stdout);
	for (;;)
		turn(listener, leases);
}

/* ---------------------------------------------------------------- a consumer */

static double mean(const DLTensor *t)
{
	uint64_t sum = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		for (int64_t x = 0; x < t->shape[1]; x++)
			sum += ((uint8_t *)t->data)[y * t->strides[0] +
						    x * t->strides[1]];
	return (double)sum / (t->shape[0] * t->shape[1]);
}

static int consumer(const struct sockaddr_un *at)
{
	/* KEEP: the few buffers of the broker are imported once. */
	DLBUF_OPTS(dlbuf_import_opts, luma, .access = DLBUF_READ,
		   .view = DLBUF_VIEW_LUMA, .flags = DLBUF_IMPORT_KEEP);
	DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &luma);
	int ret, sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_device *cpu;
	uint32_t n;

	if (connect(sock, (const void *)at, sizeof(*at)))
		err(1, "%s: is there a broker?", at->sun_path);
	if (dlbuf_device_open("cpu", NULL, &cpu))
		errx(1, "%s", dlbuf_last_error());
	while (!(ret = dlbuf_recv(cpu, sock, &opts, t, &n, &frame))) {
		if (dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
			errx(1, "%s", dlbuf_last_error());
		printf("frame %" PRIu64 ": %.1f\n", frame.sequence,
		       mean(&t[0]->dl_tensor));
		fflush(stdout);
		t[0]->deleter(t[0]); /* the buffer goes back to the broker */
	}
	errx(1, "%s%s", ret == -EPIPE ? "the broker has ended: " : "",
	     dlbuf_last_error());
}

int main(int argc, char **argv)
{
	bool consumes = argc == 3 && !strcmp(argv[1], "-c");
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const char *path = argv[1 + consumes];

	if (argc < 2 || argc > 3 || strlen(path) >= sizeof(at.sun_path))
		errx(2, "usage: %s SOCKET [NODE], or %s -c SOCKET", argv[0],
		     argv[0]);
	strcpy(at.sun_path, path);
	return consumes ? consumer(&at) : broker(&at, argv[2]);
}
