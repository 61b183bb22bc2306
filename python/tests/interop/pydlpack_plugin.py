# SPDX-License-Identifier: MIT
"""For pytest: the tests of pydlpack (the module "dlpack"), with dlbuf in place
of their subject. test_yardsticks.py runs them."""

from typing import Any

import dlpack
import pytest

import dlbuf
from interop import _memory


class Object:
    """What their tests ask for: which kind of capsule is said beforehand."""

    def __init__(self, obj, impl_cls=None):
        self.tensor = dlbuf.from_dlpack(obj)
        self.versioned = impl_cls is dlpack.DLManagedTensorVersioned

    def __dlpack__(self, **wishes):
        if self.versioned:
            wishes["max_version"] = (1, 3)
        return self.tensor.__dlpack__(**wishes)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def todict(capsule):
    """Theirs, for capsules named as DLPack says: theirs are all "dltensor"."""
    dl = _memory.tensor_of(capsule)
    n = dl.ndim
    device = dlbuf.DLDeviceType(dl.device[0])
    code = dlbuf.DLDataTypeCode(dl.code)
    ret: dict[str, Any] = {"dl_tensor": {
        "data": dl.data, "ndim": n, "byte_offset": dl.byte_offset,
        "device": {"device_type": f"DL{device.name}",
                   "device_id": dl.device[1]},
        "dtype": {"code": code.name, "bits": dl.bits, "lanes": dl.lanes},
        "shape": tuple(dl.shape[i] for i in range(n)),
        "strides": tuple(dl.strides[i] for i in range(n))}}
    if _memory.py.PyCapsule_GetName(capsule) == b"dltensor_versioned":
        managed = _memory.Versioned.from_address(
            _memory.py.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
        ret["flags"] = managed.flags
        ret["version"] = managed.major, managed.minor
    return ret


@pytest.fixture(autouse=True)
def ours(monkeypatch, request):
    for protocol in ("dlpack", "array_interface_v3", "cuda_array_interface",
                     "buffer"):
        name = f"asdlpack_{protocol}"
        getattr(dlpack, name)       # it is there
        monkeypatch.setattr(dlpack, name, Object)
    monkeypatch.setattr(dlpack, "todict", todict)
