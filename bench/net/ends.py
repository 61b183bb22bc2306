#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One end of a connection of bench/net/run, which starts it:

    ends.py send|receive JSON

Prints "ready" when the other end may start, and at the end a line of JSON. Then it waits for the
end of its standard input. A receiver of an engine that does not say when a sender has ended also
ends if that was closed and no frame came for PATIENCE seconds.
"""

import collections
import contextlib
import ctypes
import itertools
import json
import mmap
import os
import socket
import sys
import threading
import time

STEP = 1021         # of the bytes that a receiver compares. A packet has more bytes
POOL = 4            # buffers, and messages that may wait
PATIENCE = 5        # seconds without a frame of a sender that has ended, where frames may be lost
PORT = 7447


class Case:
    """What is sent: frames of a file, NV12, one of POOL after the other; or what is prepared of
    them."""

    def __init__(self, frames, width, height, size, **_):
        self.width, self.height, self.size = width, height, size
        self.frame_bytes = width * height * 3 // 2
        self.bytes = size * size * 3 if size else self.frame_bytes
        with open(frames, "rb") as f:
            self.map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)

    def picture(self, n):
        at = n % POOL * self.frame_bytes
        return memoryview(self.map)[at:at + self.frame_bytes]

    def frames(self):
        """dlbuf's, of dma-bufs: TensorFrames by their numbers."""
        pool = []
        for n in range(POOL):
            t = dlbuf.alloc((self.frame_bytes,), "uint8")
            with t, memoryview(t) as m:
                m[:] = self.picture(n)
            pool.append(t)
        self.kept = pool

        def frame(n):
            fd, luma = pool[n % POOL].fd, self.width * self.height
            tensors = dlbuf.from_frame([(fd, self.width), (fd, self.width, luma)], self.width, self.height,
                                       "NV12", sequence=n)
            return dlbuf.TensorFrame(tensors, tensors[0].frame)
        return frame

    def prepared(self):
        """A function that makes the model's input of a number's frame."""
        frame, prepare = self.frames(), dlbuf.Preparer(**options(self.size))

        def input_of(n):
            with frame(n) as f:
                return prepare(f)[0]
        return input_of

    def payloads(self):
        """Of a number: the bytes that are sent, without a copy if they are a picture."""
        if not self.size:
            return self.picture
        input_of = self.prepared()
        return lambda n: memoryview(input_of(n)).cast("B")

    def samples(self):
        """What a receiver has to find, of each picture."""
        payload = self.payloads()
        return {bytes(payload(n)[::STEP]) for n in range(POOL)}


def options(size):
    return {"size": size, "dtype": "uint8", "layout": "NHWC", "fit": "letterbox"}


def local(address):
    return f"tcp/{address}:{PORT}"


# --------------------------------------------------------------- engines
#
# Each is two functions. send_NAME(case, told, numbers) sends the frames of `numbers`, an iterator,
# and returns when nothing is left to be sent, as far as the engine says so.
# receive_NAME(case, told) yields what arrived, as a list of objects with bytes, and None if nothing
# came for PATIENCE seconds.


def ready():
    print("ready", flush=True)


def send_sockets(case, told, numbers):
    payload = case.payloads()
    with socket.create_connection((told["receiver"], PORT)) as s:
        for n in numbers:
            s.sendall(payload(n))


def receive_sockets(case, told):
    buffer = memoryview(bytearray(case.bytes))
    with socket.create_server((told["receiver"], PORT)) as server:
        ready()
        s = server.accept()[0]
        with s:
            while True:
                got = 0
                while got < case.bytes:
                    n = s.recv_into(buffer[got:])
                    if not n:
                        return
                    got += n
                yield [buffer]


def send_zmq(case, told, numbers):
    import zmq
    payload = case.payloads()
    with zmq.Context() as context, context.socket(zmq.PUSH) as s:
        s.sndhwm = POOL
        s.linger = -1
        s.connect(f"tcp://{told['receiver']}:{PORT}")
        for n in numbers:
            s.send(payload(n), copy=False)
        s.send(b"")


def receive_zmq(case, told):
    import zmq
    with zmq.Context() as context, context.socket(zmq.PULL) as s:
        s.rcvhwm = POOL
        s.bind(f"tcp://{told['receiver']}:{PORT}")
        ready()
        while True:
            message = s.recv(copy=False)
            if not len(message):
                return
            yield [message.buffer]


@contextlib.contextmanager
def session(listen=None, connect=None):
    import zenoh
    config = zenoh.Config.from_json5(json.dumps({
        "mode": "peer", "scouting": {"multicast": {"enabled": False}},
        "transport": {"shared_memory": {"enabled": False}},
        "listen": {"endpoints": [listen] if listen else []},
        "connect": {"endpoints": [connect] if connect else []}}))
    with zenoh.open(config) as s:
        yield s


KEY = "bench/frames"


def wait_for_subscriber(s, key):
    matched = threading.Event()
    publisher = s.declare_publisher(key)
    listener = publisher.declare_matching_listener(lambda status: status.matching and matched.set())
    if not publisher.matching_status.matching and not matched.wait(60):
        sys.exit("the receiver's subscription did not arrive")
    listener.undeclare()
    publisher.undeclare()


