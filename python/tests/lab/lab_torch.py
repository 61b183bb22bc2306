#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch on real dma-bufs, for the lab. Prints KTAP.

    PYTHONPATH=... python3 python/tests/lab/lab_torch.py [NAME...]

A process of its own: importing it takes long where the CPU is emulated.
"""

import json
import os
import signal
import sys
import warnings

import torch

import dlbuf

import lab_camera
import lab_examples
import labtools
from labtools import fds, maps, raises
from interop import _cells, _matrix
from interop._libraries import LIBRARIES

CASES = []


def case(fn):
    CASES.append(fn)
    return fn


@case
def both_ways():
    """Each reads the other's writes, and the kernel's buffer has them."""
    t = dlbuf.alloc((4, 6), "int16", name="torch")
    x = torch.from_dlpack(t)
    assert x.dtype == torch.int16 and x.shape == (4, 6)
    x[:] = torch.arange(24).reshape(4, 6)
    u = dlbuf.from_fd(t.fd, (2, 3), "int16", strides=(12, 2), offset=2)
    assert memoryview(u).tolist() == [[1, 3, 5], [13, 15, 17]]
    memoryview(t)[3, 5] = -7
    assert x[3, 5] == -7
    y = torch.from_dlpack(u)
    assert y.stride() == (12, 2) and y[1, 2] == 17
    back = dlbuf.from_dlpack(y)
    assert back.strides == (12, 2) and memoryview(back)[0, 0] == 1
    assert dlbuf.asdlpack(y) is y


@case
def asarray():
    """The documented result: the bytes in one dimension, as another type."""
    t = dlbuf.alloc((4, 6), "int16")
    memoryview(t)[0, 1] = 3
    x = torch.asarray(t)
    assert (x.shape, x.dtype) == ((12,), torch.float32)
    assert torch.asarray(t, dtype=torch.int16).tolist() == t.numpy().reshape(-1).tolist()
    assert t.torch().shape == torch.from_dlpack(t).shape == (4, 6)


@case
def pinned_memory():
    """PyTorch takes it as the CPU's, and not by DLPack's own kinds."""
    t = dlbuf.alloc((2, 3), "uint8")
    for kind in dlbuf.DLDeviceType.CUDA_HOST, dlbuf.DLDeviceType.ROCM_HOST:
        x = dlbuf.share(t, t.data, t.shape, t.dtype, device=(kind, 0)).torch()
        x[1, 2] = kind
        assert x.data_ptr() == t.data and t[1, 2].item() == kind


@case
def dtypes_and_views():
    """torch.uint8 has no name and prints itself; a view is a tensor like any."""
    t = dlbuf.alloc((4, 6), torch.int16)
    assert t.dtype == dlbuf.dtype(torch.int16) == "int16"
    for name in ("bool", "uint8", "int64", "float16", "bfloat16", "float64",
                 "complex64"):
        kind = getattr(torch, name)
        assert dlbuf.dtype(kind) == dlbuf.dtype(repr(kind)) == name
        assert dlbuf.dtype(torch.zeros(2, dtype=kind)) == name
    assert dlbuf.dtype(torch.half) == "float16"
    raises(ValueError, lambda: dlbuf.dtype(torch.quint8), "there is no dtype")
    t.torch()[:] = torch.arange(24).reshape(4, 6)
    u = t[1:, ::2].T.unsqueeze(0)
    x = u.torch()
    assert x.shape == (1, 3, 3) and x.stride()[1:] == (2, 6)
    assert x[0].tolist() == t.torch()[1:, ::2].T.tolist()
    x[0, 1, 2] = -5
    assert t[3, 2].item() == -5
    # Its strides of dimensions of one element are anything.
    y = torch.arange(6, dtype=torch.int16).as_strided((1, 6), (77, 1))
    assert dlbuf.from_dlpack(y).reshape(6).torch().tolist() == list(range(6))
    raises(BufferError, lambda: t[::-1].torch(), "t.copy().torch()")
    x = torch.from_dlpack(t[::-1].contiguous())
    assert x.tolist() == t.torch().tolist()[::-1]
    assert t.contiguous() is t
    for odd in -1, -1 << 63, (1 << 63) - 1:
        v = dlbuf.from_fd(t.fd, (1, 6), "int16", strides=(odd, 1))
        assert v.torch()[0].tolist() == t[0].torch().tolist()


@case
def read_only():
    """It has no such tensors: the older ones, which ask for the old capsule,
    are refused; the newer take it and forget the flag."""
    base = dlbuf.alloc(16, "uint8")
    t = dlbuf.from_fd(base.fd, 16, "uint8", access="read")
    asked = []
    kind = type("Asks", (), {
        "__dlpack__": lambda self, **kw: asked.append(kw) or
        t.__dlpack__(**kw), "__dlpack_device__": lambda self: (1, 0)})
    try:
        x = torch.from_dlpack(kind())
    except BufferError as e:
        assert "read-only" in str(e)
        x = None
    assert asked and (x is not None) == ("max_version" in asked[-1])


# (producer, consumer): what the host cannot run, and PyTorch with itself and
# NumPy, which say what it owes.
PAIRS = [("numpy", "torch"), ("torch", "torch"), ("torch", "dlbuf"),
         ("dlbuf", "torch"), *(("dlbuf dma-buf", c) for c in (
             "dlbuf", "memoryview", "array interface", "numpy",
             "numpy.asarray", "torch"))]


def in_a_child(call, names):
    """A cell, whose libraries may end the process: 2.6 does not catch its own
    exception at strides below zero. A fork, because importing is slow."""
    r, w = os.pipe()
    with warnings.catch_warnings(action="ignore"):
        pid = os.fork()     # of a process with threads, which only waits
    if not pid:
        os.close(2)         # a page of stack frames
        os.write(w, json.dumps(call()).encode())
        os._exit(0)
    os.close(w)
    with open(r) as f:
        data = f.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not status:
        return _cells.Cell(*json.loads(data))
    return _cells.Cell(*names, "crashed", signal.Signals(-status).name)


def cells_of(producer, consumer, libraries):
    library = libraries[consumer]
    wanted = _cells.plan(producer, library)
    calls = _cells.cells_of(producer, libraries.get(producer), library, wanted)
    crashed = ""
    for (dtype, layout), call in zip(wanted, calls):
        names = producer, consumer, dtype, layout
        if (consumer, layout) != ("torch", "reversed"):
            yield call()
        elif crashed:
            yield _cells.Cell(*names, "crashed", f"not tried: {crashed} ended "
                              "the process")
        else:
            c = in_a_child(call, names)
            crashed = dtype if c.state == "crashed" else ""
            yield c


@case
def matrix():
    """Every dtype and layout, in this process: one import is slow enough."""
    libraries = {name: LIBRARIES[name]() for name in (
        "dlbuf", "memoryview", "array interface", "numpy", "numpy.asarray",
        "torch")}
    cells = []
    for producer, consumer in PAIRS:
        some = list(cells_of(producer, consumer, libraries))
        # It has no strides below zero; read-only as above.
        few = "reversed", "read-only"
        for c in some:
            assert (c.dtype != "float32" or c.state == "shared" or
                    "torch" in (producer, consumer) and c.layout in few), c
        cells += some
    faults = _matrix.faults(cells)
    assert not faults, faults[:5]
    for c in cells:
        assert c.state in ("shared", "refused", "-") or (
            c.state, c.layout) == ("crashed", "reversed"), c
    if "DLBUF_INTEROP_JSON" in os.environ:
        versions = {n: libraries[n].version for n in ("numpy", "torch")}
        with open(os.environ["DLBUF_INTEROP_JSON"], "w") as f:
            json.dump(_matrix.Report(_matrix.machine_of(""), versions, cells,
                                     faults).to_json(), f)


@case
def their_own_tests():
    """PyTorch's, with dlbuf between producer and consumer: see peers.py."""
    folder = os.environ.get("DLBUF_PEERS", "")
    file = os.path.join(folder, "test_dlpack.py")
    if not os.path.exists(file):
        raise labtools.Skip("python/tests/torch-tests fetches them")
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))
    import peers
    result, wrong = peers.compare("torch", [file])
    assert not wrong, "\n".join(wrong)
    with open(os.path.join(folder, "torch.json"), "w") as f:
        json.dump(result, f)


