# SPDX-License-Identifier: MIT
"""A camera's frame through a design in Verilog, without a copy, compared with NumPy. The
picture has both side by side.

    python3 sobel.py NODE WIDTH HEIGHT PICTURE.pgm SIMULATOR...
"""

import os
import socket
import subprocess
import sys

import dlbuf
import numpy as np


def edges_of(y: np.ndarray) -> np.ndarray:
    """The core's result: |gx| + |gy| of 3x3 Sobel, at most 255."""
    p = y.astype(np.int32)
    gx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]
          - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2])
    gy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]
          - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:])
    out = np.zeros_like(y)
    out[1:-1, 1:-1] = np.minimum(abs(gx) + abs(gy), 255)
    return out


node, width, height, picture, *command = sys.argv[1:]
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
simulator = subprocess.Popen(command, pass_fds=[theirs.fileno()], env={
    **os.environ, "DLBUF_VPI_FD": str(theirs.fileno())})
theirs.close()
device = dlbuf.Device.wrap_vpi(ours)
# The simulator gets the camera's own buffer.
with dlbuf.Camera(node, format="NV12", size=(int(width), int(height)), view="luma",
                  access="read", device=device) as camera, next(camera) as frame:
    y = frame[0]                # a small camera may have another size
    edges, seen = dlbuf.alloc(y.shape, "uint8", [device, "cpu"], exporter="udmabuf")
    for tensor, access, name in (y, "read", "in"), (edges, "write", "edges"):
        tensor.acquire(access)
        tensor.vpi_send(name)
        tensor.release()
    # Both wait until the simulator is done.
    luma, drawn = y.numpy(), seen.numpy()
    same = np.array_equal(drawn, edges_of(luma))
    print(f"{command[0]}: {luma.shape[1]} x {luma.shape[0]} pixels, "
          f"{np.count_nonzero(drawn)} on edges, "
          f"{'equal to' if same else 'not equal to'} NumPy's")
    both = np.hstack([luma, drawn])
with open(picture, "wb") as f:
    f.write(b"P5 %d %d 255\n" % both.shape[::-1] + both.tobytes())
device.close()
sys.exit(simulator.wait() or not same or not drawn.any())
