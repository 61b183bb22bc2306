# SPDX-License-Identifier: MIT
"""Exceptions. Each is an OSError with errno and the library's error text."""


class Error(OSError):
    """Any failure of the library or of a driver: errno, and a sentence in
    strerror. Its subclasses are also Python's usual exceptions.

    >>> try:
    ...     dlbuf.Device("vulkan:no such device")
    ... except dlbuf.Error as e:
    ...     e.errno in (errno.ENODEV, errno.ENOSYS)
    True
    """


class InvalidError(Error, ValueError):
    """An argument that cannot be right: EINVAL, ERANGE, EOVERFLOW.

    >>> t = dlbuf.alloc(16, "uint8")
    >>> dlbuf.from_fd(t.fd, 1 << 40, "uint8")
    Traceback (most recent call last):
    dlbuf.InvalidError: [Errno 34] ...
    """


class UnsupportedError(Error, BufferError):
    """The device, the format or the driver is present and cannot do it:
    EOPNOTSUPP, EPROTO.

    >>> dlbuf.from_dlpack(b"abc").acquire()
    Traceback (most recent call last):
    dlbuf.UnsupportedError: [Errno 95] the tensor is not of a dma-buf...
    """


class AccessError(Error, PermissionError):
    """The dma-buf was not opened for this access, the tensor does not allow it,
    or the process may not open a device node: EACCES, EPERM.

    >>> t = dlbuf.alloc(16, "uint8")
    >>> dlbuf.from_fd(t.fd, 16, "uint8", access="read").acquire("write")
    Traceback (most recent call last):
    dlbuf.AccessError: [Errno 13] ...
    """


class WouldBlockError(Error, BlockingIOError):
    """The call would have to wait, on a socket that does not: EAGAIN.

    >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    >>> ours.setblocking(False)
    >>> dlbuf.recv(ours)
    Traceback (most recent call last):
    dlbuf.WouldBlockError: [Errno 11] ...
    """


class ClosedError(Error, BrokenPipeError, EOFError):
    """The other side has closed the socket, or its process has ended, or the
    camera is closed: EPIPE.

    >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    >>> theirs.close()
    >>> dlbuf.recv(ours)
    Traceback (most recent call last):
    dlbuf.ClosedError: [Errno 32] ...
    """


class DeadlineError(Error, TimeoutError):
    """The deadline or the timeout passed: ETIME.

    >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    >>> ours.settimeout(0.01)
    >>> dlbuf.recv(ours)
    Traceback (most recent call last):
    dlbuf.DeadlineError: [Errno 62] ...
    """


# Tracebacks name them as programs do.
for _error in (Error, InvalidError, UnsupportedError, AccessError,
               WouldBlockError, ClosedError, DeadlineError):
    _error.__module__ = "dlbuf"
