# SPDX-License-Identifier: MIT
"""A camera in an asyncio program: the newest frame, while other tasks run.

    python3 camera_asyncio.py [NODE]
"""

import asyncio
import sys

import dlbuf


async def watch(camera: dlbuf.Camera, frames: int) -> None:
    async for frame in camera:
        with frame, frame[0] as luma:
            print(f"frame {frame.sequence}: first pixel {memoryview(luma)[0, 0]}")
        frames -= 1
        if not frames:
            return


async def tick(done: asyncio.Event) -> None:
    ticks = 0
    while not done.is_set():
        await asyncio.sleep(0)
        ticks += 1
    print("other tasks ran" if ticks > 1 else "no other task ran")


async def main(node: str) -> None:
    done = asyncio.Event()
    # drop=True: a program that is late gets the newest frame, not the oldest one.
    with dlbuf.Camera(node, format="NV12", size="640x360", drop=True) as camera:
        other = asyncio.create_task(tick(done))
        await watch(camera, 3)
        done.set()
        await other


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"))
