/* SPDX-License-Identifier: MIT */
/*
 * Cameras: V4L2 capture nodes, single- and multi-planar. Each frame has a lease that
 * gives its buffer back to the camera.
 *
 *	DLBUF_OPTS(dlbuf_camera_opts, opts, .code = DLBUF_FOURCC('N', 'V', '1', '2'));
 *	DLBUF_INFO(dlbuf_frame, frame);
 *
 *	if (dlbuf_camera_open("/dev/video0", &opts, &cam))
 *		errx(1, "%s", dlbuf_last_error());
 *	while (!dlbuf_camera_frame(cam, 0, &frame)) {
 *		if (dlbuf_import_frame(dev, &frame, NULL, t, &n)) {
 *			frame.release(frame.release_data); // the lease is still yours
 *			break;
 *		}
 *		if (dlbuf_acquire(t[0], DLBUF_READ, NULL, NULL))
 *			warnx("%s", dlbuf_last_error());
 *		else
 *			use(&t[0]->dl_tensor);
 *		while (n--)
 *			t[n]->deleter(t[n]); // the last one gives the buffer back
 *	}
 *	warnx("%s", dlbuf_last_error());
 *	dlbuf_camera_close(cam);
 *
 * No library is needed for this, only the kernel. Some nodes need a media graph that
 * is set up first: another program must do that (media-ctl, libcamera).
 *
 * An application that calls V4L2 itself uses dlbuf/interop/v4l2.h instead.
 */
#ifndef DLBUF_CAMERA_H
#define DLBUF_CAMERA_H

#include <dlbuf/base.h>
#include <dlbuf/frame.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlbuf_camera;

struct dlbuf_camera_opts {
	size_t size;
	/*
	 * Allocator of the buffers. NULL: the driver allocates the buffers and exports
	 * them (VIDIOC_EXPBUF). Otherwise an exporter as in dlbuf_alloc_opts allocates
	 * them, and the driver imports them (V4L2_MEMORY_DMABUF).
	 */
	const char *exporter;
	/*
	 * A format code of V4L2, and the size in pixels. 0 keeps the node's
	 * current value. The driver may change the size to one that it
	 * supports.
	 */
	uint32_t code, width, height;
	/* 1 to 32 (VIDEO_MAX_FRAME); 0 means 4. The driver may change the number. */
	uint32_t buffers;
	uint32_t flags;		/* DLBUF_CAMERA_... */
	uint32_t reserved;	/* 0 */
	/*
	 * Frames per second; 0 keeps the rate. The driver sets the nearest rate
	 * that it supports.
	 */
	double rate;
};

/*
 * Only opens the node, for dlbuf_camera_get_info(). This is possible while another
 * program captures. The call sets nothing, and the camera gives no frames.
 */
#define DLBUF_CAMERA_PROBE	(1u << 0)

/*
 * Opens a capture node, sets its format and rate, makes and queues its buffers,
 * and starts to capture. The node keeps the format and the rate after
 * dlbuf_camera_close().
 *
 * node and opts are borrowed, *cam is new. May block while the driver starts the
 * hardware and allocates memory.
 * -ENOENT, -ENODEV, -ENXIO  there is no such camera
 * -EACCES      the process may not open the node
 * -ENOTTY      the node is no V4L2 device
 * -EBUSY       another program, or another camera of this one, uses the node
 * -EOPNOTSUPP  - the node does not capture video, or cannot share its buffers
 *              - the camera does not have the format; the error text lists the
 *                formats that it has
 *              - its driver does not export or import dma-bufs, or cannot set
 *                the rate
 * -EINVAL      bad opts, more than 32 buffers, no such exporter
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
	/* The values that the driver has set; 0 with DLBUF_CAMERA_PROBE. */
	uint32_t code, width, height;
	uint32_t buffers;
	uint32_t nfds;		/* dma-bufs per buffer */
	/*
	 * Frames whose lease has not fired: tensors or receivers of messages hold them.
	 */
	uint32_t held;
	/*
	 * The fd of the node, peeked, for poll(). POLLIN means that there is a
	 * frame, POLLERR that dlbuf_camera_frame() will return an error. It can also
	 * be used for ioctls: controls, the list of formats. dlbuf_camera_stop()
	 * replaces the file behind the fd by one that is always readable. The fd
	 * is open until dlbuf_camera_close().
	 */
	int fd;
	double rate;		/* frames per second; 0: the driver does not report it */
};

