# SPDX-License-Identifier: MIT
"""Tensors and frames through multiprocessing's queues, pipes and pools.

Importing this module is enough. Afterwards a Tensor of a dma-buf, and a
TensorFrame, can be an argument or a result of whatever multiprocessing pickles:
Queue.put(), Connection.send(), Pool.map(), Process(args=...) with the start
methods "spawn" and "forkserver", ProcessPoolExecutor.submit().

    import multiprocessing
    import dlbuf.multiprocessing

    ours, theirs = multiprocessing.Pipe()
    ours.send(frame)                # in one process
    y, uv = theirs.recv()           # in another one

No byte is copied. The object is sent by dlbuf.send() and received by dlbuf.recv(),
so the same rules hold: the receiver has its own tensors over the same dma-bufs,
on a device of the same name as the sender's, with at most the sender's access. The
lease of a frame fires when the sender and the receiver are both done with it, or
when the receiver has died. An object that was sent and is never received keeps its
memory until the sending process ends, as with every fd that multiprocessing sends.

A Queue pickles in a thread of its own, after put() has returned. You may delete the
frame then, and you must not release() or close() it. Connection.send() and
SimpleQueue.put() are done with the object when they return.

With the start method "fork", arguments of a Process are not pickled: the child has
the parent's objects, and these raise Error (ESTALE). Use a Pipe or a Queue, or
another start method.

Sending raises UnsupportedError for memory that is not a dma-buf, as dlbuf.send()
does. Receiving raises what dlbuf.recv() and Device(name) raise.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from multiprocessing import reduction, resource_sharer
from typing import Any

from ._dlbuf import Tensor
from ._frames import TensorFrame
from ._socket import recv, send
from ._types import View

__all__: list[str] = []

_Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def _receive(fd: Any, device: str, view: int) -> Any:
    """The object that _reduce() sent, in the process that unpickles it."""
    with socket.socket(fileno=fd.detach()) as sock:
        return recv(sock, device=device, view=View(view))


def _reduce(what: Tensor | TensorFrame, tensor: Tensor, view: int) -> _Reduced:
    """Sends `what` into a socket of its own, which is what is pickled.

    The message holds the lease. It is gone with the socket if nobody reads it.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        send(ours, what)
        fd = resource_sharer.DupFd(theirs.fileno())
    device = tensor.device
    return _receive, (fd, device.name if device else "cpu", view)


def _reduce_tensor(tensor: Tensor) -> _Reduced:
    return _reduce(tensor, tensor, 0)


def _reduce_frame(frame: TensorFrame) -> _Reduced:
    return _reduce(frame, frame[0], int(frame.info.view))


reduction.ForkingPickler.register(Tensor, _reduce_tensor)
reduction.ForkingPickler.register(TensorFrame, _reduce_frame)
