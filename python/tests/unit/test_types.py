# SPDX-License-Identifier: MIT
"""Parts that need no memory: enums, dtypes, errors, formats, protocols."""

import copy
import enum
import errno
import gc
import pickle
import re
import socket
import sys
from unittest import mock

import pytest

import dlbuf
import dlbuf.__main__
from dlbuf import _dlbuf, _producers, _types


def test_enums_are_those_of_dlpack():
    assert [d.value for d in dlbuf.DLDeviceType] == [
        1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]
    assert [c.value for c in dlbuf.DLDataTypeCode] == list(range(19))
    assert dlbuf.DLDeviceType(14) is dlbuf.DLDeviceType.ONE_API
    assert dlbuf.DLDataTypeCode["FLOAT8_E8M0FNU"] == 14


@pytest.mark.parametrize("name, numbers", [
    ("uint8", (1, 8, 1)), ("int64", (0, 64, 1)), ("float16", (2, 16, 1)),
    ("bfloat16", (4, 16, 1)), ("complex64", (5, 64, 1)), ("bool", (6, 8, 1)),
    ("opaque64", (3, 64, 1)), ("uint8x4", (1, 8, 4)),
    ("float8_e4m3fn", (10, 8, 1)), ("float8_e4m3b11fnuz", (9, 8, 1)),
    ("float6_e3m2fn", (16, 6, 1)), ("float4_e2m1fnx2", (17, 4, 2)),
    ("bcomplex32", (18, 32, 1)),
])
def test_dtypes(name, numbers):
    assert _types.parse_dtype(name) == numbers
    assert _types.parse_dtype(numbers) == numbers
    assert _types.dtype_name(*numbers) == name


@pytest.mark.parametrize("x, name", [
    ("u1", "uint8"), ("<f4", "float32"), ("|b1", "bool"), ("=i8", "int64"),
    ("c16", "complex128"), (float, "float64"), (int, "int64"), (bool, "bool"),
    (complex, "complex128"), ("float", "float64"), ("double", "float64"),
    ("half", "float16"), ("torch.uint8", "uint8"), ([1, 8, 1], "uint8"),
    ("float4_e2m1fn_x2", "float4_e2m1fnx2"), ("code99:3x2", "code99:3x2"),
    ((99, 3, 2), "code99:3x2"), ("int4", "int4"), ("boolx3", "boolx3"),
])
def test_public_dtype(x, name):
    d = dlbuf.dtype(x)
    assert d == name and type(d) is dlbuf.DType and str(d) == name
    assert dlbuf.dtype(d) is dlbuf.dtype(name) == dlbuf.DType(d)
    assert {name: 1}[d] == 1 and hash(d) == hash(name)
    assert (d.code, d.bits, d.lanes) == _types.parse_dtype(name)
    assert pickle.loads(pickle.dumps(d)) == d
    assert type(copy.copy(d)) is dlbuf.DType


@pytest.mark.parametrize("x, kind, says", [
    ("u3x", ValueError, "there is no dtype 'u3x': there are bool, int8"),
    ("", ValueError, "float8_e4m3fn"), ("b2", ValueError, "no dtype"),
    (">f4", ValueError, "native byte order"), ("f3", ValueError, "no dtype"),
    (None, TypeError, "not None"), (5, TypeError, "not 5"),
    ((1, 2), TypeError, "three numbers"), (("a", 1, 1), TypeError, "three"),
    (object, ValueError, "no dtype 'object'"), (str, ValueError, "no"),
    ("uint8x70000", ValueError, "DLPack has no"), ("uint8x0", ValueError, "DLPack has no"),
    ("uint256", ValueError, "DLPack has no"), ("int0", ValueError, "DLPack has no"),
    ("uint", ValueError, "no dtype"), ((1, 8, 65536), ValueError, "DLPack has no"),
    ((-1, 8, 1), ValueError, "DLPack has no"), ((1, 256, 1), ValueError, "DLPack has no"),
    ((15, 8, 1), ValueError, "DLPack has no"), ((17, 8, 1), ValueError, "DLPack has no"),
    ("code16:4", ValueError, "DLPack has no"), ((6, 1, 8), ValueError, "DLPack has no"),
])
def test_no_public_dtype(x, kind, says):
    with pytest.raises(kind, match=says):
        dlbuf.dtype(x)
    with pytest.raises(kind, match=says):
        dlbuf.from_fd(0, 1, x)


