/* SPDX-License-Identifier: MIT */
/*
 * libcamera: makes a frame from a buffer and the configuration of its stream.
 * Header-only; C++17; needs libcamera's headers (0.4 or newer) and libcamera.
 *
 *	void completed(libcamera::Request *request)	// libcamera's thread
 *	{
 *		libcamera::FrameBuffer *buffer = request->findBuffer(stream);
 *		auto *lease = leases[request->cookie()];
 *		struct dlbuf_frame frame;
 *
 *		lease->frames = 1;
 *		if (dlbuf_libcamera_frame(stream->configuration(), *buffer,
 *					  &buffer->metadata(), &frame)) {
 *			warnx("%s", dlbuf_last_error());
 *			dlbuf_libcamera_release(lease);	// queues it again
 *			return;
 *		}
 *		frame.orientation = dlbuf_libcamera_orientation(config->orientation);
 *		frame.release = dlbuf_libcamera_release;
 *		frame.release_data = lease;
 *		... pass it to the thread that calls dlbuf_import_frame() ...
 *	}
 *
 * After Camera::stop(), before you configure or start the camera again, make two calls.
 * dlbuf_libcamera_disarm() for each lease: then a tensor that is still held does not
 * queue an old request. And dlbuf_device_trim(dev, 0): until then the device keeps its
 * imports of the old buffers, and their memory.
 */
#ifndef DLBUF_INTEROP_LIBCAMERA_HPP
#define DLBUF_INTEROP_LIBCAMERA_HPP

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <libcamera/camera.h>
#include <libcamera/framebuffer.h>
#include <libcamera/orientation.h>
#include <libcamera/request.h>
#include <libcamera/stream.h>

#include <dlbuf/frame.h>
#include <dlbuf/interop/shared.h>

/*
 * Translates libcamera's ColorSpace, which follows V4L2, into the code points of
 * H.273. Raw primaries of a sensor have none. The encoding None means RGB, or
 * nothing if the primaries are raw.
 *
 * Pure, cannot fail. Specification: libcamera/color_space.h, ITU-T H.273.
 */
inline struct dlbuf_colour dlbuf_libcamera_colour(const libcamera::ColorSpace &space)
{
	using libcamera::ColorSpace;
	struct dlbuf_colour c = {};

	switch (space.primaries) {
	case ColorSpace::Primaries::Rec709:
		c.primaries = 1;
		break;
	case ColorSpace::Primaries::Smpte170m:
		c.primaries = 6;
		break;
	case ColorSpace::Primaries::Rec2020:
		c.primaries = 9;
		break;
	case ColorSpace::Primaries::Raw:
		break;
	}
	switch (space.transferFunction) {
	case ColorSpace::TransferFunction::Rec709:
		c.transfer = 1;
		break;
	case ColorSpace::TransferFunction::Linear:
		c.transfer = 8;
		break;
	case ColorSpace::TransferFunction::Srgb:
		c.transfer = 13;
		break;
	}
	switch (space.ycbcrEncoding) {
	case ColorSpace::YcbcrEncoding::Rec601:
		c.matrix = 6 + 1;
		break;
	case ColorSpace::YcbcrEncoding::Rec709:
		c.matrix = 1 + 1;
		break;
	case ColorSpace::YcbcrEncoding::Rec2020:
		c.matrix = 9 + 1;
		break;
	case ColorSpace::YcbcrEncoding::None:
		if (space.primaries != ColorSpace::Primaries::Raw)
			c.matrix = 0 + 1;
		break;
	}
	c.range = space.range == ColorSpace::Range::Full ? DLBUF_RANGE_FULL :
							   DLBUF_RANGE_LIMITED;
	return c;
}

/*
 * Computes how to turn the pictures of a camera that is mounted turned. stored is the
 * orientation of the pictures: CameraConfiguration::orientation after validate() or
 * configure(). wanted is the orientation that the program asked for before, if it asked for
 * one: a picture that libcamera has turned as asked is not turned again.
 *
 * Pure, cannot fail. Specification: libcamera/orientation.h, whose numbers are EXIF's.
 */