@case
def fences():
    labtools.waits_without_the_gil("torch", torch.from_dlpack)


@case
def camera():
    """A frame is a torch.Tensor; del gives its buffer back to the camera."""
    with lab_camera.camera() as cam:
        for _ in range(6):
            y, uv = frame = next(cam)
            raw = lab_camera.whole(frame)
            a, b = torch.from_dlpack(y), torch.from_dlpack(uv)
            assert a.shape == (180, 320) and b.shape == (90, 160, 2)
            got = torch.cat([a.flatten(), b.flatten()])
            assert bytes(got.numpy()) == raw and len(set(raw)) > 10
            del frame, y, uv
            # A view of it is it.
            a = a[::2]
            assert cam.held == 1
            del a
            assert cam.held == 1
            del b
            assert cam.held == 0


@case
def counts_return():
    t = dlbuf.alloc((64, 64), "uint8")
    t.device.trim(0)    # imports of other cases become stale meanwhile
    done, counts = [], None
    for i in range(300):
        f, = dlbuf.from_frame([(t.fd, 64)], 64, 64, "R8",
                              release=lambda: done.append(1))
        x = torch.from_dlpack(f)
        x += 1
        u = dlbuf.from_dlpack(x)
        del f, x
        assert len(done) == i
        del u
        assert len(done) == i + 1
        if i == 10:
            counts = fds(), maps(), t.device.stats().tensors
    assert counts == (fds(), maps(), t.device.stats().tensors)
    assert memoryview(t)[63, 63] == 300 % 256
    raises(ValueError, lambda: torch.from_dlpack(dlbuf.from_fd(
        t.fd, (4097,), "uint8")))


@case
def filters():
    """interpolate() of float32; with antialias, torchvision's Resize."""
    for (w, h), size in (((160, 120), (97, 61)), ((50, 40), (131, 117)), ((141, 79), (24, 123))):
        a = torch.randint(0, 256, (h, w), dtype=torch.uint8,
                          generator=torch.Generator().manual_seed(w))
        for mode, antialias, filter in (("bilinear", False, "bilinear"),
                                        ("bilinear", True, "triangle"), ("bicubic", True, "cubic")):
            x, _ = dlbuf.prepare(a, format="GREY", channels="grey", size=size, filter=filter)
            want = torch.nn.functional.interpolate(a[None, None] / 255, size[::-1], mode=mode,
                                                   antialias=antialias).clamp(0, 1)
            worst = (torch.from_dlpack(x) - want).abs().max().item()
            # As for ONNX Runtime, a weight is off by 2^-23 of the side.
            assert worst < max(w, h, *size) / 2**23 + 2e-6, (filter, size, worst)


if __name__ == "__main__":
    print(f"# torch {torch.__version__}, {os.uname().release}")
    sys.exit(labtools.main(sys.argv[1:], CASES + lab_examples.cases(torch=True)))
