# SPDX-License-Identifier: MIT
"""Frames -> a model's input: options, plans, and the way back of boxes."""

from __future__ import annotations

import functools
import importlib
import math
import operator
import os
import re
import struct
import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from numbers import Real
from typing import (TYPE_CHECKING, Any, Literal, NamedTuple, SupportsFloat,
                    TypedDict, TypeVar, overload)

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._camera import parse_size
from ._consumers import from_dlpack
from ._dlbuf import Device, Tensor
from ._errors import AccessError, DeadlineError, Error, InvalidError, UnsupportedError
from ._frames import TensorFrame, frame_args
from ._producers import find_format, formats, integers, nearest
from ._types import CodeSpace, Colour, DLDeviceType, DType, FormatInfo, View, device_name

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_T = TypeVar("_T")
_EACCES, _EINVAL, _EOPNOTSUPP = 13, 22, 95
# A plain int: an enum compares in Python.
_CPU = int(DLDeviceType.CPU)
# Libraries whose arrays never change, which their DLPack does not say: known by their modules.
_IMMUTABLE = ("jax", "jaxlib", "tensorflow")
# Plans of one Preparer, and Preparers of prepare().
_KEPT = 16

# enum dlbuf_size_rule
_EXACT, _SHORTEST, _LONGEST, _BOTH, _PIXELS, _SCALED = range(6)
_FITS = {"stretch": 0, "letterbox": 1, "crop": 2}
_FILTERS = {"bilinear": 0, "nearest": 1, "area": 2, "triangle": 3, "cubic": 4,
            "lanczos3": 5}
_CHANNELS = {"rgb": 0, "bgr": 1, "grey": 2}
_RULES = ({"scaled"}, {"shortest", "longest"}, {"min_pixels", "max_pixels", "multiple"})
# DLBUF_PREPARE_...
_NHWC, _TOP_LEFT, _NO_ENLARGE, _FLIP_X, _FLIP_Y, _CUT_ROUND, _EXACTLY = (
    1 << i for i in range(7))
_FLIPS = {"": 0, "x": _FLIP_X, "y": _FLIP_Y, "xy": _FLIP_X | _FLIP_Y}

Numbers = float | Sequence[float]


class PrepareOptions(TypedDict, total=False):
    """The options of prepare() and Preparer; docs/prepare.md defines the result.

    device: a Device or its name, which prepares: "cpu", or a GPU such as "vulkan:0". "auto":
    the fastest of this machine, as Preparer.device describes it.

    Size. size: (width, height), one number for both, or "640x640": of the tensor.
    fit: "stretch", "letterbox" (bars beside the picture; enlarge=False: never larger
    than it is) or "crop" (the centre; crop_pct: the part that is left of the shorter
    side). In place of fit: shortest, longest or both, sides of the scaled picture;
    min_pixels, max_pixels and multiple; or scaled, its (width, height). Then size may
    be left out, or is the middle of the scaled picture. anchor: "centre" or
    "top-left", where the picture is between bars. cut: "floor", or "round" as
    torchvision: how half a pixel is rounded where a part is cut off.

    Picture. crop: (x, y, width, height), the part of the frame, fractions are allowed.
    turn: quarter turns clockwise, of the upright picture: Frame.orientation comes first.
    flip: "x", "y" or "xy", after the turn. filter:
    "bilinear" (OpenCV), "nearest", "area", and those of Pillow: "triangle", "cubic",
    "lanczos3". colour: a Colour, whose fields that are not 0 replace the frame's.

    Values. channels: "rgb", "bgr" or "grey". layout: "nchw" or "nhwc". dtype:
    float32, float16, bfloat16, uint8 or int8. v of 0 to 255 becomes
    (v * scale - mean) / std; scale is 1/255 for floats and 1 for integers. mean, std
    and pad, the colour of the bars (0 to 255, before scale and mean), are a number or
    one for each channel; pad and anchor need a fit or a rule that makes bars. quant:
    (scale, zero_point) of integers, as in ONNX. A preset's and a file's numbers are
    those of floats: quant= makes integers of them. Without it a preset that has no mean
    and std makes bytes, and others refuse integers; bytes are no int8, which is refused
    where values of 128 to 255 are possible. exact=True: bytes on the CPU are within
    half a unit of the definition, not two thirds, and take longer.

    threads: 1 to 64, which share the rows of a frame on the CPU, with the same result;
    the caller's thread is one of them, and a plan keeps the others. Other devices take
    it and do not use it.

    >>> options: dlbuf.PrepareOptions = {"size": 224, "fit": "crop"}
    """

    device: Device | str
    size: int | Sequence[int] | str
    fit: Literal["stretch", "letterbox", "crop"]
    shortest: int
    longest: int
    min_pixels: int
    max_pixels: int
    multiple: int
    scaled: int | Sequence[int] | str
    crop_pct: float
    anchor: Literal["centre", "top-left"]
    cut: Literal["floor", "round"]
    enlarge: bool
    crop: Sequence[float]
    turn: int
    flip: Literal["", "x", "y", "xy"]
    filter: Literal["bilinear", "nearest", "area", "triangle", "cubic", "lanczos3"]
    colour: Colour
    channels: Literal["rgb", "bgr", "grey"]
    layout: Literal["nchw", "nhwc"]
    dtype: Any
    scale: float
    mean: Numbers
    std: Numbers
    pad: Numbers
    quant: tuple[float, int]
    exact: bool
    threads: int


_IMAGENET: dict[str, Any] = {"mean": (0.485, 0.456, 0.406),
                             "std": (0.229, 0.224, 0.225)}
PRESETS: dict[str, dict[str, Any]] = {
    "yolo": {"size": 640, "fit": "letterbox", "pad": 114},
    "imagenet": {"size": 224, "fit": "crop", "crop_pct": 0.875, "cut": "round",
                 "filter": "triangle", **_IMAGENET},
    "clip": {"size": 224, "fit": "crop", "filter": "cubic",
             "mean": (0.48145466, 0.4578275, 0.40821073),
             "std": (0.26862954, 0.26130258, 0.27577711)},
    "siglip": {"size": 224, "filter": "cubic", "mean": 0.5, "std": 0.5},
}


def refuse(text: str) -> InvalidError:
    """The exception of bad options."""
    return InvalidError(_EINVAL, text)


# ------------------------------------------------------------------ options

def _number(name: str, value: Any) -> float:
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    raise refuse(f"{name}={value!r} is not a number")


def _whole(name: str, value: Any, low: int, high: int) -> int:
    number = None if isinstance(value, bool) else integers([value], 1)
    if number and low <= number[0] <= high:
        return number[0]
    raise refuse(f"{name}={value!r} is not a whole number of {low} to {high}")


