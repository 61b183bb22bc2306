# SPDX-License-Identifier: MIT
"""Looks at what dmabuf-test wrote, knowing nothing but V4L2, PNG and DLPack.

    look.py report JSON TABLE DEVICES [PATH=VALUE]...
                                                a run: its claims, and whether the table says the same
    look.py list JSON TABLE [PATH=VALUE]...     the same of `dmabuf-test list`
    look.py bars PNG WIDTHxHEIGHT [grey]        a picture of vivid's colour bars
    look.py sheet PNG JSON                      the same with its input, and the boxes
    look.py index DIR COUNT                     the page of that many pictures of vivid's
    look.py options COMMAND HELP MAN            whether a usage text and the man page have the same options
    look.py picked JSON PATH                    one value

A PATH is "devices.0.verified". Prints each thing that is wrong; exit status 1 when there is one.
"""
import json
import re
import struct
import sys
import zlib

wrong = []


def same(what, found, expected):
    if found != expected:
        wrong.append(f"{what} is {found!r}, not {expected!r}")


def read(path):
    with open(path) as f:
        return f.read()


def unique(pairs):
    same("the keys of an object", len(dict(pairs)), len(pairs))
    return dict(pairs)


def pick(value, path):
    for key in path.split("."):
        value = value[int(key) if isinstance(value, list) else key]
    return value


def expect(report, expectations):
    for e in expectations:
        path, _, value = e.partition("=")
        try:
            value = json.loads(value)
        except ValueError:
            pass  # a string without its quotes
        same(path, pick(report, path), value)


# ---------------------------------------------------------------- camera

# Per plane: elements of a pixel row per pixel, of a column per row, and what is inside an element.
PLANES = {
    "GREY": [(1, 1, [])],
    "RGGB": [(1, 1, [])],
    "RGB3": [(1, 1, [3])],
    "BGR3": [(1, 1, [3])],
    "XR24": [(1, 1, [4])],
    "YUYV": [(2, 1, [4])],
    "NV12": [(1, 1, []), (2, 2, [2])],
}


