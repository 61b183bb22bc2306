// SPDX-License-Identifier: MIT
/*
 * The costs of reading the bytes of a picture into a design under Icarus Verilog: from a
 * tensor, compared with Verilog's own ways. Each way ends with each word of 64 bits in a
 * register of bench/vpi.v.
 *
 *	bench/vpi MODULES	where dlbuf.vpi is; iverilog and vvp are on the path
 *
 * The time is from handing a tensor to the test bench until it is handed back, less the time of
 * the same without reading. "without loop": less the loop that reads each word too. Files are in
 * the page cache. A file of hexadecimal digits must be written before, which is not counted.
 */
#include <stdio.h>

#ifdef CONFIG_BACKEND_VPI
#include <err.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <dlbuf/dlbuf.h>

#include "bench.h"

#define BYTES (64 << 10)
#define ROUNDS 5

static const struct {
	const char *name, *says, *who;
} ways[] = {
	{ "nothing", NULL, NULL },
	{ "fread", "$fread(word, file), 8 bytes a call", "today" },
	{ "fread-all", "$fread(memory, file)", "hand" },
	{ "readmemh", "$readmemh(file, memory)", "today" },
	{ "memory", "the loop: a memory that is filled already", NULL },
	{ "fscanf", "$fscanf(file, \"%h\", word)", "today" },
	{ "read-8", "$dlbuf_read, 8 bytes a call", "dlbuf" },
	{ "read-64", "$dlbuf_read, 64 bytes a call", "dlbuf" },
	{ "load-4096", "$dlbuf_load, 4 KiB a call", "dlbuf" },
	{ "load-all", "$dlbuf_load, all in one call", "dlbuf" },
};
enum { NOTHING, FREAD, READMEMH = 3, MEMORY };
#define NWAYS (sizeof(ways) / sizeof(ways[0]))

static const char binary[] = "/tmp/bench-vpi.bin", hex[] = "/tmp/bench-vpi.hex";

static pid_t run(const char *const argv[], int sock)
{
	pid_t child = fork();

	if (child)
		return child;
	if (sock >= 0) {
		if (dup2(sock, 9) < 0)
			_exit(1);
		setenv("DLBUF_VPI_FD", "9", 1);
	}
	execvp(argv[0], (char *const *)argv);
	err(1, "%s", argv[0]);
}

static void wait_for(pid_t child, const char *what)
{
	int status;

	if (waitpid(child, &status, 0) != child || status)
		errx(1, "%s: status %d", what, status);
}

static void compile(void)
{
	char bytes[40], bin[80], digits[80];
	const char *argv[] = { "iverilog", "-g2005-sv", "-Iverilog", bytes, bin, digits,
			 "-o", "/tmp/bench-vpi.vvp", "bench/vpi.v", NULL };

	snprintf(bytes, sizeof(bytes), "-DBYTES=%d", BYTES);
	snprintf(bin, sizeof(bin), "-DBINARY=\"%s\"", binary);
	snprintf(digits, sizeof(digits), "-DHEX=\"%s\"", hex);
	wait_for(run(argv, -1), "iverilog");
}

/* The same words in the buffer and in both files. Gives their xor. */
static uint64_t fill(uint64_t *words)
{
	FILE *b = fopen(binary, "w"), *h = fopen(hex, "w");
	uint64_t sum = 0;

	if (!b || !h)
		err(1, "/tmp");
	for (unsigned int i = 0; i < BYTES / 8; i++) {
		words[i] = (i + 1) * 0x9e3779b97f4a7c15u;
		sum ^= words[i];
		/* $fread() is big-endian. */
		for (int k = 7; k >= 0; k--)
			fputc((int)(words[i] >> 8 * k & 0xff), b);
		fprintf(h, "%016llx\n", (unsigned long long)words[i]);
	}
	if (fclose(b) || fclose(h))
		err(1, "/tmp");
	return sum;
}

