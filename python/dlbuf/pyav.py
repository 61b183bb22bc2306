# SPDX-License-Identifier: MIT
"""PyAV's frames in dma-bufs as tensors: of a screen, or of a hardware's decoder. PyAV
is the program's own, 17.0 or newer, and is not imported.

    import av, dlbuf.pyav

    screen = av.open("-", format="kmsgrab", options={
        "device": "/dev/dri/card0", "format_modifier": "0"})
    for picture in screen.decode(video=0):
        pixels, = dlbuf.pyav.frame(picture)
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from ._dlbuf import Device
from ._errors import InvalidError, UnsupportedError
from ._frames import TensorFrame, import_frame
from ._producers import find_format
from ._types import (Access, Clock, CodeSpace, Colour, Field, FormatInfo,
                     Orientation, Plane, View)

_EINVAL, _ERANGE, _EOPNOTSUPP = 22, 34, 95
_MAX = 4  # AV_DRM_MAX_PLANES


# AVDRMFrameDescriptor of libavutil/hwcontext_drm.h, to which AVFrame.data[0] points:
# objects are dma-bufs; each layer is an image of a DRM format, whose planes are in
# these objects. A picture is one layer, or one layer per plane.


class _Object(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("size", ctypes.c_size_t),
                ("modifier", ctypes.c_uint64)]


class _Plane(ctypes.Structure):
    _fields_ = [("object", ctypes.c_int), ("offset", ctypes.c_ssize_t),
                ("pitch", ctypes.c_ssize_t)]


class _Layer(ctypes.Structure):
    _fields_ = [("format", ctypes.c_uint32), ("nplanes", ctypes.c_int),
                ("planes", _Plane * _MAX)]


class _Descriptor(ctypes.Structure):
    _fields_ = [("nobjects", ctypes.c_int), ("objects", _Object * _MAX),
                ("nlayers", ctypes.c_int), ("layers", _Layer * _MAX)]


def _descriptor(frame: Any) -> Any:
    kind = getattr(getattr(frame, "format", None), "name", None)
    if not isinstance(kind, str) or not hasattr(frame, "planes"):
        raise TypeError(f"a frame is an av.VideoFrame, not {frame!r}")
    if kind != "drm_prime":
        raise InvalidError(_EINVAL, f"the VideoFrame is of {kind}, not of drm_prime: "
                           "hardware frames stay so with av's HWAccel(..., "
                           "is_hw_owned=True), and to_ndarray() is for the others")
    pointer = frame.planes[0].buffer_ptr if frame.planes else 0
    if not pointer:
        raise UnsupportedError(_EOPNOTSUPP, "PyAV does not show the descriptor of the "
                               "VideoFrame: PyAV 17.0 and newer do, of frames that "
                               "have a hw_frames_ctx")
    found: Any = _Descriptor.from_address(pointer)
    if not (1 <= found.nobjects <= _MAX and 1 <= found.nlayers <= _MAX):
        raise InvalidError(_EINVAL, f"the VideoFrame has {found.nobjects} objects and "
                           f"{found.nlayers} layers")
    return found


def _planes(desc: Any) -> tuple[list[Plane], int]:
    """The planes of all layers, and their modifier."""
    planes: list[Plane] = []
    modifiers: list[int] = []
    for i, layer in enumerate(desc.layers[:desc.nlayers]):
        if not 1 <= layer.nplanes <= (1 if desc.nlayers > 1 else _MAX):
            raise InvalidError(_EINVAL, f"layer {i} of {desc.nlayers} of the VideoFrame "
                               f"has {layer.nplanes} planes")
        for p in layer.planes[:layer.nplanes]:
            what = f"plane {len(planes)} of the VideoFrame"
            if not 0 <= p.object < desc.nobjects:
                raise InvalidError(_EINVAL, f"{what} is in object {p.object} of "
                                   f"{desc.nobjects}")
            obj = desc.objects[p.object]
            # 0 means that the size is unknown.
            if p.offset < 0 or p.offset >= obj.size > 0:
                raise InvalidError(_EINVAL if p.offset < 0 else _ERANGE,
                                   f"{what} begins at byte {p.offset} of an object of "
                                   f"{obj.size}")
            planes.append(Plane(obj.fd, p.pitch, p.offset,
                                obj.size - p.offset if obj.size else 0))
            modifiers.append(obj.modifier)
    if len(set(modifiers)) > 1:
        raise UnsupportedError(_EOPNOTSUPP, "the VideoFrame's planes have different "
                               f"modifiers, {', '.join(map(hex, dict.fromkeys(modifiers)))}")
    return planes, modifiers[0]


def _is_plane(layer: int, info: FormatInfo, i: int) -> bool:
    """Whether a layer of that format has the samples of plane i. The names of the
    channels are not compared: NV12's chroma is GR88 to most drivers, RG88 to some."""
    try:
        planes = find_format(layer, CodeSpace.DRM)[0].planes
    except InvalidError:
        return False
    return list(planes) == [info.planes[i]._replace(hsub=1, vsub=1)]


