# SPDX-License-Identifier: MIT
"""A V4L2 camera whose frames are tensors."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Self

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Device
from ._errors import InvalidError
from ._frames import TensorFrame, make_frame
from ._producers import find_format, find_view, name_in
from ._types import Access, CodeSpace, FormatInfo, View

_EINVAL = 22
# The most that V4L2 has.
_MAX_BUFFERS = 32


def _code(format: str | int) -> int:
    """V4L2's code of a format: its name, the code's letters, DRM's name."""
    if isinstance(format, int):
        return format
    try:
        return find_format(format, CodeSpace.V4L2)[1]
    except InvalidError:
        pass
    if len(format) == 4 and format.isascii():
        code = int.from_bytes(format.encode(), "little")
        with contextlib.suppress(InvalidError):
            return find_format(code, CodeSpace.V4L2)[1]
    info = find_format(format, CodeSpace.DRM)[0]
    if not info.v4l2_code:
        raise InvalidError(_EINVAL, f"V4L2 has no format {format}")
    return info.v4l2_code


def _best_view(info: FormatInfo) -> View:
    for view in (View.PLANES, View.WORDS, View.ROWS):
        if view in info.views:
            return view
    return View.BYTES


class Camera(Iterator[TensorFrame]):
    """A capture node of V4L2, whose frames are leases.

        with dlbuf.Camera("/dev/video0", format="NV12") as camera:
            for frame in camera:
                y, uv = frame

    Each frame is a TensorFrame over the camera's own memory, and the camera
    writes there again when the last tensor of it is gone, or release() was
    called. A program that holds all of the buffers waits for the next frame in
    vain: after `timeout` it is told so by a DeadlineError. A loop holds one
    frame while it waits for the next, unless it deletes or releases it, so two
    buffers are the least.

    format: a name, or V4L2's code as a number or its four letters; size: (width, height); fps. None is what the
    camera is set to. A driver gives the nearest size and rate that it has:
    look at `size` and `fps`. buffers: how many, at least; V4L2 may want more.
    view: as in from_frame(); None is planes where the format has them, and
    bytes for a JPEG. timeout: seconds to wait for a frame, None for ever.

    The camera streams from the beginning. Several threads may iterate. After
    close(), on any thread, the iteration ends; frames that are out stay valid.
    In a child of fork() the camera and its frames are the parent's: they raise
    Error (ESTALE), and closing or deleting them has no effect on the parent's.
    """

    def __init__(
        self,
        node: str | os.PathLike[str] = "/dev/video0",
        *,
        format: str | int | None = None,
        size: tuple[int, int] | None = None,
        fps: float | None = None,
        buffers: int = 4,
        device: Device | str = "cpu",
        view: View | str | None = None,
        access: Access | int | str | None = None,
        timeout: float | None = 10.0,
    ) -> None:
        width, height = size or (0, 0)
        if not 1 <= buffers <= _MAX_BUFFERS:
            raise InvalidError(_EINVAL, f"{buffers} buffers, 1 to "
                               f"{_MAX_BUFFERS} are possible")
        if size is not None and not (0 < width < 1 << 31 and
                                     0 < height < 1 << 31):
            raise InvalidError(_EINVAL, f"a size of {width}x{height}")
        if fps is not None and not 0.001 <= fps <= 100000:
            raise InvalidError(_EINVAL, f"{fps} frames a second")
        self.node = os.fspath(node)
        self.device = device
        self.access = access
        self.timeout = timeout
        self._view = None if view is None else find_view(view)
        self._capture = _dlbuf.Capture(
            self.node, 0 if format is None else _code(format), width, height,
            fps or 0.0, buffers)
        code, width, height, rate, self.buffers, self.card, self.driver = (
            self._capture.info)
        self.size = width, height
        self.fps = rate or None
        self.code = code
        try:
            info, _, space = find_format(code, CodeSpace.V4L2)
        except InvalidError:
            # Its own format, which nobody has asked for: bytes are bytes.
            self.format = f"0x{code:08x}"
            self.view = self._view or View.BYTES
        else:
            self.format = name_in(info, code, space)
            self.view = (_best_view(info) if self._view is None else
                         self._view)

    @property
    def closed(self) -> bool:
        return self._capture.closed

    @property
    def held(self) -> int:
        """How many of its buffers the program has."""
        return self._capture.held

    def __next__(self) -> TensorFrame:
        deadline = None
        if self.timeout is not None:
            deadline = time.monotonic() + self.timeout
        got = self._capture.next(deadline, self.device, int(self.view),
                                 self.access, make_frame)
        if got is None:
            raise StopIteration
        return TensorFrame(*got)

    def close(self) -> None:
        """Stops the camera and gives it up. Again: nothing.

        The device forgets its buffers, as Device.trim() does, so that their
        memory is free; those of frames that are out follow when it is trimmed
        again.
        """
        if not self.closed:
            self._capture.close(self.device)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (f"<dlbuf.Camera {self.node}, {self.format} "
                f"{self.size[0]}x{self.size[1]}"
                f"{', closed' if self.closed else ''}>")
