# SPDX-License-Identifier: MIT
"""os.fork(): what is the parent's is refused in the child, and nothing hangs."""

import atexit
import errno
import gc
import multiprocessing
import os
import threading
import warnings

import pytest

import dlbuf

from conftest import Producer


def in_child(fn):
    """What fn returns in a child that ends as Python does; "" if it fails."""
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


def test_multiprocessing():
    def child(queue):
        queue.put(dlbuf.Device("cpu").info.name)

    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        p = fork.Process(target=child, args=(queue,))
        p.start()
    assert queue.get() == "cpu"
    p.join()
    assert p.exitcode == 0
    gc.collect()
