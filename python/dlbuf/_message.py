# SPDX-License-Identifier: MIT
"""The message beside the bytes of a frame that goes to another machine: docs/wire.md.

All of it comes from a network: parse() checks each byte, before anything is allocated.
"""

from __future__ import annotations

import functools
import math
import struct
import time
from typing import Any, NamedTuple, NoReturn

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._errors import Error, InvalidError, UnsupportedError
from ._frames import frame_args
from ._prepare import DTYPES, PrepareInfo
from ._producers import best_view, find_format, name_in
from ._types import (MOD_LINEAR, Clock, CodeSpace, Colour, DType, Field, Frame, Order,
                     Orientation, Plane, View, dtype_name, parse_dtype)

_EINVAL, _EPROTO = 22, 71
MAGIC, VERSION = 0x4E424C44, 1
FRAME, TENSOR, END = 1, 2, 3
MAX_PLANES = 4
# [1, channels, height, width] or [1, height, width, channels].
NDIM = 4
# The largest range and hue that struct dlbuf_colour can have.
_MAX_RANGE = _MAX_HUE = 2
# Planes begin at multiples of it, which no element is larger than.
ALIGN = 64

# The fields of each part: names, and the codes of the struct module. docs/wire.md has them.
_HEAD = {"magic": "I", "version": "H", "kind": "H", "bytes": "I", "reserved": "I",
         "payload": "Q", "publisher": "Q", "number": "Q"}
_FRAME = {"width": "I", "height": "I", "code": "I", "code_space": "I", "modifier": "Q",
          "nplanes": "I", "flags": "I", "planes": "128s", "crop": "16s", "colour": "8s",
          "timestamp_ns": "q", "sequence": "Q", "clock": "I", "field": "I", "order": "I",
          "orientation": "I"}
_PLANE = {"buffer": "I", "reserved": "I", "offset": "Q", "pitch": "q", "bytes": "Q"}
_TENSOR = {"code": "B", "bits": "B", "lanes": "H", "ndim": "B", "channels": "B", "turn": "B",
           "flip": "B", "width": "I", "height": "I", "scaled_width": "I", "scaled_height": "I",
           "left": "i", "top": "i", "crop": "32s"}
PARTS = {"head": _HEAD, "frame": _FRAME, "plane": _PLANE, "tensor": _TENSOR}
# Little-endian, without padding.
_STRUCTS = {name: struct.Struct("<" + "".join(fields.values()))
            for name, fields in PARTS.items()}
_CROP, _BOX, _DIM = struct.Struct("<4I"), struct.Struct("<4d"), struct.Struct("<q")
_FIXED = _STRUCTS["head"].size + _STRUCTS["frame"].size
# The fields that differ between the frames of a stream, and their place in a message. The other
# fields are read and written once, and kept.
_VARYING = struct.Struct("<qQ")                 # timestamp_ns, sequence
_AT = _STRUCTS["head"].size + struct.calcsize(
    "<" + "".join(_FRAME.values()).partition("qQ")[0])
_PAYLOAD_AT = struct.calcsize("<" + "".join(_HEAD.values()).partition("QQQ")[0])
_KEPT = 16
# The largest message has so many bytes.
MAX_BYTES = _FIXED + _STRUCTS["tensor"].size + NDIM * _DIM.size
_DAMAGED, _SEQUENCE = 1, 2
_FLIPS = "", "x", "y", "xy"
# Numbers of a crop are not larger, which those of a frame's pixels cannot be.
_MAX_PLACE = 1 << 32
# Counts from the boot of the sender, which mean nothing elsewhere.
_FROM_BOOT = {Clock.MONOTONIC: time.CLOCK_MONOTONIC, Clock.BOOTTIME: time.CLOCK_BOOTTIME}


class Tensor(NamedTuple):
    """A model's input: its elements are compact, the last dimension first."""

    dtype: DType
    shape: tuple[int, ...]
    prepared: PrepareInfo


class Message(NamedTuple):
    """A valid message. Without a tensor the payload has the frame's planes, whose offsets are
    from its beginning; with one it has the tensor, and the frame is what that was made of."""

    publisher: int
    number: int
    frame: Frame
    tensor: Tensor | None


class End(NamedTuple):
    """A publisher's last message, without a payload. number is that of the message that would
    be next."""

    publisher: int
    number: int


