# SPDX-License-Identifier: MIT
"""The parts of cameras that need no camera: names, sizes, sentences, the ioctls' layouts."""

import errno
import os
import re
import shutil
import struct
import subprocess
import sys

import pytest

import dlbuf
from dlbuf import CodeSpace, _camera, _producers, _v4l2
from dlbuf import __main__ as command

# GStreamer and FFmpeg name the bytes in memory.
NAMES = [
    ("I420", "Y,U,V", 2, 2), ("yuv420p", "Y,U,V", 2, 2), ("IYUV", "Y,U,V", 2, 2),
    ("YU12", "Y,U,V", 2, 2), ("YV12", "Y,V,U", 2, 2), ("Y42B", "Y,U,V", 2, 1),
    ("yuv422p", "Y,U,V", 2, 1), ("yuv444p", "Y,U,V", 1, 1),
    ("yuv411p", "Y,U,V", 4, 1), ("nv12", "Y,UV", 2, 2), ("NV21", "Y,VU", 2, 2),
    ("P010_10LE", "Y,UV", 2, 2), ("p010le", "Y,UV", 2, 2), ("YUY2", "YUYV", 2, 1),
    ("yuyv422", "YUYV", 2, 1), ("uyvy422", "UYVY", 2, 1), ("v308", "YUV", 1, 1),
    ("RGB", "RGB", 1, 1), ("BGR", "BGR", 1, 1), ("rgb24", "RGB", 1, 1),
    ("bgr24", "BGR", 1, 1), ("RGB3", "RGB", 1, 1), ("BGR3", "BGR", 1, 1),
    ("RGB888", "BGR", 1, 1), ("BGR888", "RGB", 1, 1), ("RGBx", "RGBX", 1, 1),
    ("BGRx", "BGRX", 1, 1), ("xRGB", "XRGB", 1, 1), ("xBGR", "XBGR", 1, 1),
    ("rgb0", "RGBX", 1, 1), ("0bgr", "XBGR", 1, 1), ("RGBA", "RGBA", 1, 1),
    ("BGRA", "BGRA", 1, 1), ("ARGB", "ARGB", 1, 1), ("abgr", "ABGR", 1, 1),
    ("rgb48le", "RGB", 1, 1), ("bgr48le", "BGR", 1, 1), ("GRAY8", "Y", 1, 1),
    ("gray", "Y", 1, 1), ("GREY", "Y", 1, 1), ("Y16 ", "Y", 1, 1),
    ("gray16le", "Y", 1, 1), ("rggb", "RG/GB", 1, 1), ("MJPG", "B", 1, 1),
    ("bayer_bggr8", "BG/GR", 1, 1), ("XR24", "BGRX", 1, 1),
]


@pytest.mark.parametrize("name, channels, hsub, vsub", NAMES)
def test_names(name, channels, hsub, vsub):
    info, code, space = dlbuf.find_format(name)
    assert info.channels == channels
    assert tuple(info.planes[-1][2:]) == (hsub, vsub)
    assert code in (info.drm_code, info.v4l2_code) and space in CodeSpace


def test_names_mean_formats_that_exist():
    for alias, name in _producers._ALIASES.items():
        assert dlbuf.find_format(alias)[0] == dlbuf.find_format(name)[0]
        # No name of a table is hidden by one of others.
        assert not [s for s in CodeSpace if (alias, s) in _producers._all_names()]
    # In a space, the code belongs to that space.
    assert dlbuf.find_format("I420", CodeSpace.V4L2)[1:] == (
        int.from_bytes(b"YU12", "little"), CodeSpace.V4L2)
    assert dlbuf.find_format("BGR", CodeSpace.V4L2)[1] == int.from_bytes(
        b"BGR3", "little")


@pytest.mark.parametrize("name, space, channels", [
    ("AYUV", "DRM", "VUYA"), ("AYUV", "V4L2", "AYUV"), ("AYUV", "gstreamer", "AYUV"),
    ("ayuv", "ffmpeg", "AYUV"), ("Y444", "GStreamer", "Y,U,V"), ("Y444", "V4L2", "W"),
    ("RGBA64_LE", "gstreamer", "RGBA"), ("I422_10LE", None, "Y,U,V"),
    ("RGB15", "gstreamer", "W"), ("rggb10le", None, "RG/GB"),
    ("YUV444", "DRM", "Y,U,V"), ("NV12", "libcamera", "Y,UV"),
])
def test_names_of_a_space(name, space, channels):
    assert dlbuf.find_format(name, space)[0].channels == channels


