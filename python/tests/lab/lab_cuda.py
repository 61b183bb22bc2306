# SPDX-License-Identifier: MIT
"""Tensors on CUDA, with the double of its driver: for the lab.

CUDA_DOUBLE names the double, tests/doubles/libcuda.so of a build. It is what its
environment says when it is loaded, so each case is a process of its own:

    python3 python/tests/lab/lab_cuda.py NAME
"""

import ctypes
import errno
import os
import socket
import subprocess
import sys
import threading
import traceback

import numpy as np

import dlbuf
from dlbuf import Access

import labtools
from labtools import (Skip, Vgem, fds, maps, raises, once_equal,
                      waits_without_the_gil)

NOT_READY = 600
BOUND = 600     # seconds, for what is certain to come
CHILDREN = {}


def on(words):
    """A case with the double being this; a call against CUDA's rules ends it."""
    def wrapper(fn):
        def run():
            double = os.environ.get("CUDA_DOUBLE")
            if not double or not os.path.exists(double):
                raise Skip("CUDA_DOUBLE names no double of CUDA's driver")
            p = subprocess.run(
                [sys.executable, __file__, fn.__name__], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
                env={**os.environ, "DLBUF_CUDA_LIBRARY": double,
                     "FAKE_CUDA": words + ",strict"})
            if p.returncode == Vgem.STATUS:
                Vgem.expires = 0
            assert not p.returncode, f"{p.returncode}: {p.stdout}"
        run.__name__ = fn.__name__
        CHILDREN[fn.__name__] = fn
        return labtools.case(run)
    return wrapper


class Driver:
    """The application's own use of CUDA, on the device's primary context."""

    def __init__(self, ordinal=0):
        self.lib = ctypes.CDLL(os.environ["DLBUF_CUDA_LIBRARY"])
        self.call("cuInit", 0)
        self.context = self.get("cuDevicePrimaryCtxRetain", ctypes.c_int(ordinal))
        self.call("cuCtxSetCurrent", ctypes.c_void_p(self.context))

    def call(self, name, *args):
        result = getattr(self.lib, name)(*args)
        assert not result, f"{name}: {result}"

    def get(self, name, *args):
        out = ctypes.c_void_p()
        self.call(name, ctypes.byref(out), *args)
        return out.value

    def stream(self):
        return self.get("cuStreamCreate", 1)

    def waits(self, stream):
        result = self.lib.cuStreamQuery(ctypes.c_void_p(stream))
        assert result in (0, NOT_READY), result
        return result == NOT_READY

    def finish(self, stream):
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def alloc(self, data):
        p = self.get("cuMemAlloc_v2", ctypes.c_size_t(len(data)))
        self.write(p, data)
        return p

    def free(self, p):
        self.call("cuMemFree_v2", ctypes.c_uint64(p))

    def write(self, p, data):
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(p), bytes(data),
                  ctypes.c_size_t(len(data)))

    def read(self, p, n):
        data = ctypes.create_string_buffer(n)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(p),
                  ctypes.c_size_t(n))
        return data.raw


def address(t):
    return t.__cuda_array_interface__["data"][0]


# ------------------------------------------------------------------ imports

def shares(path):
    """Each reads the other's writes, over acquire and release."""
    cuda = Driver()
    cpu, gpu = dlbuf.alloc((4, 6), "uint8", ["cpu", "cuda:0"],
                           exporter="udmabuf")
    assert (cpu.path, gpu.path, gpu.is_copied) == ("direct", path, False)
    assert gpu.__dlpack_device__() == (2, 0) and gpu.buffer == cpu.buffer
    assert gpu.device.name == "cuda:0" and gpu.access == Access.RW
    with cpu:
        np.asarray(cpu)[...] = np.arange(24).reshape(4, 6)
    p, s = address(gpu), cuda.stream()
    gpu.acquire("read", s)
    cuda.finish(s)
    assert cuda.read(p, 24) == bytes(range(24))
    assert gpu.release(s, fence=True) is not None
    with gpu:
        assert gpu.acquired == Access.RW
        cuda.write(p + 6, b"abc")
    with cpu:
        assert bytes(np.asarray(cpu)[1, :3]) == b"abc"
    part = dlbuf.from_fd(cpu.fd, (2, 3), "uint8", strides=(12, 2), offset=1,
                         device="cuda:0")
    assert part.path == path and address(part) == p + 1
    # On the CPU it begins where it does on the device.
    assert part.numpy().tolist() == [[1, 3, 5], [13, 15, 17]]
    for u, v in ((gpu[2:, ::-2], cpu[2:, ::-2]), (part.T[1:], None)):
        want = u.to("cpu").numpy() if v is None else v.numpy()
        assert u.numpy().tolist() == want.tolist()
        assert u[1, 1].item() == want[1, 1]
    assert address(gpu[2:, ::-2]) == p + 12 + 5
    raises(BufferError, lambda: memoryview(gpu))
    info, = [d for d in dlbuf.devices() if d.name == "cuda:0"]
    assert info.backend == "cuda" and info.status == 0
    assert info.device == (2, 0) and "Fake" in info.description