class Refused(UnsupportedError):
    """A message that is not valid: EPROTO."""


def _refuse(text: str) -> NoReturn:
    raise Refused(_EPROTO, text)


def in_real_time(frame: Frame) -> Frame:
    if frame.clock not in _FROM_BOOT or frame.timestamp_ns is None:
        return frame
    ahead = time.time_ns() - time.clock_gettime_ns(_FROM_BOOT[frame.clock])
    return frame._replace(clock=Clock.REALTIME, timestamp_ns=frame.timestamp_ns + ahead)


def _write(part: str, **values: Any) -> bytes:
    return _STRUCTS[part].pack(*(values[name] for name in PARTS[part]))


def _read(part: str, data: bytes, at: int) -> dict[str, Any]:
    return dict(zip(PARTS[part], _STRUCTS[part].unpack_from(data, at), strict=True))


def pack(message: Message, payload: int) -> bytes:
    """The message of a payload of so many bytes."""
    f = in_real_time(message.frame)
    try:
        kind, before, after = _constant_body(f._replace(
            sequence=None if f.sequence is None else 0, timestamp_ns=0,
            clock=Clock.NONE if f.timestamp_ns is None else f.clock), message.tensor)
        body = before + _VARYING.pack(f.timestamp_ns if f.timestamp_ns and f.clock else 0,
                                      f.sequence or 0) + after
    except struct.error as e:
        raise InvalidError(_EINVAL, "a number of the frame does not fit a message: "
                           f"sequence {f.sequence}, timestamp_ns {f.timestamp_ns}, "
                           f"crop {f.crop}: {e}") from None
    return _write("head", magic=MAGIC, version=VERSION, kind=kind,
                  bytes=_STRUCTS["head"].size + len(body), reserved=0, payload=payload,
                  publisher=message.publisher, number=message.number) + body


def check_own(data: bytes, payload: int, checked: bytes) -> bytes:
    """Raises InvalidError for a message of this publisher that no subscriber would take. Returns
    the part that was looked at: if the next message has the same, it is valid, too."""
    constant = data[_PAYLOAD_AT:_PAYLOAD_AT + 8] + data[_STRUCTS["head"].size:_AT] + \
        data[_AT + _VARYING.size:]
    if constant != checked:
        try:
            parse(data, payload)
        except Refused as e:
            raise InvalidError(_EINVAL, f"no subscriber takes this frame: {e.strerror}") from None
    return constant


def pack_end(end: End) -> bytes:
    return _write("head", magic=MAGIC, version=VERSION, kind=END, bytes=_STRUCTS["head"].size,
                  reserved=0, payload=0, publisher=end.publisher, number=end.number)


@functools.lru_cache(maxsize=_KEPT)
def _constant_body(f: Frame, tensor: Tensor | None) -> tuple[int, bytes, bytes]:
    """The kind, and the bytes before and after the varying fields."""
    planes = b"".join(_write("plane", buffer=0, reserved=0, offset=p.offset, pitch=p.pitch,
                             bytes=p.bytes) for p in f.planes)
    body = _write(
        "frame", width=f.width, height=f.height, code=f.code, code_space=f.space,
        modifier=f.modifier, nplanes=len(f.planes),
        flags=_DAMAGED * f.damaged | _SEQUENCE * (f.sequence is not None),
        planes=planes, crop=_CROP.pack(*f.crop or (0, 0, 0, 0)), colour=bytes(f.colour),
        timestamp_ns=0, sequence=0, clock=f.clock, field=f.field, order=Order.COMPLETE,
        orientation=f.orientation)
    if tensor:
        code, bits, lanes = parse_dtype(tensor.dtype)
        i = tensor.prepared
        body += _write(
            "tensor", code=code, bits=bits, lanes=lanes, ndim=len(tensor.shape),
            channels=i.channels, turn=i.turn, flip=_FLIPS.index(i.flip), width=i.width,
            height=i.height, scaled_width=i.scaled_width, scaled_height=i.scaled_height,
            left=i.left, top=i.top, crop=_BOX.pack(*i.crop))
        body += b"".join(map(_DIM.pack, tensor.shape))
    at = _AT - _STRUCTS["head"].size
    return TENSOR if tensor else FRAME, body[:at], body[at + _VARYING.size:]


