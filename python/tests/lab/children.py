# SPDX-License-Identifier: MIT
"""The code of other processes in lab_multiprocessing.py: without NumPy, whose import
takes long."""

import signal
import zlib

import dlbuf


def describe(x):
    """An object as a process sees it."""
    if isinstance(x, dlbuf.TensorFrame):
        return ("frame", x.info.format, x.sequence, [t.shape for t in x],
                [zlib.crc32(memoryview(t).tobytes()) for t in x])
    return ("tensor", str(x.dtype), x.shape, x.strides, x.read_only,
            zlib.crc32(memoryview(x).tobytes()))


def described(connection):
    """Describes received objects until None."""
    while (x := connection.recv()) is not None:
        connection.send(describe(x))
        # It holds the object until the next message, and not during the wait after that.
        connection.recv()
        del x


def add(tensor, value):
    data = memoryview(tensor)
    for i in range(tensor.shape[0]):
        for j in range(tensor.shape[1]):
            data[i, j] += value
    return tensor


def hold(connection, tensors):
    connection.send([describe(t) for t in tensors])
    connection.recv()


def read_nothing(*received):
    """Says that it runs, and waits to be killed."""
    received[0].send("here")
    signal.pause()


def count(connection, queue):
    """Reads frames until None, and sends their sequence numbers and checksums."""
    while (frame := queue.get()) is not None:
        connection.send((frame.sequence, zlib.crc32(memoryview(frame[0]))))
        frame.release()


def keep_forever(connection):
    frame = connection.recv()   # noqa: F841 - held
    connection.send("mine")
    signal.pause()
