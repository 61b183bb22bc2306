# SPDX-License-Identifier: MIT
"""What needs no memory: enums, dtypes, errors, formats, protocols."""

import errno

import pytest

import dlbuf
from dlbuf import _dlbuf, _types


def test_enums_are_those_of_dlpack_1_3():
    assert [d.value for d in dlbuf.DLDeviceType] == [
        1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]
    assert [c.value for c in dlbuf.DLDataTypeCode] == list(range(18))
    assert dlbuf.DLDeviceType(14) is dlbuf.DLDeviceType.ONE_API
    assert dlbuf.DLDataTypeCode["FLOAT8_E8M0FNU"] == 14


@pytest.mark.parametrize("name, numbers", [
    ("uint8", (1, 8, 1)), ("int64", (0, 64, 1)), ("float16", (2, 16, 1)),
    ("bfloat16", (4, 16, 1)), ("complex64", (5, 64, 1)), ("bool", (6, 8, 1)),
    ("opaque64", (3, 64, 1)), ("uint8x4", (1, 8, 4)),
    ("float8_e4m3fn", (10, 8, 1)), ("float8_e4m3b11fnuz", (9, 8, 1)),
    ("float6_e3m2fn", (16, 6, 1)), ("float4_e2m1fnx2", (17, 4, 2)),
])
def test_dtypes(name, numbers):
    assert _types.parse_dtype(name) == numbers
    assert _types.parse_dtype(numbers) == numbers
    assert _types.dtype_name(*numbers) == name


@pytest.mark.parametrize("bad", ["uint8x70000", "uint8x0", "uint256", "int0",
                                 "uint", "", (1, 8, 65536),
                                 (-1, 8, 1), (1, 256, 1)])
def test_no_dtypes(bad):
    with pytest.raises(ValueError):
        _types.parse_dtype(bad)


def test_dtypes_of_numpy(np):
    assert _types.parse_dtype(np.uint8) == (1, 8, 1)
    assert _types.parse_dtype(np.dtype("f4")) == (2, 32, 1)
    assert _types.parse_dtype(np.dtype(bool)) == (6, 8, 1)
    with pytest.raises(ValueError, match="native byte order"):
        _types.parse_dtype(np.dtype("f4").newbyteorder())
    with pytest.raises(ValueError, match="there is no dtype"):
        _types.parse_dtype("datetime")


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
    (lambda: dlbuf.Device("cpu", bridge=False), (ValueError,),
     errno.EINVAL),
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


def test_error_has_the_sentence_of_the_library():
    with pytest.raises(dlbuf.Error, match="is not a dma-buf but '/dev/null'"):
        with open("/dev/null") as f:
            dlbuf.from_fd(f.fileno(), (1,), "uint8")


def test_a_fence_is_not_cut_to_32_bits():
    for wrong in (1 << 32) - 1, -1 << 32:
        with pytest.raises(dlbuf.Error, match=f"{wrong} is no file descr"):
            dlbuf.from_frame([(0, 64)], 8, 8, "R8", fence=wrong)


def test_errors_of_each_errno():
    assert issubclass(dlbuf.DeadlineError, TimeoutError)
    assert issubclass(dlbuf.AccessError, PermissionError)
    assert issubclass(dlbuf.UnsupportedError, BufferError)
    assert issubclass(dlbuf.InvalidError, ValueError)


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
