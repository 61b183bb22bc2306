# SPDX-License-Identifier: MIT
"""A camera's frames in PyTorch: filtered one by one, and collated into a batch.

    python3 camera_torch.py [NODE]

Needs torch. NODE is a camera that has NV12.
"""

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

import dlbuf

node = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"
sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]).reshape(1, 1, 3, 3)


class Frames(IterableDataset[dlbuf.TensorFrame]):  # type: ignore[misc]
    def __iter__(self) -> Iterator[dlbuf.TensorFrame]:
        with dlbuf.Camera(node, format="NV12", size="320x180", buffers=6) as camera:
            for _ in range(4):
                yield next(camera)


def collate(frames: list[dlbuf.TensorFrame]) -> Any:
    """A batch needs one block of memory, so this copies, once; the frames go back."""
    batch = torch.stack([frame[0].torch() for frame in frames])
    for frame in frames:
        frame.release()
    return batch


for frame in Frames():
    luma = frame[0].torch()             # the camera's memory
    assert luma.data_ptr() == frame[0].data
    edges = torch.nn.functional.conv2d(luma[None, None].float(), sobel)
    print(f"frame {frame.sequence}: {tuple(luma.shape)}, steepest edge {edges.abs().max():.0f}")
    del luma
    frame.release()

for batch in DataLoader(Frames(), batch_size=2, collate_fn=collate):
    print(f"batch: {tuple(batch.shape)} {batch.dtype}")
