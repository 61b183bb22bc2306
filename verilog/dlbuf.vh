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
// An argument has the bits that it is written with, as for Icarus Verilog: a cast to 64 bits
// would give them to each operand.
`define DLBUF_LONG_(number) longint'(($bits(number))'(number))
`define DLBUF_attach(name) dlbuf_pkg::dlbuf_dpi_attach(name)
`define DLBUF_open(name) dlbuf_pkg::dlbuf_dpi_open(name)
`define DLBUF_try_open(name) dlbuf_pkg::dlbuf_dpi_try_open(name)
`define DLBUF_acquire(h, access) dlbuf_pkg::dlbuf_dpi_acquire(int'(h), int'(access))
`define DLBUF_try_acquire(h, access) dlbuf_pkg::dlbuf_dpi_try_acquire(int'(h), int'(access))
`define DLBUF_release(h) dlbuf_pkg::dlbuf_dpi_release(int'(h))
`define DLBUF_close(h) dlbuf_pkg::dlbuf_dpi_close(int'(h))
`define DLBUF_ndim(h) int'(dlbuf_pkg::dlbuf_dpi_query(int'(h), 0, 0))
`define DLBUF_shape(h, dim) dlbuf_pkg::dlbuf_dpi_query(int'(h), 1, `DLBUF_LONG_(dim))
`define DLBUF_stride(h, dim) dlbuf_pkg::dlbuf_dpi_query(int'(h), 2, `DLBUF_LONG_(dim))
`define DLBUF_code(h) int'(dlbuf_pkg::dlbuf_dpi_query(int'(h), 3, 0))
`define DLBUF_bits(h) int'(dlbuf_pkg::dlbuf_dpi_query(int'(h), 4, 0))
`define DLBUF_lanes(h) int'(dlbuf_pkg::dlbuf_dpi_query(int'(h), 5, 0))
`define DLBUF_bytes(h) dlbuf_pkg::dlbuf_dpi_query(int'(h), 6, 0)
`define DLBUF_get(h, index) dlbuf_pkg::dlbuf_dpi_get(int'(h), `DLBUF_LONG_(index))
`define DLBUF_put(h, index, value) \
	dlbuf_pkg::dlbuf_dpi_put(int'(h), `DLBUF_LONG_(index), `DLBUF_LONG_(value))
// A vector of 64 bits or less does not pass by way of 1024.
`define DLBUF_read(h, offset, n, vector) \
	vector = $bits(vector) <= 64 ? \
		($bits(vector))'(`DLBUF_READ_(h, offset, n, vector)) : \
		($bits(vector))'(dlbuf_pkg::wide(`DLBUF_READ_(h, offset, n, vector)))
`define DLBUF_READ_(h, offset, n, vector) \
	dlbuf_pkg::dlbuf_dpi_read(int'(h), `DLBUF_LONG_(offset), `DLBUF_LONG_(n), $bits(vector))
`define DLBUF_write(h, offset, n, vector) \
	`DLBUF_write_strobe(h, offset, n, vector, ~128'd0)
`define DLBUF_write_strobe(h, offset, n, vector, strobe) \
	dlbuf_pkg::done($bits(vector) <= 64 ? \
		dlbuf_pkg::dlbuf_dpi_write64(int'(h), `DLBUF_LONG_(offset), `DLBUF_LONG_(n), \
			$bits(vector), 64'(vector), int'($unsigned(strobe))) : \
		dlbuf_pkg::dlbuf_dpi_write(int'(h), `DLBUF_LONG_(offset), `DLBUF_LONG_(n), \
			$bits(vector), 1024'(vector), 128'($unsigned(strobe))))
`define DLBUF_load(h, offset, memory, first, words) \
	dlbuf_pkg::dlbuf_dpi_load(int'(h), `DLBUF_LONG_(offset), memory, \
		`DLBUF_LONG_(first), `DLBUF_LONG_(words))
`define DLBUF_store(h, offset, memory, first, words) \
	dlbuf_pkg::dlbuf_dpi_store(int'(h), `DLBUF_LONG_(offset), memory, \
		`DLBUF_LONG_(first), `DLBUF_LONG_(words))
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
