// SPDX-License-Identifier: MIT
// The design of threshold.py: eight pixels a clock, each black or white.
module threshold(
	input wire clk,
	input wire [7:0] level,
	input wire [63:0] d,
	output reg [63:0] q
);
	integer i;

	always @(posedge clk)
		for (i = 0; i < 8; i = i + 1)
			q[8 * i +: 8] <= d[8 * i +: 8] >= level ? 8'hff : 8'h00;
endmodule
