# SPDX-License-Identifier: MIT
"""Producers x consumers, each pair in a process of its own: some libraries
end the process instead of saying no."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from fnmatch import fnmatch
from typing import Any, NamedTuple

import dlbuf

from ._cells import (COPIED, CRASHED, DMABUF, NONE, OURS, PLAIN, REFUSED,
                     SHARED, WRONG, Cell, cells_of, one_line, plan)
from ._libraries import LIBRARIES, Library
from ._memory import COMMON

_HERE = os.path.dirname(os.path.abspath(__file__))
YARDSTICK = "numpy"


class Report(NamedTuple):
    """The results of a run: all output is made from them."""

    machine: dict[str, str]
    libraries: dict[str, str | None]    # name -> version, None: not installed
    cells: list[Cell]
    faults: list[tuple[Cell, str]]      # what should have been, and was not

    def to_json(self) -> dict[str, Any]:
        return {"machine": self.machine, "libraries": self.libraries,
                "cells": [c._asdict() for c in self.cells],
                "faults": [{**c._asdict(), "owed": why}
                           for c, why in self.faults]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        cells = [Cell(**c) for c in data["cells"]]
        return cls(data["machine"], data["libraries"], cells, faults(cells))


# ------------------------------------------------------------------ the run

def versions() -> dict[str, str | None]:
    """Asked of a process each: not all of them like each other."""
    ret: dict[str, str | None] = {}
    for name, kind in LIBRARIES.items():
        if kind.ours or kind.module in ("builtins",):
            continue
        ret[name] = None
        if importlib.util.find_spec(kind.module) is None:
            continue
        p = subprocess.run(
            [sys.executable, _HERE, "--version-of", name],
            capture_output=True, text=True)
        lines = p.stdout.splitlines()
        if p.returncode or not lines:
            said = p.stderr.strip().splitlines() or ["it ended"]
            ret[name] = f"broken: {said[-1][:120]}"
        else:
            ret[name] = lines[-1]
    return ret


def exporter() -> str:
    """A reason why there are no new dma-bufs here, or nothing."""
    try:
        dlbuf.alloc((1,), "uint8").close()
    except dlbuf.Error as e:
        return e.strerror or str(e)
    return ""


def pairs(usable: Iterable[str], dmabuf: bool, everything: bool
          ) -> list[tuple[str, str]]:
    """(producer, consumer): ours with all, all with ours, and NumPy with all,
    which says what a consumer takes of others."""
    names = [n for n, kind in LIBRARIES.items()
             if kind.ours or kind.module == "builtins" or n in usable]
    makers = [n for n in names if LIBRARIES[n].produces]
    ret = [(p, c) for p in ((PLAIN, DMABUF) if dmabuf else (PLAIN,))
           for c in names]
    for p in makers:
        for c in names:
            if LIBRARIES[c].ours:
                continue
            if everything or c in (p, "dlbuf") or p == YARDSTICK:
                ret.append((p, c))
    return ret


def _library(name: str, cache: dict[str, Library]) -> Library:
    if name not in cache:
        cache[name] = LIBRARIES[name]()
    return cache[name]


def work(producer: str, consumer: str, wanted: list[tuple[str, str]]) -> None:
    """The child: prints each cell before it tries it, then the result."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)       # what libraries print is not ours to read
    cache: dict[str, Library] = {}
    library = _library(consumer, cache)
    source = None if producer in OURS else _library(producer, cache)
    for at, call in enumerate(cells_of(producer, source, library, wanted)):
        print(json.dumps({"next": at}), file=out)
        print(json.dumps(call()), file=out)


class _Child(NamedTuple):
    cells: list[Cell]
    last: int           # the cell that it was at, -1: none
    status: int
    said: str


def _run_child(producer: str, consumer: str, wanted: list[tuple[str, str]]
               ) -> _Child:
    cells: list[Cell] = []
    last = -1
    with tempfile.TemporaryFile("w+", errors="replace") as err:
        with subprocess.Popen(
                [sys.executable, _HERE, "--work", producer,
                 consumer], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=err, text=True) as p:
            assert p.stdin and p.stdout
            p.stdin.write(json.dumps(wanted))
            p.stdin.close()
            for line in p.stdout:
                data = json.loads(line)
                if isinstance(data, dict):
                    last = int(data["next"])  # pyright: ignore
                else:
                    cells.append(Cell(*data))
        err.seek(0)
        said = err.read()
    return _Child(cells, last, p.returncode, said)


def _why(child: _Child) -> str:
    """How a process ended, and the sentence that it left."""
    if child.status < 0:
        how = signal.Signals(-child.status).name
    else:
        how = f"exit status {child.status}"
    for line in child.said.splitlines():
        if "Check failed" in line:
            return f"{how}: {one_line(line[line.index('Check failed'):])}"
    return how


