# SPDX-License-Identifier: MIT
"""What models' own files say of their input -> options of Preparer."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from ._errors import InvalidError, UnsupportedError
from ._prepare import PRESETS

# Options; those that depend on the size of the picture; and the options that are nearest to
# these, for options that replace a part of them.
_Read = tuple[dict[str, Any], "Sizes", dict[str, Any]]
Sizes = Callable[[int, int], dict[str, Any]]
_Scale = Callable[[float, float], tuple[int, int]]
_EINVAL, _EOPNOTSUPP = 22, 95


def _cannot(key: str, value: Any, why: str) -> UnsupportedError:
    return UnsupportedError(_EOPNOTSUPP, f"{key}={value!r}: {why}")


def _is(value: Any, *types: type) -> bool:
    """isinstance(), after which the value's type is as unknown as before."""
    return isinstance(value, types)


def _positive(value: Any) -> bool:
    return _is(value, int) and not _is(value, bool) and value > 0


def load_config(config: Any) -> dict[str, Any]:
    """What is in the file; of a processor with several parts, that of the picture."""
    found: Any = config
    if not _is(config, Mapping):
        path = os.fsdecode(config)
        if os.path.isdir(path):
            names = ("preprocessor_config.json", "processor_config.json", "config.json")
            path = next((p for n in names if os.path.exists(p := os.path.join(path, n))),
                        os.path.join(path, names[0]))
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
    if not _is(found, Mapping):
        raise InvalidError(_EINVAL, f"a configuration is a dict, not {type(found).__name__}")
    # A processor of several parts, and a model of timm, have it inside.
    for part in ("image_processor", "pretrained_cfg"):
        found = found.get(part) or found
        if not _is(found, Mapping):
            raise _cannot(part, found, "it is a dict")
    return {k: v for k, v in found.items() if v is not None}


def read_config(said: dict[str, Any], given: Mapping[str, Any]) -> _Read:
    """Keys that the options in given replace may be what nobody knows."""
    # A version of another name is the same one's: ViTFeatureExtractor, ViTImageProcessorFast.
    key = next((k for k in ("image_processor_type", "feature_extractor_type") if k in said), "")
    if key:
        if not _is(said[key], str):
            raise _cannot(key, said[key], "it is the name of a class")
        kind = re.sub(r"(ImageProcessor|FeatureExtractor)(Fast|Pil)?$", "", said[key])
        return _Transformers(kind, said | ({"resample": 0} if "filter" in given else {})).read()
    if "input_size" in said:
        return _timm(said)
    raise InvalidError(_EINVAL, "the configuration has neither image_processor_type "
                       "(Hugging Face; add it if the file is old) nor input_size (timm)")


# ------------------------------------------------------------------ sizes

def _shortest(edge: float) -> _Scale:
    """torchvision's Resize(edge)."""
    def scale(w: float, h: float) -> tuple[int, int]:
        return ((edge, int(edge * h / w)) if w <= h else
                (int(edge * w / h), edge))  # type: ignore[return-value]
    return scale


def _both(shortest: int, longest: int) -> _Scale:
    """get_size_with_aspect_ratio() of transformers: DETR."""
    def scale(w: float, h: float) -> tuple[int, int]:
        side: float = shortest
        edge = shortest
        if max(w, h) / min(w, h) * shortest > longest:
            side = longest * min(w, h) / max(w, h)
            edge = round(side)
        if min(w, h) == edge:
            return int(w), int(h)
        return (edge, int(side * h / w)) if w < h else (int(side * w / h), edge)
    return scale


def _within(width: int, height: int) -> _Scale:
    def scale(w: float, h: float) -> tuple[int, int]:
        r = min(height / h, width / w)
        return int(w * r), int(h * r)
    return scale


def _pixels(least: int, most: int, factor: int) -> _Scale:
    """smart_resize() of transformers."""
    def scale(w: float, h: float) -> tuple[int, int]:
        if max(w, h) / min(w, h) > 200:
            raise InvalidError(_EINVAL, f"a picture of {w:g}x{h:g} pixels: the model takes "
                               "sides that differ by 200 times at most")
        sides = [round(n / factor) * factor for n in (w, h)]
        if sides[0] * sides[1] > most:
            beta = math.sqrt(w * h / most)
            sides = [max(factor, math.floor(n / beta / factor) * factor) for n in (w, h)]
        elif sides[0] * sides[1] < least:
            beta = math.sqrt(least / (w * h))
            sides = [math.ceil(n * beta / factor) * factor for n in (w, h)]
        return sides[0], sides[1]
    return scale


