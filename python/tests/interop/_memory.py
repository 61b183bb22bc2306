# SPDX-License-Identifier: MIT
"""Memory whose every byte is known: dtypes, layouts, and a producer that
counts how often its deleter is called."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from dlbuf._types import parse_dtype  # pyright: ignore[reportPrivateUsage]

# ------------------------------------------------------------------ DLPack


class DLTensor(ctypes.Structure):
    """Of dlpack.h. code, bits and lanes are its DLDataType."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Legacy(ctypes.Structure):
    """DLManagedTensor."""


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""


LEGACY_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Legacy))
DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
Legacy._fields_ = [("dl", DLTensor), ("ctx", ctypes.c_void_p),
                   ("deleter", LEGACY_DELETER)]
Versioned._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                      ("ctx", ctypes.c_void_p), ("deleter", DELETER),
                      ("flags", ctypes.c_uint64), ("dl", DLTensor)]

READ_ONLY = 1

# Not ctypes.pythonapi, whose functions everybody shares, types and all.
py: Any = ctypes.PyDLL(None)
py.PyCapsule_New.restype = ctypes.py_object
py.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
py.PyCapsule_GetPointer.restype = ctypes.c_void_p
py.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
py.PyCapsule_GetName.restype = ctypes.c_char_p
py.PyCapsule_GetName.argtypes = [ctypes.py_object]

NAMES = (b"dltensor_versioned", b"dltensor")


def tensor_of(capsule: Any) -> DLTensor:
    """The DLTensor in a capsule, borrowed."""
    name: bytes = py.PyCapsule_GetName(capsule)
    kind = Versioned if name == NAMES[0] else Legacy
    dl: DLTensor = kind.from_address(
        py.PyCapsule_GetPointer(capsule, name)).dl
    return dl


class Producer:
    """Memory behind both kinds of capsules; counts its deletions.

    One capsule at a time: the struct is the object's. A capsule that nobody
    consumed deletes nothing, because a destructor cannot be written in Python.
    """

    # Capsules do not keep the object, and consumers call its deleter. Not let
    # go of before the next one is made: the call has to return.
    _handed_out: list[Producer] = []

    def __init__(self, address: int, shape: Sequence[int],
                 strides: Sequence[int] | None, dtype: tuple[int, int, int], *,
                 owner: object = None, versioned: bool = True, major: int = 1,
                 flags: int = 0, device: tuple[int, int] = (1, 0)) -> None:
        n = len(shape)
        self.owner = owner
        self.deleted: int = 0
        self._handed_out[:] = [p for p in self._handed_out if not p.deleted]
        self.asked: list[dict[str, Any]] = []
        self.device = device
        self._shape = (ctypes.c_int64 * n)(*shape)
        self._strides = (ctypes.c_int64 * n)(*(strides or ()))
        dl = DLTensor(
            data=address, ndim=n, code=dtype[0], bits=dtype[1], lanes=dtype[2],
            shape=self._shape,
            strides=None if strides is None else self._strides)
        dl.device[:] = device
        self.name = NAMES[0 if versioned else 1]
        self.managed: Versioned | Legacy
        if versioned:
            self._deleter: Any = DELETER(self._delete)
            self.managed = Versioned(major=major, minor=0, flags=flags, dl=dl,
                                     deleter=self._deleter)
        else:
            self._deleter = LEGACY_DELETER(self._delete)
            self.managed = Legacy(dl=dl, deleter=self._deleter)

    def _delete(self, _: Any) -> None:
        self.deleted += 1

    def capsule(self) -> Any:
        self._handed_out.append(self)
        return py.PyCapsule_New(ctypes.addressof(self.managed), self.name,
                                None)

    def __dlpack__(self, **wishes: Any) -> Any:
        self.asked.append(wishes)
        if self.name == NAMES[1] and wishes:
            raise TypeError("unexpected keyword argument")
        return self.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


# ------------------------------------------------------------------ dtypes

def _mini_float(value: int, exponent: int, mantissa: int, bias: int) -> int:
    """The bits of a whole number, with so many bits of each, no sign."""
    e = int(math.log2(value))
    m = (value / 2 ** e - 1) * 2 ** mantissa
    assert m == int(m) and e + bias < 2 ** exponent
    return (e + bias) << mantissa | int(m)


class DType(NamedTuple):
    """A dtype, its values as Python has them, and their bytes, in turn.

    Element k of memory holds value (k + round) % len(values) of round 0, 1,
    or 2, so that every write changes what is there.
    """

    name: str
    values: tuple[Any, ...]
    encoded: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return len(self.encoded[0])

    def bytes_of(self, count: int, round: int) -> bytes:
        n = len(self.encoded)
        return b"".join(self.encoded[(k + round) % n] for k in range(count))

    def value_of(self, index: int, round: int) -> Any:
        return self.values[(index + round) % len(self.values)]

    def decode(self, data: bytes) -> Any:
        try:
            return self.values[self.encoded.index(data)]
        except ValueError:
            return data.hex()


def _order(number: int, size: int) -> bytes:
    return memoryview(number.to_bytes(size, "little")).tobytes() \
        if _LITTLE else number.to_bytes(size, "big")


_LITTLE = memoryview((1).to_bytes(4, "little")).cast("I")[0] == 1
# Bits of exponent and mantissa, bias, of what is no struct format.
_FLOATS = {
    "float16": (5, 10, 15), "float32": (8, 23, 127), "float64": (11, 52, 1023),
    "bfloat16": (8, 7, 127),
    "float8_e3m4": (3, 4, 3), "float8_e4m3": (4, 3, 7),
    "float8_e4m3fn": (4, 3, 7), "float8_e4m3fnuz": (4, 3, 8),
    "float8_e4m3b11fnuz": (4, 3, 11), "float8_e5m2": (5, 2, 15),
    "float8_e5m2fnuz": (5, 2, 16),
}


