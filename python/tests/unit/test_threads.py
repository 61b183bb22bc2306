# SPDX-License-Identifier: MIT
"""Many threads in the extension at once, as on a Python without a GIL.

With a GIL these pass, too, and show less. On a Python built without one,
PYTHON_FREE_THREADED=1 says that importing dlbuf must not have brought it back.
"""

import errno
import gc
import os
import subprocess
import sys
import threading

import pytest

import dlbuf
from dlbuf import _dlbuf

from conftest import Producer, open_fds

NEW = {"max_version": (1, 3)}
THREADS = 4
ROUNDS = 100


def together(*work, threads=THREADS):
    """Runs all of work, on as many threads, from one moment on."""
    work = work if len(work) > 1 else work * threads
    barrier = threading.Barrier(len(work))
    failures = []

    def run(fn):
        barrier.wait()
        try:
            fn()
        except BaseException as e:
            failures.append(e)

    all_of_them = [threading.Thread(target=run, args=(fn,)) for fn in work]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.skipif("PYTHON_FREE_THREADED" not in os.environ,
                    reason="not asked for")
def test_the_gil_stays_off():
    assert not sys._is_gil_enabled()
    assert ".cpython-" in os.path.basename(_dlbuf.__file__)


def use(t):
    """Every way into a tensor that may be closed meanwhile."""
    assert t.shape == (3,) and t.strides == (1,) and t.dtype == "uint8"
    assert (t.ndim, t.size, t.nbytes, t.read_only) == (1, 3, 3, False)
    assert "uint8" in repr(t) or t.closed
    assert bytes(t) == b"\1\2\3"
    assert t.__array_interface__["shape"] == (3,)
    _dlbuf.from_capsule(t.__dlpack__(**NEW)).close()
    t.__dlpack__()
    assert bytes(t.__dlpack__(copy=True, **NEW) and t.share()) == b"\1\2\3"
    assert dlbuf.wrap(t, reverse=True).shape == (3,)
    assert dlbuf.exchange(t, dlbuf.Tensor).fd is None


def close(x):
    """Repeats close() while another thread uses the tensor; no other error occurs."""
    while not x.closed:
        try:
            x.close()
        except dlbuf.Error as e:
            assert e.errno == errno.EBUSY, e


def until_closed(use, x):
    try:
        while True:
            use(x)
            # Without the GIL outside of a use, too: else whoever closes finds
            # somebody inside each time that it has it.
            os.sched_yield()
    except (ValueError, AttributeError) as e:
        assert "closed" in str(e), e


def shape(t):
    assert t.shape == (3,)


def test_closed_under_everybody():
    producers = [Producer() for _ in range(10 * ROUNDS)]
    tensors = [dlbuf.from_dlpack(p) for p in producers]
    turn = threading.Barrier(4)

    def each(fn):
        def run():
            try:
                for i, t in enumerate(tensors):
                    if not i % 100:
                        turn.wait()
                    fn(t)
            except BaseException:
                turn.abort()
                raise
        return run

    together(each(lambda t: until_closed(use, t)), each(close), each(close),
             each(lambda t: until_closed(shape, t)))
    assert repr(tensors[0]) == "<dlbuf.Tensor, closed>"
    gc.collect()
    assert [p.deleted for p in producers] == [1] * len(producers)


def test_one_of_them_gets_the_capsule():
    for kwargs in (NEW, {}):
        producers = [Producer() for _ in range(20 * ROUNDS)]
        capsules = [dlbuf.from_dlpack(p).__dlpack__(**kwargs)
                    for p in producers]
        got = [0] * len(capsules)

        def take():
            for i, capsule in enumerate(capsules):
                try:
                    t = _dlbuf.from_capsule(capsule)
                except ValueError:
                    continue
                got[i] += 1
                assert bytes(t) == b"\1\2\3"

        together(take)
        assert got == [1] * len(capsules)
        capsules.clear()
        gc.collect()
        assert [p.deleted for p in producers] == got


def test_shared_and_dropped_everywhere():
    """One source's count, from all sides, and Python's deleters."""
    producers = [Producer() for _ in range(8)]
    tensors = [dlbuf.from_dlpack(p) for p in producers]

    def work():
        for i in range(ROUNDS):
            t = tensors[i % len(tensors)]
            u = t.share()
            m = memoryview(u)
            c = t.__dlpack__(**NEW)
            r = dlbuf.wrap(u, reverse=True)
            u.close()
            assert m[2] == 3 and memoryview(r)[0] == 1
            m.release()
            del c, r

    together(work)
    assert [p.deleted for p in producers] == [0] * len(producers)
    tensors.clear()
    gc.collect()
    assert [p.deleted for p in producers] == [1] * len(producers)


def look(d):
    assert d.name == d.info.name == "cpu"
    assert d.stats().tensors == 0
    d.trim()


def test_devices_closed_under_everybody():
    before = open_fds()
    devices = [dlbuf.Device("cpu") for _ in range(ROUNDS)]

    def users():
        for d in devices:
            until_closed(look, d)

    def closers():
        for d in devices:
            close(d)

    together(users, users, closers, closers)
    assert repr(devices[0]) == "<dlbuf.Device, closed>"
    assert open_fds() == before


def test_errors_are_their_threads():
    """Each has its own errno and sentence, in spite of failures of the others."""
    def work():
        fd = 1000 + threading.get_native_id() % 1000
        for _ in range(ROUNDS):
            with pytest.raises(dlbuf.Error) as e:
                dlbuf.from_fd(fd, (4,), "uint8")
            assert e.value.errno == errno.EBADF
            assert str(fd) in str(e.value)

    together(work)


# ------------------------------------------------------------------ interpreters

def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True,
                          text=True)


def test_loaded_once():
    p = run("import dlbuf, sys\n"
            "t = dlbuf.from_dlpack(b'abc')\n"
            "for name in [n for n in sys.modules if n.startswith('dlbuf')]:\n"
            "    del sys.modules[name]\n"
            "try: import dlbuf\n"
            "except ImportError as e: print(e)\n"
            "print(t)\n")
    assert p.returncode == 0, p
    assert p.stdout == ("dlbuf cannot be loaded twice by one process\n"
                        "<dlbuf.Tensor (3,) uint8, cpu, read-only>\n")
