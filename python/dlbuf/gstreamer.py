# SPDX-License-Identifier: MIT
"""GStreamer's dma-bufs as tensors. PyGObject and GStreamer are the program's own:
they are imported at the first call (Debian: python3-gi, gir1.2-gst-plugins-base-1.0).

    import dlbuf.gstreamer

    for frame in dlbuf.gstreamer.frames(
            "v4l2src io-mode=dmabuf ! video/x-raw,format=NV12 ! appsink"):
        y, uv = frame
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

from ._dlbuf import Device
from ._errors import AccessError, Error, InvalidError, UnsupportedError
from ._frames import TensorFrame, import_frame
from ._producers import find_format
from ._types import (MOD_INVALID, MOD_LINEAR, Access, Clock, CodeSpace, Colour, Field,
                     FormatInfo, Order, Orientation, Plane, View)

_EIO, _EBADF, _EACCES, _EINVAL, _ERANGE, _ENODATA, _EOPNOTSUPP = 5, 9, 13, 22, 34, 61, 95
_READ_WRITE = 1 << 0 | 1 << 1  # GST_LOCK_FLAG_READWRITE
_MODULES = "Gst", "GstAllocators", "GstApp", "GstVideo"


@functools.lru_cache(maxsize=None)
def _gi() -> Any:
    """gi.repository, with GStreamer in it."""
    gi: Any = importlib.import_module("gi")
    for name in _MODULES:
        gi.require_version(name, "1.0")
    repository: Any = importlib.import_module("gi.repository")
    for name in _MODULES:
        importlib.import_module(f"gi.repository.{name}")
    repository.Gst.init(None)
    return repository


class _Crop(ctypes.Structure):
    """GstVideoCropMeta, which PyGObject gives as a GstMeta only."""

    _fields_ = [("flags", ctypes.c_uint), ("info", ctypes.c_void_p),
                ("x", ctypes.c_uint), ("y", ctypes.c_uint),
                ("width", ctypes.c_uint), ("height", ctypes.c_uint)]


class _ProbeInfo(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint), ("id", ctypes.c_ulong),
                ("data", ctypes.c_void_p)]


_Probe = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_ProbeInfo),
                          ctypes.c_void_p)


class _C(NamedTuple):
    """Calls by address: the hash of PyGObject's objects is their address."""

    gst: ctypes.CDLL
    metas: tuple[int, int]  # the types of GstVideoMeta and GstVideoCropMeta


@functools.lru_cache(maxsize=None)
def _c() -> _C:
    gst, video = (ctypes.CDLL(f"lib{n}-1.0.so.0") for n in ("gstreamer", "gstvideo"))
    pointer = ctypes.c_void_p
    gst.gst_buffer_get_meta.argtypes = [pointer, ctypes.c_size_t]
    gst.gst_buffer_get_meta.restype = ctypes.POINTER(_Crop)
    gst.gst_query_get_structure.argtypes = [pointer]
    gst.gst_query_get_structure.restype = pointer
    gst.gst_structure_get_name.argtypes = [pointer]
    gst.gst_structure_get_name.restype = ctypes.c_char_p
    gst.gst_query_find_allocation_meta.argtypes = [pointer, ctypes.c_size_t, pointer]
    gst.gst_query_add_allocation_meta.argtypes = [pointer, ctypes.c_size_t, pointer]
    gst.gst_query_add_allocation_meta.restype = None
    gst.gst_pad_add_probe.argtypes = [pointer, ctypes.c_uint, _Probe, pointer, pointer]
    gst.gst_pad_add_probe.restype = ctypes.c_ulong
    gst.gst_mini_object_lock.argtypes = [pointer, ctypes.c_uint]
    gst.gst_mini_object_unlock.argtypes = [pointer, ctypes.c_uint]
    gst.gst_mini_object_unlock.restype = None
    types = video.gst_video_meta_api_get_type, video.gst_video_crop_meta_api_get_type
    for f in types:
        f.restype = ctypes.c_size_t
    return _C(gst, (types[0](), types[1]()))


# ---------------------------------------------------------------- caps


class _Caps(NamedTuple):
    """The format of caps."""

    format: FormatInfo
    code: int
    space: CodeSpace
    modifier: int
    width: int
    height: int
    info: Any  # GstVideoInfo; None: they do not say where the planes are
    colorimetry: Any
    interlace: str
    field_order: str


