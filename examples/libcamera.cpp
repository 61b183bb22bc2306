// SPDX-License-Identifier: MIT
/*
 * A camera's frames as tensors: prints how bright ten of them are. Nothing is
 * copied, and each request is queued again when its tensors are gone.
 *
 *	c++ -std=c++17 libcamera.cpp $(pkg-config --cflags --libs dlbuf libcamera) &&
 *	./a.out
 */
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>

#include <libcamera/libcamera.h>

#include <dlbuf/dlbuf.h>
#include <dlbuf/interop/libcamera.hpp>

static std::mutex mutex;
static std::condition_variable arrived;
static std::deque<libcamera::Request *> done;

/* On libcamera's thread, which is not to be kept waiting. */
static void completed(libcamera::Request *request)
{
	std::lock_guard<std::mutex> lock(mutex);

	done.push_back(request);
	arrived.notify_one();
}

static libcamera::Request *next()
{
	std::unique_lock<std::mutex> lock(mutex);
	libcamera::Request *request;

	arrived.wait(lock, [] { return !done.empty(); });
	request = done.front();
	done.pop_front();
	return request;
}

static void check(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "%s: %d, %s\n", what, ret, dlbuf_last_error());
		exit(1);
	}
}

static double mean(const DLTensor &t)
{
	auto *pixels = static_cast<const uint8_t *>(t.data);
	uint64_t sum = 0;

	for (int64_t y = 0; y < t.shape[0]; y++)
		for (int64_t x = 0; x < t.shape[1]; x++)
			sum += pixels[y * t.strides[0] + x * t.strides[1]];
	return (double)sum / (t.shape[0] * t.shape[1]);
}

int main()
{
	struct dlbuf_import_opts luma = {};
	libcamera::CameraManager manager;
	struct dlbuf_device *cpu;

	luma.size = sizeof(luma);
	luma.view = DLBUF_VIEW_LUMA;
	check(dlbuf_device_open("cpu", nullptr, &cpu), "cpu");
	check(manager.start(), "libcamera");
	check(manager.cameras().empty() ? -ENODEV : 0, "a camera");

	auto camera = manager.cameras()[0];
	check(camera->acquire(), "acquire");
	auto config = camera->generateConfiguration(
		{ libcamera::StreamRole::Viewfinder });
	check(camera->configure(config.get()), "configure");
	libcamera::Stream *stream = config->at(0).stream();
	libcamera::FrameBufferAllocator buffers(camera);
	check(buffers.allocate(stream), "allocate");
	std::vector<std::unique_ptr<libcamera::Request>> requests;
	std::deque<dlbuf_libcamera_lease> leases;

	camera->requestCompleted.connect(completed);
	check(camera->start(), "start");
	for (auto &buffer : buffers.buffers(stream)) {
		requests.push_back(camera->createRequest(leases.size()));
		leases.emplace_back();
		leases.back().camera = camera.get();
		leases.back().request = requests.back().get();
		check(requests.back()->addBuffer(stream, buffer.get()), "add");
		check(camera->queueRequest(requests.back().get()), "queue");
	}
	for (int n = 0; n < 10; n++) {
		libcamera::Request *request = next();
		libcamera::FrameBuffer *buffer = request->findBuffer(stream);
		dlbuf_libcamera_lease &lease = leases[request->cookie()];
		DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
		struct dlbuf_frame frame;
		uint32_t nt;

		check(dlbuf_libcamera_frame(stream->configuration(), *buffer,
					    &buffer->metadata(), &frame),
		      "frame");
		frame.orientation = dlbuf_libcamera_orientation(config->orientation);
		lease.frames = 1;
		frame.release = dlbuf_libcamera_release;
		frame.release_data = &lease;
		check(dlbuf_import_frame(cpu, &frame, &luma, t, &nt), "import");
		check(dlbuf_acquire(t[0], DLBUF_READ, nullptr, nullptr), "acquire");
		printf("frame %llu: %.1f\n", (unsigned long long)frame.sequence,
		       mean(t[0]->dl_tensor));
		t[0]->deleter(t[0]); /* releases it, and queues the request */
	}
	camera->stop();
	camera->release();
	dlbuf_device_close(cpu);
	return 0;
}
