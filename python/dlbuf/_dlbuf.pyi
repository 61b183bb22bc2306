# SPDX-License-Identifier: MIT
# The docstrings here are the only source: setup.py gives them to C.
import builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import (Any, NoReturn, Protocol, SupportsFloat, SupportsIndex,
                    TypeVar, final, overload)
from typing_extensions import Buffer, CapsuleType, Self

from ._types import (Access, DeviceInfo, DeviceStats, DType, FormatInfo,
                     Frame, PathInfo)

_T = TypeVar("_T")
_Index = SupportsIndex | slice | EllipsisType | None

@final
class Device:
    """One importer of dma-bufs: the CPU, a GPU, a Verilog simulator.

    name selects it: "cpu", "vulkan:0", "cuda:0", "hip:0", "opencl:0",
    "levelzero:0", "gles:0", "vpi:NAME". "vulkan" is the first usable one. Other forms are
    "vulkan:llvmpipe" (a part of its name), "vulkan:uuid=..." (32 hexadecimal
    digits), "vulkan:pci=0000:01:00.0" and "vulkan:drm=/dev/dri/renderD128".

    cache=False keeps no import after its last tensor. max_idle limits how many
    imports without a tensor the device keeps; 0 means 256, or a quarter of the
    limit of fds. bridge=False opens no Vulkan device beside
    CUDA or HIP.

    May block while a driver loads. Raises InvalidError for a bad name, Error
    with ENODEV where the driver or device is absent, Error with ENOSYS for a
    backend that is not built in, and UnsupportedError where the device cannot
    import dma-bufs.

    Calls that take a device also take its name, and open it once for all. A device
    equals its name: `t.device == "cpu"`. Two of one name are not equal.

    >>> with dlbuf.Device("cpu") as device:
    ...     dlbuf.alloc((2, 3), "uint8", device).shape
    (2, 3)
    """

    def __new__(
        cls, name: str, *, cache: bool = True, max_idle: int = 0,
        bridge: bool = True,
    ) -> Self: ...
    @classmethod
    def wrap_cuda(
        cls, context: int, *, cache: bool = True, max_idle: int = 0,
        bridge: bool = True,
    ) -> Self:
        """Makes a device of a CUcontext that the program has.

        context is the address of the handle. It is borrowed: the context must
        live until the last tensor is gone. The other arguments and the errors
        are those of Device().

        >>> device = dlbuf.Device.wrap_cuda(context)    # doctest: +SKIP
        """
    @classmethod
    def wrap_gles(
        cls, display: int, *, cache: bool = True, max_idle: int = 0,
    ) -> Self:
        """Makes a device on an EGLDisplay of the program, with a context of its own.

        display is its address. It is borrowed: eglInitialize() has been called, and
        eglTerminate() must not be before the device is closed and the last tensor gone.
        The program's contexts are not used and keep their state. The other arguments
        and the errors are those of Device().

        >>> device = dlbuf.Device.wrap_gles(display)    # doctest: +SKIP
        """
    @classmethod
    def wrap_levelzero(
        cls, context: int, device: int, *, cache: bool = True,
        max_idle: int = 0,
    ) -> Self:
        """Makes a device of a ze_context_handle_t and a ze_device_handle_t.

        Both are addresses of handles that the program has, e.g. those of a SYCL
        queue. They are borrowed: both must live until the last tensor is gone.
        The other arguments and the errors are those of Device().

        >>> sycl = dlbuf.Device.wrap_levelzero(context, gpu)    # doctest: +SKIP
        """
    @classmethod
    def wrap_opencl(
        cls, context: int, device: int = 0, queue: int = 0, *,
        cache: bool = True, max_idle: int = 0,
    ) -> Self:
        """Makes a device of a cl_context that the program has.

        context, device and queue are addresses of handles (pyopencl: int_ptr).
        device is needed where the context has several. queue is the default
        stream of acquire() and release(); with 0 the library makes one. The
        library retains all three. The other arguments and the errors are those
        of Device().

        >>> device = dlbuf.Device.wrap_opencl(
        ...     context.int_ptr, queue=queue.int_ptr)   # doctest: +SKIP
        """
    @classmethod
    def wrap_vpi(
        cls, sock: int | _HasFileno, *, cache: bool = True, max_idle: int = 0,
    ) -> Self:
        """Makes a device of a Verilog simulator that the program has started.

        sock is one end of a SOCK_SEQPACKET pair, duplicated. The simulator has
        the number of the other end in $DLBUF_VPI_FD. Device("vpi:NAME") is for
        a simulator that attaches by name. Does not block.

        >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        >>> with dlbuf.Device.wrap_vpi(ours) as device:
        ...     device.info.backend
        'vpi'
        """
    @property
    def opencl(self) -> tuple[int, int, int, int]:
        """The addresses of an OpenCL device's handles: (platform, device,
        context, queue). They are borrowed, and valid while the device is.
        Raises InvalidError for another device.

        >>> import pyopencl as cl                   # doctest: +SKIP
        >>> platform, device, context, queue = dlbuf.Device("opencl:0").opencl  # doctest: +SKIP
        >>> cl.Context.from_int_ptr(context)        # doctest: +SKIP
        """
    @property
    def name(self) -> str:
        """The name that Device() takes, e.g. "vulkan:0"; also once it is closed.

        >>> dlbuf.Device("cpu").name
        'cpu'
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def info(self) -> DeviceInfo:
        """A description of the device, a DeviceInfo.

        >>> dlbuf.Device("cpu").info.backend
        'cpu'
        """
    @property
    def closed(self) -> bool:
        """Whether close() was called.

        >>> with dlbuf.Device("cpu") as device:
        ...     print(device.closed)
        False
        >>> device.closed
        True
        """
    def paths(
        self, fd: int | _HasFileno | None = None, *,
        access: Access | int | str | None = None,
    ) -> list[PathInfo]:
        """Tries each path by which the device could import a dma-buf.

        Returns a PathInfo for each, and undoes every import. fd is a dma-buf,
        borrowed; None tries one page of a new udmabuf. access is as in
        from_fd(). Blocks while the driver maps. Raises Error with EBADF for an
        fd that is no dma-buf, and AccessError if it was not opened for access.

        >>> for path in dlbuf.Device("cpu").paths():
        ...     print(path.path, path.status)
        direct 0
        """
    def stats(self) -> DeviceStats:
        """Returns counts since the device was opened.

        >>> device = dlbuf.Device("cpu")
        >>> t = dlbuf.alloc(16, "uint8", device)
        >>> device.stats().tensors
        1
        """
    def trim(self, max_idle: int = 0, /) -> None:
        """Drops imports without a tensor until at most max_idle are left.

        It frees their memory and fds, e.g. after a camera was reconfigured.
        Tensors are not affected. May block while the driver unmaps.

        >>> device = dlbuf.Device("cpu")
        >>> device.trim()
        >>> device.stats().idle
        0
        """
    def close(self) -> None:
        """Closes the device; a second call does nothing.

        Its tensors stay valid: the driver's device is freed with the last of
        them. Raises Error with EBUSY while another thread uses the device.

        >>> device = dlbuf.Device("cpu")
        >>> device.close()
        >>> device
        <dlbuf.Device, closed>
        """
    def __enter__(self) -> Self:
        """Returns the device; the end of the block closes it."""
    def __exit__(self, *args: object) -> None:
        """Closes the device."""

# "int | Any" is a value that may be None. Programs that know what memory they
# have need no check for it, and a wrong use of the int is still found.
@final
class Tensor:
    """A DLPack tensor: memory of a dma-buf, or of another producer.

    from_fd(), from_frame(), alloc(), recv(), from_dlpack() and Camera make
    Tensors. Any library that supports DLPack, the buffer protocol or NumPy's
    array interface takes one without a copy, and waits for the fences of the
    dma-buf while it does:

    >>> import numpy as np
    >>> t = dlbuf.alloc((2, 3), "uint8")
    >>> a = np.asarray(t)
    >>> a[0] = 1, 2, 3
    >>> a.sum(axis=1).tolist()
    [6, 0]

    A Tensor keeps its memory, its device and the lease of its frame until it is
    closed or collected. `with tensor:` acquires and releases it.

    int(), float(), complex() and bool() of a tensor of one element are the value that
    item() returns; TypeError if there are more. `t == u` is whether two Tensors
    are the same object, so that `t in list` works. Elements are not compared: ==
    and < with a number raise TypeError, and NumPy's with an array are NumPy's.

    >>> int(t[0, 2]) + float(t[0, 1])
    5.0

    All threads may use a Tensor. A call raises InvalidError if the tensor is
    closed, and close() raises Error with EBUSY while another call uses it.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension, in elements.

        >>> dlbuf.alloc((4, 6), "uint8")[1:, ::2].shape
        (3, 3)
        """
    @property
    def strides(self) -> tuple[int, ...]:
        """The steps of each dimension, in elements and not in bytes.

        >>> dlbuf.alloc((4, 6), "float32")[1:, ::2].strides
        (6, 2)
        """
    @property
    def dtype(self) -> DType:
        """The type of the elements, a DType, which is a str: "uint8", "float32",
        "bfloat16".

        >>> t = dlbuf.alloc((4, 6), "f4")
        >>> t.dtype, t.dtype == "float32", t.dtype.itemsize
        ('float32', True, 4)
        """
    @property
    def __numpy_dtype__(self) -> Any:
        """NumPy 2.4 reads its dtype from this attribute."""
    @property
    def T(self) -> Tensor:
        """A view with the dimensions in the opposite order: transpose().

        >>> dlbuf.alloc((4, 6, 3), "uint8").T.shape
        (3, 6, 4)
        """
    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> dlbuf.alloc((4, 6), "uint8").ndim
        2
        """
    @property
    def size(self) -> int:
        """The number of elements: the product of shape.

        >>> dlbuf.alloc((4, 6), "float32").size
        24
        """
    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes, without gaps between them.

        >>> dlbuf.alloc((2, 3), "uint16").nbytes
        12
        """
    @property
    def data(self) -> int:
        """DLTensor.data: the address of the first element on a device with
        addresses (CPU, CUDA); else the handle of the whole buffer, e.g. the
        cl_mem. 0 for a tensor without elements.

        >>> t = dlbuf.alloc((4, 6), "uint8")
        >>> t[1].data - t.data
        6
        """
    @property
    def byte_offset(self) -> int:
        """Bytes from data to the first element. 0 on a device with addresses.

        >>> dlbuf.alloc((4, 6), "uint8")[1].byte_offset
        0
        """
    @property
    def read_only(self) -> bool:
        """Whether consumers must not write to the memory.

        >>> t = dlbuf.alloc(4, "uint8")
        >>> t.read_only, dlbuf.from_fd(t.fd, 4, "uint8", access="read").read_only
        (False, True)
        """
    @property
    def is_copied(self) -> bool:
        """Whether the memory is a copy: of another producer's memory, or of the
        dma-buf on the paths "bridge" and "copy". It is not DLPack's flag of this name,
        which promises a single owner: only a capsule of __dlpack__(copy=True) has that.

        >>> t = dlbuf.from_dlpack(b"abc")
        >>> t.is_copied, t.copy().is_copied, t.copy().share().is_copied
        (False, True, True)
        """
    @property
    def closed(self) -> bool:
        """Whether close() was called.

        >>> t = dlbuf.alloc(4, "uint8")
        >>> t.close()
        >>> t.closed
        True
        """
    @property
    def device(self) -> Device | Any:
        """The Device of the tensor. Plain memory of the CPU has "cpu", too. None for
        memory of another library's device, and for a tensor that C has made.

        >>> dlbuf.from_dlpack(b"abc").device
        <dlbuf.Device 'cpu'>
        >>> dlbuf.alloc(4, "uint8").device == "cpu"
        True
        """
    @property
    def frame(self) -> Frame | Any:
        """The Frame that the tensor is a part of, or None.

        >>> with dlbuf.Camera(format="NV12", size=(320, 180)) as camera:
        ...     y, uv = next(camera)
        >>> y.frame.format, y.frame.width, y.frame is uv.frame
        ('NV12', 320, True)
        """
    @property
    def fd(self) -> int | Any:
        """The dma-buf, as an fd of the tensor; None for memory that is no
        dma-buf. The fd is closed with the tensor: os.dup() it to keep it
        longer.

        >>> t = dlbuf.alloc(4, "uint8")
        >>> fd = os.dup(t.fd)
        >>> t.close()
        >>> dlbuf.from_fd(fd, 4, "uint8").size
        4
        >>> os.close(fd)
        """
    @property
    def path(self) -> str | None:
        """How the device reaches the bytes: "direct", "host", "bridge" or
        "copy", see PathInfo; None for memory that is no dma-buf.

        >>> dlbuf.alloc(4, "uint8").path
        'direct'
        """
    @property
    def access(self) -> Access | None:
        """The accesses that the tensor allows; None for memory that is no
        dma-buf.

        >>> t = dlbuf.alloc(4, "uint8")
        >>> t.access, t.access == "rw"
        (Access.RW, True)
        """
    @property
    def acquired(self) -> Access | None:
        """The access that acquire() has begun, Access(0) outside of one; None
        for memory that is no dma-buf.

        >>> with dlbuf.alloc(4, "uint8") as t:
        ...     t.acquired
        Access.RW
        >>> t.acquired
        Access(0)
        """
    @property
    def buffer(self) -> tuple[int, int, int] | Any:
        """The identity of the dma-buf and its size in bytes: (st_dev, st_ino,
        bytes). Equal for tensors of one dma-buf, in every process. None for
        memory that is no dma-buf.

        >>> t = dlbuf.alloc(4, "uint8")
        >>> t.buffer == t[1:].buffer, t.buffer == dlbuf.alloc(4, "uint8").buffer
        (True, False)
        """
    @property
    def extent(self) -> tuple[int, int] | Any:
        """The bytes of the dma-buf that the tensor uses: (first, end). None for
        memory that is no dma-buf.

        >>> dlbuf.alloc((4, 6), "uint16")[1, 2:4].extent
        (16, 20)
        """
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, for memory that the CPU can reach. Reading
        it waits for the fences of the dma-buf. Its access has no end."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA's array interface, version 3, for memory of CUDA. The legacy
        default stream waits for the fences. Its access has no end."""
    __dlpack_c_exchange_api__: CapsuleType
    def acquire(
        self,
        access: Access | int | str | None = None,
        stream: int | None = None,
        *,
        deadline: SupportsFloat | None = None,
        fence: int | _HasFileno = -1,
    ) -> None:
        """Begins an access: waits for the fences that conflict with it.

        A reader waits for writers, a writer for readers and writers. access is
        "read", "write" or "rw"; None is all that the tensor allows. stream is
        the handle of a queue of the device; None is its default stream. On the
        CPU the call blocks, without the GIL; on a GPU the stream waits.
        deadline is in seconds of time.monotonic(). fence is a sync_file, for
        which the access waits, too; it is borrowed.

        Raises AccessError for an access that the tensor does not allow, Error
        with EBUSY if it is acquired already, DeadlineError at the deadline, and
        UnsupportedError for memory that is no dma-buf. After an error nothing
        is acquired.

        >>> t = dlbuf.alloc(4, "uint8")
        >>> t.acquire("write")
        >>> memoryview(t)[0] = 7
        >>> t.release()
        """
    def release(
        self, stream: int | None = None, *, fence: bool = False
    ) -> int | None:
        """Ends the access that acquire() has begun.

        Other users of the dma-buf wait for the work that was submitted to
        stream before. With fence=True it returns a new fd, which becomes
        readable when that work is complete, or None if it is; close the fd.
        Does not block, except on devices that can only wait.

        Raises InvalidError if nothing is acquired. It does not give a camera its
        buffer back: that is TensorFrame.release().

        >>> t = dlbuf.alloc(4, "uint8")
        >>> t.acquire("read")
        >>> print(t.release(fence=True))        # the CPU has no work pending
        None
        """
    def vpi_send(
        self, name: str, *, deadline: SupportsFloat | None = None
    ) -> None:
        """Gives an acquired tensor to a Verilog test bench, which opens it by
        name.

        The tensor is of a Device("vpi:NAME"). Waits for a simulator, until
        deadline, in seconds of time.monotonic(); signals are handled. The work
        ends when the test bench releases the buffer: acquire() of another
        tensor, or release(fence=True), waits for that. Raises InvalidError if
        the tensor is not acquired, DeadlineError, and ClosedError if the
        simulator has ended.

        >>> ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        >>> t = dlbuf.alloc(8, "uint8", dlbuf.Device.wrap_vpi(ours))
        >>> with t:
        ...     t.vpi_send("in")
        """
    def share(self) -> Tensor:
        """Returns another tensor over the same memory, with an access of its
        own.

        It keeps the memory and the lease on its own.

        >>> t = dlbuf.alloc(4, "uint8")
        >>> u = t.share()
        >>> t.close()
        >>> len(memoryview(u))
        4
        """
    def __getitem__(self, key: _Index | tuple[_Index, ...], /) -> Tensor:
        """Returns a view of a part, with NumPy's indices: ints, slices, ... and
        None. It keeps the memory and the lease.

        Makes no copy: UnsupportedError for arrays and booleans as indices, and
        for elements that are not whole bytes. IndexError outside of the shape.

        >>> t = dlbuf.alloc((4, 6), "uint8")
        >>> t[1:3, ::-2].shape, t[..., None].shape
        ((2, 3), (4, 6, 1))
        """
    def __len__(self) -> int:
        """The size of the first dimension. TypeError without dimensions."""
    def __iter__(self) -> Iterator[Tensor]:
        """Views of the first dimension, one by one."""
    @overload
    def reshape(self, shape: Sequence[SupportsIndex], /) -> Tensor: ...
    @overload
    def reshape(self, *shape: SupportsIndex) -> Tensor:
        """Returns a view of all elements with another shape, as NumPy's reshape().

        One dimension may be -1: it has the elements that are left. Makes no copy:
        UnsupportedError if rows are padded and the shape joins them.

        >>> t = dlbuf.alloc((4, 6), "uint8")
        >>> t.reshape(2, -1, 3)
        <dlbuf.Tensor (2, 4, 3) uint8, cpu>
        """
    @overload
    def transpose(self, axes: Sequence[SupportsIndex] | None, /) -> Tensor: ...
    @overload
    def transpose(self, *axes: SupportsIndex) -> Tensor:
        """Returns a view with the dimensions in this order, as NumPy's
        transpose(): without axes, in the opposite order.

        >>> dlbuf.alloc((4, 6, 3), "uint8").transpose(2, 0, 1).shape
        (3, 4, 6)
        """
    @overload
    def permute(self, dims: Sequence[SupportsIndex], /) -> Tensor: ...
    @overload
    def permute(self, *dims: SupportsIndex) -> Tensor:
        """Returns a view with the dimensions in this order, as PyTorch's
        permute(): all are named.

        >>> dlbuf.alloc((4, 6, 3), "uint8").permute(2, 0, 1).shape
        (3, 4, 6)
        """
    def unsqueeze(self, dim: SupportsIndex, /) -> Tensor:
        """Returns a view with a new dimension of one element before dimension
        dim. A negative dim counts from the end: -1 adds the last dimension.

        >>> dlbuf.alloc((4, 6), "uint8").unsqueeze(0).shape
        (1, 4, 6)
        """
    def squeeze(
        self, dim: SupportsIndex | Sequence[SupportsIndex] | None = None
    ) -> Tensor:
        """Returns a view without dimension dim, which has one element.

        dim may be several, as a tuple; None means all dimensions of one element.
        InvalidError if dim has more.

        >>> dlbuf.alloc((1, 4, 1), "uint8").squeeze().shape
        (4,)
        """
    def numpy(self) -> Any:
        """A numpy.ndarray over the same memory: no copy, and writable unless the tensor
        is read-only.

        Waits for the fences of the dma-buf, as np.asarray() does; the access ends when
        the array is deleted. A tensor of another device than the CPU is mapped for the
        CPU, if it is of a dma-buf. bfloat16, float8 and others need the package
        ml_dtypes. BufferError (UnsupportedError) for memory that the CPU cannot reach. It
        reaches pinned memory of CUDA, ROCm and TPUs, and managed memory of CUDA, for which
        the call waits until CUDA's legacy default stream is done.
        TypeError for a dtype that neither NumPy nor ml_dtypes has.

        >>> t = dlbuf.alloc((2, 3), "uint8")
        >>> t.numpy()[1] = 7
        >>> t[1, 2].item()
        7
        """
    def torch(self) -> Any:
        """A torch.Tensor over the same memory: no copy.

        Waits for the fences of the dma-buf, or lets PyTorch's current CUDA stream wait;
        the access ends when PyTorch deletes it. UnsupportedError for devices that
        PyTorch does not have: t.to("cpu").torch() is a tensor of the same memory.
        It has no negative strides, either: UnsupportedError.

        torch.asarray(t) and torch.tensor(t) are no replacement: PyTorch does not ask for
        DLPack there. asarray() takes the buffer as bytes, and returns one dimension of
        float32 or of its argument dtype. torch.from_dlpack(t) is right.

        >>> dlbuf.alloc((2, 3), "uint8").torch()   # doctest: +SKIP
        tensor([[0, 0, 0],
                [0, 0, 0]], dtype=torch.uint8)
        """
    def copy(self) -> Tensor:
        """A new tensor with a copy of the elements, in plain memory of the CPU.

        It is compact and writable, and has no dma-buf, frame or lease: keep it as long
        as you like. Waits for the fences of the dma-buf.

        >>> t = dlbuf.alloc((4, 6), "uint8")[:, :3]
        >>> t.strides, t.copy().strides, t.copy().fd
        ((6, 1), (3, 1), None)
        """
    def contiguous(self) -> Tensor:
        """This tensor, if its rows have no gaps, its strides are positive and its first
        element is at a multiple of 64 bytes. Otherwise copy(), whose is_copied is True.

        For libraries that end the process on other tensors: PyTorch 2.6 and 2.12 on
        negative strides, TensorFlow on memory that is not aligned.

        >>> t = dlbuf.alloc((64, 64), "uint8")
        >>> t.contiguous() is t, t[::-1].contiguous().is_copied
        (True, True)
        """
    def to(self, device: Device | str, may_copy: bool = False) -> Tensor:
        """A tensor of the same dma-buf on another device: the same layout, access,
        frame and lease, and an access of its own. "cpu" also takes pinned memory
        of CUDA, ROCm and TPUs, and managed memory of CUDA.

        Nothing is copied, unless may_copy allows it and the device has no other way.
        device is a Device or a name. May block while the driver maps; does not wait for
        fences. UnsupportedError if the tensor is not of a dma-buf, or the device cannot
        import it.

        >>> dlbuf.alloc(16, "uint8", "cpu").to("cpu")
        <dlbuf.Tensor (16,) uint8, cpu>
        """
    def same_layout(self, other: Tensor, /) -> bool:
        """Whether shape, strides and dtype of two tensors are equal.

        >>> t = dlbuf.alloc((4, 6), "uint8")
        >>> t.same_layout(t.share()), t.same_layout(t.T)
        (True, False)
        """
    def item(self) -> Any:
        """The value of a tensor of one element, as a number of Python.

        Waits for the fences of the dma-buf. InvalidError if there are more elements.

        >>> dlbuf.alloc((4, 6), "uint8")[0, 0].item()
        0
        """
    def tobytes(self) -> bytes:
        """A copy of the elements of any dtype as bytes, in the order of the dimensions, without the
        padding of rows. Waits for the fences of the dma-buf.

        >>> dlbuf.alloc((2, 3), "uint8")[:, :2].tobytes()
        b'\\x00\\x00\\x00\\x00'
        """
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Raises for what NumPy cannot take: without it np.asarray() would make an
        array of one object."""
    def __reduce_ex__(self, protocol: Any) -> NoReturn: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __bool__(self) -> bool: ...
    def __index__(self) -> int:
        """The value of an integer tensor without dimensions."""
    def __bytes__(self) -> bytes:
        """tobytes()."""
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __hash__(self) -> int: ...
    def close(self) -> None:
        """Gives up the tensor's memory and lease now; a second call does
        nothing.

        Arrays of other libraries over this memory stay valid. An access that was
        not released ends. Raises Error with EBUSY while another thread uses the
        tensor.

        >>> t = dlbuf.alloc(4, "uint8")
        >>> t.close()
        >>> t
        <dlbuf.Tensor, closed>
        """
    def __enter__(self) -> Self:
        """Acquires the tensor, as acquire() without arguments does."""
    def __exit__(self, *args: object) -> None:
        """Releases the tensor, if it is still acquired."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """Returns a DLPack capsule, as the array API standard (2024.12) says.

        Unless the tensor is acquired, the call waits for the fences on the CPU,
        and stream waits on a GPU. The access ends when the consumer deletes the
        capsule's tensor. Raises BufferError if a wish cannot be fulfilled, and if
        DLPack max_version cannot express the tensor: None is older than 1.0, which has
        read_only, and than 1.1, which has padded elements of less than a byte.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns DLPack's (device type, device number) of the memory."""
    def __dlpack_info__(self) -> tuple[int, int]:
        """Returns the newest DLPack version that __dlpack__() can give."""

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

