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
when the receiver has died. An object that nobody can receive any more comes back,
too: the last process that could read the Pipe has ended, or nobody has the Queue
open any more, or an argument's process has ended. In a Queue it can be received as
long as any process has the Queue, the sender's included: close() the Queue, or drop
it, when its readers are dead. (The sender holds a pipe open until its frames are
unpickled or its readers are gone: no end of file comes before.)

Queue.put(), Connection.send() and SimpleQueue.put() are done with the object when
they return: release() and close() are allowed then, and what cannot be sent raises
there. (A Queue of multiprocessing pickles in a thread of its own. After the import,
Queue.put() and JoinableQueue.put() pickle before they return.) An executor pickles
in a thread: release() when its future is done.

With the start method "fork", arguments of a Process are not pickled: the child has
the parent's objects, and these raise Error (ESTALE). Use a Pipe or a Queue, or
another start method.

Sending raises UnsupportedError for memory that is not a dma-buf, as dlbuf.send()
does. Receiving raises what dlbuf.recv() and Device(name) raise.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import select
import signal
import socket
import threading
import weakref
from collections.abc import Callable, Generator
from multiprocessing import connection, queues, reduction, resource_sharer
from multiprocessing.context import (
    get_spawning_popen)  # pyright: ignore
from typing import Any

from ._dlbuf import Tensor
from ._frames import TensorFrame
from ._socket import recv, send
from ._types import View

__all__: list[str] = []

_Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


class _Message:
    """A message that no process has read. ours is the sender's end of its socket, which hangs
    up when the message was read or dropped; fd, a DupFd, has the other end; writer
    is a duplicate of the connection that its pickle was written to, or -1."""

    def __init__(self, ours: socket.socket, fd: Any) -> None:
        self.ours, self.fd, self.writer = ours, fd, -1
        # This text marks the pickle in the bytes that a connection writes.
        self.token = os.urandom(16)

    def drop(self) -> None:
        """Closes the other end, unless a receiver has taken it already."""
        sharer: Any = getattr(resource_sharer, "_resource_sharer")
        taken = sharer._cache.pop(self.fd._id[1], None)
        if taken:
            taken[1]()

    def close(self) -> None:
        self.ours.close()
        if self.writer >= 0:
            os.close(self.writer)
        self.writer = -1


def _ended(fd: int) -> bool:
    """Whether the other side of a pipe or socket is closed."""
    poll = select.poll()
    poll.register(fd, 0)
    return bool(poll.poll(0))


class _Unread:
    """The messages that no process has read: a thread drops those that no process
    can read any more, which fires their leases."""

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self.after_fork)

    def begin(self) -> None:
        self.lock = threading.Lock()
        self.by_fd: dict[int, _Message] = {}
        self.unsent: dict[bytes, _Message] = {}
        # The other ends of the connections of processes that are being started.
        self.launching: list[tuple[weakref.ref[Any], socket.socket]] = []
        self.epoll: select.epoll | None = None
        self.wake = -1

    def after_fork(self) -> None:
        """In the child: the messages are the parent's."""
        for message in set(self.by_fd.values()):
            message.close()
        for _, theirs in self.launching:
            theirs.close()
        if self.epoll:
            self.epoll.close()
            os.close(self.wake)
        self.begin()

    # The next four are called with the lock.

    def start(self) -> select.epoll:
        if not self.epoll:
            self.epoll = select.epoll()
            self.wake = os.eventfd(0)
            self.epoll.register(self.wake, select.EPOLLIN)
            threading.Thread(target=self.run, args=(self.epoll,), daemon=True,
                             name="dlbuf.multiprocessing").start()
        return self.epoll

    def watch(self, fd: int, message: _Message) -> None:
        self.by_fd[fd] = message
        # 0: errors and the end of the other side only.
        self.start().register(fd, 0)

    def forget(self, message: _Message) -> None:
        self.unsent.pop(message.token, None)
        for fd in message.ours.fileno(), message.writer:
            if self.by_fd.pop(fd, None):
                self.start().unregister(fd)
        message.close()

    def close_launched(self) -> None:
        for entry in self.launching[:]:
            popen, theirs = entry[0](), entry[1]
            if popen is None or hasattr(popen, "sentinel"):
                self.launching.remove(entry)
                theirs.close()

    def add(self, message: _Message) -> None:
        with self.lock:
            self.unsent[message.token] = message
            self.watch(message.ours.fileno(), message)

    def sent(self, conn: Any, data: bytes) -> None:
        """The connection is about to write these bytes."""
        with self.lock:
            for token in [t for t in self.unsent if t in data]:
                message = self.unsent.pop(token)
                message.writer = os.dup(conn.fileno())
                self.watch(message.writer, message)

    def launch(self, popen: Any, theirs: socket.socket) -> None:
        """Keeps theirs open until the process has it."""
        with self.lock:
            self.launching.append((weakref.ref(popen), theirs))
            self.start()
            os.eventfd_write(self.wake, 1)

    def take_back(self, messages: list[_Message]) -> None:
        with self.lock:
            for message in messages:
                if self.by_fd.get(message.ours.fileno()) is message:
                    self.forget(message)
                    message.drop()

    def event(self, fd: int) -> None:
        with self.lock:
            message = self.by_fd.get(fd)
            if fd == self.wake:
                os.eventfd_read(fd)
            # The number may be another message's by now.
            elif message and _ended(fd):
                unread = fd == message.writer
                self.forget(message)
                if unread:
                    message.drop()

    def run(self, epoll: select.epoll) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            # A Popen does not say when it has started its process.
            for fd, _ in epoll.poll(.02 if self.launching else None):
                self.event(fd)
            with self.lock:
                self.close_launched()


