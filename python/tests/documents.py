# SPDX-License-Identifier: MIT
"""What the documentation consists of: the docstrings of all public names, and the
python blocks of the Markdown files.

    documents.py FOLDER     writes each block as a module for type checkers

A block that needs names has a line before it with their types; a loop without an
end has what ends it. One that is not checked, or checked and not run in the lab, has
the reason:

    <!-- given: fd: int, importer: Any -->
    <!-- until: the camera is unplugged -->
    <!-- not checked: cocotb is not installed -->
    <!-- not run: PyAV is not installed -->
"""

import ast
import glob
import inspect
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
PYTHON = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_BLOCK = re.compile(r"(?:<!-- (given|until|not checked|not run): ([^>]*) -->\n)?"
                    r"```python\n(.*?)\n```\n((?:(?!```).)*?```\n.*?\n```)?",
                    re.S)


class Block(NamedTuple):
    """A python block. word and text are of the line before it. prints: None, or
    the text of the next block if that is its output: only "prints" is between."""

    name: str
    section: str
    code: str
    word: str
    text: str
    prints: str | None


def blocks() -> Iterator[Block]:
    """Every python block of the Markdown files."""
    for path in [os.path.join(PYTHON, "README.md"), *sorted(
            glob.glob(ROOT + "/*.md") + glob.glob(ROOT + "/docs/**/*.md",
                                                  recursive=True))]:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        stem = re.sub(r"\W", "_", os.path.relpath(path, ROOT)[:-3]).lower()
        for m in _BLOCK.finditer(text):
            line = text[:m.start(3)].count("\n") + 1
            section = text[:m.start()].rpartition("\n## ")[2].split("\n")[0]
            between, _, output = (m[4] or "").partition("```\n")
            prints = re.fullmatch(r"\s*|\s*prints\b[^#]*", between) and m[4]
            yield Block(f"{stem}_{line}", section, m[3] + "\n", m[1] or "",
                        m[2] or "", output[:-3] if prints else None)


def module_of(block: Block) -> str:
    """A module with the block in a function, whose parameters are the given names."""
    given = block.text if block.word == "given" else ""
    return ("from typing import Any\nimport dlbuf\n"
            f"def block({given}) -> None:\n"
            + textwrap.indent(block.code, "    "))


class Item(NamedTuple):
    """A public name: "Tensor.acquire". kind: "callable", "class" or "data"."""

    name: str
    kind: str
    doc: str


def _kind(obj: Any) -> str:
    if inspect.isclass(obj):
        return "class"
    return "callable" if callable(obj) else "data"


def _under_members(cls: type) -> dict[str, str]:
    """The docstrings under the members of an enum, or the fields of a record."""
    ret: dict[str, str] = {}
    node = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(node, ast.ClassDef)
    for member, doc in zip(node.body, node.body[1:]):
        if isinstance(doc, ast.Expr) and isinstance(member, (ast.Assign, ast.AnnAssign)):
            ret[re.findall(r"\w+", ast.unparse(member))[0]] = ast.unparse(doc)
    return ret


def items(module: ModuleType) -> Iterator[Item]:
    """Every public name of a module with its docstring, and its members."""
    for name in module.__all__:
        obj = getattr(module, name)
        if isinstance(obj, (int, tuple)):
            continue                    # a constant: the module's docstring
        yield Item(name, _kind(obj), inspect.getdoc(obj) or "")
        if not inspect.isclass(obj):
            continue
        fields: Any = getattr(obj, "__members__", getattr(obj, "_fields", ()))
        under = _under_members(obj) if fields else {}
        # Members of base classes of the package belong to the class, too, as Camera.frame() does.
        members = {k: v for cls in reversed(obj.__mro__) if cls.__module__ != "builtins" and
                   cls.__module__.startswith(module.__name__) for k, v in vars(cls).items()}
        for key, value in members.items():
            if key in fields:
                yield Item(f"{name}.{key}", "data", under.get(key, ""))
            if key[0] == "_" or key in fields:
                continue
            if isinstance(value, (classmethod, staticmethod)):
                value = value.__func__
            yield Item(f"{name}.{key}", _kind(value),
                       inspect.getdoc(value) or "")


# Strict, except for rules that a few lines of code cannot fulfil.
_PYRIGHT = {"typeCheckingMode": "strict", "extraPaths": [PYTHON]} | dict.fromkeys(
    ("reportMissingImports", "reportMissingModuleSource", "reportUnusedImport",
     "reportUnusedVariable", "reportUnknownVariableType",
     "reportUnknownMemberType", "reportUnknownArgumentType",
     "reportPossiblyUnboundVariable"), False)


def main(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(folder + "/*.py"):
        os.remove(old)
    with open(folder + "/pyrightconfig.json", "w", encoding="utf-8") as f:
        json.dump(_PYRIGHT, f)
    for block in blocks():
        if block.word == "not checked":
            print(f"{block.name}: {block.word}: {block.text}")
            continue
        with open(f"{folder}/{block.name}.py", "w", encoding="utf-8") as f:
            f.write(module_of(block))


if __name__ == "__main__":
    main(*sys.argv[1:])
