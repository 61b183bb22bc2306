# SPDX-License-Identifier: MIT
"""Frames of a camera in one guest, on devices of another: tests/guest/pair runs

    lab_robots.py robot -- lab_robots.py viewer [CASE...]

The robot starts a publisher for each connection of the viewer's, whose commands and answers are
lines of JSON. So the digests of the frames come by another way than the frames."""

import contextlib
import fcntl
import functools
import gc
import hashlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

import zenoh

import dlbuf
import dlbuf.zenoh

# The folder of modules that tests share.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from waits import BOUND, until                          # noqa: E402

ROBOT, PORT, LOCATOR = "10.0.0.1", 7000, "tcp/10.0.0.1:7447"
# A publisher of the first key waits for the network, one of the second drops frames.
KEY, REAR = "robot/front", "robot/rear"
SIZE = 320, 180
FRAMES = 3
# The number of small frames that are sent at once, and in all.
SOME, MANY = 25, 1000
# Camera frames while the wire is down, or a receiver stopped; at most 32 wait in a subscriber.
STREAM = 24
RECEIVERS = 8


def resident():
    """Bytes of this process that are in memory and in no file; after the collector has looked."""
    gc.collect()
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon:")) * 1024


def open_fds():
    return len(os.listdir("/proc/self/fd"))


def session(**endpoints):
    return zenoh.open(zenoh.Config.from_json5(json.dumps({
        "mode": "peer", "scouting": {"multicast": {"enabled": False}},
        "transport": {"shared_memory": {"enabled": False}},
        "listen": {"endpoints": endpoints.get("listen", [])},
        "connect": {"endpoints": endpoints.get("connect", [])}})))


@contextlib.contextmanager
def small_sockets():
    """TCP holds little for a peer that does not read. Sockets that are open follow, too."""
    names = [f"/proc/sys/net/ipv4/tcp_{x}mem" for x in "rw"]
    before = []
    for name in names:
        with open(name, "r+") as f:
            before.append(f.read())
        with open(name, "w") as f:
            f.write("4096 16384 32768")
    try:
        yield
    finally:
        for name, was in zip(names, before):
            with open(name, "w") as f:
                f.write(was)


def digests(frame):
    return [hashlib.sha256(t.tobytes()).hexdigest() for t in frame]


# -------------------------------------------------------------- the robot


def camera(publisher):
    """Some frames of vivid, and what was sent."""
    sent = {}
    with dlbuf.Camera(0, format="NV12", size=SIZE) as frames:
        for frame in frames:
            with frame:
                publisher.put(frame)
                sent[frame.sequence] = digests(frame)
            if len(sent) == FRAMES:
                return sent


def stream(publisher):
    """More of them; the buffers that were held after a frame, and how many were sent."""
    held = 0
    with dlbuf.Camera(0, format="NV12", size=SIZE) as frames:
        for n, frame in enumerate(frames, 1):
            with frame:
                publisher.put(frame)
            del frame
            held = max(held, frames.held)
            if n == STREAM:
                return [held, n]


def stream_past(publisher):
    """As stream(), through sockets that hold less than it sends."""
    with small_sockets():
        return stream(publisher)


@functools.lru_cache(maxsize=None)
def small():
    # Devices keep imports of other buffers for a while.
    return dlbuf.alloc((24, 64), "uint8")


def some(publisher):
    """Small frames; the fds and the memory after them."""
    t = small()
    for n in range(SOME):
        tensors = dlbuf.from_frame([(t.fd, 64), (t.fd, 64, 1024)], 64, 16, "NV12", sequence=n)
        with dlbuf.TensorFrame(tensors, tensors[0].frame) as frame:
            publisher.put(frame)
        del tensors, frame
    return [open_fds(), resident()]


