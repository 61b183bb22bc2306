// SPDX-License-Identifier: MIT
/*
 * A camera's frames through an OpenCL kernel: finds edges, and prints how many there
 * are in ten frames. The kernel reads the camera's buffer and writes to a buffer that
 * the CPU then reads. Nothing is copied.
 *
 *	cc opencl.c $(pkg-config --cflags --libs dlbuf OpenCL) && ./a.out /dev/video0 opencl:0
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <err.h>
#include <inttypes.h>
#include <stdio.h>

#include <CL/cl.h>

#include <dlbuf/dlbuf.h>

static const char *source =
	"__kernel void edges(__global const uchar *in, ulong in_at, long pitch, long step,\n"
	"                    __global uchar *out, ulong out_at)\n"
	"{\n"
	"	long x = get_global_id(0) + 1, y = get_global_id(1) + 1;\n"
	"	long width = get_global_size(0) + 2;\n"
	"	__global const uchar *p = in + in_at + y * pitch + x * step;\n"
	"	int dx = p[step] - p[-step], dy = p[pitch] - p[-pitch];\n"
	"	out[out_at + y * width + x] = min(abs(dx) + abs(dy), 255u);\n"
	"}\n";

#define CHECK_DLBUF(call) do { if (call) errx(1, "%s", dlbuf_last_error()); } while (0)
#define CHECK_CL(result) do { if (result) errx(1, "line %d: OpenCL: %d", __LINE__, result); } while (0)

static cl_kernel make_kernel(const struct dlbuf_opencl_device *cl)
{
	cl_device_id device = cl->device;
	cl_program program;
	cl_kernel kernel;
	cl_int result;

	program = clCreateProgramWithSource(cl->context, 1, &source, NULL, &result);
	CHECK_CL(result);
	CHECK_CL(clBuildProgram(program, 1, &device, "", NULL, NULL));
	kernel = clCreateKernel(program, "edges", &result);
	CHECK_CL(result);
	clReleaseProgram(program);
	return kernel;
}

/* The data of a tensor is the cl_mem of its whole dma-buf, byte_offset is where it begins. */
static void find_edges(cl_command_queue queue, cl_kernel kernel, const DLTensor *in, const DLTensor *out)
{
	cl_mem from = in->data, to = out->data;
	cl_ulong from_at = in->byte_offset, to_at = out->byte_offset;
	cl_long pitch = in->strides[0], step = in->strides[1];
	size_t inner[] = { in->shape[1] - 2, in->shape[0] - 2 };

	CHECK_CL(clSetKernelArg(kernel, 0, sizeof(from), &from));
	CHECK_CL(clSetKernelArg(kernel, 1, sizeof(from_at), &from_at));
	CHECK_CL(clSetKernelArg(kernel, 2, sizeof(pitch), &pitch));
	CHECK_CL(clSetKernelArg(kernel, 3, sizeof(step), &step));
	CHECK_CL(clSetKernelArg(kernel, 4, sizeof(to), &to));
	CHECK_CL(clSetKernelArg(kernel, 5, sizeof(to_at), &to_at));
	CHECK_CL(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, inner, NULL, 0, NULL, NULL));
}

static uint64_t count(const DLTensor *t)
{
	const uint8_t *p = t->data;
	uint64_t n = 0;

	for (int64_t i = 0; i < t->shape[0] * t->shape[1]; i++)
		n += p[i] > 32;
	return n;
}

int main(int argc, char **argv)
{
	DLBUF_OPTS(dlbuf_import_opts, luma, .view = DLBUF_VIEW_LUMA);
	DLManagedTensorVersioned *in[DLBUF_MAX_PLANES], *out[2] = { NULL, NULL };
	DLBUF_INFO(dlbuf_opencl_device, cl);
	DLBUF_INFO(dlbuf_frame, frame);
	struct dlbuf_device *devs[2];	/* OpenCL, CPU */
	struct dlbuf_camera *cam;
	cl_kernel kernel;
	uint32_t n;

	CHECK_DLBUF(dlbuf_device_open(argc > 2 ? argv[2] : "opencl:0", NULL, &devs[0]));
	CHECK_DLBUF(dlbuf_device_open("cpu", NULL, &devs[1]));
	CHECK_DLBUF(dlbuf_opencl_get_device(devs[0], &cl));
	CHECK_DLBUF(dlbuf_camera_open(argc > 1 ? argv[1] : "/dev/video0", NULL, &cam));
	kernel = make_kernel(&cl);
	for (int i = 0; i < 10; i++) {
		CHECK_DLBUF(dlbuf_camera_frame(cam, 0, &frame));
		CHECK_DLBUF(dlbuf_import_frame(devs[0], &frame, &luma, in, &n));
		if (!out[0]) { /* one dma-buf, as a tensor of each device */
			const DLTensor *t = &in[0]->dl_tensor;
			DLTensor layout = { .ndim = 2, .dtype = t->dtype, .shape = t->shape };

			CHECK_DLBUF(dlbuf_alloc(devs, 2, &layout, NULL, out));
		}
		CHECK_DLBUF(dlbuf_acquire(in[0], DLBUF_READ, NULL, NULL));
		CHECK_DLBUF(dlbuf_acquire(out[0], DLBUF_WRITE, NULL, NULL));
		find_edges(cl.queue, kernel, &in[0]->dl_tensor, &out[0]->dl_tensor);
		CHECK_DLBUF(dlbuf_release(out[0], NULL, NULL));
		in[0]->deleter(in[0]); /* after the kernel, the camera gets its buffer */

		CHECK_DLBUF(dlbuf_acquire(out[1], DLBUF_READ, NULL, NULL)); /* waits for the kernel */
		printf("frame %" PRIu64 ": %" PRIu64 " pixels are edges\n", frame.sequence,
		       count(&out[1]->dl_tensor));
		CHECK_DLBUF(dlbuf_release(out[1], NULL, NULL));
	}
	out[0]->deleter(out[0]);
	out[1]->deleter(out[1]);
	clReleaseKernel(kernel);
	dlbuf_camera_close(cam);
	dlbuf_device_close(devs[0]);
	dlbuf_device_close(devs[1]);
	return 0;
}
