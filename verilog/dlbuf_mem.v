// SPDX-License-Identifier: MIT
// A synchronous RAM whose words are the bytes of a tensor, padding between rows included:
// one port, a latency of one cycle, a write enable per byte, little-endian. A write leaves
// rdata as it is. Word 0 begins with the tensor's first byte. In the last word, bytes after
// the tensor read as 0.
//
// `tensor` is the handle of a tensor that the test bench has acquired. An access outside the
// tensor, or one that the tensor is not acquired for, ends the simulation.
`include "dlbuf.vh"
/* verilator lint_save */
/* verilator lint_off BLKSEQ */
/* verilator lint_off UNUSEDSIGNAL */

module dlbuf_mem #(
	parameter DATA_BITS = 64,	// a multiple of 8, up to 1024
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
	localparam BYTES = DATA_BITS / 8;

	reg signed [63:0] first, n;
	reg [8 * `DLBUF_MAX_BYTES - 1:0] line;
	reg [127:0] strobe;

	always @(posedge clk)
		if (en) begin
			first = 64'd0;
			first[ADDR_BITS - 1:0] = addr;
			first = first * BYTES;
			n = `DLBUF_bytes(tensor) - first;
			// Bytes after the tensor may not be written, and 1 is outside.
			if (n >= BYTES || n <= 0)
				n = BYTES;
			strobe = 128'd0;
			strobe[BYTES - 1:0] = we;
			if (|(strobe >> n))
				n = BYTES;
			line = {8 * `DLBUF_MAX_BYTES{1'b0}};
			line[DATA_BITS - 1:0] = wdata;
			if (|we) begin
				`DLBUF_write_strobe(tensor, first, n, line, strobe);
			end else begin
				`DLBUF_read(tensor, first, n, line);
				rdata <= line[DATA_BITS - 1:0];
			end
		end
endmodule
/* verilator lint_restore */
