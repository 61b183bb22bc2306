-- SPDX-License-Identifier: MIT
-- C's list on standard input; what LuaJIT makes of the structs that it knows.

package.path = "examples/bindings/?.lua;" .. package.path
local ffi = require("ffi")
require("dlbuf")

local known
for line in io.lines() do
	local name, member = line:match("^([%w_]+)%.?([%w_]*)")
	if member == "" then
		local ok, ct = pcall(ffi.typeof, name:match("^dlbuf_") and "struct " .. name or name)
		known = ok and pcall(ffi.sizeof, ct) and ffi.sizeof(ct) and ct
		if known then
			print(name .. " " .. ffi.sizeof(ct))
		end
	elseif known then
		print(name .. "." .. member .. " " .. (ffi.offsetof(known, member) or "missing"))
	end
end
