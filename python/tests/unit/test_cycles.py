# SPDX-License-Identifier: MIT
"""Reference cycles through the owner of memory. Those through leases, which need
dma-bufs, are cycles.py's, in the lab and with the double of CUDA's driver."""

import array
import ctypes
import gc
import subprocess
import sys
import weakref
from typing import Any

import pytest

import dlbuf


class Owner:
    def __init__(self):
        self.memory = (ctypes.c_uint8 * 24)(*range(24))
        self.address = ctypes.addressof(self.memory)
        self.__array_interface__ = {
            "version": 3, "shape": (24,), "typestr": "|u1",
            "data": (self.address, False)}


class Bytes(bytearray):
    pass


def shared(o):
    return dlbuf.share(o, o.address, (24,), "uint8")


CYCLES = {
    "share": (Owner, shared),
    "interface": (Owner, dlbuf.from_dlpack),
    "buffer": (Bytes, dlbuf.from_dlpack),
    "several": (Owner, lambda o: [shared(o) for _ in range(3)]),
    "shares": (Owner, lambda o: [t := shared(o), t.share(), t.share()]),
    "share of one that is gone": (Owner, lambda o: shared(o).share()),
    "reversed": (Owner, lambda o: dlbuf.wrap(o, reverse=True)),
    "closed": (Owner, lambda o: [t := shared(o), t.share(), t.close()]),
    "view": (Owner, lambda o: memoryview(shared(o))),
    "views": (Owner, lambda o: [t := shared(o), memoryview(t).cast("I"),
                                memoryview(t)[::2]]),
    "of two": (Owner, lambda o: [shared(o), dlbuf.from_dlpack(array.array(
        "B", b"abc")), dlbuf.wrap(o)]),
}


@pytest.mark.parametrize("name", CYCLES)
def test_cycles(name):
    make, take = CYCLES[name]
    o: Any = make(24) if make is Bytes else make()
    o.kept = take(o)
    gone = weakref.ref(o)
    gc.collect()
    assert gone() is o
    del o
    gc.collect()
    assert gone() is None


CONSUMERS = {
    "capsule": lambda t: t.__dlpack__(max_version=(1, 3)),
    "legacy capsule": lambda t: t.__dlpack__(),
    "consumed": lambda t: dlbuf.from_dlpack(t.__dlpack__(max_version=(1, 3))),
    "exchanged": lambda t: dlbuf.exchange(t, dlbuf.Tensor),
    "share": lambda t: t.share(),
    "view": memoryview,
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_consumers_keep_the_cycle(name):
    o = Owner()
    o.kept = [shared(o), shared(o)]
    kept: Any = CONSUMERS[name](o.kept[0])
    gone: Any = weakref.ref(o)
    del o
    gc.collect()
    gc.collect()
    assert bytes(gone().memory) == bytes(range(24))
    del kept
    gc.collect()
    assert gone() is None


def test_tensors_are_whole_when_others_are_finalized():
    """In any order of calls, a tensor's memory exists or the tensor is
    closed."""
    seen = []

    class Last(Owner):
        def __del__(self):
            seen.append(self.kept.closed or bytes(self.kept))

    for _ in range(10):
        o = Last()
        o.kept = shared(o)
        del o
        gc.collect()
    assert len(seen) == 10 and set(seen) <= {True, bytes(range(24))}


def test_many(np):
    """While other objects come and go, as the collector is called by itself."""
    gone = []
    for _ in range(2000):
        o = Owner()
        o.kept = dlbuf.from_dlpack(o), np.asarray(shared(o))[:3]
        o.kept = o.kept[0]
        gone.append(weakref.ref(o))
    del o
    gc.collect()
    assert not any(g() for g in gone)


def test_cycles_at_exit():
    code = ("import dlbuf, ctypes, sys\n"
            "class O: pass\n"
            "for i in range(9):\n"
            "    o = O()\n"
            "    o.m = (ctypes.c_uint8 * 9)()\n"
            "    o.t = dlbuf.share(o, ctypes.addressof(o.m), 9, 'uint8')\n"
            "    o.v = memoryview(o.t), o.t.share()\n"
            "    if i % 3: sys.o = o, o.t.__dlpack__()\n")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
