# SPDX-License-Identifier: MIT
"""Views over plain memory, compared with NumPy's results for the same words, and
the conversions of a Tensor."""

import copy
import ctypes
import operator
import pickle
import random
import sys
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import pytest

import dlbuf
from dlbuf import _dlbuf
from interop import _memory

SHAPES = [(), (5,), (1,), (0,), (4, 6), (3, 1, 4), (2, 3, 4), (2, 0, 3),
          (1, 1, 1), (2, 3, 1, 2, 2)]


def tensor_of(a):
    """Over the memory of a, the strides of which may be anything."""
    return dlbuf.from_dlpack(a)


def same(t, a):
    """t has the values and the place of the array a, which is a view."""
    assert t.shape == a.shape, (t, a.shape)
    m = memoryview(t)
    assert m.tobytes() == a.tobytes(), t
    if a.size:
        where = t.data + t.byte_offset
        assert where == a.__array_interface__["data"][0], t
    for n, stride, want in zip(t.shape, t.strides, a.strides):
        if n > 1 and a.size:
            assert stride * t.dtype.itemsize == want


def random_slice(r, n):
    def bound():
        return r.choice([None, r.randint(-n - 3, n + 3), -sys.maxsize - 1,
                         sys.maxsize, 0])
    step = r.choice([None, 1, 2, 3, -1, -2, sys.maxsize, -sys.maxsize])
    return slice(bound(), bound(), step)


def random_index(r, shape):
    items = []
    for n in shape[:r.randint(0, len(shape))]:
        items.append(r.randint(-n, n - 1) if n and r.random() < .4
                     else random_slice(r, n))
        if r.random() < .15:
            items.append(None)
    if r.random() < .3:
        # After an ellipsis the last dimensions are meant.
        used = sum(i is not None for i in items)
        at = r.choice([j for j in range(len(items) + 1)])
        tail = [i for i in items[at:] if i is not None]
        if not any(isinstance(i, int) for i in tail) or used == len(shape):
            items.insert(at, Ellipsis)
    if len(items) == 1 and r.random() < .5:
        return items[0]
    return tuple(items)


def random_array(np, r):
    shape = r.choice(SHAPES)
    dtype = r.choice(["u1", "i2", "f4", "f8", "c16", "?"])
    a = np.arange(int(np.prod(shape)) * 4 or 4).astype(dtype)[
        :int(np.prod(shape))].reshape(shape)
    if r.random() < .5:
        a = a.transpose(r.sample(range(a.ndim), a.ndim))
    if r.random() < .3 and a.ndim:
        a = a[::-1]
    if r.random() < .2:
        a = np.broadcast_to(a, (2, *a.shape))
    return a


def shape_for(r, size):
    """A shape of so many elements, perhaps with -1, or one that has others."""
    shape, left = [], size
    while left > 1 and r.random() < .8:
        n = r.choice([d for d in range(1, left + 1) if not left % d])
        shape.append(n)
        left //= n
    shape.append(left)
    if r.random() < .3:
        shape[r.randrange(len(shape))] = -1
    if r.random() < .1:
        shape.append(r.choice([2, -1, 0]))
    return shape


@pytest.mark.parametrize("seed", range(200))
def test_as_numpy(np, seed):
    """A chain of random steps, each of which is NumPy's, too."""
    r = random.Random(seed)
    a = random_array(np, r)
    t = tensor_of(a)
    for _ in range(4):
        how = r.randrange(6)
        try:
            if how < 2:
                index = random_index(r, a.shape)
                what = f"{a.shape}{a.strides}[{index}]"
                whole = index if isinstance(index, tuple) else (index,)
                # With an ellipsis NumPy gives a view of one element, too.
                a = a[index if Ellipsis in whole else (*whole, ...)]
                t = t[index]
            elif how == 2:
                axes = r.sample(range(-a.ndim, 0), a.ndim)
                a, t = a.transpose(axes), t.transpose(*axes)
                what = f"transpose {axes}"
            elif how == 3:
                dim = r.randint(-a.ndim - 1, a.ndim)
                a, t = np.expand_dims(a, dim), t.unsqueeze(dim)
                what = f"unsqueeze {dim}"
            elif how == 4:
                a, t, what = a.squeeze(), t.squeeze(), "squeeze"
            else:
                shape = shape_for(r, a.size)
                what = f"reshape {shape} of {a.shape} {a.strides}"
                try:
                    b = a.reshape(shape)
                except ValueError:
                    with pytest.raises(dlbuf.InvalidError):
                        t.reshape(shape)
                    continue
                if a.size and b.__array_interface__["data"] != \
                        a.__array_interface__["data"]:
                    with pytest.raises(dlbuf.UnsupportedError,
                                       match=r"t\.copy\(\)"):
                        t.reshape(shape)
                    continue
                a, t = b, t.reshape(*shape)
        except dlbuf.Error as e:
            raise AssertionError(what) from e
        if a.ndim > 20:
            break
        same(t, np.asarray(a))


