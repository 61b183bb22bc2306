# SPDX-License-Identifier: MIT
"""Frames over Zenoh, on the loopback interface. tests/harness/memfds.c is preloaded: memfds
replace dma-bufs. python/tests/host runs it, case zenoh."""

import asyncio
import contextlib
import ctypes
import doctest
import errno
import gc
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref

import pytest

np = pytest.importorskip("numpy")
zenoh = pytest.importorskip("zenoh")
try:
    ctypes.CDLL(None).memfds_begin()
except AttributeError:
    pytest.skip("memfds are not preloaded", allow_module_level=True)

import dlbuf                                            # noqa: E402
import dlbuf.zenoh                                      # noqa: E402
from dlbuf import _message                              # noqa: E402

from messages import FRAME, PAYLOAD, TENSOR, TENSOR_BYTES, VALID, changed, hostile  # noqa: E402
from waits import BOUND, until                          # noqa: E402

KEY = "dlbuf/test"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def config(listen=None, connect=None):
    """Of a session that talks to nobody else on this machine."""
    def there(port):
        return [f"tcp/127.0.0.1:{port}"] if port else []

    return zenoh.Config.from_json5(json.dumps({
        "mode": "peer", "scouting": {"multicast": {"enabled": False}},
        "listen": {"endpoints": there(listen)}, "connect": {"endpoints": there(connect)}}))


@pytest.fixture
def session():
    with zenoh.open(config()) as s:
        yield s


def buffers():
    """The fds of dma-bufs in this process. Zenoh has others of its own."""
    gc.collect()
    dlbuf.alloc(1, "uint8").device.trim()       # the device that "cpu" is
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return sum("memfd:" in os.readlink(link) for link in links if os.path.islink(link))


def memory(nbytes, seed=1):
    t = dlbuf.alloc(nbytes, "uint8")
    np.asarray(t)[...] = np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)
    return t


def make(planes, *args, **kwargs):
    """A frame of planes (tensor, pitch, offset, bytes)."""
    tensors = dlbuf.from_frame([(t.fd, *p) for t, *p in planes], *args, **kwargs)
    return dlbuf.TensorFrame(tensors, tensors[0].frame)


def picture(n=0, width=64, height=32, **kwargs):
    """NV12 whose rows and planes have padding."""
    pitch = width + 32
    t = memory(pitch * height * 2, n)
    return make([(t, pitch), (t, pitch, pitch * (height + 1))], width, height, "NV12",
                sequence=n, **kwargs)


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        assert x.tobytes() == y.tobytes()


def one_buffer(nbytes, *planes):
    """Planes (pitch, offset, bytes) in one buffer."""
    t = memory(nbytes)
    return [(t, *p) for p in planes]


