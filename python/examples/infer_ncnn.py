# SPDX-License-Identifier: MIT
"""Frames as the input of an ncnn network, which reads the memory they are prepared in.

    python3 infer_ncnn.py [NODE]

Needs ncnn and numpy, and colour_bars.py beside it. NODE is a camera that has NV12.
"""

import ncnn
import numpy as np

import dlbuf
from colour_bars import BAR, BIAS, HEIGHT, WEIGHTS, WIDTH, frames, report

# In place of yours: 11= and 13= are the height of the kernel and of its step.
PARAM = f"""7767517
2 2
Input input 0 1 images
Convolution layer 1 1 images scores 0=8 1={BAR} 11={HEIGHT} 3={BAR} 13={HEIGHT} 5=1 6={WEIGHTS.size}
"""

net = ncnn.Net()
net.load_param_mem(PARAM)
net.load_model_mem(bytes(4) + WEIGHTS.tobytes() + BIAS.tobytes())
prepare = dlbuf.Preparer(size=(WIDTH, HEIGHT), filter="area")
image = np.empty((3, HEIGHT, WIDTH), "float32")
# No copy: a Mat over the array. ncnn's first layer may rearrange it in memory of its own.
mat = ncnn.Mat(image)
for frame, format in frames():
    _, info = prepare(frame, out=image, format=format)
    with net.create_extractor() as extractor:
        extractor.input("images", mat)
        _, scores = extractor.extract("scores")
        report(scores, info)
