// SPDX-License-Identifier: MIT
/*
 * dlbuf/interop/libcamera.hpp: what libcamera says, word by word, and frames of
 * its cameras: one that is a USB camera to uvcvideo (tests/doubles/uvc.c), whose
 * every pixel is known, and the virtual one of libcamera's own.
 */
#include <condition_variable>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>

#include <libcamera/libcamera.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/libcamera.hpp>

#include "doubles/uvc.h"
#include "interop/picture.h"

using namespace libcamera;
using Plane = FrameBuffer::Plane;

/* ---- words */

static StreamConfiguration stream_of(const PixelFormat &format,
				     unsigned int stride)
{
	StreamConfiguration c;

	c.pixelFormat = format;
	c.size = Size(60, 32);
	c.stride = stride;
	return c;
}

static SharedFD some_fd()
{
	int fd = memfd_create("plane", MFD_CLOEXEC);

	REQUIRE(fd >= 0);
	return SharedFD(std::move(fd));
}

static std::vector<Plane> planes_of(const SharedFD &fd,
				    std::initializer_list<unsigned int> offsets)
{
	std::vector<Plane> planes;

	for (unsigned int offset : offsets)
		planes.push_back({ fd, offset, 500 });
	return planes;
}

/* Only libcamera itself writes it. */
static FrameMetadata &metadata_of(const FrameBuffer &buffer)
{
	return const_cast<FrameMetadata &>(buffer.metadata());
}

TEST(planes)
{
	SharedFD fd = some_fd();
	FrameBuffer buffer(planes_of(fd, { 0, 4096 }));
	struct dlbuf_frame f;

	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::NV12, 64), buffer,
				       nullptr, &f));
	CHECK_FRAME(&f, FRAME(60, 32, formats::NV12.fourcc(),
		DLBUF_CODE_LIBCAMERA, 2,
		.planes = { PLANE(fd.get(), 0, 64, 500),
			    PLANE(fd.get(), 4096, 64, 500) },
		.field = DLBUF_FIELD_NONE, .fence = -1));
	CHECK(!f.release);
}

/* One stride; the others' follow from their samples. */
TEST(pitches)
{
	SharedFD fd = some_fd();
	FrameBuffer two(planes_of(fd, { 0, 4096 }));
	FrameBuffer three(planes_of(fd, { 0, 4096, 8192 }));
	struct dlbuf_frame f;

	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::NV24, 64), two,
				       nullptr, &f));
	CHECK_EQ(f.planes[1].pitch, 128);
	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::NV16, 64), two,
				       nullptr, &f));
	CHECK_EQ(f.planes[1].pitch, 64);
	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::YUV420, 64), three,
				       nullptr, &f));
	CHECK_EQ(f.planes[0].pitch, 64);
	CHECK_EQ(f.planes[1].pitch, 32);
	CHECK_EQ(f.planes[2].pitch, 32);
	CHECK_EQ(f.planes[2].offset, 8192);
	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::YUV444, 64), three,
				       nullptr, &f));
	CHECK_EQ(f.planes[2].pitch, 64);
	CHECK_ERR_SAYS(dlbuf_libcamera_frame(stream_of(formats::YUV420, 61), three, nullptr, &f),
		       -EOPNOTSUPP, "pitch of 61");
}

/* Formats that differ in nothing but libcamera's own modifiers. */
TEST(modifiers)
{
	SharedFD fd = some_fd();
	FrameBuffer buffer(planes_of(fd, { 0 }));
	struct dlbuf_frame f;

	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::SRGGB10, 128), buffer,
				       nullptr, &f));
	CHECK_EQ(f.modifier, 0);
	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::SRGGB10_CSI2P, 80),
				       buffer, nullptr, &f));
	CHECK_EQ(f.code, formats::SRGGB10.fourcc());
	CHECK_EQ(f.modifier, formats::SRGGB10_CSI2P.modifier());
	CHECK(f.modifier);
	CHECK_EQ(f.planes[0].pitch, 80);
	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::MJPEG, 0), buffer,
				       nullptr, &f));
	CHECK_EQ(f.planes[0].pitch, 0);
	CHECK_ERR(dlbuf_libcamera_frame(stream_of(PixelFormat(0x21212121), 64),
					buffer, nullptr, &f), -EINVAL);
}

