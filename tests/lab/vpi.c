// SPDX-License-Identifier: MIT
/*
 * Test benches (tests/verilog/tb.v) under Icarus Verilog and under Verilator: the memory
 * models, elements of any layout, the sentences of failures, waiting, signals, and
 * resources after the end of a program or a simulator.
 *
 *	tests/verilog/compiled BUILD vpi [CASE...]
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cts/cts.h"

#include "system/event.h"

const char *cts_device = "cpu";
const struct access *cts_access;

#define BYTES 8192

struct simulator {
	const char *name;
	const char *command;	/* after $VERILOG_BUILD: see tests/verilog/compiled */
};

static const struct simulator simulators[] = {
	{ "icarus", "vvp -n -M$VERILOG_BUILD -mdlbuf $VERILOG_BUILD/verilator/tb.vvp" },
	{ "verilator", "$VERILOG_BUILD/verilator/tb" },
};

/* A simulator that runs, with the end of a socket and its output in a pipe. */
struct run {
	struct dlbuf_device *dev;
	pid_t pid;
	int out;
	char text[65536];
	size_t n;
};

/* The bench attaches to the device of that name, or has an end of a socket. */
static void launch(struct run *r, const struct simulator *s, const char *mode, int number,
		   const char *name, int sock)
{
	char command[512];
	int out[2];

	snprintf(command, sizeof(command), "exec %s +mode=%s +number=%d 2>&1",
		 s->command, mode, number);
	REQUIRE(!pipe2(out, O_CLOEXEC));
	fflush(stdout);
	r->pid = fork();
	REQUIRE(r->pid >= 0);
	if (!r->pid) {
		dup2(sock, 77);
		dup2(out[1], 1);
		if (name)
			setenv("DLBUF_VPI", name, 1);
		else
			setenv("DLBUF_VPI_FD", "77", 1);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(out[1]);
	r->out = out[0];
}

/* name: of a device that the bench attaches to, instead of a socket's. */
static void start_named(struct run *r, const struct simulator *s, const char *mode,
			int number, const char *name)
{
	int sock[2];

	*r = (struct run){ 0 };
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock));
	REQUIRE_OK(name ? dlbuf_device_open(cts_name("vpi:%s", name), NULL, &r->dev) :
			  dlbuf_device_wrap_vpi(sock[0], NULL, &r->dev));
	close(sock[0]);
	launch(r, s, mode, number, name, sock[1]);
	close(sock[1]);
}

static void start(struct run *r, const struct simulator *s, const char *mode,
		  int number)
{
	start_named(r, s, mode, number, NULL);
}

/* Reads output until it has this text, or to its end with NULL. */
static bool hear(struct run *r, const char *text)
{
	struct pollfd p = { .fd = r->out, .events = POLLIN };
	ssize_t n = 1;

	while (n > 0 && !(text && strstr(r->text, text)) &&
	       r->n < sizeof(r->text) - 1 && poll(&p, 1, -1) == 1) {
		n = read(r->out, r->text + r->n, sizeof(r->text) - 1 - r->n);
		r->n += n > 0 ? n : 0;
	}
	return !text || strstr(r->text, text);
}

static void show(struct run *r)
{
	for (char *line = strtok(r->text, "\n"); line; line = strtok(NULL, "\n"))
		ktap_note(NULL, 0, "%s", line);
}

static bool says(struct run *r, const char *text)
{
	return CHECK(strstr(r->text, text)) ||
	       (ktap_note(NULL, 0, "not said: %s", text), false);
}

/* Closes the device, and waits for the simulator. */
static void finish(struct run *r, bool succeeds)
{
	int status;

	dlbuf_device_close(r->dev);
	hear(r, NULL);
	CHECK_EQ(waitpid(r->pid, &status, 0), r->pid);
	close(r->out);
	if (succeeds && (!CHECK_EQ(status, 0) || !says(r, "passed")))
		show(r);
	if (!succeeds)
		CHECK(WIFSIGNALED(status) || WEXITSTATUS(status));
	cts_settle();
}

