# SPDX-License-Identifier: MIT
"""dma-bufs -> Tensors. from_fd() is C all the way; these are not per frame."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Device, Tensor
from ._errors import InvalidError
from ._types import (MOD_LINEAR, Access, CodeSpace, DeviceInfo, FormatInfo,
                     FormatPlane, Frame, Order, Plane, View)

_EINVAL = 22
MAY_COPY, UNCROPPED = 1, 2


@functools.lru_cache(maxsize=None)
def formats() -> tuple[FormatInfo, ...]:
    """Every pixel format of DRM and V4L2 that the library knows."""
    return tuple(
        f._replace(planes=tuple(FormatPlane(*p) for p in f.planes),
                   views=tuple(v for v in View
                               if int(f.views) >> v & 1))  # type: ignore
        for f in _dlbuf.formats())


def devices() -> list[DeviceInfo]:
    """Every device of this build; those that cannot be used say why."""
    return _dlbuf.devices()


def exporters() -> list[tuple[str, str, int, str]]:
    """(name, node, status, reason) of everything that makes dma-bufs."""
    return _dlbuf.exporters()


@functools.lru_cache(maxsize=256)
def find_format(format: str | int, space: CodeSpace | None = None
                ) -> tuple[FormatInfo, int, CodeSpace]:
    """A format by name or code -> (what it is, its code, the code's space).

    Names are looked for in DRM first, then in V4L2, unless space says where.
    A number needs a space: DRM and V4L2 share numbers that mean different
    things.
    """
    if isinstance(format, str):
        name = format.upper()
        for where in ([space] if space else [CodeSpace.DRM, CodeSpace.V4L2]):
            for f in formats():
                for label, code in _names(f, where):
                    if label and label.upper() == name:
                        return f, code, where
        raise InvalidError(_EINVAL, f"there is no format {format}")
    if space is None:
        raise InvalidError(_EINVAL, f"code 0x{format:08x} of which space? "
                           "DRM and V4L2 share numbers")
    for f in formats():
        for _, code in _names(f, space):
            if code == format:
                return f, code, space
    raise InvalidError(_EINVAL, f"there is no code 0x{format:08x} of "
                       f"{space.name}")


def _names(f: FormatInfo, space: CodeSpace) -> list[tuple[str | None, int]]:
    """Of libcamera, whose codes are DRM's but for some, those."""
    if space == CodeSpace.V4L2:
        pairs = [(f.v4l2_name, f.v4l2_code),
                 (f.v4l2_multi_name, f.v4l2_multi_code)]
    else:
        pairs = [(f.drm_name, f.drm_code)]
    return [(name, code) for name, code in pairs if code]


def name_in(info: FormatInfo, code: int, space: CodeSpace) -> str:
    """What that space calls the format."""
    if space != CodeSpace.V4L2:
        name = info.drm_name or info.v4l2_name
    elif code == info.v4l2_multi_code:
        name = info.v4l2_multi_name
    else:
        name = info.v4l2_name or info.drm_name
    return name or f"0x{code:08x}"


def find_view(view: View | str) -> View:
    """A view by its name."""
    try:
        return View[view.upper()] if isinstance(view, str) else View(view)
    except (KeyError, ValueError):
        raise InvalidError(_EINVAL, f"there is no view {view!r}") from None


def _unsigned(bits: int, what: str, *values: int) -> None:
    """C's conversions take any number, and only some of its bits."""
    for value in values:
        if not 0 <= value < 1 << bits:
            raise InvalidError(_EINVAL, f"{what} {value} does not fit {bits} "
                               "bits without a sign")


def from_frame(
    planes: Sequence[Plane | tuple[int, ...]],
    width: int,
    height: int,
    format: str | int,
    *,
    space: CodeSpace | None = None,
    modifier: int = MOD_LINEAR,
    view: View | str = View.PLANES,
    crop: tuple[int, int, int, int] | None = None,
    uncropped: bool = False,
    device: Device | str = "cpu",
    access: Access | int | str | None = None,
    fence: int | None = None,
    may_copy: bool = False,
    release: Callable[[], object] | None = None,
) -> list[Tensor]:
    """The tensors of a camera's or decoder's frame, one per plane by default.

    planes: (fd, pitch, offset, bytes) each, in bytes; offset and bytes may be
    left out. With a V4L2 format one is enough where the planes follow one
    another. crop: (x, y, width, height) in pixels. fence: a sync_file that
    the pixels wait for, -1 if it has signalled.

    release() is called once, when the last tensor of this frame, and whatever
    was made of it, is gone and the last access to it complete; on any thread,
    and not any more once the interpreter exits. An object that release() belongs
    to may refer to the tensors: the garbage collector finds such a cycle, unless
    it goes through an array or a view that was made of them.
    """
    info, code, where = find_format(format, space)
    view = find_view(view)
    _unsigned(32, "a frame's size or crop of", width, height, *(crop or ()))
    _unsigned(64, "a modifier of", modifier)
    frame = Frame(
        width, height, name_in(info, code, where), code, where, modifier,
        info.channels, tuple(Plane(*p) for p in planes), crop, view,
        order=Order.UNKNOWN if fence is None else Order.FENCE)
    for p in frame.planes:
        _unsigned(64, "a plane's offset or bytes of", p.offset, p.bytes)
    return _dlbuf.import_frame(
        device, frame, (width, height, code, int(where), modifier),
        tuple((p.fd, p.pitch, p.offset, p.bytes) for p in frame.planes),
        crop or (0, 0, 0, 0), int(view), access,
        may_copy * MAY_COPY | uncropped * UNCROPPED, fence, release)


@overload
def alloc(shape: Sequence[int] | int, dtype: Any, device: Device | str = ...,
          *, strides: Sequence[int] | None = ..., exporter: str | None = ...,
          name: str | None = ...) -> Tensor: ...


@overload
def alloc(shape: Sequence[int] | int, dtype: Any,
          device: Sequence[Device | str], *,
          strides: Sequence[int] | None = ..., exporter: str | None = ...,
          name: str | None = ...) -> list[Tensor]: ...


def alloc(shape: Sequence[int] | int, dtype: Any,
          device: Device | str | Sequence[Device | str] = "cpu", *,
          strides: Sequence[int] | None = None, exporter: str | None = None,
          name: str | None = None) -> Tensor | list[Tensor]:
    """A new dma-buf, zero-filled, and a tensor of it.

    With a list of devices: one dma-buf that all of them can use, and a tensor
    on each. exporter: "udmabuf", "udmabuf:2M", "heap:system" ..., or "device",
    memory of the first device's own; None tries what there is, on a single
    device that first. name is what the kernel shows.
    """
    if isinstance(device, (str, Device)):
        return _dlbuf.alloc((device,), shape, dtype, strides, exporter,
                            name)[0]
    return _dlbuf.alloc(tuple(device), shape, dtype, strides, exporter, name)
