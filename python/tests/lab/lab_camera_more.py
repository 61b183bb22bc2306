# SPDX-License-Identifier: MIT
"""Finding cameras, their controls and formats, asyncio, and python -m dlbuf."""

import asyncio
import errno
import fcntl
import gc
import json
import os
import pickle
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import zlib

import numpy as np

import dlbuf.__main__
from dlbuf import Access, ControlFlag, _camera

from lab_camera import (camera, control, read, settle, shared_trim, vivid,
                        vivids, whole)
from calls import python_calls
from interop._memory import Versioned, py
from labtools import Skip, case, fds, raises


def v4l2_ctl(node, *args):
    return subprocess.run(["v4l2-ctl", "-d", node, *args], check=True,
                          capture_output=True, text=True).stdout


def as_nobody(code):
    """Python's output as a user who may open no device."""
    p = subprocess.run([sys.executable, "-c", code], capture_output=True,
                       text=True, user=65534, group=65534, extra_groups=[])
    if "PermissionError" in p.stderr or "ModuleNotFoundError" in p.stderr:
        raise Skip("another user cannot read the package")
    assert p.returncode == 0 and not p.stderr, p
    return p.stdout.splitlines()


# ------------------------------------------------------------------ no EXPBUF

# The kernel refuses VIDIOC_EXPBUF to this process, as drivers do that do not have it: a
# filter over an ioctl's number (args[1] is at 24, and its other half is 0).
WITHOUT_EXPBUF = """
import ctypes, errno, struct, sys
import dlbuf
from dlbuf import _v4l2
number = _v4l2._number(_v4l2._READ | _v4l2._WRITE, 16, "@5I11I")
code = struct.pack("@" + "HBBI" * 4, 0x20, 0, 0, 24 + 4 * (sys.byteorder == "big"), 0x15, 0, 1, number,
                   0x06, 0, 0, 0x00050000 | errno.ENOTTY, 0x06, 0, 0, 0x7FFF0000)
room = ctypes.create_string_buffer(code)
program = struct.pack("@HP", 4, ctypes.addressof(room))
libc = ctypes.CDLL(None, use_errno=True)
assert not libc.prctl(38, 1, 0, 0, 0)                     # PR_SET_NO_NEW_PRIVS
assert not libc.prctl(22, 2, program, 0, 0), ctypes.get_errno()     # PR_SET_SECCOMP
"""


@case
def a_camera_that_cannot_export():
    """The error names an alternative, and it works."""
    code = WITHOUT_EXPBUF + '''
node, options = sys.argv[1], {"format": "NV12", "size": (320, 180), "timeout": 600}
try:
    dlbuf.Camera(node, **options)
except dlbuf.UnsupportedError as e:
    print(e.strerror)
for exporter in "udmabuf", "heap:system":
    with dlbuf.Camera(node, exporter=exporter, **options) as camera:
        for _ in range(2 * camera.buffers):
            with next(camera) as (y, uv):
                assert (y.shape, uv.shape, y.read_only) == ((180, 320), (90, 160, 2), False)
                assert len(set(y.tobytes())) > 4
        assert camera.exporter == exporter
import dlbuf.__main__
for more in [], ["-e", "udmabuf"]:
    sys.argv[1:] = ["camera", node, "-f", "NV12", "-n", "2", *more]
    print(dlbuf.__main__.main())
'''
    p = subprocess.run([sys.executable, "-c", code, vivid()], capture_output=True, text=True)
    lines = p.stdout.splitlines()
    assert p.returncode == 0, p
    assert re.search(r'VIDIOC_EXPBUF.*: try exporter="udmabuf"$', lines[0]), p
    assert lines[1] == "4" and lines[-1] == "0" and "2 frames" in lines[-2], p
    assert re.fullmatch("python -m dlbuf: .*EXPBUF.*: try --exporter udmabuf\n", p.stderr), p
    e = raises(dlbuf.InvalidError, lambda: camera(exporter="nonesuch"))
    assert "nonesuch" in str(e)


# ------------------------------------------------------------------ which ones

@case
def cameras_are_listed():
    with vivids("n_devs=2", "multiplanar=1,2") as found:
        before = fds()
        listed = dlbuf.cameras()
        assert [c.node for c in listed] == found, listed
        assert fds() == before
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        try:
            e = raises(dlbuf.Error, dlbuf.cameras, "Too many open files")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert e.errno == errno.EMFILE
        for i, c in enumerate(listed):
            assert (c.card, c.driver, c.status) == ("vivid", "vivid", 0), c
            assert c.bus == f"platform:vivid-{i:03}"
            assert c.name == f"vivid-{i:03}-vid-cap"
        for by in (found[1], int(found[1][10:]), listed[1].bus, listed[1].name,
                   "vivid-001", "VIVID-001-VID", np.int64(found[1][10:])):
            with dlbuf.Camera(by) as cam:
                assert (cam.node, cam.bus) == (found[1], listed[1].bus), by
        e = raises(ValueError, lambda: dlbuf.Camera("vivid"), "2 cameras are")
        assert all(c.node in str(e) and c.bus in str(e) for c in listed), e
        # The other half of the API, while it captures, too.
        for c in listed:
            control(c.node, "-i", "0")
        with dlbuf.Camera(found[1], format="I420", size="640x360") as cam:
            assert cam.formats == listed[1].formats
            names = [f.name for f in cam.formats]
            assert "YUV420" in names and "YUV420M" in names
            assert cam.format == "YUV420", cam
        # Planes in dma-bufs of their own are what only the other code has.
        with dlbuf.Camera(found[1], format="yuv444p", size="640x360") as cam:
            assert cam.format == "YUV444M" and len(next(cam)) == 3
        raises(dlbuf.UnsupportedError,
               lambda: dlbuf.Camera(found[1], format="P012"), "P012; it has")
        # A node that has only the second code of a format: vivid has both.
        codes = [int.from_bytes(c, "little") for c in (b"P012", b"NM12")]
        _camera._codes, real = lambda format: codes, _camera._codes
        try:
            with dlbuf.Camera(found[1], format="NV12") as cam:
                assert cam.format == "NV12M" and len(next(cam)) == 2
        finally:
            _camera._codes = real