static DLManagedTensorVersioned *import(struct run *r, int fd,
					const DLTensor *layout)
{
	DLManagedTensorVersioned *t = NULL;

	REQUIRE_OK(dlbuf_import(r->dev, fd, layout, NULL, &t));
	return t;
}

/* Acquires, sends and releases. *fence: when the bench is done. */
static void pass(DLManagedTensorVersioned *t, uint32_t access, const char *name,
		 int *fence)
{
	REQUIRE_OK(dlbuf_acquire(t, access, NULL, NULL));
	REQUIRE_OK(dlbuf_vpi_send(t, name, NULL));
	REQUIRE_OK(dlbuf_release(t, NULL, fence));
}

/* ---------------------------------------------------------------- cases */

/* Odd, so that the last word is cut; more than 4 KiB, which bursts may not cross. */
#define MEM_BYTES 6001

static void mem(void *arg)
{
	const int64_t shape = MEM_BYTES;
	const DLTensor layout = LAYOUT8(1, &shape, .byte_offset = 3);
	unsigned char bytes[MEM_BYTES + 6], before[6];
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	DLManagedTensorVersioned *t;
	struct run r;
	bool same = true;

	for (int i = 0; i < MEM_BYTES; i++)
		bytes[i + 3] = i * 7 + 3;
	memset(bytes, 0xee, 3);
	memset(bytes + 3 + MEM_BYTES, 0xdd, 3);
	cts_poke(fd, 0, bytes, sizeof(bytes));
	start(&r, arg, "mem", 0);
	t = import(&r, fd, &layout);
	pass(t, DLBUF_RW, "dst", NULL);
	t->deleter(t);
	finish(&r, true);
	cts_peek(fd, 0, bytes, sizeof(bytes));
	for (int i = 0; i < MEM_BYTES; i++)
		same &= bytes[i + 3] == (unsigned char)(i * 5 + 1);
	CHECK(same);
	/* Not a byte outside. */
	memset(before, 0xee, 3);
	memset(before + 3, 0xdd, 3);
	CHECK(!memcmp(bytes, before, 3));
	CHECK(!memcmp(bytes + 3 + MEM_BYTES, before + 3, 3));
	/* The AXI slave had a reason for each refusal. */
	says(&r, "a beat of 8 bytes is wider than the bus");
	says(&r, "burst type 3 is reserved");
	says(&r, "a FIXED burst has 17 beats");
	says(&r, "crosses a border of 4 KiB");
	says(&r, "a WRAP burst has 3 beats");
	says(&r, "a WRAP burst begins at 0x2, which is not aligned");
	says(&r, "is outside the tensor");
}

struct layout {
	uint8_t code, bits;
	int ndim;
	int64_t shape[3], strides[3];
	uint64_t offset;
	const char *line;
};

static const struct layout layouts[] = {
	{ kDLUInt, 8, 2, { 4, 6 }, { 16, 1 }, 5, "2 1 8 1: 24 elements, 54 bytes\nstride 16" },
	{ kDLUInt, 8, 2, { 6, 4 }, { 1, 16 }, 5, "2 1 8 1: 24 elements, 54 bytes\nstride 1" },
	{ kDLInt, 16, 1, { 9 }, { -3 }, 100, "1 0 16 1: 9 elements, 50 bytes\nstride -3" },
	{ kDLFloat, 32, 3, { 2, 3, 4 }, { 64, -4, 1 }, 512, "3 2 32 1: 24 elements, 304 bytes" },
	{ kDLFloat, 64, 1, { 5 }, { 2 }, 64, "1 2 64 1: 5 elements, 72 bytes" },
	{ kDLUInt, 8, 1, { 4 }, { 0 }, 9, "1 1 8 1: 4 elements, 1 bytes" },
	{ kDLUInt, 8, 0, { 0 }, { 0 }, 9, "0 1 8 1: 1 elements, 1 bytes" },
	{ kDLUInt, 8, 2, { 3, 0 }, { 1, 1 }, 0, "2 1 8 1: 0 elements, 0 bytes" },
};

/* Whether a process has memory of a dma-buf. */
static bool maps_dmabuf(pid_t pid)
{
	FILE *f = fopen(cts_name("/proc/%d/maps", pid), "re");
	char line[512];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= !!strstr(line, "/dmabuf:");
	if (f)
		fclose(f);
	return found;
}

