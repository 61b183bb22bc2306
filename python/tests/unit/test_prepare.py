# SPDX-License-Identifier: MIT
"""prepare() and Preparer, with planes in plain memory. docs/prepare.md's numbers are
tested in C; interop/test_models.py compares with other libraries."""

import copy
import json
import os
import pickle
import sys
import threading
from typing import Any

import pytest

import dlbuf
from calls import python_calls


def rgb(np, width=16, height=12):
    return np.random.default_rng(1).integers(0, 256, (height, width, 3), "uint8")


BAD = [
    ("size=", {}), ("size=0", {"size": 0}), ("size='x'", {"size": "x"}),
    ("size=(1, 2, 3)", {"size": (1, 2, 3)}), ("size=True", {"size": True}),
    ("size=40000", {"size": 40000}), ("fit='box'", {"fit": "box"}),
    ("filter=3", {"filter": 3}), ("scaled and shortest", {"shortest": 3, "scaled": 4}),
    ("fit='crop'", {"shortest": 3, "fit": "crop"}), ("crop_pct=0.5", {"crop_pct": .5}),
    ("crop_pct=0 is not", {"fit": "crop", "crop_pct": 0}), ("enlarge=False", {"enlarge": False}),
    ("multiple=3", {"multiple": 3}), ("shortest=True", {"shortest": True}),
    ("longest=-1", {"longest": -1}), ("min_pixels", {"min_pixels": 9, "max_pixels": 8}),
    ("scaled=(1,)", {"scaled": (1,)}), ("std=0", {"std": 0}), ("std is -1", {"std": -1}),
    ("mean=(1, 2)", {"mean": (1, 2)}), ("mean='0.5' is not a number, or 3", {"mean": "0.5"}),
    ("mean={", {"mean": {.1, .5, .9}}), ("mean=b'abc' is not", {"mean": b"abc"}),
    ("quant={'scale': 1, 'zero': 0} is not 2", {"dtype": "int8", "quant": {"scale": 1, "zero": 0}}),
    ("quant=(1, -129)", {"dtype": "int8", "quant": (1, -129)}),
    ("quant=(1, -1)", {"dtype": "uint8", "quant": (1, -1)}),
    ("dtype='int8' holds -128 to 127, not the values of 0 to 255: say quant=", {"dtype": "int8"}),
    ("-129 to 126", {"dtype": "int8", "mean": 129}),
    ("0 to 128", {"dtype": "int8", "scale": 128 / 255}),
    ("enlarge='False'", {"fit": "letterbox", "enlarge": "False"}), ("size={", {"size": {8, 9}}),
    ("cut='round' means nothing with fit='stretch'", {"cut": "round"}),
    ("cut='round' means nothing with shortest=", {"shortest": 8, "cut": "round"}),
    ("mean=nan", {"mean": float("nan")}), ("pad is 300", {"fit": "letterbox", "pad": 300}),
    ("pad=None", {"fit": "letterbox", "pad": (1, None, 3)}), ("scale=0", {"scale": 0}),
    ("scale=inf", {"scale": float("inf")}), ("dtype='float64'", {"dtype": "float64"}),
    ("dtype=(1,)", {"dtype": [1]}), ("quant=(1, 2)", {"quant": (1, 2)}),
    ("threads=65", {"threads": 65}), ("quant=(0, 2)", {"dtype": "uint8", "quant": (0, 2)}),
    ("quant=(1, 0.5)", {"dtype": "int8", "quant": (1, .5)}),
    ("turn=5", {"turn": 5}), ("flip='z'", {"flip": "z"}),
    ("crop=(0, 0, 0, 3): its sides are 0 and 3, not above 0", {"crop": (0, 0, 0, 3)}),
    ("pad=3 means nothing with fit='stretch'", {"pad": 3}),
    ("anchor='top-left' means nothing with fit='crop'", {"fit": "crop", "anchor": "top-left"}),
    ("pad=3 means nothing with shortest=", {"shortest": 8, "pad": 3}),
    ("the deadline is not", {"deadline": float("-inf")}),
    ("the deadline is not in", {"deadline": float("inf")}),
    ("crop=(0, 0)", {"crop": (0, 0)}), ("not inside", {"crop": (9, 0, 9, 3)}),
    ("colour=3", {"colour": 3}), ("colour=(999", {"colour": (999, 0, 0, 0, 0, 0)}),
    ("layout='x'", {"layout": "x"}), ("channels=None", {"channels": None}),
    ("exact=1.5 is not True or False", {"exact": 1.5}),
    ("anchor='left'", {"anchor": "left"}), ("cut='up'", {"cut": "up"}),
    ("pad=(1, 2, 3) is not one number, for grey", {"fit": "letterbox", "channels": "grey", "pad": (1, 2, 3)}),
    ("index='a'", {"index": "a"}), ("image 1 of", {"index": 1}),
]


@pytest.mark.parametrize("words, options", BAD, ids=[w for w, _ in BAD])
def test_refused(np, words, options):
    """One sentence with the option's name, and nothing is written."""
    out = np.full((1, 3, 8, 8), 7, "float32")
    if options and not {"size", "shortest", "longest", "min_pixels", "scaled"} & set(options):
        options = {"size": 8, **options}
    with pytest.raises(ValueError) as e:
        dlbuf.prepare(rgb(np), format="RGB", out=out, **options)
    assert words in str(e.value), e.value
    assert (out == 7).all()