@on("pc")
def cuda_host():
    shares("host")


@on("thor")
def cuda_direct():
    shares("direct")
    v = Vgem()
    t = dlbuf.from_fd(v.fd, 16, "uint8", device="cuda:0", access="read")
    assert t.read_only and t.__cuda_array_interface__["data"][1]
    raises(PermissionError, lambda: t.acquire("write"))
    raises(BufferError, t.__dlpack__, "read-only")      # a legacy capsule


@on("pc")
def cuda_paths():
    device, v = dlbuf.Device("cuda:0"), Vgem()
    before = fds()
    by_name = {p.path: p for p in device.paths()}
    assert list(by_name) == ["direct", "host", "bridge", "copy"]
    assert [p.status for p in by_name.values()] == [errno.EOPNOTSUPP, 0,
                                                   errno.EOPNOTSUPP, 0]
    assert by_name["direct"].reason and not by_name["host"].reason
    by_name = {p.path: p for p in device.paths(v.fd, access="read")}
    assert by_name["copy"].status == 0
    raises(dlbuf.Error, lambda: device.paths(-1), "-1")
    assert device.stats().tensors == 0 and once_equal(fds, before) == before
    device.close()


@on("pc")
def cuda_may_copy():
    cuda, v = Driver(), Vgem()
    raises(BufferError, lambda: dlbuf.from_fd(v.fd, 4096, "uint8",
                                              device="cuda:0"), "MAY_COPY")
    gpu = dlbuf.from_fd(v.fd, 4096, "uint8", device="cuda:0", may_copy=True)
    assert (gpu.path, gpu.is_copied) == ("copy", True)
    cpu = dlbuf.from_fd(v.fd, 4096, "uint8", may_copy=True)
    assert (cpu.path, cpu.is_copied) == ("direct", False)
    with cpu:
        np.asarray(cpu)[:4] = 1, 2, 3, 4
    with gpu:
        p = address(gpu)
        assert cuda.read(p, 4) == b"\1\2\3\4"
        cuda.write(p, b"copy")
    with cpu:
        assert bytes(np.asarray(cpu)[:4]) == b"copy"
    with cpu:
        np.asarray(cpu)[:4] = 5
    assert address(gpu) == p and cuda.read(p, 4) == b"\5" * 4
    # The interface reads: a reader need not wait for it.
    gate = Vgem()
    work = dlbuf.from_fd(gate.fd, 4096, "uint8", device="cuda:0",
                         may_copy=True)
    fence = gate.attach()
    work.acquire("read")
    assert address(gpu) == p and cuda.waits(1)
    cpu.acquire("read", deadline=0)
    cpu.release()
    gate.signal(fence)
    cuda.finish(1)
    work.release()
    with cpu:
        np.asarray(cpu)[:4] = 6
    capsule = gpu.__dlpack__(stream=1, max_version=(1, 3))
    assert cuda.read(p, 4) == b"\6" * 4
    del capsule
    raises(ValueError, lambda: gpu.__dlpack__(stream=-1), "made on a stream")
    with gpu:
        gpu.__dlpack__(stream=-1)
    y, = dlbuf.from_frame([(v.fd, 64)], 64, 64, "R8", device="cuda:0",
                          may_copy=True)
    assert y.path == "copy"


# ------------------------------------------------------------------ streams