def publishes():
    """A publisher, which does what its standard input says."""
    with session(listen=[LOCATOR]) as s:
        with dlbuf.zenoh.Publisher(KEY, s, congestion_control=zenoh.CongestionControl.BLOCK
                                   ) as front, dlbuf.zenoh.Publisher(REAR, s) as rear:
            print(json.dumps("ready"), flush=True)
            for line in sys.stdin:
                command = json.loads(line)
                if command == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                publisher = rear if command == "stream_past" else front
                # The subscription has arrived.
                until(lambda: publisher._publisher.matching_status.matching)
                print(json.dumps({"camera": camera, "some": some, "stream": stream,
                                  "stream_past": stream_past}[command](publisher)), flush=True)


def robot():
    with socket.create_server(("", PORT)) as server:
        while True:
            with server.accept()[0] as connection:
                status = subprocess.run([sys.executable, __file__, "publishes"],
                                        stdin=connection, stdout=connection).returncode
            if status != -signal.SIGKILL:
                return status


# -------------------------------------------------------------- the viewer


class Robot:
    """A publisher on the robot."""

    def __init__(self):
        until(self.connected)
        self.lines = self.socket.makefile("rw")
        assert self.answer() == "ready"

    def connected(self):
        try:
            self.socket = socket.create_connection((ROBOT, PORT))
            return True
        except OSError:
            return False

    def tell(self, command):
        print(json.dumps(command), file=self.lines, flush=True)

    def answer(self):
        return json.loads(self.lines.readline())

    def close(self):
        """The end of the connection ends the publisher, or was it."""
        self.lines.close()
        self.socket.shutdown(socket.SHUT_WR)
        self.socket.close()


class Receiver:
    """A process that subscribes to a key and says what it gets. It is forked before there is a
    thread of Zenoh's, and begins with start()."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            status = 1
            with contextlib.suppress(BrokenPipeError):
                self.receives(theirs.makefile("rw"))
                status = 0
            os._exit(status)
        theirs.close()
        self.socket, self.lines = ours, ours.makefile("rw")

    @staticmethod
    def receives(lines):
        key = lines.readline().strip()
        if not key:
            return
        with session(connect=[LOCATOR]) as s, \
                dlbuf.zenoh.subscribe(key, s, timeout=BOUND, pool=SOME) as frames:
            # The robot has the subscription then: it was declared before.
            until(lambda: frames.publishers)
            print(json.dumps("ready"), file=lines, flush=True)
            for frame in frames:
                with frame:
                    assert all(t.tobytes() for t in frame)
                    print(json.dumps([frame.sequence, frames.lost, frames.dropped]), file=lines,
                          flush=True)

    def start(self, key):
        print(key, file=self.lines, flush=True)

    def said(self):
        return json.loads(self.lines.readline())

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        assert os.waitpid(self.pid, 0)[1] == signal.SIGKILL
        self.lines.close()
        self.socket.close()


def link(up):
    """Of this guest, and so the wire."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        get, put, up_flag = 0x8913, 0x8914, 1       # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
        request = struct.pack("16sH14x", b"eth0", 0)
        flags, = struct.unpack("16xH14x", fcntl.ioctl(s, get, request))
        flags = flags | up_flag if up else flags & ~up_flag
        fcntl.ioctl(s, put, struct.pack("16sH14x", b"eth0", flags))


