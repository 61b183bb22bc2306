# SPDX-License-Identifier: MIT
"""Types that need no library: DLPack's enums and the package's records."""

from __future__ import annotations

import enum
import functools
import importlib
import re
import sys
from typing import Any, NamedTuple

from ._errors import InvalidError


class _Named:
    """An enum that also equals its name, in which calls take it, too."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            members: Any = getattr(type(self), "__members__")
            return members.get(other.upper()) is self
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()


class _Enum(_Named, enum.IntEnum):
    """Its repr is Python code: View.LUMA."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class DLDeviceType(_Enum):
    """The kind of memory: DLDeviceType of DLPack, which has no 5 and 6.

    19 and above are newer than DLPack 1.3, and have no version of their own.

    >>> dlbuf.DLDeviceType(7)
    DLDeviceType.VULKAN
    """

    CPU = 1
    """memory of the CPU"""
    CUDA = 2
    """memory of an NVIDIA GPU"""
    CUDA_HOST = 3
    """memory of the CPU that cudaMallocHost() has pinned"""
    CPU_PINNED = 3
    """CUDA_HOST, as optype names it"""
    OPENCL = 4
    """a buffer of OpenCL, a cl_mem"""
    VULKAN = 7
    """a buffer of Vulkan, a VkBuffer"""
    METAL = 8
    """a buffer of Metal, of an Apple GPU"""
    VPI = 9
    """a buffer of a Verilog simulator"""
    ROCM = 10
    """memory of an AMD GPU"""
    ROCM_HOST = 11
    """memory of the CPU that hipHostMalloc() has pinned"""
    EXT_DEV = 12
    """memory of another kind of device"""
    CUDA_MANAGED = 13
    """memory that the CPU and CUDA share: cudaMallocManaged()"""
    ONE_API = 14
    """memory of oneAPI, e.g. of an Intel GPU"""
    WEBGPU = 15
    """a buffer of WebGPU"""
    HEXAGON = 16
    """memory of a Qualcomm Hexagon DSP"""
    MAIA = 17
    """memory of a Microsoft MAIA accelerator"""
    TRN = 18
    """memory of an AWS Trainium accelerator"""
    TPU = 19
    """memory of a Google TPU"""
    TPU_HOST = 20
    """memory of the CPU that is pinned for a TPU"""
    ASCEND = 21
    """memory of a Huawei Ascend accelerator"""


class DLDataTypeCode(_Enum):
    """The kind of an element: DLDataTypeCode of DLPack 1.3, and BCOMPLEX.

    >>> dlbuf.DLDataTypeCode(2)
    DLDataTypeCode.FLOAT
    """

    INT = 0
    """a signed integer"""
    UINT = 1
    """an unsigned integer"""
    FLOAT = 2
    """an IEEE 754 number"""
    OPAQUE_HANDLE = 3
    """a handle, whose bits have no meaning for arithmetic"""
    BFLOAT = 4
    """a bfloat: a float32 without its lower 16 bits"""
    COMPLEX = 5
    """a real and an imaginary number, each of half the bits"""
    BOOL = 6
    """a truth value in a byte"""
    FLOAT8_E3M4 = 7
    """a number of 8 bits: 3 of exponent, 4 of mantissa"""
    FLOAT8_E4M3 = 8
    """a number of 8 bits: 4 of exponent, 3 of mantissa"""
    FLOAT8_E4M3B11FNUZ = 9
    """a number of 8 bits: 4 of exponent, 3 of mantissa, no infinity"""
    FLOAT8_E4M3FN = 10
    """a number of 8 bits: 4 of exponent, 3 of mantissa, no infinity"""
    FLOAT8_E4M3FNUZ = 11
    """a number of 8 bits: 4 of exponent, 3 of mantissa, no infinity"""
    FLOAT8_E5M2 = 12
    """a number of 8 bits: 5 of exponent, 2 of mantissa"""
    FLOAT8_E5M2FNUZ = 13
    """a number of 8 bits: 5 of exponent, 2 of mantissa, no infinity"""
    FLOAT8_E8M0FNU = 14
    """a number of 8 bits: 8 of exponent, 0 of mantissa, no infinity"""
    FLOAT6_E2M3FN = 15
    """a number of 6 bits: 2 of exponent, 3 of mantissa, no infinity"""
    FLOAT6_E3M2FN = 16
    """a number of 6 bits: 3 of exponent, 2 of mantissa, no infinity"""
    FLOAT4_E2M1FN = 17
    """a number of 4 bits: 2 of exponent, 1 of mantissa, no infinity"""
    BCOMPLEX = 18
    """a real and an imaginary number, each a bfloat"""