@case
def camera_formats():
    """Those that v4l2-ctl lists, with sizes and rates, also of a range."""
    node = vivid()
    for number in "0", "3":
        control(node, "-i", number)
        said = v4l2_ctl(node, "--list-formats-ext")
        got = next(c for c in dlbuf.cameras() if c.node == node).formats
        letters = [f.code.to_bytes(4, "little") for f in got]
        letters = [bytes([*c[:3], c[3] & 127]).decode() for c in letters]
        assert letters == re.findall(r"\]: '(.{4})", said), letters
        for f, text in zip(got, re.split(r"\]: '", said)[1:]):
            if number == "0":
                sizes = re.findall(r"Discrete (\d+x\d+)", text)
                assert [str(s) for s in f.sizes] == sizes, f
                rates = re.findall(r"\((.*?) fps\)", text)
                assert sum(len(s.fps) for s in f.sizes) == len(rates), f
                assert sorted(map(float, rates)) == sorted(
                    round(r, 3) for s in f.sizes for r in s.fps)
            else:
                m = re.search(r"Stepwise (\S+) - (\S+) with step (\d+)", text)
                assert m, text
                low, high, step = m.groups()
                size, = f.sizes
                assert str(size) == f"{low}..{high}", size
                assert size.step_width == size.step_height == int(step)
    assert got[0].name == "YUYV" and not got[0].compressed


@case
def cameras_say_why():
    """Error texts for wrong arguments."""
    node, none = vivid(), "/dev/video77"
    for fails, kind, words in (
            (lambda: dlbuf.Camera(77), dlbuf.Error,
             f"{none}: there is no such camera"),
            (lambda: dlbuf.Camera(none), dlbuf.Error, f"has {node} (vivid, "),
            (lambda: dlbuf.Camera("nonesuch"), dlbuf.Error,
             f"no camera 'nonesuch'; this machine has {node} (vivid, "),
            (lambda: dlbuf.Camera(node, crop=(0, 0, 641, 2), size="640x360"),
             ValueError, "of 641x2 pixels at 0,0 is not inside the picture of "
             "640x360"),
            (lambda: dlbuf.Camera(node, crop=(1, 0, 2, 2), format="NV12"),
             BufferError, "inside a sample of plane 1"),
            (lambda: dlbuf.Camera(node, format="MJPG"), BufferError,
             "does not capture in MJPG; it has")):
        before = fds()
        assert words in str(raises(kind, fails))
        gc.collect()
        assert fds() == before
    told = as_nobody(f"""
import dlbuf
for c in dlbuf.cameras():
    print(c.node, c.status, c.card == c.bus == "", c.reason)
try:
    dlbuf.Camera({node!r})
except PermissionError as e:
    print(type(e).__name__, e.strerror)
""")
    assert told[0].startswith(f"{node} {errno.EACCES} True {node} cannot be "
                              "opened: Permission denied; "), told
    assert told[-1].startswith(f"AccessError {node} cannot be opened: ")
    assert "may open it (crw" in told[0] and "may open it" in told[-1]


# ------------------------------------------------------------------ controls

@case
def camera_controls():
    node = vivid()
    said = v4l2_ctl(node, "-L")
    with camera() as cam:
        controls = cam.controls
        wanted = {n: (int(i, 16), t) for n, i, t in re.findall(
            r"^ *(\w+) (0x\w+) \((\w+) *\) *:(?!.*dims)", said, re.M)
            if t not in ("unknown", "area", "rect", "u8", "u16", "u32")}
        assert {n: (controls.info(n).id, controls.info(n).type)
                for n in controls} == wanted
        assert len(controls) == len(wanted) and "hue" in controls
        assert "brightness" in dir(controls) and "hue" in repr(controls)
        info = controls.info("brightness")
        assert info[2:7] == ("int", 0, 255, 1, 128)
        assert info.flags == ControlFlag.SLIDER
        # Each type, set by item and by attribute, and read by v4l2-ctl.
        for name, value, text in (
                ("brightness", 99, "99"), ("hue", np.int8(-7), "-7"),
                ("mute", True, "1"), ("mute", False, "0"),
                ("menu", 4, "4 (Menu Item 4)"),
                ("menu", "menu item 1", "1 (Menu Item 1)"),
                ("integer_menu", 5, "5 (8 0x8)"),
                ("integer_menu", "42", "8 (42 0x2a)"),
                ("integer_64_bits", -1 << 63, str(-1 << 63)),
                ("integer_32_bits", -1 << 31, str(-1 << 31)),
                ("bitmask", 0x80402010, str(0x80402010 - (1 << 32))),
                ("string", "abc", "'abc'"), ("string", "de", "'de'")):
            controls[name] = value
            got = v4l2_ctl(node, "-C", name).strip()
            assert got == f"{name}: {text}", (got, text)
            if not (isinstance(value, str) and "menu" in name):
                assert controls[name] == value, controls[name]
            setattr(controls, name, controls.info(name).default
                    if name != "string" else "  ")
        assert controls.menu == 3 and controls.mute is False
        assert controls.info("integer_menu").menu[8] == 42
        assert controls["button"] is None
        controls.button = True
        for name, bad, words in (
                ("brightness", 256, "brightness is 0 to 255, not 256"),
                ("brightness", "x", "brightness is 0 to 255, not 'x'"),
                ("brightness", 1.5, "0 to 255, not 1.5"),
                ("hue", -129, "hue is -128 to 128, not -129"),
                ("mute", 2, "mute is True or False, not 2"),
                ("menu", 2, "menu is one of 1 (Menu Item 1), 3 (Menu "),
                ("menu", "none", "not 'none'"),
                ("bitmask", 1, "a set of the bits 0x80402010, not 1"),
                ("string", "a", "a str of 2 to 4 bytes, not 'a'"),
                ("string", "abcde", "a str of 2 to 4 bytes"),
                ("string", 5, "a str of 2 to 4 bytes"),
                ("button", False, "a button: True presses it, not False")):
            raises(ValueError, lambda: controls.__setitem__(name, bad), words)
        raises(PermissionError, lambda: controls.__setitem__(
            "read_only_integer_32_bits", 1), "read-only")
        e = raises(dlbuf.Error, lambda: controls.__setitem__(
            "enable_capture_scaler", False), "while the camera streams")
        assert e.errno == errno.EBUSY
        raises(KeyError, lambda: controls["brightnes"], "near it: brightness")
        raises(AttributeError, lambda: controls.contrst, "near it: contrast")
        raises(AttributeError, lambda: setattr(controls, "nonesuch", 1),
               f"{node} has no control 'nonesuch'")
        assert dict(controls)["contrast"] == 128
    raises(dlbuf.ClosedError, lambda: controls["hue"], "is closed")
    raises(dlbuf.ClosedError, lambda: cam.formats, "is closed")
    assert "closed" in repr(controls)
    del cam, controls


