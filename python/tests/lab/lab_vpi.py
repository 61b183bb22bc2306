# SPDX-License-Identifier: MIT
"""Verilog simulators: Python's messages to them. Here this process has the simulator's end of
the socket; tests/verilog/doc has a real one. For the lab."""

import os
import select
import socket
import time

import numpy as np

import dlbuf

from labtools import case, interrupted, raises


def receive(sock):
    """A message as a simulator gets it: its fds, the last of which ends the pass."""
    data, fds, _, _ = socket.recv_fds(sock, 8192, 8)
    return data, fds


def readable(fd):
    return bool(select.select([fd], [], [], 0)[0])


@case
def vpi_send():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sim = dlbuf.Device.wrap_vpi(ours)
    ours.close()
    out, seen = dlbuf.alloc((4, 6), "uint8", [sim, "cpu"])
    assert out.__dlpack_device__()[0] == dlbuf.DLDeviceType.VPI
    raises(dlbuf.InvalidError, lambda: out.vpi_send("out"), "not acquired")
    raises(dlbuf.InvalidError, lambda: seen.vpi_send("out"), "cpu")
    raises(TypeError, lambda: out.vpi_send())
    out.acquire("write")
    raises(dlbuf.InvalidError, lambda: out.vpi_send("a name"))
    out.vpi_send("out", deadline=time.monotonic() + 600)
    done = out.release(fence=True)
    data, fds = receive(theirs)
    assert b"out\0" in data and len(fds) >= 2
    assert not readable(done)
    raises(TimeoutError, lambda: seen.acquire("read", deadline=time.monotonic() - 1))
    assert len(os.read(fds[-1], 1)) == 1    # as $dlbuf_release does
    for fd in fds:
        os.close(fd)
    with seen:                          # waits for the simulator
        assert not np.asarray(seen).any()
    assert readable(done)
    os.close(done)
    theirs.close()
    out.acquire()
    raises(dlbuf.ClosedError, lambda: out.vpi_send("out"))
    out.release()
    out.close()
    seen.close()
    sim.close()


@case
def vpi_waits():
    """Without a simulator it waits, until the deadline or a signal's exception."""
    sim = dlbuf.Device("vpi:python")
    raises(dlbuf.Error, lambda: dlbuf.Device("vpi:python"), "vpi:python")
    t, = dlbuf.alloc(8, "uint8", [sim])
    with t:
        raises(TimeoutError,
               lambda: t.vpi_send("t", deadline=time.monotonic() + 0.05))
        interrupted(lambda: t.vpi_send("t"))
    t.close()
    sim.close()
    raises(dlbuf.Error, lambda: dlbuf.Device.wrap_vpi(0), "")