inline enum dlbuf_orientation
dlbuf_libcamera_orientation(libcamera::Orientation stored,
			    libcamera::Orientation wanted = libcamera::Orientation::Rotate0)
{
	/* The turn that makes a picture upright, indexed by EXIF's number minus 1. */
	static constexpr unsigned int upright[] = {
		DLBUF_ORIENTATION_NONE, DLBUF_ORIENTATION_FLIP_X, DLBUF_ORIENTATION_TURN_180,
		DLBUF_ORIENTATION_FLIP_Y, DLBUF_ORIENTATION_TRANSPOSE, DLBUF_ORIENTATION_TURN_90,
		DLBUF_ORIENTATION_TRANSVERSE, DLBUF_ORIENTATION_TURN_270,
	};
	unsigned int first = upright[(static_cast<unsigned int>(stored) - 1) & 7];
	unsigned int then = upright[(static_cast<unsigned int>(wanted) - 1) & 7];

	/* Inverts the second one: a flip is its own inverse, turns change their direction. */
	if (!(then & 4))
		then = (4 - then) & 3;
	/* A flip before turns is the same flip after turns in the other direction. */
	return static_cast<enum dlbuf_orientation>(
		((first + (first & 4 ? 4 - (then & 3) : then)) & 3) | ((first ^ then) & 4));
}

/* Fills in the part of a frame that comes from one capture. */
inline int dlbuf_libcamera_metadata_(const libcamera::FrameMetadata &metadata,
				     struct dlbuf_frame *f)
{
	const auto &planes = metadata.planes();

	if (metadata.status == libcamera::FrameMetadata::FrameCancelled)
		return dlbuf_fail(-ENODATA, "the capture was cancelled, nothing "
				  "is in the buffer");
	f->sequence = metadata.sequence;
	f->flags |= DLBUF_FRAME_SEQUENCE;
	f->timestamp_ns = static_cast<int64_t>(metadata.timestamp);
	f->clock = DLBUF_CLOCK_UNKNOWN;
	f->order = DLBUF_ORDER_COMPLETE;
	if (metadata.status == libcamera::FrameMetadata::FrameError) {
		/* After an error only the values above are valid. */
		f->flags |= DLBUF_FRAME_DAMAGED;
		return 0;
	}
	for (std::size_t i = 0; i < planes.size() && i < f->nplanes; i++)
		if (planes[i].bytesused)
			f->planes[i].bytes = planes[i].bytesused;
	return 0;
}

/*
 * Describes a buffer of the stream of config as a frame: its planes, their pitches
 * (derived from the one stride), the pixel format with libcamera's modifier, and
 * the colour if the stream has one.
 *
 * metadata is buffer.metadata() of a completed buffer. It has the sequence number,
 * the time, the bytes used and the error flag. nullptr: no capture yet, e.g. to
 * import all buffers beforehand; then the order is UNKNOWN. (The virtual pipeline
 * of libcamera 0.4 never writes the metadata.)
 *
 * config, buffer and metadata are borrowed. *frame borrows the fds of the
 * SharedFDs: keep the FrameBuffer until the frame is imported. *frame is written
 * completely, on failure with zeroes: set the lease afterwards, dlbuf_libcamera_release()
 * or your own. Set the orientation, too: it belongs to the camera and not to the stream,
 * see dlbuf_libcamera_orientation().
 *
 * With metadata the order is COMPLETE: libcamera completes a buffer when the
 * hardware is done with it. FrameBuffer::releaseFence() is not a fence of the
 * capture: it is the fence of Request::addBuffer(), returned if waiting for it
 * failed.
 *
 * Pure; may be called on libcamera's thread. Throws nothing. Returns 0, or, with an
 * error text in dlbuf_last_error(),
 * -EINVAL      no planes, or more than a frame or the format has; an offset that
 *              was never set
 * -ENODATA     the capture was cancelled, so the buffer has no picture
 * -EOPNOTSUPP  the stride gives another plane a pitch that is not a whole number
 * and the errors of dlbuf_format_find(). dlbuf_import_frame() checks the rest.
 *
 * Units: FrameMetadata::timestamp is nanoseconds of a clock that libcamera does not
 * define, so the clock is UNKNOWN. Drivers of V4L2 use CLOCK_MONOTONIC; pipeline
 * handlers copy the value into controls::SensorTimestamp, which is documented as
 * CLOCK_BOOTTIME.
 *
 * Specification: libcamera/framebuffer.h, stream.h, pixel_format.h.
 */
inline int dlbuf_libcamera_frame(const libcamera::StreamConfiguration &config,
				 const libcamera::FrameBuffer &buffer,
				 const libcamera::FrameMetadata *metadata,
				 struct dlbuf_frame *frame)
{
	const auto &planes = buffer.planes();
	std::size_t nplanes = planes.size();
	struct dlbuf_format_info info = {};
	struct dlbuf_frame f = {};
	int ret;

