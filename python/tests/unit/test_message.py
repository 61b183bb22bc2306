# SPDX-License-Identifier: MIT
"""The message to other machines: written, read, and each way to be wrong."""

import os
import re
import struct
import time

import pytest

import dlbuf
from dlbuf import _message
from dlbuf._message import MAX_BYTES, PARTS, End, Message, Refused, pack, pack_end, parse

from messages import (FRAME, PAYLOAD, TENSOR, TENSOR_BYTES, VALID, changed, frame, hostile,
                      resized, tensor)


def read(*args):
    """A message that is not an end."""
    m = parse(*args)
    assert isinstance(m, Message)
    return m


@pytest.mark.parametrize("message, payload", [
    (FRAME, PAYLOAD), (TENSOR, TENSOR_BYTES),
    (Message(0, 0, frame(crop=None, sequence=None, timestamp_ns=None,
                         clock=dlbuf.Clock.NONE, damaged=False), None), PAYLOAD),
    (Message((1 << 64) - 1, (1 << 64) - 1, frame(sequence=(1 << 64) - 1, timestamp_ns=-1),
             None), PAYLOAD),
    (Message(1, 2, frame(planes=()), tensor((1, 4, 8, 3), "bfloat16")), 192),
    (Message(1, 2, frame(planes=(), colour=dlbuf.Colour(255, 255, 255, 2, 255, 2)),
             tensor(dtype="uint8")), 96)])
def test_round_trip(message, payload):
    data = pack(message, payload)
    assert parse(data, payload) == message and len(data) <= MAX_BYTES


def test_bytes():
    """The order of bytes is fixed."""
    data = VALID["frame"][0]
    assert data[:4] == b"DLBN" and len(data) == 256
    assert data[40:52] == b"\x10\0\0\0\x04\0\0\0NV12"


def test_clocks_of_a_boot():
    for clock, now in (dlbuf.Clock.MONOTONIC, time.monotonic_ns), (
            dlbuf.Clock.BOOTTIME, lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME)):
        before, ns = time.time_ns(), now()
        got = read(pack(FRAME._replace(frame=frame(clock=clock, timestamp_ns=ns)), PAYLOAD),
                    PAYLOAD).frame
        assert got.clock is dlbuf.Clock.REALTIME
        # Not an assertion on time: both are the same moment, but for clocks that are set.
        assert abs(got.timestamp_ns - before) < 3600 * 10**9


