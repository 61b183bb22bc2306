# SPDX-License-Identifier: MIT
"""wrap() and share(): memory of other languages, dimensions reversed or not."""

import array
import ctypes
import gc
import weakref

import pytest

import dlbuf

from conftest import Producer, capsule_name, versioned

NEW = {"max_version": (1, 3)}


class Owner:
    """Bytes with an address; that it is gone can be seen."""

    def __init__(self, n=24):
        self.memory = (ctypes.c_uint8 * n)(*range(n))
        self.address = ctypes.addressof(self.memory)


# ------------------------------------------------------------------ wrap

def test_wrap_is_from_dlpack():
    p = Producer()
    t = dlbuf.wrap(p)
    assert bytes(t) == b"\1\2\3" and p.deleted == 0
    t.close()
    assert p.deleted == 1
    assert dlbuf.wrap(b"abc").read_only
    assert dlbuf.wrap(b"abc", copy=True).is_copied


def test_wrap_a_capsule():
    for kwargs in (NEW, {}):
        p = Producer()
        c = dlbuf.from_dlpack(p).__dlpack__(**kwargs)
        t = dlbuf.wrap(c)
        assert capsule_name(c).startswith("used_")
        with pytest.raises(ValueError, match="used"):
            dlbuf.from_dlpack(c)
        with pytest.raises(BufferError, match="as it is"):
            dlbuf.wrap(c, copy=True)
        assert p.deleted == 0 and bytes(t) == b"\1\2\3"
        del t
        assert p.deleted == 1
    with pytest.raises(ValueError, match="not a capsule"):
        dlbuf.wrap(dlbuf.Tensor.__dlpack_c_exchange_api__)


def test_wrap_with_to_dlpack():
    """An object without __dlpack__() has a function that makes the capsule."""
    p = Producer()
    t = dlbuf.wrap([p], lambda x: x[0].capsule())
    assert bytes(t) == b"\1\2\3"
    del t
    assert p.deleted == 1


def test_reversed():
    source = memoryview(bytearray(range(24))).cast("B", (2, 3, 4))
    t = dlbuf.wrap(source)
    r = dlbuf.wrap(t, reverse=True)
    assert (r.shape, r.strides) == ((4, 3, 2), (1, 4, 12))
    # The original is unchanged.
    assert (t.shape, t.strides) == ((2, 3, 4), (12, 4, 1))
    m, n = memoryview(t), memoryview(r)
    assert all(m[i, j, k] == n[k, j, i]
               for i in range(2) for j in range(3) for k in range(4))
    m.release()
    n[3, 1, 0] = 99
    assert source[0, 1, 3] == 99
    b = dlbuf.wrap(r, reverse=True)
    assert (b.shape, b.strides) == (t.shape, t.strides)
    again = r.share()
    assert again.shape == (4, 3, 2)


def test_reversed_keeps_flags_and_memory():
    p = Producer(flags=1)
    r = dlbuf.wrap(p, reverse=True)
    assert r.read_only and versioned(r.__dlpack__(**NEW)).flags == 1
    c = r.__dlpack__(**NEW)
    del r
    gc.collect()
    assert p.deleted == 0
    del c
    assert p.deleted == 1
    p = Producer(versioned=False)
    twice = dlbuf.wrap(dlbuf.wrap(p, reverse=True), reverse=True)
    assert p.deleted == 0
    twice.close()
    assert p.deleted == 1


@pytest.mark.parametrize("source, shape", [
    (b"", (0,)), (ctypes.c_uint8(7), ()), (bytearray(3), (3,)),
    (memoryview(b"abcd")[::-2], (2,))])
def test_reversed_of_few_dimensions(source, shape):
    t = dlbuf.wrap(source)
    r = dlbuf.wrap(t, reverse=True)
    assert (r.shape, r.strides) == (shape, t.strides)
    assert memoryview(r).tolist() == memoryview(t).tolist()


