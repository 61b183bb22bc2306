#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""From an fd to an array: the cost of a call, against code by hand and against the protocol
itself.

    python.py [GROUP...]

In the lab under -icount a nanosecond is an instruction, the kernel's included:
`make bench-python`. On another machine they are nanoseconds. The floor is what
the consumer takes for an array of its own, through the same protocol: no
producer of a tensor can be much faster. Each figure is the median of 31 runs of
64 calls; the cost of the loop is subtracted. A camera's frames are 5 runs, and the
CPU time of this process, so that the wait for a frame is not counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import mmap
import os
import re
import statistics
import struct
import sys
import time
import timeit
from typing import Any

import dlbuf

CALLS, RUNS = 64, 31
SHAPE = (1080, 1920)
COUNT = SHAPE[0] * SHAPE[1]
# DMA_BUF_IOCTL_SYNC: 'b', 0, 8 bytes in. START and END of an access that reads and writes.
SYNC = 0x40086200
START, END = struct.pack("Q", 3), struct.pack("Q", 7)


def measure(statement: str, names: dict[str, Any], setup: str = "pass") -> float:
    camera = "camera" in statement
    timer = timeit.Timer(statement, setup, time.process_time if camera else time.perf_counter,
                         names)
    timer.timeit(CALLS)
    return statistics.median(timer.repeat(5 if camera else RUNS, CALLS)) / CALLS * 1e9


KERNEL = [
    ("fstat of the fd", "fstat(fd)", "pass"),
    ("DMA_BUF_IOCTL_SYNC, start and end",
     "ioctl(fd, SYNC, START); ioctl(fd, SYNC, END)", "pass"),
]
OWN = [
    ("from_fd()", "from_fd(fd, SHAPE, 'uint8')", "pass"),
    ("t.acquire(); t.release()", "t.acquire(); t.release()",
     "t = from_fd(fd, SHAPE, 'uint8')"),
]
FRAME = [
    ("frame = next(camera)", "frame = next(camera)", "pass"),
    ("x, info = prepare(next(camera)), prepare = Preparer(size=8)",
     "x, info = prepare(next(camera))", "prepare = dlbuf.Preparer(size=8)"),
]
ANSWER = [
    ("np.from_dlpack(x)", "np.from_dlpack(x)", "pass"),
    ("x.numpy()", "x.numpy()", "pass"),
    ("info.map_to_frame(box)", "info.map_to_frame(box)", "box = 1.0, 2.0, 3.0, 4.0"),
    ("info.map_to_frame(boxes), an array of 100", "info.map_to_frame(boxes)",
     "boxes = np.arange(400.0).reshape(100, 4)"),
]
# The first of each is the floor: a consumer's own array, through the protocol.
NUMPY = [
    ("np.from_dlpack(array)", "take(array)",
     "array = np.zeros(SHAPE, np.uint8); take = np.from_dlpack"),
    ("by hand: np.frombuffer(map).reshape()",
     "np.frombuffer(map, u8, COUNT, 0).reshape(SHAPE)", "u8 = np.uint8"),
    ("by hand, with DMA_BUF_IOCTL_SYNC: the same",
     "ioctl(fd, SYNC, START)\n"
     "np.frombuffer(map, u8, COUNT, 0).reshape(SHAPE)\n"
     "ioctl(fd, SYNC, END)", "u8 = np.uint8"),
    ("np.from_dlpack(from_fd())", "take(from_fd(fd, SHAPE, 'uint8'))",
     "take = np.from_dlpack"),
    ("np.from_dlpack(t), t kept", "take(t)",
     "take = np.from_dlpack; t = from_fd(fd, SHAPE, 'uint8')"),
    ("np.from_dlpack(t), t kept and acquired", "take(t)",
     "take = np.from_dlpack; t = from_fd(fd, SHAPE, 'uint8'); t.acquire()"),
    ("np.asarray(t), t kept and acquired", "take(t)",
     "take = np.asarray; t = from_fd(fd, SHAPE, 'uint8'); t.acquire()"),
]
TORCH = [
    ("torch.from_dlpack(tensor)", "take(x)",
     "import torch; x = torch.zeros(SHAPE, dtype=torch.uint8)\n"
     "take = torch.from_dlpack"),
    ("by hand, with DMA_BUF_IOCTL_SYNC: torch.frombuffer(map).reshape()",
     "ioctl(fd, SYNC, START)\n"
     "torch.frombuffer(map, dtype=u8).reshape(SHAPE)\n"
     "ioctl(fd, SYNC, END)", "import torch; u8 = torch.uint8"),
    ("torch.from_dlpack(from_fd())", "take(from_fd(fd, SHAPE, 'uint8'))",
     "import torch; take = torch.from_dlpack"),
    ("torch.from_dlpack(t), t kept", "take(t)",
     "import torch; take = torch.from_dlpack\n"
     "t = from_fd(fd, SHAPE, 'uint8')"),
    ("torch.from_dlpack(t), t kept and acquired", "take(t)",
     "import torch; take = torch.from_dlpack\n"
     "t = from_fd(fd, SHAPE, 'uint8'); t.acquire()"),
    ("exchange(t, torch.Tensor), t kept", "exchange(t, x)",
     "import torch; x = torch.Tensor; t = from_fd(fd, SHAPE, 'uint8')"),
    ("exchange(t, torch.Tensor), t kept and acquired", "exchange(t, x)",
     "import torch; x = torch.Tensor; t = from_fd(fd, SHAPE, 'uint8')\n"
     "t.acquire()"),
]
TVM = [
    ("tvm_ffi.from_dlpack(tensor), by the protocol", "take(x)",
     "import tvm_ffi; take = tvm_ffi.from_dlpack\n"
     "x = take(np.zeros(SHAPE, np.uint8))"),
    ("by hand, with DMA_BUF_IOCTL_SYNC: of np.frombuffer(map)",
     "ioctl(fd, SYNC, START)\n"
     "take(np.frombuffer(map, u8, COUNT, 0).reshape(SHAPE))\n"
     "ioctl(fd, SYNC, END)",
     "import tvm_ffi; take = tvm_ffi.from_dlpack; u8 = np.uint8"),
    ("tvm_ffi.from_dlpack(from_fd()), by the exchange API",
     "take(from_fd(fd, SHAPE, 'uint8'))",
     "import tvm_ffi; take = tvm_ffi.from_dlpack"),
    ("tvm_ffi.from_dlpack(t), t kept", "take(t)",
     "import tvm_ffi; take = tvm_ffi.from_dlpack\n"
     "t = from_fd(fd, SHAPE, 'uint8')"),
    ("tvm_ffi.from_dlpack(t), t kept and acquired", "take(t)",
     "import tvm_ffi; take = tvm_ffi.from_dlpack\n"
     "t = from_fd(fd, SHAPE, 'uint8'); t.acquire()"),
]