TEST(refused)
{
	SharedFD fd = some_fd();
	FrameBuffer none(planes_of(fd, {}));
	FrameBuffer three(planes_of(fd, { 0, 4096, 8192 }));
	std::vector<Plane> empty = planes_of(fd, { 0, 4096, 8192 });
	struct dlbuf_frame f = {};

	f.width = 77;
	CHECK_ERR(dlbuf_libcamera_frame(stream_of(formats::NV12, 64), none,
					nullptr, &f), -EINVAL);
	CHECK_ERR_SAYS(dlbuf_libcamera_frame(stream_of(formats::NV12, 64), three, nullptr, &f),
		       -EINVAL, "3 planes");
	CHECK_EQ(f.width, 0);
	/* A third with nothing in it is no plane. */
	empty[2].length = 0;
	FrameBuffer two(empty);
	CHECK_OK(dlbuf_libcamera_frame(stream_of(formats::NV12, 64), two,
				       nullptr, &f));
	CHECK_EQ(f.nplanes, 2);
}

/* An offset that was never set: a libcamera with assertions ends on the way. */
TEST(no_offset)
{
	SharedFD fd = some_fd();
	FrameBuffer buffer(planes_of(fd, { 0, 0 }));
	struct dlbuf_frame f;

	const_cast<Plane &>(buffer.planes()[1]).offset = Plane::kInvalidOffset;
	CHECK_ERR_SAYS(dlbuf_libcamera_frame(stream_of(formats::NV12, 64), buffer, nullptr, &f),
		       -EINVAL, "plane 1");
}

TEST(captures)
{
	SharedFD fd = some_fd();
	FrameBuffer buffer(planes_of(fd, { 0, 4096 }));
	FrameMetadata &m = metadata_of(buffer);
	StreamConfiguration c = stream_of(formats::NV12, 64);
	struct dlbuf_frame f;

	m.status = FrameMetadata::FrameSuccess;
	m.sequence = 41;
	m.timestamp = 12345678901;
	m.planes()[0].bytesused = 400;
	m.planes()[1].bytesused = 0;
	CHECK_OK(dlbuf_libcamera_frame(c, buffer, &m, &f));
	CHECK_EQ(f.flags, DLBUF_FRAME_SEQUENCE);
	CHECK_EQ(f.sequence, 41);
	CHECK_EQ(f.timestamp_ns, 12345678901);
	CHECK_EQ(f.clock, DLBUF_CLOCK_UNKNOWN);
	CHECK_EQ(f.order, DLBUF_ORDER_COMPLETE);
	CHECK_EQ(f.planes[0].bytes, 400);
	CHECK_EQ(f.planes[1].bytes, 500);
	m.status = FrameMetadata::FrameError;
	CHECK_OK(dlbuf_libcamera_frame(c, buffer, &m, &f));
	CHECK_EQ(f.flags, DLBUF_FRAME_SEQUENCE | DLBUF_FRAME_DAMAGED);
	CHECK_EQ(f.sequence, 41);
	CHECK_EQ(f.planes[0].bytes, 500);
	m.status = FrameMetadata::FrameCancelled;
	CHECK_ERR_SAYS(dlbuf_libcamera_frame(c, buffer, &m, &f), -ENODATA, "cancelled");
	CHECK(!f.width && !f.release);
}

