# SPDX-License-Identifier: MIT
"""CUDA's array interface both ways, with a double of the driver: which calls
are made and what becomes of the answers. And what of CUDA needs no dma-buf, with
tests/doubles' double, which CUDA_DOUBLE names; the rest is lab_cuda.py's. Not run on
hardware."""

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import weakref

import pytest

import dlbuf
from dlbuf import _cuda

from conftest import Producer, versioned

# Address 0x1... is of device 1, 0x2... is managed, 0x3... is of nobody.
DRIVER = r"""
int waited = -1;
int cuPointerGetAttribute(void *data, int attribute, unsigned long long ptr)
{
	int kind = ptr >> 28;

	if (kind == 3)
		return 1;
	if (attribute == 8)
		*(char *)data = kind == 2;
	else if (attribute == 9)
		*(int *)data = kind;
	else
		return 2;
	return 0;
}
int cuStreamSynchronize(void *stream)
{
	waited = (long)stream;
	return stream == (void *)77 ? 201 : 0;
}
"""


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    if not shutil.which("cc"):
        pytest.skip("no C compiler for the double")
    so = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", so],
                   input=DRIVER, text=True, check=True)
    return str(so)


@pytest.fixture
def driver(double, monkeypatch):
    monkeypatch.setattr(_cuda, "SONAME", double)
    _cuda._driver.cache_clear()
    waited = ctypes.c_int.in_dll(ctypes.CDLL(double), "waited")
    waited.value = -1
    yield waited
    _cuda._driver.cache_clear()


class Array:
    def __init__(self, **fields):
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (2, 3), "typestr": "<f4",
            "data": (0x10000100, False), **fields}


def test_consumer(driver):
    t = dlbuf.from_dlpack(Array())
    assert (t.shape, t.strides, t.dtype) == ((2, 3), (3, 1), "float32")
    assert t.__dlpack_device__() == (2, 1) and not t.read_only
    assert driver.value == -1
    t = dlbuf.asdlpack(Array(data=(0x20000000, True), strides=(4, 8)))
    assert t.__dlpack_device__() == (13, 0) and t.read_only
    assert t.strides == (1, 2)
    c = versioned(t.__dlpack__(max_version=(1, 3), stream=2))
    assert c.dl.data == 0x20000000 and c.flags == 1
    with pytest.raises(BufferError):
        dlbuf.from_dlpack(Array(), device="cpu")
    with pytest.raises(BufferError):
        dlbuf.from_dlpack(Array(), device=(2, 0))
    assert dlbuf.from_dlpack(Array(), device=(2, 1)).shape == (2, 3)


@pytest.mark.parametrize("fields, waited", [
    ({"stream": None}, -1), ({"stream": 1}, 1), ({"stream": 2}, 2),
    ({"stream": 4096}, 4096), ({"version": 2, "stream": 5}, -1)])
def test_stream_is_waited_for(driver, fields, waited):
    dlbuf.from_dlpack(Array(**fields))
    assert driver.value == waited


@pytest.mark.parametrize("fields, kind, words", [
    ({"stream": 0}, ValueError, "ambiguous"),
    ({"stream": 77}, dlbuf.Error, "cuStreamSynchronize: CUresult 201"),
    ({"data": (0x30000000, False)}, dlbuf.Error,
     "cuPointerGetAttribute: CUresult 1"),
    ({"version": 1}, BufferError, "version 1"),
    ({"mask": 1}, BufferError, "masked"),
    ({"typestr": ">f4"}, BufferError, "byte order")])
def test_refused(driver, fields, kind, words):
    with pytest.raises(kind, match=words):
        dlbuf.from_dlpack(Array(**fields))


def test_no_driver(monkeypatch):
    monkeypatch.setattr(_cuda, "SONAME", "libdlbuf-no-such-driver.so.1")
    _cuda._driver.cache_clear()
    with pytest.raises(BufferError, match="no driver") as e:
        dlbuf.from_dlpack(Array())
    assert e.value.errno == 19
    # Nothing is asked about no bytes.
    t = dlbuf.from_dlpack(Array(shape=(0, 3), data=(0, False)))
    assert t.__dlpack_device__() == (2, 0)
    assert t.__cuda_array_interface__["data"] == (0, False)


