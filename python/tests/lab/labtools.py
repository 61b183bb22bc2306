# SPDX-License-Identifier: MIT
"""The harness of the lab's cases: the common part of lab.py and its parts."""

import fcntl
import fnmatch
import gc
import glob
import os
import signal
import struct
import sys
import threading
import time
import traceback
from multiprocessing import resource_sharer

import numpy as np

import dlbuf

# Its modules are for the lab, too.
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(TESTS)


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
    # multiprocessing's thread that hands out fds closes its own after the
    # receiver has the object of its wait: it ends first.
    resource_sharer.stop()
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))


def once_equal(get, want, bound=600):
    """Calls get() until it returns `want`, for `bound` seconds at most, and
    returns its last result: the library's thread closes fds when a stream's
    work is over."""
    end = time.monotonic() + bound
    while (now := get()) != want and time.monotonic() < end:
        os.sched_yield()
    return now


def maps():
    with open("/proc/self/maps") as f:
        return sum("dmabuf" in line for line in f)


TRIES = 10          # of a case that failed after a fence had expired


class Vgem:
    """A dma-buf with a fence that signals when the test says so, and by itself
    after ten seconds. A case that fails later runs again."""

    expires: float | None = None   # when the first fence of the case does
    STATUS = 75         # of a case in a process of its own that failed later

    @staticmethod
    def expired():
        return Vgem.expires is not None and time.monotonic() > Vgem.expires

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
        Vgem.expires = Vgem.expires or time.monotonic() + 9.5
        return self.ioctl(0xC0106441, "IIII", self.handle, 1, 0, 0)[2]

    def signal(self, fence):
        self.ioctl(0x40086442, "II", fence, 0)

    def close(self):
        os.close(self.fd)
        os.close(self.drm)


def asleep(thread_id, over=threading.Event()):
    """Waits until a thread of this process sleeps in poll(), where the library
    waits for fences, messages and frames, or in nanosleep(), where the package
    waits for work that has none; not for a lock, or for the GIL. False if `over`
    was set before."""
    while not over.is_set():
        try:
            with open(f"/proc/self/task/{thread_id}/wchan") as wchan:
                where = wchan.read()
                if "poll" in where or "nanosleep" in where:
                    return True
        except OSError as e:
            raise AssertionError("the thread has ended and did not wait") from e
        os.sched_yield()
    return False


def interrupted(call):
    """Sends SIGINT while call() waits. A signal before the call would end the
    case."""
    main, ident = threading.get_native_id(), threading.get_ident()
    over = threading.Event()

    def interrupt():
        if asleep(main, over):
            signal.pthread_kill(ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        raises(KeyboardInterrupt, call)
    finally:
        over.set()
        thread.join()


def waits_without_the_gil(name, way, device="cpu", busy=True):
    """What way(tensor) gives comes after the fence, and others run. busy: it is
    the tensor itself that is in use, and not one that way() makes."""
    v = Vgem()
    t = dlbuf.from_fd(v.fd, (4096,), "uint8", device=device)
    fence = v.attach()
    order = []

    def work():
        box = way(t)
        order.append("got it")
        del box

    thread = threading.Thread(target=work)
    thread.start()
    asleep(thread.native_id)
    assert t.ndim == 1
    if busy:
        raises(dlbuf.Error, t.close, "another thread")
    order.append("signal")
    v.signal(fence)
    thread.join()
    assert order == ["signal", "got it"], (name, order)
    t.close()
    v.close()


def cpu_seconds():
    """This process's and its children's, the kernel's share included."""
    return sum(os.times()[:4])


def main(patterns, every=CASES):
    cases = [c for c in every if not patterns or
             any(fnmatch.fnmatch(c.__name__, p) for p in patterns)]
    print(f"KTAP version 1\n1..{len(cases)}", flush=True)
    print(f"# Python {sys.version.split()[0]}, NumPy {np.__version__}, "
          f"dlbuf {dlbuf.__version__}")
    failed = 0
    for n, fn in enumerate(cases, 1):
        cpu = cpu_seconds()
        for attempt in range(TRIES):
            Vgem.expires = None
            try:
                fn()
                result = f"ok {n} - {fn.__name__}"
            except Skip as e:
                result = f"ok {n} - {fn.__name__} # SKIP {e}"
            except BaseException:
                for line in traceback.format_exc().splitlines():
                    print("# " + line)
                if Vgem.expired() and attempt + 1 < TRIES:
                    print("# failed after a fence had expired: again")
                    continue
                failed += 1
                result = f"not ok {n} - {fn.__name__}"
            break
        gc.collect()
        cpu = cpu_seconds() - cpu
        if cpu >= 1:
            print(f"# {fn.__name__}: {cpu:.1f} s of CPU")
        print(result, flush=True)
    return 1 if failed else 0
