# SPDX-License-Identifier: MIT
"""Frames to and from other machines, over Zenoh: pip install eclipse-zenoh.

    import dlbuf.zenoh

    with dlbuf.Camera(0, format="NV12") as camera:          # on one machine
        dlbuf.zenoh.publish(camera, "robot/front", session)

    for frame in dlbuf.zenoh.subscribe("robot/front", session):     # on the others
        y, uv = frame

docs/network.md has the sessions, docs/wire.md the message beside the bytes. Each frame is
copied: at each end once by dlbuf, and once between Python and Zenoh.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import json
import math
import os
import secrets
import re
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import _dlbuf, _ros2  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Device, Tensor
from ._errors import ClosedError, DeadlineError, InvalidError, UnsupportedError
from ._frames import TensorFrame, frame_args, own_fds
from ._message import (ALIGN, MAX_BYTES, End, Message, Refused, check_own, in_real_time, pack,
                       pack_end, parse)
from ._message import Tensor as _Input
from ._prepare import PrepareInfo, Preparer
from ._producers import alloc, best_view, find_format, find_view, integers
from ._stream import Stream
from ._types import Access, CodeSpace, DType, Frame, Plane, View
from ._v4l2 import check_process

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._types import FormatInfo

__all__ = ["ENCODING", "Publisher", "Received", "Subscriber", "local_config", "publish",
           "subscribe"]

_EINVAL, _EOPNOTSUPP, _EPROTO = 22, 95, 71
ENCODING = "application/vnd.dlbuf.frame"
# Publishers of a key have liveliness tokens under it. No wildcard of Zenoh's matches a chunk
# with @.
_LIVES = "@dlbuf"
_TOKEN = re.compile(rf"[^*]+/{_LIVES}/[0-9a-f]{{16}}")
_MAX_POOL = 32
_MAX_PUBLISHERS = 64
# In bytes. Zenoh panics if a subscriber's key has about 65,536.
_MAX_KEY = 4096
# A publisher's number that is further from its last one begins a new count.
_MAX_GAP = 1 << 20
_PAGE = 4096
# In seconds. The end of a session does not wake its subscribers, which look for it so often. A
# publisher's last messages may arrive after its token, for so long.
_LOOK = 1
# The least code of one value in a byte: a buffer of bytes, as a frame with a lease.
_BYTES_OF = int.from_bytes(b"R8  ", "little"), CodeSpace.DRM


@functools.lru_cache(maxsize=None)
def _zenoh() -> Any:
    try:
        return importlib.import_module("zenoh")
    except ImportError:
        raise ImportError("dlbuf.zenoh needs Zenoh: pip install eclipse-zenoh",
                          name="zenoh") from None


def local_config() -> Any:
    """The zenoh.Config of sessions that dlbuf opens: this machine only.

    It listens on the loopback interface, at Zenoh's port if that is free, and finds there
    other sessions with this configuration, and a router. It uses no multicast, and no shared
    memory, which Zenoh has on by default: docs/network.md says why.

    >>> import dlbuf.zenoh
    >>> dlbuf.zenoh.local_config().get_json("listen/endpoints")
    '["tcp/127.0.0.1:7447","tcp/127.0.0.1:0"]'
    """
    first = "tcp/127.0.0.1:7447"
    return _zenoh().Config.from_json5(json.dumps({
        "mode": "peer", "scouting": {"multicast": {"enabled": False}},
        "transport": {"shared_memory": {"enabled": False}},
        "listen": {"endpoints": [first, "tcp/127.0.0.1:0"], "exit_on_failure": False},
        "connect": {"endpoints": [first], "exit_on_failure": False, "timeout_ms": -1}}))


def _check_session(session: Any) -> None:
    if not isinstance(session, (_zenoh().Session, type(None))):
        raise TypeError(f"a session is a zenoh.Session, not {session!r}")


def _check_key(key: Any) -> str:
    if not isinstance(key, (str, _zenoh().KeyExpr)):
        raise TypeError(f"a key is a str, not {key!r}")
    size = len(str(key).encode(errors="replace"))
    if size > _MAX_KEY:
        raise InvalidError(_EINVAL, f"a key of {size} bytes: {_MAX_KEY} are possible")
    return str(key)


def _close(declared: list[Any], session: Any, pid: int) -> None:
    """Of what was declared in a session, and of a session of dlbuf's own. A child of fork()
    has none of Zenoh's threads, for which it would wait without end."""
    if os.getpid() != pid:
        return
    while declared:
        # At the program's end a call of another thread may have it. After a call of this that a
        # signal has interrupted it may be undeclared.
        with contextlib.suppress(RuntimeError, _zenoh().ZError):
            declared[-1].undeclare()
        declared.pop()
    if session is not None:
        session.close()


