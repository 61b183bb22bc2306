# SPDX-License-Identifier: MIT
"""send() and recv(), with another process at the other end."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import zlib
from typing import Any

import numpy as np

import dlbuf
from dlbuf import Order

from lab_camera import camera, settle, whole
from labtools import asleep, case, fds, interrupted, raises

KINDS = (socket.SOCK_SEQPACKET, socket.SOCK_DGRAM)


def pair():
    return socket.socketpair(type=socket.SOCK_SEQPACKET)


class Other:
    """A process that runs code, with `sock` the other end; and a line each
    way, for order."""

    def __init__(self, code, kind=socket.SOCK_SEQPACKET):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, kind)
        head = ("import dlbuf, socket, zlib, numpy as np\n"
                f"sock = socket.socket(fileno={theirs.fileno()})\n")
        self.process: Any = subprocess.Popen(
            [sys.executable, "-c", head + code], pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        theirs.close()

    def says(self):
        return self.process.stdout.readline().strip()

    def tell(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ends(self, status=0):
        self.sock.close()
        self.process.stdin.close()
        assert self.process.wait() == status
        self.process.stdout.close()


@case
def tensors_to_another_process():
    for kind in KINDS:
        other = Other("""
t, u = dlbuf.recv(sock)
print(t.shape, t.strides, t.dtype, t.access, u.read_only, u.access, flush=True)
a = np.asarray(t)
print(int(a.sum()), np.from_dlpack(u).tolist(), flush=True)
a[3, 5] = 4711
del a
one = dlbuf.recv(sock)
print(type(one).__name__, memoryview(one).tolist())
""", kind)
        t = dlbuf.alloc((4, 6), "uint16")
        with t:
            np.asarray(t)[...] = np.arange(24).reshape(4, 6)
        u = dlbuf.from_fd(t.fd, (2, 3), "uint16", strides=(12, 2), offset=2,
                          access="read")
        dlbuf.send(other.sock, [t, u])
        assert other.says() == "(4, 6) (6, 1) uint16 3 True 1"
        assert other.says() == "276 [[1, 3, 5], [13, 15, 17]]"
        del u
        dlbuf.send(other.sock.fileno(), dlbuf.from_fd(t.fd, (3,), "uint16"))
        assert other.says() == "Tensor [0, 1, 2]"
        other.ends()
        assert np.asarray(t)[3, 5] == 4711


@case
def what_is_received_goes_with_its_tensor():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    t = dlbuf.alloc((4,), "uint8")
    for keep in False, True:
        with dlbuf.Device("cpu") as d:
            before = fds()
            for _ in range(6):
                dlbuf.send(ours, t)
                dlbuf.recv_tensor(theirs, device=d, keep=keep).close()
            assert len(fds()) == len(before) + keep
            stats = d.stats()
            assert (stats.misses, stats.idle) == ((1, 1) if keep else (6, 0))
    ours.close()
    theirs.close()


@case
def frames_to_another_process():
    """Those of a camera, which has each buffer back when both are done."""
    other = Other("""
for frame in iter(lambda: dlbuf.recv(sock, access="read"), None):
    y, uv = frame
    crc = zlib.crc32(np.from_dlpack(uv).tobytes(),
                     zlib.crc32(np.from_dlpack(y).tobytes()))
    print(frame.sequence, frame.info.timestamp_ns, frame.info.format,
          y.frame.colour.matrix, y.frame is frame.info, y.read_only, crc,
          flush=True)
    input()
    del y, uv, frame