def figure(table: str, name: str, cost: float) -> None:
    """A line for tools/docs/performance, as record() of bench.h writes it."""
    who = ("hand" if "by hand, with" in name else "today" if "by hand" in name
           else "dlbuf" if re.search(r"from_fd|\(t[,)]|camera|numpy|info", name) else "floor")
    if os.environ.get("BENCH_FIGURES"):
        with open(os.environ["BENCH_FIGURES"], "a") as f:
            f.write(f"{table}\t{who}\t{round(cost)}\t{name}\n")


def versions() -> list[str]:
    found = []
    for name in "numpy", "torch", "apache-tvm-ffi":
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return found


def run(title: str, rows: list[tuple[str, str, str]], names: dict[str, Any],
        ratios: bool) -> None:
    """A group, whose first row is 1."""
    print(f"\n{title}")
    overhead = measure("pass", names)
    first = 0.0
    for name, statement, setup in rows:
        try:
            cost = measure(statement, names, setup) - overhead
        except (ImportError, dlbuf.UnsupportedError) as e:
            print(f"  {name:55} not run: {e}", flush=True)
            continue
        first = first or cost
        figure(f"cpu: {title}", name, cost)
        ratio = f"{cost / first:8.2f}" if ratios else ""
        print(f"  {name:55}{cost:9.0f}{ratio}", flush=True)


def main() -> None:
    import numpy as np

    owner = dlbuf.alloc(SHAPE, "uint8")
    fd = os.dup(owner.fd or -1)
    names: dict[str, Any] = {
        "fd": fd, "SHAPE": SHAPE, "COUNT": COUNT, "SYNC": SYNC,
        "START": START, "END": END, "np": np, "ioctl": fcntl.ioctl,
        "fstat": os.fstat, "dlbuf": dlbuf, "from_fd": dlbuf.from_fd,
        "exchange": dlbuf.exchange, "map": mmap.mmap(fd, COUNT),
    }
    print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}, dlbuf "
          f"{dlbuf.__version__}; an image of {SHAPE}, uint8")
    groups = [("Python's own calls", KERNEL, False), ("dlbuf", OWN, False),
              ("NumPy", NUMPY, True), ("PyTorch", TORCH, True),
              ("tvm-ffi", TVM, True), ("a camera's frame, in Python", FRAME, False),
              ("a model's input and its boxes, in Python", ANSWER, False)]
    if os.environ.get("BENCH_FIGURES"):
        with open(os.environ["BENCH_FIGURES"], "a") as f:
            f.write(f"Python\tabout\t0\tCPython {sys.version.split()[0]}, "
                    f"{', '.join(versions())}\n")
    camera = dlbuf.Camera(format="NV12", size=(320, 180))
    names["camera"] = camera
    names["x"], names["info"] = dlbuf.Preparer("yolo", size=8)(next(camera))
    for title, rows, ratios in groups:
        if not sys.argv[1:] or title in sys.argv[1:]:
            run(title, rows, names, ratios)


main()