@pytest.mark.parametrize("device", [(2, 3), (13, 0)])
def test_producer(driver, device):
    p = Producer(device=device, flags=1)
    t = dlbuf.from_dlpack(p)
    assert t.__cuda_array_interface__ == {
        "version": 3, "shape": (3,), "typestr": "|u1", "strides": None,
        "data": (ctypes.addressof(p.memory), True), "stream": 1}
    assert hasattr(t, "__array_interface__") == (device == (13, 0))
    t.close()
    assert p.deleted == 1


@pytest.mark.parametrize("device", [(1, 0), (3, 0), (7, 0), (10, 0), (11, 0)])
def test_not_of_cuda(device):
    t = dlbuf.from_dlpack(Producer(device=device))
    assert not hasattr(t, "__cuda_array_interface__")
    assert hasattr(t, "__array_interface__") == (device[0] in (1, 3, 11))


# Ways in which the CPU reads the bytes 1, 2, 3.
READS = {
    "numpy": lambda t, np: t.numpy().tolist(), "asarray": lambda t, np: np.asarray(t).tolist(),
    "from_dlpack": lambda t, np: dlbuf.from_dlpack(t, device="cpu").numpy().tolist(),
    "capsule": lambda t, np: np.from_dlpack(Capsule(t)).tolist(),
    "interface": lambda t, np: np.asarray(Interfaced(t)).tolist(),
    "to": lambda t, np: list(t.to("cpu").tobytes()), "tobytes": lambda t, np: list(t.tobytes()),
    "bytes": lambda t, np: list(bytes(t)), "copy": lambda t, np: list(t.copy().tobytes()),
    "contiguous": lambda t, np: list(t[::-1].contiguous()[::-1].tobytes()),
    "item": lambda t, np: [u.item() for u in t], "memoryview": lambda t, np: memoryview(t).tolist(),
    "array": lambda t, np: t.__array__().tolist(),
}


class Capsule:
    def __init__(self, t):
        self.t = t

    def __dlpack__(self, **_):
        return self.t.__dlpack__(dl_device=(1, 0), max_version=(1, 3))

    def __dlpack_device__(self):
        return 1, 0


class Interfaced:
    def __init__(self, t):
        self.__array_interface__ = t.__array_interface__


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("device", [(3, 0), (3, 1), (11, 0), (13, 0), (20, 0)])
def test_memory_that_the_cpu_reaches(np, driver, device, read):
    p = Producer(device=device)
    t = dlbuf.from_dlpack(p)
    assert t.__dlpack_device__() == device and driver.value == -1
    assert READS[read](t, np) == [1, 2, 3]
    # The GPU may be working on managed memory only.
    assert driver.value == (1 if device[0] == 13 else -1)
    if read not in ("to", "copy", "contiguous", "tobytes", "bytes", "item"):
        t.numpy()[0] = 9
        assert READS[read](t, np) == [9, 2, 3] and p.memory[0] == 9
    del t
    gc.collect()
    assert p.deleted == 1
    # The producer need not know of the wish.
    u = dlbuf.from_dlpack(Producer(device=device, versioned=False), device="cpu")
    assert u.__dlpack_device__() == (1, 0) and bytes(u) == b"\1\2\3" and not u.is_copied


@pytest.mark.parametrize("device", [(3, 0), (11, 0), (13, 0), (20, 0)])
def test_prepare_reaches_it(driver, device):
    picture, out = bytearray(range(12)), bytearray(12)

    def there(memory):
        return dlbuf.share(memory, ctypes.addressof(ctypes.c_char.from_buffer(memory)), (2, 2, 3),
                           "uint8", device=device)

    options = {"size": 2, "layout": "nhwc", "dtype": "uint8", "format": "RGB"}
    x, _ = dlbuf.prepare(there(picture), **options)
    assert bytes(x) == bytes(picture)
    dlbuf.prepare(there(picture), out=there(out), **options)
    assert out == picture and driver.value == (1 if device[0] == 13 else -1)


@pytest.mark.parametrize("read", [r for r in READS if r != "interface"])
@pytest.mark.parametrize("device", [(2, 0), (7, 0), (8, 0), (10, 0), (14, 0), (99, 0)])
def test_memory_that_the_cpu_does_not_reach(np, device, read):
    """No sentence names a call that refuses as well."""
    t = dlbuf.from_dlpack(Producer(device=device))
    with pytest.raises(BufferError, match="cannot reach|copy it into one of") as e:
        READS[read](t, np)
    assert "from_dlpack" not in str(e.value) and "numpy()" not in str(e.value)


