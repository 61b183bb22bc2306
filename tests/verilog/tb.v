// SPDX-License-Identifier: MIT
// The test bench of tests/lab/vpi.c under each simulator: +mode=NAME. Signals change at the
// negative edge of the clock and are read there, before the positive edge at which they
// count.
/* verilator lint_off WIDTH */
/* verilator lint_off BLKSEQ */
/* verilator lint_off DECLFILENAME */
`include "dlbuf.vh"

// The memory models on a bus of BITS, compared with a model of theirs.
module bus #(parameter BITS = 32) (
	input wire clk,
	input wire go,
	input wire signed [31:0] dst,
	input wire [31:0] size,
	output reg done,
	output reg [31:0] errors
);
	localparam BYTES = BITS / 8;

	reg en;
	reg [BYTES - 1:0] we;
	reg [15:0] word;
	reg [BITS - 1:0] to_ram;
	wire [BITS - 1:0] from_ram;

	dlbuf_mem #(.DATA_BITS(BITS), .ADDR_BITS(16)) ram (
		.clk(clk), .tensor(dst), .en(en), .we(we), .addr(word), .wdata(to_ram),
		.rdata(from_ram));

	reg resetn;
	reg [31:0] awaddr, araddr;
	reg [7:0] awlen, arlen;
	reg [2:0] awsize, arsize;
	reg [1:0] awburst, arburst;
	reg awvalid, wvalid, wlast, bready, arvalid, rready;
	reg [BITS - 1:0] wdata;
	reg [BYTES - 1:0] wstrb;
	wire awready, wready, bvalid, arready, rvalid, rlast;
	wire [1:0] bresp, rresp;
	wire [BITS - 1:0] rdata;
	wire [3:0] bid, rid;

	dlbuf_axi #(.DATA_BITS(BITS)) axi (
		.aclk(clk), .aresetn(resetn), .tensor(dst),
		.awid(4'd5), .awaddr(awaddr), .awlen(awlen), .awsize(awsize),
		.awburst(awburst), .awvalid(awvalid), .awready(awready),
		.wdata(wdata), .wstrb(wstrb), .wlast(wlast), .wvalid(wvalid), .wready(wready),
		.bid(bid), .bresp(bresp), .bvalid(bvalid), .bready(bready),
		.arid(4'd9), .araddr(araddr), .arlen(arlen), .arsize(arsize),
		.arburst(arburst), .arvalid(arvalid), .arready(arready),
		.rid(rid), .rdata(rdata), .rresp(rresp), .rlast(rlast), .rvalid(rvalid),
		.rready(rready));

	// What the tensor has to be.
	reg [7:0] model [0:8191];
	integer i;

	task check(input integer where, input [63:0] is, input [63:0] wanted);
		if (is !== wanted) begin
			if (errors < 20)
				$display("check %0d: 0x%0h and not 0x%0h", where, is, wanted);
			errors = errors + 1;
		end
	endtask

	function [BITS - 1:0] random_word(input [7:0] mask);
		integer b;
		for (b = 0; b < BYTES; b = b + 1)
			random_word[8 * b +: 8] = $urandom & mask;
	endfunction

	function [BITS - 1:0] model_word(input integer at);
		integer b;
		for (b = 0; b < BYTES; b = b + 1)
			model_word[8 * b +: 8] = at + b < size ? model[at + b] : 8'd0;
	endfunction

	// Address of a beat, by the formulas of AXI's specification.
	function [31:0] beat_addr(input [31:0] start, input integer n, input integer len,
				  input [2:0] bsize, input [1:0] burst);
		reg [31:0] bytes, aligned, all, lower;
		begin
			bytes = 32'd1 << bsize;
			aligned = start - start % bytes;
			all = bytes * (len + 1);
			lower = start - start % all;
			beat_addr = burst == 0 ? start : n == 0 ? start :
				    burst == 1 ? aligned + n * bytes :
				    lower + (aligned - lower + n * bytes) % all;
		end
	endfunction

	reg [1:0] resp;

	task axi_write(input [31:0] at, input integer len, input [2:0] bsize,
		       input [1:0] burst, input legal, input integer seed);
		integer n, b;
		reg [31:0] a, bytes;
		begin
			bytes = 32'd1 << bsize;
			awaddr = at;
			awlen = len;
			awsize = bsize;
			awburst = burst;
			awvalid = 1;
			while (!awready)
				@(negedge clk);
			@(negedge clk);
			awvalid = 0;
			for (n = 0; n <= len; n = n + 1) begin
				a = beat_addr(at, n, len, bsize, burst);
				wvalid = 1;
				wlast = n == len;
				for (b = 0; b < BYTES; b = b + 1) begin
					wdata[8 * b +: 8] = seed + n * 16 + b;
					wstrb[b] = a / BYTES * BYTES + b >= a &&
						    a / BYTES * BYTES + b < a - a % bytes + bytes &&
						    (seed * 7 + b * 3 + n) % 5 != 0;
					if (legal && a / BYTES * BYTES + b >= a &&
					    a / BYTES * BYTES + b < a - a % bytes + bytes &&
					    (seed * 7 + b * 3 + n) % 5 != 0)
						model[a / BYTES * BYTES + b] = seed + n * 16 + b;
				end
				while (!wready)
					@(negedge clk);
				@(negedge clk);
				// A pause now and then.
				wvalid = 0;
				if ((seed + n) % 3 == 0)
					@(negedge clk);
			end
			bready = 1;
			while (!bvalid)
				@(negedge clk);
			resp = bresp;
			check(1, {60'd0, bid}, 5);
			@(negedge clk);
			bready = 0;
		end
	endtask

	task axi_read(input [31:0] at, input integer len, input [2:0] bsize,
		      input [1:0] burst, input legal, input integer seed);
		integer n, b;
		reg [31:0] a, bytes;
		begin
			bytes = 32'd1 << bsize;
			araddr = at;
			arlen = len;
			arsize = bsize;
			arburst = burst;
			arvalid = 1;
			while (!arready)
				@(negedge clk);
			@(negedge clk);
			arvalid = 0;
			for (n = 0; n <= len; n = n + 1) begin
				if ((seed + n) % 3 == 0) begin
					rready = 0;
					@(negedge clk);
				end
				rready = 1;
				while (!rvalid)
					@(negedge clk);
				a = beat_addr(at, n, len, bsize, burst);
				for (b = 0; b < BYTES; b = b + 1)
					if (legal && a / BYTES * BYTES + b >= a &&
					    a / BYTES * BYTES + b < a - a % bytes + bytes)
						check(1000 + a, {56'd0, rdata[8 * b +: 8]},
						      {56'd0, model[a / BYTES * BYTES + b]});
				resp = rresp;
				check(2, {63'd0, rlast}, {63'd0, n == len});
				check(3, {60'd0, rid}, 9);
				@(negedge clk);
			end
			rready = 0;
		end
	endtask

	task bad_burst(input [31:0] at, input integer len, input [2:0] bsize,
		       input [1:0] burst);
		begin
			axi_write(at, len, bsize, burst, 0, 1);
			check(10, {62'd0, resp}, 2);
			axi_read(at, len, bsize, burst, 0, 1);
			check(11, {62'd0, resp}, 2);
		end
	endtask

	task test_ram;
		integer b;
		begin
			for (i = 0; i * BYTES < size; i = i + 1) begin
				en = 1;
				we = 0;
				word = i;
				@(negedge clk);
				en = 0;
				@(negedge clk);
				check(20, {63'd0, from_ram === model_word(i * BYTES)}, 1);
			end
			for (i = 0; i * BYTES < size; i = i + 3) begin
				en = 1;
				we = random_word(8'hff);
				to_ram = random_word(8'hff);
				word = i;
				for (b = 0; b < BYTES; b = b + 1)
					if (i * BYTES + b >= size)
						we[b] = 0;
					else if (we[b])
						model[i * BYTES + b] = to_ram[8 * b +: 8];
				@(negedge clk);
				en = 0;
				@(negedge clk);
			end
		end
	endtask

	task test_axi;
		integer bsize, burst, len, at, n;
		begin
			for (n = 0; n < (BITS == 32 ? 100 : 12); n = n + 1) begin
				bsize = $urandom % ($clog2(BYTES) + 1);
				burst = $urandom % 3;
				len = burst == 2 ? (2 << $urandom % 4) - 1 : $urandom % 16;
				at = $urandom % (size - 17 * BYTES);
				if (burst == 2)
					at = at & ~((1 << bsize) - 1);
				if (burst == 1 && at / 4096 != (at + (len + 1) * BYTES) / 4096)
					at = at & ~4095;
				axi_write(at, len, bsize, burst, 1, n);
				check(30, {62'd0, resp}, 0);
				axi_read(at, len, bsize, burst, 1, n);
				check(31, {62'd0, resp}, 0);
				at = $urandom % (size - 17 * BYTES);
				axi_read(at & ~4095, 15, 2, 1, 1, n);
				check(32, {62'd0, resp}, 0);
			end
			if (BITS == 32)
				bad_burst(0, 0, 3, 1);		// wider than the bus
			bad_burst(0, 0, 2, 3);			// reserved
			bad_burst(0, 16, 2, 0);			// FIXED, 17 beats
			bad_burst(4092, 1, 2, 1);		// 4 KiB
			bad_burst(0, 2, 2, 2);			// WRAP, 3 beats
			bad_burst(2, 1, 2, 2);			// WRAP, not aligned
			bad_burst((size + 3) & ~3, 0, 2, 1);	// outside
			bad_burst(32'h7ffffffc, 0, 2, 1);
			// The last word is partly the tensor's.
			axi_read(size & ~3, 0, 0, 1, size % 4 != 0, 0);
			check(33, {62'd0, resp}, size % 4 != 0 ? 0 : 2);
			axi_write((size & ~3) + 3, 0, 0, 1, 0, 1);
			check(34, {62'd0, resp}, 2);
		end
	endtask

	initial begin
		errors = 0;
		done = 0;
		en = 0;
		resetn = 0;
		awvalid = 0;
		wvalid = 0;
		bready = 0;
		arvalid = 0;
		rready = 0;
		while (go !== 1)
			@(negedge clk);
		`DLBUF_load(dst, 0, model, 0, size);
		resetn = 1;
		@(negedge clk);
		test_ram;
		test_axi;
		`DLBUF_load(dst, 0, loaded, 0, size);
		for (i = 0; i < size; i = i + 1)
			check(40 + i, {56'd0, loaded[i]}, {56'd0, model[i]});
		done = 1;
	end

	// Bytes of C: under Verilator these are copied at once, others one by one.
	byte loaded [0:8191];
endmodule

module tb;
	reg [8 * 16 - 1:0] mode;
	integer number;
	integer src, dst, i, errors;

	reg clk;
	initial clk = 0;
	always #5 clk = ~clk;

	// ------------------------------------------------------------ the memory models

	reg [1:0] start;
	wire [1:0] done;
	wire [31:0] narrow_errors, wide_errors;
	integer size;

	bus #(.BITS(32)) narrow (.clk(clk), .go(start[0]), .dst(dst), .size(size),
		.done(done[0]), .errors(narrow_errors));
	bus #(.BITS(1024)) wide (.clk(clk), .go(start[1]), .dst(dst), .size(size),
		.done(done[1]), .errors(wide_errors));

	task test_mem;
		begin
			dst = `DLBUF_open("dst");
			`DLBUF_acquire(dst, `DLBUF_RW);
			size = `DLBUF_bytes(dst);
			start = 1;
			while (!done[0])
				@(negedge clk);
			start = 3;
			while (!done[1])
				@(negedge clk);
			errors = narrow_errors + wide_errors;
			test_strobes;
			`DLBUF_load(dst, size, loaded, 8192, 0);
			for (i = 0; i < size; i = i + 1)
				loaded[i] = i * 5 + 1;
			`DLBUF_store(dst, 0, loaded, 0, size);
			`DLBUF_release(dst);
			`DLBUF_close(dst);
		end
	endtask

	reg [7:0] loaded [0:8191];

	// A strobe has the bits that it is written with, and no sign.
`define STROBE(v, n, strobe, wanted) \
	vector = 0; \
	`DLBUF_write(dst, 0, 128, vector); \
	v = -1; \
	`DLBUF_write_strobe(dst, 0, n, v, strobe); \
	`DLBUF_read(dst, 0, 128, vector); \
	if (vector !== wanted) begin \
		errors = errors + 1; \
		$display("written, of %0d: 0x%0h", n, vector); \
	end

	reg [63:0] word;

	task test_strobes;
		begin
			i = -1;
			`STROBE(vector, 128, -1, 1024'd0 + {256{1'b1}})
			`STROBE(vector, 64, i, 1024'd0 + {256{1'b1}})
			`STROBE(vector, 128, '1, 1024'hff)
			`STROBE(vector, 8, 4'sb1000, 1024'hff000000)
			`STROBE(word, 8, 4'sb1000, 1024'hff000000)
			`STROBE(word, 8, '1, 1024'hff)
			`STROBE(word, 8, 128'h1_00000082, 1024'hff0000000000ff00)
			// So has an index: a sum of 32 bits has no carry.
			`DLBUF_put(dst, 32'hffffffff + 32'd1, 8'sh80);
			if (`DLBUF_get(dst, 0) != 128)
				errors = errors + 1;
		end
	endtask

	// ------------------------------------------------------------ elements

	// Copies elements in row-major order until the host closes.
	task test_elements;
		reg signed [63:0] n, e;
		begin
			src = `DLBUF_open("src");
			while (src != 0) begin
				dst = `DLBUF_open("dst");
				`DLBUF_acquire(src, `DLBUF_READ);
				`DLBUF_acquire(dst, `DLBUF_WRITE);
				n = 1;
				for (i = 0; i < `DLBUF_ndim(src); i = i + 1)
					n = n * `DLBUF_shape(src, i);
				$display("%0d %0d %0d %0d: %0d elements, %0d bytes", `DLBUF_ndim(src),
					 `DLBUF_code(src), `DLBUF_bits(src), `DLBUF_lanes(src), n,
					 `DLBUF_bytes(src));
				if (`DLBUF_ndim(src) > 0)
					$display("stride %0d", `DLBUF_stride(src, 0));
				for (e = 0; e < n; e = e + 1)
					`DLBUF_put(dst, e, `DLBUF_get(src, e));
				`DLBUF_close(src);
				`DLBUF_close(dst);
				src = `DLBUF_open("src");
			end
		end
	endtask

	// ------------------------------------------------------------ failures

	reg [1023:0] vector;
	reg [15:0] short;

	task test_failure;
		begin
			if (number != 1 && number != 2 && number != 19)
				src = `DLBUF_open("src");
			case (number)
			1: src = `DLBUF_ndim(77);
			2: `DLBUF_close(0);
			3: `DLBUF_read(src, 0, 4, vector);
			4: `DLBUF_acquire(src, `DLBUF_RW);
			5: `DLBUF_acquire(src, 0);
			6: `DLBUF_release(src);
			7: src = `DLBUF_shape(src, 2);
			8: begin `DLBUF_acquire(src, `DLBUF_READ); `DLBUF_read(src, 4096, 1, vector); end
			9: begin `DLBUF_acquire(src, `DLBUF_READ); `DLBUF_read(src, -1, 1, vector); end
			10: begin `DLBUF_acquire(src, `DLBUF_READ); `DLBUF_read(src, 0, 200, vector); end
			11: begin `DLBUF_acquire(src, `DLBUF_READ); `DLBUF_write(src, 0, 1, vector); end
			12: begin `DLBUF_acquire(src, `DLBUF_READ); src = `DLBUF_get(src, 4096); end
			13: begin `DLBUF_acquire(src, `DLBUF_READ); `DLBUF_release(src); `DLBUF_acquire(src, `DLBUF_READ); end
			14: begin `DLBUF_acquire(src, `DLBUF_READ); `DLBUF_load(src, 0, loaded, 8000, 1000); end
			15: `DLBUF_attach("a");
			16: begin `DLBUF_acquire(src, `DLBUF_RW); `DLBUF_put(src, 0, 256); end
			17: begin `DLBUF_acquire(src, `DLBUF_RW); `DLBUF_write(src, 0, 8, short); end
			18: begin `DLBUF_acquire(src, `DLBUF_READ); `DLBUF_read(src, 0, 8, short); end
			19: src = `DLBUF_open("a name");
			20: begin dst = src; `DLBUF_acquire(src, `DLBUF_RW); $display("passed"); $finish; end
			21: $fatal;
`ifndef VERILATOR
			// What only Icarus Verilog knows of: x.
			22, 23, 24, 25, 26, 30: begin
				dst = src;
				`DLBUF_acquire(src, `DLBUF_RW);
				size = 64;
				start = 1;
				repeat (4)
					@(negedge clk);
				case (number)
				22: force narrow.en = 1'bx;
				23: begin force narrow.we = 4'b0x00; force narrow.en = 1; end
				24: begin force narrow.word = 16'hx; force narrow.en = 1; end
				25: force narrow.wvalid = 1'bx;
				30: force narrow.resetn = 1'bx;
				default: begin force narrow.awvalid = 1; force narrow.awlen = 8'bx; end
				endcase
				@(negedge clk);
				@(negedge clk);
			end
			27: begin
				`DLBUF_acquire(src, `DLBUF_RW);
				vector = 0;
				`DLBUF_write_strobe(src, 0, 128, vector, {27'd1, 1'bx, 100'd1});
			end
			28: begin
				`DLBUF_acquire(src, `DLBUF_RW);
				for (i = 0; i < 8; i = i + 1)
					loaded[i] = i == 5 ? 8'hx : 8'h1;
				`DLBUF_store(src, 0, loaded, 0, 8);
			end
			29: src = `DLBUF_shape(src, 72'h100000000000000000);
`endif
			default: ;
			endcase
			$display("the failure did not end the simulation");
		end
	endtask

	// ------------------------------------------------------------ waiting

	// Simulated time goes on while there is nothing.
	task test_try;
		begin
			$display("begun");
			$fflush;
			src = `DLBUF_try_open("src");
			while (src == -1) begin
				@(negedge clk);
				src = `DLBUF_try_open("src");
			end
			$display("opened");
			$fflush;
			i = 0;
			while (`DLBUF_try_acquire(src, `DLBUF_READ) == 0) begin
				i = i + 1;
				if (i == 10) begin
					$display("not yet");
					$fflush;
				end
				@(negedge clk);
			end
			$display("acquired %0d", `DLBUF_get(src, 0));
			$fflush;
			`DLBUF_close(src);
			while (`DLBUF_try_open("src") != 0)
				@(negedge clk);
		end
	endtask

	initial begin
		errors = 0;
		src = 0;
		dst = 0;
		start = 0;
		number = 0;
		if (!$value$plusargs("mode=%s", mode))
			mode = "";
		if ($value$plusargs("number=%d", number))
			$display("number %0d", number);
		case (mode)
		"mem": test_mem;
		"elements": test_elements;
		"failure": test_failure;
		"try": test_try;
		// Program after program: what each has sent as "b".
		"next": begin
			$display("a: %0d", `DLBUF_open("a"));
			$fflush;
			src = `DLBUF_open("b");
			`DLBUF_acquire(src, `DLBUF_READ);
			$display("b: %0d", `DLBUF_get(src, 0));
			`DLBUF_close(src);
		end
		// The device is closed while it holds a tensor.
		"held": begin
			src = `DLBUF_open("src");
			`DLBUF_acquire(src, `DLBUF_READ);
			$display("has it");
			$fflush;
			while (`DLBUF_try_open("another") != 0)
				@(negedge clk);
			`DLBUF_close(src);
		end
		"example": begin
			src = `DLBUF_open("in");
			`DLBUF_acquire(src, `DLBUF_READ);
			$display("in: %0d", `DLBUF_get(src, 0));
			`DLBUF_close(src);
		end
		"hang": begin
			src = `DLBUF_open("src");
			`DLBUF_acquire(src, `DLBUF_READ);
			$display("has it");
			$fflush;
			src = `DLBUF_open("another");
		end
		default: $display("no mode");
		endcase
		if (errors == 0)
			$display("passed");
		$finish;
	end
endmodule
