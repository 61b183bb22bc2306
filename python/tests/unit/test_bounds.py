# SPDX-License-Identifier: MIT
"""Every way in checks a tensor once: its counts fit, its bytes have
addresses, and it keeps the owner of its memory."""

import ctypes
import errno
import gc
import weakref

import pytest

import dlbuf
from interop import _memory

from conftest import versioned
from table import allocated, exchanged

MEMORY = (ctypes.c_uint8 * 64)(*range(64))
HERE = ctypes.addressof(MEMORY)
TOP = (1 << 8 * ctypes.sizeof(ctypes.c_void_p)) - 1


def producer(case, versioned=True):
    data, shape, strides, dtype, offset = case
    p = _memory.Producer(data, shape, strides, dtype, versioned=versioned)
    p.managed.dl.byte_offset = offset
    return p


def interfaced(case):
    data, shape, strides, (code, bits, lanes), offset = case
    x = type("Interface", (), {})()
    x.__array_interface__ = {
        "version": 3, "shape": shape, "data": (data + offset, False),
        "typestr": f"<{'iuf'[code]}{bits // 8}", "strides": strides and tuple(
            n * (bits // 8) for n in strides)}
    return dlbuf.from_dlpack(x)


def shared(case):
    data, shape, strides, dtype, offset = case
    return dlbuf.share(None, data + offset, shape, dtype, strides)


WAYS = {
    "versioned": lambda case: dlbuf.from_dlpack(producer(case)),
    "legacy": lambda case: dlbuf.from_dlpack(producer(case, False)),
    "exchange": lambda case: exchanged(producer(case)),
    "interface": interfaced, "share": shared,
}
U8, U16 = (1, 8, 1), (1, 16, 1)
EMPTY = None
BIG = 1 << 62

REFUSED = [
    # 2^64 + 1 elements: as a 64-bit number that is one.
    (HERE, (67280421310721, 274177), (0, 0), U8, 0, errno.EOVERFLOW),
    (HERE, (BIG, 2), (0, 0), U8, 0, errno.EOVERFLOW),
    (HERE, (BIG, 2), None, U8, 0, errno.EOVERFLOW),
    (HERE, (BIG,), (0,), U16, 0, errno.EOVERFLOW),
    (HERE, (1 << 32, 1 << 32), (0, 0), U8, 0, errno.EOVERFLOW),
    # Bytes that the address space has not got.
    (HERE, (3,), (BIG,), U8, 0, errno.EOVERFLOW),
    (HERE, (3,), (-BIG,), U8, 0, errno.EOVERFLOW),
    (HERE, (2, 2), (BIG, BIG), U8, 0, errno.EOVERFLOW),
    (HERE, (2,), (-HERE - 1,), U8, 0, errno.EOVERFLOW),
    (16, (2,), (-20,), U8, 0, errno.EOVERFLOW),
    (TOP - 7, (16,), None, U8, 0, errno.EOVERFLOW),
    (TOP - 7, (16,), None, U8, 16, errno.EOVERFLOW),
    (HERE, (4,), None, U8, TOP, errno.EOVERFLOW),
    (HERE, (4,), None, U8, TOP - HERE, errno.EOVERFLOW),
    # No memory.
    (0, (4096,), None, U8, 0, errno.EINVAL),
    (0, (), None, U8, 0, errno.EINVAL),
    (0, (1 << 16,), (0,), U16, 0, errno.EINVAL),
    # No tensor.
    (HERE, (-1,), None, U8, 0, errno.EINVAL),
    (HERE, (-1, 0), None, U8, 0, errno.EINVAL),
]

LEGAL = [
    (0, (0,), None, U8, 0, EMPTY),
    (0, (BIG, 0, BIG), None, U16, 0, EMPTY),
    (0, (BIG, 0, BIG), (BIG, BIG, BIG), U16, 0, EMPTY),
    (HERE, (0, 3), (-BIG, 1), U8, 0, EMPTY),
    (HERE, (2, 3), (0, 1), U8, 0, [[0, 1, 2], [0, 1, 2]]),
    (HERE, (3,), (-2,), U8, 5, [5, 3, 1]),
    (HERE, (1, 2), (1 << 40, 1), U16, 2, [[0x302, 0x504]]),
    (HERE, (), None, U8, 7, 7),
]


def every(cases):
    return pytest.mark.parametrize("way, case", [
        pytest.param(way, case, id=f"{way}-{i}")
        for way in WAYS for i, case in enumerate(cases)
        # An address has no words for more than it has bits.
        if case[0] + case[4] <= TOP or way not in ("interface", "share")])


@every(REFUSED)
def test_refused(way, case):
    with pytest.raises(dlbuf.InvalidError) as e:
        WAYS[way](case[:-1])
    assert e.value.errno == case[-1]


@every(LEGAL)
def test_legal(way, case):
    *case, want = case
    t = WAYS[way](case)
    copy = dlbuf.from_dlpack(t, copy=True)
    if want is EMPTY:
        assert t.__array_interface__["data"] == (0, False)
        assert (t.size, t.nbytes, bytes(t), bytes(copy)) == (0, 0, b"", b"")
    else:
        assert memoryview(t).tolist() == memoryview(copy).tolist() == want
    assert dlbuf.wrap(t, reverse=True).shape == t.shape[::-1]


@pytest.mark.parametrize("dtype", [(1, 0, 1), (1, 8, 0)])
def test_dtypes_without_a_size(dtype):
    with pytest.raises(dlbuf.InvalidError, match="no size"):
        dlbuf.from_dlpack(producer((HERE, (4,), None, dtype, 0)))


# The bits of each DLPack code; a code from the future may have any.
OWN_BITS = {6: 8, **dict.fromkeys(range(7, 15), 8), 15: 6, 16: 6, 17: 4}
PADDED = 4


def padded(dtype, flags):
    p = producer((HERE, (3,), None, dtype, 0))
    p.managed.flags = flags
    return p


@pytest.mark.parametrize("code", [*range(18), 99, 255])
def test_every_dtype(code):
    """All bits and some lanes: the bytes of three elements, or a refusal."""
    for bits in range(256):
        for lanes in 0, 1, 2, 3, 8, 65535:
            for flags in 0, PADDED:
                bad = not bits or not lanes or bits != OWN_BITS.get(code, bits)
                unknown = flags and bits < 8 and lanes > 1
                if bad or unknown:
                    with pytest.raises(dlbuf.InvalidError if bad else dlbuf.UnsupportedError):
                        dlbuf.from_dlpack(padded((code, bits, lanes), flags))
                    if bad:
                        with pytest.raises(dlbuf.InvalidError):
                            dlbuf.dtype((code, bits, lanes))
                    continue
                t = dlbuf.from_dlpack(padded((code, bits, lanes), flags))
                assert t.dtype == (code, bits, lanes) and dlbuf.dtype(str(t.dtype)) == t.dtype
                whole = bits * lanes % 8 == 0 or flags and bits < 8
                item = (bits * lanes + 7) // 8
                assert t.nbytes == (3 * item if whole else (3 * bits * lanes + 7) // 8)
                assert t[:0].nbytes == 0 and t[:1].nbytes == item


@pytest.mark.parametrize("dtype", [(0, 4, 1), (1, 1, 1), (1, 7, 1), (15, 6, 1), (17, 4, 1)])
def test_padded_elements(np, dtype):
    """A consumer that does not know of the padding would read a part of the elements."""
    t = dlbuf.from_dlpack(padded(dtype, PADDED))
    for u in t, t[1:], t.share(), t.copy():
        for told in (1, 1), (1, 3), (2, 0):
            assert versioned(u.__dlpack__(max_version=told)).flags & PADDED
        for untold in None, (0, 8), (1, 0):
            with pytest.raises(BufferError, match="DLPack before 1.1 cannot be told"):
                u.__dlpack__(max_version=untold)
    # Packed ones are what the older consumers expect.
    packed = dlbuf.from_dlpack(padded(dtype, 0))
    for version in None, (1, 0), (1, 3):
        packed.__dlpack__(max_version=version)
    assert t.tobytes() == t.copy().tobytes() == bytes(MEMORY[:3]) and t[2].tobytes() == b"\2"
    for refused in packed.copy, packed.tobytes:
        with pytest.raises(BufferError, match="whole bytes"):
            refused()


def test_buffers_without_memory():
    for n in 0, 4096:
        array = (ctypes.c_uint8 * n)()
        nowhere = memoryview(type(array).from_address(0))
        if n:
            with pytest.raises(dlbuf.InvalidError, match="NULL"):
                dlbuf.from_dlpack(nowhere)
        else:
            assert bytes(dlbuf.from_dlpack(nowhere)) == b""


def test_exchange_allocator():
    """Without a word where it has no SetError."""
    t = allocated((3, 5))
    assert t.shape == (3, 5) and not t.read_only and len(bytes(t)) == 15
    for shape in (BIG, BIG), (-1,):
        assert allocated(shape) == "ValueError: no tensor has this shape and dtype"
    assert allocated((3,), 2).startswith("BufferError: dlbuf allocates memory of the CPU")


# ------------------------------------------------------------------ owners

class Owned:
    """Its interface has the only reference to the memory."""

    @property
    def __array_interface__(self):
        array = (ctypes.c_uint8 * 1024)(*b"\5" * 1024)
        self.gone = weakref.ref(array)
        return {"version": 3, "shape": (1024,), "typestr": "|u1",
                "data": (ctypes.addressof(array), False), "__ref": array}


def test_the_interface_is_kept():
    x = Owned()
    t = dlbuf.from_dlpack(x)
    gc.collect()
    assert x.gone() is not None and bytes(t) == b"\5" * 1024
    # The memory of a temporary: writes would be lost.
    assert t.read_only
    t.close()
    assert x.gone() is None


def test_scalars(np):
    for kind in "f8 f4 i8 u1 c16 ?".split():
        values = np.arange(1000).astype(kind)
        tensors = [dlbuf.from_dlpack(v) for v in values]
        assert {type(v) for v in values} == {np.dtype(kind).type}
        assert all(t.read_only for t in tensors)
        got = [memoryview(t).tobytes() for t in tensors]
        assert got == [v.tobytes() for v in values]


NOT_OF_DLPACK = ["g", "G", "M8[s]", "m8[us]", "O", "S4", "U2", "V3", "u2,f4",
                 "V16"]


@pytest.mark.parametrize("kind", NOT_OF_DLPACK)
def test_not_of_dlpack(np, kind):
    """NumPy's array interface does not describe what DLPack cannot describe."""
    array = np.zeros(2, kind)
    with pytest.raises((BufferError, TypeError)) as refused:
        array.__dlpack__()
    with pytest.raises(type(refused.value)) as e:
        dlbuf.from_dlpack(array)
    assert str(e.value) == str(refused.value)
    interface = type("Interface", (), {
        "__array_interface__": array.__array_interface__})()
    if kind != "O":
        with pytest.raises(BufferError):
            dlbuf.from_dlpack(array[0])
    with pytest.raises(BufferError, match="no type"):
        dlbuf.from_dlpack(interface)


@pytest.mark.parametrize("kind", ["longdouble", "double"])
def test_long_double_buffers(kind):
    array = (getattr(ctypes, "c_" + kind) * 2)(1, 2)
    if kind == "double":
        assert dlbuf.from_dlpack(array).dtype == "float64"
    else:
        with pytest.raises(BufferError, match="no type"):
            dlbuf.from_dlpack(array)


def test_read_only_arrays(np):
    """Those that NumPy before 2.1 refuses to hand out by DLPack."""
    array = np.arange(6.0)[::-2]
    array.flags.writeable = False
    t = dlbuf.from_dlpack(array)
    assert t.read_only and memoryview(t).tolist() == [5, 3, 1]
