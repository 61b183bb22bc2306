# SPDX-License-Identifier: MIT
"""Everything public is documented. lab_doc.py runs the examples."""

import ast
import glob
import os
import re
import subprocess
import sys
import typing

import dlbuf
from dlbuf import _dlbuf

from documents import items


# They only refuse.
ABSENT = "TensorFrame.index", "TensorFrame.count"


def test_docstrings():
    """Each name has a docstring of its own. What can be called has an example, and so have
    the attributes of objects that have methods. Those of records and enums are in the
    example of the class."""
    shown = "Tensor", "TensorFrame", "Camera", "Device", "Exported"
    bare = [i.name for i in items(dlbuf) if not i.doc or ">>>" not in i.doc and (
        i.kind != "data" or i.name.partition(".")[0] in shown and i.name not in ABSENT)]
    assert not bare, " ".join(bare)


def documented(nodes, prefix=""):
    for node in nodes:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield prefix + node.name, ast.get_docstring(node)
            yield from documented(node.body, f"{node.name}.")


def test_stub():
    """The stub has the docstrings of the extension."""
    with open(os.path.dirname(_dlbuf.__file__) + "/_dlbuf.pyi") as f:
        stub = dict(documented(ast.parse(f.read()).body))
    theirs = {name for name in dlbuf.__all__
              if getattr(dlbuf, name) is getattr(_dlbuf, name, None)}
    wrong = [i.name for i in items(dlbuf)
             if i.name.partition(".")[0] in theirs and i.doc != stub.get(i.name)]
    assert not wrong, " ".join(wrong)


def test_costs():
    """README's ratios are those of docs/generated/performance.md."""
    root = os.path.join(os.path.dirname(__file__), "../../..")
    with open(root + "/docs/generated/performance.md") as f:
        text = f.read().partition("## cpu: NumPy")[2].partition("\n## ")[0]
    rows = {name: int(n) for name, n in re.findall(
        r"^\| \w+ \| (np\..*?) \| (\d+) ", text, re.M)}
    floor = rows["np.from_dlpack(array)"]
    with open(root + "/python/README.md") as f:
        text = f.read().partition("| conversion to a NumPy array |")[2]
    assert re.findall(r"\| ([\d.]+) \|", text)[:3] == [
        f"{rows[name] / floor:.2f}" for name in (
            "np.from_dlpack(from_fd())", "np.from_dlpack(t), t kept",
            "np.from_dlpack(t), t kept and acquired")]


def test_instructions():
    """README's counts and ratios are those of docs/generated/performance.md, but for round ones."""
    root = os.path.join(os.path.dirname(__file__), "../../..")
    with open(root + "/docs/generated/performance.md") as f:
        page = set(re.findall(r"\| ([\d.]+) (?=\|)", f.read()))
    with open(root + "/README.md") as f:
        text = f.read()
    counts = re.findall(r"(?<!about )\b\d+(?:,\d{3})+\b", text)
    assert len(counts) > 5
    for number in [n.replace(",", "") for n in counts] + re.findall(r"(\d\.\d\d) times", text):
        assert number in page, number


def rows_of(first):
    """The rows of README's table whose first heading that is."""
    root = os.path.join(os.path.dirname(__file__), "../../..")
    with open(root + "/python/README.md") as f:
        table = f.read().partition(f"\n| {first} |")[2].partition("\n\n")[0]
    return [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()]


def test_presets():
    """README's table of presets has their values."""
    names, _, *rows = rows_of("preset")
    assert {ast.literal_eval(row[0].strip("`")): {
        name.strip("`"): ast.literal_eval(cell) for name, cell in zip(names[1:], row[2:]) if cell}
        for row in rows} == dlbuf._prepare.PRESETS


def test_options():
    """README's table has each option of prepare(), with the values that are words."""
    _, _, *rows = rows_of("option")
    hints = typing.get_type_hints(dlbuf.PrepareOptions)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == sorted(hints)
    for row in rows:
        hint = hints[row[0].partition("`")[2].partition("`")[0]]
        if typing.get_origin(hint) is typing.Literal:
            assert re.findall(r'"(.*?)"', row[1]) == list(typing.get_args(hint)), row


def test_charts():
    """The pictures of costs are those that docs/generated/performance.md makes."""
    root = os.path.join(os.path.dirname(__file__), "../../..")
    assert not subprocess.run([sys.executable, f"{root}/tools/docs/charts"]).returncode


def test_names():
    """Functions that the documents call exist: dlbuf.gstreamer.frames, dlbuf.from_fd."""
    root = os.path.join(os.path.dirname(__file__), "../../..")
    package = os.path.dirname(dlbuf.__file__)
    named = set()
    for path in ("README.md", "python/README.md", "docs/adapters.md",
                 "docs/bindings.md", "docs/interop/libcamera.md", "docs/vpi.md"):
        with open(f"{root}/{path}") as f:
            named |= set(re.findall(r"\bdlbuf\.([a-z]\w+)(?:\.(\w+))?(?=\()", f.read()))
    assert len(named) > 10
    for name, member in named:
        obj = getattr(dlbuf, name, None)
        if member and not obj:
            with open(f"{package}/{name}.py") as f:     # imports what is not here
                assert f"\ndef {member}(" in f.read(), (name, member)
        else:
            assert obj and (not member or hasattr(obj, member)), (name, member)


def test_examples():
    """examples/README.md has each program, and builds or starts it as the program says."""
    folder = os.path.join(os.path.dirname(__file__), "../../../examples")
    with open(folder + "/README.md") as f:
        page = f.read()
    linked = set(re.findall(r"\]\(([^)#]+)", page))
    assert all(os.path.exists(f"{folder}/{name}") for name in linked)
    programs = {os.path.relpath(p, folder) for p in (
        *glob.glob(folder + "/*.*"), *glob.glob(folder + "/../python/examples/*.py"))}
    assert programs - {"README.md"} <= linked, programs - linked
    rows = re.findall(r"\]\((.*?)\).* \| `((?:cc|c\+\+|python3) .*?)`(?:: `(.*)`)? \|", page)
    assert len(rows) > 20
    for name, command, packages in rows:
        with open(f"{folder}/{name}") as f:
            text = f.read()
        libs = f" $(pkg-config --cflags --libs {packages})" if packages else ""
        assert command + libs in text, name


def test_module_lists_all():
    """help(dlbuf) names everything that is public."""
    listed = [word for line in (dlbuf.__doc__ or "").splitlines()
              if line.startswith("    ") for word in re.findall(r"\w+", line)]
    missing = set(dlbuf.__all__) - set(listed)
    assert not missing, missing
    assert sorted(dlbuf.__all__) == sorted(set(dlbuf.__all__))
    assert all(hasattr(dlbuf, name) for name in dlbuf.__all__)
