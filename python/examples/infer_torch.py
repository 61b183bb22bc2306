# SPDX-License-Identifier: MIT
"""Frames as the input of a PyTorch model, prepared in the memory of PyTorch's tensor.

    python3 infer_torch.py [NODE]

Needs torch and numpy, and colour_bars.py beside it. NODE is a camera that has NV12.
"""

import torch

import dlbuf
from colour_bars import BAR, BIAS, HEIGHT, WEIGHTS, WIDTH, frames, report

model = torch.nn.Conv2d(3, 8, (HEIGHT, BAR), (HEIGHT, BAR))         # in place of yours
model.load_state_dict({"weight": torch.from_numpy(WEIGHTS), "bias": torch.from_numpy(BIAS)})
prepare = dlbuf.Preparer(size=(WIDTH, HEIGHT), filter="area")
images = torch.empty(1, 3, HEIGHT, WIDTH)
with torch.inference_mode():
    for frame, format in frames():
        # No copy: the model reads `images`. Without out= the result is a dlbuf.Tensor,
        # whose torch() is a tensor of PyTorch over the same memory.
        _, info = prepare(frame, out=images, format=format)
        report(model(images), info)
