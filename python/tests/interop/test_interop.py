# SPDX-License-Identifier: MIT
"""The interop matrix: it sees errors."""

import os
import subprocess
import sys

import pytest

import dlbuf
from interop import __main__ as program
from interop import _cells, _matrix, _memory, _report
from interop._cells import Cell, Plain, try_capsule, try_cell
from interop._libraries import ArrayInterface, Cannot, Dlbuf
from interop._memory import COMMON, DTYPES, LAYOUTS

U16, ROWS = DTYPES["uint16"], LAYOUTS["padded pitch"]


# ------------------------------------------------------------------ memory

@pytest.mark.parametrize("name, number, encoded", [
    ("float16", 3.0, "0042"), ("bfloat16", 3.0, "4040"),
    ("float32", 3.0, "00004040"), ("float64", 3.0, "0000000000000840"),
    ("float8_e4m3fn", 3.0, "44"), ("float8_e5m2", 3.0, "42"),
    ("float8_e5m2fnuz", 3.0, "46"), ("float8_e8m0fnu", 4.0, "81"),
    ("int16", 0x0303, "0303"), ("bool", True, "01"),
    ("complex64", 2 + 1j, "000000400000803f"),
])
def test_bytes_of_values(name, number, encoded):
    d = DTYPES[name]
    assert d.encoded[d.values.index(number)].hex() == encoded
    assert d.decode(bytes.fromhex(encoded)) == number


def test_bytes_of_numpy(np):
    for name in COMMON:
        d = DTYPES[name]
        a = np.frombuffer(b"".join(d.encoded), name)
        assert a.tolist() == list(d.values)


def test_bytes_of_ml_dtypes(np):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name, d in DTYPES.items():
        if name not in COMMON and hasattr(ml_dtypes, name):
            a = np.frombuffer(b"".join(d.encoded), getattr(ml_dtypes, name))
            assert [float(v) for v in a] == list(d.values), name


def test_every_write_is_seen():
    """Of every dtype and layout two rounds differ, or there are no bytes."""
    for d in DTYPES.values():
        for layout in LAYOUTS.values():
            lists = [layout.values(d, r) for r in range(2)]
            assert lists[0] != lists[1] or 0 in layout.shape
            assert all(0 <= i < _memory.EXTENT for i in layout.indices())


# ------------------------------------------------------------------ cells

class Raw(ArrayInterface):
    """A consumer that does all right; those below do not."""

    name = "raw"

def cell_of(library, dtype=U16, layout=ROWS):
    return try_cell("dlbuf", Plain, library, dtype, layout)


def test_shared():
    assert cell_of(Raw()) == Cell("dlbuf", "raw", "uint16", "padded pitch",
                                  "shared")


class Copies(Raw):
    def values(self, y, dtype):
        if not hasattr(self, "old"):
            self.old = super().values(y, dtype)
        return self.old


class Stale(Raw):
    """It reads other bytes than the memory has."""

    def values(self, y, dtype):
        return super().values(y, dtype)[::-1]


class HalfStale(Copies):
    def values(self, y, dtype):
        now = Raw.values(self, y, dtype)
        return super().values(y, dtype)[:6] + now[6:]


class Elsewhere(Raw):
    def address(self, y, dtype):
        return super().address(y, dtype) + 2


class Renames(Raw):
    def kind(self, y):
        return "int16"


class NoWrites(Raw):
    """Says that it wrote."""

    def fill(self, y, value, dtype):
        pass


class WritesOther(Raw):
    def fill(self, y, value, dtype):
        super().fill(y, dtype.values[2], dtype)


class WritesGaps(Raw):
    """Through the padding of a row."""

    def fill(self, y, value, dtype):
        super().fill(y, value, dtype)
        end = self.address(y, dtype) + 4 * dtype.size
        _memory.poke(end, b"\xee")


class Keeps(Raw):
    kept = []

    def take(self, x):
        y = super().take(x)
        self.kept.append(y)
        return y


class Breaks(Raw):
    def values(self, y, dtype):
        raise ArithmeticError("no\nmore")


