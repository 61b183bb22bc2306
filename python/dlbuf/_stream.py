# SPDX-License-Identifier: MIT
"""What cameras and other streams of frames have in common: `for`, `async for`, `with`."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

from ._errors import ClosedError, DeadlineError, InvalidError
from ._frames import TensorFrame

if TYPE_CHECKING:
    import asyncio

    from typing_extensions import Self

_F = TypeVar("_F", bound=TensorFrame)
_EINVAL = 22
# Seconds; the library's clock has no more.
_FOREVER = 1e9


def within(value: Any, least: float, most: float) -> bool:
    """Whether it is a number from least to most."""
    try:
        return bool(least <= value <= most)
    except TypeError:
        return False


def check_timeout(timeout: Any) -> float | None:
    known = timeout is None or within(timeout, 0, _FOREVER)
    if not known and not within(timeout, 0, float("inf")):
        raise InvalidError(_EINVAL, "a timeout is seconds, from 0 on, or "
                           f"None, not {timeout!r}")
    return timeout if known else None


class Stream(Iterator[_F], AsyncIterator[_F]):
    """An iterator over frames, whose fileno() is readable when there may be one."""

    def __init__(self, timeout: float | None) -> None:
        check_timeout(timeout)
        self.timeout = timeout
        self._lock = threading.Lock()
        self._waiters: dict[asyncio.AbstractEventLoop,
                            list[asyncio.Future[None]]] = {}

    @abstractmethod
    def _name(self) -> str:
        """What error texts call it."""

    @abstractmethod
    def fileno(self) -> int:
        """An fd that is readable when _next() may have a frame or an error."""

    @abstractmethod
    def close(self) -> None:
        """Ends the iteration on all threads and tasks."""

    @abstractmethod
    def _next(self, deadline: float | None) -> _F | None:
        """The next frame; None after close(). Waits until deadline, in seconds of
        time.monotonic(), and raises DeadlineError then; 0.0 does not wait."""

    def __next__(self) -> _F:
        timeout = check_timeout(self.timeout)
        frame = self._next(None if timeout is None else
                           time.monotonic() + timeout)
        if frame is None:
            raise StopIteration
        return frame

    # ------------------------------------------------------------- asyncio

    async def frame(self, timeout: float | EllipsisType | None = ...
                    ) -> _F:
        """Awaits the next frame. timeout: seconds; None waits without a limit; by
        default it is the Camera's.

        A task that is cancelled loses no frame and no buffer, because it takes a
        frame only in the step in which it returns. Several tasks, also of several
        event loops, may wait. The call uses the loop's add_reader(), so the
        program cannot use it with the same fd meanwhile. Raises ClosedError if
        the stream is closed, also during the wait, and DeadlineError when the
        time is over.

        >>> import asyncio
        >>> async def sizes(camera):
        ...     y, uv = await camera.frame(timeout=10)
        ...     return y.shape, uv.shape
        >>> with dlbuf.Camera(0, format="NV12", size="320x180") as camera:
        ...     asyncio.run(sizes(camera))
        ((180, 320), (90, 160, 2))
        """
        frame = await self._await(timeout)
        if frame is None:
            raise ClosedError(errno.EPIPE, f"{self._name()} is closed")
        return frame

    async def __anext__(self) -> _F:
        frame = await self._await(...)
        if frame is None:
            raise StopAsyncIteration
        return frame

    async def _await(self, timeout: float | EllipsisType | None
                     ) -> _F | None:
        import asyncio      # takes as long as the rest of this package
        loop = asyncio.get_running_loop()
        seconds = check_timeout(self.timeout if timeout is ... else timeout)
        end = None if seconds is None else loop.time() + seconds
        # The other tasks run also when a frame is always ready.
        await asyncio.sleep(0)
        while True:
            try:
                return self._next(0.0)
            except DeadlineError:
                if end is not None and loop.time() >= end:
                    raise
            await self._readable(loop, end)

    async def _readable(self, loop: asyncio.AbstractEventLoop,
                        end: float | None) -> None:
        """Waits until there may be a frame or an error, or the time is over."""
        waiter: asyncio.Future[None] = loop.create_future()
        timer = None if end is None else loop.call_at(end, _wake, [waiter])
        # Under the lock, so that close() on another thread sees the waiter, or
        # the reader sees the file that close() leaves behind.
        with self._lock:
            waiters = self._waiters.setdefault(loop, [])
            waiters.append(waiter)
            try:
                if len(waiters) == 1:
                    loop.add_reader(self.fileno(), self._wake_all, loop)
            except BaseException:
                self._waiters.pop(loop)
                raise
        try:
            await waiter
        finally:
            if timer:
                timer.cancel()
            with self._lock:
                waiters = self._waiters.get(loop, [])
                if waiter in waiters:
                    waiters.remove(waiter)
                    if not waiters:
                        del self._waiters[loop]
                        loop.remove_reader(self.fileno())

    def _wake_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the loop's thread: each task tries, and waits again if it must."""
        with self._lock:
            waiters = self._waiters.pop(loop, [])
            loop.remove_reader(self.fileno())
        _wake(waiters)

    def _wake_loops(self) -> None:
        """For close(): each loop's tasks try again. A loop may be closed by now."""
        with self._lock:
            loops = list(self._waiters)
        for loop in loops:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake_all, loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
