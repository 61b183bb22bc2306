# SPDX-License-Identifier: MIT
"""Types that need no library: DLPack's enums and the package's records."""

from __future__ import annotations

import enum
import functools
import re
from typing import Any, NamedTuple


class DLDeviceType(enum.IntEnum):
    """Where memory is: DLDeviceType of DLPack 1.3. 5 and 6 have no meaning."""

    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    OPENCL = 4
    VULKAN = 7
    METAL = 8
    VPI = 9
    ROCM = 10
    ROCM_HOST = 11
    EXT_DEV = 12
    CUDA_MANAGED = 13
    ONE_API = 14
    WEBGPU = 15
    HEXAGON = 16
    MAIA = 17
    TRN = 18


class DLDataTypeCode(enum.IntEnum):
    """What an element holds: DLDataTypeCode of DLPack 1.3."""

    INT = 0
    UINT = 1
    FLOAT = 2
    OPAQUE_HANDLE = 3
    BFLOAT = 4
    COMPLEX = 5
    BOOL = 6
    FLOAT8_E3M4 = 7
    FLOAT8_E4M3 = 8
    FLOAT8_E4M3B11FNUZ = 9
    FLOAT8_E4M3FN = 10
    FLOAT8_E4M3FNUZ = 11
    FLOAT8_E5M2 = 12
    FLOAT8_E5M2FNUZ = 13
    FLOAT8_E8M0FNU = 14
    FLOAT6_E2M3FN = 15
    FLOAT6_E3M2FN = 16
    FLOAT4_E2M1FN = 17


class Access(enum.IntFlag):
    """How memory is used."""

    READ = 1
    WRITE = 2
    RW = 3


class CodeSpace(enum.IntEnum):
    """Whose four-character codes a format is written in."""

    DRM = 1
    V4L2 = 2
    LIBCAMERA = 3


class View(enum.IntEnum):
    """What to make of a frame; all are strided views of the same bytes."""

    PLANES = 0
    COLOUR = 1
    LUMA = 2
    COMPONENTS = 3
    CFA = 4
    STACKED = 5
    WORDS = 6
    ROWS = 7
    BYTES = 8


# DRM format modifiers: rows one after another, or nobody knows.
MOD_LINEAR = 0
MOD_INVALID = 0x00FFFFFFFFFFFFFF


class Clock(enum.IntEnum):
    """Whose time a frame's timestamp is. STREAM: since the stream began."""

    NONE = 0
    MONOTONIC = 1
    REALTIME = 2
    BOOTTIME = 3
    STREAM = 4
    UNKNOWN = 5


class Field(enum.IntEnum):
    """Which lines of a picture are in a frame; NONE: it is progressive."""

    UNKNOWN = 0
    NONE = 1
    TOP = 2
    BOTTOM = 3
    INTERLACED = 4
    INTERLACED_TB = 5
    INTERLACED_BT = 6
    SEQ_TB = 7
    SEQ_BT = 8


class Order(enum.IntEnum):
    """What the producer said about when the pixels are there."""

    UNKNOWN = 0
    COMPLETE = 1
    IMPLICIT = 2
    FENCE = 3


class Colour(NamedTuple):
    """What the values mean, in code points of ITU-T H.273; 0: nobody said.

    matrix and chroma_site are one more than there, whose 0 means something.
    range: 1 limited, 2 full. hue, of HSV: 1 for 180 steps a turn, 2 for 256.
    """

    primaries: int = 0
    transfer: int = 0
    matrix: int = 0
    range: int = 0
    chroma_site: int = 0
    hue: int = 0


class Plane(NamedTuple):
    """A plane of a frame. offset and pitch in bytes; bytes 0: not said."""

    fd: int
    pitch: int
    offset: int = 0
    bytes: int = 0


class Frame(NamedTuple):
    """What a tensor of a frame is a part of."""

    width: int
    height: int
    format: str
    code: int
    space: CodeSpace
    modifier: int
    channels: str
    planes: tuple[Plane, ...]
    crop: tuple[int, int, int, int] | None
    view: View
    # What a camera, or who has sent the frame, says besides.
    sequence: int | None = None
    timestamp_ns: int | None = None
    clock: Clock = Clock.NONE
    field: Field = Field.UNKNOWN
    order: Order = Order.UNKNOWN
    damaged: bool = False
    colour: Colour = Colour()

    @property
    def timestamp(self) -> float | None:
        """timestamp_ns in seconds, to be compared with time.monotonic()."""
        return None if self.timestamp_ns is None else self.timestamp_ns / 1e9


