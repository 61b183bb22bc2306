#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Any message of another machine, on its whole way: a session of Zenoh puts it, a Subscriber
refuses it, or receives the frame, which is read to its last element.

    python from_network.py [libFuzzer's options] network/
    python from_network.py --floor PERCENT network/

--floor runs the inputs that are there, without a search, prints the lines of the receiver that
none of them has run, and fails if they are too many.

tests/harness/memfds.c is preloaded: memfds replace dma-bufs. Nothing of Zenoh is replaced. The
session connects to nobody, so that a callback runs inside put().
"""

import ctypes
import json
import os
import sys
import types

import atheris

with atheris.instrument_imports(include=["dlbuf"]):
    import dlbuf
    import dlbuf.zenoh
    from dlbuf import _message

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import zenoh  # noqa: E402
from messages import VALID  # noqa: E402

KEY = "fuzz"
PARTS = sorted(_message.PARTS)
# The bytes of a payload; a buffer of the pool has more.
CONTENT = bytes(1 + (i * 7919 >> 5 ^ i) % 255 for i in range(1 << 16))
NUMBERS = [0, 1, 2, 3, 4, 5, 8, 16, 32, 64, 128, 256, 4096, 1 << 20, 1 << 31, 1 << 32, 1 << 63,
           *(int.from_bytes(code, "little") for code in (
               b"NV12", b"YUYV", b"GREY", b"JPEG", b"BG24", b"pBAA", b"BG10", b"YU12", b"R8  "))]
AT = {"head": 0, "frame": 40, "plane": 72, "tensor": 256}
# Functions of _message.py that a receiver does not call.
SENDER = "pack", "pack_end", "check_own", "_constant_body", "in_real_time", "_write"


def message(p):
    """A valid message with some other fields, or any bytes; and the size of its payload."""
    if p.ConsumeIntInRange(0, 15) == 15:
        data = p.ConsumeBytes(_message.MAX_BYTES + 8)
        return data, p.ConsumeIntInRange(0, 4096)
    valid, payload = VALID[p.PickValueInList(sorted(VALID))]
    data = bytearray(valid)
    for _ in range(p.ConsumeIntInRange(0, 4)):
        part = p.PickValueInList(PARTS)
        fields = _message.PARTS[part]
        field = p.PickValueInList(sorted(fields))
        names = list(fields)
        codes = [fields[n] for n in names]
        at = AT[part] + 32 * (p.ConsumeIntInRange(0, 3) if part == "plane" else 0)
        at += _message.struct.calcsize("<" + "".join(codes[:names.index(field)]))
        size = _message.struct.calcsize("<" + fields[field])
        if size > 8:
            at, size = at + p.ConsumeIntInRange(0, size - 1), 1
        value = p.PickValueInList(NUMBERS) if p.ConsumeBool() else p.ConsumeUInt(size)
        value += p.ConsumeIntInRange(-1, 1)
        data[at:at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
    how = p.ConsumeIntInRange(0, 15)
    if how == 0:
        payload = p.ConsumeIntInRange(0, len(CONTENT))
    elif how == 1:
        # As the head says.
        payload = min(int.from_bytes(data[16:24], "little"), len(CONTENT))
    elif how == 2:
        # Another length, which the head says or not.
        size = p.ConsumeIntInRange(0, 2 * _message.MAX_BYTES)
        data = data[:size] + bytes(max(size - len(data), 0))
        if p.ConsumeBool():
            data[8:12] = size.to_bytes(4, "little")
    elif how == 11:
        # The end of a publication, nearly.
        end = _message.pack_end(_message.End(1, p.ConsumeUInt(8)))
        data, payload = bytearray(end), p.ConsumeIntInRange(0, 1)
        if p.ConsumeBool():
            data[p.ConsumeIntInRange(0, len(data) - 1)] = p.ConsumeUInt(1)
    elif how == 3:
        payload = p.ConsumeIntInRange(0, len(CONTENT))
        data[16:24] = payload.to_bytes(8, "little")
    return bytes(data), payload


class Receiver:
    """A subscriber, and how often it has asked for memory."""

    def __init__(self):
        self.allocated = 0
        self.session = zenoh.open(zenoh.Config.from_json5(json.dumps({
            "mode": "peer", "scouting": {"multicast": {"enabled": False}},
            "listen": {"endpoints": []}, "connect": {"endpoints": []}})))
        self.frames = dlbuf.zenoh.subscribe(KEY, self.session, pool=1, timeout=0,
                                            max_bytes=len(CONTENT) - 1)
        self.nv12 = dlbuf.find_format("NV12")[0]
        alloc = dlbuf.zenoh.alloc

        def counted(*args, **kwargs):
            self.allocated += 1
            return alloc(*args, **kwargs)

        dlbuf.zenoh.alloc = counted


def check(frame, payload):
    """All that it shows is in the payload, as the planes of the frame say."""
    for t in frame:
        first, end = t.extent
        assert 0 <= first <= end <= payload, (t, t.extent, payload)
        data = t.tobytes()
        assert len(data) == t.nbytes
        if t.nbytes == end - first and t.size:
            assert data == CONTENT[first:end], (t, t.extent)
    assert repr(frame) and repr(frame.info)


def one(data):
    p = atheris.FuzzedDataProvider(data)
    # Each input runs the same code, whichever were before it.
    _message._parse_constant.cache_clear()
    frames = receiver.frames
    before = frames.received, frames.refused, receiver.allocated, frames.copied_bytes
    sent, payload = message(p)
    encoding = "zenoh/bytes" if p.ConsumeIntInRange(0, 63) == 63 else dlbuf.zenoh.ENCODING
    how = p.ConsumeIntInRange(0, 15)
    # As subscribe(format="NV12").
    frames._format = receiver.nv12 if how in (6, 7) else None
    receiver.session.put(KEY, CONTENT[:payload], encoding=encoding,
                         attachment=None if how == 8 else sent)
    counted = frames.received + frames.refused - before[0] - before[1]
    if not counted:
        assert isinstance(_message.parse(sent, payload), _message.End) and not payload
        return
    assert counted == 1
    # Nothing is allocated, nor copied, before the frame is wanted.
    assert (receiver.allocated, frames.copied_bytes) == before[2:]
    if frames.refused > before[1]:
        assert frames.refusal
        try:
            next(frames)
        except dlbuf.DeadlineError:
            assert (receiver.allocated, frames.copied_bytes) == before[2:]
            return
        raise AssertionError("a frame of a message that was refused")
    assert 0 < payload < len(CONTENT) and len(sent) <= _message.MAX_BYTES
    with next(frames) as frame:
        check(frame, payload)
    del frame
    assert frames.held == 0 and frames.copied_bytes == before[3] + 2 * payload


# ------------------------------------------------------------------ the floor

def codes_of(thing):
    """The code of functions, and of those inside them."""
    code = getattr(thing, "__code__", thing)
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from codes_of(c)


def receiver_code():
    """Of what a message goes through, from Zenoh's callback to the frame."""
    s = dlbuf.zenoh.Subscriber
    functions = [s._arrived, s._parse, s._count, s._end, s._received, s._fill]
    functions += [f for f in (getattr(f, "__wrapped__", f) for f in vars(_message).values()) if isinstance(f, types.FunctionType) and
                  f.__module__ == _message.__name__ and f.__name__ not in SENDER]
    return {c for f in functions for c in codes_of(f)}


def lines_of(code):
    return {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}


def floor(least, folder):
    codes = receiver_code()
    ran = set()

    def trace(frame, event, _):
        if frame.f_code not in codes:
            return None
        if event == "line":
            ran.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            one(f.read())
    sys.settrace(None)
    lines = {(c.co_filename, line) for c in codes for line in lines_of(c)}
    for path, line in sorted(lines - ran):
        with open(path, encoding="utf-8") as f:
            print(f"# {os.path.basename(path)}:{line}: {f.readlines()[line - 1].strip()}")
    share = 100 * len(lines & ran) // len(lines)
    print(f"# {len(lines & ran)} of {len(lines)} lines, {share} %")
    assert share >= least, f"that is less than {least} %"


ctypes.CDLL(None).memfds_begin()
receiver = Receiver()

if __name__ == "__main__":
    if sys.argv[1] == "--floor":
        floor(int(sys.argv[2]), sys.argv[3])
    else:
        atheris.Setup(sys.argv, one)
        atheris.Fuzz()
