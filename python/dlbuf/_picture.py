# SPDX-License-Identifier: MIT
"""A frame as a PNG file, by nothing but the standard library."""

from __future__ import annotations

import struct
import zlib

from ._dlbuf import Tensor
from ._errors import UnsupportedError
from ._frames import TensorFrame
from ._producers import find_format, from_frame
from ._types import Colour, FormatInfo, View

_LIMITED, _FULL = 1, 2
# Colour.matrix -> the weights of red and blue in luma; otherwise those of BT.601.
_WEIGHTS = {2: (0.2126, 0.0722), 8: (0.212, 0.087), 10: (0.2627, 0.0593),
            11: (0.2627, 0.0593)}
_ROUND, _BIAS = 1 << 15, 1024
_CLAMP = bytes(_BIAS) + bytes(range(256)) + b"\xff" * _BIAS


def png(width: int, height: int, pixels: bytes) -> bytes:
    """Rows of one byte (grey) or three (R, G, B) a pixel -> a PNG file."""
    pitch = len(pixels) // height
    # Each row begins with its filter, 0: none.
    rows = b"".join(b"\0" + pixels[i:i + pitch]
                    for i in range(0, pitch * height, pitch))

    def chunk(name: bytes, data: bytes) -> bytes:
        return (struct.pack(">I", len(data)) + name + data +
                struct.pack(">I", zlib.crc32(name + data)))

    head = struct.pack(">IIBBBBB", width, height, 8, 2 if pitch > width else 0,
                       0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) +
            chunk(b"IDAT", zlib.compress(rows, 3)) + chunk(b"IEND", b""))


def _bytes(tensor: Tensor, info: FormatInfo) -> bytes:
    """The values of a component, each with its highest 8 bits."""
    data = memoryview(tensor).tobytes()
    shift = info.depth + info.shift - 8
    if info.dtype == "uint8":
        return data
    return bytes([v >> shift & 255 for v in memoryview(data).cast("H")])


def _tables(colour: Colour) -> list[list[int]]:
    """Fixed point: luma, then V in red, U and V in green, U in blue."""
    kr, kb = _WEIGHTS.get(colour.matrix, (0.299, 0.114))
    full = colour.range == _FULL
    luma, chroma = (1.0, 1.0) if full else (255 / 219, 255 / 224)
    kg = 1 - kr - kb

    def table(zero: int, factor: float, add: int = 0) -> list[int]:
        return [round((i - zero) * factor * 65536) + add for i in range(256)]

    return [table(0 if full else 16, luma, (_BIAS << 16) + _ROUND),
            table(128, 2 * (1 - kr) * chroma),
            table(128, -2 * (1 - kb) * kb / kg * chroma),
            table(128, -2 * (1 - kr) * kr / kg * chroma),
            table(128, 2 * (1 - kb) * chroma)]


def _wide(row: bytes, table: list[int], width: int) -> list[int]:
    """A row of chroma through a table, and each value as often as it counts."""
    values = [table[v] for v in row]
    times = -(-width // len(row))
    return values if times == 1 else [v for v in values
                                      for _ in range(times)][:width]


def _from_yuv(parts: list[bytes], shapes: list[tuple[int, ...]],
              colour: Colour) -> bytes:
    luma, rv, gu, gv, bu = _tables(colour)
    (height, width), (rows, columns) = shapes[0], shapes[1]
    times = -(-height // rows)
    out = bytearray(3 * width)
    picture: list[bytes] = []
    for y in range(height):
        at = y // times * columns
        u, v = (part[at:at + columns] for part in parts[1:])
        grey = [luma[i] for i in parts[0][y * width:(y + 1) * width]]
        for i, add in enumerate((
                _wide(v, rv, width),
                map(int.__add__, _wide(u, gu, width), _wide(v, gv, width)),
                _wide(u, bu, width))):
            out[i::3] = bytes([_CLAMP[a + b >> 16] for a, b in zip(grey, add)])
        picture.append(bytes(out))
    return b"".join(picture)


def frame_png(frame: TensorFrame) -> bytes:
    """The picture of a frame in use: RGB as it is, YCbCr converted with the
    colours that the frame reports, other single values as grey.

    Formats without a tensor for each component (MJPEG, Bayer) raise
    UnsupportedError.
    """
    f = frame.info
    info = find_format(f.code, f.space)[0]
    if View.COMPONENTS not in info.views or info.dtype not in ("uint8", "uint16"):
        raise UnsupportedError(95, f"{f.format} cannot be drawn here: "
                               f"{info.reason or 'its values are no components'}"
                               "; dmabuf-test camera --png draws more formats")
    tensors = from_frame(f.planes, f.width, f.height, f.code, space=f.space,
                         view=View.COMPONENTS, crop=f.crop, access="read")
    letters = [c for c in dict.fromkeys(info.channels) if c not in ",X"]
    parts = dict(zip(letters, tensors))
    wanted = next((w for w in ("RGB", "YUV") if set(w) <= set(parts)), letters[0])
    chosen = [parts[c] for c in wanted]
    values = [_bytes(t, info) for t in chosen]
    height, width = chosen[0].shape
    if wanted == "YUV":
        pixels = _from_yuv(values, [t.shape for t in chosen], f.colour)
    else:
        rgb = bytearray(len(values) * width * height)
        for i, value in enumerate(values):
            rgb[i::len(values)] = value
        pixels = bytes(rgb)
    for tensor in tensors:
        tensor.close()
    return png(width, height, pixels)
