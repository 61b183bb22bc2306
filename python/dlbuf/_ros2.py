# SPDX-License-Identifier: MIT
"""Frames as messages of ROS 2, sensor_msgs/msg/Image, for subscribers that use rmw_zenoh_cpp.

The keys and the liveliness tokens are those of rmw_zenoh_cpp, the attachment that of its version
0.2.4, the fields and encodings those of ros2/common_interfaces, the bytes those of CDR (DDS-RTPS,
10.2). docs/network.md says where they were looked up.
"""

from __future__ import annotations

import os
import re
import struct
import time
from typing import Any

from ._errors import InvalidError, UnsupportedError
from ._producers import find_format
from ._types import Clock, Frame, View

_EINVAL, _EOPNOTSUPP = 22, 95
ENCODING = "application/cdr"
# The hash of the type's description, REP 2016.
_TYPE = ("sensor_msgs::msg::dds_::Image_/"
         "RIHS01_d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47")
# Reliable, volatile, and the last 42: what rmw_zenoh_cpp does not write.
_QOS = "::,:,:,:,,"
# In rmw_zenoh_cpp's tokens it replaces a slash.
_SLASH = "%"
_TOPIC = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
_MAX_NAME = 255
_MAX_DOMAIN = 232
_ATTACHMENT = struct.Struct("<qqB16s")
# Before any number or string of CDR: little-endian, no options.
_CDR_LE = b"\0\1\0\0"

# The channels in memory and their type select a name of image_encodings.hpp. YUYV and UYVY have
# their older names, which all releases know.
_ENCODINGS = {
    ("R", "uint8"): "mono8", ("Y", "uint8"): "mono8",
    ("R", "uint16"): "mono16", ("Y", "uint16"): "mono16", ("Z", "uint16"): "16UC1",
    ("RGB", "uint8"): "rgb8", ("BGR", "uint8"): "bgr8",
    ("RGBA", "uint8"): "rgba8", ("BGRA", "uint8"): "bgra8",
    ("RGB", "uint16"): "rgb16", ("BGR", "uint16"): "bgr16",
    ("RGBA", "uint16"): "rgba16", ("BGRA", "uint16"): "bgra16",
    ("YUYV", "uint8"): "yuv422_yuy2", ("UYVY", "uint8"): "yuv422",
    ("Y,UV", "uint8"): "nv12", ("Y,VU", "uint8"): "nv21",
    **{(f"{p[:2]}/{p[2:]}".upper(), f"uint{bits}"): f"bayer_{p}{bits}"
       for p in ("rggb", "bggr", "gbrg", "grbg") for bits in (8, 16)},
}


def check_frame_id(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"ros2 is the frame_id of the messages, a str, not {value!r}")
    if len(value.encode()) > _MAX_NAME or "\0" in value:
        raise InvalidError(_EINVAL, f"a frame_id has at most {_MAX_NAME} bytes and no 0 in it, "
                           f"not {value[:80]!r}")
    return value


def _domain() -> int:
    text = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not (text.isdecimal() and text.isascii() and int(text) <= _MAX_DOMAIN):
        raise InvalidError(_EINVAL, f"ROS_DOMAIN_ID is a number up to {_MAX_DOMAIN}, "
                           f"not {text[:80]!r}")
    return int(text)


def key_of(topic: Any) -> str:
    """The key of a topic's images, in the domain that the environment says."""
    if not (isinstance(topic, str) and len(topic) <= _MAX_NAME and _TOPIC.fullmatch(topic)):
        raise InvalidError(_EINVAL, "with ros2 the key is the full name of a topic, as "
                           f"\"/camera/image_raw\", not {str(topic)[:80]!r}")
    return f"{_domain()}/{topic.removeprefix('/')}/{_TYPE}"


def tokens(key: str, session: str, publisher: int) -> list[str]:
    """The keys of the liveliness tokens that show a node and its publisher to ROS 2."""
    domain, _, rest = key.partition("/")
    topic = "/" + rest.removesuffix("/" + _TYPE)
    # A context and a node of their own, in the root of enclaves and namespaces.
    node = f"{_SLASH}/{_SLASH}/dlbuf_{publisher:016x}"
    start = f"@ros2_lv/{domain}/{session}"
    return [f"{start}/{publisher}/{publisher}/NN/{node}",
            f"{start}/{publisher}/{publisher + 1}/MP/{node}/{topic.replace('/', _SLASH)}/"
            f"{_TYPE}/{_QOS}"]


def attachment(number: int, publisher: int) -> bytes:
    """number: of the message, from 0."""
    return _ATTACHMENT.pack(number + 1, time.time_ns(), 16, publisher.to_bytes(16, "little"))


def encoding_of(frame: Frame) -> str:
    """sensor_msgs's name of the format; raises UnsupportedError if it has none."""
    info = find_format(frame.code, frame.space, frame.modifier)[0]
    name = _ENCODINGS.get((info.channels, info.dtype))
    # NV16 and NV24 have the channels of NV12, and A-law those of plain Bayer.
    if View.PLANES not in info.views or name is None or any(
            (p.hsub, p.vsub) != (2, 2) for p in info.planes[1:]) or \
            "ALAW" in (info.v4l2_name or ""):
        raise UnsupportedError(_EOPNOTSUPP, "sensor_msgs/Image has no name for the format "
                               f"{frame.format}")
    if len(info.planes) > 1 and (frame.width % 2 or frame.height % 2):
        raise UnsupportedError(_EOPNOTSUPP, f"sensor_msgs/Image has no {name} of "
                               f"{frame.width}x{frame.height}: both are even")
    return name


def _string(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<I", len(data)) + data


def image_head(frame: Frame, frame_id: str, encoding: str, step: int, size: int) -> bytes:
    """The message up to its data: size bytes of rows with step bytes each. The time is the
    frame's if it is one of a calendar, else now."""
    ns = frame.timestamp_ns
    if ns is None or frame.clock != Clock.REALTIME:
        ns = time.time_ns()
    seconds, nanoseconds = divmod(ns, 1_000_000_000)
    if not -1 << 31 <= seconds < 1 << 31:
        raise InvalidError(_EINVAL, f"sensor_msgs/Image has no time of {seconds} seconds")
    data = struct.pack("<iI", seconds, nanoseconds) + _string(frame_id)
    data += bytes(-len(data) % 4) + struct.pack("<II", frame.height, frame.width)
    data += _string(encoding) + b"\0"       # is_bigendian
    return _CDR_LE + data + bytes(-len(data) % 4) + struct.pack("<II", step, size)
