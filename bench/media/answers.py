#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""From a camera's frame to the answer of ONNX Runtime: dlbuf, and the usual code with OpenCV.

    answers.py [NODE]

For each frame the CPU time of this process, and the time from the frame's dequeue to the answer; both are
instructions under -icount, where a camera's timestamps have another clock. The model is made here: a convolution of steps of 32 pixels and a mean.
"""

import os
import statistics
import sys
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

SIDE, FRAMES, WARM_UP = 640, 100, 5
SIZE = (1280, 720)
node = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"


def model():
    weights = np.random.default_rng(1).standard_normal((16, 3, 32, 32), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["images", "weights"], ["cells"], strides=[32, 32]),
         helper.make_node("Relu", ["cells"], ["kept"]),
         helper.make_node("GlobalAveragePool", ["kept"], ["answer"])],
        "cells",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("answer", TensorProto.FLOAT, [1, 16, 1, 1])],
        [numpy_helper.from_array(weights, "weights")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def session():
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model(), options, providers=["CPUExecutionProvider"])


def figure(table, who, what, value):
    table = f"cpu: {table}"
    print(f"{value:<12.0f} {what} ({table})", flush=True)
    path = os.environ.get("BENCH_FIGURES")
    if path:
        with open(path, "a") as f:
            f.write(f"{table}\t{who}\t{value:.0f}\t{what}\n")


NAME = f"a camera's frame of {SIZE[0]}x{SIZE[1]}, NV12, to ONNX Runtime's answer"


def measure(who, what, answer):
    """answer() returns the time at which it had the frame."""
    cpu, delays = [], []
    last = time.process_time_ns()
    for _ in range(WARM_UP + FRAMES):
        begin = answer()
        delays.append(time.monotonic_ns() - begin)
        now = time.process_time_ns()
        cpu.append(now - last)
        last = now
    delays = sorted(delays[WARM_UP:])
    figure(NAME, who, what, statistics.median(cpu[WARM_UP:]))
    late = f"{NAME}: the delay"
    figure(late, who, f"{what}: p50", delays[FRAMES // 2])
    figure(late, who, f"{what}: p99", delays[FRAMES * 99 // 100])


def alone():
    run, images = session(), np.zeros((1, 3, SIDE, SIDE), np.float32)
    times = []
    for _ in range(WARM_UP + FRAMES):
        begin = time.process_time_ns()
        run.run(None, {"images": images})
        times.append(time.process_time_ns() - begin)
    figure(NAME, "floor", "the model alone", statistics.median(times[WARM_UP:]))


def by_dlbuf():
    import dlbuf

    run, prepare = session(), dlbuf.Preparer("yolo", size=SIDE)
    binding = run.io_binding()
    binding.bind_output("answer")
    with dlbuf.Camera(node, format="NV12", size=SIZE) as camera:
        with next(camera) as frame:
            images, _ = prepare(frame)
        binding.bind_ortvalue_input("images", ort.OrtValue.from_dlpack(images))

        def answer():
            with next(camera) as frame:
                begin = time.monotonic_ns()
                prepare(frame, out=images)
            run.run_with_iobinding(binding)
            assert binding.copy_outputs_to_cpu()[0].size == 16
            return begin

        measure("dlbuf", "dlbuf: Camera, Preparer, IO binding", answer)


def by_opencv():
    import cv2

    cv2.setNumThreads(1)
    run = session()
    camera = cv2.VideoCapture(node, cv2.CAP_V4L2)
    for option, value in ((cv2.CAP_PROP_FOURCC, cv2.VideoWriter_fourcc(*"NV12")),
                          (cv2.CAP_PROP_FRAME_WIDTH, SIZE[0]), (cv2.CAP_PROP_FRAME_HEIGHT, SIZE[1])):
        assert camera.set(option, value), option
    height = SIZE[1] * SIDE // SIZE[0]
    top = (SIDE - height) // 2

    def answer():
        assert camera.grab()
        begin = time.monotonic_ns()
        ok, bgr = camera.retrieve()
        assert ok and bgr.shape == (SIZE[1], SIZE[0], 3)
        small = cv2.resize(bgr, (SIDE, height), interpolation=cv2.INTER_LINEAR)
        small = cv2.copyMakeBorder(small, top, SIDE - height - top, 0, 0, cv2.BORDER_CONSTANT, value=(114, 114, 114))
        images = cv2.dnn.blobFromImage(small, 1 / 255, swapRB=True)
        assert run.run(None, {"images": images})[0].size == 16
        return begin

    measure("today", "cv2.VideoCapture, resize, copyMakeBorder, blobFromImage, run()", answer)
    camera.release()


alone()
by_dlbuf()
by_opencv()
