# SPDX-License-Identifier: MIT
"""A V4L2 camera whose frames are tensors."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from typing import Any

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Device
from ._errors import ClosedError, Error, InvalidError, UnsupportedError
from ._frames import TensorFrame, make_frame
from ._producers import best_view, find_format, find_view, integers, name_in
from ._stream import Stream, within
from ._types import Access, CodeSpace, View
from ._v4l2 import (CameraFormat, CameraInfo, Controls, check_process,
                    read_formats, sysfs_name)

_EINVAL = 22
_PROBE = 1
TRY_EXPORTER = 'exporter="udmabuf"'
# The most that V4L2 has.
_MAX_BUFFERS = 32


def _codes(format: str | int) -> list[int]:
    """V4L2's codes of a format: in one dma-buf, or with one for each plane."""
    if isinstance(format, int):
        # The camera may have one of its own, of which only the bytes are known.
        if not 0 < format < 1 << 32:
            raise InvalidError(_EINVAL, f"the format's code {format} does not "
                               "fit 32 bits, or is 0")
        return [format]
    try:
        code = find_format(format, CodeSpace.V4L2)[1]
        info = find_format(code, CodeSpace.V4L2)[0]
        codes = [code]
    except InvalidError:
        # A name of DRM, or an unknown one, which the error then names.
        info = find_format(format)[0]
        codes = [info.v4l2_code]
    codes = [c for c in (*codes, info.v4l2_multi_code) if c]
    if not codes:
        raise InvalidError(_EINVAL, f"V4L2 has no format {format}")
    return sorted(set(codes), key=codes.index)


def parse_size(size: Any) -> tuple[int, int]:
    """(640, 480) or "640x480" -> its two numbers."""
    if isinstance(size, str):
        m = re.fullmatch(r"\s*(\d{1,10})\s*[xX*]\s*(\d{1,10})\s*", size)
        numbers = integers(map(int, m.groups()), 2) if m else None
    else:
        numbers = integers(size, 2)
    if numbers is None or not all(0 < n < 1 << 31 for n in numbers):
        raise InvalidError(_EINVAL, f"the size {size!r} is not a width and a "
                           'height in pixels, such as (640, 480) or "640x480"')
    return numbers[0], numbers[1]


def _parse_crop(crop: Any) -> tuple[int, int, int, int]:
    numbers = integers(crop, 4)
    if (numbers is None or not all(0 <= n < 1 << 31 for n in numbers) or
            not numbers[2] or not numbers[3]):
        raise InvalidError(_EINVAL, f"the crop {crop!r} is not (x, y, width, "
                           "height) in pixels")
    return numbers[0], numbers[1], numbers[2], numbers[3]


# ------------------------------------------------------------------- nodes

def _probe(node: str) -> CameraInfo | None:
    """None: it is no camera."""
    name = sysfs_name(node)
    try:
        info = _dlbuf.Capture(node, _PROBE, 0, 0, 0, 0.0, 0, False).info
    except UnsupportedError:
        return None
    except Error as e:
        if e.errno in (errno.ENOTTY, errno.ENOENT):
            return None
        return CameraInfo(node, "", "", "", name, e.errno or 0,
                          str(e.strerror))
    return CameraInfo(node, *info[5:], name, 0, "")


def cameras() -> list[CameraInfo]:
    """Lists the cameras of this machine: nodes that capture video and share
    their buffers.

    Nodes for metadata or output, and codecs, are left out. A node that cannot be
    opened is listed with the reason, because it may be a camera. The call opens
    each /dev/video* and closes it again, also while other programs capture, and
    changes nothing.

    >>> [c.card for c in dlbuf.cameras() if c.node == "/dev/video0"]
    ['vivid']
    """
    try:
        names = os.listdir("/dev")
    except OSError as e:
        raise Error(e.errno or 0, f"/dev: {e.strerror}") from None
    nodes = [f"/dev/{n}" for n in names if re.fullmatch(r"video\d+", n)]
    nodes.sort(key=lambda n: int(n[10:]))
    return [c for c in map(_probe, nodes) if c]


def _listed(found: Sequence[CameraInfo]) -> str:
    return ", ".join(f"{c.node} ({c.card}, {c.bus})" if c.card else
                     f"{c.node} (cannot be opened)" for c in found)


