// SPDX-License-Identifier: MIT
/*
 * examples/broker.c under consumers that die: 16 of them, killed at random. After
 * that the broker has the fds, the buffers and the leases that it began with. And the
 * program of docs/wire.md.
 *
 *	env BROKER=build/examples/broker broker [--seed N] [--kills N] [CASE...]
 */
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "vivid.h"

#define CONSUMERS 16u
#define KEEPERS 2u		/* these may keep a frame until they are killed, */
#define HOLDERS 4u		/* and these until all other buffers went round: */
				/* fewer than the buffers that the broker lends */
#define SOCKET "/tmp/broker.sock"

const char *cts_device = "cpu";
const struct access *cts_access;

static uint32_t seed = 20261122, nkills = 300;

static uint32_t next(uint32_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 17;
	*rng ^= *rng << 5;
	return *rng;
}

/* ---------------------------------------------------------------- programs */

/* A program, and its output to both streams. */
struct program {
	pid_t pid;
	FILE *out;
};

static struct program start(const char *program, const char *arg,
			    const char *more)
{
	struct program p;
	int fds[2];

	REQUIRE(!pipe2(fds, O_CLOEXEC));
	p.pid = fork();
	REQUIRE(p.pid >= 0);
	if (!p.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		execlp(program, program, arg, more, NULL);
		_exit(127);
	}
	close(fds[1]);
	p.out = fdopen(fds[0], "r");
	REQUIRE(p.out && !setvbuf(p.out, NULL, _IONBF, 0)); /* for poll() */
	return p;
}

static const char *line(struct program *p)
{
	static char text[256];

	text[0] = '\0';
	if (fgets(text, sizeof(text), p->out))
		text[strcspn(text, "\n")] = '\0';
	return text;
}

/* Its exit status, or 256 and the signal. */
static int finish(struct program *p, int sig)
{
	int status = -1;

	if (sig)
		kill(p->pid, sig);
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	fclose(p->out);
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) :
				     WEXITSTATUS(status);
}

/* Without sync_files: the broker, which runs, has one while it acquires a buffer. */
static unsigned int count_fds(pid_t pid)
{
	char path[32], target[64];
	unsigned int n = 0;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	REQUIRE(d);
	while ((e = readdir(d))) {
		ssize_t bytes = readlinkat(dirfd(d), e->d_name, target,
					   sizeof(target) - 1);

		target[bytes > 0 ? bytes : 0] = '\0';
		n += bytes > 0 && !strstr(target, "sync_file");
	}
	closedir(d);
	return n;
}

/* The dma-bufs of this machine. */
static unsigned int count_buffers(void)
{
	FILE *f = fopen("/sys/kernel/debug/dma_buf/bufinfo", "r");
	unsigned int n = ~0u;
	char text[256];

	if (!f)
		SKIP("there is no list of dma-bufs in debugfs");
	while (fgets(text, sizeof(text), f))
		sscanf(text, "Total %u objects", &n);
	fclose(f);
	return n;
}

/* ---------------------------------------------------------------- the broker */

struct broker {
	struct program p;
	unsigned int buffers, here, gone;	/* consumers that came, and left */
	unsigned int consumers, lent;
};

static struct broker start_broker(const char *node)
{
	struct broker b = { .p = start(getenv("BROKER"), SOCKET, node) };

	if (sscanf(line(&b.p), SOCKET " has %u", &b.buffers) != 1)
		FATAL("the broker has not begun");
	return b;
}

static void hear(struct broker *b)
{
	unsigned int number, buffers;
	char what[8];

	if (sscanf(line(&b->p), "consumer %u is %7[a-z]: %u consumers, %u of %u",
		   &number, what, &b->consumers, &b->lent, &buffers) != 5)
		FATAL("the broker has ended");
	b->here += !strcmp(what, "here");
	b->gone += !strcmp(what, "gone");
}

static int to_broker(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = SOCKET };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	REQUIRE(sock >= 0);
	REQUIRE(!connect(sock, (void *)&at, sizeof(at)));
	return sock;
}

static DLManagedTensorVersioned *receive(struct dlbuf_device *cpu, int sock)
{
	DLBUF_OPTS(dlbuf_import_opts, luma, .access = DLBUF_READ,
		   .view = DLBUF_VIEW_LUMA, .flags = DLBUF_IMPORT_KEEP);
	DLBUF_OPTS(dlbuf_socket_opts, opts, .import = &luma);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	uint32_t n;

	REQUIRE_OK(dlbuf_recv(cpu, sock, &opts, t, &n, NULL));
	return t[0];
}

/* ---------------------------------------------------------------- consumers */

