# SPDX-License-Identifier: MIT
"""DLPack tensors around Linux DMA-BUF file descriptors.

    import dlbuf, torch
    t = torch.from_dlpack(dlbuf.from_fd(fd, (1080, 1920, 3), "uint8"))

Each producer gives a Tensor. Any library that supports DLPack, the buffer
protocol or NumPy's array interface takes it without a copy. That call waits for
the fences of the dma-buf, and the access ends when the library deletes what it
took. Inside `with tensor:`, or between acquire() and release(), the program
controls the order. The examples in the docstrings assume `import dlbuf`.

Make tensors of dma-bufs
    from_fd, from_frame, alloc
Cameras
    Camera, TensorFrame, cameras, CameraInfo, CameraFormat, FrameSize, Controls,
    ControlInfo, ControlFlag
A model's input
    prepare, Preparer, PrepareInfo, PrepareOptions, Trial
Other processes
    send, recv, recv_tensor, recv_frame; the module dlbuf.multiprocessing
Other libraries' memory
    from_dlpack, asdlpack, wrap, share, exchange, export, Exported
This machine and this build
    Device, devices, exporters, formats, find_format, version, DLPACK_VERSION
The tensor, and the type of its elements
    Tensor, DType, dtype
Enums
    Access, Clock, CodeSpace, DLDataTypeCode, DLDeviceType, Field, Order,
    Orientation, View, and the modifiers MOD_LINEAR (rows one after another) and MOD_INVALID (the
    producer did not say)
Records
    Colour, DLDevice, DeviceInfo, DeviceStats, FormatInfo, FormatPlane, Frame,
    PathInfo, Plane
Errors
    Error, AccessError, ClosedError, DeadlineError, InvalidError,
    UnsupportedError, WouldBlockError
Types for annotations
    CanDLPack, CanDLPackCompat, CanDLPackDevice
"""

try:
    from . import _dlbuf as _dlbuf
except ImportError as _e:
    # In Python's words from 3.12 on, else in those of the extension.
    if "interpreter" not in str(_e):
        raise
    raise ImportError(
        "dlbuf works in the main interpreter only, and this is a subinterpreter: "
        "import dlbuf in the main one, and share memoryview(tensor) from there "
        "(Python 3.13 and later), or use a thread, or a process with "
        "dlbuf.multiprocessing", name="dlbuf") from None
from ._camera import Camera, cameras
from ._consumers import asdlpack, from_dlpack
from ._dlbuf import Device, Tensor, exchange, from_fd, version
from ._errors import (AccessError, ClosedError, DeadlineError, Error,
                      InvalidError, UnsupportedError, WouldBlockError)
from ._export import Exported, export
from ._frames import TensorFrame
from ._prepare import PrepareInfo, PrepareOptions, Preparer, Trial, prepare
from ._producers import (alloc, devices, exporters, find_format, formats,
                         from_frame)
from ._protocols import CanDLPack, CanDLPackCompat, CanDLPackDevice
from ._socket import recv, recv_frame, recv_tensor, send
from . import _tensor as _tensor
from ._types import (MOD_INVALID, MOD_LINEAR, Access, Clock, CodeSpace, Colour,
                     DeviceInfo, DeviceStats, DLDataTypeCode, DLDevice,
                     DLDeviceType, DType, Field, FormatInfo, FormatPlane, Frame,
                     Order, Orientation, PathInfo, Plane, View, dtype)
from ._v4l2 import (CameraFormat, CameraInfo, ControlFlag, ControlInfo,
                    Controls, FrameSize)
from ._wrap import share, wrap

# The version of DLPack that tensors are written in.
DLPACK_VERSION = (1, 3)

__version__ = version()

__all__ = [
    "Access", "AccessError", "Camera", "CameraFormat", "CameraInfo", "CanDLPack",
    "CanDLPackCompat", "CanDLPackDevice", "Clock", "ClosedError", "CodeSpace",
    "Colour", "ControlFlag", "ControlInfo", "Controls", "DLDataTypeCode",
    "DLDevice", "DLDeviceType", "DType", "FrameSize", "cameras",
    "DLPACK_VERSION", "DeadlineError", "Device", "DeviceInfo", "DeviceStats",
    "Error", "Exported", "Field", "FormatInfo", "FormatPlane", "Frame",
    "InvalidError", "MOD_INVALID", "MOD_LINEAR", "Order", "Orientation", "PathInfo", "Plane",
    "PrepareInfo", "PrepareOptions", "Preparer", "Tensor", "TensorFrame", "Trial",
    "UnsupportedError", "View", "WouldBlockError",
    "alloc", "asdlpack", "devices", "dtype", "exchange", "export", "exporters",
    "find_format", "formats", "from_dlpack", "from_fd", "from_frame", "prepare",
    "recv",
    "recv_frame", "recv_tensor", "send", "share", "version", "wrap",
]
