#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dlbuf.pyav, libcamera and picamera2 on real devices: a screen, and the tests' USB
camera (tests/doubles/uvc.c). Each byte is compared.

    build/interop/uvc env PYTHONPATH=... python3 python/tests/lab/lab_producers.py
"""

import doctest
import glob
import importlib
import os
import select
import sys
import weakref

import numpy as np

import dlbuf.libcamera
import dlbuf.picamera2
import dlbuf.pyav
from dlbuf import Clock, Order

from labtools import Skip, case, main, raises
from producers import GR88, NV12, R8, Object, Request, video

WIDTH, HEIGHT = 320, 180        # of the USB camera
BOUND = 600     # seconds, for what is certain to come


def module(name, called):
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Skip(f"there is no {called}") from e


# ------------------------------------------------------------------ PyAV


def screen(**options):
    av = module("av", "PyAV")
    for card in sorted(glob.glob("/dev/dri/card*")):
        try:
            return av.open("-", format="kmsgrab", options={"device": card, **options})
        except OSError:
            continue
    raise Skip("there is no screen")


@case
def pyav_screen():
    """The screen's bytes are in the tensor, and FFmpeg's copy is the same."""
    with screen(format_modifier="0") as grab:
        # The console's cursor is of the screen, too.
        with open("/sys/class/graphics/fbcon/cursor_blink", "w") as blink:
            blink.write("0")
        picture = next(grab.decode(video=0))
        w, h, pts = picture.width, picture.height, picture.pts
        random = np.random.default_rng(1).integers(0, 256, (h, w, 4), np.uint8)
        with open("/dev/fb0", "wb", buffering=0) as fb:
            assert fb.write(random.tobytes()) == random.nbytes
        pixels, = dlbuf.pyav.frame(picture, access="read")
        assert (np.asarray(pixels) == random).all()
        copied = picture.reformat(format="bgra").planes[0]
        rows = np.frombuffer(copied, np.uint8).reshape(h, -1)[:, :w * 4].reshape(h, w, 4)
        assert (np.asarray(pixels)[..., :3] == rows[..., :3]).all()
        i = pixels.frame
        assert (i.format, i.clock, i.timestamp_ns) == ("XRGB8888", Clock.STREAM, pts * 1000)
        # The tensor keeps the VideoFrame, whose fd it is.
        del picture, copied, rows
        os.fstat(i.planes[0].fd)
        del pixels
        raises(OSError, lambda: os.fstat(i.planes[0].fd))
    # One that says no modifier is refused.
    with screen() as grab:
        picture = next(grab.decode(video=0))
        raises(dlbuf.UnsupportedError, lambda: dlbuf.pyav.frame(picture), "unknown")


@case
def pyav_other_frames():
    """PyAV's own frames that are no drm_prime."""
    av = module("av", "PyAV")
    raises(dlbuf.InvalidError, lambda: dlbuf.pyav.frame(av.VideoFrame(64, 32, "nv12")),
           "of nv12, not of drm_prime")
    raises(TypeError, lambda: dlbuf.pyav.frame(av.Packet(9)), "an av.VideoFrame")


@case
def pyav_layers():
    """Two layers in two dma-bufs, and their lease."""
    y, uv = (dlbuf.alloc(n, "uint8") for n in (64 * 32, 64 * 16))
    random = np.random.default_rng(2)
    for t in y, uv:
        np.asarray(t)[...] = random.integers(0, 256, t.shape, np.uint8)
    picture = video([(R8, [(0, 0, 64)]), (GR88, [(1, 0, 64)])],
                    [(y.fd, y.nbytes, 0), (uv.fd, uv.nbytes, 0)],
                    sw_format=Object(name="nv12"), width=62)
    gone, frame = weakref.ref(picture), dlbuf.pyav.frame(picture)
    del picture
    assert frame.info.code == NV12 and gone()
    for got, t in zip(frame, (y, uv)):
        want = np.asarray(t).reshape(-1, 64)[:, :62]
        assert (np.asarray(got).reshape(-1, 62) == want).all()
    frame.release()
    assert not gone()


# ------------------------------------------------------------------ libcamera


