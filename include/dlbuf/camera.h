/* SPDX-License-Identifier: MIT */
/*
 * Cameras: a V4L2 capture node, single- or multi-planar, whose frames are leases.
 *
 *	DLBUF_OPTS(dlbuf_camera_opts, opts, .width = 640, .height = 360,
 *		   .code = DLBUF_FOURCC('N', 'V', '1', '2'));
 *	DLBUF_INFO(dlbuf_frame, frame);
 *
 *	dlbuf_camera_open("/dev/video0", &opts, &cam);
 *	while (!dlbuf_camera_frame(cam, 0, &frame)) {
 *		dlbuf_import_frame(dev, &frame, NULL, tensors, &n);
 *		... the camera gets the buffer back with the last tensor ...
 *	}
 *	dlbuf_camera_close(cam);
 *
 * Capture needs only the kernel. Nodes that need a media graph to be set up first
 * must be set up by another program (media-ctl, libcamera).
 *
 * An application that calls V4L2 itself uses dlbuf/interop/v4l2.h instead.
 */
#ifndef DLBUF_CAMERA_H
#define DLBUF_CAMERA_H

#include <dlbuf/base.h>
#include <dlbuf/frame.h>
#include <dlbuf/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_camera;

struct dlbuf_camera_opts {
	size_t size;
	/*
	 * A format of V4L2, and pixels. 0 means what the node is set to, or what
	 * the pool has. The driver may change the size to one that it has.
	 */
	uint32_t code, width, height;
	uint32_t buffers;	/* 0 means 4; the driver may change the number */
	uint32_t flags;		/* DLBUF_CAMERA_... */
	/*
	 * Frames per second; 0 leaves the rate alone. The driver sets the nearest
	 * rate that it has.
	 */
	double rate;
	/*
	 * The memory. At most one of them; with neither the camera captures into
	 * buffers of its driver, which are exported (VIDIOC_EXPBUF). With one the
	 * driver imports the buffers (V4L2_MEMORY_DMABUF):
	 *
	 *   exporter  makes them, see dlbuf_alloc_opts
	 *   pool      has them, with a code of V4L2. It decides about the format,
	 *             the size and the number of buffers, so code, width, height
	 *             and buffers are 0. Borrowed: the dma-bufs are duplicated
	 */
	const char *exporter;
	struct dlbuf_pool *pool;
};

/*
 * Only opens the node, for dlbuf_camera_get_info(), also while another program
 * captures. Nothing is set, and there are no frames.
 */
#define DLBUF_CAMERA_PROBE	(1u << 0)

/*
 * Opens a capture node, sets its format and rate, makes and queues its buffers,
 * and starts to capture. The driver keeps the format and the rate afterwards.
 *
 * node and opts are borrowed, *cam is new. May block while the driver starts the
 * hardware and allocates memory.
 * -ENOENT, -ENODEV, -ENXIO  there is no such camera
 * -EACCES      the process may not open the node
 * -ENOTTY      the node is no V4L2 device
 * -EBUSY       another program, or another camera of this one, uses the node
 * -EOPNOTSUPP  - the node does not capture video, or has no buffers to share
 *              - the camera does not have the format; the error text lists those
 *                that it has
 *              - its driver does not export or import dma-bufs, or does not let
 *                the rate be set
 *              - it cannot capture into buffers as the pool has them
 * -EINVAL      bad opts, no such exporter
 * -EIO         the driver failed
 * and, with an exporter, the errors of dlbuf_alloc_fd(). The error text has the
 * node, the ioctl and its code.
 */
DLBUF_API int dlbuf_camera_open(const char *node,
				const struct dlbuf_camera_opts *opts,
				struct dlbuf_camera **cam);

struct dlbuf_camera_info {
	size_t size;		/* of this struct, set by the caller */
	char driver[32];	/* "uvcvideo" */
	char card[64];		/* "Integrated Camera" */
	char bus[64];		/* "usb-0000:00:14.0-8" */
	/* As the driver has set them; 0 with DLBUF_CAMERA_PROBE. */
	uint32_t code, width, height;
	uint32_t buffers;
	uint32_t nfds;		/* dma-bufs per buffer */
	uint32_t held;		/* frames whose lease has not fired */
	/*
	 * The node, peeked, for poll(): POLLIN means that there is a frame, POLLERR
	 * that dlbuf_camera_frame() has an error to report. Also for ioctls that
	 * dlbuf has no function for: controls, the list of formats. It is readable
	 * from dlbuf_camera_stop() on, and open until dlbuf_camera_close().
	 */
	int fd;
	double rate;		/* frames per second; 0: the driver does not say */
};

/*
 * Describes the camera, also when it is stopped.
 * -EINVAL  NULL, or size not set
 */
DLBUF_API int dlbuf_camera_get_info(struct dlbuf_camera *cam,
				    struct dlbuf_camera_info *info);

/*
 * Describes a buffer without a capture in it, and without a lease: to import the
 * buffers beforehand, so that the first frame is as cheap as the others. The fds
 * are peeked and valid until dlbuf_camera_stop().
 *
 * Fills in *frame; set its size before.
 * -EINVAL     NULL, size not set, or no buffer of that index
 * -ECANCELED  the camera was stopped
 * -ESTALE     see Fork in dlbuf/base.h
 */
DLBUF_API int dlbuf_camera_buffer(struct dlbuf_camera *cam, uint32_t index,
				  struct dlbuf_frame *frame);

/*
 * Waits for the next frame and describes it, with the picture's place in the buffer
 * (crop), time, sequence number, field and colour. Gaps in the sequence numbers are
 * frames that the camera has dropped.
 *
 * deadline_ns is a time of CLOCK_MONOTONIC; 0 means no deadline; a time in the past
 * means: try without waiting. Signals do not interrupt the wait. If the program
 * holds all buffers the camera cannot capture, and the wait lasts until a lease
 * fires.
 *
 * Fills in *frame; set its size before. Its fds are peeked and valid until the
 * lease fires. The lease is yours: call frame->release(frame->release_data) once,
 * if dlbuf_import_frame() or dlbuf_send_frame() has not taken it. The release
 * queues the buffer again. It may run on any thread, and after
 * dlbuf_camera_close(): then it closes the buffer's fds. If it cannot queue the
 * buffer the next call of this function returns the error.
 *
 * -ETIME      the deadline passed without a frame
 * -ECANCELED  the camera was stopped
 * -ENODEV     the camera was unplugged
 * -EIO        the driver failed
 * -EINVAL     NULL, frame->size, or a camera of DLBUF_CAMERA_PROBE
 * -ESTALE     see Fork in dlbuf/base.h
 */
DLBUF_API int dlbuf_camera_frame(struct dlbuf_camera *cam, uint64_t deadline_ns,
				 struct dlbuf_frame *frame);

/*
 * Stops the camera and gives the node and the buffers back, so that it can be
 * opened again. Threads that wait in dlbuf_camera_frame() or poll() wake up. Again,
 * or for NULL, it does nothing. Never fails.
 *
 * Frames that are out stay valid: their fds keep the memory. Devices keep their
 * imports of the buffers in the cache, and the memory with them, until
 * dlbuf_device_forget() or dlbuf_device_trim().
 */
DLBUF_API void dlbuf_camera_stop(struct dlbuf_camera *cam);

/*
 * Stops the camera and destroys it (taken; NULL does nothing), except for what the
 * frames that are out need. No other thread may be inside a function with this
 * camera; leases may fire at any time. In a child of fork() it closes the child's
 * fds and does not stop the camera.
 */
DLBUF_API void dlbuf_camera_close(struct dlbuf_camera *cam);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_CAMERA_H */