/* Configurations and buffers of no camera. */
TEST(random)
{
	static const PixelFormat some[] = { formats::NV12, formats::YUV420, formats::YUYV,
		formats::SRGGB10_CSI2P, formats::RGB888, formats::MJPEG };
	SharedFD fd = some_fd();
	unsigned int frames = 0;

	for (unsigned int i = 0; i < random_rounds(); i++) {
		StreamConfiguration c = stream_of(some[dice(6)], 64);
		std::vector<Plane> planes;
		struct dlbuf_frame f;

		MAY_CHANGE(c.pixelFormat, PixelFormat(edge(), dice(2) ? 0 : edge()));
		MAY_CHANGE(c.size.width, edge());
		MAY_CHANGE(c.size.height, edge());
		MAY_CHANGE(c.stride, edge());
		for (uint32_t n = dice(8) ? 1 + dice(3) : dice(6); n; n--)
			planes.push_back({ fd, dice(4) ? 4096 * n : edge() % UINT32_MAX,
					   dice(4) ? 4096 : edge() });
		FrameBuffer buffer(planes);
		FrameMetadata &m = metadata_of(buffer);
		m.status = static_cast<FrameMetadata::Status>(dice(8) ? 0 : dice(3));
		m.sequence = edge();
		m.timestamp = edge();
		for (FrameMetadata::Plane &p : m.planes())
			p.bytesused = dice(2) ? 4096 : edge();
		memset(static_cast<void *>(&f), 0xff, sizeof(f));
		frames += check_random(dlbuf_libcamera_frame(c, buffer, dice(4) ? &m : nullptr,
							     &f), &f);
	}
	CHECK_MSG(frames > random_rounds() / 20, "%u", frames);
}

TEST(colours)
{
	static const struct {
		const ColorSpace *space;
		struct dlbuf_colour want;
	} rows[] = {
		{ &ColorSpace::Raw, COLOUR(0, 8, 0, DLBUF_RANGE_FULL, 0) },
		{ &ColorSpace::Srgb, COLOUR(1, 13, 0 + 1, DLBUF_RANGE_FULL, 0) },
		{ &ColorSpace::Sycc, COLOUR(1, 13, 6 + 1, DLBUF_RANGE_FULL, 0) },
		{ &ColorSpace::Smpte170m, COLOUR(6, 1, 6 + 1, DLBUF_RANGE_LIMITED, 0) },
		{ &ColorSpace::Rec709, COLOUR(1, 1, 1 + 1, DLBUF_RANGE_LIMITED, 0) },
		{ &ColorSpace::Rec2020, COLOUR(9, 1, 9 + 1, DLBUF_RANGE_LIMITED, 0) },
	};
	SharedFD fd = some_fd();
	FrameBuffer buffer(planes_of(fd, { 0, 4096 }));
	StreamConfiguration c = stream_of(formats::NV12, 64);
	struct dlbuf_frame f;

	for (const auto &row : rows) {
		c.colorSpace = *row.space;
		CHECK_OK(dlbuf_libcamera_frame(c, buffer, nullptr, &f));
		CHECK_COLOUR(&row - rows, &f.colour, row.want);
	}
}

/* A FrameBuffer of the application's own, planes apart by some bytes. */
/* libcamera knows by itself what makes one orientation of another. */
TEST(orientations)
{
	const struct {
		Transform transform;
		enum dlbuf_orientation same;
	} rows[] = {
		{ Transform::Identity, DLBUF_ORIENTATION_NONE },
		{ Transform::Rot90, DLBUF_ORIENTATION_TURN_90 },
		{ Transform::Rot180, DLBUF_ORIENTATION_TURN_180 },
		{ Transform::Rot270, DLBUF_ORIENTATION_TURN_270 },
		{ Transform::HFlip, DLBUF_ORIENTATION_FLIP_X },
		{ Transform::Transpose, DLBUF_ORIENTATION_TRANSPOSE },
		{ Transform::VFlip, DLBUF_ORIENTATION_FLIP_Y },
		{ Transform::Rot180Transpose, DLBUF_ORIENTATION_TRANSVERSE },
	};

	/* The sensor is mounted turned by a quarter clockwise, EXIF's 8. */
	CHECK_EQ(dlbuf_libcamera_orientation(Orientation::Rotate90), DLBUF_ORIENTATION_TURN_270);
	CHECK_EQ(dlbuf_libcamera_orientation(Orientation::Rotate270), DLBUF_ORIENTATION_TURN_90);
	for (const auto &row : rows) {
		for (int o = 1; o <= 8; o++) {
			Orientation stored = static_cast<Orientation>(o);
			Orientation wanted = stored * row.transform;

			CHECK_EQ(dlbuf_libcamera_orientation(stored, wanted), row.same);
		}
	}
}

