# SPDX-License-Identifier: MIT
"""Makes a Tensor over the memory of any object, without a copy."""

from __future__ import annotations

import contextlib
import enum
import operator
import re
from typing import Any, Protocol, TypeVar, overload

from . import _cuda, _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Tensor
from ._errors import InvalidError, UnsupportedError
from ._types import DLDeviceType, device_pair, parse_dtype

class _HasDLPack(Protocol):
    """An object that asdlpack() returns unchanged; its parameters may have any names."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


_DLPack = TypeVar("_DLPack", bound=_HasDLPack)
_VERSION = (1, 3)
_CAPSULE = type(Tensor.__dlpack_c_exchange_api__)
_EINVAL, _EOPNOTSUPP = 22, 95
_TYPESTR = re.compile(r"([<>|=])([a-zA-Z])(\d+)")
# Not f16 and c32: a long double is padded, or not IEEE's.
_TYPES = {"b1": "bool"} | {
    f"{kind}{size}": f"{name}{size * 8}" for kind, name, sizes in (
        ("i", "int", (1, 2, 4, 8)), ("u", "uint", (1, 2, 4, 8)),
        ("f", "float", (2, 4, 8)), ("c", "complex", (8, 16)))
    for size in sizes}


def _device_pair(device: Any) -> tuple[int, int]:
    """("cuda:0", a Device, or DLPack's pair) -> DLPack's pair."""
    if isinstance(device, str):
        return device_pair(device)
    if isinstance(device, _dlbuf.Device):
        return device.info.device
    kind: Any
    try:
        kind, number = device
        if isinstance(kind, enum.Enum):
            kind = kind.value
        pair = operator.index(kind), operator.index(number)
    except (TypeError, ValueError):
        raise TypeError("a device is a name as \"cpu\" or \"cuda:0\", a "
                        "dlbuf.Device, or DLPack's pair (type, number), not "
                        f"{device!r}") from None
    if any(not -1 << 31 <= n < 1 << 31 for n in pair):
        raise InvalidError(_EINVAL, f"the numbers of the device {device!r} do not fit 32 bits")
    return pair


def _ask(method: Any, device: Any, copy: bool | None) -> Tensor:
    """Asks a producer for a versioned tensor. A producer that is too old for the
    argument gives any tensor, and some ignore dl_device: then the Tensor of that is
    asked."""
    wishes: dict[str, Any] = {}
    if device is not None:
        wishes["dl_device"] = _device_pair(device)
    if copy is not None:
        wishes["copy"] = copy
    try:
        capsule, left = method(max_version=_VERSION, **wishes), dict[str, Any]()
    except TypeError:
        capsule, left = method(), wishes
    made = _dlbuf.from_capsule(capsule)
    if device is not None and made.__dlpack_device__() != wishes["dl_device"]:
        left = wishes
    if left:
        return _dlbuf.from_capsule(made.__dlpack__(max_version=_VERSION, **left))
    return made


def _interface_dtype(obj: Any, typestr: str) -> tuple[str, int]:
    """A dtype's name and bytes; of types that NumPy does not know (ml_dtypes),
    whose typestr is an opaque one, the name that obj has for it."""
    m = _TYPESTR.fullmatch(typestr)
    if m:
        order, kind, size = m[1], m[2] + m[3], int(m[3])
        little = memoryview(b"\1\0").cast("H")[0] == 1
        if size > 1 and order not in ("<" if little else ">", "|"):
            raise UnsupportedError(_EOPNOTSUPP, "DLPack has native byte order "
                                   f"only, not '{typestr}'")
        if kind in _TYPES:
            return _TYPES[kind], size
        name = getattr(getattr(obj, "dtype", None), "name", None)
        if isinstance(name, str) and (m[2] == "V" or kind == "f1"):
            try:
                _, bits, lanes = parse_dtype(name)
            except ValueError:
                bits = lanes = 0
            if bits * lanes == size * 8:
                return name, size
    raise UnsupportedError(_EOPNOTSUPP, f"DLPack has no type for '{typestr}'")


def _check_interface(obj: Any, interface: Any, *keys: str) -> None:
    for key in keys:
        if not isinstance(interface, dict) or key not in interface:
            raise ValueError(f"the array interface of {type(obj).__name__} is not a dict "
                             f"with '{key}'")


def _from_array_interface(obj: Any, interface: dict[str, Any],
                          device: tuple[int, int]) -> Tensor:
    _check_interface(obj, interface, "shape", "typestr")
    if interface.get("mask") is not None:
        raise UnsupportedError(_EOPNOTSUPP,
                               "a masked array has no DLPack tensor")
    typestr = interface["typestr"]
    if len(interface.get("descr") or [None]) != 1:
        raise UnsupportedError(_EOPNOTSUPP, "DLPack has no type for "
                               f"'{typestr}' with fields")
    dtype, size = _interface_dtype(obj, typestr)
    if not isinstance(interface.get("data"), tuple):
        raise UnsupportedError(
            _EOPNOTSUPP, f"{type(obj).__name__} has an array interface without an "
            "address: give numpy.asarray() of it")
    address, read_only = interface["data"]
    strides = interface.get("strides")
    if strides is not None:
        shape = interface["shape"]
        # The stride of one element or none means nothing.
        if 0 not in shape and any(s % size for n, s in zip(shape, strides)
                                  if n > 1):
            raise UnsupportedError(_EOPNOTSUPP, f"strides of {strides} bytes "
                                   f"are not whole elements of {size}")
        strides = tuple(s // size for s in strides)
    # Either may own the memory: that of a NumPy scalar's interface is of an array
    # that only the dict has, as "__ref", and who writes there loses it.
    owner = obj, *interface.values()
    return _dlbuf.from_memory(owner, address or 0, interface["shape"], dtype,
                              strides, read_only or "__ref" in interface,
                              device)


def _from_cuda_array_interface(obj: Any, interface: dict[str, Any]) -> Tensor:
    """Reads versions 2 and 3. Waits for version 3's stream, because later calls
    do not know it."""
    _check_interface(obj, interface, "version", "data")
    version = interface["version"]
    if version < 2:
        raise UnsupportedError(_EOPNOTSUPP, f"version {version} of the CUDA "
                               "array interface, not 2 or 3")
    stream = interface.get("stream") if version > 2 else None
    if stream is not None:
        # 0 is refused as in __dlpack__().
        _cuda.wait(_dlbuf.check_stream(DLDeviceType.CUDA, stream)[0])
    address = interface["data"][0]
    device = _cuda.where(address) if address else (DLDeviceType.CUDA, 0)
    return _from_array_interface(obj, interface, device)


def from_dlpack(x: Any, /, *, device: Any = None,
                copy: bool | None = None) -> Tensor:
    """Makes a Tensor over the memory of x, without a copy unless copy says so.

    x is a capsule, or has the DLPack protocol, NumPy's array interface, CUDA's
    or the buffer protocol; they are tried in this order. The memory is held
    until the last tensor and consumer of it is gone. A Tensor gives another
    Tensor of the same dma-buf. The Tensor is read-only if x does not allow writing, and for
    a scalar of NumPy. device ("cpu", a Device or DLPack's pair) and copy are as in the
    array API standard: x fulfils them, or refuses with BufferError. "cpu" also takes memory
    of another device that the CPU reaches: pinned memory of CUDA, ROCm and TPUs, and
    managed memory, for which it waits until CUDA's legacy default stream is done. Blocks
    for the stream that CUDA's interface names.

    Raises UnsupportedError for a type or layout that DLPack does not have, for
    PyTorch's negative bit, TypeError for an object without memory, and ValueError for an
    array interface that lacks a field.

    >>> t = dlbuf.from_dlpack(b"abc")
    >>> t.shape, t.dtype, t.read_only
    ((3,), 'uint8', True)
    """
    if isinstance(x, Tensor) and device is None and not copy:
        return x.share()
    if isinstance(x, type):
        raise TypeError(f"{x.__module__}.{x.__qualname__} is a class: give an "
                        "object of it")
    if isinstance(x, _CAPSULE):
        if device is not None or copy is not None:
            raise UnsupportedError(95, "a capsule is taken as it is: ask its "
                                   "producer for another device or a copy")
        return _dlbuf.from_capsule(x)
    # PyTorch does not export this bit by DLPack. Its read-only wrapper answers only DLPack.
    with contextlib.suppress(RuntimeError):
        if getattr(x, "is_neg", bool)():
            raise UnsupportedError(_EOPNOTSUPP, f"{type(x).__name__} has the negative bit, its "
                                   "memory the negated values: give resolve_neg() of it")
    method = getattr(x, "__dlpack__", None)
    if device is not None and method is not None and _is_pinned(x, device):
        x = from_dlpack(x)
        method = x.__dlpack__
    if method is not None:
        try:
            return _ask(method, device, copy)
        except (BufferError, TypeError):
            # NumPy before 2.1 has no words for a read-only array in DLPack,
            # and none has them for the types of ml_dtypes. What DLPack has no
            # type for stays refused, with the producer's reason.
            if (device is None and not copy and
                    hasattr(x, "__array_interface__")):
                with contextlib.suppress(UnsupportedError):
                    return _from_other(x)
            raise
    tensor = _from_other(x)
    if device is not None and _device_pair(device) not in (
            tensor.__dlpack_device__(), (DLDeviceType.CPU, 0)):
        raise UnsupportedError(_EOPNOTSUPP, "memory is not copied elsewhere")
    if copy or device is not None:
        return _dlbuf.from_capsule(tensor.__dlpack__(
            max_version=_VERSION, copy=copy, dl_device=None if device is None
            else _device_pair(device)))
    return tensor


def _is_pinned(x: Any, device: Any) -> bool:
    """Whether another producer's memory, which device="cpu" wants, is on another device
    of DLPack, and the CPU reaches it: few producers give it to the CPU."""
    where = getattr(x, "__dlpack_device__", None)
    if isinstance(x, Tensor) or where is None or _device_pair(device) != (DLDeviceType.CPU, 0):
        return False
    kind = _device_pair(where())[0]
    return kind != DLDeviceType.CPU and _dlbuf.cpu_reaches(kind)


def _from_other(x: Any) -> Tensor:
    interface = getattr(x, "__array_interface__", None)
    if interface is not None:
        return _from_array_interface(x, interface, (DLDeviceType.CPU, 0))
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_cuda_array_interface(x, interface)
    try:
        return _dlbuf.from_buffer(x)
    except TypeError:
        raise TypeError(
            f"{type(x).__name__} has no memory to share: neither DLPack "
            "(__dlpack__), nor an array interface, nor a buffer") from None


@overload
def asdlpack(x: _DLPack, /) -> _DLPack: ...  # type: ignore[overload-overlap]


@overload
def asdlpack(x: object, /) -> Tensor: ...


def asdlpack(x: Any, /) -> Any:
    """Returns x if it has the DLPack protocol, else a Tensor over its memory.

    Errors are those of from_dlpack().

    >>> dlbuf.asdlpack(b"abc").shape
    (3,)
    """
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return x
    return _from_other(x)
