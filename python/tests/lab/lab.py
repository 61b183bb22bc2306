#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The package on real dma-bufs, for the lab. Prints KTAP; needs NumPy.

    PYTHONPATH=... python3 python/tests/lab/lab.py [NAME...]
"""

import errno
import gc
import glob
import os
import socket
import subprocess
import sys
import threading
import time
import weakref

import numpy as np

import dlbuf
from dlbuf import Access, DLDeviceType

from labtools import (TESTS, Skip, Vgem, asleep, case, fds, main, raises,
                      waits_without_the_gil)
from cycles import Loop, leases, pools
import lab_camera  # noqa: F401
import lab_camera_more  # noqa: F401
import lab_cuda  # noqa: F401
import lab_doc  # noqa: F401
import lab_gstreamer  # noqa: F401
import lab_loops  # noqa: F401
import lab_multiprocessing  # noqa: F401
import lab_opencl  # noqa: F401
import lab_socket  # noqa: F401
import lab_views  # noqa: F401
import lab_vpi  # noqa: F401


# NumPy before 2.2.5 takes every DLPack tensor as read-only, so what is written
# here is written through np.asarray(), which is the buffer protocol.


BOUND = 600     # seconds, for what is certain to come


# ------------------------------------------------------------------ tensors

@case
def alloc_numpy_import():
    """Another import of the same dma-buf reads NumPy's writes."""
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
def layouts_outside():
    """Those inside are cells of interop()."""
    t = dlbuf.alloc((64,), "uint8")
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
    with open("/dev/null") as f:
        raises(OSError, lambda: dlbuf.alloc(16, "uint8", v4l2=[f]), "/dev/null")
    names = glob.glob("/sys/class/video4linux/*/name")
    node = next((n for n in names if "vid-cap" in open(n).read()), None)
    if not node:
        raise Skip("there is no vivid camera")
    with open("/dev/" + node.split("/")[-2], "rb+", buffering=0) as f:
        t = dlbuf.alloc(16, "uint8", v4l2=[f])
        assert os.fstat(t.fd).st_size > 4096    # as the camera's format needs
        t.close()
    for name, node, status, reason in dlbuf.exporters():
        if status:
            continue
        t = dlbuf.alloc(16, "uint8", exporter=name)
        assert os.fstat(t.fd).st_size >= 4096
        t.close()


@case
def reversed_dimensions():
    """A dma-buf's tensor stays one: fd, access, frame and lease of its own."""
    cpu = dlbuf.alloc(1, "uint8").device
    cpu.trim()
    before = fds()
    t = dlbuf.alloc((4, 6), "uint16")
    np.asarray(t)[...] = np.arange(24).reshape(4, 6)
    u = dlbuf.from_fd(t.fd, (2, 3), "uint16", strides=(12, 2), offset=2)
    r = dlbuf.wrap(u, reverse=True)
    assert (r.shape, r.strides) == ((3, 2), (2, 12))
    assert r.fd == u.fd and r.buffer == t.buffer and r.extent == u.extent
    assert np.from_dlpack(r).tolist() == [[1, 13], [3, 15], [5, 17]]
    assert np.from_dlpack(u).tolist() == [[1, 3, 5], [13, 15, 17]]
    with r:
        assert (r.acquired, u.acquired) == (Access.RW, 0)
        np.asarray(r)[2, 0] = 99
    assert np.from_dlpack(t)[0, 5] == 99
    assert r.share().shape == (3, 2)
    v = dlbuf.wrap(r, reverse=True, copy=True)
    assert v.is_copied and v.shape == (2, 3) and v.fd is None
    done = []
    y, uv = dlbuf.from_frame([(t.fd, 8)], 8, 4, "NV12",
                             space=dlbuf.CodeSpace.V4L2,
                             release=lambda: done.append(1))
    x = dlbuf.wrap(uv, reverse=True)
    assert x.shape == (2, 4, 2) and x.frame is y.frame
    del y, uv
    assert not done
    x.close()
    assert done == [1]
    del t, u, r, v, x
    assert cpu.stats().tensors == 0
    cpu.trim()
    assert fds() == before


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
    for name, way in {
        "numpy": np.from_dlpack, "buffer": memoryview,
        "array interface": lambda t: t.__array_interface__,
        "copy": lambda t: t.__dlpack__(copy=True),
        "legacy": lambda t: t.__dlpack__(),
        "exchange api": lambda t: dlbuf.exchange(t, dlbuf.Tensor),
        "acquire": lambda t: t.acquire(), "with": lambda t: t.__enter__(),
    }.items():
        waits_without_the_gil(name, way)