# ------------------------------------------------------------------ frames

@case
def camera_crop():
    """A part of the picture; of what the driver writes, where that is a part."""
    want = np.frombuffer(read(vivid(), (640, 360), "NV12"), np.uint8)
    want = want.reshape(540, 640)
    with camera(size="640x360", crop=(32, 16, 200, 100)) as cam:
        assert cam.size == (640, 360) and cam.crop == (32, 16, 200, 100)
        y, uv = next(cam)
        assert y.frame.crop == cam.crop
        assert np.array_equal(np.from_dlpack(y), want[16:116, 32:232])
        assert np.array_equal(np.from_dlpack(uv).reshape(50, 200),
                              want[368:418, 32:232])
        del y, uv
        settle(cam)
    node = vivid()
    control(node, "-i", "3")
    control(node, "--set-fmt-video=width=640,height=360,pixelformat=NV12")
    control(node, "--set-selection=target=compose,left=64,top=32,width=320,"
            "height=180,flags=0")
    with dlbuf.Camera(node, view="luma") as cam:
        whole, = next(cam)
        assert whole.frame.crop == (64, 32, 320, 180)
        part = np.from_dlpack(whole)[40:100, 100:300].tobytes()
        del whole
    with dlbuf.Camera(node, crop=(100, 40, 200, 60)) as cam:
        y, _ = next(cam)
        assert y.frame.crop == (164, 72, 200, 60)
        assert np.from_dlpack(y).tobytes() == part
        del y, _
    raises(ValueError, lambda: dlbuf.Camera(node, crop=(0, 0, 321, 180)),
           "not inside the picture of 320x180")


def ready(cam, n):
    """Waits until n buffers have frames; the time of the newest in seconds."""
    while True:
        times = []
        for i in range(cam.buffers):
            buf = bytearray(88)
            struct.pack_into("II", buf, 0, i, 1)
            fcntl.ioctl(cam.fileno(), 0xC0585609, buf)
            if struct.unpack_from("I", buf, 12)[0] & 4:
                seconds, us = struct.unpack_from("qq", buf, 24)
                times.append(seconds + us / 1e6)
        if len(times) >= n:
            return max(times)
        os.sched_yield()


@case
def camera_drop():
    with camera() as cam:
        newest = ready(cam, cam.buffers)
        assert next(cam).timestamp < newest and cam.dropped == 0
    with camera(drop=True) as cam:
        newest = ready(cam, cam.buffers)
        frame = next(cam)
        assert frame.timestamp > newest - 1e-6, (frame.timestamp, newest)
        assert cam.dropped >= cam.buffers - 1 and cam.held == 1
        for _ in range(12):
            last, frame = frame, next(cam)
            assert frame.timestamp > last.timestamp
        del last, frame
        settle(cam)
        # None is lost to it where all but one are held.
        held = [next(cam) for _ in range(cam.buffers - 1)]
        count = cam.dropped
        held.append(next(cam))
        assert cam.dropped >= count and cam.held == cam.buffers
        held.clear()


@case
def camera_poll():
    with camera() as cam:
        p = select.poll()
        p.register(cam, select.POLLIN)
        for _ in range(3):
            assert p.poll() == [(cam.fileno(), select.POLLIN)]
            cam.timeout = 0
            next(cam).release()
        number = cam.fileno()
        cam.close()
        assert cam.fileno() == number
        assert select.select([cam], [], [], 0)[0] == [cam]
        assert list(cam) == []


@case
def frame_planes():
    with camera() as cam:
        frame = next(cam)
        want = whole(frame)
        with frame.planes("read") as (y, uv):
            assert y.acquired == uv.acquired == Access.READ
            assert not frame[0].acquired and y.frame is frame.info
            assert not frame[0].read_only
            for t in y, uv, y[1:], y.share(), dlbuf.from_dlpack(y):
                assert t.read_only and not t.numpy().flags.writeable
                assert not np.from_dlpack(t).flags.writeable
            with y[1:] as part:
                assert part.acquired == Access.READ
            part = y.to("cpu")
            assert part.read_only and part.access == Access.READ
            del t, part
            # Acquired together: one access, whose fence is the last one's.
            e = raises(dlbuf.Error, lambda: y.release(fence=True), "together")
            assert e.errno == errno.EBUSY
            with frame.planes() as other:
                assert other[0].acquired == Access.RW and not other[0].read_only
            # It keeps the lease.
            frame.release()
            assert cam.held == 1
            a = np.asarray(y)
            assert a.tobytes() + np.asarray(uv).tobytes() == want
        assert y.closed and uv.closed and cam.held == 1
        assert a.tobytes() == want[:320 * 180]
        del a
        assert cam.held == 0
        for use in (frame.planes().__enter__, lambda: tuple(frame),
                    lambda: [(p, q) for p, q in [frame]]):
            raises(ValueError, use, "the frame was released")
        with next(cam) as frame:
            with frame.planes("write") as (y, uv):
                np.asarray(y)[...] = 7
                y.close()
                uv.release()
            assert (np.from_dlpack(frame[0]) == 7).all()
            raises(ValueError, frame.planes("nonesuch").__enter__, "access is")
            try:
                with frame.planes() as (y, uv):
                    1 / 0
            except ZeroDivisionError:
                assert y.closed
        settle(cam)