class _End:
    """An end of a connection: what it has declared ends with close(), or with the object."""

    def __init__(self, key: str, session: Any) -> None:
        _check_session(session)
        self.key = _check_key(key)
        self._pid = os.getpid()
        self._declared: list[Any] = []
        own: Any = _zenoh().open(local_config()) if session is None else None
        self._session: Any = own or session
        self._own = own
        self._ending = weakref.finalize(self, _close, self._declared, own, self._pid)

    @property
    def closed(self) -> bool:
        """Whether close() was called.

        >>> import dlbuf.zenoh
        >>> publisher = dlbuf.zenoh.Publisher("a/key")
        >>> publisher.close()
        >>> publisher.closed
        True
        """
        return not self._ending.alive

    def _end_all(self) -> None:
        self._ending()
        # An exception of a signal may have ended an earlier call.
        _close(self._declared, self._own, self._pid)

    def _check_open(self) -> None:
        check_process(self.key, self._pid)
        if self.closed:
            raise ClosedError(errno.EPIPE, f"{self.key} is closed")


# --------------------------------------------------------------- publishing


@functools.lru_cache(maxsize=16)
def _places(layouts: tuple[tuple[tuple[int, ...], tuple[int, ...], DType], ...]
            ) -> tuple[tuple[Plane, ...], int]:
    """Where the planes of these (shape, strides, dtype) are in a message, and its size."""
    places: list[Plane] = []
    end = 0
    for shape, strides, dtype in layouts:
        if any(s < 0 for s in strides):
            raise UnsupportedError(_EOPNOTSUPP,
                                   "the frame's rows are bottom-up: they are not sent")
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        pitch = strides[0] * dtype.itemsize if len(shape) > 1 else 0
        places.append(Plane(-1, pitch, end + -end % ALIGN, (last + 1) * dtype.itemsize))
        end = places[-1].offset + places[-1].bytes
    return tuple(places), end


@functools.lru_cache(maxsize=16)
def _whole_view(code: int, space: CodeSpace, modifier: int) -> View:
    return best_view(find_format(code, space, modifier)[0])


def _not_of_this_frame(i: int) -> UnsupportedError:
    return UnsupportedError(_EOPNOTSUPP, f"tensor {i} is not the one of this frame: what is sent are "
                            "all tensors of one from_frame(), Camera or recv(), uncut, with their record")


def _look(t: Tensor) -> tuple[Any, ...]:
    """What it shows, of the dma-buf if it is no copy."""
    return (t.shape, t.dtype) if t.is_copied else (t.shape, t.dtype, t.strides, t.extent)


def _whole(frame: TensorFrame, cpu: Device, crop: bool) -> TensorFrame:
    """All planes of a frame, on the CPU. What is sent is the frame's memory: so its tensors must
    show what its record says, and each must be there, in order and uncut."""
    info: Any = frame.info
    if not isinstance(info, (Frame, type(None))) or not all(
            isinstance(t, Tensor)                   # pyright: ignore[reportUnnecessaryIsInstance]
            for t in super(TensorFrame, frame).__iter__()):
        raise TypeError("a frame to send has dlbuf.Tensors and a dlbuf.Frame")
    given = tuple(frame)
    if info is None or not info.planes or info.view == View.LUMA or \
            any(p.fd < 0 for p in own_fds(frame).planes):
        raise UnsupportedError(_EOPNOTSUPP, "the tensors do not show all of the frame's planes")
    for i, t in enumerate(given):
        if t.frame is None or t.frame.planes != info.planes:
            raise _not_of_this_frame(i)
    info = own_fds(frame)
    view = _whole_view(info.code, info.space, info.modifier)

    def shown(view: View, crop: tuple[int, int, int, int] | None) -> TensorFrame:
        f = info._replace(crop=crop, view=view)
        size, planes, visible, number, *_ = frame_args(f)
        return TensorFrame(_dlbuf.import_frame(cpu, f, size, planes, visible, number, Access.READ,
                                               0, None, None), f)

    whole = shown(view, info.crop if crop else None)
    wanted = whole if info.view == view and whole.info.crop == info.crop else \
        shown(info.view, info.crop)
    if len(given) != len(wanted):
        raise UnsupportedError(_EOPNOTSUPP, f"{len(given)} tensors for a frame of {len(wanted)}")
    for i, (t, like) in enumerate(zip(given, wanted, strict=True)):
        if _look(t) != _look(like):
            raise _not_of_this_frame(i)
    return whole


