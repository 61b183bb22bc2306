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
        ("from_object", ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.py_object,
            ctypes.POINTER(ctypes.POINTER(Versioned)))),
        ("to_object", ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_void_p)))]


API = Table.from_address(py.PyCapsule_GetPointer(
    dlbuf.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))
py.Py_DecRef.argtypes = [ctypes.py_object]


def tensor_at(managed):
    """A Tensor of a struct, which is taken."""
    out = ctypes.c_void_p()
    API.to_object(managed, ctypes.byref(out))
    tensor = ctypes.cast(out, ctypes.py_object).value
    # out was a reference, too.
    py.Py_DecRef(tensor)
    return tensor


def given(tensor):
    """A Tensor as a consumer in C takes it: the struct, to be deleted."""
    out = ctypes.POINTER(Versioned)()
    assert not API.from_object(tensor, ctypes.byref(out))
    return out


def allocated(shape, device=1):
    """The allocation of a consumer in C: a Tensor, or the words of the refusal."""
    dl = DLTensor(ndim=len(shape), code=1, bits=8, lanes=1,
                  shape=(ctypes.c_int64 * len(shape))(*shape))
    dl.device[:] = device, 0
    out, said = ctypes.POINTER(Versioned)(), []
    tell = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p,
                            ctypes.c_char_p)(
        lambda _, kind, message: said.append(f"{kind.decode()}: {message.decode()}"))
    for hook in None, ctypes.cast(tell, ctypes.c_void_p):
        if not API.allocate(ctypes.byref(dl), ctypes.byref(out), None, hook):
            return tensor_at(ctypes.cast(out, ctypes.c_void_p))
        assert not out
    return said[0]


def exchanged(producer):
    """A Tensor of the producer's memory, which is taken."""
    producer._handed_out.append(producer)
    return tensor_at(ctypes.addressof(producer.managed))