@pytest.mark.parametrize("kind", [dlbuf.Clock, dlbuf.Field, dlbuf.Order, dlbuf.Orientation])
def test_words_of_a_frame(kind):
    """A member, its number, its name and the name in small letters."""
    for member in kind:
        for value in member, int(member), member.name, member.name.lower():
            assert _producers._one_of(kind, "word", value) is member
    for bad in "nonesuch", "", -1, 99, None, 1.5, [], b"NONE":
        with pytest.raises(dlbuf.InvalidError, match="word is one of .*, not "):
            _producers._one_of(kind, "word", bad)


@pytest.mark.parametrize("call, status", [
    (lambda: dlbuf.Device("cpu:1"), 4), (lambda: dlbuf.Device("vulkan:99"), 4),
    (lambda: dlbuf.Device("nonesuch"), 2), (lambda: dlbuf.Camera("/dev/nonesuch"), 4),
    (lambda: dlbuf.alloc(4, "uint8", exporter="heap:nonesuch"), 4),
    (lambda: dlbuf.Camera("/dev/null"), 3),
])
def test_status_of_the_command(call, status):
    with pytest.raises(dlbuf.Error) as e:
        call()
    assert dlbuf.__main__._status_of(e.value) == status, e.value


def test_itemsize():
    assert [dlbuf.dtype(d).itemsize for d in (
        "bool", "float4_e2m1fn", "float4_e2m1fnx2", "int16x3")] == [1, 1, 1, 6]


def test_dtypes_of_numpy(np):
    assert _types.parse_dtype(np.uint8) == (1, 8, 1)
    assert _types.parse_dtype(np.dtype("f4")) == (2, 32, 1)
    assert _types.parse_dtype(np.dtype(bool)) == (6, 8, 1)
    for char in "?bBhHiIlLqQefdFD":
        want = np.dtype(char)
        for x in want, want.type, want.type(1), np.zeros(2, char):
            assert dlbuf.dtype(x) == want.name, (char, x)
        assert dlbuf.dtype(x).numpy == want
        assert np.dtype(dlbuf.dtype(x)) == want
    with pytest.raises(ValueError, match="native byte order"):
        _types.parse_dtype(np.dtype("f4").newbyteorder())
    for bad in ("datetime", np.longdouble, np.dtype("g"), np.dtype("M8[s]"),
                np.dtype("u1,u1"), np.str_, np.floating, np.dtype(object)):
        with pytest.raises(ValueError, match="there is no dtype"):
            _types.parse_dtype(bad)
    for name in "uint8x4", "opaque64", "code99:3":
        with pytest.raises(TypeError, match="dtype for " + name):
            dlbuf.dtype(name).numpy


class Named:
    """A dtype of another library, as TensorFlow's and JAX's look."""

    def __init__(self, **said):
        self.__dict__.update(said)


def test_dtypes_of_others():
    assert dlbuf.dtype(Named(name="bfloat16")) == "bfloat16"
    assert dlbuf.dtype(Named(dtype=Named(name="uint8"))) == "uint8"
    assert dlbuf.dtype(Named(__numpy_dtype__=Named(name="int8"))) == "int8"
    for module, kind, text, more in (
            ("torch", "dtype", "torch.uint8", {}), ("mlx.core", "Dtype", "mlx.core.uint8", {}),
            ("paddle", "dtype", "paddle.uint8", {"name": "UINT8", "value": 2})):
        x = type("DataType", (Named,), {"__module__": module, "__qualname__": kind,
                                        "__str__": lambda _, t=text: t})(**more)
        assert dlbuf.dtype(x) == dlbuf.dtype(Named(dtype=x)) == "uint8" and dlbuf.dtype("u1") == x
    with pytest.raises(TypeError, match="Named"):
        dlbuf.dtype(Named())
    assert dlbuf.dtype(dlbuf.from_dlpack(b"abc")) == "uint8"


def test_device_names():
    for pair in ((1, 0), (2, 3), (7, 1), (10, 0), (14, 2), (3, 0)):
        assert _types.device_pair(_types.device_name(*pair)) == pair
    assert _types.device_pair("hip:1") == (10, 1)
    assert _types.device_pair("levelzero") == (14, 0)
    for bad in "", "gpu", "cuda:", "cuda:x", "cuda:pci=1":
        with pytest.raises(ValueError, match="is no device of DLPack"):
            _types.device_pair(bad)