@pytest.mark.parametrize("name, words", [
    ("I4200", "no format 'I4200'; near it: I420"),
    ("YUYW", "no format 'YUYW'; near it: "), ("qqqqqq", "no format 'qqqqqq'; dlbuf.formats\\(\\) lists"),
    ("RG16", "RG16 is ambiguous, it is RGB565 \\(packed\\) in DRM, SRGGB16 \\(RG/GB\\) in V4L2"),
    ("AYUV", "AYUV is ambiguous, it is AYUV \\(VUYA\\) in DRM, AYUV32 \\(AYUV\\) in GSTREAMER"),
    ("Y444", "ambiguous, it is YUV444 \\(Y,U,V\\) in GSTREAMER, YUV444 \\(packed\\) in V4L2"),
    ("YUV444", "ambiguous"), ("", "no format ''; dlbuf"),
])
def test_no_names(name, words):
    with pytest.raises(ValueError, match=words):
        dlbuf.find_format(name)


@pytest.mark.parametrize("format, letters", [
    ("NV12", ["NV12", "NM12"]), ("NV12M", ["NM12"]), ("I420", ["YU12", "YM12"]),
    ("yuv444p", ["YM24"]), ("YUY2", ["YUYV"]), ("BGR", ["BGR3"]),
    ("BGR888", ["RGB3"]), ("RG16", ["RG16"]), ("Y444", ["Y444"]),
    ("MJPG", ["MJPG"]), (0x47504A4D, ["MJPG"]), ("XRGB8888", ["XR24"]),
])
def test_codes_of_a_camera(format, letters):
    codes = _camera._codes(format)
    assert [c.to_bytes(4, "little").decode() for c in codes] == letters


def test_no_code_of_a_camera():
    with pytest.raises(ValueError, match="V4L2 has no format S010"):
        _camera._codes("S010")


@pytest.mark.parametrize("size", ["640x480", " 640 X 480 ", (640, 480),
                                  [640, 480]])
def test_sizes(size):
    assert _camera.parse_size(size) == (640, 480)


class Number:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


SIZE = "is not a width and a height in pixels"


@pytest.mark.parametrize("wrong, kind, words", [
    ({"node": -1}, ValueError, "there is no camera -1"),
    ({"node": 1.5}, TypeError, "a camera is a number, a path, or a name"),
    ({"node": True}, TypeError, "a camera is a number"),
    ({"node": None}, TypeError, "a camera is a number"),
    ({"node": 99}, OSError, "/dev/video99: there is no such camera"),
    ({"node": Number(99)}, OSError, "/dev/video99: there is no such camera"),
    ({"node": "nonesuch"}, OSError, "there is no camera 'nonesuch'; this"),
    ({"node": ""}, OSError, "there is no camera ''"),
    ({"size": "640x480x"}, ValueError, SIZE), ({"size": "big"}, ValueError, SIZE),
    ({"size": "0x5"}, ValueError, SIZE), ({"size": 640}, ValueError, SIZE),
    ({"size": (640,)}, ValueError, SIZE), ({"size": (1, 2.5)}, ValueError, SIZE),
    ({"size": (1 << 31, 1)}, ValueError, SIZE),
    ({"format": "I4200"}, ValueError, "near it: I420"),
    ({"fps": 0}, ValueError, "0 frames per second"),
    ({"fps": "30"}, ValueError, "'30' frames per second, 0.001 to"),
    ({"fps": float("nan")}, ValueError, "nan frames per second"),
    ({"buffers": 0}, ValueError, "0 buffers, 1 to 32"),
    ({"buffers": "2"}, ValueError, "'2' buffers, 1 to 32"),
    ({"buffers": 2.5}, ValueError, "2.5 buffers, 1 to 32"),
    ({"format": 3.5}, TypeError, "a name or a code, not 3.5"),
    ({"format": 1 << 40}, ValueError, "does not fit 32 bits"),
    ({"format": -1}, ValueError, "does not fit 32 bits"),
    ({"timeout": "1"}, ValueError, "or None, not '1'"),
    ({"timeout": -1}, ValueError, "or None, not -1"),
    ({"timeout": float("nan")}, ValueError, "or None, not nan"),
    ({"access": "q"}, ValueError, 'or "rw", not "q"'),
    ({"access": 1.5}, TypeError, 'or "rw", not 1.5'),
    ({"device": 5}, TypeError, "a device is a Device or a name, not 5"),
    ({"device": "nonesuch"}, ValueError, "no backend is named 'nonesuch'"),
    ({"view": "nonesuch"}, ValueError, "no view 'nonesuch'"),
    ({"crop": (0, 0, 0, 5)}, ValueError, r"is not \(x, y, width, height\)"),
    ({"crop": (-1, 0, 4, 4)}, ValueError, r"is not \(x, y, width, height\)"),
    ({"crop": (1, 2, 3)}, ValueError, r"is not \(x, y, width, height\)"),
    ({"crop": 5}, ValueError, r"is not \(x, y, width, height\)"),
])
def test_sentences(wrong, kind, words):
    with pytest.raises(kind, match=words):
        dlbuf.Camera(**{"node": "/dev/nonesuch", **wrong})


