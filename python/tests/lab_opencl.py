# SPDX-License-Identifier: MIT
"""Tensors on OpenCL, with the drivers of the guest (PoCL): for the lab."""

import ctypes
import os
import subprocess
import sys

import numpy as np

import dlbuf

from lab_camera import camera, read, vivid
from labtools import Skip, case, raises


def device(name="opencl:0"):
    try:
        return dlbuf.Device(name)
    except dlbuf.Error as e:
        raise Skip(e.strerror)


def copy(queue, source, target):
    """The bytes of one tensor to another, by a command of the device."""
    cl = ctypes.CDLL("libOpenCL.so.1")
    result = cl.clEnqueueCopyBuffer(
        *map(ctypes.c_void_p, (queue, source.data, target.data)),
        *map(ctypes.c_size_t, (source.byte_offset, target.byte_offset,
                               source.nbytes)), 0, None, None)
    assert result == 0, result


@case
def opencl_frames():
    """Camera, OpenCL, NumPy: each plane is copied by the device, and by nobody else."""
    d = device()
    want = read(vivid(), (320, 180), "NV12")
    queue = d.opencl[3]
    with camera(device=d) as cam:
        for _ in range(4):
            frame = next(cam)
            got = b""
            for t in frame:
                assert (t.path, t.is_copied) == ("host", False)
                out, seen = dlbuf.alloc(t.shape, "uint8", [d, "cpu"])
                t.acquire("read", stream=queue)
                out.acquire("write", stream=queue)
                copy(queue, t, out)
                out.release()
                t.release()
                got += np.from_dlpack(seen).tobytes()
                assert seen.buffer == out.buffer
            assert got == want
            frame.release()
    assert d.stats().copied_bytes == 0
    d.close()


@case
def opencl_capsules():
    """DLPack names no stream for OpenCL: None, and an order by acquire()."""
    d = device()
    t = dlbuf.alloc((4, 6), "float32", d)
    assert t.__dlpack_device__() == (4, 0)
    again = dlbuf.from_dlpack(t)
    assert (again.data, again.shape) == (t.data, (4, 6))
    raises(ValueError, lambda: t.__dlpack__(stream=1), "only None is defined")
    host = np.from_dlpack(t, device="cpu")
    assert host.shape == (4, 6) and not host.any()
    del t, again, host
    d.close()


@case
def opencl_wrapped():
    d = device()
    platform, of, context, queue = d.opencl
    with dlbuf.Device.wrap_opencl(context, queue=queue) as w:
        assert w.opencl == (platform, of, context, queue)
        assert w.name == "opencl:0"
        a, b = dlbuf.alloc(64, "uint8", [w, "cpu"])
        np.asarray(b)[:] = np.arange(64)
        c = dlbuf.alloc(64, "uint8", [w, "cpu"])
        a.acquire("read")
        c[0].acquire("write")
        copy(queue, a, c[0])
        c[0].release()
        a.release()
        assert np.from_dlpack(c[1]).tolist() == list(range(64))
        del a, b, c
    with dlbuf.Device.wrap_opencl(context, of) as w:
        assert w.opencl[3] != queue
    raises(ValueError, lambda: dlbuf.Device.wrap_opencl(0), "context is NULL")
    raises(TypeError, lambda: dlbuf.Device.wrap_opencl("0"))
    raises(ValueError, lambda: dlbuf.Device("cpu").opencl, "not an OpenCL")
    d.close()


CHILD = """
import os, sys, dlbuf
dlbuf.Device("opencl:0")
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    dlbuf.Device("opencl:0")
except dlbuf.Error as e:
    os._exit(0 if "works in no child" in str(e) else 2)
os._exit(3)
"""


@case
def opencl_in_a_child():
    device().close()
    status = subprocess.run([sys.executable, "-c", CHILD], env=os.environ,
                            timeout=300).returncode
    assert status == 0, status
