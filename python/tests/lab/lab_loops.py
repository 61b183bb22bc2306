#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loops of every call: nothing is left behind. For the lab; prints KTAP.

    PYTHONPATH=... LOOPS=100000 python3 python/tests/lab/lab_loops.py [CALL...]

CALL is a shell pattern of the names in CALLS. lab.py runs all of them with about
a hundred loops: a leak of one Python object, of one malloc() or of one fd in
each call is found with these, too. With many loops the process's memory is
compared as well. What is the kernel's is counted by its own list of dma-bufs, not by
how much memory the machine has left.
"""

import asyncio
import contextlib
import ctypes
import fnmatch
import gc
import multiprocessing
import os
import pickle
import random
import socket
import sys
import threading
import time
import weakref
from multiprocessing import resource_sharer

import numpy as np

import dlbuf
import dlbuf.multiprocessing

from labtools import case, main, once_equal
from cycles import Loop
from lab_camera import vivid

LOOPS = int(os.environ.get("LOOPS", 120))
THREADS, ROUNDS = 4, max(LOOPS // 4, 60)
PATTERNS = []
# From here on memory is compared: below, the noise of pages hides nothing that
# the exact counts do not show.
MANY = 10_000
BOUND = 300     # seconds until the library's thread has given all back; lab.py has 5000


class World:
    """What the calls use; the camera begins when it is asked for."""

    def __init__(self):
        self.t = dlbuf.alloc((64, 64), "uint8")
        self.fd = self.t.fd
        self.f = dlbuf.alloc(16, "float32")
        self.read_only = dlbuf.from_fd(self.fd, 16, "uint8", access="read")
        self.closed = self.t.share()
        self.closed.close()
        self.uncached = dlbuf.Device("cpu", cache=False)
        self.a, self.b = socket.socketpair(type=socket.SOCK_SEQPACKET)
        # For tensors only: who wants one gets no frame of another thread.
        self.c, self.d = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self.empty, self.peer = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self.empty.setblocking(False)
        self.gone, peer = socket.socketpair(type=socket.SOCK_SEQPACKET)
        peer.close()
        self.array = np.arange(12, dtype="f4").reshape(3, 4)
        self.memory = bytearray(64)
        self.fences = []
        self.lock = threading.Lock()
        self.pipe = multiprocessing.Pipe()
        self.frame = whole(self)
        # References to these are no new objects.
        self.known = [dlbuf.Tensor, dlbuf.Frame, dlbuf.TensorFrame, dlbuf.Device,
                      dlbuf.Access, self.uncached, self.t.device, self.t, self.array]
        self._camera = self._node = None

    @property
    def node(self):
        with self.lock:
            self._node = self._node or vivid()
        return self._node

    @property
    def camera(self):
        node = self.node
        with self.lock:
            if not self._camera:
                self._camera = dlbuf.Camera(node, format="NV12",
                                            size=(320, 180), fps=60)
        return self._camera

    def close(self):
        if self._camera:
            self._camera.close()
        self.uncached.close()
        self.frame.release()
        for s in (*self.pipe, self.a, self.b, self.c, self.d, self.empty,
                  self.peer, self.gone):
            s.close()


def frame(w, release=None, **kwargs):
    return dlbuf.from_frame([(w.fd, 64)], 64, 64, "R8", release=release,
                            **kwargs)


def whole(w, release=None):
    tensors = frame(w, release)
    return dlbuf.TensorFrame(tensors, tensors[0].frame)


def acquired(t, **kwargs):
    """Another tensor of t, acquired and released; a fence is closed."""
    u = t.share()
    u.acquire(**kwargs)
    fence = u.release(fence=True)
    if fence is not None and fence >= 0:
        os.close(fence)


def nested(t):
    with t.share() as u:
        np.asarray(u)[0, 0] = 1


def through(w, what, **kwargs):
    dlbuf.send(w.a, what)
    return dlbuf.recv(w.b, **kwargs)


def raises_in_lease():
    raise ZeroDivisionError


def raises_in_with(t):
    with contextlib.suppress(ZeroDivisionError), t.share():
        raises_in_lease()


def weak(w):
    u = w.t.share()
    ref = weakref.ref(u, lambda _: None)
    return ref() is u


def views(t):
    return (t.reshape(-1), t.T, t.transpose(1, 0), t.permute(1, 0),
            t.unsqueeze(0).squeeze(0))


def planes(frame):
    with frame.planes("read") as (plane,):
        return plane.shape


# name -> a call. What it raises is a failure.
CALLS = {
    "alloc": lambda w: dlbuf.alloc(4096, "uint8"),
    "alloc on two": lambda w: dlbuf.alloc(16, "uint8", ["cpu", w.uncached]),
    "alloc by name": lambda w: dlbuf.alloc(16, "uint8", exporter="udmabuf",
                                           name="loop"),
    "from_fd": lambda w: dlbuf.from_fd(w.fd, (64, 64), "uint8"),
    "from_fd strided": lambda w: dlbuf.from_fd(
        w.fd, (2, 3), np.uint16, strides=(12, 2), offset=2, access="read"),
    "from_fd uncached": lambda w: dlbuf.from_fd(w.fd, 64, "uint8",
                                                device=w.uncached),
    "from_frame": frame,
    "from_frame release": lambda w: frame(w, lambda: None),
    "from_frame crop": lambda w: frame(w, crop=(2, 2, 8, 8), access="read"),
    "from_frame lease raises": lambda w: frame(w, raises_in_lease),
    "from_frame cycle": lambda w: Loop(lambda back: frame(w, back), w.fences),
    "Tensor properties": lambda w: [
        getattr(w.t, name) for name in dir(w.t)
        if not name.startswith("__") and name != "vpi_send"],
    "Tensor repr": lambda w: repr(w.t),
    "Tensor share": lambda w: w.t.share(),
    "Tensor close": lambda w: w.t.share().close(),
    "Tensor weakref": weak,
    "acquire": lambda w: acquired(w.t),
    "acquire read": lambda w: acquired(w.t, access="read"),
    "acquire deadline": lambda w: acquired(
        w.t, deadline=time.monotonic() + BOUND),
    "acquire fence": lambda w: acquired(w.t, fence=-1),
    "with": lambda w: nested(w.t),
    "with raises": lambda w: raises_in_with(w.t),
    "memoryview": lambda w: memoryview(w.t),
    "bytes": lambda w: bytes(w.read_only),
    "np.asarray": lambda w: np.asarray(w.t),
    "np.from_dlpack": lambda w: np.from_dlpack(w.t),
    "__array_interface__": lambda w: w.t.__array_interface__,
    "__dlpack__ unused": lambda w: w.t.__dlpack__(max_version=(1, 3)),
    "__dlpack__ unused, old": lambda w: w.t.__dlpack__(),
    "__dlpack__ copy": lambda w: w.t.__dlpack__(copy=True, max_version=(1, 0)),
    "__dlpack__ used": lambda w: dlbuf.from_dlpack(w.t.__dlpack__()),
    "__dlpack_device__": lambda w: (w.t.__dlpack_device__(),
                                    w.t.__dlpack_info__()),
    "from_dlpack Tensor": lambda w: dlbuf.from_dlpack(w.t),
    "from_dlpack array": lambda w: dlbuf.from_dlpack(w.array),
    "from_dlpack copy": lambda w: dlbuf.from_dlpack(w.t, copy=True),
    "from_dlpack device": lambda w: dlbuf.from_dlpack(w.t, device="cpu"),
    "from_dlpack buffer": lambda w: dlbuf.from_dlpack(w.memory),
    "asdlpack": lambda w: (dlbuf.asdlpack(w.t), dlbuf.asdlpack(w.memory)),
    "exchange": lambda w: dlbuf.exchange(w.t, dlbuf.Tensor),
    "wrap": lambda w: dlbuf.wrap(w.array),
    "wrap reverse": lambda w: dlbuf.wrap(w.t, reverse=True),
    "wrap to_dlpack": lambda w: dlbuf.wrap(w.array, lambda x: x.__dlpack__()),
    "share": lambda w: dlbuf.share(w.array, w.array.ctypes.data, (3, 4),
                                   "float32"),
    "send recv": lambda w: through(w, w.t),
    "send recv keep": lambda w: through(w, w.t, keep=True),
    "send recv several": lambda w: through(w, [w.t, w.read_only, w.f]),
    "send recv frame": lambda w: through(w, whole(w, lambda: None)),
    "Device": lambda w: dlbuf.Device("cpu").close(),
    "Device collected": lambda w: dlbuf.Device("cpu", max_idle=3),
    "Device with": lambda w: dlbuf.Device("cpu").__enter__().__exit__(),
    "Device info": lambda w: (w.uncached.name, w.uncached.info,
                              w.uncached.stats(), repr(w.uncached)),
    "Device trim": lambda w: w.uncached.trim(),
    "Device paths": lambda w: w.uncached.paths(w.fd),
    "t[...]": lambda w: (w.t[1:3, ::-2], w.t[..., None], w.t[-1, 0]),
    "iter": lambda w: list(w.t[:3]),
    "views": lambda w: views(w.t),
    "views of memory": lambda w: views(dlbuf.from_dlpack(w.array)),
    "numpy": lambda w: w.t.numpy(),
    "copy": lambda w: w.t[:, :3].copy(),
    "to": lambda w: w.t.to(w.uncached),
    "tobytes": lambda w: (w.t[:2, :2].tobytes(), w.f[0].item(),
                          w.t.same_layout(w.f)),
    "dtype": lambda w: (dlbuf.dtype(np.float32), dlbuf.dtype("<u2"),
                        w.t.dtype.numpy, dlbuf.dtype(float).itemsize),
    "recv_tensor": lambda w: (dlbuf.send(w.c, w.t), dlbuf.recv_tensor(w.d)),
    "planes": lambda w: planes(whole(w)),
    "multiprocessing": lambda w: (w.pipe[0].send(w.t), w.pipe[1].recv()),
    "multiprocessing frame": lambda w: (
        w.pipe[0].send(w.frame), w.pipe[1].recv().release()),
    "formats": lambda w: dlbuf.formats(),
    "find_format": lambda w: dlbuf.find_format("NV12"),
    "exporters": lambda w: dlbuf.exporters(),
    "devices": lambda w: dlbuf.devices(),
    "Camera": lambda w: dlbuf.Camera(w.node, format="NV12").close(),
    "Camera next": lambda w: np.asarray(next(w.camera)[0])[0, 0],
    "Camera frame": lambda w: asyncio.run(w.camera.frame()),
    "Camera view": lambda w: next(w.camera)[0][::2, 5:].numpy().max(),
    "cameras": lambda w: dlbuf.cameras(),
    "Camera formats": lambda w: w.camera.formats,
    "controls": lambda w: (w.camera.controls.info("menu"),
                           setattr(w.camera.controls, "brightness", 100),
                           w.camera.controls["brightness"]),
}

# name -> a call that raises.
FAILURES = {
    "dtype": lambda w: dlbuf.from_fd(w.fd, 1, "uint7"),
    "shape": lambda w: dlbuf.from_fd(w.fd, "x", "uint8"),
    "fd": lambda w: dlbuf.from_fd(-1, 1, "uint8"),
    "fd of another kind": lambda w: dlbuf.from_fd(w.a, 1, "uint8"),
    "layout": lambda w: dlbuf.from_fd(w.fd, 1 << 40, "uint8"),
    "strides": lambda w: dlbuf.from_fd(w.fd, (2, 2), "uint8", strides=(1,)),
    "offset": lambda w: dlbuf.from_fd(w.fd, 1, "uint16", offset=1),
    "access": lambda w: w.t.share().acquire("x"),
    "stream": lambda w: w.t.__dlpack__(stream=1),
    "device": lambda w: dlbuf.Device("nonesuch"),
    "device of DLPack": lambda w: w.t.__dlpack__(dl_device=(2, 0)),
    "read-only": lambda w: w.read_only.__dlpack__(),
    "write": lambda w: w.read_only.acquire("write"),
    "closed": lambda w: w.closed.shape,
    "release": lambda w: w.t.share().release(),
    "frame": lambda w: dlbuf.from_frame([(w.fd, 8)], 8, 4, "NV12",
                                        release=lambda: None),
    "frame outside": lambda w: dlbuf.from_frame(
        [(w.fd, 64)], 64, 1 << 20, "R8", release=lambda: None),
    "format": lambda w: dlbuf.from_frame([(w.fd, 8)], 8, 4, "no"),
    "view": lambda w: frame(w, view="no"),
    "exporter": lambda w: dlbuf.alloc(1, "uint8", exporter="no"),
    "alloc": lambda w: dlbuf.alloc(1 << 60, "uint8"),
    "v4l2": lambda w: dlbuf.alloc(1, "uint8", v4l2=[w.fd]),
    "from_dlpack": lambda w: dlbuf.from_dlpack(5),
    "capsule used twice": lambda w: [
        dlbuf.from_dlpack(c) for c in [w.t.__dlpack__()] * 2],
    "exchange": lambda w: dlbuf.exchange(w.t, int),
    "export": lambda w: dlbuf.export(w.array),
    "share": lambda w: dlbuf.share(w, 0, 4, "uint8"),
    "recv": lambda w: dlbuf.recv(w.empty),
    "recv at the end": lambda w: dlbuf.recv(w.gone),
    "send to nobody": lambda w: dlbuf.send(w.gone,
                                           frame(w, lambda: None)[0]),
    "send": lambda w: dlbuf.send(w.a, [5]),
    "index": lambda w: w.t[64],
    "mask": lambda w: w.t[[1, 2]],
    "reshape": lambda w: w.t.T.reshape(-1),
    "squeeze": lambda w: w.t.squeeze(0),
    "to": lambda w: w.t.to("nonesuch"),
    "memory to": lambda w: dlbuf.from_dlpack(w.array).to("vulkan:0"),
    "item": lambda w: w.t.item(),
    "pickle": lambda w: pickle.dumps(w.t),
    "multiprocessing": lambda w: w.pipe[0].send(dlbuf.from_dlpack(w.array)),
    "recv_frame": lambda w: (dlbuf.send(w.c, w.t), dlbuf.recv_frame(w.d)),
    "control": lambda w: setattr(w.camera.controls, "brightness", 1000),
    "size": lambda w: dlbuf.Camera(w.node, size="big"),
    "deadline": lambda w: w.t.share().acquire(deadline=float("nan")),
    "Camera": lambda w: dlbuf.Camera("/dev/nonesuch"),
}


def failing(call):
    def fn(w):
        try:
            call(w)
        except (OSError, TypeError, ValueError, BufferError, IndexError):
            return
        raise AssertionError("it does not fail")
    return fn


CALLS |= {f"fails: {name}": failing(fn) for name, fn in FAILURES.items()}
# Bytes that are no leak: threads have caches, and drivers that are asked keep
# something of their own, less with each call.
NOISE = {"devices": 128 << 10, "send recv frame": 8 << 10}
# These take milliseconds, a frame of the camera a 60th of a second: so many
# times fewer loops.
DEAR = {"Camera next": 10, "Camera": 100, "devices": 1000, "exporters": 100,
        "acquire deadline": 10, "fails: alloc": 10, "fails: v4l2": 10,
        "fails: format": 100, "Camera frame": 100, "Camera view": 10,
        "cameras": 1000, "Camera formats": 1000, "multiprocessing": 10,
        "multiprocessing frame": 10}


# These keep the node open, so they come last.
STREAMS = {"Camera next", "Camera frame", "Camera view", "Camera formats",
           "controls", "fails: control"}


# ------------------------------------------------------------------ counts

class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
        "uordblks", "fordblks", "keepcost")]


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo2


def heap():
    """Bytes that malloc() has given out, in all arenas."""
    m = libc.mallinfo2()
    return m.uordblks + m.hblkhd


def number(path, word):
    with open(path) as f:
        for line in f:
            if line.startswith(word):
                return int(line.split()[1])
    raise AssertionError(f"{path} has no {word}")


def dmabufs():
    """(dma-bufs, their bytes) of the machine: the lab has no others. One is on the
    list until its last reference is gone: an fd, a mapping, a message that nobody
    has read, an import of a driver."""
    with open("/sys/kernel/debug/dma_buf/bufinfo") as f:
        total = f.read().rpartition("Total ")[2].split()
    return int(total[0]), int(total[2])


KEPT = "fds", "mappings", "threads", "dma-bufs", "bytes of dma-bufs"


def kept():
    """The values that must be the same: the numbers of KEPT."""
    resource_sharer.stop()      # as fds() of labtools.py
    with open("/proc/self/maps") as f:
        maps = sum("dmabuf" in line or "memfd:" in line for line in f)
    return (len(os.listdir("/proc/self/fd")), maps, threading.active_count(),
            *dmabufs())


def rss():
    """KiB, after the allocators have returned their free memory."""
    libc.malloc_trim(0)
    return number("/proc/self/smaps_rollup", "Rss:")


def wait_for(want, bound=BOUND):
    """Leases fire and sent messages are freed on the library's thread."""
    def get():
        gc.collect()
        return kept()
    return once_equal(get, want, bound)