FORMATS = {
    "NV12": (lambda: one_buffer(4096, (64, 0), (64, 2048)), 48, 32, "NV12", {}),
    "NV12, a plane of V4L2": (lambda: one_buffer(3072, (64,)), 48, 32, "NV12", {"space": "V4L2"}),
    "NV12 in two dma-bufs": (lambda: one_buffer(2048, (64,)) + one_buffer(1024, (64,)), 64, 32,
                             "NV12M", {"space": "V4L2"}),
    "I420": (lambda: one_buffer(4096, (64, 0), (32, 2048), (32, 2560)), 48, 32, "I420", {}),
    "YUYV": (lambda: one_buffer(8192, (128, 64)), 48, 32, "YUYV", {}),
    "P010": (lambda: one_buffer(8192, (128, 0), (128, 4096)), 48, 32, "P010", {}),
    "RGB565": (lambda: one_buffer(8192, (128,)), 48, 32, "RGB565", {}),
    "packed Bayer": (lambda: one_buffer(4096, (64,)), 48, 32, "SBGGR10P", {"space": "V4L2"}),
    "JPEG": (lambda: one_buffer(4096, (0, 0, 1111)), 48, 32, "JPEG",
             {"space": "V4L2", "view": "bytes"}),
    "a crop": (lambda: one_buffer(4096, (64, 0), (64, 2048)), 48, 32, "NV12",
               {"crop": (2, 4, 40, 20)}),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(session, name):
    planes, width, height, format, given = FORMATS[name]
    options = dict(given)
    try:
        frame = make(planes(), width, height, format, sequence=3, timestamp_ns=99,
                     clock="stream", field="none", damaged=True, colour=dlbuf.Colour(1, 1, 2, 1),
                     orientation="turn_90", **options)
    except dlbuf.UnsupportedError:
        frame = make(planes(), width, height, format, sequence=3, timestamp_ns=99, view="rows",
                     clock="stream", field="none", damaged=True, colour=dlbuf.Colour(1, 1, 2, 1),
                     orientation="turn_90", **options)
    with dlbuf.zenoh.subscribe(KEY, session) as frames:
        publisher = dlbuf.zenoh.publish([frame], KEY, session)
        assert publisher.sent == 1 and publisher.closed and frame[0].closed
        got = next(frames)
        options.pop("view", None)
        again = make(planes(), width, height, format, view=got.info.view, **options)
        same(got, again)
        assert got.path == "copy" and frames.copied_bytes == publisher.copied_bytes > 0
        wanted = frame.info._replace(planes=(), view=got.info.view, order=dlbuf.Order.COMPLETE)
        assert got.info._replace(planes=()) == wanted
        assert {os.fstat(p.fd).st_ino for p in got.info.planes} == {os.fstat(got[0].fd).st_ino}


def test_memory_of_a_message_is_used_again(session):
    """The bytes between the planes are zero, and not those of the picture before."""
    t = memory(4096)
    first = make([(t, 2398)], 2398, 1, "R8")
    second = make([(t, 50), (t, 50, 2048)], 48, 32, "NV12")
    got = []
    session.declare_subscriber(KEY, zenoh.handlers.Callback(
        lambda sample: got.append(sample.payload.to_bytes()), indirect=False))
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        publisher.put(first)
        [memory_of_it] = publisher._spares
        publisher.put(second)
        assert publisher._spares[0] is memory_of_it
        publisher.put(first)
        publisher.put(make([(t, 64)], 64, 32, "R8"))
    # And the end.
    until(lambda: len(got) == 5)
    assert got.pop() == b""
    whole = np.asarray(t).tobytes()
    assert got[0] == got[2] == whole[:2398]
    assert got[1] == whole[:1598] + bytes(2) + whole[2048:2846]
    assert got[3] == whole[:2048]


def test_refused_frames(session):
    t = memory(8192)
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        luma = make([(t, 64), (t, 64, 2048)], 48, 32, "NV12", view="luma")
        luma.info = luma.info._replace(planes=tuple(p._replace(fd=-1) for p in luma.info.planes))
        for what, kind, words in (
                (luma, dlbuf.UnsupportedError, "all of the frame's planes"),
                (list(luma), TypeError, "list"), (None, TypeError, "NoneType")):
            with pytest.raises(kind, match=words):
                publisher.put(what)
    with pytest.raises(dlbuf.ClosedError):
        publisher.put(luma)
    with pytest.raises(TypeError, match="a dlbuf.Preparer"):
        dlbuf.zenoh.Publisher(KEY, session, prepare="yolo")
    with pytest.raises(TypeError, match="zenoh.Session"):
        dlbuf.zenoh.Publisher(KEY, "session")
    for wrong in ({"pool": 0}, {"pool": 33}, {"pool": 1.5}, {"max_bytes": 0}, {"view": "nothing"},
                  {"access": "x"}, {"access": 4}, {"exporter": "nothing"}):
        with pytest.raises(dlbuf.InvalidError):
            dlbuf.zenoh.subscribe(KEY, session, **wrong)
    for wrong in {"access": 1.5}, {"exporter": 1}, {"device": 1}:
        with pytest.raises(TypeError):
            dlbuf.zenoh.subscribe(KEY, session, **wrong)


@pytest.mark.parametrize("wrong", [
    {"sequence": 1 << 64}, {"sequence": -1}, {"timestamp_ns": 1 << 63, "clock": dlbuf.Clock.REALTIME}], ids=repr)
def test_numbers_that_do_not_fit(session, wrong):
    """A record made by hand, after from_frame() has looked at the tensors' own."""
    frame = picture(1)
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        with pytest.raises(dlbuf.InvalidError, match="does not fit a message: sequence"):
            publisher.put(dlbuf.TensorFrame(frame, frame.info._replace(**wrong)))
        assert publisher.sent == 0
        publisher.put(frame)


@pytest.mark.parametrize("other", [
    {"height": 16}, {"height": 33}, {"width": 32}, {"code": int.from_bytes(b"NV16", "little")}, {"view": dlbuf.View.ROWS},
    {"crop": (0, 0, 8, 8)}], ids=repr)
def test_record_of_other_pixels(session, other):
    """What the tensors do not show is not sent, though it is in the dma-buf."""
    t = memory(64 * 200)
    frame = make([(t, 64), (t, 64, 6400)], 64, 32, "NV12")
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        with pytest.raises(dlbuf.UnsupportedError, match="tensor"):
            publisher.put(dlbuf.TensorFrame(frame, frame.info._replace(**other)))
        assert publisher.sent == 0


@pytest.mark.parametrize(("other", "why"), [
    ({"colour": dlbuf.Colour(range=3)}, "range 3"), ({"clock": 9, "timestamp_ns": 1}, "clock 9"),
    ({"field": 9}, "field 9"), ({"damaged": 5}, "flags"), ({"orientation": 8}, "orientation 8")],
    ids=repr)
def test_records_that_no_subscriber_takes(session, other, why):
    frame = picture(1)
    with dlbuf.zenoh.Publisher(KEY, session) as publisher, \
            dlbuf.zenoh.subscribe(KEY, session) as frames:
        for info in frame.info, frame.info._replace(sequence=8):
            publisher.put(dlbuf.TensorFrame(frame, info))
            wrong = dlbuf.TensorFrame(frame, info._replace(**other))
            with pytest.raises(dlbuf.InvalidError, match=f"no subscriber takes .*{why}"):
                publisher.put(wrong)
        assert (publisher.sent, frames.received, frames.refused) == (2, 2, 0)


def test_no_time_is_invented(session):
    frame = picture(1)
    with dlbuf.zenoh.Publisher(KEY, session) as publisher, \
            dlbuf.zenoh.subscribe(KEY, session, pool=8) as frames:
        for clock in dlbuf.Clock:
            publisher.put(dlbuf.TensorFrame(frame, frame.info._replace(clock=clock)))
            info = next(frames).info
            assert (info.clock, info.timestamp_ns) == (dlbuf.Clock.NONE, None)


@pytest.mark.parametrize("wrong", [
    lambda f: dlbuf.TensorFrame([None, None], f.info), lambda f: dlbuf.TensorFrame(f, {}),
    lambda f: dlbuf.TensorFrame([np.asarray(t) for t in f], f.info)])
def test_frames_of_other_things(session, wrong):
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        with pytest.raises(TypeError, match="dlbuf.Tensors"):
            publisher.put(wrong(picture()))


def test_the_last_message_is_not_dropped(session):
    """Frames are, if the network is slow, and their number would be with them."""
    how = []
    session.declare_subscriber(KEY, zenoh.handlers.Callback(
        lambda s: how.append((len(s.payload), s.congestion_control, s.priority)), indirect=False))
    with dlbuf.zenoh.Publisher(KEY, session, priority=zenoh.Priority.DATA_LOW) as publisher:
        publisher.put(picture())
    until(lambda: len(how) == 2)
    (size, control, priority), last = how
    assert size and (control, priority) == (zenoh.CongestionControl.DROP, zenoh.Priority.DATA_LOW)
    assert last == (0, zenoh.CongestionControl.BLOCK, zenoh.Priority.DATA_LOW)


def test_each_thread_hears_of_the_end(session, monkeypatch):
    frames, said, waiting = dlbuf.zenoh.subscribe(KEY, session, timeout=None), [], set()
    wait = frames._wait
    monkeypatch.setattr(frames, "_wait", lambda deadline: (
        waiting.add(threading.get_ident()), wait(deadline))[1])

    def waits():
        with pytest.raises(dlbuf.ClosedError, match="is gone"):
            next(frames)
        said.append(True)

    threads = [threading.Thread(target=waits, daemon=True) for _ in range(4)]
    with dlbuf.zenoh.Publisher(KEY, session):
        until(lambda: frames.publishers == 1)
        for thread in threads:
            thread.start()
        until(lambda: len(waiting) == 4)
    until(lambda: len(said) == 4)
    frames.timeout = 0
    with pytest.raises(dlbuf.DeadlineError):
        next(frames)
    frames.close()


def test_memory_after_close(session):
    """Of frames that were in use at close()."""
    pictures = [picture(n) for n in range(4)]
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        for hold in 0, 2, 4:
            frames = dlbuf.zenoh.subscribe(KEY, session)
            for one in pictures:
                publisher.put(one)
            publisher._cpu.trim()
            before = buffers()
            kept = [next(frames) for _ in range(4)][:hold]
            frames.close()
            assert buffers() == before + hold
            for got, wanted in zip(kept, pictures, strict=False):
                same(got, wanted)
            kept = got = None
            frames.device.trim()
            assert frames.held == 0 and buffers() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_close_is_interrupted(session, error):
    """By a signal's exception, or by Zenoh's own, while another thread is in a call of the same object."""
    class Declared:
        calls = 0

        def undeclare(self):
            self.calls += 1
            raise error if self.calls == 1 else zenoh.ZError("undeclared")

    declared = Declared()
    for end in dlbuf.zenoh.Publisher(KEY, session), dlbuf.zenoh.subscribe(KEY, session):
        declared.calls = 0
        end._declared.append(declared)
        if error is KeyboardInterrupt:
            with pytest.raises(error):
                end.close()
        end.close()
        assert end.closed and not end._declared
        assert declared.calls == (2 if error is KeyboardInterrupt else 1)


def test_equal_planes(session):
    """Planes of one size: only their place says which is which."""
    t = memory(64 * 32 * 3)
    with dlbuf.zenoh.Publisher(KEY, session) as publisher, \
            dlbuf.zenoh.subscribe(KEY, session) as frames:
        made = make([(t, 64, 2048 * i) for i in range(3)], 48, 32, "YUV444", space="DRM")
        y, u, v = made
        for wrong in ((y, v, u), (y, u, u), (u, u, v)):
            with pytest.raises(dlbuf.UnsupportedError, match="tensors"):
                publisher.put(dlbuf.TensorFrame(wrong, made.info))
        publisher.put(made)
        same(next(frames), made)
        y, cb, cr = made = make([(t, 64), (t, 64, 2048)], 48, 32, "NV12", view="components")
        for wrong in (y, cb), (y, cb, cb), (y, y, cr):
            with pytest.raises(dlbuf.UnsupportedError, match="tensors"):
                publisher.put(dlbuf.TensorFrame(wrong, made.info))
        publisher.put(made)
        same(next(frames), make([(t, 64), (t, 64, 2048)], 48, 32, "NV12"))


def test_wildcards(session):
    """Frames of two keys; the end comes after the last publisher."""
    with dlbuf.zenoh.subscribe("robot/*", session, timeout=BOUND) as frames:
        ends = [dlbuf.zenoh.Publisher(f"robot/{name}", session) for name in ("front", "rear")]
        until(lambda: frames.publishers == 2)
        for n, end in enumerate(ends):
            end.put(picture(n))
            same(next(frames), picture(n))
            end.close()
        with pytest.raises(dlbuf.ClosedError, match="is gone"):
            next(frames)


def test_long_keys(session):
    """Zenoh itself would panic."""
    for make_end in dlbuf.zenoh.Publisher, dlbuf.zenoh.subscribe:
        for key in "k" * 70000, "\N{BUTTERFLY}" * 1025:
            with pytest.raises(dlbuf.InvalidError, match=f"a key of {len(key.encode())} bytes"):
                make_end(key, session)
        with make_end("k" * 4096, session) as end:
            assert len(end.key) == 4096


def test_a_model_s_input(session):
    frame = picture(7)
    for options in {"size": 32}, {"size": 32, "dtype": "uint8", "layout": "nhwc",
                                  "fit": "letterbox"}, {"size": 16, "dtype": "bfloat16"}:
        prepare = dlbuf.Preparer(**options)
        x, place = prepare(frame)
        with dlbuf.zenoh.subscribe(KEY, session, pool=1) as frames:
            with dlbuf.zenoh.Publisher(KEY, session, prepare=prepare) as publisher:
                publisher.put(frame)
                got = next(frames)
            same(got, [x])
            assert got.prepared == place and got.info == frame.info._replace(
                planes=(), view=got.info.view, order=dlbuf.Order.COMPLETE)
            assert frames.held == 1 and got[0].fd > 2
            view = got[0][..., :4]
            got.release()
            assert frames.held == 1         # by the view
            del view
            assert frames.held == 0


def test_each_or_the_newest(session):
    """Drops are counted. A subscriber that stalls has messages, and no buffers."""
    for drop, want in (False, [6, 7, 8, 9]), (True, [9]):
        with dlbuf.zenoh.subscribe(KEY, session, drop=drop) as frames:
            with dlbuf.zenoh.Publisher(KEY, session) as publisher:
                for n in range(10):
                    with picture(n) as frame:
                        publisher.put(frame)
                until(lambda: frames.received == 10)
                assert frames.held == 0 and frames.copied_bytes == 0
                got = []
                for n in want:
                    assert select.select([frames], [], [], 0)[0]
                    got.append(next(frames))
                    assert got[-1].sequence == n
                del got
                assert (frames.dropped, frames.lost) == (10 - len(want), 0)
                assert (publisher.sent, publisher.dropped) == (10, 0)


def test_gaps_of_the_camera(session):
    frames = [picture(n) for n in (3, 4, 9, 2, 3)]
    assert dlbuf.zenoh.publish(frames, KEY, session).dropped == 4


def test_all_buffers_held(session):
    with dlbuf.zenoh.subscribe(KEY, session, pool=2, timeout=0) as frames:
        with dlbuf.zenoh.Publisher(KEY, session) as publisher:
            with pytest.raises(dlbuf.DeadlineError, match="arrived"):
                next(frames)
            held = []
            for n in range(3):
                publisher.put(picture(n))
                until(lambda: frames.received == n + 1)
                if n < 2:
                    held.append(next(frames))
            with pytest.raises(dlbuf.DeadlineError, match="holds all 2 buffers"):
                next(frames)
            memory_of = held[0][0].fd
            held[0].release()
            # Readable again, because of the buffer.
            assert select.select([frames], [], [], BOUND)[0]
            third = next(frames)
            assert third.sequence == 2 and third[0].buffer
            same(third, picture(2))
            same(held[1], picture(1))
            assert memory_of > 2 and frames.held == 2


def test_sizes_grow(session):
    with dlbuf.zenoh.subscribe(KEY, session, pool=1) as frames:
        with dlbuf.zenoh.Publisher(KEY, session) as publisher:
            for width in 64, 256, 32, 512:
                frame = picture(1, width)
                publisher.put(frame)
                with next(frames) as got:
                    same(got, frame)


def test_buffers_are_used_again(session):
    """As many of the pool are made as the program has held at a time, and the one that came back
    last is the next."""
    with dlbuf.zenoh.subscribe(KEY, session) as frames, \
            dlbuf.zenoh.Publisher(KEY, session) as publisher:
        for n, count in enumerate((1, 1, 1, 2, 2, 1)):
            got = []
            for _ in range(count):
                publisher.put(picture(n))
                got.append(next(frames))
            del got
            assert frames.held == 0
            assert sum(slot.buffer is not None for slot in frames._slots) == max(
                (1, 1, 1, 2, 2, 1)[:n + 1])


def test_frames_in_garbage(session):
    """The collector closes the tensors of a frame that refers to itself, and not the pool's."""
    with dlbuf.zenoh.subscribe(KEY, session, pool=1) as frames, \
            dlbuf.zenoh.Publisher(KEY, session) as publisher:
        for n in range(3):
            publisher.put(picture(n))
            frame = next(frames)
            frame.me = frame
            del frame
            assert frames.held == 1
            gc.collect()
            assert frames.held == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_interrupted(session, monkeypatch, when):
    """A signal handler that raises ends next(), before or after the frame is made. Its buffer is free
    once, also when that frame's lease ends later."""
    real, made = dlbuf.zenoh._dlbuf.import_frame, []

    def interrupted(*args):
        if when == "after":
            made.append(real(*args))
        raise KeyboardInterrupt

    with dlbuf.zenoh.subscribe(KEY, session, pool=1) as frames, \
            dlbuf.zenoh.Publisher(KEY, session) as publisher:
        publisher.put(picture(1))
        with monkeypatch.context() as m:
            m.setattr(dlbuf.zenoh._dlbuf, "import_frame", interrupted)
            with pytest.raises(KeyboardInterrupt) as kept:
                next(frames)
        assert frames.held == 0 and frames.dropped == 1
        publisher.put(picture(2))
        one = next(frames)
        made.clear()
        del kept
        assert frames.held == 1
        publisher.put(picture(3))
        frames.timeout = 0
        with pytest.raises(dlbuf.DeadlineError, match="holds all 1 buffers"):
            next(frames)
        one.release()
        assert frames.held == 0 and next(frames)


def test_no_bytes_of_an_earlier_frame(session):
    """Who gets the dma-buf of a small frame."""
    large, small = picture(1, 64, 64), picture(2, 8, 8)
    with dlbuf.zenoh.subscribe(KEY, session, pool=1) as frames, \
            dlbuf.zenoh.Publisher(KEY, session) as publisher:
        publisher.put(large)
        next(frames).release()
        publisher.put(small)
        frame = next(frames)
        end = max(p.offset + p.bytes for p in frame.info.planes)
        rest = dlbuf.from_fd(frame[0].fd, (64 * 96,), "uint8").tobytes()[end:]
        assert end < 64 * 64 and not any(rest)


@pytest.mark.parametrize("of", [
    lambda f: f[:1], lambda f: f * 2, lambda f: f[:1] * 2, lambda f: f[::-1],
    lambda f: (f[0][:8], f[1]), lambda f: (f[0], f[1][:, 2:]), lambda f: (f[0][::2], f[1]),
    lambda f: (f[0][::-1], f[1]), lambda f: (f[0].T, f[1]), lambda f: (f[0], f[1][..., ::-1]),
    lambda f: (f[0][:0], f[1]),
    lambda f: [dlbuf.from_dlpack(np.zeros(t.shape, np.uint8)) for t in f], lambda f: [],
    lambda f: [dlbuf.alloc(t.shape, "uint8") for t in f]])
def test_tensors_of_another_picture(session, of):
    """What would be sent is the frame's memory, and not these tensors."""
    frame = picture()
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        with pytest.raises(dlbuf.UnsupportedError, match="tensors"):
            publisher.put(dlbuf.TensorFrame(of(tuple(frame)), frame.info))
        tensors = dlbuf.from_frame(
            [(p.fd, p.pitch, p.offset) for p in frame.info.planes], frame.info.width,
            frame.info.height, frame.info.format, view="luma")
        with pytest.raises(dlbuf.UnsupportedError, match="tensors"):
            publisher.put(dlbuf.TensorFrame(tensors, tensors[0].frame))
        t = dlbuf.from_dlpack(np.zeros((4, 4), np.uint8))
        with pytest.raises(dlbuf.UnsupportedError, match="tensors"):
            publisher.put(dlbuf.TensorFrame([t], t.frame))
        assert publisher.sent == 0


def test_the_end_of_planes(session):
    """Each access ends, and each tensor is closed, also if the end of another one raises."""
    frame = picture()
    planes = frame.planes("read")
    called = []

    class Raises:
        def __init__(self, plane):
            self.plane = plane

        def __exit__(self, *error):
            self.plane.__exit__(*error)
            called.append("exit")
            raise ZeroDivisionError(len(called))

        def close(self):
            self.plane.close()
            called.append("close")
            raise ZeroDivisionError(len(called))

    y, uv = planes.__enter__()
    planes._entered[:] = [(Raises(y), Raises(uv))]
    with pytest.raises(ZeroDivisionError, match="4"):
        planes.__exit__(None, None, None)
    assert called == ["exit", "exit", "close", "close"] and y.closed and uv.closed
    with planes as (y, _), planes as (again, _):
        assert y.acquired and again.acquired
    assert y.closed and again.closed


def test_after_close(session):
    """Frames stay valid; threads, tasks and other loops end."""
    frames = dlbuf.zenoh.subscribe(KEY, session, timeout=None)
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        publisher.put(picture(5))
        got = next(frames)
    results = []
    thread = threading.Thread(target=lambda: results.append(list(frames)))
    with pytest.raises(dlbuf.ClosedError, match="is gone"):
        next(frames)
    thread.start()

    async def waits():
        task = asyncio.ensure_future(frames.frame())
        await asyncio.sleep(0)
        while not frames._waiters:
            await asyncio.sleep(0)
        threading.Thread(target=frames.close).start()
        with pytest.raises(dlbuf.ClosedError, match="is closed"):
            await task
        assert [f async for f in frames] == []

    asyncio.run(waits())
    thread.join()
    assert results == [[]] and frames.closed
    frames.close()
    same(got, picture(5))
    assert select.select([frames], [], [], BOUND)[0]


def test_async(session):
    async def main():
        with dlbuf.zenoh.subscribe(KEY, session) as frames, \
                dlbuf.zenoh.Publisher(KEY, session) as publisher:
            with pytest.raises(dlbuf.DeadlineError):
                await frames.frame(timeout=0)
            task = asyncio.ensure_future(frames.frame(timeout=None))
            await asyncio.sleep(0)
            publisher.put(picture(1))
            assert (await task).sequence == 1
            publisher.put(picture(2))
            async for frame in frames:
                assert frame.sequence == 2
                return

    asyncio.run(main())


@pytest.mark.parametrize("own", [False, True])
def test_fork(session, own):
    """In a child close() does nothing, also for a session of dlbuf's own: Zenoh's threads are
    not there, and it would wait for them."""
    if own:
        session = None
    frames = dlbuf.zenoh.subscribe(KEY, session)
    publisher = dlbuf.zenoh.Publisher(KEY, session)
    frame = picture()
    pid = os.fork()
    if not pid:
        status = 1
        signal.alarm(BOUND)
        with contextlib.suppress(BaseException):
            for call in (lambda: next(frames)), (lambda: publisher.put(frame)):
                with pytest.raises(dlbuf.Error) as e:
                    call()
                assert e.value.errno == errno.ESTALE
            publisher.close()
            frames.close()
            status = 0
        os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    publisher.close()
    frames.close()


def test_the_session_is_closed():
    """It wakes no subscriber that waits without a limit."""
    with zenoh.open(config()) as session:
        frames = dlbuf.zenoh.subscribe(KEY, session, timeout=None)
        timer = threading.Timer(0, session.close)
        timer.start()
        with pytest.raises(dlbuf.ClosedError, match="the session of"):
            next(frames)
        timer.join()


def test_no_shared_memory():
    """Zenoh's blocks are reused while a slow subscriber of this machine reads them."""
    assert '"enabled":true' in zenoh.Config().get_json("transport/shared_memory")
    ours = dlbuf.zenoh.local_config().get_json("transport/shared_memory")
    assert '"enabled":false' in ours
    with open(f"{ROOT}/docs/network.md", encoding="utf-8") as f:
        printed = re.findall("```json5\n(.*?)```", f.read(), re.S)
    assert len(printed) == 2
    for text in printed:
        assert zenoh.Config.from_json5(text).get_json("transport/shared_memory") == ours


# -------------------------------------------------------------- hostile peers


def raw(session, data, payload, encoding=dlbuf.zenoh.ENCODING):
    session.put(KEY, payload, encoding=encoding, attachment=data)


def read_all(frame):
    for t in frame:
        assert len(t.tobytes()) == t.nbytes


def test_hostile_publisher(session):
    """A raw connection of Zenoh's sends anything. Messages that are refused are counted
    and cost nothing; the others are read to their last element."""
    content = bytes(range(256)) * 16
    with dlbuf.zenoh.subscribe(KEY, session, pool=2) as frames:
        taken = refused = 0
        for seed in range(3000):
            data, payload = hostile(seed)
            raw(session, data, content[:min(payload, len(content))])
            until(lambda: frames.refused + frames.received == seed + 1)
            if frames.refused > refused:
                refused += 1
                assert frames.refusal and frames.held == 0
                continue
            taken += 1
            try:
                with next(frames) as got:
                    read_all(got)
            except dlbuf.Error as e:
                raise AssertionError((seed, data)) from e
        assert taken > 200 and refused > 1000, (taken, refused)
        for data, payload in VALID.values():
            raw(session, data, content[:payload])
            got = next(frames)
            read_all(got)
            got.release()
        assert frames.held == 0 and frames.publishers == 0
        assert len(frames._numbers) <= 64


def test_nothing_is_allocated_for_what_is_refused(session, monkeypatch):
    data, payload = VALID["frame"]
    wrong = [("zenoh/bytes", data, payload, "encoding"), (None, b"", payload, "attachment"),
             (None, bytes(5000), payload, "too many"), (None, data, 5000, "at most 4096"),
             (None, data[:39], payload, "too few"),
             (None, changed("head", "version", 2)[0], payload, "version 2")]
    with dlbuf.zenoh.subscribe(KEY, session, timeout=0, max_bytes=4096) as frames:
        monkeypatch.setattr(dlbuf.zenoh, "alloc", lambda *a, **k: pytest.fail("allocated"))
        for n, (encoding, message, size, words) in enumerate(wrong, 1):
            raw(session, message, bytes(size), encoding or dlbuf.zenoh.ENCODING)
            until(lambda: frames.refused + frames.received == n)
            with pytest.raises(dlbuf.DeadlineError, match=f"{n} messages were refused: .*{words}"):
                next(frames)
        assert frames.refusal == "the message has version 2, this dlbuf knows 1"
        raw(session, None, b"")
        until(lambda: frames.refused == len(wrong) + 1)


def test_lost(session):
    with dlbuf.zenoh.subscribe(KEY, session, pool=8) as frames:
        for who, number in (1, 0), (2, 5), (1, 3), (1, 3), (2, 6), (1, 2), (1, 5):
            raw(session, _message.pack(FRAME._replace(publisher=who, number=number), PAYLOAD),
                bytes(PAYLOAD))
        until(lambda: frames.received == 7)
        assert frames.lost == 2 + 1


def test_lost_by_a_jump(session):
    """A publisher cannot make it any number, nor stop the count of what is lost later."""
    with dlbuf.zenoh.subscribe(KEY, session, pool=8) as frames:
        for number in 0, (1 << 64) - 1, 7, 9, 9 + (1 << 20), 9:
            raw(session, _message.pack(FRAME._replace(number=number), PAYLOAD), bytes(PAYLOAD))
        until(lambda: frames.received == 6)
        assert frames.lost == 1 + (1 << 20) - 1


def test_frames_after_the_token(session):
    """Zenoh sends the end of a token before frames that wait in its queue: the iteration ends
    after the publisher's last message, and counts what is missing before that."""
    def declare(who):
        return session.liveliness().declare_token(f"{KEY}/@dlbuf/{who:016x}")

    def send(who, number):
        raw(session, _message.pack(FRAME._replace(publisher=who, number=number), PAYLOAD),
            bytes(PAYLOAD))

    def end(who, number):
        raw(session, _message.pack_end(_message.End(who, number)), b"")

    with dlbuf.zenoh.subscribe(KEY, session, timeout=0) as frames:
        for before in False, True:
            lost, tokens = frames.lost, [declare(who) for who in (1, 2)]
            for who in 1, 2:
                send(who, 0)
                assert next(frames)
            # The one says its end before its token is gone, and the other after it.
            end(1, 1)
            for token in tokens:
                token.undeclare()
            assert frames.publishers == 0 and set(frames._leaving) == {2}
            with pytest.raises(dlbuf.DeadlineError, match="no frame"):
                next(frames)
            assert not select.select([frames], [], [], 0)[0]
            send(2, 2)
            if before:
                assert next(frames)
            end(2, 5)
            assert frames.lost == lost + 1 + 2
            if not before:
                assert next(frames)
            assert select.select([frames], [], [], 0)[0]
            with pytest.raises(dlbuf.ClosedError, match="is gone"):
                next(frames)
            with pytest.raises(dlbuf.DeadlineError):
                next(frames)
            assert not (frames._leaving or frames._ended or frames._numbers)
        assert (frames.received, frames.refused) == (6, 0)
        # It was killed: it has no end, and wakes the program nevertheless.
        declare(3).undeclare()
        with pytest.raises(dlbuf.DeadlineError):
            next(frames)
        assert set(frames._leaving) == {3} and not select.select([frames], [], [], 0)[0]
        frames.timeout = BOUND

        async def waits():
            with pytest.raises(dlbuf.ClosedError, match="is gone"):
                await frames.frame()

        asyncio.run(waits())
        # A new one has come meanwhile.
        declare(4).undeclare()
        token = declare(5)
        frames.timeout = 0
        end(4, 0)
        with pytest.raises(dlbuf.DeadlineError):
            next(frames)
        token.undeclare()


def test_many_publishers(session):
    """Names of publishers cost a bounded amount."""
    with dlbuf.zenoh.subscribe(KEY, session) as frames:
        tokens = [session.liveliness().declare_token(f"{KEY}/@dlbuf/{n:016x}")
                  for n in range(100)]
        for n in range(100):
            raw(session, _message.pack(TENSOR._replace(publisher=n), TENSOR_BYTES),
                bytes(TENSOR_BYTES))
        until(lambda: frames.received == 100 and frames.publishers == 64)
        assert len(frames._numbers) == 64
        for t in tokens:
            t.undeclare()


def test_wrong_tokens(session):
    """A token that no publisher declares is none, and its end is not that of a publisher."""
    def declare(keys):
        return [session.liveliness().declare_token(key) for key in keys]

    wrong = [f"{KEY}/@dlbuf/{n}" for n in ("x", "-1", "0" * 15, "0" * 17, "A" * 16, "*")]
    wrong += [f"{key}/@dlbuf/" + "0" * 16 for key in ("dlbuf/*", "**")]
    with dlbuf.zenoh.subscribe(KEY, session, timeout=0) as frames:
        # In Zenoh's order: when the last has arrived the others have.
        tokens = declare([*wrong, f"{KEY}/@dlbuf/" + "a" * 16])
        until(lambda: f"{KEY}/@dlbuf/" + "a" * 16 in frames._alive)
        assert frames.publishers == 1
        for t in tokens[::-1]:
            t.undeclare()
        tokens = declare([f"{KEY}/@dlbuf/" + "b" * 16])
        until(lambda: f"{KEY}/@dlbuf/" + "b" * 16 in frames._alive)
        assert frames.publishers == 1
        with pytest.raises(dlbuf.DeadlineError):
            next(frames)


def test_one_format(session):
    """A stranger who may publish chooses the format; a program with unpacking says its own."""
    grey = make(one_buffer(4096, (64,)), 48, 32, "R8")
    with dlbuf.zenoh.subscribe(KEY, session, format="NV12", timeout=0) as frames, \
            dlbuf.zenoh.Publisher(KEY, session) as publisher:
        for wrong, words in (lambda: publisher.put(grey), "the format is R8"), (
                lambda: raw(session, VALID["tensor"][0], bytes(TENSOR_BYTES)), "model's input"):
            refused = frames.refused
            wrong()
            until(lambda before=refused: frames.refused == before + 1)
            with pytest.raises(dlbuf.DeadlineError, match=words):
                next(frames)
        publisher.put(picture(4))
        publisher.put(make(one_buffer(2048, (64,)) + one_buffer(1024, (64,)), 64, 32, "NV12M",
                           space="V4L2"))
        until(lambda: frames.received == 2)
        for _ in range(2):
            with next(frames) as (y, uv):
                assert y.ndim == 2 and uv.shape[2] == 2
    with pytest.raises(dlbuf.InvalidError, match="no format"):
        dlbuf.zenoh.subscribe(KEY, session, format="NV99")
    with pytest.raises(TypeError, match="drop"):
        dlbuf.zenoh.subscribe(KEY, session, drop="no")


def test_keys(session):
    for wrong in None, 1, b"a/key":
        with pytest.raises(TypeError, match="a key is"):
            dlbuf.zenoh.subscribe(wrong, session)
        with pytest.raises(TypeError, match="a key is"):
            dlbuf.zenoh.Publisher(wrong, session)
    with pytest.raises(dlbuf.InvalidError, match="has one key"):
        dlbuf.zenoh.Publisher("dlbuf/*", session)
    with dlbuf.zenoh.Publisher(zenoh.KeyExpr(KEY), session) as publisher:
        assert publisher.key == KEY


def test_put_on_threads(session):
    """Messages leave in the order of their numbers, so that nothing counts as lost."""
    rounds, count = 50, 4
    numbers = []
    start = threading.Barrier(count)
    end = session.declare_subscriber(KEY, zenoh.handlers.Callback(
        lambda s: numbers.append(_message.parse(s.attachment.to_bytes(), len(s.payload)).number),
        indirect=False))
    with dlbuf.zenoh.Publisher(KEY, session) as publisher:
        def put_all(frame):
            start.wait()
            for _ in range(rounds):
                publisher.put(frame)

        threads = [threading.Thread(target=put_all, args=[picture(n)]) for n in range(count)]
        # Another thread has its turn between any two lines.
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        finally:
            sys.setswitchinterval(before)
        assert publisher.sent == rounds * count
    # The last is that of the end.
    until(lambda: len(numbers) == rounds * count + 1)
    assert numbers == list(range(rounds * count + 1))
    end.undeclare()


def test_a_closed_session_takes_nothing():
    s = zenoh.open(config())
    publisher = dlbuf.zenoh.Publisher(KEY, s)
    s.close()
    with pytest.raises(dlbuf.ClosedError, match="the session of"):
        publisher.put(picture(1))
    publisher.close()


def test_garbage_with_a_frame(session):
    """A subscriber and a frame of its own that become garbage together: the frame's end writes
    into no file that got the number of the subscriber's fd meanwhile."""
    class Opens:
        def __del__(self):
            files.append(os.memfd_create("log"))

    for place in range(3):
        files, things = [], []
        if place == 0:
            things.append(Opens())
        frames = dlbuf.zenoh.subscribe(KEY, session)
        if place == 1:
            things.append(Opens())
        with dlbuf.zenoh.Publisher(KEY, session) as publisher:
            publisher.put(picture(2))
        things += [frames, next(frames)]
        if place == 2:
            things.append(Opens())
        things.append(things)
        del frames, things
        gc.collect()
        assert len(files) == 1
        assert os.fstat(files[0]).st_size == 0
        os.close(files[0])


# -------------------------------------------------------------- processes

CHILD = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import zenoh
import dlbuf.zenoh
from test_zenoh import config, picture, until
with zenoh.open(config(connect=sys.argv[2])) as session:
    with dlbuf.zenoh.Publisher("dlbuf/test", session,
                               congestion_control=zenoh.CongestionControl.BLOCK) as publisher:
        until(lambda: publisher._publisher.matching_status.matching)
        for line in sys.stdin:
            with picture(int(line), 640, 480) as frame:
                publisher.put(frame)
"""


class Robot:
    """A process that publishes a picture for each number that it is told."""

    def __init__(self, port):
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, ":".join(sys.path), str(port)],
            stdin=subprocess.PIPE, text=True, bufsize=1)

    def sends(self, *numbers):
        for n in numbers:
            print(n, file=self.process.stdin)

    def end(self, how=None):
        if how:
            self.process.send_signal(how)
        self.process.communicate()
        return self.process.returncode


def test_two_processes():
    """The receiver begins first; the sender is killed, comes back, and ends."""
    port, before = free_port(), buffers()
    with zenoh.open(config(listen=port)) as session:
        frames = dlbuf.zenoh.subscribe(KEY, session, timeout=BOUND)
        for number, how in enumerate((signal.SIGKILL, signal.SIGKILL, None)):
            robot = Robot(port)
            until(lambda: frames.publishers)
            robot.sends(*range(3))
            for n in range(3):
                with next(frames) as got:
                    assert got.sequence == n
                    same(got, picture(n, 640, 480))
            held = None
            if number:
                robot.sends(3)
                held = next(frames)
            assert (robot.end(how) == 0) == (how is None)
            with pytest.raises(dlbuf.ClosedError, match="is gone"):
                next(frames)
            assert frames.publishers == 0
            if held:
                same(held, picture(3, 640, 480))
                del held
        assert (frames.held, frames.refused, frames.lost) == (0, 0, 0)
        frames.close()
    ref = weakref.ref(frames)
    del frames, got
    assert buffers() == before and not ref()


def test_many_receivers():
    port = free_port()
    with zenoh.open(config(listen=port)) as session:
        others = [zenoh.open(config(connect=port)) for _ in range(3)]
        every = [dlbuf.zenoh.subscribe(KEY, s, drop=True) for s in others]
        with dlbuf.zenoh.Publisher(KEY, session) as publisher:
            def all_have(n):
                publisher.put(picture(n))
                return all(f.received for f in every)

            # Until the publisher knows them all.
            until(lambda: all_have(0))
            # One dies; the others go on.
            others.pop().close()
            every.pop()
            publisher.put(picture(1))
            for f in every:
                got = next(got for got in f if got.sequence == 1)
                same(got, picture(1))
        for f in every:
            f.close()
        for s in others:
            s.close()


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("control", ["DROP", "BLOCK"])
def test_each_message_is_counted(control, drop):
    """What publishers have sent is received or lost, and what is received is read or dropped: of
    two publishers, with a network that stands still for a while, a program that does not read, and
    ends that close while the other one goes on."""
    port, gate, shut = free_port(), threading.Event(), threading.Event()
    options = {"congestion_control": getattr(zenoh.CongestionControl, control)}
    robot = zenoh.open(config(listen=port))
    with zenoh.open(config(connect=port)) as viewer:
        # The thread that reads this connection waits in it.
        viewer.declare_subscriber("gate", zenoh.handlers.Callback(
            lambda _: (shut.set(), gate.wait()), indirect=False))
        frames = dlbuf.zenoh.subscribe(KEY, viewer, drop=drop, timeout=BOUND)
        both = [dlbuf.zenoh.Publisher(KEY, robot, **options) for _ in range(2)]
        until(lambda: frames.publishers == 2)
        # A publisher knows its subscribers some time after the session does.
        until(lambda: all(p._publisher.matching_status.matching for p in both))
        read = 0

        def counted():
            return frames.received + frames.lost == sum(p.sent for p in both)

        for p in both:
            p.put(picture())
            next(frames).release()
            read += 1
        big = picture(1, 640, 480)
        if control == "DROP":
            until(lambda: shut.is_set() or robot.put("gate", b""))
            for _ in range(50):
                both[0].put(big)
            assert both[0].sent == 51
            gate.set()
        else:
            for _ in range(10):
                both[0].put(big)
        # Until one has got through.
        until(lambda: counted() or both[0].put(picture()))
        both[1].put(picture())
        for p in both:
            p.close()
        while True:
            try:
                next(frames).release()
                read += 1
            except dlbuf.ClosedError:
                break
        assert counted() and bool(frames.lost) == (control == "DROP")
        assert frames.received == read + frames.dropped and frames.dropped
        assert (frames.refused, frames.held, frames.publishers) == (0, 0, 0)
        # A subscriber that closes does not stop a publisher; a session that is closed does.
        with dlbuf.zenoh.Publisher(KEY, robot, **options) as p:
            p.put(picture(2))
            kept = next(frames)
            frames.close()
            p.put(picture(3))
            robot.close()
            with pytest.raises(dlbuf.ClosedError, match="the session of"):
                p.put(picture(4))
            assert (p.sent, p.dropped) == (2, 0)
        same(kept, picture(2))


# -------------------------------------------------------------- security


def listening():
    """The local addresses of this process's sockets that others can reach."""
    inodes = {os.readlink(f"/proc/self/fd/{fd}")[8:-1] for fd in os.listdir("/proc/self/fd")
              if os.path.islink(f"/proc/self/fd/{fd}") and
              os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")}
    for kind in "tcp", "tcp6", "udp", "udp6":
        with open(f"/proc/self/net/{kind}") as f:
            for line in f.readlines()[1:]:
                words = line.split()
                if words[9] in inodes and (kind[:3] == "udp" or words[3] == "0A"):
                    yield words[1].partition(":")[0]


def test_loopback_by_default():
    with dlbuf.zenoh.subscribe(KEY, timeout=BOUND) as frames:
        until(lambda: list(listening()))
        assert set(listening()) == {"0100007F"}
        # Two sessions with this configuration find one another.
        with dlbuf.zenoh.Publisher(KEY) as publisher:
            until(lambda: frames.publishers)
            until(lambda: publisher._publisher.matching_status.matching)
            publisher.put(picture(1))
            same(next(frames), picture(1))
            assert set(listening()) == {"0100007F"}
    assert list(listening()) == []


CERTIFICATES = """
mkdir other; cd other
%s
mv viewer.pem ../stranger.pem; mv viewer-key.pem ../stranger-key.pem; cd ..
%s
"""


def page(start, kind):
    """A block of docs/network.md, the first of its kind after start."""
    with open(ROOT + "/docs/network.md") as f:
        text = f.read().partition(start)[2].partition(f"```{kind}\n")[2]
    return text.partition("```")[0]


def documented(folder, name, port, **replaced):
    """A configuration of docs/network.md, with files in the folder."""
    text = page(f"\n`{name}.json5`", "json5").replace("robot.local:7447", f"localhost:{port}")
    for old, new in replaced.items():
        text = text.replace(f'"{old}', f'"{new}')
    return zenoh.Config.from_json5(re.sub(r'"([\w-]+\.pem)"', rf'"{folder}/\1"', text))


def test_mutual_tls(tmp_path):
    """The configurations of docs/network.md, and machines that may not take part."""
    commands = page("### Security", "sh").replace("$name.local", "localhost").replace(
        "robot viewer", "robot viewer guest")
    subprocess.run(["sh", "-ec", CERTIFICATES % (commands, commands)], cwd=tmp_path, check=True, capture_output=True)
    port = free_port()
    with zenoh.open(documented(tmp_path, "robot", port)) as robot:
        secret = "robot/other"
        heard = []
        robot.declare_subscriber("**", lambda s: heard.append(str(s.key_expr)))
        # Only subscribers elsewhere count, for its matching status, too.
        with dlbuf.zenoh.Publisher("robot/front", robot,
                                   allowed_destination=zenoh.Locality.REMOTE) as publisher:
            with zenoh.open(documented(tmp_path, "viewer", port)) as session:
                others = []
                session.declare_subscriber(secret, others.append)
                with dlbuf.zenoh.subscribe("robot/front", session, timeout=BOUND) as frames:
                    until(lambda: frames.publishers)
                    until(lambda: publisher._publisher.matching_status.matching)
                    robot.put(secret, b"")
                    # The viewer may not publish to the robot.
                    session.put("robot/front", b"", allowed_destination=zenoh.Locality.REMOTE)
                    publisher.put(picture(1))
                    same(next(frames), picture(1))
                    assert frames.refused == 0 and not others
            # All that it has sent is here.
            until(lambda: not list(robot.info.peers_zid()))
            # It has a certificate, and is not in the list.
            with zenoh.open(documented(tmp_path, "viewer", port, viewer="guest")) as session:
                got = []
                session.declare_subscriber("robot/front", got.append)
                session.liveliness().declare_subscriber("robot/front/@dlbuf/*", got.append,
                                                        history=True)
                until(lambda: list(session.info.peers_zid()))
                session.put("robot/front", b"", allowed_destination=zenoh.Locality.REMOTE)
                publisher.put(picture(2))
            until(lambda: not list(robot.info.peers_zid()))
            publisher.put(picture(3))
            assert not got
            # A certificate of another authority, and none: no connection.
            for name in "stranger", "absent":
                c = documented(tmp_path, "viewer", port, viewer=name)
                c.insert_json5("connect/timeout_ms", "2000")
                c.insert_json5("connect/exit_on_failure", "true")
                if name == "absent":
                    c.insert_json5("transport/link/tls/connect_certificate", "null")
                    c.insert_json5("transport/link/tls/connect_private_key", "null")
                    c.insert_json5("transport/link/tls/enable_mtls", "false")
                with pytest.raises(zenoh.ZError):
                    zenoh.open(c).close()
        # The robot's own publication, and nothing of the others.
        until(lambda: heard)
        assert heard == [secret], heard


# -------------------------------------------------------------- ROS 2

TOPIC, TYPE = "/camera/image_raw", "sensor_msgs/msg/Image"
# sensor_msgs's name, DRM's or V4L2's, bytes of a row of 40 pixels at 8, and rows of the picture
# that a row of the message stands for.
IMAGES = {
    "rgb8": ("BGR888", "DRM", 3), "bgr8": ("RGB888", "DRM", 3), "rgba8": ("ABGR8888", "DRM", 4),
    "bgra8": ("ARGB8888", "DRM", 4), "mono8": ("GREY", "V4L2", 1), "mono16": ("Y16", "V4L2", 2),
    "16UC1": ("Z16", "V4L2", 2), "rgb16": ("BGR161616", "DRM", 6),
    "yuv422_yuy2": ("YUYV", "V4L2", 2), "yuv422": ("UYVY", "V4L2", 2),
    "bayer_grbg8": ("SGRBG8", "V4L2", 1), "bayer_rggb16": ("SRGGB12", "V4L2", 2),
    "nv12": ("NV12", "DRM", 1), "nv21": ("NV21", "DRM", 1),
}
PITCH, ROWS, CROP = 640, 24, (8, 4, 40, 16)


@pytest.fixture
def ros():
    """rosbags, another implementation of ROS 2's messages."""
    typesys = pytest.importorskip("rosbags.typesys")
    return typesys.get_typestore(typesys.Stores.ROS2_JAZZY)


def images_of(session, frames, frame_id="camera_optical_frame"):
    """What a subscriber of the type's key gets for a publication."""
    got = []
    session.declare_subscriber(f"*/camera/image_raw/{dlbuf._ros2._TYPE}", got.append)
    publisher = dlbuf.zenoh.publish(frames, TOPIC, session, ros2=frame_id)
    until(lambda: len(got) == len(frames))
    return publisher, got


@pytest.mark.parametrize("encoding", IMAGES)
def test_ros2_images(session, ros, encoding):
    """Each encoding, whole and with a crop: the rows are those of the memory, without padding, and
    rosbags would write the same bytes."""
    name, space, size = IMAGES[encoding]
    whole = (0, 0, 96, ROWS)
    memory_of = memory(PITCH * ROWS * 2)
    rows = np.asarray(memory_of).reshape(-1, PITCH)
    planes = [(memory_of, PITCH), (memory_of, PITCH, PITCH * ROWS)][:2 if "nv" in encoding else 1]
    frames = [make(planes, 96, ROWS, name, space=space, crop=crop, clock="realtime",
                   timestamp_ns=1_700_000_000_123_456_789, orientation="turn_90")
              for crop in (None, CROP)]
    publisher, got = images_of(session, frames)
    assert publisher.sent == 2 and publisher.copied_bytes > 0
    for sample, (x, y, w, h) in zip(got, (whole, CROP), strict=True):
        data = sample.payload.to_bytes()
        image = ros.deserialize_cdr(data, TYPE)
        assert bytes(ros.serialize_cdr(image, TYPE)) == data
        header = image.header
        assert (header.stamp.sec, header.stamp.nanosec) == (1_700_000_000, 123_456_789)
        assert header.frame_id == "camera_optical_frame"
        assert (image.width, image.height, image.encoding, image.step, image.is_bigendian) == (
            w, h, encoding, w * size, 0)
        want = rows[y:y + h, x * size:(x + w) * size].tobytes()
        if len(planes) == 2:
            want += rows[ROWS + y // 2:ROWS + (y + h) // 2, x:x + w].tobytes()
        assert image.data.tobytes() == want
        assert str(sample.encoding) == "application/cdr"


def test_ros2_alignment(session, ros):
    """Strings of each length before the numbers."""
    for frame_id in [*("x" * n for n in range(9)), "\N{BUTTERFLY}", "x" * 255]:
        (sample,) = images_of(session, [picture()], frame_id)[1]
        data = sample.payload.to_bytes()
        image = ros.deserialize_cdr(data, TYPE)
        assert image.header.frame_id == frame_id and image.width == 64
        assert bytes(ros.serialize_cdr(image, TYPE)) == data


def test_ros2_names(session, ros, monkeypatch):
    """The key, the tokens and the attachment, as rmw_zenoh_cpp writes them."""
    hashed = f"sensor_msgs::msg::dds_::Image_/{ros.hash_rihs01(TYPE)}"
    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    got = []
    session.declare_subscriber("**", got.append)
    lives = []
    session.liveliness().declare_subscriber("@ros2_lv/**", lives.append)
    publisher = dlbuf.zenoh.Publisher(TOPIC, session, ros2="")
    assert publisher.key == f"7/camera/image_raw/{hashed}"
    until(lambda: len(lives) == 2)
    (node, its), start = (str(s.key_expr).split("/") for s in lives), ["@ros2_lv", "7",
                                                                      str(session.zid())]
    assert node[:3] == its[:3] == start and node[5:8] == ["NN", "%", "%"]
    assert node[3] == node[4] == its[3] != its[4]
    assert its[5:] == ["MP", *node[6:], "%camera%image_raw", *hashed.split("/"), "::,:,:,:,,"]
    before = time.time_ns()
    for _ in range(2):
        publisher.put(picture())
    until(lambda: len(got) == 2)
    attachments = [zenoh.ext.z_deserialize(
        tuple[zenoh.ext.Int64, zenoh.ext.Int64, bytes], s.attachment) for s in got]
    assert [number for number, *_ in attachments] == [1, 2]
    assert attachments[0][2] == attachments[1][2] and len(attachments[0][2]) == 16
    assert before <= attachments[0][1] <= time.time_ns()
    publisher.close()
    until(lambda: len(lives) == 4)
    for domain, topic, key in (None, "image", "0/image/"), ("", "/a/b_1", "0/a/b_1/"):
        monkeypatch.setenv("ROS_DOMAIN_ID", domain) if domain is not None else \
            monkeypatch.delenv("ROS_DOMAIN_ID")
        with dlbuf.zenoh.Publisher(topic, session, ros2="x") as publisher:
            assert publisher.key == key + hashed


def test_ros2_times(session, ros):
    """A time since boot is converted; without a time it is that of put()."""
    before = time.time_ns()
    frames = [picture(clock="monotonic", timestamp_ns=time.monotonic_ns()),
              picture(clock="stream", timestamp_ns=5), picture()]
    for sample in images_of(session, frames)[1]:
        stamp = ros.deserialize_cdr(sample.payload.to_bytes(), TYPE).header.stamp
        ns = stamp.sec * 1_000_000_000 + stamp.nanosec
        # The clocks may be adjusted meanwhile.
        assert abs(ns - before) < 3600 * 1_000_000_000
    with pytest.raises(dlbuf.InvalidError, match="no time of 5000000000 seconds"):
        dlbuf.zenoh.publish([picture(clock="realtime", timestamp_ns=5 * 10**18)],
                            TOPIC, session, ros2="x")


def test_ros2_refused(session, monkeypatch):
    t = memory(65536)
    one, two = [(t, 256)], [(t, 256), (t, 256, 32768)]
    for planes, size, name, space in (
            (one, (48, 32), "XRGB8888", "DRM"), (one, (48, 32), "RGB565", "DRM"),
            (two, (48, 32), "NV16", "DRM"), (two, (48, 32), "NV24", "DRM"),
            (two, (48, 32), "P010", "DRM"), (one, (48, 32), "SBGGR10P", "V4L2"),
            (one, (48, 32), "SRGGB10ALAW8", "V4L2"), (one, (48, 32), "YVYU", "V4L2")):
        view = "planes" if dlbuf.View.PLANES in dlbuf.find_format(name, space)[0].views else "rows"
        with pytest.raises(dlbuf.UnsupportedError, match=f"has no name for the format {name}$"):
            dlbuf.zenoh.publish([make(planes, *size, name, space=space, view=view)], TOPIC, session,
                                ros2="x")
    for crop in None, (0, 0, 47, 32):
        with pytest.raises(dlbuf.UnsupportedError, match="has no nv12 of 47x3[12]"):
            dlbuf.zenoh.publish([make(two, 48 if crop else 47, 32 if crop else 31, "NV12",
                                      crop=crop)], TOPIC, session, ros2="x")
    for wrong in "a-b", "/a//b", "/a/", "/1", "", 5, "/" + "a" * 255, "a/*":
        with pytest.raises(dlbuf.InvalidError, match="the full name of a topic"):
            dlbuf.zenoh.Publisher(wrong, session, ros2="x")
    for wrong in "a" * 256, "a\0":
        with pytest.raises(dlbuf.InvalidError, match="a frame_id"):
            dlbuf.zenoh.Publisher(TOPIC, session, ros2=wrong)
    with pytest.raises(TypeError, match="frame_id"):
        dlbuf.zenoh.Publisher(TOPIC, session, ros2=True)
    with pytest.raises(dlbuf.InvalidError, match="one of them"):
        dlbuf.zenoh.Publisher(TOPIC, session, ros2="x", prepare=dlbuf.Preparer(size=32))
    for wrong in "x", "-1", "233", "\u0664":
        monkeypatch.setenv("ROS_DOMAIN_ID", wrong)
        with pytest.raises(dlbuf.InvalidError, match="ROS_DOMAIN_ID"):
            dlbuf.zenoh.Publisher(TOPIC, session, ros2="x")


# -------------------------------------------------------------- documents


def test_docstrings():
    """Each public name has an example, which runs."""
    names = set(dlbuf.zenoh.__all__) - {"ENCODING"}
    finder = doctest.DocTestFinder(exclude_empty=False)
    tests = {t.name.removeprefix("dlbuf.zenoh."): t for t in finder.find(
        dlbuf.zenoh, globs={"dlbuf": dlbuf, "zenoh": zenoh}) if t.name != "dlbuf.zenoh"}
    bare = {n for n, t in tests.items() if n.split(".")[0] in names and not t.examples and
            not any(w.startswith("_") for w in n.split("."))}
    assert names <= set(tests) and not bare, bare
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for t in tests.values():
        # A member that a parent has is that one's.
        runner.run(t)
    assert runner.failures == 0 and runner.tries > 20