/* Gives the tensor to the test bench, and waits until it is back. */
static uint64_t once(struct dlbuf_device *sim, int fd, const DLTensor *layout,
		     const char *way)
{
	DLManagedTensorVersioned *t;
	struct pollfd done;
	uint64_t start;

	if (dlbuf_import(sim, fd, layout, NULL, &t) ||
	    dlbuf_acquire(t, DLBUF_RW, NULL, NULL))
		errx(1, "%s", dlbuf_last_error());
	start = now();
	if (dlbuf_vpi_send(t, way, NULL) || dlbuf_release(t, NULL, &done.fd))
		errx(1, "%s", dlbuf_last_error());
	done.events = POLLIN;
	if (done.fd >= 0 && poll(&done, 1, -1) != 1)
		err(1, "poll");
	start = now() - start;
	if (done.fd >= 0)
		close(done.fd);
	t->deleter(t);
	return start;
}

/* The speed of a way relative to another one, without the loop that both share. */
static double speed(const uint64_t *cost, size_t other, size_t way)
{
	return ((double)cost[other] - cost[MEMORY]) / ((double)cost[way] - cost[MEMORY]);
}

static void about(void)
{
	FILE *f = popen("vvp -V 2>&1", "r");
	char line[80] = "";

	if (!f || !fgets(line, sizeof(line), f))
		errx(1, "vvp -V");
	pclose(f);
	line[strcspn(line, "\n")] = '\0';
	record("about", 0, "vpi", "%s", line);
}

int main(int argc, char **argv)
{
	char modules[200];
	const char *vvp[] = { "vvp", "-n", modules, "-mdlbuf", "/tmp/bench-vpi.vvp", NULL };
	int64_t shape = BYTES / 8;
	DLTensor layout = { .ndim = 1, .dtype = { kDLUInt, 64, 1 },
			    .shape = &shape };
	struct dlbuf_udmabuf buf;
	uint64_t times[NWAYS][ROUNDS], cost[NWAYS], sum, first, *words;
	struct dlbuf_device *sim;
	int s[2];
	pid_t child;

	snprintf(modules, sizeof(modules), "-M%s", argc > 1 ? argv[1] : ".");
	if (dlbuf_udmabuf_create(BYTES, NULL, &buf))
		errx(1, "%s", dlbuf_last_error());
	words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, buf.memfd, 0);
	if (words == MAP_FAILED)
		err(1, "mmap");
	sum = fill(words);
	first = words[0];
	compile();
	about();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s))
		err(1, "socketpair");
	child = run(vvp, s[1]);
	close(s[1]);
	if (dlbuf_device_wrap_vpi(s[0], NULL, &sim))
		errx(1, "%s", dlbuf_last_error());
	close(s[0]);
	for (unsigned int r = 0; r < ROUNDS; r++)
		for (size_t i = 0; i < NWAYS; i++) {
			words[0] = first;
			times[i][r] = once(sim, buf.fd, &layout, ways[i].name);
			if (words[0] != (i ? sum : 0))
				errx(1, "%s: the sum is %016llx", ways[i].name,
				     (unsigned long long)words[0]);
		}
	dlbuf_device_close(sim);
	wait_for(child, "vvp");
	for (size_t i = 0; i < NWAYS; i++)
		cost[i] = median(times[i], ROUNDS);
	printf("%d bytes into a design under Icarus Verilog, in words of 64 bits; "
	       "under -icount a nanosecond is an instruction\n", BYTES);
	printf("%-44s %8s %13s %16s %12s %8s\n", "", "ns each", "without loop",
	       "bytes a second", "of $readmemh", "of $fread");
	for (size_t i = FREAD; i < NWAYS; i++) {
		double each = (double)(cost[i] - cost[NOTHING]) / BYTES;
		double bare = each - (double)(cost[MEMORY] - cost[NOTHING]) / BYTES;

		printf("%-44s %8.0f", ways[i].says, each);
		if (i != MEMORY)
			printf(" %13.0f %16.0f %12.2f %8.2f", bare, 1e9 / bare,
			       speed(cost, READMEMH, i), speed(cost, FREAD, i));
		putchar('\n');
		if (i != MEMORY)
			record(ways[i].who, cost[i] - cost[MEMORY],
			       "vpi: 64 KiB into a design under Icarus Verilog",
			       "%s", ways[i].says);
	}
	return 0;
}
#else
int main(void)
{
	puts("this build has no Verilog simulators");
	return 0;
}
#endif
