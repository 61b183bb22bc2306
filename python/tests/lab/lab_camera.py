# SPDX-License-Identifier: MIT
"""Camera, on the kernel's virtual one, in each way in which it can end."""

import contextlib
import copy
import errno
import gc
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np

import dlbuf
from dlbuf import Access, Clock, CodeSpace, Field, Order, View

from labtools import Skip, asleep, case, fds, interrupted, maps, raises


def nodes():
    found = []
    for path in glob.glob("/sys/class/video4linux/video*/name"):
        with open(path) as f:
            if re.fullmatch(r"vivid-\d+-vid-cap", f.read().strip()):
                found.append("/dev/" + path.split("/")[-2])
    return sorted(found)


def control(node, *args):
    subprocess.run(["v4l2-ctl", "-d", node, *args], check=True,
                   capture_output=True)


def vivid():
    """The first one, as it is by itself but for the text in its picture."""
    found = nodes()
    if not found:
        raise Skip("there is no vivid camera")
    control(found[0], "-i", "0", "-c", "test_pattern=0,osd_text_mode=2")
    return found[0]


@contextlib.contextmanager
def vivids(*options):
    """The driver, loaded with other options."""
    if os.environ.get("DLBUF_LAB") != "1":
        raise Skip("this is no guest: its drivers stay as they are")
    vivid()

    def load(*options):
        subprocess.run(["modprobe", "-r", "vivid"], check=True)
        subprocess.run(["modprobe", "vivid", *options], check=True)
        while not nodes() or not all(map(os.path.exists, nodes())):
            os.sched_yield()

    load(*options)
    try:
        yield nodes()
    finally:
        load()


def read(node, size, code):
    """A frame by the driver's own mmap API, without dlbuf."""
    with tempfile.NamedTemporaryFile() as f:
        control(node, f"--set-fmt-video=width={size[0]},height={size[1]},"
                f"pixelformat={code}", "--stream-mmap", "--stream-count=1",
                "--stream-to=" + f.name)
        return f.read()


def camera(**options):
    options.setdefault("format", "NV12")
    options.setdefault("size", (320, 180))
    options.setdefault("timeout", 600)  # for what is certain to come
    return dlbuf.Camera(vivid(), **options)


def settle(cam, held=0):
    """Until so many buffers are out: a lease may be another thread's."""
    gc.collect()
    while cam.held != held:
        os.sched_yield()


# ------------------------------------------------------------------ frames

def whole(frame):
    """All that is in a frame's dma-bufs, plane by plane."""
    return b"".join(
        memoryview(dlbuf.from_fd(p.fd, p.bytes, "uint8", offset=p.offset,
                                 access="read")).tobytes()
        for p in frame.info.planes)


@case
def what_a_frame_is_not():
    """Names that mean something else, and arrays that cannot be."""
    with camera() as cam:
        frame = next(cam)
        y, uv = frame
        for name in "index", "count":
            raises(AttributeError, lambda: getattr(frame, name), "frame.sequence")
        raises(TypeError, lambda: copy.copy(frame), "cannot be copied")
        raises(TypeError, lambda: copy.deepcopy(frame), "cannot be")
        e = raises(ValueError, lambda: y.release(), "not acquired")
        assert "release() of the TensorFrame" in str(e), e
        with y:
            pass
        raises(ValueError, y[1:].release, "release() of the TensorFrame")
        raises(ValueError, dlbuf.alloc(1, "uint8").release, "close() gives up")
        e = raises(BufferError, lambda: np.asarray(frame), "frame of NV12")
        assert "np.asarray(frame[0])" in str(e) and 'view="stacked"' in str(e)
        assert y.device == "cpu" and y.dtype == np.uint8 and y.access == "rw"
        frame.release()
        raises(ValueError, lambda: np.asarray(frame), "released")
    for view in "luma", "stacked":
        with camera(view=view) as cam, next(cam) as frame:
            a = np.asarray(frame)
            assert a.shape == (1, *frame[0].shape) and not np.shares_memory(
                a, np.asarray(frame[0]))
            assert np.asarray(frame, "f4").dtype == np.float32
            raises(ValueError, lambda: frame.__array__(copy=False), "a copy")


