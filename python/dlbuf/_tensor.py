# SPDX-License-Identifier: MIT
"""Methods of Tensor that need no speed: conversions, and refusals."""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Callable
from numbers import Number
from typing import Any, NoReturn

from . import _dlbuf, _views  # pyright: ignore[reportPrivateUsage]
from ._consumers import (
    _device_pair,  # pyright: ignore[reportPrivateUsage]
    from_dlpack)
from ._dlbuf import Device, Tensor
from ._errors import InvalidError, UnsupportedError
from ._types import DLDataTypeCode, DLDeviceType, DType, device_name

_EINVAL, _EOPNOTSUPP = 22, 95
# A plain int: an enum compares in Python.
_CPU = int(DLDeviceType.CPU)
_TORCH = {DLDeviceType.CPU, DLDeviceType.CUDA, DLDeviceType.ROCM,
          DLDeviceType.ONE_API}
# Data of these is a handle, not an address.
_HANDLES = {DLDeviceType.VULKAN, DLDeviceType.OPENCL}
# The docstrings stand in _dlbuf.pyi, as those of methods in C do.
_DOCS = {signature.partition("(")[0]: doc for signature, _, doc in (
    d.partition("\n--\n\n") for d in _dlbuf.docs)}
# The codes of the struct module.
_CODES = {"bool": "?", "float16": "e", "float32": "f", "float64": "d",
          "complex64": "2f", "complex128": "2d"} | {
    f"{sign}int{8 * size}": code.upper() if sign else code
    for size, code in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))
    for sign in ("", "u")}


def _on_cpu(t: Tensor) -> Tensor:
    """t where the CPU reaches it: itself, or its dma-buf mapped for reading and,
    if t allows it, writing."""
    if t.__dlpack_device__()[0] == _CPU:
        return t
    return from_dlpack(t, device=(DLDeviceType.CPU, 0))


def _retype(t: Tensor) -> Tensor:
    """The same bytes as unsigned integers of the same size."""
    return _dlbuf.view(t, t.shape, t.strides, f"uint{8 * t.dtype.itemsize}")


@functools.lru_cache(maxsize=64)
def _array_of(dtype: DType) -> tuple[Callable[[Tensor], Any], Any]:
    """np.asarray, and the dtype of NumPy where it takes that for bytes only."""
    np: Any = importlib.import_module("numpy")
    kind = dtype.numpy
    return np.asarray, None if kind.kind != "V" and kind.isbuiltin == 1 else kind


def numpy(self: Tensor) -> Any:
    asarray, kind = _array_of(self.dtype)
    t = _on_cpu(self)
    return asarray(t) if kind is None else asarray(_retype(t)).view(kind)


def torch(self: Tensor) -> Any:
    kind, number = self.__dlpack_device__()
    if _dlbuf.cpu_reaches(kind):
        self = _on_cpu(self)            # PyTorch has no pinned memory in DLPack
    elif kind not in _TORCH:
        raise UnsupportedError(_EOPNOTSUPP, "PyTorch has no tensors on "
                               f"{device_name(kind, number)}: "
                               "t.to(\"cpu\").torch() has the same memory")
    # PyTorch 2.6 and 2.12 end the process for a negative stride.
    if any(s < 0 for n, s in zip(self.shape, self.strides) if n > 1):
        raise UnsupportedError(_EOPNOTSUPP, "PyTorch has no negative strides: "
                               "t.copy().torch() has a copy")
    # Strides of dimensions of one element mean nothing.
    if 1 in self.shape:
        self = self.reshape(self.shape)
    torch: Any = importlib.import_module("torch")
    if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        return _dlbuf.exchange(self, torch.Tensor)
    return torch.from_dlpack(self)


def copy(self: Tensor) -> Tensor:
    return from_dlpack(self, device=(DLDeviceType.CPU, 0), copy=True)


def contiguous(self: Tensor) -> Tensor:
    packed, step = True, 1
    for n, stride in zip(reversed(self.shape), reversed(self.strides)):
        packed = packed and (n == 1 and stride >= 0 or stride == step)
        step *= n
    start = self.byte_offset
    if self.__dlpack_device__()[0] not in _HANDLES:
        start += self.data
    return self if packed and not start % 64 or not step else self.copy()


def to(self: Tensor, device: Device | str, may_copy: bool = False) -> Tensor:
    if self.buffer is not None:
        return _dlbuf.to(self, device, may_copy)
    here, there = self.__dlpack_device__(), _device_pair(device)
    if there == here:
        return self.share()
    if there == (DLDeviceType.CPU, 0) and _dlbuf.cpu_reaches(here[0]):
        return _on_cpu(self)
    raise UnsupportedError(_EOPNOTSUPP, "the tensor is not of a dma-buf, which "
                           "another device could import: copy it into one of "
                           "dlbuf.alloc(shape, dtype, device)")


def same_layout(self: Tensor, other: Any, /) -> bool:
    if not isinstance(other, Tensor):
        raise TypeError("same_layout() compares two Tensors, and "
                        f"{type(other).__name__} is not one: dlbuf.from_dlpack() "
                        "makes one of an array")
    return ((self.shape, self.strides, self.dtype) ==
            (other.shape, other.strides, other.dtype))


