// SPDX-License-Identifier: MIT
// A synchronous RAM whose words are the bytes of a tensor, padding between rows included:
// one port, a latency of one cycle, a write enable per byte, little-endian. A write leaves
// rdata as it is. Word 0 begins with the tensor's first byte. In the last word, bytes after
// the tensor read as 0.
//
// `tensor` is the handle of a tensor that the test bench has acquired. An access outside the
// tensor, or one that the tensor is not acquired for, ends the simulation. So does an x: in
// en, and with en in we, addr and the bytes of wdata that are written.
`include "dlbuf.vh"
/* verilator lint_save */
/* verilator lint_off BLKSEQ */
/* verilator lint_off UNUSEDSIGNAL */
/* verilator lint_off WIDTHCONCAT */

module dlbuf_mem #(
	parameter [31:0] DATA_BITS = 32'd64,	// a multiple of 8, up to 1024
	parameter ADDR_BITS = 32	// of the number of a word
) (
	input wire clk,
	input wire signed [31:0] tensor,
	input wire en,
	input wire [DATA_BITS / 8 - 1:0] we,
	input wire [ADDR_BITS - 1:0] addr,
	input wire [DATA_BITS - 1:0] wdata,
	output reg [DATA_BITS - 1:0] rdata
);
	// 64 bits wide, as all arithmetic here.
	localparam signed [63:0] BYTES = $signed({32'd0, DATA_BITS}) / 64'sd8;

	reg signed [63:0] first, n;
	reg [DATA_BITS - 1:0] line;

	always @(posedge clk)
		if (en !== 1'b0 && ^{en, we} === 1'bx) begin
			$display("%m: en or we is x or z");
			n = `DLBUF_bytes(32'bx);
		end else if (en) begin
			first = 64'd0;
			first[ADDR_BITS - 1:0] = addr;
			first = first * BYTES;
			n = `DLBUF_bytes(tensor) - first;
			// Bytes after the tensor may not be written, and 1 is outside.
			if (n >= BYTES || n <= 0)
				n = BYTES;
			if (|(we >> n))
				n = BYTES;
			if (|we)
				`DLBUF_write_strobe(tensor, first, n, wdata, we);
			else begin
				`DLBUF_read(tensor, first, n, line);
				rdata <= line;
			end
		end
endmodule
/* verilator lint_restore */
