# SPDX-License-Identifier: MIT
"""Tensors on OpenCL, with the drivers of the guest (PoCL), and on HIP and Level Zero with
doubles of their drivers, which lie beside CUDA_DOUBLE: for the lab."""

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
    """Camera, OpenCL, NumPy: only the device copies each plane."""
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
                            timeout=600).returncode
    assert status == 0, status


DOUBLE = """
import sys, numpy as np, dlbuf
name, number = sys.argv[1], int(sys.argv[2])
d = dlbuf.Device(name)
a, b = dlbuf.alloc((4, 6), "uint8", [d, "cpu"])
assert a.__dlpack_device__() == (number, 0) and not a.is_copied, a.path
np.asarray(b)[:] = 7
host = np.from_dlpack(a, device="cpu")
assert host.sum() == 7 * 24, host
for stream in (1, 2, -2, None) + ((0, -1) if number == 10 else ()):
    try:
        a.__dlpack__(stream=stream)
        assert stream in (None, 0, -1), stream
    except ValueError as e:
        assert stream in (1, 2, -2), (stream, e)
del a, b, host
d.close()
"""


def with_double(backend, number):
    cuda = os.environ.get("CUDA_DOUBLE", "")
    double = os.path.join(os.path.dirname(cuda), f"lib{backend}.so")
    if not cuda or not os.path.exists(double):
        raise Skip(f"there is no double of {backend}")
    p = subprocess.run(
        [sys.executable, "-c", DOUBLE, f"{backend}:0", str(number)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
        env={**os.environ, f"DLBUF_{backend.upper()}_LIBRARY": double,
             "DLBUF_VULKAN_LIBRARY": "none"})
    assert not p.returncode, p.stdout


@case
def hip_double():
    with_double("hip", 10)


@case
def levelzero_double():
    with_double("levelzero", 14)