@case
def read_planes():
    """With every spelling of read access, every view, device and access of the frame."""
    for device in "cpu", "vulkan:0":
        for view in "planes", "luma", "components", "stacked", "bytes":
            for own in None, "rw", "read":
                with camera(device=device, view=view, access=own) as cam, next(cam) as frame:
                    for access in "read", "r", Access.READ, 1:
                        with frame.planes(access) as planes:
                            assert all(t.read_only and t[:1].read_only for t in planes)
                            assert all(versioned(t).flags == 1 for t in planes)
                    with frame.planes() as planes:
                        assert all(t.read_only == (own == "read") for t in planes)


def versioned(tensor):
    return Versioned.from_address(py.PyCapsule_GetPointer(
        tensor.__dlpack__(max_version=(1, 3)), b"dltensor_versioned"))


# ------------------------------------------------------------------ asyncio

async def waiting(cam, n=1):
    """Until n tasks of this loop wait for the camera."""
    while len(cam._waiters.get(asyncio.get_running_loop(), ())) != n:
        await asyncio.sleep(0)


@case
def frame_prepare():
    """A camera's frame is prepared as its planes are, and gives its buffer back."""
    with camera(format="NV12", size=(320, 180), crop=(16, 8, 160, 120)) as cam:
        p = dlbuf.Preparer("yolo", size=64)
        batch = dlbuf.alloc((2, 3, 64, 64), "float32")
        with next(cam) as frame:
            y, uv = [t.numpy().copy() for t in frame]
            colour = frame.info.colour
            assert p(frame, out=batch, index=1)[0] is batch
            got, info = p(frame)
            # Planes that the program has acquired are not acquired again.
            with frame.planes("read") as planes:
                same, _ = p(planes)
            there, _ = p([t.to("vulkan:0") for t in frame])
        assert cam.held == 0
        want, _ = p((y, uv), format="NV12") if colour == dlbuf.Colour() else \
            dlbuf.prepare((y, uv), "yolo", size=64, format="NV12", colour=colour)
        for x in (got.numpy()[0], same.numpy()[0], there.numpy()[0], batch.numpy()[1]):
            assert np.array_equal(x, want.numpy()[0])
        assert not batch.numpy()[0].any()
        assert info.map_to_frame((0, 8, 64, 56)) == (0, 0, 160, 120), info
        frame = next(cam)
        frame.release()
        raises(dlbuf.InvalidError, lambda: p(frame), "was released")
        with next(cam) as frame, dlbuf.alloc((3, 64, 64), "float32") as out:
            read_only = dlbuf.from_fd(out.fd, out.shape, "float32", access="read")
            raises(dlbuf.AccessError, lambda: p(frame, out=read_only), "read-only")
    with camera(format="NV12", size=(320, 180), view="luma") as cam:
        with next(cam) as frame:
            raises(dlbuf.InvalidError, lambda: p(frame), "the view 'luma'")
        assert cam.held == 0


@case
def camera_frames_differ_in_count_and_time():
    """All else is of the stream, and not computed again for each."""
    p = dlbuf.Preparer(size=8)
    for options in {}, {"crop": (16, 8, 160, 120), "view": "luma"}:
        with camera(**options) as cam:
            last, known = next(cam).info, {}
            for _ in range(3 * cam.buffers):
                with next(cam) as frame:
                    info = frame.info
                    assert info.sequence > last.sequence
                    assert info.timestamp_ns > last.timestamp_ns
                    assert type(info) is dlbuf.Frame and frame[0].frame is info
                    assert info.crop == cam.crop and info.view == cam.view
                    first = known.setdefault(info.planes, info)
                    assert info == first._replace(sequence=info.sequence,
                                                  timestamp_ns=info.timestamp_ns)
                    last = info
            assert len(known) <= cam.buffers
            assert (n := python_calls(lambda: next(cam))) <= 6, n
            if not options:
                frame = next(cam)
                for call, most in (lambda: p(frame), 10), (frame[0].numpy, 4):
                    call()
                    assert (n := python_calls(call)) <= most, n


@case
def frame_prepare_of_a_crop():
    """A crop may be any sequence."""
    t = dlbuf.alloc((16, 16), "uint8")
    with t:
        t.numpy()[:] = np.arange(256).reshape(16, 16)
    for kind in tuple, list:
        x, info = dlbuf.prepare(dlbuf.from_frame([(t.fd, 16)], 16, 16, "GREY",
                                                 crop=kind((4, 2, 8, 8))),
                                size=8, dtype="uint8", channels="grey",
                                colour=dlbuf.Colour(range=2))
        assert np.array_equal(x.numpy()[0, 0], t.numpy()[2:10, 4:12]), kind
        assert info.crop == (0, 0, 8, 8)


@case
def frame_prepare_makes_upright():
    """By each orientation, NumPy's turns and flips of the same picture; also sent."""
    rng = np.random.default_rng(1)
    stored = rng.integers(0, 255, (12, 16, 3), np.uint8)
    t = dlbuf.alloc(stored.shape, "uint8")
    with t:
        t.numpy()[:] = stored
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for o in dlbuf.Orientation:
        tensors = dlbuf.from_frame([(t.fd, 48)], 16, 12, "BGR888", space="DRM", orientation=o)
        assert tensors[0].frame.orientation is o and tensors[0].shape == (12, 16, 3)
        want = np.rot90(stored, -(o & 3))
        want = want[:, ::-1] if o & 4 else want
        for turn in range(4):
            x, info = dlbuf.prepare(tensors, longest=16, dtype="uint8", layout="nhwc", turn=turn)
            assert np.array_equal(x.numpy()[0], np.rot90(want, -turn)), (o, turn)
            # The pixel of a corner of the tensor is at a corner of the stored picture.
            u, v = info.map_to_frame((.5, .5))
            assert np.array_equal(stored[int(v), int(u)], x.numpy()[0, 0, 0]), (o, turn, u, v)
        # A rule of a model's file that knows width and height.
        p = dlbuf.Preparer.from_config({"input_size": [3, 8, 8], "crop_pct": .9},
                                       dtype="float32")
        x, y = p(tensors)[0].numpy(), p(np.ascontiguousarray(want), format="RGB")[0].numpy()
        assert np.allclose(x, y, atol=1e-5), o
        dlbuf.send(ours, dlbuf.TensorFrame(tensors, tensors[0].frame))
        with dlbuf.recv_frame(theirs) as frame:
            assert frame.info.orientation is o
    ours.close()
    theirs.close()