def _dtype(name: str) -> DType:
    code, bits, lanes = parse_dtype(name)
    size = bits * lanes // 8
    if name == "bool":
        return DType(name, (True, False, False), (b"\1", b"\0", b"\0"))
    if name in _FLOATS:
        # Whole numbers that the shortest of them has.
        whole = range(1, 8 if size == 1 else 98)
        return DType(name, tuple(float(v) for v in whole), tuple(
            _order(_mini_float(v, *_FLOATS[name]), size) for v in whole))
    if name.startswith("complex"):
        part = _dtype(f"float{bits // 2}")
        n = len(part.values)
        return DType(name, tuple(complex(part.values[i], part.values[i - 1])
                                 for i in range(n)),
                     tuple(part.encoded[i] + part.encoded[i - 1]
                           for i in range(n)))
    if name == "float8_e8m0fnu":
        return DType(name, tuple(2.0 ** i for i in range(7)),
                     tuple(bytes([127 + i]) for i in range(7)))
    if code > 1:
        # Two halves in a byte: its value is its byte.
        return DType(name, tuple(range(17, 24)),
                     tuple(bytes([i]) for i in range(17, 24)))
    # Every byte of it says which element it is.
    numbers = [int.from_bytes(bytes([i]) * size, "little")
               for i in range(1, 98)]
    return DType(name, tuple(numbers), tuple(_order(v, size) for v in numbers))


COMMON = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32",
          "uint64", "int64", "float16", "float32", "float64", "complex64",
          "complex128")
DTYPES = {name: _dtype(name) for name in (
    *COMMON, "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fnx2")}

# ------------------------------------------------------------------ layouts


EXTENT = 24     # elements of the memory that a layout is a view of


class Layout(NamedTuple):
    """A strided view of memory; all in elements."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    read_only: bool = False

    @property
    def compact(self) -> bool:
        """Rows one after another from the start: a layout that any library can make."""
        return not self.offset and (self.strides == self.rows() or
                                    0 in self.shape)

    def rows(self) -> tuple[int, ...]:
        strides: list[int] = []
        n = 1
        for size in reversed(self.shape):
            strides.insert(0, n)
            n *= size
        return tuple(strides)

    def indices(self) -> list[int]:
        """Which element of memory each of its elements is, in order."""
        at = [self.offset]
        for size, stride in zip(self.shape, self.strides):
            at = [i + j * stride for i in at for j in range(size)]
        return at

    def values(self, dtype: DType, round: int) -> list[Any]:
        return [dtype.value_of(i, round) for i in self.indices()]


LAYOUTS = {layout.name: layout for layout in (
    Layout("contiguous", (3, 4), (4, 1)),
    Layout("padded pitch", (3, 4), (6, 1)),
    Layout("every second", (3, 4), (8, 2)),
    Layout("transposed", (4, 3), (1, 4)),
    Layout("reversed", (3, 4), (-4, 1), 8),
    Layout("zero stride", (3, 4), (0, 1)),
    Layout("offset", (3, 4), (4, 1), 5),
    Layout("read-only", (3, 4), (4, 1), 0, True),
    Layout("zero-dim", (), ()),
    Layout("zero-size", (0, 4), (4, 1)),
)}


class Block:
    """Memory of a layout, aligned as frameworks align theirs."""

    ALIGN = 256

    def __init__(self, dtype: DType, layout: Layout) -> None:
        self.dtype, self.layout = dtype, layout
        size = EXTENT * dtype.size
        self.raw = (ctypes.c_uint8 * (size + self.ALIGN))()
        start = ctypes.addressof(self.raw)
        self.address = (start + self.ALIGN - 1) // self.ALIGN * self.ALIGN
        self.write(0)

    def write(self, round: int) -> None:
        poke(self.address, self.dtype.bytes_of(EXTENT, round))

    def everything(self) -> list[Any]:
        return peek(self.address, (EXTENT,), (1,), self.dtype)

    def producer(self, versioned: bool = True) -> Producer:
        view = self.layout
        return Producer(self.address + view.offset * self.dtype.size
                        if 0 not in view.shape else 0,
                        view.shape, view.strides, parse_dtype(self.dtype.name),
                        owner=self.raw, versioned=versioned,
                        flags=READ_ONLY if view.read_only else 0)


def poke(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))


def peek(address: int, shape: Sequence[int], strides: Sequence[int],
         dtype: DType) -> list[Any]:
    """The elements there, in order; strides in elements."""
    at = Layout("", tuple(shape), tuple(strides)).indices()
    return [dtype.decode(ctypes.string_at(address + i * dtype.size,
                                          dtype.size)) for i in at]


def peek_dlpack(obj: Any, dtype: DType) -> tuple[int, list[Any]]:
    """Address and elements of any producer of capsules."""
    try:
        capsule = obj.__dlpack__(max_version=(1, 3))
    except TypeError:
        capsule = obj.__dlpack__()
    dl = tensor_of(capsule)
    address = (dl.data or 0) + dl.byte_offset
    shape = tuple(dl.shape[i] for i in range(dl.ndim))
    strides = (tuple(dl.strides[i] for i in range(dl.ndim)) if dl.strides
               else Layout("", shape, ()).rows())
    return address, peek(address, shape, strides, dtype)