class Access(_Named, enum.IntFlag):
    """A use of memory. Calls also take "read", "write" and "rw".

    >>> dlbuf.Access.READ in dlbuf.Access.RW, dlbuf.Access.READ == "read"
    (True, True)
    """

    READ = 1
    """the memory is read"""
    WRITE = 2
    """the memory is written"""
    RW = 3
    """the memory is read and written"""

    def __repr__(self) -> str:
        return f"Access.{self.name}" if self else "Access(0)"


class CodeSpace(_Enum):
    """The project that defines a format's code or name. The same number or name may mean
    different formats.

    >>> dlbuf.find_format("AYUV", "GStreamer")[0].channels
    'AYUV'
    >>> dlbuf.find_format("AYUV", dlbuf.CodeSpace.DRM)[0].channels
    'VUYA'
    """

    DRM = 1
    """the codes of drm_fourcc.h"""
    V4L2 = 2
    """the codes of videodev2.h"""
    LIBCAMERA = 3
    """the codes of libcamera, which are those of DRM and a few more"""
    GSTREAMER = 4
    """the names of GStreamer, which PipeWire has too: no codes"""
    FFMPEG = 5
    """the names of FFmpeg's pixel formats: no codes"""


class View(_Enum):
    """Which tensors to make of a frame. All views are strides over the same
    bytes. H and W are the frame's height and width in pixels.

    >>> t = dlbuf.alloc((6, 4), "uint8")
    >>> [y] = dlbuf.from_frame([(t.fd, 4), (t.fd, 4, 16)], 4, 4, "NV12",
    ...                        view="luma")
    >>> y.shape
    (4, 4)
    """

    PLANES = 0
    """a tensor per plane, in memory order: [H, W] for one value per pixel, [H,
    W, C] for packed formats; NV12: [H, W] and [H/2, W/2, 2]"""
    COLOUR = 1
    """one tensor [H, W, 3] of a packed format, without alpha or padding"""
    LUMA = 2
    """one tensor [H, W]: the luma of a format that has Y"""
    COMPONENTS = 3
    """a tensor per component, [H, W] or its subsampled size"""
    CFA = 4
    """one tensor [H/2, W/2, 2, 2]: the cells of a Bayer mosaic"""
    STACKED = 5
    """one tensor [rows, W] over all planes, [H*3/2, W] for NV12, as OpenCV
    takes it; the planes must follow one another with one pitch"""
    WORDS = 6
    """one tensor [H, W]: whole pixels as unsigned integers, e.g. RGB565"""
    ROWS = 7
    """a tensor per plane: the bytes of its rows"""
    BYTES = 8
    """a tensor [bytes] per plane: all its data, e.g. a JPEG"""


# DRM format modifiers: rows one after another, or unknown.
MOD_LINEAR = 0
MOD_INVALID = 0x00FFFFFFFFFFFFFF


class Clock(_Enum):
    """The clock of a frame's timestamp.

    >>> dlbuf.Clock(1)
    Clock.MONOTONIC
    """

    NONE = 0
    """the frame has no timestamp"""
    MONOTONIC = 1
    """that of time.monotonic()"""
    REALTIME = 2
    """that of time.time()"""
    BOOTTIME = 3
    """CLOCK_BOOTTIME, which also counts while the machine sleeps"""
    STREAM = 4
    """time since the stream began"""
    UNKNOWN = 5
    """the producer did not say"""


class Field(_Enum):
    """Which lines of a picture are in a frame.

    >>> dlbuf.Field(1)
    Field.NONE
    """

    UNKNOWN = 0
    """the producer did not say"""
    NONE = 1
    """all lines, taken at one time (progressive)"""
    TOP = 2
    """the top field only"""
    BOTTOM = 3
    """the bottom field only"""
    INTERLACED = 4
    """both fields, line by line; which is older is not known"""
    INTERLACED_TB = 5
    """both fields, line by line; the top field is older"""
    INTERLACED_BT = 6
    """both fields, line by line; the bottom field is older"""
    SEQ_TB = 7
    """the whole top field, then the whole bottom field"""
    SEQ_BT = 8
    """the whole bottom field, then the whole top field"""


