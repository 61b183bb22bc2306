# SPDX-License-Identifier: MIT
"""A wait for what has no notification."""

import time

BOUND = 600         # seconds, for what is certain to come


def until(condition):
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end, "it has not come"
        time.sleep(0.001)