TEST(pixels_of_a_frame_buffer)
{
	StreamConfiguration c = stream_of(formats::YUV420, 64);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct dlbuf_device *cpu;
	struct dlbuf_udmabuf buf;
	struct dlbuf_frame f;
	uint32_t n = 0;
	uint8_t *p;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	if (dlbuf_udmabuf_create(8192, NULL, &buf))
		SKIP("%s", dlbuf_last_error());
	p = (uint8_t *)mmap(NULL, buf.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			    buf.memfd, 0);
	REQUIRE(p != MAP_FAILED);
	for (size_t i = 0; i < buf.bytes; i++)
		p[i] = uvc_pattern(1, i);
	munmap(p, buf.bytes);
	{
		const unsigned int offsets[] = { 64, 3000, 5000 };
		const int &fd = buf.fd;
		SharedFD shared(fd);	/* a duplicate */
		FrameBuffer buffer(std::vector<Plane>{
			{ shared, offsets[0], 64 * 32 },
			{ shared, offsets[1], 32 * 16 },
			{ shared, offsets[2], 32 * 16 } });

		REQUIRE_OK(dlbuf_libcamera_frame(c, buffer, nullptr, &f));
		REQUIRE_OK(dlbuf_import_frame(cpu, &f, NULL, t, &n));
		REQUIRE(n == 3);
		for (uint32_t i = 0; i < n; i++) {
			const DLTensor &d = t[i]->dl_tensor;
			unsigned int pitch = i ? 32 : 64, bad = 0;

			CHECK_EQ(d.shape[0], i ? 16 : 32);
			CHECK_EQ(d.shape[1], i ? 30 : 60);
			for (int64_t y = 0; y < d.shape[0]; y++)
				for (int64_t x = 0; x < d.shape[1]; x++)
					bad += ((uint8_t *)d.data)
						[y * d.strides[0] + x] !=
						uvc_pattern(1, offsets[i] +
							    y * pitch + x);
			CHECK_EQ(bad, 0);
		}
	}
	/* The FrameBuffer and its fds are gone. */
	delete_tensors(t, n);
	dlbuf_udmabuf_close(&buf);
	dlbuf_device_close(cpu);
}

/* ---- cameras */

struct Capture {
	std::unique_ptr<CameraManager> manager;
	std::shared_ptr<Camera> camera;
	std::unique_ptr<CameraConfiguration> config;
	std::unique_ptr<FrameBufferAllocator> buffers;
	std::vector<std::unique_ptr<Request>> requests;
	std::deque<dlbuf_libcamera_lease> leases;
	Stream *stream = nullptr;
	struct dlbuf_device *cpu = nullptr;

	std::mutex mutex;
	std::condition_variable arrived;
	std::deque<Request *> done;

	void completed(Request *request)
	{
		std::lock_guard<std::mutex> lock(mutex);

		done.push_back(request);
		arrived.notify_one();
	}

	Request *next()
	{
		std::unique_lock<std::mutex> lock(mutex);
		Request *request;

		if (!arrived.wait_for(lock, std::chrono::seconds(300),
				      [this] { return !done.empty(); }))
			return nullptr;
		request = done.front();
		done.pop_front();
		return request;
	}

	dlbuf_libcamera_lease *lease(Request *request)
	{
		return &leases[request->cookie()];
	}

	/* The camera whose name contains this. */
	void open(const char *name, const PixelFormat &format)
	{
		manager = std::make_unique<CameraManager>();
		REQUIRE(!manager->start());
		for (auto &c : manager->cameras())
			if (c->id().find(name) != std::string::npos)
				camera = c;
		if (!camera)
			SKIP("libcamera has no camera %s here", name);
		REQUIRE(!camera->acquire());
		config = camera->generateConfiguration(
			{ StreamRole::VideoRecording });
		REQUIRE(config && config->size() == 1);
		config->at(0).pixelFormat = format;
		config->at(0).size = Size(UVC_WIDTH, UVC_HEIGHT);
		REQUIRE(config->validate() != CameraConfiguration::Invalid);
		CHECK_EQ(config->at(0).pixelFormat.fourcc(), format.fourcc());
		REQUIRE(!camera->configure(config.get()));
		stream = config->at(0).stream();
		buffers = std::make_unique<FrameBufferAllocator>(camera);
		REQUIRE(buffers->allocate(stream) > 0);
		REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
		camera->requestCompleted.connect(this, &Capture::completed);
		REQUIRE(!camera->start());
		for (auto &buffer : buffers->buffers(stream)) {
			requests.push_back(camera->createRequest(leases.size()));
			leases.emplace_back();
			leases.back().camera = camera.get();
			leases.back().request = requests.back().get();
			REQUIRE(!requests.back()->addBuffer(stream,
							    buffer.get()));
			REQUIRE(!camera->queueRequest(requests.back().get()));
		}
	}