@pytest.mark.parametrize("fails, kinds, err", [
    (lambda: dlbuf.from_fd(-1, (1,), "uint8"), (OSError,), errno.EBADF),
    (lambda: dlbuf.from_fd(0, (-1,), "uint8"), (ValueError,), errno.EINVAL),
    (lambda: dlbuf.from_fd(0, (1 << 62, 4), "uint8"), (ValueError,),
     errno.EOVERFLOW),
    (lambda: dlbuf.from_fd(0, (3,), "float4_e2m1fn"), (BufferError,),
     errno.EOPNOTSUPP),
    (lambda: dlbuf.from_fd(0, (1,), "uint8", strides=(1, 1)), (ValueError,),
     errno.EINVAL),
    (lambda: dlbuf.from_fd(0, (1,), "uint8", offset=-1), (ValueError,),
     errno.EINVAL),
    (lambda: dlbuf.from_fd(0, (1,), "uint8", access="x"), (ValueError,),
     errno.EINVAL),
    (lambda: dlbuf.Device("nonesuch"), (ValueError,), errno.EINVAL),
    (lambda: dlbuf.from_frame([(0, 64)], 8, 8, "NONE"), (ValueError,),
     errno.EINVAL),
    (lambda: dlbuf.from_frame([(0, 64)], 8, 8, 0x3231564E), (ValueError,),
     errno.EINVAL),
    (lambda: dlbuf.from_frame([(0, 64)], 8 + (1 << 32), 8, "R8"),
     (ValueError,), errno.EINVAL),
    (lambda: dlbuf.from_frame([(0, 64, -1)], 8, 8, "R8"), (ValueError,),
     errno.EINVAL),
    (lambda: dlbuf.from_frame([(0, 64)], 8, 8, "R8", crop=(-1, 0, 1, 1)),
     (ValueError,), errno.EINVAL),
])
def test_errors(fails, kinds, err):
    with pytest.raises(dlbuf.Error) as e:
        fails()
    for kind in kinds + (OSError,):
        assert isinstance(e.value, kind)
    assert e.value.errno == err
    assert e.value.strerror and e.value.strerror != "None"


def r8(planes=((0, 64),), width=8, **kwargs):
    return dlbuf.from_frame(planes, width, 8, "R8", **kwargs)


def sent(what):
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with ours, theirs:
        dlbuf.send(ours, what)