class Order(_Enum):
    """The way in which a consumer knows that the pixels are complete.

    >>> dlbuf.Order(3)
    Order.FENCE
    """

    UNKNOWN = 0
    """the producer did not say"""
    COMPLETE = 1
    """the pixels were complete when the producer gave the frame"""
    IMPLICIT = 2
    """the fences of the dma-buf signal it"""
    FENCE = 3
    """a fence of the frame signals it"""


class Orientation(_Enum):
    """The change that makes a stored picture upright: value & 3 quarter turns clockwise, and with
    value & 4 then left and right exchanged. prepare() does it; tensors are of the
    stored picture.

    >>> dlbuf.Orientation(1)
    Orientation.TURN_90
    """

    NONE = 0
    """it is upright, or the producer did not say"""
    TURN_90 = 1
    """a quarter turn clockwise"""
    TURN_180 = 2
    """half a turn"""
    TURN_270 = 3
    """a quarter turn counter-clockwise"""
    FLIP_X = 4
    """left and right exchanged"""
    TRANSPOSE = 5
    """rows become columns"""
    FLIP_Y = 6
    """top and bottom exchanged"""
    TRANSVERSE = 7
    """TRANSPOSE and then TURN_180"""


class Colour(NamedTuple):
    """The meaning of the values, in code points of ITU-T H.273; those of matrix and
    chroma_site are plus 1, because H.273 uses 0: BT.709's matrix is 2. 0 means that the
    producer did not report it.

    >>> dlbuf.Colour(primaries=1, range=2)._asdict()["range"]
    2
    """

    primaries: int = 0
    """ColourPrimaries of H.273"""
    transfer: int = 0
    """TransferCharacteristics of H.273"""
    matrix: int = 0
    """MatrixCoefficients of H.273, plus 1"""
    range: int = 0
    """1: limited, 2: full"""
    chroma_site: int = 0
    """Chroma420SampleLocType of H.273, plus 1"""
    hue: int = 0
    """for HSV with 8 bits: 1 for 180 values a turn, 2 for 256"""


class Plane(NamedTuple):
    """A plane of a frame, for from_frame(), which also takes plain tuples.

    >>> dlbuf.Plane(fd=5, pitch=640)
    Plane(fd=5, pitch=640, offset=0, bytes=0)
    """

    fd: int
    """the dma-buf; borrowed, and -1 in a TensorFrame for a plane that no tensor
    shows"""
    pitch: int
    """bytes from one row to the next"""
    offset: int = 0
    """bytes from the beginning of the dma-buf to the plane"""
    bytes: int = 0
    """bytes of the plane; 0: to the end of the dma-buf"""


class Frame(NamedTuple):
    """The frame that a tensor is a part of: Tensor.frame, TensorFrame.info.

    >>> t = dlbuf.alloc((6, 4), "uint8")
    >>> y, uv = dlbuf.from_frame([(t.fd, 4), (t.fd, 4, 16)], 4, 4, "NV12")
    >>> uv.frame.width, uv.frame.format, uv.frame.space, uv.frame.view
    (4, 'NV12', CodeSpace.DRM, View.PLANES)
    """

    width: int
    """pixels of a row"""
    height: int
    """rows of the picture"""
    format: str
    """the name of the format in its code space"""
    code: int
    """the four-character code as a number"""
    space: CodeSpace
    """the project that defines the code"""
    modifier: int
    """the DRM modifier: MOD_LINEAR, or how the bytes are tiled"""
    channels: str
    """the values in memory order: "Y,UV", "BGRX", "YUYV"."""
    planes: tuple[Plane, ...]
    """the planes, with the fds that the producer gave"""
    crop: tuple[int, int, int, int] | None
    """the visible part: (x, y, width, height) in pixels; None: all"""
    view: View
    """which tensors were made of the frame"""
    # Further values of the camera or of the sender of the frame.
    sequence: int | None = None
    """the producer's count of frames, or None. A gap means lost frames"""
    timestamp_ns: int | None = None
    """when the picture was taken, in nanoseconds of clock, or None"""
    clock: Clock = Clock.NONE
    """the clock of timestamp_ns"""
    field: Field = Field.UNKNOWN
    """which lines of a picture the frame has"""
    order: Order = Order.UNKNOWN
    """how a consumer knows that the pixels are complete"""
    damaged: bool = False
    """whether the producer reported broken pixels"""
    colour: Colour = Colour()
    """the meaning of the values"""
    orientation: Orientation = Orientation.NONE
    """how to make the picture upright, which prepare() does"""

    @property
    def timestamp(self) -> float | None:
        """timestamp_ns in seconds: with Clock.MONOTONIC the time of
        time.monotonic(). None if there is no timestamp."""
        return None if self.timestamp_ns is None else self.timestamp_ns / 1e9


