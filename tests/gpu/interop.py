#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""interop: a library's arrays and dlbuf's tensors on one GPU, both ways

    PYTHONPATH=... tests/gpu/interop.py LIBRARY [CASE...]

Each reads what the other has written on a stream of its own. KTAP on
standard output; exit status 4 where the library is not installed.
"""

import array
import ctypes
import fnmatch
import gc
import importlib
import os
import select
import sys
import traceback

import dlbuf

N = 1 << 20
DEVICE = "cuda:0"


class Skip(Exception):
    pass


# ------------------------------------------------------------------ libraries

class Torch:
    def __init__(self):
        self.torch = torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise Skip("PyTorch sees no CUDA device")
        self.version = torch.__version__
        self.stream = torch.cuda.Stream()

    def take(self, tensor):
        with self.torch.cuda.stream(self.stream):
            return self.torch.from_dlpack(tensor)

    def make(self, start):
        with self.torch.cuda.stream(self.stream):
            return start + self.torch.arange(N, device="cuda",
                                             dtype=self.torch.int32)

    def values(self, x):
        with self.torch.cuda.stream(self.stream):
            return x.cpu().numpy()

    def fill(self, x, start):
        """On its own stream, for which no call waits here."""
        with self.torch.cuda.stream(self.stream):
            x.copy_(start + self.torch.arange(
                x.numel(), device="cuda", dtype=self.torch.int32))
        return x

    def address(self, x):
        return x.data_ptr()

    def wait(self):
        self.stream.synchronize()

    @property
    def handle(self):
        return self.stream.cuda_stream

    def is_exportable(self):
        """Segments of cudaMalloc(), not of a pool or of mapped pages."""
        conf = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        return "cudaMallocAsync" not in conf


class CuPy(Torch):
    def __init__(self):
        self.cupy = cupy = importlib.import_module("cupy")
        if not cupy.cuda.is_available():
            raise Skip("CuPy sees no CUDA device")
        self.version = cupy.__version__
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def take(self, tensor):
        with self.stream:
            return self.cupy.from_dlpack(tensor)

    def make(self, start):
        with self.stream:
            return self.cupy.arange(start, start + N, dtype="int32")

    def values(self, x):
        with self.stream:
            return self.cupy.asnumpy(x)

    def fill(self, x, start):
        with self.stream:
            x[:] = self.cupy.arange(start, start + x.size, dtype="int32")
        return x

    def address(self, x):
        return x.data.ptr

    @property
    def handle(self):
        return self.stream.ptr

    def is_exportable(self):
        return True


class Numba(Torch):
    """Takes no DLPack: CUDA's array interface."""

    def __init__(self):
        self.cuda = cuda = importlib.import_module("numba.cuda")
        if not cuda.is_available():
            raise Skip("Numba sees no CUDA device")
        self.version = importlib.import_module("numba").__version__
        self.numpy = importlib.import_module("numpy")
        self.stream = cuda.stream()

    def take(self, tensor):
        return self.cuda.as_cuda_array(tensor)

    def make(self, start):
        return self.cuda.to_device(
            self.numpy.arange(start, start + N, dtype="int32"),
            stream=self.stream)

    def values(self, x):
        host = x.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return host

    def fill(self, x, start):
        x.copy_to_device(self.numpy.arange(start, start + x.size,
                                           dtype="int32"), stream=self.stream)
        return x

    def address(self, x):
        return x.__cuda_array_interface__["data"][0]

    @property
    def handle(self):
        return int(getattr(self.stream.handle, "value", self.stream.handle)
                   or 1)

    def is_exportable(self):
        return True


class Jax(Torch):
    """Its arrays do not change: it reads, and is read."""

    fill = None

    def __init__(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self.jax = jax = importlib.import_module("jax")
        try:
            self.device = jax.devices("cuda")[0]
        except RuntimeError as e:
            raise Skip(f"JAX sees no CUDA device: {e}") from None
        self.version = jax.__version__
        self.numpy = importlib.import_module("numpy")

    def take(self, tensor):
        return importlib.import_module("jax.dlpack").from_dlpack(tensor)

    def make(self, start):
        return self.jax.numpy.arange(start, start + N, dtype="int32",
                                     device=self.device)

    def values(self, x):
        return self.numpy.asarray(x)

    def address(self, x):
        return x.unsafe_buffer_pointer()

    def wait(self):
        pass

    @property
    def handle(self):
        return 1

    def is_exportable(self):
        return True


class Array:
    """Memory of the driver's, by CUDA's array interface."""

    def __init__(self, owner, address, stream):
        self.owner = owner
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (N,), "typestr": "<i4",
            "data": (address, False), "stream": stream}