def run_pair(producer: str, consumer: str, wanted: list[tuple[str, str]]
             ) -> list[Cell]:
    """Every cell of a pair, with any end of the processes."""
    cells: list[Cell] = []
    left = list(wanted)
    while left:
        child = _run_child(producer, consumer, left)
        cells += child.cells
        if len(child.cells) == len(left) and not child.status:
            break
        at = len(child.cells)
        why = _why(child)
        if at >= len(left) or child.last < at:
            # Before the first cell, between two, or at the end.
            cells += [Cell(producer, consumer, d, l, CRASHED, why)
                      for d, l in left[at:at + 1] or left[-1:]]
            cells += [Cell(producer, consumer, d, l, CRASHED, "not tried")
                      for d, l in left[at + 1:]]
            break
        dtype, layout = left[at]
        cells.append(Cell(producer, consumer, dtype, layout, CRASHED, why))
        # Others of this layout would cost a process each.
        rest = left[at + 1:]
        cells += [Cell(producer, consumer, d, l, CRASHED,
                       f"not tried: {dtype} ended the process")
                  for d, l in rest if l == layout]
        left = [(d, l) for d, l in rest if l != layout]
    return cells


# ------------------------------------------------------------------ dlbuf's duties

def faults(cells: list[Cell]) -> list[tuple[Cell, str]]:
    """Cells that are dlbuf's to answer for, each with the reason.

    - nothing is wrong in a cell that dlbuf is a part of: values, addresses,
      dtypes, writes both ways, bytes beside the tensor, deleters once
    - dlbuf takes what dlbuf hands out, and what a library takes of its own
    - memoryview and the array interface have every dtype that has words there
    - a consumer that shares NumPy's array shares a tensor of that layout
    """
    by: dict[tuple[str, ...], Cell] = {c[:4]: c for c in cells}
    ret: list[tuple[Cell, str]] = []
    for c in cells:
        why = _owed(c, by)
        if why:
            ret.append((c, why))
    return ret


def _owed(c: Cell, by: dict[tuple[str, ...], Cell]) -> str:
    ours = LIBRARIES[c.consumer].ours or c.consumer == "dlbuf"
    if c.producer not in OURS and not ours:
        return ""
    base = by.get((YARDSTICK, c.consumer, c.dtype, c.layout))
    if c.state == WRONG:
        if base and not ours and (base.state, base.words) == (WRONG, c.words):
            return ""       # with NumPy's as well
        return "wrong"
    if c.state in (SHARED, NONE):
        return ""
    if c.dtype not in COMMON and c.dtype != "capsule" and (
            not LIBRARIES[c.consumer].capsules):
        return ""           # the buffer protocol has no words for it
    if c.producer in OURS and ours:
        return "dlbuf does not take its own"
    if ours:
        base = by.get((c.producer, c.producer, c.dtype, c.layout))
        if base is None or base.state == SHARED:
            return f"{c.producer} takes its own"
        return ""
    if (base is not None and base.state == SHARED and
            LIBRARIES[c.consumer].peers):
        return f"{c.consumer} shares NumPy's"
    return ""


# ------------------------------------------------------------------ a run

def machine_of(reason: str) -> dict[str, str]:
    """reason: why there are no new dma-bufs here, or nothing."""
    return {
        "dlbuf": dlbuf.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "dma-bufs": reason or "yes",
    }


def run(only: list[str], everything: bool) -> Report:
    """only: wildcards of "producer/consumer/dtype/layout", from the left."""
    reason = exporter()
    libraries = versions()
    usable = [n for n, v in libraries.items()
              if v is not None and not v.startswith("broken")]
    cells: list[Cell] = []
    for producer, consumer in pairs(usable, not reason, everything):
        wanted = [(d, l) for d, l in plan(producer, LIBRARIES[consumer])
                  if _chosen(only, (producer, consumer, d, l))]
        if wanted:
            cells += run_pair(producer, consumer, wanted)
    return Report(machine_of(reason), libraries, cells, faults(cells))


def _chosen(only: list[str], names: tuple[str, ...]) -> bool:
    return not only or any(
        all(fnmatch(name, part or "*")
            for name, part in zip(names, pattern.split("/")))
        for pattern in only)


def merge(reports: list[Report]) -> Report:
    """Several runs as one; of a cell that two have, the first one's."""
    machine = dict(reports[0].machine)
    libraries: dict[str, str | None] = {}
    cells: dict[tuple[str, ...], Cell] = {}
    for r in reports:
        for name, version in r.libraries.items():
            if libraries.get(name) is None:
                libraries[name] = version
        for c in r.cells:
            cells.setdefault(c[:4], c)
    every = list(cells.values())
    return Report(machine, libraries, every, faults(every))


STATES = (SHARED, COPIED, REFUSED, CRASHED, WRONG, NONE)