def _modifier(features: Any) -> int:
    """The modifier of caps without DMA_DRM: only system memory is known to be linear."""
    names = [features.get_nth(i) for i in range(features.get_size())] if features else []
    unknown = any(n.startswith("memory:") and n != "memory:SystemMemory" for n in names)
    return MOD_INVALID if unknown else MOD_LINEAR


def _drm_format(text: str | None) -> tuple[int, int]:
    """Code and modifier of a drm-format."""
    code, modifier = (_gi().GstVideo.video_dma_drm_fourcc_from_string(text)
                      if text else (0, 0))
    if not code:
        raise InvalidError(_EINVAL, f"drm-format={text} is no format of DMA_DRM caps: "
                           "they have a fourcc and a modifier, as NV12:0x0100000000000002")
    return code, modifier


def _video_info(caps: Any) -> Any:
    try:
        return _gi().GstVideo.VideoInfo.new_from_caps(caps)
    except TypeError:  # of a constructor that gives NULL
        raise InvalidError(_EINVAL, f"GStreamer cannot read the caps {caps.to_string()}"
                           ) from None


def _read_caps(caps: Any) -> _Caps:
    video = _gi().GstVideo
    if caps is None or not caps.is_fixed():
        raise InvalidError(_EINVAL, "the caps are not fixed" if caps else
                           "there are no caps")
    s = caps.get_structure(0)
    name, format = s.get_name(), s.get_string("format") or "(none)"
    if name not in ("video/x-raw", "video/x-bayer"):
        raise InvalidError(_EINVAL, f"the caps are of {name}, not of video/x-raw or "
                           "video/x-bayer")
    for mode, bad in ("interlace-mode", "fields"), ("multiview-mode", "separated"):
        if s.get_string(mode) == bad:
            raise UnsupportedError(_EOPNOTSUPP, f"a buffer of {mode}={bad} is more "
                                   "than one picture")
    sizes = [s.get_int(side) for side in ("width", "height")]
    if not all(known and n > 0 for known, n in sizes):
        raise InvalidError(_EINVAL, "the caps say no size")
    width, height = (n for _, n in sizes)
    modifier, info = _modifier(caps.get_features(0)), None
    colorimetry = video.VideoColorimetry()
    colorimetry.from_string(s.get_string("colorimetry") or "")
    if format == "DMA_DRM":
        code, modifier = _drm_format(s.get_string("drm-format"))
        found = find_format(code, CodeSpace.DRM)
        kind = video.video_dma_drm_fourcc_to_format(code)
        if modifier == MOD_LINEAR and kind != video.VideoFormat.UNKNOWN:
            info = video.VideoInfo.new()
            info.set_format(kind, width, height)
    else:
        try:
            found = find_format(format, CodeSpace.GSTREAMER)
        except InvalidError:
            raise UnsupportedError(_EOPNOTSUPP, "neither DRM nor V4L2 has a code for "
                                   f"{name},format={format}") from None
        if name == "video/x-raw":
            info = _video_info(caps)
            colorimetry = info.colorimetry
    return _Caps(*found, modifier, width, height, info, colorimetry,
                 s.get_string("interlace-mode") or "progressive",
                 s.get_string("field-order") or "")


def _colour(caps: _Caps) -> Colour:
    """H.273's code points; 2 is "unspecified" there."""
    video, c = _gi().GstVideo, caps.colorimetry
    primaries = video.video_color_primaries_to_iso(c.primaries)
    transfer = video.video_transfer_function_to_iso(c.transfer)
    matrix = video.video_color_matrix_to_iso(c.matrix)
    if "/" in caps.format.channels:
        matrix = 0  # a mosaic is of RGB
    kinds = video.VideoChromaSite
    site = int(caps.info.chroma_site) & ~int(kinds.ALT_LINE) if caps.info else 0
    sites = [int(k) for k in (kinds.H_COSITED, kinds.NONE, kinds.COSITED,
                              kinds.V_COSITED)]
    # GStreamer's range is 1 for 0..255 and 2 for 16..235.
    return Colour(0 if primaries == 2 else primaries, 0 if transfer == 2 else transfer,
                  0 if matrix == 2 else matrix + 1, (0, 2, 1)[int(c.range)],
                  sites.index(site) + 1 if site in sites else 0)