def _one_of(kind: Any, name: str, value: int, *without: Any) -> Any:
    if value not in kind.__members__.values() or value in without:
        _refuse(f"{name} {value} is not one of a message's")
    return kind(value)


def _planes(f: dict[str, Any], payload: int) -> tuple[Plane, ...]:
    """In order, not overlapping, inside the payload."""
    size, end, planes = _STRUCTS["plane"].size, 0, list[Plane]()
    for i in range(f["nplanes"]):
        p = _read("plane", f["planes"], i * size)
        if p["buffer"] or p["reserved"]:
            _refuse(f"plane {i}: buffer {p['buffer']}, reserved {p['reserved']}, not 0")
        if p["offset"] % ALIGN or p["offset"] < end or not p["bytes"]:
            _refuse(f"plane {i}: {p['bytes']} bytes at {p['offset']}; planes are not empty, begin "
                    f"at multiples of {ALIGN}, and follow one another")
        end = p["offset"] + p["bytes"]
        if end > payload:
            _refuse(f"plane {i} ends at byte {end}, after the {payload} of the payload")
        if not 0 <= p["pitch"] <= payload:
            _refuse(f"plane {i}: a pitch of {p['pitch']} bytes")
        planes.append(Plane(-1, p["pitch"], p["offset"], p["bytes"]))
    if any(f["planes"][f["nplanes"] * size:]):
        _refuse(f"bytes after the {f['nplanes']} planes are not 0")
    return tuple(planes)


def _frame(f: dict[str, Any], payload: int, kind: int) -> Frame:
    if not (f["nplanes"] == 0 if kind == TENSOR else 1 <= f["nplanes"] <= MAX_PLANES):
        _refuse(f"{f['nplanes']} planes")
    if f["flags"] & ~(_DAMAGED | _SEQUENCE):
        _refuse(f"unknown flags 0x{f['flags']:x}")
    if any(f["colour"][6:]):
        _refuse("reserved bytes of the colour are not 0")
    colour = Colour(*f["colour"][:6])
    if colour.range > _MAX_RANGE or colour.hue > _MAX_HUE:
        _refuse(f"the colour has range {colour.range} and hue {colour.hue}, of which the largest "
                f"are {_MAX_RANGE} and {_MAX_HUE}")
    space = _one_of(CodeSpace, "code_space", f["code_space"], CodeSpace.GSTREAMER,
                    CodeSpace.FFMPEG)
    clock = _one_of(Clock, "clock", f["clock"], *_FROM_BOOT)
    _one_of(Order, "order", f["order"], Order.IMPLICIT, Order.FENCE)
    if not f["width"] or not f["height"]:
        _refuse(f"a frame of {f['width']}x{f['height']}")
    try:
        info = find_format(f["code"], space, f["modifier"])[0]
    except Error as e:
        _refuse(str(e.strerror))
    if f["modifier"] != MOD_LINEAR and space != CodeSpace.LIBCAMERA:
        _refuse(f"modifier 0x{f['modifier']:x}: only rows are sent")
    crop = _CROP.unpack(f["crop"])
    return Frame(
        f["width"], f["height"], name_in(info, f["code"], space), f["code"], space,
        f["modifier"], info.channels, _planes(f, payload), crop if any(crop) else None,
        best_view(info), 0 if f["flags"] & _SEQUENCE else None, 0 if clock else None, clock, _one_of(Field, "field", f["field"]),
        Order.COMPLETE, bool(f["flags"] & _DAMAGED), colour,
        _one_of(Orientation, "orientation", f["orientation"]))


