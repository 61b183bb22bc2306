# SPDX-License-Identifier: MIT
"""dma-bufs -> Tensors. from_fd() is C all the way; these are not per frame."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Device, Tensor
from ._errors import InvalidError
from ._types import (MOD_LINEAR, Access, Clock, CodeSpace, Colour, DeviceInfo, Field,
                     FormatInfo, FormatPlane, Frame, Order, Orientation, Plane, View)

_EINVAL = 22
MAY_COPY, KEEP = 1, 2


@functools.lru_cache(maxsize=None)
def formats() -> tuple[FormatInfo, ...]:
    """Lists every pixel format of DRM and V4L2 that the library knows.

    >>> [f.drm_name for f in dlbuf.formats() if f.channels == "UYVY"]
    ['UYVY']
    """
    return tuple(
        f._replace(planes=tuple(FormatPlane(*p) for p in f.planes),
                   views=tuple(v for v in View
                               if int(f.views) >> v & 1))  # type: ignore
        for f in _dlbuf.formats())


def devices() -> list[DeviceInfo]:
    """Lists every device of this build; those that cannot be used have a reason.

    Loads every driver library, so it may block. It opens no device: one with status 0 may
    still be refused by Device(name).

    >>> [d.name for d in dlbuf.devices() if not d.status][0]
    'cpu'
    """
    return _dlbuf.devices()


def exporters() -> list[tuple[str, str, int, str]]:
    """Lists the exporters of dma-bufs: (name, node, status, reason) of each.

    alloc() takes name. status is 0, or the errno for which the exporter cannot
    be used, and reason its text. Each one is tried by an allocation of a page.

    >>> [e[1] for e in dlbuf.exporters() if e[0] == "udmabuf"]
    ['/dev/udmabuf']
    """
    return _dlbuf.exporters()


# Names that are in no table -> the name in DRM.
_ALIASES: dict[str, str] = {a: b for a, _, b in (w.partition("=") for w in """
    IYUV=YUV420 YUNV=YUYV GREY8=Y8 Y800=Y8 MONO8=Y8 GRAY16=R16 MONO16=R16
    JPG=JPEG""".split())}


@functools.lru_cache(maxsize=None)
def _by_codes() -> dict[tuple[int, int], FormatInfo]:
    return {(f.drm_code, f.v4l2_code): f for f in formats()}


@functools.lru_cache(maxsize=None)
def _all_names() -> dict[tuple[str, CodeSpace], FormatInfo]:
    """The formats by name, in capitals, and the space of the name."""
    return {(name.upper(), CodeSpace(space)): _by_codes()[drm, v4l2]
            for name, space, drm, v4l2 in _dlbuf.format_names()}


def find_format(format: str | int, space: CodeSpace | str | None = None,
                modifier: int = MOD_LINEAR) -> tuple[FormatInfo, int, CodeSpace]:
    """Finds a format by name or code: (what it is, its code, the code's space).

    A name is one of DRM, V4L2, GStreamer ("I420", "YUY2", "BGR", "rggb10le") or
    FFmpeg ("yuv420p"), or the four letters of a code ("XR24"). space says whose,
    if it means different formats: AYUV is another order of bytes in DRM than in
    GStreamer. A number needs a space, DRM, V4L2 or libcamera; modifier is libcamera's,
    whose packed Bayer has the code of the unpacked. Raises InvalidError if there is
    no such format, or more than one.

    >>> info, code, space = dlbuf.find_format("NV12")
    >>> code.to_bytes(4, "little"), space
    (b'NV12', CodeSpace.DRM)
    >>> dlbuf.find_format("I420")[0].drm_name
    'YUV420'
    """
    if not isinstance(format, str):
        try:
            format = operator.index(format)
        except TypeError:
            raise TypeError("a format is a name or a code, not "
                            f"{format!r}") from None
        _unsigned(32, "the format's code", format)
    _unsigned(64, "modifier", modifier)
    where = _find_space(space)
    return _find_format(format, where,
                        modifier if where == CodeSpace.LIBCAMERA else MOD_LINEAR)


def _find_space(space: Any) -> CodeSpace | None:
    if space is None:
        return None
    try:
        return (CodeSpace[space.upper()] if isinstance(space, str) else
                CodeSpace(space))
    except (KeyError, ValueError):
        raise InvalidError(_EINVAL, "the space of a code is "
                           f"{' or '.join(s.name for s in CodeSpace)}, not "
                           f"{space!r}") from None


@functools.lru_cache(maxsize=256)
def _find_format(format: str | int, space: CodeSpace | None, modifier: int
                 ) -> tuple[FormatInfo, int, CodeSpace]:
    if isinstance(format, str):
        found = _by_name(format.strip(), space, modifier)
        if found:
            return found
        raise InvalidError(_EINVAL, f"there is no format {format!r}"
                           f"{' of ' + space.name if space else ''}"
                           f"{_near(format.upper(), space)}; dlbuf.formats() lists all")
    if space is None:
        raise InvalidError(_EINVAL, f"code 0x{format:08x} of which space? "
                           "DRM and V4L2 share numbers: say space=\"DRM\" or "
                           "\"V4L2\"")
    found = _by_code(format, space, modifier)
    if found:
        return found
    raise InvalidError(_EINVAL, f"there is no code 0x{format:08x} of "
                       f"{space.name}; dlbuf.formats() lists all")


def _by_code(code: int, space: CodeSpace, modifier: int
             ) -> tuple[FormatInfo, int, CodeSpace] | None:
    row = _dlbuf.find_code(code, modifier, int(space))
    return (_by_codes()[row], code, space) if row else None


_FRAMEWORKS = (CodeSpace.GSTREAMER, CodeSpace.FFMPEG)
_CODED = (CodeSpace.DRM, CodeSpace.V4L2)


def _by_name(format: str, space: CodeSpace | None, modifier: int
             ) -> tuple[FormatInfo, int, CodeSpace] | None:
    name = _ALIASES.get(format.upper(), format.upper())
    places = [space] if space else [*_CODED, *_FRAMEWORKS]
    found = {p: f for p in places if (f := _all_names().get((name, p)))}
    codes = {}
    if len(format) == 4 and format.isascii():
        letters = int.from_bytes(format.encode(), "little")
        codes = {p: by for p in places if p not in found
                 if (by := _by_code(letters, p, modifier))}
        found |= {p: by[0] for p, by in codes.items()}
    if not found and space and space not in _FRAMEWORKS:
        # A name of DRM or a framework, for a code of that space.
        found = {p: f for p in (CodeSpace.DRM, *_FRAMEWORKS)
                 if (f := _all_names().get((name, p))) and _names(f, space)}
    if len({id(f) for f in found.values()}) > 1:
        where = ", ".join(f"{name_in(f, -1, p)} ({'packed' if f.reason else f.channels}) "
                          f"in {p.name}" for p, f in found.items())
        names = map(_only_name, {id(f): f for f in found.values()}.values())
        raise InvalidError(_EINVAL, f"{format} is ambiguous, it is {where}: write "
                           f"{' or '.join(filter(None, names))}, or a space")
    for info in found.values():
        spaces = _CODED if space in (None, *_FRAMEWORKS) else (space,)
        of = [(label, code, p) for p in spaces for label, code in _names(info, p)]
        for label, code, p in of:
            if label and label.upper() == name:
                return info, code, p
        return next(iter(codes.values()), (info, *of[0][1:]) if of else None)
    return None


def _only_name(info: FormatInfo) -> str | None:
    """A name that is no other format's, nor the letters of a code."""
    names = _all_names()
    for name, space in sorted(names, key=lambda n: n[1] in _CODED):
        if len(name) != 4 and names[name, space] is info and all(
                names.get((name, s), info) is info for s in CodeSpace):
            return name
    return None


def nearest(name: str, names: Iterable[str]) -> str:
    """"; near it: NV12", or nothing."""
    import difflib
    found = difflib.get_close_matches(name, list(names), cutoff=0.6)
    return f"; near it: {', '.join(found)}" if found else ""


def _near(name: str, space: CodeSpace | None) -> str:
    """The other spaces that have the name, or names near it."""
    others = [s.name for n, s in _all_names() if n == name and s is not space]
    return (f", but of {' and '.join(others)}" if others else
        # libcamera's SBGGR10_CSI2P is SBGGR10P.
            nearest(name.replace("_CSI2P", "P"), {n for n, s in _all_names() if space in (None, s)} |
                    (set(_ALIASES) if space is None else set())))


def _names(f: FormatInfo, space: CodeSpace) -> list[tuple[str | None, int]]:
    """The names of a space. libcamera has DRM's, except for a few codes of its own."""
    if space == CodeSpace.V4L2:
        pairs = [(f.v4l2_name, f.v4l2_code),
                 (f.v4l2_multi_name, f.v4l2_multi_code)]
    else:
        pairs = [(f.drm_name, f.drm_code)]
    return [(name, code) for name, code in pairs if code]


def name_in(info: FormatInfo, code: int, space: CodeSpace) -> str:
    """The name of the format in that space."""
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
        raise InvalidError(
            _EINVAL, f"there is no view {view!r}: there are "
            f"{', '.join(v.name.lower() for v in View)}") from None


def best_view(info: FormatInfo) -> View:
    """The tensors with most meaning that all of the format's bytes are in."""
    for view in (View.PLANES, View.WORDS, View.ROWS):
        if view in info.views:
            return view
    return View.BYTES


def integers(values: Any, n: int) -> tuple[int, ...] | None:
    """n whole numbers, or None."""
    try:
        numbers = tuple(map(operator.index, values))
    except TypeError:
        return None
    return numbers if len(numbers) == n else None


def _unsigned(bits: int, what: str, *values: int, signed: bool = False) -> None:
    """C's conversions take any number, and only some of its bits."""
    half = 1 << bits - 1 if signed else 0
    for value in values:
        if type(value) is not int and not integers([value], 1):
            raise TypeError(f"{what} {value!r} is not a whole number")
        if not -half <= value < (1 << bits) - half:
            raise InvalidError(_EINVAL, f"{what} {value} does not fit {bits} "
                               f"bits{'' if signed else ' without a sign'}")


def _one_of(kind: Any, what: str, value: Any) -> Any:
    try:
        return kind[value.upper()] if isinstance(value, str) else kind(value)
    except (KeyError, ValueError):
        raise InvalidError(_EINVAL, f"{what} is one of "
                           f"{', '.join(f'{kind.__name__}.{k.name}' for k in kind)}, not "
                           f"{value!r}") from None


def several(what: str, values: Any, kind: str) -> tuple[Any, ...]:
    """A tuple of an argument."""
    try:
        return tuple(values)
    except TypeError:
        raise TypeError(f"{what} is a sequence of {kind}, not {values!r}"
                        ) from None


def from_frame(
    planes: Sequence[Plane | tuple[int, ...]],
    width: int,
    height: int,
    format: str | int,
    *,
    space: CodeSpace | str | None = None,
    modifier: int = MOD_LINEAR,
    view: View | str = View.PLANES,
    crop: tuple[int, int, int, int] | None = None,
    device: Device | str = "cpu",
    access: Access | int | str | None = None,
    fence: int | None = None,
    may_copy: bool = False,
    release: Callable[[], object] | None = None,
    sequence: int | None = None,
    timestamp_ns: int | None = None,
    clock: Clock | int | str = Clock.UNKNOWN,
    field: Field | int | str = Field.UNKNOWN,
    order: Order | int | str | None = None,
    damaged: bool = False,
    colour: Colour = Colour(),
    orientation: Orientation | int | str = Orientation.NONE,
) -> list[Tensor]:
    """Makes the tensors of a camera's or decoder's frame, one per plane by
    default.

    planes: (fd, pitch, offset, bytes) each, in bytes; offset and bytes may be
    left out. The fds are duplicated. With a V4L2 format one plane is enough
    where the planes follow one another. width and height are in pixels. format
    is a name or, with space, a code. crop: (x, y, width, height) in pixels, of
    which the tensors are made; None is the whole frame.
    view says which tensors, see View. access and may_copy are as in from_fd().
    fence: a sync_file that the pixels wait for, borrowed, -1 if it has
    signalled. sequence, timestamp_ns with its clock, field, order, damaged,
    colour and orientation are what Tensor.frame says; the import does not use them.
    clock, field, order and orientation are a member, its number or its name.
    TensorFrame(tensors, tensors[0].frame) makes one frame of the list, which send()
    sends with all of this.

    release() is the frame's lease. It is called once, when the last tensor of
    this frame, and what was made of it, is gone and the last access to it is
    complete; on any thread, and not while the interpreter exits. It is not
    called if from_frame() raises. An object that release() belongs to may refer
    to the tensors: the garbage collector finds such a cycle, unless it goes
    through an array or a view that was made of them.

    Blocks while the driver maps a new dma-buf; does not wait for fences. Raises
    InvalidError for a frame outside its dma-bufs, and UnsupportedError, with
    the reason, for a format or view that is no tensor.

    >>> t = dlbuf.alloc((6, 4), "uint8")
    >>> y, uv = dlbuf.from_frame([(t.fd, 4), (t.fd, 4, 16)], 4, 4, "NV12",
    ...                          release=lambda: print("released"))
    >>> y.shape, uv.shape
    ((4, 4), (2, 2, 2))
    >>> del y, uv
    released
    """
    info, code, where = find_format(format, space, modifier)
    view = find_view(view)
    if crop and not integers(crop, 4):
        raise InvalidError(_EINVAL, f"the crop {crop!r} is not (x, y, width, "
                           "height) in pixels")
    _unsigned(32, "width", width)
    _unsigned(32, "height", height)
    _unsigned(32, "crop", *(crop or ()))
    if release is not None and not callable(release):
        raise TypeError(f"release is a function, not {release!r}")
    try:
        each = tuple(Plane(*p) for p in planes)
        bad = any(not integers(p, 4) for p in each)
    except TypeError:
        bad, each = True, ()
    if bad:
        raise TypeError("a plane is (fd, pitch), (fd, pitch, offset) or (fd, "
                        "pitch, offset, bytes), all integers, and planes are "
                        f"{planes!r}")
    if (len(each) == 1 < len(info.planes) and where == CodeSpace.DRM and
            info.v4l2_code):
        raise InvalidError(
            _EINVAL, f"{name_in(info, code, where)} has {len(info.planes)} planes, "
            "the frame has 1: give each, or say space=\"V4L2\" if they follow one "
            "another in one dma-buf")
    when: Order = Order.FENCE if fence is not None else _one_of(Order, "order", order or 0)
    if when is Order.FENCE and fence is None:
        raise InvalidError(_EINVAL, "Order.FENCE wants a fence, -1 if it has signalled")
    if (points := integers(colour, len(Colour()))) is None:
        raise TypeError(f"colour is a dlbuf.Colour, not {colour!r}")
    _unsigned(8, "colour", *points)
    _unsigned(64, "sequence", *([] if sequence is None else [sequence]))
    _unsigned(64, "timestamp_ns", *([] if timestamp_ns is None else [timestamp_ns]),
              signed=True)
    frame = Frame(
        width, height, name_in(info, code, where), code, where, modifier,
        info.channels, each, crop if crop and any(crop) else None, view, sequence,
        timestamp_ns, _one_of(Clock, "clock", 0 if timestamp_ns is None else clock),
        _one_of(Field, "field", field), when, bool(damaged), Colour(*points),
        _one_of(Orientation, "orientation", orientation))
    for p in frame.planes:
        _unsigned(32, "a plane's fd", p.fd, signed=True)
        _unsigned(64, "a plane's pitch", p.pitch, signed=True)
        _unsigned(64, "a plane's offset or bytes", p.offset, p.bytes)
    return _dlbuf.import_frame(
        device, frame, (width, height, code, int(where), modifier),
        tuple((p.fd, p.pitch, p.offset, p.bytes) for p in frame.planes),
        crop or (0, 0, 0, 0), int(view), access,
        bool(may_copy) * MAY_COPY, fence, release)


@overload
def alloc(shape: Sequence[int] | int, dtype: Any, device: Device | str = ...,
          *, strides: Sequence[int] | None = ..., exporter: str | None = ...,
          name: str | None = ..., v4l2: Sequence[Any] = ...) -> Tensor: ...


@overload
def alloc(shape: Sequence[int] | int, dtype: Any,
          device: Sequence[Device | str], *,
          strides: Sequence[int] | None = ..., exporter: str | None = ...,
          name: str | None = ...,
          v4l2: Sequence[Any] = ...) -> list[Tensor]: ...


def alloc(shape: Sequence[int] | int, dtype: Any,
          device: Device | str | Sequence[Device | str] = "cpu", *,
          strides: Sequence[int] | None = None, exporter: str | None = None,
          name: str | None = None,
          v4l2: Sequence[Any] = ()) -> Tensor | list[Tensor]:
    """Makes a new dma-buf, zero-filled, and a tensor of it.

    shape and strides count elements; strides=None means compact rows. With a
    list of devices it is one dma-buf that all of them can use without a copy,
    and the result is a list with a tensor on each. exporter: "udmabuf",
    "udmabuf:2M", "heap:system" ..., see exporters(), or "device", memory of the
    first device that has its own; None tries what there is. name is what the
    kernel's lists show, at most 31 bytes.

    v4l2: opened V4L2 nodes, files or fds, that import the buffer, too. Their
    formats are set before, and they have no buffers of their own. Each is
    tried with the new buffer.

    The dma-buf lives as long as its tensors. May block while drivers allocate.
    Raises UnsupportedError or Error if no exporter suits all; the text says
    who refused which.

    >>> dlbuf.alloc((4, 6), "uint8").nbytes
    24
    """
    texts: list[tuple[str, Any]] = [("an exporter", exporter), ("a name", name)]
    for what, text in texts:
        if not isinstance(text, (str, type(None))):
            raise TypeError(f"{what} is text, not {text!r}")
    one = isinstance(device, (str, Device))
    made = _dlbuf.alloc(
        (device,) if one else several("device", device, "Devices or names"),
        shape, dtype, strides, exporter, name,
        several("v4l2", v4l2, "files or fds"))
    return made[0] if one else made
