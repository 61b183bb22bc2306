# SPDX-License-Identifier: MIT
"""dlbuf.gstreamer on vivid's frames, each byte compared with the camera's own rows."""

import fcntl
import mmap
import os
import struct
import threading

import numpy as np

import dlbuf
from dlbuf import Clock, Field

from labtools import Skip, case, fds, raises
from lab_camera import control, vivid

V4L2SRC = "v4l2src io-mode=dmabuf device={node} num-buffers={n} ! {caps} ! appsink sync=false"


def gi():
    try:
        import gi  # noqa: F401
    except ImportError as e:
        raise Skip("there is no PyGObject") from e
    import dlbuf.gstreamer
    return dlbuf.gstreamer._gi()


def scaled():
    """A vivid node whose input is HDMI, which has pictures of any size."""
    node = vivid()
    control(node, "-i", "3")
    return node


def bytes_per_line(path):
    fmt = bytearray(208)
    struct.pack_into("I", fmt, 0, 1)
    with open(path, "r+b", buffering=0) as node:
        fcntl.ioctl(node, 0xC0D05604, fmt)
    return struct.unpack_from("I", fmt, 8 + 4 * 4)[0]


def rows_of(fd, offset, pitch, rows, width):
    """By another way than the library's: the dma-buf's mapping."""
    size = os.lseek(fd, 0, os.SEEK_END)
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as m:
        whole = np.frombuffer(m[offset:offset + pitch * rows], np.uint8)
    return whole.reshape(rows, pitch)[:, :width]


def dma_drm(code):
    return f"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={code}"


# Caps, and the bytes of a row of each plane, as pixels per row.
PICTURES = [
    ("video/x-raw,format=NV12", 1, (1, 1)),
    ("video/x-raw,format=YUY2", 2, ()),
    ("video/x-bayer,format=rggb", 1, ()),
    (dma_drm("NV12"), 1, (1, 1)),
    (dma_drm("YUYV"), 2, ()),
]


@case
def gstreamer_pictures():
    """Widths that are no multiple of 4: with the pitch of the driver."""
    gi()
    node, before = scaled(), []
    for caps, pixel, chroma in PICTURES:
        text = V4L2SRC.format(node=node, n=3, caps=f"{caps},width=642,height=362")
        n = 0
        try:
            for frame in dlbuf.gstreamer.frames(text):
                pitch = bytes_per_line(node)
                i = frame.info
                assert (i.width, i.height) == (642, 362), i
                assert i.clock is Clock.STREAM and i.timestamp_ns is not None
                assert i.sequence is not None and i.field is Field.NONE
                assert i.planes[0].pitch == pitch >= 642 * pixel, (caps, i.planes)
                want = rows_of(i.planes[0].fd, i.planes[0].offset, pitch, 362, 642 * pixel)
                got = np.asarray(frame[0]).reshape(362, -1)
                assert len(np.unique(got)) > 1, (caps, "not a picture")
                assert (got == want).all(), caps
                if chroma:
                    want = rows_of(i.planes[1].fd, 362 * pitch, pitch, 181, 642)
                    assert (np.asarray(frame[1]).reshape(181, -1) == want).all(), caps
                n += 1
                del frame, got
        except dlbuf.Error as e:
            if "not-negotiated" in str(e) and "DMA_DRM" in caps:
                raise Skip(f"v4l2src has no {caps}") from e
            raise
        assert n == 3, (caps, n)
        # What GStreamer opens once stays.
        assert fds() == before or not before, caps
        before = fds()


@case
def gstreamer_leases():
    """A frame that is held is not overwritten, and the camera goes on with the others."""
    gi()
    node = scaled()
    text = V4L2SRC.format(node=node, n=12, caps="video/x-raw,format=GRAY8,width=642,height=362")
    frames = dlbuf.gstreamer.frames(text, view="luma")
    held = next(frames)
    kept = np.array(held[0])
    numbers = [frame.info.sequence or 0 for frame in frames]
    assert len(numbers) == 11 and numbers == sorted(set(numbers)), numbers
    # The pipeline has stopped; the memory is the frame's still.
    assert (np.asarray(held[0]) == kept).all()
    held.release()
    # One that is closed in the middle stops the pipeline.
    frames = dlbuf.gstreamer.frames(text)
    next(frames)
    frames.close()
    raises(StopIteration, lambda: next(frames))