/* A checksum of some rows: a frame that is captured meanwhile changes them. */
static uint64_t look(DLManagedTensorVersioned *t)
{
	const DLTensor *l = &t->dl_tensor;
	uint64_t h = 0;

	REQUIRE_OK(dlbuf_acquire(t, DLBUF_READ, NULL, NULL));
	for (int64_t y = 0; y < l->shape[0]; y += 8)
		for (int64_t x = 0; x < l->shape[1]; x++)
			h = h * 31 + ((uint8_t *)l->data)[y * l->strides[0] +
							  x * l->strides[1]];
	REQUIRE_OK(dlbuf_release(t, NULL, NULL));
	return h;
}

/* Never returns: it is killed. Writes a byte for each frame. */
static void consume(unsigned int index, uint32_t rng, int tell)
{
	struct dlbuf_device *cpu;
	int sock = to_broker();

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	for (;;) {
		DLManagedTensorVersioned *t = receive(cpu, sock), *share = NULL;
		uint32_t what = next(&rng) % 8;
		uint64_t h = look(t);

		if (what == 1) {
			CHECK_OK(dlbuf_tensor_share(t, NULL, &share));
			cts_delete(t);
			t = share;
		}
		if (what == 2) {
			close(sock);	/* with a frame in hand */
			sock = to_broker();
		}
		if (write(tell, "", 1) != 1)
			_exit(0);
		if (what > 2 && index < KEEPERS)
			pause();
		for (int i = 0; what == 2 && index < HOLDERS && i < 10; i++)
			cts_delete(receive(cpu, sock));
		CHECK_EQ(look(t), h);
		cts_delete(t);
	}
}

struct consumers {
	pid_t pid[CONSUMERS];
	int tell[2];
	uint32_t rng;
};

static void start_consumer(struct consumers *c, unsigned int i)
{
	uint32_t rng = next(&c->rng);

	c->pid[i] = fork();
	REQUIRE(c->pid[i] >= 0);
	if (!c->pid[i]) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(c->tell[0]);
		consume(i, rng, c->tell[1]);
	}
}

