# SPDX-License-Identifier: MIT
"""Methods of Tensor that give all elements in other dimensions: arithmetic on shape and
strides. _dlbuf.view() makes the tensor, with the lease, device and frame of the first."""

from __future__ import annotations

import math
import operator
from typing import Any

from . import _dlbuf  # pyright: ignore[reportPrivateUsage]
from ._dlbuf import Tensor
from ._errors import InvalidError, UnsupportedError

_EINVAL, _EOPNOTSUPP = 22, 95


def _view(t: Tensor, dims: list[tuple[int, int]]) -> Tensor:
    """dims: size and stride of each."""
    # Where nothing is one stride away, the stride may be any, and C's wraps.
    strides = [(s + (1 << 63)) % (1 << 64) - (1 << 63) for _, s in dims]
    return _dlbuf.view(t, [n for n, _ in dims], strides, t.dtype)


def _dims(t: Tensor) -> list[tuple[int, int]]:
    return list(zip(t.shape, t.strides))


def _integers(args: tuple[Any, ...], what: str) -> list[int]:
    """The integers of f(1, 2), f((1, 2)) or f([1, 2])."""
    try:
        return list(map(operator.index, args))
    except TypeError:
        given = args[0] if len(args) == 1 else args
    try:
        return list(map(operator.index, given))
    except TypeError:
        raise TypeError(f"{what} is integers, not {given!r}") from None


def _find(dim: int, n: int) -> int:
    if not -n <= dim < n:
        raise InvalidError(_EINVAL, f"there is no dimension {dim}: they are {-n} to "
                           f"{n - 1}")
    return dim % n


def _complete(shape: list[int], count: int) -> None:
    """Replaces a -1 in the shape by the number of elements that are left."""
    known, left = 1, -1
    for i, n in enumerate(shape):
        if n == -1 and left < 0:
            left = i
            continue
        if n < 0:
            raise InvalidError(_EINVAL, f"shape[{i}] is {n}: one of a shape may be "
                               "-1, and none below")
        known *= n
        if known >= 1 << 63:
            raise InvalidError(_EINVAL, "the shape has more elements than the "
                               f"tensor, {count}")
    if left >= 0 and known and not count % known:
        shape[left] = count // known
    elif left >= 0 or known != count:
        raise InvalidError(_EINVAL, f"a tensor of {count} elements has no such shape: "
                           f"the {'' if left < 0 else 'other '}dimensions have {known}")


def _regroup(dims: list[tuple[int, int]], shape: list[int]) -> list[int]:
    """The strides of a shape that has as many elements as dims, and not none."""
    # Blocks of elements at one distance, the last one first.
    blocks: list[tuple[int, int]] = []
    for n, stride in reversed(dims):
        if n == 1:
            continue
        if blocks and stride == blocks[-1][0] * blocks[-1][1]:
            blocks[-1] = n * blocks[-1][0], blocks[-1][1]
        else:
            blocks.append((n, stride))
    strides: list[int] = []
    left = step = 1
    for n in reversed(shape):
        if n != 1 and left == 1 and blocks:
            left, step = blocks.pop(0)
        if left % n:
            raise UnsupportedError(_EOPNOTSUPP, "the tensor's elements are not one "
                                   "after another, so that this shape needs a copy: "
                                   "t.copy().reshape(...)")
        strides.append(step)
        left //= n
        step *= n
    return strides[::-1]


def reshape(self: Tensor, *shape: Any) -> Tensor:
    sizes, dims = _integers(shape, "the shape"), _dims(self)
    _complete(sizes, self.size)
    # Without elements: the strides of compact rows.
    some = [n or 1 for n in sizes]
    strides = _regroup(dims if self.size else [(math.prod(some), 1)], some)
    return _view(self, list(zip(sizes, strides)))


def permute(self: Tensor, *dims: Any) -> Tensor:
    numbers, old = _integers(dims, "the list of dimensions"), _dims(self)
    if len(numbers) != len(old):
        raise InvalidError(_EINVAL, f"{len(numbers)} dimensions are named, and the "
                           f"tensor has {len(old)}")
    order = [_find(d, len(old)) for d in numbers]
    for d in order:
        if order.count(d) > 1:
            raise InvalidError(_EINVAL, f"dimension {d} is named twice")
    return _view(self, [old[d] for d in order])


def transpose(self: Tensor, *axes: Any) -> Tensor:
    return self.T if axes in ((), (None,)) else permute(self, *axes)


def unsqueeze(self: Tensor, dim: Any, /) -> Tensor:
    dims = _dims(self)
    try:
        at = _find(operator.index(dim), len(dims) + 1)
    except TypeError:
        raise TypeError(f"dim is an int, not {dim!r}") from None
    return _view(self, [*dims[:at], (1, 0), *dims[at:]])


def squeeze(self: Tensor, dim: Any = None) -> Tensor:
    dims = _dims(self)
    if dim is None:
        return _view(self, [d for d in dims if d[0] != 1])
    drop = [_find(d, len(dims)) for d in _integers((dim,), "dim")]
    for d in drop:
        if dims[d][0] != 1:
            raise InvalidError(_EINVAL, f"dimension {d} has {dims[d][0]} elements, "
                               "not 1")
    return _view(self, [x for d, x in enumerate(dims) if d not in drop])


methods = [reshape, permute, transpose, unsqueeze, squeeze]