def measure(name, fn, world, loops, warm=30, bound=BOUND):
    """Runs it and returns a list of the resources that it has left."""
    for _ in range(min(loops, warm)):
        fn(world)       # caches, tables, the first of everything
    before = settled()
    many = loops >= MANY
    memory = rss() if many else 0
    refs = [sys.getrefcount(x) for x in world.known]
    blocks, bytes_ = sys.getallocatedblocks(), heap()
    start = time.perf_counter()
    for _ in range(loops):
        fn(world)
    took = time.perf_counter() - start
    world.fences.clear()
    after = wait_for(before, bound)
    blocks, bytes_ = sys.getallocatedblocks() - blocks, heap() - bytes_
    left = [f"{what}: {was} -> {now}"
            for what, was, now in zip(KEPT, before, after) if was != now]
    # One reference or object in every second call, or one malloc(), the
    # smallest of which is 32 bytes.
    left += [f"{n} references to {x!r}" for x, was in zip(world.known, refs)
             if (n := sys.getrefcount(x) - was) > loops // 2]
    if blocks > loops // 2 + 50:
        left.append(f"{blocks} objects")
    if bytes_ > 16 * loops + NOISE.get(name, 1 << 10):
        left.append(f"{bytes_} bytes of malloc()")
    words = f"{blocks:+} objects, {bytes_:+} bytes of malloc()"
    if many:
        grown = rss() - memory
        words += f", RSS {grown:+} KiB"
        if grown > 1024:
            left.append(f"RSS grew by {grown} KiB")
    print(f"# {name}: {loops} x {took / loops * 1e6:.0f} us: {words}",
          flush=True)
    return left


def settled():
    """kept(), when the library's thread has done what it has to do by now: a
    lease that is given back last comes last."""
    gc.collect()
    resource_sharer.stop()
    done = threading.Event()
    a, b = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with a, b, dlbuf.Device("cpu", cache=False) as device:
        t = dlbuf.alloc(1, "uint8", device)
        y, = dlbuf.from_frame([(t.fd, 1)], 1, 1, "R8", device=device,
                              release=done.set)
        dlbuf.send(a, y)
        y.close()
        t.close()
    assert done.wait(BOUND)
    return kept()


@contextlib.contextmanager
def quiet():
    """Exceptions of leases are no news here."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


def loops_of(name):
    return max(LOOPS // DEAR.get(name, 1), 3)


@case
def calls_leave_nothing():
    chosen = sorted([n for n in CALLS if not PATTERNS or
                     any(fnmatch.fnmatch(n, p) for p in PATTERNS)],
                    key=lambda n: n in STREAMS)
    world, wrong = World(), {}
    gc.collect()
    gc.freeze()     # what is there is not looked at each time
    with quiet():
        for name in chosen:
            if name not in STREAMS:
                CALLS[name](world)      # loads drivers
        for name in chosen:
            for _ in range(3):
                left = measure(name, CALLS[name], world, loops_of(name))
                # A leak occurs each time, the growth of a cache does not.
                if not left or any(w.startswith(KEPT) for w in left):
                    break
            if left:
                wrong[name] = left
    gc.unfreeze()
    world.close()
    assert not wrong, wrong


@case
def leaks_are_found():
    """The least that a call can leave behind."""
    world, kept_, fds, unread, over = World(), [], [], [], threading.Event()

    def in_a_message(w):
        """One dma-buf, of which the process has no fd."""
        if not unread:
            t = dlbuf.alloc(4096, "uint8", w.uncached)
            unread.append(socket.send_fds(w.a, [b"x"], [t.fd]))
            t.close()

    def waits(w):
        if threading.active_count() == before:
            threading.Thread(target=over.wait).start()

    before = threading.active_count()
    for name, leak in {
            " references to <dlbuf.Device": lambda w: kept_.append(w.uncached),
            "threads: ": waits,
            " objects": lambda w: kept_.append(object()),
            " bytes of malloc()": lambda w: libc.malloc(16),
            "fds: ": lambda w: fds.append(os.dup(w.fd)) if not fds else None,
            "dma-bufs: ": in_a_message,
    }.items():
        # measure() itself frees some twenty objects, far fewer than these.
        words = measure(name, leak, world, 2 * LOOPS, warm=0, bound=0)
        assert any(name in w for w in words), (name, words)
        assert name == "fds: " or len(words) <= 2, words
    over.set()
    os.close(fds[0])
    world.close()


@case
def threads_leave_nothing():
    """Random calls on each, with the same tensors, sockets and camera."""
    names = [n for n in CALLS if n not in DEAR or n == "Camera next"]
    world, failures = World(), []
    world.t.device.trim()

    def work(seed):
        order = random.Random(seed)
        try:
            for _ in range(ROUNDS):
                CALLS[order.choice(names)](world)
        except BaseException as e:
            failures.append(e)

    def together():
        threads = [threading.Thread(target=work, args=(i,))
                   for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        world.fences.clear()
        return settled()

    with quiet():
        for name in names:
            CALLS[name](world)
        before = together()
        blocks, bytes_ = sys.getallocatedblocks(), heap()
        after = together()
        if after != before:
            after = wait_for(before)
    assert not failures, failures
    assert after == before, (before, after)
    calls = THREADS * ROUNDS
    assert sys.getallocatedblocks() - blocks < calls // 8
    # Arenas of threads keep what their threads have freed.
    assert heap() - bytes_ < 8 * calls + (64 << 10), heap() - bytes_
    world.close()


@case
def memory_comes_back():
    """Large buffers, each of which goes with its last tensor."""
    mib, default = 1 << 20, dlbuf.alloc(1, "uint8").device
    kinds = {"cpu": ["cpu"], "new": [dlbuf.Device("cpu")],
             "uncached": [dlbuf.Device("cpu", cache=False)]}
    with contextlib.suppress(dlbuf.Error):
        kinds["vulkan"] = ["cpu", dlbuf.Device("vulkan:0")]
    a, b = socket.socketpair(type=socket.SOCK_SEQPACKET)

    def allocate(size, devices):
        for t in dlbuf.alloc(size, "uint8", devices):
            t.close()

    def receive(size, devices):
        t = dlbuf.alloc(size, "uint8")
        dlbuf.send(a, t)
        dlbuf.recv(b, device=devices[-1])

    for name, devices in kinds.items():
        for call in allocate, receive:
            # Memory is zeroed, which takes long; kept() counts its bytes.
            large = (name, call) == ("cpu", allocate)
            size, rounds = (16 * mib, 60) if large else (mib, 12)
            call(size, devices)
            before = settled()
            for _ in range(rounds):
                call(size, devices)
            after = wait_for(before)
            assert after == before, (name, call, before, after)
    # keep=True keeps the buffers that a peer sends, within the bounds of
    # the cache, and Device.trim() gives it up.
    default.trim()
    before = settled()
    for _ in range(12):
        t = dlbuf.alloc(mib, "uint8")
        dlbuf.send(a, t)
        dlbuf.recv(b, keep=True)
        del t
    assert settled()[3] > before[3]
    default.trim()
    assert wait_for(before) == before
    a.close()
    b.close()


if __name__ == "__main__":
    PATTERNS = sys.argv[1:]
    sys.exit(main([], [calls_leave_nothing] if PATTERNS else
                  [calls_leave_nothing, leaks_are_found,
                   threads_leave_nothing, memory_comes_back]))
