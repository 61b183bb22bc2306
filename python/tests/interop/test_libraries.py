# SPDX-License-Identifier: MIT
"""Tests of the installed libraries that are not in the matrix."""

import gc
import sys
import warnings

import pytest

import dlbuf
from interop._libraries import LIBRARIES


def test_numpy_with_types_that_are_padded(np):
    """DLPack's int4 has two in a byte; NumPy's one."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(BufferError):
        dlbuf.from_dlpack(np.zeros(4, ml_dtypes.int4))


def refuses(*args, **kwargs):
    raise AssertionError("a Python call of the protocol")


def test_tvm_ffi_exchanges(np, monkeypatch):
    """By the exchange API, which is proven by taking the protocol away."""
    ffi = pytest.importorskip("tvm_ffi")
    a = np.arange(12, dtype="f4").reshape(3, 4)
    t = dlbuf.from_dlpack(a)
    refs = sys.getrefcount(a)
    monkeypatch.setattr(dlbuf.Tensor, "__dlpack__", refuses)
    monkeypatch.setattr(dlbuf.Tensor, "__dlpack_device__", refuses)
    # A function of the library takes it as an argument,
    assert ffi.convert(lambda y: y.shape[1])(t) == 4
    # by its own from_dlpack(), and by the table of a class that has one.
    for x in ffi.from_dlpack(t), dlbuf.exchange(
            t, ffi.core.DLTensorTestWrapper):
        assert type(x) is ffi.Tensor and tuple(x.shape) == (3, 4)
        u = dlbuf.from_dlpack(x)
        memoryview(u)[1, 1] += 7
        del x, u
    assert a[1, 1] == 5 + 14
    del t
    gc.collect()
    assert sys.getrefcount(a) == refs - 1


@pytest.fixture
def asked(monkeypatch):
    """The arguments of calls of Tensor.__dlpack__(), a dict each."""
    calls = []
    real = dlbuf.Tensor.__dlpack__

    def spy(self, **wishes):
        calls.append(wishes)
        return real(self, **wishes)

    monkeypatch.setattr(dlbuf.Tensor, "__dlpack__", spy)
    return calls


def test_torch(np, asked):
    torch = pytest.importorskip("torch")
    a = np.arange(12, dtype="f4").reshape(3, 4)
    x = torch.from_dlpack(dlbuf.from_dlpack(a))
    x[1, 1] = 77
    assert a[1, 1] == 77
    u = dlbuf.from_dlpack(x)
    assert u.shape == (3, 4) and memoryview(u)[1, 1] == 77
    with pytest.raises(dlbuf.UnsupportedError, match="negative bit"):
        dlbuf.from_dlpack(torch.zeros(3, dtype=torch.complex64).conj().imag)
    # It has a table, which from_dlpack() of 2.15 does not look for in others.
    assert len(asked) == 1
    if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        v = dlbuf.exchange(x, dlbuf.Tensor)
        w = dlbuf.exchange(v, torch.Tensor)
        w[0, 0] = 5
        assert type(w) is torch.Tensor and w.shape == (3, 4)
        assert memoryview(v)[0, 0] == 5
        assert len(asked) == 1


def test_torch_read_only():
    """Its way to say so, since 2.14."""
    torch = pytest.importorskip("torch")
    wrapper = getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", None)
    if not wrapper:
        pytest.skip("it cannot say so")
    x = torch.zeros(3, dtype=torch.uint8)
    t = dlbuf.from_dlpack(wrapper(x))
    x[1] = 9
    assert t.read_only and bytes(t) == b"\0\x09\0"


def test_jax_asks_for_the_dtype():
    """JAX uses __numpy_dtype__, and the name for an array of bfloat16."""
    jnp = pytest.importorskip("jax.numpy")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    np = pytest.importorskip("numpy")
    a = np.arange(6, dtype="f4").reshape(2, 3)
    t = dlbuf.from_dlpack(a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = jnp.asarray(t[:, ::2])
        assert x.dtype == "float32" and x.tolist() == a[:, ::2].tolist()
        assert jnp.result_type(t) == t.dtype == "float32"
        assert jnp.zeros(3, t.dtype).dtype == t.dtype
        for kind in jnp.float32, jnp.bfloat16, jnp.bool_:
            assert dlbuf.dtype(kind) == jnp.dtype(kind).name
        assert dlbuf.dtype(x) == dlbuf.dtype(x.dtype) == "float32"
    b = dlbuf.from_dlpack(a.astype(ml_dtypes.bfloat16))
    assert jnp.asarray(b, jnp.bfloat16).tolist() == a.tolist()


def test_jax_read_only(np, asked):
    """Since it asks for DLPack 1, it takes and gives read-only tensors."""
    jnp = pytest.importorskip("jax.numpy")
    x = jnp.from_dlpack(dlbuf.from_dlpack(bytes(64)))
    assert [w["max_version"] for w in asked] == [(1, 3)]
    assert dlbuf.from_dlpack(x).read_only and dlbuf.wrap(x).read_only
    x = jnp.zeros(64, "uint8")
    t = dlbuf.wrap(x, lambda a: a.__dlpack__())
    assert not t.read_only
    t.numpy()[0] = 9
    assert int(x[0]) == 9


@pytest.mark.parametrize("library", ["jax.numpy", "tensorflow"])
def test_immutable(np, library):
    """Their arrays never change, which TensorFlow's DLPack does not say."""
    x = pytest.importorskip(library).zeros((1, 3, 8, 8))
    with pytest.raises(dlbuf.AccessError, match=r"out is .*(Array|Tensor)\w*, which must not"):
        dlbuf.prepare(np.full((8, 8, 3), 9, "u1"), size=8, format="RGB", out=x)
    assert float(x[0, 0, 0, 0]) == 0


def test_tensorflow_takes_contiguous(np):
    """Its kernels end the process on memory that is not aligned."""
    pytest.importorskip("tensorflow")
    tf = LIBRARIES["tensorflow"]()
    t = dlbuf.from_dlpack(np.arange(400, dtype="f4")).copy()
    for u in t[1:], t[::-1], t[:16]:
        y = tf.take(u.contiguous())
        assert tf.values(y, None) == u.numpy().tolist()


def test_pillow(np):
    """It wants strides of None, or tobytes()."""
    image = pytest.importorskip("PIL.Image")
    t = dlbuf.from_dlpack(np.arange(24, dtype="u1").reshape(4, 6))
    for u in t, t[1:], t[:, :4], t.T:
        picture = image.fromarray(u)
        assert picture.size == u.shape[::-1]
        assert picture.tobytes() == u.tobytes()