class Camera:
    """The USB camera with four buffers; completed requests, one after another."""

    def __init__(self, format):
        lib = module("libcamera", "libcamera for Python")
        self.manager = lib.CameraManager.singleton()
        found = [c for c in self.manager.cameras if "USB" in c.id]
        if not found:
            raise Skip("there is no USB camera")
        self.camera, self.running = found[0], True
        self.camera.acquire()
        self.config = self.camera.generate_configuration([lib.StreamRole.Viewfinder])
        one = self.config.at(0)
        one.pixel_format, one.buffer_count = lib.PixelFormat(format), 4
        one.size = lib.Size(WIDTH, HEIGHT)
        self.config.validate()
        self.camera.configure(self.config)
        self.stream = one.stream
        self.allocator = lib.FrameBufferAllocator(self.camera)
        assert self.allocator.allocate(self.stream) == 4
        self.requests = []
        for b in self.allocator.buffers(self.stream):
            self.requests.append(self.camera.create_request())
            self.requests[-1].add_buffer(self.stream, b)
        self.camera.start()
        for r in self.requests:
            self.camera.queue_request(r)

    def __iter__(self):
        while True:
            ready = select.select([self.manager.event_fd], [], [], BOUND)
            assert ready[0], "no picture"
            yield from self.manager.get_ready_requests()

    def again(self, request):
        if self.running:
            request.reuse()
            self.camera.queue_request(request)

    def close(self):
        self.running = False
        self.camera.stop()
        self.manager.get_ready_requests()
        del self.requests, self.allocator
        self.camera.release()


def pattern(n, size):
    """uvc_pattern() of uvc.h."""
    i = np.arange(size)
    bytes_ = ((i * 7 + (i >> 8) + n * 13) & 255).astype(np.uint8)
    bytes_[:4] = np.frombuffer(n.to_bytes(4, "little"), np.uint8)
    return bytes_


def check(frame):
    """The number of the picture that the frame is."""
    got = np.concatenate([np.asarray(t).reshape(-1) for t in frame])
    n = int.from_bytes(got[:4].tobytes(), "little")
    assert (got == pattern(n, got.size)).all(), n
    return n


@case
def libcamera_pictures():
    for format, planes in ("YUYV", 1), ("NV12", 2):
        camera, numbers, held = Camera(format), [], None
        for request in camera:
            buffer = request.buffers[camera.stream]
            frame = dlbuf.libcamera.frame(camera.stream, buffer,
                                          release=lambda r=request: camera.again(r))
            numbers.append(check(frame))
            i = frame.info
            assert (len(frame), i.format, i.width, i.height) == (planes, format, 320, 180)
            assert (i.sequence, i.timestamp_ns) == (buffer.metadata.sequence,
                                                    buffer.metadata.timestamp)
            assert (i.clock, i.order, i.damaged) == (Clock.UNKNOWN, Order.COMPLETE, False)
            # One is held, and the camera goes round with the others.
            if held is None:
                held = frame
            del frame
            if len(numbers) == 9:
                break
        assert numbers == sorted(set(numbers)), numbers
        assert check(held) == numbers[0]
        early = dlbuf.libcamera.frame(camera.config.at(0), buffer, metadata=None)
        assert early.info.sequence is None and early.info.order is Order.UNKNOWN
        del buffer, request, early
        camera.close()
        # The memory outlives the camera.
        assert check(held) == numbers[0]
        del held
        dlbuf.Device("cpu").trim()


class Completed(Request):
    """Picamera2's, around a request of libcamera."""

    def __init__(self, camera, request):
        self.camera, self.request = camera, request
        self.stream_map, self.held = {"main": camera.stream, "lores": None}, 1

    def release(self):
        super().release()
        assert self.held >= 0
        if not self.held:
            self.camera.again(self.request)


@case
def picamera2_requests():
    camera, numbers = Camera("NV12"), []
    for request in camera:
        completed = Completed(camera, request)
        with dlbuf.picamera2.frame(completed) as frame:
            assert completed.held == 2
            completed.release()
            numbers.append(check(frame))
            assert completed.held == 1
        assert completed.held == 0
        if len(numbers) == 9:
            break
    assert numbers == sorted(set(numbers)), numbers
    last = Completed(camera, request)
    raises(dlbuf.Error, lambda: dlbuf.picamera2.frame(last, view="cfa"))
    raises(dlbuf.InvalidError, lambda: dlbuf.picamera2.frame(last, "lores"), "it has main")
    assert last.held == 1
    del request, completed, last
    camera.close()


@case
def producers_documentation():
    """The examples of the docstrings."""
    module("av", "PyAV")
    for adapter in dlbuf.pyav, dlbuf.libcamera:
        test = doctest.DocTestFinder().find(adapter.frame, globs={"dlbuf": dlbuf})[0]
        assert not doctest.DocTestRunner().run(test).failed, adapter.__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