def _word(name: str, value: Any, words: dict[str, int]) -> int:
    number = words.get(value.lower()) if isinstance(value, str) else None
    if number is None:
        raise refuse(f"{name}={value!r} is not one of "
                     f"{', '.join(repr(w) for w in words)}")
    return number


def _ordered(value: Any) -> bool:
    """Whether it is a sequence or an array, not text and not a set or a dict."""
    return hasattr(value, "__getitem__") and not isinstance(value, (str, bytes, bytearray, dict))


def _several(name: str, value: Any, n: int, each: bool) -> tuple[float, ...]:
    """n numbers; with `each`, one number is used for all."""
    if each and isinstance(value, Real):
        value = (value,) * n
    numbers = tuple(_number(name, v) for v in value) if _ordered(value) else ()
    if len(numbers) != n:
        what = "one number" if n == 1 else f"a number, or {n}" if each else f"{n} numbers"
        raise refuse(f"{name}={value!r} is not {what}{', for grey' if n == 1 else ''}")
    return numbers


def _box(name: str, value: Any) -> tuple[float, ...]:
    try:
        box = _several(name, value, 4, False)
    except InvalidError:
        raise refuse(f"{name}={value!r} is not (x, y, width, height)") from None
    if box[2] <= 0 or box[3] <= 0:
        raise refuse(f"{name}={value!r}: its sides are {box[2]:g} and {box[3]:g}, not above 0")
    return box


def pair(name: str, value: Any) -> tuple[int, int]:
    """A width and a height, in any of the forms of size."""
    try:
        found = parse_size((value, value) if integers([value], 1) else value)
    except InvalidError:
        found = None
    if not found or max(found) > 32768 or isinstance(value, (bool, bytes, set, dict)):
        raise refuse(f"{name}={value!r} is not one side of 1 to 32768 pixels, a width "
                     'and a height, or text as "640x480"')
    return found


def _has_bars(given: dict[str, Any]) -> bool:
    """Whether any picture could have bars beside it."""
    return (given.get("fit") == "letterbox" or
            "size" in given and bool(set[str]().union(*_RULES) & set(given)))


def _cuts(given: dict[str, Any]) -> bool:
    """Whether any picture could be cut."""
    return given.get("fit") == "crop" or given.get("fit") != "letterbox" and _has_bars(given)


def _rule(given: dict[str, Any]) -> int:
    """Which of the rules for the size."""
    sides = [n for n in ("scaled", "shortest", "longest", "min_pixels", "max_pixels")
             if n in given]
    kinds = {n.split("_")[-1] for n in sides}
    if kinds <= {"pixels"}:
        rule = _PIXELS if kinds else _EXACT
    elif kinds == {"shortest", "longest"}:
        rule = _BOTH
    elif len(kinds) == 1:
        rule = {"scaled": _SCALED, "shortest": _SHORTEST, "longest": _LONGEST}[sides[0]]
    else:
        raise refuse(f"{' and '.join(sides)} are different rules for the size")
    fit = given.get("fit", "stretch")
    for name, bad in (
            ("fit", sides and fit != "stretch"),
            ("crop_pct", fit != "crop"), ("enlarge", fit != "letterbox"),
            ("multiple", rule != _PIXELS), ("cut", not _cuts(given)),
            ("pad", not _has_bars(given)), ("anchor", not _has_bars(given))):
        if name in given and bad:
            of = f"{sides[0]}=" if sides else f"fit={fit!r}"
            raise refuse(f"{name}={given[name]!r} means nothing with {of}")
    if rule == _EXACT and "size" not in given:
        raise refuse("size= is missing: the width and height of the tensor")
    return rule


def _parse(given: dict[str, Any]) -> dict[str, Any]:
    """The options as the extension takes them: fields of C's struct dlbuf_prepare_opts."""
    rule = _rule(given)
    width, height = pair("size", given["size"]) if "size" in given else (0, 0)
    scaled = pair("scaled", given["scaled"]) if "scaled" in given else (0, 0)
    get = given.get
    flags = _word("flip", get("flip", ""), _FLIPS)
    flags |= _word("layout", get("layout", "nchw"), {"nchw": 0, "nhwc": _NHWC})
    flags |= _word("anchor", get("anchor", "centre"), {"centre": 0, "top-left": _TOP_LEFT})
    flags |= _word("cut", get("cut", "floor"), {"floor": 0, "round": _CUT_ROUND})
    for name in ("enlarge", "exact"):
        if get(name, True) not in (True, False):
            raise refuse(f"{name}={get(name)!r} is not True or False")
    flags |= 0 if get("enlarge", True) else _NO_ENLARGE
    flags |= _EXACTLY if get("exact") else 0
    channels = _word("channels", get("channels", "rgb"), _CHANNELS)
    count = 1 if channels == _CHANNELS["grey"] else 3

    def values(name: str, default: float) -> tuple[float, ...]:
        numbers = _several(name, get(name, default), count, True)
        return numbers + (default,) * (3 - count)

    mean, std, scale = values("mean", 0), values("std", 1), 0.0
    crop: tuple[float, ...] = (0.0,) * 4
    if not all(std):
        raise refuse(f"std={get('std')!r}: values are divided by std, which cannot be 0")
    if "scale" in given:
        scale = _number("scale", given["scale"])
        if not scale:
            raise refuse("scale=0 makes all values equal")
    if "crop" in given:
        crop = _box("crop", given["crop"])
    pct = _number("crop_pct", get("crop_pct", 1))
    if not 0 < pct <= 1:
        raise refuse(f"crop_pct={pct:g} is not above 0, and 1 at most")
    dtype = _dtype(get("dtype", "float32"))
    quant = _several("quant", get("quant", (1, 0)), 2, False)
    if "quant" in given and dtype.bits != 8:
        raise refuse(f"quant={given['quant']!r} is for the dtypes uint8 and int8")
    least = -128 if dtype == "int8" else 0
    if quant[0] <= 0 or quant[1] != int(quant[1]) or not 0 <= quant[1] - least <= 255:
        raise refuse(f"quant={given['quant']!r} is not (scale, zero_point): a number above "
                     f"0, and a whole number of {least} to {least + 255}")
    ends = [((scale or 1) * v - m) / s for m, s in zip(mean[:count], std) for v in (0, 255)]
    if dtype == "int8" and "quant" not in given and not -128.5 <= min(ends) <= max(ends) <= 127.5:
        raise refuse(f"dtype='int8' holds -128 to 127, not the values of {min(ends):g} to "
                     f"{max(ends):g}: say quant=(scale, zero_point), as (1, -128) or of a preset "
                     "or file (1/255, -128), or scale=, mean= and std=")
    colour = integers(get("colour", Colour()), len(Colour()))
    if colour is None or not all(0 <= c < 256 for c in colour):
        raise refuse(f"colour={get('colour')!r} is not a dlbuf.Colour")

    def number(name: str, high: int) -> int:
        return _whole(name, given[name], 1, high) if name in given else 0

    return {"crop_x": crop[0], "crop_y": crop[1], "crop_width": crop[2], "crop_height": crop[3],
            "rule": rule, "fit": _word("fit", get("fit", "stretch"), _FITS),
            "width": width, "height": height, "shortest": number("shortest", 32768),
            "longest": number("longest", 32768), "min_pixels": number("min_pixels", 1 << 40),
            "max_pixels": number("max_pixels", 1 << 40), "multiple": number("multiple", 32768),
            "turn": _whole("turn", get("turn", 0), 0, 3), "crop_pct": pct,
            "filter": _word("filter", get("filter", "bilinear"), _FILTERS), "flags": flags,
            "pad": values("pad", 0), "channels": channels, "dtype": str(dtype), "scale": scale,
            "mean": mean, "std": std, "quant_scale": quant[0], "zero_point": int(quant[1]),
            "colour": bytes(colour) + bytes(2), "scaled_width": scaled[0],
            "scaled_height": scaled[1], "threads": number("threads", 64)}


