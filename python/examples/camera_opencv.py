# SPDX-License-Identifier: MIT
"""A camera's frame in OpenCV: one conversion from the camera's own memory.

    python3 camera_opencv.py [NODE [PICTURE]]

Needs OpenCV (cv2). NODE is a camera that has NV12.
"""

import sys

import cv2

import dlbuf

node = sys.argv[1] if len(sys.argv) > 1 else "/dev/video0"
picture = sys.argv[2] if len(sys.argv) > 2 else "camera_opencv.png"

with dlbuf.Camera(node, format="NV12", size="640x360") as camera:
    with next(camera).planes("read") as (y, uv):
        # OpenCV reads the planes where they are and writes the picture.
        bgr = cv2.cvtColorTwoPlane(y.numpy(), uv.numpy(), cv2.COLOR_YUV2BGR_NV12)
        edges = cv2.Canny(y.numpy(), 50, 150)
    cv2.imwrite(picture, bgr)
    print(f"{picture}: {bgr.shape[1]}x{bgr.shape[0]}, {(edges > 0).mean():.1%} are edges")
