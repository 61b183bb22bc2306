# SPDX-License-Identifier: MIT
"""Tensors and frames to and from other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from socket import socket
from typing import Any

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Device, Tensor
from ._errors import InvalidError, UnsupportedError
from ._frames import TensorFrame, frame_args, make_frame, own_fds
from ._producers import KEEP, MAY_COPY, find_view
from ._types import Access, View

_EINVAL, _EOPNOTSUPP = 22, 95


def _name(obj: object) -> str:
    return f"an object of type {type(obj).__name__}"


def _wait(sock: socket | int) -> tuple[int, bool, float | None]:
    """(fd, whether it may wait, until when), as the socket itself would."""
    if isinstance(sock, int):
        return sock, os.get_blocking(sock), None
    if not isinstance(sock, socket):    # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{_name(sock)} is no socket: dlbuf takes a Unix socket of "
                        "type SOCK_SEQPACKET or SOCK_DGRAM, or its fd. After "
                        "`import dlbuf.multiprocessing`, a Connection's own send() "
                        "and recv() take tensors and frames")
    timeout = sock.gettimeout()
    if timeout is None:
        return sock.fileno(), True, None
    return sock.fileno(), timeout > 0, time.monotonic() + timeout


def send(sock: socket | int,
         what: Tensor | TensorFrame | Iterable[Tensor]) -> None:
    """Sends a tensor, up to four tensors or a TensorFrame, without a copy.

    sock is a Unix socket of type SOCK_SEQPACKET or SOCK_DGRAM, or its fd. The
    call waits as the socket does. The tensors stay the caller's; the message
    has duplicates of their fds. Write before you send: what was written inside
    `with tensor:` is visible to the receiver when the block has ended.

    A list of tensors is sent without their frame: the receiver's tensors have frame
    None. TensorFrame(tensors, tensors[0].frame) is the frame of what from_frame()
    returned.

    The lease of a frame fires when both this program and the receiver are done
    with the frame, or the receiver has died. The receiver chooses the view.

    Raises ClosedError if the other side has closed the socket, WouldBlockError or
    DeadlineError as the socket says, InvalidError for a SOCK_STREAM (which
    socket.socketpair() makes by default: it cannot keep a message and its fds
    together), and UnsupportedError for memory that is no dma-buf.

    >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    >>> dlbuf.send(ours, dlbuf.alloc((2, 3), "uint8"))
    >>> dlbuf.recv_tensor(theirs).shape
    (2, 3)
    """
    wait = _wait(sock)
    if isinstance(what, TensorFrame):
        if any(p.fd < 0 for p in what.info.planes):
            raise UnsupportedError(
                _EOPNOTSUPP, "the tensors do not show all of the frame's "
                "planes: send them as a list")
        _dlbuf.send_frame(wait, tuple(what), frame_args(own_fds(what)))
    elif isinstance(what, Tensor):
        _dlbuf.send(wait, (what,))
    else:
        each: tuple[Any, ...]
        try:
            each = tuple(what)
        except TypeError:
            each = what,        # which is refused
        _dlbuf.send(wait, each)


def recv(sock: socket | int, *, device: Device | str = "cpu",
         access: Access | int | str | None = None,
         view: View | str = View.PLANES,
         may_copy: bool = False,
         keep: bool = False) -> Tensor | list[Tensor] | TensorFrame:
    """Receives what send() has sent: a Tensor, a list of several, or a
    TensorFrame. recv_tensor() and recv_frame() are for one kind of message.

    The tensors are on device, and keep the sender's lease. access: "read",
    "write" or "rw", not more than the sender's tensors allow; None is all that
    they allow. view and may_copy are as in from_frame(), for frames
    only. keep=True keeps the import for the next message with the same buffer,
    as from a camera, until the device is closed or trimmed.

    The call waits as the socket does. Raises ClosedError, which is an EOFError,
    when the other side has closed the socket and all messages are read;
    WouldBlockError or DeadlineError as the socket says; another Error for a
    message that is not valid. Messages are validated as untrusted input: a
    tensor lies inside its dma-buf. An invalid message is dropped, and the next
    one can be received.

    >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    >>> dlbuf.send(ours, [dlbuf.alloc(4, "uint8"), dlbuf.alloc(2, "int16")])
    >>> [t.dtype for t in dlbuf.recv(theirs)]
    ['uint8', 'int16']
    """
    tensors, frame = _dlbuf.recv(
        _wait(sock), device, int(find_view(view)), access,
        may_copy * MAY_COPY | keep * KEEP, make_frame)
    if frame is not None:
        return TensorFrame(tensors, frame)
    return tensors[0] if len(tensors) == 1 else tensors


def _wrong(got: Tensor | list[Tensor] | TensorFrame, want: str) -> InvalidError:
    """The message is dropped: its tensors are closed, so its leases fire."""
    what = (f"a frame of {len(got)} tensors" if isinstance(got, TensorFrame) else
            "a tensor" if isinstance(got, Tensor) else f"{len(got)} tensors")
    for tensor in [got] if isinstance(got, Tensor) else got:
        tensor.close()
    return InvalidError(_EINVAL, f"the message has {what} and not {want}: it "
                        "was dropped; recv() takes every kind")


def recv_tensor(sock: socket | int, *, device: Device | str = "cpu",
                access: Access | int | str | None = None,
                may_copy: bool = False, keep: bool = False) -> Tensor:
    """Receives a message with one tensor.

    Arguments and errors are those of recv(). A frame or several tensors raise
    InvalidError. That message is dropped: its tensors are closed, the lease of
    the sender fires, and the next message can be received.

    >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    >>> dlbuf.send(ours, dlbuf.alloc((2, 3), "uint8"))
    >>> dlbuf.recv_tensor(theirs, access="read").read_only
    True
    """
    got = recv(sock, device=device, access=access, may_copy=may_copy, keep=keep)
    if isinstance(got, Tensor):
        return got
    raise _wrong(got, "one tensor")


def recv_frame(sock: socket | int, *, device: Device | str = "cpu",
               access: Access | int | str | None = None,
               view: View | str = View.PLANES,
               may_copy: bool = False, keep: bool = False) -> TensorFrame:
    """Receives a message with a frame.

    Arguments and errors are those of recv(). Tensors without a frame raise
    InvalidError. That message is dropped: its tensors are closed, the lease of
    the sender fires, and the next message can be received.

    >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
    ...     dlbuf.send(ours, next(camera))
    >>> y, uv = dlbuf.recv_frame(theirs)
    >>> uv.shape
    (90, 160, 2)
    """
    got = recv(sock, device=device, access=access, view=view,
               may_copy=may_copy, keep=keep)
    if isinstance(got, TensorFrame):
        return got
    raise _wrong(got, "a frame")
