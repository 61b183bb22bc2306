# SPDX-License-Identifier: MIT
"""libcamera's buffers as tensors. libcamera's own Python module (Debian:
python3-libcamera) is the program's, and is not imported.

    import dlbuf.libcamera

    for request in manager.get_ready_requests():
        for stream, buffer in request.buffers.items():
            y, uv = dlbuf.libcamera.frame(stream, buffer, release=again(request))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._dlbuf import Device
from ._errors import Error, InvalidError, UnsupportedError
from ._frames import TensorFrame, import_frame
from ._producers import find_format
from ._types import (Access, CodeSpace, Colour, Field, FormatInfo, Order,
                     Orientation, Plane, View)

_EINVAL, _ENODATA, _EOPNOTSUPP = 22, 61, 95
_NO_OFFSET = 0xffffffff  # FrameBuffer::Plane::kInvalidOffset

# ColorSpace's words -> code points of H.273.
_PRIMARIES = {"Rec709": 1, "Smpte170m": 6, "Rec2020": 9}
_TRANSFERS = {"Rec709": 1, "Linear": 8, "Srgb": 13}
_MATRICES = {"Rec601": 6, "Rec709": 1, "Rec2020": 9}


def _colour(space: Any) -> Colour:
    if space is None:
        return Colour()
    primaries, encoding = space.primaries.name, space.ycbcrEncoding.name
    # The encoding Null is of RGB, or of a sensor's raw values.
    matrix = _MATRICES.get(encoding, -1 if primaries == "Raw" else 0)
    return Colour(_PRIMARIES.get(primaries, 0),
                  _TRANSFERS.get(space.transferFunction.name, 0), matrix + 1,
                  2 if space.range.name == "Full" else 1)


def _pitch(info: FormatInfo, first: int, i: int) -> int:
    """The pitch of plane i, in the ratio of the bytes that the same pixels have."""
    luma, p = info.planes[0], info.planes[i]
    num = first * p.channels * p.bits * luma.hsub
    den = luma.channels * luma.bits * p.hsub
    if i and num % den:
        raise UnsupportedError(_EOPNOTSUPP, f"a stride of {first} gives no whole bytes "
                               f"for plane {i}")
    return num // den if i else first


def _planes(info: FormatInfo, stride: int, given: list[Any],
            used: list[int]) -> list[Plane]:
    # The virtual pipeline of 0.4 gives NV12 a third, empty plane.
    while len(given) > len(info.planes) and not given[-1].length:
        given.pop()
    if not given or len(given) > len(info.planes):
        raise InvalidError(_EINVAL, f"the FrameBuffer has {len(given)} planes, its "
                           f"format {len(info.planes)}")
    planes: list[Plane] = []
    for i, p in enumerate(given):
        if p.offset == _NO_OFFSET:
            raise InvalidError(_EINVAL, f"plane {i} of the FrameBuffer has no offset")
        planes.append(Plane(p.fd, _pitch(info, stride, i), p.offset,
                            used[i] if i < len(used) and used[i] else p.length))
    return planes


# By EXIF's numbers, which are libcamera's, less 1.
_UPRIGHT = 0, 4, 2, 6, 5, 1, 7, 3


def orientation(stored: Any, wanted: Any = 1) -> Orientation:
    """How to turn the pictures of a camera that is mounted turned, for frame().

    stored is CameraConfiguration.orientation after validate() or configure(): that of
    the pictures. wanted is what the program asked for before, a libcamera.Orientation
    (Rotate0), so that a picture that libcamera has turned as asked stays as it is.

    >>> import libcamera, dlbuf.libcamera
    >>> dlbuf.libcamera.orientation(libcamera.Orientation.Rotate180)
    Orientation.TURN_180
    """
    try:
        first, then = (_UPRIGHT[int(o) - 1] if 1 <= int(o) <= 8 else None
                       for o in (stored, wanted))
    except (TypeError, ValueError):
        first = then = None
    if first is None or then is None:
        raise TypeError("an orientation is a libcamera.Orientation, not "
                        f"{stored!r} or {wanted!r}")
    # As dlbuf_libcamera_orientation() of C++.
    then = then if then & 4 else -then & 3
    return Orientation((first + (-then if first & 4 else then)) & 3 | (first ^ then) & 4)


def frame(
    stream: Any,
    buffer: Any,
    *,
    metadata: Any = ...,
    release: Callable[[], object] | None = None,
    device: Device | str = "cpu",
    view: View | str = View.PLANES,
    access: Access | int | str | None = None,
    may_copy: bool = False,
    orientation: Orientation | int | str = Orientation.NONE,
) -> TensorFrame:
    """Makes the tensors of a libcamera.FrameBuffer.

    stream is the Stream of the buffer, or its StreamConfiguration: it has the pixel
    format with libcamera's modifier, the size, the one stride, from which those of
    further planes follow, and the colour. A single plane for a format of several has
    them one after another.

    metadata is buffer.metadata unless you give another: info has its sequence,
    timestamp (Clock.UNKNOWN: libcamera does not define it) and damaged, and the
    order is COMPLETE. None means that nothing was captured yet. The virtual
    pipeline of 0.4 never writes the metadata: give None.

    orientation is the camera's and not the stream's: orientation() finds it.

    release() is the lease, as in from_frame(): it may queue the request again, on
    any thread. The dma-bufs outlive the FrameBuffer. The other options are those of
    from_frame(). After the camera has stopped, device.trim() frees what the device
    keeps of the old buffers.

    Does not block. Raises Error with ENODATA if the capture was cancelled,
    UnsupportedError for formats that are no tensor, and InvalidError for planes
    that the format has not.

    >>> import libcamera, dlbuf.libcamera
    >>> manager = libcamera.CameraManager.singleton()
    >>> camera = manager.cameras[0]
    >>> _ = camera.acquire()
    >>> config = camera.generate_configuration([libcamera.StreamRole.Viewfinder])
    >>> config.at(0).pixel_format = libcamera.formats.NV12
    >>> _ = config.validate(), camera.configure(config)
    >>> allocator = libcamera.FrameBufferAllocator(camera)
    >>> _ = allocator.allocate(config.at(0).stream)
    >>> buffer = allocator.buffers(config.at(0).stream)[0]
    >>> y, uv = dlbuf.libcamera.frame(config.at(0), buffer, metadata=None)
    >>> y.shape, uv.shape
    ((180, 320), (90, 160, 2))
    >>> del buffer, allocator; camera.release()
    """
    config = getattr(stream, "configuration", stream)
    try:
        pixels, size, given = config.pixel_format, config.size, list(buffer.planes)
        said = buffer.metadata if metadata is ... else metadata
    except AttributeError:
        raise TypeError("a frame is made of a libcamera.Stream, or a StreamConfiguration, "
                        f"and a FrameBuffer, not of {stream!r} and {buffer!r}") from None
    status = said.status.name if said else ""
    if status == "Cancelled":
        raise Error(_ENODATA, "the capture was cancelled: nothing is in the buffer")
    info = find_format(pixels.fourcc, CodeSpace.LIBCAMERA, pixels.modifier)[0]
    # After an error the sizes are not valid.
    used = [p.bytes_used for p in said.planes] if said and status != "Error" else []
    return import_frame(
        _planes(info, config.stride, given, used), size.width, size.height,
        pixels.fourcc, space=CodeSpace.LIBCAMERA, modifier=pixels.modifier, view=view,
        device=device, access=access, may_copy=may_copy,
        sequence=said.sequence if said else None,
        timestamp_ns=said.timestamp if said else None, colour=_colour(config.color_space),
        field=Field.NONE, order=Order.COMPLETE if said else None,
        damaged=status == "Error", release=release, orientation=orientation)
