# SPDX-License-Identifier: MIT
"""Models' own descriptions of their input -> options of Preparer."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from ._errors import InvalidError, UnsupportedError
from ._prepare import PRESETS, pair

# Options; those of the size, or a function that finds them for a picture; and the options that
# are nearest to these, for options that replace a part of them.
_Read = tuple[dict[str, Any], "Sizes | dict[str, Any]", dict[str, Any]]
Sizes = Callable[[int, int], dict[str, Any]]
_Scale = Callable[[float, float], tuple[int, int]]
_EINVAL, _EOPNOTSUPP = 22, 95


def _cannot(key: str, value: Any, why: str) -> UnsupportedError:
    said = repr(value)
    said = said if len(said) <= 200 else said[:200] + "..."
    return UnsupportedError(_EOPNOTSUPP, f"{key}={said}: {why}")


def _is(value: Any, *types: type) -> bool:
    """isinstance(), after which the value's type is as unknown as before."""
    return isinstance(value, types)


def _positive(value: Any) -> bool:
    return _is(value, int) and not _is(value, bool) and value > 0


def load_config(config: Any) -> dict[str, Any]:
    """The content of the file; if a processor has several parts, the part for pictures."""
    found: Any = config.to_dict() if hasattr(config, "to_dict") else config
    if not _is(found, Mapping):
        if not _is(config, str, bytes, os.PathLike):
            raise TypeError("a configuration is a dict, or the name of a file or a folder, not "
                            f"{config!r}")
        paths = [os.fsdecode(config)]
        if os.path.isdir(paths[0]):
            names = ("processor_config.json", "preprocessor_config.json", "config.json")
            paths = [os.path.join(paths[0], n) for n in names]
            paths = [p for p in paths if os.path.exists(p)] or paths[1:2]
        for path in paths:
            with open(path, encoding="utf-8") as f:
                try:
                    found = json.load(f)
                except ValueError as e:
                    raise InvalidError(_EINVAL, f"{path} is not JSON: {e}") from None
            # As transformers: a processor's file counts if it has the part of the picture.
            if (os.path.basename(path) != "processor_config.json" or
                    _is(found, Mapping) and found.get("image_processor") is not None):
                break
    if not _is(found, Mapping):
        raise InvalidError(_EINVAL, f"a configuration is a dict, not {type(found).__name__}")
    # A processor of several parts, and a model of timm, have it inside.
    for part in ("image_processor", "pretrained_cfg"):
        found = found.get(part) or found
        if not _is(found, Mapping):
            raise _cannot(part, found, "it is a dict")
    return dict(found)


def read_config(said: dict[str, Any], given: Mapping[str, Any]) -> _Read:
    """Keys that the options in given replace may be what nobody knows. size is another one
    of the tensor, by the same rule."""
    to = pair("size", given["size"]) if "size" in given else None
    # A version of another name is the same one's: ViTFeatureExtractor, ViTImageProcessorFast.
    key = next((k for k in ("image_processor_type", "feature_extractor_type")
                if said.get(k) is not None), "")
    if key:
        if not _is(said[key], str):
            raise _cannot(key, said[key], "it is the name of a class")
        kind = re.sub(r"(ImageProcessor|FeatureExtractor)(Fast|Pil)?$", "", said[key])
        return _Transformers(kind, said | ({"resample": 0} if "filter" in given else {}), to).read()
    if "input_size" in said:
        return _timm(said, to)
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


def _nearest(width: int, height: int, keep: bool, factor: int) -> _Scale:
    """get_resize_output_image_size() of DPT: multiples of factor; with keep the picture's aspect,
    by the one of both scales that is nearer to 1."""
    def scale(w: float, h: float) -> tuple[int, int]:
        wide, high = width / w, height / h
        if keep:
            wide = high = wide if abs(1 - wide) < abs(1 - high) else high
        return round(wide * w / factor) * factor, round(high * h / factor) * factor
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
    """The class's default of a key that the file does not have."""
    values, square = PRESETS[numbers], _is(size, int)
    return {"default_to_square": square, "resample": resample,
            "size": {"height": size, "width": size} if square else size,
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
    "MobileNetV2": _of_class(2, "siglip", {"shortest_edge": 256}, 224),
    "OwlViT": _of_class(3, "clip", 768, 768, False), "Segformer": _of_class(2, "imagenet", 512),
    "Detr": _of_class(2, "imagenet", {"shortest_edge": 800, "longest_edge": 1333}, do_pad=True),
    "RTDetr": _of_class(2, "imagenet", {"height": 640, "width": 640}, do_normalize=False),
    "DPT": _of_class(3, "siglip", 384, keep_aspect_ratio=False, ensure_multiple_of=1),
    "Siglip": _of_class(3, "siglip", {"height": 224, "width": 224}),
    "ConvNext": _of_class(3, "siglip", {"shortest_edge": 384}, crop_pct=224 / 256),
    "EfficientNet": _of_class(3, "siglip", 346, 289, False, rescale_offset=False,
                              include_top=True),
    "Qwen2VL": _of_class(3, "clip", {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280},
                         patch_size=14, temporal_patch_size=2, merge_size=2)}