class DeviceInfo(NamedTuple):
    """What a device is; status 0, or the errno for which it cannot be used."""

    name: str
    backend: str
    description: str
    driver: str
    device: tuple[int, int]
    uuid: bytes
    acquire: str
    release: str
    status: int
    reason: str
    pitch_align: int
    offset_align: int


class PathInfo(NamedTuple):
    """A path by which a device takes a dma-buf; status 0, or the errno for which
    it does not serve. "direct": its API takes the dma-buf; "host": its pages are
    registered; "bridge" and "copy", with may_copy: the GPU or the CPU copies."""

    path: str
    status: int
    reason: str


class DeviceStats(NamedTuple):
    """Counts since a device was opened."""

    hits: int
    misses: int
    evictions: int
    live: int
    idle: int
    live_bytes: int
    idle_bytes: int
    tensors: int
    copies: int
    copied_bytes: int


class FormatPlane(NamedTuple):
    """One plane of a format: values per group, bits of one, pixels a group."""

    channels: int
    bits: int
    hsub: int
    vsub: int


class FormatInfo(NamedTuple):
    """A pixel format: its names and codes, and its planes as tensors."""

    drm_name: str | None
    drm_code: int
    v4l2_name: str | None
    v4l2_code: int
    v4l2_multi_name: str | None
    v4l2_multi_code: int
    planes: tuple[FormatPlane, ...]
    dtype: str
    depth: int
    shift: int
    channels: str
    views: tuple[View, ...]
    reason: str | None


_BASES = {
    "int": DLDataTypeCode.INT,
    "uint": DLDataTypeCode.UINT,
    "float": DLDataTypeCode.FLOAT,
    "opaque": DLDataTypeCode.OPAQUE_HANDLE,
    "bfloat": DLDataTypeCode.BFLOAT,
    "complex": DLDataTypeCode.COMPLEX,
}
# Those whose name says how many bits they have.
_WHOLE = {code.name.lower(): code for code in DLDataTypeCode
          if code >= DLDataTypeCode.FLOAT8_E3M4}
_DTYPE = re.compile(r"(?:(bool)|(float[864]_\w+?)|([a-z]+?)(\d+))(?:x(\d+))?$")


def _checked(code: int, bits: int, lanes: int) -> tuple[int, int, int]:
    """DLPack's struct has 8, 8 and 16 bits for them."""
    if not (0 <= code < 256 and 0 < bits < 256 and 0 < lanes < 65536):
        raise ValueError(f"DLPack has no dtype of code {code}, {bits} bits, "
                         f"{lanes} lanes")
    return int(code), int(bits), int(lanes)


@functools.lru_cache(maxsize=256)
def _parse(name: str) -> tuple[int, int, int]:
    m = _DTYPE.match(name)
    if m:
        lanes = int(m[5] or 1)
        if m[1]:
            return _checked(DLDataTypeCode.BOOL, 8, lanes)
        if m[2] in _WHOLE:
            return _checked(_WHOLE[m[2]], int(name[5]), lanes)
        if m[3] in _BASES:
            return _checked(_BASES[m[3]], int(m[4]), lanes)
    raise ValueError(f"there is no dtype {name!r}")


def parse_dtype(dtype: Any) -> tuple[int, int, int]:
    """DLPack's (code, bits, lanes) of a name, or of what has one.

    "uint8", "float4_e2m1fnx2" (two lanes), numpy.uint8, numpy.dtype("u1"),
    torch.uint8, ml_dtypes.bfloat16, or the three numbers.
    """
    if isinstance(dtype, str):
        return _parse(dtype)
    if type(dtype) is tuple:
        code: Any
        code, bits, lanes = dtype  # pyright: ignore[reportUnknownVariableType]
        return _checked(int(code), int(bits), int(lanes))  # pyright: ignore
    kind = getattr(dtype, "byteorder", "=")
    if kind not in ("=", "|", "<" if _LITTLE else ">"):
        raise ValueError(f"DLPack has native byte order only, not {dtype!r}")
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return _parse(str(name or dtype).rpartition(".")[2])


_LITTLE = memoryview((1).to_bytes(4, "little")).cast("I")[0] == 1


@functools.lru_cache(maxsize=256)
def dtype_name(code: int, bits: int, lanes: int) -> str:
    """The name that parse_dtype() takes."""
    suffix = f"x{lanes}" if lanes != 1 else ""
    if code == DLDataTypeCode.BOOL and bits == 8:
        return "bool" + suffix
    for name, value in _WHOLE.items():
        if value == code:
            return name + suffix
    for name, value in _BASES.items():
        if value == code:
            return f"{name}{bits}{suffix}"
    return f"code{code}:{bits}{suffix}"
