# SPDX-License-Identifier: MIT
"""The DLPack protocol both ways, over memory that is no dma-buf."""

import array
import ctypes
import errno
import gc
import mmap
import subprocess
import sys
import threading
import weakref
import zlib

import pytest

import dlbuf
from dlbuf import _dlbuf

from conftest import Producer, capsule_name, versioned
from interop import _memory
from table import API, Table, exchanged, given

NEW = {"max_version": (1, 3)}


# ------------------------------------------------------------------ deleters

@pytest.mark.parametrize("new", [True, False])
def test_deleted_once(new):
    p = Producer(versioned=new)
    t = dlbuf.from_dlpack(p)
    capsule = t.__dlpack__(**NEW)
    assert bytes(t) == b"\1\2\3" and p.deleted == 0
    # Every tensor of it keeps it: this one, one handed out, one shared.
    u = t.share()
    del t
    gc.collect()
    assert p.deleted == 0
    del capsule
    assert p.deleted == 0
    u.close()
    assert p.deleted == 1 and u.closed
    del u
    assert p.deleted == 1


@pytest.mark.parametrize("wishes, name", [
    (NEW, "dltensor_versioned"), ({}, "dltensor"),
    ({"max_version": (0, 8)}, "dltensor"), ({"max_version": None}, "dltensor")])
def test_capsules(wishes, name):
    p = Producer()
    t = dlbuf.from_dlpack(p)
    c = t.__dlpack__(**wishes)
    assert capsule_name(c) == name
    del c               # never consumed
    c = t.__dlpack__(**wishes)
    t.close()
    assert p.deleted == 0
    u = _dlbuf.from_capsule(c)
    assert capsule_name(c) == "used_" + name
    with pytest.raises(ValueError, match="used"):
        _dlbuf.from_capsule(c)          # a second time
    del c
    assert p.deleted == 0 and bytes(u) == b"\1\2\3"
    del u
    assert p.deleted == 1


def test_consumer_raises():
    p = Producer(major=2)
    with pytest.raises(BufferError, match="DLPack 2.0"):
        dlbuf.from_dlpack(p)
    assert p.deleted == 1


def test_asked_in_turn():
    p = Producer(versioned=False, strides=False)
    t = dlbuf.from_dlpack(p)
    assert p.asked == [{"max_version": (1, 3)}, {}]
    assert t.strides == (1,)
    p = Producer()
    dlbuf.from_dlpack(p, device=(1, 0), copy=False)
    assert p.asked == [{"max_version": (1, 3), "dl_device": (1, 0),
                        "copy": False}]


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("device, wish, got", [
    ((1, 0), "cpu", (1, 0)), ((1, 0), (1, 0), (1, 0)), ((3, 0), "cpu", (1, 0)),
    ((2, 0), (2, 0), (2, 0)), ((2, 0), "cpu", None), ((2, 0), (2, 1), None),
    ((1, 0), (2, 0), None), ((7, 0), "cpu", None), ((10, 0), (1, 0), None)])
def test_producers_that_do_not_know_the_wish(versioned, device, wish, got):
    """One ignores dl_device, and an old one has no such keyword."""
    for copy in None, False:
        p = Producer(device=device, versioned=versioned)
        if got is None:
            with pytest.raises(BufferError):
                dlbuf.from_dlpack(p, device=wish, copy=copy)
            gc.collect()
            assert p.deleted == len(p.asked) - (not versioned)
        else:
            t = dlbuf.from_dlpack(p, device=wish, copy=copy)
            assert t.__dlpack_device__() == got and t.data == ctypes.addressof(p.memory)


def test_old_producer_and_a_copy():
    p = Producer(versioned=False)
    for t in dlbuf.from_dlpack(p, copy=True), dlbuf.from_dlpack(p, copy=True, device="cpu"):
        assert bytes(t) == b"\1\2\3" and t.is_copied and t.data != ctypes.addressof(p.memory)