static void elements(void *arg)
{
	int from AUTO_FD = cts_alloc("udmabuf", BYTES);
	int to AUTO_FD = cts_alloc("udmabuf", BYTES);
	unsigned char is[BYTES], was[BYTES];
	struct run r;

	cts_pattern(was, BYTES, 1);
	cts_poke(from, 0, was, BYTES);
	start(&r, arg, "elements", 0);
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct layout *l = &layouts[i];
		DLTensor layout = {
			.ndim = l->ndim, .dtype = { l->code, l->bits, 1 },
			.shape = (int64_t *)l->shape,
			.strides = (int64_t *)l->strides, .byte_offset = l->offset,
		};
		DLManagedTensorVersioned *src = import(&r, from, &layout), *dst;
		size_t item = l->bits / 8, at = 0;
		int fence;

		layout.strides = NULL;
		layout.byte_offset = 0;
		dst = import(&r, to, &layout);
		pass(src, DLBUF_READ, "src", NULL);
		pass(dst, DLBUF_WRITE, "dst", &fence);
		if (fence >= 0) {
			CHECK_OK(dlbuf_fence_wait(fence, 0));
			close(fence);
		}
		cts_peek(to, 0, is, BYTES);
		for (int64_t x = 0; x < (l->ndim > 0 ? l->shape[0] : 1); x++)
			for (int64_t y = 0; y < (l->ndim > 1 ? l->shape[1] : 1); y++)
				for (int64_t z = 0; z < (l->ndim > 2 ? l->shape[2] : 1); z++) {
					int64_t e = x * l->strides[0] +
						    y * l->strides[1] + z * l->strides[2];

					if (!CHECK(!memcmp(is + at, was + l->offset +
							   e * (int64_t)item, item)))
						ktap_note(NULL, 0, "layout %zu", i);
					at += item;
				}
		src->deleter(src);
		dst->deleter(dst);
	}
	/* The simulator keeps no memory of tensors that it has closed. */
	UNTIL(!maps_dmabuf(r.pid));
	finish(&r, true);
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		says(&r, layouts[i].line);
}

/* By the numbers of tb.v. All name the file and a line. */
static const char *const failures[] = {
	"77 is not the handle of an open tensor",
	"0 is not the handle of an open tensor",
	"tensor 'src' is not acquired for reading",
	"tensor 'src': access 3 is not in access 1, which the host has acquired",
	"tensor 'src': access 0 is not in access 1",
	"tensor 'src' is not acquired",
	"tensor 'src' has 2 dimensions and none with number 2",
	"tensor 'src' has 4096 bytes: 1 at 4096 are not inside",
	"tensor 'src' has 4096 bytes: 1 at -1 are not inside",
	"200 bytes do not fit a vector of 1024 bits",
	"tensor 'src' is not acquired for writing",
	"tensor 'src' has no element 4096",
	"tensor 'src' is released: the host has to send it again",
	"inside the array|the memory has no word 8192",
	"the simulation is attached to",
	"0x100 does not fit an element of 8 bits",
	"8 bytes do not fit a vector of 16 bits",
	"8 bytes do not fit a vector of 16 bits",
	"no program can send a tensor 'a name'",
	NULL, NULL,	/* $finish, $fatal */
	"en or we is x",
	"en or we is x",
	"a number is x",
	"a signal of the bus is x",
	"a signal of the bus is x",
	"the strobe is x",
	"word 5: byte 0 of the data is x",
	"a number of 72 bits does not fit 64",
	"a signal of the bus is x",
};
#define FAILURES_OF_ALL 21	/* the others are x, which Verilator has not */

static bool says_one_of(struct run *r, const char *list)
{
	char texts[256], *save, *text;
	bool any = false;

	snprintf(texts, sizeof(texts), "%s", list);
	for (text = strtok_r(texts, "|", &save); text;
	     text = strtok_r(NULL, "|", &save))
		any |= !!strstr(r->text, text);
	return any;
}

