// SPDX-License-Identifier: MIT
// dlbuf for Verilator, by DPI-C: compile it with dpi.c and sim.c. Use the macros of dlbuf.vh.
// After a failure the simulation ends like $fatal, with the file and line of the call and
// the library's error text: for file and line the functions are `context`. See dlbuf-verilog(7).
/* verilator lint_off DECLFILENAME */
package dlbuf_pkg;
	typedef bit [1023:0] vector_t;

	import "DPI-C" context function void dlbuf_dpi_attach(input string name);
	import "DPI-C" context function int dlbuf_dpi_open(input string name);
	import "DPI-C" context function int dlbuf_dpi_try_open(input string name);
	import "DPI-C" context function void dlbuf_dpi_acquire(input int h, input int access);
	import "DPI-C" context function int dlbuf_dpi_try_acquire(input int h, input int access);
	import "DPI-C" context function void dlbuf_dpi_release(input int h);
	import "DPI-C" context function void dlbuf_dpi_close(input int h);
	// `what` is enum sim_query of sim.h.
	import "DPI-C" context function longint dlbuf_dpi_query(input int h, input int what,
		input longint dim);
	import "DPI-C" context function longint dlbuf_dpi_get(input int h, input longint index);
	import "DPI-C" context function void dlbuf_dpi_put(input int h, input longint index,
		input longint value);
	// `bits` is the size of the caller's vector. Gives the first 8 bytes; all of them are
	// those of dlbuf_dpi_wide(), because no function of C returns a wide vector.
	import "DPI-C" context function longint dlbuf_dpi_read(input int h, input longint offset,
		input longint n, input int bits);
	import "DPI-C" function void dlbuf_dpi_wide(output vector_t data);
	import "DPI-C" context function int dlbuf_dpi_write64(input int h, input longint offset,
		input longint n, input int bits, input longint data, input int strobe);
	import "DPI-C" context function int dlbuf_dpi_write(input int h, input longint offset,
		input longint n, input int bits, input vector_t data, input bit [127:0] strobe);
	import "DPI-C" context function void dlbuf_dpi_load(input int h, input longint offset,
		inout bit [7:0] memory[], input longint first, input longint words);
	import "DPI-C" context function void dlbuf_dpi_store(input int h, input longint offset,
		input bit [7:0] memory[], input longint first, input longint words);

	/* verilator lint_off UNUSEDSIGNAL */
	function automatic vector_t wide(longint low);
		vector_t data;
		dlbuf_dpi_wide(data);
		return data;
	endfunction

	// For a statement of either of two functions.
	function automatic void done(int nothing);
	endfunction
	/* verilator lint_on UNUSEDSIGNAL */
endpackage