class DLDevice(NamedTuple):
    """A place of memory, as __dlpack_device__() returns it.

    >>> dlbuf.Device("cpu").info.device
    cpu
    >>> dlbuf.Device("cpu").info.device == (1, 0)
    True
    """

    device_type: DLDeviceType | int
    """the kind of memory; a plain int if DLPack 1.3 does not have it"""
    device_id: int
    """the number of the device among its kind"""

    def __repr__(self) -> str:
        return device_name(self.device_type, self.device_id)


class DeviceInfo(NamedTuple):
    """A device, as Device.info and devices() describe it.

    >>> info = dlbuf.Device("cpu").info
    >>> info.name, info.acquire, info.status
    ('cpu', 'blocks', 0)
    """

    name: str
    """the name that Device() takes"""
    backend: str
    """the part of the library that drives it: "cpu", "vulkan"."""
    description: str
    """the driver's name of the device"""
    driver: str
    """the driver and its version, or ""."""
    device: DLDevice
    """where its memory is, in DLPack's numbers"""
    uuid: bytes
    """16 bytes; zeros if the driver has none"""
    acquire: str
    """how acquire() waits. "fence": the device waits, the call does not block;
    "blocks": the calling thread waits"""
    release: str
    """how release() ends. "fence": the dma-buf gets a fence; "event": an event
    of the device signals the end; "blocks": the calling thread waits"""
    status: int
    """0, or the errno for which the device cannot be used"""
    reason: str
    """the error text of status; or why calls block that need not, or ""."""
    pitch_align: int
    """the best alignment of rows for this device, in bytes"""
    offset_align: int
    """the best alignment of planes for this device, in bytes"""


def make_device_info(*fields: Any) -> DeviceInfo:
    """The extension makes a DeviceInfo with this."""
    kind, number = fields[4]
    if kind in DLDeviceType.__members__.values():
        kind = DLDeviceType(kind)
    return DeviceInfo._make((*fields[:4], DLDevice(kind, number), *fields[5:]))


class PathInfo(NamedTuple):
    """A path by which a device may reach a dma-buf, as Device.paths() tried it.

    >>> dlbuf.Device("cpu").paths()[0].path
    'direct'
    """

    path: str
    """how: "direct", the device's API imports the dma-buf; "host", its pages are
    registered with the device; "bridge" and "copy", only with may_copy, the GPU
    or the CPU copies"""
    status: int
    """0, or the errno for which the path fails"""
    reason: str
    """the error text of status, or ""."""


class DeviceStats(NamedTuple):
    """Counts since a device was opened, from Device.stats().

    >>> dlbuf.Device("cpu").stats().copies
    0
    """

    hits: int
    """imports of a dma-buf that was imported before"""
    misses: int
    """imports that called the driver"""
    evictions: int
    """imports that the cache has dropped"""
    live: int
    """imports that have a tensor now"""
    idle: int
    """imports that the cache keeps without a tensor now"""
    live_bytes: int
    """bytes of the dma-bufs of live"""
    idle_bytes: int
    """bytes of the dma-bufs of idle"""
    tensors: int
    """tensors that exist now"""
    copies: int
    """frames that were copied into rows"""
    copied_bytes: int
    """bytes that these copies wrote"""


class FormatPlane(NamedTuple):
    """One plane of a format, in FormatInfo.planes.

    >>> dlbuf.find_format("NV12")[0].planes[1]
    FormatPlane(channels=2, bits=8, hsub=2, vsub=2)
    """

    channels: int
    """values of a group"""
    bits: int
    """bits of one value"""
    hsub: int
    """pixels of a group, horizontally"""
    vsub: int
    """pixels of a group, vertically"""


