#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The package on real dma-bufs, for the lab. Prints KTAP; needs NumPy.

    PYTHONPATH=... python3 python/tests/lab.py [NAME...]
"""

import errno
import fcntl
import fnmatch
import gc
import glob
import os
import struct
import subprocess
import sys
import threading
import time
import traceback

import numpy as np

import dlbuf
from dlbuf import Access, DLDeviceType


# NumPy before 2.2.5 takes every DLPack tensor as read-only, so what is written
# here is written through np.asarray(), which is the buffer protocol.


BOUND = 60      # seconds, for what is certain to come


class Skip(Exception):
    pass


CASES = []


def case(fn):
    CASES.append(fn)
    return fn


def raises(kind, fn, words=""):
    try:
        fn()
    except kind as e:
        assert words in str(e), f"{e} does not say '{words}'"
        return e
    raise AssertionError(f"no {kind.__name__}")


def fds():
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))


def maps():
    with open("/proc/self/maps") as f:
        return sum("dmabuf" in line for line in f)


# ------------------------------------------------------------------ tensors

@case
def alloc_numpy_import():
    """What NumPy writes another import of the same dma-buf reads."""
    t = dlbuf.alloc((4, 6), "uint16", name="python")
    assert (t.shape, t.strides, t.dtype) == ((4, 6), (6, 1), "uint16")
    assert (t.nbytes, t.path, t.read_only) == (48, "direct", False)
    assert t.device.name == "cpu" and t.fd >= 3 and t.access == Access.RW
    a = np.from_dlpack(t)
    assert a.dtype == np.uint16 and not a.any()
    w = np.asarray(t)
    w[...] = np.arange(24).reshape(4, 6)
    assert a[3, 5] == 23
    with dlbuf.Device("cpu", cache=False) as other:
        fd = os.dup(t.fd)
        u = dlbuf.from_fd(fd, (2, 3), np.uint16, strides=(12, 2), offset=2,
                          device=other, access="read")
        os.close(fd)
        assert u.buffer == t.buffer and u.read_only
        b = np.from_dlpack(u)
        assert b.tolist() == [[1, 3, 5], [13, 15, 17]]
        assert not b.flags.writeable
        assert other.stats().tensors == 2
        del b, u
        assert other.stats().tensors == 0
    assert memoryview(t)[3, 5] == 23


@case
def every_layout():
    t = dlbuf.alloc((64,), "uint8")
    np.asarray(t)[...] = np.arange(64)
    for shape, strides, offset, want in [
            ((2, 2), (-8, 2), 8, [[8, 10], [0, 2]]),
            ((2, 2), (0, 1), 5, [[5, 6], [5, 6]]),
            ((), (), 7, 7), ((0, 4), None, 0, []),
            (3, None, 61, [61, 62, 63])]:
        u = dlbuf.from_fd(t.fd, shape, "uint8", strides=strides, offset=offset)
        assert np.from_dlpack(u).tolist() == want, (shape, strides)
        assert np.asarray(u).tolist() == want, (shape, strides)
    e = raises(ValueError, lambda: dlbuf.from_fd(t.fd, (4097,), "uint8"))
    assert e.errno == errno.ERANGE
    raises(dlbuf.InvalidError,
           lambda: dlbuf.from_fd(t.fd, (2,), "uint16", offset=1))


@case
def read_only_fd():
    v = Vgem(0)
    u = dlbuf.from_fd(v.fd, (16,), "uint8")
    e = raises(PermissionError,
               lambda: dlbuf.from_fd(v.fd, (16,), "uint8", access="rw"))
    assert e.errno == errno.EACCES and isinstance(e, dlbuf.AccessError)
    v.close()
    assert u.read_only and not np.from_dlpack(u).flags.writeable
    raises(PermissionError, lambda: u.acquire("write"))
    raises(BufferError, u.__dlpack__, "read-only")      # a legacy capsule
    raises(ValueError, lambda: np.asarray(u).__setitem__(0, 1))


@case
def exporters():
    raises(ValueError, lambda: dlbuf.alloc(16, "uint8", exporter="nonesuch"))
    for name, node, status, reason in dlbuf.exporters():
        if status:
            continue
        t = dlbuf.alloc(16, "uint8", exporter=name)
        assert os.fstat(t.fd).st_size >= 4096
        t.close()


# ------------------------------------------------------------------ order

@case
def acquire_release():
    t = dlbuf.alloc((16,), "uint8")
    assert t.acquired == 0
    t.acquire("read")
    assert t.acquired == Access.READ
    assert raises(dlbuf.Error, t.acquire).errno == errno.EBUSY
    assert t.release() is None
    raises(ValueError, t.release, "not acquired")
    with t as view:
        assert view is t and t.acquired == Access.RW
        np.asarray(t)[0] = 1
    assert t.acquired == 0
    with t:
        t.release()
    with t:
        t.close()
    raises(ValueError, lambda: t.acquire(), "closed")
    raises(ValueError, lambda: dlbuf.alloc(1, "uint8").acquire(stream=5),
           "no streams")


class Vgem:
    """A dma-buf with a fence that signals when the test says so."""

    def __init__(self, flags=os.O_RDWR):
        nodes = [n for n in glob.glob("/sys/class/drm/card*")
                 if "/vgem/" in os.path.realpath(n)]
        if not nodes:
            raise Skip("there is no vgem")
        self.drm = os.open("/dev/dri/" + os.path.basename(nodes[0]), os.O_RDWR)
        dumb = self.ioctl(0xC02064B2, "IIIIIIQ", 1, 4096, 8, 0, 0, 0, 0)
        self.handle = dumb[4]
        self.fd = self.ioctl(0xC00C642D, "IIi", self.handle,
                             flags | os.O_CLOEXEC, 0)[2]

    def ioctl(self, number, layout, *values):
        arg = bytearray(struct.pack(layout, *values))
        fcntl.ioctl(self.drm, number, arg)
        return struct.unpack(layout, arg)

    def attach(self):
        return self.ioctl(0xC0106441, "IIII", self.handle, 1, 0, 0)[2]

    def signal(self, fence):
        self.ioctl(0x40086442, "II", fence, 0)

    def close(self):
        os.close(self.fd)
        os.close(self.drm)


@case
def deadline():
    v = Vgem()
    t = dlbuf.from_fd(v.fd, (4096,), "uint8")
    fence = v.attach()
    for moment in (0, -1.5, time.monotonic() - 1, time.monotonic() + 0.01):
        e = raises(TimeoutError,
                   lambda: t.acquire("read", deadline=moment))
        assert e.errno == errno.ETIME and isinstance(e, dlbuf.DeadlineError)
    assert t.acquired == 0
    raises(ValueError, lambda: t.acquire(deadline=float("nan")))
    v.signal(fence)
    t.acquire("read", deadline=time.monotonic() + BOUND)
    v.close()


@case
def consumers_wait_without_the_gil():
    """Each way out of a tensor waits for the fence, and lets others run."""
    ways = {
        "numpy": np.from_dlpack, "buffer": memoryview,
        "array interface": lambda t: t.__array_interface__,
        "copy": lambda t: t.__dlpack__(copy=True),
        "legacy": lambda t: t.__dlpack__(),
        "exchange api": lambda t: dlbuf.exchange(t, dlbuf.Tensor),
        "acquire": lambda t: t.acquire(), "with": lambda t: t.__enter__(),
    }
    for name, way in ways.items():
        v = Vgem()
        t = dlbuf.from_fd(v.fd, (4096,), "uint8")
        fence = v.attach()
        order = []

        def work():
            box = way(t)
            order.append("got it")
            del box

        thread = threading.Thread(target=work)
        thread.start()
        # The kernel says when it sleeps, and not for the GIL.
        task = f"/proc/self/task/{thread.native_id}/"
        while True:
            with open(task + "stat") as stat, open(task + "wchan") as wchan:
                where = wchan.read()
                if (stat.read().rpartition(")")[2].split()[0] == "S" and
                        where != "0" and "futex" not in where):
                    break
        assert t.ndim == 1
        raises(dlbuf.Error, t.close, "another thread")
        order.append("signal")
        v.signal(fence)
        thread.join()
        assert order == ["signal", "got it"], (name, order)
        t.close()
        v.close()


@case
def user_keeps_order():
    """An acquired tensor is handed out without another wait."""
    v = Vgem()
    t = dlbuf.from_fd(v.fd, (4096,), "uint8")
    t.acquire()
    fence = v.attach()
    a = np.from_dlpack(t)
    m = memoryview(t)
    v.signal(fence)
    m.release()
    del a
    t.release()
    v.close()


# ------------------------------------------------------------------ frames

def nv12(w=8, h=4):
    t = dlbuf.alloc((h * 3 // 2, w), "uint8")
    np.asarray(t)[...] = np.arange(w * h * 3 // 2).reshape(-1, w)
    return t


@case
def frames():
    t = nv12()
    y, uv = dlbuf.from_frame([(t.fd, 8)], 8, 4, "NV12",
                             space=dlbuf.CodeSpace.V4L2)
    assert (y.shape, uv.shape) == ((4, 8), (2, 4, 2))
    assert np.from_dlpack(uv)[1, 3].tolist() == [46, 47]
    assert y.frame is uv.frame and y.frame.channels == "Y,UV"
    assert (y.frame.format, y.frame.width) == ("NV12", 8)
    y, uv = dlbuf.from_frame([dlbuf.Plane(t.fd, 8), dlbuf.Plane(t.fd, 8, 32)],
                             8, 4, "NV12", crop=(2, 2, 4, 2), access="read")
    assert y.read_only and np.from_dlpack(y).tolist() == [
        [18, 19, 20, 21], [26, 27, 28, 29]]
    luma, = dlbuf.from_frame([(t.fd, 8)], 8, 4, "NV12",
                             space=dlbuf.CodeSpace.V4L2, view="luma")
    assert luma.shape == (4, 8)
    raises(BufferError, lambda: dlbuf.from_frame(
        [(t.fd, 8), (t.fd, 8, 32)], 8, 4, "NV12", modifier=1 << 56))
    raises(ValueError, lambda: dlbuf.from_frame([(t.fd, 8)], 8, 4, "NV12"))
    raises(ValueError, lambda: dlbuf.from_frame([(t.fd, 8)], 8, 4, "RGB565",
                                                view="nonesuch"))


@case
def lease():
    t = nv12()
    done = []

    def frame(release):
        return dlbuf.from_frame([(t.fd, 8)], 8, 4, "NV12", release=release,
                                space=dlbuf.CodeSpace.V4L2)

    y, uv = frame(lambda: done.append(1))
    a = np.from_dlpack(uv)
    m = memoryview(y)
    del y, uv
    assert not done
    a = a[0]
    m.release()
    assert not done
    del a
    assert done == [1]
    # On another thread, and while an exception is on its way.
    box = frame(lambda: done.append(threading.get_ident()))
    thread = threading.Thread(target=box.clear)
    thread.start()
    ident = thread.ident
    thread.join()
    assert done[1:] == [ident]

    def fails():
        box = frame(lambda: done.append(3))
        raise ValueError(len(box))

    raises(ValueError, fails, "2")
    gc.collect()
    assert done[2:] == [3]
    # A frame that is refused keeps nothing.
    callback = lambda: done.append(4)  # noqa: E731
    refs = sys.getrefcount(callback)
    raises(ValueError, lambda: dlbuf.from_frame(
        [(t.fd, 8)], 8, 4, "NV12", release=callback))
    assert sys.getrefcount(callback) == refs and done[3:] == []
    # One that raises is told about, and no more.
    told = []
    hook, sys.unraisablehook = sys.unraisablehook, told.append
    frame(lambda: 1 / 0).clear()
    sys.unraisablehook = hook
    assert told[0].exc_type is ZeroDivisionError


@case
def vivid():
    """Frames of a camera, each equal to the camera's own memory, each lease
    queueing its buffer again."""
    for path in sorted(glob.glob("/dev/video*")):
        camera = os.open(path, os.O_RDWR)
        caps = bytearray(104)
        fcntl.ioctl(camera, 0x80685600, caps)
        if (caps[:6] == b"vivid\0" and
                struct.unpack_from("I", caps, 88)[0] & 1):
            break
        os.close(camera)
    else:
        raise Skip("there is no vivid camera")
    fmt = bytearray(208)
    struct.pack_into("I4xIII", fmt, 0, 1, 640, 360,
                     int.from_bytes(b"NV12", "little"))
    fcntl.ioctl(camera, 0xC0D05605, fmt)
    w, h, code, _, pitch, _ = struct.unpack_from("6I", fmt, 8)
    req = bytearray(struct.pack("5I", 3, 1, 1, 0, 0))
    fcntl.ioctl(camera, 0xC0145608, req)

    def queue(index):
        buf = bytearray(88)
        struct.pack_into("II", buf, 0, index, 1)
        struct.pack_into("I", buf, 60, 1)
        fcntl.ioctl(camera, 0xC058560F, buf)

    exported = []
    for i in range(struct.unpack_from("I", req)[0]):
        exp = bytearray(64)
        struct.pack_into("4I", exp, 0, 1, i, 0, os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(camera, 0xC0405610, exp)
        exported.append(struct.unpack_from("i", exp, 16)[0])
        queue(i)
    fcntl.ioctl(camera, 0x40045612, struct.pack("i", 1))
    before, returned, seen = len(fds()), [], set()
    for _ in range(8):
        buf = bytearray(88)
        struct.pack_into("II", buf, 0, 0, 1)
        struct.pack_into("I", buf, 60, 1)
        fcntl.ioctl(camera, 0xC0585611, buf)
        index = struct.unpack_from("I", buf)[0]

        def again(index=index):
            queue(index)
            returned.append(index)

        y, uv = dlbuf.from_frame([(exported[index], pitch)], w, h, code,
                                 space=dlbuf.CodeSpace.V4L2, release=again)
        a, b = np.from_dlpack(y), np.from_dlpack(uv)
        assert a.shape == (h, w) and b.shape == (h // 2, w // 2, 2)
        raw = memoryview(dlbuf.from_fd(exported[index], pitch * h * 3 // 2,
                                       "uint8", access="read")).tobytes()
        assert a.tobytes() + b.tobytes() == raw
        assert len(set(raw)) > 10, "not a picture"
        seen.add(hash(raw))
        n = len(returned)
        del y, uv, a
        assert len(returned) == n
        del b
        assert len(returned) == n + 1
    assert len(seen) > 1
    # The cache of imports has an fd of each buffer, twice: two accesses.
    assert len(fds()) <= before + 2 * len(exported)
    for fd in exported:
        os.close(fd)
    os.close(camera)


# ------------------------------------------------------------------ devices

@case
def vulkan():
    """One dma-buf on two devices; the CPU reads what is on the other."""
    try:
        vk = dlbuf.Device("vulkan:0")
    except dlbuf.Error as e:
        raise Skip(e.strerror)
    cpu, gpu = dlbuf.alloc((4, 4), "uint8", ["cpu", vk])
    assert cpu.buffer == gpu.buffer
    assert gpu.__dlpack_device__() == (DLDeviceType.VULKAN, 0)
    np.asarray(cpu)[...] = np.arange(16).reshape(4, 4)
    a = np.from_dlpack(gpu, device="cpu")
    assert a.tolist() == np.arange(16).reshape(4, 4).tolist()
    np.asarray(cpu)[0, 0] = 99
    assert a[0, 0] == 99
    t = dlbuf.from_dlpack(gpu, device="cpu", copy=True)
    np.asarray(cpu)[0, 0] = 1
    assert a[0, 0] == 1 and t.is_copied and memoryview(t)[0, 0] == 99
    raises(BufferError, lambda: gpu.__dlpack__(copy=True))
    raises(BufferError, lambda: gpu.__dlpack__(dl_device=(2, 0)))
    raises(ValueError, lambda: gpu.__dlpack__(stream=1))
    raises(BufferError, lambda: memoryview(gpu))
    gpu.acquire()
    gpu.release()
    # The frame's lease waits for the CPU's view, too.
    done = threading.Semaphore(0)
    y, = dlbuf.from_frame([(cpu.fd, 4)], 4, 4, "R8", device=vk,
                          release=done.release)
    a = np.from_dlpack(y, device="cpu")
    del y
    assert not done.acquire(blocking=False)
    del a
    assert done.acquire(timeout=BOUND)          # the event thread's turn
    vk.close()
    gpu.close()
    assert not done.acquire(blocking=False)


# ------------------------------------------------------------------ counts

@case
def counts_return():
    device = dlbuf.Device("cpu", cache=False)
    t = dlbuf.alloc((64, 64), "uint8")
    shared = dlbuf.Device("cpu")
    none = lambda: None  # noqa: E731
    refs = None

    def counts():
        kept = sum(isinstance(o, dlbuf.Frame) for o in gc.get_objects())
        return (sys.getrefcount(none), sys.getrefcount(device), kept,
                sys.getrefcount(dlbuf.Tensor), fds(), maps())

    for i in range(3000):
        d = device if i % 2 else shared
        u = dlbuf.from_fd(t.fd, (64, 64), "uint8", device=d)
        a = np.from_dlpack(u)
        m = memoryview(u)
        f = dlbuf.from_frame([(t.fd, 64)], 64, 64, "R8", device=d,
                             release=none)
        u.__dlpack__()
        u.__dlpack__(copy=True, max_version=(1, 3))
        try:
            u.acquire("x")
        except ValueError:
            pass
        with u:
            b = np.asarray(u)
        del u, a, m, f, b
        if i == 101:
            refs = counts()
    assert refs == counts(), (refs, counts())
    assert device.stats().tensors == shared.stats().tensors == 0
    assert device.stats().idle == 0 and shared.stats().idle == 1
    shared.trim()
    assert shared.stats().idle == 0


@case
def devices_close_early():
    d = dlbuf.Device("cpu")
    t = dlbuf.alloc(16, "uint8", device=d)
    d.close()
    raises(ValueError, lambda: dlbuf.from_fd(t.fd, 1, "uint8", device=d),
           "closed")
    np.asarray(t)[0] = 5
    assert memoryview(t)[0] == 5


@case
def readme():
    """Its ten lines print what it shows."""
    path = os.path.join(os.path.dirname(__file__), "../README.md")
    with open(path) as f:
        text = f.read().partition("## Ten lines")[2]
    code, _, rest = text.partition("```python\n")[2].partition("```")
    want = rest.partition("```\n")[2].partition("```")[0]
    p = subprocess.run([sys.executable, "-c", code], capture_output=True,
                       text=True)
    assert (p.stdout, p.stderr) == (want, ""), p


@case
def interpreter_exits():
    """With leases pending and a thread that deletes."""
    code = """
import dlbuf, threading
t = dlbuf.alloc(4096, "uint8")
def frame():
    return dlbuf.from_frame([(t.fd, 64)], 64, 64, "R8", release=lambda: None)
keep = [frame() for _ in range(9)]
begun = threading.Event()
def forever():
    while True:
        frame()
        begun.set()
threading.Thread(target=forever, daemon=True).start()
begun.wait()
"""
    for _ in range(3):
        p = subprocess.run([sys.executable, "-c", code], capture_output=True)
        assert p.returncode == 0 and not p.stderr, p


def main(patterns):
    cases = [c for c in CASES if not patterns or
             any(fnmatch.fnmatch(c.__name__, p) for p in patterns)]
    print(f"KTAP version 1\n1..{len(cases)}", flush=True)
    print(f"# Python {sys.version.split()[0]}, NumPy {np.__version__}, "
          f"dlbuf {dlbuf.__version__}")
    failed = 0
    for n, fn in enumerate(cases, 1):
        try:
            fn()
            result = f"ok {n} - {fn.__name__}"
        except Skip as e:
            result = f"ok {n} - {fn.__name__} # SKIP {e}"
        except BaseException:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            result = f"not ok {n} - {fn.__name__}"
        gc.collect()
        print(result, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
