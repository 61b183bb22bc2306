# SPDX-License-Identifier: MIT
"""GStreamer's buffers as tensors: appsink's dma-bufs, without a copy.

    python3 gstreamer_appsink.py [NODE]

Any element that makes dma-bufs can stand before appsink: a decoder, a camera.
"""

import sys
from typing import Any

import gi
import numpy as np

import dlbuf

gi.require_version("Gst", "1.0")
gi.require_version("GstAllocators", "1.0")
gi.require_version("GstApp", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstAllocators, GstApp, GstVideo  # noqa: E402, F401


def tensors_of(sample: Any) -> list[dlbuf.Tensor]:
    """The planes of a sample. The lease keeps it, and its buffer with it."""
    buffer, info = sample.get_buffer(), GstVideo.VideoInfo.new_from_caps(sample.get_caps())
    memory = buffer.peek_memory(0)
    if buffer.n_memory() != 1 or not GstAllocators.is_dmabuf_memory(memory):
        sys.exit("the buffers are no single dma-buf: try io-mode=dmabuf, or another element")
    fd = GstAllocators.dmabuf_memory_get_fd(memory)
    # The buffer's meta says where the planes are; without one they are the format's.
    layout = GstVideo.buffer_get_video_meta(buffer) or info
    planes = [dlbuf.Plane(fd, layout.stride[i], memory.offset + layout.offset[i])
              for i in range(info.finfo.n_planes)]
    kept = [sample]
    return dlbuf.from_frame(planes, info.width, info.height, info.finfo.name,
                            release=kept.clear)


Gst.init(None)
node = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"
pipeline = Gst.parse_launch(
    f"v4l2src device={node} io-mode=dmabuf num-buffers=3 ! "
    "video/x-raw,format=NV12,width=640,height=360 ! appsink name=sink sync=false")
sink = pipeline.get_by_name("sink")
pipeline.set_state(Gst.State.PLAYING)
while sample := sink.emit("pull-sample"):
    y, uv = tensors_of(sample)
    del sample
    print(f"{y.shape} {uv.shape}, brightness {np.asarray(y).mean():.1f}")
    del y, uv
pipeline.set_state(Gst.State.NULL)
