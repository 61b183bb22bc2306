#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A camera's frame through a design in Verilog, by cocotb: the test bench is Python.

    python3 -m pip install cocotb numpy ./python
    python3 examples/cocotb/threshold.py [NODE]

cocotb runs Python inside the simulator (Icarus Verilog here). So the frame is imported
there, and the result is a tensor of a new dma-buf, for any other device. Only the
bytes on the design's wires are copied.
"""

import os
import sys

import cocotb
import dlbuf
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge


@cocotb.test()
async def threshold(dut):
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    with dlbuf.Camera(os.environ["NODE"], format="GREY", size=(320, 180)) as camera:
        luma, = next(iter(camera))              # a dlbuf.Tensor, the camera's own memory
    out = dlbuf.alloc(luma.shape, "uint8")      # a new dma-buf
    pixels = np.from_dlpack(luma)
    dut.level.value = level = int(pixels.mean())
    with out:                                   # acquire ... release
        words = np.asarray(out).reshape(-1).view("<u8")
        for i, word in enumerate(pixels.reshape(-1).view("<u8")):
            dut.d.value = int(word)
            await FallingEdge(dut.clk)          # the rising edge has taken it
            words[i] = dut.q.value.to_unsigned()
    result = np.from_dlpack(out)
    assert (result == np.where(pixels >= level, 255, 0)).all()
    assert 0 < result.mean() < 255, "a picture of one colour"
    print(f"{pixels.size} pixels, {result.mean() / 255:.0%} white, in", out)


if __name__ == "__main__":
    from cocotb_tools.runner import get_runner

    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["NODE"] = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"
    runner = get_runner("icarus")
    build = os.path.join(os.environ.get("TMPDIR", "/tmp"), "dlbuf-cocotb")
    runner.build(sources=[f"{here}/threshold.v"], hdl_toplevel="threshold", build_dir=build,
                 timescale=("1ns", "1ns"), always=True)
    results = runner.test(hdl_toplevel="threshold", test_module="threshold", test_dir=here,
                          build_dir=build, results_xml=os.path.join(build, "results.xml"))
    import xml.etree.ElementTree as tree

    cases = tree.parse(results).iter("testcase")
    sys.exit(any(True for c in cases if c.find("failure") is not None or
                 c.find("error") is not None))
