# SPDX-License-Identifier: MIT
"""os.fork(): the parent's objects are refused in the child, and nothing hangs.
Subinterpreters are refused."""

import atexit
import errno
import importlib
import os
import sys
import threading
import warnings

import pytest

import dlbuf
from dlbuf.multiprocessing import _receive

from conftest import Producer


def in_child(fn):
    """The result of fn in a child that ends as Python does; "" if it fails."""
    r, w = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)     # of threads
        pid = os.fork()
    if not pid:
        try:
            os.write(w, fn().encode())
        finally:
            # No test after this one.
            atexit._run_exitfuncs()
            os._exit(0)
    os.close(w)
    with open(r) as f:
        said = f.read()
    assert os.waitpid(pid, 0) == (pid, 0)
    return said


def test_devices():
    opened = dlbuf.Device("cpu")

    def child():
        with pytest.raises(dlbuf.Error, match="the process that forked") as e:
            opened.info
        assert e.value.errno == errno.ESTALE
        opened.trim()
        opened.close()
        opened.close()
        # By name, and the default, they are this process's.
        for device in {}, {"device": "cpu"}, {"device": dlbuf.Device("cpu")}:
            with pytest.raises(dlbuf.Error) as e:
                dlbuf.from_fd(-1, (1,), "uint8", **device)
            assert e.value.errno == errno.EBADF
        return "done"

    with opened:
        assert in_child(child) == "done"
        assert in_child(lambda: in_child(child)) == "done"
        assert opened.info.name == "cpu"


def test_memory_of_others():
    """Which is not dlbuf's: it is the child's, too."""
    t = dlbuf.from_dlpack(bytes(range(16)))
    assert in_child(lambda: memoryview(t).hex()) == bytes(range(16)).hex()


def test_the_end_of_a_child():
    """A deleter on another thread of the parent is not waited for."""
    began, go_on = threading.Event(), threading.Event()

    class Slow(Producer):
        def _delete(self, _):
            super()._delete(_)
            began.set()
            go_on.wait()

    slow = Slow()
    t = dlbuf.from_dlpack(slow)
    thread = threading.Thread(target=t.close)
    thread.start()
    began.wait()
    assert in_child(lambda: "done") == "done"
    go_on.set()
    thread.join()
    assert slow.deleted == 1


def test_what_is_no_socket():
    """A message of multiprocessing with another fd: it is closed."""
    ours, theirs = os.pipe()

    class Pipe:
        def detach(self):
            return theirs

    with pytest.raises(OSError) as e:
        _receive(Pipe(), "cpu", 0, b"")
    assert e.value.errno == errno.ENOTSOCK
    with pytest.raises(OSError) as e:
        os.fstat(theirs)
    assert e.value.errno == errno.EBADF
    os.close(ours)


CODE = """
try:
    import {module}
except ImportError as e:
    assert "in the main one" in str(e) and "memoryview" in str(e), e
    assert "multiprocessing" in str(e)
else:
    raise AssertionError("imported")
"""


def test_subinterpreters_are_told_what_to_do():
    """In each kind of them, and by whichever module comes first."""
    for name in "_interpreters", "_xxsubinterpreters":
        if importlib.util.find_spec(name):
            break
    else:
        pytest.skip("this Python has none")
    interpreters = importlib.import_module(name)
    for kind in ((), ("legacy",)) if sys.version_info >= (3, 13) else ((),):
        for module in "dlbuf", "dlbuf.multiprocessing":
            i = interpreters.create(*kind)
            failed = interpreters.run_string(
                i, f"import sys; sys.path[:] = {sys.path!r}" +
                CODE.format(module=module))
            assert failed is None, failed
            interpreters.destroy(i)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="from 3.13 on")
def test_a_subinterpreter_has_the_memory():
    import _interpreters as interpreters
    memory = bytearray(4)
    i = interpreters.create()
    interpreters.run_string(i, "import _interpreters")
    interpreters.set___main___attrs(i, {"m": memoryview(dlbuf.from_dlpack(memory))})
    assert interpreters.run_string(i, "m[2] = 7") is None
    interpreters.destroy(i)
    assert memory == b"\0\0\7\0"