@case
def camera_frames():
    """Three formats; the pixels are those that the driver's own API reads."""
    node = vivid()
    for code, shapes in (("NV12", [(360, 640), (180, 320, 2)]),
                         ("YUYV", [(360, 320, 4)]), ("RGB3", [(360, 640, 3)]),
                         ("GREY", [(360, 640)])):
        want = read(node, (640, 360), code)
        with dlbuf.Camera(node, format=code, size=(640, 360)) as cam:
            assert (cam.size, cam.buffers) == ((640, 360), 4), cam
            assert cam.driver == "vivid" and cam.fps and not cam.closed
            for n, frame in enumerate(cam):
                assert [t.shape for t in frame] == shapes
                got = b"".join(np.from_dlpack(t).tobytes() for t in frame)
                assert got == want == whole(frame), code
                assert len(set(got)) > 1, "not a picture"
                if n == 5:
                    break


@case
def camera_says():
    """The data of a frame, and of each tensor of it."""
    with camera(access="read") as cam:
        sequences, times = [], []
        for _, frame in zip(range(4), cam):
            y, uv = frame
            info = frame.info
            assert y.frame is uv.frame is info
            assert (info.width, info.height) == cam.size == (320, 180)
            assert (info.format, info.space) == ("NV12", CodeSpace.V4L2)
            assert info.channels == "Y,UV" and info.view == View.PLANES
            assert info.clock == Clock.MONOTONIC
            assert info.order == Order.COMPLETE and not info.damaged
            assert frame.timestamp == info.timestamp_ns / 1e9 > 0
            assert info.field == Field.NONE and info.colour.matrix
            assert y.read_only and y.access == Access.READ
            assert y.path == "direct" and not y.is_copied
            sequences.append(frame.sequence)
            times.append(info.timestamp_ns)
        assert sequences == sorted(sequences)
        assert times == sorted(set(times))
        assert "NV12 320x180" in repr(cam) and "NV12 320x180" in repr(frame)
    for view, shape in (("luma", (180, 320)), ("rows", (180, 320)),
                        ("stacked", (270, 320))):
        with camera(view=view) as cam:
            assert next(cam)[0].shape == shape, view
    with camera(format="RGB565", size=(320, 180)) as cam:
        t, = next(cam)
        assert cam.view == View.WORDS and t.dtype == "uint16"


@case
def camera_refuses():
    with camera(view="cfa") as cam:
        # Refused frame by frame; none is lost for that.
        for _ in range(6):
            raises(BufferError, lambda: next(cam), "no view")
        assert cam.held == 0


# ------------------------------------------------------------------ leases

@case
def camera_lease():
    with camera(buffers=4) as cam:
        n = cam.buffers
        frames = [next(cam) for _ in range(n)]
        assert cam.held == n
        y, uv = frames.pop()
        del y
        assert cam.held == n
        del uv
        assert cam.held == n - 1
        # What was made of it counts; an explicit release does not cut it off.
        luma = np.from_dlpack(frames[0][0])
        before = luma.tobytes()
        frames[0].release()
        frames[0].release()
        assert cam.held == n - 1 and luma.tobytes() == before
        raises(ValueError, lambda: frames[0][0].shape, "closed")
        del luma
        assert cam.held == n - 2
        with frames[1] as (y, uv):
            assert y.shape == (180, 320)
        assert cam.held == n - 3 and y.closed
        frames.clear()
        settle(cam)


