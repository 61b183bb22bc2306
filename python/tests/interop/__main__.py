# SPDX-License-Identifier: MIT
"""Which libraries on this machine share memory with dlbuf, and how.

Each cell hands memory of a producer to a consumer and proves what came of it:
what is written through the one is read through the other, and back. "shared",
"copied", "refused" in the consumer's own words, or "crashed" where it ended
the process, each pair being a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

if not __package__:
    # `python3 FOLDER` has the folder itself on the path, not where it is.
    sys.path[0] = os.path.dirname(os.path.abspath(sys.path[0]))

from interop import _matrix, _report
from interop._libraries import LIBRARIES


def _progress(label: str, total: int, done: int) -> None:
    """One line that changes, on a terminal only."""
    end = "\r" if done < total else "\r" + " " * 60 + "\r"
    text = f"{label}: {done}/{total}" if done < total else ""
    print(f"{text:<60}", end=end, file=sys.stderr, flush=True)


def _quiet(label: str, total: int, done: int) -> None:
    pass


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python3 python/tests/interop", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit status: 1 where something fails that dlbuf owes: values, "
        "writes, addresses or\ndeleters that are wrong, or a refusal that a "
        "library does not make with its own\nor NumPy's arrays. What others do "
        "not take is no failure, nor is what is not\ninstalled.")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN",
                   help="producer/consumer/dtype/layout, with wildcards, as "
                   "many parts as wanted: 'dlbuf/torch', '*/*/uint8'; may be "
                   "given several times")
    p.add_argument("--all", action="store_true",
                   help="pairs that dlbuf has no part in, too")
    p.add_argument("--json", action="store_true", help="every cell, as JSON")
    p.add_argument("--markdown", action="store_true",
                   help="the tables of the documentation")
    p.add_argument("--from", action="append", default=[], metavar="FILE",
                   dest="files", help="nothing is run: reports that --json has "
                   "written, as one")
    p.add_argument("--list", action="store_true",
                   help="the libraries that it knows")
    p.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    p.add_argument("--version-of", help=argparse.SUPPRESS)
    return p


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if args.work:
        producer, consumer = args.work
        _matrix.work(producer, consumer,
                     [(d, l) for d, l in json.load(sys.stdin)])
        return 0
    if args.version_of:
        print(LIBRARIES[args.version_of]().version)
        return 0
    if args.list:
        print("\n".join(LIBRARIES))
        return 0
    if args.files:
        reports: list[_matrix.Report] = []
        for name in args.files:
            with open(name) as f:
                reports.append(_matrix.Report.from_json(json.load(f)))
        report = _matrix.merge(reports)
    else:
        report = _matrix.run(
            args.only, args.all,
            _progress if sys.stderr.isatty() else _quiet)
        if not report.cells:
            print(f"nothing is called {' or '.join(args.only)}, or it is not "
                  "installed", file=sys.stderr)
            return 2
    if args.json:
        print(json.dumps(report.to_json(), indent=1))
    elif args.markdown:
        print(_report.markdown(report))
    else:
        colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(_report.text(report, colours))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
