// SPDX-License-Identifier: MIT
// Edges of a grey picture: |gx| + |gy| of Sobel's 3x3 filters, at most 255. It takes a pixel
// per cycle, row by row, and gives the edge of the pixel above and to the left of it, one
// cycle later. The first two rows, and the first two pixels of each row, give none.
module sobel #(
	parameter MAX_WIDTH = 4096
) (
	input wire clk,
	input wire reset,
	input wire [15:0] width,
	input wire in_valid,
	input wire [7:0] in_pixel,
	output reg out_valid,
	output reg [7:0] out_pixel
);
	// The two rows above, and the 3x3 window: a is the top row, left to right.
	reg [7:0] above [0:MAX_WIDTH - 1];
	reg [7:0] above2 [0:MAX_WIDTH - 1];
	reg [7:0] a0, a1, b0, b1, c0, c1;
	reg [15:0] x;
	reg [1:0] rows;		// that are complete, at most 2

	wire [7:0] a2 = above2[x[11:0]];
	wire [7:0] b2 = above[x[11:0]];
	wire [7:0] c2 = in_pixel;

	wire signed [10:0] gx = $signed({3'd0, a2}) + $signed({2'd0, b2, 1'd0}) + $signed({3'd0, c2})
		- $signed({3'd0, a0}) - $signed({2'd0, b0, 1'd0}) - $signed({3'd0, c0});
	wire signed [10:0] gy = $signed({3'd0, c0}) + $signed({2'd0, c1, 1'd0}) + $signed({3'd0, c2})
		- $signed({3'd0, a0}) - $signed({2'd0, a1, 1'd0}) - $signed({3'd0, a2});
	wire [10:0] sum = (gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy);

	always @(posedge clk)
		if (reset) begin
			x <= 16'd0;
			rows <= 2'd0;
			out_valid <= 1'b0;
		end else begin
			out_valid <= in_valid && rows == 2'd2 && x >= 16'd2;
			out_pixel <= sum > 11'd255 ? 8'd255 : sum[7:0];
			if (in_valid) begin
				above2[x[11:0]] <= b2;
				above[x[11:0]] <= c2;
				{a0, a1} <= {a1, a2};
				{b0, b1} <= {b1, b2};
				{c0, c1} <= {c1, c2};
				x <= x + 16'd1;
				if (x + 16'd1 == width) begin
					x <= 16'd0;
					if (rows != 2'd2)
						rows <= rows + 2'd1;
				end
			end
		end
endmodule
