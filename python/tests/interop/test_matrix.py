# SPDX-License-Identifier: MIT
"""The interop matrix with the libraries installed here: nothing is wrong."""

import json
import os

import pytest

from interop import _matrix
from interop._libraries import LIBRARIES

# EXPECTED lists, for the versions of tests/versions, the layouts of a float32
# tensor that a library refuses or copies, or that crash it. It shares all
# others.
REFUSED, COPIED, CRASHED = "refused", "copied", "crashed"
COMPACT = dict.fromkeys(["padded pitch", "every second", "transposed",
                         "reversed", "zero stride", "read-only"], REFUSED)
EXPECTED = {
    "dlbuf": {}, "memoryview": {}, "array interface": {}, "numpy.asarray": {},
    "numpy": {}, "tvm_ffi": {},
    "torch": {"reversed": REFUSED},
    "jax": {**COMPACT, "transposed": "shared", "read-only": "shared", "offset": COPIED},
    "tensorflow": {**COMPACT, "offset": CRASHED},
    "onnxruntime": COMPACT,
    "numba": {"zero-dim": "-"},
}


@pytest.fixture(scope="module")
def matrix():
    """Everything with everything that is installed, once. tests/host keeps
    it for the documentation."""
    report = _matrix.run([], False)
    if "DLBUF_INTEROP_JSON" in os.environ:
        with open(os.environ["DLBUF_INTEROP_JSON"], "w") as f:
            json.dump(report.to_json(), f)
    return report


def test_every_library_is_expected():
    assert EXPECTED.keys() == LIBRARIES.keys()


def test_nothing_is_owed(matrix):
    assert not matrix.faults, "\n".join(
        f"{c}: {why}" for c, why in matrix.faults)
    # And it did run: our tensors were shared with everything that is there.
    here = [n for n, v in matrix.libraries.items() if v is not None]
    assert not [n for n in here if matrix.libraries[n].startswith("broken")]
    for consumer in (*here, "memoryview", "array interface"):
        assert any(c.producer == "dlbuf" and c.consumer == consumer and
                   c.dtype == "float32" and c.state == "shared"
                   for c in matrix.cells), consumer


def test_each_library_does_as_documented(matrix):
    old = (matrix.libraries["numpy"] or "9.9").split(".")[:2]
    for c in matrix.cells:
        if c.producer != "dlbuf" or c.dtype != "float32":
            continue
        want = EXPECTED[c.consumer].get(c.layout, "shared")
        if c[1:4:2] == ("numpy", "read-only") and [int(v) for v in old] < [
                2, 1]:
            want = REFUSED      # it asks for the old capsule
        assert c.state == want, c


def test_capsules_of_each_library(matrix):
    cells = [c for c in matrix.cells if c.dtype == "capsule"]
    assert len({c.consumer for c in cells}) * 3 == len(cells) > 0
    for c in cells:
        assert c.state == "shared", c
