-- SPDX-License-Identifier: MIT
--
-- rows: a new dma-buf, written and read from LuaJIT
--
--	luajit rows.lua
--
-- Prints the same as rows.rs and rows.jl.

package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua;" .. package.path
local ffi = require("ffi")
local dlbuf = require("dlbuf")
local lib, check = dlbuf.lib, dlbuf.check
ffi.cdef [[
int fcntl(int fd, int cmd, ...);
int pipe2(int fds[2], int flags);
long read(int fd, void *to, size_t n);
int close(int fd);
]]

local function open_fds()
	local n = 0
	for fd = 0, 1023 do
		n = n + (ffi.C.fcntl(fd, 1) ~= -1 and 1 or 0)
	end
	return n
end

local function show(what, tensor)
	local dl, rows = tensor.dl_tensor, {}
	local data = ffi.cast("uint16_t *", dl.data)
	for y = 0, tonumber(dl.shape[0]) - 1 do
		local row = {}
		for x = 0, tonumber(dl.shape[1]) - 1 do
			row[x + 1] = data[y * dl.strides[0] + x * dl.strides[1]]
		end
		rows[y + 1] = table.concat(row, " ")
	end
	print(what .. ": " .. table.concat(rows, " / "))
end

-- Three rows of four, each 16 bytes after the last; row y, column x is 10 y + x.
local function write(dev)
	local layout, dims = dlbuf.layout(1, 16, { 3, 4 }, { 8, 1 })
	local out = ffi.new("DLManagedTensorVersioned *[1]")
	check(lib.dlbuf_alloc(ffi.new("struct dlbuf_device *[1]", dev), 1, layout, nil, out))
	local t = dlbuf.owned(out[0])
	check(lib.dlbuf_acquire(t, dlbuf.RW, nil, nil))
	for y = 0, 2 do
		local row = ffi.cast("uint16_t *", t.dl_tensor.data) + y * t.dl_tensor.strides[0]
		for x = 0, 3 do
			row[x] = 10 * y + x
		end
	end
	show("written", t)
	check(lib.dlbuf_release(t, nil, nil))
	return t
end

-- The same dma-buf once more, by its fd: every other column, read-only.
local function read(dev, fd)
	local layout, dims = dlbuf.layout(1, 16, { 3, 2 }, { 8, 2 }, 2)
	local opts = ffi.new("struct dlbuf_import_opts", { ffi.sizeof("struct dlbuf_import_opts"), dlbuf.READ })
	local out = ffi.new("DLManagedTensorVersioned *[1]")
	check(lib.dlbuf_import(dev, fd, layout, opts, out))
	local t = dlbuf.owned(out[0])
	check(lib.dlbuf_acquire(t, dlbuf.READ, nil, nil))
	show("imported", t)
	print("read-only: " .. (t.flags % 2 == dlbuf.READ_ONLY and "yes" or "no"))
	check(lib.dlbuf_release(t, nil, nil))
	dlbuf.delete(t)
	layout.shape[0] = 300
	print("refused: " .. select(2, pcall(check, lib.dlbuf_import(dev, fd, layout, opts, out))):gsub("^[^ ]*: ", ""))
end

-- A frame whose lease comes back. LuaJIT runs no callback on a thread that is
-- not its own, and a lease may fire on the library's: close() of a pipe's end
-- takes its place, and the other end reports it.
local function lease(dev, fd)
	local ends = ffi.new("int[2]")
	assert(ffi.C.pipe2(ends, 0x80000) == 0)		-- O_CLOEXEC
	local frame = ffi.new("struct dlbuf_frame", { size = ffi.sizeof("struct dlbuf_frame"), width = 16, height = 3,
		code = 0x20203852, code_space = dlbuf.DRM, nplanes = 1 })	-- "R8  "
	frame.planes[0].fd = fd
	frame.planes[0].pitch = 16
	frame.release = ffi.cast("void (*)(void *)", ffi.C.close)
	frame.release_data = ffi.cast("void *", ffi.cast("intptr_t", ends[1]))
	local out, n = ffi.new("DLManagedTensorVersioned *[4]"), ffi.new("uint32_t[1]")
	check(lib.dlbuf_import_frame(dev, frame, nil, out, n))
	out[0].deleter(out[0])
	assert(ffi.C.read(ends[0], ffi.new("char[1]"), 1) == 0)
	print("the lease is back")
	ffi.C.close(ends[0])
end

local before = open_fds()
local out = ffi.new("struct dlbuf_device *[1]")
check(lib.dlbuf_device_open("cpu", nil, out))
local dev = out[0]
local t = write(dev)
local info = ffi.new("struct dlbuf_tensor_info", { size = ffi.sizeof("struct dlbuf_tensor_info") })
check(lib.dlbuf_tensor_get_info(t, info))
read(dev, info.fd)
lease(dev, info.fd)
dlbuf.delete(t)
lib.dlbuf_device_close(dev)
print("fds left open: " .. open_fds() - before)
