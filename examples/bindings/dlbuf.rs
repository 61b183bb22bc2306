// SPDX-License-Identifier: MIT
//! libdlbuf for Rust, without a crate: of its headers what rows.rs calls. The
//! names are those of include/dlbuf, where each function is explained.
#![allow(dead_code, non_camel_case_types)]

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLPackVersion {
    pub major: u32,
    pub minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDevice {
    pub device_type: i32,
    pub device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
pub struct DLTensor {
    pub data: *mut c_void,
    pub device: DLDevice,
    pub ndim: i32,
    pub dtype: DLDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

#[repr(C)]
pub struct DLManagedTensorVersioned {
    pub version: DLPackVersion,
    pub manager_ctx: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    pub flags: u64,
    pub dl_tensor: DLTensor,
}

#[repr(C)]
pub struct dlbuf_import_opts {
    pub size: usize,
    pub access: u32,
    pub flags: u32,
    pub view: u32,
    pub paths: u32,
}

#[repr(C)]
pub struct dlbuf_tensor_info {
    pub size: usize,
    pub device: *mut dlbuf_device,
    pub fd: c_int,
    pub path: c_int,
    pub access: u32,
    pub acquired: u32,
    pub dev: u64,
    pub ino: u64,
    pub bytes: u64,
    pub first: u64,
    pub end: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct dlbuf_plane {
    pub fd: c_int,
    pub reserved: u32,
    pub offset: u64,
    pub pitch: i64,
    pub bytes: u64,
}

#[repr(C)]
pub struct dlbuf_rect {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

#[repr(C)]
pub struct dlbuf_colour {
    pub primaries: u8,
    pub transfer: u8,
    pub matrix: u8,
    pub range: u8,
    pub chroma_site: u8,
    pub hue: u8,
    pub reserved: [u8; 2],
}

#[repr(C)]
pub struct dlbuf_frame {
    pub size: usize,
    pub width: u32,
    pub height: u32,
    pub code: u32,
    pub code_space: c_int,
    pub modifier: u64,
    pub nplanes: u32,
    pub flags: u32,
    pub planes: [dlbuf_plane; 4],
    pub crop: dlbuf_rect,
    pub colour: dlbuf_colour,
    pub timestamp_ns: i64,
    pub sequence: u64,
    pub clock: c_int,
    pub field: c_int,
    pub order: c_int,
    pub fence: c_int,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    pub release_data: *mut c_void,
    pub lease: *mut c_void,
    pub orientation: c_int,
    pub reserved: u32,
    pub reserved2: *mut c_void,
}

pub enum dlbuf_device {}

pub const READ: u32 = 1;
pub const RW: u32 = 3;
pub const READ_ONLY: u64 = 1;
pub const DRM: c_int = 1;

#[link(name = "dlbuf")]
extern "C" {
    pub fn dlbuf_last_error() -> *const c_char;
    pub fn dlbuf_device_open(name: *const c_char, opts: *const c_void, out: *mut *mut dlbuf_device) -> c_int;
    pub fn dlbuf_device_close(dev: *mut dlbuf_device);
    pub fn dlbuf_alloc(
        devs: *const *mut dlbuf_device,
        ndevs: usize,
        layout: *const DLTensor,
        opts: *const c_void,
        tensors: *mut *mut DLManagedTensorVersioned,
    ) -> c_int;
    pub fn dlbuf_import(
        dev: *mut dlbuf_device,
        fd: c_int,
        layout: *const DLTensor,
        opts: *const dlbuf_import_opts,
        tensor: *mut *mut DLManagedTensorVersioned,
    ) -> c_int;
    pub fn dlbuf_import_frame(
        dev: *mut dlbuf_device,
        frame: *const dlbuf_frame,
        opts: *const dlbuf_import_opts,
        tensors: *mut *mut DLManagedTensorVersioned,
        ntensors: *mut u32,
    ) -> c_int;
    pub fn dlbuf_tensor_get_info(tensor: *const DLManagedTensorVersioned, info: *mut dlbuf_tensor_info) -> c_int;
    pub fn dlbuf_acquire(
        tensor: *mut DLManagedTensorVersioned,
        access: u32,
        stream: *mut c_void,
        opts: *const c_void,
    ) -> c_int;
    pub fn dlbuf_release(tensor: *mut DLManagedTensorVersioned, stream: *mut c_void, fence: *mut c_int) -> c_int;
}

/// A negative errno and the library's own sentence.
#[derive(Debug)]
pub struct Error(pub c_int, pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

/// At once: the sentence is that of this thread's last failure.
pub fn check(ret: c_int) -> Result<(), Error> {
    if ret >= 0 {
        return Ok(());
    }
    let text = unsafe { CStr::from_ptr(dlbuf_last_error()) };
    Err(Error(ret, text.to_string_lossy().into_owned()))
}

/// A tensor that is ours; the deleter takes it back. Deleters run on any
/// thread, and one tensor is used by one thread at a time.
pub struct Tensor(pub *mut DLManagedTensorVersioned);

unsafe impl Send for Tensor {}

impl Drop for Tensor {
    fn drop(&mut self) {
        unsafe {
            if let Some(deleter) = (*self.0).deleter {
                deleter(self.0)
            }
        }
    }
}
