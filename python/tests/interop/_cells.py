# SPDX-License-Identifier: MIT
"""One cell of the matrix: a producer's memory in a consumer's hands, proven
by writing through one and reading through the other."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import dlbuf
from dlbuf._types import (  # pyright: ignore[reportPrivateUsage]
    dtype_name, parse_dtype)

from ._libraries import Cannot, Library
from ._memory import (DTYPES, EXTENT, LAYOUTS, Block, DType, Layout,
                      tensor_of)

PLAIN, DMABUF = "dlbuf", "dlbuf dma-buf"
OURS = (PLAIN, DMABUF)

SHARED, COPIED, REFUSED = "shared", "copied", "refused"
WRONG, CRASHED, NONE = "wrong", "crashed", "-"


class Cell(NamedTuple):
    """The result. words: the library's own, or what was wrong."""

    producer: str
    consumer: str
    dtype: str
    layout: str
    state: str
    words: str = ""
    note: str = ""


class Wrong(Exception):
    """A break of the protocol."""


def one_line(text: str) -> str:
    """The first line of it, without addresses, which differ."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub("0x[0-9a-f]{5,}", "0x...", lines[0] if lines else "")[:240]


def words_of(e: BaseException) -> str:
    """The text of a library's error, and its kind."""
    return f"{type(e).__name__}: {one_line(str(e))}".rstrip(" :")


# ------------------------------------------------------------------ sources

class Source:
    """Memory that another object hands out as self.obj."""

    obj: Any

    def write(self, round: int) -> None:
        raise NotImplementedError

    def values(self) -> list[Any]:
        raise NotImplementedError

    def address(self) -> int | None:
        raise NotImplementedError

    def kind(self, dtype: DType) -> str:
        """The dtype that it says it is of, which is not always its own."""
        return dtype.name

    def everything(self) -> list[Any] | None:
        """All of the memory, to see that nothing else was written."""
        return None

    def close(self) -> None:
        """Gives it up; Wrong where it was not given back exactly once."""
        self.obj = None


class Plain(Source):
    """A dlbuf.Tensor over memory whose deleter is counted."""

    def __init__(self, dtype: DType, layout: Layout) -> None:
        self.block = Block(dtype, layout)
        self.producer = self.block.producer()
        self.obj = dlbuf.from_dlpack(self.producer)

    def write(self, round: int) -> None:
        self.block.write(round)

    def values(self) -> list[Any]:
        every = self.block.everything()
        return [every[i] for i in self.block.layout.indices()]

    def address(self) -> int | None:
        return (self.block.address +
                self.block.layout.offset * self.block.dtype.size)

    def everything(self) -> list[Any] | None:
        return self.block.everything()

    def close(self) -> None:
        self.obj = None
        if self.producer.deleted != 1:
            gc.collect()
        if self.producer.deleted != 1:
            raise Wrong(f"the deleter ran {self.producer.deleted} times")


class DmaBuf(Source):
    """A dlbuf.Tensor of a dma-buf; written through another import of it."""

    def __init__(self, dtype: DType, layout: Layout) -> None:
        self.dtype, self.layout = dtype, layout
        size = EXTENT * dtype.size
        self.tensors = _tensors()
        self.base = dlbuf.alloc((size,), "uint8", name="interop")
        self.write(0)
        self.obj = dlbuf.from_fd(
            self.base.fd or -1, layout.shape, dtype.name,
            strides=layout.strides, offset=layout.offset * dtype.size,
            access="read" if layout.read_only else "rw")

    def write(self, round: int) -> None:
        with self.base as t, memoryview(t) as m:
            m[:] = self.dtype.bytes_of(EXTENT, round)

    def everything(self) -> list[Any] | None:
        with self.base as t, memoryview(t) as m:
            data, n = m.tobytes(), self.dtype.size
        return [self.dtype.decode(data[i:i + n])
                for i in range(0, len(data), n)]

    def values(self) -> list[Any]:
        every = self.everything() or []
        return [every[i] for i in self.layout.indices()]

    def address(self) -> int | None:
        if self.layout.read_only:
            return None     # mapped apart
        return (int(self.base.__array_interface__["data"][0]) +
                self.layout.offset * self.dtype.size)

    def close(self) -> None:
        self.obj = None
        self.base.close()
        if _tensors() != self.tensors:
            gc.collect()
        if _tensors() != self.tensors:
            raise Wrong(f"{_tensors() - self.tensors} tensors were not "
                        "deleted")


