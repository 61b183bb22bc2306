// SPDX-License-Identifier: MIT
// An AXI4 slave (AMBA IHI 0022) whose memory is a tensor, padding between rows included.
// Address 0 is the tensor's first byte. It accepts one burst of reads and one of writes at a
// time; INCR, FIXED and WRAP, narrow and unaligned transfers, and strobes. A bus word that
// begins inside the tensor can be read whole; bytes after the tensor are 0.
//
// A burst that AXI forbids is answered with SLVERR, and nothing is written. If a beat is
// outside the tensor, it and the beats after it are answered with SLVERR, and are not
// written. A line on the standard output has the reason.
//
// `tensor` is the handle of a tensor that the test bench has acquired. An access that it is
// not acquired for ends the simulation. So does an x in a signal that is used at a clock edge: in
// aresetn, and without reset in a valid or a ready, with a valid in an address, a burst's
// kind, WLAST and WSTRB, and in bytes that are written.
`include "dlbuf.vh"
/* verilator lint_save */
/* verilator lint_off BLKSEQ */
/* verilator lint_off UNUSEDSIGNAL */
/* verilator lint_off WIDTHCONCAT */

module dlbuf_axi #(
	parameter [31:0] DATA_BITS = 32'd64,	// 8, 16, 32 .. 1024
	parameter ADDR_BITS = 32,	// up to 63
	parameter ID_BITS = 4
) (
	input wire aclk,
	input wire aresetn,
	input wire signed [31:0] tensor,

	input wire [ID_BITS - 1:0] awid,
	input wire [ADDR_BITS - 1:0] awaddr,
	input wire [7:0] awlen,
	input wire [2:0] awsize,
	input wire [1:0] awburst,
	input wire awvalid,
	output wire awready,

	input wire [DATA_BITS - 1:0] wdata,
	input wire [DATA_BITS / 8 - 1:0] wstrb,
	input wire wlast,
	input wire wvalid,
	output wire wready,

	output reg [ID_BITS - 1:0] bid,
	output reg [1:0] bresp,
	output reg bvalid,
	input wire bready,

	input wire [ID_BITS - 1:0] arid,
	input wire [ADDR_BITS - 1:0] araddr,
	input wire [7:0] arlen,
	input wire [2:0] arsize,
	input wire [1:0] arburst,
	input wire arvalid,
	output wire arready,

	output reg [ID_BITS - 1:0] rid,
	output reg [DATA_BITS - 1:0] rdata,
	output reg [1:0] rresp,
	output reg rlast,
	output reg rvalid,
	input wire rready
);
	// 64 bits wide, as all arithmetic here.
	localparam signed [63:0] BYTES = $signed({32'd0, DATA_BITS}) / 64'sd8;
	localparam [1:0] OKAY = 2'd0, SLVERR = 2'd2;
	localparam [1:0] FIXED = 2'd0, INCR = 2'd1, WRAP = 2'd2;

	// Whether AXI allows the burst. Its bytes are checked by each beat.
	function allowed(input [63:0] addr, input [7:0] len, input [2:0] size,
			 input [1:0] burst);
		reg [63:0] beat, last;
		begin
			beat = 64'd1 << size;
			last = (addr & ~(beat - 1)) + beat * {56'd0, len};
			allowed = 1'b0;
			if (beat > BYTES)
				$display("%m: a beat of %0d bytes is wider than the bus", beat);
			else if (burst == 2'd3)
				$display("%m: burst type 3 is reserved");
			else if (burst == FIXED && len > 15)
				$display("%m: a FIXED burst has %0d beats, 1 to 16 are allowed",
					 len + 9'd1);
			else if (burst == INCR && addr[63:12] != last[63:12])
				$display("%m: an INCR burst at 0x%0h crosses a border of 4 KiB", addr);
			else if (burst == WRAP && len != 1 && len != 3 && len != 7 && len != 15)
				$display("%m: a WRAP burst has %0d beats, 2, 4, 8 or 16 are allowed",
					 len + 9'd1);
			else if (burst == WRAP && (addr & (beat - 1)) != 0)
				$display("%m: a WRAP burst begins at 0x%0h, which is not aligned", addr);
			else
				allowed = 1'b1;
		end
	endfunction

	// The address of the next beat.
	function [63:0] after(input [63:0] addr, input [7:0] len, input [2:0] size,
			      input [1:0] burst);
		reg [63:0] beat, all;
		begin
			beat = 64'd1 << size;
			all = beat * ({56'd0, len} + 1);
			after = (addr & ~(beat - 1)) + beat;
			if (burst == FIXED)
				after = addr;
			else if (burst == WRAP && (after & (all - 1)) == 0)
				after = after - all;
		end
	endfunction

	// A bus word: its begin, and the number of its bytes in the tensor.
	function [63:0] word_of(input [63:0] addr);
		word_of = addr & ~(64'd0 + BYTES - 1);
	endfunction

	function signed [63:0] usable(input [63:0] addr);
		reg signed [63:0] left;
		begin
			left = `DLBUF_bytes(tensor) - $signed(word_of(addr));
			usable = left > BYTES ? BYTES : left;
		end
	endfunction

	// Lanes that a beat uses.
	function [BYTES - 1:0] lanes(input [63:0] addr, input [2:0] size);
		reg [63:0] beat, from, to;
		begin
			beat = 64'd1 << size;
			from = addr - word_of(addr);
			to = (addr & ~(beat - 1)) + beat - word_of(addr);
			lanes = ({BYTES{1'b1}} << from) & ~({BYTES{1'b1}} << to);
		end
	endfunction

	wire undefined = ^{awvalid, wvalid, bready, arvalid, rready} ^
		(awvalid & ^{awaddr, awlen, awsize, awburst}) ^ (wvalid & ^{wlast, wstrb}) ^
		(arvalid & ^{araddr, arlen, arsize, arburst});
	reg signed [63:0] none;

	always @(posedge aclk)
		if (aresetn !== 1'b0 && ^{aresetn, undefined} === 1'bx) begin
			$display("%m: a signal of the bus is x or z");
			none = `DLBUF_bytes(32'bx);
		end

	// ------------------------------------------------------------ writes

	reg writing, wok;
	reg [63:0] waddr;
	reg [7:0] wlen, wleft;
	reg [2:0] wsize;
	reg [1:0] wburst;
	reg signed [63:0] wbytes;

	assign awready = aresetn && !writing && !bvalid;
	assign wready = aresetn && writing;

	task write_beat;
		begin
			wbytes = usable(waddr);
			if (|(wstrb & ~lanes(waddr, wsize))) begin
				$display("%m: a strobe is outside the beat at 0x%0h", waddr);
				wok = 1'b0;
			end else if (wbytes <= 0 || |(wstrb >> wbytes)) begin
				$display("%m: a write at 0x%0h is outside the tensor", waddr);
				wok = 1'b0;
			end
			if (wlast !== (wleft == 0)) begin
				$display("%m: WLAST is %b with %0d beats left", wlast, wleft);
				wok = 1'b0;
			end
			if (wok)
				`DLBUF_write_strobe(tensor, $signed(word_of(waddr)), wbytes, wdata, wstrb);
		end
	endtask

	always @(posedge aclk)
		if (!aresetn) begin
			writing <= 1'b0;
			bvalid <= 1'b0;
		end else begin
			if (bvalid && bready)
				bvalid <= 1'b0;
			if (awvalid && awready) begin
				writing <= 1'b1;
				bid <= awid;
				waddr <= {{64 - ADDR_BITS{1'b0}}, awaddr};
				wlen <= awlen;
				wleft <= awlen;
				wsize <= awsize;
				wburst <= awburst;
				wok = allowed({{64 - ADDR_BITS{1'b0}}, awaddr}, awlen, awsize, awburst);
			end
			if (wvalid && wready) begin
				write_beat;
				waddr <= after(waddr, wlen, wsize, wburst);
				wleft <= wleft - 8'd1;
				if (wleft == 0) begin
					writing <= 1'b0;
					bvalid <= 1'b1;
					bresp <= wok ? OKAY : SLVERR;
				end
			end
		end

	// ------------------------------------------------------------ reads

	reg reading, rok;
	reg [63:0] raddr;
	reg [7:0] rlen, rleft;
	reg [2:0] rsize;
	reg [1:0] rburst;
	reg signed [63:0] rbytes;
	reg [DATA_BITS - 1:0] rline;

	assign arready = aresetn && !reading && !rvalid;

	task read_beat;
		begin
			rbytes = usable(raddr);
			rline = {DATA_BITS{1'b0}};
			if (rok && (rbytes <= 0 || $signed(raddr - word_of(raddr)) >= rbytes)) begin
				$display("%m: a read at 0x%0h is outside the tensor", raddr);
				rok = 1'b0;
			end
			if (rok)
				`DLBUF_read(tensor, $signed(word_of(raddr)), rbytes, rline);
			rdata <= rline;
			rresp <= rok ? OKAY : SLVERR;
		end
	endtask

	always @(posedge aclk)
		if (!aresetn) begin
			reading <= 1'b0;
			rvalid <= 1'b0;
		end else begin
			if (rvalid && rready)
				rvalid <= 1'b0;
			if (arvalid && arready) begin
				reading <= 1'b1;
				rid <= arid;
				raddr <= {{64 - ADDR_BITS{1'b0}}, araddr};
				rlen <= arlen;
				rleft <= arlen;
				rsize <= arsize;
				rburst <= arburst;
				rok = allowed({{64 - ADDR_BITS{1'b0}}, araddr}, arlen, arsize, arburst);
			end
			if (reading && (!rvalid || rready)) begin
				read_beat;
				rvalid <= 1'b1;
				rlast <= rleft == 0;
				raddr <= after(raddr, rlen, rsize, rburst);
				rleft <= rleft - 8'd1;
				if (rleft == 0)
					reading <= 1'b0;
			end
		end
endmodule
/* verilator lint_restore */