def test_there_and_back(driver):
    t = dlbuf.from_dlpack(Array(strides=(-12, 4)))
    again = type("Other", (), {"__cuda_array_interface__":
                               t.__cuda_array_interface__})()
    u = dlbuf.from_dlpack(again)
    assert driver.value == 1        # the stream that the producer said
    assert (u.shape, u.strides, u.dtype) == (t.shape, t.strides, t.dtype)
    assert u.__dlpack_device__() == (2, 1)


def test_counts_return(driver):
    """Dicts, tuples and the object that is kept."""
    source = Array(stream=1)
    gone = weakref.ref(source)
    blocks = []
    for i in range(3000):
        t = dlbuf.from_dlpack(source)
        t.__cuda_array_interface__
        assert not hasattr(t, "__array_interface__")
        if i in (1000, 2999):
            gc.collect()
            blocks.append(sys.getallocatedblocks())
    assert blocks[1] - blocks[0] < 100, blocks
    del source
    assert gone()
    t.close()
    assert not gone()


# ------------------------------------------------------------------ devices

PRELUDE = """
import ctypes, os, sys
import dlbuf
def raises(kind, words, fn, *args, **named):
    try:
        fn(*args, **named)
    except kind as e:
        assert words in str(e), e
        return e
    raise AssertionError(f"no {kind.__name__}")
cu = ctypes.CDLL(os.environ["DLBUF_CUDA_LIBRARY"])
def get(name, *args):
    out = ctypes.c_void_p()
    assert not getattr(cu, name)(ctypes.byref(out), *args), name
    return out.value
def at(address, shape, kind=2, dtype="uint8"):
    return dlbuf.share(None, address, shape, dtype, device=(kind, 0))
"""
# One tensor of a dma-buf, which a memfd replaces.
ONE = """
d = dlbuf.Device("cuda:0", bridge=False)
t, = dlbuf._dlbuf.alloc((d,), 64, "uint8", None, "device", None, ())
"""


def with_double(words, code):
    """In a process of its own: the double reads words when it is loaded."""
    double = os.environ.get("CUDA_DOUBLE")
    if not double or not os.path.exists(double):
        pytest.skip("CUDA_DOUBLE names no double of CUDA's driver")
    p = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], text=True, capture_output=True,
        env={**os.environ, "DLBUF_CUDA_LIBRARY": double, "FAKE_CUDA": words})
    assert not p.returncode, p.stdout + p.stderr


def test_device():
    with_double("two", """
names = {d.name: d for d in dlbuf.devices()}
assert names["cuda:1"].device == (2, 1) and not names["cuda:1"].status
with dlbuf.Device("cuda:1", bridge=False) as d:
    assert (d.name, d.info.backend) == ("cuda:1", "cuda")
    assert raises(dlbuf.Error, "dma-buf", d.paths, 0).errno == 9
    assert raises(dlbuf.Error, "", dlbuf.from_fd, 0, 1, "uint8", device=d,
                  may_copy=True).errno == 9
raises(ValueError, "closed", d.paths)
import copy, pickle
with dlbuf.Device("cuda:1", bridge=False) as d:
    p = dlbuf.Preparer(size=8, device=d)
    assert pickle.loads(pickle.dumps(p))._device == "cuda:1"
    assert copy.copy(p)._device is copy.deepcopy(p)._device is d
with dlbuf.Device.wrap_cuda(get("cuDevicePrimaryCtxRetain", 0)) as d:
    p = dlbuf.Preparer(size=8, device=d)
    assert copy.deepcopy(p)._device is d
    raises(TypeError, "cuda:0 was opened by a handle, not by its name", pickle.dumps, p)
raises(ValueError, "context is NULL", dlbuf.Device.wrap_cuda, 0)
raises(ValueError, "not a CUcontext", dlbuf.Device.wrap_cuda, 4096)
raises(TypeError, "", dlbuf.Device.wrap_cuda, "cuda:0")
raises(OverflowError, "", dlbuf.Device.wrap_cuda, 1 << 64)
""")