class FormatInfo(NamedTuple):
    """A pixel format: its names and codes, and its planes as tensors.

    >>> info = dlbuf.find_format("NV12")[0]
    >>> info.channels, info.dtype, info.v4l2_multi_name
    ('Y,UV', 'uint8', 'NV12M')
    """

    drm_name: str | None
    """the name in drm_fourcc.h, or None"""
    drm_code: int
    """the code in drm_fourcc.h, or 0"""
    v4l2_name: str | None
    """the name in videodev2.h, or None"""
    v4l2_code: int
    """the code in videodev2.h, or 0"""
    v4l2_multi_name: str | None
    """the name of V4L2's variant with a buffer per plane, or None"""
    v4l2_multi_code: int
    """the code of that variant, or 0"""
    planes: tuple[FormatPlane, ...]
    """the planes of the format"""
    dtype: str
    """the type of the elements, by name"""
    depth: int
    """significant bits of a value"""
    shift: int
    """unused bits below the value, in the element"""
    channels: str
    """the values in memory order: "Y,UV", "BGRX", "YUYV"."""
    views: tuple[View, ...]
    """the views that the format has"""
    reason: str | None
    """why the format is no tensor, or None"""


_BASES = {
    "int": DLDataTypeCode.INT,
    "uint": DLDataTypeCode.UINT,
    "float": DLDataTypeCode.FLOAT,
    "opaque": DLDataTypeCode.OPAQUE_HANDLE,
    "bfloat": DLDataTypeCode.BFLOAT,
    "complex": DLDataTypeCode.COMPLEX,
    "bcomplex": DLDataTypeCode.BCOMPLEX,
}
# Types with their number of bits in the name.
_WHOLE = {code.name.lower(): code for code in DLDataTypeCode
          if DLDataTypeCode.FLOAT8_E3M4 <= code <= DLDataTypeCode.FLOAT4_E2M1FN}
_OWN_BITS: dict[int, int] = {
    DLDataTypeCode.BOOL: 8, **{code: int(name[5]) for name, code in _WHOLE.items()}}
_DTYPE = re.compile(r"(?:(bool)|(float[864]_\w+?)|([a-z]+?)(\d+)|"
                    r"code(\d+):(\d+))(?:_?x(\d+))?$")
# NumPy's short names, of bytes: "u1", "<f4".
_SHORT = re.compile(r"([<>=|]?)([biufc])(\d+)$")
_KINDS = {"b": ("bool", (1,)), "i": ("int", (1, 2, 4, 8)),
          "u": ("uint", (1, 2, 4, 8)), "f": ("float", (2, 4, 8)),
          "c": ("complex", (8, 16))}
# Python's numbers, as NumPy has them.
_PYTHON = {bool: "bool", int: "int64", float: "float64",
           complex: "complex128"}
_ALIASES = {t.__name__: name for t, name in _PYTHON.items()} | {
    "half": "float16", "single": "float32", "double": "float64"}
_EINVAL, _LITTLE = 22, sys.byteorder == "little"


def _no_dtype(x: object) -> InvalidError:
    return InvalidError(
        _EINVAL, f"there is no dtype {x!r}: there are bool, int8 to int64, uint8 "
        "to uint64, float16 to float64, bfloat16, complex64, complex128, "
        f"{', '.join(_WHOLE)}, x and a number after one for lanes, and "
        "NumPy's \"u1\" and \"<f4\"")


def _checked(code: int, bits: int, lanes: int) -> tuple[int, int, int]:
    """DLPack's struct has 8, 8 and 16 bits for them, and some codes have one size."""
    if (not (0 <= code < 256 and 0 < bits < 256 and 0 < lanes < 65536) or
            bits != _OWN_BITS.get(code, bits)):
        raise InvalidError(_EINVAL, f"DLPack has no dtype of code {code}, {bits} "
                           f"bits, {lanes} lanes")
    return int(code), int(bits), int(lanes)


def _foreign_order(x: object) -> InvalidError:
    return InvalidError(_EINVAL,
                        f"DLPack has native byte order only, not {x!r}")


