# SPDX-License-Identifier: MIT
"""Compares what `dmabuf-test camera --format all --save DIR --json=REPORT` left with what others make of it.

    convert.py REPORT DIR NODE

Of each format the picture that the tool drew of its tensors is compared, pixel by pixel, with

- the same pattern as the camera draws it in RGB3 itself, as far as the format's bits go;
- what FFmpeg's swscale makes of the camera's bytes, if it knows the format; for HSV Python's colorsys instead;

and the camera's bytes with those of another frame, which read(2) gives, where the node has one plane a buffer. The
pattern stands still. Where its colour changes conversions differ in how they smooth chroma, so only pixels whose
neighbours are like them count. Prints a line per format, and each thing that is wrong; exit status 1 when there is one.
"""
import colorsys
import ctypes
import fcntl
import json
import os
import struct
import sys

import numpy as np

import look

wrong = []

# swscale's names of V4L2's formats, if they are not the codes' names in lower case.
SWSCALE = {
    "YUYV": "yuyv422", "UYVY": "uyvy422", "YVYU": "yvyu422", "422P": "yuv422p", "YM16": "yuv422p", "YM24": "yuv444p",
    "YV12": "yuv420p", "YM21": "yuv420p", "YM61": "yuv422p", "YM42": "yuv444p",
    "YU12": "yuv420p", "YM12": "yuv420p", "NV12": "nv12", "NV21": "nv21", "NV16": "nv16", "NV24": "nv24", "NV42": "nv42",
    "NM12": "nv12", "NM21": "nv21", "NM16": "nv16", "AYUV": "ayuv", "VUYA": "vuya", "VUYX": "vuyx",
    "GREY": "gray", "Y10": "gray10le", "Y12": "gray12le", "Y16": "gray16le", "Y16-BE": "gray16be",
    "RGB1": "rgb8", "RGBP": "rgb565le", "RGBR": "rgb565be",
    "R444": "rgb444le", "XR12": "rgb444le", "AR12": "rgb444le", "XB12": "bgr444le", "AB12": "bgr444le",
    "RGBO": "rgb555le", "XR15": "rgb555le", "AR15": "rgb555le", "XB15": "bgr555le", "AB15": "bgr555le",
    "RGBQ": "rgb555be", "XR15-BE": "rgb555be", "AR15-BE": "rgb555be",
    "RGB3": "rgb24", "BGR3": "bgr24", "RGB4": "0rgb", "BX24": "0rgb", "BA24": "argb", "BGR4": "bgr0", "XR24": "bgr0",
    "AR24": "bgra", "XB24": "rgb0", "AB24": "rgba", "RX24": "0bgr", "RA24": "abgr",
    "BA81": "bayer_bggr8", "GBRG": "bayer_gbrg8", "GRBG": "bayer_grbg8", "RGGB": "bayer_rggb8",
    "BYR2": "bayer_bggr16le", "GB16": "bayer_gbrg16le", "GR16": "bayer_grbg16le", "RG16": "bayer_rggb16le",
    # Values of the following formats are shifted up to 16 bits first.
    "BG10": "bayer_bggr16le", "GB10": "bayer_gbrg16le", "BA10": "bayer_grbg16le", "RG10": "bayer_rggb16le",
    "BG12": "bayer_bggr16le", "GB12": "bayer_gbrg16le", "BA12": "bayer_grbg16le", "RG12": "bayer_rggb16le",
}
# V before U.
SWAPPED = ("YV12", "YM21", "YM61", "YM42")
SHIFT = {c: 6 for c in ("BG10", "GB10", "BA10", "RG10")} | {c: 4 for c in ("BG12", "GB12", "BA12", "RG12")}
# Planes in one buffer or in several: bytes of a row to those of the first, and lines of the picture to one of its own.
PLANES = {"nv12": [(1, 1), (1, 2)], "nv21": [(1, 1), (1, 2)], "nv16": [(1, 1), (1, 1)], "nv24": [(1, 1), (2, 1)],
          "nv42": [(1, 1), (2, 1)], "yuv420p": [(1, 1), (.5, 2), (.5, 2)], "yuv422p": [(1, 1), (.5, 1), (.5, 1)],
          "yuv444p": [(1, 1), (1, 1), (1, 1)]}

