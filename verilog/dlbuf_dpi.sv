// SPDX-License-Identifier: MIT
// dlbuf for Verilator, by DPI-C: compile it with dpi.c and sim.c. Use the macros of dlbuf.vh,
// which say where a call is. After a failure the simulation ends by $fatal with the file and
// line of the call and the library's sentence. See dlbuf-verilog(7).
/* verilator lint_off DECLFILENAME */
package dlbuf_pkg;
	typedef bit [1023:0] vector_t;

	import "DPI-C" function string dlbuf_dpi_error();
	import "DPI-C" function int dlbuf_dpi_attach(input string name);
	import "DPI-C" function int dlbuf_dpi_open(input string name, input int waits);
	import "DPI-C" function int dlbuf_dpi_acquire(input int h, input int access, input int waits);
	import "DPI-C" function int dlbuf_dpi_release(input int h);
	import "DPI-C" function int dlbuf_dpi_close(input int h);
	import "DPI-C" function int dlbuf_dpi_query(input int h, input int what, input longint dim,
		output longint value);
	import "DPI-C" function int dlbuf_dpi_get(input int h, input longint index,
		output longint value);
	import "DPI-C" function int dlbuf_dpi_put(input int h, input longint index,
		input longint value);
	import "DPI-C" function int dlbuf_dpi_read(input int h, input longint offset,
		input longint n, output vector_t data);
	import "DPI-C" function int dlbuf_dpi_write(input int h, input longint offset,
		input longint n, input vector_t data, input bit [127:0] strobe);
	import "DPI-C" function int dlbuf_dpi_load(input int h, input longint offset,
		inout bit [7:0] memory[], input longint first, input longint words);
	import "DPI-C" function int dlbuf_dpi_store(input int h, input longint offset,
		input bit [7:0] memory[], input longint first, input longint words);

	// SIM_FAILED of sim.h; -1 means "not yet".
	function automatic void check(int ret, string what, string file, int line);
		if (ret < -1)
			$fatal(1, "%s:%0d: %s: %s", file, line, what, dlbuf_dpi_error());
	endfunction

	function automatic void attach(string name, string file, int line);
		check(dlbuf_dpi_attach(name), "dlbuf_attach", file, line);
	endfunction

	function automatic int open(string name, int waits, string file, int line);
		int h = dlbuf_dpi_open(name, waits);
		check(h, "dlbuf_open", file, line);
		return h;
	endfunction

	function automatic void acquire(int h, int access, string file, int line);
		check(dlbuf_dpi_acquire(h, access, 1), "dlbuf_acquire", file, line);
	endfunction

	function automatic int try_acquire(int h, int access, string file, int line);
		int ret = dlbuf_dpi_acquire(h, access, 0);
		check(ret, "dlbuf_try_acquire", file, line);
		return ret;
	endfunction

	function automatic void release_(int h, string file, int line);
		check(dlbuf_dpi_release(h), "dlbuf_release", file, line);
	endfunction

	function automatic void close(int h, string file, int line);
		check(dlbuf_dpi_close(h), "dlbuf_close", file, line);
	endfunction

	function automatic longint query(int h, int what, longint dim, string file, int line);
		longint value;
		check(dlbuf_dpi_query(h, what, dim, value), "a query of dlbuf", file, line);
		return value;
	endfunction

	function automatic longint get(int h, longint index, string file, int line);
		longint value;
		check(dlbuf_dpi_get(h, index, value), "dlbuf_get", file, line);
		return value;
	endfunction

	function automatic void put(int h, longint index, longint value, string file, int line);
		check(dlbuf_dpi_put(h, index, value), "dlbuf_put", file, line);
	endfunction

	function automatic void read(int h, longint offset, longint n, output vector_t data,
		input string file, input int line);
		check(dlbuf_dpi_read(h, offset, n, data), "dlbuf_read", file, line);
	endfunction

	function automatic void write(int h, longint offset, longint n, vector_t data,
		bit [127:0] strobe, string file, int line);
		check(dlbuf_dpi_write(h, offset, n, data, strobe), "dlbuf_write", file, line);
	endfunction
endpackage
