# SPDX-License-Identifier: MIT
"""A camera's frame through a design in Verilog, compared with NumPy.

    python3 sobel.py SOBEL NODE WIDTH HEIGHT PICTURE.png SIMULATOR...
"""

import socket
import subprocess
import sys

import dlbuf
import numpy as np


def edges_of(y: np.ndarray) -> np.ndarray:
    """What the core computes: |gx| + |gy| of 3x3 Sobel, at most 255."""
    p = y.astype(np.int32)
    gx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]
          - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2])
    gy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]
          - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:])
    out = np.zeros_like(y)
    out[1:-1, 1:-1] = np.minimum(abs(gx) + abs(gy), 255)
    return out


ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
program, *args = sys.argv[1:]
host = subprocess.Popen([program, *args[:4], str(theirs.fileno()), *args[4:]],
                        pass_fds=[theirs.fileno()])
theirs.close()
y, edges = (np.from_dlpack(t) for t in dlbuf.recv(ours))
same = np.array_equal(edges, edges_of(y))
print(f"{args[4]}: {y.shape[1]} x {y.shape[0]} pixels, "
      f"{np.count_nonzero(edges)} on edges, "
      f"{'equal to' if same else 'not equal to'} NumPy's")
ours.close()
sys.exit(host.wait() or not same or not edges.any())
