#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Other libraries' own DLPack tests, with dlbuf between producer and consumer.

    python/tests/interop/peers.py OUT.json LIBRARY FILE...

Every exchange in these files goes through a dlbuf.Tensor. Their calls
`from_dlpack(x)` become `from_dlpack(dlbuf.from_dlpack(x))`, and `x.__dlpack__()` becomes
`dlbuf.from_dlpack(x).__dlpack__()`; `super().__dlpack__()` stays, because it is
part of a producer. What fails runs again as it is. A test that fails with dlbuf
only must be in DIFFERENCES, and one that is there must fail. OUT.json has the
counts and the reasons, for tools/docs/interop. Needs pytest.
"""

import ast
import fnmatch
import importlib
import json
import os
import sys
import types
import warnings

import pytest

import dlbuf

# (library and version, test, reason); the first two are shell patterns, of the
# test as pytest names it.
DIFFERENCES = [
    ("numpy *", "*::test_dunder_dlpack_stream",
     "`x.__dlpack__(stream=1)` of CPU memory is a `RuntimeError` of NumPy and a "
     "`ValueError` of dlbuf. The standard names no class"),
    ("numpy 1.23.*", "*::test_readonly",
     "a read-only array without `max_version` is a `TypeError` of this NumPy "
     "and a `BufferError` of dlbuf and of NumPy since 1.25, as the standard "
     "says"),
    ("numpy 2.*", "*::test_writeable",
     "NumPy makes an array of DLPack before 1.0 read-only, because the old "
     "struct has no read-only flag. dlbuf takes such memory as writable, as the "
     "old struct was meant, and passes it on with the flags of DLPack 1.0"),
    ("numpy 2.[12].*", "*::test_device",
     "a device that the memory is not on is a `ValueError` of this NumPy, and "
     "a `BufferError` of dlbuf and of newer NumPy, as the standard says"),
]

exchanges = 0


def through(consumer, x, /, *args, **kwargs):
    """The replacement of the calls of from_dlpack()."""
    global exchanges
    exchanges += 1
    return consumer(dlbuf.from_dlpack(x), *args, **kwargs)


def producer(x, /):
    """The replacement of an object whose method of the protocol is called."""
    global exchanges
    exchanges += 1
    return dlbuf.from_dlpack(x)


class Through(ast.NodeTransformer):
    def visit_Call(self, node):
        self.generic_visit(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name == "from_dlpack":
            node.args.insert(0, node.func)
            node.func = ast.Name("_dlbuf_through", ast.Load())
        elif name in ("__dlpack__", "__dlpack_device__"):
            x = node.func.value
            if not (isinstance(x, ast.Call) and
                    getattr(x.func, "id", None) == "super"):
                node.func.value = ast.Call(
                    ast.Name("_dlbuf_producer", ast.Load()), [x], [])
        return node


class Module(pytest.Module):
    """A file of tests whose calls are replaced."""

    def _getobj(self):
        tree = Through().visit(ast.parse(self.path.read_text()))
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        module._dlbuf_through, module._dlbuf_producer = through, producer
        sys.modules[self.path.stem] = module
        code = compile(ast.fix_missing_locations(tree), module.__file__, "exec")
        exec(code, module.__dict__)
        return module


class Run:
    """Collects for pytest: {test: [outcome, words, exchanges]}."""

    def __init__(self, with_dlbuf):
        self.with_dlbuf, self.results = with_dlbuf, {}

    def pytest_pycollect_makemodule(self, module_path, parent):
        if self.with_dlbuf:
            return Module.from_parent(parent, path=module_path)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = exchanges
        try:
            return (yield)
        finally:
            if item.nodeid in self.results:
                self.results[item.nodeid][2] = exchanges - before

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            words = report.longreprtext if report.failed else ""
            self.results[report.nodeid] = [report.outcome, words, 0]

    def pytest_collectreport(self, report):
        if report.failed:
            self.results[report.nodeid] = ["failed", report.longreprtext, 0]


def run(tests, with_dlbuf):
    """In a fork: tests set globals, and importing is slow."""
    root = os.path.dirname(os.path.abspath(tests[0]))
    r, w = os.pipe()
    with warnings.catch_warnings(action="ignore"):
        pid = os.fork()     # of a process with threads, which only waits
    if not pid:
        plugin = Run(with_dlbuf)
        pytest.main(["--noconftest", "--assert=plain", f"--rootdir={root}",
                     "--import-mode=importlib", "-c", os.devnull, "-W",
                     "ignore", "-p", "no:cacheprovider", "-p", "no:terminal",
                     *tests], plugins=[plugin])
        with open(w, "w") as f:
            json.dump(plugin.results, f)
        os._exit(0)
    os.close(w)
    with open(r) as f:
        said = f.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert not status, f"the tests ended with {status}"
    return json.loads(said)


def compare(library, files):
    """-> (what tools/docs/interop reads, a sentence for each surprise)."""
    version = importlib.import_module(library).__version__
    paths = {os.path.basename(f): f for f in files}
    ours = run(files, True)
    failed = [t for t, (outcome, _, _) in ours.items() if outcome == "failed"]
    # The others pass or are skipped, as they are without dlbuf.
    plain = run([paths[t.partition("::")[0]] + t[len(t.partition("::")[0]):]
                 for t in failed], False) if failed else {}
    used = {t: r for t, r in ours.items() if r[2]}
    wrong, differ = [], []
    for test, (outcome, words, _) in ours.items():
        reason = next((why for who, pattern, why in DIFFERENCES
                       if fnmatch.fnmatchcase(f"{library} {version}", who) and
                       fnmatch.fnmatchcase(test, pattern)), None)
        if outcome == "failed" and plain[test][0] == "passed":
            differ.append([test, reason])
            if not reason:
                wrong.append(f"{test} fails with dlbuf only: {words}")
        elif reason:
            wrong.append(f"{test} is in DIFFERENCES, and {outcome} as without "
                         "dlbuf")
    if not used:
        wrong.append("no test exchanges a tensor")
    return {"library": library, "version": version,
            "files": sorted({t.partition("::")[0] for t in used}),
            "tests": len(used), "differ": sorted(differ)}, wrong


def main(out, library, *files):
    result, wrong = compare(library, files)
    with open(out, "w") as f:
        json.dump(result, f)
    print(f"{library} {result['version']}: {len(result['differ'])} of "
          f"{result['tests']} tests that exchange tensors differ")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