def test_cameras():
    for c in dlbuf.cameras():
        assert c.node.startswith("/dev/video") and bool(c.status) == bool(c.reason)


def test_control_names():
    for title, name in (("Brightness", "brightness"),
                        ("White Balance, Auto & Preset",
                         "white_balance_auto_preset"),
                        ("Exposure Time, Absolute", "exposure_time_absolute"),
                        ("Power Line Frequency", "power_line_frequency")):
        assert _v4l2.control_name(title) == name


STRUCTS = {
    "v4l2_capability": _v4l2.CAPABILITY, "v4l2_fmtdesc": _v4l2.FMTDESC,
    "v4l2_frmsizeenum": _v4l2.FRMSIZEENUM,
    "v4l2_frmivalenum": _v4l2.FRMIVALENUM,
    "v4l2_query_ext_ctrl": _v4l2.QUERY_EXT_CTRL,
    "v4l2_querymenu": _v4l2.QUERYMENU, "v4l2_ext_control": _v4l2.EXT_CONTROL,
    "v4l2_ext_controls": _v4l2.EXT_CONTROLS,
}
IOCTLS = {
    "QUERYCAP": _v4l2.QUERYCAP, "ENUM_FMT": _v4l2.ENUM_FMT,
    "QUERYMENU": _v4l2.QUERY_MENU, "G_EXT_CTRLS": _v4l2.G_EXT_CTRLS,
    "S_EXT_CTRLS": _v4l2.S_EXT_CTRLS, "ENUM_FRAMESIZES": _v4l2.ENUM_FRAMESIZES,
    "ENUM_FRAMEINTERVALS": _v4l2.ENUM_FRAMEINTERVALS,
    "QUERY_EXT_CTRL": _v4l2.QUERY_CTRL,
}
# Members behind the first: the index of the field, so its offset is compared.
MEMBERS = {
    "v4l2_capability": {"capabilities": 4, "device_caps": 5},
    "v4l2_fmtdesc": {"flags": 2, "description": 3, "pixelformat": 4},
    "v4l2_frmsizeenum": {"type": 2, "discrete": 3, "stepwise.min_height": 6,
                         "stepwise.step_height": 8},
    "v4l2_frmivalenum": {"width": 2, "type": 4, "discrete": 5,
                         "stepwise.max": 7},
    "v4l2_query_ext_ctrl": {"name": 2, "minimum": 3, "maximum": 4, "step": 5,
                            "default_value": 6, "flags": 7},
    "v4l2_querymenu": {"name": 2}, "v4l2_ext_control": {"size": 1, "value": 3},
    "v4l2_ext_controls": {"count": 1, "controls": 5},
}