def _memory(size: int, spares: deque[bytearray]) -> bytearray:
    """That of an earlier message if it has the size: the page faults of new memory cost more
    than the copy."""
    try:
        data = spares.pop()
    except IndexError:
        data = bytearray()
    return data if len(data) == size else bytearray(size)


def _bytes_of(frame: TensorFrame, cpu: Device, spares: deque[bytearray]
              ) -> tuple[bytearray, tuple[Plane, ...]]:
    """A copy of the planes with their padding between rows, when the fences have signalled."""
    with _whole(frame, cpu, False) as whole, whole.planes("read") as tensors:
        places, size = _places(tuple((t.shape, t.strides, t.dtype) for t in tensors))
        data, end = _memory(size, spares), 0
        with memoryview(data) as m:
            for t, p in zip(tensors, places, strict=True):
                m[end:p.offset] = bytes(p.offset - end)
                end = p.offset + p.bytes
                m[p.offset:end] = _dlbuf.from_memory(t, t.data, (p.bytes,), "uint8", None, True,
                                                     (1, 0))
    return data, places


def _image_of(frame: TensorFrame, cpu: Device, frame_id: str) -> tuple[bytes, int]:
    """sensor_msgs/Image of the visible part, without padding. Returns the message, and how many
    of its bytes were copied once more."""
    f = frame.info
    width, height = f.crop[2:] if f.crop else (f.width, f.height)
    shown = in_real_time(f._replace(width=width, height=height))
    encoding = _ros2.encoding_of(shown)
    pieces: list[Any] = []
    more = 0
    with _whole(frame, cpu, True) as whole, whole.planes("read") as tensors:
        for t in tensors:
            m = memoryview(t)
            more += 0 if m.c_contiguous else m.nbytes
            pieces.append(m if m.c_contiguous else m.tobytes())
            del m
        step = tensors[0].nbytes // tensors[0].shape[0]
        data = b"".join([_ros2.image_head(shown, frame_id, encoding, step,
                                          sum(t.nbytes for t in tensors)), *pieces])
        del pieces
    return data, more


