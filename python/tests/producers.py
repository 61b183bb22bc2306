# SPDX-License-Identifier: MIT
"""Objects as PyAV, libcamera and Picamera2 show them, made by hand."""

import ctypes
import types

import dlbuf.pyav


class Object(types.SimpleNamespace):
    pass


NV12, R8, GR88, RG88, R16 = (int.from_bytes(c, "little") for c in (
    b"NV12", b"R8  ", b"GR88", b"RG88", b"R16 "))
LAYERS = [(R8, [(0, 0, 64)]), (GR88, [(0, 4096, 64)])]


def video(layers, objects=((5, 8192, 0),), **more):
    """A VideoFrame as PyAV shows it, around a descriptor."""
    desc = dlbuf.pyav._Descriptor()
    desc.nobjects, desc.nlayers = len(objects), len(layers)
    for i, o in enumerate(objects):
        desc.objects[i] = o
    for i, (code, planes) in enumerate(layers):
        desc.layers[i].format, desc.layers[i].nplanes = code, len(planes)
        for j, p in enumerate(planes):
            desc.layers[i].planes[j] = p
    return around(desc, **more)


def around(desc, **more):
    return Object(**{
        "format": Object(name="drm_prime"), "width": 64, "height": 32, "pts": None,
        "time_base": None, "interlaced_frame": False, "is_corrupt": False,
        "colorspace": 2, "color_range": 0, "desc": desc,
        "planes": (Object(buffer_ptr=ctypes.addressof(desc)),)} | more)


def stream(code, modifier=0, stride=64, space=None):
    return Object(pixel_format=Object(
        fourcc=code if isinstance(code, int) else int.from_bytes(code, "little"),
        modifier=modifier), size=Object(width=64, height=32), stride=stride,
        color_space=space)


def buffer(*planes, status="Success", used=()):
    return Object(planes=[Object(fd=f, offset=o, length=n) for f, o, n in planes],
                  metadata=Object(status=Object(name=status), sequence=7, timestamp=9,
                                  planes=[Object(bytes_used=n) for n in used]))


class Request:
    """A CompletedRequest as Picamera2 has them."""

    def __init__(self, **streams):
        self.stream_map = {name: s for name, (s, _) in streams.items()} | {"raw": None}
        self.request = Object(buffers=Buffers(streams.values()))
        self.held = 1

    def acquire(self):
        self.held += 1

    def release(self):
        self.held -= 1


class Buffers(list):
    """A dict whose keys need no hash."""

    def __getitem__(self, stream):
        return next(b for s, b in self if s is stream)