@pytest.mark.parametrize("fails, kind, words", [
    (lambda: dlbuf.find_format(3.5), TypeError, "a name or a code, not 3.5"),
    (lambda: dlbuf.find_format([]), TypeError, r"a name or a code, not \[\]"),
    (lambda: dlbuf.find_format(-1, "DRM"), ValueError, "code -1 does not fit 32"),
    (lambda: dlbuf.find_format(1 << 40, "DRM"), ValueError, "does not fit 32"),
    (lambda: dlbuf.find_format(""), ValueError, "there is no format ''"),
    (lambda: dlbuf.find_format("NV12", "X"), ValueError,
     "the space of a code is DRM or V4L2.*, not 'X'"),
    (lambda: dlbuf.find_format("NV12", 99), ValueError, "not 99"),
    (lambda: r8(width="x"), TypeError, "width 'x' is not a whole"),
    (lambda: r8(width=1.5), TypeError, "width 1.5 is not a whole"),
    (lambda: r8("x"), TypeError, r"a plane is \(fd, pitch\).*planes are 'x'"),
    (lambda: r8(5), TypeError, "planes are 5"),
    (lambda: r8([5]), TypeError, r"planes are \[5\]"),
    (lambda: r8(crop=5), ValueError, r"the crop 5 is not \(x, y, width"),
    (lambda: r8(crop=(1, 2, 3)), ValueError, r"the crop \(1, 2, 3\) is not"),
    (lambda: r8([(1 << 40, 64)]), ValueError, f"a plane's fd {1 << 40} does not fit 32 bits"),
    (lambda: r8([(3, 1 << 70)]), ValueError, f"pitch {1 << 70} does not fit 64 bits"),
    (lambda: r8(timestamp_ns=float("nan")), TypeError, "timestamp_ns nan is not a whole"),
    (lambda: r8(timestamp_ns=1 << 63), ValueError, "timestamp_ns .* does not fit 64 bits"),
    (lambda: r8(sequence=-1), ValueError, "sequence -1 does not fit 64 bits without"),
    (lambda: r8(sequence=1 << 64), ValueError, "does not fit 64 bits without"),
    (lambda: r8(timestamp_ns=1, clock=99), dlbuf.InvalidError,
     "clock is one of Clock.NONE, .*, not 99"),
    (lambda: r8(field="upper"), dlbuf.InvalidError, "field is one of Field.*, not 'upper'"),
    (lambda: r8(order=99), dlbuf.InvalidError, "order is one of"),
    (lambda: r8(orientation=8), dlbuf.InvalidError,
     "orientation is one of Orientation.NONE, .*TRANSVERSE, not 8"),
    (lambda: r8(orientation="x"), dlbuf.InvalidError, "not 'x'"),
    (lambda: r8(fence=0), dlbuf.InvalidError, "a fence whose fd is 0 has to be duplicated"),
    (lambda: r8(order=dlbuf.Order.FENCE), dlbuf.InvalidError, "Order.FENCE wants a fence"),
    (lambda: r8(colour=None), TypeError, "colour is a dlbuf.Colour, not None"),
    (lambda: r8(colour=(1, 2, 3)), TypeError, r"not \(1, 2, 3\)"),
    (lambda: r8(colour=dlbuf.Colour(256)), ValueError, "colour 256 does not fit 8 bits"),
    (lambda: dlbuf.find_format("NV12_4L4", "GStreamer"), ValueError,
     "'NV12_4L4' of GSTREAMER, but of V4L2; dlbuf.formats"),
    (lambda: dlbuf.alloc(4, "uint8", exporter=-1), TypeError,
     "an exporter is text, not -1"),
    (lambda: dlbuf.alloc(4, "uint8", name=b"x"), TypeError, "text, not b'x'"),
    (lambda: dlbuf.alloc(4, "uint8", 5.5), TypeError,
     "device is a sequence of Devices or names, not 5.5"),
    (lambda: dlbuf.from_fd(None, 4, "uint8"), TypeError,
     r"fd is an int or an object with fileno\(\), not None"),
    (lambda: dlbuf.from_fd(0, 4, "uint8", device=5), TypeError,
     "a device is a Device or a name, not 5"),
    (lambda: dlbuf.from_fd(0, 4, "uint8", access=1.5), TypeError,
     '"read", "write" or "rw", not 1.5'),
    (lambda: dlbuf.from_fd(0, 4, "uint8", access=99), ValueError, "access 99 is"),
    (lambda: dlbuf.from_fd(0, 4, "uint8", access=-1), ValueError, "access -1 is"),
    (lambda: dlbuf.from_fd(0, 4, "uint8", access=1 << 70), ValueError,
     f"access {1 << 70} is not READ"),
    (lambda: sent(None), TypeError, "several Tensors, not <class 'NoneType'>"),
    (lambda: sent([1]), TypeError, "several Tensors, not <class 'int'>"),
    (lambda: sent("x"), TypeError, "not <class 'str'>.*of an array"),
    (lambda: dlbuf.from_dlpack(b"abc").same_layout(b"abc"), TypeError,
     "compares two Tensors, and bytes is not one"),
])
def test_sentences_of_arguments(fails, kind, words):
    with pytest.raises(kind, match=words):
        fails()


def test_error_has_the_sentence_of_the_library():
    with pytest.raises(dlbuf.Error, match="is not a dma-buf but '/dev/null'"):
        with open("/dev/null") as f:
            dlbuf.from_fd(f.fileno(), (1,), "uint8")


def test_a_fence_is_not_cut_to_32_bits():
    for wrong in (1 << 32) - 1, -1 << 32:
        with pytest.raises(dlbuf.Error, match=f"{wrong} is no file descr"):
            dlbuf.from_frame([(0, 64)], 8, 8, "R8", fence=wrong)


