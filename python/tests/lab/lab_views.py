# SPDX-License-Identifier: MIT
"""Views of dma-bufs: leases, devices with handles, other devices, order."""

import numpy as np

import dlbuf
from dlbuf import Access

from labtools import (Skip, case, fds, once_equal, raises,
                      waits_without_the_gil)
from lab_camera import camera, settle


def vulkan():
    try:
        return dlbuf.Device("vulkan:0")
    except dlbuf.Error as e:
        raise Skip(e.strerror)


@case
def views_of_a_dma_buf():
    """The same fd and buffer, and the bytes that NumPy's view has."""
    t = dlbuf.alloc((4, 6), "uint16", name="views")
    a = t.numpy()
    a[...] = np.arange(24).reshape(4, 6)
    for index in (1, (..., 2), slice(None, None, -1), (slice(3, 0, -2), 5),
                  (slice(1, 3), None, slice(4, 1, -1)), (0, 0), slice(0)):
        u, want = t[index], a[index]
        for v, b in ((u, want), (u.T, want.T), (u[..., None], want[..., None])):
            assert v.numpy().tolist() == b.tolist(), index
            assert v.buffer == t.buffer and v.fd == t.fd
            first, end = v.extent
            assert t.extent[0] <= first <= end <= t.extent[1]
            assert (v.path, v.access) == ("direct", Access.RW)
    # The first element of this view of a view is not its lowest.
    u = t[::-1, 1:][1:, ::-2]
    assert u.extent == (2, 36) and u[-1, 0].extent == (10, 12)
    assert u[::-1, ::-1].numpy().tolist() == a[::-1, 1:][1:, ::-2][
        ::-1, ::-1].tolist()
    assert u.reshape(9 // 3, 3).strides == (-6, -2)
    assert u.reshape(9).strides == (-2,)
    u = t[:, :5]
    raises(dlbuf.UnsupportedError, lambda: u.reshape(20), "t.copy().reshape")
    assert (u.copy().reshape(20).numpy() == u.numpy().reshape(-1)).all()
    with u:
        assert u.acquired == Access.RW and not t.acquired
        assert not t[1:].acquired
    assert u.acquired == Access(0) and type(u.acquired) is Access
    odd = dlbuf.from_fd(t.fd, (1, 6), "uint16", strides=(-1 << 63, 1))
    assert odd[0].numpy().tolist() == odd.reshape(6).numpy().tolist()
    assert repr(odd) == "<dlbuf.Tensor (1, 6) uint16, cpu>"
    assert t[1, 2].item() == 8 and t.same_layout(t.share())


@case
def views_order():
    """An array that is made of a view waits for the fence of the dma-buf."""
    for name, way in (("views", lambda t: np.asarray(t[16:32])),
                      ("item", lambda t: t[16].item()),
                      ("int", lambda t: int(t[16])),
                      ("copy", lambda t: t[::2].copy()),
                      ("numpy", lambda t: t.reshape(64, 64).numpy())):
        waits_without_the_gil(name, way, busy=False)


@case
def views_of_a_frame():
    """camera.held is 1 as long as any view, or what was made of one, lives."""
    with camera() as cam:
        frame = next(cam)
        y, uv = frame
        want = y.numpy()[10:20:2, ::-1].copy()
        ways = [lambda: y[10:20:2, ::-1], lambda: y.T, lambda: uv[..., 0],
                lambda: y.unsqueeze(0), lambda: uv.permute(2, 0, 1),
                lambda: y[:1].squeeze(0), lambda: y.to("cpu"),
                lambda: y.reshape(90, 2, 320), lambda: next(iter(y))]
        views = [way() for way in ways]
        info = frame.info
        assert all(v.frame is info for v in views)
        frame.release()
        del frame, y, uv
        array = views[0].numpy()
        assert (array == want).all() and cam.held == 1
        while views:
            settle(cam, 1)
            views.pop().close()
        settle(cam, 1)
        assert (array == want).all()
        del array
        settle(cam, 0)


@case
def views_cannot_leave_a_plane():
    """Neither by an index, nor below the interface: the library refuses."""
    with camera() as cam:
        y, uv = next(cam)
        assert y.extent[1] <= uv.extent[0]
        raises(IndexError, lambda: y[180])
        assert y[180:].size == 0 and y[179:999].shape == (1, 320)
        assert y[-1].extent[1] == y.extent[1]


@case
def views_to_other_devices():
    """t.to() has the lease, the frame and the layout, on another device."""
    device = vulkan()
    with camera(access="read") as cam:
        y, uv = next(cam)
        here = uv[2:4, ::2]
        there = here.to(device)
        assert there.frame is uv.frame and there.device is device
        assert there.same_layout(here) and there.read_only
        assert there.byte_offset == there.extent[0] == here.extent[0]
        want = here.numpy().tolist()
        y.close(), uv.close(), here.close()
        del y, uv, here
        settle(cam, 1)
        assert there.numpy().tolist() == want
        assert there.to("cpu").numpy().tolist() == want
        there.close()
        del there
        settle(cam)
    raises(dlbuf.UnsupportedError, lambda: dlbuf.from_dlpack(
        bytearray(3)).to(device), "not of a dma-buf")
    device.close()


@case
def views_of_handles():
    """On Vulkan data stays the handle, and byte_offset moves."""
    device = vulkan()
    t = dlbuf.alloc((4, 6), "uint16", ["cpu", device])
    cpu, vk = t
    cpu.numpy()[...] = np.arange(24).reshape(4, 6)
    u = vk[1:, ::-1].T[2:]
    assert u.data == vk.data and u.byte_offset == 2 * (6 + 3)
    assert u.extent == (12, 44)
    assert u.numpy().tolist() == cpu.numpy()[1:, ::-1].T[2:].tolist()
    assert "vulkan:0>" in repr(u) and u[0, 0].item() == int(u[0, 0]) == 9
    with cpu:
        assert float(cpu[1, 5]) == 11.0 and bool(cpu[0, 1]) and not cpu[0, 0]
    assert vk[2:2].data == 0
    for fn in np.asarray, np.array, lambda x: np.asarray(x, "f4"):
        raises(BufferError, lambda: fn(u), "t.numpy() maps its dma-buf")
    raises(BufferError, lambda: u.torch(), 't.to("cpu").torch()')
    e = raises(BufferError, lambda: dlbuf.from_dlpack(cpu, device="vulkan:0"),
               't.to("vulkan:0")')
    assert "on cpu" in str(e)
    with u:
        assert u.acquired
    del t, cpu, vk, u
    # Memory of alloc() is freed with its last tensor, mapped or not.
    x = dlbuf.alloc((4, 6), "uint8", device)
    x.numpy()[...] = 1
    before = len(fds())
    for _ in range(5):
        x = dlbuf.alloc((4, 6), "uint8", device)
        x.numpy()[...] = 1
    assert once_equal(lambda: len(fds()), before, 30) == before
    device.close()