class Publisher(_End):
    """Publishes frames under a key; publish() does it for all of a camera.

    prepare: a Preparer; each message is then the model's input that it makes of the frame,
    and not the frame. session: a zenoh.Session, which stays the caller's; None opens one
    with local_config(). options are Zenoh's for a publisher, as congestion_control, priority,
    reliability and express.

    ros2: a frame_id, as "camera_optical_frame". The messages are then sensor_msgs/Image for
    programs of ROS 2 that use rmw_zenoh_cpp, and not for subscribe(); key is the full name of
    the topic, as "/camera/image_raw", in the domain ROS_DOMAIN_ID. docs/network.md has the
    formats and the rest.

    sent: frames that Zenoh has taken. dropped: frames that the camera has counted and
    that were not put, as their sequences say if one thread calls put(). copied_bytes: of the copies into bytes and
    into Zenoh. While the object is open subscribers see it as alive.

    Raises ImportError without Zenoh, InvalidError for a bad topic, frame_id or domain, or if
    there are both prepare and ros2, and zenoh.ZError for a bad key or option.

    >>> import dlbuf.zenoh
    >>> with dlbuf.zenoh.Publisher("a/key") as publisher:
    ...     publisher.sent, publisher.dropped
    (0, 0)
    """

    def __init__(self, key: str, session: Any = None, *, prepare: Preparer | None = None,
                 ros2: str | None = None, **options: Any) -> None:
        if not (prepare is None or
                isinstance(prepare, Preparer)):     # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"prepare is a dlbuf.Preparer, not {prepare!r}")
        if ros2 is not None:
            _ros2.check_frame_id(ros2)
            key = _ros2.key_of(key)
            if prepare:
                raise InvalidError(_EINVAL, "ros2 sends the frame, and prepare a model's input: "
                                   "a publisher has one of them")
        elif "*" in _check_key(key):
            raise InvalidError(_EINVAL, f"a publisher has one key, and not those of {key!s:.80}")
        super().__init__(key, session)
        self.prepare, self.ros2 = prepare, ros2
        # Its imports of the camera's buffers end with the publication.
        self._cpu = Device("cpu")
        self._spares: deque[bytearray] = deque(maxlen=1)
        self.sent = self.dropped = self.copied_bytes = 0
        self._id, self._last, self._checked = secrets.randbits(64), None, b""
        self._lock = threading.Lock()
        encoding, tokens = ENCODING, [f"{self.key}/{_LIVES}/{self._id:016x}"]
        if ros2 is not None:
            encoding = _ros2.ENCODING
            tokens = _ros2.tokens(self.key, str(self._session.zid()), self._id)
        declare = functools.partial(self._session.declare_publisher, self.key, encoding=encoding)
        self._publisher = declare(**options)
        # A slow network drops frames, and must not drop their number.
        self._ender = declare(**{**options, "congestion_control":
                                 _zenoh().CongestionControl.BLOCK})
        self._declared += self._publisher, self._ender
        self._declared += map(self._session.liveliness().declare_token, tokens)

    _last: int | None

    def put(self, frame: TensorFrame) -> None:
        """Sends a frame when its fences have signalled. The frame stays the caller's and
        may be released when the call returns: Zenoh has its bytes. Several threads may call it.

        Blocks for the fences, and, with CongestionControl.BLOCK, for the network. Raises
        ClosedError if the publisher or its session is closed, TypeError for anything else than a
        TensorFrame, InvalidError for a record that no subscriber would take, UnsupportedError
        for a frame that is not of rows, or whose tensors are cut or not all of one frame, or, with
        ros2, whose format sensor_msgs/Image has no name for, and what the Preparer raises.

        >>> import dlbuf.zenoh
        >>> t = dlbuf.alloc((6, 4), "uint8")
        >>> tensors = dlbuf.from_frame([(t.fd, 4), (t.fd, 4, 16)], 4, 4, "NV12")
        >>> with dlbuf.zenoh.Publisher("a/key") as publisher:
        ...     publisher.put(dlbuf.TensorFrame(tensors, tensors[0].frame))
        ...     publisher.sent
        1
        """
        self._check_open()
        if not isinstance(frame, TensorFrame):      # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("what is published is a TensorFrame, not "
                            f"{type(frame).__name__}: dlbuf.TensorFrame(tensors, "
                            "tensors[0].frame) makes one")
        planes: tuple[Plane, ...] = ()
        tensor, more = None, 0
        data: bytes | bytearray
        if self.ros2 is not None:
            data, more = _image_of(frame, self._cpu, self.ros2)
        elif self.prepare:
            x, place = self.prepare(frame)
            data = x.tobytes()
            tensor = _Input(x.dtype, x.shape, place)
        else:
            data, planes = _bytes_of(frame, self._cpu, self._spares)
        # Messages leave in the order of their numbers: subscribers count what is missing.
        with self._lock:
            self._check_open()
            if self.ros2 is None:
                attachment = pack(Message(self._id, self.sent, frame.info._replace(planes=planes),
                                          tensor), len(data))
                self._checked = check_own(attachment, len(data), self._checked)
            else:
                attachment = _ros2.attachment(self.sent, self._id)
            self._send(data, attachment)
            self.sent += 1
            self.copied_bytes += 2 * len(data) + more
            if frame.sequence is not None:
                if self._last is not None:
                    self.dropped += max(frame.sequence - self._last - 1, 0)
                self._last = frame.sequence
        # Zenoh has copied it.
        if isinstance(data, bytearray):
            self._spares.append(data)

    def _send(self, data: bytes | bytearray, attachment: bytes) -> None:
        try:
            self._publisher.put(data, attachment=attachment)
        except _zenoh().ZError:
            self._check_open()
            if self._session.is_closed():
                raise ClosedError(errno.EPIPE, f"the session of {self.key} is closed") from None
            raise

    def close(self) -> None:
        """Ends the publication, and a session of its own; a second call does nothing.

        Tells subscribers how many messages there were, and waits for a put() of another thread. If
        the network takes nothing, it blocks for Zenoh's wait_before_close (5 seconds), and
        Zenoh closes the connection.

        >>> import dlbuf.zenoh
        >>> dlbuf.zenoh.Publisher("a/key").close()
        """
        own = os.getpid() == self._pid      # in a child of fork() nobody releases the lock
        with self._lock if own else contextlib.nullcontext():
            if own and not self.closed and self.ros2 is None:
                with contextlib.suppress(_zenoh().ZError):
                    self._ender.put(b"", attachment=pack_end(End(self._id, self.sent)))
            self._end_all()
        self._cpu.trim()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