FIELDS = [
    ("head", "magic", 0x46424C44, "magic"), ("head", "version", 2, "has version 2"),
    ("head", "version", 0, "has version 0"), ("head", "kind", 0, "kind 0"),
    ("head", "kind", 4, "kind 4"), ("head", "kind", 3, "the end of a publication with 256 bytes"),
    ("head", "kind", 2, "2 planes"),
    ("head", "bytes", 263, "not 263"), ("head", "reserved", 1, "reserved 1"),
    ("head", "payload", PAYLOAD - 1, "payload"), ("head", "payload", 0, "payload"),
    ("frame", "width", 0, "0x4"), ("frame", "height", 0, "16x0"),
    ("frame", "width", 17, None), ("frame", "height", 6, None),
    ("frame", "width", (1 << 32) - 2, None),
    ("frame", "height", (1 << 32) - 2, None),
    ("frame", "code", 0x12345678, "no code"), ("frame", "code_space", 0, "code_space 0"),
    ("frame", "code_space", 4, "code_space 4"), ("frame", "code_space", 6, "code_space 6"),
    ("frame", "modifier", 1, "modifier 0x1"), ("frame", "modifier", dlbuf.MOD_INVALID, "modifier"),
    ("frame", "nplanes", 0, "0 planes"), ("frame", "nplanes", 5, "5 planes"),
    ("frame", "nplanes", 1, "not 0"), ("frame", "nplanes", 3, "plane 2"),
    ("frame", "flags", 4, "flags 0x4"), ("frame", "flags", 1, "without its flag"),
    ("frame", "clock", 0, "without a clock"), ("frame", "crop", struct.pack("<4I", 0, 0, 17, 4), None),
    ("frame", "crop", struct.pack("<4I", 1, 0, 8, 4), None),
    ("frame", "crop", struct.pack("<4I", 0xFFFFFFF0, 0, 0x20, 4), None),
    ("frame", "colour", b"\1\1\2\1\1\0\0\1", "colour"),
    ("frame", "colour", b"\1\1\2\3\1\0\0\0", "range 3"),
    ("frame", "colour", b"\1\1\2\1\1\3\0\0", "hue 3"),
    ("frame", "clock", 1, "clock 1"), ("frame", "clock", 3, "clock 3"),
    ("frame", "clock", 6, "clock 6"), ("frame", "field", 9, "field 9"),
    ("frame", "order", 2, "order 2"), ("frame", "order", 3, "order 3"),
    ("frame", "order", 4, "order 4"), ("frame", "orientation", 8, "orientation 8"),
    ("plane", "buffer", 1, "buffer 1"), ("plane", "reserved", 1, "reserved 1"),
    ("plane", "offset", 8, "multiples"), ("plane", "offset", 64, "multiples"),
    ("plane", "offset", 1 << 63, "ends"), ("plane", "pitch", -32, "pitch of -32"),
    ("plane", "pitch", 15, None), ("plane", "pitch", 64, None),
    ("plane", "pitch", 1 << 62, "pitch"),
    ("plane", "bytes", 0, "0 bytes"), ("plane", "bytes", 111, None),
    ("plane", "bytes", 129, "multiples"), ("plane", "bytes", (1 << 64) - 1, "ends"),
]
OF_TENSORS = [
    ("tensor", "bits", 0, "dtype"), ("tensor", "bits", 4, "float4"),
    ("tensor", "bits", 32, "float32"), ("tensor", "lanes", 0, "dtype"),
    ("tensor", "bits", 128, "float128 is not"), ("tensor", "bits", 64, "float64 is not"),
    ("tensor", "lanes", 2, "x2"), ("tensor", "code", 6, "dtype"), ("tensor", "ndim", 3, "3 dim"),
    ("tensor", "ndim", 5, "5 dim"), ("tensor", "channels", 0, "0 channels"),
    ("tensor", "channels", 4, "no picture of 8x4 with 4 channels"),
    ("tensor", "width", 4, "no picture of 4x4"), ("tensor", "height", 8, "no picture of 8x8"),
    ("tensor", "turn", 4, "turn 4"), ("tensor", "flip", 4, "flip 4"),
    ("tensor", "width", 0, "of 0x4"), ("tensor", "height", 0, "of 8x0"),
    ("tensor", "scaled_width", 0, "scaled_width 0"),
    ("tensor", "scaled_height", 0, "scaled_height 0"),
    ("tensor", "crop", struct.pack("<4d", 0, 0, float("nan"), 1), "place"),
    ("tensor", "crop", struct.pack("<4d", 0, 0, float("inf"), 1), "place"),
    ("tensor", "crop", struct.pack("<4d", 0, 0, 0, 1), "place"),
    ("tensor", "crop", struct.pack("<4d", -1e10, 0, 1, 1), "place"),
    ("tensor", "crop", struct.pack("<4d", 0, 0, 1e308, 1), "place"),
    ("tensor", "crop", struct.pack("<4d", 0, 0, 1, -1), "place"),
    ("tensor", "code", 3, "is not the type"), ("tensor", "code", 255, "code"),
    ("head", "kind", 1, "0 planes"), ("frame", "nplanes", 1, "1 planes"),
    ("frame", "planes", b"\1" + bytes(127), "not 0"),
    ("frame", "width", 0, "0x4"), ("frame", "height", 0, "16x0"),
]


@pytest.mark.parametrize("part, field, value, words", FIELDS)
def test_refused(part, field, value, words):
    with pytest.raises(Refused, match=words and re.escape(words)):
        parse(*changed(part, field, value))


@pytest.mark.parametrize("part, field, value, words", OF_TENSORS)
def test_refused_tensors(part, field, value, words):
    with pytest.raises(Refused, match=words and re.escape(words)):
        parse(*changed(part, field, value, "tensor"))


@pytest.mark.parametrize("shape, payload", [
    ((0, 3, 4, 8), 0), ((-1, -3, 4, 8), 192), ((1, 1 << 32, 1 << 32, 1), 192),
    ((1 << 62, 4, 3, 8), 192), ((1, 3, 4, 8), 191), ((1, 3, 8, 4), 192), ((1, 4, 3, 8), 192),
    ((2, 3, 4, 4), 192), ((3, 4, 8), 192), ((1, 1, 3, 4, 8), 192), ((), 2), ((96,), 192)])
def test_refused_shapes(shape, payload):
    with pytest.raises(Refused):
        parse(pack(TENSOR._replace(tensor=tensor(shape)), payload), payload)


def test_refused_bits():
    """Two elements in one byte."""
    with pytest.raises(Refused, match="float4"):
        parse(pack(TENSOR._replace(tensor=tensor(dtype="float4_e2m1fn")), 48), 48)


