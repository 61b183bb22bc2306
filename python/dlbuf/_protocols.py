# SPDX-License-Identifier: MIT
"""The DLPack protocol as types.

The signatures are those of the array API standard, 2024.12. T is the device
type and D the device's number, as __dlpack_device__() returns them; both are
int unless they are given.
"""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from typing_extensions import CapsuleType, TypeVar

    # Covariant although they are in arguments: the argument is a tuple, and no
    # object keeps it. optype has them so, too.
    _T_co = TypeVar("_T_co", bound=enum.Enum | int, default=int, covariant=True)
    _D_co = TypeVar("_D_co", bound=int, default=int, covariant=True)
else:
    from typing import TypeVar

    # Python has defaults from 3.13 on.
    _default = {"default": int} if sys.version_info >= (3, 13) else {}
    _T_co = TypeVar("_T_co", bound=enum.Enum | int, covariant=True, **_default)
    _D_co = TypeVar("_D_co", bound=int, covariant=True, **_default)


@runtime_checkable
class CanDLPack(Protocol[_T_co, _D_co]):  # type: ignore[misc] # pyright: ignore
    """An object that gives its memory as a DLPack capsule.

    >>> isinstance(dlbuf.from_dlpack(b"abc"), dlbuf.CanDLPack)
    True
    >>> isinstance(b"abc", dlbuf.CanDLPack)
    False
    """

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[_T_co, _D_co] | None = None,
        # Any: NumPy before 2.2 says bool here.
        copy: bool | Any | None = None,
    ) -> CapsuleType:
        """Returns a capsule of the memory, ordered for stream."""
        ...


@runtime_checkable
class CanDLPackCompat(Protocol):
    """An object with the __dlpack__() of before DLPack 1.0, which takes only a
    stream. isinstance() looks only for the name, so it cannot distinguish the two.

    >>> isinstance(dlbuf.from_dlpack(b"abc"), dlbuf.CanDLPackCompat)
    True
    """

    def __dlpack__(self, *, stream: None = None) -> CapsuleType:
        """Returns a capsule of the memory."""
        ...


@runtime_checkable
class CanDLPackDevice(Protocol[_T_co, _D_co]):
    """An object that says where its memory is.

    >>> isinstance(dlbuf.from_dlpack(b"abc"), dlbuf.CanDLPackDevice)
    True
    """

    def __dlpack_device__(self) -> tuple[_T_co, _D_co]:
        """Returns the device type and the number of the device."""
        ...
