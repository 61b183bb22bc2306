// SPDX-License-Identifier: MIT
// bench/vpi.c: ways for the bytes of a picture into a design, a word of 64 bits at a time.
// The name of the tensor that arrives is the way.
`include "dlbuf.vh"

module bench;
	localparam WORDS = `BYTES / 8;
	localparam BURST = 4096;

	integer h, fd, i, j, n;
	reg [63:0] sum, word;
	reg [63:0] mem [0:WORDS - 1];
	reg [63:0] line [0:BURST / 8 - 1];
	reg [511:0] beat;

	task finish;
		begin
			`DLBUF_put(h, 0, sum);
			`DLBUF_close(h);
		end
	endtask

	// Each way waits for its tensor, and leaves the xor of all words in it.
	task begin_way(input integer handle);
		begin
			h = handle;
			if (h == 0)
				$finish(0);
			`DLBUF_acquire(h, `DLBUF_RW);
			sum = 0;
		end
	endtask

	initial forever begin
		begin_way(`DLBUF_open("nothing"));
		finish;

		begin_way(`DLBUF_open("fread"));
		fd = $fopen(`BINARY, "rb");
		for (i = 0; i < WORDS; i = i + 1) begin
			n = $fread(word, fd);
			sum = sum ^ word;
		end
		$fclose(fd);
		finish;

		begin_way(`DLBUF_open("fread-all"));
		fd = $fopen(`BINARY, "rb");
		n = $fread(mem, fd);
		for (i = 0; i < WORDS; i = i + 1)
			sum = sum ^ mem[i];
		$fclose(fd);
		finish;

		begin_way(`DLBUF_open("readmemh"));
		$readmemh(`HEX, mem);
		for (i = 0; i < WORDS; i = i + 1)
			sum = sum ^ mem[i];
		finish;

		// What the loop itself costs.
		begin_way(`DLBUF_open("memory"));
		for (i = 0; i < WORDS; i = i + 1)
			sum = sum ^ mem[i];
		finish;

		begin_way(`DLBUF_open("fscanf"));
		fd = $fopen(`HEX, "r");
		for (i = 0; i < WORDS; i = i + 1) begin
			n = $fscanf(fd, "%h", word);
			sum = sum ^ word;
		end
		$fclose(fd);
		finish;

		begin_way(`DLBUF_open("read-8"));
		for (i = 0; i < WORDS; i = i + 1) begin
			`DLBUF_read(h, i * 8, 8, word);
			sum = sum ^ word;
		end
		finish;

		begin_way(`DLBUF_open("read-64"));
		for (i = 0; i < WORDS / 8; i = i + 1) begin
			`DLBUF_read(h, i * 64, 64, beat);
			for (j = 0; j < 8; j = j + 1)
				sum = sum ^ beat[64 * j +: 64];
		end
		finish;
`ifndef VERILATOR

		begin_way(`DLBUF_open("load-4096"));
		for (i = 0; i < `BYTES / BURST; i = i + 1) begin
			$dlbuf_load(h, i * BURST, line, 0, BURST / 8);
			for (j = 0; j < BURST / 8; j = j + 1)
				sum = sum ^ line[j];
		end
		finish;

		begin_way(`DLBUF_open("load-all"));
		$dlbuf_load(h, 0, mem, 0, WORDS);
		for (i = 0; i < WORDS; i = i + 1)
			sum = sum ^ mem[i];
		finish;
`endif
	end
endmodule
