# SPDX-License-Identifier: MIT
"""Frames in Python: the data of a frame, and its tensors."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, SupportsFloat

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Tensor
from ._errors import InvalidError, UnsupportedError
from ._producers import find_format, from_frame, name_in
from ._types import (Access, Clock, CodeSpace, Colour, Field, Frame, Order,
                     Orientation, Plane, View)

if TYPE_CHECKING:
    from typing_extensions import Self

_DAMAGED, _SEQUENCE = 1, 2
_EOPNOTSUPP = 95
_NO_CROP = (0, 0, 0, 0)


def make_frame(
    size: tuple[int, int, int, int, int],
    planes: tuple[tuple[int, int, int, int], ...],
    crop: tuple[int, int, int, int],
    view: int,
    said: tuple[int, int, int, int, int, int, int],
    colour: bytes,
) -> Frame:
    """struct dlbuf_frame -> a record; the extension calls this."""
    flags, sequence, timestamp_ns, *rest = said
    before, shown, after = _constant(size, crop, view, flags & _DAMAGED, *rest, colour)
    return Frame._make((*before, tuple(map(Plane._make, planes)), *shown,
                        sequence if flags & _SEQUENCE else None,
                        timestamp_ns if rest[0] else None, *after))


@functools.lru_cache(maxsize=64)
def _constant(
    size: tuple[int, int, int, int, int],
    crop: tuple[int, int, int, int],
    view: int,
    damaged: int,
    clock: int,
    field: int,
    order: int,
    orientation: int,
    colour: bytes,
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """The fields that each frame of a stream has: before the planes, between them and
    sequence, and after timestamp_ns."""
    width, height, code, number, modifier = size
    space = CodeSpace(number)
    try:
        info = find_format(code, space, modifier)[0]
        name, channels = name_in(info, code, space), info.channels
    except InvalidError:
        name, channels = f"0x{code:08x}", ""
    return ((width, height, name, code, space, modifier, channels),
            (None if crop == _NO_CROP else crop, View(view)),
            (Clock(clock), Field(field), Order(order), bool(damaged), Colour(*colour[:6]),
             Orientation(orientation)))


def frame_args(f: Frame) -> tuple[Any, ...]:
    """A record -> the arguments of a frame. The frame's fences are on the dma-bufs by now."""
    order = Order.IMPLICIT if f.order == Order.FENCE else f.order
    flags = (_SEQUENCE * (f.sequence is not None) | _DAMAGED * f.damaged)
    return ((f.width, f.height, f.code, int(f.space), f.modifier),
            tuple((p.fd, p.pitch, p.offset, p.bytes) for p in f.planes),
            f.crop or _NO_CROP, int(f.view),
            (flags, f.sequence or 0, f.timestamp_ns or 0, int(f.clock),
             int(f.field), int(order), int(f.orientation)), bytes(f.colour) + bytes(2))


def _absent(name: str) -> property:
    """In place of a method of tuple whose name means something else here."""
    def get(self: TensorFrame) -> NoReturn:
        raise AttributeError(
            f"a TensorFrame has no {name}: frame.sequence is the camera's count of "
            "frames, len(frame) the number of tensors")

    return property(get, doc=f"Not tuple.{name}: AttributeError names sequence.")