def viewer(patterns):
    receivers = [Receiver() for _ in range(RECEIVERS + 1)]

    # NumPy is for the viewer only.
    from labtools import CASES, case, main, np, raises

    robots = [Robot()]
    own = session(connect=[LOCATOR])

    def frames(pool=FRAMES, **options):
        return dlbuf.zenoh.subscribe(KEY, own, timeout=BOUND, pool=pool, **options)

    def of_udmabuf(fd):
        with open(f"/proc/self/fdinfo/{fd}") as f:
            return "exp_name:\tudmabuf" in f.read()

    def received(subscriber, pictures):
        """The camera's frames, each with the digests that the robot has made."""
        robots[-1].tell("camera")
        got = [next(subscriber) for _ in range(FRAMES)]
        sent = robots[-1].answer()
        assert [str(f.sequence) for f in got] == list(sent)
        for frame, want in zip(got, sent.values()):
            assert frame.info.format == "NV12" and frame.info.clock is dlbuf.Clock.REALTIME
            arrays = pictures(frame)
            assert [a.shape for a in arrays] == [SIZE[::-1], (SIZE[1] // 2, SIZE[0] // 2, 2)]
            assert [hashlib.sha256(a.tobytes()).hexdigest() for a in arrays] == want
            assert all(of_udmabuf(p.fd) for p in frame.info.planes)
        # A picture, not zeros.
        assert np.ptp(pictures(got[0])[0]) > 0
        assert (subscriber.refused, subscriber.lost, subscriber.dropped) == (0, 0, 0)

    @case
    def numpy_of_a_camera():
        with frames(exporter="udmabuf") as subscriber:
            received(subscriber, lambda frame: [np.asarray(t) for t in frame])

    @case
    def many_frames_leave_nothing():
        """After the first quarter, in which pools and allocators grow. Before a device is opened:
        after that the heap has megabytes that are free and not resident. Later frames write
        them, so that they become resident, though no more is allocated."""
        after = []
        with frames(SOME) as subscriber:
            for _ in range(MANY // SOME):
                robots[-1].tell("some")
                for n in range(SOME):
                    with next(subscriber) as frame:
                        assert frame.sequence == n
                    del frame
                after.append([[open_fds(), resident()], robots[-1].answer()])
            assert subscriber.received == MANY and subscriber.lost == subscriber.dropped == 0
        for n, who in enumerate(("viewer", "robot")):
            (fds, nbytes), (fds_now, nbytes_now) = after[len(after) // 4][n], after[-1][n]
            print(f"# the {who}: {fds} fds, then {fds_now}; {nbytes >> 10} KiB, then "
                  f"{nbytes_now >> 10}")
            assert fds_now == fds and nbytes_now - nbytes < 1 << 20

    @case
    def one_receiver_of_many_is_killed():
        """The others get each frame, before and after."""
        mine = receivers[:RECEIVERS]
        for r in mine:
            r.start(KEY)
        for r in mine:
            assert r.said() == "ready"
        for _ in range(2):
            robots[-1].tell("some")
            if len(mine) == RECEIVERS:
                assert mine[-1].said()[0] == 0
                mine.pop().kill()
            for r in mine:
                assert [r.said() for _ in range(SOME)] == [[n, 0, 0] for n in range(SOME)]
            robots[-1].answer()
        for r in mine:
            r.kill()

    @case
    def a_receiver_that_is_stopped():
        """The camera goes on, and has its buffers. The receiver counts what it has missed."""
        r = receivers[-1]
        with small_sockets():
            r.start(REAR)
            assert r.said() == "ready"
            os.kill(r.pid, signal.SIGSTOP)
            assert os.WIFSTOPPED(os.waitpid(r.pid, os.WUNTRACED)[1])
            robots[-1].tell("stream_past")
            assert robots[-1].answer() == [0, STREAM]
            os.kill(r.pid, signal.SIGCONT)
            lost = 0
            while not lost:
                robots[-1].tell("stream_past")
                assert robots[-1].answer() == [0, STREAM]
                while select.select([r.socket], [], [], 0)[0]:
                    lost = r.said()[1]
            print(f"# {lost} frames were lost")
        r.kill()

    @case
    def a_link_that_is_down():
        """For two seconds, in which the robot sends: no frame is lost. The publisher waits for the
        network. With one that drops, frames never arrive."""
        with frames(32) as subscriber:
            robots[-1].tell("stream")
            got = [next(subscriber).sequence for _ in range(FRAMES)]
            link(False)
            time.sleep(2)       # it orders nothing
            link(True)
            print(f"# {subscriber.received} of {STREAM} frames before")
            got += [next(subscriber).sequence for _ in range(STREAM - FRAMES)]
            assert got == sorted(set(got)), got
            assert (subscriber.lost, subscriber.dropped) == (0, 0)
            assert robots[-1].answer() == [0, STREAM]

    @case
    def a_publisher_that_is_killed():
        with frames() as subscriber:
            received(subscriber, lambda frame: [np.asarray(t) for t in frame])
            robots[-1].tell("die")
            try:
                next(subscriber)
                raise AssertionError("a frame of a dead publisher")
            except dlbuf.ClosedError as e:
                assert "is gone" in str(e)
            robots[-1].close()
            robots.append(Robot())
            until(lambda: subscriber.publishers)
            # Both the subscriber that is there, and a new one.
            received(subscriber, lambda frame: [np.asarray(t) for t in frame])
        with frames() as subscriber:
            received(subscriber, lambda frame: [np.asarray(t) for t in frame])

    @case
    def vulkan_of_a_camera():
        """Lavapipe imports the udmabufs, and reads the last one."""
        options = {"size": 64, "dtype": "uint8"}
        last = []

        def pictures(frame):
            assert {t.device.name for t in frame} == {"vulkan:0"}
            last[:] = [frame]
            return [t.numpy() for t in frame]

        with frames(exporter="udmabuf", device="vulkan:0") as subscriber:
            received(subscriber, pictures)
            on_device = dlbuf.Preparer(**options, device=subscriber.device)
            x, _ = on_device(last[0])
            # A publisher prepares on the device, too.
            with dlbuf.zenoh.subscribe("viewer/input", own, timeout=BOUND, pool=1) as inputs, \
                    dlbuf.zenoh.Publisher("viewer/input", own, prepare=on_device) as publisher:
                publisher.put(last[0])
                got, = next(inputs)
                assert got.shape == x.shape and got.tobytes() == x.tobytes()
                del got
            # A relay: the frame of the device goes on as it came, and not a part of it.
            with dlbuf.zenoh.subscribe("viewer/relay", own, timeout=BOUND, pool=1) as relayed, \
                    dlbuf.zenoh.Publisher("viewer/relay", own) as publisher:
                publisher.put(last[0])
                with next(relayed) as again:
                    assert digests(again) == digests(last[0])
                y, uv = last[0]
                cut = dlbuf.TensorFrame([y[:8], uv], last[0].info)
                raises(dlbuf.UnsupportedError, lambda: publisher.put(cut), "tensor 0")
                del y, uv, cut
            want, _ = dlbuf.Preparer(**options)([t.to("cpu") for t in last[0]])
            x, want = (t.numpy().astype(int) for t in (x, want))
            assert np.ptp(want) > 0 and abs(x - want).max() <= 1
            last.clear()

    @case
    def formats_of_a_camera():
        """put() compares the tensors of each device with those that it makes on the CPU."""
        for device in "cpu", "vulkan:0":
            for options in ({"format": "NV12"}, {"format": "NV12", "view": "components"},
                            {"format": "NV12", "view": "stacked"}, {"format": "YUYV"},
                            {"format": "RGB24"}, {"format": "XR24", "view": "colour"}):
                with dlbuf.Camera(0, size=SIZE, device=device, **options) as frames, \
                        dlbuf.zenoh.subscribe("viewer/camera", own, timeout=BOUND) as received, \
                        dlbuf.zenoh.Publisher("viewer/camera", own) as publisher:
                    with next(frames) as frame:
                        publisher.put(frame)
                        with next(received) as got, dlbuf.TensorFrame(
                                dlbuf.from_frame(
                                    frame.info.planes, frame.info.width, frame.info.height,
                                    frame.info.code, space=frame.info.space), frame.info) as want:
                            assert digests(got) == digests(want), (device, options)
                    del frame, got, want

    status = main(patterns, CASES)
    robots[-1].close()
    own.close()
    return status


if __name__ == "__main__":
    sys.exit({"robot": lambda: robot(), "publishes": lambda: publishes(),
              "viewer": lambda: viewer(sys.argv[2:])}[sys.argv[1]]())
