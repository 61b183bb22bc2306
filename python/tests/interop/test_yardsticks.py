# SPDX-License-Identifier: MIT
"""Other projects' tests of the protocol, with dlbuf's objects.

pydlpack (the module "dlpack") ships its tests; they run with dlbuf in its
place. The interchange tests of data-apis/array-api-tests are in no package
index, so what they check is checked here in words of our own: their file is
test_dlpack.py, of 2026-04.
"""

import itertools
import os
import re
import subprocess
import sys

import pytest

import dlbuf
from interop._memory import COMMON, DTYPES, LAYOUTS, Block

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# ------------------------------------------------------------------ pydlpack

def test_of_pydlpack(np):
    dlpack = pytest.importorskip("dlpack")
    if not hasattr(dlpack, "asdlpack"):
        pytest.skip("the module dlpack is not that of pydlpack")
    env = dict(os.environ, COLUMNS="1000")     # lines are cut to these
    env["PYTHONPATH"] = os.pathsep.join(
        [TESTS, *filter(None, [env.get("PYTHONPATH")])])
    p = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "interop.pydlpack_plugin", "-p",
         "no:cacheprovider", "--tb=line", "--pyargs", "dlpack.tests"],
        capture_output=True, text=True, env=env, cwd=TESTS)
    failed = re.findall(r"^(?:FAILED|ERROR) (.*)$", p.stdout, re.M)
    counts = re.findall(r"(\d+) (?:failed|error)", p.stdout.splitlines()[-1])
    assert len(failed) == sum(map(int, counts)), p.stdout
    # It closes an mmap under a tensor that is still there; dlbuf holds the
    # buffer as long as there is one, and Python refuses to close it.
    for line in failed:
        assert "::test_asdlpack_buffer[" in line, p.stdout
        assert " - BufferError: cannot c" in line, p.stdout
    assert "cannot close exported pointers exist" in p.stdout
    passed = re.search(r"(\d+) passed", p.stdout)
    assert passed and int(passed[1]) >= 19, p.stdout


def test_pydlpack_takes_ours(np):
    dlpack = pytest.importorskip("dlpack")
    if not hasattr(dlpack, "asdlpack"):
        pytest.skip("the module dlpack is not that of pydlpack")
    source = bytearray(range(6))
    t = dlbuf.from_dlpack(source)
    a = np.from_dlpack(dlpack.asdlpack(t))
    source[0] = 99
    assert a.tolist() == [99, 1, 2, 3, 4, 5]
    theirs = dlpack.asdlpack(np.arange(3, dtype="u1"))
    assert isinstance(theirs, dlbuf.CanDLPackDevice)
    assert memoryview(dlbuf.from_dlpack(theirs)).tolist() == [0, 1, 2]


# ------------------------------------------------------------------ array API

def tensors():
    for dtype in COMMON:
        for layout in LAYOUTS.values():
            block = Block(DTYPES[dtype], layout)
            producer = block.producer()
            yield dlbuf.from_dlpack(producer), producer, block


def test_dlpack_device_is_of_the_enum():
    for t, _, _ in tensors():
        kind, number = t.__dlpack_device__()
        assert dlbuf.DLDeviceType(kind) and isinstance(number, int)


@pytest.mark.parametrize("copy", ["absent", True, False, None])
@pytest.mark.parametrize("version", ["absent", None, (0, 0), (1, 0), (2, 0)])
@pytest.mark.parametrize("device", ["absent", None, (1, 0)])
def test_dlpack_takes_every_wish(copy, version, device):
    wishes = {name: value for name, value in (
        ("copy", copy), ("max_version", version), ("dl_device", device))
        if value != "absent"}
    for t, producer, _ in tensors():
        refused = (t.read_only and copy is not True and
                   (version in ("absent", None) or version[0] < 1))
        if refused:         # DLPack before 1.0 cannot say so
            with pytest.raises(BufferError):
                t.__dlpack__(**wishes)
        else:
            t.__dlpack__(**wishes)
        t.close()
        assert producer.deleted == 1


def test_from_dlpack_is_equal():
    for t, producer, block in tensors():
        for copy, device in itertools.product([None, True, False],
                                              [None, "cpu", (1, 0)]):
            u = dlbuf.from_dlpack(t, copy=copy, device=device)
            assert (u.shape, u.dtype) == (t.shape, t.dtype)
            assert u.__dlpack_device__() == t.__dlpack_device__()
            assert memoryview(u).tobytes() == memoryview(t).tobytes()
            assert u.is_copied == (copy is True)
            u.close()
        t.close()
        assert producer.deleted == 1