def test_deleted_on_another_thread():
    p = Producer()
    box = [dlbuf.from_dlpack(p)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert p.deleted == 1


# ------------------------------------------------------------------ requests

def test_requests():
    t = dlbuf.from_dlpack(bytearray(b"abc"))
    assert t.__dlpack_device__() == (1, 0)
    for ok in ({}, {"dl_device": (1, 0)}, {"copy": False}, {"copy": None},
               {"dl_device": (dlbuf.DLDeviceType.CPU, 0)}):
        t.__dlpack__(**ok, **NEW)
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(1, 1))
    with pytest.raises(ValueError):
        t.__dlpack__(stream=0)
    with pytest.raises(TypeError):
        t.__dlpack__(None)
    t.close()
    with pytest.raises(ValueError, match="closed"):
        t.__dlpack__()
    with pytest.raises(ValueError, match="closed"):
        t.shape


def test_copy():
    source = bytearray(b"abcdef")
    t = dlbuf.from_dlpack(source)
    c = t.__dlpack__(copy=True, **NEW)
    assert versioned(c).flags == 2          # IS_COPIED
    u = _dlbuf.from_capsule(c)
    source[0] = 0x7A
    assert bytes(t) == b"zbcdef" and bytes(u) == b"abcdef" and u.is_copied
    # A copy of a read-only tensor is writable.
    v = dlbuf.from_dlpack(b"abc", copy=True)
    assert not v.read_only
    memoryview(v)[0] = 1


# ------------------------------------------------------------------ flags

READ_ONLY, IS_COPIED, PADDED = 1, 2, 4
BYTES = (ctypes.c_uint8 * 8)(*range(8))


def producer(dtype=(1, 8, 1), flags=0, **more):
    return _memory.Producer(ctypes.addressof(BYTES), (4, 2), None, dtype, flags=flags, **more)


WAYS_IN = {
    "capsule": lambda p: _dlbuf.from_capsule(p.capsule()),
    "protocol": dlbuf.from_dlpack, "wrap": lambda p: dlbuf.wrap(p, reverse=True),
    "exchange": exchanged,
}
VIEWS = {
    "itself": lambda t: t, "share": lambda t: t.share(), "again": dlbuf.from_dlpack,
    "wrap": dlbuf.wrap, "view": lambda t: t[2:], "transposed": lambda t: t.T,
    "reshape": lambda t: t.reshape(4, 2) if t.shape == (4, 2) else t.T.reshape(8),
    "empty": lambda t: t[:0],
}


def taken(t):
    p = given(t)
    flags = p.contents.flags, p.contents.dl.bits
    p.contents.deleter(p)
    return flags


def asked(**wishes):
    def ask(t):
        dl = versioned(t.__dlpack__(**wishes))
        return dl.flags, dl.dl.bits
    return ask


WAYS_OUT = {
    "newest": asked(**NEW), "later": asked(max_version=(9, 9)), "no copy": asked(copy=False, **NEW),
    "device": asked(dl_device=(1, 0), **NEW), "exchange": taken,
}


@pytest.mark.parametrize("dtype", [(1, 8, 1), (0, 4, 1)])
@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("out", WAYS_OUT)
def test_flags(way, view, out, dtype):
    """A consumer gets the flags that are known and true of what it gets. A copy is
    nobody's alone once a Tensor has it."""
    for flags in [*range(16), 1 << 63, (1 << 64) - 1, ~IS_COPIED & (1 << 64) - 1]:
        t = VIEWS[view](WAYS_IN[way](producer(dtype, flags)))
        assert t.is_copied == bool(flags & IS_COPIED)
        for _ in range(2):
            got, bits = WAYS_OUT[out](t)
            assert got == flags & (READ_ONLY | (PADDED if bits < 8 else 0)), flags