def test_length_and_iteration(np):
    a = np.arange(24, dtype="u2").reshape(4, 6)
    t = tensor_of(a)
    assert len(t) == 4 and [x.shape for x in t] == [(6,)] * 4
    for x, want in zip(t, a):
        same(x, want)
    assert [x.item() for x in t[1]] == a[1].tolist()
    same(t.T, a.T)
    for fn in len, iter, list:
        with pytest.raises(TypeError, match="item"):
            fn(t[0, 0])


@pytest.mark.parametrize("index, kind, says", [
    (4, IndexError, "index 4 is out of bounds for dimension 0 of 4"),
    ((0, -7), IndexError, "dimension 1 of 6"),
    ((0, 0, 0), IndexError, "3 indices for a tensor of 2 dimensions"),
    ((..., ...), IndexError, "at most one"),
    (1 << 70, IndexError, "index"),
    ([0, 1], dlbuf.UnsupportedError, r"list.*t\.copy\(\)\.numpy\(\)"),
    (True, dlbuf.UnsupportedError, r"bool.*copy"),
    ("a", TypeError, "integers, slices"),
    (1.0, TypeError, "integers, slices"),
    (slice("a"), TypeError, "slice"),
    (slice(None, None, 0), ValueError, "zero"),
    ((None,) * 63, dlbuf.InvalidError, "more than 64"),
])
def test_index_refused(index, kind, says):
    t = tensor_of(memoryview(bytearray(24)).cast("B", (4, 6)))
    with pytest.raises(kind, match=says):
        t[index]


def test_arrays_as_indices(np):
    t = tensor_of(np.arange(24).reshape(4, 6))
    for index in (np.array([0, 1]), np.arange(24).reshape(4, 6) > 3,
                  np.array([True] * 4), (0, np.array([0])[:, None]),
                  tensor_of(np.arange(2)), [True] * 4):
        with pytest.raises(dlbuf.UnsupportedError, match="copy"):
            t[index]
    same(t[np.int8(1)], t.numpy()[1])
    same(t[np.array(1), np.uint64(2)], t.numpy()[1, 2:3].reshape(()))


@pytest.mark.parametrize("call, says", [
    (lambda t: t.reshape(5), "24 elements has no such shape"),
    (lambda t: t.reshape(-1, -1), "-1, and none below"),
    (lambda t: t.reshape(5, -1), "no such shape"),
    (lambda t: t.reshape(0, -1), "no such shape"),
    (lambda t: t.reshape(-2), "none below"),
    (lambda t: t.reshape(1 << 62, 4), "more elements"),
    (lambda t: t[0, 0].reshape([1] * 65), "65 dimensions"),
    (lambda t: t.transpose(0), "1 dimensions are named"),
    (lambda t: t.transpose(0, 0), "named twice"),
    (lambda t: t.transpose(0, 2), "no dimension 2: they are -2 to 1"),
    (lambda t: t.permute(), "0 dimensions are named"),
    (lambda t: t.unsqueeze(3), "no dimension 3: they are -3 to 2"),
    (lambda t: t.squeeze(0), "dimension 0 has 4 elements"),
    (lambda t: t.squeeze((0, 7)), "elements|no dimension"),
    (lambda t: t.item(), "tolist"),
])
def test_shapes_refused(call, says):
    t = tensor_of(memoryview(bytearray(24)).cast("B", (4, 6)))
    with pytest.raises(dlbuf.InvalidError, match=says):
        call(t)
    assert t.reshape((24,)).shape == t.reshape(-1).shape == (24,)
    assert t.permute([1, 0]).shape == t.transpose(None).shape == (6, 4)
    u = t[None, :, None]
    assert u.squeeze((0, 2)).shape == u.squeeze(dim=2).squeeze(0).shape == t.shape