def test_refused_planes(np):
    a = rgb(np)
    with pytest.raises(TypeError, match="there is no option 'sizes'; near it: size"):
        dlbuf.prepare(a, sizes=8)
    with pytest.raises(TypeError, match="no option 'orientation'; .*turn= and flip="):
        dlbuf.prepare(a, format="RGB", size=8, orientation=1)
    for words, frame, how in [
            ("need format=", a, {}), ("no format 'RGBX9'", a, {"format": "RGBX9"}),
            ("in V4L2: write YUV444P$", a, {"format": "YUV444"}),
            ("format=5: it is not a name", a, {"format": 5}),
            ("plane 0 of", a[..., 0], {"format": "RGB"}),
            (r"\(12, 16, 2\), not \[rows, columns, 4\], a column for 2 pixels$", a[..., :2],
             {"format": "YUYV"}),
            (r"\(12, 16, 2\), not \[rows, columns, 3\]$", a[..., :2], {"format": "RGB"}),
            ("rows and columns", a[0, 0], {"format": "RGB"}),
            (r"\(8, 3, 5\), not \[rows, bytes of a row\]", np.zeros((8, 3, 5), "u1"),
             {"format": "SBGGR10P"}),
            (r"\(8, 4\), not \[rows, .* whole groups", np.zeros((8, 4), "u1"), {"format": "SBGGR10P"}),
            ("near it: SBGGR10P", np.zeros((8, 5), "u1"), {"format": "SBGGR10_CSI2P"}),
            ("2 tensors", [a, a], {"format": "RGB"}), ("without planes", [], {"format": "RGB"}),
            ("without planes", dlbuf.TensorFrame([], None), {"format": "RGB"}),
            ("there is no preset", a, {"format": "RGB", "preset": "yolo9"}),
            (r"mean=\[1\] is not a number", a, {"format": "RGB", "mean": ([1], 2, 3)})]:
        with pytest.raises(ValueError, match=words):
            dlbuf.prepare(frame, how.pop("preset", None), size=8, **how)
    picture = type("Picture", (), {"__array_interface__": {
        "data": a.tobytes(), "shape": a.shape, "typestr": "|u1", "version": 3}})()
    with pytest.raises(dlbuf.UnsupportedError, match=r"Picture has .*: give numpy.asarray\(\)"):
        dlbuf.prepare(picture, size=8, format="RGB")        # as Pillow's pictures
    # The name that is right, where there is one.
    for kind, right in (("float32", "BGR323232F"), ("float16", "BGR161616F"),
                        ("uint16", "BGR161616"), ("int8", None)):
        with pytest.raises(dlbuf.UnsupportedError) as e:
            dlbuf.prepare(a.astype(kind), size=8, format="RGB")
        assert str(e.value).endswith(f"first one is {kind}" + f': say format="{right}"' * bool(right))
        if right:
            x, _ = dlbuf.prepare(a.astype(kind), size=(16, 12), format=right)
            assert x.shape == (1, 3, 12, 16)
    with pytest.raises(dlbuf.UnsupportedError, match="matrix"):
        dlbuf.prepare([a[..., 0], a[:6, :8, :2]], size=8, format="NV12",
                      colour=dlbuf.Colour(matrix=15))


def test_rows(np):
    """Pixels that are no whole values are given as rows of bytes."""
    # 5 and 6 pixels of the brightest and the darkest, and those of a row that ends within a group.
    for name, row, want in (("SBGGR10P", [255] * 10, [255] * 8), ("Y12P", [255, 0, 15] * 2, [255, 0] * 2),
                            ("Y14P", [0, 0, 255, 0, 0, 240, 3], [0, 0, 255, 0]),
                            ("RGB565X", [255, 255, 0, 0], [255, 0]), ("Y16_BE", [255, 255] * 3, [255] * 3)):
        a = np.array([row] * 4, "uint8")
        x, info = dlbuf.prepare(a, format=name, size=(len(want), 4), dtype="uint8", scale=1)
        assert info.crop == (0, 0, len(want), 4)
        assert (x.numpy() == np.array(want, "uint8")).all(), name


