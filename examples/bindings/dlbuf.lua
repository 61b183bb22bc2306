-- SPDX-License-Identifier: MIT
--
-- libdlbuf for LuaJIT: of its headers what rows.lua calls. The names are those
-- of include/dlbuf, where each function is explained; the library's file is in
-- the environment variable DLBUF, or found by the loader.

local ffi = require("ffi")

ffi.cdef [[
typedef struct { uint32_t major, minor; } DLPackVersion;
typedef struct { int32_t device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
	void *data;
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape, *strides;
	uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensorVersioned {
	DLPackVersion version;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensorVersioned *self);
	uint64_t flags;
	DLTensor dl_tensor;
} DLManagedTensorVersioned;

struct dlbuf_import_opts { size_t size; uint32_t access, flags, view, paths; };
struct dlbuf_tensor_info {
	size_t size;
	struct dlbuf_device *device;
	int fd;
	int path;
	uint32_t access, acquired;
	uint64_t dev, ino, bytes, first, end;
};
struct dlbuf_plane { int fd; uint32_t reserved; uint64_t offset; int64_t pitch; uint64_t bytes; };
struct dlbuf_rect { uint32_t x, y, width, height; };
struct dlbuf_colour { uint8_t primaries, transfer, matrix, range, chroma_site, hue, reserved[2]; };
struct dlbuf_frame {
	size_t size;
	uint32_t width, height, code;
	int code_space;
	uint64_t modifier;
	uint32_t nplanes, flags;
	struct dlbuf_plane planes[4];
	struct dlbuf_rect crop;
	struct dlbuf_colour colour;
	int64_t timestamp_ns;
	uint64_t sequence;
	int clock, field, order, fence;
	void (*release)(void *release_data);
	void *release_data;
	void *lease;
	int orientation;
	uint32_t reserved;
	void *reserved2;
};

const char *dlbuf_last_error(void);
int dlbuf_device_open(const char *name, const void *opts, struct dlbuf_device **out);
void dlbuf_device_close(struct dlbuf_device *dev);
int dlbuf_alloc(struct dlbuf_device *const devs[], size_t ndevs, const DLTensor *layout, const void *opts,
		DLManagedTensorVersioned *tensors[]);
int dlbuf_import(struct dlbuf_device *dev, int fd, const DLTensor *layout, const struct dlbuf_import_opts *opts,
		 DLManagedTensorVersioned **tensor);
int dlbuf_import_frame(struct dlbuf_device *dev, const struct dlbuf_frame *frame,
		       const struct dlbuf_import_opts *opts, DLManagedTensorVersioned *tensors[4], uint32_t *ntensors);
int dlbuf_tensor_get_info(const DLManagedTensorVersioned *tensor, struct dlbuf_tensor_info *info);
int dlbuf_acquire(DLManagedTensorVersioned *tensor, uint32_t access, void *stream, const void *opts);
int dlbuf_release(DLManagedTensorVersioned *tensor, void *stream, int *fence);
]]

local M = { READ = 1, WRITE = 2, RW = 3, READ_ONLY = 1, DRM = 1, lib = ffi.load(os.getenv("DLBUF") or "libdlbuf.so.0.2") }

-- 0, or an error with the library's sentence. At once: it is this thread's last.
function M.check(ret)
	if ret < 0 then
		error(ffi.string(M.lib.dlbuf_last_error()), 2)
	end
	return ret
end

-- A tensor is ours until its deleter is called, which the collector does here.
function M.owned(tensor)
	return ffi.gc(tensor, function(t) t.deleter(t) end)
end

function M.delete(tensor)
	ffi.gc(tensor, nil)
	tensor.deleter(tensor)
end

-- The layout of an import: {3, 4}, strides in elements, offset in bytes. The
-- second result holds the numbers that the first one points to: keep both.
function M.layout(code, bits, shape, strides, offset)
	local n = #shape
	local dims = ffi.new("int64_t[?]", 2 * n)
	for i = 1, n do
		dims[i - 1] = shape[i]
		dims[n + i - 1] = strides[i]
	end
	return ffi.new("DLTensor", { ndim = n, dtype = { code, bits, 1 }, shape = dims, strides = dims + n,
		byte_offset = offset or 0 }), dims
end

return M