def publish(frames: Iterable[TensorFrame], key: str, session: Any = None, *,
            prepare: Preparer | None = None, ros2: str | None = None,
            **options: Any) -> Publisher:
    """Publishes the frames of a Camera, or of another iterable, until it ends.

    Each frame is released when Zenoh has its bytes: no subscriber holds a buffer of the
    camera. Slow subscribers and networks lose frames, unless congestion_control is
    zenoh.CongestionControl.BLOCK. The arguments are those of Publisher, which is returned,
    closed, with its counts. Raises what the iterable and Publisher.put() raise; DeadlineError
    for a camera without frames, for example.

    Blocks; camera.close() on another thread ends it.

    >>> import dlbuf.zenoh
    >>> t = dlbuf.alloc((6, 4), "uint8")
    >>> tensors = dlbuf.from_frame([(t.fd, 4), (t.fd, 4, 16)], 4, 4, "NV12")
    >>> frames = [dlbuf.TensorFrame(tensors, tensors[0].frame)]
    >>> dlbuf.zenoh.publish(frames, "a/key").sent
    1
    """
    with Publisher(key, session, prepare=prepare, ros2=ros2, **options) as publisher:
        for frame in frames:
            with frame:
                publisher.put(frame)
            del frame
        return publisher


# --------------------------------------------------------------- subscribing


class Received(TensorFrame):
    """A frame that has arrived: as a Camera's, in a buffer of the subscriber's pool.

    The buffer returns to the pool when the last tensor is gone. info is the sender's, except
    that the planes are those of the buffer, order is COMPLETE, and times since boot became
    Clock.REALTIME. If the publisher prepares, the frame has one tensor, the model's input,
    info is the frame that it was made of, without planes, and prepared the place of the picture.

    >>> dlbuf.zenoh.Received.path
    'copy'
    """

    path = "copy"
    """how the bytes arrived: by copies, which docs/network.md lists"""
    prepared: PrepareInfo | None = None
    """of a model's input: where the picture is in it"""


