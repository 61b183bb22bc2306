# SPDX-License-Identifier: MIT
"""Memory of other languages, whose arrays may be column-major.

A language that counts its first dimension fastest (Julia, R, MATLAB, Fortran)
sees the bytes of a row-major array of shape (H, W, C) as a column-major one of
shape (C, W, H): the same strides, in the other order. No byte moves; who hands
an array over says reverse=True, once, on the one side or on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._consumers import (
    _device_pair,  # pyright: ignore[reportPrivateUsage]
    from_dlpack)
from ._dlbuf import Device, Tensor
from ._producers import several
from ._types import DLDeviceType


def wrap(x: Any, to_dlpack: Callable[[Any], Any] | None = None, /, *,
         reverse: bool = False, device: Any = None,
         copy: bool | None = None) -> Tensor:
    """Makes a Tensor over the memory of x, which stays x's.

    x is anything that from_dlpack() takes, a Tensor or a DLPack capsule, too;
    to_dlpack(x) makes the capsule of an x that has no __dlpack__(). The memory
    is held until its last tensor and consumer are deleted. device, copy and
    the errors are those of from_dlpack().

    With reverse=True dimensions and strides are in the opposite order: element
    [i, j, k] of x is [k, j, i] of the result. A tensor of a dma-buf stays one,
    with its fd, its frame and an access of its own.

    >>> t = dlbuf.alloc((2, 3), "uint8")
    >>> u = dlbuf.wrap(t, reverse=True)
    >>> u.shape, u.strides
    ((3, 2), (1, 3))
    """
    if to_dlpack is not None and not callable(to_dlpack):
        raise TypeError(f"to_dlpack is a function, not {to_dlpack!r}")
    tensor = from_dlpack(x if to_dlpack is None else to_dlpack(x),
                         device=device, copy=copy)
    return tensor.T if reverse else tensor


def share(owner: object, address: int, shape: Sequence[int] | int, dtype: Any,
          strides: Sequence[int] | None = None, *, reverse: bool = False,
          device: Device | tuple[int, int] = (DLDeviceType.CPU, 0),
          read_only: bool = False) -> Tensor:
    """Makes a Tensor over memory that the program has, by its address.

    owner keeps the memory alive and in place; it is kept until the last tensor
    and consumer of it is deleted, and dropped on any thread. address is that of
    the first element, and 0 only for a tensor without elements. shape and
    strides count elements; None means compact and row-major. device is a Device
    or DLPack's pair. Memory of another device than the CPU is not touched, and
    its order is the caller's.

    With reverse=True shape and strides are those of a column-major caller: the
    tensor has them in the opposite order, and None is compact with the first
    one fastest. Julia's size(A) and strides(A) can be given as they are.

    Raises InvalidError for a layout that no memory can have. Tensor.share() is
    different: it makes one more Tensor over a Tensor's memory.

    >>> owner = bytearray(6)
    >>> import ctypes
    >>> address = ctypes.addressof(ctypes.c_char.from_buffer(owner))
    >>> t = dlbuf.share(owner, address, (2, 3), "uint8")
    >>> memoryview(t)[1, 2] = 5
    >>> owner[5]
    5
    """
    shape = ((shape,) if isinstance(shape, int) else
             several("shape", shape, "integers"))
    if strides is not None:
        strides = several("strides", strides, "integers")
    if reverse:
        shape = shape[::-1]
        strides = strides and strides[::-1]
    return _dlbuf.from_memory(owner, address, shape, dtype, strides, read_only,
                              _device_pair(device))