# ------------------------------------------------------------------ Hugging Face

def _of_class(resample: int, numbers: str, size: Any, crop: int = 0, cut: bool = True,
              **more: Any) -> dict[str, Any]:
    """What the class has where a file is silent."""
    values = PRESETS[numbers]
    return {"default_to_square": _is(size, int), "resample": resample, "size": size,
            "image_mean": values["mean"], "image_std": values["std"]} | (
                {"crop_size": crop, "do_center_crop": cut} if crop else {}) | more


# Image processors that do nothing but the usual steps, or are known here; interop/test_models.py
# compares with the classes themselves. An int as the size is a square.
_SHORT = {"shortest_edge": 224}
_KNOWN = {
    "ViT": _of_class(2, "siglip", 224), "DeiT": _of_class(3, "siglip", 256, 224),
    "Blip": _of_class(3, "clip", 384), "Pvt": _of_class(3, "imagenet", 224),
    "CLIP": _of_class(3, "clip", _SHORT, 224), "ChineseCLIP": _of_class(3, "clip", _SHORT, 224),
    "Bit": _of_class(3, "clip", _SHORT, 224),
    "MobileNetV1": _of_class(2, "siglip", {"shortest_edge": 256}, 224),
    "Siglip": _of_class(3, "siglip", {"height": 224, "width": 224}),
    "ConvNext": _of_class(3, "siglip", {"shortest_edge": 384}, crop_pct=224 / 256),
    "EfficientNet": _of_class(3, "siglip", 346, 289, False, rescale_offset=False,
                              include_top=True),
    "Qwen2VL": _of_class(3, "clip", {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280},
                         patch_size=14, temporal_patch_size=2, merge_size=2)}
# Keys that change no pixels of a colour picture.
_OF_NO_PIXEL = {
    "image_processor_type", "feature_extractor_type", "processor_class", "do_convert_rgb",
    "input_data_format", "return_tensors", "device", "disable_grouping",
    "image_seq_length", "model_input_names", "transformers_version",
    "_valid_processor_keys"}
_RESAMPLE = {0: "nearest", 1: "lanczos3", 2: "triangle", 3: "cubic"}