@pytest.mark.parametrize("kind, state, words", [
    (Copies, "copied", ""),
    (Stale, "wrong", "it reads"),
    (HalfStale, "wrong", "after the producer's write"),
    (Elsewhere, "wrong", "another address"),
    (Renames, "wrong", "it became int16"),
    (NoWrites, "wrong", "the producer does not see"),
    (WritesOther, "wrong", "after the consumer's write"),
    (WritesGaps, "wrong", "element 4 of the memory"),
    (Keeps, "wrong", "the deleter ran 0 times"),
    (Breaks, "wrong", "it took it, and then ArithmeticError: no"),
])
def test_what_is_not_shared_is_seen(kind, state, words):
    cell = cell_of(kind())
    assert cell.state == state and cell.words.startswith(words) or (
        words in cell.words), cell
    assert "\n" not in cell.words


def test_deleted_twice_is_seen():
    source = Plain(U16, ROWS)
    source.producer._delete(None)
    with pytest.raises(_cells.Wrong, match="ran 2 times"):
        source.close()


def test_read_only_is_heeded():
    class Forgets(ArrayInterface):
        def read_only(self, y):
            return False

    cell = cell_of(Forgets(), layout=LAYOUTS["read-only"])
    assert (cell.state, cell.words) == ("wrong",
                                        "what is read-only can be written")
    Forgets.name = "raw"
    cell = cell_of(Forgets(), layout=LAYOUTS["read-only"])
    assert (cell.state, cell.note) == ("shared", "writable there")


@pytest.mark.parametrize("kind, text, state, words", [
    (KeyError, "a\nb", "refused", "KeyError: 'a\\nb'"),
    (ValueError, " a \nb", "refused", "ValueError: a"),
    (ValueError, "", "refused", "ValueError"),
    (Cannot, "none", "-", "none"),
])
def test_refused_and_cannot(kind, text, state, words):
    class Refuses(Raw):
        def take(self, x):
            raise kind(text)

    assert cell_of(Refuses())[4:] == (state, words, "")


def test_capsules():
    for case in _cells.CAPSULES:
        cell = try_capsule(case, Dlbuf())
        assert (cell.dtype, cell.layout, cell.state) == ("capsule", case,
                                                         "shared"), cell

    class Twice(Dlbuf):
        def take(self, x):
            return x

    assert try_capsule("consumed twice", Twice()).words == (
        "it consumed a capsule twice")

    class KeepsWhatItRefuses(Dlbuf):
        kept = []

        def take(self, x):
            self.kept.append(x)
            raise ValueError("no")

    cell = try_capsule("consumer raises", KeepsWhatItRefuses())
    assert cell.words == "the deleter ran 0 times"


# ------------------------------------------------------------------ faults

def cell(producer, consumer, state, dtype="uint8", layout="contiguous",
         words=""):
    return Cell(producer, consumer, dtype, layout, state, words)


@pytest.mark.parametrize("cells, why", [
    # Nothing of ours.
    ([cell("numpy", "torch", "wrong")], None),
    ([cell("dlbuf", "torch", "shared")], None),
    ([cell("dlbuf", "torch", "-")], None),
    # Others need not take arrays that they do not take from NumPy.
    ([cell("dlbuf", "torch", "refused")], None),
    ([cell("dlbuf", "torch", "refused"), cell("numpy", "torch", "copied")],
     None),
    ([cell("dlbuf", "torch", "crashed"), cell("numpy", "torch", "crashed")],
     None),
    ([cell("dlbuf", "torch", "refused"), cell("numpy", "torch", "shared")],
     "torch shares NumPy's"),
    ([cell("dlbuf", "torch", "copied"), cell("numpy", "torch", "shared")],
     "torch shares NumPy's"),
    ([cell("dlbuf dma-buf", "torch", "crashed"),
      cell("numpy", "torch", "shared")], "torch shares NumPy's"),
    # Wrong is wrong, unless NumPy's is as wrong.
    ([cell("dlbuf", "torch", "wrong")], "wrong"),
    ([cell("dlbuf", "torch", "wrong", words="a"),
      cell("numpy", "torch", "wrong", words="b")], "wrong"),
    ([cell("dlbuf", "torch", "wrong"), cell("numpy", "torch", "wrong")], None),
    ([cell("numpy", "dlbuf", "wrong")], "wrong"),
    # Our doors.
    ([cell("dlbuf", "dlbuf", "refused")], "dlbuf does not take its own"),
    ([cell("dlbuf", "dlbuf", "copied", "bfloat16")],
     "dlbuf does not take its own"),
    ([cell("dlbuf", "memoryview", "refused")], "dlbuf does not take its own"),
    ([cell("dlbuf", "memoryview", "refused", "bfloat16")], None),
    ([cell("dlbuf", "numpy.asarray", "refused", "bfloat16"),
      cell("numpy", "numpy.asarray", "shared", "bfloat16")], None),
    # It has another way for NumPy's.
    ([cell("dlbuf", "numba", "refused"), cell("numpy", "numba", "shared")],
     None),
    # We take the arrays that a library takes of its own.
    ([cell("torch", "dlbuf", "refused"), cell("torch", "torch", "shared")],
     "torch takes its own"),
    ([cell("torch", "dlbuf", "refused"), cell("torch", "torch", "refused")],
     None),
])
def test_faults(cells, why):
    assert [w for _, w in _matrix.faults(cells)] == ([why] if why else [])