@case
def camera_all_held():
    """Then there is no next frame, which is reported; or another holder releases one."""
    with camera(buffers=2) as cam:
        frames = [next(cam) for _ in range(cam.buffers)]
        cam.timeout = 0.3
        e = raises(TimeoutError, lambda: next(cam), "holds all of its")
        assert isinstance(e, dlbuf.DeadlineError)
        cam.timeout = None
        frames.pop().release()
        frames.append(next(cam))
        got = []
        thread = threading.Thread(target=lambda: got.append(next(cam)))
        thread.start()
        asleep(thread.native_id)
        assert not got
        frames.pop().release()
        thread.join()
        assert len(got) == 1
        # In a loop the last frame is held while the next one is waited for.
        got.clear()
        frames.clear()
        cam.timeout = 600
        for _, frame in zip(range(6), cam):
            assert cam.held <= 2


@case
def camera_calls_let_the_gil_go():
    """Each ioctl of a camera stays in the kernel until another thread of Python has allowed it."""
    code = """
import ctypes, fcntl, os, platform, struct, sys, threading, dlbuf

QBUF, DQBUF = 0xc058560f, 0xc0585611
seccomp, ioctl = {"x86_64": (317, 16), "aarch64": (277, 29)}[platform.machine()]
seen = []
cam = dlbuf.Camera(sys.argv[1], format="NV12", size=(320, 180), buffers=4, drop=True)
cam.device          # whose threads have no filter

def allow(fd):
    while True:
        call = bytearray(80)
        fcntl.ioctl(fd, 0xc0502100, call)
        seen.append(struct.unpack_from("<Q", call, 40)[0])
        fcntl.ioctl(fd, 0xc0182101, struct.pack("<QqiI", *struct.unpack_from("<Q", call), 0, 0, 1))

# SECCOMP_RET_USER_NOTIF for these two requests.
words = [(0x20, 0, 0, 0), (0x15, 0, 4, ioctl), (0x20, 0, 0, 24), (0x15, 1, 0, QBUF),
         (0x15, 0, 1, DQBUF), (6, 0, 0, 0x7fc00000), (6, 0, 0, 0x7fff0000)]
program = b"".join(struct.pack("<HBBI", *w) for w in words)
room = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
fprog = ctypes.create_string_buffer(struct.pack("<H6xQ", len(words), ctypes.addressof(room)))
fd = libc.syscall(seccomp, 1, 8, fprog)
assert fd >= 0, os.strerror(ctypes.get_errno())
threading.Thread(target=allow, args=(fd,), daemon=True).start()
for _ in range(8):
    frame = next(cam)
    frame.release()
assert {QBUF, DQBUF} == set(seen), seen
os._exit(5)
"""
    try:
        p = subprocess.run([sys.executable, "-c", code, vivid()], capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        raise AssertionError("a call of the camera holds the GIL") from None
    assert p.returncode == 5, p


@case
def frames_outlive_the_camera():
    want = read(vivid(), (320, 180), "NV12")
    shared_trim()
    before = fds()
    cam = camera()
    frames = [next(cam) for _ in range(3)]
    arrays = [np.from_dlpack(frames[0][0])]
    cam.close()
    cam.close()
    assert cam.closed and cam.held == 3
    assert list(cam) == []
    # Another one on the same node, while those of the first are out.
    with camera() as other:
        new = [next(other) for _ in range(3)]
        for frame in frames + new:
            assert whole(frame) == want
        del frame, new
    del other
    frames.clear()
    assert arrays[0].tobytes() == want[:320 * 180]
    arrays.clear()
    gc.collect()
    assert cam.held == 0
    del cam
    shared_trim()
    assert fds() == before, (fds(), before)


def shared_trim():
    """Of the device that "cpu" is: imports of buffers that were out."""
    dlbuf.alloc(1, "uint8").device.trim()


@case
def left_in_the_middle():
    gc.collect()
    shared_trim()
    before = fds(), maps()

    def some(n):
        for i, frame in enumerate(camera()):
            if i == n:
                return frame.sequence

    def generator():
        with camera() as cam:
            yield from cam

    some(3)
    g = generator()
    next(g)
    g.close()
    try:
        with camera() as cam:
            for frame in cam:
                1 / 0
    except ZeroDivisionError:
        pass
    del cam, frame, g
    gc.collect()
    shared_trim()
    assert (fds(), maps()) == before
    with camera() as cam:
        next(cam)


@case
def closed_by_another_thread():
    """close() ends the iteration of threads that wait for a frame."""
    with camera(buffers=2, timeout=None) as cam:
        held = [next(cam) for _ in range(cam.buffers)]
        ended = []
        threads = [threading.Thread(target=lambda: ended.append(list(cam)))
                   for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            asleep(t.native_id)
        cam.close()
        for t in threads:
            t.join()
        assert ended == [[], []] and len(held) == 2


@case
def control_c():
    with camera(buffers=2, timeout=None) as cam:
        held = [next(cam) for _ in range(cam.buffers)]
        interrupted(lambda: next(cam))
        main, ident = threading.get_native_id(), threading.get_ident()
        # A signal whose handler returns interrupts nothing.
        seen = []
        old = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))

        def nudge():
            asleep(main)
            signal.pthread_kill(ident, signal.SIGUSR1)
            while not seen:
                os.sched_yield()
            held.pop().release()

        thread = threading.Thread(target=nudge)
        thread.start()
        assert len(next(cam)) == 2
        thread.join()
        signal.signal(signal.SIGUSR1, old)
        held.clear()