def test_formats():
    f, code, space = dlbuf.find_format("nv12")
    assert (f.channels, code, space) == ("Y,UV", 0x3231564E,
                                         dlbuf.CodeSpace.DRM)
    assert f.planes[1] == (2, 8, 2, 2)
    assert dlbuf.View.LUMA in f.views and dlbuf.View.CFA not in f.views
    f, code, space = dlbuf.find_format("NV12M")
    assert space is dlbuf.CodeSpace.V4L2 and code == f.v4l2_multi_code
    # The same number, of two things.
    rg16 = int.from_bytes(b"RG16", "little")
    drm = dlbuf.find_format(rg16, dlbuf.CodeSpace.DRM)[0]
    v4l2 = dlbuf.find_format(rg16, dlbuf.CodeSpace.V4L2)[0]
    assert drm.drm_name == "RGB565" and v4l2.v4l2_name == "SRGGB16"
    assert drm.reason and not v4l2.reason
    assert len(dlbuf.formats()) > 300
    # libcamera's own: a modifier is packed Bayer's only difference.
    rg10 = int.from_bytes(b"RG10", "little")
    for modifier, name in (0, "SRGGB10"), (11 << 56 | 1, "SRGGB10P"):
        f, code, space = dlbuf.find_format(rg10, "libcamera", modifier)
        assert dlbuf.find_format("RG10", "libcamera", modifier)[0] is f
        assert (f.v4l2_name, code, space) == (name, rg10, dlbuf.CodeSpace.LIBCAMERA)
        got = dlbuf._frames.make_frame((64, 32, rg10, 3, modifier), (), (0,) * 4, 0,
                                       (0,) * 7, bytes(8))
        assert (got.format, got.channels) == (name, f.channels)


def refused(call, bad):
    with pytest.raises((TypeError, ValueError)) as e:
        call(bad)
    return str(e.value)


def frame(planes=((0, 8),), width=8, height=8, format="R8", **args):
    return dlbuf.from_frame(planes, width, height, format, **args)


def tensor():
    return dlbuf.from_dlpack(bytearray(6)).reshape(2, 3)