def from_fd(
    fd: int | _HasFileno,
    shape: Sequence[int] | int,
    dtype: Any,
    *,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    device: Device | str = "cpu",
    access: Access | int | str | None = None,
    may_copy: bool = False,
) -> Tensor:
    """Makes a tensor over the bytes of a dma-buf, without a copy.

    fd is duplicated; the caller may close it. shape and strides count elements,
    offset counts bytes; strides=None means compact rows. access: "read",
    "write" or "rw"; None is all that the fd was opened for. may_copy=True
    allows a copy where the device has no other way: acquire copies in, release
    of a writer copies back, and is_copied is set.

    Does not wait for fences. Blocks while the driver maps a dma-buf that the
    device has not imported before. Raises InvalidError for a layout outside the
    dma-buf, AccessError, Error with EBADF for an fd that is no dma-buf, and
    UnsupportedError where the device cannot import it.

    >>> t = dlbuf.alloc((4, 6), "uint8")
    >>> u = dlbuf.from_fd(t.fd, (2, 3), "uint8", strides=(12, 2), offset=1)
    >>> u.extent
    (1, 18)
    """

def exchange(x: object, type: builtins.type[_T], /) -> _T:
    """Converts x to another library's tensor class, without Python calls.

    Both classes have DLPack's C exchange API, as torch.Tensor and dlbuf.Tensor
    do. The result is over the same memory, in the order of the stream on which
    the other library works. On the CPU it blocks for the fences of the dma-buf,
    without the GIL. Raises UnsupportedError if a class has no exchange API, or one
    without a function that this call needs.

    >>> t = dlbuf.alloc(4, "uint8")
    >>> u = dlbuf.exchange(t, dlbuf.Tensor)     # or torch.Tensor
    >>> u.data == t.data
    True
    """