AUTO = """
import os, sys, threading, numpy as np, dlbuf
software = dlbuf.Device("gles:software")

def frame():
    whole = dlbuf.alloc(96 * 72, "uint8", ["cpu"])[0]
    np.asarray(whole)[:] = np.arange(96 * 72) * 7
    return dlbuf.from_frame([(whole.fd, 96)], 64, 48, "NV12", space=dlbuf.CodeSpace.V4L2)

def near(a, b):
    assert abs(a.numpy() - b.numpy()).max() <= 2e-5

def tried(p):
    # Whatever the times are.
    timed = {t.device: t.seconds for t in p.trials if t.seconds}
    assert p.trials[0].device == "cpu" and p.device == min(timed, key=timed.get)
    assert all(t.reason for t in p.trials if not t.seconds)
    return timed

def planned(p):
    return sorted(plan.device.name if plan.device else "cpu" for plan, _ in p._plans.values())

planes = frame()
p, q = (dlbuf.Preparer(size=32, device=d) for d in ("auto", "cpu"))
want, info = q(planes)
got, same = p(planes)
assert same == info and got.device.name == "cpu"
near(got, want)
assert software.name in tried(p) and repr(p).endswith(f" on {p.device}>")
before = p.device, p.trials
near(p(planes)[0], want)
assert (p.device, p.trials) == before
assert dlbuf.prepare(planes, size=32, device="auto")[0].device.name == "cpu"
# The threads of one Preparer have one choice.
r = dlbuf.Preparer(size=32, device="auto")
seen = []
threads = [threading.Thread(target=lambda: (r(planes), seen.append(r.trials)))
           for _ in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert len(seen) == 2 and seen[0] is seen[1]
# By its name, and with that choice.
with_gles = dlbuf.Preparer(size=32, device="gles:software")
got, same = with_gles(planes)
assert same == info and got.device.name == software.name
near(got, want)
p._choice = p._choice._replace(device=software, name=software.name)
p._plans.clear()
near(p(planes)[0], want)
assert planned(p) == [software.name]
assert p(planes)[0].device.name == "cpu"
out = dlbuf.alloc((2, 3, 32, 32), "float32")
assert p(planes, out=out, index=1)[0] is out
near(out[1:], want)
tiles = [(0, 0, 32, 24), (32, 24, 32, 24)]
near(p.crops(planes, tiles)[0], q.crops(planes, tiles)[0])
# Memory that it cannot reach, and a format of which it makes no plan.
array = np.zeros((1, 3, 32, 32), "float32")
assert p(planes, out=array)[0] is array
near(dlbuf.from_dlpack(array), want)
assert planned(p) == ["cpu", software.name]
mosaic = dlbuf.alloc((48, 64), "uint8", ["cpu"])
near(p(mosaic, format="SRGGB8")[0], q(mosaic, format="SRGGB8")[0])
# A child chooses for itself: this driver works in none.
pid = os.fork()
if not pid:
    code = 1
    try:
        assert p.device == "auto" and p.trials == ()
        near(p(frame())[0], q(frame())[0])
        assert software.name not in tried(p)
        assert any("fork" in t.reason or "child" in t.reason for t in p.trials), p.trials
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(pid, 0)[1] == 0
"""


WRAPPED = """
import ctypes, pickle, numpy as np, dlbuf
software = dlbuf.Device("gles:software")
egl = ctypes.CDLL("libEGL.so.1")
pointer = ctypes.c_void_p
egl.eglGetProcAddress.restype = pointer
egl.eglInitialize.argtypes = [pointer, pointer, pointer]

def function(name, result, *args):
    return ctypes.CFUNCTYPE(result, *args)(egl.eglGetProcAddress(name))

devices, n = (pointer * 8)(), ctypes.c_int()
function(b"eglQueryDevicesEXT", ctypes.c_uint, ctypes.c_int, pointer, pointer)(
    8, devices, ctypes.addressof(n))
# 0x313F is EGL_PLATFORM_DEVICE_EXT.
display = function(b"eglGetPlatformDisplayEXT", pointer, ctypes.c_uint, pointer, pointer)(
    0x313F, devices[int(software.name.split(":")[1])], None)
assert egl.eglInitialize(display, None, None)
for bad, kind in (0, ValueError), ("0", TypeError):
    try:
        dlbuf.Device.wrap_gles(bad)
        assert False, bad
    except kind:
        pass
with dlbuf.Device.wrap_gles(display) as device:
    assert (device.name, device.info.backend) == (software.name, "gles")
    picture = dlbuf.alloc((8, 8, 3), "uint8", [device])[0]
    np.asarray(picture)[:] = np.arange(192).reshape(8, 8, 3)
    p = dlbuf.Preparer(size=8, layout="nhwc", dtype="uint8", device=device)
    x, _ = p(picture, format="RGB")
    assert x.device is device and (x.numpy()[0] == picture.numpy()).all()
    assert p.device == device.name
    try:
        pickle.dumps(p)
        assert False
    except TypeError as e:
        assert "opened by a handle" in str(e)
    del x, picture, p
"""


# The environment of a process that opens none of these devices, whose drivers are slow to load.
OTHERS = {f"DLBUF_{n}_LIBRARY": "none" for n in
          ("CUDA", "HIP", "LEVELZERO", "OPENCL", "VULKAN")}
CPU_ONLY = {**os.environ, **OTHERS, "DLBUF_GLES_LIBRARY": "none"}


