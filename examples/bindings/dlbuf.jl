# SPDX-License-Identifier: MIT
#
# libdlbuf for Julia: of its headers what rows.jl calls. The names are those of
# include/dlbuf, where each function is explained; the library's file is in the
# environment variable DLBUF, or found by the loader.

module Dlbuf

export check, array, layout, Tensor

const lib = get(ENV, "DLBUF", "libdlbuf.so.0.2")

struct DLPackVersion
    major::UInt32
    minor::UInt32
end

struct DLDevice
    device_type::Int32
    device_id::Int32
end

struct DLDataType
    code::UInt8
    bits::UInt8
    lanes::UInt16
end

struct DLTensor
    data::Ptr{Cvoid}
    device::DLDevice
    ndim::Int32
    dtype::DLDataType
    shape::Ptr{Int64}
    strides::Ptr{Int64}
    byte_offset::UInt64
end

struct DLManagedTensorVersioned
    version::DLPackVersion
    manager_ctx::Ptr{Cvoid}
    deleter::Ptr{Cvoid}
    flags::UInt64
    dl_tensor::DLTensor
end

struct dlbuf_import_opts
    size::Csize_t
    access::UInt32
    flags::UInt32
    view::UInt32
    paths::UInt32
end

struct dlbuf_tensor_info
    size::Csize_t
    device::Ptr{Cvoid}
    fd::Cint
    path::Cint
    access::UInt32
    acquired::UInt32
    dev::UInt64
    ino::UInt64
    bytes::UInt64
    first::UInt64
    stop::UInt64      # "end" in C, which is a word of Julia's
end

struct dlbuf_plane
    fd::Cint
    reserved::UInt32
    offset::UInt64
    pitch::Int64
    bytes::UInt64
end

struct dlbuf_rect
    x::UInt32
    y::UInt32
    width::UInt32
    height::UInt32
end

struct dlbuf_colour
    primaries::UInt8
    transfer::UInt8
    matrix::UInt8
    range::UInt8
    chroma_site::UInt8
    hue::UInt8
    reserved::NTuple{2,UInt8}
end

struct dlbuf_frame
    size::Csize_t
    width::UInt32
    height::UInt32
    code::UInt32
    code_space::Cint
    modifier::UInt64
    nplanes::UInt32
    flags::UInt32
    planes::NTuple{4,dlbuf_plane}
    crop::dlbuf_rect
    colour::dlbuf_colour
    timestamp_ns::Int64
    sequence::UInt64
    clock::Cint
    field::Cint
    order::Cint
    fence::Cint
    release::Ptr{Cvoid}
    release_data::Ptr{Cvoid}
    lease::Ptr{Cvoid}
    orientation::Cint
    reserved::UInt32
    reserved2::Ptr{Cvoid}
end

const READ = UInt32(1)
const RW = UInt32(3)
const READ_ONLY = UInt64(1)
const DRM = Cint(1)

"0, or an error with the library's sentence. At once: it is this thread's last."
function check(ret::Cint)
    ret >= 0 || error(unsafe_string(ccall((:dlbuf_last_error, lib), Cstring, ())))
    return ret
end

"A tensor that is ours until it is closed, or collected."
mutable struct Tensor
    dl::Ptr{DLManagedTensorVersioned}
    Tensor(dl) = finalizer(close, new(dl))
end

function Base.close(t::Tensor)
    t.dl == C_NULL && return
    ccall(unsafe_load(t.dl).deleter, Cvoid, (Ptr{Cvoid},), t.dl)
    t.dl = C_NULL
    return
end

"""
The layout of an import of a column-major array: size and strides as Julia has
them, which DLPack wants in the opposite order. The second result is what the
first one points to: GC.@preserve it.
"""
function layout(::Type{T}, size::Dims{N}, strides::Dims{N}, offset = 0) where {T,N}
    code = T <: Unsigned ? 1 : T <: Signed ? 0 : 2
    dims = Int64[reverse(size)..., reverse(strides)...]
    return DLTensor(C_NULL, DLDevice(0, 0), N, DLDataType(code, 8 * sizeof(T), 1),
                    pointer(dims), pointer(dims, N + 1), offset), dims
end

"""
The tensor's memory as an array of T, dimensions reversed, without a copy: a
view of the compact array that its strides step through. Each stride has to be a
multiple of the one before. It is there as long as the tensor is, and to be used
between acquire and release.
"""
function array(::Type{T}, t::Tensor) where {T}
    dl = unsafe_load(t.dl).dl_tensor
    n = Int(dl.ndim)
    shape = reverse(ntuple(i -> unsafe_load(dl.shape, i), n))
    strides = reverse(ntuple(i -> unsafe_load(dl.strides, i), n))
    all(i -> strides[i+1] % strides[i] == 0 && strides[i] > 0, 1:n-1) ||
        error("strides $strides")
    whole = (strides[1], ntuple(i -> strides[i+1] ÷ strides[i], n - 1)..., shape[n])
    a = unsafe_wrap(Array, Ptr{T}(dl.data), whole)
    return view(a, 1, map(s -> 1:s, shape)...)
end

end