# Steps that these classes do not have.
_CUTS, _BARS = ("do_center_crop", "crop_size"), ("do_pad", "pad_size")
_WITHOUT = {"ConvNext": _BARS, "EfficientNet": _BARS, "MobileNetV2": _BARS,
            "Qwen2VL": _BARS + _CUTS, "Segformer": _BARS + _CUTS,
            "DPT": ("pad_size", *_CUTS), "Detr": _CUTS, "RTDetr": _CUTS}
# Keys that change no pixels of a colour picture. Whatever data_format says, the classes make
# [C, H, W] of a file.
_OF_NO_PIXEL = {
    "image_processor_type", "feature_extractor_type", "processor_class", "do_convert_rgb",
    "data_format", "input_data_format", "return_tensors", "device", "disable_grouping",
    "image_seq_length", "model_input_names", "transformers_version",
    "_valid_processor_keys"}
_OF_LABELS = {"do_reduce_labels", "reduce_labels", "format", "do_convert_annotations",
              "return_segmentation_masks", "masks_path"}
_RESAMPLE = {0: "nearest", 1: "lanczos3", 2: "triangle", 3: "cubic"}


class _Transformers:
    """Takes the keys one by one; those that are left change pixels and are unknown. A null is
    a step that is not done, or no value for one that is. to: another size of the tensor."""

    def __init__(self, kind: str, said: dict[str, Any], to: tuple[int, int] | None) -> None:
        self.kind, self.to = kind, to
        if kind not in _KNOWN:
            raise _cannot("image_processor_type", said.get("image_processor_type") or
                          said.get("feature_extractor_type"),
                          "known are " + ", ".join(sorted(_KNOWN)))
        self.left = _KNOWN[kind] | said
        without = _WITHOUT.get(kind, ())
        # transformers demands it of all classes.
        if "crop_size" in without and self.left.get("do_center_crop"):
            if self.need("crop_size", "do_center_crop") is None:
                raise _cannot("crop_size", None, "do_center_crop needs one")
        if "Detr" in kind and said.get("format", "") is None:
            raise _cannot("format", None, "transformers takes the name of a format only")
        # Names of earlier versions.
        if kind == "OwlViT" and "rescale" in self.left:
            self.left["do_rescale"] = self.take("rescale")
        if kind == "Detr":
            self.old_detr(said)
        for key in without:
            self.take(key)
        self.square = self.take("default_to_square")
        self.cut: tuple[int, int] | None = None
        self.padded: tuple[int, int] | None = None
        self.divisor: int | None = None
        self.rule: dict[str, Any] = {}

    def take(self, key: str, default: Any = None) -> Any:
        return self.left.pop(key, default)

    # DETR's size and bars by the names of earlier versions.
    def old_detr(self, said: dict[str, Any]) -> None:
        padded, longest = self.take("pad_and_return_pixel_mask", True), self.take("max_size", 1333)
        if "do_pad" not in said:
            self.left["do_pad"] = padded
        size = self.left["size"]
        if size is None:
            self.left["size"] = _KNOWN["Detr"]["size"]
        elif _positive(size):
            self.left["size"] = {"shortest_edge": size, "longest_edge": longest}

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
        sides: dict[str, Any] = dict(value) if _is(value, dict) else {}
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
                        "patch_size", "temporal_patch_size", "merge_size",
                        "keep_aspect_ratio", "ensure_multiple_of"):
                self.take(key)
            return lambda w, h: (int(w), int(h))
        value, to = self.take("size"), self.to
        if self.kind == "Qwen2VL":
            sides = self.sides("size", _KNOWN[self.kind]["size"] if value is None else value, False)
            least, most = self.take("min_pixels"), self.take("max_pixels")
            least = sides.get("shortest_edge") if least is None else least
            most = sides.get("longest_edge") if most is None else most
            if least is None or most is None:
                raise InvalidError(_EINVAL, "the configuration has no min_pixels or no max_pixels")
            patch = [(k, self.take(k)) for k in ("patch_size", "merge_size", "temporal_patch_size")]
            for key, value in (("min_pixels", least), ("max_pixels", most), *patch):
                if not _positive(value):
                    raise _cannot(key, value, "it needs a positive number")
            factor = patch[0][1] * patch[1][1]
            self.rule = {"min_pixels": least, "max_pixels": most, "multiple": factor}
            return (lambda w, h: to) if to else _pixels(least, most, factor)
        sides = self.sides("size", value, self.square)
        if self.kind == "ConvNext":
            edge, pct = sides.get("shortest_edge"), self.take("crop_pct")
            if edge is None:
                raise _cannot("size", value, "it needs a shortest_edge")
            if edge >= 384:
                sides = {"height": edge, "width": edge}
            elif not _is(pct, int, float) or not 0 < pct <= 1:
                raise _cannot("crop_pct", pct, "it needs a number above 0, and 1 at most")
            elif self.cut:
                raise _cannot("do_center_crop", True, "a picture that ConvNext scales to less "
                              "than 384 pixels is cut by crop_pct already")
            else:
                self.cut = edge, edge
                sides = {"shortest_edge": int(edge / pct)}
        names, old = set(sides), self.cut or self.padded
        if self.kind == "DPT":
            return self.dpt(value, sides)
        if self.kind in ("Detr", "RTDetr") and names == {"shortest_edge"}:
            raise _cannot("size", value, "it needs a longest_edge, too")
        if names in ({"height", "width"}, {"max_height", "max_width"}):
            wide, high = (n for _, n in sorted(sides.items(), reverse=True))
            if to:
                wide, high = (max(1, n * t // o) for n, t, o in zip(
                    (wide, high), to, old or (wide, high)))
            both = wide, high
            if "height" in names:
                self.rule = {"scaled": both}
                return lambda w, h: both
            self.rule = {"size": both}
            return _within(*both)
        if "shortest_edge" in names and names <= {"shortest_edge", "longest_edge"}:
            edges = [n for _, n in sorted(sides.items(), reverse=True)]
            if to:
                edges = [max(1, n * max(to) // max(old)) for n in edges] if old else [max(to)]
            self.rule = dict(zip(("shortest", "longest"), edges))
            return _both(*edges) if edges[1:] else _shortest(*edges)
        raise _cannot("size", value, "sizes are height and width, shortest_edge, "
                      "shortest_edge and longest_edge, or max_height and max_width")

    # DPT's sizes are near to what they say.
    def dpt(self, value: Any, sides: dict[str, int]) -> _Scale:
        keep, factor = self.take("keep_aspect_ratio"), self.take("ensure_multiple_of")
        if set(sides) != {"height", "width"}:
            raise _cannot("size", value, "it needs a height and a width")
        if not _positive(factor):
            raise _cannot("ensure_multiple_of", factor, "it needs a positive number")
        width, height = self.to or (sides["width"], sides["height"])
        # Without an aspect to keep, whole multiples are the same for each picture.
        whole = not keep and not width % factor and not height % factor
        self.rule = {"scaled" if whole else "size": (width, height)}
        return _nearest(width, height, bool(keep), factor)

    def filter(self) -> str:
        if not self.left.get("do_resize", True):
            return "nearest"
        value = self.take("resample")
        if not _is(value, int) or value not in _RESAMPLE:
            raise _cannot("resample", value, "dlbuf has no such filter of Pillow: it has 0 "
                          "(nearest), 1 (lanczos), 2 (bilinear) and 3 (bicubic)")
        return _RESAMPLE[value]

    def values(self, options: dict[str, Any]) -> None:
        """scale, mean and std."""
        rescale, factor = self.take("do_rescale", True), self.take("rescale_factor", 1 / 255)
        if rescale and (not _is(factor, int, float) or not factor):
            raise _cannot("rescale_factor", factor, "it needs a number that is not 0")
        options["scale"] = factor if rescale else 1.0
        mean, std = self.take("image_mean"), self.take("image_std")
        means: tuple[float, ...] = (0.0,) * 3
        stds: tuple[float, ...] = (1.0,) * 3
        if self.take("do_normalize", True):
            means, stds = _three("image_mean", mean), _three("image_std", std)
        if self.kind == "EfficientNet":
            if self.take("rescale_offset") and rescale:
                means = tuple(m + 1 for m in means)
            if self.take("include_top"):
                stds = tuple(u * s for u, s in zip(stds, _three("image_std", std)))
        options |= {"mean": means, "std": stds}

    def bars(self, key: str, value: Any, options: dict[str, Any]) -> tuple[float, ...]:
        """The colour of bars that are 0 after the normalisation."""
        pad = tuple(m / options["scale"] for m in options["mean"])
        if self.cut or not all(0 <= p <= 255 for p in pad):
            raise _cannot(key, value, "with do_center_crop, or for an image_mean outside of 0 "
                          "to 255")
        return pad

    def read(self) -> _Read:
        options: dict[str, Any] = {"filter": self.filter()}
        self.values(options)
        if self.take("do_center_crop"):
            self.cut = self.square_of("crop_size", "do_center_crop")
        self.take("crop_size")
        divisor = self.take("size_divisor") if self.kind == "DPT" else None
        padded = self.take("do_pad")
        if padded and divisor is not None:
            if not _positive(divisor):
                raise _cannot("size_divisor", divisor, "it needs a positive number")
            options["pad"] = self.bars("size_divisor", divisor, options)
            self.divisor = divisor
        if padded and self.left.get("pad_size") is not None:
            options |= {"anchor": "top-left",
                        "pad": self.bars("pad_size", self.left["pad_size"], options)}
            self.padded = self.square_of("pad_size", "do_pad")
        self.take("pad_size")
        scale = self.scale()
        parts: Any = self.left.get("auto_map")
        if _is(parts, dict) and not {"AutoImageProcessor", "AutoFeatureExtractor"} & set(parts):
            self.take("auto_map")
        for key, value in self.left.items():
            # A step that is not done changes nothing.
            if key not in _OF_NO_PIXEL | _OF_LABELS and value is not None and not (
                    str(key).startswith("do_") and not value):
                raise _cannot(key, value, "the key is not known, and may change pixels")
        size = self.to or self.cut or self.padded
        rule = self.rule | ({"size": size} if size else {})
        if size and set(self.rule) == {"shortest"} and max(size) <= self.rule["shortest"]:
            rule = {"fit": "crop", "size": size, "crop_pct": max(size) / self.rule["shortest"]}
        elif "scaled" in rule and size in (None, rule["scaled"]):
            rule = {"size": rule["scaled"], "fit": "stretch"}
        if set(self.rule) == {"shortest"} and self.cut and max(size or ()) <= self.rule["shortest"]:
            return options, self.rule | {"size": size}, rule
        if "scaled" in self.rule and not self.divisor or self.kind == "Qwen2VL" and self.to:
            return options, self._fit(scale(1, 1), size or scale(1, 1)), rule
        return options, lambda w, h: self._fit(scale(w, h), size), rule

    def _fit(self, scaled: tuple[int, int], size: tuple[int, int] | None) -> dict[str, Any]:
        if self.divisor and not size:
            width, height = (-(-n // self.divisor) * self.divisor for n in scaled)
            size = width, height
        for n, s in zip(scaled, size or scaled):
            if self.padded and n > s:
                raise InvalidError(_EINVAL, f"pad_size={size}: the picture of {scaled} pixels "
                                   "is larger")
            if self.cut and s > n and (s - n) % 2:
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


def _timm(said: dict[str, Any], to: tuple[int, int] | None) -> _Read:
    """resolve_data_config() and transforms_imagenet_eval() of timm."""
    for key, value in said.items():
        if value is not None and key not in _TIMM | _TIMM_OF_NO_PIXEL:
            raise _cannot(key, value, "the key is not known, and may change pixels")
    try:
        channels, height, width = map(int, said["input_size"])
    except (TypeError, ValueError):
        channels = height = width = 0
    if channels != 3 or min(height, width) < 1:
        raise _cannot("input_size", said["input_size"], "it needs 3 channels, a height and "
                      "a width")
    width, height = to or (width, height)
    mode = said.get("crop_mode") or "center"
    if mode not in ("center", "squash", "border"):
        raise _cannot("crop_mode", mode, "known are center, squash and border")
    name = said.get("interpolation") or "bicubic"
    if not _is(name, str) or name not in _INTERPOLATION:
        raise _cannot("interpolation", name, f"known are {', '.join(_INTERPOLATION)}")
    mean = _three("mean", said.get("mean") or (0.485, 0.456, 0.406))
    pct = said.get("crop_pct") or 0.875
    if not _is(pct, int, float) or not 0 < pct <= 16:
        raise _cannot("crop_pct", pct, "it needs a number above 0")
    edges = math.floor(width / pct), math.floor(height / pct)

    def find(w: float, h: float) -> dict[str, Any]:
        ratios = w / edges[0], h / edges[1]
        ratio = min(ratios) if mode == "center" else max(ratios)
        return {"scaled": (round(w / ratio), round(h / ratio)), "size": (width, height)}

    sizes: Sizes | dict[str, Any] = find
    if mode == "squash":
        sizes = {"scaled": edges, "size": (width, height)}
    elif mode == "center" and width == height:
        sizes = {"shortest": edges[0], "size": (width, height)}
    # With a fit where that is the same.
    rule: dict[str, Any] = {"size": (width, height)}
    if mode == "squash":
        rule["scaled"] = edges
    elif mode == "center":
        rule |= {"crop_pct": min(1, pct)} | (
            {"fit": "crop"} if width == height and pct <= 1 else {})
    elif pct == 1:
        rule["fit"] = "letterbox"
    pad = {"pad": tuple(round(255 * m) for m in mean)} if mode == "border" else {}
    return {"filter": _INTERPOLATION[name], "mean": mean, "cut": "round", **pad,
            "std": _three("std", said.get("std") or (0.229, 0.224, 0.225))}, sizes, rule
