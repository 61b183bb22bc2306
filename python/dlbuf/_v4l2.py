# SPDX-License-Identifier: MIT
"""The formats, sizes, rates and controls of a V4L2 node."""

from __future__ import annotations

import array
import enum
import errno
import fcntl
import operator
import os
import platform
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from ._errors import AccessError, ClosedError, Error, InvalidError
from ._producers import find_format, name_in, nearest
from ._types import CodeSpace

# The structs of linux/videodev2.h, in the struct module's words: "@" aligns as
# C does, "=" is for those that are packed there.
CAPABILITY = "@16s32s32s6I"
FMTDESC = "@3I32s5I"
FRMSIZEENUM = "@11I"
FRMIVALENUM = "@13I"
QUERY_EXT_CTRL = "@II32sqqQq8I32I"
QUERYMENU = "=II32sI"
EXT_CONTROL = "=III8s"
EXT_CONTROLS = "@3IiIP"

# Most architectures have 14 bits for the size and 2 for the direction.
_READ, _WRITE, _SHIFT = (
    (2, 4, 29) if platform.machine().startswith(("mips", "ppc", "sparc", "alpha"))
    else (2, 1, 30))


def _number(direction: int, nr: int, layout: str) -> int:
    """_IOR('V', nr, ...) and its like."""
    return (direction << _SHIFT | struct.calcsize(layout) << 16 |
            ord("V") << 8 | nr)


QUERYCAP = _number(_READ, 0, CAPABILITY)
ENUM_FMT = _number(_READ | _WRITE, 2, FMTDESC)
QUERY_MENU = _number(_READ | _WRITE, 37, QUERYMENU)
G_EXT_CTRLS = _number(_READ | _WRITE, 71, EXT_CONTROLS)
S_EXT_CTRLS = _number(_READ | _WRITE, 72, EXT_CONTROLS)
ENUM_FRAMESIZES = _number(_READ | _WRITE, 74, FRMSIZEENUM)
ENUM_FRAMEINTERVALS = _number(_READ | _WRITE, 75, FRMIVALENUM)
QUERY_CTRL = _number(_READ | _WRITE, 103, QUERY_EXT_CTRL)

_MPLANE = 0x1000                    # V4L2_CAP_VIDEO_CAPTURE_MPLANE
_DEVICE_CAPS = 0x80000000
_COMPRESSED = 1
_DISCRETE = 1
_NEXT_CTRL = 0x80000000
_ABSENT = errno.EINVAL, errno.ENOTTY, errno.ENODATA


def _ioctl(fd: int, number: int, layout: str, *values: Any) -> tuple[Any, ...]:
    arg = bytearray(struct.pack(layout, *values))
    while True:
        try:
            fcntl.ioctl(fd, number, arg)
            return struct.unpack(layout, arg)
        except InterruptedError:
            continue


def _text(s: bytes) -> str:
    return s.partition(b"\0")[0].decode(errors="replace")


def _error(err: int, sentence: str) -> Error:
    """As the extension chooses them."""
    kind = (AccessError if err in (errno.EACCES, errno.EPERM) else
            InvalidError if err in (errno.EINVAL, errno.ERANGE) else Error)
    return kind(err, sentence)


def check_process(node: str, pid: int) -> None:
    """A child of fork() has the camera's fd too, but the camera is its parent's."""
    if pid != os.getpid():
        raise Error(errno.ESTALE, f"{node} belongs to the process that opened it, "
                    "and this is a child of it")


# ------------------------------------------------------------------- formats