def _together(layers: Sequence[Any], frame: Any, format: str | None) -> int:
    """The DRM code of a picture of several layers."""
    known: Any = getattr(frame, "sw_format", None)
    if format is None and known is None:
        raise UnsupportedError(
            _EOPNOTSUPP, f"the VideoFrame has {len(layers)} layers, and PyAV does not say "
            "what they are together: say format=\"NV12\", or what it is")
    name = known.name if format is None else format
    try:
        info = find_format(name, CodeSpace.FFMPEG if format is None else None)[0]
    except InvalidError:
        if format is not None:
            raise
        info = None
    if not info or not info.drm_code:
        raise UnsupportedError(_EOPNOTSUPP, f"no DRM format has the planes of {name}")
    if len(info.planes) != len(layers):
        raise InvalidError(_EINVAL, f"the VideoFrame has {len(layers)} layers, {name} "
                           f"has {len(info.planes)} planes")
    for i, layer in enumerate(layers):
        if not _is_plane(layer.format, info, i):
            raise InvalidError(_EINVAL, f"layer {i} of the VideoFrame, "
                               f"0x{layer.format:08x}, is not plane {i} of {name}")
    return info.drm_code


def _point(value: int) -> int:
    """FFmpeg has the code points of H.273, in which 2 and 3 say nothing."""
    return value if value == 1 or 3 < value < 255 else 0


def _colour(frame: Any) -> Colour:
    primaries, transfer, matrix = (int(getattr(frame, name, 2)) for name in (
        "color_primaries", "color_trc", "colorspace"))
    sw, site = getattr(frame, "sw_format", None), int(getattr(frame, "chroma_location", 0))
    # The J in the format's name means full range.
    extent = 2 if sw and sw.name.startswith("yuvj") else int(frame.color_range)
    return Colour(_point(primaries), _point(transfer),
                  matrix + 1 if not matrix or _point(matrix) else 0,
                  extent if extent in (1, 2) else 0, site if 0 < site < 7 else 0)


# a, b, c and d of FFmpeg's display matrix: where a step to the right and one down go.
_STEPS = ((1, 0, 0, 1), (0, 1, -1, 0), (-1, 0, 0, -1), (0, -1, 1, 0),
          (-1, 0, 0, 1), (0, 1, 1, 0), (1, 0, 0, -1), (0, -1, -1, 0))


def _orientation(frame: Any) -> Orientation:
    sides = [s for s in getattr(frame, "side_data", None) or ()
             if getattr(getattr(s, "type", None), "name", None) == "DISPLAYMATRIX"]
    if not sides:
        return Orientation.NONE
    a, b, _, c, d, *_ = struct.unpack_from("9i", bytes(sides[0]))
    steps = tuple((n > 0) - (n < 0) for n in (a, b, c, d))
    if steps not in _STEPS:
        raise UnsupportedError(
            _EOPNOTSUPP, f"the VideoFrame's display matrix, {a} {b} {c} {d}, is no turn by "
            "quarters: say orientation=0 to have the picture as it is stored")
    return Orientation(_STEPS.index(steps))


def _time(frame: Any) -> int | None:
    """pts in nanoseconds, rounded as av_rescale_q() does."""
    if frame.pts is None or not frame.time_base or frame.time_base < 0:
        return None
    n, d = frame.pts * frame.time_base.numerator * 10**9, frame.time_base.denominator
    ns = int((2 * abs(n) + d) // (2 * d)) * (-1 if n < 0 else 1)
    return ns if abs(ns) < 1 << 63 else None


def frame(
    frame: Any,
    *,
    format: str | None = None,
    device: Device | str = "cpu",
    view: View | str = View.PLANES,
    access: Access | int | str | None = None,
    may_copy: bool = False,
    orientation: Orientation | int | str | None = None,
) -> TensorFrame:
    """Makes the tensors of an av.VideoFrame of drm_prime.

    The VideoFrame is kept until the last tensor is gone, and with it the decoder's
    buffer. Its layers together are the picture: one layer has the picture's format;
    several, as R8 and GR88, need sw_format, which PyAV has from 18.0 on, or format, a
    name of DRM or FFmpeg. info has the time if pts and time_base are set
    (Clock.STREAM), colour, damaged, and whether it is interlaced. PyAV does not show
    the crop, nor which field is first. orientation is that of the display matrix
    (None), or what you say. The order is UNKNOWN: the import waits for
    the fences that the driver has put there. The options are those of from_frame().

    kmsgrab gives most screens no modifier, which is refused: say
    "format_modifier": "0" if the screen is linear.

    Does not block. Raises UnsupportedError if PyAV does not show the descriptor, for
    planes of different modifiers and for formats that are no tensor; InvalidError for
    a frame that is no drm_prime, and for planes outside their objects.

    >>> import av, dlbuf.pyav
    >>> screen = av.open("-", format="kmsgrab", options={
    ...     "device": "/dev/dri/card1", "format_modifier": "0"})
    >>> pixels, = dlbuf.pyav.frame(next(screen.decode(video=0)), access="read")
    >>> pixels.shape, pixels.frame.format, pixels.frame.clock
    ((800, 1280, 4), 'XRGB8888', Clock.STREAM)
    """
    desc = _descriptor(frame)
    if frame.width <= 0 or frame.height <= 0:
        raise InvalidError(_EINVAL, f"the VideoFrame is {frame.width} pixels wide and "
                           f"{frame.height} high")
    planes, modifier = _planes(desc)
    layers = desc.layers[:desc.nlayers]
    code = layers[0].format if len(layers) == 1 else _together(layers, frame, format)
    kept = [frame]
    return import_frame(
        planes, frame.width, frame.height, code, space=CodeSpace.DRM, modifier=modifier,
        view=view, device=device, access=access, may_copy=may_copy,
        timestamp_ns=_time(frame), clock=Clock.STREAM, colour=_colour(frame),
        field=Field.INTERLACED if frame.interlaced_frame else Field.NONE,
        damaged=bool(frame.is_corrupt), release=kept.clear,
        orientation=_orientation(frame) if orientation is None else orientation)
