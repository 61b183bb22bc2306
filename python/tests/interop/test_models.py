# SPDX-License-Identifier: MIT
"""The results of models' own packages for a picture, against dlbuf.Preparer of
the same description; and the filters against the libraries that docs/prepare.md
names.

The pictures are RGB in plain memory, so that no matrix of colours is in between.
"""

import json
import math

import pytest

import dlbuf

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

SIZES = [(333, 250), (250, 333), (521, 347), (200, 200)]

# Pillow rounds to 8 bits after each of its two passes: half a unit for the second, and
# half a unit times the sum of |weights| for the first, which is 1.27 for cubic and 1.5 for
# lanczos. In units of 1/255, before the division by std.
UNITS = {"nearest": 0.001, "triangle": 1.01, "cubic": 1.15, "lanczos3": 1.3}

OPENAI = {"image_mean": [0.48145466, 0.4578275, 0.40821073],
          "image_std": [0.26862954, 0.26130258, 0.27577711]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
STEPS = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
HW = {"height": 224, "width": 224}

# preprocessor_config.json as these models have it, less the keys that only name things.
TRANSFORMERS = {
    "google/vit-base-patch16-224": {
        "image_processor_type": "ViTImageProcessor", "resample": 2, "size": HW, **STEPS, **HALF},
    "google/vit-base-patch16-224 of 2021": {
        "feature_extractor_type": "ViTFeatureExtractor", "do_normalize": True,
        "do_resize": True, "resample": 2, "size": 224, **HALF},
    "facebook/deit-base-distilled-patch16-224": {
        "feature_extractor_type": "DeiTFeatureExtractor", "size": 256, "crop_size": 224,
        "do_center_crop": True, "resample": 3, "do_resize": True, "do_normalize": True,
        **IMAGENET},
    "openai/clip-vit-base-patch32": {
        "feature_extractor_type": "CLIPFeatureExtractor", "size": 224, "crop_size": 224,
        "do_center_crop": True, "resample": 3, "do_resize": True, "do_normalize": True,
        **OPENAI},
    "google/siglip-base-patch16-384": {
        "image_processor_type": "SiglipImageProcessor", "resample": 3,
        "processor_class": "SiglipProcessor", "size": {"height": 384, "width": 384},
        **STEPS, **HALF},
    "facebook/dinov2-base": {
        "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256},
        "crop_size": HW, "do_center_crop": True, "do_convert_rgb": True, "resample": 3,
        **STEPS, **IMAGENET},
    "facebook/convnext-tiny-224": {
        "image_processor_type": "ConvNextImageProcessor", "crop_pct": 0.875, "resample": 3,
        "size": {"shortest_edge": 224}, **STEPS, **IMAGENET},
    "facebook/convnext-base-384": {
        "feature_extractor_type": "ConvNextFeatureExtractor", "crop_pct": 0.875, "resample": 3,
        "size": 384, "do_resize": True, "do_normalize": True, **IMAGENET},
    "Salesforce/blip-image-captioning-base": {
        "image_processor_type": "BlipImageProcessor", "do_pad": True, "resample": 3,
        "processor_class": "BlipProcessor", "size": {"height": 384, "width": 384},
        **STEPS, **OPENAI},
    "microsoft/swin-tiny-patch4-window7-224": {
        "feature_extractor_type": "ViTFeatureExtractor", "do_normalize": True,
        "do_resize": True, "resample": 3, "size": 224, **IMAGENET},
    "google/efficientnet-b7": {
        "image_processor_type": "EfficientNetImageProcessor",
        "crop_size": {"height": 289, "width": 289}, "do_center_crop": False,
        "include_top": True, "rescale_offset": True, "resample": 0,
        "size": {"height": 600, "width": 600}, **STEPS, **IMAGENET},
    "google/mobilenet_v1_1.0_224": {
        "image_processor_type": "MobileNetV1ImageProcessor", "crop_size": HW,
        "do_center_crop": True, "resample": 2, "size": {"shortest_edge": 256}, **STEPS, **HALF},
    "Qwen/Qwen2-VL-2B-Instruct": {
        "min_pixels": 3136,
        "max_pixels": 100352, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor",
        **OPENAI},
    "google/mobilenet_v2_1.0_224": {
        "image_processor_type": "MobileNetV2ImageProcessor", "crop_size": HW,
        "do_center_crop": True, "resample": 2, "size": {"shortest_edge": 256},
        "do_reduce_labels": False, **STEPS, **HALF},
    "google/owlvit-base-patch32": {
        "feature_extractor_type": "OwlViTFeatureExtractor", "crop_size": 768, "size": [768, 768],
        "do_center_crop": False, "do_convert_rgb": True, "do_normalize": True, "do_resize": True,
        "rescale": True, "resample": 3, "processor_class": "OwlViTProcessor", **OPENAI},
    "nvidia/segformer-b0-finetuned-ade-512-512": {
        "feature_extractor_type": "SegformerFeatureExtractor", "reduce_labels": True,
        "do_normalize": True, "do_resize": True, "resample": 2, "size": 512, **IMAGENET},
    "facebook/detr-resnet-50 of 2020": {
        "feature_extractor_type": "DetrFeatureExtractor", "format": "coco_detection",
        "do_normalize": True, "do_resize": True, "max_size": 1333, "size": 800, **IMAGENET},
    "facebook/detr-resnet-50": {
        "image_processor_type": "DetrImageProcessor", "format": "coco_detection", "do_pad": True,
        "do_convert_annotations": True, "resample": 2, "pad_size": None,
        "size": {"shortest_edge": 800, "longest_edge": 1333}, **STEPS, **IMAGENET},
    "DETR with bars": {
        "image_processor_type": "DetrImageProcessor", "pad_size": {"height": 620, "width": 600},
        "size": {"shortest_edge": 300, "longest_edge": 500}},
    "DETR without bars by an old name": {
        "image_processor_type": "DetrImageProcessor", "pad_and_return_pixel_mask": False,
        "pad_size": 620, "size": 300, "max_size": 400},
    "PekingU/rtdetr_r50vd": {
        "image_processor_type": "RTDetrImageProcessor", "format": "coco_detection",
        "do_convert_annotations": True, "do_pad": False, "resample": 2,
        "size": {"height": 640, "width": 640}, **IMAGENET, **STEPS, "do_normalize": False},
    "Intel/dpt-large": {
        "feature_extractor_type": "DPTFeatureExtractor", "do_normalize": True, "do_resize": True,
        "ensure_multiple_of": 1, "keep_aspect_ratio": False, "resample": 2,
        "size": {"height": 384, "width": 384}, **HALF},
    "LiheYoung/depth-anything-small-hf": {
        "image_processor_type": "DPTImageProcessor", "do_pad": False, "ensure_multiple_of": 14,
        "keep_aspect_ratio": True, "resample": 3, "size": {"height": 518, "width": 518},
        "size_divisor": None, **STEPS, **IMAGENET},
    "facebook/dpt-dinov2-small-nyu": {
        "image_processor_type": "DPTImageProcessor", "do_normalize": True, "do_pad": True,
        "do_rescale": False, "do_resize": False, "ensure_multiple_of": 1, "resample": 3,
        "keep_aspect_ratio": False, "size_divisor": 14, "size": {"height": 384, "width": 384},
        "image_mean": [123.675, 116.28, 103.53], "image_std": [58.395, 57.12, 57.375]},
    "DPT with a size that is no multiple": {
        "image_processor_type": "DPTImageProcessor", "ensure_multiple_of": 32,
        "size": {"height": 208, "width": 400}},
    "two edges, as DETR's": {
        "image_processor_type": "ViTImageProcessor", "resample": 2,
        "size": {"shortest_edge": 300, "longest_edge": 411}, **STEPS, **IMAGENET},
    "bars": {
        "image_processor_type": "ViTImageProcessor", "resample": 1, "do_pad": True,
        "size": {"max_height": 224, "max_width": 224}, "pad_size": {"height": 256, "width": 240},
        **STEPS, **IMAGENET},
    "nothing but a cut": {
        "image_processor_type": "CLIPImageProcessor", "do_resize": False, "do_rescale": False,
        "do_normalize": True, "do_center_crop": True, "crop_size": {"height": 151, "width": 160},
        "image_mean": [100, 110, 120], "image_std": [50, 60, 70]},
    "a cut that is not square": {
        "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256},
        "crop_size": {"height": 224, "width": 100}},
    "a cut that is larger": {
        "image_processor_type": "BitImageProcessor", "size": {"height": 200, "width": 190},
        "crop_size": 220},
    "rows of pixels, which transformers does not make of a file": {
        "image_processor_type": "ViTImageProcessor", "data_format": "channels_last"},
    "no square, and no size": {
        "image_processor_type": "ViTImageProcessor", "default_to_square": False},
    "a shortest edge by null": {
        "image_processor_type": "ViTImageProcessor", "default_to_square": None, "size": 99},
    "crop_size, and no cut": {"image_processor_type": "ViTImageProcessor", "crop_size": 99},
    "two edges, of which ConvNeXT has one": {
        "image_processor_type": "ConvNextImageProcessor", "crop_size": 9,
        "size": {"shortest_edge": 224, "longest_edge": 230}},
} | {f"{name} with steps that it does not have": {
    "image_processor_type": name + "ImageProcessor", "do_pad": True, "pad_size": 500, **more}
    for name, more in (("ConvNext", {}), ("EfficientNet", {}), (
        "Qwen2VL", {"do_center_crop": True, "crop_size": 99}), ("MobileNetV2", {}),
        ("Segformer", {"do_center_crop": True, "crop_size": 99}))
} | {f"{name} with a cut that it does not have": {
    "image_processor_type": name + "ImageProcessor", "do_center_crop": True, "crop_size": 99}
    for name in ("DPT", "Detr", "RTDetr")
} | {f"{name}, which says nothing": {"image_processor_type": name + "ImageProcessor"}
     for name in ("ViT", "DeiT", "Blip", "Pvt", "CLIP", "ChineseCLIP", "Bit", "MobileNetV1",
                  "MobileNetV2", "Siglip", "ConvNext", "EfficientNet", "Qwen2VL", "OwlViT",
                  "Segformer", "Detr", "RTDetr", "DPT")}

# pretrained_cfg as timm has it.
AUGREG = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
TIMM = {
    "vit_base_patch16_224.augreg_in21k_ft_in1k": {
        "input_size": (3, 224, 224), "crop_pct": 0.9, "interpolation": "bicubic",
        "fixed_input_size": True, "num_classes": 1000, "classifier": "head", **AUGREG},
    "resnet50.a1_in1k": {
        "input_size": (3, 224, 224), "crop_pct": 0.95, "interpolation": "bicubic",
        "test_input_size": (3, 288, 288), "test_crop_pct": 1.0},
    "convnext_tiny.fb_in1k": {
        "input_size": (3, 224, 224), "crop_pct": 0.875, "interpolation": "bicubic",
        "test_input_size": (3, 288, 288), "pool_size": (7, 7)},
    "resnet18.tv_in1k": {"input_size": (3, 224, 224), "interpolation": "bilinear"},
    "vit_base_patch16_siglip_224.webli": {
        "input_size": (3, 224, 224), "crop_pct": 0.9, "crop_mode": "squash", **AUGREG},
    "a picture with bars": {
        "input_size": (3, 240, 224), "crop_pct": 1.0, "crop_mode": "border",
        "interpolation": "lanczos"},
    "a picture with bars, cut": {
        "input_size": (3, 240, 224), "crop_pct": 0.95, "crop_mode": "border"},
    "no square": {"input_size": (3, 160, 224), "crop_pct": 0.95},
}


def picture(width, height):
    """Waves that move by up to 30 units a pixel, and stay far from 0 and 255."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 3.1 + y / 7.3 + c) + np.cos(y / 4.3 - x / 9.1 + 2 * c) for c in range(3)]
    return (127.5 + 50 * np.stack(waves, -1)).round().astype("uint8")


def close(got, want, units, scale, std):
    """Equal within so many units of 1/255, which scale and std have made larger."""
    assert got.shape == want.shape
    worst = np.abs(got - want).max(axis=(1, 2)) * np.broadcast_to(std, 3) / scale
    assert worst.max() <= units * 1.001 + 1e-3, worst


def theirs_of(config):
    transformers = pytest.importorskip("transformers")
    kind = config.get("image_processor_type") or config["feature_extractor_type"]
    cls = getattr(transformers, kind.replace("FeatureExtractor", "ImageProcessor") + "Pil")
    return cls(**{k: v for k, v in config.items() if "_type" not in k})


def compare(theirs, ours, a):
    want = theirs(a, return_tensors="np")["pixel_values"]
    x, info = ours(a, format="RGB")
    if want.ndim == 2:      # Qwen's patches
        h, w = info.height // 14, info.width // 14
        want = want.reshape(h // 2, w // 2, 2, 2, 3, 2, 14, 14)[:, :, :, :, :, 0]
        want = want.transpose(4, 0, 2, 5, 1, 3, 6).reshape(1, 3, h * 14, w * 14)
    close(x.numpy()[0], want[0], UNITS[ours._options["filter"]], ours._options["scale"],
          ours._options["std"])


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name, tmp_path):
    config = TRANSFORMERS[name]
    theirs = theirs_of(config)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    ours = dlbuf.Preparer.from_config(tmp_path)
    for size in SIZES:
        compare(theirs, ours, picture(*size))


@pytest.mark.parametrize("name", [n for n in TRANSFORMERS if n.endswith("says nothing")])
def test_null(name):
    """A key with null has transformers' meaning; if transformers raises, the key is refused."""
    config, a = TRANSFORMERS[name], picture(336, 252)
    size = ({"shortest_edge": 3136, "longest_edge": 99999} if "Qwen" in name else
            {"shortest_edge": 224, "longest_edge": 290} if "Detr" in name else
            HW if "DPT" in name else {"shortest_edge": 224})
    keys = [*theirs_of(config).valid_kwargs.__annotations__, "crop_size"]
    for i, key in enumerate(keys):
        # Each class wants a size for a cut, also if it cuts nothing.
        null = config | {"size": size, key: None} | ({"do_center_crop": True} if i == len(keys) - 1 else {})
        theirs = theirs_of(null)
        try:
            theirs(a)
        except (TypeError, ValueError):
            with pytest.raises(dlbuf.UnsupportedError, match=f"{key}=None"):
                dlbuf.Preparer.from_config(null)
        else:
            compare(theirs, dlbuf.Preparer.from_config(null), a)


@pytest.mark.parametrize("own, other, taken", [
    ({"size": 64}, {"image_processor": {"size": 32}}, 32),
    ({"size": 64}, {"processor_class": "X"}, 64),
    (None, {"image_processor": {"size": 32}}, 32), ({"size": 64}, {"image_processor": None}, 64)])
def test_two_files(own, other, taken, tmp_path):
    """A processor's file counts before the one of the picture."""
    kind = {"image_processor_type": "ViTImageProcessor"}
    for name, config in (("preprocessor", own and kind | own), ("processor", {
            k: kind | v if isinstance(v, dict) else v for k, v in other.items()})):
        if config:
            (tmp_path / f"{name}_config.json").write_text(json.dumps(config))
    auto = pytest.importorskip("transformers").AutoImageProcessor
    theirs = auto.from_pretrained(tmp_path, backend="pil")
    ours = dlbuf.Preparer.from_config(tmp_path)
    compare(theirs, ours, picture(*SIZES[0]))
    assert ours(picture(*SIZES[0]), format="RGB")[1].width == taken


def timm_by_hand(cfg, image):
    """timm's evaluation transform with Pillow alone; test_timm() of the real one is the
    same where timm is."""
    _, height, width = cfg["input_size"]
    w, h = image.size
    edges = tuple(math.floor(n / cfg.get("crop_pct", 0.875)) for n in (width, height))
    mode = cfg.get("crop_mode", "center")
    if mode == "squash":
        size = edges
    elif mode == "center" and width == height:
        size = (edges[0], edges[0] * h // w) if w <= h else (edges[0] * w // h, edges[0])
    else:
        ratio = (max if mode == "border" else min)(w / edges[0], h / edges[1])
        size = round(w / ratio), round(h / ratio)
    filter = {"bilinear": 2, "bicubic": 3, "lanczos": 1}[cfg.get("interpolation", "bicubic")]
    a = np.asarray(image.resize(size, filter))
    grown = np.zeros((max(height, size[1]), max(width, size[0]), 3), "uint8")
    if mode == "border":
        grown[:] = [round(255 * m) for m in cfg.get("mean", (0.485, 0.456, 0.406))]
    top, left = (max(height - size[1], 0) // 2, max(width - size[0], 0) // 2)
    grown[top:top + size[1], left:left + size[0]] = a
    top, left = (round((n - m) / 2) for n, m in zip(grown.shape, (height, width)))
    a = grown[top:top + height, left:left + width] / 255
    return ((a - cfg.get("mean", (0.485, 0.456, 0.406))) /
            cfg.get("std", (0.229, 0.224, 0.225))).transpose(2, 0, 1)


@pytest.mark.parametrize("name", TIMM)
def test_timm(name):
    cfg = TIMM[name]
    ours = dlbuf.Preparer.from_config({"architecture": name, "pretrained_cfg": cfg})
    try:
        import timm.data as data
    except ImportError:
        data = None
    for width, height in SIZES:
        a = picture(width, height)
        want = timm_by_hand(cfg, Image.fromarray(a))
        if data:
            theirs = data.create_transform(**data.resolve_data_config(pretrained_cfg=cfg))
            assert np.abs(theirs(Image.fromarray(a)).numpy() - want).max() < 1e-5
        x, _ = ours(a, format="RGB")
        close(x.numpy()[0], want, UNITS[ours._options["filter"]], 1 / 255,
              cfg.get("std", (0.229, 0.224, 0.225)))


@pytest.mark.parametrize("name", TRANSFORMERS | TIMM)
def test_own_size(name):
    """The file's own size changes nothing, and repr() has options of the same result."""
    config = (TRANSFORMERS | TIMM)[name]
    ours = dlbuf.Preparer.from_config(config)
    wants = [ours(picture(*s), format="RGB") for s in SIZES]
    same = [eval(repr(ours)[1:-1])]
    if len({info[:2] for _, info in wants}) == 1:
        same.append(dlbuf.Preparer.from_config(config, size=wants[0][1][:2]))
        same.append(eval(repr(same[-1])[1:-1]))
    for (x, info), size in zip(wants, SIZES):
        for p in same:
            y, other = p(picture(*size), format="RGB")
            assert info == other and np.array_equal(x.numpy(), y.numpy())


@pytest.mark.parametrize("preset, config", [
    ("imagenet", TIMM["resnet18.tv_in1k"]),
    ("clip", {"image_processor": TRANSFORMERS["openai/clip-vit-base-patch32"]}),
    ("siglip", TRANSFORMERS["google/siglip-base-patch16-384"] | {"size": HW})])
def test_presets(preset, config):
    """A preset equals the model's own configuration."""
    for width, height in SIZES:
        a = picture(width, height)
        want, _ = dlbuf.Preparer.from_config(config)(a, format="RGB")
        got, _ = dlbuf.prepare(a, preset, format="RGB")
        assert np.array_equal(got.numpy(), want.numpy())


def letterbox(cv2, a, side):
    """LetterBox of ultralytics, with floats in place of its bytes."""
    h, w = a.shape[:2]
    r = min(side / h, side / w)
    nw, nh = round(w * r), round(h * r)
    dw, dh = (side - nw) / 2, (side - nh) / 2
    a = cv2.resize(a, (nw, nh), interpolation=cv2.INTER_LINEAR)
    return cv2.copyMakeBorder(a, round(dh - 0.1), round(dh + 0.1), round(dw - 0.1),
                              round(dw + 0.1), cv2.BORDER_CONSTANT, value=(114,) * 3)


@pytest.mark.parametrize("width, height", [*SIZES, (1280, 720), (641, 639)])
def test_yolo(width, height):
    cv2 = pytest.importorskip("cv2")
    a = np.random.default_rng(width).integers(0, 256, (height, width, 3), "uint8")
    want = letterbox(cv2, a.astype("float32"), 640).transpose(2, 0, 1) / 255
    x, info = dlbuf.prepare(a, "yolo", format="RGB")
    assert np.abs(x.numpy()[0] - want).max() < 2e-5
    # scale_boxes() of ultralytics, for a box on the picture
    r = min(640 / height, 640 / width)
    pad = round((640 - width * r) / 2 - 0.1), round((640 - height * r) / 2 - 0.1)
    box = np.array([[100, 120, 300.5, 400]])
    theirs = (box - [*pad, *pad]) / r
    assert np.abs(info.map_to_frame(box) - theirs).max() < 0.5
    x, _ = dlbuf.prepare(a, "yolo", dtype="uint8", layout="nhwc", format="BGR", channels="bgr")
    assert np.abs(x.numpy()[0].astype(int) - letterbox(cv2, a, 640)).max() <= 1


def scaled(a, size, filter):
    x, _ = dlbuf.prepare(a, format="GREY", channels="grey", size=size, filter=filter, scale=1)
    return x.numpy()[0, 0]


# (from, to): both sides smaller, both larger, one of each, no simple ratio
PAIRS = [((320, 240), (97, 61)), ((50, 40), (131, 117)), ((200, 30), (77, 111)),
         ((641, 479), (224, 223)), ((64, 64), (32, 16))]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_filters(pair):
    """Of float32, in units of 255: Pillow's mode F, OpenCV, ONNX Runtime."""
    (w, h), size = pair
    a = np.random.default_rng(w).integers(0, 256, (h, w), "uint8")
    f = a.astype("float32")
    for filter, number in (("triangle", 2), ("cubic", 3), ("lanczos3", 1)):
        want = np.asarray(Image.fromarray(f).resize(size, number)).clip(0, 255)
        assert np.abs(scaled(a, size, filter) - want).max() < 2e-6 * 255, filter
    cv2 = pytest.importorskip("cv2")
    want = cv2.resize(f, size, interpolation=cv2.INTER_LINEAR)
    assert np.abs(scaled(a, size, "bilinear") - want).max() < 1e-5 * 255
    if size[0] < w and size[1] < h:
        want = cv2.resize(f, size, interpolation=cv2.INTER_AREA)
        assert np.abs(scaled(a, size, "area") - want).max() < 2e-6 * 255
    ort, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    helper = onnx.helper
    model = helper.make_model(helper.make_graph(
        [helper.make_node("Resize", ["x", "", "", "size"], ["y"], mode="linear",
                          coordinate_transformation_mode="half_pixel")], "resize",
        [helper.make_tensor_value_info("x", 1, [1, 1, h, w]),
         helper.make_tensor_value_info("size", 7, [4])],
        [helper.make_tensor_value_info("y", 1, None)]),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    want, = session.run(None, {"x": f[None, None], "size": np.array([1, 1, *size[::-1]])})
    # Its positions are float32, so that a weight is off by 2^-23 of the side.
    worst = np.abs(scaled(a, size, "bilinear") - want[0, 0]).max()
    assert worst < max(w, h) / 2**23 * 255 + 1e-3