class FrameSize(NamedTuple):
    """A size that a camera has, in pixels, or a range of sizes.

    >>> size = dlbuf.cameras()[0].formats[0].sizes[0]
    >>> size.width <= size.max_width, sorted(size.fps, reverse=True) == [*size.fps]
    (True, True)
    """

    width: int
    """the width, of a range the smallest one"""
    height: int
    """the height, of a range the smallest one"""
    max_width: int
    """the largest width; width, if it is one size"""
    max_height: int
    """the largest height; height, if it is one size"""
    step_width: int
    """pixels from one width of a range to the next; 0: one size"""
    step_height: int
    """pixels from one height of a range to the next; 0: one size"""
    fps: tuple[float, ...]
    """frames a second, fastest first; empty if the driver does not say"""
    fps_range: bool
    """whether fps has the two ends of a range"""

    def __str__(self) -> str:
        text = f"{self.width}x{self.height}"
        if (self.width, self.height) != (self.max_width, self.max_height):
            text += f"..{self.max_width}x{self.max_height}"
        return text


class CameraFormat(NamedTuple):
    """A pixel format that a camera has, as Camera.formats lists them.

    >>> "NV12" in [f.name for f in dlbuf.cameras()[0].formats]
    True
    """

    name: str
    """a name for Camera(format=), or the code if dlbuf does not know the format"""
    code: int
    """V4L2's code of four letters, as a number"""
    description: str
    """the driver's words"""
    compressed: bool
    """whether it is compressed, such as MJPEG"""
    sizes: tuple[FrameSize, ...]
    """the sizes that the driver lists; may be empty"""


def _each(fd: int, number: int, layout: str, *head: int) -> Iterator[Any]:
    """The answers to the index 0, 1 ... until there are no more."""
    fields = len(struct.unpack(layout, bytes(struct.calcsize(layout))))
    rest = [b"" if "32s" in layout and i + len(head) == 2 else 0
            for i in range(fields - len(head) - 1)]
    for index in range(4096):
        try:
            yield _ioctl(fd, number, layout, index, *head, *rest)
        except OSError as e:
            if e.errno in _ABSENT:
                return
            raise _error(e.errno or 0, f"the formats of the camera: {e.strerror}") from None


def _rates(fd: int, code: int, width: int, height: int
           ) -> tuple[tuple[float, ...], bool]:
    """(frames per second, whether they are the two ends of a range)."""
    rates: list[float] = []
    for answer in _each(fd, ENUM_FRAMEINTERVALS, FRMIVALENUM, code, width,
                        height):
        kind, numbers = answer[4], answer[5:]
        # Intervals: the shortest one is the highest rate.
        pairs = ([numbers[:2]] if kind == _DISCRETE else
                 [numbers[:2], numbers[2:4]])
        rates += [d / n for n, d in pairs if n]
        if kind != _DISCRETE:
            return tuple(rates), True
    return tuple(sorted(rates, reverse=True)), False


def _sizes(fd: int, code: int) -> Iterator[FrameSize]:
    for _, _, kind, *n in _each(fd, ENUM_FRAMESIZES, FRMSIZEENUM, code):
        if kind == _DISCRETE:
            width, height = n[:2]
            size = width, height, width, height, 0, 0
        else:
            size = n[0], n[3], n[1], n[4], n[2], n[5]
        yield FrameSize(*size, *_rates(fd, code, *size[:2]))
        if kind != _DISCRETE:
            return


def read_formats(fd: int) -> list[CameraFormat]:
    """The formats of an opened capture node."""
    caps = _ioctl(fd, QUERYCAP, CAPABILITY, b"", b"", b"", *[0] * 6)
    flags = caps[5] if caps[4] & _DEVICE_CAPS else caps[4]
    # A node with both queues is used as libdlbuf does: single-planar.
    queue = 9 if flags & _MPLANE and not flags & 1 else 1
    formats: list[CameraFormat] = []
    for answer in _each(fd, ENUM_FMT, FMTDESC, queue):
        code = answer[4]
        try:
            info, _, space = find_format(code, CodeSpace.V4L2)
            name = name_in(info, code, space)
        except InvalidError:
            name = f"0x{code:08x}"
        formats.append(CameraFormat(name, code, _text(answer[3]),
                                    bool(answer[2] & _COMPRESSED),
                                    tuple(_sizes(fd, code))))
    return formats


# ------------------------------------------------------------------ controls

