// SPDX-License-Identifier: MIT
/*
 * One process has a picture, another one looks at it: the message is some
 * hundred bytes and an fd. The first process learns when the second has
 * finished, as a camera must before it writes there again.
 *
 *	cc send.c $(pkg-config --cflags --libs dlbuf) && ./a.out
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dlbuf/dlbuf.h>

#define WIDTH 64
#define HEIGHT 48

static int given_back[2];

/* Runs on a thread of the library; for a camera this would be VIDIOC_QBUF. */
static void give_back(void *data)
{
	(void)data;
	if (write(given_back[1], "", 1) != 1)
		warn("write");
}

static void send_one(int sock, struct dlbuf_device *cpu, uint8_t grey)
{
	int64_t shape[] = { HEIGHT, WIDTH };
	DLTensor layout = { .ndim = 2, .dtype = { kDLUInt, 8, 1 },
			    .shape = shape };
	DLManagedTensorVersioned *t;
	struct dlbuf_tensor_info info = { .size = sizeof(info) };
	struct dlbuf_frame frame = {
		.size = sizeof(frame), .width = WIDTH, .height = HEIGHT,
		.code = DLBUF_FOURCC('R', '8', ' ', ' '),
		.code_space = DLBUF_CODE_DRM,
		.modifier = DLBUF_MOD_LINEAR, .nplanes = 1,
		.sequence = grey, .flags = DLBUF_FRAME_SEQUENCE,
		.order = DLBUF_ORDER_COMPLETE, .release = give_back,
	};
	char byte;

	if (dlbuf_alloc(&cpu, 1, &layout, NULL, &t) ||
	    dlbuf_acquire(t, DLBUF_WRITE, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	for (int i = 0; i < WIDTH * HEIGHT; i++)
		((uint8_t *)t->dl_tensor.data)[i] = grey;
	if (dlbuf_release(t, NULL, NULL) || dlbuf_tensor_get_info(t, &info))
		errx(1, "%s", dlbuf_last_error());
	frame.planes[0].fd = info.fd;
	frame.planes[0].pitch = WIDTH;
	if (dlbuf_send_frame(sock, &frame, NULL))
		errx(1, "%s", dlbuf_last_error());
	t->deleter(t);
	if (read(given_back[0], &byte, 1) != 1)
		err(1, "read");
	printf("frame %" PRIu64 " is back\n", frame.sequence);
	fflush(stdout);
}

static int receive_all(int sock)
{
	struct dlbuf_device *cpu;
	int ret;

	if (dlbuf_device_open("cpu", NULL, &cpu))
		errx(1, "%s", dlbuf_last_error());
	for (;;) {
		struct dlbuf_frame frame = { .size = sizeof(frame) };
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		uint32_t n;

		ret = dlbuf_recv(cpu, sock, NULL, t, &n, &frame);
		if (ret)
			break;
		if (dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
			errx(1, "%s", dlbuf_last_error());
		printf("frame %" PRIu64 " is %d\n", frame.sequence,
		       *(uint8_t *)t[0]->dl_tensor.data);
		fflush(stdout);
		while (n)
			n--, t[n]->deleter(t[n]); /* releases it, too */
	}
	dlbuf_device_close(cpu);
	return ret == -EPIPE ? 0 : 1;
}

int main(void)
{
	struct dlbuf_device *cpu;
	int sock[2], status;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) ||
	    pipe(given_back))
		err(1, "socketpair");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	close(sock[pid ? 0 : 1]);
	if (!pid)
		return receive_all(sock[0]);
	if (dlbuf_device_open("cpu", NULL, &cpu))
		errx(1, "%s", dlbuf_last_error());
	for (int grey = 1; grey <= 3; grey++)
		send_one(sock[1], cpu, 80 * grey);
	dlbuf_device_close(cpu);
	close(sock[1]);
	return waitpid(pid, &status, 0) != pid || status;
}
