// SPDX-License-Identifier: MIT
// One name for dlbuf's functions under all simulators. `DLBUF_open("in") is
// $dlbuf_open("in") of dlbuf.vpi under Icarus Verilog. Under Verilator it is a function of
// dlbuf_dpi.sv, which is compiled before the files that use it. See dlbuf-verilog(7).
`ifndef DLBUF_VH
`define DLBUF_VH

// The accesses of `DLBUF_acquire.
`define DLBUF_READ 32'd1
`define DLBUF_WRITE 32'd2
`define DLBUF_RW 32'd3

// The most bytes of one read or write of a vector.
`define DLBUF_MAX_BYTES 128

`ifdef VERILATOR
`define DLBUF_AT `__FILE__, `__LINE__
`define DLBUF_attach(name) dlbuf_pkg::attach(name, `DLBUF_AT)
`define DLBUF_open(name) dlbuf_pkg::open(name, 1, `DLBUF_AT)
`define DLBUF_try_open(name) dlbuf_pkg::open(name, 0, `DLBUF_AT)
`define DLBUF_acquire(h, access) dlbuf_pkg::acquire(h, access, `DLBUF_AT)
`define DLBUF_try_acquire(h, access) dlbuf_pkg::try_acquire(h, access, `DLBUF_AT)
`define DLBUF_release(h) dlbuf_pkg::release_(h, `DLBUF_AT)
`define DLBUF_close(h) dlbuf_pkg::close(h, `DLBUF_AT)
`define DLBUF_ndim(h) int'(dlbuf_pkg::query(h, 0, 0, `DLBUF_AT))
`define DLBUF_shape(h, dim) dlbuf_pkg::query(h, 1, dim, `DLBUF_AT)
`define DLBUF_stride(h, dim) dlbuf_pkg::query(h, 2, dim, `DLBUF_AT)
`define DLBUF_code(h) int'(dlbuf_pkg::query(h, 3, 0, `DLBUF_AT))
`define DLBUF_bits(h) int'(dlbuf_pkg::query(h, 4, 0, `DLBUF_AT))
`define DLBUF_lanes(h) int'(dlbuf_pkg::query(h, 5, 0, `DLBUF_AT))
`define DLBUF_bytes(h) dlbuf_pkg::query(h, 6, 0, `DLBUF_AT)
`define DLBUF_get(h, index) dlbuf_pkg::get(h, index, `DLBUF_AT)
`define DLBUF_put(h, index, value) dlbuf_pkg::put(h, index, value, `DLBUF_AT)
`define DLBUF_read(h, offset, n, vector) dlbuf_pkg::read(h, offset, n, vector, `DLBUF_AT)
`define DLBUF_write(h, offset, n, vector) \
	dlbuf_pkg::write(h, offset, n, vector, ~128'd0, `DLBUF_AT)
`define DLBUF_write_strobe(h, offset, n, vector, strobe) \
	dlbuf_pkg::write(h, offset, n, vector, strobe, `DLBUF_AT)
`define DLBUF_load(h, offset, memory, first, words) \
	dlbuf_pkg::check(dlbuf_pkg::dlbuf_dpi_load(h, offset, memory, first, words), \
		"dlbuf_load", `DLBUF_AT)
`define DLBUF_store(h, offset, memory, first, words) \
	dlbuf_pkg::check(dlbuf_pkg::dlbuf_dpi_store(h, offset, memory, first, words), \
		"dlbuf_store", `DLBUF_AT)
`else
`define DLBUF_attach(name) $dlbuf_attach(name)
`define DLBUF_open(name) $dlbuf_open(name)
`define DLBUF_try_open(name) $dlbuf_try_open(name)
`define DLBUF_acquire(h, access) $dlbuf_acquire(h, access)
`define DLBUF_try_acquire(h, access) $dlbuf_try_acquire(h, access)
`define DLBUF_release(h) $dlbuf_release(h)
`define DLBUF_close(h) $dlbuf_close(h)
`define DLBUF_ndim(h) $dlbuf_ndim(h)
`define DLBUF_shape(h, dim) $dlbuf_shape(h, dim)
`define DLBUF_stride(h, dim) $dlbuf_stride(h, dim)
`define DLBUF_code(h) $dlbuf_code(h)
`define DLBUF_bits(h) $dlbuf_bits(h)
`define DLBUF_lanes(h) $dlbuf_lanes(h)
`define DLBUF_bytes(h) $dlbuf_bytes(h)
`define DLBUF_get(h, index) $dlbuf_get(h, index)
`define DLBUF_put(h, index, value) $dlbuf_put(h, index, value)
`define DLBUF_read(h, offset, n, vector) $dlbuf_read(h, offset, n, vector)
`define DLBUF_write(h, offset, n, vector) $dlbuf_write(h, offset, n, vector)
`define DLBUF_write_strobe(h, offset, n, vector, strobe) \
	$dlbuf_write_strobe(h, offset, n, vector, strobe)
`define DLBUF_load(h, offset, memory, first, words) \
	$dlbuf_load(h, offset, memory, first, words)
`define DLBUF_store(h, offset, memory, first, words) \
	$dlbuf_store(h, offset, memory, first, words)
`endif

`endif