def on_gles(code):
    """Runs Python with llvmpipe, without its threads, and without the guest's other drivers, which
    compile for minutes. EGL's drivers keep files and threads, so it is another process."""
    p = subprocess.run([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=600,
                       env={**os.environ, **OTHERS, "LP_NUM_THREADS": "0",
                            "MESA_SHADER_CACHE_DIR": "/tmp/mesa"})
    if "libEGL.so.1" in p.stdout and "Errno 19" in p.stdout:
        raise Skip("there is no libEGL.so.1")
    assert not p.returncode, p.stdout


@case
def frame_prepare_on_the_fastest():
    on_gles(AUTO)


@case
def gles_wrapped():
    on_gles(WRAPPED)


@case
def frame_prepare_on_a_device():
    """As on the CPU, with the frame, the result or neither of them already there."""
    for name in ["vulkan:0", "opencl:0"]:
        device = dlbuf.Device(name)
        with camera(format="NV12", size=(320, 180)) as cam, next(cam) as frame:
            there = [t.to(device) for t in frame]
            planes = [t.numpy().copy() for t in frame]
            for options in ({"size": 64, "fit": "letterbox", "pad": 114},
                            {"size": (63, 41), "filter": "cubic", "layout": "nhwc",
                             "dtype": "uint8"},
                            {"shortest": 33, "turn": 1, "dtype": "float16"}):
                p, q = dlbuf.Preparer(**options), dlbuf.Preparer(**options, device=device)
                limit = {"uint8": 1, "float16": 1e-3}.get(options.get("dtype"), 2e-5)
                (a, info), (b, same), (c, _) = p(frame), q(frame), q(there)
                assert b.device is c.device is device and info == same
                shape = (2, *a.shape[1:])
                both = dlbuf.alloc(shape, a.dtype, ["cpu", device])
                for out in both:
                    assert q(frame, out=out, index=1)[0] is out
                tiles = [(0, 0, 160, 90), (150.5, 80, 160, 90)]
                assert p.tiles(frame, 90, 8) == q.tiles(there, 90, 8)
                (d, infos), (e, sames) = p.crops(frame, tiles), q.crops(frame, tiles)
                assert infos == sames and e.device is device
                q.crops(there, tiles[1:], out=both[0], index=0)
                want = a.numpy().astype("f4")
                for got in b, c, both[0][1:]:
                    assert abs(got.numpy().astype("f4") - want).max() <= limit, options
                parts = d.numpy().astype("f4")
                assert abs(e.numpy().astype("f4") - parts).max() <= limit
                assert abs(both[1].numpy()[0].astype("f4") - parts[1]).max() <= limit
            # By its name, which is another Device.
            assert dlbuf.prepare(frame, size=64, device=name)[0].device is not device
            raises(dlbuf.UnsupportedError, lambda: q(planes, format="NV12"),
                   f"a plane is on cpu and not of a dma-buf: {name}, which prepares")
            raises(dlbuf.UnsupportedError, lambda: q(there, out=np.empty((1, 48, 48), "u1")),
                   "out is on cpu and not of a dma-buf")
            raises(dlbuf.InvalidError, lambda: q(frame, out=both[1][..., 1:]), "images are")
            raises(TypeError, lambda: dlbuf.Preparer(size=8, device=1), "device=1 is not")
            assert pickle.loads(pickle.dumps(q))(frame)[1] == info
            del there, p, q, a, b, c, d, e, out, both, got
        assert cam.held == 0
        keep = dlbuf.Preparer(size=16, device=name)
        y = dlbuf.alloc((16, 16, 3), "uint8")
        for p in keep, pickle.loads(pickle.dumps(keep)):
            assert not p(y, format="RGB")[0].numpy().any()
        pid = os.fork()
        if not pid:
            try:
                # A driver of OpenCL is the parent's.
                if name == "opencl:0":
                    raises(dlbuf.Error, lambda: keep(y, format="RGB"), "process")
                else:
                    keep(dlbuf.alloc((16, 16, 3), "uint8"), format="RGB")
                os._exit(0)
            finally:
                traceback.print_exc()
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        device.close()


@case
def asyncio_frames():
    gc.collect()
    shared_trim()
    before = fds()

    async def some(cam, n):
        got = []
        async for frame in cam:
            got.append(frame.info.timestamp_ns)
            if len(got) == n:
                return got

    async def main():
        with camera() as cam:
            first = await cam.frame()
            y, uv = first
            assert y.shape == (180, 320) and cam.held == 1
            y = uv = first = None
            every = await asyncio.gather(*(some(cam, 4) for _ in range(3)))
            times = [t for got in every for t in got]
            assert len(set(times)) == 12, times
            # Other tasks run also if there is always a frame.
            ready(cam, cam.buffers)
            ran = []
            asyncio.get_running_loop().call_soon(ran.append, 1)
            await cam.frame()
            assert ran == [1]
            # Its fd works as that of any other file.
            seen = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(cam, seen.set)
            await seen.wait()
            loop.remove_reader(cam)
            cam.timeout = 0
            next(cam).release()
            assert not cam._waiters
            settle(cam)

    asyncio.run(main())
    shared_trim()
    assert fds() == before


@case
def asyncio_cancelled():
    async def main():
        with camera(buffers=2, timeout=None) as cam:
            held = [next(cam) for _ in range(cam.buffers)]
            n = len(held)
            raises_async = [cam.frame(timeout=0.05),
                            asyncio.wait_for(cam.frame(), 0.05)]
            for wait in raises_async:
                try:
                    await wait
                    assert False
                except TimeoutError as e:
                    assert not e.args or "holds all of its" in str(e), e
                assert not cam._waiters
            # While it waits; after it was woken, before it runs.
            for woken in False, True:
                tasks = [asyncio.create_task(cam.frame()) for _ in range(3)]
                await waiting(cam, 3)
                if woken:
                    held.pop().release()
                    ready(cam, 1)
                    cam._wake_all(asyncio.get_running_loop())
                tasks[0].cancel()
                tasks[1].cancel()
                if not woken:
                    tasks[2].cancel()
                got = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(e, asyncio.CancelledError)
                           for e in got[:2 + (not woken)]), got
                if woken:
                    assert isinstance(got[2], dlbuf.TensorFrame)
                    held.append(got[2])
                del got
                assert cam.held == len(held) == n and not cam._waiters
            # A coroutine that is thrown away.
            one = cam.frame()
            one.close()
            held.clear()
            await cam.frame()

    asyncio.run(main())