@case
def gstreamer_by_hand():
    """One sample, and a buffer with its caps; a crop, and memory of others."""
    repository = gi()
    gst, video, allocators = repository.Gst, repository.GstVideo, repository.GstAllocators
    caps = gst.Caps.from_string("video/x-raw,format=NV12,width=62,height=48,"
                                "colorimetry=bt709,interlace-mode=mixed")
    t = dlbuf.alloc(64 * 48 * 3 // 2, "uint8")
    np.asarray(t)[...] = np.arange(t.nbytes) % 251
    allocator = allocators.DmaBufAllocator.new()
    memory = allocators.DmaBufAllocator.alloc(allocator, os.dup(t.fd), t.nbytes)
    buffer = gst.Buffer.new()
    buffer.append_memory(memory)
    buffer.pts, buffer.offset = 40_000_000, 7
    y, uv = dlbuf.gstreamer.frame(buffer, caps)
    assert (np.asarray(y) == np.asarray(t)[:64 * 48].reshape(48, 64)[:, :62]).all()
    i = y.frame
    assert (i.sequence, i.timestamp_ns, i.clock) == (7, 40_000_000, Clock.STREAM)
    assert i.colour == dlbuf.Colour(1, 1, 2, 1, 2) and not i.damaged, i.colour
    del y, uv
    whole = dlbuf.gstreamer.frame(gst.Sample.new(buffer, caps, None, None), view="stacked")
    assert whole[0].shape == (72, 62)
    del whole
    # Memory that others have too is for reading.
    memory = buffer.peek_memory(0).share(0, -1)
    shared = gst.Buffer.new()
    shared.append_memory(memory)
    assert dlbuf.gstreamer.frame(shared, caps)[0].read_only
    raises(dlbuf.AccessError, lambda: dlbuf.gstreamer.frame(shared, caps, access="rw"),
           "others have it")
    del memory, shared
    copy = buffer.copy_region(gst.BufferCopyFlags.MEMORY, 0, buffer.get_size())
    raises(dlbuf.AccessError, lambda: dlbuf.gstreamer.frame(buffer, caps, access="rw"),
           "others have it")
    del copy
    assert not dlbuf.gstreamer.frame(buffer, caps, access="rw")[0].read_only
    part = gst.Buffer.new()
    part.append_memory(buffer.peek_memory(0))
    for flag, field in ((0, Field.NONE), (int(video.VideoBufferFlags.INTERLACED),
                                          Field.INTERLACED_BT)):
        part.set_flags(gst.BufferFlags(flag))
        assert dlbuf.gstreamer.frame(part, caps).info.field is field
    raises(dlbuf.Error, lambda: dlbuf.gstreamer.frame(gst.Buffer.new(), caps), "empty")
    # It has no pixels until a program sets its fields.
    part.add_meta(video.VideoCropMeta.get_info(), None)
    raises(dlbuf.InvalidError, lambda: dlbuf.gstreamer.frame(part, caps), "no pixels: 0x0 at 0,0")
    plain = gst.Buffer.new_allocate(None, 62 * 48 * 2, None)
    raises(dlbuf.Error, lambda: dlbuf.gstreamer.frame(plain, caps), "no dma-buf")
    for text, kind, words in (
            ("video/x-raw,format=v210,width=6,height=4", dlbuf.UnsupportedError, "v210"),
            ("video/x-raw,format=NV12", dlbuf.InvalidError, "no size"),
            ("audio/x-raw", dlbuf.InvalidError, "audio/x-raw"),
            ("video/x-bayer,format=rggb,width=61,height=47", dlbuf.UnsupportedError,
             "the pitch is not known"),
            ("video/x-raw(memory:DMABuf),format=NV12,width=62,height=48",
             dlbuf.UnsupportedError, "unknown"),
            (dma_drm("NV12:zzz") + ",width=62,height=48", dlbuf.InvalidError,
             "drm-format=NV12:zzz is no format"),
            ("video/x-raw(memory:DMABuf),format=DMA_DRM,width=62,height=48",
             dlbuf.InvalidError, "drm-format=None"),
            ("video/x-raw,format=NV12,width=65536,height=65536", dlbuf.InvalidError,
             "cannot read the caps"),
            ("video/x-bayer,format=rggb,width=64,height=9", dlbuf.UnsupportedError,
             "up to a multiple of 4 to 256"),
            ("video/x-raw,format=NV12,width=62,height=48,multiview-mode=separated",
             dlbuf.UnsupportedError, "more than one picture")):
        raises(kind, lambda text=text: dlbuf.gstreamer.frame(
            buffer, gst.Caps.from_string(text)), words)
    # The program can say what those caps leave open.
    y, uv = dlbuf.gstreamer.frame(buffer, gst.Caps.from_string(
        "video/x-raw(memory:DMABuf),format=NV12,width=62,height=48"), modifier=0)
    assert y.shape == (48, 62) and uv.frame.modifier == 0


@case
def gstreamer_orientations():
    """The tag image-orientation is the frame's orientation."""
    gi()
    node = scaled()
    for word, o in dlbuf.gstreamer._WORDS.items():
        text = V4L2SRC.format(node=node, n=2, caps="video/x-raw,format=GRAY8 ! taginject "
                              f"tags=image-orientation={word}")
        for frame in dlbuf.gstreamer.frames(text):
            assert frame.info.orientation is dlbuf.Orientation(o), (word, frame.info)
            del frame


@case
def gstreamer_ends():
    """A slow program, gaps, a pipeline that another thread stops, a child of fork()."""
    repository = gi()
    gst = repository.Gst
    node = scaled()
    # More frames than the camera has buffers, each looked at for longer than one takes.
    text = V4L2SRC.format(node=node, n=60, caps="video/x-raw,format=GRAY8,width=642,height=362")
    n = 0
    for frame in dlbuf.gstreamer.frames(text, view="luma"):
        with frame:
            n += 1
            for _ in range(6):
                np.sort(np.asarray(frame[0]), axis=None)
    assert n == 60, n

    # Empty buffers are no frames, and no end.
    pipeline = gst.parse_launch(
        "appsrc name=src format=time caps=video/x-raw,format=GRAY8,width=64,height=48 ! "
        "appsink sync=false")
    src = pipeline.get_by_name("src")
    t = dlbuf.alloc(64 * 48, "uint8")
    allocator = repository.GstAllocators.DmaBufAllocator.new()
    for empty in False, True, False:
        buffer = gst.Buffer.new()
        if not empty:
            buffer.append_memory(repository.GstAllocators.DmaBufAllocator.alloc(
                allocator, os.dup(t.fd), t.nbytes))
        src.emit("push-buffer", buffer)
    src.emit("end-of-stream")
    assert len(list(dlbuf.gstreamer.frames(pipeline))) == 2

    # READY is an end, too, after what was in the queue.
    pipeline = gst.parse_launch(text.replace("num-buffers=60", ""))
    frames = dlbuf.gstreamer.frames(pipeline)
    next(frames).release()
    pipeline.set_state(gst.State.READY)
    assert len(list(frames)) <= 1

    frames = dlbuf.gstreamer.frames(text)
    next(frames).release()
    child = os.fork()
    if not child:
        os._exit(next(frames, None) is not None)
    assert os.waitpid(child, 0)[1] == 0
    next(frames).release()
    frames.close()

    # close() of another thread ends a wait that has no other end.
    pipeline = gst.parse_launch("appsrc caps=video/x-raw,format=GRAY8,width=64,height=48 ! appsink")
    frames, ended = dlbuf.gstreamer.frames(pipeline), []
    waiting = threading.Thread(target=lambda: ended.append(list(frames)))
    waiting.start()
    while pipeline.get_state(0)[1] == gst.State.NULL:
        os.sched_yield()
    frames.close()
    waiting.join()
    assert ended == [[]] and pipeline.get_state(gst.CLOCK_TIME_NONE)[1] == gst.State.NULL
    frames.close()
    raises(StopIteration, lambda: next(frames))

    # A bin in parentheses, as gst-launch-1.0 takes it; an element in no pipeline.
    text = f"( v4l2src io-mode=dmabuf device={node} num-buffers=1 ! appsink )"
    assert len(list(dlbuf.gstreamer.frames(text))) == 1
    raises(dlbuf.InvalidError, lambda: next(dlbuf.gstreamer.frames(
        gst.ElementFactory.make("appsink"))), "is no Gst.Pipeline")


@case
def gstreamer_errors():
    """The error of a failed pipeline has the element's text."""
    gi()
    raises(dlbuf.InvalidError, lambda: next(dlbuf.gstreamer.frames("v4l2src ! nothing")),
           "no element")
    raises(dlbuf.InvalidError, lambda: next(dlbuf.gstreamer.frames("fakesrc ! fakesink")),
           "no appsink")
    raises(dlbuf.Error, lambda: next(dlbuf.gstreamer.frames(
        "v4l2src device=/dev/video99 ! appsink")), "/dev/video99")
    raises(dlbuf.Error, lambda: next(dlbuf.gstreamer.frames(
        "videotestsrc ! video/x-raw,format=NV12 ! appsink")), "no dma-buf")
    raises(dlbuf.UnsupportedError, lambda: next(dlbuf.gstreamer.frames(
        "videotestsrc ! video/x-raw,format=v210 ! appsink")), "v210")
    assert list(dlbuf.gstreamer.frames("videotestsrc num-buffers=0 ! appsink")) == []
    raises(dlbuf.InvalidError, lambda: next(dlbuf.gstreamer.frames(
        "videotestsrc ! tee name=t ! appsink t. ! appsink")), "2 appsinks")
    for call, words in ((lambda: next(dlbuf.gstreamer.frames(3)), "text or a Gst.Pipeline"),
                        (lambda: dlbuf.gstreamer.frame(None), "a Gst.Sample"),
                        (lambda: dlbuf.gstreamer.frame(3, 4), "a Gst.Buffer"),
                        (lambda: dlbuf.gstreamer.frame(
                            gi().Gst.Buffer.new(), "video/x-raw"), "and 'video/x-raw'"),
                        (lambda: dlbuf.gstreamer.allocate(3), "a Gst.Element")):
        raises(TypeError, call, words)