class TensorFrame(tuple[Tensor, ...]):
    """The tensors of a frame, as Camera and recv() give them: a tuple, and a
    lease.

    The buffer returns to the camera, or to the sender, when the last of its
    tensors, and the last array that a library made of one, is deleted.
    release(), or the end of `with frame:`, closes the program's own tensors at
    once; unpacking the frame after that raises InvalidError. info is the Frame
    with size, format and time.

    >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
    ...     with next(camera) as frame:
    ...         y, uv = frame
    ...         print(y.shape, frame.info.format, frame.info.width)
    (180, 320) NV12 320
    """

    info: Frame

    def __new__(cls, tensors: list[Tensor], info: Frame) -> Self:
        self = super().__new__(cls, tensors)
        self.info = info
        return self

    @property
    def sequence(self) -> int | None:
        """The producer's count of frames, or None. A gap means lost frames.

        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     next(camera).sequence
        0
        """
        return self.info.sequence

    @property
    def timestamp(self) -> float | None:
        """When the picture was taken, in seconds of info.clock; None if there
        is no timestamp.

        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     frame = next(camera)
        >>> frame.info.clock, frame.timestamp > 0
        (Clock.MONOTONIC, True)
        """
        return self.info.timestamp

    def __copy__(self) -> NoReturn:
        # Without it copy.copy() complains about arguments of __new__().
        raise TypeError("a frame of tensors cannot be copied as an object: "
                        "frame.planes() and t.share() are more tensors over its "
                        "memory, t.copy() is a copy")

    if not TYPE_CHECKING:
        index, count = _absent("index"), _absent("count")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """One array of all tensors, a copy, if they have one shape and dtype."""
        self._check_open()
        if len({(t.shape, t.dtype) for t in super().__iter__()}) > 1:
            raise UnsupportedError(
                _EOPNOTSUPP, f"a frame of {self.info.format} has tensors of "
                "different shapes, which are no one array: np.asarray(frame[0]) is "
                "the first plane, and view=\"stacked\" makes one tensor of all if "
                "the format has that view")
        if copy is False:
            raise ValueError("one array of a frame's tensors is a copy")
        np: Any = importlib.import_module("numpy")
        return np.array([t.numpy() for t in super().__iter__()], dtype)

    def release(self) -> None:
        """Closes the program's tensors of the frame; a second call does nothing.

        Raises Error with EBUSY while another thread uses one of them.

        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     frame = next(camera)
        ...     frame.release()
        ...     camera.held
        0
        """
        for tensor in super().__iter__():
            tensor.close()

    def _check_open(self) -> None:
        if len(self) and all(t.closed for t in super().__iter__()):
            raise InvalidError(22, "the frame was released: its tensors are "
                               "closed, and its camera or sender has it")

    def __iter__(self) -> Iterator[Tensor]:
        """Iterates over the tensors; InvalidError after release()."""
        self._check_open()
        return super().__iter__()

    def planes(self, access: Access | int | str | None = None, *,
               deadline: SupportsFloat | None = None
               ) -> contextlib.AbstractContextManager[tuple[Tensor, ...]]:
        """Acquires all tensors of the frame together, for a `with` block.

        The block gets new tensors over the same memory. They keep the lease, also
        if the frame is released meanwhile, and several threads may have some. At
        the end of the block the access of all of them ends, and they are closed;
        arrays that were made of them stay. access: None is all that the frame
        allows; with "read" the tensors are read-only. The call waits once, for the
        fences of all the frame's dma-bufs, until deadline, in seconds of
        time.monotonic(). Raises DeadlineError then, and InvalidError if the frame was
        released.

        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     with next(camera).planes("read") as (y, uv):
        ...         y.shape, uv.shape
        ((180, 320), (90, 160, 2))
        """
        return _Planes(self, access, deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.release()

    def __repr__(self) -> str:
        i = self.info
        return (f"<dlbuf.TensorFrame {i.format} {i.width}x{i.height}, sequence "
                f"{i.sequence}, {len(self)} tensors>")


class _Planes:
    """Of TensorFrame.planes(). A generator and an ExitStack take twice the time."""

    def __init__(self, frame: TensorFrame, access: Access | int | str | None,
                 deadline: SupportsFloat | None) -> None:
        self._args = frame, access, deadline
        self._entered: list[tuple[Tensor, ...]] = []

    def __enter__(self) -> tuple[Tensor, ...]:
        frame, access, deadline = self._args
        planes = tuple(_dlbuf.acquire_all(tuple(frame), access, deadline))
        self._entered.append(planes)
        return planes

    def __exit__(self, *error: Any) -> None:
        planes = self._entered.pop()
        try:
            _call_each([plane.__exit__ for plane in planes], *error)
        finally:
            _call_each([plane.close for plane in planes])


def _call_each(calls: list[Callable[..., object]], *args: Any) -> None:
    """The last one first, and each one also if another one raises."""
    while calls:
        try:
            calls.pop()(*args)
        except BaseException:
            _call_each(calls, *args)
            raise


def own_fds(frame: TensorFrame) -> Frame:
    """The frame's record with the fds of its tensors: the producer's may be closed by now,
    and their numbers reused."""
    info, tensors = frame.info, tuple(frame)
    if len(info.planes) == 1:
        tensors = tensors[:1]
    if len(tensors) != len(info.planes) or info.view != View.PLANES and len(tensors) > 1:
        return info
    # Memory that is no dma-buf has none.
    return info._replace(planes=tuple(p if t.fd is None else p._replace(fd=t.fd) for p, t in
                                      zip(info.planes, tensors, strict=True)))


def import_frame(*args: Any, **kwargs: Any) -> TensorFrame:
    """from_frame() for the adapters, whose frames are tuples with a lease."""
    tensors = from_frame(*args, **kwargs)
    info = tensors[0].frame
    assert info
    return TensorFrame(tensors, info)
