# SPDX-License-Identifier: MIT
"""A camera's frame as the input of an ONNX model, without a copy.

    python3 camera_onnxruntime.py [NODE]
"""

import sys

import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

import dlbuf


def model() -> bytes:
    """A model of two nodes, in place of yours: the mean brightness of a picture."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["luma"], ["pixels"], to=TensorProto.FLOAT),
         helper.make_node("ReduceMean", ["pixels"], ["mean"], keepdims=0)],
        "brightness",
        [helper.make_tensor_value_info("luma", TensorProto.UINT8, ["h", "w"])],
        [helper.make_tensor_value_info("mean", TensorProto.FLOAT, [])])
    opset = helper.make_opsetid("", 13)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


node = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"
session = ort.InferenceSession(model(), providers=["CPUExecutionProvider"])
with dlbuf.Camera(node, format="NV12", size="640x360") as camera:
    for _ in range(2):
        frame = next(camera)
        # ONNX Runtime takes compact, writable memory: rows without gaps.
        luma = ort.OrtValue.from_dlpack(frame[0])
        assert luma.data_ptr() == frame[0].data
        mean, = session.run_with_ort_values(["mean"], {"luma": luma})
        print(f"frame {frame.sequence}: brightness {mean.numpy():.1f}")
        del luma
        frame.release()
