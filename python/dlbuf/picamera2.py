# SPDX-License-Identifier: MIT
"""Picamera2's requests as tensors. Picamera2 is the program's own, and is not imported.

    import dlbuf.picamera2

    with camera.captured_request() as request:
        y, u, v = dlbuf.picamera2.frame(request, "lores")
"""

from __future__ import annotations

from typing import Any

from . import libcamera
from ._dlbuf import Device
from ._errors import InvalidError
from ._frames import TensorFrame
from ._types import Access, Orientation, View

_EINVAL = 22


def frame(
    request: Any,
    name: str = "main",
    *,
    device: Device | str = "cpu",
    view: View | str = View.PLANES,
    access: Access | int | str | None = None,
    may_copy: bool = False,
    orientation: Orientation | int | str = Orientation.NONE,
) -> TensorFrame:
    """Makes the tensors of one stream of a picamera2.CompletedRequest: "main",
    "lores" or "raw".

    The request is acquired, and released when the last tensor is gone: the camera
    has its buffers back when you have released it, too. Delete the tensors, or use
    `with frame:`, and do not leave them to the garbage collector, which may run
    while this thread is in Picamera2: its lock is not reentrant. What else there is
    to know, and the options, are those of dlbuf.libcamera.frame(). Picamera2 turns the
    pictures as its configuration's transform says, by halves only: say orientation for
    a camera that is mounted turned by a quarter.

    >>> from picamera2 import Picamera2
    >>> import dlbuf.picamera2
    >>> with Picamera2() as camera:
    ...     camera.start()
    ...     with camera.captured_request() as request:
    ...         pixels, = dlbuf.picamera2.frame(request)
    """
    try:
        streams, acquire, release = request.stream_map, request.acquire, request.release
    except AttributeError:
        raise TypeError("a frame is made of a picamera2.CompletedRequest, not of "
                        f"{request!r}") from None
    stream = streams.get(name)
    if stream is None:
        has = ", ".join(n for n, s in streams.items() if s)
        raise InvalidError(_EINVAL, f"the request has no stream {name!r}, it has "
                           f"{has or 'none: it was released'}")
    acquire()
    try:
        return libcamera.frame(
            stream, request.request.buffers[stream], release=release, device=device,
            view=view, access=access, may_copy=may_copy, orientation=orientation)
    except BaseException:
        release()
        raise
