# SPDX-License-Identifier: MIT
"""For mypy and pyright, in strict mode: never run."""

import os
from typing import Any

import numpy as np
from typing_extensions import assert_type

import dlbuf
import dlbuf.zenoh
from dlbuf import (Access, CanDLPack, CanDLPackDevice, Device, DLDeviceType,
                   DType, Exported, Frame, PathInfo, Tensor, TensorFrame)


Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def consumer(x: CanDLPack[int, int]) -> None: ...


def where(x: CanDLPackDevice) -> None: ...


def wide(x: CanDLPackDevice[DLDeviceType]) -> CanDLPackDevice[int]:
    """Covariant: a device of DLDeviceType is one of int. int is the default."""
    where(x)
    return x


async def awaits(camera: dlbuf.Camera) -> None:
    assert_type(await camera.frame(timeout=None), TensorFrame)
    async for frame in camera:
        assert_type(frame, TensorFrame)


def uses(fd: int, other: Any, array: Array) -> None:
    t = dlbuf.from_fd(fd, (1080, 1920, 3), "uint8", device="vulkan:0")
    assert_type(t, Tensor)
    consumer(t)
    where(t)
    assert_type(t.shape, tuple[int, ...])
    assert_type(t.frame, Frame | Any)
    os.dup(t.fd)
    assert_type(t.fd is None, bool)
    assert_type(dlbuf.alloc(16, "uint8"), Tensor)
    assert_type(dlbuf.alloc(16, "uint8", ["cpu", "vulkan:0"]), list[Tensor])
    assert_type(dlbuf.from_dlpack(other, copy=True), Tensor)
    assert_type(t.release(fence=True), int | None)
    with t as u:
        assert_type(u, Tensor)
        memoryview(u)
    with dlbuf.Device("cpu") as d:
        assert_type(d.stats().tensors, int)
    with dlbuf.Device("cuda:0", bridge=False) as d:
        assert_type(d.paths(), list[PathInfo])
        assert_type(d.paths(fd, access="read")[0].reason, str)
    assert_type(Device.wrap_cuda(4096, max_idle=4), Device)
    assert_type(Device.wrap_opencl(4096, queue=1), Device)
    assert_type(Device.wrap_gles(4096), Device)
    assert_type(Device.wrap_levelzero(4096, 1), Device)
    assert_type(Device.wrap_vpi(fd), Device)
    t.vpi_send("in", deadline=1.5)
    assert_type(Device("opencl:0").opencl, tuple[int, int, int, int])
    assert_type(dlbuf.from_fd(fd, 16, "uint8", may_copy=True), Tensor)
    with dlbuf.export(other, pcie=True, device=d) as e:
        assert_type(e, Exported)
        assert_type((e.fd, e.offset, e.bytes), tuple[int, int, int])
        dlbuf.from_fd(e, e.bytes, "uint8")
    t.__dlpack__(dl_device=(DLDeviceType.CPU, 0), max_version=(1, 3))
    with dlbuf.Camera("/dev/video0", size=(640, 480), view="luma") as camera:
        for frame in camera:
            assert_type(frame, TensorFrame)
            y, uv = frame
            assert_type(y, Tensor)
            assert_type(frame.timestamp, float | None)
            assert_type(frame.info, Frame)
            dlbuf.send(fd, frame)
            dlbuf.send(fd, [y, uv])
            with frame.planes("read") as planes:
                assert_type(planes, tuple[Tensor, ...])
    with dlbuf.Camera(0, size="640x480", crop=(0, 0, 8, 8), drop=True) as camera:
        assert_type(camera.controls["brightness"], Any)
        camera.controls["brightness"] = 5
        camera.controls.brightness = 5
        assert_type(camera.controls.info("hue"), dlbuf.ControlInfo)
        assert_type(camera.formats[0].sizes[0].fps, tuple[float, ...])
    assert_type(dlbuf.cameras()[0].formats, list[dlbuf.CameraFormat])
    for got_one in dlbuf.zenoh.subscribe("key", pool=2, view="luma"):
        assert_type(got_one.prepared, dlbuf.PrepareInfo | None)
    assert_type(dlbuf.zenoh.publish(camera, "key", prepare=dlbuf.Preparer("yolo")).sent, int)
    got = dlbuf.recv(fd, access="read")
    assert_type(got, Tensor | list[Tensor] | TensorFrame)
    assert_type(dlbuf.recv_tensor(fd, keep=True), Tensor)
    with dlbuf.recv_frame(fd, view="luma") as frame:
        assert_type(frame, TensorFrame)
    either: Tensor | bytes = t if fd else b""
    if isinstance(either, CanDLPack):
        assert_type(either, Tensor)
    for y in dlbuf.from_frame([(fd, 8)], 8, 4, "NV12", view="luma"):
        assert_type(y.dtype, DType)
    assert_type(t[1:, None, ..., 0].T.reshape(-1).reshape((2, 3)), Tensor)
    assert_type(list(t.permute(1, 0).transpose().squeeze(0)), list[Tensor])
    assert_type(dlbuf.dtype("u1").bits, int)
    assert_type(t.to("cuda:0", may_copy=True).copy(), Tensor)
    assert_type(t.access, Access | None)
    assert_type(dlbuf.wrap(t, reverse=True), Tensor)
    assert_type(dlbuf.wrap(other, lambda x: x), Tensor)
    assert_type(dlbuf.asdlpack(b"abc"), Tensor)
    assert_type(dlbuf.asdlpack(t), Tensor)
    assert_type(dlbuf.asdlpack(array), Array)
    assert_type(dlbuf.share(other, 4096, (2, 3), "uint8", reverse=True,
                            device=(DLDeviceType.CUDA, 0)), Tensor)
    x, info = dlbuf.prepare([other, other], "yolo", format="NV12", size=(320, 320))
    assert_type(x, Tensor)
    assert_type(info, dlbuf.PrepareInfo)
    assert_type(dlbuf.prepare(frame, out=b"", index=1, size="640x480")[0], bytes)
    preparer = dlbuf.Preparer(size=224, fit="crop", mean=(0.5, 0.5, 0.5), filter="cubic")
    assert_type(preparer(frame)[0], Tensor)
    assert_type(dlbuf.prepare(frame, size=8, device=dlbuf.Device("vulkan:0"))[0], Tensor)
    assert_type(dlbuf.Preparer.from_config({}, dtype="float16"), dlbuf.Preparer)
    assert_type(preparer.crops(frame, preparer.tiles(frame, 64))[1], list[dlbuf.PrepareInfo])