# A call of each argument, and the word by which its refusal names it.
ARGUMENTS = [
    (lambda x: dlbuf.from_fd(x, 8, "u1"), "fd"),
    (lambda x: dlbuf.from_fd(0, x, "u1"), "shape"),
    (lambda x: dlbuf.from_fd(0, (1, x), "u1"), "shape"),
    (lambda x: dlbuf.from_fd(0, 8, x), "dtype"),
    (lambda x: dlbuf.from_fd(0, 8, "u1", strides=x), "strides"),
    (lambda x: dlbuf.from_fd(0, 8, "u1", strides=[x]), "strides"),
    (lambda x: dlbuf.from_fd(0, 8, "u1", offset=x), "offset"),
    (lambda x: dlbuf.from_fd(0, 8, "u1", device=x), "device"),
    (lambda x: dlbuf.from_fd(0, 8, "u1", access=x), "access"),
    (lambda x: frame(x), "plane"), (lambda x: frame([(x, 8)]), "plane"),
    (lambda x: frame([(0, x)]), "plane"),
    (lambda x: frame([(0, 8, x)]), "plane"),
    (lambda x: frame(width=x), "width"), (lambda x: frame(height=x), "height"),
    (lambda x: frame(format=x), "format"), (lambda x: frame(space=x), "space"),
    (lambda x: frame(modifier=x), "modifier"),
    (lambda x: frame(view=x), "view"), (lambda x: frame(crop=x), "crop"),
    (lambda x: frame(crop=(0, 0, 1, x)), "crop"),
    (lambda x: frame(access=x), "access"), (lambda x: frame(fence=x), "fence"),
    (lambda x: frame(release=x), "release"),
    (lambda x: frame(device=x), "device"),
    (lambda x: dlbuf.alloc(x, "u1"), "shape"),
    (lambda x: dlbuf.alloc(1, x), "dtype"),
    (lambda x: dlbuf.alloc(1, "u1", x), "device"),
    (lambda x: dlbuf.alloc(1, "u1", [x]), "device"),
    (lambda x: dlbuf.alloc(1, "u1", strides=x), "strides"),
    (lambda x: dlbuf.alloc(1, "u1", exporter=x), "exporter"),
    (lambda x: dlbuf.alloc(1, "u1", name=x), "name"),
    (lambda x: dlbuf.alloc(1, "u1", v4l2=x), "v4l2"),
    (lambda x: dlbuf.alloc(1, "u1", v4l2=[x]), "v4l2"),
    (lambda x: dlbuf.Device(x), "name"),
    (lambda x: dlbuf.Device("cpu", max_idle=x), "max_idle"),
    (lambda x: dlbuf.Device("cpu").trim(x), "max_idle"),
    (lambda x: dlbuf.Device("cpu").paths(x), "fd"),
    (lambda x: dlbuf.Device("cpu").paths(access=x), "access"),
    (lambda x: dlbuf.Device.wrap_cuda(x), "context"),
    (lambda x: dlbuf.Device.wrap_gles(x), "display"),
    (lambda x: dlbuf.Device.wrap_levelzero(x, 1), "context"),
    (lambda x: dlbuf.Device.wrap_levelzero(1, x), "device"),
    (lambda x: dlbuf.Device.wrap_opencl(x), "context"),
    (lambda x: dlbuf.Device.wrap_opencl(1, x), "device"),
    (lambda x: dlbuf.Device.wrap_opencl(1, 1, x), "queue"),
    (lambda x: dlbuf.Device.wrap_vpi(x), "sock"),
    (lambda x: tensor().acquire(x), "access"),
    (lambda x: tensor().acquire(stream=x), "stream"),
    (lambda x: tensor().acquire(deadline=x), "deadline"),
    (lambda x: tensor().acquire(fence=x), "fence"),
    (lambda x: tensor().release(x), "stream"),
    (lambda x: tensor().vpi_send(x), "name"),
    (lambda x: tensor().vpi_send("a", deadline=x), "deadline"),
    (lambda x: tensor().reshape(x), "shape"),
    (lambda x: tensor().reshape(1, x), "shape"),
    (lambda x: tensor().transpose(x, 1), "dimensions"),
    (lambda x: tensor().permute(x, 1), "dimensions"),
    (lambda x: tensor().unsqueeze(x), "dim"),
    (lambda x: tensor().squeeze(x), "dim"), (lambda x: tensor().to(x), "device"),
    (lambda x: tensor().__dlpack__(stream=x), "stream"),
    (lambda x: tensor().__dlpack__(max_version=x), "max_version"),
    (lambda x: tensor().__dlpack__(dl_device=x), "dl_device"),
    (lambda x: tensor().__dlpack__(dl_device=(1, x)), "dl_device"),
    (lambda x: dlbuf.send(x, tensor()), "socket"),
    (lambda x: dlbuf.recv(x), "socket"),
    (lambda x: dlbuf.recv(0, device=x), "device"),
    (lambda x: dlbuf.recv(0, access=x), "access"),
    (lambda x: dlbuf.recv(0, view=x), "view"),
    (lambda x: dlbuf.share(None, x, 1, "u1"), "address"),
    (lambda x: dlbuf.share(None, 1, x, "u1"), "shape"),
    (lambda x: dlbuf.share(None, 1, 1, x), "dtype"),
    (lambda x: dlbuf.share(None, 1, 1, "u1", x), "strides"),
    (lambda x: dlbuf.share(None, 1, 1, "u1", device=x), "device"),
    (lambda x: dlbuf.share(None, 1, 1, "u1", device=(x, 0)), "device"),
    (lambda x: dlbuf.share(None, 1, 1, "u1", device=(1, x)), "device"),
    (lambda x: dlbuf.wrap(tensor(), x), "to_dlpack"),
    (lambda x: dlbuf.wrap(tensor(), device=x), "device"),
    (lambda x: dlbuf.find_format(x), "format"),
    (lambda x: dlbuf.find_format("NV12", space=x), "space"),
    (lambda x: dlbuf.Camera(x), "camera"),
    (lambda x: dlbuf.Camera(0, format=x), "format"),
    (lambda x: dlbuf.Camera(0, size=x), "size"),
    (lambda x: dlbuf.Camera(0, fps=x), "fps"),
    (lambda x: dlbuf.Camera(0, crop=x), "crop"),
    (lambda x: dlbuf.Camera(0, buffers=x), "buffers"),
    (lambda x: dlbuf.Camera(0, device=x), "device"),
    (lambda x: dlbuf.Camera(0, view=x), "view"),
    (lambda x: dlbuf.Camera(0, access=x), "access"),
    (lambda x: dlbuf.Camera(0, timeout=x), "timeout"),
    (lambda x: dlbuf.Camera(0, exporter=x), "exporter"),
]


@pytest.mark.parametrize("number", range(len(ARGUMENTS)))
def test_each_refusal_names_its_argument(number):
    call, word = ARGUMENTS[number]
    for bad in object(), 1.5j:
        assert re.search(rf"\b{word}s?\b", refused(call, bad)), word


@pytest.mark.parametrize("word", ["max_version", "dl_device"])
def test_pairs(word):
    for bad in (1.0, 0), (1, 0.0), (None, None), (1, None), (None, 0), ("1", "0"), (1,), (1, 0, 0), 1, "10":
        with pytest.raises(TypeError, match=rf"^{word} is a pair of integers"):
            tensor().__dlpack__(**{word: bad})
    for good in (1, 0), [1, 0], (dlbuf.DLDeviceType.CPU, 0), (Number(1), 0), (True, False):
        tensor().__dlpack__(**{word: good})