@pytest.mark.parametrize("view", VIEWS)
def test_flags_of_a_copy(view):
    """copy=True gives each consumer a copy of its own."""
    for flags in range(16):
        t = VIEWS[view](dlbuf.from_dlpack(producer(flags=flags)))
        assert asked(copy=True, **NEW)(t) == (IS_COPIED, 8)
        c = t.copy()
        assert c.is_copied and not c.read_only
        for u in c, c.share(), c.T, c.contiguous():
            assert u.is_copied and asked(**NEW)(u) == (0, 8) == taken(u)


def test_copy_of_strides(np):
    a = np.arange(60, dtype="i4").reshape(3, 4, 5)[::-1, ::2, 1:4]
    t = dlbuf.from_dlpack(dlbuf.from_dlpack(a), copy=True)
    assert t.strides == (6, 3, 1)
    assert (np.asarray(t) == a).all()


def test_foreign_device():
    p = Producer(device=(2, 3))
    t = dlbuf.from_dlpack(p)
    assert t.__dlpack_device__() == (2, 3)
    t.__dlpack__(stream=1)
    with pytest.raises(ValueError, match="ambiguous"):
        t.__dlpack__(stream=0)
    with pytest.raises(ValueError, match="stream=None"):
        t.__dlpack__(stream=1, dl_device=(1, 0))
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError):
        t.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="on cuda:3, which the CPU cannot reach"):
        memoryview(t)
    assert not hasattr(t, "__array_interface__")


def test_read_only():
    t = dlbuf.from_dlpack(Producer(flags=1))
    assert t.read_only and memoryview(t).readonly
    assert versioned(t.__dlpack__(**NEW)).flags == 1
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
    assert dlbuf.from_dlpack(t).read_only
    assert t.__array_interface__["data"][1] is True


# ------------------------------------------------------------------ sources

@pytest.mark.parametrize("source, dtype, shape, read_only", [
    (b"abc", "uint8", (3,), True),
    (bytearray(b"abcd"), "uint8", (4,), False),
    (array.array("h", [1, 2]), "int16", (2,), False),
    (array.array("d", [1.5]), "float64", (1,), False),
    (memoryview(bytearray(8)).cast("I"), "uint32", (2,), False),
    (memoryview(bytearray(8)).cast("B", (2, 4)), "uint8", (2, 4), False),
    (memoryview(b"abcd")[::-2], "uint8", (2,), True),
    (mmap.mmap(-1, 4096), "uint8", (4096,), False),
    (b"", "uint8", (0,), True),
    ((ctypes.c_float * 3)(), "float32", (3,), False),
])
def test_buffers(source, dtype, shape, read_only):
    t = dlbuf.asdlpack(source)
    assert (t.dtype, t.shape, t.read_only) == (dtype, shape, read_only)
    with memoryview(source) as m, memoryview(t) as n:
        assert m.tobytes() == n.tobytes()
    t.close()


def test_buffer_is_held():
    source = bytearray(b"abc")
    t = dlbuf.from_dlpack(source)
    with pytest.raises(BufferError):
        source.append(1)
    t.close()
    source.append(1)


class Fields(ctypes.Structure):
    _fields_ = [("a", ctypes.c_uint16)]


@pytest.mark.parametrize("source", [(ctypes.c_void_p * 2)(), (Fields * 2)()])
def test_buffers_without_a_type(source):
    with pytest.raises(BufferError, match="no type"):
        dlbuf.from_dlpack(source)


def test_buffer_of_characters():
    assert dlbuf.from_dlpack(memoryview(b"ab").cast("c")).dtype == "uint8"


def test_asdlpack_is_itself():
    p = Producer()
    assert dlbuf.asdlpack(p) is p


class Interface:
    def __init__(self, **fields):
        self.memory = (ctypes.c_uint8 * 24)(*range(24))
        self.__array_interface__ = {
            "version": 3, "shape": (3,), "typestr": "<u2",
            "data": (ctypes.addressof(self.memory), False), **fields}


