# SPDX-License-Identifier: MIT
"""The report of a run on a machine with a GPU, as JSON and as Markdown: from
what ran, and from nothing else."""

import datetime
import json
import os
import re

RESULT = re.compile(r"(ok|not ok)\b *\d* *-? *([^#]*?)\s*(?:# SKIP *(.*))?$")

INTRO = """\
Written by `make check-gpu` on {date}, from what ran on that machine. A refusal
is the driver's answer and no failure.
"""

NOT_HARDWARE = """\
This is a double of the driver, not hardware: it says that the suite runs, and
nothing about any GPU.
"""


def results_of(log):
    """A program's output: name, result, reason."""
    try:
        with open(log, errors="replace") as f:
            lines = f.read().split("\n")
    except OSError:
        return []
    found = []
    for line in lines:
        if m := RESULT.match(line):
            result = "skip" if m[3] is not None else m[1]
            found.append({"name": m[2], "result": result,
                          "reason": m[3] or ""})
    return found


def lines_of(path):
    """A file of JSON lines."""
    try:
        with open(path) as f:
            return [json.loads(line) for line in f if line.strip()]
    except OSError:
        return []


def numbers_of(path):
    """bench/cuda's figures; None: it did not run."""
    found = {"figures": [], "targets": [], "skipped": []}
    for line in lines_of(path):
        kind = line.pop("kind")
        found[kind].append(line["name"] if kind == "skipped" else line)
    return found if any(found.values()) else None


def left_out(log):
    """The parts that make names because something is not installed."""
    try:
        with open(log, errors="replace") as f:
            return [l.partition("ABSENT")[2].strip() for l in f
                    if l.startswith("  ABSENT ")]
    except OSError:
        return []


def step_of(name, result, reason, folder):
    """The cases of a program, or the one that it is itself."""
    return results_of(os.path.join(folder, name + ".ktap")) or [
        {"name": name, "result": result, "reason": reason}]


def collect(machine, steps, folder, totals):
    """steps: name, result, reason; each has what it printed in the folder."""
    return {
        "title": title(machine),
        "date": datetime.date.today().isoformat(),
        "machine": machine,
        "totals": totals,
        "steps": {step[0]: step_of(*step, folder) for step in steps},
        "records": lines_of(os.path.join(folder, "records.jsonl")),
        "left_out": left_out(os.path.join(folder, "build.log")),
        "numbers": numbers_of(os.path.join(folder, "figures.jsonl")),
    }


def title(machine):
    if machine["double"]:
        return "Double of the driver, not hardware"
    if not machine["hardware"]:
        return f"{machine['gpu']}: no NVIDIA module in this kernel"
    return f"{machine['gpu']}, driver {machine['driver']}"


def file_name(machine):
    words = (f"{machine['gpu']}-{machine['driver']}" if machine["hardware"]
             else "double" if machine["double"] else "no-hardware")
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-.")


# ------------------------------------------------------------------ Markdown

def cell(x):
    return str(x).replace("|", "\\|").replace("<", "&lt;")


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell(c) for c in row) + " |"
    yield ""


def words(value):
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return {True: "yes", False: "no", None: "unknown"}.get(value, value) \
        if not isinstance(value, int) or isinstance(value, bool) else value


def markdown(r):
    yield from [f"# {r['title']}", ""]
    if r["machine"]["double"]:
        yield from [NOT_HARDWARE]
    yield INTRO.format(date=r["date"])
    t = r["totals"]
    yield from [f"{t['passed']} passed, {t['failed']} failed, "
                f"{t['skipped']} skipped.", ""]
    yield from ["## The machine", ""]
    yield from table(["", ""], [(k.replace("_", " "), words(v))
                                for k, v in r["machine"].items()])
    if r["left_out"]:
        yield from ["Built without: " + "; ".join(r["left_out"]) + ".", ""]
    yield from failures(r)
    yield from findings(r["records"])
    yield from numbers(r["numbers"])
    yield from steps(r["steps"])


def failures(r):
    failed = [(s, c["name"]) for s, cases in r["steps"].items()
              for c in cases if c["result"] == "not ok"]
    if failed:
        yield from ["## What failed", ""]
        yield from table(["program", "case"], failed)


def findings(records):
    """By what they are about, in the order in which they were found."""
    groups = {}
    for record in records:
        group = record["what"].split("/")[0]
        groups.setdefault(group, []).append((record["what"], record["said"]))
    if groups:
        yield from ["## What the driver said", ""]
    for group, rows in groups.items():
        yield from [f"### {group}", ""]
        yield from table(["asked", "answer"], rows)


def numbers(n):
    if not n:
        return
    yield from ["## Numbers", "",
                "Medians of one run. Ratios are of things measured in turn.",
                ""]
    yield from table(["what", "value", "unit"],
                     [(f["name"], f["value"], f["unit"])
                      for f in n["figures"]])
    if n["targets"]:
        yield from table(["target", "", "measured"],
                         [(f["name"], "met" if f["met"] else "missed",
                           f["measured"]) for f in n["targets"]])
    for s in n["skipped"]:
        yield f"- {s}"
    if n["skipped"]:
        yield ""


def lines_about(n):
    """The same for people."""
    if not n:
        return
    for f in n["figures"]:
        yield f"{f['name']}: {f['value']:g} {f['unit']}"
    for f in n["targets"]:
        yield (f"{'met' if f['met'] else 'missed'}: {f['name']}, "
               f"{f['measured']}")


def steps(all_steps):
    yield from ["## What ran", ""]
    rows, skipped = [], {}
    for name, cases in all_steps.items():
        count = {k: sum(c["result"] == k for c in cases)
                 for k in ("ok", "not ok", "skip")}
        rows.append((name, *count.values()))
        for c in cases:
            if c["result"] == "skip":
                skipped.setdefault((name, c["reason"]), []).append(c["name"])
    yield from table(["program", "passed", "failed", "skipped"], rows)
    if skipped:
        yield from ["Skipped:", ""]
        yield from table(["program", "cases", "because"],
                         [(name, cases[0] if len(cases) == 1 else len(cases),
                           reason) for (name, reason), cases in skipped.items()])


def write(report, folder):
    """The paths of both files."""
    os.makedirs(folder, exist_ok=True)
    stem = os.path.join(folder, file_name(report["machine"]))
    with open(stem + ".json", "w") as f:
        json.dump(report, f, ensure_ascii=False)
        f.write("\n")
    with open(stem + ".md", "w") as f:
        f.write("\n".join(markdown(report)).rstrip() + "\n")
    return stem + ".md", stem + ".json"
