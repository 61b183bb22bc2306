# SPDX-License-Identifier: MIT
"""One small class for each library: how it takes a tensor, reads it, writes
it, and makes one of its own. LIBRARIES at the end is the table."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable
from typing import Any

import dlbuf

from ._memory import EXTENT, Block, DType, Layout, peek, peek_dlpack, poke


class Cannot(Exception):
    """The library has no way to do this, and need not have one."""


class Library:
    """The operations of every library; arrays are the library's own objects."""

    name = ""
    module = ""
    package = ""        # whose version it is, where that is another module
    produces = True
    consumes = True
    ours = False        # a door of dlbuf's: for dlbuf's tensors only
    capsules = True     # takes what __dlpack__() returns
    peers = True        # takes NumPy's arrays by the same way as dlbuf's

    def __init__(self) -> None:
        self.lib: Any = importlib.import_module(self.module)

    @property
    def version(self) -> str:
        lib = importlib.import_module(self.package or self.module)
        return str(getattr(lib, "__version__", ""))

    def take(self, x: Any) -> Any:
        """An array of the library over the memory of x."""
        raise NotImplementedError

    def values(self, y: Any, dtype: DType) -> list[Any]:
        """Its elements in order, read by the library."""
        raise NotImplementedError

    def address(self, y: Any, dtype: DType) -> int | None:
        """Of its first element; None where the library does not say."""
        return peek_dlpack(y, dtype)[0]

    def kind(self, y: Any) -> str | None:
        """The dtype that it has become; None where the library has no name."""
        return None

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        """Writes value to every element, by the library."""
        raise Cannot("has no way to write")

    def read_only(self, y: Any) -> bool:
        return False

    def make(self, dtype: DType, layout: Layout) -> Any:
        """Memory of its own, of dtype.bytes_of(EXTENT, 0)."""
        raise Cannot("has no arrays of its own")

    def rewrite(self, y: Any, dtype: DType, layout: Layout,
                round: int) -> None:
        """Other bytes into the memory of make(), past the library, which may
        promise that its arrays do not change."""
        if 0 in layout.shape:
            return
        address = self.address(y, dtype)
        if address is None:
            raise Cannot("does not say where its memory is")
        count = EXTENT if not layout.compact else math.prod(layout.shape)
        poke(address - layout.offset * dtype.size,
             dtype.bytes_of(count, round))


def _compact(layout: Layout) -> int:
    """How many elements; Cannot where rows do not follow one another."""
    if not layout.compact or layout.read_only:
        raise Cannot("makes arrays without gaps only")
    return math.prod(layout.shape)


class NumPy(Library):
    name = module = "numpy"

    def take(self, x: Any) -> Any:
        return self.lib.from_dlpack(x)

    def values(self, y: Any, dtype: DType) -> list[Any]:
        return list(y.flatten().tolist())

    def address(self, y: Any, dtype: DType) -> int | None:
        return int(y.__array_interface__["data"][0])

    def kind(self, y: Any) -> str | None:
        return str(y.dtype.name)

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        y[...] = value

    def read_only(self, y: Any) -> bool:
        return not y.flags.writeable

    def dtype(self, dtype: DType) -> Any:
        """NumPy's own, or of ml_dtypes, whose types are not NumPy's."""
        if hasattr(self.lib, dtype.name):
            return self.lib.dtype(dtype.name)
        try:
            more = importlib.import_module("ml_dtypes")
            return self.lib.dtype(getattr(more, dtype.name))
        except (ImportError, AttributeError):
            raise Cannot(f"has no {dtype.name}") from None

    def make(self, dtype: DType, layout: Layout) -> Any:
        item = dtype.size
        # Aligned: some consumers look at it, and NumPy's own is by chance.
        base = self.lib.zeros(EXTENT * item + Block.ALIGN, "uint8")
        first = -base.__array_interface__["data"][0] % Block.ALIGN
        base[first:first + EXTENT * item] = list(dtype.bytes_of(EXTENT, 0))
        view = self.lib.ndarray(layout.shape, self.dtype(dtype), base,
                                first + layout.offset * item,
                                tuple(s * item for s in layout.strides))
        view.flags.writeable = not layout.read_only
        return view


class AsArray(NumPy):
    """NumPy through the buffer protocol, or the array interface."""

    name = "numpy.asarray"
    produces = capsules = False

    def take(self, x: Any) -> Any:
        y = self.lib.asarray(x)
        if y.dtype == object:
            raise TypeError("made an array of one Python object")
        return y


_X2 = {"torch.float4_e2m1fn_x2": "float4_e2m1fnx2"}


