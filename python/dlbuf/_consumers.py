# SPDX-License-Identifier: MIT
"""Whatever has memory -> a Tensor, without a copy."""

from __future__ import annotations

import enum
from typing import Any

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Tensor
from ._errors import UnsupportedError
from ._types import DLDeviceType

_VERSION = (1, 3)
_CAPSULE = type(Tensor.__dlpack_c_exchange_api__)
_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def _device_pair(device: Any) -> tuple[int, int]:
    """("cpu", a Device, or DLPack's pair) -> DLPack's pair."""
    if isinstance(device, str) and device == "cpu":
        return DLDeviceType.CPU, 0
    if isinstance(device, _dlbuf.Device):
        return device.info.device
    kind: Any
    kind, number = device
    if isinstance(kind, enum.Enum):
        kind = kind.value
    return int(kind), int(number)


def _capsule(method: Any, device: Any, copy: bool | None) -> Any:
    """Asks for a versioned tensor; who is too old to be asked, for any."""
    wishes: dict[str, Any] = {}
    if device is not None:
        wishes["dl_device"] = _device_pair(device)
    if copy is not None:
        wishes["copy"] = copy
    try:
        return method(max_version=_VERSION, **wishes)
    except TypeError:
        if copy or device is not None:
            raise
    return method()


def _from_array_interface(obj: Any, interface: dict[str, Any]) -> Tensor:
    typestr = interface["typestr"]
    order, kind, size = typestr[0], typestr[1], int(typestr[2:])
    if interface.get("mask") is not None:
        raise UnsupportedError(95, "a masked array has no DLPack tensor")
    if kind == "b" and size == 1:
        dtype = "bool"
    elif kind in _KINDS and len(interface.get("descr") or [None]) == 1:
        dtype = f"{_KINDS[kind]}{size * 8}"
    else:
        raise UnsupportedError(95, f"DLPack has no type for '{typestr}'")
    little = memoryview(b"\1\0").cast("H")[0] == 1
    if size > 1 and order != ("<" if little else ">"):
        raise UnsupportedError(95, f"DLPack has native byte order only, not "
                               f"'{typestr}'")
    if not isinstance(interface.get("data"), tuple):
        raise UnsupportedError(95, "an array interface without an address")
    address, read_only = interface["data"]
    strides = interface.get("strides")
    if strides is not None:
        if any(s % size for s in strides):
            raise UnsupportedError(95, f"strides of {strides} bytes are not "
                                   f"whole elements of {size}")
        strides = tuple(s // size for s in strides)
    return _dlbuf.from_memory(obj, address, interface["shape"], dtype, strides,
                              read_only)


def from_dlpack(x: Any, /, *, device: Any = None,
                copy: bool | None = None) -> Tensor:
    """A Tensor over the memory of x.

    x has the DLPack protocol, NumPy's array interface or the buffer protocol;
    they are tried in this order; or it is a DLPack capsule. What x cannot be written through stays
    read-only. device ("cpu", a Device or DLPack's pair) and copy as in the
    array API standard: they are x's to fulfil, or to refuse with BufferError.
    """
    if isinstance(x, Tensor) and device is None and not copy:
        return x.share()
    if isinstance(x, _CAPSULE):
        if device is not None or copy is not None:
            raise UnsupportedError(95, "a capsule is taken as it is: ask its "
                                   "producer for another device or a copy")
        return _dlbuf.from_capsule(x)
    method = getattr(x, "__dlpack__", None)
    if method is not None:
        try:
            return _dlbuf.from_capsule(_capsule(method, device, copy))
        except (BufferError, TypeError):
            # NumPy before 2.1 has no words for a read-only array in DLPack.
            if (device is not None or copy or
                    not hasattr(x, "__array_interface__")):
                raise
    elif device is not None and _device_pair(device) != (DLDeviceType.CPU, 0):
        raise UnsupportedError(95, "memory of the CPU is not copied elsewhere")
    tensor = _from_other(x)
    if copy:
        return _dlbuf.from_capsule(tensor.__dlpack__(max_version=_VERSION,
                                                     copy=True))
    return tensor


def _from_other(x: Any) -> Tensor:
    interface = getattr(x, "__array_interface__", None)
    if interface is not None:
        return _from_array_interface(x, interface)
    return _dlbuf.from_buffer(x)


def asdlpack(x: Any, /) -> Any:
    """x itself where it has the DLPack protocol, else a Tensor over it."""
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return x
    return _from_other(x)