@functools.lru_cache(maxsize=256)
def _parse(name: str) -> tuple[int, int, int]:
    m = _SHORT.match(name)
    if m:
        (kind, sizes), size = _KINDS[m[2]], int(m[3])
        if size not in sizes:
            raise _no_dtype(name)
        if size > 1 and m[1] == (">" if _LITTLE else "<"):
            raise _foreign_order(name)
        name = kind if kind == "bool" else f"{kind}{8 * size}"
    name = _ALIASES.get(name, name)
    m = _DTYPE.match(name)
    if m:
        lanes = int(m[7] or 1)
        if m[1]:
            return _checked(DLDataTypeCode.BOOL, 8, lanes)
        if m[2] in _WHOLE:
            return _checked(_WHOLE[m[2]], _OWN_BITS[_WHOLE[m[2]]], lanes)
        if m[3] in _BASES:
            return _checked(_BASES[m[3]], int(m[4]), lanes)
        if m[5]:
            return _checked(int(m[5]), int(m[6]), lanes)
    raise _no_dtype(name)


def _numpy_name(x: type) -> str | None:
    """The name of NumPy's classes with other names: longlong, bool_."""
    np: Any = sys.modules.get("numpy")
    if np and issubclass(x, np.generic) and not x.__subclasses__():
        return str(np.dtype(x).name)
    return None


def _name_of(x: Any) -> str:
    """The dtype's name of what NumPy, PyTorch, JAX and others call a dtype, and
    of what has one."""
    if isinstance(x, type):
        if x in _PYTHON:
            return _PYTHON[x]
        name = _numpy_name(x)
        if name:
            return name
    # JAX's jnp.uint8, a scalar of NumPy's; not the descriptor of a class.
    inner = getattr(x, "dtype", None) or getattr(x, "__numpy_dtype__", None)
    if inner is not None and inner is not x and not hasattr(inner, "__get__"):
        return _name_of(inner)
    if isinstance(x, str):
        return x
    kind = getattr(x, "byteorder", "=")
    if isinstance(kind, str) and kind == (">" if _LITTLE else "<"):
        raise _foreign_order(x)
    # PyTorch, MLX and Paddle print theirs like this; Paddle's name is "UINT8".
    if type(x).__qualname__.lower() == "dtype" and str(x).startswith(type(x).__module__ + "."):
        return str(x)
    name = getattr(x, "name", None) or getattr(x, "__name__", None)
    if isinstance(name, str):
        return name
    raise TypeError(f"a dtype is a name, a DLPack triple, or a dtype of NumPy, "
                    f"PyTorch, JAX, MLX, Paddle or ml_dtypes, not {x!r}")


def parse_dtype(dtype: Any) -> tuple[int, int, int]:
    """DLPack's (code, bits, lanes) of any argument that dtype() takes."""
    if isinstance(dtype, (tuple, list)):
        try:
            code, bits, lanes = map(int, dtype)  # pyright: ignore
        except (TypeError, ValueError):
            raise TypeError("a dtype of DLPack is three numbers, (code, bits, "
                            f"lanes), not {dtype!r}") from None
        return _checked(code, bits, lanes)
    name = dtype if isinstance(dtype, str) else _name_of(dtype)
    # NumPy's long double is padded, or not IEEE's.
    if name is not dtype and name in ("float96", "float128"):
        raise _no_dtype(dtype)
    return _parse(str(name).rpartition(".")[2])


