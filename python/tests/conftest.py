# SPDX-License-Identifier: MIT
"""Fixtures, and a producer whose every deleter call is counted."""

import ctypes
import os

import pytest

from interop import _memory
from interop._memory import Versioned, py


class Producer(_memory.Producer):
    """Three uint8 in every shape of the protocol; counts its deletions."""

    def __init__(self, versioned=True, major=1, flags=0, strides=True,
                 device=(1, 0)):
        self.memory = (ctypes.c_uint8 * 3)(1, 2, 3)
        super().__init__(ctypes.addressof(self.memory), (3,),
                         (1,) if strides else None, (1, 8, 1),
                         versioned=versioned, major=major, flags=flags,
                         device=device)


def capsule_name(capsule):
    return py.PyCapsule_GetName(capsule).decode()


def versioned(capsule):
    """The contents of a capsule of __dlpack__(max_version=(1, 0))."""
    pointer = py.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    return Versioned.from_address(pointer)


def open_fds():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def np():
    return pytest.importorskip("numpy")
