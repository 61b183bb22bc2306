# SPDX-License-Identifier: MIT
"""Frames as the input of LiteRT (TensorFlow Lite), prepared in the interpreter's own memory.

    python3 infer_litert.py [NODE]

Needs ai-edge-litert, flatbuffers and numpy, and colour_bars.py beside it. NODE is a camera that has NV12.
"""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tfl
from ai_edge_litert.interpreter import Interpreter

import dlbuf
from colour_bars import BAR, BIAS, HEIGHT, WEIGHTS, WIDTH, frames, report


def model() -> bytes:
    """In place of yours. LiteRT has the channels last."""
    buffers = [None, np.ascontiguousarray(WEIGHTS.transpose(0, 2, 3, 1)), BIAS, None]
    shapes = [(1, HEIGHT, WIDTH, 3), (8, HEIGHT, BAR, 3), (8,), (1, 1, 8, 8)]
    graph = tfl.SubGraphT(inputs=[0], outputs=[3], tensors=[
        tfl.TensorT(shape=list(s), buffer=i) for i, s in enumerate(shapes)])
    graph.operators = [tfl.OperatorT(
        inputs=[0, 1, 2], outputs=[3], builtinOptionsType=tfl.BuiltinOptions.Conv2DOptions,
        builtinOptions=tfl.Conv2DOptionsT(padding=tfl.Padding.VALID, strideH=HEIGHT, strideW=BAR))]
    made = tfl.ModelT(
        version=3, subgraphs=[graph],
        operatorCodes=[tfl.OperatorCodeT(builtinCode=tfl.BuiltinOperator.CONV_2D,
                                         deprecatedBuiltinCode=tfl.BuiltinOperator.CONV_2D)],
        buffers=[tfl.BufferT(data=None if b is None else b.view("uint8").ravel())
                 for b in buffers])
    builder = flatbuffers.Builder()
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


interpreter = Interpreter(model_content=model())
interpreter.allocate_tensors()
images, scores = (interpreter.tensor(d[0]["index"]) for d in (
    interpreter.get_input_details(), interpreter.get_output_details()))
prepare = dlbuf.Preparer(size=(WIDTH, HEIGHT), filter="area", layout="nhwc")
for frame, format in frames():
    # No copy: images() is the interpreter's memory, which must not be held during invoke().
    info = prepare(frame, out=images(), format=format)[1]
    interpreter.invoke()
    report(scores()[0, 0].T, info)