class ControlFlag(enum.IntFlag):
    """The description of a control by V4L2.

    >>> with dlbuf.Camera(0) as camera:
    ...     camera.controls.info("brightness").flags == dlbuf.ControlFlag.SLIDER
    True
    """

    DISABLED = 0x0001
    """the control has no function"""
    GRABBED = 0x0002
    """another user of the camera, or the stream, forbids a change"""
    READ_ONLY = 0x0004
    """it cannot be set"""
    UPDATE = 0x0008
    """setting it may change other controls"""
    INACTIVE = 0x0010
    """it has no effect at present, as a manual value in automatic mode"""
    SLIDER = 0x0020
    """a program would show it as a slider"""
    WRITE_ONLY = 0x0040
    """it cannot be read"""
    VOLATILE = 0x0080
    """the hardware changes the value"""
    HAS_PAYLOAD = 0x0100
    """the value is in memory of its own, as a string"""
    EXECUTE_ON_WRITE = 0x0200
    """setting it to its value has an effect, as a button"""
    MODIFY_LAYOUT = 0x0400
    """setting it changes the layout of the buffers"""
    DYNAMIC_ARRAY = 0x0800
    """an array whose length changes"""


# The keys are V4L2_CTRL_TYPE_..., the words are v4l2-ctl's.
_TYPES = {1: "int", 2: "bool", 3: "menu", 4: "button", 5: "int64", 7: "str",
          8: "bitmask", 9: "intmenu"}


class ControlInfo(NamedTuple):
    """The description of a control, which Controls.info() gives.

    >>> with dlbuf.Camera(0) as camera:
    ...     info = camera.controls.info("brightness")
    >>> info.type, info.minimum, info.maximum, info.default
    ('int', 0, 255, 128)
    """

    id: int
    """V4L2's number"""
    name: str
    """the name that v4l2-ctl prints"""
    type: str
    """as v4l2-ctl has it: "int", "bool", "menu", "intmenu", "button", "int64",
    "str" or "bitmask"."""
    minimum: int
    """the smallest value; of a "str" the smallest number of bytes"""
    maximum: int
    """the largest value; of a "str" the largest number of bytes"""
    step: int
    """the difference of neighbouring values"""
    default: int
    """the value that the driver begins with"""
    flags: ControlFlag
    """a set of ControlFlag"""
    menu: Mapping[int, str | int]
    """the entries by number: names, or of an intmenu values; else empty"""


def control_name(title: str) -> str:
    """"White Balance, Auto & Preset" -> "white_balance_auto_preset"."""
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


class _Node(Protocol):
    node: str

    @property
    def closed(self) -> bool: ...
    def fileno(self) -> int: ...


