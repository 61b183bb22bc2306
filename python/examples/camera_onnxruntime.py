# SPDX-License-Identifier: MIT
"""A camera's frames as the input of an ONNX model, and its boxes on the frame.

    python3 camera_onnxruntime.py [NODE]
"""

import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import dlbuf

SIDE, CELL = 320, 32


def model() -> bytes:
    """A detector in place of yours: the box of the brightest 32x32 pixels."""
    def constant(name: str, *values: int) -> Any:
        return numpy_helper.from_array(np.array(values), name)

    graph = helper.make_graph(
        [helper.make_node("AveragePool", ["images"], ["pooled"], kernel_shape=[CELL, CELL],
                          strides=[CELL, CELL]),
         helper.make_node("ReduceMean", ["pooled"], ["cells"], axes=[1]),
         helper.make_node("Reshape", ["cells", "flat"], ["row"]),
         helper.make_node("ArgMax", ["row"], ["best"], axis=0),
         helper.make_node("Mod", ["best", "columns"], ["x"]),
         helper.make_node("Div", ["best", "columns"], ["y"]),
         helper.make_node("Concat", ["x", "y", "x", "y"], ["place"], axis=0),
         helper.make_node("Mul", ["place", "cell"], ["corner"]),
         helper.make_node("Add", ["corner", "size"], ["boxes"])],
        "brightest",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("boxes", TensorProto.INT64, [4])],
        [constant("flat", -1), constant("columns", SIDE // CELL), constant("cell", CELL),
         constant("size", 0, 0, CELL, CELL)])
    opset = helper.make_opsetid("", 13)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


node = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"
session = ort.InferenceSession(model(), providers=["CPUExecutionProvider"])
prepare = dlbuf.Preparer("yolo", size=SIDE)         # letterboxed, RGB, 0 to 1
binding = session.io_binding()
binding.bind_output("boxes")
with dlbuf.Camera(node, format="NV12", size="640x360") as camera:
    with next(camera) as frame:
        images, info = prepare(frame)
    # The model reads this memory, in which each frame is prepared.
    value = ort.OrtValue.from_dlpack(images)
    assert value.data_ptr() == images.data
    binding.bind_ortvalue_input("images", value)
    for _ in range(2):
        with next(camera) as frame:
            prepare(frame, out=images)
        # The camera has its buffer back while the model runs.
        session.run_with_iobinding(binding)
        box = binding.copy_outputs_to_cpu()[0]
        x0, y0, x1, y1 = info.map_to_frame(box)
        print(f"frame {frame.sequence}: brightest from {x0:.0f},{y0:.0f} to {x1:.0f},{y1:.0f}")