def offset(layout, field):
    """Returns where a field begins of the struct module's layout."""
    order, words = layout[0], re.findall(r"\d*[a-zA-Z]", layout[1:])
    fields = [w if w[-1] == "s" else w[-1] for w in words
              for _ in range(1 if w[-1] == "s" else int(w[:-1] or 1))]
    # The next field adds only its alignment.
    tail = f"0{fields[field][-1]}"
    return struct.calcsize(order + "".join(fields[:field]) + tail)


def test_layouts(tmp_path):
    """The structs and numbers are those of linux/videodev2.h."""
    cc = shutil.which("cc") or shutil.which("gcc")
    if not cc or not os.path.exists("/usr/include/linux/videodev2.h"):
        pytest.skip("there is no compiler, or no linux/videodev2.h")
    lines = [f'printf("%zu\\n", sizeof(struct {s}));' for s in STRUCTS]
    lines += [f'printf("%zu\\n", offsetof(struct {s}, {m}));'
              for s, members in MEMBERS.items() for m in members]
    lines += [f'printf("%lu\\n", (unsigned long)VIDIOC_{n});' for n in IOCTLS]
    source = tmp_path / "sizes.c"
    source.write_text("#include <stddef.h>\n#include <stdio.h>\n"
                      "#include <linux/videodev2.h>\nint main(void)\n{\n" +
                      "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run([cc, "-o", tmp_path / "sizes", source], check=True)
    out = subprocess.run([tmp_path / "sizes"], check=True, text=True,
                         capture_output=True).stdout
    got = list(map(int, out.split()))
    want = [struct.calcsize(layout) for layout in STRUCTS.values()]
    want += [offset(STRUCTS[s], field) for s, members in MEMBERS.items()
             for field in members.values()]
    assert got == want + list(IOCTLS.values())


def test_the_command_opens_devices(monkeypatch):
    """devices() opens none, so a driver's refusal is not in it."""
    cpu = dlbuf.devices()[0]
    assert cpu.name == "cpu" and command._opened(cpu) is cpu
    for name, program, status, words in (
            ("cpu ", None, errno.EINVAL, "no backend is named 'cpu '"),
            ("gles", "import os; os.abort()", errno.EIO, "ended its process: SIGABRT"),
            ("gles", "import time; time.sleep(100)", errno.ETIME, "no answer within 1 s"),
            ("gles", "", 0, "")):
        with monkeypatch.context() as m:
            if program is not None:
                m.setattr(command, "_OPEN", program)
            if status == errno.ETIME:
                m.setattr(command, "_OPEN_SECONDS", 1)
            got = command._opened(cpu._replace(name=name))
        assert got.status == status and words in got.reason, (name, program, got)


def test_the_command_without_a_camera():
    def run(*args):
        return subprocess.run([sys.executable, "-m", "dlbuf", *args], text=True,
                              capture_output=True)

    p = run("camera", "/dev/nonesuch")
    assert p.returncode == 4 and p.stderr.count("\n") == 1, p
    assert run("camera", "--help").stdout.startswith("usage: python -m dlbuf")


@pytest.mark.parametrize("command, path, absent", [
    ("list", "list.c", {"timeout"}),
    ("camera", "camera/command.c", {"moving", "written", "save", "prepare", "input"})])
def test_the_command_has_the_options_of_dmabuf_test(command, path, absent):
    """But for those that its help and the README name."""
    root = os.path.join(os.path.dirname(__file__), "../../..")
    with open(f"{root}/tools/dmabuf-test/{path}") as f:
        text = f.read().partition("struct opt options[] = {")[2].partition("OPT_END")[0]
    theirs = dict((name, letter) for letter, name in re.findall(
        r"\{ (?:'(.)'|0), \"([a-z]+)\"", text))
    theirs |= {name.lower(): name[0].lower() for name in re.findall(r"OPT_(DEVICE|JSON)", text)}
    help = subprocess.run([sys.executable, "-m", "dlbuf", command, "--help"], check=True,
                          capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"}).stdout
    ours = {name: letter for letter, name in re.findall(r"^  (?:-(\w)\b.*?, )?--(\w+)", help, re.M)}
    assert len(theirs) > 1 and theirs.items() - ours.items() == {
        (name, theirs[name]) for name in absent}
    with open(root + "/python/README.md") as f:
        readme = f.read()
    for name in absent:
        assert f"--{name}" in help and f"`--{name}`" in readme, name
