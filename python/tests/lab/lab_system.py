#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The package built with DLBUF_SYSTEM=1, and C code that uses the same library.

    PYTHONPATH=... python3 python/tests/lab/lab_system.py LIBDLBUF.SO
"""

import ctypes
import sys

import dlbuf

from labtools import case, main
from interop._memory import DLTensor

LIBRARY = sys.argv.pop(1)


@case
def one_library():
    with open("/proc/self/maps") as f:
        files = {line.split()[-1] for line in f if "libdlbuf" in line}
    assert len(files) == 1, files


@case
def a_tensor_of_c():
    """It is known with its dma-buf, which a tensor of another copy is not."""
    c = ctypes.CDLL(LIBRARY)
    dev, tensor = ctypes.c_void_p(), ctypes.c_void_p()
    shape = (ctypes.c_int64 * 2)(4, 6)
    layout = DLTensor(ndim=2, code=1, bits=8, lanes=1, shape=shape)
    layout.device[:] = 1, 0
    buffer = dlbuf.alloc((24,), "uint8")
    assert not c.dlbuf_device_open(b"cpu", None, ctypes.byref(dev))
    assert not c.dlbuf_import(dev, buffer.fd, ctypes.byref(layout), None,
                              ctypes.byref(tensor))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = ctypes.c_char_p(b"dltensor_versioned")
    t = dlbuf.from_dlpack(new(tensor, name, None))
    assert t.buffer == buffer.buffer and t.path == "direct", t
    assert t.shape == (4, 6) and t.device is None
    with t:
        assert c.dlbuf_acquire(tensor, 1, None, None) == -16  # EBUSY: known
        memoryview(t)[3, 5] = 7
    with buffer:
        assert memoryview(buffer)[23] == 7
    t.close()
    c.dlbuf_device_close(dev)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