class Driver(Torch):
    """No library: a program that calls the driver itself."""

    def __init__(self):
        name = os.environ.get("DLBUF_CUDA_LIBRARY") or "libcuda.so.1"
        self.lib = ctypes.CDLL(name)
        # The device of dlbuf has the primary context.
        self.device = dlbuf.Device(DEVICE)
        self.version = self.device.info.driver
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name, *args):
        result = getattr(self.lib, name)(*args)
        assert not result, f"{name}: {result}"

    def take(self, tensor):
        taken = tensor.share()
        # Memory of no dma-buf needs no order with other devices.
        if taken.fd is not None:
            taken.acquire("rw", stream=self.handle)
        return Array(taken, taken.__cuda_array_interface__["data"][0], None)

    def make(self, start):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address),
                  ctypes.c_size_t(4 * N))
        return self.fill(Array(None, address.value, self.handle), start)

    def values(self, x):
        host = array.array("i", bytes(4 * N))
        self.call("cuMemcpyDtoHAsync_v2",
                  ctypes.c_void_p(host.buffer_info()[0]),
                  ctypes.c_uint64(self.address(x)), ctypes.c_size_t(4 * N),
                  self.stream)
        self.wait()
        return host

    def fill(self, x, start):
        # Kept until the copy is over.
        self.host = array.array("i", range(start, start + N))
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.address(x)),
                  ctypes.c_void_p(self.host.buffer_info()[0]),
                  ctypes.c_size_t(4 * N), self.stream)
        return x

    def address(self, x):
        return x.__cuda_array_interface__["data"][0]

    def wait(self):
        self.call("cuStreamSynchronize", self.stream)

    @property
    def handle(self):
        return self.stream.value


LIBRARIES = {"driver": Driver, "torch": Torch, "cupy": CuPy, "numba": Numba, "jax": Jax}


# ------------------------------------------------------------------ memory

def own_memory():
    """Of the GPU's own, in a dma-buf."""
    try:
        return dlbuf.alloc(N, "int32", DEVICE, exporter="device")
    except dlbuf.Error as e:
        raise Skip(e.strerror or str(e)) from None


def udmabuf():
    """Pages of the host, which the GPU reaches in place (path host)."""
    try:
        return dlbuf.alloc(N, "int32", DEVICE, exporter="udmabuf")
    except dlbuf.Error as e:
        raise Skip(e.strerror or str(e)) from None


def check(values, start, what):
    """Every value is start and its own index."""
    got = values.tobytes()
    want = array.array("i", range(start, start + N)).tobytes()
    assert len(got) == len(want), f"{what}: {len(got)} bytes"
    wrong = sum(got[i:i + 4096] != want[i:i + 4096]
                for i in range(0, len(want), 4096))
    assert not wrong, f"{what}: {wrong} of {len(want) // 4096} pages"


# ------------------------------------------------------------------ cases

def shared(library, make):
    """The library's view of a tensor is that memory, and writes go there."""
    tensor = make()
    x = library.take(tensor)
    address = tensor.__cuda_array_interface__["data"][0]
    assert library.address(x) == address, "another address: a copy"
    y = library.take(tensor)
    if library.fill is None:
        assert not any(library.values(x).tobytes()), "zero-filled memory"
        return
    library.fill(x, 7)
    check(library.values(y), 7, "written through one view, read by another")
    library.wait()
    del x, y
    gc.collect()
    # Another import of the same dma-buf, later.
    again = library.take(dlbuf.from_fd(tensor.fd, N, "int32", device=DEVICE))
    check(library.values(again), 7, "a later import")