def _tensors() -> int:
    """How many there are over dma-bufs."""
    cpu = dlbuf.alloc((1,), "uint8").device
    assert cpu
    return cpu.stats().tensors


class Own(Source):
    """A library's own array."""

    def __init__(self, library: Library, dtype: DType, layout: Layout) -> None:
        self.library, self.dtype, self.layout = library, dtype, layout
        self.obj = library.make(dtype, layout)

    def write(self, round: int) -> None:
        self.library.rewrite(self.obj, self.dtype, self.layout, round)

    def values(self) -> list[Any]:
        return self.library.values(self.obj, self.dtype)

    def address(self) -> int | None:
        return self.library.address(self.obj, self.dtype)

    def kind(self, dtype: DType) -> str:
        try:
            dl = tensor_of(self.obj.__dlpack__())
        except (AttributeError, BufferError, TypeError):
            return dtype.name
        return str(dtype_name(dl.code, dl.bits, dl.lanes))


def maker(name: str, library: Library | None
          ) -> Callable[[DType, Layout], Source]:
    """A function that makes sources of a producer."""
    if name == PLAIN:
        return Plain
    if name == DMABUF:
        return DmaBuf
    assert library
    return lambda dtype, layout: Own(library, dtype, layout)


# ------------------------------------------------------------------ cells

def _expect(what: str, got: list[Any], want: list[Any]) -> None:
    if got != want:
        raise Wrong(f"{what}: {got[:4]}... instead of {want[:4]}..."[:200])


def _prove(source: Source, y: Any, library: Library, dtype: DType,
           layout: Layout) -> tuple[str, str]:
    """The state, and a note."""
    said, kind = source.kind(dtype), library.kind(y)
    if kind not in (None, said, dtype.name):
        raise Wrong(f"it became {kind}")
    want = layout.values(dtype, 0)
    _expect("it reads", library.values(y, dtype), want)
    read_only = library.read_only(y)
    if layout.read_only and not read_only and library.name in _HEEDS:
        raise Wrong("what is read-only can be written")
    if 0 in layout.shape:
        return SHARED, "no bytes"
    source.write(1)
    got = library.values(y, dtype)
    if got == want:
        return COPIED, ""
    _expect("after the producer's write it reads", got,
            layout.values(dtype, 1))
    mine, theirs = source.address(), library.address(y, dtype)
    if mine is not None and theirs is not None and mine != theirs:
        raise Wrong(f"shared at another address, {mine:#x} and {theirs:#x}")
    if said != dtype.name:
        return SHARED, f"handed out as {said}"
    if read_only:
        return SHARED, "" if layout.read_only else "read-only there"
    if layout.read_only:
        return SHARED, "writable there"
    return SHARED, _write_back(source, y, library, dtype, layout)


_HEEDS = ("dlbuf", "memoryview", "array interface")


def _write_back(source: Source, y: Any, library: Library, dtype: DType,
                layout: Layout) -> str:
    """Writes through the consumer; nothing but its elements may change."""
    value = dtype.values[0]
    before = source.everything()
    try:
        library.fill(y, value, dtype)
    except Cannot as e:
        return f"one way: {str(e).splitlines()[0][:80]}"
    got = source.values()
    if got == layout.values(dtype, 1):
        raise Wrong("what the consumer wrote, the producer does not see")
    _expect("after the consumer's write the producer reads", got,
            [value] * len(got))
    after = source.everything()
    if before is not None and after is not None:
        inside = set(layout.indices())
        for i, (old, new) in enumerate(zip(before, after)):
            if old != new and i not in inside:
                raise Wrong(f"element {i} of the memory, which is not of the "
                            "tensor, was written")
    return ""