@case
def asyncio_ends():
    """The camera is closed by a task, or by a thread, or unplugged."""
    async def listed(cam):
        return [frame async for frame in cam]

    async def main(by_thread):
        with camera(buffers=2, timeout=None) as cam:
            held = [next(cam) for _ in range(cam.buffers)]
            tasks = [asyncio.create_task(listed(cam)) for _ in range(2)]
            tasks.append(asyncio.create_task(cam.frame()))
            await waiting(cam, 3)
            if by_thread:
                thread = threading.Thread(target=cam.close)
                thread.start()
                got = await asyncio.gather(*tasks, return_exceptions=True)
                thread.join()
            else:
                cam.close()
                got = await asyncio.gather(*tasks, return_exceptions=True)
            assert got[:2] == [[], []]
            assert isinstance(got[2], dlbuf.ClosedError), got
            assert isinstance(got[2], EOFError) and "is closed" in str(got[2])
            assert await listed(cam) == [] and not cam._waiters
            assert cam.held == len(held)

    gc.collect()
    shared_trim()
    before = fds()
    for by_thread in False, True:
        asyncio.run(main(by_thread))
        gc.collect()
        shared_trim()
        assert fds() == before

    async def unplug(cam, node):
        frames = asyncio.create_task(listed(cam))
        control(node, "-c", "disconnect=1")
        try:
            await frames
        except dlbuf.Error as e:
            assert e.errno == errno.ENODEV, e
        else:
            assert False

    with vivids("n_devs=1") as (node,):
        with dlbuf.Camera(node, timeout=500) as cam:
            asyncio.run(unplug(cam, node))
            assert cam.held == 0


@case
def asyncio_loops():
    """Two loops at the same time, one that is closed meanwhile, Ctrl-C."""
    def forget(cam):
        loop = asyncio.new_event_loop()
        task = loop.create_task(cam.frame())
        task._log_destroy_pending = False
        loop.run_until_complete(waiting(cam))
        loop.close()
        return task     # which waits for as long as it exists

    async def ends(cam, others):
        """The frames until the end, which comes when so many loops wait."""
        while len(cam._waiters) < others:
            await asyncio.sleep(0)
        if others:
            asyncio.get_running_loop().call_soon(cam.close)
        return [frame async for frame in cam]

    gc.collect()
    shared_trim()
    before = fds()
    with camera(buffers=2, timeout=None) as cam:
        # No frame can come while all buffers are held.
        held = [next(cam) for _ in range(cam.buffers)]
        waits = [forget(cam)]
        held.clear()
        asyncio.run(cam.frame())
        settle(cam)

        def interrupt():
            if len(cam._waiters) > 1:
                signal.raise_signal(signal.SIGINT)
            else:
                asyncio.get_running_loop().call_soon(interrupt)

        async def main():
            held.extend([next(cam) for _ in range(cam.buffers)])
            asyncio.get_running_loop().call_soon(interrupt)
            await cam.frame()

        raises(KeyboardInterrupt, lambda: asyncio.run(main()))
        assert cam.held == len(held) and len(cam._waiters) == 1
        waits.append(forget(cam))
        ended = []
        thread = threading.Thread(
            target=lambda: ended.append(asyncio.run(ends(cam, 0))))
        thread.start()
        ended.append(asyncio.run(ends(cam, 3)))
        thread.join()
        assert ended == [[], []] and cam.closed
        held.clear()
    del cam, waits
    gc.collect()
    shared_trim()
    assert fds() == before


# ------------------------------------------------------------------ the command

def checked(args, got, out, err, status):
    """Its output; a failure is one line on standard error."""
    assert got == status, (args, got, out, err)
    assert len(err.splitlines()) == bool(status), (args, err)
    assert "Traceback" not in err, (args, err)
    return err if status else out


def command(*args, status=0, **options):
    options.setdefault("stdout", subprocess.PIPE)
    p = subprocess.run([sys.executable, "-m", "dlbuf", *args], text=True,
                       stderr=subprocess.PIPE, **options)
    return checked(args, p.returncode, p.stdout, p.stderr, status)


def run(*args, status=0):
    """What command() does, in a fork: to import the package takes seconds here."""
    sys.stdout.flush()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        pid = os.fork()
        if not pid:
            code = 99
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                sys.argv[1:] = args
                code = dlbuf.__main__.main()
            except SystemExit as e:
                code = int(e.code or 0)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        got = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return checked(args, got, out.read(), err.read(), status)


