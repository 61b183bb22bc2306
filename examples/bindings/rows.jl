# SPDX-License-Identifier: MIT
#
# rows: a new dma-buf, written and read from Julia
#
#	julia rows.jl
#
# Prints the same as rows.lua and rows.rs. Julia's arrays are column-major: what
# is [row, column] to others is A[column, row] here, over the same bytes.

include("dlbuf.jl")
using .Dlbuf
using .Dlbuf: lib, READ, RW, READ_ONLY, DRM, DLManagedTensorVersioned, DLTensor,
    dlbuf_import_opts, dlbuf_tensor_info, dlbuf_plane, dlbuf_rect, dlbuf_colour,
    dlbuf_frame

open_fds() = length(readdir("/proc/self/fd"))

acquire(t, access) = check(ccall((:dlbuf_acquire, lib), Cint,
    (Ptr{Cvoid}, UInt32, Ptr{Cvoid}, Ptr{Cvoid}), t.dl, access, C_NULL, C_NULL))
release(t) = check(ccall((:dlbuf_release, lib), Cint,
    (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}), t.dl, C_NULL, C_NULL))

show_rows(what, a) = println(what, ": ", join((join(Int.(row), " ") for row in eachcol(a)), " / "))

"Three rows of four, each 16 bytes after the last; row y, column x is 10 y + x."
function write_rows(dev)
    l, dims = layout(UInt16, (4, 3), (1, 8))
    out = Ref{Ptr{DLManagedTensorVersioned}}()
    GC.@preserve dims check(ccall((:dlbuf_alloc, lib), Cint,
        (Ref{Ptr{Cvoid}}, Csize_t, Ref{DLTensor}, Ptr{Cvoid}, Ref{Ptr{DLManagedTensorVersioned}}),
        dev, 1, l, C_NULL, out))
    t = Tensor(out[])
    acquire(t, RW)
    a = array(UInt16, t)
    for y in 0:2, x in 0:3
        a[x+1, y+1] = 10y + x
    end
    show_rows("written", a)
    release(t)
    return t
end

function import_fd(dev, fd, size, strides, offset)
    l, dims = layout(UInt16, size, strides, offset)
    opts = dlbuf_import_opts(sizeof(dlbuf_import_opts), READ, 0, 0, 0)
    out = Ref{Ptr{DLManagedTensorVersioned}}()
    GC.@preserve dims check(ccall((:dlbuf_import, lib), Cint,
        (Ptr{Cvoid}, Cint, Ref{DLTensor}, Ref{dlbuf_import_opts}, Ref{Ptr{DLManagedTensorVersioned}}),
        dev[], fd, l, opts, out))
    return Tensor(out[])
end

"The same dma-buf once more, by its fd: every other column, read-only."
function read_rows(dev, fd)
    t = import_fd(dev, fd, (2, 3), (2, 8), 2)
    acquire(t, READ)
    show_rows("imported", array(UInt16, t))
    println("read-only: ", unsafe_load(t.dl).flags & READ_ONLY != 0 ? "yes" : "no")
    release(t)
    close(t)
    try
        import_fd(dev, fd, (2, 300), (2, 8), 2)
    catch e
        println("refused: ", e.msg)
    end
end

"""
A frame whose lease comes back. A lease may fire on the library's thread, and
Julia before 1.9 runs nothing on threads that are not its own: close() of a
pipe's end takes its place, and the other end reports it.
"""
function lease(dev, fd)
    ends = zeros(Cint, 2)
    @assert ccall(:pipe2, Cint, (Ptr{Cint}, Cint), ends, 0x80000) == 0    # O_CLOEXEC
    none = dlbuf_plane(-1, 0, 0, 0, 0)
    frame = dlbuf_frame(sizeof(dlbuf_frame), 16, 3, 0x20203852, DRM, 0, 1, 0,    # "R8  "
        (dlbuf_plane(fd, 0, 0, 16, 0), none, none, none), dlbuf_rect(0, 0, 0, 0),
        dlbuf_colour(0, 0, 0, 0, 0, 0, (0, 0)), 0, 0, 0, 0, 0, -1,
        cglobal(:close), Ptr{Cvoid}(UInt(ends[2])), C_NULL, 0, 0, C_NULL)
    out = fill(Ptr{DLManagedTensorVersioned}(0), 4)
    check(ccall((:dlbuf_import_frame, lib), Cint,
        (Ptr{Cvoid}, Ref{dlbuf_frame}, Ptr{Cvoid}, Ptr{Ptr{DLManagedTensorVersioned}}, Ref{UInt32}),
        dev[], frame, C_NULL, out, Ref{UInt32}(0)))
    close(Tensor(out[1]))
    @assert ccall(:read, Cssize_t, (Cint, Ptr{UInt8}, Csize_t), ends[1], zeros(UInt8, 1), 1) == 0
    println("the lease is back")
    ccall(:close, Cint, (Cint,), ends[1])
end

function main()
    before = open_fds()
    dev = Ref{Ptr{Cvoid}}()
    check(ccall((:dlbuf_device_open, lib), Cint, (Cstring, Ptr{Cvoid}, Ref{Ptr{Cvoid}}), "cpu", C_NULL, dev))
    t = write_rows(dev)
    info = Ref(dlbuf_tensor_info(sizeof(dlbuf_tensor_info), ntuple(_ -> 0, 10)...))
    check(ccall((:dlbuf_tensor_get_info, lib), Cint, (Ptr{Cvoid}, Ref{dlbuf_tensor_info}), t.dl, info))
    read_rows(dev, info[].fd)
    lease(dev, info[].fd)
    close(t)
    ccall((:dlbuf_device_close, lib), Cvoid, (Ptr{Cvoid},), dev[])
    println("fds left open: ", open_fds() - before)
end

main()
