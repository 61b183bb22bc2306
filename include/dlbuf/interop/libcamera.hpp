/* SPDX-License-Identifier: MIT */
/*
 * libcamera: a stream's configuration and one of its buffers -> a frame.
 * Header-only; C++17; needs libcamera's headers (0.4 or newer) and libcamera.
 *
 *	void completed(libcamera::Request *request)	// libcamera's thread
 *	{
 *		libcamera::FrameBuffer *buffer = request->findBuffer(stream);
 *		auto *lease = leases[request->cookie()];
 *		struct dlbuf_frame frame;
 *
 *		lease->frames = 1;
 *		if (!dlbuf_libcamera_frame(stream->configuration(), *buffer,
 *					   &buffer->metadata(), &frame)) {
 *			frame.release = dlbuf_libcamera_release;
 *			frame.release_data = lease;
 *			... to the thread that calls dlbuf_import_frame() ...
 *		}
 *	}
 */
#ifndef DLBUF_INTEROP_LIBCAMERA_HPP
#define DLBUF_INTEROP_LIBCAMERA_HPP

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <libcamera/camera.h>
#include <libcamera/framebuffer.h>
#include <libcamera/request.h>
#include <libcamera/stream.h>

#include <dlbuf/frame.h>

/*
 * Translates libcamera's ColorSpace, which names colour as V4L2 does, into the
 * code points of H.273. Raw primaries, of a sensor, have none. An encoding of
 * None is RGB, except for raw, where it is nothing.
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
 * A StreamConfiguration has one stride, of the first plane. That of another is
 * to it as the bytes of their samples are for the same pixels: NV12's chroma
 * has the same, YUV420's half, NV24's twice. That is libcamera's own rule.
 */
inline int dlbuf_libcamera_pitch_(const struct dlbuf_format_info &info,
				  unsigned int stride, std::size_t i,
				  int64_t *pitch)
{
	const struct dlbuf_format_plane &luma = info.planes[0];
	const struct dlbuf_format_plane &p = info.planes[i];
	uint64_t num = (uint64_t)p.channels * p.bits * luma.hsub;
	uint64_t den = (uint64_t)luma.channels * luma.bits * p.hsub;

	if (stride * num % den)
		return dlbuf_fail(-EOPNOTSUPP, "a stride of %u gives no whole "
				  "bytes for plane %zu", stride, i);
	*pitch = stride * num / den;
	return 0;
}

/* The part of dlbuf_libcamera_frame() that is about one capture. */
inline int dlbuf_libcamera_metadata_(const libcamera::FrameMetadata &metadata,
				     struct dlbuf_frame *f)
{
	const auto &planes = metadata.planes();

	if (metadata.status == libcamera::FrameMetadata::FrameCancelled)
		return dlbuf_fail(-EINVAL, "the capture was cancelled, nothing "
				  "is in the buffer");
	f->sequence = metadata.sequence;
	f->flags |= DLBUF_FRAME_SEQUENCE;
	f->timestamp_ns = metadata.timestamp;
	f->clock = DLBUF_CLOCK_UNKNOWN;
	f->order = DLBUF_ORDER_COMPLETE;
	if (metadata.status == libcamera::FrameMetadata::FrameError) {
		/* Of the rest only these are valid then. */
		f->flags |= DLBUF_FRAME_DAMAGED;
		return 0;
	}
	for (std::size_t i = 0; i < planes.size() && i < f->nplanes; i++)
		if (planes[i].bytesused)
			f->planes[i].bytes = planes[i].bytesused;
	return 0;
}

