# SPDX-License-Identifier: MIT
"""Runs a command on a kernel that seems to lack some ioctls.

    without-ioctl.py sync_file|expbuf COMMAND ARGS...

A seccomp filter answers ENOTTY to DMA_BUF_IOCTL_EXPORT_SYNC_FILE and _IMPORT_SYNC_FILE, or to VIDIOC_EXPBUF.
"""
import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NR_IOCTL = {"x86_64": 16, "aarch64": 29}[os.uname().machine]

LACKS = {"sync_file": (0xC0086202, 0x40086203), "expbuf": (0xC0405610, 0xC0405610)}

program = [
    (LOAD, 0, 0, 0),  # the number of the system call
    (EQUAL, 0, 4, NR_IOCTL),
    (LOAD, 0, 0, 24),  # the lower half of its second argument
    (EQUAL, 1, 0, LACKS[sys.argv[1]][0]),
    (EQUAL, 0, 1, LACKS[sys.argv[1]][1]),
    (RETURN, 0, 0, ERRNO | errno.ENOTTY),
    (RETURN, 0, 0, ALLOW),
]


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def prctl(*args):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(*args, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")


code = b"".join(struct.pack("HBBI", *i) for i in program)
prctl(PR_SET_NO_NEW_PRIVS, 1, 0)
prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(program), code)))
os.execvp(sys.argv[2], sys.argv[2:])