def test_array_interface():
    i = Interface()
    gone = weakref.ref(i)
    t = dlbuf.from_dlpack(i)
    del i
    assert memoryview(t).tolist() == [0x100, 0x302, 0x504]
    t.close()
    assert gone() is None
    t = dlbuf.from_dlpack(Interface(strides=(4,)))
    assert memoryview(t).tolist() == [0x100, 0x504, 0x908]
    data = Interface().__array_interface__["data"]
    assert dlbuf.from_dlpack(Interface(data=(data[0], True))).read_only
    with pytest.raises(ValueError, match="negative"):
        dlbuf.from_dlpack(Interface(shape=(-3,)))
    for bad in ({"typestr": ">u2"}, {"typestr": "<M8"}, {"strides": (3,)},
                {"mask": Interface()}, {"data": None}, {"typestr": "|V2"},
                {"typestr": "|f1"}, {"descr": [("a", "<u1"), ("b", "<u1")]}):
        with pytest.raises(BufferError):
            dlbuf.from_dlpack(Interface(**bad))


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
def test_incomplete_interface(name):
    full = {"version": 3, "shape": (3,), "typestr": "<u2", "data": (0, False)}
    needed = ("shape", "typestr") if name == "__array_interface__" else full
    for lacks in needed:
        left = {k: v for k, v in full.items() if k != lacks}
        for read in dlbuf.from_dlpack, dlbuf.asdlpack:
            with pytest.raises(ValueError, match=f"array interface of Some is .* '{lacks}'"):
                read(type("Some", (), {name: left})())
    for nothing in {}, (), 5:
        with pytest.raises(ValueError, match="is not a dict with"):
            dlbuf.from_dlpack(type("Some", (), {name: nothing})())


# ------------------------------------------------------------------ our buffer

def test_buffer_requests(np):
    a = np.arange(6, dtype="u1").reshape(2, 3)
    t = dlbuf.from_dlpack(a.T)
    m = memoryview(t)
    assert (m.shape, m.strides, m.format) == ((3, 2), (1, 3), "B")
    assert m.f_contiguous and not m.c_contiguous
    with pytest.raises(BufferError, match="C-contiguous"):
        zlib.crc32(t)
    t.close()           # a view keeps the memory
    assert m[2, 1] == 5
    m.release()


def test_counts_return():
    p = Producer()
    source = bytearray(64)
    refs = sys.getrefcount(source), sys.getrefcount(_dlbuf.Tensor)
    for _ in range(10000):
        t = dlbuf.from_dlpack(source)
        memoryview(t).release()
        t.__dlpack__()
        _dlbuf.from_capsule(t.__dlpack__(**NEW))
        with pytest.raises(ValueError):
            t.__dlpack__(stream=3)
    del t
    assert refs == (sys.getrefcount(source), sys.getrefcount(_dlbuf.Tensor))
    source.append(1)
    assert p.deleted == 0


def test_info():
    t = dlbuf.from_dlpack(bytearray(3))
    assert t.__dlpack_info__() == dlbuf.DLPACK_VERSION
    capsule = t.__dlpack__(max_version=(9, 9))
    dl = versioned(capsule)
    assert (dl.major, dl.minor) == dlbuf.DLPACK_VERSION


# ------------------------------------------------------------------ exchange

def test_exchange_api():
    p = Producer()
    t = dlbuf.from_dlpack(p)
    u = dlbuf.exchange(t, dlbuf.Tensor)
    assert u is not t and bytes(u) == b"\1\2\3"
    t.close()
    u.close()
    assert p.deleted == 1
    with pytest.raises(dlbuf.InvalidError, match="closed"):
        dlbuf.exchange(t, dlbuf.Tensor)