class Number(enum.Enum):
    ONE = 1


@pytest.mark.parametrize("call, word", [
    (lambda: dlbuf.from_fd(1 << 70, 1, "u1"), "fd"),
    (lambda: dlbuf.from_fd(0, 1 << 70, "u1"), "shape"),
    (lambda: dlbuf.from_fd(0, (1, 1 << 70), "u1"), "shape"),
    (lambda: dlbuf.from_fd(0, 1, "u1", offset=1 << 70), "offset"),
    (lambda: dlbuf.Device("cpu", max_idle=1 << 70), "max_idle"),
    (lambda: dlbuf.Device("cpu", max_idle=-1), "max_idle"),
    (lambda: dlbuf.Device("cpu").trim(1 << 32), "max_idle"),
    (lambda: dlbuf.share(None, 1 << 70, 1, "u1"), "address"),
    *((lambda n=n, i=i, call=call: call((n, 0)[::i]), "device")
      for call in (lambda d: dlbuf.share(None, 1, 1, "u1", device=d),
                   lambda d: dlbuf.from_dlpack(b"abc", device=d), lambda d: tensor().to(d))
      for n in (1 << 32 | 1, 1 << 70, -1 << 32) for i in (1, -1)),
    *((lambda n=n, i=i: tensor().__dlpack__(dl_device=(n, 0)[::i]), "dl_device")
      for n in (1 << 32 | 1, 1 << 40, 1 << 70, -1 << 32) for i in (1, -1)),
    *((lambda n=n, i=i: tensor().__dlpack__(max_version=(n, 1)[::i]), "max_version")
      for n in (1 << 32 | 1, 1 << 70) for i in (1, -1)),
    *((lambda part=part: sent_as(part), "frame") for part in (
        {"width": 1 << 32 | 4}, {"height": 1 << 32 | 4}, {"code": 1 << 32}, {"modifier": 1 << 64},
        {"crop": (0, 0, 1 << 32 | 4, 4)}, {"sequence": 1 << 64}, {"width": -1},
        {"planes": (dlbuf.Plane(0, 4, 1 << 64),)})),
])
def test_numbers_that_do_not_fit(call, word):
    with pytest.raises((OverflowError, ValueError), match=rf"\b{word}\b"):
        call()


def sent_as(part):
    """A frame whose record was changed by hand."""
    info = dlbuf.Frame(4, 4, "R8", 0x20203852, dlbuf.CodeSpace.DRM, 0, "Y", (dlbuf.Plane(0, 4),),
                       None, dlbuf.View.PLANES)
    frame = dlbuf.TensorFrame([tensor()], info._replace(view=dlbuf.View.LUMA, **part))
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with ours, theirs:
        dlbuf.send(ours, frame)