class _Transformers:
    """Takes the keys one by one; those that are left change pixels and are unknown."""

    def __init__(self, kind: str, said: dict[str, Any]) -> None:
        self.kind = kind
        if kind not in _KNOWN:
            raise _cannot("image_processor_type", said.get("image_processor_type") or
                          said.get("feature_extractor_type"),
                          "known are " + ", ".join(sorted(_KNOWN)))
        self.left = _KNOWN[kind] | said
        self.square = self.take("default_to_square")
        self.rule: dict[str, Any] = {}

    def take(self, key: str, default: Any = None) -> Any:
        return self.left.pop(key, default)

    def need(self, key: str, of: str) -> Any:
        if key not in self.left:
            raise InvalidError(_EINVAL, f"the configuration has {of}, and no {key}")
        return self.take(key)

    def sides(self, key: str, value: Any, square: bool) -> dict[str, int]:
        """A size in one of its forms as a dict."""
        if _positive(value):
            value = ({"height": value, "width": value} if square else
                     {"shortest_edge": value})
        elif _is(value, list, tuple) and len(value) == 2:
            value = {"height": value[0], "width": value[1]}
        sides: dict[str, Any] = {}
        if _is(value, dict):
            sides = {k: v for k, v in value.items() if v is not None}
        if not sides or not all(map(_positive, sides.values())):
            raise _cannot(key, value, "a size is a number, (height, width), or a dict of "
                          "positive numbers")
        return sides

    def square_of(self, key: str, of: str) -> tuple[int, int]:
        value = self.need(key, of)
        sides = self.sides(key, value, True)
        if set(sides) != {"height", "width"}:
            raise _cannot(key, value, "it needs a height and a width")
        return sides["width"], sides["height"]

    def scale(self) -> _Scale:
        """The size of the scaled picture."""
        if not self.take("do_resize", True):
            for key in ("size", "resample", "crop_pct", "min_pixels", "max_pixels",
                        "patch_size", "temporal_patch_size", "merge_size"):
                self.take(key)
            return lambda w, h: (int(w), int(h))
        if self.kind == "Qwen2VL":
            least, most = self.take("min_pixels"), self.take("max_pixels")
            sides = self.sides("size", self.take("size"), False)
            least, most = least or sides.get("shortest_edge"), most or sides.get("longest_edge")
            if not least or not most:
                raise InvalidError(_EINVAL, "the configuration has no min_pixels or no max_pixels")
            self.take("temporal_patch_size")
            for key, value in (("min_pixels", least), ("max_pixels", most),
                               *((k, self.left[k]) for k in ("patch_size", "merge_size"))):
                if not _positive(value):
                    raise _cannot(key, value, "it needs a positive number")
            factor = self.take("patch_size") * self.take("merge_size")
            self.rule = {"min_pixels": least, "max_pixels": most, "multiple": factor}
            return _pixels(least, most, factor)
        value = self.take("size")
        sides = self.sides("size", value, self.square)
        names = set(sides)
        if names == {"height", "width"}:
            self.rule = {"scaled": (sides["width"], sides["height"])}
            return lambda w, h: (sides["width"], sides["height"])
        if names == {"shortest_edge"}:
            edge = sides["shortest_edge"]
            if self.kind == "ConvNext":
                pct = self.take("crop_pct")
                if not _is(pct, int, float) or not 0 < pct <= 1:
                    raise _cannot("crop_pct", pct, "it needs a number above 0, and 1 at most")
                if edge >= 384:
                    self.rule = {"scaled": (edge, edge)}
                    return lambda w, h: (edge, edge)
                self.left |= {"do_center_crop": True, "crop_size": edge}
                edge = int(edge / pct)
            self.rule = {"shortest": edge}
            return _shortest(edge)
        if names == {"shortest_edge", "longest_edge"}:
            self.rule = {"shortest": sides["shortest_edge"], "longest": sides["longest_edge"]}
            return _both(sides["shortest_edge"], sides["longest_edge"])
        if names == {"max_height", "max_width"}:
            self.rule = {"fit": "letterbox", "size": (sides["max_width"], sides["max_height"])}
            return _within(sides["max_width"], sides["max_height"])
        raise _cannot("size", value, "sizes are height and width, shortest_edge, "
                      "shortest_edge and longest_edge, or max_height and max_width")

    def filter(self) -> str:
        if not self.left.get("do_resize", True):
            return "nearest"
        value = self.take("resample")
        if value not in _RESAMPLE:
            raise _cannot("resample", value, "Pillow's filters are 0 (nearest), 1 (lanczos), "
                          "2 (bilinear) and 3 (bicubic)")
        return _RESAMPLE[value]

    def values(self, options: dict[str, Any]) -> None:
        """scale, mean and std."""
        rescale, factor = self.take("do_rescale", True), self.take("rescale_factor", 1 / 255)
        options["scale"] = factor if rescale else 1.0
        mean, std = self.take("image_mean"), self.take("image_std")
        means: tuple[float, ...] = _three("image_mean", mean)
        used = stds = _three("image_std", std)
        if not self.take("do_normalize", True):
            means = (0.0,) * 3
            used = (1.0,) * 3
        if self.kind == "EfficientNet":
            if self.take("rescale_offset") and rescale:
                means = tuple(m + 1 for m in means)
            if self.take("include_top"):
                used = tuple(u * s for u, s in zip(used, stds))
        options |= {"mean": means, "std": used}

    def read(self) -> _Read:
        options: dict[str, Any] = {"filter": self.filter()}
        scale = self.scale()
        self.values(options)
        size, crop = None, self.take("do_center_crop", "crop_size" in self.left and None)
        if crop is None:
            raise InvalidError(_EINVAL, "the configuration has crop_size, and no do_center_crop")
        if crop:
            size = self.square_of("crop_size", "do_center_crop")
        self.take("crop_size")
        padded = self.take("do_pad", False) and self.take("pad_size")
        self.take("pad_size")
        if padded:
            size_of_crop, self.left["pad_size"] = size, padded
            size = self.square_of("pad_size", "do_pad")
            # Bars of 0 after the normalisation.
            pad = [m / options["scale"] for m in options["mean"]]
            if size_of_crop or not all(0 <= p <= 255 for p in pad):
                raise _cannot("pad_size", padded, "with do_center_crop, or for an image_mean "
                              "outside of 0 to 255")
            options |= {"anchor": "top-left", "pad": tuple(pad)}
        layout = str(getattr(value := self.take("data_format", "channels_first"), "value", value))
        if layout not in ("channels_first", "channels_last"):
            raise _cannot("data_format", value, "known are channels_first and channels_last")
        options["layout"] = "nchw" if layout == "channels_first" else "nhwc"
        for key, value in self.left.items():
            # A step that is not done changes nothing.
            if key not in _OF_NO_PIXEL and not (key.startswith("do_") and not value):
                raise _cannot(key, value, "the key is not known, and may change pixels")
        rule = self.rule | ({"size": size} if size else {})
        if size and set(self.rule) == {"shortest"}:
            rule = {"fit": "crop", "size": size,
                    "crop_pct": min(1, min(size) / self.rule["shortest"])}
        elif not size and "scaled" in rule:
            rule = {"size": rule["scaled"], "fit": "stretch"}
        return options, lambda w, h: self._fit(scale(w, h), size, bool(padded)), rule

    def _fit(self, scaled: tuple[int, int], size: tuple[int, int] | None,
             padded: bool) -> dict[str, Any]:
        for n, s in zip(scaled, size or scaled):
            if padded and n > s:
                raise InvalidError(_EINVAL, f"pad_size={size}: the picture of {scaled} pixels "
                                   "is larger")
            if not padded and s > n and (s - n) % 2:
                raise _cannot("crop_size", size, f"the picture of {scaled} pixels is smaller, "
                              "by an odd number; there transformers' own two ways differ")
        return {"scaled": scaled} | ({"size": size} if size else {})