def blocking():
    import zenoh
    return {"congestion_control": zenoh.CongestionControl.BLOCK}


def send_zenoh(case, told, numbers, data=None):
    if case.size:
        payload = case.payloads()

        def data(n):
            return bytes(payload(n))
    elif not data:
        pictures = [bytes(case.picture(n)) for n in range(POOL)]

        def data(n):
            return pictures[n % POOL]
    with session(connect=local(told["receiver"])) as s:
        wait_for_subscriber(s, KEY)
        publisher = s.declare_publisher(KEY, **blocking())
        for n in numbers:
            publisher.put(data(n))
        publisher.put(b"")
        publisher.undeclare()
        wait_for_end()


def receive_zenoh(case, told):
    import zenoh
    with session(listen=local(told["receiver"])) as s:
        frames = s.declare_subscriber(KEY, zenoh.handlers.FifoChannel(POOL))
        ready()
        for sample in frames:
            if not len(sample.payload):
                return
            yield [sample.payload.to_bytes()]


def send_zenoh_hand(case, told, numbers):
    buffer = bytearray(case.bytes)
    view = memoryview(buffer)       # an assignment to a bytearray's slice would copy twice

    def data(n):
        view[:] = case.picture(n)
        return buffer
    send_zenoh(case, told, numbers, data)


def receive_zenoh_hand(case, told):
    pool = itertools.cycle([memoryview(mmap.mmap(-1, case.bytes)) for _ in range(POOL)])
    for data, in receive_zenoh(case, told):
        buffer = next(pool)
        buffer[:] = data
        yield [buffer]


def send_dlbuf(case, told, numbers):
    frame = case.frames()
    prepare = dlbuf.Preparer(**options(case.size)) if case.size else None
    with session(connect=local(told["receiver"])) as s:
        wait_for_subscriber(s, KEY)
        dlbuf.zenoh.publish(map(frame, numbers), KEY, s, prepare=prepare, **blocking())
        wait_for_end()


def receive_dlbuf(case, told):
    with session(listen=local(told["receiver"])) as s:
        with dlbuf.zenoh.subscribe(KEY, s, pool=POOL, timeout=None) as frames:
            ready()
            try:
                for frame in frames:
                    with frame:
                        if case.size:
                            with frame[0] as x, memoryview(x) as m:
                                yield [m.cast("B")]
                        else:
                            with frame.planes("read") as planes, contextlib.ExitStack() as all_of_them:
                                yield [all_of_them.enter_context(memoryview(t)).cast("B") for t in planes]
            except dlbuf.ClosedError:
                notes.update(dropped=frames.dropped, lost=frames.lost, refused=frames.refused)


# ---------------------------------------------------------------- GStreamer


def gst():
    import gi
    gi.require_version("Gst", "1.0")
    gi.require_version("GstApp", "1.0")
    from gi.repository import Gst, GstApp       # noqa: F401
    Gst.init(None)
    return Gst


def raw_format(case, engine):
    # RTP has no NV12. I420 has as many bytes.
    return "RGB" if case.size else "I420" if engine == "rtp" else "NV12"


def caps_of(case, engine):
    w, h = (case.size, case.size) if case.size else (case.width, case.height)
    return (f"video/x-raw,format={raw_format(case, engine)},width={w},height={h},"
            "framerate=30/1,pixel-aspect-ratio=1/1")


def play(pipeline, Gst):
    if pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE:
        sys.exit(str(pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR).parse_error()))


def send_gst(case, told, numbers, engine, ending):
    Gst = gst()
    pipeline = Gst.parse_launch(f"appsrc name=src format=time block=true max-buffers={POOL} max-bytes=0 "
                                f"caps={caps_of(case, engine)} ! {ending}")
    source, sink = pipeline.get_by_name("src"), pipeline.get_by_name("sink")
    if case.size:
        input_of = case.prepared()

        def buffer(n):
            return Gst.Buffer.new_wrapped(input_of(n).tobytes())
    else:
        pool = [Gst.Buffer.new_wrapped(bytes(case.picture(n))) for n in range(POOL)]

        def buffer(n):
            return pool[n % POOL].copy()        # of the header: the memory is the same
    connected = threading.Event()
    if engine == "tcp":
        sink.connect("client-added", lambda *_: connected.set())
    play(pipeline, Gst)
    if engine == "tcp":
        ready()
        if not connected.wait(60):
            sys.exit("the receiver did not connect")
    for n in numbers:
        b = buffer(n)
        b.pts = b.dts = n * Gst.SECOND // 30
        b.duration = Gst.SECOND // 30
        source.emit("push-buffer", b)
    source.emit("end-of-stream")
    pipeline.get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    wait_for_end()
    pipeline.set_state(Gst.State.NULL)


