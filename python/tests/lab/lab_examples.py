# SPDX-License-Identifier: MIT
"""The recipes of python/README.md and the programs of python/examples, as users
start them. For the lab. Prints KTAP.

    PYTHONPATH=... python3 python/tests/lab/lab_examples.py [NAME...]

lab_torch.py runs those that need PyTorch, where it is installed.
"""

import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
import zlib

from labtools import TESTS, Skip, main

EXAMPLES = os.path.join(TESTS, "../examples")

# After a recipe, when its own names are gone, nothing may hold a frame.
END = """
for _name in [n for n in globals() if n[0] != "_"]:
    del globals()[_name]
import gc as _gc
_gc.collect()
_left = [x for x in _gc.get_objects() if type(x).__name__ in ("TensorFrame", "Tensor")]
assert not _left, _left
"""

COLOURS = "white yellow cyan green magenta red blue black".split()
BARS, BACK = (", ".join(f"{c} from {80 * i}" for i, c in enumerate(order)) + "\n"
              for order in (COLOURS, COLOURS[::-1]))

# A program, what it needs besides NumPy, and what it prints.
PROGRAMS = {
    "camera_opencv.py": ("cv2", r"camera_opencv.png: 640x360, \d+\.\d% are edges\n"),
    "camera_torch.py": ("torch", r"(frame \d+: \(180, 320\), steepest edge \d+\n){4}"
                        r"(batch: \(2, 180, 320\) torch.uint8\n){2}"),
    "infer_ncnn.py": ("ncnn", BARS + BACK),
    "infer_onnxruntime.py": ("onnxruntime", BARS + BACK),
    "infer_torch.py": ("torch", BARS + BACK),
    "two_processes.py": ("", r"(frame \d+: \(360, 640\), first pixel \d+\n){5}"),
}
# These are run where they are installed: examples/README.md says with which versions.
BY_HAND = {
    "infer_litert.py": ("ai_edge_litert", f"(INFO: .*\n)?{BARS}{BACK}"),
    "infer_openvino.py": ("openvino", BARS + BACK),
}
PROGRAMS |= {n: how for n, how in BY_HAND.items() if importlib.util.find_spec(how[0])}


def needs(module):
    if module and not importlib.util.find_spec(module):
        raise Skip(f"{module} is not installed")


def start(*args, cwd=None):
    """Runs Python with these arguments -> what the program printed."""
    done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", *args],
                          text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, cwd=cwd)
    for line in done.stdout.splitlines():
        print("# " + line)
    assert not done.returncode, done.returncode
    return done.stdout


def start_here(path):
    """The same in this process, for a library whose import takes a minute."""
    argv, printed = sys.argv, io.StringIO()
    sys.argv = [path]
    sys.path.insert(0, EXAMPLES)
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv = argv
        sys.path.remove(EXAMPLES)
    return printed.getvalue()


def recipes():
    """(number, code) of each."""
    with open(os.path.join(TESTS, "../README.md"), encoding="utf-8") as f:
        page = f.read().split("\n## Recipes\n")[1].split("\n## ")[0]
    return re.findall(r"^\*\*(\d+)\..*?```python\n(.*?)```", page,
                      re.DOTALL | re.MULTILINE)


def recipe(number, code):
    def run():
        printed = start("-c", code + END)
        assert printed and "False" not in printed

    run.__name__ = f"recipe_{number}"
    return run


def program(name, module, output):
    def run():
        needs(module)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(EXAMPLES, name)
            got = start_here(path) if name == "infer_torch.py" else start(path, cwd=folder)
            assert re.fullmatch(output, got), f"not {output}"
            if name == "infer_ncnn.py":
                # The camera shows the same bars. The others take longer to start.
                assert start(os.path.join(EXAMPLES, name), "/dev/video0") == 2 * BARS
            for picture in os.listdir(folder):
                check_picture(os.path.join(folder, picture))

    run.__name__ = name.removesuffix(".py")
    return run


def check_picture(path):
    """A PNG of 640x360 whose pixels are not all alike."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[16:24].hex() == "0000028000000168"
    chunks, at = b"", 8
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT":
            chunks += data[at + 8:at + 8 + size]
        at += size + 12
    assert len(set(zlib.decompress(chunks))) > 2


def cases(torch):
    """Returns the cases that need PyTorch, or the others."""
    found = recipes()
    assert [int(n) for n, _ in found] == list(range(1, 12)), "eleven recipes"
    assert {*PROGRAMS, *BY_HAND, "colour_bars.py"} == {
        n for n in os.listdir(EXAMPLES) if n.endswith(".py")}
    return ([recipe(n, code) for n, code in found if ("torch" in code) == torch] +
            [program(name, *how) for name, how in PROGRAMS.items()
             if ("torch" in name) == torch])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], cases(torch=False)))
