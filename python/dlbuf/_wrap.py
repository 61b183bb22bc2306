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
from ._types import DLDeviceType


def wrap(x: Any, to_dlpack: Callable[[Any], Any] | None = None, /, *,
         reverse: bool = False, device: Any = None,
         copy: bool | None = None) -> Tensor:
    """A Tensor over the memory of x, which stays x's.

    x is whatever from_dlpack() takes, a Tensor or a DLPack capsule among them;
    to_dlpack(x) makes the capsule of an x that has no __dlpack__(). The memory
    is held until the last tensor and consumer of it is gone.

    With reverse=True dimensions and strides are in the opposite order: element
    [i, j, k] of x is [k, j, i] of the result. A tensor of a dma-buf stays one,
    with its fd, its frame and an access of its own.
    """
    tensor = from_dlpack(x if to_dlpack is None else to_dlpack(x),
                         device=device, copy=copy)
    return _dlbuf.reverse(tensor) if reverse else tensor


def share(owner: object, address: int, shape: Sequence[int] | int, dtype: Any,
          strides: Sequence[int] | None = None, *, reverse: bool = False,
          device: Device | tuple[int, int] = (DLDeviceType.CPU, 0),
          read_only: bool = False) -> Tensor:
    """A Tensor over memory that you have, by its address.

    owner is kept until the last tensor and consumer of it is gone, on whatever
    thread that is, and has to keep the memory alive and in place so long.
    address is that of the first element, and 0 only where there are none; strides
    count elements, and None is compact and row-major. device is a Device or DLPack's pair; the
    memory of any but the CPU is not looked at, and its order is yours.

    With reverse=True shape and strides are those of a column-major caller: the
    tensor has them in the opposite order, and None is compact with the first
    one fastest. Julia's size(A) and strides(A) can stand here as they are.

    Tensor.share() is another thing: one more Tensor over the same memory.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if reverse:
        shape = shape[::-1]
        strides = None if strides is None else tuple(strides)[::-1]
    return _dlbuf.from_memory(owner, address, shape, dtype, strides, read_only,
                              _device_pair(device))