def test_out(np):
    """A new tensor, an array, a Tensor, an image of a batch, each dtype and layout."""
    a = rgb(np)
    want = a.transpose(2, 0, 1) / 255
    how = {"size": (16, 12), "filter": "nearest", "format": "RGB"}
    x, info = dlbuf.prepare(a, **how)
    assert isinstance(x, dlbuf.Tensor) and x.shape == (1, 3, 12, 16) and not x.read_only
    assert (info.width, info.height, info.channels, info.left, info.flip) == (16, 12, 3, 0, "")
    assert abs(x.numpy()[0] - want).max() < 1e-6 and not x.data % 64
    batch = np.full((3, 3, 12, 16), 9, "float32")
    got, _ = dlbuf.prepare(a, **how, out=batch, index=1)
    assert got is batch and abs(batch[1] - want).max() < 1e-6 and (batch[::2] == 9).all()
    for device in "cpu", "cpu:0", dlbuf.Device("cpu:0"):
        assert isinstance(dlbuf.prepare(a, **how, device=device, out=batch)[0], np.ndarray)
    back = batch.transpose(0, 2, 3, 1)[2, ::-1]             # strides of any kind
    dlbuf.prepare(a, **how, out=back, layout="NHWC")
    assert abs(back - a / 255).max() < 1e-6
    mine = dlbuf.from_dlpack(np.zeros((3, 12, 16), "float16"))
    assert dlbuf.prepare(a, **how, out=mine, dtype=np.float16)[0] is mine
    assert abs(mine.numpy() - want).max() < 1e-3
    x, _ = dlbuf.prepare(a, **how, threads=3, dtype="int8", quant=(2, -3), channels="bgr",
                        layout="nhwc", exact=True)
    assert (x.numpy()[0] == (a[..., ::-1] / 2).round().clip(-125, 130) - 3).all()
    assert dlbuf.prepare(a, **how, dtype="bfloat16", channels="grey")[0].shape == (1, 1, 12, 16)
    # Arrays of TensorFlow and older JAX, which DLPack does not call read-only; PyTorch's negative bit.
    frozen = type("Array", (np.ndarray,), {"__module__": "jaxlib._jax"})
    negative = type("Tensor", (np.ndarray,), {"is_neg": lambda _: True})
    for bad, kind in ((batch[..., :8], ValueError), (batch.view(frozen), dlbuf.AccessError),
                      (batch.view(negative), dlbuf.UnsupportedError),
                      (batch.astype("float64"), BufferError),
                      (np.broadcast_to(batch[:1], batch.shape), OSError),
                      (np.frombuffer(bytes(3 * 12 * 16 * 4), "float32").reshape(3, 12, 16),
                       PermissionError), (3, TypeError)):
        with pytest.raises(kind):
            dlbuf.prepare(a, **how, out=bad)
    there = dlbuf.share(a, 4096, (3, 12, 16), "float32", device=(2, 0))
    with pytest.raises(dlbuf.UnsupportedError, match="out is on cuda:0"):
        dlbuf.prepare(a, **how, out=there)
    with pytest.raises(dlbuf.UnsupportedError, match="overlaps"):
        dlbuf.prepare(a, **how, out=a.transpose(2, 0, 1), dtype="uint8")


@pytest.mark.parametrize("wrong, right", [
    ({"turn": True}, {"turn": 1}), ({"threads": 1.0}, {"threads": 1}),
    ({"size": (4.0, 4)}, {"size": (4, 4)})])
def test_kept(np, wrong, right):
    """A wrong option stays wrong when its equal has been used."""
    dlbuf.prepare(rgb(np), format="RGB", **{"size": 8, **right})
    with pytest.raises(ValueError, match=next(iter(wrong))):
        dlbuf.prepare(rgb(np), format="RGB", **{"size": 8, **wrong})


def test_planes(np):
    """Two kinds of frames by turns, each with a plan of its own; colours as asked."""
    p = dlbuf.Preparer(size=8, channels="grey", dtype="uint8")
    y = np.full((12, 16), 90, "uint8")
    uv = np.full((6, 8, 2), 128, "uint8")
    for _ in range(2):
        assert (p((y, uv), format="NV12")[0].numpy() == round((90 - 16) / 219 * 255)).all()
        assert (p(y[:4], format="GREY")[0].numpy() == 90).all()
    assert len(p._plans) == 2
    full = dlbuf.prepare((y, uv), format="NV12", size=8, dtype="uint8",
                         colour=dlbuf.Colour(range=2))[0]
    assert (full.numpy() == 90).all()
    for i in range(40):
        p(y[:4 + i % 8], format="GREY")
        dlbuf.prepare(y, format="GREY", size=8 + i)
    assert len(p._plans) <= 16 and len(dlbuf._prepare._preparers) <= 16


