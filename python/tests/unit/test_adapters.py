# SPDX-License-Identifier: MIT
"""dlbuf.pyav, libcamera and picamera2 without dma-bufs, PyAV and libcamera: the
planes that they find, and their refusals. lab_producers.py has the real ones."""

import errno
import os
import random
import struct
from fractions import Fraction

import pytest

import dlbuf.libcamera
import dlbuf.picamera2
import dlbuf.pyav
from dlbuf import Clock, Colour, Field, Order, Orientation

from producers import (GR88, LAYERS, NV12, R8, R16, RG88, Object, Request, around, buffer, stream,
                       video)

@pytest.fixture
def said(monkeypatch):
    """Calls an adapter and returns the frame that it would import."""
    def call(module, *args, **kwargs):
        with monkeypatch.context() as m:
            m.setattr(module, "import_frame", lambda *a, **k: (a, Object(**k)))
            return module.frame(*args, **kwargs)

    return call


@pytest.mark.parametrize("layers, more, code, planes", [
    ([(NV12, [(0, 0, 64), (0, 2048, 64)])], {}, NV12, [(5, 64, 0, 8192), (5, 64, 2048, 6144)]),
    (LAYERS, {"sw_format": Object(name="nv12")}, NV12, [(5, 64, 0, 8192), (5, 64, 4096, 4096)]),
    ([LAYERS[0], (RG88, [(1, 16, -64)])],
     {"sw_format": Object(name="nv12"), "objects": [(5, 0, 0), (6, 0, 0)]}, NV12,
     [(5, 64, 0, 0), (6, -64, 16, 0)]),
])
def test_pyav_planes(said, layers, more, code, planes):
    a, _ = said(dlbuf.pyav, video(layers, **more))
    assert a == (planes, 64, 32, code)


def test_pyav_format(said):
    for name in "NV12", "nv12":
        assert said(dlbuf.pyav, video(LAYERS), format=name)[0][3] == NV12


@pytest.mark.parametrize("pts, base, ns", [
    (3, Fraction(1, 25), 120_000_000), (15, Fraction(1, 15360), 976_563),
    (-15, Fraction(1, 15360), -976_563), (1 << 62, Fraction(1, 10**9), 1 << 62),
    (1795632619648976, Fraction(1, 10**6), 1795632619648976000),
    (1 << 62, Fraction(1, 25), None), (None, Fraction(1, 25), None), (3, None, None),
])
def test_pyav_times(said, pts, base, ns):
    _, k = said(dlbuf.pyav, video(LAYERS, pts=pts, time_base=base), format="NV12")
    assert (k.timestamp_ns, k.clock) == (ns, Clock.STREAM)


@pytest.mark.parametrize("more, colour", [
    ({}, Colour()), ({"colorspace": 0}, Colour(0, 0, 1)),
    ({"color_primaries": 1, "color_trc": 13, "colorspace": 1, "color_range": 1},
     Colour(1, 13, 2, 1)),
    ({"color_primaries": 3, "color_trc": 300, "chroma_location": 1, "color_range": 3},
     Colour(0, 0, 0, 0, 1)),
    ({"sw_format": Object(name="yuvj420p")}, Colour(0, 0, 0, 2)),
])
def test_pyav_colours(said, more, colour):
    _, k = said(dlbuf.pyav, video([(NV12, [(0, 0, 64), (0, 2048, 64)])], **more))
    assert (k.colour, k.field, k.damaged) == (colour, Field.NONE, False)