static void failure(void *arg)
{
	const int64_t shape[] = { 64, 64 };
	const DLTensor layout = LAYOUT8(2, shape);
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	size_t n = arg == &simulators[0] ? sizeof(failures) / sizeof(failures[0]) :
					   FAILURES_OF_ALL;

	for (size_t i = 0; i < n; i++) {
		/* Up to 15 the tensor is for reading. */
		uint32_t access = i < 15 ? DLBUF_READ : DLBUF_RW;
		DLManagedTensorVersioned *t;
		struct run r;
		int fence, status = -EIO;

		start(&r, arg, "failure", i + 1);
		t = import(&r, fd, &layout);
		pass(t, access, "src", &fence);
		/* The end of the simulation is not the test bench's release; 13 has one. */
		if (fence >= 0) {
			CHECK_OK(dlbuf_fence_wait(fence, 0));
			CHECK_OK(dlbuf_fence_status(fence, &status));
			close(fence);
		}
		CHECK_EQ(status, i == 12 ? 1 : -EIO);
		if (access == DLBUF_RW)
			CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), -EIO);
		t->deleter(t);
		/* $finish is a success of the simulator. */
		finish(&r, i == 19);
		if (failures[i] &&
		    (!CHECK(says_one_of(&r, failures[i])) ||
		     !CHECK(strstr(r.text, "/dlbuf_") || strstr(r.text, "tests/verilog/tb.v:")) ||
		     !CHECK(!strstr(r.text, "did not end")))) {
			ktap_note(NULL, 0, "failure %zu: %s", i + 1, failures[i]);
			show(&r);
		}
	}
}

static void count(void *data)
{
	__atomic_add_fetch((int *)data, 1, __ATOMIC_SEQ_CST);
}

static void killed(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), fired = 0, fence;
	struct dlbuf_frame f = PICTURE(64, 64, DLBUF_FOURCC('R', '8', ' ', ' '),
		DLBUF_CODE_DRM, 1, .modifier = DLBUF_MOD_LINEAR,
		.planes = { { .fd = fd, .pitch = 64 } }, .release = count,
		.release_data = &fired);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	struct run r;
	uint32_t n;

	start(&r, arg, "hang", 0);
	REQUIRE_OK(dlbuf_import_frame(r.dev, &f, NULL, t, &n));
	pass(t[0], DLBUF_READ, "src", &fence);
	t[0]->deleter(t[0]);
	if (!CHECK(hear(&r, "has it")))
		show(&r);
	CHECK_EQ(__atomic_load_n(&fired, __ATOMIC_SEQ_CST), 0);
	CHECK(!poll(&(struct pollfd){ fence, POLLIN, 0 }, 1, 0));
	CHECK(!kill(r.pid, SIGKILL));
	CHECK_OK(dlbuf_fence_wait(fence, 0));
	close(fence);
	UNTIL(__atomic_load_n(&fired, __ATOMIC_SEQ_CST));
	finish(&r, false);
}

static const int64_t whole_shape = BYTES;
static const DLTensor whole = LAYOUT8(1, &whole_shape);

/* Whether a process sleeps in a wait of the library. */
static bool polls(pid_t pid)
{
	long nr = -1;
	FILE *f = fopen(cts_name("/proc/%d/syscall", pid), "re");

	if (f && fscanf(f, "%ld", &nr) != 1)
		nr = -1;
	if (f)
		fclose(f);
	return nr == SYS_ppoll;
}

/* A signal ends a simulator that waits, with any handlers. */
static void signalled(void *arg)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), status;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		DLManagedTensorVersioned *t;
		struct run r;

		start(&r, arg, "hang", 0);
		t = import(&r, fd, &whole);
		pass(t, DLBUF_RW, "src", NULL);
		hear(&r, "has it");
		UNTIL(polls(r.pid));
		CHECK(!kill(r.pid, signals[i]));
		CHECK_EQ(waitpid(r.pid, &status, 0), r.pid);
		if (!CHECK(status))
			hear(&r, NULL), show(&r);
		if (WIFEXITED(status) && hear(&r, NULL))
			says(&r, "ended by signal");
		/* It was in the middle. */
		CHECK_ERR(dlbuf_acquire(t, DLBUF_READ, NULL, NULL), -EIO);
		t->deleter(t);
		dlbuf_device_close(r.dev);
		close(r.out);
		cts_settle();
	}
}

