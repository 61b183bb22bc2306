# SPDX-License-Identifier: MIT
"""python -m dlbuf: what this machine has, and frames of a camera.

The commands, options and exit statuses have the names of dmabuf-test, which is in C. It
tests more, and has the options for that, too, which the help of each command names.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import dlbuf

from ._camera import TRY_EXPORTER, parse_size

_USAGE, _FAILED, _ABSENT = 2, 3, 4
_STATUS = ("Exit status: 0; 2 bad usage; 3 a camera, a device or a file failed, "
           "or a signal\ninterrupted the run; 4 the camera, the device or the "
           "format is absent on this\nmachine.")


class _Failure(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter,
                         **options)

    def error(self, message: str) -> NoReturn:
        raise _Failure(_USAGE, f"{message}; see {self.prog} --help")


# ------------------------------------------------------------------- output

def _printable(text: object) -> str:
    """Names come from hardware: no control characters on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]
           ) -> None:
    bold, off = (("\033[1m", "\033[0m") if sys.stdout.isatty() and
                 not os.environ.get("NO_COLOR") and
                 os.environ.get("TERM", "dumb") != "dumb" else ("", ""))
    cells = [[_printable(c) for c in row] for row in [heads, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    if title:
        print(f"{bold}{title}{off}")
    for row in cells:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip())


def _write(path: str, data: bytes) -> None:
    """The whole file or none; a pipe or a device is written to."""
    path = os.path.realpath(path)
    temporary = ""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as f:
                f.write(data)
            return
        fd, temporary = tempfile.mkstemp(prefix=".dlbuf-",
                                         dir=os.path.dirname(path))
        with open(fd, "wb") as f:
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(fd, 0o666 & ~mask)
            f.write(data)
        os.replace(temporary, path)
    except OSError as e:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise _Failure(_FAILED, f"{path} cannot be written: {e.strerror}"
                       ) from None


def _put_json(args: argparse.Namespace, value: dict[str, Any]) -> None:
    if args.json is None:
        return
    text = json.dumps({"dlbuf": dlbuf.version(), **value}, indent=1) + "\n"
    if args.json == "-":
        sys.stdout.write(text)
    else:
        _write(args.json, text.encode())


# ------------------------------------------------------------------- list

def _camera_formats(camera: dlbuf.CameraInfo) -> list[str]:
    """The formats that dlbuf maps, in the order of dmabuf-test."""
    if camera.status:
        return []
    try:
        names = [f.name for f in camera.formats]
    except dlbuf.Error:
        return []
    known: list[str] = []
    for name in names:
        with contextlib.suppress(dlbuf.InvalidError):
            if not dlbuf.find_format(name, dlbuf.CodeSpace.V4L2)[0].reason:
                known.append(name)
    return known


# A driver may crash or hang, so each is opened in a process of its own.
_OPEN = """if True:
    import dlbuf, sys
    try:
        dlbuf.Device(sys.argv[1])
    except dlbuf.Error as e:
        sys.exit(f"{e.errno} {e.strerror}")"""
_OPEN_SECONDS = 60


def _opened(device: dlbuf.DeviceInfo) -> dlbuf.DeviceInfo:
    """The device with the error of its opening, if it cannot be opened."""
    if device.status or device.name == "cpu":
        return device
    try:
        child = subprocess.run(
            [sys.executable, "-c", _OPEN, device.name], text=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, timeout=_OPEN_SECONDS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    except subprocess.TimeoutExpired:
        return device._replace(status=errno.ETIME, reason=f"no answer within {_OPEN_SECONDS} s")
    if not child.returncode:
        return device
    if child.returncode < 0:
        return device._replace(status=errno.EIO, reason="the driver ended its process: "
                               + signal.Signals(-child.returncode).name)
    number, _, reason = child.stderr.splitlines()[-1].partition(" ")
    return device._replace(status=int(number), reason=reason)


def _list(args: argparse.Namespace) -> None:
    exporters, devices = dlbuf.exporters(), [_opened(d) for d in dlbuf.devices()]
    cameras = [(c, _camera_formats(c)) for c in dlbuf.cameras()]
    if args.json != "-":
        _table("Exporters: who makes dma-bufs", ("name", "node", "works"),
               [(name, node, reason or "yes")
                for name, node, _, reason in exporters])
        _table("\nImporters: who takes them", ("name", "works", "device"),
               [(d.name, d.reason if d.status else "yes",
                 ", ".join(filter(None, (d.description, d.driver))) or "-")
                for d in devices])
        _table("\nCameras", ("node", "camera", "bus", "formats that dlbuf maps"),
               [(c.node, f"{c.card} ({c.driver})" if c.card else "-",
                 c.bus or "-", c.reason or " ".join(formats) or "none")
                for c, formats in cameras] or [("-", "-", "-", "there is no camera")])
    _put_json(args, {
        "exporters": [dict(zip(("name", "node", "status", "reason"), e))
                      for e in exporters],
        "importers": [{
            "name": d.name, "backend": d.backend,
            "description": d.description, "driver": d.driver,
            "device_type": int(d.device[0]), "device_id": d.device[1],
            "acquire": d.acquire, "release": d.release, "status": d.status,
            "reason": d.reason} for d in devices],
        "cameras": [{**c._asdict(), "formats": formats}
                    for c, formats in cameras]})


# ------------------------------------------------------------------- camera

def _tensor(t: dlbuf.Tensor) -> dict[str, Any]:
    return {"shape": list(t.shape), "strides": list(t.strides),
            "dtype": str(t.dtype)}


def _pixels(frame: dlbuf.TensorFrame) -> tuple[int, int, bytes]:
    """(width, height, rows): R, G, B of a frame in use, or its only value as grey."""
    f = frame.info
    info = dlbuf.find_format(f.code, f.space)[0]
    # The name of a word of bit fields has its letters, too.
    letters = (info.v4l2_name or info.drm_name) if info.reason else info.channels
    view = next((v for v in (dlbuf.View.PLANES, dlbuf.View.WORDS, dlbuf.View.ROWS)
                 if v in info.views), dlbuf.View.PLANES)
    tensors = dlbuf.from_frame(f.planes, f.width, f.height, f.code, space=f.space,
                               view=view, crop=f.crop, access="read", colour=f.colour)
    size = f.crop[2:] if f.crop else (f.width, f.height)
    x, _ = dlbuf.prepare(tensors, size=size, dtype="uint8", layout="nhwc",
                         channels="rgb" if set("GUH") & set(letters or "") else "grey")
    for tensor in tensors:
        tensor.close()
    return *size, memoryview(x).tobytes()


def _png(width: int, height: int, pixels: bytes) -> bytes:
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


def _frames(args: argparse.Namespace, camera: dlbuf.Camera
            ) -> tuple[list[dict[str, Any]], bytes | None]:
    """Each frame's line; the picture of the last one."""
    seen: list[dict[str, Any]] = []
    picture = None
    for n in range(args.frames):
        with next(camera) as frame:
            i = frame.info
            seen.append({"sequence": i.sequence, "timestamp_ns": i.timestamp_ns,
                         "field": i.field.name.lower(), "damaged": i.damaged,
                         "tensors": [_tensor(t) for t in frame]})
            if n == args.frames - 1 and args.png:
                picture = _png(*_pixels(frame))
        if args.quiet or args.json == "-":
            continue
        time = "-" if i.timestamp is None else f"{i.timestamp:.6f}"
        tensors = ", ".join(f"{tuple(t['shape'])} {t['dtype']}"
                            for t in seen[-1]["tensors"])
        print(f"{n:4}  sequence {i.sequence}  {time} s  {tensors}"
              f"{'  damaged' if i.damaged else ''}", flush=True)
    return seen, picture


def _rate(seen: list[dict[str, Any]]) -> float | None:
    """Frames per second of the camera's own times."""
    times = [f["timestamp_ns"] for f in seen if f["timestamp_ns"] is not None]
    took = times[-1] - times[0] if times else 0
    return (len(times) - 1) / took * 1e9 if took > 0 else None


def _camera(args: argparse.Namespace) -> None:
    node = int(args.node) if args.node.isdecimal() else args.node
    table = not args.quiet and args.json != "-"
    with dlbuf.Camera(node, format=args.format, size=args.size, fps=args.rate,
                      crop=args.crop, buffers=args.buffers, drop=args.drop,
                      device=args.device, view=args.view,
                      timeout=args.timeout, exporter=args.exporter) as camera:
        if table:
            fps = f", {camera.fps:.6g} frames per second" if camera.fps else ""
            print(f"{camera.node}: {_printable(camera.card)} "
                  f"({_printable(camera.driver)}), {camera.format} "
                  f"{camera.size[0]}x{camera.size[1]}{fps}, "
                  f"{camera.buffers} buffers, view {camera.view.name.lower()}")
        seen, picture = _frames(args, camera)
        rate, dropped = _rate(seen), camera.dropped
    if picture is not None:
        _write(args.png, picture)
    if table:
        took = f", {rate:.6g} per second" if rate else ""
        print(f"{len(seen)} frames{took}"
              f"{f', {dropped} dropped' if args.drop else ''}"
              f"{f', the last one is {args.png}' if picture else ''}")
    _put_json(args, {
        "camera": {"node": camera.node, "card": camera.card,
                   "driver": camera.driver, "bus": camera.bus,
                   "format": camera.format, "width": camera.size[0],
                   "height": camera.size[1], "rate": camera.fps,
                   "buffers": camera.buffers, "crop": camera.crop,
                   "view": camera.view.name.lower(), "device": args.device,
                   "memory": args.exporter or "expbuf"},
        "frames": seen, "rate": rate, "dropped": dropped})


# ------------------------------------------------------------------- options

def _size(text: str) -> tuple[int, int]:
    try:
        return parse_size(text)
    except dlbuf.InvalidError as e:
        raise argparse.ArgumentTypeError(str(e.strerror)) from None


def _crop(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _parser() -> _Parser:
    p = _Parser(prog="python -m dlbuf", epilog=_STATUS,
                description="Lists what this machine has for dma-bufs, and takes "
                "frames of a camera.")
    p.add_argument("-V", "--version", action="version", version=dlbuf.version())
    sub = p.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, about: str, more: str = "") -> _Parser:
        c: _Parser = sub.add_parser(name, help=about, epilog=more + _STATUS,
                                    description=about[0].upper() + about[1:] + ".")
        c.add_argument("-j", "--json", nargs="?", metavar="=FILE",
                       help="JSON to FILE as well, or without =FILE instead of "
                       "the text")
        c.add_argument("-v", "--verbose", action="store_true",
                       help="the library's messages on standard error, as "
                       "DLBUF_LOG=info")
        return c

    command("list", "the exporters of dma-bufs, the importers and the cameras of "
            "this machine", "Without paths, modifiers and --timeout, which `dmabuf-test list` "
            "has.\n\n").set_defaults(run=_list)

    c = command("camera", "takes frames of a camera and prints a line for each",
                "Without the options of `dmabuf-test camera` that verify frames: --moving, "
                "--written,\n--save, --prepare, --input. More than it has: --crop and --drop.\n\n")
    c.set_defaults(run=_camera)
    c.add_argument("node", nargs="?", default="0", metavar="NODE",
                   help="a number, a path, or a card, bus or name (0)")
    c.add_argument("-d", "--device", default="cpu",
                   help="the device that imports the frames (cpu)")
    c.add_argument("-n", "--frames", type=int, default=10, metavar="N",
                   help="how many frames (10)")
    c.add_argument("-s", "--size", type=_size, metavar="WxH",
                   help="pixels (as the camera is set)")
    c.add_argument("-f", "--format", help="a name or a code: NV12, I420, YUYV, "
                   "MJPG (as the camera is set)")
    c.add_argument("--view", help="planes, words, rows, bytes, luma, components "
                   "... (the first one of these that the format has)")
    c.add_argument("-r", "--rate", type=float, metavar="FPS",
                   help="frames a second to ask the camera for (as it is)")
    c.add_argument("-b", "--buffers", type=int, default=4, metavar="N",
                   help="buffers that the camera cycles through (4)")
    c.add_argument("-e", "--exporter", help="capture into buffers of this exporter, not "
                   "into the camera's own")
    c.add_argument("--crop", type=_crop, metavar="X,Y,W,H",
                   help="only this part of the picture, in pixels")
    c.add_argument("--drop", action="store_true",
                   help="the newest frame only; older ones are counted")
    c.add_argument("-p", "--png", metavar="FILE",
                   help="save the last frame as a picture")
    c.add_argument("-q", "--quiet", action="store_true",
                   help="print nothing: only the exit status")
    c.add_argument("-t", "--timeout", type=float, default=60.0,
                   metavar="SECONDS", help="longest wait for a frame (60)")
    return p


def _status_of(e: dlbuf.Error) -> int:
    if e.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOSYS):
        return _ABSENT
    if isinstance(e, dlbuf.InvalidError):
        return _USAGE
    if TRY_EXPORTER in str(e):
        return _ABSENT
    return _ABSENT if "does not capture in" in str(e) else _FAILED


def _run(argv: list[str]) -> int:
    # --json has a FILE only behind a "=", as dmabuf-test's.
    args = _parser().parse_args(["--json=-" if a in ("-j", "--json") else a
                                 for a in argv])
    if getattr(args, "frames", 1) < 1:
        raise _Failure(_USAGE, "--frames is 1 or more")
    if args.verbose and os.environ.get("DLBUF_LOG") not in ("info", "debug"):
        # The library has read it by now: again, from the beginning.
        os.environ["DLBUF_LOG"] = "info"
        os.execv(sys.executable, sys.orig_argv)
    args.run(args)
    return 0


def main() -> int:
    """The exit status. Expected failures are one line on standard error."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        try:
            status = _run(sys.argv[1:])
        except dlbuf.Error as e:
            raise _Failure(_status_of(e), str(e.strerror).replace(
                TRY_EXPORTER, "--exporter udmabuf")) from None
        except KeyboardInterrupt:
            raise _Failure(_FAILED, "interrupted") from None
        finally:
            sys.stdout.flush()
        return status
    except _Failure as e:
        sentence, status = str(e), e.status
    except OSError as e:
        sentence, status = f"standard output: {e.strerror}", _FAILED
        # The exit of the program does not retry a failed write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(f"python -m dlbuf: {_printable(sentence)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