@case
def forked():
    """The camera is the parent's, with any call of a child."""
    with camera(buffers=4) as cam:
        frames = [next(cam) for _ in range(3)]
        want = whole(frames[0])
        seen = np.asarray(frames[0][0])
        controls = cam.controls
        pid = os.fork()
        if not pid:
            code = 1
            try:
                e = raises(dlbuf.Error, lambda: next(cam), "the process that")
                assert e.errno == errno.ESTALE
                e = raises(dlbuf.Error, frames[0][0].acquire, "the process that")
                assert e.errno == errno.ESTALE
                e = raises(dlbuf.Error, cam.fileno, "the process that")
                assert e.errno == errno.ESTALE
                for use in (lambda: cam.formats, lambda: cam.controls.brightness,
                            lambda: controls.brightness,
                            lambda: controls.__setitem__("brightness", 77)):
                    e = raises(dlbuf.Error, use, "the process that opened it")
                    assert e.errno == errno.ESTALE
                assert seen.tobytes() == want[:320 * 180]
                t = dlbuf.alloc((16,), "uint8")
                assert np.from_dlpack(t).sum() == 0
                frames[0].release()
                frames.clear()
                cam.close()
                assert cam.closed
                del cam
                gc.collect()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0) == (pid, 0)
        assert cam.held == 3
        for _ in range(8):
            next(cam).release()
        assert whole(frames[0]) == want
        del seen
        frames.clear()
        settle(cam)


@case
def forked_while_another_waits():
    """A child's close() closes its fds, during any calls of the parent's threads."""
    with camera(buffers=2, timeout=None) as cam:
        held = [next(cam) for _ in range(cam.buffers)]
        thread = threading.Thread(target=lambda: held.append(next(cam)))
        thread.start()
        asleep(thread.native_id)
        pid = os.fork()
        if not pid:
            left = True
            try:
                cam.close()
                left = cam.node in map(os.path.realpath,
                                       glob.glob("/proc/self/fd/*"))
            finally:
                os._exit(left)
        assert os.waitpid(pid, 0) == (pid, 0)
        held.pop().release()
        thread.join()
        held.clear()


@case
def exits_with_frames():
    """The interpreter's end finds frames, and threads that wait for some."""
    code = f"""
import dlbuf, threading, numpy as np
cam = dlbuf.Camera("{vivid()}", format="NV12", size=(320, 180))
keep = [next(cam), np.from_dlpack(next(cam)[0])]
def forever():
    for frame in cam: pass
threading.Thread(target=forever, daemon=True).start()
for _ in range(3): next(cam)
"""
    for _ in range(2):
        p = subprocess.run([sys.executable, "-c", code], capture_output=True)
        assert p.returncode == 0 and not p.stderr, p
    with camera() as cam:
        next(cam)
