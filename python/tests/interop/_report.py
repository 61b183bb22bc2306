# SPDX-License-Identifier: MIT
"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ._cells import (CRASHED, DMABUF, NONE, PLAIN, REFUSED, SHARED, WRONG,
                     Cell)
from ._matrix import STATES, Report
from ._memory import DTYPES, LAYOUTS

Table = list[list[str]]


def _consumers(report: Report) -> list[str]:
    return list(dict.fromkeys(c.consumer for c in report.cells))


def _producers(report: Report) -> list[str]:
    return list(dict.fromkeys(c.producer for c in report.cells))


def overview(report: Report) -> Table:
    """Cells that are shared, of those that the producer can make."""
    consumers = _consumers(report)
    rows = [["producer", *consumers]]
    for p in _producers(report):
        row = [p]
        for consumer in consumers:
            cells = [c for c in report.cells if c.state != NONE and
                     (c.producer, c.consumer) == (p, consumer)]
            shared = sum(c.state == SHARED for c in cells)
            row.append(f"{shared}/{len(cells)}" if cells else "")
        rows.append(row)
    return rows


def _summary(cells: Sequence[Cell]) -> str:
    """A word for cells of several dtypes or layouts."""
    cells = [c for c in cells if c.state != NONE]
    if not cells:
        return ""
    states = {c.state for c in cells}
    if len(states) > 1:
        shared = sum(c.state == SHARED for c in cells)
        return f"{shared} of {len(cells)}"
    notes = {c.note for c in cells if c.note.startswith(
        ("read-only there", "writable there", "handed out as"))}
    if len({c.dtype for c in cells}) > 1:
        notes -= {n for n in notes if n.startswith("handed out as")}
    return states.pop() + "".join(f", {n}" for n in sorted(notes))


def by_dtype(report: Report, pairs: list[tuple[str, str, str]]) -> Table:
    """A row for each dtype, contiguous; pairs: (heading, producer, consumer)"""
    rows = [["dtype", *(heading for heading, _, _ in pairs)]]
    for dtype in DTYPES:
        rows.append([dtype, *(_summary(
            [c for c in report.cells if c[:4] == (p, q, dtype, "contiguous")])
            for _, p, q in pairs)])
    return rows


def by_layout(report: Report, pairs: list[tuple[str, str, str]]) -> Table:
    """A row for each layout, over the dtypes that are not refused as such."""
    rows = [["layout", *(heading for heading, _, _ in pairs)]]
    taken = {c[:3] for c in report.cells
             if c.layout == "contiguous" and c.state not in (REFUSED, NONE)}
    for layout in LAYOUTS:
        rows.append([layout, *(_summary(
            [c for c in report.cells
             if c.layout == layout and (c.producer, c.consumer) == (p, q) and
             c[:3] in taken]) for _, p, q in pairs)])
    return rows


def capsules(report: Report) -> Table:
    """How often the deleter ran where a capsule did not end as usual."""
    cells = [c for c in report.cells if c.dtype == "capsule"]
    cases = list(dict.fromkeys(c.layout for c in cells))
    rows = [["consumer", *cases]]
    for q in dict.fromkeys(c.consumer for c in cells):
        mine = {c.layout: c for c in cells if c.consumer == q}
        rows.append([q, *(
            "" if case not in mine else
            "once" if mine[case].state == SHARED else mine[case].words
            for case in cases)])
    return rows


def _some(names: Sequence[str], everything: int) -> str:
    names = list(dict.fromkeys(names))
    if len(names) == everything:
        return "all"
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more"
                                   if len(names) > 4 else "")


def words(cells: Sequence[Cell], wanted: Sequence[str] = (
        REFUSED, CRASHED, WRONG)) -> list[tuple[str, str, str, str]]:
    """(pair, state, where, what was said), alike sentences together."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for c in cells:
        if c.state in wanted and "not tried" not in c.words:
            key = (f"{c.producer} -> {c.consumer}", c.state,
                   re.sub(r"0x[0-9a-f]+|\d+", "N", c.words))
            groups.setdefault(key, []).append(c)
    return [(pair, state, f"{_some([c.layout for c in cells], len(LAYOUTS))}; "
             f"{_some([c.dtype for c in cells], len(DTYPES))}",
             cells[0].words) for (pair, state, _), cells in groups.items()]


def _pairs(report: Report, ours: bool) -> list[tuple[str, str, str]]:
    seen = list(dict.fromkeys((c.producer, c.consumer) for c in report.cells))
    if ours:
        return [(q, p, q) for p, q in seen if p == PLAIN]
    return [(p, p, q) for p, q in seen if q == "dlbuf" and
            p not in (PLAIN, DMABUF)]


def _sections(report: Report) -> list[tuple[str, Table]]:
    ret: list[tuple[str, Table]] = []
    for title, pairs in (
            ("A dlbuf.Tensor in their hands", _pairs(report, True)),
            ("Theirs in dlbuf.from_dlpack()", _pairs(report, False))):
        if pairs:
            ret.append((f"{title}, by layout", by_layout(report, pairs)))
            ret.append((f"{title}, by dtype", by_dtype(report, pairs)))
    if any(c.dtype == "capsule" for c in report.cells):
        ret.append(("How often the deleter ran", capsules(report)))
    return ret


def _counts(report: Report) -> str:
    return ", ".join(f"{n} {state}" for state in STATES if state != NONE
                     for n in [sum(c.state == state for c in report.cells)]
                     if n)


def _markdown_table(rows: Table) -> list[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    return [line(rows[0]), "|" + "---|" * len(rows[0]),
            *(line(r) for r in rows[1:])]


def markdown(report: Report) -> str:
    """The program's output, and the generated part of docs/generated/python.md."""
    installed = [[name, version] for name, version in report.libraries.items()
                 if version]
    lines = ["## Versions", "", *_markdown_table(
        [["library", "version"], *installed]), "",
        "## Overview", "",
        "Cells that are shared, of those that the producer can make.", "",
        *_markdown_table(overview(report))]
    for title, table in _sections(report):
        lines += ["", f"## {title}", "", *_markdown_table(table)]
    lines += ["", "## What they said", ""]
    lines += _markdown_table([["pair", "state", "where", "words"], *(
        [pair, state, where, f"`{what.replace('`', chr(39))}`"]
        for pair, state, where, what in words(report.cells))])
    lines += ["", f"{_counts(report)}; {len(report.faults)} that dlbuf owes.",
              "", *(f"FAULT {pair}: {state}: {where}: {what}" for
                    pair, state, where, what in words(
                        [c for c, _ in report.faults], STATES))]
    return "\n".join(lines)
