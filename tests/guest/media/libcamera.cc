// SPDX-License-Identifier: MIT
/* link: libcamera */

#include <cstring>
#include <iostream>
#include <memory>
#include <semaphore.h>
#include <string>
#include <unistd.h>

#include <libcamera/libcamera.h>

using namespace libcamera;

static sem_t done;

static void completed(Request *)
{
	sem_post(&done);
}

int main()
{
	CameraManager manager;
	char target[256] = "";

	sem_init(&done, 0, 0);
	if (manager.start() || manager.cameras().empty())
		return 1;
	std::shared_ptr<Camera> camera = manager.cameras()[0];
	if (camera->acquire())
		return 1;
	std::unique_ptr<CameraConfiguration> config =
		camera->generateConfiguration({ StreamRole::Viewfinder });
	if (camera->configure(config.get()))
		return 1;
	Stream *stream = config->at(0).stream();
	auto allocator = std::make_unique<FrameBufferAllocator>(camera);
	if (allocator->allocate(stream) < 0)
		return 1;
	FrameBuffer *buffer = allocator->buffers(stream)[0].get();
	std::unique_ptr<Request> request = camera->createRequest();
	request->addBuffer(stream, buffer);
	camera->requestCompleted.connect(completed);
	if (camera->start() || camera->queueRequest(request.get()))
		return 1;
	sem_wait(&done);

	std::string link = "/proc/self/fd/" + std::to_string(buffer->planes()[0].fd.get());
	if (readlink(link.c_str(), target, sizeof(target) - 1) < 0)
		return 1;
	std::cout << camera->id() << ": " << config->at(0).toString() << ", "
		  << buffer->planes().size() << " planes, " << target << "\n";

	camera->stop();
	request.reset();
	allocator.reset();
	camera->release();
	camera.reset();
	manager.stop();
	return strncmp(target, "/dmabuf:", 8) != 0;
}