def matrix(a, b, c, d):
    """A display matrix as PyAV shows it."""
    values = struct.pack("9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30)

    class Side(bytes):
        type = Object(name="DISPLAYMATRIX")

    return [Object(type=Object(name="MOTION_VECTORS")), Side(values)]


# FFmpeg's words: x' = a x + c y, y' = b x + d y, y downwards.
@pytest.mark.parametrize("steps, orientation", [
    ((1, 0, 0, 1), "NONE"), ((0, 1, -1, 0), "TURN_90"), ((-1, 0, 0, -1), "TURN_180"),
    ((0, -1, 1, 0), "TURN_270"), ((-1, 0, 0, 1), "FLIP_X"), ((0, 1, 1, 0), "TRANSPOSE"),
    ((1, 0, 0, -1), "FLIP_Y"), ((0, -1, -1, 0), "TRANSVERSE"), ((2, 0, 0, 2), "NONE"),
])
def test_pyav_orientations(said, steps, orientation):
    f = video(LAYERS, side_data=matrix(*steps))
    assert said(dlbuf.pyav, f, format="NV12")[1].orientation is Orientation[orientation]
    assert said(dlbuf.pyav, f, format="NV12", orientation=0)[1].orientation == 0
    odd = video(LAYERS, side_data=matrix(1, 1, -1, 1))
    with pytest.raises(dlbuf.UnsupportedError, match="no turn by quarters: say orientation=0"):
        said(dlbuf.pyav, odd, format="NV12")


def test_pyav_flags(said):
    f = video(LAYERS, interlaced_frame=True, is_corrupt=True)
    _, k = said(dlbuf.pyav, f, format="NV12")
    assert (k.field, k.damaged) == (Field.INTERLACED, True)


@pytest.mark.parametrize("frame, kind, words", [
    (3, TypeError, "an av.VideoFrame, not 3"),
    (Object(format="x", planes=()), TypeError, "an av.VideoFrame"),
    (video(LAYERS, format=Object(name="yuv420p")), dlbuf.InvalidError,
     "of yuv420p, not of drm_prime"),
    (video(LAYERS, planes=()), dlbuf.UnsupportedError, "PyAV 17.0 and newer do"),
    (video([]), dlbuf.InvalidError, "1 objects and 0 layers"),
    (video(LAYERS, objects=()), dlbuf.InvalidError, "0 objects and 2 layers"),
    (video(LAYERS, width=0), dlbuf.InvalidError, "0 pixels wide"),
    (video([(NV12, [])]), dlbuf.InvalidError, "layer 0 of 1 of the VideoFrame has 0"),
    (video([(NV12, [(0, 0, 64)] * 2), LAYERS[1]]), dlbuf.InvalidError,
     "layer 0 of 2 of the VideoFrame has 2"),
    (video([(R8, [(1, 0, 64)])]), dlbuf.InvalidError, "plane 0 .* in object 1 of 1"),
    (video([(R8, [(-1, 0, 64)])]), dlbuf.InvalidError, "in object -1 of 1"),
    (video([(R8, [(0, -1, 64)])]), dlbuf.InvalidError, "begins at byte -1 "),
    (video([(R8, [(0, 8192, 64)])]), dlbuf.InvalidError, "at byte 8192 of an object of 8192"),
    (video([LAYERS[0], (GR88, [(1, 0, 64)])], objects=[(5, 0, 0), (6, 0, 1)]),
     dlbuf.UnsupportedError, "different modifiers, 0x0, 0x1"),
    (video(LAYERS), dlbuf.UnsupportedError, 'say format="NV12"'),
    (video(LAYERS, sw_format=Object(name="pal8")), dlbuf.UnsupportedError,
     "no DRM format has the planes of pal8"),
    (video(LAYERS, sw_format=Object(name="yuv420p")), dlbuf.InvalidError,
     "has 2 layers, yuv420p has 3"),
    (video([LAYERS[0], (R16, [(0, 0, 64)])], sw_format=Object(name="nv12")),
     dlbuf.InvalidError, "layer 1 of the VideoFrame, 0x20363152, is not plane 1 of nv12"),
    (video([(R8, [(0, 0, 64)])], objects=[(1 << 30, 0, 0)]), dlbuf.Error, "Bad file"),
])
def test_pyav_refuses(frame, kind, words):
    with pytest.raises(kind, match=words):
        dlbuf.pyav.frame(frame)


def test_pyav_random_descriptors():
    """Any descriptor causes one sentence."""
    random.seed(1)
    desc, fd = dlbuf.pyav._Descriptor(), os.memfd_create("no dma-buf")
    small = [-(1 << 31), -1, 0, 1, 1, 1, 2, 2, 3, 4, 5, (1 << 31) - 1]
    large = [-(1 << 63), -4096, -1, 0, 1, 64, 64, 2048, 4096, (1 << 63) - 1]
    codes, counts = [NV12, R8, R8, GR88, RG88, R16, 0, 1 << 31], {}
    for _ in range(100_000):
        desc.nobjects, desc.nlayers = random.choices(small, k=2)
        for o in desc.objects:
            o.fd, o.size, o.modifier = (random.choice((fd, fd, -1, 1 << 30)),
                                        random.choice(large) % (1 << 64),
                                        random.choice((0, 0, 0, dlbuf.MOD_INVALID)))
        for layer in desc.layers[:2]:
            layer.format, layer.nplanes = random.choice(codes), random.choice(small)
            for p in layer.planes[:2]:
                p.object, p.offset, p.pitch = (random.choice(small), random.choice(large),
                                               random.choice(large))
        try:
            dlbuf.pyav.frame(around(desc), format=random.choice((None, "NV12")))
        except dlbuf.Error as e:
            counts[e.errno] = counts.get(e.errno, 0) + 1
    os.close(fd)
    assert sum(counts.values()) == 100_000
    assert {errno.EINVAL, errno.ERANGE, errno.EOPNOTSUPP, errno.EBADF} <= set(counts), counts


CSI2P = 11 << 56 | 1


@pytest.mark.parametrize("config, given, planes", [
    (stream(b"NV12"), buffer((5, 0, 2048), (5, 2048, 1024)),
     [(5, 64, 0, 2048), (5, 64, 2048, 1024)]),
    # Several dma-bufs, and the bytes that are used.
    (stream(b"NV24", stride=80), buffer((5, 0, 4096), (6, 16, 8192), used=(2560, 0)),
     [(5, 80, 0, 2560), (6, 160, 16, 8192)]),
    (stream(b"YU12"), buffer((5, 0, 2048), (5, 2048, 512), (5, 2560, 512)),
     [(5, 64, 0, 2048), (5, 32, 2048, 512), (5, 32, 2560, 512)]),
    # One plane for all.
    (stream(b"YU12"), buffer((5, 0, 4096), used=(3072,)), [(5, 64, 0, 3072)]),
    (stream(b"NV12"), buffer((5, 0, 2048), (5, 2048, 1024), (5, 0, 0)),
     [(5, 64, 0, 2048), (5, 64, 2048, 1024)]),
    (stream(b"RG10", CSI2P, 80), buffer((5, 0, 2560)), [(5, 80, 0, 2560)]),
    (stream(b"MJPG", stride=0), buffer((5, 0, 4096), used=(99,)), [(5, 0, 0, 99)]),
    # After an error the sizes are not valid.
    (stream(b"YUYV"), buffer((5, 0, 4096), status="Error", used=(99,)), [(5, 64, 0, 4096)]),
])
def test_libcamera_planes(said, config, given, planes):
    for what in config, Object(configuration=config):
        a, k = said(dlbuf.libcamera, what, given)
        assert a == (planes, 64, 32, config.pixel_format.fourcc)
        assert (k.modifier, k.order, k.sequence, k.timestamp_ns) == (
            config.pixel_format.modifier, Order.COMPLETE, 7, 9)
        assert k.damaged == (given.metadata.status.name == "Error")
    _, k = said(dlbuf.libcamera, config, given, metadata=None)
    assert (k.order, k.sequence, k.timestamp_ns) == (None, None, None)


@pytest.mark.parametrize("words, colour", [
    ("Rec709 Rec709 Rec709 Limited", Colour(1, 1, 2, 1)),
    ("Rec709 Srgb Null Full", Colour(1, 13, 1, 2)),
    ("Raw Linear Null Full", Colour(0, 8, 0, 2)),
    ("Smpte170m Rec709 Rec601 Full", Colour(6, 1, 7, 2)),
    ("Rec2020 Rec709 Rec2020 Limited", Colour(9, 1, 10, 1)),
])
def test_libcamera_colours(said, words, colour):
    space = Object(**{key: Object(name=word) for key, word in zip(
        ("primaries", "transferFunction", "ycbcrEncoding", "range"), words.split())})
    _, k = said(dlbuf.libcamera, stream(b"YUYV", space=space), buffer((5, 0, 4096)))
    assert k.colour == colour


@pytest.mark.parametrize("config, given, kind, words", [
    (3, buffer(), TypeError, "a libcamera.Stream, or a StreamConfiguration"),
    (stream(b"NV12"), 3, TypeError, "and a FrameBuffer"),
    (stream(0x21212121), buffer((5, 0, 9)), dlbuf.InvalidError, "no code 0x21212121"),
    (stream(b"NV12"), buffer(), dlbuf.InvalidError, "has 0 planes, its format 2"),
    (stream(b"NV12"), buffer((5, 0, 9), (5, 9, 9), (5, 18, 9)), dlbuf.InvalidError,
     "has 3 planes, its format 2"),
    (stream(b"NV12"), buffer((5, 0xffffffff, 9)), dlbuf.InvalidError, "no offset"),
    (stream(b"YU12", stride=61), buffer((5, 0, 2048), (5, 2048, 512)), dlbuf.UnsupportedError,
     "a stride of 61 gives no whole bytes for plane 1"),
    (stream(b"NV12"), buffer((5, 0, 9), status="Cancelled"), dlbuf.Error, "cancelled"),
    (stream(b"YUYV", stride=128), buffer((1 << 30, 0, 4096)), dlbuf.Error, "Bad file"),
])
def test_libcamera_refuses(config, given, kind, words):
    with pytest.raises(kind, match=words):
        dlbuf.libcamera.frame(config, given)


# The orientation of each EXIF number, and two numbers of libcamera's own
# tests: what turns one orientation into another.
@pytest.mark.parametrize("stored, wanted, orientation", [
    *((i + 1, 1, o) for i, o in enumerate((0, 4, 2, 6, 5, 1, 7, 3))),
    (3, 3, 0), (6, 6, 0), (5, 5, 0), (1, 3, 2), (1, 2, 4), (1, 6, 3), (6, 1, 1), (1, 5, 5),
    (2, 3, 6), (8, 3, 1), (5, 7, 2),
])
def test_libcamera_orientations(said, stored, wanted, orientation):
    found = dlbuf.libcamera.orientation(stored, wanted)
    assert found is Orientation(orientation)
    _, k = said(dlbuf.libcamera, stream(b"YUYV"), buffer((5, 0, 4096)), orientation=found)
    assert k.orientation is found


@pytest.mark.parametrize("args", [("x",), (0,), (9,), (1, None)])
def test_libcamera_no_orientation(args):
    with pytest.raises(TypeError, match="a libcamera.Orientation"):
        dlbuf.libcamera.orientation(*args)


def test_picamera2(monkeypatch):
    main, lores = stream(b"XR24", stride=256), stream(b"YU12")
    request = Request(main=(main, buffer((5, 0, 8192))), lores=(lores, buffer((6, 0, 3072))))
    with monkeypatch.context() as m:
        m.setattr(dlbuf.libcamera, "import_frame", lambda *a, **k: (a, Object(**k)))
        for which, planes in [({}, 1), ({"name": "lores"}, 1)]:
            a, k = dlbuf.picamera2.frame(request, **which, view="rows", orientation=3)
            assert len(a[0]) == planes and request.held == 2 and k.view == "rows"
            assert k.orientation == 3
            k.release()
            assert request.held == 1
    # It is no dma-buf: the acquired request is released.
    with pytest.raises(dlbuf.Error):
        dlbuf.picamera2.frame(request)
    assert request.held == 1
    for name in "raw", "x":
        with pytest.raises(dlbuf.InvalidError, match=f"no stream '{name}', it has main, lores"):
            dlbuf.picamera2.frame(request, name)
    request.stream_map = {}
    with pytest.raises(dlbuf.InvalidError, match="none: it was released"):
        dlbuf.picamera2.frame(request)
    with pytest.raises(TypeError, match="a picamera2.CompletedRequest, not of 3"):
        dlbuf.picamera2.frame(3)
    assert request.held == 1
