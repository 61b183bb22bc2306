# SPDX-License-Identifier: MIT
"""Memory that a device's own API has allocated -> a dma-buf."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._consumers import from_dlpack
from ._dlbuf import Device
from ._errors import InvalidError, UnsupportedError
from ._types import DLDeviceType

if TYPE_CHECKING:
    from typing_extensions import Self

_EINVAL, _EOPNOTSUPP = 22, 95


class Exported:
    """A dma-buf of memory that a device's own API has allocated, from export().

    The fd belongs to this object: close(), the end of `with` and the collector
    close it; os.dup() it to keep it longer. offset: bytes from the beginning of
    the dma-buf to the tensor's first element. bytes: size of the dma-buf.

    >>> t = dlbuf.alloc(16, "uint8")        # in place of one that export() made
    >>> dlbuf.Exported(os.dup(t.fd), 0, 4096).closed
    False
    """

    offset: int
    bytes: int
    _fd = -1            # until it has one: __init__() may fail

    def __init__(self, fd: int, offset: int, bytes: int) -> None:
        self._fd = fd
        self.offset = offset
        self.bytes = bytes

    @property
    def fd(self) -> int:
        """The dma-buf. Raises InvalidError after close().

        >>> t = dlbuf.alloc(16, "uint8")    # in place of one that export() made
        >>> with dlbuf.Exported(os.dup(t.fd), 0, 4096) as e:
        ...     dlbuf.from_fd(e.fd, 16, "uint8").buffer == t.buffer
        True
        """
        return self.fileno()

    @property
    def closed(self) -> bool:
        """Whether close() was called.

        >>> t = dlbuf.alloc(16, "uint8")    # in place of one that export() made
        >>> with dlbuf.Exported(os.dup(t.fd), 0, 4096) as e:
        ...     print(e.closed)
        False
        >>> e.closed
        True
        """
        return self._fd < 0

    def fileno(self) -> int:
        """Returns fd, so that from_fd() and others take this object as one.

        >>> t = dlbuf.alloc(16, "uint8")    # in place of one that export() made
        >>> e = dlbuf.Exported(os.dup(t.fd), 0, 4096)
        >>> dlbuf.from_fd(e, e.bytes, "uint8", offset=e.offset).size
        4096
        """
        if self._fd < 0:
            raise InvalidError(_EINVAL, "the exported dma-buf is closed")
        return self._fd

    def close(self) -> None:
        """Closes the fd; a second call does nothing.

        >>> t = dlbuf.alloc(16, "uint8")    # in place of one that export() made
        >>> e = dlbuf.Exported(os.dup(t.fd), 0, 4096)
        >>> e.close()
        >>> e.closed
        True
        """
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
    """Makes a dma-buf of the memory of x, for programs that import fds.

    x is a tensor on CUDA that from_dlpack() takes: PyTorch's, CuPy's, JAX's,
    dlbuf's own. device is needed where x does not lie on the device of its
    number, see Device.wrap_cuda(). pcie=True: its bytes are reached over PCI
    Express, also where the GPU has a coherent link to the CPU.

    The dma-buf keeps the memory alive and not the tensor: its owner may use the
    bytes for something else once x is gone. It has whole pages, so it may
    contain more than x. It has no fences: wait for the stream that x was
    written on. Never import it into a device that is not on PCI (vgem, udmabuf,
    a camera of a system-on-chip).

    Raises UnsupportedError for memory of the CPU, memory pools
    (cudaMallocAsync) and managed memory.

    >>> dlbuf.export(b"abc")
    Traceback (most recent call last):
    dlbuf.UnsupportedError: [Errno 95] memory of the CPU's has no dma-buf...
    """
    tensor = from_dlpack(x)
    where: Device | str | None = device
    if where is None and tensor.buffer is not None:
        where = tensor.device
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