class _Event:
    """An fd that is readable until it is cleared. set() is called in leases and takes no lock.

    When garbage is collected, a lease of the same garbage may end after the event, whose number
    may be another file's then: an event without an fd has nobody to wake."""

    fd = -1

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        fd = self.fd
        if fd >= 0:
            os.eventfd_write(fd, 1)

    def clear(self) -> None:
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass

    def __del__(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class _Loan:
    """What a frame's lease calls at its end, and then drops."""

    def __call__(self) -> None:
        pass


class _Slot:
    """A place of the pool: a buffer, from its first use on.

    It is lent as long as a _Loan lives. Nothing gives it back: a signal handler that raises, or the
    collector of garbage, can come between any two steps of this module, and a buffer would be given
    back twice or never."""

    buffer: Tensor | None = None
    used = 0
    """bytes of it that have been written"""
    _loan: weakref.ref[_Loan] | None = None

    def is_free(self) -> bool:
        return self._loan is None or self._loan() is None

    def lend(self, event: _Event) -> _Loan:
        loan = _Loan()
        self._loan = weakref.ref(loan, lambda _: event.set())
        return loan

    def end(self) -> None:
        """If there is no frame, and the caller's traceback still has the loan."""
        self._loan = None


def _weak(method: Callable[[Any], None]) -> Any:
    """A callback in Zenoh's own thread, so that a flood waits in the network and not in
    memory. It does not keep the method's object."""
    ref = weakref.WeakMethod(method)

    def call(sample: Any) -> None:
        bound = ref()
        if bound:
            bound(sample)

    return _zenoh().handlers.Callback(call, indirect=False)


def _check_memory(device: Device, access: Access | int | str | None,
                  exporter: str | None) -> None:
    """Raises what the first frame would: a page is allocated and imported in the same way."""
    devices: list[Device | str] = ["cpu", device]
    page = alloc(_PAGE, "uint8", devices, exporter=exporter, name="dlbuf.zenoh")[0]
    _dlbuf.from_fd(page.fd, (_PAGE,), "uint8", device=device, access=access)
    del page
    device.trim()


class Subscriber(_End, Stream[Received]):
    """The iterator of subscribe(). Threads and tasks may iterate, as over a Camera.

    received: messages that were valid. dropped: those of them that the program was too slow
    for. lost: those that publishers counted and that did not arrive, or were refused; a
    publisher that counts wrongly adds at most 1,048,575 with a message. refused: messages that
    were not valid, refusal the reason of the last one. copied_bytes: of the copies out of
    Zenoh and into the pool. timeout may be changed.

    >>> import dlbuf.zenoh
    >>> with dlbuf.zenoh.subscribe("a/key") as frames:
    ...     frames.received, frames.dropped, frames.lost, frames.refused
    (0, 0, 0, 0)
    """

    def __init__(self, key: str, session: Any, device: Device | str, format: FormatInfo | None,
                 view: View | None, access: Access | int | str | None, pool: int, drop: bool,
                 timeout: float | None, max_bytes: int, exporter: str | None) -> None:
        super(_End, self).__init__(timeout)         # of Stream
        self.device = Device(device) if isinstance(device, str) else device
        self.access, self.exporter = access, exporter
        _check_memory(self.device, access, exporter)
        self._format, self._view, self._max_bytes = format, view, max_bytes
        self.received = self.dropped = self.lost = self.refused = self.copied_bytes = 0
        self.refusal = ""
        self._event = _Event()
        self._queue: deque[tuple[Message, Any]] = deque()
        self._limit = 1 if drop else pool
        self._pool = pool
        self._slots = [_Slot() for _ in range(pool)]
        self._numbers: dict[int, int] = {}
        self._alive: set[str] = set()
        # Publishers that have said their end and have a token, and, with the time until which
        # their last messages may come, those of which it is the other way round.
        self._ended: deque[int] = deque(maxlen=_MAX_PUBLISHERS)
        self._leaving: dict[int, float] = {}
        self._gone = False
        self._losses = 0            # how often the last publisher has gone
        super().__init__(key, session)
        z = self._session
        self._declared.append(z.declare_subscriber(self.key, _weak(self._arrived)))
        self._declared.append(z.liveliness().declare_subscriber(
            f"{self.key}/{_LIVES}/*", _weak(self._lives), history=True))

    @property
    def held(self) -> int:
        """Number of the pool's buffers that the program uses.

        >>> import dlbuf.zenoh
        >>> with dlbuf.zenoh.subscribe("a/key") as frames:
        ...     frames.held
        0
        """
        return sum(not slot.is_free() for slot in self._slots)

    @property
    def publishers(self) -> int:
        """Number of publishers of the key that are alive.

        >>> import dlbuf.zenoh
        >>> with dlbuf.zenoh.subscribe("a/key") as frames:
        ...     frames.publishers
        0
        """
        return len(self._alive)

    def fileno(self) -> int:
        """Returns an fd for select() and poll(), which belongs to the subscriber.

        It is readable when next() may have a frame or an error; try it with timeout 0.
        From close() on it is always readable. The end of a session of your own does not make it
        readable: next() raises then, also if it waits, within a second.

        >>> import dlbuf.zenoh
        >>> with dlbuf.zenoh.subscribe("a/key") as frames:
        ...     frames.fileno() > 2
        True
        """
        return self._event.fd

    def _name(self) -> str:
        return self.key

    # ------------------------------------------------- on Zenoh's thread

    def _arrived(self, sample: Any) -> None:
        try:
            payload = sample.payload
            message = self._parse(sample, len(payload))
        except Refused as e:
            with self._lock:
                self.refused += 1
                self.refusal = str(e.strerror)
            return
        with self._lock:
            self._count(message)
            if isinstance(message, End):
                self._end(message.publisher)
                return
            self.received += 1
            self._queue.append((message, payload))
            if len(self._queue) > self._limit:
                self._queue.popleft()
                self.dropped += 1
        self._event.set()

    def _parse(self, sample: Any, payload: int) -> Message | End:
        """Looks at the message only: the payload stays where Zenoh has it."""
        encoding, attachment = str(sample.encoding), sample.attachment
        if encoding != ENCODING:
            raise Refused(_EPROTO, f"the encoding is {encoding[:80]!r}, and not {ENCODING}")
        if not attachment:
            raise Refused(_EPROTO, "a sample without the attachment that has the message")
        size = len(attachment)
        if size > MAX_BYTES:
            raise Refused(_EPROTO, f"{size} bytes are too many for a message")
        message = parse(attachment.to_bytes(), payload, self._view, self._max_bytes)
        if isinstance(message, End):
            return message
        f = message.frame
        if self._format and (message.tensor or
                             find_format(f.code, f.space, f.modifier)[0] != self._format):
            raise Refused(_EPROTO, f"the format is {f.format}, and not the subscriber's"
                          if message.tensor is None else "a model's input, and not a frame")
        return message

    def _end(self, publisher: int) -> None:
        self._numbers.pop(publisher)
        if self._leaving.pop(publisher, None) is None:
            self._ended.append(publisher)
        self._event.set()

    def _count(self, message: Message | End) -> None:
        number = message.number
        last = self._numbers.pop(message.publisher, number)
        if abs(number - last) > _MAX_GAP:
            last = number
        self.lost += max(number - last - 1, 0)
        self._numbers[message.publisher] = max(number, last)
        if len(self._numbers) > _MAX_PUBLISHERS:
            del self._numbers[next(iter(self._numbers))]

    def _lives(self, sample: Any) -> None:
        who = str(sample.key_expr)
        if not _TOKEN.fullmatch(who):
            return
        with self._lock:
            if sample.kind == _zenoh().SampleKind.PUT:
                if len(self._alive) < _MAX_PUBLISHERS:
                    self._alive.add(who)
                    self._gone = False
            elif who in self._alive:
                self._alive.remove(who)
                self._gone = not self._alive
                self._leave(int(who.rpartition("/")[2], 16))
        self._event.set()

    def _leave(self, publisher: int) -> None:
        """Tokens overtake frames, which have a lower priority in Zenoh."""
        if publisher in self._ended:
            self._ended.remove(publisher)
            return
        self._leaving[publisher] = time.monotonic() + _LOOK
        timer = threading.Timer(_LOOK, self._event.set)
        timer.daemon = True
        timer.start()

    # ------------------------------------------------- on the program's threads

    def _take(self, losses: int) -> tuple[_Slot, _Loan, Message, Any] | None:
        """A message and a place for it. If none: an error, if it is to be raised, of which
        there were so many when the caller began to wait."""
        with self._lock:
            # The first one, so that a program which holds few frames makes few buffers, and these
            # are in the CPU's caches.
            slot = next(filter(_Slot.is_free, self._slots), None) if self._queue else None
            if slot:
                message, payload = self._queue.popleft()
                if self._queue or self._gone:
                    self._event.set()
                return slot, slot.lend(self._event), message, payload
            if self._gone and not self._queue and \
                    max(self._leaving.values(), default=0) <= time.monotonic():
                self._gone = False
                self._leaving.clear()
                self._losses += 1
                # For the other threads that wait.
                self._event.set()
            gone = self._losses != losses and not self._queue
        if gone:
            raise ClosedError(errno.EPIPE, f"the publisher of {self.key} is gone")
        return None

    def _next(self, deadline: float | None) -> Received | None:
        losses = self._losses
        while True:
            check_process(self.key, self._pid)
            self._event.clear()
            if self.closed:
                self._event.set()
                return None
            found = self._take(losses)
            if found:
                return self._received(*found)
            if not self._wait(deadline):
                said = f"; {self.refused} messages were refused: {self.refusal}"
                raise DeadlineError(errno.ETIME, f"no frame of {self.key} arrived, and the time "
                                    f"is over{said if self.refused else ''}"
                                    if self.held < self._pool else
                                    f"the program holds all {self._pool} buffers of {self.key}")

    def _wait(self, deadline: float | None) -> bool:
        """Whether the event is set, or may be."""
        left = _LOOK if deadline is None else min(max(deadline - time.monotonic(), 0), _LOOK)
        poll = select.poll()
        poll.register(self._event.fd, select.POLLIN)
        if poll.poll(math.ceil(left * 1000)):
            return True
        if not self.closed and self._session.is_closed():
            raise ClosedError(errno.EPIPE, f"the session of {self.key} is closed")
        return left == _LOOK

    def _received(self, slot: _Slot, loan: _Loan, message: Message, payload: Any) -> Received:
        f = message.frame
        if message.tensor:
            n = len(payload)
            f = f._replace(width=n, height=1, code=_BYTES_OF[0], space=_BYTES_OF[1], modifier=0,
                           crop=None, view=View.ROWS, planes=(Plane(-1, n, 0, n),))
        try:
            buffer = self._fill(slot, payload)
            f = f._replace(planes=tuple(p._replace(fd=buffer.fd) for p in f.planes))
            size, planes, crop, view, *_ = frame_args(f)
            tensors = _dlbuf.import_frame(
                self.device, message.frame if message.tensor else f, size, planes, crop, view,
                self.access, 0, None, loan)
        except BaseException:
            with self._lock:
                self.dropped += 1
            slot.end()
            self._event.set()
            raise
        if message.tensor:
            shape, f = message.tensor.shape, message.frame
            strides = [1] * len(shape)
            for i in range(len(shape) - 1, 0, -1):
                strides[i - 1] = strides[i] * shape[i]
            tensors = [_dlbuf.view(tensors[0], shape, strides, message.tensor.dtype)]
        frame = Received(tensors, f)
        frame.prepared = message.tensor.prepared if message.tensor else None
        return frame

    def _fill(self, slot: _Slot, payload: Any) -> Tensor:
        """Copies the payload into a buffer, which is made if it has none of this size. close()
        takes it from the slot."""
        n = len(payload)
        buffer = slot.buffer
        if buffer is None or buffer.nbytes < n:
            buffer = slot.buffer = None
            slot.used = 0
            self.device.trim()
            devices: list[Device | str] = ["cpu", self.device]
            buffer = slot.buffer = alloc(-(-n // _PAGE) * _PAGE, "uint8", devices,
                                         exporter=self.exporter, name="dlbuf.zenoh")[0]
        data = payload.to_bytes()
        with buffer as t, memoryview(t) as m:
            m[:n] = data
            # A process that gets this dma-buf must not see bytes of an earlier frame.
            m[n:max(slot.used, n)] = bytes(max(slot.used - n, 0))
            slot.used = n
        with self._lock:
            self.copied_bytes += 2 * n
        return buffer

    def close(self) -> None:
        """Ends the subscription, and a session of its own; a second call does nothing.

        Threads and tasks that wait for a frame end. Frames in use stay valid; their memory is
        freed with them and the subscriber, or by device.trim() after them.

        >>> import dlbuf.zenoh
        >>> frames = dlbuf.zenoh.subscribe("a/key")
        >>> frames.close()
        >>> list(frames)
        []
        """
        self._end_all()
        self._queue.clear()
        self._event.set()
        # Frames in use have their memory without it.
        for slot in self._slots:
            slot.buffer = None
        self.device.trim()


def subscribe(
    key: str,
    session: Any = None,
    *,
    device: Device | str = "cpu",
    format: str | int | None = None,
    view: View | str | None = None,
    access: Access | int | str | None = None,
    pool: int = 4,
    drop: bool = False,
    timeout: float | None = 10.0,
    max_bytes: int = 64 << 20,
    exporter: str | None = None,
) -> Subscriber:
    """Iterates over the frames that publishers send under a key, with `for` or `async for`.

    Each is a Received, a TensorFrame on device. pool: buffers, 1 to 32, which are made when
    frames arrive, each as large as these. A frame that the program holds has one: if it holds
    all, the iteration waits. As many messages wait for it at most; the oldest are dropped,
    and drop=True keeps the newest only. max_bytes: larger payloads are refused. session is
    that of Publisher. format: frames of other formats, and models' inputs, are refused; say it
    if the program reads one format, because publishers choose. view=None is planes where the format has them; view, access and
    exporter are as for a Camera. timeout: seconds to wait for a frame; None waits without a
    limit.

    Messages are validated as untrusted input. One that is not valid, or of another version
    of dlbuf, is skipped: `refused` counts them, and DeadlineError has the reason of the last.

    The iteration raises ClosedError when the last publisher of the key is gone and its
    frames are read, a second later if it did not call close(), and DeadlineError; after both it can go on, with next() or another loop,
    and has frames when a publisher comes back. The call raises InvalidError for arguments that
    cannot be, what alloc() raises if there is no memory for the device, and zenoh.ZError for a
    bad key; the iteration raises what alloc() raises if there is not enough.

    >>> import dlbuf.zenoh, zenoh
    >>> t = dlbuf.alloc((6, 4), "uint8")
    >>> tensors = dlbuf.from_frame([(t.fd, 4), (t.fd, 4, 16)], 4, 4, "NV12")
    >>> session = zenoh.open(dlbuf.zenoh.local_config())
    >>> with dlbuf.zenoh.subscribe("a/key", session) as frames:
    ...     with dlbuf.zenoh.Publisher("a/key", session) as publisher:
    ...         publisher.put(dlbuf.TensorFrame(tensors, tensors[0].frame))
    ...         y, uv = next(frames)
    ...         print(y.shape, uv.shape)
    (4, 4) (2, 2, 2)
    """
    if not integers([pool], 1) or not 1 <= pool <= _MAX_POOL:
        raise InvalidError(_EINVAL, f"{pool!r} buffers, 1 to {_MAX_POOL} are possible")
    if not integers([max_bytes], 1) or max_bytes < 1:
        raise InvalidError(_EINVAL, f"max_bytes is a number of bytes, not {max_bytes!r}")
    if drop not in (False, True):
        raise TypeError(f"drop is True or False, not {drop!r}")
    return Subscriber(key, session, device, None if format is None else find_format(format)[0],
                      None if view is None else find_view(view), access,
                      pool, bool(drop), timeout, max_bytes, exporter)