/*
 * The next program does not get tensors that the previous one has sent and that were not opened.
 */
static void next(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), fence;
	char name[24];
	DLManagedTensorVersioned *t;
	unsigned char byte = 1;
	struct run r;

	snprintf(name, sizeof(name), "next.%d", getpid());
	start_named(&r, arg, "next", 0, name);
	for (; byte < 3; byte++) {
		cts_poke(fd, 0, &byte, 1);
		if (byte == 2)
			REQUIRE_OK(dlbuf_device_open(cts_name("vpi:%s", name), NULL,
						     &r.dev));
		t = import(&r, fd, &whole);
		pass(t, DLBUF_READ, "b", byte == 2 ? &fence : NULL);
		t->deleter(t);
		if (byte == 2)
			break;
		dlbuf_device_close(r.dev);
		if (!CHECK(hear(&r, "a: 0")))
			show(&r);
	}
	if (fence >= 0)
		CHECK_OK(dlbuf_fence_wait(fence, 0));
	close(fence);
	finish(&r, true);
	says(&r, "b: 2");
}

static void held(void *arg)
{
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	DLManagedTensorVersioned *t;
	struct run r;

	start(&r, arg, "held", 0);
	t = import(&r, fd, &whole);
	pass(t, DLBUF_READ, "src", NULL);
	CHECK(hear(&r, "has it"));
	finish(&r, true);
	t->deleter(t);
}

/* Simulated time goes on: for a tensor, and for the fence of another device. */
static void try(void *arg)
{
	const int64_t shape = BYTES;
	const DLTensor layout = LAYOUT8(1, &shape);
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	struct cts_fence fence;
	DLManagedTensorVersioned *t;
	unsigned char byte = 42;
	struct run r;

	if (cts_no_sync_file(fd))
		SKIP("the kernel adds no fences to dma-bufs");
	start(&r, arg, "try", 0);
	t = import(&r, fd, &layout);
	cts_poke(fd, 0, &byte, 1);
	/* A fence of vgem's lasts ten seconds, and a simulator may take long to start. */
	if (!CHECK(hear(&r, "begun")))
		show(&r);
	cts_fence_create(&fence);
	REQUIRE_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	REQUIRE_OK(dlbuf_fence_import(fd, DLBUF_WRITE, fence.sync_file));
	REQUIRE_OK(dlbuf_vpi_send(t, "src", NULL));
	if (!CHECK(hear(&r, "not yet")))
		show(&r);
	byte = 43;
	cts_poke_raw(fd, 0, &byte, 1);
	cts_fence_signal(&fence);
	if (!CHECK(hear(&r, "acquired")))
		show(&r);
	CHECK_OK(dlbuf_release(t, NULL, NULL));
	t->deleter(t);
	finish(&r, true);
	says(&r, "acquired 43");
	cts_fence_destroy(&fence);
}

/* A process of another user at root's address of that name; it ends with *stays. */
static pid_t stranger(const char *name, bool listens, int *stays)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int ready[2], end[2], sock;
	socklen_t size;
	pid_t pid;
	char c = 0;

	size = offsetof(struct sockaddr_un, sun_path) + 1 +
	       snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1,
			"dlbuf-vpi/0/%s", name);
	REQUIRE(!pipe2(ready, O_CLOEXEC) && !pipe2(end, O_CLOEXEC));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(end[1]);
		sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (setuid(1234) ||
		    (listens ? bind(sock, (struct sockaddr *)&at, size) ||
			       listen(sock, 1) :
			       connect(sock, (struct sockaddr *)&at, size)))
			_exit(2);
		_exit(write(ready[1], &c, 1) != 1 || read(end[0], &c, 1));
	}
	close(ready[1]);
	close(end[0]);
	CHECK_EQ(read(ready[0], &c, 1), 1);
	close(ready[0]);
	*stays = end[1];
	return pid;
}