class Torch(Library):
    name = "torch"
    module = "torch"

    def take(self, x: Any) -> Any:
        return self.lib.from_dlpack(x)

    def values(self, y: Any, dtype: DType) -> list[Any]:
        try:
            return list(y.flatten().tolist())
        except (RuntimeError, NotImplementedError):
            return peek(y.data_ptr(), y.shape, y.stride(), dtype)

    def address(self, y: Any, dtype: DType) -> int | None:
        return int(y.data_ptr())

    def kind(self, y: Any) -> str | None:
        return _X2.get(str(y.dtype), str(y.dtype).removeprefix("torch."))

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        try:
            y.fill_(value)
        except (RuntimeError, NotImplementedError) as e:
            raise Cannot(str(e)) from None

    def make(self, dtype: DType, layout: Layout) -> Any:
        if min((*layout.strides, 0)) < 0 or layout.read_only:
            raise Cannot("has no such tensors")
        kind = getattr(self.lib, "float4_e2m1fn_x2" if dtype.name ==
                       "float4_e2m1fnx2" else dtype.name, None)
        if kind is None:
            raise Cannot(f"has no {dtype.name}")
        base = self.lib.frombuffer(bytearray(
            dtype.bytes_of(EXTENT, 0)), dtype=self.lib.uint8).clone()
        return base.view(kind).as_strided(layout.shape, layout.strides,
                                          layout.offset)


class Jax(Library):
    name = "jax"
    module = "jax"

    def __init__(self) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        super().__init__()
        self.lib.config.update("jax_enable_x64", True)
        self.np: Any = importlib.import_module("jax.numpy")

    def take(self, x: Any) -> Any:
        return self.np.from_dlpack(x)

    def values(self, y: Any, dtype: DType) -> list[Any]:
        # An array caches the values that it has once given to Python.
        return list(self.np.array(y, copy=True).ravel().tolist())

    def address(self, y: Any, dtype: DType) -> int | None:
        return int(y.unsafe_buffer_pointer())

    def kind(self, y: Any) -> str | None:
        return str(y.dtype)

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        raise Cannot("does not change arrays")

    def read_only(self, y: Any) -> bool:
        return bool(dlbuf.from_dlpack(y).read_only)

    def make(self, dtype: DType, layout: Layout) -> Any:
        n = _compact(layout)
        kind = getattr(self.np, dtype.name.replace("bool", "bool_"), None)
        if kind is None:
            raise Cannot(f"has no {dtype.name}")
        return self.np.asarray([dtype.value_of(i, 0) for i in range(n)],
                               kind).reshape(layout.shape)


