# SPDX-License-Identifier: MIT
"""Exceptions. Each is an OSError with errno and the library's own sentence."""


class Error(OSError):
    """Whatever libdlbuf refuses or a driver fails at."""


class InvalidError(Error, ValueError):
    """EINVAL, ERANGE, EOVERFLOW: an argument that cannot be right."""


class UnsupportedError(Error, BufferError):
    """EOPNOTSUPP, EPROTO: present, but cannot."""


class AccessError(Error, PermissionError):
    """EACCES, EPERM: not opened for that access."""


class WouldBlockError(Error, BlockingIOError):
    """EAGAIN: it would have to wait, on a socket that does not."""


class ClosedError(Error, BrokenPipeError, EOFError):
    """EPIPE: the other side has closed the socket."""


class DeadlineError(Error, TimeoutError):
    """ETIME: the deadline passed before the fences."""