@on("thor")
def cuda_dlpack_streams():
    """Only the consumer's stream waits for the dma-buf's fence."""
    cuda, v = Driver(), Vgem()
    t = dlbuf.from_fd(v.fd, 4096, "uint8", device="cuda:0")
    other = cuda.stream()
    for stream, waits in ((None, 1), (1, 1), (2, 2), (cuda.stream(),) * 2,
                          (-1, None)):
        # An access on 2 ends on 1, and its deletion does not wait for that.
        cuda.finish(1)
        fence = v.attach()
        capsule = t.__dlpack__(stream=stream, max_version=(1, 3))
        assert not cuda.waits(other)
        if waits:
            assert cuda.waits(waits), stream
        else:
            assert not cuda.waits(1) and not cuda.waits(2)
        v.signal(fence)
        if waits:
            cuda.finish(waits)
        del capsule
    raises(ValueError, lambda: t.__dlpack__(stream=0), "ambiguous")
    raises(ValueError, lambda: t.__dlpack__(stream=-2), "no stream")
    raises(BufferError, lambda: t.__dlpack__(copy=True), "CPU only")
    raises(ValueError, lambda: t.__dlpack__(stream=1, dl_device=(1, 0)))
    for way in (lambda: t.__cuda_array_interface__,
                lambda: dlbuf.exchange(t, dlbuf.Tensor),
                lambda: t.acquire("read")):
        cuda.finish(1)
        fence = v.attach()
        got = way()
        assert cuda.waits(1) and not cuda.waits(other)
        v.signal(fence)
        cuda.finish(1)
        del got
    # The user's order: nothing that comes later is waited for.
    fence = v.attach()
    capsule = t.__dlpack__(stream=other)
    assert not cuda.waits(other)
    v.signal(fence)
    del capsule
    t.release()
    assert t.device.stats().tensors == 1


@on("thor")
def cuda_released_on_the_stream():
    """The lease fires when the consumer's submitted work is complete."""
    cuda, v, gate = Driver(), Vgem(), Vgem()
    s, back = cuda.stream(), threading.Event()
    y, = dlbuf.from_frame([(v.fd, 64)], 64, 64, "R8", device="cuda:0",
                          release=back.set)
    capsule = y.__dlpack__(stream=s, max_version=(1, 3))
    # The consumer's work, which takes until the gate opens.
    work = dlbuf.from_fd(gate.fd, 4096, "uint8", device="cuda:0")
    fence = gate.attach()
    work.acquire(stream=s)
    y.close()
    del capsule
    assert cuda.waits(s) and not back.is_set()
    # The CPU waits for it, too, though there is no fence of it.
    cpu = dlbuf.from_fd(v.fd, 4096, "uint8")
    raises(TimeoutError, lambda: cpu.acquire(deadline=0))
    # So does who sends it, as long as the socket says.
    a, b = socket.socketpair(type=socket.SOCK_SEQPACKET)
    a.setblocking(False)
    raises(BlockingIOError, lambda: dlbuf.send(a, cpu))
    a.settimeout(0.05)
    raises(TimeoutError, lambda: dlbuf.send(a, cpu), "not complete")
    a.settimeout(None)
    sender = threading.Thread(target=dlbuf.send, args=(a, cpu))
    sender.start()
    labtools.asleep(sender.native_id)
    gate.signal(fence)
    sender.join()
    assert dlbuf.recv_tensor(b).buffer == cpu.buffer
    a.close()
    b.close()
    assert back.wait(BOUND)
    cpu.acquire()
    cpu.release()
    work.release(s)


@on("thor,nomemops")
def cuda_blocks_without_the_gil():
    """A device that cannot make its streams wait."""
    if dlbuf.Device("cuda:0").info.acquire != "blocks":
        raise AssertionError("it can")
    cuda = Driver()
    for name, way in {
        "dlpack": lambda t: t.__dlpack__(stream=1, max_version=(1, 3)),
        "array interface": lambda t: t.__cuda_array_interface__,
        "exchange api": lambda t: dlbuf.exchange(t, dlbuf.Tensor),
        "acquire": lambda t: t.acquire(), "with": lambda t: t.__enter__(),
    }.items():
        waits_without_the_gil(name, way, "cuda:0")
    cuda.finish(1)


@on("pc")
def cuda_on_the_cpu():
    """The dma-buf is the CPU's, too: nothing is copied unless asked for."""
    cuda = Driver()
    gpu = dlbuf.alloc((4,), "uint8", ["cuda:0"], exporter="udmabuf")[0]
    with gpu:
        cuda.write(address(gpu), b"abcd")
    a = np.from_dlpack(gpu, device="cpu")
    b = np.from_dlpack(gpu, device="cpu", copy=True)
    assert bytes(a) == bytes(b) == b"abcd"
    with gpu:
        cuda.write(address(gpu), b"efgh")
    assert bytes(a) == b"efgh" and bytes(b) == b"abcd"
    # And back, from its own array interface.
    other = type("Other", (), {"__cuda_array_interface__":
                               gpu.__cuda_array_interface__})()
    back = dlbuf.from_dlpack(other)
    assert back.__dlpack_device__() == (2, 0)
    assert address(back) == address(gpu) and back.fd is None


