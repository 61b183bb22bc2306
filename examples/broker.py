# SPDX-License-Identifier: MIT
"""A consumer of examples/broker.c: a pixel of each frame.

    python3 broker.py /run/camera.sock
"""

import socket
import sys

import dlbuf

sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sock.connect(sys.argv[1])
try:
    while True:
        # The buffer goes back to the broker at the end of the block.
        with dlbuf.recv_frame(sock, access="read", view="luma", keep=True) as frame:
            luma = frame[0]
            with luma:
                print(f"frame {frame.sequence}: {luma.shape}, "
                      f"{memoryview(luma)[0, 0]}", flush=True)
except dlbuf.ClosedError as error:
    sys.exit(f"the broker has ended: {error}")
