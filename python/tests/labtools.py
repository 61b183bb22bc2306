# SPDX-License-Identifier: MIT
"""The harness of the lab's cases: what lab.py and its parts share."""

import fcntl
import fnmatch
import gc
import glob
import os
import struct
import sys
import traceback

import numpy as np

import dlbuf


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


def asleep(thread_id):
    """Waits until a thread of this process sleeps, and not for the GIL."""
    task = f"/proc/self/task/{thread_id}/"
    while True:
        with open(task + "stat") as stat, open(task + "wchan") as wchan:
            where = wchan.read()
            if (stat.read().rpartition(")")[2].split()[0] == "S" and
                    where != "0" and "futex" not in where):
                return


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