@pytest.mark.parametrize("call, says", [
    (lambda: frame(view="packed"), "no view 'packed': there are planes, colour, "
     "luma, components, cfa, stacked, words, rows, bytes"),
    (lambda: dlbuf.Camera(0, view="packed"), "there are planes, colour"),
    (lambda: frame(format="NV-12"), "near it: .*NV12.*formats\\(\\) lists all"),
    (lambda: frame(format="qqqqqq"), "dlbuf.formats\\(\\) lists all"),
    (lambda: frame(format=5, space="DRM"), "dlbuf.formats\\(\\) lists all"),
    (lambda: frame(format=5), 'say space="DRM" or "V4L2"'),
    (lambda: frame(space="VAAPI"), "DRM or V4L2 or LIBCAMERA"),
    (lambda: frame(format="NV12"), 'NV12 has 2 planes.*say space="V4L2"'),
    (lambda: frame(format="I420"), 'YUV420 has 3 planes.*say space="V4L2"'),
    (lambda: frame([], format="NV12"), "the frame has 0 planes"),
    (lambda: dlbuf.alloc(1, "u1", exporter="foo"),
     "named 'foo'; this library has udmabuf"),
    (lambda: dlbuf.Device("vulcan:0"), "this library has .*vulkan"),
    (lambda: dlbuf.dtype("unit8"), "there are bool, int8"),
])
def test_what_is_unknown_lists_what_there_is(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_names_equal():
    """A member that calls take by a name equals the name, too; and no other."""
    for x, name, other in (
            (dlbuf.Access.RW, "rw", "read"), (dlbuf.View.LUMA, "luma", "rows"),
            (dlbuf.CodeSpace.DRM, "DRM", "V4L2"), (dlbuf.Order.FENCE, "fence", "x"),
            (dlbuf.DLDeviceType.CPU_PINNED, "CUDA_HOST", "CUDA"),
            (dlbuf.Device("cpu"), "cpu", "vulkan:0")):
        assert x == name and name == x and not x != name
        assert x != other and not x == other and x != None   # noqa: E711
        assert x == x and x in [other, x] and len({x, x}) == 1
        assert x != object() and x == mock.ANY
    assert dlbuf.View.LUMA == 2 and dlbuf.View.LUMA in {2: 1}
    assert dlbuf.Access.RW == 3 != dlbuf.Access.READ


def test_a_device_equals_its_name():
    a, b = dlbuf.Device("cpu"), dlbuf.Device("cpu")
    assert a != b and len({a, b}) == 2 and hash(a) == hash("cpu")
    a.close()
    assert a == a.name == "cpu" and "closed" in repr(a) and a in {"cpu"}
    with pytest.raises(TypeError):
        a < "cpu"


def test_a_dtype_equals_those_of_others(np):
    for name in "uint8", "float32", "bool", "complex128":
        d = dlbuf.dtype(name)
        for x in getattr(np, name.replace("bool", "bool_")), np.dtype(name), name:
            assert d == x and x == d and not d != x and not x != d
            assert dlbuf.dtype("int16") != x and not dlbuf.dtype("int16") == x
    d = dlbuf.dtype("float64")
    assert d == float and d == (2, 64, 1) and d != int and d != None  # noqa: E711
    assert d != object() and d != 5 and d != np.float64(5) and d == mock.ANY
    assert not np.any(d == np.zeros(3))
    assert hash(d) == hash("float64") and {"float64": 1}[d] == 1
    assert dlbuf.dtype("bfloat16") != np.uint8 and dlbuf.dtype("float") == d


def test_devices():
    cpu = next(d for d in dlbuf.devices() if d.name == "cpu")
    assert cpu.device == (dlbuf.DLDeviceType.CPU, 0)
    assert (cpu.acquire, cpu.status) == ("blocks", 0)
    with dlbuf.Device("cpu") as d:
        assert d.name == "cpu" and d.info == cpu
        assert d.stats().tensors == 0
        d.trim()
    assert d.closed
    with pytest.raises(dlbuf.Error, match="closed"):
        d.stats()
    for name, _, status, reason in dlbuf.exporters():
        assert name and (not status) == (not reason)


def test_what_failed_to_be_made(monkeypatch):
    """Its end says nothing: the exception was the caller's."""
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    for args in (), (5,), (5, 0), (5, 0, 0, 0):
        with pytest.raises(TypeError):
            dlbuf.Exported(*args)
    dlbuf.Exported.__new__(dlbuf.Exported).close()
    gc.collect()
    assert not said, said


def test_protocols():
    t = dlbuf.from_dlpack(b"abc")
    assert isinstance(t, dlbuf.CanDLPack)
    assert isinstance(t, dlbuf.CanDLPackDevice)
    assert not isinstance(b"abc", dlbuf.CanDLPack)
    assert dlbuf.CanDLPack[dlbuf.DLDeviceType, int]


CUDA, ROCM, CPU, VULKAN = 2, 10, 1, 7


@pytest.mark.parametrize("device, stream, result", [
    (CPU, None, (0, True)), (CPU, -1, None), (CPU, 0, None), (CPU, 1, None),
    (CUDA, None, (1, True)), (CUDA, 1, (1, True)), (CUDA, 2, (2, True)),
    (CUDA, 0, None), (CUDA, -1, (0, False)), (CUDA, -2, None),
    (CUDA, 0x7F0012345678, (0x7F0012345678, True)),
    (ROCM, None, (0, True)), (ROCM, 0, (0, True)), (ROCM, 1, None),
    (ROCM, 2, None), (ROCM, -1, (0, False)), (ROCM, 3, (3, True)),
    (VULKAN, None, (0, False)), (VULKAN, 5, None),
])
def test_streams(device, stream, result):
    if result is None:
        with pytest.raises(ValueError):
            _dlbuf.check_stream(device, stream)
    else:
        assert _dlbuf.check_stream(device, stream) == result
