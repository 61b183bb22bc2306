#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""machine: a report's data about the machine, as JSON on standard output

    tests/gpu/machine.py [--hold]

Exit status 4, with a sentence, where there is no driver or no device. --hold:
the device stays open until standard input ends, so that the driver need not
start anew for each program that comes.
"""

import ctypes
import json
import os
import platform
import re
import sys


def text_of(path):
    try:
        with open(path, errors="replace") as f:
            return f.read().strip()
    except OSError:
        return None


def list_of(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


class Refused(Exception):
    pass


class Driver:
    """libcuda, or the library that DLBUF_CUDA_LIBRARY names."""

    def __init__(self):
        name = os.environ.get("DLBUF_CUDA_LIBRARY") or "libcuda.so.1"
        try:
            self.lib = ctypes.CDLL(name)
        except OSError as e:
            raise Refused(f"there is no CUDA driver: {e}") from None
        self.call("cuInit", 0)
        n = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(n))
        if not n.value:
            raise Refused("the CUDA driver has no device")
        self.count = n.value

    def call(self, name, *args):
        result = getattr(self.lib, name)(*args)
        if result:
            words = ctypes.c_char_p()
            self.lib.cuGetErrorString(result, ctypes.byref(words))
            raise Refused(f"{name}: {result}, "
                          f"{(words.value or b'no words').decode()}")

    @property
    def double(self):
        return hasattr(self.lib, "fake_cuda")

    def version(self):
        v = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(v))
        return f"{v.value // 1000}.{v.value % 1000 // 10}"

    def name(self):
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, len(name), 0)
        return name.value.decode(errors="replace")

    def hold(self):
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)


def kernel_driver():
    """The version of the kernel's module, and whether it is the open one."""
    version = text_of("/sys/module/nvidia/version")
    line = text_of("/proc/driver/nvidia/version") or ""
    if not version and (m := re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", line)):
        version = m[1]
    kind = None
    if line or version:
        kind = "open" if "Open Kernel Module" in line else "proprietary"
    return version, kind


def node(path):
    if not os.path.exists(path):
        return "absent"
    return "usable" if os.access(path, os.R_OK | os.W_OK) else "no permission"


def library(name):
    try:
        ctypes.CDLL(name)
        return "there"
    except OSError:
        return "absent"


def modules():
    """The kernel modules that concern dma-bufs or the GPU, as far as the kernel lists them."""
    names = re.compile(r"nvidia|udmabuf|vgem|gdrdrv|nouveau|vivid")
    loaded = [l.split()[0] for l in (text_of("/proc/modules") or "").split("\n")
              if l]
    return sorted({m for m in loaded + list_of("/sys/module")
                   if names.match(m)})


def machine(driver):
    version, kind = kernel_driver()
    return {
        "gpu": driver.name(), "devices": driver.count,
        "double": driver.double, "cuda": driver.version(),
        "driver": version, "kernel_modules": kind,
        "hardware": bool(version) and not driver.double,
        "kernel": platform.release(), "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "modules": modules(),
        "udmabuf": node("/dev/udmabuf"),
        "dma_heaps": list_of("/dev/dma_heap"),
        "dri": list_of("/dev/dri"),
        "vulkan_loader": library("libvulkan.so.1"),
    }


def main():
    try:
        driver = Driver()
        found = machine(driver)
        if "--hold" in sys.argv[1:]:
            driver.hold()
    except (Refused, AttributeError) as e:
        print(e, file=sys.stderr)
        return 4
    print(json.dumps(found), flush=True)
    if "--hold" in sys.argv[1:]:
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