def _three(key: str, value: Any) -> tuple[float, ...]:
    values: tuple[Any, ...] = (tuple(value) if _is(value, list, tuple) else
                               (value,) * 3)
    if len(values) != 3 or not all(_is(v, int, float) for v in values):
        raise _cannot(key, value, "it needs 3 numbers, or one")
    return tuple(map(float, values))


# ------------------------------------------------------------------ timm

_TIMM = {"input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std"}
# The rest of PretrainedCfg: weights, heads, texts; and sizes of other evaluations.
_TIMM_OF_NO_PIXEL = set("""
    url file state_dict hf_hub_id hf_hub_filename source architecture tag custom_load
    test_input_size min_input_size fixed_input_size test_crop_pct num_classes label_offset
    label_names label_descriptions pool_size test_pool_size first_conv classifier license
    description origin_url paper_name paper_ids notes""".split())
_INTERPOLATION = {"nearest": "nearest", "bilinear": "triangle", "bicubic": "cubic",
                  "lanczos": "lanczos3"}


def _timm(said: dict[str, Any]) -> _Read:
    """resolve_data_config() and transforms_imagenet_eval() of timm."""
    for key, value in said.items():
        if key not in _TIMM | _TIMM_OF_NO_PIXEL:
            raise _cannot(key, value, "the key is not known, and may change pixels")
    try:
        channels, height, width = map(int, said["input_size"])
    except (TypeError, ValueError):
        channels = height = width = 0
    if channels != 3 or min(height, width) < 1:
        raise _cannot("input_size", said["input_size"], "it needs 3 channels, a height and "
                      "a width")
    mode = said.get("crop_mode") or "center"
    if mode not in ("center", "squash", "border"):
        raise _cannot("crop_mode", mode, "known are center, squash and border")
    name = said.get("interpolation") or "bicubic"
    if name not in _INTERPOLATION:
        raise _cannot("interpolation", name, f"known are {', '.join(_INTERPOLATION)}")
    mean = _three("mean", said.get("mean") or (0.485, 0.456, 0.406))
    pct = said.get("crop_pct") or 0.875
    if not _is(pct, int, float) or not 0 < pct <= 16:
        raise _cannot("crop_pct", pct, "it needs a number above 0")
    edges = math.floor(width / pct), math.floor(height / pct)

    def sizes(w: float, h: float) -> dict[str, Any]:
        if mode == "squash":
            scaled = edges
        elif mode == "center" and width == height:
            scaled = _shortest(edges[0])(w, h)
        else:
            ratios = w / edges[0], h / edges[1]
            ratio = min(ratios) if mode == "center" else max(ratios)
            scaled = round(w / ratio), round(h / ratio)
        return {"scaled": scaled, "size": (width, height)}

    rule: dict[str, Any] = {"size": (width, height)} | (
        {"scaled": edges} if mode == "squash" else {"fit": "letterbox"} if mode == "border" else
        {"fit": "crop", "crop_pct": min(1, pct)})
    pad = {"pad": tuple(round(255 * m) for m in mean)} if mode == "border" else {}
    return {"filter": _INTERPOLATION[name], "mean": mean, "cut": "round", **pad,
            "std": _three("std", said.get("std") or (0.229, 0.224, 0.225))}, sizes, rule
