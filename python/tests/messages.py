# SPDX-License-Identifier: MIT
"""Messages to other machines, valid and not, for unit/test_message.py and network/."""

import random

import dlbuf
from dlbuf import _message
from dlbuf._message import PARTS, Message, pack
from dlbuf._types import Frame, Plane

NV12 = int.from_bytes(b"NV12", "little")
WIDTH, HEIGHT, PITCH = 16, 4, 32
LUMA = 3 * PITCH + WIDTH
PAYLOAD = 128 + PITCH + WIDTH
AT = {"head": 0, "frame": 40, "plane": 72, "tensor": 256}


def frame(**other):
    """NV12 of 16x4 pixels, with padding between rows and planes."""
    fields = dict(
        width=WIDTH, height=HEIGHT, format="NV12", code=NV12, space=dlbuf.CodeSpace.DRM,
        modifier=0, channels="Y,UV", planes=(Plane(-1, PITCH, 0, LUMA),
                                             Plane(-1, PITCH, 128, PITCH + WIDTH)),
        crop=(2, 2, 8, 2), view=dlbuf.View.PLANES, sequence=7, timestamp_ns=123,
        clock=dlbuf.Clock.STREAM, field=dlbuf.Field.NONE, order=dlbuf.Order.COMPLETE,
        damaged=True, colour=dlbuf.Colour(1, 1, 2, 1, 1),
        orientation=dlbuf.Orientation.TURN_90)
    return Frame(**{**fields, **other})


def tensor(shape=(1, 3, 4, 8), dtype="float16"):
    return _message.Tensor(dlbuf.dtype(dtype), shape, dlbuf.PrepareInfo(
        8, 4, 3, 8, 2, 0, 1, (0.5, 0, 16, 4), 1, "x"))


FRAME = Message(0x1234, 5, frame(), None)
TENSOR = Message(0x1234, 6, frame(planes=()), tensor())
TENSOR_BYTES = 3 * 4 * 8 * 2
VALID = {"frame": (pack(FRAME, PAYLOAD), PAYLOAD),
         "tensor": (pack(TENSOR, TENSOR_BYTES), TENSOR_BYTES)}


def changed(part, field, value, which="frame", plane=0):
    """A valid message with another value in a field; part is a name of PARTS."""
    data, payload = VALID[which]
    names = list(PARTS[part])
    codes = PARTS[part].values()
    at = AT[part] + plane * 32 + sum(
        _message.struct.calcsize("<" + c) for c in list(codes)[:names.index(field)])
    new = _message.struct.pack("<" + PARTS[part][field], value)
    return data[:at] + new + data[at + len(new):], payload


def resized(data):
    """The message with its own size in its head."""
    return data[:8] + len(data).to_bytes(4, "little") + data[12:]


def hostile(seed):
    """Any number of changes of a valid message: bytes, whole fields, lengths."""
    r = random.Random(seed)
    valid, payload = VALID[r.choice(sorted(VALID))]
    data = bytearray(valid)
    for _ in range(r.choice((1, 1, 1, 2, 3, 8))):
        size = r.choice((1, 2, 4, 8))
        at = r.randrange(len(data) // size) * size
        value = r.choice((0, 1, 2, 3, 4, 16, 64, 128, (1 << 8 * size) - 1, 1 << 8 * size - 1,
                          r.getrandbits(8 * size), int.from_bytes(data[at:at + size], "little") +
                          r.choice((-1, 1))))
        data[at:at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
    if not r.randrange(16):
        data = data[:r.randrange(len(data) + 1)]
    if not r.randrange(16):
        payload = r.choice((0, payload - 1, payload + 1, r.randrange(1 << 20)))
    return bytes(data), payload
