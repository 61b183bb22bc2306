# SPDX-License-Identifier: MIT
"""Frames as the input of OpenVINO, which reads the memory they are prepared in.

    python3 infer_openvino.py [NODE]

Needs openvino and numpy, and colour_bars.py beside it. NODE is a camera that has NV12.
"""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

import dlbuf
from colour_bars import BAR, BIAS, HEIGHT, WEIGHTS, WIDTH, frames, report

# In place of yours.
images = ops.parameter([1, 3, HEIGHT, WIDTH], np.float32, name="images")
layer = ops.convolution(images, WEIGHTS, [HEIGHT, BAR], [0, 0], [0, 0], [1, 1])
scores = ops.add(layer, BIAS.reshape(1, 8, 1, 1))
request = ov.Core().compile_model(ov.Model([scores], [images]), "CPU").create_infer_request()

prepare = dlbuf.Preparer(size=(WIDTH, HEIGHT), filter="area")
memory = np.empty((1, 3, HEIGHT, WIDTH), "float32")
# No copy: the request's tensor is this memory. The CPU's plugin may rearrange it afterwards.
request.set_input_tensor(ov.Tensor(memory, shared_memory=True))
assert request.get_input_tensor().data.ctypes.data == memory.ctypes.data
for frame, format in frames():
    _, info = prepare(frame, out=memory, format=format)
    request.infer()
    report(request.get_output_tensor().data, info)
