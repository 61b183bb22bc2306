// SPDX-License-Identifier: MIT
/*
 * A camera's frames as a model's input: 640x640 pixels of float32, letterboxed, RGB planes.
 * Prints where the picture is in it, and the mean of each channel; and for small things the
 * tiles of the last frame in a batch of such inputs.
 *
 *	cc prepare.c $(pkg-config --cflags --libs dlbuf) && ./a.out /dev/video0
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>

#include <dlbuf/dlbuf.h>

#define SIDE 640

#define MOST 8	/* tiles */

static float input[3][SIDE][SIDE], batch[MOST][3][SIDE][SIDE];

static void nothing(DLManagedTensorVersioned *self)
{
	(void)self;
}

static double mean(float plane[SIDE][SIDE])
{
	double sum = 0;

	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++)
			sum += (double)plane[y][x];
	return sum / (SIDE * SIDE);
}

int main(int argc, char **argv)
{
	DLBUF_OPTS(dlbuf_prepare_opts, opts, .width = SIDE, .height = SIDE,
		   .fit = DLBUF_FIT_LETTERBOX, .pad = { 114, 114, 114 });
	int64_t shape[] = { 3, SIDE, SIDE };
	DLManagedTensorVersioned tensor = {
		.version = { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION },
		.deleter = nothing,
		.dl_tensor = { .data = input, .device = { kDLCPU, 0 }, .ndim = 3,
			.dtype = { kDLFloat, 32, 1 }, .shape = shape },
	};
	DLBUF_INFO(dlbuf_prepare_info, info);
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_prepare_info infos[MOST] = { { .size = sizeof(infos[0]) } };
	struct dlbuf_crop tiles[MOST];
	DLBUF_OPTS(dlbuf_prepare_run_opts, run, .crops = tiles, .infos = infos);
	struct dlbuf_prepare *plan = NULL;
	int64_t batch_shape[] = { MOST, 3, SIDE, SIDE };
	double x, y;
	struct dlbuf_camera *cam;
	struct dlbuf_device *cpu;

	if (dlbuf_device_open("cpu", NULL, &cpu) ||
	    dlbuf_camera_open(argc > 1 ? argv[1] : "/dev/video0", NULL, &cam))
		errx(1, "%s", dlbuf_last_error());
	for (int i = 0; i < 3; i++) {
		if (dlbuf_camera_frame(cam, 0, &frame))
			errx(1, "%s", dlbuf_last_error());
		/* A plan is for frames of one kind: those of a camera. */
		if ((!plan && dlbuf_prepare_create(cpu, &frame, &opts, &plan)) ||
		    dlbuf_prepare_get_info(plan, &info) ||
		    dlbuf_prepare_frame(plan, &frame, NULL, &tensor))
			errx(1, "%s", dlbuf_last_error());
		printf("frame %" PRIu64 ": %ux%u pixels at %d,%d; means %.3f %.3f %.3f\n",
		       frame.sequence, info.scaled_width, info.scaled_height, info.left,
		       info.top, mean(input[0]), mean(input[1]), mean(input[2]));
	}
	/* Halves of the picture's sides, a tenth of it shared. */
	tensor.dl_tensor.data = batch;
	tensor.dl_tensor.shape = batch_shape;
	tensor.dl_tensor.ndim = 4;
	if (dlbuf_camera_frame(cam, 0, &frame) ||
	    dlbuf_prepare_tiles(plan, (frame.width + 1) / 2 + frame.width / 20,
				(frame.height + 1) / 2 + frame.height / 20, frame.width / 10,
				frame.height / 10, tiles, MOST, &run.ncrops) ||
	    dlbuf_prepare_frame(plan, &frame, &run, &tensor))
		errx(1, "%s", dlbuf_last_error());
	for (uint32_t i = 0; i < run.ncrops; i++) {
		dlbuf_prepare_map(&infos[i], SIDE / 2., SIDE / 2., &x, &y);
		printf("tile %u: %gx%g pixels at %g,%g; its centre is %.1f,%.1f; mean %.3f\n", i,
		       tiles[i].width, tiles[i].height, tiles[i].x, tiles[i].y, x, y,
		       mean(batch[i][0]));
	}
	dlbuf_prepare_destroy(plan);
	dlbuf_camera_close(cam);
	dlbuf_device_close(cpu);
	return 0;
}