@pytest.mark.parametrize("which", VALID)
def test_refused_lengths(which):
    data, payload = VALID[which]
    for n in range(len(data)):
        with pytest.raises(Refused):
            parse(data[:n], payload)
        with pytest.raises(Refused):
            parse(resized(data[:n]) if n > 12 else b"", payload)
    for wrong in (data + b"\0", payload), (resized(data + b"\0"), payload), (
            resized(data + bytes(8)), payload), (data, payload - 1), (data, payload + 1), (data, 0):
        with pytest.raises(Refused):
            parse(*wrong)


def test_limits():
    data, payload = VALID["frame"]
    assert parse(data, payload, max_bytes=payload)
    with pytest.raises(Refused, match="at most 175"):
        parse(data, payload, max_bytes=payload - 1)


def test_views():
    """A view that the format does not have is refused, before there is a buffer."""
    data, payload = VALID["frame"]
    assert read(data, payload, dlbuf.View.LUMA).frame.view is dlbuf.View.LUMA
    with pytest.raises(Refused, match="(?i)view|NV12"):
        parse(data, payload, dlbuf.View.CFA)


def test_every_byte():
    """What is accepted is inside the payload, and is the same when it is sent on."""
    taken = 0
    for seed in range(20000):
        data, payload = hostile(seed)
        try:
            m = read(data, payload)
        except Refused:
            continue
        taken += 1
        if m.tensor:
            count = 1
            for n in m.tensor.shape:
                count *= n
            assert count * m.tensor.dtype.itemsize == payload
        else:
            end = 0
            for p in m.frame.planes:
                assert end <= p.offset and p.offset + p.bytes <= payload
                end = p.offset + p.bytes
        assert parse(pack(m, payload), payload) == m
    assert taken > 1000


def test_the_end():
    data = pack_end(End((1 << 64) - 1, 7))
    assert len(data) == 40 and parse(data, 0) == End((1 << 64) - 1, 7)
    assert parse(data, 0, dlbuf.View.LUMA, 1) == End((1 << 64) - 1, 7)
    for wrong, payload in (data, 1), (data[:-1], 0), (data + b"\0", 0), (resized(data + b"\0"), 0), (
            data[:12] + b"\1" + data[13:], 0), (data[:16] + b"\1" + data[17:], 0), (
            data[:16] + b"\1" + data[17:], 1), (data[:4] + b"\2" + data[5:], 0), (
            data[:6] + b"\1" + data[7:], 0), (data[:6] + b"\2" + data[7:], 0):
        with pytest.raises(Refused):
            parse(wrong, payload)


def test_a_stream():
    """Its first message is read and written as a whole. The others have their own times and
    numbers, and are checked."""
    kept = _message._constant_body, _message._parse_constant
    for f in kept:
        f.cache_clear()
    for n in range(5):
        for first in FRAME, TENSOR:
            m = first._replace(number=n, frame=first.frame._replace(
                sequence=n, timestamp_ns=n - 2))
            payload = PAYLOAD if first is FRAME else TENSOR_BYTES
            assert parse(pack(m, payload), payload) == m
    assert [f.cache_info().misses for f in kept] == [2, 2]
    for at, without in (224, {"clock": dlbuf.Clock.NONE}), (232, {"sequence": None}):
        m = FRAME._replace(frame=frame(**{"timestamp_ns": 0, "sequence": 0, **without}))
        data = pack(m, PAYLOAD)
        assert parse(data, PAYLOAD)
        with pytest.raises(Refused, match="without"):
            parse(data[:at] + b"\1" + data[at + 1:], PAYLOAD)


def test_document():
    """docs/wire.md has each field, where it is."""
    path = os.path.join(os.path.dirname(__file__), "../../../docs/wire.md")
    with open(path) as f:
        page = f.read().partition("## To another machine")[2].partition("\n## ")[0]
    for part, fields in PARTS.items():
        table = page.partition(f"\n### {part.capitalize()}\n")[2].partition("\n#")[0]
        at, want = 0, []
        for name, code in fields.items():
            size = struct.calcsize("<" + code)
            want.append((at, size, name))
            at += size
        got = re.findall(r"^\| (\d+) \| (\d+) \| `(\w+)` \|", table, re.M)
        assert [(int(a), int(b), c) for a, b, c in got] == want, part
    assert f"0x{_message.MAGIC:x}" in page and f"multiple of {_message.ALIGN}" in page