# How far a channel may be from the camera's RGB, where that is more than rounding: what the format's bits cannot say.
COARSE = {"RGB1": 86, "YUVO": 24, "YUVP": 24, "Y444": 56} | {
    c: 17 for c in ("R444", "XR12", "AR12", "RX12", "RA12", "XB12", "AB12", "BX12", "GA12")} | {
    c: 9 for c in ("RGBO", "XR15", "AR15", "RX15", "RA15", "XB15", "AB15", "BX15", "BA15", "RGBQ", "XR15-BE", "AR15-BE",
                   "RGBP", "RGBR")} | {"BGRH": 5, "HSV3": 11, "HSV4": 11}
ROUNDING = 5
GREY = ("GREY", "Y10", "Y12", "Y16", "Y16-BE")


class Swscale:
    def __init__(self):
        self.util = ctypes.CDLL("libavutil.so.59")
        self.sws = ctypes.CDLL("libswscale.so.8")
        self.sws.sws_getContext.restype = ctypes.c_void_p
        self.sws.sws_getCoefficients.restype = ctypes.c_void_p

    def knows(self, name):
        fmt = self.util.av_get_pix_fmt(name.encode())
        return fmt >= 0 and bool(self.sws.sws_isSupportedInput(fmt))

    def rgb(self, name, width, height, planes, full):
        src, dst = (self.util.av_get_pix_fmt(n.encode()) for n in (name, "rgb24"))
        # Nearest neighbours; chroma at full resolution, rounded well.
        ctx = ctypes.c_void_p(self.sws.sws_getContext(width, height, src, width, height, dst,
                                                      0x10 | 0x2000 | 0x4000 | 0x40000, None, None, None))
        table = ctypes.c_void_p(self.sws.sws_getCoefficients(5))  # ITU-R BT.601
        self.sws.sws_setColorspaceDetails(ctx, table, int(full), table, 1, 0, 1 << 16, 1 << 16)
        out = np.zeros((height, width, 3), np.uint8)
        keep = [np.frombuffer(data, np.uint8) for data, _ in planes]
        data = (ctypes.c_void_p * 4)(*[k.ctypes.data for k in keep])
        pitch = (ctypes.c_int * 4)(*[p for _, p in planes])
        self.sws.sws_scale(ctx, data, pitch, 0, height, (ctypes.c_void_p * 4)(out.ctypes.data),
                           (ctypes.c_int * 4)(out.strides[0]))
        self.sws.sws_freeContext(ctx)
        return out


