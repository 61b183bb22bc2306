# SPDX-License-Identifier: MIT
"""The DLPack protocol as types.

The signatures are those of the array API standard, 2024.12. T is the device
type and D the device's number, as __dlpack_device__() returns them.
"""

from __future__ import annotations

import enum
from typing import Any, Protocol, TypeVar, runtime_checkable

_T_contra = TypeVar("_T_contra", bound=enum.Enum | int, contravariant=True)
_D_contra = TypeVar("_D_contra", bound=int, contravariant=True)
_T_co = TypeVar("_T_co", bound=enum.Enum | int, covariant=True)
_D_co = TypeVar("_D_co", bound=int, covariant=True)


@runtime_checkable
class CanDLPack(Protocol[_T_contra, _D_contra]):
    """Hands its memory out as a capsule."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[_T_contra, _D_contra] | None = None,
        copy: bool | None = None,
    ) -> Any: ...


@runtime_checkable
class CanDLPackDevice(Protocol[_T_co, _D_co]):
    """Says where its memory is."""

    def __dlpack_device__(self) -> tuple[_T_co, _D_co]: ...