def item(self: Tensor) -> Any:
    if self.size != 1:
        raise InvalidError(_EINVAL, f"item() is for one element, not "
                           f"{self.size}: t.numpy().tolist() has them all")
    code = _CODES.get(self.dtype)
    if self.dtype == "bfloat16":
        upper = _retype(self).item()
        return struct.unpack("f", struct.pack("I", upper << 16))[0]
    if code is None:
        return self.numpy().item()
    with memoryview(_on_cpu(self)) as m:
        values = struct.unpack(code, m.tobytes())
    return values[0] if len(values) == 1 else complex(*values)


def tobytes(self: Tensor) -> bytes:
    t = _on_cpu(self)
    if t.dtype not in _CODES:           # the buffer protocol has no format for it
        c = copy(t)
        t = _dlbuf.from_memory(c, c.data + c.byte_offset, (c.nbytes,), "uint8", None, True, (1, 0))
    with memoryview(t) as m:
        return m.tobytes()


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    np: Any = importlib.import_module("numpy")
    kind, number = self.__dlpack_device__()
    if not _dlbuf.cpu_reaches(kind) and self.buffer is not None:
        raise UnsupportedError(
            _EOPNOTSUPP, f"the tensor is on {device_name(kind, number)}, not in "
            "the CPU's memory: t.numpy() maps its dma-buf for the CPU")
    if self.dtype not in _CODES and _dlbuf.cpu_reaches(kind):
        # JAX, which has bfloat16, asks like this.
        if dtype is not None and np.dtype(dtype).name == self.dtype:
            return self.numpy().copy() if copy else self.numpy()
        raise UnsupportedError(
            _EOPNOTSUPP, f"NumPy has no dtype {self.dtype} of its own: t.numpy() "
            "gives one of the package ml_dtypes")
    array = np.asarray(memoryview(self), dtype)
    return array.copy() if copy else array


def _number(call: type, instead: str) -> Callable[[Tensor], Any]:
    """The method of int(t) or another one. Without it Python would read the bytes as
    text."""
    name = call.__name__

    def number(self: Tensor) -> Any:
        if self.size != 1:
            raise TypeError(f"{name}() is for a tensor of one element, and this "
                            f"one has {self.size}: {instead}")
        value = self.item()
        if isinstance(value, complex) and call in (int, float):
            raise TypeError(f"{name}() of a {self.dtype}: complex(t) is its "
                            "value")
        return call(value)

    number.__name__ = f"__{name}__"
    return number


def __index__(self: Tensor) -> Any:
    # As NumPy: bytearray(x) counts if x is an index, and has its bytes if not.
    if self.ndim or self.dtype.code not in (DLDataTypeCode.INT,
                                            DLDataTypeCode.UINT):
        raise TypeError("an integer is a tensor without dimensions, of an integer "
                        f"type, not of the shape {self.shape} and {self.dtype}: "
                        "int(t) is the value of one element")
    return self.item()


def __bytes__(self: Tensor) -> bytes:
    return self.tobytes()


def _comparison(sign: str, name: str, mirror: str
                ) -> Callable[[Tensor, object], Any]:
    """The method of t == x or another one. Elements are not compared, and False for
    "not the same object" would be read as an answer about them."""
    def compare(self: Tensor, other: object, /) -> Any:
        cls: Any = type(other)
        if isinstance(other, Tensor):
            if name in ("__eq__", "__ne__"):
                return NotImplemented           # the same object, or not
        elif hasattr(cls, "__array__") or hasattr(cls, "__dlpack__"):
            result = getattr(cls, mirror)(other, self)
            if result is not NotImplemented:
                return result                   # NumPy compares each element
        elif not isinstance(other, (Number, list, tuple, bytes, bytearray,
                                    memoryview)):
            return NotImplemented
        raise TypeError(
            f"a Tensor's elements have no {sign}: compare "
            f"numpy.from_dlpack(t), or t.item() of one element; t is u, "
            "t.same_layout(u) and t.buffer == u.buffer compare tensors")

    compare.__name__ = name
    return compare


def __reduce_ex__(self: Tensor, protocol: Any) -> NoReturn:
    raise TypeError(
        "a Tensor cannot be pickled or copied as an object: its memory is a "
        "file descriptor, or another library's. To another process: dlbuf.send() "
        "and recv(), or a connection of multiprocessing after import "
        "dlbuf.multiprocessing. In this process: t.share() is another tensor over "
        "the same memory, t.copy() a copy")


_ALL = "t.numpy() has them all"
methods: list[Callable[..., Any]] = [
    numpy, torch, copy, contiguous, to, same_layout, item, tobytes, __array__,
    __reduce_ex__, __index__, __bytes__,
    _number(int, _ALL), _number(float, _ALL), _number(complex, _ALL),
    _number(bool, "t.numpy().any() or .all() asks all of them, and `t is not "
            "None` whether there is a tensor")]
methods += _views.methods
methods += [_comparison(sign, f"__{name}__", f"__{mirror}__")
            for sign, name, mirror in (
                ("==", "eq", "eq"), ("!=", "ne", "ne"), ("<", "lt", "gt"),
                ("<=", "le", "ge"), (">", "gt", "lt"), (">=", "ge", "le"))]
for method in methods:
    method.__qualname__ = f"Tensor.{method.__name__}"
    method.__doc__ = _DOCS.get(method.__name__)
    setattr(Tensor, method.__name__, method)
setattr(Tensor, "__numpy_dtype__", property(
    lambda self: self.dtype.numpy, doc="The dtype, for NumPy 2.4."))