class TensorFlow(Library):
    name = "tensorflow"
    module = "tensorflow"

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
        super().__init__()

    def take(self, x: Any) -> Any:
        # Its function takes the capsule, and knows the old kind.
        if not hasattr(x, "__dlpack__"):
            raise TypeError("it takes capsules, and this object makes none")
        return self.lib.experimental.dlpack.from_dlpack(x.__dlpack__())

    def values(self, y: Any, dtype: DType) -> list[Any]:
        # By one of its kernels, which wants more of memory than taking it.
        flat = self.lib.reshape(y, [-1])
        twice = self.lib.concat([flat, flat], 0).numpy().tolist()
        return list(twice[:len(twice) // 2])

    def kind(self, y: Any) -> str | None:
        return str(y.dtype.name)

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        raise Cannot("does not change tensors")

    def make(self, dtype: DType, layout: Layout) -> Any:
        n = _compact(layout)
        kind = getattr(self.lib.dtypes, dtype.name, None)
        if kind is None:
            raise Cannot(f"has no {dtype.name}")
        return self.lib.constant([dtype.value_of(i, 0) for i in range(n)],
                                 kind, layout.shape)


class OnnxRuntime(Library):
    name = "onnxruntime"
    module = "onnxruntime"

    def __init__(self) -> None:
        super().__init__()
        self.np = NumPy()

    def take(self, x: Any) -> Any:
        return self.lib.OrtValue.from_dlpack(x)

    def values(self, y: Any, dtype: DType) -> list[Any]:
        try:
            a = y.numpy()
            if a.dtype.name == dtype.name:
                return list(a.flatten().tolist())
        except RuntimeError:
            pass        # it has types that NumPy does not, float8 as bytes
        rows = Layout("", tuple(y.shape()), ()).rows()
        return peek(y.data_ptr(), y.shape(), rows, dtype)

    def address(self, y: Any, dtype: DType) -> int | None:
        return int(y.data_ptr())

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        try:
            y.update_inplace(self.np.lib.full(y.shape(), value,
                                              self.np.dtype(dtype)))
        except (RuntimeError, ValueError) as e:
            raise Cannot(str(e)) from None

    def make(self, dtype: DType, layout: Layout) -> Any:
        _compact(layout)
        a = self.np.make(dtype, layout)
        try:
            y = self.lib.OrtValue.ortvalue_from_shape_and_type(
                list(layout.shape), a.dtype)
        except Exception as e:
            raise Cannot(str(e)) from None
        if a.size:
            y.update_inplace(a)
        return y


class TvmFfi(Library):
    name = "tvm_ffi"
    module = "tvm_ffi"

    def take(self, x: Any) -> Any:
        return self.lib.from_dlpack(x)

    def values(self, y: Any, dtype: DType) -> list[Any]:
        """It has no elements in Python: what it hands on says where."""
        return peek(self.address(y, dtype) or 0, tuple(y.shape),
                    tuple(y.strides), dtype)

    def address(self, y: Any, dtype: DType) -> int | None:
        return int(y.data_ptr())

    def kind(self, y: Any) -> str | None:
        try:
            return str(y.dtype)
        except ValueError:
            return None     # it has no name for complex

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        raise Cannot("has no elements in Python")

    def make(self, dtype: DType, layout: Layout) -> Any:
        """It allocates nothing in Python: a tensor over other memory."""
        if layout.read_only:
            raise Cannot("forgets the flag")
        return self.lib.from_dlpack(
            Block(dtype, layout).producer(versioned=False))


class Numba(Library):
    """Compiled functions, which take any object with the buffer protocol."""

    name = "numba"
    module = "numba"
    produces = capsules = peers = False

    def __init__(self) -> None:
        super().__init__()
        self.np = NumPy()
        jit: Callable[[Any], Any] = self.lib.njit
        self._read2, self._fill2 = jit(_read2), jit(_fill2)

    def take(self, x: Any) -> Any:
        # Compiled here, so that a type it does not take is refused here.
        kind = self.lib.typeof(x)
        if getattr(kind, "ndim", 0) != 2:
            raise Cannot("compiled functions index arrays of some dimensions")
        self._read2(x, self.np.lib.zeros(x.shape, kind.dtype.name))
        return x

    def values(self, y: Any, dtype: DType) -> list[Any]:
        out = self.np.lib.zeros(y.shape, self.np.dtype(dtype))
        self._read2(y, out)
        return list(out.flatten().tolist())

    def address(self, y: Any, dtype: DType) -> int | None:
        return None

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        self._fill2(y, *y.shape, self.np.dtype(dtype).type(value))

    def read_only(self, y: Any) -> bool:
        return not self.lib.typeof(y).mutable


# Its type for buffers can be indexed and has no shape.
def _read2(a: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = a[i, j]


def _fill2(a: Any, rows: int, columns: int, value: Any) -> None:
    for i in range(rows):
        for j in range(columns):
            a[i, j] = value


# ------------------------------------------------------------------ our doors

class Dlbuf(Library):
    name = module = "dlbuf"
    produces = False

    def take(self, x: Any) -> Any:
        return dlbuf.from_dlpack(x)

    def values(self, y: Any, dtype: DType) -> list[Any]:
        return peek_dlpack(y, dtype)[1]

    def kind(self, y: Any) -> str | None:
        return str(y.dtype)

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        data = dtype.encoded[dtype.values.index(value)]
        address = self.address(y, dtype) or 0
        for i in Layout("", y.shape, y.strides).indices():
            poke(address + i * dtype.size, data)

    def read_only(self, y: Any) -> bool:
        return bool(y.read_only)


class Buffer(Library):
    """Python's own consumer of the buffer protocol."""

    name = "memoryview"
    module = "builtins"
    package = "dlbuf"
    produces = capsules = False
    ours = True

    def take(self, x: Any) -> Any:
        return memoryview(x)

    def values(self, y: Any, dtype: DType) -> list[Any]:
        data = y.tobytes()
        return [dtype.decode(data[i:i + dtype.size])
                for i in range(0, len(data), dtype.size)]

    def address(self, y: Any, dtype: DType) -> int | None:
        return None

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        try:
            for at in _indices(y.shape):
                y[at] = value
        except NotImplementedError as e:
            raise Cannot(str(e)) from None

    def read_only(self, y: Any) -> bool:
        return bool(y.readonly)


def _indices(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    at: list[tuple[int, ...]] = [()]
    for size in shape:
        at = [(*i, j) for i in at for j in range(size)]
    return at


class ArrayInterface(Library):
    """__array_interface__, read as its specification says."""

    name = "array interface"
    module = "builtins"
    package = "dlbuf"
    produces = capsules = False
    ours = True

    def take(self, x: Any) -> Any:
        # Its dict keeps nothing: the consumer keeps the object.
        return x, x.__array_interface__

    @staticmethod
    def strides(d: dict[str, Any], size: int) -> tuple[int, ...]:
        """In elements; None is compact."""
        if d["strides"] is None:
            return Layout("", d["shape"], ()).rows()
        return tuple(s // size for s in d["strides"])

    def values(self, y: Any, dtype: DType) -> list[Any]:
        d = y[1]
        strides = self.strides(d, int(d["typestr"][2:]))
        return peek(d["data"][0], d["shape"], strides, dtype)

    def address(self, y: Any, dtype: DType) -> int | None:
        return int(y[1]["data"][0])

    def fill(self, y: Any, value: Any, dtype: DType) -> None:
        d = y[1]
        data = dtype.encoded[dtype.values.index(value)]
        strides = self.strides(d, dtype.size)
        for i in Layout("", d["shape"], strides).indices():
            poke(d["data"][0] + i * dtype.size, data)

    def read_only(self, y: Any) -> bool:
        return bool(y[1]["data"][1])


LIBRARIES: dict[str, type[Library]] = {kind.name: kind for kind in (
    Dlbuf, Buffer, ArrayInterface, NumPy, AsArray, Torch, Jax,
    TensorFlow, OnnxRuntime, TvmFfi, Numba)}