def test_view_wants_a_tensor():
    def view(t, dtype="uint8"):
        return dlbuf._dlbuf.view(t, (3,), (1,), dtype)

    with pytest.raises(TypeError):
        view(7)
    t = dlbuf.wrap(b"abc")
    assert view(t, "int8").tobytes() == b"abc"
    with pytest.raises(BufferError, match="8 bits"):
        view(t, "uint16")
    t.close()
    with pytest.raises(ValueError, match="closed"):
        view(t)
    with pytest.raises(ValueError, match="closed"):
        dlbuf.wrap(t, reverse=True)


# ------------------------------------------------------------------ share

def test_share_keeps_its_owner():
    o = Owner()
    gone = weakref.ref(o)
    t = dlbuf.share(o, o.address, (4, 6), "uint8")
    assert (t.shape, t.strides, t.read_only) == ((4, 6), (6, 1), False)
    memoryview(t)[3, 5] = 77
    assert o.memory[23] == 77
    c = t.__dlpack__(**NEW)
    u = t.share()
    del o, t
    gc.collect()
    assert gone() is not None
    del c
    assert gone() is not None
    u.close()
    assert gone() is None


def test_share_column_major():
    """As Julia says it: size (2, 3), first dimension fastest."""
    o = Owner()
    t = dlbuf.share(o, o.address, (2, 3), "uint8", reverse=True)
    assert (t.shape, t.strides) == ((3, 2), (2, 1))
    assert memoryview(t).tolist() == [[0, 1], [2, 3], [4, 5]]
    # strides(view(A, 1:2, 1:3)) of a 4 x 6 matrix A
    t = dlbuf.share(o, o.address, (2, 3), "uint8", (1, 4), reverse=True)
    assert (t.shape, t.strides) == ((3, 2), (4, 1))
    assert memoryview(t).tolist() == [[0, 1], [4, 5], [8, 9]]
    # The same dimensions as the caller has: strides say that it is column-major.
    t = dlbuf.share(o, o.address, (2, 3), "uint8", (1, 2))
    assert memoryview(t).tolist() == [[0, 2, 4], [1, 3, 5]]
    assert dlbuf.share(o, o.address, 5, "uint8", reverse=True).shape == (5,)


def test_share_arguments():
    o = Owner()
    t = dlbuf.share(o, o.address, [2], "uint16", read_only=True)
    assert t.read_only and memoryview(t).readonly
    t = dlbuf.share(o, 0x1000, (2, 2), "float32", device=(2, 1))
    assert t.__dlpack_device__() == (2, 1)
    t = dlbuf.share(o, 0x1000, 2, "float32",
                    device=(dlbuf.DLDeviceType.ROCM, 0))
    assert t.__dlpack_device__() == (10, 0)
    assert dlbuf.share(o, 0, (0, 3), "uint8").size == 0
    for bad in ({"shape": (-1,)}, {"strides": (1, 2)}, {"dtype": "uint9999"}):
        with pytest.raises(ValueError):
            dlbuf.share(**{"owner": o, "address": o.address, "shape": (2,),
                           "dtype": "uint8", **bad})
    gone = weakref.ref(o)
    del o, t
    gc.collect()
    assert gone() is None


def test_share_of_an_array():
    a = array.array("d", [1, 2, 3, 4, 5, 6])
    address, n = a.buffer_info()
    t = dlbuf.share(a, address, (3, 2), "float64", reverse=True)
    assert n == 6 and memoryview(t).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_numpy(np):
    a = np.arange(24, dtype="i4").reshape(2, 3, 4)
    for x in (a, a[:, ::-1, 1:3], np.asfortranarray(a)):
        assert (np.asarray(dlbuf.wrap(x, reverse=True)) == x.T).all()
    f = np.asfortranarray(a)
    t = dlbuf.share(f, f.ctypes.data, f.shape, f.dtype, reverse=True)
    assert t.strides == (6, 2, 1)
    assert (np.asarray(t) == f.T).all()
    s = f[::-1, :, ::2]
    t = dlbuf.share(s, s.__array_interface__["data"][0], s.shape, s.dtype,
                    [n // 4 for n in s.strides], reverse=True)
    assert (np.asarray(t) == s.T).all()
    gone = weakref.ref(f)
    del f, s, t
    assert gone() is None
