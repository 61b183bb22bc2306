# SPDX-License-Identifier: MIT
"""Reference cycles through leases: for tests that have dma-bufs."""

import gc
import weakref

import dlbuf


class Loop:
    """Refers to tensors whose lease refers to it."""

    def __init__(self, frame, fired):
        self.fired = fired
        self.tensors = frame(self.back)

    def back(self):
        # The objects that the collector found are intact when the lease fires.
        self.fired.append(len(self.tensors))


def change(tensors):
    """A program's uses of the tensors of a frame."""
    yield lambda: None
    yield lambda: tensors.append(tensors[0].share())
    yield lambda: tensors.append(type(tensors[0]).share(tensors[-1]).share())
    yield tensors[0].close
    yield lambda: tensors.__delitem__(0)


def borrow(pool, frame):
    """The lease of garbage puts a buffer back, which nothing else refers to meanwhile."""
    buffer = pool.pop()
    tensors = list(frame(lambda: pool.append(buffer)))
    tensors.append(tensors)


def leases(frame, consumers):
    """frame(release): the tensors of a frame, two at least. consumers: each
    takes a tensor, and gives what keeps its memory."""
    gc.collect()
    fired = []
    for i in range(5):
        loop = Loop(frame, fired)
        list(change(loop.tensors))[i]()
        n, gone = len(loop.tensors), weakref.ref(loop)
        del loop
        gc.collect()
        assert fired == [n] and not gone(), (i, fired)
        fired.clear()
    for i, take in enumerate(consumers):
        loop = Loop(frame, fired)
        kept, gone = take(loop.tensors[1]), weakref.ref(loop)
        del loop
        gc.collect()
        gc.collect()
        assert not fired and gone(), i
        del kept
        gc.collect()
        assert fired == [2] and not gone(), (i, fired)
        fired.clear()
    for _ in range(100):
        Loop(frame, fired)
    gc.collect()
    assert fired == [2] * 100
    # The collector does not find live objects.
    loop = Loop(frame, fired)
    keep = loop.tensors[1]
    del loop
    gc.collect()
    assert len(fired) == 100 and not keep.closed
    del keep
    gc.collect()
    assert len(fired) == 101


def pools(frame):
    """frame(release): as leases(). For tests that can allocate."""
    pool = [dlbuf.alloc(1, "uint8")]
    for _ in range(3):
        borrow(pool, frame)
        gc.collect()
        assert len(pool) == 1 and not pool[0].closed