def test_a_view_keeps_the_memory():
    source = bytearray(24)
    t = tensor_of(source)
    u = t[3:5]
    t.close()
    memoryview(u)[0] = 7
    assert source[3] == 7
    with pytest.raises(BufferError):
        source.append(1)
    with pytest.raises(dlbuf.InvalidError, match="closed"):
        t[0]
    u.close()
    source.append(1)
    assert tensor_of(b"abc")[1:].read_only


def test_a_handle_stays():
    """The data of such a device is no address to count from."""
    for device, moves in (((7, 0), False), ((4, 1), False), ((2, 0), True)):
        p = _memory.Producer(4096, (4, 6), None, (0, 16, 1), device=device)
        t = dlbuf.from_dlpack(p)[1:, ::-1][:, 2]
        offset = 2 * (6 + 3)
        assert (t.data, t.byte_offset) == (
            (4096 + offset, 0) if moves else (4096, offset))


def test_packed_elements():
    """float4 of which two share a byte; ml_dtypes has one in each."""
    memory = (ctypes.c_uint8 * 16)()
    at = ctypes.addressof(memory)
    for flags, packed in ((0, True), (4, False)):
        p = _memory.Producer(at, (12,), None, (17, 4, 1), flags=flags)
        t = dlbuf.from_dlpack(p)
        assert t[2:].data == at + (1 if packed else 2)
        assert t[10::-1].data == at + (5 if packed else 10)
        if packed:
            with pytest.raises(dlbuf.UnsupportedError, match="inside a byte"):
                t[1:]
        else:
            assert t[1:].data == at + 1
    t = dlbuf.share(memory, at, 5, "float4_e2m1fnx2")
    assert t[1:].data == at + 1


ODD = [0, -1, 7, -1 << 63, (1 << 63) - 1]


@pytest.mark.parametrize("odd", ODD)
def test_strides_that_mean_nothing(odd):
    """NumPy and PyTorch make such strides for one element or none."""
    memory = (ctypes.c_uint16 * 12)(*range(12))
    at = ctypes.addressof(memory)

    class Interface:
        def __init__(self, shape, strides):
            self.__array_interface__ = {
                "version": 3, "shape": shape, "typestr": "<u2",
                "data": (at, False), "strides": strides}

    one = dlbuf.share(memory, at, (1, 4), "uint16", (odd, 3))
    for t in (one, dlbuf.from_dlpack(Interface((1, 4), (odd, 6))),
              dlbuf.from_dlpack(_memory.Producer(at, (1, 4), (odd, 3),
                                                 (1, 16, 1)))):
        assert memoryview(t).tolist() == [[0, 3, 6, 9]]
        assert t[0].__array_interface__["strides"] == (6,)
        assert t[0, :1].__array_interface__["strides"] is None
        assert bytes(t.copy()) == bytes(t.reshape(4)) == bytes(t)
        again = dlbuf.from_dlpack(t.__dlpack__(max_version=(1, 0)))
        assert memoryview(again).tolist() == [[0, 3, 6, 9]]
    assert dlbuf.from_dlpack(Interface((0, 4), (odd, odd))).size == 0
    assert dlbuf.share(memory, at, (0, 4), "uint16", (odd, odd)).numpy is not None
    with pytest.raises(dlbuf.UnsupportedError, match="whole elements"):
        dlbuf.from_dlpack(Interface((2, 4), (7, 2)))


def test_odd_strides_of_numpy(np):
    a = np.lib.stride_tricks.as_strided(np.arange(8, dtype="i4"), (1, 4),
                                        (7, 4))
    for x in a, memoryview(a), a[:0]:
        t = dlbuf.from_dlpack(x)
        assert memoryview(t).tolist() == x.tolist()
        t = _dlbuf.from_buffer(x)
        assert t.numpy().tolist() == x.tolist()


# ------------------------------------------------------------------ conversions

def test_numpy(np):
    a = np.arange(6, dtype="i4").reshape(2, 3)
    t = tensor_of(a)
    b = t.numpy()
    assert b.dtype == a.dtype and np.shares_memory(a, b) and b.flags.writeable
    assert np.result_type(t[0].dtype) == np.dtype(t.dtype) == a.dtype
    assert not tensor_of(b"ab").numpy().flags.writeable
    assert t.__array__().tolist() == a.tolist()
    assert t.__array__("f4").dtype == "f4"


def test_dtype_of_a_tensor(np):
    """NumPy asks for __numpy_dtype__ since 2.4, and for .dtype before."""
    t = tensor_of(np.zeros(3, "f4"))
    assert t.__numpy_dtype__ == np.dtype("f4")
    if tuple(map(int, np.__version__.split(".")[:2])) >= (2, 4):
        assert np.result_type(t) == np.result_type(t, np.int8) == np.float32


