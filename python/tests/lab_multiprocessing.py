# SPDX-License-Identifier: MIT
"""multiprocessing's pipes, queues and pools, with real dma-bufs."""

import concurrent.futures
import multiprocessing
import os
import pickle
import queue
import sys
import threading
import zlib

import numpy as np

import dlbuf
import dlbuf.multiprocessing

from children import add, describe, described, hold, keep_forever
from labtools import case, fds, maps, raises
from lab_camera import camera, settle, whole


def context():
    """Children that import children.py, and not the whole of this program."""
    vars(sys.modules["__main__"]).pop("__file__", None)
    return multiprocessing.get_context("spawn")


@case
def pipe():
    """Tensors, views of them and frames to a child and back, zero copies."""
    ctx = context()
    ours, theirs = ctx.Pipe()
    child = ctx.Process(target=described, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    t = dlbuf.alloc((4, 6), "uint16")
    np.asarray(t)[...] = np.arange(24).reshape(4, 6)
    u = dlbuf.from_fd(t.fd, (2, 3), "uint16", strides=(12, 2), offset=2,
                      access="read")
    before = fds(), maps()
    for _ in range(3):
        for x in t, u:
            ours.send(x)
            assert ours.recv() == describe(x)
            ours.send("next")
    assert (fds(), maps()) == before
    for view in None, "luma", "stacked":
        with camera(view=view) as cam:
            frame = next(cam)
            ours.send(frame)
            want = describe(frame)
            assert ours.recv() == want and want[1] == "NV12"
            frame.release()
            assert cam.held == 1, "the child has it"
            ours.send("next")
            settle(cam)
    with camera() as cam:
        y, uv = next(cam)
        ours.send(uv)
        assert ours.recv() == describe(uv)
        del y, uv
        assert cam.held == 1
        ours.send("next")
        settle(cam)
    ours.send(None)
    child.join()
    assert child.exitcode == 0
    ours.close()


@case
def arguments_and_results():
    """spawn's arguments; a pool, whose results are tensors of the same memory."""
    ctx = context()
    t = dlbuf.alloc((2, 3), "int32")
    ours, theirs = ctx.Pipe()
    child = ctx.Process(target=hold, args=(theirs, [t, t.share()]), daemon=True)
    child.start()
    assert ours.recv() == [describe(t)] * 2
    ours.send("end")
    child.join()
    assert child.exitcode == 0
    with concurrent.futures.ProcessPoolExecutor(1, ctx) as pool:
        for i in range(3):
            got = pool.submit(add, t, 1).result()
            assert got.buffer == t.buffer and got is not t
            assert np.asarray(got).tolist() == [[i + 1] * 3] * 2
            assert np.asarray(t).tolist() == [[i + 1] * 3] * 2


@case
def a_receiver_that_dies():
    ctx = context()
    ours, theirs = ctx.Pipe()
    child = ctx.Process(target=keep_forever, args=(theirs,), daemon=True)
    child.start()
    with camera() as cam:
        frame = next(cam)
        ours.send(frame)
        assert ours.recv() == "mine"
        frame.release()
        assert cam.held == 1
        child.kill()
        child.join()
        settle(cam)


@case
def within_one_process():
    """A queue of threads needs no pickling; one of processes may be its own."""
    ours, theirs = multiprocessing.Pipe()
    t = dlbuf.alloc(8, "uint8")
    for device in dlbuf.Device("cpu"), dlbuf.Device("vulkan:0"):
        x = dlbuf.from_fd(t.fd, 8, "uint8", device=device)
        ours.send([x, {"more": x}])
        a, b = theirs.recv()
        assert a.device.name == device.name
        assert a.buffer == b["more"].buffer == t.buffer
    q = multiprocessing.SimpleQueue()
    with camera() as cam:
        frame = next(cam)
        crc = zlib.crc32(whole(frame))
        q.put(frame)
        frame.release()
        assert cam.held == 1
        got = q.get()
        assert zlib.crc32(whole(got)) == crc
        got.release()
        settle(cam)
    plain = queue.Queue()
    plain.put(t)
    assert plain.get() is t


@case
def a_queue_of_processes():
    """put() returns before its thread has pickled: deleting is allowed."""
    q = multiprocessing.Queue()
    with camera() as cam:
        for _ in range(5):
            frame = next(cam)
            sequence = frame.sequence
            q.put(frame)
            del frame
            assert q.get().sequence == sequence
        settle(cam)
    q.close()
    q.join_thread()


@case
def many_threads_send():
    pairs = [multiprocessing.Pipe() for _ in range(4)]
    t = dlbuf.alloc(16, "uint8")
    bad = []

    def use(ours, theirs):
        for _ in range(50):
            ours.send(t)
            if theirs.recv().buffer != t.buffer:
                bad.append(1)

    threads = [threading.Thread(target=use, args=p) for p in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad


@case
def not_pickled():
    """What has no fd cannot be sent; a file is no process."""
    ours, theirs = multiprocessing.Pipe()
    raises(BufferError, lambda: ours.send(dlbuf.from_dlpack(b"abc")),
           "not of a dma-buf")
    t = dlbuf.alloc(16, "uint8")
    raises(TypeError, lambda: pickle.dumps(t), "dlbuf.multiprocessing")
    closed = t.share()
    closed.close()
    raises(ValueError, lambda: ours.send(closed), "closed")
    for end in ours, theirs:
        raises(TypeError, lambda: dlbuf.send(end, t), "send()")
        raises(TypeError, lambda: dlbuf.recv(end), "recv()")


@case
def nothing_stays():
    """Fds, mappings and threads after many objects."""
    ours, theirs = multiprocessing.Pipe()
    t = dlbuf.alloc((64, 64), "uint8")

    def use(n):
        for _ in range(n):
            ours.send(t)
            theirs.recv()

    use(10)
    before = fds(), maps(), threading.active_count()
    use(300)
    assert (fds(), maps(), threading.active_count()) == before
    assert os.path.exists(f"/proc/self/fd/{t.fd}")
