// SPDX-License-Identifier: MIT
//! rows: a new dma-buf, written and read from Rust
//!
//!     rustc --edition 2021 -L DIR-OF-LIBDLBUF rows.rs
//!
//! Prints the same as rows.lua and rows.jl.

mod dlbuf;

use dlbuf::*;
use std::os::raw::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::mpsc;

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// shape, then strides, which the layout points to: the caller keeps them.
fn layout(dims: &mut [i64; 4], offset: u64) -> DLTensor {
    DLTensor {
        data: null_mut(),
        device: DLDevice { device_type: 0, device_id: 0 },
        ndim: 2,
        dtype: DLDataType { code: 1, bits: 16, lanes: 1 },
        shape: dims.as_mut_ptr(),
        strides: unsafe { dims.as_mut_ptr().add(2) },
        byte_offset: offset,
    }
}

/// A row of a tensor of 16-bit values whose columns lie side by side.
///
/// # Safety
/// Between dlbuf_acquire() and dlbuf_release() of the tensor only.
unsafe fn row(t: &mut Tensor, y: usize) -> &mut [u16] {
    let dl = &(*t.0).dl_tensor;
    let first = (dl.data as *mut u16).offset(y as isize * *dl.strides as isize);
    std::slice::from_raw_parts_mut(first, *dl.shape.add(1) as usize)
}

/// Three rows of four, each 16 bytes after the last; row y, column x is 10 y + x.
unsafe fn write(dev: *mut dlbuf_device) -> Result<Tensor, Error> {
    let mut out = null_mut();
    let mut dims = [3, 4, 8, 1];
    check(dlbuf_alloc(&dev, 1, &layout(&mut dims, 0), null(), &mut out))?;
    let mut t = Tensor(out);
    check(dlbuf_acquire(t.0, RW, null_mut(), null()))?;
    let mut rows = Vec::new();
    for y in 0..3 {
        let row = row(&mut t, y);
        for (x, value) in row.iter_mut().enumerate() {
            *value = (10 * y + x) as u16;
        }
        rows.push(words(row));
    }
    println!("written: {}", rows.join(" / "));
    check(dlbuf_release(t.0, null_mut(), null_mut()))?;
    Ok(t)
}

fn words(values: &[u16]) -> String {
    values.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")
}

/// The same dma-buf once more, by its fd: every other column, read-only.
unsafe fn read(dev: *mut dlbuf_device, fd: c_int) -> Result<(), Error> {
    let opts = dlbuf_import_opts {
        size: std::mem::size_of::<dlbuf_import_opts>(),
        access: READ,
        flags: 0,
        view: 0,
        paths: 0,
    };
    let mut out = null_mut();
    let mut dims = [3, 2, 8, 2];
    check(dlbuf_import(dev, fd, &layout(&mut dims, 2), &opts, &mut out))?;
    let t = Tensor(out);
    check(dlbuf_acquire(t.0, READ, null_mut(), null()))?;
    let dl = &(*t.0).dl_tensor;
    let at = |y: usize, x: usize| {
        let strides = std::slice::from_raw_parts(dl.strides, 2);
        *(dl.data as *const u16).offset(y as isize * strides[0] as isize + x as isize * strides[1] as isize)
    };
    let rows: Vec<_> = (0..3).map(|y| words(&[at(y, 0), at(y, 1)])).collect();
    println!("imported: {}", rows.join(" / "));
    println!("read-only: {}", if (*t.0).flags & READ_ONLY != 0 { "yes" } else { "no" });
    check(dlbuf_release(t.0, null_mut(), null_mut()))?;
    dims[0] = 300;
    if let Err(e) = check(dlbuf_import(dev, fd, &layout(&mut dims, 2), &opts, &mut out)) {
        println!("refused: {}", e);
    }
    Ok(())
}

/// On whatever thread the last access ends: it may be one of the library.
unsafe extern "C" fn released(sender: *mut c_void) {
    let sender = Box::from_raw(sender as *mut mpsc::Sender<()>);
    let _ = sender.send(());
}

/// A frame whose lease comes back.
unsafe fn lease(dev: *mut dlbuf_device, fd: c_int) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel::<()>();
    let sender = Box::into_raw(Box::new(sender));
    let mut frame: dlbuf_frame = std::mem::zeroed();
    frame.size = std::mem::size_of::<dlbuf_frame>();
    frame.width = 16;
    frame.height = 3;
    frame.code = u32::from_le_bytes(*b"R8  ");
    frame.code_space = DRM;
    frame.nplanes = 1;
    frame.planes[0].fd = fd;
    frame.planes[0].pitch = 16;
    frame.release = Some(released);
    frame.release_data = sender as *mut c_void;
    let mut out = [null_mut(); 4];
    let mut n = 0;
    let ret = check(dlbuf_import_frame(dev, &frame, null(), out.as_mut_ptr(), &mut n));
    if ret.is_err() {
        // Then nobody calls it.
        drop(Box::from_raw(sender));
        return ret;
    }
    drop(Tensor(out[0]));
    receiver.recv().unwrap();
    println!("the lease is back");
    Ok(())
}

unsafe fn run(dev: *mut dlbuf_device) -> Result<(), Error> {
    let t = write(dev)?;
    let mut info: dlbuf_tensor_info = std::mem::zeroed();
    info.size = std::mem::size_of::<dlbuf_tensor_info>();
    check(dlbuf_tensor_get_info(t.0, &mut info))?;
    read(dev, info.fd)?;
    lease(dev, info.fd)
}

fn main() -> Result<(), Error> {
    let before = open_fds();
    let mut dev = null_mut();
    unsafe {
        check(dlbuf_device_open(b"cpu\0".as_ptr() as *const _, null(), &mut dev))?;
        let ret = run(dev);
        dlbuf_device_close(dev);
        ret?;
    }
    println!("fds left open: {}", open_fds() - before);
    Ok(())
}
