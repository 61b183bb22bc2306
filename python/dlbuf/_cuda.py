# SPDX-License-Identifier: MIT
"""The two questions of the CUDA array interface that only the driver answers:
which device an address is of, and whether a stream is done."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

from ._errors import Error, UnsupportedError
from ._types import DLDeviceType

SONAME = "libcuda.so.1"
# CUpointer_attribute of cuda.h.
_IS_MANAGED, _DEVICE_ORDINAL = 8, 9
_EIO, _ENODEV = 5, 19


@functools.lru_cache(maxsize=None)
def _driver() -> Any:
    """The CUDA driver. A producer of CUDA memory has loaded it already."""
    try:
        lib = ctypes.CDLL(os.environ.get("DLBUF_CUDA_LIBRARY") or SONAME)
    except OSError as e:
        raise UnsupportedError(_ENODEV, f"memory of CUDA, and no driver: {e}"
                               ) from None
    lib.cuPointerGetAttribute.argtypes = [ctypes.c_void_p, ctypes.c_int,
                                          ctypes.c_uint64]
    lib.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    return lib


def _check(name: str, result: int) -> None:
    if result:
        raise Error(_EIO, f"{name}: CUresult {result}")


def _attribute(address: int, which: int) -> int:
    # The driver writes at most four bytes of either attribute.
    value = ctypes.c_int(0)
    _check("cuPointerGetAttribute", _driver().cuPointerGetAttribute(
        ctypes.addressof(value), which, address))
    return value.value


def where(address: int) -> tuple[int, int]:
    """DLPack's device of memory; managed memory has the number 0 there."""
    if _attribute(address, _IS_MANAGED):
        return DLDeviceType.CUDA_MANAGED, 0
    return DLDeviceType.CUDA, _attribute(address, _DEVICE_ORDINAL)


def wait(stream: int) -> None:
    """Blocks, without the GIL, until all work on stream is done."""
    _check("cuStreamSynchronize", _driver().cuStreamSynchronize(stream))