class Controls(Mapping[str, Any]):
    """The controls of a camera, by the names of v4l2-ctl.

    A Mapping whose items can be assigned, and which has each control as an
    attribute, too. A value is an int, a bool, or a str; of a menu it is the
    entry's number, and the entry's name can be assigned as well. A button has
    the value None, and assigning True presses it. Drivers round to the step of a
    control. Arrays and structures are not listed. Controls keep their values
    after the camera is closed.

    Reading and assigning ask the driver, which may take as long as a message on
    USB. A name that the camera does not have raises KeyError, as an attribute
    AttributeError; a value out of range InvalidError with the range; a control
    that is read-only AccessError; one that is grabbed Error (EBUSY); a closed
    camera ClosedError.

    >>> with dlbuf.Camera(0) as camera:
    ...     camera.controls["brightness"] = 100
    ...     print(camera.controls.brightness)
    ...     camera.controls.brightness = 128
    100
    """

    __slots__ = ("_camera", "_known", "_pid")
    _camera: _Node
    _known: dict[str, int]
    _pid: int

    def __init__(self, camera: _Node, known: dict[str, int], pid: int) -> None:
        object.__setattr__(self, "_camera", camera)
        object.__setattr__(self, "_pid", pid)
        object.__setattr__(self, "_known", known)   # filled at the first use

    def _fd(self) -> int:
        if self._camera.closed:
            raise ClosedError(errno.EPIPE, f"{self._camera.node} is closed: "
                              "its controls are those of an open camera")
        check_process(self._camera.node, self._pid)
        return self._camera.fileno()

    def _ids(self) -> dict[str, int]:
        """Name -> id, in the driver's order. They do not change."""
        known: dict[str, int] = {}
        last, fd = 0, self._fd()
        if self._known:
            return self._known
        while True:
            try:
                c = _ioctl(fd, QUERY_CTRL, QUERY_EXT_CTRL, last | _NEXT_CTRL, 0,
                           b"", *[0] * 44)
            except OSError as e:
                if e.errno in _ABSENT:
                    break
                raise self._failed(e, "its controls") from None
            last = c[0]
            if c[1] in _TYPES and not c[7] & ControlFlag.DISABLED:
                known.setdefault(control_name(_text(c[2])), last)
        self._known.update(known)
        return known

    def _failed(self, e: OSError, what: str) -> Error:
        return _error(e.errno or 0, f"{self._camera.node}: {what}: "
                      f"{e.strerror}")

    def _menu(self, fd: int, id: int, low: int, high: int, kind: str
              ) -> dict[int, str | int]:
        menu: dict[int, str | int] = {}
        for index in range(low, min(high, low + 1024) + 1):
            try:
                name = _ioctl(fd, QUERY_MENU, QUERYMENU, id, index, b"", 0)[2]
            except OSError:
                continue        # a menu may have gaps
            menu[index] = (struct.unpack_from("=q", name)[0]
                           if kind == "intmenu" else _text(name))
        return menu

    def info(self, name: str) -> ControlInfo:
        """Describes a control: its type, range, default and menu.

        Asks the driver each time, because ranges may change. Raises KeyError, with
        the nearest names, if the camera does not have it.

        >>> with dlbuf.Camera(0) as camera:
        ...     camera.controls.info("horizontal_flip").type
        'bool'
        """
        known, fd = self._ids(), self._fd()
        if name not in known:
            raise KeyError(f"{self._camera.node} has no control {name!r}"
                           f"{nearest(name, known)}")
        try:
            c = _ioctl(fd, QUERY_CTRL, QUERY_EXT_CTRL, known[name], 0, b"",
                       *[0] * 44)
        except OSError as e:
            raise self._failed(e, name) from None
        id, type, _, low, high, step, default, flags = c[:8]
        kind = _TYPES[type]
        menu = (self._menu(fd, id, low, high, kind) if kind in ("menu", "intmenu")
                else {})
        return ControlInfo(id, name, kind, low, high, step, default,
                           ControlFlag(flags), menu)

    def _transfer(self, number: int, info: ControlInfo, value: bytes = b"",
                  room: int = 0) -> bytes:
        """G_EXT_CTRLS or S_EXT_CTRLS of one: its 8 bytes, or its string."""
        payload = array.array("B", value.ljust(room, b"\0"))
        if room:
            value = struct.pack("@P", payload.buffer_info()[0])
        control = array.array("B", struct.pack(EXT_CONTROL, info.id, room, 0,
                                               value))
        _ioctl(self._fd(), number, EXT_CONTROLS, info.id & 0x0FFF0000, 1, 0, 0,
               0, control.buffer_info()[0])
        return (payload if room else control[12:]).tobytes()

    def __getitem__(self, name: str) -> Any:
        info = self.info(name)
        if info.type == "button" or info.flags & ControlFlag.WRITE_ONLY:
            return None
        room = info.maximum + 1 if info.type == "str" else 0
        try:
            got = self._transfer(G_EXT_CTRLS, info, room=room)
        except OSError as e:
            raise self._failed(e, name) from None
        if room:
            return _text(got)
        value = struct.unpack_from("=q" if info.type == "int64" else
                                   "=I" if info.type == "bitmask" else
                                   "=i", got)[0]
        return bool(value) if info.type == "bool" else value

    def __setitem__(self, name: str, value: Any) -> None:
        info = self.info(name)
        if info.flags & ControlFlag.READ_ONLY:
            raise AccessError(errno.EACCES, f"{name} is read-only")
        room = info.maximum + 1 if info.type == "str" else 0
        if room:
            raw = _string(info, value)
        else:
            n = _integer(info, value)
            raw = (struct.pack("=q", n) if info.type == "int64" else
                   struct.pack("=I", n & 0xFFFFFFFF))
        try:
            self._transfer(S_EXT_CTRLS, info, raw, room)
        except OSError as e:
            why = (": the driver does not change it while the camera streams"
                   if e.errno == errno.EBUSY else "")
            raise self._failed(e, f"{name} = {value!r}{why}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids())

    def __len__(self) -> int:
        return len(self._ids())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as e:
            raise AttributeError(e.args[0]) from None

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            self[name] = value
        except KeyError as e:
            raise AttributeError(e.args[0]) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._ids()]

    def __repr__(self) -> str:
        if self._camera.closed:
            return f"<dlbuf.Controls of {self._camera.node}, closed>"
        return (f"<dlbuf.Controls of {self._camera.node}: "
                f"{', '.join(self)}>")