_unread = _Unread()
_pickling = threading.local()


@contextlib.contextmanager
def _undone_by_errors() -> Generator[None, None, None]:
    """An exception takes back the messages that are made meanwhile."""
    outer: list[_Message] | None = getattr(_pickling, "made", None)
    made: list[_Message] = []
    _pickling.made = made
    try:
        yield
    except BaseException:
        _unread.take_back(made)
        raise
    finally:
        _pickling.made = outer
    if outer is not None:
        outer += made


def _receive(fd: Any, device: str, view: int, _: bytes) -> Any:
    """The object that _reduce() sent, in the process that unpickles it."""
    number = fd.detach()
    try:
        sock = socket.socket(fileno=number)
    except BaseException:
        os.close(number)
        raise
    with sock:
        return recv(sock, device=device, view=View(view))


def _reduce(what: Tensor | TensorFrame, tensor: Tensor, view: int) -> _Reduced:
    """Sends `what` into a socket of its own, which is what is pickled.

    The message holds the lease. If nobody reads the message, it is freed with the socket.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    device = tensor.device.name if tensor.device else "cpu"
    popen: Any = get_spawning_popen()
    try:
        send(ours, what)
        # For a process that is being started it is the fd itself, else a DupFd.
        fd: Any = reduction.DupFd(theirs.fileno())
    except BaseException:
        ours.close()
        theirs.close()
        raise
    if popen:
        ours.close()
        _unread.launch(popen, theirs)
        return _receive, (fd, device, view, b"")
    theirs.close()
    message = _Message(ours, fd)
    _unread.add(message)
    if (made := getattr(_pickling, "made", None)) is not None:
        made.append(message)
    return _receive, (fd, device, view, message.token)


def _reduce_tensor(tensor: Tensor) -> _Reduced:
    return _reduce(tensor, tensor, 0)


def _reduce_frame(frame: TensorFrame) -> _Reduced:
    return _reduce(frame, frame[0], int(frame.info.view))


reduction.ForkingPickler.register(Tensor, _reduce_tensor)
reduction.ForkingPickler.register(TensorFrame, _reduce_frame)


# ------------------------------------------------------- hooks of multiprocessing

_dumps: Any = vars(reduction.ForkingPickler)["dumps"].__func__
_send_bytes: Any = getattr(connection.Connection, "_send_bytes")


def _dumps_or_undo(cls: Any, obj: Any, protocol: int | None = None) -> Any:
    with _undone_by_errors():
        return _dumps(cls, obj, protocol)


def _send_known_bytes(self: Any, buf: Any) -> Any:
    """Each send on a connection uses this: it notes which connection has which message."""
    if _unread.unsent:
        _unread.sent(self, bytes(buf))
    return _send_bytes(self, buf)


class _Pickled:
    """An object in a Queue. The receiver gets the object itself."""

    def __init__(self, obj: Any) -> None:
        self.data = bytes(reduction.ForkingPickler.dumps(obj))

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.data,)


def _pickling_first(put: Any) -> Any:
    @functools.wraps(put)
    def method(self: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        # A queue of concurrent.futures reports to a future what cannot be pickled.
        if type(self) not in (queues.Queue, queues.JoinableQueue):
            return put(self, obj, *args, **kwargs)
        with _undone_by_errors():
            put(self, _Pickled(obj), *args, **kwargs)

    return method


setattr(reduction.ForkingPickler, "dumps", classmethod(_dumps_or_undo))
setattr(connection.Connection, "_send_bytes", _send_known_bytes)
for _queue in queues.Queue, queues.JoinableQueue:
    setattr(_queue, "put", _pickling_first(vars(_queue)["put"]))