	void stop()
	{
		CHECK_EQ(camera->stop(), 0);
	}

	void close()
	{
		camera->requestCompleted.disconnect(this);
		requests.clear();
		buffers.reset();
		config.reset();
		camera->release();
		camera.reset();
		manager->stop();
		manager.reset();
		dlbuf_device_close(cpu);
	}
};

struct Shown {
	Request *request;
	struct dlbuf_frame frame;
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;
};

static void import(Capture &c, Request *request, bool captured, Shown *s)
{
	FrameBuffer *buffer = request->findBuffer(c.stream);

	s->request = request;
	s->n = 0;
	REQUIRE(buffer);
	REQUIRE_OK(dlbuf_libcamera_frame(c.stream->configuration(), *buffer,
					 captured ? &buffer->metadata() : nullptr,
					 &s->frame));
	c.lease(request)->frames = 1;
	s->frame.release = dlbuf_libcamera_release;
	s->frame.release_data = c.lease(request);
	REQUIRE_OK(dlbuf_import_frame(c.cpu, &s->frame, NULL, s->t, &s->n));
}

static void drop(Shown *s)
{
	delete_tensors(s->t, s->n);
}

/* Bytes of the tensors that are not frame `number` of the USB camera's. */
static uint64_t wrong(const Shown *s, uint32_t number)
{
	uint64_t bad = 0;
	size_t at = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const DLTensor &d = s->t[i]->dl_tensor;
		size_t row = d.shape[1] * (d.ndim > 2 ? d.shape[2] : 1);

		CHECK_OK(dlbuf_acquire(s->t[i], DLBUF_READ, NULL, NULL));
		for (int64_t y = 0; y < d.shape[0]; y++)
			for (size_t x = 0; x < row; x++)
				bad += ((uint8_t *)d.data)[y * d.strides[0] + x]
				       != uvc_pattern(number, at++);
		CHECK_OK(dlbuf_release(s->t[i], NULL, NULL));
	}
	return bad;
}