/*
 * Describes the camera, also after dlbuf_camera_stop().
 * -EINVAL  NULL, or size not set
 */
DLBUF_API int dlbuf_camera_get_info(struct dlbuf_camera *cam,
				    struct dlbuf_camera_info *info);

/*
 * Describes a buffer as a frame without a lease. Its pixels are undefined. Use it
 * to import all buffers before the first frame: then the first frames are imported
 * as fast as the later ones. The fds are peeked and valid until dlbuf_camera_stop().
 *
 * Fills in *frame; set its size before.
 * -EINVAL     NULL, size not set, or no buffer of that index
 * -ECANCELED  the camera was stopped
 */
DLBUF_API int dlbuf_camera_buffer(struct dlbuf_camera *cam, uint32_t index,
				  struct dlbuf_frame *frame);

/*
 * Waits for the next frame and describes it, with the picture's place in the buffer
 * (crop), its orientation (that of the sensor, V4L2_CID_CAMERA_SENSOR_ROTATION), time,
 * sequence number, field and colour. A gap in the sequence numbers means that the camera
 * has dropped frames. V4L2's numbers have 32 bits and wrap; the frame's numbers have 64
 * bits and continue. Some drivers repeat a number if they are late, and a driver that
 * starts to count again begins with a smaller number.
 *
 * deadline_ns is a time of CLOCK_MONOTONIC; 0 means no deadline; a time in the past
 * means: try without waiting. Signals do not interrupt the wait. If all buffers are
 * held, by this program or by processes that have received frames of it, the camera
 * cannot capture before a lease has fired.
 *
 * Fills in *frame; set its size before. Its fds are peeked and valid until the
 * lease fires. The lease is yours until dlbuf_import_frame() or dlbuf_send_frame()
 * succeeds. If neither does, call frame->release(frame->release_data) once. The release
 * queues the buffer again. It may be called on any thread, and also after
 * dlbuf_camera_close(): in this case it only closes the buffer's fds. If the buffer cannot
 * be queued, the capture stops. Then this function returns the error, in a thread that
 * waits or in the next call, and starts the capture again.
 *
 * -ETIME      the deadline passed without a frame
 * -ECANCELED  the camera was stopped
 * -ENODEV     the camera was unplugged
 * -EIO        the driver failed
 * -EINVAL     NULL, frame->size is not set, or the camera was opened with
 *             DLBUF_CAMERA_PROBE
 */
DLBUF_API int dlbuf_camera_frame(struct dlbuf_camera *cam, uint64_t deadline_ns,
				 struct dlbuf_frame *frame);

/*
 * Stops the capture, frees the buffers, and closes the node, so that it can be opened
 * again by this or another program. Threads that wait in dlbuf_camera_frame() or
 * poll() wake up. A second call does nothing, and neither does NULL. Never fails.
 *
 * Frames whose lease has not fired stay valid: their fds keep the memory. Devices keep their
 * imports of the buffers in the cache until dlbuf_device_forget() or dlbuf_device_trim().
 * These imports keep the memory.
 */
DLBUF_API void dlbuf_camera_stop(struct dlbuf_camera *cam);

/*
 * Stops the camera and destroys it (taken; NULL does nothing). Frames whose lease has
 * not fired stay valid. No other thread may be inside a function with this camera;
 * leases may fire at any time. In a child of fork() it only closes the child's fds.
 */
DLBUF_API void dlbuf_camera_close(struct dlbuf_camera *cam);

#ifdef __cplusplus
}
#endif
#endif /* DLBUF_CAMERA_H */