def decode(data):
    """A PNG file without filters -> [height, width, channels]."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        n, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + n]
        assert struct.unpack_from(">I", data, at + 8 + n)[0] == zlib.crc32(
            name + body)
        chunks[name] = chunks.get(name, b"") + body
        at += 12 + n
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB",
                                                        chunks[b"IHDR"])
    assert depth == 8 and rest == [0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8)
    rows = rows.reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, {0: 1, 2: 3}[colour])


def enlarged(plane, sub, n, axis, first):
    """A subsampled plane at n places of an axis, between its two nearest samples, which are
    on the first of their pixels or in their middle: docs/prepare.md, "Positions"."""
    rows = plane.shape[axis]
    at = (np.arange(n) + .5 + (sub - 1) / 2 * first) / sub - .5
    weights = np.array([np.interp(at, range(rows), row) for row in np.eye(rows)])
    return np.moveaxis(np.tensordot(plane, weights, (axis, 0)), -1, axis)


def from_nv12(raw, width, height, colour):
    """Converts by floating point, as BT.601 or BT.709 say."""
    y = raw[:height].astype(float)
    full = colour.range == 2
    uv = raw[height:].reshape(height // 2, width // 2, 2).astype(float)
    uv = enlarged(enlarged(uv, 2, height, 0, False), 2, width, 1, not full)
    u, v = uv.transpose(2, 0, 1) - 128
    kr, kb = (0.2126, 0.0722) if colour.matrix == 2 else (0.299, 0.114)
    scale = 1.0
    if not full:
        y, scale = (y - 16) * 255 / 219, 255 / 224
    r, b = y + 2 * (1 - kr) * scale * v, y + 2 * (1 - kb) * scale * u
    g = (y - kr * r - kb * b) / (1 - kr - kb)
    return np.clip(np.stack([r, g, b], -1), 0, 255)


@case
def command_camera():
    node = vivid()
    for code, view in (("RGB3", None), ("BGR3", None), ("XR24", None),
                       ("GREY", None), ("NV12", None), ("YUYV", "rows"),
                       ("YU12", None), ("RGBP", None)):
        want = np.frombuffer(read(node, (320, 180), code), np.uint8)
        with tempfile.TemporaryDirectory() as d:
            png, report = f"{d}/frame.png", f"{d}/frame.json"
            out = run("camera", "-n", "2", "--format", code, "-s", "320x180",
                      "--png", png, f"--json={report}", node,
                      *(["--view", view] if view else []))
            assert sorted(os.listdir(d)) == ["frame.json", "frame.png"]
            with open(png, "rb") as f:
                got = decode(f.read())
            with open(report) as text:
                report = json.load(text)
        assert out.count("\n") == 4 and "sequence" in out, out
        assert report["camera"]["node"] == node
        assert [len(f["tensors"]) for f in report["frames"]] == [
            {"NV12": 2, "YU12": 3}.get(code, 1)] * 2
        if code in ("RGB3", "BGR3", "XR24"):
            want = want.reshape(180, 320, -1)[..., :3]
            assert np.array_equal(got, want if code == "RGB3" else
                                  want[..., ::-1]), code
        elif code == "GREY":
            assert np.array_equal(got[..., 0], want.reshape(180, 320))
        elif code == "RGBP":
            fields = want.view("<u2").reshape(180, 320, 1) >> (11, 5, 0) & (31, 63, 31)
            assert np.array_equal(got, np.rint(fields * 255 / (31, 63, 31)))
        elif code == "NV12":
            with camera() as cam:
                colour = next(cam).info.colour
            error = got - from_nv12(want.reshape(270, 320), 320, 180, colour)
            assert abs(error).max() <= 1, abs(error).max()
            pictures = got
        else:
            # The same picture; chroma is sampled elsewhere at its edges.
            error = abs(got.astype(int) - pictures)
            assert np.median(error) <= 2 and error.mean() < 4, error.mean()
        assert got.std() > 10, "not a picture"
    out = run("camera", "-n1", "--crop", "0,0,64,32", "--drop", "-fNV12",
              "--json", node)
    assert json.loads(out)["frames"][0]["tensors"][0]["shape"] == [32, 64]
    assert run("camera", "-q", "-n", "1", node) == ""
    # The number is the default's.
    assert node in run("camera", "-n", "1", node[10:])


@case
def command_says():
    node = vivid()
    d = tempfile.mkdtemp()
    for args, status, words in (
            (["camera", "/dev/nonesuch"], 4, "there is no such camera"),
            (["camera", "nonesuch"], 4, "there is no camera 'nonesuch'"),
            (["camera", "/dev/null"], 3, "is not a V4L2 node"),
            (["camera", "-d", "cpu:1", node], 4, "there is one cpu device"),
            (["camera", "-d", "vulkan:99", node], 4, "vulkan"),
            (["camera", "-d", "nonesuch", node], 2, "no backend is named"),
            (["camera", "-e", "heap:nonesuch", node], 4, "no /dev/dma_heap/nonesuch"),
            (["camera", "-s", "big", node], 2, "the size 'big' is not"),
            (["camera", "-f", "I4200", node], 2, "near it: I420"),
            (["camera", "-f", "MJPG", node], 4, "does not capture in MJPG"),
            (["camera", "-b", "99", node], 2, "99 buffers"),
            (["camera", "-n", "0", node], 2, "--frames is 1 or more"),
            (["camera", "-n", "x", node], 2, "invalid int value: 'x'; see"),
            (["camera", "--nonesuch"], 2, "unrecognized arguments"),
            (["camera", "-n1", "-fNV12", "-p", f"{d}/no/a.png", node], 3,
             "cannot be written: No such file"),
            (["camera", "-n1", "-fNV12", "-p", "/dev/full", node], 3,
             "/dev/full cannot be written: No space left"),
            (["formats"], 2, "invalid choice"), ([], 2, "required")):
        assert words in run(*args, status=status), (words, args)
    # A file that cannot be finished is removed.
    assert "cannot be written: File too large" in command(
        "camera", "-n1", "-fGREY", "-p", f"{d}/a.png", node, status=3,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8)))
    assert os.listdir(d) == []
    os.rmdir(d)
    with open("/dev/full", "w") as full:
        for args in ["list"], ["list", "--json"], ["--help"]:
            assert "No space left" in command(*args, status=3, stdout=full, env=CPU_ONLY)
    # The reader of a pipe goes: the signal ends it, without a word.
    read_end, write_end = os.pipe()
    os.close(read_end)
    p = subprocess.run([sys.executable, "-m", "dlbuf", "list"],
                       stdout=write_end, stderr=subprocess.PIPE, env=CPU_ONLY)
    os.close(write_end)
    assert (p.returncode, p.stderr) == (-signal.SIGPIPE, b""), p
    # Ctrl-C in the middle of the frames.
    child = subprocess.Popen([sys.executable, "-m", "dlbuf", "camera", "-n",
                              "1000000", node], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert child.stdout
    while "sequence" not in child.stdout.readline():
        pass
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert (child.returncode, err) == (3, "python -m dlbuf: interrupted\n"), err


@case
def command_lists():
    node = vivid()
    out = command("list", env=CPU_ONLY)
    assert node in out and "udmabuf" in out and "cpu" in out and "\033" not in out
    got = json.loads(run("list", "-j"))
    assert [c["node"] for c in got["cameras"]] == [node]
    assert "NV12" in got["cameras"][0]["formats"]
    assert {"name", "node", "status", "reason"} == set(got["exporters"][0])
    assert any(i["name"] == "cpu" and not i["status"] for i in got["importers"])
    p = subprocess.run([sys.executable, "-m", "dlbuf", "list", "-v"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       text=True, env=CPU_ONLY)
    assert p.returncode == 0 and "dlbuf" in p.stderr, p