def split(camera, raw, name):
    """The planes' bytes, each with its pitch: wherever the camera says they are."""
    shape = PLANES.get(name, [(1, 1)])
    pitch, height = camera["pitch"], camera["height"]
    planes, at = [], 0
    if len(camera["size"]) == 1:
        at = camera["data_offset"][0]
        for bytes_, lines in shape:
            p, rows = int(pitch[0] * bytes_), -(-height // lines)
            planes.append((raw[at:at + p * rows], p))
            at += p * rows
        return planes
    for size, p, offset in zip(camera["size"], pitch, camera["data_offset"]):
        planes.append((raw[at + offset:at + size], p))
        at += size
    return planes


def picture(path):
    width, height, step, rows = look.png(path)
    image = np.array([np.frombuffer(bytes(r), np.uint8) for r in rows]).reshape(height, width, step)
    return image.repeat(3, 2) if step == 1 else image


def flat(image):
    """The places at which a pixel equals those around it."""
    around = 4
    image = np.pad(image.astype(int), ((around, around), (around, around), (0, 0)), mode="edge")
    height, width = image.shape[0] - 2 * around, image.shape[1] - 2 * around
    middle = image[around:around + height, around:around + width]
    same = np.ones((height, width), bool)
    for dy in range(2 * around + 1):
        for dx in range(2 * around + 1):
            same &= (abs(image[dy:dy + height, dx:dx + width] - middle) <= 1).all(2)
    return same


def compare(code, what, found, expected, where, tolerance):
    distance = abs(found.astype(int) - expected.astype(int)).max(2)
    distance[~where] = 0
    worst = distance.max()
    if worst > tolerance:
        y, x = np.unravel_index(distance.argmax(), distance.shape)
        wrong.append(f"{code}: pixel {x},{y} is {found[y, x].tolist()}, {what} has {expected[y, x].tolist()}")
    return f"{what} within {worst}"


def hsv(camera, raw):
    step = 3 if camera["code"] == "HSV3" else 4
    rows = np.frombuffer(raw, np.uint8)[camera["data_offset"][0]:][:camera["pitch"][0] * camera["height"]]
    values = rows.reshape(camera["height"], camera["pitch"][0])[:, :camera["width"] * step]
    values = values.reshape(camera["height"], camera["width"], step)[:, :, step - 3:]
    # V4L2_HSV_ENC_180
    steps = 180 if camera["ycbcr_enc"] == 128 else 256
    colours = {tuple(v): colorsys.hsv_to_rgb(v[0] / steps, v[1] / 255, v[2] / 255)
               for v in np.unique(values.reshape(-1, 3), axis=0).tolist()}
    flat_ = [colours[tuple(v)] for v in values.reshape(-1, 3).tolist()]
    return (np.array(flat_) * 255 + .5).astype(np.uint8).reshape(values.shape)


def read_frame(node, camera, fourcc):
    """A frame by read(2), of which nothing of dlbuf's knows; None in the multi-planar mode."""
    fd = os.open(node, os.O_RDWR)
    try:
        fmt = bytearray(208)
        struct.pack_into("<I4xIII", fmt, 0, 1, camera["width"], camera["height"], fourcc)
        fcntl.ioctl(fd, 0xc0d05605, fmt)  # VIDIOC_S_FMT
        return os.read(fd, camera["size"][0])
    finally:
        os.close(fd)


def fourcc_of(code):
    text, _, be = code.partition("-")
    return int.from_bytes(text.ljust(4).encode(), "little") | (0x80000000 if be else 0)


def main(report, folder, node):
    sws = Swscale()
    formats = json.loads(look.read(report))["formats"]
    load = lambda code: open(os.path.join(folder, code + ".raw"), "rb").read()
    [rgb] = [f for f in formats if f["code"] == "RGB3"]
    reference = np.frombuffer(load("RGB3")[:rgb["camera"]["size"][0]], np.uint8)
    reference = reference.reshape(rgb["camera"]["height"], -1)[:, :rgb["camera"]["width"] * 3]
    reference = reference.reshape(rgb["camera"]["height"], rgb["camera"]["width"], 3)
    inside = flat(reference)
    # A pattern without areas would let everything pass.
    look.same("flat pixels, enough of them", bool(inside.mean() > .2), True)
    look.same("colours of the pattern, enough of them", len(np.unique(reference[inside], axis=0)) >= 8, True)
    luma = (reference @ [0.2126, 0.7152, 0.0722] + .5).astype(np.uint8)[:, :, None].repeat(3, 2)
    alone, lines = [], []
    for f in formats:
        code, camera = f["code"], f["camera"]
        raw, found = load(code), picture(os.path.join(folder, code + ".png"))
        said = [compare(code, "vivid's RGB3", found, luma if code in GREY else reference, inside,
                        COARSE.get(code, ROUNDING))]
        name = SWSCALE.get(code, code.lower())
        if code.startswith("HSV"):
            said.append(compare(code, "colorsys", found, hsv(camera, raw), inside, 1))
        elif sws.knows(name):
            planes = split(camera, raw, name)
            if code in SWAPPED:
                planes[1:] = planes[:0:-1]
            if code in SHIFT:
                planes = [((np.frombuffer(p, np.uint16) << SHIFT[code]).tobytes(), n) for p, n in planes]
            expected = sws.rgb(name, camera["width"], camera["height"], planes, code in GREY)
            said.append(compare(code, "swscale", found, expected, inside, COARSE.get(code, ROUNDING)))
        else:
            alone.append(code)
        if not camera["multiplanar"]:
            again = read_frame(node, camera, fourcc_of(code))
            if again != raw[:len(again)] or len(again) < camera["size"][0]:
                wrong.append(f"{code}: read(2) gives other bytes than the camera's mapping")
            said.append("read() the same")
        lines.append(f"{code:8}{'; '.join(said)}")
    # First: a reader of only the beginning sees the result.
    for line in wrong + look.wrong:
        print("wrong:", line)
    print(f"{len(formats)} formats; that neither swscale nor colorsys knows, and vivid's own RGB is the measure of: "
          f"{' '.join(alone)}")
    for line in lines:
        print(line)
    return bool(wrong + look.wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