@pytest.mark.parametrize("device, dtype, says", [
    ((7, 0), "uint8", "on vulkan:0.*cannot reach"), ((4, 2), "uint8", "opencl:2"),
    ((2, 0), "float32", "cuda:0"), ((1, 0), "bfloat16", "dtype bfloat16"),
    ((1, 0), "float8_e4m3fn", "dtype float8"), ((1, 0), "uint8x4", "uint8x4"),
])
def test_no_array_of_objects(np, device, dtype, says):
    memory = (ctypes.c_uint8 * 64)()
    t = dlbuf.share(memory, ctypes.addressof(memory), 3, dtype, device=device)
    for fn in np.asarray, np.array, np.atleast_1d, lambda x: np.asarray(x, "f4"):
        with pytest.raises(BufferError, match=says):
            fn(t)
    t.close()
    with pytest.raises(dlbuf.InvalidError, match="closed"):
        np.asarray(t)


def test_ml_dtypes(np):
    ml = pytest.importorskip("ml_dtypes")
    a = np.arange(6).astype(ml.bfloat16).reshape(2, 3)[:, ::2]
    t = tensor_of(a)
    b = t.numpy()
    assert b.dtype == a.dtype == t.dtype.numpy and np.shares_memory(a, b)
    assert b.tolist() == a.tolist() and t[1, 1].item() == 5.0
    assert np.asarray(t, ml.bfloat16).tolist() == a.tolist()
    assert t.tobytes() == t.copy().tobytes() == a.tobytes() and t.copy().dtype == t.dtype
    for name in "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu":
        kind = getattr(ml, name)
        for x in kind, np.dtype(kind):
            assert dlbuf.dtype(x) == name
    memory = (ctypes.c_uint8 * 64)()
    t = dlbuf.share(memory, ctypes.addressof(memory), 3, "float4_e2m1fn")
    with pytest.raises(dlbuf.UnsupportedError, match="4 bits"):
        t.numpy()


@pytest.mark.parametrize("dtype", ["uint8x3", "uint8x5", "float16x3", "float64x2", "float32x4",
                                   "float64x4", "uint24", "int8x2", "opaque64", "bfloat16",
                                   "float4_e2m1fnx2", "float6_e2m3fnx4"])
def test_bytes_of_any_dtype(dtype):
    """In the order of the dimensions, also of views, for every dtype."""
    n = dlbuf.dtype(dtype).itemsize
    memory = bytearray(i % 251 for i in range(12 * n))
    t = dlbuf.share(memory, ctypes.addressof(ctypes.c_char.from_buffer(memory)), (3, 4), dtype)
    rows = [[bytes(memory[n * (4 * y + x):][:n]) for x in range(4)] for y in range(3)]
    assert t.tobytes() == bytes(t) == memory
    assert t[::-1, 1::2].tobytes() == b"".join(b"".join(r[1::2]) for r in rows[::-1])
    assert t.T.tobytes() == b"".join(b"".join(c) for c in zip(*rows))
    assert t[1, 2].tobytes() == rows[1][2] and t[:0].tobytes() == b""
    deep = t.reshape((1,) * 62 + (3, 4))
    assert deep.ndim == 64 and deep.tobytes() == memory


@pytest.mark.parametrize("code, value", [
    ("b", -5), ("B", 250), ("h", -300), ("I", 1 << 31), ("q", -1 << 62),
    ("f", 1.5), ("d", -2.25), ("?", True)])
def test_item(code, value):
    m = memoryview(bytearray(16)).cast(code)
    m[1] = value
    t = dlbuf.from_dlpack(m)[1]
    assert t.item() == value and type(t.item()) is type(value)


def test_item_of_others(np):
    for value in np.float16(1.5), np.complex64(1 + 2j), np.complex128(-1j):
        a = np.array([value])
        assert tensor_of(a).item() == value
        assert type(tensor_of(a).item()) is type(value.item())


