# SPDX-License-Identifier: MIT
"""Frames as Python has them: what is known of one, and its tensors."""

from __future__ import annotations

from typing import Any, Self

from ._dlbuf import Tensor
from ._errors import InvalidError
from ._producers import find_format, name_in
from ._types import (Clock, CodeSpace, Colour, Field, Frame, Order, Plane,
                     View)

_DAMAGED, _SEQUENCE = 1, 2
_NO_CROP = (0, 0, 0, 0)


def make_frame(
    size: tuple[int, int, int, int, int],
    planes: tuple[tuple[int, int, int, int], ...],
    crop: tuple[int, int, int, int],
    view: int,
    said: tuple[int, int, int, int, int, int],
    colour: bytes,
) -> Frame:
    """struct dlbuf_frame -> a record; the extension calls this."""
    width, height, code, number, modifier = size
    flags, sequence, timestamp_ns, clock, field, order = said
    space = CodeSpace(number)
    try:
        info = find_format(code, space)[0]
        name, channels = name_in(info, code, space), info.channels
    except InvalidError:
        name, channels = f"0x{code:08x}", ""
    return Frame(
        width, height, name, code, space, modifier, channels,
        tuple(Plane(*p) for p in planes), None if crop == _NO_CROP else crop,
        View(view), sequence if flags & _SEQUENCE else None,
        timestamp_ns if clock else None, Clock(clock), Field(field),
        Order(order), bool(flags & _DAMAGED), Colour(*colour[:6]))


def frame_args(f: Frame) -> tuple[Any, ...]:
    """The way back. What a fence was is on the dma-bufs by now."""
    order = Order.IMPLICIT if f.order == Order.FENCE else f.order
    flags = (_SEQUENCE * (f.sequence is not None) | _DAMAGED * f.damaged)
    return ((f.width, f.height, f.code, int(f.space), f.modifier),
            tuple((p.fd, p.pitch, p.offset, p.bytes) for p in f.planes),
            f.crop or _NO_CROP, int(f.view),
            (flags, f.sequence or 0, f.timestamp_ns or 0, int(f.clock),
             int(f.field), int(order)), bytes(f.colour) + bytes(2))


class TensorFrame(tuple[Tensor, ...]):
    """A frame as its tensors, which is a lease: what a Camera and recv() give.

        y, uv = frame

    The buffer goes back to the camera, or to the sender, when the last of its
    tensors and of what was made of them is gone. release(), or the end of
    `with frame:`, closes the tensors at once; what NumPy and others have taken
    from them keeps the buffer until it is gone, too.
    """

    info: Frame

    def __new__(cls, tensors: list[Tensor], info: Frame) -> Self:
        self = super().__new__(cls, tensors)
        self.info = info
        return self

    @property
    def sequence(self) -> int | None:
        """The producer's count of frames; a gap is frames that were lost."""
        return self.info.sequence

    @property
    def timestamp(self) -> float | None:
        """When it was taken, in seconds of info.clock."""
        return self.info.timestamp

    def release(self) -> None:
        """Gives this program's tensors of the frame up. Again: nothing."""
        for tensor in self:
            tensor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.release()

    def __repr__(self) -> str:
        i = self.info
        return (f"<dlbuf.TensorFrame {i.format} {i.width}x{i.height}, sequence "
                f"{i.sequence}, {len(self)} tensors>")
