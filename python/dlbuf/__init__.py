# SPDX-License-Identifier: MIT
"""DLPack tensors around Linux DMA-BUF file descriptors.

    import dlbuf, torch
    t = torch.from_dlpack(dlbuf.from_fd(fd, (1080, 1920, 3), "uint8"))

Producers: from_fd(), from_frame(), alloc(), Camera, recv(). Consumers of whatever
has memory: from_dlpack(), asdlpack(), wrap(); share() by address. Each gives a
Tensor, which any library with DLPack, the buffer protocol or NumPy's array
interface takes, without a copy. exchange() makes a tensor of another library's
class of it, without a Python call. export() is the other way round: a dma-buf of
memory that a device's own API has allocated.

What is handed to such a library is ordered after the fences of the dma-buf by
the call, and the access ends when the library deletes what it took. Inside
`with tensor:`, or between acquire() and release(), the order is the caller's.
"""

from ._camera import Camera
from ._consumers import asdlpack, from_dlpack
from ._dlbuf import Device, Tensor, exchange, from_fd, version
from ._errors import (AccessError, ClosedError, DeadlineError, Error,
                      InvalidError, UnsupportedError, WouldBlockError)
from ._export import Exported, export
from ._frames import TensorFrame
from ._producers import (alloc, devices, exporters, find_format, formats,
                         from_frame)
from ._protocols import CanDLPack, CanDLPackDevice
from ._socket import recv, send
from ._types import (MOD_INVALID, MOD_LINEAR, Access, Clock, CodeSpace, Colour,
                     DeviceInfo, DeviceStats, DLDataTypeCode, DLDeviceType,
                     Field, FormatInfo, FormatPlane, Frame, Order, PathInfo,
                     Plane, View)
from ._wrap import share, wrap

# The version of DLPack that tensors are written in.
DLPACK_VERSION = (1, 3)

__version__ = version()

__all__ = [
    "Access", "AccessError", "Camera", "CanDLPack", "CanDLPackDevice", "Clock",
    "ClosedError", "CodeSpace", "Colour", "DLDataTypeCode", "DLDeviceType",
    "DLPACK_VERSION", "DeadlineError", "Device", "DeviceInfo", "DeviceStats",
    "Error", "Exported", "Field", "FormatInfo", "FormatPlane", "Frame",
    "InvalidError", "MOD_INVALID", "MOD_LINEAR", "Order", "PathInfo", "Plane",
    "Tensor", "TensorFrame", "UnsupportedError", "View", "WouldBlockError",
    "alloc", "asdlpack", "devices", "exchange", "export", "exporters",
    "find_format", "formats", "from_dlpack", "from_fd", "from_frame", "recv",
    "send", "share", "version", "wrap",
]