""")
    with camera() as cam:
        for n in range(6):
            frame = next(cam)
            dlbuf.send(other.sock, frame)
            i = frame.info
            assert other.says() == (
                f"{frame.sequence} {i.timestamp_ns} NV12 {i.colour.matrix} "
                f"True True {zlib.crc32(whole(frame))}")
            frame.release()
            assert cam.held == 1
            other.tell()
            settle(cam)
        # One that dies gives back, too; and one that is alone with it keeps it.
        frame = next(cam)
        dlbuf.send(other.sock, frame)
        assert other.says()
        del frame, i
        assert cam.held == 1
        other.process.kill()
        settle(cam)
        other.ends(-signal.SIGKILL)
        # Never read.
        ours, theirs = pair()
        dlbuf.send(ours, next(cam))
        assert cam.held == 1
        theirs.close()
        settle(cam)
        raises(BrokenPipeError, lambda: dlbuf.send(ours, next(cam)))
        settle(cam)
        ours.close()


@case
def one_kind_of_message():
    """A message that recv_tensor() and recv_frame() refuse is dropped, and its lease fires."""
    a, b = pair()
    with camera() as cam:
        t = dlbuf.alloc((4,), "uint8")
        dlbuf.send(a, t)
        errors = []
        for _ in range(3):
            with next(cam) as frame:
                dlbuf.send(a, frame)
                dlbuf.send(a, list(frame))
            dlbuf.send(a, t)
            assert dlbuf.recv_tensor(b).buffer == t.buffer
            errors.append(raises(
                dlbuf.InvalidError, lambda: dlbuf.recv_tensor(b),
                "the message has a frame of 2 tensors and not one tensor"))
            errors.append(raises(
                dlbuf.InvalidError, lambda: dlbuf.recv_frame(b),
                "the message has 2 tensors and not a frame"))
        raises(dlbuf.InvalidError, lambda: dlbuf.recv_frame(b), "a tensor and not")
        # The exceptions, which have the frames of their calls, hold no buffer.
        del frame
        settle(cam)
        assert len(errors) == 6
    a.close()
    b.close()


@case
def views_are_the_receiver_s():
    a, b = pair()
    with camera() as cam:
        frame = next(cam)
        dlbuf.send(a, frame)
        got = dlbuf.recv_frame(b, view="stacked")
        assert np.from_dlpack(got[0]).tobytes() == whole(frame)
        assert got.info._replace(planes=(), order=Order.UNKNOWN) == \
            frame.info._replace(planes=(), view=got.info.view, order=Order.UNKNOWN)
        # And on, to a third.
        dlbuf.send(b, got)
        third = dlbuf.recv_frame(a, view="luma")
        assert third[0].shape == (180, 320) and third.info.planes[0].fd >= 3
        del got, third
        # Tensors of a frame are tensors, but hold the frame.
        dlbuf.send(a, list(frame))
        y, uv = dlbuf.recv(b)
        frame.release()
        assert y.frame is None and cam.held == 1
        del y, uv, frame
        settle(cam)
    a.close()
    b.close()


@case
def how_it_waits():
    for kind in KINDS:
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        t = dlbuf.alloc(16, "uint8")
        b.settimeout(0.05)
        e = raises(TimeoutError, lambda: dlbuf.recv(b))
        assert isinstance(e, dlbuf.DeadlineError)
        b.setblocking(False)
        e = raises(BlockingIOError, lambda: dlbuf.recv(b))
        assert e.errno == errno.EAGAIN
        raises(BlockingIOError, lambda: dlbuf.recv(b.fileno()))
        a.setblocking(False)

        def fill():
            while True:
                dlbuf.send(a, t)

        raises(dlbuf.WouldBlockError, fill)
        a.settimeout(0.05)
        raises(TimeoutError, fill)
        # A waiting thread lets others run.
        a.settimeout(None)
        b.settimeout(None)
        thread = threading.Thread(target=dlbuf.send, args=(a, t))
        thread.start()
        asleep(thread.native_id)
        b.setblocking(False)

        def drain():
            with contextlib.suppress(BlockingIOError):
                while True:
                    assert dlbuf.recv_tensor(b).shape == (16,)

        while thread.is_alive():
            drain()
        thread.join()
        drain()
        b.setblocking(True)
        got = []
        thread = threading.Thread(target=lambda: got.append(dlbuf.recv_tensor(b)))
        thread.start()
        asleep(thread.native_id)
        dlbuf.send(a, t)
        thread.join()
        assert got[0].buffer == t.buffer
        a.close()
        if kind != socket.SOCK_DGRAM:
            e = raises(EOFError, lambda: dlbuf.recv(b))
            assert isinstance(e, dlbuf.ClosedError)
            assert e.errno == errno.EPIPE
        raises(BrokenPipeError, lambda: dlbuf.send(b, t))
        b.close()


@case
def recv_is_interrupted():
    a, b = pair()
    interrupted(lambda: dlbuf.recv(b))
    a.close()
    b.close()


@case
def what_is_refused():
    a, b = pair()
    raises(BufferError, lambda: dlbuf.send(a, dlbuf.from_dlpack(b"abc")))
    raises(ValueError, lambda: dlbuf.send(a, []))
    t = dlbuf.alloc(16, "uint8")
    raises(ValueError, lambda: dlbuf.send(a, [t] * 5))
    closed = t.share()
    closed.close()
    raises(ValueError, lambda: dlbuf.send(a, [t, closed]), "is closed")
    raises(OSError, lambda: dlbuf.send(-1, t))
    for junk in b"hello", b"":
        a.send(junk)
        e = raises(dlbuf.Error, lambda: dlbuf.recv(b))
        assert e.errno == errno.EPROTO
    dlbuf.send(a, dlbuf.from_fd(t.fd, 4, "uint8", access="read"))
    raises(PermissionError, lambda: dlbuf.recv(b, access="rw"))
    raises(ValueError, lambda: dlbuf.recv(b, view="nonesuch"))
    a.close()
    b.close()


@case
def socket_fds_of_tensors():
    """The producer's fds may be closed by now, and their numbers others'."""
    t = dlbuf.alloc(64 * 72, "uint8")
    fd = os.dup(t.fd)
    planes = dlbuf.from_frame([(fd, 64), (fd, 64, 64 * 48)], 64, 48, "NV12")
    os.close(fd)
    others = os.pipe()
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with ours, theirs:
        dlbuf.send(ours, dlbuf.TensorFrame(planes, planes[0].frame))
        y, uv = dlbuf.recv_frame(theirs)
        assert (y.shape, uv.shape) == ((48, 64), (24, 32, 2))
    for other in others:
        os.close(other)
