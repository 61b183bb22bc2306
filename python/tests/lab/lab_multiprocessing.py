# SPDX-License-Identifier: MIT
"""multiprocessing's pipes, queues and pools, with real dma-bufs."""

import concurrent.futures
import multiprocessing
import pickle
import queue
import sys
import threading
import zlib

import numpy as np

import dlbuf
import dlbuf.multiprocessing

from children import (add, count, describe, described, hold, keep_forever,
                      read_nothing)
from labtools import case, fds, maps, once_equal, raises
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
    each = [dlbuf.from_fd(t.fd, [2 if i in (0, n - 1) else 1 for i in range(n)],
                          "uint16", offset=n // 16 * 2)
            for n in (0, 1, 3, 5, 17, 63, 64)]
    ours.send(t)                # starts the thread that watches messages
    ours.recv()
    ours.send("next")
    once_equal(lambda: len(dlbuf.multiprocessing._unread.by_fd), 0)
    before = fds(), maps()
    for _ in range(3):
        for x in t, u, *each:
            ours.send(x)
            assert ours.recv() == describe(x)
            ours.send("next")
    assert once_equal(lambda: (fds(), maps()), before) == before
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
def a_receiver_that_dies_before_it_reads():
    """The objects in its pipe come back after any close of the sender's end."""
    ctx = context()
    for duplex in True, False:
        for close in False, True:
            theirs, ours = ctx.Pipe(duplex)
            said, say = ctx.Pipe(False)
            child = ctx.Process(target=read_nothing, args=(say, theirs))
            child.start()
            theirs.close()
            assert said.recv() == "here"
            with camera() as cam:
                for _ in range(2):
                    frame = next(cam)
                    ours.send([frame, frame[1]])
                    frame.release()
                del frame
                assert cam.held == 2
                if close:
                    ours.close()
                child.kill()
                child.join()
                settle(cam)
                if close:
                    continue
                # Sent without a reader, it comes back at once.
                frame = next(cam)
                raises(BrokenPipeError, lambda: ours.send(frame))
                frame.release()
                del frame
                settle(cam)
            ours.close()


@case
def a_process_that_dies_before_its_arguments():
    ctx = context()
    with camera() as cam:
        frame = next(cam)
        said, say = ctx.Pipe(False)
        child = ctx.Process(target=read_nothing, args=(say, frame))
        child.start()
        child.kill()
        frame.release()
        del frame
        child.join()
        settle(cam)
        # One that cannot be pickled, and so is not started.
        frame = next(cam)
        child = ctx.Process(target=read_nothing, args=(say, frame, lambda: 0))
        raises(Exception, child.start, "lambda")
        frame.release()
        del frame, child
        settle(cam)


@case
def a_queue_whose_readers_are_dead():
    """Its owner may still read it; the rest comes back when it is closed."""
    ctx = context()
    said, say = ctx.Pipe(False)
    q = ctx.Queue()
    child = ctx.Process(target=read_nothing, args=(say, q))
    child.start()
    assert said.recv() == "here"
    with camera() as cam:
        for _ in range(2):
            with next(cam) as frame:
                q.put(frame)
        child.kill()
        child.join()
        q.get().release()
        settle(cam, 1)
        q.close()
        settle(cam)


@case
def a_message_that_is_not_sent():
    """An error of pickling, and a queue that is full, keep no lease."""
    ours, theirs = multiprocessing.Pipe()
    q, simple = multiprocessing.Queue(1), multiprocessing.SimpleQueue()
    q.put(None)
    with camera() as cam:
        for send in (lambda x: ours.send([x, lambda: 0]),
                     lambda x: simple.put([x, lambda: 0]),
                     lambda x: q.put([x, lambda: 0], False),
                     lambda x: q.put(x, False)):
            frame = next(cam)
            raises(Exception, lambda: send(frame))
            frame.release()
            del frame
            settle(cam)
        # The error is the caller's, not that of a thread.
        raises(BufferError, lambda: q.put(dlbuf.from_dlpack(b"abc")), "dma-buf")
        frame = next(cam)
        frame.release()
        raises(ValueError, lambda: q.put(frame), "released")
    assert q.get() is None
    q.close()


@case
def released_after_put():
    """put() is done with the frame when it returns, in any container."""
    ctx = context()
    q, j, (said, say) = ctx.Queue(), ctx.JoinableQueue(), ctx.Pipe(False)

    with camera() as cam:
        for _ in range(20):
            frame = next(cam)
            crc = zlib.crc32(whole(frame))
            holder = [{"frame": frame}]
            j.put(holder)
            q.put(frame)
            frame.release()
            got, = j.get()
            j.task_done()
            assert zlib.crc32(whole(got["frame"])) == crc
            got["frame"].release()
            got = q.get()
            assert zlib.crc32(whole(got)) == crc
            got.release()
        settle(cam)
        child = ctx.Process(target=count, args=(say, q), daemon=True)
        child.start()
        for _ in range(10):
            with next(cam) as frame:
                want = frame.sequence, zlib.crc32(memoryview(frame[0]))
                q.put(frame)
            assert said.recv() == want
        q.put(None)
        child.join()
        settle(cam)
    j.join()


@case
def forked_with_unread_messages():
    """They are the parent's; the child has its own."""
    ours, theirs = multiprocessing.Pipe()

    def child():
        assert not dlbuf.multiprocessing._unread.by_fd
        a, b = multiprocessing.Pipe()
        for _ in range(3):
            a.send(dlbuf.alloc(4, "uint8"))
            assert b.recv().shape == (4,)

    with camera() as cam:
        frame = next(cam)
        crc = zlib.crc32(whole(frame))
        ours.send(frame)
        frame.release()
        p = multiprocessing.get_context("fork").Process(target=child)
        p.start()
        p.join()
        assert p.exitcode == 0 and cam.held == 1
        got = theirs.recv()
        assert zlib.crc32(whole(got)) == crc
        got.release()
        del got, frame
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
    """A tensor without an fd cannot be sent; a file is no process."""
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