def version() -> str:
    """Returns the version of the library, e.g. "0.2.0".

    >>> dlbuf.version() == dlbuf.__version__
    True
    """

# For the package's own modules.
docs: tuple[str, ...]
def devices() -> list[DeviceInfo]: ...
def opened_by_name(device: Device, /) -> bool: ...
def find_code(code: int, modifier: int, space: int, /) -> tuple[int, int] | None: ...
def formats() -> list[FormatInfo]: ...
def format_names() -> list[tuple[str, int, int, int]]: ...
def exporters() -> list[tuple[str, str, int, str]]: ...
def import_frame(
    device: Device | str,
    frame: Frame,
    size: tuple[int, int, int, int, int],
    planes: tuple[tuple[int, int, int, int], ...],
    crop: tuple[int, int, int, int],
    view: int,
    access: Access | int | str | None,
    flags: int,
    fence: int | None,
    release: Callable[[], object] | None,
    /,
) -> list[Tensor]: ...
def check_frame(frame: tuple[Any, ...], /) -> None: ...
def acquire_all(
    tensors: tuple[Tensor, ...], access: Access | int | str | None,
    deadline: SupportsFloat | None, /,
) -> list[Tensor]: ...
@final
class Capture:
    def __new__(
        cls, node: str, flags: int, code: int, width: int, height: int,
        fps: float, buffers: int, newest: bool, device: Device | str = ...,
        access: Access | int | str | None = None, exporter: str | None = None, /,
    ) -> Self: ...
    @property
    def info(self) -> tuple[int, int, int, float, int, str, str, str]: ...
    @property
    def dropped(self) -> int: ...
    def fileno(self) -> int: ...
    def crop(self, x: int, y: int, width: int, height: int, view: int, /) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def held(self) -> int: ...
    def next(
        self,
        deadline: float | None,
        device: Device | str,
        view: int,
        access: Access | int | str | None,
        make_frame: Callable[..., Frame],
        /,
    ) -> tuple[list[Tensor], Frame] | None: ...
    def close(self, device: Device | str, /) -> None: ...

