# SPDX-License-Identifier: MIT
"""Shared by the programs infer_*.py: frames, and a model whose answer is known.

The frames show eight colour bars. The model is one layer, a convolution by a kernel as large
as a bar. A bar gets a score for each of eight colours, 2 c . mean - c . c, which is the
largest for the colour c that is the nearest to the mean of the bar.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import dlbuf

NAMES = ("white", "yellow", "cyan", "green", "magenta", "red", "blue", "black")
COLOURS = np.array([(1, 1, 1), (1, 1, 0), (0, 1, 1), (0, 1, 0),
                    (1, 0, 1), (1, 0, 0), (0, 0, 1), (0, 0, 0)], "float32")
# The model's input has the shape [1, 3, HEIGHT, 8 * BAR].
HEIGHT, BAR = 32, 8
WIDTH = 8 * BAR
KERNEL = np.ones((1, 1, HEIGHT, BAR), "float32") / (HEIGHT * BAR)
WEIGHTS = np.ascontiguousarray(2 * COLOURS[:, :, None, None] * KERNEL)      # [8, 3, HEIGHT, BAR]
BIAS = -(COLOURS ** 2).sum(1)


def frames() -> Iterator[tuple[Any, str | None]]:
    """Two frames, each with its format: of a camera, if the program's argument names one,
    or else made here, the second one with its bars in reverse."""
    if len(sys.argv) > 1:
        with dlbuf.Camera(sys.argv[1], format="NV12", size="640x360") as camera:
            for _ in range(2):
                with next(camera) as frame:
                    yield frame, None
    else:
        bars = np.repeat((COLOURS * 191).astype("uint8"), 80, axis=0)
        for row in bars, bars[::-1]:
            yield np.tile(row, (360, 1, 1)), "RGB"


def report(scores: Any, info: dlbuf.PrepareInfo) -> None:
    """Prints the colour of each bar, and where it begins in the frame. scores: 8 x 8, a
    row for each colour."""
    best = np.asarray(scores).reshape(8, 8).argmax(0)
    left = [info.map_to_frame((i * BAR, 0))[0] for i in range(8)]
    print(", ".join(f"{NAMES[c]} from {x:.0f}" for c, x in zip(best, left)))