def test_words(np):
    """Pixels that are words of bit fields; HSV with either hue."""
    words = np.random.default_rng(2).integers(0, 1 << 16, (12, 16), "uint16")
    how = {"size": (16, 12), "layout": "nhwc", "filter": "nearest"}
    want = (words[..., None] >> (11, 5, 0) & (31, 63, 31)) / (31, 63, 31)
    got, _ = dlbuf.prepare(words, format="RGB565", **how)
    assert abs(got.numpy()[0] - want).max() < 1e-6
    rows = words.view("uint8")
    got, _ = dlbuf.prepare([rows, rows[:, ::2].copy()], format="RGB565_A8", **how)
    assert abs(got.numpy()[0] - want).max() < 1e-6
    with pytest.raises(ValueError, match="plane 1 of RGB565_A8 has another shape than 12 rows of 16 bytes"):
        dlbuf.prepare([rows, rows[:, :15].copy()], format="RGB565_A8", **how)
    for hue, steps in ((0, 256), (1, 180), (2, 256)):
        hsv = np.full((12, 16, 3), (steps // 3, 255, 255), "uint8")
        got, _ = dlbuf.prepare(hsv, format="HSV24", colour=dlbuf.Colour(hue=hue), **how)
        assert abs(got.numpy() - (0, 1, 0)).max() < .01


def test_map(np):
    """Corners of the picture come back, also turned, in each form of boxes."""
    for turn in range(4):
        for flip in ("", "x", "y", "xy"):
            a = rgb(np)
            x, info = dlbuf.prepare(a, "yolo", format="RGB", size=32, turn=turn, flip=flip,
                                    filter="nearest", crop=(2, 1, 12, 8))
            n, m = (info.scaled_width, info.scaled_height)
            assert (n, m) == ((32, 21) if turn % 2 == 0 else (21, 32))
            box = (info.left, info.top, info.left + n, info.top + m)
            assert info.map_to_frame(box) == pytest.approx((2, 1, 14, 9))
            want = np.array([(2, 1, 14, 9)] * 3)
            assert info.map_to_frame(np.array([box] * 3)) == pytest.approx(want)
            u, v = info.map_to_frame([(info.left + .5, info.top + .5), box])[0]
            first = x.numpy()[0, :, info.top, info.left] * 255
            assert first == pytest.approx(a[int(v), int(u)])
            assert info.map_to_frame(np.array(box[:2])).shape == (2,)
            # Also boxes whose corners are exchanged, and points.
            for some in np.random.default_rng(turn).uniform(-9, 40, (2, 3, 4)), np.eye(2):
                want = np.array([info.map_to_frame(list(b)) for b in some.reshape(-1, some.shape[-1])])
                found = info.map_to_frame(some)
                assert found == pytest.approx(want.reshape(some.shape)) and found.flags.c_contiguous
            nan = info.map_to_frame(np.array([[np.nan, 1, 2, 3], [2, 3, np.nan, 1]])).T
            assert (np.isnan(nan).all(-1) == ([0, 1, 0, 1] if turn % 2 else [1, 0, 1, 0])).all()
    for bad in ((1, 2, 3), np.zeros((2, 3)), np.array(3.0), [(1,)], "ab", ("1", "2"), b"ab", 3,
                None, [None, None], [(1, 2), 3], (1, "2"), {"x": 1}):
        with pytest.raises(ValueError, match="point.*box"):
            info.map_to_frame(bad)
    info = info._replace(crop=(0, 0, 80000, 45000))
    for kind in "uint16", "uint8", "int8", "float16":
        few = np.array([(10, 20, 100, 120)] * 2, kind)
        want = [info.map_to_frame((10., 20., 100., 120.))] * 2
        for form in tuple, list:
            assert info.map_to_frame([form(b) for b in few]) == want
        assert info.map_to_frame(tuple(np.array(n) for n in few[0])) == want[0]
        assert np.allclose(info.map_to_frame(list(few)), want, rtol=1e-12)
    assert info.map_to_frame([]) == [] and info.map_to_frame(np.array([])).shape == (0,)
    assert info.map_to_frame(np.zeros((0, 4))).shape == (0, 4)
    for wrong in ({"scaled_width": 0}, {"scaled_height": -1}, {"turn": 4}):
        with pytest.raises(ValueError, match="no prepared picture"):
            info._replace(**wrong).map_to_frame((1, 2))


def test_memory(np):
    """Freed memory below a live output does not stay in the process."""
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    p, a = dlbuf.Preparer(size=640), rgb(np)
    p(a, format="RGB")
    before = resident()
    outs = [p(a, format="RGB")[0] for _ in range(11)]
    last = outs.pop()
    assert resident() - before > 9 * last.nbytes
    del outs
    assert resident() - before < 3 * last.nbytes
    # Its neighbour's memory is used again, for the same size only.
    again, small = p(a, format="RGB")[0], dlbuf.Preparer(size=320)(a, format="RGB")[0]
    data = again.data
    del again
    more = [dlbuf.Preparer(size=320)(a, format="RGB")[0], *(p(a, format="RGB")[0] for _ in range(2))]
    assert len({t.data for t in (last, small, *more)}) == 5
    data = more.pop().data
    assert p(a, format="RGB")[0].data == data
    assert not any(t.data % 256 for t in (last, small, *more))


def test_calls(np):
    """Values that are the same for all frames of a stream are computed once."""
    frame = dlbuf.from_dlpack(np.zeros((12, 16), "uint8"))
    p = dlbuf.Preparer(size=8, channels="grey")
    x, info = p(frame, format="GREY")
    boxes = np.zeros((100, 4))
    for most, call in ((12, lambda: p(frame, format="GREY")), (4, x.numpy),
                       (2, lambda: info.map_to_frame(boxes))):
        call()
        assert python_calls(call) <= most


def test_threads(np):
    """Several threads with one Preparer: each has a plan, and the right picture."""
    p = dlbuf.Preparer(size=64, dtype="uint8", filter="nearest")
    wrong = []

    def work(value):
        a = np.full((480, 640, 3), value, "uint8")
        for _ in range(20):
            if not (p(a, format="RGB")[0].numpy() == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(v,)) for v in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong

    class Inside:
        """A plan in which another thread's call happens."""

        device = None

        def run(self, *args):
            out[:] = p(a, format="RGB")[0].numpy()

    a = np.full((480, 640, 3), 5, "uint8")
    plans: dict = p._plans
    kind, plan = plans.popitem()
    plans[kind] = Inside(), plan[1]
    out = np.zeros((1, 3, 64, 64), "uint8")
    p(a, format="RGB", out=out)
    assert (out == 5).all()


def test_auto_of_memory(np):
    """What is in no dma-buf is prepared by the CPU, and nothing is chosen."""
    a = rgb(np)
    p = dlbuf.Preparer(size=8, device="auto")
    q = dlbuf.Preparer(size=8)
    assert (p.device, q.device, p.trials, q.trials) == ("auto", "cpu", (), ())
    assert (p(a, format="RGB")[0].numpy() == q(a, format="RGB")[0].numpy()).all()
    out = np.zeros((1, 3, 8, 8), "float32")
    assert dlbuf.prepare(a, size=8, device="auto", format="RGB", out=out)[0] is out
    x, infos = p.crops(a, p.tiles(a, 4, format="RGB"), format="RGB")
    assert len(x.numpy()) == len(infos) == 12
    assert repr(p) == "<dlbuf.Preparer(size=8, device='auto')>"
    for other in pickle.loads(pickle.dumps(p)), copy.copy(p):
        assert (other.device, repr(other)) == ("auto", repr(p))
    assert dlbuf.Preparer(size=8, device="vulkan:9").device == "vulkan:9"
    with pytest.raises(dlbuf.InvalidError, match="no backend is named 'nowhere'"):
        dlbuf.prepare(a, size=8, device="nowhere", format="RGB")


def test_auto_keeps_its_choice(np, monkeypatch):
    """The choice of the library's trials, in which no time passes here, and its errors."""
    module = sys.modules["dlbuf._prepare"]
    tensors = dlbuf.from_dlpack(rgb(np)),
    key = module._key_of(tensors, "RGB")
    found: Any = [("cpu", 2_000_000, 0, ""), ("gles:0", 0, 95, "why")]

    def fastest(*args):
        if isinstance(found, Exception):
            raise found
        return dlbuf.Device("cpu"), found

    monkeypatch.setattr(module._dlbuf, "fastest", fastest)
    p = dlbuf.Preparer(size=8, device="auto")
    p._choice = choice = module._choose(key, tensors, p._parsed, None)
    assert p.trials == (("cpu", .002, ""), ("gles:0", None, "why"))
    assert p.device == "cpu" and repr(p).endswith(" on cpu>") and choice.device is None
    # It is of this process, and not of a copy.
    assert copy.copy(p).device == pickle.loads(pickle.dumps(p)).device == "auto"
    p._choice = choice._replace(process=choice.process + 1)
    assert p.device == "auto" and p.trials == ()
    # If the CPU cannot try, a plan says why; a deadline is the caller's.
    found = dlbuf.UnsupportedError(95, "no rows")
    assert module._choose(key, tensors, p._parsed, None)[1:] == (
        None, "cpu", (("cpu", None, "no rows"),))
    found = dlbuf.DeadlineError(62, "late")
    with pytest.raises(dlbuf.DeadlineError):
        module._choose(key, tensors, p._parsed, None)


VIT = {"image_processor_type": "ViTImageProcessor", "size": 224, "resample": 2,
       "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
CUT = {"do_center_crop": True}
QWEN = {"image_processor_type": "Qwen2VLImageProcessor", "size": None, "patch_size": 14,
        "merge_size": 2}
TIMM = {"input_size": (3, 9, 9)}
CONFIGS = [
    ("image_processor_type='XImageProcessor'", VIT | {"image_processor_type": "XImageProcessor"}),
    ("image_processor_type=5", {"image_processor_type": 5}), ("size=True", VIT | {"size": True}),
    ("size={'height': True", VIT | {"size": {"height": True, "width": 1}}),
    ("crop_size=True", VIT | CUT | {"crop_size": True}),
    ("patch_size='a'", VIT | QWEN | {"patch_size": "a"}),
    ("max_pixels=True", VIT | QWEN | {"max_pixels": True}),
    ("crop_pct=0", {"image_processor_type": "ConvNextImageProcessor", "crop_pct": 0,
                    "size": 224}),
    ("neither image_processor_type", {"size": 224}),
    ("do_thumbnail=True", VIT | {"do_thumbnail": True}),
    ("resample=5: dlbuf has no such filter of Pillow", VIT | {"resample": 5}),
    ("resample=4: dlbuf has no such filter of Pillow", VIT | {"resample": 4}),
    ("size={'longest_edge': 9}", VIT | {"size": {"longest_edge": 9}}),
    ("size={'width': 'a'}", VIT | {"size": {"width": "a"}}),
    ("no crop_size", VIT | CUT),
    *(("no crop_size", CUT | {"image_processor_type": f"{name}ImageProcessor"})
      for name in ("Qwen2VL", "Segformer", "DPT", "Detr", "RTDetr")),
    ("needs a longest_edge", {"image_processor_type": "RTDetrImageProcessor", "size": 640}),
    ("size_divisor=0", {"image_processor_type": "DPTImageProcessor", "do_pad": True, "size_divisor": 0}),
    ("ensure_multiple_of=0", {"image_processor_type": "DPTImageProcessor", "ensure_multiple_of": 0}),
    ("needs a height and a width", {"image_processor_type": "DPTImageProcessor", "size": {"shortest_edge": 9}}),
    ("crop_size={'shortest_edge': 9}", VIT | CUT | {"crop_size": {"shortest_edge": 9}}),
    ("image_std=[1, 2]", VIT | {"image_std": [1, 2]}),
    ("do_center_crop=True: a picture", CUT | {
        "image_processor_type": "ConvNextImageProcessor", "size": 224, "crop_size": 200}),
    ("size={'height': 9, 'width': 9}: it needs", {
        "image_processor_type": "ConvNextImageProcessor", "size": {"height": 9, "width": 9}}),
    ("size={'height': 9, 'width': 9, 'sh", VIT | {
        "size": {"height": 9, "width": 9, "shortest_edge": None}}),
    ("min_pixels=0", VIT | QWEN | {"min_pixels": 0}), ("resample=3.0", VIT | {"resample": 3.0}),
    ("resample=[3]", VIT | {"resample": [3]}),
    ("rescale_factor='a'", VIT | {"rescale_factor": "a"}),
    ("input_size=None", {"input_size": None}),
    ("auto_map=", VIT | {"auto_map": {"AutoImageProcessor": "x.Y"}}),
    ("auto_map=3", VIT | {"auto_map": 3}),
    ("pad_size=", VIT | {"do_pad": True, "pad_size": 300, "image_mean": [2, 2, 2]}),
    ("no min_pixels", VIT | QWEN | {"size": {"longest_edge": 99}}), ("input_size=[1, 9, 9]", {"input_size": [1, 9, 9]}),
    ("crop_mode='x'", TIMM | {"crop_mode": "x"}), ("rotate=1", TIMM | {"rotate": 1}),
    ("interpolation='random'", TIMM | {"interpolation": "random"}),
    ("interpolation=['bicubic']", TIMM | {"interpolation": ["bicubic"]}),
    ("crop_pct=-1", TIMM | {"crop_pct": -1}), ("a dict, not list", []),
    ("image_processor=3", {"image_processor": 3}),
]


@pytest.mark.parametrize("words, config", CONFIGS, ids=[w for w, _ in CONFIGS])
def test_config_refused(words, config, tmp_path):
    """A key that cannot be honoured is refused by its name."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    for given in (tmp_path, path, *([config] if isinstance(config, dict) else [])):
        with pytest.raises((dlbuf.UnsupportedError, dlbuf.InvalidError)) as e:
            dlbuf.Preparer.from_config(given)
        assert words in str(e.value)


def test_config(np, tmp_path):
    """Options beside a configuration; options that depend on the picture are refused with it."""
    p = dlbuf.Preparer.from_config(VIT, dtype="uint8", scale=1, mean=0, std=1, layout="nhwc",
                                   turn=1, crop=(0, 0, 12, 6))
    x, info = p(rgb(np), format="RGB")
    assert (x.shape, x.dtype, info.crop) == ((1, 224, 224, 3), "uint8", (0, 0, 12, 6))
    assert dlbuf.Preparer.from_config(VIT | {"resample": 5}, filter="area")
    # A file may be of another part of the model, or an object as those of transformers and timm.
    said = VIT | {"auto_map": {"AutoProcessor": "x.Y"}}
    assert dlbuf.Preparer.from_config(type("Processor", (), {"to_dict": lambda _: said})())
    with pytest.raises(dlbuf.UnsupportedError, match="1=2"):
        dlbuf.Preparer.from_config({1: 2, **VIT})
    with pytest.raises(ValueError, match=f"{__file__} is not JSON: "):
        dlbuf.Preparer.from_config(__file__)
    for other in None, [], ["a.json"], 5, (VIT,):
        with pytest.raises(TypeError, match="a configuration is a dict, or the name of a file or "
                           "a folder, not "):
            dlbuf.Preparer.from_config(other)
    short = VIT | {"size": {"shortest_edge": 60}}
    nested: dict[str, dict] = {}
    for _ in range(5000):
        nested = {"a": nested}
    (tmp_path / "config.json").write_text(f'{{"size": {"[" * 100_000}')
    for config in tmp_path, short | {"return_tensors": nested}:
        with pytest.raises(ValueError, match="nested too deeply"):
            dlbuf.Preparer.from_config(config)
    # Python 3.13 has a repr() of it, of 35,000 characters; earlier ones have none.
    with pytest.raises(dlbuf.Error, match="nested too deeply|: the key is not known") as e:
        dlbuf.Preparer.from_config(VIT | {"do_magic": nested})
    assert len(str(e.value)) < 400
    x, info = dlbuf.Preparer.from_config(short, turn=1, crop=(0, 0, 12, 6))(rgb(np), format="RGB")
    assert (info.width, info.height) == (60, 120)
    for words, config in (("crop_size", short | {"do_center_crop": True, "crop_size": 61}),
                          ("pad_size", short | {"do_pad": True, "pad_size": 50}),
                          ("picture of 16x12 pixels becomes 40000x30000 by", VIT | {
                              "size": {"shortest_edge": 30000}})):
        with pytest.raises(dlbuf.Error, match=words):
            dlbuf.Preparer.from_config(config)(rgb(np), format="RGB")
    qwen = {k: v for k, v in (VIT | QWEN).items() if k != "resample"}
    with pytest.raises(ValueError, match="200 times"):
        dlbuf.Preparer.from_config(qwen)(np.zeros((1, 999, 3), "uint8"), format="RGB")
    # Options that no picture allows are refused before there is one.
    bad: list[tuple[str, dict]] = [
        ("crop=5 is not", {"crop": 5}), (r"turn=\(3, 1\)", {"turn": (3, 1)}),
        ("filter='x'", {"filter": "x"}), ("pad=1 means nothing", {"pad": 1})]
    for words, given in bad:
        with pytest.raises(ValueError, match=words):
            dlbuf.Preparer.from_config(short, **given)
    assert dlbuf.Preparer.from_config(short | {"do_center_crop": True, "crop_size": 99}, pad=9)
    # A part of a rule that the options cannot say.
    for file, more in ((TIMM | {"input_size": (3, 9, 12)}, {"crop_pct": .9}),
                        (TIMM | {"crop_mode": "border", "crop_pct": .9}, {"enlarge": False}),
                        (VIT | {"size": {"max_height": 9, "max_width": 9}}, {"enlarge": False})):
        with pytest.raises(ValueError, match="means nothing"):
            dlbuf.Preparer.from_config(file, **more)
    for words, p in (("Preparer(size=640, fit", dlbuf.Preparer("yolo")),
                     ("from_config({'image_processor_type': 'ViTIm",
                      pickle.loads(pickle.dumps(dlbuf.Preparer.from_config(short))))):
        assert words in repr(p)


UNIT = {"scale": 1 / 255}
BYTES = {"scale": 1, "mean": 0, "std": 1}
PLAIN = VIT | {"do_normalize": False}
# (what gives the numbers, the options given, which numbers these are; None: refused)
INTEGERS = [
    ("yolo", {"dtype": "int8", "quant": (1 / 255, -128)}, UNIT),
    ("yolo", {"dtype": "int8"}, None),
    ("yolo", {"dtype": "int8", "mean": 128}, BYTES | {"mean": 128}),
    ("yolo", {"dtype": "uint8"}, BYTES), ("yolo", {"dtype": "uint8", "scale": .5}, {"scale": .5}),
    ("imagenet", {"dtype": "int8", "quant": (.0187, -14)}, UNIT | dlbuf._prepare._IMAGENET),
    ("imagenet", {"dtype": "uint8"}, None), ("clip", {"dtype": "int8"}, None),
    ("siglip", {"dtype": "uint8", "mean": 1}, None), ("siglip", {"dtype": "uint8", **BYTES}, BYTES),
    ("siglip", {"dtype": "uint8", "mean": 8, "std": 2}, {"mean": 8, "std": 2}),
    (VIT, {"dtype": "int8", "quant": (1 / 127, 0)}, UNIT | {"mean": .5, "std": .5}),
    ({"input_size": (3, 224, 224), "mean": [.5] * 3, "std": [.5] * 3},
     {"dtype": "int8", "quant": (1 / 127, 0)}, UNIT | {"mean": .5, "std": .5}),
    (VIT, {"dtype": "uint8"}, None), (TIMM, {"dtype": "uint8"}, None),
    (PLAIN, {"dtype": "int8"}, None),
    (PLAIN, {"dtype": "uint8"}, BYTES), (PLAIN | {"rescale_factor": 1 / 127.5}, {"dtype": "uint8"}, None),
    (PLAIN | {"do_rescale": False}, {"dtype": "uint8"}, BYTES),
]


@pytest.mark.parametrize("base, given, numbers", INTEGERS)
def test_integers(np, base, given, numbers):
    """A model's numbers are those of floats, and quant makes integers of them."""
    make = dlbuf.Preparer if isinstance(base, str) else dlbuf.Preparer.from_config
    given = {**given, "size": 6, "fit": "stretch", "filter": "nearest", "layout": "nhwc",
             "exact": True}
    if not numbers:
        with pytest.raises(ValueError, match="dtype=.* say quant="):
            make(base, **given)
        return
    row = np.array([0, 32, 64, 128, 192, 255], "uint8")[None, :, None].repeat(3, 2)
    want = (row.astype("float64") * numbers.get("scale", 1) - numbers.get("mean", 0)) / numbers.get("std", 1)
    scale, zero = given.get("quant", (1, 0))
    limits = np.iinfo(given["dtype"])
    x, _ = make(base, **given)(row, format="RGB")
    want = (want / scale).round() + zero
    assert (x.numpy()[0] == want.clip(limits.min, limits.max)).all()


CLIP = {"image_processor_type": "CLIPImageProcessor"}
EDGE = VIT | {"size": {"shortest_edge": 60}}
# (what is replaced, the options given, what is the same)
REPLACED = [
    ("imagenet", {"fit": "stretch", "size": 64},
     {"size": 64, "filter": "triangle", **dlbuf._prepare._IMAGENET}),
    ("imagenet", {"fit": "crop", "size": 64}, {"preset": "imagenet", "size": 64}),
    ("yolo", {"shortest": 10}, {"size": 640, "shortest": 10, "pad": 114}),
    ("yolo", {"fit": "crop", "crop_pct": .5}, {"size": 640, "fit": "crop", "crop_pct": .5}),
    ("clip", {"scaled": (50, 60), "size": 32}, {"preset": "clip", "scaled": (50, 60), "size": 32}),
    (CLIP, {"size": 100}, {"preset": "clip", "size": 100}),
    (CLIP, {"crop_pct": .8}, {"preset": "clip", "crop_pct": .8}),
    (CLIP, {"shortest": 300}, {"preset": "clip", "shortest": 300}),
    (CLIP, {"size": (50, 40), "fit": "letterbox"},
     {"preset": "clip", "size": (50, 40), "fit": "letterbox"}),
    (CLIP | {"size": 256}, {"size": 100}, {"preset": "clip", "size": 100, "crop_pct": .875}),
    (VIT, {"size": 100}, {"preset": "siglip", "size": 100, "filter": "triangle"}),
    (VIT, {"fit": "letterbox"}, {"preset": "siglip", "fit": "letterbox", "filter": "triangle"}),
    (EDGE, {"size": 33},
     {"preset": "siglip", "size": 33, "fit": "crop", "filter": "triangle"}),
    (VIT | {"size": {"max_height": 9, "max_width": 9}}, {"size": (33, 20)},
     {"preset": "siglip", "size": (33, 20), "scaled": (26, 20), "filter": "triangle"}),
    (EDGE, {"longest": 70}, {"mean": .5, "std": .5, "filter": "triangle", "shortest": 60,
                             "longest": 70}),
    ({"image_processor_type": "DeiTImageProcessor"}, {"size": (112, 56)},
     {"mean": .5, "std": .5, "scaled": (128, 64), "size": (112, 56), "filter": "cubic"}),
    (VIT | QWEN, {"max_pixels": 9000},
     {"mean": .5, "std": .5, "filter": "triangle", "min_pixels": 56 * 56, "max_pixels": 9000,
      "multiple": 28}),
    (VIT | QWEN, {"size": 33}, {"mean": .5, "std": .5, "filter": "triangle", "size": 33}),
    (TIMM | {"input_size": (3, 224, 224), "interpolation": "bilinear"}, {"size": 64},
     {"preset": "imagenet", "size": 64}),
    (TIMM | {"crop_mode": "squash"}, {"size": 18},
     {"scaled": (20, 20), "size": 18, "filter": "cubic", "cut": "round",
      **dlbuf._prepare._IMAGENET}),
    (VIT | CUT | {"do_resize": False, "crop_size": 6}, {"size": 8},
     {"mean": .5, "std": .5, "scaled": (16, 12), "size": 8}),
]


@pytest.mark.parametrize("base, given, want", REPLACED)
def test_replaced(np, base, given, want):
    """An option removes options of the preset or the file that mean nothing beside it."""
    make = dlbuf.Preparer if isinstance(base, str) else dlbuf.Preparer.from_config
    want = dict(want)
    a = rgb(np)
    (x, info), (y, wanted) = (make(base, **given)(a, format="RGB"), dlbuf.prepare(
        a, want.pop("preset", None), format="RGB", **want))
    assert info == wanted and (x.numpy() == y.numpy()).all()
    z, _ = make(base, **given, channels="BGR")(a, format="RGB")
    assert (z.numpy()[:, ::-1] == x.numpy()).all()      # each colour has its own mean


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies(np, how):
    """A copy has the options, of a file the sizes, and no plan and no list of the first."""
    a, mean = rgb(np), [.1, .2, .3]
    config: dict = EDGE | {"image_mean": mean}
    for p in (dlbuf.Preparer("yolo", mean=mean, dtype=np.float16, colour=dlbuf.Colour(range=2)),
              dlbuf.Preparer.from_config(config, turn=1, scale=np.float32(3)), dlbuf.Preparer.from_config(CLIP, size=9)):
        for _ in range(2):
            q = how(p)
            assert repr(q) == repr(p) and not q._plans and q._options is not p._options
            assert not p._config or (q._config or {}).get("size", q) is not p._config.get("size", p)
            mean[0] = 9                             # the caller's, no more the Preparer's
            config["size"]["shortest_edge"] = 7
            (x, info), (y, same) = q(a, format="RGB"), p(a, format="RGB")
            assert info == same and (x.numpy() == y.numpy()).all()
            mean[0], config["size"]["shortest_edge"] = .1, 60
            assert not {id(v[0]) for v in p._plans.values()} & {id(v[0]) for v in q._plans.values()}


def test_crops(np):
    """Each crop equals the result of a Preparer with that option; by a file's rule, too."""
    a = rgb(np)
    parts = [(0, 0, 8, 6), (3.5, 2, 9, 9.5), (4, 1, 12, 4)]
    cut = {"do_center_crop": True, "crop_size": 6, "size": {"shortest_edge": 8}}
    for make in (lambda **more: dlbuf.Preparer("yolo", size=32, turn=1, **more),
                 lambda **more: dlbuf.Preparer.from_config(VIT | cut, layout="nhwc", **more),
                 lambda **more: dlbuf.Preparer.from_config(EDGE | {"size": {
                     "shortest_edge": 6, "longest_edge": 9}}, size=8, **more)):
        p = make()
        for crops in (parts, np.array(parts)):
            x, infos = p.crops(a, crops, format="RGB")
            batch = np.zeros((4, *x.shape[1:]), "float32")
            assert p.crops(a, crops, format="RGB", out=batch, index=1)[0] is batch
            assert (batch[1:] == x.numpy()).all() and not batch[0].any()
            for i, part in enumerate(parts):
                y, info = make(crop=part)(a, format="RGB")
                assert info == infos[i] and (y.numpy()[0] == x.numpy()[i]).all()
    # A rule by which all sizes follow has one plan for all crops.
    for config in (VIT, CLIP, QWEN | {"size": None}, TIMM, TIMM | {"crop_mode": "squash"}):
        p = dlbuf.Preparer.from_config(config, size=32)
        p.crops(a, parts, format="RGB")
        assert len(p._plans) == 1, config
    p = dlbuf.Preparer(size=8)
    assert p.tiles(a, format="RGB") == [(0, 0, 8, 8), (8, 0, 8, 8), (0, 4, 8, 8), (8, 4, 8, 8)]
    assert p.tiles(a, (9, 12), (4, 0), format="RGB") == [(x, 0, 9, 12) for x in (0, 5, 7)]
    for words, bad in (("crops=", []), ("crops=3", 3), (r"crops\[0\]=\(1, 2\) is not", [(1, 2)]), ("crops", "abcd"),
                       (r"crops\[1\]=.*: its sides are 0 and 0, not above 0", [parts[0], (0, 0, 0, 0)]),
                       (r"crops\[0\]=\(nan, 0, 1, 1\) is not", [(float("nan"), 0, 1, 1)]),
                       ("not inside", [*parts, (9, 0, 9, 3)])):
        with pytest.raises(ValueError, match=words):
            p.crops(a, bad, format="RGB")
    for words, how in (("overlap=-1", {"overlap": -1}), ("overlap='a'", {"overlap": "a"}),
                       ("size=0", {"size": 0}), ("cannot share", {"overlap": 8})):
        with pytest.raises(ValueError, match=words):
            p.tiles(a, format="RGB", **how)
    p = dlbuf.Preparer(shortest=8)
    assert p.crops(a, [(0, 0, 5, 4), (3, 3, 10, 8)], format="RGB")[0].shape == (2, 3, 8, 10)
    with pytest.raises(ValueError, match="different sizes; say size="):
        p.crops(a, parts, format="RGB")