@final
class Plan:
    def __new__(
        cls, frame: tuple[Any, ...], opts: dict[str, Any],
        device: Device | str | None, /,
    ) -> Self: ...
    @property
    def info(self) -> tuple[Any, ...]: ...
    @property
    def device(self) -> Device | None: ...
    def new(self, n: int, /) -> Tensor: ...
    def run(
        self, planes: tuple[Tensor, ...], out: Tensor, index: int,
        deadline: SupportsFloat | None, crops: bytes | None, /,
    ) -> list[tuple[Any, ...]] | None: ...
    def tiles(
        self, width: int, height: int, overlap_x: int, overlap_y: int, /
    ) -> bytes: ...

def map_boxes(
    array: Buffer, boxes: bool, turned: int, x0: float, y0: float, x1: float, y1: float, /
) -> None: ...
def fastest(
    frame: tuple[Any, ...], tensors: tuple[Tensor, ...], opts: dict[str, Any],
    deadline: SupportsFloat | None, /
) -> tuple[Device, list[tuple[str, int, int, str]]]: ...
def send(
    wait: tuple[int, bool, float | None], tensors: tuple[Tensor, ...], /
) -> None: ...
def send_frame(
    wait: tuple[int, bool, float | None],
    tensors: tuple[Tensor, ...],
    frame: tuple[Any, ...],
    /,
) -> None: ...
def recv(
    wait: tuple[int, bool, float | None],
    device: Device | str,
    view: int,
    access: Access | int | str | None,
    flags: int,
    make_frame: Callable[..., Frame],
    /,
) -> tuple[list[Tensor], Frame | None]: ...
def alloc(
    devices: tuple[Device | str, ...],
    shape: Sequence[int] | int,
    dtype: Any,
    strides: Sequence[int] | None,
    exporter: str | None,
    name: str | None,
    v4l2: tuple[Any, ...],
    /,
) -> list[Tensor]: ...
def from_capsule(capsule: Any, /) -> Tensor: ...
def from_buffer(obj: Buffer, /) -> Tensor: ...
def from_memory(
    owner: object,
    address: int,
    shape: Sequence[int],
    dtype: Any,
    strides: Sequence[int] | None,
    read_only: bool,
    device: tuple[int, int] = ...,
    /,
) -> Tensor: ...
def view(
    tensor: Tensor, shape: Sequence[int], strides: Sequence[int], dtype: Any, /
) -> Tensor: ...
def to(tensor: Tensor, device: Device | str, may_copy: bool, /) -> Tensor: ...
def export(
    tensor: Tensor, device: Device | str, pcie: bool, /
) -> tuple[int, int, int]: ...
def cpu_reaches(device_type: int, /) -> bool: ...
def check_stream(device_type: int, stream: int | None, /) -> tuple[int, bool]: ...
def at_exit() -> None: ...
def after_fork() -> None: ...