static void gone(pid_t pid, int stays)
{
	int status = -1;

	close(stays);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* Neither side takes another user, who may have the right address. */
static void other_user(void *arg)
{
	DLBUF_OPTS(dlbuf_socket_opts, now, .flags = DLBUF_SOCKET_DONTWAIT);
	const int64_t shape = BYTES;
	const DLTensor layout = LAYOUT8(1, &shape);
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES);
	DLManagedTensorVersioned *t;
	struct run r = { 0 };
	int sock, stays;
	pid_t pid;

	(void)arg;
	pid = stranger("squatter", true, &stays);
	CHECK_ERR(dlbuf_vpi_connect("squatter", &sock), -ECONNREFUSED);
	CHECK_SAYS("user 1234 has taken the address of vpi:squatter");
	CHECK_ERR(dlbuf_device_open("vpi:squatter", NULL, &r.dev), -EBUSY);
	CHECK_SAYS("or another user has taken its address");
	gone(pid, stays);
	REQUIRE_OK(dlbuf_device_open("vpi:intruder", NULL, &r.dev));
	pid = stranger("intruder", false, &stays);
	t = import(&r, fd, &layout);
	REQUIRE_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	CHECK_ERR(dlbuf_vpi_send(t, "t", &now), -EAGAIN);
	REQUIRE_OK(dlbuf_release(t, NULL, NULL));
	t->deleter(t);
	dlbuf_device_close(r.dev);
	gone(pid, stays);
}

/* The code in the comments of vpi.h: by the name of a device, and with a simulator of its own. */
static void examples(void *arg)
{
	const struct simulator *bench = arg;
	const int64_t shape = BYTES;
	const DLTensor layout = LAYOUT8(1, &shape);
	int fd AUTO_FD = cts_alloc("udmabuf", BYTES), out[2], status;
	DLManagedTensorVersioned *t;
	struct dlbuf_device *sim;
	char command[512], *ours;
	unsigned char byte = 5;
	int done = -1, ends[2];
	struct run r = { 0 };

	snprintf(command, sizeof(command), "exec %s +mode=example 2>&1", bench->command);
	cts_poke(fd, 0, &byte, 1);
	/* The program has an end of the socket as fd 9, and its output goes to a pipe. */
	REQUIRE(!pipe2(out, O_CLOEXEC));
	ours = command;
	{
		int s[2];

#define execlp(...) (dup2(out[1], 1), execl("/bin/sh", "sh", "-c", ours, NULL), _exit(127))
#include "generated/vpi-2.inc"
#undef execlp
		memcpy(ends, s, sizeof(s));
	}
	close(ends[0]);
	close(out[1]);
	r.dev = sim;
	r.out = out[0];
	t = import(&r, fd, &layout);
	pass(t, DLBUF_READ, "in", &done);
	CHECK_OK(dlbuf_fence_wait(done, 0));
	close(done);
	t->deleter(t);
	dlbuf_device_close(sim);
	hear(&r, NULL);
	says(&r, "in: 5");
	CHECK(wait(&status) > 0 && !status);
	close(r.out);
	r = (struct run){ 0 };
	/* The simulator may attach once the device is open: here before it gets something. */
	done = -1;
#undef dlbuf_vpi_send
#define dlbuf_vpi_send(...)						\
	(launch(&r, bench, "example", 0, "sobel", -1), dlbuf_vpi_send(__VA_ARGS__))
#include "generated/vpi-1.inc"
	CHECK_OK(dlbuf_fence_wait(done, 0));
	close(done);
	t->deleter(t);
	r.dev = sim;
	finish(&r, true);
	says(&r, "in: 5");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void *arg);
	} cases[] = {
		{ "mem", mem }, { "elements", elements }, { "failure", failure },
		{ "killed", killed }, { "try", try }, { "signalled", signalled },
		{ "next", next }, { "held", held }, { "examples", examples },
	};

	for (size_t s = 0; s < 2; s++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			ktap_case(cts_name("%s/%s", simulators[s].name,
					   cases[i].name), cases[i].fn,
				  (void *)&simulators[s]);
	ktap_case("other-user", other_user, NULL);
	return ktap_run(argc, argv);
}