def receive_gst(case, told, beginning):
    Gst = gst()
    pipeline = Gst.parse_launch(f"{beginning} ! appsink name=sink sync=false max-buffers={POOL}")
    sink = pipeline.get_by_name("sink")
    play(pipeline, Gst)
    ready()
    try:
        while True:
            sample = sink.emit("try-pull-sample", PATIENCE * Gst.SECOND)
            if not sample:
                error = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
                if error:
                    sys.exit(str(error.parse_error()))
                if sink.get_property("eos"):
                    return
                yield None
                continue
            ok, m = sample.get_buffer().map(Gst.MapFlags.READ)
            if ok:
                yield [m.data]
                sample.get_buffer().unmap(m)
    finally:
        pipeline.set_state(Gst.State.NULL)


def send_gst_tcp(case, told, numbers):
    send_gst(case, told, numbers, "tcp", f"tcpserversink name=sink host={told['sender']} port={PORT} sync=false")


def receive_gst_tcp(case, told):
    caps = caps_of(case, "tcp")
    return receive_gst(case, told, f"tcpclientsrc host={told['sender']} port={PORT} ! rawvideoparse "
                       f"use-sink-caps=false format={raw_format(case, 'tcp').lower()} "
                       f"width={case.size or case.width} height={case.size or case.height} framerate=30/1 ! {caps}")


def udp(told):
    return f"udpsink name=sink host={told['receiver']} port={PORT} sync=true buffer-size={told['buffer']}"


def from_udp(told, caps):
    return (f"udpsrc address={told['receiver']} port={PORT} buffer-size={told['buffer']} "
            f"caps=\"application/x-rtp,media=video,clock-rate=90000,payload=96,{caps}\"")


def send_gst_rtp(case, told, numbers):
    send_gst(case, told, numbers, "rtp", f"rtpvrawpay ! {udp(told)}")


def receive_gst_rtp(case, told):
    sampling = "RGB" if case.size else "YCbCr-4:2:0"
    w, h = (case.size, case.size) if case.size else (case.width, case.height)
    return receive_gst(case, told, from_udp(told, f"encoding-name=RAW,sampling=(string){sampling},depth=(string)8,"
                       f"width=(string){w},height=(string){h},colorimetry=(string)BT709-2") + " ! rtpvrawdepay")


def send_gst_x264(case, told, numbers):
    send_gst(case, told, numbers, "x264", "x264enc speed-preset=ultrafast tune=zerolatency "
             f"key-int-max=30 bitrate={told['kbit']} ! rtph264pay config-interval=-1 ! {udp(told)}")


def receive_gst_x264(case, told):
    return receive_gst(case, told, from_udp(told, "encoding-name=H264") +
                       f" ! rtph264depay ! video/x-h264,stream-format=byte-stream,alignment=au ! avdec_h264 ! {caps_of(case, 'x264').split(',format')[0]}")


# --------------------------------------------------------------- both ends

notes = {}
ended = threading.Event()


def wait_for_end():
    """Until the runner closes standard input: the receiver has all that comes."""
    ended.wait()


def watch_end():
    sys.stdin.read()
    ended.set()


def send(send, case, told):
    begin = {}

    def numbers():
        for n in range(told["warm"] + told["frames"]):
            if n == told["warm"]:
                begin["cpu"] = time.process_time()
            yield n
        print("sent", flush=True)

    send(case, told, numbers())
    wait_for_end()
    return {"sent": told["warm"] + told["frames"], "cpu": time.process_time() - begin["cpu"]}


def receive(receive, case, told, compare):
    good = collections.Counter()
    wanted = case.samples() if compare else None
    begin = last = None
    for got in receive(case, told):
        if got is None:
            if ended.is_set() and told["engine"] != "gst_tcp":
                break
            continue
        whole = sum(m.nbytes if isinstance(m, memoryview) else len(m) for m in got) == case.bytes
        if compare:
            whole = whole and sample(got) in wanted
        good[whole] += 1
        if good[True] == told["warm"] and begin is None:
            begin = time.process_time(), time.monotonic(), good[True]
        last = time.process_time(), time.monotonic(), good[True]
        if good.total() == told["warm"] + told["frames"] and told["engine"].startswith("gst"):
            break
    cpu, wall, n = ((b - a for a, b in zip(begin, last, strict=True)) if begin else (0, 0, 0))
    return {"received": good[True], "bad": good[False], "cpu": cpu, "seconds": wall, "counted": n}


def sample(got):
    """Each STEP'th byte, over all planes."""
    found, at = [], 0
    for m in got:
        found.append(bytes(m[-at % STEP::STEP]))
        at += len(m)
    return b"".join(found)


def main():
    global dlbuf
    side, told = sys.argv[1], json.loads(sys.argv[2])
    # The runner may be killed at any time.
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if told["memfds"]:
        ctypes.CDLL(None).memfds_begin()
    import dlbuf
    if told["engine"] == "dlbuf":
        import dlbuf.zenoh
    threading.Thread(target=watch_end, daemon=True).start()
    case = Case(**told["case"])
    end = globals()[f"{side}_{told['engine']}"]
    report = send(end, case, told) if side == "send" else \
        receive(end, case, told, told["engine"] != "gst_x264")
    print(json.dumps(report | notes), flush=True)


if __name__ == "__main__":
    main()
