# SPDX-License-Identifier: MIT
"""For mypy and pyright, in strict mode: never run."""

from typing import Any, assert_type

import dlbuf
from dlbuf import (CanDLPack, CanDLPackDevice, Device, DLDeviceType, Exported,
                   Frame, PathInfo, Tensor, TensorFrame)


def consumer(x: CanDLPack[int, int]) -> None: ...


def where(x: CanDLPackDevice[int, int]) -> None: ...


def uses(fd: int, other: Any) -> None:
    t = dlbuf.from_fd(fd, (1080, 1920, 3), "uint8", device="vulkan:0")
    assert_type(t, Tensor)
    consumer(t)
    where(t)
    assert_type(t.shape, tuple[int, ...])
    assert_type(t.frame, Frame | None)
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
    assert_type(Device.wrap_levelzero(4096, 1), Device)
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
    got = dlbuf.recv(fd, access="read")
    assert_type(got, Tensor | list[Tensor] | TensorFrame)
    for y in dlbuf.from_frame([(fd, 8)], 8, 4, "NV12", view="luma"):
        assert_type(y.dtype, str)
    assert_type(dlbuf.wrap(t, reverse=True), Tensor)
    assert_type(dlbuf.wrap(other, lambda x: x), Tensor)
    assert_type(dlbuf.share(other, 4096, (2, 3), "uint8", reverse=True,
                            device=(DLDeviceType.CUDA, 0)), Tensor)