static void kill_consumer(struct consumers *c, unsigned int i)
{
	int status = 0;

	kill(c->pid[i], SIGKILL);
	CHECK_EQ(waitpid(c->pid[i], &status, 0), c->pid[i]);
	/* Otherwise it has found a fault and ended. */
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The broker's output so far: the broker blocks when the pipe is full. */
static void hear_all(struct broker *b)
{
	struct pollfd lines = { fileno(b->p.out), POLLIN, 0 };

	while (poll(&lines, 1, 0) > 0)
		hear(b);
}

static void kill_at_random(struct consumers *c, struct broker *b)
{
	char byte;

	REQUIRE(!pipe2(c->tell, O_CLOEXEC));
	for (unsigned int i = 0; i < CONSUMERS; i++)
		start_consumer(c, i);
	for (uint32_t kills = 0; kills < nkills;) {
		unsigned int i = next(&c->rng) % CONSUMERS;

		hear_all(b);
		REQUIRE(read(c->tell[0], &byte, 1) == 1);
		if (next(&c->rng) % 2)
			continue;
		kill_consumer(c, i);
		start_consumer(c, i);
		kills++;
	}
	for (unsigned int i = 0; i < CONSUMERS; i++)
		kill_consumer(c, i);
	close(c->tell[0]);
	close(c->tell[1]);
}

/* The number of buffers that a consumer gets if it returns each frame at once. */
static unsigned int buffers_seen(int sock, unsigned int n)
{
	struct dlbuf_device *cpu AUTO_DEV = NULL;
	uint64_t seen[VIVID_MAX * 4];
	unsigned int nseen = 0;

	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	for (unsigned int frames = 0; nseen < n && frames < 16 * n; frames++) {
		DLManagedTensorVersioned *t = receive(cpu, sock);
		DLBUF_INFO(dlbuf_tensor_info, info);
		unsigned int i = 0;

		CHECK_OK(dlbuf_tensor_get_info(t, &info));
		while (i < nseen && seen[i] != info.ino)
			i++;
		seen[i] = info.ino;
		nseen += i == nseen;
		cts_delete(t);
	}
	return nseen;
}

static void killed_consumers(const char *node)
{
	unsigned int before = count_buffers(), fds;
	struct consumers c = { .rng = seed };
	struct broker b = start_broker(node);
	int sock;

	fds = count_fds(b.p.pid);
	CHECK_EQ(count_buffers(), before + b.buffers);
	kill_at_random(&c, &b);
	/* The broker accepts in order, and prints this before it sends a frame. */
	sock = to_broker();
	CHECK_EQ(buffers_seen(sock, 1), 1);
	hear_all(&b);
	while (b.gone + 1 != b.here)
		hear(&b);
	CHECK_EQ(b.consumers, 1);
	ktap_note(NULL, 0, "%u kills, %u connections", nkills, b.here);
	CHECK_EQ(buffers_seen(sock, b.buffers), b.buffers);
	close(sock);
	while (b.gone != b.here)
		hear(&b);
	CHECK_EQ(b.consumers, 0);
	CHECK_EQ(b.lent, 0);
	CHECK_EQ(count_fds(b.p.pid), fds);
	CHECK_EQ(count_buffers(), before + b.buffers);
	CHECK_EQ(finish(&b.p, SIGKILL), 256 + SIGKILL);
	CHECK_EQ(count_buffers(), before);
}

static void generated(void *arg)
{
	killed_consumers(NULL);
}

static void camera(void *arg)
{
	char link[32], node[32] = "";
	int fd = vivid_node();

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	REQUIRE(readlink(link, node, sizeof(node) - 1) > 0);
	close(fd);
	killed_consumers(node);
}

/* A consumer of a broker that was killed prints an error. */
static void end_with_broker(const char *program, const char *arg,
			    const char *more)
{
	unsigned int before = count_buffers(), n;
	struct broker b = start_broker(NULL);
	struct program c = start(program, arg, more), other;
	const char *said;

	CHECK_EQ(sscanf(line(&c), "frame %u: ", &n), 1);
	other = start(getenv("BROKER"), SOCKET, NULL);
	CHECK(strstr(line(&other), "Address already in use"));
	CHECK_EQ(finish(&other, 0), 1);
	CHECK_EQ(finish(&b.p, SIGKILL), 256 + SIGKILL);
	do {
		said = line(&c);
	} while (sscanf(said, "frame %u: ", &n) == 1);
	CHECK_MSG(strstr(said, "the broker has ended: ") &&
		  strstr(said, "socket 3 is closed at the other side"),
		  "'%s'", said);
	CHECK_EQ(finish(&c, 0), 1);
	CHECK_EQ(count_buffers(), before);
	/* The next one takes its place. */
	b = start_broker(NULL);
	CHECK_EQ(finish(&b.p, SIGKILL), 256 + SIGKILL);
}

static void killed(void *arg)
{
	end_with_broker(getenv("BROKER"), "-c", SOCKET);
}

/* The path of the package: PYTHONPATH. */
static void python(void *arg)
{
	if (system("python3 -c 'import dlbuf' 2> /dev/null"))
		SKIP("python3 has no dlbuf");
	end_with_broker("python3", "examples/broker.py", SOCKET);
}

/* The program of docs/wire.md, which does not use the library, sends a tensor. */
static void wire(void *arg)
{
	struct dlbuf_device *cpu AUTO_DEV = NULL;
	int fd AUTO_FD = cts_alloc("udmabuf", 4096);
	DLManagedTensorVersioned *t[DLBUF_MAX_PLANES];
	char command[128], said[64] = "";
	uint32_t n = 0;
	int sock[2];
	FILE *python;

	if (access("docs/wire.md", R_OK))
		SKIP("it is not run at the top of the source tree");
	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	REQUIRE(fcntl(fd, F_SETFD, 0) >= 0);
	snprintf(command, sizeof(command), "sed -n '/^```python/,/^```/{"
		 "/^```/d;p}' docs/wire.md | python3 - %d %d", sock[1], fd);
	python = popen(command, "r");
	REQUIRE(python);
	close(sock[1]);
	REQUIRE_OK(dlbuf_device_open("cpu", NULL, &cpu));
	if (CHECK_OK(dlbuf_recv(cpu, sock[0], NULL, t, &n, NULL))) {
		const DLTensor *l = &t[0]->dl_tensor;
		DLBUF_INFO(dlbuf_tensor_info, info);

		CHECK_EQ(n, 1);
		CHECK_OK(dlbuf_tensor_get_info(t[0], &info));
		CHECK_EQ(info.first, 32);
		CHECK_EQ(info.end, 32 + 3 * 16 + 6);
		CHECK_EQ(info.access, DLBUF_READ);
		CHECK(l->ndim == 2 && l->shape[0] == 4 && l->shape[1] == 6);
		CHECK(l->dtype.code == kDLUInt && l->dtype.bits == 8);
		cts_delete(t[0]);
	}
	CHECK(fgets(said, sizeof(said), python));
	CHECK_STR(said, "the buffer is back\n");
	CHECK_EQ(pclose(python), 0);
	close(sock[0]);
}

int main(int argc, char **argv)
{
	if (!getenv("BROKER")) {
		fprintf(stderr, "BROKER is not set\n");
		return KTAP_SKIP;
	}
	while (argc > 2 && (!strcmp(argv[1], "--seed") ||
			    !strcmp(argv[1], "--kills"))) {
		uint32_t n = strtoul(argv[2], NULL, 0);

		*(argv[1][2] == 's' ? &seed : &nkills) = n ? n : 1;
		argv[2] = argv[0];
		argv += 2;
		argc -= 2;
	}
	ktap_prefix("%s", "broker");
	ktap_case("generated", generated, NULL);
	ktap_case("camera", camera, NULL);
	ktap_case("killed", killed, NULL);
	ktap_case("python", python, NULL);
	ktap_case("wire", wire, NULL);
	return ktap_run(argc, argv);
}
