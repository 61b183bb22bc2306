# SPDX-License-Identifier: MIT
"""The exchange API of dlbuf.Tensor, called as a library in C calls it."""

import ctypes

import dlbuf
from interop._memory import DLTensor, Versioned, py


class Table(ctypes.Structure):
    """DLPackExchangeAPI, as far as it is called here."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2), ("prev", ctypes.c_void_p),
        ("allocate", ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(DLTensor),
            ctypes.POINTER(ctypes.POINTER(Versioned)), ctypes.c_void_p,
            ctypes.c_void_p)),
        ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_void_p)))]


API = Table.from_address(py.PyCapsule_GetPointer(
    dlbuf.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))
py.Py_DecRef.argtypes = [ctypes.py_object]


def exchanged(producer):
    """A Tensor of what producer has, which is taken."""
    producer._handed_out.append(producer)
    out = ctypes.c_void_p()
    API.to_object(ctypes.addressof(producer.managed), ctypes.byref(out))
    tensor = ctypes.cast(out, ctypes.py_object).value
    # out was a reference, too.
    py.Py_DecRef(tensor)
    return tensor
