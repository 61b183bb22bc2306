// SPDX-License-Identifier: MIT
// Sends each picture "in" through the core, and writes the edges to "edges". The border has
// no edges.
/* verilator lint_off WIDTH */
`include "dlbuf.vh"

module sobel_tb;
	reg clk, reset, in_valid;
	reg [7:0] in_pixel;
	wire out_valid;
	wire [7:0] out_pixel;
	integer in, edges, x, y, width, height;

	sobel core (
		.clk(clk), .reset(reset), .width(width[15:0]), .in_valid(in_valid),
		.in_pixel(in_pixel), .out_valid(out_valid), .out_pixel(out_pixel));

	task cycle;
		begin
			#5 clk = 1;
			#5 clk = 0;
		end
	endtask

	initial begin
		clk = 0;
		in_valid = 0;
		in_pixel = 0;
		width = 0;
		in = `DLBUF_open("in");
		while (in != 0) begin
			edges = `DLBUF_open("edges");
			`DLBUF_acquire(in, `DLBUF_READ);
			`DLBUF_acquire(edges, `DLBUF_WRITE);
			height = `DLBUF_shape(in, 0);
			width = `DLBUF_shape(in, 1);
			reset = 1;
			cycle;
			reset = 0;
			for (y = 0; y < height; y = y + 1)
				for (x = 0; x < width; x = x + 1) begin
					in_valid = 1;
					in_pixel = `DLBUF_get(in, y * width + x);
					cycle;
					if (out_valid)
						`DLBUF_put(edges, (y - 1) * width + x - 1, out_pixel);
					if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
						`DLBUF_put(edges, y * width + x, 0);
				end
			in_valid = 0;
			`DLBUF_close(in);
			`DLBUF_close(edges);
			$display("%0d x %0d pixels at %0t", width, height, $time);
			in = `DLBUF_open("in");
		end
		$finish;
	end
endmodule
