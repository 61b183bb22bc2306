# SPDX-License-Identifier: MIT
"""Frames as the input of ONNX Runtime: IO binding to the memory that they are prepared in.

    python3 infer_onnxruntime.py [NODE]

Needs onnxruntime, onnx and numpy, and colour_bars.py beside it. NODE is a camera that has NV12.
"""

import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import dlbuf
from colour_bars import BAR, BIAS, HEIGHT, WEIGHTS, WIDTH, frames, report


def model() -> bytes:
    """In place of yours."""
    graph = helper.make_graph(
        [helper.make_node("Conv", ["images", "weights", "bias"], ["scores"],
                          strides=[HEIGHT, BAR])],
        "bars",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 8, 1, 8])],
        [numpy_helper.from_array(WEIGHTS, "weights"), numpy_helper.from_array(BIAS, "bias")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


session = ort.InferenceSession(model(), providers=["CPUExecutionProvider"])
binding = session.io_binding()
binding.bind_output("scores")
prepare = dlbuf.Preparer(size=(WIDTH, HEIGHT), filter="area")
images = None
for frame, format in frames():
    if images is None:
        images, info = prepare(frame, format=format)
        # No copy: the session reads this memory, in which each frame is prepared.
        value = ort.OrtValue.from_dlpack(images)
        assert value.data_ptr() == images.data
        binding.bind_ortvalue_input("images", value)
    else:
        _, info = prepare(frame, out=images, format=format)
    session.run_with_iobinding(binding)
    report(binding.copy_outputs_to_cpu()[0], info)