# ------------------------------------------------------------------ exports

@on("pc")
def cuda_export():
    cuda = Driver()
    p = cuda.alloc(bytes(range(256)) * 256)
    x = dlbuf.share(None, p + 4100, (2, 3), "uint8", device=(2, 0))
    e = dlbuf.export(x)
    assert (e.offset, e.bytes) == (4, 4096) and e.fd == e.fileno() >= 3
    cpu = dlbuf.from_fd(e, (6,), "uint8", offset=e.offset)
    assert np.asarray(cpu).tolist() == [4, 5, 6, 7, 8, 9]
    cuda.write(p + 4100, b"abc")
    assert bytes(np.asarray(cpu)[:3]) == b"abc"
    cpu.close()
    raises(dlbuf.Error, lambda: dlbuf.export(x, pcie=True),
           "cuMemGetHandleForAddressRange")
    cuda.free(p)


# ------------------------------------------------------------------ devices

@on("pc")
def cuda_devices():
    cuda = Driver()
    with dlbuf.Device("cuda:0", bridge=False, cache=False) as d:
        assert (d.info.acquire, d.info.release) == ("fence", "event")
        bridge, = [p for p in d.paths() if p.path == "bridge"]
        assert "NO_BRIDGE" in bridge.reason
    own = cuda.get("cuCtxCreate_v2", 0, 0)
    cuda.call("cuCtxSetCurrent", ctypes.c_void_p(cuda.context))
    with dlbuf.Device.wrap_cuda(own, max_idle=4) as d:
        assert d.name == "cuda:0" and isinstance(d, dlbuf.Device)
        t = dlbuf.alloc(16, "uint8", d)
        foreign = cuda.stream()     # of the other context
        raises(ValueError, lambda: t.acquire(stream=foreign), "context")
        cuda.call("cuCtxSetCurrent", ctypes.c_void_p(own))
        s = cuda.stream()
        t.acquire(stream=s)
        t.release(stream=s)
        cuda.finish(s)
        del t
    raises(dlbuf.Error, lambda: dlbuf.Device("cuda:7"))
    raises(ValueError, lambda: dlbuf.alloc(1, "uint8", "cuda:uuid=xy"))


# ------------------------------------------------------------------ counts

@on("pc")
def cuda_counts_return():
    cuda, v = Driver(), Vgem()
    device = dlbuf.Device("cuda:0", cache=False)
    # Its memfd is known while it is made, and not after that.
    t, kept = dlbuf.alloc((64, 64), "uint8", ["cpu", device])
    p = cuda.alloc(bytes(4096))
    x = dlbuf.share(None, p, 4096, "uint8", device=(2, 0))
    s = cuda.stream()

    def counts():
        cuda.finish(s)
        cuda.finish(1)
        return (sys.getrefcount(device), sys.getrefcount(dlbuf.Tensor),
                len(fds()), maps())

    before = None
    for i in range(150):
        u = dlbuf.from_fd(t.fd, (64, 64), "uint8", device=device)
        c = u.__dlpack__(stream=s, max_version=(1, 3))
        u.__dlpack__(stream=2)
        u.__cuda_array_interface__
        w = dlbuf.exchange(u, dlbuf.Tensor)
        with u:
            pass
        dlbuf.export(x).close()
        k = dlbuf.from_fd(v.fd, 4096, "uint8", device=device, may_copy=True)
        with k:
            pass
        if i % 50 == 0:
            device.paths(v.fd)
            device.paths()
        try:
            u.acquire(stream=-5, access="x")
        except ValueError:
            pass
        del u, c, w, k
        if i == 50:
            before = counts()
    after = once_equal(counts, before)
    assert after == before, (before, after)
    assert device.stats().tensors == 1 and device.stats().idle == 0


if __name__ == "__main__":
    try:
        CHILDREN[sys.argv[1]]()
    except Exception:
        traceback.print_exc()
        sys.exit(Vgem.STATUS if Vgem.expired() else 1)
