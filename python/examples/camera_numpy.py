# SPDX-License-Identifier: MIT
"""A camera's frames as NumPy arrays, without a copy.

    python3 camera_numpy.py [NODE [FRAMES]]
"""

import sys
from itertools import islice

import numpy as np

import dlbuf

node = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 3

with dlbuf.Camera(node, format="NV12", size="640x360") as camera:
    for frame in islice(camera, count):
        # The planes are acquired together, and released at the end of the block.
        with frame.planes("read") as (y, uv):
            luma, chroma = y.numpy(), uv.numpy()
            u, v = np.mean(chroma, axis=(0, 1))
            print(f"frame {frame.sequence}: {luma.shape} {luma.dtype}, brightness "
                  f"{luma.mean():.1f}, U {u:.1f}, V {v:.1f}")
            del luma, chroma
        # The camera gets its buffer back when the last array of the frame is gone.
        frame.release()
    assert camera.held == 0
