// SPDX-License-Identifier: MIT
/*
 * A camera's frames as tensors: prints how bright ten of them are. Nothing is
 * copied, and the camera gets each buffer back when its last tensor is deleted.
 *
 *	cc camera.c $(pkg-config --cflags --libs dlbuf) && ./a.out /dev/video0
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>

#include <dlbuf/dlbuf.h>

static double mean(const DLTensor *t)
{
	uint64_t sum = 0;

	for (int64_t y = 0; y < t->shape[0]; y++)
		for (int64_t x = 0; x < t->shape[1]; x++)
			sum += ((uint8_t *)t->data)[y * t->strides[0] +
						    x * t->strides[1]];
	return (double)sum / (t->shape[0] * t->shape[1]);
}

int main(int argc, char **argv)
{
	DLBUF_OPTS(dlbuf_import_opts, luma, .view = DLBUF_VIEW_LUMA);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_camera *cam;
	struct dlbuf_device *cpu;
	uint32_t n;

	if (dlbuf_device_open("cpu", NULL, &cpu) ||
	    dlbuf_camera_open(argc > 1 ? argv[1] : "/dev/video0", NULL, &cam))
		errx(1, "%s", dlbuf_last_error());
	for (int i = 0; i < 10; i++) {
		if (dlbuf_camera_frame(cam, 0, &frame) ||
		    dlbuf_import_frame(cpu, &frame, &luma, t, &n) ||
		    dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
			errx(1, "%s", dlbuf_last_error());
		printf("frame %" PRIu64 ": %.1f\n", frame.sequence,
		       mean(&t[0]->dl_tensor));
		t[0]->deleter(t[0]); /* releases it, too */
	}
	dlbuf_camera_close(cam);
	dlbuf_device_close(cpu);
	return 0;
}