def find_node(node: Any) -> str:
    """The node of a number, a path, or a name or bus of cameras()."""
    try:
        path = os.fsdecode(node)
    except TypeError:
        numbers = integers([node], 1)
        if numbers is None or isinstance(node, bool):
            raise TypeError(
                "a camera is a number, a path, or a name of dlbuf.cameras(), "
                f"not {node!r}") from None
        if numbers[0] < 0:
            raise InvalidError(_EINVAL, f"there is no camera {node}: its "
                               "number is that of /dev/video0, /dev/video1 "
                               "...") from None
        return f"/dev/video{numbers[0]}"
    if "/" in path or os.path.exists(path):
        return path
    every = cameras()
    words = path.lower()
    labels = [(c, [x.lower() for x in (c.card, c.bus, c.name) if x])
              for c in every]
    found = ([c for c, l in labels if words in l] or
             [c for c, l in labels if words and any(words in x for x in l)])
    if len(found) == 1:
        return found[0].node
    if found:
        raise InvalidError(_EINVAL, f"{len(found)} cameras are called {path!r}: "
                           f"{_listed(found)}")
    raise Error(errno.ENOENT, f"there is no camera {path!r}; this machine has "
                f"{_listed(every) or 'none'}")


class Camera(Stream[TensorFrame]):
    """A capture node of V4L2, whose frames are leases.

    Each frame is a TensorFrame over the camera's own memory. The camera writes
    there again when the last tensor of the frame is gone, or release() was
    called. If the program holds all buffers, the camera cannot deliver: after
    `timeout` the iteration raises DeadlineError. A loop holds one frame while
    it waits for the next, unless it releases it, so it needs two buffers.

    node: a number (0 is /dev/video0), a path, or a card, bus or name of
    cameras(), or a part of one that only one camera has. format: a name
    ("NV12", "I420", "YUY2", "MJPEG"), or V4L2's code as a number or its four
    letters; size: (width, height) in pixels or "640x480"; fps: frames a second.
    None keeps the camera's setting. A driver takes the nearest size and rate
    that it has: see `size` and `fps`. crop: (x, y, width, height) in pixels, the
    part of the picture that the tensors have, without a copy. buffers: how
    many, at least; the driver may want more. drop=True: each frame is the newest
    one that is ready; older ones go back to the camera at once, and `dropped`
    counts them. device, view and access are as in from_frame(); view=None is
    planes where the format has them, and bytes for a JPEG. timeout: seconds to
    wait for a frame; None waits without a limit. exporter: None captures into the
    camera's own buffers, which it exports; "udmabuf", or another one of exporters(),
    makes the buffers, and the camera imports them. Some drivers can do only one.

    node, card, driver and bus say which camera it is. format (its name), code,
    size, fps (None if the driver does not say), buffers and view are those in
    use. crop, device, access, exporter and timeout are as given; timeout may be changed.

    The camera streams from the beginning. Several threads and asyncio tasks may
    iterate, with `for` or `async for`. After close(), on any thread, the
    iteration ends; frames in use stay valid. In a child of fork() the camera and
    its frames belong to the parent: they raise Error (ESTALE), and closing or
    deleting them has no effect on the parent's.

    Raises Error with ENOENT, EBUSY or ENODEV for the node, AccessError if the
    process may not open it, InvalidError for a format, size, crop or rate that
    cannot be, and UnsupportedError for a format that the camera does not have,
    with those that it has, for a crop that splits a sample of chroma, and for a
    camera that cannot export its buffers, or import those of exporter. Also raises
    what Device(device) raises.

    >>> with dlbuf.Camera(0, format="NV12", size="320x180") as camera:
    ...     y, uv = next(camera)
    ...     camera.size, camera.format, y.shape, camera.held
    ((320, 180), 'NV12', (180, 320), 1)
    """

    def __init__(
        self,
        node: int | str | os.PathLike[str] = "/dev/video0",
        *,
        format: str | int | None = None,
        size: tuple[int, int] | str | None = None,
        fps: float | None = None,
        crop: tuple[int, int, int, int] | None = None,
        buffers: int = 4,
        drop: bool = False,
        device: Device | str = "cpu",
        view: View | str | None = None,
        access: Access | int | str | None = None,
        timeout: float | None = 10.0,
        exporter: str | None = None,
    ) -> None:
        width, height = (0, 0) if size is None else parse_size(size)
        if not integers([buffers], 1) or not 1 <= buffers <= _MAX_BUFFERS:
            raise InvalidError(_EINVAL, f"{buffers!r} buffers, 1 to "
                               f"{_MAX_BUFFERS} are possible")
        if fps is not None and not within(fps, 0.001, 100000):
            raise InvalidError(_EINVAL, f"fps: {fps!r} frames per second, 0.001 "
                               "to 100000 are possible")
        self.crop = None if crop is None else _parse_crop(crop)
        codes = [0] if format is None else _codes(format)
        self._view = None if view is None else find_view(view)
        self.node = find_node(node)
        self.device = device
        self.access = access
        if not isinstance(exporter, (str, type(None))):     # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"an exporter is text, not {exporter!r}")
        self.exporter = exporter
        super().__init__(timeout)
        self._pid = os.getpid()
        self._control_ids: dict[str, int] = {}
        self._capture = self._open(codes, width, height, fps or 0.0, buffers,
                                   drop)
        (code, width, height, rate, self.buffers, self.card, self.driver,
         self.bus) = self._capture.info
        self.size = width, height
        self.fps = rate or None
        self.code = code
        try:
            info, _, space = find_format(code, CodeSpace.V4L2)
        except InvalidError:
            # The camera's own format: the program did not ask for one, so one
            # that dlbuf does not know is shown as BYTES.
            self.format = f"0x{code:08x}"
            self.view = self._view or View.BYTES
        else:
            self.format = name_in(info, code, space)
            self.view = (best_view(info) if self._view is None else
                         self._view)
        if self.crop:
            try:
                self._capture.crop(*self.crop, int(self.view))
            except Error:
                self.close()
                raise

    def _open(self, codes: list[int], width: int, height: int, fps: float,
              buffers: int, drop: bool) -> _dlbuf.Capture:
        """Opens the first of these formats that the camera has."""
        refusal: Error | None = None
        for code in codes:
            try:
                return _dlbuf.Capture(self.node, 0, code, width, height, fps,
                                      buffers, bool(drop), self.device,
                                      self.access, self.exporter)
            except UnsupportedError as e:
                if "VIDIOC_EXPBUF" in str(e.strerror):
                    e = UnsupportedError(e.errno, f'{e.strerror}: try {TRY_EXPORTER}')
                refusal = refusal or e
            except Error as e:
                if e.errno not in (errno.ENOENT, errno.ENXIO):
                    raise
                others = _listed(cameras()) or "no cameras"
                raise Error(e.errno, f"{e.strerror}; this machine has "
                            f"{others}") from None
        assert refusal
        raise refusal

    @property
    def closed(self) -> bool:
        """Whether close() was called.

        >>> with dlbuf.Camera(0) as camera:
        ...     print(camera.closed)
        False
        >>> camera.closed
        True
        """
        return self._capture.closed

    @property
    def held(self) -> int:
        """Number of the camera's buffers that the program uses.

        >>> with dlbuf.Camera(0) as camera:
        ...     with next(camera):
        ...         print(camera.held)
        ...     print(camera.held)
        1
        0
        """
        return self._capture.held

    @property
    def dropped(self) -> int:
        """Number of frames that drop=True has returned to the camera.

        >>> with dlbuf.Camera(0) as camera:
        ...     camera.dropped
        0
        """
        return self._capture.dropped

    @property
    def controls(self) -> Controls:
        """The controls by the names of v4l2-ctl: see Controls.

        >>> with dlbuf.Camera(0) as camera:
        ...     "brightness" in camera.controls
        True
        """
        return Controls(self, self._control_ids, self._pid)

    @property
    def formats(self) -> list[CameraFormat]:
        """The formats that the node has, with their sizes and rates.

        Asks the driver. A closed camera raises ClosedError.

        >>> with dlbuf.Camera(0) as camera:
        ...     "NV12" in [f.name for f in camera.formats]
        True
        """
        self._check_open()
        return read_formats(self.fileno())

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(errno.EPIPE, f"{self.node} is closed")
        check_process(self.node, self._pid)

    def fileno(self) -> int:
        """Returns the fd of the node, for select(), poll() and ioctls. It belongs
        to the camera.

        It is readable when next() has a frame or an error without a wait. From
        close() on it is another file, which is always readable, until the Camera
        is collected. Fails only in a child of fork().

        >>> import select
        >>> with dlbuf.Camera(0) as camera:
        ...     select.select([camera], [], [], 10)[0] == [camera]
        True
        """
        return self._capture.fileno()

    def _name(self) -> str:
        return self.node

    def _next(self, deadline: float | None) -> TensorFrame | None:
        got = self._capture.next(deadline, self.device, int(self.view),
                                 self.access, make_frame)
        return None if got is None else TensorFrame(*got)

    def close(self) -> None:
        """Stops the camera and closes it; a second call does nothing.

        Threads and tasks that wait for a frame end. The device drops its imports
        of the camera's buffers, as Device.trim() does, so that their memory is
        freed; those of frames in use are dropped when the device is trimmed
        again.

        >>> camera = dlbuf.Camera("/dev/video0")
        >>> camera.close()
        >>> list(camera)
        []
        """
        if self.closed:
            return
        try:
            self._capture.close(self.device)
        finally:
            # The selectors have lost the node.
            self._wake_loops()

    def __repr__(self) -> str:
        return (f"<dlbuf.Camera {self.node}, {self.format} "
                f"{self.size[0]}x{self.size[1]}"
                f"{', closed' if self.closed else ''}>")
