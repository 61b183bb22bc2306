#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A model's input by the libraries that programs in Python take

    prepare list | prepare.py count|time

The cases, and what is printed, are those of bench/media/prepare.c; bench/media/count runs both.
Each library runs the cases that it supports with the same filter; GStreamer's bilinear, which
becomes wider if the picture shrinks, is compared with bilinear, too. A library that cannot be
imported is left out, and a sentence says so.
"""

import ctypes
import os
import sys
import time

os.environ |= {"EDGEFIRST_FORCE_BACKEND": "cpu", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "RUST_LOG": "warn"}
with open("/proc/cpuinfo") as f:
    if sys.argv[1] == "time" and " avx512f " in f.read():
        # torchvision resizes bytes as bytes where PyTorch says AVX2, not where it says AVX512.
        os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
import numpy as np

COUNT = sys.argv[1] == "count"
COUNTER, GETPPID = 0x646c627566, {"x86_64": 110, "aarch64": 173}[os.uname().machine]
LEAST, TRIES, ENOUGH = 15, 400, 300_000_000
MEAN, STD = np.array([.485, .456, .406], np.float32), np.array([.229, .224, .225], np.float32)
libc = ctypes.CDLL(None)
pipe = os.pipe2(os.O_NONBLOCK)


def now():
    """Instructions so far, or nanoseconds of the CPU."""
    if not COUNT:
        return time.process_time_ns()
    libc.syscall(GETPPID, ctypes.c_uint64(COUNTER), pipe[1])
    return int.from_bytes(os.read(pipe[0], 8), sys.byteorder)


def measure(work):
    # malloc() gives memory back to the kernel at first, and then keeps it.
    for _ in range(3):
        work()
    figures, tries = [], 3 if COUNT else TRIES
    while len(figures) < tries and (COUNT or len(figures) < LEAST or sum(figures) < ENOUGH):
        begin = now()
        work()
        figures.append(now() - begin)
    return min(figures)


class Case:
    def __init__(self, line):
        self.name, self.title, self.format, self.filter, *numbers = line.rstrip("\n").split("\t")
        self.w, self.h, self.ow, self.oh, self.bytes, self.scaled, self.crops = map(int, numbers)
        self.letterbox = self.scaled != self.oh
        self.normalised = self.title.endswith("std")
        ramp = (100 + np.arange(self.w) * 40 // self.w + np.arange(self.h)[:, None] * 30 // self.h).astype(np.uint8)
        self.grey = ramp                                # a smooth picture
        self.rgb = np.ascontiguousarray(np.broadcast_to(ramp[..., None], (self.h, self.w, 3)))

    def bytes_of(self, halves):
        """A frame of half as many bytes for each pixel."""
        return np.resize(self.grey, self.w * self.h * halves // 2).tobytes()

    def floats(self, rgb):
        """The usual code for bytes."""
        if self.bytes:
            return rgb
        x = rgb.transpose(2, 0, 1).astype(np.float32)[None] / 255
        return (x - MEAN[:, None, None]) / STD[:, None, None] if self.normalised else x


def opencv():
    import cv2
    cv2.setNumThreads(1)

    def work(c):
        codes = {"NV12": cv2.COLOR_YUV2RGB_NV12, "YUYV": cv2.COLOR_YUV2RGB_YUY2, "XRGB": cv2.COLOR_BGRA2RGB,
                 "Bayer8": cv2.COLOR_BayerRG2RGB, "RGB": None}
        if c.filter != "bilinear" or c.crops or c.format not in codes:
            return None
        size = (c.ow, c.scaled)
        top = (c.oh - c.scaled) // 2
        frame = {"NV12": lambda: np.resize(c.grey, (c.h * 3 // 2, c.w)), "RGB": lambda: c.rgb,
                 "YUYV": lambda: np.dstack([c.grey, c.grey]), "XRGB": lambda: np.dstack([c.grey] * 4),
                 "Bayer8": lambda: c.grey}[c.format]()

        def run():
            rgb = frame
            if codes[c.format] is not None:
                rgb = cv2.cvtColor(rgb, codes[c.format])
            if (c.w, c.h) != size:
                rgb = cv2.resize(rgb, size, interpolation=cv2.INTER_LINEAR)
            if c.letterbox:
                rgb = cv2.copyMakeBorder(rgb, top, c.oh - c.scaled - top, 0, 0, cv2.BORDER_CONSTANT,
                                         value=(114, 114, 114))
            if c.bytes:
                return rgb
            x = cv2.dnn.blobFromImage(rgb, 1 / 255)
            return (x - MEAN[:, None, None]) / STD[:, None, None] if c.normalised else x
        return run
    return f"OpenCV {cv2.__version__}, Python", work


def pillow():
    import PIL.Image as Image

    def work(c):
        filters = {"triangle": Image.Resampling.BILINEAR, "cubic": Image.Resampling.BICUBIC}
        if c.format != "RGB" or c.filter not in filters:
            return None
        picture = Image.fromarray(c.rgb)
        return lambda: c.floats(np.asarray(picture.resize((c.ow, c.oh), filters[c.filter])))
    return f"Pillow {Image.__version__}", work


def torchvision():
    import torch
    import torchvision
    from torchvision.transforms import v2
    torch.set_num_threads(1)

    def work(c):
        filters = {"triangle": v2.InterpolationMode.BILINEAR, "cubic": v2.InterpolationMode.BICUBIC}
        if c.format != "RGB" or c.filter not in filters:
            return None
        resize = v2.Resize((c.oh, c.ow), filters[c.filter], antialias=True)
        to_floats = v2.ToDtype(torch.float32, scale=True)
        picture = torch.from_numpy(c.rgb).permute(2, 0, 1)

        def run():
            x = resize(picture)
            return x.permute(1, 2, 0).contiguous().numpy() if c.bytes else to_floats(x).contiguous()[None].numpy()
        return run
    return f"torchvision {torchvision.__version__.partition('+')[0]}", work


def gstreamer():
    import gi
    gi.require_version("Gst", "1.0")
    gi.require_version("GstApp", "1.0")
    from gi.repository import Gst, GstApp  # noqa: F401
    Gst.init(None)

    def work(c):
        formats = {"NV12": "NV12", "I420": "I420", "YUYV": "YUY2", "XRGB": "BGRx", "RGB": "RGB"}
        if c.format not in formats or c.filter not in ("bilinear", "triangle") or c.crops:
            return None
        pipeline = Gst.parse_launch(
            f"appsrc name=src format=time caps=video/x-raw,format={formats[c.format]},width={c.w},height={c.h},"
            f"framerate=30/1 ! videoconvertscale method=bilinear add-borders={str(c.letterbox).lower()} ! video/x-raw,"
            f"format=RGB,width={c.ow},height={c.oh},pixel-aspect-ratio=1/1 ! appsink name=sink sync=false")
        src, sink = pipeline.get_by_name("src"), pipeline.get_by_name("sink")
        frame = Gst.Buffer.new_wrapped(c.bytes_of({"RGB": 6, "XRGB": 8, "YUYV": 4}.get(c.format, 3)))
        pipeline.set_state(Gst.State.PLAYING)

        def run():
            src.emit("push-buffer", frame)
            buffer = sink.emit("pull-sample").get_buffer()
            _, info = buffer.map(Gst.MapFlags.READ)
            rgb = np.frombuffer(info.data, np.uint8).reshape(c.oh, -1)[:, :c.ow * 3].reshape(c.oh, c.ow, 3)
            x = rgb.copy() if c.bytes else c.floats(rgb)
            buffer.unmap(info)
            return x
        return run
    return f"GStreamer {'.'.join(map(str, Gst.version()[:3]))}", work


def edgefirst():
    from importlib.metadata import version

    from edgefirst.image import ImageProcessor, PixelFormat
    processor = ImageProcessor()

    def work(c):
        formats = {"NV12": PixelFormat.Nv12, "YUYV": PixelFormat.Yuyv, "RGB": PixelFormat.Rgb}
        if c.format not in formats or c.filter != "bilinear" or not c.bytes or c.crops:
            return None
        src = processor.create_image(c.w, c.h, formats[c.format], "uint8", "readwrite")
        dst = processor.create_image(c.ow, c.oh, PixelFormat.Rgb, "uint8", "readwrite")
        with src.map() as view:
            values = np.frombuffer(view, np.uint8)
            values[:] = np.resize(c.rgb if c.format == "RGB" else c.grey, values.shape)
        options = {"letterbox": [114, 114, 114, 255]} if c.letterbox else {}

        def run():
            processor.convert(src, dst, **options)
            return dst
        return run
    return f"EdgeFirst HAL {version('edgefirst-image')}", work


cases = [Case(line) for line in sys.stdin]
for library in opencv, gstreamer, pillow, torchvision, edgefirst:
    try:
        label, make = library()
    except (ImportError, ValueError) as e:
        print(f"prepare.py: {library.__name__} is not measured: {e}", file=sys.stderr)
        continue
    for case in cases:
        run = make(case)
        if not run:
            continue
        result = run()
        if isinstance(result, np.ndarray):
            shape, dtype = ((case.oh, case.ow, 3), np.uint8) if case.bytes else ((1, 3, case.oh, case.ow), np.float32)
            assert result.shape == shape and result.dtype == dtype, (label, case.name, result.shape, result.dtype)
            mean = result.mean() * (1 if case.bytes else 255)
            assert case.format != "RGB" or abs(mean - case.rgb.mean()) < 2, (label, case.name, mean)
        print(case.name, case.title, label, measure(run), sep="\t", flush=True)
