# SPDX-License-Identifier: MIT
"""The examples of the docstrings and of the README, as programs. For the lab."""

import contextlib
import doctest
import errno
import importlib.util
import io
import itertools
import re
import os
import socket

import dlbuf

import documents
from labtools import Skip, case


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


def program(block):
    """A case that runs a block of a README. What it is given is here, or a library
    that the guest may lack. Recipes have a test of their own, lab_examples.py."""
    def run():
        t = dlbuf.alloc((1080, 1920, 3), "uint8")
        names = {"dlbuf": dlbuf, "fd": t.fd}
        wanted = re.findall(r"(\w+):", block.text) if block.word else []
        if "frame" in wanted:
            names["camera"] = dlbuf.Camera(format="NV12", size=(320, 180))
            names["frame"] = next(names["camera"])
        for name in {*wanted, *re.findall(r"\btorch\b", block.code)} - set(names):
            if not importlib.util.find_spec(name):
                raise Skip(f"there is no {name}")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.code, block.name, "exec"), names)
        if block.prints is not None:
            assert printed.getvalue() == block.prints, printed.getvalue()

    run.__name__ = f"doc_{block.name}"
    case(run)


for _block in documents.blocks():
    if ("readme" in _block.name and _block.section != "Recipes" and
            not _block.word.startswith("not")):
        program(_block)