# Values of one element: its dtype, its bytes, what it is.
VALUES = [("uint8", b"\x33", 51), ("int8", b"\xff", -1), ("bool", b"\1", True),
          ("uint8", b"3", 51), ("int16", b"-1", 12589), ("uint16", b"42", 12852),
          ("uint64", b"\xff" * 8, 2**64 - 1), ("int64", b"\xff" * 8, -1),
          ("int32", b"\xfe" + b"\xff" * 3, -2),
          ("float16", b"\x00\xbe", -1.5), ("float32", b"\x00\x00\x60\x40", 3.5),
          ("float64", b"12345678", 6.821320051701325e-38), ("bfloat16", b"\x60\x40", 3.5),
          ("complex64", b"\x00\x00\x60\x40" * 2, 3.5 + 3.5j)]


@pytest.mark.parametrize("dtype, data, value", VALUES)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_numbers(dtype, data, value, shape):
    """A tensor of one element is a number, also where its bytes are digits."""
    t = dlbuf.share(data, ctypes.cast(data, ctypes.c_void_p).value, shape, dtype,
                    read_only=True)
    assert sys.byteorder == "little"
    assert type(t.item()) is type(value)
    assert complex(t) == complex(value) and bool(t) is bool(value)
    if isinstance(value, complex):
        for call in int, float:
            with pytest.raises(TypeError, match=r"complex\(t\)"):
                call(t)
    else:
        assert int(t) == int(value) and float(t) == float(value)
    if type(value) is int and not shape:
        assert operator.index(t) == value
    else:
        with pytest.raises(TypeError, match=r"int\(t\)"):
            operator.index(t)
        assert bytearray(t if dtype != "bfloat16" else data) == data
    assert bytes(t) == data


def test_numbers_of_a_view(np):
    a = np.arange(24, dtype="i2").reshape(4, 6)
    t = tensor_of(a)[::-2, 1:4]
    for i in range(2):
        for j in range(3):
            assert int(t[i, j]) == float(t[i, j]) == a[::-2, 1:4][i, j]
    assert t[tensor_of(a)[0, 1]].numpy().tolist() == a[1, 1:4].tolist()
    assert [10, 11, 12][tensor_of(a)[0, 2]] == 12


@pytest.mark.parametrize("call", [int, float, complex, bool, operator.index])
@pytest.mark.parametrize("shape", [(2,), (0,), (2, 3)])
def test_no_numbers(call, shape):
    t = dlbuf.from_dlpack(b"123456").reshape(6)[:0 if 0 in shape else 6]
    t = t if 0 in shape else t[:2] if len(shape) == 1 else t.reshape(shape)
    with pytest.raises(TypeError, match=r"one element"):
        call(t)
    t.close()
    with pytest.raises(ValueError, match="closed"):
        call(t)


def test_comparisons(np):
    t, u = tensor_of(b"123"), tensor_of(b"123")
    for sign in "eq", "ne", "lt", "le", "gt", "ge":
        fn = getattr(operator, sign)
        for other in 49, 1.5, 1j, True, Decimal(49), Fraction(49), [49], (49, 50, 51), b"123":
            for pair in (t, other), (other, t):
                with pytest.raises(TypeError, match="numpy.from_dlpack"):
                    fn(*pair)
        # raw == t is an answer of raw, which compares the bytes.
        for raw in bytearray(b"123"), memoryview(b"123"):
            with pytest.raises(TypeError, match="numpy.from_dlpack"):
                fn(t, raw)
        a = np.array([49, 0, 99], "u1")
        for x, y in ((t, a), (a, t), (t, np.uint8(50)), (t, np.float64(50))):
            assert fn(x, y).tolist() == fn(np.asarray(x), np.asarray(y)).tolist()
        if sign not in ("eq", "ne"):
            with pytest.raises(TypeError, match="numpy.from_dlpack"):
                fn(t, u)
    # The same object or not, as of an object without elements.
    assert t == t and not t != t and t != u and not t == u
    assert t in [u, None, "end", t] and t not in [u, None, "end"]
    assert t != None and t != "end" and not t == object()   # noqa: E711
    assert len({t, u, t}) == 2 and {t: 1}[t] == 1 and hash(t) == hash(t)
    assert t == mock.ANY

    class Array:
        """Knows no Tensor, as torch.Tensor."""

        def __dlpack__(self):
            pass

    with pytest.raises(TypeError, match="numpy.from_dlpack"):
        t == Array()


def test_copy(np):
    a = np.arange(24, dtype="i2").reshape(4, 6)[::-2, 1:4]
    t = tensor_of(a)
    c = t.copy()
    assert c.strides == (3, 1) and c.is_copied and not c.read_only
    assert c.numpy().tolist() == a.tolist()
    assert t.tobytes() == c.tobytes() == a.tobytes()
    assert not np.shares_memory(c.numpy(), a)
    assert t.same_layout(t.share()) and not t.same_layout(c)
    assert c.same_layout(c.copy()) and not c.same_layout(c.reshape(6))


