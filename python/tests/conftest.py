# SPDX-License-Identifier: MIT
"""Fixtures, and a producer whose every deleter call is counted."""

import ctypes
import os

import pytest


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Legacy(ctypes.Structure):
    pass


class Versioned(ctypes.Structure):
    pass


LEGACY_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Legacy))
DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
Legacy._fields_ = [("dl", DLTensor), ("ctx", ctypes.c_void_p),
                   ("deleter", LEGACY_DELETER)]
Versioned._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                      ("ctx", ctypes.c_void_p), ("deleter", DELETER),
                      ("flags", ctypes.c_uint64), ("dl", DLTensor)]

py = ctypes.pythonapi
py.PyCapsule_New.restype = ctypes.py_object
py.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
py.PyCapsule_GetPointer.restype = ctypes.c_void_p
py.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
py.PyCapsule_GetName.restype = ctypes.c_char_p
py.PyCapsule_GetName.argtypes = [ctypes.py_object]


class Producer:
    """Three uint8 in every shape of the protocol; counts its deletions."""

    def __init__(self, versioned=True, major=1, flags=0, strides=True,
                 device=(1, 0)):
        self.memory = (ctypes.c_uint8 * 3)(1, 2, 3)
        self.shape = (ctypes.c_int64 * 1)(3)
        self.ones = (ctypes.c_int64 * 1)(1)
        self.deleted = 0
        self.asked = []
        self.device = device
        dl = DLTensor(
            data=ctypes.addressof(self.memory), ndim=1, code=1, bits=8,
            lanes=1, shape=self.shape, strides=self.ones if strides else None)
        dl.device[:] = device
        if versioned:
            self.name = b"dltensor_versioned"
            self.deleter = DELETER(self.delete)
            self.managed = Versioned(major=major, minor=0, flags=flags, dl=dl,
                                     deleter=self.deleter)
        else:
            self.name = b"dltensor"
            self.deleter = LEGACY_DELETER(self.delete)
            self.managed = Legacy(dl=dl, deleter=self.deleter)

    def delete(self, _):
        self.deleted += 1

    def capsule(self):
        return py.PyCapsule_New(ctypes.addressof(self.managed), self.name,
                                None)

    def __dlpack__(self, **wishes):
        self.asked.append(wishes)
        if self.name == b"dltensor" and wishes:
            raise TypeError("unexpected keyword argument")
        return self.capsule()

    def __dlpack_device__(self):
        return self.device


def capsule_name(capsule):
    return py.PyCapsule_GetName(capsule).decode()


def versioned(capsule):
    """What is in a capsule of __dlpack__(max_version=(1, 0))."""
    pointer = py.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    return Versioned.from_address(pointer)


def open_fds():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def np():
    return pytest.importorskip("numpy")