def _tensor(data: bytes, payload: int) -> Tensor:
    at = _FIXED + _STRUCTS["tensor"].size
    if len(data) < at:
        _refuse(f"{len(data)} bytes are too few for a tensor")
    t = _read("tensor", data, _FIXED)
    if t["ndim"] != NDIM or len(data) != at + NDIM * _DIM.size:
        _refuse(f"{len(data)} bytes and {t['ndim']} dimensions; a tensor of {NDIM} has "
                f"{at + NDIM * _DIM.size}")
    shape = tuple(n for n, in _DIM.iter_unpack(data[at:]))
    try:
        dtype = dtype_name(t["code"], t["bits"], t["lanes"])
    except Error as e:
        _refuse(str(e.strerror))
    if dtype not in DTYPES:
        _refuse(f"{dtype} is not the type of a prepared picture")
    c, h, w = t["channels"], t["height"], t["width"]
    if shape not in ((1, c, h, w), (1, h, w, c)):
        _refuse(f"a tensor of {shape} is no picture of {w}x{h} with {c} channels")
    if math.prod(shape) * t["bits"] // 8 != payload:
        _refuse(f"a tensor of {shape} and {dtype} in {payload} bytes")
    crop = _BOX.unpack(t["crop"])
    sizes = t["channels"], t["width"], t["height"], t["scaled_width"], t["scaled_height"]
    if not all(sizes) or t["turn"] > 3 or t["flip"] > 3 or \
            not all(-_MAX_PLACE <= n <= _MAX_PLACE for n in crop) or min(crop[2:]) <= 0:
        _refuse("no prepared picture has its place: " + ", ".join(f"{k} {v}" for k, v in t.items()
                                                                  if k != "crop"))
    return Tensor(dtype, shape, PrepareInfo(
        t["width"], t["height"], t["channels"], t["scaled_width"], t["scaled_height"],
        t["left"], t["top"], crop, t["turn"], _FLIPS[t["flip"]]))


def parse(data: bytes, payload: int, view: View | None = None,
          max_bytes: int = 1 << 63) -> Message | End:
    """The message of a payload of so many bytes; raises Refused with the reason.

    view: the tensors that will be made of a frame, which are inside its planes then.
    """
    if len(data) < _STRUCTS["head"].size:
        _refuse(f"{len(data)} bytes are too few for a message")
    head = _read("head", data, 0)
    if head["magic"] != MAGIC:
        _refuse(f"magic 0x{head['magic']:08x} is not that of a message")
    if head["version"] != VERSION:
        _refuse(f"the message has version {head['version']}, this dlbuf knows {VERSION}")
    if head["kind"] not in (FRAME, TENSOR, END) or head["reserved"]:
        _refuse(f"kind {head['kind']}, reserved {head['reserved']}")
    if head["bytes"] != len(data):
        _refuse(f"{len(data)} bytes, and not {head['bytes']} as it says")
    if head["kind"] == END:
        if len(data) != _STRUCTS["head"].size or payload or head["payload"]:
            _refuse(f"the end of a publication with {len(data)} bytes and a payload of {payload}")
        return End(head["publisher"], head["number"])
    if len(data) < _FIXED:
        _refuse(f"{len(data)} bytes are too few for a message")
    if head["payload"] != payload or not 0 < payload <= max_bytes:
        _refuse(f"a payload of {payload} bytes; the message says {head['payload']}, and at most "
                f"{max_bytes} are taken")
    timestamp_ns, sequence = _VARYING.unpack_from(data, _AT)
    frame, tensor = _parse_constant(head["kind"], data[_STRUCTS["head"].size:_AT],
                                    data[_AT + _VARYING.size:], payload, view)
    if timestamp_ns and not frame.clock or sequence and frame.sequence is None:
        _refuse("a timestamp without a clock, or a sequence without its flag")
    if timestamp_ns or sequence:
        frame = frame._replace(sequence=None if frame.sequence is None else sequence,
                               timestamp_ns=timestamp_ns if frame.clock else None)
    return Message(head["publisher"], head["number"], frame, tensor)


@functools.lru_cache(maxsize=_KEPT)
def _parse_constant(kind: int, before: bytes, after: bytes, payload: int, view: View | None
                    ) -> tuple[Frame, Tensor | None]:
    """What the bytes before and after the varying fields say, of which those that are there
    are 0. A refusal is not kept."""
    data = bytes(_STRUCTS["head"].size) + before + bytes(_VARYING.size) + after
    frame, tensor = _frame(_read("frame", data, _STRUCTS["head"].size), payload, kind), None
    if kind == TENSOR:
        tensor = _tensor(data, payload)
    elif len(data) != _FIXED:
        _refuse(f"{len(data)} bytes for a frame")
    else:
        shown = frame if view is None else frame._replace(view=view)
        # All rows, of which a crop shows a part, are in the payload.
        for f in dict.fromkeys((frame._replace(crop=None), shown)):
            try:
                _dlbuf.check_frame(frame_args(f))
            except Error as e:
                _refuse(str(e.strerror))
        frame = shown
    return frame, tensor
