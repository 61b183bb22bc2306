// SPDX-License-Identifier: MIT
/*
 * A frame of a camera goes through a design in Verilog, without a copy: prints nothing,
 * writes both pictures side by side, and sends both tensors to who started it.
 *
 *	sobel NODE WIDTH HEIGHT PICTURE.png SOCKET SIMULATOR...
 *
 *	cc sobel.c $(pkg-config --cflags --libs dlbuf libpng)
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <png.h>

#include <dlbuf/dlbuf.h>

static void ok(int ret)
{
	if (ret)
		errx(1, "%s", dlbuf_last_error());
}

/* Starts the simulator with one end of a socket, and makes a device of the other. */
static struct dlbuf_device *simulator(char **command, pid_t *pid)
{
	struct dlbuf_device *dev;
	int s[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s))
		err(1, "socketpair");
	ok(dlbuf_device_wrap_vpi(s[0], NULL, &dev));
	close(s[0]);
	*pid = fork();
	if (!*pid) {
		dup2(s[1], 9);
		setenv("DLBUF_VPI_FD", "9", 1);
		execvp(command[0], command);
		err(1, "%s", command[0]);
	}
	close(s[1]);
	return dev;
}

/* A small camera may have another size. */
static DLManagedTensorVersioned *grey(struct dlbuf_device *dev, int fd,
				      const int64_t shape[2])
{
	const DLTensor layout = { .ndim = 2, .shape = (int64_t *)shape,
				  .dtype = { kDLUInt, 8, 1 } };
	DLManagedTensorVersioned *t;

	ok(dlbuf_import(dev, fd, &layout, NULL, &t));
	return t;
}

static void pass(DLManagedTensorVersioned *t, uint32_t access, const char *name)
{
	ok(dlbuf_acquire(t, access, NULL, NULL));
	ok(dlbuf_vpi_send(t, name, NULL));
	ok(dlbuf_release(t, NULL, NULL));
}

/* Waits for the simulator, too: it has the dma-buf until then. */
static void draw(DLManagedTensorVersioned *t, uint8_t *to, int64_t pitch)
{
	const DLTensor *l = &t->dl_tensor;

	ok(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	for (int64_t y = 0; y < l->shape[0]; y++)
		for (int64_t x = 0; x < l->shape[1]; x++)
			to[y * pitch + x] = ((uint8_t *)l->data)[y * l->strides[0] +
								 x * l->strides[1]];
	ok(dlbuf_release(t, NULL, NULL));
}

static void write_png(const char *path, DLManagedTensorVersioned *const t[2])
{
	int64_t height = t[0]->dl_tensor.shape[0], width = t[0]->dl_tensor.shape[1];
	png_image png = { .version = PNG_IMAGE_VERSION, .width = 2 * width,
			  .height = height, .format = PNG_FORMAT_GRAY };
	uint8_t *pixels = malloc(2 * width * height);

	if (!pixels)
		errx(1, "no memory");
	draw(t[0], pixels, 2 * width);
	draw(t[1], pixels + width, 2 * width);
	if (!png_image_write_to_file(&png, path, 0, pixels, 0, NULL))
		errx(1, "%s: %s", path, png.message);
	free(pixels);
}

int main(int argc, char **argv)
{
	DLBUF_OPTS(dlbuf_import_opts, luma, .view = DLBUF_VIEW_LUMA,
		   .access = DLBUF_READ);
	DLBUF_OPTS(dlbuf_alloc_opts, udmabuf, .exporter = "udmabuf");
	DLBUF_OPTS(dlbuf_camera_opts, size, .code = DLBUF_FOURCC('N', 'V', '1', '2'));
	DLManagedTensorVersioned *y[DLBUF_MAX_PLANES], *edges, *seen[2];
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_device *cpu, *sim;
	DLBUF_INFO(dlbuf_tensor_info, info);
	struct dlbuf_camera *cam;
	int fd, status;
	uint32_t n;
	pid_t pid;

	if (argc < 7)
		errx(2, "usage: sobel NODE WIDTH HEIGHT PICTURE.png SOCKET SIMULATOR...");
	size.width = atoi(argv[2]);
	size.height = atoi(argv[3]);
	sim = simulator(argv + 6, &pid);
	ok(dlbuf_device_open("cpu", NULL, &cpu));
	ok(dlbuf_camera_open(argv[1], &size, &cam));
	ok(dlbuf_camera_frame(cam, 0, &frame));

	/* The simulator gets the camera's own buffer. */
	ok(dlbuf_import_frame(sim, &frame, &luma, y, &n));
	ok(dlbuf_tensor_get_info(y[0], &info));
	ok(dlbuf_alloc_fd(y[0]->dl_tensor.shape[0] * y[0]->dl_tensor.shape[1],
			  &udmabuf, &fd));
	edges = grey(sim, fd, y[0]->dl_tensor.shape);
	pass(y[0], DLBUF_READ, "in");
	pass(edges, DLBUF_WRITE, "edges");

	/* The same bytes on the CPU. An acquire waits until the simulator is done. */
	seen[1] = grey(cpu, fd, y[0]->dl_tensor.shape);
	{
		DLTensor layout = y[0]->dl_tensor;

		layout.data = NULL;
		layout.byte_offset = info.first;
		ok(dlbuf_import(cpu, info.fd, &layout, &(struct dlbuf_import_opts){
			.size = sizeof(luma), .access = DLBUF_READ }, &seen[0]));
	}
	write_png(argv[4], seen);
	ok(dlbuf_send(atoi(argv[5]), seen, 2, NULL));
	/* The frame is NumPy's until it closes the socket. */
	shutdown(atoi(argv[5]), SHUT_WR);
	if (read(atoi(argv[5]), &status, 1) < 0)
		err(1, "read");

	seen[0]->deleter(seen[0]);
	seen[1]->deleter(seen[1]);
	edges->deleter(edges);
	y[0]->deleter(y[0]);
	dlbuf_camera_close(cam);
	dlbuf_device_close(cpu);
	dlbuf_device_close(sim);
	close(fd);
	return waitpid(pid, &status, 0) != pid || status;
}
