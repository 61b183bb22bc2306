# SPDX-License-Identifier: MIT
"""CUDA's array interface both ways, with a double of the driver: which calls
are made and what becomes of the answers. Not run on hardware."""

import ctypes
import gc
import shutil
import subprocess
import sys
import weakref

import pytest

import dlbuf
from dlbuf import _cuda

from conftest import Producer, versioned

# Address 0x1... is of device 1, 0x2... is managed, 0x3... is of nobody.
DRIVER = r"""
int waited = -1;
int cuPointerGetAttribute(void *data, int attribute, unsigned long long ptr)
{
	int kind = ptr >> 28;

	if (kind == 3)
		return 1;
	if (attribute == 8)
		*(char *)data = kind == 2;
	else if (attribute == 9)
		*(int *)data = kind;
	else
		return 2;
	return 0;
}
int cuStreamSynchronize(void *stream)
{
	waited = (long)stream;
	return stream == (void *)77 ? 201 : 0;
}
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    if not shutil.which("cc"):
        pytest.skip("no C compiler for the double")
    so = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", so],
                   input=DRIVER, text=True, check=True)
    monkeypatch.setattr(_cuda, "SONAME", str(so))
    _cuda._driver.cache_clear()
    lib = ctypes.CDLL(str(so))
    yield ctypes.c_int.in_dll(lib, "waited")
    _cuda._driver.cache_clear()


class Array:
    def __init__(self, **fields):
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (2, 3), "typestr": "<f4",
            "data": (0x10000100, False), **fields}


def test_consumer(driver):
    t = dlbuf.from_dlpack(Array())
    assert (t.shape, t.strides, t.dtype) == ((2, 3), (3, 1), "float32")
    assert t.__dlpack_device__() == (2, 1) and not t.read_only
    assert driver.value == -1
    t = dlbuf.asdlpack(Array(data=(0x20000000, True), strides=(4, 8)))
    assert t.__dlpack_device__() == (13, 0) and t.read_only
    assert t.strides == (1, 2)
    c = versioned(t.__dlpack__(max_version=(1, 3), stream=2))
    assert c.dl.data == 0x20000000 and c.flags == 1
    with pytest.raises(BufferError):
        dlbuf.from_dlpack(Array(), device="cpu")
    with pytest.raises(BufferError):
        dlbuf.from_dlpack(Array(), device=(2, 0))
    assert dlbuf.from_dlpack(Array(), device=(2, 1)).shape == (2, 3)


@pytest.mark.parametrize("fields, waited", [
    ({"stream": None}, -1), ({"stream": 1}, 1), ({"stream": 2}, 2),
    ({"stream": 4096}, 4096), ({"version": 2, "stream": 5}, -1)])
def test_stream_is_waited_for(driver, fields, waited):
    dlbuf.from_dlpack(Array(**fields))
    assert driver.value == waited


@pytest.mark.parametrize("fields, kind, words", [
    ({"stream": 0}, ValueError, "ambiguous"),
    ({"stream": 77}, dlbuf.Error, "cuStreamSynchronize: CUresult 201"),
    ({"data": (0x30000000, False)}, dlbuf.Error,
     "cuPointerGetAttribute: CUresult 1"),
    ({"version": 1}, BufferError, "version 1"),
    ({"mask": 1}, BufferError, "masked"),
    ({"typestr": ">f4"}, BufferError, "byte order")])
def test_refused(driver, fields, kind, words):
    with pytest.raises(kind, match=words):
        dlbuf.from_dlpack(Array(**fields))


def test_no_driver(monkeypatch):
    monkeypatch.setattr(_cuda, "SONAME", "libdlbuf-no-such-driver.so.1")
    _cuda._driver.cache_clear()
    with pytest.raises(BufferError, match="no driver") as e:
        dlbuf.from_dlpack(Array())
    assert e.value.errno == 19
    # Nothing is asked about no bytes.
    t = dlbuf.from_dlpack(Array(shape=(0, 3), data=(0, False)))
    assert t.__dlpack_device__() == (2, 0)
    assert t.__cuda_array_interface__["data"] == (0, False)


@pytest.mark.parametrize("device", [(2, 3), (13, 0)])
def test_producer(device):
    p = Producer(device=device, flags=1)
    t = dlbuf.from_dlpack(p)
    assert t.__cuda_array_interface__ == {
        "version": 3, "shape": (3,), "typestr": "|u1", "strides": (1,),
        "data": (ctypes.addressof(p.memory), True), "stream": 1}
    assert not hasattr(t, "__array_interface__")
    t.close()
    assert p.deleted == 1


@pytest.mark.parametrize("device", [(1, 0), (3, 0), (7, 0), (10, 0)])
def test_not_of_cuda(device):
    t = dlbuf.from_dlpack(Producer(device=device))
    assert not hasattr(t, "__cuda_array_interface__")
    assert hasattr(t, "__array_interface__") == (device == (1, 0))


def test_there_and_back(driver):
    t = dlbuf.from_dlpack(Array(strides=(-12, 4)))
    again = type("Other", (), {"__cuda_array_interface__":
                               t.__cuda_array_interface__})()
    u = dlbuf.from_dlpack(again)
    assert driver.value == 1        # the stream that the producer said
    assert (u.shape, u.strides, u.dtype) == (t.shape, t.strides, t.dtype)
    assert u.__dlpack_device__() == (2, 1)


def test_counts_return(driver):
    """Dicts, tuples and the object that is kept."""
    source = Array(stream=1)
    gone = weakref.ref(source)
    blocks = []
    for i in range(3000):
        t = dlbuf.from_dlpack(source)
        t.__cuda_array_interface__
        assert not hasattr(t, "__array_interface__")
        if i in (1000, 2999):
            gc.collect()
            blocks.append(sys.getallocatedblocks())
    assert blocks[1] - blocks[0] < 100, blocks
    del source
    assert gone()
    t.close()
    assert not gone()
