# SPDX-License-Identifier: MIT
"""Tensors and frames to and from other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from socket import socket

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Device, Tensor
from ._errors import UnsupportedError
from ._frames import TensorFrame, frame_args, make_frame
from ._producers import KEEP, MAY_COPY, UNCROPPED, find_view
from ._types import Access, View

_EOPNOTSUPP = 95


def _wait(sock: socket | int) -> tuple[int, bool, float | None]:
    """(fd, whether it may wait, until when), as the socket itself would."""
    if isinstance(sock, int):
        return sock, os.get_blocking(sock), None
    timeout = sock.gettimeout()
    if timeout is None:
        return sock.fileno(), True, None
    return sock.fileno(), timeout > 0, time.monotonic() + timeout


def send(sock: socket | int,
         what: Tensor | TensorFrame | Iterable[Tensor]) -> None:
    """Sends a tensor, up to four of them, or a frame, without a copy.

    sock: a Unix socket, SOCK_SEQPACKET, SOCK_DGRAM or SOCK_STREAM, or its fd.
    It waits as the socket does: BlockingIOError, TimeoutError. When the other
    side is gone, ClosedError, which is a BrokenPipeError.

    Write before you send: what was written inside `with tensor:` is the other
    side's to see when the block has ended. A frame's buffer goes back to its
    camera when both this program and the receiver are done with it, or the
    receiver dies. The view of a frame is the receiver's to choose.
    """
    wait = _wait(sock)
    if isinstance(what, TensorFrame):
        if any(p.fd < 0 for p in what.info.planes):
            raise UnsupportedError(
                _EOPNOTSUPP, "the tensors do not show all of the frame's "
                "planes: send them as a list")
        _dlbuf.send_frame(wait, tuple(what), frame_args(what.info))
    elif isinstance(what, Tensor):
        _dlbuf.send(wait, (what,))
    else:
        _dlbuf.send(wait, tuple(what))


def recv(sock: socket | int, *, device: Device | str = "cpu",
         access: Access | int | str | None = None,
         view: View | str = View.PLANES, uncropped: bool = False,
         may_copy: bool = False,
         keep: bool = False) -> Tensor | list[Tensor] | TensorFrame:
    """Receives what send() has sent: a Tensor, a list of several, or for a
    frame a TensorFrame.

    The tensors are on device. access: not more than the sender's tensors
    allow, which is what None gives. view, uncropped and may_copy are as in
    from_frame(), for frames only. keep=True keeps the memory of what came for
    the next message with the same buffer, as from a camera, until the device
    is closed or trimmed; otherwise it goes with the tensors. It waits as the
    socket does. At the end, when the other side has closed the socket and all
    messages are read, ClosedError, which is an EOFError. What comes may be a
    lie: whatever it is, a tensor lies inside its dma-buf, or the exception says
    why there is none; that message is gone then, and the next one can be
    received.
    """
    tensors, frame = _dlbuf.recv(
        _wait(sock), device, int(find_view(view)), access,
        may_copy * MAY_COPY | uncropped * UNCROPPED | keep * KEEP, make_frame)
    if frame is not None:
        return TensorFrame(tensors, frame)
    return tensors[0] if len(tensors) == 1 else tensors
