// SPDX-License-Identifier: MIT
/*
 * Two devices, one buffer: a GPU makes a model's input of a camera's frames, 320x320 pixels of
 * float32 as RGB planes, and the CPU reads it where the GPU wrote it. Prints the path of each
 * device and the mean of each channel. Nothing is copied if no path is "copy" or "bridge".
 *
 * dlbuf_alloc() finds memory that both devices import. The frames' memory is udmabufs, because GPUs
 * refuse the memory of many cameras.
 *
 *	cc prepare_gpu.c $(pkg-config --cflags --libs dlbuf) && ./a.out /dev/video0 [DEVICE]
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>

#include <dlbuf/dlbuf.h>

#define SIDE 320

static void check(int ret)
{
	if (ret)
		errx(1, "%s", dlbuf_last_error());
}

/* The tensor is acquired for reading by the CPU. */
static void print_means(const DLManagedTensorVersioned *t)
{
	const float *value = t->dl_tensor.data;

	for (int c = 0; c < 3; c++) {
		double sum = 0;

		for (int i = 0; i < SIDE * SIDE; i++)
			sum += (double)*value++;
		printf(" %.3f", sum / (SIDE * SIDE));
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	enum { GPU, CPU };
	int64_t shape[] = { 3, SIDE, SIDE };
	const DLTensor layout = { .ndim = 3, .dtype = { kDLFloat, 32, 1 }, .shape = shape };
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = SIDE, .height = SIDE,
		   .fit = DLBUF_FIT_LETTERBOX, .pad = { 114, 114, 114 });
	DLBUF_OPTS(dlbuf_camera_opts, camera, .exporter = "udmabuf");
	const char *name = argc > 2 ? argv[2] : "vulkan:0";
	struct dlbuf_prepare *plan = NULL;
	DLManagedTensorVersioned *input[2];
	DLBUF_INFO(dlbuf_tensor_info, info);
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_device *devs[2];
	struct dlbuf_camera *cam;

	check(dlbuf_device_open(name, NULL, &devs[GPU]));
	check(dlbuf_device_open("cpu", NULL, &devs[CPU]));
	check(dlbuf_camera_open(argc > 1 ? argv[1] : "/dev/video0", &camera, &cam));
	/* One dma-buf, a tensor of it for each device. */
	check(dlbuf_alloc(devs, 2, &layout, NULL, input));
	for (int i = GPU; i <= CPU; i++) {
		check(dlbuf_tensor_get_info(input[i], &info));
		printf("%s: path %s\n", i == GPU ? name : "cpu", dlbuf_path_name(info.path));
	}
	for (int i = 0; i < 3; i++) {
		check(dlbuf_camera_frame(cam, 0, &frame));
		/* A plan is for frames of one kind. The first one compiles the GPU's kernel. */
		if (!plan)
			check(dlbuf_prepare_create(devs[GPU], &frame, &opts, &plan));
		/* Submits the work. The frame goes back to the camera when the GPU has read it. */
		check(dlbuf_prepare_frame(plan, &frame, NULL, input[GPU]));
		/* Waits for the fence of the GPU's work, which is in the dma-buf. */
		check(dlbuf_acquire(input[CPU], DLBUF_READ, NULL, NULL));
		printf("frame %" PRIu64 ": means", frame.sequence);
		print_means(input[CPU]);
		/* The GPU's next work waits for the end of this access. */
		check(dlbuf_release(input[CPU], NULL, NULL));
	}
	dlbuf_prepare_destroy(plan);
	dlbuf_camera_close(cam);
	for (int i = GPU; i <= CPU; i++)
		input[i]->deleter(input[i]);
	for (int i = GPU; i <= CPU; i++) {
		check(dlbuf_device_drain(devs[i], 0));
		dlbuf_device_close(devs[i]);
	}
	return 0;
}