def _field(caps: _Caps, flags: int) -> Field:
    kinds = _gi().GstVideo.VideoBufferFlags
    top, interlaced = flags & int(kinds.TFF), flags & int(kinds.INTERLACED)
    if caps.interlace == "progressive":
        return Field.NONE
    if caps.interlace == "alternate":
        one = flags & int(kinds.ONEFIELD)
        return (Field.TOP if top else Field.BOTTOM) if one else Field.UNKNOWN
    if caps.interlace == "mixed" and not interlaced:
        return Field.NONE
    # The caps say it for all buffers, or each buffer does.
    if caps.interlace == "interleaved" and caps.field_order:
        top = caps.field_order == "top-field-first"
        interlaced = True
    if top:
        return Field.INTERLACED_TB
    return Field.INTERLACED_BT if interlaced else Field.INTERLACED


# ---------------------------------------------------------------- buffers


def _pitch_of_bayer(caps: _Caps, buffer: Any) -> int:
    """Elements differ in it, but all have whole rows and nothing after them. A buffer of
    whole pages may look like that, but then the pitch is seldom a round one."""
    size, row = buffer.get_size(), caps.width * (1 + (caps.format.dtype != "uint8"))
    for align in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        pitch = -(-row // align) * align
        if pitch * caps.height == size:
            return pitch
    raise UnsupportedError(_EOPNOTSUPP, "the pitch is not known: the buffer has no "
                           f"GstVideoMeta, and its {size} bytes are not {caps.height} rows "
                           f"of {row} bytes, alone or up to a multiple of 4 to 256")


def _layout(caps: _Caps, buffer: Any) -> tuple[int, int, list[tuple[int, int]]]:
    """Width, height, and (offset in the buffer, pitch) of each plane."""
    meta = _gi().GstVideo.buffer_get_video_meta(buffer)
    # Without planes the meta is of a format that GStreamer does not know: ignore it.
    if meta and meta.n_planes:
        planes = [(meta.offset[i], meta.stride[i]) for i in range(meta.n_planes)]
        return meta.width, meta.height, planes
    if "/" in caps.format.channels:
        return caps.width, caps.height, [(0, _pitch_of_bayer(caps, buffer))]
    if not caps.info:
        raise UnsupportedError(_EOPNOTSUPP, "the places of the planes are not known: the "
                               "buffer has no GstVideoMeta")
    n = caps.info.finfo.n_planes
    return caps.width, caps.height, [(caps.info.offset[i], caps.info.stride[i])
                                     for i in range(n)]


_NO_DMABUF = (": v4l2src gives dma-bufs with io-mode=dmabuf, while it has buffers left. "
              "Hold fewer frames, and let an appsink's queue be short (max-buffers=1)")


def _plane(buffer: Any, offset: int, pitch: int) -> tuple[Plane, bool]:
    """A plane, and whether its memory is only for reading."""
    allocators = _gi().GstAllocators
    found, index, _, skip = buffer.find_memory(offset, 1)
    if not found:
        raise InvalidError(_ERANGE, f"a plane begins at byte {offset}, beyond the buffer")
    memory = buffer.peek_memory(index)
    if not allocators.is_dmabuf_memory(memory):
        kind = memory.allocator.mem_type if memory.allocator else "no allocator"
        # v4l2src copies when few of its buffers are left.
        raise Error(_EBADF, f"the buffer's memory is of {kind}, no dma-buf"
                    f"{_NO_DMABUF if kind == 'SystemMemory' else ''}")
    # Fails for memory that is READONLY, that several buffers have, or that is read now.
    gst, address = _c().gst, hash(memory)
    # A lock for writing alone would fail a reader behind a tee that maps it meanwhile.
    writable = gst.gst_mini_object_lock(address, _READ_WRITE)
    if writable:
        gst.gst_mini_object_unlock(address, _READ_WRITE)
    return (Plane(allocators.dmabuf_memory_get_fd(memory), pitch, memory.offset + skip,
                  memory.size - skip), not writable)


def frame(
    sample: Any,
    caps: Any = None,
    *,
    device: Device | str = "cpu",
    view: View | str = View.PLANES,
    access: Access | int | str | None = None,
    may_copy: bool = False,
    modifier: int | None = None,
    orientation: Orientation | int | str = Orientation.NONE,
) -> TensorFrame:
    """Makes the tensors of a Gst.Sample, or of a Gst.Buffer and its Gst.Caps.

    The buffer goes back to its pool, and to the camera, when the last tensor is
    gone. Planes are where GstVideoMeta says, or the caps, in as many dma-bufs as
    there are; the crop is GstVideoCropMeta's. info has the PTS
    (Clock.STREAM), the buffer's offset as sequence, field and colour. The options are
    those of from_frame().

    The tensors are read-only if the memory is READONLY, or if several buffers have it.
    Behind a tee it is one buffer, which dlbuf cannot see: say access="read" there.

    orientation is in a tag beside the caps: orientation() finds it.

    Caps with memory:DMABuf and without DMA_DRM (before GStreamer 1.24) do not say
    whether the picture is linear, and are refused unless you say modifier, MOD_LINEAR for
    example. Does not block. Raises Error with EBADF if a plane is no dma-buf and ENODATA
    for an empty buffer, UnsupportedError if the format or its layout is unknown, and
    InvalidError for caps that are not of one picture, and a crop without pixels.

    >>> import dlbuf.gstreamer
    >>> from gi.repository import Gst
    >>> _ = Gst.init(None)
    >>> p = Gst.parse_launch("v4l2src io-mode=dmabuf num-buffers=1 ! "
    ...                      "video/x-raw,format=NV12,width=640 ! appsink name=sink")
    >>> _ = p.set_state(Gst.State.PLAYING)
    >>> y, uv = dlbuf.gstreamer.frame(p.get_by_name("sink").emit("pull-sample"))
    >>> y.shape, uv.frame.clock
    ((480, 640), Clock.STREAM)
    >>> del y, uv; _ = p.set_state(Gst.State.NULL)
    """
    gst = _gi().Gst
    if caps is None and not isinstance(sample, gst.Sample) or caps is not None and not (
            isinstance(sample, gst.Buffer) and isinstance(caps, gst.Caps)):
        raise TypeError("a frame is made of a Gst.Sample, or of a Gst.Buffer and its "
                        f"Gst.Caps, not of {sample!r}{f' and {caps!r}' if caps else ''}")
    buffer = sample if caps is not None else sample.get_buffer()
    said = _read_caps(caps if caps is not None else sample.get_caps())
    if modifier is not None:
        said = said._replace(modifier=modifier)
    if not buffer or not buffer.get_size():
        raise Error(_ENODATA, "the buffer is empty")
    width, height, layout = _layout(said, buffer)
    if said.interlace == "alternate":
        height = (height + 1) // 2
    planes, read_only = zip(*(_plane(buffer, *p) for p in layout), strict=True)
    if any(read_only):
        access = _read_only(access)
    c = _c()
    crop = c.gst.gst_buffer_get_meta(hash(buffer), c.metas[1])
    # All zeros are no crop in a frame.
    if crop and not (crop[0].width and crop[0].height):
        raise InvalidError(_EINVAL, f"the buffer's crop has no pixels: {crop[0].width}x"
                           f"{crop[0].height} at {crop[0].x},{crop[0].y}")
    flags, kept = int(buffer.get_flags()), [sample]
    none = gst.CLOCK_TIME_NONE
    return import_frame(
        planes, width, height, said.code, space=said.space, modifier=said.modifier,
        view=view, device=device, access=access, may_copy=may_copy,
        crop=(crop[0].x, crop[0].y, crop[0].width, crop[0].height) if crop else None,
        sequence=None if buffer.offset == none else buffer.offset,
        timestamp_ns=None if buffer.pts == none else buffer.pts, clock=Clock.STREAM,
        field=_field(said, flags), colour=_colour(said), order=Order.IMPLICIT,
        damaged=bool(flags & int(gst.BufferFlags.CORRUPTED)), release=kept.clear,
        orientation=orientation)


def _read_only(access: Access | int | str | None) -> Access | int | str:
    if access is None or access in ("read", Access.READ):
        return Access.READ
    raise AccessError(_EACCES, "the buffer is only for reading: others have it too")


# ---------------------------------------------------------------- pipelines


def _answer(_pad: int, info: Any, _data: int) -> int:
    """A probe of a pad, called by GStreamer: PyGObject cannot write to a query."""
    c, query = _c(), info[0].data
    said = c.gst.gst_query_get_structure(query)
    if said and c.gst.gst_structure_get_name(said) == b"GstQueryAllocation":
        for meta in c.metas:
            if not c.gst.gst_query_find_allocation_meta(query, meta, None):
                c.gst.gst_query_add_allocation_meta(query, meta, None)
    return 1  # GST_PAD_PROBE_OK


_answer_probe = _Probe(_answer)


def allocate(sink: Any) -> None:
    """Announces to the elements before a sink, an appsink for example, that GstVideoMeta and
    GstVideoCropMeta are read, so that they may fill buffers with any pitch. Call it
    once, before the pipeline plays. Without it v4l2src copies each frame whose pitch
    is not GStreamer's own into memory of the system.

    >>> import dlbuf.gstreamer
    >>> from gi.repository import Gst
    >>> _ = Gst.init(None)
    >>> dlbuf.gstreamer.allocate(Gst.ElementFactory.make("appsink"))
    """
    if not isinstance(sink, _gi().Gst.Element):
        raise TypeError(f"a sink is a Gst.Element, not {sink!r}")
    pad = sink.get_static_pad("sink")
    if pad is None:
        raise InvalidError(_EINVAL, f"{sink.get_name()} has no sink pad")
    kind = int(_gi().Gst.PadProbeType.QUERY_DOWNSTREAM)
    _c().gst.gst_pad_add_probe(hash(pad), kind, _answer_probe, None, None)


# In GStreamer's names the flip is before the turn.
_WORDS = {"rotate-0": 0, "rotate-90": 1, "rotate-180": 2, "rotate-270": 3,
          "flip-rotate-0": 4, "flip-rotate-90": 7, "flip-rotate-180": 6,
          "flip-rotate-270": 5}


def orientation(sink: Any) -> Orientation:
    """The tag image-orientation that has arrived at a sink, an appsink for example,
    for frame(): that of the stream, or else of the whole file. frames() does it.

    >>> import dlbuf.gstreamer
    >>> from gi.repository import Gst
    >>> _ = Gst.init(None)
    >>> dlbuf.gstreamer.orientation(Gst.ElementFactory.make("appsink"))
    Orientation.NONE
    """
    gst = _gi().Gst
    pad, i = sink.get_static_pad("sink"), 0
    found: dict[bool, str] = {}
    while pad and (event := pad.get_sticky_event(gst.EventType.TAG, i)):
        tags = event.parse_tag()
        said, word = tags.get_string(gst.TAG_IMAGE_ORIENTATION)
        if said and word in _WORDS:
            found.setdefault(tags.get_scope() == gst.TagScope.STREAM, word)
        i += 1
    return Orientation(_WORDS[found.get(True, found.get(False, "rotate-0"))])


def _pipeline_of(text: Any) -> Any:
    """A pipeline: from text, or as it is."""
    gst, glib = _gi().Gst, _gi().GLib
    found = text
    if isinstance(text, str):
        try:
            found = gst.parse_launch(text)
        except glib.Error as e:
            raise InvalidError(_EINVAL, f"no pipeline: {e.message}") from None
        if not isinstance(found, gst.Pipeline):
            # One element, or a bin in parentheses.
            found, element = gst.Pipeline.new(None), found
            found.add(element)
    if not isinstance(found, gst.Element):
        raise TypeError(f"a pipeline is text or a Gst.Pipeline, not {found!r}")
    if not isinstance(found, gst.Pipeline):
        raise InvalidError(_EINVAL, f"{found.get_name()} is no Gst.Pipeline")
    return found


def _sink_of(pipeline: Any, name: str | None) -> Any:
    gst = _gi().Gst
    found: list[Any] = []
    more = pipeline.iterate_recurse()
    while (step := more.next())[0] == gst.IteratorResult.OK:
        found.append(step[1])
    found = [e for e in found if name in (None, e.get_name()) and
             e.get_factory() and e.get_factory().get_name() == "appsink"]
    if len(found) != 1:
        raise InvalidError(_EINVAL, f"the pipeline has {len(found) or 'no'} appsink"
                           f"{'s' if len(found) > 1 else ''}"
                           f"{f' called {name}' if name else ''}: one is needed")
    return found[0]


def _error_of(pipeline: Any) -> Error | None:
    gst = _gi().Gst
    message = pipeline.get_bus().pop_filtered(gst.MessageType.ERROR)
    if not message:
        return None
    error, debug = message.parse_error()
    return Error(_EIO, f"{message.src.get_name()}: {error.message}"
                 f"{f' ({debug})' if debug else ''}")


def _has_ended(pipeline: Any, sink: Any) -> bool:
    """Whether the stream has ended (EOS) or the sink was stopped."""
    gst = _gi().Gst
    _, state, pending = pipeline.get_state(0)
    return bool(sink.get_property("eos") or
                state < gst.State.PAUSED and pending == gst.State.VOID_PENDING)


def _frames(pipeline: Any, name: str | None, device: Device | str, stop: threading.Event,
            options: dict[str, Any]) -> Generator[TensorFrame, None, None]:
    gst, process = _gi().Gst, os.getpid()
    pipeline = _pipeline_of(pipeline)
    sink = _sink_of(pipeline, name)
    allocate(sink)
    if not sink.get_property("max-buffers"):
        sink.set_property("max-buffers", 1)
    if isinstance(device, str):
        device = Device(device)
    try:
        if pipeline.set_state(gst.State.PLAYING) == gst.StateChangeReturn.FAILURE:
            raise _error_of(pipeline) or Error(_EIO, "the pipeline does not play")
        while os.getpid() == process and not stop.is_set():
            sample = sink.emit("try-pull-sample", gst.SECOND // 10)
            if sample and not sample.get_buffer().get_size():
                continue
            if sample:
                made = frame(sample, device=device, orientation=orientation(sink), **options)
                del sample
                yield made
                del made
            elif error := _error_of(pipeline):
                raise error
            elif _has_ended(pipeline, sink):
                return
    finally:
        # A child has none of GStreamer's threads, which the pipeline would wait for.
        if os.getpid() == process:
            pipeline.set_state(gst.State.NULL)
            device.trim()


class Frames(Iterator[TensorFrame]):
    """The iterator of frames(). Threads that call next() take turns.

    >>> import dlbuf.gstreamer
    >>> frames = dlbuf.gstreamer.frames("videotestsrc ! appsink")
    >>> frames.close(); list(frames)
    []
    """

    def __init__(self, run: Callable[[threading.Event], Generator[TensorFrame, None, None]]
                 ) -> None:
        self._lock, self._stop, self._process = threading.RLock(), threading.Event(), os.getpid()
        self._inside, self._run = False, run(self._stop)

    def __next__(self) -> TensorFrame:
        # A child of fork() may have the lock of a thread that it does not have.
        if os.getpid() != self._process:
            raise StopIteration
        try:
            with self._lock:
                self._inside = True
                try:
                    return next(self._run)
                finally:
                    self._inside = False
        finally:
            if self._stop.is_set():
                self.close()

    def close(self) -> None:
        """Stops the pipeline and ends the iteration; a second call does nothing. Frames
        stay valid. If another thread is inside next(), that call stops the pipeline and
        ends within a tenth of a second; close() does not wait for it."""
        self._stop.set()
        if self._lock.acquire(blocking=False):
            try:
                if not self._inside:        # in a callback of this thread's next()
                    self._run.close()
            finally:
                self._lock.release()


def frames(
    pipeline: Any,
    *,
    name: str | None = None,
    device: Device | str = "cpu",
    view: View | str = View.PLANES,
    access: Access | int | str | None = None,
    may_copy: bool = False,
    modifier: int | None = None,
) -> Frames:
    """Iterates over the frames of a pipeline, until it ends or is stopped.

    pipeline is text, as for gst-launch-1.0, or a Gst.Pipeline; it has one appsink, or
    name says which. It begins to play at the first frame, and stops when the
    iterator is closed, ends, or raises. The elements learn that GstVideoMeta is read,
    as by allocate(). An appsink without max-buffers gets 1: its queue would take all
    the buffers of a camera while you work. Empty buffers are skipped. The orientation is
    that of orientation(). The other options are those of frame().

    Blocks for the next frame. close() ends that from any thread, and so does stopping the
    pipeline. If you hold frames, the element has fewer buffers: with caps of DMA_DRM it
    waits for them, with others v4l2src copies into memory of the system, and that is
    EBADF. In a child of os.fork() the iterator ends and does not touch the pipeline.

    Raises Error with the element's words if the pipeline fails, and what frame() raises.

    >>> import dlbuf.gstreamer
    >>> for frame in dlbuf.gstreamer.frames(
    ...         "v4l2src io-mode=dmabuf num-buffers=2 ! "
    ...         "video/x-raw,format=NV12,width=640 ! appsink sync=false", view="luma"):
    ...     print(frame[0].shape)
    ...     del frame
    (480, 640)
    (480, 640)
    """
    def run(stop: threading.Event) -> Generator[TensorFrame, None, None]:
        return _frames(pipeline, name, device, stop, {
            "view": view, "access": access, "may_copy": may_copy, "modifier": modifier})

    return Frames(run)