static uint32_t number_of(const Shown *s)
{
	const uint8_t *p = (const uint8_t *)s->t[0]->dl_tensor.data;

	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

/* One frame is held while the others go round, and shows what it showed. */
static void usb(const PixelFormat &format, uint32_t nplanes)
{
	uint32_t number, last, held_number;
	Shown held, s;
	Capture c;

	KTAP_KEEPS(KTAP_HEAP, "libcamera's categories of its log");
	c.open("1d6b:0102", format);
	import(c, c.next(), true, &held);
	REQUIRE(held.n == nplanes);
	CHECK_EQ(held.frame.clock, DLBUF_CLOCK_UNKNOWN);
	CHECK(held.frame.timestamp_ns > 0);
	held_number = last = number_of(&held);
	CHECK_EQ(wrong(&held, held_number), 0);
	for (int i = 0; i < 12; i++) {
		Request *request = c.next();

		REQUIRE(request);
		CHECK(request != held.request);
		import(c, request, true, &s);
		number = number_of(&s);
		CHECK(number > last);
		CHECK_EQ(wrong(&s, number), 0);
		CHECK(s.frame.timestamp_ns > held.frame.timestamp_ns);
		CHECK(s.frame.sequence > held.frame.sequence);
		CHECK_EQ(c.lease(request)->frames, 1);
		drop(&s);
		CHECK_EQ(c.lease(request)->frames, 0);
		CHECK_EQ(c.lease(request)->status, 0);
		last = number;
	}
	CHECK_EQ(wrong(&held, held_number), 0);

	/* Given back, it comes again; after the stop it stays. */
	drop(&held);
	CHECK_EQ(c.lease(held.request)->status, 0);
	for (int i = 0; i < 8; i++) {
		import(c, c.next(), true, &s);
		if (s.request == held.request)
			break;
		drop(&s);
	}
	CHECK(s.request == held.request);
	c.stop();
	number = number_of(&s);
	CHECK_EQ(wrong(&s, number), 0);
	drop(&s);
	CHECK_EQ(c.lease(s.request)->status, -EACCES);
	/* Held over the stop of its session, it queues nothing into the next one. */
	c.lease(s.request)->frames = 1;
	dlbuf_libcamera_disarm(c.lease(s.request));
	dlbuf_libcamera_release(c.lease(s.request));
	CHECK_EQ(c.lease(s.request)->status, -ECANCELED);
	/* Requests that were still queued came back empty. */
	for (Request *request : c.done) {
		FrameBuffer *buffer = request->findBuffer(c.stream);

		if (buffer->metadata().status == FrameMetadata::FrameCancelled)
			CHECK_ERR(dlbuf_libcamera_frame(
					c.stream->configuration(), *buffer,
					&buffer->metadata(), &s.frame), -ENODATA);
	}
	c.close();
}

TEST(usb_camera_packed)
{
	usb(formats::YUYV, 1);
}

TEST(usb_camera_two_planes)
{
	usb(formats::NV12, 2);
}

/*
 * Dma-bufs that libcamera has allocated itself. Of 0.4 the metadata is not
 * written, so that it is not looked at.
 */
TEST(virtual_camera)
{
	struct dlbuf_buffer_info info = {};
	uint8_t bars[8];
	Capture c;
	Shown s;

	KTAP_KEEPS(KTAP_HEAP, "libcamera's categories of its log");
	info.size = sizeof(info);
	c.open("Virtual0", formats::NV12);
	for (int i = 0; i < 8; i++) {
		Request *request = c.next();

		REQUIRE(request);
		import(c, request, false, &s);
		REQUIRE(s.n == 2);
		CHECK_OK(dlbuf_buffer_query(s.frame.planes[0].fd, &info));
		CHECK_OK(dlbuf_acquire(s.t[0], DLBUF_READ, NULL, NULL));
		/* Eight bars, of which the first is the brightest at first. */
		for (int b = 0; b < 8; b++)
			bars[b] = ((uint8_t *)s.t[0]->dl_tensor.data)
				[UVC_HEIGHT / 2 * UVC_WIDTH + b * 40 + 20];
		for (int b = 0; b < 7; b++)
			CHECK(bars[b] > bars[b + 1]);
		CHECK_OK(dlbuf_release(s.t[0], NULL, NULL));
		drop(&s);
		CHECK_EQ(c.lease(request)->status, 0);
	}
	c.stop();
	c.close();
}

/* libcamera's virtual camera exists where this file does. */
static void configure_virtual_camera()
{
	const char *lab = getenv("DLBUF_LAB");
	FILE *f;

	if (!lab || strcmp(lab, "1"))
		return;
	mkdir("/usr/share/libcamera", 0755);
	mkdir("/usr/share/libcamera/pipeline", 0755);
	mkdir("/usr/share/libcamera/pipeline/virtual", 0755);
	f = fopen("/usr/share/libcamera/pipeline/virtual/virtual.yaml", "w");
	if (!f)
		return;
	fprintf(f, "\"Virtual0\":\n  supported_formats:\n"
		"  - width: %u\n    height: %u\n    frame_rates:\n    - 30\n"
		"  test_pattern: \"bars\"\n  location: \"CameraLocationFront\"\n"
		"  model: \"virtual\"\n", UVC_WIDTH, UVC_HEIGHT);
	fclose(f);
}

int main(int argc, char **argv)
{
	configure_virtual_camera();
	setenv("LIBCAMERA_LOG_LEVELS", "*:FATAL", 0);
	{
		/* libcamera makes its permanent objects here. */
		CameraManager first;
		FrameBuffer buffer(std::vector<Plane>{});

		if (!first.start())
			first.stop();
	}
	return ktap_run(argc, argv);
}