class DType(str):
    """The type of a tensor's elements: its name, and DLPack's numbers.

    It is a str, so that it can be compared with a name and used as one; its hash is
    the name's. It also equals a dtype of NumPy, PyTorch and others:

    >>> import numpy as np
    >>> t = dlbuf.alloc((4, 6), "uint8")
    >>> t.dtype == "uint8", t.dtype == np.uint8, t.dtype.bits, t.dtype.itemsize
    (True, True, 8, 1)

    DType(x) is dtype(x).
    """

    __slots__ = ()

    def __new__(cls, x: Any, /) -> DType:
        return str.__new__(cls, _name(*parse_dtype(x)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or other is None:
            return str.__eq__(self, other)
        if hasattr(other, "__array__") and not isinstance(other, type):
            return NotImplemented           # it has a dtype, and is none
        try:
            return parse_dtype(self) == parse_dtype(other)
        except (TypeError, ValueError):
            return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = str.__hash__

    @property
    def code(self) -> int:
        """DLPack's code of the kind of number, a DLDataTypeCode.

        >>> dlbuf.dtype("float32").code
        DLDataTypeCode.FLOAT
        """
        code = _parse(str(self))[0]
        return DLDataTypeCode(code) if code <= 17 else code

    @property
    def bits(self) -> int:
        """Bits of one value.

        >>> dlbuf.dtype("float4_e2m1fnx2").bits
        4
        """
        return _parse(str(self))[1]

    @property
    def lanes(self) -> int:
        """Values in one element; 1 but for vectors.

        >>> dlbuf.dtype("float4_e2m1fnx2").lanes
        2
        """
        return _parse(str(self))[2]

    @property
    def itemsize(self) -> int:
        """Bytes of one element, rounded up.

        >>> dlbuf.dtype("complex64").itemsize
        8
        """
        return (self.bits * self.lanes + 7) // 8

    @property
    def numpy(self) -> Any:
        """The numpy.dtype: NumPy's own, or one of ml_dtypes. TypeError if there
        is none, or the package that has it is not installed.

        >>> dlbuf.dtype("uint8").numpy
        dtype('uint8')
        """
        np: Any = importlib.import_module("numpy")
        if self in _NUMPY:
            return np.dtype(str(self))
        try:
            kind = getattr(importlib.import_module("ml_dtypes"), self, None)
        except ImportError:
            raise TypeError(f"NumPy has no dtype for {self} without the package "
                            "ml_dtypes, which is not installed") from None
        if kind is None:
            raise TypeError(f"neither NumPy nor ml_dtypes has a dtype for {self}")
        return np.dtype(kind)

    @property
    def __numpy_dtype__(self) -> Any:
        """For NumPy 2.4, which asks a dtype of another library for it: numpy."""
        return self.numpy


# The cameras of the same name.
_NUMPY = {"bool", "float16", "float32", "float64", "complex64", "complex128"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


def dtype(x: Any, /) -> DType:
    """Converts x to a DType; each argument `dtype` of dlbuf takes what this does.

    x is a name ("uint8", "bfloat16", "float4_e2m1fnx2" with two lanes), NumPy's
    short name ("u1", "<f4"), a Python type (float is float64, as in NumPy), a dtype
    or scalar type of NumPy, ml_dtypes, PyTorch, JAX, TensorFlow, MLX or Paddle,
    something with an attribute dtype, or DLPack's three numbers (code, bits, lanes).

    InvalidError: there is no such dtype, or its byte order is not the machine's.
    TypeError: x is no dtype.

    >>> dlbuf.dtype(float), dlbuf.dtype("<u2"), dlbuf.dtype((2, 32, 1))
    ('float64', 'uint16', 'float32')
    """
    return dtype_name(*parse_dtype(x))


def _name(code: int, bits: int, lanes: int) -> str:
    suffix = f"x{lanes}" if lanes != 1 else ""
    if code == DLDataTypeCode.BOOL:
        return "bool" + suffix
    for name, value in _WHOLE.items():
        if value == code:
            return name + suffix
    for name, value in _BASES.items():
        if value == code:
            return f"{name}{bits}{suffix}"
    return f"code{code}:{bits}{suffix}"


@functools.lru_cache(maxsize=256)
def dtype_name(code: int, bits: int, lanes: int) -> DType:
    """The DType of DLPack's numbers; the extension calls this."""
    return DType((code, bits, lanes))


# DLPack's devices by the names of dlbuf's, and of others.
_DEVICES = {kind.name.lower().replace("_", "-"): kind for kind in DLDeviceType}


def device_name(kind: int, number: int) -> str:
    """A device of DLPack as text: "cpu", "cuda:0"."""
    for name, value in _DEVICES.items():
        if value == kind:
            return name if kind == 1 and not number else f"{name}:{number}"
    return f"device ({kind}, {number})"


def device_pair(name: str) -> tuple[int, int]:
    """DLPack's pair of such a name; "hip" and "levelzero" are dlbuf's names."""
    kind, colon, number = name.partition(":")
    kind = {"hip": "rocm", "levelzero": "one-api"}.get(kind, kind)
    if kind not in _DEVICES or (colon and not number.isdecimal()):
        raise InvalidError(
            _EINVAL, f"{name!r} is no device of DLPack: give a name as \"cpu\" or "
            "\"cuda:0\", a dlbuf.Device, or DLPack's pair (type, number)")
    return _DEVICES[kind], int(number or 0)
