# SPDX-License-Identifier: MIT
"""Memory that a device's own API has allocated -> a dma-buf."""

from __future__ import annotations

import os
from typing import Any, Self

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._consumers import from_dlpack
from ._dlbuf import Device
from ._errors import InvalidError, UnsupportedError
from ._types import DLDeviceType

_EINVAL, _EOPNOTSUPP = 22, 95


class Exported:
    """A dma-buf of somebody's memory, from export().

    fd is this object's: closed by close(), at the end of `with`, and when the
    object is collected; os.dup() what is to live longer. The tensor's first
    element is at byte offset of the dma-buf's `bytes`.
    """

    offset: int
    bytes: int

    def __init__(self, fd: int, offset: int, bytes: int) -> None:
        self._fd = fd
        self.offset = offset
        self.bytes = bytes

    @property
    def fd(self) -> int:
        """The dma-buf."""
        return self.fileno()

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def fileno(self) -> int:
        if self._fd < 0:
            raise InvalidError(_EINVAL, "the exported dma-buf is closed")
        return self._fd

    def close(self) -> None:
        """Gives the dma-buf up now. Again: nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        what = "closed" if self.closed else f"fd {self._fd}"
        return (f"<dlbuf.Exported {what}, from byte {self.offset} of "
                f"{self.bytes}>")


def export(x: Any, /, *, device: Device | None = None, pcie: bool = False
           ) -> Exported:
    """A new dma-buf of the memory behind x, for those who import fds.

    x is a tensor on CUDA of whatever from_dlpack() takes: PyTorch's, CuPy's,
    JAX's, dlbuf's own. device is the one that it lies on, where that is not the
    device of its number (Device.wrap_cuda()). pcie: its bytes are reached over
    PCI Express, also where the GPU has a coherent link to the CPU.

    The dma-buf keeps the memory and not the tensor: its owner may use the bytes
    for something else once x is gone. It holds whole pages, so that more than x
    is in it. There are no fences on it: wait for the stream that x was written
    on. Never import it into a device that is not of PCI (vgem, udmabuf, a
    camera of a system-on-chip). Memory pools (cudaMallocAsync) and managed
    memory have no dma-buf: UnsupportedError.
    """
    tensor = from_dlpack(x)
    where: Device | str | None = device or tensor.device
    if where is None:
        kind, number = tensor.__dlpack_device__()
        if kind == DLDeviceType.CPU:
            raise UnsupportedError(_EOPNOTSUPP, "memory of the CPU's has no "
                                   "dma-buf: alloc() makes one that has")
        if kind not in (DLDeviceType.CUDA, DLDeviceType.CUDA_HOST):
            raise UnsupportedError(_EOPNOTSUPP, f"nothing on DLPack's device "
                                   f"({kind}, {number}) can be exported")
        where = f"cuda:{number}"
    return Exported(*_dlbuf.export(tensor, where, bool(pcie)))
