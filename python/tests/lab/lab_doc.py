# SPDX-License-Identifier: MIT
"""The examples of the docstrings and of the READMEs, as they are printed. For the
lab."""

import contextlib
import doctest
import errno
import gc
import importlib.util
import io
import itertools
import re
import os
import socket
from typing import Any

import dlbuf

from labtools import Skip, case, fds, raises
import documents
from lab_camera import control, vivid


# The examples of docstrings have imported these.
GIVEN = {"dlbuf": dlbuf, "errno": errno, "os": os, "socket": socket}


def examples(name, found):
    """A case that runs the examples of one public name and of its members."""
    def run():
        report, failed = io.StringIO(), 0
        for item in found:
            test = doctest.DocTestParser().get_doctest(
                item.doc, dict(GIVEN), item.name, None, None)
            runner = doctest.DocTestRunner(
                optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            failed += runner.run(test, out=report.write).failed
        assert not failed, report.getvalue()

    run.__name__ = f"doc_{name}"
    case(run)


for _name, _found in itertools.groupby(documents.items(dlbuf),
                                       lambda i: i.name.partition(".")[0]):
    examples(_name, list(_found))


class Unplugs(io.StringIO):
    """The third line that is printed is the last one of the camera."""

    def write(self, text):
        n = super().write(text)
        if text == "\n" and self.getvalue().count(text) == 3:
            control(vivid(), "-c", "disconnect=1")
        return n


def endless(block):
    """A case that runs a loop over a camera, which is unplugged: nothing is left."""
    def run():
        dlbuf.alloc(1, "uint8").device.trim(0)
        before = fds()
        with contextlib.redirect_stdout(Unplugs()):
            e = raises(dlbuf.Error, lambda: exec(
                block.code, {"__name__": "__main__", "dlbuf": dlbuf}))
        assert e.errno == errno.ENODEV, e
        del e
        gc.collect()
        dlbuf.alloc(1, "uint8").device.trim(0)
        assert fds() == before

    run.__name__ = f"doc_{block.name}"
    case(run)


def program(block):
    """A case that runs a block of a README with nothing but what a line before it
    names, which is here, or is a library that the guest may lack. Recipes have a
    test of their own, lab_examples.py."""
    def run():
        t = dlbuf.alloc((1080, 1920, 3), "uint8")
        names: dict[str, Any] = {"__name__": "__main__"}
        wanted = re.findall(r"(\w+):", block.text) if block.word else []
        if wanted:
            names |= {"dlbuf": dlbuf, "fd": t.fd}
        if "frame" in wanted:
            names["camera"] = dlbuf.Camera(format="NV12", size=(320, 180))
            names["frame"] = next(names["camera"])
        for name in {*wanted, *re.findall(r"\btorch\b", block.code)} - set(names):
            if not importlib.util.find_spec(name):
                raise Skip(f"there is no {name}")
        printed = io.StringIO()
        vivid()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.code, block.name, "exec"), names)
        if block.prints is not None:
            assert printed.getvalue() == block.prints, printed.getvalue()

    run.__name__ = f"doc_{block.name}"
    case(run)


for _block in documents.blocks():
    if _block.word == "until":
        endless(_block)
    elif (re.search("readme|prepare", _block.name) and _block.section != "Recipes" and
            not _block.word.startswith("not")):
        program(_block)
