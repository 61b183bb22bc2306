# SPDX-License-Identifier: MIT
"""One process captures, another one computes: the frames are shared, not copied.

    python3 two_processes.py [NODE]

NODE is a camera that has NV12.
"""

import multiprocessing
import sys
from itertools import islice
from multiprocessing.connection import Connection

import dlbuf
import dlbuf.multiprocessing


def compute(frames: "Connection[None, dlbuf.TensorFrame | None]") -> None:
    frames.send(None)
    while (frame := frames.recv()) is not None:
        # At the end of the block the camera of the other process gets its buffer back.
        with frame, frame[0] as luma:
            data = memoryview(luma)
            print(f"frame {frame.sequence}: {luma.shape}, first pixel {data[0, 0]}",
                  flush=True)
            del data


def main(node: str) -> None:
    ctx = multiprocessing.get_context("spawn")
    ours, theirs = ctx.Pipe()
    child = ctx.Process(target=compute, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    # The camera has four buffers, and a child that does not run yet gives none back.
    ours.recv()
    with dlbuf.Camera(node, format="NV12", size="640x360") as camera:
        for frame in islice(camera, 5):
            ours.send(frame)
            # The lease is the child's now; this process is done with the frame.
            frame.release()
        ours.send(None)
        child.join()
    sys.exit(child.exitcode)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/dev/video0")