def try_cell(producer: str, make: Callable[[DType, Layout], Source],
             library: Library, dtype: DType, layout: Layout) -> Cell:
    """A cell from beginning to end, in spite of any failure of the libraries."""
    def cell(state: str, words: str = "", note: str = "") -> Cell:
        return Cell(producer, library.name, dtype.name, layout.name, state,
                    words, note)

    try:
        source = make(dtype, layout)
    except Cannot as e:
        return cell(NONE, str(e))
    except dlbuf.Error as e:
        return cell(WRONG, f"it could not be made: {words_of(e)}")
    try:
        ret = _try_take(source, library, dtype, layout, cell)
    finally:
        try:
            source.close()
        except Wrong as e:
            ret = cell(WRONG, str(e))
    return ret


def _try_take(source: Source, library: Library, dtype: DType, layout: Layout,
              cell: Callable[..., Cell]) -> Cell:
    try:
        y = library.take(source.obj)
    except Cannot as e:
        return cell(NONE, str(e))
    except Exception as e:
        return cell(REFUSED, words_of(e))
    try:
        state, note = _prove(source, y, library, dtype, layout)
    except Wrong as e:
        return cell(WRONG, str(e))
    except Cannot as e:
        return cell(NONE, str(e))
    except Exception as e:
        return cell(WRONG, f"it took it, and then {words_of(e)}")
    return cell(state, "", note)


# ------------------------------------------------------------------ capsules

class _Once:
    """Hands out one capsule, as often as it is asked."""

    def __init__(self, tensor: dlbuf.Tensor, versioned: bool) -> None:
        self.capsule = tensor.__dlpack__(
            max_version=(1, 3) if versioned else None)

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


CAPSULES = ("never consumed", "consumed twice", "consumer raises")


def _capsule_case(case: str, source: Plain, library: Library) -> str:
    """The text of the library's error, if there was one."""
    if case == "never consumed":
        for version in (None, (1, 3)):
            source.obj.__dlpack__(max_version=version)
        return ""
    if case == "consumer raises":
        try:
            library.take(source.obj)
        except Exception as e:
            return words_of(e)
        return "it raises at no dtype"
    words = ""
    # The kind that it asks for: the old one is what the oldest know.
    for versioned in (True, False):
        once = _Once(source.obj, versioned)
        try:
            y = library.take(once)
        except Exception as e:
            words = words_of(e)
            continue
        try:
            library.take(once)
        except Exception as e:
            return words_of(e)
        del y
        raise Wrong("it consumed a capsule twice")
    return words


def try_capsule(case: str, library: Library) -> Cell:
    """Tests that the deleter runs once, however the capsule ends."""
    # A dtype that no library has: a handle of three lanes.
    source = Plain(DTYPES["int64"], LAYOUTS["contiguous"])
    if case == "consumer raises":
        source.obj = None
        source.producer.deleted = 0
        source.producer.managed.dl.code = parse_dtype("opaque64")[0]
        source.producer.managed.dl.lanes = 3
        source.obj = dlbuf.from_dlpack(source.producer)
    state = SHARED
    try:
        words = _capsule_case(case, source, library)
        source.close()
    except Wrong as e:
        state, words = WRONG, str(e)
    return Cell(PLAIN, library.name, "capsule", case, state, words)


def plan(producer: str, library: type[Library]) -> list[tuple[str, str]]:
    """(dtype, layout) of every cell of a pair, the capsules' cases last."""
    cells = [(dtype, layout) for layout in LAYOUTS for dtype in DTYPES]
    if producer == PLAIN and library.capsules:
        cells += [("capsule", case) for case in CAPSULES]
    return cells


def cells_of(producer: str, source: Library | None, library: Library,
             wanted: list[tuple[str, str]]
             ) -> Iterator[Callable[[], Cell]]:
    """Each cell as a call, so that the runner can print which one is next."""
    make = maker(producer, source)
    for dtype, layout in wanted:
        if dtype == "capsule":
            yield partial(try_capsule, layout, library)
        else:
            yield partial(try_cell, producer, make, library, DTYPES[dtype],
                          LAYOUTS[layout])
