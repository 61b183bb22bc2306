#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What people write today to make a model's input of a frame, in Python.

    prepare.py frames [time]        OpenCV and GStreamer, of frames in NV12 and P010
    prepare.py pictures [time]      PyTorch (as torchvision's Resize has it) and Pillow, of a picture in RGB

The works of bench/media/prepare.c. Under -icount the figures are instructions; with "time" nanoseconds of the
CPU, the best of many.
"""

import os
import statistics
import sys
import time

import numpy as np

WHAT, TIMED = sys.argv[1], sys.argv[2:] == ["time"]
FRAMES = 30 if TIMED else 3
WARM_UP = 3
if WHAT == "frames":
    import cv2
    cv2.setNumThreads(1)
else:
    import torch
    from PIL import Image
    torch.set_num_threads(1)


def figure(table, what, value):
    """As record() of bench.h."""
    table = f"{'time' if TIMED else 'cpu'}: a model's input of {table}"
    print(f"{value:<12} {what} ({table})", flush=True)
    path = os.environ.get("BENCH_FIGURES")
    if path:
        with open(path, "a") as f:
            f.write(f"{table}\ttoday\t{value}\t{what}\n")


def about(name, what):
    path = os.environ.get("BENCH_FIGURES")
    if path:
        with open(path, "a") as f:
            f.write(f"{name}\tabout\t0\t{what}\n")


def measure(work):
    # malloc() gives memory back to the kernel at first, and then keeps it.
    for _ in range(WARM_UP):
        work()
    times = []
    for _ in range(FRAMES):
        begin = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - begin)
    return min(times) if TIMED else statistics.median(times)


def letterboxed(rgb):
    small = cv2.resize(rgb, (640, 360), interpolation=cv2.INTER_LINEAR)
    return cv2.copyMakeBorder(small, 140, 140, 0, 0, cv2.BORDER_CONSTANT, value=(114, 114, 114))


def by_gstreamer(nv12, fields):
    """videoconvertscale with bars, then NumPy."""
    import gi
    gi.require_version("Gst", "1.0")
    gi.require_version("GstApp", "1.0")
    from gi.repository import Gst, GstApp  # noqa: F401
    Gst.init(None)
    pipeline = Gst.parse_launch(
        "appsrc name=src format=time caps=video/x-raw,format=NV12,width=1920,height=1080,framerate=30/1 ! "
        f"videoconvertscale method=bilinear add-borders=true ! video/x-raw,{fields} ! appsink name=sink sync=false")
    src, sink = pipeline.get_by_name("src"), pipeline.get_by_name("sink")
    frame = Gst.Buffer.new_wrapped(nv12.tobytes())
    pipeline.set_state(Gst.State.PLAYING)

    def work():
        src.emit("push-buffer", frame)
        buffer = sink.emit("pull-sample").get_buffer()
        _, info = buffer.map(Gst.MapFlags.READ)
        rgb = np.frombuffer(info.data, np.uint8).reshape(640, 640, 3)
        x = np.ascontiguousarray(rgb.transpose(2, 0, 1)[None]).astype(np.float32) / 255
        buffer.unmap(info)
        return x

    return work, lambda: pipeline.set_state(Gst.State.NULL)


def frames():
    random = np.random.default_rng(1)
    nv12 = random.integers(0, 256, (1620, 1920), dtype=np.uint8)
    planes = nv12[:1080], nv12[1080:].reshape(540, 960, 2)
    p010 = random.integers(0, 65536, (3240, 3840), dtype=np.uint16)

    def opencv():
        rgb = cv2.cvtColor(nv12, cv2.COLOR_YUV2RGB_NV12)
        return cv2.dnn.blobFromImage(letterboxed(rgb), 1 / 255)

    def opencv_numpy():
        rgb = letterboxed(cv2.cvtColor(nv12, cv2.COLOR_YUV2RGB_NV12))
        return np.ascontiguousarray(rgb.transpose(2, 0, 1)[None]).astype(np.float32) / 255

    def planes_first():
        y = cv2.resize(planes[0], (640, 360), interpolation=cv2.INTER_LINEAR)
        uv = cv2.resize(planes[1], (320, 180), interpolation=cv2.INTER_LINEAR)
        rgb = cv2.cvtColorTwoPlane(y, uv, cv2.COLOR_YUV2RGB_NV12)
        rgb = cv2.copyMakeBorder(rgb, 140, 140, 0, 0, cv2.BORDER_CONSTANT, value=(114, 114, 114))
        return cv2.dnn.blobFromImage(rgb, 1 / 255)

    def stretched():
        rgb = cv2.cvtColor(nv12, cv2.COLOR_YUV2RGB_NV12)
        return cv2.dnn.blobFromImage(cv2.resize(rgb, (608, 342), interpolation=cv2.INTER_LINEAR), 1 / 255)

    def as_bytes():
        return letterboxed(cv2.cvtColor(nv12, cv2.COLOR_YUV2RGB_NV12))

    def ten_bits():
        rgb = cv2.cvtColor(cv2.convertScaleAbs(p010, alpha=1 / 256), cv2.COLOR_YUV2RGB_NV12)
        return cv2.dnn.blobFromImage(letterboxed(rgb), 1 / 255)

    small = "to 640x360 in 640x640"
    whole = f"1920x1080, NV12, {small}, float32, NCHW"
    figure(whole, "OpenCV: cvtColor, resize, copyMakeBorder, blobFromImage", measure(opencv))
    figure(whole, "OpenCV, then NumPy: transposed, to floats", measure(opencv_numpy))
    figure(whole, "OpenCV: the planes scaled first", measure(planes_first))
    work, end = by_gstreamer(nv12, "format=RGB,width=640,height=640,pixel-aspect-ratio=1/1")
    figure(whole, "GStreamer: videoconvertscale; then NumPy: transposed, to floats", measure(work))
    end()
    figure("1920x1080, NV12, to 608x342, float32, NCHW",
           "OpenCV: cvtColor, resize, blobFromImage", measure(stretched))
    figure(f"1920x1080, NV12, {small}, uint8, NHWC", "OpenCV: cvtColor, resize, copyMakeBorder", measure(as_bytes))
    figure(f"3840x2160, P010, {small}, float32, NCHW",
           "OpenCV: to bytes, cvtColor, resize, copyMakeBorder, blobFromImage", measure(ten_bits))
    about("OpenCV", cv2.__version__)


def pictures():
    rgb = np.random.default_rng(1).integers(0, 256, (1080, 1920, 3), dtype=np.uint8)
    picture = Image.fromarray(rgb)
    for name, mode, resample in (("triangle", "bilinear", Image.Resampling.BILINEAR),
                                 ("cubic", "bicubic", Image.Resampling.BICUBIC)):
        def by_torch():
            # What torchvision's v2.Resize calls for bytes; then ToDtype(float32, scale=True).
            x = torch.from_numpy(rgb).permute(2, 0, 1)[None]
            x = torch.nn.functional.interpolate(x, size=(640, 640), mode=mode, antialias=True, align_corners=False)
            return x.to(torch.float32).div_(255).contiguous()

        def by_pillow():
            small = np.asarray(picture.resize((640, 640), resample))
            return small.transpose(2, 0, 1).astype(np.float32)[None] / 255

        table = f"1920x1080, RGB, to 640x640, {name}, float32, NCHW"
        figure(table, "PyTorch: interpolate() of bytes, antialias=True, to floats", measure(by_torch))
        figure(table, "Pillow: resize(), then NumPy: transposed, to floats", measure(by_pillow))
    about("PyTorch, Pillow", f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), "
          f"Pillow {Image.__version__}")


frames() if WHAT == "frames" else pictures()