/*
 * Describes a buffer of the stream that config describes as a frame: its
 * planes with the pitches that follow from the one stride, the pixel format
 * with libcamera's own modifier, colour where the stream has one.
 *
 * metadata is buffer.metadata() once the buffer has completed; it brings the
 * sequence number, the time, how much is in it and whether it is damaged.
 * nullptr: not captured yet, as when all buffers are imported beforehand; then
 * the metadata has not been written, and the order is UNKNOWN. (The virtual
 * pipeline of libcamera 0.4 never writes it.)
 *
 * config, buffer and metadata are borrowed, and the SharedFDs' fds stay borrowed
 * in *frame: keep the FrameBuffer until it has been imported. *frame is written
 * whole, on success only: set the lease afterwards, dlbuf_libcamera_release()
 * or your own. The order is COMPLETE: libcamera completes a buffer when the
 * hardware is done with it. FrameBuffer::releaseFence() is no fence of the
 * capture but the one given to Request::addBuffer(), handed back when waiting
 * for it has failed.
 *
 * Pure; may be called on libcamera's thread. Throws nothing. 0, or, with a
 * sentence in dlbuf_last_error(),
 * -EINVAL      no plane or more than a frame or the format has, an offset that
 *              was never set, a capture that was cancelled
 * -EOPNOTSUPP  the stride gives another plane a pitch that is not whole
 * and what dlbuf_format_find() says. The rest is checked by
 * dlbuf_import_frame().
 *
 * Units: FrameMetadata::timestamp is nanoseconds since a moment that libcamera
 * leaves open, and so the clock is UNKNOWN. V4L2's drivers use CLOCK_MONOTONIC
 * for it; pipeline handlers copy it into controls::SensorTimestamp, documented
 * as CLOCK_BOOTTIME.
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
	/* The virtual pipeline of 0.4 gives NV12 a third one with nothing in it. */
	while (nplanes > info.nplanes && !planes[nplanes - 1].length)
		nplanes--;
	if (!nplanes || nplanes > info.nplanes)
		return dlbuf_fail(-EINVAL, "the FrameBuffer has %zu planes, its "
				  "format %u", planes.size(), info.nplanes);
	if (config.colorSpace)
		f.colour = dlbuf_libcamera_colour(*config.colorSpace);
	f.nplanes = nplanes;
	for (std::size_t i = 0; i < nplanes; i++) {
		const libcamera::FrameBuffer::Plane &plane = planes[i];

		if (plane.offset == libcamera::FrameBuffer::Plane::kInvalidOffset)
			return dlbuf_fail(-EINVAL, "plane %zu of the FrameBuffer "
					  "has no offset", i);
		f.planes[i].fd = plane.fd.get();
		f.planes[i].offset = plane.offset;
		f.planes[i].bytes = plane.length;
		ret = dlbuf_libcamera_pitch_(info, config.stride, i,
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
 * The lease of the frames of one request: when the last of them is released,
 * the request is queued again with the same buffers. One per request, as
 * release_data of each of its frames.
 */
struct dlbuf_libcamera_lease {
	libcamera::Camera *camera;	/* borrowed, outlives the lease */
	libcamera::Request *request;	/* likewise, and its buffers */
	/* Set before the first import: how many frames will be released. */
	std::atomic<uint32_t> frames;
	/* What Camera::queueRequest() said last: 0 or a negative errno. */
	std::atomic<int> status;
};

/*
 * A frame's release callback: counts frames down and, for the last, calls
 * Request::reuse(ReuseBuffers) and Camera::queueRequest(). For a frame that
 * was not imported after all call it yourself.
 *
 * Does not block: the camera's own thread does the queueing. It may be called
 * on any thread: queueRequest() is documented to be safe on all, and a request
 * that has completed is nobody else's. On a camera that was stopped the request
 * stays as it is and status says -EACCES; keep requests, buffers and the camera
 * until all leases have fired, then free them. Controls are reset by reuse().
 */
inline void dlbuf_libcamera_release(void *lease)
{
	auto *l = static_cast<struct dlbuf_libcamera_lease *>(lease);

	if (l->frames.fetch_sub(1) != 1)
		return;
	l->request->reuse(libcamera::Request::ReuseBuffers);
	l->status = l->camera->queueRequest(l->request);
}

#endif /* DLBUF_INTEROP_LIBCAMERA_HPP */