def test_contiguous(np):
    """The tensor itself, or a copy that says so."""
    t = tensor_of(bytearray(8192)).copy().reshape(64, 2, 64)    # aligned memory
    for u in t, t[1:], t[:, :1], t[:0, ::-1], t[3, 1], t[5:6, 1:, 63:][..., :0]:
        packed = u.numpy().flags.c_contiguous
        assert (u.contiguous() is u) == packed, u
    for u in t[::-1], t[1:2][::-1], t[..., ::2], t.T, t[:, ::-1], t[1, 1, 1:], t.permute(1, 0, 2):
        c = u.contiguous()
        assert c is not u and c.is_copied and not c.data % 64
        assert c.strides == u.copy().strides and c.tobytes() == u.tobytes()


@pytest.mark.parametrize("where, name", [((1, 0), "cpu"), ((1, 1), None), ((2, 0), None), ((3, 0), None)])
def test_device(where, name):
    """Plain memory of the CPU is on the device that its repr names."""
    t = dlbuf.from_dlpack(_memory.Producer(4096, (2, 2), None, (1, 8, 1), device=where))
    for u in t, t[1:], t.T, t.share():
        assert u.device == name and (name is None or u.device.info.device == where)
    if name:
        assert t.device is dlbuf.from_dlpack(b"abc").device is tensor_of(b"abc").copy().device
        picture = dlbuf.from_dlpack(bytes(12)).reshape(2, 2, 3)
        assert dlbuf.prepare(picture, size=2, format="RGB")[0].device == "cpu"
    t.close()
    assert t.device is None


def test_to():
    t = tensor_of(bytearray(4))
    assert t.to("cpu").shape == (4,)
    with pytest.raises(dlbuf.UnsupportedError, match="not of a dma-buf"):
        t.to("cuda:0")
    with pytest.raises(dlbuf.InvalidError, match="no device of DLPack"):
        t.to("nonesuch")


@pytest.mark.parametrize("fn", [pickle.dumps, copy.copy, copy.deepcopy])
def test_not_an_object_to_copy(fn):
    t = tensor_of(b"abc")
    with pytest.raises(TypeError, match=r"send\(\).*multiprocessing.*t\.copy"):
        fn(t)


def test_repr():
    def of(device, data=4096, **more):
        return repr(dlbuf.from_dlpack(_memory.Producer(
            data, (2, 3), None, (2, 32, 1), device=device, **more)))

    assert of((1, 0)) == "<dlbuf.Tensor (2, 3) float32, cpu>"
    assert of((7, 0), flags=1) == \
        "<dlbuf.Tensor (2, 3) float32, vulkan:0, read-only>"
    assert of((3, 1)) == "<dlbuf.Tensor (2, 3) float32, cuda-host:1>"
    assert of((99, 1)) == "<dlbuf.Tensor (2, 3) float32, device (99, 1)>"


# ------------------------------------------------------------------ sentences

@pytest.mark.parametrize("call, kind, says", [
    (lambda: dlbuf.from_dlpack(None), TypeError, "NoneType has no memory"),
    (lambda: dlbuf.from_dlpack(7), TypeError, "int has no memory to share"),
    (lambda: dlbuf.from_dlpack(bytes), TypeError, "builtins.bytes is a class"),
    (lambda: dlbuf.from_dlpack(b"abc", device="cuda:0"), BufferError,
     "not copied|on cpu"),
    (lambda: dlbuf.from_dlpack(dlbuf.from_dlpack(b"abc"), device="cuda:1"),
     BufferError, r"on cpu and cannot be given on cuda:1: t.to\(\"cuda:1\"\)"),
    (lambda: dlbuf.from_dlpack(b"abc", device="gpu"), dlbuf.InvalidError,
     "'gpu' is no device of DLPack: give a name"),
    (lambda: dlbuf.from_dlpack(b"abc", device=3), TypeError, "a device is"),
])
def test_sentences(call, kind, says):
    with pytest.raises(kind, match=says):
        call()


def test_class_of_numpy(np):
    with pytest.raises(TypeError, match="numpy.ndarray is a class"):
        dlbuf.from_dlpack(np.ndarray)
    assert dlbuf.from_dlpack(bytearray(3), device="cpu").size == 3