	*frame = {};
	info.size = sizeof(info);
	f.size = sizeof(f);
	f.width = config.size.width;
	f.height = config.size.height;
	f.code = config.pixelFormat.fourcc();
	f.code_space = DLBUF_CODE_LIBCAMERA;
	f.modifier = config.pixelFormat.modifier();
	f.field = DLBUF_FIELD_NONE;
	f.fence = -1;
	ret = dlbuf_format_find(f.code, f.modifier, DLBUF_CODE_LIBCAMERA, &info);
	if (ret)
		return ret;
	/* The virtual pipeline of 0.4 gives NV12 a third, empty plane. */
	while (nplanes > info.nplanes && !planes[nplanes - 1].length)
		nplanes--;
	if (!nplanes || nplanes > info.nplanes)
		return dlbuf_fail(-EINVAL, "the FrameBuffer has %zu planes, its "
				  "format %u", planes.size(), info.nplanes);
	if (config.colorSpace)
		f.colour = dlbuf_libcamera_colour(*config.colorSpace);
	f.nplanes = static_cast<uint32_t>(nplanes);
	for (std::size_t i = 0; i < nplanes; i++) {
		const libcamera::FrameBuffer::Plane &plane = planes[i];

		if (plane.offset == libcamera::FrameBuffer::Plane::kInvalidOffset)
			return dlbuf_fail(-EINVAL, "plane %zu of the FrameBuffer "
					  "has no offset", i);
		f.planes[i].fd = plane.fd.get();
		f.planes[i].offset = plane.offset;
		f.planes[i].bytes = plane.length;
		ret = dlbuf_plane_pitch_(&info, config.stride, static_cast<uint32_t>(i),
					 &f.planes[i].pitch);
		if (ret)
			return ret;
	}
	if (metadata) {
		ret = dlbuf_libcamera_metadata_(*metadata, &f);
		if (ret)
			return ret;
	}
	*frame = f;
	return 0;
}

/*
 * The lease of all frames of one request. When the last of them is released, the
 * request is queued again with the same buffers. Use one per request, as
 * release_data of each of its frames.
 */
struct dlbuf_libcamera_lease {
	libcamera::Camera *camera;	/* borrowed until dlbuf_libcamera_disarm() */
	libcamera::Request *request;	/* borrowed too, with its buffers; nullptr after that */
	/* Number of frames that will be released. Set it before the first import. */
	std::atomic<uint32_t> frames;
	/* Last result of Camera::queueRequest(): 0 or a negative errno. */
	std::atomic<int> status;
	std::mutex lock;		/* the adapter's, protects camera and request */
};

/*
 * The release callback of a frame. It counts the frames down. For the last one it
 * calls Request::reuse(ReuseBuffers) and Camera::queueRequest(). Call it yourself
 * for a frame that was not imported.
 *
 * Does not block: the camera's own thread queues the request. May be called on any
 * thread: queueRequest() is documented as thread-safe, and a completed request
 * belongs to the application. If the camera was stopped, the request stays as it
 * is and status is -EACCES. Request::reuse() resets the controls.
 */
inline void dlbuf_libcamera_release(void *lease)
{
	auto *l = static_cast<struct dlbuf_libcamera_lease *>(lease);

	if (l->frames.fetch_sub(1) != 1)
		return;
	std::lock_guard<std::mutex> hold(l->lock);
	if (!l->request) {
		l->status = -ECANCELED;
		return;
	}
	l->request->reuse(libcamera::Request::ReuseBuffers);
	l->status = l->camera->queueRequest(l->request);
}

/*
 * Detaches the lease from its request: the lease does not queue it again, and its status becomes
 * -ECANCELED when it fires. Call it for each lease after Camera::stop(). Without it a
 * tensor that is held over stop(), configure() and start() would queue a request of the
 * old session into the new one. After this call you may free the request, its buffers
 * and the camera; the lease itself must live until its frames are released. May be
 * called on any thread.
 */
inline void dlbuf_libcamera_disarm(struct dlbuf_libcamera_lease *lease)
{
	std::lock_guard<std::mutex> hold(lease->lock);

	lease->request = nullptr;
}

#endif /* DLBUF_INTEROP_LIBCAMERA_HPP */