def test_exchange_refuses():
    t = dlbuf.from_dlpack(bytearray(3))
    with pytest.raises(dlbuf.UnsupportedError, match="no DLPack exchange API"):
        dlbuf.exchange(t, int)
    with pytest.raises(dlbuf.UnsupportedError, match="no DLPack exchange API"):
        dlbuf.exchange(3, dlbuf.Tensor)
    with pytest.raises(TypeError):
        dlbuf.exchange(t)

    class Strange:
        __dlpack_c_exchange_api__ = 3

    with pytest.raises(ValueError):
        dlbuf.exchange(t, Strange)


def test_exchange_without_functions():
    """DLPack lets a table have NULL."""
    table = Table.from_buffer_copy(API)
    name = ctypes.create_string_buffer(b"dlpack_exchange_api")

    class Other:
        __dlpack_c_exchange_api__ = _memory.py.PyCapsule_New(ctypes.addressof(table), name, None)

    t = dlbuf.from_dlpack(Producer())
    for field, call in (("from_object", lambda: dlbuf.exchange(Other(), dlbuf.Tensor)),
                        ("to_object", lambda: dlbuf.exchange(t, Other))):
        setattr(table, field, type(getattr(table, field))())
        with pytest.raises(dlbuf.UnsupportedError, match="Other.* without managed_tensor_"):
            call()
    assert bytes(t) == b"\1\2\3"


@pytest.mark.parametrize("args, kwargs, text", [
    ((3, 4), {}, "lacks 'dtype'"),
    ((3, 4, "uint8", 0), {}, "3 positional"),
    ((3, 4, "uint8"), {"dtype": "int8"}, "'dtype' twice"),
    ((3, 4, "uint8"), {"offsets": 0}, "no argument 'offsets'"),
    ((3, 4, "uint8"), {"offset": "1"}, "offset is an int"),
    (("3", 4, "uint8"), {}, "fileno"),
])
def test_arguments(args, kwargs, text):
    with pytest.raises(TypeError, match=text):
        dlbuf.from_fd(*args, **kwargs)


def test_arguments_by_name():
    """Names that are made at run time are not the interned ones."""
    name = "".join(["off", "set"])
    for _ in range(3):
        with pytest.raises(dlbuf.Error) as e:
            dlbuf.from_fd(fd=-1, dtype="uint8", **{name: 0}, shape=(1,))
        assert e.value.errno == errno.EBADF
        with pytest.raises(dlbuf.Error, match="negative"):
            dlbuf.from_fd(-1, (1,), "uint8", **{name: -1})
    with pytest.raises(dlbuf.Error) as e:
        dlbuf.from_fd(1 << 40, 1, "uint8")
    assert e.value.errno == errno.EBADF
    with open("/dev/null") as f, pytest.raises(dlbuf.Error, match="dma-buf"):
        dlbuf.from_fd(f, 1, "uint8")


def test_shutdown_with_leftovers():
    """A thread deletes, and module globals go, while Python exits."""
    code = ("import dlbuf, threading\n"
            "keep = [dlbuf.from_dlpack(bytearray(9)) for _ in range(9)]\n"
            "begun = threading.Event()\n"
            "def forever():\n"
            "    while True:\n"
            "        dlbuf.from_dlpack(bytearray(9)).close()\n"
            "        begun.set()\n"
            "threading.Thread(target=forever, daemon=True).start()\n"
            "begun.wait()\n")
    for _ in range(5):
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_nobody_asks_for_the_gil_at_exit():
    """Calls the interpreter's exit hook early: memory of others is not given
    back any more."""
    code = ("import dlbuf\n"
            "source = bytearray(9)\n"
            "t = dlbuf.from_dlpack(source)\n"
            "dlbuf.from_dlpack(source).close()\n"
            "dlbuf._dlbuf.at_exit()\n"
            "t.close()\n"
            "try: source.append(1)\n"
            "except BufferError: print('held')\n")
    p = subprocess.run([sys.executable, "-c", code], capture_output=True,
                       text=True)
    assert (p.returncode, p.stdout) == (0, "held\n"), p
