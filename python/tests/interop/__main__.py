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
    report = _matrix.run(args.only, args.all)
    if not report.cells:
        print(f"nothing is called {' or '.join(args.only)}, or it is not "
              "installed", file=sys.stderr)
        return 2
    print("dlbuf {dlbuf}, Python {python}, {system}, {machine}; new dma-bufs: "
          "{dma-bufs}\n".format_map(report.machine))
    print(_report.markdown(report).rstrip())
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