@case
def one_thread_keeps_order():
    """acquire and release of one tensor exclude each other; others go on."""
    v = Vgem()
    t = dlbuf.from_fd(v.fd, (4096,), "uint8")
    u = t.share()
    fence = v.attach()
    thread = threading.Thread(target=t.acquire)
    thread.start()
    asleep(thread.native_id)
    for call in (t.release, t.acquire, t.__enter__):
        e = raises(dlbuf.Error, call, "another thread is acquiring")
        assert e.errno == errno.EBUSY
    e = raises(TimeoutError, lambda: u.acquire(deadline=0))
    assert e.errno == errno.ETIME
    v.signal(fence)
    thread.join()
    assert t.acquired == Access.RW
    t.release()
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
    # Without a GIL the thread that made an object is asked to delete it.
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert done[1:] == [ident if gil else threading.get_ident()]

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
    # A callback that raises is only reported.
    told = []
    hook, sys.unraisablehook = sys.unraisablehook, told.append
    frame(lambda: 1 / 0).clear()
    sys.unraisablehook = hook
    assert told[0].exc_type is ZeroDivisionError


@case
def cycles_through_leases():
    t = nv12()
    dlpack = {"max_version": (1, 3)}
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def sent(y):
        dlbuf.send(a, y)
        return dlbuf.recv(b)

    for device in "cpu", "vulkan:0":
        consumers = [lambda y: y.__dlpack__(**dlpack),
                     lambda y: dlbuf.from_dlpack(y.__dlpack__(**dlpack)),
                     lambda y: dlbuf.from_dlpack(y, device="cpu")]
        if device == "cpu":
            consumers += [memoryview, np.asarray, np.from_dlpack]

        def frame(release, device=device):
            return dlbuf.from_frame([(t.fd, 8)], 8, 4, "NV12", space=dlbuf.CodeSpace.V4L2,
                                    device=device, release=release)

        leases(frame, consumers)
        pools(frame)
    # A message on its way keeps a cycle, too: the receiver's tensor. The library's
    # thread gives back what was sent.
    fired = []
    loop = Loop(lambda release: dlbuf.from_frame(
        [(t.fd, 8)], 8, 8, "R8", release=release), fired)
    got, gone = sent(loop.tensors[0]), weakref.ref(loop)
    del loop
    gc.collect()
    assert not fired
    del got
    while not fired:
        gc.collect()
    assert fired == [1] and not gone()
    a.close()
    b.close()


@case
def cycles_that_are_acquired():
    """Their lease fires when the work is done: after the collector has looked."""
    t = nv12()
    fired = []
    for i in range(20):
        loop = Loop(lambda release: dlbuf.from_frame(
            [(t.fd, 8)], 8, 8, "R8", device="vulkan:0", release=release), fired)
        loop.tensors[0].acquire("write")
        del loop
        while len(fired) <= i:
            gc.collect()
    assert fired == [1] * 20


# ------------------------------------------------------------------ devices

@case
def vulkan():
    """One dma-buf on two devices; the CPU reads the other device's bytes."""
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
    assert "t.numpy() maps its dma-buf" in str(raises(BufferError, lambda: np.asarray(gpu)))
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
def interop():
    """The matrix over dma-bufs, with the guest's libraries."""
    p = subprocess.run([sys.executable, f"{TESTS}/interop", "--only",
                        "dlbuf dma-buf/*/uint*"], capture_output=True,
                       text=True)
    assert p.returncode == 0 and not p.stderr, p
    assert "new dma-bufs: yes" in p.stdout, p.stdout
    # 4 dtypes and 10 layouts; from_dlpack(), two doors of ours, two of NumPy.
    assert p.stdout.endswith("200 shared; 0 that dlbuf owes.\n"), p.stdout


@case
def interpreter_exits():
    """With leases pending and a thread that deletes."""
    code = """
import dlbuf, threading
t = dlbuf.alloc(4096, "uint8")
class Loop:
    def back(self): pass
def frame():
    loop = Loop()
    loop.last = dlbuf.from_frame([(t.fd, 64)], 64, 64, "R8", release=loop.back)
    return loop.last
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
