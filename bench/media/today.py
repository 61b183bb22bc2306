#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Today's usual code for a camera's frames as arrays in Python.

    today.py [WIDTHxHEIGHT [FRAMES]]

Prints lines of letter, CPU time of this process a frame in nanoseconds (under
-icount: instructions), bytes of the frame that the program moved, and what it
is. Run by bench/media/run.
"""

import statistics
import sys
import time

WARM_UP = 5


def measure(read, frames):
    """The median of the CPU time from one frame to the next."""
    times = []
    last = time.process_time_ns()
    moved = 0
    for _ in range(frames + WARM_UP):
        moved = read()
        now = time.process_time_ns()
        times.append(now - last)
        last = now
    return statistics.median(times[WARM_UP:]), moved


def appsink(width, height, frames):
    """GStreamer's appsink, as its Python examples have it."""
    import gi
    gi.require_version("Gst", "1.0")
    gi.require_version("GstApp", "1.0")
    from gi.repository import Gst, GstApp  # noqa: F401
    import numpy as np

    Gst.init(None)
    pipeline = Gst.parse_launch(
        f"v4l2src ! video/x-raw,format=NV12,width={width},height={height} ! "
        "appsink name=sink sync=false max-buffers=2 drop=false")
    sink = pipeline.get_by_name("sink")
    pipeline.set_state(Gst.State.PLAYING)

    def read():
        sample = sink.emit("pull-sample")
        buffer = sample.get_buffer()
        ok, info = buffer.map(Gst.MapFlags.READ)
        assert ok
        array = np.frombuffer(info.data, np.uint8).copy()
        buffer.unmap(info)
        return array.nbytes

    result = measure(read, frames)
    pipeline.set_state(Gst.State.NULL)
    return result


def opencv(width, height, frames):
    """OpenCV's VideoCapture, which gives BGR."""
    import cv2

    camera = cv2.VideoCapture(0)
    camera.set(cv2.CAP_PROP_FRAME_WIDTH, width)
    camera.set(cv2.CAP_PROP_FRAME_HEIGHT, height)

    def read():
        ok, image = camera.read()
        assert ok and image.shape[:2] == (height, width), "no such size"
        return image.nbytes

    result = measure(read, frames)
    camera.release()
    return result


def main():
    size = sys.argv[1] if len(sys.argv) > 1 else "1920x1080"
    width, height = map(int, size.split("x"))
    frames = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    for letter, what, run in (
            ("e", "GStreamer: v4l2src ! appsink, copied into NumPy", appsink),
            ("f", "OpenCV: VideoCapture.read(), as BGR", opencv)):
        try:
            cost, moved = run(width, height, frames)
        except (ImportError, ValueError, AssertionError) as e:
            print(f"{letter}\t-\t-\t{what}: not run: {e}", flush=True)
            continue
        print(f"{letter}\t{int(cost)}\t{moved}\t{what}", flush=True)


main()