def ordered(library, make):
    """acquire() and release() around work on the library's own stream."""
    if library.fill is None:
        raise Skip("its arrays do not change")
    tensor = make()
    kept = tensor.share()
    x = library.take(tensor)
    for start in range(3):
        kept.acquire("rw", stream=library.handle)
        library.fill(x, start)
        fence = kept.release(stream=library.handle, fence=True)
        if fence is not None:
            assert select.select([fence], [], [], 60)[0], "the fence stays"
            os.close(fence)
            check(library.values(x), start, "after the fence")
    library.wait()


def on_the_cpu(library, make):
    """The CPU reads the GPU's writes to a udmabuf, and the GPU the CPU's."""
    if library.fill is None:
        raise Skip("its arrays do not change")
    tensor = make()
    x = library.take(tensor)
    cpu = dlbuf.from_fd(tensor.fd, N, "int32")
    library.fill(x, 3)
    library.wait()
    check(memoryview(cpu), 3, "the GPU's, on the CPU")
    with cpu, memoryview(cpu) as view:
        view.cast("B")[:] = array.array("i", range(11, 11 + N)).tobytes()
    check(library.values(x), 11, "the CPU's, on the GPU")


def taken(library):
    """A library's array as a tensor of dlbuf, and as another array."""
    x = library.make(5)
    try:
        tensor = dlbuf.from_dlpack(x)
    except dlbuf.UnsupportedError as e:
        # The array interface asks the system's driver, and not a double.
        if "no driver" in str(e) and "DLBUF_CUDA_LIBRARY" in os.environ:
            raise Skip(str(e)) from None
        raise
    assert tensor.__dlpack_device__() == (2, 0), tensor.__dlpack_device__()
    assert tensor.shape == (N,) and tensor.dtype == "int32"
    address = tensor.__cuda_array_interface__["data"][0]
    assert address == library.address(x), "another address: a copy"
    check(library.values(library.take(tensor)), 5, "there and back")


def exported(library):
    """A dma-buf of a library's memory."""
    if not hasattr(dlbuf, "export"):
        raise Skip("this dlbuf has no export()")
    if not library.is_exportable():
        raise Skip("its memory is of a pool")
    x = library.make(9)
    library.wait()
    try:
        e = dlbuf.export(x)
    except dlbuf.UnsupportedError as e:
        raise Skip(e.strerror or str(e)) from None
    fd = e if isinstance(e, int) else e.fd if hasattr(e, "fd") else e.fileno()
    size = os.lseek(fd, 0, os.SEEK_END)
    assert size >= 4 * N, f"a dma-buf of {size} bytes"
    if offset := getattr(e, "offset", None):
        assert offset + 4 * N <= size, f"{offset} in {size}"


CASES = {
    "own/shared": lambda l: shared(l, own_memory),
    "own/ordered": lambda l: ordered(l, own_memory),
    "udmabuf/shared": lambda l: shared(l, udmabuf),
    "udmabuf/ordered": lambda l: ordered(l, udmabuf),
    "udmabuf/cpu": lambda l: on_the_cpu(l, udmabuf),
    "taken": taken,
    "exported": exported,
}


def run(fn, library):
    """Its result and the reason."""
    try:
        fn(library)
        return "ok", ""
    except Skip as e:
        return "ok", f" # SKIP {e}".replace("\n", " ")
    except BaseException:
        for line in traceback.format_exc().splitlines():
            print("# " + line)
        return "not ok", ""


def main(name, patterns):
    try:
        library = LIBRARIES[name]()
    except (ImportError, Skip) as e:
        print(e, file=sys.stderr)
        return 4
    cases = [c for c in CASES if not patterns or
             any(fnmatch.fnmatch(c, p) for p in patterns)]
    print(f"KTAP version 1\n1..{len(cases)}")
    print(f"# {name} {library.version}, Python {sys.version.split()[0]}, "
          f"dlbuf {dlbuf.__version__}", flush=True)
    failed = skipped = 0
    for n, case in enumerate(cases, 1):
        result, reason = run(CASES[case], library)
        print(f"{result} {n} - {name}/{case}{reason}", flush=True)
        gc.collect()
        failed += result != "ok"
        skipped += bool(reason)
    return 1 if failed else 4 if skipped == len(cases) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
