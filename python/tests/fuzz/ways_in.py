#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Any bytes as what a producer hands over: capsules, the exchange API, array
interfaces, buffers and addresses. What is accepted has the counts and the bytes
that an oracle in Python's unbounded integers says, and no other; where these bytes
lie in real memory every way out is read. Where tests/harness/memfds.c is preloaded
memfds stand for dma-bufs: they are imported, sent and pickled, too.

    python ways_in.py [libFuzzer's options] corpus/ways_in

As tests/fuzz/frame.c, the input is a string of small decisions.
"""

import ctypes
import itertools
import mmap
import os
import pickle
import socket
import sys
import weakref
from multiprocessing.reduction import ForkingPickler

import atheris
import numpy as np

with atheris.instrument_imports(include=["dlbuf"]):
    import dlbuf
    import dlbuf.multiprocessing
    from dlbuf import _cuda

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from interop import _memory  # noqa: E402
from interop._memory import Versioned  # noqa: E402
from table import exchanged  # noqa: E402

BITS = 8 * ctypes.sizeof(ctypes.c_void_p)
MAX_NDIM = 64
LAST = (1 << 63) - 1
MEMORY = 256
READ = 4096             # bytes that are worth reading
REFUSED = (ValueError, TypeError, LookupError, OverflowError, dlbuf.Error)

# The driver's answers: all memory is of one device, and no stream has work.
_cuda.where = lambda address: (2, 0)
_cuda.wait = lambda stream: None


class Owner:
    """An object with attributes, and with memory of its own."""

    def __init__(self):
        self.memory = (ctypes.c_uint8 * MEMORY)(*range(MEMORY))
        self.here = ctypes.addressof(self.memory)


# ------------------------------------------------------------------ input

def number(p):
    """A small one, one near a power of two, or any."""
    how = p.ConsumeIntInRange(0, 7)
    if how < 5:
        return p.ConsumeIntInRange(0, 12)
    if how < 7:
        return ((1 << p.ConsumeIntInRange(0, 64)) +
                p.ConsumeIntInRange(-4, 4))
    return p.ConsumeUInt(8)


def signed(p):
    return wrapped(number(p) * p.PickValueInList([1, -1]))


def wrapped(n):
    return (n + LAST + 1) % (1 << 64) - LAST - 1


def dims(p):
    return [signed(p) for _ in range(p.ConsumeIntInRange(0, 4))]


def shape_of(p):
    """Mostly one that has elements."""
    return [n if p.ConsumeIntInRange(0, 7) == 0 else min(abs(n) or 1, LAST)
            for n in dims(p)]


def address(p, owner):
    how = p.ConsumeIntInRange(0, 7)
    if how < 6:
        return owner.here + p.ConsumeIntInRange(0, MEMORY)
    return 0 if how == 6 else number(p) % (1 << BITS)


def optional_strides(p, n):
    return None if p.ConsumeBool() else [signed(p) for _ in range(n)]


DTYPES = [(1, 8, 1), (0, 16, 1), (2, 32, 1), (5, 128, 1), (6, 8, 1), (4, 16, 1),
          (1, 8, 3), (17, 4, 2), (17, 4, 1)]


# The codes whose size DLPack says.
OWN_BITS = {6: 8, **dict.fromkeys(range(7, 15), 8), 15: 6, 16: 6, 17: 4}


def dtype_of(p):
    if p.ConsumeIntInRange(0, 3):
        return p.PickValueInList(DTYPES)
    return (p.ConsumeIntInRange(0, 255), p.ConsumeIntInRange(0, 255),
            p.ConsumeIntInRange(0, 65535))


# ------------------------------------------------------------------ oracle

class Refused(Exception):
    pass


def expect(condition):
    if not condition:
        raise Refused


def extent(data, shape, strides, bits, offset=0):
    """First byte and end of what a tensor shows, or Refused. No bytes: (0, 0)."""
    item = (bits + 7) // 8
    expect(len(shape) <= MAX_NDIM and item and min(shape, default=0) >= 0)
    if 0 in shape:
        return 0, 0
    expect(data)
    count = 1
    for n in shape:
        count *= n
    expect(count * item < 1 << BITS - 1)
    reach = [(n - 1) * s * item
             for n, s in zip(shape, strides or compact(shape))]
    low = sum(r for r in reach if r < 0)
    high = sum(r for r in reach if r > 0)
    first, end = data + offset + low, data + offset + high + item
    expect(-low <= 1 << 63 and high < 1 << 63)
    expect(data + offset < 1 << BITS and first >= 0 and end < 1 << BITS)
    return first, end


def compact(shape):
    strides, n = [], 1
    for size in reversed(shape):
        strides.insert(0, wrapped(n))
        n *= size or 1
    return strides


def contents(at, shape, strides, item):
    """The bytes of the elements, in order."""
    return b"".join(
        ctypes.string_at(at + item * sum(i * s for i, s in zip(index, strides)),
                         item)
        for index in itertools.product(*map(range, shape)))


# ------------------------------------------------------------------ ways out

def check(t, owner, data, shape, strides, bits, offset=0):
    """t was made of these; its bytes lie where they are said."""
    first, end = extent(data, shape, strides, bits, offset)
    count, item = 1, (bits + 7) // 8
    for n in shape:
        count *= n
    strides = compact(shape) if strides is None else strides
    assert t.shape == tuple(shape) and t.strides == tuple(strides), repr(t)
    assert t.size == count and t.nbytes in (count * item, (count * bits + 7) // 8)
    assert dlbuf.wrap(t, reverse=True).strides == t.strides[::-1]
    inside = owner.here <= first and end <= owner.here + MEMORY
    if t.__dlpack_device__() != (1, 0):
        return
    if not count:
        data = offset = 0
    elif not inside or count * item > READ:
        return
    want = contents(data + offset, shape, strides, item) if count else b""
    for u in t, t.share(), dlbuf.wrap(dlbuf.wrap(t, reverse=True),
                                      reverse=True):
        read(u, want, data + offset)
    try:
        copy = dlbuf.from_dlpack(t, copy=True)
    except BufferError:
        # Elements that are not whole bytes.
        assert bits % 8
        return
    assert not copy.read_only or not count
    read(copy, want, None)
    t.close()
    read(copy, want, None)


def read(t, want, where):
    taken = dlbuf.from_dlpack(t.__dlpack__(max_version=(1, 3)))
    again = dlbuf.exchange(taken, dlbuf.Tensor)
    assert (again.shape, again.strides) == (t.shape, t.strides)
    try:
        m = memoryview(t)
    except BufferError:
        assert not hasattr(t, "__array_interface__")
        return
    interface = t.__array_interface__
    if where is not None:
        assert interface["data"] == (where, t.read_only)
    assert m.nbytes == len(want) and bytes(t) == m.tobytes() == want
    assert bytes(again) == want
    # NumPy refuses some shapes of tensors without bytes.
    if want:
        array = np.asarray(t)
        assert array.shape == t.shape and array.tobytes() == want
        assert array.flags.writeable != t.read_only


# ------------------------------------------------------------------ ways in

def attempt(way, owner, made, args):
    """way() gives a tensor of these, or refuses as the oracle does."""
    try:
        extent(*args)
    except Refused:
        made = False
    try:
        t = way()
    except REFUSED:
        assert not made, (args, sys.exc_info()[1])
        return
    assert made, (args, t)
    check(t, owner, *args)


def capsules(p, owner):
    shape = shape_of(p)
    strides = optional_strides(p, len(shape))
    dtype = dtype_of(p)
    major = 1 if p.ConsumeIntInRange(0, 15) else p.ConsumeUInt(1)
    device = p.PickValueInList([(1, 0), (1, 0), (1, 0), (2, 0), (7, 1)])
    data = address(p, owner)
    producer = _memory.Producer(
        data, shape, strides, dtype, versioned=p.ConsumeBool(), major=major,
        flags=p.ConsumeIntInRange(0, 7), device=device)
    dl = producer.managed.dl
    dl.byte_offset = number(p) if p.ConsumeBool() else 0
    args = data, shape, strides, dtype[1] * dtype[2], dl.byte_offset
    versioned = isinstance(producer.managed, Versioned)
    padded = versioned and producer.managed.flags & 4 and dtype[1] < 8
    made = ((major == 1 or not versioned) and not (padded and dtype[2] > 1) and
            dtype[1] == OWN_BITS.get(dtype[0], dtype[1]))
    how = p.ConsumeIntInRange(0, 15)
    if how == 0:
        dl.ndim = p.PickValueInList([-1, -1 << 31, MAX_NDIM + 1, 1 << 30])
        made = False
    elif how == 1 and shape:
        dl.shape = None
        made = False

    if versioned and p.ConsumeBool():
        def way(): return exchanged(producer)
    else:
        capsule = producer.capsule()
        def way(): return dlbuf.from_dlpack(capsule)
    attempt(way, owner, made, args)
    assert producer.deleted == 1, (producer.deleted, producer.name, major, how)


TYPESTRS = [f"{order}{kind}" for order in "<|>=" for kind in (
    "b1", "i1", "i2", "i8", "u1", "u2", "u4", "f2", "f4", "f8", "f16", "c8",
    "c16", "V2", "M8", "O8", "f1")] + ["", "<", "<f", "<M8[ns]", "<f-8", "u1",
                                       "<f٤", "|u0"]
KNOWN = {"b1", "i1", "i2", "i8", "u1", "u2", "u4", "f2", "f4", "f8", "c8", "c16"}
JUNK = [None, 0, -1, 1.5, "x", b"", (), (None,), [1, 2], {}, float("nan"),
        1 << 80]


def junk(p, field, fields):
    """Now and then something else; says whether."""
    if p.ConsumeIntInRange(0, 31):
        return False
    fields[field] = p.PickValueInList(JUNK)
    return True


def interfaces(p, owner):
    shape = shape_of(p)
    strides = optional_strides(p, len(shape))
    typestr = (p.PickValueInList(TYPESTRS) if p.ConsumeBool()
               else p.PickValueInList(["|u1", "<u2", "<f4", "<c16"]))
    item = int(typestr[2:]) if typestr[1:] in KNOWN else 0
    made = bool(item) and (item == 1 or typestr[0] in "<|")
    data = address(p, owner)
    fields = {"version": 3, "shape": tuple(shape), "typestr": typestr,
              "data": (data, p.ConsumeBool())}
    if strides is not None:
        fields["strides"] = tuple(s * item for s in strides)
        if item > 1 and strides and not p.ConsumeIntInRange(0, 15):
            fields["strides"] = (*fields["strides"][:-1],
                                 fields["strides"][-1] + 1)
            # The stride of one element or none means nothing.
            made = made and (0 in shape or shape[-1] == 1)
    if not p.ConsumeIntInRange(0, 15):
        fields["offset"] = number(p)        # of data's buffer, which is none
    cuda = not p.ConsumeIntInRange(0, 3)
    odd = [junk(p, f, fields) for f in ("version", "shape", "typestr", "data",
                                        "strides", "mask", "descr", "stream")]
    setattr(owner, "__cuda_array_interface__" if cuda else
            "__array_interface__", fields)
    if any(odd):
        # In every case: refused, or a tensor.
        try:
            t = dlbuf.from_dlpack(owner)
        except REFUSED:
            return
        assert t.nbytes >= 0 and repr(t)
        return
    attempt(lambda: dlbuf.from_dlpack(owner), owner, made,
            (data, shape, strides, 8 * item))


def addresses(p, owner):
    shape = shape_of(p)
    strides = optional_strides(p, len(shape))
    dtype = p.PickValueInList(DTYPES)
    data = address(p, owner)
    attempt(lambda: dlbuf.share(
        owner, data, shape, dtype, strides, read_only=p.ConsumeBool(),
        device=p.PickValueInList([(1, 0), (1, 0), (2, 0)])), owner, True,
        (data, shape, strides, dtype[1] * dtype[2]))


def buffers(p, owner):
    kind = p.PickValueInList([ctypes.c_uint8, ctypes.c_int16, ctypes.c_float,
                              ctypes.c_double, ctypes.c_longdouble])
    item = ctypes.sizeof(kind)
    shape = [p.ConsumeIntInRange(0, 5) for _ in range(p.ConsumeIntInRange(1, 3))]
    array = kind
    for n in reversed(shape):
        array *= n
    data = address(p, owner)
    view = memoryview(array.from_address(data))
    if p.ConsumeBool():
        step = p.PickValueInList([1, 2, -1, -2])
        data += view.strides[0] * (shape[0] - 1) * (step < 0)
        view = view[::step]
    shape, strides = view.shape, [s // item for s in view.strides]
    attempt(lambda: dlbuf.from_dlpack(view), owner,
            kind is not ctypes.c_longdouble,
            (data % (1 << BITS), shape, strides, 8 * item))


# ------------------------------------------------------------------ views

def an_index(p, n):
    """An index of n elements, in or out of range."""
    if p.ConsumeBool():
        return p.ConsumeIntInRange(-n - 1, n) if n < LAST else 0
    ends = [None if p.ConsumeBool() else signed(p) for _ in range(2)]
    return slice(*ends, (signed(p) or None) if p.ConsumeBool() else None)


def indexed(shape, strides, index):
    """Returns the result of an index: first element, shape, strides."""
    at, rest, out = 0, list(zip(shape, strides)), []
    used = sum(i is not None and i is not Ellipsis for i in index)
    for i in index:
        if i is None:
            out.append((1, 0))
        elif i is Ellipsis:
            n = len(shape) - used
            out, rest = out + rest[:n], rest[n:]
        elif isinstance(i, int):
            n, stride = rest.pop(0)
            expect(-n <= i < n)
            at += (i % n) * stride
        else:
            n, stride = rest.pop(0)
            r = range(*i.indices(n))
            at += r.start * stride if len(r) else 0
            out.append((len(r), stride * r.step))
    out += rest
    return at, [n for n, _ in out], [s for _, s in out]


def elements(at, shape, strides):
    return [at + sum(i * s for i, s in zip(index, strides))
            for index in itertools.product(*map(range, shape))]


def views(p, owner):
    shape = shape_of(p)
    strides = optional_strides(p, len(shape)) or compact(shape)
    dtype = p.PickValueInList(DTYPES)
    data = address(p, owner)
    item = (dtype[1] * dtype[2] + 7) // 8
    args = data, shape, strides, dtype[1] * dtype[2]
    try:
        t = dlbuf.share(owner, data, shape, dtype, strides)
    except REFUSED:
        return
    extent(*args)
    index = [an_index(p, n) for n in shape[:p.ConsumeIntInRange(0, 4)]]
    for extra in (None, Ellipsis):
        if not p.ConsumeIntInRange(0, 3):
            index.insert(p.ConsumeIntInRange(0, len(index)), extra)
    try:
        at, shape, strides = indexed(shape, strides, index)
        u = t[tuple(index)]
    except Refused:
        try:
            u = t[tuple(index)]
        except IndexError:
            return
        raise AssertionError((args, index, u)) from None
    except dlbuf.UnsupportedError:
        assert dtype == (17, 4, 1)      # begins inside a byte
        return
    assert u.shape == tuple(shape), (args, index, u)
    if not u.size:
        assert not u.data
    elif dtype != (17, 4, 1):
        assert u.data == data + at * item, (args, index, u)
        assert all(n == 1 or s == wrapped(w) for n, s, w in
                   zip(shape, u.strides, strides)), (args, index, u)
    if not 0 < u.size <= READ:
        return
    want = elements(at, shape, strides)
    for way in (lambda: u.reshape(-1), lambda: u.reshape(2, -1),
                lambda: u.unsqueeze(0).squeeze(), lambda: u.T.T):
        try:
            v = way()
        except (dlbuf.InvalidError, dlbuf.UnsupportedError):
            continue
        assert elements(at, v.shape, v.strides) == want, (args, index, v)


# ------------------------------------------------------------------ dma-bufs

BYTES = 16384
CONTENT = bytes((i * 7919 >> 5 ^ i) & 255 for i in range(BYTES))
ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)


def dma_buf():
    """A memfd that replaces a dma-buf, with CONTENT in it; None without the preload."""
    try:
        ctypes.CDLL(None).memfds_begin()
    except AttributeError:
        return None
    fd = os.memfd_create("good")
    assert os.write(fd, CONTENT) == BYTES
    return fd


def same_bytes(t, offset, shape, strides, item, dtype):
    """The bytes of CONTENT that a tensor shows, by its own address and by the layout."""
    assert t.shape == tuple(shape) and t.dtype == dlbuf.dtype(dtype), repr(t)
    count = 1
    for n in shape:
        count *= n
    if not count or count > READ:
        return
    assert all(n == 1 or a == b for n, a, b in zip(shape, t.strides, strides))
    want = b"".join(
        CONTENT[at:at + item] for at in (
            offset + item * sum(i * s for i, s in zip(index, strides))
            for index in itertools.product(*map(range, shape))))
    t.acquire("read")
    assert contents(t.data, shape, strides, item) == want
    t.release()


def imports(p, owner):
    ndim = p.ConsumeIntInRange(0, MAX_NDIM + 1)
    shape = [p.ConsumeIntInRange(0, 15) % 5 or 1 if i < 4 or i == ndim - 1 else 1
             for i in range(ndim)]
    if shape and not p.ConsumeIntInRange(0, 15):
        shape[p.ConsumeIntInRange(0, ndim - 1)] = 0
    strides = None
    if p.ConsumeBool():
        strides = [p.ConsumeIntInRange(-9, 40) if p.ConsumeIntInRange(0, 15)
                   else signed(p) for _ in shape]
    dtype = p.PickValueInList(DTYPES)
    bits = dtype[1] * dtype[2]
    offset = 16 * p.ConsumeIntInRange(0, BYTES // 16)
    access = p.PickValueInList([None, "read", "rw"])
    base = 1 << 32          # so that what begins before the buffer is seen
    try:
        first, end = extent(base + offset, shape, strides, bits)
        made = bits % 8 == 0 and (not end or base <= first and end <= base + BYTES)
    except Refused:
        made = False
    try:
        t = dlbuf.from_fd(FD, shape, dtype, strides=strides, offset=offset,
                          access=access)
    except REFUSED:
        assert not made, (shape, strides, dtype, offset, sys.exc_info()[1])
        return
    assert made, (shape, strides, dtype, offset, t)
    strides = compact(shape) if strides is None else strides
    layout = offset, shape, strides, bits // 8, dtype
    same_bytes(t, *layout)
    dlbuf.send(ours, [t, t.share()][:p.ConsumeIntInRange(1, 2)])
    got = dlbuf.recv(theirs)
    for u in (got if isinstance(got, list) else [got]):
        same_bytes(u, *layout)
        assert u.read_only == t.read_only and u.extent == t.extent
    same_bytes(dlbuf.wrap(t, reverse=True).permute(*reversed(range(ndim))), *layout)
    # A thread of multiprocessing's hands the fd over, which takes its time.
    if not p.ConsumeIntInRange(0, 31):
        same_bytes(pickle.loads(bytes(ForkingPickler.dumps(t))), *layout)
    if t.size and not t.read_only:
        with mmap.mmap(FD, BYTES) as m:
            t.acquire("write")
            ctypes.memset(t.data, 0xa5, bits // 8)
            t.release()
            assert m[offset:offset + bits // 8] == b"\xa5" * (bits // 8)
            m[:] = CONTENT


FD = dma_buf()
WAYS = [capsules, interfaces, addresses, buffers, views, *[imports] * (FD is not None)]


def one(data):
    p = atheris.FuzzedDataProvider(data)
    owner = Owner()
    gone = weakref.ref(owner)
    way = p.PickValueInList(WAYS)
    way(p, owner)
    del owner
    assert not gone(), "the owner is still held"


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