def tensors(camera, data_offset):
    """The expected frame of this camera."""
    offset = data_offset
    for hdiv, vdiv, inner in PLANES[camera["code"]]:
        rows = -(-camera["height"] // vdiv)
        columns = -(-camera["width"] // hdiv)
        yield offset, [rows, columns] + inner, [camera["pitch"][0], *inner, 1]
        offset += rows * camera["pitch"][0]


READS = {"cpu": "memcpy", "cuda": "cuMemcpyDtoHAsync", "gles": "memcpy", "hip": "hipMemcpyDtoHAsync",
         "levelzero": "zeCommandListAppendMemoryCopy", "opencl": "clEnqueueReadBuffer", "vulkan": "vkCmdCopyBuffer"}


def check_claims(r):
    camera, n = r["camera"], r["camera"]["frames"]
    same("leases granted", r["leases"]["granted"], n)
    same("leases released", r["leases"]["released"], n)
    same("buffers queued again", r["leases"]["requeued"], n)
    same("fds after", r["fds"]["after"], r["fds"]["before"])
    same("bytes_copied", r["bytes_copied"], 0)
    # vivid, in its multi-planar mode, begins YUYV there.
    offset = 128 if camera["multiplanar"] and camera["code"] == "YUYV" else 0
    for d in r["devices"]:
        name = d["name"]
        if d["path"] != "direct" and (name, d["path"]) not in (("cuda:0", "host"), ("hip:0", "host")):
            wrong.append(f"{name}: the path is {d['path']}")
        same(f"{name}: verified", (d["verified"], d["mismatched"]), (n, 0))
        same(f"{name}: bytes_copied", d["bytes_copied"], 0)
        imports = d["first_import"]["count"], d["cached_import"]["count"]
        same(f"{name}: imports", sum(imports), n)
        if not 1 <= imports[0] <= camera["buffers"]:
            wrong.append(f"{name}: {imports[0]} first imports of {camera['buffers']} buffers")
        for series in "acquire", "release", "read":
            same(f"{name}: {series}", d[series]["count"], n)
        same(f"{name}: it reads by", d["read_by"], READS[name.partition(":")[0]])
        if "input" in d:
            i = d["input"]
            same(f"{name}: inputs", i["prepare"]["count"], 0 if "refused" in i else n)
            same(f"{name}: its inputs are the first device's",
                 "difference" not in i if "refused" in i else i["difference"] <= 2e-5, True)
        found = [(t["offset_in_dmabuf"], t["shape"], t["strides"]) for t in d["tensors"]]
        same(f"{name}: tensors", found, list(tensors(camera, offset)))
        same(f"{name}: dtypes", {t["dtype"] for t in d["tensors"]}, {"uint8"})


def said(table, pattern, what, *expected):
    """Its groups in the table, which are numbers or text."""
    m = re.search(pattern, table, re.M)
    if not m:
        wrong.append(f"the table has no {what}")
        return
    found = tuple(float(g) if re.fullmatch(r"[0-9.]+", g or "") else g for g in m.groups())
    same(f"the table's {what}", found, expected)


def check_table(r, table):
    camera, leases = r["camera"], r["leases"]
    names = [d["name"] for d in r["devices"]]
    listed = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]
    said(table, r"^(\d+) of (\d+) frames verified on (.*), (\d+) bytes copied$", "headline",
         min(d["verified"] for d in r["devices"]), camera["frames"], listed, r["bytes_copied"])
    said(table, r"^  camera   (.*) \((.*)\), (.*)$", "camera", camera["card"], camera["driver"], camera["node"])
    name = camera["format"] if camera["format"] == camera["code"] else f"{camera['format']} ({camera['code']})"
    said(table, r"^  format   (.*) (\d+)x(\d+), pitch (\d+) bytes", "format",
         name, camera["width"], camera["height"], camera["pitch"][0])
    if "rate" in camera:
        said(table, r"^  rate     (\S+) a second", "rate", float("%g" % camera["rate"]))
    if "rate_asked" in camera:
        said(table, r"^  rate  .*\((\S+) was asked for\)$", "rate that was asked for",
             float("%g" % camera["rate_asked"]))
    if camera["memory"] == "expbuf":
        said(table, r"^  buffers  (\d+) of the camera", "buffers", camera["buffers"])
    else:
        said(table, r"^  buffers  (\d+) of (\S+), which", "buffers", camera["buffers"], camera["memory"])
    said(table, r"^  frames   (\d+) in \S+ s, \S+ a second, (\d+) dropped, (\d+) flagged as bad$", "frames",
         camera["frames"], camera["dropped"], camera["flagged"])
    for i, t in enumerate(r["devices"][0]["tensors"]):
        text = f"{t['dtype']} {t['shape']}, strides {t['strides']}, from byte {t['offset_in_dmabuf']} of the dma-buf"
        same(f"the table's tensor {i}", table.count(text), 1)
    for d in r["devices"]:
        said(table, rf"^  ({re.escape(d['name'])}) +(\w+) .* (\d+) B +(\d+)/(\d+)$", f"row of {d['name']}",
             d["name"], d["path"], d["bytes_copied"], d["verified"], d["frames"])
    first = r["devices"][0]
    said(table, r"^  times .* of (\d+) buffers, (\d+) cached$", "times",
         first["first_import"]["count"], first["cached_import"]["count"])
    said(table, r"^  leases   (\d+) granted, (\d+) released; buffers queued again: (\d+)$", "leases",
         leases["granted"], leases["released"], leases["requeued"])
    said(table, r"^  repeats  (\d+) frames", "repeats", r["repeated"])
    same("what a mapping of is the reference", r["reference"], "node" if camera["memory"] == "expbuf" else "dma-buf")
    said(table, r"^  against  each byte of every frame, read by the CPU in a mapping of the (\S+), without dlbuf$",
         "reference", r["reference"])
    said(table, "^  read     (.*)$", "reads", ", ".join(f"{d['name']} by {d['read_by']}" for d in r["devices"]))
    for d in r["devices"]:
        if "input" in d:
            words = " prepares no input: ." if "refused" in d["input"] else r": [0-9.]+ [mu]?s a frame"
            same(f"the input of {d['name']} in the table", bool(re.search(f"^  (?:input|     )    {d['name']}{words}", table, re.M)), True)
    if "filled" in r:
        said(table, r"^  written  (\d+) of (\d+) frames were filled before the capture; (\d+) bytes have the filling$",
             "filling", r["filled"], camera["frames"], r["unwritten"])
    said(table, r"^  fds      (\d+) open before the camera, (\d+) after$", "fds", r["fds"]["before"], r["fds"]["after"])
    if "input" in r:
        said(table, r"^           (.*): frame and input; red areas: (\d+), found in the input$", "picture of the input",
             r["input"], len(r["boxes"]))
    if "png" in r:
        said(table, r"^  picture  (.*)$", "picture", r["png"])


def report(path, table, devices, *expectations):
    r = json.loads(read(path), object_pairs_hook=unique)
    same("the devices", ",".join(d["name"] for d in r["devices"]), devices)
    check_claims(r)
    check_table(r, read(table))
    if not any(e.startswith("verified=") for e in expectations):
        expectations += ("verified=true",)
    expect(r, expectations)


# ---------------------------------------------------------------- list

def listing(path, table, *expectations):
    r = json.loads(read(path), object_pairs_hook=unique)
    lines = read(table).split("\n")
    rows = 0

    def row(*cells):
        nonlocal rows
        rows += 1
        pattern = " +".join(re.escape(c) if isinstance(c, str) else c.pattern for c in cells)
        same(f"the table's lines like '{pattern}'", sum(bool(re.fullmatch("  " + pattern, l)) for l in lines), 1)

    for e in r["exporters"]:
        same(f"{e['name']}: a reason", bool(e["reason"]), e["status"] != 0)
        row(e["name"], e["node"], e["reason"] or "yes")
    for i in r["importers"]:
        blocks = i["reason"].startswith("blocks: ")
        same(f"{i['name']}: a reason", bool(i["reason"]), i["status"] != 0 or blocks)
        same(f"{i['name']}: it blocks", blocks and "blocks" not in (i["acquire"], i["release"]), False)
        if i["status"]:
            row(i["name"], "-", "-", i["reason"])
        else:
            row(i["name"], i["acquire"], i["release"], "; ".join(filter(None, (
                ", ".join(filter(None, (i["description"], i["driver"]))), i["reason"]))))
        same(f"{i['name']}: paths tried", bool(i["paths"]), i["status"] == 0)
        for p in i["paths"]:
            same(f"{i['name']}, {p['path']}: a reason", bool(p["reason"]), p["status"] != 0)
            same(f"{i['name']}, {p['path']}: tried", p["path"] != "-", r["paths_of"] != "")
            row(i["name"], p["path"], p["reason"] or "yes")
        if not i["status"]:
            row(i["name"], "LINEAR", "all")
        for m in i["modifiers"]:
            row(i["name"], m["modifier"], " ".join(m["formats"]))
    title = "Paths: how they take a dma-buf" + (f" of {r['paths_of']}" if r["paths_of"] else "")
    same("the title of the paths", lines.count(title), 1)
    for c in r["cameras"]:
        if "reason" in c:
            row(c["node"], "-", c["reason"])
        else:
            # A code, or the format's name before it: "YUV420 (YU12)".
            codes = " ".join(rf"(?:[A-Z]\w+ \({f}\)|{f})" for f in map(re.escape, c["formats"]))
            row(c["node"], f"{c['card']} ({c['driver']})", re.compile(codes or "none that dlbuf maps"))
    if not r["cameras"]:
        row("-", "-", "there is no /dev/video*")
    # Five titles, five heads, four empty lines, and the end of the last one.
    same("the table's lines", len(lines), rows + 15)
    expect(r, expectations)


# ---------------------------------------------------------------- pictures

def paeth(a, b, c):
    pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    return a if pa <= pb and pa <= pc else b if pb <= pc else c


def unfilter(kind, row, up, step):
    """The row's bytes. A picture has 100000, and the guest's CPU is emulated: only what the row's filter wants."""
    if kind == 2:
        return bytearray((x + u) & 255 for x, u in zip(row, up)) if any(row) else up
    if kind == 1:
        for i in range(step, len(row)):
            row[i] = (row[i] + row[i - step]) & 255
    elif kind:
        for i, byte in enumerate(row):
            a = row[i - step] if i >= step else 0
            c = up[i - step] if i >= step else 0
            row[i] = (byte + ((a + up[i]) // 2 if kind == 3 else paeth(a, up[i], c))) & 255
    return row


def png(path):
    """Width, height, bytes of a pixel, rows."""
    with open(path, "rb") as f:
        data = f.read()
    same("the signature", data[:8], b"\x89PNG\r\n\x1a\n")
    at, names, packed = 8, [], b""
    while at < len(data):
        size, = struct.unpack(">I", data[at:at + 4])
        name, body = data[at + 4:at + 8], data[at + 8:at + 8 + size]
        crc, = struct.unpack(">I", data[at + 8 + size:at + 12 + size])
        same(f"the CRC of {name}", crc, zlib.crc32(name + body))
        names.append(name)
        if name == b"IHDR":
            width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", body)
            same("depth, compression, filter, interlace", [depth] + rest, [8, 0, 0, 0])
        elif name == b"IDAT":
            packed += body
        at += 12 + size
    same("the first and the last chunk", (names[0], names[-1]), (b"IHDR", b"IEND"))
    step = {0: 1, 2: 3}[colour]
    raw = zlib.decompress(packed)
    same("the bytes of all rows", len(raw), height * (1 + width * step))
    rows, up = [], bytes(width * step)
    for y in range(height):
        line = raw[y * (1 + width * step):(y + 1) * (1 + width * step)]
        up = unfilter(line[0], bytearray(line[1:]), up, step)
        rows.append(up)
    return width, height, step, rows


# vivid's first pattern, in the colours of its webcam: sRGB of 0 to 255, and as grey the luma of BT.709.
BARS = [(191, 191, 191), (191, 191, 0), (0, 191, 191), (0, 191, 0), (191, 0, 191), (191, 0, 0), (0, 0, 191), (0, 0, 0)]
TOLERANCE = 3


def bars(path, size, grey=""):
    width, height, step, rows = png(path)
    same("the size", f"{width}x{height}", size)
    same("bytes of a pixel", step, 1 if grey else 3)
    # Rows near the bottom: there is text above.
    check_bars(rows, step, grey, 0, width, (height - 1, height - 2, height - 15))


def sheet(path, report):
    """The frame of 320x180 and its input of 160x160, letterboxed, 5 pixels apart, with a box around the red bar."""
    width, height, step, rows = png(path)
    same("the size", (width, height, step), (284 + 5 + 160, 160, 3))
    # Black and white: of the box.
    same("the letterbox", {b for y in [*range(35), *range(125, 160)] for b in rows[y][289 * 3:]} - {0, 114, 255}, set())
    check_bars(rows, step, "", 0, 284, [height - 15])
    check_bars(rows, step, "", 289, 160, [125 - 15])
    for x, y in (178, 80), (389, 80):
        same(f"the box at {x},{y}", [list(rows[y][i * 3:i * 3 + 3]) for i in range(x - 2, x + 2)],
             [[0] * 3, [255] * 3, [255] * 3, [0] * 3])
    found = pick(json.loads(read(report)), "boxes")
    same("the boxes", [all(abs(f - e) <= 2 for f, e in zip(box, (200, 0, 240, 180))) for box in found] or found, [True])


def check_bars(rows, step, grey, left, width, ys):
    for i, (r, g, b) in enumerate(BARS):
        for y in ys:
            x = left + (2 * i + 1) * width // 16
            found = list(rows[y][x * step:(x + 1) * step])
            expected = [round(0.2126 * r + 0.7152 * g + 0.0722 * b)] if grey else [r, g, b]
            if any(abs(f - e) > TOLERANCE for f, e in zip(found, expected)):
                wrong.append(f"pixel {x},{y} of bar {i} is {found}, not {expected}")


def index(folder, count):
    """A page that shows each picture once. What is in them, convert.py compares."""
    page = read(f"{folder}/index.html")
    pictures = re.findall(r"<figure><img src=([\w-]+)\.png [^<]*><figcaption><b>[^<]+</b> \1 \w+</figcaption></figure>", page)
    same("the pictures", (len(pictures), len(set(pictures)), page.count("<figure>")), (int(count),) * 3)
    for name in pictures:
        same("the signature", open(f"{folder}/{name}.png", "rb").read(8), b"\x89PNG\r\n\x1a\n")


# ---------------------------------------------------------------- options

COMMON = "verbose", "help", "json"


def options(command, usage, man):
    """-r, --rate FPS and .It Fl r , Fl -rate Ar FPS; an option may have no letter."""
    in_usage = [(s, l, a) for s, l, a in
                re.findall(r"^  (?:-(\w),|   ) --([\w-]+)(?:[ =]|\[=)?([A-Zx]*)\]?(?=\s)", read(usage), re.M)]
    section = re.search(rf"^\.Ss {command}\n(.*?)(?=^\.S[sh] )", read(man), re.M | re.S)[1]
    in_man = [(s, l, a or "") for s, l, a in
              re.findall(r"^\.It (?:Fl (\w) , )?Fl -([\w-]+)(?: (?:Ns Op = Ns )?Ar (\S+))?$", section, re.M)]
    # Those that each command has are described once; matrix's -v prints more.
    same("the man page's options", [o for o in in_man if o[1] not in COMMON], [o for o in in_usage if o[1] not in COMMON])
    same("options of the usage", bool(in_usage), True)


def picked(path, key):
    print(pick(json.loads(read(path)), key))


def main(what, *args):
    {"report": report, "list": listing, "bars": bars, "sheet": sheet, "index": index, "options": options, "picked": picked}[what](*args)
    for line in wrong:
        print(line)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
