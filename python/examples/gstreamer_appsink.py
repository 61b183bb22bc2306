# SPDX-License-Identifier: MIT
"""GStreamer's buffers as tensors: appsink's dma-bufs, without a copy.

    python3 gstreamer_appsink.py [NODE]

Any element that makes dma-bufs can stand before appsink: a decoder, a camera.
"""

import sys

import numpy as np

import dlbuf.gstreamer

node = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"
for frame in dlbuf.gstreamer.frames(
        f"v4l2src device={node} io-mode=dmabuf num-buffers=3 ! "
        "video/x-raw,format=NV12,width=640,height=360 ! appsink sync=false"):
    y, uv = frame
    print(f"{y.shape} {uv.shape}, brightness {np.asarray(y).mean():.1f}")
    del frame, y, uv