def _refuse(info: ControlInfo, value: Any, what: str) -> InvalidError:
    return InvalidError(errno.ERANGE, f"{info.name} is {what}, not {value!r}")


def _integer(info: ControlInfo, value: Any) -> int:
    """The number that the driver gets."""
    if info.type == "button":
        if value is not True:
            raise _refuse(info, value, "a button: True presses it")
        return 0
    if isinstance(value, str):
        for index, entry in info.menu.items():
            if str(entry).lower() == value.lower():
                return index
    entries = ", ".join(f"{i} ({entry})" for i, entry in info.menu.items())
    what = (f"one of {entries}" if info.menu else
            "True or False" if info.type == "bool" else
            f"a set of the bits 0x{info.maximum & 0xFFFFFFFF:x}"
            if info.type == "bitmask" else
            f"{info.minimum} to {info.maximum}")
    try:
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise _refuse(info, value, what) from None
    fits = (number in info.menu if info.menu else
            not number & ~(info.maximum & 0xFFFFFFFF)
            if info.type == "bitmask" else
            info.minimum <= number <= info.maximum)
    if not fits:
        raise _refuse(info, value, what)
    return number


def _string(info: ControlInfo, value: Any) -> bytes:
    what = f"a str of {info.minimum} to {info.maximum} bytes"
    if not isinstance(value, str):
        raise _refuse(info, value, what)
    raw = value.encode()
    if not info.minimum <= len(raw) <= info.maximum or b"\0" in raw:
        raise _refuse(info, value, what)
    return raw


# ------------------------------------------------------------------- cameras

class CameraInfo(NamedTuple):
    """A camera of this machine, as cameras() lists it.

    >>> camera = dlbuf.cameras()[0]
    >>> camera.node, camera.driver, camera.status
    ('/dev/video0', 'vivid', 0)
    """

    node: str
    """the device node, "/dev/video0"."""
    card: str
    """the name of the hardware"""
    driver: str
    """the name of the driver"""
    bus: str
    """where the hardware is, "usb-0000:00:14.0-8"."""
    name: str
    """the kernel's name of the node"""
    status: int
    """0, or the errno with which the node cannot be opened"""
    reason: str
    """why it cannot be opened and who may, or empty"""

    @property
    def formats(self) -> list[CameraFormat]:
        """The formats with their sizes and rates. Asks the driver: opens the
        node for a moment, also while another program captures."""
        from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
        probe = _dlbuf.Capture(self.node, 1, 0, 0, 0, 0.0, 0, False)
        return read_formats(probe.fileno())


def sysfs_name(node: str) -> str:
    """The kernel's name of a node, "" if it has none."""
    try:
        with open("/sys/class/video4linux/"
                  f"{os.path.basename(node)}/name", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""