DTYPES = "float32", "float16", "bfloat16", "uint8", "int8"


def _dtype(x: Any) -> DType:
    try:
        found = DType(x)
    except (InvalidError, TypeError):
        found = None
    if found not in DTYPES:
        raise refuse(f"dtype={x!r} is not {', '.join(DTYPES[:-1])} or {DTYPES[-1]}")
    return found


_OF_SIZE = {"fit", "crop_pct", "enlarge"}.union(*_RULES)


def _scale(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The scale of a preset's or a file's numbers, where the dtype is an integer."""
    if "scale" in given or _dtype(given.get("dtype", "float32")).bits != 8:
        return {}
    scale = base.get("scale", 1 / 255)
    if "quant" in given:
        return {"scale": scale}
    units = {n: base[n] for n, unit in (("mean", 0), ("std", 1)) if n in base and
             n not in given and _several(n, base[n], 3, True) != (unit,) * 3}
    if not units and scale in (1, 1 / 255):
        return {"scale": 1.0}       # bytes
    units = units or {"scale": scale}
    raise refuse(f"dtype={given['dtype']!r} has no place for {' and '.join(units)} of the preset "
                 "or file, which make small numbers: say quant=(scale, zero_point), or scale=, "
                 "mean= and std=")


def _over(base: dict[str, Any], given: dict[str, Any], sized: bool = True) -> dict[str, Any]:
    """The options given, over those of a preset or a file, of which go those that mean
    nothing beside them. sized: no more follow from the size of the picture."""
    base, names = base | _scale(base, given), set(given)
    sides, gone = set[str]().union(*_RULES), set[str]()
    if str(given.get("channels")).lower() == "bgr":
        # Theirs are of R, G, B.
        base |= {n: base[n][::-1] for n in ("mean", "std", "pad")
                 if isinstance(base.get(n), tuple)}
    if names & sides - {"multiple"}:
        gone = {"fit", "crop_pct", "enlarge"}.union(*(r for r in _RULES if not r & names))
    elif "fit" in names:
        gone = sides | {n for n, fit in (("crop_pct", "crop"), ("enlarge", "letterbox"))
                        if given["fit"] != fit}
    base = {n: v for n, v in base.items() if n not in gone}
    if sized:
        for means, those in (_has_bars, ("pad", "anchor")), (_cuts, ("cut",)):
            if not means(base | given):
                base = {n: v for n, v in base.items() if n not in those}
    return base | given


def _any_size(sizes: Callable[[int, int], dict[str, Any]]) -> dict[str, Any]:
    """Sizes that sizes() could return, to check the other options before there is a picture."""
    try:
        found = sizes(512, 512)
    except Error:
        found = {"size": 1}     # the picture does not fit
    return found | {"scaled": 1}


def _merged(preset: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options given, over those of a preset; checks the names."""
    unknown = [n for n in options if n not in PrepareOptions.__annotations__]
    if unknown:
        hint = ("; it is of the frame, as from_frame() takes it: turn= and flip= turn the picture"
                if unknown[0] == "orientation" else
                nearest(unknown[0], PrepareOptions.__annotations__))
        raise TypeError(f"there is no option {unknown[0]!r}{hint}")
    if preset is None:
        return options
    if preset not in PRESETS:
        raise refuse(f"there is no preset {preset!r}: there are {', '.join(PRESETS)}")
    return _over(PRESETS[preset], options)


# ------------------------------------------------------------------ frames

# (size, planes, crop, view, flags and times, colour), as frame_args() makes it
_Kind = tuple[Any, ...]


def _make_kind(size: tuple[int, ...], planes: int, crop: tuple[int, ...], orientation: int,
               colour: Colour) -> _Kind:
    return (size, ((-1, 0, 0, 0),) * planes, crop, 0, (0,) * 6 + (orientation,),
            bytes(colour) + bytes(2))


def _check_dtype(format: str, info: FormatInfo, dtype: str) -> None:
    """Refuses planes of another dtype, with the format that has it."""
    if dtype == info.dtype:
        return
    shape = [p[:1] + p[2:] for p in info.planes]
    same = [f for f in formats() if f.dtype == dtype and f.channels == info.channels and
            [p[:1] + p[2:] for p in f.planes] == shape]
    # If several fit, takes the one whose values have all bits.
    name = next((f.drm_name or f.v4l2_name for f in
                 sorted(same, key=lambda f: (-f.depth, not f.drm_name))), None)
    raise UnsupportedError(_EOPNOTSUPP, f"format={format!r} has planes of {info.dtype}, and the "
                           f"first one is {dtype}" + (f': say format="{name}"' if name else ""))


def _columns(info: FormatInfo, row: int) -> int:
    """The pixels of a row of bytes, all of which are pixels."""
    packed = re.search("(10|12|14)P$", info.v4l2_name or "")
    bits = int(packed[1]) if packed else 16
    group = 1 if bits == 16 else 2 if bits == 12 else 4     # samples that share bytes
    return row // (bits * group // 8) * group


def _key_of(tensors: tuple[Tensor, ...], format: str | None) -> tuple[Any, ...]:
    """The arguments of _kind_of_frame() or _kind_of_planes(), which are found without
    looking at them: each frame of a stream has the same."""
    first = tensors[0]
    record = first.frame
    if format is None:
        if record is None:
            raise refuse("planes that are not of a frame need format=, such as "
                         'format="RGB" or format="NV12"')
        return (record.width, record.height, record.code, int(record.space),
                record.modifier, len(record.planes), record.crop and tuple(record.crop),
                int(record.view), int(record.orientation), record.colour)
    if not isinstance(format, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise refuse(f'format={format!r}: it is not a name, such as "RGB" or "NV12"')
    # A frame's planes keep its colour and orientation, also as another format.
    return (format, first.shape, first.dtype, len(tensors),
            int(record.orientation) if record else 0,
            record.colour if record else Colour())


def _kind(key: tuple[Any, ...]) -> _Kind:
    return (_kind_of_planes if isinstance(key[0], str) else _kind_of_frame)(*key)


def _kind_of_frame(width: int, height: int, code: int, space: int, modifier: int, planes: int,
                   crop: tuple[int, ...] | None, view: int, orientation: int, colour: Colour
                   ) -> _Kind:
    views = find_format(code, CodeSpace(space), modifier)[0].views
    # As dlbuf_prepare_tensors() of C; it refuses formats without any.
    wanted = next((v for v in (View.PLANES, View.WORDS, View.ROWS) if v in views), View(view))
    if view != wanted:
        raise refuse(f"the tensors are the view {View(view).name.lower()!r} of the frame, and "
                     f"a model's input is made of its {wanted.name.lower()}: say "
                     f'view="{wanted.name.lower()}" to the Camera or from_frame()')
    return _make_kind((width, height, code, space, modifier), planes, crop or (0,) * 4,
                      orientation, colour)


def _kind_of_planes(format: str, shape: tuple[int, ...], dtype: DType, planes: int,
                    orientation: int, colour: Colour) -> _Kind:
    try:
        info, code, space = find_format(format)
    except InvalidError as e:
        # space= is find_format()'s.
        raise refuse(f"format={format!r}: "
                     f"{str(e.strerror).removesuffix(', or a space')}") from None
    if len(shape) < 2 or not info.planes:
        raise refuse(f"format={format!r}: the first plane is of the shape {shape}, not "
                     "rows and columns")
    first = info.planes[0]
    if len(shape) == 3 and 1 < first.channels != shape[2]:
        group = f", a column for {first.hsub} pixels" if first.hsub > 1 else ""
        raise refuse(f"format={format!r}: the first plane is of the shape {shape}, not [rows, "
                     f"columns, {first.channels}]{group}")
    _check_dtype(format, info, dtype)
    rows = View.ROWS in info.views and not {View.PLANES, View.WORDS} & set(info.views)
    width = _columns(info, shape[1]) if rows else shape[1] * first.hsub
    if rows and (len(shape) > 2 or not width):
        raise refuse(f"format={format!r}: the first plane is of the shape {shape}, not [rows, "
                     "bytes of a row], with whole groups of pixels")
    size = (width, shape[0] * first.vsub, code, int(space), 0)
    return _make_kind(size, planes, (0,) * 4, orientation, colour)


def _on_cpu(what: str, t: Tensor) -> Tensor:
    kind, number = t.__dlpack_device__()
    if kind == _CPU:
        return t
    if _dlbuf.cpu_reaches(kind):
        return from_dlpack(t, device="cpu")
    if t.buffer is None:
        raise UnsupportedError(
            _EOPNOTSUPP, f"{what} is on {device_name(kind, number)} and not of a "
            "dma-buf: the CPU, which prepares frames, cannot reach it")
    return t.to("cpu")


def _on(what: str, t: Tensor, device: Device | None) -> Tensor:
    """t, or the same memory where the device that prepares reaches it."""
    if device is None:
        return _on_cpu(what, t)
    if t.device is device:
        return t
    where = device_name(*t.__dlpack_device__())
    if t.buffer is None:
        raise UnsupportedError(
            _EOPNOTSUPP, f"{what} is on {where} and not of a dma-buf: {device.name}, which "
            "prepares frames, cannot reach it; dlbuf.alloc() makes a dma-buf")
    try:
        return t.to(device)
    except Error as e:
        raise type(e)(e.errno, f"{what} is on {where}, and {device.name}, which prepares "
                      f"frames, cannot import it: {e.strerror}") from None


def _tensors(values: Any) -> tuple[Tensor, ...]:
    if type(values) is TensorFrame and values and not values[0].closed:
        return values
    return tuple(v if isinstance(v, Tensor) else from_dlpack(v) for v in values)


def _arguments(frame: Any, format: str | None, out: Any, index: int
               ) -> tuple[tuple[Tensor, ...], tuple[Any, ...], Tensor | None, int]:
    tensors = _tensors(frame if isinstance(frame, (list, tuple)) else (frame,))
    if not tensors:
        raise refuse("a frame without planes")
    key = _key_of(tensors, format)
    if out is not None and type(out).__module__.partition(".")[0] in _IMMUTABLE:
        raise AccessError(_EACCES, f"out is {type(out).__module__}.{type(out).__name__}, which "
                          "must not change: prepare without out, or into another array")
    target = None if out is None else _tensors([out])[0]
    if type(index) is not int and not integers([index], 1) or not -1 << 63 <= index < 1 << 63:
        raise refuse(f"index={index!r} is not a whole number")
    return tensors, key, target, operator.index(index)


# ------------------------------------------------------------------ info

class PrepareInfo(NamedTuple):
    """Where the picture is in the tensor, and which part of the frame it is.

    >>> picture = dlbuf.from_dlpack(bytes(6 * 8 * 3)).reshape(6, 8, 3)
    >>> x, info = dlbuf.prepare(picture, size=16, fit="letterbox", format="RGB")
    >>> info.scaled_width, info.scaled_height, info.left, info.top
    (16, 12, 0, 2)
    """

    width: int
    """pixels of a row of the tensor"""
    height: int
    """rows of the tensor"""
    channels: int
    """values of a pixel: 3, or 1 for grey"""
    scaled_width: int
    """pixels of a row of the scaled picture"""
    scaled_height: int
    """rows of the scaled picture"""
    left: int
    """pixels of the tensor before the picture; negative: the number that is cut off"""
    top: int
    """rows of the tensor above the picture; negative: the number that is cut off"""
    crop: tuple[float, float, float, float]
    """(x, y, width, height) of the part of the visible picture as it is stored"""
    turn: int
    """quarter turns clockwise, of the frame's orientation and the options together"""
    flip: str
    """"x", "y", "xy" or "", after the turn, likewise"""

    def _place(self, x: float, y: float) -> tuple[float, float]:
        """dlbuf_prepare_map() of C."""
        x = (x - self.left) / self.scaled_width
        y = (y - self.top) / self.scaled_height
        x = 1 - x if "x" in self.flip else x
        y = 1 - y if "y" in self.flip else y
        u, v = ((x, y), (y, 1 - x), (1 - x, 1 - y), (1 - y, x))[self.turn]
        return self.crop[0] + u * self.crop[2], self.crop[1] + v * self.crop[3]

    def map_to_frame(self, boxes: Any) -> Any:
        """Maps points or boxes of the tensor to the frame's visible picture.

        boxes: a point (x, y), a box (x0, y0, x1, y1), a sequence of them, or an
        array (NumPy's, or what numpy.asarray() takes) of the shape [..., 2] or
        [..., 4]; in pixels of the tensor, 0 being the left or upper edge. Returns
        tuples, [] of no boxes, or a new array of float64. A box has x0 <= x1 and y0 <= y1 also after
        a turn or a flip. The results are not limited to the picture: a box on the
        bars of a letterbox is outside of it.

        >>> info = dlbuf.PrepareInfo(640, 640, 3, 640, 360, 0, 140,
        ...                          (0, 0, 1920, 1080), 0, "")
        >>> info.map_to_frame((0, 140, 640, 500))
        (0.0, 0.0, 1920.0, 1080.0)
        """
        if self.scaled_width < 1 or self.scaled_height < 1 or self.turn not in (0, 1, 2, 3):
            raise refuse(f"scaled_width={self.scaled_width}, scaled_height="
                         f"{self.scaled_height}, turn={self.turn}: no prepared picture has these")
        if hasattr(boxes, "__array__") or hasattr(boxes, "__dlpack__"):
            crop: Any = self.crop
            asarray, *corners = _linear(self if type(crop) is tuple else
                                        self._replace(crop=tuple(crop)))
            array = asarray(boxes, float).copy()
            shape = array.shape
            if shape == (0,):
                return array
            if not shape or shape[-1] not in (2, 4):
                raise refuse(f"boxes of the shape {shape}: the last dimension is 2 for points, "
                             "4 for boxes")
            # Each call of NumPy's would cost more than all of it does in C.
            _dlbuf.map_boxes(array, shape[-1] == 4, self.turn % 2, *corners)
            return array
        try:
            # Scalars and arrays of no dimension compute in the types of their own.
            values: list[Any] = [
                v if type(v) is float else
                float(v) if isinstance(v, Real) or getattr(v, "shape", None) == () else v
                for v in boxes]
        except (TypeError, ValueError):
            values = [0.0]
        if not values:
            return []
        numbers = [v for v in values if isinstance(v, float)]
        texts = isinstance(boxes, (str, bytes))
        if not texts and not numbers:
            return [self.map_to_frame(v) for v in values]
        if texts or len(values) not in (2, 4) or numbers != values:
            raise refuse(f"{boxes!r} is not a point (x, y) or a box (x0, y0, x1, y1)")
        places = [self._place(*values[i:i + 2]) for i in range(0, len(values), 2)]
        if len(places) == 1:
            return places[0]
        (x0, y0), (x1, y1) = places
        return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


@functools.lru_cache(maxsize=_KEPT)
def _linear(info: PrepareInfo) -> tuple[Any, ...]:
    """np.asarray(), and the places of (0, 0) and (1, 1), which are all of a linear map."""
    place = info._place  # pyright: ignore[reportPrivateUsage]
    return importlib.import_module("numpy").asarray, *place(0, 0), *place(1, 1)


def _info(fields: tuple[Any, ...]) -> PrepareInfo:
    *sizes, turn, flags = fields
    flip = "x" * bool(flags & _FLIP_X) + "y" * bool(flags & _FLIP_Y)
    return PrepareInfo._make((*sizes, turn, flip))


# ------------------------------------------------------------------ device="auto"

class Trial(NamedTuple):
    """What device="auto" has found of one device: Preparer.trials has them.

    >>> dlbuf.Trial("vulkan:0", None, "there is no libvulkan.so.1").seconds is None
    True
    """

    device: str
    """the name, for Device()"""
    seconds: float | None
    """the median time of a frame, until the CPU can read the tensor; None: excluded"""
    reason: str
    """why the device is excluded, or \"\""""


class _Choice(NamedTuple):
    """What device="auto" has chosen, in the process that has this number."""
    process: int
    device: Device | None       # None: the CPU
    name: str
    trials: tuple[Trial, ...]


# One choice at a time: two would measure each other. A child has a lock of its own, because
# another thread of its parent may hold the parent's.
_choosing = threading.Lock()


def _after_fork() -> None:
    global _choosing
    _choosing = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _choose(key: tuple[Any, ...], tensors: tuple[Tensor, ...], options: dict[str, Any],
            deadline: SupportsFloat | None) -> _Choice:
    """The fastest device for such frames, which are of dma-bufs."""
    # A frame's record has its pitches and offsets; those of other planes are the tensors'.
    record = None if isinstance(key[0], str) else tensors[0].frame
    try:
        device, found = _dlbuf.fastest(frame_args(record) if record else _kind(key), tensors,
                                       options, deadline)
    except DeadlineError:
        raise
    except Error as e:
        # A plan for the CPU says what is wrong, if it is not the planes' layout.
        return _Choice(os.getpid(), None, "cpu", (Trial("cpu", None, str(e.strerror)),))
    trials = tuple(Trial(name, None if errno else ns / 1e9, reason)
                   for name, ns, errno, reason in found)
    return _Choice(os.getpid(), None if device.name == "cpu" else device, device.name, trials)


# ------------------------------------------------------------------ calls

_Plan = tuple[_dlbuf.Plan, PrepareInfo]


# Where a frame is prepared (None: on the CPU), with its planes and out there.
_Place = tuple[Device | str | None, tuple[Tensor, ...], Tensor | None]


def _run(plan: _dlbuf.Plan, tensors: tuple[Tensor, ...], out: Tensor, index: int,
         deadline: SupportsFloat | None, crops: bytes | None = None) -> list[PrepareInfo]:
    infos = plan.run(tensors, out, index, deadline, crops)
    if infos is None:                   # some are on another device
        device = plan.device
        infos = plan.run(tuple(_on("a plane", t, device) for t in tensors),
                         _on("out", out, device), index, deadline, crops)
    return [_info(i) for i in infos] if infos else []


class Preparer:
    """Makes a model's input of frames: scaled, in the model's colours, layout and
    numbers, in one pass over the pixels.

    preset: the name of what a kind of model expects: "yolo" (Ultralytics), "imagenet"
    (torchvision), "clip", "siglip" (Hugging Face). The options are those of
    PrepareOptions, and replace the preset's, with what means nothing beside them: fit
    replaces crop_pct, and shortest replaces fit; size stays that of the tensor;
    channels="bgr" turns its mean, std and pad round.
    from_config() makes a Preparer of a model's own description.

    The call takes a frame and returns (tensor, info): see __call__(). It makes a plan
    at the first frame of a kind (size, format, crop, modifier, colour, orientation) and
    keeps those of up to 16 kinds. Several threads may call it; each has a plan of its own then.
    Copies and pickles are of the options, and make plans of their own. A copy has the
    same Device; a pickle has its name, and raises TypeError for a Device of wrap_cuda()
    and its like.

    Raises InvalidError, a ValueError, for options that cannot be, with their names,
    and TypeError for names that do not exist.

    >>> prepare = dlbuf.Preparer("yolo", size=320)
    >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
    ...     x, info = prepare(next(camera))
    >>> x.shape, x.dtype, info.top
    ((1, 3, 320, 320), 'float32', 70)
    """

    def __init__(self, preset: str | None = None, /,
                 **options: Unpack[PrepareOptions]) -> None:
        self._setup(_merged(preset, dict(options)), None)

    def _setup(self, options: dict[str, Any],
               sizes: Callable[[int, int], dict[str, Any]] | None,
               config: Any = None) -> None:
        # The caller's lists may change.
        self._options = options = {n: _hashable(v) for n, v in options.items()}
        self._config = deepcopy(config) if sizes else None
        device = options.get("device", "cpu")
        if not isinstance(device, (str, Device)):
            raise TypeError(f"device={device!r} is not a Device or the name of one")
        self._auto = device == "auto"
        self._device = None if device in ("cpu", "cpu:0", "auto") else device
        # The device that device="auto" has chosen; later calls keep it.
        self._choice: _Choice | None = None
        # Options that depend on the size of the picture, which it is called with.
        self._sizes = sizes
        parsed = _parse(_any_size(sizes) | options if sizes else options)
        self._parsed = None if sizes else parsed
        self._plans: dict[Any, _Plan] = {}

    @classmethod
    def from_config(cls, config: Any, /,
                    **options: Unpack[PrepareOptions]) -> Self:
        """Makes a Preparer of a model's own description.

        config: a preprocessor_config.json of Hugging Face, a config.json of timm, a
        folder that has one, or what is in it as a dict; timm's pretrained_cfg, too; or
        an object whose to_dict() gives one, as an image processor of transformers. In a
        folder the image_processor of a processor_config.json counts first.
        options replace what the description says, as a preset's. size is another size
        of the tensor, by the file's rule, whose sizes grow with it: the file's own size
        changes nothing. A picture that the file scales to a shortest edge, and does not
        cut, is cut then (fit="crop"). min_pixels and its like replace the file's one by
        one.

        The result is what transformers' image processor (with Pillow) or timm's
        evaluation transform makes of the picture, but for their rounding to 8 bits
        after the scaling: docs/prepare.md has the comparison. A key, or a value of
        one, that would change pixels and cannot be honoured raises UnsupportedError
        with its name.

        >>> p = dlbuf.Preparer.from_config({"input_size": (3, 224, 224),
        ...     "interpolation": "bicubic", "crop_pct": 0.95,
        ...     "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)})
        >>> dlbuf.Preparer.from_config({
        ...     "image_processor_type": "ViTImageProcessor", "size": 224, "resample": 2,
        ...     "do_normalize": False, "do_thumbnail": True})
        Traceback (most recent call last):
        dlbuf.UnsupportedError: [Errno 95] do_thumbnail=True: ...
        """
        from ._models import load_config, read_config
        given = _merged(None, dict(options))
        try:
            found = load_config(config)
            base, read, rule = read_config(found, given)
            sizes = None if isinstance(read, dict) else read
            if set(given) & _OF_SIZE:
                base, sizes = base | rule, None
            elif isinstance(read, dict):
                base |= read
            self = cls.__new__(cls)
            self._setup(_over(base, given, not sizes), sizes, found)
        except RecursionError:
            raise refuse("the configuration is nested too deeply") from None
        return self

    def _state(self) -> dict[str, Any]:
        """Without plans: a copy, also in another process, makes its own."""
        return {n: v for n, v in vars(self).items()
                if n not in ("_sizes", "_parsed", "_plans", "_device", "_auto", "_choice")}

    def __getstate__(self) -> dict[str, Any]:
        device = self._options.get("device")
        if not isinstance(device, Device):
            return self._state()
        if not _dlbuf.opened_by_name(device):
            raise TypeError(f"device={device.name} was opened by a handle, not by its name, "
                            "which another process could open")
        return self._state() | {"_options": self._options | {"device": device.name}}

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__setstate__(self._state())
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()      # the configuration is copied by _setup()

    def __setstate__(self, state: dict[str, Any]) -> None:
        from ._models import read_config
        vars(self).update(state)
        options, config = self._options, self._config
        read = read_config(config, options)[1] if config else None
        self._setup(options, None if isinstance(read, dict) else read, config)

    def __repr__(self) -> str:
        said = ", ".join([repr(self._config)] * bool(self._config) +
                         [f"{k}={v!r}" for k, v in self._options.items()])
        chosen = f" on {self.device}" * (self._auto and self.device != "auto")
        return f"<dlbuf.Preparer{'.from_config' * bool(self._config)}({said}){chosen}>"

    @property
    def device(self) -> str:
        """The name of the device that prepares: "cpu" if the options have none.

        With device="auto" it is "auto" until the first call with a frame in dma-bufs. That
        call prepares the frame several times on the CPU and on each device of this
        machine that can prepare and whose tensor the CPU can read; the device with the least
        median time stays the one of this Preparer, and trials has all of them. The call
        loads the drivers, and can take seconds. dlbuf.prepare() chooses for each set of
        options and format. The tensor of a call without out is then always on the CPU.
        The CPU also prepares what the device cannot: frames, or an out, that are not in
        dma-bufs or that it cannot import, and formats of which it makes no plan. If no other
        device works, the CPU is chosen.

        Threads wait for the thread that chooses. A child of fork(), a copy and a pickle
        choose for themselves, because most drivers work in no child of a process that has
        used them.

        >>> dlbuf.Preparer(size=8).device, dlbuf.Preparer(size=8, device="auto").device
        ('cpu', 'auto')
        """
        choice = self._choice
        if self._auto:
            return choice.name if choice and choice.process == os.getpid() else "auto"
        device = self._device or "cpu"
        return device if isinstance(device, str) else device.name

    @property
    def trials(self) -> tuple[Trial, ...]:
        """What device="auto" has found, the CPU first; () before, and with another device.

        >>> p = dlbuf.Preparer(size=8, device="auto")
        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     x, info = p(next(camera))
        >>> p.trials[0].device, p.device in [t.device for t in p.trials if t.seconds]
        ('cpu', True)
        """
        choice = self._choice
        return choice.trials if choice and choice.process == os.getpid() else ()

    def _place(self, key: tuple[Any, ...], tensors: tuple[Tensor, ...], out: Tensor | None,
               deadline: SupportsFloat | None) -> _Place:
        """Where device="auto" prepares."""
        if any(t.buffer is None for t in (tensors if out is None else (*tensors, out))):
            return None, tensors, out       # only the CPU can reach it
        choice = self._choice
        if not choice or choice.process != os.getpid():
            with _choosing:
                choice = self._choice
                if not choice or choice.process != os.getpid():
                    choice = self._choice = _choose(key, tensors, self._parse_for(_kind(key)),
                                                    deadline)
        if choice.device:
            try:
                return (choice.device,
                        tuple(_on("a plane", t, choice.device) for t in tensors),
                        None if out is None else _on("out", out, choice.device))
            except UnsupportedError:
                pass                # the device cannot import it
        return None, tensors, out

    def _parse_for(self, kind: _Kind, part: tuple[float, ...] | None = None) -> dict[str, Any]:
        """The options for frames of a kind, as the extension takes them. part: the crop, in
        place of the options' own."""
        if self._parsed and not part:
            return self._parsed
        options: dict[str, Any] = dict(self._options)
        if part:
            options["crop"] = part
        if self._sizes:
            (width, height, *_), crop = kind[0], kind[2]
            if crop[2]:
                width, height = crop[2:]
            width, height = options.get("crop", (0, 0, width, height))[2:]
            if (options.get("turn", 0) + kind[4][6]) % 2:
                width, height = height, width
            sizes = self._sizes(width, height)
            if not all(0 < n <= 32768 for n in sizes["scaled"]):
                raise refuse(f"a picture of {width:g}x{height:g} pixels becomes "
                             f"{'x'.join(map(str, sizes['scaled']))} by the file's rule, and a "
                             "side is 1 to 32768 pixels")
            options = sizes | options
        return _parse(options)

    def _make_plan(self, key: tuple[Any, ...], device: Device | str | None,
                   part: tuple[float, ...] | None = None) -> _Plan:
        kind = _kind(key)
        parsed = self._parse_for(kind, part)
        try:
            plan = _dlbuf.Plan(kind, parsed, device)
        except UnsupportedError:
            if not self._auto or device is None:
                raise
            plan = _dlbuf.Plan(kind, parsed, None)      # the CPU makes plans of all formats
        return plan, _info(plan.info)

    @overload
    def __call__(self, frame: Any, /, *, out: None = ..., index: int = ...,
                 format: str | None = ..., deadline: SupportsFloat | None = ...
                 ) -> tuple[Tensor, PrepareInfo]: ...
    @overload
    def __call__(self, frame: Any, /, *, out: _T, index: int = ...,
                 format: str | None = ..., deadline: SupportsFloat | None = ...
                 ) -> tuple[_T, PrepareInfo]: ...

    def __call__(self, frame: Any, /, *, out: Any = None, index: int = 0,
                 format: str | None = None,
                 deadline: SupportsFloat | None = None) -> tuple[Any, PrepareInfo]:
        """Prepares a frame; returns (tensor, info).

        frame: a TensorFrame, the tensors of from_frame(), or planes in memory, such as
        NumPy arrays of a decoder, [H, W] or [H, W, C] each, with format as in
        find_format(): "NV12", "RGB". Tensors of a frame keep its colour; arrays have none,
        and the option colour says it. Formats without planes of values are words: "RGB565"
        is [H, W] of uint16; or rows of bytes without padding, which is sliced off before:
        "SBGGR10P" is [H, ceil(W / 4) * 5] of uint8. What is on another device than the option device is imported
        there, also out: it is then memory of a dma-buf.

        out: a Tensor or any writable array that has DLPack, of the shape [N, C, H, W]
        or [C, H, W] ([N, H, W, C], [H, W, C]), which is written and returned; index is
        the image of the batch. Without out the tensor is a new dlbuf.Tensor with N = 1, in
        plain memory on the CPU: x.numpy() and x.torch() are arrays over it. On another
        device it is a new dma-buf, which x.numpy() maps for the CPU if the device's
        memory allows it, and x.to() imports elsewhere; for many frames give out.

        Waits for the frame's fences until deadline, in seconds of time.monotonic(),
        and computes without the GIL. A GPU waits by itself if it can, and the call
        returns before the GPU has computed: each consumer of the tensor waits for it.
        The frame is still the caller's, and release() may follow.

        Arrays of JAX and TensorFlow are immutable, which the DLPack of TensorFlow and of
        JAX before 0.12 does not say: they are known by the module of their class, and
        refused. A Tensor over one is refused only if it is read-only.

        Raises InvalidError for another shape than out has, AccessError if it is
        read-only or immutable, UnsupportedError for its dtype or device and for formats without
        pixels, DeadlineError.

        >>> t = dlbuf.alloc((2, 3, 8, 8), "float32")
        >>> p = dlbuf.Preparer(size=8)
        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     for i in range(2):
        ...         with next(camera) as frame:
        ...             _, info = p(frame, out=t, index=i)
        """
        tensors, key, target, at = _arguments(frame, format, out, index)
        device = self._device
        if self._auto:
            device, tensors, target = self._place(key, tensors, target, deadline)
        where, made = self._take_plan(key, device)
        try:
            if target is None:
                target, out = self._new(made, 1)
            _run(made[0], tensors, target, at, deadline)
        finally:
            self._keep_plan(where, made)
        return out, made[1]

    def _new(self, made: _Plan, n: int) -> tuple[Tensor, Tensor]:
        """A new tensor of n images for the plan, and for the caller, who with device="auto"
        expects it on the CPU."""
        plan, info = made
        if not self._auto or plan.device is None:
            tensor = plan.new(n)
            return tensor, tensor
        size = (info.height, info.width)
        nhwc = self._options.get("layout", "nchw").lower() == "nhwc"
        shape = (n, *size, info.channels) if nhwc else (n, info.channels, *size)
        there, here = _dlbuf.alloc((plan.device, "cpu"), shape,
                                   self._options.get("dtype", "float32"), None, None, None, ())
        return there, here

    def _take_plan(self, key: tuple[Any, ...], device: Device | str | None
                   ) -> tuple[Any, _Plan]:
        """A plan, until _keep_plan(): meanwhile another thread makes one. A device's is of
        one process."""
        where = (key, os.getpid()) if device else key
        return where, self._plans.pop(where, None) or self._make_plan(key, device)

    def _keep_plan(self, where: Any, plan: _Plan) -> None:
        if len(self._plans) >= _KEPT:
            self._plans.clear()
        self._plans[where] = plan

    @overload
    def crops(self, frame: Any, crops: Any, /, *, out: None = ..., index: int = ...,
              format: str | None = ..., deadline: SupportsFloat | None = ...
              ) -> tuple[Tensor, list[PrepareInfo]]: ...
    @overload
    def crops(self, frame: Any, crops: Any, /, *, out: _T, index: int = ...,
              format: str | None = ..., deadline: SupportsFloat | None = ...
              ) -> tuple[_T, list[PrepareInfo]]: ...

    def crops(self, frame: Any, crops: Any, /, *, out: Any = None, index: int = 0,
              format: str | None = None, deadline: SupportsFloat | None = None
              ) -> tuple[Any, list[PrepareInfo]]:
        """Prepares several parts of a frame as the images of one batch; returns (tensor,
        their infos).

        crops: a sequence or array of (x, y, width, height), each in place of the option
        crop: tiles(), or what a first model has found; map_to_frame() gives the corners
        of these, (x0, y0, x1, y1). Crop i is the image index + i. The rest is as in a
        call with one frame: size, or the crops' equal sizes, make images of one size. By a
        file's rule that looks at the picture, such as DETR's two edges, each crop has a plan
        of its own, which costs more than the plan of all.

        Raises what the call raises, and InvalidError for no crops, and for one that is
        outside of the picture.

        >>> p = dlbuf.Preparer(size=8)
        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     with next(camera) as frame:
        ...         x, infos = p.crops(frame, [(0, 0, 20, 10), (300, 170, 20, 10)])
        >>> x.shape, infos[1].map_to_frame((8, 8))
        ((2, 3, 8, 8), (320.0, 180.0))
        """
        tensors, key, target, at = _arguments(frame, format, out, index)
        boxes = _hashable(crops)
        try:
            boxes = [] if isinstance(boxes, (str, set, dict)) else list(boxes)
        except TypeError:
            boxes = []
        if not boxes:
            raise refuse(f"crops={crops!r} is not a sequence of (x, y, width, height)")
        parts = [_box(f"crops[{i}]", _hashable(b)) for i, b in enumerate(boxes)]
        device = self._device
        if self._auto:
            device, tensors, target = self._place(key, tensors, target, deadline)
        if self._parsed and "size" in self._options:
            data = b"".join(struct.pack("4d", *p) for p in parts)
            where, made = self._take_plan(key, device)
            try:
                if target is None:
                    target, out = self._new(made, len(parts))
                return out, _run(made[0], tensors, target, at, deadline, data)
            finally:
                self._keep_plan(where, made)
        # The sizes follow from the crop's.
        plans = [self._make_plan(key, device, p) for p in parts]
        if len({i[:2] for _, i in plans}) > 1:
            raise refuse(f"crops={crops!r} become images of different sizes; say size=")
        if target is None:
            target, out = self._new(plans[0], len(parts))
        for i, (plan, _) in enumerate(plans):
            _run(plan, tensors, target, at + i, deadline)
        return out, [info for _, info in plans]

    def tiles(self, frame: Any, size: int | Sequence[int] | str | None = None,
              overlap: int | Sequence[int] = 0, *, format: str | None = None
              ) -> list[tuple[float, float, float, float]]:
        """The crops (x, y, width, height), row by row, that cover the picture of a frame.

        size: of a tile, (width, height) or one number for both; None: of the tensor.
        overlap: columns and rows that neighbours share, (x, y) or one number. The last
        tile of a row or column ends with the picture, and shares more.

        Raises InvalidError for an overlap that is not less than the tile.

        >>> p = dlbuf.Preparer(size=160)
        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     with next(camera) as frame:
        ...         tiles = p.tiles(frame)
        ...         x, infos = p.crops(frame, tiles)
        >>> tiles[-1], x.shape
        ((160.0, 20.0, 160.0, 160.0), (4, 3, 160, 160))
        """
        width, height = (0, 0) if size is None else pair("size", size)
        shared: Any = _hashable(overlap)
        if not hasattr(shared, "__len__") or len(shared) != 2:
            shared = shared, shared
        x, y = (_whole("overlap", n, 0, 32768) for n in shared)
        where, made = self._take_plan(_arguments(frame, format, None, 0)[1], self._device)
        try:
            found = made[0].tiles(width, height, x, y)
        finally:
            self._keep_plan(where, made)
        return list(struct.iter_unpack("4d", found))


_preparers: dict[Any, Preparer] = {}


def _hashable(value: Any) -> Any:
    if not isinstance(value, type) and hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(value) if type(value) is list else value  # pyright: ignore


@overload
def prepare(frame: Any, preset: str | None = ..., /, *, out: None = ...,
            index: int = ..., format: str | None = ...,
            deadline: SupportsFloat | None = ..., **options: Unpack[PrepareOptions]
            ) -> tuple[Tensor, PrepareInfo]: ...


@overload
def prepare(frame: Any, preset: str | None = ..., /, *, out: _T, index: int = ...,
            format: str | None = ..., deadline: SupportsFloat | None = ...,
            **options: Unpack[PrepareOptions]) -> tuple[_T, PrepareInfo]: ...


def prepare(frame: Any, preset: str | None = None, /, *, out: Any = None,
            index: int = 0, format: str | None = None,
            deadline: SupportsFloat | None = None, **options: Unpack[PrepareOptions]
            ) -> tuple[Any, PrepareInfo]:
    """Makes a model's input of a frame; returns (tensor, info).

    preset and options are those of Preparer, the rest those of its call. A Preparer
    is kept for each of the last 16 sets of options, so that the next frame of the same
    kind needs no new plan; a program with a Preparer of its own saves the search.

    >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
    ...     x, info = dlbuf.prepare(next(camera), size=(64, 64), fit="letterbox")
    >>> x.shape, info.map_to_frame((32, 32))
    ((1, 3, 64, 64), (160.0, 90.0))
    """
    named: dict[str, Any] = {k: _hashable(v) for k, v in options.items()}
    # As text, where 1 is not True. A Device may be another one of its name. "auto" chooses for
    # each format.
    device = named.get("device")
    kind = None
    if device == "auto":
        tensors = _arguments(frame, format, None, 0)[0]
        kind = format or (tensors[0].frame and tensors[0].frame.format)
    key = preset, repr(named), isinstance(device, Device) and id(device), kind
    found = _preparers.get(key)
    if found is None:
        found = Preparer(preset, **named)
        if len(_preparers) >= _KEPT:
            _preparers.clear()
        _preparers[key] = found
    return found(frame, out=out, index=index, format=format, deadline=deadline)
