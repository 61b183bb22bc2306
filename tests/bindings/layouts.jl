# SPDX-License-Identifier: MIT
# Sizes and offsets of Julia's structs, as C's list has them, into a file.

include("../../examples/bindings/dlbuf.jl")

open(ARGS[1], "w") do file
    for name in names(Dlbuf, all = true)
        t = getfield(Dlbuf, name)
        t isa DataType && isstructtype(t) && !(t <: Function) && !t.mutable || continue
        println(file, name, " ", sizeof(t))
        for (i, field) in enumerate(fieldnames(t))
            println(file, name, ".", field == :stop ? :end : field, " ", fieldoffset(t, i))
        end
    end
end
