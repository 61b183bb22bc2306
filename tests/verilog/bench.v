// SPDX-License-Identifier: MIT
// The device of the conformance suite: copies bytes from the tensor "read" to the tensor
// "data", or from "data" to "write". See tests/cts/access/vpi.c.
`include "dlbuf.vh"

module bench;
	localparam CHUNK = `DLBUF_MAX_BYTES;

	integer data, job;
	reg writes;

	task copy(input integer from, input integer to);
		reg [8 * CHUNK - 1:0] bytes;
		reg [63:0] at, left;
		begin
			at = 0;
			left = `DLBUF_bytes(from);
			while (left != 0) begin
				if (left > CHUNK)
					left = CHUNK;
				`DLBUF_read(from, at, left, bytes);
				`DLBUF_write(to, at, left, bytes);
				at = at + left;
				left = `DLBUF_bytes(from) - at;
			end
		end
	endtask

	initial forever begin
		data = `DLBUF_open("data");
		if (data != 0) begin
			job = `DLBUF_try_open("read");
			writes = job <= 0;
			if (writes)
				job = `DLBUF_open("write");
			`DLBUF_acquire(job, writes ? `DLBUF_WRITE : `DLBUF_READ);
			`DLBUF_acquire(data, `DLBUF_RW);
			if (writes)
				copy(data, job);
			else
				copy(job, data);
			`DLBUF_close(job);
			`DLBUF_close(data);
		end
	end
endmodule