def test_no_device():
    with_double("none", """
d, = [d for d in dlbuf.devices() if d.backend == "cuda"]
assert d.status == 19 and "CUDA_ERROR_NO_DEVICE" in d.reason
raises(dlbuf.Error, "CUDA_ERROR_NO_DEVICE", dlbuf.Device, "cuda:0")
raises(dlbuf.Error, "CUDA_ERROR_NO_DEVICE", dlbuf.export, at(4096, 1))
""")


def test_closed_while_it_is_sent():
    """On another thread, which AddressSanitizer sees."""
    with_double("memfds", ONE + """
import threading
sys.setswitchinterval(1e-6)
threading.excepthook = lambda e: (sys.__excepthook__(*e[:3]), os._exit(1))
begun = threading.Event()

# Without a GIL whoever closes would find somebody inside each time.
gil = getattr(sys, "_is_gil_enabled", lambda: True)()
outside = (lambda: None) if gil else os.sched_yield

def send(u):
    # Shares three, and then cannot send them.
    what = (0, False, None), (u, u, u, 5)
    begun.set()
    try:
        while True:
            raises(TypeError, "Tensors", dlbuf._dlbuf.send, *what)
            outside()
    except ValueError as e:
        said.add(str(e))

said = set()
for _ in range(2000):
    u = t.share()
    begun.clear()
    thread = threading.Thread(target=send, args=(u,))
    thread.start()
    begun.wait()
    while not u.closed:
        try:
            u.close()
        except dlbuf.Error as e:
            assert e.errno == 16, e
    thread.join()
assert said == {"[Errno 22] the tensor is closed"}, said
""")


def test_cycles_through_leases():
    with_double("memfds", ONE + """
import cycles
cycles.leases(lambda release: dlbuf.from_frame(
    [(t.fd, 8), (t.fd, 8, 32)], 8, 4, "NV12", device=d, release=release),
    [lambda t: t.__dlpack__(stream=-1, max_version=(1, 3)),
     lambda t: dlbuf.from_dlpack(t.__dlpack__(stream=-1, max_version=(1, 3)))])
""")


def test_colour_of_planes():
    """Planes keep their frame's colour where format= is said, too; arrays have none."""
    with_double("memfds", ONE + """
full = dlbuf.Colour(range=2)
planes = dlbuf.from_frame([(t.fd, 8), (t.fd, 8, 32)], 8, 4, "NV12", device=d, colour=full)
prep = dlbuf._prepare
of = lambda *planes: tuple(prep._kind(prep._key_of(planes, "NV12"))[5])
assert of(*planes) == of(*[p[:2] for p in planes]) == (*full, 0, 0)
assert of(dlbuf.from_dlpack(bytearray(8)).reshape(2, 4)) == (0,) * 8
""")


def test_export():
    """A memfd replaces the dma-buf."""
    with_double("memfds", """
d = dlbuf.Device("cuda:0", bridge=False)
ctx = get("cuDevicePrimaryCtxRetain", 0)
assert not cu.cuCtxSetCurrent(ctypes.c_void_p(ctx))
p = get("cuMemAlloc_v2", ctypes.c_size_t(2 << 20))
x = at(p, 2 << 20)
dlbuf.export(x)     # opens the device, for good
open_fds = len(os.listdir("/proc/self/fd"))
for e in dlbuf.export(x, device=d), dlbuf.export(x):
    assert (e.offset, e.bytes) == (0, 2 << 20)
    assert os.fstat(e.fd).st_size == 2 << 20 and not os.get_inheritable(e.fd)
    fd = e.fd
    with e as same:
        assert same is e and not e.closed and f"fd {fd}" in repr(e)
    e.close()
    assert e.closed and "closed" in repr(e)
    raises(OSError, "", os.fstat, fd)
    raises(ValueError, "closed", e.fileno)
e = dlbuf.export(x)
del e
assert len(os.listdir("/proc/self/fd")) == open_fds
raises(BufferError, "alloc()", dlbuf.export, b"abc")
raises(BufferError, "(13, 0)", dlbuf.export, at(p, 1, 13))
raises(ValueError, "after its allocation", dlbuf.export, at(p, 3 << 20))
raises(ValueError, "not CUDA memory", dlbuf.export, at(4096, 1))
raises(ValueError, "no memory", dlbuf.export, at(0, 0))
raises(TypeError, "", dlbuf.export, x, True)
with dlbuf.Device("cpu") as cpu:
    raises(BufferError, "of its own", dlbuf.export, x, device=cpu)
""")