# ------------------------------------------------------------------ processes

def test_processes_that_end(tmp_path, monkeypatch):
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\ncat > /dev/null\necho '{\"next\": 0}'\n"
                           "echo 'F1 x.h:1] Check failed: aligned' >&2\n"
                           "kill -ABRT $$\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(_matrix.sys, "executable", str(interpreter))
    cells = _matrix.run_pair("dlbuf", "raw", [
        ("uint8", "offset"), ("int8", "offset"), ("uint8", "contiguous")])
    assert [(c.dtype, c.layout, c.state, c.words) for c in cells] == [
        ("uint8", "offset", "crashed", "SIGABRT: Check failed: aligned"),
        ("int8", "offset", "crashed", "not tried: uint8 ended the process"),
        ("uint8", "contiguous", "crashed", "SIGABRT: Check failed: aligned")]


def test_processes_that_do_not_begin(tmp_path, monkeypatch):
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\ncat > /dev/null\nexit 3\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(_matrix.sys, "executable", str(interpreter))
    cells = _matrix.run_pair("dlbuf", "raw", [("uint8", "offset"),
                                              ("int8", "offset")])
    assert [(c.state, c.words) for c in cells] == [
        ("crashed", "exit status 3"), ("crashed", "not tried")]


def run(*args):
    return subprocess.run([sys.executable, os.path.dirname(_matrix.__file__), *args],
                          capture_output=True, text=True)


def test_program():
    p = run("--only", "dlbuf/memoryview/uint8", "--only", "dlbuf/dlbuf/*/off*")
    assert p.returncode == 0 and not p.stderr, p
    assert "34 shared; 0 that dlbuf owes" in p.stdout
    assert f"dlbuf {dlbuf.__version__}" in p.stdout
    p = run("--only", "nobody")
    assert p.returncode == 2 and "nobody" in p.stderr
    assert "Exit status" in run("--help").stdout


def test_program_that_finds_a_fault(monkeypatch, capsys):
    bad = cell("dlbuf", "dlbuf", "refused", words="NoError: none")
    monkeypatch.setattr(_matrix, "run", lambda only, every:
                        _matrix.Report({"dlbuf": "0", "python": "3", "system":
                                        "x", "machine": "y", "dma-bufs": "no"},
                                       {"torch": None}, [bad],
                                       _matrix.faults([bad])))
    assert program.main([]) == 1
    out = capsys.readouterr().out
    assert "FAULT dlbuf -> dlbuf: refused: contiguous; uint8: NoError" in out
    assert "| torch |" not in out
    assert "1 refused; 1 that dlbuf owes" in out


def test_words_are_grouped():
    said = _report.words([
        cell("dlbuf", "torch", "refused", d, l, f"E: code {n} at 0x{n:x}")
        for n, (d, l) in enumerate([("uint8", "offset"), ("int8", "offset"),
                                    ("uint8", "reversed")])])
    assert _cells.one_line("\n a 0x7fff1234 \nb") == "a 0x..."
    assert said == [("dlbuf -> torch", "refused",
                     "offset, reversed; uint8, int8", "E: code 0 at 0x0")]
